// SPDX-License-Identifier: BSD-2-Clause
//! Directives of mod_cache that sections may set anew. A value that is the same for all requests stands in the program; any other is decided in
//! vcl_recv and carried to the backend's side.

use std::collections::BTreeMap;

use super::section::Sections;

/// Directive, the name under which its value is carried, and mod_cache's default.
const SETTINGS: [(&str, &str, &str); 11] = [
    ("cachedefaultexpire", "default", "3600"),
    ("cachemaxexpire", "max", "86400"),
    ("cacheminexpire", "min", "0"),
    ("cachelastmodifiedfactor", "factor", "0.1"),
    ("cachemaxfilesize", "bytes", "1000000"),
    ("cachestorenostore", "nostore", "off"),
    ("cachestoreprivate", "private", "off"),
    ("cacheignorenolastmod", "nolastmod", "off"),
    ("cachestaleonerror", "stale", "on"),
    ("cacheignorequerystring", "noquery", "off"),
    ("cacheignorecachecontrol", "nocontrol", "off"),
];

/// A value, the condition under which it holds, and how late Apache merges the section around it.
struct ScopedValue {
    rank: usize,
    condition: String,
    value: String,
}

#[derive(Default)]
pub(super) struct CacheSettings(BTreeMap<&'static str, Vec<ScopedValue>>);

pub(super) enum SettingValue {
    Constant(String),
    /// Depends on the request: an expression of the backend's side.
    Carried(String),
}

impl CacheSettings {
    pub(super) fn name(directive: &str) -> Option<&'static str> {
        SETTINGS.iter().find(|(known, ..)| *known == directive).map(|(_, name, _)| *name)
    }

    /// False if the value isn't one that Apache takes.
    pub(super) fn set(&mut self, name: &'static str, word: &str, condition: String, sections: &Sections) -> bool {
        let default = SETTINGS.iter().find(|(_, known, _)| *known == name).map_or("", |(.., default)| *default);
        let value = match default {
            "on" | "off" => Some(word.to_ascii_lowercase()).filter(|word| word == "on" || word == "off"),
            _ => word.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0).map(|n| n.to_string()),
        };
        let Some(value) = value else { return false };
        self.0.entry(name).or_default().push(ScopedValue { rank: sections.rank(), condition, value });
        true
    }

    pub(super) fn get(&self, name: &str) -> SettingValue {
        match self.list(name) {
            list if list.iter().all(|one| one.condition.is_empty()) => {
                let default = SETTINGS.iter().find(|(_, known, _)| *known == name).map_or("", |(.., default)| *default);
                SettingValue::Constant(list.last().map_or(default, |one| one.value.as_str()).to_owned())
            }
            _ => SettingValue::Carried(format!("cookie.get(\"{name}\")")),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The values in the order in which Apache merges them.
    fn list(&self, name: &str) -> Vec<&ScopedValue> {
        let mut list: Vec<&ScopedValue> = self.0.get(name).into_iter().flatten().collect();
        list.sort_by_key(|one| one.rank);
        list
    }

    pub(super) fn seconds(&self, name: &str) -> String {
        match self.get(name) {
            SettingValue::Constant(value) => format!("{value}s"),
            SettingValue::Carried(text) => format!("std.duration({text} + \"s\", 0s)"),
        }
    }

    pub(super) fn real(&self, name: &str) -> String {
        match self.get(name) {
            SettingValue::Constant(value) if value.contains('.') => value,
            SettingValue::Constant(value) => format!("{value}.0"),
            SettingValue::Carried(text) => format!("std.real({text}, 0.0)"),
        }
    }

    /// The condition under which a setting is on; `true` and `false` where it doesn't depend on the request.
    pub(super) fn is_on(&self, name: &str) -> String {
        match self.get(name) {
            SettingValue::Constant(value) => (value == "on").to_string(),
            SettingValue::Carried(text) => format!("{text} == \"on\""),
        }
    }

    /// The same on the client's side, for conditions of VCL: `None` where it is off for all requests, an empty text where it is on.
    pub(super) fn is_on_for_client(&self, name: &str) -> Option<String> {
        match self.get(name) {
            SettingValue::Constant(value) => (value == "on").then(String::new),
            SettingValue::Carried(_) => Some(format!("req.http.Apache-{name} == \"on\"")),
        }
    }

    /// The lines of vcl_recv and of vcl_backend_fetch that carry values.
    pub(super) fn carry(&self) -> (Vec<String>, Vec<String>) {
        let (mut recv, mut fetch) = (Vec::new(), Vec::new());
        for (_, name, default) in SETTINGS {
            if matches!(self.get(name), SettingValue::Constant(_)) {
                continue;
            }
            recv.push(format!("set req.http.Apache-{name} = \"{default}\";"));
            for one in self.list(name) {
                let set = format!("set req.http.Apache-{name} = \"{}\";", one.value);
                recv.push(match one.condition.is_empty() {
                    true => set,
                    false => format!("if ({}) {{ {set} }}", one.condition),
                });
            }
            fetch.push(format!("cookie.set(\"{name}\", bereq.http.Apache-{name});"));
            fetch.push(format!("unset bereq.http.Apache-{name};"));
        }
        (recv, fetch)
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Apache's sections, and the conditions under which a request is in them.

use super::reader::Line;
use crate::source::SourcePlace;
use crate::vcl;

/// The sections around a line, and the names of virtual hosts.
pub(super) struct Sections {
    /// The names of each `<VirtualHost>`, by its place.
    pub hosts: Vec<(SourcePlace, Vec<String>)>,
    pub open: Vec<Section>,
}

/// A section: its name in small letters, and the condition under which a request is in it; None of one that can't be translated.
pub(super) struct Section {
    pub name: String,
    pub condition: Option<String>,
}

impl Sections {
    pub(super) fn new(lines: &[Line]) -> Sections {
        let mut hosts: Vec<(SourcePlace, Vec<String>)> = Vec::new();
        let mut is_inside = false;
        for line in lines {
            match line.words[0].to_ascii_lowercase().as_str() {
                "<virtualhost" => {
                    is_inside = true;
                    hosts.push((line.place.clone(), Vec::new()));
                }
                "</virtualhost>" => is_inside = false,
                "servername" | "serveralias" if is_inside => {
                    let names = line.words.iter().skip(1).map(|name| {
                        let name = name.rsplit_once("://").map_or(name.as_str(), |(_, name)| name);
                        name.split(':').next().unwrap_or_default().to_owned()
                    });
                    if let Some((_, all)) = hosts.last_mut() {
                        all.extend(names);
                    }
                }
                _ => {}
            }
        }
        Sections { hosts, open: Vec::new() }
    }

    /// True if the line begins or ends a section.
    pub(super) fn take(&mut self, name: &str, line: &Line) -> bool {
        if let Some(name) = name.strip_prefix("</") {
            let name = name.trim_end_matches('>');
            if let Some(at) = self.open.iter().rposition(|section| section.name == name) {
                self.open.truncate(at);
            }
            return true;
        }
        let Some(name) = name.strip_prefix('<') else { return false };
        let name = name.trim_end_matches('>').to_owned();
        let argument = line.words.get(1).map_or("", |word| word.trim_end_matches('>'));
        let condition = match name.as_str() {
            "ifmodule" | "ifdefine" | "ifversion" | "iffile" | "ifdirective" => Some(String::new()),
            "virtualhost" => self.host(&line.place),
            "location" if argument == "~" => line.words.get(2).and_then(|regex| matching(regex.trim_end_matches('>'))),
            "location" if !argument.contains(['*', '?', '[']) => Some(below(argument)),
            "locationmatch" => matching(argument),
            _ => None,
        };
        self.open.push(Section { name, condition });
        true
    }

    /// The condition of a virtual host's names. The first of all has what no other one is named for, so that the others' names tell it.
    pub(super) fn host(&self, place: &SourcePlace) -> Option<String> {
        let at = self.hosts.iter().position(|(known, _)| known == place)?;
        let of = |names: &[String]| {
            let list: Vec<String> =
                names.iter().map(|name| vcl::literal(name).replace("\\*", ".*").replace("\\?", ".")).collect();
            format!("\"(?i)^({})\\.?(:\\d*)?$\"", list.join("|"))
        };
        // A name that an earlier host has, too, is the earlier one's.
        let others: Vec<String> = match at {
            0 => self.hosts[1..]
                .iter()
                .flat_map(|(_, names)| names)
                .filter(|name| !self.hosts[0].1.contains(name))
                .cloned()
                .collect(),
            _ => self.hosts[..at].iter().flat_map(|(_, names)| names).cloned().collect(),
        };
        let mut all = Vec::new();
        match (at, self.hosts[at].1.is_empty()) {
            (0, _) => {}
            (_, true) => return None,
            (_, false) => all.push(format!("req.http.Host ~ {}", of(&self.hosts[at].1))),
        }
        if !others.is_empty() {
            all.push(format!("req.http.Host !~ {}", of(&others)));
        }
        Some(all.join(" && "))
    }

    /// The condition of all sections around; None where one of them can't be translated.
    pub(super) fn condition(&self) -> Option<String> {
        let all: Option<Vec<&str>> = self.open.iter().map(|section| section.condition.as_deref()).collect();
        Some(all?.into_iter().filter(|condition| !condition.is_empty()).collect::<Vec<_>>().join(" && "))
    }

    /// The condition of the sections around whose condition is known: they hold for more than is in all of them.
    pub(super) fn known(&self) -> String {
        let all = self.open.iter().filter_map(|section| section.condition.as_deref());
        all.filter(|condition| !condition.is_empty()).collect::<Vec<_>>().join(" && ")
    }

    pub(super) fn is_cached(&self, lines: &[Line]) -> bool {
        let has = |line: &Line| line.words[0].eq_ignore_ascii_case("cacheenable");
        self.open.iter().any(|section| section.name.starts_with("location")) && lines.iter().any(has)
    }
}

/// Paths below one, and itself: `/a` has `/a` and `/a/b`, but not `/ab`.
fn below(path: &str) -> String {
    match path.trim_end_matches('/') {
        "" => String::new(),
        _ if path.ends_with('/') => format!("{PATH} ~ \"^{}\"", vcl::literal(path)),
        bare => format!("{PATH} ~ \"^{}(/|$)\"", vcl::literal(bare)),
    }
}

fn matching(regex: &str) -> Option<String> {
    Some(format!("{PATH} ~ {}", vcl::string(regex)?))
}

/// The path without its query, decoded.
pub(super) const PATH: &str = "req.http.Apache-Path";

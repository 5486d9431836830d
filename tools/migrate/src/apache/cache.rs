// SPDX-License-Identifier: BSD-2-Clause
//! The directives of mod_cache: what it keeps, and for how long.

use super::reader::Line;
use super::section::{PATH, Sections};
use crate::migrated::Migrated;
use crate::vcl;

/// The directives of mod_cache: where it keeps responses, and for how long.
#[derive(Default)]
pub(super) struct Cache {
    pub enabled: Vec<String>,
    pub disabled: Vec<String>,
    pub has_enable: bool,
    pub default: Option<f64>,
    pub most: Option<f64>,
    pub least: Option<f64>,
    pub is_stale: bool,
    pub has_no_cookies: bool,
}

impl Cache {
    pub(super) fn take(&mut self, name: &str, line: &Line, sections: &Sections, migrated: &mut Migrated) {
        let word = |i: usize| line.words.get(i).map_or("", String::as_str);
        self.has_enable |= name == "cacheenable";
        let Some(around) = sections.condition() else {
            let section = sections.open.iter().find(|section| section.condition.is_none());
            let section = section.map_or("", |section| section.name.as_str());
            if name != "cacheenable" {
                // The rule may remove any request from what is kept.
                self.disabled.push(String::new());
            }
            return migrated.refuse(
                &line.place,
                word(0),
                format!("within <{section}> it can't be told: these requests are passed"),
            );
        };
        let given = || word(1).parse::<f64>().ok().filter(|seconds| *seconds >= 0.0);
        let is_own = !around.is_empty();
        match name {
            "cacheenable" | "cachedisable" => {
                let path = word(if name == "cacheenable" { 2 } else { 1 });
                if path.contains("://") || path.starts_with('*') || path.starts_with('.') {
                    return migrated.refuse(&line.place, word(0), "of other servers than this one: a forward proxy");
                }
                // Within <Location> it has no path. Any path that begins so is meant: /a has /ab, too.
                let path = match path {
                    "" | "/" => String::new(),
                    path if path.eq_ignore_ascii_case("on") => String::new(),
                    path => format!("{PATH} ~ \"^{}\"", vcl::literal(path)),
                };
                let all: Vec<String> = [around, path].into_iter().filter(|part| !part.is_empty()).collect();
                let list = if name == "cacheenable" { &mut self.enabled } else { &mut self.disabled };
                list.push(all.join(" && "));
            }
            // Times that hold for a part alone: the shortest of them is on the safe side of all.
            "cachedefaultexpire" | "cachemaxexpire" => {
                let list = if name == "cachemaxexpire" { &mut self.most } else { &mut self.default };
                match given() {
                    Some(seconds) => *list = Some(list.map_or(seconds, |known| known.min(seconds))),
                    None => migrated.refuse(&line.place, word(0), "a number of seconds is wanted"),
                }
                if is_own {
                    migrated.note(&line.place, word(0), "the shortest of these times counts for all requests: bereq.http.Host and bereq.url tell them apart in vcl_backend_response");
                }
            }
            "cacheminexpire" if is_own => {
                migrated.refuse(&line.place, word(0), "only for the whole server: in vcl_backend_response by bereq.url")
            }
            "cacheminexpire" => self.least = given(),
            "cachestaleonerror" => self.is_stale = word(1).eq_ignore_ascii_case("on"),
            _ => {
                self.has_no_cookies |= line.words.iter().skip(1).any(|field| field.eq_ignore_ascii_case("set-cookie"));
                for field in
                    line.words.iter().skip(1).filter(|field| {
                        !field.eq_ignore_ascii_case("set-cookie") && !field.eq_ignore_ascii_case("none")
                    })
                {
                    migrated.refuse(
                        &line.place,
                        word(0),
                        format!("`unset beresp.http.{field};` in vcl_backend_response, if it is the same for all"),
                    );
                }
            }
        }
        migrated.translated(&line.place, word(0));
    }

    /// Keeps everything from being kept: a directive that isn't known may ask for that.
    pub(super) fn pass_all(&mut self) {
        self.disabled.push(String::new());
    }
}

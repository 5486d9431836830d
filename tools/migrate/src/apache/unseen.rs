// SPDX-License-Identifier: BSD-2-Clause
//! Lines that change what other lines mean without showing it: rewritten paths, macros, files in directories, variables of the environment.

use super::cache::Cache;
use super::reader::Line;
use super::section::Sections;
use crate::migrated::Migrated;
use crate::source::SourcePlace;

#[derive(Default)]
pub(super) struct Unseen {
    /// Lines that replace the path of a request within Apache.
    rewriting: Vec<SourcePlace>,
    /// Lines that let directories have files with rules of their own, each with the condition of the sections around.
    overriding: Vec<(SourcePlace, String)>,
}

impl Unseen {
    /// True if nothing else is to be said of the line.
    pub(super) fn take(
        &mut self,
        name: &str,
        line: &Line,
        sections: &Sections,
        cache: &mut Cache,
        migrated: &mut Migrated,
    ) -> bool {
        let is_of_environment = line.words.iter().any(|word| word.contains("${"));
        match name {
            "rewriterule" if is_internal(line) => self.rewriting.push(line.place.clone()),
            "allowoverride" if !line.word(1).eq_ignore_ascii_case("none") => {
                self.overriding.push((line.place.clone(), sections.known()));
            }
            "use" => {
                cache.disabled.push(String::new());
                let text = "the macro's lines aren't read: write them out; until then all requests are passed";
                migrated.refuse(&line.place, line.word(0), text);
                return true;
            }
            _ if name.starts_with("cache") && is_of_environment && name != "cacheroot" => {
                cache.disabled.push(String::new());
                let text = "a variable of the environment: Define it; until then all requests are passed";
                migrated.refuse(&line.place, line.word(0), text);
                return true;
            }
            _ => {}
        }
        false
    }

    /// Refuses lines that change what mod_cache goes by if it runs behind all other rules: hits here would pass by them.
    pub(super) fn finish(self, cache: &mut Cache, passed: &[String], migrated: &mut Migrated) {
        if !cache.is_slow {
            return;
        }
        if !cache.disabled.is_empty() || !passed.is_empty() {
            for place in self.rewriting {
                let text =
                    "with CacheQuickHandler off, rules hold for the path that this line makes: all requests are passed";
                migrated.refuse(&place, "RewriteRule", text);
                cache.disabled.push(String::new());
            }
        }
        for (place, around) in self.overriding {
            let text = "files in directories may have rules that hits don't ask: these requests are passed";
            migrated.refuse(&place, "AllowOverride", text);
            cache.disabled.push(around);
        }
    }
}

/// True if a RewriteRule sends the request on within Apache, under another path.
fn is_internal(line: &Line) -> bool {
    let flags = line.word(3).trim_matches(['[', ']']).to_ascii_lowercase();
    let is_away = |flag: &str| {
        let flag = flag.split('=').next().unwrap_or_default().trim();
        matches!(flag, "p" | "proxy" | "r" | "redirect" | "f" | "forbidden" | "g" | "gone")
    };
    line.word(2) != "-" && !line.word(2).contains("://") && !flags.split(',').any(is_away)
}

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
    /// Conditions on what a request says beside its URL, each with the condition of the sections around.
    asking: Vec<(SourcePlace, &'static str, String)>,
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
            "rewritecond" if asks_beside_url(line.word(1)) => {
                self.asking.push((line.place.clone(), "RewriteCond", sections.known()));
            }
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

    /// Notes the beginning of a section whose condition may ask for anything.
    pub(super) fn section(&mut self, name: &str, line: &Line, sections: &Sections) {
        let spelled = match name.trim_end_matches('>') {
            "<if" => "If",
            "<elseif" => "ElseIf",
            "<else" => "Else",
            _ => return,
        };
        self.asking.push((line.place.clone(), spelled, sections.known()));
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
        for (place, directive, around) in self.asking {
            migrated.note(&place, directive, "hits don't reach Apache: these requests are passed");
            cache.disabled.push(around);
        }
        for (place, around) in self.overriding {
            let text = "files in directories may have rules that hits don't ask: these requests are passed";
            migrated.refuse(&place, "AllowOverride", text);
            cache.disabled.push(around);
        }
    }
}

/// Variables of a RewriteCond that are the same for all requests of a URL, or by which responses say that they vary.
const OF_URL: [&str; 19] = [
    "HTTP_HOST",
    "REQUEST_URI",
    "REQUEST_FILENAME",
    "SCRIPT_FILENAME",
    "QUERY_STRING",
    "REQUEST_METHOD",
    "THE_REQUEST",
    "REQUEST_SCHEME",
    "HTTPS",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "DOCUMENT_ROOT",
    "CONTEXT_DOCUMENT_ROOT",
    "CONTEXT_PREFIX",
    "PATH_INFO",
    "HTTP:HOST",
    "HTTP:ACCEPT-ENCODING",
    "HTTP:X-FORWARDED-PROTO",
];

/// True if the test of a RewriteCond asks for more of a request than its URL.
fn asks_beside_url(test: &str) -> bool {
    let test = test.to_ascii_uppercase();
    test.split("%{").skip(1).any(|rest| {
        let name = rest.split('}').next().unwrap_or_default();
        let name = name.strip_prefix("LA-U:").or_else(|| name.strip_prefix("LA-F:")).unwrap_or(name);
        !OF_URL.contains(&name) && !name.starts_with("ENV:")
    })
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

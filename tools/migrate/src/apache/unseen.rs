// SPDX-License-Identifier: BSD-2-Clause
//! Lines that change what other lines mean without showing it: rewritten paths, macros, files in directories, variables of the environment.

use std::collections::BTreeSet;

use super::access;
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
    /// Conditions on variables, each with the condition of the sections around.
    by_variable: Vec<(SourcePlace, String, String)>,
    /// Variables that depend on what a request says beside its URL.
    variables: BTreeSet<String>,
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
            "rewritecond" if asks_beside_url(line) => {
                self.asking.push((line.place.clone(), "RewriteCond", sections.known()));
            }
            "rewritecond" => {
                let asked = asked(line.word(1)).into_iter();
                let variables = asked.filter_map(|name| Some(name.strip_prefix("ENV:")?.to_ascii_lowercase()));
                let around = sections.known();
                self.by_variable.extend(variables.map(|name| (line.place.clone(), name, around.clone())));
            }
            "setenvif" | "setenvifnocase" | "setenvifexpr" | "browsermatch" | "browsermatchnocase"
                if !is_set_by_url(name, line) =>
            {
                let names = access::variables(line);
                self.variables.extend(names.iter().map(|name| name.trim_start_matches('!').to_owned()));
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
        let by_variable = self.by_variable.into_iter().filter(|(_, name, _)| self.variables.contains(name));
        let by_variable = by_variable.map(|(place, _, around)| (place, "RewriteCond", around));
        for (place, directive, around) in self.asking.into_iter().chain(by_variable) {
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

/// True if a RewriteCond asks for more of a request than its URL. An expression may ask for anything; variables that lines
/// set are looked at apart.
fn asks_beside_url(line: &Line) -> bool {
    let is_beside = |name: &String| !OF_URL.contains(&name.as_str()) && !name.starts_with("ENV:");
    line.word(1).eq_ignore_ascii_case("expr") || asked(line.word(1)).iter().any(is_beside)
}

/// The variables in the test of a RewriteCond, in capital letters.
fn asked(test: &str) -> Vec<String> {
    let test = test.to_ascii_uppercase();
    let names = test.split("%{").skip(1).map(|rest| {
        let name = rest.split('}').next().unwrap_or_default();
        name.strip_prefix("LA-U:").or_else(|| name.strip_prefix("LA-F:")).unwrap_or(name)
    });
    names.map(str::to_owned).collect()
}

/// True if a line sets variables by something that is the same for all requests of a URL.
fn is_set_by_url(name: &str, line: &Line) -> bool {
    const OF_LINE: [&str; 5] = ["request_uri", "request_method", "request_protocol", "server_addr", "host"];
    name.starts_with("setenvif")
        && name != "setenvifexpr"
        && OF_LINE.contains(&line.word(1).to_ascii_lowercase().as_str())
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

// SPDX-License-Identifier: BSD-2-Clause
//! Rules of who may see what.

use std::collections::BTreeSet;

use super::known::names_client;
use super::reader::Line;
use super::section::{PATH, Sections};
use crate::migrated::Migrated;
use crate::vcl;

/// Rules of who may see what. A hit doesn't ask Apache, so what they stand for isn't kept; and to Apache every client has the cache's address.
pub(super) struct AccessRules {
    /// The conditions of requests that Apache decides about each time.
    pub passed: Vec<String>,
    /// Conditions of requests whose responses mod_cache doesn't store: an environment variable says so.
    pub unstored: Vec<String>,
    /// Conditions of requests that Apache would let through for the cache's address.
    pub denied: Vec<String>,
    /// The names of all variables that lines set.
    variables: BTreeSet<String>,
    /// True if Apache takes the client's address from X-Forwarded-For already.
    is_client_known: bool,
    /// True if the cache is on the same machine.
    is_local: bool,
}

impl AccessRules {
    pub(super) fn new(lines: &[Line], origin: &str) -> AccessRules {
        let has = |names: &[&str], fits: &dyn Fn(&str) -> bool| {
            lines.iter().any(|line| {
                names.iter().any(|name| line.words[0].eq_ignore_ascii_case(name))
                    && line.words.iter().skip(1).any(|word| fits(word))
            })
        };
        let is_client_known = has(&["remoteipheader"], &|word| word.eq_ignore_ascii_case("x-forwarded-for"))
            && has(&["remoteipinternalproxy"], &|word| matches!(word, "127.0.0.1" | "127.0.0.1/32" | "127.0.0.0/8"));
        let is_local = origin.starts_with("127.") || matches!(origin, "localhost" | "::1");
        let variables = lines.iter().flat_map(variables).collect();
        AccessRules {
            passed: Vec::new(),
            unstored: Vec::new(),
            denied: Vec::new(),
            variables,
            is_client_known,
            is_local,
        }
    }

    pub(super) fn take(&mut self, name: &str, line: &Line, sections: &Sections, migrated: &mut Migrated) -> bool {
        let rest: Vec<String> = line.words.iter().skip(1).map(|word| word.to_ascii_lowercase()).collect();
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        let is_in_none = sections.open.iter().any(|section| section.name == "requirenone");
        // True of a rule that may let the cache's address in, false of one that keeps it out; None of one that doesn't ask for addresses.
        let is_open = match (name, &rest[..]) {
            ("require", ["all", ..]) | ("allow" | "deny", ["from", "all"]) | ("sslverifyclient", ["none"]) => {
                return true;
            }
            ("require", ["not", ..]) => Some(true),
            ("require", ["ip", all @ ..]) => Some(is_in_none || all.iter().any(|address| self.may_be_cache(address))),
            ("require", ["local" | "host" | "forward-dns" | "expr", ..]) => Some(true),
            ("require", _) => is_in_none.then_some(true),
            ("allow" | "deny", ["from", all @ ..]) => {
                let mut hosts = all.iter().filter(|word| !word.starts_with("env=")).peekable();
                let has_hosts = hosts.peek().is_some();
                has_hosts.then(|| name == "deny" || hosts.any(|word| self.may_be_cache(word)))
            }
            ("sslverifyclient" | "sslrequire", _) => Some(true),
            ("authtype" | "satisfy" | "sslrequiressl", _) => None,
            _ if self.unstored(name, line, sections, migrated) => return true,
            ("rewritecond" | "setenvif" | "setenvifnocase" | "setenvifexpr", [first, ..]) => {
                let is_address = ["remote_addr", "remote_host", "conn_remote_addr"].iter().any(|n| first.contains(n))
                    || rest.iter().any(|word| word.contains("remote_addr") || word.contains("remote_host"));
                if !is_address {
                    // The rest of it is said below.
                    self.passed.extend(names_client(line).then(|| sections.known()));
                    return false;
                }
                Some(true)
            }
            ("browsermatch" | "browsermatchnocase", _) => {
                self.passed.extend(names_client(line).then(|| sections.known()));
                return false;
            }
            _ => return false,
        };
        self.add(is_open, name.starts_with("ssl"), line, sections, migrated);
        true
    }

    /// The beginning of a section whose condition may be such a rule.
    pub(super) fn section(&mut self, name: &str, line: &Line, sections: &Sections, migrated: &mut Migrated) {
        if !matches!(name, "<if" | "<elseif") {
            return;
        }
        let text = line.words[1..].join(" ").to_ascii_lowercase();
        let is_address = ["remote", "-r ", "-ipmatch"].iter().any(|word| text.contains(word));
        if is_address {
            self.add(Some(true), false, line, sections, migrated);
        }
    }

    /// Notes the requests whose responses aren't stored as a line sets `no-cache`. True if the line sets nothing else.
    fn unstored(&mut self, name: &str, line: &Line, sections: &Sections, migrated: &mut Migrated) -> bool {
        let variables = variables(line);
        if !variables.iter().any(|variable| may_be_no_cache(variable)) {
            return false;
        }
        let own = self.condition(name, line);
        if sections.condition().is_none() {
            let text = format!("within <{}> it can't be told: these requests are passed", sections.unknown());
            migrated.note(&line.place, line.word(0), text);
        } else if own.is_none() && name != "setenv" {
            let text = "for which requests it sets no-cache isn't known here: all in this section are passed";
            migrated.note(&line.place, line.word(0), text);
        }
        let all = [sections.known(), own.unwrap_or_default()];
        self.unstored.push(all.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" && "));
        name != "rewriterule" && variables.iter().all(|variable| may_be_no_cache(variable))
    }

    /// The condition under which a line sets variables; None of one that always does, or where VCL can't tell.
    fn condition(&self, name: &str, line: &Line) -> Option<String> {
        let flag = if name.ends_with("nocase") { "(?i)" } else { "" };
        let (of, regex) = match name {
            "browsermatch" | "browsermatchnocase" => ("User-Agent", line.word(1)),
            "setenvif" | "setenvifnocase" => (line.word(1), line.word(2)),
            _ => return None,
        };
        // A name that no request header has may be that of a variable, which another line sets.
        let is_variable = self.variables.iter().any(|name| name.eq_ignore_ascii_case(of) || is_dynamic(name));
        let is_header = of.contains(|c: char| c.is_ascii_alphabetic())
            && of.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
            && !is_variable;
        let subject = match of.to_ascii_lowercase().as_str() {
            "request_uri" => PATH.to_owned(),
            "request_method" => "req.method".to_owned(),
            _ if is_header => format!("req.http.{of}"),
            _ => return None,
        };
        Some(format!("{subject} ~ {}", vcl::string(&format!("{flag}{regex}"))?))
    }

    fn add(&mut self, is_open: Option<bool>, is_tls: bool, line: &Line, sections: &Sections, migrated: &mut Migrated) {
        let around = sections.known();
        let word = line.words[0].trim_start_matches('<');
        let is_refused = is_open.is_some() && (is_tls || !self.is_client_known);
        let is_denied = is_refused && is_open == Some(true);
        let text = match (is_denied, is_tls) {
            (true, true) => {
                "Apache no longer speaks TLS: client-verify in tls.conf; until then these requests are answered with 403"
            }
            (true, false) => {
                "to Apache every client has the cache's address: mod_remoteip with RemoteIPHeader X-Forwarded-For and RemoteIPInternalProxy 127.0.0.1; until then these requests are answered with 403"
            }
            (false, _) if is_refused => {
                "to Apache every client has the cache's address, which it keeps out: mod_remoteip with RemoteIPHeader X-Forwarded-For and RemoteIPInternalProxy 127.0.0.1"
            }
            (false, _) => "hits don't reach Apache: these requests are passed",
        };
        match is_refused {
            true => migrated.refuse(&line.place, word, text),
            false => {
                migrated.note(&line.place, word, text);
                migrated.translated(&line.place, word);
            }
        }
        if is_denied {
            self.denied.push(around.clone());
        }
        self.passed.push(around);
    }

    /// True if an address of a rule may be the cache's own: a full one, its beginning, or a network.
    fn may_be_cache(&self, word: &str) -> bool {
        let (begin, bits) = word.split_once('/').map_or((word, None), |(begin, bits)| (begin, Some(bits)));
        let is_plain =
            begin.starts_with(|c: char| c.is_ascii_digit()) && begin.bytes().all(|c| c.is_ascii_digit() || c == b'.');
        let is_wide = bits.is_some_and(|bits| bits.parse::<u8>().is_ok_and(|bits| bits < 8) || bits.starts_with("0."));
        !self.is_local || !is_plain || is_wide || begin.split('.').next() == Some("127")
    }
}

/// The variables that a line sets, in small letters: mod_cache looks `no-cache` up so.
pub(super) fn variables(line: &Line) -> Vec<String> {
    let begin = match line.name().as_str() {
        "setenv" => return vec![line.word(1).to_ascii_lowercase()],
        "passenv" => 1,
        "setenvifexpr" | "browsermatch" | "browsermatchnocase" => 2,
        "setenvif" | "setenvifnocase" => 3,
        "rewriterule" => return rewrite_variables(line),
        _ => return Vec::new(),
    };
    let words = line.words.get(begin..).unwrap_or_default().iter();
    words.map(|word| word.split('=').next().unwrap_or_default().to_ascii_lowercase()).collect()
}

/// Variables that the flags `[E=NAME:VALUE]` of a RewriteRule set.
fn rewrite_variables(line: &Line) -> Vec<String> {
    let flags = line.words.get(3..).unwrap_or_default().join(" ").to_ascii_lowercase();
    let flags = flags.trim_matches(['[', ']']).split(',').filter_map(|flag| flag.trim().split_once('='));
    flags
        .filter(|(flag, _)| matches!(*flag, "e" | "env"))
        .map(|(_, variable)| variable.split(':').next().unwrap_or_default().to_owned())
        .collect()
}

/// True of the name of a variable that the request or the environment makes.
fn is_dynamic(variable: &str) -> bool {
    variable.contains(['$', '%'])
}

fn may_be_no_cache(variable: &str) -> bool {
    variable == "no-cache" || is_dynamic(variable)
}

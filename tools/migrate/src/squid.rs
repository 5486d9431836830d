// SPDX-License-Identifier: BSD-2-Clause
//! squid as an accelerator: its ports, its origins (`cache_peer`), acls, access, what it keeps and how long. squid as a proxy for clients of one's
//! own network has no counterpart here.

mod acl;
mod known;
mod line;
mod peer;
mod port;
mod program;
mod refresh;
mod response;
mod rule;
mod setting;
#[cfg(test)]
mod tests;
mod units;

use std::collections::{BTreeMap, BTreeSet};

use acl::{HOST, domain, folded, is_flag};
use known::Fate;
use line::{Line, read};
use peer::Peer;
use port::Port;
use refresh::RefreshRule;
use rule::{LISTS, Rule};

use crate::migrated::Migrated;
use crate::regex;
use crate::source::FileSource;
use crate::vcl::GivenNames;

/// Translates a configuration.
///
/// # Errors
/// It can't be read.
pub fn migrate(file: &str, files: &dyn FileSource) -> Result<Migrated, String> {
    let mut lines = Vec::new();
    read(file, files, &mut lines, 0)?;
    if lines.is_empty() {
        return Err(format!("{file}: there is no directive in it"));
    }
    lines.iter().try_for_each(regexes)?;
    let mut squid = Squid::default();
    let mut migrated = Migrated::default();
    for line in &lines {
        migrated.account.read(&line.place, line.word(0));
        squid.take(line, &mut migrated);
    }
    squid.finish(&mut migrated);
    Ok(migrated)
}

/// Checks the regexes of a line.
///
/// # Errors
/// VCL doesn't take one of them; the text says where.
fn regexes(line: &Line) -> Result<(), String> {
    let has_any = match (line.word(0), line.word(2)) {
        ("refresh_pattern", _) => true,
        ("acl", kind) => kind.ends_with("_regex") || matches!(kind, "browser" | "req_header"),
        _ => false,
    };
    let begin = match line.word(0) {
        "acl" => 3 + usize::from(line.word(2) == "req_header"),
        _ => 1,
    };
    let mut all = line.rest(begin).iter().filter(|word| !is_flag(word));
    // Behind the regex of refresh_pattern there are numbers and options.
    let most = if line.word(0) == "acl" { usize::MAX } else { 1 };
    let mut all = all.by_ref().take(if has_any { most } else { 0 });
    all.try_for_each(|text| regex::check(&line.place, line.word(0), text))
}

/// The least number of words that a directive has behind its name, and their names.
const WANTED: [(&str, usize, &str); 11] = [
    ("http_port", 1, "a port and its options"),
    ("https_port", 1, "a port and its options"),
    ("cache_peer", 4, "HOST TYPE HTTP-PORT ICP-PORT"),
    ("cache_peer_domain", 2, "a peer and its domains"),
    ("cache_peer_access", 2, "a peer, allow or deny, and acls"),
    ("acl", 3, "a name, a type and values"),
    ("http_access", 1, "allow or deny, and acls"),
    ("cache", 1, "allow or deny, and acls"),
    ("no_cache", 1, "allow or deny, and acls"),
    ("cache_mem", 1, "a number and its unit"),
    ("maximum_object_size", 1, "a number and its unit"),
];

/// The parts of a configuration that were read so far.
#[derive(Default)]
struct Squid {
    /// Each acl's conditions, any of which makes it hold.
    acls: BTreeMap<String, Vec<String>>,
    acl_bytes: BTreeMap<String, usize>,
    /// Bytes of all conditions so far.
    condition_bytes: usize,
    /// Acls that can't be translated.
    unknown: BTreeSet<String>,
    /// Declarations of VCL's acls.
    networks: BTreeMap<String, Vec<String>>,
    /// The names in VCL of acls and peers.
    names: GivenNames,
    peers: Vec<Peer>,
    /// Lines of `cache_dir` so far.
    directories: usize,
    /// `cache_peer_access`, by the peer's name.
    peer_rules: BTreeMap<String, Vec<Rule>>,
    rules: BTreeMap<&'static str, Vec<Rule>>,
    refresh: Vec<RefreshRule>,
    /// Seconds for which an old response may serve while the origin fails.
    most_stale: Option<u64>,
    most_bytes: Option<u64>,
    negative: u64,
    /// A directive that can't be translated changes what is kept: then nothing is.
    is_passing: bool,
    ports: Vec<Port>,
    is_tls: bool,
    /// An acl names the method PURGE: without one squid denies it.
    has_purge: bool,
    /// Conditions of requests that squid would ask for what isn't asked for here.
    denied: Vec<String>,
}

impl Squid {
    fn take(&mut self, line: &Line, migrated: &mut Migrated) {
        if let Some((_, least, wanted)) = WANTED.iter().find(|(name, ..)| *name == line.word(0))
            && line.words.len() <= *least
        {
            return migrated.refuse(&line.place, line.word(0), format!("{wanted} are wanted behind it"));
        }
        match line.word(0) {
            "http_port" | "https_port" => self.port(line, migrated),
            "cache_peer" => self.peer(line, migrated),
            "cache_peer_domain" => self.peer_domain(line, migrated),
            "cache_peer_access" => self.peer_access(line, migrated),
            "acl" => self.acl(line, migrated),
            "http_access" | "cache" | "no_cache" | "miss_access" | "always_direct" => self.listed(line, migrated),
            "refresh_pattern" => self.refresh(line, migrated),
            _ if self.setting(line, migrated) => {}
            other => match known::fate(other) {
                Fate::WithoutMeaning(reason) => migrated.without_meaning(&line.place, other, reason),
                Fate::Noted(text) => noted(line, text, migrated),
                Fate::Refused(text) => migrated.refuse(&line.place, other, text),
                Fate::Passed(text) => self.passed(line, text, migrated),
            },
        }
    }

    fn peer_domain(&mut self, line: &Line, migrated: &mut Migrated) {
        let rules = self.peer_rules.entry(folded(line.word(1))).or_default();
        for host in line.rest(2) {
            let (is_allowed, host) = host.strip_prefix('!').map_or((true, host.as_str()), |host| (false, host));
            let condition = format!("{HOST} ~ \"(?i)^({})$\"", domain(host));
            rules.push(Rule { is_allowed, condition });
        }
        migrated.note(&line.place, "cache_peer_domain", "squid heeds it up to 3.5; later ones say that it is obsolete");
        claim(line, migrated);
    }

    fn peer_access(&mut self, line: &Line, migrated: &mut Migrated) {
        if let Some(rule) = self.rule(line.word(2), line.rest(3), line, migrated) {
            self.peer_rules.entry(folded(line.word(1))).or_default().push(rule);
            claim(line, migrated);
        }
    }

    /// A line of a list that holds for all peers.
    fn listed(&mut self, line: &Line, migrated: &mut Migrated) {
        let name = if line.word(0) == "no_cache" { "cache" } else { line.word(0) };
        if let Some(rule) = self.rule(line.word(1), line.rest(2), line, migrated)
            && let Some(list) = LISTS.into_iter().find(|list| *list == name)
        {
            self.rules.entry(list).or_default().push(rule);
            claim(line, migrated);
        }
        if name == "always_direct" && line.word(1) == "allow" {
            let text = "origins that squid finds by the name in Host aren't asked here: these requests get 503";
            migrated.refuse(&line.place, "always_direct", text);
        }
    }

    /// The name in VCL of an acl or a peer.
    fn name(&mut self, kind: &'static str, text: &str) -> String {
        self.names.of(kind, text, &["squid_", "peers_"])
    }

    /// Refuses a directive that changes what is kept, or what is sent of it.
    fn passed(&mut self, line: &Line, text: &str, migrated: &mut Migrated) {
        self.is_passing = true;
        migrated.refuse(&line.place, line.word(0), format!("{text}; until then all requests are passed"));
    }
}

/// Claims a line: the result does what it asks for.
fn claim(line: &Line, migrated: &mut Migrated) {
    migrated.translated(&line.place, line.word(0));
}

/// Says of a line that the text holds here anyway.
fn noted(line: &Line, text: &str, migrated: &mut Migrated) {
    migrated.note(&line.place, line.word(0), text);
    migrated.without_meaning(&line.place, line.word(0), text);
}

fn push(migrated: &mut Migrated, letter: &str, value: &str) {
    migrated.arguments.extend([letter.to_owned(), value.to_owned()]);
}

// SPDX-License-Identifier: BSD-2-Clause
//! squid's acls as conditions of VCL, and what they are compared with: Host and URL as squid reads them.

use std::collections::BTreeSet;

use super::line::Line;
use super::rule::{TOO_LONG, all_of, any_of, not};
use super::units::Networks;
use super::{Squid, claim};
use crate::migrated::Migrated;
use crate::vcl;

impl Squid {
    pub(super) fn known(&self, name: &str) -> Option<String> {
        let name = folded(name);
        if self.unknown.contains(&name) {
            return None;
        }
        // Lines for one of these add to what squid itself says of it.
        let all: Vec<String> = built_in(&name)
            .map(str::to_owned)
            .into_iter()
            .chain(self.acls.get(&name).into_iter().flatten().cloned())
            .collect();
        (!all.is_empty()).then(|| any_of(&all))
    }

    pub(super) fn acl(&mut self, line: &Line, migrated: &mut Migrated) {
        let (name, kind) = (folded(line.word(1)), line.word(2));
        let values: Vec<&str> = line.rest(3).iter().map(String::as_str).filter(|word| !is_flag(word)).collect();
        if values.iter().any(|value| value.starts_with('"')) {
            migrated.refuse(&line.place, "acl", "the file with its values can't be read");
            self.unknown.insert(name);
            return;
        }
        let (begin, regexes) = regexes(line.rest(if kind == "req_header" { 4 } else { 3 }));
        let any = |of: &str| vcl::one_of(of, false, (begin, ")"), &regexes).unwrap_or_default();
        if any(HOST).is_empty() {
            migrated.refuse(&line.place, "acl", "its values can't be written in VCL");
            self.unknown.insert(name);
            return;
        }
        let condition = match kind {
            // No value: nothing is equal to it.
            kind if regexes.is_empty() && KINDS.contains(&kind) => "false".to_owned(),
            "src" if values == ["all"] => "true".to_owned(),
            "src" => {
                let Some(networks) = values.iter().map(|value| Networks::of(value)).collect::<Option<Vec<_>>>() else {
                    migrated.refuse(
                        &line.place,
                        "acl",
                        "addresses, networks or ranges are wanted: write those of a name",
                    );
                    self.unknown.insert(name);
                    return;
                };
                if networks.iter().any(|network| network.is_cut) {
                    migrated.note(&line.place, "acl", "the mask cuts a part of the address off, as in squid");
                }
                let networks = networks.into_iter().flat_map(|network| network.entries);
                let own = self.name("acl", &name);
                let condition = format!("client.ip ~ {own}");
                self.networks.entry(own).or_default().extend(networks);
                condition
            }
            "dstdomain" => {
                let hosts: Vec<String> = values.iter().map(|host| domain(host)).collect();
                vcl::one_of(HOST, false, ("(?i)^(", ")$"), &hosts).unwrap_or_default()
            }
            "dstdom_regex" => any(HOST),
            "urlpath_regex" => any(PATH),
            "url_regex" => any(WHOLE),
            "any-of" | "all-of" => {
                if !self.can_join(line.rest(3)) {
                    migrated.refuse(&line.place, "acl", TOO_LONG);
                    self.unknown.insert(name);
                    return;
                }
                let mut seen = BTreeSet::new();
                let all: Option<Vec<String>> = values
                    .iter()
                    .filter(|value| seen.insert(**value))
                    .map(|value| match value.strip_prefix('!') {
                        Some(inner) => self.known(inner).map(|one| not(&one)),
                        None => self.known(value),
                    })
                    .collect();
                match (all, kind) {
                    (Some(all), "all-of") => all_of(&all),
                    (Some(all), _) => any_of(&all),
                    (None, _) => {
                        migrated.refuse(&line.place, "acl", "one of its acls can't be translated");
                        self.unknown.insert(name);
                        return;
                    }
                }
            }
            "req_header" if !values.is_empty() && is_header(values[0]) => any(&format!("req.http.{}", values[0])),
            "port" | "myport" | "localport" => {
                let Some(ports) = ports(
                    if kind == "port" { "std.integer(req.http.Squid-Port, 0)" } else { "std.port(local.ip)" },
                    &values,
                ) else {
                    migrated.refuse(&line.place, "acl", "ports are wanted: NUMBER or NUMBER-NUMBER");
                    self.unknown.insert(name);
                    return;
                };
                ports
            }
            "method" if values.iter().all(|value| is_header(value)) => {
                self.has_purge |= values.contains(&"PURGE");
                values.iter().map(|v| format!("req.method == \"{v}\"")).collect::<Vec<_>>().join(" || ")
            }
            "proto" => format!("{WHOLE} ~ \"(?i)^({})://\"", literals(&values)),
            "browser" => any("req.http.User-Agent"),
            "referer_regex" => any("req.http.Referer"),
            _ => {
                migrated.refuse(
                    &line.place,
                    "acl",
                    format!("kind {kind} has no counterpart: lines that name {name} allow nothing by it"),
                );
                self.unknown.insert(name);
                return;
            }
        };
        if !self.count_condition(condition.len()) {
            migrated.refuse(&line.place, "acl", TOO_LONG);
            self.unknown.insert(name);
            return;
        }
        *self.acl_bytes.entry(name.clone()).or_default() += condition.len();
        let known = self.acls.entry(name).or_default();
        if !known.contains(&condition) {
            known.push(condition);
        }
        claim(line, migrated);
    }
}

/// A name of an acl or a peer as squid compares it: small and capital letters are the same.
pub(super) fn folded(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// The conditions of the acls that squid has by itself.
fn built_in(name: &str) -> Option<&'static str> {
    Some(match name {
        "all" => "true",
        "localhost" => "client.ip == \"127.0.0.1\" || client.ip == \"::1\"",
        "manager" => "req.http.Squid-Path ~ \"^/squid-internal-mgr/\"",
        "to_localhost" => "req.http.Squid-Host ~ \"(?i)^(localhost|127\\.[0-9.]+|0\\.0\\.0\\.0|\\[::1?\\])$\"",
        "to_linklocal" => "req.http.Squid-Host ~ \"(?i)^(169\\.254\\.[0-9.]+|\\[fe80:[^]]*\\])$\"",
        "connect" => "req.method == \"CONNECT\"",
        _ => return None,
    })
}

#[rustfmt::skip]
const KINDS: [&str; 15] = [
    "src", "dstdomain", "dstdom_regex", "urlpath_regex", "url_regex", "any-of", "all-of", "req_header", "port", "myport", "localport", "method", "proto",
    "browser", "referer_regex",
];

/// Flags of acls: `-i` and `+i` are for the regexes behind them, the others ask for nothing here.
pub(super) fn is_flag(word: &str) -> bool {
    matches!(word, "-i" | "+i" | "-n" | "--")
}

/// The regexes of an acl, and what stands before them: `-i` and `+i` are for those behind them.
fn regexes(words: &[String]) -> (&'static str, Vec<String>) {
    let mut is_ignoring_case = false;
    let mut all = Vec::new();
    for word in words {
        match word.as_str() {
            "-i" => is_ignoring_case = true,
            "+i" => is_ignoring_case = false,
            flag if is_flag(flag) => {}
            regex => all.push((is_ignoring_case, regex)),
        }
    }
    let ignoring = all.iter().filter(|(ignores, _)| *ignores).count();
    if ignoring == 0 || ignoring == all.len() {
        let begin = if ignoring == 0 { "(" } else { "(?i)(" };
        return (begin, all.iter().map(|(_, regex)| (*regex).to_owned()).collect());
    }
    let mixed = |(ignores, regex): &(bool, &str)| format!("(?{}:{regex})", if *ignores { "i" } else { "" });
    ("(", all.iter().map(mixed).collect())
}

fn literals(values: &[&str]) -> String {
    values.iter().map(|value| vcl::literal(value)).collect::<Vec<_>>().join("|")
}

/// The name in Host as squid compares it: without a port.
pub(super) const HOST: &str = "req.http.Squid-Host";

/// The path with its query as the regexes of acls see it: decoded.
pub(super) const PATH: &str = "req.http.Squid-Path";

/// The URL as they see it.
pub(super) const WHOLE: &str = "req.http.Squid-Url";

pub(super) const PORT: &str = "req.http.Squid-Port";

/// The lines that write Host as squid does: in small letters, without dots at its end, and without the port that its scheme has anyway.
pub(super) fn normal_host(is_tls: bool) -> Vec<String> {
    let default = match is_tls {
        true => vcl::chain(vec![
            ("req.http.X-Forwarded-Proto == \"https\"".to_owned(), vec![without_port(443)]),
            (String::new(), vec![without_port(80)]),
        ]),
        false => vec![without_port(80)],
    };
    NORMAL.lines().map(str::to_owned).chain(default).collect()
}

fn without_port(port: u16) -> String {
    format!("if (req.http.Host) {{ set req.http.Host = regsub(req.http.Host, \":{port}$\", \"\"); }}")
}

const NORMAL: &str = r#"# Host as squid writes it.
if (req.http.Host !~ "^(\[[^]]*\]|[^:]*)(:\d+)?$") {
	return (synth(400));
}
if (req.http.Host) {
	set req.http.Host = regsub(regsub(std.tolower(req.http.Host), "\.*(:\d+)?$", "\1"), ":0+(\d+)$", ":\1");
}"#;

/// The lines that set these four.
pub(super) fn compared(is_tls: bool) -> Vec<String> {
    let (scheme, default) = match is_tls {
        true => (
            "regsub(req.http.X-Forwarded-Proto, \"^(?!https$).*$\", \"http\")",
            "regsub(regsub(req.http.X-Forwarded-Proto, \"^(?!https$).*$\", \"80\"), \"^https$\", \"443\")",
        ),
        false => ("\"http\"", "\"80\""),
    };
    COMPARED.replace("SCHEME", scheme).replace("DEFAULT", default).lines().map(str::to_owned).collect()
}

const COMPARED: &str = r#"# What acls are compared with: decoded, and Host without a port.
if (req.url !~ "^/" && req.url != "*" || req.url ~ "%(00|0[aA]|0[dD]|[^0-9a-fA-F]|.[^0-9a-fA-F]|.?$)") {
	return (synth(400));
}
set req.http.Squid-Host = regsub(req.http.Host, ":\d+$", "");
set req.http.Squid-Path = blob.transcode(decoding=URL, encoded=req.url);
set req.http.Squid-Url = SCHEME + "://" + req.http.Host + req.http.Squid-Path;
set req.http.Squid-Port = regsub(req.http.Host, "^.*?(:(\d+))?$", "\2");
if (req.http.Squid-Port == "") { set req.http.Squid-Port = DEFAULT; }"#;

/// The condition that a number is one of these ports; None if one of them is none.
fn ports(of: &str, values: &[&str]) -> Option<String> {
    let one = |value: &&str| {
        let (low, high) = value.split_once('-').unwrap_or((*value, *value));
        let (low, high) = (low.parse::<u16>().ok()?, high.parse::<u16>().ok()?);
        match low == high {
            true => Some(format!("{of} == {low}")),
            false => (low < high).then(|| format!("({of} >= {low} && {of} <= {high})")),
        }
    };
    Some(any_of(&values.iter().map(one).collect::<Option<Vec<_>>>()?))
}

pub(super) fn is_header(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
}

/// `.a.org` is a.org and all below.
pub(super) fn domain(host: &str) -> String {
    match host.strip_prefix('.') {
        Some(rest) => format!("(.+\\.)?{}", vcl::literal(rest)),
        None => vcl::literal(host),
    }
}

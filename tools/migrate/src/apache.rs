// SPDX-License-Identifier: BSD-2-Clause
//! Apache: it goes on serving its sites, behind the cache. Its `Listen` and `VirtualHost` lines get another port, its `LogFormat` lines the client's
//! address as the cache tells it; what mod_cache kept is kept by the cache.

use std::rc::Rc;

use crate::migrated::Migrated;
use crate::source::{FileSource, SourcePlace, beside, directory_of};
use crate::vcl;

/// Depth to which includes may nest.
const MAX_DEPTH: usize = 20;

/// Ports that Apache has for TLS: the cache takes them over, with their certificates.
const TLS_PORT: &str = "443";

struct Line {
    words: Vec<String>,
    place: SourcePlace,
}

/// Translates a configuration; `origin` is where Apache is to listen from now on.
///
/// # Errors
/// A file can't be read.
pub fn migrate(file: &str, origin: (&str, &str), files: &dyn FileSource) -> Result<Migrated, String> {
    let mut migrated = Migrated::default();
    let mut reader = Reader { files, origin, root: directory_of(file).to_owned(), lines: Vec::new() };
    reader.file(file, 0, &mut migrated)?;
    let lines = reader.lines;
    if lines.is_empty() {
        return Err(format!("{file}: there is no directive in it"));
    }
    listens(&lines, &mut migrated);
    let mut cache = Cache::default();
    let mut rules = AccessRules::new(&lines, origin.0);
    let mut sections = Sections::new(&lines);
    for line in &lines {
        let word = |i: usize| line.words.get(i).map_or("", String::as_str);
        let name = word(0).to_ascii_lowercase();
        if sections.take(&name, line) {
            rules.section(&name, line, &sections, &mut migrated);
            continue;
        }
        if rules.take(&name, line, &sections, &mut migrated) {
            continue;
        }
        match name.as_str() {
            "cacheenable" | "cachedisable" | "cachedefaultexpire" | "cachemaxexpire" | "cacheminexpire"
            | "cachestaleonerror" | "cacheignoreheaders" => cache.take(&name, line, &sections, &mut migrated),
            "cacheroot" => storage(line, &mut migrated),
            "sslcertificatefile" | "sslcertificatekeyfile" => {}
            "requestheader" | "header" if sections.is_cached(&lines) => {
                migrated.note(
                    &line.place,
                    word(0),
                    "Apache goes on doing this, for what reaches it: hits and VCL see the client's own headers",
                );
            }
            _ => known(&name, line, &mut migrated),
        }
    }
    certificates(&lines, &mut migrated);
    rules.denied.extend(addresses(&lines, &sections, &mut migrated));
    migrated.vcl = cache.program(origin, rules);
    Ok(migrated)
}

/// The sections around a line, and the names of virtual hosts.
struct Sections {
    /// The names of each `<VirtualHost>`, by its place.
    hosts: Vec<(SourcePlace, Vec<String>)>,
    open: Vec<Section>,
}

/// A section: its name in small letters, and the condition under which a request is in it; None of one that can't be translated.
struct Section {
    name: String,
    condition: Option<String>,
}

impl Sections {
    fn new(lines: &[Line]) -> Sections {
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
    fn take(&mut self, name: &str, line: &Line) -> bool {
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
    fn host(&self, place: &SourcePlace) -> Option<String> {
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
    fn condition(&self) -> Option<String> {
        let all: Option<Vec<&str>> = self.open.iter().map(|section| section.condition.as_deref()).collect();
        Some(all?.into_iter().filter(|condition| !condition.is_empty()).collect::<Vec<_>>().join(" && "))
    }

    /// The condition of the sections around whose condition is known: they hold for more than is in all of them.
    fn known(&self) -> String {
        let all = self.open.iter().filter_map(|section| section.condition.as_deref());
        all.filter(|condition| !condition.is_empty()).collect::<Vec<_>>().join(" && ")
    }

    fn is_cached(&self, lines: &[Line]) -> bool {
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
const PATH: &str = "req.http.Apache-Path";

/// Rules of who may see what. A hit doesn't ask Apache, so what they stand for isn't kept; and to Apache every client has the cache's address.
struct AccessRules {
    /// The conditions of requests that Apache decides about each time.
    passed: Vec<String>,
    /// Those of requests that Apache would let through for the cache's address.
    denied: Vec<String>,
    /// True if Apache takes the client's address from X-Forwarded-For already.
    is_client_known: bool,
    /// True if the cache is on the same machine.
    is_local: bool,
}

impl AccessRules {
    fn new(lines: &[Line], origin: &str) -> AccessRules {
        let has = |names: &[&str], fits: &dyn Fn(&str) -> bool| {
            lines.iter().any(|line| {
                names.iter().any(|name| line.words[0].eq_ignore_ascii_case(name))
                    && line.words.iter().skip(1).any(|word| fits(word))
            })
        };
        let is_client_known = has(&["remoteipheader"], &|word| word.eq_ignore_ascii_case("x-forwarded-for"))
            && has(&["remoteipinternalproxy"], &|word| matches!(word, "127.0.0.1" | "127.0.0.1/32" | "127.0.0.0/8"));
        let is_local = origin.starts_with("127.") || matches!(origin, "localhost" | "::1");
        AccessRules { passed: Vec::new(), denied: Vec::new(), is_client_known, is_local }
    }

    /// True if the line is such a rule.
    fn take(&mut self, name: &str, line: &Line, sections: &Sections, migrated: &mut Migrated) -> bool {
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
    fn section(&mut self, name: &str, line: &Line, sections: &Sections, migrated: &mut Migrated) {
        if !matches!(name, "<if" | "<elseif") {
            return;
        }
        let text = line.words[1..].join(" ").to_ascii_lowercase();
        let is_address = ["remote", "-r ", "-ipmatch"].iter().any(|word| text.contains(word));
        if is_address {
            self.add(Some(true), false, line, sections, migrated);
        }
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
            false => migrated.note(&line.place, word, text),
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

/// The conditions under which a request would reach a virtual host by an address or port that it wasn't for: they all have one port now, and
/// Host alone tells them apart.
fn addresses(lines: &[Line], sections: &Sections, migrated: &mut Migrated) -> Vec<String> {
    let all: Vec<(&Line, Vec<&str>)> = lines
        .iter()
        .filter(|line| line.words[0].eq_ignore_ascii_case("<virtualhost"))
        .map(|line| {
            let words = line.words[1..].iter().map(|word| word.trim_end_matches('>')).filter(|word| !word.is_empty());
            let mut words: Vec<&str> = words.collect();
            words.sort_unstable();
            (line, words)
        })
        .collect();
    let Some((_, first)) = all.first() else { return Vec::new() };
    if all.iter().all(|(_, words)| words == first) {
        return Vec::new();
    }
    let mut out = Vec::new();
    for (line, words) in &all {
        let text = "virtual hosts of other addresses or ports become one listener: those that ask by another one for this host are answered with 403";
        migrated.refuse(&line.place, "VirtualHost", text);
        let Some(host) = sections.host(&line.place) else { continue };
        let own: Option<Vec<String>> = words.iter().map(|word| arrival(word)).collect();
        // The address of a name is unknown here: nobody reaches that host.
        let own = own.unwrap_or_else(|| vec!["false".to_owned()]).join(" || ");
        out.push(
            [host, format!("!({own})")].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" && "),
        );
    }
    out
}

/// The condition under which a request came in by an address of `<VirtualHost>`; None of a name.
fn arrival(word: &str) -> Option<String> {
    let (host, port) = match word.rsplit_once(':').filter(|(host, _)| !host.starts_with('[') || host.ends_with(']')) {
        Some((host, port)) => (host, Some(port)),
        None => (word, None),
    };
    let mut all = Vec::new();
    if let Some(port) = port.filter(|port| *port != "*") {
        all.push(format!("std.port(local.ip) == {}", port.parse::<u16>().ok()?));
    }
    if host != "*" && !host.eq_ignore_ascii_case("_default_") {
        let ip: std::net::IpAddr = host.trim_matches(['[', ']']).parse().ok()?;
        all.push(format!("local.ip == \"{ip}\""));
    }
    Some(if all.is_empty() { "true".to_owned() } else { all.join(" && ") })
}

/// The directives of mod_cache: where it keeps responses, and for how long.
#[derive(Default)]
struct Cache {
    enabled: Vec<String>,
    disabled: Vec<String>,
    has_enable: bool,
    default: Option<f64>,
    most: Option<f64>,
    least: Option<f64>,
    is_stale: bool,
    has_no_cookies: bool,
}

impl Cache {
    fn take(&mut self, name: &str, line: &Line, sections: &Sections, migrated: &mut Migrated) {
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
    }

    /// The whole program: Apache is the one backend, and knows its sites by Host.
    fn program(&self, (host, port): (&str, &str), rules: AccessRules) -> String {
        let mut recv = Vec::new();
        let disabled: Vec<String> = self.disabled.iter().chain(&rules.passed).cloned().collect();
        let any = |all: &[String]| match all.iter().any(String::is_empty) {
            true => String::new(),
            false => all
                .iter()
                .map(|one| if all.len() > 1 { format!("({one})") } else { one.clone() })
                .collect::<Vec<_>>()
                .join(" || "),
        };
        if self.is_stale {
            recv.push("if (req.restarts == 0) { unset req.http.Apache-Stale; }".to_owned());
        }
        if !rules.denied.is_empty() {
            recv.extend(vcl::chain(vec![(any(&rules.denied), vec!["return (synth(403));".to_owned()])]));
        }
        if !self.enabled.is_empty() && !disabled.is_empty() {
            recv.extend(vcl::chain(vec![(any(&disabled), vec!["return (pass);".to_owned()])]));
        }
        if !self.enabled.iter().any(String::is_empty) {
            match self.enabled.is_empty() {
                true => recv.push("return (pass);".to_owned()),
                false => recv.push(format!("if (!({})) {{ return (pass); }}", any(&self.enabled))),
            }
        }
        if self.is_stale {
            recv.push("if (req.http.Apache-Stale == \"there\") { set req.grace = 0s; }".to_owned());
            recv.push(format!("if (req.http.Apache-Stale == \"serve\") {{ set req.grace = {STALE}s; }}"));
        }
        let mut response = Vec::new();
        if let Some(seconds) = self.default {
            response.push(format!(
                "if (!beresp.http.Cache-Control && !beresp.http.Expires && beresp.ttl > 0s) {{ set beresp.ttl = {seconds}s; }}"
            ));
        }
        if let Some(seconds) = self.least {
            response
                .push(format!("if (beresp.ttl > 0s && beresp.ttl < {seconds}s) {{ set beresp.ttl = {seconds}s; }}"));
        }
        if let Some(seconds) = self.most {
            response.push(format!("if (beresp.ttl > {seconds}s) {{ set beresp.ttl = {seconds}s; }}"));
        }
        if self.has_no_cookies {
            response.push("if (!bereq.uncacheable) { unset beresp.http.Set-Cookie; }".to_owned());
        }
        if self.has_enable {
            response.push(format!("set beresp.grace = {}s;", if self.is_stale { STALE } else { 0 }));
        }
        let mut subs = String::new();
        if self.is_stale {
            response.insert(
                0,
                "if (cookie.get(\"stale\") == \"there\" && beresp.status >= 500) { return (abandon); }".to_owned(),
            );
            subs.push_str(ON_ERROR);
        }
        let mut imports = Vec::new();
        if self.is_stale {
            imports.push("import cookie;\n");
        }
        if recv.iter().any(|line| line.contains("std.port(")) {
            imports.push("import std;\n");
        }
        let mut path = String::new();
        if recv.iter().any(|line| line.contains(PATH)) {
            imports.push("import blob;\n");
            path = vcl::decoded_path("apache_path", PATH);
            recv.insert(0, "call apache_path;".to_owned());
            subs.push_str(&format!("\nsub vcl_backend_fetch {{\n\tunset be{PATH};\n}}\n"));
        }
        let import = imports.concat();
        format!(
            "vcl 4.1;\n\n{import}\n# Apache, with all its sites: it tells them apart by Host, which it gets as the client sent it.\nbackend apache {{\n\t.host = \"{host}\";\n\t.port = \"{port}\";\n}}\n{path}{}{}{subs}",
            vcl::sub("vcl_recv", &recv),
            vcl::sub("vcl_backend_response", &response)
        )
    }
}

/// Seconds for which an object serves while Apache fails.
const STALE: u32 = 3600;

/// An object beyond its lifetime is served only when the fetch fails.
const ON_ERROR: &str = r#"
sub vcl_hit {
	if (obj.ttl <= 0s && !req.http.Apache-Stale) {
		set req.http.Apache-Stale = "there";
		return (restart);
	}
}

sub vcl_backend_fetch {
	cookie.set("stale", bereq.http.Apache-Stale);
	if (bereq.http.Apache-Stale == "serve") { return (abandon); }
	unset bereq.http.Apache-Stale;
}

sub vcl_backend_error {
	if (cookie.get("stale") == "there") { return (abandon); }
}

sub vcl_synth {
	if (req.http.Apache-Stale == "there") {
		set req.http.Apache-Stale = "serve";
		return (restart);
	}
}
"#;

/// `-a` for each port that Apache had, once.
fn listens(lines: &[Line], migrated: &mut Migrated) {
    let mut has_tls = false;
    for line in lines.iter().filter(|line| line.words[0].eq_ignore_ascii_case("listen")) {
        let address = line.words.get(1).map_or("80", String::as_str);
        let address = if address.contains(':') { address.to_owned() } else { format!(":{address}") };
        let is_tls =
            address.ends_with(&format!(":{TLS_PORT}")) || line.words.get(2).is_some_and(|word| word == "https");
        if is_tls {
            has_tls = true;
            let (host, port) = address.rsplit_once(':').unwrap_or(("", TLS_PORT));
            migrated.tls.push(format!("frontend = \"{}:{port}\"", if host.is_empty() { "*" } else { host }));
        } else if !migrated.arguments.contains(&address) {
            migrated.arguments.extend(["-a".to_owned(), address]);
        }
    }
    if has_tls {
        migrated.arguments.extend(["-p".to_owned(), "x_forwarded_proto=on".to_owned()]);
    }
}

/// Those of all virtual hosts, in pairs.
fn certificates(lines: &[Line], migrated: &mut Migrated) {
    if migrated.tls.is_empty() {
        return;
    }
    let mut cert: Option<&Line> = None;
    for line in lines {
        match line.words[0].to_ascii_lowercase().as_str() {
            "sslcertificatefile" => cert = Some(line),
            "sslcertificatekeyfile" => {
                let Some(cert) = cert.take() else { continue };
                let (cert, key) = (cert.words.get(1), line.words.get(1));
                if let (Some(cert), Some(key)) = (cert, key) {
                    migrated.tls.push(format!("pem-file = {{ cert = \"{cert}\" private-key = \"{key}\" }}"));
                }
            }
            _ => {}
        }
    }
    if let Some(cert) = cert {
        migrated.note(
            &cert.place,
            &cert.words[0],
            "no key is named for it: if it is in the same file, pem-file = \"FILE\" is enough",
        );
    }
}

fn storage(line: &Line, migrated: &mut Migrated) {
    migrated.arguments.extend(["-s".to_owned(), "disk=file,/var/lib/varnish/disk.store,10g".to_owned()]);
    migrated.note(
        &line.place,
        &line.words[0],
        "a store is one file with memory in front, and has a bound: 10g is a guess",
    );
}

/// Says what there is to say of other directives; most are Apache's own affair, as it goes on being the origin.
fn known(name: &str, line: &Line, migrated: &mut Migrated) {
    let text = match name {
        "cacheignorecachecontrol" => {
            "`unset req.http.Cache-Control;` isn't needed: what clients say isn't heeded without feature=+rfc9111"
        }
        "cacheignorequerystring" | "cachekeybaseurl" => {
            "`set req.url = regsub(req.url, \"\\?.*$\", \"\");`, or the parameters query_drop and query_keep"
        }
        "cachestorenostore" | "cachestoreprivate" => {
            "VCL decides in vcl_backend_response: `set beresp.uncacheable = false` doesn't bring back what was forbidden, a ttl does"
        }
        "cachelock" | "cachelockmaxage" | "cachelockpath" => "",
        "rewritecond" | "setenvif" | "setenvifnocase" | "browsermatch" | "browsermatchnocase" if names_client(line) => {
            "hits don't reach Apache, so this rule holds for misses only: say it in vcl_recv, as `if (req.url ~ \"URLS\" && \
             req.http.Referer && req.http.Referer !~ \"OWN HOSTS\") { return (synth(403)); }` (recipes/images.md)"
        }
        "rewritecond" | "rewriterule" if line.words.iter().any(|word| word.contains("HTTPS")) => {
            "Apache no longer sees TLS: ask for the field X-Forwarded-Proto (%{HTTP:X-Forwarded-Proto})"
        }
        "cachequickhandler" => "requests with rules of access are always passed to Apache here",
        _ => "",
    };
    match name {
        _ if text.is_empty() => {}
        "setenvif"
        | "setenvifnocase"
        | "browsermatch"
        | "browsermatchnocase"
        | "cachestorenostore"
        | "cachestoreprivate"
        | "cacheignorequerystring"
        | "cachekeybaseurl" => {
            migrated.refuse(&line.place, &line.words[0], text);
        }
        "rewritecond" if names_client(line) => migrated.refuse(&line.place, &line.words[0], text),
        _ => migrated.note(&line.place, &line.words[0], text),
    }
}

/// True if a rule depends on what a client's request says beside its URL: an object in the cache is the same for all of
/// them.
fn names_client(line: &Line) -> bool {
    const OF_CLIENTS: [&str; 6] =
        ["HTTP_REFERER", "HTTP_USER_AGENT", "HTTP_COOKIE", "REMOTE_ADDR", "HTTP:REFERER", "HTTP:USER-AGENT"];
    let first = line.words.get(1).map_or(String::new(), |word| word.to_ascii_uppercase());
    match line.words[0].to_ascii_lowercase().as_str() {
        "rewritecond" => OF_CLIENTS.iter().any(|name| first.contains(name)),
        // Stock configurations work around old browsers with these two; nothing is denied by that.
        "browsermatch" | "browsermatchnocase" => is_denied(line),
        _ => ["REFERER", "USER-AGENT", "COOKIE", "REMOTE_ADDR"].contains(&first.as_str()),
    }
}

/// True if the variable that a line sets has the name of something that is kept out.
fn is_denied(line: &Line) -> bool {
    const OWN: [&str; 6] =
        ["nokeepalive", "downgrade-1.0", "force-response-1.0", "redirect-carefully", "gzip-only-text/html", "no-gzip"];
    line.words.iter().skip(2).any(|word| {
        let name = word.trim_start_matches('!').split('=').next().unwrap_or_default();
        !OWN.contains(&name) && !name.starts_with("ssl-")
    })
}

struct Reader<'a> {
    files: &'a dyn FileSource,
    origin: (&'a str, &'a str),
    root: String,
    lines: Vec<Line>,
}

impl Reader<'_> {
    /// Reads a file and what it includes; a copy with its lines changed goes to the result.
    fn file(&mut self, path: &str, depth: usize, migrated: &mut Migrated) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("{path}: includes nest deeper than {MAX_DEPTH}"));
        }
        let text = self.files.read(path)?;
        let name: Rc<str> = Rc::from(path);
        let mut changed = String::new();
        let mut is_changed = false;
        let mut rest = text.lines().enumerate();
        while let Some((at, first)) = rest.next() {
            let mut whole = first.to_owned();
            let mut raw = format!("{first}\n");
            while whole.ends_with('\\') {
                let Some((_, next)) = rest.next() else { break };
                whole.pop();
                whole.push_str(next);
                raw.push_str(&format!("{next}\n"));
            }
            let place = SourcePlace { file: Rc::clone(&name), line: at + 1 };
            match self.line(&whole, place, depth, migrated)? {
                Some(new) => {
                    changed.push_str(&format!("{new}\n"));
                    is_changed = true;
                }
                None => changed.push_str(&raw),
            }
        }
        if is_changed {
            migrated.files.push((path.to_owned(), changed));
        }
        Ok(())
    }

    /// The line that a line becomes; None: it stays.
    fn line(
        &mut self,
        text: &str,
        place: SourcePlace,
        depth: usize,
        migrated: &mut Migrated,
    ) -> Result<Option<String>, String> {
        let words = words(text);
        let Some(first) = words.first() else { return Ok(None) };
        let indent = &text[..text.len() - text.trim_start().len()];
        let (host, port) = self.origin;
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let new = match first.to_ascii_lowercase().as_str() {
            "include" | "includeoptional" => {
                let path = beside(&self.root, words.get(1).map_or("", String::as_str));
                let found = if path.contains(['*', '?']) { self.files.matching(&path) } else { vec![path] };
                for file in found {
                    match self.file(&file, depth + 1, migrated) {
                        Err(_) if first.eq_ignore_ascii_case("includeoptional") => {}
                        other => other.map_err(|error| format!("{place}: {first}: {error}"))?,
                    }
                }
                return Ok(None);
            }
            "listen" if is_tls_port(words.get(1).map_or("", String::as_str)) => {
                migrated.note(
                    &place,
                    first,
                    "the cache speaks TLS there: the line goes, and with it what this virtual host says of TLS",
                );
                Some(format!("{indent}# {}", text.trim()))
            }
            "listen" => {
                migrated.note(
                    &place,
                    first,
                    format!("becomes Listen {host}:{port}; of several such lines one is enough"),
                );
                let is_first = !self.lines.iter().any(|line| line.words[0].eq_ignore_ascii_case("listen"));
                Some(if is_first {
                    format!("{indent}Listen {host}:{port}")
                } else {
                    format!("{indent}# {}", text.trim())
                })
            }
            "<virtualhost" => {
                let hosts: Vec<&str> =
                    words[1..].iter().map(|word| word.trim_end_matches('>')).filter(|w| !w.is_empty()).collect();
                if hosts.iter().any(|host| is_tls_port(host)) {
                    migrated.refuse(&place, "VirtualHost", "two virtual hosts of a name, with and without TLS, become one: keep what they have in common, without SSLEngine");
                    return Ok(None);
                }
                let changed: Vec<String> = hosts.iter().map(|host| with_port(host, port)).collect();
                Some(format!("{indent}<VirtualHost {}>", changed.join(" ")))
            }
            "logformat" if text.contains("%h") || text.contains("%a") => {
                migrated.note(&place, first, "the client is %{X-Forwarded-For}i now, as Apache sees the cache's address; or use mod_remoteip. varnishncsa logs hits, too: Apache sees misses alone");
                Some(text.replace("%h", "%{X-Forwarded-For}i").replace("%a", "%{X-Forwarded-For}i"))
            }
            _ => None,
        };
        self.lines.push(Line { words, place });
        Ok(new)
    }
}

fn is_tls_port(address: &str) -> bool {
    address == TLS_PORT || address.ends_with(&format!(":{TLS_PORT}"))
}

/// `HOST:PORT` with another port; a name without one matches any.
fn with_port(host: &str, port: &str) -> String {
    match host.rsplit_once(':').filter(|(_, old)| old.bytes().all(|c| c.is_ascii_digit())) {
        // Addresses of its own that a virtual host had are the cache's now.
        Some((name, _)) if name.bytes().all(|c| c.is_ascii_digit() || c == b'.') || name.starts_with('[') => {
            format!("*:{port}")
        }
        Some((name, _)) => format!("{name}:{port}"),
        None => host.to_owned(),
    }
}

/// The words of a line: blanks between them, quotes around some; a comment has none.
fn words(line: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut chars = line.trim().chars().peekable();
    if chars.peek() == Some(&'#') {
        return out;
    }
    while let Some(c) = chars.next() {
        let mut word = String::new();
        match c {
            c if c.is_whitespace() => continue,
            '"' => {
                while let Some(c) = chars.next() {
                    match c {
                        '\\' => word.extend(chars.next()),
                        '"' => break,
                        c => word.push(c),
                    }
                }
            }
            c => {
                word.push(c);
                word.extend(std::iter::from_fn(|| chars.next_if(|c| !c.is_whitespace())));
            }
        }
        out.push(word);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Given;

    fn of(text: &'static str) -> Migrated {
        let files: &'static [(&str, &str)] =
            Box::leak(Box::new([("/a/apache2.conf", text), ("/a/ports.conf", "Listen 80\n")]));
        crate::tests::compiled(
            migrate("/a/apache2.conf", ("127.0.0.1", "8081"), &Given(files)).expect("Apache's language"),
        )
    }

    #[test]
    fn a_site_moves_to_another_port() {
        let migrated = of(
            "Include ports.conf\nLogFormat \"%h %l %u %t \\\"%r\\\" %>s %b\" common\n<VirtualHost *:80>\n  ServerName a.org\n</VirtualHost>\n",
        );
        assert_eq!(migrated.arguments, ["-a", ":80"]);
        assert_eq!(
            migrated.files,
            [
                ("/a/ports.conf".to_owned(), "Listen 127.0.0.1:8081\n".to_owned()),
                (
                    "/a/apache2.conf".to_owned(),
                    "Include ports.conf\nLogFormat \"%{X-Forwarded-For}i %l %u %t \\\"%r\\\" %>s %b\" common\n<VirtualHost *:8081>\n  ServerName a.org\n</VirtualHost>\n".to_owned()
                ),
            ]
        );
        assert!(migrated.vcl.contains(".port = \"8081\";"), "{}", migrated.vcl);
    }

    #[test]
    fn tls_moves_to_the_cache() {
        let migrated = of(
            "Listen 443\n<VirtualHost 10.0.0.1:443>\nSSLCertificateFile /c.pem\nSSLCertificateKeyFile /k.pem\n</VirtualHost>\n",
        );
        assert_eq!(migrated.tls, ["frontend = \"*:443\"", "pem-file = { cert = \"/c.pem\" private-key = \"/k.pem\" }"]);
        assert!(
            migrated.notes.iter().any(|note| note.to_string().contains("/a/apache2.conf:2: refused: VirtualHost")),
            "{:?}",
            migrated.notes
        );
    }

    #[test]
    fn what_mod_cache_did() {
        let migrated = of(
            "CacheEnable disk /\nCacheDisable /private\nCacheDefaultExpire 600\nCacheMaxExpire 60\nCacheIgnoreHeaders Set-Cookie\n",
        );
        for wanted in [
            "~ \"^/private\") {\n\t\treturn (pass);",
            "set beresp.ttl = 600s;",
            "if (beresp.ttl > 60s) { set beresp.ttl = 60s; }",
            "unset beresp.http.Set-Cookie;",
            "set beresp.grace = 0s;",
        ] {
            assert!(migrated.vcl.contains(wanted), "{wanted}:\n{}", migrated.vcl);
        }
        assert_eq!(migrated.notes, []);
    }

    /// Hits don't reach Apache, and to Apache every client has the cache's address.
    #[test]
    fn rules_of_access_are_passed_or_denied() {
        let of = |lines: &str| {
            let migrated = of(Box::leak(format!("Listen 80\nCacheEnable disk /\n{lines}").into_boxed_str()));
            let is_refused = migrated.notes.iter().any(|note| note.to_string().contains("refused"));
            let path = "if (req.http.Apache-Path ~ \"^/p(/|$)\") {\n\t\treturn ";
            let vcl = migrated.vcl;
            (vcl.contains(&format!("{path}(synth(403));")), vcl.contains(&format!("{path}(pass);")), is_refused)
        };
        let nothing = (false, false, false);
        for (rule, expect) in [
            ("Require local", (true, true, true)),
            ("Require ip 127.0.0.1", (true, true, true)),
            ("Require ip 0.0.0.0/0", (true, true, true)),
            ("Require host example.org", (true, true, true)),
            ("Require not ip 10.0.0.1", (true, true, true)),
            ("Order allow,deny\nAllow from 127", (true, true, true)),
            ("Deny from 192.0.2.1", (true, true, true)),
            ("SSLVerifyClient require", (true, true, true)),
            ("RewriteCond %{REMOTE_ADDR} !^127\\.", (true, true, true)),
            ("<RequireNone>\nRequire ip 10\n</RequireNone>", (true, true, true)),
            // Apache itself denies these to the cache's address.
            ("Require ip 10.0.0.0/8", (false, true, true)),
            ("Allow from 10.0.0.0/8", (false, true, true)),
            ("Allow from env=x", (false, true, false)),
            ("Require valid-user", (false, true, false)),
            ("AuthType Basic", (false, true, false)),
            ("Require all granted", nothing),
            ("Require all denied", nothing),
            ("Deny from all", nothing),
        ] {
            assert_eq!(of(&format!("<Location /p>\n{rule}\n</Location>\n")), expect, "{rule}");
        }
        // Apache takes the client's address from the cache.
        let known = "RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1\n<Location /p>\nRequire local\n</Location>\n";
        assert_eq!(of(known), (false, true, false));
    }

    /// Rules of directories hold for all requests; where nothing was kept, nothing is.
    #[test]
    fn rules_of_directories_hold_for_everything() {
        let migrated = of("Listen 80\n<Directory /srv/secret>\nRequire local\n</Directory>\n");
        assert!(migrated.vcl.contains("sub vcl_recv {\n\treturn (synth(403));\n\treturn (pass);"), "{}", migrated.vcl);
        assert!(of("Listen 80\n").vcl.contains("sub vcl_recv {\n\treturn (pass);"));
    }

    #[test]
    fn virtual_hosts_of_other_ports() {
        let migrated = of(
            "Listen 80\nListen 8080\n<VirtualHost *:80>\nServerName a.org\n</VirtualHost>\n<VirtualHost *:8080>\nServerName b.org\n</VirtualHost>\n<VirtualHost 10.0.0.1:80>\nServerName c.org\n</VirtualHost>\n",
        );
        assert_eq!(migrated.notes.iter().filter(|note| note.to_string().contains("refused: VirtualHost")).count(), 3);
        for wanted in [
            "^(b\\.org)\\.?(:\\d*)?$\"",
            "!(std.port(local.ip) == 8080)",
            "!(std.port(local.ip) == 80 && local.ip == \"10.0.0.1\")",
        ] {
            assert!(migrated.vcl.contains(wanted), "{wanted}: {}", migrated.vcl);
        }
    }

    /// Requests outside an enabled part pass; a section that can't be translated is refused and passes.
    #[test]
    fn sections() {
        let migrated = of(
            "<VirtualHost *:80>\nServerName a.org\n</VirtualHost>\n<VirtualHost *:80>\nServerName b.org:80\nServerAlias *.b.org\n<Location \"/c\">\nCacheEnable disk\n</Location>\n</VirtualHost>\n",
        );
        let wanted = "if (!(req.http.Host ~ \"(?i)^(b\\.org|.*\\.b\\.org)\\.?(:\\d*)?$\" && req.http.Host !~ \"(?i)^(a\\.org)\\.?(:\\d*)?$\" && req.http.Apache-Path ~ \"^/c(/|$)\")) { return (pass); }";
        assert!(migrated.vcl.contains(wanted), "{}", migrated.vcl);
        let migrated = of("CacheEnable disk /\n<If \"%{QUERY_STRING} == 'x'\">\nCacheDisable on\n</If>\n");
        assert!(migrated.vcl.contains("sub vcl_recv {\n\treturn (pass);"), "{}", migrated.vcl);
        assert!(
            migrated
                .notes
                .iter()
                .any(|note| note.to_string().contains("apache2.conf:3: refused: CacheDisable: within <if>")),
            "{:?}",
            migrated.notes
        );
    }

    #[test]
    fn rules_that_hits_would_pass_by_are_refused() {
        let refused = |text: &str| {
            let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
            let notes = of(text).notes;
            notes.iter().filter(|note| note.to_string().contains(": refused: ")).count()
        };
        let rule = "RewriteRule \\.(jpg|gif|png)$ - [F]\n";
        for (cond, is_refused) in [
            ("RewriteCond %{HTTP_REFERER} !^http://(www\\.)?domain\\.com [NC]\n", true),
            ("RewriteCond %{HTTP:Referer} !^$\n", true),
            ("RewriteCond %{HTTP_USER_AGENT} Wget\n", true),
            ("RewriteCond %{REMOTE_ADDR} ^10\\.\n", true),
            ("RewriteCond %{REQUEST_FILENAME} !-f\n", false),
        ] {
            assert_eq!(refused(&format!("RewriteEngine On\n{cond}{rule}")), usize::from(is_refused), "{cond}");
        }
        assert_eq!(refused("SetEnvIfNoCase Referer \"^https?://domain\\.com\" local_ref=1\n"), 1);
        assert_eq!(refused("BrowserMatch \"^Wget\" bad_bot\n"), 1);
        // Debian's mods-enabled/setenvif.conf and ssl.conf: they deny nobody.
        let stock = "BrowserMatch \"Mozilla/2\" nokeepalive\nBrowserMatch \"MSIE 4\\.0b2;\" nokeepalive downgrade-1.0 force-response-1.0\n\
                     BrowserMatch \"Microsoft Data Access Internet Publishing Provider\" redirect-carefully\n\
                     BrowserMatch \"MSIE [2-6]\" nokeepalive ssl-unclean-shutdown downgrade-1.0 force-response-1.0\n";
        assert_eq!(refused(stock), 0);
    }

    #[test]
    fn addresses() {
        assert_eq!(with_port("*:80", "81"), "*:81");
        assert_eq!(with_port("10.0.0.1:80", "81"), "*:81");
        assert_eq!(with_port("a.org", "81"), "a.org");
    }
}

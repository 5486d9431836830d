// SPDX-License-Identifier: BSD-2-Clause
//! squid as an accelerator: its ports, its origins (`cache_peer`), acls, access, what it keeps and how long. squid as a proxy for clients of one's
//! own network has no counterpart here.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::migrated::Migrated;
use crate::source::{FileSource, SourcePlace};
use crate::vcl;

struct Line {
    words: Vec<String>,
    place: SourcePlace,
}

impl Line {
    fn word(&self, i: usize) -> &str {
        self.words.get(i).map_or("", String::as_str)
    }

    fn rest(&self, i: usize) -> &[String] {
        self.words.get(i..).unwrap_or_default()
    }

    fn option(&self, key: &str) -> Option<&str> {
        self.words.iter().find_map(|word| word.strip_prefix(key))
    }

    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|w| w == word)
    }
}

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
    let mut squid = Squid::default();
    let mut migrated = Migrated::default();
    for line in &lines {
        squid.take(line, &mut migrated);
    }
    squid.finish(&mut migrated);
    Ok(migrated)
}

fn read(path: &str, files: &dyn FileSource, lines: &mut Vec<Line>, depth: usize) -> Result<(), String> {
    if depth > 16 {
        return Err(format!("{path}: includes nest deeper than 16"));
    }
    let name: Rc<str> = Rc::from(path);
    for (at, text) in files.read(path)?.lines().enumerate() {
        let text = text.split(" #").next().unwrap_or_default().trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        // A word that begins so is a comment to the end of the line; `a#b` is a word.
        let words: Vec<String> =
            text.split_whitespace().take_while(|word| !word.starts_with('#')).map(str::to_owned).collect();
        let place = SourcePlace { file: Rc::clone(&name), line: at + 1 };
        match words[0] == "include" {
            false => lines.push(Line { words, place }),
            true => {
                for pattern in &words[1..] {
                    let found =
                        if pattern.contains(['*', '?']) { files.matching(pattern) } else { vec![pattern.clone()] };
                    found.iter().try_for_each(|file| {
                        read(file, files, lines, depth + 1).map_err(|e| format!("{place}: include: {e}"))
                    })?;
                }
            }
        }
    }
    Ok(())
}

/// The least number of words that a directive has behind its name, and their names.
const WANTED: [(&str, usize, &str); 11] = [
    ("http_port", 1, "a port and its options"),
    ("https_port", 1, "a port and its options"),
    ("cache_peer", 4, "HOST TYPE HTTP-PORT ICP-PORT"),
    ("cache_peer_domain", 2, "a peer and its domains"),
    ("cache_peer_access", 3, "a peer, allow or deny, and acls"),
    ("acl", 3, "a name, a type and values"),
    ("http_access", 2, "allow or deny, and acls"),
    ("cache", 2, "allow or deny, and acls"),
    ("no_cache", 2, "allow or deny, and acls"),
    ("cache_mem", 1, "a number and its unit"),
    ("maximum_object_size", 1, "a number and its unit"),
];

#[derive(Default)]
struct Squid {
    /// Each acl's conditions, any of which makes it hold.
    acls: BTreeMap<String, Vec<String>>,
    /// Declarations of VCL's acls.
    networks: BTreeMap<String, Vec<String>>,
    backends: Vec<(String, String)>,
    peer_rules: Vec<(String, String)>,
    peer_refusals: BTreeMap<String, Vec<String>>,
    recv: Vec<String>,
    response: Vec<String>,
    has_std: bool,
    default_site: Option<String>,
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
            "cache_peer_domain" => {
                let hosts: Vec<String> = line.rest(2).iter().map(|host| domain(host)).collect();
                self.peer_rules.push((
                    vcl::name(line.word(1)),
                    format!("req.http.Host ~ \"(?i)^({})(:\\d+)?$\"", hosts.join("|")),
                ));
            }
            "cache_peer_access" => self.peer_access(line, migrated),
            "acl" => self.acl(line, migrated),
            "http_access" => self.access(line, migrated),
            "cache" | "no_cache" => self.cache(line, migrated),
            "refresh_pattern" => self.refresh(line, migrated),
            "cache_mem" => push(migrated, "-s", &format!("malloc,{}", size(line.rest(1)))),
            "cache_dir" => {
                let megabytes = if line.word(1) == "rock" || line.words.len() > 3 { line.word(3) } else { "10000" };
                push(migrated, "-s", &format!("disk=file,/var/lib/varnish/disk.store,{megabytes}m"));
                migrated.note(
                    &line.place,
                    "cache_dir",
                    "a store is one file with memory in front; what squid has kept is fetched anew",
                );
            }
            "maximum_object_size" => {
                self.has_std = true;
                let bytes = bytes(line.rest(1));
                self.response.push(format!(
                    "if (std.integer(beresp.http.Content-Length, 0) > {bytes}) {{ set beresp.uncacheable = true; }}"
                ));
            }
            "visible_hostname" | "unique_hostname" => push(migrated, "-i", line.word(1)),
            "negative_ttl" => migrated.note(
                &line.place,
                "negative_ttl",
                format!("the parameter negative_ttl: -p 'negative_ttl=404:{}s'", bytes(line.rest(1))),
            ),
            "connect_timeout" => migrated.note(&line.place, "connect_timeout", "the parameter connect_timeout"),
            "read_timeout" => migrated.note(
                &line.place,
                "read_timeout",
                "the parameters first_byte_timeout and between_bytes_timeout",
            ),
            "collapsed_forwarding" => migrated.note(
                &line.place,
                line.word(0),
                "request coalescing is always on: one request fetches, the others wait",
            ),
            "access_log" | "logformat" => migrated.note(
                &line.place,
                line.word(0),
                "varnishncsa writes it; `varnishncsa -F FORMAT` has Apache's letters",
            ),
            "never_direct"
            | "always_direct"
            | "hierarchy_stoplist"
            | "coredump_dir"
            | "pid_filename"
            | "cache_log"
            | "cache_store_log"
            | "cache_effective_user"
            | "cache_effective_group"
            | "workers"
            | "cache_replacement_policy"
            | "memory_replacement_policy"
            | "cache_swap_low"
            | "cache_swap_high"
            | "maximum_object_size_in_memory"
            | "minimum_object_size"
            | "shutdown_lifetime"
            | "icp_port"
            | "htcp_port"
            | "snmp_port"
            | "mime_table"
            | "error_directory"
            | "quick_abort_min"
            | "quick_abort_max"
            | "quick_abort_pct"
            | "forwarded_for"
            | "via"
            | "httpd_suppress_version_string"
            | "max_filedescriptors"
            | "pipeline_prefetch" => {}
            "url_rewrite_program" | "redirect_program" => {
                migrated.refuse(&line.place, line.word(0), "rewrite in vcl_recv: set req.url = regsub(...)")
            }
            "auth_param" | "external_acl_type" => {
                migrated.refuse(&line.place, line.word(0), "`import basicauth;` or `import jwt;`, or ask the origin")
            }
            "ssl_bump" | "sslproxy_ca_certfile" | "tls_outgoing_options" => migrated.refuse(
                &line.place,
                line.word(0),
                "only an accelerator's TLS is here: docs/certificates.md, docs/tls-origins.md",
            ),
            "reply_header_access"
            | "request_header_access"
            | "header_replace"
            | "reply_header_add"
            | "request_header_add" => {
                migrated.refuse(&line.place, line.word(0), "set and unset fields in vcl_backend_fetch and vcl_deliver");
            }
            "delay_pools" | "delay_class" | "delay_access" | "delay_parameters" => {
                migrated.refuse(&line.place, line.word(0), "responses are sent as fast as clients read them")
            }
            other => migrated.refuse(&line.place, other, "nothing is known of it here"),
        }
    }

    fn port(&mut self, line: &Line, migrated: &mut Migrated) {
        let address = if line.word(1).contains(':') { line.word(1).to_owned() } else { format!(":{}", line.word(1)) };
        if !["accel", "vhost", "defaultsite="].iter().any(|w| line.words.iter().any(|word| word.starts_with(w))) {
            migrated.refuse(
                &line.place,
                line.word(0),
                "without `accel` it is a proxy for clients of your own network, which this isn't",
            );
            return;
        }
        if let Some(site) = line.option("defaultsite=") {
            self.default_site = Some(site.to_owned());
        }
        if line.word(0) == "http_port" {
            return push(migrated, "-a", &address);
        }
        let (host, port) = address.rsplit_once(':').unwrap_or(("", "443"));
        migrated.tls.push(format!("frontend = \"{}:{port}\"", if host.is_empty() { "*" } else { host }));
        let cert = line.option("tls-cert=").or_else(|| line.option("cert="));
        let key = line.option("tls-key=").or_else(|| line.option("key="));
        match (cert, key) {
            (Some(cert), Some(key)) => {
                migrated.tls.push(format!("pem-file = {{ cert = \"{cert}\" private-key = \"{key}\" }}"))
            }
            (Some(cert), None) => migrated.tls.push(format!("pem-file = \"{cert}\"")),
            (None, _) => migrated.refuse(&line.place, "https_port", "it names no certificate"),
        }
    }

    fn peer(&mut self, line: &Line, migrated: &mut Migrated) {
        if line.word(2) != "parent" || !line.has("originserver") {
            migrated.refuse(
                &line.place,
                "cache_peer",
                "only `parent` with `originserver` is an origin; caches that ask each other by ICP aren't here",
            );
            return;
        }
        let name = vcl::name(line.option("name=").unwrap_or(line.word(1)));
        let mut lines = vec![format!(".host = \"{}\";", line.word(1)), format!(".port = \"{}\";", line.word(3))];
        if line.has("ssl") || line.has("tls") {
            lines.push(".ssl = 1;".to_owned());
        }
        if let Some(most) = line.option("max-conn=") {
            lines.push(format!(".max_connections = {most};"));
        }
        if let Some(host) = line.option("forceddomain=") {
            lines.push(format!(".host_header = \"{host}\";"));
            migrated.note(
                &line.place,
                "cache_peer",
                "forceddomain: Host is what the client sent unless vcl_backend_fetch sets bereq.http.Host",
            );
        }
        if line.has("round-robin") || line.has("sourcehash") || line.has("userhash") || line.has("carp") {
            migrated.note(
                &line.place,
                "cache_peer",
                "`import directors;` chooses among backends: here the first one that fits is taken",
            );
        }
        self.backends.push((name.clone(), format!("\nbackend {name} {{\n{}}}\n", vcl::indented(&lines, 1))));
    }

    fn peer_access(&mut self, line: &Line, migrated: &mut Migrated) {
        let name = vcl::name(line.word(1));
        let Some(condition) = self.condition(line.rest(3), line, migrated) else { return };
        match line.word(2) {
            "allow" => self.peer_rules.push((name, condition)),
            _ => self.peer_refusals.entry(name).or_default().push(condition),
        }
    }

    fn acl(&mut self, line: &Line, migrated: &mut Migrated) {
        let (name, kind) = (line.word(1).to_owned(), line.word(2));
        let is_ignoring_case = line.has("-i");
        let values: Vec<&str> = line.rest(3).iter().map(String::as_str).filter(|w| *w != "-i").collect();
        if values.iter().any(|value| value.starts_with('"')) {
            migrated.refuse(&line.place, "acl", "values in a file of their own: write them into the line");
            return;
        }
        let flag = if is_ignoring_case { "(?i)" } else { "" };
        let any = |of: &str, regexes: &[String]| format!("{of} ~ \"{flag}({})\"", regexes.join("|"));
        let texts: Vec<String> = values.iter().map(|v| (*v).to_owned()).collect();
        let condition = match kind {
            "src" if values == ["all"] => "true".to_owned(),
            "src" if values.iter().all(|v| networks(v).is_some()) => {
                let networks = values.iter().filter_map(|v| networks(v)).flatten();
                self.networks.entry(vcl::name(&name)).or_default().extend(networks);
                format!("client.ip ~ {}", vcl::name(&name))
            }
            "dstdomain" => {
                let hosts: Vec<String> = values.iter().map(|host| domain(host)).collect();
                format!("req.http.Host ~ \"(?i)^({})(:\\d+)?$\"", hosts.join("|"))
            }
            "dstdom_regex" => any("req.http.Host", &texts),
            "urlpath_regex" => any("req.url", &texts),
            "url_regex" => any("\"http://\" + req.http.Host + req.url", &texts),
            "method" => values.iter().map(|v| format!("req.method == \"{v}\"")).collect::<Vec<_>>().join(" || "),
            "browser" => any("req.http.User-Agent", &texts),
            "referer_regex" => any("req.http.Referer", &texts),
            "port" | "myport" | "localport" => {
                self.has_std = true;
                let ports = values.iter().map(|v| match v.split_once('-') {
                    Some((low, high)) => format!("(std.port(local.ip) >= {low} && std.port(local.ip) <= {high})"),
                    None => format!("std.port(local.ip) == {v}"),
                });
                ports.collect::<Vec<_>>().join(" || ")
            }
            _ => {
                migrated.refuse(
                    &line.place,
                    "acl",
                    format!("kind {kind} has no counterpart: rules that name {name} are left out"),
                );
                return;
            }
        };
        let known = self.acls.entry(name).or_default();
        if !known.contains(&condition) {
            known.push(condition);
        }
    }

    /// All of these acls at once; None, and said so, where one of them isn't known.
    fn condition(&self, names: &[String], line: &Line, migrated: &mut Migrated) -> Option<String> {
        let mut all = Vec::new();
        for name in names {
            let (is_not, name) = name.strip_prefix('!').map_or((false, name.as_str()), |name| (true, name));
            let any = match (name, self.acls.get(name)) {
                (_, Some(any)) => any.join(" || "),
                ("all", None) => "true".to_owned(),
                ("localhost", None) => "client.ip == \"127.0.0.1\" || client.ip == \"::1\"".to_owned(),
                _ => {
                    migrated.refuse(
                        &line.place,
                        line.word(0),
                        format!("acl {name} isn't known here: the line is left out"),
                    );
                    return None;
                }
            };
            all.push(match (is_not, any.as_str()) {
                (false, "true") => continue,
                (true, _) => format!("!({any})"),
                (false, _) if any.contains(" || ") => format!("({any})"),
                (false, _) => any,
            });
        }
        Some(if all.is_empty() { "true".to_owned() } else { all.join(" && ") })
    }

    fn access(&mut self, line: &Line, migrated: &mut Migrated) {
        // squid's own safety for a proxy, in every file that it comes with.
        if line
            .rest(2)
            .iter()
            .any(|w| ["manager", "CONNECT", "!Safe_ports", "to_localhost", "to_linklocal"].contains(&w.as_str()))
        {
            return;
        }
        let Some(condition) = self.condition(line.rest(2), line, migrated) else { return };
        let is_allowed = line.word(1) == "allow";
        // Rules are asked in order: the first that holds decides.
        let answer = if is_allowed { "set req.http.X-Squid-Allowed = \"1\";" } else { "return (synth(403));" };
        self.recv.push(match condition.as_str() {
            "true" => format!("if (!req.http.X-Squid-Allowed) {{ {answer} }}"),
            _ => format!("if (!req.http.X-Squid-Allowed && {}) {{ {answer} }}", bracketed(&condition)),
        });
    }

    fn cache(&mut self, line: &Line, migrated: &mut Migrated) {
        let Some(condition) = self.condition(line.rest(2), line, migrated) else { return };
        match (line.word(1), condition.as_str()) {
            ("deny", "true") => self.recv.push("return (pass);".to_owned()),
            ("deny", _) => self.recv.push(format!("if ({condition}) {{ return (pass); }}")),
            (_, "true") => {}
            _ => migrated.refuse(
                &line.place,
                line.word(0),
                "`allow` with conditions: write which requests are passed instead",
            ),
        }
    }

    /// `refresh_pattern [-i] REGEX MIN PERCENT MAX`: a share of the age, where the origin says nothing. Minutes.
    fn refresh(&mut self, line: &Line, migrated: &mut Migrated) {
        let is_ignoring_case = line.has("-i");
        let words: Vec<&str> = line.rest(1).iter().map(String::as_str).filter(|w| *w != "-i").collect();
        let [regex, least, percent, most, options @ ..] = &words[..] else {
            return migrated.refuse(&line.place, "refresh_pattern", "REGEX MIN PERCENT MAX are wanted");
        };
        let numbers = (least.parse::<f64>(), percent.trim_end_matches('%').parse::<f64>(), most.parse::<f64>());
        let (Ok(least), Ok(percent), Ok(most)) = numbers else {
            return migrated.refuse(&line.place, "refresh_pattern", "MIN, PERCENT and MAX are numbers");
        };
        for option in options {
            migrated.refuse(
                &line.place,
                "refresh_pattern",
                format!("{option}: VCL can say so: set beresp.ttl in vcl_backend_response"),
            );
        }
        if regex.contains("^ftp:") || regex.contains("^gopher:") {
            return;
        }
        self.has_std = true;
        let flag = if is_ignoring_case { "(?i)" } else { "" };
        let condition = match *regex {
            "." => String::new(),
            regex => format!("\"http://\" + bereq.http.Host + bereq.url ~ \"{flag}{regex}\""),
        };
        let share = percent / 100.0;
        let lines = vec![
            format!("set beresp.ttl = {}s;", least * 60.0),
            format!(
                "if (beresp.http.Last-Modified && (now - std.time(beresp.http.Last-Modified, now)) * {share:?} > beresp.ttl) {{"
            ),
            format!("\tset beresp.ttl = (now - std.time(beresp.http.Last-Modified, now)) * {share:?};"),
            "}".to_owned(),
            format!("if (beresp.ttl > {0}s) {{ set beresp.ttl = {0}s; }}", most * 60.0),
        ];
        self.response.push(format!("# refresh_pattern, {}", line.place));
        self.response.push(match condition.is_empty() {
            true => "if (!beresp.http.Cache-Control && !beresp.http.Expires && !beresp.http.X-Refreshed) {".to_owned(),
            false => format!(
                "if (!beresp.http.Cache-Control && !beresp.http.Expires && !beresp.http.X-Refreshed && {condition}) {{"
            ),
        });
        self.response.push("\tset beresp.http.X-Refreshed = \"1\";".to_owned());
        self.response.extend(lines.into_iter().map(|line| format!("\t{line}")));
        self.response.push("}".to_owned());
    }

    fn finish(mut self, migrated: &mut Migrated) {
        let mut recv = Vec::new();
        if let Some(site) = &self.default_site {
            recv.push(format!("if (!req.http.Host) {{ set req.http.Host = \"{site}\"; }}"));
        }
        if self.recv.iter().any(|line| line.contains("X-Squid-Allowed")) {
            recv.push("unset req.http.X-Squid-Allowed;".to_owned());
        }
        let mut access = Vec::new();
        let mut passes = Vec::new();
        for line in self.recv.drain(..) {
            if line.contains("X-Squid-Allowed") { access.push(line) } else { passes.push(line) }
        }
        if !access.is_empty() {
            access.push("unset req.http.X-Squid-Allowed;".to_owned());
        }
        recv.extend(access);
        let branches = self.peer_rules.iter().filter(|(name, _)| self.backends.iter().any(|(known, _)| known == name));
        let branches: Vec<(String, Vec<String>)> = branches
            .map(|(name, condition)| {
                let refusals = self
                    .peer_refusals
                    .get(name)
                    .map(|all| all.iter().map(|c| format!(" && !({c})")).collect::<String>());
                let whole = format!("{}{}", bracketed(condition), refusals.unwrap_or_default());
                let whole = if whole == "true" { String::new() } else { whole };
                (whole, vec![format!("set req.backend_hint = {name};")])
            })
            .collect();
        recv.extend(vcl::chain(branches));
        recv.extend(passes);
        let mut text = "vcl 4.1;\n".to_owned();
        if self.has_std {
            text.push_str("\nimport std;\n");
        }
        self.backends.iter().for_each(|(_, backend)| text.push_str(backend));
        if self.backends.is_empty() {
            text.push_str("\nbackend default none;\n");
        }
        let response = vcl::sub("vcl_backend_response", &self.response);
        // An acl that no rule names is an error in VCL.
        let is_named = |name: &str| {
            let test = format!("client.ip ~ {name}");
            let names = |text: &str| {
                text.match_indices(&test).any(|(at, _)| {
                    !text[at + test.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-')
                })
            };
            recv.iter().any(|line| names(line)) || names(&response)
        };
        for (name, networks) in self.networks.iter().filter(|(name, _)| is_named(name)) {
            let lines: Vec<String> = networks.iter().map(|network| format!("{network};")).collect();
            text.push_str(&format!("\nacl {name} {{\n{}}}\n", vcl::indented(&lines, 1)));
        }
        text.push_str(&vcl::sub("vcl_recv", &recv));
        if self.response.iter().any(|line| line.contains("X-Refreshed")) {
            // The first pattern that fits is the one that counts.
            self.response.push("unset beresp.http.X-Refreshed;".to_owned());
        }
        text.push_str(&vcl::sub("vcl_backend_response", &self.response));
        migrated.vcl = text;
        if !migrated.tls.is_empty() {
            push(migrated, "-p", "x_forwarded_proto=on");
        }
    }
}

fn bracketed(condition: &str) -> String {
    if condition.contains(" || ") { format!("({condition})") } else { condition.to_owned() }
}

fn push(migrated: &mut Migrated, letter: &str, value: &str) {
    migrated.arguments.extend([letter.to_owned(), value.to_owned()]);
}

/// `.a.org` is a.org and all below.
fn domain(host: &str) -> String {
    match host.strip_prefix('.') {
        Some(rest) => format!("(.+\\.)?{}", vcl::literal(rest)),
        None => vcl::literal(host),
    }
}

/// An address, network or range as entries of VCL's acls; None of a range that has a mask or is none.
fn networks(text: &str) -> Option<Vec<String>> {
    match text.split_once('-').map(|(first, last)| (first.parse(), last.parse())) {
        Some((Ok(std::net::IpAddr::V4(first)), Ok(std::net::IpAddr::V4(last)))) => {
            range(u32::from(first).into(), u32::from(last).into())
        }
        Some((Ok(_), _) | (_, Ok(_))) => None,
        _ => Some(vec![network(text)]),
    }
}

fn range(mut first: u64, last: u64) -> Option<Vec<String>> {
    let mut all = Vec::new();
    while first <= last {
        // The largest that begins here and doesn't go beyond the end: 62 networks at most.
        let bits = (0..=32).rev().find(|bits| first.is_multiple_of(1 << bits) && first + (1 << bits) - 1 <= last)?;
        let address = std::net::Ipv4Addr::from(u32::try_from(first).ok()?);
        all.push(if bits == 0 { format!("\"{address}\"") } else { format!("\"{address}\"/{}", 32 - bits) });
        first += 1 << bits;
    }
    (!all.is_empty()).then_some(all)
}

fn network(text: &str) -> String {
    let (address, bits) = text.split_once('/').unwrap_or((text, ""));
    // 255.255.255.0 is 24 bits.
    let bits = match bits.parse::<std::net::Ipv4Addr>() {
        Ok(mask) => u32::from(mask).leading_ones().to_string(),
        Err(_) => bits.to_owned(),
    };
    if bits.is_empty() { format!("\"{address}\"") } else { format!("\"{address}\"/{bits}") }
}

/// `256 MB` as `-s` has it.
fn size(words: &[String]) -> String {
    let number = words.first().map_or("256", String::as_str);
    let unit = words.get(1).map_or("MB", String::as_str);
    format!("{number}{}", unit.to_ascii_lowercase().chars().next().filter(|c| "kmgt".contains(*c)).unwrap_or('b'))
}

/// `4 MB` in bytes; a number alone is itself.
fn bytes(words: &[String]) -> u64 {
    let number: u64 = words.first().and_then(|w| w.parse().ok()).unwrap_or(0);
    let unit = words.get(1).map_or("", String::as_str).to_ascii_lowercase();
    number
        << if unit.starts_with('k') {
            10
        } else if unit.starts_with('m') {
            20
        } else if unit.starts_with('g') {
            30
        } else {
            0
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Given;

    fn of(text: &'static str) -> Migrated {
        let files: &'static [(&str, &str)] = Box::leak(Box::new([("s.conf", text)]));
        migrate("s.conf", &Given(files)).expect("squid's language")
    }

    #[test]
    fn an_accelerator() {
        let migrated = of(
            "http_port 80 accel defaultsite=www.a.org vhost\ncache_peer 10.0.0.1 parent 8080 0 no-query originserver name=app\nacl ours dstdomain .a.org\ncache_peer_access app allow ours\nhttp_access allow ours\nhttp_access deny all\ncache_mem 256 MB\n",
        );
        assert_eq!(migrated.arguments, ["-a", ":80", "-s", "malloc,256m"]);
        for wanted in [
            "backend app {\n\t.host = \"10.0.0.1\";\n\t.port = \"8080\";\n}",
            "if (!req.http.Host) { set req.http.Host = \"www.a.org\"; }",
            "if (!req.http.X-Squid-Allowed && req.http.Host ~ \"(?i)^((.+\\.)?a\\.org)(:\\d+)?$\") { set req.http.X-Squid-Allowed = \"1\"; }",
            "if (!req.http.X-Squid-Allowed) { return (synth(403)); }",
            "set req.backend_hint = app;",
        ] {
            assert!(migrated.vcl.contains(wanted), "{wanted}:\n{}", migrated.vcl);
        }
        assert_eq!(migrated.notes, []);
    }

    #[test]
    fn a_proxy_is_refused() {
        let migrated = of("http_port 3128\ndelay_pools 1\nnonsense 1\n");
        let said: Vec<String> =
            migrated.notes.iter().map(|note| format!("{} {}", note.place, note.directive)).collect();
        assert_eq!(said, ["s.conf:1 http_port", "s.conf:2 delay_pools", "s.conf:3 nonsense"]);
    }

    #[test]
    fn refresh_patterns_are_minutes_and_shares() {
        let migrated = of("refresh_pattern -i \\.png$ 10 20% 60\nrefresh_pattern . 0 20% 4320\n");
        for wanted in [
            "~ \"(?i)\\.png$\"",
            "set beresp.ttl = 600s;",
            "* 0.2",
            "set beresp.ttl = 3600s;",
            "unset beresp.http.X-Refreshed;",
        ] {
            assert!(migrated.vcl.contains(wanted), "{wanted}:\n{}", migrated.vcl);
        }
    }

    #[test]
    fn networks_and_ranges() {
        let of = |text| networks(text).map(|all| all.join(" "));
        assert_eq!(of("10.0.0.0/255.255.255.0").as_deref(), Some("\"10.0.0.0\"/24"));
        assert_eq!(
            of("10.0.0.1-10.0.0.9").as_deref(),
            Some("\"10.0.0.1\" \"10.0.0.2\"/31 \"10.0.0.4\"/30 \"10.0.0.8\"/31")
        );
        assert_eq!(of("0.0.0.0-255.255.255.255").as_deref(), Some("\"0.0.0.0\"/0"));
        assert_eq!(of("::1").as_deref(), Some("\"::1\""));
        for text in ["10.0.0.9-10.0.0.1", "10.0.0.1-10.0.0.9/24", "::1-::9"] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    /// Lines as in the squid.conf that squid comes with: `squid -k parse` takes what follows a blank and `#` as a comment.
    #[test]
    fn comments_and_ranges_of_squids_own_file() {
        let migrated = of("acl localnet src 0.0.0.1-0.255.255.255\t# RFC 1122 \"this\" network (LAN)\n\
             acl localnet src 169.254.0.0/16 \t# RFC 3927 link-local (directly plugged) machines\nacl nobody src 10.0.0.0/8 #x\n\
             http_port 80 accel vhost # not 3128\ncache_peer 10.0.0.1 parent 8080 0 originserver\nhttp_access allow localnet\nhttp_access deny all\n");
        assert_eq!(migrated.notes, []);
        assert!(migrated.vcl.contains("\t\"0.128.0.0\"/9;\n\t\"169.254.0.0\"/16;\n}"), "{}", migrated.vcl);
        assert!(!migrated.vcl.contains('#') && !migrated.vcl.contains("nobody"), "{}", migrated.vcl);
    }
}

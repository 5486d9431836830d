// SPDX-License-Identifier: BSD-2-Clause
//! squid as an accelerator: its ports, its origins (`cache_peer`), acls, access, what it keeps and how long. squid as a proxy for clients of one's
//! own network has no counterpart here.

use std::collections::{BTreeMap, BTreeSet};
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
    let all = files.read(path)?;
    let mut rest = all.lines().enumerate();
    while let Some((at, first)) = rest.next() {
        let mut whole = first.to_owned();
        while whole.ends_with('\\') {
            whole.pop();
            let Some((_, next)) = rest.next() else { break };
            whole.push_str(next);
        }
        let text = whole.trim();
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
    ("cache_peer_access", 2, "a peer, allow or deny, and acls"),
    ("acl", 3, "a name, a type and values"),
    ("http_access", 1, "allow or deny, and acls"),
    ("cache", 1, "allow or deny, and acls"),
    ("no_cache", 1, "allow or deny, and acls"),
    ("cache_mem", 1, "a number and its unit"),
    ("maximum_object_size", 1, "a number and its unit"),
];

/// A line of a list that squid reads in order: the first whose condition holds decides.
struct Rule {
    is_allowed: bool,
    /// `true` where it always holds.
    condition: String,
}

/// The lists that hold for all peers.
const LISTS: [&str; 4] = ["http_access", "cache", "miss_access", "always_direct"];

/// An origin, and the directors that it may be a part of.
struct Peer {
    name: String,
    text: String,
    /// squid sends requests to those in turn, before it asks any other.
    is_in_turn: bool,
    /// squid asks it after the others.
    is_default: bool,
    host: Option<String>,
}

/// The parts of a configuration that were read so far.
#[derive(Default)]
struct Squid {
    /// Each acl's conditions, any of which makes it hold.
    acls: BTreeMap<String, Vec<String>>,
    /// Acls that can't be translated.
    unknown: BTreeSet<String>,
    /// Declarations of VCL's acls.
    networks: BTreeMap<String, Vec<String>>,
    peers: Vec<Peer>,
    /// `cache_peer_access`, by the peer's name.
    peer_rules: BTreeMap<String, Vec<Rule>>,
    rules: BTreeMap<&'static str, Vec<Rule>>,
    refresh: Vec<(String, Vec<String>)>,
    most_bytes: Option<u64>,
    negative: u64,
    is_ignoring_reload: bool,
    /// A directive that can't be translated changes what is kept: then nothing is.
    is_passing: bool,
    default_site: Option<(String, bool)>,
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
                let rules = self.peer_rules.entry(vcl::name(line.word(1))).or_default();
                for host in line.rest(2) {
                    let (is_allowed, host) = host.strip_prefix('!').map_or((true, host.as_str()), |host| (false, host));
                    let condition = format!("{HOST} ~ \"(?i)^({})$\"", domain(host));
                    rules.push(Rule { is_allowed, condition });
                }
            }
            "cache_peer_access" => {
                if let Some(rule) = self.rule(line.word(2), line.rest(3), line, migrated) {
                    self.peer_rules.entry(vcl::name(line.word(1))).or_default().push(rule);
                }
            }
            "acl" => self.acl(line, migrated),
            "http_access" | "cache" | "no_cache" | "miss_access" | "always_direct" => {
                let name = if line.word(0) == "no_cache" { "cache" } else { line.word(0) };
                if let Some(rule) = self.rule(line.word(1), line.rest(2), line, migrated)
                    && let Some(list) = LISTS.into_iter().find(|list| *list == name)
                {
                    self.rules.entry(list).or_default().push(rule);
                }
                if name == "always_direct" && line.word(1) == "allow" {
                    let text = "origins that squid finds by the name in Host aren't asked here: these requests get 503";
                    migrated.refuse(&line.place, "always_direct", text);
                }
            }
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
            "maximum_object_size" => self.most_bytes = Some(bytes(line.rest(1))),
            "visible_hostname" | "unique_hostname" => push(migrated, "-i", line.word(1)),
            "negative_ttl" => self.negative = seconds(line.rest(1)),
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
            // A request to an accelerator never goes past its peers.
            "never_direct"
            | "hierarchy_stoplist"
            | "coredump_dir"
            | "minimum_expiry_time"
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
                self.passed(line, "rewrite in vcl_recv: set req.url = regsub(...)", migrated);
            }
            "store_miss"
            | "send_hit"
            | "store_id_program"
            | "store_id_access"
            | "http_reply_access"
            | "icap_enable"
            | "adaptation_access"
            | "ecap_enable"
            | "collapsed_forwarding_access"
            | "url_rewrite_access" => {
                self.passed(line, "write it in vcl_recv and vcl_backend_response", migrated);
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
                self.passed(line, "set and unset fields in vcl_backend_fetch and vcl_deliver", migrated);
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
            self.default_site = Some((site.to_owned(), line.has("no-vhost")));
        }
        self.is_ignoring_reload |= line.has("ignore-cc");
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
        if line.has("sourcehash") || line.has("userhash") || line.has("carp") || line.has("weighted-round-robin") {
            let text = "`import directors;` chooses among backends: here the first one that may be asked is taken";
            migrated.note(&line.place, "cache_peer", text);
        }
        self.peers.push(Peer {
            text: format!("\nbackend {name} {{\n{}}}\n", vcl::indented(&lines, 1)),
            name,
            is_in_turn: line.has("round-robin"),
            is_default: line.has("default"),
            host: line.option("forceddomain=").map(str::to_owned),
        });
    }

    /// Refuses a directive that changes what is kept, or what is sent of it.
    fn passed(&mut self, line: &Line, text: &str, migrated: &mut Migrated) {
        self.is_passing = true;
        migrated.refuse(&line.place, line.word(0), format!("{text}; until then all requests are passed"));
    }

    /// A line of a list: `allow` or `deny`, and acls that must all hold. An acl that isn't known allows nothing, and keeps nothing from being
    /// denied; a line that allows nothing stays, since the last line decides what holds where none does.
    fn rule(&mut self, word: &str, names: &[String], line: &Line, migrated: &mut Migrated) -> Option<Rule> {
        let is_allowed = match word {
            "allow" => true,
            "deny" => false,
            _ => {
                self.passed(line, "`allow` or `deny` is wanted", migrated);
                return None;
            }
        };
        let mut all = Vec::new();
        for name in names {
            let (is_not, name) = name.strip_prefix('!').map_or((false, name.as_str()), |name| (true, name));
            let Some(any) = self.known(name) else {
                let done = if is_allowed { "nothing is allowed by this line" } else { "the line denies without it" };
                migrated.refuse(&line.place, line.word(0), format!("acl {name} can't be translated: {done}"));
                if is_allowed {
                    return Some(Rule { is_allowed, condition: "false".to_owned() });
                }
                continue;
            };
            all.push(if is_not { not(&any) } else { any });
        }
        let condition = all.into_iter().fold("true".to_owned(), |whole, one| and(&whole, &one));
        Some(Rule { is_allowed, condition })
    }

    /// The condition of an acl.
    fn known(&self, name: &str) -> Option<String> {
        if self.unknown.contains(name) {
            return None;
        }
        let own = match name {
            "all" => "true",
            "localhost" => "client.ip == \"127.0.0.1\" || client.ip == \"::1\"",
            "manager" => "req.http.Squid-Path ~ \"^/squid-internal-mgr/\"",
            "to_localhost" => "req.http.Squid-Host ~ \"(?i)^(localhost|127\\.[0-9.]+|0\\.0\\.0\\.0|\\[::1?\\])$\"",
            "to_linklocal" => "req.http.Squid-Host ~ \"(?i)^(169\\.254\\.[0-9.]+|\\[fe80:[^]]*\\])$\"",
            "CONNECT" => "req.method == \"CONNECT\"",
            _ => "",
        };
        match self.acls.get(name) {
            Some(any) => Some(any.iter().fold("false".to_owned(), |whole, one| or(&whole, one))),
            None => Some(own.to_owned()).filter(|own| !own.is_empty()),
        }
    }

    fn acl(&mut self, line: &Line, migrated: &mut Migrated) {
        let (name, kind) = (line.word(1).to_owned(), line.word(2));
        let is_ignoring_case = line.has("-i");
        let values: Vec<&str> = line.rest(3).iter().map(String::as_str).filter(|w| *w != "-i").collect();
        if values.iter().any(|value| value.starts_with('"')) {
            migrated.refuse(&line.place, "acl", "values in a file of their own: write them into the line");
            self.unknown.insert(name);
            return;
        }
        let flag = if is_ignoring_case { "(?i)" } else { "" };
        let texts: Vec<String> = values.iter().map(|v| (*v).to_owned()).collect();
        // The line of one that can't be written in VCL is refused below.
        let regexes = if kind == "req_header" { texts.get(1..).unwrap_or_default() } else { &texts[..] };
        let Some(regex) = vcl::string(&format!("{flag}({})", regexes.join("|"))) else {
            migrated.refuse(&line.place, "acl", "its values can't be written in VCL");
            self.unknown.insert(name);
            return;
        };
        let any = |of: &str| format!("{of} ~ {regex}");
        let condition = match kind {
            "src" if values == ["all"] => "true".to_owned(),
            "src" if values.iter().all(|v| networks(v).is_some()) => {
                let networks = values.iter().filter_map(|v| networks(v)).flatten();
                self.networks.entry(vcl::name(&name)).or_default().extend(networks);
                format!("client.ip ~ {}", vcl::name(&name))
            }
            "dstdomain" => {
                let hosts: Vec<String> = values.iter().map(|host| domain(host)).collect();
                format!("{HOST} ~ \"(?i)^({})$\"", hosts.join("|"))
            }
            "dstdom_regex" => any(HOST),
            "urlpath_regex" => any(PATH),
            "url_regex" => any(WHOLE),
            "any-of" | "all-of" => {
                let all: Option<Vec<String>> = values
                    .iter()
                    .map(|value| match value.strip_prefix('!') {
                        Some(inner) => self.known(inner).map(|one| not(&one)),
                        None => self.known(value),
                    })
                    .collect();
                match (all, kind) {
                    (Some(all), "all-of") => all.iter().fold("true".to_owned(), |whole, one| and(&whole, one)),
                    (Some(all), _) => all.iter().fold("false".to_owned(), |whole, one| or(&whole, one)),
                    (None, _) => {
                        migrated.refuse(&line.place, "acl", "one of its acls can't be translated");
                        self.unknown.insert(name);
                        return;
                    }
                }
            }
            "req_header" if !values.is_empty() && is_header(values[0]) => any(&format!("req.http.{}", values[0])),
            "port" => ports("std.integer(regsub(req.http.Host, \"^.*?(:(\\d+))?$\", \"\\2\"), 80)", &values),
            "myport" | "localport" => ports("std.port(local.ip)", &values),
            "method" => values.iter().map(|v| format!("req.method == \"{v}\"")).collect::<Vec<_>>().join(" || "),
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
        let known = self.acls.entry(name).or_default();
        if !known.contains(&condition) {
            known.push(condition);
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
        let flag = if is_ignoring_case { "(?i)" } else { "" };
        let Some(regex) = vcl::string(&format!("{flag}{regex}")) else {
            return migrated.refuse(&line.place, "refresh_pattern", "the regex can't be written in VCL");
        };
        let condition = match regex.as_str() {
            "\".\"" | "\"(?i).\"" => String::new(),
            regex => format!("{} ~ {regex}", URL.replace("req.", "bereq.")),
        };
        self.refresh.push((condition, lifetime(least * 60.0, percent / 100.0, most * 60.0)));
    }

    /// The order in which squid asks peers: those in turn, then the others, then the default ones. Each with the condition under which it may.
    fn choice(&self, init: &mut Vec<String>) -> Vec<(String, Vec<String>)> {
        let allowed = |peer: &Peer| first_match(self.peer_rules.get(&peer.name).map_or(&[][..], Vec::as_slice), true);
        let mut out: Vec<(String, Vec<String>)> = Vec::new();
        let mut turns: Vec<(String, Vec<&str>)> = Vec::new();
        for peer in self.peers.iter().filter(|peer| peer.is_in_turn) {
            let condition = allowed(peer);
            match turns.iter_mut().find(|(known, _)| *known == condition) {
                Some((_, names)) => names.push(&peer.name),
                None => turns.push((condition, vec![&peer.name])),
            }
        }
        for (number, (condition, names)) in turns.into_iter().enumerate() {
            let hint = match &names[..] {
                [only] => (*only).to_owned(),
                several => {
                    let director = format!("peers_{}", number + 1);
                    init.push(format!("new {director} = directors.round_robin();"));
                    init.extend(several.iter().map(|name| format!("{director}.add_backend({name});")));
                    format!("{director}.backend()")
                }
            };
            out.push((condition, vec![format!("set req.backend_hint = {hint};")]));
        }
        for is_default in [false, true] {
            let rest = self.peers.iter().filter(|peer| !peer.is_in_turn && peer.is_default == is_default);
            out.extend(rest.map(|peer| (allowed(peer), vec![format!("set req.backend_hint = {};", peer.name)])));
        }
        out.retain(|(condition, _)| condition != "false");
        out.push(("true".to_owned(), vec!["return (synth(502));".to_owned()]));
        let end = out.iter().position(|(condition, _)| condition == "true").unwrap_or_default();
        out.truncate(end + 1);
        if let Some((condition, _)) = out.last_mut() {
            condition.clear();
        }
        out
    }

    /// A list as branches, with the rule that squid adds: the opposite of the last one; `none` where there is no line at all.
    fn list(&self, name: &str, none: bool, denied: &str) -> Vec<String> {
        let rules = self.rules.get(name).map_or(&[][..], Vec::as_slice);
        let lines = |is_allowed: bool| if is_allowed { Vec::new() } else { vec![denied.to_owned()] };
        let mut branches: Vec<(String, Vec<String>)> = Vec::new();
        for rule in rules {
            let is_all = rule.condition == "true";
            if rule.condition == "false" {
                continue;
            }
            branches.push((if is_all { String::new() } else { rule.condition.clone() }, lines(rule.is_allowed)));
            if is_all {
                return vcl::chain(branches);
            }
        }
        branches.push((String::new(), lines(rules.last().map_or(none, |rule| !rule.is_allowed))));
        vcl::chain(branches)
    }

    fn finish(self, migrated: &mut Migrated) {
        let mut recv = Vec::new();
        match &self.default_site {
            Some((site, true)) => recv.push(format!("set req.http.Host = \"{site}\";")),
            Some((site, false)) => recv.push(format!("if (!req.http.Host) {{ set req.http.Host = \"{site}\"; }}")),
            None => {}
        }
        let at = recv.len();
        recv.push(
            "# Each list in order: the first line that holds decides, then the opposite of the last one.".to_owned(),
        );
        recv.extend(self.list("http_access", false, "return (synth(403));"));
        let direct = first_match(self.rules.get("always_direct").map_or(&[][..], Vec::as_slice), false);
        if direct != "false" {
            recv.extend(vcl::chain(vec![(
                if direct == "true" { String::new() } else { direct },
                vec!["return (synth(503));".to_owned()],
            )]));
        }
        let mut init = Vec::new();
        recv.extend(vcl::chain(self.choice(&mut init)));
        if self.is_passing {
            recv.push("return (pass);".to_owned());
        } else {
            recv.push(
                "if (req.method != \"GET\" && req.method != \"HEAD\" || req.http.Authorization) { return (pass); }"
                    .to_owned(),
            );
            recv.extend(self.list("cache", true, "return (pass);"));
            if !self.is_ignoring_reload {
                recv.push("if (req.http.Cache-Control ~ \"(?i)no-cache|no-store|max-age=0\" || req.http.Pragma ~ \"(?i)no-cache\") { set req.hash_always_miss = true; }".to_owned());
            }
            recv.push("return (hash);".to_owned());
        }
        let missed = match self.rules.contains_key("miss_access") {
            true => self.list("miss_access", true, "return (synth(403));"),
            false => Vec::new(),
        };
        let mut text = "vcl 4.1;\n\nimport std;\n".to_owned();
        let is_compared = recv.iter().chain(&missed).any(|line| line.contains("req.http.Squid-"));
        if is_compared {
            text.push_str("import blob;\n");
            let scheme = match migrated.tls.is_empty() {
                true => "\"http\"",
                false => "regsub(req.http.X-Forwarded-Proto, \"^(?!https$).*$\", \"http\")",
            };
            let lines = compared(scheme).into_iter();
            let own = if migrated.tls.is_empty() { "80" } else { "80|443" };
            recv.splice(at..at, lines.map(|line| line.replace("OWN PORTS", own)));
        }
        if !init.is_empty() {
            text.push_str("import directors;\n");
        }
        // A peer that no request may go to is an error in VCL.
        let chosen: String = recv.iter().chain(&init).cloned().collect();
        let used = |peer: &&Peer| {
            [format!("= {};", peer.name), format!("({});", peer.name)].iter().any(|end| chosen.contains(end.as_str()))
        };
        self.peers.iter().filter(used).for_each(|peer| text.push_str(&peer.text));
        if !self.peers.iter().any(|peer| used(&peer)) {
            text.push_str("\nbackend default none;\n");
        }
        text.push_str(&vcl::sub("vcl_init", &init));
        // An acl that no rule names is an error in VCL.
        let is_named = |name: &str| {
            let test = format!("client.ip ~ {name}");
            recv.iter().chain(&missed).any(|line| {
                line.match_indices(&test).any(|(at, _)| {
                    !line[at + test.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-')
                })
            })
        };
        for (name, networks) in self.networks.iter().filter(|(name, _)| is_named(name)) {
            let lines: Vec<String> = networks.iter().map(|network| format!("{network};")).collect();
            text.push_str(&format!("\nacl {name} {{\n{}}}\n", vcl::indented(&lines, 1)));
        }
        text.push_str(&vcl::sub("vcl_recv", &recv));
        text.push_str(&vcl::sub("vcl_miss", &missed));
        text.push_str(&vcl::sub("vcl_pass", &missed));
        let hosts = self.peers.iter().filter(used).filter_map(|peer| {
            let host = peer.host.as_ref()?;
            Some(format!("if (bereq.backend == {}) {{ set bereq.http.Host = \"{host}\"; }}", peer.name))
        });
        let mut fetch: Vec<String> = hosts.collect();
        let mut response =
            if self.is_passing { String::new() } else { vcl::sub("vcl_backend_response", &self.response()) };
        let url = URL.replace("req.", "bereq.");
        if !fetch.is_empty() && response.contains(&url) {
            // The URL is the one that came in, also where the peer gets another Host.
            text = text.replacen("import std;\n", "import std;\nimport cookie;\n", 1);
            fetch.insert(0, format!("cookie.set(\"url\", {url});"));
            response = response.replace(&url, "cookie.get(\"url\")");
        }
        if is_compared {
            fetch.extend([HOST, PATH, WHOLE].map(|name| format!("unset be{name};")));
        }
        text.push_str(&vcl::sub("vcl_backend_fetch", &fetch));
        text.push_str(&response);
        if !self.is_passing {
            text.push_str(
                "\n# squid keeps responses with Set-Cookie, and sends the cookie to the first client alone.\n",
            );
            text.push_str("sub vcl_deliver {\n\tif (obj.hits > 0) { unset resp.http.Set-Cookie; }\n}\n");
        }
        migrated.vcl = text;
        if !migrated.tls.is_empty() {
            push(migrated, "-p", "x_forwarded_proto=on");
        }
    }

    /// The lifetime of a response: what it says itself, else the first refresh_pattern that fits, else squid's own.
    fn response(&self) -> Vec<String> {
        let mut refresh = self.refresh.clone();
        if refresh.iter().all(|(condition, _)| !condition.is_empty()) {
            refresh.push((String::new(), lifetime(0.0, 0.2, 259_200.0)));
        }
        let end = refresh.iter().position(|(condition, _)| condition.is_empty()).unwrap_or_default();
        refresh.truncate(end + 1);
        let good = any_status(&[200, 203, 300, 301, 308, 410]);
        let explicit = "beresp.http.Cache-Control ~ \"(?i)(max-age|s-maxage)=\" || beresp.http.Expires";
        let mut lines = vec![
            "set beresp.grace = 0s;".to_owned(),
            "if (beresp.http.Cache-Control) { std.collect(beresp.http.Cache-Control); }".to_owned(),
            "if (beresp.http.Cache-Control ~ \"(?i)no-store|private|no-cache\" || beresp.http.Vary ~ \"\\*\") {"
                .to_owned(),
            "\tset beresp.ttl = 0s;".to_owned(),
            format!("}} else if ({good}) {{"),
            format!("\tif (!({explicit})) {{"),
        ];
        lines.extend(vcl::chain(refresh).into_iter().map(|line| format!("\t\t{line}")));
        lines.push("\t}".to_owned());
        lines.push(format!("}} else if ({} && ({explicit})) {{", any_status(&[302, 303, 307])));
        lines.push("\t# As long as it says itself.".to_owned());
        lines.push("} else {".to_owned());
        lines.push(format!("\tset beresp.ttl = {}s;", self.negative));
        lines.push("}".to_owned());
        let bytes = self.most_bytes.map(|most| format!(" || std.integer(beresp.http.Content-Length, 0) > {most}"));
        lines.push(format!("if (beresp.ttl <= 0s{}) {{", bytes.unwrap_or_default()));
        lines.extend(
            ["\tset beresp.ttl = 120s;", "\tset beresp.uncacheable = true;", "}", "return (deliver);"]
                .map(str::to_owned),
        );
        lines
    }
}

/// The name in Host as squid compares it: in small letters, without a port and a dot at its end.
const HOST: &str = "req.http.Squid-Host";

/// The path with its query as the regexes of acls see it: decoded.
const PATH: &str = "req.http.Squid-Path";

/// The URL as they see it.
const WHOLE: &str = "req.http.Squid-Url";

/// The lines that set these three; `scheme` is an expression.
fn compared(scheme: &str) -> Vec<String> {
    COMPARED.replace("SCHEME", scheme).lines().map(str::to_owned).collect()
}

const COMPARED: &str = r#"# What acls are compared with: decoded, Host without a port and a dot at its end.
if (req.url !~ "^/" && req.url != "*" || req.url ~ "%(00|0[aA]|0[dD]|[^0-9a-fA-F]|.[^0-9a-fA-F]|.?$)") {
	return (synth(400));
}
set req.http.Squid-Host = regsub(std.tolower(req.http.Host), "\.*(:\d*)?$", "");
set req.http.Squid-Path = blob.transcode(decoding=URL, encoded=req.url);
set req.http.Squid-Url = SCHEME + "://" + req.http.Squid-Host + regsub(regsub(req.http.Host, "^.*?(:\d+)?$", "\1"), "^:0*(OWN PORTS)?$", "") + req.http.Squid-Path;"#;

/// The URL as the regexes of refresh_pattern see it.
const URL: &str = "\"http://\" + req.http.Host + req.url";

/// Minimum, share of the age, maximum: the share where the response says when it was changed, else the minimum. Seconds.
fn lifetime(least: f64, share: f64, most: f64) -> Vec<String> {
    vec![
        format!("set beresp.ttl = {least}s;"),
        "if (beresp.http.Last-Modified) {".to_owned(),
        format!("\tset beresp.ttl = (now - std.time(beresp.http.Last-Modified, now)) * {share:?};"),
        "}".to_owned(),
        format!("if (beresp.ttl > {most}s) {{ set beresp.ttl = {most}s; }}"),
    ]
}

fn any_status(all: &[u16]) -> String {
    let any: Vec<String> = all.iter().map(|status| format!("beresp.status == {status}")).collect();
    format!("({})", any.join(" || "))
}

/// The condition under which a list allows: its rules in order, then the opposite of the last one; `none` for an empty list.
fn first_match(rules: &[Rule], none: bool) -> String {
    let rest = rules.last().map_or(none, |rule| !rule.is_allowed).to_string();
    rules.iter().rev().fold(rest, |rest, rule| match rule.is_allowed {
        true => or(&rule.condition, &rest),
        false => and(&not(&rule.condition), &rest),
    })
}

fn not(condition: &str) -> String {
    match condition {
        "true" => "false".to_owned(),
        "false" => "true".to_owned(),
        other => format!("!({other})"),
    }
}

fn and(one: &str, other: &str) -> String {
    match (one, other) {
        ("false", _) | (_, "false") => "false".to_owned(),
        ("true", rest) | (rest, "true") => rest.to_owned(),
        _ => format!("{} && {}", bracketed(one), bracketed(other)),
    }
}

fn or(one: &str, other: &str) -> String {
    match (one, other) {
        ("true", _) | (_, "true") => "true".to_owned(),
        ("false", rest) | (rest, "false") => rest.to_owned(),
        _ if one == other => one.to_owned(),
        _ => format!("{one} || {other}"),
    }
}

/// Ports, or ranges of them.
fn ports(of: &str, values: &[&str]) -> String {
    let one = |value: &&str| {
        let numbers = value.split_once('-').unwrap_or((*value, *value));
        match (numbers.0.parse::<u16>(), numbers.1.parse::<u16>()) {
            (Ok(low), Ok(high)) if low == high => format!("{of} == {low}"),
            (Ok(low), Ok(high)) => format!("({of} >= {low} && {of} <= {high})"),
            _ => "false".to_owned(),
        }
    };
    values.iter().map(one).fold("false".to_owned(), |whole, one| or(&whole, &one))
}

fn is_header(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
}

/// `5 minutes` in seconds.
fn seconds(words: &[String]) -> u64 {
    let number: u64 = words.first().and_then(|word| word.parse().ok()).unwrap_or(0);
    let unit = match words.get(1).map_or('s', |unit| unit.chars().next().unwrap_or('s')) {
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => 1,
    };
    number.saturating_mul(unit)
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
        crate::tests::compiled(migrate("s.conf", &Given(files)).expect("squid's language"))
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
            "if (req.http.Squid-Host ~ \"(?i)^((.+\\.)?a\\.org)$\") {\n\t} else {\n\t\treturn (synth(403));\n\t}",
            "set req.backend_hint = app;",
        ] {
            assert!(migrated.vcl.contains(wanted), "{wanted}:\n{}", migrated.vcl);
        }
        assert_eq!(migrated.notes, []);
    }

    /// squid: "the default is the opposite of the last line in the list".
    #[test]
    fn the_first_match_decides() {
        let rule = |word: &str, condition: &str| Rule { is_allowed: word == "allow", condition: condition.to_owned() };
        for (rules, expect) in [
            (vec![], "true"),
            (vec![rule("allow", "a"), rule("deny", "true")], "a"),
            (vec![rule("allow", "a")], "a"),
            (vec![rule("deny", "b")], "!(b)"),
            (vec![rule("deny", "b"), rule("allow", "true")], "!(b)"),
            (vec![rule("allow", "a"), rule("deny", "b"), rule("allow", "c")], "a || !(b) && c"),
            (vec![rule("deny", "true"), rule("allow", "a")], "false"),
        ] {
            assert_eq!(first_match(&rules, true), expect);
        }
    }

    #[test]
    fn an_acl_that_is_not_known_allows_nothing() {
        let migrated = of(
            "acl t time 9:00-17:00\nacl a dstdomain a.org\nhttp_access deny a t\nhttp_access allow t\nhttp_access allow a\nhttp_port 80 accel\n",
        );
        let host = "req.http.Squid-Host ~ \"(?i)^(a\\.org)$\"";
        let wanted = format!(
            "if ({host}) {{\n\t\treturn (synth(403));\n\t}} else if ({host}) {{\n\t}} else {{\n\t\treturn (synth(403));"
        );
        assert!(migrated.vcl.contains(&wanted), "{}", migrated.vcl);
        assert_eq!(migrated.notes.iter().filter(|note| note.to_string().contains(": refused: ")).count(), 3);
    }

    /// squid's last rule is the opposite of the last line, though that line's acl isn't known here.
    #[test]
    fn a_line_that_allows_nothing_is_still_the_last() {
        let vcl = |lines: &str| {
            let text = format!(
                "http_port 80 accel\ncache_peer 10.0.0.1 parent 80 0 originserver name=p\nacl b src 192.0.2.1\nacl t note vpn yes\n{lines}"
            );
            of(Box::leak(text.into_boxed_str())).vcl
        };
        let denied = vcl("http_access deny b\nhttp_access allow t\n");
        assert!(
            denied.contains("if (client.ip ~ b) {\n\t\treturn (synth(403));\n\t} else {\n\t\treturn (synth(403));"),
            "{denied}"
        );
        let passed = vcl("http_access allow all\ncache allow t\n");
        assert!(
            passed.contains("return (pass);\n\treturn (pass);") || passed.matches("return (pass);").count() == 2,
            "{passed}"
        );
        let missed = vcl("http_access allow all\nmiss_access allow t\n");
        assert!(missed.contains("sub vcl_miss {\n\treturn (synth(403));"), "{missed}");
        let peer = vcl("http_access allow all\ncache_peer_access p allow t\n");
        assert!(!peer.contains("set req.backend_hint = p;") && peer.contains("return (synth(502));"), "{peer}");
    }

    /// Seen beside squid: acls read the URL decoded, and Host without a port and dots at its end.
    #[test]
    fn acls_read_what_squid_reads() {
        let migrated = of(
            "http_port 80 accel\nacl a urlpath_regex ^/admin\nacl b dstdomain b.org\nacl c url_regex ^https://\nhttp_access deny a\nhttp_access deny b\nhttp_access deny c\nhttp_access allow all\n",
        );
        for wanted in [
            "blob.transcode(decoding=URL, encoded=req.url);",
            "if (req.http.Squid-Path ~ \"(^/admin)\") {",
            "if (req.http.Squid-Host ~ \"(?i)^(b\\.org)$\") {",
            "if (req.http.Squid-Url ~ \"(^https://)\") {",
            "unset bereq.http.Squid-Host;",
        ] {
            assert!(migrated.vcl.contains(wanted), "{wanted}:\n{}", migrated.vcl);
        }
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
        for wanted in ["~ \"(?i)\\.png$\"", "set beresp.ttl = 600s;", "* 0.2", "set beresp.ttl = 3600s;"] {
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
        assert!(!migrated.vcl.contains("RFC") && !migrated.vcl.contains("nobody"), "{}", migrated.vcl);
    }
}

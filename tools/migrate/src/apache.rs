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
    let mut sections = Sections::new(&lines);
    for line in &lines {
        let word = |i: usize| line.words.get(i).map_or("", String::as_str);
        let name = word(0).to_ascii_lowercase();
        if sections.take(&name, line) {
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
    migrated.vcl = cache.program(origin);
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

/// The path without its query.
const PATH: &str = "regsub(req.url, \"\\?.*$\", \"\")";

/// What mod_cache is told: where it keeps responses, and for how long.
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
                // It may take away from what is kept: of anything.
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
                let path = if path.eq_ignore_ascii_case("on") { String::new() } else { below(path) };
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
    fn program(&self, (host, port): (&str, &str)) -> String {
        let mut recv = Vec::new();
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
        if !self.disabled.is_empty() {
            recv.extend(vcl::chain(vec![(any(&self.disabled), vec!["return (pass);".to_owned()])]));
        }
        if self.has_enable && !self.enabled.iter().any(String::is_empty) {
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
        let import = if self.is_stale { "\nimport cookie;\n" } else { "" };
        format!(
            "vcl 4.1;\n{import}\n# Apache, with all its sites: it tells them apart by Host, which it gets as the client sent it.\nbackend apache {{\n\t.host = \"{host}\";\n\t.port = \"{port}\";\n}}\n{}{}{subs}",
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
        "order" | "allow" | "deny" | "require" if line.words.iter().any(|word| word == "ip" || word == "from") => {
            "Apache sees the cache's address: mod_remoteip with RemoteIPHeader X-Forwarded-For and RemoteIPInternalProxy 127.0.0.1"
        }
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
        migrate("/a/apache2.conf", ("127.0.0.1", "8081"), &Given(files)).expect("Apache's language")
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
            "~ \"^/private(/|$)\") {\n\t\treturn (pass);",
            "set beresp.ttl = 600s;",
            "if (beresp.ttl > 60s) { set beresp.ttl = 60s; }",
            "unset beresp.http.Set-Cookie;",
            "set beresp.grace = 0s;",
        ] {
            assert!(migrated.vcl.contains(wanted), "{wanted}:\n{}", migrated.vcl);
        }
        assert_eq!(migrated.notes, []);
    }

    /// What is enabled for a part is passed elsewhere; what stands in a section that can't be told is refused and passed.
    #[test]
    fn sections() {
        let migrated = of(
            "<VirtualHost *:80>\nServerName a.org\n</VirtualHost>\n<VirtualHost *:80>\nServerName b.org:80\nServerAlias *.b.org\n<Location \"/c\">\nCacheEnable disk\n</Location>\n</VirtualHost>\n",
        );
        let wanted = "if (!(req.http.Host ~ \"(?i)^(b\\.org|.*\\.b\\.org)\\.?(:\\d*)?$\" && req.http.Host !~ \"(?i)^(a\\.org)\\.?(:\\d*)?$\" && regsub(req.url, \"\\?.*$\", \"\") ~ \"^/c(/|$)\")) { return (pass); }";
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

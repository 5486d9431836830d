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
    let mut stale = 0.0;
    let mut ttl = None;
    for line in &lines {
        let word = |i: usize| line.words.get(i).map_or("", String::as_str);
        let name = word(0).to_ascii_lowercase();
        match name.as_str() {
            "cachedefaultexpire" => ttl = word(1).parse::<f64>().ok(),
            "cachestaleonerror" => stale = if word(1).eq_ignore_ascii_case("on") { 3600.0 } else { stale },
            "cacheroot" => storage(line, &mut migrated),
            "cachedisable" => migrated.note(&line.place, word(0), format!("what begins with {} is passed", word(1))),
            "cacheenable" => migrated.note(
                &line.place,
                word(0),
                "the cache in front keeps what may be kept, of all paths: mod_cache can go",
            ),
            "sslcertificatefile" | "sslcertificatekeyfile" => {}
            _ => known(&name, line, &mut migrated),
        }
    }
    certificates(&lines, &mut migrated);
    let disabled: Vec<String> = lines
        .iter()
        .filter(|line| line.words[0].eq_ignore_ascii_case("cachedisable"))
        .filter_map(|line| line.words.get(1).map(|path| vcl::literal(path)))
        .collect();
    migrated.vcl = program(origin, &disabled, ttl, stale);
    Ok(migrated)
}

/// The whole program: Apache is the one backend, and knows its sites by Host.
fn program((host, port): (&str, &str), disabled: &[String], ttl: Option<f64>, stale: f64) -> String {
    let mut recv = Vec::new();
    if !disabled.is_empty() {
        recv.push(format!("if (req.url ~ \"^({})\") {{ return (pass); }}", disabled.join("|")));
    }
    let mut response = Vec::new();
    if let Some(seconds) = ttl {
        response.push(format!(
            "if (!beresp.http.Cache-Control && !beresp.http.Expires && beresp.ttl > 0s) {{ set beresp.ttl = {seconds}s; }}"
        ));
    }
    if stale > 0.0 {
        response.push(format!("set beresp.grace = {stale}s;"));
        response.push("if (bereq.is_bgfetch && beresp.status >= 500) { return (abandon); }".to_owned());
    }
    format!(
        "vcl 4.1;\n\n# Apache, with all its sites: it tells them apart by Host, which it gets as the client sent it.\nbackend apache {{\n\t.host = \"{host}\";\n\t.port = \"{port}\";\n}}\n{}{}",
        vcl::sub("vcl_recv", &recv),
        vcl::sub("vcl_backend_response", &response)
    )
}

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
        "cacheignoreheaders" => "`unset beresp.http.NAME;` in vcl_backend_response",
        "cacheignorequerystring" | "cachekeybaseurl" => {
            "`set req.url = regsub(req.url, \"\\?.*$\", \"\");`, or the parameters query_drop and query_keep"
        }
        "cachemaxexpire" | "cacheminexpire" => "`if (beresp.ttl > N) { set beresp.ttl = N; }` in vcl_backend_response",
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
        | "cachemaxexpire"
        | "cacheminexpire"
        | "cacheignoreheaders"
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
        let migrated = of("CacheEnable disk /\nCacheDisable /private\nCacheDefaultExpire 600\nCacheMaxExpire 60\n");
        assert!(migrated.vcl.contains("if (req.url ~ \"^(/private)\") { return (pass); }"), "{}", migrated.vcl);
        assert!(migrated.vcl.contains("set beresp.ttl = 600s;"), "{}", migrated.vcl);
        assert!(
            migrated
                .notes
                .iter()
                .any(|note| note.to_string().starts_with("/a/apache2.conf:4: refused: CacheMaxExpire"))
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

// SPDX-License-Identifier: BSD-2-Clause
//! The program: Apache is the one backend; what mod_cache would keep is kept, and what Apache keeps out or decides each time isn't.

use super::access::AccessRules;
use super::cache::Cache;
use super::listen::TlsPorts;
use super::section::PATH;
use crate::vcl;

impl Cache {
    /// The whole program: Apache is the only origin, and knows its sites by Host, and by a port for each one of TLS.
    pub(super) fn program(
        &self,
        (host, port): (&str, &str),
        ports: &TlsPorts,
        has_tls: bool,
        rules: &AccessRules,
    ) -> String {
        let (mut recv, mut fetch) = (branch(&rules.denied, "return (synth(403));"), Vec::new());
        let is_keeping = !self.enabled.is_empty();
        let mut response = Vec::new();
        match is_keeping {
            false => recv.push("return (pass);".to_owned()),
            true => {
                (recv, fetch) = self.requests(recv, rules);
                response = self.response();
            }
        }
        // mod_cache passes a Range on and keeps no part, and keeps nothing of a HEAD.
        let mut missed = vec!["if (req.http.Range || req.method == \"HEAD\") { return (pass); }".to_owned()];
        missed.extend(branch(&rules.unstored, "return (pass);"));
        let mut path = String::new();
        if recv.iter().chain(&missed).any(|line| line.contains(PATH)) {
            path = vcl::decoded_path("apache_path", PATH, true);
            recv.insert(0, "call apache_path;".to_owned());
            fetch.push(format!("unset be{PATH};"));
        }
        let tls: Vec<(String, &str)> = ports.moved().map(|(port, own)| (format!("apache_{port}"), own)).collect();
        let backends: String = [("apache".to_owned(), port)]
            .iter()
            .chain(&tls)
            .map(|(name, port)| format!("\nbackend {name} {{\n\t.host = \"{host}\";\n\t.port = \"{port}\";\n}}\n"))
            .collect();
        let chosen = ports.moved().map(|(port, _)| {
            (format!("std.port(local.ip) == {port}"), vec![format!("set req.backend_hint = apache_{port};")])
        });
        recv.splice(0..0, vcl::chain(chosen.collect()));
        let deliver = if is_keeping { self.deliver() } else { Vec::new() };
        let subs = [
            vcl::sub("vcl_recv", &recv),
            if is_keeping { self.hash(has_tls) } else { String::new() },
            if is_keeping { vcl::sub("vcl_miss", &missed) } else { String::new() },
            vcl::sub("vcl_backend_fetch", &fetch),
            vcl::sub("vcl_backend_response", &response),
            vcl::sub("vcl_deliver", &deliver),
        ];
        let subs = subs.concat();
        let imports = [("blob", "blob."), ("cookie", "cookie."), ("std", "std.")];
        let text = format!("{path}{subs}");
        let imports: String = imports
            .iter()
            .filter(|(_, mark)| text.contains(mark))
            .map(|(name, _)| format!("import {name};\n"))
            .collect();
        format!(
            "vcl 4.1;\n\n{imports}\n# Apache, with all its sites: it tells them apart by Host, which it gets as the client sent it.{backends}{text}"
        )
    }

    /// Requests that mod_cache isn't asked for are passed; the others carry what their sections set.
    fn requests(&self, mut recv: Vec<String>, rules: &AccessRules) -> (Vec<String>, Vec<String>) {
        let passed: Vec<String> = self.disabled.iter().chain(&rules.passed).cloned().collect();
        recv.extend(branch(&passed, "return (pass);"));
        if !self.enabled.iter().any(String::is_empty) {
            recv.push(format!("if (!({})) {{ return (pass); }}", any(&self.enabled)));
        }
        let auth = if self.is_quick { " || req.http.Authorization" } else { "" };
        recv.push(format!("if (req.method != \"GET\" && req.method != \"HEAD\"{auth}) {{ return (pass); }}"));
        let (carried, fetch) = self.settings.carry();
        recv.extend(carried);
        let ignored = ["unset req.http.Cache-Control;", "unset req.http.Pragma;"].map(str::to_owned).to_vec();
        recv.extend(
            self.settings.is_on_for_client("nocontrol").map(|on| vcl::chain(vec![(on, ignored)])).unwrap_or_default(),
        );
        recv.push("if (req.http.Cache-Control ~ \"(?i)no-store\") { return (pass); }".to_owned());
        recv.push("if (req.http.Pragma ~ \"(?i)no-cache\") { set req.hash_always_miss = true; }".to_owned());
        recv.push("return (hash);".to_owned());
        (recv, fetch)
    }

    /// mod_cache's key: scheme, host and URL.
    fn hash(&self, has_tls: bool) -> String {
        let mut lines = Vec::new();
        lines.extend(has_tls.then(|| "hash_data(req.http.X-Forwarded-Proto);".to_owned()));
        lines.push("hash_data(regsub(std.tolower(req.http.Host), \"\\.?(:80)?$\", \"\"));".to_owned());
        let bare = "hash_data(regsub(req.url, \"\\?.*$\", \"\"));".to_owned();
        let mut branches = vec![(String::new(), vec!["hash_data(req.url);".to_owned()])];
        if let Some(on) = self.settings.is_on_for_client("noquery") {
            branches.insert(0, (on, vec![bare]));
        }
        lines.extend(vcl::chain(branches));
        lines.push("return (lookup);".to_owned());
        vcl::sub("vcl_hash", &lines)
    }

    /// The rules by which mod_cache keeps a response, and how long.
    fn response(&self) -> Vec<String> {
        let mut lines = vec![
            "# Only as below: no grace, and nothing where mod_cache keeps nothing.".to_owned(),
            "set beresp.grace = 0s;".to_owned(),
            "set beresp.keep = 0s;".to_owned(),
            "if (beresp.http.Cache-Control) { std.collect(beresp.http.Cache-Control); }".to_owned(),
        ];
        lines.push(format!("if ({}) {{", self.never().join(" ||\n\t    ")));
        lines.push("\tset beresp.ttl = 0s;".to_owned());
        lines.extend(EXPLICIT.lines().map(str::to_owned));
        lines.extend(self.guessed());
        lines.extend(self.stale());
        lines.extend(AT_LAST.lines().map(str::to_owned));
        lines
    }

    fn never(&self) -> Vec<String> {
        let unless = |setting: &str, word: &str| {
            let condition = format!("beresp.http.Cache-Control ~ \"(?i)(^|,)\\s*{word}\"");
            match self.settings.is_on(setting).as_str() {
                "true" => None,
                "false" => Some(condition),
                on => Some(format!("!({on}) && {condition}")),
            }
        };
        // mod_cache_disk counts the bytes of a body without a length, too.
        let bytes = self.settings.has("bytes").then(|| {
            let most = self.settings.real("bytes");
            format!("!beresp.http.Content-Length || std.real(beresp.http.Content-Length, 0.0) > {most}")
        });
        let known = [200, 203, 206, 300, 301, 304].map(|status| format!("beresp.status != {status} && ")).concat();
        let all = [
            unless("nostore", "no-store"),
            unless("private", "private"),
            Some(NEVER.to_owned()),
            bytes,
            Some(format!("{known}!beresp.http.Expires && !beresp.http.Cache-Control")),
        ];
        all.into_iter().flatten().map(|one| format!("({one})")).collect()
    }

    fn guessed(&self) -> Vec<String> {
        let (least, most) = (self.settings.seconds("min"), self.settings.seconds("max"));
        let query = match self.settings.is_on("noquery").as_str() {
            "true" => None,
            "false" => Some("bereq.url ~ \"\\?\"".to_owned()),
            on => Some(format!("!({on}) && bereq.url ~ \"\\?\"")),
        };
        let mut lines: Vec<String> = query
            .into_iter()
            .flat_map(|query| [format!("}} else if ({query}) {{"), "\tset beresp.ttl = 0s;".to_owned()])
            .collect();
        lines.extend([
            format!("}} else if (beresp.http.Last-Modified && std.time(beresp.http.Last-Modified, now) < {DATE}) {{"),
            format!(
                "\tset beresp.ttl = ({DATE} - std.time(beresp.http.Last-Modified, now)) * {};",
                self.settings.real("factor")
            ),
            format!("\tif (beresp.ttl < {least}) {{ set beresp.ttl = {least}; }}"),
            format!("\tif (beresp.ttl > {most}) {{ set beresp.ttl = {most}; }}"),
            "\tset beresp.ttl = beresp.ttl - beresp.age;".to_owned(),
        ]);
        let any = "beresp.status != 200 || beresp.http.Last-Modified || beresp.http.ETag";
        match self.settings.is_on("nolastmod").as_str() {
            "true" => lines.push("} else {".to_owned()),
            "false" => lines.push(format!("}} else if ({any}) {{")),
            on => lines.push(format!("}} else if ({any} || {on}) {{")),
        }
        lines.push(format!("\tset beresp.ttl = {} - beresp.age;", self.settings.seconds("default")));
        if self.settings.is_on("nolastmod") != "true" {
            lines.extend(["} else {", "\tset beresp.ttl = 0s;"].map(str::to_owned));
        }
        lines.push("}".to_owned());
        lines
    }

    /// An old copy serves where Apache fails, unless the response forbids that.
    fn stale(&self) -> Vec<String> {
        let on = match self.settings.is_on("stale").as_str() {
            "false" => return Vec::new(),
            "true" => String::new(),
            on => format!("{on} && "),
        };
        let mut lines = vec![format!(
            "if ({on}beresp.ttl > 0s && beresp.http.Cache-Control !~ \"(?i)(must|proxy)-revalidate|stale-if-error\") {{"
        )];
        lines.push(format!("\tset beresp.keep = {STALE}s;"));
        lines.push(format!(
            "\tset beresp.http.Cache-Control = regsub(beresp.http.Cache-Control, \"(.)$\", \"\\1, \") + \"{GRANT}\";"
        ));
        lines.push("}".to_owned());
        lines
    }

    /// Headers that aren't stored go to the client that caused the fetch alone.
    fn deliver(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.settings.is_on("stale") != "false" {
            lines.push(format!(
                "set resp.http.Cache-Control = regsub(resp.http.Cache-Control, \"(, )?{GRANT}$\", \"\");"
            ));
            lines.push("if (resp.http.Cache-Control == \"\") { unset resp.http.Cache-Control; }".to_owned());
        }
        if !self.dropped.is_empty() {
            let all: Vec<String> = self.dropped.iter().map(|name| format!("unset resp.http.{name};")).collect();
            lines.push(format!("if (obj.hits > 0) {{ {} }}", all.join(" ")));
        }
        lines
    }
}

const STALE: u32 = 604_800;

/// The directive that grants it (RFC 5861), within the cache alone.
const GRANT: &str = "stale-if-error=604800";

const DATE: &str = "std.time(beresp.http.Date, now)";

/// Among them redirections and errors of Apache's own, by their type: mod_cache sees none of these.
const NEVER: &str = r#"beresp.http.Cache-Control ~ "(?i)(^|,)\s*no-cache" || beresp.http.Pragma ~ "(?i)no-cache" || beresp.http.Vary ~ "\*" ||
	    beresp.http.Expires && std.time(beresp.http.Expires, std.real2time(0.0, now)) <= std.real2time(1.0, now) ||
	    beresp.status != 200 && beresp.http.Content-Type == "text/html; charset=iso-8859-1" ||
	    bereq.http.Authorization && beresp.http.Cache-Control !~ "(?i)(^|,)\s*(s-maxage=|public|must-revalidate|proxy-revalidate)""#;

const EXPLICIT: &str = r#"} else if (beresp.http.Cache-Control ~ "(?i)(^|,)\s*s-maxage=\d+\s*(,|$)") {
	set beresp.ttl = std.duration(regsub(beresp.http.Cache-Control, "(?i)^(.*,)?\s*s-maxage=(\d+)\s*(,.*)?$", "\2") + "s", 0s) - beresp.age;
} else if (beresp.http.Cache-Control ~ "(?i)(^|,)\s*max-age=\d+\s*(,|$)") {
	set beresp.ttl = std.duration(regsub(beresp.http.Cache-Control, "(?i)^(.*,)?\s*max-age=(\d+)\s*(,.*)?$", "\2") + "s", 0s) - beresp.age;
} else if (beresp.http.Expires) {
	set beresp.ttl = std.time(beresp.http.Expires, now) - std.time(beresp.http.Date, now) - beresp.age;"#;

const AT_LAST: &str = r#"if (beresp.ttl <= 0s) {
	set beresp.ttl = 0s;
	# An old copy may serve in the place of an error.
	if (beresp.status < 500) {
		set beresp.ttl = 120s;
		set beresp.uncacheable = true;
	}
}
return (deliver);"#;

/// The lines behind a condition: any of several, or always where one of them is empty.
fn branch(conditions: &[String], lines: &str) -> Vec<String> {
    match conditions.is_empty() {
        true => Vec::new(),
        false => vcl::chain(vec![(any(conditions), vec![lines.to_owned()])]),
    }
}

fn any(all: &[String]) -> String {
    match all.iter().any(String::is_empty) {
        true => String::new(),
        false => all
            .iter()
            .map(|one| if all.len() > 1 { format!("({one})") } else { one.clone() })
            .collect::<Vec<_>>()
            .join(" || "),
    }
}

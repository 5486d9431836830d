// SPDX-License-Identifier: BSD-2-Clause
//! The program: Apache is the one backend; what it keeps out or decides each time isn't kept.

use super::access::AccessRules;
use super::cache::Cache;
use super::section::PATH;
use crate::vcl;

impl Cache {
    /// The whole program: Apache is the one backend, and knows its sites by Host.
    pub(super) fn program(&self, (host, port): (&str, &str), rules: AccessRules) -> String {
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

// SPDX-License-Identifier: BSD-2-Clause
//! Implicit behaviour of old releases in VCL 4.1: that of the core in front of the user's subroutines, the built-in VCL
//! behind them. The last subroutine always returns, so the built-in VCL of 7.1 is reached only if both agree.

use tables::dialects::{Dialect, OldSub};

use super::flat::{FlatItem, FlatItemKind};
use crate::token::{Tok, VclSource};

/// Header of `bereq` for 2.x's `cacheable`.
pub(crate) const CACHEABLE: &str = "X-VCL-Cacheable";
/// Header of `bereq` for a fetch that is to restart its client.
pub(crate) const RESTART: &str = "X-VCL-Restart";
/// Header that marks the response to a failed fetch.
pub(crate) const FAILED: &str = "X-VCL-Fetch-Failed";

/// Prefix of response headers that carry a request header to the client's side.
pub(crate) const CARRIED: &str = "X-VCL-Req-";
/// Header that stores the text of an object's hash, for purge_hash.
pub(crate) const HASH: &str = "X-VCL-Hash";
/// Response header that carries the URL to the client's side.
pub(crate) const CARRIED_URL: &str = "X-VCL-URL";
pub(crate) const METHOD: &str = "X-VCL-Method";
/// Request header that says that the client accepts gzip.
pub(crate) const CAN_GZIP: &str = "X-VCL-Can-Gzip";
/// Request header that says that ESI is switched off for the client.
pub(crate) const ESI_OFF: &str = "X-VCL-ESI-Off";
pub(crate) const BACKEND: &str = "X-VCL-Backend";
const STATUS: &str = "X-VCL-Status";
/// Subroutine that runs vcl_deliver for responses from vcl_error.
pub(crate) const DELIVER_ERRORS: &str = "deliver_errors";

/// The features that a program uses and the translation must provide.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)]
pub(crate) struct TranslationPolicy {
    dialect: Dialect,
    pub std: bool,
    pub purge: bool,
    pub saint: bool,
    /// The program needs the hash as text.
    pub blob: bool,
    /// Backends are selected when the origin is asked.
    pub late: bool,
    /// Failed fetches go to vcl_synth, the old vcl_error.
    pub failed: bool,
    pub restart_in_fetch: bool,
    has_error: bool,
    /// The program reads or sets `cacheable` in vcl_fetch.
    cacheable: bool,
    /// The program handles X-Forwarded-For itself.
    forwarded: bool,
    pub chooses: bool,
    pub carry_restarts: bool,
    pub carry_esi_level: bool,
    pub no_esi: bool,
    pub deliver_used: bool,
    /// The program has a vcl_deliver with statements.
    pub delivers: bool,
    pub carry_url: bool,
    /// The program bans by the text of the hash.
    pub purge_hash: bool,
    /// The program asks for a request's director. A resolved backend doesn't say, because it may be in several.
    pub asks_director: bool,
    /// The backend or director that requests start with.
    pub default_name: String,
    /// The statements on `bereq` in vcl_miss return, so the built-in vcl_backend_fetch isn't reached.
    pub fetch_returns: bool,
    /// Headers of the client's request that vcl_fetch reads and the origin's request doesn't have.
    own: Vec<String>,
    /// Times of the client's request that vcl_fetch reads: the variable, and the header that carries it.
    own_times: Vec<(&'static str, &'static str)>,
    pub carry_method: bool,
    pub carry_can_gzip: bool,
    pub carry_esi: bool,
    /// Request headers that vcl_fetch sets, and whether it also unsets them.
    carried: Vec<(String, bool)>,
    pub default_is_director: bool,
}

impl TranslationPolicy {
    pub fn new(dialect: Dialect, items: &[FlatItem], sources: &[VclSource]) -> TranslationPolicy {
        let words: Vec<&FlatItem> = items.iter().filter(|i| matches!(i.kind, FlatItemKind::Tok(_))).collect();
        let text = |at: usize| {
            let i = words.get(at)?;
            std::str::from_utf8(&sources[i.src as usize].text[i.start as usize..i.end as usize]).ok()
        };
        let low = |at: usize| text(at).unwrap_or("").to_ascii_lowercase();
        let is = |at: usize, list: &[&str]| list.iter().enumerate().all(|(n, word)| low(at + n) == *word);
        let mut p = TranslationPolicy {
            dialect,
            std: false,
            purge: false,
            saint: false,
            blob: false,
            late: false,
            failed: false,
            restart_in_fetch: false,
            has_error: false,
            cacheable: false,
            forwarded: false,
            chooses: false,
            carry_restarts: false,
            carry_esi_level: false,
            no_esi: false,
            deliver_used: false,
            delivers: false,
            carry_url: false,
            purge_hash: false,
            fetch_returns: false,
            asks_director: false,
            default_name: String::new(),
            own: Vec::new(),
            own_times: Vec::new(),
            carry_method: false,
            carry_can_gzip: false,
            carry_esi: false,
            carried: Vec::new(),
            default_is_director: false,
        };
        let mut sub = String::new();
        for (at, item) in words.iter().enumerate() {
            if is(at, &["sub"]) {
                sub = low(at + 1);
                p.has_error |= sub == OldSub::Error.name();
            }
            p.purge_hash |= is(at, &["purge_hash", "("]);
            p.purge |= is(at, &["purge", ";"]) && item.tok() == Some(Tok::Id);
            p.purge |= is(at, &["set", "obj", ".", "cacheable", "=", "false"]) && sub == "vcl_hit";
            p.purge |= is(at, &["set", "obj", ".", "ttl"]) && sub != "vcl_fetch" && sub != "vcl_error";
            p.cacheable |=
                is(at, &["beresp", ".", "cacheable"]) || (is(at, &["obj", ".", "cacheable"]) && sub != "vcl_hit");
            p.forwarded |= item.tok() == Some(Tok::Id) && is(at, &["x-forwarded-for"]);
            p.saint |= is(at, &["set", "beresp", ".", "saintmode"]);
            p.chooses |= is(at, &["set", "req", ".", "backend"]);
        }
        p.failed = p.has_error;
        // The rules for TTLs use std.
        p.std = true;
        p
    }

    /// Records that vcl_fetch reads a header of the client's request. Returns its name in the fetch.
    pub fn own_field(&mut self, name: &str) -> String {
        if !self.own.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            self.own.push(name.to_owned());
        }
        format!("bereq.http.X-VCL-Own-{name}")
    }

    /// Records that vcl_fetch reads req.grace or req.ttl. Returns the header that carries it.
    pub fn own_time(&mut self, name: &str) -> &'static str {
        let known = if name == "req.grace" { ("req.grace", "X-VCL-Grace") } else { ("req.ttl", "X-VCL-TTL") };
        if !self.own_times.contains(&known) {
            self.own_times.push(known);
        }
        known.1
    }

    /// Records that vcl_fetch sets (or unsets) a header that the client's side reads.
    pub fn carry_field(&mut self, name: &str, unset: bool) {
        match self.carried.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, can_unset)) => *can_unset |= unset,
            None => self.carried.push((name.to_owned(), unset)),
        }
    }

    /// The reason for the statement added to `return (deliver)` of vcl_fetch.
    pub fn deliver_note(&self) -> &'static str {
        match self.dialect {
            Dialect::V21 => {
                "2.1 stored nothing that isn't cacheable, and kept nothing in grace that had no time to live"
            }
            Dialect::V20 | Dialect::V30 => {
                "a response without time to live was as good as not stored, and had no grace"
            }
        }
    }

    /// Notes on the whole program: the addition, its reason, and whether behaviour may change.
    pub fn notes(&self) -> Vec<(&'static str, &'static str, bool)> {
        let mut notes = vec![
            (
                "vcl 4.1;",
                "a file says its version; what the old release did by itself is written out below, in subroutines of the same \
                 names",
                false,
            ),
            (
                "(grace)",
                "an object in grace is delivered to the first who asks too, and refreshed in the background; before 4.0 the \
                 first waited for a fresh one",
                true,
            ),
        ];
        if !self.forwarded {
            let reason = match self.dialect {
                Dialect::V20 => "the core adds the client to X-Forwarded-For, as 2.0 did",
                Dialect::V21 | Dialect::V30 => {
                    "the core always adds the client to X-Forwarded-For now, not only where the built-in vcl_recv was reached"
                }
            };
            notes.push(("(X-Forwarded-For)", reason, false));
        }
        notes
    }

    /// Subroutines in front of the user's.
    pub fn before(&self, default_backend: &str) -> String {
        let mut out = format!("# --- What VCL {} had before these subroutines.\n\n", self.dialect.name());
        self.before_recv(&mut out, default_backend);
        if self.carry_restarts || self.carry_esi_level || self.restart_in_fetch || self.cacheable {
            let mut lines = Vec::new();
            if self.cacheable {
                lines.push(format!("unset bereq.http.{CACHEABLE};"));
            }
            if self.restart_in_fetch {
                lines.push(format!("unset bereq.http.{RESTART};"));
            }
            if !lines.is_empty() {
                sub(&mut out, "vcl_backend_fetch", &lines);
            }
        }
        if self.forwarded && self.dialect == Dialect::V20 {
            sub(
                &mut out,
                "vcl_backend_fetch",
                &[
                    "# 2.0 told the origin the client's address whatever vcl_recv did.".to_owned(),
                    "if (bereq.http.X-Forwarded-For) {".to_owned(),
                    "    set bereq.http.X-Forwarded-For = bereq.http.X-Forwarded-For + \", \" + client.ip;".to_owned(),
                    "} else {".to_owned(),
                    "    set bereq.http.X-Forwarded-For = client.ip;".to_owned(),
                    "}".to_owned(),
                ],
            );
        }
        if self.dialect == Dialect::V20 {
            let lines =
                ["# 2.0 passed without it.", "if (bereq.uncacheable) {", "    unset bereq.http.Cache-Control;", "}"];
            sub(&mut out, "vcl_backend_fetch", &lines.map(str::to_owned));
        }
        if self.fetch_returns {
            let lines = [
                "# What is fetched to be stored is asked for without a body.",
                "if (!bereq.uncacheable) {",
                "    unset bereq.body;",
                "}",
            ];
            sub(&mut out, "vcl_backend_fetch", &lines.map(str::to_owned));
        }
        self.before_fetch(&mut out);
        self.carried_back(&mut out);
        if self.purge_hash {
            sub(&mut out, "vcl_deliver", &[format!("unset resp.http.{HASH};")]);
        }
        if self.failed {
            self.before_deliver(&mut out);
        }
        if self.restart_in_fetch {
            self.before_synth(&mut out);
        }
        if self.no_esi {
            let lines = ["if (req.http.X-VCL-No-ESI) {", "    set resp.do_esi = false;", "}"];
            sub(&mut out, "vcl_deliver", &lines.map(str::to_owned));
            sub(&mut out, "vcl_backend_fetch", &["unset bereq.http.X-VCL-No-ESI;".to_owned()]);
        }
        self.deliver_as_before(&mut out);
        out
    }

    fn before_recv(&self, out: &mut String, default_backend: &str) {
        let mut lines = Vec::new();
        if self.forwarded {
            lines.push("# The core has added the client to X-Forwarded-For: here VCL does that.".to_owned());
            lines.push("if (req.restarts == 0) {".to_owned());
            let last = "\"(^|, )[^, ]*$\"";
            lines.push(format!("    set req.http.X-Forwarded-For = regsub(req.http.X-Forwarded-For, {last}, \"\");"));
            lines.push("    if (req.http.X-Forwarded-For == \"\") {".to_owned());
            lines.push("        unset req.http.X-Forwarded-For;".to_owned());
            lines.push("    }".to_owned());
            lines.push("}".to_owned());
        }
        if self.default_is_director {
            lines.push(format!("set req.backend_hint = {default_backend};"));
        } else if self.chooses {
            lines.push("# A restart begins with the default backend.".to_owned());
            lines.push("if (req.restarts > 0) {".to_owned());
            lines.push(format!("    set req.backend_hint = {default_backend};"));
            lines.push("}".to_owned());
        }
        if self.asks_director {
            lines.push(format!("set req.http.{BACKEND} = \"{}\";", self.default_name));
        }
        if self.carry_restarts {
            carry_number(&mut lines, "X-VCL-Restarts", "req.restarts");
        }
        if self.carry_esi_level {
            carry_number(&mut lines, "X-VCL-ESI-Level", "req.esi_level");
        }
        if self.restart_in_fetch {
            lines.push(format!("unset req.http.{STATUS};"));
        }
        sub(out, "vcl_recv", &lines);
        if self.purge_hash {
            sub(out, "vcl_hash", &[format!("set req.http.{HASH} = \"\";")]);
        }
        let own = self.own.iter().flat_map(|name| {
            [
                format!("unset req.http.X-VCL-Own-{name};"),
                format!("if (req.http.{name}) {{"),
                format!("    set req.http.X-VCL-Own-{name} = req.http.{name};"),
                "}".to_owned(),
            ]
        });
        sub(out, "vcl_hash", &own.collect::<Vec<_>>());
        let times = self.own_times.iter().map(|(name, field)| format!("set req.http.{field} = {name};"));
        sub(out, "vcl_hash", &times.collect::<Vec<_>>());
        let marks =
            [(self.carry_can_gzip, "req.can_gzip", CAN_GZIP), (self.carry_esi, "req.http.X-VCL-No-ESI", ESI_OFF)];
        for (_, condition, field) in marks.into_iter().filter(|(asked, ..)| *asked) {
            let text = format!(
                "if ({condition}) {{\n    set req.http.{field} = \"1\";\n}} else {{\n    unset req.http.{field};\n}}"
            );
            sub(out, "vcl_hash", &text.lines().map(str::to_owned).collect::<Vec<_>>());
        }
        if self.carry_method {
            sub(
                out,
                "vcl_hash",
                &[
                    "# What is fetched to be stored is a GET, whatever the client's method.".to_owned(),
                    format!("set req.http.{METHOD} = req.method;"),
                ],
            );
        }
    }

    fn before_fetch(&self, out: &mut String) {
        let mut lines: Vec<String> = Vec::new();
        let mut say = |text: &str| lines.extend(text.lines().map(str::to_owned));
        if self.purge_hash {
            say(&format!("# What it was hashed by.\nset beresp.http.{HASH} = bereq.http.{HASH};"));
        }
        if self.failed {
            say(&format!("unset beresp.http.{FAILED};"));
        }
        match self.dialect {
            Dialect::V30 => say(V30_TTL),
            Dialect::V20 | Dialect::V21 => {
                say(V2X_TTL);
                match (self.cacheable, self.dialect) {
                    // 2.0 decided by the status alone, even on a pass.
                    (true, Dialect::V20) => {
                        say(&format!("if ({CACHED}) {{\n    set bereq.http.{CACHEABLE} = \"1\";\n}}"))
                    }
                    (true, _) => say(&format!(
                        "if (({CACHED}) && !bereq.uncacheable) {{\n    set bereq.http.{CACHEABLE} = \"1\";\n}}"
                    )),
                    (false, Dialect::V21) => {
                        say(&format!(
                            "# Only these were stored.\nif (!({CACHED})) {{\n    set beresp.uncacheable = true;\n}}"
                        ));
                    }
                    _ => {}
                }
            }
        }
        sub(out, "vcl_backend_response", &lines);
    }

    /// Copies request headers set by vcl_fetch from the response, if the response is from this request's fetch.
    fn carried_back(&self, out: &mut String) {
        let mut lines = Vec::new();
        for (name, unset) in &self.carried {
            lines.push(format!("if (resp.http.{CARRIED}{name}) {{"));
            lines.push("    if (obj.hits == 0) {".to_owned());
            lines.push(format!("        set req.http.{name} = resp.http.{CARRIED}{name};"));
            if *unset {
                lines.push(format!("        if (req.http.{name} == \"\") {{"));
                lines.push(format!("            unset req.http.{name};"));
                lines.push("        }".to_owned());
            }
            lines.push("    }".to_owned());
            lines.push(format!("    unset resp.http.{CARRIED}{name};"));
            lines.push("}".to_owned());
        }
        if self.carry_url {
            lines.push(format!("if (resp.http.{CARRIED_URL}) {{"));
            lines.push("    if (obj.hits == 0) {".to_owned());
            lines.push(format!("        set req.url = resp.http.{CARRIED_URL};"));
            lines.push("    }".to_owned());
            lines.push(format!("    unset resp.http.{CARRIED_URL};"));
            lines.push("}".to_owned());
        }
        sub(out, "vcl_deliver", &lines);
    }

    fn before_deliver(&self, out: &mut String) {
        let mut lines = vec![
            "# A fetch has failed: that was vcl_error's business.".to_owned(),
            format!("if (resp.http.{FAILED} == \"restart\") {{"),
            format!("    set req.http.{STATUS} = resp.status;"),
            "    return (restart);".to_owned(),
            format!("}} else if (resp.http.{FAILED}) {{"),
            "    return (synth(resp.status, resp.reason));".to_owned(),
            "}".to_owned(),
        ];
        sub(out, "vcl_deliver", &lines);
        lines.clear();
        lines.push("if (beresp.reason == \"Backend fetch failed\") {".to_owned());
        lines.push("    set beresp.reason = \"Service Unavailable\";".to_owned());
        lines.push("}".to_owned());
        if self.restart_in_fetch {
            lines.push(format!("if (bereq.http.{RESTART}) {{"));
            lines.push(format!("    set beresp.http.{FAILED} = \"restart\";"));
            lines.push("} else {".to_owned());
            lines.push(format!("    set beresp.http.{FAILED} = \"error\";"));
            lines.push("}".to_owned());
        } else {
            lines.push(format!("set beresp.http.{FAILED} = \"error\";"));
        }
        if self.carry_url {
            lines.push(format!("set beresp.http.{CARRIED_URL} = bereq.url;"));
        }
        for (name, unset) in &self.carried {
            lines.push(format!("if (bereq.http.{name}) {{"));
            lines.push(format!("    set beresp.http.{CARRIED}{name} = bereq.http.{name};"));
            if *unset {
                lines.push("} else {".to_owned());
                lines.push(format!("    set beresp.http.{CARRIED}{name} = \"\";"));
            }
            lines.push("}".to_owned());
        }
        lines.push("return (deliver);".to_owned());
        sub(out, "vcl_backend_error", &lines);
    }

    /// Restores the status of the last fetch for the error after the last restart.
    fn before_synth(&self, out: &mut String) {
        let text = format!(
            "if (req.http.{STATUS}) {{\n    set resp.status = std.integer(req.http.{STATUS}, 503);\n    unset req.http.{STATUS};\n}}"
        );
        sub(out, "vcl_synth", &text.lines().map(str::to_owned).collect::<Vec<_>>());
    }

    fn deliver_as_before(&self, out: &mut String) {
        let mut lines: Vec<String> =
            "# What has no time to live has no grace either.\nif (beresp.ttl <= 0s) {\n    set beresp.grace = 0s;\n}"
                .lines()
                .map(str::to_owned)
                .collect();
        if self.dialect == Dialect::V21 && self.cacheable {
            lines.push(format!("if (!bereq.http.{CACHEABLE}) {{"));
            lines.push("    set beresp.uncacheable = true;".to_owned());
            lines.push("}".to_owned());
        }
        sub(out, "deliver_as_before", &lines);
    }

    /// Subroutines behind the user's: the old built-in VCL.
    pub fn after(&self, late: &str) -> String {
        let mut out =
            format!("\n# --- The built-in VCL of {}, where it differs from today's.\n\n", self.dialect.name());
        let mut recv: Vec<String> = Vec::new();
        if self.forwarded && self.dialect != Dialect::V20 {
            recv.extend(FORWARDED.lines().map(str::to_owned));
        }
        recv.extend(RECV.lines().map(str::to_owned));
        sub(&mut out, "vcl_recv", &recv);
        out.push_str(late);
        if self.purge_hash {
            let text = format!(
                "set req.http.{HASH} = req.http.{HASH} + req.url + \"#\";\nif (req.http.host) {{\n    \
                 set req.http.{HASH} = req.http.{HASH} + req.http.host + \"#\";\n}} else {{\n    \
                 set req.http.{HASH} = req.http.{HASH} + server.ip + \"#\";\n}}"
            );
            sub(&mut out, "vcl_hash", &text.lines().map(str::to_owned).collect::<Vec<_>>());
        }
        let hit_for_pass = "if (beresp.ttl < 120s) {\n        set beresp.ttl = 120s;\n    }\n    return (pass(beresp.ttl + beresp.age));";
        let fetch = match self.dialect {
            Dialect::V30 => "if (beresp.ttl <= 0s || beresp.http.Set-Cookie || beresp.http.Vary == \"*\") {\n    \
                             return (pass(120s + beresp.age));\n}\n"
                .to_owned(),
            Dialect::V21 if self.cacheable => format!(
                "if (!bereq.http.{CACHEABLE}) {{\n    set beresp.uncacheable = true;\n    return (deliver);\n}}\n\
                 if (beresp.http.Set-Cookie) {{\n    {hit_for_pass}\n}}\n"
            ),
            Dialect::V21 => format!(
                "if (beresp.uncacheable) {{\n    return (deliver);\n}}\nif (beresp.http.Set-Cookie) {{\n    {hit_for_pass}\n}}\n"
            ),
            Dialect::V20 => {
                let not = if self.cacheable { format!("!bereq.http.{CACHEABLE}") } else { format!("!({CACHED})") };
                format!("if ({not} || beresp.http.Set-Cookie) {{\n    {hit_for_pass}\n}}\n")
            }
        };
        let fetch = format!(
            "if (bereq.uncacheable) {{\n    return (deliver);\n}}\n{fetch}call deliver_as_before;\nreturn (deliver);"
        );
        sub(&mut out, "vcl_backend_response", &fetch.lines().map(str::to_owned).collect::<Vec<_>>());
        if self.delivers {
            // The page and its headers are those of the current built-in VCL; its lines are indented already.
            let page = crate::builtin_sub("vcl_builtin_synth");
            out.push_str(&format!("sub vcl_synth {{{page}    call {DELIVER_ERRORS};\n    return (deliver);\n}}\n\n"));
        }
        out
    }
}

/// Copies a number of the client's request to a header for the fetch; 0 unsets the header.
fn carry_number(lines: &mut Vec<String>, field: &str, variable: &str) {
    lines.push(format!("if ({variable} > 0) {{"));
    lines.push(format!("    set req.http.{field} = {variable};"));
    lines.push("} else {".to_owned());
    lines.push(format!("    unset req.http.{field};"));
    lines.push("}".to_owned());
}

fn sub(out: &mut String, name: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    out.push_str(&format!("sub {name} {{\n"));
    lines.iter().for_each(|line| out.push_str(&format!("    {line}\n")));
    out.push_str("}\n\n");
}

const CACHED: &str = "beresp.status == 200 || beresp.status == 203 || beresp.status == 300 || beresp.status == 301 || \
                      beresp.status == 302 || beresp.status == 404 || beresp.status == 410";

/// 3.0 had a default TTL for redirects, and none for unknown statuses or a pass. A missing TTL and one that has already
/// expired read alike, because beresp.ttl counts from the response's Date.
const V30_TTL: &str = "\
if (bereq.uncacheable || beresp.status == 204 || beresp.status == 304 || beresp.status == 414) {
    set beresp.ttl = -1s;
} else if (beresp.ttl <= 0s && (beresp.status == 302 || beresp.status == 307) &&
    std.time(beresp.http.Expires, std.time(integer=0)) <= std.time(integer=0) &&
    beresp.http.Cache-Control !~ \"(?i)(s-maxage|max-age)=\") {
    # default_ttl, as without an Expires that can be read.
    set beresp.ttl = 120s;
} else if (beresp.http.Age && std.time(beresp.http.Expires, std.time(integer=0)) <= std.time(integer=0) &&
    beresp.http.Cache-Control !~ \"(?i)(s-maxage|max-age)=\" &&
    (beresp.status == 200 || beresp.status == 203 || beresp.status == 300 || beresp.status == 301 || beresp.status == 302 ||
    beresp.status == 307 || beresp.status == 404 || beresp.status == 410)) {
    # default_ttl began with the fetch, whatever the Age.
    set beresp.ttl = beresp.ttl + std.duration(beresp.http.Age + \"s\", 0s);
}";

/// 2.x gave every status a TTL. This adds it for statuses without one in the core.
const V2X_TTL: &str = "\
if (beresp.ttl <= 0s && !bereq.uncacheable && beresp.status != 200 && beresp.status != 203 && beresp.status != 204 &&
    beresp.status != 300 && beresp.status != 301 && beresp.status != 304 && beresp.status != 404 && beresp.status != 410 &&
    beresp.status != 414) {
    if (beresp.http.Cache-Control ~ \"(?i)s-maxage=[0-9]\") {
        set beresp.ttl = std.duration(regsub(beresp.http.Cache-Control, \"(?i)^.*s-maxage=([0-9]+).*$\", \"\\1s\"), 0s) -
            std.duration(beresp.http.Age + \"s\", 0s);
    } else if (beresp.http.Cache-Control ~ \"(?i)max-age=[0-9]\") {
        set beresp.ttl = std.duration(regsub(beresp.http.Cache-Control, \"(?i)^.*max-age=([0-9]+).*$\", \"\\1s\"), 0s) -
            std.duration(beresp.http.Age + \"s\", 0s);
    } else if (std.time(beresp.http.Expires, std.time(integer=0)) <= std.time(integer=0)) {
        # default_ttl, as without an Expires that can be read.
        set beresp.ttl = 120s;
    }
} else if (beresp.http.Age && std.time(beresp.http.Expires, std.time(integer=0)) <= std.time(integer=0) &&
    beresp.http.Cache-Control !~ \"(?i)(s-maxage|max-age)=\") {
    # default_ttl began with the fetch, whatever the Age.
    set beresp.ttl = beresp.ttl + std.duration(beresp.http.Age + \"s\", 0s);
}";

const FORWARDED: &str = "\
if (req.restarts == 0) {
    if (req.http.X-Forwarded-For) {
        set req.http.X-Forwarded-For = req.http.X-Forwarded-For + \", \" + client.ip;
    } else {
        set req.http.X-Forwarded-For = client.ip;
    }
}";

/// Old releases piped unknown methods, including PATCH. A pipe also forwards the requests that follow without looking
/// at them.
const RECV: &str = "\
if (req.method != \"GET\" && req.method != \"HEAD\" && req.method != \"PUT\" && req.method != \"POST\" &&
    req.method != \"TRACE\" && req.method != \"OPTIONS\" && req.method != \"DELETE\" && req.method != \"PATCH\") {
    return (synth(501));
}
if (req.method != \"GET\" && req.method != \"HEAD\") {
    return (pass);
}
if (req.http.Authorization || req.http.Cookie) {
    return (pass);
}
return (hash);";

// SPDX-License-Identifier: BSD-2-Clause
//! What is done with a request for a location, in each of VCL's subroutines.

use super::config::Directive;
use super::scope::{LocationScope, duration, time};
use super::site;
use super::upstream::{Attributes, MigratedBackends};
use super::value::{ExpressionSide, expression, truth};
use crate::migrated::Migrated;
use crate::vcl;

/// The parts of the whole that one location has to know.
pub struct Around<'a> {
    pub upstreams: Vec<&'a Directive>,
    /// The address at which nginx listens for what it serves itself.
    pub origin: String,
    /// Seconds for which unused objects stay, by zone.
    pub inactive: Vec<(String, f64)>,
}

/// The place that requests go to: scheme, name, and the URI of `proxy_pass` if it has one.
fn target<'a>(scope: &LocationScope<'a>) -> Option<(&'a Directive, &'a str, &'a str, Option<&'a str>)> {
    let pass = scope.inner.iter().find(|d| d.name == "proxy_pass")?;
    let (scheme, rest) = pass.word(0).split_once("://")?;
    // Behind `unix:PATH:` a URI may stand.
    let at = match rest.strip_prefix("unix:") {
        Some(path) => path.find(':').map_or(rest.len(), |at| at + 6),
        None => rest.find('/').unwrap_or(rest.len()),
    };
    let (name, uri) = rest.split_at(at);
    Some((pass, scheme, name, Some(uri.trim_start_matches(':')).filter(|uri| !uri.is_empty())))
}

pub fn recv(
    scope: &LocationScope<'_>,
    around: &Around<'_>,
    backends: &mut MigratedBackends,
    migrated: &mut Migrated,
) -> Vec<String> {
    // Those of the server come before, of themselves.
    let is_location = !std::ptr::eq(scope.inner, scope.server);
    let mut lines = if is_location { conditions(scope.inner, migrated) } else { Vec::new() };
    if let Some(answer) = scope.inner.iter().find(|d| d.name == "return") {
        lines.extend(answered(answer, migrated));
        return lines;
    }
    match target(scope) {
        Some((pass, _, name, _)) if name.contains('$') => {
            migrated.refuse(
                &pass.place,
                "proxy_pass",
                format!("{name} is made of variables; `import dynamic;` finds backends by name"),
            );
            return lines;
        }
        Some((_, scheme, name, _)) => {
            let chosen = backends.expression(scheme, name, &around.upstreams, &attributes(scope));
            lines.push(format!("set req.backend_hint = {chosen};"));
        }
        None => {
            let chosen = backends.expression("http", &around.origin, &[], &Vec::new());
            lines.push(format!("set req.backend_hint = {chosen};"));
        }
    }
    let fields = scope.all("proxy_set_header");
    if fields.iter().any(|field| field.word(0).eq_ignore_ascii_case("upgrade")) {
        lines.push("if (req.http.Upgrade ~ \"(?i)websocket\") { return (pipe); }".to_owned());
    }
    if !scope.is_cached() {
        lines.push("return (pass);".to_owned());
        return lines;
    }
    lines.push("if (req.method != \"GET\" && req.method != \"HEAD\") { return (pass); }".to_owned());
    for directive in scope.all_of_kinds("cache_bypass") {
        for word in &directive.words {
            match truth(word, ExpressionSide::Client) {
                Ok(condition) => lines.push(format!("if ({condition}) {{ set req.hash_always_miss = true; }}")),
                Err(what) => migrated.refuse(
                    &directive.place,
                    &directive.name,
                    format!("{what} is unknown here: write the condition in vcl_recv"),
                ),
            }
        }
    }
    if let Some(cache) = scope.one_of_kinds("cache") {
        migrated.note(&cache.place, &cache.name, "as in nginx, requests with Cookie or Authorization get what is kept, too: is each of these pages the same for all?");
    }
    lines.push("return (hash);".to_owned());
    lines
}

/// The lines for what a server itself does before its locations: `if`, `return`.
pub fn recv_of_server(scope: &LocationScope<'_>, migrated: &mut Migrated) -> Vec<String> {
    let mut lines = conditions(scope.server, migrated);
    if let Some(answer) = scope.server.iter().find(|d| d.name == "return") {
        lines.extend(answered(answer, migrated));
    }
    lines
}

/// `if ($host = NAME) { return ...; }` and its like.
fn conditions(block: &[Directive], migrated: &mut Migrated) -> Vec<String> {
    let mut lines = Vec::new();
    for directive in block.iter().filter(|d| d.name == "if") {
        let words: Vec<&str> =
            directive.words.iter().map(|w| w.trim_matches(['(', ')'])).filter(|w| !w.is_empty()).collect();
        let condition = match &words[..] {
            [left, operator @ ("=" | "!="), right] => {
                let operator = if *operator == "=" { "==" } else { operator };
                let sides = (expression(left, ExpressionSide::Client, ""), vcl::string(right));
                if let (Ok(left), Some(right)) = sides { Some(format!("{left} {operator} {right}")) } else { None }
            }
            [left, operator @ ("~" | "~*" | "!~" | "!~*"), right] => {
                let flag = if operator.ends_with('*') { "(?i)" } else { "" };
                let sides = (expression(left, ExpressionSide::Client, ""), vcl::string(&format!("{flag}{right}")));
                let operator = operator.trim_end_matches('*');
                if let (Ok(left), Some(right)) = sides { Some(format!("{left} {operator} {right}")) } else { None }
            }
            [value] => truth(value, ExpressionSide::Client).ok(),
            _ => None,
        };
        match (condition, directive.inside()) {
            (Some(condition), [only]) if only.name == "return" => {
                let answer = answered(only, migrated);
                lines.push(format!("if ({condition}) {{"));
                lines.extend(answer.into_iter().map(|line| format!("\t{line}")));
                lines.push("}".to_owned());
            }
            _ => migrated.refuse(
                &directive.place,
                "if",
                "only a comparison with a `return` in it is translated: write it in vcl_recv",
            ),
        }
    }
    lines
}

/// `return CODE [TEXT]`, `return URL`.
fn answered(directive: &Directive, migrated: &mut Migrated) -> Vec<String> {
    let first = directive.word(0);
    let (status, text) = match first.parse::<u16>() {
        Ok(status) => (status, directive.word(1)),
        Err(_) => (302, first),
    };
    // nginx closes the connection without an answer.
    if status == 444 {
        migrated.note(
            &directive.place,
            "return",
            "444 is answered with 403: a connection isn't closed without an answer",
        );
        return vec!["return (synth(403));".to_owned()];
    }
    if text.is_empty() {
        return vec![format!("return (synth({status}));")];
    }
    match expression(text, ExpressionSide::Client, "") {
        Ok(text) => vec![format!("return (synth({status}, {text}));")],
        Err(variable) => {
            migrated.refuse(&directive.place, "return", format!("{variable} is unknown here"));
            Vec::new()
        }
    }
}

fn attributes(scope: &LocationScope<'_>) -> Attributes {
    let of = |name: &str, attribute: &str| {
        scope.one(name).and_then(|d| time(d.word(0))).map(|seconds| format!(".{attribute} = {};", duration(seconds)))
    };
    [
        of("proxy_connect_timeout", "connect_timeout"),
        of("proxy_read_timeout", "first_byte_timeout"),
        of("proxy_read_timeout", "between_bytes_timeout"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// vcl_hash, where the key is another than scheme, host and URL.
pub fn hash(scope: &LocationScope<'_>, migrated: &mut Migrated) -> Vec<String> {
    let Some(key) = scope.one_of_kinds("cache_key").filter(|_| scope.is_cached()) else { return Vec::new() };
    let proxy_host = target(scope).map_or("", |(_, _, name, _)| name);
    match expression(&key.words.join(" "), ExpressionSide::Client, proxy_host) {
        Ok(text) => vec![format!("hash_data({text});"), "return (lookup);".to_owned()],
        Err(variable) => {
            migrated.refuse(
                &key.place,
                &key.name,
                format!("{variable} is unknown here: the key is Host and URL instead"),
            );
            Vec::new()
        }
    }
}

pub fn fetch(location: Option<&Directive>, scope: &LocationScope<'_>, migrated: &mut Migrated) -> Vec<String> {
    let Some((pass, _, name, uri)) = target(scope) else { return Vec::new() };
    let mut lines = Vec::new();
    if let (Some(uri), Some(location)) = (uri, location) {
        match site::prefix(location).zip(vcl::string(uri)) {
            Some((prefix, uri)) => {
                lines.push(format!("set bereq.url = regsub(bereq.url, \"^{}\", {uri});", vcl::literal(prefix)));
            }
            None => migrated.refuse(&pass.place, "proxy_pass", "with a URI in a location that isn't a prefix"),
        }
    }
    let fields = scope.all("proxy_set_header");
    if !fields.iter().any(|field| field.word(0).eq_ignore_ascii_case("host")) {
        lines.extend(vcl::string(name).map(|host| format!("set bereq.http.Host = {host};")));
    }
    for field in fields {
        let (name, value) = (field.word(0), field.word(1));
        match (name.to_ascii_lowercase().as_str(), value) {
            // What a hop says of its own connection.
            ("connection" | "upgrade", _) => {}
            // As the client sent it, and added to by the core.
            ("host", "$http_host")
            | ("x-forwarded-for", "$proxy_add_x_forwarded_for")
            | ("x-forwarded-proto", "$scheme") => {}
            (_, "") => lines.push(format!("unset bereq.http.{name};")),
            _ => match expression(value, ExpressionSide::Backend, target(scope).map_or("", |(_, _, name, _)| name)) {
                Ok(value) => lines.push(format!("set bereq.http.{name} = {value};")),
                Err(variable) => {
                    migrated.refuse(&field.place, "proxy_set_header", format!("{variable} is unknown here"))
                }
            },
        }
    }
    lines
}

pub fn response(scope: &LocationScope<'_>, around: &Around<'_>, migrated: &mut Migrated) -> Vec<String> {
    let mut lines = packed(scope);
    if !scope.is_cached() {
        return lines;
    }
    let ignored: Vec<String> = scope
        .all_of_kinds("ignore_headers")
        .iter()
        .flat_map(|d| d.words.iter().map(|w| w.to_ascii_lowercase()))
        .collect();
    let is_ignored = |name: &str| ignored.iter().any(|field| field == name);
    let ttls = valid(scope, migrated);
    match is_ignored("cache-control") && is_ignored("expires") {
        true => lines.extend(ttls),
        false => {
            lines.push("if (!beresp.http.Cache-Control && !beresp.http.Expires) {".to_owned());
            lines.extend(ttls.into_iter().map(|line| format!("\t{line}")));
            lines.push("}".to_owned());
        }
    }
    if let Some(directive) = scope.one_of_kinds("ignore_headers").filter(|_| is_ignored("set-cookie")) {
        migrated.note(
            &directive.place,
            &directive.name,
            "nginx gives a kept Set-Cookie to everybody; here it is taken out of what is kept",
        );
        lines.push("if (beresp.ttl > 0s) { unset beresp.http.Set-Cookie; }".to_owned());
    }
    for directive in scope.all_of_kinds("no_cache") {
        for word in &directive.words {
            match truth(word, ExpressionSide::Backend) {
                Ok(condition) => lines.push(format!("if ({condition}) {{ set beresp.uncacheable = true; }}")),
                Err(what) => migrated.refuse(
                    &directive.place,
                    &directive.name,
                    format!("{what} is unknown here: write the condition in vcl_backend_response"),
                ),
            }
        }
    }
    lines.extend(stale(scope, around));
    if is_ignored("cache-control") {
        // The built-in subroutine would heed it.
        lines.push(
            "if (beresp.ttl > 0s && !beresp.http.Set-Cookie && beresp.http.Vary !~ \"\\*\") { return (deliver); }"
                .to_owned(),
        );
    }
    lines
}

/// `proxy_cache_valid`: how long what says nothing itself is kept; without one it isn't.
fn valid(scope: &LocationScope<'_>, migrated: &mut Migrated) -> Vec<String> {
    let mut branches = Vec::new();
    let mut any = None;
    for directive in scope.all_of_kinds("cache_valid") {
        let Some((last, statuses)) = directive.words.split_last() else { continue };
        let Some(seconds) = time(last) else {
            migrated.refuse(&directive.place, &directive.name, format!("{last} is no time"));
            continue;
        };
        let lines = vec![format!("set beresp.ttl = {};", duration(seconds))];
        let statuses: Vec<&str> = match statuses.is_empty() {
            true => vec!["200", "301", "302"],
            false => statuses.iter().map(String::as_str).collect(),
        };
        if statuses.contains(&"any") {
            any = Some(lines);
            continue;
        }
        let condition = statuses.iter().map(|s| format!("beresp.status == {s}")).collect::<Vec<_>>().join(" || ");
        branches.push((condition, lines));
    }
    let rest = any.unwrap_or_else(|| vec!["set beresp.uncacheable = true;".to_owned()]);
    branches.push((String::new(), rest));
    vcl::chain(branches)
}

/// `proxy_cache_use_stale` and `inactive`: how long what is stale may serve.
fn stale(scope: &LocationScope<'_>, around: &Around<'_>) -> Vec<String> {
    let zone = scope.one_of_kinds("cache").map_or("", |cache| cache.word(0));
    // Ten minutes unless it says otherwise, as nginx has it.
    let inactive = around.inactive.iter().find(|(name, _)| name == zone).map_or(600.0, |(_, seconds)| *seconds);
    let words: Vec<&str> =
        scope.one_of_kinds("cache_use_stale").map(|d| d.words.iter().map(String::as_str).collect()).unwrap_or_default();
    let mut lines = Vec::new();
    let is_serving = words.iter().any(|w| matches!(*w, "error" | "timeout" | "updating"));
    lines.push(format!("set beresp.grace = {};", if is_serving { duration(inactive) } else { "0s".to_owned() }));
    let statuses: Vec<String> =
        words.iter().filter_map(|w| w.strip_prefix("http_")).map(|s| format!("beresp.status == {s}")).collect();
    if !statuses.is_empty() {
        // A failed refresh leaves what is there.
        lines.push(format!("if (bereq.is_bgfetch && ({})) {{ return (abandon); }}", statuses.join(" || ")));
    }
    if scope.one_of_kinds("cache_revalidate").is_some_and(|d| d.word(0) == "on") {
        lines.push(format!("set beresp.keep = {};", duration(inactive)));
    }
    lines
}

fn packed(scope: &LocationScope<'_>) -> Vec<String> {
    if scope.one("gzip").is_none_or(|gzip| gzip.word(0) != "on") {
        return Vec::new();
    }
    let mut types: Vec<String> = vec!["text/html".to_owned()];
    types.extend(scope.all("gzip_types").iter().flat_map(|d| d.words.iter().cloned()));
    let all = types.iter().any(|t| t == "*");
    let condition = match all {
        true => "!beresp.http.Content-Encoding".to_owned(),
        false => {
            let list: Vec<String> = types.iter().map(|t| vcl::literal(t)).collect();
            format!("beresp.http.Content-Type ~ \"^({})\"", list.join("|"))
        }
    };
    vec![format!("if ({condition}) {{ set beresp.do_gzip = true; }}")]
}

pub fn deliver(scope: &LocationScope<'_>, migrated: &mut Migrated) -> Vec<String> {
    let mut lines = Vec::new();
    for directive in scope.all_of_kinds("hide_header") {
        lines.push(format!("unset resp.http.{};", directive.word(0)));
    }
    if let Some(expires) = scope.one("expires") {
        match (expires.word(0), time(expires.word(0))) {
            ("off", _) => {}
            ("epoch", _) => lines.push("set resp.http.Cache-Control = \"no-cache\";".to_owned()),
            ("max", _) => lines.push("set resp.http.Cache-Control = \"max-age=315360000\";".to_owned()),
            (_, Some(seconds)) => lines.push(format!("set resp.http.Cache-Control = \"max-age={seconds}\";")),
            (word, None) => migrated.refuse(&expires.place, "expires", format!("{word} is no time that is translated")),
        }
        if !lines.is_empty() {
            lines.push("unset resp.http.Expires;".to_owned());
        }
    }
    for field in scope.all("add_header") {
        let (name, value) = (field.word(0), field.word(1));
        let set = |value: &str| format!("set resp.http.{name} = {value};");
        if value == "$upstream_cache_status" {
            lines.push(format!("if (obj.hits > 0) {{ {} }} else {{ {} }}", set("\"HIT\""), set("\"MISS\"")));
            continue;
        }
        match expression(value, ExpressionSide::Client, "") {
            // Without `always` nginx adds it to good answers alone.
            Ok(value) if field.words.iter().any(|w| w == "always") => lines.push(set(&value)),
            Ok(value) => lines.push(format!("if (resp.status < 400) {{ {} }}", set(&value))),
            Err(variable) => migrated.refuse(&field.place, "add_header", format!("{variable} is unknown here")),
        }
    }
    lines
}

// SPDX-License-Identifier: BSD-2-Clause
//! Responses: how long nginx keeps them, when it serves them stale, and the headers that it adds and takes away.

use super::config::Directive;
use super::location::{LocationKind, NginxLocation};
use super::number::seconds as time;
use super::scope::{LocationScope, duration};
use super::script::RewriteScript;
use super::value::{ExpressionSide, VariableNames, comparable, expression};
use super::words::is_header;
use crate::migrated::Migrated;
use crate::vcl;

/// A directive that can't be translated, and why.
type Refused<'a> = (&'a Directive, String);

/// The rule by which objects of a location are served beyond their lifetime.
pub enum StaleRule {
    /// No object is served then.
    No,
    /// At once, while one request fetches in the background; for so many seconds, or as many as the response says.
    Background { seconds: Option<f64>, statuses: Vec<u16> },
    /// When the fetch fails, or its status is one of these; for so many seconds.
    OnError { seconds: f64, has_failures: bool, statuses: Vec<u16> },
}

impl StaleRule {
    pub fn of(scope: &LocationScope<'_>, inactive: &[(String, f64)]) -> StaleRule {
        let zone = scope.one_of_kind("cache").map_or("", |cache| cache.word(0));
        // Ten minutes unless it says otherwise, as nginx has it.
        let seconds = inactive.iter().find(|(name, _)| *name == zone).map_or(600.0, |(_, seconds)| *seconds);
        let words: Vec<&str> = scope
            .one_of_kind("cache_use_stale")
            .map(|d| d.words.iter().map(String::as_str).collect())
            .unwrap_or_default();
        let has = |word: &str| words.contains(&word);
        let statuses: Vec<u16> = words.iter().filter_map(|w| w.strip_prefix("http_")?.parse().ok()).collect();
        let has_failures = has("error") || has("timeout") || has("invalid_header");
        if scope.is_on("cache_background_update") && has("updating") {
            return StaleRule::Background { seconds: Some(seconds), statuses };
        }
        if has_failures || !statuses.is_empty() {
            return StaleRule::OnError { seconds, has_failures, statuses };
        }
        match scope.is_on("cache_background_update") {
            true => StaleRule::Background { seconds: None, statuses },
            // To tell EXPIRED from MISS, objects stay as long as nginx keeps them, and are served by no rule.
            false if shows_status(scope) => StaleRule::OnError { seconds, has_failures: false, statuses },
            false => StaleRule::No,
        }
    }

    /// Before the lookup: an object that is only for a failure doesn't count while none has happened.
    pub fn recv(&self) -> Vec<String> {
        match self {
            // A restart keeps req.grace.
            StaleRule::OnError { seconds, .. } => vec![
                "if (req.http.Nginx-Stale == \"there\") { set req.grace = 0s; }".to_owned(),
                format!("if (req.http.Nginx-Stale == \"serve\") {{ set req.grace = {}; }}", duration(*seconds)),
            ],
            StaleRule::No | StaleRule::Background { .. } => Vec::new(),
        }
    }

    /// An object beyond its lifetime was found: it is served, or the origin is asked first.
    pub fn hit(&self) -> Vec<String> {
        match self {
            StaleRule::OnError { .. } => vec![
                "if (obj.ttl <= 0s && !req.http.Nginx-Stale) {".to_owned(),
                "\tset req.http.Nginx-Stale = \"there\";".to_owned(),
                "\treturn (restart);".to_owned(),
                "}".to_owned(),
            ],
            StaleRule::Background { .. } => {
                vec!["if (obj.ttl <= 0s) { set req.http.Nginx-Stale = \"serve\"; }".to_owned()]
            }
            StaleRule::No => Vec::new(),
        }
    }

    /// The stale object is being served: the origin isn't asked again for that.
    pub fn fetch(&self) -> Vec<String> {
        match self {
            StaleRule::OnError { .. } => {
                vec!["if (bereq.http.Nginx-Stale == \"serve\") { return (abandon); }".to_owned()]
            }
            StaleRule::No | StaleRule::Background { .. } => Vec::new(),
        }
    }

    /// The fetch failed: the object that is there is served.
    pub fn error(&self) -> Vec<String> {
        match self {
            StaleRule::OnError { has_failures: true, .. } => {
                vec!["if (cookie.get(\"stale\") == \"there\") { return (abandon); }".to_owned()]
            }
            StaleRule::OnError { .. } | StaleRule::No | StaleRule::Background { .. } => Vec::new(),
        }
    }

    fn response(&self) -> Vec<String> {
        let any = |statuses: &[u16]| {
            statuses.iter().map(|s| format!("beresp.status == {s}")).collect::<Vec<_>>().join(" || ")
        };
        match self {
            StaleRule::OnError { statuses, .. } if !statuses.is_empty() => {
                vec![format!("if (cookie.get(\"stale\") == \"there\" && ({})) {{ return (abandon); }}", any(statuses))]
            }
            StaleRule::Background { statuses, .. } if !statuses.is_empty() => {
                vec![format!("if (bereq.is_bgfetch && ({})) {{ return (abandon); }}", any(statuses))]
            }
            _ => Vec::new(),
        }
    }

    fn grace(&self) -> Vec<String> {
        match self {
            StaleRule::No => vec!["set beresp.grace = 0s;".to_owned()],
            StaleRule::OnError { seconds, .. } | StaleRule::Background { seconds: Some(seconds), .. } => {
                vec![format!("set beresp.grace = {};", duration(*seconds))]
            }
            StaleRule::Background { seconds: None, .. } => vec![
                "set beresp.grace = 0s;".to_owned(),
                "if (beresp.http.Cache-Control ~ \"(?i)stale-while-revalidate=\\d\") {".to_owned(),
                "\tset beresp.grace = std.duration(regsub(beresp.http.Cache-Control, \"(?i)^.*?stale-while-revalidate=(\\d+).*$\", \"\\1s\"), 0s);".to_owned(),
                "}".to_owned(),
            ],
        }
    }
}

/// The condition of `proxy_no_cache` that only the response decides; None of any other value.
pub fn late_truth(value: &str) -> Option<String> {
    let name = value.trim_start_matches('$').trim_matches(['{', '}']);
    let field = name.strip_prefix("upstream_http_")?.replace('_', "-");
    (value.starts_with('$') && is_header(&field)).then(|| format!("beresp.http.{field} !~ \"^0?$\""))
}

/// The lifetime of a response in a location that caches, in nginx's order: X-Accel-Expires, Cache-Control, Expires, `proxy_cache_valid`.
/// `is_served` tells that nginx sends it, which may be a file that nginx reads anew each time; `has_redirects` that nginx sends another one where
/// the application says so.
pub fn cached<'a>(
    scope: &LocationScope<'a>,
    stale: &StaleRule,
    late: &[String],
    is_served: bool,
    has_redirects: bool,
    lifetimes: &mut Vec<(String, Vec<String>)>,
    migrated: &mut Migrated,
) -> Result<Vec<String>, Refused<'a>> {
    let ignored: Vec<String> =
        scope.all_of_kind("ignore_headers").iter().flat_map(|d| &d.words).map(|w| w.to_ascii_lowercase()).collect();
    let is_ignored = |name: &str| ignored.iter().any(|field| field == name);
    let mut lines = stale.response();
    let name = ["x-accel-expires", "cache-control", "expires"]
        .into_iter()
        .filter(|name| is_ignored(name))
        .fold("nginx_lifetime".to_owned(), |all, name| format!("{all}_{}", &name[..1]));
    lines.extend(valid(scope)?);
    let own = lifetime(&is_ignored);
    if !own.is_empty() {
        lines.push(format!("call {name};"));
        if !lifetimes.iter().any(|(known, _)| *known == name) {
            lifetimes.push((name, own));
        }
    }
    lines.push("unset beresp.http.X-Accel-Expires;".to_owned());
    let mut nots = vec![
        "bereq.uncacheable".to_owned(),
        "beresp.ttl <= 0s".to_owned(),
        "cookie.get(\"no-store\") == \"1\"".to_owned(),
    ];
    nots.extend(late.iter().cloned());
    nots.extend(has_redirects.then(|| "beresp.http.X-Accel-Redirect".to_owned()));
    if !is_ignored("x-accel-buffering") {
        nots.push("beresp.http.X-Accel-Buffering ~ \"(?i)^no$\"".to_owned());
    }
    if !is_ignored("set-cookie") {
        nots.push("beresp.http.Set-Cookie".to_owned());
    }
    if !is_ignored("vary") {
        nots.push("beresp.http.Vary ~ \"\\*\"".to_owned());
    }
    if is_served {
        // A file: nginx alone gives it such a tag, and its range.
        nots.push("beresp.http.Accept-Ranges".to_owned());
        nots.push(format!("beresp.http.ETag ~ {FILE_TAG}"));
        if let Some(cache) = scope.one_of_kind("cache") {
            migrated.note(
                &cache.place,
                &cache.name,
                format!(
                    "nginx goes on serving this, and takes X-Accel-Expires away: let it say `{0}_cache off;` and `{0}_pass_header X-Accel-Expires;`",
                    scope.kind
                ),
            );
        }
    }
    lines.push(format!("if ({}) {{", nots.join(" || ")));
    if let StaleRule::Background { .. } = stale {
        // The stale object stays, and the next request refreshes it.
        lines.push("\tif (bereq.is_bgfetch) { return (abandon); }".to_owned());
    }
    lines.extend(
        [
            "\tset beresp.ttl = 120s;",
            "\tset beresp.grace = 0s;",
            "\tset beresp.uncacheable = true;",
            "\treturn (deliver);",
            "}",
        ]
        .map(str::to_owned),
    );
    if is_ignored("set-cookie")
        && let Some(directive) = scope.one_of_kind("ignore_headers")
    {
        migrated.note(
            &directive.place,
            &directive.name,
            "nginx gives a kept Set-Cookie to everybody; here it is taken out of what is kept",
        );
        lines.push("unset beresp.http.Set-Cookie;".to_owned());
    }
    if is_ignored("vary") {
        let kept = "set beresp.http.Nginx-Vary = beresp.http.Vary; unset beresp.http.Vary;";
        lines.push(format!("if (beresp.http.Vary) {{ {kept} }}"));
    }
    lines.extend(stale.grace());
    let keep = scope.is_on("cache_revalidate");
    lines.push(if keep { "set beresp.keep = 10m;".to_owned() } else { "set beresp.keep = 0s;".to_owned() });
    if keep && shows_status(scope) {
        lines.push("unset beresp.http.Nginx-Revalidated;".to_owned());
        lines.push("if (beresp.was_304) { set beresp.http.Nginx-Revalidated = \"1\"; }".to_owned());
    }
    lines.push("return (deliver);".to_owned());
    Ok(lines)
}

/// The lines that set how long a response says that it is fresh, if it does.
fn lifetime(is_ignored: &dyn Fn(&str) -> bool) -> Vec<String> {
    let set = |value: &str| vec![format!("set beresp.ttl = {value};")];
    let mut lines = Vec::new();
    let mut branches: Vec<(String, Vec<String>)> = Vec::new();
    if !is_ignored("x-accel-expires") {
        let header = "beresp.http.X-Accel-Expires";
        branches.push((format!("{header} ~ \"^\\d+$\""), set(&format!("std.duration({header} + \"s\", 0s)"))));
        let time = format!("std.time(regsub({header}, \"^@\", \"\"), now) - now");
        let mut lines = set(&time);
        // nginx keeps what has expired by then, to serve it stale; VCL keeps nothing that was never fresh.
        lines.push("if (beresp.ttl <= 0s) { set beresp.ttl = 0.001ms; }".to_owned());
        branches.push((format!("{header} ~ \"^@\\d+$\""), lines));
    }
    if !is_ignored("cache-control") {
        let header = "beresp.http.Cache-Control";
        lines.push(format!("if ({header}) {{ std.collect({header}); }}"));
        branches.push((format!("{header} ~ \"(?i)no-cache|no-store|private\""), set("0s")));
        for name in ["s-maxage", "max-age"] {
            let value = format!("std.duration(regsub({header}, \"(?i)^.*?{name}=(\\d+).*$\", \"\\1s\"), 0s)");
            branches.push((format!("{header} ~ \"(?i)^((?!{name}=).)*{name}=\\d+([,; ]|$)\""), set(&value)));
            // The first one counts; nginx keeps nothing whose number is none.
            branches.push((format!("{header} ~ \"(?i){name}=\""), set("0s")));
        }
    }
    if !is_ignored("expires") {
        branches.push(("beresp.http.Expires".to_owned(), set("std.time(beresp.http.Expires, now) - now")));
    }
    lines.extend(vcl::chain(branches));
    lines
}

/// `proxy_cache_valid`: how long what says nothing itself is kept; without one it isn't. The first that has the status counts.
fn valid<'a>(scope: &LocationScope<'a>) -> Result<Vec<String>, Refused<'a>> {
    let is_sliced = scope.kind == "proxy" && scope.holding(&["slice"]).last().is_some_and(|d| d.word(0) != "0");
    let mut branches = Vec::new();
    for directive in scope.all_of_kind("cache_valid") {
        let Some((last, statuses)) = directive.words.split_last() else { continue };
        let Some(seconds) = time(last) else { return Err((directive, format!("{last} is no time"))) };
        let statuses: Vec<&str> = match statuses.is_empty() {
            true => vec!["200", "301", "302"],
            false => statuses.iter().map(String::as_str).collect(),
        };
        if let Some(status) = statuses.iter().find(|s| **s != "any" && s.parse::<u16>().is_err()) {
            return Err((directive, format!("{status} is no status")));
        }
        // The parts of a sliced response are 206 to nginx; VCL sees the response as a whole.
        let statuses: Vec<&str> = match is_sliced {
            true => statuses.into_iter().filter(|s| *s != "200").map(|s| if s == "206" { "200" } else { s }).collect(),
            false => statuses,
        };
        if statuses.is_empty() {
            continue;
        }
        let condition = match statuses.contains(&"any") {
            true => String::new(),
            false => statuses.iter().map(|s| format!("beresp.status == {s}")).collect::<Vec<_>>().join(" || "),
        };
        let is_all = condition.is_empty();
        branches.push((condition, vec![format!("set beresp.ttl = {};", duration(seconds))]));
        if is_all {
            return Ok(vcl::chain(branches));
        }
    }
    branches.push((String::new(), vec!["set beresp.ttl = 0s;".to_owned()]));
    Ok(vcl::chain(branches))
}

pub fn packed(scope: &LocationScope<'_>) -> Vec<String> {
    let mut types: Vec<String> = vec!["text/html".to_owned()];
    types.extend(scope.all("gzip_types").iter().flat_map(|d| d.words.iter().cloned()));
    if scope.one("gzip").is_none_or(|gzip| gzip.word(0) != "on") {
        return Vec::new();
    }
    let condition = match types.iter().any(|t| t == "*") {
        true => "!beresp.http.Content-Encoding".to_owned(),
        false => {
            let list: Vec<String> = types.iter().map(|t| vcl::literal(t)).collect();
            format!("beresp.http.Content-Type ~ \"(?i)^({})\\s*(;|$)\"", list.join("|"))
        }
    };
    vec![format!("if ({condition}) {{ set beresp.do_gzip = true; }}")]
}

/// `add_header NAME $upstream_cache_status` of a location that caches what nginx sends: files of its own have none.
pub fn cache_status(scope: &LocationScope<'_>) -> Vec<String> {
    let all = scope.all("add_header");
    let found = all.iter().filter(|d| d.word(1) == "$upstream_cache_status" && is_header(d.word(0)));
    let of = |field: &&Directive| match is_always(field) {
        true => status_of_cache(field.word(0)),
        false => on_good(status_of_cache(field.word(0))),
    };
    let is_no_file = format!("resp.http.ETag !~ {FILE_TAG}");
    vcl::chain(vec![(is_no_file, found.flat_map(of).collect())])
}

/// The ETag that nginx gives to a file.
const FILE_TAG: &str = "{\"^(W/)?\"[0-9a-f]+-[0-9a-f]+\"$\"}";

/// The Content-Type of an answer with a text: by the extension of the path, else `default_type`.
pub fn content_type(location: &NginxLocation<'_>, script: &RewriteScript<'_>) -> Vec<String> {
    if !script.has_text {
        return Vec::new();
    }
    let set = |kind: &str| vec![format!("set resp.http.Content-Type = {};", vcl::string(kind).unwrap_or_default())];
    let only_with_text = |lines: Vec<String>| vcl::chain(vec![("req.http.Nginx-Text".to_owned(), lines)]);
    let default = location.scope.one("default_type").map_or("text/plain", |d| d.word(0));
    let types = location.scope.all("types");
    // Without any block nginx has three types.
    let known: Vec<(&str, Vec<&str>)> = match types.is_empty() {
        true => vec![("text/html", vec!["html"]), ("image/gif", vec!["gif"]), ("image/jpeg", vec!["jpg"])],
        false => {
            let all = types.iter().flat_map(|block| block.inside());
            all.map(|d| (d.name.as_str(), d.words.iter().map(String::as_str).collect())).collect()
        }
    };
    if location.kind == LocationKind::Exact {
        let extension = location.text.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map(|(_, end)| end);
        let is_own = |end: &&str| extension.is_some_and(|extension| extension.eq_ignore_ascii_case(end));
        let found = known.iter().rfind(|(_, ends)| ends.iter().any(is_own));
        return only_with_text(set(found.map_or(default, |(kind, _)| kind)));
    }
    let condition = |ends: &[&str]| {
        let ends: Vec<String> = ends.iter().map(|end| vcl::literal(end)).collect();
        format!("req.http.Nginx-Path ~ \"(?i)\\.({})$\"", ends.join("|"))
    };
    let mut lines = set(default);
    let branches = known.iter().rev().map(|(kind, ends)| (condition(ends), set(kind))).collect();
    lines.push("if (req.http.Nginx-Path ~ \"\\.[^/]+$\") {".to_owned());
    lines.extend(vcl::chain(branches).into_iter().map(|line| format!("\t{line}")));
    lines.push("}".to_owned());
    only_with_text(lines)
}

fn shows_status(scope: &LocationScope<'_>) -> bool {
    scope.all("add_header").iter().any(|d| d.word(1) == "$upstream_cache_status" && is_header(d.word(0)))
}

fn status_of_cache(name: &str) -> Vec<String> {
    [
        "if (req.method != \"GET\" && req.method != \"HEAD\") {",
        "\tunset resp.http.NAME;",
        "} else if (req.http.Nginx-Stale == \"serve\") {",
        "\tset resp.http.NAME = \"STALE\";",
        "} else if (obj.hits > 0) {",
        "\tset resp.http.NAME = \"HIT\";",
        "} else if (req.hash_always_miss) {",
        "\tset resp.http.NAME = \"BYPASS\";",
        "} else if (resp.http.Nginx-Revalidated) {",
        "\tset resp.http.NAME = \"REVALIDATED\";",
        "} else if (req.http.Nginx-Stale) {",
        "\tset resp.http.NAME = \"EXPIRED\";",
        "} else {",
        "\tset resp.http.NAME = \"MISS\";",
        "}",
    ]
    .map(|line| line.replace("NAME", name))
    .to_vec()
}

/// The statuses to which `add_header` adds without `always`, and `expires`.
const GOOD: [u16; 10] = [200, 201, 204, 206, 301, 302, 303, 304, 307, 308];

/// Lines for responses with one of these.
fn on_good(lines: Vec<String>) -> Vec<String> {
    let any: Vec<String> = GOOD.iter().map(|status| format!("resp.status == {status}")).collect();
    vcl::chain(vec![(any.join(" || "), lines)])
}

/// True of an `add_header` for all statuses.
fn is_always(field: &Directive) -> bool {
    field.words.get(2).is_some_and(|word| word == "always")
}

/// The types of `charset_types`, unless it says otherwise; text/html is always one.
const WITH_CHARSET: [&str; 5] =
    ["text/xml", "text/plain", "text/vnd.wap.wml", "application/javascript", "application/rss+xml"];

/// `charset`: the Content-Type of texts that don't name theirs.
fn charset<'a>(scope: &LocationScope<'a>, is_proxied: bool, names: &VariableNames) -> Result<Vec<String>, Refused<'a>> {
    let own: Vec<&str> = scope.all("charset_types").iter().flat_map(|d| d.words.iter().map(String::as_str)).collect();
    let Some(directive) = scope.one("charset").filter(|d| d.word(0) != "off") else { return Ok(Vec::new()) };
    let value = expression(directive.word(0), ExpressionSide::Deliver, "", names).map_err(|why| (directive, why))?;
    let types = if own.is_empty() { WITH_CHARSET.to_vec() } else { own };
    let condition = match types.contains(&"*") {
        true => "resp.http.Content-Type && resp.http.Content-Type !~ \"(?i)charset=\"".to_owned(),
        false => {
            let all: Vec<String> = types.iter().chain(&["text/html"]).map(|kind| vcl::literal(kind)).collect();
            format!("resp.http.Content-Type ~ \"(?i)^({})$\"", all.join("|"))
        }
    };
    let mut lines = Vec::new();
    if !is_proxied {
        let error = "!resp.http.Content-Type && !req.http.Nginx-Text && resp.status >= 400".to_owned();
        lines.extend(vcl::chain(vec![(error, vec!["set resp.http.Content-Type = \"text/html\";".to_owned()])]));
    }
    let set = format!("set resp.http.Content-Type = resp.http.Content-Type + \"; charset=\" + {value};");
    let condition = format!("{condition} && resp.status != 301 && resp.status != 302");
    lines.extend(vcl::chain(vec![(condition, vec![set])]));
    Ok(lines)
}

/// The headers that nginx takes out of responses of an origin by itself, but for Date and Server, which it has of its own.
const HIDDEN: [&str; 5] = ["X-Pad", "X-Accel-Expires", "X-Accel-Limit-Rate", "X-Accel-Buffering", "X-Accel-Charset"];

fn hidden<'a>(scope: &LocationScope<'a>) -> Result<Vec<String>, Refused<'a>> {
    let passed: Vec<&str> = scope.all_of_kind("pass_header").iter().map(|d| d.word(0)).collect();
    let mut names: Vec<&str> = HIDDEN.to_vec();
    for directive in scope.all_of_kind("hide_header") {
        let name = directive.word(0);
        if !is_header(name) {
            return Err((directive, format!("{name} can't be named in VCL")));
        }
        names.push(name);
    }
    let is_passed = |name: &str| passed.iter().any(|known| known.eq_ignore_ascii_case(name));
    Ok(names.into_iter().filter(|name| !is_passed(name)).map(|name| format!("unset resp.http.{name};")).collect())
}

/// The headers of a response: those of the origin that are hidden, `expires`, `add_header`. A response that VCL makes has no object.
pub fn headers<'a>(
    scope: &LocationScope<'a>,
    is_proxied: bool,
    names: &VariableNames,
) -> Result<Vec<String>, Refused<'a>> {
    let mut lines = Vec::new();
    if is_proxied {
        lines.extend(hidden(scope)?);
    }
    lines.extend(charset(scope, is_proxied, names)?);
    let mut good = Vec::new();
    if let Some(expires) = scope.one("expires") {
        let word = expires.word(0);
        let (seconds, control) = match (word, time(word), word.strip_prefix('-').and_then(time)) {
            _ if expires.words.len() != 1 => return Err((expires, "only a time is translated".to_owned())),
            ("off", ..) => (None, None),
            ("epoch", ..) => (Some("\"Thu, 01 Jan 1970 00:00:01 GMT\"".to_owned()), Some("no-cache".to_owned())),
            ("max", ..) => (Some("\"Thu, 31 Dec 2037 23:55:55 GMT\"".to_owned()), Some("max-age=315360000".to_owned())),
            (_, Some(seconds), _) => (Some(format!("now + {seconds}s")), Some(format!("max-age={seconds}"))),
            (_, None, Some(seconds)) => (Some(format!("now - {seconds}s")), Some("no-cache".to_owned())),
            (word, None, None) => return Err((expires, format!("{word} is no time that is translated"))),
        };
        good.extend(seconds.map(|value| format!("set resp.http.Expires = {value};")));
        good.extend(control.map(|value| format!("set resp.http.Cache-Control = \"{value}\";")));
    }
    let mut always = Vec::new();
    for field in scope.all("add_header") {
        let (name, value) = (field.word(0), field.word(1));
        if !is_header(name) {
            return Err((field, format!("{name} can't be named in VCL")));
        }
        let list = if is_always(field) { &mut always } else { &mut good };
        match value {
            "" => {}
            "$upstream_cache_status" if is_proxied && super::cached::is_cached(scope) => {
                list.extend(status_of_cache(name));
            }
            "$upstream_cache_status" => {}
            _ if name.eq_ignore_ascii_case("set-cookie") => {
                return Err((field, "a line beside the origin's needs `import header;`".to_owned()));
            }
            _ => {
                let text = expression(value, ExpressionSide::Deliver, "", names).map_err(|reason| (field, reason))?;
                // nginx adds a line beside the origin's, which means the same as a list.
                let set = format!("set resp.http.{name} = {text};");
                let added = match is_proxied {
                    false => vec![set],
                    true => vec![
                        format!("if (resp.http.{name}) {{"),
                        format!("\tset resp.http.{name} = resp.http.{name} + \", \" + {text};"),
                        "} else {".to_owned(),
                        format!("\t{set}"),
                        "}".to_owned(),
                    ],
                };
                if value.contains('$') {
                    let known = comparable(value, ExpressionSide::Deliver, names).map_err(|reason| (field, reason))?;
                    list.push(format!("if ({known} != \"\") {{"));
                    list.extend(added.into_iter().map(|line| format!("\t{line}")));
                    list.push("}".to_owned());
                } else {
                    list.extend(added);
                }
            }
        }
    }
    lines.extend(on_good(good));
    lines.extend(always);
    Ok(lines)
}

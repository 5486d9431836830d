// SPDX-License-Identifier: BSD-2-Clause
//! Describes a VCL in words: for each subroutine, the effects on a request or response, their conditions and lines. A condition is quoted
//! if it is more than simple comparisons with one kind of operator.

use tables::vclsubs::{Method, Return};
use tables::vcltext;
use vcl::Sources;
use vcl::outline::Outline;
use vcl::statements::{self, Statement, StatementKind};

use crate::texts::{self, OpenTexts};

#[derive(Debug, Clone, Default)]
pub(crate) struct SubSummary {
    pub sub: String,
    pub facts: Vec<Fact>,
    /// The action of the built-in subroutine that follows it.
    pub builtin: &'static str,
    /// True if its last statement always leaves the subroutine.
    pub is_final: bool,
}

/// One effect of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fact {
    pub source: String,
    pub line: u32,
    /// A word for the subject.
    pub about: &'static str,
    pub text: String,
    /// The conditions, all of which must hold.
    pub when: Vec<String>,
}

/// Summarizes the subroutines of the VCL that begins with `root`: those that the server calls, in the order of a request, then the others.
pub(crate) fn summarize(texts: &OpenTexts<'_>, root: &str) -> Vec<SubSummary> {
    let mut all: Vec<SubSummary> = Vec::new();
    gather(texts, root, root, 0, &mut all);
    for method in Method::ALL {
        let name = method.sub_name();
        let builtin = builtin(method);
        match all.iter_mut().find(|told| told.sub == name) {
            Some(told) => told.builtin = builtin,
            None if ALWAYS_TOLD.contains(&method) => {
                all.push(SubSummary { sub: name.to_owned(), builtin, ..SubSummary::default() });
            }
            None => {}
        }
    }
    let place = |told: &SubSummary| Method::ALL.iter().position(|m| m.sub_name() == told.sub).unwrap_or(usize::MAX);
    all.sort_by_key(place);
    all
}

/// Subroutines whose built-in form decides what is cached.
const ALWAYS_TOLD: [Method; 3] = [Method::Recv, Method::Hash, Method::BackendResponse];
const MAX_INCLUDES: usize = 50;

/// Collects the subroutines of a file and its includes, in source order.
fn gather(texts: &OpenTexts<'_>, root: &str, path: &str, depth: usize, all: &mut Vec<SubSummary>) {
    let overlay = texts.overlay(root);
    let Ok((path, text)) = overlay.read(path) else { return };
    if depth > MAX_INCLUDES {
        return;
    }
    let outline = Outline::parse(&text);
    let mut includes = outline.includes.iter().peekable();
    let mut include = |up_to: usize, all: &mut Vec<SubSummary>| {
        while let Some(next) = includes.next_if(|include| include.at.start < up_to) {
            for file in texts::files(&overlay, &path, next) {
                gather(texts, root, &file, depth + 1, all);
            }
        }
    };
    for sub in statements::read(&text) {
        include(sub.at, all);
        let at = all.iter().position(|told| told.sub == sub.name).unwrap_or_else(|| {
            all.push(SubSummary { sub: sub.name.clone(), ..SubSummary::default() });
            all.len() - 1
        });
        let told = &mut all[at];
        told.is_final |= sub.body.last().is_some_and(|last| matches!(last.what, StatementKind::Return { .. }));
        let mut teller = Summarizer { sub: &sub.name, source: &path, facts: Vec::new() };
        teller.block(&sub.body, &[]);
        told.facts.append(&mut teller.facts);
    }
    include(usize::MAX, all);
}

/// The action of the built-in VCL after a subroutine that doesn't return.
fn builtin(method: Method) -> &'static str {
    match method {
        Method::Recv => {
            "An unknown method is answered 501. Methods other than GET, HEAD and QUERY, and requests with Authorization or Cookie, are passed. \
             The rest is looked up in the cache."
        }
        Method::Hash => "The URL and Host (without one the server's address) tell objects apart.",
        Method::BackendResponse => {
            "An answer that sets a cookie, that Cache-Control or Surrogate-Control says is no-store (or, of Cache-Control, private \
             or no-cache), that varies on *, or that has no ttl isn't cached, and requests for it don't wait for each other for two minutes. \
             The rest is kept as long as Cache-Control or Expires says, else default_ttl."
        }
        Method::Synth | Method::BackendError => "A small page with the status is made, and delivered.",
        _ => "",
    }
}

struct Summarizer<'a> {
    sub: &'a str,
    source: &'a str,
    facts: Vec<Fact>,
}

impl Summarizer<'_> {
    fn block(&mut self, body: &[Statement], when: &[String]) {
        for statement in body {
            match &statement.what {
                StatementKind::Block(inner) => self.block(inner, when),
                StatementKind::If(branches) => self.branches(branches, when),
                what => {
                    let (about, text) = said(self.sub, what);
                    let (source, line) = (self.source.to_owned(), statement.line);
                    self.facts.push(Fact { source, line, about, text, when: when.to_vec() });
                }
            }
        }
    }

    /// Each branch applies only if none of the previous ones does.
    fn branches(&mut self, branches: &[(Option<String>, Vec<Statement>)], when: &[String]) {
        let mut inside = when.to_vec();
        for (condition, body) in branches {
            if let Some(condition) = condition {
                inside.push(words(condition));
                self.block(body, &inside);
                inside.pop();
                inside.push(format!("not ({})", words(condition)));
            } else {
                self.block(body, &inside);
            }
        }
    }
}

/// The subject of a statement, and a phrase for its effect.
fn said(sub: &str, what: &StatementKind) -> (&'static str, String) {
    match what {
        StatementKind::Return { action, arguments } => returned(sub, action, arguments),
        StatementKind::Set { name, op, value } => set(name, op, value),
        StatementKind::Unset(name) => match field(name) {
            Some((of, field)) => ("field", format!("{field} is removed from {of}")),
            None => ("variable", format!("{name} is unset")),
        },
        StatementKind::Call(name) => ("call", format!("goes through {name}, see there")),
        StatementKind::Other { name, arguments } => match name.as_str() {
            "hash_data" => ("hash", format!("objects are told apart by {}", value_words(arguments))),
            "ban" => ("ban", format!("what is in the cache and matches {arguments} is banned")),
            "synthetic" => ("answer", "the body is made here".to_owned()),
            _ if name.starts_with("new ") => ("object", format!("makes `{}({arguments})`", &name[4..])),
            _ => ("call", format!("`{name}({arguments})` is called")),
        },
        StatementKind::If(_) | StatementKind::Block(_) => ("block", String::new()),
    }
}

fn returned(sub: &str, action: &str, arguments: &str) -> (&'static str, String) {
    let text = |text: &str| text.to_owned();
    match (sub, action) {
        (_, "") => ("leave", text("nothing more is done here")),
        ("vcl_backend_response", "pass") => {
            ("uncached", format!("not cached, and requests for it are passed for {arguments}"))
        }
        ("vcl_backend_response", "deliver") => (
            "cached",
            text(
                "stored with the times it has by then, unless it was made uncacheable; the built-in rules are skipped",
            ),
        ),
        (_, "pass") => ("passed", text("passed: fetched for this request alone, not cached")),
        (_, "pipe") => ("piped", text("piped: bytes go to and fro unread until the connection ends")),
        (_, "hash") => ("looked-up", text("looked up in the cache; the built-in rules are skipped")),
        (_, "purge") => ("purge", text("all that is cached under its URL and Host (its hash) is purged")),
        (_, "synth") => {
            let (status, reason) = arguments.split_once(',').unwrap_or((arguments, ""));
            let refused = status.trim().parse::<u16>().is_ok_and(|status| status % 1000 >= 400);
            let word = if refused { "refused" } else { "answered" };
            let how = if refused { "refused: " } else { "" };
            (
                word,
                format!("{how}answered {} {} here, without a backend", status.trim(), reason.trim()).replace("  ", " "),
            )
        }
        (_, "restart") => ("restart", text("begins again at vcl_recv")),
        (_, "retry") => ("retry", text("the fetch is tried again")),
        (_, "vcl") => ("other-vcl", format!("goes on in the VCL labelled {arguments}")),
        _ => {
            let known = Return::ALL.into_iter().find(|known| known.name() == action);
            (
                "action",
                known.map_or_else(
                    || format!("`return ({action})`"),
                    |known| vcltext::action(known).trim_end_matches('.').to_owned(),
                ),
            )
        }
    }
}

fn set(name: &str, op: &str, value: &str) -> (&'static str, String) {
    let of = name.split('.').next().unwrap_or_default();
    let property = name.strip_prefix(of).unwrap_or_default();
    if op == "=" {
        match (of, property) {
            ("beresp", ".ttl") => return ("ttl", format!("kept for {value} (ttl)")),
            ("beresp", ".grace") => {
                return ("grace", format!("usable for {value} beyond its ttl, while a fresh one is fetched (grace)"));
            }
            ("beresp", ".keep") => {
                return ("keep", format!("kept for {value} more to be revalidated with the backend (keep)"));
            }
            ("beresp", ".uncacheable") if value == "true" => return ("uncached", "not cached".to_owned()),
            ("beresp", ".do_esi") => return ("esi", on_off("its ESI includes are carried out", value)),
            ("beresp", ".do_gzip") => return ("gzip", on_off("it is packed with gzip", value)),
            ("beresp", ".do_stream") => return ("stream", on_off("it is delivered while it is fetched", value)),
            ("beresp", ".storage") => return ("storage", format!("stored in {value}")),
            ("req", ".grace") => return ("grace", format!("takes what is stale by {value} at most (grace)")),
            ("req", ".ttl") => return ("ttl", format!("takes what is {value} old at most")),
            ("req", ".hash_always_miss") => {
                return ("looked-up", on_off("it is fetched anew, and replaces what is cached", value));
            }
            ("req", ".backend_hint") | ("bereq", ".backend") => return ("backend", format!("fetched from {value}")),
            ("req", ".url") => return ("url", format!("its URL becomes {}", value_words(value))),
            ("bereq", ".url") => return ("url", format!("the URL that is fetched becomes {}", value_words(value))),
            ("resp" | "beresp", ".status") => return ("status", format!("its status becomes {value}")),
            _ => {}
        }
    }
    match field(name) {
        Some((of, field)) if op == "=" => ("field", format!("{field} of {of} becomes {}", value_words(value))),
        Some((of, field)) => ("field", format!("{field} of {of}: `{name} {op} {value}`")),
        None => ("variable", format!("`{name} {op} {value}`")),
    }
}

fn on_off(text: &str, value: &str) -> String {
    match value {
        "true" => text.to_owned(),
        "false" => format!("off: {text}"),
        value => format!("{text} if {value}"),
    }
}

/// The message that a header belongs to, and the header's name.
fn field(name: &str) -> Option<(&'static str, &str)> {
    let (of, field) = name.split_once(".http.")?;
    let of = match of {
        "req" => "the request",
        "bereq" => "the request to the backend",
        "beresp" => "the backend's answer",
        "resp" => "the answer",
        "obj" => "the object",
        _ => return None,
    };
    Some((of, field))
}

/// A simple value in words, or a quotation.
fn value_words(value: &str) -> String {
    match (value, field(value)) {
        ("req.url", _) => "the URL".to_owned(),
        ("req.http.host" | "req.http.Host", _) => "Host".to_owned(),
        ("server.ip", _) => "the server's address".to_owned(),
        ("client.ip", _) => "the client's address".to_owned(),
        (_, Some((of, field))) if is_name(field) => format!("{field} of {of}"),
        _ if is_text(value) => value.to_owned(),
        _ => format!("`{value}`"),
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
}

/// True for a single quoted text.
fn is_text(text: &str) -> bool {
    text.len() > 1 && text.starts_with('"') && text.ends_with('"') && !text[1..text.len() - 1].contains('"')
}

/// A condition in words. Complex conditions are quoted.
fn words(condition: &str) -> String {
    for (sign, word) in [("&&", " and "), ("||", " or ")] {
        if let Some(parts) = split(condition, sign) {
            let said: Option<Vec<String>> = parts.into_iter().map(|part| plain(part.trim())).collect();
            return said.map_or_else(|| format!("`{condition}`"), |said| said.join(word));
        }
    }
    plain(condition.trim()).unwrap_or_else(|| format!("`{condition}`"))
}

/// Splits a condition at `sign`, if this is its only operator and it has no parentheses.
fn split<'a>(condition: &'a str, sign: &str) -> Option<Vec<&'a str>> {
    let (mut parts, mut from, mut in_text) = (Vec::new(), 0, false);
    for (at, c) in condition.char_indices() {
        match c {
            '"' => in_text = !in_text,
            '(' | ')' if !in_text => return None,
            '&' | '|' if !in_text && condition[at..].starts_with(sign) && at >= from => {
                parts.push(&condition[from..at]);
                from = at + sign.len();
            }
            _ => {}
        }
    }
    parts.push(&condition[from..]);
    (parts.len() > 1).then_some(parts)
}

/// Rephrases one comparison. `None` if it is too complex.
fn plain(part: &str) -> Option<String> {
    let subject = |name: &str| match (name, field(name)) {
        ("req.method" | "bereq.method", _) => Some("the method".to_owned()),
        ("req.url" | "bereq.url", _) => Some("the URL".to_owned()),
        ("client.ip", _) => Some("the client".to_owned()),
        ("req.restarts", _) => Some("the number of restarts".to_owned()),
        ("bereq.retries", _) => Some("the number of retries".to_owned()),
        ("beresp.status" | "resp.status", _) => Some("the status".to_owned()),
        ("beresp.ttl", _) => Some("its ttl".to_owned()),
        ("obj.hits", _) => Some("the number of hits".to_owned()),
        (_, Some(("the request", field))) if is_name(field) => Some(field.to_owned()),
        (_, Some((of, field))) if is_name(field) => Some(format!("{field} of {of}")),
        _ => None,
    };
    let (negated, rest) = part.strip_prefix('!').map_or((false, part), |rest| (true, rest.trim()));
    if let Some((of, name)) = field(rest).filter(|(_, name)| is_name(name)) {
        return Some(format!("{of} has {}{name}", if negated { "no " } else { "" }));
    }
    if negated {
        return None;
    }
    let (name, rest) = rest.split_once(' ')?;
    let (op, value) = rest.split_once(' ')?;
    let name_words = subject(name)?;
    let value = value.trim();
    let is_acl = is_name(value) && name == "client.ip";
    let is_value = is_text(value) || value.parse::<f64>().is_ok() || is_name(value);
    let verb = match op {
        "==" if is_value => "is",
        "!=" if is_value => "isn't",
        "~" if is_acl => "is in acl",
        "!~" if is_acl => "isn't in acl",
        "~" if is_text(value) => "matches",
        "!~" if is_text(value) => "doesn't match",
        ">" if is_value => "is more than",
        "<" if is_value => "is less than",
        ">=" if is_value => "is at least",
        "<=" if is_value => "is at most",
        _ => return None,
    };
    let value = if name_words == "the method" { value.trim_matches('"') } else { value };
    Some(format!("{name_words} {verb} {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_said_or_quoted() {
        let check = |condition: &str, want: &str| assert_eq!(words(condition), want, "{condition}");
        check("req.method == \"PURGE\"", "the method is PURGE");
        check("req.method != \"GET\" && req.method != \"HEAD\"", "the method isn't GET and the method isn't HEAD");
        check("client.ip !~ purgers", "the client isn't in acl purgers");
        check("req.http.Cookie || req.http.Authorization", "the request has Cookie or the request has Authorization");
        check("!req.http.Cookie", "the request has no Cookie");
        check("req.url ~ \"^/a|b&&\"", "the URL matches \"^/a|b&&\"");
        check("beresp.status >= 500", "the status is at least 500");
        // These conditions are too complex for words.
        for odd in [
            "req.url ~ \"a\" && (req.http.b || req.http.c)",
            "std.port(client.ip) == 80",
            "!(req.http.a)",
            "a && b || c",
            "req.url == req.http.x + \"a\"",
        ] {
            check(odd, &format!("`{odd}`"));
        }
    }

    fn told(text: &str, sub: &str) -> Vec<String> {
        let mut texts = OpenTexts::new(&vcl::NoSources, None);
        texts.put("/a.vcl", "/a.vcl", text.as_bytes().to_vec(), serde_json::Value::Null);
        let all = summarize(&texts, "/a.vcl");
        let facts = all.into_iter().find(|told| told.sub == sub).unwrap().facts;
        let say = |fact: Fact| format!("{} {} [{}] {}", fact.line, fact.about, fact.when.join("; "), fact.text);
        facts.into_iter().map(say).collect()
    }

    #[test]
    fn a_policy_is_told_with_lines_and_conditions() {
        let text = "vcl 4.1;\nbackend b none;\nacl p { \"127.0.0.1\"; }\nsub vcl_recv {\n  if (req.method == \"PURGE\") {\n    \
                    if (client.ip !~ p) { return (synth(405, \"No\")); }\n    return (purge);\n  }\n  \
                    if (req.url ~ \"^/a\") { return (pass); } else { unset req.http.Cookie; }\n}\n\
                    sub vcl_hash {\n  hash_data(req.http.X);\n}\nsub vcl_backend_response {\n  set beresp.ttl = 1h;\n  set beresp.grace = 2h;\n}\n";
        assert_eq!(
            told(text, "vcl_recv"),
            [
                "6 refused [the method is PURGE; the client isn't in acl p] refused: answered 405 \"No\" here, without a backend",
                "7 purge [the method is PURGE] all that is cached under its URL and Host (its hash) is purged",
                "9 passed [the URL matches \"^/a\"] passed: fetched for this request alone, not cached",
                "9 field [not (the URL matches \"^/a\")] Cookie is removed from the request",
            ]
        );
        assert_eq!(told(text, "vcl_hash"), ["12 hash [] objects are told apart by X of the request"]);
        assert_eq!(
            told(text, "vcl_backend_response"),
            [
                "15 ttl [] kept for 1h (ttl)",
                "16 grace [] usable for 2h beyond its ttl, while a fresh one is fetched (grace)",
            ]
        );
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Values with nginx's variables, as expressions and conditions of VCL.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::admit::REAL_IP;
use super::capture;
use super::words::is_header;
use crate::vcl;

/// The part of VCL in which an expression stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExpressionSide {
    /// Before the origin is asked: vcl_recv, vcl_hash.
    Client,
    /// The request to the origin: vcl_backend_fetch, vcl_pipe.
    Backend,
    /// The response to the client: vcl_deliver, vcl_synth.
    Deliver,
}

impl ExpressionSide {
    pub fn head(self) -> &'static str {
        match self {
            ExpressionSide::Client | ExpressionSide::Deliver => "req",
            ExpressionSide::Backend => "bereq",
        }
    }
}

/// The header in which VCL keeps a variable of `set`, `map` or `geo` for the time of a request.
pub fn header(variable: &str) -> String {
    format!("Nginx-Var-{variable}")
}

/// The variables that a configuration makes itself.
#[derive(Default)]
pub struct VariableNames {
    /// Those of `set`, with the text of those that are set once, to a text.
    pub set: BTreeMap<String, Option<String>>,
    /// Those of `map` and `geo`.
    pub tables: BTreeSet<String>,
    /// The texts that a variable may have, of those that never have another one.
    pub values: BTreeMap<String, Vec<String>>,
    /// The numbers of captures that are asked for: `$1` to `$9`.
    pub captures: BTreeSet<u8>,
    /// True if a request's URL may be changed: then the client's is kept apart.
    pub has_moves: bool,
    pub has_pages: bool,
    /// Tables that depend on the URL where a script may rewrite it.
    pub moving: BTreeSet<String>,
    /// True if nginx takes the client's address from a header: VCL doesn't know it.
    pub has_real_ip: bool,
    /// True if any server has TLS: then $scheme isn't always `http`.
    pub has_tls: bool,
    /// The variables that were asked for, of `tables`.
    pub used: RefCell<BTreeSet<String>>,
}

/// A value as an expression: texts and variables one after the other. The error is the variable that has no counterpart.
pub fn expression(
    value: &str,
    side: ExpressionSide,
    proxy_host: &str,
    names: &VariableNames,
) -> Result<String, String> {
    let mut terms = Vec::new();
    for part in parts(value) {
        terms.push(match part {
            Part::Text(text) => vcl::string(&text).ok_or_else(|| format!("{text:?} can't be written in VCL"))?,
            Part::Variable(name) => variable(&name.to_ascii_lowercase(), side, proxy_host, names)?,
        });
    }
    Ok(match &terms[..] {
        [] => "\"\"".to_owned(),
        _ => terms.join(" + "),
    })
}

/// An expression that is never unset, so that it can be compared: a header that isn't there is an empty text.
pub fn comparable(value: &str, side: ExpressionSide, names: &VariableNames) -> Result<String, String> {
    let text = expression(value, side, "", names)?;
    // Addresses and numbers are made texts, which only texts are compared with.
    if ["client.ip", "server.ip", "std.port(", "std.time2real(", "resp.status"]
        .iter()
        .any(|begin| text.starts_with(begin))
    {
        return Ok(format!("\"\" + {text}"));
    }
    let is_one = !text.contains(" + ") && !text.starts_with('"') && !text.contains('(');
    Ok(if is_one { format!("{text} + \"\"") } else { text })
}

/// A condition that holds where the value is neither empty nor `0`, as nginx asks of `proxy_no_cache` and `if`.
pub fn truth(value: &str, side: ExpressionSide, names: &VariableNames) -> Result<String, String> {
    if !value.contains('$') {
        return Ok(if matches!(value, "" | "0") { "false" } else { "true" }.to_owned());
    }
    Ok(format!("{} !~ \"^0?$\"", comparable(value, side, names)?))
}

/// A text in which variables that `set` gives one text are replaced by it.
pub fn folded(value: &str, names: &VariableNames) -> String {
    let one = |part: Part| match part {
        Part::Text(text) => text,
        Part::Variable(name) => match names.set.get(&name.to_ascii_lowercase()) {
            Some(Some(text)) => text.clone(),
            _ => format!("${{{name}}}"),
        },
    };
    parts(value).into_iter().map(one).collect()
}

/// A text with one of its variables replaced.
pub fn replaced(value: &str, variable: &str, text: &str) -> String {
    let one = |part: Part| match part {
        Part::Text(text) => text,
        Part::Variable(name) if name.eq_ignore_ascii_case(variable) => text.to_owned(),
        Part::Variable(name) => format!("${{{name}}}"),
    };
    parts(value).into_iter().map(one).collect()
}

/// A piece of a value.
#[derive(PartialEq, Eq, Debug)]
pub enum Part {
    Text(String),
    Variable(String),
}

pub fn parts(value: &str) -> Vec<Part> {
    let mut out = Vec::new();
    let mut text = String::new();
    let mut rest = value;
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let (name, left) = match after.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
            Some((name, left)) => (name, left),
            None => {
                let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
                after.split_at(end)
            }
        };
        if name.is_empty() {
            text.push('$');
        } else {
            if !text.is_empty() {
                out.push(Part::Text(std::mem::take(&mut text)));
            }
            out.push(Part::Variable(name.to_owned()));
        }
        rest = left;
    }
    text.push_str(rest);
    if !text.is_empty() {
        out.push(Part::Text(text));
    }
    out
}

/// True if the name of a header or variable can stand in VCL as it is.
pub fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
}

fn requested(head: &str, names: &VariableNames) -> String {
    format!("{head}.{}", if names.has_moves { "http.Nginx-Request-Uri" } else { "url" })
}

fn variable(name: &str, side: ExpressionSide, proxy_host: &str, names: &VariableNames) -> Result<String, String> {
    let head = side.head();
    let unknown = || format!("${name} has no counterpart");
    if names.set.contains_key(name) || names.tables.contains(name) {
        names.used.borrow_mut().insert(name.to_owned());
        return Ok(format!("{head}.http.{}", header(name)));
    }
    if let [digit @ b'1'..=b'9'] = name.as_bytes() {
        return Ok(format!("{head}.http.{}", capture::numbered(digit - b'0')));
    }
    if let Some((kind, rest)) = name.split_once('_').filter(|(_, rest)| is_plain(rest)) {
        let field = rest.replace('_', "-");
        let found = match (kind, side) {
            ("http", _) if is_header(&field) => Some(format!("{head}.http.{field}")),
            ("cookie", _) => {
                // An empty one stands at the end, so that nothing is left of cookies without it, as nginx has it.
                Some(format!(
                    "regsub({head}.http.Cookie + \"; {rest}=\", \"(?i)^(.*?;\\s*)??{rest}=([^;]*).*$\", \"\\2\")"
                ))
            }
            ("arg", _) => Some(format!(
                "regsub(regsub({head}.url, \"^[^?]*\\??\", \"&\") + \"&{rest}=\", \"(?i)^.*?&{rest}=([^&]*).*$\", \"\\1\")"
            )),
            ("sent", ExpressionSide::Deliver) => {
                let field = field.strip_prefix("http-").filter(|field| is_header(field));
                field.map(|field| format!("resp.http.{field}"))
            }
            _ => None,
        };
        if let Some(found) = found {
            return Ok(found);
        }
    }
    Ok(match name {
        // nginx writes $host in small letters, without a port and a dot at its end.
        "host" => format!("std.tolower(regsub({head}.http.Host, \"\\.?(:\\d*)?$\", \"\"))"),
        // The address may be made of variables itself.
        "proxy_host" if !proxy_host.is_empty() => expression(proxy_host, side, "", names)?,
        "request_uri" => requested(head, names),
        "uri" | "document_uri" => format!("{head}.http.Nginx-Path"),
        "args" | "query_string" => format!("regsub({head}.url, \"^[^?]*\\??\", \"\")"),
        "is_args" => format!("regsub(regsub({head}.url, \"^[^?]*\", \"\"), \"^\\?.*$\", \"?\")"),
        "request_method" => format!("{head}.method"),
        "request" => format!("{head}.method + \" \" + {} + \" \" + {head}.proto", requested(head, names)),
        "server_protocol" => format!("{head}.proto"),
        "content_type" => format!("{head}.http.Content-Type"),
        "content_length" => format!("{head}.http.Content-Length"),
        // The decision would be made by the balancer's address.
        "remote_addr" if names.has_real_ip && side == ExpressionSide::Client => {
            return Err(format!("${name}: {REAL_IP}"));
        }
        "remote_addr" | "proxy_protocol_addr" => "client.ip".to_owned(),
        "proxy_add_x_forwarded_for" => format!("{head}.http.X-Forwarded-For"),
        "scheme" if names.has_tls => format!("{head}.http.X-Forwarded-Proto"),
        "scheme" => "\"http\"".to_owned(),
        "https" if names.has_tls => {
            format!("regsub(regsub({head}.http.X-Forwarded-Proto, \"^http$\", \"\"), \"^https$\", \"on\")")
        }
        "https" => "\"\"".to_owned(),
        "remote_port" => "std.port(client.ip)".to_owned(),
        "msec" => "std.time2real(now, 0.0)".to_owned(),
        "server_addr" => "server.ip".to_owned(),
        "server_port" => "std.port(local.ip)".to_owned(),
        "hostname" => "server.hostname".to_owned(),
        "status" if side == ExpressionSide::Deliver => "resp.status".to_owned(),
        _ => return Err(unknown()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> VariableNames {
        let set = [("skip", None), ("up", Some("http://a:1"))];
        VariableNames {
            set: set.into_iter().map(|(name, text)| (name.to_owned(), text.map(str::to_owned))).collect(),
            ..VariableNames::default()
        }
    }

    fn check(value: &str, expect: &str) {
        let got =
            expression(value, ExpressionSide::Client, "app", &names()).unwrap_or_else(|error| format!("no: {error}"));
        assert_eq!(got, expect, "{value}");
    }

    #[test]
    fn values() {
        check("a", "\"a\"");
        check("", "\"\"");
        check("$request_uri", "req.url");
        check("https://$http_host$request_uri", "\"https://\" + req.http.host + req.url");
        check("a${proxy_host}b", "\"a\" + \"app\" + \"b\"");
        check("$http_x_y", "req.http.x-y");
        check("$http_1x", "no: $http_1x has no counterpart");
        check("$http__x", "no: $http__x has no counterpart");
        check("$SKIP", "req.http.Nginx-Var-skip");
        check("100$", "\"100$\"");
        check("t=${msec}", "\"t=\" + std.time2real(now, 0.0)");
        check("$geoip_country", "no: $geoip_country has no counterpart");
        check("$upstream_http_x", "no: $upstream_http_x has no counterpart");
    }

    #[test]
    fn truths() {
        assert_eq!(truth("1", ExpressionSide::Client, &names()).as_deref(), Ok("true"));
        assert_eq!(
            truth("$http_pragma", ExpressionSide::Client, &names()).as_deref(),
            Ok("req.http.pragma + \"\" !~ \"^0?$\"")
        );
        assert_eq!(
            truth("$remote_addr", ExpressionSide::Client, &names()).as_deref(),
            Ok("\"\" + client.ip !~ \"^0?$\"")
        );
        assert_eq!(truth("$hostnam", ExpressionSide::Client, &names()), Err("$hostnam has no counterpart".to_owned()));
    }

    #[test]
    fn texts_that_are_set_once() {
        assert_eq!(folded("$up/x$request_uri", &names()), "http://a:1/x${request_uri}");
    }
}

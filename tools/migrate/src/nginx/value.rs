// SPDX-License-Identifier: BSD-2-Clause
//! Values with nginx's variables, as expressions and conditions of VCL.

use crate::vcl;

/// The side of the cache on which an expression stands: its name for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExpressionSide {
    Client,
    Backend,
}

impl ExpressionSide {
    pub fn head(self) -> &'static str {
        match self {
            ExpressionSide::Client => "req",
            ExpressionSide::Backend => "bereq",
        }
    }

    pub fn path(self) -> String {
        format!("regsub({}.url, \"\\?.*$\", \"\")", self.head())
    }
}

/// A value as an expression: texts and variables one after the other. The error is the variable that has no counterpart.
pub fn expression(value: &str, side: ExpressionSide, proxy_host: &str) -> Result<String, String> {
    let mut terms = Vec::new();
    for part in parts(value) {
        terms.push(match part {
            Part::Text(text) => vcl::string(&text).ok_or_else(|| format!("{text:?} can't be written in VCL"))?,
            Part::Variable(name) => variable(&name, side, proxy_host)?,
        });
    }
    Ok(if terms.is_empty() { "\"\"".to_owned() } else { terms.join(" + ") })
}

/// A condition that holds where the value is neither empty nor `0`, as nginx asks of `proxy_no_cache` and the like.
pub fn truth(value: &str, side: ExpressionSide) -> Result<String, String> {
    let all = parts(value);
    let [Part::Variable(name)] = &all[..] else {
        return match all.iter().any(|part| matches!(part, Part::Variable(_))) {
            true => Err(format!("{value}, which is more than one variable")),
            false => Ok(if matches!(value, "" | "0") { "false" } else { "true" }.to_owned()),
        };
    };
    let head = side.head();
    if let Some(cookie) = name.strip_prefix("cookie_") {
        let cookie = vcl::literal(cookie);
        return Ok(format!("{head}.http.Cookie ~ \"(?i)(^|;\\s*){cookie}=(0[^;]|[^;0])\""));
    }
    if let Some(argument) = name.strip_prefix("arg_") {
        let argument = vcl::literal(argument);
        return Ok(format!("{head}.url ~ \"(?i)[?&]{argument}=(0[^&]|[^&0])\""));
    }
    if let Some(field) = name.strip_prefix("http_") {
        let field = field.replace('_', "-");
        return Ok(format!("{head}.http.{field} && {head}.http.{field} != \"\" && {head}.http.{field} != \"0\""));
    }
    Err(format!("${name}"))
}

#[derive(PartialEq, Eq, Debug)]
enum Part {
    Text(String),
    Variable(String),
}

fn parts(value: &str) -> Vec<Part> {
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

fn variable(name: &str, side: ExpressionSide, proxy_host: &str) -> Result<String, String> {
    let head = side.head();
    Ok(match name {
        // What nginx calls $host is in small letters and without a port; so it is here.
        "host" => format!("std.tolower(regsub({head}.http.Host, \":\\d+$\", \"\"))"),
        "http_host" => format!("{head}.http.Host"),
        "proxy_host" => vcl::string(proxy_host).ok_or("$proxy_host")?,
        "request_uri" => format!("{head}.url"),
        "uri" | "document_uri" => side.path(),
        "args" | "query_string" => format!("regsub(regsub({head}.url, \"^[^?]*\", \"\"), \"^\\?\", \"\")"),
        "is_args" => format!("regsub(regsub({head}.url, \"^[^?]*\", \"\"), \"^\\?.*$\", \"?\")"),
        "request_method" => format!("{head}.method"),
        "remote_addr" => "client.ip".to_owned(),
        "scheme" => format!("{head}.http.X-Forwarded-Proto"),
        "server_addr" => "server.ip".to_owned(),
        "server_port" => "std.port(local.ip)".to_owned(),
        "hostname" => "server.hostname".to_owned(),
        _ => match name.strip_prefix("http_") {
            Some(field) => format!("{head}.http.{}", field.replace('_', "-")),
            None => match name.strip_prefix("cookie_") {
                Some(cookie) => {
                    let cookie = vcl::literal(cookie);
                    // An empty one stands at the end, so that nothing is left of cookies without it, as nginx has it.
                    format!(
                        "regsub({head}.http.Cookie + \"; {cookie}=\", \"(?i)^(.*?;\\s*)?{cookie}=([^;]*).*$\", \"\\2\")"
                    )
                }
                None => return Err(format!("${name}")),
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, expect: &str) {
        let got = expression(value, ExpressionSide::Client, "app").unwrap_or_else(|error| format!("no: {error}"));
        assert_eq!(got, expect, "{value}");
    }

    #[test]
    fn values() {
        check("a", "\"a\"");
        check("", "\"\"");
        check("$request_uri", "req.url");
        check("https://$http_host$request_uri", "\"https://\" + req.http.Host + req.url");
        check("a${proxy_host}b", "\"a\" + \"app\" + \"b\"");
        check("$http_x_y", "req.http.x-y");
        check("100$", "\"100$\"");
        check("$geoip_country", "no: $geoip_country");
    }

    #[test]
    fn truths() {
        assert_eq!(truth("1", ExpressionSide::Client).as_deref(), Ok("true"));
        assert_eq!(
            truth("$cookie_a", ExpressionSide::Backend).as_deref(),
            Ok("bereq.http.Cookie ~ \"(?i)(^|;\\s*)a=(0[^;]|[^;0])\"")
        );
        assert_eq!(
            truth("$http_pragma", ExpressionSide::Client).as_deref(),
            Ok("req.http.pragma && req.http.pragma != \"\" && req.http.pragma != \"0\"")
        );
        assert_eq!(truth("$skip", ExpressionSide::Client), Err("$skip".to_owned()));
    }
}

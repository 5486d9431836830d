// SPDX-License-Identifier: BSD-2-Clause
//! `proxy_redirect`: the addresses in Location and Refresh that an origin knows itself by, as clients know them. Without a line nginx takes its
//! own address for the origin out of them.

use super::config::Directive;
use super::location::{LocationKind, NginxLocation};
use super::scope::LocationScope;
use super::value::{ExpressionSide, Part, VariableNames, expression, parts};
use crate::vcl;

/// An address to look for, and what comes in its place.
struct Redirection<'a> {
    /// Matched at the beginning, as a regex of VCL's.
    regex: String,
    /// True if the whole value is replaced, with the regex's captures; else what stands behind the match stays.
    is_whole: bool,
    replacement: &'a str,
}

/// The lines for the response of a location whose `proxy_pass` is `pass`.
///
/// # Errors
/// The directive that has no counterpart, and why.
pub fn redirected<'a>(
    scope: &LocationScope<'a>,
    location: &NginxLocation<'a>,
    pass: &Directive,
    names: &VariableNames,
) -> Result<Vec<String>, (&'a Directive, String)> {
    let directives = scope.all("proxy_redirect");
    let mut all = Vec::new();
    for directive in &directives {
        match (directive.word(0), directive.words.len()) {
            ("off", 1) => return Ok(Vec::new()),
            ("default", 1) => all.extend(own(location, pass)),
            (_, 2) => all.push(given(directive).map_err(|reason| (*directive, reason))?),
            _ => return Err((*directive, "it has an address and another one".to_owned())),
        }
    }
    if directives.is_empty() {
        all.extend(own(location, pass));
    }
    let mut out = Vec::new();
    for (header, before) in [("resp.http.Location", ""), ("resp.http.Refresh", "(?<=[uU][rR][lL]=)")] {
        let mut branches = Vec::new();
        for redirection in &all {
            let refused = |reason: String| (directives.last().copied().unwrap_or(location.directive), reason);
            branches.push(redirection.branch(header, before, names).map_err(refused)?);
        }
        out.extend(vcl::chain(branches));
    }
    Ok(out)
}

/// The redirection that nginx makes by itself; None for an address that is made of variables.
fn own<'a>(location: &NginxLocation<'a>, pass: &Directive) -> Option<Redirection<'a>> {
    let address = pass.word(0);
    let (_, rest) = address.split_once("://").filter(|(_, rest)| !rest.contains('$') && !rest.starts_with("unix:"))?;
    let is_prefix = matches!(location.kind, LocationKind::Exact | LocationKind::Prefix { .. });
    let (from, replacement) = match rest.contains('/') {
        true => (address.to_owned(), Some(location.text).filter(|_| is_prefix)?),
        false => (format!("{address}/"), "/"),
    };
    Some(Redirection { regex: vcl::literal(&from), is_whole: false, replacement })
}

fn given(directive: &Directive) -> Result<Redirection<'_>, String> {
    let (from, replacement) = (directive.word(0), directive.word(1));
    let regex = match (from.strip_prefix("~*"), from.strip_prefix('~')) {
        (Some(regex), _) => Some(format!("(?i){regex}")),
        (None, regex) => regex.map(str::to_owned),
    };
    match regex {
        Some(regex) => Ok(Redirection { regex, is_whole: true, replacement }),
        None if from.contains('$') => Err("it looks for an address that is made of variables".to_owned()),
        None => Ok(Redirection { regex: vcl::literal(from), is_whole: false, replacement }),
    }
}

impl Redirection<'_> {
    /// The condition and the line for a header in which the address stands behind `before`.
    fn branch(&self, header: &str, before: &str, names: &VariableNames) -> Result<(String, Vec<String>), String> {
        let quoted = |text: &str| vcl::string(text).ok_or_else(|| format!("{text:?} can't be written in VCL"));
        let anchor = match (self.is_whole, before) {
            (false, "") => "^",
            _ => before,
        };
        let (flag, regex) = match self.regex.strip_prefix("(?i)") {
            Some(regex) => ("(?i)", regex),
            None => ("", self.regex.as_str()),
        };
        let condition = format!("{header} ~ {}", quoted(&format!("{flag}{anchor}(?:{regex})"))?);
        let head = format!("regsub({header}, {}, \"\\1\")", quoted("(?i)^(.*?url=).*$")?);
        let mut terms = if before.is_empty() { Vec::new() } else { vec![head] };
        for part in parts(self.replacement) {
            terms.push(match part {
                Part::Variable(name) if self.is_whole && matches!(name.as_bytes(), [b'1'..=b'9']) => {
                    let lead = if before.is_empty() { "^.*?" } else { "^.*?[uU][rR][lL]=" };
                    format!("regsub({header}, {}, \"\\{name}\")", quoted(&format!("{flag}{lead}(?:{regex}).*$"))?)
                }
                Part::Variable(name) => expression(&format!("${{{name}}}"), ExpressionSide::Deliver, "", names)?,
                Part::Text(text) => quoted(&text)?,
            });
        }
        if !self.is_whole {
            let lead = if before.is_empty() { "^" } else { "^.*?[uU][rR][lL]=" };
            terms.push(format!("regsub({header}, {}, \"\")", quoted(&format!("{lead}{regex}"))?));
        }
        let value = if terms.is_empty() { "\"\"".to_owned() } else { terms.join(" + ") };
        Ok((condition, vec![format!("set {header} = {value};")]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(from: &str, replacement: &str, is_whole: bool, expect: &str) {
        let redirection = Redirection { regex: from.to_owned(), is_whole, replacement };
        let (condition, lines) = redirection.branch("L", "", &VariableNames::default()).expect("can be written");
        assert_eq!(format!("{condition} {}", lines.join(" ")), expect);
    }

    #[test]
    fn beginnings_and_regexes() {
        check(
            "http://a/b/",
            "/c/",
            false,
            "L ~ \"^(?:http://a/b/)\" set L = \"/c/\" + regsub(L, \"^http://a/b/\", \"\");",
        );
        check(
            "(?i)^http://[^/]+(/.*)$",
            "https://$server_protocol$1",
            true,
            "L ~ \"(?i)(?:^http://[^/]+(/.*)$)\" set L = \"https://\" + req.proto + regsub(L, \"(?i)^.*?(?:^http://[^/]+(/.*)$).*$\", \"\\1\");",
        );
    }
}

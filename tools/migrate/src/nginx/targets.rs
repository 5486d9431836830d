// SPDX-License-Identifier: BSD-2-Clause
//! The addresses to which a `proxy_pass` made of variables comes: those that `set`, `map` and `geo` give are known now, others only a request
//! tells. nginx takes the name of an `upstream` for that upstream, and looks any other up by its `resolver`.

use super::config::Directive;
use super::value::{ExpressionSide, Part, VariableNames, expression, folded, parts, replaced};
use crate::vcl;

/// The header in which a request keeps scheme and name of its origin.
pub const ORIGIN: &str = "Nginx-Origin";

const MOST: usize = 64;

/// The choice of an origin by its scheme and name.
pub struct OriginChoice {
    /// The expression of scheme and name.
    pub origin: String,
    pub branches: Vec<OriginBranch>,
    /// True if only a request tells the name.
    pub is_open: bool,
}

pub struct OriginBranch {
    pub condition: String,
    pub address: String,
    /// The upstream that the name is of, where only a request tells the name.
    pub upstream: Option<String>,
}

/// The choice that an address asks for; None where it names one origin, or none at all.
///
/// # Errors
/// The reason why the origins can't be told.
pub fn choice(address: &str, names: &VariableNames, upstreams: &[&Directive]) -> Result<Option<OriginChoice>, String> {
    let address = folded(address, names);
    let (scheme, end) = ends(&address);
    let prefix = &address[..end];
    if !prefix.contains('$') {
        return Ok(None);
    }
    let origin = expression(prefix, ExpressionSide::Client, "", names)?;
    let asked = format!("req.http.{ORIGIN}");
    let is = |text: &str| Some(format!("{asked} == {}", vcl::string(text)?));
    let all = combined(prefix, names)?;
    let is_open = all.iter().any(|text| text.contains('$'));
    let mut branches = Vec::new();
    if !is_open {
        for text in all {
            let condition = is(&text).ok_or("a value of it can't be written in VCL")?;
            branches.push(OriginBranch { condition, address: format!("{text}{}", &address[end..]), upstream: None });
        }
        return Ok(Some(OriginChoice { origin, branches, is_open }));
    }
    if scheme == 0 {
        return Err("a variable says its scheme, and only a request tells it: write http:// or https://".to_owned());
    }
    let rest = &address[scheme..];
    for scheme in combined(&address[..scheme], names)? {
        let address = format!("{scheme}{rest}");
        let named = |regex: &str| format!("{asked} ~ \"(?i)^{}{regex}$\"", vcl::literal(&scheme));
        branches.extend(upstreams.iter().map(|upstream| OriginBranch {
            condition: named(&vcl::literal(upstream.word(0))),
            address: address.clone(),
            upstream: Some(upstream.word(0).to_owned()),
        }));
        branches.push(OriginBranch { condition: named(NAME), address, upstream: None });
    }
    match branches.len() > MOST {
        true => Err(TOO_MANY.to_owned()),
        false => Ok(Some(OriginChoice { origin, branches, is_open })),
    }
}

const NAME: &str = "([a-z0-9_.-]+|\\[[0-9a-f:.]+\\])(:\\d+)?";

const TOO_MANY: &str = "its variables come to more than 64 addresses: choose among upstreams by one map";

pub const URI: [&str; 4] = ["/", "${request_uri}", "${uri}", "${document_uri}"];

/// The ends of the scheme with its `://`, zero where none is written, and of the name behind it.
pub fn ends(address: &str) -> (usize, usize) {
    let scheme = address.split_once("://").filter(|(scheme, _)| !scheme.contains('/'));
    let scheme = scheme.map_or(0, |(scheme, _)| scheme.len() + 3);
    let rest = &address[scheme..];
    if rest.starts_with("unix:") {
        return (scheme, address.len());
    }
    let ends = URI.iter().chain(&["?", "${is_args}", "${args}"]);
    let end = ends.filter_map(|begin| rest.find(begin)).min().unwrap_or(rest.len());
    (scheme, scheme + end)
}

/// A text with each combination of the values that its variables may have; those that only a request tells stay variables.
fn combined(text: &str, names: &VariableNames) -> Result<Vec<String>, String> {
    let mut all = vec![text.to_owned()];
    for part in parts(text) {
        let Part::Variable(name) = part else { continue };
        let name = name.to_ascii_lowercase();
        let values: Vec<String> = match name.as_str() {
            "scheme" if names.has_tls => vec!["http".to_owned(), "https".to_owned()],
            "scheme" => vec!["http".to_owned()],
            _ => names.values.get(&name).cloned().unwrap_or_default(),
        };
        if !values.is_empty() {
            all = all.iter().flat_map(|text| values.iter().map(|value| replaced(text, &name, value))).collect();
            all.sort();
            all.dedup();
        }
        if all.len() > MOST {
            return Err(TOO_MANY.to_owned());
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::config;
    use super::*;
    use crate::source::Given;

    fn check(address: &str, expect: &[&str]) {
        let values = [("up", vec!["app", "127.0.0.1:9001"]), ("url", vec!["http://app/x", ""])];
        let values = values.map(|(name, all)| (name.to_owned(), all.into_iter().map(str::to_owned).collect()));
        let names = VariableNames {
            tables: values.iter().map(|(name, _)| name.clone()).collect(),
            values: values.into(),
            has_tls: true,
            ..VariableNames::default()
        };
        let files: &'static [(&str, &str)] = &[("f", "upstream app { server a:1; }")];
        let upstreams = config::read("f", &Given(files)).expect("nginx's language");
        let upstreams: Vec<&Directive> = upstreams.iter().collect();
        let got: Vec<String> = match choice(address, &names, &upstreams) {
            Ok(None) => vec!["one".to_owned()],
            Ok(Some(choice)) => {
                choice.branches.into_iter().map(|one| format!("{}: {}", one.condition, one.address)).collect()
            }
            Err(error) => vec![error],
        };
        let got: Vec<String> = got.iter().map(|line| line.replace("req.http.Nginx-Origin", "O")).collect();
        assert_eq!(got, expect, "{address}");
    }

    #[test]
    fn addresses_that_are_known() {
        check("http://app/x", &["one"]);
        check("http://app$uri", &["one"]);
        check(
            "http://$up",
            &["O == \"http://127.0.0.1:9001\": http://127.0.0.1:9001", "O == \"http://app\": http://app"],
        );
        check("$url", &["O == \"\": ", "O == \"http://app/x\": http://app/x"]);
        check(
            "$scheme://app$request_uri",
            &["O == \"http://app\": http://app${request_uri}", "O == \"https://app\": https://app${request_uri}"],
        );
    }

    #[test]
    fn addresses_that_a_request_tells() {
        check(
            "http://$host:81/a",
            &[
                "O ~ \"(?i)^http://app$\": http://${host}:81/a",
                "O ~ \"(?i)^http://([a-z0-9_.-]+|\\[[0-9a-f:.]+\\])(:\\d+)?$\": http://${host}:81/a",
            ],
        );
        check("$http_x", &["a variable says its scheme, and only a request tells it: write http:// or https://"]);
        check("http://$nobody", &["$nobody has no counterpart"]);
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! The regexes of a configuration, before anything is made of them.

use super::config::Directive;
use crate::regex;

/// Checks the regexes of directives and all in them.
///
/// # Errors
/// VCL doesn't take one of them; the text says where.
pub fn check(all: &[Directive]) -> Result<(), String> {
    for directive in all {
        own(directive)
            .iter()
            .flat_map(|text| forms(text))
            .try_for_each(|text| regex::check(&directive.place, &directive.name, &text))?;
        for entry in directive.inside().iter().filter(|_| directive.name == "map") {
            let text = entry.name.strip_prefix('~').map(insensitive);
            text.iter().flat_map(|text| forms(text)).try_for_each(|text| regex::check(&entry.place, "map", &text))?;
        }
        check(directive.inside())?;
    }
    Ok(())
}

fn own(directive: &Directive) -> Vec<String> {
    match directive.name.as_str() {
        "server_name" => directive.words.iter().filter_map(|word| word.strip_prefix('~')).map(insensitive).collect(),
        "location" => match directive.word(0) {
            "~" => vec![directive.word(1).to_owned()],
            "~*" => vec![format!("(?i){}", directive.word(1))],
            word => word.strip_prefix('~').map(insensitive).into_iter().collect(),
        },
        "rewrite" => vec![directive.word(0).to_owned()],
        "proxy_redirect" => directive.word(0).strip_prefix('~').map(insensitive).into_iter().collect(),
        "if" => {
            let at = directive.words.iter().position(|word| matches!(word.as_str(), "~" | "~*" | "!~" | "!~*"));
            // The parenthesis of the condition stands right behind the regex, or is a word of its own.
            let regex = at.map(|at| match directive.words.len() == at + 2 {
                true => directive.word(at + 1).strip_suffix(')').unwrap_or_default(),
                false => directive.word(at + 1),
            });
            regex.map(str::to_owned).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The regexes that VCL has for one: itself, and for its captures the one that takes the whole text.
fn forms(regex: &str) -> Vec<String> {
    let (flag, rest) = regex.strip_prefix("(?i)").map_or(("", regex), |rest| ("(?i)", rest));
    let whole = rest.contains('(').then(|| format!("{flag}^.*?(?:{rest}).*$"));
    std::iter::once(regex.to_owned()).chain(whole).collect()
}

/// A regex behind `~`: with a `*` before it letters count alike.
fn insensitive(text: &str) -> String {
    text.strip_prefix('*').map_or_else(|| text.to_owned(), |rest| format!("(?i){rest}"))
}

#[cfg(test)]
mod tests {
    use super::super::config;
    use super::*;
    use crate::source::Given;

    #[test]
    fn each_regex_is_checked_with_its_line() {
        for (text, begin) in [
            ("\nproxy_redirect ~(a /;", "f:2: proxy_redirect: the regex (a"),
            ("\nproxy_redirect ~*[a /;", "f:2: proxy_redirect: the regex (?i)[a"),
            ("\nmap $a $b {\n ~(a 1; }", "f:3: map: the regex (a"),
            ("\nif ($a ~ (a() ) { }", "f:2: if: the regex (a("),
            ("rewrite (a /;", "f:1: rewrite: the regex (a"),
        ] {
            let files: &'static [(&str, &str)] = Box::leak(Box::new([("f", text)]));
            let error = check(&config::read("f", &Given(files)).expect("nginx's language")).expect_err(text);
            assert!(error.starts_with(begin), "{text}: {error}");
        }
    }

    #[test]
    fn captures_are_of_the_whole_text() {
        let of = |text: &str| forms(text).join(" ");
        assert_eq!(of("(?i)^/(a)"), "(?i)^/(a) (?i)^.*?(?:^/(a)).*$");
        assert_eq!(of("^/a"), "^/a");
    }
}

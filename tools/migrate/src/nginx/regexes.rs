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
        own(directive).into_iter().try_for_each(|text| regex::check(&directive.place, &directive.name, &text))?;
        for entry in directive.inside().iter().filter(|_| directive.name == "map") {
            let text = entry.name.strip_prefix('~').map(insensitive);
            text.map_or(Ok(()), |text| regex::check(&entry.place, "map", &text))?;
        }
        check(directive.inside())?;
    }
    Ok(())
}

/// The regexes of a directive itself.
fn own(directive: &Directive) -> Vec<String> {
    match directive.name.as_str() {
        "server_name" => directive.words.iter().filter_map(|word| word.strip_prefix('~')).map(insensitive).collect(),
        "location" => match directive.word(0) {
            "~" => vec![directive.word(1).to_owned()],
            "~*" => vec![format!("(?i){}", directive.word(1))],
            word => word.strip_prefix('~').map(insensitive).into_iter().collect(),
        },
        "rewrite" => vec![directive.word(0).to_owned(), format!("^.*?(?:{}).*$", directive.word(0))],
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

/// A regex behind `~`: with a `*` before it letters count alike.
fn insensitive(text: &str) -> String {
    text.strip_prefix('*').map_or_else(|| text.to_owned(), |rest| format!("(?i){rest}"))
}

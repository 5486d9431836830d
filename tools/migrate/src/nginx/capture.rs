// SPDX-License-Identifier: BSD-2-Clause
//! Captures of nginx's regexes: `$1` to `$9` are those of the last regex that has matched, `(?<name>...)` sets a variable. A request keeps them in
//! headers.

use std::collections::BTreeSet;

use super::config::Directive;
use super::value::{VariableNames, header};
use crate::vcl;

const MOST: usize = 9;

/// The header in which a request keeps `$1` and so on.
pub fn numbered(number: u8) -> String {
    format!("Nginx-Capture-{number}")
}

fn groups(regex: &str) -> Vec<Option<&str>> {
    let (mut found, mut in_class, mut chars) = (Vec::new(), false, regex.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => _ = chars.next(),
            '[' if !in_class => {
                in_class = true;
                // A `]` that stands first is one of the class.
                let rest = regex[at + 1..].trim_start_matches('^');
                if rest.starts_with(']') {
                    chars.by_ref().find(|(_, c)| *c == ']');
                }
            }
            ']' => in_class = false,
            '(' if !in_class => found.extend(group(&regex[at + 1..])),
            _ => {}
        }
    }
    found
}

/// The group that begins here: None if it captures nothing.
fn group(rest: &str) -> Option<Option<&str>> {
    let Some(kind) = rest.strip_prefix('?') else { return Some(None) };
    let kind = kind.strip_prefix('P').unwrap_or(kind);
    let (name, end) = match (kind.strip_prefix('<'), kind.strip_prefix('\'')) {
        (Some(name), _) => (name, '>'),
        (_, Some(name)) => (name, '\''),
        _ => return None,
    };
    let name = name.split(end).next().unwrap_or_default();
    (!name.starts_with(['=', '!'])).then_some(Some(name))
}

/// The names that a regex gives its groups, as far as VCL can have them.
pub fn names(regex: &str) -> impl Iterator<Item = String> {
    groups(regex).into_iter().take(MOST).flatten().map(str::to_ascii_lowercase)
}

/// The lines that keep what a regex has captured from `subject`, as far as the configuration asks for it.
pub fn lines(subject: &str, regex: &str, ignores_case: bool, names: &VariableNames) -> Vec<String> {
    let groups = groups(regex);
    let flag = if ignores_case { "(?i)" } else { "" };
    let Some(whole) = vcl::string(&format!("{flag}^.*?(?:{regex}).*$")) else { return Vec::new() };
    let set = |header: &str, n: usize| format!("set req.http.{header} = regsub({subject}, {whole}, \"\\{n}\");");
    let mut out = Vec::new();
    for number in &names.captures {
        let header = numbered(*number);
        out.push(match usize::from(*number) {
            n if n <= groups.len() => set(&header, n),
            _ => format!("unset req.http.{header};"),
        });
    }
    for (n, name) in groups.iter().enumerate().take(MOST) {
        out.extend(name.map(|name| set(&header(&name.to_ascii_lowercase()), n + 1)));
    }
    out
}

/// The numbers of captures that any directive asks for.
pub fn asked(block: &[Directive], found: &mut BTreeSet<u8>) {
    for directive in block {
        for word in std::iter::once(&directive.name).chain(&directive.words) {
            for after in word.split('$').skip(1) {
                let digit = after.strip_prefix('{').unwrap_or(after).bytes().next().filter(u8::is_ascii_digit);
                found.extend(digit.map(|digit| digit - b'0').filter(|digit| *digit > 0));
            }
        }
        asked(directive.inside(), found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_regexes() {
        for (regex, expect) in [
            ("^/a/(.*)$", "-"),
            ("(a)(?:b)(?<n>c)(?P<M>d)(?'q'e)(?=f)(?<!g)", "- n M q"),
            ("\\((x)[(](y)[]()](z)[^]()]", "- - -"),
            ("", ""),
        ] {
            let found: Vec<&str> = groups(regex).into_iter().map(|name| name.unwrap_or("-")).collect();
            assert_eq!(found.join(" "), expect, "{regex}");
        }
    }

    #[test]
    fn what_is_asked_for_is_kept() {
        let names = VariableNames { captures: [1, 3].into(), ..VariableNames::default() };
        assert_eq!(
            lines("P", "^/(a)(?<n>b)", true, &names),
            [
                "set req.http.Nginx-Capture-1 = regsub(P, \"(?i)^.*?(?:^/(a)(?<n>b)).*$\", \"\\1\");",
                "unset req.http.Nginx-Capture-3;",
                "set req.http.Nginx-Var-n = regsub(P, \"(?i)^.*?(?:^/(a)(?<n>b)).*$\", \"\\2\");",
            ]
        );
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Words of a command line that have blanks in them.
//!
//! Varnish's varnishadm joins the words with blanks and sends that: `param.set cc_command "a b"` has one argument too many. What it takes must
//! keep its meaning, so the joined line goes first, and another reading only when the manager has refused that line, which then changed
//! nothing.

use cli::CliStatus;
use cli::client::quote;

/// The command with each word that has blanks in it as one argument, if the joined line was refused and that may be why.
pub fn other_reading(words: &[String], refusal: CliStatus) -> Option<Vec<u8>> {
    let is_about_words =
        matches!(refusal, CliStatus::Syntax | CliStatus::TooFew | CliStatus::TooMany | CliStatus::Param);
    // Quotes are meant for the manager. A newline has made several commands, which aren't all answered.
    let is_plain = |word: &String| !word.contains(['"', '\n', '\r']);
    if !is_about_words || !words.iter().all(is_plain) || !words.iter().any(|word| word.contains(' ')) {
        return None;
    }
    let joined = words.join(" ");
    match joined.trim_start().split_once(' ') {
        Some(("ban", expression)) => Some(ban(expression)),
        _ => Some(line(words.iter().map(String::as_str))),
    }
}

/// True if the second reply says more of what was wanted: it was done, or its words were understood and the first one's
/// weren't.
pub fn is_better(first: CliStatus, second: CliStatus) -> bool {
    second == CliStatus::Ok || (first == CliStatus::TooMany && second == CliStatus::Param)
}

/// `ban` with the last part of each condition as one argument, wherever the shell's words begin and end.
fn ban(expression: &str) -> Vec<u8> {
    let mut args = vec!["ban"];
    for (i, condition) in expression.split(" && ").enumerate() {
        if i > 0 {
            args.push("&&");
        }
        args.extend(condition.trim().splitn(3, ' ').map(str::trim));
    }
    line(args.into_iter())
}

fn line<'w>(words: impl Iterator<Item = &'w str>) -> Vec<u8> {
    let argument = |word: &str| if word.contains(' ') { quote(word.as_bytes()) } else { word.as_bytes().to_vec() };
    words.map(argument).collect::<Vec<_>>().join(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str], refusal: CliStatus, expected: Option<&str>) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let got = other_reading(&words, refusal).map(|line| String::from_utf8_lossy(&line).into_owned());
        assert_eq!(got.as_deref(), expected, "{words:?}");
    }

    #[test]
    fn a_word_with_blanks_is_one_argument() {
        check(&["param.set", "cc_command", "a b"], CliStatus::TooMany, Some(r#"param.set cc_command "a b""#));
        check(&["vcl.load", "a", "/tmp/a b.vcl"], CliStatus::Param, Some(r#"vcl.load a "/tmp/a b.vcl""#));
        check(&["param.set", "x", r"a \d"], CliStatus::TooMany, Some(r#"param.set x "a \\d""#));
    }

    #[test]
    fn a_ban_is_read_by_its_conditions() {
        check(&["ban", "req.url ~ /a b"], CliStatus::Param, Some(r#"ban req.url ~ "/a b""#));
        check(&["ban", "req.url", "~", "/a b"], CliStatus::Param, Some(r#"ban req.url ~ "/a b""#));
        check(&["ban req.url ~ /a b"], CliStatus::Param, Some(r#"ban req.url ~ "/a b""#));
        check(
            &["ban", "req.url ~ /a b && obj.status == 200"],
            CliStatus::Param,
            Some(r#"ban req.url ~ "/a b" && obj.status == 200"#),
        );
    }

    #[test]
    fn what_was_done_or_quoted_or_failed_otherwise_goes_once() {
        check(&["param.set", "x", "a b"], CliStatus::Ok, None);
        check(&["vcl.load", "a", "/a b"], CliStatus::Cant, None);
        check(&["param.set", "x", "\"a b"], CliStatus::Syntax, None);
        check(&["vcl.inline", "x", "<< X\na b\nX\n"], CliStatus::Param, None);
        check(&["param.set", "nosuch", "1"], CliStatus::Param, None);
    }
}

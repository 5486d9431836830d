// SPDX-License-Identifier: BSD-2-Clause
//! Splitting a line into words: white space separates, double quotes keep it, a backslash escapes.

/// The reason why a line can't be split. `Display` is what follows `Syntax Error: `.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WordError {
    /// A backslash that begins no known sequence.
    Backslash,
    /// A quote within a word.
    Quote,
    MissingQuote,
    MissingSeparator,
}

impl std::fmt::Display for WordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Backslash => "Invalid backslash sequence",
            Self::Quote => "Invalid '\"'",
            Self::MissingQuote => "Missing '\"'",
            Self::MissingSeparator => "Missing separator between arguments",
        })
    }
}

impl std::error::Error for WordError {}

/// The words of `line`. Words are bytes: VCL need not be UTF-8.
pub fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, WordError> {
    let mut words = Vec::new();
    let mut rest = line;
    let mut after_quote = false;
    loop {
        let blank = rest.iter().take_while(|b| is_space(**b)).count();
        after_quote &= blank == 0;
        rest = &rest[blank..];
        let Some(first) = rest.first() else { return Ok(words) };
        if *first != b'"' {
            let (word, tail) = bare_word(rest)?;
            words.push(word);
            (rest, after_quote) = (tail, false);
        } else if after_quote {
            return Err(WordError::MissingSeparator);
        } else {
            let (word, tail) = quoted_word(&rest[1..])?;
            words.push(word);
            (rest, after_quote) = (tail, true);
        }
    }
}

/// White space as C's `isspace` has it.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn bare_word(text: &[u8]) -> Result<(Vec<u8>, &[u8]), WordError> {
    let (mut word, mut rest) = (Vec::new(), text);
    while let Some(byte) = rest.first() {
        match byte {
            b'\\' => rest = unescape(rest, &mut word)?,
            b'"' => return Err(WordError::Quote),
            byte if is_space(*byte) => break,
            byte => {
                word.push(*byte);
                rest = &rest[1..];
            }
        }
    }
    Ok((word, rest))
}

fn quoted_word(text: &[u8]) -> Result<(Vec<u8>, &[u8]), WordError> {
    let (mut word, mut rest) = (Vec::new(), text);
    loop {
        match rest.first() {
            None => return Err(WordError::MissingQuote),
            Some(b'"') => return Ok((word, &rest[1..])),
            Some(b'\\') => rest = unescape(rest, &mut word)?,
            Some(byte) => {
                word.push(*byte);
                rest = &rest[1..];
            }
        }
    }
}

/// Appends what the sequence at the beginning of `text` stands for; gives what comes after it.
fn unescape<'t>(text: &'t [u8], word: &mut Vec<u8>) -> Result<&'t [u8], WordError> {
    let (byte, len) = match text {
        [_, b'n', ..] => (b'\n', 2),
        [_, b'r', ..] => (b'\r', 2),
        [_, b't', ..] => (b'\t', 2),
        [_, b'"', ..] => (b'"', 2),
        [_, b'\\', ..] => (b'\\', 2),
        [_, b'x', high, low, ..] => {
            let digit = |b: u8| (b as char).to_digit(16).ok_or(WordError::Backslash);
            ((digit(*high)? * 16 + digit(*low)?) as u8, 4)
        }
        [_, b'0'..=b'7', ..] => {
            let digits = text[1..].iter().take(3).take_while(|b| (b'0'..=b'7').contains(*b));
            let (value, count) = digits.fold((0u32, 0), |(v, n), b| (v * 8 + u32::from(b - b'0'), n + 1));
            (value as u8, 1 + count)
        }
        _ => return Err(WordError::Backslash),
    };
    word.push(byte);
    Ok(&text[len..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::client::quote;

    fn check(line: &str, want: &str) {
        let got =
            split(line.as_bytes()).map(|words| words.iter().map(|w| w.escape_ascii().to_string()).collect::<Vec<_>>());
        let got = match got {
            Ok(words) => words.join("|"),
            Err(error) => error.to_string(),
        };
        assert_eq!(got, want, "{line}");
    }

    #[test]
    fn as_varnish_splits() {
        check("", "");
        check("  ping  ", "ping");
        check("param.set a \"b c\"", "param.set|a|b c");
        check(r#"a "\n\r\t\"\\\101\x42" \x43"#, r#"a|\n\r\t\"\\AB|C"#);
        check(r"\0612", "12");
        check("\"\" x", "|x");
        check("\"a\"b", "a|b");
        check(r"a\q", "Invalid backslash sequence");
        check(r#""\x4""#, "Invalid backslash sequence");
        check("a\\", "Invalid backslash sequence");
        check("a\"b\"", "Invalid '\"'");
        check("\"ab", "Missing '\"'");
        check("\"a\"\"b\"", "Missing separator between arguments");
    }

    proptest! {
        #[test]
        fn quoting_comes_back(words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..6)) {
            let line = words.iter().map(|w| quote(w)).collect::<Vec<_>>().join(&b' ');
            prop_assert_eq!(split(&line).unwrap(), words);
        }

        #[test]
        fn any_bytes_are_split_or_refused(line in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = split(&line);
        }

        #[test]
        fn any_hard_line_is_split_or_refused(line in "[ab \"\\\\x0-9nt]{0,20}") {
            let _ = split(line.as_bytes());
        }
    }
}

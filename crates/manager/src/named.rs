// SPDX-License-Identifier: BSD-2-Clause
//! Arguments of the form `[name=]word[,word...]`, as -a and -s take them.

use crate::fatal::{Fatal, argument};

#[derive(Debug, PartialEq, Eq)]
pub struct NamedArg {
    /// Before the `=`, if given.
    pub name: Option<String>,
    /// Words separated by commas; never empty, but a word may be.
    pub words: Vec<String>,
}

/// Splits an argument; `what` (`-a`, `-s`) appears in messages.
pub fn parse(spec: &str, what: &str) -> Result<NamedArg, Fatal> {
    let eq = spec.find('=').filter(|&eq| spec.find(',').is_none_or(|comma| eq < comma));
    let Some(eq) = eq else {
        return Ok(NamedArg { name: None, words: words(spec) });
    };
    let (name, rest) = (&spec[..eq], &spec[eq + 1..]);
    if !is_vcl_name(name) {
        return argument(format!("invalid {what} name \"{name}\"=[...]"));
    }
    if rest.is_empty() {
        return argument(format!("Empty named {what} argument \"{spec}\""));
    }
    Ok(NamedArg { name: Some(name.into()), words: words(rest) })
}

/// Splits at commas, dropping blanks around words.
pub fn words(text: &str) -> Vec<String> {
    text.split(',').map(|word| word.trim().to_string()).collect()
}

/// VCL's rule for names: a letter, then letters, digits, `_`, `-`.
pub fn is_vcl_name(name: &str) -> bool {
    bad_name_byte(name).is_none() && !name.is_empty()
}

/// The first byte that may not stand in a VCL name (None also for an empty name).
pub fn bad_name_byte(name: &str) -> Option<u8> {
    let bytes = name.as_bytes();
    if let Some(&first) = bytes.first()
        && !first.is_ascii_alphabetic()
    {
        return Some(first);
    }
    bytes.iter().copied().find(|b| !(b.is_ascii_alphanumeric() || *b == b'_' || *b == b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_before_the_first_comma() {
        assert_eq!(
            parse("http=:80,HTTP", "-a").unwrap(),
            NamedArg { name: Some("http".into()), words: words(":80,HTTP") }
        );
        assert_eq!(parse("/s.sock,user=u", "-a").unwrap().name, None);
        assert_eq!(parse("///=default", "-s").unwrap_err(), Fatal::Argument("invalid -s name \"///\"=[...]".into()));
        assert_eq!(parse("foo=", "-s").unwrap_err(), Fatal::Argument("Empty named -s argument \"foo=\"".into()));
    }
}

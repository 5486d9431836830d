// SPDX-License-Identifier: BSD-2-Clause
//! vmod_accept(3) of varnish-modules: one word of a few for a field in Accept's form, as strict and as simple as the original.

use parking_lot::RwLock;
use vrt::vmod::{CallResult, STRING, VOID, VmodCall, give};
use vrt::{Text, VclFailure};

vrt::vmod! {
    /// Normalises Accept and similar headers to one of a few words
    pub(crate) static VMOD = accept;

    /// The words that a site supports, and a fallback
    object rule(fallback: STRING) -> Rule = new, methods {
        /// Adds a word
        fn add(string: STRING) -> VOID = rule_add;

        /// Removes a word
        fn remove(string: STRING) -> VOID = remove;

        /// Returns the word with the highest q in the header, as it was added; the fallback if it has none of them or is
        /// malformed. Words are compared as a whole, ignoring case
        fn filter(_: STRING) -> STRING, local = filter;
    }
}

fn new(_: &mut VmodCall<'_>, _: &str, fallback: &[u8]) -> Result<Rule, VclFailure> {
    let fallback = Text::copy(fallback);
    Ok(Rule { fallback, words: RwLock::default() })
}

fn rule_add(this: &Rule, _: &mut VmodCall<'_>, string: &[u8]) -> CallResult<VOID> {
    this.add(string);
    give(())
}

fn remove(this: &Rule, _: &mut VmodCall<'_>, word: &[u8]) -> CallResult<VOID> {
    this.words.write().retain(|known| !known.eq_ignore_ascii_case(word));
    give(())
}

fn filter(rule: &Rule, _: &mut VmodCall<'_>, text: Option<&Text>) -> CallResult<STRING> {
    let words = rule.words.read();
    let found = text.and_then(|field| choose(field, &words));
    give(Some(found.unwrap_or(&rule.fallback).clone()))
}

struct Rule {
    fallback: Text,
    words: RwLock<Vec<Text>>,
}

impl Rule {
    fn add(&self, word: &[u8]) {
        let mut words = self.words.write();
        if !words.iter().any(|known| known.eq_ignore_ascii_case(word)) {
            words.push(Text::copy(word));
        }
    }
}

/// The word of the highest weight above 0, the first of those; none when the field is malformed anywhere.
fn choose<'a>(field: &[u8], words: &'a [Text]) -> Option<&'a Text> {
    let mut rest = Rest(field);
    let (mut best, mut chosen) = (0.0, None);
    loop {
        rest.space();
        if rest.0.is_empty() {
            return chosen;
        }
        let name = rest.token()?;
        let weight = rest.weight()?;
        if weight > best
            && let Some(word) = words.iter().find(|word| word.eq_ignore_ascii_case(name))
        {
            (best, chosen) = (weight, Some(word));
        }
        if !rest.0.is_empty() && !rest.skip(b',') {
            return None;
        }
    }
}

/// Blanks of C's isspace.
fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ')
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn space(&mut self) {
        let at = self.0.iter().position(|c| !is_space(*c)).unwrap_or(self.0.len());
        self.0 = &self.0[at..];
    }

    fn skip(&mut self, byte: u8) -> bool {
        let Some(rest) = self.0.strip_prefix(&[byte]) else { return false };
        self.0 = rest;
        true
    }

    fn token(&mut self) -> Option<&'a [u8]> {
        let separates = |c: &u8| matches!(c, b',' | b';' | b'=') || is_space(*c);
        let end = self.0.iter().position(separates).unwrap_or(self.0.len());
        let (token, rest) = self.0.split_at_checked(end).filter(|(token, _)| !token.is_empty())?;
        self.0 = rest;
        Some(token)
    }

    /// Parameters up to the next comma; the weight, when `q` is the first of them.
    fn weight(&mut self) -> Option<f64> {
        let (mut weight, mut first) = (1.0, true);
        self.space();
        while self.skip(b';') {
            self.space();
            let name = self.token()?;
            if !self.skip(b'=') {
                return None;
            }
            if first && name == b"q" {
                weight = self.number()?;
            } else {
                self.token()?;
            }
            first = false;
            self.space();
        }
        Some(weight)
    }

    /// A number from 0 to 1 as C reads it, that begins with 0 or 1: `00.5`, `0.`, `1e-1`.
    fn number(&mut self) -> Option<f64> {
        self.0.first().filter(|c| matches!(c, b'0' | b'1'))?;
        let digits = |from: usize| from + self.0[from..].iter().take_while(|c| c.is_ascii_digit()).count();
        let mut end = digits(0);
        if self.0.get(end) == Some(&b'.') {
            end = digits(end + 1);
        }
        let has_digits = self.0[..end].iter().any(|c| matches!(c, b'1'..=b'9'));
        if matches!(self.0.get(end), Some(b'e' | b'E')) {
            let begin = end + 1 + usize::from(matches!(self.0.get(end + 1), Some(b'+' | b'-')));
            if self.0.get(begin).is_some_and(u8::is_ascii_digit) {
                end = digits(begin);
            }
        }
        let (number, rest) = self.0.split_at(end);
        self.0 = rest;
        let number: f64 = std::str::from_utf8(number).ok()?.parse().ok()?;
        // One that is too small is out of range as well.
        (number <= 1.0 && (number.is_normal() || !has_digits)).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(field: &str) -> &'static str {
        let words = ["bar", "baz", "Qux-x"].map(|word| Text::copy(word.as_bytes()));
        let found = choose(field.as_bytes(), &words).map_or(&b"foo"[..], |word| word.as_bytes());
        ["foo", "bar", "baz", "Qux-x"].into_iter().find(|word| word.as_bytes() == found).expect("one of the words")
    }

    /// The expected texts are those of varnish-modules 0.20.
    #[test]
    fn fields_of_all_forms() {
        for (field, word) in [
            ("", "foo"),
            ("bar,,baz", "foo"),
            ("bar baz", "foo"),
            ("bar;", "foo"),
            ("bar;q", "foo"),
            ("bar;q=1.0000,baz", "bar"),
            ("bar;q=1.5", "foo"),
            ("bar;q=.5", "foo"),
            ("bar;q=0.0001", "bar"),
            ("bar;Q=0.1,baz;q=0.2", "bar"),
            ("bar;q=1;q=0.1,baz;q=0.5", "bar"),
            ("bar; q=0.3 ,baz", "baz"),
            ("bar;x=\"a b\",baz", "foo"),
            ("(,bar", "bar"),
            ("bar;q=0.2;q=0.7\"01", "bar"),
            ("bar;q=00.5", "bar"),
            ("bar;q=0.,baz;q=0", "foo"),
            ("bar;q=5e-1,baz", "foo"),
            ("bar;q=0.5e0,baz;q=1e-1", "bar"),
            ("bar;q=1e-1x", "foo"),
            ("bar;q=1e", "foo"),
            ("bar;q=1e1", "foo"),
            ("bar;q=1e-400", "foo"),
            ("bar;q=0e400,baz;q=0e-400", "foo"),
            ("baz;q=0.1,bar;q=0x1", "foo"),
            ("baz;q=0.1,\u{b}bar\n; q=1", "bar"),
            ("qux-X", "Qux-x"),
            ("qux-x,=", "foo"),
        ] {
            assert_eq!(of(field), word, "{field}");
        }
    }

    proptest! {
        #[test]
        fn any_field_chooses_a_word_or_none(field in "(bar|baz|[;,= \t]|q=|0\\.[0-9]{0,3}|1\\.0|\\PC){0,12}") {
            of(&field);
        }

        #[test]
        fn the_word_of_the_highest_weight(weights in proptest::collection::vec(0u32..1000, 3)) {
            let names = ["bar", "baz", "qux-X"];
            let field: Vec<String> = names.iter().zip(&weights).map(|(name, weight)| format!("{name};q=0.{weight:03}")).collect();
            let most = *weights.iter().max().expect("three");
            let first = weights.iter().position(|weight| *weight == most).expect("it is one of them");
            prop_assert_eq!(of(&field.join(", ")), if most == 0 { "foo" } else { ["bar", "baz", "Qux-x"][first] });
        }
    }
}

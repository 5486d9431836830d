// SPDX-License-Identifier: BSD-2-Clause
//! Structured fields (RFC 9651) as far as they are read here: dictionaries whose members are integers, booleans, bytes, inner lists of
//! strings or something else, and lists of strings. What doesn't parse to its last byte is no field at all (RFC 9651 4.2).

/// An item, without its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FieldItem {
    Integer(i64),
    Boolean(bool),
    String(Vec<u8>),
    Token(Vec<u8>),
    Strings(Vec<Vec<u8>>),
    Bytes(Vec<u8>),
    /// A decimal, a date, another inner list, a display string: nothing that a directive means.
    Other,
}

/// A dictionary; of members with the same key the last counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dictionary(Vec<(Vec<u8>, FieldItem)>);

/// Most members of a list or dictionary that are read; a field with more is refused.
const MAX_MEMBERS: usize = 1024;

impl Dictionary {
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut members = Vec::<(Vec<u8>, FieldItem)>::new();
        let mut input = Input { rest: text };
        input.members(|input| {
            let key = input.key()?;
            let item = if input.eat(b'=') { input.item_or_inner_list()? } else { FieldItem::Boolean(true) };
            input.parameters()?;
            match members.iter_mut().find(|(known, _)| *known == key) {
                Some((_, old)) => *old = item,
                None => members.push((key, item)),
            }
            Some(())
        })?;
        Some(Dictionary(members))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Members in the order in which their keys first appeared.
    pub fn members(&self) -> impl Iterator<Item = (&[u8], &FieldItem)> {
        self.0.iter().map(|(key, item)| (&key[..], item))
    }
}

/// The strings of a list; `None` when it doesn't parse. Members that are no strings are left out.
pub(crate) fn strings(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut strings = Vec::new();
    Input { rest: text }.members(|input| {
        let item = input.item_or_inner_list()?;
        input.parameters()?;
        if let FieldItem::String(string) = item {
            strings.push(string);
        }
        Some(())
    })?;
    Some(strings)
}

/// The item that a field is, without its parameters; `None` when it doesn't parse.
pub(crate) fn item(text: &[u8]) -> Option<FieldItem> {
    let mut input = Input { rest: text };
    input.blanks(false);
    let item = input.item()?;
    input.parameters()?;
    input.blanks(false);
    input.rest.is_empty().then_some(item)
}

struct Input<'a> {
    rest: &'a [u8],
}

impl Input<'_> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn eat(&mut self, c: u8) -> bool {
        let is_there = self.peek() == Some(c);
        if is_there {
            self.rest = &self.rest[1..];
        }
        is_there
    }

    fn take_while(&mut self, is_ours: impl Fn(u8) -> bool) -> &[u8] {
        let len = self.rest.iter().position(|&c| !is_ours(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }

    fn blanks(&mut self, tabs: bool) {
        self.take_while(|c| c == b' ' || (tabs && c == b'\t'));
    }

    /// Members between commas, up to the end of the field.
    fn members(&mut self, mut member: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.blanks(false);
        for _ in 0..MAX_MEMBERS {
            if self.rest.is_empty() {
                return Some(());
            }
            member(self)?;
            self.blanks(true);
            if self.rest.is_empty() {
                return Some(());
            }
            if !self.eat(b',') {
                return None;
            }
            self.blanks(true);
            if self.rest.is_empty() {
                // A comma at the end.
                return None;
            }
        }
        None
    }

    fn key(&mut self) -> Option<Vec<u8>> {
        let first = self.peek()?;
        let is_start = first.is_ascii_lowercase() || first == b'*';
        let of_key = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'_' | b'-' | b'.' | b'*');
        is_start.then(|| self.take_while(of_key).to_vec())
    }

    fn parameters(&mut self) -> Option<()> {
        while self.eat(b';') {
            self.blanks(false);
            self.key()?;
            if self.eat(b'=') {
                self.item()?;
            }
        }
        Some(())
    }

    fn item_or_inner_list(&mut self) -> Option<FieldItem> {
        if !self.eat(b'(') {
            return self.item();
        }
        let mut strings = Some(Vec::new());
        for _ in 0..MAX_MEMBERS {
            self.blanks(false);
            if self.eat(b')') {
                return Some(strings.map_or(FieldItem::Other, FieldItem::Strings));
            }
            match (self.item()?, &mut strings) {
                (FieldItem::String(text), Some(strings)) => strings.push(text),
                _ => strings = None,
            }
            self.parameters()?;
            if !matches!(self.peek(), Some(b' ' | b')')) {
                return None;
            }
        }
        None
    }

    fn item(&mut self) -> Option<FieldItem> {
        match self.peek()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'?' => {
                self.eat(b'?');
                let is_true = self.eat(b'1');
                (is_true || self.eat(b'0')).then_some(FieldItem::Boolean(is_true))
            }
            b':' => self.bytes(),
            b'@' => {
                self.eat(b'@');
                matches!(self.number()?, FieldItem::Integer(_)).then_some(FieldItem::Other)
            }
            b'%' => {
                self.eat(b'%');
                let begins = self.eat(b'"');
                self.take_while(|c| c != b'"' && (b' '..=b'~').contains(&c));
                (begins && self.eat(b'"')).then_some(FieldItem::Other)
            }
            c if c.is_ascii_alphabetic() || c == b'*' => {
                let token = self.take_while(|next| crate::chars::is_tchar(next) || matches!(next, b':' | b'/'));
                Some(FieldItem::Token(token.to_vec()))
            }
            _ => None,
        }
    }

    /// Base64, with or without padding (RFC 9651 4.2.7).
    fn bytes(&mut self) -> Option<FieldItem> {
        self.eat(b':');
        let bytes = base::base64::decode(self.take_while(|c| c != b':'))?;
        self.eat(b':').then_some(FieldItem::Bytes(bytes))
    }

    /// At most 15 digits, or 12 and 3 behind a point (RFC 9651 4.2.4).
    fn number(&mut self) -> Option<FieldItem> {
        let is_negative = self.eat(b'-');
        let digits = self.take_while(|c| c.is_ascii_digit());
        if digits.is_empty() || digits.len() > 15 {
            return None;
        }
        let (value, len) = (digits.iter().fold(0, |sum, c| sum * 10 + i64::from(c - b'0')), digits.len());
        if !self.eat(b'.') {
            return Some(FieldItem::Integer(if is_negative { -value } else { value }));
        }
        let decimals = self.take_while(|c| c.is_ascii_digit()).len();
        (len <= 12 && (1..=3).contains(&decimals)).then_some(FieldItem::Other)
    }

    fn string(&mut self) -> Option<FieldItem> {
        self.eat(b'"');
        let mut text = Vec::new();
        loop {
            let (&c, rest) = self.rest.split_first()?;
            self.rest = rest;
            match c {
                b'"' => return Some(FieldItem::String(text)),
                b'\\' => {
                    let (&escaped, behind) = self.rest.split_first()?;
                    self.rest = behind;
                    matches!(escaped, b'"' | b'\\').then(|| text.push(escaped))?;
                }
                b' '..=b'~' => text.push(c),
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, want: Option<&[(&str, FieldItem)]>) {
        let want = want.map(|all| Dictionary(all.iter().map(|(k, v)| (k.as_bytes().to_vec(), v.clone())).collect()));
        assert_eq!(Dictionary::parse(text.as_bytes()), want, "{text}");
    }

    #[test]
    fn dictionaries_of_directives() {
        check("", Some(&[]));
        check(
            "max-age=60, no-store",
            Some(&[("max-age", FieldItem::Integer(60)), ("no-store", FieldItem::Boolean(true))]),
        );
        check("a=1;x=\"y\";z , a=2", Some(&[("a", FieldItem::Integer(2))]));
        check(
            "a=?0,b=-7,c=1.5",
            Some(&[("a", FieldItem::Boolean(false)), ("b", FieldItem::Integer(-7)), ("c", FieldItem::Other)]),
        );
        check(
            "a=(1 \"x\" y);q, b=tok/en",
            Some(&[("a", FieldItem::Other), ("b", FieldItem::Token(b"tok/en".to_vec()))]),
        );
        check("a=\"1\\\"0\"", Some(&[("a", FieldItem::String(b"1\"0".to_vec()))]));
        check(
            "a=:aGk=:, b=@1659578233, c=%\"x%c3%bc\"",
            Some(&[("a", FieldItem::Bytes(b"hi".to_vec())), ("b", FieldItem::Other), ("c", FieldItem::Other)]),
        );
    }

    #[test]
    fn what_is_no_dictionary() {
        for text in [
            "max-age =1",
            "max-age= 1",
            "Max-Age=1",
            "a,",
            "a,,b",
            "a=1 b",
            "&&",
            "a=",
            "a=\"x",
            "a=(1",
            "a=1.",
            "a=1234567890123456",
            "a=?2",
            "a=(1)(2)",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn lists_of_strings() {
        assert_eq!(strings(b"\"a\", \"b c\";x, tok, 5"), Some(vec![b"a".to_vec(), b"b c".to_vec()]));
        assert_eq!(strings(b"\"a\" \"b\""), None);
        let many = vec!["\"x\""; MAX_MEMBERS + 1].join(",");
        assert_eq!(strings(many.as_bytes()), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(text in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = (Dictionary::parse(&text), strings(&text));
        }

        #[test]
        fn near_misses_are_read_or_refused(text in "([a-c]|=|,| |;|\"|\\\\|[0-9]|\\(|\\)|\\?|:|@|%|-|\\.){0,20}") {
            let _ = (Dictionary::parse(text.as_bytes()), strings(text.as_bytes()));
        }
    }
}

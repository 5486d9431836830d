// SPDX-License-Identifier: BSD-2-Clause
//! Structured fields (RFC 9651): dictionaries, lists and items with their parameters, read and written. What doesn't parse to its last
//! byte is no field at all (RFC 9651 4.2).

mod write;

pub(crate) use write::write_list;

/// A value. An inner list is a value, too; its members never are lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FieldItem {
    Integer(i64),
    Decimal { thousandths: i64 },
    Boolean(bool),
    String(Vec<u8>),
    Token(Vec<u8>),
    Bytes(Vec<u8>),
    Date(i64),
    Display(String),
    List(Vec<FieldMember>),
}

pub(crate) type Parameters = Vec<(Vec<u8>, FieldItem)>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldMember {
    pub item: FieldItem,
    pub parameters: Parameters,
}

/// A dictionary; of members with the same key the last counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dictionary(Vec<(Vec<u8>, FieldMember)>);

/// Most members of a list or dictionary that are read; a field with more is refused.
const MAX_MEMBERS: usize = 1024;
const MAX_PARAMETERS: usize = 256;

impl FieldItem {
    pub fn string(&self) -> Option<&[u8]> {
        let FieldItem::String(text) = self else { return None };
        Some(text)
    }

    /// The members of an inner list in which all are strings.
    pub fn strings(&self) -> Option<Vec<Vec<u8>>> {
        let FieldItem::List(members) = self else { return None };
        members.iter().map(|member| member.item.string().map(<[u8]>::to_vec)).collect()
    }
}

impl Dictionary {
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut members = Vec::new();
        Input { rest: text }.members(|input| {
            let key = input.key()?;
            let item = if input.eat(b'=') { input.item_or_inner_list()? } else { FieldItem::Boolean(true) };
            members.push((key, FieldMember { item, parameters: input.parameters()? }));
            Some(())
        })?;
        Some(Dictionary(last_values(members)))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Members in the order in which their keys first appeared.
    pub fn members(&self) -> impl Iterator<Item = (&[u8], &FieldItem)> {
        self.0.iter().map(|(key, member)| (&key[..], &member.item))
    }

    pub fn with_parameters(&self) -> impl Iterator<Item = (&[u8], &FieldMember)> {
        self.0.iter().map(|(key, member)| (&key[..], member))
    }

    pub fn get(&self, key: &[u8]) -> Option<&FieldMember> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, member)| member)
    }
}

/// Leaves each key once, in its first place and with its last value.
fn last_values<T>(mut all: Vec<(Vec<u8>, T)>) -> Vec<(Vec<u8>, T)> {
    if all.len() < 2 {
        return all;
    }
    let mut by_key: Vec<usize> = (0..all.len()).collect();
    by_key.sort_by(|&one, &other| all[one].0.cmp(&all[other].0));
    let of_a_key = by_key.chunk_by(|&one, &other| all[one].0 == all[other].0);
    let spans: Vec<(usize, usize)> = of_a_key.map(|places| (places[0], places[places.len() - 1])).collect();
    if spans.len() == all.len() {
        return all;
    }
    let mut is_first = vec![false; all.len()];
    for (first, last) in spans {
        is_first[first] = true;
        all.swap(first, last);
    }
    let mut is_first = is_first.into_iter();
    all.retain(|_| is_first.next().expect("one for each"));
    all
}

pub(crate) fn list(text: &[u8]) -> Option<Vec<FieldMember>> {
    let mut members = Vec::new();
    Input { rest: text }.members(|input| {
        members.push(input.member()?);
        Some(())
    })?;
    Some(members)
}

/// The strings of a list; `None` when it doesn't parse. Members that are no strings are left out.
pub(crate) fn strings(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    Some(list(text)?.iter().filter_map(|member| member.item.string().map(<[u8]>::to_vec)).collect())
}

/// The item that a field is; `None` when it doesn't parse.
pub(crate) fn item(text: &[u8]) -> Option<FieldMember> {
    let mut input = Input { rest: text };
    input.blanks(false);
    let item = FieldMember { item: input.item()?, parameters: input.parameters()? };
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

    fn parameters(&mut self) -> Option<Parameters> {
        let mut all = Vec::new();
        while self.eat(b';') {
            self.blanks(false);
            let key = self.key()?;
            let value = if self.eat(b'=') { self.item()? } else { FieldItem::Boolean(true) };
            all.push((key, value));
            if all.len() > MAX_PARAMETERS {
                return None;
            }
        }
        Some(last_values(all))
    }

    fn member(&mut self) -> Option<FieldMember> {
        Some(FieldMember { item: self.item_or_inner_list()?, parameters: self.parameters()? })
    }

    fn item_or_inner_list(&mut self) -> Option<FieldItem> {
        if !self.eat(b'(') {
            return self.item();
        }
        let mut members = Vec::new();
        for _ in 0..MAX_MEMBERS {
            self.blanks(false);
            if self.eat(b')') {
                return Some(FieldItem::List(members));
            }
            members.push(FieldMember { item: self.item()?, parameters: self.parameters()? });
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
                let FieldItem::Integer(seconds) = self.number()? else { return None };
                Some(FieldItem::Date(seconds))
            }
            b'%' => self.display(),
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
        let decimals = self.take_while(|c| c.is_ascii_digit());
        if len > 12 || !(1..=3).contains(&decimals.len()) {
            return None;
        }
        let thousandths = (0..3).fold(value, |sum, at| sum * 10 + decimals.get(at).map_or(0, |c| i64::from(c - b'0')));
        Some(FieldItem::Decimal { thousandths: if is_negative { -thousandths } else { thousandths } })
    }

    /// UTF-8 with escapes in lower-case hex (RFC 9651 4.2.10).
    fn display(&mut self) -> Option<FieldItem> {
        self.eat(b'%');
        if !self.eat(b'"') {
            return None;
        }
        let mut text = Vec::new();
        loop {
            let (&c, rest) = self.rest.split_first()?;
            self.rest = rest;
            match c {
                b'"' => return String::from_utf8(text).ok().map(FieldItem::Display),
                b'%' => {
                    let (digits, behind) = self.rest.split_at_checked(2)?;
                    self.rest = behind;
                    let is_lower = !digits.iter().any(u8::is_ascii_uppercase);
                    text.extend(base::hex::decode(digits).filter(|_| is_lower)?);
                }
                b' '..=b'~' => text.push(c),
                _ => return None,
            }
        }
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
mod tests;

#[cfg(test)]
mod vectors;

// SPDX-License-Identifier: BSD-2-Clause
//! Heads of requests and responses in a transaction's records.

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RequestLine<'a> {
    pub method: Option<&'a [u8]>,
    pub url: Option<&'a [u8]>,
    pub protocol: Option<&'a [u8]>,
    pub host: Option<&'a [u8]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatusLine<'a> {
    pub protocol: Option<&'a [u8]>,
    pub status: Option<&'a [u8]>,
    pub reason: Option<&'a [u8]>,
}

impl StatusLine<'_> {
    /// The status. 0 for a pipe or an abandoned request.
    pub fn status(&self) -> u16 {
        self.status.and_then(super::number).unwrap_or(0)
    }
}

/// Header lines that are in force after a number of records: name and value, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HeaderLines<'a>(Vec<(&'a [u8], &'a [u8])>);

impl<'a> HeaderLines<'a> {
    /// Adds a line, `Name: value`.
    pub fn add(&mut self, text: &'a [u8]) {
        self.0.extend(split(text));
    }

    /// Removes a line. Each removed line has its own record, so that one of two equal lines stays.
    pub fn remove(&mut self, text: &[u8]) {
        let is_it = |(name, value): (&[u8], &[u8])| {
            self.0.iter().position(|(n, v)| n.eq_ignore_ascii_case(name) && *v == value)
        };
        if let Some(at) = split(text).and_then(is_it) {
            self.0.remove(at);
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + '_ {
        self.0.iter().copied()
    }

    /// Values of all lines with this name, in any case.
    pub fn all<'b>(&'b self, name: &'b str) -> impl Iterator<Item = &'a [u8]> + 'b {
        let is_named = move |(n, value): (&[u8], &'a [u8])| n.eq_ignore_ascii_case(name.as_bytes()).then_some(value);
        self.iter().filter_map(is_named)
    }

    pub fn first(&self, name: &str) -> Option<&'a [u8]> {
        self.all(name).next()
    }
}

fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = text.iter().position(|b| *b == b':')?;
    Some((&text[..colon], text[colon + 1..].trim_ascii()))
}

// SPDX-License-Identifier: BSD-2-Clause
//! `regsub` and `regsuball`: after a match the search goes on at its end, and from then on matches of no bytes don't
//! count.

use std::ops::Range;

use super::backtrack::Groups;
use super::{MatchError, Regex};

enum Piece<'a> {
    Text(&'a [u8]),
    Group(usize),
}

/// Calls `found` with the groups of each match until it says that it wants no more.
pub(super) fn each(
    regex: &Regex,
    subject: &[u8],
    captures: bool,
    mut found: impl FnMut(&[Option<Range<usize>>]) -> bool,
) -> Result<(), MatchError> {
    let mut groups = Groups::new();
    let mut is_found = regex.search(subject, 0, false, captures, &mut groups)?;
    let mut done = 0;
    while is_found && let Some(Some(whole)) = groups.first().cloned() {
        done = whole.end.max(done);
        is_found = found(&groups) && regex.search(subject, done, true, captures, &mut groups)?;
    }
    Ok(())
}

pub(super) fn expand(with: &[u8], subject: &[u8], groups: &[Option<Range<usize>>], out: &mut Vec<u8>) {
    for piece in pieces(with) {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text),
            Piece::Group(number) => {
                if let Some(Some(range)) = groups.get(number) {
                    out.extend_from_slice(&subject[range.clone()]);
                }
            }
        }
    }
}

/// A `regsub` or `regsuball` under way: a long subject is worked on a few matches at a time.
#[derive(Debug)]
pub struct Substitution {
    /// Up to here the subject is done.
    done: usize,
    matches: usize,
    /// True if the replacement names a group.
    captures: bool,
}

impl Substitution {
    /// Nothing done yet; `with` is what a match is replaced by.
    pub fn new(with: &[u8]) -> Self {
        let captures = pieces(with).any(|piece| matches!(piece, Piece::Group(1..)));
        Substitution { done: 0, matches: 0, captures }
    }

    /// Bytes of the subject that are done, and matches replaced.
    pub fn progress(&self) -> (usize, usize) {
        (self.done, self.matches)
    }

    /// True if each match costs more, for its groups.
    pub fn captures(&self) -> bool {
        self.captures
    }

    pub(super) fn run(
        &mut self,
        regex: &Regex,
        subject: &[u8],
        with: &[u8],
        all: bool,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, MatchError> {
        let mut groups = Groups::new();
        for _ in 0..most {
            let is_found = regex.search(subject, self.done, self.matches > 0, self.captures, &mut groups)?;
            let Some(Some(whole)) = groups.first().filter(|_| is_found) else { return Ok(self.end(subject, out)) };
            out.extend_from_slice(&subject[self.done..whole.start.max(self.done)]);
            expand(with, subject, &groups, out);
            (self.done, self.matches) = (whole.end.max(self.done), self.matches + 1);
            if !all {
                return Ok(self.end(subject, out));
            }
        }
        Ok(false)
    }

    fn end(&mut self, subject: &[u8], out: &mut Vec<u8>) -> bool {
        if self.matches > 0 {
            out.extend_from_slice(&subject[self.done..]);
        }
        self.done = subject.len();
        true
    }
}

fn pieces(with: &[u8]) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = with;
    std::iter::from_fn(move || {
        let piece = match rest {
            [] => return None,
            [b'\\', digit @ b'0'..=b'9', ..] => (Piece::Group(usize::from(digit - b'0')), 2),
            [b'\\', _, ..] => (Piece::Text(&rest[1..2]), 2),
            [b'\\'] => (Piece::Text(rest), 1),
            _ => {
                let len = memchr::memchr(b'\\', rest).unwrap_or(rest.len());
                (Piece::Text(&rest[..len]), len)
            }
        };
        rest = &rest[piece.1..];
        Some(piece.0)
    })
}

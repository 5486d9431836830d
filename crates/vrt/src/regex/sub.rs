// SPDX-License-Identifier: BSD-2-Clause
//! `regsub` and `regsuball`: after a match the search goes on at its end, and from then on matches of no bytes don't
//! count.

use std::ops::Range;

use super::backtrack::Groups;
use super::{MatchError, Regex};

/// A piece of a replacement text.
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

/// Appends a replacement text with the groups of a match in it.
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

pub(super) fn sub(
    regex: &Regex,
    subject: &[u8],
    with: &[u8],
    all: bool,
    out: &mut Vec<u8>,
) -> Result<bool, MatchError> {
    let captures = pieces(with).any(|piece| matches!(piece, Piece::Group(1..)));
    let (mut done, mut is_found) = (0, false);
    each(regex, subject, captures, |groups| {
        let Some(Some(whole)) = groups.first() else { return false };
        is_found = true;
        out.extend_from_slice(&subject[done..whole.start.max(done)]);
        expand(with, subject, groups, out);
        done = whole.end.max(done);
        all
    })?;
    if is_found {
        out.extend_from_slice(&subject[done..]);
    }
    Ok(is_found)
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

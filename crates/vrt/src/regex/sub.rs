// SPDX-License-Identifier: BSD-2-Clause
//! `regsub` and `regsuball`: after a match the search goes on at its end, and from then on matches of no bytes don't
//! count.

use super::backtrack::Groups;
use super::{MatchError, Regex};

/// A piece of a replacement text.
enum Piece<'a> {
    Text(&'a [u8]),
    Group(usize),
}

pub(super) fn sub(
    regex: &Regex,
    subject: &[u8],
    with: &[u8],
    all: bool,
    out: &mut Vec<u8>,
) -> Result<bool, MatchError> {
    let captures = pieces(with).any(|piece| matches!(piece, Piece::Group(1..)));
    let mut groups = Groups::new();
    if !regex.search(subject, 0, false, captures, &mut groups)? {
        return Ok(false);
    }
    let mut done = 0;
    while let Some(Some(whole)) = groups.first().cloned() {
        out.extend_from_slice(&subject[done..whole.start.max(done)]);
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
        done = whole.end.max(done);
        if !all || !regex.search(subject, done, true, captures, &mut groups)? {
            break;
        }
    }
    out.extend_from_slice(&subject[done..]);
    Ok(true)
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

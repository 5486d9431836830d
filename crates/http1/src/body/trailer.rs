// SPDX-License-Identifier: BSD-2-Clause
//! The trailer section of a chunked body (RFC 9112 7.1.2): checked, bounded and kept.

use message::chars::{is_tchar, is_value_char};
use message::names;

const MAX_BYTES: u32 = 8 * 1024;
/// Fields that say where a message ends or whom it is for. In a request's trailers (RFC 9110 6.5.1 forbids it) they are
/// there for a reader that takes them for the head's.
const FORBIDDEN: [&str; 3] = [names::CONTENT_LENGTH, names::TRANSFER_ENCODING, names::HOST];
/// The longest of these.
const NAME_BYTES: usize = names::TRANSFER_ENCODING.len();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    LineStart,
    Name,
    Value,
    ValueLf,
    EndLf,
    Done,
}

#[derive(Clone, Debug)]
pub(super) struct Trailers {
    bytes: u32,
    lines: Vec<u8>,
    name: [u8; NAME_BYTES],
    name_bytes: usize,
}

impl Trailers {
    pub(super) fn new() -> Self {
        Trailers { bytes: 0, lines: Vec::new(), name: [0; NAME_BYTES], name_bytes: 0 }
    }

    /// The place behind `c`; `None`: it can't stand here. Lax: LF ends a line, and all names are good.
    pub(super) fn next(&mut self, at: Position, c: u8, lax: bool) -> Option<Position> {
        self.bytes += 1;
        if self.bytes > MAX_BYTES {
            return None;
        }
        if !self.is_end(at, c) {
            self.lines.push(c);
        }
        match (at, c) {
            (Position::LineStart, b'\r') => Some(Position::EndLf),
            (Position::LineStart, b'\n') if lax => Some(Position::Done),
            (Position::EndLf, b'\n') => Some(Position::Done),
            (Position::LineStart | Position::Name, c) if is_tchar(c) => {
                self.take_name(at, c);
                Some(Position::Name)
            }
            (Position::Name, b':') if lax || !self.is_forbidden() => Some(Position::Value),
            (Position::Value, b'\r') => Some(Position::ValueLf),
            (Position::Value, b'\n') if lax => Some(Position::LineStart),
            (Position::Value, c) if is_value_char(c) => Some(Position::Value),
            (Position::ValueLf, b'\n') => Some(Position::LineStart),
            _ => None,
        }
    }

    pub(super) fn take_lines(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.lines)
    }

    /// True if the byte belongs to the empty line that ends the section.
    fn is_end(&self, at: Position, c: u8) -> bool {
        at == Position::EndLf || (at == Position::LineStart && matches!(c, b'\r' | b'\n'))
    }

    fn take_name(&mut self, at: Position, c: u8) {
        if at == Position::LineStart {
            self.name_bytes = 0;
        }
        if let Some(place) = self.name.get_mut(self.name_bytes) {
            *place = c;
        }
        self.name_bytes += 1;
    }

    fn is_forbidden(&self) -> bool {
        // One that is longer than its room is none of them.
        let Some(name) = self.name.get(..self.name_bytes) else { return false };
        FORBIDDEN.iter().any(|forbidden| name.eq_ignore_ascii_case(forbidden.as_bytes()))
    }
}

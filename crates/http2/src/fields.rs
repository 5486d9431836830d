// SPDX-License-Identifier: BSD-2-Clause
//! Between field sections of HTTP/2 or HTTP/3 and a [`message::Head`] (RFC 9113 8.2, 8.3; RFC 9114 4.2, 4.3 say the same).
//!
//! In: [`HeadBuilder`] takes one field after the other and refuses what is malformed. Out: the fields of a head in lower case, without
//! those that speak of a connection.

mod build;
mod malformed;
mod out;
mod prepared;

use message::chars::{is_blank, is_name, is_value};

pub use build::{FieldsRefusal, HeadBuilder, SectionFacts, SectionKind, SectionLimits};
pub use malformed::{FieldFault, Malformed};
pub use out::{connect_fields, request_fields, response_fields, trailer_fields};
pub use prepared::PreparedRuns;

/// True if name and value have only bytes that they may have. A colon may begin the name.
pub fn is_checked_field(name: &[u8], value: &[u8]) -> bool {
    let name = name.strip_prefix(b":").unwrap_or(name);
    !name.is_empty() && is_good_name(name) && is_good_value(value)
}

/// Token characters but upper-case letters.
static NAME: [bool; 256] = {
    let (mut table, mut c) = ([false; 256], 0);
    while c < 256 {
        let is_mark = matches!(c as u8, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~');
        table[c] = is_mark || (c as u8).is_ascii_digit() || (c as u8).is_ascii_lowercase();
        c += 1;
    }
    table
};

/// True for a token in lower case.
fn is_good_name(name: &[u8]) -> bool {
    // Without an early exit: nearly all that is asked about are good.
    name.iter().fold(true, |good, &c| good & NAME[usize::from(c)])
}

/// True if it has no control characters, and no blank at either end.
pub(crate) fn is_good_value(value: &[u8]) -> bool {
    if value.first().is_some_and(|&c| is_blank(c)) || value.last().is_some_and(|&c| is_blank(c)) {
        return false;
    }
    is_value(value)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Pseudo,
    /// Fields of a connection, of which there is none here (RFC 9113 8.2.2).
    Connection,
    Te,
    Host,
    ContentLength,
    Cookie,
    Priority,
    Other,
}

impl Class {
    #[inline]
    fn of(name: &[u8]) -> Class {
        let (known, class) = Class::candidate(name);
        if name == known {
            class
        } else if name.first() == Some(&b':') {
            Class::Pseudo
        } else {
            Class::Other
        }
    }

    /// The class of a name in any case, in a head that goes out.
    #[inline]
    fn of_any_case(name: &[u8]) -> Class {
        let (known, class) = Class::candidate(name);
        if is_name(name, known) { class } else { Class::Other }
    }

    /// The only name that it could be, and what that means.
    #[inline]
    fn candidate(name: &[u8]) -> (&'static [u8], Class) {
        match name.len() {
            2 => (b"te", Class::Te),
            4 => (b"host", Class::Host),
            6 => (b"cookie", Class::Cookie),
            7 => (b"upgrade", Class::Connection),
            8 => (b"priority", Class::Priority),
            10 if name[0] | 0x20 == b'k' => (b"keep-alive", Class::Connection),
            10 => (b"connection", Class::Connection),
            14 => (b"content-length", Class::ContentLength),
            16 => (b"proxy-connection", Class::Connection),
            17 => (b"transfer-encoding", Class::Connection),
            _ => (b"", Class::Other),
        }
    }
}

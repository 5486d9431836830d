// SPDX-License-Identifier: BSD-2-Clause
//! The grammar of chunk extensions (RFC 9112 7.1.1). They mean nothing here; one that breaks the grammar makes the body
//! doubtful, as others may see its line end elsewhere.
//!
//! ```text
//! ; Begin -> Name -> NamePad -> = Value -> Token -> Pad
//!                                    `-> Quoted <-> Escaped
//!                                             `-> Closed -> Pad        (`;` begins the next one, CR ends the line)
//! ```

use message::chars::{is_blank, is_tchar, is_value_char};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extension {
    Begin,
    Name,
    NamePad,
    Value,
    Token,
    Quoted,
    Escaped,
    Closed,
    Pad,
    /// A backend's: only quotes count.
    Lax,
    LaxQuoted,
    LaxEscaped,
}

impl Extension {
    /// Behind the semicolon that begins one.
    pub(super) fn begin(lax: bool) -> Self {
        if lax { Self::Lax } else { Self::Begin }
    }

    pub(super) fn may_end(self) -> bool {
        match self {
            Self::Name | Self::Token | Self::Closed | Self::Lax => true,
            Self::Begin
            | Self::NamePad
            | Self::Value
            | Self::Quoted
            | Self::Escaped
            | Self::Pad
            | Self::LaxQuoted
            | Self::LaxEscaped => false,
        }
    }

    /// The place behind `c`; `None`: it can't stand here.
    pub(super) fn next(self, c: u8) -> Option<Self> {
        Some(match (self, c) {
            (Self::Quoted, b'"') => Self::Closed,
            (Self::Quoted, b'\\') => Self::Escaped,
            (Self::Quoted | Self::Escaped, c) if is_value_char(c) => Self::Quoted,
            (Self::Lax, b'"') => Self::LaxQuoted,
            (Self::LaxQuoted, b'"') => Self::Lax,
            (Self::LaxQuoted, b'\\') => Self::LaxEscaped,
            (Self::LaxQuoted | Self::LaxEscaped, c) if is_value_char(c) => Self::LaxQuoted,
            (Self::Lax, c) if is_value_char(c) => Self::Lax,
            (Self::Begin | Self::Value | Self::NamePad | Self::Pad, c) if is_blank(c) => self,
            (Self::Name, c) if is_blank(c) => Self::NamePad,
            (Self::Token | Self::Closed, c) if is_blank(c) => Self::Pad,
            (Self::Begin | Self::Name, c) if is_tchar(c) => Self::Name,
            (Self::Name | Self::NamePad, b'=') => Self::Value,
            (Self::Value, b'"') => Self::Quoted,
            (Self::Value | Self::Token, c) if is_tchar(c) => Self::Token,
            (Self::Name | Self::NamePad | Self::Token | Self::Closed | Self::Pad, b';') => Self::Begin,
            _ => return None,
        })
    }
}

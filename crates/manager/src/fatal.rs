// SPDX-License-Identifier: BSD-2-Clause
//! What ends the program before it serves: a text for stderr and an exit status.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fatal {
    /// A mistake in the arguments: `Error: <text>` and a hint at the usage; exit status 2.
    Argument(String),
    /// An option letter that doesn't exist or lacks its value: this line, then the usage on stdout; exit status 2.
    Option(String),
    /// The text alone on stderr, with this status.
    Plain(i32, String),
}

pub fn argument<T>(text: impl Into<String>) -> Result<T, Fatal> {
    Err(Fatal::Argument(text.into()))
}

impl Fatal {
    pub fn status(&self) -> i32 {
        match self {
            Fatal::Argument(_) | Fatal::Option(_) => 2,
            Fatal::Plain(status, _) => *status,
        }
    }
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fatal::Argument(text) => write!(f, "Error: {text}\n(-? gives usage)"),
            Fatal::Option(text) | Fatal::Plain(_, text) => f.write_str(text),
        }
    }
}

/// An operating-system error as strerror(3) words it, without Rust's "(os error N)".
pub fn errno_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_string(),
        None => text,
    }
}

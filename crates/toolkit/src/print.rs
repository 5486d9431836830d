// SPDX-License-Identifier: BSD-2-Clause
//! Words for the user on standard output and standard error. That nobody reads them any more (a closed pipe, a terminal that
//! is gone) is no reason to panic, as std's macros do.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use base::text::printable;

pub fn out(text: impl Display) {
    let mut to = io::stdout().lock();
    let _ = write!(to, "{text}").and_then(|()| to.flush());
}

/// To standard output, as it is; whether that can be written to, so that who prints for ever knows when to end.
pub fn is_read(text: impl Display) -> bool {
    let mut to = io::stdout().lock();
    write!(to, "{text}").and_then(|()| to.flush()).is_ok()
}

/// To standard output, with words of others in it (of a server, of a log): a terminal gets none that would steer it.
pub fn foreign(text: impl Display) {
    if io::stdout().is_terminal() { out(printable(&text.to_string())) } else { out(text) }
}

/// To standard error, as `foreign`.
pub fn foreign_err(text: impl Display) {
    if io::stderr().is_terminal() { err(printable(&text.to_string())) } else { err(text) }
}

pub fn err(text: impl Display) {
    let _ = write!(io::stderr().lock(), "{text}");
}

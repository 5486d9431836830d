// SPDX-License-Identifier: BSD-2-Clause
//! What a command answers: a status and a text; the layouts that several commands share.

pub use tables::json::quote as json;

/// Status of a CLI reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// The line can't be split into words.
    Syntax = 100,
    /// No such command.
    Unknown = 101,
    /// Known but not built.
    Unimplemented = 102,
    /// Too few arguments.
    TooFew = 104,
    /// Too many arguments.
    TooMany = 105,
    /// An argument is wrong.
    Param = 106,
    /// Not without authentication.
    Auth = 107,
    /// Done.
    Ok = 200,
    /// Done, but the text was cut.
    Truncated = 201,
    /// Not now.
    Cant = 300,
    /// The worker can't be talked to.
    Comms = 400,
    /// The connection ends.
    Close = 500,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Status.
    pub status: Status,
    /// Text.
    pub text: String,
}

impl Reply {
    /// A reply.
    pub fn new(status: Status, text: impl Into<String>) -> Reply {
        Reply { status, text: text.into() }
    }

    /// Status 200.
    pub fn ok(text: impl Into<String>) -> Reply {
        Reply::new(Status::Ok, text)
    }

    /// Whether the status is 200 or 201.
    pub fn is_ok(&self) -> bool {
        matches!(self.status, Status::Ok | Status::Truncated)
    }
}

/// Lines whose cells are separated by tabs, as columns with one to three blanks between them, so that they fit 80
/// columns if they can.
pub fn table(rows: &str) -> String {
    let mut widths: Vec<usize> = Vec::new();
    let (mut columns, mut longest) = (0, 0);
    for row in rows.lines() {
        let cells = row.split('\t');
        let mut count = 0;
        for (at, cell) in cells.enumerate() {
            if widths.len() <= at {
                widths.push(0);
            }
            widths[at] = widths[at].max(cell.len());
            count = at + 1;
        }
        columns = columns.max(count);
        longest = longest.max(row.len());
    }
    let gap = (80usize.saturating_sub(longest) / columns.max(1)).clamp(1, 3);
    let mut text = String::new();
    for row in rows.lines() {
        let mut cells = row.split('\t').enumerate().peekable();
        while let Some((at, cell)) = cells.next() {
            text.push_str(cell);
            if cells.peek().is_some() {
                text.extend(std::iter::repeat_n(' ', widths[at] + gap - cell.len()));
            }
        }
        text.push('\n');
    }
    text
}

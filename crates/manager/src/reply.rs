// SPDX-License-Identifier: BSD-2-Clause
//! The layouts that several commands' replies share.

pub use tables::json::quote as json;

pub use cli::reply::{Reply, Status};
use cli::reply::{json_begin, json_end};

/// What replies here are asked besides what `cli` knows.
pub trait ReplyExt {
    /// Whether the status is 200 or 201.
    fn is_ok(&self) -> bool;
    /// Appends text.
    fn push_str(&mut self, text: &str);
}

impl ReplyExt for Reply {
    fn is_ok(&self) -> bool {
        matches!(self.status, Status::Ok | Status::Truncated)
    }
    fn push_str(&mut self, text: &str) {
        self.body.extend_from_slice(text.as_bytes());
    }
}

/// A JSON reply to `words`: `members` stand in the array after the head, each after its comma.
pub fn json_reply(words: &[Vec<u8>], now: f64, members: &str) -> Reply {
    Reply::ok(format!("{}{members}{}", json_begin(2, words, now), json_end()))
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

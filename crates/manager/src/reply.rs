// SPDX-License-Identifier: BSD-2-Clause
//! What several commands' replies share.

pub use tables::json::quote as json;

pub use cli::reply::{CliReply, CliStatus};
use cli::reply::{json_begin, json_end};

pub trait ReplyExt {
    fn is_ok(&self) -> bool;
    fn push_str(&mut self, text: &str);
}

impl ReplyExt for CliReply {
    fn is_ok(&self) -> bool {
        matches!(self.status, CliStatus::Ok | CliStatus::Truncated)
    }
    fn push_str(&mut self, text: &str) {
        self.body.extend_from_slice(text.as_bytes());
    }
}

/// A JSON reply to `words`: `members` stand in the array after the head, each after its comma.
pub fn json_reply(words: &[Vec<u8>], now: f64, members: &str) -> CliReply {
    CliReply::ok(format!("{}{members}{}", json_begin(2, words, now), json_end()))
}

// SPDX-License-Identifier: BSD-2-Clause
//! Messages whose content is forwarded as it comes: `Incremental` (RFC 10036), and two older signs of the same wish, the type of
//! event streams and nginx's `X-Accel-Buffering`.

use crate::structured::{FieldItem, item};
use crate::{Head, names};

const INCREMENTAL: &str = "Incremental";
const X_ACCEL_BUFFERING: &str = "X-Accel-Buffering";

/// The sender's wish for the content of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// No wish: what makes a body smaller may wait for more of it.
    AsUsual,
    /// Readers want each piece as soon as it comes. What needs the whole body may still wait for it.
    Prompt,
    /// The same, and what needs the whole body must refuse the message (RFC 10036 2).
    Incremental,
}

impl Forwarding {
    /// The wish of a request or a response. `Incremental: ?0` overrides the older signs.
    pub fn of(head: &Head) -> Self {
        match asks(head) {
            Some(true) => Forwarding::Incremental,
            Some(false) => Forwarding::AsUsual,
            None if is_event_stream(head) || forbids_buffering(head) => Forwarding::Prompt,
            None => Forwarding::AsUsual,
        }
    }
}

/// The value of `Incremental`. Anything but one boolean is ignored.
fn asks(head: &Head) -> Option<bool> {
    let FieldItem::Boolean(asks) = item(head.only(INCREMENTAL)?)?.item else { return None };
    Some(asks)
}

/// True if the content is a stream of server-sent events, by its type.
pub fn is_event_stream(head: &Head) -> bool {
    let kind = head.get(names::CONTENT_TYPE).and_then(|value| value.split(|c| *c == b';').next());
    kind.is_some_and(|kind| kind.trim_ascii().eq_ignore_ascii_case(b"text/event-stream"))
}

fn forbids_buffering(head: &Head) -> bool {
    head.get(X_ACCEL_BUFFERING).is_some_and(|value| value.eq_ignore_ascii_case(b"no"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[&str], want: Forwarding) {
        let mut head = Head::new();
        head.start_response(b"HTTP/1.1", 200).unwrap();
        lines.iter().for_each(|line| head.append_line(line.as_bytes()).unwrap());
        assert_eq!(Forwarding::of(&head), want, "{lines:?}");
    }

    #[test]
    fn the_field_is_one_boolean() {
        check(&["Incremental: ?1"], Forwarding::Incremental);
        check(&["incremental:  ?1;later=\"x\";y "], Forwarding::Incremental);
        check(&["Incremental: ?0"], Forwarding::AsUsual);
        for text in ["1", "?2", "true", "\"?1\"", "?1, ?1", "(?1)", "?1;", "", ":MQ==:"] {
            check(&[&format!("Incremental: {text}")], Forwarding::AsUsual);
        }
        check(&["Incremental: ?1", "Incremental: ?1"], Forwarding::AsUsual);
    }

    #[test]
    fn older_signs_count_where_the_field_says_nothing() {
        check(&["Content-Type: text/event-stream"], Forwarding::Prompt);
        check(&["Content-Type: Text/Event-Stream ; charset=utf-8"], Forwarding::Prompt);
        check(&["Content-Type: text/event-streams"], Forwarding::AsUsual);
        check(&["X-Accel-Buffering: No"], Forwarding::Prompt);
        check(&["X-Accel-Buffering: yes"], Forwarding::AsUsual);
        check(&["Content-Type: text/event-stream", "Incremental: ?0"], Forwarding::AsUsual);
        check(&["X-Accel-Buffering: no", "Incremental: ?1"], Forwarding::Incremental);
        check(&["X-Accel-Buffering: no", "Incremental: on"], Forwarding::Prompt);
        check(&[], Forwarding::AsUsual);
    }
}

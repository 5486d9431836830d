// SPDX-License-Identifier: BSD-2-Clause
//! One stream: how far each side has come (RFC 9113 5.1), and its windows.

use crate::priority::Priority;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// Both sides have said all.
    Ended,
    /// We have reset it: what the peer has sent in the meantime is to be ignored.
    ByUs,
    ByPeer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Head,
    Body,
    Ended,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    received: Side,
    sent: Side,
    pub(super) reset: Option<Closed>,
    /// The owner was told of it and hasn't released it.
    pub(super) is_held: bool,
    /// The response is complete and the client still sends a body that nobody reads: it gets no more window.
    pub(super) lingers: bool,
    /// A client's HEAD: its response has no body, whatever it says of its length.
    pub(super) is_head_request: bool,
    /// A client's extended CONNECT: what follows a success has no length, whatever that says.
    pub(super) is_tunnel: bool,
    pub(super) is_offered: bool,
    /// Key in the order of sending, while it may send.
    pub(super) ready: Option<u64>,
    pub(super) priority: Priority,
    pub(super) send_window: i64,
    pub(super) receive_window: i64,
    /// Bytes of its body that were given out and aren't consumed.
    pub(super) unread: u32,
    /// Bytes that were consumed since it was last given credit.
    pub(super) consumed: u32,
    /// Bytes of padding and the like, which count as consumed once anything else is, or nothing is left of the window.
    pub(super) padding: u32,
    /// True while it is on the list of those whose credit is due.
    pub(super) is_due: bool,
    /// Bytes of the body that Content-Length still promises.
    pub(super) length_left: Option<u64>,
    /// When it began, in the connection's seconds.
    pub(super) began: f32,
}

impl Stream {
    pub(super) fn new(id: u32, send_window: u32, receive_window: u32, now: f32) -> Stream {
        Stream {
            id,
            received: Side::Head,
            sent: Side::Head,
            reset: None,
            is_held: true,
            lingers: false,
            is_head_request: false,
            is_tunnel: false,
            is_offered: false,
            ready: None,
            priority: Priority::default(),
            send_window: i64::from(send_window),
            receive_window: i64::from(receive_window),
            unread: 0,
            consumed: 0,
            padding: 0,
            is_due: false,
            length_left: None,
            began: now,
        }
    }

    pub(super) fn received_head(&mut self) {
        self.received = Side::Body;
    }

    pub(super) fn has_received_head(&self) -> bool {
        self.received != Side::Head
    }

    pub(super) fn received_all(&mut self) {
        self.received = Side::Ended;
    }

    pub(super) fn receives(&self) -> bool {
        self.received != Side::Ended && self.reset.is_none()
    }

    pub(super) fn sent_head(&mut self) {
        self.sent = Side::Body;
    }

    pub(super) fn has_sent_head(&self) -> bool {
        self.sent != Side::Head
    }

    pub(super) fn sent_all(&mut self) {
        self.sent = Side::Ended;
    }

    pub(super) fn sends(&self) -> bool {
        self.sent != Side::Ended && self.reset.is_none()
    }

    /// Credit for the peer to be written, if it is worth a frame: once a DATA frame, as varnishd does it, and not for each piece of one. A part
    /// of the window so large as `part` is worth one inside a frame (`is_in_frame`), too.
    pub(super) fn take_credit(&mut self, part: u32, is_in_frame: bool) -> Option<u32> {
        self.is_due = false;
        let credit = self.consumed + self.padding;
        let is_shut = self.receive_window <= 0;
        if !self.receives() || self.lingers || credit == 0 || is_in_frame && credit < part && !is_shut {
            return None;
        }
        (self.consumed, self.padding) = (0, 0);
        self.receive_window += i64::from(credit);
        Some(credit)
    }

    /// Counts `data` bytes of a frame against Content-Length. False if they are too many, or too few at the `end`.
    pub(super) fn fits_length(&mut self, data: u32, end: bool) -> bool {
        let Some(left) = &mut self.length_left else { return true };
        match left.checked_sub(u64::from(data)) {
            Some(rest) => {
                *left = rest;
                !end || rest == 0
            }
            None => false,
        }
    }

    /// Data is given to the owner, in a frame that has `framing` more bytes.
    pub(super) fn gave(&mut self, data: u32, framing: u32) {
        self.unread += data;
        self.padding += framing;
    }

    /// Bytes of the `len` that the owner says it has consumed that were given to it.
    pub(super) fn consume(&mut self, len: usize) -> u32 {
        let len = (len as u64).min(u64::from(self.unread)) as u32;
        self.unread -= len;
        self.consumed += len;
        len
    }

    pub(super) fn closed(&self) -> Option<Closed> {
        let has_ended = self.received == Side::Ended && self.sent == Side::Ended;
        self.reset.or(has_ended.then_some(Closed::Ended))
    }
}

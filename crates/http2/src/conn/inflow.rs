// SPDX-License-Identifier: BSD-2-Clause
//! Flow control of what comes: the connection's window, and the streams that are owed credit.
//!
//! Unlike a stream's, the connection's window doesn't wait for anything to be consumed, so that a slow stream doesn't hold up others, until
//! too much is unread.

use super::ReceiveWindow;
use super::stream::Stream;
use crate::error::Http2Fault;
use crate::frame::DEFAULT_FRAME_SIZE;
use crate::settings::DEFAULT_WINDOW;

#[derive(Debug)]
pub(super) struct Inflow {
    window: i64,
    /// Bytes of bodies that were given out and aren't consumed.
    unread: u64,
    due: Vec<u32>,
}

impl Default for Inflow {
    fn default() -> Self {
        Inflow { window: i64::from(DEFAULT_WINDOW), unread: 0, due: Vec::new() }
    }
}

impl Inflow {
    pub(super) fn charge(&mut self, len: u32) -> Result<(), Http2Fault> {
        if i64::from(len) > self.window {
            return Err(Http2Fault::flow("More data than the connection's window has"));
        }
        self.window -= i64::from(len);
        Ok(())
    }

    pub(super) fn gave(&mut self, len: u32) {
        self.unread += u64::from(len);
    }

    /// Bytes that were given out are consumed, or nobody wants them any more.
    pub(super) fn consumed(&mut self, len: u32) {
        self.unread -= u64::from(len);
    }

    pub(super) fn owe(&mut self, stream: &mut Stream) {
        if !std::mem::replace(&mut stream.is_due, true) {
            self.due.push(stream.id);
        }
    }

    pub(super) fn take_due(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.due)
    }

    /// Opens the window, if it is worth a frame; the credit to be written. `len`: bytes of the DATA frame that is the occasion, or 0.
    pub(super) fn top_up(&mut self, windows: &ReceiveWindow, len: u32) -> Option<u32> {
        let target = i64::from(windows.low_water.min(windows.max_unread).max(DEFAULT_WINDOW));
        let room = target - self.window - self.unread as i64;
        // While it is small it grows with each frame, as varnishd's does; later it waits until it is worth a frame. Between frames it is
        // opened only if it was shut, and something is consumed.
        let is_wide = room < target / 4 && self.window >= target / 2;
        let frame = i64::from(DEFAULT_FRAME_SIZE);
        let waits = len == 0 && (self.window >= frame || room < frame);
        if room <= 0 || is_wide || waits {
            return None;
        }
        let credit = room.min(i64::from(windows.increment)).min((room / 8).max(i64::from(len.max(DEFAULT_FRAME_SIZE))));
        self.window += credit;
        Some(credit as u32)
    }

    pub(super) fn rest(&mut self) {
        if self.due.is_empty() {
            self.due = Vec::new();
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.due.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_stays_shut_while_too_much_is_unread() {
        let windows = ReceiveWindow { low_water: 1 << 20, increment: 1 << 20, max_unread: 100_000 };
        let mut inflow = Inflow::default();
        let mut got = 0;
        while inflow.charge(DEFAULT_FRAME_SIZE).is_ok() {
            inflow.gave(DEFAULT_FRAME_SIZE);
            got += DEFAULT_FRAME_SIZE;
            inflow.top_up(&windows, DEFAULT_FRAME_SIZE);
        }
        assert_eq!(got, 100_000 / DEFAULT_FRAME_SIZE * DEFAULT_FRAME_SIZE);
        assert_eq!(inflow.top_up(&windows, 0), None, "nothing is consumed");
        inflow.consumed(got);
        assert!(inflow.top_up(&windows, 0).is_some_and(|credit| credit >= DEFAULT_FRAME_SIZE));
        assert!(inflow.charge(DEFAULT_FRAME_SIZE).is_ok());
    }
}

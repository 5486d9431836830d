// SPDX-License-Identifier: BSD-2-Clause
//! Request heads (RFC 9112 3).

use message::Head;

use crate::{HeadError, Limits, Progress};

/// Parses a request head from the start of `input` into `head` (cleared first). Call again with more bytes while it says
/// [`Progress::Incomplete`]; a connection that trickles should ask [`crate::Scan`] first, which doesn't start over.
/// An absolute request target is taken apart: its authority replaces Host.
///
/// # Errors
/// See [`HeadError`]; `reaction()` says what follows.
pub fn parse_request(input: &[u8], limits: &Limits, head: &mut Head) -> Result<Progress, HeadError> {
    let _ = (input, limits, head);
    todo!()
}

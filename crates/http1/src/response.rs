// SPDX-License-Identifier: BSD-2-Clause
//! Response heads (RFC 9112 4).

use message::Head;

use crate::{HeadError, Limits, Progress};

/// Parses a response head from the start of `input` into `head` (cleared first). Interim heads (1xx) come out like others.
///
/// # Errors
/// See [`HeadError`]: the fetch fails.
pub fn parse_response(input: &[u8], limits: &Limits, head: &mut Head) -> Result<Progress, HeadError> {
    let _ = (input, limits, head);
    todo!()
}

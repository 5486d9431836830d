// SPDX-License-Identifier: BSD-2-Clause
//! Reading off a connection that a module has.

use net::{IoError, Stream};

const PIECE: usize = 16 * 1024;

/// The text for an error, as a log record has it.
pub(crate) fn error_text(error: IoError) -> String {
    match error {
        IoError::Timeout => "no answer in time".to_owned(),
        IoError::Closed => "the connection ended".to_owned(),
        IoError::Os(error) => error.to_string(),
    }
}

/// Appends what comes next; `false` at the connection's end.
///
/// # Errors
/// Why nothing can be read.
pub(crate) async fn more(stream: &Stream, input: &mut Vec<u8>) -> Result<bool, String> {
    input.reserve(PIECE);
    Ok(stream.read_buf(input, None).await.map_err(error_text)? > 0)
}

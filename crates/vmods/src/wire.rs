// SPDX-License-Identifier: BSD-2-Clause
//! Reading off a connection that a module has: shared by who asks (`client`) and who answers (`local`).

use http1::{Decoder, Step};
use net::{IoError, Stream};

/// Bytes read at once.
pub(crate) const PIECE: usize = 16 * 1024;

/// What went wrong, for a log record.
pub(crate) fn why(error: IoError) -> String {
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
    Ok(stream.read_buf(input, None).await.map_err(why)? > 0)
}

/// The next bytes of a body; `None` at its end. `input` is what was read and not used yet.
///
/// # Errors
/// `fault` and what is wrong with the body; why nothing can be read.
pub(crate) async fn next_piece(
    stream: &Stream,
    body: &mut Decoder,
    input: &mut Vec<u8>,
    fault: &str,
) -> Result<Option<Vec<u8>>, String> {
    loop {
        match body.decode(input).map_err(|why| format!("{fault}: {}", why.text()))? {
            Step::Data(range) => {
                let piece = input[range.clone()].to_vec();
                input.drain(..range.end);
                return Ok(Some(piece));
            }
            Step::End { consumed } => {
                input.drain(..consumed);
                return Ok(None);
            }
            Step::More { consumed } => {
                input.drain(..consumed);
                if !more(stream, input).await? {
                    body.end_of_input().map_err(|why| format!("{fault}: {}", why.text()))?;
                    return Ok(None);
                }
            }
        }
    }
}

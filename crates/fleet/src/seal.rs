// SPDX-License-Identifier: BSD-2-Clause
//! The checksum of an entry, its last member: `,"sum":"<16 hex digits>"}`. The disk of a log's server, or one replica, may return
//! other bytes than were written. A sealed entry is never taken for another one then, nor for one of another program.

use base::hex;

use crate::mark;

const NAME: &[u8] = br#","sum":""#;
const END: &[u8] = br#""}"#;
const DIGITS: usize = 16;
/// Bytes that a seal adds.
pub(crate) const SEAL: usize = NAME.len() + DIGITS + END.len() - 1;

/// Start of the entries that nodes write.
const START: &[u8] = br#"{"lacquer":"#;

/// Closes the text of a JSON object with its checksum.
pub(crate) fn seal(mut object: Vec<u8>) -> Vec<u8> {
    if object.pop() != Some(b'}') {
        return object;
    }
    let sum = hex::encode(&mark(&object).to_le_bytes());
    [NAME, sum.as_bytes(), END].iter().for_each(|part| object.extend_from_slice(part));
    object
}

/// Checks the checksum of bytes that have one.
pub(crate) fn is_broken(bytes: &[u8]) -> bool {
    let sealed = bytes.strip_suffix(END).and_then(|bytes| bytes.split_last_chunk::<DIGITS>());
    let Some((text, digits)) = sealed.and_then(|(text, digits)| Some((text.strip_suffix(NAME)?, digits))) else {
        return false;
    };
    hex::decode(digits).is_some_and(|sum| sum != mark(text).to_le_bytes())
}

/// True of text that isn't JSON, but begins as a node's entry.
pub(crate) fn was_one_of_ours(bytes: &[u8]) -> bool {
    bytes.starts_with(START)
}

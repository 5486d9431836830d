// SPDX-License-Identifier: BSD-2-Clause
//! The checksum of an entry, its last member: `,"sum":"<16 hex digits>"}`. The disk of a log's server, or one replica, may return
//! other bytes than were written. A sealed entry is never taken for another one then, nor for one of another program.
//!
//! Only `,"again":"<word>"` may follow, and isn't part of the checksum: nodes of versions without checksums replace that word and
//! leave the rest as it is.

use base::hex;

use crate::mark;

const NAME: &[u8] = br#","sum":""#;
const END: &[u8] = br#""}"#;
const DIGITS: usize = 16;
/// Bytes that a seal adds.
pub(crate) const SEAL: usize = NAME.len() + DIGITS + END.len() - 1;

const AGAIN: &[u8] = br#","again":""#;

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

/// Adds the word of another attempt to append a sealed entry.
pub(crate) fn seal_again(object: Vec<u8>, word: &str) -> Vec<u8> {
    let mut bytes = seal(object);
    bytes.pop();
    [AGAIN, word.as_bytes(), END].iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

/// Checks the checksum of bytes that have one.
pub(crate) fn is_broken(bytes: &[u8]) -> bool {
    let Some(text) = bytes.strip_suffix(END) else { return false };
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric();
    let word = text.iter().rev().take_while(|byte| is_word(byte)).count();
    // The text without the quote that ends the checksum.
    let before = text[..text.len() - word].strip_suffix(AGAIN).and_then(|text| text.strip_suffix(b"\""));
    let sealed = before.unwrap_or(text).split_last_chunk::<DIGITS>();
    let Some((text, digits)) = sealed.and_then(|(text, digits)| Some((text.strip_suffix(NAME)?, digits))) else {
        return false;
    };
    hex::decode(digits).is_some_and(|sum| sum != mark(text).to_le_bytes())
}

/// The damage of text that isn't JSON, if a node wrote it once; a block of a file that is lost reads as zeros.
pub(crate) fn damage(bytes: &[u8]) -> Option<&'static str> {
    let is_cut = !bytes.is_empty() && START.starts_with(bytes);
    match bytes {
        _ if bytes.contains(&0) => Some("it has a NUL"),
        _ if is_cut || bytes.starts_with(START) => Some("it begins as an entry and isn't JSON"),
        _ => None,
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Finds the ClientHello in what a client sends first, which may come in pieces and in several records (RFC 8446 5.1).

use std::borrow::Cow;

use super::HelloError;

/// Records with a ClientHello may have this many bytes in all, headers included. Browsers send less than 2 KB; those with
/// post-quantum key shares and a large ticket stay below 8 KB.
pub const MAX_RAW_BYTES: usize = 16 * 1024;

/// Most bytes that a record may carry in clear (RFC 8446 5.1).
const MAX_RECORD_BYTES: u16 = 1 << 14;
const RECORD_HEADER: usize = 5;
const MESSAGE_HEADER: usize = 4;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;

const PROXY_1: &[u8] = b"PROXY ";
const PROXY_2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Progress through the received bytes. One call more for each piece costs no more than the piece: a client that sends
/// one byte at a time doesn't have the beginning read again and again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Finder {
    /// Offset of the first record that wasn't whole the last time.
    at: usize,
    /// Bytes of handshake messages in the records before.
    found: usize,
}

impl Finder {
    /// Looks at all that came, from the first byte on: the same bytes as last time, and more. `None`: the rest isn't there yet.
    ///
    /// # Errors
    /// What came can't become a ClientHello; see [`HelloError`].
    pub fn find<'a>(&mut self, raw: &'a [u8]) -> Result<Option<Cow<'a, [u8]>>, HelloError> {
        if self.at == 0 && !begins_with_record(raw)? {
            return Ok(None);
        }
        while let Some(length) = whole_record(&raw[self.at..])? {
            self.at += RECORD_HEADER + length;
            self.found += length;
            if self.at > MAX_RAW_BYTES {
                return Err(HelloError::TooLong);
            }
            if let Some(message_bytes) = message_bytes(raw, self.found)?
                && self.found >= message_bytes
            {
                return Ok(Some(message(raw, message_bytes)));
            }
        }
        if raw.len() > MAX_RAW_BYTES { Err(HelloError::TooLong) } else { Ok(None) }
    }
}

/// True if this begins a record; `false` if too few bytes came to say.
fn begins_with_record(raw: &[u8]) -> Result<bool, HelloError> {
    let Some(&first) = raw.first() else { return Ok(false) };
    if first == HANDSHAKE {
        return Ok(true);
    }
    for proxy in [PROXY_1, PROXY_2] {
        if raw.starts_with(proxy) {
            return Err(HelloError::ProxyHeader);
        }
        if proxy.starts_with(raw) {
            return Ok(false);
        }
    }
    Err(match first {
        20..=25 => HelloError::Record(first),
        // SSL 2.0: two bytes of length, of which the first bit is set, and the type of a CLIENT-HELLO.
        0x80.. if raw.get(2) == Some(&CLIENT_HELLO) => HelloError::Ssl2,
        0x80.. if raw.len() < 3 => return Ok(false),
        _ if first.is_ascii_alphabetic() => HelloError::PlainHttp,
        _ => HelloError::NotTls,
    })
}

/// Payload length of the record that begins here, once all of it is there.
fn whole_record(raw: &[u8]) -> Result<Option<usize>, HelloError> {
    if let Some(&kind) = raw.first()
        && kind != HANDSHAKE
    {
        return Err(HelloError::Record(kind));
    }
    if raw.get(1).is_some_and(|&major| major != 3) {
        return Err(HelloError::NotTls);
    }
    let Some(&[_, _, _, high, low]) = raw.first_chunk::<RECORD_HEADER>() else { return Ok(None) };
    let length = u16::from_be_bytes([high, low]);
    match length {
        0 => Err(HelloError::EmptyRecord),
        1..=MAX_RECORD_BYTES => Ok((raw.len() >= RECORD_HEADER + usize::from(length)).then_some(length.into())),
        _ => Err(HelloError::RecordTooLong(length)),
    }
}

/// Length of the first handshake message with its header, once the whole records before `found` say so.
fn message_bytes(raw: &[u8], found: usize) -> Result<Option<usize>, HelloError> {
    let mut header = handshake_bytes(raw, found).take(MESSAGE_HEADER).copied();
    if let Some(kind) = header.next()
        && kind != CLIENT_HELLO
    {
        return Err(HelloError::Message(kind));
    }
    if found < MESSAGE_HEADER {
        return Ok(None);
    }
    let length = header.fold(0, |length, byte| length << 8 | usize::from(byte));
    if length > MAX_RAW_BYTES { Err(HelloError::TooLong) } else { Ok(Some(MESSAGE_HEADER + length)) }
}

/// The message's body: where it lies if it is in one record, else a copy of its pieces.
fn message(raw: &[u8], message_bytes: usize) -> Cow<'_, [u8]> {
    let in_first = RECORD_HEADER + message_bytes;
    if usize::from(u16::from_be_bytes([raw[3], raw[4]])) >= message_bytes {
        return Cow::Borrowed(&raw[RECORD_HEADER + MESSAGE_HEADER..in_first]);
    }
    Cow::Owned(handshake_bytes(raw, message_bytes).skip(MESSAGE_HEADER).copied().collect())
}

/// The first bytes of handshake messages; so many are in whole records.
fn handshake_bytes(raw: &[u8], bytes: usize) -> impl Iterator<Item = &u8> {
    let mut rest = raw;
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_be_bytes([*rest.get(3)?, *rest.get(4)?]));
        let record = rest.get(RECORD_HEADER..RECORD_HEADER + length)?;
        rest = &rest[RECORD_HEADER + length..];
        Some(record)
    })
    .flatten()
    .take(bytes)
}

// SPDX-License-Identifier: BSD-2-Clause
//! Records as they travel (RFC 8446 5.1): a type, a version that says nothing any more, a length, and so many bytes.

use crate::{ErrorKind, TlsError};

pub const HEADER: usize = 5;

pub const MAX_PLAINTEXT: usize = 1 << 14;

/// Most that a record may carry beside its plaintext: what RFC 5246 6.2.3 allows, RFC 8446 5.2 is stricter.
const MAX_EXPANSION: usize = 2048;

pub const MAX_RECORD: usize = HEADER + MAX_PLAINTEXT + MAX_EXPANSION;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    ChangeCipherSpec = 20,
    Alert = 21,
    Handshake = 22,
    Data = 23,
}

impl Content {
    pub(crate) fn parse(byte: u8) -> Option<Self> {
        match byte {
            20 => Some(Content::ChangeCipherSpec),
            21 => Some(Content::Alert),
            22 => Some(Content::Handshake),
            23 => Some(Content::Data),
            _ => None,
        }
    }
}

/// The length, with its header, of the record that `bytes` begin with, once it is all there.
///
/// # Errors
/// What comes is no record, as soon as that can be told, or a longer one than there may be.
pub fn whole(bytes: &[u8]) -> Result<Option<usize>, TlsError> {
    let Some(&first) = bytes.first() else { return Ok(None) };
    if Content::parse(first).is_none() {
        return Err(TlsError::new(ErrorKind::NotTls, "what came is no TLS record"));
    }
    if bytes.get(1).is_some_and(|&major| major != 3) {
        return Err(TlsError::new(ErrorKind::NotTls, "what came is no TLS record"));
    }
    let Some(&[high, low]) = bytes.get(3..HEADER) else { return Ok(None) };
    let length = HEADER + usize::from(u16::from_be_bytes([high, low]));
    if length > MAX_RECORD {
        return Err(TlsError::new(ErrorKind::Limit, "a record is longer than TLS allows"));
    }
    Ok((bytes.len() >= length).then_some(length))
}

/// A record with a fatal alert, in clear: for who can't be answered otherwise.
pub fn fatal_alert(alert: u8) -> [u8; 7] {
    const FATAL: u8 = 2;
    [Content::Alert as u8, 3, 3, 0, 2, FATAL, alert]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_whole_once_its_last_byte_is_there() {
        let record = [23, 3, 3, 0, 2, b'a', b'b', 23];
        for cut in 0..7 {
            assert_eq!(whole(&record[..cut]), Ok(None), "{cut}");
        }
        assert_eq!(whole(&record[..7]), Ok(Some(7)));
        assert_eq!(whole(&record), Ok(Some(7)));
    }

    #[test]
    fn what_is_no_record_is_known_by_its_first_bytes() {
        let kind = |bytes: &[u8]| whole(bytes).unwrap_err().kind();
        assert_eq!(kind(b"G"), ErrorKind::NotTls);
        assert_eq!(kind(&[22, 2]), ErrorKind::NotTls);
        assert_eq!(kind(&[22, 3, 1, 0x48, 1]), ErrorKind::Limit);
        assert_eq!(whole(&[22, 3, 1, 0x48, 0]), Ok(None));
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Bytes as hexadecimal digits, two a byte.

pub const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Encodes bytes in lower case.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    push(&mut text, bytes);
    text
}

/// Appends what [`encode`] gives.
pub fn push(text: &mut String, bytes: &[u8]) {
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    text.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
}

/// The bytes that digits in either case stand for. `None` for an odd number of digits, or anything else.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    text.chunks(2).map(|pair| byte(*pair.first()?, *pair.get(1)?)).collect()
}

pub fn byte(high: u8, low: u8) -> Option<u8> {
    Some(digit(high)? << 4 | digit(low)?)
}

pub fn digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// Decodes a text in which `escape` and two digits stand for a byte.
pub fn unescape(text: &[u8], escape: u8) -> Option<Vec<u8>> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let [first, more @ ..] = rest {
        let (decoded, after) = match more {
            [high, low, after @ ..] if *first == escape => (byte(*high, *low)?, after),
            _ if *first == escape => return None,
            _ => (*first, more),
        };
        out.push(decoded);
        rest = after;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_encoded_in_lower_case_and_decoded_in_either() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(encode(&bytes[..17]), "000102030405060708090a0b0c0d0e0f10");
        assert_eq!(decode(encode(&bytes).as_bytes()), Some(bytes.clone()));
        assert_eq!(decode(encode(&bytes).to_uppercase().as_bytes()), Some(bytes));
        for wrong in ["0", "0g", "+1", " 1", "0x00", "\u{fc}"] {
            assert_eq!(decode(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn escapes_stand_for_bytes() {
        assert_eq!(unescape(b"a%2fb%2F", b'%').as_deref(), Some(&b"a/b/"[..]));
        assert_eq!(unescape(b"=c3=bc%", b'=').as_deref(), Some(&b"\xc3\xbc%"[..]));
        for wrong in ["%", "%2", "%+2", "%gg"] {
            assert_eq!(unescape(wrong.as_bytes(), b'%'), None, "{wrong}");
        }
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Bytes as base64 (RFC 4648 4).

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place > group.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

/// The bytes of a text, whose padding may be missing. Bits of the last digit that make no byte don't count.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let len = text.iter().position(|c| *c == b'=').unwrap_or(text.len());
    let (digits, padding) = text.split_at(len);
    let is_padded = padding.is_empty() || (text.len().is_multiple_of(4) && padding.iter().all(|c| *c == b'='));
    if digits.len() % 4 == 1 || padding.len() > 2 || !is_padded {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.chunks(4) {
        let bits = group.iter().try_fold(0u32, |bits, digit| Some(bits << 6 | self::digit(*digit)?))?;
        let bits = bits << (6 * (4 - group.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

pub fn digit(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc() {
        let pairs =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")];
        for (plain, text) in pairs {
            assert_eq!((encode(plain.as_bytes()).as_str(), decode(text.as_bytes())), (text, Some(plain.into())));
            assert_eq!(decode(text.trim_end_matches('=').as_bytes()), Some(plain.into()), "without padding");
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(encode(&all).as_bytes()), Some(all));
        assert_eq!(decode(b"Zh=="), Some(b"f".to_vec()), "bits that make no byte");
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["Z", "Zg=", "Zg===", "Zm9v=", "Zm=v", "Zm9vY", "Zm9v Zg==", "Zm9-", "====", "=", "Zg==Zg=="] {
            assert_eq!(decode(text.as_bytes()), None, "{text}");
        }
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Converts bytes of clients and origins to readable text. Characters that could control a terminal, a page or the writing direction are
//! escaped.

/// Maximum size of the text of one record, in bytes.
const MOST: usize = 16 << 10;

/// The text. Bytes that aren't UTF-8 become `\xff`; control characters and those that change the writing
/// direction become escapes like `\u{202e}`.
pub fn shown(bytes: &[u8]) -> String {
    let (bytes, is_cut) = (&bytes[..bytes.len().min(MOST)], bytes.len() > MOST);
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_plain(c) { out.push(c) } else { out.extend(c.escape_unicode()) }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    if is_cut {
        out.push_str("...");
    }
    out
}

fn is_plain(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{61c}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hostile_bytes_are_spelled_out() {
        assert_eq!(shown("a<b>\u{202e}\x1b[1m\nü".as_bytes()), "a<b>\\u{202e}\\u{1b}[1m\\u{a}ü");
        assert_eq!(shown(b"\xff\xfe x"), "\\xff\\xfe x");
        assert_eq!(shown(&vec![b'x'; 70_000]).len(), MOST + 3);
    }

    proptest! {
        #[test]
        fn nothing_controls(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(shown(&bytes).chars().all(is_plain));
        }
    }
}

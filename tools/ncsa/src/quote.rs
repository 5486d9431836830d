// SPDX-License-Identifier: BSD-2-Clause
//! Quoting of what clients and backends sent, so that a line stays a line.

/// Appends `bytes`: quotes, backslashes and control bytes escaped; bytes above `~` too, unless it is JSON.
pub fn quote(out: &mut Vec<u8>, bytes: &[u8], json: bool) {
    for byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend([b'\\', *byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            // JSON knows no \v.
            0x0b if !json => out.extend(b"\\v"),
            b' '..=b'~' => out.push(*byte),
            0x7f.. if json => out.push(*byte),
            byte if json => out.extend(format!("\\u{byte:04x}").bytes()),
            byte => out.extend(format!("\\x{byte:02x}").bytes()),
        }
    }
}

/// Decodes base64 the way the Authorization header is read: any `=` counts as zero bits. None when it isn't base64 or
/// too long for a name.
pub fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    const LONGEST: usize = 127;
    let mut out = Vec::new();
    for four in text.chunks(4) {
        let mut bits = 0u32;
        for byte in four {
            let value = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                b'=' => 0,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
        }
        for shift in [16, 8, 0] {
            if out.len() >= LONGEST {
                return None;
            }
            out.push((bits >> shift) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting() {
        let check = |text: &[u8], json, expected: &str| {
            let mut out = Vec::new();
            quote(&mut out, text, json);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        };
        check(b"a \"b\" \\ \x01\x7f\xff\n", false, "a \\\"b\\\" \\\\ \\x01\\x7f\\xff\\n");
        check(b"a\x01\t\x7f", true, "a\\u0001\\t\x7f");
        assert_eq!(decode_base64(b"dXNlcjpwdw=="), Some(b"user:pw\0\0".to_vec()));
        assert_eq!(decode_base64(b"??"), None);
        assert_eq!(decode_base64(&[b'A'; 200]), None);
    }
}

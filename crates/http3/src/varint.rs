// SPDX-License-Identifier: BSD-2-Clause
//! Integers of one to eight bytes, whose first two bits are their length (RFC 9000 16).

pub const MAX: u64 = (1 << 62) - 1;

/// The integer at the beginning of `input` and its bytes; `None` when it isn't whole.
#[inline]
pub fn read(input: &[u8]) -> Option<(u64, usize)> {
    let &first = input.first()?;
    let len = 1usize << (first >> 6);
    let rest = input.get(1..len)?;
    let value = rest.iter().fold(u64::from(first & 0x3f), |value, &byte| value << 8 | u64::from(byte));
    Some((value, len))
}

/// Appends it in as few bytes as it takes; `value` is at most [`MAX`].
pub fn write(value: u64, out: &mut Vec<u8>) {
    debug_assert!(value <= MAX);
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 9000 A.1.
    #[test]
    fn lengths_are_in_the_first_two_bits() {
        let check = |bytes: &[u8], value| assert_eq!(read(bytes), Some((value, bytes.len())));
        check(&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652);
        check(&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333);
        check(&[0x7b, 0xbd], 15_293);
        check(&[0x25], 37);
        check(&[0x40, 0x25], 37);
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[0x7b]), None);
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read(value in 0..=MAX) {
            let mut out = Vec::new();
            write(value, &mut out);
            proptest::prop_assert_eq!(read(&out), Some((value, out.len())));
            for cut in 0..out.len() {
                proptest::prop_assert_eq!(read(&out[..cut]), None);
            }
        }
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Integers with a prefix of so many bits (RFC 7541 5.1; QPACK has the same).

/// Reasons why there is no integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntError {
    /// The input ends inside it.
    Short,
    /// Larger than anything that could be meant.
    TooLarge,
}

/// The largest integer that is read: more than any length or index can be.
pub const MAX: u64 = (1 << 32) - 1;
/// Most bytes behind the prefix: what [`MAX`] takes. More could only be zeros, which nobody needs.
const MAX_MORE: usize = 5;

/// Reads the integer at the start of `input` whose first byte has it in its last `prefix` bits (1 to 8); the value, and how many bytes
/// it took.
///
/// # Errors
/// See [`IntError`].
#[inline]
pub fn read(input: &[u8], prefix: u32) -> Result<(u64, usize), IntError> {
    debug_assert!((1..=8).contains(&prefix));
    let full = (1u64 << prefix) - 1;
    let (&first, rest) = input.split_first().ok_or(IntError::Short)?;
    let value = u64::from(first) & full;
    if value < full { Ok((value, 1)) } else { read_more(rest, full) }
}

fn read_more(rest: &[u8], full: u64) -> Result<(u64, usize), IntError> {
    let mut value = full;
    for (i, &byte) in rest.iter().take(MAX_MORE).enumerate() {
        value += u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return if value <= MAX { Ok((value, i + 2)) } else { Err(IntError::TooLarge) };
        }
    }
    Err(if rest.len() < MAX_MORE { IntError::Short } else { IntError::TooLarge })
}

/// Writes an integer; `pattern` has the bits in front of the prefix.
#[inline]
pub fn write(out: &mut Vec<u8>, pattern: u8, prefix: u32, value: u64) {
    debug_assert!((1..=8).contains(&prefix));
    let full = (1u64 << prefix) - 1;
    if value < full {
        out.push(pattern | value as u8);
        return;
    }
    out.push(pattern | full as u8);
    let mut rest = value - full;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn examples_of_the_rfc() {
        // RFC 7541 C.1
        assert_eq!(read(&[0b1110_1010], 5), Ok((10, 1)));
        assert_eq!(read(&[0b0001_1111, 0b1001_1010, 0b0000_1010], 5), Ok((1337, 3)));
        assert_eq!(read(&[42], 8), Ok((42, 1)));
    }

    #[test]
    fn what_is_too_short_or_too_large() {
        assert_eq!(read(&[], 5), Err(IntError::Short));
        assert_eq!(read(&[31, 0x80], 5), Err(IntError::Short));
        assert_eq!(read(&[31, 0x80, 0x80, 0x80, 0x80, 0x80, 0], 5), Err(IntError::TooLarge));
        assert_eq!(read(&[31, 0xff, 0xff, 0xff, 0xff, 0x7f], 5), Err(IntError::TooLarge));
        assert_eq!(read(&[0xff; 12], 8), Err(IntError::TooLarge));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(value in prop_oneof![0..600u64, 0..=MAX], prefix in 1..=8u32, behind: u8) {
            let mut out = Vec::new();
            write(&mut out, 0, prefix, value);
            let len = out.len();
            out.push(behind);
            prop_assert_eq!(read(&out, prefix), Ok((value, len)));
            for cut in 0..len {
                prop_assert_eq!(read(&out[..cut], prefix), Err(IntError::Short));
            }
        }
    }
}

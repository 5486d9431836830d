// SPDX-License-Identifier: BSD-2-Clause
//! Numbers as text without `format!`: decimal, and fixed point as `%.3f` and `%.6f` write it.

/// Two digits each, 00 to 99.
static PAIRS: [u8; 200] = {
    let mut table = [0; 200];
    let mut i = 0;
    while i < 100 {
        table[i * 2] = b'0' + (i / 10) as u8;
        table[i * 2 + 1] = b'0' + (i % 10) as u8;
        i += 1;
    }
    table
};

/// Room that any number here needs at most: sign, 20 digits, point, 6 decimals.
pub const ROOM: usize = 32;
/// Millionths or thousandths beyond this are shown as this.
const MOST: u64 = 9_000_000_000_000_000;

/// A number's text, for those who don't write into a buffer of their own.
#[derive(Clone, Copy, Debug)]
pub struct Digits {
    buf: [u8; ROOM],
    len: usize,
}

impl Digits {
    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.buf[..self.len]
    }

    fn of(write: impl FnOnce(&mut [u8; ROOM]) -> usize) -> Self {
        let mut buf = [0; ROOM];
        let len = write(&mut buf);
        Self { buf, len }
    }
}

/// `%u`
pub fn dec(n: u64) -> Digits {
    Digits::of(|buf| put_dec(buf, n))
}

/// `%.6f`; not a number shows as 0.
pub fn fixed6(x: f64) -> Digits {
    Digits::of(|buf| put_fixed6(buf, x))
}

/// `%.3f`; not a number shows as 0.
pub fn fixed3(x: f64) -> Digits {
    Digits::of(|buf| put_fixed3(buf, x))
}

/// Writes `%u`; gives its length. Right into its place: copying bytes just written costs more than making them.
#[inline]
pub fn put_dec(out: &mut [u8; ROOM], n: u64) -> usize {
    let len = n.checked_ilog10().map_or(1, |log| log as usize + 1);
    put_whole(&mut out[..len], n);
    len
}

/// Writes `%.6f`; gives its length.
#[inline]
pub fn put_fixed6(out: &mut [u8; ROOM], x: f64) -> usize {
    let scaled = scale(x, 1e6);
    let point = put_sign_and_whole(out, x, scaled / 1_000_000);
    let part = (scaled % 1_000_000) as u32;
    let decimals = &mut out[point..point + 7];
    decimals[0] = b'.';
    put_pair(&mut decimals[1..3], part / 10_000);
    put_pair(&mut decimals[3..5], part / 100 % 100);
    put_pair(&mut decimals[5..7], part % 100);
    point + 7
}

/// Writes `%.3f`; gives its length.
#[inline]
pub fn put_fixed3(out: &mut [u8; ROOM], x: f64) -> usize {
    let scaled = scale(x, 1e3);
    let point = put_sign_and_whole(out, x, scaled / 1000);
    let part = (scaled % 1000) as u32;
    let decimals = &mut out[point..point + 4];
    decimals[0] = b'.';
    decimals[1] = b'0' + (part / 100) as u8;
    put_pair(&mut decimals[2..4], part % 100);
    point + 4
}

/// Gives where the digits end.
#[inline]
fn put_sign_and_whole(out: &mut [u8; ROOM], x: f64, whole: u64) -> usize {
    let sign = usize::from(x.is_sign_negative() && !x.is_nan());
    out[0] = b'-';
    let end = sign + whole.checked_ilog10().map_or(1, |log| log as usize + 1);
    put_whole(&mut out[sign..end], whole);
    end
}

/// Fills `out`, which is as long as `n` has digits.
#[inline]
fn put_whole(out: &mut [u8], n: u64) {
    let (mut n, mut end) = (n, out.len());
    // 32-bit divisions are several times cheaper, and nearly all numbers are small.
    while n > u64::from(u32::MAX) {
        put_pair(&mut out[end - 2..end], (n % 100) as u32);
        (n, end) = (n / 100, end - 2);
    }
    let mut n = n as u32;
    while n >= 100 {
        put_pair(&mut out[end - 2..end], n % 100);
        (n, end) = (n / 100, end - 2);
    }
    if n >= 10 {
        put_pair(&mut out[end - 2..end], n);
    } else {
        out[end - 1] = b'0' + n as u8;
    }
}

#[inline]
fn put_pair(out: &mut [u8], pair: u32) {
    let pair = pair as usize * 2;
    out.copy_from_slice(&PAIRS[pair..pair + 2]);
}

/// The magnitude in units of `1 / unit`, rounded; a conversion from f64 saturates and makes not-a-number 0.
#[inline]
fn scale(x: f64, unit: f64) -> u64 {
    ((x.abs() * unit + 0.5) as u64).min(MOST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(digits: &Digits) -> &str {
        std::str::from_utf8(digits.as_bytes()).unwrap()
    }

    #[test]
    fn facts() {
        assert_eq!((text(&dec(0)), text(&dec(u64::MAX))), ("0", "18446744073709551615"));
        assert_eq!((text(&fixed6(0.0)), text(&fixed6(-0.25))), ("0.000000", "-0.250000"));
        assert_eq!(text(&fixed6(1_795_246_928.347_123)), "1795246928.347123");
        assert_eq!((text(&fixed3(120.0)), text(&fixed3(0.0006))), ("120.000", "0.001"));
        assert_eq!((text(&fixed6(f64::NAN)), text(&fixed3(f64::INFINITY))), ("0.000000", "9000000000000.000"));
        assert_eq!(text(&fixed6(-0.0)), "-0.000000", "as printf has it");
    }

    proptest! {
        #[test]
        fn like_format(n: u64, x in -1e9..2e9f64) {
            let (d, f6, f3) = (dec(n), fixed6(x), fixed3(x));
            prop_assert_eq!(text(&d), n.to_string());
            // A tie of the binary value may round either way.
            prop_assert!((text(&f6).parse::<f64>().unwrap() - x).abs() <= 0.5e-6 + x.abs() * 5e-16);
            prop_assert!((text(&f3).parse::<f64>().unwrap() - x).abs() <= 0.5e-3 + x.abs() * 5e-16);
            prop_assert_eq!(text(&f6).split_once('.').unwrap().1.len(), 6);
            prop_assert_eq!(text(&f3).split_once('.').unwrap().1.len(), 3);
        }
    }
}

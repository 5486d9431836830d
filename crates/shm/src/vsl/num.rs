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

/// Room for any number here: sign, 20 digits, point, 9 decimals.
const ROOM: usize = 32;

/// Millionths or thousandths beyond this are shown as this.
const MOST: u64 = 9_000_000_000_000_000;

/// A number's text.
#[derive(Clone, Copy, Debug)]
pub struct Digits {
    buf: [u8; ROOM],
    start: u8,
}

impl Digits {
    /// The text.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.buf[usize::from(self.start)..]
    }

    fn push_pair(&mut self, pair: usize) {
        self.start -= 2;
        let at = usize::from(self.start);
        self.buf[at..at + 2].copy_from_slice(&PAIRS[pair * 2..pair * 2 + 2]);
    }

    fn push(&mut self, byte: u8) {
        self.start -= 1;
        self.buf[usize::from(self.start)] = byte;
    }

    fn push_whole(&mut self, mut n: u64) {
        while n >= 100 {
            self.push_pair((n % 100) as usize);
            n /= 100;
        }
        if n >= 10 {
            self.push_pair(n as usize);
        } else {
            self.push(b'0' + n as u8);
        }
    }
}

/// `%u`
#[inline]
pub fn dec(n: u64) -> Digits {
    let mut out = Digits { buf: [0; ROOM], start: ROOM as u8 };
    out.push_whole(n);
    out
}

/// `%.6f`; not a number shows as 0.
#[inline]
pub fn fixed6(x: f64) -> Digits {
    let scaled = (x * 1e6).round_ties_even();
    let magnitude = (scaled.abs() as u64).min(MOST);
    let mut out = Digits { buf: [0; ROOM], start: ROOM as u8 };
    let mut part = magnitude % 1_000_000;
    for _ in 0..3 {
        out.push_pair((part % 100) as usize);
        part /= 100;
    }
    out.push(b'.');
    out.push_whole(magnitude / 1_000_000);
    if scaled.is_sign_negative() && !x.is_nan() {
        out.push(b'-');
    }
    out
}

/// `%.3f`; not a number shows as 0.
#[inline]
pub fn fixed3(x: f64) -> Digits {
    let scaled = (x * 1e3).round_ties_even();
    let magnitude = (scaled.abs() as u64).min(MOST);
    let mut out = Digits { buf: [0; ROOM], start: ROOM as u8 };
    let part = magnitude % 1000;
    out.push_pair((part % 100) as usize);
    out.push(b'0' + (part / 100) as u8);
    out.push(b'.');
    out.push_whole(magnitude / 1000);
    if scaled.is_sign_negative() && !x.is_nan() {
        out.push(b'-');
    }
    out
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

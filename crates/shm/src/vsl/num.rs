// SPDX-License-Identifier: BSD-2-Clause
//! Numbers as text without `format!`: decimal, and fixed point as `%.3f` and `%.6f` write it.

use std::cell::Cell;

/// Two digits each, 00 to 99.
static PAIRS: [[u8; 2]; 100] = {
    let mut table = [[0; 2]; 100];
    let mut i = 0;
    while i < 100 {
        table[i] = [b'0' + (i / 10) as u8, b'0' + (i % 10) as u8];
        i += 1;
    }
    table
};

/// Room that any number here needs at most: sign, 20 digits, point, 6 decimals.
pub const ROOM: usize = 32;
/// Millionths or thousandths beyond this are shown as this.
const MAX: u64 = 9_000_000_000_000_000;

/// A number's text, for those who don't write into a buffer of their own.
#[derive(Clone, Copy, Debug)]
pub struct Digits {
    buf: [u8; ROOM],
    len: usize,
}

impl Digits {
    /// The text as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.buf[..self.len]
    }

    fn from_writer(write: impl FnOnce(&mut [u8; ROOM]) -> usize) -> Self {
        let mut buf = [0; ROOM];
        let len = write(&mut buf);
        Self { buf, len }
    }
}

/// A number as `%u` writes it.
pub fn dec(n: u64) -> Digits {
    Digits::from_writer(|buf| put_dec(buf, n))
}

/// `%.6f`; not a number shows as 0.
pub fn fixed6(x: f64) -> Digits {
    Digits::from_writer(|buf| put_fixed6(buf, x))
}

/// `%.3f`; not a number shows as 0.
pub fn fixed3(x: f64) -> Digits {
    Digits::from_writer(|buf| put_fixed3(buf, x))
}

/// Writes `%u`; gives its length. Right into its place: copying bytes just written costs more than making them.
#[inline]
pub fn put_dec(out: &mut [u8; ROOM], n: u64) -> usize {
    match n {
        0..10 => {
            out[0] = b'0' + n as u8;
            1
        }
        10..100 => put_pair(out, 0, n as u32),
        100..10_000 => put_four(out, 0, n as u32),
        10_000..100_000_000 => put_eight(out, n as u32),
        _ => put_long(out, n),
    }
}

/// Writes the two digits of `n` below 100 at `at`; gives where they end.
#[inline]
fn put_pair(out: &mut [u8; ROOM], at: usize, n: u32) -> usize {
    out[at..at + 2].copy_from_slice(&pair(n));
    at + 2
}

/// Writes the three or four digits of `n` at `at`; gives where they end.
#[inline]
fn put_four(out: &mut [u8; ROOM], at: usize, n: u32) -> usize {
    let high = n / 100;
    let at = if high < 10 {
        out[at] = b'0' + high as u8;
        at + 1
    } else {
        put_pair(out, at, high)
    };
    put_pair(out, at, n % 100)
}

/// Writes the five to eight digits of `n`; gives their number.
#[inline]
fn put_eight(out: &mut [u8; ROOM], n: u32) -> usize {
    let (high, low) = (n / 10_000, n % 10_000);
    let at = match high {
        0..10 => {
            out[0] = b'0' + high as u8;
            1
        }
        10..100 => put_pair(out, 0, high),
        _ => put_four(out, 0, high),
    };
    let at = put_pair(out, at, low / 100);
    put_pair(out, at, low % 100)
}

/// Does what [`put_dec`] does for numbers that are rarely so large.
fn put_long(out: &mut [u8; ROOM], n: u64) -> usize {
    let len = n.ilog10() as usize + 1;
    put_whole(&mut out[..len], n);
    len
}

/// Writes `%.6f`; gives its length.
#[inline]
pub fn put_fixed6(out: &mut [u8; ROOM], x: f64) -> usize {
    // Most are shorter than a second: not below 0, not rounded up to 1.
    if x.to_bits() < 0.999_f64.to_bits() {
        out[0] = b'0';
        return put_micros(out, 1, (x * 1e6 + 0.5) as i32 as u32);
    }
    let scaled = scale(x, 1e6);
    let point = put_sign_and_whole(out, x, scaled / 1_000_000);
    put_micros(out, point, (scaled % 1_000_000) as u32)
}

thread_local! {
    /// The whole seconds that this thread wrote last, and their text: they change once a second only.
    static SECONDS: Cell<(u64, [u8; 10])> = const { Cell::new((u64::MAX, [0; 10])) };
}

/// Does what [`put_fixed6`] does, at less cost for wall-clock times.
#[inline]
pub fn put_time(out: &mut [u8; ROOM], seconds: f64) -> usize {
    let scaled = scale(seconds, 1e6);
    let (whole, micros) = (scaled / 1_000_000, (scaled % 1_000_000) as u32);
    let (known, text) = SECONDS.get();
    if whole != known || seconds < 0.0 {
        return put_new_second(out, seconds, whole, micros);
    }
    *out.first_chunk_mut().expect("shorter than ROOM") = text;
    put_micros(out, text.len(), micros)
}

#[cold]
fn put_new_second(out: &mut [u8; ROOM], seconds: f64, whole: u64, micros: u32) -> usize {
    let point = put_sign_and_whole(out, seconds, whole);
    let text = *out.first_chunk().expect("shorter than ROOM");
    if point == text.len() && seconds > 0.0 {
        SECONDS.set((whole, text));
    }
    put_micros(out, point, micros)
}

/// Writes a point and six decimals; gives where they end.
#[inline]
fn put_micros(out: &mut [u8; ROOM], point: usize, micros: u32) -> usize {
    let (high, low) = (micros / 10_000 % 100, micros % 10_000);
    let ([a, b], [c, d], [e, f]) = (PAIRS[high as usize], pair(low / 100), pair(low));
    // One store; what the last byte is nobody sees.
    if let Some(place) = out.get_mut(point..).and_then(|rest| rest.first_chunk_mut()) {
        *place = [b'.', a, b, c, d, e, f, 0];
    }
    point + 7
}

/// Writes `%.0f`; gives its length. A tie goes to the even neighbour.
#[inline]
pub fn put_rounded(out: &mut [u8; ROOM], x: f64) -> usize {
    put_sign_and_whole(out, x, (x.abs().round_ties_even() as u64).min(MAX))
}

/// Writes `%.3f`; gives its length.
#[inline]
pub fn put_fixed3(out: &mut [u8; ROOM], x: f64) -> usize {
    let scaled = scale(x, 1e3);
    let point = put_sign_and_whole(out, x, scaled / 1000);
    let millis = (scaled % 1000) as u32;
    if let Some([dot, a, b, c]) = out.get_mut(point..).and_then(|rest| rest.first_chunk_mut()) {
        *dot = b'.';
        *a = b'0' + (millis / 100) as u8;
        [*b, *c] = pair(millis);
    }
    point + 4
}

/// Gives where the digits end.
#[inline]
fn put_sign_and_whole(out: &mut [u8; ROOM], x: f64, whole: u64) -> usize {
    let sign = usize::from(x.is_sign_negative() && !x.is_nan());
    out[0] = b'-';
    match sign {
        0 => put_dec(out, whole),
        _ => put_behind_sign(out, whole),
    }
}

#[cold]
fn put_behind_sign(out: &mut [u8; ROOM], whole: u64) -> usize {
    let end = 2 + whole.checked_ilog10().unwrap_or(0) as usize;
    put_whole(&mut out[1..end], whole);
    end
}

/// Fills `out`, which is as long as `n` has digits.
fn put_whole(out: &mut [u8], n: u64) {
    let (mut n, mut end) = (n, out.len());
    // 32-bit divisions are several times cheaper, and nearly all numbers are small.
    while n > u64::from(u32::MAX) {
        out[end - 2..end].copy_from_slice(&pair((n % 100) as u32));
        (n, end) = (n / 100, end - 2);
    }
    let mut n = n as u32;
    while n >= 100 {
        out[end - 2..end].copy_from_slice(&pair(n));
        (n, end) = (n / 100, end - 2);
    }
    if n >= 10 {
        out[end - 2..end].copy_from_slice(&pair(n));
    } else {
        out[end - 1] = b'0' + n as u8;
    }
}

#[inline]
fn pair(n: u32) -> [u8; 2] {
    PAIRS[(n % 100) as usize]
}

/// The magnitude in units of `1 / unit`, rounded; a conversion from f64 saturates and makes not-a-number 0.
#[inline]
fn scale(x: f64, unit: f64) -> u64 {
    // By way of i64, for which there is an instruction.
    ((x.abs() * unit + 0.5) as i64 as u64).min(MAX)
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
            let time = Digits::from_writer(|buf| put_time(buf, x));
            prop_assert_eq!(text(&time), text(&f6));
            let rounded = Digits::from_writer(|buf| put_rounded(buf, x));
            prop_assert_eq!(text(&rounded), format!("{x:.0}"));
            let again = Digits::from_writer(|buf| put_time(buf, x));
            prop_assert_eq!(text(&again), text(&f6), "in the same second");
            prop_assert_eq!(text(&d), n.to_string());
            // A tie of the binary value may round either way.
            prop_assert!((text(&f6).parse::<f64>().unwrap() - x).abs() <= 0.5e-6 + x.abs() * 5e-16);
            prop_assert!((text(&f3).parse::<f64>().unwrap() - x).abs() <= 0.5e-3 + x.abs() * 5e-16);
            prop_assert_eq!(text(&f6).split_once('.').unwrap().1.len(), 6);
            prop_assert_eq!(text(&f3).split_once('.').unwrap().1.len(), 3);
        }
    }
}

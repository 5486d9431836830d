// SPDX-License-Identifier: BSD-2-Clause
//! Numbers as JavaScript reads and writes them: what node statsd accepts and prints hangs on ECMA-262's `Number(string)`
//! (7.1.4.1) and `Number::toString` (6.1.6.1.20), and every byte of our output is compared with its.

use crate::chars;

/// Reads `text` as `Number(text)` does: white space around it, a sign, `0x`, `0o`, `0b`, `Infinity`, and white space
/// alone as 0. None is NaN. The empty text is NaN here too: node statsd refuses it before it converts.
pub fn parse(text: &[u8]) -> Option<f64> {
    if let Some(n) = small_integer(text) {
        return Some(n);
    }
    if text.is_empty() {
        return None;
    }
    match chars::trim(text) {
        [] => Some(0.0),
        [b'0', b'x' | b'X', digits @ ..] => power_of_two(digits, 4),
        [b'0', b'o' | b'O', digits @ ..] => power_of_two(digits, 3),
        [b'0', b'b' | b'B', digits @ ..] => power_of_two(digits, 1),
        decimal => signed(decimal),
    }
}

/// Most values are a few digits.
fn small_integer(text: &[u8]) -> Option<f64> {
    if text.is_empty() || text.len() > 15 {
        return None;
    }
    let mut n = 0u64;
    for &b in text {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        n = n * 10 + u64::from(digit);
    }
    Some(n as f64)
}

fn signed(text: &[u8]) -> Option<f64> {
    match text.strip_prefix(b"-") {
        Some(rest) => unsigned(rest).map(|n| -n),
        None => unsigned(text.strip_prefix(b"+").unwrap_or(text)),
    }
}

fn unsigned(text: &[u8]) -> Option<f64> {
    if text == b"Infinity" {
        return Some(f64::INFINITY);
    }
    // Rust's reader takes all of this grammar and a little more ("inf", "nan"); the digits are checked here.
    let (mantissa, exponent) = match text.iter().position(|b| matches!(b, b'e' | b'E')) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let digits = mantissa.iter().filter(|b| b.is_ascii_digit()).count();
    let points = mantissa.iter().filter(|b| **b == b'.').count();
    if digits == 0 || points > 1 || digits + points != mantissa.len() {
        return None;
    }
    if let Some(exponent) = exponent {
        let digits = exponent.strip_prefix(b"+").or(exponent.strip_prefix(b"-")).unwrap_or(exponent);
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Digits of `bits` bits each, rounded to nearest, ties to even.
fn power_of_two(digits: &[u8], bits: u32) -> Option<f64> {
    if digits.is_empty() {
        return None;
    }
    let (mut top, mut dropped, mut lost) = (0u128, 0u32, false);
    for &b in digits {
        let digit = char::from(b).to_digit(1 << bits)?;
        if top >> 120 == 0 {
            top = top << bits | u128::from(digit);
        } else {
            lost |= digit != 0;
            dropped = dropped.saturating_add(bits);
        }
    }
    // A sticky bit: what fell off still breaks a tie.
    top |= u128::from(lost);
    Some(top as f64 * 2f64.powi(dropped.min(2000) as i32))
}

/// Appends `n` as `String(n)` writes it.
pub fn write(out: &mut Vec<u8>, n: f64) {
    if n.is_nan() {
        return out.extend_from_slice(b"NaN");
    }
    if n.is_infinite() {
        return out.extend_from_slice(if n < 0.0 { b"-Infinity" } else { b"Infinity" });
    }
    // -0 is written 0.
    if n == 0.0 {
        return out.push(b'0');
    }
    if n < 0.0 {
        out.push(b'-');
    }
    let n = n.abs();
    if n < 9e15 && n.fract() == 0.0 {
        return write_integer(out, n as u64);
    }
    let (digits, point) = shortest(n);
    write_digits(out, digits.as_bytes(), point);
}

pub fn show(n: f64) -> String {
    let mut out = Vec::new();
    write(&mut out, n);
    String::from_utf8(out).expect("digits are ASCII")
}

fn write_integer(out: &mut Vec<u8>, n: u64) {
    use std::io::Write as _;
    write!(out, "{n}").expect("a vector takes every byte");
}

/// The shortest digits that read back as `n`, and where the point stands: the value is `0.digits * 10^point`.
fn shortest(n: f64) -> (String, i32) {
    let text = format!("{n:e}");
    let (mantissa, exponent) = text.split_once('e').expect("Rust writes an exponent");
    let exponent: i32 = exponent.parse().expect("Rust writes a number as exponent");
    (mantissa.replace('.', ""), exponent + 1)
}

/// ECMA-262 6.1.6.1.20, steps 6 to 12: `point` is its n, the number of digits its k.
fn write_digits(out: &mut Vec<u8>, digits: &[u8], point: i32) {
    let count = digits.len() as i32;
    if count <= point && point <= 21 {
        out.extend_from_slice(digits);
        out.resize(out.len() + (point - count) as usize, b'0');
    } else if 0 < point && point <= 21 {
        let (whole, fraction) = digits.split_at(point as usize);
        out.extend_from_slice(whole);
        out.push(b'.');
        out.extend_from_slice(fraction);
    } else if -6 < point && point <= 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-point) as usize, b'0');
        out.extend_from_slice(digits);
    } else {
        out.push(digits[0]);
        if count > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.extend_from_slice(if point > 0 { b"e+" } else { b"e-" });
        write_integer(out, (point - 1).unsigned_abs().into());
    }
}

/// `Math.round`: to the nearest integer, halves up.
pub fn round(n: f64) -> f64 {
    let floor = n.floor();
    if n - floor >= 0.5 { floor + 1.0 } else { floor }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &str) {
        let got = parse(text.as_bytes()).map_or_else(|| "NaN".to_owned(), show);
        assert_eq!(got, expected, "{text:?}");
    }

    #[test]
    fn reads_as_javascript() {
        check("7", "7");
        check(" 7 ", "7");
        check("\t\n\u{a0}\u{feff}7\u{2003}", "7");
        check("  ", "0");
        check("", "NaN");
        check("+7", "7");
        check("-7.5", "-7.5");
        check("- 7", "NaN");
        check("+-7", "NaN");
        check("1.", "1");
        check(".5", "0.5");
        check(".", "NaN");
        check("+", "NaN");
        check("1e3", "1000");
        check("1e", "NaN");
        check("1e+", "NaN");
        check("1E-7", "1e-7");
        check("1_0", "NaN");
        check("0x10", "16");
        check("0XfF", "255");
        check("-0x10", "NaN");
        check("0x", "NaN");
        check("0b101", "5");
        check("0o17", "15");
        check("017", "17");
        check("Infinity", "Infinity");
        check("-Infinity", "-Infinity");
        check("infinity", "NaN");
        check("inf", "NaN");
        check("nan", "NaN");
        check("NaN", "NaN");
        check("1e400", "Infinity");
        check("1e-400", "0");
        check("0x20000000000001", "9007199254740992");
        check("0x20000000000003", "9007199254740996");
        check("0x80000000000004000000000000000000000001", "2.8544953854119204e+45");
    }

    #[test]
    fn writes_as_javascript() {
        let write = |n: f64, expected: &str| assert_eq!(show(n), expected);
        write(0.1 + 0.2, "0.30000000000000004");
        write(-0.0, "0");
        write(1e21, "1e+21");
        write(1e20, "100000000000000000000");
        write(123456789012345680000.0, "123456789012345680000");
        write(1.5e300, "1.5e+300");
        write(1e-6, "0.000001");
        write(1e-7, "1e-7");
        write(1.25e-7, "1.25e-7");
        write(5e-324, "5e-324");
        write(f64::MAX, "1.7976931348623157e+308");
        write(9007199254740993.0, "9007199254740992");
        write(10.0 / 0.7, "14.285714285714286");
        write(f64::NAN, "NaN");
        write(f64::NEG_INFINITY, "-Infinity");
    }

    #[test]
    fn rounds_halves_up() {
        assert_eq!(round(2.5), 3.0);
        assert_eq!(round(-2.5), -2.0);
        assert_eq!(round(0.49999999999999994), 0.0);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(n in any::<f64>()) {
            let back = parse(show(n).as_bytes());
            prop_assert!(n.is_nan() && back.is_none() || back == Some(n));
        }

        #[test]
        fn any_bytes_are_a_number_or_not(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(n) = parse(&text) {
                prop_assert!(!n.is_nan());
            }
        }
    }
}

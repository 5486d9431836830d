// SPDX-License-Identifier: BSD-2-Clause
//! Numbers as varnish-7.1's tools read them: at most 15 digits, at most three of the fraction's digits count. [`strtod`] and [`whole`] read them as
//! tools of later releases do.

const MAX_DIGITS: usize = 15;
/// The largest value that may have a fraction.
const MAX_DECIMAL: f64 = 999_999_999_999.999;

fn skip_spaces(text: &[u8]) -> &[u8] {
    let n = text.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
    &text[n..]
}

pub fn number(text: &[u8]) -> Option<(f64, &[u8])> {
    let mut rest = skip_spaces(text);
    let sign = if rest.first() == Some(&b'-') { -1.0 } else { 1.0 };
    if sign < 0.0 {
        rest = &rest[1..];
    }
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    if digits > MAX_DIGITS {
        return None;
    }
    let whole = rest[..digits].iter().fold(0i64, |n, b| n * 10 + i64::from(b - b'0'));
    rest = if digits > 0 { skip_spaces(&rest[digits..]) } else { rest };
    let mut value = whole as f64;
    if rest.first() != Some(&b'.') {
        return (digits > 0).then_some((value * sign, rest));
    }
    if value > MAX_DECIMAL || (digits == 0 && !rest.get(1).is_some_and(u8::is_ascii_digit)) {
        return None;
    }
    rest = &rest[1..];
    let fraction = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let mut scale = 1.0;
    for digit in &rest[..fraction.min(3)] {
        scale *= 0.1;
        value += scale * f64::from(digit - b'0');
    }
    Some((value * sign, skip_spaces(&rest[fraction..])))
}

pub fn decimal(text: &[u8]) -> Option<f64> {
    number(text).map(|(value, _)| value).filter(|value| value.abs() <= MAX_DECIMAL)
}

pub fn exact(text: &str) -> Option<f64> {
    number(text.as_bytes()).filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value)
}

/// A duration with its unit: `10s`, `1.5m`.
pub fn duration(text: &str) -> Option<f64> {
    let (value, rest) = number(text.as_bytes())?;
    let unit = std::str::from_utf8(rest).ok()?.trim();
    if unit.is_empty() { None } else { Some(value * base::text::unit_seconds(unit)?) }
}

/// An integer as strtol(3) with base 0 reads it, and what follows.
pub fn integer(text: &str) -> Option<(i64, &str)> {
    let text = skip_c_spaces(text);
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let hex = hex.filter(|d| d.starts_with(|c: char| c.is_ascii_hexdigit()));
    let (radix, digits) = match hex {
        Some(hex) => (16, hex),
        None if digits.starts_with('0') => (8, digits),
        None => (10, digits),
    };
    let n = digits.bytes().take_while(|b| char::from(*b).is_digit(radix)).count();
    if n == 0 {
        return None;
    }
    let value = digits.bytes().take(n).fold(0i64, |value, b| {
        let digit = char::from(b).to_digit(radix).unwrap_or(0);
        value.saturating_mul(i64::from(radix)).saturating_add(i64::from(digit))
    });
    Some((if negative { -value } else { value }, &digits[n..]))
}

fn skip_c_spaces(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b')
}

/// The number that a text is, as strtod(3) reads it; None if something is behind it, or if it is too large. Of hexadecimal ones only whole numbers.
pub fn strtod(text: &str) -> Option<f64> {
    let text = skip_c_spaces(text);
    match text.parse::<f64>() {
        Ok(value) if value.is_infinite() && text.contains(|c: char| c.is_ascii_digit()) => None,
        Ok(value) => Some(value),
        Err(_) => match integer(text)? {
            (value, "") => Some(value as f64),
            _ => None,
        },
    }
}

/// The whole number that a text is, as strtoll(3) with base 0 reads it; of one with a fraction or an exponent what is before its point.
pub fn whole(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    match integer(text) {
        Some((value, "")) => Some(value),
        Some((_, rest)) if rest.starts_with(['.', 'e']) => strtod(text).map(|value| value as i64),
        None if skip_c_spaces(text).starts_with(['.', 'e']) => strtod(text).map(|value| value as i64),
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers() {
        let check = |text: &str, expected: Option<f64>| assert_eq!(decimal(text.as_bytes()), expected, "{text}");
        check("12", Some(12.0));
        check(" -12 x", Some(-12.0));
        check("1.5", Some(1.5));
        check("x", None);
        check("-", None);
        check(".5", Some(0.5));
        check(".", None);
        check("1234567890123456", None);
        check("1234567890123", None);
        assert_eq!(decimal(b"1.2349"), decimal(b"1.234"));
        assert_eq!(exact("2 "), Some(2.0));
        assert_eq!(exact("2x"), None);
        assert_eq!(duration("2m"), Some(120.0));
        assert_eq!(integer("0x1fg"), Some((31, "g")));
        assert_eq!(integer("010"), Some((8, "")));
        assert_eq!(integer("0"), Some((0, "")));
        assert_eq!(integer("-7-"), Some((-7, "-")));
        assert_eq!(integer("x"), None);
    }

    #[test]
    fn numbers_of_later_releases() {
        for (text, expected) in [
            ("0.0007", Some(0.0007)),
            (" -1.5", Some(-1.5)),
            ("+.5e1", Some(5.0)),
            ("0x10", Some(16.0)),
            ("1e999", None),
            ("1.5 ", None),
            ("1.5s", None),
            ("", None),
        ] {
            assert_eq!(strtod(text), expected, "{text}");
        }
        let expected =
            [("200", 200), (" 12", 12), ("-1.9", -1), ("2e2", 200), (".9", 0), ("0x1f", 31), ("010", 8), ("010.5", 10)];
        for (text, expected) in expected {
            assert_eq!(whole(text.as_bytes()), Some(expected), "{text}");
        }
        for text in ["200 OK", "12x", "x", "", "e", ".", "1.5.5", "\u{e9}"] {
            assert_eq!(whole(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text(bytes in proptest::collection::vec(any::<u8>(), 0..40), text in ".{0,30}") {
            let _ = number(&bytes);
            let _ = (exact(&text), duration(&text), integer(&text), strtod(&text), whole(&bytes));
        }
    }
}

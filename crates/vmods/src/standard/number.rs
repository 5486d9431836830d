// SPDX-License-Identifier: BSD-2-Clause
//! Numbers as text the way Varnish reads them: RFC 8941 integers and decimals with white space around, durations and
//! byte sizes with their units.

use vrt::convert::REAL_MAX;

const MAX_DIGITS: usize = 15;

fn skip_blanks(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    text
}

/// A number from the start of `text`, and what follows it. Strict: a point needs digits before it, and one to three
/// after it.
///
/// # Errors
/// Varnish's text.
pub(super) fn number(text: &[u8], strict: bool) -> Result<(f64, &[u8]), &'static str> {
    let text = skip_blanks(text);
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let whole = text.iter().take_while(|b| b.is_ascii_digit()).count();
    if whole > MAX_DIGITS {
        return Err("Too many digits");
    }
    let mut value = text[..whole].iter().fold(0f64, |value, digit| value * 10.0 + f64::from(digit - b'0'));
    let mut rest = &text[whole..];
    if whole > 0 {
        rest = skip_blanks(rest);
    }
    let fraction = rest.first() == Some(&b'.');
    let decimals = if fraction { rest[1..].iter().take_while(|b| b.is_ascii_digit()).count() } else { 0 };
    if whole == 0 && (strict || decimals == 0) {
        return Err("Invalid number");
    }
    if fraction {
        if value > REAL_MAX {
            return Err("Too many digits");
        }
        if strict && decimals == 0 {
            return Err("Invalid number");
        }
        if strict && decimals > 3 {
            return Err("Too many digits");
        }
        // Further digits are read and don't count.
        let mut scale = 1.0;
        for digit in &rest[1..1 + decimals.min(3)] {
            scale *= 0.1;
            value += scale * f64::from(digit - b'0');
        }
        rest = skip_blanks(&rest[1 + decimals..]);
    }
    Ok((if negative { -value } else { value }, rest))
}

/// The whole text as a number.
///
/// # Errors
/// Varnish's text; empty when something follows the number.
pub(super) fn whole(text: &[u8]) -> Result<f64, &'static str> {
    match number(text, false)? {
        (value, []) => Ok(value),
        _ => Err(""),
    }
}

/// A number and a unit of time, in seconds.
pub(super) fn duration(text: &[u8]) -> Option<f64> {
    let (value, unit) = number(text, false).ok()?;
    let unit = std::str::from_utf8(unit.trim_ascii()).ok()?;
    Some(value * base::text::unit_seconds(unit)?)
}

/// A number and perhaps a unit of 1024; a fraction needs a unit.
pub(super) fn bytes(text: &[u8]) -> Option<f64> {
    let (value, unit) = number(text, true).ok().filter(|(value, _)| *value >= 0.0)?;
    let unit = unit.trim_ascii();
    let (shift, rest) = match unit.first().map(u8::to_ascii_lowercase) {
        None => return (value.fract() == 0.0).then_some(value),
        Some(b'b') => return (value.fract() == 0.0 && unit.len() == 1).then_some(value),
        Some(b'k') => (10, &unit[1..]),
        Some(b'm') => (20, &unit[1..]),
        Some(b'g') => (30, &unit[1..]),
        Some(b't') => (40, &unit[1..]),
        Some(b'p') => (50, &unit[1..]),
        Some(_) => return None,
    };
    matches!(rest, [] | [b'b' | b'B']).then(|| (value * (1u64 << shift) as f64).trunc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(whole(b" 12 "), Ok(12.0));
        assert_eq!(whole(b"-1.5"), Ok(-1.5));
        assert_eq!(whole(b"1."), Ok(1.0));
        assert_eq!(whole(b".5"), Ok(0.5));
        assert_eq!(whole(b"1.23456"), Ok(1.0 + 0.2 + 3.0 * 0.010000000000000002 + 4.0 * 0.0010000000000000002));
        assert_eq!(
            (whole(b""), whole(b"-"), whole(b".")),
            (Err("Invalid number"), Err("Invalid number"), Err("Invalid number"))
        );
        assert_eq!(whole(b"1234567890123456"), Err("Too many digits"));
        assert_eq!(whole(b"12x"), Err(""));
        assert_eq!(whole(b"1e3"), Err(""));
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration(b"10s"), Some(10.0));
        assert_eq!(duration(b"1.5 h "), Some(5400.0));
        assert_eq!(duration(b"20ms"), Some(0.02));
        assert_eq!((duration(b"10"), duration(b"10 x"), duration(b"s"), duration(b"1 s s")), (None, None, None, None));
    }

    #[test]
    fn byte_sizes() {
        assert_eq!(bytes(b"12KB"), Some(12288.0));
        assert_eq!(bytes(b"1.5k"), Some(1536.0));
        assert_eq!((bytes(b"10"), bytes(b"10B"), bytes(b" 1 m ")), (Some(10.0), Some(10.0), Some(1048576.0)));
        assert_eq!(
            (bytes(b"1.5"), bytes(b"1.5b"), bytes(b"-1k"), bytes(b"1x"), bytes(b"1kx")),
            (None, None, None, None, None)
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text(text in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..24)) {
            let _ = (whole(&text), duration(&text), bytes(&text));
        }

        #[test]
        fn integers_come_back(value in -999_999_999_999_999i64..=999_999_999_999_999) {
            proptest::prop_assert_eq!(whole(value.to_string().as_bytes()), Ok(value as f64));
        }
    }
}

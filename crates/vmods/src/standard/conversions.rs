// SPDX-License-Identifier: BSD-2-Clause
//! `std.integer` and its like: one value to convert, by whatever argument it comes, and perhaps a fallback.

use vrt::Failure;
use vrt::convert::{INT_MAX, int_is_valid, real_is_valid};

use super::number;
use crate::args::{Args, fail};

/// Reals are exact up to here.
const BYTES_MAX: f64 = ((1u64 << 53) - 1) as f64;
/// Where all of these functions have their fallback.
const FALLBACK: usize = 1;

fn one_of(args: Args<'_>, name: &str, places: &[usize]) -> Result<(), Failure> {
    match places.iter().filter(|&&at| args.given(at)).count() {
        1 => Ok(()),
        0 => fail(format!("std.{name}: not enough arguments")),
        _ => fail(format!("std.{name}: too many arguments")),
    }
}

fn failed<T>(name: &str, why: &str) -> Result<T, Failure> {
    let colon = if why.is_empty() { "" } else { ": " };
    fail(format!("std.{name}: conversion failed{colon}{why}"))
}

/// `(s, fallback, real, integer)`
pub(super) fn duration(args: Args<'_>) -> Result<f64, Failure> {
    one_of(args, "duration", &[0, 2, 3])?;
    if args.given(2) {
        return Ok(args.real(2));
    }
    if args.given(3) {
        return Ok(args.int(3) as f64);
    }
    match args.text(0).and_then(|text| number::duration(text)) {
        Some(seconds) => Ok(seconds),
        None if args.given(FALLBACK) => Ok(args.real(FALLBACK)),
        None => failed("duration", ""),
    }
}

/// `(s, fallback, real, integer)`
pub(super) fn bytes(args: Args<'_>) -> Result<i64, Failure> {
    one_of(args, "bytes", &[0, 2, 3])?;
    if args.given(3) && args.int(3) >= 0 {
        return Ok(args.int(3));
    }
    let value = if args.given(2) {
        Some(args.real(2).trunc()).filter(|value| *value >= 0.0 && args.real(2) >= 0.0)
    } else {
        args.text(0).and_then(|text| number::bytes(text))
    };
    match value.filter(|value| *value <= BYTES_MAX) {
        Some(value) => Ok(value as i64),
        None if args.given(FALLBACK) => Ok(args.int(FALLBACK)),
        None => failed("bytes", ""),
    }
}

/// `(s, fallback, bool, bytes, duration, real, time)`
pub(super) fn integer(args: Args<'_>) -> Result<i64, Failure> {
    one_of(args, "integer", &[0, 2, 3, 4, 5, 6])?;
    if args.given(2) {
        return Ok(args.bool(2).into());
    }
    if args.given(3) {
        return Ok(args.int(3));
    }
    let mut why = "";
    let value = match (4..=6).find(|&at| args.given(at)) {
        Some(at) => Some(args.real(at).trunc()).filter(|value| value.abs() <= INT_MAX as f64),
        None => match args.text(0).map(|text| number::whole(text)) {
            Some(Ok(value)) => Some(value).filter(|value| value.fract() == 0.0),
            Some(Err(text)) => {
                why = text;
                None
            }
            None => None,
        },
    };
    match value {
        Some(value) => Ok(value as i64),
        None if args.given(FALLBACK) => Ok(args.int(FALLBACK)),
        None => failed("integer", why),
    }
}

/// `(s, fallback, integer, bool, bytes, duration, time)`
pub(super) fn real(args: Args<'_>) -> Result<f64, Failure> {
    one_of(args, "real", &[0, 2, 3, 4, 5, 6])?;
    if let Some(at) = [2, 4].into_iter().find(|&at| args.given(at)) {
        return Ok(args.int(at) as f64);
    }
    if args.given(3) {
        return Ok(f64::from(u8::from(args.bool(3))));
    }
    if let Some(at) = [5, 6].into_iter().find(|&at| args.given(at)) {
        return Ok(args.real(at));
    }
    let (value, why) = match args.text(0).map(|text| number::whole(text)) {
        Some(Ok(value)) if real_is_valid(value) => (Some(value), ""),
        Some(Ok(_)) => (None, "Too many digits"),
        Some(Err(why)) => (None, why),
        None => (None, ""),
    };
    match value {
        Some(value) => Ok(value),
        None if args.given(FALLBACK) => Ok(args.real(FALLBACK)),
        None => failed("real", why),
    }
}

/// `(s, fallback, real, integer)`
pub(super) fn time(args: Args<'_>) -> Result<f64, Failure> {
    one_of(args, "time", &[0, 2, 3])?;
    if args.given(3) {
        return Ok(args.int(3) as f64);
    }
    if args.given(2) {
        return Ok(args.real(2));
    }
    let value = args.text(0).and_then(|text| match message::date::parse(text) {
        Some(date) if date.0 != 0.0 => Some(date.0),
        _ => number::whole(text).ok().filter(|value| *value > 0.0),
    });
    match value {
        Some(value) => Ok(value),
        None if args.given(FALLBACK) => Ok(args.real(FALLBACK)),
        None => failed("time", ""),
    }
}

/// `(value, fallback)`: rounded, unlike `integer`.
pub(super) fn real2integer(args: Args<'_>) -> i64 {
    let value = args.real(0);
    let rounded = value.round() as i64;
    if real_is_valid(value) && int_is_valid(rounded) { rounded } else { args.int(1) }
}

/// `(value, fallback)`
pub(super) fn time2integer(args: Args<'_>) -> i64 {
    let value = args.real(0).round();
    if value.abs() <= INT_MAX as f64 { value as i64 } else { args.int(1) }
}

/// `(value, fallback)`
pub(super) fn or_fallback(args: Args<'_>) -> f64 {
    let value = args.real(0);
    if value.is_finite() { value } else { args.real(1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vrt::Value;

    fn places<const N: usize>(set: &[(usize, Value)]) -> [Value; N] {
        std::array::from_fn(|at| set.iter().find(|(place, _)| *place == at).map_or(Value::Absent, |(_, v)| v.clone()))
    }

    fn int(set: &[(usize, Value)]) -> Result<i64, String> {
        integer(Args(&places::<7>(set))).map_err(|failure| failure.0.into_owned())
    }

    #[test]
    fn integers() {
        assert_eq!(int(&[(0, Value::text("42"))]), Ok(42));
        assert_eq!(int(&[(0, Value::text("-42.000"))]), Ok(-42));
        assert_eq!(int(&[(0, Value::text("x")), (1, Value::Int(7))]), Ok(7));
        assert_eq!(int(&[(0, Value::NULL), (1, Value::Int(7))]), Ok(7));
        assert_eq!(int(&[(0, Value::text("x"))]), Err("std.integer: conversion failed: Invalid number".into()));
        assert_eq!(int(&[(0, Value::text("1.5"))]), Err("std.integer: conversion failed".into()));
        assert_eq!(int(&[(2, Value::Bool(true))]), Ok(1));
        assert_eq!(int(&[(4, Value::Duration(-1.9))]), Ok(-1));
        assert_eq!(int(&[(5, Value::Real(1e18)), (1, Value::Int(0))]), Ok(0));
        assert_eq!(int(&[]), Err("std.integer: not enough arguments".into()));
        let two = [(0, Value::text("1")), (2, Value::Bool(true))];
        assert_eq!(int(&two), Err("std.integer: too many arguments".into()));
    }

    #[test]
    fn others() {
        let text = |text: &str| places::<7>(&[(0, Value::text(text))]);
        assert_eq!(duration(Args(&text("1.5m"))), Ok(90.0));
        assert!(duration(Args(&text("1.5"))).is_err());
        assert_eq!(bytes(Args(&text("1.5k"))), Ok(1536));
        assert!(bytes(Args(&places::<4>(&[(2, Value::Real(-1.0))]))).is_err());
        assert_eq!(real(Args(&text("-1.25"))), Ok(-1.25));
        assert_eq!(real(Args(&places::<7>(&[(3, Value::Bool(true))]))), Ok(1.0));
        assert_eq!(time(Args(&text("Sun, 06 Nov 1994 08:49:37 GMT"))), Ok(784_111_777.0));
        assert_eq!(time(Args(&text("784111777"))), Ok(784_111_777.0));
        assert!(time(Args(&text("yesterday"))).is_err());
        assert_eq!(real2integer(Args(&[Value::Real(1.5), Value::Int(0)])), 2);
        assert_eq!(real2integer(Args(&[Value::Real(1e13), Value::Int(9)])), 9);
        assert_eq!(time2integer(Args(&[Value::Time(f64::NAN), Value::Int(9)])), 9);
        assert_eq!(or_fallback(Args(&[Value::Time(f64::INFINITY), Value::Real(9.0)])), 9.0);
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! `std.integer` and its like: one value to convert, by whatever argument it comes, and perhaps a fallback.

use vrt::convert::{INT_MAX, int_is_valid, real_is_valid};
use vrt::vmod::VmodCall;
use vrt::{Text, VclFailure};

use super::number;
use vmod_support::args::fail;

/// Reals are exact up to here.
const BYTES_MAX: f64 = ((1u64 << 53) - 1) as f64;

type MaybeText<'a> = Option<Option<&'a Text>>;

vrt::vmod_args! {
    pub(super) struct ToInteger<'a> {
        s: [STRING] as MaybeText<'a>,
        fallback: [INT] as Option<i64>,
        bool: [BOOL] as Option<bool>,
        bytes: [BYTES] as Option<i64>,
        duration: [DURATION] as Option<f64>,
        real: [REAL] as Option<f64>,
        time: [TIME] as Option<f64>,
    }
}

vrt::vmod_args! {
    pub(super) struct ToReal<'a> {
        s: [STRING] as MaybeText<'a>,
        fallback: [REAL] as Option<f64>,
        integer: [INT] as Option<i64>,
        bool: [BOOL] as Option<bool>,
        bytes: [BYTES] as Option<i64>,
        duration: [DURATION] as Option<f64>,
        time: [TIME] as Option<f64>,
    }
}

fn one_of(name: &str, given: &[bool]) -> Result<(), VclFailure> {
    match given.iter().filter(|given| **given).count() {
        1 => Ok(()),
        0 => fail(format!("std.{name}: not enough arguments")),
        _ => fail(format!("std.{name}: too many arguments")),
    }
}

fn failed<T>(name: &str, reason: &str) -> Result<T, VclFailure> {
    let colon = if reason.is_empty() { "" } else { ": " };
    fail(format!("std.{name}: conversion failed{colon}{reason}"))
}

/// The value, the fallback, or what failed.
fn or<T>(value: Option<T>, fallback: Option<T>, name: &str, reason: &str) -> Result<T, VclFailure> {
    match value.or(fallback) {
        Some(value) => Ok(value),
        None => failed(name, reason),
    }
}

pub(super) fn duration(
    _: &mut VmodCall<'_>,
    s: MaybeText<'_>,
    fallback: Option<f64>,
    real: Option<f64>,
    integer: Option<i64>,
) -> Result<f64, VclFailure> {
    one_of("duration", &[s.is_some(), real.is_some(), integer.is_some()])?;
    if let Some(seconds) = real.or(integer.map(|integer| integer as f64)) {
        return Ok(seconds);
    }
    or(s.flatten().and_then(|text| number::duration(text)), fallback, "duration", "")
}

pub(super) fn bytes(
    _: &mut VmodCall<'_>,
    s: MaybeText<'_>,
    fallback: Option<i64>,
    real: Option<f64>,
    integer: Option<i64>,
) -> Result<i64, VclFailure> {
    one_of("bytes", &[s.is_some(), real.is_some(), integer.is_some()])?;
    if let Some(integer @ 0..) = integer {
        return Ok(integer);
    }
    let value = match real {
        Some(real) => Some(real.trunc()).filter(|value| *value >= 0.0 && real >= 0.0),
        None => s.flatten().and_then(|text| number::bytes(text)),
    };
    or(value.filter(|value| *value <= BYTES_MAX).map(|value| value as i64), fallback, "bytes", "")
}

pub(super) fn integer(_: &mut VmodCall<'_>, from: ToInteger<'_>) -> Result<i64, VclFailure> {
    let ToInteger { s, fallback, bool, bytes, duration, real, time } = from;
    let numbers = [duration, real, time];
    let given = [s.is_some(), bool.is_some(), bytes.is_some(), duration.is_some(), real.is_some(), time.is_some()];
    one_of("integer", &given)?;
    if let Some(integer) = bool.map(i64::from).or(bytes) {
        return Ok(integer);
    }
    let mut reason = "";
    let value = match numbers.into_iter().flatten().next() {
        Some(number) => Some(number.trunc()).filter(|value| value.abs() <= INT_MAX as f64),
        None => match s.flatten().map(|text| number::whole(text)) {
            Some(Ok(value)) => Some(value).filter(|value| value.fract() == 0.0),
            Some(Err(text)) => {
                reason = text;
                None
            }
            None => None,
        },
    };
    or(value.map(|value| value as i64), fallback, "integer", reason)
}

pub(super) fn real(_: &mut VmodCall<'_>, from: ToReal<'_>) -> Result<f64, VclFailure> {
    let ToReal { s, fallback, integer, bool, bytes, duration, time } = from;
    let given = [s.is_some(), integer.is_some(), bool.is_some(), bytes.is_some(), duration.is_some(), time.is_some()];
    one_of("real", &given)?;
    let whole = integer.or(bytes).or(bool.map(i64::from)).map(|integer| integer as f64);
    if let Some(real) = whole.or(duration).or(time) {
        return Ok(real);
    }
    let (value, reason) = match s.flatten().map(|text| number::whole(text)) {
        Some(Ok(value)) if real_is_valid(value) => (Some(value), ""),
        Some(Ok(_)) => (None, "Too many digits"),
        Some(Err(reason)) => (None, reason),
        None => (None, ""),
    };
    or(value, fallback, "real", reason)
}

pub(super) fn time(
    _: &mut VmodCall<'_>,
    s: MaybeText<'_>,
    fallback: Option<f64>,
    real: Option<f64>,
    integer: Option<i64>,
) -> Result<f64, VclFailure> {
    one_of("time", &[s.is_some(), real.is_some(), integer.is_some()])?;
    if let Some(seconds) = integer.map(|integer| integer as f64).or(real) {
        return Ok(seconds);
    }
    let value = s.flatten().and_then(|text| match message::date::parse(text) {
        Some(date) if date.0 != 0.0 => Some(date.0),
        _ => number::whole(text).ok().filter(|value| *value > 0.0),
    });
    or(value, fallback, "time", "")
}

/// `(value, fallback)`: rounded, unlike `integer`.
pub(super) fn real2integer(value: f64, fallback: i64) -> i64 {
    let rounded = value.round() as i64;
    if real_is_valid(value) && int_is_valid(rounded) { rounded } else { fallback }
}

pub(super) fn time2integer(t: f64, fallback: i64) -> i64 {
    let value = t.round();
    if value.abs() <= INT_MAX as f64 { value as i64 } else { fallback }
}

pub(super) fn or_fallback(value: f64, fallback: f64) -> f64 {
    if value.is_finite() { value } else { fallback }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(real2integer(1.5, 0), 2);
        assert_eq!(real2integer(1e13, 9), 9);
        assert_eq!(time2integer(f64::NAN, 9), 9);
        assert_eq!(or_fallback(f64::INFINITY, 9.0), 9.0);
    }
}

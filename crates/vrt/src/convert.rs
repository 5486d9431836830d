// SPDX-License-Identifier: BSD-2-Clause
//! Values as text and as truth, exactly as VCL does it.

use std::io::Write;

use base::{Real, base64};

use crate::ctx::VclFailure;
use crate::value::{Text, Value};

/// VCL's integers have 15 digits.
pub const INT_MAX: i64 = 999_999_999_999_999;
/// VCL's real numbers have 12 digits before the point and 3 after it.
pub const REAL_MAX: f64 = 999_999_999_999.999;

/// True if VCL can show and take this integer.
pub fn int_is_valid(value: i64) -> bool {
    (-INT_MAX..=INT_MAX).contains(&value)
}

/// True if VCL can show and take this number.
pub fn real_is_valid(value: f64) -> bool {
    (-REAL_MAX..=REAL_MAX).contains(&value)
}

/// Appends a value as `STRING` to `out`; false when it is unset (nothing is appended).
///
/// # Errors
/// VCL fails: a number out of range, an unset address, a time that has no date.
pub fn append(out: &mut Vec<u8>, value: &Value) -> Result<bool, VclFailure> {
    match value {
        Value::String(None) | Value::Backend(None) | Value::Blob(None) | Value::Stevedore(None) => return Ok(false),
        Value::String(Some(text)) => out.extend_from_slice(text),
        Value::Stevedore(Some(name)) => {
            out.extend_from_slice(b"storage.");
            out.extend_from_slice(name);
        }
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(value) | Value::Bytes(value) => append_int(out, *value)?,
        Value::Real(value) | Value::Duration(value) => append_real(out, *value)?,
        Value::Time(value) => append_time(out, *value)?,
        Value::Ip(None) => return Err("VRT_IP_string: Illegal IP".into()),
        Value::Ip(Some(addr)) => write_to(out, format_args!("{}", addr.ip().to_canonical())),
        Value::Backend(Some(backend)) => out.extend_from_slice(backend.name().as_bytes()),
        Value::Blob(Some(blob)) => append_blob(out, blob.as_bytes()),
        Value::Enum(word) => out.extend_from_slice(word.as_bytes()),
        Value::Acl(acl) => out.extend_from_slice(acl.name().as_bytes()),
        Value::Absent
        | Value::Void
        | Value::Header(..)
        | Value::Http(_)
        | Value::Regex(_)
        | Value::Probe(_)
        | Value::Sub(_) => return Ok(false),
    }
    Ok(true)
}

/// A value as `STRING`.
///
/// # Errors
/// As [`append`].
pub fn to_text(value: &Value) -> Result<Option<Text>, VclFailure> {
    if let Value::String(text) = value {
        return Ok(text.clone());
    }
    let mut out = Vec::new();
    Ok(append(&mut out, value)?.then(|| out.into()))
}

/// A value where VCL wants a condition; `None` for types that have no truth.
pub fn truth(value: &Value) -> Option<bool> {
    Some(match value {
        Value::Bool(value) => *value,
        Value::String(text) => text.is_some(),
        Value::Backend(backend) => backend.is_some(),
        Value::Int(value) => *value != 0,
        Value::Duration(seconds) => *seconds > 0.0,
        Value::Stevedore(store) => store.is_some(),
        _ => return None,
    })
}

fn append_int(out: &mut Vec<u8>, value: i64) -> Result<(), VclFailure> {
    if !int_is_valid(value) {
        return Err(format!("INT overflow converting to string ({value:X})").into());
    }
    write_to(out, format_args!("{value}"));
    Ok(())
}

fn append_real(out: &mut Vec<u8>, value: f64) -> Result<(), VclFailure> {
    if !real_is_valid(value) {
        return Err(format!("REAL overflow converting to string ({value:e})").into());
    }
    write_to(out, format_args!("{value:.3}"));
    Ok(())
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`; parts of a second are cut towards zero.
fn append_time(out: &mut Vec<u8>, value: f64) -> Result<(), VclFailure> {
    if value.is_nan() || value.abs() >= 9.2e18 {
        return Err("Unformatable VCL_TIME".into());
    }
    out.extend_from_slice(&message::date::format(Real(value.trunc())));
    Ok(())
}

/// Appends `:BASE64:`, the text form of a BLOB.
fn append_blob(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b':');
    out.extend_from_slice(base64::encode(bytes).as_bytes());
    out.push(b':');
}

fn write_to(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a Vec takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Blob;

    fn check(value: Value, want: &str) {
        let text = to_text(&value).expect("a string").expect("set");
        assert_eq!(text.lossy(), want, "{value:?}");
    }

    #[test]
    fn values_as_varnish_shows_them() {
        check(Value::Duration(1.5), "1.500");
        check(Value::Duration(3600.0), "3600.000");
        check(Value::Duration(-0.0), "-0.000");
        check(Value::Real(-0.0004), "-0.000");
        check(Value::Real(999_999_999_999.0), "999999999999.000");
        check(Value::Int(42), "42");
        check(Value::Bool(true), "true");
        check(Value::Bytes(12288), "12288");
        check(Value::Time(1_000_000_000.7), "Sun, 09 Sep 2001 01:46:40 GMT");
        check(Value::Time(-1.5), "Wed, 31 Dec 1969 23:59:59 GMT");
        check(Value::Ip(Some("192.0.2.1:80".parse().expect("address"))), "192.0.2.1");
        check(Value::Ip(Some("[2001:db8::1]:80".parse().expect("address"))), "2001:db8::1");
        check(Value::Ip(Some("[::ffff:1.2.3.4]:80".parse().expect("address"))), "1.2.3.4");
        check(Value::Blob(Some(Blob::new(*b"hello"))), ":aGVsbG8=:");
        check(Value::Blob(Some(Blob::new(*b""))), "::");
    }

    #[test]
    fn what_cant_be_shown_fails() {
        let text = |value| to_text(&value).expect_err("fails").0.into_owned();
        assert_eq!(text(Value::Ip(None)), "VRT_IP_string: Illegal IP");
        assert!(text(Value::Int(INT_MAX + 1)).starts_with("INT overflow converting to string ("));
        assert!(text(Value::Real(f64::NAN)).starts_with("REAL overflow converting to string ("));
        assert_eq!(text(Value::Time(1e30)), "Unformatable VCL_TIME");
        assert_eq!(to_text(&Value::NULL), Ok(None));
    }

    #[test]
    fn truth_of_types() {
        assert_eq!(truth(&Value::text("")), Some(true));
        assert_eq!(truth(&Value::NULL), Some(false));
        assert_eq!(truth(&Value::Int(0)), Some(false));
        assert_eq!(truth(&Value::Duration(-1.0)), Some(false));
        assert_eq!(truth(&Value::Real(1.0)), None);
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Operators on values: arithmetic, comparisons, case.

use std::sync::Arc;

use tables::vclvars::Type;
use vcl::program::{Compare, Math};

use crate::ctx::VclFailure;
use crate::value::{Text, Value};

/// A STRING's bytes; none when it isn't set.
pub(crate) fn bytes(value: &Value) -> &[u8] {
    match value {
        Value::String(Some(text)) => text,
        _ => b"",
    }
}

pub(crate) fn int(value: &Value) -> i64 {
    match value {
        Value::Int(n) | Value::Bytes(n) => *n,
        _ => 0,
    }
}

pub(crate) fn real(value: Value) -> f64 {
    match value {
        Value::Real(x) | Value::Duration(x) | Value::Time(x) => x,
        Value::Int(n) | Value::Bytes(n) => n as f64,
        _ => 0.0,
    }
}

pub(crate) fn negated(value: Value) -> Result<Value, VclFailure> {
    Ok(match value {
        Value::Int(n) => Value::Int(n.wrapping_neg()),
        Value::Bytes(n) => Value::Bytes(n.wrapping_neg()),
        Value::Real(x) => Value::Real(-x),
        Value::Duration(x) => Value::Duration(-x),
        _ => return Err(VclFailure::new("no number to negate")),
    })
}

/// Changes the case as Varnish does: a text without bytes is unset afterwards.
pub(crate) fn cased(value: Value, upper: bool) -> Value {
    match value {
        Value::String(Some(text)) if !text.is_empty() => {
            let changed = if upper { text.to_ascii_uppercase() } else { text.to_ascii_lowercase() };
            Value::String(Some(changed.into()))
        }
        _ => Value::NULL,
    }
}

pub(crate) fn math(how: Math, result: Type, a: &Value, b: &Value) -> Result<Value, VclFailure> {
    if let (Value::Int(a) | Value::Bytes(a), Value::Int(b) | Value::Bytes(b)) = (a, b) {
        let n = match how {
            Math::Add => a.wrapping_add(*b),
            Math::Sub => a.wrapping_sub(*b),
            Math::Mul => a.wrapping_mul(*b),
            Math::Div | Math::Rem if *b == 0 => return Err(VclFailure::new("Division by zero")),
            Math::Div => a.wrapping_div(*b),
            Math::Rem => a.wrapping_rem(*b),
        };
        return Ok(if result == Type::Bytes { Value::Bytes(n) } else { Value::Int(n) });
    }
    let (a, b) = (real(a.clone()), real(b.clone()));
    let x = match how {
        Math::Add => a + b,
        Math::Sub => a - b,
        Math::Mul => a * b,
        Math::Div => a / b,
        Math::Rem => return Err(VclFailure::new("% is for INT")),
    };
    Ok(match result {
        Type::Duration => Value::Duration(x),
        Type::Time => Value::Time(x),
        Type::Bytes => Value::Bytes(x as i64),
        Type::Int => Value::Int(x as i64),
        _ => Value::Real(x),
    })
}

pub(crate) fn ordered<T: PartialOrd>(how: Compare, a: &T, b: &T) -> bool {
    match how {
        Compare::Equal => a == b,
        Compare::NotEqual => a != b,
        Compare::Less => a < b,
        Compare::LessOrEqual => a <= b,
        Compare::Greater => a > b,
        Compare::GreaterOrEqual => a >= b,
    }
}

fn same(how: Compare, equal: bool) -> bool {
    equal == (how != Compare::NotEqual)
}

pub(crate) fn compare(how: Compare, a: &Value, b: &Value) -> Result<bool, VclFailure> {
    Ok(match (a, b) {
        (Value::Int(a) | Value::Bytes(a), Value::Int(b) | Value::Bytes(b)) => ordered(how, a, b),
        (Value::Real(a) | Value::Duration(a), Value::Real(b) | Value::Duration(b)) => ordered(how, a, b),
        (Value::Time(a), Value::Time(b)) => ordered(how, a, b),
        (Value::String(a), Value::String(b)) => compare_text(how, a.as_ref(), b.as_ref()),
        (Value::Bool(a), Value::Bool(b)) => same(how, a == b),
        (Value::Ip(Some(a)), Value::Ip(Some(b))) => same(how, a.ip().to_canonical() == b.ip().to_canonical()),
        (Value::Ip(_), Value::Ip(_)) => return Err(VclFailure::new("VRT_ipcmp: Illegal IP")),
        (Value::Backend(a), Value::Backend(b)) => same(
            how,
            match (a, b) {
                (Some(a), Some(b)) => std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b)),
                (None, None) => true,
                _ => false,
            },
        ),
        (Value::Acl(a), Value::Acl(b)) => same(how, Arc::ptr_eq(a, b)),
        (Value::Probe(a), Value::Probe(b)) => same(how, a == b),
        (Value::Stevedore(a), Value::Stevedore(b)) => same(how, a == b),
        (Value::Sub(a), Value::Sub(b)) => same(how, a == b),
        _ => return Err(VclFailure::new("values of different types compared")),
    })
}

/// Any comparison with an unset string comes out as if the left were greater, also when both are unset: as in Varnish,
/// `req.http.a == req.http.b` is false when neither field is there.
fn compare_text(how: Compare, a: Option<&Text>, b: Option<&Text>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => ordered(how, &a.as_bytes(), &b.as_bytes()),
        _ => ordered(how, &1, &0),
    }
}

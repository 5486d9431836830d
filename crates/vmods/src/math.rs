// SPDX-License-Identifier: BSD-2-Clause
//! vmod_math(3): C's math.h on VCL's numbers.

use std::f64::consts as c;
use std::num::FpCategory;

use vrt::Value;
use vrt::vmod::{CallResult, Vmod};

use crate::args::{Args, fail, give};

/// vmod_math(3)
pub(crate) static VMOD: Vmod = Vmod {
    name: "math",
    classes: &[],
    functions: &[
        ("approx", |_, args| {
            let args = Args(args);
            give(Value::Bool(approx(args.real(0), args.real(1), args.real(2), args.real(3))))
        }),
        ("strfromd", strfromd),
        ("constant", |_, args| give(Value::Real(constant(Args(args).word(0))))),
        ("fpclass", |_, args| give(Value::Int(class(Args(args).word(0))))),
        ("fpclassify", |_, args| give(Value::Int(class(classify(Args(args).real(0)))))),
        ("isfinite", |_, args| is(args, |x| x.is_finite())),
        ("isinf", |_, args| is(args, |x| x.is_infinite())),
        ("isnan", |_, args| is(args, |x| x.is_nan())),
        ("isnormal", |_, args| is(args, |x| x.is_normal())),
        ("signbit", |_, args| is(args, |x| x.is_sign_negative())),
        ("isgreater", |_, args| compares(args, |x, y| x > y)),
        ("isgreaterequal", |_, args| compares(args, |x, y| x >= y)),
        ("isless", |_, args| compares(args, |x, y| x < y)),
        ("islessequal", |_, args| compares(args, |x, y| x <= y)),
        ("islessgreater", |_, args| compares(args, |x, y| x != y && !x.is_nan() && !y.is_nan())),
        ("isunordered", |_, args| compares(args, |x, y| x.is_nan() || y.is_nan())),
        ("acos", |_, args| of(args, f64::acos)),
        ("acosh", |_, args| of(args, f64::acosh)),
        ("asin", |_, args| of(args, f64::asin)),
        ("asinh", |_, args| of(args, f64::asinh)),
        ("atan", |_, args| of(args, f64::atan)),
        ("atanh", |_, args| of(args, f64::atanh)),
        ("cbrt", |_, args| of(args, f64::cbrt)),
        ("ceil", |_, args| of(args, f64::ceil)),
        ("cos", |_, args| of(args, f64::cos)),
        ("cosh", |_, args| of(args, f64::cosh)),
        ("erf", |_, args| of(args, libm::erf)),
        ("erfc", |_, args| of(args, libm::erfc)),
        ("exp", |_, args| of(args, f64::exp)),
        ("exp2", |_, args| of(args, f64::exp2)),
        ("expm1", |_, args| of(args, f64::exp_m1)),
        ("fabs", |_, args| of(args, f64::abs)),
        ("floor", |_, args| of(args, f64::floor)),
        ("j0", |_, args| of(args, libm::j0)),
        ("j1", |_, args| of(args, libm::j1)),
        ("lgamma", |_, args| of(args, libm::lgamma)),
        ("log", |_, args| of(args, f64::ln)),
        ("log10", |_, args| of(args, f64::log10)),
        ("log1p", |_, args| of(args, f64::ln_1p)),
        ("log2", |_, args| of(args, f64::log2)),
        ("logb", |_, args| of(args, logb)),
        ("nearbyint", |_, args| of(args, libm::rint)),
        ("rint", |_, args| of(args, libm::rint)),
        ("round", |_, args| of(args, f64::round)),
        ("sin", |_, args| of(args, f64::sin)),
        ("sinh", |_, args| of(args, f64::sinh)),
        ("sqrt", |_, args| of(args, f64::sqrt)),
        ("tan", |_, args| of(args, f64::tan)),
        ("tanh", |_, args| of(args, f64::tanh)),
        ("tgamma", |_, args| of(args, libm::tgamma)),
        ("trunc", |_, args| of(args, f64::trunc)),
        ("y0", |_, args| of(args, libm::y0)),
        ("y1", |_, args| of(args, libm::y1)),
        ("atan2", |_, args| of_two(args, |y, x| y.atan2(x))),
        ("copysign", |_, args| of_two(args, |x, y| x.copysign(y))),
        ("fdim", |_, args| of_two(args, libm::fdim)),
        ("fmax", |_, args| of_two(args, libm::fmax)),
        ("fmin", |_, args| of_two(args, libm::fmin)),
        ("fmod", |_, args| of_two(args, |x, y| x % y)),
        ("hypot", |_, args| of_two(args, |x, y| x.hypot(y))),
        ("nextafter", |_, args| of_two(args, libm::nextafter)),
        ("pow", |_, args| of_two(args, |x, y| x.powf(y))),
        ("remainder", |_, args| of_two(args, libm::remainder)),
        ("fma", |_, args| {
            let args = Args(args);
            give(Value::Real(args.real(0).mul_add(args.real(1), args.real(2))))
        }),
        ("ilogb", |_, args| give(Value::Int(i64::from(libm::ilogb(Args(args).real(0)))))),
        ("lrint", |_, args| give(Value::Int(Args(args).real(0).round_ties_even() as i64))),
        ("lround", |_, args| give(Value::Int(Args(args).real(0).round() as i64))),
        ("jn", |_, args| bessel(args, libm::jn)),
        ("yn", |_, args| bessel(args, libm::yn)),
        ("ldexp", |_, args| scaled(args)),
        ("scalbln", |_, args| scaled(args)),
        ("nan", |_, _| give(Value::Real(f64::NAN))),
    ],
};

/// The highest order of a Bessel function: the work grows with it.
const HIGHEST: i64 = 10_000;

fn of(args: &[Value], function: fn(f64) -> f64) -> CallResult {
    give(Value::Real(function(Args(args).real(0))))
}

fn of_two(args: &[Value], function: fn(f64, f64) -> f64) -> CallResult {
    give(Value::Real(function(Args(args).real(0), Args(args).real(1))))
}

fn is(args: &[Value], test: fn(f64) -> bool) -> CallResult {
    give(Value::Int(i64::from(test(Args(args).real(0)))))
}

fn compares(args: &[Value], test: fn(f64, f64) -> bool) -> CallResult {
    give(Value::Int(i64::from(test(Args(args).real(0), Args(args).real(1)))))
}

fn bessel(args: &[Value], function: fn(i32, f64) -> f64) -> CallResult {
    let order = Args(args).int(0);
    if !(-HIGHEST..=HIGHEST).contains(&order) {
        return fail(format!("math: a Bessel function of order {order}"));
    }
    give(Value::Real(function(order as i32, Args(args).real(1))))
}

fn scaled(args: &[Value]) -> CallResult {
    let exponent = Args(args).int(1).clamp(-5000, 5000) as i32;
    give(Value::Real(libm::ldexp(Args(args).real(0), exponent)))
}

fn logb(x: f64) -> f64 {
    match x.classify() {
        FpCategory::Nan => x,
        FpCategory::Infinite => f64::INFINITY,
        FpCategory::Zero => f64::NEG_INFINITY,
        FpCategory::Subnormal | FpCategory::Normal => f64::from(libm::ilogb(x)),
    }
}

fn approx(a: f64, b: f64, most: f64, most_relative: f64) -> bool {
    let difference = (a - b).abs();
    difference <= most || difference <= a.abs().max(b.abs()) * most_relative
}

fn constant(name: &str) -> f64 {
    match name {
        "M_1_PI" => c::FRAC_1_PI,
        "M_2_PI" => c::FRAC_2_PI,
        "M_2_SQRTPI" => c::FRAC_2_SQRT_PI,
        "M_E" => c::E,
        "M_LN10" => c::LN_10,
        "M_LN2" => c::LN_2,
        "M_LOG10E" => c::LOG10_E,
        "M_LOG2E" => c::LOG2_E,
        "M_PI" => c::PI,
        "M_PI_2" => c::FRAC_PI_2,
        "M_PI_4" => c::FRAC_PI_4,
        "M_SQRT1_2" => c::FRAC_1_SQRT_2,
        "M_SQRT2" => c::SQRT_2,
        other => panic!("{other} isn't in the signature"),
    }
}

fn classify(x: f64) -> &'static str {
    match x.classify() {
        FpCategory::Nan => "FP_NAN",
        FpCategory::Infinite => "FP_INFINITE",
        FpCategory::Zero => "FP_ZERO",
        FpCategory::Subnormal => "FP_SUBNORMAL",
        FpCategory::Normal => "FP_NORMAL",
    }
}

/// The numbers of glibc.
fn class(name: &str) -> i64 {
    match name {
        "FP_NAN" => 0,
        "FP_INFINITE" => 1,
        "FP_ZERO" => 2,
        "FP_SUBNORMAL" => 3,
        _ => 4,
    }
}

/// Digits after the point that are shown at most.
const MOST_DIGITS: usize = 300;

fn strfromd(_: &mut vrt::vmod::Call<'_>, args: &[Value]) -> CallResult {
    let format = Args(args).bytes_of(0);
    match shown(format, Args(args).real(1)) {
        Some(text) => give(Value::text(text)),
        None => fail(format!("math.strfromd: bad format \"{}\"", format.escape_ascii())),
    }
}

fn shown(format: &[u8], x: f64) -> Option<String> {
    let (letter, rest) = format.strip_prefix(b"%")?.split_last()?;
    let digits = match rest.strip_prefix(b".") {
        None if rest.is_empty() => None,
        None => return None,
        Some(digits) => Some(message::chars::exact_number(digits).map_or(0, |n| n as usize)),
    };
    if rest.iter().skip(1).any(|digit| !digit.is_ascii_digit()) || digits.is_some_and(|digits| digits > MOST_DIGITS) {
        return None;
    }
    if !x.is_finite() {
        let sign = if x.is_sign_negative() { "-" } else { "" };
        let text = format!("{sign}{}", if x.is_nan() { "nan" } else { "inf" });
        return matches!(letter, b'a' | b'e' | b'f' | b'g' | b'A' | b'E' | b'F' | b'G').then(|| cased(text, *letter));
    }
    let text = match letter.to_ascii_lowercase() {
        b'f' => format!("{x:.*}", digits.unwrap_or(6)),
        b'e' => exponential(x, digits.unwrap_or(6)),
        b'g' => general(x, digits.unwrap_or(6).max(1)),
        b'a' => hexadecimal(x, digits),
        _ => return None,
    };
    Some(cased(text, *letter))
}

fn cased(text: String, letter: u8) -> String {
    if letter.is_ascii_uppercase() { text.to_ascii_uppercase() } else { text }
}

/// `d.ddde+dd`
fn exponential(x: f64, digits: usize) -> String {
    let text = format!("{x:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').expect("it is exponential");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn general(x: f64, digits: usize) -> String {
    let text = exponential(x, digits - 1);
    let (mantissa, exponent) = text.split_once('e').expect("it is exponential");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    let bare = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", bare(mantissa), exponent.abs());
    }
    bare(&format!("{x:.*}", (digits as i32 - 1 - exponent) as usize))
}

/// `0xh.hhhp+d`
fn hexadecimal(x: f64, digits: Option<usize>) -> String {
    let bits = x.to_bits();
    let sign = if bits >> 63 == 1 { "-" } else { "" };
    let (mut exponent, mut fraction) = ((bits >> 52 & 0x7ff) as i64, bits & ((1 << 52) - 1));
    let mut lead = u64::from(exponent != 0);
    exponent = match (exponent, fraction) {
        (0, 0) => 0,
        (0, _) => -1022,
        (exponent, _) => exponent - 1023,
    };
    if let Some(digits) = digits.filter(|digits| *digits < 13) {
        // Rounded to even at the digit that is cut.
        let cut = 52 - 4 * digits as u32;
        let whole = lead << 52 | fraction;
        let (kept, rest, half) = (whole >> cut, whole & ((1 << cut) - 1), 1u64 << (cut - 1));
        let kept = kept + u64::from(rest > half || rest == half && kept & 1 == 1);
        lead = (kept << cut) >> 52;
        fraction = (kept << cut) & ((1 << 52) - 1);
    }
    let mut text = format!("{fraction:013x}");
    match digits {
        Some(digits) => text.extend(std::iter::repeat_n('0', digits.saturating_sub(13))),
        None => text.truncate(text.trim_end_matches('0').len()),
    }
    text.truncate(digits.unwrap_or(text.len()));
    let point = if text.is_empty() { "" } else { "." };
    format!("{sign}0x{lead}{point}{text}p{exponent:+}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_strfromd_shows_them() {
        let all = [
            ("%f", 0.1, "0.100000"),
            ("%.17f", 0.1, "0.10000000000000001"),
            ("%.17e", 0.1, "1.00000000000000006e-01"),
            ("%E", 1234.5, "1.234500E+03"),
            ("%g", 0.1, "0.1"),
            ("%g", 1e-5, "1e-05"),
            ("%g", 123_456_789.0, "1.23457e+08"),
            ("%g", 100_000.0, "100000"),
            ("%.3g", 0.0, "0"),
            ("%.13a", 0.1, "0x1.999999999999ap-4"),
            ("%a", -1.5, "-0x1.8p+0"),
            ("%.1a", 1.999, "0x2.0p+0"),
            ("%a", 0.0, "0x0p+0"),
            ("%.0a", 1.5, "0x2p+0"),
            ("%F", f64::INFINITY, "INF"),
        ];
        for (format, x, want) in all {
            assert_eq!(shown(format.as_bytes(), x).as_deref(), Some(want), "{format} {x}");
        }
        for format in ["", "%", "f", "%5f", "%.f2", "%d", "%f ", "%.9999f", "%-f"] {
            assert_eq!(shown(format.as_bytes(), 1.0), None, "{format}");
        }
    }

    #[test]
    fn approximately() {
        assert!(approx(c::PI.sin(), 0.0, 0.001, f64::EPSILON));
        assert!(!approx(1.0, 1.1, 0.001, f64::EPSILON));
        assert!(approx(1e20, 1e20 + 1e4, 0.0, f64::EPSILON));
    }
}

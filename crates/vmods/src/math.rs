// SPDX-License-Identifier: BSD-2-Clause
//! vmod_math(3): C's math.h on VCL's numbers.

use std::f64::consts as c;
use std::num::FpCategory;

use vrt::Text;
use vrt::vmod::EnumWords;
use vrt::vmod::{CallResult, INT, REAL, STRING, VmodCall, give};

use vmod_support::args::fail;

vrt::words! {
    enum Name {
        M1Pi = "M_1_PI", M2Pi = "M_2_PI", M2Sqrtpi = "M_2_SQRTPI", ME = "M_E", MLn10 = "M_LN10", MLn2 = "M_LN2",
        MLog10e = "M_LOG10E", MLog2e = "M_LOG2E", MPi = "M_PI", MPi2 = "M_PI_2", MPi4 = "M_PI_4", MSqrt12 =
        "M_SQRT1_2", MSqrt2 = "M_SQRT2",
    }
}

vrt::words! {
    enum MathName {
        FpInfinite = "FP_INFINITE", FpNan = "FP_NAN", FpNormal = "FP_NORMAL", FpSubnormal = "FP_SUBNORMAL", FpZero =
        "FP_ZERO",
    }
}

vrt::vmod! {
    /// The functions of C's math.h
    pub(crate) static VMOD = math;

    functions {
        /// Returns whether two numbers differ by at most maxDiff, or by at most maxRelDiff times the larger one
        fn approx(a: REAL, b: REAL, maxDiff: REAL = 0.001, maxRelDiff: REAL = 2.220446049250313e-16) -> BOOL, pure
            = |_, a: f64, b: f64, most: f64, relative: f64| approx(a, b, most, relative);

        /// Formats a number as %a, %e, %f or %g, optionally with .digits, or with an upper-case letter; fails for other
        /// formats
        fn strfromd(format: STRING, fp: REAL) -> STRING, pure = strfromd;

        /// Returns a constant
        fn constant(name: Name) -> REAL, pure = |_, name: Name| constant(name.word());

        /// Returns the result of fpclassify for such numbers
        fn fpclass(name: MathName) -> INT, pure = |_, name: MathName| class(name.word());

        /// Returns the class of a number
        fn fpclassify(x: REAL) -> INT, pure = |_, x: f64| class(classify(x));

        /// Returns 1 if it is true, else 0
        fn isfinite(x: REAL) -> INT, pure = |_, x: f64| is(x, |x| x.is_finite());

        /// Returns 1 if it is true, else 0
        fn isinf(x: REAL) -> INT, pure = |_, x: f64| is(x, |x| x.is_infinite());

        /// Returns 1 if it is true, else 0
        fn isnan(x: REAL) -> INT, pure = |_, x: f64| is(x, |x| x.is_nan());

        /// Returns 1 if it is true, else 0
        fn isnormal(x: REAL) -> INT, pure = |_, x: f64| is(x, |x| x.is_normal());

        /// Returns 1 if it is true, else 0
        fn signbit(x: REAL) -> INT, pure = |_, x: f64| is(x, |x| x.is_sign_negative());

        /// Returns 1 if it is true, else 0
        fn isgreater(x: REAL, y: REAL) -> INT, pure = |_, x: f64, y: f64| compares(x, y, |x, y| x > y);

        /// Returns 1 if it is true, else 0
        fn isgreaterequal(x: REAL, y: REAL) -> INT, pure = |_, x: f64, y: f64| compares(x, y, |x, y| x >= y);

        /// Returns 1 if it is true, else 0
        fn isless(x: REAL, y: REAL) -> INT, pure = |_, x: f64, y: f64| compares(x, y, |x, y| x < y);

        /// Returns 1 if it is true, else 0
        fn islessequal(x: REAL, y: REAL) -> INT, pure = |_, x: f64, y: f64| compares(x, y, |x, y| x <= y);

        /// Returns 1 if it is true, else 0
        fn islessgreater(x: REAL, y: REAL) -> INT, pure
            = |_, x: f64, y: f64| compares(x, y, |x, y| x != y && !x.is_nan() && !y.is_nan());

        /// Returns 1 if it is true, else 0
        fn isunordered(x: REAL, y: REAL) -> INT, pure
            = |_, x: f64, y: f64| compares(x, y, |x, y| x.is_nan() || y.is_nan());

        /// As in C's math.h
        fn acos(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::acos);

        /// As in C's math.h
        fn acosh(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::acosh);

        /// As in C's math.h
        fn asin(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::asin);

        /// As in C's math.h
        fn asinh(x: REAL) -> REAL, pure = |_, x: f64| of(x, libm::asinh);

        /// As in C's math.h
        fn atan(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::atan);

        /// As in C's math.h
        fn atanh(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::atanh);

        /// As in C's math.h
        fn cbrt(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::cbrt);

        /// As in C's math.h
        fn ceil(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::ceil);

        /// As in C's math.h
        fn cos(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::cos);

        /// As in C's math.h
        fn cosh(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::cosh);

        /// As in C's math.h
        fn erf(x: REAL) -> REAL, pure = |_, x: f64| of(x, libm::erf);

        /// As in C's math.h
        fn erfc(x: REAL) -> REAL, pure = |_, x: f64| of(x, libm::erfc);

        /// As in C's math.h
        fn exp(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::exp);

        /// As in C's math.h
        fn exp2(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::exp2);

        /// As in C's math.h
        fn expm1(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::exp_m1);

        /// As in C's math.h
        fn fabs(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::abs);

        /// As in C's math.h
        fn floor(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::floor);

        /// As in C's math.h
        fn j0(x: REAL) -> REAL, pure = |_, x: f64| of(x, libm::j0);

        /// As in C's math.h
        fn j1(x: REAL) -> REAL, pure = |_, x: f64| of(x, libm::j1);

        /// As in C's math.h
        fn lgamma(x: REAL) -> REAL, pure = |_, x: f64| of(x, libm::lgamma);

        /// As in C's math.h
        fn log(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::ln);

        /// As in C's math.h
        fn log10(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::log10);

        /// As in C's math.h
        fn log1p(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::ln_1p);

        /// As in C's math.h
        fn log2(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::log2);

        /// As in C's math.h
        fn logb(x: REAL) -> REAL, pure = |_, x: f64| of(x, logb);

        /// As in C's math.h
        fn nearbyint(x: REAL) -> REAL, pure = |_, x: f64| of(x, libm::rint);

        /// As in C's math.h
        fn rint(x: REAL) -> REAL, pure = |_, x: f64| of(x, libm::rint);

        /// As in C's math.h
        fn round(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::round);

        /// As in C's math.h
        fn sin(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::sin);

        /// As in C's math.h
        fn sinh(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::sinh);

        /// As in C's math.h
        fn sqrt(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::sqrt);

        /// As in C's math.h
        fn tan(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::tan);

        /// As in C's math.h
        fn tanh(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::tanh);

        /// As in C's math.h
        fn tgamma(x: REAL) -> REAL, pure = |_, x: f64| of(x, libm::tgamma);

        /// As in C's math.h
        fn trunc(x: REAL) -> REAL, pure = |_, x: f64| of(x, f64::trunc);

        /// As in C's math.h
        fn y0(x: REAL) -> REAL, pure = |_, x: f64| of(x, libm::y0);

        /// As in C's math.h
        fn y1(x: REAL) -> REAL, pure = |_, x: f64| of(x, libm::y1);

        /// As in C's math.h
        fn atan2(y: REAL, x: REAL) -> REAL, pure = |_, y: f64, x: f64| of_two(y, x, |y, x| y.atan2(x));

        /// As in C's math.h
        fn copysign(x: REAL, y: REAL) -> REAL, pure = |_, x: f64, y: f64| of_two(x, y, |x, y| x.copysign(y));

        /// As in C's math.h
        fn fdim(x: REAL, y: REAL) -> REAL, pure = |_, x: f64, y: f64| of_two(x, y, libm::fdim);

        /// As in C's math.h
        fn fmax(x: REAL, y: REAL) -> REAL, pure = |_, x: f64, y: f64| of_two(x, y, libm::fmax);

        /// As in C's math.h
        fn fmin(x: REAL, y: REAL) -> REAL, pure = |_, x: f64, y: f64| of_two(x, y, libm::fmin);

        /// As in C's math.h
        fn fmod(x: REAL, y: REAL) -> REAL, pure = |_, x: f64, y: f64| of_two(x, y, |x, y| x % y);

        /// As in C's math.h
        fn hypot(x: REAL, y: REAL) -> REAL, pure = |_, x: f64, y: f64| of_two(x, y, libm::hypot);

        /// As in C's math.h
        fn nextafter(x: REAL, y: REAL) -> REAL, pure = |_, x: f64, y: f64| of_two(x, y, libm::nextafter);

        /// As in C's math.h
        fn pow(x: REAL, y: REAL) -> REAL, pure = |_, x: f64, y: f64| of_two(x, y, |x, y| x.powf(y));

        /// As in C's math.h
        fn remainder(x: REAL, y: REAL) -> REAL, pure = |_, x: f64, y: f64| of_two(x, y, libm::remainder);

        /// As in C's math.h
        fn fma(x: REAL, y: REAL, z: REAL) -> REAL, pure = |_, x: f64, y: f64, z: f64| x.mul_add(y, z);

        /// As in C's math.h
        fn ilogb(x: REAL) -> INT, pure = |_, x: f64| i64::from(libm::ilogb(x));

        /// As in C's math.h
        fn lrint(x: REAL) -> INT, pure = |_, x: f64| x.round_ties_even() as i64;

        /// As in C's math.h
        fn lround(x: REAL) -> INT, pure = |_, x: f64| x.round() as i64;

        /// As in C's math.h
        fn jn(n: INT, x: REAL) -> REAL, pure = |_, n: i64, x: f64| bessel(n, x, libm::jn);

        /// As in C's math.h
        fn yn(n: INT, x: REAL) -> REAL, pure = |_, n: i64, x: f64| bessel(n, x, libm::yn);

        /// As in C's math.h
        fn ldexp(x: REAL, e: INT) -> REAL, pure = |_, x: f64, e: i64| scaled(x, e);

        /// As in C's math.h
        fn scalbln(x: REAL, e: INT) -> REAL, pure = |_, x: f64, e: i64| scaled(x, e);

        /// Returns NaN (not a number)
        fn nan(tag: STRING) -> REAL, pure = |_, _: Option<&Text>| f64::NAN;
    }
}

/// The highest order of a Bessel function: the work grows with it.
const HIGHEST: i64 = 10_000;

fn of(x: f64, function: fn(f64) -> f64) -> CallResult<REAL> {
    give(function(x))
}

fn of_two(y: f64, x: f64, function: fn(f64, f64) -> f64) -> CallResult<REAL> {
    give(function(y, x))
}

fn is(x: f64, test: fn(f64) -> bool) -> CallResult<INT> {
    give(i64::from(test(x)))
}

fn compares(x: f64, y: f64, test: fn(f64, f64) -> bool) -> CallResult<INT> {
    give(i64::from(test(x, y)))
}

fn bessel(order: i64, x: f64, function: fn(i32, f64) -> f64) -> CallResult<REAL> {
    if !(-HIGHEST..=HIGHEST).contains(&order) {
        return fail(format!("math: a Bessel function of order {order}"));
    }
    give(function(order as i32, x))
}

fn scaled(x: f64, e: i64) -> CallResult<REAL> {
    let exponent = e.clamp(-5000, 5000) as i32;
    give(libm::ldexp(x, exponent))
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

fn class(name: &str) -> i64 {
    match name {
        "FP_NAN" => 0,
        "FP_INFINITE" => 1,
        "FP_ZERO" => 2,
        "FP_SUBNORMAL" => 3,
        _ => 4,
    }
}

const MAX_DIGITS: usize = 300;

fn strfromd(_: &mut VmodCall<'_>, format: &[u8], f: f64) -> CallResult<STRING> {
    match shown(format, f) {
        Some(text) => give(text),
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
    if rest.iter().skip(1).any(|digit| !digit.is_ascii_digit()) || digits.is_some_and(|digits| digits > MAX_DIGITS) {
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

/// Format `d.ddde+dd`, as printf's `%e`.
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

/// Format `0xh.hhhp+d`, as printf's `%a`.
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

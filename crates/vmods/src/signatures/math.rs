// SPDX-License-Identifier: BSD-2-Clause
//! vmod_math(3): C's math.h. A REAL has at most 12 digits before the point: a larger result fails where it becomes text.

use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module};

const X: &[Arg] = &[Arg::new(Real, "x")];
const XY: &[Arg] = &[Arg::new(Real, "x"), Arg::new(Real, "y")];
const YX: &[Arg] = &[Arg::new(Real, "y"), Arg::new(Real, "x")];
const NX: &[Arg] = &[Arg::new(Int, "n"), Arg::new(Real, "x")];
const XE: &[Arg] = &[Arg::new(Real, "x"), Arg::new(Int, "e")];

const CONSTANTS: &[&str] = &[
    "M_1_PI",
    "M_2_PI",
    "M_2_SQRTPI",
    "M_E",
    "M_LN10",
    "M_LN2",
    "M_LOG10E",
    "M_LOG2E",
    "M_PI",
    "M_PI_2",
    "M_PI_4",
    "M_SQRT1_2",
    "M_SQRT2",
];
const CLASSES: &[&str] = &["FP_INFINITE", "FP_NAN", "FP_NORMAL", "FP_SUBNORMAL", "FP_ZERO"];

const fn of(name: &'static str) -> Func {
    Func::new(Real, name, X, "As in C").pure()
}

const fn of_two(name: &'static str) -> Func {
    Func::new(Real, name, XY, "As in C").pure()
}

const fn is(name: &'static str) -> Func {
    Func::new(Int, name, X, "1 when it is so, else 0").pure()
}

const fn compares(name: &'static str) -> Func {
    Func::new(Int, name, XY, "1 when it is so, else 0").pure()
}

/// vmod_math(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "math",
    text: "The functions of C's math.h",
    objects: &[],
    functions: &[
        Func::new(
            Bool,
            "approx",
            &[
                Arg::new(Real, "a"),
                Arg::new(Real, "b"),
                Arg::new(Real, "maxDiff").or(D::Real(0.001)),
                Arg::new(Real, "maxRelDiff").or(D::Real(2.220_446_049_250_313e-16)),
            ],
            "Whether two numbers differ by no more than maxDiff, or than maxRelDiff times the larger",
        )
        .pure(),
        Func::new(
            String,
            "strfromd",
            &[Arg::new(String, "format"), Arg::new(Real, "fp")],
            "A number as %a, %e, %f or %g, with .digits on demand, or with the letter large; fails for another format",
        )
        .pure(),
        Func::new(Real, "constant", &[Arg::of("name", CONSTANTS)], "A constant").pure(),
        Func::new(Int, "fpclass", &[Arg::of("name", CLASSES)], "What fpclassify gives for such numbers").pure(),
        Func::new(Int, "fpclassify", X, "Which class a number is of").pure(),
        is("isfinite"),
        is("isinf"),
        is("isnan"),
        is("isnormal"),
        is("signbit"),
        compares("isgreater"),
        compares("isgreaterequal"),
        compares("isless"),
        compares("islessequal"),
        compares("islessgreater"),
        compares("isunordered"),
        of("acos"),
        of("acosh"),
        of("asin"),
        of("asinh"),
        of("atan"),
        of("atanh"),
        of("cbrt"),
        of("ceil"),
        of("cos"),
        of("cosh"),
        of("erf"),
        of("erfc"),
        of("exp"),
        of("exp2"),
        of("expm1"),
        of("fabs"),
        of("floor"),
        of("j0"),
        of("j1"),
        of("lgamma"),
        of("log"),
        of("log10"),
        of("log1p"),
        of("log2"),
        of("logb"),
        of("nearbyint"),
        of("rint"),
        of("round"),
        of("sin"),
        of("sinh"),
        of("sqrt"),
        of("tan"),
        of("tanh"),
        of("tgamma"),
        of("trunc"),
        of("y0"),
        of("y1"),
        Func::new(Real, "atan2", YX, "As in C").pure(),
        of_two("copysign"),
        of_two("fdim"),
        of_two("fmax"),
        of_two("fmin"),
        of_two("fmod"),
        of_two("hypot"),
        of_two("nextafter"),
        of_two("pow"),
        of_two("remainder"),
        Func::new(Real, "fma", &[Arg::new(Real, "x"), Arg::new(Real, "y"), Arg::new(Real, "z")], "As in C").pure(),
        Func::new(Int, "ilogb", X, "As in C").pure(),
        Func::new(Int, "lrint", X, "As in C").pure(),
        Func::new(Int, "lround", X, "As in C").pure(),
        Func::new(Real, "jn", NX, "As in C").pure(),
        Func::new(Real, "yn", NX, "As in C").pure(),
        Func::new(Real, "ldexp", XE, "As in C").pure(),
        Func::new(Real, "scalbln", XE, "As in C").pure(),
        Func::new(Real, "nan", &[Arg::new(String, "tag")], "What is no number").pure(),
    ],
};

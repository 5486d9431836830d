// SPDX-License-Identifier: BSD-2-Clause
//! vmod_str(3) of varnish-modules, and what Varnish Enterprise's has of another name.

use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module};

const S: Arg = Arg::new(String, "s");
const TWO: &[Arg] = &[Arg::new(String, "s1"), Arg::new(String, "s2")];

/// vmod_str(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "str",
    text: "Pieces of texts",
    objects: &[],
    functions: &[
        Func::new(Int, "count", &[S], "How many bytes a text has; -1 when it is unset").pure(),
        Func::new(Int, "len", &[S], "How many bytes a text has, as Varnish Enterprise has it: 0 when it is unset")
            .pure(),
        Func::new(
            String,
            "substr",
            &[S, Arg::new(Int, "length"), Arg::new(Int, "offset").or(D::Int(0))],
            "The same as take, as Varnish Enterprise has it",
        )
        .pure(),
        Func::new(Bool, "startswith", TWO, "Whether s1 begins with s2").pure(),
        Func::new(Bool, "endswith", TWO, "Whether s1 ends with s2").pure(),
        Func::new(Bool, "contains", TWO, "Whether s2 is in s1").pure(),
        Func::new(
            String,
            "take",
            &[S, Arg::new(Int, "n"), Arg::new(Int, "offset").or(D::Int(0))],
            "n bytes from offset on; a negative offset counts from the end, a negative n takes what is left of it",
        )
        .pure(),
        Func::new(String, "reverse", &[S], "The bytes in reverse order").pure(),
        Func::new(
            String,
            "split",
            &[S, Arg::new(Int, "n"), Arg::new(String, "sep").or(D::Str(" \t"))],
            "The n-th word between bytes of sep, from the end when n is negative; unset when there is none",
        )
        .pure(),
        Func::new(
            Bool,
            "token_intersect",
            &[Arg::new(String, "str1"), Arg::new(String, "str2"), Arg::new(String, "separators").opt()],
            "Whether a word of one text is one of the other; between blanks and commas, unless separators are given",
        )
        .pure(),
    ],
};

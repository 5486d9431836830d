// SPDX-License-Identifier: BSD-2-Clause
//! The module querysort, as sites had it before std.querysort.

use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module};

/// The module querysort
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "querysort",
    text: "std.querysort under its older name",
    objects: &[],
    functions: &[Func::new(
        String,
        "querysort",
        &[Arg::pos(String)],
        "The URL with the parameters of its query in order",
    )
    .pure()],
};

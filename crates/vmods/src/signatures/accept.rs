// SPDX-License-Identifier: BSD-2-Clause
//! vmod_accept(3) of varnish-modules.

use tables::vmods::Type::{self, *};
use tables::vmods::{Arg, Func, Module, Object};

const fn a(ty: Type, name: &'static str) -> Arg {
    Arg::new(ty, name)
}

/// vmod_accept(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "accept",
    text: "Reduces Accept and similar fields to one of a few words",
    functions: &[],
    objects: &[Object {
        name: "rule",
        args: &[a(String, "fallback")],
        text: "Words that a site has, and the one for everybody else",
        methods: &[
            Func::new(Void, "add", &[a(String, "string")], "Adds a word"),
            Func::new(Void, "remove", &[a(String, "string")], "Takes a word out"),
            Func::new(
                String,
                "filter",
                &[Arg::pos(String)],
                "The word of the highest q in the field, as it was added; the fallback when none is in it, or the field is malformed. \
                 Words are alike in any case, and only as a whole",
            ),
        ],
    }],
};

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_header(3) of varnish-modules.

use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module};

const HDR: Arg = Arg::pos(Header);
const OF: &[Arg] = &[Arg::new(Header, "header"), Arg::new(Regex, "regex")];

/// vmod_header(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "header",
    text: "Fields that occur more than once, line by line",
    objects: &[],
    functions: &[
        Func::new(Void, "append", &[HDR, Arg::pos(String)], "Adds a field behind those of the same name"),
        Func::new(
            Void,
            "copy",
            &[HDR, HDR],
            "Adds all fields of one name, under another name, here or in another head",
        ),
        Func::new(String, "get", OF, "The first value of that name that matches; unset when none does"),
        Func::new(Void, "remove", OF, "Removes the fields of that name whose values match"),
        Func::new(
            Void,
            "regsub",
            &[
                Arg::pos(Http),
                Arg::new(Regex, "regex"),
                Arg::new(String, "sub"),
                Arg::new(Bool, "all").or(D::Bool(false)),
            ],
            "Rewrites the lines of a head, names included, that match; fails when the result is no field",
        ),
        Func::new(Header, "dyn", &[Arg::pos(Http), Arg::pos(String)], "A field by a name that is computed").pure(),
    ],
};

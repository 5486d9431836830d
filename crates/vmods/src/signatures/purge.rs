// SPDX-License-Identifier: BSD-2-Clause
//! vmod_purge(3).

use tables::vclvars::{Method, Methods};
use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module};

const WHERE: Methods = Method::Hit.set().with(Method::Miss.set());

/// vmod_purge(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "purge",
    text: "Purges the objects of the current hash, for good or softly",
    objects: &[],
    functions: &[
        Func::new(Int, "hard", &[], "Removes all variants; says how many").only(WHERE),
        Func::new(
            Int,
            "soft",
            &[
                Arg::new(Duration, "ttl").or(D::Real(0.0)),
                Arg::new(Duration, "grace").or(D::Real(-1.0)),
                Arg::new(Duration, "keep").or(D::Real(-1.0)),
            ],
            "Shortens the lives of all variants; says how many. A negative value leaves that life as it is",
        )
        .only(WHERE),
    ],
};

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_saintmode(3) of varnish-modules.

use tables::vclvars::Method;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module, Object};

/// vmod_saintmode(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "saintmode",
    text: "Backends that are sick for single objects",
    functions: &[
        Func::new(
            Void,
            "blacklist",
            &[Arg::new(Duration, "expires")],
            "Holds the backend of this fetch sick for its object for a while",
        )
        .only(Method::BackendResponse.set()),
        Func::new(Void, "denylist", &[Arg::new(Duration, "expires")], "The same as blacklist")
            .only(Method::BackendResponse.set()),
        Func::new(String, "status", &[], "The saintmode directors of this VCL as JSON"),
    ],
    objects: &[Object {
        name: "saintmode",
        args: &[Arg::new(Backend, "backend"), Arg::new(Int, "threshold")],
        text: "A director over one backend: sick for what was blacklisted, and for all when there is too much of that",
        methods: &[
            Func::new(Backend, "backend", &[], "The director"),
            Func::new(Int, "blacklist_count", &[], "How many objects are on its list"),
            Func::new(Int, "denylist_count", &[], "The same as blacklist_count"),
            Func::new(
                Bool,
                "is_healthy",
                &[],
                "In a fetch whether it is healthy for its object; elsewhere what its list alone says of the request's object",
            ),
        ],
    }],
};

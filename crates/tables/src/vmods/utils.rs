// SPDX-License-Identifier: BSD-2-Clause
//! vmod_utils of Varnish Enterprise 6.

use super::Default as D;
use super::Type::*;
use super::{Arg, Func, LeftOut, Module};
use crate::vclvars::{Method, Methods};

/// vmod_utils
pub(super) const MODULE: Module = Module {
    name: "utils",
    text: "What needs no module of its own",
    objects: &[],
    functions: &[
        Func::new(String, "newline", &[], "A line feed").pure(),
        Func::new(
            String,
            "time_format",
            &[Arg::new(String, "format"), Arg::new(Bool, "local_time").or(D::Bool(false)), Arg::new(Time, "time").opt()],
            "The time, now unless it is given, in UTC or the local zone, written by a strftime(3) format; unset on an error",
        ),
        Func::new(
            Void,
            "fast_304",
            &[],
            "After a 304 the stale object keeps its head and store, whatever the 304 and VCL say, and its keys beside those that VCL adds; \
             its lives are beresp's. Without a 304, or if beresp becomes uncacheable, it changes nothing",
        )
        .only(Method::BackendResponse.set()),
        Func::new(Bool, "is_fast_304", &[], "Whether fast_304() was called after a 304").only(Methods::BACKEND),
        Func::new(
            Backend,
            "resolve_backend",
            &[Arg::new(Backend, "backend")],
            "The backend that a director chooses now; a backend is its own choice. None when it has none",
        )
        .only(Methods::CLIENT.with(Methods::BACKEND)),
    ],
};

/// What isn't built.
pub(super) const LEFT_OUT: &[LeftOut] = &[
    LeftOut("utils.backend_ttfb", "beresp.time - bereq.time"),
    LeftOut("utils.hash_ignore_vary", "in vcl_recv the same value for each field that Vary names"),
];

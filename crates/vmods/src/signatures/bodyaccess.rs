// SPDX-License-Identifier: BSD-2-Clause
//! vmod_bodyaccess(3) of varnish-modules.

use tables::vclvars::Method;
use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module};

/// vmod_bodyaccess(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "bodyaccess",
    text: "The request's body, once std.cache_req_body keeps it; without it VCL_Error says so",
    objects: &[],
    functions: &[
        Func::new(
            Int,
            "rematch_req_body",
            &[Arg::new(Regex, "re")],
            "1 when the body matches, 0 when not, -1 when it can't be had",
        )
        .only(Method::Recv.set()),
        Func::new(Void, "hash_req_body", &[], "Adds the body to what vcl_hash hashes").only(Method::Hash.set()),
        Func::new(Int, "len_req_body", &[], "Bytes of the body; -1 when it can't be had").only(Method::Recv.set()),
        Func::new(
            Void,
            "log_req_body",
            &[Arg::new(String, "prefix").or(D::Str("")), Arg::new(Int, "length").or(D::Int(200))],
            "Writes the body to the log, a Debug record for each so many bytes",
        ),
    ],
};

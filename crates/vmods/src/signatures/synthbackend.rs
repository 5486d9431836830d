// SPDX-License-Identifier: BSD-2-Clause
//! vmod_synthbackend of Varnish Enterprise 6.

use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module};

/// vmod_synthbackend
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "synthbackend",
    text: "Backends that answer out of VCL, with status 200: what they say is cached, compressed and processed as any other answer",
    objects: &[],
    functions: &[
        Func::new(
            Backend,
            "mirror",
            &[],
            "Answers with the request's body, 64 MB at most, and its fields that begin with Content-",
        ),
        Func::new(Backend, "from_blob", &[Arg::new(Blob, "blob")], "Answers with these bytes"),
        Func::new(Backend, "from_string", &[Arg::new(String, "string")], "Answers with this text"),
    ],
};

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_utils of Varnish Enterprise 6.

use tables::vclvars::{Method, Methods};
use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, LeftOut, Module};

const TWO: &[Arg] = &[Arg::new(Int, "a"), Arg::new(Int, "b")];

/// vmod_utils
pub(crate) const MODULE: Module = Module {
    left_out: LEFT_OUT,
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
        Func::new(Int, "mod", TWO, "What a division leaves, with the sign of a; VCL fails when b is 0"),
        Func::new(Int, "bitwise_and", TWO, "The bits that both have").pure(),
        Func::new(Int, "bitwise_or", TWO, "The bits that one has").pure(),
        Func::new(Int, "bitwise_xor", TWO, "The bits that only one has").pure(),
        Func::new(
            Int,
            "hex2integer",
            &[Arg::new(String, "hex"), Arg::new(Int, "fallback")],
            "A hexadecimal number that begins with 0x; the fallback if it isn't one",
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
pub(crate) const LEFT_OUT: &[LeftOut] = &[
    LeftOut("utils.backend_ttfb", "beresp.time - bereq.time"),
    LeftOut("utils.apply_cache_headers", "std.rfc_ttl, and beresp.ttl, beresp.grace and beresp.keep"),
    LeftOut("utils.backend_ip", "beresp.backend.ip"),
    LeftOut("utils.base64_encode", "blob.transcode, for texts"),
    LeftOut("utils.bytes2string", "std.real, divided by the unit"),
    LeftOut("utils.dyn_probe", "`probe`"),
    LeftOut("utils.estimated_content_length", "beresp.http.Content-Length"),
    LeftOut("utils.fast_random", "std.random"),
    LeftOut("utils.fast_random_int", "std.integer(real=std.random(0, N))"),
    LeftOut("utils.force_fresh", "req.hash_always_miss"),
    LeftOut("utils.http_range_support", "the parameter http_range_support"),
    LeftOut("utils.set_pipe_timeout", "the parameter pipe_timeout"),
    LeftOut("utils.vcl_name", "a text: one VCL has one name"),
    LeftOut("utils.hash_ignore_vary", "`set req.hash_ignore_vary = true;`"),
];

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_vsthrottle(3) of varnish-modules.

use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module};

const BUCKET: &[Arg] = &[
    Arg::new(String, "key"),
    Arg::new(Int, "limit"),
    Arg::new(Duration, "period"),
    Arg::new(Duration, "block").or(D::Real(0.0)),
];
const BLOCKED: &[Arg] =
    &[Arg::new(String, "key"), Arg::new(Int, "limit"), Arg::new(Duration, "period"), Arg::new(Duration, "block")];

/// vmod_vsthrottle(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "vsthrottle",
    text: "Token buckets: so many requests of a key in a period. All four arguments together name a bucket",
    objects: &[],
    functions: &[
        Func::new(Bool, "is_denied", BUCKET, "Takes a token: whether there was none, or the bucket is blocked"),
        Func::new(Void, "return_token", BUCKET, "Puts a token back"),
        Func::new(
            Void,
            "remove_bucket",
            BUCKET,
            "Forgets the bucket: it is full and not blocked when it is next asked for",
        ),
        Func::new(Int, "remaining", BUCKET, "How many tokens are left; -1 without a key"),
        Func::new(Duration, "blocked", BLOCKED, "How long the bucket stays blocked; -1 s without a key"),
    ],
};

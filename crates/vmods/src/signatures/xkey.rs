// SPDX-License-Identifier: BSD-2-Clause
//! vmod_xkey(3) of varnish-modules.

use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module};

const KEYS: &[Arg] = &[Arg::new(String, "keys")];

/// vmod_xkey(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "xkey",
    text: "Purging by the keys in the response's xkey (or X-HashTwo) fields. Objects stored before a VCL with this import was \
           loaded have none. What keys take in memory isn't part of a store's size: XKEY.g_bytes counts it",
    objects: &[],
    functions: &[
        Func::new(
            Int,
            "purge",
            KEYS,
            "Purges all objects with any of these keys, between blanks or commas; says how many",
        )
        .waits(),
        Func::new(Int, "softpurge", KEYS, "Takes their ttl, leaving grace and keep; says how many were fresh").waits(),
    ],
};

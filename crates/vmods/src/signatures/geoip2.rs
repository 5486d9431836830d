// SPDX-License-Identifier: BSD-2-Clause
//! vmod_geoip2(3) of libvmod-geoip2.

use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module, Object};

/// vmod_geoip2(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "geoip2",
    text: "What MaxMind's files (.mmdb) know of an address",
    functions: &[],
    objects: &[Object {
        name: "geoip2",
        args: &[Arg::new(String, "filename")],
        text: "A file, read when the VCL is loaded",
        methods: &[Func::new(
            String,
            "lookup",
            &[Arg::new(String, "path"), Arg::new(Ip, "ip"), Arg::new(Bool, "json").or(D::Bool(false))],
            "The value at a path like country/names/en, with json texts in quotes; unset, and why in the log, when there is none",
        )],
    }],
};

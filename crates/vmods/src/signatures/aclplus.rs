// SPDX-License-Identifier: BSD-2-Clause
//! vmod_aclplus of Varnish Enterprise 6.

use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module};

const ARGS: &[Arg] = &[Arg::new(Ip, "ip"), Arg::new(String, "acl")];

/// vmod_aclplus
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "aclplus",
    text: "Access lists as texts: addresses and networks (ADDRESS/BITS), IPv4 and IPv6, between commas; one with ! before it denies, \
           wherever it stands. A rule that is neither matches nothing, and is logged as VCL_Error unless the whole text is a word",
    functions: &[
        Func::new(Bool, "match", ARGS, "Whether a rule matches the address, and none that denies does"),
        Func::new(String, "find", ARGS, "The rule that matches, as it stands in the text; unset when match() is false"),
    ],
    objects: &[],
};

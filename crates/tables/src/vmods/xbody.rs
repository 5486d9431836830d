// SPDX-License-Identifier: BSD-2-Clause
//! vmod_xbody of Varnish Enterprise 6: what of it is about requests.

use super::Type::*;
use super::{Func, LeftOut, Module};

/// vmod_xbody
pub(super) const MODULE: Module = Module {
    name: "xbody",
    text: "The request's body as a text, once std.cache_req_body keeps it. Not built: all that reads or rewrites response bodies",
    objects: &[],
    functions: &[Func::new(
        String,
        "get_req_body",
        &[],
        "The request's body; unset, and VCL_Error says so, when std.cache_req_body doesn't keep it",
    )],
};

const RESPONSES: &str = "a backend or ESI that makes the body as wanted: response bodies aren't rewritten";

/// What isn't built.
pub(super) const LEFT_OUT: &[LeftOut] = &[
    LeftOut("xbody.capture", RESPONSES),
    LeftOut("xbody.get", RESPONSES),
    LeftOut("xbody.get_all", RESPONSES),
    LeftOut("xbody.regsub", RESPONSES),
    LeftOut("xbody.set", RESPONSES),
];

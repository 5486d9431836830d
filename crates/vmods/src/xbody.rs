// SPDX-License-Identifier: BSD-2-Clause
//! vmod_xbody of Varnish Enterprise: the request's body, as published VCL asks for it.

use vrt::Value;
use vrt::vmod::Vmod;

use crate::args::give;

/// vmod_xbody
pub(crate) static VMOD: Vmod = Vmod {
    name: "xbody",
    classes: &[],
    functions: &[("get_req_body", |call, _| {
        let body = crate::bodyaccess::body(call, None, b"");
        give(body.map_or(Value::NULL, Value::text))
    })],
};

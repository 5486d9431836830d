// SPDX-License-Identifier: BSD-2-Clause
//! vmod_bodyaccess(3) of varnish-modules. As there a call in the wrong place, or without a kept body, writes a VCL_Error
//! record and answers -1; the transaction goes on.

use tables::Tag;
use vrt::vmod::{Call, CallResult, Vmod};
use vrt::{Method, Value};

use crate::args::{Args, gave_up, give};

/// vmod_bodyaccess(3)
pub(crate) static VMOD: Vmod = Vmod {
    name: "bodyaccess",
    classes: &[],
    functions: &[
        ("rematch_req_body", |call, args| {
            let Some(body) = body(call, Some(Method::Recv), b"rematch_req_body can be used only in vcl_recv{}") else {
                return give(Value::Int(-1));
            };
            let found = Args(args).regex(0).is_match(&body).map_err(gave_up)?;
            give(Value::Int(i64::from(found)))
        }),
        ("hash_req_body", |call, _| {
            if let Some(body) = body(call, Some(Method::Hash), b"hash_req_body can only be used in vcl_hash{}") {
                call.ctx.hash_data(Some(&body));
            }
            give(Value::Void)
        }),
        ("len_req_body", |call, _| {
            let body = body(call, Some(Method::Recv), b"len_req_body can only be used in vcl_recv{}");
            give(Value::Int(body.map_or(-1, |body| body.len() as i64)))
        }),
        ("log_req_body", log),
    ],
};

/// The body, if this is the place to ask for it and it is kept; else the log says why not.
pub(crate) fn body(call: &mut Call<'_>, only: Option<Method>, elsewhere: &[u8]) -> Option<Vec<u8>> {
    if only.is_some_and(|only| only != call.method) {
        call.ctx.log().put(Tag::VclError, elsewhere);
        return None;
    }
    let mut body = Vec::new();
    let is_kept = call.ctx.kept_body(&mut |piece| body.extend_from_slice(piece));
    if !is_kept {
        call.ctx.log().put(Tag::VclError, b"Unbuffered req.body");
    }
    is_kept.then_some(body)
}

fn log(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let Some(body) = body(call, None, b"") else { return give(Value::Void) };
    let prefix = Args(args).bytes_of(0);
    let length = usize::try_from(Args(args).int(1)).ok().filter(|length| *length > 0).unwrap_or(body.len().max(1));
    for line in body.chunks(length) {
        call.ctx.log().put2(Tag::Debug, prefix, line);
    }
    give(Value::Void)
}

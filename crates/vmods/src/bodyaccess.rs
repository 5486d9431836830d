// SPDX-License-Identifier: BSD-2-Clause
//! vmod_bodyaccess(3) of varnish-modules. As there a call in the wrong place, or without a kept body, writes a VCL_Error
//! record and answers -1; the transaction goes on.

use std::sync::Arc;
use tables::Tag;
use vcl_regex::Regex;
use vrt::Method;
use vrt::vmod::{CallResult, INT, VOID, VmodCall, give};

use vmod_support::args::gave_up;

vrt::vmod! {
    /// The request's body, which std.cache_req_body must have cached; otherwise calls log a VCL_Error
    pub(crate) static VMOD = bodyaccess;

    functions {
        /// Returns 1 if the body matches, 0 if it doesn't, -1 if it isn't available
        fn rematch_req_body(re: REGEX) -> INT, local, only(Method::Recv.set()) = rematch_req_body;

        /// Adds the body to the cache key; in vcl_hash
        fn hash_req_body() -> VOID, local, only(Method::Hash.set()) = hash_req_body;

        /// Returns the number of bytes of the body; -1 if it isn't available
        fn len_req_body() -> INT, local, only(Method::Recv.set()) = len_req_body;

        /// Writes the body to the log, one Debug record per `length` bytes
        fn log_req_body(prefix: STRING = "", length: INT = 200) -> VOID, local = log;
    }
}

fn rematch_req_body(call: &mut VmodCall<'_>, re: &Arc<Regex>) -> CallResult<INT> {
    let Some(body) = body(call, Some(Method::Recv), b"rematch_req_body can be used only in vcl_recv{}") else {
        return give(-1);
    };
    let found = re.is_match(&body).map_err(gave_up)?;
    give(i64::from(found))
}

fn hash_req_body(call: &mut VmodCall<'_>) -> CallResult<VOID> {
    if let Some(body) = body(call, Some(Method::Hash), b"hash_req_body can only be used in vcl_hash{}") {
        call.ctx.hash_data(Some(&body));
    }
    give(())
}

fn len_req_body(call: &mut VmodCall<'_>) -> CallResult<INT> {
    let body = body(call, Some(Method::Recv), b"len_req_body can only be used in vcl_recv{}");
    give(body.map_or(-1, |body| body.len() as i64))
}

/// The body, if this is the place to ask for it and it is kept; else the log says why not.
pub(crate) fn body(call: &mut VmodCall<'_>, only: Option<Method>, elsewhere: &[u8]) -> Option<Vec<u8>> {
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

fn log(call: &mut VmodCall<'_>, prefix: &[u8], length: i64) -> CallResult<VOID> {
    let Some(body) = body(call, None, b"") else { return give(()) };
    let length = usize::try_from(length).ok().filter(|length| *length > 0).unwrap_or(body.len().max(1));
    for line in body.chunks(length) {
        call.ctx.log().put2(Tag::Debug, prefix, line);
    }
    give(())
}

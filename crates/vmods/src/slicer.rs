// SPDX-License-Identifier: BSD-2-Clause
//! vmod_slicer of Varnish Enterprise.

use vrt::Method;
use vrt::vmod::{BOOL, CallResult, Methods, VmodCall, give};

vrt::vmod! {
    /// Objects in slices, which are fetched on demand
    pub(crate) static VMOD = slicer;

    functions {
        /// Stores the fetched object in slices; returns false if that isn't possible. In vcl_backend_fetch it requests a
        /// slice from the backend, as bereq.do_slice; in vcl_backend_response it is the same as beresp.do_slice
        fn enable() -> BOOL, only(ASKED.with(Method::BackendResponse.set())) = enable;
    }
}

const ASKED: Methods = Method::BackendFetch.set();

fn enable(call: &mut VmodCall<'_>) -> CallResult<BOOL> {
    let can = call.ctx.slice()?;
    give(can)
}

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_slicer of Varnish Enterprise.

use vrt::Method;
use vrt::vmod::{BOOL, Call, CallResult, Methods, give};

vrt::vmod! {
    /// Objects in slices, which are fetched when they are asked for
    pub(crate) static VMOD = slicer;

    functions {
        /// Keeps the object that is fetched in slices; false where that can't be. In vcl_backend_fetch the backend is asked for a slice at
        /// once, as by bereq.do_slice; in vcl_backend_response it is what beresp.do_slice does
        fn enable() -> BOOL, only(ASKED.with(Method::BackendResponse.set())) = enable;
    }
}

const ASKED: Methods = Method::BackendFetch.set();

fn enable(call: &mut Call<'_>) -> CallResult<BOOL> {
    let can = call.ctx.slice()?;
    give(can)
}

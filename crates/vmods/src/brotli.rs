// SPDX-License-Identifier: BSD-2-Clause
//! vmod_brotli of Varnish Enterprise: brotli switched on by VCL. Here the parameter `http_brotli_support` switches it on, for what clients
//! are offered can't differ between two VCLs that share a cache; `init` sees that it is, so that no VCL counts on what isn't there.

use message::Coding;
use tables::vclvars::Var;
use vrt::vmod::{Call, CallResult, VOID, give};
use vrt::{Failure, Method, Value};

vrt::words! {
    enum Encoding {
        Both = "BOTH", Br = "BR", Gzip = "GZIP",
    }
}

vrt::vmod! {
    /// Bodies packed and unpacked in br on their way into the cache
    pub(crate) static VMOD = brotli;

    functions {
        /// Sees that the parameter http_brotli_support is on: then backends are asked for br and gzip, and clients get what they like best of
        /// both. Only BOTH is built
        fn init(encoding: Encoding = Both, transcode: BOOL = true) -> VOID, only(Method::Init.set()) = init;

        /// Packs the body in br before it is stored, whatever it comes in; as beresp.do_brotli
        fn compress() -> VOID, local, only(Method::BackendResponse.set())
            = |call: &mut Call<'_>| set(call, Var::BerespDoBrotli);

        /// Unpacks a body that comes in br before it is stored; as beresp.do_unbrotli
        fn decompress() -> VOID, local, only(Method::BackendResponse.set())
            = |call: &mut Call<'_>| set(call, Var::BerespDoUnbrotli);
    }

    left_out {
        "brotli.accept" => "bereq.http.Accept-Encoding, set in vcl_backend_fetch";
    }
}

fn init(call: &mut Call<'_>, encoding: Encoding, transcode: bool) -> CallResult<VOID> {
    if encoding != Encoding::Both || !transcode {
        return Err(Failure::new(
            "brotli.init(): only BOTH, with transcode, is built: say what backends are asked for in vcl_backend_fetch",
        ));
    }
    if !call.ctx.is_coding_made(Coding::Brotli) {
        return Err(Failure::new("brotli.init(): needs the parameter http_brotli_support"));
    }
    give(())
}

fn set(call: &mut Call<'_>, var: Var) -> CallResult<VOID> {
    call.ctx.set(var, Value::Bool(true))?;
    give(())
}

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_brotli of Varnish Enterprise: brotli switched on by VCL. Here the parameter `http_brotli_support` switches it on, for what clients
//! are offered can't differ between two VCLs that share a cache; `init` sees that it is, so that no VCL counts on what isn't there.

use message::Coding;
use tables::vclvars::Var;
use vrt::vmod::{CallResult, VOID, VmodCall, give};
use vrt::{Method, Value, VclFailure};

vrt::words! {
    enum Encoding {
        Both = "BOTH", Br = "BR", Gzip = "GZIP",
    }
}

vrt::vmod! {
    /// Compresses bodies with br, or decompresses them, before they are stored
    pub(crate) static VMOD = brotli;

    functions {
        /// Checks that the parameter http_brotli_support is on: then br and gzip are requested from backends, and clients
        /// get the encoding that they prefer. Only BOTH is supported
        fn init(encoding: Encoding = Both, transcode: BOOL = true) -> VOID, only(Method::Init.set()) = init;

        /// Compresses the body with br before it is stored, whatever its encoding; same as beresp.do_brotli
        fn compress() -> VOID, local, only(Method::BackendResponse.set())
            = |call: &mut VmodCall<'_>| set(call, Var::BerespDoBrotli);

        /// Decompresses a br body before it is stored; same as beresp.do_unbrotli
        fn decompress() -> VOID, local, only(Method::BackendResponse.set())
            = |call: &mut VmodCall<'_>| set(call, Var::BerespDoUnbrotli);
    }

    left_out {
        "brotli.accept" => "bereq.http.Accept-Encoding, set in vcl_backend_fetch";
    }
}

fn init(call: &mut VmodCall<'_>, encoding: Encoding, transcode: bool) -> CallResult<VOID> {
    if encoding != Encoding::Both || !transcode {
        return Err(VclFailure::new(
            "brotli.init(): only BOTH, with transcode, is built: say what backends are asked for in vcl_backend_fetch",
        ));
    }
    if !call.ctx.is_coding_made(Coding::Brotli) {
        return Err(VclFailure::new("brotli.init(): needs the parameter http_brotli_support"));
    }
    give(())
}

fn set(call: &mut VmodCall<'_>, var: Var) -> CallResult<VOID> {
    call.ctx.set(var, Value::Bool(true))?;
    give(())
}

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_proxy(3).

use tables::vmods::Type::*;
use tables::vmods::{Func, Module};

/// vmod_proxy(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "proxy",
    text: "What a PROXY v2 header says beyond addresses",
    objects: &[],
    functions: &[
        Func::new(String, "alpn", &[], "The protocol agreed by ALPN"),
        Func::new(String, "authority", &[], "The host name the client asked for (SNI)"),
        Func::new(Bool, "is_ssl", &[], "Whether the client came by TLS"),
        Func::new(Bool, "client_has_cert_sess", &[], "Whether the client showed a certificate in this TLS session"),
        Func::new(Bool, "client_has_cert_conn", &[], "Whether the client showed a certificate on this connection"),
        Func::new(Int, "ssl_verify_result", &[], "Result of checking the client's certificate; 0: good"),
        Func::new(String, "ssl_version", &[], "The TLS version"),
        Func::new(String, "client_cert_cn", &[], "The common name in the client's certificate"),
        Func::new(String, "ssl_cipher", &[], "The cipher"),
        Func::new(String, "cert_sign", &[], "The signature algorithm of the server's certificate"),
        Func::new(String, "cert_key", &[], "The key algorithm of the server's certificate"),
    ],
};

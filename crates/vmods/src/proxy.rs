// SPDX-License-Identifier: BSD-2-Clause
//! vmod_proxy(3): the TLVs of a PROXY v2 header (haproxy's proxy-protocol.txt, section 2.2).

use net::proxy::tlv;
use vrt::Value;
use vrt::vmod::{Call, CallResult, Vmod};

use crate::args::give;

const ALPN: u8 = 0x01;
const AUTHORITY: u8 = 0x02;
const SSL: u8 = 0x20;
const SSL_VERSION: u8 = 0x21;
const SSL_CN: u8 = 0x22;
const SSL_CIPHER: u8 = 0x23;
const SSL_SIG_ALG: u8 = 0x24;
const SSL_KEY_ALG: u8 = 0x25;

const CLIENT_SSL: u8 = 0x01;
const CLIENT_CERT_CONN: u8 = 0x02;
const CLIENT_CERT_SESS: u8 = 0x04;

/// vmod_proxy(3)
pub(crate) static VMOD: Vmod = Vmod {
    name: "proxy",
    classes: &[],
    functions: &[
        ("alpn", |call, _| text(call, ALPN)),
        ("authority", |call, _| text(call, AUTHORITY)),
        ("is_ssl", |call, _| flag(call, CLIENT_SSL)),
        ("client_has_cert_sess", |call, _| flag(call, CLIENT_CERT_SESS)),
        ("client_has_cert_conn", |call, _| flag(call, CLIENT_CERT_CONN)),
        ("ssl_verify_result", |call, _| {
            let found = ssl(call).map_or(0, |(_, verify)| verify);
            give(Value::Int(found.into()))
        }),
        ("ssl_version", |call, _| text(call, SSL_VERSION)),
        ("client_cert_cn", |call, _| text(call, SSL_CN)),
        ("ssl_cipher", |call, _| text(call, SSL_CIPHER)),
        ("cert_sign", |call, _| text(call, SSL_SIG_ALG)),
        ("cert_key", |call, _| text(call, SSL_KEY_ALG)),
    ],
};

/// A TLV as text: a NUL ends it, as it ends varnishd's strings.
fn text(call: &mut Call<'_>, kind: u8) -> CallResult {
    let tlvs = call.ctx.proxy_tlvs().unwrap_or_default();
    let text = tlv(&tlvs, kind).map(|value| value.split(|byte| *byte == 0).next().unwrap_or_default());
    give(Value::String(text.map(Into::into)))
}

/// Flags and the result of verification.
fn ssl(call: &mut Call<'_>) -> Option<(u8, u32)> {
    let tlvs = call.ctx.proxy_tlvs()?;
    let value = tlv(&tlvs, SSL)?;
    let (flags, rest) = value.split_first()?;
    Some((*flags, u32::from_be_bytes(*rest.first_chunk()?)))
}

fn flag(call: &mut Call<'_>, flag: u8) -> CallResult {
    let found = ssl(call).is_some_and(|(flags, _)| flags & flag == flag);
    give(Value::Bool(found))
}

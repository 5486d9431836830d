// SPDX-License-Identifier: BSD-2-Clause
//! vmod_proxy(3): the TLVs of a PROXY v2 header (haproxy's proxy-protocol.txt, section 2.2). Where TLS is ours it answers as a
//! terminator's header would have: VCL that was written for one goes on.

use ::tls::HandshakeInfo;
use ::tls::certificate::Certificate;
use net::proxy::tlv;
use vrt::vmod::{BOOL, CallResult, INT, Methods, STRING, VmodCall, give};

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

vrt::vmod! {
    /// The further data in a PROXY v2 header; with our own TLS, the data that a TLS terminator's header would have
    pub(crate) static VMOD = proxy;

    functions {
        /// Returns the protocol negotiated by ALPN
        fn alpn() -> STRING, local, restrict(Methods::CLIENT) = |call: &mut VmodCall<'_>| text(call, ALPN);

        /// Returns the host name requested by the client (SNI)
        fn authority() -> STRING, local, restrict(Methods::CLIENT) = |call: &mut VmodCall<'_>| text(call, AUTHORITY);

        /// Returns whether the client uses TLS
        fn is_ssl() -> BOOL, local, restrict(Methods::CLIENT) = |call: &mut VmodCall<'_>| flag(call, CLIENT_SSL);

        /// Returns whether the client sent a certificate in this TLS session
        fn client_has_cert_sess() -> BOOL, local, restrict(Methods::CLIENT) = |call: &mut VmodCall<'_>| flag(call, CLIENT_CERT_SESS);

        /// Returns whether the client sent a certificate on this connection
        fn client_has_cert_conn() -> BOOL, local, restrict(Methods::CLIENT) = |call: &mut VmodCall<'_>| flag(call, CLIENT_CERT_CONN);

        /// Returns the result of verifying the client's certificate; 0: valid
        fn ssl_verify_result() -> INT, local, restrict(Methods::CLIENT) = ssl_verify_result;

        /// Returns the TLS version
        fn ssl_version() -> STRING, local, restrict(Methods::CLIENT) = |call: &mut VmodCall<'_>| text(call, SSL_VERSION);

        /// Returns the common name in the client's certificate
        fn client_cert_cn() -> STRING, local, restrict(Methods::CLIENT) = |call: &mut VmodCall<'_>| text(call, SSL_CN);

        /// Returns the cipher
        fn ssl_cipher() -> STRING, local, restrict(Methods::CLIENT) = |call: &mut VmodCall<'_>| text(call, SSL_CIPHER);

        /// Returns the signature algorithm of the server's certificate
        fn cert_sign() -> STRING, local, restrict(Methods::CLIENT) = |call: &mut VmodCall<'_>| text(call, SSL_SIG_ALG);

        /// Returns the key algorithm of the server's certificate
        fn cert_key() -> STRING, local, restrict(Methods::CLIENT) = |call: &mut VmodCall<'_>| text(call, SSL_KEY_ALG);
    }
}

fn ssl_verify_result(call: &mut VmodCall<'_>) -> CallResult<INT> {
    // Of our own a certificate that doesn't hold ends the handshake.
    let found = if call.ctx.tls().is_some() { 0 } else { ssl(call).map_or(0, |(_, verify)| verify) };
    give(i64::from(found))
}

/// A TLV as text: a NUL ends it, as it ends varnishd's strings.
fn text(call: &mut VmodCall<'_>, kind: u8) -> CallResult<STRING> {
    if let Some(info) = call.ctx.tls() {
        return give(own(info, kind));
    }
    let tlvs = call.ctx.proxy_tlvs().unwrap_or_default();
    let text = tlv(&tlvs, kind).map(|value| value.split(|byte| *byte == 0).next().unwrap_or_default());
    give(text)
}

/// The value that a PROXY header would have for our own TLS.
fn own(info: &HandshakeInfo, kind: u8) -> Option<Vec<u8>> {
    let ours = || Certificate::read(info.own_leaf()?);
    let text = match kind {
        ALPN => return info.alpn.as_deref().map(<[u8]>::to_vec),
        AUTHORITY => info.sni.as_deref()?.to_owned(),
        SSL_VERSION => info.version.name().to_owned(),
        SSL_CIPHER => info.cipher().to_owned(),
        SSL_CN => Certificate::read(info.peer_leaf()?)?.common_name()?,
        SSL_SIG_ALG => ours()?.signature(),
        SSL_KEY_ALG => ours()?.key(),
        _ => return None,
    };
    Some(text.into_bytes())
}

fn ssl(call: &mut VmodCall<'_>) -> Option<(u8, u32)> {
    let tlvs = call.ctx.proxy_tlvs()?;
    let value = tlv(&tlvs, SSL)?;
    let (flags, rest) = value.split_first()?;
    Some((*flags, u32::from_be_bytes(*rest.first_chunk()?)))
}

fn flag(call: &mut VmodCall<'_>, flag: u8) -> CallResult<BOOL> {
    let found = match call.ctx.tls() {
        Some(info) => flag == CLIENT_SSL || info.peer_leaf().is_some(),
        None => ssl(call).is_some_and(|(flags, _)| flags & flag == flag),
    };
    give(found)
}

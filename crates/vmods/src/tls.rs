// SPDX-License-Identifier: BSD-2-Clause
//! vmod_tls(3) of release 9: what the TLS handshake of a connection agreed on; and, of our own, who the client is by its
//! certificate and which program it may be. On a connection without TLS all of it is unset.

use ::tls::Info;
use ::tls::certificate::Certificate;
use vmod_support::args::fail;
use vmod_support::codec::Code;
use vrt::Method;
use vrt::vmod::{Call, CallResult, Methods, STRING, give};

/// Subroutines in which release 9 has these functions: for the client's connection, and in vcl_backend_response for the
/// origin's.
const BOTH: Methods = Methods::CLIENT.with(Method::BackendResponse.set());

vrt::vmod! {
    /// TLS: of the client's connection on the client side, of the origin's in vcl_backend_response
    pub(crate) static VMOD = tls;

    functions {
        /// Whether the connection has TLS
        fn is_tls() -> BOOL, local, only(BOTH) = |call: &mut Call<'_>| give(call.ctx.tls().is_some());

        /// The version: TLSv1.3
        fn version() -> STRING, local, only(BOTH) = |call: &mut Call<'_>| text(call, |info| Some(info.version.name()));

        /// The cipher suite, by OpenSSL's name
        fn cipher() -> STRING, local, only(BOTH) = |call: &mut Call<'_>| text(call, |info| Some(info.cipher()));

        /// The host name that was asked for (SNI)
        fn authority() -> STRING, local, only(BOTH) = |call: &mut Call<'_>| text(call, |info| info.sni.as_deref());

        /// The protocol agreed by ALPN
        fn alpn() -> STRING, local, only(BOTH) = alpn;

        /// How the server's certificate was signed: RSA-SHA256, ecdsa-with-SHA256
        fn cert_sign() -> STRING, local, only(BOTH) = |call: &mut Call<'_>| of_server(call, |certificate| certificate.signature());

        /// The key of the server's certificate: RSA2048, EC256
        fn cert_key() -> STRING, local, only(BOTH) = |call: &mut Call<'_>| of_server(call, |certificate| certificate.key());

        /// Which program the client may be, by its hello: version, ciphers, extensions, groups, point formats, in decimal; with the
        /// parameter tls_ja3 only. The version is always 772, as in release 9. Browsers shuffle their extensions: see ja4
        fn ja3() -> STRING, local = ja3;

        /// JA3 as lists have it: the MD5 of that text with the version that the hello says, mostly 771
        fn ja3_hash() -> STRING, local, only(Methods::CLIENT)
            = |call: &mut Call<'_>| of_client(call, |info| info.fingerprint.as_ref()?.ja3_hash());

        /// Which program the client may be, in whatever order it sends its extensions: t13d1516h2_8daaf6152771_e5627efa2ab1
        fn ja4() -> STRING, local, only(Methods::CLIENT)
            = |call: &mut Call<'_>| of_client(call, |info| Some(info.fingerprint.as_ref()?.ja4().to_owned()));

        /// The key exchange: X25519; unset in a session of TLS 1.2 that was resumed
        fn group() -> STRING, local, only(BOTH) = |call: &mut Call<'_>| text(call, |info| info.group_name());

        /// Whether an earlier session was taken up again
        fn resumed() -> BOOL, local, only(BOTH) = |call: &mut Call<'_>| give(call.ctx.tls().is_some_and(|info| info.resumed));

        /// Whether the client has a certificate. One that doesn't hold ends the handshake, so that this one does
        fn has_client_cert() -> BOOL, local, only(Methods::CLIENT) = |call: &mut Call<'_>| give(client(call).is_some());

        /// SUCCESS, or NONE without a certificate, as other servers' variables say it
        fn client_cert_verify() -> STRING, local, only(Methods::CLIENT)
            = |call: &mut Call<'_>| give(if client(call).is_some() { "SUCCESS" } else { "NONE" });

        /// Whom the client's certificate is of (CN=a.example,O=Some\, Inc.)
        fn client_cert_subject() -> STRING, local, only(Methods::CLIENT)
            = |call: &mut Call<'_>| give(client(call).map(|certificate| certificate.subject()));

        /// Who signed it
        fn client_cert_issuer() -> STRING, local, only(Methods::CLIENT)
            = |call: &mut Call<'_>| give(client(call).map(|certificate| certificate.issuer()));

        /// Its serial number in hex
        fn client_cert_serial() -> STRING, local, only(Methods::CLIENT)
            = |call: &mut Call<'_>| give(client(call).map(|certificate| certificate.serial()));

        /// SHA-256 of it in hex
        fn client_cert_fingerprint() -> STRING, local, only(Methods::CLIENT)
            = |call: &mut Call<'_>| give(client(call).map(|certificate| certificate.fingerprint()));

        /// Its alternative names: DNS:a.example, email:a@b.example
        fn client_cert_names() -> STRING, local, only(Methods::CLIENT)
            = |call: &mut Call<'_>| give(client(call).and_then(|certificate| certificate.alternative_names()));

        /// When it ends; 1970 without one
        fn client_cert_not_after() -> TIME, local, only(Methods::CLIENT)
            = |call: &mut Call<'_>| give(client(call).map_or(0.0, |certificate| certificate.validity().1 as f64));

        /// The certificate itself, as RFC 9440 wants it in a field Client-Cert: base64 between colons
        fn client_cert() -> STRING, local, only(Methods::CLIENT)
            = |call: &mut Call<'_>| give(client_der(call).map(|der| [&b":"[..], &Code::parse("BASE64").encode(der, false), b":"].concat()));
    }
}

fn text(call: &mut Call<'_>, pick: impl FnOnce(&Info) -> Option<&str>) -> CallResult<STRING> {
    give(call.ctx.tls().and_then(pick))
}

fn of_client(call: &mut Call<'_>, pick: impl FnOnce(&Info) -> Option<String>) -> CallResult<STRING> {
    give(call.ctx.tls().and_then(pick))
}

fn alpn(call: &mut Call<'_>) -> CallResult<STRING> {
    give(call.ctx.tls().and_then(|info| info.alpn.as_deref()))
}

/// A property of our own certificate, or of the origin's.
fn of_server(call: &mut Call<'_>, pick: fn(&Certificate<'_>) -> String) -> CallResult<STRING> {
    let is_client_side = Methods::CLIENT.has(call.method);
    let info = call.ctx.tls();
    let der = info.and_then(|info| if is_client_side { info.own_leaf() } else { info.peer_leaf() });
    give(der.and_then(Certificate::read).map(|certificate| pick(&certificate)))
}

fn ja3(call: &mut Call<'_>) -> CallResult<STRING> {
    if !Methods::CLIENT.has(call.method) {
        return fail("tls.ja3() can only be used in client context");
    }
    // Release 9 writes what its library holds for the version before it has read the hello's: 1.3.
    let text = call.ctx.tls().and_then(|info| info.fingerprint.as_ref()?.ja3());
    give(text.and_then(|text| text.split_once(',')).map(|(_, lists)| format!("772,{lists}")))
}

fn client_der<'a>(call: &'a mut Call<'_>) -> Option<&'a [u8]> {
    // On the backend side the peer is the origin.
    if Methods::CLIENT.has(call.method) { call.ctx.tls()?.peer_leaf() } else { None }
}

fn client<'a>(call: &'a mut Call<'_>) -> Option<Certificate<'a>> {
    client_der(call).and_then(Certificate::read)
}

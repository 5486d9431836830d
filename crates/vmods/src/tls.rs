// SPDX-License-Identifier: BSD-2-Clause
//! vmod_tls(3) of release 9: what the TLS handshake of a connection agreed on; and, of our own, who the client is by its
//! certificate and which program it may be. On a connection without TLS all of it is unset.

use ::tls::HandshakeInfo;
use ::tls::certificate::Certificate;
use vmod_support::args::fail;
use vmod_support::codec::ByteEncoding;
use vrt::Method;
use vrt::vmod::{CallResult, Methods, STRING, VmodCall, give};

/// Subroutines in which release 9 has these functions: for the client's connection, and in vcl_backend_response for the
/// origin's.
const BOTH: Methods = Methods::CLIENT.with(Method::BackendResponse.set());

vrt::vmod! {
    /// TLS properties: of the client's connection on the client side, of the backend's in vcl_backend_response
    pub(crate) static VMOD = tls;

    functions {
        /// Returns whether the connection uses TLS
        fn is_tls() -> BOOL, local, restrict(BOTH) = |call: &mut VmodCall<'_>| give(call.ctx.tls().is_some());

        /// Returns the version, such as TLSv1.3
        fn version() -> STRING, local, restrict(BOTH) = |call: &mut VmodCall<'_>| text(call, |info| Some(info.version.name()));

        /// Returns the cipher suite, with OpenSSL's name
        fn cipher() -> STRING, local, restrict(BOTH) = |call: &mut VmodCall<'_>| text(call, |info| Some(info.cipher()));

        /// Returns the requested host name (SNI)
        fn authority() -> STRING, local, restrict(BOTH) = |call: &mut VmodCall<'_>| text(call, |info| info.sni.as_deref());

        /// Returns the protocol negotiated by ALPN
        fn alpn() -> STRING, local, restrict(BOTH) = alpn;

        /// Returns the signature algorithm of the server's certificate: RSA-SHA256, ecdsa-with-SHA256
        fn cert_sign() -> STRING, local, restrict(BOTH) = |call: &mut VmodCall<'_>| of_server(call, |certificate| certificate.signature());

        /// Returns the key type of the server's certificate: RSA2048, EC256
        fn cert_key() -> STRING, local, restrict(BOTH) = |call: &mut VmodCall<'_>| of_server(call, |certificate| certificate.key());

        /// Returns the JA3 fingerprint of the client: version, ciphers, extensions, groups and point formats of its
        /// ClientHello, in decimal. Requires the parameter tls_ja3. The version is always 772, as in release 9. Browsers
        /// shuffle their extensions: see ja4
        fn ja3() -> STRING, local = ja3;

        /// Returns the JA3 hash as in public lists: the MD5 of the JA3 string with the version in the ClientHello, mostly
        /// 771
        fn ja3_hash() -> STRING, local, only(Methods::CLIENT)
            = |call: &mut VmodCall<'_>| of_client(call, |info| info.fingerprint.as_ref()?.ja3_hash());

        /// Returns the JA4 fingerprint of the client, which doesn't depend on the order of extensions:
        /// t13d1516h2_8daaf6152771_e5627efa2ab1
        fn ja4() -> STRING, local, only(Methods::CLIENT)
            = |call: &mut VmodCall<'_>| of_client(call, |info| Some(info.fingerprint.as_ref()?.ja4().to_owned()));

        /// Returns the key exchange group, such as X25519; unset in a resumed TLS 1.2 session
        fn group() -> STRING, local, restrict(BOTH) = |call: &mut VmodCall<'_>| text(call, |info| info.group_name());

        /// Returns whether the session was resumed
        fn resumed() -> BOOL, local, restrict(BOTH) = |call: &mut VmodCall<'_>| give(call.ctx.tls().is_some_and(|info| info.resumed));

        /// Returns whether the client sent a certificate. It is valid, because an invalid one ends the handshake
        fn has_client_cert() -> BOOL, local, only(Methods::CLIENT) = |call: &mut VmodCall<'_>| give(client(call).is_some());

        /// Returns SUCCESS, or NONE without a certificate, like the variables of other servers
        fn client_cert_verify() -> STRING, local, only(Methods::CLIENT)
            = |call: &mut VmodCall<'_>| give(if client(call).is_some() { "SUCCESS" } else { "NONE" });

        /// Returns the subject of the client's certificate (CN=a.example,O=Some\, Inc.)
        fn client_cert_subject() -> STRING, local, only(Methods::CLIENT)
            = |call: &mut VmodCall<'_>| give(client(call).map(|certificate| certificate.subject()));

        /// Returns the issuer of the client's certificate
        fn client_cert_issuer() -> STRING, local, only(Methods::CLIENT)
            = |call: &mut VmodCall<'_>| give(client(call).map(|certificate| certificate.issuer()));

        /// Returns the serial number of the client's certificate in hex
        fn client_cert_serial() -> STRING, local, only(Methods::CLIENT)
            = |call: &mut VmodCall<'_>| give(client(call).map(|certificate| certificate.serial()));

        /// Returns the SHA-256 fingerprint of the client's certificate in hex
        fn client_cert_fingerprint() -> STRING, local, only(Methods::CLIENT)
            = |call: &mut VmodCall<'_>| give(client(call).map(|certificate| certificate.fingerprint()));

        /// Returns the alternative names in the client's certificate: DNS:a.example, email:a@b.example
        fn client_cert_names() -> STRING, local, only(Methods::CLIENT)
            = |call: &mut VmodCall<'_>| give(client(call).and_then(|certificate| certificate.alternative_names()));

        /// Returns the expiry of the client's certificate; 1970 without one
        fn client_cert_not_after() -> TIME, local, only(Methods::CLIENT)
            = |call: &mut VmodCall<'_>| give(client(call).map_or(0.0, |certificate| certificate.validity().1 as f64));

        /// Returns the client's certificate for a Client-Cert header (RFC 9440): base64 between colons
        fn client_cert() -> STRING, local, only(Methods::CLIENT)
            = |call: &mut VmodCall<'_>| give(client_der(call).map(|der| [&b":"[..], &ByteEncoding::parse("BASE64").encode(der, false), b":"].concat()));
    }
}

fn text(call: &mut VmodCall<'_>, pick: impl FnOnce(&HandshakeInfo) -> Option<&str>) -> CallResult<STRING> {
    give(call.ctx.tls().and_then(pick))
}

fn of_client(call: &mut VmodCall<'_>, pick: impl FnOnce(&HandshakeInfo) -> Option<String>) -> CallResult<STRING> {
    give(call.ctx.tls().and_then(pick))
}

fn alpn(call: &mut VmodCall<'_>) -> CallResult<STRING> {
    give(call.ctx.tls().and_then(|info| info.alpn.as_deref()))
}

/// A property of our own certificate, or of the origin's.
fn of_server(call: &mut VmodCall<'_>, pick: fn(&Certificate<'_>) -> String) -> CallResult<STRING> {
    let is_client_side = Methods::CLIENT.has(call.method);
    let info = call.ctx.tls();
    let der = info.and_then(|info| if is_client_side { info.own_leaf() } else { info.peer_leaf() });
    give(der.and_then(Certificate::read).map(|certificate| pick(&certificate)))
}

fn ja3(call: &mut VmodCall<'_>) -> CallResult<STRING> {
    if !Methods::CLIENT.has(call.method) {
        return fail("tls.ja3() can only be used in client context");
    }
    // Release 9 writes what its library holds for the version before it has read the hello's: 1.3.
    let text = call.ctx.tls().and_then(|info| info.fingerprint.as_ref()?.ja3());
    give(text.and_then(|text| text.split_once(',')).map(|(_, lists)| format!("772,{lists}")))
}

fn client_der<'a>(call: &'a mut VmodCall<'_>) -> Option<&'a [u8]> {
    // On the backend side the peer is the origin.
    if Methods::CLIENT.has(call.method) { call.ctx.tls()?.peer_leaf() } else { None }
}

fn client<'a>(call: &'a mut VmodCall<'_>) -> Option<Certificate<'a>> {
    client_der(call).and_then(Certificate::read)
}

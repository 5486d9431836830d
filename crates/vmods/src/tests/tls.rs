// SPDX-License-Identifier: BSD-2-Clause
//! What VCL sees of TLS connections.

use ::tls::hello::{ClientHello, Fingerprint, HelloOutline};
use ::tls::{HandshakeInfo, TlsVersion};
use rcgen::{CertificateParams, DnType, KeyPair};
use testkit_tls::TlsWorld as Both;
use vrt::Method;

use super::VmodsWorld;

const NAMES: &str = "tls.is_tls() + \"|\" + tls.version() + \"|\" + tls.cipher() + \"|\" + tls.group() + \"|\" + tls.authority() + \"|\" + tls.alpn() + \
     \"|\" + tls.cert_sign() + \"|\" + tls.cert_key() + \"|\" + tls.resumed()";
const CLIENT: &str = "tls.has_client_cert() + \"|\" + tls.client_cert_verify() + \"|\" + tls.client_cert_subject() + \"|\" + tls.client_cert_issuer() + \
     \"|\" + tls.client_cert_serial() + \"|\" + tls.client_cert_names() + \"|\" + tls.client_cert_not_after()";

fn certificate(name: &str) -> Box<[u8]> {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.serial_number = Some(rcgen::SerialNumber::from_slice(&[1, 0xab]));
    params.not_after = rcgen::date_time_ymd(2030, 1, 1);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec().into()
}

/// A hello of TLS 1.2 with two ciphers and one extension (of no length).
fn fingerprint(with_ja3: bool) -> Fingerprint {
    let hello = [&[3, 3][..], &[7; 32], &[0, 0, 4, 0x13, 0x01, 0xc0, 0x2b, 1, 0, 0, 4, 0, 23, 0, 0]].concat();
    Fingerprint::new(&HelloOutline::new(&ClientHello::parse(&hello).unwrap()), with_ja3)
}

fn info() -> HandshakeInfo {
    HandshakeInfo {
        early_data: false,
        version: TlsVersion::Tls13,
        suite: 0x1301,
        group: 29,
        resumed: false,
        sni: Some("a.example".into()),
        alpn: Some((*b"http/1.1").into()),
        peer_leaf: None,
        own_leaf: None,
        clients: None,
        fingerprint: Some(Box::new(fingerprint(true))),
        is_compressed: false,
    }
}

/// Value of `expr` in a subroutine on a connection of this kind.
fn said(expr: &str, method: Method, info: Option<HandshakeInfo>) -> String {
    let (head, end) = if method == Method::Recv { ("req", "hash") } else { ("bereq", "deliver") };
    let sub = method.sub_name();
    let text = format!(
        "vcl 4.1; import tls; import proxy; backend none none; sub {sub} {{ set {head}.http.out = \"\" + {expr}; return ({end}); }}"
    );
    let mut world = VmodsWorld::new(&text);
    world.ctx.tls = info;
    let ended = world.run(method);
    if ended.starts_with("Failed") {
        return ended;
    }
    let found = if method == Method::Recv { &world.ctx.req } else { &world.ctx.bereq }.get("out");
    String::from_utf8_lossy(found.unwrap_or(b"<unset>")).into_owned()
}

#[test]
fn without_tls_all_is_unset() {
    for method in [Method::Recv, Method::BackendResponse] {
        assert_eq!(said(NAMES, method, None), "false||||||||false");
    }
    let of_client = format!("{CLIENT} + \"|\" + tls.client_cert() + tls.ja3() + tls.ja3_hash() + tls.ja4()");
    assert_eq!(said(&of_client, Method::Recv, None), "false|NONE|||||Thu, 01 Jan 1970 00:00:00 GMT|");
}

#[test]
fn the_connection_and_the_servers_certificate() {
    let own = HandshakeInfo { own_leaf: Some(Both::new().make_server().leaf().clone()), ..info() };
    let expected = "true|TLSv1.3|TLS_AES_128_GCM_SHA256|X25519|a.example|http/1.1|ecdsa-with-SHA256|EC256|false";
    assert_eq!(said(NAMES, Method::Recv, Some(own)), expected);
    let origins = HandshakeInfo { peer_leaf: Some(certificate("a.example")), resumed: true, ..info() };
    assert_eq!(said(NAMES, Method::BackendResponse, Some(origins)), expected.replace("false", "true"));
    let bare = HandshakeInfo { version: TlsVersion::Tls12, suite: 0xc02b, group: 0, sni: None, alpn: None, ..info() };
    assert_eq!(said(NAMES, Method::Recv, Some(bare)), "true|TLSv1.2|ECDHE-ECDSA-AES128-GCM-SHA256||||||false");
}

#[test]
fn the_clients_certificate() {
    let der = certificate("alice");
    let with = HandshakeInfo { peer_leaf: Some(der.clone()), ..info() };
    assert_eq!(
        said(CLIENT, Method::Recv, Some(with.clone())),
        "true|SUCCESS|CN=alice|CN=alice|01AB|DNS:alice|Tue, 01 Jan 2030 00:00:00 GMT"
    );
    let fingerprint = said("tls.client_cert_fingerprint()", Method::Recv, Some(with.clone()));
    assert_eq!((fingerprint.len(), fingerprint.bytes().all(|byte| byte.is_ascii_hexdigit())), (64, true));
    let whole = said("tls.client_cert()", Method::Recv, Some(with));
    let base64 = whole.strip_prefix(':').and_then(|text| text.strip_suffix(':')).expect("colons");
    let decoded = vmod_support::codec::ByteEncoding::parse("BASE64").decode(base64.as_bytes(), None).expect("base64");
    assert_eq!(decoded, *der);
    assert_eq!(said(CLIENT, Method::Recv, Some(info())), "false|NONE|||||Thu, 01 Jan 1970 00:00:00 GMT");
}

#[test]
fn the_clients_program() {
    let all = "tls.ja3() + \"|\" + tls.ja3_hash() + \"|\" + tls.ja4()";
    let ja4 = "t12i020100_777cda164f4b_1ca028f07214";
    assert_eq!(
        said(all, Method::Recv, Some(info())),
        format!("772,4865-49195,23,,|c39d8832ae364394a277c3df5a6e3700|{ja4}")
    );
    let without = HandshakeInfo { fingerprint: Some(Box::new(fingerprint(false))), ..info() };
    assert_eq!(said(all, Method::Recv, Some(without)), format!("||{ja4}"));
    let failed = said("tls.ja3()", Method::BackendResponse, Some(info()));
    assert_eq!(failed, "Failed(tls.ja3() can only be used in client context)");
}

#[test]
fn an_origins_certificate_is_no_clients() {
    let origins = HandshakeInfo { peer_leaf: Some(certificate("a.example")), fingerprint: None, ..info() };
    let of_client = format!("{CLIENT} + \"|\" + tls.client_cert() + tls.ja3_hash() + tls.ja4()");
    let said = said(&of_client, Method::BackendResponse, Some(origins));
    assert_eq!(said, "false|NONE|||||Thu, 01 Jan 1970 00:00:00 GMT|");
}

#[test]
fn vcl_for_a_terminator_goes_on() {
    let all = "proxy.is_ssl() + \"|\" + proxy.ssl_version() + \"|\" + proxy.ssl_cipher() + \"|\" + proxy.authority() + \"|\" + proxy.alpn() + \
               \"|\" + proxy.cert_sign() + \"|\" + proxy.cert_key() + \"|\" + proxy.client_has_cert_sess() + proxy.client_has_cert_conn() + \
               \"|\" + proxy.client_cert_cn() + \"|\" + proxy.ssl_verify_result()";
    let own = HandshakeInfo { own_leaf: Some(Both::new().make_server().leaf().clone()), ..info() };
    let expected = "true|TLSv1.3|TLS_AES_128_GCM_SHA256|a.example|http/1.1|ecdsa-with-SHA256|EC256|falsefalse||0";
    assert_eq!(said(all, Method::Recv, Some(own.clone())), expected);
    let known = HandshakeInfo { peer_leaf: Some(certificate("alice")), ..own };
    assert_eq!(said(all, Method::Recv, Some(known)), expected.replace("falsefalse|", "truetrue|alice"));
    assert_eq!(said(all, Method::Recv, None), "false|||||||falsefalse||0");
}

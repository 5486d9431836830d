// SPDX-License-Identifier: BSD-2-Clause
//! Hashes and HMACs as OpenSSL makes them, and what it signed. The keys are made for these tests.

use super::*;
use crate::tests::CryptoWorld;
use proptest::prelude::*;

const PUBLIC: &str = "\
-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAq9WSyI/BJPnqiaGirbEo
fpVM1t84rzA6e8os+K+CrHyqzy8RImE+2kxm+tytSV2up8olzRaZsggMMW2fPmzZ
tYa4YIZj6R2YV7TEHuOrrkofRPWMbwSsA+RiYEXbGrAh2ImXAj551wtuMEA9IOKb
z3bqe3M3L3JZLPsCv6MxjujUfN7qlBZE5LyKCrNGyQLB6FyZErVKeyjJmu6ZmCBX
a8CcYPdtBufvWb0ZjygYl2CT+MRMIDheVhFVyejdHkr5R9IL30O81rVAozFdyqbg
SXgxnOqWXU+k3+CN8bXDfvLbff8azKsNATh34Jlj/KCfTcrPA1eLrOEmRSTQQodz
LwIDAQAB
-----END PUBLIC KEY-----
";
const SHORT: &str = "\
-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQCy7Um1VgdGuglAyZD32oyn+B3L
9PSmI7rvFeX0MDmBPyqlLtHMBD8FcCxI+0tXiPpm9bUVz1SwlaekgpIJSB4EhZjR
GYlzRRqNRoeIEEMdeA+D39i+ceYBRH5zPMhtWAPsiYfkAfNVB5YSU8UZsKkVB6UO
PdveiuZdgSfZwWLo3wIDAQAB
-----END PUBLIC KEY-----
";
/// The signatures of `header.payload`.
const SHA1: &str = "LgyCEOpYpbwKPi0KHFZIbV1u6sBeLiA/LUO2dD+iiA9+TrEgpmrne0WFA6Ao/0cO0pGphnNba6wSWvu7rPOXNOqvvJKClQGs269dCpyYsPs3UG\
     uqw1trp7ZhpHMxvIf48/ihmGr6DhB02VKOV7aw1TLazw6eaojUWWKpR5pv2aeoXoIIDlr8vAK+b/wPS3mvwxQDR+vNgtwqb+LjjjWJSqZT8V00\
     XcY2kVnWwlNCoT12xfYt0/Tag9AQg4xVkyKVRWgYpgEVG9e/RsCuChvH9xL4DCDmvS3GXn3KGj+Rrbq3BQtCTKUYZlPqm5AsrsZvT/8FWhg9+B\
     WR/JODJCLDRg==";
const SHA256: &str = "ge7D5sSd3+z5mXCmXxhBU+PMHbj0P92L2E9N1Cy5Yq3w4IyCRlkbS1/8G4DRm1RcrXXI02McB1MmqNMIB1Ny4M7iZ60B0SvI8WbMS8ArtzBz18\
     uSJZneyzVK/TedRNHgpKPL1R/VCuzu/bwAOpWjM45wI32sBv5B+F+aWcuZfkKGZCmhHHi/9RQ4Zs/0mY9w+Z07mP8RBlMUy4tMznekHRItdqeH\
     MMBD8pUTfuOdZEw8N/K2Gs5vEqYEYu/XLMRNhO8dQtHP1dgc8mXIACmCe3DHxNZpHD/1WK8yg4RUNAhJv/jEEkwRwxjl2RLULIa/So65P+SzeM\
     2EDq77F+zpVw==";
const SHA512: &str = "E/+A5lZogcEUXhkHywJP028/yIhNJ944ZUnLzU7dTao61mj350likqsoMXlIvI9+fWRQ6Or5jzUGsXfblbGU480h+cWKzpwH9OBejT7KdaDgEd\
     OkOZWtqzVVLa7sR4CO4dZBmVfPAP0DVr4REX9oZTeiba9nVijx15Oos4u8iYuJLyjXeFf3UkSAHLV6pb5y9GZ3N0etKtBgrd+NVToXkb9LQIy1\
     SXZHQF9wQkdYaeIuT8+ZIVtodzAdWBBobF3Z/tKzi+SNv2HekiOMCqm3SkaazOFaZZaxoSM09zZykpFnzturytw81lXmzhYeqtU0hPXkDp1SG2\
     8qxxO1WuwiqQ==";

fn world(init: &str, body: &str) -> CryptoWorld {
    CryptoWorld::with(&format!("import crypto; backend none none; sub vcl_init {{ {init} }}"), body)
}

#[track_caller]
fn check(init: &str, before: &str, expr: &str, wanted: &str) {
    assert_eq!(world(init, &format!("{before} set req.http.out = {expr};")).recv("out"), wanted, "{before} {expr}");
}

#[track_caller]
fn fails(init: &str, body: &str, reason: &str) {
    let action = world(init, body).run(Method::Recv);
    assert!(action.starts_with("Failed(") && action.contains(reason), "{body}: {action}");
}

fn verifier(digest: &str, pem: &str) -> String {
    format!("new v = crypto.verifier({digest}, {{\"{pem}\"}});")
}

#[test]
fn encodings() {
    for (expr, wanted) in [
        ("crypto.hex_encode(crypto.blob(\"k~\"))", "6b7e"),
        ("crypto.string(crypto.hex_decode(\"6B7e\"))", "k~"),
        ("crypto.base64_encode(crypto.blob(\"foob\"))", "Zm9vYg=="),
        ("crypto.string(crypto.base64_decode(\"Zm9vYg==\"))", "foob"),
        ("crypto.string(crypto.hex_decode(\"610062\"))", "a"),
        ("crypto.hex_encode(crypto.hex_decode(\"610062\"))", "610062"),
        (
            "\"<\" + crypto.hex_encode(crypto.blob(req.http.none)) + crypto.string(crypto.hex_decode(\"xy\")) + \">\"",
            "<>",
        ),
    ] {
        check("", "", expr, wanted);
    }
    let mut world = world("", "set req.http.out = crypto.base64_encode(crypto.base64_decode(\"a?\"));");
    world.recv("out");
    let log = world.log_texts();
    assert!(log.iter().any(|line| line.contains("crypto: base64_decode(): not in this encoding")), "{log:?}");
}

#[test]
fn hashes_and_their_parts() {
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    check("", "", "crypto.hex_encode(crypto.hash(sha256, \"abc\"))", abc);
    let parts = "crypto.hash_part(sha256, \"a\"); crypto.hash_part(md5, \"ab\"); crypto.hash_part(sha256, \"b\");";
    check("", parts, "crypto.hex_encode(crypto.hash(sha256, \"c\"))", abc);
    check("", parts, "crypto.hex_encode(crypto.hash(md5, \"c\"))", "900150983cd24fb0d6963f7d28e17f72");
    // The next one begins with nothing.
    let used = format!("{parts} set req.http.used = crypto.hex_encode(crypto.hash(sha256, \"c\"));");
    check("", &used, "crypto.hex_encode(crypto.hash(sha256, \"abc\"))", abc);
}

#[test]
fn hmacs() {
    let sum = "67a8bd4ba640d9a21689ff6c1137aa013f3a351612894bc1cf6c333c8eda3f4b";
    let key = "crypto.blob(\"secret\")";
    check("", "", &format!("crypto.hex_encode(crypto.hmac(sha256, {key}, \"header.payload\"))"), sum);
    check(
        "",
        "",
        "crypto.hex_encode(crypto.hmac(sha384, crypto.blob(\"secret\"), \"abc\"))",
        "6990e733fc90a053499f07eaac2d082b9218862226d3ff8f1a72df2b9e5abddaad80c4a2fe2ad5b3e56cab3c5d7adec1",
    );
    let init = format!("new h = crypto.hmac_init(sha256); h.set_key({key});");
    let add = "h.add_string(\"header\"); h.add_blob(crypto.blob(\".payload\"));";
    check(&init, add, "crypto.hex_encode(h.get())", sum);
    let used = format!("{add} set req.http.used = crypto.hex_encode(h.get()); {add}");
    check(&init, &used, "crypto.hex_encode(h.get())", sum);
    fails(
        "new h = crypto.hmac_init(sha1);",
        "set req.http.a = crypto.hex_encode(h.get());",
        "crypto: h.get(): no key was set",
    );
    fails(
        "",
        "set req.http.a = crypto.hex_encode(crypto.hmac(sha1, crypto.hex_decode(\"x\"), \"\"));",
        "crypto: hmac(): no key",
    );
    fails(&init, &format!("h.set_key({key});"), "crypto: h.set_key() works in vcl_init only");
}

#[test]
fn random_bytes() {
    let mut world = world(
        "",
        "set req.http.a = crypto.hex_encode(crypto.urandom()); set req.http.b = crypto.hex_encode(crypto.urandom()); \
         set req.http.c = crypto.hex_encode(crypto.urandom(3)); set req.http.d = crypto.uuid_v4();",
    );
    world.run(Method::Recv);
    let lens = ["a", "b", "c", "d"].map(|name| world.field(name).len());
    assert_eq!(lens, [32, 32, 6, 36]);
    assert_ne!(world.field("a"), world.field("b"));
    for bytes in ["0", "-1", "65537"] {
        let body = format!("set req.http.a = crypto.hex_encode(crypto.urandom({bytes}));");
        fails("", &body, &format!("crypto: urandom(): {bytes} is not from 1 to 65536"));
    }
}

#[test]
fn signatures() {
    let add =
        "if (v.update(\"header\" + \".pay\") && v.update_blob(crypto.blob(\"load\"))) { set req.http.added = 1; }";
    let valid = |signature: &str| format!("v.valid(crypto.base64_decode(\"{signature}\"))");
    for (digest, signature) in [("sha1", SHA1), ("sha256", SHA256), ("sha512", SHA512)] {
        let init = verifier(digest, PUBLIC);
        check(&init, add, &format!("{0} + {0}", valid(signature)), "truetrue");
        check(&init, "", &valid(signature), "false");
        check(&init, &format!("{add} {add}"), &valid(signature), "false");
        check(&init, &format!("{add} v.reset(); {add}"), &valid(signature), "true");
        check(&init, "v.update(\"Header.payload\");", &valid(signature), "false");
        check(&verifier("sha384", PUBLIC), add, &valid(signature), "false");
    }
    let init = verifier("sha256", PUBLIC);
    check(&init, add, &format!("{} + {}", valid(""), valid("?")), "falsefalse");
    check(&init, add, &valid(&SHA256.replacen('g', "h", 1)), "false");
    // What one task added is none of the next one's.
    let mut world = world(&init, &format!("v.update(\"header.payload\"); set req.http.out = {};", valid(SHA256)));
    for _ in 0..2 {
        assert_eq!(world.recv("out"), "true");
        world.end_task();
    }
}

#[test]
fn keys_that_are_none() {
    for (pem, reason) in [
        ("", "v: pem is no public key of RSA in PEM"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "v: pem is no public key of RSA in PEM"),
        (SHORT, "v: the key has 1024 bits, which is not from 2048 to 8192"),
    ] {
        let text = format!("vcl 4.1; import crypto; backend none none; sub vcl_init {{ {} }}", verifier("sha256", pem));
        let error = CryptoWorld::try_new(&text).err().expect("refused");
        assert!(error.contains(reason), "{error}");
    }
    let text = "vcl 4.1; import crypto; backend none none; sub vcl_init { new h = crypto.hmac_init(sha1); h.set_key(crypto.blob(\"\")); }";
    let error = CryptoWorld::try_new(text).err().expect("refused");
    assert!(error.contains("crypto: h.set_key(): the key is empty"), "{error}");
}

#[test]
fn what_isnt_built_is_refused_by_name() {
    for (body, instead) in [
        ("set req.http.a = crypto.aes_decrypt(crypto.blob(\"a\"));", "a backend that encrypts"),
        ("crypto.aes_skip_response();", "a backend that encrypts"),
        ("set req.http.a = crypto.string(crypto.secret());", "std.fileread"),
        ("new k = crypto.key();", "crypto.verifier"),
        ("new s = crypto.signer(sha256, \"\");", "jwt.writer"),
    ] {
        let sub = if body.starts_with("new") { "vcl_init" } else { "vcl_deliver" };
        let error = CryptoWorld::try_new(&format!("vcl 4.1; import crypto; backend none none; sub {sub} {{ {body} }}"));
        let error = error.err().expect("refused");
        assert!(error.contains("That isn't built into Lacquer. Instead: ") && error.contains(instead), "{error}");
    }
}

#[test]
fn no_more_than_may_be_added() {
    let mut added = Additions::default();
    assert!(added.add(&vec![0; MAX], "add_blob").is_ok());
    assert!(added.add(b"", "add_blob").is_ok());
    assert!(added.add(b"a", "add_blob").is_err());
    assert_eq!(added.0.len(), MAX);
}

proptest! {
    #[test]
    fn any_text_is_decoded_or_refused(text in "[0-9a-fA-F]{0,9}|[A-Za-z0-9+/=]{0,9}|[ -~&&[^\"%]]{0,9}") {
        for (decode, encode, code) in [("hex_decode", "hex_encode", ByteEncoding::Hex), ("base64_decode", "base64_encode", ByteEncoding::parse("BASE64"))] {
            let expr = format!("\"<\" + crypto.{encode}(crypto.{decode}({{\"{text}\"}}))");
            let wanted = code.decode(text.as_bytes(), None).map(|bytes| code.encode(&bytes, false)).unwrap_or_default();
            let mut world = world("", &format!("set req.http.out = {expr};"));
            prop_assert_eq!(world.recv("out"), format!("<{}", String::from_utf8_lossy(&wanted)));
        }
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! The modules as VCL calls them.

use testkit_vcl::{TestModules, VclWorld as AnyWorld};
use vrt::vmod::Vmod;

pub(crate) struct CryptoModules;

impl TestModules for CryptoModules {
    const ALL: &'static [&'static Vmod] = crate::ALL;
    const MODULES: testkit_vcl::Signatures = crate::MODULES;
}

pub(crate) type CryptoWorld = AnyWorld<CryptoModules>;

/// The value of `expr` in vcl_recv of a VCL with these lines before it.
fn with(top: &str, init: &str, expr: &str) -> String {
    let declarations = format!("{top} backend b1 {{ .host = \"127.0.0.1\"; }} sub vcl_init {{ {init} return (ok); }}");
    CryptoWorld::with(&declarations, &format!("set req.http.out = {expr};")).recv("out")
}

/// Given by libvmod-digest 1.0.2 over libmhash 0.9.9.
#[test]
fn digests() {
    let digest = |expr: &str| with("import digest;", "", &format!("\"\" + digest.{expr}"));
    let hashes = [
        ("adler32", "27014d02"),
        ("crc32", "73bb8c64"),
        ("crc32b", "c2412435"),
        ("gost", "f3134348c44fb1b2a277729e2285ebb5cb5e0f29c975bc753b70497c06a4d51d"),
        ("md2", "da853b0d3f88d99b30283a69e6ded6bb"),
        ("md4", "a448017aaf21d8525fc10ae87aa6729d"),
        ("md5", "900150983cd24fb0d6963f7d28e17f72"),
        ("ripemd128", "c14a12199c66e4ba84636b0f69144c77"),
        ("ripemd160", "8eb208f7e05d987a9b044a8e98c6b087f15a0bfc"),
        ("ripemd256", "afbd6e228b9d8cbbcef5ca2d03e6dba10ac0bc7dcbe4680e1e42d2e975459b65"),
        ("ripemd320", "de4c01b3054f8930a79d09ae738e92301e5a17085beffdc1b8d116713e74f82fa942d64cdbc4682d"),
        ("sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        ("sha224", "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"),
        ("sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ("sha384", "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7"),
        (
            "sha512",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
    ];
    for (name, want) in hashes {
        assert_eq!(digest(&format!("hash_{name}(\"abc\")")), want, "{name}");
    }
    let others = [
        ("hash_md5(req.http.nope)", "d41d8cd98f00b204e9800998ecf8427e"),
        ("hmac_md5(\"key\", \"abc\")", "0xd2fe98063f876b03193afb49b4979591"),
        ("hmac_sha1(\"key\", \"abc\")", "0x4fd0b215276ef12f2b3e4c8ecac2811498b656fc"),
        ("hmac_sha256(\"key\", \"abc\")", "0x9c196e32dc0175f86f4b1cb89289d6619de6bee699e4c378e68309ed97a1a6ab"),
        ("hmac_md5(\"x\", req.http.nope)", "0x197cf37961819444d1a46c8d4e7c2fdc"),
        ("hmac_md5(req.http.nope, \"x\")", ""),
        ("base64(\"hello>>>???\")", "aGVsbG8+Pj4/Pz8="),
        ("base64url(\"hello>>>???\")", "aGVsbG8-Pj4_Pz8="),
        ("base64url_nopad(\"hello>>>???\")", "aGVsbG8-Pj4_Pz8"),
        ("base64_hex(\"0xdd26bfddf122c1055d4c\")", "3Sa/3fEiwQVdTA=="),
        ("base64_hex(\"dd26bfddf122c1055d4\")", "3Sa/3fEiwQVd"),
        ("base64_hex(\"zz26\")", "ACY="),
        ("base64url_nopad_hex(\"0xfbff\")", "-_8"),
        ("base64_decode(\"aGVsbG8+Pj4/Pz8=\")", "hello>>>???"),
        ("base64url_nopad_decode(\"aGVsbG8-Pj4_Pz8\")", "hello>>>???"),
        ("base64_decode(\"aGVsbG8\")", "hello"),
        ("base64_decode(\"YQBi\")", "a"),
        ("base64_decode(\"aGV!sbG8\")", ""),
        ("base64url_decode(\"aGV+\")", ""),
        ("base64(req.http.nope)", ""),
    ];
    for (expr, want) in others {
        assert_eq!(digest(expr), want, "{expr}");
    }
}

#[test]
fn uuids() {
    let uuid = |expr: &str| with("import uuid;", "", &format!("\"\" + uuid.{expr}"));
    // RFC 9562, appendices A.2 and A.4.
    assert_eq!(uuid("uuid_v3(\"ns:DNS\", \"www.example.com\")"), "5df41881-3aed-3515-88a7-2f4a814cf09e");
    assert_eq!(uuid("uuid_v5(\"ns:DNS\", \"www.example.com\")"), "2ed6657d-e927-568b-95e1-2665a8aea6a2");
    let dns = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
    assert_eq!(uuid(&format!("uuid_v5(\"{dns}\", \"www.example.com\")")), "2ed6657d-e927-568b-95e1-2665a8aea6a2");
    assert_eq!(uuid("uuid_v5(\"ns:dns\", \"x\")"), "");
    for (expr, version) in [("uuid()", b'1'), ("uuid_v1()", b'1'), ("uuid_v4()", b'4')] {
        let (one, two) = (uuid(expr), uuid(expr));
        assert!(one.len() == 36 && one.as_bytes()[14] == version && one != two, "{one} {two}");
    }
}

#[test]
fn passwords_in_a_file() {
    let path = std::env::temp_dir().join(format!("lacquer-basicauth-{}", std::process::id()));
    std::fs::write(&path, "u:$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/\nold:abJnggxhB/yWI\n").expect("writable");
    let auth =
        |file: &str, field: &str| with("import basicauth;", "", &format!("basicauth.match(\"{file}\", {field})"));
    let file = path.display().to_string();
    assert_eq!(auth(&file, "\"Basic dTpzZWNyZXQ=\""), "true");
    assert_eq!(auth(&file, "\"Basic dTpvdGhlcg==\""), "false");
    assert_eq!(auth(&file, "\"Basic bm9ib2R5OnNlY3JldA==\""), "false");
    assert_eq!(auth(&file, "req.http.none"), "false");
    // old:x
    assert!(auth(&file, "\"Basic b2xkOng=\"").contains("old's password is of crypt: make it with htpasswd -B"));
    std::fs::remove_file(&path).expect("there");
    assert!(auth(&file, "\"Basic dTpzZWNyZXQ=\"").contains("No such file or directory"));
}

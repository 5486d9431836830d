// SPDX-License-Identifier: BSD-2-Clause
//! Tokens that OpenSSL signed, the example of RFC 7515 A.1, and what must not count. The keys are made for these tests.

use proptest::prelude::*;
use vrt::Method;

use super::*;
use crate::tests::CryptoWorld;

const RSA: &str = "\
-----BEGIN PRIVATE KEY-----
MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQCzCaF6oSOda3sZ
4RSdJ8cH8uutNurs0vLr+WkSQonMg21M3Ga5kZB6AdjUGB/RTAb6dafD4qGXBB4e
PnlBLSB/pjcprza8ey1X26m+Kfx7AA49zXzq9Ql/4PYMv+/nyAJSGlXRV+68TOpJ
WDxVis2bDMlLYjjK/YUY1VW1izTdHlrGOSqNG+0AajooaHLNA+M/77PfGEyvRNLs
pg2g5WAxHbTIKm3jUHdGfxehM/mXDaIO7yt7COpoJfeYfzcVhiselF4WJL30QBVO
8PWymV/lIDS0Zfw/3QwlrGKcCOCUyhR+rkoTIYsQQk+PJT2vlgPW9ZAo8zXXOc4u
eV56rXdxAgMBAAECggEAHpyfcQ27Pq/BaQ/ci/BgrgHBfSjeKyb4ZROMfRRGZmL0
XcdzgvgaGVpWfhEv44PZz5otWKdX1K/eDHLHHbc/DsRXOzfbpodzHcoPsFWSd19v
j+6iFLRX7vcCavSoatt+VhZtpPEhfy2xg1/kVQX6GLArfMmrBz4oszHKyVMnc0Tz
KPgP0cOpGzvBcm1a9CKjFAHf9eaMXFEejRGIFjv33Nre9op7SbKjC2NaQfKZiN0m
pdnyXIPA1FvAQQjcglFc2YNXE0LUgwJwYA1iGXKeZ/Sxsk53e6t1Y/pU2qEqhDg9
FwZZIH2YWu1mSv2sG0qAE1WnZtQIYLFXC4M9AlTOfwKBgQDxUg7TFK+LTosXVRuF
UuiljAZ6Ytsv7mPqkUWNIW15+MWEsqD5rrjGrFajWEHZ9Ika69CDRZKpP1iVr7mV
f0CAWuRTo1cRNP+Ll5QW+k/VI8Wsm6YM399xdczxaoMQzsbMBHK7Y9vEqFKQxKaF
jAvpeZLpViHgmDT/lD7G+yzsUwKBgQC97a2EMf1mKeJpCcUK9bk//tjDycn8WX1h
5JlfkiTFrhwhSxykiComR+0tWliiNie9KASeiNL3g1PRFRoUhU/dKlR+xCMW54H7
lJ6g5xUItAJjeYKKnCJFRH3tnP1Ny1GUmBUO+sjhP9vjG2qChTEh8SXF9oEpdPEN
Ipb4AlJ0qwKBgQDSJ4Tze7M4XQkyI5LY84/ZA21szYRWZIOs9iAcvLyrGONiIXGg
nvEZS2IT1DtcxOFViYFHoKINNDY//Q1gTLZuUTlAQSIEwSO+fB2iORCm7AUswUvF
MH1VQKJep0RGsdxcNY9484ii5Xcpzae663BAPfibrb/I6KRW4tIc1QaVMwKBgDwy
rSCNR6et9tkcA5wprgGeoM3Nk3usUZVJg2NLSuRs/vV+fSGZFuLzQTVywU0IpSfL
G0u0SkmxEkveyFlgt6N92zIisIx97DD1NiIBnCUaCPfGd52/Rw11XASIEbEqlDzo
xyPsUOcz+lnNQsEDvkLnz/Ui4GVnb0+eewM4mTHpAoGBAMYgGk9ztiCBnLU7yrAx
iKtSYANN/PKl8AoaBAB4Gz2bbfOmSz87Nu82mck05vC9LaaFza0t7z8idaZwj+vI
hLVco3frihA/BYJ7j843tvDVAidbgjt+hFREeAmbrUp/PC6K3Tdslvs54yhUSFcE
0NtoMmu1rHAUNz25GXR1m/yq
-----END PRIVATE KEY-----
";
const RSA_1: &str = "\
-----BEGIN RSA PRIVATE KEY-----
MIIEpAIBAAKCAQEAswmheqEjnWt7GeEUnSfHB/LrrTbq7NLy6/lpEkKJzINtTNxm
uZGQegHY1Bgf0UwG+nWnw+KhlwQeHj55QS0gf6Y3Ka82vHstV9upvin8ewAOPc18
6vUJf+D2DL/v58gCUhpV0VfuvEzqSVg8VYrNmwzJS2I4yv2FGNVVtYs03R5axjkq
jRvtAGo6KGhyzQPjP++z3xhMr0TS7KYNoOVgMR20yCpt41B3Rn8XoTP5lw2iDu8r
ewjqaCX3mH83FYYrHpReFiS99EAVTvD1splf5SA0tGX8P90MJaxinAjglMoUfq5K
EyGLEEJPjyU9r5YD1vWQKPM11znOLnleeq13cQIDAQABAoIBAB6cn3ENuz6vwWkP
3IvwYK4BwX0o3ism+GUTjH0URmZi9F3Hc4L4GhlaVn4RL+OD2c+aLVinV9Sv3gxy
xx23Pw7EVzs326aHcx3KD7BVkndfb4/uohS0V+73Amr0qGrbflYWbaTxIX8tsYNf
5FUF+hiwK3zJqwc+KLMxyslTJ3NE8yj4D9HDqRs7wXJtWvQioxQB3/XmjFxRHo0R
iBY799za3vaKe0myowtjWkHymYjdJqXZ8lyDwNRbwEEI3IJRXNmDVxNC1IMCcGAN
Yhlynmf0sbJOd3urdWP6VNqhKoQ4PRcGWSB9mFrtZkr9rBtKgBNVp2bUCGCxVwuD
PQJUzn8CgYEA8VIO0xSvi06LF1UbhVLopYwGemLbL+5j6pFFjSFtefjFhLKg+a64
xqxWo1hB2fSJGuvQg0WSqT9Yla+5lX9AgFrkU6NXETT/i5eUFvpP1SPFrJumDN/f
cXXM8WqDEM7GzARyu2PbxKhSkMSmhYwL6XmS6VYh4Jg0/5Q+xvss7FMCgYEAve2t
hDH9ZiniaQnFCvW5P/7Yw8nJ/Fl9YeSZX5Ikxa4cIUscpIgqJkftLVpYojYnvSgE
nojS94NT0RUaFIVP3SpUfsQjFueB+5SeoOcVCLQCY3mCipwiRUR97Zz9TctRlJgV
DvrI4T/b4xtqgoUxIfElxfaBKXTxDSKW+AJSdKsCgYEA0ieE83uzOF0JMiOS2POP
2QNtbM2EVmSDrPYgHLy8qxjjYiFxoJ7xGUtiE9Q7XMThVYmBR6CiDTQ2P/0NYEy2
blE5QEEiBMEjvnwdojkQpuwFLMFLxTB9VUCiXqdERrHcXDWPePOIouV3Kc2nuutw
QD34m62/yOikVuLSHNUGlTMCgYA8Mq0gjUenrfbZHAOcKa4BnqDNzZN7rFGVSYNj
S0rkbP71fn0hmRbi80E1csFNCKUnyxtLtEpJsRJL3shZYLejfdsyIrCMfeww9TYi
AZwlGgj3xnedv0cNdVwEiBGxKpQ86Mcj7FDnM/pZzULBA75C58/1IuBlZ29PnnsD
OJkx6QKBgQDGIBpPc7YggZy1O8qwMYirUmADTfzypfAKGgQAeBs9m23zpks/Ozbv
NpnJNObwvS2mhc2tLe8/InWmcI/ryIS1XKN364oQPwWCe4/ON7bw1QInW4I7foRU
RHgJm61Kfzwuit03bJb7OeMoVEhXBNDbaDJrtaxwFDc9uRl0dZv8qg==
-----END RSA PRIVATE KEY-----
";
const RSA_PUBLIC: &str = "\
-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAswmheqEjnWt7GeEUnSfH
B/LrrTbq7NLy6/lpEkKJzINtTNxmuZGQegHY1Bgf0UwG+nWnw+KhlwQeHj55QS0g
f6Y3Ka82vHstV9upvin8ewAOPc186vUJf+D2DL/v58gCUhpV0VfuvEzqSVg8VYrN
mwzJS2I4yv2FGNVVtYs03R5axjkqjRvtAGo6KGhyzQPjP++z3xhMr0TS7KYNoOVg
MR20yCpt41B3Rn8XoTP5lw2iDu8rewjqaCX3mH83FYYrHpReFiS99EAVTvD1splf
5SA0tGX8P90MJaxinAjglMoUfq5KEyGLEEJPjyU9r5YD1vWQKPM11znOLnleeq13
cQIDAQAB
-----END PUBLIC KEY-----
";
const RSA_PUBLIC_1: &str = "\
-----BEGIN RSA PUBLIC KEY-----
MIIBCgKCAQEAswmheqEjnWt7GeEUnSfHB/LrrTbq7NLy6/lpEkKJzINtTNxmuZGQ
egHY1Bgf0UwG+nWnw+KhlwQeHj55QS0gf6Y3Ka82vHstV9upvin8ewAOPc186vUJ
f+D2DL/v58gCUhpV0VfuvEzqSVg8VYrNmwzJS2I4yv2FGNVVtYs03R5axjkqjRvt
AGo6KGhyzQPjP++z3xhMr0TS7KYNoOVgMR20yCpt41B3Rn8XoTP5lw2iDu8rewjq
aCX3mH83FYYrHpReFiS99EAVTvD1splf5SA0tGX8P90MJaxinAjglMoUfq5KEyGL
EEJPjyU9r5YD1vWQKPM11znOLnleeq13cQIDAQAB
-----END RSA PUBLIC KEY-----
";
const EC: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgEpkBMmONS6qpL2GJ
tQRIpC5RDaTwsqSHPEkkkzu7mtGhRANCAAS+e2CytNqfSbf6/P3VkTkUCGKdJP02
I0w1RdHqB2sF1449cVgbSi8IJwZZCQJM9tFCR+pADA9d/U4BAr8k32F9
-----END PRIVATE KEY-----
";
const EC_PUBLIC: &str = "\
-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEvntgsrTan0m3+vz91ZE5FAhinST9
NiNMNUXR6gdrBdeOPXFYG0ovCCcGWQkCTPbRQkfqQAwPXf1OAQK/JN9hfQ==
-----END PUBLIC KEY-----
";
const EC_384_PUBLIC: &str = "\
-----BEGIN PUBLIC KEY-----
MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEWsy/sbZarBTiFwbC+MSwUVreCsfAo3kU
3pgH2CfpSkRPIKU087SbnuDmVKXpKVUx7dq0H9bDkrwfqG2pCzcK4D3jJV51BZxL
ZitxdPUfCJfsHF9chnUdxHfiYM3BMCDe
-----END PUBLIC KEY-----
";

const HS256: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJtZSIsImV4cCI6MjAwMDAwMDAwMH0.0sonAizk0Y4gr3VCbh7z7gAiep1CWKb\
     17s-cJ9TbRuU";
const RS256: &str = "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJtZSIsImV4cCI6MjAwMDAwMDAwMH0.Jip2gUAGjt-1a-5oMPH-fAbrt9n5LG5\
     bM8GSLS96o8HQAz6qaJeEsIF6YFHHk7uz9_LFWE8cUXjusopKtIOp9zkKMVdJ-79CVOnCH4BV09HlBDcxCRju6srO8bziPsZSinwGC7SeHWH\
     63zAuL-zOXrCl15_A6wO03mMYjy38WKdRGaZOh-2Yi9t5msLBLGCd_mngpvS-lWcefb9KaTTFoOACD_NStlHBozzvDC7S4c9OH9wHE5GCxKt\
     qhgTYmYAZ8x5LBheVICWHu4wCVPG-Kgd9G4CbqP7OuBQfYkxtHwRLz2LkBjDdpjmI98neAO8Ygrgu-yUuAGoP77Fses7X5Q";
const PS384: &str = "eyJhbGciOiJQUzM4NCIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJtZSIsImV4cCI6MjAwMDAwMDAwMH0.cRhFC9AdBtjJsRDTXtOmR6VXLh4s9wj\
     echYIhioqkHfWIeJZ7PL2mmN9BUTuWpkvYdMh-5PRIzzCUez-P0ab8TtDQKRPnz2iP_4iFjYy6pHJ7LLfxVPcyf1kDKdneFaclKM9JwXv-bs\
     k_tuj7EH-oTmDDweUNsnvzXaGiwWX8E-Xz7dl7OIDpcIIIfnMrUo8ug27gtNqFulql-DFfxa0-VRQY4zz_EKxrD8fggG2rcev8eZ5naUrZVt\
     QkHeIF9w11-FBKMM-VCxQ2LhgQ0C02_D-sjdMtnnIQH8vVjhqgU0PmH8Kecj8ipLQQkDlM89kPX4k1gzKxi1UwwDzOxynWQ";
const ES256: &str = "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJtZSIsImV4cCI6MjAwMDAwMDAwMH0.FwgDY-gkVY-jVQejrAahKtoAveMKvGB\
     qAdQyBjVMwo_A4Y3_sUOPqMnsWFVRPnzwEybcuHU_nAw6AISiPwfyRg";
const ES384: &str = "eyJhbGciOiJFUzM4NCIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJtZSIsImV4cCI6MjAwMDAwMDAwMH0.Ev3gZo_qcouibXQ0eEHlOY9zVIQXAIl\
     6dH5y1fy89q3KPefWakM8A0KQN9_6vZctuYSGadKEHOhuFdrGINmIH_mhBysydoxunRYuVAPXWR7qM6nQBuFMOcilsbCQud9x";

fn valid(token: &str, alg: &str, key: &[u8], now: f64) -> bool {
    let token = Token::parse(token.as_bytes()).expect("a token");
    token.is_valid(algorithm(alg.as_bytes(), "verify").expect("known"), &Keys::Text(Text::copy(key)), &at(now))
}

fn at(now: f64) -> Check {
    Check { kid: "none", exp: true, nbf: true, now }
}

/// The keys above as JSON; the RSA key's number is what its PKCS #1 has between the heads and the exponent.
fn jwk(of: &str, more: &str) -> String {
    let text = |bytes: &[u8]| String::from_utf8(ByteEncoding::parse(URL_CODE).encode(bytes, false)).expect("text");
    match of {
        "oct" => format!("{{\"kty\":\"oct\",\"k\":\"{}\"{more}}}", text(b"secret")),
        "RSA" => {
            let der = pem::rsa_public_key(RSA_PUBLIC.as_bytes()).expect("a key");
            let n = text(&der[9..der.len() - 5]);
            format!("{{\"kty\":\"RSA\",\"n\":\"{n}\",\"e\":\"AQAB\"{more}}}")
        }
        curve => {
            let key = if curve == "P-256" { EC_PUBLIC } else { EC_384_PUBLIC };
            let point = pem::ec_public_key(key.as_bytes()).expect("a key");
            let (x, y) = point[1..].split_at((point.len() - 1) / 2);
            format!("{{\"kty\":\"EC\",\"crv\":\"{curve}\",\"x\":\"{}\",\"y\":\"{}\"{more}}}", text(x), text(y))
        }
    }
}

fn valid_by_jwk(token: &str, alg: &str, keys: &str, kid: &'static str) -> bool {
    let token = Token::parse(token.as_bytes()).expect("a token");
    let keys = Keys::Jwk(jwk::keys(keys.as_bytes()));
    token.is_valid(algorithm(alg.as_bytes(), "verify").expect("known"), &keys, &Check { kid, ..at(1e9) })
}

#[test]
fn keys_in_json() {
    let of = [
        ("oct", HS256, "HS256"),
        ("RSA", RS256, "RS256"),
        ("RSA", PS384, "PS384"),
        ("P-256", ES256, "ES256"),
        ("P-384", ES384, "ES384"),
    ];
    let all = ["oct", "RSA", "P-256", "P-384"].map(|kind| jwk(kind, "")).join(",");
    for (kind, token, alg) in of {
        let one = jwk(kind, "");
        assert!(valid_by_jwk(token, alg, &one, "none"), "{alg}");
        assert!(valid_by_jwk(token, alg, &format!("{{\"keys\":[{all}]}}"), "optional"), "{alg}");
        assert!(valid_by_jwk(token, alg, &jwk(kind, &format!(",\"alg\":\"{alg}\"")), "none"), "{alg}");
        assert!(!valid_by_jwk(token, alg, &one, "required"), "{alg}: it has no kid");
        let (head, tail) = token.rsplit_once('.').expect("a token");
        let other = if tail.starts_with('A') { "B" } else { "A" };
        assert!(!valid_by_jwk(&format!("{head}.{other}{}", &tail[1..]), alg, &one, "none"), "{alg}: another signature");
        for (wrong, ..) in of.iter().filter(|wrong| wrong.0 != kind) {
            assert!(!valid_by_jwk(token, alg, &jwk(wrong, ""), "none"), "{alg} by {wrong}");
        }
    }
    assert!(!valid_by_jwk(HS256, "HS256", &jwk("oct", ",\"alg\":\"HS384\""), "none"));
    assert!(!valid_by_jwk(RS256, "RS256", &jwk("RSA", ",\"alg\":\"RS512\""), "none"));
    for (text, count) in [
        (format!("[{all}]"), 4),
        ("{\"alg\":\"HS256\",\"k\":\"YQ==\"}".to_owned(), 1),
        (jwk("oct", ",\"alg\":\"RS256\""), 0),
        (jwk("P-256", ",\"alg\":\"ES384\""), 0),
        (jwk("oct", ",\"alg\":\"none\""), 0),
        (jwk("P-256", "").replace("P-256", "P-521"), 0),
        (jwk("P-256", "").replace("P-256", "P-384"), 0),
        ("{\"kty\":\"oct\",\"k\":\"\"}".to_owned(), 0),
        ("{\"kty\":\"oct\",\"k\":\"!\"}".to_owned(), 0),
        ("{\"kty\":\"RSA\",\"n\":\"AQAB\"}".to_owned(), 0),
        ("{\"keys\":1}".to_owned(), 0),
        ("{\"k\":\"YQ\"}".to_owned(), 0),
        ("[1,null]".to_owned(), 0),
        ("x".to_owned(), 0),
    ] {
        assert_eq!(jwk::keys(text.as_bytes()).len(), count, "{text}");
    }
}

#[test]
fn keys_by_kid() {
    let keys = |first: &str, second: &str| format!("[{},{}]", jwk("oct", first), jwk("RSA", second));
    let with = |header: &str| signed_as("HS256", header, b"secret", "{}");
    let (named, plain) = (with("{\"alg\":\"HS256\",\"kid\":\"a\"}"), with("{\"alg\":\"HS256\"}"));
    let (a, b) = (",\"kid\":\"a\"", ",\"kid\":\"b\"");
    for (token, first, second, wanted) in [
        (&named, a, b, [true, true, true]),
        (&named, b, a, [true, false, false]),
        (&named, ",\"kid\":\"A\"", a, [true, false, false]),
        (&named, "", a, [true, true, false]),
        (&plain, a, b, [true, true, false]),
        (&plain, "", "", [true, true, false]),
    ] {
        let found = ["none", "optional", "required"].map(|kid| valid_by_jwk(token, "HS256", &keys(first, second), kid));
        assert_eq!(found, wanted, "{token} {first} {second}");
    }
}

fn signed(alg: &str, key: &str, claims: &str) -> String {
    let header = format!("{{\"alg\":\"{alg}\"}}");
    signed_as(alg, &header, key.as_bytes(), claims)
}

fn signed_as(alg: &str, header: &str, key: &[u8], claims: &str) -> String {
    let code = ByteEncoding::parse(URL_CODE);
    let text = [code.encode(header.as_bytes(), false), code.encode(claims.as_bytes(), false)].join(&b'.');
    let signature = algorithm(alg.as_bytes(), "").expect("known").sign(key, &text).expect("a key");
    String::from_utf8([text, code.encode(&signature, false)].join(&b'.')).expect("text")
}

#[test]
fn tokens_of_others() {
    for (token, alg, key) in [
        (HS256, "HS256", "secret"),
        (RS256, "RS256", RSA_PUBLIC),
        (RS256, "RS256", RSA_PUBLIC_1),
        (PS384, "PS384", RSA_PUBLIC),
        (ES256, "ES256", EC_PUBLIC),
        (ES384, "ES384", EC_384_PUBLIC),
    ] {
        assert!(valid(token, alg, key.as_bytes(), 1e9), "{alg}");
        assert!(!valid(token, alg, key.as_bytes(), 2e9), "{alg}: past its exp");
        let (head, tail) = token.rsplit_once('.').expect("a token");
        let other = if tail.starts_with('A') { "B" } else { "A" };
        assert!(!valid(&format!("{head}.{other}{}", &tail[1..]), alg, key.as_bytes(), 1e9), "{alg}: another signature");
        assert!(!valid(token, alg, b"other", 1e9), "{alg}: another key");
        for wrong in ALGORITHMS.iter().filter(|wrong| wrong.name != alg) {
            assert!(!valid(token, wrong.name, key.as_bytes(), 1e9), "{alg} as {}", wrong.name);
        }
    }
}

#[test]
fn the_example_of_rfc_7515() {
    let token = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFt\
                 cGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    let key = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
    let key = ByteEncoding::parse(URL_CODE).decode(key.as_bytes(), None).expect("base64");
    assert!(valid(token, "HS256", &key, 1_300_819_379.0));
    assert!(!valid(token, "HS256", &key, 1_300_819_380.0));
}

#[test]
fn what_we_sign_is_valid() {
    for (alg, key, public) in [
        ("HS512", "secret", "secret"),
        ("RS256", RSA, RSA_PUBLIC),
        ("RS512", RSA_1, RSA_PUBLIC),
        ("PS256", RSA, RSA_PUBLIC_1),
        ("ES256", EC, EC_PUBLIC),
    ] {
        assert!(valid(&signed(alg, key, "{\"a\":1}"), alg, public.as_bytes(), 1e9), "{alg}");
    }
    let sign = |alg: &str, key: &str| algorithm(alg.as_bytes(), "").expect("known").sign(key.as_bytes(), b"x");
    for (alg, key) in [
        ("HS256", ""),
        ("HS256", RSA_PUBLIC),
        ("RS256", "secret"),
        ("RS256", EC),
        ("ES256", RSA),
        ("ES384", EC),
        ("RS256", RSA_PUBLIC),
    ] {
        assert_eq!(sign(alg, key), None, "{alg} {key}");
    }
}

#[test]
fn what_must_not_count() {
    let at = |claims: &str| valid(&signed("HS256", "secret", claims), "HS256", b"secret", 1e9);
    assert!(at("{\"nbf\":1000000000,\"exp\":1000000000.5}"));
    for claims in ["{\"nbf\":1000000001}", "{\"exp\":1000000000}", "{\"exp\":\"2000000000\"}", "{\"nbf\":null}"] {
        assert!(!at(claims), "{claims}");
    }
    let with = |header: &str| valid(&signed_as("HS256", header, b"secret", "{}"), "HS256", b"secret", 1e9);
    assert!(with("{\"alg\":\"HS256\"}"));
    for header in ["{\"alg\":\"none\"}", "{}", "{\"alg\":\"HS256\",\"crit\":[\"exp\"]}", "{\"alg\":[\"HS256\"]}"] {
        assert!(!with(header), "{header}");
    }
    // A public key as the secret: the well-known confusion.
    let header = "{\"alg\":\"HS256\"}";
    let text = [header, "{}"].map(|part| ByteEncoding::parse(URL_CODE).encode(part.as_bytes(), false)).join(&b'.');
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, RSA_PUBLIC.as_bytes()), &text);
    let token = [text, ByteEncoding::parse(URL_CODE).encode(tag.as_ref(), false)].join(&b'.');
    assert!(!valid(&String::from_utf8(token).expect("text"), "HS256", RSA_PUBLIC.as_bytes(), 1e9));
    for text in
        ["", "a", "a.b", "e30.e30", "e30.e30.a.b", "e30.e30.!", "W10.e30.", "e30.W10.", "e30.e30.e30.", "e3.e30."]
    {
        assert!(Token::parse(text.as_bytes()).is_none(), "{text}");
    }
    assert!(Token::parse(b"bearer  e30.e30. ").is_some());
}

#[test]
fn keys_are_read_without_panic() {
    for (text, _) in [(RSA_PUBLIC, 0), (EC_PUBLIC, 0), (RSA, 0)] {
        for end in 0..text.len() {
            for cut in [&text[..end], &text[end..]] {
                pem::rsa_public_key(cut.as_bytes());
                pem::ec_public_key(cut.as_bytes());
            }
        }
    }
    let short = "-----BEGIN PUBLIC KEY-----MIID/////w==-----END PUBLIC KEY-----";
    assert_eq!(pem::rsa_public_key(short.as_bytes()), None);
}

#[track_caller]
fn vcl(body: &str, wanted: &str) {
    let mut world = CryptoWorld::new(&format!(
        "vcl 4.1; import jwt; backend b none; sub vcl_init {{ new r = jwt.reader(); new q = jwt.reader(); new w = jwt.writer(); }} \
         sub vcl_recv {{ {body} return (hash); }}"
    ));
    let action = world.run(Method::Recv);
    let out = String::from_utf8_lossy(world.ctx.req.get("out").unwrap_or(b"<unset>")).into_owned();
    assert_eq!(if action == "Hash" { out } else { action }, wanted, "{body}");
}

#[test]
fn readers_and_writers_in_vcl() {
    let parse = format!("set req.http.out = r.parse(\"Bearer {HS256}\") + r.set_key(\"secret\")");
    vcl(&format!("{parse} + r.verify(\"HS256\") + q.verify(\"HS256\") + q.set_key(\"\");"), "truetruetruefalsefalse");
    vcl(
        &format!("{parse} + r.get_payload() + r.get_header();"),
        "truetrue{\"sub\":\"me\",\"exp\":2000000000}{\"alg\":\"HS256\",\"typ\":\"JWT\"}",
    );
    vcl(&format!("{parse} + r.parse(\"x\") + r.verify(\"HS256\") + r.to_string();"), "truetruefalsefalse");
    vcl(
        "set req.http.out = r.verify(\"none\");",
        "Failed(jwt: verify(): \"none\" is none of HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384)",
    );
    let make = "w.set_iss(\"i\"); w.set_sub(\"s\"); w.set_aud(\"a\"); w.set_jti(\"j\"); w.set_exp(now + 30s); w.set_nbf(now - 30s); w.set_iat(now);";
    let check = "r.parse(w.generate(\"k\")); r.set_key(\"k\");";
    vcl(
        &format!(
            "{make} w.set_alg(\"HS384\"); {check} set req.http.out = r.verify(\"HS384\") + r.get_payload() + w.error();"
        ),
        "true{\"aud\":\"a\",\"exp\":1000000030,\"iat\":1000000000,\"iss\":\"i\",\"jti\":\"j\",\"nbf\":999999970,\"sub\":\"s\"}false",
    );
    vcl(
        &format!(
            "w.from_string(\"{HS256}\"); w.set_sub(\"you\"); {check} set req.http.out = r.verify(\"HS256\") + r.get_payload();"
        ),
        "true{\"exp\":2000000000,\"sub\":\"you\"}",
    );
    vcl("set req.http.out = w.generate(\"\") + w.error();", "true");
    vcl("w.from_string(\"x\"); set req.http.out = w.error();", "true");
}

#[test]
fn claims_in_vcl() {
    let claims = "{\"sub\":\"me\",\"iss\":7,\"exp\":2000000000.5,\"iat\":\"x\",\"n\":2.5,\"m\":-3,\"b\":true,\"o\":{\"a\":[1]},\"z\":null}";
    let token = signed_as("HS256", "{\"alg\":\"HS256\",\"kid\":\"k\",\"b64\":true}", b"secret", claims);
    let get = |expr: &str, wanted: &str| {
        vcl(
            &format!("if (!r.from_string(\"{token}\")) {{ return (pass); }} set req.http.out = \"\" + {expr};"),
            wanted,
        );
    };
    get(
        "r.get_alg() + r.get_kid() + r.get_typ() + r.get_b64() + r.is_jwt() + q.is_jwt() + q.get_b64()",
        "HS256ktruetruefalsefalse",
    );
    get("r.get_sub() + r.get_iss() + r.get_iss(\"i\") + r.get_jti(\"j\") + q.get_sub(default=\"s\")", "meijs");
    get("r.has_exp() + r.has_nbf() + r.has_iat() + q.has_exp()", "truefalsefalsefalse");
    get("(r.get_exp() - now)", "1000000000.500");
    for (who, what) in [("r", "nbf"), ("r", "iat"), ("q", "exp")] {
        get(&format!("{who}.get_{what}()"), &format!("Failed(jwt: get_{what}(): there is none; has_{what}() says so)"));
    }
    get(
        "r.get_claim_string(\"sub\") + r.get_claim_string(\"n\", \"no\") + q.get_claim_string(\"sub\", \"no\")",
        "menono",
    );
    get("r.get_claim_bool(\"b\") + r.get_claim_bool(\"n\", true) + r.get_claim_bool(\"sub\")", "truetruefalse");
    get(
        "r.get_claim_number(\"n\") + \" \" + r.get_claim_number(\"sub\", 1.5) + \" \" + r.get_claim_number(\"q\")",
        "2.500 1.500 0.000",
    );
    get(
        "r.get_claim_integer(\"n\") + \" \" + r.get_claim_integer(\"m\") + \" \" + r.get_claim_integer(\"b\", 9)",
        "3 -3 9",
    );
    get(
        "r.get_claim(\"o\") + r.get_claim(\"sub\") + r.get_claim(\"n\") + r.get_claim(\"z\") + r.get_claim(\"q\", \"no\")",
        "{\"a\":[1]}me2.5nullno",
    );
    get("r.get_header_encoded() + \".\" + r.get_payload_encoded() + \".\" + r.get_signature()", &token);
    get(
        "r.set_key(\"c2VjcmV0\", base64url) + r.verify(\"HS256\") + r.set_key(\"!\", base64url) + r.verify(\"HS256\")",
        "truetruefalsefalse",
    );
    let jwk = format!("\"\"\"{}\"\"\"", jwk("oct", ",\"kid\":\"k\""));
    get(
        &format!("r.set_jwk({jwk}) + r.verify(\"HS256\", check_kid=required) + r.set_jwk(\"x\") + r.verify(\"HS256\")"),
        "1true0false",
    );
    let late = signed("HS256", "secret", "{\"exp\":1,\"nbf\":2000000000}");
    vcl(
        &format!(
            "r.parse(\"{late}\"); r.set_key(\"secret\"); set req.http.out = r.verify(\"HS256\", check_exp=false) + \
             r.verify(\"HS256\", none, true, false) + r.verify(\"HS256\", none, false, false);"
        ),
        "falsefalsetrue",
    );
}

#[test]
fn writers_of_more() {
    let check = "r.parse(w.to_string(\"c2VjcmV0\", base64url)); r.set_key(\"secret\"); set req.http.out = r.verify(\"HS256\") + r.get_header() + r.get_payload();";
    vcl(
        &format!(
            "w.set_kid(\"k\"); w.set_typ(\"at+jwt\"); w.set_sub(\"s\"); w.set_iss(\"i\"); w.delete_sub(); w.set_duration(60s); {check}"
        ),
        "true{\"alg\":\"HS256\",\"kid\":\"k\",\"typ\":\"at+jwt\"}{\"exp\":1000000060,\"iss\":\"i\"}",
    );
    vcl(
        &format!(
            "w.parse(\"{HS256}\"); w.delete_exp(); w.delete_iss(); w.delete_jti(); w.delete_nbf(); w.delete_iat(); {check}"
        ),
        "true{\"alg\":\"HS256\",\"typ\":\"JWT\"}{\"sub\":\"me\"}",
    );
    vcl(
        &format!("w.parse(\"x\"); w.set_sub(\"s\"); w.reset(); if (!w.error()) {{ w.set_payload(\"{{}}\"); }} {check}"),
        "true{\"alg\":\"HS256\",\"typ\":\"JWT\"}{}",
    );
    vcl("w.set_payload(\"[]\"); set req.http.out = w.error();", "true");
}

proptest! {
    #[test]
    fn any_text_for_keys(text in "(\\[|\\{|\\}|\\]|\"(keys|kty|k|n|e|x|y|crv|oct|RSA|EC|P-256|YQ)\"|:|,){0,20}", bytes: Vec<u8>) {
        for key in jwk::keys(text.as_bytes()).iter().chain(&jwk::keys(&bytes)) {
            for algorithm in &ALGORITHMS {
                prop_assert!(!key.verify(algorithm, &bytes, &bytes));
            }
        }
    }

    #[test]
    fn any_text_for_a_token(text in "(Bearer )?(eyJhbGciOiJIUzI1NiJ9|e30|[A-Za-z0-9_=+/-]{0,9}|[{}\":,]{0,5})(\\.(e30|eyJleHAiOjF9|[A-Za-z0-9_-]{0,9})){0,4}", key: Vec<u8>) {
        if let Some(token) = Token::parse(text.as_bytes()) {
            prop_assert_eq!(token.text.iter().filter(|byte| **byte == b'.').count(), 2);
            prop_assert_eq!(token.text[token.signed], b'.');
            for algorithm in &ALGORITHMS {
                prop_assert!(!token.is_valid(algorithm, &Keys::Text(Text::copy(&key)), &at(0.0)));
            }
        }
    }
}

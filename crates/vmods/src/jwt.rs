// SPDX-License-Identifier: BSD-2-Clause
//! vmod_jwt: JSON Web Tokens (RFC 7519) in the compact form of RFC 7515. The algorithm is VCL's, never the token's alone; "none" is
//! none. A token with `crit` isn't valid: nothing critical is understood here.

use std::sync::Arc;

use ring::rand::SystemRandom;
use ring::signature::{self as sig, EcdsaKeyPair, RsaKeyPair, UnparsedPublicKey};
use ring::{hmac, rsa};
use serde_json::{Map, Value as Json};
use vrt::vmod::{Call, CallResult, Class, Object, Vmod};
use vrt::{Failure, Text, Value};

use crate::args::{Args, fail, give};
use crate::blob::codec::Code;

mod jwk;
pub(crate) mod pem;

/// Bytes of a token.
const MOST: usize = 65_536;
const URL_CODE: &str = "BASE64URLNOPAD";

/// vmod_jwt
pub(crate) static VMOD: Vmod = Vmod {
    name: "jwt",
    functions: &[],
    classes: &[
        Class {
            name: "reader",
            new: |_, _, _| Ok(Arc::new(Reader(()))),
            methods: &[
                ("parse", parse),
                ("from_string", parse),
                ("set_key", |call, object, args| {
                    let key = key_of_call(args).filter(|key| !key.is_empty());
                    let is_one = key.is_some();
                    read(call, object).key = key.map(Keys::Text);
                    give(Value::Bool(is_one))
                }),
                ("set_jwk", |call, object, args| {
                    let keys = jwk::keys(Args(args).bytes_of(0));
                    let count = keys.len();
                    read(call, object).key = (count > 0).then_some(Keys::Jwk(keys));
                    give(Value::Int(count as i64))
                }),
                ("verify", |call, object, args| {
                    let algorithm = algorithm(Args(args).bytes_of(0), "verify")?;
                    let check = Check {
                        kid: Args(args).word(1),
                        exp: Args(args).bool(2),
                        nbf: Args(args).bool(3),
                        now: call.now,
                    };
                    let read = read(call, object);
                    let both = read.token.as_ref().zip(read.key.as_ref());
                    give(Value::Bool(both.is_some_and(|(token, key)| token.is_valid(algorithm, key, &check))))
                }),
                ("is_jwt", |call, object, _| give(Value::Bool(read(call, object).token.is_some()))),
                ("get_alg", |call, object, _| header_text(call, object, "alg")),
                ("get_typ", |call, object, _| header_text(call, object, "typ")),
                ("get_kid", |call, object, _| header_text(call, object, "kid")),
                ("get_b64", |call, object, _| {
                    let b64 =
                        read(call, object).token.as_ref().and_then(|token| token.field_of_header("b64")?.as_bool());
                    give(Value::Bool(b64.unwrap_or(false)))
                }),
                ("get_sub", |call, object, args| claim_text(call, object, "sub", &args[0])),
                ("get_iss", |call, object, args| claim_text(call, object, "iss", &args[0])),
                ("get_jti", |call, object, args| claim_text(call, object, "jti", &args[0])),
                ("get_exp", |call, object, _| claim_time(call, object, "exp")),
                ("has_exp", |call, object, _| has_time(call, object, "exp")),
                ("get_nbf", |call, object, _| claim_time(call, object, "nbf")),
                ("has_nbf", |call, object, _| has_time(call, object, "nbf")),
                ("get_iat", |call, object, _| claim_time(call, object, "iat")),
                ("has_iat", |call, object, _| has_time(call, object, "iat")),
                ("get_claim_string", |call, object, args| {
                    let name = Args(args).bytes_of(0).to_vec();
                    claim_text(call, object, &String::from_utf8_lossy(&name), &args[1])
                }),
                ("get_claim_bool", |call, object, args| {
                    let claim = claim(call, object, args).and_then(|claim| claim.as_bool());
                    give(claim.map_or_else(|| args[1].clone(), Value::Bool))
                }),
                ("get_claim_number", |call, object, args| {
                    let claim = claim(call, object, args).and_then(|claim| claim.as_f64());
                    give(claim.map_or_else(|| args[1].clone(), Value::Real))
                }),
                ("get_claim_integer", |call, object, args| {
                    let whole = |claim: Json| claim.as_i64().or_else(|| Some(claim.as_f64()?.round() as i64));
                    give(claim(call, object, args).and_then(whole).map_or_else(|| args[1].clone(), Value::Int))
                }),
                ("get_claim", |call, object, args| {
                    let text = |claim: Json| match claim {
                        Json::String(text) => Value::text(text),
                        other => Value::text(other.to_string()),
                    };
                    give(claim(call, object, args).map_or_else(|| args[1].clone(), text))
                }),
                ("get_header_encoded", |call, object, _| encoded(call, object, 0)),
                ("get_payload_encoded", |call, object, _| encoded(call, object, 1)),
                ("get_signature", |call, object, _| encoded(call, object, 2)),
                ("get_header", |call, object, _| part(call, object, |token| &token.header)),
                ("get_payload", |call, object, _| part(call, object, |token| &token.payload)),
                ("to_string", |call, object, _| part(call, object, |token| &token.text)),
            ],
        },
        Class {
            name: "writer",
            new: |_, _, _| Ok(Arc::new(Writer(()))),
            methods: &[
                ("set_alg", |call, object, args| {
                    let algorithm = algorithm(Args(args).bytes_of(0), "set_alg")?;
                    written(call, object).algorithm = Some(algorithm);
                    give(Value::Void)
                }),
                ("set_iss", |call, object, args| set_text(call, object, args, "iss")),
                ("set_sub", |call, object, args| set_text(call, object, args, "sub")),
                ("set_aud", |call, object, args| set_text(call, object, args, "aud")),
                ("set_jti", |call, object, args| set_text(call, object, args, "jti")),
                ("set_exp", |call, object, args| set_time(call, object, args, "exp")),
                ("set_nbf", |call, object, args| set_time(call, object, args, "nbf")),
                ("set_iat", |call, object, args| set_time(call, object, args, "iat")),
                ("set_typ", |call, object, args| set_header_text(call, object, args, "typ")),
                ("set_kid", |call, object, args| set_header_text(call, object, args, "kid")),
                ("set_duration", |call, object, args| {
                    let time = (call.now + Args(args).real(0)) as i64;
                    written(call, object).claims.insert("exp".to_owned(), Json::from(time));
                    give(Value::Void)
                }),
                ("set_payload", |call, object, args| {
                    let claims = crate::jwt::object(Args(args).bytes_of(0));
                    let written = written(call, object);
                    match claims {
                        Some(claims) => written.claims = claims,
                        None => written.has_failed = true,
                    }
                    give(Value::Void)
                }),
                ("delete_sub", |call, object, _| delete(call, object, "sub")),
                ("delete_iss", |call, object, _| delete(call, object, "iss")),
                ("delete_jti", |call, object, _| delete(call, object, "jti")),
                ("delete_exp", |call, object, _| delete(call, object, "exp")),
                ("delete_nbf", |call, object, _| delete(call, object, "nbf")),
                ("delete_iat", |call, object, _| delete(call, object, "iat")),
                ("parse", from_string),
                ("from_string", from_string),
                ("generate", generate),
                ("to_string", generate),
                ("reset", |call, object, _| {
                    *written(call, object) = Written::default();
                    give(Value::Void)
                }),
                ("error", |call, object, _| give(Value::Bool(written(call, object).has_failed))),
            ],
        },
    ],
};

// Not empty, so that each has an address of its own.
struct Reader(#[allow(dead_code)] ());
struct Writer(#[allow(dead_code)] ());

/// What a reader was told in this task.
#[derive(Default)]
struct Read {
    token: Option<Token>,
    key: Option<Keys>,
}

/// What a signature is checked with.
enum Keys {
    /// The secret, or a key in PEM.
    Text(Text),
    Jwk(Vec<jwk::Jwk>),
}

/// What verify() was told.
struct Check {
    kid: &'static str,
    exp: bool,
    nbf: bool,
    now: f64,
}

/// What a writer was told in this task.
#[derive(Default)]
struct Written {
    algorithm: Option<&'static Algorithm>,
    /// Of the header what isn't `alg`.
    header: Map<String, Json>,
    claims: Map<String, Json>,
    has_failed: bool,
}

/// A token taken apart; not checked.
struct Token {
    text: Vec<u8>,
    header: Vec<u8>,
    payload: Vec<u8>,
    /// How much of the text is signed.
    signed: usize,
    signature: Vec<u8>,
}

struct Algorithm {
    name: &'static str,
    kind: Kind,
}

enum Kind {
    Secret(hmac::Algorithm),
    Rsa(&'static sig::RsaParameters, &'static dyn sig::RsaEncoding),
    Ecdsa(&'static sig::EcdsaVerificationAlgorithm, &'static sig::EcdsaSigningAlgorithm),
}

static ALGORITHMS: [Algorithm; 11] = [
    Algorithm { name: "HS256", kind: Kind::Secret(hmac::HMAC_SHA256) },
    Algorithm { name: "HS384", kind: Kind::Secret(hmac::HMAC_SHA384) },
    Algorithm { name: "HS512", kind: Kind::Secret(hmac::HMAC_SHA512) },
    Algorithm { name: "RS256", kind: Kind::Rsa(&sig::RSA_PKCS1_2048_8192_SHA256, &sig::RSA_PKCS1_SHA256) },
    Algorithm { name: "RS384", kind: Kind::Rsa(&sig::RSA_PKCS1_2048_8192_SHA384, &sig::RSA_PKCS1_SHA384) },
    Algorithm { name: "RS512", kind: Kind::Rsa(&sig::RSA_PKCS1_2048_8192_SHA512, &sig::RSA_PKCS1_SHA512) },
    Algorithm { name: "PS256", kind: Kind::Rsa(&sig::RSA_PSS_2048_8192_SHA256, &sig::RSA_PSS_SHA256) },
    Algorithm { name: "PS384", kind: Kind::Rsa(&sig::RSA_PSS_2048_8192_SHA384, &sig::RSA_PSS_SHA384) },
    Algorithm { name: "PS512", kind: Kind::Rsa(&sig::RSA_PSS_2048_8192_SHA512, &sig::RSA_PSS_SHA512) },
    Algorithm {
        name: "ES256",
        kind: Kind::Ecdsa(&sig::ECDSA_P256_SHA256_FIXED, &sig::ECDSA_P256_SHA256_FIXED_SIGNING),
    },
    Algorithm {
        name: "ES384",
        kind: Kind::Ecdsa(&sig::ECDSA_P384_SHA384_FIXED, &sig::ECDSA_P384_SHA384_FIXED_SIGNING),
    },
];

fn algorithm(name: &[u8], who: &str) -> Result<&'static Algorithm, Failure> {
    match ALGORITHMS.iter().find(|algorithm| algorithm.name.as_bytes() == name) {
        Some(algorithm) => Ok(algorithm),
        None => {
            let known: Vec<&str> = ALGORITHMS.iter().map(|algorithm| algorithm.name).collect();
            fail(format!("jwt: {who}(): \"{}\" is none of {}", name.escape_ascii(), known.join(", ")))
        }
    }
}

fn key_of(object: &Object) -> usize {
    Arc::as_ptr(object).cast::<()>() as usize
}

fn read<'a>(call: &'a mut Call<'_>, object: &Object) -> &'a mut Read {
    call.ctx.task().keyed(key_of(object), Read::default)
}

fn written<'a>(call: &'a mut Call<'_>, object: &Object) -> &'a mut Written {
    call.ctx.task().keyed(key_of(object), Written::default)
}

fn part(call: &mut Call<'_>, object: &Object, of: fn(&Token) -> &Vec<u8>) -> CallResult {
    let found = read(call, object).token.as_ref().map(|token| Value::text(&of(token)[..]));
    give(found.unwrap_or(Value::NULL))
}

fn parse(call: &mut Call<'_>, object: &Object, args: &[Value]) -> CallResult {
    let token = Token::parse(Args(args).bytes_of(0));
    let is_one = token.is_some();
    read(call, object).token = token;
    give(Value::Bool(is_one))
}

/// A key and how it is written: the first two arguments. A key in PEM is never encoded otherwise.
fn key_of_call(args: &[Value]) -> Option<Text> {
    let key = Args(args).text(0)?;
    if Args(args).word(1) == "ascii" || pem::is_pem(key.as_bytes()) {
        return Some(key.clone());
    }
    Some(Text::copy(&url_decoded(key.as_bytes())?))
}

/// base64url, padded or not.
fn url_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |at| at + 1);
    Code::of(URL_CODE).decode(&text[..end], None)
}

fn header_text(call: &mut Call<'_>, object: &Object, name: &str) -> CallResult {
    let field = read(call, object).token.as_ref().and_then(|token| token.field_of_header(name));
    give(field.as_ref().and_then(Json::as_str).map_or(Value::NULL, Value::text))
}

fn claim_called(call: &mut Call<'_>, object: &Object, name: &str) -> Option<Json> {
    read(call, object).token.as_ref()?.claims()?.remove(name)
}

/// The claim that the first argument names.
fn claim(call: &mut Call<'_>, object: &Object, args: &[Value]) -> Option<Json> {
    claim_called(call, object, &String::from_utf8_lossy(Args(args).bytes_of(0)))
}

fn claim_text(call: &mut Call<'_>, object: &Object, name: &str, default: &Value) -> CallResult {
    let claim = claim_called(call, object, name);
    give(claim.as_ref().and_then(Json::as_str).map_or_else(|| default.clone(), Value::text))
}

fn claim_time(call: &mut Call<'_>, object: &Object, name: &str) -> CallResult {
    match claim_called(call, object, name).and_then(|claim| claim.as_f64()) {
        Some(time) => give(Value::Time(time)),
        None => fail(format!("jwt: get_{name}(): there is none; has_{name}() says so")),
    }
}

fn has_time(call: &mut Call<'_>, object: &Object, name: &str) -> CallResult {
    give(Value::Bool(claim_called(call, object, name).is_some_and(|claim| claim.is_number())))
}

/// A part of the token as it came.
fn encoded(call: &mut Call<'_>, object: &Object, which: usize) -> CallResult {
    let token = read(call, object).token.as_ref();
    let part = token.and_then(|token| token.text.split(|byte| *byte == b'.').nth(which));
    give(part.map_or(Value::NULL, Value::text))
}

fn set_header_text(call: &mut Call<'_>, object: &Object, args: &[Value], name: &str) -> CallResult {
    let text = String::from_utf8_lossy(Args(args).bytes_of(0)).into_owned();
    written(call, object).header.insert(name.to_owned(), Json::String(text));
    give(Value::Void)
}

fn delete(call: &mut Call<'_>, object: &Object, name: &str) -> CallResult {
    written(call, object).claims.remove(name);
    give(Value::Void)
}

fn set_text(call: &mut Call<'_>, object: &Object, args: &[Value], name: &str) -> CallResult {
    let text = String::from_utf8_lossy(Args(args).bytes_of(0)).into_owned();
    written(call, object).claims.insert(name.to_owned(), Json::String(text));
    give(Value::Void)
}

fn set_time(call: &mut Call<'_>, object: &Object, args: &[Value], name: &str) -> CallResult {
    let time = Args(args).real(0) as i64;
    written(call, object).claims.insert(name.to_owned(), Json::from(time));
    give(Value::Void)
}

fn from_string(call: &mut Call<'_>, object: &Object, args: &[Value]) -> CallResult {
    let token = Token::parse(Args(args).bytes_of(0));
    let written = written(call, object);
    let parts = token.and_then(|token| {
        let name = token.field_of_header("alg")?.as_str()?.to_owned();
        let known = ALGORITHMS.iter().find(|algorithm| algorithm.name == name)?;
        let mut header = crate::jwt::object(&token.header)?;
        header.remove("alg");
        Some((known, header, token.claims()?))
    });
    match parts {
        Some((algorithm, header, claims)) => {
            (written.algorithm, written.header, written.claims) = (Some(algorithm), header, claims);
        }
        None => written.has_failed = true,
    }
    give(Value::Void)
}

fn generate(call: &mut Call<'_>, object: &Object, args: &[Value]) -> CallResult {
    let written = written(call, object);
    let algorithm = written.algorithm.unwrap_or(&ALGORITHMS[0]);
    let mut header = written.header.clone();
    header.insert("alg".to_owned(), Json::from(algorithm.name));
    header.entry("typ").or_insert_with(|| Json::from("JWT"));
    let header = Json::Object(header).to_string();
    let payload = Json::Object(written.claims.clone()).to_string();
    let code = Code::of(URL_CODE);
    let mut text = [code.encode(header.as_bytes(), false), code.encode(payload.as_bytes(), false)].join(&b'.');
    match algorithm.sign(key_of_call(args).as_deref().unwrap_or_default(), &text) {
        Some(signature) => {
            text.push(b'.');
            text.extend(code.encode(&signature, false));
            give(Value::text(text))
        }
        None => {
            written.has_failed = true;
            give(Value::NULL)
        }
    }
}

impl Token {
    fn parse(text: &[u8]) -> Option<Token> {
        let text = match text.get(..7) {
            Some(scheme) if scheme.eq_ignore_ascii_case(b"bearer ") => text[7..].trim_ascii(),
            _ => text.trim_ascii(),
        };
        let mut parts = text.split(|b| *b == b'.');
        let parts = [parts.next()?, parts.next()?, parts.next()?, parts.next().map_or(&b""[..], |_| b"!")];
        if text.len() > MOST || !parts[3].is_empty() {
            return None;
        }
        let plain = |part: &[u8]| Code::of(URL_CODE).decode(part, None);
        let token = Token {
            text: text.to_vec(),
            header: plain(parts[0])?,
            payload: plain(parts[1])?,
            signed: parts[0].len() + 1 + parts[1].len(),
            signature: plain(parts[2])?,
        };
        let is_whole = object(&token.header).is_some() && token.claims().is_some();
        is_whole.then_some(token)
    }

    fn field_of_header(&self, name: &str) -> Option<Json> {
        object(&self.header)?.remove(name)
    }

    fn claims(&self) -> Option<Map<String, Json>> {
        object(&self.payload)
    }

    fn is_valid(&self, algorithm: &Algorithm, key: &Keys, check: &Check) -> bool {
        let names_it = self.field_of_header("alg").is_some_and(|alg| alg.as_str() == Some(algorithm.name));
        let is_in_time = |claims: Map<String, Json>| {
            // A time that is none is no permission.
            let time = |name: &str| claims.get(name).map(|time| time.as_f64().unwrap_or(f64::NAN));
            (!check.exp || time("exp").is_none_or(|exp| check.now < exp))
                && (!check.nbf || time("nbf").is_none_or(|nbf| nbf <= check.now))
        };
        names_it
            && self.field_of_header("crit").is_none()
            && self.is_signed(algorithm, key, check.kid)
            && self.claims().is_some_and(is_in_time)
    }

    fn is_signed(&self, algorithm: &Algorithm, keys: &Keys, check_kid: &str) -> bool {
        let text = &self.text[..self.signed];
        let keys = match keys {
            Keys::Text(key) => return algorithm.verify(key, text, &self.signature),
            Keys::Jwk(keys) => keys,
        };
        let kid = self.field_of_header("kid");
        let kid = kid.as_ref().and_then(Json::as_str);
        let mut asked = keys.iter().filter(|key| match check_kid {
            "required" => kid.is_some() && key.kid() == kid,
            "optional" => kid.is_none() || key.kid().is_none() || key.kid() == kid,
            _ => true,
        });
        asked.any(|key| key.verify(algorithm, text, &self.signature))
    }
}

fn object(text: &[u8]) -> Option<Map<String, Json>> {
    match serde_json::from_slice(text) {
        Ok(Json::Object(map)) => Some(map),
        _ => None,
    }
}

impl Algorithm {
    fn verify(&self, key: &[u8], text: &[u8], signature: &[u8]) -> bool {
        match &self.kind {
            // A public key is no secret: who has it could sign.
            Kind::Secret(_) if pem::is_pem(key) => false,
            Kind::Secret(hash) => hmac::verify(&hmac::Key::new(*hash, key), text, signature).is_ok(),
            Kind::Rsa(how, _) => {
                let key = pem::rsa_public_key(key);
                key.is_some_and(|key| UnparsedPublicKey::new(*how, key).verify(text, signature).is_ok())
            }
            Kind::Ecdsa(how, _) => {
                let key = pem::ec_public_key(key);
                key.is_some_and(|key| UnparsedPublicKey::new(*how, key).verify(text, signature).is_ok())
            }
        }
    }

    fn sign(&self, key: &[u8], text: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match &self.kind {
            Kind::Secret(_) if key.is_empty() || pem::is_pem(key) => None,
            Kind::Secret(hash) => Some(hmac::sign(&hmac::Key::new(*hash, key), text).as_ref().to_vec()),
            Kind::Rsa(_, how) => {
                let pair: rsa::KeyPair = match pem::decode(key)? {
                    (pem::Label::RsaPrivate, der) => RsaKeyPair::from_der(&der).ok()?,
                    (pem::Label::Private, der) => RsaKeyPair::from_pkcs8(&der).ok()?,
                    _ => return None,
                };
                let mut out = vec![0; pair.public().modulus_len()];
                pair.sign(*how, &random, text, &mut out).ok()?;
                Some(out)
            }
            Kind::Ecdsa(_, how) => {
                let (pem::Label::Private, der) = pem::decode(key)? else { return None };
                let pair = EcdsaKeyPair::from_pkcs8(how, &der, &random).ok()?;
                Some(pair.sign(&random, text).ok()?.as_ref().to_vec())
            }
        }
    }
}

#[cfg(test)]
mod tests;

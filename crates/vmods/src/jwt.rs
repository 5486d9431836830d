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
                ("parse", |call, object, args| {
                    let token = Token::parse(Args(args).bytes_of(0));
                    let is_one = token.is_some();
                    read(call, object).token = token;
                    give(Value::Bool(is_one))
                }),
                ("set_key", |call, object, args| {
                    let key = Args(args).text(0).filter(|key| !key.is_empty()).cloned();
                    let is_one = key.is_some();
                    read(call, object).key = key;
                    give(Value::Bool(is_one))
                }),
                ("verify", |call, object, args| {
                    let algorithm = algorithm(Args(args).bytes_of(0), "verify")?;
                    let now = call.now;
                    let read = read(call, object);
                    let both = read.token.as_ref().zip(read.key.as_ref());
                    give(Value::Bool(both.is_some_and(|(token, key)| token.is_valid(algorithm, key, now))))
                }),
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
                ("from_string", from_string),
                ("generate", generate),
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
    key: Option<Text>,
}

/// What a writer was told in this task.
#[derive(Default)]
struct Written {
    algorithm: Option<&'static Algorithm>,
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
        Some((known, token.claims()?))
    });
    match parts {
        Some((algorithm, claims)) => (written.algorithm, written.claims) = (Some(algorithm), claims),
        None => written.has_failed = true,
    }
    give(Value::Void)
}

fn generate(call: &mut Call<'_>, object: &Object, args: &[Value]) -> CallResult {
    let written = written(call, object);
    let algorithm = written.algorithm.unwrap_or(&ALGORITHMS[0]);
    let header = format!("{{\"alg\":\"{}\",\"typ\":\"JWT\"}}", algorithm.name);
    let payload = Json::Object(written.claims.clone()).to_string();
    let code = Code::of(URL_CODE);
    let mut text = [code.encode(header.as_bytes(), false), code.encode(payload.as_bytes(), false)].join(&b'.');
    match algorithm.sign(Args(args).bytes_of(0), &text) {
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

    fn is_valid(&self, algorithm: &Algorithm, key: &[u8], now: f64) -> bool {
        let names_it = self.field_of_header("alg").is_some_and(|alg| alg.as_str() == Some(algorithm.name));
        let is_in_time = |claims: Map<String, Json>| {
            // A time that is none is no permission.
            let time = |name: &str| claims.get(name).map(|time| time.as_f64().unwrap_or(f64::NAN));
            time("exp").is_none_or(|exp| now < exp) && time("nbf").is_none_or(|nbf| nbf <= now)
        };
        names_it
            && self.field_of_header("crit").is_none()
            && algorithm.verify(key, &self.text[..self.signed], &self.signature)
            && self.claims().is_some_and(is_in_time)
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

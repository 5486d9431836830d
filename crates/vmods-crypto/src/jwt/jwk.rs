// SPDX-License-Identifier: BSD-2-Clause
//! Keys in JSON (RFC 7517, RFC 7518 section 6): secrets, RSA's, and those of the curves P-256 and P-384.

use ring::rsa::PublicKeyComponents;
use ring::signature::UnparsedPublicKey;
use serde_json::{Map, Value as Json};

use super::{ALGORITHMS, Algorithm, Kind, hmac, url_decoded};

pub(super) struct Jwk {
    kid: Option<String>,
    /// The only algorithm that it is for, if it says so.
    alg: Option<&'static str>,
    key: Key,
}

enum Key {
    Secret(Vec<u8>),
    Rsa(PublicKeyComponents<Vec<u8>>),
    /// The algorithm that goes with the curve, and the point.
    Ec(&'static str, Vec<u8>),
}

/// The keys of a text that are valid here: one alone, a list, or what has a list named `keys`.
pub(super) fn keys(text: &[u8]) -> Vec<Jwk> {
    let list = match serde_json::from_slice(text) {
        Ok(Json::Object(mut map)) => match map.remove("keys") {
            Some(Json::Array(list)) => list,
            Some(_) => Vec::new(),
            None => vec![Json::Object(map)],
        },
        Ok(Json::Array(list)) => list,
        _ => Vec::new(),
    };
    list.iter().filter_map(|key| Jwk::parse(key.as_object()?)).collect()
}

fn bytes(map: &Map<String, Json>, name: &str) -> Option<Vec<u8>> {
    url_decoded(map.get(name)?.as_str()?.as_bytes()).filter(|bytes| !bytes.is_empty())
}

/// A number without zeros before it.
fn number(map: &Map<String, Json>, name: &str) -> Option<Vec<u8>> {
    let bytes = bytes(map, name)?;
    let from = bytes.iter().position(|byte| *byte != 0)?;
    Some(bytes[from..].to_vec())
}

impl Jwk {
    fn parse(map: &Map<String, Json>) -> Option<Jwk> {
        let alg = match map.get("alg") {
            Some(name) => Some(ALGORITHMS.iter().find(|alg| Some(alg.name) == name.as_str())?),
            None => None,
        };
        let by_alg = alg.map(|alg| match alg.kind {
            Kind::Secret(_) => "oct",
            Kind::Rsa(..) => "RSA",
            Kind::Ecdsa(..) => "EC",
        });
        let kty = match map.get("kty") {
            Some(kty) => kty.as_str()?,
            None => by_alg?,
        };
        if by_alg.is_some_and(|by_alg| by_alg != kty) {
            return None;
        }
        let key = match kty {
            "oct" => Key::Secret(bytes(map, "k")?),
            "RSA" => Key::Rsa(PublicKeyComponents { n: number(map, "n")?, e: number(map, "e")? }),
            "EC" => {
                let (of_curve, len) = match map.get("crv")?.as_str()? {
                    "P-256" => ("ES256", 32),
                    "P-384" => ("ES384", 48),
                    _ => return None,
                };
                let (x, y) = (bytes(map, "x")?, bytes(map, "y")?);
                if x.len() != len || y.len() != len || alg.is_some_and(|alg| alg.name != of_curve) {
                    return None;
                }
                Key::Ec(of_curve, [&[4][..], &x, &y].concat())
            }
            _ => return None,
        };
        let kid = map.get("kid").and_then(Json::as_str).map(str::to_owned);
        Some(Jwk { kid, alg: alg.map(|alg| alg.name), key })
    }

    pub(super) fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    pub(super) fn verify(&self, algorithm: &Algorithm, text: &[u8], signature: &[u8]) -> bool {
        if self.alg.is_some_and(|alg| alg != algorithm.name) {
            return false;
        }
        match (&self.key, &algorithm.kind) {
            (Key::Secret(key), Kind::Secret(hash)) => {
                hmac::verify(&hmac::Key::new(*hash, key), text, signature).is_ok()
            }
            (Key::Rsa(key), Kind::Rsa(how, _)) => key.verify(how, text, signature).is_ok(),
            (Key::Ec(of_curve, point), Kind::Ecdsa(how, _)) if *of_curve == algorithm.name => {
                UnparsedPublicKey::new(*how, point).verify(text, signature).is_ok()
            }
            _ => false,
        }
    }
}

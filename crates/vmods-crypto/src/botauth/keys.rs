// SPDX-License-Identifier: BSD-2-Clause
//! Public keys of Ed25519 in JSON Web Key Sets (RFC 8037), found by their thumbprints (RFC 7638). Keys of other kinds are left out.

use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};
use vmod_support::codec::ByteEncoding;

use crate::jwt::url_decoded;

/// Keys of a set that are read.
pub(super) const MAX_KEYS: usize = 256;
/// Thumbprint of the key whose private half is in RFC 9421 B.1.4.
const TEST_KEY: &str = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    pub(super) thumbprint: String,
    /// Another name of the key, from a file.
    kid: Option<String>,
    public: Vec<u8>,
    not_before: f64,
    not_after: f64,
}

/// The reason why a set has no key for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoKey {
    Unknown,
    NotYetValid,
    Expired,
}

impl NoKey {
    pub(super) fn text(self) -> &'static str {
        match self {
            NoKey::Unknown => "unknown key",
            NoKey::NotYetValid => "the key isn't valid yet",
            NoKey::Expired => "the key has expired",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct KeySet(Vec<Key>);

impl KeySet {
    /// The keys of a directory, in which a `kid` is the thumbprint of its key: others lie and are left out.
    pub(super) fn of_directory(json: &[u8]) -> Result<KeySet, String> {
        let mut keys = Self::of_file(json)?.0;
        keys.retain(|key| key.kid.as_ref().is_none_or(|kid| *kid == key.thumbprint));
        Ok(KeySet(keys))
    }

    pub(super) fn of_file(json: &[u8]) -> Result<KeySet, String> {
        let set: Json = serde_json::from_slice(json).map_err(|error| format!("not JSON: {error}"))?;
        let Some(Json::Array(keys)) = set.get("keys") else { return Err("not a key set: it has no keys".to_owned()) };
        if keys.len() > MAX_KEYS {
            return Err(format!("more than {MAX_KEYS} keys"));
        }
        let keys: Vec<Key> = keys.iter().filter_map(|key| Key::parse(key.as_object()?)).collect();
        Ok(KeySet(keys.into_iter().filter(|key| key.thumbprint != TEST_KEY).collect()))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The key of this thumbprint or name, if it may be used at this time (seconds since 1970).
    pub(super) fn find(&self, keyid: &str, now: f64) -> Result<&Key, NoKey> {
        let mut fault = NoKey::Unknown;
        for key in self.0.iter().filter(|key| key.thumbprint == keyid || key.kid.as_deref() == Some(keyid)) {
            fault = match () {
                () if now < key.not_before => NoKey::NotYetValid,
                () if now >= key.not_after => NoKey::Expired,
                () => return Ok(key),
            };
        }
        Err(fault)
    }
}

impl Key {
    pub(super) fn parse(map: &Map<String, Json>) -> Option<Key> {
        let text = |name: &str| map.get(name).and_then(Json::as_str);
        let is_meant = |name: &str, values: &[&str]| {
            map.get(name).is_none_or(|_| text(name).is_some_and(|text| values.contains(&text)))
        };
        if text("kty") != Some("OKP")
            || text("crv") != Some("Ed25519")
            || !is_meant("use", &["sig"])
            || !is_meant("alg", &["ed25519", "EdDSA", "Ed25519"])
        {
            return None;
        }
        let public = url_decoded(text("x")?.as_bytes()).filter(|bytes| bytes.len() == 32)?;
        let time = |name: &str, absent: f64| map.get(name).map_or(Some(absent), |time| time.as_f64().map(seconds));
        Some(Key {
            thumbprint: thumbprint(&public),
            kid: text("kid").map(str::to_owned),
            public,
            not_before: time("nbf", f64::NEG_INFINITY)?,
            not_after: time("exp", f64::INFINITY)?,
        })
    }

    pub(super) fn verify(&self, text: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.public).verify(text, signature).is_ok()
    }
}

/// A time in seconds since 1970. Cloudflare's reference implementation writes milliseconds.
fn seconds(time: f64) -> f64 {
    const LAST_SECONDS: f64 = 1e11;
    if time > LAST_SECONDS { time / 1000.0 } else { time }
}

fn thumbprint(public: &[u8]) -> String {
    let code = |bytes: &[u8]| String::from_utf8(ByteEncoding::parse("BASE64URLNOPAD").encode(bytes, false));
    let x = code(public).expect("base64 is ASCII");
    code(&Sha256::digest(format!("{{\"crv\":\"Ed25519\",\"kty\":\"OKP\",\"x\":\"{x}\"}}"))).expect("base64 is ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8037, A.2 and A.3.
    const X: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    const PRINT: &str = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k";

    fn set(members: &str) -> String {
        format!("{{\"keys\":[{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"{X}\"{members}}}]}}")
    }

    fn is_found(json: &str, keyid: &str, now: f64) -> bool {
        KeySet::of_file(json.as_bytes()).expect("a set").find(keyid, now).is_ok()
    }

    #[test]
    fn a_key_is_found_by_its_thumbprint() {
        assert!(is_found(&set(""), PRINT, 0.0) && !is_found(&set(""), "other", 0.0));
        assert!(is_found(&set(",\"kid\":\"mine\",\"use\":\"sig\",\"alg\":\"EdDSA\""), "mine", 0.0));
    }

    #[test]
    fn a_key_has_its_time_in_seconds_or_milliseconds() {
        let begin = 1_735_689_600_f64;
        for scale in [1.0, 1000.0] {
            let times = set(&format!(",\"nbf\":{},\"exp\":{}", begin * scale, (begin + 100.0) * scale));
            let set = KeySet::of_file(times.as_bytes()).expect("a set");
            let fault = |now: f64| set.find(PRINT, now).err();
            assert_eq!([fault(begin - 1.0), fault(begin + 100.0)], [Some(NoKey::NotYetValid), Some(NoKey::Expired)]);
            assert_eq!([fault(begin), fault(begin + 99.0)], [None, None]);
            assert_eq!(set.find("other", begin).err(), Some(NoKey::Unknown));
        }
    }

    #[test]
    fn a_directory_may_not_rename_keys() {
        let keys = |members: &str| KeySet::of_directory(set(members).as_bytes()).expect("a set").len();
        assert_eq!([keys(""), keys(&format!(",\"kid\":\"{PRINT}\"")), keys(",\"kid\":\"mine\"")], [1, 1, 0]);
    }

    #[test]
    fn other_keys_are_left_out() {
        for members in [
            ",\"use\":\"enc\"",
            ",\"alg\":\"RS256\"",
            ",\"alg\":1",
            ",\"exp\":\"soon\"",
            ",\"kty\":\"EC\"",
            ",\"x\":\"AA\"",
        ] {
            assert_eq!(KeySet::of_file(set(members).as_bytes()).map(|set| set.len()), Ok(0), "{members}");
        }
        let test_key = "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs\"}, 5, {}]}";
        assert_eq!(KeySet::of_file(test_key.as_bytes()).map(|set| set.len()), Ok(0));
    }

    #[test]
    fn what_is_no_set_is_refused() {
        for (json, why) in [("{", "not JSON"), ("[]", "it has no keys"), ("{\"keys\":{}}", "it has no keys")] {
            assert!(KeySet::of_file(json.as_bytes()).is_err_and(|reason| reason.contains(why)), "{json}");
        }
        let many = format!("{{\"keys\":[{}1]}}", "1,".repeat(MAX_KEYS));
        assert_eq!(KeySet::of_file(many.as_bytes()), Err("more than 256 keys".to_owned()));
        assert!(KeySet::of_file("[".repeat(100_000).as_bytes()).is_err());
    }
}

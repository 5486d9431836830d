// SPDX-License-Identifier: BSD-2-Clause
//! What is rolled out to a group of nodes, as a document of the board says it. Who rolls out writes it, nodes read it.
//!
//! ```text
//! confirmed A ── trial of B: some prepare it, then use it, more of them with each stage ──▶ confirmed B
//!             ◀── it fails, or the roll-out isn't renewed for longer than PATIENCE ──────────┘
//! ```
//!
//! A trial is alive as long as the document's number goes up. So nobody needs another's clock, and one that nobody tends ends by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::board::{LONGEST_DOCUMENT, LONGEST_NAME};
use crate::one_line;

const VERSION: u64 = 1;
/// Time for which a node follows a trial that nobody tends. Three servers of NATS have chosen another leader by then,
/// on a busy machine, too.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Time for which one of several servers may show a document that was replaced.
pub const OLD_TIME: Duration = Duration::from_secs(2);
/// Nodes and parameters that a document may have.
const MANY: usize = 4096;
/// The longest name of a parameter, and the longest drawn id of a trial, in bytes.
const WORD: usize = 200;
/// The longest value of a parameter.
const VALUE: usize = 4096;
const TEXT: usize = 2000;

pub fn document_of(group: &str) -> String {
    format!("rollout.{group}")
}

/// The name of the document with the sources of a VCL; there are two for each group, so that the confirmed ones stay beside those on trial.
pub fn bundle_of(group: &str, slot: char) -> String {
    format!("bundle.{group}.{slot}")
}

/// Digest of a VCL's sources: twelve digits of their SHA-256.
pub fn digest_of(bytes: &[u8]) -> String {
    base::hex::encode(&Sha256::digest(bytes)[..6])
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutVcl {
    pub digest: String,
    /// Bundle with the sources: `a` or `b`.
    pub slot: char,
    /// The file's name, for people.
    pub origin: String,
}

impl RolloutVcl {
    pub fn name(&self) -> String {
        format!("fleet_{}", self.digest)
    }
}

/// The target of a roll-out: a VCL, unless each node has its own, and parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Release {
    /// `None`: each node's own.
    pub vcl: Option<RolloutVcl>,
    pub params: BTreeMap<String, String>,
}

impl Release {
    pub fn version(&self) -> String {
        let mut text = self.vcl.as_ref().map_or_else(String::new, |vcl| vcl.digest.clone());
        self.params.iter().for_each(|(name, value)| text.push_str(&format!("\n{name}={value}")));
        digest_of(text.as_bytes())
    }

    fn json(&self) -> Value {
        let vcl = self
            .vcl
            .as_ref()
            .map(|vcl| json!({ "digest": vcl.digest, "slot": vcl.slot.to_string(), "origin": vcl.origin }));
        json!({ "vcl": vcl, "params": self.params })
    }

    fn read(said: &Value) -> Option<Release> {
        let vcl = match &said["vcl"] {
            Value::Null => None,
            vcl => {
                let digest = vcl["digest"].as_str()?.to_owned();
                let is_digest = digest.len() == 12 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
                let slot = vcl["slot"].as_str()?.chars().next()?;
                let origin = one_line(vcl["origin"].as_str().unwrap_or_default(), WORD);
                if !is_digest || !matches!(slot, 'a' | 'b') {
                    return None;
                }
                Some(RolloutVcl { digest, slot, origin })
            }
        };
        let params = said["params"].as_object().filter(|params| params.len() <= MANY)?;
        let params = params.iter().map(|(name, value)| {
            let value = value.as_str().filter(|value| name.len() <= WORD && value.len() <= VALUE)?;
            Some((name.clone(), value.to_owned()))
        });
        Some(Release { vcl, params: params.collect::<Option<_>>()? })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutTrial {
    /// Drawn; another one for each trial.
    pub id: String,
    pub release: Release,
    pub by: String,
    pub prepare: BTreeSet<String>,
    pub activate: BTreeSet<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// Another one with each change, the next ([`Rollout::next_serial`]).
    pub serial: u64,
    /// Release for all nodes; `None`: nothing was ever rolled out.
    pub confirmed: Option<Release>,
    pub trial: Option<RolloutTrial>,
    /// End of the last trial, for people.
    pub last: String,
}

impl Rollout {
    /// The number of what replaces it. Whoever may write the document may write the highest.
    pub fn next_serial(&self) -> u64 {
        self.serial.wrapping_add(1)
    }

    pub fn encode(&self) -> Vec<u8> {
        let trial = self.trial.as_ref().map(|trial| {
            json!({
                "id": trial.id, "release": trial.release.json(), "by": trial.by, "prepare": trial.prepare,
                "activate": trial.activate,
            })
        });
        let confirmed = self.confirmed.as_ref().map(Release::json);
        let mut said = Map::new();
        said.insert("lacquer".into(), VERSION.into());
        said.insert("serial".into(), self.serial.into());
        said.insert("confirmed".into(), confirmed.into());
        said.insert("trial".into(), trial.into());
        said.insert("last".into(), self.last.clone().into());
        Value::Object(said).to_string().into_bytes()
    }

    /// Reads a document; without one nothing was rolled out.
    ///
    /// # Errors
    /// It is damaged, or of a version that isn't known here.
    pub fn read(document: Option<&[u8]>) -> Result<Rollout, String> {
        let Some(bytes) = document else { return Ok(Rollout::default()) };
        let bad = || "the release can't be read".to_owned();
        if bytes.len() > LONGEST_DOCUMENT {
            return Err(bad());
        }
        let said: Value = serde_json::from_slice(bytes).map_err(|_| bad())?;
        match said["lacquer"].as_u64() {
            Some(VERSION) => {}
            Some(later) => {
                return Err(format!("the release has version {later}, which this program doesn't know"));
            }
            None => return Err(bad()),
        }
        let release = |said: &Value| match said {
            Value::Null => Ok(None),
            said => Release::read(said).ok_or_else(bad).map(Some),
        };
        let names = |said: &Value| {
            let names = said.as_array().filter(|names| names.len() <= MANY).ok_or_else(bad)?.iter();
            let name = |name: &Value| {
                let name = name.as_str().filter(|name| name.len() <= LONGEST_NAME)?;
                Some(name.to_owned())
            };
            names.map(|said| name(said).ok_or_else(bad)).collect::<Result<BTreeSet<_>, _>>()
        };
        let trial = match &said["trial"] {
            Value::Null => None,
            trial => Some(RolloutTrial {
                id: trial["id"].as_str().filter(|id| id.len() <= WORD).ok_or_else(bad)?.to_owned(),
                release: release(&trial["release"])?.ok_or_else(bad)?,
                by: one_line(trial["by"].as_str().unwrap_or_default(), WORD),
                prepare: names(&trial["prepare"])?,
                activate: names(&trial["activate"])?,
            }),
        };
        Ok(Rollout {
            serial: said["serial"].as_u64().ok_or_else(bad)?,
            confirmed: release(&said["confirmed"])?,
            trial,
            last: one_line(said["last"].as_str().unwrap_or_default(), TEXT),
        })
    }
}

/// Number of nodes among `count` that a stage takes: `1`, `10%`, `all`. At least one, at most all.
pub fn stage(text: &str, count: usize) -> Option<usize> {
    let number = match (text, text.strip_suffix('%')) {
        ("all", _) => count,
        (_, Some(share)) => {
            let share: usize = share.parse().ok().filter(|share| (1..=100).contains(share))?;
            (count * share).div_ceil(100)
        }
        (_, None) => text.parse().ok().filter(|number| *number > 0)?,
    };
    Some(number.clamp(1, count.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rollout() -> Rollout {
        let vcl = RolloutVcl { digest: digest_of(b"x"), slot: 'b', origin: "site.vcl".into() };
        let release = Release { vcl: Some(vcl), params: [("default_ttl".to_owned(), "5".to_owned())].into() };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Rollout {
            serial: 7,
            confirmed: Some(Release::default()),
            trial: Some(RolloutTrial {
                id: "1".into(),
                release,
                by: "me".into(),
                prepare: names(&["a", "b"]),
                activate: names(&["a"]),
            }),
            last: "well".into(),
        }
    }

    #[test]
    fn a_document_comes_back() {
        assert_eq!(Rollout::read(Some(&rollout().encode())), Ok(rollout()));
        assert_eq!(Rollout::read(None), Ok(Rollout::default()));
        assert!(Rollout::read(Some(b"{\"lacquer\":2}")).unwrap_err().contains("version 2"));
        assert!(Rollout::read(Some(b"{}")).is_err());
    }

    /// A document like the others, but for one thing.
    fn changed(change: impl Fn(&mut Value)) -> Result<Rollout, String> {
        let mut said: Value = serde_json::from_slice(&rollout().encode()).unwrap();
        change(&mut said);
        Rollout::read(Some(said.to_string().as_bytes()))
    }

    #[test]
    fn what_is_too_much_is_no_document() {
        let long = |count: usize| json!("x".repeat(count));
        let bad = |change: &dyn Fn(&mut Value)| assert!(changed(change).is_err());
        bad(&|said| said["trial"]["id"] = long(WORD + 1));
        bad(&|said| said["trial"]["prepare"] = (0..=MANY).map(|n| json!(n.to_string())).collect());
        bad(&|said| said["trial"]["activate"] = json!([long(LONGEST_NAME + 1)]));
        bad(&|said| said["trial"]["release"]["params"] = json!({ "default_ttl": long(VALUE + 1) }));
        bad(&|said| said["trial"]["release"]["params"] = (0..=MANY).map(|n| (n.to_string(), json!("1"))).collect());
        bad(&|said| said["more"] = long(LONGEST_DOCUMENT));
        let deep = format!("{{\"lacquer\":1,\"serial\":{}", "[".repeat(100_000));
        assert!(Rollout::read(Some(deep.as_bytes())).is_err());
        let read = changed(|said| (said["last"], said["serial"]) = (json!("a\nb\u{1b}".repeat(TEXT)), json!(u64::MAX)));
        let read = read.unwrap();
        assert!(read.last.len() <= TEXT && !read.last.contains(char::is_control));
        assert_eq!(read.next_serial(), 0);
    }

    #[test]
    fn versions_differ_by_sources_and_parameters() {
        let release = rollout().trial.unwrap().release;
        let other = Release { params: BTreeMap::new(), ..release.clone() };
        assert_ne!(release.version(), other.version());
        assert_ne!(other.version(), Release::default().version());
        assert_eq!(release.vcl.unwrap().name(), "fleet_2d711642b726");
    }

    #[test]
    fn stages() {
        let of = |text, count| stage(text, count);
        assert_eq!([of("1", 30), of("10%", 30), of("10%", 3), of("all", 30)], [Some(1), Some(3), Some(1), Some(30)]);
        assert_eq!([of("99", 30), of("100%", 7)], [Some(30), Some(7)]);
        assert_eq!([of("0", 3), of("0%", 3), of("101%", 3), of("x", 3), of("", 3)], [None; 5]);
    }

    proptest! {
        #[test]
        fn nothing_that_is_read_does_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..600, byte: u8) {
            let _ = Rollout::read(Some(&bytes));
            let mut text = rollout().encode();
            let at = at % text.len();
            text[at] = byte;
            let _ = Rollout::read(Some(&text));
        }
    }
}

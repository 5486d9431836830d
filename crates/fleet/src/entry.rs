// SPDX-License-Identifier: BSD-2-Clause
//! What an entry of the log says, and its form: a JSON object, so that people can read the log with the server's own tools and other
//! programs can write to it.
//!
//! ```text
//! {"lacquer":1,"id":"5f..","node":"a","at":1764260000.25,"ban":["req.url","~","^/news"]}
//! {"lacquer":1,"id":"5f..","node":"a","at":1764260000.75,"ban":["obj.tag","==","news"],"spread":["over=600s","rate=50/s"]}
//! {"lacquer":1,"id":"60..","node":"a","at":1764260001.5,"purge":"<digest, hex>","ttl":0,"grace":0,"keep":0}
//! {"lacquer":1,"id":"61..","node":"b","at":1764260002.0,"tags":["news",{"hex":"00ff"}],"soft":true}
//! {"lacquer":1,"id":"62..","node":"b","at":1764260003.0,"all":"why"}
//! ```
//!
//! Each ends with a checksum, `"sum"` (`seal`), which other programs may leave out.
//!
//! All of it is absolute: `at` is the moment from which ages and lives count, in seconds since 1970, whenever it is carried out.

use base::hex;
use serde_json::{Map, Value, json};

use crate::seal::{SEAL, damage, is_broken, seal, seal_again};

/// Version of the form. One that is higher says something that can't be understood here.
const VERSION: u64 = 1;

pub const LONGEST: usize = 64 << 10;
/// Bytes that [`again`] may add.
const ROOM: usize = 100;

/// No moment is further away, either way, in seconds: some three thousand years.
const FARTHEST: f64 = 1e11;
/// No life is longer, nor shorter than none by more: a century, in seconds.
const LONGEST_LIFE: f64 = 100.0 * 365.0 * 86_400.0;

#[derive(Clone, Debug, PartialEq)]
pub struct FleetEntry {
    pub id: String,
    pub node: String,
    /// When it was made: seconds since 1970.
    pub at: f64,
    pub what: Invalidation,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Invalidation {
    /// A ban's expression: field, operator, value, `&&`, and so on, as the CLI's `ban` takes them.
    Ban(Vec<String>),
    /// A ban whose objects become stale one after the other: the words `over=` and `rate=`, and the expression. In the log
    /// they are apart: for a node that doesn't know them it is a ban.
    SpreadBan { spread: Vec<String>, words: Vec<String> },
    /// All variants of a digest: new lives in seconds from `at` on; `None` leaves one alone.
    Purge { digest: [u8; 32], ttl: Option<f64>, grace: Option<f64>, keep: Option<f64> },
    Tags {
        tags: Vec<Vec<u8>>,
        /// True if it takes their TTL only.
        is_soft: bool,
    },
    /// Everything, for this reason.
    All(String),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Read {
    Entry(FleetEntry),
    /// An entry of another program, and the reason.
    Foreign(&'static str),
    /// The entry may well be one of ours, and nobody knows what it would hit; with the reason.
    Unclear(String),
    /// The log's server returns other bytes than a node wrote, or only a part of them; with the reason.
    Damaged(&'static str),
}

impl FleetEntry {
    pub fn encode(&self) -> Result<Vec<u8>, String> {
        let mut object = Map::new();
        object.insert("lacquer".to_owned(), VERSION.into());
        object.insert("id".to_owned(), self.id.as_str().into());
        object.insert("node".to_owned(), self.node.as_str().into());
        object.insert("at".to_owned(), finite(self.at));
        match &self.what {
            Invalidation::Ban(words) => _ = object.insert("ban".to_owned(), json!(words)),
            Invalidation::SpreadBan { spread, words } => {
                object.insert("ban".to_owned(), json!(words));
                object.insert("spread".to_owned(), json!(spread));
            }
            Invalidation::Purge { digest, ttl, grace, keep } => {
                object.insert("purge".to_owned(), hex::encode(digest).into());
                for (name, life) in [("ttl", ttl), ("grace", grace), ("keep", keep)] {
                    life.iter().for_each(|seconds| _ = object.insert(name.to_owned(), finite(*seconds)));
                }
            }
            Invalidation::Tags { tags, is_soft } => {
                object.insert("tags".to_owned(), tags.iter().map(|tag| to_text(tag)).collect());
                object.insert("soft".to_owned(), (*is_soft).into());
            }
            Invalidation::All(why) => _ = object.insert("all".to_owned(), why.as_str().into()),
        }
        let bytes = Value::Object(object).to_string().into_bytes();
        const MOST: usize = LONGEST - ROOM - SEAL;
        match bytes.len() <= MOST {
            true => Ok(seal(bytes)),
            false => Err(format!("it is longer than the {MOST} bytes that an entry of the fleet's log may have")),
        }
    }

    pub fn read(bytes: &[u8]) -> Read {
        if bytes.len() > LONGEST {
            return Read::Unclear(format!("it is longer than the {LONGEST} bytes that are read"));
        }
        if is_broken(bytes) {
            return Read::Damaged("its checksum doesn't match");
        }
        let Ok(Value::Object(object)) = serde_json::from_slice(bytes) else {
            return damage(bytes).map_or(Read::Foreign("not a JSON object"), Read::Damaged);
        };
        match object.get("lacquer").and_then(Value::as_u64) {
            None => Read::Foreign("without a version of ours"),
            Some(VERSION) => match read(&object) {
                Some(entry) => Read::Entry(entry),
                None => Read::Unclear("a required member is missing".to_owned()),
            },
            Some(version) => Read::Unclear(format!("it is of version {version}")),
        }
    }
}

fn read(object: &Map<String, Value>) -> Option<FleetEntry> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).map(str::to_owned);
    let at = object.get("at")?.as_f64().filter(|at| at.is_finite())?.clamp(-FARTHEST, FARTHEST);
    Some(FleetEntry {
        id: text("id").unwrap_or_default(),
        node: text("node").unwrap_or_default(),
        at,
        what: what(object)?,
    })
}

/// Exactly one of the kinds.
fn what(object: &Map<String, Value>) -> Option<Invalidation> {
    let kinds = ["ban", "purge", "tags", "all"];
    let mut there = kinds.into_iter().filter_map(|kind| Some((kind, object.get(kind)?)));
    let (kind, value) = there.next().filter(|_| there.next().is_none())?;
    let life = |name: &str| match object.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(value) => {
            let seconds = value.as_f64().filter(|seconds| seconds.is_finite())?;
            Some(Some(seconds.clamp(-LONGEST_LIFE, LONGEST_LIFE)))
        }
    };
    Some(match kind {
        "ban" => {
            let words = texts(value)?;
            match object.get("spread") {
                Some(spread) => Invalidation::SpreadBan { spread: texts(spread)?, words },
                None => Invalidation::Ban(words),
            }
        }
        "purge" => Invalidation::Purge {
            digest: hex::decode(value.as_str()?.as_bytes())?.try_into().ok()?,
            ttl: life("ttl")?,
            grace: life("grace")?,
            keep: life("keep")?,
        },
        "tags" => {
            let tags = value.as_array()?;
            let is_soft = object.get("soft").is_some_and(|soft| soft == &Value::Bool(true));
            Invalidation::Tags { tags: tags.iter().map(from_text).collect::<Option<_>>()?, is_soft }
        }
        _ => Invalidation::All(value.as_str()?.to_owned()),
    })
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|word| word.as_str().map(str::to_owned)).collect()
}

/// VCL can make any number of seconds; JSON has none that isn't finite. The number is one that this reader of JSON doesn't round:
/// nodes of versions without checksums write an entry again as they have read it.
fn finite(seconds: f64) -> Value {
    /// The largest number up to which all whole ones are exact.
    const MOST: f64 = 9_007_199_254_740_992.0;
    let seconds = if seconds.is_nan() { 0.0 } else { seconds.clamp(-MOST, MOST) };
    let is_exact =
        |seconds: &f64| serde_json::from_str(&json!(seconds).to_string()).is_ok_and(|read: f64| read == *seconds);
    let read = |seconds: &f64| serde_json::from_str(&json!(seconds).to_string()).ok();
    let mut tries = std::iter::successors(Some(seconds), read).take(8);
    json!(tries.find(is_exact).unwrap_or(seconds.trunc()))
}

/// A text where it is one, else its bytes.
fn to_text(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({ "hex": hex::encode(bytes) }),
    }
}

fn from_text(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Object(object) => hex::decode(object.get("hex")?.as_str()?.as_bytes()),
        _ => None,
    }
}

/// An entry as it is appended once more: with its id, which remains, and with a word that no other attempt has. So an
/// entry under a number it had before is never taken for that one. `None` if it can't have any.
pub(crate) fn again(bytes: &[u8], id: &str, word: &str) -> Option<Vec<u8>> {
    let mut object: Map<String, Value> = serde_json::from_slice(bytes).ok()?;
    object.insert("id".to_owned(), id.into());
    ["again", "sum"].iter().for_each(|name| _ = object.shift_remove(*name));
    let bytes = seal_again(Value::Object(object).to_string().into_bytes(), word);
    (bytes.len() <= LONGEST).then_some(bytes)
}

/// True of what [`again`] makes.
pub(crate) fn is_again(bytes: &[u8]) -> bool {
    serde_json::from_slice(bytes).is_ok_and(|object: Map<String, Value>| object.contains_key("again"))
}

/// A mark by which an entry is recognised: FNV-1a of its bytes, which no two entries of ours share.
pub fn mark(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Those that JSON's readers don't round.
    fn seconds() -> impl Strategy<Value = f64> {
        any::<i32>().prop_map(|eighths| f64::from(eighths) / 8.0)
    }

    fn invalidations() -> impl Strategy<Value = Invalidation> {
        let life = || proptest::option::of(seconds());
        prop_oneof![
            proptest::collection::vec(any::<String>(), 0..8).prop_map(Invalidation::Ban),
            (proptest::collection::vec(any::<String>(), 0..3), proptest::collection::vec(any::<String>(), 0..8))
                .prop_map(|(spread, words)| Invalidation::SpreadBan { spread, words }),
            (any::<[u8; 32]>(), life(), life(), life()).prop_map(|(digest, ttl, grace, keep)| Invalidation::Purge {
                digest,
                ttl,
                grace,
                keep
            }),
            (proptest::collection::vec(any::<Vec<u8>>(), 0..5), any::<bool>())
                .prop_map(|(tags, is_soft)| Invalidation::Tags { tags, is_soft }),
            any::<String>().prop_map(Invalidation::All),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(id: String, node: String, at in seconds(), what in invalidations()) {
            let entry = FleetEntry { id, node, at, what };
            prop_assert_eq!(FleetEntry::read(&entry.encode().unwrap()), Read::Entry(entry));
        }

        #[test]
        fn anything_is_read(bytes: Vec<u8>) {
            prop_assert!(!matches!(FleetEntry::read(&bytes), Read::Entry(_)));
        }
    }

    #[test]
    fn all_that_fits_into_an_entry_is_read() {
        let tags: Vec<Vec<u8>> = (0..9000).map(|n: u32| n.to_string().into_bytes()).collect();
        let words = vec!["x".to_owned(); 9000];
        for what in [Invalidation::Tags { tags, is_soft: false }, Invalidation::Ban(words)] {
            let entry = FleetEntry { id: String::new(), node: String::new(), at: 1.0, what };
            assert!(FleetEntry::read(&entry.encode().unwrap()) == Read::Entry(entry));
        }
    }

    #[track_caller]
    fn check(text: &str, wanted: Read) {
        assert_eq!(FleetEntry::read(text.as_bytes()), wanted, "{text}");
    }

    #[test]
    fn others_may_write_short_ones() {
        let what = Invalidation::Tags { tags: vec![b"news".to_vec(), vec![0, 255]], is_soft: false };
        let entry = FleetEntry { id: String::new(), node: String::new(), at: 5.0, what };
        check(r#"{"lacquer":1,"at":5,"tags":["news",{"hex":"00fF"}],"more":[1]}"#, Read::Entry(entry));
    }

    #[test]
    fn an_entry_that_is_appended_again_says_the_same() {
        let what = Invalidation::Tags { tags: vec![b"news".to_vec()], is_soft: true };
        let entry = FleetEntry { id: "7".to_owned(), node: "a".to_owned(), at: 5.5, what };
        let bytes = entry.encode().unwrap();
        let once = again(&bytes, "7", "w1").unwrap();
        let twice = again(&once, "7", "w2").unwrap();
        assert_eq!(
            (FleetEntry::read(&once), FleetEntry::read(&twice)),
            (Read::Entry(entry.clone()), Read::Entry(entry))
        );
        assert!(once.len() == twice.len() && mark(&once) != mark(&twice) && mark(&once) != mark(&bytes));
        let later = again(br#"{"lacquer":2,"new":[1]}"#, "x", "w").unwrap();
        assert_eq!(later, seal_again(br#"{"lacquer":2,"new":[1],"id":"x"}"#.to_vec(), "w"));
        assert_eq!(again(b"no object", "x", "w"), None);
    }

    /// An entry as nodes of versions without checksums append it again.
    fn again_of_older_nodes(bytes: &[u8], id: &str, word: &str) -> Vec<u8> {
        let mut object: Map<String, Value> = serde_json::from_slice(bytes).unwrap();
        object.insert("id".to_owned(), id.into());
        object.insert("again".to_owned(), word.into());
        Value::Object(object).to_string().into_bytes()
    }

    proptest! {
        #[test]
        fn nodes_of_two_versions_append_an_entry_again_in_turn(what in invalidations(), at in 0.0..2e9, ttl: f64) {
            let life = Some(ttl);
            let purge = Invalidation::Purge { digest: [7; 32], ttl: life, grace: life, keep: life };
            for what in [what, purge] {
                let id = "5f".repeat(16);
                let first = FleetEntry { id: id.clone(), node: "a".to_owned(), at, what }.encode().unwrap();
                let wanted = FleetEntry::read(&first);
                let new = again(&first, &id, "a1").unwrap();
                let olds = [again_of_older_nodes(&first, &id, "a2"), again_of_older_nodes(&new, &id, "a3")];
                let after = again(&olds[1], &id, "a4").unwrap();
                for bytes in [new, olds[0].clone(), olds[1].clone(), again_of_older_nodes(&after, &id, "a5"), after] {
                    prop_assert_eq!(&FleetEntry::read(&bytes), &wanted, "{}", String::from_utf8_lossy(&bytes));
                }
                prop_assert!(matches!(wanted, Read::Entry(_)));
            }
        }
    }

    #[test]
    fn a_flipped_bit_of_an_entry_that_was_appended_again_is_seen() {
        let entry = |why: &str| FleetEntry {
            id: "5f".repeat(16),
            node: "a".to_owned(),
            at: 1.5,
            what: Invalidation::Ban(["obj.http.x-url", "==", why].map(str::to_owned).to_vec()),
        };
        let bytes = again(&entry("/a").encode().unwrap(), &"5f".repeat(16), "a1").unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            let read = FleetEntry::read(&other);
            let is_same = read == Read::Entry(entry("/a"));
            assert!(is_same || matches!(read, Read::Damaged(_)), "{}", String::from_utf8_lossy(&other));
        }
    }

    #[test]
    fn another_programs_entry_with_a_wrong_checksum_is_damaged() {
        let read = |text: &str| FleetEntry::read(text.as_bytes());
        for foreign in [r#"{"user":7}"#, r#"{"user":7,"sum":"twelve"}"#, r#"{"sum":"0123456789abcdef","user":7}"#] {
            assert!(matches!(read(foreign), Read::Foreign(_)), "{foreign}");
        }
        assert!(matches!(read(r#"{"user":7,"sum":"0123456789abcdef"}"#), Read::Damaged(_)));
    }

    #[test]
    fn no_flipped_bit_makes_another_entry_of_one() {
        let digest = [7; 32];
        let whats = [
            Invalidation::Purge { digest, ttl: Some(0.0), grace: Some(0.0), keep: None },
            Invalidation::Ban(["obj.http.x-url", "==", "/a"].map(str::to_owned).to_vec()),
        ];
        for what in whats {
            let entry = FleetEntry { id: "5f".repeat(16), node: "a".to_owned(), at: 1764260000.25, what };
            let bytes = entry.encode().unwrap();
            for bit in 0..bytes.len() * 8 {
                let mut other = bytes.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                match FleetEntry::read(&other) {
                    Read::Damaged(_) => {}
                    // The checksum itself isn't one any more.
                    read => assert_eq!(read, Read::Entry(entry.clone()), "{}", String::from_utf8_lossy(&other)),
                }
            }
            for length in 1..bytes.len() {
                let mut zeroed = bytes.clone();
                zeroed[length..].fill(0);
                for read in [&bytes[..length], &zeroed].map(FleetEntry::read) {
                    assert!(matches!(read, Read::Damaged(_)), "the first {length} bytes");
                }
            }
        }
    }

    #[test]
    fn moments_and_lives_have_bounds() {
        let digest = "00".repeat(32);
        let text = format!(r#"{{"lacquer":1,"at":-1e300,"purge":"{digest}","ttl":1e300,"grace":-1e300}}"#);
        let what =
            Invalidation::Purge { digest: [0; 32], ttl: Some(LONGEST_LIFE), grace: Some(-LONGEST_LIFE), keep: None };
        check(&text, Read::Entry(FleetEntry { id: String::new(), node: String::new(), at: -FARTHEST, what }));
    }

    #[test]
    fn what_is_no_entry_of_ours() {
        let foreign = |text: &str| assert!(matches!(FleetEntry::read(text.as_bytes()), Read::Foreign(_)), "{text}");
        for text in ["", "hello", "[1]", r#"{"at":1,"all":"x"}"#, r#"{"lacquer":"1","at":1,"all":"x"}"#] {
            foreign(text);
        }
    }

    #[test]
    fn what_may_hit_anything() {
        let unclear = |text: &str| assert!(matches!(FleetEntry::read(text.as_bytes()), Read::Unclear(_)), "{text}");
        for text in [
            r#"{"lacquer":2,"whatever":1}"#,
            r#"{"lacquer":1,"all":"x"}"#,
            r#"{"lacquer":1,"at":1}"#,
            r#"{"lacquer":1,"at":1,"all":"x","ban":[]}"#,
            r#"{"lacquer":1,"at":1,"ban":[1]}"#,
            r#"{"lacquer":1,"at":1,"ban":["obj.status","==","1"],"spread":1}"#,
            r#"{"lacquer":1,"at":1,"purge":"00"}"#,
            r#"{"lacquer":1,"at":1,"purge":"0"}"#,
            r#"{"lacquer":1,"at":1,"tags":[{"hex":"0"}]}"#,
        ] {
            unclear(text);
        }
        unclear(&format!(r#"{{"lacquer":1,"at":1,"all":"{}"}}"#, "x".repeat(LONGEST)));
    }

    #[test]
    fn one_that_is_too_long_is_refused_where_it_is_made() {
        let what = Invalidation::Ban(vec!["x".repeat(LONGEST)]);
        let entry = FleetEntry { id: String::new(), node: String::new(), at: 0.0, what };
        assert!(entry.encode().unwrap_err().contains("longer than"));
    }
}

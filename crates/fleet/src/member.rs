// SPDX-License-Identifier: BSD-2-Clause
//! What a node reports of itself to the others, once a second, and what they know of it by that.

use std::time::Duration;

use serde_json::{Value, json};

use crate::board::{LEASE, LONGEST_NAME, LONGEST_REPORT, Posted};
use crate::peers::MembershipProof;

const VERSION: u64 = 1;
/// The longest word of a report that is taken over, in bytes.
const WORD: usize = 200;
/// The longest reason: what the VCL compiler says of an error has some lines.
const WHY: usize = 2000;
const STORES: usize = 32;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreUse {
    pub name: String,
    pub used: u64,
    /// Bytes that it may use; 0: no bound.
    pub space: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deployed {
    /// State of the node: `own`, unless something was rolled out to it; `failed`, if that can't be had; `confirmed`;
    /// or, on trial, `ready`, `active`, and `back` when it went back.
    pub state: String,
    pub version: String,
    pub trial: String,
    /// Since when, in seconds since 1970 by its clock.
    pub since: f64,
    pub why: String,
}

impl Deployed {
    pub fn json(&self) -> Value {
        json!({ "state": self.state, "version": self.version, "trial": self.trial, "since": self.since, "why": self.why })
    }

    pub fn read(bytes: &[u8]) -> Option<Deployed> {
        let said: Value = serde_json::from_slice(bytes).ok()?;
        Deployed::of(&said)
    }

    fn of(said: &Value) -> Option<Deployed> {
        said.as_object()?;
        Some(Deployed {
            state: short(&said["state"]),
            version: short(&said["version"]),
            trial: short(&said["trial"]),
            since: said["since"].as_f64().unwrap_or(0.0),
            why: text(&said["why"], WHY),
        })
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeReport {
    /// Drawn by each of its workers.
    pub instance: String,
    /// Address for other nodes, HOST:PORT, if it gives one.
    pub address: Option<String>,
    pub group: String,
    pub takes_deployments: bool,
    pub version: String,
    pub epoch: String,
    /// Number of the entry of the log that it carried out last.
    pub applied: u64,
    /// Number of the log's newest entry, as far as it knows.
    pub head: u64,
    /// For how long it has been behind the log, in seconds.
    pub lag_seconds: f64,
    /// Part of its cache that it serves: `all`, `young`, `nothing`.
    pub serves: String,
    pub vcl: String,
    /// Since when, in seconds since 1970 by its clock.
    pub vcl_since: f64,
    /// When its worker started, in seconds since 1970 by its clock.
    pub started: f64,
    pub requests: u64,
    pub hits: u64,
    /// Requests answered with a status of 500 or more.
    pub errors: u64,
    pub panics: u64,
    pub stores: Vec<StoreUse>,
    pub deployed: Option<Deployed>,
    pub peer: Option<MembershipProof>,
}

impl NodeReport {
    /// The report for the board: what doesn't fit is left out, as a node without a report is none.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut said = self.json();
        for part in ["stores", "deployed"] {
            let bytes = said.to_string().into_bytes();
            if bytes.len() <= LONGEST_REPORT {
                return bytes;
            }
            said[part] = Value::Null;
        }
        said.to_string().into_bytes()
    }

    pub fn json(&self) -> Value {
        let stores: Vec<Value> = self
            .stores
            .iter()
            .take(STORES)
            .map(|store| json!({ "name": store.name, "used": store.used, "space": store.space }))
            .collect();
        json!({
            "lacquer": VERSION, "instance": self.instance, "address": self.address, "group": self.group,
            "deploy": self.takes_deployments, "version": self.version, "epoch": self.epoch, "applied": self.applied,
            "head": self.head, "lag_seconds": self.lag_seconds, "serves": self.serves, "vcl": self.vcl,
            "vcl_since": self.vcl_since, "started": self.started, "requests": self.requests, "hits": self.hits,
            "errors": self.errors, "panics": self.panics, "stores": stores,
            "deployed": self.deployed.as_ref().map(Deployed::json), "peer": self.peer.as_ref().map(MembershipProof::json),
        })
    }

    /// Reads such an object; what is missing or strange in it is left out. `None`: it is no report, or one of a later
    /// version without anything that we know.
    pub fn read(bytes: &[u8]) -> Option<NodeReport> {
        if bytes.len() > LONGEST_REPORT {
            return None;
        }
        let said: Value = serde_json::from_slice(bytes).ok()?;
        said["lacquer"].as_u64()?;
        let word = |name: &str| short(&said[name]);
        let count = |name: &str| said[name].as_u64().unwrap_or(0);
        let number = |name: &str| said[name].as_f64().filter(|number| number.is_finite()).unwrap_or(0.0);
        let stores = said["stores"].as_array().map(Vec::as_slice).unwrap_or_default().iter().take(STORES);
        let stores = stores.map(|store| StoreUse {
            name: short(&store["name"]),
            used: store["used"].as_u64().unwrap_or(0),
            space: store["space"].as_u64().unwrap_or(0),
        });
        Some(NodeReport {
            instance: word("instance"),
            address: Some(word("address")).filter(|address| !address.is_empty()),
            group: word("group"),
            takes_deployments: said["deploy"] == json!(true),
            version: word("version"),
            epoch: word("epoch"),
            applied: count("applied"),
            head: count("head"),
            lag_seconds: number("lag_seconds"),
            serves: word("serves"),
            vcl: word("vcl"),
            vcl_since: number("vcl_since"),
            started: number("started"),
            requests: count("requests"),
            hits: count("hits"),
            errors: count("errors"),
            panics: count("panics"),
            stores: stores.collect(),
            deployed: Deployed::of(&said["deployed"]),
            peer: MembershipProof::read(&said["peer"]),
        })
    }
}

/// A word of somebody else's, fit to be shown.
fn short(value: &Value) -> String {
    one_line(value.as_str().unwrap_or_default(), WORD)
}

/// Somebody else's text as a line that is fit to be shown, of so many of its bytes at most.
pub fn one_line(text: &str, longest: usize) -> String {
    base::text::printable(cut(text, longest)).replace(['\n', '\t'], " ")
}

/// Lines of somebody else's; whoever shows them makes them printable.
fn text(value: &Value, longest: usize) -> String {
    cut(value.as_str().unwrap_or_default(), longest).to_owned()
}

fn cut(text: &str, longest: usize) -> &str {
    &text[..text.floor_char_boundary(longest)]
}

#[derive(Clone, Debug, PartialEq)]
pub struct KnownNode {
    pub name: String,
    pub age: Duration,
    pub report: NodeReport,
}

impl KnownNode {
    /// True if it hasn't reported for longer than [`LEASE`]: it is down, or cut off from the log's server.
    pub fn is_away(&self) -> bool {
        self.age > LEASE
    }

    /// The member of a report; `None`: it is none, or of a name that none of ours has: shown in any other form it might
    /// be taken for another's.
    pub(crate) fn of(posted: &Posted) -> Option<KnownNode> {
        let report = NodeReport::read(&posted.bytes)?;
        let is_name = posted.node.len() <= LONGEST_NAME && !posted.node.contains(char::is_control);
        is_name.then(|| KnownNode { name: posted.node.clone(), age: posted.age, report })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn report() -> NodeReport {
        NodeReport {
            instance: "0a".into(),
            address: Some("10.0.0.1:80".into()),
            group: "web".into(),
            takes_deployments: true,
            version: "1.0".into(),
            epoch: "e".into(),
            applied: 7,
            head: 9,
            lag_seconds: 0.5,
            serves: "all".into(),
            vcl: "boot".into(),
            vcl_since: 1.5,
            started: 1.0,
            requests: 100,
            hits: 90,
            errors: 1,
            panics: 0,
            stores: vec![StoreUse { name: "s0".into(), used: 10, space: 100 }],
            deployed: Some(Deployed { state: "ready".into(), since: 2.5, why: "a\nb".into(), ..Deployed::default() }),
            peer: None,
        }
    }

    #[test]
    fn a_report_comes_back() {
        assert_eq!(NodeReport::read(report().json().to_string().as_bytes()), Some(report()));
        assert_eq!(NodeReport::read(b"{}"), None);
        assert_eq!(NodeReport::read(b"[]"), None);
        assert_eq!(NodeReport::read(b"{\"lacquer\":2}"), Some(NodeReport::default()));
    }

    #[test]
    fn words_of_others_are_short_and_fit_to_be_shown() {
        let long = json!({ "lacquer": 1, "vcl": "é".repeat(300), "group": "a\u{1b}[31m\n" });
        let read = NodeReport::read(long.to_string().as_bytes()).unwrap();
        assert!(read.vcl.len() <= 4 * WORD && !read.group.contains(['\u{1b}', '\n']));
    }

    #[test]
    fn a_name_that_would_be_shown_as_another_is_none() {
        let of = |node: &str| {
            let posted = Posted { node: node.into(), bytes: report().json().to_string().into(), age: Duration::ZERO };
            KnownNode::of(&posted).map(|member| member.name)
        };
        assert_eq!(of("wéb 1"), Some("wéb 1".into()));
        assert_eq!(["a\nb", "a\tb", "\u{1b}[2J", &"a".repeat(LONGEST_NAME + 1)].map(of), [None, None, None, None]);
    }

    #[test]
    fn a_report_that_is_too_long_leaves_parts_out() {
        let store = StoreUse { name: "s".repeat(1000), used: 1, space: 1 };
        let deployed = Deployed { why: "\0".repeat(WHY), ..Deployed::default() };
        let long = NodeReport { stores: vec![store; 40], deployed: Some(deployed), ..report() };
        let read = NodeReport::read(&long.encode()).unwrap();
        assert!(read.stores.is_empty() && read.deployed.is_some() && read.vcl == "boot");
        assert_eq!(NodeReport::read(&report().encode()), Some(report()));
    }

    proptest! {
        #[test]
        fn nothing_that_is_read_does_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..300, byte: u8) {
            let _ = NodeReport::read(&bytes);
            let mut text = report().json().to_string().into_bytes();
            let at = at % text.len();
            text[at] = byte;
            let _ = NodeReport::read(&text);
        }
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! A node's part in a trial, as the manager keeps it for the next agent; and the last look at the group's document.

use std::collections::BTreeSet;
use std::time::Instant;

use fleet::rollout::{OLD_TIME, Release, Rollout, RolloutTrial};
use serde_json::{Value, json};

/// The last look at the document.
pub(crate) struct Look {
    pub serial: u64,
    /// The time at which its number was seen to go up; or when it was seen first.
    pub at: Instant,
    pub has_moved: bool,
}

impl Look {
    /// True if a document of that number is one that was replaced, and not yet where it was read. A log's server that
    /// was put back to what it was before shows one for longer.
    pub fn is_ahead_of(&self, serial: u64) -> bool {
        serial < self.serial && self.at.elapsed() < OLD_TIME
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Inside {
    pub id: String,
    pub release: Release,
    pub is_active: bool,
    /// The VCL that was in use before.
    pub vcl: String,
    pub params: Vec<(String, String)>,
}

impl Inside {
    /// The bytes that the manager keeps for the next agent: the trial as a document's, and what was in use before.
    pub fn encode(&self) -> Vec<u8> {
        let activate = self.is_active.then(String::new);
        let trial = RolloutTrial {
            id: self.id.clone(),
            release: self.release.clone(),
            activate: activate.into_iter().collect::<BTreeSet<_>>(),
            ..RolloutTrial::default()
        };
        let document = Rollout { trial: Some(trial), ..Rollout::default() }.encode();
        let document = String::from_utf8_lossy(&document);
        json!({ "document": document, "vcl": self.vcl, "params": self.params }).to_string().into_bytes()
    }

    /// Reads the bytes that [`Inside::encode`] has written; `None`: nothing is kept.
    pub fn read(bytes: &[u8]) -> Option<Inside> {
        let said: Value = serde_json::from_slice(bytes).ok()?;
        let trial = Rollout::read(Some(said["document"].as_str()?.as_bytes())).ok()?.trial?;
        let word = |value: &Value| value.as_str().map(str::to_owned);
        let params = said["params"].as_array()?.iter().map(|pair| Some((word(&pair[0])?, word(&pair[1])?)));
        Some(Inside {
            id: trial.id,
            release: trial.release,
            is_active: !trial.activate.is_empty(),
            vcl: word(&said["vcl"])?,
            params: params.collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet::rollout::{RolloutVcl, digest_of};
    use std::time::Duration;

    #[test]
    fn a_document_that_was_replaced_is_old_for_a_moment() {
        let before = |age: Duration| base::clock::now().checked_sub(age).expect("the machine runs for longer");
        let look = |serial: u64, age: Duration| Look { serial, at: before(age), has_moved: true };
        let is_old = |look: Look, serial: u64| look.is_ahead_of(serial);
        assert!(is_old(look(7, Duration::ZERO), 6));
        assert!(!is_old(look(7, Duration::ZERO), 7) && !is_old(look(7, Duration::ZERO), 8));
        assert!(!is_old(look(7, OLD_TIME), 6), "it was put back");
    }

    #[test]
    fn a_trial_is_known_to_the_next_agent() {
        let vcl = RolloutVcl { digest: digest_of(b"x"), slot: 'a', origin: "site.vcl".to_owned() };
        let params =
            vec![("default_ttl".to_owned(), "120.000".to_owned()), ("vcc_feature".to_owned(), "a\"b\n".to_owned())];
        let release = Release { vcl: Some(vcl), params: params.iter().cloned().collect() };
        for is_active in [false, true] {
            let inside = Inside {
                id: "1".to_owned(),
                release: release.clone(),
                is_active,
                vcl: "boot".to_owned(),
                params: params.clone(),
            };
            assert_eq!(Inside::read(&inside.encode()), Some(inside));
        }
        assert_eq!(
            ["", "{}", "[]", "{\"document\":\"{}\",\"vcl\":\"\",\"params\":[]}"]
                .map(|text| Inside::read(text.as_bytes())),
            [None, None, None, None]
        );
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! What is forgotten: unsafe requests (4.4), and what they tell of groups (RFC 9875).

use super::Model;
use super::answered::{Expected, pass};
use crate::plan::SimAsk;
use crate::rfc9111::draw::Answering;
use crate::rfc9111::fields::{field, joined, members};

const HOST: &str = "http://example.com";

impl Model {
    /// Invalidation (4.4), and that of groups (RFC 9875 3).
    pub(super) fn unsafe_request(&mut self, now: f64, ask: &SimAsk, origin: &Answering) -> Expected {
        let expected = pass(now, ask, origin);
        if (200..400).contains(&expected.status) {
            self.forget(&ask.url);
            for name in ["Location", "Content-Location"] {
                if let Some(url) = field(&expected.fields, name).and_then(of_same_origin) {
                    self.forget(&url);
                }
            }
            let groups = groups(&expected.fields, "Cache-Group-Invalidation");
            self.stored.retain(|_, stored| {
                !self::groups(&stored.fields, "Cache-Groups").iter().any(|group| groups.contains(group))
            });
        }
        expected
    }

    fn forget(&mut self, url: &str) {
        let addresses = [(0, url.to_owned()), self.address(url)];
        self.stored.retain(|(other, _), _| !addresses.contains(other));
    }
}

/// The path of a reference to the same site.
fn of_same_origin(reference: &str) -> Option<String> {
    let reference = reference.strip_prefix(HOST).unwrap_or(reference);
    match reference {
        _ if reference.contains("//") => None,
        _ if reference.starts_with('/') => Some(reference.to_owned()),
        // All URLs are files of one directory.
        _ => Some(format!("/{}", reference.trim_start_matches("../"))),
    }
}

/// A list of strings (RFC 9875 2).
fn groups(fields: &[(String, String)], name: &str) -> Vec<String> {
    joined(fields, name).map(|text| members(&text)).unwrap_or_default()
}

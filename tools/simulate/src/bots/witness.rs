// SPDX-License-Identifier: BSD-2-Clause
//! Clients of a log with what happened to each, and the groups whose requests were held. Both are bounded.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use accesslog::AccessEntry;
use accounts::{Reason, Verdict};

use super::BotsStep;

const MOST_CLIENTS: usize = 1_000_000;
const MOST_GROUPS: usize = 10_000;
/// Ends of paths that belong to a page.
const PARTS: [&[u8]; 14] = [
    b".css", b".js", b".mjs", b".png", b".jpg", b".jpeg", b".gif", b".webp", b".avif", b".svg", b".ico", b".woff",
    b".woff2", b".ttf",
];

#[derive(Clone, Copy, Default, Debug)]
struct SeenClient {
    reads: bool,
    requests: u32,
    /// In the order of [`BotsStep::ALL`].
    steps: [u32; BotsStep::ALL.len()],
    served_seconds: f32,
}

/// Numbers of clients and requests that met one step.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct StepCount {
    pub clients: u64,
    pub requests: u64,
    pub readers: u64,
    pub readers_requests: u64,
}

/// Clients by address and User-Agent.
#[derive(Default)]
pub struct Witness {
    clients: HashMap<u64, SeenClient>,
    /// Requests of clients for which there was no room.
    pub untold: u64,
}

impl Witness {
    /// Notes a request; the client's number.
    pub fn see(&mut self, entry: &AccessEntry<'_>, agent: &[u8]) -> u64 {
        let mut hasher = DefaultHasher::new();
        (entry.client.as_deref(), agent).hash(&mut hasher);
        let client = hasher.finish();
        let is_full = self.clients.len() >= MOST_CLIENTS;
        if is_full && !self.clients.contains_key(&client) {
            self.untold += 1;
            return client;
        }
        let seen = self.clients.entry(client).or_default();
        seen.requests = seen.requests.saturating_add(1);
        seen.reads |= reads(entry);
        client
    }

    pub fn count(&mut self, client: u64, step: BotsStep, seconds: f64) {
        let Some(seen) = self.clients.get_mut(&client) else { return };
        let count = &mut seen.steps[step as usize];
        *count = count.saturating_add(1);
        if matches!(step, BotsStep::Served | BotsStep::Waited) {
            seen.served_seconds += seconds as f32;
        }
    }

    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    pub fn readers(&self) -> usize {
        self.clients.values().filter(|seen| seen.reads).count()
    }

    pub fn readers_requests(&self) -> u64 {
        self.clients.values().filter(|seen| seen.reads).map(|seen| u64::from(seen.requests)).sum()
    }

    /// Seconds of the origin's time that fetches of readers, and of all, would have used.
    pub fn served_seconds(&self) -> (f64, f64) {
        let sum = |only: bool| {
            self.clients.values().filter(|seen| seen.reads || !only).map(|seen| f64::from(seen.served_seconds)).sum()
        };
        (sum(true), sum(false))
    }

    pub fn step(&self, step: BotsStep) -> StepCount {
        let mut count = StepCount::default();
        for seen in self.clients.values().filter(|seen| seen.steps[step as usize] > 0) {
            let requests = u64::from(seen.steps[step as usize]);
            count.clients += 1;
            count.requests += requests;
            count.readers += u64::from(seen.reads);
            count.readers_requests += if seen.reads { requests } else { 0 };
        }
        count
    }
}

/// True if the request shows that a browser reads: it loads a part of a page, or has a cookie.
fn reads(entry: &AccessEntry<'_>) -> bool {
    let end = entry.target.iter().position(|b| *b == b'?').unwrap_or(entry.target.len());
    let path = &entry.target[..end];
    let is_part = |part: &&[u8]| path.len() > part.len() && path[path.len() - part.len()..].eq_ignore_ascii_case(part);
    entry.field("Cookie").is_some() || PARTS.iter().any(is_part)
}

/// Requests that weren't a reader's by their verdict, by the account that decided.
#[derive(Default)]
pub struct HeldGroups {
    groups: HashMap<(&'static str, String), HeldGroup>,
    /// Requests of groups for which there was no room.
    pub untold: u64,
}

#[derive(Clone, Debug, Default)]
pub struct HeldGroup {
    pub requests: u64,
    pub held: u64,
    pub spared_seconds: f64,
    pub reason: String,
}

impl HeldGroups {
    pub fn add(&mut self, entry: &AccessEntry<'_>, verdict: &Verdict, step: BotsStep, seconds: f64) {
        let key = decided_by(entry, &verdict.reason);
        if self.groups.len() >= MOST_GROUPS && !self.groups.contains_key(&key) {
            self.untold += 1;
            return;
        }
        let group = self.groups.entry(key).or_default();
        group.requests += 1;
        group.held += u64::from(step != BotsStep::Served);
        if matches!(step, BotsStep::Stale | BotsStep::Refused) {
            group.spared_seconds += seconds;
        }
        group.reason = verdict.to_string();
    }

    /// The groups with most requests.
    pub fn top(&self, most: usize) -> Vec<(&'static str, &str, &HeldGroup)> {
        let mut all: Vec<_> = self.groups.iter().map(|((kind, name), group)| (*kind, name.as_str(), group)).collect();
        all.sort_by(|a, b| b.2.requests.cmp(&a.2.requests).then((a.0, a.1).cmp(&(b.0, b.1))));
        all.truncate(most);
        all
    }
}

fn decided_by(entry: &AccessEntry<'_>, reason: &Reason) -> (&'static str, String) {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    match reason {
        Reason::Own { .. } | Reason::Shared | Reason::Crowd => {
            ("client", text(entry.client.as_deref().unwrap_or(b"-")))
        }
        Reason::Newcomer { group: Some(group), .. } => (group.level().word(), group.to_string()),
        Reason::Pressure(_) | Reason::Newcomer { group: None, .. } => ("new", "all new clients".into()),
        Reason::Verified(name) => ("verified", name.to_string()),
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Bodies that are probably stored more than once, under different keys: answers of the same length for files of the same name.
//!
//! Memory is bounded: when there are too many, half of all lengths and names are left out, drawn by their hash.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use accesslog::AccessEntry;

/// Shorter ones aren't worth it, and are of the same length by chance.
const LEAST: u64 = 1024;
/// Objects that are known at a time.
const MOST_OBJECTS: usize = 100_000;
/// Objects of a group whose URL is kept, and how long it may be, with the host.
const MOST_URLS: usize = 8;
const LONGEST_URL: usize = 512;

#[derive(Debug)]
pub struct Duplicates {
    groups: HashMap<u64, SimulateGroup>,
    objects: usize,
    most: usize,
    highest: u64,
}

/// Objects of the same length and name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SimulateGroup {
    pub bytes: u64,
    pub requests: u64,
    objects: Vec<u64>,
    pub urls: Vec<(String, String)>,
}

impl Default for Duplicates {
    fn default() -> Self {
        Duplicates { groups: HashMap::new(), objects: 0, most: MOST_OBJECTS, highest: u64::MAX }
    }
}

impl SimulateGroup {
    pub fn objects(&self) -> u64 {
        self.objects.len() as u64
    }

    /// Bytes that one body for all would save.
    pub fn saved(&self) -> u64 {
        self.bytes.saturating_mul(self.objects().saturating_sub(1))
    }
}

impl Duplicates {
    pub fn add(&mut self, entry: &AccessEntry<'_>, object: u64, body: u64) {
        let mut hasher = DefaultHasher::new();
        (name(&entry.target), body).hash(&mut hasher);
        let hash = hasher.finish();
        if body < LEAST || hash > self.highest {
            return;
        }
        let group = self.groups.entry(hash).or_default();
        group.bytes = body;
        group.requests += 1;
        if group.objects.contains(&object) || group.objects.len() >= self.most / 10 {
            return;
        }
        group.objects.push(object);
        self.objects += 1;
        let host = entry.host.as_deref().unwrap_or_default();
        if group.urls.len() < MOST_URLS && host.len() + entry.target.len() <= LONGEST_URL {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            group.urls.push((text(host), text(&entry.target)));
        }
        while self.objects > self.most && self.highest > 0 {
            self.highest /= 2;
            let highest = self.highest;
            self.groups.retain(|hash, _| *hash <= highest);
            self.objects = self.groups.values().map(|group| group.objects.len()).sum();
        }
    }

    /// The share of all names and lengths that was looked at.
    pub fn rate(&self) -> f64 {
        (self.highest as f64 + 1.0) / 2f64.powi(64)
    }

    /// Groups of more than one object, those first that cost most.
    pub fn groups(&self) -> Vec<&SimulateGroup> {
        let mut groups: Vec<&SimulateGroup> = self.groups.values().filter(|group| group.objects.len() > 1).collect();
        groups.sort_by(|a, b| (b.saved(), &a.urls).cmp(&(a.saved(), &b.urls)));
        groups
    }
}

/// The last part of the path.
fn name(target: &[u8]) -> &[u8] {
    let path = target.split(|b| *b == b'?').next().unwrap_or_default();
    path.rsplit(|b| *b == b'/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::tests::mixed;

    fn add(to: &mut Duplicates, url: &str, body: u64) {
        let mut entry = AccessEntry::default();
        entry.set_url(Cow::Borrowed(url.as_bytes())).expect("a URL");
        let mut hasher = DefaultHasher::new();
        url.hash(&mut hasher);
        to.add(&entry, hasher.finish(), body);
    }

    #[test]
    fn the_same_file_under_several_keys() {
        let mut all = Duplicates::default();
        for url in ["http://a.nz/x/logo.png", "http://www.a.nz/x/logo.png", "http://a.nz/y/logo.png?v=2"] {
            add(&mut all, url, 5000);
            add(&mut all, url, 5000);
        }
        add(&mut all, "http://a.nz/other.png", 5000);
        add(&mut all, "http://a.nz/z/logo.png", 5001);
        add(&mut all, "http://a.nz/1/dot.gif", 43);
        add(&mut all, "http://a.nz/2/dot.gif", 43);
        let groups = all.groups();
        assert_eq!(groups.len(), 1);
        assert_eq!((groups[0].objects(), groups[0].requests, groups[0].saved()), (3, 6, 10_000));
        assert_eq!(groups[0].urls[1], ("www.a.nz".to_owned(), "/x/logo.png".to_owned()));
    }

    #[test]
    fn a_long_url_counts_but_isnt_kept() {
        let mut all = Duplicates::default();
        let long = "h".repeat(LONGEST_URL);
        for url in [&format!("http://{long}/x/a.png"), &format!("http://a.nz/{long}/a.png"), "http://a.nz/x/a.png"] {
            add(&mut all, url, 5000);
        }
        let groups = all.groups();
        assert_eq!((groups[0].objects(), &groups[0].urls), (3, &vec![("a.nz".to_owned(), "/x/a.png".to_owned())]));
    }

    #[test]
    fn memory_is_bounded() {
        let mut all = Duplicates { most: 1000, ..Duplicates::default() };
        for n in 0..20_000u64 {
            add(&mut all, &format!("http://h{}.nz/{}", n % 2, mixed(n / 2)), 5000);
            assert!(all.objects <= 1000);
        }
        let pairs = all.groups().len() as f64 / all.rate();
        assert!((7_000.0..13_000.0).contains(&pairs), "{pairs}");
        // Of one name and length there are no more than that.
        (0..1000).for_each(|n| add(&mut all, &format!("http://h/{n}/same"), 7777));
        assert!(all.groups().iter().all(|group| group.objects() <= 100));
    }
}

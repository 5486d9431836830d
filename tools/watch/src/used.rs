// SPDX-License-Identifier: BSD-2-Clause
//! The VCLs that get requests, as far as the log shows them: those with recent requests, and those that have a label.

use std::collections::BTreeMap;

/// Maximum number of VCLs and labels that are kept. Beyond it, the oldest one is replaced.
const MAX_USED: usize = 200;
/// Seconds after a VCL's last request for which it counts as used.
const USED_SECONDS: u64 = 60;

#[derive(Debug)]
struct UsedVcl {
    /// The name under which it was loaded.
    loaded: Vec<u8>,
    /// The value of [`UsedVcls::seconds`] at its last request. `None` if there was none.
    last: Option<u64>,
}

#[derive(Debug, Default)]
pub struct UsedVcls {
    /// VCLs by the name that led to them: a label, or their own name.
    all: BTreeMap<Vec<u8>, UsedVcl>,
    seconds: u64,
}

impl UsedVcls {
    /// Adds a request. `name` is the label that led to the VCL `loaded`, or the same name.
    pub fn request(&mut self, name: &[u8], loaded: &[u8]) {
        self.set(name, loaded, Some(self.seconds));
    }

    pub fn label(&mut self, label: &[u8], loaded: &[u8]) {
        let last = self.all.get(label).and_then(|used| used.last);
        self.set(label, loaded, last);
    }

    /// Handles `vcl.discard` of a VCL or a label.
    pub fn discard(&mut self, name: &[u8]) {
        self.all.retain(|key, used| key != name && used.loaded != name);
    }

    /// Handles `vcl.use`: the VCL that was active before gets no more requests, unless it has a label.
    pub fn forget_unlabelled(&mut self) {
        self.all.retain(|name, used| *name != used.loaded);
    }

    pub fn end_second(&mut self) {
        self.seconds += 1;
        let now = self.seconds;
        self.all.retain(|name, used| *name != used.loaded || is_recent(used, now));
    }

    /// True if a VCL had requests in the last [`USED_SECONDS`], or has a label. `vcl` is the name under which it was loaded.
    pub fn contains(&self, vcl: &str) -> bool {
        self.all.values().any(|used| used.loaded == vcl.as_bytes())
    }

    /// True if no VCL had requests lately.
    pub fn is_idle(&self) -> bool {
        !self.all.values().any(|used| is_recent(used, self.seconds))
    }

    /// Runs for each request, so a known name must cost no allocation.
    fn set(&mut self, name: &[u8], loaded: &[u8], last: Option<u64>) {
        if let Some(used) = self.all.get_mut(name) {
            used.last = last;
            if used.loaded != loaded {
                used.loaded = loaded.to_vec();
            }
        } else if !loaded.is_empty() {
            if self.all.len() == MAX_USED {
                self.remove_oldest();
            }
            self.all.insert(name.to_vec(), UsedVcl { loaded: loaded.to_vec(), last });
        }
    }

    /// Removes the oldest VCL without a label, or else the oldest label.
    fn remove_oldest(&mut self) {
        let oldest = self.all.iter().min_by_key(|(name, used)| (**name != used.loaded, used.last));
        if let Some(name) = oldest.map(|(name, _)| name.clone()) {
            self.all.remove(&name);
        }
    }
}

fn is_recent(used: &UsedVcl, now: u64) -> bool {
    used.last.is_some_and(|last| now - last < USED_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(used: &mut UsedVcls, seconds: u64) {
        (0..seconds).for_each(|_| used.end_second());
    }

    #[test]
    fn a_vcl_is_used_for_a_minute_after_its_last_request() {
        let mut used = UsedVcls::default();
        assert!(used.is_idle());
        used.request(b"", b"");
        used.request(b"boot", b"boot");
        seconds(&mut used, 30);
        used.request(b"two", b"two");
        seconds(&mut used, 29);
        assert!(used.contains("boot") && used.contains("two") && !used.contains("") && !used.is_idle());
        used.end_second();
        assert!(!used.contains("boot") && used.contains("two"));
        seconds(&mut used, 30);
        assert!(used.is_idle() && used.all.is_empty());
    }

    #[test]
    fn a_label_keeps_its_vcl_in_use() {
        let mut used = UsedVcls::default();
        used.request(b"www", b"shop_1");
        used.label(b"api", b"api_1");
        used.request(b"boot", b"boot");
        seconds(&mut used, USED_SECONDS);
        assert!(used.contains("shop_1") && used.contains("api_1") && !used.contains("boot") && !used.contains("www"));
        assert!(used.is_idle(), "whether others get requests isn't known");
        used.forget_unlabelled();
        assert!(used.contains("shop_1") && used.contains("api_1"));
        // The labels are moved, one by a command in the log, one by a command that wasn't read.
        used.label(b"www", b"shop_2");
        used.request(b"api", b"api_2");
        assert!(used.contains("shop_2") && !used.contains("shop_1"));
        assert!(used.contains("api_2") && !used.contains("api_1"));
        used.discard(b"www");
        used.discard(b"api_2");
        assert!(used.all.is_empty());
    }

    #[test]
    fn the_oldest_is_replaced_beyond_the_bound() {
        let name = |n: usize| format!("vcl{n}");
        let mut used = UsedVcls::default();
        used.label(b"www", b"shop");
        for n in 0..2 * MAX_USED {
            used.request(name(n).as_bytes(), name(n).as_bytes());
            if n.is_multiple_of(10) {
                used.end_second();
            }
        }
        assert_eq!(used.all.len(), MAX_USED);
        assert!(used.contains("shop") && used.contains(&name(2 * MAX_USED - 1)) && !used.contains(&name(0)));
        for n in 0..2 * MAX_USED {
            used.request(name(n).as_bytes(), b"shop_2");
            used.end_second();
        }
        assert!(used.all.len() == MAX_USED && !used.contains("shop") && used.all.contains_key(name(399).as_bytes()));
    }
}

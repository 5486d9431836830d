// SPDX-License-Identifier: BSD-2-Clause
//! Which requests are told of: by their trace's number, and by how they ended.

use std::time::Duration;

use transactions::{Transaction, ids};

#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// The share that is kept, of so many in 2^64 traces.
    most: u64,
    /// All that took longer.
    pub slow: Option<Duration>,
    /// Keep all that failed.
    pub errors: bool,
    /// All whose caller keeps the trace.
    pub follows_caller: bool,
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling { most: u64::MAX, slow: None, errors: true, follows_caller: true }
    }
}

impl Sampling {
    /// Keeps this part of all traces, 0 to 1. Several servers of a trace that keep the same part keep the same traces.
    pub fn set_ratio(&mut self, ratio: f64) {
        self.most = if ratio >= 1.0 { u64::MAX } else { (ratio.max(0.0) * u64::MAX as f64) as u64 };
    }

    pub fn keeps(&self, request: &Transaction) -> bool {
        let context = ids::of_request(request).own;
        // The lower half: W3C wants it random at least.
        let by_number = self.most == u64::MAX || (context.trace as u64) < self.most;
        let is_slow = || {
            let took = request.duration_ns().map(Duration::from_nanos);
            self.slow.zip(took).is_some_and(|(slow, took)| took >= slow)
        };
        by_number || self.follows_caller && context.is_sampled() || self.errors && request.has_failed() || is_slow()
    }
}

#[cfg(test)]
mod tests {
    use transactions::{TransactionMessage, TransactionStamp, UnixNs};

    use super::*;

    fn request(vxid: u64, status: u16, ns: u64) -> Transaction {
        let at = |label: &str, at| TransactionStamp { label: label.into(), at: UnixNs(at) };
        Transaction {
            vxid,
            stamps: vec![at("Start", 1_700_000_000_000_000_000), at("Resp", 1_700_000_000_000_000_000 + ns)],
            response: TransactionMessage { status, ..TransactionMessage::default() },
            ..Transaction::default()
        }
    }

    #[test]
    fn a_part_is_kept_by_number() {
        let mut sampling = Sampling::default();
        let kept = |sampling: &Sampling| (0..10_000).filter(|vxid| sampling.keeps(&request(*vxid, 200, 0))).count();
        assert_eq!(kept(&sampling), 10_000);
        sampling.set_ratio(0.1);
        assert!((850..1150).contains(&kept(&sampling)), "{}", kept(&sampling));
        sampling.set_ratio(0.0);
        assert_eq!(kept(&sampling), 0);
    }

    #[test]
    fn what_failed_or_was_slow_is_kept_whatever_its_number() {
        let mut sampling = Sampling { slow: Some(Duration::from_millis(500)), ..Sampling::default() };
        sampling.set_ratio(0.0);
        assert!(sampling.keeps(&request(2, 503, 0)) && sampling.keeps(&request(2, 200, 500_000_000)));
        assert!(!sampling.keeps(&request(2, 404, 499_999_999)));
        sampling.errors = false;
        assert!(!sampling.keeps(&request(2, 503, 0)));
    }

    #[test]
    fn a_caller_that_keeps_its_trace_is_followed() {
        let mut sampling = Sampling::default();
        sampling.set_ratio(0.0);
        let mut asked = request(2, 200, 0);
        asked.trace_parents = vec!["00-ffffffffffffffffffffffffffffffff-b7ad6b7169203331-01".into()];
        assert!(sampling.keeps(&asked));
        asked.trace_parents = vec!["00-ffffffffffffffffffffffffffffffff-b7ad6b7169203331-00".into()];
        assert!(!sampling.keeps(&asked));
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! The log's own clock: when each request is due after the first.
//!
//! Logs know whole seconds: what came in the same one is spread over it. Clocks that jump back cost no time, pauses longer
//! than a bound are cut to it; both are counted.

use crate::reader::{PlannedRequest, ReplayBatch};
use accesslog::EntryStamp;

const SECOND: u64 = 1_000_000_000;
/// Lines are written when their requests end: so far back is no jump of the clock.
const DISORDER: i64 = 60 * SECOND as i64;
/// Requests of one second that are spread together.
const MAX_OF_A_SECOND: usize = 1 << 16;

#[derive(Debug)]
pub struct Timing {
    max_gap: u64,
    /// The latest time of the log so far, and when that is due.
    at: Option<(i64, u64)>,
    second: ReplayBatch,
    is_whole: bool,
    ready: ReplayBatch,
    /// Times that went back by more than disorder, and pauses cut.
    pub jumps: u64,
}

impl Timing {
    pub fn new(max_gap: u64) -> Timing {
        Timing {
            max_gap,
            at: None,
            second: ReplayBatch::default(),
            is_whole: false,
            ready: ReplayBatch::default(),
            jumps: 0,
        }
    }

    pub fn add(&mut self, head: &[u8], ask: PlannedRequest, time: EntryStamp) {
        let (latest, due) = self.at.unwrap_or((time.ns, 0));
        let passed = time.ns.saturating_sub(latest);
        let (latest, later) = match u64::try_from(passed) {
            Ok(later) if later > self.max_gap => {
                self.jumps += 1;
                (time.ns, self.max_gap)
            }
            Ok(later) => (time.ns, later),
            Err(_) if passed >= -DISORDER => (latest, 0),
            Err(_) => {
                self.jumps += 1;
                (time.ns, 0)
            }
        };
        let due = due.saturating_add(later);
        if later > 0 || self.second.asks.len() >= MAX_OF_A_SECOND {
            self.spread(later);
        }
        self.at = Some((latest, due));
        self.is_whole = time.is_whole_second;
        let to = if self.is_whole { &mut self.second } else { &mut self.ready };
        to.push(head, PlannedRequest { due, ..ask });
    }

    /// Requests that have their time; `is_end`: all there is.
    pub fn take(&mut self, is_end: bool) -> ReplayBatch {
        if is_end {
            self.spread(SECOND);
        }
        std::mem::take(&mut self.ready)
    }

    /// Spreads what came in one second over what there is up to the next one.
    fn spread(&mut self, until_next: u64) {
        let second = std::mem::take(&mut self.second);
        let (n, room) = (second.asks.len() as u64, until_next.min(SECOND));
        for (i, ask) in second.asks.iter().enumerate() {
            let due = ask.due.saturating_add((u128::from(room) * i as u128 / u128::from(n)) as u64);
            self.ready.push(second.head(ask), PlannedRequest { due, ..*ask });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dues(times: &[(i64, bool)], max_gap: u64) -> (Vec<u64>, u64) {
        let mut timing = Timing::new(max_gap);
        let mut dues = Vec::new();
        for (ms, is_whole_second) in times {
            let ask = PlannedRequest { begin: 0, end: 0, address: 0, due: 0, is_head: false, is_safe: true };
            timing.add(b"x", ask, EntryStamp { ns: ms * 1_000_000, is_whole_second: *is_whole_second, zone: None });
            dues.extend(timing.take(false).asks.iter().map(|a| a.due / 1_000_000));
        }
        dues.extend(timing.take(true).asks.iter().map(|a| a.due / 1_000_000));
        (dues, timing.jumps)
    }

    #[test]
    fn seconds_are_spread() {
        let whole = |seconds: &[i64]| seconds.iter().map(|s| (s * 1000, true)).collect::<Vec<_>>();
        assert_eq!(dues(&whole(&[5, 5, 5, 5, 6, 6, 9]), u64::MAX), (vec![0, 250, 500, 750, 1000, 1500, 4000], 0));
        assert_eq!(dues(&[(100, false), (350, false), (350, false)], u64::MAX), (vec![0, 250, 250], 0));
        // A clock that was set back by a day, and a pause of a day.
        assert_eq!(dues(&whole(&[86_400, 0, 1, 86_402]), 2 * SECOND), (vec![0, 500, 1000, 3000], 2));
        // Lines in the order of their requests' ends.
        assert_eq!(dues(&whole(&[10, 9, 10, 9, 11]), u64::MAX), (vec![0, 250, 500, 750, 1000], 0));
    }

    proptest! {
        #[test]
        fn due_times_never_go_back(times in proptest::collection::vec((any::<i64>(), any::<bool>()), 0..60)) {
            let mut timing = Timing::new(SECOND * 3600);
            let mut dues = Vec::new();
            for (ns, is_whole_second) in &times {
                let ask = PlannedRequest { begin: 0, end: 0, address: 0, due: 0, is_head: false, is_safe: true };
                timing.add(b"x", ask, EntryStamp { ns: *ns, is_whole_second: *is_whole_second, zone: None });
                dues.extend(timing.take(false).asks.iter().map(|a| a.due));
            }
            dues.extend(timing.take(true).asks.iter().map(|a| a.due));
            prop_assert_eq!(dues.len(), times.len());
            prop_assert!(dues.is_sorted(), "{:?}", dues);
        }
    }
}

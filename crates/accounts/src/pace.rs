// SPDX-License-Identifier: BSD-2-Clause
//! The time that a fetch takes when nothing waits. A fetch that waits in the origin's queue seems to use the origin for as long as it waits,
//! and a hundred may wait at once. So no fetch counts for more than a few times the usual time. A fetch that fails counts for the usual time
//! at least: an origin that is too busy refuses at once, and crawlers would pay nothing for it.
//!
//! Readers' fetches alone say what is usual, else a crawler of cheap pages would get expensive ones at their price.

use base::Mono;

use crate::ledger::{FetchEnd, Payer};

/// The usual time is the one below which this part of the fetches stays.
const PART: f64 = 0.75;
/// Steps of the logarithm of the usual time: for the first fetches, and for all others.
const STEPS: (f64, f64) = (0.5, 0.125);
const FIRST: u32 = 64;
/// The usual time doubles within five minutes at most, as a queue that a crawl fills lasts for a minute or two. It falls at once.
const RISE: f64 = std::f64::consts::LN_2 / 300.0;
/// The most that it rises after a pause.
const MOST_RISE: f64 = 0.25;
/// Multiples of the usual time that a fetch counts for at most.
const TIMES: f64 = 3.0;

#[derive(Debug)]
pub(crate) struct OriginPace {
    /// Seconds; 0 before the first fetch.
    usual: f64,
    fetches: u32,
    /// The logarithm by which the usual time may rise now.
    rise: f64,
    at: Mono,
}

impl OriginPace {
    pub fn new(now: Mono) -> Self {
        OriginPace { usual: 0.0, fetches: 0, rise: 0.0, at: now }
    }

    /// The seconds that a fetch counts for.
    pub fn count(&mut self, end: FetchEnd, payer: Payer, now: Mono) -> f64 {
        let most = if self.fetches == 0 { f64::INFINITY } else { self.usual * TIMES };
        let least = if end.has_failed { self.usual } else { 0.0 };
        let counted = end.waited.clamp(least, most);
        let is_first = self.fetches < FIRST;
        let is_usual = payer == Payer::Readers || (is_first && payer == Payer::Nobody);
        if is_usual && !end.has_failed {
            self.learn(end.waited, is_first, now);
        }
        counted
    }

    fn learn(&mut self, seconds: f64, is_first: bool, now: Mono) {
        if self.fetches == 0 {
            self.usual = seconds;
        }
        self.rise = (self.rise + now.since(self.at).max(0.0) * RISE).min(MOST_RISE);
        self.at = now;
        let step = if is_first { STEPS.0 } else { STEPS.1 };
        if seconds > self.usual {
            let rise = if is_first { step * PART } else { (step * PART).min(self.rise) };
            self.rise = (self.rise - rise).max(0.0);
            self.usual = (self.usual * rise.exp()).min(seconds);
        } else {
            self.usual = (self.usual * (-step * (1.0 - PART)).exp()).max(seconds);
        }
        self.usual = self.usual.max(1e-4);
        self.fetches = self.fetches.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(waited: f64) -> FetchEnd {
        FetchEnd { waited, ..FetchEnd::default() }
    }

    /// The seconds that a hundred fetches a second count for, each of which takes `each`.
    fn count(pace: &mut OriginPace, from: f64, seconds: u32, each: f64) -> f64 {
        count_of(pace, from, seconds, end(each), Payer::Readers)
    }

    fn count_of(pace: &mut OriginPace, from: f64, seconds: u32, each: FetchEnd, payer: Payer) -> f64 {
        let times = (0..seconds * 100).map(|n| Mono(from + f64::from(n) / 100.0));
        times.map(|now| pace.count(each, payer, now)).sum()
    }

    #[test]
    fn an_origin_that_refuses_at_once_lowers_no_price() {
        let mut pace = OriginPace::new(Mono(0.0));
        count(&mut pace, 0.0, 60, 0.02);
        let refused = FetchEnd { waited: 0.0002, has_failed: true, ..FetchEnd::default() };
        for payer in [Payer::Readers, Payer::Nobody] {
            let counted = count_of(&mut pace, 60.0, 60, refused, payer) / 6000.0;
            assert!((counted - 0.02).abs() < 1e-6, "{payer:?}: {counted}");
        }
        assert!((pace.count(end(1.0), Payer::Readers, Mono(120.0)) - 0.06).abs() < 1e-6);
    }

    #[test]
    fn cheap_pages_of_crawlers_lower_no_price() {
        let mut pace = OriginPace::new(Mono(0.0));
        count(&mut pace, 0.0, 60, 0.02);
        let cheap = count_of(&mut pace, 60.0, 60, end(0.0002), Payer::Nobody) / 6000.0;
        assert!((cheap - 0.0002).abs() < 1e-9);
        assert!((pace.count(end(1.0), Payer::Nobody, Mono(120.0)) - 0.06).abs() < 1e-6);
    }

    #[test]
    fn waits_in_a_queue_count_for_a_few_times_the_usual_time() {
        let mut pace = OriginPace::new(Mono(0.0));
        count(&mut pace, 0.0, 60, 0.02);
        let counted = count(&mut pace, 60.0, 30, 10.0) / 3000.0;
        assert!((0.059..0.09).contains(&counted), "{counted} s for a fetch of 20 ms that waits for 10 s");
        let after = count(&mut pace, 90.0, 60, 0.02) / 6000.0;
        assert!((after - 0.02).abs() < 1e-6, "{after}");
    }

    #[test]
    fn an_origin_that_has_become_slow_counts_in_full_after_a_while() {
        let mut pace = OriginPace::new(Mono(0.0));
        count(&mut pace, 0.0, 60, 0.02);
        count(&mut pace, 60.0, 900, 0.4);
        assert!((pace.count(end(0.4), Payer::Readers, Mono(960.0)) - 0.4).abs() < 1e-9);
    }

    #[test]
    fn the_first_fetches_decide_quickly() {
        let mut pace = OriginPace::new(Mono(0.0));
        pace.count(end(0.001), Payer::Readers, Mono(0.0));
        count(&mut pace, 0.0, 1, 0.3);
        assert!((pace.count(end(0.3), Payer::Readers, Mono(1.0)) - 0.3).abs() < 1e-9);
    }
}

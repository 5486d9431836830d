// SPDX-License-Identifier: BSD-2-Clause
//! After which times lost packets are sent again, and whether times of answers stand near those.
//!
//! A first time-out of T that doubles each time gives answers near T, 3 T, 7 T, 15 T. T is 1 s for a SYN (RFC 6298 2.1),
//! 3 s in older systems (RFC 1122), and 200 ms at least for data (Linux' `tcp_rto_min`). Linux since 6.5 sends the first SYNs
//! each second (`tcp_syn_linear_timeouts`), and since 3.10 a probe (RFC 8985 7) goes before the first time-out of data: 0.2, 0.4, 0.8 s.

/// Times after which something is sent again, in seconds.
#[derive(Debug)]
pub struct RetransmitLadder {
    /// The thing that was lost.
    pub what: &'static str,
    /// The systems and versions for which it is so.
    pub of: &'static str,
    pub rungs: &'static [f64],
    /// The delay by which an answer may come later: the way there and back, and who sleeps and wakes.
    delay: f64,
    /// Times on one rung alone are a finding. For data they aren't: many a server takes 0.8 s for something.
    is_told_by_one: bool,
}

const fn syn(of: &'static str, rungs: &'static [f64]) -> RetransmitLadder {
    RetransmitLadder { what: "SYN", of, rungs, delay: 0.15, is_told_by_one: true }
}

const fn data(of: &'static str, rungs: &'static [f64]) -> RetransmitLadder {
    RetransmitLadder { what: "data", of, rungs, delay: 0.05, is_told_by_one: false }
}

/// All that are known; of those that fit alike the first counts.
pub const LADDERS: [RetransmitLadder; 5] = [
    syn("first sent again after 1 s", &[1.0, 3.0, 7.0, 15.0, 31.0, 63.0]),
    syn("first sent again after 3 s: a system of before 2011", &[3.0, 9.0, 21.0, 45.0, 93.0]),
    syn("sent each second at first: Linux 6.5 and later", &[1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 11.0, 19.0, 35.0]),
    data("first sent again after 200 ms", &[0.2, 0.6, 1.4, 3.0, 6.2, 12.6, 25.4, 51.0]),
    data(
        "first sent again after 200 ms, and then a time-out: Linux",
        &[0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2],
    ),
];

/// A clock's coarseness: so much earlier an answer may come.
const EARLY: f64 = 0.02;
/// Timers of Linux are late by up to an eighth of the time that they were set to, which is half of a rung: 15 s become 15.4.
const LATE_SHARE: f64 = 0.0625;
/// A ladder is a finding if at least so many slow answers stand on it,
const LEAST: usize = 3;
/// and this share of them,
const LEAST_SHARE: f64 = 0.6;
/// and chance puts as many there once in so many runs.
const LEAST_ODDS: f64 = 100.0;

/// The ladder that slow answers stand on.
#[derive(Clone, PartialEq, Debug)]
pub struct Fit {
    /// The place in [`LADDERS`].
    pub ladder: usize,
    /// Slow answers on it.
    pub on: usize,
    /// For each rung with any: its time and how many.
    pub rungs: Vec<(f64, usize)>,
}

/// The ladder on which most of these times stand (seconds beyond what is usual), if that is no chance.
pub fn fit(times: &[f64], slow: f64) -> Option<Fit> {
    let longest = times.iter().copied().fold(0.0, f64::max);
    let mut best: Option<(f64, Fit)> = None;
    for (at, ladder) in LADDERS.iter().enumerate() {
        let near = |rung: f64| times.iter().filter(|&&time| ladder.is_near(time, rung)).count();
        let rungs: Vec<(f64, usize)> =
            ladder.rungs.iter().map(|&rung| (rung, near(rung))).filter(|(_, n)| *n > 0).collect();
        let on: usize = rungs.iter().map(|(_, n)| n).sum();
        let share = on as f64 / times.len().max(1) as f64;
        let is_finding = on >= LEAST
            && share >= LEAST_SHARE
            && (ladder.is_told_by_one || rungs.len() >= 2)
            && by_chance(times.len(), on, ladder.cover(slow, longest)) * LEAST_ODDS < 1.0;
        // Fewer rungs that explain as much are the better explanation.
        let reach = ladder.rungs.iter().filter(|&&rung| rung <= longest).count();
        let score = share - 0.01 * reach as f64;
        if is_finding && best.as_ref().is_none_or(|(other, _)| score > *other) {
            best = Some((score, Fit { ladder: at, on, rungs }));
        }
    }
    best.map(|(_, fit)| fit)
}

impl RetransmitLadder {
    /// Times that may have waited for that rung.
    fn window(&self, rung: f64) -> (f64, f64) {
        (rung - EARLY, rung + self.delay + LATE_SHARE * rung)
    }

    /// True if an answer of that time may have waited for that rung.
    fn is_near(&self, time: f64, rung: f64) -> bool {
        let (from, to) = self.window(rung);
        (from..=to).contains(&time)
    }

    /// The share of the times between the least and the longest slow answer that is near a rung.
    fn cover(&self, slow: f64, longest: f64) -> f64 {
        let room = (longest + self.delay - slow).max(self.delay);
        let within = |rung: &f64| {
            let (from, to) = self.window(*rung);
            (to.min(slow + room) - from.max(slow)).max(0.0)
        };
        (self.rungs.iter().map(within).sum::<f64>() / room).min(1.0)
    }
}

/// Probability that of `all` at least `on` fall where `share` of them is expected.
fn by_chance(all: usize, on: usize, share: f64) -> f64 {
    // Hoeffding's bound by relative entropy: close enough, and no factorials.
    let seen = on as f64 / all.max(1) as f64;
    if seen <= share {
        return 1.0;
    }
    let part = |p: f64, q: f64| if p > 0.0 { p * (p / q.max(1e-9)).ln() } else { 0.0 };
    (-(all as f64) * (part(seen, share) + part(1.0 - seen, 1.0 - share))).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ladders_are_told_apart() {
        let new = fit(&[1.002, 3.01, 1.004, 7.02, 1.0, 3.004], 0.5).unwrap();
        assert_eq!((new.ladder, new.on, new.rungs.len()), (0, 6, 3));
        let old = fit(&[3.002, 9.01, 3.004, 21.02, 3.0, 9.004], 0.5).unwrap();
        assert_eq!((LADDERS[old.ladder].rungs[0], old.on), (3.0, 6));
        let linear = fit(&[1.002, 2.01, 3.004, 2.02, 4.1, 1.004], 0.5).unwrap();
        assert_eq!(LADDERS[linear.ladder].rungs[1], 2.0);
        let data = fit(&[0.61, 1.42, 0.62, 3.01, 1.41], 0.5).unwrap();
        assert_eq!(LADDERS[data.ladder].rungs[1], 0.6);
        // As measured with Linux 6.18, answers of 200 ms and more.
        let probed = fit(&[0.2025, 0.2064, 0.4085, 0.4145, 0.8165, 0.8345, 1.6704, 6.6945], 0.15).unwrap();
        assert_eq!((LADDERS[probed.ladder].rungs[1], probed.on), (0.4, 8));
    }

    #[test]
    fn timers_that_are_late_are_known() {
        // As measured with Linux 6.18.
        let times = [1.0037, 1.0295, 3.0175, 3.0435, 7.2237, 7.3040, 15.3991, 15.4457];
        let found = fit(&times, 0.5).unwrap();
        assert_eq!((found.ladder, found.on, found.rungs.len()), (0, 8, 4));
    }

    #[test]
    fn chance_is_weighed() {
        assert!(
            by_chance(3, 3, 0.2) < 0.01 && by_chance(10, 6, 0.5) > 0.1,
            "{} {}",
            by_chance(3, 3, 0.2),
            by_chance(10, 6, 0.5)
        );
        assert!((by_chance(5, 1, 0.5) - 1.0).abs() < 1e-9 && by_chance(0, 0, 0.0) >= 1.0 - 1e-9);
        for n in 1..=200u32 {
            // One number after the other in an order like chance's.
            let spread: Vec<f64> = (0..n).map(|i| 0.15 + (f64::from(i) * 0.618_034).fract() * 3.0).collect();
            assert_eq!(fit(&spread, 0.15), None, "{n} slow answers of 0.15 to 3.15 s");
        }
    }

    #[test]
    fn a_slow_server_stands_on_none() {
        let spread: Vec<f64> = (0..200).map(|n| 0.5 + f64::from(n) * 0.047).collect();
        assert_eq!(fit(&spread, 0.5), None);
        assert_eq!(fit(&[], 0.5), None);
        assert_eq!(fit(&[1.0, 3.0], 0.5), None, "two are no finding");
        let one_place = [0.75, 0.76, 0.77, 0.78, 0.74, 0.79];
        assert_eq!(fit(&one_place, 0.5), None, "a sleep of the server's own");
        assert_eq!(fit(&[0.82; 9], 0.5), None, "a sleep on a rung for data");
    }
}

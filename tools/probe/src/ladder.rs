// SPDX-License-Identifier: BSD-2-Clause
//! After which times lost packets are sent again, and whether times of answers stand near those.
//!
//! A first time-out of T that doubles each time gives answers near T, 3 T, 7 T, 15 T. T is 1 s for a SYN (RFC 6298 2.1),
//! 3 s in older systems (RFC 1122), and 200 ms at least for data (Linux' `tcp_rto_min`). Linux since 6.5 sends the first SYNs
//! each second (`tcp_syn_linear_timeouts`).

/// Times after which something is sent again, in seconds.
#[derive(Debug)]
pub struct Ladder {
    /// What was lost.
    pub what: &'static str,
    /// Since when or where it is so.
    pub of: &'static str,
    pub rungs: &'static [f64],
}

/// All that are known; of those that fit alike the first counts.
pub const LADDERS: [Ladder; 4] = [
    Ladder { what: "SYN", of: "first sent again after 1 s", rungs: &[1.0, 3.0, 7.0, 15.0, 31.0, 63.0] },
    Ladder {
        what: "SYN",
        of: "first sent again after 3 s: a system of before 2011",
        rungs: &[3.0, 9.0, 21.0, 45.0, 93.0],
    },
    Ladder {
        what: "SYN",
        of: "sent each second at first: Linux 6.5 and later",
        rungs: &[1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 11.0, 19.0, 35.0],
    },
    Ladder { what: "data", of: "first sent again after 200 ms", rungs: &[0.2, 0.6, 1.4, 3.0, 6.2, 12.6, 25.4, 51.0] },
];

/// An answer comes so much later than the packet that was sent again, at most: the way there and back, and timers that
/// are late.
const BEFORE: f64 = 0.02;
const AFTER: f64 = 0.15;
/// A ladder is a finding if at least so many slow answers stand on it,
const LEAST: usize = 3;
/// and this share of them,
const LEAST_SHARE: f64 = 0.6;
/// and this many times as many as chance would put there.
const LEAST_GAIN: f64 = 2.0;

/// Which ladder slow answers stand on.
#[derive(Clone, PartialEq, Debug)]
pub struct Fit {
    /// Place in [`LADDERS`].
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
        let near = |rung: f64| times.iter().filter(|&&time| is_near(time, rung)).count();
        let rungs: Vec<(f64, usize)> =
            ladder.rungs.iter().map(|&rung| (rung, near(rung))).filter(|(_, n)| *n > 0).collect();
        let on: usize = rungs.iter().map(|(_, n)| n).sum();
        let share = on as f64 / times.len().max(1) as f64;
        // Of the time between the least and the longest slow answer, what the rungs take.
        let room = (longest + AFTER - slow).max(AFTER);
        let reach = ladder.rungs.iter().filter(|&&rung| rung + AFTER > slow && rung <= longest + AFTER).count();
        let chance = (reach as f64 * (BEFORE + AFTER) / room).min(1.0);
        // A single cluster can be anything that takes so long: it is told with the others' evidence, not here.
        let is_finding = on >= LEAST && share >= LEAST_SHARE && (share >= LEAST_GAIN * chance || rungs.len() >= 2);
        // Fewer rungs that explain as much are the better explanation.
        let score = share - 0.01 * reach as f64;
        if is_finding && best.as_ref().is_none_or(|(other, _)| score > *other) {
            best = Some((score, Fit { ladder: at, on, rungs }));
        }
    }
    best.map(|(_, fit)| fit)
}

/// Whether an answer of that time may have waited for that rung.
pub fn is_near(time: f64, rung: f64) -> bool {
    (rung - BEFORE..=rung + AFTER).contains(&time)
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
        assert_eq!(LADDERS[data.ladder].what, "data");
    }

    #[test]
    fn a_slow_server_stands_on_none() {
        let spread: Vec<f64> = (0..200).map(|n| 0.5 + f64::from(n) * 0.047).collect();
        assert_eq!(fit(&spread, 0.5), None);
        assert_eq!(fit(&[], 0.5), None);
        assert_eq!(fit(&[1.0, 3.0], 0.5), None, "two are no finding");
        let one_place = [0.75, 0.76, 0.77, 0.78, 0.74, 0.79];
        assert_eq!(fit(&one_place, 0.5), None, "a sleep of the server's own");
    }
}

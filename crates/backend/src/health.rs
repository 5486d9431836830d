// SPDX-License-Identifier: BSD-2-Clause
//! The shift register of a probe: the result of each poke, the number of good ones among the last `window`, and the texts of the
//! `Backend_health` record and `backend.list -p`. Pure; the task that pokes is in `probe`.

use std::fmt::Write;
use std::time::Duration;

use crate::ProbeSpec;

/// Maximum number of good probes that weigh in the average response time.
const AVERAGE_OVER: f64 = 4.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Poke {
    pub ipv4: bool,
    pub ipv6: bool,
    pub unix: bool,
    /// Writing the request failed.
    pub err_xmit: bool,
    /// The request was written.
    pub good_xmit: bool,
    /// Reading failed or took too long.
    pub err_recv: bool,
    /// The whole response was received.
    pub good_recv: bool,
    /// The response is the expected one.
    pub happy: bool,
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct PokeResult {
    pub poke: Poke,
    /// Time from its start to the end of the response; zero if that wasn't reached.
    pub took: Duration,
    /// The status line, or the error.
    pub message: String,
}

/// The bitmaps, in the order and with the letters of `backend.list -p`.
const MAPS: [(char, &str, bool); 8] = [
    ('4', "Good IPv4", false),
    ('6', "Good IPv6", false),
    ('U', "Good UNIX", false),
    ('x', "Error Xmit", false),
    ('X', "Good Xmit", false),
    ('r', "Error Recv", false),
    ('R', "Good Recv", false),
    ('H', "Happy", true),
];
const HAPPY: usize = 7;

#[derive(Clone, Debug, PartialEq)]
pub struct ProbeState {
    maps: [u64; 8],
    window: u32,
    threshold: u32,
    initial: u32,
    good: u32,
    last: f64,
    average: f64,
    rate: f64,
    sick: bool,
    message: String,
}

impl ProbeState {
    /// State when a VCL is loaded: `initial` good pokes, and not yet judged.
    pub fn new(spec: &ProbeSpec) -> Self {
        let spec = spec.resolved();
        let mut state = Self {
            maps: [0; 8],
            window: spec.window,
            threshold: spec.threshold,
            initial: spec.initial.unwrap_or(0),
            good: 0,
            last: 0.0,
            average: 0.0,
            rate: 0.0,
            sick: false,
            message: String::new(),
        };
        state.reset();
        state
    }

    pub fn reset(&mut self) {
        (self.maps, self.average, self.rate) = ([0; 8], 0.0, 0.0);
        self.good = 0;
        for _ in 0..self.initial {
            self.shift();
            self.maps[HAPPY] |= 1;
            self.judge();
        }
    }

    fn shift(&mut self) {
        self.maps.iter_mut().for_each(|map| *map <<= 1);
        self.last = 0.0;
        self.message.clear();
    }

    fn judge(&mut self) {
        if self.maps[HAPPY] & 1 == 1 {
            if self.rate < AVERAGE_OVER {
                self.rate += 1.0;
            }
            self.average += (self.last - self.average) / self.rate;
        }
        let mask = if self.window >= 64 { u64::MAX } else { (1 << self.window) - 1 };
        self.good = (self.maps[HAPPY] & mask).count_ones();
    }

    pub fn poked(&mut self, result: PokeResult) {
        self.shift();
        let p = result.poke;
        let bits = [p.ipv4, p.ipv6, p.unix, p.err_xmit, p.good_xmit, p.err_recv, p.good_recv, p.happy];
        for (map, bit) in self.maps.iter_mut().zip(bits) {
            *map |= u64::from(bit);
        }
        self.last = result.took.as_secs_f64();
        self.message = result.message;
        self.judge();
    }

    /// Judges the state again and writes the `Backend_health` record. Returns true if health changed.
    pub fn update(&mut self, name: &str, record: &mut String) -> bool {
        let sick = self.good < self.threshold;
        let changed = sick != self.sick;
        self.sick = sick;
        let bits: String =
            self.maps.iter().zip(MAPS).map(|(map, (letter, ..))| if map & 1 == 1 { letter } else { '-' }).collect();
        let _ = write!(
            record,
            "{name} {} {} {bits} {} {} {} {:.6} {:.6} \"{}\"",
            if changed { "Went" } else { "Still" },
            if sick { "sick" } else { "healthy" },
            self.good,
            self.threshold,
            self.window,
            self.last,
            self.average,
            self.message
        );
        changed
    }

    /// True if fewer than `threshold` of the last `window` pokes were good, when last judged.
    pub fn is_sick(&self) -> bool {
        self.sick
    }

    /// The status line of the last poke's response, or the reason why there was none. Empty before the first poke.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn good(&self) -> u32 {
        self.good
    }

    pub fn window(&self) -> u32 {
        self.window
    }

    /// The happy bitmap, newest in bit 0: the counter `happy`.
    pub fn happy(&self) -> u64 {
        self.maps[HAPPY]
    }

    /// Takes over the history of a probe with the same endpoint and settings. The state must be judged again.
    pub fn carry_over(&mut self, old: &ProbeState) {
        *self = Self { sick: self.sick, ..old.clone() };
    }

    pub fn details(&self, out: &mut String) {
        let _ = write!(
            out,
            "\n Current states  good: {:2} threshold: {:2} window: {:2}\n  Average response time of good probes: {:.6}\n  \
             Oldest {} Newest\n",
            self.good,
            self.threshold,
            self.window,
            self.average,
            "=".repeat(50)
        );
        for (map, (letter, label, always)) in self.maps.iter().zip(MAPS) {
            if *map != 0 || always {
                let bits: String = (0..64).rev().map(|i| if map >> i & 1 == 1 { letter } else { '-' }).collect();
                let _ = writeln!(out, "  {bits} {label}");
            }
        }
    }

    pub fn details_json(&self, out: &mut String) {
        out.push_str("{\n");
        for (map, (letter, ..)) in self.maps.iter().zip(MAPS) {
            let _ = writeln!(out, "  \"bits_{letter}\": {map},");
        }
        let (good, threshold, window) = (self.good, self.threshold, self.window);
        let _ = write!(out, "  \"good\": {good},\n  \"threshold\": {threshold},\n  \"window\": {window}\n}},\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(ms: u64) -> PokeResult {
        let poke = Poke { ipv4: true, good_xmit: true, good_recv: true, happy: true, ..Poke::default() };
        PokeResult { poke, took: Duration::from_millis(ms), message: "HTTP/1.1 200 OK".into() }
    }

    fn bad() -> PokeResult {
        PokeResult { message: "Open error 111 (Connection refused)".into(), ..PokeResult::default() }
    }

    fn record(state: &mut ProbeState) -> String {
        let mut text = String::new();
        state.update("b2", &mut text);
        text
    }

    #[test]
    fn records_are_those_of_varnishd() {
        let mut state = ProbeState::new(&ProbeSpec { window: 5, threshold: 3, ..ProbeSpec::default() });
        assert_eq!(record(&mut state), "b2 Went sick -------H 2 3 5 0.000000 0.000000 \"\"");
        state.reset();
        assert_eq!(record(&mut state), "b2 Still sick -------H 2 3 5 0.000000 0.000000 \"\"");
        state.poked(bad());
        let want = "b2 Still sick -------- 2 3 5 0.000000 0.000000 \"Open error 111 (Connection refused)\"";
        assert_eq!(record(&mut state), want);
        state.poked(good(30));
        assert_eq!(record(&mut state), "b2 Went healthy 4---X-RH 3 3 5 0.030000 0.010000 \"HTTP/1.1 200 OK\"");
    }

    #[test]
    fn only_the_window_counts() {
        let mut state =
            ProbeState::new(&ProbeSpec { window: 4, threshold: 2, initial: Some(0), ..ProbeSpec::default() });
        let mut goods = Vec::new();
        for poke in [good(1), good(1), good(1), bad(), bad(), bad(), bad(), good(1)] {
            state.poked(poke);
            goods.push(state.good());
        }
        assert_eq!(goods, [1, 2, 3, 3, 2, 1, 0, 1]);
        assert_eq!(state.happy(), 0b1110_0001);
    }

    #[test]
    fn initial_is_at_most_the_threshold_and_windows_at_most_64() {
        let spec = ProbeSpec { window: 64, threshold: 64, initial: Some(1000), ..ProbeSpec::default() };
        let mut state = ProbeState::new(&spec);
        assert_eq!((state.good(), state.happy()), (64, u64::MAX));
        record(&mut state);
        assert!(!state.is_sick());
    }

    #[test]
    fn details() {
        let mut state = ProbeState::new(&ProbeSpec { window: 5, threshold: 3, ..ProbeSpec::default() });
        state.poked(bad());
        let mut text = String::new();
        state.details(&mut text);
        let want = "\n Current states  good:  2 threshold:  3 window:  5\n  \
                    Average response time of good probes: 0.000000\n  \
                    Oldest ================================================== Newest\n  \
                    -------------------------------------------------------------HH- Happy\n";
        assert_eq!(text, want);
    }
}

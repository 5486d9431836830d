// SPDX-License-Identifier: BSD-2-Clause
//! Pressure on the origin: whether newcomers ask for objects that nobody else wants far more often than for others. Without it a new client
//! costs nobody anything, whatever it asks for. It is a matter of volume, so it also tells crawlers that ask for popular objects now and then.

use base::Mono;

/// Seconds over which requests are averaged: usually, and while the origin has many fetches of newcomers and crawlers at a time. A crawl that
/// begins would fill the origin's queue before it shows in an average of half a minute.
const AVERAGED: (f64, f64) = (30.0, 1.0);
/// Solo requests per second of newcomers below which there is no pressure, by both averages.
const LEAST: (f64, f64) = (1.0, 12.0);

/// Solo requests of newcomers, as a multiple of all other requests, at which pressure begins and ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PressureLimits {
    pub begins: f64,
    pub ends: f64,
}

#[derive(Debug)]
pub(crate) struct Pressure {
    limits: PressureLimits,
    at: Mono,
    usual: Requests,
    brief: Requests,
}

/// Requests, faded over some seconds, and whether they press.
#[derive(Clone, Copy, Debug, Default)]
struct Requests {
    solo: f64,
    others: f64,
    is_on: bool,
}

impl Requests {
    fn faded(self, passed: f64, seconds: f64) -> Self {
        let factor = (-passed.max(0.0) / seconds).exp();
        Requests { solo: self.solo * factor, others: self.others * factor, is_on: self.is_on }
    }

    fn judge(&mut self, limits: PressureLimits, least: f64, may_begin: bool) {
        let times = if self.is_on { limits.ends } else { limits.begins };
        self.is_on = (self.is_on || may_begin) && self.solo > least && self.solo > times * self.others;
    }
}

impl Pressure {
    pub fn new(limits: PressureLimits, now: Mono) -> Self {
        Pressure { limits, at: now, usual: Requests::default(), brief: Requests::default() }
    }

    /// Counts a newcomer's request for an object that nobody else wants, whether it is served or not. `is_crowded`: the origin has many fetches
    /// of newcomers and crawlers in progress.
    pub fn count_solo(&mut self, is_crowded: bool, now: Mono) {
        self.count((1.0, 0.0), is_crowded, now);
    }

    pub fn count_others(&mut self, requests: f64, is_crowded: bool, now: Mono) {
        self.count((0.0, requests), is_crowded, now);
    }

    fn count(&mut self, (solo, others): (f64, f64), is_crowded: bool, now: Mono) {
        let passed = now.since(self.at);
        if passed > 0.0 {
            (self.usual, self.brief) = (self.usual.faded(passed, AVERAGED.0), self.brief.faded(passed, AVERAGED.1));
            self.at = now;
        }
        for requests in [&mut self.usual, &mut self.brief] {
            requests.solo += solo;
            requests.others += others;
        }
        self.usual.judge(self.limits, LEAST.0 * AVERAGED.0, true);
        self.brief.judge(self.limits, LEAST.1 * AVERAGED.1, is_crowded);
    }

    pub fn is_on(&self) -> bool {
        self.usual.is_on || self.brief.is_on
    }

    /// Newcomers' solo requests, all other requests, and the seconds over which they are averaged.
    pub fn counts(&self, now: Mono) -> (f64, f64, f64) {
        let passed = now.since(self.at);
        let is_brief = self.brief.is_on && !self.usual.is_on;
        let (requests, seconds) = if is_brief { (self.brief, AVERAGED.1) } else { (self.usual, AVERAGED.0) };
        let requests = requests.faded(passed, seconds);
        (requests.solo, requests.others, seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PressureLimits = PressureLimits { begins: 0.5, ends: 0.25 };

    /// Counts `solo` and `others` requests per second for a minute, and tells whether there is pressure then.
    fn is_on(pressure: &mut Pressure, from: f64, solo: u32, others: u32) -> bool {
        for step in 0..60 {
            let now = Mono(from + f64::from(step));
            (0..others).for_each(|_| pressure.count_others(1.0, false, now));
            (0..solo).for_each(|_| pressure.count_solo(false, now));
        }
        pressure.is_on()
    }

    #[test]
    fn pressure_begins_later_than_it_ends() {
        let mut pressure = Pressure::new(LIMITS, Mono(0.0));
        assert!(!is_on(&mut pressure, 300.0, 4, 10));
        assert!(is_on(&mut pressure, 400.0, 7, 10));
        assert!(is_on(&mut pressure, 500.0, 4, 10), "it lasts");
        assert!(!is_on(&mut pressure, 600.0, 2, 10), "and ends");
    }

    #[test]
    fn few_requests_press_nobody() {
        let mut pressure = Pressure::new(LIMITS, Mono(0.0));
        (0..100).for_each(|n| pressure.count_solo(false, Mono(1000.0 + f64::from(n) * 1.1)));
        assert!(!pressure.is_on());
    }

    /// Readers for a minute, then crawlers beside them, `solo` requests a second. Returns the requests of crawlers until there is pressure.
    fn solo_until_pressed(solo: u32, others: u32, is_crowded: bool) -> u32 {
        let mut pressure = Pressure::new(LIMITS, Mono(0.0));
        is_on(&mut pressure, 0.0, 0, others);
        let mut counted = 0;
        while !pressure.is_on() && counted < 10_000 {
            let now = Mono(60.0 + f64::from(counted) / f64::from(solo));
            pressure.count_solo(is_crowded, now);
            (0..others * counted / solo - others * counted.saturating_sub(1) / solo)
                .for_each(|_| pressure.count_others(1.0, is_crowded, now));
            counted += 1;
        }
        counted
    }

    #[test]
    fn a_crawl_that_crowds_the_origin_is_noticed_at_once() {
        let (crowded, idle) = (solo_until_pressed(270, 40, true), solo_until_pressed(270, 40, false));
        assert!(
            (12..40).contains(&crowded) && idle > 500,
            "{crowded} requests, {idle} while the origin has few fetches"
        );
        assert!(solo_until_pressed(10, 40, true) == 10_000, "few requests press nobody");
    }
}

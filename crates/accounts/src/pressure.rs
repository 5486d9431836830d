// SPDX-License-Identifier: BSD-2-Clause
//! Pressure on the origin: whether newcomers ask for objects that nobody else wants far more often than for others. Without it a new client
//! costs nobody anything, whatever it asks for. It is a matter of volume, so it also tells crawlers that ask for popular objects now and then.

use base::Mono;

/// Seconds over which requests are averaged.
const AVERAGED: f64 = 30.0;
/// Solo requests per second of newcomers below which there is no pressure.
const LEAST: f64 = 1.0;

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
    solo: f64,
    others: f64,
    is_on: bool,
}

impl Pressure {
    pub fn new(limits: PressureLimits, now: Mono) -> Self {
        Pressure { limits, at: now, solo: 0.0, others: 0.0, is_on: false }
    }

    /// Counts a request, whether it is served or not. `is_solo`: a newcomer's, for an object that nobody else wants.
    pub fn count(&mut self, is_solo: bool, now: Mono) {
        let passed = now.since(self.at);
        if passed > 0.0 {
            let factor = (-passed / AVERAGED).exp();
            (self.solo, self.others, self.at) = (self.solo * factor, self.others * factor, now);
        }
        if is_solo {
            self.solo += 1.0
        } else {
            self.others += 1.0
        }
        let times = if self.is_on { self.limits.ends } else { self.limits.begins };
        self.is_on = self.solo > LEAST * AVERAGED && self.solo > times * self.others;
    }

    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Newcomers' solo requests of the latest half minute, and all other requests.
    pub fn counts(&self, now: Mono) -> (f64, f64) {
        let factor = (-now.since(self.at).max(0.0) / AVERAGED).exp();
        (self.solo * factor, self.others * factor)
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
            (0..others).for_each(|_| pressure.count(false, now));
            (0..solo).for_each(|_| pressure.count(true, now));
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
        (0..100).for_each(|n| pressure.count(true, Mono(1000.0 + f64::from(n) * 1.1)));
        assert!(!pressure.is_on());
    }
}

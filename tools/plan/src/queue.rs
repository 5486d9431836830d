// SPDX-License-Identifier: BSD-2-Clause
//! A queue before several workers, as queueing theory has it: M/M/c/K (Poisson arrivals, `c` workers, `K` places in all, first come
//! first served). Service times that vary otherwise than exponentially are put in by the factor (1 + cv²) / 2 on what is waited
//! (Allen and Cunneen), which is exact for one worker and an endless queue, and near otherwise.

/// Places that are reckoned with; from there on a queue is as good as endless.
pub const MAX_PLACES: u64 = 10_000;
/// Share of those who come that may wait longer than 95 of 100 do.
const LATE: f64 = 0.05;

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Queue {
    pub rate: f64,
    /// Mean seconds of service.
    pub service: f64,
    /// Their variance over the square of their mean; 1: exponential.
    pub cv2: f64,
    pub workers: u64,
    /// Places to wait; `None`: endless.
    pub slots: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QueueOutcome {
    /// Share of the time that a worker works, 0 to 1.
    pub utilisation: f64,
    /// Share of arrivals that find no place.
    pub refused: f64,
    /// Mean seconds that those who aren't refused wait; infinite: the queue grows for ever.
    pub wait: f64,
    /// Seconds in which 95 of 100 of them are served.
    pub wait_95: f64,
    /// Those who wait, on average.
    pub waiting: f64,
}

impl Queue {
    /// Arrivals times service: how many workers it takes at least.
    pub fn load(&self) -> f64 {
        self.rate * self.service
    }

    pub fn at(self, rate: f64) -> Queue {
        Queue { rate, ..self }
    }

    pub fn outcome(&self) -> QueueOutcome {
        match self.slots {
            Some(slots) => self.bounded(slots.min(MAX_PLACES)),
            None => self.endless(),
        }
    }

    fn endless(&self) -> QueueOutcome {
        let (load, workers) = (self.load(), self.workers as f64);
        if load <= 0.0 {
            return QueueOutcome { utilisation: 0.0, refused: 0.0, wait: 0.0, wait_95: 0.0, waiting: 0.0 };
        }
        if load >= workers {
            let never = f64::INFINITY;
            return QueueOutcome { utilisation: 1.0, refused: 0.0, wait: never, wait_95: never, waiting: never };
        }
        let blocked = erlang_b(load, self.workers);
        let waits = blocked / (1.0 - load / workers * (1.0 - blocked));
        let free = (workers - load) / self.service;
        let varies = self.varies();
        // Who waits at all waits exponentially.
        let wait_95 = if waits <= LATE { 0.0 } else { (waits / LATE).ln() / free };
        let wait = waits / free * varies;
        QueueOutcome {
            utilisation: load / workers,
            refused: 0.0,
            wait,
            wait_95: wait_95 * varies,
            waiting: wait * self.rate,
        }
    }

    fn bounded(&self, slots: u64) -> QueueOutcome {
        let places = Places::new(self, slots);
        let refused = places.refused();
        let varies = self.varies();
        let served = self.rate * (1.0 - refused);
        let waiting = places.waiting();
        let wait_95 = percentile(|time| places.late(time), self.service / self.workers as f64);
        QueueOutcome {
            utilisation: (served * self.service / self.workers as f64).min(1.0),
            refused,
            wait: self.wait(),
            wait_95: wait_95 * varies,
            // The variation can't make more of them than there are places.
            waiting: (waiting * varies).min(slots as f64),
        }
    }

    /// Factor by which one waits longer than with exponential times.
    fn varies(&self) -> f64 {
        (1.0 + self.cv2) / 2.0
    }

    /// The mean seconds that those wait who aren't refused.
    pub fn wait(&self) -> f64 {
        match self.slots {
            None => self.endless().wait,
            Some(slots) => {
                let places = Places::new(self, slots.min(MAX_PLACES));
                let served = self.rate * (1.0 - places.refused());
                if served > 0.0 { places.waiting() / served * self.varies() } else { 0.0 }
            }
        }
    }

    pub fn refused(&self) -> f64 {
        self.slots.map_or(0.0, |slots| Places::new(self, slots.min(MAX_PLACES)).refused())
    }

    /// True if no more are refused, and 95 of 100 of the others wait no longer.
    pub fn meets(&self, wait: f64, refused: f64) -> bool {
        match self.slots {
            None => self.endless().wait_95 <= wait,
            Some(slots) => {
                let places = Places::new(self, slots.min(MAX_PLACES));
                places.refused() <= refused + 1e-12 && places.late(wait / self.varies()) <= LATE
            }
        }
    }
}

/// The probability that all workers are busy and none, one, two... slots are taken. As weights, the largest of which
/// is 1: an overload would make them endless.
struct Places {
    slots: u64,
    /// The ratio from one to the next.
    ratio: f64,
    /// The weight of no slot taken.
    first: f64,
    /// The weight of all taken.
    last: f64,
    /// The sum of the states' weights, and the sum weighted by the slots taken.
    sum: f64,
    weighted: f64,
    /// The sum with the states in which a worker is free.
    all: f64,
    /// Workers that end, a second.
    ends: f64,
}

impl Places {
    fn new(queue: &Queue, slots: u64) -> Places {
        let (ratio, n) = (queue.load() / queue.workers as f64, slots as f64);
        let (first, last, sum, weighted) = if ratio <= 1.0 {
            (1.0, ratio.powf(n), geometric(ratio, n + 1.0), geometric_weighted(ratio, n + 1.0))
        } else {
            let back = 1.0 / ratio;
            let sum = geometric(back, n + 1.0);
            (back.powf(n), 1.0, sum, n * sum - geometric_weighted(back, n + 1.0))
        };
        // Of the states with 0 to all workers busy and nobody waiting, the last one has that share.
        let busy = erlang_b(queue.load(), queue.workers);
        let all = if busy > 0.0 { first * (1.0 / busy - 1.0) + sum } else { f64::INFINITY };
        Places { slots, ratio, first, last, sum, weighted, all, ends: queue.workers as f64 / queue.service }
    }

    fn refused(&self) -> f64 {
        // With no slot and all workers busy, the first is the last.
        (self.last / self.all).clamp(0.0, 1.0)
    }

    fn waiting(&self) -> f64 {
        debug_assert!(self.sum >= 0.0, "weights are none below 0");
        (self.weighted / self.all).max(0.0)
    }

    /// The share of those with a place who wait longer than a time: with n before it in the queue one waits for n + 1 workers to end.
    fn late(&self, time: f64) -> f64 {
        let ends = time * self.ends;
        let (mut sum, mut poisson, mut log_term) = (0.0, 0.0, -ends);
        let log_ratio = self.ratio.max(f64::MIN_POSITIVE).ln();
        for n in 0..self.slots {
            poisson += f64::exp(log_term);
            let weight = match self.ratio <= 1.0 {
                true => self.first * f64::exp(log_ratio * n as f64),
                false => f64::exp(-log_ratio * (self.slots - n) as f64),
            };
            sum += weight * f64::min(poisson, 1.0);
            log_term += ends.max(f64::MIN_POSITIVE).ln() - ((n + 1) as f64).ln();
            // What follows is less and less likely.
            if self.ratio <= 1.0 && weight < 1e-18 {
                break;
            }
        }
        let accepted = self.all - self.last;
        if accepted > 0.0 { (sum / accepted).min(1.0) } else { 0.0 }
    }
}

/// 1 + r + r² ... of n terms, r at most 1.
fn geometric(r: f64, n: f64) -> f64 {
    if (1.0 - r) * n < 1e-6 { n } else { (1.0 - r.powf(n)) / (1.0 - r) }
}

/// 0 + r + 2r² ... of n terms.
fn geometric_weighted(r: f64, n: f64) -> f64 {
    if (1.0 - r) * n < 1e-4 {
        return n * (n - 1.0) / 2.0;
    }
    r * (1.0 - n * r.powf(n - 1.0) + (n - 1.0) * r.powf(n)) / (1.0 - r).powi(2)
}

/// Probability that all workers are busy where nobody waits (Erlang's first formula).
fn erlang_b(load: f64, workers: u64) -> f64 {
    let mut blocked = 1.0;
    for n in 1..=workers {
        blocked = load * blocked / (n as f64 + load * blocked);
    }
    blocked
}

/// The time after which only one of twenty is late.
fn percentile(late: impl Fn(f64) -> f64, unit: f64) -> f64 {
    if late(0.0) <= LATE {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, unit);
    while late(high) > LATE && high < unit * 1e9 {
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if late(middle) > LATE { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn queue(rate: f64, service: f64, workers: u64, slots: Option<u64>) -> Queue {
        Queue { rate, service, cv2: 1.0, workers, slots }
    }

    #[track_caller]
    fn near(got: f64, want: f64) {
        assert!((got - want).abs() <= 1e-4 * want.abs().max(1e-3), "{got} for {want}");
    }

    #[test]
    fn as_in_textbooks() {
        near(erlang_b(3.0, 5), 0.110_05);
        // M/M/1: ρ/(1-ρ) of the service time.
        let one = queue(0.5, 1.0, 1, None).outcome();
        near(one.wait, 1.0);
        near(one.utilisation, 0.5);
        near(one.wait_95, (0.5f64 / 0.05).ln() / 0.5);
        // M/D/1: half of it.
        near(Queue { cv2: 0.0, ..queue(0.5, 1.0, 1, None) }.outcome().wait, 0.5);
        // M/M/2 at ρ = 1/2: a third waits.
        near(queue(1.0, 1.0, 2, None).outcome().wait, 1.0 / 3.0);
        // M/M/1/K at ρ = 1: all states are as likely.
        let full = queue(1.0, 1.0, 1, Some(4)).outcome();
        near(full.refused, 1.0 / 6.0);
        near(full.waiting, (1.0 + 2.0 + 3.0 + 4.0) / 6.0);
        // M/M/c/c: Erlang's loss.
        near(queue(3.0, 1.0, 5, Some(0)).outcome().refused, 0.110_05);
        near(queue(3.0, 1.0, 5, Some(0)).outcome().wait_95, 0.0);
        // A queue of many slots is as good as an endless one.
        let (many, endless) = (queue(9.0, 1.0, 10, Some(5_000)).outcome(), queue(9.0, 1.0, 10, None).outcome());
        near(many.wait, endless.wait);
        near(many.wait_95, endless.wait_95);
        // Twice what can be done: half is refused.
        near(queue(20.0, 1.0, 10, Some(50)).outcome().refused, 0.5);
        near(queue(20.0, 1.0, 10, Some(MAX_PLACES)).outcome().refused, 0.5);
        assert_eq!(queue(20.0, 1.0, 10, None).outcome().wait, f64::INFINITY);
        assert_eq!(queue(0.0, 1.0, 10, Some(3)).outcome().refused, 0.0);
    }

    proptest! {
        #[test]
        fn shares_are_shares(rate in 0.01f64..1000.0, service in 1e-4f64..10.0, workers in 1u64..200, slots in 0u64..500) {
            let queue = queue(rate, service, workers, Some(slots));
            let o = queue.outcome();
            prop_assert!((0.0..=1.0).contains(&o.refused) && (0.0..=1.0).contains(&o.utilisation), "{o:?}");
            prop_assert!(o.wait >= 0.0 && o.wait_95 >= 0.0 && o.waiting <= slots as f64 + 1e-6, "{o:?}");
            prop_assert!(o.utilisation * workers as f64 <= queue.load() + 1e-6, "{o:?}");
            let more = queue.at(rate * 1.1).outcome();
            prop_assert!(more.refused + 1e-9 >= o.refused && more.utilisation + 1e-9 >= o.utilisation, "{o:?} {more:?}");
        }
    }
}

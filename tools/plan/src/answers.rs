// SPDX-License-Identifier: BSD-2-Clause
//! What the model says of the questions asked.

use crate::hitrate::HitRateCurve;
use crate::measured::Measured;
use crate::options::{MAX_WORKERS, PlanClass, PlanOptions};
use crate::queue::{MAX_PLACES, Queue, QueueOutcome};

/// Loads that are shown, times the present one.
const LOADS: [f64; 6] = [0.5, 1.0, 1.5, 2.0, 3.0, 5.0];
/// Loads for which workers and slots are sought.
const NEEDS: [f64; 3] = [1.0, 2.0, 4.0];
/// Share of the machine's memory that isn't the store's: of 32 GB two are for connections, overhead and the system.
const NOT_STORE: f64 = 1.0 / 16.0;

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlanLimits {
    /// Seconds that 95 of 100 may wait.
    pub wait: f64,
    /// Share that may be refused.
    pub refused: f64,
}

impl PlanLimits {
    fn hold(&self, queue: &Queue) -> bool {
        queue.meets(self.wait, self.refused)
    }
}

/// One class before workers of its own.
pub struct Own {
    pub name: String,
    pub queue: Queue,
    pub outcome: QueueOutcome,
}

/// The effect of a size of memory.
pub struct MemorySize {
    pub bytes: f64,
    pub hit_percent: f64,
    /// The rate that is left for the workers.
    pub rate: f64,
    pub outcome: QueueOutcome,
    pub holds: bool,
    /// Number of times the present load that could come; none: nothing is left for the workers, as often as one likes.
    pub times: Option<f64>,
}

pub struct PlanAnswers {
    pub classes: Vec<PlanClass>,
    /// All requests a second, hits and others.
    pub requests: f64,
    pub limits: PlanLimits,
    pub queue: Queue,
    pub now: QueueOutcome,
    /// The rate a second that workers who are never idle would serve.
    pub ceiling: f64,
    /// The most a second for which the limits hold; none: they never do.
    pub most: Option<f64>,
    pub loads: Vec<(f64, QueueOutcome)>,
    /// Load, workers, slots; none: not with any number that is reckoned with.
    pub needs: Vec<(f64, Option<u64>, Option<u64>)>,
    /// Each class with workers of its own, as many in all; none where there is one class, or there are too few workers.
    pub own: Vec<Own>,
    pub sizes: Vec<MemorySize>,
    /// The size that a store may take of the machine's memory, and what that gives.
    pub store: Option<MemorySize>,
}

impl PlanAnswers {
    pub fn new(
        options: &PlanOptions,
        measured: &Measured,
        curve: Option<&HitRateCurve>,
    ) -> Result<PlanAnswers, String> {
        let classes = measured.classes.clone();
        let queue = merged(&classes, options.workers, options.slots).ok_or("nothing comes: a rate of 0")?;
        let limits = PlanLimits { wait: options.wait.unwrap_or(queue.service), refused: options.refused };
        let own = own_queues(&classes, options.workers, options.slots);
        let most = most(&queue, &limits);
        let size = |bytes: f64, hit_percent: f64| {
            let left = queue.at(measured.requests * (1.0 - hit_percent / 100.0));
            let outcome = left.outcome();
            let times = (left.rate > 0.0).then(|| most.map_or(0.0, |most| most / left.rate));
            MemorySize { bytes, hit_percent, rate: left.rate, outcome, holds: limits.hold(&left), times }
        };
        let sizes = curve.map(|curve| curve.points().iter().map(|(bytes, hits)| size(*bytes, *hits)).collect());
        let store = options.ram.zip(curve).map(|(ram, curve)| {
            let bytes = ram as f64 * (1.0 - NOT_STORE);
            size(bytes, curve.hits(bytes))
        });
        Ok(PlanAnswers {
            requests: measured.requests,
            limits,
            queue,
            now: queue.outcome(),
            ceiling: options.workers as f64 / queue.service,
            most,
            loads: LOADS.map(|load| (load, queue.at(queue.rate * load).outcome())).to_vec(),
            needs: NEEDS.map(|load| needs(&queue, load, &limits)).to_vec(),
            own,
            sizes: sizes.unwrap_or_default(),
            store,
            classes,
        })
    }

    pub fn holds(&self) -> bool {
        self.limits.hold(&self.queue)
    }

    /// The least memory with which the limits hold at so many times the load.
    pub fn least_memory(&self, load: f64) -> Option<&MemorySize> {
        self.sizes.iter().find(|size| size.times.is_none_or(|times| times >= load))
    }
}

/// All classes as one: their times vary within each, and between them.
fn merged(classes: &[PlanClass], workers: u64, slots: Option<u64>) -> Option<Queue> {
    let rate: f64 = classes.iter().map(|class| class.rate).sum();
    if rate <= 0.0 {
        return None;
    }
    let mean = |of: &dyn Fn(&PlanClass) -> f64| classes.iter().map(|class| class.rate / rate * of(class)).sum::<f64>();
    let service = mean(&|class| class.service);
    let squares = mean(&|class| class.service * class.service * (1.0 + class.cv2));
    Some(Queue { rate, service, cv2: (squares / (service * service) - 1.0).max(0.0), workers, slots })
}

fn most(queue: &Queue, limits: &PlanLimits) -> Option<f64> {
    let holds = |rate: f64| limits.hold(&queue.at(rate));
    let ceiling = queue.workers as f64 / queue.service;
    let (mut low, mut high) = (0.0, ceiling / (1.0 - limits.refused).max(1e-3) * 1.001);
    if !holds(ceiling * 1e-6) {
        return None;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if holds(middle) { low = middle } else { high = middle }
    }
    Some(low)
}

/// The least numbers with which the limits hold: of workers with the slots that there are, of slots with the workers.
fn needs(queue: &Queue, load: f64, limits: &PlanLimits) -> (f64, Option<u64>, Option<u64>) {
    let queue = queue.at(queue.rate * load);
    let workers = least(1, MAX_WORKERS, |workers| limits.hold(&Queue { workers, ..queue }));
    // More slots refuse fewer, and let more wait longer: the least that refuse few enough are the best.
    let refuses_few = |slots| Queue { slots: Some(slots), ..queue }.refused() <= limits.refused;
    let slots = least(0, MAX_PLACES, refuses_few);
    let holds = |slots: &u64| limits.hold(&Queue { slots: Some(*slots), ..queue });
    (load, workers, slots.filter(holds))
}

/// The least number from which on something is so.
fn least(from: u64, to: u64, is_so: impl Fn(u64) -> bool) -> Option<u64> {
    let mut high = from.max(1);
    while !is_so(high) {
        if high >= to {
            return None;
        }
        high = (high * 2).min(to);
    }
    let mut low = from;
    while low < high {
        let middle = low + (high - low) / 2;
        if is_so(middle) { high = middle } else { low = middle + 1 }
    }
    Some(high)
}

/// Workers shared out so that the worst off class, measured by its own service time, is as well off as can be: one after the other
/// goes where the wait is longest. Slots go with the workers.
fn own_queues(classes: &[PlanClass], workers: u64, slots: Option<u64>) -> Vec<Own> {
    let busy: Vec<&PlanClass> = classes.iter().filter(|class| class.rate > 0.0).collect();
    if busy.len() < 2 || workers < busy.len() as u64 {
        return Vec::new();
    }
    let queue = |class: &PlanClass, own: u64| {
        let slots = slots.map(|slots| (slots as f64 * own as f64 / workers as f64).round() as u64);
        Queue { rate: class.rate, service: class.service, cv2: class.cv2, workers: own, slots }
    };
    let mut own = vec![1u64; busy.len()];
    for _ in 0..workers - busy.len() as u64 {
        let misery = |at: &usize| {
            let queue = queue(busy[*at], own[*at]);
            let excess = (queue.load() / own[*at] as f64 - 1.0).max(0.0);
            (excess, queue.refused(), queue.wait() / queue.service)
        };
        let worst = (0..busy.len()).max_by(|a, b| {
            let (a, b) = (misery(a), misery(b));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2))
        });
        own[worst.unwrap_or(0)] += 1;
    }
    let one = |(class, own): (&&PlanClass, &u64)| {
        let queue = queue(class, *own);
        Own { name: class.name.clone(), queue, outcome: queue.outcome() }
    };
    busy.iter().zip(&own).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, rate: f64, service: f64) -> PlanClass {
        PlanClass { name: name.into(), rate, service, cv2: 1.0 }
    }

    #[test]
    fn classes_in_one_queue() {
        let queue = merged(&[class("coffee", 0.9, 1.0), class("bread", 0.1, 4.0)], 3, Some(2)).unwrap();
        assert!((queue.rate - 1.0).abs() < 1e-9 && (queue.service - 1.3).abs() < 1e-9);
        // Squares: 0.9 * 2 + 0.1 * 32 = 5.
        assert!((queue.cv2 - (5.0 / 1.69 - 1.0)).abs() < 1e-9);
        assert_eq!(merged(&[class("none", 0.0, 1.0)], 1, None), None);
    }

    #[test]
    fn limits_are_met_and_not_by_less() {
        let limits = PlanLimits { wait: 1.0, refused: 0.01 };
        for slots in [None, Some(0), Some(5), Some(100)] {
            let queue = Queue { rate: 8.0, service: 1.0, cv2: 1.0, workers: 10, slots };
            if let Some(most) = most(&queue, &limits) {
                assert!(limits.hold(&queue.at(most)) && !limits.hold(&queue.at(most * 1.01)), "{slots:?}");
            }
            let (_, workers, _) = needs(&queue, 2.0, &limits);
            let workers = workers.expect("some number will do");
            let with = |workers| limits.hold(&Queue { workers, ..queue.at(16.0) });
            assert!(with(workers) && !with(workers - 1), "{slots:?} {workers}");
        }
    }

    #[test]
    fn workers_go_where_they_are_missed() {
        let own = own_queues(&[class("coffee", 10.0, 0.1), class("bread", 1.0, 4.0)], 8, Some(16));
        assert_eq!(own.iter().map(|own| own.queue.workers).sum::<u64>(), 8);
        assert!(own.iter().all(|own| own.queue.load() < own.queue.workers as f64));
        assert!(own_queues(&[class("coffee", 1.0, 1.0)], 8, None).is_empty());
    }
}

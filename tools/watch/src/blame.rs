// SPDX-License-Identifier: BSD-2-Clause
//! Finds the backends behind errors. A client's error is joined with the fetch that it came from: the request's records link to the fetch,
//! and a retried fetch links to the next one. Both may be read in any order. Fetches in the background cause no error.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Maximum number of transactions that wait for their other half.
const MAX_HALVES: usize = 2000;
/// Maximum number of seconds that are kept.
const MAX_SECONDS: usize = 120;

/// The cause of a failed fetch.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Culprit {
    /// A backend's number in [`crate::tally::WatchTally::backends`].
    Backend(u16),
    /// A director had no healthy backend to offer. The log doesn't name its backends, so this holds the name under which its VCL was loaded.
    NoneHealthy(Arc<[u8]>),
    /// Neither a backend nor a director is named. One cause is a VCL that has chosen no backend.
    Unknown,
}

/// Numbers by culprit.
pub type Counts = BTreeMap<Culprit, u64>;

/// Errors and failed fetches of some seconds, as read from the log.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sums {
    pub errors: u64,
    /// Number of errors whose fetch was read and has failed.
    pub errors_by: Counts,
    /// Number of failed fetches, also those in the background and those that were retried.
    pub failed_by: Counts,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        self.errors += other.errors;
        let pairs = [(&mut self.errors_by, &other.errors_by), (&mut self.failed_by, &other.failed_by)];
        for (into, from) in pairs {
            from.iter().for_each(|(culprit, n)| *into.entry(culprit.clone()).or_default() += n);
        }
    }
}

/// A transaction whose other half hasn't been read.
#[derive(Clone, Debug)]
enum Half {
    Response,
    Fetch(Culprit),
    /// A fetch that repeats the one of this number.
    Retry(u64),
}

#[derive(Debug, Default)]
pub struct Blame {
    /// Halves by the fetch's transaction number.
    halves: HashMap<u64, Half>,
    /// Their numbers, the oldest first. Some are resolved already.
    order: VecDeque<u64>,
    second: Sums,
    /// Seconds with errors or failed fetches, each with its time in seconds since 1970.
    seconds: VecDeque<(u64, Sums)>,
}

impl Blame {
    /// Adds an error. `fetch` is the number of the fetch that its records link to; 0 if there is none.
    pub fn response(&mut self, fetch: u64) {
        self.second.errors += 1;
        match self.halves.get(&fetch).cloned() {
            Some(Half::Fetch(culprit)) => {
                self.halves.remove(&fetch);
                *self.second.errors_by.entry(culprit).or_default() += 1;
            }
            _ if fetch != 0 => self.wait(fetch, Half::Response),
            _ => {}
        }
    }

    /// Adds a failed fetch. `next` is the number of the fetch that repeats it; 0 if none does.
    pub fn fetch(&mut self, number: u64, culprit: Culprit, next: u64) {
        *self.second.failed_by.entry(culprit.clone()).or_default() += 1;
        let first = self.first(number);
        match self.halves.get(&first) {
            _ if next != 0 => self.wait(next, Half::Retry(first)),
            Some(Half::Response) => {
                self.halves.remove(&first);
                *self.second.errors_by.entry(culprit).or_default() += 1;
            }
            _ => self.wait(first, Half::Fetch(culprit)),
        }
    }

    /// The number of the fetch that the request links to.
    fn first(&mut self, number: u64) -> u64 {
        match self.halves.get(&number) {
            Some(Half::Retry(first)) => {
                let first = *first;
                self.halves.remove(&number);
                first
            }
            _ => number,
        }
    }

    fn wait(&mut self, number: u64, half: Half) {
        if self.order.len() == MAX_HALVES
            && let Some(oldest) = self.order.pop_front()
        {
            self.halves.remove(&oldest);
        }
        self.halves.insert(number, half);
        self.order.push_back(number);
    }

    /// Ends the second that ends at `at`, in seconds since 1970.
    pub fn end_second(&mut self, at: u64) {
        let second = std::mem::take(&mut self.second);
        if second == Sums::default() {
            return;
        }
        if self.seconds.len() == MAX_SECONDS {
            self.seconds.pop_front();
        }
        self.seconds.push_back((at, second));
    }

    /// The sums of the seconds that ended after `since`, in seconds since 1970.
    pub fn since(&self, since: u64) -> Sums {
        let mut sums = Sums::default();
        self.seconds.iter().filter(|(at, _)| *at > since).for_each(|(_, second)| sums.add(second));
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Culprit = Culprit::Backend(1);
    const B: Culprit = Culprit::Backend(2);

    #[test]
    fn errors_and_their_fetches_come_in_any_order() {
        let mut blame = Blame::default();
        blame.response(3);
        blame.fetch(3, A, 0);
        blame.fetch(5, B, 0);
        blame.response(5);
        // Neither a response of VCL's nor one whose fetch was good has a backend.
        blame.response(0);
        blame.response(7);
        // A fetch in the background.
        blame.fetch(9, A, 0);
        blame.end_second(100);
        let sums = blame.since(99);
        assert_eq!((sums.errors, sums.errors_by), (4, Counts::from([(A, 1), (B, 1)])));
        assert_eq!(sums.failed_by, Counts::from([(A, 2), (B, 1)]));
        assert_eq!(blame.since(100), Sums::default());
    }

    #[test]
    fn the_last_retry_is_to_blame() {
        let mut blame = Blame::default();
        blame.fetch(3, A, 4);
        blame.fetch(4, A, 5);
        blame.fetch(5, B, 0);
        blame.response(3);
        // The second attempt was good, so the error is VCL's.
        blame.fetch(7, A, 8);
        blame.response(7);
        blame.end_second(100);
        let sums = blame.since(0);
        assert_eq!((sums.errors, sums.errors_by), (2, Counts::from([(B, 1)])));
        assert_eq!(sums.failed_by, Counts::from([(A, 3), (B, 1)]));
    }

    #[test]
    fn what_never_meets_is_forgotten() {
        let mut blame = Blame::default();
        for n in 0..10 * MAX_HALVES as u64 {
            blame.response(2 * n + 1);
            blame.fetch(2 * n + 2, A, 0);
            blame.end_second(n);
        }
        assert!(blame.halves.len() <= MAX_HALVES && blame.order.len() <= MAX_HALVES);
        assert_eq!(blame.seconds.len(), MAX_SECONDS);
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Requests kept for the simulation, in bounded memory: all of them, or all of a sample of the pages.
//!
//! Pages are drawn by their hash (all requests of a page are kept, or none), so the distances between uses of an object are
//! those of the whole, times the rate: a cache of `rate` times the size sees of the sample what the real one sees of all.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::distinct::{DEVIATION, SimulateDistinct};
use crate::scheme::Identity;

/// With so few pages none is left out: the oldest requests go instead. In a small sample a page for so many requests is few.
const FEW_PAGES: usize = 1000;
const FEW_OF: usize = 50;

#[derive(Clone, Copy, Debug)]
pub struct Ref {
    /// Nanoseconds since 1 January 1970.
    pub time: i64,
    pub object: u32,
    /// Sent to the client; more than can be counted counts as the most that can.
    pub bytes: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct TraceObject {
    pub hash: u64,
    page_hash: u64,
    pub page: u32,
    /// Length of its body, once an answer told.
    body: Option<u64>,
}

#[derive(Debug)]
pub struct Trace {
    refs: Vec<Ref>,
    objects: Vec<TraceObject>,
    pages: usize,
    objects_by_hash: Index,
    pages_by_hash: Index,
    /// Pages with a hash above it are left out.
    highest: u64,
    most: usize,
    /// Number of requests that may be kept, those left out too.
    requests: f64,
    bytes: f64,
    distinct: SimulateDistinct,
    /// Requests that went since they were too old.
    pub forgotten: u64,
}

type Index = HashMap<u64, u32, BuildHasherDefault<Hashed>>;

impl Trace {
    /// Keeps at most so many requests.
    pub fn new(most: usize) -> Trace {
        Trace {
            refs: Vec::new(),
            objects: Vec::new(),
            pages: 0,
            objects_by_hash: Index::default(),
            pages_by_hash: Index::default(),
            highest: u64::MAX,
            most: most.max(2),
            requests: 0.0,
            bytes: 0.0,
            distinct: SimulateDistinct::default(),
            forgotten: 0,
        }
    }

    /// Adds a request: `sent` to the client, `body` if that was an object's.
    pub fn add(&mut self, id: Identity, time: i64, sent: u64, body: Option<u64>) {
        let bytes = u32::try_from(sent).unwrap_or(u32::MAX);
        self.requests += 1.0;
        self.bytes += f64::from(bytes);
        self.distinct.add(id.object);
        if id.page > self.highest {
            return;
        }
        while self.refs.len() >= self.most {
            self.shrink();
        }
        if id.page > self.highest {
            return;
        }
        let object = self.number(id);
        // The longest: a client that leaves is sent a part.
        let known = &mut self.objects[object as usize].body;
        *known = body.max(*known);
        self.refs.push(Ref { time, object, bytes });
    }

    fn number(&mut self, id: Identity) -> u32 {
        let Trace { objects, pages, .. } = self;
        *self.objects_by_hash.entry(id.object).or_insert_with(|| {
            let page = *self.pages_by_hash.entry(id.page).or_insert_with(|| {
                *pages += 1;
                *pages as u32 - 1
            });
            objects.push(TraceObject { hash: id.object, page_hash: id.page, page, body: None });
            objects.len() as u32 - 1
        })
    }

    /// Makes room: half of the pages go, or, of a few, the older half of the requests.
    fn shrink(&mut self) {
        let refs = std::mem::take(&mut self.refs);
        let objects = std::mem::take(&mut self.objects);
        let few = (self.most / FEW_OF).clamp(1, FEW_PAGES);
        let first = if self.pages <= few { refs.len() / 2 } else { 0 };
        if first == 0 {
            self.highest /= 2;
        } else {
            let share = first as f64 / refs.len() as f64;
            self.forgotten += (self.requests * share) as u64;
            let gone: f64 = refs[..first].iter().map(|gone| f64::from(gone.bytes)).sum();
            self.requests -= self.requests * share;
            self.bytes -= (gone / self.rate()).min(self.bytes);
        }
        self.pages = 0;
        self.objects_by_hash.clear();
        self.pages_by_hash.clear();
        let mut kept = Vec::with_capacity(refs.len());
        for one in &refs[first..] {
            let TraceObject { hash, page_hash, body, .. } = objects[one.object as usize];
            if page_hash <= self.highest {
                let object = self.number(Identity { page: page_hash, object: hash });
                self.objects[object as usize].body = body;
                kept.push(Ref { object, ..*one });
            }
        }
        self.refs = kept;
    }

    pub fn refs(&self) -> &[Ref] {
        &self.refs
    }

    pub fn objects(&self) -> &[TraceObject] {
        &self.objects
    }

    pub fn pages(&self) -> usize {
        self.pages
    }

    /// The share of the objects that is kept. A sample has a few more or fewer than were drawn for: all are counted.
    pub fn rate(&self) -> f64 {
        let drawn = (self.highest as f64 + 1.0) / 2f64.powi(64);
        if drawn >= 1.0 || self.objects.is_empty() || self.forgotten > 0 {
            return drawn.min(1.0);
        }
        (self.objects.len() as f64 / self.distinct.count()).min(1.0)
    }

    /// The error that this may have, relative to it: one standard deviation.
    pub fn rate_deviation(&self) -> f64 {
        if self.rate() < 1.0 { DEVIATION } else { 0.0 }
    }

    /// Requests, those left out too.
    pub fn requests(&self) -> f64 {
        self.requests
    }

    /// Bytes sent to clients, those left out too.
    pub fn bytes(&self) -> f64 {
        self.bytes
    }

    /// Lengths of the bodies, by the number of the object. One that no answer told is taken for an average one.
    ///
    /// # Errors
    /// No answer told any and there is no `default` for them.
    pub fn bodies(&self, default: Option<u64>) -> Result<Vec<u64>, String> {
        let known = || self.objects.iter().filter_map(|object| object.body);
        let sum: u128 = known().map(u128::from).sum();
        let average = sum.checked_div(known().count() as u128).map(|average| average as u64);
        let average = match (average.or(default), self.objects.is_empty()) {
            (Some(average), _) => average,
            (None, true) => 0,
            (None, false) => {
                return Err("the log tells no lengths of answers: --object-size says how long they are".into());
            }
        };
        Ok(self.objects.iter().map(|object| object.body.unwrap_or(average)).collect())
    }

    pub fn unknown_bodies(&self) -> usize {
        self.objects.iter().filter(|object| object.body.is_none()).count()
    }

    pub fn most_variants(&self) -> u32 {
        let mut counts = vec![0u32; self.pages];
        for object in &self.objects {
            counts[object.page as usize] += 1;
        }
        counts.into_iter().max().unwrap_or(0)
    }
}

/// A value that is hashed already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(n: u64) -> Identity {
        let hash = crate::tests::mixed(n);
        Identity { page: hash, object: hash }
    }

    #[test]
    fn few_requests_are_all_kept() {
        let mut trace = Trace::new(100);
        (0..50).for_each(|n| trace.add(id(n % 7), n as i64, 10, Some(10)));
        assert_eq!((trace.refs().len(), trace.objects().len(), trace.pages()), (50, 7, 7));
        assert!((trace.rate() - 1.0).abs() < 1e-9);
        assert_eq!(trace.bodies(None), Ok(vec![10; 7]));
    }

    #[test]
    fn many_pages_are_sampled() {
        let mut trace = Trace::new(4000);
        (0..60_000).for_each(|n| trace.add(id(n % 20_000), n as i64, 10, Some(10)));
        assert!((1000..=4000).contains(&trace.refs().len()), "{}", trace.refs().len());
        assert!(trace.rate() < 0.2);
        let pages = trace.pages() as f64 / trace.rate();
        assert!((15_000.0..25_000.0).contains(&pages), "{pages}");
        assert!((trace.requests() - 60_000.0).abs() < 1.0);
    }

    #[test]
    fn of_few_pages_the_last_requests_stay() {
        let mut trace = Trace::new(1000);
        (0..10_500).for_each(|n| trace.add(id(n % 3), n as i64, 10, None));
        assert!((trace.rate() - 1.0).abs() < 1e-9);
        assert_eq!(trace.refs().last().expect("some").time, 10_499);
        assert!((trace.requests() - trace.refs().len() as f64).abs() < 1.0);
        assert!((trace.bytes() - trace.refs().len() as f64 * 10.0).abs() < 1.0);
        assert_eq!(trace.forgotten + trace.refs().len() as u64, 10_500);
        assert!(trace.bodies(None).is_err());
        assert_eq!(trace.bodies(Some(5)), Ok(vec![5; 3]));
    }

    proptest! {
        #[test]
        fn memory_is_bounded(most in 2usize..3000, pages in 1u64..5000, sent in any::<u64>()) {
            let mut trace = Trace::new(most);
            for n in 0..6000u64 {
                trace.add(id(n.wrapping_mul(n) % pages), n as i64, sent, Some(sent));
                prop_assert!(trace.refs().len() <= most);
            }
            prop_assert!(trace.objects().len() <= trace.refs().len());
            prop_assert_eq!(trace.most_variants(), u32::from(!trace.refs().is_empty()));
        }
    }
}

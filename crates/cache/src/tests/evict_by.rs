// SPDX-License-Identifier: BSD-2-Clause
//! The aim of eviction: requests, bytes or the origin's time, each the most by its own way.

use std::time::Duration;

use tables::choices::EvictBy;

use super::kit::*;
use crate::*;

const LIMIT: u64 = 4 << 20;
const KINDS: [EvictBy; 3] = [EvictBy::Requests, EvictBy::Bytes, EvictBy::Cost];

/// Hits of the second half of a trace: their number, their bytes, and the milliseconds that their objects took.
#[derive(Debug, Default)]
struct Saved {
    requests: u64,
    bytes: u64,
    millis: u64,
}

impl Kit {
    fn by(evict_by: EvictBy) -> Kit {
        Kit::with(Some(LIMIT), CacheParams { evict_by, ..CacheParams::default() })
    }

    /// Requests an object, and fetches it after a miss; true for a hit.
    fn ask_costly(&self, url: &str, bytes: usize, millis: u64) -> bool {
        let busy = match self.look(url) {
            Ok(Found::Hit(_)) => return true,
            other => busy_of(other),
        };
        busy.note_fetch_time(Duration::from_millis(millis), None);
        let attrs = self.attrs(1e6, 0.0, 0.0, ObjectFlags::NONE);
        self.fill(busy, &TestReq::new(url), None, attrs, &vec![b'x'; bytes]);
        false
    }

    /// Any page is requested half as often as the one before it. Sizes and times have nothing to do with that.
    fn run(&self, rng: &mut TestRng, requests: usize) -> Saved {
        let mut saved = Saved::default();
        for n in 0..requests {
            let pages = 1 << (5 + rng.below(7));
            let page = rng.below(pages);
            let (bytes, millis) = (1000 << (page % 6), 2 << (page / 6 % 10));
            if self.ask_costly(&format!("/{page}"), bytes, millis) && n >= requests / 2 {
                saved.requests += 1;
                saved.bytes += bytes as u64;
                saved.millis += millis;
            }
        }
        saved
    }
}

#[test]
fn each_aim_is_reached_best_by_its_own_way() {
    let saved = KINDS.map(|by| Kit::by(by).run(&mut TestRng::new(7), 20_000));
    let [requests, bytes, cost] = &saved;
    let best = |of: fn(&Saved) -> u64, own: &Saved| {
        saved.iter().all(|other| std::ptr::eq(other, own) || of(other) * 51 < of(own) * 50)
    };
    assert!(best(|saved| saved.requests, requests), "{saved:?}");
    assert!(best(|saved| saved.bytes, bytes), "{saved:?}");
    assert!(best(|saved| saved.millis, cost), "{saved:?}");
}

#[test]
fn the_aim_can_be_changed_at_any_time() {
    let kit = Kit::by(EvictBy::Requests);
    let mut rng = TestRng::new(8);
    kit.run(&mut rng, 10_000);
    kit.cache.set_params(CacheParams { evict_by: EvictBy::Cost, ..CacheParams::default() });
    let changed = kit.run(&mut rng, 20_000).millis;
    let from_the_start = Kit::by(EvictBy::Cost).run(&mut TestRng::new(9), 20_000).millis;
    assert!(changed * 20 > from_the_start * 19, "{changed} of {from_the_start} ms");
}

#[test]
fn what_only_had_to_be_confirmed_costs_what_it_cost() {
    let kit = Kit::by(EvictBy::Cost);
    (0..20).for_each(|n| assert!(!kit.ask_costly(&format!("/cheap{n}"), 1000, 100)));
    kit.ask_costly("/dear", 1000, 5000);
    let old = hit_of(kit.look("/dear"));
    kit.cache.purge(&digest("/dear"), kit.now(), Purge::HARD);
    let busy = busy_of(kit.look("/dear"));
    busy.note_fetch_time(Duration::from_millis(1), Some(&old));
    drop(old);
    let attrs = kit.attrs(1e6, 0.0, 0.0, ObjectFlags::NONE);
    kit.fill(busy, &TestReq::new("/dear"), None, attrs, &[b'x'; 1000]);
    assert_eq!(kit.cache.evict(0, u64::MAX, 20, &mut |_| {}), 20);
    assert_eq!(kit.verdict("/dear"), "hit");
}

// SPDX-License-Identifier: BSD-2-Clause
//! Figures: ns of a lookup that hits among a million objects, and bytes an object costs beyond head and body.
//!
//! `cargo run --release -p cache --example hits [objects]`

#![allow(clippy::disallowed_methods, reason = "measures the machine")]

use std::sync::Arc;
use std::time::Instant;

use base::{Clock, Vxid};
use cache::*;
use storage::{StoreSpec, Stores};

const HEAD: usize = 350;
const BODY: usize = 1024;

fn main() {
    let count: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let clock = Clock::system();
    let specs = StoreSpec::in_memory(None);
    let counters: &'static tables::counters::Sma = Box::leak(Box::default());
    let stores = Stores::open(&specs, |_| counters).expect("stores in memory open");
    let cache = Cache::new(CacheConfig {
        clock: clock.clone(),
        main: Box::leak(Box::default()),
        stores: Arc::new(stores),
        heads: Box::new(NoRequest),
        regexes: Box::new(NoRequest),
        params: CacheParams::default(),
    });
    let digests: Vec<Digest> = (0..count).map(digest).collect();
    let before = resident();
    let start = Instant::now();
    for digest in &digests {
        fill(&cache, digest, &clock);
    }
    println!("fill: {:.0} ns", start.elapsed().as_nanos() as f64 / count as f64);
    let each = (resident() - before) as f64 / count as f64;
    println!("memory: {each:.0} bytes an object, {:.0} beyond head and body", each - (HEAD + BODY) as f64);
    for (name, step) in [("in order", 1), ("scattered", 7_919)] {
        let (start, rounds) = (Instant::now(), 2_000_000);
        let mut at = 0;
        for _ in 0..rounds {
            at = (at + step) % count;
            let mut search = Search::new(digests[at], clock.mono(), LookupOptions::default());
            assert!(matches!(search.look(&cache, &NoRequest), Lookup::Ready(Found::Hit(_))));
        }
        println!("hit, {name}: {:.0} ns", start.elapsed().as_nanos() as f64 / f64::from(rounds));
    }
}

fn digest(n: usize) -> Digest {
    let mut builder = DigestBuilder::new();
    builder.add(Some(&n.to_le_bytes()));
    builder.finish()
}

fn fill(cache: &Cache, digest: &Digest, clock: &Clock) {
    let mut busy = cache.claim(digest);
    let times = ObjectTimes { t_origin: clock.mono(), ttl: 3600.0, grace: 10.0, keep: 0.0 };
    let attrs = Attrs { times, xid: Vxid(1), flags: ObjectFlags::NONE };
    let store = cache.stores().next().clone();
    busy.set_head(&store, &[b'h'; HEAD], None, &attrs, &[]).expect("no limit");
    busy.start_stream();
    busy.append(&[b'b'; BODY]).expect("no limit");
    busy.finish(None).expect("nothing was declared");
}

fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0);
    pages * 4096
}

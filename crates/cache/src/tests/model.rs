// SPDX-License-Identifier: BSD-2-Clause
//! Simulation: random schedules of lookups, fetches, failures, purges, bans, expiry, eviction and clients that go away,
//! on a manual clock. A failure names its seed; `SEED=n` begins there, `SEEDS=n` runs more.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Waker};

use base::{Mono, Vxid};
use storage::StoreError;
use tables::counters::Xkey;

use super::kit::*;
use super::line::TestLine;
use crate::*;

const URLS: [&str; 3] = ["/a", "/b", "/c"];

struct Fetch {
    busy: Busy,
    url: usize,
    began: usize,
    is_head_out: bool,
}

struct Client {
    waiting: Box<Waiting>,
    url: usize,
    arrived: usize,
}

struct Model {
    line: TestLine,
    rng: TestRng,
    /// Number of the step, as a clock for the order of events.
    step: usize,
    fetches: Vec<Fetch>,
    parked: Vec<Client>,
    /// Requests that wait for the home.
    loadings: Vec<Client>,
    readers: Vec<BodyReader>,
    /// Step at which each URL was last invalidated.
    invalidated: [usize; 3],
    /// Step of each URL's last soft purge: earlier requests may have the object though its ttl was taken.
    softened: [usize; 3],
    /// Keys purged since the death of a worker whose survivors aren't all adopted.
    purged_keys: Vec<(&'static str, u64)>,
    /// Objects seen that were whole; those of them without a record.
    whole: usize,
    unrecorded: usize,
    /// The byte at offset n of a body is n modulo 251.
    pattern: Vec<u8>,
}

impl Model {
    fn new(seed: u64, line: fn(Option<u64>, CacheParams) -> TestLine) -> Model {
        let params = CacheParams { ban_lurker_age: 3.0, ..CacheParams::default() };
        let line = line(Some(1 << 20), params);
        line.kit.cache.enable_tags(Box::leak(Box::<Xkey>::default()));
        Model {
            line,
            rng: TestRng::new(seed),
            step: 1,
            fetches: Vec::new(),
            parked: Vec::new(),
            loadings: Vec::new(),
            readers: Vec::new(),
            invalidated: [0; 3],
            softened: [0; 3],
            purged_keys: Vec::new(),
            whole: 0,
            unrecorded: 0,
            pattern: (0..80_000u32).map(|n| (n % 251) as u8).collect(),
        }
    }

    fn turn(&mut self) {
        self.step += 1;
        let url = self.rng.below(URLS.len());
        match self.rng.below(20) {
            0..=6 => {
                let found = self.line.kit.look(URLS[url]);
                self.found(found, url, self.step, self.line.kit.now());
            }
            7..=9 => self.resume_one(),
            10..=12 => self.fetch_on(),
            13 => self.fetch_ends(),
            14 => self.somebody_leaves(),
            15 => self.invalidate(url),
            16 => drop(self.line.kit.cache.expire(self.line.kit.now(), 1 + self.rng.below(5), &mut |_| {})),
            17 => drop(self.line.kit.cache.lurk(self.line.kit.now(), &mut |_| {})),
            18 => self.line.kit.pass(self.rng.below(4) as f64),
            19 if self.line.survives() && self.rng.below(2) == 0 => self.fate(),
            _ if self.line.home.is_some() && self.rng.below(2) == 0 => self.at_home(),
            _ => self.read_on(),
        }
        if !self.line.kit.cache.is_adopting() && self.line.home.is_none() {
            self.purged_keys.clear();
        }
        let sma = self.line.kit.sma[0];
        assert_eq!(sma.g_bytes.get(), self.line.kit.cache.stores().all()[0].used_bytes());
    }

    /// Makes the home fail, finish or delay an operation.
    fn at_home(&mut self) {
        let home = self.line.home.clone().expect("there is one");
        match self.rng.below(13) {
            0 => home.hold(self.rng.below(2) == 0),
            1 => home.refuse(self.rng.below(4) == 0),
            2 => home.fall_behind(self.rng.below(4) == 0),
            3 => home.fail((self.rng.below(6) == 0).then_some(StoreError("planned"))),
            4 => home.move_all(),
            5 if self.rng.below(4) == 0 => home.reclaim(1 + self.rng.below(4)),
            6 | 7 => drop(self.line.kit.cache.evict(0, u64::MAX, 1 + self.rng.below(4) as u64, &mut |_| {})),
            8 => drop(home.serve(Ok(()))),
            9 => drop(home.serve(Err(StoreError("planned")))),
            10 => {
                let mut admission = std::pin::pin!(self.line.kit.cache.admit());
                let _ = admission.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
            _ => self.load_on(),
        }
    }

    /// Lets one request that waits for the home continue, give up, or go away.
    fn load_on(&mut self) {
        if self.loadings.is_empty() {
            return;
        }
        let at = self.rng.below(self.loadings.len());
        let fate = self.rng.below(12);
        if fate == 0 {
            drop(self.loadings.swap_remove(at));
            return;
        }
        let pending = &mut self.loadings[at].waiting.pending;
        if fate == 1 {
            pending.give_up();
        }
        if poll(pending, &Arc::default()).is_ready() {
            let Client { waiting, url, arrived } = self.loadings.swap_remove(at);
            let asked = waiting.search.now();
            let found = self.line.kit.look_again(waiting, &TestReq::new(URLS[url]));
            self.found(found, url, arrived, asked);
        }
    }

    /// The worker adopts some more, or dies.
    fn fate(&mut self) {
        if self.line.home.is_none() && self.rng.below(4) > 0 {
            self.line.kit.cache.adopt_some(1, &mut |_| {});
            return;
        }
        self.line.kit.cache.audit().unwrap();
        // A look at what is there adopts it.
        let known = (self.line.home.is_none() && self.rng.below(2) == 0).then(|| self.known());
        let next = self.line.successor();
        self.fetches.clear();
        self.parked.clear();
        self.loadings.clear();
        self.readers.clear();
        self.line = next;
        let cache = &self.line.kit.cache;
        cache.enable_tags(Box::leak(Box::<Xkey>::default()));
        self.purged_keys.iter().for_each(|(key, seq)| cache.hold_tag_purge(key.as_bytes(), None, *seq));
        cache.adopt_survivors();
        if let Some(known) = known {
            assert_eq!(self.known(), known, "what was whole survives, and nothing else");
        }
    }

    /// The objects that must survive: all that later requests may find, unless there was no room for a record.
    fn known(&mut self) -> Vec<(Vxid, ObjectTimes, u64, bool)> {
        let (mut known, now) = (Vec::new(), self.line.kit.now());
        let shared = self.line.kit.cache.shared().clone();
        for url in URLS {
            shared.adopt(&digest(url), &mut |_| {});
            let objcs = shared.shard(&digest(url)).lock().heads.objcs(&digest(url)).to_vec();
            for oc in objcs {
                let (times, Some(bytes)) = (oc.times(), oc.bytes()) else { continue };
                if times.dead_at().0 <= now.0 || oc.is_overtaken() {
                    continue;
                }
                self.whole += 1;
                let ban = shared.bans.would_hit(&shared, &oc, &TestReq::new(url), shared.bans.seq());
                match oc.record().filter(|&record| shared.stores().get(oc.store()).is_published(record)) {
                    Some(_) => known.push((oc.xid(), times, bytes.body_len(), ban.is_some())),
                    None => self.unrecorded += 1,
                }
            }
        }
        known
    }

    /// `arrived` is the step in which the request first looked, `asked` the time with which the last look compared.
    fn found(&mut self, found: Looked, url: usize, arrived: usize, asked: Mono) {
        match found {
            Ok(Found::Hit(obj)) => {
                let is_fresh = obj.times().fresh_until(None).0 > asked.0;
                assert!(is_fresh || arrived < self.softened[url], "a hit is fresh");
                self.deliver(obj, url, arrived);
            }
            Ok(Found::Grace { stale, busy }) => {
                assert!(stale.times().grace_until(None, None).0 >= asked.0, "grace isn't over");
                self.deliver(stale, url, arrived);
                busy.into_iter().for_each(|busy| self.begin(busy, url));
            }
            Ok(Found::Miss(busy) | Found::MissStale { busy, .. }) => self.begin(busy, url),
            Ok(Found::HitForMiss { busy, .. }) => {
                // Its client fetches for itself and nobody waits: over at once here.
                drop(busy);
            }
            Ok(Found::HitForPass { .. }) => {}
            Ok(Found::Refused) => panic!("any number may wait here"),
            Err(waiting) => match waiting.pending.awaits() {
                Awaits::Fetch => self.parked.push(Client { waiting, url, arrived }),
                Awaits::Home => self.loadings.push(Client { waiting, url, arrived }),
                Awaits::Turn => panic!("there are few bans"),
            },
        }
    }

    fn begin(&mut self, busy: Busy, url: usize) {
        assert!(!self.fetches.iter().any(|fetch| fetch.url == url && !fetch.is_head_out), "one fetch at a time");
        if self.rng.below(2) == 0 {
            self.readers.push(busy.object().reader(0));
        }
        self.fetches.push(Fetch { busy, url, began: self.step, is_head_out: false });
    }

    fn deliver(&mut self, obj: ObjRef, url: usize, arrived: usize) {
        let head = std::str::from_utf8(obj.head()).unwrap().to_owned();
        let mut words = head.split('\n').nth(1).unwrap().split(' ').skip(1);
        let (was_url, began): (usize, usize) =
            (words.next().unwrap().parse().unwrap(), words.next().unwrap().parse().unwrap());
        assert_eq!(was_url, url);
        let invalidated = self.invalidated[url];
        // What was fetched from before an invalidation is for those alone who asked before it.
        assert!(began > invalidated || arrived < invalidated, "stale: {began} {invalidated} {arrived}");
        self.readers.push(obj.reader(0));
    }

    fn resume_one(&mut self) {
        let Some(at) = self.parked.iter().position(|parked| parked.waiting.is_woken()) else { return };
        let Client { waiting, url, arrived } = self.parked.swap_remove(at);
        let found = self.line.kit.look_again(waiting, &TestReq::new(URLS[url]));
        self.found(found, url, arrived, self.line.kit.now());
    }

    fn fetch_on(&mut self) {
        if self.fetches.is_empty() {
            return;
        }
        let at = self.rng.below(self.fetches.len());
        let fetch = &mut self.fetches[at];
        if !fetch.is_head_out {
            let flags = if self.rng.below(8) == 0 { ObjectFlags::HIT_FOR_MISS } else { ObjectFlags::NONE };
            let attrs = self.line.kit.attrs(1.0 + self.rng.below(9) as f64, 2.0, 2.0, flags);
            let head = format!("200\nx-was: {} {}\n", fetch.url, fetch.began);
            let store = self.line.kit.cache.stores().all()[0].clone();
            if fetch.busy.set_head(&store, head.as_bytes(), None, &attrs, &[]).is_err() {
                drop(self.fetches.swap_remove(at));
                return;
            }
            fetch.busy.set_tags(vec![URLS[fetch.url].as_bytes().into()]);
            fetch.busy.start_stream();
            fetch.is_head_out = true;
        }
        let size = [10, 1000, 70_000][self.rng.below(3)];
        let from = fetch.busy.fetched();
        let data = &self.pattern[(from % 251) as usize..][..size as usize];
        if fetch.busy.append(data).is_err() {
            drop(self.fetches.swap_remove(at));
        }
    }

    fn fetch_ends(&mut self) {
        if self.fetches.is_empty() {
            return;
        }
        let at = self.rng.below(self.fetches.len());
        let fetch = self.fetches.swap_remove(at);
        match self.rng.below(4) {
            0 => fetch.busy.fail(FetchFailed::new("planned")),
            1 => drop(fetch),
            _ if fetch.is_head_out => drop(fetch.busy.finish(None).unwrap()),
            _ => drop(fetch),
        }
    }

    fn somebody_leaves(&mut self) {
        if !self.parked.is_empty() && self.rng.below(2) == 0 {
            let at = self.rng.below(self.parked.len());
            drop(self.parked.swap_remove(at));
        } else if !self.readers.is_empty() {
            let at = self.rng.below(self.readers.len());
            drop(self.readers.swap_remove(at));
        }
    }

    fn invalidate(&mut self, url: usize) {
        if self.rng.below(4) == 0 {
            self.softened[url] = self.step;
            let soft = Purge { ttl: Some(0.0), ..Purge::default() };
            self.line.kit.cache.purge(&digest(URLS[url]), self.line.kit.now(), soft);
            return;
        }
        self.invalidated[url] = self.step;
        match self.rng.below(4) {
            3 => self.purge_by_key(URLS[url]),
            0 => drop(self.line.kit.cache.purge(&digest(URLS[url]), self.line.kit.now(), Purge::HARD)),
            1 => self.line.kit.cache.ban_text(&format!("req.url == {}", URLS[url])).unwrap(),
            _ => self.line.kit.cache.ban_text(&format!("obj.http.x-was ~ {url}")).unwrap(),
        }
    }

    fn purge_by_key(&mut self, key: &'static str) {
        let keys = [key.as_bytes()].into_iter();
        let mut purge = self.line.kit.cache.purge_tags(keys, self.line.kit.now(), false);
        while purge.step().is_none() {}
        self.purged_keys.push((key, self.line.kit.cache.shared().bans.seq()));
    }

    fn read_on(&mut self) {
        for reader in &mut self.readers {
            let mut offset = reader.offset();
            while let Ok(Some(buf)) = reader.now() {
                let edges = [(0, buf[0]), (buf.len() - 1, buf[buf.len() - 1])];
                let is_itself = |(at, byte): (usize, u8)| u64::from(byte) == (offset + at as u64) % 251;
                assert!(edges.into_iter().all(is_itself), "a body is itself");
                offset += buf.len() as u64;
            }
        }
    }

    /// Ends everything, and checks that nothing is left.
    fn wind_down(mut self) {
        if let Some(home) = &self.line.home {
            home.hold(false);
            home.serve(Ok(()));
        }
        for _ in 0..10_000 {
            if self.parked.is_empty() && self.fetches.is_empty() && self.loadings.is_empty() {
                break;
            }
            self.step += 1;
            self.load_on();
            self.resume_one();
            if !self.parked.iter().any(|parked| parked.waiting.is_woken()) {
                self.fetch_ends();
            }
        }
        assert!(self.parked.is_empty(), "nobody is left waiting");
        self.line.adopt_all();
        self.line.kit.cache.audit().unwrap();
        self.read_on();
        self.readers.clear();
        self.line.kit.pass(1000.0);
        if let Some(home) = &self.line.home {
            home.reclaim(0);
        }
        self.line.kit.cache.expire(self.line.kit.now(), usize::MAX, &mut |_| {});
        assert_eq!((self.line.kit.cache.census(), self.line.kit.held()), ((0, 0, 0), 0));
        let main = self.line.kit.main;
        let gauges = [&main.n_object, &main.n_objectcore, &main.n_objecthead, &main.waitinglist_len];
        assert_eq!(gauges.map(|gauge| gauge.get()), [0; 4]);
        while self.line.kit.cache.lurk(self.line.kit.now(), &mut |_| {}) < 1.0 {}
        assert_eq!(main.bans.get(), 1, "a ban older than every object is gone");
    }
}

#[test]
fn random_schedules_keep_the_promises() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, count) = (number("SEED").unwrap_or(0), number("SEEDS").unwrap_or(300));
    // 1214: a ban that the lurker forgot for an object which a newer one had overtaken.
    for seed in (first..first.saturating_add(count)).chain([1214]) {
        run(seed, TestLine::mortal);
    }
}

#[test]
fn workers_that_die_keep_the_promises_of_each_other() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, count) = (number("SEED").unwrap_or(0), number("SEEDS").unwrap_or(100));
    let (mut whole, mut unrecorded) = (0, 0);
    for seed in first..first.saturating_add(count) {
        let (more, less) = run(seed, TestLine::with);
        whole += more;
        unrecorded += less;
    }
    assert!(unrecorded * 10 < whole, "nearly all have a record: {unrecorded} of {whole} haven't");
}

#[test]
fn homes_keep_the_promises() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, count) = (number("SEED").unwrap_or(0), number("SEEDS").unwrap_or(300));
    for seed in first..first.saturating_add(count) {
        run(seed, TestLine::at_home);
    }
}

/// Objects that were whole when a worker died, and those of them without a record.
fn run(seed: u64, line: fn(Option<u64>, CacheParams) -> TestLine) -> (usize, usize) {
    let run = std::panic::catch_unwind(|| {
        let mut model = Model::new(seed, line);
        (0..600).for_each(|_| model.turn());
        let seen = (model.whole, model.unrecorded);
        model.wind_down();
        seen
    });
    run.unwrap_or_else(|_| panic!("seed {seed}"))
}

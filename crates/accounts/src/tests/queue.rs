// SPDX-License-Identifier: BSD-2-Clause
//! Readers beside crawlers before an origin with a queue: it makes 50 responses a second, one after the other, and refuses at once when 511
//! requests wait. The crowd is that of `tests/bed/crowds.py`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::*;

const COST: f64 = 0.02;
const BACKLOG: f64 = 511.0;
const PATIENCE: f64 = 10.0;
const TTL: f64 = 60.0;
/// Seconds of readers alone, of crawlers before the time that is judged, and at the end.
const ALONE: f64 = 200.0;
const JUDGED: f64 = 230.0;
const END: f64 = 260.0;
const SESSIONS: f64 = 4.5;
const IMAGE: u64 = 1 << 41;

/// A request that waits for its time, or a fetch that begins or ends.
enum Event {
    Arrives(Visitor),
    Begins(Fetch),
    Ends(Fetch, FetchEnd),
}

struct Visitor {
    caller: Rc<Caller>,
    page: u64,
    shape: Shape,
    is_reader: bool,
    is_user: bool,
}

struct Fetch {
    visitor: Visitor,
    payer: Payer,
    arrived: f64,
}

/// Waits of readers' requests by window; one that isn't served counts as [`PATIENCE`].
#[derive(Default)]
struct Window {
    waits: Vec<f64>,
    of_readers: f64,
    of_crawlers: f64,
}

impl Window {
    fn p99(&mut self) -> f64 {
        self.waits.sort_by(f64::total_cmp);
        self.waits[self.waits.len() * 99 / 100]
    }

    fn failed(&self) -> f64 {
        self.waits.iter().filter(|wait| **wait >= PATIENCE).count() as f64 / self.waits.len() as f64
    }

    fn share(&self) -> f64 {
        self.of_readers / (self.of_readers + self.of_crawlers)
    }
}

struct Site {
    ledger: Ledger,
    agents: Agents,
    draw: Draw,
    events: BinaryHeap<Reverse<(u64, usize)>>,
    waiting: Vec<Option<Event>>,
    /// Times at which an object is there and until which it is fresh.
    cached: HashMap<u64, (f64, f64)>,
    free_at: f64,
    now: f64,
    /// The time of readers alone, the first seconds of crawlers, and the time that is judged.
    windows: [Window; 3],
    /// Sums of a popularity by Zipf's law.
    popular: Vec<f64>,
}

impl Site {
    fn new(seed: u64) -> Self {
        let settings = LedgerSettings { learning: ALONE / 2.0, ..LedgerSettings::default() };
        let mut sum = 0.0;
        let popular = (0..6000).map(|n| {
            sum += f64::from(n + 1).powf(-0.9);
            sum
        });
        Site {
            ledger: Ledger::new(settings, Mono(0.0)),
            agents: Agents::new(7),
            draw: Draw(seed),
            events: BinaryHeap::new(),
            waiting: Vec::new(),
            cached: HashMap::new(),
            free_at: 0.0,
            now: 0.0,
            windows: Default::default(),
            popular: popular.collect(),
        }
    }

    fn unit(&mut self) -> f64 {
        (self.draw.below(1 << 40) as f64 + 1.0) / (1u64 << 40) as f64
    }

    fn after(&mut self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }

    fn page(&mut self) -> u64 {
        let drawn = self.unit() * self.popular[self.popular.len() - 1];
        self.popular.partition_point(|sum| *sum < drawn) as u64
    }

    fn caller(&mut self, address: u32) -> Rc<Caller> {
        let address = Some(IpAddr::V4(Ipv4Addr::from_bits(address)));
        Rc::new(Caller::new(&mut self.agents, &CallerIds { address, agent: FIREFOX, ..CallerIds::default() }))
    }

    fn at(&mut self, seconds: f64, event: Event) {
        self.waiting.push(Some(event));
        self.events.push(Reverse(((seconds * 1e9) as u64, self.waiting.len() - 1)));
    }

    fn window(&mut self, at: f64) -> &mut Window {
        &mut self.windows[usize::from(at >= ALONE) + usize::from(at >= JUDGED)]
    }

    /// A visit of several pages, the parts of which the browser keeps.
    fn session(&mut self, mut at: f64) {
        let address = 0x5000_0000 | (self.draw.below(1 << 22) as u32 * 64);
        let (caller, is_known, is_user) = (self.caller(address), self.draw.below(10) < 6, self.draw.below(10) == 0);
        let mut referer = [Origin::Unnamed, Origin::Other, Origin::Other][self.draw.below(3) as usize];
        for number in 0..1 + (self.after(3.0) as u64).min(11) {
            let page = self.page();
            let has_cookie = is_user || is_known || number > 0;
            let shape = Shape { referer, has_cookie, has_language: true, has_metadata: true };
            let part = Shape { referer: Origin::Own, ..shape };
            let mut asks = vec![(0.0, page, shape, is_user), (0.07, IMAGE + page, part, false)];
            if number == 0 && !is_known {
                asks.extend([(0.05, FIRST_PART, part, false), (0.06, FIRST_PART + 1, part, false)]);
            }
            for (later, page, shape, is_user) in asks {
                let visitor = Visitor { caller: caller.clone(), page, shape, is_reader: true, is_user };
                self.at(at + later, Event::Arrives(visitor));
            }
            referer = Origin::Own;
            at += 0.5 + self.after(1.5);
        }
    }

    fn crawler(&mut self, at: f64) {
        let address = 0x2000_0000 | (self.draw.below(100_000) as u32).wrapping_mul(2971) & 0x0fff_ffff;
        let (caller, page) = (self.caller(address), 1_000_000 + self.draw.below(10_000_000));
        let shape = Shape { has_language: true, has_metadata: true, ..Shape::default() };
        self.at(at, Event::Arrives(Visitor { caller, page, shape, is_reader: false, is_user: false }));
    }

    fn run(&mut self, crawled: f64) {
        for (mut at, end, rate, is_crawler) in [(0.0, END, SESSIONS, false), (ALONE, END, crawled, true)] {
            while rate > 0.0 && at < end {
                if is_crawler {
                    self.crawler(at)
                } else {
                    self.session(at)
                }
                at += self.after(1.0 / rate);
            }
        }
        while let Some(Reverse((at, event))) = self.events.pop() {
            self.now = at as f64 / 1e9;
            match self.waiting[event].take() {
                Some(Event::Arrives(visitor)) if self.now < END => self.arrive(visitor),
                Some(Event::Begins(fetch)) => self.begin(fetch),
                Some(Event::Ends(fetch, end)) => {
                    self.ledger.charge(&fetch.visitor.caller, end, fetch.payer, Mono(self.now));
                }
                Some(Event::Arrives(_)) | None => {}
            }
        }
    }

    fn arrive(&mut self, visitor: Visitor) {
        let (now, arrived) = (Mono(self.now), self.now);
        let ask = Ask { object: Draw(visitor.page).next(), shape: visitor.shape };
        let copy = self.cached.get(&visitor.page).copied().filter(|_| !visitor.is_user);
        if let Some((ready, until)) = copy
            && until > arrived
        {
            self.ledger.hits(&visitor.caller, [ask], now);
            return self.met(&visitor, arrived, ready.max(arrived));
        }
        let verdict = self.ledger.judge(&visitor.caller, ask, now);
        let takes_stale = copy.is_some_and(|(_, until)| verdict.takes_stale(arrived - until));
        let mut payer = verdict.payer();
        if takes_stale {
            self.ledger.hits(&visitor.caller, [ask], now);
            return self.met(&visitor, arrived, arrived);
        }
        if verdict.class == BotClass::Crawl {
            match self.ledger.reserve(&visitor.caller, &verdict.reason, now) {
                Ok(admission) => payer = Payer::Budget(admission),
                Err(_) => {
                    self.ledger.refused(&visitor.caller, ask, now);
                    return self.met(&visitor, arrived, f64::INFINITY);
                }
            }
        }
        self.ledger.miss(&visitor.caller, ask, payer, now);
        let wait = if let Payer::Budget(admission) = payer { admission.wait } else { 0.0 };
        self.at(arrived + wait, Event::Begins(Fetch { visitor, payer, arrived }));
    }

    fn begin(&mut self, fetch: Fetch) {
        let has_failed = self.free_at - self.now > BACKLOG * COST;
        let end = if has_failed { self.now } else { self.free_at.max(self.now) + COST };
        if !has_failed {
            self.free_at = end;
            let now = self.now;
            let (is_reader, window) = (fetch.visitor.is_reader, self.window(now));
            *(if is_reader { &mut window.of_readers } else { &mut window.of_crawlers }) += COST;
            if !fetch.visitor.is_user {
                self.cached.insert(fetch.visitor.page, (end, end + TTL));
            }
        }
        self.met(&fetch.visitor, fetch.arrived, if has_failed { f64::INFINITY } else { end });
        let ended = FetchEnd { waited: end - self.now + 2e-4, bytes: 8000, has_failed };
        self.at(end, Event::Ends(fetch, ended));
    }

    fn met(&mut self, visitor: &Visitor, arrived: f64, served: f64) {
        if visitor.is_reader && arrived > 30.0 {
            self.window(arrived).waits.push((served - arrived).min(PATIENCE));
        }
    }
}

/// The windows of a site with crawlers, and those of the same readers without them.
fn both(seed: u64, crawled: f64) -> [[Window; 3]; 2] {
    [crawled, 0.0].map(|crawled| {
        let mut site = Site::new(seed);
        site.run(crawled);
        site.windows
    })
}

/// Readers notice little of crawlers: at first a queue of some tens of fetches, then nothing.
#[test]
fn a_crawl_fills_no_queue_of_the_origin() {
    for (seed, crawled) in (1..4).flat_map(|seed| [(seed, 270.0), (seed, 40.0)]) {
        let [[_, mut onset, mut judged], [_, _, mut quiet]] = both(seed, crawled);
        let of = format!("seed {seed}, {crawled} requests of crawlers a second");
        let (first, then, without) = (onset.p99(), judged.p99(), quiet.p99());
        assert!(
            first < 0.35 && then < 1.25 * without,
            "{of}: p99 {first} s, then {then} s, {without} s without crawlers"
        );
        assert!(onset.failed().max(judged.failed()) < 0.01, "{of}: {} and {}", onset.failed(), judged.failed());
        assert!(onset.share() > 0.7 && judged.share() > 0.95, "{of}: {} and {}", onset.share(), judged.share());
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Drawn crowds that are easily mistaken for crawlers, beside crawlers that change their address with each request: how many of their requests
//! the accounts refuse. A model cache decides what is a hit, and the clock is simulated. `SEED=n` draws other histories, `SEEDS=n` more of each crowd,
//! up to 200.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use accounts::{Agents, Ask, BotClass, Caller, CallerIds, FetchEnd, Ledger, LedgerSettings, Origin, Payer, Shape};
use base::Mono;

const HISTORIES: u64 = 20;
const MOST_HISTORIES: u64 = 200;
const CRAWLS: u64 = 20;
/// Seconds of readers alone, of which the accounts learn for [`LEARNING`]; then of crawlers alone beside them; then of the crowd as well.
const ALONE: f64 = 45.0;
const LEARNING: f64 = 30.0;
const CRAWLED: f64 = 65.0;
const END: f64 = 85.0;
/// The most requests of a thousand that are refused beside crawlers. Without crawlers none is.
const BESIDE: u64 = 15;
const PARTS: u64 = 4;
const TTL: f64 = 60.0;
/// Seconds of the origin's work for a response.
const COST: f64 = 0.02;
const SITE: u64 = 10_000_000;
/// Numbers of pages that nobody has asked for before, and of the parts of pages.
const NEWS: u64 = 1 << 40;
const PART: u64 = 1 << 41;

const FIREFOX: &[u8] = b"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const GOOGLEBOT: &[u8] = b"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";

/// Numbers that follow from a seed (splitmix64).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    /// Draws small numbers more often, about by Zipf's law.
    fn popular(&mut self, most: u64) -> u64 {
        let unit = self.below(1 << 20) as f64 / f64::from(1 << 20);
        ((most as f64 + 1.0).powf(unit) - 1.0) as u64
    }

    fn is_one_in(&mut self, most: u64) -> bool {
        self.below(most) == 0
    }
}

/// Requests of one kind of visitor, those that were refused, and those that the origin served.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    requests: u64,
    refused: u64,
    fetched: u64,
}

impl Met {
    fn add(&mut self, other: Met) {
        self.requests += other.requests;
        self.refused += other.refused;
        self.fetched += other.fetched;
    }
}

struct World {
    ledger: Ledger,
    agents: Agents,
    cached: HashMap<u64, f64>,
    draw: Draw,
    now: f64,
}

impl World {
    fn new(seed: u64) -> Self {
        let settings = LedgerSettings { learning: LEARNING, ..LedgerSettings::default() };
        World {
            ledger: Ledger::new(settings, Mono(0.0)),
            agents: Agents::new(7),
            cached: HashMap::new(),
            draw: Draw(seed),
            now: 0.0,
        }
    }

    fn ask(&mut self, met: &mut Met, caller: &Caller, page: u64, shape: Shape) {
        let (ask, now) = (Ask { object: Draw(page).next(), shape }, Mono(self.now));
        met.requests += 1;
        let until = self.cached.get(&page).copied();
        if until.is_some_and(|until| until > self.now) {
            self.ledger.hits(caller, [ask], now);
            return;
        }
        let verdict = self.ledger.judge(caller, ask, now);
        if until.is_some_and(|until| verdict.takes_stale(self.now - until)) {
            self.ledger.hits(caller, [ask], now);
            return;
        }
        let payer = match verdict.class {
            BotClass::Reader => verdict.payer(),
            BotClass::Crawl | BotClass::Verified => match self.ledger.reserve(caller, &verdict.reason, now) {
                Ok(admission) => Payer::Budget(admission),
                Err(_) => {
                    self.ledger.refused(caller, ask, now);
                    met.refused += 1;
                    return;
                }
            },
        };
        met.fetched += 1;
        self.ledger.miss(caller, ask, payer, now);
        let end = FetchEnd { waited: COST, bytes: 10_000, ..FetchEnd::default() };
        self.ledger.charge(caller, end, payer, now);
        self.cached.insert(page, self.now + TTL);
    }

    fn read(&mut self, met: &mut Met, caller: &Caller, page: u64, shape: Shape) {
        self.ask(met, caller, page, shape);
        let parts = Shape { referer: Origin::Own, ..shape };
        (0..PARTS).for_each(|part| self.ask(met, caller, PART + part, parts));
    }

    /// A visit of a reader at home to popular pages, one to three of them.
    fn visit(&mut self, met: &mut Met) {
        let (caller, mut shape) = (self.home(), self.first_shape());
        for _ in 0..1 + self.draw.below(3) {
            let page = self.draw.popular(3000);
            self.read(met, &caller, page, shape);
            shape = Shape { referer: Origin::Own, has_cookie: true, ..shape };
        }
    }

    fn caller(&mut self, address: u32, agent: &[u8]) -> Caller {
        let address = Some(IpAddr::V4(Ipv4Addr::from_bits(address)));
        Caller::new(&mut self.agents, &CallerIds { address, agent, ..CallerIds::default() })
    }

    fn home(&mut self) -> Caller {
        let address = 0x5000_0000 | self.draw.next() as u32 & 0x0fff_ffff;
        self.caller(address, FIREFOX)
    }

    fn first_shape(&mut self) -> Shape {
        let referer = if self.draw.is_one_in(3) { Origin::Unnamed } else { Origin::Other };
        Shape { referer, has_cookie: !self.draw.is_one_in(3), has_language: true, has_metadata: true }
    }

    /// A request of a crawler with a browser's header fields, or with a robot's name.
    fn crawl(&mut self, met: &mut Met, kind: Crawlers) {
        let address = 0x2000_0000 | (self.draw.below(100_000) as u32).wrapping_mul(2971) & 0x0fff_ffff;
        let crawler = self.caller(address, if kind == Crawlers::Named { GOOGLEBOT } else { FIREFOX });
        if kind == Crawlers::Imitating {
            let page = self.draw.popular(3000);
            self.ask(met, &crawler, page, CRAWLERS_SHAPE);
        }
        let page = 1_000_000 + self.draw.below(SITE);
        self.ask(met, &crawler, page, CRAWLERS_SHAPE);
    }
}

const CRAWLERS_SHAPE: Shape =
    Shape { referer: Origin::Unnamed, has_cookie: false, has_language: true, has_metadata: true };
const PROGRAMS_SHAPE: Shape =
    Shape { referer: Origin::Unnamed, has_cookie: false, has_language: false, has_metadata: false };

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Crawlers {
    None,
    Plain,
    Imitating,
    Named,
}

/// The step of a crowd: called ten times a second from [`CRAWLED`] on.
type Crowd = fn(&mut World, &mut Met);

/// Three visits a second to a few pages that are new.
fn flash_crowd(world: &mut World, met: &mut Met) {
    if world.draw.below(10) < 3 {
        let (caller, shape, page) = (world.home(), world.first_shape(), NEWS + world.draw.popular(20));
        world.read(met, &caller, page, shape);
    }
}

/// The readers of a company have one address. A tenth of their pages is read by nobody else.
fn company(world: &mut World, met: &mut Met) {
    if world.draw.is_one_in(5) {
        let own = world.draw.is_one_in(10);
        let page = if own { NEWS + world.draw.below(1 << 30) } else { world.draw.popular(3000) };
        let shape = world.first_shape();
        let caller = world.caller(0xc000_0201, FIREFOX);
        world.read(met, &caller, page, shape);
    }
}

/// Programs that ask for one of five feeds, each from an address of its own.
fn feed_readers(world: &mut World, met: &mut Met) {
    let address = 0x0a00_0000 | (world.draw.below(2000) as u32 * 977);
    let agent: &[u8] =
        if world.draw.is_one_in(2) { b"FreshRSS/1.27.1 (Linux)" } else { b"Feedbin feed-id:1 - 7 subscribers" };
    let feed = NEWS + world.draw.below(5);
    let caller = world.caller(address, agent);
    world.ask(met, &caller, feed, PROGRAMS_SHAPE);
}

/// A browser that keeps neither cookies nor files and asks for each page up to four times.
fn broken_reader(world: &mut World, met: &mut Met) {
    if world.draw.is_one_in(10) {
        let page = world.draw.popular(3000);
        for _ in 0..1 + world.draw.below(4) {
            let caller = world.caller(0x5100_0001, FIREFOX);
            world.read(met, &caller, page, CRAWLERS_SHAPE);
        }
    }
}

/// Two programs that ask for the same few pages again and again, one of them for pages that nobody else reads.
fn monitoring(world: &mut World, met: &mut Met) {
    if world.draw.is_one_in(5) {
        let page = world.draw.below(5);
        for (address, page) in [(0x5200_0001, page), (0x5200_0002, NEWS + page)] {
            let caller = world.caller(address, b"Monitor/2.0");
            world.ask(met, &caller, page, PROGRAMS_SHAPE);
        }
    }
}

fn nobody(_: &mut World, _: &mut Met) {}

/// Plays one history. Returns the requests of its readers, crawlers and crowd, and the memory of its accounts.
fn history(seed: u64, crawlers: Crawlers, crowd: Crowd) -> ([Met; 3], usize) {
    let mut world = World::new(seed);
    let [mut readers, mut crawled, mut crowded] = [Met::default(); 3];
    let mut alone = Met::default();
    while world.now < END {
        world.now += 0.1;
        let is_crawled = world.now > ALONE && crawlers != Crawlers::None;
        // 2.5 visits a second are 25 requests, of which 2 need the origin; 40 of crawlers do.
        if world.draw.is_one_in(4) {
            world.visit(if is_crawled { &mut readers } else { &mut alone });
        }
        if is_crawled {
            (0..4).for_each(|_| world.crawl(&mut crawled, crawlers));
        }
        if world.now > CRAWLED {
            crowd(&mut world, &mut crowded);
        }
    }
    ([readers, crawled, crowded], world.ledger.bytes())
}

/// Sums up all histories. At most `most` of a thousand requests of the crowd and of the readers may be refused.
fn check(name: &str, crawlers: Crawlers, crowd: Crowd, most: u64) -> [Met; 3] {
    check_of(number("SEEDS").unwrap_or(HISTORIES).min(MOST_HISTORIES), name, crawlers, crowd, most)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn check_of(histories: u64, name: &str, crawlers: Crawlers, crowd: Crowd, most: u64) -> [Met; 3] {
    let first = number("SEED").unwrap_or(1) * 1000;
    let mut sums = [Met::default(); 3];
    for seed in first..first + histories {
        let (met, bytes) = history(seed, crawlers, crowd);
        assert!(bytes <= 8_000_000, "{name}, seed {seed}: {bytes} bytes");
        sums.iter_mut().zip(met).for_each(|(sum, met)| sum.add(met));
    }
    let [readers, crawled, crowded] = sums;
    println!("{name}, {crawlers:?}: readers {readers:?}, crawlers {crawled:?}, crowd {crowded:?}");
    assert!(crowded.refused * 1000 <= crowded.requests * most, "{name}, {crawlers:?}: {crowded:?}");
    assert!(readers.refused * 1000 <= readers.requests * most, "{name}, {crawlers:?}: {readers:?}");
    sums
}

#[test]
fn a_flash_crowd_on_new_pages_is_served() {
    check("flash crowd", Crawlers::None, flash_crowd, 0);
    check("flash crowd", Crawlers::Plain, flash_crowd, BESIDE);
}

#[test]
fn a_company_behind_one_address_is_served() {
    check("company", Crawlers::None, company, 0);
    check("company", Crawlers::Plain, company, BESIDE);
}

#[test]
fn programs_that_read_feeds_are_served() {
    check("feed readers", Crawlers::None, feed_readers, 0);
    check("feed readers", Crawlers::Plain, feed_readers, BESIDE);
}

#[test]
fn a_reader_with_a_broken_browser_is_served() {
    check("broken reader", Crawlers::None, broken_reader, 0);
    check("broken reader", Crawlers::Plain, broken_reader, BESIDE);
}

#[test]
fn monitoring_is_served() {
    check("monitoring", Crawlers::None, monitoring, 0);
    check("monitoring", Crawlers::Plain, monitoring, BESIDE);
}

#[test]
fn crawlers_of_all_kinds_are_refused_and_readers_are_not() {
    for (crawlers, fetched) in [(Crawlers::Plain, 310), (Crawlers::Imitating, 300), (Crawlers::Named, 160)] {
        let [_, crawled, _] = check_of(CRAWLS, "nobody", crawlers, nobody, BESIDE);
        assert!(crawled.fetched * 1000 <= crawled.requests * fetched, "{crawlers:?}: {crawled:?}");
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Drawn histories of readers and crawlers, judged request by request. A model cache decides what is a hit.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use base::Mono;

use crate::{
    Agents, Ask, BotClass, Caller, CallerIds, FetchEnd, Ledger, LedgerSettings, Level, Origin, Payer, Reason, Shape,
};

mod queue;

const HISTORIES: u64 = 200;
/// A reason that leads to the crawlers' budget, or a verified bot's.
const ANY: Reason = Reason::Own { solo: 8.0, requests: 8.0 };
const FIREFOX: &[u8] = b"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
/// Parts that every page of the model has, as style sheets and scripts.
const PARTS: u64 = 6;
const FIRST_PART: u64 = 1 << 40;

struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    /// A number below `most`, small ones more often: about Zipf's law.
    fn popular(&mut self, most: u64) -> u64 {
        let unit = self.below(1 << 20) as f64 / f64::from(1 << 20);
        ((most as f64 + 1.0).powf(unit) - 1.0) as u64
    }
}

fn end(waited: f64) -> FetchEnd {
    FetchEnd { waited, ..FetchEnd::default() }
}

struct World {
    ledger: Ledger,
    cached: HashMap<u64, f64>,
    ttl: f64,
    draw: Draw,
    now: f64,
    enforces: bool,
    fetched: u64,
}

impl World {
    fn new(seed: u64, enforces: bool) -> Self {
        let ledger = Ledger::new(LedgerSettings::default(), Mono(0.0));
        World { ledger, cached: HashMap::new(), ttl: f64::INFINITY, draw: Draw(seed), now: 0.0, enforces, fetched: 0 }
    }

    /// A request; true if it was held up, or would have been.
    fn ask(&mut self, caller: &Caller, page: u64) -> bool {
        self.ask_as(caller, page, Shape::default())
    }

    fn ask_as(&mut self, caller: &Caller, page: u64, shape: Shape) -> bool {
        let object = Draw(page).next();
        let ask = Ask { object, shape };
        let now = Mono(self.now);
        let until = self.cached.get(&object).copied();
        if until.is_some_and(|until| until > self.now) {
            self.ledger.hits(caller, [ask], now);
            return false;
        }
        let verdict = self.ledger.judge(caller, ask, now);
        if self.enforces && until.is_some_and(|until| verdict.takes_stale(self.now - until)) {
            self.ledger.hits(caller, [ask], now);
            return false;
        }
        let (is_crawl, payer) = (verdict.class == BotClass::Crawl, verdict.payer());
        let admission = match is_crawl && self.enforces {
            true => match self.ledger.reserve(caller, &verdict.reason, now) {
                Ok(admission) => Some(admission),
                Err(_) => {
                    self.ledger.refused(caller, ask, now);
                    return true;
                }
            },
            false => None,
        };
        self.fetched += 1;
        let payer = admission.map_or(payer, Payer::Budget);
        self.ledger.miss(caller, ask, payer, now);
        self.ledger.charge(caller, end(0.02), payer, now);
        self.cached.insert(object, self.now + self.ttl);
        match admission {
            Some(admission) => admission.wait > 0.0,
            None => is_crawl,
        }
    }

    /// A reader opens a page with its parts; how many of these requests were held up.
    fn read(&mut self, caller: &Caller, page: u64) -> u64 {
        let of_page = Shape { referer: Origin::Own, ..Shape::default() };
        let parts: u64 = (0..PARTS).map(|part| u64::from(self.ask_as(caller, FIRST_PART + part, of_page))).sum();
        parts + u64::from(self.ask(caller, page))
    }
}

fn caller_at(address: u32) -> Caller {
    caller_with(address, FIREFOX)
}

fn caller_with(address: u32, agent: &[u8]) -> Caller {
    let address = Some(IpAddr::V4(Ipv4Addr::from_bits(address)));
    Caller::new(&mut Agents::new(11), &CallerIds { address, agent, ..CallerIds::default() })
}

fn reader(n: u64) -> Caller {
    caller_at(0x5000_0000 | Draw(n).next() as u32 & 0x0fff_ffff)
}

#[test]
fn a_flash_crowd_on_new_pages_is_no_crawl() {
    for seed in 0..HISTORIES {
        let mut world = World::new(seed, true);
        let pages = 1 + world.draw.below(20);
        for n in 0..100 {
            world.now += 0.01;
            let page = 1000 + world.draw.below(pages);
            let held = world.read(&reader(n), page);
            assert_eq!(held, 0, "seed {seed}, visitor {n}");
        }
    }
}

#[test]
fn a_company_behind_one_address_is_no_crawler() {
    for seed in 0..HISTORIES {
        let mut world = World::new(seed, true);
        let (mut held, mut requests) = (0, 0);
        for n in 0..450 {
            world.now += 0.05;
            // The rest of the world reads, too, and a fifth of the company's pages is read by nobody else.
            let caller = if n % 3 == 0 { caller_at(0xc000_0201) } else { reader(n % 97) };
            let page = if n % 15 == 0 { 1_000_000 + n } else { world.draw.popular(5000) };
            held += world.read(&caller, page);
            requests += 1 + PARTS;
        }
        assert!(held == 0, "seed {seed}: {held} of {requests}");
    }
}

#[test]
fn a_fleet_of_feed_readers_is_no_crawl() {
    for seed in 0..HISTORIES {
        let mut world = World::new(seed, true);
        let feeds = 1 + world.draw.below(10);
        for n in 0..300 {
            world.now += 0.5;
            if n % 100 == 99 {
                world.cached.clear();
            }
            let agent: &[u8] = if n % 2 == 0 { b"Feedbot/1.0 (feed reader)" } else { FIREFOX };
            let feed = world.draw.below(feeds);
            let is_held = world.ask(&caller_with(0x0a00_0000 + (n % 400) as u32 * 977, agent), feed);
            assert!(!is_held, "seed {seed}, fetch {n}");
        }
    }
}

#[test]
fn a_client_that_asks_for_one_page_again_and_again_is_no_crawler() {
    let mut world = World::new(1, true);
    for _ in 0..1000 {
        world.now += 0.2;
        world.cached.clear();
        assert!(!world.ask(&caller_at(0x5000_0001), 7));
    }
}

/// The crawler asks for `rate` pages a second, and each twentieth time for a part that all readers have.
fn fast_crawler(rate: u32) -> World {
    let mut world = World::new(6, false);
    (0..60).for_each(|n| {
        world.now += 1.0;
        world.read(&reader(n), world_page(n));
    });
    for n in 0..rate * 20 {
        world.now += 1.0 / f64::from(rate);
        let page = if n % 20 == 0 { FIRST_PART } else { 1_000_000 + u64::from(n) };
        world.ask(&caller_at(0x5000_0001), page);
    }
    world
}

#[test]
fn a_fast_crawler_hides_behind_no_hits() {
    for rate in [4, 20, 100] {
        let mut world = fast_crawler(rate);
        assert!(world.ask(&caller_at(0x5000_0001), 9_000_000), "{rate} a second");
    }
}

#[test]
fn pages_that_others_want_later_pardon_only_what_was_counted() {
    let mut ledger = Ledger::new(LedgerSettings::default(), Mono(0.0));
    let crawler = caller_at(0xc000_0201);
    let object = |n: u64| Draw(n).next();
    (0..12).for_each(|n| ledger.miss(&crawler, object(n), Payer::Readers, Mono(1.0)));
    (12..24).for_each(|n| ledger.miss(&crawler, object(n), Payer::Readers, Mono(n as f64)));
    (1..12).for_each(|n| ledger.hits(&reader(n), [object(n)], Mono(30.0)));
    let shares = |ledger: &mut Ledger| {
        ledger
            .top(Level::Client, 99, Mono(30.0))
            .into_iter()
            .find(|costs| costs.name.to_string() == "192.0.2.1")
            .map(|c| c.solo_share)
    };
    assert_eq!(shares(&mut ledger), Some(1.0), "these came within a second of the first");
    ledger.hits(&reader(12), [object(12)], Mono(30.0));
    let share = shares(&mut ledger).expect("the account exists");
    assert!((share - 12.0 / 13.0).abs() < 0.01, "{share}");
}

#[test]
fn one_crawler_is_found_within_ten_requests_and_leaves_by_itself() {
    let mut world = World::new(2, false);
    let crawler = caller_at(0x5000_0001);
    for n in 0..200 {
        world.now += 1.0;
        let is_held = world.ask(&crawler, 1_000_000 + n);
        assert!(is_held == (n >= 5) || (2..8).contains(&n), "request {n}");
    }
    for n in 0..60 {
        world.read(&reader(n), world_page(n));
    }
    let mut after = 0;
    while world.ask(&crawler, 2_000_000 + after) {
        world.read(&crawler, world_page(after));
        after += 1;
    }
    assert!((2..40).contains(&after), "{after} pages with their parts");
}

fn world_page(n: u64) -> u64 {
    n % 20
}

/// Ten percent readers and ninety percent crawlers that change address and copy a browser's fields. Returns the readers' requests, those of
/// them that were held up, and the crawlers' requests and fetches.
fn flood(seed: u64, seconds: u64, hits_of_a_crawler: u64) -> [u64; 4] {
    let mut world = World::new(seed, true);
    let mut counts = [0; 4];
    for step in 0..seconds * 450 {
        world.now += 1.0 / 450.0;
        // Sessions of about 20 pages at 50 requests per second; the first ten minutes are readers' alone.
        if step % 63 == 0 {
            let n = step / 63;
            let visitor = reader(n / 600 * 30 + n % 30);
            let page = world.draw.popular(20_000);
            let held = world.read(&visitor, page);
            if world.now > 600.0 {
                counts[0] += 1 + PARTS;
                counts[1] += held;
            }
        }
        if world.now > 600.0 {
            let address = 0x2000_0000 | (world.draw.below(100_000) as u32).wrapping_mul(2971) & 0x0fff_ffff;
            let (before, crawler) = (world.fetched, caller_at(address));
            for _ in 0..hits_of_a_crawler {
                let part = FIRST_PART + world.draw.below(PARTS);
                world.ask(&crawler, part);
            }
            let page = 1_000_000_000 + world.draw.below(10_000_000);
            world.ask(&crawler, page);
            counts[2] += 1;
            counts[3] += world.fetched - before;
        }
    }
    counts
}

#[test]
fn a_flood_from_rotating_addresses_is_held_up_and_readers_are_not() {
    let [requests, held, asked, fetched] = flood(3, 900, 0);
    assert!(held * 100 <= requests, "{held} of {requests} requests of readers were held up");
    assert!(fetched * 50 <= asked, "{fetched} of {asked} requests of crawlers were fetched");
}

#[test]
fn who_pretends_to_read_pays_with_hits() {
    let [requests, held, asked, fetched] = flood(4, 800, 1);
    assert!(held * 100 <= requests, "{held} of {requests} requests of readers were held up");
    assert!(fetched * 10 <= asked, "{fetched} of {asked} requests of crawlers were fetched");
}

/// Steps of 3 ms in which the site has readers alone, a little longer than [`LedgerSettings::learning`].
const READERS_FIRST: u64 = 42_000;

#[test]
fn readers_on_their_first_page_are_told_by_the_shape_of_readers() {
    let mut world = World::new(5, true);
    let (mut held, mut requests) = (0, 0);
    for step in 0..60_000 {
        world.now += 0.003;
        let is_crawled = step > READERS_FIRST;
        if step % 10 == 0 {
            // Everybody is new, and a third of the pages is new to all.
            let visitor = reader(step);
            let has_cookie = world.draw.below(10) < 6;
            let came_from = if world.draw.below(3) > 0 { Origin::Other } else { Origin::Unnamed };
            for page in 0..3 {
                let number =
                    if world.draw.below(3) == 0 { 1_000_000 + step * 3 + page } else { world.draw.popular(500) };
                let is_first = page == 0;
                let referer = if is_first { came_from } else { Origin::Own };
                let shape = Shape { referer, has_cookie: has_cookie || !is_first, ..Shape::default() };
                let h = world.ask_as(&visitor, number, shape);
                held += u64::from(h);
                requests += 1;
            }
        }
        if is_crawled {
            let address = 0x2000_0000 | (world.draw.below(100_000) as u32).wrapping_mul(2971) & 0x0fff_ffff;
            let page = 1_000_000_000 + world.draw.below(10_000_000);
            world.ask(&caller_at(address), page);
        }
    }
    assert!(held * 16 <= requests, "{held} of {requests} requests of readers were held up");
    assert!(world.fetched * 4 <= 60_000, "{} fetches", world.fetched);
}

#[test]
fn one_client_that_is_refused_all_the_time_decides_about_nobody_else() {
    let held_newcomers = |requests_of_one: u64| {
        let mut world = World::new(6, true);
        for n in 0..3000 {
            world.now += 0.2;
            let page = world.draw.popular(2000);
            world.read(&reader(n / 100 * 30 + n % 30), page);
        }
        let one = caller_at(0x5000_0001);
        for n in 0..requests_of_one {
            world.now += 0.01;
            world.ask(&one, 1_000_000 + n);
        }
        world.now = 720.0;
        (0..60).filter(|n| world.ask(&reader(50_000 + n), 2_000_000 + n)).count()
    };
    // 60 solo requests in an instant are some pressure by themselves.
    let (without, with) = (held_newcomers(0), held_newcomers(6000));
    assert!(without <= 1 && with <= without, "{with} are held, {without} without that client");
}

#[test]
fn memory_stays_within_its_bound_and_readers_keep_their_accounts() {
    let mut ledger = Ledger::new(LedgerSettings::default(), Mono(0.0));
    let known = reader(1);
    (0..40).for_each(|object| ledger.hits(&known, [object], Mono(1.0)));
    let before = ledger.bytes();
    for n in 0..400_000u64 {
        let agent = format!("Browser/{n}");
        ledger.miss(&caller_with(n as u32 * 3, agent.as_bytes()), Draw(n).next(), Payer::Readers, Mono(2.0));
    }
    assert_eq!(ledger.bytes(), before);
    assert!(before <= LedgerSettings::default().bytes, "{before}");
    let verdict = ledger.judge(&known, 1 << 50, Mono(3.0));
    assert_eq!(verdict.class, BotClass::Reader, "{verdict}");
}

#[test]
fn a_verified_bot_has_a_budget_of_its_own() {
    let mut ledger = Ledger::new(LedgerSettings::default(), Mono(0.0));
    let bot =
        |name: &str| Caller::new(&mut Agents::new(1), &CallerIds { verified: name.as_bytes(), ..CallerIds::default() });
    let (one, other) = (bot("one.example"), bot("other.example"));
    assert_eq!(ledger.judge(&one, 1, Mono(0.0)).to_string(), "verified 1.00: one.example");
    while ledger.reserve(&one, &ANY, Mono(0.0)).is_ok() {}
    assert!(ledger.reserve(&other, &ANY, Mono(0.0)).is_ok());
    let served = (0..1000).filter(|n| ledger.reserve(&bot(&format!("{n}.example")), &ANY, Mono(0.0)).is_ok()).count();
    assert!((60..80).contains(&served), "{served}: beyond a number of bots a new one has nothing saved");
}

#[test]
fn a_verified_bot_gets_the_place_of_one_that_has_gone() {
    let mut ledger = Ledger::new(LedgerSettings::default(), Mono(0.0));
    let bot =
        |name: &str| Caller::new(&mut Agents::new(1), &CallerIds { verified: name.as_bytes(), ..CallerIds::default() });
    (0..64).for_each(|n| assert!(ledger.reserve(&bot(&format!("{n}.example")), &ANY, Mono(0.0)).is_ok()));
    let new = bot("new.example");
    assert!(ledger.reserve(&new, &ANY, Mono(1.0)).is_err());
    assert!(ledger.reserve(&new, &ANY, Mono(60.0)).is_ok(), "its budget fills");
    assert!(ledger.budget_level(&bot("later.example"), Mono(700.0)) > 0.9, "the others are forgotten");
}

#[test]
fn parts_of_a_crawlers_responses_are_no_income() {
    let mut ledger = Ledger::new(LedgerSettings::default(), Mono(0.0));
    let crawler = Caller::new(&mut Agents::new(1), &CallerIds::default());
    for _ in 0..200 {
        ledger.charge(&crawler, end(0.1), Payer::Part, Mono(0.0));
    }
    let level = ledger.budget_level(&crawler, Mono(0.0));
    assert!((-2.0..-0.9).contains(&level), "a bounded debt: {level}");
    assert!(ledger.reserve(&crawler, &ANY, Mono(0.0)).is_err());
    assert!(ledger.reserve(&crawler, &ANY, Mono(60.0)).is_ok());
}

#[test]
fn a_question_about_a_verified_bot_opens_no_budget() {
    let mut ledger = Ledger::new(LedgerSettings::default(), Mono(0.0));
    let bot =
        |name: &str| Caller::new(&mut Agents::new(1), &CallerIds { verified: name.as_bytes(), ..CallerIds::default() });
    let level = |ledger: &mut Ledger, name: &str| ledger.budget_level(&bot(name), Mono(0.0));
    let full = level(&mut ledger, "new.example");
    (0..100).for_each(|n| assert!(level(&mut ledger, &format!("{n}.example")) > 0.9));
    (0..64).for_each(|n| assert!(ledger.reserve(&bot(&format!("{n}.example")), &ANY, Mono(0.0)).is_ok()));
    assert!(full > 0.9 && level(&mut ledger, "0.example") < full);
    assert_eq!(level(&mut ledger, "new.example"), 0.0, "it would have nothing saved");
}

#[test]
fn verified_bots_together_use_no_more_than_a_few() {
    let mut ledger = Ledger::new(LedgerSettings::default(), Mono(0.0));
    let bots: Vec<Caller> = (0..64)
        .map(|n| {
            Caller::new(
                &mut Agents::new(1),
                &CallerIds {
                    verified: format!("a-name-of-more-than-forty-bytes-{n:04}.example").as_bytes(),
                    ..CallerIds::default()
                },
            )
        })
        .collect();
    let mut fetches = 0;
    for second in 0..1000 {
        for bot in &bots {
            let now = Mono(f64::from(second));
            if let Ok(admission) = ledger.reserve(bot, &ANY, now) {
                ledger.charge(bot, end(0.1), Payer::Budget(admission), now);
                fetches += 1;
            }
        }
    }
    // 64 bursts of 1 s, and 8 times the least.
    let seconds = f64::from(fetches) * 0.1;
    assert!((64.0..64.0 + 1000.0 * 0.1 * 9.0).contains(&seconds), "{seconds}");
}

#[test]
fn costs_are_charged_to_all_accounts_and_fade() {
    let mut ledger = Ledger::new(LedgerSettings::default(), Mono(0.0));
    let caller = caller_with(0xc000_0201, b"Examplebot/2");
    ledger.miss(&caller, 1, Payer::Readers, Mono(0.0));
    ledger.charge(&caller, end(4.0), Payer::Readers, Mono(0.0));
    for (level, name) in [(Level::Client, "192.0.2.1"), (Level::Prefix, "192.0.2.0/24"), (Level::Bot, "Examplebot")] {
        let top = ledger.top(level, 9, Mono(0.0));
        assert_eq!((top.len(), top[0].name.to_string(), top[0].origin_seconds), (1, name.to_owned(), 4.0));
    }
    let later = &ledger.top(Level::Client, 9, Mono(1800.0))[0];
    assert!((later.origin_seconds - 2.0).abs() < 0.01, "{later:?}");
    ledger.hits(&reader(1), [1], Mono(1800.0));
    assert_eq!(ledger.top(Level::Client, 1, Mono(1800.0))[0].shared, 1.0);
}

#[test]
fn a_verdict_names_its_reason() {
    let mut ledger = Ledger::new(LedgerSettings::default(), Mono(0.0));
    let crawler = caller_at(0xc000_0201);
    (0..32u32).for_each(|n| ledger.miss(&crawler, Draw(n.into()).next(), Payer::Readers, Mono(n.into())));
    let own = ledger.judge(&crawler, 99, Mono(32.0)).to_string();
    assert_eq!(own, "crawl 1.00: nobody else asked for what 32 of the latest 32 requests fetched");
    let new = ledger.judge(&caller_at(0x0a00_0001), 99, Mono(32.0)).to_string();
    assert!(
        new.starts_with("reader 0.00: new client; new clients made ") && new.ends_with(" others, in 30 s"),
        "{new}"
    );
    let shared = ledger.judge(&caller_at(0x0a00_0001), Draw(1).next(), Mono(32.0)).to_string();
    assert_eq!(shared, "reader 0.00: another client asked for this object");
}

/// A site with readers for the time of learning and longer, then with crawlers for `seconds`, which press.
fn pressed(seed: u64, seconds: u64) -> World {
    let mut world = World::new(seed, true);
    for step in 0..(200 + seconds) * 100 {
        world.now += 0.01;
        if step % 20 == 0 {
            let page = world.draw.popular(2000);
            world.read(&reader(step / 2000 * 30 + step / 20 % 30), page);
        }
        if step > 20_000 {
            let address = 0x2000_0000 | world.draw.below(1 << 28) as u32;
            let page = 1_000_000_000 + world.draw.below(10_000_000);
            world.ask(&caller_at(address), page);
        }
    }
    world
}

/// Crawlers that repeat each request `times` from addresses of `addresses`, under pressure: the fetches of 2000 URLs, and the world after them.
fn repeat(times: u32, addresses: u32) -> (u64, World) {
    let mut world = pressed(7, 60);
    let before = world.fetched;
    // The crawlers' budget is used up, and stays so.
    world.ledger.set_budgets(&LedgerSettings { share: 0.0, least: 1e-6, ..LedgerSettings::default() });
    for n in 0..2000 {
        world.now += 0.01;
        for attempt in 0..times {
            world.ask(&caller_at(0x3000_0000 + (n * times + attempt) % addresses * 3), 2_000_000_000 + u64::from(n));
        }
    }
    (world.fetched - before, world)
}

#[test]
fn a_crawler_that_repeats_refused_requests_gets_no_further() {
    for (times, addresses) in [(2, 1 << 20), (4, 2), (20, 2)] {
        let (fetched, _) = repeat(times, addresses);
        assert!(fetched * 10 <= 2000, "{times} from {addresses} addresses: {fetched} of 2000 are fetched");
    }
}

#[test]
fn a_crawler_that_acts_a_crowd_shares_a_budget_and_becomes_no_reader() {
    let (fetched, mut world) = repeat(8, 1 << 20);
    // Crowds have a second of the origin's time at first, which is 50 fetches.
    assert!(fetched <= 100, "{fetched} of 2000 are fetched");
    let (one, now) = (caller_at(0x3000_0000), world.now);
    (0..60u64).for_each(|n| {
        for address in [0u32, 3, 6, 9, 12, 15, 18, 21] {
            world.ledger.refused(&caller_at(0x3000_0000 + address), Draw(1 << 50 | n).next(), Mono(now));
        }
    });
    let fresh = world.ledger.judge(&one, Draw(1 << 51).next(), Mono(now));
    assert_eq!(fresh.class, BotClass::Crawl, "{fresh}");
}

#[test]
fn a_crowd_that_comes_while_crawlers_press_is_served() {
    let mut world = pressed(8, 60);
    let news = 3_000_000_000;
    let held = (0..50).filter(|n| world.ask(&reader(80_000 + n), news)).count();
    assert!(held <= 8, "{held} of 50");
}

#[test]
fn a_second_crawl_of_the_same_pages_is_recognised_a_day_later() {
    let mut world = World::new(9, true);
    let crawl = |world: &mut World, from: u32| {
        let before = world.fetched;
        for n in 0..6000 {
            world.now += 0.01;
            if n % 20 == 0 {
                let page = world.draw.popular(2000);
                world.read(&reader(u64::from(n / 600)), page);
            }
            world.ask(&caller_at(from + n * 7), 1_000_000_000 + u64::from(n));
        }
        world.fetched - before
    };
    world.now = 300.0;
    crawl(&mut world, 0x2000_0000);
    world.now += 86_400.0;
    world.cached.clear();
    let fetched = crawl(&mut world, 0x3000_0000);
    assert!(fetched <= 1500, "{fetched} of 6000");
}

#[test]
fn a_client_that_looks_like_crawlers_gets_a_shared_object_that_expired_lately() {
    let mut world = pressed(10, 60);
    let (shared, now) = (Draw(FIRST_PART).next(), Mono(world.now));
    let verdict = world.ledger.judge(&reader(90_000), shared, now);
    assert_eq!(
        (verdict.class, verdict.takes_stale(60.0), verdict.takes_stale(3600.0)),
        (BotClass::Reader, true, false)
    );
    let of_a_reader = Ask { object: shared, shape: Shape { has_cookie: true, ..Shape::default() } };
    assert!(!world.ledger.judge(&reader(90_000), of_a_reader, now).takes_stale(1.0), "nobody crawls with a cookie");
}

#[test]
fn groups_of_a_known_client_are_charged_with_all_of_its_hits() {
    let mut ledger = Ledger::new(LedgerSettings::default(), Mono(0.0));
    let client = caller_at(0xc000_0201);
    (0..1000).for_each(|n| ledger.hits(&client, [Draw(n % 7).next()], Mono(1.0)));
    ledger.miss(&client, 1, Payer::Readers, Mono(1.0));
    for level in [Level::Client, Level::Prefix, Level::Agent] {
        assert_eq!(ledger.top(level, 1, Mono(1.0))[0].requests, 1001.0, "{level:?}");
    }
}

#[test]
fn a_crawl_that_begins_is_no_income_of_its_budget() {
    let mut ledger = Ledger::new(LedgerSettings { least: 0.001, ..LedgerSettings::default() }, Mono(0.0));
    while ledger.reserve(&caller_at(1), &ANY, Mono(0.0)).is_ok() {}
    let before = ledger.budget_level(&caller_at(1), Mono(0.0));
    for n in 0..300u32 {
        let (caller, ask) = (caller_at(0x2000_0000 + n * 3), Draw(n.into()).next());
        let payer = ledger.judge(&caller, ask, Mono(0.0)).payer();
        ledger.miss(&caller, ask, Payer::Readers, Mono(0.0));
        ledger.charge(&caller, end(0.1), payer, Mono(0.0));
    }
    let level = ledger.budget_level(&caller_at(1), Mono(60.0));
    assert!(level - before < 0.2, "{before} grows to {level} s within a minute");
}

#[test]
fn readers_have_most_of_the_origins_time_beside_crawlers() {
    for (seed, popular_share) in [(11, 0), (12, 50)] {
        let mut world = World { ttl: 60.0, ..World::new(seed, true) };
        let [mut of_readers, mut of_crawlers] = [0; 2];
        for step in 0..420 * 300 {
            world.now += 1.0 / 300.0;
            let is_counted = world.now > 330.0;
            if step % 20 == 0 {
                let (before, page) = (world.fetched, world.draw.popular(6000));
                world.read(&reader(step / 6000 * 60 + step / 20 % 60), page);
                of_readers += if is_counted { world.fetched - before } else { 0 };
            }
            if world.now > 300.0 {
                let address = 0x2000_0000 | (world.draw.below(100_000) as u32).wrapping_mul(2971) & 0x0fff_ffff;
                let is_popular = world.draw.below(100) < popular_share;
                let page =
                    if is_popular { world.draw.popular(6000) } else { 1_000_000_000 + world.draw.below(10_000_000) };
                let before = world.fetched;
                world.ask(&caller_at(address), page);
                of_crawlers += if is_counted { world.fetched - before } else { 0 };
            }
        }
        let share = of_readers as f64 / (of_readers + of_crawlers) as f64;
        let least = if popular_share == 0 { 0.94 } else { 0.8 };
        assert!(share >= least, "seed {seed}: {of_readers} fetches of readers, {of_crawlers} of crawlers");
    }
}

#[test]
fn a_full_queue_of_the_origin_is_no_income_of_crawlers() {
    let mut ledger = Ledger::new(LedgerSettings { least: 0.001, ..LedgerSettings::default() }, Mono(0.0));
    let mut charge = |from: u32, seconds: u32, waited: f64| {
        let times = (from * 20..(from + seconds) * 20).map(|n| Mono(f64::from(n) / 20.0));
        times.map(|now| ledger.charge(&reader(1), end(waited), Payer::Readers, now)).sum::<f64>()
    };
    assert!((charge(0, 60, 0.02) - 24.0).abs() < 0.1);
    let counted = charge(60, 30, 10.0);
    assert!(counted < 50.0, "{counted} s for 12 s of work");
    while ledger.reserve(&caller_at(1), &ANY, Mono(90.0)).is_ok() {}
    let before = ledger.budget_level(&caller_at(1), Mono(90.0));
    let earned = ledger.budget_level(&caller_at(1), Mono(100.0)) - before;
    assert!(earned < 1.0, "{earned} s within ten seconds");
}

#[test]
fn a_look_at_a_client_makes_it_no_crawler() {
    let mut ledger = Ledger::new(LedgerSettings::default(), Mono(0.0));
    let crawler = caller_at(0xc000_0201);
    (0..20u32).for_each(|n| ledger.miss(&crawler, Draw(n.into()).next(), Payer::Readers, Mono(n.into())));
    assert_eq!(ledger.look(&crawler, 99, Mono(20.0)).class, BotClass::Crawl);
    let class = |ledger: &mut Ledger| ledger.top(Level::Client, 1, Mono(20.0))[0].class;
    assert_eq!(class(&mut ledger), Some(BotClass::Reader));
    ledger.judge(&crawler, 99, Mono(20.0));
    assert_eq!(class(&mut ledger), Some(BotClass::Crawl));
}

#[test]
fn the_total_counts_clients_whose_accounts_have_made_room() {
    let mut ledger = Ledger::new(LedgerSettings { bytes: 64_000, ..LedgerSettings::default() }, Mono(0.0));
    for n in 0..600u32 {
        let caller = caller_with(0x0a01_0000 + n, format!("Browser/{n}").as_bytes());
        ledger.miss(&caller, Draw(n.into()).next(), Payer::Readers, Mono(0.0));
        ledger.charge(&caller, end(0.02), Payer::Readers, Mono(0.0));
    }
    let (requests, seconds) = ledger.total(Mono(0.0));
    assert!((requests - 600.0).abs() < 1e-6 && (seconds - 12.0).abs() < 1e-6, "{requests} {seconds}");
    assert!((ledger.total(Mono(1800.0)).0 - 300.0).abs() < 1e-6);
    let top = ledger.top(Level::Client, 5, Mono(1800.0));
    assert!(top.len() == 5 && top.windows(2).all(|two| two[0].origin_seconds >= two[1].origin_seconds), "{top:?}");
}

#[test]
fn hits_of_newcomers_and_crawlers_let_no_object_be_remembered_for_longer() {
    let mut ledger = Ledger::new(LedgerSettings::default(), Mono(0.0));
    let object = Draw(1).next();
    (1..3).for_each(|n| ledger.miss(&reader(n), object, Payer::Readers, Mono(1.0)));
    ledger.hits(&reader(3), [object], Mono(5.0 * 3600.0));
    let verdict = ledger.look(&reader(4), object, Mono(8.0 * 3600.0));
    assert_ne!(verdict.reason, Reason::Shared, "{verdict}");
}

// SPDX-License-Identifier: BSD-2-Clause
//! Tenants: bans by tenant, the choice of the object that makes room, and rows.

use super::kit::*;
use super::line::TestLine;
use crate::*;

const LIMIT: u64 = 2 << 20;

impl Kit {
    /// Requests an object for a tenant, and fetches it after a miss; true for a hit.
    fn ask(&self, tenant: &str, url: &str, bytes: usize) -> bool {
        let mut busy = match self.look(url) {
            Ok(Found::Hit(obj)) => {
                self.cache.count_tenant_hit(&obj);
                return true;
            }
            other => busy_of(other),
        };
        busy.set_tenant(self.cache.tenant(tenant));
        let attrs = self.attrs(1e6, 0.0, 0.0, ObjectFlags::NONE);
        self.fill(busy, &TestReq::new(url), None, attrs, &vec![b'x'; bytes]);
        false
    }

    fn objects(&self, tenant: &str) -> u64 {
        self.cache.tenant(tenant).counters().objects.get()
    }
}

#[test]
fn a_ban_by_tenant_means_its_objects() {
    let kit = Kit::new();
    kit.ask("a", "/a", 10);
    kit.ask("b", "/b", 10);
    kit.put("/none", 100.0, b"x");
    kit.cache.ban_text("obj.tenant == a").unwrap();
    assert_eq!(["/a", "/b", "/none"].map(|url| kit.verdict(url)), ["miss", "hit", "hit"]);
    kit.cache.ban_text("obj.tenant != b && obj.status == 200").unwrap();
    assert_eq!(["/b", "/none"].map(|url| kit.verdict(url)), ["hit", "miss"]);
    kit.ask("Shop.Example", "/shop", 10);
    assert_eq!(kit.cache.tenant_of(&hit_of(kit.look("/shop"))).unwrap().name(), "shop.example");
    kit.cache.ban_text("obj.tenant == SHOP.example").unwrap();
    assert_eq!(["/shop", "/b"].map(|url| kit.verdict(url)), ["miss", "hit"]);
    for bad in ["obj.tenant == _others", "obj.tenant == a/b", "obj.tenant ~ a", "obj.tenant > a"] {
        assert!(kit.cache.ban_text(bad).is_err(), "{bad}");
    }
}

#[test]
fn tenants_beyond_the_bound_share_a_row_and_are_all_meant() {
    let kit = Kit::new();
    kit.cache.set_tenants(2, &[]);
    for name in ["a", "b", "c", "d", "no/name", ""] {
        kit.ask(name, &format!("/{name}"), 10);
    }
    let tenant = |url: &str| kit.cache.tenant_of(&hit_of(kit.look(url))).unwrap().name().to_owned();
    assert_eq!(["/a", "/b", "/c", "/no/name", "/"].map(tenant), ["a", "b", "_others", "_others", "_others"]);
    assert_eq!((kit.main.tenant_others.get(), kit.objects("_others")), (4, 4));
    kit.cache.ban_text("obj.tenant == d").unwrap();
    assert_eq!(["/a", "/b", "/c", "/d"].map(|url| kit.verdict(url)), ["hit", "hit", "miss", "miss"]);
}

#[test]
fn a_row_without_objects_is_given_to_another_name_after_a_while() {
    let kit = Kit::new();
    kit.cache.set_tenants(2, &[]);
    kit.ask("a", "/a", 10);
    kit.ask("b", "/b", 10);
    kit.cache.purge(&digest("/a"), kit.now(), Purge::HARD);
    assert_eq!(kit.cache.tenant("c").name(), "_others");
    kit.pass(100.0);
    let held = kit.cache.tenant("a");
    assert_eq!(kit.cache.tenant("c").name(), "_others", "a was used, and b has an object");
    kit.pass(100.0);
    assert_eq!(kit.cache.tenant("c").name(), "_others", "a fetch has it");
    drop(held);
    kit.pass(100.0);
    assert_eq!((kit.cache.tenant("c").name(), kit.cache.tenant("a").name()), ("c", "_others"));
    assert_eq!((kit.objects("c"), kit.objects("b")), (0, 1));
}

#[test]
fn counters_follow_the_objects() {
    let kit = Kit::with(Some(LIMIT), CacheParams::default());
    (0..10).for_each(|n| assert!(!kit.ask("a", &format!("/{n}"), 10_000)));
    (0..5).for_each(|n| assert!(kit.ask("b", &format!("/{n}"), 10_000)));
    let tenant = kit.cache.tenant("a");
    let counts = || [&tenant.counters().objects, &tenant.counters().hits, &tenant.counters().evicted].map(|c| c.get());
    assert_eq!((counts(), kit.objects("b")), ([10, 5, 0], 0));
    assert!(tenant.counters().bytes.get().abs_diff(kit.held()) <= 160);
    assert_eq!(kit.cache.evict(0, u64::MAX, 4, &mut |_| {}), 4);
    kit.cache.purge(&digest("/9"), kit.now(), Purge::HARD);
    assert_eq!(counts(), [5, 5, 4]);
    kit.pass(2e6);
    kit.cache.expire(kit.now(), 1000, &mut |_| {});
    assert_eq!((counts()[0], tenant.counters().bytes.get()), (0, 0));
}

#[test]
fn the_next_worker_knows_whose_objects_they_are() {
    let line = TestLine::new();
    line.kit.ask("a", "/a", 10);
    line.kit.ask("b", "/b", 100_000);
    line.kit.put("/none", 100.0, b"x");
    let line = line.die();
    line.adopt_all();
    assert_eq!((line.kit.objects("a"), line.kit.objects("b")), (1, 1));
    line.kit.cache.ban_text("obj.tenant == b").unwrap();
    let line = line.die();
    assert_eq!(line.verdicts(["/a", "/b", "/none"]), ["hit", "miss", "hit"]);
}

#[test]
fn who_holds_the_most_for_its_share_makes_room() {
    let kit = Kit::with(Some(LIMIT), CacheParams::default());
    kit.cache.set_tenants(100, &[("big".to_owned(), 3)]);
    for n in 0..1000 {
        kit.ask("small", &format!("/s{n}"), 8_000);
    }
    let all = kit.objects("small");
    assert!(all > 200, "without others it has all: {all}");
    for n in 0..1000 {
        kit.ask("big", &format!("/b{n}"), 8_000);
        kit.ask("little", &format!("/l{}", n % 5), 8_000);
    }
    // The rest, which the third one doesn't want, is shared by weight.
    let counts = ["big", "small", "little"].map(|name| kit.objects(name));
    assert!(counts[0].abs_diff(3 * counts[1]) <= 4, "{counts:?}");
    assert!(counts[2] == 5 && counts.iter().sum::<u64>() >= all - 2, "{counts:?}");
    kit.cache.set_tenants(100, &[]);
    for n in 0..1000 {
        kit.ask("small", &format!("/t{n}"), 8_000);
    }
    let counts = ["big", "small"].map(|name| kit.objects(name));
    assert!(counts[0].abs_diff(counts[1]) <= 2, "{counts:?}");
}

const CALM: usize = 5;

impl Kit {
    /// Five tenants have five objects each, which fill three quarters of the store.
    fn calm() -> Kit {
        let kit = Kit::with(Some(LIMIT), CacheParams::default());
        for n in 0..CALM * CALM {
            assert!(!kit.ask(&format!("calm{}", n % CALM), &format!("/calm{n}"), 60_000));
        }
        kit
    }

    fn calm_objects(&self) -> Vec<u64> {
        (0..CALM).map(|n| self.objects(&format!("calm{n}"))).collect()
    }

    /// A fetch of the flood that has `bytes` of its body; `None`: there was no room.
    fn flood(&self, n: usize, bytes: usize) -> Option<Busy> {
        let mut busy = busy_of(self.look(&format!("/flood{n}")));
        busy.set_tenant(self.cache.tenant("flood"));
        let (store, attrs) = (self.cache.stores().all()[0].clone(), self.attrs(1e6, 0.0, 0.0, ObjectFlags::NONE));
        busy.set_head(&store, HEAD, None, &attrs, &[]).ok()?;
        busy.append(&vec![b'x'; bytes]).ok()?;
        Some(busy)
    }
}

#[test]
fn fetches_in_progress_count_for_their_tenant() {
    let kit = Kit::calm();
    let busy: Vec<_> = (0..28).filter_map(|n| kit.flood(n, 60_000)).collect();
    assert_eq!(kit.calm_objects(), [5; CALM], "{} fetches have room", busy.len());
    assert!((5..15).contains(&busy.len()), "{} fetches have room", busy.len());
    // A tenant that holds nothing gets room, however much the flood holds.
    drop(busy);
    let room = kit.flood(100, 300_000);
    assert!(room.is_some(), "the fetches that ended have given back what they held");
    room.unwrap().finish(None).unwrap();
    assert_eq!((kit.calm_objects(), kit.objects("flood")), (vec![5; CALM], 1));
}

#[test]
fn an_object_larger_than_a_share_takes_no_room_from_those_below_theirs() {
    let kit = Kit::calm();
    for n in 0..3 {
        assert!(kit.flood(n, 1_500_000).is_none());
        let mut busy = busy_of(kit.look("/large"));
        busy.set_tenant(kit.cache.tenant("flood"));
        assert!(!busy.make_room(&kit.cache.stores().all()[0], 1_500_000));
    }
    assert_eq!((kit.calm_objects(), kit.main.tenant_limited.get() >= 6), (vec![5; CALM], true));
    // The new tenant may have as much as the others.
    kit.ask("other", "/other", 200_000);
    assert!(kit.ask("other", "/other", 0));
    // Alone, a tenant has all of the store.
    let kit = Kit::with(Some(LIMIT), CacheParams::default());
    (0..25).for_each(|n| assert!(!kit.ask("flood", &format!("/{n}"), 60_000)));
    assert!(kit.flood(0, 1_500_000).is_some());
}

#[test]
fn short_memory_is_taken_from_tenants_whatever_a_fetch_without_one_holds() {
    let kit = Kit::calm();
    let mut busy = busy_of(kit.look("/none"));
    let (store, attrs) = (kit.cache.stores().all()[0].clone(), kit.attrs(1e6, 0.0, 0.0, ObjectFlags::NONE));
    busy.set_head(&store, HEAD, None, &attrs, &[]).unwrap();
    busy.append(&vec![b'x'; 400_000]).unwrap();
    assert_eq!(kit.cache.evict(0, u64::MAX, 3, &mut |_| {}), 3);
    assert_eq!(kit.main.tenant_limited.get(), 0);
}

#[test]
fn a_body_that_is_passed_on_counts_where_it_is() {
    let kit = Kit::with(Some(LIMIT), CacheParams::default());
    let mut busy = busy_of(kit.look("/long"));
    let tenant = kit.cache.tenant("a");
    busy.set_tenant(tenant.clone());
    let (stores, attrs) = (kit.cache.stores(), kit.attrs(1e6, 0.0, 0.0, ObjectFlags::NONE));
    busy.set_head(&stores.all()[0], HEAD, None, &attrs, &[]).unwrap();
    busy.start_stream();
    let reader = busy.object().reader(0);
    let evictors = &kit.cache.shared().evictors;
    let fetched = || [0, usize::from(stores.transient().id())].map(|store| evictors[store].fetched(tenant.id()));
    busy.append(&[0; 100_000]).unwrap();
    let [own, through] = fetched();
    assert!(own > 100_000 && through == 0, "{own}");
    assert!(busy.outgrow());
    busy.append(&[0; 50_000]).unwrap();
    assert_eq!(fetched(), [own, 50_000]);
    drop((busy, reader));
    assert_eq!(fetched(), [0, 0]);
}

/// Draws from `0..n`, the first the most often.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(n: usize) -> Zipf {
        let sums = (1..=n).scan(0.0, |sum, k| {
            *sum += 1.0 / k as f64;
            Some(*sum)
        });
        Zipf(sums.collect())
    }

    fn draw(&self, rng: &mut TestRng) -> usize {
        let at = rng.below(1 << 30) as f64 / f64::from(1 << 30) * self.0[self.0.len() - 1];
        self.0.partition_point(|sum| *sum <= at)
    }
}

const TENANTS: usize = 40;
const REQUESTS: usize = 20_000;

/// One run. The tenant of each request and its object are drawn by zipf.
#[derive(Clone, Copy)]
struct Run {
    seed: u64,
    limit: u64,
    only: Option<usize>,
    /// Objects that one more tenant requests for each request of the others, each twice, so that they look useful.
    flood: usize,
}

impl Run {
    fn hit_rate(self, of: Option<usize>) -> f64 {
        let kit = Kit::with(Some(self.limit), CacheParams::default());
        let (tenants, objects, mut rng) = (Zipf::new(TENANTS), Zipf::new(120), TestRng::new(self.seed));
        let (mut hits, mut asked) = (0, 0);
        for n in 0..REQUESTS {
            let (tenant, object) = (tenants.draw(&mut rng), objects.draw(&mut rng));
            if self.only.is_some_and(|only| only != tenant) {
                continue;
            }
            let is_hit = kit.ask(&format!("t{tenant}"), &format!("/{tenant}/{object}"), 500 + object % 7 * 300);
            if n > REQUESTS / 2 && of.is_none_or(|of| of == tenant) {
                hits += usize::from(is_hit);
                asked += 1;
            }
            for k in (0..self.flood).flat_map(|k| [k, k]) {
                kit.ask("flood", &format!("/flood/{n}/{k}"), 1500);
            }
        }
        hits as f64 * 100.0 / asked as f64
    }
}

#[test]
fn a_flood_of_one_costs_the_others_at_most_a_point() {
    for seed in 1..4 {
        let calm = Run { seed, limit: LIMIT, only: None, flood: 0 };
        let (calm, flooded) = (calm.hit_rate(None), Run { flood: 3, ..calm }.hit_rate(None));
        println!("seed {seed}: {calm:.2} % without a flood, {flooded:.2} % with it");
        assert!(calm < 95.0, "the store is too small for all: {calm}");
        assert!(flooded >= calm - 1.0, "seed {seed}: {calm} {flooded}");
    }
}

#[test]
fn nobody_does_worse_than_alone_with_its_share() {
    let beside = Run { seed: 7, limit: LIMIT, only: None, flood: 2 };
    for tenant in [0, 5, 20] {
        let alone = Run { limit: LIMIT / (TENANTS as u64 + 1), only: Some(tenant), flood: 0, ..beside };
        let (alone, beside) = (alone.hit_rate(None), beside.hit_rate(Some(tenant)));
        println!("tenant {tenant}: {alone:.2} % alone, {beside:.2} % beside the others");
        assert!(beside >= alone - 1.0, "{tenant}: {alone} {beside}");
    }
}

#[test]
fn no_lock_is_held_while_counters_of_a_survivors_tenant_are_made() {
    let line = TestLine::new();
    line.kit.ask("a", "/a", 10);
    line.kit.ask("a", "/walked", 10);
    let line = line.die();
    line.kit.cache.publish_tenants(Box::new(|_| {
        assert!(!base::critical::is_critical(), "a file is made under a lock");
        Box::new(Box::<tables::counters::TenantCounters>::default())
    }));
    assert_eq!(line.kit.verdict("/a"), "hit");
    line.adopt_all();
    assert_eq!(line.kit.objects("a"), 2);
}

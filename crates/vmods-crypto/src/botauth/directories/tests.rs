// SPDX-License-Identifier: BSD-2-Clause
//! Directories over a clock that the tests move.

use base::Clock;

use super::*;

const X: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
const PRINT: &str = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k";

struct World {
    directories: Arc<Directories>,
    clock: Clock,
}

impl World {
    fn new() -> World {
        World { directories: Arc::default(), clock: Clock::manual() }
    }

    fn pass(&self, seconds: f64) {
        self.clock.advance(Duration::from_secs_f64(seconds));
    }

    fn find(&self, host: &str, lane: Lane, keyid: &str) -> (Found, Option<FetchTurn>) {
        let agent = Agent::of_uri(&format!("https://{host}")).expect("an agent");
        self.directories.find(&agent, lane, keyid, &self.clock)
    }

    fn listed(&self, keyid: &str) -> (Found, Option<FetchTurn>) {
        self.find("a.test", Lane::Listed, keyid)
    }
}

fn fetched(life: u64) -> Fetched {
    let json = format!("{{\"keys\":[{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"{X}\"}}]}}");
    Ok((KeySet::of_directory(json.as_bytes()).expect("a set"), Duration::from_secs(life)))
}

fn is_key(found: &Found) -> bool {
    matches!(found, Found::Key(key) if key.thumbprint == PRINT)
}

#[test]
fn one_request_fetches_and_none_waits() {
    let world = World::new();
    let (found, turn) = world.listed(PRINT);
    assert_eq!(found, Found::Fetching);
    assert!(matches!(world.listed(PRINT), (Found::Fetching, None)));
    turn.expect("the first one fetches").finish(fetched(3600));
    let (found, turn) = world.listed(PRINT);
    assert!(is_key(&found) && turn.is_none());
}

#[test]
fn stale_keys_count_while_they_are_fetched_again() {
    let world = World::new();
    world.listed(PRINT).1.expect("due").finish(fetched(3600));
    world.pass(3600.0);
    let (found, turn) = world.listed(PRINT);
    assert!(is_key(&found));
    turn.expect("due").finish(Err("no connection".to_owned()));
    let (found, turn) = world.listed(PRINT);
    assert!(is_key(&found) && turn.is_none(), "a failure takes no key away");
    world.pass(STALE);
    let (found, turn) = world.listed(PRINT);
    assert_eq!(found, Found::Failed("no connection".to_owned()));
    turn.expect("due").finish(fetched(60));
    assert!(is_key(&world.listed(PRINT).0));
}

#[test]
fn a_key_that_is_gone_from_its_directory_counts_no_more() {
    let world = World::new();
    world.listed(PRINT).1.expect("due").finish(fetched(60));
    world.pass(60.0);
    world.listed(PRINT).1.expect("due").finish(Ok((KeySet::default(), Duration::from_secs(60))));
    assert_eq!(world.listed(PRINT).0, Found::NoSuchKey);
}

#[test]
fn an_unknown_key_has_its_directory_fetched_once_a_minute() {
    let world = World::new();
    world.listed(PRINT).1.expect("due").finish(fetched(3600));
    assert!(matches!(world.listed("new"), (Found::NoSuchKey, None)));
    world.pass(MISSING_KEY);
    let (found, turn) = world.listed("new");
    assert_eq!(found, Found::NoSuchKey);
    turn.expect("due").finish(fetched(3600));
    assert!(world.listed("new").1.is_none());
}

#[test]
fn failures_are_remembered_for_longer_and_longer() {
    let world = World::new();
    for wait in [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0] {
        world.listed(PRINT).1.expect("due").finish(Err("refused".to_owned()));
        world.pass(wait - 0.5);
        let (found, turn) = world.listed(PRINT);
        assert!(found == Found::Failed("refused".to_owned()) && turn.is_none(), "{wait}");
        world.pass(0.5);
    }
    drop(world.listed(PRINT).1.expect("due"));
    assert_eq!(world.listed(PRINT).0, Found::Failed("the fetch was given up".to_owned()));
}

#[test]
fn clients_can_cause_a_few_fetches_only() {
    let world = World::new();
    let open = |n: usize| world.find(&format!("d{n}.test"), Lane::Open, PRINT);
    let turns: Vec<_> = (0..10).filter_map(|n| open(n).1).collect();
    assert_eq!(turns.len(), MAX_FETCHES);
    assert_eq!(open(10).0, Found::NoTurn);
    assert!(world.listed(PRINT).1.is_some(), "those that VCL names have turns of their own");
    drop(turns);
    let count = (100..200).filter_map(|n| open(n).1).map(drop).count();
    assert_eq!(count, BURST as usize - MAX_FETCHES);
    world.pass(2.0 * SECONDS_PER_FETCH);
    assert_eq!((200..300).filter_map(|n| open(n).1).map(drop).count(), 2);
}

#[test]
fn the_table_is_bounded_and_keeps_what_is_of_use() {
    let world = World::new();
    world.listed(PRINT).1.expect("due").finish(fetched(3600));
    world.find("b.test", Lane::Open, PRINT).1.expect("due").finish(fetched(3600));
    for n in 0..3 * MAX_DIRECTORIES {
        world.pass(SECONDS_PER_FETCH);
        drop(world.find(&format!("d{n}.test"), Lane::Open, PRINT));
    }
    assert!(world.directories.0.lock().known.len() <= MAX_DIRECTORIES);
    assert!(is_key(&world.listed(PRINT).0) && is_key(&world.find("b.test", Lane::Open, PRINT).0));
}

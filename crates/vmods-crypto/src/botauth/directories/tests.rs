// SPDX-License-Identifier: BSD-2-Clause
//! Directories over a clock that the tests move.

use base::Clock;

use super::super::turns::{BURST, MOST, SECONDS_PER_FETCH, SLOT_TIME};
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
    Fetched::Keys(KeySet::of_directory(json.as_bytes()).expect("a set"), Duration::from_secs(life))
}

fn failed(reason: &str) -> Fetched {
    Fetched::Failed(reason.to_owned())
}

fn response(status: u16, body: &str) -> Fetched {
    let mut head = message::Head::new();
    head.start_response(b"HTTP/1.1", status).expect("room");
    head.append("Content-Type", "application/http-message-signatures-directory+json").expect("room");
    crate::botauth::fetch::read(&head, body.as_bytes())
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
    turn.expect("due").finish(failed("no connection"));
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
    for (status, body, why) in [
        (200, "{\"keys\":[]}", "it has no key for ed25519"),
        (404, "", "status 404"),
        (410, "", "status 410"),
        (200, "{}", "not a key set: it has no keys"),
    ] {
        let world = World::new();
        world.listed(PRINT).1.expect("due").finish(fetched(60));
        world.pass(60.0);
        world.listed(PRINT).1.expect("due").finish(response(503, ""));
        assert!(is_key(&world.listed(PRINT).0), "a server that can't say takes no key away");
        world.pass(FIRST_RETRY);
        world.listed(PRINT).1.expect("due").finish(response(status, body));
        assert_eq!(world.listed(PRINT).0, Found::Failed(why.to_owned()));
        world.pass(2.0 * FIRST_RETRY);
        world.listed(PRINT).1.expect("due").finish(fetched(60));
        assert!(is_key(&world.listed(PRINT).0));
    }
}

#[test]
fn an_unknown_key_has_its_directory_fetched_once_a_minute() {
    let world = World::new();
    world.listed(PRINT).1.expect("due").finish(fetched(3600));
    assert!(matches!(world.listed("new"), (Found::NoKey(NoKey::Unknown), None)));
    world.pass(MISSING_KEY);
    let (found, turn) = world.listed("new");
    assert_eq!(found, Found::NoKey(NoKey::Unknown));
    turn.expect("due").finish(fetched(3600));
    assert!(world.listed("new").1.is_none());
}

#[test]
fn failures_are_remembered_for_longer_and_longer() {
    let world = World::new();
    for wait in [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0] {
        world.listed(PRINT).1.expect("due").finish(failed("refused"));
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
    assert_eq!(turns.len(), MOST);
    assert_eq!(open(10).0, Found::NoTurn);
    assert!(world.listed(PRINT).1.is_some(), "those that VCL names have turns of their own");
    drop(turns);
    let count = (100..200).filter_map(|n| open(n).1).map(drop).count();
    assert_eq!(count, BURST as usize - MOST);
    world.pass(2.0 * SECONDS_PER_FETCH);
    assert_eq!((200..300).filter_map(|n| open(n).1).map(drop).count(), 2);
}

#[test]
fn new_names_take_no_turn_of_a_directory_with_keys() {
    let world = World::new();
    for known in ["b.test", "c.test"] {
        world.find(known, Lane::Open, PRINT).1.expect("due").finish(fetched(60));
    }
    world.pass(60.0);
    let others: Vec<_> = (0..100).filter_map(|n| world.find(&format!("d{n}.test"), Lane::Open, PRINT).1).collect();
    assert_eq!(others.len(), MOST, "no slot is left");
    assert!(world.find("b.test", Lane::Open, PRINT).1.is_some());
    drop(others);
    (100..200).filter_map(|n| world.find(&format!("d{n}.test"), Lane::Open, PRINT).1).for_each(drop);
    assert_eq!(world.find("new.test", Lane::Open, PRINT).0, Found::NoTurn, "no token is left");
    assert!(world.find("c.test", Lane::Open, PRINT).1.is_some());
}

#[test]
fn a_domain_has_a_few_directories() {
    let world = World::new();
    let below = |n: usize| world.find(&format!("d{n}.evil.test"), Lane::Open, PRINT);
    let mut admitted = 0;
    for n in 0..3 * MAX_OF_SITE {
        world.pass(SECONDS_PER_FETCH);
        if let (_, Some(turn)) = below(n) {
            turn.finish(fetched(86_400));
            admitted += 1;
        }
    }
    assert_eq!((admitted, below(1000).0), (MAX_OF_SITE, Found::NoTurn));
    assert!(world.find("d.other.test", Lane::Open, PRINT).1.is_some());
    // Names without a directory leave room once they may be asked again.
    let failing = |n: usize| world.find(&format!("d{n}.old.test"), Lane::Open, PRINT).1.map(drop).is_some();
    for n in 0..MAX_OF_SITE {
        world.pass(SECONDS_PER_FETCH);
        assert!(failing(n));
    }
    world.pass(FIRST_RETRY);
    assert!(failing(1000));
}

/// The lookup of a name may hang longer than a fetch may take.
#[test]
fn a_slot_is_taken_for_a_bounded_time() {
    let world = World::new();
    let open = |n: usize| world.find(&format!("d{n}.test"), Lane::Open, PRINT);
    let hanging: Vec<_> = (0..MOST).filter_map(|n| open(n).1).collect();
    world.pass(SLOT_TIME - 1.0);
    assert_eq!(open(100).0, Found::NoTurn);
    world.pass(1.0);
    let (_, turn) = open(100);
    drop(hanging);
    turn.expect("a slot is free").finish(fetched(60));
    assert!(is_key(&open(100).0));
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
    let table = world.directories.0.lock();
    assert!(table.open.len() <= MAX_DIRECTORIES && table.sites.len() <= 2 * MAX_DIRECTORIES);
    drop(table);
    assert!(is_key(&world.listed(PRINT).0) && is_key(&world.find("b.test", Lane::Open, PRINT).0));
}

#[test]
fn a_directory_that_verified_a_request_makes_no_room() {
    let world = World::new();
    let open = |host: &str| world.find(host, Lane::Open, PRINT);
    open("b.test").1.expect("due").finish(fetched(86_400));
    let agent = Agent::of_uri("https://b.test").expect("an agent");
    for n in 0..3 * MAX_DIRECTORIES {
        world.pass(SECONDS_PER_FETCH);
        world.directories.note_verified(&agent, Lane::Open, world.clock.mono());
        if let (_, Some(turn)) = open(&format!("d{n}.test")) {
            turn.finish(fetched(86_400));
        }
    }
    assert_eq!(world.directories.0.lock().open.len(), MAX_DIRECTORIES);
    let (found, turn) = open("b.test");
    assert!(is_key(&found) && turn.is_none());
}

/// The keys of a private host that one VCL lists are no proof to another that accepts any public host.
#[test]
fn listed_and_open_directories_are_apart() {
    let world = World::new();
    world.find("keys.corp", Lane::Listed, PRINT).1.expect("due").finish(fetched(3600));
    assert!(is_key(&world.find("keys.corp", Lane::Listed, PRINT).0));
    assert_eq!(world.find("keys.corp", Lane::Open, PRINT).0, Found::Fetching);
}

#[test]
fn a_long_fault_is_cut() {
    let world = World::new();
    world.listed(PRINT).1.expect("due").finish(failed(&"é".repeat(1000)));
    assert_eq!(world.listed(PRINT).0, Found::Failed("é".repeat(100)));
}

// SPDX-License-Identifier: BSD-2-Clause
//! A log that loses what it has acknowledged, and the nodes that bring it back.

use super::*;

struct Stepped {
    node: Node,
    witness: Arc<Witness>,
    follower: Follower,
    appender: Appender,
}

struct Nodes {
    log: Log,
    clock: Arc<Mutex<Instant>>,
}

impl Nodes {
    fn new() -> Nodes {
        Nodes { log: Log::default(), clock: Arc::new(Mutex::new(base::clock::now())) }
    }

    fn node(&self, name: &str, held: usize, former: Option<&Witness>) -> Stepped {
        let settings = FleetSettings::parse(&format!("nats://x,wait=1h,node={name}")).unwrap();
        let (now, draw) = (self.clock.clone(), mark(name.as_bytes()) + u64::from(former.is_some()));
        let node = Node::simulated(settings, draw, held, move || *now.lock());
        let witness = Arc::new(Witness::default());
        if let Some(former) = former {
            *witness.held.lock() = former.held.lock().clone();
        }
        let position = former.and_then(|former| former.kept.lock().clone());
        let connect = Arc::new(self.log.clone());
        let follower = node.follower(connect.clone(), witness.clone(), position);
        Stepped { appender: node.appender(connect, witness.clone()), node, witness, follower }
    }

    /// Takes steps of these for a while: all have what the log has, and nothing is owed any more.
    #[track_caller]
    fn settle(&self, nodes: &mut [&mut Stepped]) {
        for _ in 0..400 {
            for stepped in nodes.iter_mut() {
                stepped.follower.step();
                stepped.appender.step();
            }
            *self.clock.lock() += Duration::from_millis(25);
        }
        let end = self.log.look().unwrap().entries.len() as u64;
        for stepped in nodes {
            let status = stepped.node.status();
            assert!((status.applied, status.gate, status.owed) == (end, Gate::Open, 0), "{end}: {status:?}");
        }
    }

    /// The log as it was after so many entries, in which others have appended these.
    fn go_back(&self, entries: usize, others: &[&str]) {
        self.log.set_away(true);
        self.log.change(|kept| kept.entries.truncate(entries));
        others.iter().for_each(|why| _ = self.log.named(why));
    }

    /// Two nodes that have read an entry; the first one has also read another.
    fn two_of_which_one_saw_more(&self) -> (Stepped, Stepped) {
        let (mut a, mut b) = (self.node("a", HELD, None), self.node("b", HELD, None));
        self.log.named("one");
        self.settle(&mut [&mut a, &mut b]);
        self.log.named("two");
        self.settle(&mut [&mut a]);
        let _ = (a.seen(), b.seen());
        (a, b)
    }

    #[track_caller]
    fn come_back(&self, nodes: &mut [&mut Stepped]) {
        nodes.iter_mut().for_each(|stepped| _ = stepped.follower.step());
        self.log.set_away(false);
        self.settle(nodes);
    }
}

impl Stepped {
    /// The entries carried out since the last call.
    fn seen(&self) -> Vec<String> {
        let seen = std::mem::take(&mut *self.witness.seen.lock());
        seen.into_iter().filter(|seen| !["Open", "Closed"].contains(&&seen[..])).collect()
    }
}

#[test]
fn a_node_that_stood_before_a_lost_entry_gets_it_from_one_that_had_it() {
    for others in [&[][..], &["other"], &["other", "another", "third"]] {
        let nodes = Nodes::new();
        let (mut a, mut b) = nodes.two_of_which_one_saw_more();
        nodes.go_back(1, others);
        nodes.come_back(&mut [&mut a, &mut b]);
        let (seen, status) = (b.seen(), b.node.status());
        assert!(seen.contains(&"two".to_owned()) && status.gaps == 0, "{others:?}: {seen:?}");
        let (seen, status) = (a.seen(), a.node.status());
        assert!(others.iter().all(|other| seen.contains(&(*other).to_owned())), "{others:?}: {seen:?}");
        assert_eq!((status.gaps, status.restored), (0, 1), "{others:?}");
    }
}

#[test]
fn an_own_entry_that_never_came_back_is_appended_again() {
    let nodes = Nodes::new();
    let (mut a, mut b) = (nodes.node("a", HELD, None), nodes.node("b", HELD, None));
    nodes.log.named("one");
    nodes.settle(&mut [&mut a, &mut b]);
    let mut announced = std::pin::pin!(a.node.append(Invalidation::All("own".into()), 1.0));
    let mut outcome = || announced.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    a.appender.step();
    assert_eq!(outcome(), Poll::Ready(Ok(2)), "it is acknowledged, and not read yet");
    let _ = b.seen();
    nodes.go_back(1, &["other"]);
    nodes.come_back(&mut [&mut a, &mut b]);
    assert_eq!(b.seen(), ["other", "own"]);
}

#[test]
fn what_a_dead_node_had_seen_its_successor_appends_again() {
    let nodes = Nodes::new();
    let (a, mut b) = nodes.two_of_which_one_saw_more();
    nodes.go_back(1, &["other"]);
    nodes.come_back(&mut [&mut b]);
    assert_eq!(b.seen(), ["other"]);
    let mut successor = nodes.node("a", HELD, Some(&a.witness));
    nodes.settle(&mut [&mut successor, &mut b]);
    assert_eq!((b.seen(), successor.node.status().gaps), (vec!["two".to_owned()], 0));
}

#[test]
fn an_entry_that_got_its_number_again_is_not_the_one_that_was_there() {
    let nodes = Nodes::new();
    let (mut a, mut b) = (nodes.node("a", HELD, None), nodes.node("b", HELD, None));
    nodes.log.named("one");
    nodes.settle(&mut [&mut a, &mut b]);
    nodes.log.named("two");
    nodes.log.named("three");
    nodes.settle(&mut [&mut a, &mut b]);
    // While b is away a brings back "two" and "three" behind another entry: one of them has the number 3 again.
    nodes.go_back(1, &["other"]);
    b.follower.step();
    nodes.come_back(&mut [&mut a]);
    let _ = b.seen();
    nodes.settle(&mut [&mut a, &mut b]);
    let seen = b.seen();
    assert!(nodes.log.look().unwrap().entries.len() == 4 && seen.contains(&"other".to_owned()), "{seen:?}");
}

#[test]
fn a_loss_of_more_than_nodes_hold_invalidates_everything_on_all_nodes() {
    let nodes = Nodes::new();
    let (mut a, mut b) = (nodes.node("a", 2, None), nodes.node("b", 2, None));
    nodes.log.named("one");
    nodes.settle(&mut [&mut a, &mut b]);
    ["two", "three", "four", "five"].iter().for_each(|why| _ = nodes.log.named(why));
    nodes.settle(&mut [&mut a]);
    let _ = (a.seen(), b.seen());
    // Nobody has "two" and "three" any more, and b hadn't come so far.
    nodes.go_back(1, &[]);
    nodes.come_back(&mut [&mut a, &mut b]);
    let (seen, of_b) = (a.seen(), b.seen());
    assert_eq!(seen, ["ALL: the log ends at 1, and was at 5 before: it has lost entries", "one"]);
    assert_eq!(of_b, ["the log has lost entries that may be held by nobody"]);
    assert_eq!((a.node.status().gaps, b.node.status().gaps), (1, 0));
}

#[test]
fn nodes_that_lost_the_same_tell_all_nodes_once() {
    let nodes = Nodes::new();
    let mut all: Vec<Stepped> = (0..5).map(|n| nodes.node(&format!("n{n}"), 1, None)).collect();
    ["one", "two", "three"].iter().for_each(|why| _ = nodes.log.named(why));
    nodes.settle(&mut all.iter_mut().collect::<Vec<_>>());
    nodes.go_back(1, &[]);
    nodes.come_back(&mut all.iter_mut().collect::<Vec<_>>());
    let entries = nodes.log.look().unwrap().entries.len() - 1;
    assert!((1..=2).contains(&entries), "{entries} entries");
}

#[test]
fn what_others_write_is_appended_again_once() {
    let long = "x".repeat(crate::LONGEST);
    let all = |id: &str| format!(r#"{{"lacquer":1,"id":"{id}","at":1,"all":"why"}}"#);
    let later = |id: &str| format!(r#"{{"lacquer":9,"id":"{id}"}}"#);
    let ids = ["", "a\\r\\nPUB x 0", &"i".repeat(9000), "cron"];
    let mut entries: Vec<String> = ids.iter().flat_map(|id| [all(id), later(id)]).collect();
    entries.push(format!(r#"{{"lacquer":1,"at":1,"all":"{long}"}}"#));
    entries.push(r#"{"lacquer":1,"tags":["x"]}"#.to_owned());
    entries.push(format!(r#"{{"lacquer":1,"at":1,"all":"{}"}}"#, "y".repeat(crate::LONGEST - 40)));
    let nodes = Nodes::new();
    let (mut a, mut b) = (nodes.node("a", HELD, None), nodes.node("b", HELD, None));
    nodes.log.named("known");
    nodes.settle(&mut [&mut a, &mut b]);
    entries.iter().for_each(|entry| _ = nodes.log.write(entry.as_bytes()));
    nodes.settle(&mut [&mut a, &mut b]);
    let before = nodes.log.look().unwrap().entries.len();
    nodes.go_back(1, &["other"]);
    nodes.come_back(&mut [&mut a, &mut b]);
    let mut successor = nodes.node("a", HELD, Some(&a.witness));
    nodes.settle(&mut [&mut successor, &mut b]);
    let after = nodes.log.look().unwrap().entries;
    assert!(after.len() == before + 1 && after.iter().all(|entry| entry.len() <= crate::LONGEST), "{}", after.len());
}

#[test]
fn entries_of_one_id_are_all_appended_again() {
    let nodes = Nodes::new();
    let mut a = nodes.node("a", HELD, None);
    nodes.log.named("known");
    nodes.settle(&mut [&mut a]);
    let why = ["one", "two", "three"];
    let entry = |why: &str| format!(r#"{{"lacquer":1,"id":"cron","at":1,"all":"{why}"}}"#);
    why.iter().for_each(|why| _ = nodes.log.write(entry(why).as_bytes()));
    nodes.settle(&mut [&mut a]);
    let _ = a.seen();
    nodes.go_back(1, &[]);
    nodes.come_back(&mut [&mut a]);
    let (mut seen, mut wanted) = (a.seen(), why.to_vec());
    seen.sort();
    wanted.sort_unstable();
    assert_eq!((seen, a.node.status().gaps), (wanted.iter().map(|why| (*why).to_owned()).collect(), 0));
}

fn form_of(number: u32, maker: &str) -> HeldForm {
    let what = Invalidation::All("why".into());
    let entry = FleetEntry { id: format!("{number:032x}"), node: maker.into(), at: 1.0, what };
    let bytes = entry.encode().unwrap();
    HeldForm::of(&crate::Read::Entry(entry), &bytes, "a").unwrap()
}

#[test]
fn what_is_lost_already_takes_no_room_from_what_will_turn_out_to_be() {
    let nodes = Nodes::new();
    let (a, mut held, now) = (nodes.node("a", HELD, None), Held::new(4), base::clock::now());
    let (delay, pending) = (|_: &str| Duration::ZERO, || PendingInvalidation::new(&a.node.0));
    let losses = Losses { now, delay: &delay, pending: &pending };
    held.read(1, Some(form_of(1, "b")), &losses);
    for seq in 2..=4 {
        let form = form_of(10 + seq, "a");
        let id = form.id.clone();
        held.queue(form, now);
        held.acknowledged(&id, seq.into(), 1, &losses);
    }
    // Another log has others in the place of the three.
    for seq in 2..=4 {
        held.read(seq.into(), Some(form_of(20 + seq, "b")), &losses);
    }
    assert_eq!(held.owed(), 3);
}

#[test]
fn an_own_entry_stays_until_it_was_read_however_many_are_read_before() {
    let nodes = Nodes::new();
    let (a, mut held, now) = (nodes.node("a", HELD, None), Held::new(2), base::clock::now());
    let (delay, pending) = (|_: &str| Duration::ZERO, || PendingInvalidation::new(&a.node.0));
    let losses = Losses { now, delay: &delay, pending: &pending };
    let own = form_of(100, "a");
    held.queue(own.clone(), now);
    held.acknowledged(&own.id, 50, 0, &losses);
    for seq in 1..=40 {
        held.read(seq, Some(form_of(seq as u32, "b")), &losses);
    }
    assert_eq!(held.records(now).len(), 3);
    held.lose_between(41, 60, &losses);
    assert_eq!(held.owed(), 1);
    // More of them than are held of what was read aren't kept.
    for seq in 101..=140 {
        let form = form_of(seq, "a");
        held.queue(form.clone(), now);
        held.acknowledged(&form.id, seq.into(), 40, &losses);
    }
    assert!(held.records(now).len() <= 6, "{}", held.records(now).len());
}

#[test]
fn an_own_entry_is_as_new_as_its_place_in_the_log() {
    let nodes = Nodes::new();
    let (a, mut held, now) = (nodes.node("a", HELD, None), Held::new(2), base::clock::now());
    let (delay, pending) = (|_: &str| Duration::ZERO, || PendingInvalidation::new(&a.node.0));
    let losses = Losses { now, delay: &delay, pending: &pending };
    let own = form_of(100, "a");
    held.queue(own.clone(), now);
    held.acknowledged(&own.id, 3, 0, &losses);
    for (seq, form) in [(1, form_of(1, "b")), (2, form_of(2, "b")), (3, own), (4, form_of(4, "b"))] {
        held.read(seq, Some(form), &losses);
    }
    let mut kept: Vec<u64> = held.records(now).iter().map(|record| record.seq).collect();
    kept.sort_unstable();
    assert_eq!(kept, [3, 4]);
}

#[test]
fn entries_that_were_refused_leave_nothing() {
    let mut held = Held::new(HELD);
    let now = base::clock::now();
    for n in 0..1000 {
        let form = form_of(n, "a");
        let id = form.id.clone();
        held.queue(form, now);
        assert!(held.refused(&id).is_some());
    }
    assert!(held.ordered() < 100, "{}", held.ordered());
}

#[test]
fn what_a_trimmed_log_had_is_appended_again_once_an_older_state_of_it_is_restored() {
    // The node finds the log without any entry, or in the midst of entries, when it then can't reach it.
    for is_empty in [true, false] {
        let nodes = Nodes::new();
        let (mut a, mut b) = (nodes.node("a", HELD, None), nodes.node("b", HELD, None));
        nodes.log.named("one");
        nodes.settle(&mut [&mut a, &mut b]);
        ["two", "three"].iter().for_each(|why| _ = nodes.log.named(why));
        nodes.settle(&mut [&mut a]);
        let _ = b.seen();
        if is_empty {
            nodes.log.set_away(true);
            a.follower.step();
            nodes.log.change(|kept| kept.first = 4);
            nodes.come_back(&mut [&mut a]);
        } else {
            ["four", "five"].iter().for_each(|why| _ = nodes.log.named(why));
            nodes.log.change(|kept| kept.first = 5);
            (0..3).for_each(|_| _ = a.follower.step());
        }
        assert_eq!(a.node.status().gaps, 1, "{is_empty}");
        nodes.go_back(1, &["other", "another", "third"]);
        nodes.log.change(|kept| kept.first = 1);
        nodes.come_back(&mut [&mut a, &mut b]);
        let seen = b.seen();
        assert!(["two", "three"].iter().all(|why| seen.contains(&(*why).to_owned())), "{is_empty}: {seen:?}");
    }
}

#[test]
fn an_attempt_that_is_refused_and_in_the_log_counts_as_appended_again() {
    let nodes = Nodes::new();
    let mut a = nodes.node("a", HELD, None);
    ["one", "two"].iter().for_each(|why| _ = nodes.log.named(why));
    nodes.settle(&mut [&mut a]);
    nodes.go_back(1, &[]);
    nodes.log.change(|kept| kept.lacks_replicas = true);
    nodes.come_back(&mut [&mut a]);
    let (status, entries) = (a.node.status(), nodes.log.look().unwrap().entries.len());
    assert_eq!((status.restored, status.refused, entries), (1, 0, 2), "{status:?}");
}

#[test]
fn an_attempt_may_be_read_before_it_is_refused() {
    let nodes = Nodes::new();
    let mut a = nodes.node("a", HELD, None);
    ["one", "two"].iter().for_each(|why| _ = nodes.log.named(why));
    nodes.settle(&mut [&mut a]);
    nodes.go_back(1, &[]);
    a.follower.step();
    nodes.log.set_away(false);
    for _ in 0..400 {
        if a.node.0.held.lock().owed() == 0 {
            *nodes.clock.lock() += Duration::from_millis(25);
            a.follower.step();
        }
    }
    let much_later = *nodes.clock.lock() + Duration::from_secs(60);
    let lost = a.node.0.held.lock().due(much_later, 1).pop().unwrap();
    let bytes = a.node.0.once_more(&lost.id, &lost.bytes);
    nodes.log.write(&bytes);
    (0..3).for_each(|_| _ = a.follower.step());
    let until = *nodes.clock.lock();
    let other = PendingInvalidation::new(&a.node.0);
    let refused = |sent, pending| a.node.0.held.lock().refused_again(&lost.id, sent, until, pending);
    assert!(!refused(None, other) && refused(Some(mark(&bytes)), lost.pending));
}

/// A successor of `former` that starts after so many hours.
fn successor(nodes: &Nodes, former: &Stepped, hours: u64) -> Stepped {
    let mut held = former.witness.held.lock();
    held.values_mut().for_each(|record| record.age += Duration::from_secs(hours * 3600));
    drop(held);
    nodes.node("a", HELD, Some(&former.witness))
}

#[test]
fn a_node_that_only_fell_behind_appends_nothing() {
    let nodes = Nodes::new();
    let mut a = nodes.node("a", HELD, None);
    nodes.log.named("one");
    nodes.settle(&mut [&mut a]);
    ["two", "three"].iter().for_each(|why| _ = nodes.log.named(why));
    nodes.settle(&mut [&mut a]);
    nodes.log.set_away(true);
    a.follower.step();
    ["four", "five", "six"].iter().for_each(|why| _ = nodes.log.named(why));
    nodes.log.change(|kept| kept.first = 6);
    nodes.come_back(&mut [&mut a]);
    let mut successor = successor(&nodes, &a, 0);
    nodes.settle(&mut [&mut successor]);
    let entries = nodes.log.look().unwrap().entries.len();
    assert_eq!((entries, a.node.status().gaps, successor.node.status().gaps), (6, 1, 0));
}

#[test]
fn an_own_entry_that_was_never_read_is_appended_again_by_a_node_that_fell_behind() {
    let nodes = Nodes::new();
    let mut a = nodes.node("a", HELD, None);
    nodes.log.named("one");
    nodes.settle(&mut [&mut a]);
    let _announced = a.node.append(Invalidation::All("own".into()), 1.0);
    a.appender.step();
    nodes.log.set_away(true);
    a.follower.step();
    nodes.log.change(|kept| kept.entries[1] = kept.entries[0].clone());
    ["three", "four"].iter().for_each(|why| _ = nodes.log.named(why));
    nodes.log.change(|kept| kept.first = 4);
    nodes.come_back(&mut [&mut a]);
    let last = nodes.log.look().unwrap().entries.pop().unwrap();
    assert!(String::from_utf8(last).unwrap().contains("\"own\""));
}

#[test]
fn an_own_entry_of_a_discarded_log_is_appended_again_although_all_were_told() {
    for (hours, wanted) in [(0, true), (1, false)] {
        let nodes = Nodes::new();
        let (mut a, mut b) = (nodes.node("a", HELD, None), nodes.node("b", HELD, None));
        nodes.log.named("one");
        nodes.settle(&mut [&mut a, &mut b]);
        let _announced = a.node.append(Invalidation::All("own".into()), 1.0);
        nodes.settle(&mut [&mut a]);
        *nodes.clock.lock() += Duration::from_secs(hours * 3600);
        // The other side lost all before, and a node there has told so.
        nodes.log.set_away(true);
        nodes.log.change(|kept| kept.entries.clear());
        ["told", "another"].iter().for_each(|why| _ = nodes.log.all(why));
        nodes.come_back(&mut [&mut a, &mut b]);
        let entries = nodes.log.look().unwrap().entries;
        let is_there = entries.iter().any(|entry| String::from_utf8_lossy(entry).contains("\"own\""));
        assert_eq!(is_there, wanted, "{hours}");
    }
}

#[test]
fn an_own_entry_in_another_log_is_no_sign_that_it_is_the_one_of_before() {
    let nodes = Nodes::new();
    let mut a = nodes.node("a", HELD, None);
    ["one", "two", "three"].iter().for_each(|why| _ = nodes.log.named(why));
    nodes.settle(&mut [&mut a]);
    ["four", "five", "six"].iter().for_each(|why| _ = nodes.log.named(why));
    nodes.settle(&mut [&mut a]);
    nodes.log.change(|kept| (kept.entries, kept.epoch) = (Vec::new(), kept.epoch + 1));
    ["other", "another"].iter().for_each(|why| _ = nodes.log.named(why));
    let mut successor = nodes.node("a", HELD, Some(&a.witness));
    let _announced = successor.node.append(Invalidation::All("own".into()), 1.0);
    (0..3).for_each(|_| _ = successor.appender.step());
    assert_eq!(nodes.log.look().unwrap().entries.len(), 3, "the new log has it before it is followed");
    nodes.settle(&mut [&mut successor]);
    assert_eq!(successor.node.status().gaps, 1);
}

#[test]
fn a_damaged_entry_invalidates_everything_and_is_not_appended_again() {
    let nodes = Nodes::new();
    let (mut a, mut b) = nodes.two_of_which_one_saw_more();
    nodes.log.change(|kept| kept.entries[1][30] ^= 4);
    nodes.settle(&mut [&mut b]);
    assert_eq!((a.node.status().gaps, b.node.status().gaps), (0, 1));
    let mut successor = nodes.node("b", HELD, Some(&b.witness));
    nodes.settle(&mut [&mut a, &mut successor]);
    assert_eq!(nodes.log.look().unwrap().entries.len(), 2);
}

#[test]
fn what_is_older_than_a_day_is_not_appended_again_by_a_successor() {
    for (hours, wanted) in [(23, 2), (25, 1)] {
        let nodes = Nodes::new();
        let mut a = nodes.node("a", HELD, None);
        nodes.log.named("one");
        nodes.settle(&mut [&mut a]);
        nodes.log.named("two");
        nodes.settle(&mut [&mut a]);
        nodes.go_back(1, &[]);
        nodes.log.set_away(false);
        let mut successor = successor(&nodes, &a, hours);
        nodes.settle(&mut [&mut successor]);
        assert_eq!(nodes.log.look().unwrap().entries.len(), wanted, "{hours}");
        assert_eq!(a.witness.held.lock().len(), 2);
        assert_eq!(successor.witness.held.lock().len(), wanted, "{hours}: the journal is rid of them");
    }
}

#[test]
fn a_position_that_is_days_old_invalidates_nothing_elsewhere() {
    let entry = br#"{"lacquer":1,"at":1,"tags":["x"]}"#;
    for (hours, is_empty, others, wanted) in
        [(1, false, &[][..], 4), (25, false, &[], 3), (1, true, &[], 3), (1, false, &["told"], 4)]
    {
        let nodes = Nodes::new();
        let mut a = nodes.node("a", HELD, None);
        nodes.settle(&mut [&mut a]);
        if !is_empty {
            nodes.log.named("one");
            nodes.settle(&mut [&mut a]);
        }
        nodes.log.change(|kept| *kept = Kept { epoch: 1, ..Kept::default() });
        others.iter().for_each(|why| _ = nodes.log.named(why));
        (0..3).for_each(|_| _ = nodes.log.write(entry));
        let mut successor = successor(&nodes, &a, hours);
        nodes.settle(&mut [&mut successor]);
        let (entries, status) = (nodes.log.look().unwrap().entries.len(), successor.node.status());
        assert_eq!((entries, status.gaps), (wanted, 1), "{hours} {is_empty} {others:?}");
    }
}

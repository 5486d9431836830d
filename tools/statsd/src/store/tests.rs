// SPDX-License-Identifier: BSD-2-Clause
//! Tests of shard and store together: packets in, a flush out.

use proptest::prelude::*;

use super::*;
use crate::number;
use crate::shard::{StatsdOptions, StatsdShard};

const OPTIONS: StatsdOptions = StatsdOptions { clean_names: true, dump: false, count_names: false };

struct Bed {
    budget: Arc<Budget>,
    shard: StatsdShard,
    store: MetricStore,
    delete: Delete,
    now: u64,
}

impl Bed {
    fn new(names: usize, bytes: u64) -> Bed {
        let budget = Arc::new(Budget::new(names, bytes));
        let shard = StatsdShard::new(Arc::clone(&budget), OPTIONS);
        let store = MetricStore::new(Arc::clone(&budget), "own");
        Bed { budget, shard, store, delete: Delete::default(), now: 1000 }
    }

    fn send(&mut self, packets: &[&str]) -> &mut Bed {
        packets.iter().for_each(|p| self.shard.packet(p.as_bytes()));
        self
    }

    fn collect(&mut self) -> &mut Bed {
        let collected = self.shard.collect(self.delete.any());
        self.store.collect(collected, &self.delete);
        self
    }

    fn flush(&mut self) -> String {
        self.collect();
        self.now += 10;
        let snapshot = self.store.flush(&PercentilePlan::default(), &self.delete, self.now, 10_000.0);
        let text = |name: &StatName| String::from_utf8_lossy(name).into_owned();
        let mut all: Vec<String> = Vec::new();
        let counters = snapshot.counters.iter().filter(|(n, ..)| !n.starts_with(b"own."));
        all.extend(counters.map(|(n, v, _)| format!("{} c {}", text(n), number::show(*v))));
        all.extend(snapshot.timers.iter().map(|t| {
            let values: Vec<_> = t.values.iter().map(|v| number::show(*v)).collect();
            format!("{} ms {}", text(&t.name), values.join("+"))
        }));
        let gauges = snapshot.gauges.iter().filter(|(n, _)| !n.starts_with(b"own."));
        all.extend(gauges.map(|(n, v)| format!("{} g {}", text(n), number::show(*v))));
        all.extend(snapshot.sets.iter().map(|(n, m)| format!("{} s {}", text(n), m.len())));
        all.join(", ")
    }

    fn own(&self, name: &str) -> f64 {
        self.store.counters.get(format!("own.{name}").as_bytes()).copied().unwrap_or(-1.0)
    }
}

fn bed() -> Bed {
    Bed::new(1000, 1 << 20)
}

#[test]
fn metrics_stay_and_are_reset() {
    let mut bed = bed();
    assert_eq!(
        bed.send(&["b:1|c\na:2|c", "10:1|c", "t:3|ms:1|ms", "g:4|g", "s:x|s:y|s:x|s"]).flush(),
        "10 c 1, b c 1, a c 2, t ms 1+3, g g 4, s s 2"
    );
    assert_eq!(bed.flush(), "10 c 0, b c 0, a c 0, t ms , g g 4, s s 0");
}

#[test]
fn deleting_what_is_idle() {
    let mut bed = bed();
    bed.delete = Delete { counters: true, timers: true, sets: true, gauges: Some(2) };
    assert_eq!(bed.send(&["a:2|c", "t:3|ms", "g:4|g", "s:x|s"]).flush(), "a c 2, t ms 3, g g 4, s s 1");
    assert_eq!(bed.flush(), "g g 4");
    assert_eq!(bed.flush(), "");
    assert_eq!(bed.own("packets_received"), 0.0);
}

#[test]
fn gauges_change_as_in_script() {
    let mut bed = bed();
    assert_eq!(bed.send(&["g:5|g\ng:+3|g\ng:-1|g"]).flush(), "g g 7");
    assert_eq!(bed.send(&["g:-7|g"]).flush(), "g g 0");
    assert_eq!(bed.send(&["g:-4|g"]).flush(), "g g -4");
    assert_eq!(bed.send(&["g:+0.1|g\ng:+0.2|g"]).flush(), "g g -3.6999999999999997");
    // Collecting in between (a question on the management port) changes nothing.
    let mut other = self::bed();
    other.send(&["g:-4|g"]).collect().send(&["g:+0.1|g"]).collect();
    assert_eq!(other.send(&["g:+0.2|g"]).flush(), "g g -3.6999999999999997");
}

#[test]
fn names_that_stop_node_are_ordinary() {
    let packets = ["constructor:1|ms", "__proto__:1|c", "toString:1|g", "hasOwnProperty:__proto__|s", "a:1|c|@+1"];
    let mut bed = bed();
    let flushed = bed.send(&packets).flush();
    assert_eq!(flushed, "__proto__ c 1, constructor ms 1, toString g 1, hasOwnProperty s 1");
}

#[test]
fn names_have_a_limit() {
    let mut bed = Bed::new(5, 1 << 20);
    bed.send(&["a:1|c\nb:1|c\nc:1|c\na:1|c"]).collect();
    assert_eq!((bed.own("metrics_dropped"), bed.own("metrics_received")), (1.0, 4.0));
    assert_eq!(bed.flush(), "a c 2, b c 1");
    bed.delete.counters = true;
    bed.flush();
    assert_eq!(bed.send(&["c:1|c"]).flush(), "c c 1");
}

#[test]
fn bytes_have_a_limit_and_come_back() {
    let mut bed = Bed::new(1000, 20_000);
    for n in 0..1000 {
        bed.send(&[&format!("s:member{n}|s\nt:{n}|ms")]);
    }
    bed.collect();
    assert!(bed.budget.held() <= 20_500, "{}", bed.budget.held());
    assert!(bed.own("metrics_dropped") > 0.0);
    bed.flush();
    assert!(bed.budget.held() < 2_500, "{}", bed.budget.held());
}

#[test]
fn the_lag_is_told_from_the_second_flush_on() {
    let mut bed = bed();
    bed.flush();
    assert!(bed.store.gauges.get(b"own.timestamp_lag").is_none());
    bed.now += 3;
    bed.flush();
    assert_eq!(bed.store.gauges.get(b"own.timestamp_lag").map(|g| g.value), Some(3.0));
}

proptest! {
    #[test]
    fn what_is_held_is_given_back(
        packets in proptest::collection::vec("[a-c]{1,2}:[0-9]{1,2}\\|(c|ms|g|s)", 0..200),
        collects in proptest::collection::vec(any::<bool>(), 200),
    ) {
        let mut bed = bed();
        let before = bed.budget.held();
        for (packet, collect) in packets.iter().zip(collects) {
            bed.send(&[packet]);
            if collect {
                bed.collect();
            }
        }
        bed.collect();
        bed.delete = Delete { counters: true, timers: true, sets: true, gauges: Some(1) };
        for packet in &packets {
            bed.send(&[packet]);
        }
        bed.flush();
        bed.flush();
        let lag = cost(b"own.timestamp_lag");
        let gauges: u64 = bed.store.gauges.iter().map(|(n, _)| cost(n)).sum::<u64>() - lag;
        prop_assert_eq!(bed.budget.held(), before + lag + gauges);
    }
}

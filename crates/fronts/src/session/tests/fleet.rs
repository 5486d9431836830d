// SPDX-License-Identifier: BSD-2-Clause
//! A server of a fleet: nobody is told of a ban or a purge that isn't in the fleet's log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use ::fleet::{
    Applier, Connect, FleetEntry, FleetLink, FleetSettings, Gate, LinkFault, LogBounds, LogServer, NextEntries, Node,
    NodeStatus, OutgoingEntry, Position,
};
use base::lock::Mutex;

use super::*;

/// A log that takes everything, or nothing.
#[derive(Clone, Default)]
struct Log {
    is_away: Arc<AtomicBool>,
    entries: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Log {
    fn look(&self) -> Result<(), LinkFault> {
        if self.is_away.load(Relaxed) { Err(LinkFault::new("away")) } else { Ok(()) }
    }
}

impl Connect for Log {
    fn connect(&self, _server: &LogServer, _until: Instant) -> Result<Box<dyn FleetLink>, LinkFault> {
        self.look().map(|()| Box::new(self.clone()) as _)
    }
}

impl FleetLink for Log {
    fn bounds(&mut self) -> Result<LogBounds, LinkFault> {
        self.look()?;
        Ok(LogBounds { epoch: "e".into(), first: 1, last: self.entries.lock().len() as u64 })
    }

    fn append(&mut self, entries: &[OutgoingEntry<'_>]) -> Result<Vec<Result<u64, LinkFault>>, LinkFault> {
        self.look()?;
        let mut all = self.entries.lock();
        Ok(entries
            .iter()
            .map(|entry| {
                all.push(entry.bytes.to_vec());
                Ok(all.len() as u64)
            })
            .collect())
    }

    fn follow(&mut self, _from: u64) -> Result<(), LinkFault> {
        Ok(())
    }

    fn next(&mut self) -> Result<NextEntries, LinkFault> {
        std::thread::sleep(Duration::from_millis(2));
        self.look().map(|()| NextEntries::Quiet)
    }
}

/// Nothing comes of others here.
struct Nobody(Arc<engine::Engine>, AtomicU64);

impl Applier for Nobody {
    fn apply(&self, _entry: &FleetEntry) -> Result<(), String> {
        Ok(())
    }
    fn apply_all(&self, _why: &str) {}
    fn has_objects(&self) -> bool {
        false
    }
    fn keep(&self, _position: &Position) {}
    fn set_gate(&self, gate: Gate) {
        self.0.cluster.gate.set(gate);
        self.1.fetch_add(1, Relaxed);
    }
    fn tell(&self, _text: &str) {}
    fn show(&self, _status: &NodeStatus) {}
}

fn until(what: impl Fn() -> bool) {
    let end = base::clock::now() + Duration::from_secs(20);
    while !what() {
        assert!(base::clock::now() < end, "it never was so");
        std::thread::sleep(Duration::from_millis(2));
    }
}

const PURGE: &str = "PURGE /1 HTTP/1.1\r\nHost: a\r\n\r\n";
const BAN: &str = "BAN /1 HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn what_is_in_the_log_is_acknowledged_and_nothing_else() {
    let (world, log) = (World::new(&[], false), Log::default());
    let node = Node::new(FleetSettings::parse("nats://x,node=me,patience=2s").unwrap());
    world.engine.cluster.join_fleet(node.clone());
    assert!(world.engine.cluster.gate.is_restricted());
    let applier = Arc::new(Nobody(world.engine.clone(), AtomicU64::new(0)));
    node.start(Arc::new(log.clone()), applier, None).unwrap();
    until(|| node.check().is_ok() && !world.engine.cluster.gate.is_restricted());
    rt::run(async {
        let mut client = world.connect();
        for (request, is_away, status, entries) in [
            (PURGE, false, 200, 1),
            (BAN, false, 200, 2),
            (PURGE, true, 503, 2),
            (BAN, true, 503, 2),
            (PURGE, false, 200, 3),
        ] {
            log.is_away.store(is_away, Relaxed);
            if !is_away {
                until(|| node.check().is_ok());
            }
            client.say(request);
            assert_eq!((client.response().await.0, log.entries.lock().len()), (status, entries), "{request} {is_away}");
            client = world.connect();
        }
    })
    .unwrap();
    let written: Vec<String> =
        log.entries.lock().iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
    assert!(written[0].contains("\"purge\":") && written[0].contains("\"ttl\":0.0"), "{written:?}");
    assert!(written[1].contains(r#""ban":["req.url","==","/1"]"#), "{written:?}");
    node.end();
}

// SPDX-License-Identifier: BSD-2-Clause
//! Rules about the server that keeps a fleet's log: settings by which it loses what it has acknowledged. A server
//! without a fleet has no findings.

use fleet::FleetLogKind;

use crate::facts::DoctorFacts;
use crate::fleet::LogServerFacts;
use crate::rule::{Area, Rule, SOUND, Severity, count, when};

/// The first version that keeps its messages when only its processes die.
const LEAST_NATS: [u64; 3] = [2, 10, 23];

pub const RULES: &[Rule] = &[
    Rule {
        id: "fleet-redis-unsaved",
        area: Area::Server,
        severity: Severity::Fault,
        what: "The Redis server of the fleet's log doesn't write each entry to a file",
        why: "After a crash it has the log of its last snapshot. Nodes append again what they hold, but a node that had missed a purge serves what \
              was purged until then, and a loss of more than nodes hold empties all caches.",
        remedy: &[
            "redis-cli CONFIG SET appendonly yes",
            "redis-cli CONFIG SET appendfsync always",
            "redis-cli CONFIG REWRITE",
        ],
        evidence: "CONFIG GET appendonly: no",
        look: |facts| {
            let Some(log) = redis(facts)? else { return SOUND };
            let saves = log.get("appendonly")?;
            when(saves != "yes", || format!("{}: appendonly is {saves}", log.address))
        },
    },
    Rule {
        id: "fleet-redis-fsync",
        area: Area::Server,
        severity: Severity::Warning,
        what: "The Redis server of the fleet's log acknowledges entries before they are on its disk",
        why: "A power cut loses those of about the last second (everysec), or more (no). Purges that were acknowledged are missing on nodes that hadn't \
              read them, until another node appends them again.",
        remedy: &["redis-cli CONFIG SET appendfsync always", "redis-cli CONFIG REWRITE"],
        evidence: "CONFIG GET appendonly: yes; CONFIG GET appendfsync: not always",
        look: |facts| {
            let Some(log) = redis(facts)? else { return SOUND };
            let sync = log.get("appendfsync")?;
            when(sync != "always" && log.get("appendonly")? == "yes", || {
                format!("{}: appendfsync is {sync}", log.address)
            })
        },
    },
    Rule {
        id: "fleet-redis-eviction",
        area: Area::Server,
        severity: Severity::Warning,
        what: "The Redis server of the fleet's log may evict the log",
        why: "When its memory is used up it removes any key. Nodes then take the log for another one, and empty their caches.",
        remedy: &["redis-cli CONFIG SET maxmemory-policy noeviction", "redis-cli CONFIG REWRITE"],
        evidence: "CONFIG GET maxmemory-policy: allkeys-*",
        look: |facts| {
            let Some(log) = redis(facts)? else { return SOUND };
            let policy = log.get("maxmemory-policy")?;
            when(policy.starts_with("allkeys-"), || {
                let most = log.number("maxmemory").map_or_else(|_| "unknown".to_owned(), count);
                format!("{}: maxmemory-policy is {policy}, maxmemory is {most}", log.address)
            })
        },
    },
    Rule {
        id: "fleet-redis-replicas",
        area: Area::Server,
        severity: Severity::Warning,
        what: "The replicas of the fleet's Redis server and the setting replicas don't fit together",
        why: "With fewer replicas than replicas says no ban or purge is acknowledged. With replicas that nobody waits for, a failover loses entries that \
              were acknowledged.",
        remedy: &[
            "--fleet ...,replicas=1    # each entry is on one replica before it is acknowledged",
            "redis-cli INFO replication",
        ],
        evidence: "INFO replication: connected_slaves less than replicas in --fleet; or 1 or more, without replicas in --fleet and min-replicas-to-write",
        look: |facts| {
            let Some(log) = redis(facts)? else { return SOUND };
            let there = log.number("connected_slaves")?;
            let is_awaited = log.replicas > 0 || there == 0 || log.number("min-replicas-to-write")? > 0;
            when(there < u64::from(log.replicas) || !is_awaited, || {
                format!("{}: {} connected, replicas={}", log.address, count(there), log.replicas)
            })
        },
    },
    Rule {
        id: "fleet-nats-version",
        area: Area::Server,
        severity: Severity::Warning,
        what: "The NATS server of the fleet's log is of a version that loses messages when its process dies",
        why: "2.10.22 and older lost acknowledged messages after kill -9 in Jepsen's tests (jepsen.io/analyses/nats-2.12.1). 2.10.23 fixed that.",
        remedy: &["(install NATS 2.10.23 or newer)"],
        evidence: "the version in the server's greeting: below 2.10.23",
        look: |facts| {
            let Some(log) = nats(facts)? else { return SOUND };
            let text = log.get("version")?;
            let mut parts = text.split(['.', '-']).map_while(|part| part.parse::<u64>().ok());
            let version: [u64; 3] = std::array::from_fn(|_| parts.next().unwrap_or(0));
            when(version < LEAST_NATS, || format!("{}: {text}", log.address))
        },
    },
    Rule {
        id: "fleet-nats-sync",
        area: Area::Server,
        severity: Severity::Warning,
        what: "The NATS server of the fleet's log acknowledges entries before they are on its disk",
        why: "A power cut loses what came since its last write to the disk, by default up to two minutes, also with three replicas that lose their \
              power together.",
        remedy: &["jetstream { sync_interval: always }    # in its configuration, NATS 2.10 or newer"],
        evidence: "/varz of the monitoring port (--nats-monitor): jetstream.config.sync_interval, without sync_always",
        look: |facts| {
            let Some(log) = nats(facts)? else { return SOUND };
            let sync = log.get("sync_interval")?;
            when(sync != "always", || {
                let seconds = sync.parse::<f64>().unwrap_or(0.0) / 1e9;
                format!("{}: sync_interval is {}", log.address, crate::rule::time(seconds))
            })
        },
    },
    Rule {
        id: "fleet-nats-replicas",
        area: Area::Server,
        severity: Severity::Notice,
        what: "A single NATS server keeps the fleet's log",
        why: "If it loses its disk, the log is gone, and all caches are emptied. While it is down no ban or purge is acknowledged.",
        remedy: &[
            "--fleet nats://A,nats://B,nats://C,replicas=3    # for a log that is made anew",
            "nats stream edit LACQUER_NAME --replicas 3",
        ],
        evidence: "$JS.API.STREAM.INFO of the log's stream: num_replicas: 1",
        look: |facts| {
            let Some(log) = nats(facts)? else { return SOUND };
            when(log.number("replicas")? < 2, || format!("{}: 1 replica", log.address))
        },
    },
    Rule {
        id: "fleet-nats-storage",
        area: Area::Server,
        severity: Severity::Fault,
        what: "The fleet's log is only in the memory of the NATS server",
        why: "It is empty after a restart. Nodes take it for another log, and empty their caches.",
        remedy: &["nats stream rm LACQUER_NAME    # the next node makes it anew, in files; all caches are emptied"],
        evidence: "$JS.API.STREAM.INFO of the log's stream: storage isn't file",
        look: |facts| {
            let Some(log) = nats(facts)? else { return SOUND };
            let storage = log.get("storage")?;
            when(storage != "file", || format!("{}: storage is {storage}", log.address))
        },
    },
    Rule {
        id: "fleet-nats-limits",
        area: Area::Server,
        severity: Severity::Warning,
        what: "The NATS server removes entries of the fleet's log by their age, or takes no more when the log is full",
        why: "A node that was away for longer finds entries missing and empties its cache. With discard new, bans and purges fail once the log is full.",
        remedy: &["nats stream edit LACQUER_NAME --max-age 0 --discard old"],
        evidence: "$JS.API.STREAM.INFO of the log's stream: max_age above 0, or discard isn't old",
        look: |facts| {
            let Some(log) = nats(facts)? else { return SOUND };
            let (age, discard) = (log.number("max_age")?, log.get("discard")?);
            when(age > 0 || discard != "old", || {
                format!("{}: max_age is {}, discard is {discard}", log.address, crate::rule::time(age as f64 / 1e9))
            })
        },
    },
];

fn redis(facts: &DoctorFacts) -> Result<Option<&LogServerFacts>, String> {
    log_of(facts, FleetLogKind::Redis)
}

fn nats(facts: &DoctorFacts) -> Result<Option<&LogServerFacts>, String> {
    log_of(facts, FleetLogKind::Nats)
}

fn log_of(facts: &DoctorFacts, kind: FleetLogKind) -> Result<Option<&LogServerFacts>, String> {
    let fleet = facts.fleet.as_ref().map_err(Clone::clone)?;
    Ok(fleet.as_ref().filter(|log| log.kind == kind))
}

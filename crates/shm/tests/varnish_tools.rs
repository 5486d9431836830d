// SPDX-License-Identifier: BSD-2-Clause
//! Debian's unmodified varnishstat and varnishlog read what we write. Skipped with a message where they are missing.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too, fail by a panic")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use base::{Real, Vxid};
use shm::vsc::{CounterMaker, CounterSet};
use shm::vsl::{LogFormat, LogRing, Marker, TxnLog};
use shm::vsm::{Segment, SegmentSet, SetOwner};
use tables::counters::{Lck, Main, Mempool, Mgt, Sma, Smf, Vbe};
use tables::tags::{LogSettings, TagMask};
use tables::{SessClose, Tag};

struct Instance {
    dir: PathBuf,
    manager: SegmentSet,
    worker: SegmentSet,
    _segments: Vec<Segment>,
    mgt: CounterSet<Mgt>,
    main: CounterSet<Main>,
    stats: CounterMaker,
    ring: Arc<LogRing>,
}

impl Instance {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("lacquer-tools-{name}-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let pid = std::process::id();
        let manager = SegmentSet::create(&dir, SetOwner::Manager, pid, None).unwrap();
        let identity = manager.put("Arg", "-i", b"here\0").unwrap();
        let mgt = CounterMaker::new(&manager).add::<Mgt>("MGT").unwrap();
        let worker = SegmentSet::create(&dir, SetOwner::Worker, pid, None).unwrap();
        let stats = CounterMaker::new(&worker);
        let main = stats.add::<Main>("MAIN").unwrap();
        let mut settings =
            LogSettings { space: 1 << 20, mask: TagMask::default(), reclen: 255, buffer: 16 << 10, is_sync: false };
        settings.mask.set(Tag::Debug, true);
        let ring = Arc::new(LogRing::create(&worker, LogFormat::Seven, settings, main.clone()).unwrap());
        Self { dir, manager, worker, _segments: vec![identity], mgt, main, stats, ring }
    }

    fn log(&self, vxid: u64, marker: Marker) -> TxnLog {
        TxnLog::new(Arc::clone(&self.ring), Vxid(vxid), marker)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.manager.close();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Output of the program; `None` when it is not installed.
fn run(program: &str, dir: &Path, args: &[&str]) -> Option<String> {
    let output = match Command::new(program).arg("-n").arg(dir).args(args).output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: {program}: {error}");
            return None;
        }
    };
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {stderr}");
    Some(String::from_utf8(output.stdout).unwrap())
}

fn value(stat: &str, name: &str) -> Option<u64> {
    let line = stat.lines().find(|l| l.split_whitespace().next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn varnishstat_shows_the_counters() {
    let instance = Instance::new("stat");
    instance.mgt.uptime.set(17);
    instance.main.uptime.set(16);
    instance.main.cache_hit.add(5);
    instance.main.n_test_gunzip.add(3);
    instance.main.stalls.inc();
    let store = instance.stats.add::<Sma>("SMA.s0").unwrap();
    store.g_space.set(1 << 20);
    let _file = instance.stats.add::<Smf>("SMF.f").unwrap();
    let _pool = instance.stats.add::<Mempool>("MEMPOOL.req0").unwrap();
    // Two sources of counters in one set don't get in each other's way.
    let _lock = CounterMaker::new(&instance.worker).add::<Lck>("LCK.vbe").unwrap();
    let cluster = instance.stats.cluster::<Vbe>(3).unwrap();
    let names = ["VBE.boot.a", "VBE.boot.b", "VBE.cold.c", "VBE.dynamic.d"];
    let backends: Vec<_> = names.iter().map(|n| instance.stats.add_to::<Vbe>(&cluster, n).unwrap()).collect();
    backends[0].happy.set(u64::MAX);
    backends[1].req.add(9);
    backends[2].set_hidden(true);
    backends[3].conn.set(2);
    let Some(stat) = run("varnishstat", &instance.dir, &["-1"]) else { return };
    assert_eq!(value(&stat, "MGT.uptime"), Some(17), "{stat}");
    assert_eq!(value(&stat, "MAIN.cache_hit"), Some(5));
    assert_eq!(value(&stat, "MAIN.n_test_gunzip"), Some(3));
    assert_eq!(value(&stat, "MAIN.stalls"), Some(1));
    assert_eq!(value(&stat, "SMA.s0.g_space"), Some(1 << 20));
    assert_eq!(value(&stat, "LCK.vbe.creat"), Some(0));
    assert_eq!(value(&stat, "VBE.boot.b.req"), Some(9));
    assert_eq!(value(&stat, "VBE.dynamic.d.conn"), Some(2));
    assert_eq!(value(&stat, "VBE.cold.c.req"), None, "hidden");
    drop(backends);
    let json = run("varnishstat", &instance.dir, &["-j"]).unwrap();
    assert!(json.contains("\"MAIN.shm_records\": {") && !json.contains("VBE."), "{json}");
}

#[test]
fn varnishlog_shows_the_log() {
    let instance = Instance::new("log");
    instance.ring.write_one(Tag::Cli, Vxid::NONE, Marker::None, b"Rd ping");
    instance.ring.write_one(Tag::Begin, Vxid(1000), Marker::Client, b"sess 0 HTTP/1");
    instance.ring.write_one(Tag::Link, Vxid(1000), Marker::Client, b"req 1001 rxreq");
    let mut request = instance.log(1001, Marker::Client);
    request.put(Tag::Begin, b"req 1000 rxreq");
    request.timestamp("Start", Real(1e9));
    request.put(Tag::ReqUrl, b"/page");
    request.put(Tag::Link, b"bereq 1002 fetch");
    let mut fetch = instance.log(1002, Marker::Backend);
    fetch.put(Tag::Begin, b"bereq 1001 fetch");
    fetch.put(Tag::BereqUrl, b"/page");
    fetch.put(Tag::End, b"");
    fetch.flush();
    request.record(Tag::ReqAcct).num(10).sp_num(0).sp_num(10).sp_num(20).sp_num(30).sp_num(50);
    request.put(Tag::End, b"");
    request.flush();
    let close = format_args!("{} {:.3}", SessClose::RemClose, 0.25).to_string();
    instance.ring.write_one(Tag::SessClose, Vxid(1000), Marker::Client, close.as_bytes());
    instance.ring.write_one(Tag::End, Vxid(1000), Marker::Client, b"");

    let Some(raw) = run("varnishlog", &instance.dir, &["-d", "-g", "raw"]) else { return };
    let first: Vec<&str> = raw.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(first, ["0", "CLI", "-", "Rd", "ping"], "{raw}");
    assert_eq!(raw.lines().count(), 14, "{raw}");
    let grouped = run("varnishlog", &instance.dir, &["-d", "-g", "request"]).unwrap();
    for line in
        ["*   << Request  >> 1001", "-   ReqURL         /page", "**  << BeReq    >> 1002", "--  BereqURL       /page"]
    {
        assert!(grouped.contains(line), "{line} in {grouped}");
    }
    assert!(grouped.contains("Timestamp      Start: 1000000000.000000 0.000000 0.000000"), "{grouped}");
    let sessions = run("varnishlog", &instance.dir, &["-d", "-g", "session"]).unwrap();
    assert!(sessions.contains("SessClose      REM_CLOSE 0.250") && !sessions.contains("VSL"), "{sessions}");
}

#[test]
fn varnishlog_reads_a_ring_that_went_round() {
    let instance = Instance::new("round");
    for i in 0..6000u64 {
        let mut log = instance.log(i + 1, Marker::Client);
        log.put(Tag::Begin, b"req 0 rxreq");
        log.putf(Tag::VclLog, format_args!("{i:0200}"));
        log.put(Tag::End, b"");
    }
    assert!(instance.main.shm_cycles.get() > 0);
    let Some(grouped) = run("varnishlog", &instance.dir, &["-d", "-g", "request", "-i", "VCL_Log,VSL"]) else { return };
    let numbers: Vec<u64> = grouped.lines().filter_map(|l| l.split_once("VCL_Log")?.1.trim().parse().ok()).collect();
    assert_eq!(numbers.last(), Some(&5999));
    assert!(numbers.len() > 1000 && numbers.is_sorted_by(|a, b| a + 1 == *b), "{} records", numbers.len());
    assert!(!grouped.contains("VSL "), "no complaints: {grouped}");
}

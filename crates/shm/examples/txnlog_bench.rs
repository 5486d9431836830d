// SPDX-License-Identifier: BSD-2-Clause
//! Cost of a log record in each of the formats that the server writes: the records of a cache hit, batched, in ns per record. Run it with
//! `--release`.

#![allow(clippy::disallowed_methods, reason = "measures the machine")]

use std::sync::Arc;
use std::time::Instant;

use base::{Real, Vxid};
use shm::vsc::CounterSet;
use shm::vsl::{LogFormat, LogRing, Marker, TxnLog};
use shm::vsm::{SegmentSet, SetOwner};
use tables::Tag;
use tables::counters::Main;
use tables::tags::{LogSettings, TagMask};

const ROUNDS: u64 = 300_000;

fn main() {
    [LogFormat::Seven, LogFormat::Nine].into_iter().for_each(measure);
}

fn measure(format: LogFormat) {
    let dir = std::env::temp_dir().join(format!("lacquer-bench-{}", std::process::id()));
    std::fs::create_dir(&dir).expect("a fresh directory");
    let set = SegmentSet::create(&dir, SetOwner::Worker, std::process::id(), None).expect("a segment set");
    let main = CounterSet::<Main>::private();
    let settings =
        LogSettings { space: 80 << 20, mask: TagMask::default(), reclen: 255, buffer: 16 << 10, is_sync: false };
    let ring = Arc::new(LogRing::create(&set, format, settings, main.clone()).expect("a ring"));
    let mut log = TxnLog::new(ring, Vxid(1), Marker::Client);
    (0..ROUNDS / 10).for_each(|i| hit(&mut log, i));
    let (begin, records) = (Instant::now(), main.shm_records.get());
    (0..ROUNDS).for_each(|i| hit(&mut log, i));
    let ns = begin.elapsed().as_nanos() as f64;
    let records = (main.shm_records.get() - records) as f64;
    println!(
        "{format:?}: {:.1} ns a record, {:.0} ns a hit of {:.0} records",
        ns / records,
        ns / ROUNDS as f64,
        records / ROUNDS as f64
    );
    drop(log);
    let _ = std::fs::remove_dir_all(&dir);
}

fn hit(log: &mut TxnLog, i: u64) {
    let now = Real(1.7e9 + i as f64 * 1e-5);
    log.reset(Vxid(i + 1), Marker::Client);
    log.put(Tag::Begin, b"req 1000 rxreq");
    log.timestamp("Start", now);
    log.timestamp("Req", now);
    log.put(Tag::VclUse, b"boot");
    log.put(Tag::ReqStart, b"127.0.0.1 54321 a0");
    log.put(Tag::ReqMethod, b"GET");
    log.put(Tag::ReqUrl, b"/some/path/to/an/object.html");
    log.put(Tag::ReqProtocol, b"HTTP/1.1");
    log.put2(Tag::ReqHeader, b"Host: ", b"www.example.com");
    log.put(Tag::ReqHeader, b"User-Agent: Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/115.0");
    log.put(Tag::ReqHeader, b"Accept: text/html,application/xhtml+xml");
    log.put(Tag::ReqHeader, b"X-Forwarded-For: 127.0.0.1");
    log.put(Tag::VclCall, b"RECV");
    log.put(Tag::VclReturn, b"hash");
    log.put(Tag::VclCall, b"HASH");
    log.put(Tag::VclReturn, b"lookup");
    log.record(Tag::Hit).num(3).text(" ").fixed6(119.5).text(" ").fixed6(10.0).text(" ").fixed6(0.0);
    log.put(Tag::VclCall, b"HIT");
    log.put(Tag::VclReturn, b"deliver");
    log.put(Tag::RespProtocol, b"HTTP/1.1");
    log.put(Tag::RespStatus, b"200");
    log.put(Tag::RespReason, b"OK");
    for header in
        [&b"Content-Type: text/html"[..], b"Content-Length: 1024", b"X-Varnish: 32770 3", b"Age: 1", b"Via: 1.1 v"]
    {
        log.put(Tag::RespHeader, header);
    }
    log.put(Tag::VclCall, b"DELIVER");
    log.put(Tag::VclReturn, b"deliver");
    log.timestamp("Process", now.plus(0.000_01));
    log.put(Tag::Filters, b"");
    log.timestamp("Resp", now.plus(0.000_02));
    log.record(Tag::ReqAcct).num(178).sp_num(0).sp_num(178).sp_num(250).sp_num(1024).sp_num(1274);
    log.put(Tag::End, b"");
}

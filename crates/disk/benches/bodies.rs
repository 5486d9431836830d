// SPDX-License-Identifier: BSD-2-Clause
//! What a body from a disk costs: record and body of objects that are found at random, read to their end.
//!
//! `cargo bench -p disk --bench bodies -- [DIRECTORY [MEGABYTES [SECONDS]]]` makes a store there (a real disk, please; 512 MB)
//! and reads it past the page cache, so many seconds (2) for each line: bodies of 4 KB, 64 KB and 1 MB, by so many readers at a
//! time. CPU is that of the whole process, the kernel's part for it included.

#![allow(clippy::disallowed_methods, reason = "measures the machine")]

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use base::Real;
use disk::format::object::ObjectTexts;
use disk::{Device, DeviceOptions, Disk, DiskStoreOptions, FileDevice};
use nix::time::{ClockId, clock_gettime};
use storage::{HeadLengths, ObjectTimes, Record, StoredBody};
use sys::blockfile::Direct;
use sys::pages::PagePool;
use testkit::block_on;

const NOW: u32 = 1_700_000_000;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let dir = args.first().map_or_else(std::env::temp_dir, PathBuf::from);
    let number = |at: usize, default: u64| args.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let path = dir.join(format!("lacquer-bench-{}", std::process::id()));
    for body_bytes in [4 << 10, 64 << 10, 1 << 20] {
        Bench::new(&path, number(1, 512) << 20, body_bytes).run(Duration::from_secs(number(2, 2)));
        let _ = std::fs::remove_file(&path);
    }
}

struct Bench {
    disk: Disk,
    bodies: u64,
    body_bytes: usize,
}

impl Bench {
    fn new(path: &Path, bytes: u64, body_bytes: usize) -> Bench {
        let pool = PagePool::new(64 << 20).expect("memory");
        let options = DeviceOptions {
            bytes: Some(bytes),
            direct: Direct::Always,
            pool: Some(pool.clone()),
            ..DeviceOptions::default()
        };
        let device = FileDevice::open(path, &options).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let device: Arc<dyn Device> = Arc::new(device);
        let options = DiskStoreOptions { pool: Some(pool), ..DiskStoreOptions::new(NOW, 1) };
        let (disk, driver) = Disk::open(device, options);
        thread::spawn(move || block_on(driver));
        let bench = Bench { disk, bodies: bytes / 2 / body_bytes.max(8 << 10) as u64, body_bytes };
        bench.fill();
        bench
    }

    fn fill(&self) {
        let body: Vec<u8> = (0..self.body_bytes).map(|at| (at * 7 / 5) as u8).collect();
        let texts = ObjectTexts { head: &[b'h'; 300], tags: b"" };
        for number in 0..self.bodies {
            while !self.put(number, &body, &texts) {
                self.disk.tick(NOW);
                thread::sleep(Duration::from_millis(2));
            }
        }
        block_on(self.disk.sync()).expect("the disk writes");
    }

    fn put(&self, number: u64, body: &[u8], texts: &ObjectTexts<'_>) -> bool {
        let times = ObjectTimes { t_origin: Real(f64::from(NOW)), ttl: 1e6, grace: 0.0, keep: 0.0 };
        let lengths = HeadLengths { head: texts.head.len() as u32, ..HeadLengths::default() };
        let digest = digest(number);
        let record = Record { digest, xid: 1, ban_seq: 1, times, lengths, ..Record::default() };
        let mut put = self.disk.put(&digest);
        put.push(body).is_ok() && put.finish(&record, texts).is_ok()
    }

    fn run(&self, time: Duration) {
        for depth in [1, 16, 64] {
            let (begin, cpu) = (Instant::now(), cpu());
            let mut seed = 0;
            let until = begin + time;
            let mut next = || {
                seed = u64::wrapping_mul(seed, 6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (Instant::now() < until).then(|| self.read((seed >> 33) % self.bodies))
            };
            let mut all = All { reads: (0..depth).filter_map(|_| next()).map(Box::pin).map(Some).collect(), done: 0 };
            block_on(std::future::poll_fn(|cx| all.poll(cx, &mut next)));
            let (took, cpu) = (begin.elapsed().as_secs_f64(), (self::cpu() - cpu).as_secs_f64());
            println!(
                "{:>5} KB, {depth:>2} at a time: {:>7.0} bodies/s {:>6.0} MB/s {:>8.1} us CPU a body",
                self.body_bytes >> 10,
                f64::from(all.done) / took,
                f64::from(all.done) * self.body_bytes as f64 / took / 1e6,
                cpu * 1e6 / f64::from(all.done),
            );
        }
    }

    fn read(&self, number: u64) -> impl Future<Output = ()> + use<> {
        let (disk, digest) = (self.disk.clone(), digest(number));
        async move {
            let candidate = *disk.find(&digest).first().expect("it is there");
            let loaded = disk.load(candidate, &digest).await.expect("it is loaded");
            let (mut reader, mut at) = (None, 0);
            while at < loaded.body.len() {
                let bytes = std::future::poll_fn(|cx| loaded.body.poll_at(cx, &mut reader, at..u64::MAX)).await;
                at += bytes.expect("it is read").len() as u64;
            }
        }
    }
}

/// Reads at the same time, one after the other in each place.
struct All<F> {
    reads: Vec<Option<Pin<Box<F>>>>,
    done: u32,
}

impl<F: Future<Output = ()>> All<F> {
    fn poll(&mut self, cx: &mut Context<'_>, next: &mut dyn FnMut() -> Option<F>) -> Poll<()> {
        for place in &mut self.reads {
            while let Some(read) = place
                && read.as_mut().poll(cx).is_ready()
            {
                self.done += 1;
                *place = next().map(Box::pin);
            }
        }
        if self.reads.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn digest(number: u64) -> [u8; 32] {
    let mut digest = [0; 32];
    for (at, word) in digest.chunks_exact_mut(8).enumerate() {
        let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(at as u32 * 16 + 7);
        word.copy_from_slice(&mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9).to_le_bytes());
    }
    digest
}

fn cpu() -> Duration {
    Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("the system has that clock"))
}

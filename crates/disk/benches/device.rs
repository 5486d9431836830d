// SPDX-License-Identifier: BSD-2-Clause
//! What a read from a device costs: a ring, threads, and plain pread(2) by one thread, past the page cache and from it.
//!
//! `cargo bench -p disk --bench device -- [DIRECTORY [MEGABYTES [SECONDS]]]` makes a file there (a real disk, please; 1024 MB)
//! and reads it at random, so many seconds (2) for each line. A thread begins the reads and hears of their ends, as a serving
//! thread would; CPU is that of the whole process, the kernel's part for it included. Ratios are to the ring.

#![allow(clippy::disallowed_methods, reason = "measures the machine")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use disk::{Device, DeviceEngine, DeviceOp, DeviceOptions, FileDevice, Patience, perform};
use nix::time::{ClockId, clock_gettime};
use sys::blockfile::{BlockFile, BlockOptions, Direct, FileAccess};
use sys::pages::{BLOCK, PagePool, Pages};

const CHUNK: usize = 1 << 20;

struct Bench {
    path: PathBuf,
    bytes: u64,
    time: Duration,
}

#[derive(Clone, Copy)]
struct Figure {
    reads_per_second: f64,
    cpu_micros: f64,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let dir = args.first().map_or_else(std::env::temp_dir, PathBuf::from);
    let number = |at: usize, default: u64| args.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let path = dir.join(format!("lacquer-bench-{}", std::process::id()));
    let bench = Bench { path, bytes: number(1, 1024) << 20, time: Duration::from_secs(number(2, 2)) };
    bench.fill();
    for direct in [Direct::Always, Direct::Never] {
        for len in [BLOCK, 8 * BLOCK, 16 * BLOCK] {
            for depth in [1, 16, 64] {
                bench.compare(direct, len, depth);
            }
        }
    }
    let _ = std::fs::remove_file(&bench.path);
}

impl Bench {
    /// Every block has bytes of its own, so that nothing on the way can do it cheaper.
    fn fill(&self) {
        let options = DeviceOptions { bytes: Some(self.bytes), ..DeviceOptions::default() };
        let device =
            FileDevice::open(&self.path, &options).unwrap_or_else(|error| panic!("{}: {error}", self.path.display()));
        device.notes().iter().for_each(|note| println!("{note}"));
        let (begin, cpu) = (Instant::now(), cpu());
        let mut dice = Dice(1);
        for at in (0..self.bytes).step_by(CHUNK) {
            let mut pages = Pages::zeroed(CHUNK);
            pages.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&dice.roll().to_le_bytes()));
            perform(&device, DeviceOp::Write { at, from: Arc::new(pages) }).expect("the disk writes");
        }
        perform(&device, DeviceOp::Sync).expect("the disk syncs");
        let (took, cpu) = (begin.elapsed().as_secs_f64(), self::cpu() - cpu);
        let megabytes = self.bytes as f64 / 1e6;
        println!(
            "{} by {}: {:.0} MB/s, {:.2} s of CPU",
            self.path.display(),
            device.engine(),
            megabytes / took,
            cpu.as_secs_f64()
        );
    }

    fn compare(&self, direct: Direct, len: usize, depth: usize) {
        let pool = PagePool::new(8 << 20).expect("memory");
        let ring = self.device(direct, DeviceEngine::IfPossible, None, len, depth);
        let lines = [
            ("ring", ring),
            ("ring, registered", self.device(direct, DeviceEngine::IfPossible, Some(pool), len, depth)),
            ("threads", self.device(direct, DeviceEngine::Threads, None, len, depth)),
            ("pread", self.plain(direct, len)),
        ];
        let way = if direct == Direct::Always { "direct" } else { "cached" };
        for (name, figure) in lines {
            println!(
                "{way} {:>3} KB, {depth:>2} at a time, {name:<17} {:>8.0} reads/s {:>6.1} us CPU  x{:.2} reads, x{:.2} CPU",
                len / 1024,
                figure.reads_per_second,
                figure.cpu_micros,
                figure.reads_per_second / ring.reads_per_second,
                figure.cpu_micros / ring.cpu_micros,
            );
        }
    }

    fn device(
        &self,
        direct: Direct,
        engine: DeviceEngine,
        pool: Option<Arc<PagePool>>,
        len: usize,
        depth: usize,
    ) -> Figure {
        let patience = Patience { read: Duration::from_secs(60), write: Duration::from_secs(60) };
        let options = DeviceOptions { direct, engine, pool: pool.clone(), patience, ..DeviceOptions::default() };
        let device = FileDevice::open(&self.path, &options).expect("the file is there");
        let mut dice = Dice(7);
        let take = || pool.as_ref().map_or_else(|| Pages::zeroed(len), |pool| pool.take(len));
        let mut spare: Vec<Pages> = (0..depth).map(|_| take()).collect();
        let (said, hears) = channel();
        let mut start = |into: Pages| {
            let (said, at) = (said.clone(), self.place(&mut dice, len));
            device.start(DeviceOp::Read { at, into }, Box::new(move |result| drop(said.send(result))));
        };
        self.measure(|until| {
            let mut count = 0;
            spare.drain(..).for_each(&mut start);
            for result in &hears {
                count += 1;
                let pages = result.expect("the disk reads");
                match Instant::now() < until {
                    true => start(pages),
                    false => spare.push(pages),
                }
                if spare.len() == depth {
                    break;
                }
            }
            count
        })
    }

    fn plain(&self, direct: Direct, len: usize) -> Figure {
        let options = BlockOptions { direct, access: FileAccess::Read, ..BlockOptions::default() };
        let file = BlockFile::open(&self.path, &options).expect("the file is there");
        let (mut dice, mut pages) = (Dice(7), Pages::zeroed(len));
        self.measure(|until| {
            let mut count = 0;
            while Instant::now() < until {
                file.read(self.place(&mut dice, len), &mut pages).expect("the disk reads");
                count += 1;
            }
            count
        })
    }

    /// Reads for a fifth of the time before it counts.
    fn measure(&self, mut reads: impl FnMut(Instant) -> u64) -> Figure {
        reads(Instant::now() + self.time / 5);
        let (begin, before) = (Instant::now(), cpu());
        let count = reads(begin + self.time) as f64;
        let (took, cpu) = (begin.elapsed().as_secs_f64(), cpu() - before);
        Figure { reads_per_second: count / took, cpu_micros: cpu.as_secs_f64() * 1e6 / count }
    }

    fn place(&self, dice: &mut Dice, len: usize) -> u64 {
        dice.roll() % (self.bytes / len as u64) * len as u64
    }
}

fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("every process has this clock").into()
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

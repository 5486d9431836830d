// SPDX-License-Identifier: BSD-2-Clause
//! What a store of many objects costs: filling it, starting with it, finding and loading from it, with and without writes
//! beside that.
//!
//! `cargo bench -p disk --bench store -- DIRECTORY [OBJECTS [REAL [SECONDS]]]` makes a file there (a real disk, please) with so
//! many objects (2,000,000), of which so many (a tenth) have a body of 4000 bytes and the rest a short head alone, 256
//! bytes with everything: for the count. Each step is a process of its own. CPU is that of the whole process, the kernel's
//! part for it included; a line of loads lasts so many seconds (3).

#![allow(clippy::disallowed_methods, reason = "measures the machine")]

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use base::Real;
use disk::format::object::ObjectTexts;
use disk::{DeviceOptions, Disk, DiskStoreOptions, FileDevice, Lost, Patience, Refused, Stage};
use nix::time::{ClockId, clock_gettime};
use storage::{HeadLengths, ObjectTimes, Record};
use sys::pages::PagePool;
use testkit::block_on;

#[global_allocator]
static ALLOCATOR: sys::alloc::Mimalloc = sys::alloc::Mimalloc;

const NOW: u32 = 1_800_000_000;
const BODY: usize = 4000;
/// Bytes of a record with a body, and of one without, all told: what the file needs.
const REAL_BYTES: u64 = 4480;
const SHORT_BYTES: u64 = 256;

#[derive(Clone)]
struct Bench {
    path: PathBuf,
    objects: u64,
    real: u64,
    time: Duration,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let Some(dir) = args.first().map(PathBuf::from) else { return println!("store: which directory?") };
    let number = |at: usize, default: u64| args.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let objects = number(1, 2_000_000);
    let time = Duration::from_secs(number(3, 3));
    let bench = Bench { path: dir.join("lacquer-bench-store"), objects, real: number(2, objects / 10), time };
    match args.get(4).map(String::as_str) {
        Some("fill") => bench.fill(),
        Some("start") => bench.start(),
        Some("loads") => bench.loads(),
        _ => {
            for step in ["fill", "start", "loads"] {
                bench.step(&dir, step);
            }
            let _ = std::fs::remove_file(&bench.path);
        }
    }
}

impl Bench {
    /// A step in a process of its own, whose memory is only its own.
    fn step(&self, dir: &Path, step: &str) {
        let own = std::env::current_exe().expect("this program is a file");
        let numbers = [self.objects, self.real, self.time.as_secs()].map(|number| number.to_string());
        let status = Command::new(own).arg(dir).args(numbers).arg(step).status().expect("it can be started");
        assert!(status.success(), "{step} failed");
    }

    /// More than the objects take, with the tables of segments and room for what is put beside loads.
    fn bytes(&self) -> u64 {
        let all = self.real * REAL_BYTES + (self.objects - self.real) * SHORT_BYTES;
        (all + self.objects * 48 + (128 << 20)).next_multiple_of(4096)
    }

    fn is_real(&self, number: u64) -> bool {
        number * self.real / self.objects != (number + 1) * self.real / self.objects
    }

    fn open(&self) -> (Disk, Running) {
        let pool = PagePool::new(16 << 20).expect("memory");
        let patience = Patience { read: Duration::from_secs(60), write: Duration::from_secs(60) };
        let device =
            DeviceOptions { bytes: Some(self.bytes()), pool: Some(pool.clone()), patience, ..Default::default() };
        let device = FileDevice::open(&self.path, &device).unwrap_or_else(|error| panic!("{error}"));
        let options =
            DiskStoreOptions { pool: Some(pool), ..DiskStoreOptions::new(NOW, u64::from(std::process::id())) };
        let (disk, driver) = Disk::open(Arc::new(device), options);
        let is_over = Arc::new(AtomicBool::new(false));
        let ticker = {
            let (disk, is_over) = (disk.clone(), is_over.clone());
            move || {
                while !is_over.load(Relaxed) {
                    disk.tick(NOW);
                    thread::sleep(Duration::from_millis(200));
                }
            }
        };
        let threads = vec![thread::spawn(ticker), thread::spawn(move || block_on(driver))];
        (disk, Running { is_over, threads })
    }

    fn fill(&self) {
        let _ = std::fs::remove_file(&self.path);
        let (disk, running) = self.open();
        block_on(disk.opened()).unwrap_or_else(|error| panic!("{error}"));
        let (begin, cpu, mut waited) = (Instant::now(), cpu(), 0_u64);
        for number in 0..self.objects {
            while let Err(why) = self.put(&disk, number, self.is_real(number)) {
                assert!(matches!(why, Refused::Slow | Refused::NoSegment | Refused::NotOpen), "{why:?}");
                waited += 1;
                thread::sleep(Duration::from_millis(1));
            }
        }
        block_on(disk.sync()).expect("it syncs");
        let (took, cpu, usage) = (begin.elapsed().as_secs_f64(), cpu.elapsed(), disk.usage());
        println!(
            "fill: {} objects, {:.2} GB in {took:.1} s, {:.0} MB/s, {:.2} us CPU a put, {waited} waits; index {:.2} bytes an object",
            usage.objects,
            disk.counts().bytes_written as f64 / 1e9,
            disk.counts().bytes_written as f64 / 1e6 / took,
            cpu.as_secs_f64() * 1e6 / self.objects as f64,
            usage.index_bytes as f64 / usage.objects as f64,
        );
        let begin = Instant::now();
        block_on(disk.close());
        running.end();
        println!("close: {:.3} s", begin.elapsed().as_secs_f64());
    }

    fn put(&self, disk: &Disk, number: u64, is_real: bool) -> Result<(), Refused> {
        let (digest, head) = (digest(number), head(number, is_real));
        let mut put = disk.put(&digest);
        if is_real {
            put.push(&body(number))?;
        }
        put.finish(&record(digest, &head), &ObjectTexts { head: &head, tags: b"" }).map(drop)
    }

    /// Time until it serves, and until all of it is found; latency of requests meanwhile.
    fn start(&self) {
        let (before, begin, cpu) = (resident(), Instant::now(), cpu());
        let (disk, running) = self.open();
        block_on(disk.opened()).unwrap_or_else(|error| panic!("{error}"));
        let opened = begin.elapsed();
        let (mut dice, mut times, mut first, mut misses) = (Dice(3), Vec::new(), None, 0_u64);
        while disk.progress().stage == Stage::Recovering {
            let number = dice.below(self.objects);
            let asked = Instant::now();
            match block_on(load(&disk, number)) {
                Ok(()) => {
                    first.get_or_insert(begin.elapsed());
                    times.push(asked.elapsed());
                }
                Err(_) => misses += 1,
            }
            thread::sleep(Duration::from_micros(500));
        }
        let (took, cpu, usage) = (begin.elapsed().as_secs_f64(), cpu.elapsed().as_secs_f64(), disk.usage());
        assert_eq!(usage.objects, self.objects, "all of them");
        println!(
            "start: opened after {:.3} s, first hit of a random object after {:.3} s, all after {took:.2} s with {cpu:.2} s CPU, {:.0} ns an object",
            opened.as_secs_f64(),
            first.unwrap_or(begin.elapsed()).as_secs_f64(),
            cpu * 1e9 / self.objects as f64,
        );
        let grown = resident().saturating_sub(before);
        println!(
            "       index {:.2} bytes an object as counted; the process has grown by {:.2} an object; while it was being loaded {} hits, {misses} misses, {}",
            usage.index_bytes as f64 / usage.objects as f64,
            grown as f64 / usage.objects as f64,
            times.len(),
            percentiles(&mut times),
        );
        block_on(disk.close());
        running.end();
    }

    fn loads(&self) {
        let (disk, running) = self.open();
        while disk.progress().stage != Stage::Ready {
            thread::sleep(Duration::from_millis(10));
        }
        self.finds(&disk);
        for writes in [0, 20_000] {
            for depth in [1, 16, 64] {
                self.line(&disk, depth, writes);
            }
        }
        block_on(disk.close());
        running.end();
    }

    fn finds(&self, disk: &Disk) {
        let mut dice = Dice(11);
        let (begin, mut found) = (cpu(), 0);
        const COUNT: u64 = 1_000_000;
        for _ in 0..COUNT {
            found += disk.find(&digest(dice.below(2 * self.objects))).len() as u64;
        }
        println!(
            "find: {:.0} ns, {:.3} found",
            begin.elapsed().as_secs_f64() * 1e9 / COUNT as f64,
            found as f64 / COUNT as f64
        );
    }

    /// Loads of random objects with a body, `depth` at a time, while so many are put a second.
    fn line(&self, disk: &Disk, depth: usize, writes: u64) {
        let is_over = Arc::new(AtomicBool::new(false));
        let cost = Arc::new(AtomicU64::new(0));
        let writer = (writes > 0).then(|| {
            let (bench, disk, is_over, cost) = (self.clone(), disk.clone(), is_over.clone(), cost.clone());
            thread::spawn(move || bench.write(&disk, writes, &is_over, &cost))
        });
        let (begin, cpu) = (Instant::now(), cpu());
        let mut times = self.load_for(disk, depth, begin + self.time);
        let (took, cpu) = (begin.elapsed().as_secs_f64(), cpu.elapsed());
        is_over.store(true, Relaxed);
        let written = writer.map(|writer| writer.join().expect("the writer ends"));
        let count = times.len() as f64;
        let cpu = cpu.saturating_sub(Duration::from_nanos(cost.load(Relaxed)));
        print!(
            "loads: {depth:>2} at a time: {:>6.0}/s, {:>5.1} us CPU, {}",
            count / took,
            cpu.as_secs_f64() * 1e6 / count,
            percentiles(&mut times)
        );
        match written {
            Some((count, refused, mut times)) => println!(
                "; beside {:.0} puts/s ({refused} refused), a put {}",
                count as f64 / took,
                percentiles(&mut times)
            ),
            None => println!(),
        }
    }

    fn load_for(&self, disk: &Disk, depth: usize, until: Instant) -> Vec<Duration> {
        let (dice, times) = (RefCell::new(Dice(5)), RefCell::new(Vec::new()));
        let one = || async {
            while Instant::now() < until {
                let mut number = dice.borrow_mut().below(self.objects);
                while !self.is_real(number) {
                    number = (number + 1) % self.objects;
                }
                let asked = Instant::now();
                match load(disk, number).await {
                    Ok(()) => times.borrow_mut().push(asked.elapsed()),
                    // What is put makes room for itself by taking the oldest.
                    Err(lost) => assert!(matches!(lost, Lost::Gone | Lost::OtherDigest), "{lost:?}"),
                }
            }
        };
        block_on_all((0..depth).map(|_| Box::pin(one()) as Pin<Box<dyn Future<Output = ()> + '_>>).collect());
        times.into_inner()
    }

    /// Puts so many objects a second, each of a new name: how many, how many were refused, how long each took.
    fn write(&self, disk: &Disk, a_second: u64, is_over: &AtomicBool, cost: &AtomicU64) -> (u64, u64, Vec<Duration>) {
        let (begin, mut count, mut refused, mut times) = (Instant::now(), 0, 0, Vec::new());
        while !is_over.load(Relaxed) {
            let due = (begin.elapsed().as_secs_f64() * a_second as f64) as u64;
            while count < due {
                count += 1;
                let asked = Instant::now();
                refused += u64::from(self.put(disk, self.objects + count, true).is_err());
                times.push(asked.elapsed());
            }
            thread::sleep(Duration::from_millis(1));
        }
        // What the writer's thread ran isn't the loads'.
        let ran: Duration =
            clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every thread has this clock").into();
        cost.store(ran.as_nanos() as u64, Relaxed);
        (count, refused, times)
    }
}

struct Running {
    is_over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Running {
    fn end(self) {
        self.is_over.store(true, Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("it ends well"));
    }
}

async fn load(disk: &Disk, number: u64) -> Result<(), Lost> {
    let digest = digest(number);
    let mut lost = Lost::Gone;
    for candidate in disk.find(&digest) {
        match disk.load(candidate, &digest).await {
            Ok(loaded) => {
                assert_eq!(loaded.head[..8], number.to_le_bytes(), "another's head");
                if let Some(bytes) = loaded.body.inline() {
                    assert_eq!(bytes[..8], number.to_le_bytes(), "another's body");
                }
                return Ok(());
            }
            Err(why) => lost = why,
        }
    }
    Err(lost)
}

fn digest(number: u64) -> [u8; 32] {
    let mut dice = Dice(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    dice.roll();
    let mut digest = [0; 32];
    digest.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&dice.roll().to_le_bytes()));
    digest
}

fn head(number: u64, is_real: bool) -> Vec<u8> {
    let mut head = vec![b'h'; if is_real { 240 } else { 56 }];
    head[..8].copy_from_slice(&number.to_le_bytes());
    head
}

fn body(number: u64) -> [u8; BODY] {
    let mut body = [b'b'; BODY];
    body[..8].copy_from_slice(&number.to_le_bytes());
    body
}

fn record(digest: [u8; 32], head: &[u8]) -> Record<Real> {
    let times = ObjectTimes { t_origin: Real(f64::from(NOW)), ttl: 86_400.0, grace: 10.0, keep: 0.0 };
    let lengths = HeadLengths { head: head.len() as u32, ..HeadLengths::default() };
    Record { digest, xid: 1, ban_seq: 1, times, lengths, ..Record::default() }
}

fn percentiles(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).map_or(0.0, |time| time.as_secs_f64() * 1e6);
    format!("p50 {:.0} us, p99 {:.0}, p99.9 {:.0}", at(0.5), at(0.99), at(0.999))
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) << 10
}

struct Cpu(Duration);

fn cpu() -> Cpu {
    Cpu(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("every process has this clock").into())
}

impl Cpu {
    fn elapsed(&self) -> Duration {
        cpu().0 - self.0
    }
}

struct Woken {
    tasks: Mutex<Vec<usize>>,
    thread: Thread,
}

struct TaskWaker(Arc<Woken>, usize);

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let is_first = {
            let mut tasks = self.0.tasks.lock().expect("nobody panics under it");
            tasks.push(self.1);
            tasks.len() == 1
        };
        if is_first {
            self.0.thread.unpark();
        }
    }
}

fn block_on_all(tasks: Vec<Pin<Box<dyn Future<Output = ()> + '_>>>) {
    let woken = Arc::new(Woken { tasks: Mutex::new((0..tasks.len()).collect()), thread: thread::current() });
    let wakers: Vec<Waker> =
        (0..tasks.len()).map(|task| Waker::from(Arc::new(TaskWaker(woken.clone(), task)))).collect();
    let mut tasks: Vec<Option<_>> = tasks.into_iter().map(Some).collect();
    while tasks.iter().any(Option::is_some) {
        let due = std::mem::take(&mut *woken.tasks.lock().expect("nobody panics under it"));
        if due.is_empty() {
            thread::park();
        }
        for task in due {
            let Some(own) = &mut tasks[task] else { continue };
            if own.as_mut().poll(&mut Context::from_waker(&wakers[task])).is_ready() {
                tasks[task] = None;
            }
        }
    }
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: u64) -> u64 {
        (self.roll() >> 11) % most
    }
}

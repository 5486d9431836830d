// SPDX-License-Identifier: BSD-2-Clause
//! A store on a simulated device, and what a model knows of its objects: which bytes each version has, and which are
//! never to be seen again.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use base::Real;
use storage::{HeadLengths, ObjectTimes, Record, StoredBody};

use crate::body::DiskBody;
use crate::dice::DiskDice;
use crate::disk::{Disk, Stage};
use crate::format::object::ObjectTexts;
use crate::load::{Lost, RecordCandidate};
use crate::options::{DiskStoreOptions, Others};
use crate::put::Refused;
use crate::task::Driver;
use crate::tests::simulated::Simulated;

pub const NOW: u32 = 1_000_000;
pub const SEGMENT: u64 = 192 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VersionLife {
    Live,
    /// Removed by its name: it isn't found in this life of the process.
    Removed,
    Dead,
}

#[derive(Clone, Copy, Debug)]
pub struct ObjectVersion {
    pub len: usize,
    pub life: VersionLife,
}

pub struct Bed {
    pub dice: DiskDice,
    pub device: Arc<Simulated>,
    pub disk: Disk,
    pub driver: Option<Driver>,
    pub model: BTreeMap<u8, Vec<ObjectVersion>>,
    pub seq: u64,
    /// Invalidations that were acknowledged, as far as the store still needs them.
    pub journal: Vec<(u8, u64)>,
    pub served: u64,
    /// The image comes from a hostile hand: what is in an object isn't looked at.
    pub is_hostile: bool,
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

pub fn digest_of(name: u8) -> [u8; 32] {
    let mut digest = [name; 32];
    digest[1] = name.wrapping_mul(31);
    digest
}

pub fn bytes_of(name: u8, version: usize, len: usize) -> Vec<u8> {
    let mut dice = DiskDice::new(u64::from(name) << 32 | version as u64);
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| dice.word().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

pub fn head_of(name: u8, version: usize) -> Vec<u8> {
    [&[name][..], &(version as u64).to_le_bytes(), &vec![name; version % 700]].concat()
}

pub fn record_of(name: u8, ban_seq: u64, head: &[u8]) -> Record<Real> {
    let times = ObjectTimes { t_origin: Real(f64::from(NOW)), ttl: 1000.0, grace: 0.0, keep: 0.0 };
    let lengths = HeadLengths { head: head.len() as u32, ..HeadLengths::default() };
    Record { digest: digest_of(name), xid: 1, ban_seq, times, lengths, ..Record::default() }
}

impl Bed {
    pub fn new(seed: u64, segments: u64) -> Bed {
        let dice = DiskDice::new(seed);
        let image = vec![0; (crate::format::FIRST_SEGMENT + segments * SEGMENT) as usize];
        Bed::on(image, dice)
    }

    pub fn on(image: Vec<u8>, mut dice: DiskDice) -> Bed {
        let device = Simulated::new(image);
        let (disk, driver) = start(&device, &mut dice, Others::Nobody);
        Bed {
            dice,
            device,
            disk,
            driver: Some(driver),
            model: BTreeMap::new(),
            seq: 1,
            journal: Vec::new(),
            served: 0,
            is_hostile: false,
        }
    }

    /// Another process with the same device and the same journal.
    pub fn beside(&mut self, others: Others) -> Bed {
        let mut dice = DiskDice::new(self.dice.word());
        let device = self.device.clone();
        let (disk, driver) = start(&device, &mut dice, others);
        self.journal.iter().for_each(|(name, seq)| _ = disk.remove_all(&digest_of(*name), *seq));
        let (model, journal) = (self.model.clone(), self.journal.clone());
        let driver = Some(driver);
        Bed { dice, device, disk, driver, model, seq: self.seq, journal, served: 0, is_hostile: false }
    }

    /// The process dies, and what it has asked of the device is done some time later. Another one begins meanwhile, and
    /// writes only once that is so.
    pub fn die(&mut self) {
        self.driver = None;
        self.device.orphan();
        let served = self.served;
        *self = self.beside(Others::Ended);
        self.served = served;
        self.forget_removed();
    }

    /// Forgets removals of a process that is gone: the objects may come back, if they weren't removed for good.
    fn forget_removed(&mut self) {
        let removed = self.model.values_mut().flatten().filter(|version| version.life == VersionLife::Removed);
        removed.for_each(|version| version.life = VersionLife::Live);
    }

    pub fn settle(&mut self) {
        while self.step() {}
    }

    /// Lets it work a little. False: nothing moves.
    pub fn step(&mut self) -> bool {
        let flag = Arc::new(Flag::default());
        if let Some(driver) = &mut self.driver {
            let waker = Waker::from(flag.clone());
            if pin!(driver).poll(&mut Context::from_waker(&waker)).is_ready() {
                self.driver = None;
            }
        }
        self.device.end_one(&mut self.dice) || flag.0.load(Relaxed)
    }

    /// Lets the store work until `work` has ended; `None`: nothing moves and it hasn't.
    pub fn run<F: Future>(&mut self, work: F) -> Option<F::Output> {
        let mut work = pin!(work);
        let flag = Arc::new(Flag::default());
        let waker = Waker::from(flag.clone());
        loop {
            if let Poll::Ready(output) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(output);
            }
            if !self.step() && !flag.0.swap(false, Relaxed) {
                return None;
            }
        }
    }

    pub fn ready(seed: u64, segments: u64) -> Bed {
        let mut bed = Bed::new(seed, segments);
        bed.settle();
        assert_eq!(bed.disk.progress().stage, Stage::Ready);
        bed
    }

    pub fn put(&mut self, name: u8, len: usize) -> Result<RecordCandidate, Refused> {
        self.put_with(name, len, |bed| {
            if bed.dice.one_in(3) {
                bed.step();
            }
        })
    }

    pub fn put_at_once(&mut self, name: u8, len: usize) -> Result<RecordCandidate, Refused> {
        self.put_with(name, len, |_| {})
    }

    /// Puts an object that may be longer than a segment: the store keeps up.
    pub fn put_slowly(&mut self, name: u8, len: usize) {
        self.put_with(name, len, Bed::settle).expect("nothing goes wrong");
        self.settle();
    }

    fn put_with(&mut self, name: u8, len: usize, meanwhile: fn(&mut Bed)) -> Result<RecordCandidate, Refused> {
        let version = self.model.entry(name).or_default().len();
        let ban_seq = self.seq;
        // It may come to be on the disk even if this fails half-way, or the process dies: never as another.
        self.model.get_mut(&name).expect("made above").push(ObjectVersion { len, life: VersionLife::Live });
        let disk = self.disk.clone();
        let mut put = disk.put(&digest_of(name));
        for piece in bytes_of(name, version, len).chunks(20_000) {
            put.push(piece)?;
            meanwhile(self);
        }
        let head = head_of(name, version);
        put.finish(&record_of(name, ban_seq, &head), &ObjectTexts { head: &head, tags: b"t" })
    }

    pub fn purge(&mut self, name: u8) {
        self.seq += 1;
        self.journal.push((name, self.seq));
        self.disk.remove_all(&digest_of(name), self.seq);
        self.model.entry(name).or_default().iter_mut().for_each(|version| version.life = VersionLife::Dead);
    }

    /// Lets go of what the store doesn't need of the journal.
    pub fn trim(&mut self) {
        let needed = self.disk.journal_needed_from();
        self.journal.retain(|(_, seq)| needed.is_some_and(|needed| *seq >= needed));
    }

    /// All that is found of an object, each with its version, checked byte for byte.
    pub fn load_all(&mut self, name: u8) -> Vec<(RecordCandidate, usize)> {
        let mut versions = Vec::new();
        for candidate in self.disk.find(&digest_of(name)) {
            if let Ok(version) = self.load(name, candidate) {
                versions.push((candidate, version));
            }
        }
        versions
    }

    pub fn load(&mut self, name: u8, candidate: RecordCandidate) -> Result<usize, String> {
        let load = self.disk.load(candidate, &digest_of(name));
        let loaded = self.run(load).ok_or("hangs")?.map_err(|lost: Lost| format!("{lost:?}"))?;
        assert_eq!(loaded.record.digest, digest_of(name));
        if self.is_hostile {
            return self.read_body(&loaded.body).map(|_| 0);
        }
        let head = loaded.head.to_vec();
        let version = u64::from_le_bytes(head[1..9].try_into().unwrap()) as usize;
        assert_eq!(head, head_of(name, version), "a wrong byte in a head");
        let known = self.model[&name][version];
        assert_eq!(known.life, VersionLife::Live, "object {name}, version {version} is served again");
        let body = loaded.body;
        assert_eq!(body.len(), known.len as u64);
        let read = self.read_body(&body)?;
        assert!(read == bytes_of(name, version, known.len), "a wrong byte in a body");
        self.disk.note_use(candidate);
        self.served += 1;
        Ok(version)
    }

    fn read_body(&mut self, body: &DiskBody) -> Result<Vec<u8>, String> {
        let (mut read, mut waiter) = (Vec::new(), None);
        while (read.len() as u64) < body.len() {
            let offset = read.len() as u64;
            let bytes = self.run(std::future::poll_fn(|cx| body.poll_at(cx, &mut waiter, offset..u64::MAX)));
            read.extend_from_slice(&bytes.ok_or("hangs")?.map_err(|error| error.to_string())?);
        }
        Ok(read)
    }

    pub fn load_everything(&mut self) -> usize {
        let names: Vec<u8> = self.model.keys().copied().collect();
        names.into_iter().map(|name| self.load_all(name).len()).sum()
    }

    /// The process dies and the power goes; another one begins with what is there.
    pub fn cut_power(&mut self) {
        let image = self.device.cut_power(&mut self.dice);
        self.restart(image);
    }

    pub fn restart(&mut self, image: Vec<u8>) {
        self.driver = None;
        self.device = Simulated::new(image);
        let (disk, driver) = start(&self.device, &mut self.dice, Others::Nobody);
        (self.disk, self.driver) = (disk, Some(driver));
        self.forget_removed();
        for (name, seq) in &self.journal {
            self.disk.remove_all(&digest_of(*name), *seq);
        }
    }
}

fn start(device: &Arc<Simulated>, dice: &mut DiskDice, others: Others) -> (Disk, Driver) {
    let new = DiskStoreOptions::new(NOW, dice.word());
    let options = DiskStoreOptions { segment_bytes: Some(SEGMENT), write_behind_bytes: 1 << 20, others, ..new };
    Disk::open(device.clone(), options)
}

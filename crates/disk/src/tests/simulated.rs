// SPDX-License-Identifier: BSD-2-Clause
//! A device in memory. What is asked of it ends when the test says so, in any order; what isn't synced when the power
//! goes may be there, be torn within a block, or not be there, block by block.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use sys::pages::{BLOCK, Pages};

use crate::device::{Device, DeviceError, DeviceOp, Done};
use crate::dice::DiskDice;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperationKind {
    Read,
    Write,
    Sync,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SimulatedFault {
    /// The operation fails, and has done nothing.
    Error(DeviceError),
    /// The operation fails, and has done half of it.
    Half(DeviceError),
    /// The operation seems to be done and has one bit wrong.
    Flip,
    /// The operation doesn't end.
    Hang,
}

/// One operation that goes wrong, after so many others of its sort.
#[derive(Clone, Copy, Debug)]
pub struct NthFault {
    pub left: usize,
    pub fault: SimulatedFault,
    pub hits_reads: bool,
}

impl NthFault {
    fn count_down(&mut self, kind: OperationKind) -> Option<SimulatedFault> {
        if (kind == OperationKind::Read) != self.hits_reads {
            return None;
        }
        let is_due = self.left == 1;
        self.left = self.left.saturating_sub(1);
        is_due.then_some(self.fault)
    }
}

#[derive(Debug, Default)]
pub struct Simulated {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stable: Vec<u8>,
    /// Blocks not yet on stable storage: the versions with the time of their writing.
    unsynced: BTreeMap<u64, Vec<(u64, Vec<u8>)>>,
    /// Blocks whose sync has failed: only another write of the block and its sync make sure of them.
    doubtful: BTreeMap<u64, Vec<(u64, Vec<u8>)>>,
    time: u64,
    queue: Vec<Queued>,
    orphans: usize,
    fault: Option<(OperationKind, SimulatedFault)>,
    once: Option<NthFault>,
    /// Bytes of the medium that can't be written.
    spoilt: Range<u64>,
    reads: u64,
}

struct Queued {
    begun: u64,
    op: DeviceOp,
    done: Done,
    is_orphan: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.stable.len())
    }
}

impl Simulated {
    pub fn new(image: Vec<u8>) -> Arc<Simulated> {
        Arc::new(Simulated { state: Mutex::new(State { stable: image, ..State::default() }) })
    }

    pub fn set_fault(&self, fault: Option<(OperationKind, SimulatedFault)>) {
        self.state.lock().fault = fault;
    }

    pub fn fail_once(&self, fault: NthFault) {
        self.state.lock().once = Some(fault);
    }

    /// The fault that is still to come; its `left` is 0 once it has.
    pub fn once(&self) -> Option<NthFault> {
        self.state.lock().once
    }

    /// True if a sync of blocks has failed that weren't written again.
    pub fn has_doubts(&self) -> bool {
        !self.state.lock().doubtful.is_empty()
    }

    pub fn spoil(&self, bytes: Range<u64>) {
        self.state.lock().spoilt = bytes;
    }

    pub fn reads(&self) -> u64 {
        self.state.lock().reads
    }

    /// Ends one of the operations in progress. False: there is none that ends.
    pub fn end_one(&self, dice: &mut DiskDice) -> bool {
        let mut state = self.state.lock();
        let fault = state.fault;
        let hangs = |op: &DeviceOp| fault == Some((kind_of(op), SimulatedFault::Hang));
        let ending: Vec<usize> = (0..state.queue.len()).filter(|&at| !hangs(&state.queue[at].op)).collect();
        if ending.is_empty() {
            return false;
        }
        let Queued { begun, op, done, is_orphan } =
            state.queue.swap_remove(ending[dice.below(ending.len() as u64) as usize]);
        state.orphans -= usize::from(is_orphan);
        let result = state.perform(begun, op, dice);
        drop(state);
        done(result);
        true
    }

    /// Whoever has asked for what is in progress is gone. It is done all the same, some time, and nobody is told.
    pub fn orphan(&self) {
        let mut state = self.state.lock();
        state.queue.iter_mut().for_each(|queued| (queued.is_orphan, queued.done) = (true, Box::new(drop)));
        state.orphans = state.queue.len();
    }

    pub fn has_orphans(&self) -> bool {
        self.state.lock().orphans > 0
    }

    /// Lets operations that hang end as too slow, though they may still happen.
    pub fn give_up(&self) {
        let queue = std::mem::take(&mut self.state.lock().queue);
        queue.into_iter().for_each(|queued| (queued.done)(Err(DeviceError::Stalled)));
    }

    /// The content after the power has gone now.
    pub fn cut_power(&self, dice: &mut DiskDice) -> Vec<u8> {
        let mut state = self.state.lock();
        let queue = std::mem::take(&mut state.queue);
        for Queued { op, .. } in &queue {
            if let DeviceOp::Write { at, from } = op {
                state.keep(*at, from);
            }
        }
        let mut image = state.stable.clone();
        let mut blocks = state.doubtful.clone();
        state
            .unsynced
            .iter()
            .for_each(|(block, versions)| blocks.entry(*block).or_default().extend_from_slice(versions));
        for (block, versions) in &blocks {
            let at = (*block as usize) * BLOCK;
            let old = image[at..at + BLOCK].to_vec();
            let mut pick =
                || versions.get(dice.below(versions.len() as u64 + 1) as usize).map_or(&old, |(_, bytes)| bytes);
            let (first, second) = (pick(), pick());
            // Most blocks are whole; some are torn between two sectors.
            let torn = if dice.one_in(4) { dice.below(8) as usize * 512 } else { BLOCK };
            image[at..at + torn].copy_from_slice(&first[..torn]);
            image[at + torn..at + BLOCK].copy_from_slice(&second[torn..]);
        }
        image
    }

    /// Somebody else has written this.
    pub fn replace(&self, image: Vec<u8>) {
        self.state.lock().stable = image;
    }

    pub fn image(&self) -> Vec<u8> {
        let mut state = self.state.lock();
        let end = state.time;
        state.settle(end);
        let mut image = state.stable.clone();
        for (block, versions) in &state.doubtful {
            image[*block as usize * BLOCK..][..BLOCK]
                .copy_from_slice(&versions.last().expect("a block has a version").1);
        }
        image
    }
}

impl Device for Simulated {
    fn len(&self) -> u64 {
        self.state.lock().stable.len() as u64
    }

    fn start(&self, op: DeviceOp, done: Done) {
        let mut state = self.state.lock();
        let begun = state.time;
        state.reads += u64::from(kind_of(&op) == OperationKind::Read);
        state.queue.push(Queued { begun, op, done, is_orphan: false });
    }
}

impl State {
    fn perform(&mut self, begun: u64, op: DeviceOp, dice: &mut DiskDice) -> Result<Pages, DeviceError> {
        let lasting = self.fault.filter(|(kind, _)| *kind == kind_of(&op)).map(|(_, fault)| fault);
        let once = self.once.as_mut().and_then(|once| once.count_down(kind_of(&op)));
        let fault = once.or(lasting);
        match (op, fault) {
            (DeviceOp::Sync, Some(SimulatedFault::Error(error) | SimulatedFault::Half(error))) if once.is_some() => {
                for (block, mut versions) in std::mem::take(&mut self.unsynced) {
                    self.doubtful.entry(block).or_default().append(&mut versions);
                }
                Err(error)
            }
            (_, Some(SimulatedFault::Error(error))) => Err(error),
            (DeviceOp::Write { at, .. }, _) if self.spoilt.contains(&at) => Err(DeviceError::Os(5)),
            (DeviceOp::Write { at, from }, Some(SimulatedFault::Half(error))) => {
                self.keep(at, &from[..from.len() / BLOCK / 2 * BLOCK]);
                Err(error)
            }
            (_, Some(SimulatedFault::Half(error))) => Err(error),
            (DeviceOp::Read { at, mut into }, fault) => {
                self.read(at, &mut into);
                if fault == Some(SimulatedFault::Flip) {
                    flip(&mut into, dice);
                }
                Ok(into)
            }
            (DeviceOp::Write { at, from }, fault) => {
                let mut bytes = from.to_vec();
                if fault == Some(SimulatedFault::Flip) {
                    flip(&mut bytes, dice);
                }
                self.keep(at, &bytes);
                Ok(Pages::empty())
            }
            (DeviceOp::Sync, _) => {
                self.settle(begun);
                Ok(Pages::empty())
            }
        }
    }

    fn read(&self, at: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.stable[at as usize..at as usize + into.len()]);
        for (number, block) in into.chunks_exact_mut(BLOCK).enumerate() {
            let number = at / BLOCK as u64 + number as u64;
            let versions = self.unsynced.get(&number).or_else(|| self.doubtful.get(&number));
            if let Some((_, bytes)) = versions.and_then(|versions| versions.last()) {
                block.copy_from_slice(bytes);
            }
        }
    }

    fn keep(&mut self, at: u64, bytes: &[u8]) {
        assert!(at.is_multiple_of(BLOCK as u64) && at as usize + bytes.len() <= self.stable.len(), "beyond the device");
        self.time += 1;
        for (number, block) in bytes.chunks_exact(BLOCK).enumerate() {
            let versions = self.unsynced.entry(at / BLOCK as u64 + number as u64).or_default();
            versions.push((self.time, block.to_vec()));
        }
    }

    fn settle(&mut self, time: u64) {
        let State { stable, doubtful, .. } = self;
        self.unsynced.retain(|block, versions| {
            let count = versions.iter().take_while(|(written, _)| *written <= time).count();
            if let Some((_, bytes)) = versions.drain(..count).next_back() {
                stable[*block as usize * BLOCK..][..BLOCK].copy_from_slice(&bytes);
                doubtful.remove(block);
            }
            !versions.is_empty()
        });
    }
}

fn kind_of(op: &DeviceOp) -> OperationKind {
    match op {
        DeviceOp::Read { .. } => OperationKind::Read,
        DeviceOp::Write { .. } => OperationKind::Write,
        DeviceOp::Sync => OperationKind::Sync,
    }
}

fn flip(bytes: &mut [u8], dice: &mut DiskDice) {
    if !bytes.is_empty() {
        bytes[dice.below(bytes.len() as u64) as usize] ^= 1 << dice.below(8);
    }
}

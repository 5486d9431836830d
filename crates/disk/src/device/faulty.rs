// SPDX-License-Identifier: BSD-2-Clause
//! A device that does wrong when a test says so: errors, operations that hang, writes that stop half way, bits that flip.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sys::pages::{BLOCK, Pages};

use super::{Device, DeviceError, DeviceOp, Done};

#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceFault {
    pub(crate) on: On,
    pub(crate) times: u32,
    pub(crate) what: FaultyOperation,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum On {
    Read,
    Write,
    Sync,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FaultyOperation {
    /// The system's number; nothing is done.
    Error(i32),
    Hold,
    /// A write of so many blocks only, which is reported as a success.
    Torn(usize),
    Flip(usize),
}

#[derive(Debug)]
pub(crate) struct Faulty<D> {
    device: D,
    plan: Mutex<Plan>,
}

#[derive(Default)]
struct Plan {
    faults: VecDeque<DeviceFault>,
    held: Vec<(DeviceOp, Done)>,
}

impl<D: Device> Faulty<D> {
    pub(crate) fn new(device: D) -> Faulty<D> {
        Faulty { device, plan: Mutex::default() }
    }

    /// Faults of a kind come in the order in which they are planned.
    pub(crate) fn plan(&self, fault: DeviceFault) {
        self.lock().faults.push_back(fault);
    }

    pub(crate) fn release(&self) {
        let held = std::mem::take(&mut self.lock().held);
        held.into_iter().for_each(|(op, done)| self.device.start(op, done));
    }

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Device> Device for Faulty<D> {
    fn len(&self) -> u64 {
        self.device.len()
    }

    fn start(&self, op: DeviceOp, done: Done) {
        let what = self.lock().next(On::from(&op));
        match (what, op) {
            (None, op) => self.device.start(op, done),
            (Some(FaultyOperation::Error(number)), _) => done(Err(DeviceError::Os(number))),
            (Some(FaultyOperation::Hold), op) => self.lock().held.push((op, done)),
            (Some(FaultyOperation::Torn(blocks)), DeviceOp::Write { at, from }) => {
                let from = Arc::new(copy(&from[..blocks * BLOCK]));
                self.device.start(DeviceOp::Write { at, from }, done);
            }
            (Some(FaultyOperation::Flip(bit)), DeviceOp::Write { at, from }) => {
                let mut other = copy(&from);
                other[bit / 8] ^= 1 << (bit % 8);
                self.device.start(DeviceOp::Write { at, from: Arc::new(other) }, done);
            }
            (Some(FaultyOperation::Flip(bit)), op @ DeviceOp::Read { .. }) => {
                let flip = move |mut pages: Pages| {
                    pages[bit / 8] ^= 1 << (bit % 8);
                    pages
                };
                self.device.start(op, Box::new(move |result| done(result.map(flip))));
            }
            (Some(what), op) => panic!("{what:?} has no meaning for {op:?}"),
        }
    }
}

impl Plan {
    fn next(&mut self, on: On) -> Option<FaultyOperation> {
        let at = self.faults.iter().position(|fault| fault.on == on)?;
        let fault = &mut self.faults[at];
        fault.times -= 1;
        let (what, is_last) = (fault.what, fault.times == 0);
        if is_last {
            self.faults.remove(at);
        }
        Some(what)
    }
}

impl From<&DeviceOp> for On {
    fn from(op: &DeviceOp) -> On {
        match op {
            DeviceOp::Read { .. } => On::Read,
            DeviceOp::Write { .. } => On::Write,
            DeviceOp::Sync => On::Sync,
        }
    }
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}, {} held", self.faults, self.held.len())
    }
}

fn copy(bytes: &[u8]) -> Pages {
    let mut pages = Pages::zeroed(bytes.len());
    pages[..bytes.len()].copy_from_slice(bytes);
    pages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{perform, threads::Threads};

    #[test]
    fn what_is_planned_goes_wrong_and_nothing_else() {
        let device = Faulty::new(Threads::new(Arc::new(crate::device::tests::file(4)), 1).unwrap());
        let ones = || {
            let mut pages = Pages::zeroed(2 * BLOCK);
            pages.fill(1);
            Arc::new(pages)
        };
        let read = || perform(&device, DeviceOp::Read { at: 0, into: Pages::zeroed(2 * BLOCK) });
        device.plan(DeviceFault { on: On::Write, times: 1, what: FaultyOperation::Torn(1) });
        device.plan(DeviceFault { on: On::Read, times: 1, what: FaultyOperation::Error(5) });
        device.plan(DeviceFault { on: On::Read, times: 1, what: FaultyOperation::Flip(9) });
        perform(&device, DeviceOp::Write { at: 0, from: ones() }).unwrap();
        assert_eq!(read().unwrap_err(), DeviceError::Os(5));
        let flipped = read().unwrap();
        assert_eq!((flipped[0], flipped[1], flipped[2], flipped[BLOCK]), (1, 3, 1, 0));
        device.plan(DeviceFault { on: On::Write, times: 1, what: FaultyOperation::Flip(0) });
        perform(&device, DeviceOp::Write { at: 0, from: ones() }).unwrap();
        let read = read().unwrap();
        assert_eq!((read[0], read[1], read[BLOCK]), (0, 1, 1));
    }
}

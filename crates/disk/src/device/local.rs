// SPDX-License-Identifier: BSD-2-Clause
//! Rings of the threads that read: a task that begins a read hands it to the kernel with all others of this turn of its thread,
//! which hears of the end as it hears of its sockets. No other thread has to run in between.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use sys::uring::{Ended, IoRing, RingJob};

use super::ring::Shared;
use super::{DeviceError, Done, answer, stated};

/// Operations in progress, a thread; what is more goes to the device's own thread.
const MOST: u32 = 128;

thread_local! {
    /// This thread's rings: of each device that it has read from, or tried to.
    static OWN: RefCell<Vec<Own>> = const { RefCell::new(Vec::new()) };
    static IS_PASSED_BY: Cell<bool> = const { Cell::new(false) };
}

/// Calls `begin` as if this thread could have no ring.
pub fn passed_by(begin: impl FnOnce()) {
    let before = IS_PASSED_BY.replace(true);
    begin();
    IS_PASSED_BY.set(before);
}

struct Own {
    device: std::sync::Weak<Shared>,
    /// Dangling: there is none for this thread.
    local: Weak<Local>,
}

struct Local {
    device: Arc<Shared>,
    work: RefCell<Work>,
    waker: RefCell<Waker>,
    is_woken: Cell<bool>,
}

struct Work {
    ring: Option<IoRing>,
    waiting: Vec<Option<Done>>,
    vacant: Vec<usize>,
}

#[cfg(test)]
pub fn rings() -> usize {
    OWN.with_borrow(|own| own.iter().filter(|own| own.local.strong_count() > 0).count())
}

/// Begins an operation by the ring of this thread, if it has one or can have one; else both come back.
pub fn start(device: &Arc<Shared>, job: RingJob, done: Done) -> Result<(), (RingJob, Done)> {
    let Some(local) = local(device) else { return Err((job, done)) };
    local.start(job, done)
}

fn local(device: &Arc<Shared>) -> Option<Rc<Local>> {
    if IS_PASSED_BY.get() {
        return None;
    }
    let found = OWN.with_borrow(|own| {
        let own = own.iter().find(|own| std::ptr::eq(own.device.as_ptr(), Arc::as_ptr(device)))?;
        Some(own.local.upgrade())
    });
    match found {
        Some(local) => local,
        None if rt::is_task() => make(device),
        None => None,
    }
}

fn make(device: &Arc<Shared>) -> Option<Rc<Local>> {
    let made = Local::new(device).ok();
    let local = made.as_ref().map_or_else(Weak::new, Rc::downgrade);
    OWN.with_borrow_mut(|own| {
        own.retain(|own| own.device.strong_count() > 0);
        own.push(Own { device: Arc::downgrade(device), local });
    });
    made
}

impl Local {
    fn new(device: &Arc<Shared>) -> io::Result<Rc<Local>> {
        // Nobody else is concerned by what a ring of a process that was killed still reads: no lock tells of that.
        let ring = IoRing::new(device.file.clone(), MOST, device.pool.as_ref(), None)?;
        let readable = rt::Readable::new(ring.readiness()?)?;
        let vacant = (0..MOST as usize).rev().collect();
        let work = Work { ring: Some(ring), waiting: (0..MOST).map(|_| None).collect(), vacant };
        let local = Rc::new(Local {
            device: device.clone(),
            work: RefCell::new(work),
            waker: RefCell::new(Waker::noop().clone()),
            is_woken: Cell::new(false),
        });
        let own = local.clone();
        rt::spawn(async move { std::future::poll_fn(|cx| own.poll(cx, &readable)).await });
        Ok(local)
    }

    fn start(&self, job: RingJob, done: Done) -> Result<(), (RingJob, Done)> {
        if self.device.is_closing() {
            return Err((job, done));
        }
        self.work.borrow_mut().push(job, done)?;
        if !self.is_woken.replace(true) {
            self.waker.borrow().wake_by_ref();
        }
        Ok(())
    }

    /// Runs the ring until the device is closed and nothing is in progress.
    fn poll(&self, cx: &mut Context<'_>, readable: &rt::Readable) -> Poll<()> {
        self.is_woken.set(false);
        if !self.waker.borrow().will_wake(cx.waker()) {
            self.waker.replace(cx.waker().clone());
            self.device.note_local(cx.waker());
        }
        loop {
            let news = match readable.poll_news(cx) {
                Poll::Ready(Ok(())) => true,
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => false,
            };
            let turn = self.turn();
            if turn == RingTurn::Failed {
                return Poll::Ready(());
            }
            if self.device.is_closing() && self.work.borrow().is_idle() {
                return Poll::Ready(());
            }
            if turn == RingTurn::MoreToBegin {
                cx.waker().wake_by_ref();
            }
            if !news {
                return Poll::Pending;
            }
        }
    }

    /// Begins waiting operations and reports ended ones.
    fn turn(&self) -> RingTurn {
        let mut ended: Vec<Ended> = Vec::new();
        let result = self.work.borrow_mut().turn(&mut ended);
        for (tag, outcome) in ended {
            let done = self.work.borrow_mut().land(tag as usize);
            // After the borrow: it may begin the next operation.
            if let Some(done) = done {
                answer(done, outcome.map_err(|error| stated(&error)));
            }
        }
        if let Err(error) = &result {
            let failed = self.work.borrow_mut().take_waiting();
            failed.into_iter().for_each(|done| answer(done, Err(stated(error))));
        }
        match result {
            Ok(true) => RingTurn::AllBegun,
            Ok(false) => RingTurn::MoreToBegin,
            Err(_) => RingTurn::Failed,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RingTurn {
    AllBegun,
    MoreToBegin,
    /// The ring goes on no more.
    Failed,
}

impl Work {
    fn push(&mut self, job: RingJob, done: Done) -> Result<(), (RingJob, Done)> {
        let Some(ring) = &mut self.ring else { return Err((job, done)) };
        let Some(tag) = self.vacant.pop() else { return Err((job, done)) };
        self.waiting[tag] = Some(done);
        let pushed = ring.push(tag as u64, job);
        assert!(pushed.is_ok(), "a ring takes what it has room for");
        Ok(())
    }

    fn turn(&mut self, ended: &mut Vec<Ended>) -> io::Result<bool> {
        self.ring.as_mut().map_or(Ok(true), |ring| ring.turn(ended))
    }

    fn is_idle(&self) -> bool {
        self.ring.as_ref().is_none_or(IoRing::is_idle)
    }

    fn land(&mut self, tag: usize) -> Option<Done> {
        self.vacant.push(tag);
        self.waiting[tag].take()
    }

    fn take_waiting(&mut self) -> Vec<Done> {
        self.vacant.clear();
        self.waiting.iter_mut().filter_map(Option::take).collect()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // The thread ends; a disk that hangs doesn't hold it up.
        if let Some(ring) = self.ring.take() {
            ring.abandon();
        }
        for done in self.take_waiting() {
            answer(done, Err(DeviceError::Closed));
        }
    }
}

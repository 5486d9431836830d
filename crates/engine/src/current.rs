// SPDX-License-Identifier: BSD-2-Clause
//! What each thread is working on, for panic reports, the watchdog and the drain. Only its own thread writes a desk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::Vxid;

/// One thread's work.
#[derive(Debug, Default)]
pub struct Desk {
    vxid: AtomicU64,
    /// The first eight letters of the step's name.
    step: AtomicU64,
    /// Transactions that clients wait for.
    open: AtomicU64,
}

thread_local! {
    static OWN: Arc<Desk> = Arc::default();
}

/// A transaction and its step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Current {
    /// The transaction; [`Vxid::NONE`] between two.
    pub vxid: Vxid,
    /// The step's name.
    pub step: String,
}

impl Desk {
    /// What its thread works on, or did last.
    pub fn current(&self) -> Current {
        let step = self.step.load(Relaxed).to_le_bytes();
        let step = step.iter().take_while(|&&letter| letter != 0).map(|&letter| char::from(letter)).collect();
        Current { vxid: Vxid(self.vxid.load(Relaxed)), step }
    }

    /// How many requests its thread has in progress.
    pub fn open(&self) -> u64 {
        self.open.load(Relaxed)
    }
}

/// This thread works on that step of that transaction.
pub fn enter(vxid: Vxid, step: &str) {
    let mut letters = [0; 8];
    letters.iter_mut().zip(step.bytes()).for_each(|(letter, byte)| *letter = byte);
    OWN.with(|desk| {
        desk.vxid.store(vxid.0, Relaxed);
        desk.step.store(u64::from_le_bytes(letters), Relaxed);
    });
}

/// What this thread works on.
pub fn get() -> Current {
    OWN.with(|desk| desk.current())
}

/// This thread's desk, for others to look at.
pub fn desk() -> Arc<Desk> {
    OWN.with(Arc::clone)
}

/// A request in progress; stays on its thread.
#[derive(Debug)]
pub struct Open(std::marker::PhantomData<*const ()>);

/// A request begins.
pub fn open() -> Open {
    // Only this thread writes: no locked instruction is needed.
    OWN.with(|desk| desk.open.store(desk.open.load(Relaxed) + 1, Relaxed));
    Open(std::marker::PhantomData)
}

impl Drop for Open {
    fn drop(&mut self) {
        // A thread that ends has nothing to show any more.
        let _ = OWN.try_with(|desk| desk.open.store(desk.open.load(Relaxed) - 1, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_thread_sees_what_this_one_does() {
        let desk = desk();
        let seen = |desk: &Desk| (desk.current().vxid.0, desk.current().step, desk.open());
        let open = open();
        enter(Vxid(7), "deliver");
        std::thread::scope(|scope| {
            let seen = scope.spawn(|| seen(&desk)).join().unwrap();
            assert_eq!(seen, (7, "deliver".to_owned(), 1));
        });
        enter(Vxid(8), "fetchbody");
        drop(open);
        assert_eq!(seen(&desk), (8, "fetchbod".to_owned(), 0));
    }
}

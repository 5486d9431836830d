// SPDX-License-Identifier: BSD-2-Clause
//! What each thread is working on, for panic reports, the watchdog and the drain. Only its own thread writes a desk.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::Vxid;
use net::Address;

/// One thread's work.
#[derive(Debug, Default)]
pub struct Desk {
    vxid: AtomicU64,
    /// The first eight letters of the step's name.
    step: AtomicU64,
    /// What its thread has in progress, by [`What`].
    tallies: [Tally; 3],
}

/// What may be in progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A request that a client waits for.
    Request,
    /// A connection.
    Session,
    /// A fetch.
    Fetch,
}

/// How many there are and were.
#[derive(Debug, Default)]
struct Tally {
    live: AtomicU64,
    begun: AtomicU64,
}

thread_local! {
    static OWN: Arc<Desk> = Arc::default();
    /// Whose transaction it is: for reports of this thread alone.
    static CLIENT: Cell<Option<Address>> = const { Cell::new(None) };
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
        self.tally(What::Request).0
    }

    /// How many of them its thread has in progress, and has begun in all.
    pub fn tally(&self, what: What) -> (u64, u64) {
        let tally = &self.tallies[what as usize];
        (tally.live.load(Relaxed), tally.begun.load(Relaxed))
    }
}

/// A step's name: its first eight letters.
#[derive(Clone, Copy, Debug)]
pub struct StepName(u64);

impl StepName {
    /// Of no step.
    pub const NONE: StepName = StepName(0);

    /// The name as a word; to be worked out when the program is compiled.
    pub const fn of(name: &str) -> StepName {
        let (bytes, mut letters, mut i) = (name.as_bytes(), [0; 8], 0);
        while i < bytes.len() && i < letters.len() {
            letters[i] = bytes[i];
            i += 1;
        }
        StepName(u64::from_le_bytes(letters))
    }
}

/// This thread works on that step of that transaction.
pub fn enter(vxid: Vxid, step: StepName) {
    OWN.with(|desk| {
        desk.vxid.store(vxid.0, Relaxed);
        desk.step.store(step.0, Relaxed);
    });
}

/// This thread works for that client.
pub fn work_for(client: Address) {
    CLIENT.set(Some(client));
}

/// The client that this thread works for; `None` outside of transactions.
pub fn client() -> Option<Address> {
    CLIENT.try_with(Cell::get).ok().flatten()
}

/// What a thread worked on when it left something to wait.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    vxid: u64,
    step: u64,
    client: Option<Address>,
}

/// Remembers it, and leaves the desk empty.
pub fn leave() -> Left {
    let (vxid, step) = OWN.with(|desk| (desk.vxid.swap(0, Relaxed), desk.step.swap(0, Relaxed)));
    Left { vxid, step, client: CLIENT.take() }
}

/// Takes up again what was left.
pub fn take_up(left: Left) {
    OWN.with(|desk| {
        desk.vxid.store(left.vxid, Relaxed);
        desk.step.store(left.step, Relaxed);
    });
    CLIENT.set(left.client);
}

/// What this thread works on.
pub fn get() -> Current {
    OWN.with(|desk| desk.current())
}

/// This thread's desk, for others to look at.
pub fn desk() -> Arc<Desk> {
    OWN.with(Arc::clone)
}

/// Something in progress; stays on its thread.
#[derive(Debug)]
pub struct Open(What, std::marker::PhantomData<*const ()>);

/// Something begins.
pub fn open(what: What) -> Open {
    // Only this thread writes: no locked instruction is needed.
    OWN.with(|desk| {
        let tally = &desk.tallies[what as usize];
        tally.live.store(tally.live.load(Relaxed) + 1, Relaxed);
        tally.begun.store(tally.begun.load(Relaxed) + 1, Relaxed);
    });
    Open(what, std::marker::PhantomData)
}

impl Drop for Open {
    fn drop(&mut self) {
        // A thread that ends has nothing to show any more.
        let _ = OWN.try_with(|desk| {
            let live = &desk.tallies[self.0 as usize].live;
            live.store(live.load(Relaxed) - 1, Relaxed);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_thread_sees_what_this_one_does() {
        let desk = desk();
        let seen = |desk: &Desk| (desk.current().vxid.0, desk.current().step, desk.open());
        let open = open(What::Request);
        enter(Vxid(7), StepName::of("deliver"));
        std::thread::scope(|scope| {
            let seen = scope.spawn(|| seen(&desk)).join().unwrap();
            assert_eq!(seen, (7, "deliver".to_owned(), 1));
        });
        enter(Vxid(8), StepName::of("fetchbody"));
        drop(open);
        assert_eq!(seen(&desk), (8, "fetchbod".to_owned(), 0));
        let left = leave();
        assert_eq!(seen(&desk), (0, String::new(), 0));
        work_for(Address::Unix);
        enter(Vxid(9), StepName::of("recv"));
        take_up(left);
        assert_eq!((seen(&desk).0, client()), (8, None));
    }
}

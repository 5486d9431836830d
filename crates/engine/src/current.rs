// SPDX-License-Identifier: BSD-2-Clause
//! What each thread is working on, for panic reports, the watchdog and the drain. Only the thread itself
//! writes its [`ThreadWork`].

use std::cell::{Cell, RefCell};
use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::Vxid;
use net::Address;

/// The transaction that a thread works on, and counts of those it has begun.
#[derive(Debug, Default)]
pub struct ThreadWork {
    vxid: AtomicU64,
    /// The first eight letters of the step's name.
    step: AtomicU64,
    /// The same for the transaction that was suspended or ended last.
    last: [AtomicU64; 2],
    /// Counts of the thread's transactions, by [`TransactionKind`].
    tallies: [Tally; 3],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionKind {
    Request,
    Session,
    Fetch,
}

/// Counts of live transactions and of all that were begun.
#[derive(Debug, Default)]
struct Tally {
    live: AtomicU64,
    begun: AtomicU64,
}

/// State of a thread about its work. Other threads see `work` only.
struct ThreadState {
    work: Arc<ThreadWork>,
    /// The client of the current transaction, for reports about this thread.
    client: Cell<Option<Address>>,
    urls: RefCell<[Url; URLS_KEPT]>,
}

thread_local! {
    static OWN: ThreadState = ThreadState {
        work: Arc::default(),
        client: Cell::new(None),
        urls: RefCell::new([Url::NONE; URLS_KEPT]),
    };
}

/// Transactions of a thread whose URL is remembered. One that waits longer is reported without its URL.
const URLS_KEPT: usize = 32;

/// The beginning of a transaction's URL.
#[derive(Clone, Copy)]
struct Url {
    vxid: u64,
    len: u8,
    bytes: [u8; Url::LONGEST],
}

impl Url {
    const LONGEST: usize = 119;
    const NONE: Url = Url { vxid: 0, len: 0, bytes: [0; Url::LONGEST] };

    /// The URL up to its first byte that isn't UTF-8.
    fn text(&self) -> &str {
        let bytes = &self.bytes[..usize::from(self.len)];
        bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Current {
    /// The transaction; [`Vxid::NONE`] between two.
    pub vxid: Vxid,
    pub step: String,
}

impl ThreadWork {
    /// Ends or suspends the current transaction and returns it. Keeps it as the last one.
    fn leave(&self) -> (u64, u64) {
        let left = self.now();
        if left.0 != 0 {
            self.last[0].store(left.0, Relaxed);
            self.last[1].store(left.1, Relaxed);
        }
        self.go_on_with(0, 0);
        left
    }

    fn now(&self) -> (u64, u64) {
        (self.vxid.load(Relaxed), self.step.load(Relaxed))
    }

    fn go_on_with(&self, vxid: u64, step: u64) {
        self.vxid.store(vxid, Relaxed);
        self.step.store(step, Relaxed);
    }

    pub fn current(&self) -> Current {
        let step = self.step.load(Relaxed).to_le_bytes();
        let step = step.iter().take_while(|&&letter| letter != 0).map(|&letter| char::from(letter)).collect();
        Current { vxid: Vxid(self.vxid.load(Relaxed)), step }
    }

    pub fn open(&self) -> u64 {
        self.tally(TransactionKind::Request).0
    }

    /// Number of transactions in progress on the thread, and of all that it has begun.
    pub fn tally(&self, what: TransactionKind) -> (u64, u64) {
        let tally = &self.tallies[what as usize];
        (tally.live.load(Relaxed), tally.begun.load(Relaxed))
    }
}

#[derive(Clone, Copy, Debug)]
pub struct StepName(u64);

impl StepName {
    /// The name as a word; to be worked out when the program is compiled.
    pub const fn new(name: &str) -> StepName {
        let (bytes, mut letters, mut i) = (name.as_bytes(), [0; 8], 0);
        while i < bytes.len() && i < letters.len() {
            letters[i] = bytes[i];
            i += 1;
        }
        StepName(u64::from_le_bytes(letters))
    }
}

pub fn enter(vxid: Vxid, step: StepName) {
    OWN.with(|own| own.work.go_on_with(vxid.0, step.0));
}

pub fn end() {
    OWN.with(|own| own.work.leave());
}

pub fn work_for(client: Address, vxid: Vxid, url: &[u8]) {
    OWN.with(|own| {
        own.client.set(Some(client));
        let mut urls = own.urls.borrow_mut();
        let slot = &mut urls[vxid.0 as usize % URLS_KEPT];
        let len = url.len().min(Url::LONGEST);
        (slot.vxid, slot.len) = (vxid.0, len as u8);
        slot.bytes[..len].copy_from_slice(&url[..len]);
    });
}

/// Writes a line about this thread's work. Neither allocates nor waits, since a signal handler calls it.
pub fn write(out: &mut dyn Write) -> fmt::Result {
    match OWN.try_with(|own| own.write_work(own.work.now(), out)) {
        Ok(written) => written?,
        // The thread is ending.
        Err(_) => write_work((0, 0), None, None, out)?,
    }
    out.write_char('\n')
}

/// Like [`write()`], without the line's end, about the present work or else the last. For callers that run after a task's
/// turn.
pub fn write_last(out: &mut dyn Write) -> fmt::Result {
    OWN.with(|own| {
        let work = match own.work.now() {
            (0, _) => (own.work.last[0].load(Relaxed), own.work.last[1].load(Relaxed)),
            now => now,
        };
        own.write_work(work, out)
    })
}

impl ThreadState {
    fn write_work(&self, work: (u64, u64), out: &mut dyn Write) -> fmt::Result {
        let url = self.urls.try_borrow().ok().map(|urls| urls[work.0 as usize % URLS_KEPT]);
        write_work(work, self.client.get(), url.filter(|url| url.vxid == work.0), out)
    }
}

fn write_work((vxid, step): (u64, u64), client: Option<Address>, url: Option<Url>, out: &mut dyn Write) -> fmt::Result {
    let step = step.to_le_bytes();
    write!(out, "transaction = {}, step = ", Vxid(vxid))?;
    let letters = step.iter().position(|&letter| letter == 0).unwrap_or(step.len());
    out.write_str(if letters == 0 { "-" } else { std::str::from_utf8(&step[..letters]).unwrap_or("?") })?;
    match client {
        Some(client) => write!(out, ", client = {} {}", client.ip(), client.port())?,
        None => out.write_str(", client = -")?,
    }
    let url = url.as_ref().filter(|_| vxid != 0);
    write!(out, ", url = {}", url.map_or("-", Url::text))
}

/// A transaction that a thread suspended while it waits.
#[derive(Clone, Copy, Debug)]
pub struct SuspendedWork {
    vxid: u64,
    step: u64,
    client: Option<Address>,
}

pub fn leave() -> SuspendedWork {
    OWN.with(|own| {
        let (vxid, step) = own.work.leave();
        SuspendedWork { vxid, step, client: own.client.take() }
    })
}

pub fn take_up(left: SuspendedWork) {
    OWN.with(|own| {
        own.work.go_on_with(left.vxid, left.step);
        own.client.set(left.client);
    });
}

pub fn get() -> Current {
    OWN.with(|own| own.work.current())
}

pub fn thread_work() -> Arc<ThreadWork> {
    OWN.with(|own| own.work.clone())
}

/// Something in progress; stays on its thread.
#[derive(Debug)]
pub struct OpenTransaction(TransactionKind, std::marker::PhantomData<*const ()>);

pub fn open(what: TransactionKind) -> OpenTransaction {
    // Only this thread writes: no locked instruction is needed.
    OWN.with(|own| {
        let tally = &own.work.tallies[what as usize];
        tally.live.store(tally.live.load(Relaxed) + 1, Relaxed);
        tally.begun.store(tally.begun.load(Relaxed) + 1, Relaxed);
    });
    OpenTransaction(what, std::marker::PhantomData)
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        // A thread that ends has nothing to show any more.
        let _ = OWN.try_with(|own| {
            let live = &own.work.tallies[self.0 as usize].live;
            live.store(live.load(Relaxed) - 1, Relaxed);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_thread_sees_what_this_one_does() {
        let work = thread_work();
        let seen = |work: &ThreadWork| (work.current().vxid.0, work.current().step, work.open());
        let open = open(TransactionKind::Request);
        enter(Vxid(7), StepName::new("deliver"));
        std::thread::scope(|scope| {
            let seen = scope.spawn(|| seen(&work)).join().unwrap();
            assert_eq!(seen, (7, "deliver".to_owned(), 1));
        });
        enter(Vxid(8), StepName::new("fetchbody"));
        drop(open);
        assert_eq!(seen(&work), (8, "fetchbod".to_owned(), 0));
        let left = leave();
        assert_eq!(seen(&work), (0, String::new(), 0));
        enter(Vxid(9), StepName::new("recv"));
        work_for(Address::Unix, Vxid(9), b"/a?b");
        assert_eq!(line(), "transaction = 9, step = recv, client = 0.0.0.0 0, url = /a?b\n");
        // Another one has taken its place, and it isn't all text.
        work_for(Address::Unix, Vxid(9 + URLS_KEPT as u64), b"/\xff");
        assert!(line().ends_with(", url = -\n"));
        enter(Vxid(9 + URLS_KEPT as u64), StepName::new("recv"));
        assert!(line().ends_with(", url = /\n"));
        end();
        assert_eq!(line(), "transaction = 0, step = -, client = 0.0.0.0 0, url = -\n");
        let last = || {
            let mut text = String::new();
            write_last(&mut text).unwrap();
            text
        };
        assert_eq!(last(), "transaction = 41, step = recv, client = 0.0.0.0 0, url = /");
        enter(Vxid(41), StepName::new("hit"));
        leave();
        // A session waits after its request.
        leave();
        assert_eq!(last(), "transaction = 41, step = hit, client = -, url = /");
        take_up(left);
        assert_eq!(line(), "transaction = 8, step = fetchbod, client = -, url = -\n");
    }

    fn line() -> String {
        let mut text = String::new();
        write(&mut text).unwrap();
        text
    }
}

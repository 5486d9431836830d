// SPDX-License-Identifier: BSD-2-Clause
//! Streams within this process that have no descriptor, and a network of them: for tests and simulations (feature `memory`).
//!
//! A connection is two directions, each a bounded queue of bytes. It behaves as TCP over a perfect wire: what is written can
//! be read at once; a reader may narrow the window, so that its peer has to wait; an end closes one direction or both, and
//! closing with unread bytes, or writing to who has closed, resets it and loses what was under way. Nothing here asks for a
//! clock or the operating system, so that a seed decides everything.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, ReadBuf};

use crate::{Address, Stream, Target};

/// What a direction takes until somebody reads it, unless a script says otherwise.
pub const WINDOW_BYTES: usize = 64 * 1024;

/// One end of a connection.
#[derive(Debug)]
pub struct End {
    line: Arc<Mutex<Line>>,
    /// Which of the two ends it is: it writes to the direction of that index and reads from the other.
    side: usize,
}

#[derive(Debug)]
struct Line {
    directions: [Direction; 2],
    /// Which ends reset the connection when they close.
    resets: [bool; 2],
    addresses: [Address; 2],
    numbers: [u32; 2],
}

#[derive(Debug)]
struct Direction {
    bytes: VecDeque<u8>,
    window: usize,
    /// Most bytes that one call moves.
    step: usize,
    state: Flow,
    readers: Vec<Waker>,
    writers: Vec<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Open,
    /// The writer has said that nothing more comes.
    Ended,
    /// The reader has closed: what is written now resets the connection.
    Unread,
    Reset,
}

impl Direction {
    fn new() -> Self {
        Direction {
            bytes: VecDeque::new(),
            window: WINDOW_BYTES,
            step: usize::MAX,
            state: Flow::Open,
            readers: Vec::new(),
            writers: Vec::new(),
        }
    }

    fn room(&self) -> usize {
        self.window.saturating_sub(self.bytes.len()).min(self.step)
    }

    /// All who wait for this direction: to be woken after the unlock.
    fn waiting(&mut self) -> Vec<Waker> {
        let mut waiting = std::mem::take(&mut self.readers);
        waiting.append(&mut self.writers);
        waiting
    }

    fn reset(&mut self) -> Vec<Waker> {
        self.bytes.clear();
        self.state = Flow::Reset;
        self.waiting()
    }
}

impl Line {
    fn reset(&mut self) -> Vec<Waker> {
        let [one, other] = &mut self.directions;
        let mut woken = one.reset();
        woken.extend(other.reset());
        woken
    }
}

fn note(waiting: &mut Vec<Waker>, cx: &Context<'_>) {
    if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
        waiting.push(cx.waker().clone());
    }
}

fn wake(woken: Vec<Waker>) {
    woken.into_iter().for_each(Waker::wake);
}

thread_local! {
    static NEXT_NUMBER: Cell<u32> = const { Cell::new(1) };
    static NETWORK: RefCell<Option<Rc<Hosts>>> = const { RefCell::new(None) };
}

/// A new connection; the addresses are those of its first and of its second end.
pub fn pair(first: Address, second: Address) -> (End, End) {
    let number = || NEXT_NUMBER.replace(NEXT_NUMBER.get().wrapping_add(1));
    let line = Line {
        directions: [Direction::new(), Direction::new()],
        resets: [false; 2],
        addresses: [first, second],
        numbers: [number(), number()],
    };
    let line = Arc::new(Mutex::new(line));
    let end = |side| End { line: line.clone(), side };
    (end(0), end(1))
}

impl End {
    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its address, or that of the other end.
    pub(crate) fn address(&self, of_peer: bool) -> Address {
        self.lock().addresses[if of_peer { 1 - self.side } else { self.side }]
    }

    /// What stands for the descriptor's number in the log.
    pub(crate) fn number(&self) -> u32 {
        self.lock().numbers[self.side]
    }

    /// Lets the peer have so many bytes under way that this end hasn't read: 0 and it has to wait with all it writes.
    pub fn set_window(&self, bytes: usize) {
        let woken = {
            let mut line = self.lock();
            let direction = &mut line.directions[1 - self.side];
            direction.window = bytes;
            std::mem::take(&mut direction.writers)
        };
        wake(woken);
    }

    /// Lets each call move so many bytes at most towards this end and away from it: 1 tears everything apart.
    pub fn set_step(&self, bytes: usize) {
        assert!(bytes > 0, "a window of zero stops a peer");
        self.lock().directions.iter_mut().for_each(|direction| direction.step = bytes);
    }

    /// How many bytes lie there for this end to read.
    pub fn unread(&self) -> usize {
        self.lock().directions[1 - self.side].bytes.len()
    }

    /// Cuts the connection: both ends find it reset, and what was under way is lost.
    pub fn reset(&self) {
        let woken = self.lock().reset();
        wake(woken);
    }

    /// See [`Stream::reset_on_close`].
    pub(crate) fn reset_on_close(&self) {
        self.lock().resets[self.side] = true;
    }

    /// Says that nothing more will be written.
    pub fn shutdown_write(&self) {
        let woken = {
            let direction = &mut self.lock().directions[self.side];
            if direction.state == Flow::Open {
                direction.state = Flow::Ended;
            }
            direction.waiting()
        };
        wake(woken);
    }

    /// See [`Stream::try_read`].
    pub fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        let (read, woken) = {
            let direction = &mut self.lock().directions[1 - self.side];
            if direction.state == Flow::Reset {
                return Err(ErrorKind::ConnectionReset.into());
            }
            if direction.bytes.is_empty() && direction.state == Flow::Open && !into.is_empty() {
                return Err(ErrorKind::WouldBlock.into());
            }
            let count = into.len().min(direction.bytes.len()).min(direction.step);
            for (to, byte) in into.iter_mut().zip(direction.bytes.drain(..count)) {
                *to = byte;
            }
            (count, std::mem::take(&mut direction.writers))
        };
        wake(woken);
        Ok(read)
    }

    /// See [`Stream::try_read_buf`].
    pub(crate) fn try_read_buf(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        let mut piece = vec![0; (into.capacity() - into.len()).min(WINDOW_BYTES)];
        let read = self.try_read(&mut piece)?;
        into.extend_from_slice(&piece[..read]);
        Ok(read)
    }

    /// See [`Stream::try_write`].
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write_vectored(&[IoSlice::new(bytes)])
    }

    /// See [`Stream::try_write_vectored`].
    pub(crate) fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let (written, woken) = {
            let mut line = self.lock();
            let direction = &mut line.directions[self.side];
            match direction.state {
                Flow::Ended | Flow::Reset => return Err(ErrorKind::BrokenPipe.into()),
                // As with TCP the writer hears of it only afterwards.
                Flow::Unread => (bytes, line.reset()),
                Flow::Open => {
                    let count = bytes.min(direction.room());
                    if count == 0 && bytes > 0 {
                        return Err(ErrorKind::WouldBlock.into());
                    }
                    direction.bytes.extend(pieces.iter().flat_map(|piece| piece.iter()).take(count));
                    (count, std::mem::take(&mut direction.readers))
                }
            }
        };
        wake(woken);
        Ok(written)
    }

    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let direction = &mut self.lock().directions[1 - self.side];
        if direction.bytes.is_empty() && direction.state == Flow::Open {
            note(&mut direction.readers, cx);
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let direction = &mut self.lock().directions[self.side];
        if direction.room() == 0 && direction.state == Flow::Open {
            note(&mut direction.writers, cx);
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    /// Waits until bytes can be read or the peer has closed.
    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|cx| self.poll_read_ready(cx)).await
    }

    /// Waits until bytes can be written.
    pub async fn writable(&self) -> io::Result<()> {
        poll_fn(|cx| self.poll_write_ready(cx)).await
    }

    /// What a look at the next byte finds: see [`crate::stream::Pending`].
    pub(crate) fn peek(&self) -> io::Result<usize> {
        let direction = &self.lock().directions[1 - self.side];
        match (direction.state, direction.bytes.len()) {
            (Flow::Reset, _) => Err(ErrorKind::ConnectionReset.into()),
            (Flow::Open, 0) => Err(ErrorKind::WouldBlock.into()),
            (_, bytes) => Ok(bytes.min(1)),
        }
    }
}

impl AsyncRead for End {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.try_read(buf.initialize_unfilled()) {
            Ok(read) => {
                buf.advance(read);
                Poll::Ready(Ok(()))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.poll_read_ready(cx),
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let woken = {
            let mut line = self.lock();
            let is_unread = !line.directions[1 - self.side].bytes.is_empty();
            if line.resets[self.side] || is_unread {
                line.reset()
            } else {
                let mut woken = Vec::new();
                for (side, state) in [(self.side, Flow::Ended), (1 - self.side, Flow::Unread)] {
                    let direction = &mut line.directions[side];
                    if direction.state == Flow::Open {
                        direction.state = state;
                    }
                    woken.extend(direction.waiting());
                }
                woken
            }
        };
        wake(woken);
    }
}

impl From<End> for Stream {
    fn from(end: End) -> Stream {
        Stream::Memory(end)
    }
}

/// Takes the operating system's place on this thread until dropped: [`crate::connect`] reaches its listeners alone.
#[derive(Debug)]
pub struct Network(Rc<Hosts>);

#[derive(Debug, Default)]
struct Hosts(RefCell<HashMap<Target, Rc<Backlog>>>);

#[derive(Debug, Default)]
struct Backlog {
    waiting: RefCell<VecDeque<End>>,
    acceptors: RefCell<Vec<Waker>>,
}

/// Takes the connections to one address of a [`Network`]; dropped, it refuses them.
#[derive(Debug)]
pub struct Listener {
    target: Target,
    backlog: Rc<Backlog>,
    hosts: Rc<Hosts>,
}

impl Network {
    /// An empty network for this thread, whose connections are counted from 1.
    pub fn install() -> Network {
        let hosts = Rc::<Hosts>::default();
        NEXT_NUMBER.set(1);
        NETWORK.set(Some(hosts.clone()));
        Network(hosts)
    }

    /// Listens at an address; whoever listened there before hears of no further connection.
    pub fn listen(&self, target: Target) -> Listener {
        let backlog = Rc::<Backlog>::default();
        self.0.0.borrow_mut().insert(target.clone(), backlog.clone());
        Listener { target, backlog, hosts: self.0.clone() }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // A thread that is ending has no network any more.
        let _ = NETWORK.try_with(|network| network.borrow_mut().take_if(|hosts| Rc::ptr_eq(hosts, &self.0)));
    }
}

impl Listener {
    /// The next connection.
    pub async fn accept(&self) -> End {
        poll_fn(|cx| match self.backlog.waiting.borrow_mut().pop_front() {
            Some(end) => Poll::Ready(end),
            None => {
                note(&mut self.backlog.acceptors.borrow_mut(), cx);
                Poll::Pending
            }
        })
        .await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut hosts = self.hosts.0.borrow_mut();
        if hosts.get(&self.target).is_some_and(|backlog| Rc::ptr_eq(backlog, &self.backlog)) {
            hosts.remove(&self.target);
        }
    }
}

/// Whether this thread has a network of its own.
pub(crate) fn is_installed() -> bool {
    NETWORK.with_borrow(Option::is_some)
}

/// Connects within this thread's own network; `None` where there is none.
pub(crate) fn dial(target: &Target) -> Option<io::Result<Stream>> {
    let hosts = NETWORK.with_borrow(Clone::clone)?;
    let Some(backlog) = hosts.0.borrow().get(target).cloned() else {
        return Some(Err(io::Error::from_raw_os_error(REFUSED)));
    };
    let peer = match target {
        Target::Inet(addr) => Address::inet(*addr),
        Target::Unix(_) => Address::Unix,
    };
    let (ours, theirs) = pair(own_address(peer), peer);
    backlog.waiting.borrow_mut().push_back(theirs);
    wake(backlog.acceptors.take());
    Some(Ok(ours.into()))
}

/// ECONNREFUSED: callers look at the number.
const REFUSED: i32 = 111;

/// Where a connection to `peer` comes from: the same host, a port that counts up.
fn own_address(peer: Address) -> Address {
    const FIRST_PORT: u32 = 20_000;
    match peer {
        Address::Inet(addr) => {
            let port = FIRST_PORT + NEXT_NUMBER.get() % FIRST_PORT;
            Address::inet((addr.ip(), port as u16).into())
        }
        Address::Unix => Address::Unix,
    }
}

#[cfg(test)]
mod tests;

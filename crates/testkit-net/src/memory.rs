// SPDX-License-Identifier: BSD-2-Clause
//! Streams within this process that have no descriptor, and a network of them.
//!
//! A connection is two directions, each a bounded queue of bytes. It behaves as TCP over a perfect wire: what is written can
//! be read at once; a reader may narrow the window, so that its peer has to wait; an end closes one direction or both, and
//! closing with unread bytes, or writing to who has closed, resets it and loses what was under way. Nothing here asks for a
//! clock or the operating system, so that a seed decides everything.
//!
//! The unit tests of `net` compile this file, too: a double from another crate would be one of that crate's `net`, whose
//! types are others than those of the crate under test.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice, Read};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use net::{Address, ConnectTarget, Socketless, Stream};

/// Bytes that a direction takes until somebody reads it, unless a script says otherwise.
pub const WINDOW_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub struct MemoryEnd {
    line: Arc<Mutex<Line>>,
    /// The number of this end: it writes to the direction of that index and reads from the other.
    side: usize,
}

#[derive(Debug)]
struct Line {
    directions: [Direction; 2],
    /// The ends that reset the connection when they close.
    resets: [bool; 2],
    addresses: [Address; 2],
    numbers: [u32; 2],
}

#[derive(Debug)]
struct Direction {
    bytes: VecDeque<u8>,
    window: usize,
    step: usize,
    state: Flow,
    readers: Vec<Waker>,
    writers: Vec<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Open,
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
}

/// A new connection; the addresses are those of its first and of its second end.
pub fn pair(first: Address, second: Address) -> (MemoryEnd, MemoryEnd) {
    let number = || NEXT_NUMBER.replace(NEXT_NUMBER.get().wrapping_add(1));
    let line = Line {
        directions: [Direction::new(), Direction::new()],
        resets: [false; 2],
        addresses: [first, second],
        numbers: [number(), number()],
    };
    let line = Arc::new(Mutex::new(line));
    let end = |side| MemoryEnd { line: line.clone(), side };
    (end(0), end(1))
}

impl MemoryEnd {
    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
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

    pub fn unread(&self) -> usize {
        self.lock().directions[1 - self.side].bytes.len()
    }

    /// Cuts the connection: both ends find it reset, and what was under way is lost.
    pub fn reset(&self) {
        let woken = self.lock().reset();
        wake(woken);
    }

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
            direction.bytes.read_exact(&mut into[..count])?;
            (count, std::mem::take(&mut direction.writers))
        };
        wake(woken);
        Ok(read)
    }

    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.write(&[IoSlice::new(bytes)])
    }

    fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
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
                    let mut left = count;
                    for piece in pieces {
                        let taken = &piece[..piece.len().min(left)];
                        direction.bytes.extend(taken);
                        left -= taken.len();
                    }
                    (count, std::mem::take(&mut direction.readers))
                }
            }
        };
        wake(woken);
        Ok(written)
    }

    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|cx| self.poll_readable(cx)).await
    }

    pub async fn writable(&self) -> io::Result<()> {
        poll_fn(|cx| self.poll_writable(cx)).await
    }
}

impl Socketless for MemoryEnd {
    fn number(&self) -> u32 {
        self.lock().numbers[self.side]
    }

    fn local(&self) -> Address {
        self.lock().addresses[self.side]
    }

    fn peer(&self) -> Address {
        self.lock().addresses[1 - self.side]
    }

    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let direction = &mut self.lock().directions[1 - self.side];
        if direction.bytes.is_empty() && direction.state == Flow::Open {
            note(&mut direction.readers, cx);
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let direction = &mut self.lock().directions[self.side];
        if direction.room() == 0 && direction.state == Flow::Open {
            note(&mut direction.writers, cx);
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        MemoryEnd::try_read(self, into)
    }

    fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write(pieces)
    }

    fn shutdown_write(&self) {
        MemoryEnd::shutdown_write(self);
    }

    fn reset_on_close(&self) {
        self.lock().resets[self.side] = true;
    }

    fn peek(&self) -> io::Result<usize> {
        let direction = &self.lock().directions[1 - self.side];
        match (direction.state, direction.bytes.len()) {
            (Flow::Reset, _) => Err(ErrorKind::ConnectionReset.into()),
            (Flow::Open, 0) => Err(ErrorKind::WouldBlock.into()),
            (_, bytes) => Ok(bytes.min(1)),
        }
    }
}

impl Drop for MemoryEnd {
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

impl From<MemoryEnd> for Stream {
    fn from(end: MemoryEnd) -> Stream {
        Stream::Socketless(Box::new(end))
    }
}

/// Takes the operating system's place on this thread until dropped: [`net::connect`] reaches its listeners alone.
#[derive(Debug)]
pub struct MemoryNetwork(Rc<Hosts>);

#[derive(Debug, Default)]
struct Hosts(RefCell<HashMap<ConnectTarget, Rc<Backlog>>>);

#[derive(Debug, Default)]
struct Backlog {
    waiting: RefCell<VecDeque<MemoryEnd>>,
    acceptors: RefCell<Vec<Waker>>,
}

/// Takes the connections to one address of a [`MemoryNetwork`]; dropped, it refuses them.
#[derive(Debug)]
pub struct MemoryListener {
    target: ConnectTarget,
    backlog: Rc<Backlog>,
    hosts: Rc<Hosts>,
}

impl MemoryNetwork {
    /// An empty network for this thread, whose connections are counted from 1.
    pub fn install() -> MemoryNetwork {
        let hosts = Rc::<Hosts>::default();
        NEXT_NUMBER.set(1);
        net::network::install(Some(hosts.clone()));
        MemoryNetwork(hosts)
    }

    /// Listens at an address; whoever listened there before hears of no further connection.
    pub fn listen(&self, target: ConnectTarget) -> MemoryListener {
        let backlog = Rc::<Backlog>::default();
        self.0.0.borrow_mut().insert(target.clone(), backlog.clone());
        MemoryListener { target, backlog, hosts: self.0.clone() }
    }
}

impl Drop for MemoryNetwork {
    fn drop(&mut self) {
        // Only its own: another one may have been installed since.
        let before = net::network::install(None);
        let is_own =
            |network: &Rc<dyn net::network::Network>| std::ptr::addr_eq(Rc::as_ptr(network), Rc::as_ptr(&self.0));
        if before.as_ref().is_some_and(|network| !is_own(network)) {
            net::network::install(before);
        }
    }
}

impl MemoryListener {
    pub async fn accept(&self) -> MemoryEnd {
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

impl Drop for MemoryListener {
    fn drop(&mut self) {
        let mut hosts = self.hosts.0.borrow_mut();
        if hosts.get(&self.target).is_some_and(|backlog| Rc::ptr_eq(backlog, &self.backlog)) {
            hosts.remove(&self.target);
        }
    }
}

impl net::network::Network for Hosts {
    fn connect(&self, target: &ConnectTarget) -> io::Result<Stream> {
        let backlog = self.0.borrow().get(target).cloned();
        let backlog = backlog.ok_or_else(|| io::Error::from_raw_os_error(REFUSED))?;
        let peer = match target {
            ConnectTarget::Inet(addr) => Address::inet(*addr),
            ConnectTarget::Unix(_) => Address::Unix,
        };
        let (ours, theirs) = pair(own_address(peer), peer);
        backlog.waiting.borrow_mut().push_back(theirs);
        wake(backlog.acceptors.take());
        Ok(ours.into())
    }

    fn pair(&self) -> (Stream, Stream) {
        let (one, other) = pair(Address::Unix, Address::Unix);
        (one.into(), other.into())
    }
}

/// ECONNREFUSED: callers look at the number.
pub const REFUSED: i32 = 111;

/// The address that a connection to `peer` comes from: the same host, a port that counts up.
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

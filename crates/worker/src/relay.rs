// SPDX-License-Identifier: BSD-2-Clause
//! What two workers tell each other at an upgrade: what is invalidated, and that the former one has let go of the stores'
//! memory.
//!
//! Frames on a socket pair, both ways: a kind, a length of four bytes (little-endian), so many bytes. What is to be carried
//! out is answered; one question at a time is open. The end of the stream means that the other one is gone. A thread of its
//! own hears, and never asks: so the two never wait for each other.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use base::clock;
use parking_lot::{Condvar, Mutex};
use storage::journal::JournalPeer;
use sys::fd::Interest;

/// Journal entries, to be carried out.
const ENTRIES: u8 = 1;
/// Nothing in the stores' memory is read any more.
const LET_GO: u8 = 2;
/// Entries were carried out: a byte, [`DONE`] or another one.
const ANSWER: u8 = 3;

const DONE: u8 = 1;
const NOT_DONE: u8 = 0;

const HEAD: usize = 5;
const LONGEST: usize = 64 << 20;
/// Longest time for the other one to carry something out: it may be about to begin.
const PATIENCE: Duration = Duration::from_secs(5);

/// The way to the other worker.
#[derive(Clone, Debug)]
pub struct Relay(Arc<Link>);

#[derive(Debug)]
struct Link {
    socket: OwnedFd,
    /// Held while a frame is written.
    writing: Mutex<()>,
    /// Held while an answer is awaited.
    asking: Mutex<()>,
    answer: Mutex<Option<bool>>,
    has_answer: Condvar,
    /// A frame or an answer didn't come through, so that what follows would be misread. The socket stays open: its end means
    /// that this process is gone.
    is_broken: AtomicBool,
    /// The other one says nothing more: it is gone, or gave up telling. It may hear.
    is_unanswered: AtomicBool,
}

impl Relay {
    /// Both ends of the way, in this process: who asks, and who hears.
    ///
    /// # Errors
    /// The system's.
    pub fn open(socket: OwnedFd) -> io::Result<(Relay, Ear)> {
        sys::fd::set_nonblocking(&socket, true)?;
        let relay = Relay(Arc::new(Link {
            socket,
            writing: Mutex::default(),
            asking: Mutex::default(),
            answer: Mutex::default(),
            has_answer: Condvar::new(),
            is_broken: AtomicBool::new(false),
            is_unanswered: AtomicBool::new(false),
        }));
        let ear = Ear { relay: relay.clone(), read: Vec::new(), is_deaf: false };
        Ok((relay, ear))
    }

    /// Says that nothing in the stores' memory is read here any more.
    ///
    /// # Errors
    /// It can't be said.
    pub fn let_go(&self) -> io::Result<()> {
        self.send(LET_GO, &[])
    }

    pub fn answer(&self, is_done: bool) {
        // Who can't be answered stops waiting.
        let _ = self.send(ANSWER, &[if is_done { DONE } else { NOT_DONE }]);
    }

    fn send(&self, kind: u8, payload: &[u8]) -> io::Result<()> {
        if self.0.is_broken.load(Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if payload.len() > LONGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut frame = vec![kind];
        frame.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        frame.extend_from_slice(payload);
        let _writing = self.0.writing.lock();
        self.write(&frame).inspect_err(|_| self.break_off())
    }

    fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        let deadline = clock::now() + PATIENCE;
        while !bytes.is_empty() {
            match sys::fd::write(&self.0.socket, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = deadline.saturating_duration_since(clock::now());
                    if !sys::fd::wait(&self.0.socket, Interest::Write, Some(left))? {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Nothing is said any more, and nobody waits.
    fn break_off(&self) {
        self.0.is_broken.store(true, Relaxed);
        self.stop_asking();
    }

    /// Nothing is asked any more, and nobody waits: no answer will come.
    fn stop_asking(&self) {
        self.0.is_unanswered.store(true, Relaxed);
        self.0.answer.lock().get_or_insert(false);
        self.0.has_answer.notify_all();
    }
}

impl JournalPeer for Relay {
    fn carry_out(&mut self, entries: &[u8]) -> io::Result<()> {
        let _asking = self.0.asking.lock();
        *self.0.answer.lock() = None;
        if self.0.is_unanswered.load(Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.send(ENTRIES, entries)?;
        let mut answer = self.0.answer.lock();
        if answer.is_none() {
            self.0.has_answer.wait_for(&mut answer, PATIENCE);
        }
        match *answer {
            Some(true) => Ok(()),
            Some(false) => Err(io::Error::other("the other worker could not")),
            None => {
                drop(answer);
                // Its answer would be taken for that to the next question.
                self.break_off();
                Err(io::ErrorKind::TimedOut.into())
            }
        }
    }

    fn give_up(&mut self) {
        let _ = sys::fd::stop_writing(&self.0.socket);
        self.break_off();
    }

    fn given_up(&self) -> Box<dyn Fn() -> bool + Send + Sync> {
        let link = self.0.clone();
        Box::new(move || sys::fd::is_silent(&link.socket).unwrap_or(true))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum RelayMessage {
    Entries(Vec<u8>),
    /// The other worker reads nothing in the stores' memory any more.
    LetGo,
    Gone,
    /// Nothing came in time.
    Nothing,
}

#[derive(Debug)]
pub struct Ear {
    relay: Relay,
    read: Vec<u8>,
    /// True after an invalid message: only the end is waited for.
    is_deaf: bool,
}

impl Ear {
    pub fn hear(&mut self, pause: Duration) -> RelayMessage {
        let said = self.next(pause);
        if said == RelayMessage::Gone || self.is_deaf {
            self.relay.stop_asking();
        }
        said
    }

    pub fn relay(&self) -> &Relay {
        &self.relay
    }

    fn next(&mut self, pause: Duration) -> RelayMessage {
        let socket = &self.relay.0.socket;
        if self.is_deaf {
            std::thread::sleep(pause);
            return if sys::fd::is_hung_up(socket).unwrap_or(true) {
                RelayMessage::Gone
            } else {
                RelayMessage::Nothing
            };
        }
        if let Some(said) = self.frame() {
            return said;
        }
        let socket = &self.relay.0.socket;
        if !matches!(sys::fd::wait(socket, Interest::Read, Some(pause)), Ok(true)) {
            return RelayMessage::Nothing;
        }
        let mut buf = [0; 16 << 10];
        match sys::fd::read(socket, &mut buf) {
            Ok(0) => return RelayMessage::Gone,
            Ok(count) => self.read.extend_from_slice(&buf[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return RelayMessage::Gone,
        }
        self.frame().unwrap_or(RelayMessage::Nothing)
    }

    fn frame(&mut self) -> Option<RelayMessage> {
        let (head, rest) = self.read.split_at_checked(HEAD)?;
        let len = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let kind = head[0];
        if len > LONGEST || !matches!(kind, ENTRIES | LET_GO | ANSWER) {
            self.is_deaf = true;
            return Some(RelayMessage::Nothing);
        }
        let payload = rest.get(..len)?.to_vec();
        self.read.drain(..HEAD + len);
        match kind {
            ENTRIES => Some(RelayMessage::Entries(payload)),
            LET_GO => Some(RelayMessage::LetGo),
            _ => {
                *self.relay.0.answer.lock() = Some(payload == [DONE]);
                self.relay.0.has_answer.notify_all();
                Some(RelayMessage::Nothing)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(5);

    fn pair() -> [(Relay, Ear); 2] {
        let (a, b) = sys::fd::socket_pair().unwrap();
        [a, b].map(|socket| Relay::open(socket).unwrap())
    }

    /// Answers what it hears until the other one is gone: what that was.
    fn listen(
        mut ear: Ear,
        is_done: impl Fn(&[u8]) -> bool + Send + 'static,
    ) -> std::thread::JoinHandle<Vec<RelayMessage>> {
        std::thread::spawn(move || {
            let mut heard = Vec::new();
            loop {
                match ear.hear(PAUSE) {
                    RelayMessage::Nothing => {}
                    RelayMessage::Gone => return heard,
                    RelayMessage::Entries(entries) => {
                        ear.relay().answer(is_done(&entries));
                        heard.push(RelayMessage::Entries(entries));
                    }
                    RelayMessage::LetGo => heard.push(RelayMessage::LetGo),
                }
            }
        })
    }

    #[test]
    fn both_may_ask_at_a_time_and_are_answered() {
        let [(mut a, a_ear), (mut b, b_ear)] = pair();
        let (_a_hears, b_hears) = (listen(a_ear, |_| true), listen(b_ear, |entries| entries != b"no"));
        let long = vec![7; 1 << 20];
        std::thread::scope(|scope| {
            scope.spawn(|| (0..100).for_each(|_| b.carry_out(b"from b").unwrap()));
            (0..100).for_each(|_| a.carry_out(b"from a").unwrap());
            a.carry_out(&long).unwrap();
            assert!(a.carry_out(b"no").is_err() && a.carry_out(b"yes").is_ok());
            a.let_go().unwrap();
        });
        drop((a, b));
        // The ears hold both ends.
        assert!(!b_hears.is_finished());
    }

    #[test]
    fn who_is_told_nothing_any_more_knows_it_at_once_and_may_still_speak() {
        let [(mut a, mut a_ear), (mut b, mut b_ear)] = pair();
        let given_up = b.given_up();
        assert!(!given_up());
        a.give_up();
        assert!(given_up() && a.carry_out(b"x").is_err());
        // Its own thread has heard that before it lets go.
        assert_eq!(b_ear.hear(PAUSE), RelayMessage::Gone);
        let begin = clock::now();
        assert!(b.carry_out(b"x").is_err());
        assert!(begin.elapsed() < PATIENCE);
        b.let_go().unwrap();
        assert_eq!(a_ear.hear(PAUSE), RelayMessage::LetGo);
    }

    #[test]
    fn who_is_gone_is_not_waited_for() {
        let [(mut a, a_ear), b] = pair();
        let hears = listen(a_ear, |_| true);
        drop(b);
        let begin = clock::now();
        assert!(a.carry_out(b"x").is_err() && a.let_go().is_err());
        assert!(begin.elapsed() < PATIENCE);
        assert_eq!(hears.join().unwrap(), []);
    }

    #[test]
    fn who_goes_while_it_is_asked_is_not_waited_for() {
        let [(mut a, a_ear), (b, mut b_ear)] = pair();
        let hears = listen(a_ear, |_| true);
        let asks = std::thread::spawn(move || a.carry_out(b"x").is_err());
        while b_ear.hear(PAUSE) == RelayMessage::Nothing {}
        drop((b, b_ear));
        assert!(asks.join().unwrap());
        assert_eq!(hears.join().unwrap(), []);
    }

    #[test]
    fn what_makes_no_sense_is_not_heard_and_the_end_is() {
        let (a, b) = sys::fd::socket_pair().unwrap();
        let (_relay, mut ear) = Relay::open(b).unwrap();
        sys::fd::write(&a, &[9, 0, 0, 0, 0, 1, 2, 3]).unwrap();
        assert_eq!((ear.hear(PAUSE), ear.hear(PAUSE)), (RelayMessage::Nothing, RelayMessage::Nothing));
        drop(a);
        assert_eq!(ear.hear(PAUSE), RelayMessage::Gone);
    }
}

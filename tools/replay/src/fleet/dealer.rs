// SPDX-License-Identifier: BSD-2-Clause
//! Deals a stream's requests to the workers, in turn. A worker that has enough of them is passed over, unless the log's clock
//! says when each is due: then who is next waits for it, so that each second is everybody's.

use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::wire::{self, Frame, ReplayFrameKind};
use super::{AHEAD, MAX_STREAMS};
use crate::reader::{PlannedRequest, ReaderReport, ReplayBatch, SentBatch};
use crate::target::TargetAddresses;

/// Requests and bytes that go to a worker at once.
const HAND_REQUESTS: usize = 256;
const HAND_BYTES: usize = 64 << 10;
/// Between two looks whether a worker that was passed over has room, while the source brings nothing.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Clone, Debug)]
pub struct DealtWorker {
    pub is_alive: bool,
    /// Batches that it may be sent, of each stream.
    credits: [usize; MAX_STREAMS],
    /// Requests that it was dealt, of each stream, since the beginning.
    pub dealt: [u64; MAX_STREAMS],
    /// True if it was sent something, or there is nothing for it.
    is_served: [bool; MAX_STREAMS],
}

/// A connection to a worker, and the number of addresses that the worker knows.
struct Line {
    stream: TcpStream,
    addresses: usize,
}

struct Inner {
    dealt_workers: Vec<DealtWorker>,
    generation: [u32; MAX_STREAMS],
}

pub struct DealtWorkers {
    inner: Mutex<Inner>,
    changed: Condvar,
    lines: Vec<Mutex<Line>>,
    addresses: TargetAddresses,
}

impl DealtWorkers {
    pub fn new(lines: Vec<TcpStream>, addresses: TargetAddresses) -> DealtWorkers {
        let worker = DealtWorker {
            is_alive: true,
            credits: [AHEAD; MAX_STREAMS],
            dealt: [0; MAX_STREAMS],
            is_served: [false; MAX_STREAMS],
        };
        let inner = Inner { dealt_workers: vec![worker; lines.len()], generation: [0; MAX_STREAMS] };
        let lines = lines.into_iter().map(|stream| Mutex::new(Line { stream, addresses: 0 })).collect();
        DealtWorkers { inner: Mutex::new(inner), changed: Condvar::new(), lines, addresses }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn worker(&self, at: usize) -> DealtWorker {
        self.lock().dealt_workers[at].clone()
    }

    pub fn living(&self) -> Vec<usize> {
        self.lock().dealt_workers.iter().enumerate().filter(|(_, worker)| worker.is_alive).map(|(at, _)| at).collect()
    }

    /// Removes a worker that is gone; returns whether it was there.
    pub fn lose(&self, at: usize) -> bool {
        let was = std::mem::replace(&mut self.lock().dealt_workers[at].is_alive, false);
        self.changed.notify_all();
        was
    }

    /// Notes that a worker has begun a batch.
    pub fn credit(&self, at: usize, stream: usize, generation: u32) {
        let mut inner = self.lock();
        if inner.generation[stream] == generation {
            let credits = &mut inner.dealt_workers[at].credits[stream];
            *credits = AHEAD.min(*credits + 1);
            self.changed.notify_all();
        }
    }

    /// The source of a stream begins anew: who deals the old one stops. The new generation.
    pub fn renew(&self, stream: usize) -> u32 {
        let mut inner = self.lock();
        inner.generation[stream] += 1;
        for worker in &mut inner.dealt_workers {
            (worker.credits[stream], worker.is_served[stream]) = (AHEAD, false);
        }
        self.changed.notify_all();
        inner.generation[stream]
    }

    /// Sends an order; a worker that can't be written to is gone.
    pub fn send(&self, at: usize, frame: &Frame) {
        let sent = {
            let mut line = self.lines[at].lock().unwrap_or_else(PoisonError::into_inner);
            frame.write(&mut line.stream)
        };
        if sent.is_err() {
            self.lose(at);
        }
    }

    /// Waits until each worker has something to send, or so long.
    pub fn wait_served(&self, stream: usize, limit: Duration) {
        let inner = self.lock();
        let waits =
            |inner: &mut Inner| inner.dealt_workers.iter().any(|worker| worker.is_alive && !worker.is_served[stream]);
        drop(self.changed.wait_timeout_while(inner, limit, waits));
    }

    fn send_batch(&self, at: usize, frame: &Frame) {
        let sent = {
            let mut line = self.lines[at].lock().unwrap_or_else(PoisonError::into_inner);
            self.send_addresses(&mut line).and_then(|()| frame.write(&mut line.stream))
        };
        if sent.is_err() {
            self.lose(at);
        }
    }

    fn send_addresses(&self, line: &mut Line) -> std::io::Result<()> {
        let new: Vec<String> = {
            let all = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
            all[line.addresses..].iter().map(ToString::to_string).collect()
        };
        for address in new {
            Frame::text(ReplayFrameKind::Address, &address).write(&mut line.stream)?;
            line.addresses += 1;
        }
        Ok(())
    }
}

enum Credit {
    Taken,
    NoneLeft,
    Gone,
    Over,
}

/// The dealer of one stream, from its source's beginning to its end.
pub struct Dealer {
    pub from: Receiver<SentBatch>,
    pub told: Arc<ReaderReport>,
    pub dealt_workers: Arc<DealtWorkers>,
    pub stream: usize,
    pub generation: u32,
    pub to: Vec<usize>,
    /// The log's clock is heeded.
    pub is_timed: bool,
    pub most: Option<u64>,
}

/// Requests that go to one worker next.
struct Hand {
    at: usize,
    batch: ReplayBatch,
    is_gone: bool,
}

impl Hand {
    fn is_full(&self) -> bool {
        self.batch.asks.len() >= HAND_REQUESTS || self.batch.bytes.len() >= HAND_BYTES
    }
}

impl Dealer {
    pub fn run(self) {
        let hand = |at: &usize| Hand { at: *at, batch: ReplayBatch::default(), is_gone: false };
        let mut hands: Vec<Hand> = self.to.iter().map(hand).collect();
        let _ = self.deal(&mut hands);
        for hand in &mut hands {
            let _ = self.flush(hand, true);
            self.dealt_workers.send(hand.at, &Frame::of_stream(ReplayFrameKind::End, self.stream, self.generation));
            self.served(hand.at);
        }
        self.told.is_over.store(true, Ordering::Relaxed);
    }

    /// None: there is nobody left to deal to, or the source is read anew.
    fn deal(&self, hands: &mut [Hand]) -> Option<()> {
        let (mut turn, mut left) = (0, self.most.unwrap_or(u64::MAX));
        while let Some((batch, base)) = self.next(hands)? {
            for ask in &batch.asks {
                if left == 0 {
                    return Some(());
                }
                left -= 1;
                let at = self.pick(hands, &mut turn)?;
                let due = base.saturating_add(ask.due);
                hands[at].batch.push(batch.head(ask), PlannedRequest { due, ..*ask });
            }
        }
        Some(())
    }

    /// The reader's next batch; what is in the hands goes out before it is waited for.
    fn next(&self, hands: &mut [Hand]) -> Option<Option<SentBatch>> {
        match self.from.try_recv() {
            Ok(batch) => return Some(Some(batch)),
            Err(TryRecvError::Disconnected) => return Some(None),
            Err(TryRecvError::Empty) => {}
        }
        loop {
            for hand in hands.iter_mut() {
                self.flush(hand, false)?;
            }
            let got = if hands.iter().all(|hand| hand.is_gone || hand.batch.asks.is_empty()) {
                self.from.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                self.from.recv_timeout(LOOK)
            };
            match got {
                Ok(batch) => return Some(Some(batch)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Some(None),
            }
        }
    }

    /// The hand that the next request goes to; what it held before is on its way if it was full.
    fn pick(&self, hands: &mut [Hand], turn: &mut usize) -> Option<usize> {
        loop {
            for _ in 0..hands.len() {
                *turn = (*turn + 1) % hands.len();
                let hand = &mut hands[*turn];
                if !hand.is_gone && hand.is_full() {
                    self.flush(hand, self.is_timed)?;
                }
                if !hand.is_gone && !hand.is_full() {
                    return Some(*turn);
                }
            }
            if hands.iter().all(|hand| hand.is_gone) || !self.wait() {
                return None;
            }
        }
    }

    /// Sends a hand, if the worker has room or is waited for. None: the source is read anew.
    fn flush(&self, hand: &mut Hand, waits: bool) -> Option<()> {
        if hand.batch.asks.is_empty() || hand.is_gone {
            return Some(());
        }
        loop {
            match self.take_credit(hand.at, hand.batch.asks.len() as u64) {
                Credit::Taken => {
                    let batch = std::mem::take(&mut hand.batch);
                    self.dealt_workers.send_batch(hand.at, &wire::batch(self.stream, self.generation, &batch));
                    self.served(hand.at);
                    return Some(());
                }
                Credit::NoneLeft if waits => {
                    self.wait();
                }
                Credit::NoneLeft => return Some(()),
                Credit::Gone => {
                    hand.is_gone = true;
                    return Some(());
                }
                Credit::Over => return None,
            }
        }
    }

    /// A worker that is gone was dealt what was meant for it: nobody else sends it.
    fn take_credit(&self, at: usize, requests: u64) -> Credit {
        let mut inner = self.dealt_workers.lock();
        if inner.generation[self.stream] != self.generation {
            return Credit::Over;
        }
        let worker = &mut inner.dealt_workers[at];
        if !worker.is_alive {
            worker.dealt[self.stream] += requests;
            return Credit::Gone;
        }
        if worker.credits[self.stream] == 0 {
            return Credit::NoneLeft;
        }
        worker.credits[self.stream] -= 1;
        worker.dealt[self.stream] += requests;
        Credit::Taken
    }

    fn served(&self, at: usize) {
        let mut inner = self.dealt_workers.lock();
        if inner.generation[self.stream] == self.generation {
            inner.dealt_workers[at].is_served[self.stream] = true;
            self.dealt_workers.changed.notify_all();
        }
    }

    /// Waits until something changes; false when the source is read anew.
    fn wait(&self) -> bool {
        let inner = self.dealt_workers.lock();
        if inner.generation[self.stream] != self.generation {
            return false;
        }
        // Bounded, since a change may have come before the lock.
        let inner = self.dealt_workers.changed.wait_timeout(inner, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        inner.generation[self.stream] == self.generation
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc::sync_channel;

    use super::super::wire::MAX_FRAME;
    use super::*;

    /// Number of requests that others are sent before a busy worker is passed over.
    const BUSY: usize = 2 * AHEAD * HAND_REQUESTS;

    /// Deals `n` requests to workers of which `stuck` is busy for long and `gone` isn't there: when what each was sent is due.
    fn dealt(n: u64, workers: usize, is_timed: bool, stuck: Option<usize>, gone: Option<usize>) -> Vec<Vec<u64>> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near: Vec<_> = (0..workers).map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap()).collect();
        let far: Vec<_> = (0..workers).map(|_| listener.accept().unwrap().0).collect();
        let addresses = TargetAddresses::default();
        addresses.lock().unwrap().push(crate::target::ReplayAddress::Unix("x".into()));
        let dealt_workers = Arc::new(DealtWorkers::new(near, addresses));
        if let Some(at) = gone {
            dealt_workers.lose(at);
        }
        let (to, from) = sync_channel(1);
        let dealer = Dealer {
            from,
            told: Arc::default(),
            dealt_workers: dealt_workers.clone(),
            stream: 0,
            generation: 0,
            to: (0..workers).collect(),
            is_timed,
            most: None,
        };
        let others = AtomicUsize::new(0);
        let others = &others;
        std::thread::scope(|scope| {
            let ears: Vec<_> = far
                .into_iter()
                .enumerate()
                .map(|(at, mut far)| {
                    let dealt_workers = dealt_workers.clone();
                    scope.spawn(move || {
                        let mut dues = Vec::new();
                        while let Ok(frame) = Frame::read(&mut far, MAX_FRAME) {
                            match frame.kind {
                                ReplayFrameKind::Batch => {
                                    dues.extend(wire::read_batch(&frame, 1).unwrap().asks.iter().map(|ask| ask.due));
                                    if stuck != Some(at) {
                                        others.fetch_max(dues.len(), Ordering::SeqCst);
                                    }
                                    while stuck == Some(at) && others.load(Ordering::SeqCst) < BUSY {
                                        std::thread::yield_now();
                                    }
                                    dealt_workers.credit(at, 0, 0);
                                }
                                ReplayFrameKind::End => break,
                                _ => {}
                            }
                        }
                        dues
                    })
                })
                .collect();
            scope.spawn(move || {
                let ask = PlannedRequest { begin: 0, end: 0, address: 0, due: 0, is_head: false, is_safe: true };
                let mut batch = ReplayBatch::default();
                for due in 0..n {
                    batch.push(b"x", PlannedRequest { due, ..ask });
                    if batch.asks.len() == 100 || due + 1 == n {
                        to.send((Arc::new(std::mem::take(&mut batch)), 0)).unwrap();
                    }
                }
            });
            dealer.run();
            // Those that are gone hear no end.
            gone.into_iter()
                .for_each(|at| drop(dealt_workers.lines[at].lock().unwrap().stream.shutdown(std::net::Shutdown::Both)));
            ears.into_iter().map(|ear| ear.join().unwrap()).collect()
        })
    }

    fn counts(dealt: &[Vec<u64>]) -> Vec<usize> {
        dealt.iter().map(Vec::len).collect()
    }

    #[test]
    fn each_request_goes_to_one_worker_in_turn() {
        for is_timed in [false, true] {
            let got = dealt(10_000, 3, is_timed, None, None);
            // Without a clock, who is slow to begin gets fewer.
            let is_even = counts(&got).iter().all(|n| (3_000..3_700).contains(n));
            assert!(is_even || !is_timed, "{:?}", counts(&got));
            assert!(got.iter().all(|dues| dues.is_sorted()));
            let mut all = got.concat();
            all.sort_unstable();
            assert_eq!(all, (0..10_000).collect::<Vec<_>>());
        }
        assert_eq!(counts(&dealt(10, 5, false, None, None)), [2; 5]);
    }

    #[test]
    fn one_that_is_gone_is_passed_over() {
        let got = dealt(5_000, 3, true, None, Some(1));
        let (n, lost) = (counts(&got), HAND_REQUESTS);
        assert!(n[1] == 0 && n[0] + n[2] >= 5_000 - lost, "{n:?}");
    }

    #[test]
    fn one_that_is_busy_is_passed_over_unless_the_clock_rules() {
        let got = dealt((AHEAD * HAND_REQUESTS) as u64 * 4, 2, false, Some(0), None);
        let n = counts(&got);
        assert_eq!(n[0] + n[1], AHEAD * HAND_REQUESTS * 4);
        assert!(n[1] >= BUSY, "{n:?}");
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! A worker: waits for a coordinator, sends what it is dealt, tells each second what it counted.
//!
//! The main thread sends (`engine`). One thread takes in who connects, and for each session one reads orders and requests
//! and one writes. A coordinator that vanishes ends the run: nobody is loaded without somebody who looks.

use std::io::BufReader;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use logq::source::strerror;
use serde_json::{Value, json};
use tls::Trust;
use toolkit::print;

use super::orders::{Open, OrderPart};
use super::wire::{self, Frame, MAX_FRAME, ReplayFrameKind};
use super::{AHEAD, handshake, prepare, tally};
use crate::end::ReplayEnd;
use crate::engine::ReplayEngine;
use crate::reader::{ReaderReport, SentBatch};
use crate::server;
use crate::stream::ReplayStream;
use crate::target::{MAX_ADDRESSES, ReplayAddress, TargetAddresses};

/// Frames that wait to be written: credits for all that may be under way, and some seconds' figures.
const MAX_WAITING: usize = 4 * AHEAD;
/// Orders that wait: a coordinator gives the next part when the last one is reported.
const MAX_ORDERS: usize = 8;
/// Longest time between two looks.
const PATIENCE: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug)]
pub struct Serve {
    pub address: SocketAddr,
    pub secret: Vec<u8>,
    pub bind: Vec<IpAddr>,
}

enum Order {
    Open(Open, Vec<(Receiver<SentBatch>, Arc<ReaderReport>, u32)>),
    Refill(Receiver<SentBatch>, Arc<ReaderReport>, u32),
    Part(Value),
}

/// Longest wait of a coordinator for the end of another's run whose coordinator has just gone.
const ENDING: Duration = Duration::from_secs(2);

/// The place of the one coordinator that a worker serves at a time.
#[derive(Default)]
struct CoordinatorSlot {
    is_taken: Mutex<bool>,
    was_left: Condvar,
}

impl CoordinatorSlot {
    /// Takes the place, for which it waits up to [`ENDING`]; false if somebody else keeps it.
    fn take(&self) -> bool {
        let is_taken = self.is_taken.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.was_left.wait_timeout_while(is_taken, ENDING, |is_taken| *is_taken);
        let (mut is_taken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !std::mem::replace(&mut *is_taken, true)
    }

    fn leave(&self) {
        *self.is_taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.was_left.notify_one();
    }
}

/// Serves coordinators, one after the other, until Ctrl-C.
///
/// # Errors
/// It can't listen.
pub fn serve(o: &Serve) -> Result<i32, String> {
    let failed = |e: std::io::Error| format!("{}: {}", o.address, strerror(&e));
    let listener = TcpListener::bind(o.address).map_err(failed)?;
    let mut engine = ReplayEngine::new(TargetAddresses::default()).map_err(failed)?;
    print::out(format_args!(
        "lacquer replay: waiting for a coordinator at {}\n",
        listener.local_addr().map_err(failed)?
    ));
    let (slot, (to, sessions)) = (Arc::new(CoordinatorSlot::default()), sync_channel(1));
    let (taking, secret, wake) = (slot.clone(), o.secret.clone(), engine.waker());
    std::thread::Builder::new()
        .name("replay-greeter".into())
        .spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut is_taken = false;
                let take = || {
                    is_taken = taking.take();
                    (!is_taken).then(|| "it is busy with another run".to_owned())
                };
                let greeted = prepare(&stream).and_then(|()| handshake::by_worker(&stream, &secret, take));
                let peer = stream.peer_addr().map_or_else(|_| "somebody".into(), |peer| peer.to_string());
                match greeted {
                    Ok(()) => {
                        if to.send((stream, peer)).is_err() {
                            return;
                        }
                        wake();
                    }
                    Err(error) => {
                        if is_taken {
                            taking.leave();
                        }
                        print::err(format_args!("lacquer replay: {peer}: refused: {error}\n"));
                    }
                }
            }
        })
        .map_err(failed)?;
    loop {
        let (stream, peer) = match sessions.try_recv() {
            Ok(session) => session,
            Err(TryRecvError::Disconnected) => return Err(format!("{}: it doesn't listen any more", o.address)),
            Err(TryRecvError::Empty) => {
                if engine.rest(PATIENCE).map_err(failed)? {
                    return Ok(0);
                }
                continue;
            }
        };
        print::err(format_args!("lacquer replay: {peer}: a run begins\n"));
        let ended = session(&mut engine, o, stream);
        // Its connections end with it.
        engine.renew(TargetAddresses::default());
        slot.leave();
        let text = ended.as_ref().err().map_or("the run is over".to_owned(), strerror);
        print::err(format_args!("lacquer replay: {peer}: {text}\n"));
        if matches!(ended, Ok(true)) {
            return Ok(0);
        }
    }
}

/// One coordinator's run; true after Ctrl-C here.
fn session(engine: &mut ReplayEngine, o: &Serve, stream: TcpStream) -> std::io::Result<bool> {
    let addresses = TargetAddresses::default();
    engine.renew(addresses.clone());
    let (out, frames) = sync_channel::<Frame>(MAX_WAITING);
    let (orders_in, orders) = sync_channel(MAX_ORDERS);
    let mut to = stream.try_clone()?;
    let writer = std::thread::Builder::new()
        .name("replay-writer".into())
        .spawn(move || frames.iter().all(|frame| frame.write(&mut to).is_ok()))?;
    let (from, wake, stop) = (stream.try_clone()?, engine.waker(), engine.stopper());
    let reader = std::thread::Builder::new().name("replay-orders".into()).spawn(move || {
        let mut inbox =
            Inbox { feeds: Vec::new(), addresses, orders: orders_in, wake: Box::new(wake), stop: Box::new(stop) };
        let mut from = BufReader::with_capacity(1 << 18, from);
        let ended = inbox.read_all(&mut from);
        // Nobody looks any more: the run ends.
        (inbox.stop)();
        let Inbox { orders, wake, .. } = inbox;
        drop(orders);
        wake();
        ended
    })?;
    let mut session = Session { out, streams: Vec::new(), before: Vec::new(), bind: &o.bind, tls: None, cpu: 0.0 };
    let is_over = session.run(engine, &orders);
    // What is still to be written goes out before the connection ends.
    drop(session);
    let _ = writer.join();
    let _ = stream.shutdown(Shutdown::Both);
    let read = reader.join();
    match (is_over, read) {
        (Ok(false), Ok(Err(error))) if error.kind() != std::io::ErrorKind::UnexpectedEof => Err(error),
        (is_over, _) => is_over,
    }
}

/// Receiver of a stream's requests.
struct Feed {
    to: Option<SyncSender<SentBatch>>,
    told: Arc<ReaderReport>,
    generation: u32,
}

/// The reading thread's side of a worker.
struct Inbox {
    feeds: Vec<Feed>,
    addresses: TargetAddresses,
    orders: SyncSender<Order>,
    wake: Box<dyn Fn() + Send>,
    stop: Box<dyn Fn() + Send>,
}

impl Inbox {
    fn read_all(&mut self, from: &mut BufReader<TcpStream>) -> std::io::Result<()> {
        loop {
            let frame = Frame::read(from, MAX_FRAME)?;
            self.take(&frame)?;
        }
    }

    fn take(&mut self, frame: &Frame) -> std::io::Result<()> {
        match frame.kind {
            ReplayFrameKind::Open if self.feeds.is_empty() => {
                let open = Open::parse(&frame.value()?).ok_or_else(wire::broken)?;
                let ends = open.streams.iter().map(|_| self.feed(0)).collect::<Vec<_>>();
                let ends = ends.into_iter().map(|(feed, end)| {
                    self.feeds.push(feed);
                    end
                });
                let order = Order::Open(open, ends.collect());
                self.hand_on(order)
            }
            ReplayFrameKind::Refill => {
                let (stream, generation) = frame.stream()?;
                let (feed, (from, told, generation)) = self.feed(generation);
                *self.feeds.get_mut(stream).filter(|_| stream == 0).ok_or_else(wire::broken)? = feed;
                self.hand_on(Order::Refill(from, told, generation))
            }
            ReplayFrameKind::Part => self.hand_on(Order::Part(frame.value()?)),
            ReplayFrameKind::Address => self.address(frame),
            ReplayFrameKind::Batch => self.batch(frame),
            ReplayFrameKind::End => {
                let (stream, generation) = frame.stream()?;
                let feed = self.feeds.get_mut(stream).ok_or_else(wire::broken)?;
                if feed.generation == generation {
                    feed.to = None;
                    (self.wake)();
                }
                Ok(())
            }
            ReplayFrameKind::Stop => {
                (self.stop)();
                Ok(())
            }
            _ => Err(wire::broken()),
        }
    }

    fn feed(&self, generation: u32) -> (Feed, (Receiver<SentBatch>, Arc<ReaderReport>, u32)) {
        let (to, from) = sync_channel(AHEAD);
        let told = Arc::new(ReaderReport::default());
        (Feed { to: Some(to), told: told.clone(), generation }, (from, told, generation))
    }

    fn hand_on(&self, order: Order) -> std::io::Result<()> {
        self.orders.try_send(order).map_err(|_| wire::broken())?;
        (self.wake)();
        Ok(())
    }

    fn address(&self, frame: &Frame) -> std::io::Result<()> {
        let text = std::str::from_utf8(&frame.payload).map_err(|_| wire::broken())?;
        // The coordinator has looked names up.
        let address = ReplayAddress::from_shown(text).ok_or_else(wire::broken)?;
        let mut all = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        // A coordinator looks up that many, and has those of its options.
        if all.len() >= 2 * MAX_ADDRESSES {
            return Err(wire::broken());
        }
        all.push(address);
        Ok(())
    }

    fn batch(&self, frame: &Frame) -> std::io::Result<()> {
        let (stream, generation) = frame.stream()?;
        let feed = self.feeds.get(stream).ok_or_else(wire::broken)?;
        if feed.generation != generation {
            return Ok(());
        }
        let known = self.addresses.lock().unwrap_or_else(PoisonError::into_inner).len();
        let batch = wire::read_batch(frame, known)?;
        // Credits leave room for it: who sends more breaks the protocol.
        let to = feed.to.as_ref().ok_or_else(wire::broken)?;
        to.try_send((Arc::new(batch), 0)).map_err(|_| wire::broken())?;
        if feed.told.is_hungry.swap(false, Ordering::SeqCst) {
            (self.wake)();
        }
        Ok(())
    }
}

/// The main thread's side of a worker.
struct Session<'a> {
    out: SyncSender<Frame>,
    streams: Vec<ReplayStream>,
    /// Requests of each stream that were begun in earlier parts.
    before: Vec<u64>,
    bind: &'a [IpAddr],
    tls: Option<Arc<tls::TlsClient>>,
    cpu: f64,
}

impl Session<'_> {
    /// Does what it is told until the coordinator leaves; true after Ctrl-C.
    fn run(&mut self, engine: &mut ReplayEngine, orders: &Receiver<Order>) -> std::io::Result<bool> {
        loop {
            let order = match orders.try_recv() {
                Ok(order) => order,
                Err(TryRecvError::Disconnected) => return Ok(false),
                Err(TryRecvError::Empty) => {
                    if engine.rest(PATIENCE)? {
                        return Ok(true);
                    }
                    continue;
                }
            };
            match order {
                Order::Open(open, feeds) => self.open(&open, feeds)?,
                Order::Refill(from, told, generation) => {
                    let credits = self.credits(0, generation);
                    let stream = self.streams.first_mut().ok_or_else(wire::broken)?;
                    stream.refill(from, told);
                    stream.on_taken = Some(credits);
                }
                Order::Part(value) => {
                    let mut part = OrderPart::parse(&value, self.streams.len()).ok_or_else(wire::broken)?;
                    (part.limits.bind, part.limits.tls) = (self.bind.to_vec(), self.tls.clone());
                    if matches!(self.part(engine, &part)?, ReplayEnd::Interrupted | ReplayEnd::InterruptedInWarmup)
                        && engine.was_interrupted()
                    {
                        return Ok(true);
                    }
                }
            }
        }
    }

    fn open(&mut self, open: &Open, feeds: Vec<(Receiver<SentBatch>, Arc<ReaderReport>, u32)>) -> std::io::Result<()> {
        self.tls = open.trust.as_ref().map(Trust::client).transpose().map_err(std::io::Error::other)?;
        let connections: usize = open.streams.iter().map(|s| s.connections).sum();
        // As many as may be: refused, it goes on with fewer.
        let _ = sys::limits::raise_open_files(2 * connections as u64 + 64);
        for (i, (spec, (from, told, generation))) in open.streams.iter().zip(feeds).enumerate() {
            let pace = crate::pace::ReplayPace::Closed { from: 0, to: 0 };
            let mut stream = ReplayStream::new(&spec.name, from, told, pace, spec.connections, open.top);
            (stream.keep, stream.is_beside) = (spec.keep, spec.is_beside);
            stream.seed(open.seed.wrapping_add(i as u64));
            stream.on_taken = Some(self.credits(i, generation));
            self.streams.push(stream);
            self.before.push(0);
        }
        Ok(())
    }

    fn credits(&self, stream: usize, generation: u32) -> Box<dyn Fn()> {
        let out = self.out.clone();
        Box::new(move || {
            // It doesn't fit only if the coordinator doesn't read: then the connection ends before long.
            let _ = out.try_send(Frame::of_stream(ReplayFrameKind::Credit, stream, generation));
        })
    }

    fn part(&mut self, engine: &mut ReplayEngine, part: &OrderPart) -> std::io::Result<ReplayEnd> {
        for (stream, (pace, offset)) in self.streams.iter_mut().zip(&part.paces) {
            (stream.pace, stream.offset) = (*pace, *offset);
        }
        self.cpu = server::own_cpu_seconds();
        let (mut is_warm, warmup) = (part.limits.warmup == 0, part.limits.warmup);
        let (out, before, cpu) = (&self.out, &self.before, &mut self.cpu);
        let mut tick = |passed: u64, streams: &[ReplayStream]| {
            if !is_warm && passed > warmup {
                is_warm = true;
                *cpu = server::own_cpu_seconds();
            }
            let mut figures = figures(streams, before, *cpu, true);
            figures["passed"] = json!(passed);
            if is_warm {
                figures["second"] = json!((passed - warmup + 500_000_000) / 1_000_000_000);
            }
            let _ = out.try_send(Frame::json(ReplayFrameKind::Tick, &figures));
        };
        let (ns, end) = engine.run(&mut self.streams, &part.limits, &mut tick)?;
        let mut figures = figures(&self.streams, &self.before, self.cpu, false);
        (figures["ns"], figures["end"]) = (json!(ns), json!(end.word()));
        for (before, stream) in self.before.iter_mut().zip(&self.streams) {
            *before += stream.begun;
        }
        let _ = self.out.send(Frame::json(ReplayFrameKind::Report, &figures));
        Ok(end)
    }
}

/// Figures so far; `done` is how many of the requests that it was dealt are over, in all parts.
fn figures(streams: &[ReplayStream], before: &[u64], cpu: f64, has_second: bool) -> Value {
    let done =
        |(stream, before): (&ReplayStream, &u64)| before + stream.begun - (stream.active as u64).min(stream.begun);
    json!({
        "cpu": server::own_cpu_seconds() - cpu,
        "done": streams.iter().zip(before).map(done).collect::<Vec<_>>(),
        "streams": streams.iter().map(|s| tally::encode(&s.stats, has_second)).collect::<Value>(),
    })
}

// SPDX-License-Identifier: BSD-2-Clause
//! Objects whose bodies are in a store's home that answers late, or fails.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use storage::{Body, Buf, Home, HomeId, LoadFuture, StoreError, StoreSpec, StoredBody, Writing};

use super::kit::*;
use crate::*;

/// Longest piece that the home gives at a time.
const PIECE: usize = 1000;

/// A home for tests: each reading waits until it is let go on.
#[derive(Debug, Default)]
struct SlowHome(Mutex<Desk>);

#[derive(Debug, Default)]
struct Desk {
    next: u64,
    waiting: HashMap<u64, Waker>,
    /// Those that were let go on, and what they get.
    served: HashMap<u64, Result<(), StoreError>>,
    bodies: usize,
    /// What was asked for last.
    wanted: Range<u64>,
    /// The last body kept, as it lies there.
    kept: Vec<u8>,
}

#[derive(Debug)]
struct SlowBody(Arc<SlowHome>, Vec<u8>);

/// The home behind an `Arc` of its own, which the bodies share.
#[derive(Debug)]
struct Slow(Arc<SlowHome>);

impl Home for Slow {
    fn keep(&self, body: &Body) -> Option<Box<dyn StoredBody>> {
        self.0.0.lock().unwrap().kept = body.pieces().flat_map(|piece| piece.buf.to_vec()).collect();
        Some(self.0.read_back())
    }

    fn find(&self, _: &[u8; 32]) -> Vec<HomeId> {
        Vec::new()
    }

    fn holds(&self, _: &[u8; 32], _: HomeId) -> bool {
        false
    }

    fn load(&self, _: &[u8; 32], _: HomeId) -> LoadFuture {
        Box::pin(async { Err(StoreError("it has no records")) })
    }

    fn begin(&self, _: &[u8; 32]) -> Box<dyn Writing> {
        panic!("it has no records")
    }

    fn note_use(&self, _: &[u8; 32], _: HomeId) {}

    fn remove(&self, _: &[u8; 32], _: HomeId) -> bool {
        false
    }

    fn remove_all(&self, _: &[u8; 32], _: u64) -> usize {
        0
    }

    fn least_ban_seq(&self) -> Option<u64> {
        None
    }

    fn journal_needed_from(&self) -> Option<u64> {
        None
    }

    fn is_ready(&self) -> bool {
        true
    }
}

impl StoredBody for SlowBody {
    fn len(&self) -> u64 {
        self.1.len() as u64
    }

    fn charged_bytes(&self) -> u64 {
        self.len().next_multiple_of(4096)
    }

    fn poll_at(
        &self,
        cx: &mut Context<'_>,
        waiter: &mut Option<u64>,
        wanted: Range<u64>,
    ) -> Poll<Result<Buf, StoreError>> {
        self.0.0.lock().unwrap().wanted = wanted.clone();
        let bytes = self.1[wanted.start as usize..].iter().take(PIECE).copied().collect();
        self.0.poll(cx, waiter).map_ok(|()| Buf::unaccounted(bytes))
    }

    fn forget(&self, waiter: u64) {
        let mut desk = self.0.0.lock().unwrap();
        desk.waiting.remove(&waiter);
        desk.served.remove(&waiter);
    }
}

impl Drop for SlowBody {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().bodies -= 1;
    }
}

impl SlowHome {
    /// Ready once the waiter was let go on.
    fn poll(&self, cx: &mut Context<'_>, waiter: &mut Option<u64>) -> Poll<Result<(), StoreError>> {
        let mut desk = self.0.lock().unwrap();
        desk.next += 1;
        let id = *waiter.get_or_insert(desk.next);
        let Some(answer) = desk.served.remove(&id) else {
            desk.waiting.insert(id, cx.waker().clone());
            return Poll::Pending;
        };
        *waiter = None;
        Poll::Ready(answer)
    }

    /// The body kept last.
    fn read_back(self: &Arc<Self>) -> Box<dyn StoredBody> {
        let mut desk = self.0.lock().unwrap();
        desk.bodies += 1;
        Box::new(SlowBody(self.clone(), desk.kept.clone()))
    }

    /// Lets all that wait go on; answers how many there were.
    fn serve(&self, answer: Result<(), StoreError>) -> usize {
        let waiting = {
            let mut desk = self.0.lock().unwrap();
            let waiting = std::mem::take(&mut desk.waiting);
            desk.served.extend(waiting.keys().map(|&id| (id, answer)));
            waiting
        };
        waiting.into_values().map(Waker::wake).count()
    }

    fn waiting(&self) -> usize {
        self.0.lock().unwrap().waiting.len()
    }

    fn bodies(&self) -> usize {
        self.0.lock().unwrap().bodies
    }
}

fn kit() -> (Kit, Arc<SlowHome>) {
    let home = Arc::new(SlowHome::default());
    let mut specs = StoreSpec::in_memory(Some(1 << 20));
    specs[0].home = Some(Arc::new(Slow(home.clone())));
    (Kit::of(&specs, Params::default()), home)
}

fn next(reader: &mut Reader, bell: &Arc<Bell>) -> Poll<Result<Option<Buf>, ReadError>> {
    reader.poll_next(&mut Context::from_waker(&Waker::from(bell.clone())))
}

fn body() -> Vec<u8> {
    (0..2500u32).map(|n| n as u8).collect()
}

/// Reads to the end while the home serves each reading late.
fn read_late(reader: &mut Reader, home: &SlowHome) -> Result<Vec<u8>, ReadError> {
    let (bell, mut out) = (Arc::new(Bell::default()), Vec::new());
    loop {
        match next(reader, &bell) {
            Poll::Ready(Ok(Some(buf))) => out.extend_from_slice(&buf),
            Poll::Ready(Ok(None)) => return Ok(out),
            Poll::Ready(Err(error)) => return Err(error),
            Poll::Pending => assert_eq!(home.serve(Ok(())), 1),
        }
    }
}

#[test]
fn a_hit_whose_body_comes_late_is_whole() {
    let (kit, home) = kit();
    kit.put("/", 10.0, &body());
    let obj = hit_of(kit.look("/"));
    assert_eq!((obj.head(), obj.body_len(), home.bodies()), (HEAD, Some(2500), 1));
    let (mut reader, bell) = (obj.reader(0), Arc::new(Bell::default()));
    assert!(next(&mut reader, &bell).is_pending());
    assert!(next(&mut reader, &bell).is_pending(), "asking again doesn't help");
    assert_eq!((home.serve(Ok(())), bell.rings()), (1, 1));
    assert_eq!(next(&mut reader, &bell), Poll::Ready(Ok(Some(Buf::unaccounted(body()[..PIECE].to_vec())))));
    assert_eq!(read_late(&mut reader, &home).unwrap(), &body()[PIECE..]);
    reader.seek(2400);
    assert_eq!(read_late(&mut reader, &home).unwrap(), &body()[2400..]);
    drop((reader, obj));
    kit.pass(20.0);
    kit.cache.expire(kit.now(), 10, &mut |_| {});
    assert_eq!((home.bodies(), kit.held()), (0, 0), "the home has let go of it, too");
}

#[test]
fn the_home_hears_how_far_a_reader_will_read() {
    let (kit, home) = kit();
    kit.put("/", 10.0, &body());
    let (mut reader, bell) = (hit_of(kit.look("/")).reader(100), Arc::new(Bell::default()));
    assert!(next(&mut reader, &bell).is_pending());
    assert_eq!(home.0.lock().unwrap().wanted, 100..u64::MAX);
    reader.stop_at(700);
    assert!(next(&mut reader, &bell).is_pending());
    assert_eq!(home.0.lock().unwrap().wanted, 100..700);
}

#[test]
fn each_reader_waits_for_itself() {
    let (kit, home) = kit();
    kit.put("/", 10.0, &body());
    let (mut one, mut two) = (hit_of(kit.look("/")).reader(0), hit_of(kit.look("/")).reader(2000));
    let (bell_one, bell_two) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
    assert!(next(&mut one, &bell_one).is_pending() && next(&mut two, &bell_two).is_pending());
    assert_eq!(home.waiting(), 2);
    drop(one);
    assert_eq!((home.serve(Ok(())), bell_one.rings(), bell_two.rings()), (1, 0, 1));
    assert_eq!(read_late(&mut two, &home).unwrap(), &body()[2000..]);
}

#[test]
fn a_reader_of_the_fetch_goes_on_in_the_home() {
    let (kit, home) = kit();
    let mut busy = busy_of(kit.look("/"));
    let store = kit.cache.stores().all()[0].clone();
    busy.set_head(&store, HEAD, None, &kit.attrs(10.0, 0.0, 0.0, Flags::NONE)).unwrap();
    busy.start_stream();
    let obj = hit_of(kit.look("/"));
    let (mut one, mut two, bell) = (obj.reader(0), obj.reader(0), Arc::new(Bell::default()));
    assert!(next(&mut one, &bell).is_pending() && next(&mut two, &bell).is_pending());
    busy.append(&body()).unwrap();
    busy.finish(None).unwrap();
    assert_eq!((bell.rings(), home.waiting()), (2, 0));
    assert!(next(&mut one, &bell).is_pending());
    assert_eq!(home.waiting(), 1);
    // This one waits nowhere any more: what it takes along is nobody else's place.
    drop(two);
    assert_eq!(home.waiting(), 1);
    assert_eq!(read_late(&mut one, &home).unwrap(), body());
}

#[test]
fn an_object_that_its_store_lost_is_a_miss() {
    let (kit, home) = kit();
    kit.put("/", 10.0, &body());
    let obj = hit_of(kit.look("/"));
    let (mut reader, bell) = (obj.reader(0), Arc::new(Bell::default()));
    assert!(next(&mut reader, &bell).is_pending());
    let lost = StoreError("flipped bit");
    home.serve(Err(lost));
    assert_eq!(next(&mut reader, &bell), Poll::Ready(Err(ReadError::Store(lost))));
    assert_eq!(kit.verdict("/"), "hit", "nobody has told the cache");
    kit.cache.lose(&obj);
    assert!(obj.is_dying());
    assert_eq!(kit.verdict("/"), "miss");
    // A second report of the same object does no harm to what took its place.
    kit.put("/", 10.0, b"");
    kit.cache.lose(&obj);
    assert_eq!((kit.verdict("/"), home.bodies()), ("hit", 1));
    drop((reader, obj));
    assert_eq!(home.bodies(), 0);
}

/// An object that only the home has: who comes first reads its head back, others wait for that.
fn evicted() -> (Kit, Arc<SlowHome>, Busy, Ticket) {
    let (kit, home) = kit();
    kit.put("/", 10.0, &body());
    kit.cache.lose(&hit_of(kit.look("/")));
    let busy = busy_of(kit.look("/"));
    let ticket = ticket_of(kit.look("/"));
    (kit, home, busy, ticket)
}

fn set_head(kit: &Kit, busy: &mut Busy) {
    let store = kit.cache.stores().all()[0].clone();
    busy.set_head(&store, HEAD, None, &kit.attrs(10.0, 0.0, 0.0, Flags::NONE)).unwrap();
}

#[test]
fn a_lookup_waits_until_the_head_is_read_back() {
    let (kit, home, mut busy, mut ticket) = evicted();
    let (bell, mut waiter) = (Arc::new(Bell::default()), None);
    let waker = Waker::from(Arc::new(Bell::default()));
    assert!(home.poll(&mut Context::from_waker(&waker), &mut waiter).is_pending());
    assert!(poll(&mut ticket, &bell).is_pending());
    home.serve(Ok(()));
    assert_eq!(home.poll(&mut Context::from_waker(&waker), &mut waiter), Poll::Ready(Ok(())));
    let mut reader = busy.object().into_reader(0);
    set_head(&kit, &mut busy);
    busy.finish_stored(home.read_back());
    assert!(poll(&mut ticket, &bell).is_ready());
    let obj = hit_of(kit.resume(ticket, &Req::new("/")));
    assert_eq!((obj.head(), obj.body_len(), reader.object().body_len()), (HEAD, Some(2500), Some(2500)));
    assert_eq!(read_late(&mut reader, &home).unwrap(), body());
    assert_eq!(read_late(&mut obj.reader(1000), &home).unwrap(), &body()[1000..]);
}

#[test]
fn a_head_that_is_lost_is_fetched() {
    let (kit, home, mut busy, ticket) = evicted();
    let (waker, mut waiter) = (Waker::from(Arc::new(Bell::default())), None);
    assert!(home.poll(&mut Context::from_waker(&waker), &mut waiter).is_pending());
    let lost = StoreError("EIO");
    home.serve(Err(lost));
    assert_eq!(home.poll(&mut Context::from_waker(&waker), &mut waiter), Poll::Ready(Err(lost)));
    // The same right serves for the fetch; who waits doesn't notice.
    set_head(&kit, &mut busy);
    busy.append(b"fetched").unwrap();
    busy.finish(None).unwrap();
    let obj = hit_of(kit.resume(ticket, &Req::new("/")));
    assert_eq!(read_late(&mut obj.reader(0), &home).unwrap(), b"fetched");
}

#[test]
fn a_body_in_memory_is_there_at_once() {
    let kit = Kit::new();
    kit.put("/", 10.0, &[7; 100_000]);
    let (mut reader, bell) = (hit_of(kit.look("/")).reader(0), Arc::new(Bell::default()));
    let mut bytes = 0;
    while let Poll::Ready(Ok(Some(buf))) = next(&mut reader, &bell) {
        bytes += buf.len();
    }
    assert_eq!((bytes, next(&mut reader, &bell)), (100_000, Poll::Ready(Ok(None))));
}

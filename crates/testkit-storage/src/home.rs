// SPDX-License-Identifier: BSD-2-Clause
//! A home that is a table in memory. It outlives the caches that use it, and which can be told to be late, to fail
//! and to refuse.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use base::Real;
use storage::{Buf, CopyJudge, Home, HomeId, LoadFuture, Record, StoreError, Stored, StoredBody, Writing};

/// Longest piece that is read at a time.
const PIECE: usize = 1000;
/// Longest body that comes with its record.
const AT_HAND: usize = 2000;

/// A home; its clones are the same one.
#[derive(Clone, Default)]
pub struct SimulatedHome(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    last: u64,
    copies: BTreeMap<u64, Copy>,
    /// Writings in progress: digest, and the newest removal of all of it since.
    writings: HashMap<u64, ([u8; 32], u64)>,
    is_held: bool,
    waiting: HashMap<u64, Waker>,
    /// Those that were let go on, and what they get.
    served: HashMap<u64, Result<(), StoreError>>,
    is_refusing: bool,
    /// Nothing that is pushed gets written; who waits for that.
    is_stalled: bool,
    writers: Vec<Waker>,
    /// True if what is finished is found once this is over.
    is_behind: bool,
    failure: Option<StoreError>,
    loads: usize,
    uses: usize,
    bodies: usize,
    wanted: Range<u64>,
    judge: Option<Arc<dyn CopyJudge>>,
}

#[derive(Debug)]
struct Copy {
    record: Record<Real>,
    head: Vec<u8>,
    tags: Vec<u8>,
    body: Arc<[u8]>,
    is_written: bool,
}

impl SimulatedHome {
    pub fn new() -> SimulatedHome {
        SimulatedHome::default()
    }

    /// From now on whatever is read waits for [`SimulatedHome::serve`], or no longer.
    pub fn hold(&self, is_held: bool) {
        self.table().is_held = is_held;
    }

    /// From now on nothing is taken, or again.
    pub fn refuse(&self, is_refusing: bool) {
        self.table().is_refusing = is_refusing;
    }

    /// From now on nothing that is pushed gets written, or again.
    pub fn stall(&self, is_stalled: bool) {
        let woken = {
            let mut table = self.table();
            table.is_stalled = is_stalled;
            std::mem::take(&mut table.writers)
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// From now on what is finished isn't found, or that and all later ones are.
    pub fn fall_behind(&self, is_behind: bool) {
        let mut table = self.table();
        table.is_behind = is_behind;
        table.copies.values_mut().for_each(|copy| copy.is_written |= !is_behind);
    }

    /// From now on whatever is read fails, or no longer.
    pub fn fail(&self, failure: Option<StoreError>) {
        self.table().failure = failure;
    }

    /// Lets all that wait go on; answers how many there were.
    pub fn serve(&self, answer: Result<(), StoreError>) -> usize {
        let waiting = {
            let mut table = self.table();
            let waiting = std::mem::take(&mut table.waiting);
            table.served.extend(waiting.keys().map(|&id| (id, answer)));
            waiting
        };
        waiting.into_values().map(Waker::wake).count()
    }

    pub fn waiting(&self) -> usize {
        self.table().waiting.len()
    }

    /// Stored copies, written or not.
    pub fn copies(&self) -> usize {
        self.table().copies.len()
    }

    pub fn loads(&self) -> usize {
        self.table().loads
    }

    pub fn uses(&self) -> usize {
        self.table().uses
    }

    pub fn bodies(&self) -> usize {
        self.table().bodies
    }

    pub fn damage(&self, change: impl Fn(&mut Record<Real>)) {
        self.table().copies.values_mut().for_each(|copy| change(&mut copy.record));
    }

    /// The part of a body that was last asked for.
    pub fn wanted(&self) -> Range<u64> {
        self.table().wanted.clone()
    }

    /// Lets go of the oldest copies but so many, as one that is full does.
    pub fn reclaim(&self, left: usize) {
        let mut table = self.table();
        while table.copies.len() > left {
            table.copies.pop_first();
        }
    }

    /// Writes all copies anew that may still be served: they have other names from now on.
    pub fn move_all(&self) {
        let (judge, copies) = {
            let table = self.table();
            let told = table.copies.iter().map(|(&id, copy)| (id, copy.record, copy.head.clone(), copy.tags.clone()));
            (table.judge.clone(), told.collect::<Vec<_>>())
        };
        for (id, record, head, tags) in copies {
            let ban_seq = match &judge {
                Some(judge) => judge.judge(&record, &head, &tags),
                None => Some(record.ban_seq),
            };
            let mut table = self.table();
            table.last += 1;
            let (new, copy) = (table.last, table.copies.remove(&id));
            if let Some((ban_seq, mut copy)) = ban_seq.zip(copy) {
                copy.record.ban_seq = ban_seq;
                table.copies.insert(new, copy);
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().expect("no test goes on after a panic in here")
    }

    fn poll(&self, cx: &mut Context<'_>, waiter: &mut Option<u64>) -> Poll<Result<(), StoreError>> {
        let mut table = self.table();
        if let Some(answer) = waiter.and_then(|id| table.served.remove(&id)) {
            *waiter = None;
            return Poll::Ready(answer.and(table.failure.map_or(Ok(()), Err)));
        }
        if !table.is_held {
            self.forget_in(&mut table, waiter);
            return Poll::Ready(table.failure.map_or(Ok(()), Err));
        }
        let id = *waiter.get_or_insert_with(|| {
            table.last += 1;
            table.last
        });
        table.waiting.insert(id, cx.waker().clone());
        Poll::Pending
    }

    fn forget_in(&self, table: &mut Table, waiter: &mut Option<u64>) {
        if let Some(id) = waiter.take() {
            table.waiting.remove(&id);
            table.served.remove(&id);
        }
    }

    fn stored(&self, digest: &[u8; 32], id: HomeId) -> Result<Stored, StoreError> {
        let mut table = self.table();
        let copy = table.copies.get(&id.0.get()).filter(|copy| copy.record.digest == *digest && copy.is_written);
        let Some(copy) = copy else { return Err(StoreError("it isn't there any more")) };
        let (record, body) = (copy.record, copy.body.clone());
        let [head, tags] = [&copy.head, &copy.tags].map(|bytes| Buf::unaccounted(bytes.clone()));
        table.loads += 1;
        table.bodies += 1;
        Ok(Stored { id, record, head, tags, body: Arc::new(SimulatedBody(self.clone(), body)) })
    }
}

impl std::fmt::Debug for SimulatedHome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimulatedHome({} copies)", self.copies())
    }
}

impl Home for SimulatedHome {
    fn find(&self, digest: &[u8; 32]) -> Vec<HomeId> {
        let table = self.table();
        let copies = table.copies.iter().rev().filter(|(_, copy)| copy.record.digest == *digest && copy.is_written);
        copies.filter_map(|(&id, _)| NonZeroU64::new(id).map(HomeId)).collect()
    }

    fn holds(&self, digest: &[u8; 32], id: HomeId) -> bool {
        self.find(digest).contains(&id)
    }

    fn load(&self, digest: &[u8; 32], id: HomeId) -> LoadFuture {
        let (home, digest) = (self.clone(), *digest);
        let mut waiting = Waiting(self.clone(), None);
        Box::pin(async move {
            std::future::poll_fn(|cx| waiting.0.poll(cx, &mut waiting.1)).await?;
            home.stored(&digest, id)
        })
    }

    fn begin(&self, digest: &[u8; 32]) -> Box<dyn Writing> {
        let mut table = self.table();
        table.last += 1;
        let id = table.last;
        table.writings.insert(id, (*digest, 0));
        Box::new(SimulatedWriting { home: self.clone(), id, body: Arc::default() })
    }

    fn note_use(&self, digest: &[u8; 32], id: HomeId) {
        let is_there = self.holds(digest, id);
        self.table().uses += usize::from(is_there);
    }

    fn remove(&self, digest: &[u8; 32], id: HomeId) -> bool {
        let mut table = self.table();
        let is_meant = table.copies.get(&id.0.get()).is_some_and(|copy| copy.record.digest == *digest);
        is_meant && table.copies.remove(&id.0.get()).is_some()
    }

    fn remove_all(&self, digest: &[u8; 32], before: u64) -> usize {
        let mut table = self.table();
        for (own, removed_before) in table.writings.values_mut() {
            if own == digest {
                *removed_before = before.max(*removed_before);
            }
        }
        let count = table.copies.len();
        table.copies.retain(|_, copy| copy.record.digest != *digest);
        count - table.copies.len()
    }

    fn least_ban_seq(&self) -> Option<u64> {
        self.table().copies.values().map(|copy| copy.record.ban_seq).min()
    }

    fn journal_needed_from(&self) -> Option<u64> {
        None
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn set_judge(&self, judge: Box<dyn CopyJudge>) {
        self.table().judge = Some(judge.into());
    }
}

/// Waits in a home until it is dropped.
struct Waiting(SimulatedHome, Option<u64>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.forget_in(&mut self.0.table(), &mut self.1);
    }
}

struct SimulatedWriting {
    home: SimulatedHome,
    id: u64,
    body: Arc<Mutex<Vec<u8>>>,
}

impl SimulatedWriting {
    fn body(&self) -> MutexGuard<'_, Vec<u8>> {
        self.body.lock().expect("no test goes on after a panic in here")
    }

    /// Number of bytes that are written, if the home does anything.
    fn poll_written(&self, cx: &mut Context<'_>) -> Poll<Result<u64, StoreError>> {
        let mut table = self.home.table();
        if table.is_refusing {
            return Poll::Ready(Err(StoreError("nothing is taken")));
        }
        if table.is_stalled {
            table.writers.push(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(self.body().len() as u64))
    }
}

impl Writing for SimulatedWriting {
    fn push(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        if self.home.table().is_refusing {
            return Err(StoreError("nothing is taken"));
        }
        self.body().extend_from_slice(bytes);
        Ok(())
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        self.poll_written(cx).map_ok(drop)
    }

    fn poll_settled(&mut self, cx: &mut Context<'_>, above: u64) -> Poll<Result<u64, StoreError>> {
        let written = self.poll_written(cx);
        assert!(!matches!(written, Poll::Ready(Ok(written)) if written <= above), "more than there is is waited for");
        written
    }

    fn poll_whole(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, StoreError>> {
        self.poll_written(cx)
    }

    fn so_far(&mut self) -> Option<Arc<dyn StoredBody>> {
        Some(Arc::new(GrowingBody(self.home.clone(), self.body.clone())))
    }

    fn finish(self: Box<Self>, record: &Record<Real>, head: &[u8], tags: &[u8]) -> Option<HomeId> {
        let body = self.body().as_slice().into();
        let mut table = self.home.table();
        let (digest, removed_before) = table.writings[&self.id];
        if table.is_refusing || removed_before > record.ban_seq {
            return None;
        }
        assert_eq!(record.digest, digest, "an object is finished under its own digest");
        let is_written = !table.is_behind;
        let copy = Copy { record: *record, head: head.to_vec(), tags: tags.to_vec(), body, is_written };
        table.copies.insert(self.id, copy);
        NonZeroU64::new(self.id).map(HomeId)
    }
}

impl Drop for SimulatedWriting {
    fn drop(&mut self) {
        self.home.table().writings.remove(&self.id);
    }
}

/// One that may become longer. It isn't counted among those that somebody holds.
struct GrowingBody(SimulatedHome, Arc<Mutex<Vec<u8>>>);

impl StoredBody for GrowingBody {
    fn len(&self) -> u64 {
        self.1.lock().expect("no test goes on after a panic in here").len() as u64
    }

    fn poll_at(
        &self,
        cx: &mut Context<'_>,
        reader: &mut Option<u64>,
        wanted: Range<u64>,
    ) -> Poll<Result<Buf, StoreError>> {
        self.0.table().wanted = wanted.clone();
        let bytes = self.1.lock().expect("no test goes on after a panic in here")[wanted.start as usize..].to_vec();
        self.0.poll(cx, reader).map_ok(|()| Buf::unaccounted(bytes[..bytes.len().min(PIECE)].to_vec()))
    }

    fn forget(&self, reader: u64) {
        self.0.forget_in(&mut self.0.table(), &mut Some(reader));
    }
}

impl std::fmt::Debug for GrowingBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GrowingBody({} bytes)", self.len())
    }
}

#[derive(Debug)]
struct SimulatedBody(SimulatedHome, Arc<[u8]>);

impl StoredBody for SimulatedBody {
    fn len(&self) -> u64 {
        self.1.len() as u64
    }

    fn is_there(&self) -> bool {
        self.0.table().copies.values().any(|copy| Arc::ptr_eq(&copy.body, &self.1))
    }

    fn at_hand(&self) -> Option<Buf> {
        (self.1.len() <= AT_HAND).then(|| Buf::unaccounted(self.1.to_vec()))
    }

    fn poll_at(
        &self,
        cx: &mut Context<'_>,
        reader: &mut Option<u64>,
        wanted: Range<u64>,
    ) -> Poll<Result<Buf, StoreError>> {
        self.0.table().wanted = wanted.clone();
        let bytes = &self.1[wanted.start as usize..];
        self.0.poll(cx, reader).map_ok(|()| Buf::unaccounted(bytes[..bytes.len().min(PIECE)].to_vec()))
    }

    fn forget(&self, reader: u64) {
        self.0.forget_in(&mut self.0.table(), &mut Some(reader));
    }
}

impl Drop for SimulatedBody {
    fn drop(&mut self) {
        self.0.table().bodies -= 1;
    }
}

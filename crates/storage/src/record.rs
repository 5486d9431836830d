// SPDX-License-Identifier: BSD-2-Clause
//! Records: what survives of an object when its worker dies, in a store that has an arena. What the words mean to a
//! cache is the cache's business; here they are kept, found again, and forgotten.
//!
//! The life of a record: [`Store::keep`] writes it (nobody finds it yet), [`Store::publish`] makes it survive,
//! [`Store::forget`] ends that. Its bytes stay as long as there are handles on them. A [`RecordId`] means something as
//! long as its owner holds a handle on the record's bytes, or hasn't forgotten it; after that it may be another
//! record's. When the last handle on the bytes of a published record goes, it is forgotten.
//!
//! A store that is opened over the arena of a former worker is *adopting* until [`Store::sweep`]: what that worker had
//! published are [`Survivor`]s, which are given out by digest, each once; a walk tells the digests. A survivor belongs to whom it was
//! given: it is a published record like any other, and whoever doesn't want it forgets it. Survivors that aren't given
//! out yet take room: when a store that adopts is full and has nothing to evict, some must be adopted to be evicted.

use std::num::NonZeroU32;

use base::Mono;

use crate::body::BodyBlocks;
use crate::buf::Buf;
use crate::compact::{Compact, Rest};
use crate::records::StoreRecords;
use crate::store::Store;
use crate::times::ObjectTimes;

/// Facts about an object, beside its bytes: what an arena and a home keep of it. In an arena the times are those of the
/// machine's CLOCK_MONOTONIC, which runs on from worker to worker; a home has a `Record<Real>`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Record<T = Mono> {
    /// The digest under which it is found.
    pub digest: [u8; 32],
    /// The fetch that made it.
    pub xid: u64,
    /// All bans up to this number have been tested.
    pub ban_seq: u64,
    /// The lifetimes. An arena has grace and keep as `f32`.
    pub times: ObjectTimes<T>,
    /// Bits that only the cache interprets. An arena has room for eight.
    pub flags: u32,
    /// Times it was delivered, as far as that was told.
    pub hits: u32,
    /// Lengths of the parts of the head block.
    pub lengths: HeadLengths,
}

impl<T> Record<T> {
    /// The same record with its times on another clock.
    pub fn on_clock<U>(self, clock: impl FnOnce(T) -> U) -> Record<U> {
        let Record { digest, xid, ban_seq, times, flags, hits, lengths } = self;
        Record { digest, xid, ban_seq, times: times.on_clock(clock), flags, hits, lengths }
    }
}

/// Lengths of the parts of a head block, in their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeadLengths {
    /// Length of the stored head.
    pub head: u32,
    /// Length of the vary spec.
    pub spec: u32,
    /// Length of the vary values.
    pub values: u32,
    /// Length of the auxiliary attributes.
    pub aux: u32,
}

impl HeadLengths {
    /// The lengths of these parts.
    pub fn of(parts: [&[u8]; 4]) -> HeadLengths {
        let [head, spec, values, aux] = parts.map(|part| part.len() as u32);
        HeadLengths { head, spec, values, aux }
    }

    /// Length of the head block.
    pub fn all(self) -> usize {
        self.kept() + self.aux as usize
    }

    /// Length of the parts before the auxiliary attributes.
    pub fn kept(self) -> usize {
        self.head as usize + self.spec as usize + self.values as usize
    }
}

/// A record of this store: a number that fits beside an objcore's other fields.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RecordId(pub(crate) NonZeroU32);

/// A record of a former worker, complete and checked.
#[derive(Debug)]
pub struct Survivor {
    /// Facts about the object.
    pub record: Record,
    /// Number of the record, for [`Store::forget`] and the like.
    pub id: RecordId,
    /// The head block; the body follows in it when there is no `rest`.
    pub head: Buf,
    /// The tags given to [`Store::keep`].
    pub tags: Vec<u8>,
    /// The body of which nothing is in the head block.
    pub rest: Option<Rest>,
}

/// Object that a thread of the former worker was delivering when that died.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Suspect {
    /// For [`Store::forget`], which takes it from the survivors.
    pub record: RecordId,
    /// The digest of its object.
    pub digest: [u8; 32],
    /// The fetch that made it.
    pub xid: u64,
    /// Deaths while it was being delivered, this one included.
    pub deaths: u32,
}

/// Position of a walk over the survivors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cursor(pub(crate) u64);

/// State of the store when it was opened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoreOpening {
    /// Workers that have used the arena, this one included; 0 without an arena.
    pub generation: u32,
    /// Pages of the arena that were in use.
    pub pages_found: u64,
    /// Reason why the arena's content couldn't be used, for the log; the store began empty.
    pub refusal: Option<&'static str>,
}

impl StoreOpening {
    pub(crate) fn refused(reason: &'static str) -> StoreOpening {
        StoreOpening { refusal: Some(reason), ..StoreOpening::default() }
    }
}

impl Store {
    /// Compacts an object as [`Store::compact`] does, and writes a record of it, which isn't findable yet. `head` has
    /// exactly the four parts that `record` gives lengths of. Without a record: the store has no arena, or there is no
    /// room for one; the object doesn't survive its worker then.
    pub fn keep(&self, record: &Record, head: Buf, tags: &[u8], body: &BodyBlocks) -> (Compact, Option<RecordId>) {
        match self.records().and_then(|records| self.record(records, record, &head, tags, body)) {
            Some((compact, id)) => (compact, Some(id)),
            None => (self.compact(head, body), None),
        }
    }

    /// Lets the record survive from now on.
    pub fn publish(&self, id: RecordId) {
        self.expect_records().publish(id);
    }

    /// From now on the record doesn't survive; said again it means nothing, as long as there are handles on its bytes.
    pub fn forget(&self, id: RecordId) {
        self.expect_records().forget(id);
    }

    /// True if there may be survivors that weren't given out yet. One relaxed load; false in a store that began empty.
    #[inline]
    pub fn is_adopting(&self) -> bool {
        self.records().is_some_and(StoreRecords::is_adopting)
    }

    /// The survivors of that digest, oldest first; each is given out once.
    pub fn survivors(&self, digest: &[u8; 32]) -> Vec<Survivor> {
        self.records().map(|records| records.survivors(digest)).unwrap_or_default()
    }

    /// The tags of each survivor of that digest that wasn't given out yet; empty if its record is damaged.
    pub fn survivor_tags(&self, digest: &[u8; 32]) -> Vec<Vec<u8>> {
        self.records().map(|records| records.survivor_tags(digest)).unwrap_or_default()
    }

    /// The digests of the next records of a walk, at most so many: of survivors, so that [`Store::survivors`] gives them
    /// out. Maybe none although there are more; `None`: it has come to the end.
    pub fn next_digests(&self, cursor: &mut Cursor, most: usize) -> Option<Vec<[u8; 32]>> {
        self.records()?.next_digests(cursor, most)
    }

    /// After the walk: frees what was not given out, and ends the adopting. Takes a while in a large store (it looks at
    /// each record once), so not on a serving thread.
    pub fn sweep(&self) {
        self.records().into_iter().for_each(StoreRecords::sweep);
    }

    /// This thread (any number below 512) delivers that record from now on, or none. One relaxed store.
    #[inline]
    pub fn note_serving(&self, thread: usize, record: Option<RecordId>) {
        if let Some(records) = self.records() {
            records.note_serving(thread, record);
        }
    }

    /// Objects that the former worker was delivering when it died: for each record a death is counted in it. Each is
    /// returned once; none if that worker's threads had said that they deliver nothing.
    pub fn serving_at_death(&self) -> Vec<Suspect> {
        self.records().map(StoreRecords::serving_at_death).unwrap_or_default()
    }

    /// True if objects have records here: there is an arena.
    #[inline]
    pub fn keeps_records(&self) -> bool {
        self.records().is_some()
    }

    /// True if this record survives, as far as this process knows. For tests, as the next.
    pub fn is_published(&self, id: RecordId) -> bool {
        self.records().is_some_and(|records| records.is_published(id))
    }

    /// Number of records that survive, adopted or not. It takes long.
    pub fn published(&self) -> usize {
        self.records().map_or(0, StoreRecords::published)
    }

    /// Bytes of memory that its arena holds, whoever has touched it: a new worker finds what it hasn't looked at yet. `None`
    /// without one.
    pub fn arena_bytes(&self) -> Option<u64> {
        self.records()?.memory_bytes()
    }

    /// The arena is another process's from now on: nothing is kept or changed there any more, whatever happens to objects
    /// here. They can still be read, as handles on them count here alone.
    pub fn freeze(&self) {
        self.records().into_iter().for_each(StoreRecords::freeze);
    }

    /// Begins with the arena of a store that was opened beside the process that has it ([`crate::Stores::open_beside`]): that
    /// has frozen it, and still reads it if it `lives`. What it had published are survivors. Until then nothing is kept.
    pub fn take_over(&self, lives: bool) -> &StoreOpening {
        let take_over = || self.records().map(|records| records.take_over(lives)).unwrap_or_default();
        self.opening_cell().get_or_init(take_over)
    }

    /// True if a former process may still read the arena: nothing in it is used again, whatever is evicted.
    pub fn is_shared(&self) -> bool {
        self.records().is_some_and(StoreRecords::is_shared)
    }

    /// Notes that no former process reads the arena any more.
    pub fn own(&self) {
        self.records().into_iter().for_each(StoreRecords::own);
    }

    /// Bytes that were freed and wait for the former process, beyond what the account says.
    pub fn deferred_bytes(&self) -> u64 {
        self.records().map_or(0, StoreRecords::deferred_bytes)
    }

    /// The former process, if there is one, shall serve nothing from the arena any more.
    pub fn recall(&self) {
        self.records().into_iter().for_each(StoreRecords::recall);
    }

    /// True if this process shall serve nothing from the arena any more, since its successor has said so.
    pub fn is_recalled(&self) -> bool {
        self.records().is_some_and(StoreRecords::is_recalled)
    }

    /// After [`Store::freeze`]: makes copies of what handles are still on, so that the arena can change.
    ///
    /// # Errors
    /// The system can't: nothing may change before this process is gone.
    pub fn let_go(&self) -> std::io::Result<()> {
        self.records().map_or(Ok(()), StoreRecords::let_go)
    }

    fn expect_records(&self) -> &StoreRecords {
        self.records().expect("a record is of a store with an arena")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_record_costs_an_objcore_four_bytes() {
        assert_eq!(size_of::<Option<RecordId>>(), 4);
    }
}

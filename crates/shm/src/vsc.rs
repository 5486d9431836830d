// SPDX-License-Identifier: BSD-2-Clause
//! VSC: counters in shared memory. A set of counters is a `Stat` segment; the `StatDoc` segment of its type tells
//! readers what the numbers are, and always stands before it in the index.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use tables::counters::{CounterFields, json_doc};

use crate::vsm::{Cluster, Segment, SegmentSet, SetOwner};

/// Offset of the numbers, or of the document.
const BODY: usize = 24;
const READY_AT: usize = 0;
const BODY_OFFSET_AT: usize = 8;
const DOC_ID_AT: usize = 16;

#[derive(Clone, Copy)]
enum SegmentState {
    Valid = 1,
    /// Readers pass it over.
    Hidden = 2,
}

/// Makes counters in one segment set. Clones share it.
#[derive(Clone, Debug)]
pub struct CounterMaker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    set: SegmentSet,
    /// Documents by name of the type. A reader needs one before any counters and until the last of them is gone.
    docs: Mutex<HashMap<&'static str, (u64, Segment)>>,
}

impl CounterMaker {
    /// Counters of this set.
    pub fn new(set: &SegmentSet) -> Self {
        Self(Arc::new(Inner { set: set.clone(), docs: Mutex::new(HashMap::new()) }))
    }

    /// Makes and publishes counters, all 0. `ident` is what comes before their names: `MAIN`, `SMA.s0`, `VBE.boot.a`.
    pub fn add<T: CounterFields>(&self, ident: &str) -> io::Result<CounterSet<T>> {
        let doc = self.doc::<T>()?;
        let segment = self.0.set.prepare("Stat", ident, BODY + size_of::<T>())?;
        CounterSet::publish(segment, doc, self.clone())
    }

    /// The same as [`CounterMaker::add`], in `cluster` if that has room left.
    pub fn add_to<T: CounterFields>(&self, cluster: &Cluster, ident: &str) -> io::Result<CounterSet<T>> {
        let doc = self.doc::<T>()?;
        match cluster.prepare("Stat", ident, BODY + size_of::<T>()) {
            Some(segment) => CounterSet::publish(segment, doc, self.clone()),
            None => self.add(ident),
        }
    }

    /// A file for `count` sets of counters of type `T`.
    pub fn cluster<T: CounterFields>(&self, count: usize) -> io::Result<Cluster> {
        self.0.set.cluster("VSC_cluster", count.max(1) * (BODY + size_of::<T>()))
    }

    /// The document of `T`, made and published when it is needed first.
    fn doc<T: CounterFields>(&self) -> io::Result<u64> {
        let mut docs = self.0.docs.lock();
        if let Some((id, _)) = docs.get(T::NAME) {
            return Ok(*id);
        }
        let id = doc_id(&self.0.set);
        let mut text = json_doc::<T>().into_bytes();
        text.push(0);
        let mut segment = self.0.set.prepare("StatDoc", &format!("{id:x}"), BODY + text.len())?;
        segment.write(BODY, &text);
        write_head(&segment, id, SegmentState::Valid);
        segment.publish()?;
        docs.insert(T::NAME, (id, segment));
        Ok(id)
    }
}

/// Unique over manager and worker and over a worker's lives: readers match a document by this alone.
fn doc_id(set: &SegmentSet) -> u64 {
    let home = match set.home() {
        SetOwner::Manager => 1,
        SetOwner::Worker => 2,
    };
    home << 60 | (set.birth() & 0xffff_ffff) << 28 | (set.next_number() & 0xfff_ffff)
}

fn write_head(segment: &Segment, doc: u64, ready: SegmentState) {
    let (map, at) = (segment.map(), segment.offset());
    map.u64(at + BODY_OFFSET_AT).store(BODY as u64, Ordering::Relaxed);
    map.u64(at + DOC_ID_AT).store(doc, Ordering::Relaxed);
    // Release: who sees `ready` sees all before it.
    map.u32(at + READY_AT).store(ready as u32, Ordering::Release);
}

/// Counters: use it as the struct it derefs to. Clones share the memory, which is unpublished with the last of them.
pub struct CounterSet<T: CounterFields>(Arc<Shared<T>>);

struct Shared<T: CounterFields> {
    home: Memory<T>,
    counters: NonNull<T>,
}

enum Memory<T> {
    /// With the document, which must not go first.
    Segment(Segment, #[expect(dead_code, reason = "held, not read")] CounterMaker),
    /// Owned here: `counters` points into it and nothing else does.
    Private(NonNull<T>),
}

// SAFETY: `T` is nothing but atomics (`CounterFields` is sealed to such structs), in memory that lives as long as `Shared`.
unsafe impl<T: CounterFields> Send for Shared<T> {}
// SAFETY: as above; all access is through `&T`.
unsafe impl<T: CounterFields> Sync for Shared<T> {}

impl<T: CounterFields> CounterSet<T> {
    /// Counters in ordinary memory, for tests and for programs without a workdir.
    pub fn private() -> Self {
        let counters = NonNull::from(Box::leak(Box::new(T::default())));
        Self(Arc::new(Shared { home: Memory::Private(counters), counters }))
    }

    fn publish(mut segment: Segment, doc: u64, stats: CounterMaker) -> io::Result<Self> {
        write_head(&segment, doc, SegmentState::Valid);
        segment.publish()?;
        let counters = segment.map().at(segment.offset() + BODY, size_of::<T>()).cast::<T>();
        assert!(counters.is_aligned(), "segments begin at multiples of 8");
        Ok(Self(Arc::new(Shared { home: Memory::Segment(segment, stats), counters })))
    }

    /// Hides them from readers (the backends of a cold VCL) or shows them again.
    pub fn set_hidden(&self, hidden: bool) {
        if let Memory::Segment(segment, _) = &self.0.home {
            let ready = if hidden { SegmentState::Hidden } else { SegmentState::Valid };
            segment.map().u32(segment.offset() + READY_AT).store(ready as u32, Ordering::Release);
        }
    }
}

impl<T: CounterFields> Deref for CounterSet<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: mapped and aligned for a `T` (checked in `publish`) or a leaked box; it lives as long as `self.0`;
        // any bytes are a valid `T`, whose fields are all atomics.
        unsafe { self.0.counters.as_ref() }
    }
}

impl<T: CounterFields> Drop for Shared<T> {
    fn drop(&mut self) {
        if let Memory::Private(counters) = &self.home {
            // SAFETY: leaked from a box in `private`, and nothing borrows it any more.
            drop(unsafe { Box::from_raw(counters.as_ptr()) });
        }
    }
}

impl<T: CounterFields> Clone for CounterSet<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: CounterFields> fmt::Debug for CounterSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(T::NAME).finish()
    }
}

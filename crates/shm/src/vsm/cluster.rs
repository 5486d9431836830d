// SPDX-License-Identifier: BSD-2-Clause
//! Several segments in one file: the counters of all backends of a VCL, so that a discard removes one file.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{ALIGN, MappedFile, PAGE, Segment, Set};

/// Members never begin at offset 0: that is how a reader tells them from a file of their own.
const FIRST_OFFSET: usize = 16;

/// A file for several segments. It goes when the handle and all its segments are gone.
#[derive(Clone, Debug)]
pub struct Cluster(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    backing: Arc<MappedFile>,
    next: Mutex<usize>,
}

impl Cluster {
    pub(super) fn create(set: &Arc<Set>, name: &str, len: usize) -> io::Result<Self> {
        let mut backing = MappedFile::create_whole(set, name, len + FIRST_OFFSET)?;
        let text = format!("{} 0 {}  ", backing.name, backing.map.len().next_multiple_of(PAGE));
        backing.line = Some(set.index.lock().add(text)?);
        Ok(Self(Arc::new(Inner { backing: Arc::new(backing), next: Mutex::new(FIRST_OFFSET) })))
    }

    /// A segment in this file, not yet published; `None` when there is no room left.
    pub fn prepare(&self, class: &str, ident: &str, len: usize) -> Option<Segment> {
        let len = len.max(1).next_multiple_of(ALIGN);
        let mut next = self.0.next.lock();
        let offset = *next;
        (offset + len <= self.0.backing.map.len()).then(|| {
            *next = offset + len;
            Segment::new(Arc::clone(&self.0.backing), offset, len, class, ident)
        })
    }
}

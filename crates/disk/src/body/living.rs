// SPDX-License-Identifier: BSD-2-Clause
//! The bodies that somebody holds, by their records: when a record is written anew, they go on where it is now.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{DiskBody, Shared};
use crate::format::object::Chunk;
use crate::load::RecordCandidate;

/// See the module. Its lock is taken under any other, and none under it.
#[derive(Default)]
pub(crate) struct Living(Mutex<HashMap<Name, Vec<Weak<Shared>>>>);

/// Generation and unit of a record.
type Name = (u64, u64);

impl Living {
    /// A body came into being, or got its record.
    pub(super) fn add(&self, record: RecordCandidate, body: &Arc<Shared>) {
        self.0.lock().entry(name(record)).or_default().push(Arc::downgrade(body));
    }

    pub(super) fn note_drop(&self, record: RecordCandidate) {
        let mut living = self.0.lock();
        if let Some(bodies) = living.get_mut(&name(record)) {
            bodies.retain(|body| body.strong_count() > 0);
            if bodies.is_empty() {
                living.remove(&name(record));
            }
        }
    }

    pub fn move_on(&self, from: RecordCandidate, to: RecordCandidate, chunks: &[Chunk]) {
        let bodies = self.0.lock().remove(&name(from)).unwrap_or_default();
        // After the unlock: the last handle on a body may be among these.
        for shared in bodies.iter().filter_map(Weak::upgrade) {
            DiskBody { shared }.move_on(to, chunks);
        }
    }
}

fn name(record: RecordCandidate) -> Name {
    (record.generation, record.at)
}

impl std::fmt::Debug for Living {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} records", self.0.lock().len())
    }
}

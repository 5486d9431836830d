// SPDX-License-Identifier: BSD-2-Clause
//! Which object each serving thread is delivering, noted where it outlives the worker: one that two workers died over is
//! dropped by the next.
//!
//! A thread notes an object when it is found and before each later piece of its body, and ends the note with the request.
//! Where deliveries take turns on a thread, the note is of the one that had the last.

use std::cell::Cell;

use cache::ObjRef;
use storage::{RecordId, Stores};

thread_local! {
    /// This thread's number among those that serve. For other threads nothing is noted.
    static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
}

pub fn begin_thread(number: usize) {
    NUMBER.set(Some(number));
}

/// An object that survives its worker, while it is delivered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Noted(Option<(storage::StoreId, RecordId)>);

impl Noted {
    pub fn begin(stores: &Stores, obj: &ObjRef) -> Noted {
        let noted = Noted(obj.record().map(|record| (obj.store(), record)));
        noted.again(stores);
        noted
    }

    /// Notes it again: other deliveries may have had their turn.
    pub fn again(self, stores: &Stores) {
        self.write(stores, Some);
    }

    pub fn end(self, stores: &Stores) {
        self.write(stores, |_| None);
    }

    fn write(self, stores: &Stores, word: impl FnOnce(RecordId) -> Option<RecordId>) {
        if let (Some((store, record)), Some(number)) = (self.0, NUMBER.get()) {
            stores.get(store).note_serving(number, word(record));
        }
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! What a serving thread logs in one turn of its runtime, kept together so that the ring's lock is taken once for many
//! transactions. A thread that gathers must call [`flush_gathered`] before it sleeps; without [`gather_here`] nothing waits.

use std::cell::RefCell;
use std::sync::Arc;

use super::ring::{LogRing, ReservedAmount};

/// Words that wait at most, when the ring isn't a small one.
pub(super) const MAX_WORDS: usize = 8192;

#[derive(Default)]
struct ThreadBatch {
    is_on: bool,
    ring: Option<Arc<LogRing>>,
    words: Vec<u32>,
    amount: ReservedAmount,
}

thread_local! {
    static GATHERED: RefCell<ThreadBatch> = RefCell::default();
}

/// Has this thread gather its records from now on.
pub fn gather_here() {
    GATHERED.with(|gathered| {
        let mut gathered = gathered.borrow_mut();
        gathered.is_on = true;
        gathered.words.reserve_exact(MAX_WORDS);
    });
}

/// Writes what this thread has gathered.
pub fn flush_gathered() {
    // Err: this thread is ending, or panicked while it added something.
    let _ = GATHERED.try_with(|gathered| gathered.try_borrow_mut().map(|mut gathered| gathered.flush()));
}

/// Appends finished records; false: they are to be written at once.
pub(super) fn add(ring: &Arc<LogRing>, size: usize, amount: ReservedAmount, put: impl FnOnce(&mut Vec<u32>)) -> bool {
    let done = GATHERED.try_with(|gathered| {
        let mut gathered = gathered.borrow_mut();
        if !gathered.is_on {
            return false;
        }
        if ring.is_sync() {
            gathered.flush();
            return false;
        }
        let is_other = gathered.ring.as_ref().is_some_and(|other| !Arc::ptr_eq(other, ring));
        let most = ring.most_gathered();
        if is_other || gathered.words.len() + size > most {
            gathered.flush();
        }
        if size > most {
            return false;
        }
        if is_other || gathered.ring.is_none() {
            gathered.ring = Some(ring.clone());
        }
        put(&mut gathered.words);
        gathered.amount += amount;
        true
    });
    done.unwrap_or(false)
}

impl ThreadBatch {
    fn flush(&mut self) {
        if let Some(ring) = &self.ring
            && !self.words.is_empty()
        {
            ring.write_words(&self.words, std::mem::take(&mut self.amount));
            self.words.clear();
        }
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! What the stores of a former worker are said to hold, and which of their objects may have been its end: one that was being
//! delivered at two deaths is dropped before it is served a third time.

use storage::{StoreOpening, Stores};
use tables::counters::Main;

const DEATHS: u32 = 2;
const PAGE_BYTES: u64 = 4096;

/// Tells what each store was opened with, and drops suspects. Before anything is served.
pub fn examine(stores: &Stores, main: &Main) {
    for store in stores.all() {
        let name = store.name();
        tell_opening(name, store.opening());
        for suspect in store.serving_at_death().into_iter().filter(|suspect| suspect.deaths >= DEATHS) {
            store.forget(suspect.record);
            main.adopt_suspect.inc();
            let digest = base::hex::encode(&suspect.digest);
            report_line!(
                "storage.{name}: an object is dropped, for two workers died while they delivered it: fetch {}, digest {digest}",
                suspect.xid
            );
        }
    }
}

fn tell_opening(name: &str, opening: &StoreOpening) {
    if let Some(reason) = opening.refusal {
        report_line!("storage.{name}: the objects of the previous worker can't be used: {reason}");
    } else if opening.pages_found > 0 {
        report_line!(
            "storage.{name}: takes over {} KB from the previous worker",
            opening.pages_found * PAGE_BYTES / 1024
        );
    }
}

/// No thread delivers anything any more: this worker ends, and nothing died of what it did last.
pub fn clear(stores: &Stores, threads: usize) {
    for store in stores.all() {
        (0..threads).for_each(|thread| store.note_serving(thread, None));
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! What happened, counted. Declared once: each line is a counter, its field in [`DiskCounts`] and its meaning.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Default, Debug)]
pub(crate) struct DiskCounter(AtomicU64);

impl DiskCounter {
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    pub fn count(&self) {
        self.add(1);
    }
}

macro_rules! counters {
    ($($(#[doc = $text:literal])+ $name:ident;)+) => {
        #[derive(Default, Debug)]
        pub(crate) struct DiskCounters { $(pub $name: DiskCounter,)+ }

        /// Values of the counters at a moment.
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        pub struct DiskCounts { $($(#[doc = $text])+ pub $name: u64,)+ }

        impl DiskCounters {
            pub fn now(&self) -> DiskCounts {
                DiskCounts { $($name: self.$name.0.load(Relaxed),)+ }
            }
        }

        impl DiskCounts {
            /// All of them by name, in the order of their declaration.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)+]
            }
        }
    };
}

counters! {
    /// Objects whose record was read and is whole.
    loads;
    /// Records read that are another's: the index can't tell all apart.
    loads_mismatched;
    /// Objects that were gone when their record was read.
    loads_gone;
    /// Reads that weren't begun, as too many are in progress.
    reads_refused;
    /// Bytes read for objects.
    bytes_read;
    /// Operations that the device was too slow for.
    stalls;
    /// Number of reads that failed.
    read_errors;
    /// Number of writes that failed.
    write_errors;
    /// Times that bringing to stable storage failed.
    sync_errors;
    /// Heads or chunks of a body with a wrong checksum.
    checksum_errors;
    /// Segments that aren't written again, because of such errors.
    segments_quarantined;
    /// Number of objects written.
    puts;
    /// Bytes appended to segments, all told.
    bytes_written;
    /// Objects not put, as writing is behind by too much, or has failed a short while ago.
    puts_slow;
    /// Objects not put for want of a segment that could be written.
    puts_no_segment;
    /// Objects not put, as they are too large.
    puts_too_large;
    /// Objects not put or not kept, as they were removed meanwhile.
    puts_overtaken;
    /// Objects written and not kept, as the write failed.
    puts_failed;
    /// Objects written and not kept, as the index has reached its bound.
    index_full;
    /// Number of objects removed.
    removed;
    /// Objects that went with their segment.
    reclaimed;
    /// Objects that were written anew, as they had been used, before their segment was reclaimed.
    moved;
    /// Number of segments reclaimed.
    segments_reclaimed;
    /// Segments that were found without a whole table, whose entries were read instead.
    segments_scanned;
    /// Segments given up at the start, as removals that concern them can't be read.
    segments_unjudged;
}

// SPDX-License-Identifier: BSD-2-Clause
//! The disk home of a store: objects on a file or a block device, found by an index in memory. Knows bytes in blocks; no
//! HTTP, no VCL, no socket, no clock. A disk that fails or is slow costs hits, never more.
//!
//! # Use
//!
//! * [`Disk::open`] gives the store and a [`Driver`], a future that opens, recovers, seals and reclaims: poll it on a
//!   thread of its own or as a task, as long as the store is used. [`Disk::opened`] ends when objects may be found;
//!   [`Disk::progress`] says how many segments have been loaded. Objects that aren't loaded yet are misses.
//! * [`Disk::find`] names candidates without I/O; [`Disk::load`] reads one, as a future that may be dropped; its body
//!   ([`DiskBody`]) is a `storage::StoredBody` that reads and checks the 64 KB that are asked for, several of them at once
//!   where they lie side by side, and ahead of who reads on.
//! * [`Disk::put`] takes a body as it comes and a record at its end. It never waits: what the disk can't take in time isn't
//!   stored. What was put is found once it is written.
//!   A body that can't stay in memory until then is the exception: [`Put::poll_room`] waits for the disk, and what is
//!   written of it is read meanwhile ([`Put::so_far`]). No body takes more than half of the store.
//! * [`Disk::remove`] takes back one record, [`Disk::remove_all`] all of a digest. [`Disk::journal_needed_from`] and
//!   [`Disk::least_ban_seq`] say what the journal and the ban list still have to hold.
//! * [`Disk::hand_over`] and [`Disk::take_over`]: two processes at an upgrade, see `handover`.
//! * [`Disk::tick`] several times a second: the time, and batches that wait. [`Disk::close`] at the end, for a quick start.
//!
//! # Format, version 1
//!
//! All words are little-endian. A *block* is 4096 bytes, a *unit* 64; addresses are units of the device. Each checksum is a
//! CRC-32C that begins with the store's number, so that what another store has left is garbage here.
//!
//! | where | what | file |
//! | --- | --- | --- |
//! | blocks 0 and 1 | the superblock, twice: `LACQDISK`, version, block size, the store's number, bytes of a segment, number of segments, the journal's number, checksum | `format/superblock.rs` |
//! | from byte 8192 on | the segments, side by side | |
//! | first block of a segment | `LQSEGMNT`, the store's number, the segment's generation and index, checksum | `format/segment.rs` |
//! | from its second block on | entries, each on a unit; where a batch ended early, the next begins on a block | `format/entry.rs` |
//! | before its end | the footer: a table of the objects (40 bytes each), the removals (32 bytes each) twice, the trailer (`LQSEGEND`) twice; each of the five begins on a block | `format/segment.rs` |
//!
//! An entry's head is one unit: magic, kind, generation, own address, length, checksum, and 32 bytes of its kind's own. It is
//! * an *object*: the digest in the head; then 128 bytes of fields, the texts (head, vary spec, vary values, auxiliary attributes,
//!   tags), the table of the body's chunks (generation, address, length, checksum), and a body of one chunk or none
//!   (`format/object.rs`);
//! * a *part*: one chunk of the body of an object whose record follows later, in this segment or another;
//! * *removals* (`format/removal.rs`), as in footers: by key (16 bytes of the digest) and number, or of one record.
//!
//! # What holds
//!
//! * A segment is written once, front to back. Before it is written anew it gets a generation that there never was, and
//!   that is on stable storage before the first entry is written: what an earlier life has left doesn't count. Whatever is
//!   read names its generation and address under a checksum.
//! * Entries may reach the disk in any order, torn or not at all. A record counts when it is whole; its chunks are checked when
//!   they are read. Nothing has to be undone after a power cut.
//! * A removal stands in the segment of what it concerns or in a later one, and recovery reads the newest first. Removals
//!   of a segment without a footer are still in the journal: [`Disk::journal_needed_from`] lets go of a number only
//!   when it is in a footer on stable storage, and so is the footer after it, which names the one before. So recovery knows
//!   of a footer that is lost; then it gives up what is older, since nobody can say what of it was removed.
//! * A store and the journal of its invalidations have a number in common ([`Bond`]). One that the journal doesn't know begins
//!   empty: something may have been invalidated that neither says.
//! * The oldest segment is reclaimed first. What was used since it was written is written anew, half a segment at most; an
//!   object goes when the segment of its record does, or that of any chunk. Who holds the body of a record that is written
//!   anew reads on there; who reads what isn't has a few seconds, as long as the room isn't needed.
//! * One process at a time writes. What a process has handed to the kernel may arrive after its end: the next one reads at
//!   once and writes when nothing can arrive any more ([`Others`]).
//! * A record or chunk that can't be read or is damaged is a miss, and isn't found again. A segment that can't be read or
//!   written, or changed after it was on stable storage, isn't written again by this process.

#![cfg_attr(not(test), warn(clippy::shadow_unrelated, clippy::wildcard_enum_match_arm))]

mod body;
mod core;
mod counters;
mod device;
#[cfg(test)]
mod dice;
mod disk;
mod footer;
pub mod format;
mod grow;
mod handover;
mod home;
mod index;
mod load;
mod open;
mod options;
mod put;
mod reclaim;
mod recover;
mod scan;
mod seal;
mod segments;
pub mod survey;
mod task;
#[cfg(test)]
mod tests;
mod writer;

pub use body::DiskBody;
pub use counters::DiskCounts;
pub use device::{
    Device, DeviceCounts, DeviceEngine, DeviceError, DeviceOp, DeviceOptions, Done, FileDevice, Patience, perform,
};
pub use disk::{Disk, DiskProgress, DiskUsage, Stage, SyncError};
pub use format::superblock::Superblock;
pub use load::{Loaded, Lost, RecordCandidate};
pub use open::identify;
pub use options::{Bond, DiskOpenError, DiskStoreOptions, Others};
pub use put::{Put, Refused};
pub use task::Driver;

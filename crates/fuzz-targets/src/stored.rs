// SPDX-License-Identifier: BSD-2-Clause
//! Formats of disks and logs, read again after anything may have happened to the bytes.

use std::io;
use std::sync::Mutex;

use disk::format::{entry, object, removal, segment};
use fleet::{FleetEntry, Read};
use logq::source::RecordFile;
use shm::vsl::LogFormat;
use storage::journal::{Journal, JournalEntry, Medium};

use crate::{choice, ended};

pub fn vsl(octets: &[u8]) {
    let (way, octets) = choice(octets);
    let format = LogFormat::of_server(if way & 1 == 0 { tables::Compat::V7_1 } else { tables::Compat::V9 });
    let mut file = RecordFile::behind_head(Box::new(io::Cursor::new(octets.to_vec())), format);
    while let Ok(Some(record)) = file.record() {
        assert!(record.len() <= octets.len() + 16);
        for one in logq::records(record) {
            ended((one.text(), one.side()));
        }
    }
    for one in logq::records(octets) {
        ended(one.text());
    }
}

/// Checksums stand before what reads the parts: `way` makes the right ones.
pub fn store(octets: &[u8]) {
    const STORE: u64 = 7;
    let (way, octets) = choice(octets);
    ended(disk::Superblock::decode(octets));
    ended(entry::EntryHead::decode(octets, STORE, u64::from(way), 64));
    ended(removal::decode_all(octets));
    ended(segment::decode_head(octets, STORE, 0));
    if let Some(trailer) = segment::Trailer::decode(octets, STORE, u64::from(way)) {
        ended(trailer.decode_lines(octets, STORE));
        ended(trailer.decode_removals(octets, STORE));
    }
    let mut record = octets.to_vec();
    if let Some(fields) = record.get_mut(object_fields()..)
        && fields.len() > 8
    {
        let len = u32::from_le_bytes([fields[4], fields[5], fields[6], fields[7]]) as usize;
        if (8..=fields.len()).contains(&len) {
            let sum = disk::format::checksum(STORE, &fields[4..len]);
            fields[..4].copy_from_slice(&sum.to_le_bytes());
        }
    }
    if let Some(found) = object::decode(STORE, [0; 32], &record) {
        assert!(found.texts.bytes() <= record.len());
    }
}

fn object_fields() -> usize {
    64
}

/// A medium in memory, which forgets what is written: the journal is read here only.
#[derive(Debug)]
struct Octets(Mutex<Vec<u8>>);

impl Medium for Octets {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let octets = self.0.lock().unwrap();
        let at = usize::try_from(at).map_err(io::Error::other)?;
        let from = octets.get(at..).and_then(|rest| rest.get(..into.len())).ok_or(io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(from);
        Ok(())
    }

    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn clear(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

pub fn journal(octets: &[u8]) {
    if let Some(entries) = JournalEntry::decode_all(octets) {
        let mut again = Vec::new();
        entries.iter().for_each(|entry| entry.encode(&mut again));
        let read = JournalEntry::decode_all(&again).expect("what was written");
        assert_eq!(format!("{read:?}"), format!("{entries:?}"));
    }
    ended(Journal::open(Octets(Mutex::new(octets.to_vec()))));
}

pub fn fleet_entry(octets: &[u8]) {
    fleet::mark(octets);
    if let Read::Entry(entry) = FleetEntry::read(octets) {
        ended(entry.encode());
    }
}

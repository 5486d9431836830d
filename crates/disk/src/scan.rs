// SPDX-License-Identifier: BSD-2-Clause
//! Reading a segment entry by entry, when it has no table: it was open when the power went, or its table is damaged.
//! The entries stand one after the other; where a batch was padded, the next begins on a block.

use crate::core::Core;
use crate::format::entry::{DiskEntryKind, EntryHead, HEAD};
use crate::format::object::{self, MOST_ENTRY};
use crate::format::removal::{self, Removal};
use crate::format::segment::FooterLine;
use crate::format::{BLOCK, UNIT, checksum, key_of};
use crate::task;

const WINDOW: u64 = 1 << 20;

#[derive(Default, Debug)]
pub(crate) struct Scanned {
    pub lines: Vec<FooterLine>,
    pub removals: Vec<Removal>,
    /// End of its entries, in bytes from its start.
    pub end: u64,
}

/// Reads a segment in its life `generation`, up to where its entries end or are damaged.
pub(crate) async fn scan(core: &Core, index: u32, generation: u64) -> Scanned {
    let superblock = core.geometry().superblock;
    let start = superblock.segment_start(index);
    let mut window = Window { core, start, len: superblock.segment_bytes, from: 0, bytes: Vec::new() };
    let mut found = Scanned { end: BLOCK as u64, ..Scanned::default() };
    let mut at = BLOCK as u64;
    loop {
        let unit = (start + at) / UNIT;
        let head = window.get(at, HEAD as u64).await;
        let Some(head) = head.and_then(|head| EntryHead::decode(head, superblock.store_id, generation, unit)) else {
            if at.is_multiple_of(BLOCK as u64) {
                return found;
            }
            at = at.next_multiple_of(BLOCK as u64);
            continue;
        };
        if at + head.units() * UNIT > superblock.segment_bytes {
            return found;
        }
        if head.kind != DiskEntryKind::Part {
            let whole = u64::from(head.len) <= MOST_ENTRY;
            let Some(entry) = (if whole { window.get(at, u64::from(head.len)).await } else { None }) else {
                return found;
            };
            found.take(&head, (at / UNIT) as u32, entry, superblock.store_id);
            task::yield_now().await;
        }
        at += head.units() * UNIT;
        found.end = at;
    }
}

impl Scanned {
    pub fn is_empty(&self) -> bool {
        self.end <= BLOCK as u64
    }

    /// Notes an entry. One whose record is damaged isn't an object; what follows it may be.
    fn take(&mut self, head: &EntryHead, offset: u32, entry: &[u8], store_id: u64) {
        match head.kind {
            DiskEntryKind::Part => {}
            DiskEntryKind::Object => {
                let Some(decoded) = object::decode(store_id, head.own, entry) else { return };
                let (generation, at) = decoded.copy_of;
                if generation != 0 {
                    self.removals.push(Removal::Record { generation, at });
                }
                self.lines.push(FooterLine {
                    key: key_of(&head.own),
                    ban_seq: decoded.record.ban_seq,
                    offset,
                    expiry: object::expiry(&decoded.record.times),
                    units: head.units() as u32,
                    body_kb: decoded.body_len.div_ceil(1024).min(u64::from(u32::MAX)) as u32,
                });
            }
            DiskEntryKind::Removals => {
                let bytes = &entry[HEAD..];
                if head.own[..4] == checksum(store_id, bytes).to_le_bytes() {
                    self.removals.extend(removal::decode_all(bytes).unwrap_or_default());
                }
            }
        }
    }
}

struct Window<'a> {
    core: &'a Core,
    /// Offset of the segment on the device, and its bytes.
    start: u64,
    len: u64,
    /// Offset of the piece in the segment.
    from: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// Bytes of the segment, read if they aren't there. `None`: beyond its end, or they can't be read.
    async fn get(&mut self, at: u64, len: u64) -> Option<&[u8]> {
        if at + len > self.from + self.bytes.len() as u64 || at < self.from {
            self.read(at, len).await?;
        }
        let skipped = (at - self.from) as usize;
        self.bytes.get(skipped..skipped + len as usize)
    }

    async fn read(&mut self, at: u64, len: u64) -> Option<()> {
        let from = at / BLOCK as u64 * BLOCK as u64;
        let least = (at + len).next_multiple_of(BLOCK as u64);
        if least > self.len {
            return None;
        }
        let end = (from + WINDOW).max(least).min(self.len);
        match task::read(&*self.core.device, self.start + from, (end - from) as usize).await {
            Ok(pages) => {
                (self.from, self.bytes) = (from, pages.to_vec());
                Some(())
            }
            Err(error) => {
                self.core.note_error(error, &self.core.counters.read_errors);
                None
            }
        }
    }
}

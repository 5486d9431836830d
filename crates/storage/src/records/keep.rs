// SPDX-License-Identifier: BSD-2-Clause
//! Writing a record: a small body goes into it behind the head block, of a longer one it lists the extents. What is in
//! extents already stays where it is.

use std::num::NonZeroU32;

use sys::arena::{ArenaSlot, SHARED};
use sys::extent::PAGE;

use crate::body::{BodyBlocks, BodyPiece};
use crate::buf::Buf;
use crate::compact::{COALESCED, Compact, Rest, SMALL_BODY};
use crate::record::{Record, RecordId};
use crate::records::StoreRecords;
use crate::records::words::{self, KEPT, Lengths, STATE};
use crate::store::Store;

/// An end of a long body is in the record when it is shorter than a page, which it would have alone.
const SHORT_END: usize = PAGE;

/// A body whose bytes are in whole extents, but for its end.
struct Settled {
    pieces: Vec<BodyPiece>,
    end: Option<BodyPiece>,
}

impl Store {
    /// [`Store::keep`] in a store with an arena; `None`: there is no room, or lengths have none.
    pub(crate) fn record(
        &self,
        records: &StoreRecords,
        record: &Record,
        head: &[u8],
        tags: &[u8],
        body: &BodyBlocks,
    ) -> Option<(Compact, RecordId)> {
        assert_eq!(record.lengths.all(), head.len(), "a head block has the parts that its record tells of");
        let all = head.len() + tags.len() + usize::try_from(body.len()).ok()?;
        if body.len() <= SMALL_BODY && all <= SHARED {
            let parts: Vec<&[u8]> = body.pieces().map(|piece| &piece.buf[..]).collect();
            return self.short(records, record, head, tags, &parts);
        }
        self.long(records, record, head, tags, self.settled(body)?)
    }

    fn short(
        &self,
        records: &StoreRecords,
        record: &Record,
        head: &[u8],
        tags: &[u8],
        body: &[&[u8]],
    ) -> Option<(Compact, RecordId)> {
        let body_len = body.iter().map(|part| part.len()).sum();
        let lengths = Lengths { head: head.len(), body: body_len, extents: 0, tags: tags.len() };
        let mut parts = Vec::with_capacity(body.len() + 2);
        parts.push(head);
        parts.extend_from_slice(body);
        parts.push(tags);
        let (buf, id) = self.written(records, record, &lengths, &parts)?;
        Some((Compact { head: buf.narrow(0..head.len() + body_len), rest: None }, id))
    }

    fn long(
        &self,
        records: &StoreRecords,
        record: &Record,
        head: &[u8],
        tags: &[u8],
        settled: Settled,
    ) -> Option<(Compact, RecordId)> {
        let Settled { mut pieces, end } = settled;
        let mut extents = Vec::with_capacity(pieces.len() * 8);
        for piece in &pieces {
            let extent = piece.buf.whole_extent()?;
            extents.extend_from_slice(&words::extent_words(extent.place().1, piece.buf.len() as u32));
        }
        let end_len = end.as_ref().map_or(0, |end| end.buf.len());
        let lengths = Lengths { head: head.len(), body: end_len, extents: pieces.len(), tags: tags.len() };
        let end_bytes = end.as_ref().map_or(&[][..], |end| &end.buf[..]);
        let (buf, id) = self.written(records, record, &lengths, &[head, end_bytes, &extents, tags])?;
        if let Some(BodyPiece { start, .. }) = end {
            pieces.push(BodyPiece { start, buf: buf.slice(head.len()..head.len() + end_len) });
        }
        let rest = Some(Rest::Blocks(pieces.into_boxed_slice()));
        Some((Compact { head: buf.narrow(0..head.len()), rest }, id))
    }

    /// A record, which isn't published, and its bytes.
    fn written(
        &self,
        records: &StoreRecords,
        record: &Record,
        lengths: &Lengths,
        parts: &[&[u8]],
    ) -> Option<(Buf, RecordId)> {
        let cost = records.arena.cost(parts.iter().map(|part| part.len()).sum())?;
        if !lengths.fit(record) || !self.account().charge(cost) {
            return None;
        }
        let slot = {
            let _critical = base::critical::enter();
            records.arena.slot(parts)
        };
        let Some(slot) = slot else {
            self.account().give_back(cost);
            return None;
        };
        self.account().count_request();
        words::write(&slot, record, lengths);
        slot.words().word(STATE).store(KEPT, std::sync::atomic::Ordering::Release);
        let id = number(&slot);
        Some((Buf::of_slot(slot), id))
    }

    /// Moves what isn't in whole extents of the arena there.
    fn settled(&self, body: &BodyBlocks) -> Option<Settled> {
        let (mut pieces, mut loose): (Vec<BodyPiece>, Vec<BodyPiece>) = (Vec::new(), Vec::new());
        for piece in self.coalesced(body) {
            if self.has_extent_of(&piece.buf) {
                self.move_loose(&mut loose, &mut pieces)?;
                pieces.push(piece);
            } else {
                loose.push(piece);
            }
        }
        let end = match &loose[..] {
            [end] if end.buf.len() < SHORT_END => loose.pop(),
            _ => None,
        };
        self.move_loose(&mut loose, &mut pieces)?;
        Some(Settled { pieces, end })
    }

    fn has_extent_of(&self, buf: &Buf) -> bool {
        let region = self.records().map(StoreRecords::region);
        buf.whole_extent()
            .is_some_and(|extent| region.is_some_and(|region| std::sync::Arc::ptr_eq(region, extent.place().0)))
    }

    /// Copies these neighbours into extents, as many as make one of a good length together.
    fn move_loose(&self, loose: &mut Vec<BodyPiece>, into: &mut Vec<BodyPiece>) -> Option<()> {
        let mut rest = &loose[..];
        while let Some(first) = rest.first() {
            let mut len = first.buf.len();
            let more = rest[1..].iter().take_while(|piece| {
                len += piece.buf.len();
                len <= COALESCED
            });
            let (run, after) = rest.split_at(1 + more.count());
            let parts: Vec<&[u8]> = run.iter().map(|piece| &piece.buf[..]).collect();
            let run_len = parts.iter().map(|part| part.len()).sum();
            into.push(BodyPiece { start: first.start, buf: Buf::over(self.in_pages(&parts, run_len)?) });
            self.account().count_request();
            rest = after;
        }
        loose.clear();
        Some(())
    }
}

fn number(slot: &ArenaSlot) -> RecordId {
    RecordId(NonZeroU32::new(slot.number()).expect("no slot has the number 0"))
}

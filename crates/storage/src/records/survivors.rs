// SPDX-License-Identifier: BSD-2-Clause
//! Records of a former worker: given out by digest, each once, which a walk tells; then what is left is freed.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{MutexGuard, PoisonError};

use sys::arena::{ArenaSlot, Books};

use crate::body::BodyPiece;
use crate::buf::Buf;
use crate::compact::Rest;
use crate::record::{Cursor, RecordId, Survivor};
use crate::records::words::{self, HASH, Lengths, NEXT};
use crate::records::{MOST_LINKS, StoreRecords, digest_of, is_live};
use crate::store::Charge;

/// A step of the walk looks at so many slots for each survivor that is asked for.
const LOOKS: usize = 16;

/// A record and its extents, taken out of the unclaimed.
struct Claimed {
    slot: ArenaSlot,
    number: u32,
}

impl StoreRecords {
    pub fn survivors(&self, digest: &[u8; 32]) -> Vec<Survivor> {
        if !self.is_adopting() {
            return Vec::new();
        }
        let _critical = base::critical::enter();
        let mut claimed = self.claim_bucket(digest);
        // The newest is the first in its bucket.
        claimed.reverse();
        claimed.into_iter().filter_map(|claimed| self.survivor(claimed)).collect()
    }

    /// The tags of each survivor of that digest, which stays unclaimed; empty if the record is damaged.
    pub fn survivor_tags(&self, digest: &[u8; 32]) -> Vec<Vec<u8>> {
        if !self.is_adopting() {
            return Vec::new();
        }
        let read = |slot: &ArenaSlot| words::read(slot).map(|(_, lengths)| words::tags(slot, &lengths));
        let books = self.arena.books();
        let numbers = in_bucket(&books, digest);
        let tags = numbers.into_iter().filter_map(|number| books.with_unclaimed(number, read));
        tags.map(Option::unwrap_or_default).collect()
    }

    fn claim_bucket(&self, digest: &[u8; 32]) -> Vec<Claimed> {
        let mut books = self.arena.books();
        let numbers = in_bucket(&books, digest);
        numbers.into_iter().filter_map(|number| Some(Claimed { slot: books.claim(number)?, number })).collect()
    }

    pub fn next_digests(&self, cursor: &mut Cursor, most: usize) -> Option<Vec<[u8; 32]>> {
        if !self.is_adopting() {
            return None;
        }
        self.let_go_of_extents();
        let _critical = base::critical::enter();
        let mut digests = Vec::new();
        let mut is_end = true;
        let books = self.arena.books();
        for _ in 0..most.saturating_mul(LOOKS) {
            let Some((number, next)) = books.next_found(cursor.0) else { break };
            is_end = false;
            cursor.0 = next;
            if is_live(&books, number) {
                digests.extend(digest_of(&books, number));
            }
            if digests.len() >= most {
                break;
            }
        }
        (!is_end || most == 0).then_some(digests)
    }

    /// Those that only this list still holds.
    fn let_go_of_extents(&self) {
        let unused: Vec<Buf> = self.extents().extract_if(|_, buf| buf.is_only_handle()).map(|(_, buf)| buf).collect();
        drop(unused);
    }

    fn extents(&self) -> MutexGuard<'_, HashMap<u32, Buf>> {
        self.extents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The content of a record; `None`: it is damaged, and gone.
    fn survivor(&self, claimed: Claimed) -> Option<Survivor> {
        let Claimed { slot, number } = claimed;
        let id = RecordId(NonZeroU32::new(number)?);
        let read = words::read(&slot);
        let found = read.and_then(|(record, lengths)| Some((record, lengths, self.claim_extents(&slot, &lengths)?)));
        let Some((record, lengths, extents)) = found else {
            drop(self.charge(Buf::of_slot(slot)));
            return None;
        };
        let tags = words::tags(&slot, &lengths);
        let buf = self.charge(Buf::of_slot(slot));
        let rest = (!extents.is_empty()).then(|| Self::rest(extents, &buf, &lengths));
        let head_end = lengths.head + if rest.is_some() { 0 } else { lengths.body };
        Some(Survivor { record, id, head: buf.narrow(0..head_end), tags, rest })
    }

    fn claim_extents(&self, slot: &ArenaSlot, lengths: &Lengths) -> Option<Vec<Buf>> {
        let claimed: Vec<Buf> =
            words::extents(slot, lengths).map_while(|(first, len)| self.claim_extent(first, len)).collect();
        (claimed.len() == lengths.extents).then_some(claimed)
    }

    fn claim_extent(&self, first: u32, len: u32) -> Option<Buf> {
        let mut extents = self.extents();
        if let Some(buf) = extents.get(&first) {
            return Some(buf.clone()).filter(|buf| buf.len() == len as usize);
        }
        let extent = self.arena.books().claim_extent(first, len)?;
        let buf = self.charge(Buf::over(Charge::paged(extent, self.account.clone())));
        extents.insert(first, buf.clone());
        Some(buf)
    }

    fn rest(extents: Vec<Buf>, record: &Buf, lengths: &Lengths) -> Rest {
        let mut start = 0;
        let mut pieces = Vec::with_capacity(extents.len() + 1);
        let mut add = |buf: Buf| {
            let len = buf.len() as u64;
            pieces.push(BodyPiece { start, buf });
            start += len;
        };
        extents.into_iter().for_each(&mut add);
        if lengths.body > 0 {
            add(record.slice(lengths.head..lengths.head + lengths.body));
        }
        Rest::Blocks(pieces.into_boxed_slice())
    }

    /// Charges its bytes to it alone from now on, no longer to what is unclaimed.
    fn charge(&self, buf: Buf) -> Buf {
        let bytes = buf.charged_bytes();
        let pool = self.unclaimed.update(Relaxed, Relaxed, |pool| pool.saturating_sub(bytes));
        let moved = pool.min(bytes);
        self.account.release_found(moved);
        self.account.charge_found(bytes, 1);
        buf
    }

    pub fn sweep(&self) {
        if !self.is_adopting() {
            return;
        }
        let buckets = self.arena.books().buckets();
        for hash in 0..buckets {
            let _critical = base::critical::enter();
            // Handed over meanwhile, it is the next process's business.
            let Some(books) = self.own_books() else { return };
            unlink_unclaimed(&books, hash);
        }
        {
            let _critical = base::critical::enter();
            self.arena.sweep();
        }
        drop(std::mem::take(&mut *self.extents()));
        self.account.release_found(self.unclaimed.swap(0, Relaxed));
        self.is_adopting.store(false, Relaxed);
    }
}

/// Numbers of the live records of a digest, the newest first.
fn in_bucket(books: &Books<'_>, digest: &[u8; 32]) -> Vec<u32> {
    let wanted = words::digest_words(digest);
    let mut found = Vec::new();
    let mut number = books.bucket(wanted[HASH - words::digest_word(0)]).load(Acquire);
    for _ in 0..MOST_LINKS {
        let Some(next) = books.word(number, NEXT).map(|word| word.load(Acquire)) else { break };
        if has_digest(books, number, &wanted) && is_live(books, number) {
            found.push(number);
        }
        number = next;
    }
    found
}

fn has_digest(books: &Books<'_>, number: u32, wanted: &[u32; 8]) -> bool {
    let is_same =
        |n: usize| books.word(number, words::digest_word(n)).is_some_and(|word| word.load(Relaxed) == wanted[n]);
    (0..8).all(is_same)
}

/// Takes out of a bucket what nobody has claimed, which is about to be freed, and what isn't a record.
fn unlink_unclaimed(books: &Books<'_>, hash: u32) {
    let mut link = books.bucket(hash);
    for _ in 0..MOST_LINKS {
        let number = link.load(Acquire);
        let Some(next) = books.word(number, NEXT) else {
            return link.store(0, Release);
        };
        if books.is_unclaimed(number) || !is_live(books, number) {
            link.store(next.load(Acquire), Release);
        } else {
            link = next;
        }
    }
    // Too long, or a ring.
    link.store(0, Release);
}

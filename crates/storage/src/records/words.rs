// SPDX-License-Identifier: BSD-2-Clause
//! A record as words: what is where. Little-endian, as all of an arena. A change here is a change of the arena's format
//! version.
//!
//! Behind the words are the record's bytes: the head block (head, vary spec, vary values, auxiliary attributes), then as
//! much of the body as is in the record, then the extents of the rest (first page, length: two words each), then the tags.

use std::sync::atomic::Ordering::Relaxed;

use sys::arena::{ArenaSlot, ArenaWords};

use crate::record::Record;
use crate::records::facts::Facts;

/// State of a record: one of the numbers below. 0 in a slot that was never used.
pub(super) const STATE: usize = 0;
/// The number of the next record in its bucket, 0 at the end.
pub(super) const NEXT: usize = 1;
pub(super) const DIGEST: usize = 2;
/// The word of the digest that chooses the bucket.
pub(super) const HASH: usize = DIGEST + 4;
pub(super) const XID: usize = 10;
pub(super) const BAN_SEQ: usize = 12;
pub(super) const T_ORIGIN: usize = 14;
pub(super) const TTL: usize = 16;
pub(super) const GRACE: usize = 18;
pub(super) const KEEP: usize = 19;
pub(super) const HITS: usize = 20;
const CHECK: usize = 21;
pub(super) const HEAD_LEN: usize = 22;
/// Lengths of the vary spec and of the vary values.
pub(super) const VARY_LENS: usize = 23;
pub(super) const AUX_LEN: usize = 24;
/// Length of the tags, flags, count of deaths.
pub(super) const MIXED: usize = 25;
pub(super) const BODY_LEN: usize = 26;
pub(super) const EXTENTS: usize = 27;
const _: () = assert!(EXTENTS < sys::arena::WORDS);

/// In [`VARY_LENS`] of what isn't a record: they are too long for it, and in the two words behind [`MIXED`].
pub(super) const LONG_VARY: u32 = u32::MAX;

/// One death, in [`MIXED`].
pub(super) const DEATH: u32 = 1 << 24;

/// Written, and not to be found yet.
pub(super) const KEPT: u32 = 1;
pub(super) const LIVE: u32 = 2;
pub(super) const DEAD: u32 = 3;

/// Lengths of what is behind the words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lengths {
    /// Bytes of the head block.
    pub head: usize,
    /// Bytes of the body in the record.
    pub body: usize,
    pub extents: usize,
    pub tags: usize,
}

impl Lengths {
    pub fn fit(&self, record: &Record) -> bool {
        let short = [record.lengths.spec as usize, record.lengths.values as usize, self.tags];
        short.iter().all(|&len| len < usize::from(u16::MAX))
            && u8::try_from(record.flags).is_ok()
            && [self.body, self.extents].iter().all(|&len| u32::try_from(len).is_ok())
    }

    fn all(&self) -> Option<usize> {
        let extents = self.extents.checked_mul(8)?;
        self.head.checked_add(self.body)?.checked_add(extents)?.checked_add(self.tags)
    }
}

pub(super) fn extent_words(first: u32, len: u32) -> [u8; 8] {
    (u64::from(first) | u64::from(len) << 32).to_le_bytes()
}

/// Writes what isn't of a record's place alone.
pub(super) fn write_facts(words: &ArenaWords, record: &Record) {
    let set = |n: usize, word: u32| words.word(n).store(word, Relaxed);
    let Record { digest, xid, ban_seq, times, hits, lengths, .. } = record;
    digest_words(digest).into_iter().enumerate().for_each(|(n, word)| set(DIGEST + n, word));
    let wide = [(XID, *xid), (BAN_SEQ, *ban_seq), (T_ORIGIN, times.t_origin.0.to_bits()), (TTL, times.ttl.to_bits())];
    wide.into_iter().for_each(|(n, word)| words.word64(n).store(word, Relaxed));
    set(GRACE, (times.grace as f32).to_bits());
    set(KEEP, (times.keep as f32).to_bits());
    set(HITS, *hits);
    set(HEAD_LEN, lengths.head);
    set(AUX_LEN, lengths.aux);
}

pub(super) fn write(slot: &ArenaSlot, record: &Record, lengths: &Lengths) {
    let set = |n: usize, word: u32| slot.words().word(n).store(word, Relaxed);
    write_facts(slot.words(), record);
    set(NEXT, 0);
    set(VARY_LENS, record.lengths.spec | record.lengths.values << 16);
    set(MIXED, lengths.tags as u32 | record.flags << 16);
    set(BODY_LEN, lengths.body as u32);
    set(EXTENTS, lengths.extents as u32);
    set(CHECK, check(slot, lengths).unwrap_or_default());
}

/// Reads a record that is complete; `None`: it is damaged.
pub(super) fn read(slot: &ArenaSlot) -> Option<(Record, Lengths)> {
    let get = |n: usize| slot.words().word(n).load(Relaxed);
    let record = Facts::of_slot(slot.words()).record();
    let lengths = Lengths {
        head: record.lengths.all(),
        body: get(BODY_LEN) as usize,
        extents: get(EXTENTS) as usize,
        tags: (get(MIXED) & 0xffff) as usize,
    };
    let is_whole = get(VARY_LENS) != LONG_VARY && record.times.are_finite() && check(slot, &lengths)? == get(CHECK);
    is_whole.then_some((record, lengths))
}

/// A sum over what doesn't change but the head block, the body and the tags: those are complete when this is. `None`:
/// the lengths can't be.
fn check(slot: &ArenaSlot, lengths: &Lengths) -> Option<u32> {
    if lengths.all().is_none_or(|all| all > slot.bytes().len()) {
        return None;
    }
    let fixed = (DIGEST..BAN_SEQ).chain(HEAD_LEN..=EXTENTS);
    let mut sum = fixed.fold(0x9e37_79b9_7f4a_7c15, |sum, n| {
        let word = slot.words().word(n).load(Relaxed);
        mix(sum, u64::from(if n == MIXED { word & (DEATH - 1) } else { word }))
    });
    let (extents, _) = extent_bytes(slot, lengths).as_chunks::<8>();
    for words in extents {
        sum = mix(sum, u64::from_le_bytes(*words));
    }
    Some((sum ^ sum >> 32) as u32)
}

fn mix(sum: u64, word: u64) -> u64 {
    (sum ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29)
}

fn extent_bytes<'a>(slot: &'a ArenaSlot, lengths: &Lengths) -> &'a [u8] {
    let from = lengths.head + lengths.body;
    &slot.bytes()[from..from + lengths.extents * 8]
}

/// First pages and lengths of the extents of a record that was read.
pub(super) fn extents<'a>(slot: &'a ArenaSlot, lengths: &Lengths) -> impl Iterator<Item = (u32, u32)> + use<'a> {
    let (extents, _) = extent_bytes(slot, lengths).as_chunks::<8>();
    extents.iter().map(|words| {
        let both = u64::from_le_bytes(*words);
        (both as u32, (both >> 32) as u32)
    })
}

pub(super) fn tags(slot: &ArenaSlot, lengths: &Lengths) -> Vec<u8> {
    let from = lengths.head + lengths.body + lengths.extents * 8;
    slot.bytes()[from..from + lengths.tags].to_vec()
}

pub(super) fn digest_words(digest: &[u8; 32]) -> [u32; 8] {
    let (words, _) = digest.as_chunks::<4>();
    std::array::from_fn(|n| u32::from_le_bytes(words[n]))
}

pub(super) const fn digest_word(n: usize) -> usize {
    DIGEST + n
}

pub(super) const XID_WORD: usize = XID;

// SPDX-License-Identifier: BSD-2-Clause
//! The purges that a journal still has to hold.

use std::collections::{BTreeMap, HashMap};

use storage::journal::{JournalEntry, JournalPurge};

/// Digests whose purges are kept for homes; with more, the journal is given up.
const MOST_KEPT: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct Purges {
    /// May not have reached all objects in memory.
    open: BTreeMap<u64, JournalEntry>,
    /// A home may not have on stable storage: the newest of each digest.
    kept: BTreeMap<u64, [u8; 32]>,
    newest: HashMap<[u8; 32], u64>,
}

impl Purges {
    pub fn begin(&mut self, seq: u64, entry: JournalEntry) {
        self.open.insert(seq, entry);
    }

    /// Ends a purge that has reached all objects in memory.
    pub fn end(&mut self, seq: u64) -> Option<JournalEntry> {
        self.open.remove(&seq)
    }

    pub fn open(&self) -> &BTreeMap<u64, JournalEntry> {
        &self.open
    }

    /// Homes may still need it.
    pub fn keep(&mut self, seq: u64, digest: [u8; 32]) {
        let known = self.newest.entry(digest).or_insert(seq);
        let (older, newer) = (seq.min(*known), seq.max(*known));
        *known = newer;
        self.kept.remove(&older);
        self.kept.insert(newer, digest);
    }

    /// Drops purges below that number, which no home needs. Returns `true` if there were still too many, in which case
    /// all are dropped.
    pub fn let_go(&mut self, needed_from: u64) -> bool {
        while let Some(oldest) = self.kept.first_entry().filter(|oldest| *oldest.key() < needed_from) {
            let digest = oldest.remove();
            self.newest.remove(&digest);
        }
        let has_too_many = self.kept.len() > MOST_KEPT;
        if has_too_many {
            self.kept = BTreeMap::new();
            self.newest = HashMap::new();
        }
        has_too_many
    }

    /// Numbers and digests of purges to be carried out in homes.
    #[expect(clippy::wildcard_enum_match_arm, reason = "a selection of one kind")]
    pub fn digests(&self) -> impl Iterator<Item = (u64, &[u8; 32])> {
        let open = self.open.iter().filter_map(|(&seq, entry)| match entry {
            JournalEntry::Purge(purge) => Some((seq, &purge.digest)),
            _ => None,
        });
        self.kept.iter().map(|(&seq, digest)| (seq, digest)).chain(open)
    }

    /// The purges that matter in memory.
    pub fn without_homes(self) -> Purges {
        Purges { open: self.open, ..Purges::default() }
    }

    pub fn entries(&self) -> impl Iterator<Item = JournalEntry> {
        let kept = self.kept.iter().flat_map(|(&seq, &digest)| {
            [
                JournalEntry::Purge(JournalPurge { seq, digest, ..JournalPurge::default() }),
                JournalEntry::Reached { seq },
            ]
        });
        self.open.values().cloned().chain(kept)
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! The segments: what each is now.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DiskSegmentState {
    Free,
    Unread,
    /// The new generation is on stable storage; nothing is in it.
    Prepared,
    Open,
    /// Written; its footer isn't there, yet or at all.
    Full,
    /// Written, its footer on stable storage.
    Sealed,
    Dropping,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskSegment {
    pub generation: u64,
    pub state: DiskSegmentState,
    pub least_ban_seq: u64,
    /// Faults in it are the medium's: it was on stable storage.
    pub is_trusted: bool,
    pub is_quarantined: bool,
}

impl DiskSegment {
    pub const FREE: DiskSegment = DiskSegment {
        generation: 0,
        state: DiskSegmentState::Free,
        least_ban_seq: u64::MAX,
        is_trusted: false,
        is_quarantined: false,
    };

    pub fn is_usable(&self) -> bool {
        self.state == DiskSegmentState::Free && !self.is_quarantined
    }

    pub fn holds_objects(&self) -> bool {
        !matches!(self.state, DiskSegmentState::Free | DiskSegmentState::Prepared)
    }
}

/// The next to be reclaimed: the oldest that isn't written any more. One without a footer may be the one that gets it
/// now, or have a write on its way that failed for others: not as long as anything `is_written`.
pub(crate) fn oldest(segments: &[DiskSegment], is_written: bool) -> Option<u32> {
    let is_due =
        |own: &DiskSegment| own.state == DiskSegmentState::Sealed || own.state == DiskSegmentState::Full && !is_written;
    let written = segments.iter().enumerate().filter(|(_, own)| is_due(own));
    written.min_by_key(|(_, own)| own.generation).map(|(index, _)| index as u32)
}

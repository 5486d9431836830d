// SPDX-License-Identifier: BSD-2-Clause
//! The reasons why a run ends.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplayEnd {
    Done,
    Time,
    Interrupted,
    GaveUp,
    /// Ctrl-C came in the warm-up: nothing was measured.
    InterruptedInWarmup,
    /// The last request was sent in the warm-up: nothing was measured.
    DoneInWarmup,
}

impl ReplayEnd {
    /// All, from the one that says most about a run of several workers that ended differently.
    pub const ALL: [ReplayEnd; 6] = [
        ReplayEnd::Interrupted,
        ReplayEnd::GaveUp,
        ReplayEnd::Time,
        ReplayEnd::Done,
        ReplayEnd::InterruptedInWarmup,
        ReplayEnd::DoneInWarmup,
    ];

    pub const fn word(self) -> &'static str {
        match self {
            ReplayEnd::Done => "done",
            ReplayEnd::Time => "time",
            ReplayEnd::Interrupted => "interrupted",
            ReplayEnd::GaveUp => "gave_up",
            ReplayEnd::InterruptedInWarmup => "interrupted_in_warmup",
            ReplayEnd::DoneInWarmup => "done_in_warmup",
        }
    }

    /// The same end of a run whose warm-up wasn't over.
    pub const fn in_warmup(self) -> ReplayEnd {
        match self {
            ReplayEnd::Interrupted => ReplayEnd::InterruptedInWarmup,
            ReplayEnd::Done => ReplayEnd::DoneInWarmup,
            other => other,
        }
    }

    pub const fn is_unmeasured(self) -> bool {
        matches!(self, ReplayEnd::InterruptedInWarmup | ReplayEnd::DoneInWarmup)
    }

    pub fn parse(word: &str) -> Option<ReplayEnd> {
        ReplayEnd::ALL.into_iter().find(|end| end.word() == word)
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! The contexts of statements, and the result of translating one.

use tables::dialects::OldSub;

/// The context of a statement: an old subroutine. Those with a part on the backend side have two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) enum Ctx {
    Recv,
    Pipe,
    Pass,
    PassBereq,
    Hash,
    Miss,
    MissBereq,
    Hit,
    Fetch,
    Deliver,
    /// vcl_deliver for a response from vcl_error. The old releases ran vcl_deliver for those, too.
    DeliverError,
    Error,
    Init,
    Fini,
}

impl Ctx {
    pub fn sub(self) -> OldSub {
        match self {
            Ctx::Recv => OldSub::Recv,
            Ctx::Pipe => OldSub::Pipe,
            Ctx::Pass | Ctx::PassBereq => OldSub::Pass,
            Ctx::Hash => OldSub::Hash,
            Ctx::Miss | Ctx::MissBereq => OldSub::Miss,
            Ctx::Hit => OldSub::Hit,
            Ctx::Fetch => OldSub::Fetch,
            Ctx::Deliver | Ctx::DeliverError => OldSub::Deliver,
            Ctx::Error => OldSub::Error,
            Ctx::Init => OldSub::Init,
            Ctx::Fini => OldSub::Fini,
        }
    }

    /// The contexts of an old subroutine; empty for those that never ran.
    pub fn contexts_for(sub: OldSub) -> &'static [Ctx] {
        match sub {
            OldSub::Recv => &[Ctx::Recv],
            OldSub::Pipe => &[Ctx::Pipe],
            OldSub::Pass => &[Ctx::Pass, Ctx::PassBereq],
            OldSub::Hash => &[Ctx::Hash],
            OldSub::Miss => &[Ctx::Miss, Ctx::MissBereq],
            OldSub::Hit => &[Ctx::Hit],
            OldSub::Fetch => &[Ctx::Fetch],
            OldSub::Deliver => &[Ctx::Deliver, Ctx::DeliverError],
            OldSub::Error => &[Ctx::Error],
            OldSub::Init => &[Ctx::Init],
            OldSub::Fini => &[Ctx::Fini],
            OldSub::Prefetch | OldSub::Timeout | OldSub::Discard => &[],
        }
    }

    pub fn only_bereq(self) -> bool {
        matches!(self, Ctx::PassBereq | Ctx::MissBereq)
    }

    /// True for contexts on the backend side.
    pub fn backend(self) -> bool {
        self.only_bereq() || self == Ctx::Fetch
    }

    pub fn delivers(self) -> bool {
        matches!(self, Ctx::Deliver | Ctx::DeliverError)
    }

    /// The suffix for a user's subroutine that differs by context.
    pub fn suffix(self) -> &'static str {
        match self {
            Ctx::Recv => "recv",
            Ctx::Pipe => "pipe",
            Ctx::Pass => "pass",
            Ctx::PassBereq => "pass_bereq",
            Ctx::Hash => "hash",
            Ctx::Miss => "miss",
            Ctx::MissBereq => "miss_bereq",
            Ctx::Hit => "hit",
            Ctx::Fetch => "fetch",
            Ctx::Deliver => "deliver",
            Ctx::DeliverError => "deliver_error",
            Ctx::Error => "error",
            Ctx::Init => "init",
            Ctx::Fini => "fini",
        }
    }

    pub fn name_now(self) -> &'static str {
        match self {
            Ctx::Fetch => "vcl_backend_response",
            Ctx::Error | Ctx::DeliverError => "vcl_synth",
            Ctx::PassBereq | Ctx::MissBereq => "vcl_backend_fetch",
            other => other.sub().name(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub(crate) enum Outcome {
    No,
    /// The statement remains, but has no effect of its own.
    Weak,
    Yes,
}

// SPDX-License-Identifier: BSD-2-Clause
//! The contexts of statements, and the result of translating one.

use tables::dialects::OldSub;

/// The context of a statement: an old subroutine. Those with a part on the backend side have two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) enum DialectCtx {
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

impl DialectCtx {
    pub fn sub(self) -> OldSub {
        match self {
            DialectCtx::Recv => OldSub::Recv,
            DialectCtx::Pipe => OldSub::Pipe,
            DialectCtx::Pass | DialectCtx::PassBereq => OldSub::Pass,
            DialectCtx::Hash => OldSub::Hash,
            DialectCtx::Miss | DialectCtx::MissBereq => OldSub::Miss,
            DialectCtx::Hit => OldSub::Hit,
            DialectCtx::Fetch => OldSub::Fetch,
            DialectCtx::Deliver | DialectCtx::DeliverError => OldSub::Deliver,
            DialectCtx::Error => OldSub::Error,
            DialectCtx::Init => OldSub::Init,
            DialectCtx::Fini => OldSub::Fini,
        }
    }

    /// The contexts of an old subroutine; empty for those that never ran.
    pub fn contexts_for(sub: OldSub) -> &'static [DialectCtx] {
        match sub {
            OldSub::Recv => &[DialectCtx::Recv],
            OldSub::Pipe => &[DialectCtx::Pipe],
            OldSub::Pass => &[DialectCtx::Pass, DialectCtx::PassBereq],
            OldSub::Hash => &[DialectCtx::Hash],
            OldSub::Miss => &[DialectCtx::Miss, DialectCtx::MissBereq],
            OldSub::Hit => &[DialectCtx::Hit],
            OldSub::Fetch => &[DialectCtx::Fetch],
            OldSub::Deliver => &[DialectCtx::Deliver, DialectCtx::DeliverError],
            OldSub::Error => &[DialectCtx::Error],
            OldSub::Init => &[DialectCtx::Init],
            OldSub::Fini => &[DialectCtx::Fini],
            OldSub::Prefetch | OldSub::Timeout | OldSub::Discard => &[],
        }
    }

    pub fn only_bereq(self) -> bool {
        matches!(self, DialectCtx::PassBereq | DialectCtx::MissBereq)
    }

    /// True for contexts on the backend side.
    pub fn backend(self) -> bool {
        self.only_bereq() || self == DialectCtx::Fetch
    }

    pub fn delivers(self) -> bool {
        matches!(self, DialectCtx::Deliver | DialectCtx::DeliverError)
    }

    /// The suffix for a user's subroutine that differs by context.
    pub fn suffix(self) -> &'static str {
        match self {
            DialectCtx::Recv => "recv",
            DialectCtx::Pipe => "pipe",
            DialectCtx::Pass => "pass",
            DialectCtx::PassBereq => "pass_bereq",
            DialectCtx::Hash => "hash",
            DialectCtx::Miss => "miss",
            DialectCtx::MissBereq => "miss_bereq",
            DialectCtx::Hit => "hit",
            DialectCtx::Fetch => "fetch",
            DialectCtx::Deliver => "deliver",
            DialectCtx::DeliverError => "deliver_error",
            DialectCtx::Error => "error",
            DialectCtx::Init => "init",
            DialectCtx::Fini => "fini",
        }
    }

    pub fn name_now(self) -> &'static str {
        match self {
            DialectCtx::Fetch => "vcl_backend_response",
            DialectCtx::Error | DialectCtx::DeliverError => "vcl_synth",
            DialectCtx::PassBereq | DialectCtx::MissBereq => "vcl_backend_fetch",
            other => other.sub().name(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub(crate) enum TranslationOutcome {
    No,
    /// The statement remains, but has no effect of its own.
    Weak,
    Yes,
}

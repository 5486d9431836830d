// SPDX-License-Identifier: BSD-2-Clause
//! A purge: of the request's digest and of its alias, here and on the fleet.

use base::Mono;
use cache::{Busy, Digest, Purge};
use tables::tags::Tag;
use tables::vclsubs::PurgeAction;

use super::{Req, ReqStep};
use crate::transport::Transport;

impl Req {
    pub(super) async fn purge(&mut self, transport: &mut dyn Transport) -> ReqStep {
        if let Err(refusal) = self.engine().may_invalidate() {
            self.log.put(Tag::VclError, refusal.0.as_bytes());
            return ReqStep::VclFail;
        }
        let now = self.engine().mono_of(self.ask.t_req);
        let _ = self.purge_own(None, now, Purge::HARD);
        match self.run_vcl(transport).await {
            PurgeAction::Synth(status) => self.synth_by_vcl(status),
            PurgeAction::Restart => ReqStep::Restart,
            PurgeAction::Fail => ReqStep::VclFail,
        }
    }

    /// Purges what is stored under the request's digest, and under that of its URL as it stands; how many objects that were.
    /// `busy` is the right to fetch that the request itself has.
    pub(super) fn purge_own(&mut self, busy: Option<&Busy>, now: Mono, purge: Purge) -> usize {
        let engine = self.engine().clone();
        let _pending = engine.begin_invalidation();
        let exact = self.ask.alias.as_ref().map(|alias| alias.exact);
        let aside = exact.map_or(0, |exact| engine.purge(None, &exact, now, purge));
        let count = aside + engine.purge(busy, &self.ask.digest, now, purge);
        exact.into_iter().chain([self.ask.digest]).for_each(|digest| self.announce_purge(&digest, purge, now));
        count
    }

    /// Has the fleet purge what was purged here.
    fn announce_purge(&mut self, digest: &Digest, purge: Purge, at: Mono) {
        self.client.sess.engine.announce(&mut self.vcl.invalidations, || crate::fleet::purge(digest, purge), at);
    }
}

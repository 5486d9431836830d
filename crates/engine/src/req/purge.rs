// SPDX-License-Identifier: BSD-2-Clause
//! A purge: of the request's digest and of its alias, here and on the fleet.

use base::Mono;
use cache::{Busy, Purge};
use tables::tags::Tag;
use tables::vclsubs::PurgeAction;

use super::{Req, ReqAsk, ReqStep};
use crate::engine::Engine;
use crate::invalidations::Invalidations;
use crate::transport::Transport;

impl Req {
    pub(super) async fn purge(&mut self, transport: &mut dyn Transport) -> ReqStep {
        if let Err(refusal) = self.engine().may_invalidate() {
            self.log.put(Tag::VclError, refusal.0.as_bytes());
            return ReqStep::VclFail;
        }
        let now = self.engine().mono_of(self.ask.t_req);
        let _ = self.ask.purge(&self.client.sess.engine, &mut self.vcl.invalidations, None, now, Purge::HARD);
        match self.run_vcl(transport).await {
            PurgeAction::Synth(status) => self.synth_by_vcl(status),
            PurgeAction::Restart => ReqStep::Restart,
            PurgeAction::Fail => ReqStep::VclFail,
        }
    }
}

impl ReqAsk {
    /// Purges what is stored under the request's digest, and under that of its URL as it stands, and has the fleet do
    /// so; how many objects that were here. `busy` is the right to fetch that the request itself has.
    pub(super) fn purge(
        &self,
        engine: &Engine,
        by: &mut Invalidations,
        busy: Option<&Busy>,
        now: Mono,
        purge: Purge,
    ) -> usize {
        let _pending = engine.begin_invalidation();
        let exact = self.alias.as_ref().map(|alias| alias.exact);
        let aside = exact.map_or(0, |exact| engine.purge(None, &exact, now, purge));
        let count = aside + engine.purge(busy, &self.digest, now, purge);
        for digest in exact.into_iter().chain([self.digest]) {
            engine.announce(by, || crate::cluster::purge(&digest, purge), now);
        }
        count
    }
}

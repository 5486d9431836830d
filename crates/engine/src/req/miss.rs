// SPDX-License-Identifier: BSD-2-Clause
//! A miss: `vcl_miss`, and what a fetch needs before it begins.

use cache::{Busy, ObjRef};
use tables::no_hit::NoHit;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;
use tables::vclsubs::MissAction;

use super::ctx::Lent;
use super::reason::NoHitReason;
use super::verdict::ReqVerdict;
use super::{Req, ReqStep};
use crate::admission::Pressure;
use crate::bereq::{self, FetchMode, FetchTurn};
use crate::synthetic::SynthOrder;
use crate::transport::Transport;

impl Req {
    pub(super) async fn miss(
        &mut self,
        busy: Box<Busy>,
        stale: Option<ObjRef>,
        transport: &mut dyn Transport,
    ) -> ReqStep {
        if self.lacks_memory() {
            return self.shed();
        }
        let action: MissAction = self.run_vcl_with(Lent::Missing(&busy), transport).await;
        match action {
            MissAction::Fetch => {
                self.client.gives_up = false;
                let turn = match self.take_turn(Some(&busy), transport).await {
                    Ok(turn) => turn,
                    Err(step) => return step,
                };
                self.engine().main.cache_miss.tally();
                self.send_hints(stale.as_ref(), transport);
                ReqStep::Fetch(bereq::start(self, busy, stale, FetchMode::Normal, turn))
            }
            MissAction::Pass => ReqStep::Pass,
            MissAction::Synth(status) => {
                self.note_vcl_refusal();
                self.synth_by_vcl(status)
            }
            MissAction::Restart => ReqStep::Restart,
            MissAction::Fail => ReqStep::VclFail,
        }
    }

    /// True if there is no memory for the next fetch. A page in progress still gets its fragments.
    pub(super) fn lacks_memory(&self) -> bool {
        self.engine().requests.admission.pressure() >= Pressure::Fetches && !self.esi.is_fragment()
    }

    /// 503, and come again. Who else waits for the right to fetch, which ends here, looks again.
    pub(super) fn shed(&mut self) -> ReqStep {
        self.engine().main.mem_shed.inc();
        self.verdict = ReqVerdict::no_hit(NoHitReason::new(NoHit::Refused, "memory_limit"));
        self.log.put(Tag::Error, b"memory_limit: no fetch begins");
        ReqStep::Synth(SynthOrder::for_later(503, ProxyError::ProxyInternalError, "memory_limit"))
    }

    /// Takes permission if the client crawls, a worker of the request's class, then a slot, for the next fetch. `Err` is the step to go to instead.
    pub(super) async fn take_turn(
        &mut self,
        busy: Option<&Busy>,
        transport: &mut dyn Transport,
    ) -> Result<FetchTurn, ReqStep> {
        let charge = self.take_permission(busy, transport).await?;
        let worker = self.take_worker(transport).await?;
        Ok(FetchTurn::new(worker, charge, self.take_slot(transport).await?))
    }
}

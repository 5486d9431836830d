// SPDX-License-Identifier: BSD-2-Clause
//! A hit: `vcl_hit`, and the refresh of a stale object.

use cache::Busy;
use tables::tags::Tag;
use tables::vclsubs::HitAction;

use super::ctx::{Lent, ObjHead};
use super::delivery::Delivery;
use super::{Req, ReqStep};
use crate::admission::{self, Pressure};
use crate::bereq::{self, FetchMode, FetchTurn};
use crate::refreshes::Refresh;
use crate::transport::Transport;

/// The right to fetch that comes with a hit.
pub(crate) enum HitRight {
    None,
    /// A refresh in the background is due.
    Refresh(Box<Busy>),
    /// Only for a `vcl_hit` that returns `miss`.
    Miss(Box<Busy>),
}

impl HitRight {
    pub fn of_refresh(busy: Option<Busy>) -> Self {
        busy.map_or(HitRight::None, |busy| HitRight::Refresh(Box::new(busy)))
    }

    fn busy(&self) -> Option<&Busy> {
        match self {
            HitRight::None => None,
            HitRight::Refresh(busy) | HitRight::Miss(busy) => Some(busy),
        }
    }
}

impl Req {
    pub(super) async fn hit(&mut self, delivery: Delivery, right: HitRight, transport: &mut dyn Transport) -> ReqStep {
        let main = self.engine().main;
        let mut head = ObjHead::default();
        let lent = Lent::Found { obj: &delivery.obj, refresh: right.busy(), head: &mut head };
        let action: HitAction = self.run_vcl_with(lent, transport).await;
        drop(head);
        match action {
            HitAction::Deliver => {
                if let HitRight::Refresh(busy) = right
                    && self.may_refresh()
                    && let Some(turn) = self.turn_for_refresh()
                {
                    main.s_fetch.inc();
                    main.s_bgfetch.inc();
                    let stale = Some(delivery.obj.clone());
                    let fresh = bereq::start(self, busy, stale, FetchMode::Background, turn);
                    self.send_body_to(&fresh.obj, transport).await;
                    self.mark("Fetch");
                }
                main.cache_hit.tally();
                self.engine().cache.count_tenant_hit(&delivery.obj);
                self.note_hit();
                if self.verdict.in_grace() {
                    main.cache_hit_grace.inc();
                }
                self.client.gives_up = false;
                self.discard_body(transport).await;
                ReqStep::Deliver(delivery)
            }
            HitAction::Pass => {
                main.cache_hit.tally();
                ReqStep::Pass
            }
            // `return (fetch)` of 4.0, `return (miss)` of 4.1 and 5: a fresh one instead of what was found. Who has no
            // right to fetch into the cache passes, as there.
            HitAction::Fetch => {
                self.verdict.refetch();
                let (HitRight::Refresh(busy) | HitRight::Miss(busy)) = right else {
                    self.log.put(Tag::VclError, b"vcl_hit{} returns miss without busy object.  Doing pass.");
                    return ReqStep::Pass;
                };
                self.missed(busy, Some(delivery.obj))
            }
            HitAction::Synth(status) => self.synth_by_vcl(status),
            HitAction::Restart => ReqStep::Restart,
            HitAction::Fail => ReqStep::VclFail,
        }
    }

    /// True if one more background fetch may run. If not, the stale object is delivered all the same, and the next
    /// request for it tries again.
    fn may_refresh(&self) -> bool {
        let (main, limit) = (self.engine().main, self.params.bgfetch_limit);
        if self.engine().requests.admission.pressure() >= Pressure::BackgroundFetches {
            main.mem_bgfetch.inc();
            return false;
        }
        if limit == 0 {
            return true;
        }
        let free = u64::from(limit).saturating_sub(main.n_bgfetch.get());
        match self.engine().fetches.refreshes.ask(&self.ask.digest, free, self.engine().clock.mono()) {
            Refresh::Begins => return true,
            Refresh::Limited => main.bgfetch_limited.inc(),
            Refresh::Deferred => main.bgfetch_deferred.inc(),
        }
        false
    }

    /// The turn of a fetch that no client waits for. Where there is none the stale object is delivered all the same.
    fn turn_for_refresh(&mut self) -> Option<FetchTurn> {
        let worker = self.worker_if_free().ok()?;
        let slot = admission::enter_if_free(&self.client.sess);
        if slot.is_none() {
            self.engine().main.bgfetch_limited.inc();
            self.engine().main.bgfetch_no_thread.inc();
            self.engine().main.fetch_no_thread.inc();
        }
        Some(FetchTurn::new(worker, self.charge_unjudged(), slot?))
    }
}

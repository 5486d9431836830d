// SPDX-License-Identifier: BSD-2-Clause
//! A hit: `vcl_hit`, and the refresh of a stale object.

use cache::ObjRef;
use message::Head;
use tables::tags::Tag;
use tables::vclsubs::HitAction;

use super::ctx::Lent;
use super::{Req, ReqStep};
use crate::admission::{self, FetchSlot, Pressure};
use crate::bereq::{self, FetchMode};
use crate::refreshes::Refresh;
use crate::transport::Transport;

impl Req {
    pub(super) async fn hit(&mut self, obj: ObjRef, transport: &mut dyn Transport) -> ReqStep {
        let main = self.engine().main;
        self.obj_head.iter_mut().for_each(Head::clear);
        let action: HitAction = self.run_vcl_with(Lent::obj(&obj), transport).await;
        let busy = self.busy.take();
        if action != HitAction::Deliver {
            self.first_reader = None;
        }
        match action {
            HitAction::Deliver => {
                if let Some(busy) = busy.filter(|_| self.may_refresh() && self.may_take_place())
                    && let Some(slot) = self.slot_for_refresh()
                {
                    main.s_fetch.inc();
                    main.s_bgfetch.inc();
                    let fresh = bereq::start(self, busy, Some(obj.clone()), FetchMode::Background, slot);
                    self.send_body_to(&fresh, transport).await;
                    self.mark("Fetch");
                }
                main.cache_hit.tally();
                if self.verdict.in_grace() {
                    main.cache_hit_grace.inc();
                }
                self.gives_up = false;
                self.discard_body(transport).await;
                ReqStep::Deliver(obj)
            }
            HitAction::Pass => {
                main.cache_hit.tally();
                ReqStep::Pass
            }
            // `return (fetch)` of 4.0, `return (miss)` of 4.1 and 5: a fresh one instead of what was found. Who has no
            // right to fetch into the cache passes, as there.
            HitAction::Fetch => {
                self.verdict.refetch();
                let Some(busy) = busy else {
                    self.log.put(Tag::VclError, b"vcl_hit{} returns miss without busy object.  Doing pass.");
                    return ReqStep::Pass;
                };
                self.missed(busy, Some(obj))
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
        if self.engine().admission.pressure() >= Pressure::BackgroundFetches {
            main.mem_bgfetch.inc();
            return false;
        }
        if limit == 0 {
            return true;
        }
        let free = u64::from(limit).saturating_sub(main.n_bgfetch.get());
        match self.engine().refreshes.ask(&self.digest, free, self.engine().clock.mono()) {
            Refresh::Begins => return true,
            Refresh::Limited => main.bgfetch_limited.inc(),
            Refresh::Deferred => main.bgfetch_deferred.inc(),
        }
        false
    }

    /// A slot for a fetch that no client waits for. Where there is none the stale object is delivered all the same.
    fn slot_for_refresh(&mut self) -> Option<FetchSlot> {
        let slot = admission::enter_if_free(&self.sess);
        if slot.is_none() {
            self.place = None;
            self.engine().main.bgfetch_limited.inc();
            self.engine().main.fetch_no_thread.inc();
        }
        slot
    }
}

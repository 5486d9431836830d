// SPDX-License-Identifier: BSD-2-Clause
//! The list of filters that a response goes through: VCL asks for it while it runs, the delivery afterwards.

use cache::{ObjRef, ObjectFlags};
use filters::{CacheSide, DeliverFacts, FilterList, default_deliver};
use message::{Coding, Head, names};
use params::Params;

use super::Req;
use super::settings::ReqSettings;
use super::state::Response;

/// All that the list of filters follows from, but for the object.
pub(super) struct FilterFacts<'a> {
    pub head: &'a Head,
    pub resp: &'a Response,
    pub settings: &'a ReqSettings,
    pub params: &'a Params,
}

impl Req {
    pub(super) fn filter_facts(&self) -> FilterFacts<'_> {
        FilterFacts { head: &self.ask.head, resp: &self.resp, settings: &self.settings, params: &self.params }
    }
}

impl FilterFacts<'_> {
    /// `resp.filters` with what modules injected. No `obj`: the body is made here.
    pub fn list(&self, obj: Option<&ObjRef>) -> FilterList {
        let made = self.params.supported_codings();
        let coding = || {
            let says = Coding::of_content(self.resp.head.joined(names::CONTENT_ENCODING).as_deref());
            says.filter(|&coding| made.can_undo(coding))
        };
        self.resp.filters.complete_list(CacheSide::Deliver, || self.default_list(obj), coding)
    }

    /// The filters for a form of the object, which needs nothing undone.
    pub fn list_for_form(&self) -> FilterList {
        self.list_that_undoes(None, false)
    }

    fn default_list(&self, obj: Option<&ObjRef>) -> FilterList {
        let flags = obj.map_or(ObjectFlags::NONE, ObjRef::flags);
        let is_undone = self.params.supported_codings().is_undone_for(flags.coding, self.head);
        self.list_that_undoes(is_undone.then_some(flags.coding), !self.settings.disable_esi && flags.has_esi)
    }

    fn list_that_undoes(&self, undone: Option<Coding>, do_esi: bool) -> FilterList {
        let can_range = self.params.http_range_support && self.resp.head.status() == 200;
        default_deliver(DeliverFacts { do_esi, undone, do_range: can_range && self.head.has(names::RANGE) })
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Which filters a response goes through: VCL asks while it runs, and the delivery once it has.

use cache::{ObjRef, ObjectFlags};
use filters::{CacheSide, DeliverFacts, FilterList, default_deliver};
use message::{Coding, names};

use super::Req;

impl Req {
    /// `resp.filters` with what modules injected. No `obj`: the body is made here.
    pub(super) fn filter_list(&self, obj: Option<&ObjRef>) -> FilterList {
        let made = self.params.supported_codings();
        let coding = || {
            let says = Coding::of_content(self.resp.head.joined(names::CONTENT_ENCODING).as_deref());
            says.filter(|&coding| made.can_undo(coding))
        };
        self.resp.filters.complete_list(CacheSide::Deliver, || self.default_list(obj), coding)
    }

    /// The filters for a form of the object, which needs nothing undone.
    pub(super) fn list_for_form(&self) -> FilterList {
        self.list_that_undoes(None, false)
    }

    fn default_list(&self, obj: Option<&ObjRef>) -> FilterList {
        let flags = obj.map_or(ObjectFlags::NONE, ObjRef::flags);
        let is_undone = self.params.supported_codings().is_undone_for(flags.coding, &self.ask.head);
        self.list_that_undoes(is_undone.then_some(flags.coding), !self.settings.disable_esi && flags.has_esi)
    }

    fn list_that_undoes(&self, undone: Option<Coding>, do_esi: bool) -> FilterList {
        default_deliver(DeliverFacts {
            do_esi,
            undone,
            do_range: self.params.http_range_support
                && self.resp.head.status() == 200
                && self.ask.head.has(names::RANGE),
        })
    }
}

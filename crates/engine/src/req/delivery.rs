// SPDX-License-Identifier: BSD-2-Clause
//! Which filters a response goes through: VCL asks while it runs, and the delivery once it has.

use cache::{Flags, ObjRef};
use filters::{DeliverFacts, FilterList, Side, default_deliver};
use message::{Coding, Codings, names};

use super::Req;

impl Req {
    /// `resp.filters` with what modules injected. No `obj`: the body is made here.
    pub(super) fn filter_list(&self, obj: Option<&ObjRef>) -> FilterList {
        let coding = || Coding::of_content(self.resp.get(names::CONTENT_ENCODING));
        self.filters.complete_list(Side::Deliver, || self.default_list(obj), coding)
    }

    /// The default of `resp.filters`.
    fn default_list(&self, obj: Option<&ObjRef>) -> FilterList {
        let flags = obj.map_or(Flags::NONE, ObjRef::flags);
        let is_undone = Codings::supported(&self.params).is_undone_for(flags.coding, &self.head);
        default_deliver(DeliverFacts {
            do_esi: !self.settings.disable_esi && flags.has_esi,
            undone: is_undone.then_some(flags.coding),
            do_range: self.params.http_range_support && self.resp.status() == 200 && self.head.has(names::RANGE),
        })
    }
}

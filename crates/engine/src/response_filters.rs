// SPDX-License-Identifier: BSD-2-Clause
//! The filters of one body: the list that VCL set, and what modules injected. Both end together.

use filters::{CacheSide, FilterList, InjectedFilters};
use message::Coding;
use vrt::value::Text;

/// `resp.filters` or `beresp.filters` as far as VCL and its modules decide it.
#[derive(Default)]
pub(crate) struct ResponseFilters {
    listed: Option<Text>,
    injected: InjectedFilters,
}

impl ResponseFilters {
    pub fn reset(&mut self) {
        self.listed = None;
        self.injected.clear();
    }

    /// Sets the list from VCL; `None` is the default list.
    pub fn set_list(&mut self, names: Option<Text>) {
        self.listed = names;
    }

    pub fn list(&self) -> Option<&Text> {
        self.listed.as_ref()
    }

    pub fn injected(&mut self) -> &mut InjectedFilters {
        &mut self.injected
    }

    pub fn are_default(&self) -> bool {
        self.listed.is_none() && self.injected.is_empty()
    }

    /// True if a module's filter works on the body wherever the list names it.
    pub fn go_by_themselves(&self) -> bool {
        self.injected.goes_by_itself()
    }

    /// All filters. `default` is the list used unless VCL set one; `coding` is the body's Content-Encoding.
    pub fn complete_list(
        &self,
        side: CacheSide,
        default: impl FnOnce() -> FilterList,
        coding: impl FnOnce() -> Option<Coding>,
    ) -> FilterList {
        let list = match &self.listed {
            Some(names) => names.as_bytes().to_vec().into(),
            None => default(),
        };
        if self.injected.is_empty() { list } else { self.injected.complete(list, side, coding()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(filters: &ResponseFilters) -> (String, bool) {
        let list = filters.complete_list(CacheSide::Deliver, || " gunzip range".into(), || Some(Coding::Identity));
        (String::from_utf8_lossy(list.as_bytes()).into_owned(), list.undoes_coding())
    }

    #[test]
    fn a_reset_forgets_what_vcl_listed() {
        let mut filters = ResponseFilters::default();
        assert_eq!(names(&filters), (" gunzip range".to_owned(), true));
        filters.set_list(Some(Text::from("gunzipped range")));
        assert_eq!(names(&filters), ("gunzipped range".to_owned(), false));
        filters.reset();
        assert_eq!(names(&filters).0, " gunzip range");
    }
}

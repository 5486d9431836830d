// SPDX-License-Identifier: BSD-2-Clause
//! The filters of one body: the list that VCL set, and what modules injected. Both end together.

use std::borrow::Cow;

use filters::{Brought, Side};
use vrt::value::Text;

/// `resp.filters` or `beresp.filters` as far as VCL and its modules decide it.
#[derive(Default)]
pub(crate) struct ResponseFilters {
    listed: Option<Text>,
    injected: Brought,
}

/// The names of a body's filters, in the order in which it passes them.
pub(crate) struct FilterNames(Cow<'static, [u8]>);

impl ResponseFilters {
    /// As before VCL ran.
    pub fn reset(&mut self) {
        self.listed = None;
        self.injected.clear();
    }

    /// VCL sets the list; `None`: what it is by default.
    pub fn set_list(&mut self, names: Option<Text>) {
        self.listed = names;
    }

    /// The list, if VCL set it.
    pub fn list(&self) -> Option<&Text> {
        self.listed.as_ref()
    }

    /// Where modules put filters of their own.
    pub fn injected(&mut self) -> &mut Brought {
        &mut self.injected
    }

    /// All names. `default` is the list where VCL set none; `is_gzip`: the body comes packed.
    pub fn names(
        &self,
        side: Side,
        default: impl FnOnce() -> &'static str,
        is_gzip: impl FnOnce() -> bool,
    ) -> FilterNames {
        let listed: Cow<'static, [u8]> = match &self.listed {
            Some(names) => names.as_bytes().to_vec().into(),
            None => default().as_bytes().into(),
        };
        if self.injected.is_empty() {
            return FilterNames(listed);
        }
        FilterNames(self.injected.complete(&listed, side, is_gzip()).map_or(listed, Cow::Owned))
    }
}

impl FilterNames {
    /// As the log and VCL show them: separated by blanks.
    pub fn text(&self) -> &[u8] {
        &self.0
    }

    /// Whether nothing happens to the body.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them unpacks gzip.
    pub fn unpacks(&self) -> bool {
        self.0.split(|byte| *byte == b' ').any(|name| name == b"gunzip")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(filters: &ResponseFilters) -> (String, bool) {
        let names = filters.names(Side::Deliver, || " gunzip range", || false);
        (String::from_utf8_lossy(names.text()).into_owned(), names.unpacks())
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

// SPDX-License-Identifier: BSD-2-Clause
//! Where a request stands in the tree of a page and its fragments, and what they share.
//!
//! ```text
//! Client --the response includes something--> Page
//! Fragment                                    (born and ended as one)
//! ```

use std::cell::Cell;
use std::rc::Rc;

use accounts::Caller;
use base::Real;
use filters::stitch::GzipSum;
use message::Head;

use crate::req::transmit::DeliveryFailure;

pub(crate) enum EsiContext {
    Client,
    Page(Rc<Top>),
    Fragment(Fragment),
}

/// The client's request, as the fragments of its response see it (`req_top.*`).
pub(crate) struct Top {
    pub head: Head,
    pub t_req: Real,
    /// The client that fragments are charged to, if it isn't a reader. A fragment has no signature by which it could be known.
    pub crawler: Option<Rc<Caller>>,
    /// Number of fragments that may still be prefetched.
    pub places: Cell<u32>,
}

pub(crate) struct Fragment {
    /// Depth of nesting, from 1 on.
    pub level: u32,
    pub top: Rc<Top>,
    pub parent: ParentContext,
    pub body_bytes: u64,
}

/// A fragment's knowledge of the body that it goes into, and its results for the page.
pub(crate) struct ParentContext {
    pub is_gzip: bool,
    /// Checksum and length of the bytes that the fragment joined to it.
    pub sum: GzipSum,
    /// The reason why the fragment is incomplete.
    pub cut: Option<DeliveryFailure>,
}

impl EsiContext {
    /// A fragment of a fragment of level `level - 1`, or of the client's request.
    pub fn fragment(level: u32, top: Rc<Top>, is_gzip: bool) -> Self {
        let parent = ParentContext { is_gzip, sum: GzipSum::default(), cut: None };
        EsiContext::Fragment(Fragment { level, top, parent, body_bytes: 0 })
    }

    /// Depth of nesting: 0 for the client's request.
    pub fn level(&self) -> u32 {
        match self {
            EsiContext::Client | EsiContext::Page(_) => 0,
            EsiContext::Fragment(fragment) => fragment.level,
        }
    }

    pub fn is_fragment(&self) -> bool {
        matches!(self, EsiContext::Fragment(_))
    }

    pub fn as_fragment(&mut self) -> Option<&mut Fragment> {
        match self {
            EsiContext::Client | EsiContext::Page(_) => None,
            EsiContext::Fragment(fragment) => Some(fragment),
        }
    }

    pub fn parent(&self) -> Option<&ParentContext> {
        match self {
            EsiContext::Client | EsiContext::Page(_) => None,
            EsiContext::Fragment(fragment) => Some(&fragment.parent),
        }
    }

    pub fn parent_mut(&mut self) -> Option<&mut ParentContext> {
        self.as_fragment().map(|fragment| &mut fragment.parent)
    }

    /// The state that the fragments of this response share.
    pub fn share(&mut self, make: impl FnOnce() -> Top) -> Rc<Top> {
        match self {
            EsiContext::Client => {
                let top = Rc::new(make());
                *self = EsiContext::Page(top.clone());
                top
            }
            EsiContext::Page(top) => top.clone(),
            EsiContext::Fragment(fragment) => fragment.top.clone(),
        }
    }

    /// `req_top.*` of a fragment.
    pub fn top(&self) -> Option<&Top> {
        match self {
            EsiContext::Client | EsiContext::Page(_) => None,
            EsiContext::Fragment(fragment) => Some(&fragment.top),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(context: &mut EsiContext) -> Rc<Top> {
        context.share(|| Top { head: Head::new(), t_req: Real(1.0), crawler: None, places: Cell::new(2) })
    }

    #[test]
    fn fragments_of_any_depth_have_the_page_on_top() {
        let mut page = EsiContext::Client;
        let top = share(&mut page);
        let mut fragment = EsiContext::fragment(1, top.clone(), false);
        let deeper = EsiContext::fragment(2, share(&mut fragment), false);
        assert!([&fragment, &deeper].iter().all(|context| std::ptr::eq(context.top().unwrap(), &*top)));
        assert_eq!([page.level(), fragment.level(), deeper.level()], [0, 1, 2]);
    }

    #[test]
    fn a_page_shares_one_thing_however_often_it_is_asked() {
        let mut page = EsiContext::Client;
        let (first, second) = (share(&mut page), share(&mut page));
        assert!(Rc::ptr_eq(&first, &second));
        assert!(page.top().is_none() && page.parent().is_none() && !page.is_fragment());
    }
}

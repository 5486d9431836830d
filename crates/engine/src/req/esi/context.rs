// SPDX-License-Identifier: BSD-2-Clause
//! Where a request stands in the tree of a page and its fragments, and what they share.
//!
//! ```text
//! Client --the response includes something--> Page
//! Fragment                                    (born and ended as one)
//! ```

use std::cell::{Cell, RefCell, RefMut};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use base::Real;
use filters::stitch::Sum;
use message::Head;
use vrt::Privates;

use crate::req::transmit::DeliveryFailure;

/// See the module.
pub(crate) enum EsiContext {
    /// The client's request, which has no fragments so far: what modules keep for the whole of it (PRIV_TOP) is its own.
    Client(Privates),
    /// The client's request, with what its fragments share.
    Page(Rc<Top>),
    /// A fragment.
    Fragment(Fragment),
}

/// The client's request, as the fragments of its response see it (`req_top.*`).
pub(crate) struct Top {
    pub head: Head,
    pub t_req: Real,
    /// PRIV_TOP; borrowed while VCL runs.
    pub privates: RefCell<Privates>,
    /// How many more fragments may be prefetched.
    pub places: Cell<u32>,
}

/// What makes a request a fragment.
pub(crate) struct Fragment {
    /// How deep it is nested, from 1 on.
    pub level: u32,
    pub top: Rc<Top>,
    pub parent: ParentContext,
    /// Body bytes of its response, for its accounting.
    pub body_bytes: u64,
}

/// What a fragment knows of the body that it goes into, and tells its page.
pub(crate) struct ParentContext {
    /// The page's pieces are gzip.
    pub is_gzip: bool,
    /// What the fragment joined to it.
    pub sum: Sum,
    /// Why the fragment isn't whole.
    pub cut: Option<DeliveryFailure>,
}

/// PRIV_TOP while VCL runs.
pub(crate) enum TopPrivates<'a> {
    Own(&'a mut Privates),
    Shared(RefMut<'a, Privates>),
}

/// What VCL sees of it.
pub(crate) struct EsiView<'a> {
    /// `req.esi_level`
    pub level: u32,
    /// `req_top.*` of a fragment.
    pub top: Option<&'a Top>,
    pub privates: TopPrivates<'a>,
}

impl EsiContext {
    /// A fragment of a fragment of level `level - 1`, or of the client's request.
    pub fn fragment(level: u32, top: Rc<Top>, is_gzip: bool) -> Self {
        let parent = ParentContext { is_gzip, sum: Sum::default(), cut: None };
        EsiContext::Fragment(Fragment { level, top, parent, body_bytes: 0 })
    }

    /// How deep it is nested: 0 for the client's request.
    pub fn level(&self) -> u32 {
        match self {
            EsiContext::Client(_) | EsiContext::Page(_) => 0,
            EsiContext::Fragment(fragment) => fragment.level,
        }
    }

    pub fn is_fragment(&self) -> bool {
        matches!(self, EsiContext::Fragment(_))
    }

    pub fn as_fragment(&mut self) -> Option<&mut Fragment> {
        match self {
            EsiContext::Client(_) | EsiContext::Page(_) => None,
            EsiContext::Fragment(fragment) => Some(fragment),
        }
    }

    /// What it goes into.
    pub fn parent(&self) -> Option<&ParentContext> {
        match self {
            EsiContext::Client(_) | EsiContext::Page(_) => None,
            EsiContext::Fragment(fragment) => Some(&fragment.parent),
        }
    }

    /// As [`EsiContext::parent`].
    pub fn parent_mut(&mut self) -> Option<&mut ParentContext> {
        self.as_fragment().map(|fragment| &mut fragment.parent)
    }

    /// What the fragments of this response share; `make` gets what modules have kept so far.
    pub fn share(&mut self, make: impl FnOnce(Privates) -> Top) -> Rc<Top> {
        match self {
            EsiContext::Client(privates) => {
                let top = Rc::new(make(std::mem::take(privates)));
                *self = EsiContext::Page(top.clone());
                top
            }
            EsiContext::Page(top) => top.clone(),
            EsiContext::Fragment(fragment) => fragment.top.clone(),
        }
    }

    /// For a run of VCL.
    pub fn view(&mut self) -> EsiView<'_> {
        match self {
            EsiContext::Client(privates) => EsiView { level: 0, top: None, privates: TopPrivates::Own(privates) },
            EsiContext::Page(top) => {
                EsiView { level: 0, top: None, privates: TopPrivates::Shared(top.privates.borrow_mut()) }
            }
            EsiContext::Fragment(Fragment { level, top, .. }) => {
                let privates = TopPrivates::Shared(top.privates.borrow_mut());
                EsiView { level: *level, top: Some(top), privates }
            }
        }
    }

    /// The request ends: so does what modules kept for the client's.
    pub fn end(&mut self) {
        match self {
            EsiContext::Client(privates) => privates.clear(),
            EsiContext::Page(top) => top.privates.borrow_mut().clear(),
            EsiContext::Fragment(_) => {}
        }
    }
}

impl Deref for TopPrivates<'_> {
    type Target = Privates;

    fn deref(&self) -> &Privates {
        match self {
            TopPrivates::Own(own) => own,
            TopPrivates::Shared(shared) => shared,
        }
    }
}

impl DerefMut for TopPrivates<'_> {
    fn deref_mut(&mut self) -> &mut Privates {
        match self {
            TopPrivates::Own(own) => own,
            TopPrivates::Shared(shared) => shared,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(context: &mut EsiContext) -> Rc<Top> {
        let make = |privates| {
            let (privates, places) = (RefCell::new(privates), Cell::new(2));
            Top { head: Head::new(), t_req: Real(1.0), privates, places }
        };
        context.share(make)
    }

    fn kept(context: &mut EsiContext) -> &'static str {
        context.view().privates.get::<&'static str>()
    }

    #[test]
    fn a_fragment_sees_what_modules_kept_for_the_page_and_the_page_what_fragments_kept() {
        let mut page = EsiContext::Client(Privates::default());
        *page.view().privates.get::<&'static str>() = "of the page";
        let top = share(&mut page);
        let mut fragment = EsiContext::fragment(1, top, false);
        let mut deeper = EsiContext::fragment(2, share(&mut fragment), false);
        assert_eq!(kept(&mut deeper), "of the page");
        *deeper.view().privates.get::<&'static str>() = "of a fragment";
        assert_eq!((kept(&mut page), kept(&mut fragment)), ("of a fragment", "of a fragment"));
        assert_eq!([page.level(), fragment.level(), deeper.level()], [0, 1, 2]);
    }

    #[test]
    fn what_modules_kept_ends_with_the_page_and_not_with_a_fragment() {
        let mut page = EsiContext::Client(Privates::default());
        *page.view().privates.get::<&'static str>() = "kept";
        let mut fragment = EsiContext::fragment(1, share(&mut page), true);
        fragment.end();
        assert_eq!(kept(&mut page), "kept");
        page.end();
        assert_eq!((kept(&mut page), kept(&mut fragment)), ("", ""));
    }

    #[test]
    fn a_page_shares_one_thing_however_often_it_is_asked() {
        let mut page = EsiContext::Client(Privates::default());
        let (first, second) = (share(&mut page), share(&mut page));
        assert!(Rc::ptr_eq(&first, &second));
        assert!(page.view().top.is_none() && page.parent().is_none() && !page.is_fragment());
    }
}

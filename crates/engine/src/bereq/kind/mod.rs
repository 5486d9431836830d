// SPDX-License-Identifier: BSD-2-Clause
//! The kind of a fetch: what it asks the backend for and, from its response on, what came. The flow of a fetch (`fetch`,
//! `body`, `obj`) calls the hooks below in this order and names no kind.
//!
//! ```text
//! begin_kind, begin_try   before the first and each other try
//! ask_kind                after vcl_backend_fetch, before the request goes out
//! judge_kind              a response's head came: what it is of; or the step to go to
//! preset, decided         before and after vcl_backend_response
//! settle                  VCL has said what becomes of the response: the last change of kind
//! open                    before the body: how long it is, and whether filters work on it
//! take_stored, take, end  bytes of the stored object that belong to the body; bytes that came; the end
//! cut, turn_to_error      the body broke off; an error is made in place of the response
//! ```
//!
//! A try begins as `Whole`, unless stored parts or a head in slices say otherwise. `slice`, `part`, `refresh` and `head_update`
//! each have the transitions to and from their kind. The first hooks, up to `settle`, call each kind's part by name: the compiler
//! doesn't miss a kind there. A `HeadUpdate` ends in `decided`; the fetch goes on as `Whole`.

mod head_update;
mod part;
mod refresh;
mod slice;

use backend::BodyStatus;
use cache::ObjRef;
use message::Head;
use tables::proxy_error::ProxyError;

use super::body::BodyFailure;
use super::{Bereq, FetchStep};
use crate::aux_attrs::AuxAttrs;
use crate::parts::StoredParts;
use crate::req::Req;
use crate::slices::CHANGED;
use head_update::HeadUpdate;
pub(crate) use part::PartSettings;
use part::{PartFetch, PartRefusal, ReceivedPart};
pub(super) use refresh::RefreshFetch;
use slice::SliceFetch;
pub(crate) use slice::{SliceOf, SliceSettings};

#[derive(Debug, Default)]
pub(crate) enum FetchKind {
    /// The whole object, or whatever the backend gives.
    #[default]
    Whole,
    Slice(SliceFetch),
    Part(PartFetch),
    /// The stale object's body under a new head.
    Refresh(RefreshFetch),
    /// A response to HEAD that may update a stored object.
    HeadUpdate(Box<HeadUpdate>),
}

pub(super) struct OpenedBody {
    /// The body as it comes from the backend, without what isn't wanted of it.
    pub status: BodyStatus,
    pub announced: BodyStatus,
    /// True if the body is stored as it comes.
    pub is_unfiltered: bool,
}

impl OpenedBody {
    fn whole(status: BodyStatus) -> Self {
        OpenedBody { status, announced: status, is_unfiltered: false }
    }
}

impl FetchKind {
    /// The stored object whose body the new object gets.
    pub fn kept_object(&self) -> Option<&ObjRef> {
        if let FetchKind::Refresh(refresh) = self { Some(&refresh.stale) } else { None }
    }

    pub fn is_refresh(&self) -> bool {
        self.kept_object().is_some()
    }

    pub fn old_head(&self) -> Option<&Head> {
        if let FetchKind::Refresh(refresh) = self { refresh.old_head.as_deref() } else { None }
    }

    /// True from the request for a slice on.
    pub fn is_of_slices(&self) -> bool {
        matches!(self, FetchKind::Slice(_))
    }

    /// True if Vary tells variants of the object apart. The head of a sliced object has the Vary of its slices.
    pub fn has_variants(&self) -> bool {
        !self.is_slice()
    }

    fn is_slice(&self) -> bool {
        matches!(self, FetchKind::Slice(SliceFetch::One { .. }))
    }

    /// True if the object is made of parts, of which one has come.
    pub fn is_part(&self) -> bool {
        self.received_part().is_some()
    }

    /// True if the response has a known place in its object: a slice or a part.
    pub fn is_placed(&self) -> bool {
        matches!(self, FetchKind::Slice(SliceFetch::New(..) | SliceFetch::One { .. })) || self.is_part()
    }

    fn received_part(&self) -> Option<&ReceivedPart> {
        if let FetchKind::Part(PartFetch::Received(part)) = self { Some(part) } else { None }
    }

    /// Bytes that are still to come of a response with a known place in its object.
    fn left(&mut self) -> Option<&mut u64> {
        match self {
            FetchKind::Slice(SliceFetch::One { left, .. }) => Some(left),
            FetchKind::Part(PartFetch::Received(part)) => Some(&mut part.left),
            FetchKind::Slice(_) | FetchKind::Part(_) => None,
            FetchKind::Whole | FetchKind::Refresh(_) | FetchKind::HeadUpdate(_) => None,
        }
    }

    /// True if the backend sends more than is wanted of it.
    pub fn is_less_than(&mut self, body: BodyStatus) -> bool {
        matches!(body, BodyStatus::Length(len) if self.left().is_some_and(|left| *left < len))
    }

    /// Bytes of the body that will be stored, if that isn't the length of the response.
    pub fn bytes_to_store(&self) -> Option<u64> {
        match self {
            FetchKind::Slice(slice) => matches!(slice, SliceFetch::New(..)).then_some(0),
            FetchKind::Part(_) => self.received_part().map(ReceivedPart::bytes_to_store),
            FetchKind::Refresh(refresh) => Some(refresh.stale.body_len().unwrap_or(0)),
            FetchKind::Whole | FetchKind::HeadUpdate(_) => None,
        }
    }

    /// The attributes stored beside the head, with the reason why the object can't be cached.
    pub fn aux_attrs(&self, reason: Option<&[u8]>) -> Vec<u8> {
        let own: Vec<u8>;
        let mut aux_attrs = AuxAttrs { reason, ..AuxAttrs::default() };
        match self {
            FetchKind::Slice(SliceFetch::New(set, _)) => {
                own = set.store();
                aux_attrs.slices = Some(&own);
            }
            FetchKind::Slice(SliceFetch::One { slice, .. }) => {
                own = slice.set.mark(slice.index);
                aux_attrs.slice = Some(&own);
            }
            FetchKind::Part(PartFetch::Received(part)) => {
                own = part.parts().map(StoredParts::store).unwrap_or_default();
                aux_attrs.parts = part.parts().map(|_| &own[..]);
            }
            FetchKind::Slice(_) | FetchKind::Part(_) => {}
            FetchKind::Whole | FetchKind::Refresh(_) | FetchKind::HeadUpdate(_) => {}
        }
        aux_attrs.store()
    }

    pub fn body_step(&self) -> FetchStep {
        self.kept_object().map_or(FetchStep::Body, |stale| FetchStep::Conditional(stale.clone()))
    }
}

impl Bereq {
    pub(super) fn begin_kind(&mut self, req: &Req) {
        self.take_wanted_range(req);
        self.begin_try();
    }

    pub(super) fn begin_try(&mut self) {
        if self.kind.is_slice() {
            return;
        }
        self.kind = FetchKind::Whole;
        self.unask_slice();
        self.find_missing();
        self.terms.slices.do_slice = self.stale_is_of_slices();
    }

    pub(super) fn ask_kind(&mut self) {
        self.ask_for_slice();
        self.keep_to_whole();
    }

    pub(super) fn judge_kind(&mut self) -> Result<(), FetchStep> {
        // The version of a slice is told by the fields that came, and by none that are added.
        self.judge_slice()?;
        self.complete_head();
        self.judge_part()?;
        self.take_lives();
        if self.fill.rfc9111 {
            self.heed_head();
        }
        if self.beresp.is_status(304) { self.not_modified() } else { Ok(()) }
    }

    pub(super) fn settle(&mut self) -> Result<(), FetchStep> {
        self.keep_stale_head()?;
        self.judge_star();
        self.judge_dictionary_coding();
        self.settle_slices()?;
        self.settle_part()
    }

    pub(super) async fn open(&mut self, received: BodyStatus) -> Result<OpenedBody, FetchStep> {
        match &self.kind {
            FetchKind::Slice(_) => self.open_slice(received),
            FetchKind::Part(_) => self.open_part(received).await,
            FetchKind::Whole | FetchKind::Refresh(_) | FetchKind::HeadUpdate(_) => Ok(OpenedBody::whole(received)),
        }
    }

    /// Number of the next `len` bytes of the response that are wanted, and whether they are the last. With `is_cut`, the
    /// response has more than is wanted; any other response mustn't have more.
    pub(super) fn take(&mut self, len: usize, is_cut: bool) -> Result<(usize, bool), BodyFailure> {
        let Some(left) = self.kind.left() else { return Ok((len, false)) };
        let taken = usize::try_from(*left).map_or(len, |left| left.min(len));
        if taken < len && !is_cut {
            self.fetch_error("more than Content-Range says");
            self.blame(ProxyError::HttpProtocolError, "the body is longer than Content-Range says");
            return Err(BodyFailure::Logged);
        }
        *left -= taken as u64;
        Ok((taken, is_cut && *left == 0))
    }

    pub(super) fn end(&mut self) -> Result<(), BodyFailure> {
        if self.kind.left().is_some_and(|left| *left > 0) {
            self.fetch_error("less than Content-Range says");
            self.blame(ProxyError::HttpProtocolError, "the body is shorter than Content-Range says");
            return Err(BodyFailure::Logged);
        }
        Ok(())
    }

    /// The error that follows is neither slice nor part. `Err`: nobody wants an error, and the step to go to.
    pub(super) fn turn_to_error(&mut self) -> Result<(), FetchStep> {
        if self.kind.is_slice() {
            return Err(FetchStep::Fail("no slice"));
        }
        match &mut self.kind {
            FetchKind::Refresh(refresh) => refresh.keeps_head = false,
            kind => *kind = FetchKind::Whole,
        }
        self.terms.slices.is_refused = true;
        self.terms.parts.refusal = PartRefusal::OwnRange;
        Ok(())
    }

    pub(super) fn count_failed(&self, reason: &str) {
        if self.kind.is_slice() && reason != CHANGED {
            self.engine.main.slice_fail.inc();
        }
    }

    /// Asks again, after a response that can't be used. The next one is judged anew, and remembered as uncacheable if it is so.
    fn ask_again(&mut self) -> FetchStep {
        self.fill.cacheability = super::state::Cacheability::cacheable();
        self.end_unread();
        FetchStep::Retry
    }

    fn stored_parts(&self) -> Option<StoredParts> {
        self.fill.stale.as_ref().and_then(StoredParts::of)
    }
}

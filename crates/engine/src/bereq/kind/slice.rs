// SPDX-License-Identifier: BSD-2-Clause
//! Fetching objects that are kept in slices (`crate::slices`): the head with the first slice that is wanted, or one slice.
//!
//! ```text
//! Whole --bereq.do_slice--> Asked --206--> New --head stored--> One        the same fetch goes on with its first slice
//!  \--200, beresp.do_slice---------------> New --head stored--> One | done
//!  |    Asked --200, 304--> Whole              the origin doesn't do parts, or the old object is still good
//!  |    Asked, New -------> Whole, refused     not by parts: it is asked again for the whole
//!  \--started for one slice--> One
//! ```

use backend::BodyStatus;
use base::Vxid;
use cache::{Busy, ObjRef, ObjectFlags};
use message::digest::CONTENT_DIGEST;
use message::names;
use message::range::{self, ByteRange, ContentRange, Slice, content_range};
use shm::vsl::Marker;
use shm::vsl::num::dec;
use tables::close::SessClose;
use tables::tags::Tag;
use vrt::VclFailure;

use super::{FetchKind, OpenedBody};
use crate::bereq::state::Cacheability;
use crate::bereq::{Bereq, BereqBody, FetchMode, FetchStep};
use crate::httplog::{BEREQ, BERESP};
use crate::req::Req;
use crate::req::verdict::FoundKind;
use crate::slices::{self, CHANGED, SliceMismatch, SliceSet, Validator, slice_at};

/// Sizes that a slice may have, as powers of two: what the parameter allows, too.
const SIZES_LOG2: std::ops::RangeInclusive<u32> = 16..=26;

#[derive(Debug)]
pub(crate) enum SliceFetch {
    /// The slice of that index was asked for, of an object nothing is known of.
    Asked(u64),
    /// A new object with these slices; the response has this one of them.
    New(SliceSet, Option<u64>),
    /// One slice of an object whose head is in the cache, and how many of its bytes are still to come.
    One { slice: SliceOf, left: u64 },
}

impl SliceFetch {
    fn one(slice: SliceOf) -> Self {
        SliceFetch::One { left: slice.set.place(slice.index).bytes(), slice }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct SliceOf {
    pub set: SliceSet,
    pub index: u64,
    pub head: ObjRef,
}

/// VCL's settings for slices, and the values that VCL reads.
#[derive(Debug)]
pub(crate) struct SliceSettings {
    pub do_slice: bool,
    size_log2: u8,
    /// The first byte that the client wants, as far as that can be told.
    wanted: u64,
    /// True if the request has a Range that asks for a slice.
    is_asked: bool,
    /// Not by slices any more, whatever VCL says.
    pub is_refused: bool,
}

impl SliceSettings {
    pub fn new(req: &Req, mode: FetchMode) -> Self {
        let wanted = match range::asked(&req.ask.head).map(range::parse_one) {
            Some(Ok(ByteRange::From { low, .. })) if mode == FetchMode::Normal => low,
            Some(_) | None => 0,
        };
        SliceSettings {
            do_slice: false,
            size_log2: req.params.slice_size.trailing_zeros() as u8,
            wanted,
            is_asked: false,
            is_refused: false,
        }
    }
}

impl Bereq {
    pub(in crate::bereq) fn slice_size(&self) -> u64 {
        1 << self.terms.slices.size_log2
    }

    pub(in crate::bereq) fn set_slice_size(&mut self, bytes: i64) -> Result<(), VclFailure> {
        let log2 = bytes.cast_unsigned().trailing_zeros();
        if bytes.cast_unsigned().is_power_of_two() && SIZES_LOG2.contains(&log2) {
            self.terms.slices.size_log2 = log2 as u8;
            return Ok(());
        }
        Err(VclFailure::new("bereq.slice_size is a power of two from 64KB to 64MB"))
    }

    /// `slicer.enable()`: in vcl_backend_response when there is a response.
    pub(in crate::bereq) fn enable_slices(&mut self) -> bool {
        let can = match &self.kind {
            FetchKind::Slice(slice) => !matches!(slice, SliceFetch::Asked(_)),
            _ if self.terms.slices.is_refused => false,
            _ if self.ask.link.is_some() => self.whole_to_slice().is_ok(),
            _ => self.may_slice(),
        };
        self.terms.slices.do_slice |= can;
        can
    }

    /// True if the object of this fetch may be one of slices, judging by the request.
    fn may_slice(&self) -> bool {
        let is_marked = matches!(self.requester.found, FoundKind::HitForMiss | FoundKind::HitForPass);
        !self.terms.slices.is_refused
            && matches!(self.ask.body, BereqBody::None)
            && self.requester.mode != FetchMode::Pass
            && !(is_marked
                || self.fill.cacheability.is_uncacheable()
                || self.fill.busy.as_ref().is_some_and(|busy| busy.is_private()))
            && self.ask.head.method() == b"GET"
    }

    /// The request's fields for a slice. Of an object in the cache they are there before VCL runs.
    pub(super) fn ask_for_slice(&mut self) {
        if self.kind.is_of_slices() || !self.terms.slices.do_slice || !self.may_slice() {
            return;
        }
        let index = self.terms.slices.wanted >> self.terms.slices.size_log2;
        self.kind = FetchKind::Slice(SliceFetch::Asked(index));
        self.terms.slices.is_asked = true;
        self.put_range(slice_at(index, self.terms.slices.size_log2, None));
    }

    /// True if the stale object is one of slices: the default of `bereq.do_slice`.
    pub(super) fn stale_is_of_slices(&self) -> bool {
        self.fill.stale.as_ref().is_some_and(|stale| SliceSet::of(stale).is_some())
    }

    pub(super) fn unask_slice(&mut self) {
        if !std::mem::take(&mut self.terms.slices.is_asked) {
            return;
        }
        BEREQ.unset(&mut self.ask.head, &mut self.log, names::RANGE);
        BEREQ.unset(&mut self.ask.head, &mut self.log, names::X_VARNISH);
        if let Some(own) = self.ask.original.get(names::ACCEPT_ENCODING).map(<[u8]>::to_vec) {
            self.count_lost(|this| BEREQ.force(&mut this.ask.head, &mut this.log, names::ACCEPT_ENCODING, &own));
        }
    }

    /// Asks for the slice of an object in the cache, and for nothing of another version.
    pub(in crate::bereq) fn ask_for_slice_of(&mut self, slice: SliceOf) {
        std::mem::swap(&mut self.ask.head, &mut self.ask.original);
        self.put_range(slice.set.place(slice.index));
        self.count_lost(|this| {
            BEREQ.force(&mut this.ask.head, &mut this.log, names::IF_RANGE, slice.set.validator.if_range())
        });
        std::mem::swap(&mut self.ask.head, &mut self.ask.original);
        self.ask.head.copy_from(&self.ask.original);
        self.kind = FetchKind::Slice(SliceFetch::one(slice));
    }

    fn put_range(&mut self, slice: Slice) {
        let range = format!("bytes={}-{}", slice.low, slice.high);
        self.count_lost(|this| BEREQ.force(&mut this.ask.head, &mut this.log, names::RANGE, range.as_bytes()));
        // Parts of a coded body are of that coding, which the origin may make anew each time.
        if !self.params.supported_codings().is_empty() {
            self.count_lost(|this| BEREQ.force(&mut this.ask.head, &mut this.log, names::ACCEPT_ENCODING, b"identity"));
        }
    }

    /// Looks at the response to a request for a slice. What VCL sees is the response for the whole. `Err` is the step to go to
    /// in its place.
    pub(super) fn judge_slice(&mut self) -> Result<(), FetchStep> {
        let FetchKind::Slice(fetch) = &self.kind else { return Ok(()) };
        match fetch {
            SliceFetch::New(..) => Ok(()),
            SliceFetch::Asked(index) => self.judge_first(*index),
            SliceFetch::One { slice, .. } => {
                let (checked, total) = (slice.set.check(&self.beresp, slice.index), slice.set.total);
                let bytes = slice.set.place(slice.index).bytes();
                match checked {
                    Ok(()) if self.announced().is_some_and(|announced| announced != bytes) => Ok(()),
                    Ok(()) => {
                        self.show_whole(total);
                        Ok(())
                    }
                    Err(SliceMismatch::Changed) => Err(self.give_up_changed()),
                    // VCL may try again.
                    Err(SliceMismatch::Failed) => Ok(()),
                }
            }
        }
    }

    fn judge_first(&mut self, index: u64) -> Result<(), FetchStep> {
        match self.beresp.status() {
            206 => {}
            // The client asked for more than there is.
            416 if index > 0 => {
                self.terms.slices.wanted = 0;
                self.end_unread();
                return Err(FetchStep::Retry);
            }
            416 => return Err(self.refuse_slices("the backend has no such range")),
            200 => {
                self.note_refused("the backend gives no ranges");
                self.terms.slices.is_refused = true;
                self.kind = FetchKind::Whole;
                return Ok(());
            }
            _ => {
                self.kind = FetchKind::Whole;
                self.find_missing();
                return Ok(());
            }
        }
        let size_log2 = self.terms.slices.size_log2;
        let total = match content_range(&self.beresp) {
            Ok(Some(ContentRange { slice: Some(slice), complete: Some(total) }))
                if slice == slice_at(index, size_log2, Some(total))
                    && self.announced().is_none_or(|n| n == slice.bytes()) =>
            {
                total
            }
            _ => return Err(self.refuse_slices("Content-Range isn't what was asked for")),
        };
        if self.beresp.has(names::CONTENT_ENCODING) {
            return Err(self.refuse_slices("it has a Content-Encoding"));
        }
        if index == 0 && total <= 1 << size_log2 {
            // It came whole.
            self.kind = FetchKind::Whole;
            self.show_whole(total);
            return Ok(());
        }
        match Validator::of(&self.beresp) {
            Ok(validator) => {
                let set = SliceSet::new(total, size_log2, validator, self.log.vxid().0);
                self.kind = FetchKind::Slice(SliceFetch::New(set, Some(index)));
                self.show_whole(total);
                Ok(())
            }
            Err(reason) => Err(self.refuse_slices(reason)),
        }
    }

    pub(super) fn show_whole(&mut self, total: u64) {
        if self.beresp.set_status(200).is_err() || self.beresp.set_reason(b"OK").is_err() {
            self.log.count_lost();
        }
        BERESP.log_status(&self.beresp, &mut self.log);
        for name in [names::CONTENT_RANGE, CONTENT_DIGEST] {
            BERESP.unset(&mut self.beresp, &mut self.log, name);
        }
        self.count_lost(|this| {
            BERESP.force(&mut this.beresp, &mut this.log, names::CONTENT_LENGTH, dec(total).as_bytes())
        });
    }

    fn refuse_slices(&mut self, reason: &str) -> FetchStep {
        self.note_refused(reason);
        self.terms.slices.is_refused = true;
        self.ask_again()
    }

    fn note_refused(&mut self, reason: &str) {
        self.engine.main.slice_refused.inc();
        self.log.putf(Tag::Notice, format_args!("lacquer: not in slices: {reason}"));
    }

    /// The object isn't that of which slices are in the cache: nobody shall be given those any more.
    fn give_up_changed(&mut self) -> FetchStep {
        if let FetchKind::Slice(SliceFetch::One { slice, .. }) = &self.kind
            && !slice.head.is_dying()
        {
            self.engine.cache.kill(&slice.head);
            slices::free(&self.engine.cache, self.fill.digest, slice.set.clone());
            self.engine.main.slice_changed.inc();
        }
        self.log.put2(Tag::Error, b"slice: ", CHANGED.as_bytes());
        self.end_unread();
        FetchStep::Fail(CHANGED)
    }

    /// Length and validator of a whole object that may become slices, or the reason why it can't.
    fn whole_to_slice(&self) -> Result<(u64, Validator), &'static str> {
        let announced = match self.ask.link.as_ref().map(|link| link.body) {
            Some(BodyStatus::Length(bytes)) => bytes,
            _ => return Err("its length isn't announced"),
        };
        let ranges = self.beresp.get(names::ACCEPT_RANGES).unwrap_or_default();
        if !self.beresp.is_status(200) {
            return Err("its status isn't 200");
        }
        if !ranges.eq_ignore_ascii_case(b"bytes") {
            return Err("the backend doesn't say Accept-Ranges: bytes");
        }
        if self.beresp.has(names::CONTENT_ENCODING) {
            return Err("it has a Content-Encoding");
        }
        if announced <= self.slice_size() {
            return Err("it is one slice");
        }
        Ok((announced, Validator::of(&self.beresp)?))
    }

    /// Sets `beresp.do_slice` to its default, before vcl_backend_response.
    pub(in crate::bereq) fn preset(&mut self) {
        let min = self.params.slice_min;
        let is_long = |bytes| min > 0 && bytes >= min;
        self.terms.slices.do_slice = match &self.kind {
            FetchKind::Slice(slice) => matches!(slice, SliceFetch::New(..)),
            _ => self.may_slice() && self.announced().is_some_and(is_long) && self.whole_to_slice().is_ok(),
        };
    }

    /// After vcl_backend_response: whether it is slices now. `Err` is the step to go to.
    pub(super) fn settle_slices(&mut self) -> Result<(), FetchStep> {
        let is_wanted = self.terms.slices.do_slice;
        let FetchKind::Slice(slice) = &self.kind else {
            if is_wanted && self.may_slice() && !self.kind.is_refresh() {
                self.settle_whole();
            }
            return Ok(());
        };
        match slice {
            SliceFetch::Asked(_) => Ok(()),
            SliceFetch::New(..) if !is_wanted => Err(self.refuse_slices("VCL has set beresp.do_slice to false")),
            SliceFetch::New(..) => match self.why_not_now() {
                Some(reason) => Err(self.refuse_slices(reason)),
                None => Ok(()),
            },
            SliceFetch::One { .. } if self.beresp.is_status(200) => Ok(()),
            SliceFetch::One { .. } => {
                self.end_link(Some(SessClose::RespClose));
                Err(FetchStep::Fail("no slice from the backend"))
            }
        }
    }

    fn settle_whole(&mut self) {
        match self.why_not_now().map_or_else(|| self.whole_to_slice(), Err) {
            // A part whose status VCL has changed.
            Ok(_) if matches!(self.kind, FetchKind::Part(_)) => {}
            Ok((total, validator)) => {
                let set = SliceSet::new(total, self.terms.slices.size_log2, validator, self.log.vxid().0);
                let first = (self.terms.slices.wanted < set.size()).then_some(0);
                self.kind = FetchKind::Slice(SliceFetch::New(set, first));
            }
            Err(reason) => self.note_refused(reason),
        }
    }

    /// The reason why VCL's settings rule out slices.
    fn why_not_now(&self) -> Option<&'static str> {
        if self.fill.cacheability.is_uncacheable() {
            return Some("it is uncacheable");
        }
        if self.fill.object.times.ttl + self.fill.object.times.grace <= 0.0 {
            return Some("it has no life");
        }
        if !self.filter_list().is_empty() {
            return Some("filters change the body");
        }
        (!self.beresp.is_status(200)).then_some("its status isn't 200")
    }

    /// Goes over to the body of a slice: stores the head of a new object first. `Err` is the step to go to.
    pub(super) fn open_slice(&mut self, received: BodyStatus) -> Result<OpenedBody, FetchStep> {
        let FetchKind::Slice(fetch) = &self.kind else { return Ok(OpenedBody::whole(received)) };
        let slice = match fetch {
            SliceFetch::Asked(_) => return Ok(OpenedBody::whole(received)),
            SliceFetch::New(set, index) => self.store_slices(set.clone(), *index)?,
            SliceFetch::One { slice, .. } => slice.clone(),
        };
        let (place, total) = (slice.set.place(slice.index), slice.set.total);
        // Whatever of these lives is left, a head that may be delivered may be delivered with it.
        self.fill.object.times = slice.head.times();
        // What the object is was said when its head was fetched.
        self.fill.cacheability = Cacheability::cacheable();
        self.engine.main.slice_fetch.inc();
        if self.beresp.set_status(206).is_err() {
            self.log.count_lost();
        }
        let range = place.content_range(Some(total));
        self.count_lost(|this| {
            BERESP.force(&mut this.beresp, &mut this.log, names::CONTENT_LENGTH, dec(place.bytes()).as_bytes())?;
            BERESP.force(&mut this.beresp, &mut this.log, names::CONTENT_RANGE, range.as_bytes())
        });
        self.kind = FetchKind::Slice(SliceFetch::one(slice));
        if received == BodyStatus::None {
            return Err(FetchStep::Error);
        }
        let status = BodyStatus::Length(place.bytes());
        Ok(OpenedBody { status, announced: status, is_unfiltered: true })
    }

    /// Stores a head, and turns to its first slice. The fetch is done if none is to be had from this response.
    fn store_slices(&mut self, set: SliceSet, index: Option<u64>) -> Result<SliceOf, FetchStep> {
        // Before anybody can find the head, who would fetch the slice, too.
        let first = index.map(|index| (index, self.claim(&set, index)));
        let (storage, keys) = (self.fill.settings.storage.clone(), self.fill.object.keys.clone());
        if self.store_head(ObjectFlags::NONE, false).is_err() {
            self.end_link(Some(SessClose::RxBody));
            return Err(FetchStep::Error);
        }
        (self.fill.settings.storage, self.fill.object.keys) = (storage, keys);
        let head_busy = self.take_busy();
        let head = head_busy.object();
        let _ = head_busy.finish(None);
        self.replace_stale(&head);
        self.engine.main.slice_objects.inc();
        let (count, size) = (set.count(), set.size());
        self.log.putf(Tag::Notice, format_args!("lacquer: in {count} slices of {size} bytes"));
        let Some((first_index, slice_busy)) = first else {
            self.end_link(Some(SessClose::RespClose));
            return Err(FetchStep::Done);
        };
        self.fill.busy = Some(Box::new(slice_busy));
        Ok(SliceOf { set, index: first_index, head })
    }

    /// The new object is whole: the stale one goes, and its slices, unless they are the new one's and live as long as that.
    pub(in crate::bereq) fn replace_stale(&mut self, new: &ObjRef) {
        let Some(stale) = self.fill.stale.take() else { return };
        if self.params.compat().is_9() {
            let text = format_args!("VBF_Superseded x={} n={}", stale.xid(), new.xid());
            self.engine.log.write_onef(Tag::ExpKill, Vxid::NONE, Marker::None, text);
        }
        self.engine.cache.kill(&stale);
        let Some(set) = SliceSet::of(&stale) else { return };
        if self.kind.is_refresh() && !self.fill.cacheability.is_uncacheable() {
            slices::renew(&self.engine.cache, self.fill.digest, set, new.clone());
        } else if !self.kind.is_refresh() {
            slices::free(&self.engine.cache, self.fill.digest, set);
        }
    }

    /// The right to fetch a slice that nobody can know of.
    fn claim(&self, set: &SliceSet, index: u64) -> Busy {
        self.engine.cache.claim(&set.digest(&self.fill.digest, index))
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Fetching parts of an object (`crate::parts`), with `bereq.rfc9111`: those that a client wants and that aren't there, or what VCL has asked for
//! by a Range of its own; and what is left of a body that broke off.
//!
//! ```text
//! Whole --parts are stored, and not those that are wanted--> Asked --206--> Received
//!  \--206 to a Range of VCL's-----------------------------------------------> Received | Unkept
//!      Asked --another version, no answer to what was asked--> Whole         it is asked again, for the whole
//!      Whole --206 to a Range of VCL's, of no use to the client--> Whole     likewise, and VCL's Range doesn't count
//! ```

use std::future::poll_fn;
use std::ops::Range;

use backend::BodyStatus;
use cache::{FetchFailed, ObjRef};
use message::digest::CONTENT_DIGEST;
use message::range::{self, ByteRange, ContentRange, Slice, content_range};
use message::{Head, conditional, names};
use tables::close::SessClose;
use tables::no_hit::Uncacheable;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;

use super::{FetchKind, OpenedBody};
use crate::aux_attrs::AuxAttrs;
use crate::bereq::body::BodyFailure;
use crate::bereq::{Bereq, FetchMode, FetchStep};
use crate::httplog::BEREQ;
use crate::parts::{JoinedPart, StoredParts, WantedPart};
use crate::req::Req;
use crate::slices::Validator;

#[derive(Debug)]
pub(crate) enum PartFetch {
    /// The rest of what is wanted was asked for, beside these parts.
    Asked(StoredParts, Slice),
    /// The response is a part that can be kept.
    Received(Box<ReceivedPart>),
    /// The response is a part that can't be kept, but the client wants it.
    Unkept,
}

#[derive(Debug, Default)]
pub(crate) struct PartSettings {
    /// The client's request head, if it asks for a range.
    client: Option<Box<Head>>,
    pub refusal: PartRefusal,
}

/// Ranges that aren't asked for any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PartRefusal {
    #[default]
    None,
    OwnRange,
    /// VCL's, too: the client can't take what it brought.
    AnyRange,
}

#[derive(Debug)]
pub(crate) struct ReceivedPart {
    total: u64,
    validator: Validator,
    /// The parts with this one joined to them.
    joined: JoinedPart,
    is_joined: bool,
    /// Bytes of it that are still to come.
    pub left: u64,
}

impl ReceivedPart {
    /// The parts that the object has with this one, unless they are all of it.
    pub fn parts(&self) -> Option<&StoredParts> {
        self.joined.parts.as_ref()
    }

    pub fn bytes_to_store(&self) -> u64 {
        self.parts().map_or(self.total, StoredParts::bytes)
    }
}

#[derive(Debug)]
enum NoPart {
    Changed,
    /// The part isn't the one asked for, or contradicts itself.
    Wrong(String),
    /// Nothing tells of which version it is, or of how long a whole; or it is less than what the client wants.
    Unkept(&'static str),
}

impl Bereq {
    pub(super) fn take_wanted_range(&mut self, req: &Req) {
        if !self.fill.rfc9111 {
            if self.stored_parts().is_some() {
                // Nobody here would know that it isn't whole.
                self.fill.stale = None;
            }
            return;
        }
        if self.requester.mode != FetchMode::Normal || !req.ask.head.has(names::RANGE) || req.esi.is_fragment() {
            return;
        }
        let mut client = Head::with_limits(self.beresp.limits());
        let begun = client.start_request(req.ask.head.method(), b"", b"HTTP/1.1");
        let is_told = |name: &str| [names::RANGE, names::IF_RANGE].iter().any(|known| known.eq_ignore_ascii_case(name));
        let filled = begun.and_then(|()| {
            client.append_from(&req.ask.head, |field| std::str::from_utf8(field.name()).is_ok_and(is_told))
        });
        self.terms.parts.client = filled.is_ok().then(|| Box::new(client));
    }

    /// Asks for what is missing, if there are parts of the object.
    pub(super) fn find_missing(&mut self) {
        let is_refused = self.terms.parts.refusal != PartRefusal::None;
        if is_refused || !self.fill.rfc9111 || self.requester.mode != FetchMode::Normal {
            return;
        }
        let Some(stale) = &self.fill.stale else { return };
        let Some(parts) = StoredParts::of(stale) else { return };
        let wanted = self.wanted_of(stale, parts.total);
        if let Some(missing) = parts.missing(&wanted) {
            self.kind = FetchKind::Part(PartFetch::Asked(parts, missing));
        }
    }

    fn wanted_of(&self, obj: &ObjRef, total: u64) -> WantedPart {
        let mut head = Head::with_limits(self.beresp.limits());
        match head.load_from(obj.head()) {
            Ok(()) => self.wanted(&head, total),
            Err(_) => WantedPart::All,
        }
    }

    fn wanted(&self, head: &Head, total: u64) -> WantedPart {
        let client = self.terms.parts.client.as_ref();
        client.map_or(WantedPart::All, |client| WantedPart::of(client, head, total, &self.params))
    }

    pub(in crate::bereq) fn stale_has_what_is_wanted(&self, stale: &ObjRef) -> bool {
        StoredParts::of(stale).is_none_or(|parts| {
            self.requester.mode != FetchMode::Normal || parts.have(&self.wanted_of(stale, parts.total))
        })
    }

    /// Asks for what is missing, and for nothing of another version, in place of what a stale object would be validated by. Whether there
    /// is such a thing.
    pub(in crate::bereq) fn ask_for_missing(&mut self) -> bool {
        let FetchKind::Part(PartFetch::Asked(parts, missing)) = &self.kind else { return false };
        let end = if missing.high + 1 == parts.total { String::new() } else { missing.high.to_string() };
        let range = format!("bytes={}-{end}", missing.low);
        let mut lost = BEREQ.force(&mut self.ask.original, &mut self.log, names::RANGE, range.as_bytes()).is_err();
        let if_range = parts.validator.if_range();
        lost |= BEREQ.force(&mut self.ask.original, &mut self.log, names::IF_RANGE, if_range).is_err();
        // Parts of a coded body are of that coding, which the origin may make anew each time.
        if self.ask.original.has(names::ACCEPT_ENCODING) {
            lost |= BEREQ.force(&mut self.ask.original, &mut self.log, names::ACCEPT_ENCODING, b"identity").is_err();
        }
        if lost {
            self.log.count_lost();
        }
        true
    }

    /// Looks at a response that may be a part. `Err` is the step to go to in its place.
    pub(super) fn judge_part(&mut self) -> Result<(), FetchStep> {
        if !self.fill.rfc9111 || self.requester.mode == FetchMode::Pass || self.kind.is_of_slices() {
            return Ok(());
        }
        let is_asked = matches!(std::mem::take(&mut self.kind), FetchKind::Part(_));
        match self.beresp.status() {
            206 if self.ask.head.method() == b"GET" => {}
            // The object isn't that long any more.
            412 | 416 if is_asked => return Err(self.give_up_parts()),
            304 if is_asked => return Err(self.ask_for_whole("the backend says 304 to a request for a part")),
            304 if self.stored_parts().is_some_and(|parts| parts.validator.is_denied_by(&self.beresp)) => {
                return Err(self.give_up_parts());
            }
            _ => return Ok(()),
        }
        match self.read_part(is_asked) {
            Ok(part) => {
                if part.is_joined {
                    self.merge_of_part();
                }
                self.kind = FetchKind::Part(PartFetch::Received(Box::new(part)));
                Ok(())
            }
            Err(NoPart::Changed) => Err(self.give_up_parts()),
            Err(NoPart::Wrong(reason)) if is_asked => Err(self.ask_for_whole(&reason)),
            Err(NoPart::Unkept(reason)) if is_asked => Err(self.ask_for_whole(reason)),
            Err(NoPart::Unkept(reason)) => self.pass_part_on(reason),
            Err(NoPart::Wrong(reason)) => Err(self.fail_part(&reason)),
        }
    }

    /// A part that can't be kept goes to the client, if that asked for one. A server may send less than it was asked for, and says so; who
    /// asks for ranges understands that (RFC 9110 15.3.7).
    fn pass_part_on(&mut self, reason: &'static str) -> Result<(), FetchStep> {
        if !self.client_takes_parts() && self.terms.parts.refusal != PartRefusal::AnyRange {
            return Err(self.ask_for_whole_alone());
        }
        if self.beresp.has(names::CONTENT_RANGE) {
            let asked = self.terms.parts.client.as_deref().map_or_else(Head::new, Head::clone);
            if let Err(mismatch) = range::check_response(&asked, &self.beresp, self.announced()) {
                return Err(self.fail_part(&mismatch.0));
            }
        }
        self.log.putf(Tag::Notice, format_args!("lacquer: partial response not stored: {reason}"));
        self.kind = FetchKind::Part(PartFetch::Unkept);
        Ok(())
    }

    /// True if the client has asked for a part of this version. A background fetch has no client.
    fn client_takes_parts(&self) -> bool {
        let takes = |client: &Head| {
            client.method() == b"GET"
                && range::asked(client).is_some()
                && conditional::if_range_holds(client, &self.beresp)
        };
        self.requester.mode != FetchMode::Normal || self.terms.parts.client.as_deref().is_some_and(takes)
    }

    /// After vcl_backend_fetch: no Range is sent where what it brings is of no use. Only GET has ranges (RFC 9110 14.2), and VCL may
    /// have kept HEAD.
    pub(super) fn keep_to_whole(&mut self) {
        let is_asked_by_head = matches!(self.kind, FetchKind::Part(_)) && self.ask.head.method() != b"GET";
        if is_asked_by_head {
            self.kind = FetchKind::Whole;
        }
        if is_asked_by_head || self.terms.parts.refusal == PartRefusal::AnyRange {
            for name in [names::RANGE, names::IF_RANGE] {
                BEREQ.unset(&mut self.ask.head, &mut self.log, name);
            }
        }
    }

    fn fail_part(&mut self, reason: &str) -> FetchStep {
        self.log.put(Tag::Error, reason.as_bytes());
        self.blame(ProxyError::HttpProtocolError, "the part is not what was asked for");
        self.end_link(Some(SessClose::RespClose));
        FetchStep::Error
    }

    fn read_part(&self, is_asked: bool) -> Result<ReceivedPart, NoPart> {
        let wrong = |text: &str| NoPart::Wrong(text.to_owned());
        if self.beresp.count(names::CONTENT_RANGE) > 1 {
            return Err(wrong("Invalid content-range header"));
        }
        let (place, total) = match content_range(&self.beresp) {
            Ok(Some(ContentRange { slice: Some(place), complete: Some(total) })) => (place, total),
            Ok(Some(ContentRange { slice: Some(_), complete: None })) => {
                return Err(NoPart::Unkept("the length of the whole isn't known"));
            }
            Ok(None) => return Err(NoPart::Unkept("it doesn't say which one it is")),
            Ok(Some(ContentRange { slice: None, .. })) | Err(_) => return Err(wrong("Invalid content-range header")),
        };
        range::check_response(&self.ask.head, &self.beresp, self.announced())
            .map_err(|mismatch| NoPart::Wrong(mismatch.0))?;
        if let Some(Ok(ByteRange::Suffix(n))) = range::asked(&self.ask.head).map(range::parse_one)
            && place != (Slice { low: total.saturating_sub(n), high: total - 1 })
        {
            return Err(wrong("Content-Range isn't the end that was asked for"));
        }
        if self.announced().is_some_and(|announced| announced != place.bytes()) {
            return Err(wrong("Content-Range isn't as long as the body"));
        }
        if self.beresp.has(names::CONTENT_ENCODING) {
            return Err(NoPart::Unkept("it has a Content-Encoding"));
        }
        let held = self.stored_parts();
        let held = held.filter(|parts| parts.total == total && parts.validator.is_of(&self.beresp));
        if held.is_none() && is_asked {
            return Err(NoPart::Changed);
        }
        let is_joined = held.is_some();
        let (validator, joined) = match held {
            Some(parts) => (parts.validator.clone(), parts.join(place)),
            None => {
                let validator = Validator::of(&self.beresp).map_err(NoPart::Unkept)?;
                let parts = StoredParts::one(total, validator.clone(), place);
                (validator, JoinedPart { before: Vec::new(), behind: Vec::new(), parts })
            }
        };
        let wanted = self.wanted(&self.beresp, total);
        let is_enough = joined.parts.as_ref().is_none_or(|parts| parts.have(&wanted));
        if self.requester.mode == FetchMode::Normal && !is_enough {
            return Err(NoPart::Unkept("it is less than what the client wants"));
        }
        Ok(ReceivedPart { left: place.bytes(), total, validator, joined, is_joined })
    }

    /// The stored fields that the part's head doesn't have (RFC 9111 3.4).
    fn merge_of_part(&mut self) {
        let Some(stale) = self.fill.stale.clone() else { return };
        let mut old = Head::with_limits(self.beresp.limits());
        if old.load_from(stale.head()).is_ok() {
            old.unset(names::CONTENT_LENGTH);
            old.unset(CONTENT_DIGEST);
            self.count_lost(|this| this.merge_fields(&old));
        }
    }

    /// The parts that are there are of a version that isn't any more.
    fn give_up_parts(&mut self) -> FetchStep {
        if let Some(stale) = self.fill.stale.take() {
            self.engine.cache.kill(&stale);
        }
        self.engine.main.parts_changed.inc();
        self.ask_for_whole("the object has changed")
    }

    /// Does what [`Bereq::ask_for_whole`] does, and drops VCL's Range.
    fn ask_for_whole_alone(&mut self) -> FetchStep {
        let step = self.ask_for_whole("the client can't take a part");
        self.terms.parts.refusal = PartRefusal::AnyRange;
        step
    }

    fn ask_for_whole(&mut self, reason: &str) -> FetchStep {
        self.log.putf(Tag::Notice, format_args!("lacquer: not by parts: {reason}"));
        for name in [names::RANGE, names::IF_RANGE, names::IF_NONE_MATCH, names::IF_MODIFIED_SINCE, names::X_VARNISH] {
            self.ask.original.unset(name);
            BEREQ.unset(&mut self.ask.head, &mut self.log, name);
        }
        self.terms.parts.refusal = PartRefusal::OwnRange;
        self.ask_again()
    }

    /// True if the response's place in its object was compared with the range asked for.
    pub(in crate::bereq) fn is_range_checked(&self) -> bool {
        let is_beyond = self.fill.rfc9111
            && self.requester.mode != FetchMode::Pass
            && self.beresp.is_status(416)
            && self.ask.head.has(names::RANGE);
        is_beyond || matches!(self.kind, FetchKind::Part(PartFetch::Received(_) | PartFetch::Unkept))
    }

    /// True if the response is about a part alone, and mustn't be stored as one about the object.
    pub(in crate::bereq) fn is_of_part_alone(&self) -> bool {
        let status = self.beresp.status() % 1000;
        status == 206 && !self.kind.is_part() || status == 416 && self.ask.head.has(names::RANGE)
    }

    /// After vcl_backend_response: a part that isn't stored goes to who asked for it. `Err` is the step to go to.
    pub(super) fn settle_part(&mut self) -> Result<(), FetchStep> {
        let Some(part) = self.kind.received_part() else { return Ok(()) };
        let lives = self.fill.object.times.ttl > 0.0 && !self.fill.cacheability.is_uncacheable();
        if lives && self.filter_list().is_empty() && self.beresp.is_status(206) {
            return Ok(());
        }
        if part.is_joined || !self.beresp.is_status(206) {
            return Err(self.ask_for_whole("it isn't stored"));
        }
        if !self.client_takes_parts() {
            return Err(self.ask_for_whole_alone());
        }
        self.kind = FetchKind::Part(PartFetch::Unkept);
        if !self.fill.cacheability.is_uncacheable() {
            self.refuse_for(Uncacheable::Status);
        }
        Ok(())
    }

    /// Goes over to the body of a part: the head becomes that of the whole. What of the stored parts comes before it. `Err` is the step
    /// to go to.
    pub(super) async fn open_part(&mut self, received: BodyStatus) -> Result<OpenedBody, FetchStep> {
        let Some(part) = self.kind.received_part() else { return Ok(OpenedBody::whole(received)) };
        let (total, is_joined) = (part.total, part.is_joined);
        if is_joined && let Some(stale) = self.fill.stale.clone() {
            // It may still be on its way; what of it doesn't come can't be put together with anything.
            if stale.finished().await.is_err() {
                return Err(self.ask_for_whole("the parts that were on their way didn't come"));
            }
        }
        self.show_whole(total);
        self.engine.main.parts_stored.inc();
        Ok(OpenedBody { status: received, announced: BodyStatus::Length(total), is_unfiltered: true })
    }

    /// Takes over the stored parts before the new one, or those behind it.
    pub(in crate::bereq) async fn take_stored(&mut self, are_before: bool) -> Result<(), BodyFailure> {
        let FetchKind::Part(PartFetch::Received(part)) = &mut self.kind else { return Ok(()) };
        let ranges = std::mem::take(if are_before { &mut part.joined.before } else { &mut part.joined.behind });
        let Some(stale) = self.fill.stale.clone() else { return Ok(()) };
        for range in ranges {
            self.take_over_range(&stale, range).await?;
        }
        Ok(())
    }

    async fn take_over_range(&mut self, stale: &ObjRef, Range { start, end }: Range<u64>) -> Result<(), BodyFailure> {
        let mut reader = stale.reader(start);
        reader.stop_at(end);
        while reader.offset() < end {
            rt::give_way().await;
            if poll_fn(|cx| self.poll_room(cx)).await.is_err() {
                return Err(BodyFailure::Unwanted);
            }
            let at = reader.offset();
            let Ok(Some(mut piece)) = reader.next().await else {
                self.engine.cache.lose(stale);
                self.fetch_error("A stored part can't be read");
                return Err(BodyFailure::Logged);
            };
            if piece.len() as u64 > end - at {
                piece = piece.slice(0..(end - at) as usize);
            }
            self.take_over(piece, stale.store())?;
        }
        Ok(())
    }

    /// A body broke off that was `received` from the backend and streams as it came: what there is of it stays in the cache, to be made
    /// whole by a request for the rest. Whether it does.
    pub(in crate::bereq) fn cut(&mut self, received: BodyStatus) -> bool {
        let is_kept = self.fill.rfc9111
            && self.requester.mode != FetchMode::Pass
            && !self.fill.cacheability.is_uncacheable()
            && self.fill.object.times.ttl > 0.0
            && self.ask.head.method() == b"GET"
            && !self.kind.is_of_slices();
        let fetched = self.busy().fetched();
        let parts = match (self.kind.received_part(), received) {
            _ if !is_kept || fetched == 0 => None,
            (Some(part), BodyStatus::Length(_)) => match part.parts() {
                Some(parts) => parts.cut_to(fetched),
                None => StoredParts::one(part.total, part.validator.clone(), beginning(fetched)),
            },
            (_, BodyStatus::Length(total))
                if self.beresp.is_status(200) && !self.beresp.has(names::CONTENT_ENCODING) =>
            {
                Validator::of(&self.beresp).ok().and_then(|it| StoredParts::one(total, it, beginning(fetched)))
            }
            _ => None,
        };
        let Some(parts) = parts else { return false };
        let stored = parts.store();
        let aux_attrs = AuxAttrs { parts: Some(&stored), ..AuxAttrs::default() }.store();
        if self.put_aux_attrs(&aux_attrs, false).is_err() {
            return false;
        }
        let busy = self.take_busy();
        let object = busy.object();
        self.engine.main.fetch_failed.inc();
        busy.finish_cut(FetchFailed::new("fetch failed"));
        self.engine.main.parts_cut.inc();
        let (bytes, total) = (parts.bytes(), parts.total);
        self.log.putf(Tag::Notice, format_args!("lacquer: {bytes} bytes of {total} are kept"));
        self.replace_stale(&object);
        true
    }
}

fn beginning(bytes: u64) -> Slice {
    Slice { low: 0, high: bytes - 1 }
}

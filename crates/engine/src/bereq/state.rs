// SPDX-License-Identifier: BSD-2-Clause
//! The parts of a fetch, each of which lives and dies as one. The `reset` of a part prepares it for another try.

use std::rc::Rc;
use std::sync::Arc;

use backend::{Backend, BackendLimits, Director, ExchangeAcct};
use base::Real;
use cache::{Busy, Digest, ObjRef, ObjectTimes, Reuse};
use filters::Recode;
use message::rfc9111::{ExchangeTimes, StoringRefusal};
use message::{Codings, Head, HttpVersion, hop};
use storage::Store;
use tables::Compat;
use vrt::value::Text;

use super::body_filters::BodyFilters;
use super::dictionary::ClientTarget;
use super::kind::{PartSettings, SliceSettings};
use super::peer::PeerState;
use super::start::FetchTurn;
use super::{BereqBody, FetchMode, OriginExchange};
use crate::current::{self, OpenTransaction, TransactionKind};
use crate::early::Handshaking;
use crate::interim::Interims;
use crate::proxy_status::ProxyCause;
use crate::req::Req;
use crate::req::rfc9111::Alias;
use crate::req::verdict::FoundKind;
use crate::response_filters::ResponseFilters;
use crate::sess::Sess;
use crate::synthetic::SyntheticResponse;
use crate::trailers::Trailers;
use crate::uploads::UploadRequest;

/// The request that a fetch is made for, as far as the fetch needs it.
pub(crate) struct Requester {
    pub sess: Rc<Sess>,
    pub mode: FetchMode,
    pub client: FetchClient,
    /// True if the client can take the request back, whatever it asks for.
    pub can_be_reset: bool,
    pub client_identity: Option<Text>,
    /// `bereq.trace`, once it or `req.trace` is set.
    pub trace: Option<bool>,
    pub found: FoundKind,
    /// The number of times that the client's request was here before (`crate::loops`).
    pub rounds: usize,
    /// `None` if the request has no part in a resumable upload.
    pub upload: Option<Box<UploadRequest>>,
    pub turn: FetchTurn,
    _open: OpenTransaction,
}

/// The client's side, as far as the fetch speaks to it.
pub(crate) struct FetchClient {
    /// `None` if the client doesn't want interim responses.
    pub interims: Option<Interims>,
    /// `None` if the client doesn't get the trailers, or others get the response, too.
    pub trailers: Option<Trailers>,
    /// The handshake of the client whose early data asked for it.
    pub early: Option<Rc<Handshaking>>,
}

impl FetchClient {
    fn new(req: &Req, mode: FetchMode) -> Self {
        // A page's fragments have nothing to say to its client before the page has.
        let is_heard = mode != FetchMode::Background && !req.esi.is_fragment();
        // From HTTP/2 on every client reads them.
        let reads_trailers = req.ask.head.version() > HttpVersion::HTTP11 || hop::takes_trailers(&req.ask.head);
        FetchClient {
            interims: (is_heard && req.params.http_interim).then(Interims::default),
            trailers: (is_heard && reads_trailers).then(Trailers::default),
            early: req.client.early.clone(),
        }
    }
}

impl Requester {
    pub fn new(req: &Req, mode: FetchMode, turn: FetchTurn, upload: Option<Box<UploadRequest>>) -> Self {
        Requester {
            sess: req.client.sess.clone(),
            mode,
            client: FetchClient::new(req, mode),
            // From HTTP/2 on who goes before the answer has reset its request.
            can_be_reset: req.ask.head.version() > HttpVersion::HTTP11,
            client_identity: req.settings.client_identity.clone(),
            trace: req.settings.trace,
            found: req.verdict.found(),
            rounds: req.engine().fetches.loops.rounds(&req.ask.original),
            upload,
            turn,
            _open: current::open(TransactionKind::Fetch),
        }
    }
}

/// The request to the backend, the way to it, and its exchanges.
pub(crate) struct Ask {
    pub head: Head,
    /// The head before VCL, for the first try.
    pub original: Head,
    pub target: Option<Box<ClientTarget>>,
    pub body: BereqBody,
    pub tries: Tries,
    pub director: Option<Arc<dyn Director>>,
    pub backend: Option<Arc<Backend>>,
    /// The exchange in progress, or the one whose response is at hand.
    pub link: Option<OriginExchange>,
    pub limits: TimeLimits,
    /// The filters of the request's body. Boxed: hardly a request has any.
    pub body_filters: Option<Box<BodyFilters>>,
    pub peer: PeerState,
    /// When the head was sent, or was about to be, and when the response came.
    pub times: ExchangeTimes,
    /// Bytes of the exchanges that are over.
    pub acct: ExchangeAcct,
}

impl Ask {
    /// True if the request may be sent again although the origin may have seen its head: a body of the client's is a sign that it changes
    /// something, unless the method is idempotent (RFC 9110 9.2.2).
    pub fn is_repeatable(&self) -> bool {
        let is_idempotent =
            || matches!(self.head.method(), b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"QUERY" | b"PUT" | b"DELETE");
        !matches!(self.body, BereqBody::Lent(_)) || is_idempotent()
    }

    /// True if another try would lack a part of the client's body.
    pub fn has_used_body(&self) -> bool {
        matches!(&self.body, BereqBody::Lent(lent) if lent.is_used())
    }
}

/// The tries of a request: VCL's retries, and those over another connection.
pub(crate) struct Tries {
    pub retries: u32,
    /// `bereq.retry_connect`: a request whose connection was closed before the response may be sent again.
    pub reconnects: bool,
    /// Status of the response whose head has come; 0 before.
    pub status: u16,
}

impl Tries {
    pub fn new() -> Self {
        Tries { retries: 0, reconnects: true, status: 0 }
    }

    /// Counts a retry of VCL. False if there are more than `most`.
    pub fn retry(&mut self, most: u32) -> bool {
        self.retries += 1;
        self.retries <= most
    }

    pub fn has_status(&self) -> bool {
        self.status != 0
    }

    /// True if there was no response, or a server's error.
    pub fn has_failed(&self) -> bool {
        !self.has_status() || self.status % 1000 >= 500
    }
}

/// The object that a fetch makes, and the one that it replaces.
pub(crate) struct Fill {
    /// Taken by what ends the fetch.
    pub busy: Option<Box<Busy>>,
    pub stale: Option<ObjRef>,
    pub digest: Digest,
    pub alias: Option<Box<Alias>>,
    /// The digest that the objects of all request bodies have in common, if the key covers the body.
    pub family: Option<Box<Digest>>,
    pub object: NewObject,
    pub settings: FetchSettings,
    pub cacheability: Cacheability,
    /// `bereq.rfc9111`: that RFC says what becomes of the response.
    pub rfc9111: bool,
    /// The reason for not storing the response, unless VCL says otherwise.
    pub refusal: Option<StoringRefusal>,
}

impl Fill {
    pub fn new(req: &Req, mut busy: Box<Busy>, stale: Option<ObjRef>, mode: FetchMode, now: Real) -> Self {
        let is_pass = mode == FetchMode::Pass;
        if let Some(family) = &req.ask.family {
            busy.join_family(family);
        }
        if let Some(tenant) = req.tenant() {
            tenant.counters().fetches.inc();
            if mode == FetchMode::Normal {
                tenant.counters().misses.inc();
            }
            busy.set_tenant(tenant);
        }
        Fill {
            busy: Some(busy),
            stale,
            digest: req.ask.digest,
            alias: req.ask.alias.clone(),
            family: req.ask.family.clone(),
            object: NewObject::new(now),
            settings: FetchSettings::new(),
            cacheability: if is_pass { Cacheability::uncacheable() } else { Cacheability::cacheable() },
            rfc9111: req.settings.rfc9111,
            refusal: None,
        }
    }
}

/// The reasons why an error is made instead of a response, and VCL's part of it.
#[derive(Debug, Default)]
pub(crate) struct FetchError {
    pub cause: Option<Box<ProxyCause>>,
    pub made: SyntheticResponse,
    /// VCL asked for the error: it isn't a failed fetch.
    pub is_asked_for: bool,
}

/// Settings of VCL and refusals, which hold for all tries of a fetch, whatever their kind.
#[derive(Debug)]
pub(crate) struct KindTerms {
    pub slices: SliceSettings,
    pub parts: PartSettings,
}

/// The use of the object for other requests. It only gets worse, over all tries.
#[derive(Debug)]
pub(crate) struct Cacheability {
    stored_as: StoredAs,
    reason: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoredAs {
    Cacheable,
    /// Later requests fetch, each for itself, until an answer is cacheable.
    HitForMiss,
    HitForPass,
}

impl Cacheability {
    pub fn cacheable() -> Self {
        Cacheability { stored_as: StoredAs::Cacheable, reason: None }
    }

    /// The state in which a pass begins.
    pub fn uncacheable() -> Self {
        Cacheability { stored_as: StoredAs::HitForMiss, reason: None }
    }

    pub fn is_uncacheable(&self) -> bool {
        self.stored_as != StoredAs::Cacheable
    }

    /// Makes the object hit-for-miss, unless it is uncacheable already.
    pub fn refuse(&mut self) {
        if self.stored_as == StoredAs::Cacheable {
            self.stored_as = StoredAs::HitForMiss;
        }
    }

    pub fn pass_from_now_on(&mut self) {
        self.stored_as = StoredAs::HitForPass;
    }

    pub fn reason(&self) -> Option<&[u8]> {
        self.reason.as_deref()
    }

    pub fn set_reason(&mut self, reason: impl Into<Vec<u8>>) {
        self.reason = Some(reason.into());
    }

    /// The use of the object for later requests. `may_be_revalidated` is asked for one that may be hit.
    pub fn reuse(&self, may_be_revalidated: impl FnOnce() -> bool) -> Reuse {
        match self.stored_as {
            StoredAs::Cacheable if may_be_revalidated() => Reuse::HitOrRevalidate,
            StoredAs::Cacheable => Reuse::Hit,
            StoredAs::HitForMiss => Reuse::HitForMiss,
            StoredAs::HitForPass => Reuse::HitForPass,
        }
    }
}

/// Limits that VCL sets, in seconds, on waits for the backend.
#[derive(Debug, Default)]
pub(crate) struct TimeLimits {
    pub connect: Option<f64>,
    pub first_byte: Option<f64>,
    pub between_bytes: Option<f64>,
}

impl TimeLimits {
    pub fn set(&self, compat: Compat) -> BackendLimits {
        BackendLimits::set(compat, [self.connect, self.first_byte, self.between_bytes])
    }
}

/// Settings for the body that VCL may change.
pub(crate) struct FetchSettings {
    pub do_esi: bool,
    pub recode: Recode,
    pub do_stream: bool,
    /// The store for the object, unless the object is short-lived or uncacheable; `None` if VCL chose none.
    pub storage: Option<Arc<Store>>,
    pub filters: ResponseFilters,
}

impl FetchSettings {
    pub fn new() -> Self {
        FetchSettings {
            do_esi: false,
            recode: Recode::default(),
            do_stream: true,
            storage: None,
            filters: ResponseFilters::default(),
        }
    }

    /// Prepares another try. VCL's settings for gzip stay, as in varnishd.
    pub fn reset(&mut self) {
        let Recode { make, undo } = self.recode;
        let recode = Recode { make: make.and(Codings::GZIP), undo: undo.and(Codings::GZIP) };
        *self = FetchSettings { recode, ..FetchSettings::new() };
    }
}

#[derive(Debug)]
pub(crate) struct NewObject {
    pub times: ObjectTimes,
    /// `times.t_origin` by the wall clock: in VCL age and ttl count from it to the last timestamp, exactly.
    pub t_origin: Real,
    /// Tags that VCL gave it.
    pub keys: Vec<Box<[u8]>>,
    /// They are all that it has: fields give it none.
    pub has_own_tags: bool,
    /// Bytes of the body that the store still takes in place of another store.
    pub body_limit: Option<u64>,
}

impl NewObject {
    pub fn new(now: Real) -> Self {
        NewObject {
            times: ObjectTimes::default(),
            t_origin: now,
            keys: Vec::new(),
            has_own_tags: false,
            body_limit: None,
        }
    }

    pub fn reset(&mut self) {
        self.keys.clear();
        self.has_own_tags = false;
    }

    /// Seconds that it lives in all, from its origin.
    pub fn life(&self) -> f64 {
        self.times.ttl + self.times.grace + self.times.keep
    }
}

#[cfg(test)]
mod tests {
    use message::Coding;

    use super::*;

    #[test]
    fn a_verdict_only_gets_worse() {
        let mut verdict = Cacheability::cacheable();
        assert!(!verdict.is_uncacheable() && verdict.reuse(|| false) == Reuse::Hit);
        verdict.refuse();
        assert!(verdict.is_uncacheable() && verdict.reuse(|| true) == Reuse::HitForMiss);
        verdict.pass_from_now_on();
        verdict.refuse();
        assert!(verdict.reuse(|| true) == Reuse::HitForPass);
        assert!(Cacheability::uncacheable().reuse(|| true) == Reuse::HitForMiss);
    }

    #[test]
    fn another_try_begins_anew_but_for_gzip() {
        let mut settings = FetchSettings::new();
        (settings.do_esi, settings.do_stream) = (true, false);
        let (gzip, both) = (Codings::GZIP, Codings::GZIP.with(Coding::Zstd));
        settings.recode = Recode { make: both, undo: both };
        settings.filters.set_list(Some("gzip".into()));
        settings.reset();
        let FetchSettings { do_esi, recode, do_stream, storage, filters } = &settings;
        assert_eq!((*do_esi, *do_stream, *recode), (false, true, Recode { make: gzip, undo: gzip }));
        assert!(storage.is_none() && filters.list().is_none());
    }
}

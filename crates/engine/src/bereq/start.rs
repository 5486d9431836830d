// SPDX-License-Identifier: BSD-2-Clause
//! The birth of a backend request: what it takes over from the request that it is made for.

use std::rc::Rc;

use base::Real;
use cache::{Busy, ObjRef, Reuse};
use message::dictionary::DICTIONARY_OFFER;
use message::head::StoredHead;
use message::hop::{self, HopDirection};
use message::rfc9111::ExchangeTimes;
use message::{Head, HeadLimits, conditional, names};
use shm::vsl::{Marker, TxnLog};
use tables::Compat;
use tables::tags::Tag;

use super::body_filters::BodyFilters;
use super::dictionary::ClientTarget;
use super::kind::{FetchKind, PartSettings, SliceOf, SliceSettings};
use super::peer::PeerState;
use super::state::{Ask, FetchError, Fill, KindTerms, Requester, TimeLimits, Tries};
use super::{Bereq, BereqBody, task};
use crate::admission::{self, FetchSlot};
use crate::bots::FetchCharge;
use crate::classes::ClassWorker;
use crate::httplog::BEREQ;
use crate::interim::Interims;
use crate::peers::hop::LACQUER_PEER;
use crate::pool;
use crate::req::Req;
use crate::slices::SliceSet;
use crate::trace;
use crate::trailers::Trailers;
use crate::vcl_run::VclRun;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchMode {
    /// A miss: a client waits.
    Normal,
    /// A stale object is being refreshed.
    Background,
    Pass,
}

impl FetchMode {
    fn reason(self) -> &'static str {
        match self {
            FetchMode::Normal => "fetch",
            FetchMode::Background => "bgfetch",
            FetchMode::Pass => "pass",
        }
    }
}

/// The class's worker and the slot that a fetch holds until it ends.
pub(crate) struct FetchTurn {
    /// A worker of the request's class, while there are classes.
    pub worker: Option<Box<ClassWorker>>,
    /// The account that pays, while `bots` counts.
    pub charge: Option<Box<FetchCharge>>,
    _slot: FetchSlot,
}

impl FetchTurn {
    pub fn new(worker: Option<Box<ClassWorker>>, mut charge: Option<Box<FetchCharge>>, slot: FetchSlot) -> Self {
        if let Some(charge) = &mut charge {
            charge.begin();
        }
        FetchTurn { worker, charge, _slot: slot }
    }
}

/// A fetch that was started, as its request sees it.
pub(crate) struct StartedFetch {
    pub obj: ObjRef,
    pub began: Real,
    /// Interim responses on their way to the client, if it wants them.
    pub interims: Option<Interims>,
    /// Trailers on their way to the client, if it takes them.
    pub trailers: Option<Trailers>,
}

/// Starts a fetch into `busy` as a task of this thread. `stale` is an object that it may revalidate and will replace.
pub(crate) fn start(
    req: &mut Req,
    busy: Box<Busy>,
    stale: Option<ObjRef>,
    mode: FetchMode,
    turn: FetchTurn,
) -> StartedFetch {
    let obj = busy.object();
    let bereq = make(req, busy, stale, mode, turn);
    if mode == FetchMode::Background {
        req.engine().main.n_bgfetch.inc();
    }
    let client = &bereq.requester.client;
    let (interims, trailers) = (client.interims.clone(), client.trailers.clone());
    let started = StartedFetch { obj, began: bereq.log.start(), interims, trailers };
    task::run(bereq);
    started
}

/// Does what [`start`] does, for one slice of an object, into `busy`.
pub(crate) fn start_slice(req: &mut Req, busy: Busy, slice: SliceOf, worker: Option<Box<ClassWorker>>) -> ObjRef {
    let obj = busy.object();
    let turn = FetchTurn::new(worker, req.charge_part(), admission::enter_anyway(&req.client.sess));
    let mut bereq = make(req, Box::new(busy), None, FetchMode::Normal, turn);
    // They are of the head, and it has none by now.
    (bereq.requester.client.interims, bereq.requester.client.trailers) = (None, None);
    bereq.ask_for_slice_of(slice);
    task::run(bereq);
    obj
}

fn make(req: &mut Req, busy: Box<Busy>, stale: Option<ObjRef>, mode: FetchMode, turn: FetchTurn) -> Box<Bereq> {
    let engine = req.engine().clone();
    let vxid = engine.vxids.take();
    let vcl = req.vcl.loaded().clone();
    let mut log = TxnLog::new(engine.log.clone(), vxid, Marker::Backend);
    let reason = mode.reason();
    log.record(Tag::Begin).text("bereq ").num(req.log.vxid().log_id()).text(" ").text(reason);
    log.put(Tag::VclUse, vcl.name.as_bytes());
    req.log.record(Tag::Link).text("bereq ").num(vxid.log_id()).text(" ").text(reason);
    let now = engine.clock.real();
    log.timestamp("Start", now);
    let params = req.params.clone();
    if turn.charge.as_ref().is_some_and(|charge| charge.is_crawl()) {
        busy.expect_little_use();
    }
    let upload = req.take_upload(mode, &mut log);
    let limits = HeadLimits::new(params.http_max_hdr, params.workspace_backend.min(1 << 30) as u32);
    let [head, original, beresp] = pool::heads(limits);
    let mut bereq = Box::new(Bereq {
        vcl: VclRun::of(vcl),
        log,
        beresp,
        requester: Requester::new(req, mode, turn, req.upload_request(upload.as_deref())),
        ask: Ask {
            head,
            original,
            target: ClientTarget::of(&req.ask),
            body: lend(req, mode),
            tries: Tries::new(),
            director: upload.map(|upload| upload.holder).or_else(|| req.director()),
            backend: None,
            link: None,
            limits: TimeLimits::default(),
            body_filters: BodyFilters::of_request(req.settings.body_filters.as_ref()),
            peer: PeerState {
                may_ask: mode != FetchMode::Pass && req.ask.family.is_none() && req.may_ask_peers(),
                warmer: req.client.warmer().cloned(),
                ..PeerState::default()
            },
            times: ExchangeTimes { sent: now, received: now },
            acct: backend::ExchangeAcct::default(),
        },
        fill: Fill::new(req, busy, stale, mode, now),
        failure: FetchError::default(),
        kind: FetchKind::Whole,
        terms: KindTerms { slices: SliceSettings::new(req, mode), parts: PartSettings::default() },
        params,
        engine,
    });
    bereq.log_tenant();
    bereq.begin_kind(req);
    bereq.make_head(req, mode);
    // The fetch hasn't had its turn yet, and many may be made before it is.
    bereq.log.rest();
    bereq
}

/// The request's body as the fetch gets it.
fn lend(req: &mut Req, mode: FetchMode) -> BereqBody {
    if !req.client.body.is_available() {
        let method = req.ask.head.method();
        // An error page may be asked for without it; a POST without its body is another request.
        let is_missed = mode == FetchMode::Pass && req.client.body.is_spent() && method != b"GET" && method != b"HEAD";
        return if is_missed { BereqBody::Gone } else { BereqBody::None };
    }
    if req.client.body.is_cached() {
        return BereqBody::Cached(Rc::new(req.client.body.cached()));
    }
    BereqBody::Lent(req.client.body.lend())
}

impl Bereq {
    fn log_tenant(&mut self) {
        if let Some(tenant) = self.fill.busy.as_ref().and_then(|busy| busy.tenant()) {
            self.log.putf(Tag::Notice, format_args!("lacquer: tenant: {}", tenant.name()));
        }
    }

    /// The head that goes out, but for what differs between tries.
    fn make_head(&mut self, req: &Req, mode: FetchMode) {
        let filter = if mode == FetchMode::Pass { HopDirection::Pass } else { HopDirection::Fetch };
        let mut lost = hop::filter_request(&req.ask.head, &mut self.ask.original, filter).is_err();
        let vxid = self.log.vxid();
        let (head, log) = (&mut self.ask.original, &mut self.log);
        BEREQ.log_request(head, log);
        if req.is_special() {
            // Between two caches of the tier, and for nobody else.
            BEREQ.unset(head, log, LACQUER_PEER);
        }
        if self.params.traceparent {
            lost |= !trace::put(head, log, &BEREQ, vxid, None);
        }
        if mode != FetchMode::Pass {
            if head.method() != b"GET" && self.fill.family.is_none() {
                lost |= head.set_method("GET").is_err();
                log.put(Tag::BereqMethod, b"GET");
            }
            if let Some(codings) = self.params.supported_codings().asked_for() {
                lost |= BEREQ.force(head, log, names::ACCEPT_ENCODING, codings.as_bytes()).is_err();
                for name in DICTIONARY_OFFER {
                    BEREQ.unset(head, log, name);
                }
            }
        }
        if head.proto() != b"HTTP/1.1" {
            lost |= head.set_proto("HTTP/1.1").is_err();
            log.put(Tag::BereqProtocol, b"HTTP/1.1");
        }
        match &self.ask.body {
            BereqBody::Lent(_) => {}
            BereqBody::Cached(pieces) => {
                let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
                lost |= BEREQ.force(head, log, names::CONTENT_LENGTH, bytes.to_string().as_bytes()).is_err();
            }
            // A body that is gone, or that a miss doesn't send, mustn't be announced.
            BereqBody::Gone => {
                BEREQ.unset(head, log, names::CONTENT_LENGTH);
                BEREQ.unset(head, log, names::TRANSFER_ENCODING);
            }
            BereqBody::None if mode != FetchMode::Pass || req.client.body.exists() => {
                BEREQ.unset(head, log, names::CONTENT_LENGTH);
                BEREQ.unset(head, log, names::TRANSFER_ENCODING);
            }
            BereqBody::None => {}
        }
        lost |= self.put_conditions();
        self.say_early();
        if lost {
            self.log.count_lost();
        }
        self.ask.head.copy_from(&self.ask.original);
    }

    /// Adds the conditions that validate the stale object, unless parts of it are missing. Returns true if a header was lost.
    /// To other methods a server answers 412 instead of 304 (RFC 9110 13.1.2).
    fn put_conditions(&mut self) -> bool {
        if self.ask_for_missing() {
            return false;
        }
        let (head, log, mut lost) = (&mut self.ask.original, &mut self.log, false);
        if !matches!(head.method(), b"GET" | b"HEAD" | b"QUERY") {
            return false;
        }
        if let Some(stale) = self.fill.stale.as_ref().filter(|stale| may_revalidate(stale))
            && let Ok(stored) = StoredHead::parse(stale.head())
        {
            let modified = stored.get(names::LAST_MODIFIED);
            if let Some(date) = date_condition(self.params.compat(), modified, stored.get(names::DATE)) {
                lost |= BEREQ.append(head, log, names::IF_MODIFIED_SINCE, &[date]).is_err();
            }
            if let Some(tag) = stored.get(names::ETAG) {
                lost |= BEREQ.append(head, log, names::IF_NONE_MATCH, &[tag]).is_err();
            }
        }
        lost
    }
}

/// The Last-Modified by which an object may be validated. Up to 7.1 any will do, from 7.3 on only a strong one: a second version
/// of the same second would be taken for the first.
pub(super) fn date_condition<'a>(compat: Compat, modified: Option<&'a [u8]>, date: Option<&[u8]>) -> Option<&'a [u8]> {
    let is_strong = |found: &&[u8]| date.is_some_and(|date| conditional::is_strong_date(found, date));
    match compat {
        Compat::V7_1 => modified,
        Compat::V9 => modified.filter(is_strong),
    }
}

pub(super) fn has_validator(compat: Compat, head: &Head) -> bool {
    head.has(names::ETAG) || date_condition(compat, head.get(names::LAST_MODIFIED), head.get(names::DATE)).is_some()
}

fn may_revalidate(stale: &ObjRef) -> bool {
    let has_body = || stale.body_len() != Some(0) || SliceSet::of(stale).is_some();
    stale.flags().reuse == Reuse::HitOrRevalidate && has_body()
}

// SPDX-License-Identifier: BSD-2-Clause
//! A request in the accounts of its client (`crate::bots`): its hit is noted, or it is judged before its fetch and may have to wait or to go.

use std::rc::Rc;
use std::time::Duration;

use accounts::{Ask, BotClass, Caller, CallerIds, Ledger, Origin, Overdrawn, Payer, Shape, Verdict};
use base::Mono;
use cache::{Busy, ObjRef};
use message::names;
use tables::no_hit::NoHit;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;
use vrt::VclFailure;
use vrt::value::{Text, Value};

use super::body::Departure;
use super::class::ClassState;
use super::reason::NoHitReason;
use super::settings::ReqSettings;
use super::state::{ReqAsk, ReqClient};
use super::verdict::ReqVerdict;
use super::{Req, ReqStep};
use crate::bots::{FetchCharge, Judged, flush_later, object_of};
use crate::classes::ClassRefusal;
use crate::synthetic::SynthOrder;
use crate::transport::Transport;
use crate::vars;

pub(super) const CRAWL: &str = "crawl";
const USED_UP: &str = "the crawlers' share of the backends' time is used up";

/// The class that `req.bot.class` is set to; `None`: the verdict's.
pub(super) fn set_class(word: Option<Text>) -> Result<Option<BotClass>, VclFailure> {
    match word.as_ref().map_or(&[][..], |word| word.as_bytes()) {
        b"" => Ok(None),
        b"reader" => Ok(Some(BotClass::Reader)),
        b"crawl" => Ok(Some(BotClass::Crawl)),
        b"verified" => Err(VclFailure::new("req.bot.class: set req.bot.verified to the bot's name instead")),
        _ => Err(VclFailure::new("req.bot.class must be reader, crawl or empty")),
    }
}

pub(super) fn network(value: &Value) -> Result<u32, VclFailure> {
    let Value::Int(number) = value else { return Err(vars::wrong(value)) };
    u32::try_from(*number)
        .map_err(|_| VclFailure::new("req.bot.network must be the number of an autonomous system, or 0"))
}

fn host_of(url: &[u8]) -> &[u8] {
    let start = url.windows(3).position(|three| three == b"://").map_or(0, |at| at + 3);
    let rest = url.get(start..).unwrap_or_default();
    rest.split(|b| *b == b'/').next().unwrap_or_default()
}

/// The parts of a request that its account depends on.
pub(super) struct BotView<'a> {
    pub client: &'a ReqClient,
    pub ask: &'a ReqAsk,
    pub settings: &'a ReqSettings,
}

impl BotView<'_> {
    fn caller(&self) -> Rc<Caller> {
        let identity = self.settings.client_identity.as_ref();
        let address = identity.and_then(|text| std::str::from_utf8(text.as_bytes()).ok()?.trim().parse().ok());
        self.client.sess.caller(CallerIds {
            address,
            network: Some(self.settings.bot_network),
            tls: b"",
            agent: self.ask.original.get("User-Agent").unwrap_or_default(),
            verified: self.settings.verified_bot.as_ref().map_or(&[][..], |name| name.as_bytes()),
        })
    }

    fn ask(&self) -> Ask {
        let head = &self.ask.original;
        let is_own = |url| head.get(names::HOST).is_some_and(|host| host_of(url).eq_ignore_ascii_case(host));
        let referer = match head.get("Referer") {
            None => Origin::Unnamed,
            Some(url) if is_own(url) => Origin::Own,
            Some(_) => Origin::Other,
        };
        let shape = Shape {
            referer,
            has_cookie: head.has(names::COOKIE),
            has_language: head.has("Accept-Language"),
            has_metadata: head.has("Sec-Fetch-Site") || head.has("Sec-Fetch-Dest"),
        };
        Ask { object: object_of(&self.ask.digest), shape }
    }

    /// The class that VCL has set, else the verdict on what is known so far.
    pub fn class(&self) -> BotClass {
        if let Some(class) = self.settings.bot_class {
            return class;
        }
        self.verdict().map_or(BotClass::Reader, |verdict| verdict.class)
    }

    /// Seconds of the backends' time that the client was charged with, and that its budget has.
    pub fn account(&self) -> (f64, f64) {
        let known = self.with_books(|ledger, caller, now| (ledger.cost(caller, now), ledger.budget_level(caller, now)));
        known.unwrap_or_default()
    }

    /// The verdict on what is known so far, with the class that VCL has set; `None` without accounts.
    pub fn verdict(&self) -> Option<Verdict> {
        let mut verdict = self.with_books(|ledger, caller, now| ledger.look(caller, self.ask(), now))?;
        verdict.class = self.settings.bot_class.unwrap_or(verdict.class);
        Some(verdict)
    }

    fn with_books<T>(&self, work: impl FnOnce(&mut Ledger, &Caller, Mono) -> T) -> Option<T> {
        let engine = &self.client.sess.engine;
        let bots = &engine.requests.bots;
        if !bots.is_on() {
            return None;
        }
        let (caller, now) = (self.caller(), engine.clock.mono());
        bots.flush_hits(now);
        bots.with(|ledger| work(ledger, &caller, now))
    }
}

/// Ends after `seconds`, or once another request is parked behind `busy`: a reader doesn't wait for a crawler's turn.
async fn wait_alone(seconds: f64, busy: Option<&Busy>) {
    let limit = Duration::from_secs_f64(seconds);
    match busy.and_then(Busy::followed) {
        Some(followed) => drop(rt::timeout(limit, followed).await),
        None => rt::sleep(limit).await,
    }
}

impl Req {
    pub(super) fn bot_view(&self) -> BotView<'_> {
        BotView { client: &self.client, ask: &self.ask, settings: &self.settings }
    }

    #[inline]
    pub(super) fn note_hit(&mut self) {
        if self.engine().requests.bots.is_on() && !self.esi.is_fragment() && !self.is_of_peer() {
            let (view, engine) = (self.bot_view(), self.engine());
            let is_first = engine.requests.bots.note_hit(view.caller(), view.ask(), engine.mono_of(self.ask.t_req));
            if is_first {
                flush_later(engine);
            }
        }
    }

    /// The charge of readers for a fetch that isn't judged, as a refresh.
    pub(crate) fn charge_unjudged(&self) -> Option<Box<FetchCharge>> {
        self.is_charged().then(|| self.charge(self.bot_view().caller(), Payer::Readers))
    }

    /// The charge for a slice, for a fragment of a page, or for a peer. It isn't judged: the client's response pays for its parts.
    pub(crate) fn charge_part(&mut self) -> Option<Box<FetchCharge>> {
        let may_be_crawl = self.is_charged() && self.engine().requests.bots.enforces() && !self.is_of_peer();
        match self.crawler().filter(|_| may_be_crawl) {
            Some(crawler) => Some(self.charge(crawler, Payer::Part)),
            None => self.charge_unjudged(),
        }
    }

    /// The client, if its response was judged as a crawler's or a verified bot's, or VCL says so; for a fragment, that of its page. A hit isn't
    /// judged, and is a reader's.
    pub(super) fn crawler(&self) -> Option<Rc<Caller>> {
        match self.settings.bot_class.unwrap_or(self.client.bot_class) {
            BotClass::Crawl | BotClass::Verified => Some(self.bot_view().caller()),
            BotClass::Reader if self.settings.bot_class.is_some() => None,
            BotClass::Reader => self.esi.top()?.crawler.clone(),
        }
    }

    fn is_charged(&self) -> bool {
        self.engine().requests.bots.is_on() && self.client.trial.is_none()
    }

    fn charge(&self, caller: Rc<Caller>, payer: Payer) -> Box<FetchCharge> {
        Box::new(FetchCharge::new(&self.client.sess, caller, payer))
    }

    /// Before a fetch: judges the client. A crawler waits for its share of the backends' time. `Err` is the step to go to instead.
    pub(super) async fn take_permission(
        &mut self,
        busy: Option<&Busy>,
        transport: &mut dyn Transport,
    ) -> Result<Option<Box<FetchCharge>>, ReqStep> {
        if !self.engine().requests.bots.is_on() {
            return Ok(None);
        }
        if self.esi.is_fragment() || self.is_of_peer() {
            return Ok(self.charge_part());
        }
        let view = self.bot_view();
        let (client, ask) = (view.caller(), view.ask());
        let engine = self.engine();
        let (bots, now) = (&engine.requests.bots, engine.clock.mono());
        bots.flush_hits(now);
        let judged = bots.judge(client, ask, now, self.settings.bot_class);
        let Some(Judged { caller, verdict, entry }) = judged else { return Ok(None) };
        if engine.requests.bots.enforces() {
            self.client.bot_class = verdict.class;
        }
        if verdict.class != BotClass::Reader {
            self.log_crawl(&verdict);
        }
        match entry {
            Err(overdrawn) => Err(self.refuse_crawl(&verdict, overdrawn)),
            Ok(payer) => {
                let charge = Box::new(FetchCharge::new(&self.client.sess, caller, payer));
                match payer {
                    // Boxed: it is rare.
                    Payer::Budget(admission) if admission.wait > 0.0 => {
                        Box::pin(self.wait_for_share(charge, admission.wait, busy, transport)).await.map(Some)
                    }
                    Payer::Budget(_) | Payer::Part | Payer::Readers | Payer::Nobody => Ok(Some(charge)),
                }
            }
        }
    }

    /// VCL ended a request that needed the origin. A crawler's counts as refused, so that the crawl is still known of.
    pub(super) fn note_vcl_refusal(&mut self) {
        let is_judged = self.engine().requests.bots.is_on() && !self.esi.is_fragment() && !self.is_of_peer();
        if !is_judged || self.client.trial.is_some() {
            return;
        }
        let view = self.bot_view();
        let set = view.settings.bot_class;
        let refused = view.with_books(|ledger, caller, now| {
            let mut verdict = ledger.judge(caller, view.ask(), now);
            verdict.class = set.unwrap_or(verdict.class);
            (verdict.class == BotClass::Crawl).then(|| {
                ledger.refused(caller, view.ask(), now);
                verdict
            })
        });
        if let Some(verdict) = refused.flatten() {
            self.log_crawl(&verdict);
            self.engine().main.bot_crawl_refused.inc();
        }
    }

    fn log_crawl(&mut self, verdict: &Verdict) {
        if verdict.class == BotClass::Crawl {
            self.engine().main.bot_crawl.inc();
        }
        self.log.putf(Tag::Notice, format_args!("lacquer: bots: {verdict}"));
    }

    async fn wait_for_share(
        &mut self,
        charge: Box<FetchCharge>,
        wait: f64,
        busy: Option<&Busy>,
        transport: &mut dyn Transport,
    ) -> Result<Box<FetchCharge>, ReqStep> {
        self.engine().main.bot_crawl_waited.inc();
        self.log.flush();
        let begun = self.engine().clock.mono();
        let ended = self.drive_until(Departure::Closed, transport, wait_alone(wait, busy)).await;
        self.mark("Bots");
        if ended.is_none() {
            self.verdict = ReqVerdict::no_hit(NoHitReason::new(NoHit::Refused, "the client is gone"));
            return Err(self.end_reset());
        }
        self.client.waited.class += self.engine().clock.mono().since(begun) as f32;
        Ok(charge)
    }

    fn refuse_crawl(&mut self, verdict: &Verdict, Overdrawn { retry_after }: Overdrawn) -> ReqStep {
        self.engine().main.bot_crawl_refused.inc();
        self.client.class_state = ClassState::Full;
        self.verdict = ReqVerdict::no_hit(NoHitReason::new(NoHit::Refused, format!("bots: {verdict}")));
        self.log.putf(Tag::Error, format_args!("bots: {USED_UP}"));
        let refusal =
            ClassRefusal { class: CRAWL.into(), is_late: false, retry_after: retry_after.ceil() as u32, token: None };
        let order = SynthOrder::because(self.params.bots_status as u16, ProxyError::HttpRequestDenied, USED_UP);
        ReqStep::Synth(SynthOrder { refusal: Some(Box::new(refusal)), ..order })
    }

    /// True if the client crawls, or looks like crawlers, and gets this expired object instead of a fetch.
    pub(super) fn is_stale_good_enough(&mut self, stale: &ObjRef) -> bool {
        let bots = &self.engine().requests.bots;
        let is_possible = bots.enforces() && !self.settings.rfc9111 && !self.esi.is_fragment();
        if !is_possible || stale.flags().is_passed() || self.is_to_be_read(stale) || self.is_of_peer() {
            return false;
        }
        let engine = self.engine();
        let stale_for = engine.clock.mono().since(stale.times().fresh_until(None));
        let takes_it = match self.settings.bot_class {
            Some(class) => class == BotClass::Crawl,
            None => self.bot_view().verdict().is_some_and(|verdict| verdict.takes_stale(stale_for)),
        };
        if takes_it {
            engine.main.bot_crawl_stale.inc();
            self.verdict.take_stale();
        }
        takes_it
    }
}

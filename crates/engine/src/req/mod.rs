// SPDX-License-Identifier: BSD-2-Clause
//! A client's request, from its head to its response: one loop, a step a file.
//!
//! ```text
//! recv -> lookup -> hit  ---------> deliver -> transmit
//!                -> miss -> fetch -> deliver -> transmit
//!      -> pass -> fetch -> deliver -> transmit
//!      -> purge -> synth -> transmit
//!      -> synth -> transmit
//!      -> pipe
//! restart (after most steps) -> recv
//! ```

mod body;
mod body_key;
mod bots;
mod challenge;
mod class;
mod ctx;
mod declared;
mod deliver;
mod delivery;
mod dictionary;
pub(crate) mod digest;
mod disk;
mod downstream;
mod early_hints;
mod esi;
pub mod explain;
mod fetch;
mod filter_list;
mod form;
mod hit;
pub(crate) mod lookup;
mod misdirected;
mod miss;
pub(crate) mod nobody;
mod outlet;
mod parts;
mod pass;
mod peer;
mod pipe;
mod plan;
mod purge;
mod range;
mod reason;
mod recv;
pub(crate) mod rfc9111;
mod search;
mod settings;
mod slices;
mod slot;
mod state;
mod synth;
mod tenant;
mod timing;
mod transmit;
mod upload;
pub(crate) mod verdict;

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use ::backend::Director;
use ::cache::{Busy, ObjRef};
use base::{Real, Vxid};
use params::{FeatureBit, Params};
use shm::vsl::{Marker, TxnLog, num};
use tables::close::SessClose;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;
use tables::vclsubs::{Action, SubAction, VclStatus};

use crate::bereq::StartedFetch;
use crate::current::StepName;
use crate::engine::Engine;
use crate::httplog::{REQ, RESP};
use crate::pool;
use crate::sess::Sess;
use crate::transport::{Transport, TransportAcct};
use crate::vcl_run::{self, VclRun};

use self::ctx::{Lent, ReqVcl};
use self::delivery::{Answer, Delivery};
use self::esi::EsiContext;
use self::hit::HitRight;
use self::settings::ReqSettings;
use self::state::Response;
pub use self::state::{ReqAsk, ReqClient};
pub use self::upload::Upload;
use self::verdict::ReqVerdict;
use crate::proxy_status::ProxyCause;
use crate::synthetic::SynthOrder;

/// The steps of a request. A step hands the next one what it needs.
pub(crate) enum ReqStep {
    Recv,
    Lookup,
    /// Deliver an object that was found.
    Hit {
        delivery: Delivery,
        right: HitRight,
    },
    /// Fetch into the cache, with the right to do so and the object that may be revalidated.
    Miss {
        busy: Box<Busy>,
        stale: Option<ObjRef>,
    },
    Pass,
    Pipe,
    Purge,
    Fetch(StartedFetch),
    Deliver(Delivery),
    Synth(SynthOrder),
    VclFail,
    Restart,
    Transmit(Answer),
    Done,
}

/// A request of a client (or of an ESI include).
pub struct Req {
    pub log: TxnLog,
    pub client: ReqClient,
    pub ask: ReqAsk,
    pub(crate) resp: Response,
    pub(crate) params: Arc<Params>,
    pub(crate) vcl: VclRun,
    pub(crate) settings: ReqSettings,
    pub(crate) verdict: ReqVerdict,
    /// The page that it is, or is a fragment of.
    pub(crate) esi: EsiContext,
    _open: crate::current::OpenTransaction,
}

impl Req {
    /// Bytes of one, heads and buffers aside.
    pub const BYTES: usize = size_of::<Self>();
}

impl Req {
    /// A request whose head came whole at `t_req`.
    pub fn with_new_id(sess: &Rc<Sess>, params: Arc<Params>, t_req: Real) -> Self {
        Self::new(sess, sess.engine.vxids.take(), params, t_req)
    }

    /// Writes its first records: Begin and two timestamps. `t_first` is the time of its first byte.
    pub fn begin(&mut self, t_first: Real) {
        self.begin_records(t_first);
        self.log.timestamp("Req", self.ask.t_req);
    }

    /// Does what [`Req::begin`] does, for a stream of a connection: the protocol is known before the head.
    pub fn begin_stream(&mut self, t_first: Real, protocol: &str) {
        self.begin_records(t_first);
        self.log.put(Tag::ReqProtocol, protocol.as_bytes());
        self.log.timestamp("Req", self.ask.t_req);
    }

    fn begin_records(&mut self, t_first: Real) {
        let parent = self.client.sess.vxid;
        self.log.record(Tag::Begin).text("req ").num(parent.log_id()).text(" rxreq");
        let id = num::dec(self.log.vxid().log_id());
        self.log.announce(Tag::Link, parent, &[b"req ", id.as_bytes(), b" rxreq"]);
        self.log.timestamp("Start", t_first);
    }

    fn new(sess: &Rc<Sess>, vxid: Vxid, params: Arc<Params>, t_req: Real) -> Self {
        let limits = pool::client_limits(&params);
        let log = TxnLog::new(sess.engine.log.clone(), vxid, Marker::Client);
        let [head, original, resp] = pool::heads(limits);
        Req {
            log,
            client: ReqClient::new(sess),
            ask: ReqAsk::new(head, original, t_req),
            resp: Response::new(resp),
            params,
            vcl: VclRun::default(),
            settings: ReqSettings::default(),
            verdict: ReqVerdict::undecided(),
            esi: EsiContext::Client,
            _open: crate::current::open(crate::current::TransactionKind::Request),
        }
    }

    pub fn engine(&self) -> &Arc<Engine> {
        &self.client.sess.engine
    }

    pub fn params(&self) -> &Arc<Params> {
        &self.params
    }

    /// Runs the request to its end; the response is queued at `transport` and mostly written.
    /// [`Req::finish`] is still to be called.
    pub async fn run(&mut self, transport: &mut dyn Transport) {
        if !self.esi.is_fragment() {
            if self.engine().requests.admission.refuses_all() {
                return self.refuse(transport);
            }
            if self.start_vcl(transport).is_err() {
                return;
            }
        }
        // Boxed: it is rare.
        let is_refused = self.has_doubtful_body(transport) && Box::pin(self.refuse_body_of_head(transport)).await;
        let mut step = match is_refused {
            false if self.accept(transport).is_ok() => ReqStep::Recv,
            _ => ReqStep::Done,
        };
        crate::current::work_for(self.client.sess.ends.client(), self.log.vxid(), self.ask.head.url());
        loop {
            crate::current::enter(self.log.vxid(), step.name());
            step = match step {
                ReqStep::Recv => self.recv(transport).await,
                ReqStep::Lookup => self.lookup(transport).await,
                ReqStep::Hit { delivery, right } => self.hit(delivery, right, transport).await,
                ReqStep::Miss { .. } | ReqStep::Pass | ReqStep::Pipe if self.mustnt_fetch(&step) => {
                    // Boxed, as what else is rare.
                    Box::pin(self.refuse_peer("it isn't stored", transport)).await
                }
                ReqStep::Miss { busy, stale } => self.miss(busy, stale, transport).await,
                ReqStep::Pass => self.pass(transport).await,
                // Boxed: it is many times larger than any other step, and rare.
                ReqStep::Pipe => Box::pin(self.pipe(transport)).await,
                ReqStep::Purge => self.purge(transport).await,
                ReqStep::Fetch(started) => self.fetch(started, transport).await,
                ReqStep::Deliver(delivery) => self.deliver(delivery, transport).await,
                ReqStep::Synth(order) => self.synth(order, transport).await,
                ReqStep::VclFail => self.vcl_fail(),
                ReqStep::Restart => self.restart(),
                ReqStep::Transmit(answer) => self.transmit(answer, transport).await,
                ReqStep::Done => break,
            };
        }
        self.resp.noted.end(self.engine().cache.stores());
    }

    /// A client's request runs what is active now; a fragment got its VCL from its parent.
    fn start_vcl(&mut self, transport: &mut dyn Transport) -> Result<(), ()> {
        self.engine().main.client_req.tally();
        let Some(vcl) = self.engine().vcls.active() else {
            self.minimal(transport, 503, ProxyError::ProxyConfigurationError);
            self.client.close = Some(SessClose::Overload);
            return Err(());
        };
        self.log.put(Tag::VclUse, vcl.name.as_bytes());
        self.vcl = VclRun::of(vcl);
        Ok(())
    }

    pub fn finish(&mut self, transport: &dyn Transport) {
        self.finish_with(transport.acct());
    }

    /// Gives unneeded memory to others, because the client takes nothing for now.
    pub fn rest(&mut self) {
        self.log.rest();
        if self.resp.is_told {
            self.leave_heads();
        }
    }

    fn leave_heads(&mut self) {
        pool::leave_heads([&mut self.ask.head, &mut self.ask.original, &mut self.resp.head]);
        self.vcl.leave_machine();
    }

    /// Does what [`Req::finish`] does, with the counts of `acct`.
    pub fn finish_with(&mut self, mut acct: TransportAcct) {
        self.client.body.give_up();
        self.tell_verdict();
        let main = self.engine().main;
        if self.client.is_piped {
            // A pipe has byte counters of its own, also where its bytes looked like bodies.
            acct = TransportAcct { req_head: acct.req_head, ..TransportAcct::default() };
        }
        if let Some(fragment) = self.esi.as_fragment() {
            // Those of a fragment are its page's too.
            acct.resp_body = fragment.body_bytes;
        } else {
            for (counter, bytes) in [
                (&main.s_req_hdrbytes, acct.req_head),
                (&main.s_req_bodybytes, acct.req_body),
                (&main.s_resp_hdrbytes, acct.resp_head),
                (&main.s_resp_bodybytes, acct.resp_body),
            ] {
                if bytes > 0 {
                    counter.tally_add(bytes);
                }
            }
        }
        let (req, resp) = (acct.req_head + acct.req_body, acct.resp_head + acct.resp_body);
        if !self.client.is_piped {
            self.log
                .record(Tag::ReqAcct)
                .num(acct.req_head)
                .sp_num(acct.req_body)
                .sp_num(req)
                .sp_num(acct.resp_head)
                .sp_num(acct.resp_body)
                .sp_num(resp);
        }
        self.vcl.task.clear();
        self.log.put(Tag::End, b"");
        self.log.flush();
        self.leave_heads();
    }

    /// True if the request follows RFC 9111 or there is a second tier, so that more has to be checked than for most.
    pub(crate) fn is_special(&self) -> bool {
        self.settings.rfc9111 || self.engine().cluster.peers().is_some()
    }

    pub(crate) fn director(&self) -> Option<Arc<dyn Director>> {
        self.settings.director(self.vcl.loaded())
    }

    pub fn minimal(&mut self, transport: &mut dyn Transport, status: u16, error: ProxyError) {
        self.minimal_because(transport, status, &ProxyCause::new(error, ""));
    }

    /// Does what [`Req::minimal`] does, with all that is known of the cause.
    pub(crate) fn minimal_because(&mut self, transport: &mut dyn Transport, status: u16, cause: &ProxyCause) {
        let proxy_status = cause.value(&self.params);
        transport.send_minimal(status, proxy_status.as_deref(), &mut self.log);
    }

    pub(crate) fn run_vcl<A: SubAction>(&mut self, transport: &mut dyn Transport) -> impl Future<Output = A> {
        self.run_vcl_with(Lent::Nothing, transport)
    }

    /// Does what [`Req::run_vcl`] does, with the objects that the step lends.
    pub(crate) async fn run_vcl_with<A: SubAction>(&mut self, lent: Lent<'_>, transport: &mut dyn Transport) -> A {
        let action = match self.check_reset(transport) {
            true => Action::Fail,
            false => vcl_run::run(&mut ReqVcl { req: self, transport, lent }, A::METHOD).await,
        };
        // A hit ends four subroutines without a reason: nothing is worked out for it.
        if action.word().no_hit().is_some() {
            self.verdict.decide(A::METHOD, &action, self.vcl.ended_at());
        }
        A::of(action)
    }

    fn check_reset(&mut self, transport: &mut dyn Transport) -> bool {
        if !self.client.is_reset && self.params.feature.has(FeatureBit::VclReqReset) {
            self.client.is_reset = transport.poll_reset(&mut Context::from_waker(Waker::noop())).is_ready();
            if self.client.is_reset {
                self.mark("Reset");
                self.engine().main.req_reset.inc();
            }
        }
        self.client.is_reset
    }

    /// The step to the response that VCL asks for.
    pub(crate) fn synth_by_vcl(&self, status: VclStatus) -> ReqStep {
        ReqStep::Synth(SynthOrder::by_vcl(status, false))
    }

    fn vcl_fail(&mut self) -> ReqStep {
        self.rollback();
        self.client.close = Some(SessClose::VclFailure);
        ReqStep::Synth(match self.client.is_reset {
            true => SynthOrder::in_words(408, "Client disconnected", ProxyError::HttpRequestError),
            false => SynthOrder::in_words(503, "VCL failed", ProxyError::ProxyConfigurationError),
        })
    }

    fn restart(&mut self) -> ReqStep {
        self.ask.restarts += 1;
        if self.ask.restarts > self.params.max_restarts {
            self.log.put(Tag::VclError, b"Too many restarts");
            return ReqStep::Synth(SynthOrder::because(503, ProxyError::ProxyConfigurationError, "max_restarts"));
        }
        let now = self.engine().clock.real();
        self.log.timestamp("Restart", now);
        let next = self.engine().vxids.take();
        self.tell_verdict();
        self.verdict = ReqVerdict::undecided();
        self.log.putf(Tag::Link, format_args!("req {next} restart"));
        self.log.put(Tag::End, b"");
        self.log.flush();
        let (start, last) = (self.log.start(), self.log.last());
        let before = self.log.vxid();
        self.log.reset(next, Marker::Client);
        self.log.putf(Tag::Begin, format_args!("req {before} restart"));
        crate::current::work_for(self.client.sess.ends.client(), next, self.ask.head.url());
        self.log.resume(start, last);
        self.log.timestamp("Start", last);
        self.resp.filters.reset();
        self.ask.family = None;
        ReqStep::Recv
    }

    /// The head as it came, and nothing kept by modules (`std.rollback`, a failed VCL).
    pub(crate) fn rollback(&mut self) {
        self.ask.head.copy_from(&self.ask.original);
        self.vcl.task.clear();
        self.resp.filters.reset();
    }

    /// Logs and marks a point in time.
    pub(crate) fn mark(&mut self, label: &str) {
        let now = self.engine().clock.real();
        self.log.timestamp(label, now);
    }

    /// Sets a field of the response, logged. Lost fields are logged and counted; the response goes on without.
    pub(crate) fn set_resp(&mut self, name: &str, value: &[&[u8]]) {
        if RESP.append(&mut self.resp.head, &mut self.log, name, value).is_err() {
            self.log.count_lost();
        }
    }

    pub(crate) fn set_req(&mut self, name: &str, value: &[&[u8]]) {
        if REQ.append(&mut self.ask.head, &mut self.log, name, value).is_err() {
            self.log.count_lost();
        }
    }
}

impl Drop for Req {
    fn drop(&mut self) {
        // A fetch that lends the body must not wait for a client that has gone.
        self.client.body.give_up();
    }
}

impl ReqStep {
    fn name(&self) -> StepName {
        match self {
            ReqStep::Recv => const { StepName::new("recv") },
            ReqStep::Lookup => const { StepName::new("lookup") },
            ReqStep::Hit { .. } => const { StepName::new("hit") },
            ReqStep::Miss { .. } => const { StepName::new("miss") },
            ReqStep::Pass => const { StepName::new("pass") },
            ReqStep::Pipe => const { StepName::new("pipe") },
            ReqStep::Purge => const { StepName::new("purge") },
            ReqStep::Fetch(_) => const { StepName::new("fetch") },
            ReqStep::Deliver(_) => const { StepName::new("deliver") },
            ReqStep::Synth(_) => const { StepName::new("synth") },
            ReqStep::VclFail => const { StepName::new("vclfail") },
            ReqStep::Restart => const { StepName::new("restart") },
            ReqStep::Transmit(_) => const { StepName::new("transmit") },
            ReqStep::Done => const { StepName::new("done") },
        }
    }
}

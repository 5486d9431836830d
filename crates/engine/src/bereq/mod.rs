// SPDX-License-Identifier: BSD-2-Clause
//! A backend request: a task of its own on the client's thread, never dropped, that ends itself.
//!
//! ```text
//! start -> (vcl_backend_fetch) -> backend -> (vcl_backend_response) -> body        -> done | fail
//!                                                                    -> conditional -> done | fail
//! error -> (vcl_backend_error) -> done | fail      when the backend, the body or VCL says so
//! retry -> start                                   after vcl_backend_response or vcl_backend_error
//! conditional: a 304 came, so the stale object's body is taken over
//! ```

mod body;
pub(crate) mod body_filters;
mod ctx;
mod dictionary;
pub(crate) mod digests;
mod error;
mod fetch;
mod incremental;
mod kind;
mod obj;
mod peer;
pub mod pipe;
mod reach;
mod relay;
mod rfc9111;
mod start;
mod state;
mod stream_pipe;
mod task;
mod upload;
mod wire;

use std::rc::Rc;
use std::sync::Arc;

use ::backend::{BackendConn, BackendFault, BodyStatus};
use ::cache::{Busy, FetchFailed, ObjRef};
use message::{Head, LostHeader};
use params::Params;
use shm::vsl::{Marker, TxnLog};
use storage::Buf;
use tables::close::SessClose;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;
use tables::vclsubs::{Method, SubAction, VclStatus};
use vrt::{Machine, RunOutcome};

use crate::current::StepName;
use crate::engine::Engine;
use crate::httplog::BEREQ;
use crate::pool;
use crate::proxy_status::ProxyCause;
use crate::reqbody::ReqBody;
use crate::synthetic::SynthOrder;
use crate::vars;
use crate::vcl_run::{self, VclRun, VclSide};
use kind::FetchKind;
pub(crate) use kind::SliceOf;
pub use start::FetchMode;
pub(crate) use start::{FetchTurn, StartedFetch, start, start_slice};
use state::{Ask, FetchError, Fill, KindTerms, Requester};
pub(crate) use task::trim;
use upload::FetchUpload;

#[derive(Debug)]
pub(crate) enum FetchStep {
    Start,
    Retry,
    Body,
    /// The body of this stale object is taken over.
    Conditional(ObjRef),
    Error,
    /// Failed; the text is for those who wait for the object.
    Fail(&'static str),
    Done,
}

const HELD: &str = "a fetch holds its objcore until it ends";

/// An exchange with a backend, as far as it has come.
pub(crate) struct OriginExchange {
    pub conn: BackendConn,
    pub body: BodyStatus,
    /// The reason why the connection can't be used again.
    pub close: Option<SessClose>,
    /// The rest of the request that is sent while its response comes.
    pub upload: Option<FetchUpload>,
}

impl OriginExchange {
    fn new(conn: BackendConn) -> Self {
        OriginExchange { conn, body: BodyStatus::None, close: None, upload: None }
    }

    /// The exchange in progress. It stays with its fetch meanwhile, so that a panic doesn't lose the record of its end.
    fn of(link: &mut Option<Self>) -> &mut Self {
        link.as_mut().expect("an exchange has a connection")
    }
}

#[derive(Clone)]
pub(crate) enum BereqBody {
    None,
    /// The client still sends it.
    Lent(ReqBody),
    /// Kept by `std.cache_req_body`.
    Cached(Rc<Vec<Buf>>),
    /// The body was sent once and can't be had again.
    Gone,
}

/// A fetch: a backend request with all its tries.
pub struct Bereq {
    pub(crate) engine: Arc<Engine>,
    pub(crate) params: Arc<Params>,
    pub(crate) vcl: VclRun,
    pub(crate) log: TxnLog,
    pub(crate) beresp: Head,
    pub(crate) requester: Requester,
    pub(crate) ask: Ask,
    pub(crate) fill: Fill,
    pub(crate) failure: FetchError,
    pub(crate) kind: FetchKind,
    pub(crate) terms: KindTerms,
}

impl Bereq {
    /// Bytes of one, heads and buffers aside.
    pub const BYTES: usize = size_of::<Self>();

    pub(crate) async fn run(&mut self) {
        let mut step = FetchStep::Start;
        crate::current::work_for(self.requester.sess.ends.client(), self.log.vxid(), self.ask.head.url());
        loop {
            crate::current::enter(self.log.vxid(), step.name());
            step = match step {
                FetchStep::Start => self.start_fetch().await,
                FetchStep::Retry => self.retry(),
                FetchStep::Body => self.fetch_body().await,
                FetchStep::Conditional(stale) => self.refresh(stale).await,
                FetchStep::Error => self.make_error().await,
                FetchStep::Fail(reason) => self.fail(reason),
                FetchStep::Done => break,
            };
        }
    }

    /// Ends the transaction's log; also after a panic.
    pub(crate) fn finish(&mut self) {
        self.fail("fetch given up");
        self.end_link(Some(SessClose::RxJunk));
        self.vcl.task.clear();
        self.leave_class();
        let acct = self.ask.acct;
        if let Some(charge) = self.requester.turn.charge.take() {
            charge.end(acct.beresp_body, self.ask.tries.has_failed());
        }
        self.log
            .record(Tag::BereqAcct)
            .num(acct.bereq_head)
            .sp_num(acct.bereq_body)
            .sp_num(acct.bereq_head + acct.bereq_body)
            .sp_num(acct.beresp_head)
            .sp_num(acct.beresp_body)
            .sp_num(acct.beresp_head + acct.beresp_body);
        self.log.put(Tag::End, b"");
        self.log.flush();
        pool::leave_heads([&mut self.ask.head, &mut self.ask.original, &mut self.beresp]);
        self.vcl.leave_machine();
        if self.requester.mode == FetchMode::Background {
            self.engine.main.n_bgfetch.dec();
        }
    }

    /// Frees the worker for the next request of the class.
    fn leave_class(&mut self) {
        let Some(place) = self.requester.turn.worker.take() else { return };
        if let Some((class, waited, service)) = place.account() {
            self.log.putf(Tag::Notice, format_args!("lacquer: class: {class} {waited:.6} {service:.6}"));
        }
    }

    pub(crate) async fn run_vcl<A: SubAction>(&mut self) -> A {
        A::of(vcl_run::run(self, A::METHOD).await)
    }

    pub(crate) fn mark(&mut self, label: &str) {
        let now = self.engine.clock.real();
        self.log.timestamp(label, now);
    }

    /// The objcore being filled. Only the end of the fetch takes it.
    pub(crate) fn busy(&mut self) -> &mut Busy {
        self.fill.busy.as_mut().expect(HELD)
    }

    fn take_busy(&mut self) -> Busy {
        *self.fill.busy.take().expect(HELD)
    }

    /// Notes why an error is made instead of a response. The last cause counts.
    pub(crate) fn blame(&mut self, error: ProxyError, details: &'static str) {
        self.failure.cause =
            Some(Box::new(ProxyCause::new(error, details).at(self.ask.backend.as_deref(), &self.params)));
    }

    /// Notes why no other attempt follows, unless the cause of the error is known already.
    fn blame_too(&mut self, error: ProxyError, details: &'static str) {
        if self.failure.cause.is_none() {
            self.blame(error, details);
        }
    }

    pub(crate) fn blame_backend(&mut self, fault: BackendFault<'_>) {
        let cause = ProxyCause::of_fault(fault, &self.params);
        self.failure.cause = Some(Box::new(cause.at(self.ask.backend.as_deref(), &self.params)));
    }

    /// The step after VCL has asked for an error.
    fn error_by_vcl(&mut self, status: VclStatus) -> FetchStep {
        self.failure.made.ask(SynthOrder::by_vcl(status, self.ask.tries.has_status()));
        self.failure.is_asked_for = true;
        FetchStep::Error
    }

    /// The step after VCL has failed; `reason` is for those who wait for the object.
    fn fail_by_vcl(&mut self, reason: &'static str) -> FetchStep {
        self.blame(ProxyError::ProxyConfigurationError, "VCL failed");
        FetchStep::Fail(reason)
    }

    /// The step after VCL wanted no object.
    fn abandon(&mut self, reason: &'static str) -> FetchStep {
        self.blame_too(ProxyError::ProxyInternalResponse, "VCL has given the fetch up");
        FetchStep::Fail(reason)
    }

    pub(crate) fn fetch_error(&mut self, text: &str) {
        self.log.put(Tag::FetchError, text.as_bytes());
    }

    /// Counts a field that found no room.
    pub(crate) fn count_lost(&mut self, change: impl FnOnce(&mut Self) -> Result<(), LostHeader>) {
        if change(self).is_err() {
            self.log.count_lost();
        }
    }

    fn retry(&mut self) -> FetchStep {
        if self.ask.has_used_body() {
            let reason = "req.body not cached";
            self.log.putf(Tag::Error, format_args!("Retry not possible, {reason}"));
            self.blame_too(ProxyError::ProxyConfigurationError, reason);
            return FetchStep::Fail("retry not possible");
        }
        self.mark("Retry");
        if !base::failpoint::fault("a retry that keeps the old filters") {
            self.fill.settings.reset();
        }
        self.ask.tries.status = 0;
        self.failure = FetchError::default();
        self.fill.object.reset();
        self.begin_try();
        let next = self.engine.vxids.take();
        self.log.putf(Tag::Link, format_args!("bereq {next} retry"));
        self.log.put(Tag::End, b"");
        let (old, start, last) = (self.log.vxid(), self.log.start(), self.log.last());
        self.log.reset(next, Marker::Backend);
        self.log.putf(Tag::Begin, format_args!("bereq {old} retry"));
        self.log.resume(start, last);
        self.log.timestamp("Start", last);
        BEREQ.log_request(&self.ask.head, &mut self.log);
        FetchStep::Start
    }

    fn fail(&mut self, reason: &'static str) -> FetchStep {
        if let Some(busy) = self.fill.busy.take() {
            self.count_failed(reason);
            busy.fail(FetchFailed { reason, error: self.failure.cause.as_ref().and_then(|cause| cause.error) });
        }
        FetchStep::Done
    }

    /// Another try after `return (retry)`, while there may be one.
    pub(crate) fn may_retry(&mut self) -> bool {
        self.ask.tries.retry(self.params.max_retries)
    }

    /// The rest of the response isn't wanted: its connection ends, unless that was all of it.
    fn end_unread(&mut self) {
        let has_body = self.has_body();
        self.end_link(has_body.then_some(SessClose::RespClose));
    }

    /// The backend's connection goes back to the pool, or ends: for the reason it has, else for `otherwise`.
    pub(crate) fn end_link(&mut self, otherwise: Option<SessClose>) {
        let Some(OriginExchange { conn, close, .. }) = self.ask.link.take() else { return };
        let acct = conn.acct();
        let vbe = conn.backend().vbe();
        for (counter, bytes) in [
            (&vbe.bereq_hdrbytes, acct.bereq_head),
            (&vbe.bereq_bodybytes, acct.bereq_body),
            (&vbe.beresp_hdrbytes, acct.beresp_head),
            (&vbe.beresp_bodybytes, acct.beresp_body),
        ] {
            if bytes > 0 {
                counter.add(bytes);
            }
        }
        self.ask.acct += acct;
        conn.finish(close.or(otherwise), |parts| self.log.put_parts(Tag::BackendClose, parts));
    }
}

impl VclSide for Bereq {
    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn vcl_and_log(&mut self) -> (&mut VclRun, &mut TxnLog) {
        (&mut self.vcl, &mut self.log)
    }

    fn is_traced(&self) -> bool {
        vars::is_traced(self.requester.trace, &self.params, &self.log)
    }

    fn advance(&mut self, machine: &mut Machine, _: Method) -> RunOutcome {
        machine.run(self)
    }

    async fn wait<F: Future>(&mut self, future: F) -> F::Output {
        self.log.flush();
        future.await
    }

    fn is_trial(&self) -> bool {
        false
    }
}

impl FetchStep {
    fn name(&self) -> StepName {
        match self {
            FetchStep::Start => const { StepName::new("fetch") },
            FetchStep::Retry => const { StepName::new("retry") },
            FetchStep::Body => const { StepName::new("fetchbody") },
            FetchStep::Conditional(_) => const { StepName::new("condfetch") },
            FetchStep::Error => const { StepName::new("error") },
            FetchStep::Fail(_) => const { StepName::new("fail") },
            FetchStep::Done => const { StepName::new("done") },
        }
    }
}

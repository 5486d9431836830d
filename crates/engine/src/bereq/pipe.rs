// SPDX-License-Identifier: BSD-2-Clause
//! The backend's half of a pipe: two connections joined until both are done or silent for `pipe_timeout`.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use backend::{Backend, BackendConn, BackendLimits, ConnectOpts, Director};
use base::Vxid;
use cache::Digest;
use message::hop::{self, HopDirection};
use message::{Head, HttpVersion, names};
use net::{IoError, Stream};
use params::{Params, timeouts};
use shm::vsl::{Marker, TxnLog};
use tables::Compat;
use tables::close::SessClose;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;
use tables::vclvars::Var;
use vrt::value::Blob;
use vrt::{Value, VclFailure};

use super::reach;
use super::relay::relay;
use super::stream_pipe::{self, PipeError};
use super::wire::response_limits;
use crate::choice::DirectorChoice;
use crate::engine::Engine;
use crate::httplog::BEREQ;
use crate::proxy_status::ProxyCause;
use crate::req::Req;
use crate::transport::{Transport, Tunnel};
use crate::vars;

/// varnishd's log text for a pipe without a backend.
const NO_PIPE: &[u8] = b"Backend does not support pipe";

/// Bytes moved at once in one direction.
const COPY_BYTES: usize = 16 * 1024;

pub struct PipeBereq {
    engine: Arc<Engine>,
    pub(crate) head: Head,
    pub(crate) log: TxnLog,
    vxid: Vxid,
    director: Option<Arc<dyn Director>>,
    connect_timeout: Option<f64>,
    task_deadline: Option<f64>,
}

#[derive(Default)]
pub(super) struct PipeAcct {
    bereq: u64,
    pub inwards: u64,
    pub outwards: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PipeEnd {
    /// A side closed its connection, or broke it.
    Over,
    /// `pipe_timeout` or the deadline was reached.
    Late,
}

impl PipeBereq {
    pub(crate) fn begin(req: &mut Req) -> Self {
        let engine = req.engine().clone();
        let vxid = engine.vxids.take();
        let mut log = TxnLog::new(engine.log.clone(), vxid, Marker::Backend);
        log.putf(Tag::Begin, format_args!("bereq {} pipe", req.log.vxid()));
        req.log.putf(Tag::Link, format_args!("bereq {vxid} pipe"));
        log.timestamp("Start", engine.clock.real());
        let limits = crate::pool::client_limits(&req.params);
        let mut head = Head::with_limits(limits);
        let mut lost = hop::filter_request(&req.ask.head, &mut head, HopDirection::Pipe).is_err();
        if head.version() > HttpVersion::HTTP11 {
            lost |= head.set_proto("HTTP/1.1").is_err();
        }
        BEREQ.log_request(&head, &mut log);
        let id = req.log.vxid().to_string();
        lost |= BEREQ.append(&mut head, &mut log, names::X_VARNISH, &[id.as_bytes()]).is_err();
        lost |= BEREQ.force(&mut head, &mut log, names::CONNECTION, b"close").is_err();
        if let Some(bytes) = req.client.body.bytes().filter(|_| req.client.body.is_cached()) {
            // It goes out as it is kept, however it came.
            BEREQ.unset(&mut head, &mut log, names::TRANSFER_ENCODING);
            let bytes = bytes.to_string();
            lost |= BEREQ.force(&mut head, &mut log, names::CONTENT_LENGTH, bytes.as_bytes()).is_err();
        }
        if req.client.body.take_expected() {
            lost |= BEREQ.append(&mut head, &mut log, names::EXPECT, &[b"100-continue"]).is_err();
        }
        if lost {
            log.count_lost();
        }
        let director = req.director();
        PipeBereq { engine, head, log, vxid, director, connect_timeout: None, task_deadline: None }
    }

    pub(crate) fn get(&self, var: Var, params: &Params, digest: &Digest) -> Value {
        match var {
            Var::BereqBackend => Value::Backend(self.director.clone()),
            Var::BereqConnectTimeout => {
                self.connect_timeout.map_or_else(|| Value::limit(params.connect_timeout), Value::Duration)
            }
            Var::BereqTaskDeadline => {
                self.task_deadline.map_or_else(|| Value::limit(params.pipe_task_deadline), Value::Duration)
            }
            Var::BereqHash => Value::Blob(Some(Blob::new(digest.0))),
            Var::BereqTime => Value::Time(self.log.start().0),
            Var::BereqXid => vars::id(self.vxid),
            _ => Value::Absent,
        }
    }

    pub(crate) fn set(&mut self, var: Var, value: Value) -> Result<(), VclFailure> {
        match (var, value) {
            (Var::BereqBackend, Value::Backend(director)) => self.director = director,
            (Var::BereqConnectTimeout, value) => self.connect_timeout = Some(vars::seconds(&value)?),
            (Var::BereqTaskDeadline, value) => self.task_deadline = Some(vars::seconds(&value)?),
            (other, _) => return Err(vars::misplaced(other)),
        }
        Ok(())
    }

    pub(crate) fn unset(&mut self, var: Var) -> Result<(), VclFailure> {
        match var {
            Var::BereqConnectTimeout => self.connect_timeout = None,
            // A pipe has neither: nothing sets them here.
            Var::BereqFirstByteTimeout | Var::BereqBetweenBytesTimeout => {}
            Var::BereqTaskDeadline => self.task_deadline = None,
            other => return Err(vars::misplaced(other)),
        }
        Ok(())
    }

    pub(crate) fn end(&mut self) {
        self.log.put(Tag::BereqAcct, b"0 0 0 0 0 0");
        self.log.put(Tag::End, b"");
        self.log.flush();
    }

    /// Joins the two connections until the end.
    pub(crate) async fn run(&mut self, req: &mut Req, transport: &mut dyn Transport) -> SessClose {
        let mut acct = PipeAcct::default();
        let close = self.connect_and_join(req, transport, &mut acct).await;
        self.end();
        let main = self.engine.main;
        let head = transport.acct().req_head;
        main.s_pipe_hdrbytes.add(head);
        main.s_pipe_in.add(acct.inwards);
        main.s_pipe_out.add(acct.outwards);
        req.log.record(Tag::PipeAcct).num(head).sp_num(acct.bereq).sp_num(acct.inwards).sp_num(acct.outwards);
        req.client.is_piped = true;
        close
    }

    async fn connect_and_join(
        &mut self,
        req: &mut Req,
        transport: &mut dyn Transport,
        acct: &mut PipeAcct,
    ) -> SessClose {
        let own = self.task_deadline.map(|seconds| Duration::from_secs_f64(seconds.min(1e9)));
        let last_moment = deadline(own.unwrap_or(req.params.pipe_task_deadline));
        let choice = DirectorChoice {
            sess: &req.client.sess,
            head: &self.head,
            url: req.ask.head.url(),
            task: &req.vcl.task,
            digest: &req.ask.digest.0,
            identity: req.settings.client_identity.as_ref(),
            identity_text: OnceCell::new(),
            is_bereq: true,
            log: RefCell::new(&mut self.log),
        };
        let Some(backend) = reach::find(self.director.as_ref(), &choice) else {
            self.log.put(Tag::VclError, NO_PIPE);
            stream_pipe::refuse(503, &reach::cause_of_none(self.director.is_some()), req, transport);
            return SessClose::TxError;
        };
        if reach::give_host(&backend, &mut self.head, &mut self.log).is_err() {
            self.log.count_lost();
        }
        let mut conn = match self.connect(&backend, req, transport).await {
            Ok(conn) => conn,
            Err(cause) => {
                stream_pipe::refuse(503, &cause, req, transport);
                return SessClose::TxError;
            }
        };
        backend.answers();
        let end = match conn.tunnel() {
            _ if transport.asks_tunnel() => self.stream(&mut conn, req, transport, last_moment, acct).await,
            Some(stream) if !self.may_switch(req) => self.tunnel(stream, req, transport, last_moment, acct).await,
            Some(_) | None => self.relay(&mut conn, req, transport, last_moment, acct).await,
        };
        req.log.timestamp("PipeSess", self.engine.clock.real());
        let vbe = conn.backend().vbe();
        vbe.pipe_hdrbytes.add(acct.bereq);
        vbe.pipe_out.add(acct.inwards);
        vbe.pipe_in.add(acct.outwards);
        let close = match (end, req.params.compat()) {
            (PipeEnd::Late, Compat::V9) => SessClose::RxTimeout,
            (PipeEnd::Late, Compat::V7_1) | (PipeEnd::Over, _) => SessClose::TxPipe,
        };
        conn.finish(Some(close), |parts| self.log.put_parts(Tag::BackendClose, parts));
        close
    }

    /// A connection that the pipe can have: of HTTP/1 where there is a choice, unless both sides have streams.
    async fn connect(
        &mut self,
        backend: &Backend,
        req: &Req,
        transport: &mut dyn Transport,
    ) -> Result<BackendConn, ProxyCause> {
        let limits = BackendLimits::set(req.params.compat(), [self.connect_timeout, None, None]);
        let wants_stream = transport.asks_tunnel() && stream_pipe::is_websocket(&self.head);
        for http1 in [!wants_stream, true] {
            let ends = vars::proxy_ends(&req.client.sess);
            let opts = ConnectOpts { limits, no_resend: true, http1, ends, ..ConnectOpts::default() };
            let connected = backend.connect(&opts).await;
            let mut conn = reach::connected(connected, &self.engine.clock, &mut self.log)
                .map_err(|error| ProxyCause::of_fault(error.fault(), &req.params).at(Some(backend), &req.params))?;
            conn.opened(|parts| self.log.put_parts(Tag::BackendOpen, parts));
            if http1 || conn.tunnel().is_some() || self.takes_tunnels(backend, &mut conn).await {
                return Ok(conn);
            }
            // It isn't done with: others go on over it.
            conn.finish(None, |parts| self.log.put_parts(Tag::BackendClose, parts));
        }
        Err(ProxyCause::new(ProxyError::HttpUpgradeFailed, "no connection for a pipe").at(Some(backend), &req.params))
    }

    /// True if the backend takes extended CONNECT, known once it has sent its settings.
    async fn takes_tunnels(&mut self, backend: &Backend, conn: &mut BackendConn) -> bool {
        let settled = poll_fn(|cx| conn.poll_settled(cx));
        let first_byte = backend.limits(BackendLimits::default()).first_byte;
        let is_settled = match deadline(first_byte) {
            None => {
                settled.await;
                true
            }
            Some(until) => rt::timeout_at(until, settled).await.is_ok(),
        };
        is_settled && conn.ask_tunnel()
    }

    /// The request goes out, and whatever follows it.
    async fn tunnel(
        &mut self,
        stream: &Stream,
        req: &mut Req,
        transport: &mut dyn Transport,
        last_moment: Option<rt::Instant>,
        acct: &mut PipeAcct,
    ) -> PipeEnd {
        let mut head = Vec::with_capacity(512);
        self.head.write_to(&mut head);
        let mut sent = stream.write_all(&head, deadline(timeouts::pipe(&req.params))).await;
        if req.client.body.is_cached() {
            // VCL had the body read already: it goes ahead of what the client sends now.
            for piece in req.client.body.cached() {
                if sent.is_ok() {
                    sent = stream.write_all(&piece, deadline(timeouts::pipe(&req.params))).await;
                    acct.inwards += piece.len() as u64;
                }
            }
        }
        self.mark_sent(req);
        acct.bereq = head.len() as u64;
        match transport.take_tunnel().filter(|_| sent.is_ok()) {
            Some(tunnel) => join(&tunnel, stream, req, last_moment, acct).await,
            None => PipeEnd::Over,
        }
    }

    /// True if the backend has to switch protocols before more than the request may pass. A backend that refuses goes
    /// on with HTTP and would read the following bytes as requests.
    fn may_switch(&self, req: &Req) -> bool {
        !req.params.http_lenient && (self.head.has(names::UPGRADE) || req.ask.head.has(names::UPGRADE))
    }

    /// Does what [`PipeBereq::tunnel`] does, if the backend has no connection or answers before the connections are
    /// joined.
    async fn relay(
        &mut self,
        conn: &mut BackendConn,
        req: &mut Req,
        transport: &mut dyn Transport,
        last_moment: Option<rt::Instant>,
        acct: &mut PipeAcct,
    ) -> PipeEnd {
        self.mark_sent(req);
        let limits = response_limits(&req.params);
        if conn.tunnel().is_some() && self.head.has(names::UPGRADE) {
            conn.ask_tunnel();
        }
        let relayed = relay(conn, &self.head, &limits, req, transport, acct);
        let switched = match last_moment {
            None => Ok(relayed.await),
            Some(moment) => rt::timeout_at(moment, relayed).await,
        };
        acct.bereq = conn.acct().bereq_head;
        match (switched, conn.tunnel()) {
            (Ok(Some(tunnel)), Some(stream)) => join(&tunnel, stream, req, last_moment, acct).await,
            (Ok(_), _) => PipeEnd::Over,
            (Err(_), _) => PipeEnd::Late,
        }
    }

    /// Does what [`PipeBereq::tunnel`] does, if the client has a stream: its bytes travel as bodies do.
    async fn stream(
        &mut self,
        conn: &mut BackendConn,
        req: &mut Req,
        transport: &mut dyn Transport,
        last_moment: Option<rt::Instant>,
        acct: &mut PipeAcct,
    ) -> PipeEnd {
        self.mark_sent(req);
        let piped = stream_pipe::carry(conn, &mut self.head, &mut self.log, req, transport, acct);
        let ended = match last_moment {
            None => piped.await,
            Some(moment) => rt::timeout_at(moment, piped).await.unwrap_or(Err(PipeError::Late)),
        };
        let end = if matches!(ended, Err(PipeError::Late)) { PipeEnd::Late } else { PipeEnd::Over };
        if let Err(error) = ended {
            error.tell(conn, &mut self.log, req, transport);
        }
        acct.bereq = conn.acct().bereq_head;
        end
    }

    fn mark_sent(&mut self, req: &mut Req) {
        let now = self.engine.clock.real();
        self.log.timestamp("Bereq", now);
        req.log.timestamp("Pipe", now);
    }
}

/// Copies both ways. Either direction's end is passed on; silence in both for `pipe_timeout` ends all, and so does `ends`.
async fn join(tunnel: &Tunnel, backend: &Stream, req: &Req, ends: Option<rt::Instant>, acct: &mut PipeAcct) -> PipeEnd {
    let (inwards, outwards) = (Cell::new(0u64), Cell::new(0u64));
    let timeout = timeouts::pipe(&req.params);
    let last = Cell::new(rt::Instant::now());
    let broken = Cell::new(false);
    let up = async {
        if !tunnel.buffered.is_empty() {
            if backend.write_all(&tunnel.buffered, deadline(timeout)).await.is_err() {
                broken.set(true);
                return;
            }
            inwards.set(tunnel.buffered.len() as u64);
        }
        broken.set(copy(&tunnel.stream, backend, &inwards, &last).await.is_err() || broken.get());
    };
    let down = async {
        broken.set(copy(backend, &tunnel.stream, &outwards, &last).await.is_err() || broken.get());
    };
    let both = rt::join(up, down);
    let mut both = std::pin::pin!(both);
    // A direction that ends leaves the other one alive; one that breaks ends both.
    let mut both = poll_fn(|cx| match both.as_mut().poll(cx) {
        Poll::Pending if !broken.get() => Poll::Pending,
        Poll::Pending | Poll::Ready(_) => Poll::Ready(()),
    });
    let end = loop {
        let silent = (!timeout.is_zero()).then(|| last.get() + timeout);
        let is_over = match [silent, ends].into_iter().flatten().min() {
            None => {
                (&mut both).await;
                true
            }
            Some(until) => {
                let left = until.saturating_duration_since(rt::Instant::now());
                // Zero would mean for ever.
                rt::timeout(left.max(std::time::Duration::from_millis(1)), &mut both).await.is_ok()
            }
        };
        let is_past = |at: Option<rt::Instant>| at.is_some_and(|at| at <= rt::Instant::now());
        if is_over {
            break PipeEnd::Over;
        }
        if is_past(ends) || is_past((!timeout.is_zero()).then(|| last.get() + timeout)) {
            break PipeEnd::Late;
        }
    };
    acct.inwards += inwards.get();
    acct.outwards += outwards.get();
    end
}

/// Copies until `from` ends, then tells `to`. `Err`: a connection broke.
async fn copy(from: &Stream, to: &Stream, count: &Cell<u64>, last: &Cell<rt::Instant>) -> Result<(), IoError> {
    let mut buf = Vec::with_capacity(COPY_BYTES);
    loop {
        buf.clear();
        if from.read_buf(&mut buf, None).await? == 0 {
            if from.was_cut() {
                // The other side mustn't take it for an end.
                to.reset_on_close();
                return Err(IoError::Closed);
            }
            to.shutdown_write();
            poll_fn(|cx| to.poll_ended(cx)).await;
            return Ok(());
        }
        last.set(rt::Instant::now());
        to.write_all(&buf, None).await?;
        last.set(rt::Instant::now());
        count.set(count.get() + buf.len() as u64);
    }
}

/// The moment after that limit; a zero limit is none.
fn deadline(limit: Duration) -> Option<rt::Instant> {
    (!limit.is_zero()).then(|| rt::Instant::now() + limit)
}

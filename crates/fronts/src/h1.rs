// SPDX-License-Identifier: BSD-2-Clause
//! HTTP/1 on the client's side: connections, request heads, the loop over requests (RFC 9112).
//!
//! An idle connection is this task waiting for readability; it holds no buffer.

mod pace;
mod transport;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::Real;
use engine::transport::BodyState;
use engine::{Engine, ListenerInfo, Req, Sess, SessTimeouts, contain};
use http1::{HeadError, Limits, Progress, Scan, parse_request};
use net::{Address, IoError, Stream};
use rt::Instant;
use shm::vsl::Marker;
use tables::close::SessClose;
use tables::params::{FeatureBit, Params};
use tables::tags::Tag;

use transport::H1;

/// GOAWAY with HTTP_1_1_REQUIRED (RFC 9113 6.8, 7): HTTP/2 isn't served yet.
const GOAWAY: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 13];

/// Bytes read at once while a head comes in.
const HEAD_READ_BYTES: usize = 4 * 1024;

/// A connection that was accepted.
pub struct Accepted {
    /// Its stream.
    pub stream: Stream,
    /// The client's address.
    pub peer: Address,
    /// The descriptor's number, for the log.
    pub fd: i32,
}

/// A request's head has come whole.
struct Arrived {
    head_bytes: usize,
    t_first: Real,
    t_req: Real,
}

/// Serves one connection to its end.
pub async fn serve(engine: Arc<Engine>, listener: Arc<ListenerInfo>, accepted: Accepted) {
    let Accepted { stream, peer, fd } = accepted;
    let sess = open(&engine, &listener, &stream, peer, fd);
    let mut h1 = H1::new(stream, sess.clone());
    let served = contain::contained(async {
        match begin(&mut h1).await {
            Ok(()) => requests(&mut h1).await,
            Err(close) => close,
        }
    });
    let close = served.await.unwrap_or_else(|contain::Panicked| {
        engine.main.req_panic.inc();
        SessClose::Overload
    });
    closed(&sess, close);
    let is_sending = h1.expects_more();
    h1.finish(is_sending).await;
}

fn open(engine: &Arc<Engine>, listener: &Arc<ListenerInfo>, stream: &Stream, peer: Address, fd: i32) -> Rc<Sess> {
    let vxid = engine.vxids.take();
    let (local, now) = (stream.local(), engine.clock.real());
    let params = engine.params.load();
    engine.log.write_onef(Tag::Begin, vxid, Marker::Client, format_args!("sess 0 {}", listener.transport));
    engine.log.write_onef(
        Tag::SessOpen,
        vxid,
        Marker::Client,
        format_args!("{} {} {} {:.6} {fd}", peer.log_text(), listener.name, local.log_text(), now.0),
    );
    engine.main.s_sess.inc();
    Rc::new(Sess {
        engine: engine.clone(),
        vxid,
        listener: listener.clone(),
        remote: peer,
        local,
        proxy: RefCell::new(None),
        client: Cell::new(peer),
        server: Cell::new(local),
        t_open: now,
        timeouts: Cell::new(SessTimeouts::of(&params)),
        peer_ids: stream.peer_ids(),
        tos: Cell::new(None),
    })
}

fn closed(sess: &Sess, close: SessClose) {
    let engine = &sess.engine;
    let open = engine.clock.real().since(sess.t_open);
    close.counter(engine.main).inc();
    engine.main.sess_closed.inc();
    if close.is_err() {
        engine.main.sess_closed_err.inc();
    }
    engine.log.write_onef(Tag::SessClose, sess.vxid, Marker::Client, format_args!("{} {open:.3}", close.text()));
    engine.log.write_one(Tag::End, sess.vxid, Marker::Client, b"");
}

async fn begin(h1: &mut H1) -> Result<(), SessClose> {
    if h1.sess.listener.transport != "PROXY" {
        return Ok(());
    }
    let sess = h1.sess.clone();
    let mut input = std::mem::take(&mut h1.input);
    let result = crate::proxy::receive(h1.stream(), &sess, &mut input).await;
    h1.input = input;
    result
}

/// One request after the other; answers why the connection ends.
async fn requests(h1: &mut H1) -> SessClose {
    loop {
        let arrived = match next_head(h1).await {
            Ok(arrived) => arrived,
            Err(close) => return close,
        };
        let sess = h1.sess.clone();
        let mut req = Req::begin(&sess, arrived.t_first, arrived.t_req);
        let ran = run(h1, &mut req, &arrived).await;
        if ran.is_ok() && req.close.is_none() && !h1.is_piped() {
            settle(h1, &mut req).await;
        }
        req.finish(h1);
        engine::current::enter(base::Vxid::NONE, "");
        let ran = if h1.is_broken() { Err(SessClose::TxError) } else { ran };
        if ran.is_ok() && req.close.is_none() {
            h1.end_request();
        }
        if let Some(close) = ran.err().or(req.close) {
            let _ = poll_fn(|cx| engine::Transport::poll_flush(h1, cx, 0)).await;
            return close;
        }
        if h1.is_piped() {
            return SessClose::TxPipe;
        }
        if sess.engine.draining.load(Ordering::Relaxed) {
            let _ = poll_fn(|cx| engine::Transport::poll_flush(h1, cx, 0)).await;
            return SessClose::RespClose;
        }
    }
}

/// What the client still sends of the body mustn't be taken for the next request: it is read, or the connection ends.
async fn settle(h1: &mut H1, req: &mut Req) {
    req.body.give_up();
    match engine::Transport::body_state(h1) {
        BodyState::None | BodyState::Done => {}
        BodyState::Unread => req.discard_body(h1).await,
        BodyState::Failed => req.close = Some(SessClose::RxBody),
    }
}

/// Parses the head and runs the request. `Err`: the connection must end for that reason.
async fn run(h1: &mut H1, req: &mut Req, arrived: &Arrived) -> Result<(), SessClose> {
    let limits = limits(req.params());
    h1.acct.req_head = arrived.head_bytes as u64;
    let parsed = match parse_request(&h1.input[h1.used..h1.used + arrived.head_bytes], &limits, &mut req.head) {
        Ok(Progress::Complete(parsed)) => parsed,
        Ok(Progress::Http2Preface) => {
            h1.send_raw(GOAWAY);
            return Err(SessClose::ReqHttp20);
        }
        Ok(Progress::Idle | Progress::Incomplete) => return Err(refuse(h1, req, &HeadError::BadStartLine, arrived)),
        Err(error) => return Err(refuse(h1, req, &error, arrived)),
    };
    h1.used += parsed.consumed;
    h1.expect_body(parsed.framing, req.head.version());
    if contain::contained(req.run(h1)).await.is_err() {
        let engine = req.engine().clone();
        engine.main.req_panic.inc();
        req.log.put(Tag::Error, b"Panic in the request: see the panic report");
        if h1.head_is_sent() {
            engine::Transport::abort(h1);
        } else {
            req.minimal(h1, 503);
        }
        return Err(SessClose::Overload);
    }
    Ok(())
}

/// Answers a head that no VCL is to see.
fn refuse(h1: &mut H1, req: &mut Req, error: &HeadError, arrived: &Arrived) -> SessClose {
    let reaction = error.reaction();
    let input = h1.input[h1.used..h1.used + arrived.head_bytes].to_vec();
    if let Some(text) = error.bogo_header(&input) {
        req.log.put(Tag::BogoHeader, &text);
    }
    if !reaction.head_is_whole {
        let first_line = input.split(|&b| b == b'\r' || b == b'\n').find(|line| !line.is_empty()).unwrap_or(&[]);
        req.log.put(Tag::HttpGarbage, first_line);
    }
    if reaction.counts_as_400 {
        req.engine().main.client_req_400.inc();
    }
    if let Some(status) = reaction.status {
        req.minimal(h1, status);
    }
    h1.used += arrived.head_bytes;
    req.close = Some(reaction.close);
    reaction.close
}

fn limits(params: &Params) -> Limits {
    Limits {
        head_bytes: params.http_req_size as usize,
        line_bytes: params.http_req_hdr_len as usize,
        lenient: params.http_lenient,
        https_scheme: params.feature.has(FeatureBit::HttpsScheme),
    }
}

/// Waits for the next whole head.
async fn next_head(h1: &mut H1) -> Result<Arrived, SessClose> {
    let engine = h1.sess.engine.clone();
    let params = engine.params.load_full();
    let limits = limits(&params);
    let idle_since = Instant::now();
    let mut scan = Scan::new(&limits);
    let mut t_first = None;
    let mut first_at = idle_since;
    h1.compact();
    if !h1.input.is_empty() {
        t_first = Some(engine.clock.real());
        engine.main.sess_readahead.inc();
    }
    loop {
        if let Some(head_bytes) = scan.find(&h1.input) {
            let now = engine.clock.real();
            return Ok(Arrived { head_bytes, t_first: t_first.unwrap_or(now), t_req: now });
        }
        if h1.input.len() >= limits.head_bytes {
            return Err(SessClose::RxOverflow);
        }
        // Answers to pipelined requests go out before we wait for more.
        poll_fn(|cx| engine::Transport::poll_flush(h1, cx, 0)).await.map_err(|_| SessClose::RemClose)?;
        let mut deadline = idle_since + h1.sess.timeouts.get().idle;
        if t_first.is_some() && !params.timeout_head.is_zero() {
            deadline = deadline.min(first_at + params.timeout_head);
        }
        // A connection lingers with its buffer for a moment; then it is parked, without one.
        let linger = if t_first.is_none() { idle_since + h1.sess.timeouts.get().linger } else { deadline };
        let mut read = read_more(h1, &limits, linger.min(deadline)).await;
        if linger < deadline && matches!(read, Err(IoError::Timeout)) {
            engine.main.sess_herd.inc();
            h1.input = Vec::new();
            match rt::timeout_at(deadline, h1.stream().readable()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(SessClose::RemClose),
                Err(rt::Elapsed) => return Err(SessClose::RxCloseIdle),
            }
            read = read_more(h1, &limits, deadline).await;
        }
        if t_first.is_none() && matches!(read, Err(IoError::Timeout)) {
            return Err(SessClose::RxCloseIdle);
        }
        match read {
            Ok(0) | Err(IoError::Closed | IoError::Os(_)) => return Err(SessClose::RemClose),
            Ok(_) if t_first.is_none() => {
                t_first = Some(engine.clock.real());
                first_at = Instant::now();
            }
            Ok(_) => {}
            Err(IoError::Timeout) => {
                engine.main.head_timeout.inc();
                return Err(SessClose::RxTimeout);
            }
        }
    }
}

/// Reads a piece of a head.
async fn read_more(h1: &mut H1, limits: &Limits, deadline: Instant) -> Result<usize, IoError> {
    let room = HEAD_READ_BYTES.min(limits.head_bytes - h1.input.len());
    h1.input.reserve(room);
    let mut input = std::mem::take(&mut h1.input);
    let read = h1.stream().read_buf(&mut input, Some(deadline)).await;
    h1.input = input;
    read
}

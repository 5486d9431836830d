// SPDX-License-Identifier: BSD-2-Clause
//! HTTP/1 on the client's side: connections, request heads, the loop over requests (RFC 9112).
//!
//! An idle connection is this task waiting for readability; it holds no buffer, and what runs requests is lent to it
//! only while it is busy ([`runner`]).

mod runner;
mod transport;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use base::Real;
use engine::current::StepName;
use engine::sess::Connection;
use engine::transport::BodyState;
use engine::{Engine, ListenerInfo, Req, Sess, SessTimeouts, contain};
use http1::{Framing, HeadError, Limits, Progress, Scan, parse_found_request};
use net::{Address, Stream};
use rt::{Instant, Patience};
use tables::close::SessClose;
use tables::params::{FeatureBit, Params};
use tables::tags::Tag;

use crate::conn::{Conn, Parting};
use transport::H1;

/// SETTINGS, which come first, and GOAWAY with HTTP_1_1_REQUIRED (RFC 9113 3.4, 6.8, 7): HTTP/2 isn't served yet.
const GOAWAY: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0d";

/// Bytes read at once while a head comes in.
const HEAD_READ_BYTES: usize = 4 * 1024;

/// A connection that was accepted.
pub struct Accepted {
    /// Its stream.
    pub stream: Stream,
    /// The client's address.
    pub peer: Address,
    /// The address it connected to.
    pub local: Address,
}

/// A request's head has come whole.
struct Arrived {
    /// From the first byte, with the empty lines before the head.
    head_bytes: usize,
    /// What found it.
    scan: Scan,
    t_first: Real,
    t_req: Real,
    /// In force when we began to look for it.
    params: Arc<Params>,
}

/// What came of a busy connection.
enum Turn {
    /// It waits for its next request.
    Idle,
    /// It ends, for that reason.
    End(SessClose, Parting),
}

/// Serves one connection to its end.
pub async fn serve(engine: Arc<Engine>, listener: Arc<ListenerInfo>, accepted: Accepted) {
    let Accepted { stream, peer, local } = accepted;
    let (number, socket, peer_ids) = (stream.number(), stream.socket_number(), stream.peer_ids());
    let connection = Connection { remote: peer, local, number, socket, peer_ids };
    let sess = Sess::open(&engine, &listener, &connection, "HTTP/1");
    let conn = Box::new(Conn::new(stream, sess.clone()));
    let (conn, close, parting) = match contain::contained(pin!(turns(conn))).await {
        Ok((conn, close, parting)) => (Some(conn), close, parting),
        Err(contain::Panicked) => {
            engine.main.req_panic.inc();
            (None, SessClose::Overload, Parting::default())
        }
    };
    sess.close(close);
    if let Some(mut conn) = conn
        && conn.finish(parting)
    {
        // Boxed: this task's own future is what every idle connection costs.
        Box::pin(conn.linger()).await;
    }
}

/// Idle and busy in turn, to the end.
async fn turns(mut conn: Box<Conn>) -> (Box<Conn>, SessClose, Parting) {
    if conn.sess.listener.has_proxy_header
        && let Err(close) = Box::pin(begin(&mut conn)).await
    {
        let has_input = !conn.input.is_empty();
        return (conn, close, Parting { has_input, ..Parting::default() });
    }
    loop {
        if conn.input.is_empty()
            && let Err(close) = idle(&conn).await
        {
            return (conn, close, Parting::default());
        }
        if conn.sess.engine.turns.is_saturated() {
            // Boxed: see `serve`.
            conn.turn = Box::pin(engine::door::pass(&conn.sess)).await;
        }
        let (back, turn) = runner::run(conn).await;
        conn = back;
        conn.turn = None;
        if let Turn::End(close, parting) = turn {
            return (conn, close, parting);
        }
    }
}

/// Waits for the first byte of a request. By hand, not of futures within futures: each would add to every idle task.
async fn idle(conn: &Conn) -> Result<(), SessClose> {
    let SessTimeouts { idle, linger, .. } = conn.sess.timeouts.get();
    let mut lingers = linger < idle;
    let mut patience = Patience::since(conn.idle_since, linger.min(idle));
    poll_fn(|cx| {
        if let Poll::Ready(readable) = conn.stream().poll_readable(cx) {
            return Poll::Ready(readable.map_err(|_| SessClose::RemClose));
        }
        while patience.poll(cx).is_ready() {
            if !std::mem::take(&mut lingers) {
                return Poll::Ready(Err(SessClose::RxCloseIdle));
            }
            conn.sess.engine.main.sess_herd.inc();
            patience = Patience::until(conn.idle_deadline());
        }
        Poll::Pending
    })
    .await
}

async fn begin(conn: &mut Conn) -> Result<(), SessClose> {
    let sess = conn.sess.clone();
    let mut input = std::mem::take(&mut conn.input);
    let result = crate::proxy::receive(conn.stream(), &sess, &mut input).await;
    conn.input = input;
    conn.idle_since = Instant::now();
    result
}

/// One request after the other, until nothing of the next one is there.
async fn busy(h1: &mut H1) -> Turn {
    loop {
        let arrived = match next_head(h1).await {
            Ok(Some(arrived)) => arrived,
            Ok(None) => return Turn::Idle,
            Err(close) => return Turn::End(close, h1.parting()),
        };
        if let Some(close) = request(h1, arrived).await {
            let mut parting = h1.parting();
            // Such a client goes on sending until it has read that it shouldn't.
            parting.is_sending |= matches!(close, SessClose::ReqHttp20 | SessClose::RespClose);
            return Turn::End(close, parting);
        }
    }
}

/// Runs a request; why the connection ends after it, if it does.
async fn request(h1: &mut H1, arrived: Arrived) -> Option<SessClose> {
    h1.was_busy = true;
    let Arrived { head_bytes, scan, t_first, t_req, params } = arrived;
    let mut req = Req::of(&h1.conn.sess, params, t_req);
    req.begin(t_first);
    req.turn = h1.conn.turn.take();
    let ran = run(h1, &mut req, &scan, head_bytes).await;
    if ran.is_ok() && req.close.is_none() && !h1.is_piped() {
        settle(h1, &mut req).await;
    }
    req.finish(h1);
    engine::current::enter(base::Vxid::NONE, StepName::NONE);
    let ran = if h1.is_broken() { Err(SessClose::TxError) } else { ran };
    let end = match ran.err().or(req.close) {
        None if h1.is_piped() => return Some(SessClose::TxPipe),
        None => {
            h1.end_request();
            h1.conn.sess.engine.draining.load(Ordering::Relaxed).then_some(SessClose::RespClose)?
        }
        Some(close) => close,
    };
    let _ = poll_fn(|cx| engine::Transport::poll_flush(h1, cx, 0)).await;
    Some(end)
}

/// What the client still sends of the body mustn't be taken for the next request: it is read, or the connection ends.
async fn settle(h1: &mut H1, req: &mut Req) {
    req.body.give_up();
    match engine::Transport::body_state(h1) {
        BodyState::None | BodyState::Done => {}
        // The client was never told to send it, and may do so or not: what comes next can't be told apart.
        BodyState::Unread if req.body.is_expected() => req.close = Some(SessClose::RespClose),
        BodyState::Unread => req.discard_body(h1).await,
        BodyState::Failed => req.close = Some(SessClose::RxBody),
    }
}

/// Parses the head and runs the request. `Err`: the connection must end for that reason.
async fn run(h1: &mut H1, req: &mut Req, scan: &Scan, head_bytes: usize) -> Result<(), SessClose> {
    let limits = limits(req.params());
    h1.acct.req_head = head_bytes as u64;
    let input = &h1.conn.input[h1.used..h1.used + head_bytes];
    let parsed = match parse_found_request(input, scan, &limits, &mut req.head) {
        Ok(Progress::Complete(parsed)) => parsed,
        Ok(Progress::Http2Preface) => {
            // Without the feature varnishd closes and says nothing.
            if req.params().feature.has(FeatureBit::Http2) {
                h1.send_raw(GOAWAY);
            }
            return Err(SessClose::ReqHttp20);
        }
        Ok(Progress::Idle | Progress::Incomplete) => return Err(refuse(h1, req, &HeadError::BadStartLine, head_bytes)),
        Err(error) => return Err(refuse(h1, req, &error, head_bytes)),
    };
    if parsed.lone_lf {
        req.engine().main.req_lone_lf.inc();
    }
    h1.used += parsed.consumed;
    h1.expect_body(parsed.framing, req.head.version());
    if parsed.framing == Framing::Chunked
        && !limits.lenient
        && let Some(error) = h1.broken_at_once()
    {
        req.refuse_upload(h1, error.text());
        return Err(SessClose::RxBody);
    }
    if contain::contained(pin!(req.run(h1))).await.is_err() {
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
fn refuse(h1: &mut H1, req: &mut Req, error: &HeadError, head_bytes: usize) -> SessClose {
    let reaction = error.reaction();
    let input = h1.conn.input[h1.used..h1.used + head_bytes].to_vec();
    if let Some(text) = error.bogo_header(&input) {
        req.log.put(Tag::BogoHeader, &text);
    }
    if !reaction.head_is_whole {
        let first_line = input.split(|&b| b == b'\r' || b == b'\n').find(|line| !line.is_empty()).unwrap_or(&[]);
        req.log.put(Tag::HttpGarbage, first_line);
    }
    if *error == HeadError::LoneLf {
        req.engine().main.req_lone_lf.inc();
    }
    if reaction.counts_as_400 {
        req.engine().main.client_req_400.inc();
    }
    if let Some(status) = reaction.status {
        req.minimal(h1, status);
    }
    h1.used += head_bytes;
    req.close = Some(reaction.close);
    reaction.close
}

fn limits(params: &Params) -> Limits {
    Limits {
        head_bytes: params.http_req_size as usize,
        line_bytes: params.http_req_hdr_len as usize,
        lenient: params.http_lenient,
        https_scheme: params.feature.has(FeatureBit::HttpsScheme),
        lone_lf: params.http_lone_lf,
    }
}

/// The next whole head; `None` when not a byte of one is there.
async fn next_head(h1: &mut H1) -> Result<Option<Arrived>, SessClose> {
    let params = h1.conn.sess.engine.params.load_full();
    let (limits, head_limit) = (limits(&params), params.timeout_head);
    let mut scan = Scan::new(&limits);
    let mut t_first = None;
    h1.head_deadline = None;
    if h1.used < h1.conn.input.len() {
        h1.conn.sess.engine.main.sess_readahead.tally();
    }
    loop {
        if let Some(head_bytes) = scan.find_request(&h1.conn.input[h1.used..]) {
            let t_req = h1.conn.sess.engine.clock.real();
            let t_first = t_first.unwrap_or(t_req);
            return Ok(Some(Arrived { head_bytes, scan, t_first, t_req, params }));
        }
        // Only now, once for all requests that were read together.
        h1.compact();
        if h1.conn.input.len() >= limits.head_bytes {
            return Err(SessClose::RxOverflow);
        }
        // Answers to pipelined requests go out before we wait for more.
        poll_fn(|cx| engine::Transport::poll_flush(h1, cx, 0)).await.map_err(|_| SessClose::RemClose)?;
        h1.conn.input.reserve(HEAD_READ_BYTES.min(limits.head_bytes - h1.conn.input.len()));
        let is_first = h1.conn.input.is_empty();
        if !is_first {
            t_first.get_or_insert_with(|| h1.conn.sess.engine.clock.real());
        }
        let read = poll_fn(|cx| Poll::Ready(h1.poll_read(cx))).await;
        let read = match read {
            Poll::Ready(read) => read.map_err(|_| SessClose::RemClose)?,
            Poll::Pending if is_first => {
                if std::mem::take(&mut h1.was_busy) {
                    h1.conn.idle_since = Instant::now();
                }
                return Ok(None);
            }
            Poll::Pending => more(h1, head_limit).await?,
        };
        if read == 0 {
            return Err(SessClose::RemClose);
        }
    }
}

/// Waits for more of a head that has begun to come.
async fn more(h1: &mut H1, head_limit: Duration) -> Result<usize, SessClose> {
    // Who sends it slowly keeps nobody else out.
    h1.conn.turn = None;
    let mut deadline = h1.conn.idle_deadline();
    if !head_limit.is_zero() {
        deadline = deadline.min(*h1.head_deadline.get_or_insert_with(|| Instant::now() + head_limit));
    }
    match rt::timeout_at(deadline, poll_fn(|cx| h1.poll_read(cx))).await {
        Ok(read) => read.map_err(|_| SessClose::RemClose),
        Err(rt::Elapsed) => {
            h1.conn.sess.engine.main.head_timeout.inc();
            Err(SessClose::RxTimeout)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an idle connection costs beside its stream and its session.
    #[test]
    fn an_idle_connection_is_a_small_task() {
        fn output_bytes<A, B, C, F>(_: impl Fn(A, B, C) -> F) -> usize {
            size_of::<F>()
        }
        let bytes = output_bytes(serve);
        assert!(bytes <= 704, "{bytes} bytes");
        let bytes = size_of::<Sess>();
        assert!(bytes <= 384, "{bytes} bytes");
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! HTTP/1 on the client's side: one request after the other on a connection that is busy (RFC 9112).

mod head;
mod request_body;
mod response;
mod transport;

use std::future::poll_fn;
use std::pin::pin;

use engine::transport::{BodyState, Transport};
use engine::{Req, contain};
use http1::{Framing, HeadError, HeadProgress, HeadScan, parse_found_request};
use params::FeatureBit;
use rt::Runners;
use shm::vsl::Marker;
use tables::close::SessClose;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;

use crate::buffers::Buffers;
use crate::conn::{ClientConn, CloseState};
use crate::h2::Upgraded;
use crate::h2::upgrade::{self, SWITCHING};
use crate::session::SessionOutcome;
use head::{NextRequest, limits, next_head, refuse};
use transport::H1;

/// Name in VCL (`req.transport`).
pub(crate) const VERSION: &str = "HTTP/1";

/// CPU time that a pipelined request is charged with at least, in microseconds: about a hit.
const REQUEST_MICROS: u32 = 10;

thread_local! {
    static RUNNERS: Runners<Box<ClientConn>, (Box<ClientConn>, SessionOutcome)> = const { Runners::new() };
}

pub(crate) fn trim() {
    RUNNERS.with(Runners::trim);
}

pub(crate) fn run(conn: Box<ClientConn>) -> impl Future<Output = (Box<ClientConn>, SessionOutcome)> {
    Runners::run_here(&RUNNERS, busy, conn)
}

async fn busy(conn: Box<ClientConn>, buffers: Buffers) -> ((Box<ClientConn>, SessionOutcome), Buffers) {
    let mut h1 = H1::new(conn, buffers);
    let outcome = requests(&mut h1).await;
    let (back, emptied) = h1.into_parts();
    ((back, outcome), emptied)
}

/// One request after the other, until nothing of the next one is there.
async fn requests(h1: &mut H1) -> SessionOutcome {
    loop {
        let arrived = match next_head(h1).await {
            Ok(Some(arrived)) => arrived,
            Ok(None) => return SessionOutcome::Idle,
            Err(SessClose::RxOverflow) => return refuse_overflow(h1).await,
            Err(close) => return SessionOutcome::End(close, h1.close_state()),
        };
        if arrived.is_http2_preface {
            if arrived.params.feature.has(FeatureBit::Http2) {
                log_prior_knowledge(h1);
                return SessionOutcome::Http2(None);
            }
            // As varnishd: it closes and says nothing.
            return SessionOutcome::End(SessClose::ReqHttp20, CloseState { is_sending: true, ..h1.close_state() });
        }
        if is_bad_preface(h1, &arrived) {
            return SessionOutcome::End(SessClose::RxJunk, CloseState { is_sending: true, ..h1.close_state() });
        }
        match request(h1, arrived).await {
            Next::Request { took } => {
                if h1.has_input()
                    && rt::spend(REQUEST_MICROS.max((took * 1e6) as u32))
                    && let Err(close) = let_others_go_first(h1).await
                {
                    return SessionOutcome::End(close, h1.close_state());
                }
            }
            Next::End(close) => {
                let mut state = h1.close_state();
                // Such a client goes on sending until it has read that it shouldn't.
                state.is_sending |= close == SessClose::RespClose;
                return SessionOutcome::End(close, state);
            }
            Next::Upgrade(upgraded) => return upgrade(h1, upgraded).await,
        }
    }
}

/// Requests that came together are many at hand: after some of them others have their turn, once the answers are out. A client that
/// doesn't read is heard no further.
async fn let_others_go_first(h1: &mut H1) -> Result<(), SessClose> {
    poll_fn(|cx| h1.poll_flush(cx, 0)).await.map_err(|_| SessClose::RemClose)?;
    h1.conn.sess.engine.main.pipelined_stints.tally();
    rt::give_way().await;
    Ok(())
}

/// Ends the connection of a client whose head is larger than `http_req_size`. It gets a response if
/// `http_req_overflow_status` has one for it.
async fn refuse_overflow(h1: &mut H1) -> SessionOutcome {
    let params = h1.conn.sess.engine.params.load_full();
    let status = params.http_req_overflow_status as u16;
    if status == 0 {
        return SessionOutcome::End(SessClose::RxOverflow, h1.close_state());
    }
    let now = h1.conn.sess.engine.clock.real();
    let mut req = Req::with_new_id(&h1.conn.sess, params, now);
    req.begin(now);
    h1.acct.req_head = (h1.conn.input.len() - h1.used) as u64;
    engine::Transport::send_minimal(h1, status, None, &mut req.log);
    req.client.close = Some(SessClose::RxOverflow);
    req.finish(h1);
    engine::current::end();
    let _ = poll_fn(|cx| h1.poll_flush(cx, 0)).await;
    SessionOutcome::End(SessClose::RxOverflow, CloseState { is_sending: true, ..h1.close_state() })
}

enum Next {
    /// Another one. By its own timestamps this one took so many seconds.
    Request {
        took: f64,
    },
    End(SessClose),
    Upgrade(Box<Upgraded>),
}

/// The client speaks HTTP/2 unasked. The record is nobody's, as varnishd's.
fn log_prior_knowledge(h1: &H1) {
    let log = &h1.conn.sess.engine.log;
    log.write_one(Tag::Debug, base::Vxid::NONE, Marker::None, b"H2 Prior Knowledge Upgrade");
}

/// True if a connection begins with something that belongs to no version of HTTP, where its client may speak HTTP/2: a
/// preface that isn't valid, which ends it (RFC 9113 3.4). An answer in HTTP/1 would be none to its peer. A line that
/// names HTTP gets one.
fn is_bad_preface(h1: &H1, arrived: &NextRequest) -> bool {
    if h1.conn.has_asked || !arrived.params.feature.has(FeatureBit::Http2) || h1.conn.sess.tls.get().is_some() {
        return false;
    }
    let head = &h1.conn.input[h1.used..h1.used + arrived.head_bytes];
    let is_bad = http1::is_bad_preface(&head[arrived.scan.begin()..]);
    if is_bad {
        let (sess, line) = (&h1.conn.sess, head.trim_ascii().split(|&byte| byte == b'\n').next().unwrap_or_default());
        sess.engine.log.write_one(Tag::HttpGarbage, sess.vxid, Marker::Client, line.trim_ascii_end());
    }
    is_bad
}

async fn upgrade(h1: &mut H1, upgraded: Box<Upgraded>) -> SessionOutcome {
    h1.send_raw(SWITCHING);
    match poll_fn(|cx| h1.poll_flush(cx, 0)).await {
        Ok(()) => SessionOutcome::Http2(Some(upgraded)),
        Err(_) => SessionOutcome::End(SessClose::RemClose, h1.close_state()),
    }
}

async fn request(h1: &mut H1, arrived: NextRequest) -> Next {
    (h1.was_busy, h1.conn.has_asked) = (true, true);
    let NextRequest { head_bytes, scan, t_first, t_req, params, is_http2_preface: _ } = arrived;
    let mut req = Req::with_new_id(&h1.conn.sess, params, t_req);
    req.begin(t_first);
    let ran = match answer(h1, &mut req, &scan, head_bytes).await {
        Ok(Answered::Http2) => match begin_upgrade(h1, req) {
            Ok(upgraded) => return Next::Upgrade(upgraded),
            Err(close) => return Next::End(close),
        },
        Ok(Answered::Http1) => Ok(()),
        Err(close) => Err(close),
    };
    if ran.is_ok() && req.client.close.is_none() && !h1.is_piped() {
        end_request_body(h1, &mut req).await;
    }
    let took = req.log.last().since(t_req);
    req.finish(h1);
    engine::current::end();
    let ran = if h1.is_broken() { Err(SessClose::TxError) } else { ran };
    let end = match ran.err().or(req.client.close) {
        None if h1.is_piped() => return Next::End(SessClose::TxPipe),
        None => {
            h1.end_request();
            // A client that wasn't told of a drain may be sending its next request: that one's response tells it.
            return Next::Request { took };
        }
        Some(close) => close,
    };
    let _ = poll_fn(|cx| h1.poll_flush(cx, 0)).await;
    Next::End(end)
}

enum Answered {
    Http1,
    Http2,
}

fn begin_upgrade(h1: &mut H1, req: Req) -> Result<Box<Upgraded>, SessClose> {
    let head_bytes = std::mem::take(&mut h1.acct).req_head;
    upgrade::upgrade(req, head_bytes).map_err(|mut req| {
        let sess = &h1.conn.sess;
        sess.engine.log.write_one(Tag::Debug, sess.vxid, Marker::Client, b"H2: Bad HTTP-Settings");
        req.finish_with(engine::transport::TransportAcct { req_head: head_bytes, ..Default::default() });
        engine::current::end();
        SessClose::RxJunk
    })
}

/// Reads the rest of the body, or has the connection end: it mustn't be taken for the next request.
async fn end_request_body(h1: &mut H1, req: &mut Req) {
    req.client.body.give_up();
    match h1.body_state() {
        BodyState::None | BodyState::Done => {}
        // The client was never told to send it, and may do so or not: what comes next can't be told apart.
        BodyState::Unread if req.client.body.is_expected() => req.client.close = Some(SessClose::RespClose),
        BodyState::Unread => req.discard_body(h1).await,
        BodyState::Failed => req.client.close = Some(SessClose::RxBody),
    }
}

/// Parses the head and runs the request. `Err`: the connection must end for that reason.
async fn answer(h1: &mut H1, req: &mut Req, scan: &HeadScan, head_bytes: usize) -> Result<Answered, SessClose> {
    let mut limits = limits(req.params());
    limits.https_scheme |= h1.conn.sess.tls.get().is_some();
    h1.acct.req_head = head_bytes as u64;
    let input = &h1.conn.input[h1.used..h1.used + head_bytes];
    let is_target_logged = !req.params().vsl_mask.has(Tag::ReqTarget);
    if is_target_logged {
        req.log.put(Tag::ReqTarget, http1::request_target(&input[scan.begin()..]));
    }
    let parsed = match parse_found_request(input, scan, &limits, &mut req.ask.head) {
        Ok(HeadProgress::Complete(parsed)) => parsed,
        // The preface of HTTP/2 was looked for before.
        Ok(HeadProgress::Idle | HeadProgress::Incomplete | HeadProgress::Http2Preface) => {
            return Err(refuse(h1, req, &HeadError::BadStartLine, head_bytes));
        }
        Err(error) => return Err(refuse(h1, req, &error, head_bytes)),
    };
    if parsed.lone_lf {
        req.engine().main.req_lone_lf.inc();
    }
    if parsed.is_absolute {
        req.engine().main.http1_absolute_form.inc();
    }
    h1.used += parsed.consumed;
    h1.begin_request(parsed.framing, req.ask.head.version());
    if parsed.framing == Framing::Chunked
        && !limits.lenient
        && let Some(error) = h1.broken_at_once()
    {
        req.refuse_upload(h1, error.text());
        return Err(SessClose::RxBody);
    }
    if upgrade::is_wanted(req, parsed.framing != Framing::None) {
        return Ok(Answered::Http2);
    }
    if contain::contained(pin!(req.run(h1))).await.is_err() {
        let engine = req.engine().clone();
        engine.main.req_panic.inc();
        req.log.put(Tag::Error, b"Panic in the request: see the panic report");
        if h1.head_is_sent() {
            engine::Transport::abort(h1);
        } else {
            req.minimal(h1, 503, ProxyError::ProxyInternalError);
        }
        return Err(SessClose::Overload);
    }
    Ok(Answered::Http1)
}

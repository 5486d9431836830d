// SPDX-License-Identifier: BSD-2-Clause
//! HTTP/1 on the client's side: one request after the other on a connection that is busy (RFC 9112).

mod head;
mod request_body;
mod response;
mod transport;

use std::future::poll_fn;
use std::pin::pin;

use engine::current::StepName;
use engine::transport::BodyState;
use engine::{Req, contain};
use http1::{Framing, HeadError, Progress, Scan, parse_found_request};
use tables::close::SessClose;
use tables::params::FeatureBit;
use tables::tags::Tag;

use crate::buffers::Buffers;
use crate::conn::Conn;
use crate::runner::{self, Runners};
use crate::session::Outcome;
use head::{NextRequest, limits, next_head, refuse};
use transport::H1;

/// What VCL calls it (`req.transport`).
pub(crate) const VERSION: &str = "HTTP/1";

/// SETTINGS, which come first, and GOAWAY with HTTP_1_1_REQUIRED (RFC 9113 3.4, 6.8, 7): HTTP/2 isn't served yet.
const GOAWAY: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0d";

thread_local! {
    static RUNNERS: Runners = const { Runners::new() };
}

/// Gives up what this thread keeps for connections to come.
pub(crate) fn trim() {
    RUNNERS.with(Runners::trim);
}

/// Serves the connection until it is idle or at its end.
pub(crate) fn run(conn: Box<Conn>) -> impl Future<Output = (Box<Conn>, Outcome)> {
    runner::run(&RUNNERS, busy, conn)
}

async fn busy(conn: Box<Conn>, buffers: Buffers) -> (Box<Conn>, Buffers, Outcome) {
    let mut h1 = H1::new(conn, buffers);
    let outcome = requests(&mut h1).await;
    let (conn, buffers) = h1.into_parts();
    (conn, buffers, outcome)
}

/// One request after the other, until nothing of the next one is there.
async fn requests(h1: &mut H1) -> Outcome {
    loop {
        let arrived = match next_head(h1).await {
            Ok(Some(arrived)) => arrived,
            Ok(None) => return Outcome::Idle,
            Err(close) => return Outcome::End(close, h1.close_state()),
        };
        if let Some(close) = request(h1, arrived).await {
            let mut state = h1.close_state();
            // Such a client goes on sending until it has read that it shouldn't.
            state.is_sending |= matches!(close, SessClose::ReqHttp20 | SessClose::RespClose);
            return Outcome::End(close, state);
        }
    }
}

/// Runs a request; why the connection ends after it, if it does.
async fn request(h1: &mut H1, arrived: NextRequest) -> Option<SessClose> {
    h1.was_busy = true;
    let NextRequest { head_bytes, scan, t_first, t_req, params } = arrived;
    let mut req = Req::with_new_id(&h1.conn.sess, params, t_req);
    req.begin(t_first);
    req.slot = h1.conn.slot.take();
    let ran = answer(h1, &mut req, &scan, head_bytes).await;
    if ran.is_ok() && req.close.is_none() && !h1.is_piped() {
        end_request_body(h1, &mut req).await;
    }
    req.finish(h1);
    engine::current::enter(base::Vxid::NONE, StepName::NONE);
    let ran = if h1.is_broken() { Err(SessClose::TxError) } else { ran };
    let end = match ran.err().or(req.close) {
        None if h1.is_piped() => return Some(SessClose::TxPipe),
        None => {
            h1.end_request();
            // A client that wasn't told of a drain may be sending its next request: that one's response tells it.
            return None;
        }
        Some(close) => close,
    };
    let _ = poll_fn(|cx| engine::Transport::poll_flush(h1, cx, 0)).await;
    Some(end)
}

/// What the client still sends of the body mustn't be taken for the next request: it is read, or the connection ends.
async fn end_request_body(h1: &mut H1, req: &mut Req) {
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
async fn answer(h1: &mut H1, req: &mut Req, scan: &Scan, head_bytes: usize) -> Result<(), SessClose> {
    let mut limits = limits(req.params());
    limits.https_scheme |= h1.conn.sess.tls.get().is_some();
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
    h1.begin_request(parsed.framing, req.head.version());
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

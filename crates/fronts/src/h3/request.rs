// SPDX-License-Identifier: BSD-2-Clause
//! One request: its head comes in, the engine runs it, its stream ends (RFC 9114 4.1).

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use engine::transport::BodyState;
use engine::{Req, Transport, contain, early};
use http2::fields::{Malformed, SectionFacts};
use http3::head::{self, BadHead};
use http3::stream::SECTION_TOO_LONG;
use http3::{Http3Error, Http3ErrorCode, Http3ErrorScope, Http3Limits};
use message::HttpVersion;
use net::quic::{RecvStream, SendStream, VarInt};
use params::Params;
use rt::{Instant, Runners};
use tables::proxy_error::ProxyError;
use tables::tags::Tag;

use super::link::Link;
use super::transport::H3;
use crate::refusal::{self, HeadRefusal};
use crate::waits::LINGER;

/// Bytes of a request's body that are read at most behind its response. With the usual window of a stream they take several round trips.
const LINGER_BYTES: usize = 512 * 1024;

enum NoRequest {
    /// The client took it back, or is gone.
    Gone,
    Slow,
    Broken(Http3Error),
}

thread_local! {
    static REQUESTS: Runners<Box<H3>> = const { Runners::new() };
}

pub(crate) fn trim() {
    REQUESTS.with(Runners::trim);
}

pub(super) fn begin(link: &Rc<Link>, send: SendStream, recv: RecvStream) {
    let mut h3 = Box::new(H3::new(link.clone(), send, recv));
    if !link.begin_request(h3.id()) {
        // It may be sent elsewhere: nothing of it was looked at.
        return h3.refuse(Http3ErrorCode::RequestRejected);
    }
    Runners::spawn(&REQUESTS, run_stream, h3);
}

async fn run_stream(mut h3: Box<H3>) {
    let open = OpenRequest(h3.link.clone());
    if let Err(none) = serve(&mut h3).await {
        end_without_request(&mut h3, &none);
    }
    // A connection that is lost takes all its requests with it: nobody has taken them back.
    if h3.came_to_nothing() && h3.link.conn.close_reason().is_none() {
        h3.link.note_reset();
    }
    if !h3.lingers() {
        h3.end_input();
    }
    let (sent, lingering) = h3.into_ends();
    if let Some(sent) = sent {
        open.0.await_delivery(sent);
    }
    drop(open);
    if let Some(recv) = lingering {
        linger(recv).await;
    }
}

/// Discards the rest of a request's body before the client is told to stop, so that STOP_SENDING doesn't overtake the response and cost it. QUIC
/// counts the stream among those that a client may have open; the connection's end doesn't wait for it.
async fn linger(mut recv: RecvStream) {
    let until = Instant::now() + LINGER;
    let rest = async {
        let mut left = LINGER_BYTES;
        while left > 0
            && let Ok(Some(piece)) = recv.read_chunk(left, true).await
        {
            left -= piece.bytes.len();
        }
    };
    let _ = rt::timeout_at(until, rest).await;
    // A stream that has ended can't be stopped and needn't be.
    let _ = recv.stop(VarInt::from_u32(Http3ErrorCode::NoError.number()));
}

struct OpenRequest(Rc<Link>);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.end_request();
    }
}

fn end_without_request(h3: &mut H3, none: &NoRequest) {
    match none {
        // An end without an answer would be none.
        NoRequest::Gone => h3.refuse(Http3ErrorCode::RequestCancelled),
        NoRequest::Slow => {
            h3.link.sess.engine.main.head_timeout.inc();
            h3.refuse(Http3ErrorCode::RequestRejected);
        }
        NoRequest::Broken(error) => h3.fail(error),
    }
}

async fn serve(h3: &mut H3) -> Result<(), NoRequest> {
    let sess = h3.link.sess.clone();
    let params = sess.engine.params.load_full();
    let t_first = sess.engine.clock.real();
    let section = section(h3, &params).await?;
    let t_req = sess.engine.clock.real();
    engine::conn_queue::pass(&sess).await;
    let mut req = Req::with_new_id(&sess, params, t_req);
    req.begin(t_first);
    match parse(h3, &mut req, section) {
        Ok(None) if admit(h3, &mut req).await => run(h3, &mut req).await,
        Ok(None) => {
            req.log.put(Tag::Error, b"The handshake failed that it came before");
            h3.refuse(Http3ErrorCode::RequestRejected);
        }
        Ok(Some(refusal)) => {
            if matches!(refusal, HeadRefusal::TooLarge(_)) {
                // The head cost more than it was worth, as a stream that is reset does.
                h3.link.note_reset();
            }
            refusal.answer(&mut req, h3);
        }
        Err(error) => h3.fail(&error),
    }
    end_request(h3, &mut req).await;
    Ok(())
}

/// A request of early data that isn't safe, or brings a body, waits for the handshake's end (RFC 8470 3): whether that is good.
async fn admit(h3: &H3, req: &mut Req) -> bool {
    let Some(handshaking) = h3.link.handshaking.as_ref().filter(|one| h3.is_early() && !one.is_done()) else {
        return true;
    };
    let main = req.engine().main;
    if early::is_safe(&req.ask.head) && h3.body_state() == BodyState::None {
        main.early_data_req.inc();
        req.came_early(handshaking);
        return true;
    }
    main.early_data_wait.inc();
    poll_fn(|cx| handshaking.poll_end(cx)).await
}

/// Waits for the request's field section; where it lies in the input. `None`: it is too long.
async fn section(h3: &mut H3, params: &Arc<Params>) -> Result<Option<std::ops::Range<usize>>, NoRequest> {
    let limit = match params.timeout_head {
        limit if limit.is_zero() => h3.link.sess.timeouts.get().idle,
        limit => limit,
    };
    let deadline = Instant::now() + limit;
    match rt::timeout_at(deadline, poll_fn(|cx| h3.poll_section(cx))).await {
        Ok(Ok(Some(section))) => Ok(Some(section)),
        Ok(Ok(None)) => Err(NoRequest::Gone),
        Ok(Err(SECTION_TOO_LONG)) => Ok(None),
        Ok(Err(error)) => Err(NoRequest::Broken(error)),
        Err(rt::Elapsed) => Err(NoRequest::Slow),
    }
}

/// Reads the head, and says why it is answered without VCL. `Err`: it never was one.
fn parse(
    h3: &mut H3,
    req: &mut Req,
    section: Option<std::ops::Range<usize>>,
) -> Result<Option<HeadRefusal>, Http3Error> {
    req.engine().main.h3_req.tally();
    let Some(section) = section else {
        h3.stop_input_later();
        return Ok(Some(HeadRefusal::TooLarge(Malformed::too_large())));
    };
    let limits = Http3Limits {
        section_bytes: req.params().http_req_size as usize,
        line_bytes: req.params().http_req_hdr_len as usize,
    };
    h3.acct.req_head = section.len() as u64;
    let read = head::read_request(&h3.input[section.clone()], &limits, &mut h3.scratch, &mut req.ask.head);
    h3.used = section.end;
    match read {
        Ok(head) => {
            h3.begin_request(&head)?;
            Ok(head.refusal.map(HeadRefusal::Meaningless))
        }
        Err(BadHead::Malformed(malformed)) if malformed.status().is_some() => {
            h3.begin_request(&SectionFacts::default())?;
            Ok(Some(HeadRefusal::TooLarge(malformed)))
        }
        Err(bad) => {
            if let BadHead::Malformed(malformed) = &bad {
                refusal::log(req, malformed);
            }
            if bad.error().scope == Http3ErrorScope::Stream {
                req.engine().main.client_req_400.inc();
            }
            Err(bad.error())
        }
    }
}

async fn run(h3: &mut H3, req: &mut Req) {
    debug_assert!(req.ask.head.version() > HttpVersion::HTTP11);
    if contain::contained(pin!(req.run(h3))).await.is_err() {
        let engine = req.engine().clone();
        engine.main.req_panic.inc();
        req.log.put(Tag::Error, b"Panic in the request: see the panic report");
        if h3.head_is_sent() {
            h3.abort();
        } else {
            req.minimal(h3, 503, ProxyError::ProxyInternalError);
        }
    }
}

/// The response goes out to its end. What the client still sends of its body isn't waited for.
async fn end_request(h3: &mut H3, req: &mut Req) {
    req.client.body.give_up();
    if h3.body_state() == BodyState::Unread && !h3.body_is_broken() {
        h3.stop_input_later();
    }
    req.finish(h3);
    engine::current::end();
    h3.finish_response();
    let _ = poll_fn(|cx| h3.poll_flush(cx, 0)).await;
}

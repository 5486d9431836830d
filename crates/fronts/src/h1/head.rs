// SPDX-License-Identifier: BSD-2-Clause
//! The head of a request: how it comes in, and what is answered to one that isn't HTTP (RFC 9112 2 to 5).

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use base::Real;
use engine::Req;
use http1::{HTTP2_PREFACE, HeadError, HeadScan, Http1Limits};
use params::{FeatureBit, Params};
use rt::Instant;
use tables::close::SessClose;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;

use super::transport::H1;

const HEAD_READ_BYTES: usize = 4 * 1024;

pub(super) struct NextRequest {
    /// From the first byte, with the empty lines before the head.
    pub head_bytes: usize,
    pub scan: HeadScan,
    pub t_first: Real,
    pub t_req: Real,
    pub params: Arc<Params>,
    pub is_http2_preface: bool,
}

/// The next whole head; `None` when not a byte of one is there.
pub(super) async fn next_head(h1: &mut H1) -> Result<Option<NextRequest>, SessClose> {
    let params = h1.conn.sess.engine.params.load_full();
    let (limits, head_limit) = (limits(&params), params.timeout_head);
    let mut scan = HeadScan::new(&limits);
    let mut t_first = None;
    let mut deadline = None;
    if h1.used < h1.conn.input.len() {
        h1.conn.sess.engine.main.sess_readahead.tally();
    }
    loop {
        if let Some(head_bytes) = scan.find_request(&h1.conn.input[h1.used..]) {
            let t_req = h1.conn.sess.engine.clock.real();
            let t_first = t_first.unwrap_or(t_req);
            let is_http2_preface = h1.conn.input[h1.used..].starts_with(HTTP2_PREFACE);
            return Ok(Some(NextRequest { head_bytes, scan, t_first, t_req, params, is_http2_preface }));
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
            Poll::Pending => more(h1, head_limit, &mut deadline).await?,
        };
        if read == 0 {
            return Err(SessClose::RemClose);
        }
    }
}

/// Waits for more of a head that has begun to come, and must be whole by then.
async fn more(h1: &mut H1, head_limit: Duration, whole_by: &mut Option<Instant>) -> Result<usize, SessClose> {
    let mut deadline = h1.conn.idle_deadline();
    if !head_limit.is_zero() {
        deadline = deadline.min(*whole_by.get_or_insert_with(|| Instant::now() + head_limit));
    }
    // While descriptors are few, who is slow to ask goes as who doesn't ask.
    let idle_slot = std::mem::take(&mut h1.conn.idle_slot);
    let place = idle_slot.take();
    let comes = poll_fn(|cx| match h1.poll_read(cx) {
        Poll::Ready(read) => Poll::Ready(read.map_err(|_| SessClose::RemClose)),
        Poll::Pending => place.poll(cx.waker()).map(|()| Err(SessClose::RxTimeout)),
    });
    let came = rt::timeout_at(deadline, comes).await;
    drop(place);
    h1.conn.idle_slot = idle_slot;
    match came {
        Ok(read) => read,
        Err(rt::Elapsed) => {
            h1.conn.sess.engine.main.head_timeout.inc();
            Err(SessClose::RxTimeout)
        }
    }
}

pub(super) fn refuse(h1: &mut H1, req: &mut Req, error: &HeadError, head_bytes: usize) -> SessClose {
    let reaction = error.reaction();
    let input = h1.conn.input[h1.used..h1.used + head_bytes].to_vec();
    if let Some(text) = error.bogo_header(&input) {
        req.log.put(Tag::BogoHeader, &text);
    }
    if !reaction.head_is_whole {
        let first_line = input.split(|&b| b == b'\r' || b == b'\n').find(|line| !line.is_empty()).unwrap_or(&[]);
        req.log.put(Tag::HttpGarbage, first_line);
    }
    req.log_refused_start();
    if *error == HeadError::LoneLf {
        req.engine().main.req_lone_lf.inc();
    }
    if reaction.counts_as_400 {
        req.engine().main.client_req_400.inc();
    }
    let overflow = Some(req.params().http_req_overflow_status as u16).filter(|status| *status > 0);
    if let Some(status) = reaction.status.or(overflow) {
        match error.is_of_start_line() || reaction.status.is_none() {
            // As varnishd's, to the byte: who doesn't speak HTTP has no use for a header.
            true => engine::Transport::send_minimal(h1, status, None, &mut req.log),
            false => req.minimal(h1, status, ProxyError::HttpRequestError),
        }
    }
    h1.used += head_bytes;
    req.client.close = Some(reaction.close);
    reaction.close
}

pub(super) fn limits(params: &Params) -> Http1Limits {
    Http1Limits {
        head_bytes: params.http_req_size as usize,
        line_bytes: params.http_req_hdr_len as usize,
        lenient: params.http_lenient,
        https_scheme: params.feature.has(FeatureBit::HttpsScheme),
        lone_lf: params.http_lone_lf,
    }
}

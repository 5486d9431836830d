// SPDX-License-Identifier: BSD-2-Clause
//! A pipe that begins as one request and its response, framed as they are on a connection of HTTP/1: to a backend that is no
//! server, so that there is no connection to be joined with the client's, or of a request with Upgrade, which becomes a pipe
//! once the backend has switched protocols (RFC 9110 7.8). Until then nobody reads what the client sends behind its request:
//! the backend would take it for requests that VCL never saw.
//!
//! ```text
//! request --101 that was asked for--> 101, connections to be joined
//!    |--any other answer--> that answer, and the client's connection ends
//!    \--no answer--> the client's connection ends
//! ```

use std::future::poll_fn;
use std::task::{Poll, ready};
use std::time::Duration;

use backend::{BackendConn, BodyLen, BodyStatus, Data, Received, RespLimits, SendProgress};
use message::{Head, LostHeader, names};
use storage::Buf;
use tables::close::SessClose;

use super::pipe::PipeAcct;
use crate::httplog::RESP;
use crate::req::Req;
use crate::transport::{BodyState, Transport, Tunnel};

/// Bytes waiting for the client above which nothing is read from the backend.
pub(super) const HELD_BYTES: usize = 64 * 1024;

/// The connection broke off.
struct Broken;

/// Passes both messages on. The client's connection, if the backend has switched protocols: with it the backend's can be
/// joined. Silence for `pipe_timeout` ends it.
pub(super) async fn relay(
    conn: &mut BackendConn,
    bereq: &Head,
    limits: &RespLimits,
    req: &mut Req,
    transport: &mut dyn Transport,
    acct: &mut PipeAcct,
) -> Option<Tunnel> {
    let limit = params::timeouts::pipe(&req.params);
    let mut beresp = Head::with_limits(bereq.limits());
    let len = match transport.body_state() {
        _ if req.client.body.is_cached() => req.client.body.bytes().map_or(BodyLen::None, BodyLen::Known),
        BodyState::Unread => transport.body_len().map_or(BodyLen::Unknown, BodyLen::Known),
        BodyState::None | BodyState::Done | BodyState::Failed => BodyLen::None,
    };
    conn.send_head(bereq, len, limits);
    let up = upload(conn, &mut beresp, len, req, transport, limit).await;
    acct.inwards += conn.acct().bereq_body;
    let answered = match up {
        Ok(upload) => answer(conn, &mut beresp, upload, req, transport, limit, acct).await,
        Err(Broken) => Err(Broken),
    };
    answered.unwrap_or_else(|Broken| {
        // What breaks off is cut: the client sees it.
        transport.abort();
        None
    })
}

/// The part of the request that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Upload {
    Whole,
    /// The answer began before its end.
    Overtaken,
}

/// Waits for `work`, at most so long.
async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T, Broken> {
    rt::timeout(limit, work).await.map_err(|rt::Elapsed| Broken)
}

async fn upload(
    conn: &mut BackendConn,
    beresp: &mut Head,
    len: BodyLen,
    req: &Req,
    transport: &mut dyn Transport,
    limit: Duration,
) -> Result<Upload, Broken> {
    let mut kept = req.client.body.cached().into_iter();
    let mut is_over = len == BodyLen::None;
    loop {
        match within(limit, poll_fn(|cx| conn.poll_send(cx, beresp))).await?.map_err(|_| Broken)? {
            SendProgress::Answered => return Ok(Upload::Overtaken),
            SendProgress::All if is_over => return Ok(Upload::Whole),
            SendProgress::Interim => {
                pass_interim(beresp, transport, limit).await?;
                continue;
            }
            SendProgress::Part | SendProgress::Begun => continue,
            SendProgress::All => {}
        }
        let next = if req.client.body.is_cached() {
            Some(kept.next())
        } else {
            let next = poll_fn(|cx| {
                loop {
                    if let Poll::Ready(piece) = transport.poll_body(cx) {
                        return Poll::Ready(piece.map(Some).map_err(|_| Broken));
                    }
                    match ready!(conn.poll_answer(cx, beresp)) {
                        SendProgress::Answered => return Poll::Ready(Ok(None)),
                        SendProgress::Interim => {
                            transport.send_interim(beresp);
                            // A client that is gone is noticed later.
                            let _ = transport.poll_flush(cx, 0);
                        }
                        SendProgress::All | SendProgress::Part | SendProgress::Begun => {}
                    }
                }
            });
            within(limit, next).await??
        };
        match next {
            None => return Ok(Upload::Overtaken),
            Some(Some(piece)) => conn.send_data(piece),
            Some(None) => {
                conn.send_end(None);
                is_over = true;
            }
        }
    }
}

/// Queues and sends an interim response: as one that expects a 100 the client may wait for it.
async fn pass_interim(interim: &Head, transport: &mut dyn Transport, limit: Duration) -> Result<(), Broken> {
    transport.send_interim(interim);
    flush(transport, 0, limit).await
}

async fn flush(transport: &mut dyn Transport, keep: usize, limit: Duration) -> Result<(), Broken> {
    within(limit, poll_fn(|cx| transport.poll_flush(cx, keep))).await?.map_err(|_| Broken)
}

async fn answer(
    conn: &mut BackendConn,
    beresp: &mut Head,
    upload: Upload,
    req: &mut Req,
    transport: &mut dyn Transport,
    limit: Duration,
    acct: &mut PipeAcct,
) -> Result<Option<Tunnel>, Broken> {
    let body = loop {
        match within(limit, poll_fn(|cx| conn.poll_head(cx, beresp))).await?.map_err(|_| Broken)? {
            Received::Final { body, .. } => break body,
            Received::Interim => pass_interim(beresp, transport, limit).await?,
            Received::Part => {}
        }
    };
    // Only where it was asked for is a 101 a final answer. One that overtakes the request leaves the rest of that in between.
    if beresp.is_status(101) {
        return if upload == Upload::Whole {
            switch(conn, beresp, req, transport, limit, acct).await
        } else {
            Err(Broken)
        };
    }
    let before = transport.acct();
    let done = deliver(conn, beresp, body, req, transport, limit).await;
    let after = transport.acct();
    acct.outwards += after.resp_head + after.resp_body - before.resp_head - before.resp_body;
    done.map(|()| None)
}

/// The backend speaks another protocol from now on: its answer goes out, and what came with it.
async fn switch(
    conn: &mut BackendConn,
    beresp: &Head,
    req: &mut Req,
    transport: &mut dyn Transport,
    limit: Duration,
    acct: &mut PipeAcct,
) -> Result<Option<Tunnel>, Broken> {
    flush(transport, 0, limit).await?;
    let Some(tunnel) = transport.take_tunnel() else { return Err(Broken) };
    RESP.log_status(beresp, &mut req.log);
    let mut out = Vec::new();
    beresp.write_to(&mut out);
    loop {
        within(limit, tunnel.stream.write_all(&out, None)).await?.map_err(|_| Broken)?;
        acct.outwards += out.len() as u64;
        if conn.is_drained() {
            return Ok(Some(tunnel));
        }
        out.clear();
        if let Data::Piece = within(limit, poll_fn(|cx| conn.poll_data(cx))).await?.map_err(|_| Broken)? {
            out.extend_from_slice(conn.data());
        }
    }
}

/// Makes a response one of the client's connection, which ends with it, without what its framing adds.
fn frame(beresp: &mut Head, body: BodyStatus) -> Result<BodyLen, LostHeader> {
    beresp.set_proto("HTTP/1.1")?;
    beresp.unset(names::KEEP_ALIVE);
    let options = if beresp.has(names::UPGRADE) { "upgrade, close" } else { "close" };
    beresp.set(names::CONNECTION, options)?;
    Ok(match body {
        BodyStatus::None => BodyLen::None,
        BodyStatus::Length(len) => BodyLen::Known(len),
        BodyStatus::Chunked | BodyStatus::Eof => {
            beresp.unset(names::TRANSFER_ENCODING);
            beresp.unset(names::CONTENT_LENGTH);
            BodyLen::Unknown
        }
    })
}

async fn deliver(
    conn: &mut BackendConn,
    beresp: &mut Head,
    body: BodyStatus,
    req: &mut Req,
    transport: &mut dyn Transport,
    limit: Duration,
) -> Result<(), Broken> {
    let len = frame(beresp, body).map_err(|_| Broken)?;
    RESP.log_status(beresp, &mut req.log);
    transport.send_head(beresp, len, Some(SessClose::TxPipe), &mut req.log);
    loop {
        flush(transport, if conn.is_drained() { 0 } else { HELD_BYTES }, limit).await?;
        if len == BodyLen::None {
            return Ok(());
        }
        match within(limit, poll_fn(|cx| conn.poll_data(cx))).await?.map_err(|_| Broken)? {
            Data::Piece => transport.send_data(Buf::unaccounted(conn.data().to_vec())),
            Data::Part => {}
            Data::End { .. } => {
                transport.send_end(None);
                return flush(transport, 0, limit).await;
            }
        }
    }
}

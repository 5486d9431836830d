// SPDX-License-Identifier: BSD-2-Clause
//! A pipe to a backend that is no server: there is no connection to be joined with the client's, so one request and its
//! response pass, as they are on a connection of HTTP/1.

use std::future::poll_fn;
use std::task::{Poll, ready};
use std::time::Duration;

use backend::{BodyLen, BodyStatus, Conn, Data, Received, RespLimits, SendProgress, framed, framed_end};
use message::{Head, LostHeader, names};

use super::pipe::PipeAcct;
use crate::req::Req;
use crate::transport::{BodyState, Transport};

/// It broke off.
struct Broken;

/// Passes both messages on. Silence for `pipe_timeout` ends it.
pub(super) async fn relay(
    conn: &mut Conn,
    bereq: &Head,
    limits: &RespLimits,
    req: &Req,
    transport: &mut dyn Transport,
    acct: &mut PipeAcct,
) {
    let limit = req.params.pipe_timeout;
    let mut beresp = Head::with_limits(bereq.limits());
    let len = match transport.body_state() {
        _ if req.body.is_cached() => req.body.bytes().map_or(BodyLen::None, BodyLen::Known),
        BodyState::Unread => transport.body_len().map_or(BodyLen::Unknown, BodyLen::Known),
        BodyState::None | BodyState::Done | BodyState::Failed => BodyLen::None,
    };
    conn.send_head(bereq, len, limits);
    let up = upload(conn, &mut beresp, len, req, transport, limit).await;
    acct.inwards += conn.acct().bereq_body;
    if up.is_ok() {
        // What breaks off is cut: the client sees it.
        let _ = download(conn, &mut beresp, transport, limit, acct).await;
    }
}

/// Waits for `work`, at most so long.
async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T, Broken> {
    rt::timeout(limit, work).await.map_err(|rt::Elapsed| Broken)
}

async fn upload(
    conn: &mut Conn,
    beresp: &mut Head,
    len: BodyLen,
    req: &Req,
    transport: &mut dyn Transport,
    limit: Duration,
) -> Result<(), Broken> {
    let mut kept = req.body.cached().into_iter();
    let mut is_over = len == BodyLen::None;
    loop {
        match within(limit, poll_fn(|cx| conn.poll_send(cx, beresp))).await?.map_err(|_| Broken)? {
            SendProgress::Answered => return Ok(()),
            SendProgress::All if is_over => return Ok(()),
            SendProgress::Part | SendProgress::Interim | SendProgress::Begun => continue,
            SendProgress::All => {}
        }
        let next = if req.body.is_cached() {
            Some(kept.next())
        } else {
            let next = poll_fn(|cx| {
                loop {
                    if let Poll::Ready(piece) = transport.poll_body(cx) {
                        return Poll::Ready(piece.map(Some).map_err(|_| Broken));
                    }
                    match ready!(conn.poll_answer(cx, beresp)) {
                        SendProgress::Answered => return Poll::Ready(Ok(None)),
                        SendProgress::All | SendProgress::Part | SendProgress::Interim | SendProgress::Begun => {}
                    }
                }
            });
            within(limit, next).await??
        };
        match next {
            None => return Ok(()),
            Some(Some(piece)) => conn.send_data(piece),
            Some(None) => {
                conn.send_end(None);
                is_over = true;
            }
        }
    }
}

/// Makes a response of another version say how it is framed over the client's connection, which ends with it.
fn frame(beresp: &mut Head, body: BodyStatus) -> Result<(), LostHeader> {
    if beresp.proto() == b"HTTP/1.1" {
        return Ok(());
    }
    beresp.set_proto("HTTP/1.1")?;
    if body == BodyStatus::Chunked && !beresp.has(names::TRANSFER_ENCODING) {
        beresp.unset(names::CONTENT_LENGTH);
        beresp.append(names::TRANSFER_ENCODING, "chunked")?;
    }
    beresp.set(names::CONNECTION, "close")
}

async fn download(
    conn: &mut Conn,
    beresp: &mut Head,
    transport: &mut dyn Transport,
    limit: Duration,
    acct: &mut PipeAcct,
) -> Result<(), Broken> {
    let body = loop {
        let received = within(limit, poll_fn(|cx| conn.poll_head(cx, beresp))).await?;
        if let Received::Final { body, .. } = received.map_err(|_| Broken)? {
            break body;
        }
    };
    let Some(tunnel) = transport.take_tunnel() else { return Err(Broken) };
    frame(beresp, body).map_err(|_| Broken)?;
    let mut out = Vec::new();
    beresp.write_to(&mut out);
    loop {
        within(limit, tunnel.stream.write_all(&out, None)).await?.map_err(|_| Broken)?;
        acct.outwards += out.len() as u64;
        if body == BodyStatus::None {
            break;
        }
        match within(limit, poll_fn(|cx| conn.poll_data(cx))).await?.map_err(|_| Broken)? {
            Data::Piece => out = framed(body, conn.data()),
            Data::Part => out.clear(),
            Data::End { .. } => {
                within(limit, tunnel.stream.write_all(framed_end(body), None)).await?.map_err(|_| Broken)?;
                acct.outwards += framed_end(body).len() as u64;
                break;
            }
        }
    }
    tunnel.stream.shutdown_write();
    within(limit, poll_fn(|cx| tunnel.stream.poll_ended(cx))).await
}

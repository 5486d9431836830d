// SPDX-License-Identifier: BSD-2-Clause
//! A client connection from its first byte to its last, whatever version of HTTP it speaks: it is idle and busy in turn, and what
//! it is busy with is the front's ([`h1::run`], [`h2::run`]).
//!
//! An idle connection is this task waiting for readability. It holds no buffer: what came is read, or unsealed, only once there
//! is something, into the buffers of what is lent to it while it is busy ([`rt::Runners`]).

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use engine::sess::ConnectionInfo;
use engine::{Engine, ListenerInfo, Sess, SessTimeouts, contain};
use net::{Address, Stream};
use rt::{Deadline, Instant};
use tables::close::SessClose;

use crate::conn::{ClientConn, CloseState};
use crate::{h1, h2, handshake};

pub struct AcceptedClient {
    pub stream: Stream,
    pub peer: Address,
    pub local: Address,
}

pub(crate) enum SessionOutcome {
    Idle,
    End(SessClose, CloseState),
    /// The connection goes on as HTTP/2, with the request that asked for that if one did.
    Http2(Option<Box<h2::Upgraded>>),
}

pub async fn serve(engine: Arc<Engine>, listener: Arc<ListenerInfo>, accepted: AcceptedClient) {
    let conn = open(&engine, &listener, accepted);
    let sess = conn.sess.clone();
    let (conn, close, state) = match contain::contained(pin!(live(conn))).await {
        Ok((conn, close, state)) => (Some(conn), close, state),
        Err(contain::Panic) => {
            engine.main.req_panic.inc();
            (None, SessClose::Overload, CloseState::default())
        }
    };
    if let Some(mux) = conn.as_ref().and_then(|conn| conn.h2.as_ref()) {
        mux.close();
    }
    sess.close(conn.as_ref().map_or(close, |conn| handshake::why_it_ended(conn, close)));
    if let Some(mut conn) = conn
        && conn.finish(state)
    {
        // Boxed: this task's own future is what every idle connection costs.
        Box::pin(conn.linger()).await;
    }
}

/// Separate from [`serve`] so that its locals don't enlarge every idle connection's task.
fn open(engine: &Arc<Engine>, listener: &Arc<ListenerInfo>, accepted: AcceptedClient) -> Box<ClientConn> {
    let AcceptedClient { stream, peer, local } = accepted;
    let (number, socket, peer_ids) = (stream.number(), stream.socket_number(), stream.peer_ids());
    let connection = ConnectionInfo { remote: peer, local, number, socket, peer_ids };
    Box::new(ClientConn::new(stream, Sess::open(engine, listener, &connection, h1::VERSION)))
}

/// Idle and busy in turn, to the end.
async fn live(mut conn: Box<ClientConn>) -> (Box<ClientConn>, SessClose, CloseState) {
    if (conn.sess.listener.has_proxy_header || conn.sess.listener.is_tls)
        && let Err(close) = Box::pin(begin(&mut conn)).await
    {
        // Who fails to shake hands may be in the midst of saying something.
        let has_input = !conn.input.is_empty() || conn.sess.listener.is_tls;
        return (conn, close, CloseState { has_input, ..CloseState::default() });
    }
    loop {
        if conn.input.is_empty()
            && let Err(close) = idle(&conn).await
        {
            let close = conn.h2.as_ref().map_or(close, |mux| h2::say_goodbye(&conn, mux, close));
            return (conn, close, CloseState::default());
        }
        if conn.sess.engine.requests.admission.refuses_all() {
            // Boxed: see `serve`.
            Box::pin(engine::conn_queue::pass(&conn.sess)).await;
        }
        let (back, outcome) = match conn.h2 {
            None => h1::run(conn).await,
            Some(_) => h2::run(conn).await,
        };
        conn = back;
        match outcome {
            SessionOutcome::Idle => {}
            SessionOutcome::Http2(upgraded) => h2::begin(&mut conn, upgraded),
            SessionOutcome::End(close, state) => return (conn, close, state),
        }
    }
}

async fn begin(conn: &mut ClientConn) -> Result<(), SessClose> {
    if conn.sess.listener.has_proxy_header {
        proxy_header(conn).await?;
    }
    if conn.sess.listener.is_tls {
        crate::handshake::receive(conn).await?;
        let agreed = conn.sess.tls.get().and_then(|info| info.alpn.as_deref());
        if agreed == Some(b"h2") {
            h2::begin(conn, None);
        }
    }
    Ok(())
}

async fn proxy_header(conn: &mut ClientConn) -> Result<(), SessClose> {
    let sess = conn.sess.clone();
    let mut input = std::mem::take(&mut conn.input);
    let result = crate::proxy::receive(conn.stream(), &sess, &mut input).await;
    conn.input = input;
    conn.idle_since = Instant::now();
    result
}

/// Waits for the first byte of a request. By hand, not of futures within futures: each would add to every idle task.
async fn idle(conn: &ClientConn) -> Result<(), SessClose> {
    let SessTimeouts { idle, linger, .. } = conn.sess.timeouts.get();
    let mut lingers = linger < idle;
    let mut deadline = Deadline::since(conn.idle_since, linger.min(idle));
    if let Some(until) = conn.h2.as_ref().and_then(|mux| mux.drain_until()) {
        // The client knows that it ends, and has so long to agree.
        deadline = Deadline::until(until);
    }
    // Only once it has been idle for a while: a busy connection isn't to pay for it.
    let mut place = (!lingers).then(|| conn.idle_slot.take());
    poll_fn(|cx| {
        if has_to_say(conn, cx) {
            return Poll::Ready(Ok(()));
        }
        if let Poll::Ready(readable) = conn.stream().poll_readable(cx) {
            return Poll::Ready(readable.map_err(|_| SessClose::RemClose));
        }
        while deadline.poll(cx).is_ready() {
            if has_to_say(conn, cx) {
                return Poll::Ready(Ok(()));
            }
            if !std::mem::take(&mut lingers) {
                return Poll::Ready(Err(SessClose::RxCloseIdle));
            }
            conn.sess.engine.main.sess_herd.inc();
            place = Some(conn.idle_slot.take());
            deadline = Deadline::until(conn.idle_deadline());
        }
        // Others need its descriptor.
        let called = place.as_ref().is_some_and(|place| place.poll(cx.waker()).is_ready());
        if called { Poll::Ready(Err(SessClose::RxCloseIdle)) } else { Poll::Pending }
    })
    .await
}

fn has_to_say(conn: &ClientConn, cx: &mut Context<'_>) -> bool {
    conn.h2.as_ref().is_some_and(|mux| mux.poll_drain(cx).is_ready())
}

#[cfg(test)]
mod tests;

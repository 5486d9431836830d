// SPDX-License-Identifier: BSD-2-Clause
//! HTTP/3 on the client's side (RFC 9114): a session is a QUIC connection, each of its streams a request in a task of its own.
//!
//! What a connection has in common is its [`Link`]: its task accepts streams, ends it when it is idle, broken or drained, and waits
//! for its requests before the session is over. A request that breaks the protocol for all of them ends the connection there.

mod control;
mod idle;
mod limits;
mod link;
mod open;
mod request;
mod response;
mod transport;

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use engine::{Engine, ListenerInfo};
use net::quic::{ConnectionError, Incoming, ServerConfig};
use tables::close::SessClose;

use idle::Idle;
use link::Link;
pub use link::LinkGroup;
pub(crate) use request::trim;

/// Name in VCL (`req.transport`).
pub(crate) const VERSION: &str = "HTTP/3";

/// A listener's socket as its connections know it.
#[derive(Clone, Copy, Debug)]
pub struct ListenerSocket {
    pub local: std::net::SocketAddr,
    pub number: u32,
}

#[derive(Clone, Debug)]
pub struct Http3Config {
    pub quic: Arc<ServerConfig>,
    pub takes_early_data: bool,
}

pub fn half_open() -> u32 {
    crate::handshake::InProgress::count()
}

/// Serves one connection to its end. `admit` is asked once its address is known to be its own, and gives it its place in the counts,
/// which it keeps as long; nothing: there are too many.
pub async fn serve<S: 'static>(
    engine: Arc<Engine>,
    listener: Arc<ListenerInfo>,
    group: Rc<LinkGroup>,
    own_socket: ListenerSocket,
    (client, config): (Incoming, Http3Config),
    admit: impl FnOnce() -> Option<S> + 'static,
) {
    let opened = open::shake_hands(&engine, &listener, &group, own_socket, (client, config), admit).await;
    let Some((link, mut place)) = opened else { return };
    engine.main.h3_sess.inc();
    group.add(&link);
    let mut living = pin!(live(&link));
    let close = poll_fn(|cx| {
        place.poll(cx);
        living.as_mut().poll(cx)
    })
    .await;
    link.sess.close(close);
}

/// Accepts streams until the connection is over, and waits for its requests.
async fn live(link: &Rc<Link>) -> SessClose {
    control::begin(link);
    let mut requests = pin!(link.conn.accept_bi());
    let mut others = pin!(link.conn.accept_uni());
    let mut idle = Idle::default();
    let ended = poll_fn(|cx| {
        link.wait(cx);
        loop {
            match requests.as_mut().poll(cx) {
                Poll::Ready(Ok((send, recv))) => {
                    requests.set(link.conn.accept_bi());
                    request::begin(link, send, recv);
                    continue;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(error),
                Poll::Pending => {}
            }
            match others.as_mut().poll(cx) {
                Poll::Ready(Ok(recv)) => {
                    others.set(link.conn.accept_uni());
                    control::receive(link, recv);
                    continue;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(error),
                Poll::Pending => {}
            }
            break;
        }
        if link.group.is_draining() {
            link.go_away();
        }
        idle.poll(link, cx);
        Poll::Pending
    })
    .await;
    poll_fn(|cx| {
        link.wait(cx);
        if link.open_requests() == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    link.why_it_ended(&ended)
}

fn is_gone(error: &ConnectionError) -> bool {
    match error {
        ConnectionError::ApplicationClosed(_)
        | ConnectionError::ConnectionClosed(_)
        | ConnectionError::Reset
        | ConnectionError::TimedOut => true,
        ConnectionError::VersionMismatch
        | ConnectionError::TransportError(_)
        | ConnectionError::LocallyClosed
        | ConnectionError::CidsExhausted => false,
    }
}

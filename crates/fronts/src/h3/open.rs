// SPDX-License-Identifier: BSD-2-Clause
//! How a connection begins: its handshake, and its session.
//!
//! Whoever has sent one packet needn't be who its address says, so there is a session, and a record, only once the handshake is done
//! or has failed in a way that the client's own packets show. Early data is taken from who was here before, and a place in the counts is
//! given at the handshake's end in that case, too.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use engine::early::Handshaking;
use engine::sess::ConnectionInfo as SessConnection;
use engine::{Engine, ListenerInfo, Sess};
use http3::Http3ErrorCode;
use net::quic::{Connecting, Connection, ConnectionError, Incoming, VarInt, ZeroRttAccepted};
use net::{Address, HandshakeError, KtlsOutcome};
use rt::Instant;
use tables::close::SessClose;

use super::link::{Link, LinkGroup};
use super::{Http3Config, ListenerSocket, VERSION};
use crate::handshake::{HandshakeFailure, InProgress, report};

/// QUIC's errors from here to here are TLS's alerts (RFC 9001 4.8).
const CRYPTO_ERRORS: std::ops::RangeInclusive<u64> = 0x100..=0x1ff;

/// Bytes that a handshake may hold: a connection of quinn's, a hello, what came of it out of order, rustls' state. In
/// the sum that those over TCP have, too.
const HANDSHAKE_BYTES: usize = 64 * 1024;

/// A client's place in the counts, as `admit` gives it once its address is known to be its own.
pub(super) enum ClientPlace<S> {
    /// Nothing: its connection ends.
    Known(Option<S>),
    /// Early data came first: the place comes at the end of a successful handshake.
    Awaited(Pin<Box<dyn Future<Output = Option<S>>>>),
}

impl<S> ClientPlace<S> {
    /// Takes it as soon as it can be had.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        if let ClientPlace::Awaited(end) = self
            && let Poll::Ready(place) = end.as_mut().poll(cx)
        {
            *self = ClientPlace::Known(place);
        }
    }
}

/// Carries out the handshake, and has its client admitted, whose address is known by then; nothing where that failed. Where there is
/// early data that is left for later, so that it is answered at once.
pub(super) async fn shake_hands<S: 'static>(
    engine: &Arc<Engine>,
    listener: &Arc<ListenerInfo>,
    group: &Rc<LinkGroup>,
    own_socket: ListenerSocket,
    (client, config): (Incoming, Http3Config),
    admit: impl FnOnce() -> Option<S> + 'static,
) -> Option<(Rc<Link>, ClientPlace<S>)> {
    let begun = InProgress::begin().and_then(|mut one| one.hold(HANDSHAKE_BYTES).map(|()| one));
    let Ok(in_progress) = begun else {
        engine.main.sess_dropped.inc();
        client.refuse();
        return None;
    };
    let deadline = Instant::now() + engine.params.load().tls_handshake_timeout;
    let (remote, local_ip) = (client.remote_address(), client.local_ip());
    let local = std::net::SocketAddr::new(local_ip.unwrap_or(own_socket.local.ip()), own_socket.local.port());
    let open = || {
        let (remote, local) = (Address::inet(remote), Address::inet(local));
        let connection = SessConnection { remote, local, number: own_socket.number, socket: None, peer_ids: None };
        Sess::open(engine, listener, &connection, VERSION)
    };
    match rt::timeout_at(deadline, begin(client, config)).await {
        Ok(Ok((conn, None))) => {
            let Some(place) = admit() else {
                refuse(&conn);
                return None;
            };
            let sess = open();
            note_tls(&conn, &sess);
            Some((Link::new(conn, sess, group.clone(), None), ClientPlace::Known(Some(place))))
        }
        Ok(Ok((conn, Some(end)))) => {
            let sess = open();
            note_tls(&conn, &sess);
            let handshaking = Rc::<Handshaking>::default();
            let link = Link::new(conn, sess, group.clone(), Some(handshaking.clone()));
            let early = Early { link: link.clone(), handshaking, end, deadline, _in_progress: in_progress };
            Some((link, ClientPlace::Awaited(Box::pin(early.end(admit)))))
        }
        Ok(Err(error)) => {
            if let Some(failure) = failure(&error) {
                let sess = open();
                report::failed(&sess, &failure);
                sess.close(SessClose::RxBad);
            }
            None
        }
        Err(rt::Elapsed) => {
            engine.main.tls_fail.inc();
            engine.main.tls_fail_timeout.inc();
            None
        }
    }
}

/// A connection whose handshake is done; or one that has early data, and the handshake's end.
async fn begin(
    client: Incoming,
    config: Http3Config,
) -> Result<(Connection, Option<ZeroRttAccepted>), ConnectionError> {
    // Most hellos come whole, and are judged at once.
    let mut client = client.accept_with(config.quic)?;
    if !config.takes_early_data || !has_early_data(&mut client).await? {
        return Ok((client.await?, None));
    }
    match client.into_0rtt() {
        Ok((conn, end)) => Ok((conn, Some(end))),
        Err(client) => Ok((client.await?, None)),
    }
}

async fn has_early_data(client: &mut Connecting) -> Result<bool, ConnectionError> {
    Ok(client.handshake_data().await?.downcast::<tls::HandshakeInfo>().is_ok_and(|info| info.early_data))
}

/// A connection that serves early data while its handshake goes on, and counts as one in progress until then.
struct Early {
    link: Rc<Link>,
    handshaking: Rc<Handshaking>,
    end: ZeroRttAccepted,
    deadline: Instant,
    _in_progress: InProgress,
}

impl Early {
    /// Waits for the handshake's end, has the client admitted, and tells the requests.
    async fn end<S>(self, admit: impl FnOnce() -> Option<S>) -> Option<S> {
        let (conn, main) = (&self.link.conn, self.link.sess.engine.main);
        if rt::timeout_at(self.deadline, self.end).await.is_err() {
            main.tls_fail_timeout.inc();
            self.link.end(SessClose::RxBad);
        }
        let place = match conn.close_reason() {
            Some(_) => {
                main.tls_fail.inc();
                None
            }
            None => admit(),
        };
        if place.is_none() {
            refuse(conn);
        }
        self.handshaking.end(place.is_some());
        place
    }
}

/// Too many have come, of that address or in all. Does nothing to a connection that has ended otherwise.
fn refuse(conn: &Connection) {
    conn.close(VarInt::from_u32(Http3ErrorCode::ExcessiveLoad.number()), b"Too many connections");
}

fn note_tls(conn: &Connection, sess: &Sess) {
    let Some(info) = conn.handshake_data().and_then(|data| data.downcast::<tls::HandshakeInfo>().ok()) else { return };
    report::done(sess, &info, &KtlsOutcome::Unasked);
    // A session has one handshake.
    let _ = sess.tls.set(info);
}

/// The failure to log for a handshake; `None` if the client just went away.
#[expect(clippy::wildcard_enum_match_arm, reason = "quinn's errors")]
fn failure(error: &ConnectionError) -> Option<HandshakeFailure> {
    let (code, reason, is_ours) = match error {
        ConnectionError::TransportError(error) => (u64::from(error.code), error.reason.clone(), true),
        ConnectionError::ConnectionClosed(close) => (u64::from(close.error_code), String::new(), false),
        _ => return None,
    };
    let error = match u8::try_from(code & 0xff) {
        Ok(alert) if CRYPTO_ERRORS.contains(&code) => tls::quic::failure(alert, is_ours, &reason),
        _ => tls::TlsError::new(tls::ErrorKind::Protocol, error.to_string()),
    };
    Some(HandshakeFailure::Handshake(HandshakeError::Tls(error)))
}

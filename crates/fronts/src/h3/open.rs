// SPDX-License-Identifier: BSD-2-Clause
//! How a connection begins: its handshake, and its session.
//!
//! Whoever has sent one packet needn't be who its address says, so there is a session, and a record, only once the handshake is done
//! or has failed in a way that the client's own packets show.

use std::rc::Rc;
use std::sync::Arc;

use engine::sess::Connection as SessConnection;
use engine::{Engine, ListenerInfo, Sess};
use http3::Code;
use net::quic::{Connection, ConnectionError, Incoming, ServerConfig, VarInt};
use net::{Address, HandshakeError, KernelTls};
use rt::Instant;
use tables::close::SessClose;

use super::link::{Group, Link};
use super::{Seat, VERSION};
use crate::handshake::{Failure, InProgress, report};

/// QUIC's errors from here to here are TLS's alerts (RFC 9001 4.8).
const CRYPTO_ERRORS: std::ops::RangeInclusive<u64> = 0x100..=0x1ff;

/// What a handshake may hold: a connection of quinn's, a hello, what came of it out of order, rustls' state. In the sum that those over
/// TCP have, too.
const HANDSHAKE_BYTES: usize = 64 * 1024;

/// Carries out the handshake, and has its client admitted, whose address is known by then; nothing where that failed.
pub(super) async fn shake_hands<S>(
    engine: &Arc<Engine>,
    listener: &Arc<ListenerInfo>,
    group: &Rc<Group>,
    seat: Seat,
    (client, config): (Incoming, Arc<ServerConfig>),
    admit: impl FnOnce() -> Option<S>,
) -> Option<(Rc<Link>, S)> {
    let begun = InProgress::begin().and_then(|mut one| one.hold(HANDSHAKE_BYTES).map(|()| one));
    let Ok(_in_progress) = begun else {
        engine.main.sess_dropped.inc();
        client.refuse();
        return None;
    };
    let deadline = Instant::now() + engine.params.load().tls_handshake_timeout;
    let (remote, local_ip) = (client.remote_address(), client.local_ip());
    let local = std::net::SocketAddr::new(local_ip.unwrap_or(seat.local.ip()), seat.local.port());
    let open = || {
        let (remote, local) = (Address::inet(remote), Address::inet(local));
        let connection = SessConnection { remote, local, number: seat.number, socket: None, peer_ids: None };
        Sess::open(engine, listener, &connection, VERSION)
    };
    // Most hellos come whole, and are judged at once.
    let done = match client.accept_with(config) {
        Ok(client) => rt::timeout_at(deadline, client).await,
        Err(error) => Ok(Err(error)),
    };
    match done {
        Ok(Ok(conn)) => {
            let Some(place) = admit() else {
                conn.close(VarInt::from_u32(Code::ExcessiveLoad.number()), b"Too many connections");
                return None;
            };
            let sess = open();
            note_tls(&conn, &sess);
            Some((Link::new(conn, sess, group.clone()), place))
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

/// Puts down what the handshake agreed on.
fn note_tls(conn: &Connection, sess: &Sess) {
    let Some(info) = conn.handshake_data().and_then(|data| data.downcast::<tls::Info>().ok()) else { return };
    report::done(sess, &info, &KernelTls::Unasked);
    // A session has one handshake.
    let _ = sess.tls.set(info);
}

/// What the log says of a handshake that failed; nothing if the client just went away.
fn failure(error: &ConnectionError) -> Option<Failure> {
    let (code, reason, is_ours) = match error {
        ConnectionError::TransportError(error) => (u64::from(error.code), error.reason.clone(), true),
        ConnectionError::ConnectionClosed(close) => (u64::from(close.error_code), String::new(), false),
        _ => return None,
    };
    let error = match u8::try_from(code & 0xff) {
        Ok(alert) if CRYPTO_ERRORS.contains(&code) => tls::quic::failure(alert, is_ours, &reason),
        _ => tls::Error::new(tls::ErrorKind::Protocol, error.to_string()),
    };
    Some(Failure::Handshake(HandshakeError::Tls(error)))
}

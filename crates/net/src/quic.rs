// SPDX-License-Identifier: BSD-2-Clause
//! QUIC endpoints on sockets that the manager made (`sys::udp::bind_steered`): one for each socket, each on a thread of its own. The
//! only module that drives quinn; who serves connections sees its streams.
//!
//! A connection stays on its thread: the ids that it gives its client name the socket, also when the client's address changes.

use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use quinn::{AsyncTimer, AsyncUdpSocket, ConnectionId, ConnectionIdGenerator, EndpointConfig, Runtime, TokioRuntime};
pub use quinn::{
    ClosedStream, Connecting, Connection, ConnectionError, Endpoint, Incoming, ReadError, RecvStream, SendStream,
    ServerConfig, StoppedError, VarInt, WriteError, ZeroRttAccepted,
};
use quinn::{IdleTimeout, QlogConfig, TransportConfig};
use quinn_proto::InvalidCid;
use tls::quic::{QuicKeys, QuicServer, VERSION_NUMBER};

const ID_BYTES: usize = 8;
/// Streams in one direction that a client may have at once: control, QPACK's two, and some that nobody knows.
const MAX_UNI_STREAMS: u8 = 8;
/// Handshakes that nobody has looked at yet: each may hold a client's first packets.
const MAX_INCOMING: usize = 1024;
/// Bytes that those may hold, each and all together.
const INCOMING_BYTES: u64 = 16 * 1024;
const INCOMING_BYTES_TOTAL: u64 = 4 << 20;
/// Bytes of a handshake that may come out of order.
const CRYPTO_BYTES: usize = 16 * 1024;

/// Between two packets that get a stateless reset, of an endpoint: the clients of a worker that died come all at once, and each of them that
/// isn't told tries again later and later. A reset is shorter than what it answers, so that it is of no use to who forges senders.
const RESET_PAUSE: Duration = Duration::from_micros(200);

/// Workers that may have died, one after the other, beside one that leaves: so many later is one that has its sockets.
const MAX_DEATHS: u16 = 8;

/// Socket of an endpoint among those of a listener, and its worker.
#[derive(Clone, Debug)]
pub struct GroupSocket {
    /// Number of the socket in the order of binding.
    pub member: usize,
    /// Number of sockets; at most 128, so that each has several first bytes.
    pub members: usize,
    /// The worker's, so that its connections can be told from those of another.
    pub life: u16,
    /// Set once a packet comes that belongs to a worker after the next one: two share the sockets, and a third needs ours.
    pub is_superseded: Arc<AtomicBool>,
    /// True if there is no other worker: ids that aren't ours then belong to one that is gone, and are answered with a
    /// reset.
    pub is_alone: Arc<AtomicBool>,
}

/// Limits of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuicLimits {
    /// Most requests at once.
    pub streams: u32,
    /// Bytes of one request's body that nobody has read.
    pub stream_window: u32,
    /// The same of all of them.
    pub window: u32,
    /// Bytes sent, or to be sent, that the client hasn't confirmed.
    pub send_window: u32,
    /// Time without a sign of life after which it is over.
    pub idle: Duration,
}

/// Begins to receive on the socket `fd`.
///
/// # Errors
/// It isn't a UDP socket, or can't be registered.
pub fn listen(fd: OwnedFd, own_socket: GroupSocket, keys: &QuicKeys, config: ServerConfig) -> io::Result<Endpoint> {
    let socket = UdpSocket::from(fd);
    socket.set_nonblocking(true)?;
    listen_on(Tasks.wrap_udp_socket(socket)?, own_socket, keys, config)
}

/// The same as [`listen`], on what carries datagrams in a socket's place.
///
/// # Errors
/// The socket's local address can't be read.
pub fn listen_on(
    socket: Arc<dyn AsyncUdpSocket>,
    own_socket: GroupSocket,
    keys: &QuicKeys,
    config: ServerConfig,
) -> io::Result<Endpoint> {
    Endpoint::new_with_abstract_socket(endpoint_config(own_socket, keys), Some(config), socket, Arc::new(Tasks))
}

/// A client's endpoint, on what carries datagrams in a socket's place.
///
/// # Errors
/// The socket's local address can't be read.
pub fn client_on(socket: Arc<dyn AsyncUdpSocket>) -> io::Result<Endpoint> {
    Endpoint::new_with_abstract_socket(EndpointConfig::default(), None, socket, Arc::new(Tasks))
}

fn endpoint_config(own_socket: GroupSocket, keys: &QuicKeys) -> EndpointConfig {
    let mut endpoint = EndpointConfig::new(keys.reset.clone());
    endpoint.supported_versions(vec![VERSION_NUMBER]);
    endpoint.min_reset_interval(RESET_PAUSE);
    endpoint.cid_generator(move || Box::new(Ids(own_socket.clone())));
    endpoint
}

/// The settings of connections from now on. With `qlog` their events are written there: each that is to have one needs
/// a configuration of its own.
pub fn config(
    server: &Arc<QuicServer>,
    keys: &QuicKeys,
    limits: &QuicLimits,
    qlog: Option<Box<dyn io::Write + Send + Sync>>,
) -> ServerConfig {
    let mut config = ServerConfig::new(server.clone(), keys.token.clone());
    config.max_incoming(MAX_INCOMING);
    config.incoming_buffer_size(INCOMING_BYTES);
    config.incoming_buffer_size_total(INCOMING_BYTES_TOTAL);
    let mut transport = transport(limits);
    if let Some(file) = qlog {
        let mut writing = QlogConfig::default();
        writing.writer(file);
        transport.qlog_stream(writing.into_stream());
    }
    config.transport_config(Arc::new(transport));
    config
}

fn transport(limits: &QuicLimits) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(limits.streams.into());
    transport.max_concurrent_uni_streams(MAX_UNI_STREAMS.into());
    transport.stream_receive_window(limits.stream_window.into());
    transport.receive_window(limits.window.into());
    transport.send_window(limits.send_window.into());
    transport.max_idle_timeout(IdleTimeout::try_from(limits.idle).ok());
    transport.crypto_buffer_size(CRYPTO_BYTES);
    // No datagrams: nobody has a use for them.
    transport.datagram_receive_buffer_size(None);
    transport
}

/// Frames of a connection, since it began, that cost who sends them little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// PING, and what else asks for an answer at once.
    pub pings: u64,
    /// Frames about paths and connection ids, and our own challenges: one for each address that the client comes from.
    pub paths: u64,
    /// Frames that change windows, or ask for larger ones.
    pub windows: u64,
    /// STOP_SENDING and RESET_STREAM frames.
    pub stops: u64,
    /// Data frames, either way.
    pub data: u64,
}

/// The counts so far. Frames that quinn itself bounds aren't here: how many ids and answers to challenges it keeps.
pub fn frames(conn: &Connection) -> Frames {
    let stats = conn.stats();
    let (came, went) = (stats.frame_rx, stats.frame_tx);
    Frames {
        pings: came.ping + came.immediate_ack + came.ack_frequency,
        paths: came.path_challenge + came.new_connection_id + came.retire_connection_id + went.path_challenge,
        windows: came.max_data
            + came.max_stream_data
            + came.max_streams_bidi
            + came.max_streams_uni
            + came.data_blocked
            + came.stream_data_blocked
            + came.streams_blocked_bidi
            + came.streams_blocked_uni,
        stops: came.stop_sending + came.reset_stream,
        data: came.stream + went.stream,
    }
}

/// Makes connection ids: the first byte names the socket, the next two the worker, the rest is random.
struct Ids(GroupSocket);

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; ID_BYTES];
        // Without random numbers no connection could be encrypted either.
        getrandom::fill(&mut id).expect("the system has random numbers");
        let (member, members) = (self.0.member, self.0.members);
        let first = usize::from(id[0]) / members * members + member;
        id[0] = if first < 256 { first } else { first - members } as u8;
        id[1..3].copy_from_slice(&self.0.life.to_be_bytes());
        ConnectionId::new(&id)
    }

    /// Checks an id that no connection here has: `Ok` if its connection may be another worker's, so that no reset is
    /// sent.
    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        let &[first, high, low, ..] = &**id else { return Err(InvalidCid) };
        let life = u16::from_be_bytes([high, low]);
        let is_later = (2..2 + MAX_DEATHS).contains(&life.wrapping_sub(self.0.life));
        if is_later && !self.0.is_alone.load(Ordering::Relaxed) {
            self.0.is_superseded.store(true, Ordering::Relaxed);
        }
        let is_here = usize::from(first) % self.0.members == self.0.member;
        let is_ours = life == self.0.life || self.0.is_alone.load(Ordering::Relaxed);
        if is_here && is_ours { Ok(()) } else { Err(InvalidCid) }
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[derive(Debug)]
struct Tasks;

impl Runtime for Tasks {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer { sleep: rt::sleep_until(at.into()) })
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        rt::spawn(task);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        rt::Instant::now().into_std()
    }
}

pin_project_lite::pin_project! {
    #[derive(Debug)]
    struct Timer {
        #[pin]
        sleep: rt::Sleep,
    }
}

impl AsyncTimer for Timer {
    fn reset(self: Pin<&mut Self>, at: Instant) {
        self.project().sleep.reset(at.into());
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Future::poll(self.project().sleep, cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_name_their_socket_and_worker() {
        for members in [1, 2, 3, 5, 128] {
            for member in 0..members {
                let own_socket = |life, is_alone: bool| GroupSocket {
                    member,
                    members,
                    life,
                    is_superseded: Arc::default(),
                    is_alone: Arc::new(AtomicBool::new(is_alone)),
                };
                let (mut ids, other, alone) =
                    (Ids(own_socket(300, false)), Ids(own_socket(301, false)), Ids(own_socket(301, true)));
                for _ in 0..50 {
                    let id = ids.generate_cid();
                    assert_eq!((id.len(), usize::from(id[0]) % members), (ids.cid_len(), member));
                    assert!(!ids.0.is_superseded.load(Ordering::Relaxed));
                    for (later, is_after_next) in [(299, false), (301, false), (302, true), (303, true), (400, false)] {
                        let _ = ids.validate(&Ids(own_socket(later, false)).generate_cid());
                        assert_eq!(ids.0.is_superseded.swap(false, Ordering::Relaxed), is_after_next, "{later}");
                    }
                    assert!(ids.validate(&id).is_ok() && other.validate(&id).is_err() && alone.validate(&id).is_ok());
                }
            }
        }
    }
}

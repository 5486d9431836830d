// SPDX-License-Identifier: BSD-2-Clause
//! Idle connections, one list per endpoint, newest first, shared by all threads.
//!
//! An idle connection stays with the runtime of the thread that used it last; another thread that takes it registers it
//! with its own. Who takes it sees first whether the peer closed or sent something unasked: where the connection's runtime
//! would have heard of that, a system call is made only for a request that can't be sent a second time. A sweep closes
//! those that are too old.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use base::Mono;
use base::lock::{Mutex, MutexGuard};
use net::{Address, IdleState, ParkedStream, Stream};
use shm::vsl::num::{self, Digits, dec};
use tables::counters::Vcp;
use tables::origin_proto::OriginProto;
use tables::proxy_error::ProxyError;

use crate::endpoint::Endpoint;
use crate::error::{ConnOpenError, EPROTO};
use crate::names::ResolvedName;
use crate::sealing::TlsPeer;

/// Maximum number of a pool's connections that one sweep checks: each is a system call under the lock.
const MAX_SWEEP: usize = 64;

/// Number of the newest connections that are searched for one on this thread's runtime. Changing the runtime takes three system calls.
const NEAR: usize = 32;

#[derive(Default)]
pub(crate) struct EndpointPools {
    by_endpoint: Mutex<HashMap<Endpoint, Weak<EndpointPool>>>,
}

impl EndpointPools {
    /// The pool of an endpoint, shared by backends of several VCLs. It is dropped with its last backend.
    pub(crate) fn pool(
        &self,
        endpoint: &Endpoint,
        name: Option<Arc<ResolvedName>>,
        counters: &Vcp,
    ) -> Arc<EndpointPool> {
        let mut pools = self.by_endpoint.lock();
        if let Some(pool) = pools.get(endpoint).and_then(Weak::upgrade) {
            counters.ref_hit.inc();
            return pool;
        }
        counters.ref_miss.inc();
        pools.retain(|_, pool| pool.strong_count() > 0);
        LOCKS.made.fetch_add(1, Relaxed);
        let pool = Arc::new(EndpointPool::new(endpoint.clone(), name));
        pools.insert(endpoint.clone(), Arc::downgrade(&pool));
        pool
    }

    fn all(&self) -> Vec<Arc<EndpointPool>> {
        self.by_endpoint.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// Closes connections that were idle for `limit` (zero: any time) or that the peer has closed.
    pub(crate) fn close_idle(&self, now: Mono, limit: Duration) -> usize {
        self.all().iter().map(|pool| pool.close_idle(now, limit)).sum()
    }

    pub(crate) fn idle(&self) -> usize {
        self.all().iter().map(|pool| pool.lock().idle.len()).sum()
    }
}

pub(crate) struct EndpointPool {
    /// A number that no other pool has or had.
    pub(crate) id: u64,
    pub(crate) endpoint: Endpoint,
    pub(crate) name: Option<Arc<ResolvedName>>,
    pub(crate) tls: Option<TlsPeer>,
    /// The version that an origin with a choice chose last.
    chosen: AtomicU8,
    wants_http1: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Http1,
    Http2,
    /// The origin will choose the version.
    Either,
}

impl Expected {
    const CHOICES: [Self; 3] = [Self::Either, Self::Http1, Self::Http2];
}

#[derive(Default)]
struct Inner {
    /// Oldest first. Connections are taken from the end.
    idle: Vec<Idle>,
    /// Position at which the last sweep stopped.
    swept: usize,
    holddown: Option<(Mono, i32)>,
}

struct Idle {
    stream: ParkedStream,
    label: Box<PeerLabel>,
    since: Mono,
}

#[derive(Debug)]
pub(crate) struct PeerLabel {
    pub peer: Address,
    is_here: bool,
    /// Descriptor, remote and local address, as BackendOpen records have them.
    text: Box<[u8]>,
    fd_len: usize,
    tls: Option<Box<tls::HandshakeInfo>>,
    since: Mono,
    /// Number of uses after the first one.
    reuses: AtomicU64,
}

impl PeerLabel {
    pub fn new(stream: &Stream, tls: Option<Box<tls::HandshakeInfo>>, now: Mono) -> Box<Self> {
        Self::between(stream.number(), stream.peer(), stream.local(), tls, now)
    }

    /// The label of an exchange without a connection.
    pub fn none() -> Box<Self> {
        Self::between(0, Address::Unix, Address::Unix, None, Mono::default())
    }

    fn between(fd: u32, peer: Address, local: Address, tls: Option<Box<tls::HandshakeInfo>>, since: Mono) -> Box<Self> {
        let fd = dec(u64::from(fd));
        let text = [fd.as_bytes(), b" ", peer.text().ip_port(), b" ", local.text().ip_port()].concat();
        let is_here = match (peer, local) {
            (Address::Inet(peer), Address::Inet(local)) => peer.ip().is_loopback() || peer.ip() == local.ip(),
            (Address::Unix, _) | (_, Address::Unix) => false,
        };
        Box::new(Self {
            peer,
            is_here,
            text: text.into(),
            fd_len: fd.as_bytes().len(),
            tls,
            since,
            reuses: AtomicU64::new(0),
        })
    }

    pub fn here(&self) -> Option<SocketAddr> {
        match self.peer {
            Address::Inet(peer) if self.is_here => Some(peer),
            Address::Inet(_) | Address::Unix => None,
        }
    }

    pub fn tls(&self) -> Option<&tls::HandshakeInfo> {
        self.tls.as_deref()
    }

    pub fn fd(&self) -> &[u8] {
        &self.text[..self.fd_len]
    }

    pub fn count_use(&self, is_reused: bool) {
        if is_reused {
            self.reuses.fetch_add(1, Relaxed);
        }
    }

    /// Age in seconds and number of reuses, as BackendOpen records of release 9 end.
    pub fn life(&self, now: Mono) -> (Digits, Digits) {
        (num::fixed6(now.since(self.since)), num::dec(self.reuses.load(Relaxed)))
    }

    pub fn addresses(&self) -> &[u8] {
        &self.text[self.fd_len..]
    }
}

/// The locks of pools, for the counters `LCK.conn_pool`.
#[derive(Debug)]
pub struct Locks {
    pub made: AtomicU64,
    /// Number of locks that are gone with their pool.
    pub gone: AtomicU64,
    pub taken: AtomicU64,
}

pub static LOCKS: Locks = Locks { made: AtomicU64::new(0), gone: AtomicU64::new(0), taken: AtomicU64::new(0) };

impl Drop for EndpointPool {
    fn drop(&mut self) {
        LOCKS.gone.fetch_add(1, Relaxed);
    }
}

impl EndpointPool {
    /// The pool of a backend without an endpoint. It stays empty.
    pub(crate) fn alone() -> Arc<EndpointPool> {
        LOCKS.made.fetch_add(1, Relaxed);
        Arc::new(EndpointPool::new(Endpoint::default(), None))
    }

    fn new(endpoint: Endpoint, name: Option<Arc<ResolvedName>>) -> EndpointPool {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Relaxed);
        let tls = endpoint.tls.as_ref().map(|origin| TlsPeer::new(origin, endpoint.proto));
        EndpointPool {
            id,
            endpoint,
            name,
            tls,
            chosen: AtomicU8::new(0),
            wants_http1: AtomicBool::new(false),
            inner: Mutex::default(),
        }
    }

    pub(crate) fn expected(&self) -> Expected {
        match self.endpoint.proto {
            OriginProto::Http1 => Expected::Http1,
            OriginProto::Http2 => Expected::Http2,
            OriginProto::Auto if self.wants_http1() => Expected::Http1,
            OriginProto::Auto => Expected::CHOICES[usize::from(self.chosen.load(Relaxed))],
        }
    }

    /// Notes that an origin which has chosen HTTP/2 requires HTTP/1.1 (RFC 9113 7).
    pub(crate) fn refuses_http2(&self) {
        self.wants_http1.store(true, Relaxed);
    }

    pub(crate) fn wants_http1(&self) -> bool {
        self.wants_http1.load(Relaxed)
    }

    /// Records the origin's choice on a new connection. Returns whether it uses HTTP/2.
    ///
    /// # Errors
    /// The origin was to speak HTTP/2, and doesn't.
    pub(crate) fn take_choice(&self, tls: Option<&tls::HandshakeInfo>) -> Result<bool, ConnOpenError> {
        let is_http2 = tls.is_some_and(|info| info.alpn.as_deref() == Some(b"h2"));
        match self.endpoint.proto {
            OriginProto::Http1 => Ok(false),
            OriginProto::Http2 if is_http2 || tls.is_none() => Ok(true),
            OriginProto::Http2 => {
                let reason = "the backend has not chosen h2 (ALPN)".to_owned();
                Err(ConnOpenError::Tls(EPROTO, ProxyError::TlsProtocolError, reason))
            }
            OriginProto::Auto => {
                self.chosen.store(if is_http2 { 2 } else { 1 }, Relaxed);
                Ok(is_http2)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        LOCKS.taken.fetch_add(1, Relaxed);
        self.inner.lock()
    }

    /// Takes an idle connection that the peer has neither closed nor sent anything on. It is the newest, but this thread's newest if that
    /// is among the last [`NEAR`]. The system is asked for the peer's actions only for a `no_resend` request.
    pub(crate) fn take(&self, no_resend: bool) -> Option<(Stream, Box<PeerLabel>)> {
        let here = rt::home();
        loop {
            let idle = {
                let idle = &mut self.lock().idle;
                let own = idle.iter().rev().take(NEAR).position(|idle| idle.stream.is_home(here));
                idle.remove(idle.len().checked_sub(1 + own.unwrap_or(0))?)
            };
            // Checked outside the lock, since it may be a system call. Unusable connections are closed here.
            if self.is_current(&idle.label)
                && (if no_resend { idle.stream.pending() } else { idle.stream.heard() }) == IdleState::Nothing
                && let Ok(stream) = idle.stream.unpark()
            {
                return Some((stream, idle.label));
            }
        }
    }

    pub(crate) fn is_current(&self, label: &PeerLabel) -> bool {
        match (&self.name, label.peer) {
            (Some(name), Address::Inet(addr)) => name.has(addr),
            (Some(_), Address::Unix) | (None, _) => true,
        }
    }

    pub(crate) fn put(&self, stream: Stream, label: Box<PeerLabel>, now: Mono) {
        self.lock().idle.push(Idle { stream: stream.park(), label, since: now });
    }

    fn close_idle(&self, now: Mono, limit: Duration) -> usize {
        let mut gone: Vec<Idle> = Vec::new();
        {
            let mut inner = self.lock();
            let is_old = |idle: &Idle| !limit.is_zero() && now.since(idle.since) >= limit.as_secs_f64();
            let old = inner.idle.iter().take_while(|idle| is_old(idle)).count();
            gone.extend(inner.idle.drain(..old));
            let mut at = if inner.swept < inner.idle.len() { inner.swept } else { 0 };
            for _ in 0..MAX_SWEEP.min(inner.idle.len()) {
                match inner.idle.get(at) {
                    Some(idle) if self.is_current(&idle.label) && idle.stream.pending() == IdleState::Nothing => {
                        at += 1
                    }
                    Some(_) => gone.push(inner.idle.remove(at)),
                    None => break,
                }
            }
            inner.swept = at;
        }
        // Closed after unlocking.
        gone.len()
    }

    /// The error of a recent connection attempt, after which no other one is made yet.
    pub(crate) fn held_down(&self, now: Mono) -> Option<i32> {
        let mut inner = self.lock();
        let (until, errno) = inner.holddown?;
        if now.since(until) >= 0.0 {
            inner.holddown = None;
            return None;
        }
        Some(errno)
    }

    /// Forbids attempts for `hold` from now on. An earlier end isn't moved.
    pub(crate) fn hold_down(&self, now: Mono, hold: Duration, errno: i32) {
        let until = now.plus(hold.as_secs_f64());
        let mut inner = self.lock();
        match inner.holddown {
            Some((old, _)) if old.since(until) <= 0.0 => {}
            _ => inner.holddown = Some((until, errno)),
        }
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! A thread's endpoints for QUIC: connections come in, are counted and, where too many are half open, asked to show that their address
//! is theirs.

mod qlog;

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use cli::handoff::WorkerStart;
use engine::ListenerInfo;
use fronts::h3;
use net::Address;
use net::quic::{Endpoint, Incoming, QuicLimits, ServerConfig, VarInt};
use params::Params;
use parking_lot::Mutex;
use shm::vsm::SetOwner;
use sys::sock::{SocketName, local_name};
use sys::udp::{self, Steering, steer};
use tables::counters::Main;
use tls::early::{EarlyData, EarlySessions};
use tls::quic::{QuicKeys, QuicServer};

use self::qlog::{QlogFile, Qlogs};
use crate::serving::{ConnectionSlot, ServingSocket};
use crate::worker::Worker;

const ACCEPT_BATCH: usize = 16;

/// Interval at which a leaving worker looks if its sockets are another's, or the process ends.
const LOOK: Duration = Duration::from_millis(50);
/// Time that the last packets of an endpoint have for their way to the kernel.
const LAST_PACKETS: Duration = Duration::from_millis(20);
/// Code H3_NO_ERROR (RFC 9114, 8.1).
const H3_NO_ERROR: u32 = 0x100;

pub fn listen(worker: &Arc<Worker>, socket: ServingSocket) -> Result<(), String> {
    let ServingSocket { info, fd, member: (member, members) } = socket;
    let failed = |error: std::io::Error| format!("{}: {error}", info.name);
    let start = worker.start.quic.ok_or("the manager says nothing of QUIC")?;
    let SocketName::Inet(local) = local_name(&fd).map_err(failed)? else {
        return Err("not a socket for UDP".to_owned());
    };
    let own_socket = h3::ListenerSocket { local, number: fd.as_raw_fd() as u32 };
    let engine = worker.engine.clone();
    let server =
        QuicServer::new(engine.sessions.certificates.clone(), &info.frontend, move || engine.params.load().tls_ja3);
    let server = Arc::new(server.map_err(|error| format!("{}: {error}", info.name))?);
    let params = worker.engine.params.load_full();
    let keys = QuicKeys::new(&start.secret);
    let early = worker.quic.early.clone();
    let config = configure(&server, &keys, &params, &early, None);
    let is_superseded = Arc::<AtomicBool>::default();
    let is_alone = worker.quic.is_alone.clone();
    let ids =
        net::quic::GroupSocket { member, members, life: start.life, is_superseded: is_superseded.clone(), is_alone };
    worker.quic.watch(&fd, worker.engine.main).map_err(failed)?;
    let endpoint = net::quic::listen(fd, ids, &keys, ServerConfig::clone(&config.quic)).map_err(failed)?;
    let settings = Settings { server, keys, params, config, early, is_superseded };
    rt::spawn(accept(worker.clone(), info, endpoint, own_socket, settings));
    Ok(())
}

#[derive(Debug)]
pub struct WorkerQuic {
    /// Keys from the manager; `None` where there is no listener for QUIC.
    start: Option<cli::handoff::QuicStart>,
    /// True while no other worker has the sockets ([`net::quic::GroupSocket::is_alone`]).
    is_alone: Arc<AtomicBool>,
    /// A socket of each group, and how many of them each worker has.
    groups: Mutex<Vec<(OwnedFd, usize)>>,
    /// Sessions of all its threads, so that each is good once.
    early: Arc<EarlySessions>,
    /// Sockets, and the number of datagrams that each had dropped at the last look.
    watched: Mutex<Vec<(OwnedFd, u32)>>,
    qlogs: Qlogs,
}

impl WorkerQuic {
    pub fn new(start: &WorkerStart) -> Self {
        WorkerQuic {
            start: start.quic,
            is_alone: Arc::new(start.succession.former_fd.is_none().into()),
            groups: Mutex::default(),
            early: Arc::default(),
            watched: Mutex::default(),
            qlogs: Qlogs::new(SetOwner::Worker.dir_name()),
        }
    }

    fn watch(&self, socket: &OwnedFd, main: &Main) -> io::Result<()> {
        let buffer = udp::receive_buffer(socket)? as u64;
        let mut watched = self.watched.lock();
        let smallest = if watched.is_empty() { buffer } else { buffer.min(main.h3_udp_buffer.get()) };
        main.h3_udp_buffer.set(smallest);
        watched.push((sys::fd::duplicate(socket.as_fd())?, udp::drops(socket)?));
        Ok(())
    }

    /// Counts what the kernel has dropped since the last time.
    pub fn count_drops(&self, main: &Main) {
        for (socket, before) in &mut *self.watched.lock() {
            let now = udp::drops(&*socket).unwrap_or(*before);
            main.h3_udp_drops.add(now.wrapping_sub(*before).into());
            *before = now;
        }
    }

    /// This worker's of the sockets of a listener. From now on new connections come to them.
    pub fn take(&self, mut sockets: Vec<ServingSocket>) -> Result<Vec<ServingSocket>, String> {
        let failed = |error: std::io::Error| format!("a listener for QUIC: {error}");
        let start = self.start.ok_or("the manager says nothing of QUIC")?;
        let members = sockets.len() / 2;
        let second = sockets.split_off(members);
        let mut own = if start.set == 0 { sockets } else { second };
        own.iter_mut().enumerate().for_each(|(n, socket)| socket.member = (n, members));
        let first = own.first().ok_or("a listener for QUIC without sockets")?;
        let copy = sys::fd::duplicate(first.fd.as_fd()).map_err(failed)?;
        steer(&copy, &Steering { members, set: start.set, former: start.former }).map_err(failed)?;
        self.groups.lock().push((copy, members));
        Ok(own)
    }

    /// A successor is there.
    pub fn share(&self) {
        self.is_alone.store(false, Ordering::Relaxed);
    }

    /// There is no other worker, or none any more: all that comes is ours, also what isn't known.
    pub fn own(&self) {
        self.is_alone.store(true, Ordering::Relaxed);
        let Some(start) = self.start else { return };
        for (socket, members) in &*self.groups.lock() {
            if let Err(error) = steer(socket, &Steering { members: *members, set: start.set, former: None }) {
                report_line!("a listener for QUIC: {error}");
            }
        }
    }
}

struct Settings {
    server: Arc<QuicServer>,
    keys: QuicKeys,
    params: Arc<Params>,
    config: h3::Http3Config,
    early: Arc<EarlySessions>,
    is_superseded: Arc<AtomicBool>,
}

impl Settings {
    fn follow(&mut self, params: &Arc<Params>) {
        if !Arc::ptr_eq(params, &self.params) {
            self.config = configure(&self.server, &self.keys, params, &self.early, None);
            self.params = params.clone();
        }
    }

    fn next(&self, qlogs: &Qlogs) -> h3::Http3Config {
        match qlogs.begin(self.params.h3_qlog) {
            Some(file) => configure(&self.server, &self.keys, &self.params, &self.early, Some(file)),
            None => self.config.clone(),
        }
    }
}

fn configure(
    server: &QuicServer,
    keys: &QuicKeys,
    params: &Params,
    early: &Arc<EarlySessions>,
    qlog: Option<QlogFile>,
) -> h3::Http3Config {
    let limits = limits(params);
    let early = params.h3_early_data.then(|| EarlyData {
        sessions: early.clone(),
        // What clients remember of a session: transport parameters and settings.
        limits: format!("{limits:?} {}", params.http_req_size),
    });
    let (takes_early_data, server) = (early.is_some(), server.with_early(early));
    let qlog = qlog.map(|file| Box::new(file) as _);
    h3::Http3Config { quic: Arc::new(net::quic::config(&Arc::new(server), keys, &limits, qlog)), takes_early_data }
}

fn limits(params: &Params) -> QuicLimits {
    let bytes = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    QuicLimits {
        streams: params.h3_max_concurrent_streams,
        stream_window: bytes(params.h3_stream_window),
        window: bytes(params.h3_window),
        send_window: bytes(params.h3_send_window),
        idle: params.h3_idle_timeout,
    }
}

async fn accept(
    worker: Arc<Worker>,
    info: Arc<ListenerInfo>,
    endpoint: Endpoint,
    own_socket: h3::ListenerSocket,
    mut settings: Settings,
) {
    let group = Rc::<h3::LinkGroup>::default();
    let watch = &worker.engine.sessions.drain;
    let _untold = Untold::new(&watch.quic_untold);
    let acceptor = worker.drain.acceptor();
    let mut is_known = false;
    'batches: loop {
        for _ in 0..ACCEPT_BATCH {
            match acceptor.or_drain(endpoint.accept(), &worker.engine, &mut is_known).await {
                Some(Some(client)) => welcome(&worker, &info, &group, own_socket, &mut settings, client),
                // Nothing comes from an endpoint that has lost its socket.
                Some(None) => return,
                None => break 'batches,
            }
        }
        rt::yield_now().await;
    }
    // Who comes from now on is the next worker's.
    endpoint.set_server_config(None);
    // What came before, in whose name ever, says nothing of this drain.
    settings.is_superseded.store(false, Ordering::Relaxed);
    group.drain();
    while rt::timeout(LOOK, endpoint.wait_idle()).await.is_err() {
        // What is still under way would take packets from the one that has our sockets now.
        if settings.is_superseded.load(Ordering::Relaxed) || watch.is_over.load(Ordering::Relaxed) {
            endpoint.close(VarInt::from_u32(H3_NO_ERROR), b"");
            let _ = rt::timeout(LAST_PACKETS, endpoint.wait_idle()).await;
            return;
        }
    }
}

/// Counted as long as it lives.
struct Untold<'a>(&'a AtomicI64);

impl<'a> Untold<'a> {
    fn new(count: &'a AtomicI64) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Untold(count)
    }
}

impl Drop for Untold<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn welcome(
    worker: &Arc<Worker>,
    info: &Arc<ListenerInfo>,
    group: &Rc<h3::LinkGroup>,
    own_socket: h3::ListenerSocket,
    settings: &mut Settings,
    client: Incoming,
) {
    let main = worker.engine.main;
    let params = worker.engine.params.load_full();
    settings.follow(&params);
    // Who may be somebody else takes nobody's place.
    let is_known = client.remote_address_validated();
    if !is_known && client.may_retry() && h3::half_open() >= params.h3_retry_threshold {
        main.h3_retries.inc();
        // It may retry, as was asked just now.
        let _ = client.retry();
        return;
    }
    let peer = Address::inet(client.remote_address());
    let slot = match is_known.then(|| ConnectionSlot::take(worker, info, peer)) {
        None => None,
        Some(Some(slot)) => Some(slot),
        Some(None) => return client.refuse(),
    };
    let worker = worker.clone();
    let (engine, info, group) = (worker.engine.clone(), info.clone(), group.clone());
    let config = settings.next(&worker.quic.qlogs);
    rt::spawn(async move {
        let listener = info.clone();
        let admit = move || slot.or_else(|| ConnectionSlot::take(&worker, &listener, peer));
        h3::serve(engine, info, group, own_socket, (client, config), admit).await;
    });
}

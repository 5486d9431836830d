// SPDX-License-Identifier: BSD-2-Clause
//! The threads that serve: one runtime per CPU, each accepting from its members of every listener.

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use cli::handoff::{ListenerLayers, ListenerStart, WorkerStart};
use engine::ListenerInfo;
use net::{Accept, AcceptFailure, Address};
use parking_lot::Mutex;
use tables::counters::Main;

use crate::watchdog::ThreadHandle;
use crate::worker::Worker;

/// Connections taken in a row before other tasks get their turn.
const ACCEPT_BATCH: usize = 16;
const OUT_OF_FDS_PAUSE: Duration = Duration::from_millis(100);
/// Stack of a thread that serves: fragments of pages nest (`engine` has the deepest nesting). What is never used costs
/// nothing.
const STACK_BYTES: usize = 8 << 20;

pub struct ServingSocket {
    pub info: Arc<ListenerInfo>,
    pub fd: OwnedFd,
    /// Number among those of its address, and how many there are.
    pub member: (usize, usize),
}

pub fn adopt(start: &WorkerStart) -> Result<Vec<ServingSocket>, String> {
    let mut infos: HashMap<String, Arc<ListenerInfo>> = HashMap::new();
    let mut sockets = Vec::new();
    for listener in &start.listeners {
        let ListenerStart { name, address, transport, is_uds, .. } = listener;
        let info = infos.entry(format!("{name} {address}")).or_insert_with(|| {
            let endpoint = if *is_uds { address.clone() } else { address.replace(' ', ":") };
            let beside = Beside { listener, all: &start.listeners };
            Arc::new(ListenerInfo {
                name: name.clone(),
                transport: transport_word(*transport),
                has_proxy_header: transport.has_proxy_header,
                is_tls: transport.is_tls,
                is_quic: transport.is_quic,
                frontend: beside.https().map_or(name, |other| &other.name).clone(),
                h3_port: beside.quic().and_then(port),
                endpoint,
                is_unix: *is_uds,
            })
        });
        let fd = sys::fd::inherit(listener.fd).map_err(|error| format!("listener {}: {error}", listener.name))?;
        sockets.push(ServingSocket { info: info.clone(), fd, member: (0, 1) });
    }
    Ok(sockets)
}

/// A listener, and those at the same port that the same clients come to: who speaks HTTP/3 comes to the same name and port as over TCP.
/// What is behind a PROXY header isn't what clients come to.
struct Beside<'l> {
    listener: &'l ListenerStart,
    all: &'l [ListenerStart],
}

impl<'l> Beside<'l> {
    /// One for QUIC, which gets all that this one for TLS gets.
    fn quic(&self) -> Option<&'l ListenerStart> {
        let others = self.at_this_port(false)?;
        best(others, |other| covers(&other.address, &self.listener.address))
    }

    /// One for TLS, whose certificates this one for QUIC shows: first one that gets all that this one gets.
    fn https(&self) -> Option<&'l ListenerStart> {
        let others = self.at_this_port(true)?;
        let wider = best(others.clone(), |other| covers(&other.address, &self.listener.address));
        wider.or_else(|| best(others, |other| covers(&self.listener.address, &other.address)))
    }

    /// Those of the other kind, if this one is for QUIC or isn't, as `is_quic` says; nothing if it is otherwise.
    fn at_this_port(&self, is_quic: bool) -> Option<impl Iterator<Item = &'l ListenerStart> + Clone + use<'l>> {
        let faces_clients =
            |listener: &ListenerStart| listener.transport.is_tls && !listener.transport.has_proxy_header;
        let here = port(self.listener).filter(|_| faces_clients(self.listener))?;
        let candidates = self.all.iter().filter(move |other| faces_clients(other) && port(other) == Some(here));
        (is_quic == self.listener.transport.is_quic)
            .then(|| candidates.filter(move |other| other.transport.is_quic != is_quic))
    }
}

/// The first that fits and names an address, else the first that fits.
fn best<'l>(
    others: impl Iterator<Item = &'l ListenerStart> + Clone,
    fits: impl Fn(&ListenerStart) -> bool,
) -> Option<&'l ListenerStart> {
    let is_wildcard = |other: &&ListenerStart| host(&other.address).is_some_and(|ip| ip.is_unspecified());
    let mut fitting = others.filter(|other| fits(other));
    fitting.clone().find(|other| !is_wildcard(other)).or_else(|| fitting.next())
}

/// True if all that comes to the second address comes to the first. Sockets of IPv6 get nothing of IPv4.
fn covers(wide: &str, narrow: &str) -> bool {
    match (host(wide), host(narrow)) {
        (Some(wide), Some(narrow)) => wide == narrow || wide.is_unspecified() && wide.is_ipv4() == narrow.is_ipv4(),
        _ => false,
    }
}

fn host(address: &str) -> Option<IpAddr> {
    address.rsplit_once(' ')?.0.parse().ok()
}

fn port(listener: &ListenerStart) -> Option<u16> {
    listener.address.rsplit_once(' ').filter(|_| !listener.is_uds)?.1.parse().ok()
}

fn transport_word(transport: ListenerLayers) -> &'static str {
    match (transport.has_proxy_header, transport.is_tls) {
        _ if transport.is_quic => "QUIC",
        (false, false) => "HTTP/1",
        (true, _) => "PROXY",
        (false, true) => "TLS",
    }
}

pub fn start(worker: &Arc<Worker>) -> Result<(), String> {
    let sockets = std::mem::take(&mut *worker.listeners.lock());
    let threads = sys::cpu::usable().max(1);
    let mut shares: Vec<Vec<ServingSocket>> = (0..threads).map(|_| Vec::new()).collect();
    for (name, members) in by_listener(sockets) {
        if members[0].info.is_quic {
            // Each has one endpoint: connections' ids name the socket.
            let own = worker.quic.take(members)?;
            own.into_iter().enumerate().for_each(|(n, member)| shares[n % threads].push(member));
            continue;
        }
        // Every member is accepted from; a listener with fewer members than threads is shared.
        let count = members.len().max(threads);
        for n in 0..count {
            let member = &members[n % members.len()];
            let fd = sys::fd::duplicate(member.fd.as_fd()).map_err(|error| format!("listener {name}: {error}"))?;
            shares[n % threads].push(ServingSocket { info: member.info.clone(), fd, member: member.member });
        }
    }
    for (number, share) in shares.into_iter().enumerate() {
        let (worker, name) = (worker.clone(), format!("lacquer-{number}"));
        let thread = std::thread::Builder::new().name(name.clone()).stack_size(STACK_BYTES);
        let spawned = thread.spawn(move || {
            let progress = Arc::<rt::RuntimeProgress>::default();
            let (work, name) = (engine::current::thread_work(), name);
            let trim = Arc::<rt::Notify>::default();
            let handle = ThreadHandle { name: name.clone(), progress: progress.clone(), work, trim: trim.clone() };
            worker.threads.lock().push(handle);
            engine::serving::begin_thread(number);
            shm::vsl::gather_here();
            tables::counters::begin_tally();
            if let Err(error) = rt::run_watched(progress, flush_thread_state, serve(worker, number, share, trim)) {
                crate::panic::die(&format!("Panic: no runtime for thread {name}: {error}\n"));
            }
        });
        spawned.map_err(|error| format!("thread {number}: {error}"))?;
    }
    worker.engine.main.threads_created.add(threads as u64);
    crate::watchdog::start(worker)
}

/// Writes out what this thread keeps while it has work.
fn flush_thread_state() {
    shm::vsl::flush_gathered();
    tables::counters::flush();
}

fn by_listener(sockets: Vec<ServingSocket>) -> Vec<(String, Vec<ServingSocket>)> {
    let mut groups: Vec<(String, Vec<ServingSocket>)> = Vec::new();
    for socket in sockets {
        let key = format!("{} {}", socket.info.name, socket.info.endpoint);
        match groups.iter_mut().find(|(name, _)| *name == key) {
            Some((_, members)) => members.push(socket),
            None => groups.push((key, vec![socket])),
        }
    }
    groups
}

// The system goes on giving it a share of the connections, which nobody would accept: better another worker.
const UNUSABLE: &str = "a listening socket can't be used";

async fn serve(worker: Arc<Worker>, number: usize, share: Vec<ServingSocket>, trim: Arc<rt::Notify>) {
    if number == 0 {
        rt::spawn(crate::demand::run(worker.clone()));
        rt::spawn(crate::warm::run(worker.clone()));
    }
    for socket in share {
        if socket.info.is_quic {
            crate::quic::listen(&worker, socket).unwrap_or_else(|error| panic!("{UNUSABLE}: {error}"));
            continue;
        }
        match net::Listener::from_fd(socket.fd) {
            Ok(listener) => {
                let params = worker.engine.params.load();
                let keepalive = net::Keepalive {
                    time: params.tcp_keepalive_time,
                    interval: params.tcp_keepalive_intvl,
                    probes: params.tcp_keepalive_probes,
                };
                if let Err(error) = listener.set_keepalive(&keepalive) {
                    report_line!("keepalive on {}: {error}", socket.info.name);
                }
                if let Err(error) = listener.set_defer_accept(params.tcp_defer_accept) {
                    report_line!("deferred accept on {}: {error}", socket.info.name);
                }
                rt::spawn(accept(worker.clone(), listener, socket.info));
            }
            Err(error) => panic!("{UNUSABLE}: {}: {error}", socket.info.name),
        }
    }
    loop {
        trim.notified().await;
        crate::memory::trim_thread();
    }
}

/// Connections per client network, for `max_sessions_per_ip`; asked only while that limit is set.
#[derive(Default)]
pub struct ConnectionLimit(Mutex<HashMap<IpAddr, u32>>);

async fn accept(worker: Arc<Worker>, listener: net::Listener, info: Arc<ListenerInfo>) {
    let main = worker.engine.main;
    let acceptor = worker.drain.acceptor();
    let mut is_known = false;
    loop {
        // Once draining those who come wait in the backlog for the next worker: the manager keeps the socket, unless it ends, too.
        let mut first = acceptor.next(&listener, &worker.engine, &mut is_known).await;
        if first.is_none() {
            return;
        }
        for _ in 0..ACCEPT_BATCH {
            match first.take().unwrap_or_else(|| listener.try_accept()) {
                Accept::Connection(accepted) => {
                    let number = accepted.stream.descriptor().unwrap_or(0);
                    if net::scarce::is_kept(number) {
                        drop(accepted);
                    } else {
                        welcome(&worker, &info, accepted);
                    }
                    if net::scarce::are_few_left(Some(number)) && !make_room(&worker).await {
                        break;
                    }
                }
                Accept::Nothing => break,
                Accept::Failed(failure) => {
                    count_failure(main, failure);
                    match failure {
                        AcceptFailure::Aborted | AcceptFailure::Interrupted => continue,
                        AcceptFailure::OutOfDescriptors | AcceptFailure::OutOfMemory => {
                            net::scarce::are_few_left(None);
                            make_room(&worker).await;
                        }
                        AcceptFailure::BadDescriptor | AcceptFailure::Other => rt::sleep(OUT_OF_FDS_PAUSE).await,
                    }
                    break;
                }
            }
        }
        rt::yield_now().await;
    }
}

fn count_failure(main: &Main, failure: AcceptFailure) {
    main.sess_fail.inc();
    match failure {
        AcceptFailure::Aborted => main.sess_fail_econnaborted.inc(),
        AcceptFailure::Interrupted => main.sess_fail_eintr.inc(),
        AcceptFailure::OutOfDescriptors => main.sess_fail_emfile.inc(),
        AcceptFailure::OutOfMemory => main.sess_fail_enomem.inc(),
        AcceptFailure::BadDescriptor => main.sess_fail_ebadf.inc(),
        AcceptFailure::Other => main.sess_fail_other.inc(),
    }
}

/// Ends an idle connection for the next one that comes, as few descriptors are left; where there is none waits for a while. `false`:
/// it has waited.
async fn make_room(worker: &Arc<Worker>) -> bool {
    let main = worker.engine.main;
    if net::scarce::end_longest_idle() {
        main.sess_idle_ended.inc();
        // It has to end before another one comes.
        rt::yield_now().await;
        return true;
    }
    main.accept_paused.inc();
    rt::sleep(OUT_OF_FDS_PAUSE).await;
    false
}

fn welcome(worker: &Arc<Worker>, info: &Arc<ListenerInfo>, accepted: net::Accepted) {
    let Some(slot) = ConnectionSlot::take(worker, info, accepted.peer) else { return };
    let (engine, info) = (worker.engine.clone(), info.clone());
    let accepted = fronts::AcceptedClient { stream: accepted.stream, peer: accepted.peer, local: accepted.local };
    rt::spawn(async move {
        let _slot = slot;
        fronts::serve(engine, info, accepted).await;
    });
}

pub struct ConnectionSlot {
    engine: Arc<engine::Engine>,
    network: Option<IpAddr>,
    crowd: Arc<ConnectionLimit>,
    _open: engine::current::OpenTransaction,
}

impl ConnectionSlot {
    pub fn take(worker: &Arc<Worker>, info: &ListenerInfo, peer: Address) -> Option<Self> {
        let engine = worker.engine.clone();
        let main = engine.main;
        main.sess_conn.inc();
        let params = engine.params.load();
        let open = engine.sessions.enter();
        if params.max_sessions > 0 && open > i64::from(params.max_sessions) {
            engine.sessions.leave();
            main.sess_limited.inc();
            main.sess_dropped.inc();
            return None;
        }
        let network = match peer {
            Address::Inet(addr) if params.max_sessions_per_ip > 0 && !info.is_unix => Some(net::address::network_of(
                addr.ip(),
                params.max_sessions_ipv4_prefix,
                params.max_sessions_ipv6_prefix,
            )),
            Address::Inet(_) | Address::Unix => None,
        };
        if let Some(network) = network {
            let mut crowd = worker.crowd.0.lock();
            let count = crowd.entry(network).or_insert(0);
            if *count >= params.max_sessions_per_ip {
                drop(crowd);
                engine.sessions.leave();
                main.sess_limited_ip.inc();
                main.sess_dropped.inc();
                return None;
            }
            *count += 1;
        }
        let open = engine::current::open(engine::current::TransactionKind::Session);
        Some(ConnectionSlot { engine, network, crowd: worker.crowd.clone(), _open: open })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.engine.sessions.leave();
        let Some(network) = self.network else { return };
        let mut crowd = self.crowd.0.lock();
        if let Some(count) = crowd.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                crowd.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(name: &str, address: &str, is_quic: bool, has_proxy_header: bool) -> ListenerStart {
        let transport = ListenerLayers { has_proxy_header, is_tls: true, is_quic };
        ListenerStart { name: name.into(), fd: 0, address: address.into(), is_uds: false, transport }
    }

    /// The alternative service is true for all clients of https; QUIC shows the certificates of the https that they
    /// come from.
    #[test]
    fn https_and_quic_belong_together_by_address_and_port() {
        let check = |https: &str, quic: &str, is_told: bool, has_certificates: bool| {
            let all = [listener("t", https, false, false), listener("q", quic, true, false)];
            let [tls, quic] = [0, 1].map(|n| Beside { listener: &all[n], all: &all });
            assert_eq!((tls.quic().is_some(), tls.https().is_some()), (is_told, false), "{all:?}");
            assert_eq!((quic.https().is_some(), quic.quic().is_some()), (has_certificates, false), "{all:?}");
        };
        check("10.0.0.1 443", "10.0.0.1 443", true, true);
        check("10.0.0.1 443", "10.0.0.1 444", false, false);
        check("10.0.0.1 443", "10.0.0.2 443", false, false);
        check("10.0.0.1 443", "0.0.0.0 443", true, true);
        check("0.0.0.0 443", "10.0.0.1 443", false, true);
        check("0.0.0.0 443", "0.0.0.0 443", true, true);
        check(":: 443", "10.0.0.1 443", false, false);
        check("10.0.0.1 443", ":: 443", false, false);
        check("2001:db8::1 443", ":: 443", true, true);
    }

    #[test]
    fn who_is_behind_a_proxy_has_nothing_beside_it() {
        let all = [listener("t", "10.0.0.1 443", false, true), listener("q", "10.0.0.1 443", true, false)];
        assert!(Beside { listener: &all[0], all: &all }.quic().is_none());
        assert!(Beside { listener: &all[1], all: &all }.https().is_none());
    }

    #[test]
    fn one_of_the_same_address_comes_first() {
        let all = [
            listener("any", "0.0.0.0 443", false, false),
            listener("own", "10.0.0.1 443", false, false),
            listener("q", "10.0.0.1 443", true, false),
        ];
        assert_eq!(Beside { listener: &all[2], all: &all }.https().map(|other| &*other.name), Some("own"));
    }
}

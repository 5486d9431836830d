// SPDX-License-Identifier: BSD-2-Clause
//! Tests of connections and probes with loopback sockets.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use net::proxy::ProxyEnds;
use tables::Compat;
use tables::close::SessClose;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};

use super::*;

const LIMITS: RespLimits = RespLimits { head_bytes: 1024, line_bytes: 512, lenient: false };

struct Bed {
    clock: Clock,
    services: Arc<HeapServices>,
    backends: Arc<Backends>,
}

impl Bed {
    fn new() -> Self {
        Self::with(BackendParams::default())
    }

    fn of(compat: Compat) -> Self {
        Self::build(BackendParams::default(), compat)
    }

    fn with(params: BackendParams) -> Self {
        Self::build(params, Compat::default())
    }

    fn build(params: BackendParams, compat: Compat) -> Self {
        let (clock, services) = (Clock::manual(), Arc::new(HeapServices { params, ..HeapServices::default() }));
        let backends = Backends::new(BackendEnv { clock: clock.clone(), services: services.clone(), compat });
        Self { clock, services, backends }
    }

    fn backend(&self, spec: BackendSpec) -> Arc<Backend> {
        self.backends.create("vcl1", spec)
    }
}

fn run<F: Future<Output = ()>>(test: F) {
    rt::run(async {
        let limited = rt::timeout(Duration::from_secs(20), test).await;
        assert!(limited.is_ok(), "the test hangs");
    })
    .unwrap();
}

async fn server() -> (TcpListener, BackendSpec) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let spec = BackendSpec::new("s1", Endpoint::addr(listener.local_addr().unwrap()));
    (listener, spec)
}

async fn accept(listener: &TcpListener) -> TcpStream {
    listener.accept().await.unwrap().0
}

async fn nobody() -> BackendSpec {
    server().await.1
}

fn shown(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn opened(conn: &BackendConn) -> String {
    let mut text = Vec::new();
    conn.opened(|parts| text = parts.concat());
    shown(text)
}

/// Ends a use. Returns whether the connection went back, and the log record's text.
fn ended(conn: BackendConn, close: Option<SessClose>) -> (bool, String) {
    let mut text = Vec::new();
    let is_recycled = conn.finish(close, |parts| text = parts.concat());
    (is_recycled, shown(text))
}

/// Waits until a sweep finds an idle connection that the peer has closed or sent bytes on.
async fn swept(bed: &Bed) {
    while bed.backends.close_idle() == 0 {
        rt::yield_now().await;
    }
}

#[test]
fn the_newest_idle_connection_is_taken() {
    run(async {
        let (bed, (listener, spec)) = (Bed::new(), server().await);
        let backend = bed.backend(spec);
        let (first, second) =
            (backend.connect(&ConnectOpts::default()).await, backend.connect(&ConnectOpts::default()).await);
        let (first, second) = (first.unwrap(), second.unwrap());
        let _peers = (accept(&listener).await, accept(&listener).await);
        assert!(!first.is_reused() && backend.vbe().conn.get() == 2);
        let local = second.tunnel().unwrap().local();
        let port = listener.local_addr().unwrap().port();
        let text = opened(&first);
        assert!(text.contains(&format!(" s1 127.0.0.1 {port} 127.0.0.1 ")) && text.ends_with(" connect"), "{text}");
        let (is_recycled, text) = ended(first, None);
        assert!(is_recycled && text.ends_with(" s1 recycle"));
        second.finish(None, |_| ());
        assert_eq!((bed.backends.idle(), backend.vbe().conn.get(), backend.vbe().req.get()), (2, 0, 2));

        let again = backend.connect(&ConnectOpts::default()).await.unwrap();
        assert!(again.is_reused() && opened(&again).ends_with(" reuse"));
        assert_eq!(again.tunnel().unwrap().local(), local);
        let fresh = backend.connect(&ConnectOpts { new_connection: true, ..ConnectOpts::default() }).await.unwrap();
        assert!(!fresh.is_reused());
        let (_, text) = ended(fresh, Some(SessClose::RxTimeout));
        assert!(text.ends_with(" s1 close Receive timeout"), "{text}");
        drop(again);
        assert_eq!(bed.backends.idle(), 1);
        let main = &bed.services.main;
        let counts = [&main.backend_conn, &main.backend_reuse, &main.backend_recycle].map(|counter| counter.get());
        assert_eq!(counts, [3, 1, 2]);
    });
}

#[test]
fn release_9_logs_ages_and_words() {
    run(async {
        let (bed, (listener, spec)) = (Bed::of(Compat::V9), server().await);
        let backend = bed.backend(spec);
        let first = backend.connect(&ConnectOpts::default()).await.unwrap();
        let _peer = accept(&listener).await;
        assert!(opened(&first).ends_with(" connect"));
        first.finish(None, |_| ());
        for uses in 1..3 {
            bed.clock.advance(Duration::from_millis(1500));
            let again = backend.connect(&ConnectOpts::default()).await.unwrap();
            let age = 1.5 * f64::from(uses);
            assert!(opened(&again).ends_with(&format!(" reuse {age:.6} {uses}")), "{}", opened(&again));
            again.finish(None, |_| ());
        }
        let last = backend.connect(&ConnectOpts::default()).await.unwrap();
        assert!(ended(last, Some(SessClose::RxTimeout)).1.ends_with(" s1 close RX_TIMEOUT"));
    });
}

#[test]
fn closed_and_talkative_idle_connections_are_not_used() {
    run(async {
        let (bed, (listener, spec)) = (Bed::new(), server().await);
        let backend = bed.backend(spec);
        for talk in [false, true] {
            backend.connect(&ConnectOpts::default()).await.unwrap().finish(None, |_| ());
            let mut peer = accept(&listener).await;
            if talk {
                peer.write_all(b"unasked").await.unwrap();
            } else {
                drop(peer);
            }
            swept(&bed).await;
            assert_eq!(bed.backends.idle(), 0);
        }
        // The same works without a sweep in between.
        backend.connect(&ConnectOpts::default()).await.unwrap().finish(None, |_| ());
        let peer = accept(&listener).await;
        let watch = backend.connect(&ConnectOpts::default()).await.unwrap();
        drop(peer);
        watch.tunnel().unwrap().readable().await.unwrap();
        watch.finish(None, |_| ());
        assert!(!backend.connect(&ConnectOpts::default()).await.unwrap().is_reused());
    });
}

#[test]
fn a_request_that_cannot_be_sent_twice_has_the_system_asked() {
    rt::run_watched(Arc::default(), || (), async {
        let (bed, (listener, spec)) = (Bed::new(), server().await);
        let backend = bed.backend(spec);
        let opts = |no_resend| ConnectOpts { no_resend, ..ConnectOpts::default() };
        for no_resend in [false, true] {
            let conn = backend.connect(&opts(false)).await.unwrap();
            let peer = accept(&listener).await;
            conn.finish(None, |_| ());
            let turn = rt::park_count();
            while rt::park_count() == turn {
                rt::sleep(Duration::from_millis(1)).await;
            }
            drop(peer);
            // The runtime hasn't checked for events since then.
            assert_eq!(backend.idle(&opts(no_resend)).is_some(), !no_resend);
        }
        assert!(backend.idle(&opts(false)).is_none(), "nothing is idle");
    })
    .unwrap();
}

#[test]
fn the_system_is_asked_of_what_was_put_back_just_now() {
    run(async {
        let (bed, (listener, spec)) = (Bed::new(), server().await);
        let backend = bed.backend(spec);
        for talk in [false, true] {
            let conn = backend.connect(&ConnectOpts::default()).await.unwrap();
            let mut peer = accept(&listener).await;
            conn.finish(None, |_| ());
            let kept = if talk {
                peer.write_all(b"unasked").await.unwrap();
                Some(peer)
            } else {
                drop(peer);
                None
            };
            assert!(backend.idle(&ConnectOpts::default()).is_none());
            drop(kept);
        }
    });
}

#[test]
fn backends_with_the_same_endpoint_share_connections() {
    run(async {
        let (bed, (listener, spec)) = (Bed::new(), server().await);
        let (one, two) =
            (bed.backend(spec.clone()), bed.backends.create("vcl2", BackendSpec { name: "b".into(), ..spec.clone() }));
        let other =
            bed.backend(BackendSpec { endpoint: Endpoint { preamble: b"x".to_vec(), ..spec.endpoint }, ..spec });
        one.connect(&ConnectOpts::default()).await.unwrap().finish(None, |_| ());
        let _peer = accept(&listener).await;
        assert!(!other.connect(&ConnectOpts::default()).await.unwrap().is_reused());
        assert!(two.connect(&ConnectOpts::default()).await.unwrap().is_reused());
        assert_eq!(bed.services.main.n_backend.get(), 3);
        drop((one, two));
        assert_eq!(bed.services.main.n_backend.get(), 1);
    });
}

#[test]
fn a_connection_travels_between_threads() {
    run(async {
        let (bed, (listener, spec)) = (Bed::new(), server().await);
        let backend = bed.backend(spec);
        backend.connect(&ConnectOpts::default()).await.unwrap().finish(None, |_| ());
        let mut peer = accept(&listener).await;
        let theirs = backend.clone();
        let thread = std::thread::spawn(move || {
            run(async move {
                let conn = theirs.connect(&ConnectOpts::default()).await.unwrap();
                assert!(conn.is_reused());
                conn.tunnel().unwrap().write_all(b"hello", None).await.unwrap();
                conn.finish(None, |_| ());
            });
        });
        let mut got = [0; 5];
        peer.read_exact(&mut got).await.unwrap();
        rt::blocking(move || thread.join().unwrap()).await.unwrap();
        assert!(backend.connect(&ConnectOpts::default()).await.unwrap().is_reused());
    });
}

#[test]
fn a_thread_takes_its_own_connection_before_a_newer_one() {
    run(async {
        let (bed, (listener, spec)) = (Bed::new(), server().await);
        let backend = bed.backend(spec);
        let own = backend.connect(&ConnectOpts::default()).await.unwrap();
        let local = own.tunnel().unwrap().local();
        own.finish(None, |_| ());
        let theirs = backend.clone();
        let thread = std::thread::spawn(move || {
            run(async move {
                let fresh = ConnectOpts { new_connection: true, ..ConnectOpts::default() };
                theirs.connect(&fresh).await.unwrap().finish(None, |_| ());
            });
        });
        let _peers = (accept(&listener).await, accept(&listener).await);
        rt::blocking(move || thread.join().unwrap()).await.unwrap();
        let first = backend.connect(&ConnectOpts::default()).await.unwrap();
        assert!(first.is_reused() && first.tunnel().unwrap().local() == local);
        assert!(backend.connect(&ConnectOpts::default()).await.unwrap().is_reused(), "the other's is better than none");
    });
}

#[test]
fn idle_connections_grow_too_old() {
    run(async {
        let (bed, (listener, spec)) = (Bed::new(), server().await);
        let backend = bed.backend(spec);
        backend.connect(&ConnectOpts::default()).await.unwrap().finish(None, |_| ());
        let _peer = accept(&listener).await;
        bed.clock.advance(Duration::from_secs(59));
        assert_eq!(bed.backends.close_idle(), 0);
        bed.clock.advance(Duration::from_secs(2));
        assert_eq!((bed.backends.close_idle(), bed.backends.idle()), (1, 0));
    });
}

#[test]
fn a_refused_connection_is_not_tried_again_at_once() {
    run(async {
        let bed = Bed::new();
        let backend = bed.backend(nobody().await);
        let error = async || backend.connect(&ConnectOpts::default()).await.err().unwrap().to_string();
        assert_eq!(error().await, "backend s1: fail errno 111 (Connection refused)");
        assert_eq!(error().await, "backend s1: fail errno 0 (Success)");
        bed.clock.advance(Duration::from_millis(251));
        assert_eq!(error().await, "backend s1: fail errno 111 (Connection refused)");
        let vbe = backend.vbe();
        assert_eq!((vbe.fail_econnrefused.get(), vbe.helddown.get(), vbe.fail.get()), (2, 1, 2));
        let params = bed.services.params();
        let poked = backend.open_probe(Duration::from_secs(1), |_| Vec::new(), &params).await.err().unwrap();
        assert_eq!(poked.text(), "Open error 111 (Connection refused) of an attempt shortly before");
        assert_eq!((bed.services.main.backend_fail.get(), vbe.conn.get(), vbe.req.get()), (3, 0, 0));
    });
}

#[test]
fn busy_and_unhealthy() {
    run(async {
        let (bed, (_listener, spec)) = (Bed::new(), server().await);
        let backend = bed.backend(BackendSpec { max_connections: 1, ..spec });
        let held = backend.connect(&ConnectOpts::default()).await.unwrap();
        let error = backend.connect(&ConnectOpts::default()).await.err().unwrap();
        assert_eq!((error.to_string(), backend.vbe().busy.get()), ("backend s1: busy".into(), 1));
        drop(held);
        assert!(backend.connect(&ConnectOpts::default()).await.is_ok());
        backend.base().set_admin(AdminHealth::Sick, bed.clock.real());
        let error = backend.connect(&ConnectOpts::default()).await.err().unwrap();
        assert_eq!(error.to_string(), "backend s1: unhealthy");
        let main = &bed.services.main;
        assert_eq!((main.backend_busy.get(), main.backend_unhealthy.get(), backend.vbe().unhealthy.get()), (1, 1, 1));
    });
}

#[test]
fn a_busy_backend_has_a_queue_with_a_bound() {
    run(async {
        let (bed, (_listener, spec)) = (Bed::new(), server().await);
        let wait_timeout = Some(Duration::from_secs(10));
        let backend = bed.backend(BackendSpec { max_connections: 1, wait_limit: Some(1), wait_timeout, ..spec });
        let held = backend.connect(&ConnectOpts::default()).await.unwrap();
        let waiter = {
            let backend = backend.clone();
            rt::spawn(async move {
                backend.connect(&ConnectOpts::default()).await.unwrap().finish(None, |_| ());
            })
        };
        rt::yield_now().await;
        let error = backend.connect(&ConnectOpts::default()).await.err().unwrap();
        assert_eq!(error, BackendConnectError::Busy { backend: "s1".into() }, "the queue is full");
        held.finish(None, |_| ());
        waiter.await.unwrap();
        let main = &bed.services.main;
        assert_eq!((main.backend_wait.get(), main.backend_wait_full.get(), main.backend_wait_fail.get()), (1, 1, 0));
        let short = BackendSpec { wait_timeout: Some(Duration::from_millis(5)), ..backend.spec().clone() };
        let backend = bed.backend(short);
        let _held = backend.connect(&ConnectOpts::default()).await.unwrap();
        assert!(backend.connect(&ConnectOpts::default()).await.is_err(), "the wait ends");
        assert_eq!((main.backend_wait.get(), main.backend_wait_full.get(), main.backend_wait_fail.get()), (2, 1, 1));
    });
}

#[test]
fn parameters_make_a_queue_unless_the_backend_has_its_own() {
    run(async {
        let params = BackendParams { wait_limit: 1, wait_timeout: Duration::from_secs(10), ..BackendParams::default() };
        let (bed, (_listener, spec)) = (Bed::with(params), server().await);
        for (wait_limit, waits) in [(None, true), (Some(0), false)] {
            let backend = bed.backend(BackendSpec { max_connections: 1, wait_limit, ..spec.clone() });
            let held = backend.connect(&ConnectOpts::default()).await.unwrap();
            let waiting = {
                let backend = backend.clone();
                rt::spawn(async move {
                    let got = backend.connect(&ConnectOpts::default()).await;
                    assert_eq!(got.is_ok(), waits);
                })
            };
            rt::yield_now().await;
            held.finish(None, |_| ());
            waiting.await.unwrap();
        }
    });
}

#[test]
fn a_backend_that_becomes_sick_sends_all_waiting_fetches_away() {
    run(async {
        let (bed, (_listener, spec)) = (Bed::new(), server().await);
        let wait_timeout = Some(Duration::from_secs(3600));
        let backend = bed.backend(BackendSpec { max_connections: 1, wait_limit: Some(9), wait_timeout, ..spec });
        let held = backend.connect(&ConnectOpts::default()).await.unwrap();
        let wait = || {
            let backend = backend.clone();
            rt::spawn(async move {
                let error = backend.connect(&ConnectOpts::default()).await.err().unwrap();
                assert_eq!(error.to_string(), "backend s1: busy");
            })
        };
        let waiting = [wait(), wait()];
        rt::yield_now().await;
        backend.base().set_admin(AdminHealth::Healthy, bed.clock.real());
        rt::yield_now().await;
        let main = &bed.services.main;
        assert_eq!(main.backend_wait_fail.get(), 0, "a change to healthy ends no wait");
        backend.base().set_admin(AdminHealth::Sick, bed.clock.real());
        for waiter in waiting {
            waiter.await.unwrap();
        }
        assert_eq!((main.backend_wait.get(), main.backend_wait_fail.get(), main.backend_busy.get()), (2, 2, 2));
        // A running exchange continues to its end, and its connection is kept until the backend is healthy again.
        assert!(held.finish(None, |_| ()));
        backend.base().set_admin(AdminHealth::Auto, bed.clock.real());
        assert!(backend.connect(&ConnectOpts::default()).await.unwrap().is_reused());
    });
}

#[test]
fn a_discarded_backend_ends_its_connections_in_order() {
    run(async {
        let (bed, (listener, spec)) = (Bed::new(), server().await);
        let backend = bed.backend(spec);
        let (idle, busy) = (
            backend.connect(&ConnectOpts::default()).await.unwrap(),
            backend.connect(&ConnectOpts::default()).await.unwrap(),
        );
        let (mut first, mut second) = (accept(&listener).await, accept(&listener).await);
        idle.finish(None, |_| ());
        backend.event(VclEvent::Cold);
        backend.event(VclEvent::Discard);
        drop(backend);
        // A running fetch keeps the pool alive. The last connection ends with it.
        busy.tunnel().unwrap().write_all(b"x", None).await.unwrap();
        let mut got = [0];
        second.read_exact(&mut got).await.unwrap();
        assert_eq!(bed.backends.idle(), 1);
        busy.finish(None, |_| ());
        assert_eq!(bed.backends.idle(), 0);
        assert_eq!(first.read(&mut got).await.unwrap() + second.read(&mut got).await.unwrap(), 0, "both are closed");
    });
}

struct Named {
    bed: Bed,
    backend: Arc<Backend>,
    keeper: rt::JoinHandle<()>,
}

impl Named {
    fn new(params: BackendParams, found: &[&TcpListener]) -> Named {
        let bed = Bed::with(params);
        let found = found.iter().map(|listener| listener.local_addr().unwrap()).collect();
        let spec = BackendSpec { found, ..BackendSpec::new("s1", Endpoint::named("www.test", 80)) };
        let (backend, keeper) = (bed.backend(spec), rt::spawn(bed.backends.clone().housekeep()));
        Named { bed, backend, keeper }
    }

    fn answers(&self, listeners: &[&TcpListener]) {
        let addrs = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
        self.bed.services.hosts.lock().insert("www.test".into(), addrs);
    }

    /// Moves the clock to the next lookup, and waits for `lookups` in all.
    async fn looked_up(&self, lookups: u64) {
        self.bed.clock.advance(Duration::from_secs(31));
        while self.bed.services.main.backend_dns_lookup.get() < lookups {
            self.backend.prober().poke_now();
            rt::yield_now().await;
        }
    }

    async fn connect(&self) -> Result<BackendConn, BackendConnectError> {
        self.backend.connect(&ConnectOpts::default()).await
    }
}

#[test]
fn a_name_moves_and_its_connections_with_it() {
    run(async {
        let ((one, _), (two, _)) = (server().await, server().await);
        let named = Named::new(BackendParams::default(), &[&one]);
        named.answers(&[&one]);
        named.looked_up(1).await;
        named.connect().await.unwrap().finish(None, |_| ());
        let old = named.connect().await.unwrap();
        assert!(old.is_reused() && old.peer() == net::Address::Inet(one.local_addr().unwrap()));
        named.answers(&[&two]);
        named.looked_up(2).await;
        let new = named.connect().await.unwrap();
        assert_eq!(new.peer(), net::Address::Inet(two.local_addr().unwrap()));
        old.finish(None, |_| ());
        let newer = named.connect().await.unwrap();
        assert_eq!(newer.peer(), net::Address::Inet(two.local_addr().unwrap()), "an old connection isn't used again");
        let main = &named.bed.services.main;
        assert_eq!((main.backend_dns_change.get(), main.backend_dns_fail.get()), (1, 0));
        let text = format!("backend: host www.test is now {}", two.local_addr().unwrap());
        assert_eq!(*named.bed.services.notice_log.lock(), [text]);
        named.keeper.abort();
    });
}

#[test]
fn all_addresses_of_a_name_are_used_and_a_dead_one_is_passed_over() {
    run(async {
        let ((one, _), (two, _), (three, _)) = (server().await, server().await, server().await);
        let named = Named::new(BackendParams::default(), &[]);
        named.answers(&[&one, &two, &three]);
        named.looked_up(1).await;
        let mut seen = std::collections::HashMap::new();
        let mut held = Vec::new();
        for _ in 0..9 {
            let conn = named.connect().await.unwrap();
            *seen.entry(conn.peer().port()).or_insert(0) += 1;
            held.push(conn);
        }
        assert!(seen.len() == 3 && seen.values().all(|&n| n == 3), "{seen:?}");
        drop(two);
        for _ in 0..9 {
            held.push(named.connect().await.unwrap());
        }
        assert_eq!(named.bed.services.main.backend_fail.get(), 0);
        named.keeper.abort();
    });
}

#[test]
fn a_name_without_an_address_fails_fetches_until_it_has_one() {
    run(async {
        let (one, _) = server().await;
        for ttl in [0, 30] {
            let params = BackendParams { dns_ttl: Duration::from_secs(ttl), ..BackendParams::default() };
            let named = Named::new(params, &[]);
            named.looked_up(1).await;
            let error = named.connect().await.err().unwrap();
            assert_eq!(error.to_string(), "backend s1: no address for www.test");
            let text = "Backend host www.test: Name or service not known; 0 addresses kept";
            assert_eq!(*named.bed.services.error_log.lock(), [text]);
            let told = "no address found for www.test; requests that need it are answered 503";
            let told = format!("backend {}: {told}", named.backend.label());
            assert_eq!(*named.bed.services.operator_log.lock(), [told]);
            named.answers(&[&one]);
            named.looked_up(2).await;
            named.connect().await.unwrap();
            named.bed.services.hosts.lock().clear();
            if ttl > 0 {
                named.looked_up(3).await;
                assert_eq!(named.bed.services.main.backend_dns_fail.get(), 2);
            }
            named.connect().await.unwrap();
            named.keeper.abort();
        }
    });
}

#[test]
fn with_a_ttl_of_zero_a_name_that_has_addresses_keeps_them() {
    run(async {
        let ((one, _), (two, _)) = (server().await, server().await);
        let named = Named::new(BackendParams { dns_ttl: Duration::ZERO, ..BackendParams::default() }, &[&one]);
        named.answers(&[&two]);
        for _ in 0..20 {
            named.bed.clock.advance(Duration::from_secs(100));
            named.backend.prober().poke_now();
            rt::yield_now().await;
        }
        assert_eq!(named.connect().await.unwrap().peer(), net::Address::Inet(one.local_addr().unwrap()));
        assert_eq!(named.bed.services.main.backend_dns_lookup.get(), 0);
        named.keeper.abort();
    });
}

#[test]
fn preamble_and_proxy_header_come_first() {
    run(async {
        let (bed, (listener, spec)) = (Bed::new(), server().await);
        let endpoint = Endpoint { preamble: b"PRE".to_vec(), ..spec.endpoint };
        let backend = bed.backend(BackendSpec { endpoint, proxy_header: 1, ..spec });
        let ends =
            ProxyEnds { source: "192.0.2.1:1234".parse().unwrap(), destination: "192.0.2.2:80".parse().unwrap() };
        let conn = backend.connect(&ConnectOpts { ends: Some(ends), ..ConnectOpts::default() }).await.unwrap();
        let want = b"PREPROXY TCP4 192.0.2.1 192.0.2.2 1234 80\r\n";
        assert_eq!(conn.acct().bereq_head, want.len() as u64 - 3);
        assert!(ended(conn, None).1.ends_with(" close Not Closing"));
        assert_eq!(bed.backends.idle(), 0);
        let mut got = Vec::new();
        accept(&listener).await.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, want);
    });
}

/// Connections are shared by all requests for one address and name, and by no others.
#[test]
fn connections_go_through_another_backend() {
    run(async {
        let (bed, (listener, spec)) = (Bed::new(), server().await);
        let to = |address: &str, authority: &str| {
            let address: SocketAddr = address.parse().unwrap();
            let via = Via { ipv4: Some(address), ipv6: None, authority: authority.to_owned() };
            bed.backend(BackendSpec { via: Some(via), ..spec.clone() })
        };
        let (backend, same, other) = (to("192.0.2.1:443", "a"), to("192.0.2.1:443", "a"), to("192.0.2.1:443", ""));
        let conn = backend.connect(&ConnectOpts::default()).await.unwrap();
        conn.finish(None, |_| ());
        assert!(same.connect(&ConnectOpts::default()).await.unwrap().is_reused());
        let second = other.connect(&ConnectOpts::default()).await.unwrap();
        assert!(!second.is_reused());
        let head = b"\r\n\r\n\0\r\nQUIT\n\x21\x11".to_vec();
        let addresses = b"\0\0\0\0\xc0\0\x02\x01\0\0\x01\xbb".to_vec();
        for rest in [&b"\0\x10\x02\0\x01a"[..], &b"\0\x0c"[..]] {
            let (length, name) = rest.split_at(2);
            let want = [head.as_slice(), length, &addresses, name].concat();
            let mut got = vec![0; want.len()];
            accept(&listener).await.read_exact(&mut got).await.unwrap();
            assert_eq!(got, want);
        }
        drop(second);
    });
}

#[test]
fn unix_sockets() {
    run(async {
        let path = std::env::temp_dir().join(format!("backend-test-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let _listener = UnixListener::bind(&path).unwrap();
        let bed = Bed::new();
        let backend = bed.backend(BackendSpec::new("u", Endpoint::unix(&path)));
        let conn = backend.connect(&ConnectOpts::default()).await.unwrap();
        assert!(opened(&conn).ends_with(" u 0.0.0.0 0 0.0.0.0 0 connect"));
        assert_eq!(backend.hosthdr(), "0.0.0.0");
        conn.finish(None, |_| ());
        assert!(backend.connect(&ConnectOpts::default()).await.unwrap().is_reused());
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
fn timeouts_come_from_bereq_then_backend_then_parameter() {
    let bed = Bed::new();
    let mut spec = BackendSpec::new("s1", Endpoint::addr("127.0.0.1:1".parse().unwrap()));
    spec.limits.first_byte = Duration::from_secs(7);
    let backend = bed.backend(spec);
    let times = backend.limits(BackendLimits::default());
    assert_eq!((times.first_byte.as_secs(), times.between_bytes.as_secs()), (7, 60));
    let set = BackendLimits::set(Compat::V9, [None, Some(1.0), Some(2.0)]);
    assert_eq!(backend.limits(set), BackendLimits { connect: times.connect, ..set });
}

async fn answer(listener: &TcpListener, answer: &[u8]) -> Vec<u8> {
    let mut peer = accept(listener).await;
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        assert!(peer.read_buf(&mut asked).await.unwrap() > 0);
    }
    peer.write_all(answer).await.unwrap();
    asked
}

async fn logged(bed: &Bed, records: usize) -> String {
    while bed.services.health_log.lock().len() < records {
        rt::yield_now().await;
    }
    bed.services.health_log.lock()[records - 1].clone()
}

#[test]
fn probes_make_backends_healthy_and_sick_and_a_reload_keeps_that() {
    run(async {
        let (bed, (listener, spec)) = (Bed::new(), server().await);
        let probe = ProbeSpec { window: 2, threshold: 1, url: Some("/p".into()), ..ProbeSpec::default() };
        let spec = BackendSpec { probe: Some(probe), hosthdr: Some("h".into()), ..spec };
        let backend = bed.backend(spec.clone());
        assert!(!backend.healthy(bed.clock.real()).ok, "sick until the first probe");
        let keeper = rt::spawn(bed.backends.clone().housekeep());
        backend.event(VclEvent::Warm);
        let asked = answer(&listener, b"HTTP/1.1 200 Fine\r\n\r\nbody").await;
        assert_eq!(asked, b"GET /p HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        let record = logged(&bed, 3).await;
        assert!(record.starts_with("s1 Went healthy 4---X-RH 1 1 2 "), "{record}");
        assert!(record.ends_with(" \"HTTP/1.1 200 Fine\""), "{record}");
        assert!(backend.healthy(bed.clock.real()).ok && backend.vbe().happy.get() == 1);

        // Another VCL with the same backend takes over the state at once.
        let reloaded = bed.backends.create("vcl2", spec);
        reloaded.event(VclEvent::Warm);
        assert!(reloaded.healthy(bed.clock.real()).ok);
        backend.event(VclEvent::Discard);
        drop(backend);

        // Two bad responses in a row use up the window.
        answer(&listener, b"HTTP/1.1 503 Down\r\n\r\n").await;
        let records = bed.services.health_log.lock().len();
        logged(&bed, records.max(6)).await;
        bed.clock.advance(Duration::from_secs(6));
        reloaded.prober().poke_now();
        answer(&listener, b"").await;
        let record = logged(&bed, 7).await;
        assert!(record.starts_with("s1 Went sick 4---X---") && record.ends_with(" \"Empty response\""), "{record}");
        reloaded.event(VclEvent::Cold);
        keeper.abort();
    });
}

#[test]
fn a_probe_that_finds_nobody_says_so() {
    run(async {
        let bed = Bed::new();
        let probe = ProbeSpec { initial: Some(3), ..ProbeSpec::default() };
        let backend = bed.backend(BackendSpec { probe: Some(probe), ..nobody().await });
        assert!(backend.healthy(bed.clock.real()).ok, "initially");
        let keeper = rt::spawn(bed.backends.clone().housekeep());
        backend.event(VclEvent::Warm);
        let record = logged(&bed, 3).await;
        let want = "s1 Still healthy -------- 3 3 8 0.000000 0.000000 \"Open error 111 (Connection refused)\"";
        assert_eq!(record, want);
        assert_eq!(backend.vbe().fail_econnrefused.get(), 1);
        keeper.abort();
    });
}

#[test]
fn a_slow_probe_fails_unless_it_need_not_end() {
    run(async {
        for (expect_close, bits) in [(true, "4---Xr--"), (false, "4---X-RH")] {
            let (bed, (listener, spec)) = (Bed::new(), server().await);
            let timeout = Duration::from_secs(1);
            let probe = ProbeSpec { timeout, expect_close, ..ProbeSpec::default() };
            let backend = bed.backend(BackendSpec { probe: Some(probe), ..spec });
            let keeper = rt::spawn(bed.backends.clone().housekeep());
            backend.event(VclEvent::Warm);
            let mut peer = accept(&listener).await;
            peer.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            let record = logged(&bed, 3).await;
            assert!(record.contains(bits), "{record}");
            assert_eq!(record.contains("Poll error 110 (Connection timed out)"), expect_close, "{record}");
            keeper.abort();
        }
    });
}

struct Echo;

impl Service for Echo {
    fn exchange(&self) -> Box<dyn Exchange> {
        let (exchange, mut responder) = responder::exchange();
        rt::spawn(async move {
            assert!(responder.begin().await);
            let target = responder.target.clone();
            responder.respond(200, b"", &[], Some(target.len() as u64));
            responder.send(&target).await.unwrap();
            responder.finish().await.unwrap();
        });
        exchange
    }
}

#[test]
fn a_service_answers_in_the_place_of_a_server() {
    run(async {
        let bed = Bed::new();
        let backend = bed.backend(BackendSpec::service("echo", ServiceRef(Arc::new(Echo))));
        let other = backend.serving(ServiceRef(Arc::new(Echo)));
        assert_eq!((other.name(), other.base().cli_name()), ("echo", "vcl1.echo"));
        assert!(std::ptr::eq(backend.spec(), other.spec()), "made for one transaction, it copies nothing");
        assert!(std::ptr::eq(backend.hosthdr(), other.hosthdr()) && std::ptr::eq(backend.name(), other.name()));
        for backend in [&backend, &other] {
            let mut conn = backend.connect(&ConnectOpts::default()).await.unwrap();
            assert!(!conn.is_reused() && conn.tunnel().is_none());
            let (mut bereq, mut beresp) = (message::Head::new(), message::Head::new());
            bereq.start_request(b"GET", b"/ping", b"HTTP/1.1").unwrap();
            conn.send_head(&bereq, BodyLen::None, &LIMITS);
            poll_fn(|cx| conn.poll_head(cx, &mut beresp)).await.unwrap();
            poll_fn(|cx| conn.poll_data(cx)).await.unwrap();
            assert_eq!((beresp.status(), conn.data()), (200, &b"/ping"[..]));
            assert_eq!(opened(&conn), "0 echo 0.0.0.0 0 0.0.0.0 0 connect");
            conn.finish(Some(SessClose::RespClose), |_| {});
        }
        assert_eq!((backend.vbe().req.get(), other.vbe().req.get()), (2, 2), "they share counters");
        assert_eq!(bed.backends.idle(), 0);
    });
}

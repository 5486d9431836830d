// SPDX-License-Identifier: BSD-2-Clause
//! Facts about when a connection without a request ends: on a network whose time is the test's.

use std::net::SocketAddr;

use base::Clock;
use rt::Instant;
use rt::sim::{Endless, SimLimits};
use testkit_net::quic::{Path, QuicNetwork};

use super::*;

/// A round takes 20 ms.
const NEAR: Path = Path { lost_one_in: 0, doubled_one_in: 0, delay: (WAY, WAY) };
const NOWHERE: Path = Path { lost_one_in: 1, ..NEAR };
const WAY: Duration = Duration::from_millis(10);

/// Tolerance of end times: an acknowledgement may wait for 25 ms, and goes one way, as the end does.
const EXACT: Duration = Duration::from_millis(60);

struct Simulated {
    served: Served,
    network: QuicNetwork,
    /// Steps of all tasks so far.
    steps: Rc<Cell<u64>>,
}

/// A server with these parameters, and what a client does with it.
fn simulated<F: Future<Output = ()>>(settings: &[(&str, &str)], run: impl FnOnce(Simulated) -> F) -> &'static Main {
    let (tls, clock, steps) = (Tls::new(), Clock::manual(), Rc::<Cell<u64>>::default());
    let world = World::with_quic_at(settings, &tls, clock.clone());
    let (main, counted) = (world.engine.main, steps.clone());
    let watch = || {
        counted.set(counted.get() + 1);
        Ok(())
    };
    let limits = SimLimits { steps: 100_000, time: Duration::from_secs(3600) };
    let ended: Result<(), Endless> = rt::sim::run(1, limits, &clock, watch, async {
        let network = QuicNetwork::new(NEAR, Box::new(|bound| rt::sim::draw(bound).unwrap_or(0)));
        let served = Served::on(world, tls, None, SERVER.into(), |keys, config| {
            network.serve(SERVER.into(), own_socket(), keys, config).unwrap()
        });
        run(Simulated { served, network, steps }).await;
    });
    assert_eq!((ended, main.req_panic.get()), (Ok(()), 0));
    main
}

const SERVER: ([u8; 4], u16) = ([192, 0, 2, 1], 443);
const CLIENT: ([u8; 4], u16) = ([192, 0, 2, 9], 4000);

impl Simulated {
    /// A client that waits as long as the server does.
    async fn connect(&self) -> Client {
        let mut config = quinn::ClientConfig::new(self.served.tls.make_quic_client(http3::ALPN));
        let mut transport = quinn::TransportConfig::default();
        transport.max_idle_timeout(None);
        config.transport_config(Arc::new(transport));
        let endpoint = self.network.client(CLIENT.into()).unwrap();
        let connecting = endpoint.connect_with(config, SocketAddr::from(SERVER), NAME).unwrap();
        Client::on(connecting.await.unwrap()).await
    }

    async fn send_without_answer(&self, client: &Client, request: &[u8], times: usize) -> Vec<RecvStream> {
        let mut streams = Vec::new();
        for _ in 0..times {
            streams.push(client.send(request).await);
        }
        rt::sleep(WAY / 2).await;
        self.network.set_path(NOWHERE);
        rt::sleep(WAY).await;
        assert_eq!(self.served.world.engine.main.h3_req.get(), times as u64);
        streams
    }
}

/// Waits for all of these answers; when the last one is there.
async fn read_all(streams: Vec<RecvStream>, want: &str) -> Instant {
    for mut stream in streams {
        assert_eq!(read(&stream.read_to_end(1000).await.unwrap()), (200, want.to_owned()));
    }
    Instant::now()
}

/// Answers are on their way for longer than `lost`: all arrive, and the client has `idle` from then.
fn check_late(path: &str, lost: Duration, settings: &[(&str, &str)], idle: Duration) {
    let main = simulated(settings, |it| async move {
        let client = it.connect().await;
        let sent = Instant::now();
        let streams = it.send_without_answer(&client, &get(path), 20).await;
        rt::sleep(lost).await;
        it.network.set_path(NEAR);
        let arrived = read_all(streams, &format!("{path} 192.0.2.9 HTTP/3")).await;
        assert!(arrived - sent > lost);
        assert_eq!(client.end().await, code(Http3ErrorCode::NoError));
        let rest = arrived.elapsed();
        assert!(rest >= idle && rest < idle + EXACT, "{rest:?} instead of {idle:?}");
    });
    assert_eq!((main.sc_rx_close_idle.get(), main.h3_errors.get()), (1, 0));
}

#[test]
fn a_connection_is_idle_once_its_answers_have_arrived() {
    let idle = Duration::from_secs(4);
    for lost in [1, 3, 4, 10] {
        check_late("/1", Duration::from_secs(lost), &[("timeout_idle", "4"), ("h3_idle_timeout", "600")], idle);
    }
}

#[test]
fn without_time_to_be_idle_answers_still_arrive() {
    check_late("/hurry", Duration::from_millis(1), &[], Duration::ZERO);
    check_late("/hurry", Duration::from_secs(5), &[], Duration::ZERO);
}

#[test]
fn a_connection_is_idle_at_once_where_answers_arrive_at_once() {
    let main = simulated(&[("timeout_idle", "4")], |it| async move {
        let client = it.connect().await;
        for _ in 0..10 {
            rt::sleep(Duration::from_secs(3)).await;
            assert_eq!(client.ask(&get("/1")).await.0, 200);
        }
        let (arrived, before) = (Instant::now(), it.steps.get());
        assert_eq!(client.end().await, code(Http3ErrorCode::NoError));
        let idle = arrived.elapsed() + WAY * 2;
        assert!(idle >= Duration::from_secs(4) && idle < Duration::from_secs(4) + EXACT, "{idle:?}");
        let steps = it.steps.get() - before;
        assert!(steps < 30, "{steps} steps");
    });
    assert_eq!(main.sc_rx_close_idle.get(), 1);
}

/// The client acknowledges nothing: the session lasts so long from its last request, and nothing spins.
fn check_silent(settings: &[(&str, &str)], lasts: Duration) {
    let main = simulated(&[&[("timeout_idle", "1")], settings].concat(), |it| async move {
        let client = it.connect().await;
        let _streams = it.send_without_answer(&client, &get("/1"), 20).await;
        let (main, before) = (it.served.world.engine.main, it.steps.get());
        rt::sleep(lasts - WAY).await;
        assert_eq!(main.sess_closed.get(), 0, "{settings:?}");
        rt::sleep(EXACT).await;
        assert_eq!(main.sess_closed.get(), 1, "{settings:?}");
        let steps = it.steps.get() - before;
        assert!(steps < 150, "{settings:?}: {steps} steps");
    });
    assert_eq!((main.sc_rx_close_idle.get(), main.h3_errors.get()), (1, 0));
}

#[test]
fn who_acknowledges_nothing_is_waited_for_as_for_any_answer() {
    check_silent(&[("send_timeout", "20"), ("h3_idle_timeout", "600")], Duration::from_secs(20));
    check_silent(&[("send_timeout", "0.5"), ("h3_idle_timeout", "600")], Duration::from_secs(1));
    check_silent(&[("send_timeout", "0"), ("h3_idle_timeout", "60")], Duration::from_secs(60));
}

#[test]
fn what_the_client_wants_no_more_isnt_waited_for() {
    let main = simulated(&[("timeout_idle", "4")], |it| async move {
        let client = it.connect().await;
        let streams = it.send_without_answer(&client, &get("/1"), 20).await;
        rt::sleep(Duration::from_secs(3)).await;
        let before = it.steps.get();
        for mut stream in streams {
            stream.stop(VarInt::from_u32(Http3ErrorCode::RequestCancelled.number())).unwrap();
        }
        it.network.set_path(NEAR);
        let stopped = Instant::now();
        assert_eq!(client.end().await, code(Http3ErrorCode::NoError));
        let rest = stopped.elapsed();
        assert!(rest >= Duration::from_secs(4) && rest < Duration::from_secs(8), "{rest:?}");
        let steps = it.steps.get() - before;
        assert!(steps < 200, "{steps} steps");
    });
    assert_eq!(main.sc_rx_close_idle.get(), 1);
}

#[test]
fn a_drain_waits_for_what_is_on_its_way() {
    simulated(&[("timeout_idle", "30")], |it| async move {
        let client = it.connect().await;
        let streams = it.send_without_answer(&client, &get("/1"), 20).await;
        rt::sleep(Duration::from_secs(3)).await;
        it.served.group.drain();
        rt::sleep(Duration::from_secs(3)).await;
        it.network.set_path(NEAR);
        let arrived = read_all(streams, "/1 192.0.2.9 HTTP/3").await;
        assert_eq!(client.end().await, code(Http3ErrorCode::NoError));
        let rest = arrived.elapsed();
        assert!(rest >= Duration::from_secs(1) && rest < Duration::from_secs(1) + EXACT, "{rest:?}");
    });
}

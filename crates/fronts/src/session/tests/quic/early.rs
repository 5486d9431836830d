// SPDX-License-Identifier: BSD-2-Clause
//! Facts about early data.

use std::net::SocketAddr;
use std::sync::mpsc;

use super::*;

/// One that takes early data, in sessions that are kept with these limits.
fn early(settings: &[(&str, &str)], run: impl AsyncFnOnce(&mut Served, &Comer)) -> &'static Main {
    let mut tls = Tls::new();
    tls.server.ticketer = Some(testkit_tls::ticketer());
    let comer = Comer::new(&tls);
    let world = World::with_quic(settings, &tls);
    let main = world.engine.main;
    rt::run(async {
        let mut served = Served::early(world, tls, Some(Served::early_data("limits")));
        rt::timeout(Duration::from_secs(60), run(&mut served, &comer)).await.expect("no wait is as long");
        while main.sess_closed.get() < main.s_sess.get() {
            rt::yield_now().await;
        }
    })
    .unwrap();
    assert_eq!((main.req_panic.get(), main.h3_errors.get()), (0, 0));
    main
}

impl Served {
    fn early_data(limits: &str) -> EarlyData {
        EarlyData { sessions: Arc::default(), limits: limits.to_owned() }
    }
}

struct Comer(quinn::ClientConfig);

impl Comer {
    fn new(tls: &Tls) -> Self {
        Comer(quinn::ClientConfig::new(tls.make_quic_client(http3::ALPN)))
    }

    fn start(&self, address: SocketAddr) -> quinn::Connecting {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let runtime = Arc::new(quinn::TokioRuntime);
        let client = Endpoint::new(quinn::EndpointConfig::default(), None, socket, runtime).unwrap();
        client.connect_with(self.0.clone(), address, NAME).unwrap()
    }

    async fn learn(&self, served: &Served) {
        let client = Client::on(self.start(served.address).await.unwrap()).await;
        assert_eq!(client.ask(&get("/first")).await.0, 200);
        client.leave();
    }

    /// Asks before the handshake's end; whether that was taken, and the answer.
    async fn ask(&self, served: &Served, request: &[u8]) -> (bool, Option<(u16, String)>) {
        self.ask_at(served.address, request).await
    }

    async fn ask_at(&self, address: SocketAddr, request: &[u8]) -> (bool, Option<(u16, String)>) {
        let Ok((conn, end)) = self.start(address).into_0rtt() else { panic!("there is no session") };
        let client = Client::on(conn).await;
        let mut stream = client.send(request).await;
        let answer = stream.read_to_end(1 << 20).await;
        let is_taken = end.await;
        client.leave();
        (is_taken, answer.ok().map(|answer| read(&answer)))
    }
}

fn post() -> Vec<u8> {
    let head = [(":method", "POST"), (":scheme", "https"), (":authority", "a"), (":path", "/post")];
    [section(&head), data(b"abc")].concat()
}

#[test]
fn what_is_safe_is_answered_at_once_and_the_rest_after_the_handshake() {
    let main = early(&[], async |served, comer| {
        comer.learn(served).await;
        let answer = |path: &str| Some((200, format!("{path} 127.0.0.1 HTTP/3")));
        assert_eq!(comer.ask(served, &get("/again")).await, (true, answer("/again")));
        assert_eq!(comer.ask(served, &post()).await, (true, answer("/post")));
    });
    assert_eq!((main.h3_sess.get(), main.early_data_req.get(), main.early_data_wait.get()), (3, 1, 1));
    assert_eq!((main.tls_handshakes.get(), main.tls_resumed.get(), main.tls_fail.get()), (3, 2, 0));
}

/// Passes datagrams on between one client and a server, in a thread of its own: where the client finds it, and what the client has said.
fn wiretap(server: SocketAddr) -> (SocketAddr, mpsc::Receiver<Vec<u8>>) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    let (said, recorded) = mpsc::channel();
    std::thread::spawn(move || {
        let mut client = None;
        let mut datagram = [0; 1 << 16];
        while let Ok((n, from)) = socket.recv_from(&mut datagram) {
            if from == server {
                client.map(|client| socket.send_to(&datagram[..n], client));
                continue;
            }
            client = Some(from);
            // Nobody listens any more: the test is over.
            if said.send(datagram[..n].to_vec()).is_err() {
                return;
            }
            let _ = socket.send_to(&datagram[..n], server);
        }
    });
    (address, recorded)
}

#[test]
fn what_was_recorded_cant_be_sent_again() {
    let main = early(&[], async |served, comer| {
        comer.learn(served).await;
        let (address, recorded) = wiretap(served.address);
        assert!(comer.ask_at(address, &get("/once")).await.0);
        while served.endpoint.open_connections() > 0 {
            rt::yield_now().await;
        }
        let attacker = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for datagram in recorded.try_iter() {
            attacker.send_to(&datagram, served.address).unwrap();
        }
        // A full handshake begins, which the attacker can't end.
        while h3::half_open() == 0 {
            rt::yield_now().await;
        }
        let client = Client::on(served.try_connect(NAME, http3::ALPN).await.unwrap()).await;
        assert_eq!(client.ask(&get("/another")).await.0, 200);
        client.leave();
    });
    assert_eq!((main.early_data_req.get(), main.h3_req.get(), main.h3_sess.get()), (1, 3, 3));
}

#[test]
fn a_place_is_given_at_the_handshakes_end() {
    let main = early(&[], async |served, comer| {
        comer.learn(served).await;
        served.admitted.set((0, 0));
        let Ok((conn, end_of_handshake)) = comer.start(served.address).into_0rtt() else {
            panic!("there is no session")
        };
        let client = Client::on(conn).await;
        let _stream = client.send(&post()).await;
        assert!(end_of_handshake.await);
        assert_eq!(end(&client.conn).await, code(Http3ErrorCode::ExcessiveLoad));
        assert_eq!(served.admitted.get().0, 1);
    });
    assert_eq!((main.early_data_wait.get(), main.tls_fail.get(), main.h3_sess.get()), (1, 0, 2));
}

#[test]
fn a_session_is_good_for_one_time() {
    let main = early(&[], async |served, comer| {
        comer.learn(served).await;
        // As if somebody else had used up what the client has.
        served.forget();
        assert_eq!(comer.ask(served, &get("/replayed")).await, (false, None));
    });
    assert_eq!((main.early_data_req.get(), main.tls_resumed.get(), main.tls_fail.get()), (0, 0, 0));
}

#[test]
fn other_limits_than_those_of_the_session_mean_no_early_data() {
    let main = early(&[], async |served, comer| {
        comer.learn(served).await;
        let limits = EarlyData { limits: "others".to_owned(), ..served.early.clone().unwrap() };
        served.become_early(Some(limits));
        assert_eq!(comer.ask(served, &get("/")).await, (false, None));
        // A new session begins under them.
        comer.learn(served).await;
        assert!(comer.ask(served, &get("/")).await.0);
        served.become_early(None);
        assert_eq!(comer.ask(served, &get("/")).await, (false, None));
    });
    assert_eq!(main.early_data_req.get(), 1);
}

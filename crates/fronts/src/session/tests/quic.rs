// SPDX-License-Identifier: BSD-2-Clause
//! Facts about sessions over QUIC: server and client in this process, datagrams through the loopback interface.

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http3::control::{ControlEvent, ControlReader};
use http3::qpack::{QpackEncoder, QpackScratch};
use http3::stream::{FrameReader, StreamStep};
use http3::{Http3ErrorCode, Http3Limits, frame, head};
use message::Head;
use net::quic::{self, Connection, ConnectionError, Endpoint, RecvStream, SendStream, VarInt};
use tables::counters::Main;
use testkit_tls::{NAME, TlsWorld as Tls};
use tls::early::EarlyData;
use tls::quic::{QuicKeys, QuicServer};

use super::world::World;
use crate::h3;
use crate::handshake::InProgress;

mod early;
mod idle;

/// One that is served, on a socket of its own.
struct Served {
    world: World,
    tls: Tls,
    group: Rc<h3::LinkGroup>,
    endpoint: Endpoint,
    address: std::net::SocketAddr,
    config: Rc<RefCell<h3::Http3Config>>,
    server: QuicServer,
    early: Option<EarlyData>,
    /// Number of connections to be admitted, and how many of them may be.
    admitted: Rc<Cell<(u32, u32)>>,
}

impl Served {
    fn begin(world: World, tls: Tls) -> Self {
        Self::early(world, tls, None)
    }

    fn early(world: World, tls: Tls, early: Option<EarlyData>) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        Self::on(world, tls, early, address, |keys, config| {
            let own_socket = quic::GroupSocket { life: 1, is_alone: Default::default(), ..own_socket() };
            quic::listen(socket.into(), own_socket, keys, config).unwrap()
        })
    }

    fn on(
        world: World,
        tls: Tls,
        early: Option<EarlyData>,
        address: std::net::SocketAddr,
        listen: impl FnOnce(&QuicKeys, quic::ServerConfig) -> Endpoint,
    ) -> Self {
        let server = QuicServer::new(world.engine.sessions.certificates.clone(), "a0", || false).unwrap();
        let config = configure(&world, &server, early.clone());
        let endpoint = listen(&QuicKeys::new(&[7; 32]), quic::ServerConfig::clone(&config.quic));
        let (group, config) = (Rc::default(), Rc::new(RefCell::new(config)));
        let admitted = Rc::new(Cell::new((0, u32::MAX)));
        let served = Served { world, tls, group, endpoint, address, config, admitted, server, early };
        served.accept();
        served
    }

    /// Connections from now on.
    fn become_early(&mut self, early: Option<EarlyData>) {
        *self.config.borrow_mut() = configure(&self.world, &self.server, early.clone());
        self.early = early;
    }

    /// The same with no sessions.
    fn forget(&mut self) {
        let limits = self.early.as_ref().unwrap().limits.clone();
        self.become_early(Some(EarlyData { sessions: Arc::default(), limits }));
    }

    fn accept(&self) {
        let (engine, listener) = (self.world.engine.clone(), self.world.listener().clone());
        let (endpoint, group, config) = (self.endpoint.clone(), self.group.clone(), self.config.clone());
        let own_socket = h3::ListenerSocket { local: self.address, number: 0 };
        let admitted = self.admitted.clone();
        rt::spawn(async move {
            while let Some(client) = endpoint.accept().await {
                let (engine, listener, group) = (engine.clone(), listener.clone(), group.clone());
                let admitted = admitted.clone();
                let admit = move || {
                    let (count, most) = admitted.get();
                    admitted.set((count + 1, most));
                    (count < most).then_some(())
                };
                let config = config.borrow().clone();
                rt::spawn(h3::serve(engine, listener, group, own_socket, (client, config), admit));
            }
        });
    }

    async fn try_connect(&self, name: &str, alpn: &[u8]) -> Result<Connection, ConnectionError> {
        let config = quinn::ClientConfig::new(self.tls.make_quic_client(alpn));
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let runtime = Arc::new(quinn::TokioRuntime);
        let client = Endpoint::new(quinn::EndpointConfig::default(), None, socket, runtime).unwrap();
        client.connect_with(config, self.address, name).unwrap().await
    }

    async fn connect(&self) -> Client {
        Client::on(self.try_connect(NAME, http3::ALPN).await.unwrap()).await
    }
}

fn configure(world: &World, server: &QuicServer, early: Option<EarlyData>) -> h3::Http3Config {
    let params = world.engine.params.load();
    let limits = quic::QuicLimits {
        streams: params.h3_max_concurrent_streams,
        stream_window: params.h3_stream_window as u32,
        window: params.h3_window as u32,
        send_window: params.h3_send_window as u32,
        idle: params.h3_idle_timeout,
    };
    let takes_early_data = early.is_some();
    let server = Arc::new(server.with_early(early));
    h3::Http3Config { quic: Arc::new(quic::config(&server, &QuicKeys::new(&[7; 32]), &limits, None)), takes_early_data }
}

/// The only one of its worker, which is alone.
fn own_socket() -> quic::GroupSocket {
    quic::GroupSocket { member: 0, members: 1, life: 0, is_superseded: Arc::default(), is_alone: Arc::new(true.into()) }
}

struct Client {
    conn: Connection,
    control: SendStream,
}

fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let (mut section, mut out) = (Vec::new(), Vec::new());
    let mut encoder = QpackEncoder::begin(&mut section);
    fields.iter().for_each(|(name, value)| encoder.field(name.as_bytes(), value.as_bytes()));
    frame::Http3FrameHeader::write(frame::Http3FrameType::Headers, section.len() as u64, &mut out);
    [out, section].concat()
}

fn get(path: &str) -> Vec<u8> {
    section(&[(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", path)])
}

fn data(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::Http3FrameHeader::write(frame::Http3FrameType::Data, body.len() as u64, &mut out);
    [&out, body].concat()
}

fn read(bytes: &[u8]) -> (u16, String) {
    let (mut reader, mut at, mut head, mut body) = (FrameReader::response(1 << 16), 0, Head::new(), Vec::new());
    loop {
        let input = &bytes[at..];
        match reader.step(input).unwrap() {
            StreamStep::Fields(range) => {
                head::read_response(
                    &input[range.clone()],
                    &Http3Limits::default(),
                    &mut QpackScratch::default(),
                    &mut head,
                )
                .unwrap();
                at += range.end;
            }
            StreamStep::Data(range) => {
                body.extend_from_slice(&input[range.clone()]);
                at += range.end;
            }
            StreamStep::More(done) => {
                reader.end(input.len() - done).unwrap();
                return (head.status(), String::from_utf8(body).unwrap());
            }
        }
    }
}

impl Client {
    async fn on(conn: Connection) -> Self {
        let mut control = conn.open_uni().await.unwrap();
        let mut out = Vec::new();
        http3::control::begin(1 << 20, &mut out);
        control.write_all(&out).await.unwrap();
        Client { conn, control }
    }

    fn leave(self) {
        self.conn.close(VarInt::from_u32(Http3ErrorCode::NoError.number()), b"");
    }

    async fn send(&self, request: &[u8]) -> RecvStream {
        let (mut send, recv) = self.conn.open_bi().await.unwrap();
        send.write_all(request).await.unwrap();
        send.finish().unwrap();
        recv
    }

    async fn ask(&self, request: &[u8]) -> (u16, String) {
        read(&self.send(request).await.read_to_end(1 << 20).await.unwrap())
    }

    async fn refusal(&self, request: &[u8]) -> u64 {
        match self.send(request).await.read_to_end(1 << 20).await {
            Err(quinn::ReadToEndError::Read(quinn::ReadError::Reset(code))) => code.into_inner(),
            other => panic!("{other:?}"),
        }
    }

    async fn end(&self) -> u64 {
        end(&self.conn).await
    }
}

async fn end(conn: &Connection) -> u64 {
    match conn.closed().await {
        ConnectionError::ApplicationClosed(close) => close.error_code.into_inner(),
        other => panic!("{other}"),
    }
}

/// A server, and what a client does with it; all sessions end.
fn session<F: Future>(settings: &[(&str, &str)], run: impl FnOnce(Served) -> F) -> &'static Main {
    let tls = Tls::new();
    let world = World::with_quic(settings, &tls);
    let main = world.engine.main;
    rt::run(async {
        let limit = Duration::from_secs(60);
        rt::timeout(limit, run(Served::begin(world, tls))).await.expect("no wait is as long");
        while main.sess_closed.get() < main.s_sess.get() {
            rt::yield_now().await;
        }
    })
    .unwrap();
    assert_eq!(main.req_panic.get(), 0);
    main
}

fn code(code: Http3ErrorCode) -> u64 {
    code.number().into()
}

#[test]
fn requests_are_answered_each_on_its_stream() {
    let main = session(&[], |served| async move {
        let client = served.connect().await;
        assert_eq!(client.ask(&get("/1")).await, (200, "/1 127.0.0.1 HTTP/3".to_owned()));
        let mut streams = Vec::new();
        for n in 0..50 {
            streams.push(client.send(&get(&format!("/{n}"))).await);
        }
        for (n, mut stream) in streams.into_iter().enumerate().rev() {
            let response = read(&stream.read_to_end(1 << 20).await.unwrap());
            assert_eq!(response, (200, format!("/{n} 127.0.0.1 HTTP/3")));
        }
        client.conn.close(VarInt::from_u32(Http3ErrorCode::NoError.number()), b"");
    });
    assert_eq!((main.h3_sess.get(), main.h3_req.get(), main.sc_rem_close.get()), (1, 51, 1));
    assert_eq!((main.tls_handshakes.get(), main.h3_errors.get()), (1, 0));
}

#[test]
fn a_request_may_come_in_pieces_and_its_body_go_unread() {
    session(&[], |served| async move {
        let client = served.connect().await;
        let (mut send, mut recv) = client.conn.open_bi().await.unwrap();
        for byte in get("/torn") {
            send.write_all(&[byte]).await.unwrap();
            rt::yield_now().await;
        }
        send.finish().unwrap();
        assert_eq!(read(&recv.read_to_end(1000).await.unwrap()).1, "/torn 127.0.0.1 HTTP/3");
        let post = [(":method", "POST"), (":scheme", "https"), (":authority", "a"), (":path", "/p")];
        let whole = [section(&post), data(b"abc"), data(b"def"), section(&[("x", "y")])].concat();
        assert_eq!(client.ask(&whole).await.0, 200);
        // The answer doesn't wait for a body without an end.
        let (mut send, mut recv) = client.conn.open_bi().await.unwrap();
        send.write_all(&[section(&post), data(b"abc")].concat()).await.unwrap();
        assert_eq!(read(&recv.read_to_end(1000).await.unwrap()).0, 200);
        assert_eq!(send.stopped().await.unwrap(), Some(VarInt::from_u32(Http3ErrorCode::NoError.number())));
        client.conn.close(VarInt::from_u32(0x100), b"");
    });
}

#[test]
fn a_malformed_request_ends_its_stream_alone() {
    let main = session(&[], |served| async move {
        let client = served.connect().await;
        let good = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/1")];
        let with = |more: &[(&'static str, &'static str)]| [&good[..], more].concat();
        let mut cases = vec![
            with(&[("connection", "close")]),
            with(&[("transfer-encoding", "chunked")]),
            with(&[("te", "gzip")]),
            with(&[("a b", "c")]),
            with(&[("a", "b\r\nc: d")]),
            with(&[("a", "b\0")]),
            with(&[(":path", "/2")]),
            with(&[("a", "b"), (":authority", "b")]),
            with(&[("host", "b")]),
            with(&[(":status", "200")]),
            vec![(":method", "CONNECT"), (":authority", "a")],
            vec![(":method", "CONNECT"), good[1], good[2], good[3]],
            with(&[("content-length", "1")]),
            with(&[("content-length", "x")]),
        ];
        cases.extend((0..4).filter(|n| *n != 2).map(|n| {
            let mut fields = good.to_vec();
            fields.remove(n);
            fields
        }));
        for bad in ["/ 1", "/\r\n", "", "1"] {
            cases.push(vec![good[0], good[1], good[2], (":path", bad)]);
        }
        for bad in ["G ET", "", "GET\r\n"] {
            cases.push(vec![(":method", bad), good[1], good[2], good[3]]);
        }
        for bad in ["a b", "u@a", "a\r\nb"] {
            cases.push(vec![good[0], good[1], (":authority", bad), good[3]]);
        }
        let count = cases.len() as u64;
        for fields in cases {
            // One without a body is answered only once it is known to be whole.
            let (mut send, mut recv) = client.conn.open_bi().await.unwrap();
            send.write_all(&section(&fields)).await.unwrap();
            let _ = send.finish();
            match recv.read_to_end(1000).await {
                Err(quinn::ReadToEndError::Read(quinn::ReadError::Reset(got))) => {
                    assert_eq!(got.into_inner(), code(Http3ErrorCode::Message), "{fields:?}");
                }
                Ok(bytes) => assert!([400, 405].contains(&read(&bytes).0), "{fields:?}"),
                other => panic!("{fields:?}: {other:?}"),
            }
        }
        // In upper case, which the encoder doesn't write.
        let mut upper = get("/1");
        upper.extend_from_slice(b"\x21A\x01b");
        upper[1] += 4;
        assert_eq!(client.refusal(&upper).await, code(Http3ErrorCode::Message));
        assert_eq!(client.ask(&get("/1")).await.0, 200);
        assert!(count > 20);
        client.conn.close(VarInt::from_u32(0x100), b"");
    });
    assert_eq!(main.h3_errors.get(), 0);
}

/// Checks that these bytes on new streams end the connection with this code.
fn check_end(name: &str, uni: &[&[u8]], bidi: &[u8], want: Http3ErrorCode) {
    let main = session(&[], |served| async move {
        let client = served.connect().await;
        let mut streams = Vec::new();
        for bytes in uni {
            let mut stream = client.conn.open_uni().await.unwrap();
            stream.write_all(bytes).await.unwrap();
            streams.push(stream);
        }
        if !bidi.is_empty() {
            client.send(bidi).await;
        }
        assert_eq!(client.end().await, code(want), "{name}");
    });
    assert_eq!(main.h3_errors.get(), 1, "{name}");
}

#[test]
fn what_breaks_the_protocol_for_all_ends_the_connection() {
    check_end("data first", &[], &data(b"x"), Http3ErrorCode::FrameUnexpected);
    check_end("settings on a request", &[], &[4, 0], Http3ErrorCode::FrameUnexpected);
    check_end("a frame of http/2", &[], &[6, 0], Http3ErrorCode::FrameUnexpected);
    check_end("a second control stream", &[&[0, 4, 0]], &[], Http3ErrorCode::StreamCreation);
    check_end("a push", &[&[1, 0]], &[], Http3ErrorCode::StreamCreation);
    check_end("an instruction to the table", &[&[2, 0x3f, 0x10]], &[], Http3ErrorCode::EncoderStream);
    check_end("an acknowledgement of nothing", &[&[3, 0x80]], &[], Http3ErrorCode::DecoderStream);
    check_end("a reference to the table", &[], &[1, 3, 0, 0, 0x80], Http3ErrorCode::Decompression);
    check_end("a stream that ends in a frame", &[], &get("/1")[..9], Http3ErrorCode::Frame);
}

#[test]
fn the_control_stream_is_needed() {
    session(&[], |served| async move {
        let mut client = served.connect().await;
        client.control.finish().unwrap();
        assert_eq!(client.end().await, code(Http3ErrorCode::ClosedCriticalStream));
    });
}

#[test]
fn a_body_is_as_long_as_announced() {
    let announced = [(":method", "POST"), (":scheme", "https"), (":authority", "a"), (":path", "/p")];
    session(&[], |served| async move {
        let client = served.connect().await;
        let head = section(&[&announced[..], &[("content-length", "3")]].concat());
        assert_eq!(client.ask(&[head.clone(), data(b"abc")].concat()).await.0, 200);
        client.conn.close(VarInt::from_u32(0x100), b"");
    });
}

#[test]
fn an_extended_connect_that_nobody_pipes_is_no_success() {
    session(&[], |served| async move {
        let client = served.connect().await;
        let fields = |protocol| {
            [
                (":method", "CONNECT"),
                (":protocol", protocol),
                (":scheme", "https"),
                (":path", "/chat"),
                (":authority", "a"),
            ]
        };
        let asked = |protocol| section(&fields(protocol));
        // VCL answers all with 200.
        assert_eq!(client.ask(&asked("websocket")).await, (501, "/chat 127.0.0.1 HTTP/3".to_owned()));
        assert_eq!(client.ask(&asked("connect-udp")).await, (501, String::new()));
        assert_eq!(client.ask(&section(&[(":method", "CONNECT"), (":authority", "a")])).await.0, 405);
        for missing in 2..5 {
            let mut fields = fields("websocket").to_vec();
            fields.remove(missing);
            assert_eq!(client.refusal(&section(&fields)).await, code(Http3ErrorCode::Message), "{missing}");
        }
    });
}

#[test]
fn who_resets_too_many_requests_is_sent_away() {
    let main = session(&[("h3_reset_limit", "10"), ("timeout_head", "30")], |served| async move {
        let client = served.connect().await;
        let mut sent = 0;
        loop {
            let Ok((mut send, _recv)) = client.conn.open_bi().await else { break };
            if send.write_all(&get("/1")[..5]).await.is_err() || send.reset(VarInt::from_u32(0x10c)).is_err() {
                break;
            }
            sent += 1;
            assert!(sent < 10_000);
            rt::yield_now().await;
        }
        assert_eq!(client.end().await, code(Http3ErrorCode::ExcessiveLoad));
    });
    assert_eq!((main.h3_reset_flood.get(), main.h3_errors.get()), (1, 1));
}

/// Heads that aren't whole hold so much of a connection together; whoever is alone has room for all of its own.
#[test]
fn heads_that_arent_whole_share_a_limit() {
    let settings = [("h3_limit_head_bytes", "6000b"), ("timeout_head", "50")];
    let main = session(&settings, |served| async move {
        let client = served.connect().await;
        let long = "x".repeat(7000);
        let names: Vec<String> = (0..4).map(|n| format!("x-{n}")).collect();
        let mut fields = vec![(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/long")];
        fields.extend(names.iter().map(|name| (name.as_str(), long.as_str())));
        let whole = section(&fields);
        let (first, rest) = whole.split_at(9_000);
        let (mut alone, mut answer) = client.conn.open_bi().await.unwrap();
        alone.write_all(first).await.unwrap();
        // It is held before the others come.
        assert_eq!(client.ask(&get("/1")).await.0, 200);
        let (mut other, mut refused) = client.conn.open_bi().await.unwrap();
        other.write_all(&first[..5000]).await.unwrap();
        match refused.read_to_end(100).await {
            Err(quinn::ReadToEndError::Read(quinn::ReadError::Reset(got))) => {
                assert_eq!(got.into_inner(), code(Http3ErrorCode::RequestRejected));
            }
            other => panic!("{other:?}"),
        }
        alone.write_all(rest).await.unwrap();
        alone.finish().unwrap();
        assert_eq!(read(&answer.read_to_end(1000).await.unwrap()).0, 200);
        // What was held is given back.
        let (mut again, mut answer) = client.conn.open_bi().await.unwrap();
        again.write_all(&first[..5000]).await.unwrap();
        assert_eq!(client.ask(&get("/1")).await.0, 200);
        again.write_all(&whole[5000..]).await.unwrap();
        again.finish().unwrap();
        assert_eq!(read(&answer.read_to_end(1000).await.unwrap()).0, 200);
        client.conn.close(VarInt::from_u32(0x100), b"");
    });
    assert_eq!((main.h3_heads_refused.get(), main.h3_errors.get()), (1, 0));
}

fn check_flood(setting: &str, counter: fn(&Main) -> u64, flood: impl AsyncFnOnce(&mut Client)) {
    let main = session(&[(setting, "20")], |served| async move {
        let mut client = served.connect().await;
        flood(&mut client).await;
        assert_eq!(client.end().await, code(Http3ErrorCode::ExcessiveLoad), "{setting}");
    });
    assert_eq!((counter(main), main.h3_errors.get(), main.sc_overload.get()), (1, 1, 1), "{setting}");
}

/// Writes what ends the connection some time.
async fn write_for_ever(stream: &mut SendStream, piece: &[u8]) {
    while stream.write_all(piece).await.is_ok() {
        rt::yield_now().await;
    }
}

#[test]
fn each_flood_has_its_end() {
    check_flood(
        "h3_limit_control",
        |m| m.h3_abuse_control.get(),
        async |client| {
            write_for_ever(&mut client.control, &[7, 1, 0]).await;
        },
    );
    check_flood(
        "h3_limit_control",
        |m| m.h3_abuse_control.get(),
        async |client| {
            write_for_ever(&mut client.control, &[0xd, 1, 0]).await;
        },
    );
    check_flood(
        "h3_limit_ignored",
        |m| m.h3_abuse_ignored.get(),
        async |client| {
            write_for_ever(&mut client.control, &[0x21, 0]).await;
        },
    );
    check_flood(
        "h3_limit_priorities",
        |m| m.h3_abuse_priority.get(),
        async |client| {
            write_for_ever(&mut client.control, &[0x80, 0xf, 7, 0, 1, 0]).await;
        },
    );
    check_flood(
        "h3_limit_ignored",
        |m| m.h3_abuse_ignored.get(),
        async |client| {
            let (mut send, _recv) = client.conn.open_bi().await.unwrap();
            send.write_all(&[0x21, 0].repeat(21)).await.unwrap();
            client.conn.closed().await;
        },
    );
    check_flood(
        "h3_limit_ignored",
        |m| m.h3_abuse_ignored.get(),
        async |client| {
            let mut encoder = client.conn.open_uni().await.unwrap();
            encoder.write_all(&[2]).await.unwrap();
            write_for_ever(&mut encoder, &[0x20]).await;
        },
    );
    check_flood(
        "h3_limit_streams",
        |m| m.h3_abuse_stream.get(),
        async |client| {
            while let Ok(mut stream) = client.conn.open_uni().await {
                let _ = (stream.write_all(&[0x21]).await, stream.finish());
            }
        },
    );
    check_flood(
        "h3_limit_streams",
        |m| m.h3_abuse_stream.get(),
        async |client| {
            while let Ok(mut stream) = client.conn.open_uni().await {
                let _ = stream.finish();
            }
        },
    );
    check_flood(
        "h3_limit_stops",
        |m| m.h3_abuse_stop.get(),
        async |client| {
            // Both sides of a request, which is answered first.
            for _ in 0..60 {
                let Ok((mut send, mut recv)) = client.conn.open_bi().await else { return };
                let _ = (send.write_all(&get("/1")).await, recv.stop(VarInt::from_u32(0x10c)));
                let _ = send.reset(VarInt::from_u32(0x10c));
            }
        },
    );
}

/// A client that may have a false address is in nobody's way: its address is known only when the handshake is done.
#[test]
fn who_shakes_no_hands_takes_nobodys_place() {
    let main = session(&[], |served| async move {
        assert!(served.try_connect(NAME, b"h2").await.is_err());
        assert_eq!(served.admitted.get().0, 0);
        let client = served.connect().await;
        assert_eq!(client.ask(&get("/1")).await.0, 200);
        assert_eq!(served.admitted.replace((1, 1)).0, 1);
        let refused = served.try_connect(NAME, http3::ALPN).await.unwrap();
        assert_eq!(end(&refused).await, code(Http3ErrorCode::ExcessiveLoad));
        assert_eq!(served.admitted.get().0, 2);
        client.conn.close(VarInt::from_u32(0x100), b"");
    });
    assert_eq!(main.h3_sess.get(), 1);
}

#[test]
fn handshakes_share_their_bytes() {
    let main = session(&[], |served| async move {
        let mut all = InProgress::begin().unwrap();
        all.hold(160 << 20).unwrap();
        assert!(served.try_connect(NAME, http3::ALPN).await.is_err());
        drop(all);
        let client = served.connect().await;
        assert_eq!(client.ask(&get("/1")).await.0, 200);
        assert_eq!(InProgress::begin().map(|mut one| one.hold(160 << 20).is_ok()).ok(), Some(true));
        client.conn.close(VarInt::from_u32(0x100), b"");
    });
    assert_eq!((main.sess_dropped.get(), main.h3_sess.get()), (1, 1));
}

/// RFC 9114, 4.1: the stream is reset.
#[test]
fn a_stream_that_ends_without_a_head_is_told_so() {
    let main = session(&[], |served| async move {
        let client = served.connect().await;
        assert_eq!(client.refusal(b"").await, code(Http3ErrorCode::RequestIncomplete));
        // A frame that nobody knows is no head.
        assert_eq!(client.refusal(&[0x21, 0]).await, code(Http3ErrorCode::RequestIncomplete));
        assert_eq!(client.ask(&get("/1")).await.0, 200);
        client.conn.close(VarInt::from_u32(0x100), b"");
    });
    assert_eq!((main.h3_errors.get(), main.h3_reset_flood.get()), (0, 0));
}

/// Neither what was answered nor what went down with its connection was taken back.
#[test]
fn only_what_comes_to_nothing_counts_as_reset() {
    let main = session(&[("h3_reset_limit", "1")], |served| async move {
        let client = served.connect().await;
        for _ in 0..20 {
            assert_eq!(client.ask(&get("/1")).await.0, 200);
        }
        let (mut send, recv) = client.conn.open_bi().await.unwrap();
        send.write_all(&get("/1")[..5]).await.unwrap();
        client.conn.close(VarInt::from_u32(0x100), b"");
        drop(recv);
    });
    assert_eq!((main.h3_errors.get(), main.h3_reset_flood.get()), (0, 0));
}

#[test]
fn who_stays_idle_too_long_is_told_so() {
    let main = session(&[("timeout_idle", "1")], |served| async move {
        let client = served.connect().await;
        assert_eq!(client.ask(&get("/1")).await.0, 200);
        assert_eq!(client.end().await, code(Http3ErrorCode::NoError));
    });
    assert_eq!(main.sc_rx_close_idle.get(), 1);
}

/// A way to a server which, while it is cut, loses what the server says.
struct Relay {
    address: std::net::SocketAddr,
    is_cut: Arc<AtomicBool>,
}

impl Relay {
    fn to(server: std::net::SocketAddr) -> Self {
        let (outer, inner) = [0; 2].map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).into();
        inner.connect(server).unwrap();
        let relay = Relay { address: outer.local_addr().unwrap(), is_cut: Arc::default() };
        let (from_client, to_server) = (outer.try_clone().unwrap(), inner.try_clone().unwrap());
        let (client, has_client) = std::sync::mpsc::channel();
        // Both threads end with the process.
        std::thread::spawn(move || {
            let mut datagram = [0; 1 << 16];
            while let Ok((len, sender)) = from_client.recv_from(&mut datagram) {
                let _ = (client.send(sender), to_server.send(&datagram[..len]));
            }
        });
        let is_cut = relay.is_cut.clone();
        std::thread::spawn(move || {
            let (mut datagram, client) = ([0; 1 << 16], has_client.recv().unwrap());
            while let Ok(len) = inner.recv(&mut datagram) {
                if !is_cut.load(Ordering::Relaxed) {
                    let _ = outer.send_to(&datagram[..len], client);
                }
            }
        });
        relay
    }
}

#[test]
fn what_was_sent_is_waited_for_until_it_is_there() {
    session(&[("timeout_idle", "1")], |mut served| async move {
        let (relay, direct) = (Relay::to(served.address), served.address);
        served.address = relay.address;
        let client = served.connect().await;
        relay.is_cut.store(true, Ordering::Relaxed);
        let mut answer = client.send(&get("/1")).await;
        // One that begins later ends as idle meanwhile.
        served.address = direct;
        let other = served.connect().await;
        assert_eq!(other.ask(&get("/2")).await.0, 200);
        assert_eq!(other.end().await, code(Http3ErrorCode::NoError));
        relay.is_cut.store(false, Ordering::Relaxed);
        assert_eq!(read(&answer.read_to_end(1 << 16).await.unwrap()).0, 200);
        assert_eq!(client.end().await, code(Http3ErrorCode::NoError));
    });
}

#[test]
fn a_head_that_doesnt_come_is_waited_for_no_longer() {
    let main = session(&[("timeout_head", "0.05")], |served| async move {
        let client = served.connect().await;
        let (mut send, mut recv) = client.conn.open_bi().await.unwrap();
        send.write_all(&get("/1")[..5]).await.unwrap();
        match recv.read_to_end(100).await {
            Err(quinn::ReadToEndError::Read(quinn::ReadError::Reset(got))) => {
                assert_eq!(got.into_inner(), code(Http3ErrorCode::RequestRejected));
            }
            other => panic!("{other:?}"),
        }
        client.conn.close(VarInt::from_u32(0x100), b"");
    });
    assert_eq!(main.head_timeout.get(), 1);
}

#[test]
fn a_drain_lets_requests_end_and_takes_no_more() {
    session(&[("timeout_idle", "30")], |served| async move {
        let client = served.connect().await;
        assert_eq!(client.ask(&get("/1")).await.0, 200);
        let mut control = client.conn.accept_uni().await.unwrap();
        served.group.drain();
        let mut kind = [0; 1];
        control.read_exact(&mut kind).await.unwrap();
        assert_eq!(kind, [0]);
        let (mut held, mut reader, mut events) = (Vec::new(), ControlReader::default(), Vec::new());
        while events.len() < 2 {
            let mut piece = [0; 100];
            let read = control.read(&mut piece).await.unwrap().unwrap();
            held.extend_from_slice(&piece[..read]);
            let (event, done) = reader.next(&held).unwrap();
            events.extend(event);
            held.drain(..done);
        }
        assert!(matches!(events[..], [ControlEvent::Settings(_), ControlEvent::GoAway]), "{events:?}");
        assert_eq!(client.refusal(&get("/2")).await, code(Http3ErrorCode::RequestRejected));
        assert_eq!(client.end().await, code(Http3ErrorCode::NoError));
    });
}

/// A worker that is gone says nothing: the next one, with the same secret, says for it that its connections are over.
#[test]
fn who_takes_a_dead_ones_place_tells_its_clients() {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let tls = Tls::new();
    let serve = |life| {
        let world = World::with_quic(&[], &tls);
        let keys = QuicKeys::new(&[7; 32]);
        let server = QuicServer::new(world.engine.sessions.certificates.clone(), "a0", || false).unwrap();
        let limits = quic::QuicLimits {
            streams: 10,
            stream_window: 1 << 16,
            window: 1 << 16,
            send_window: 1 << 16,
            idle: Duration::from_secs(30),
        };
        let config = quic::config(&Arc::new(server), &keys, &limits, None);
        quic::listen(socket.try_clone().unwrap().into(), quic::GroupSocket { life, ..own_socket() }, &keys, config)
            .unwrap()
    };
    let to = socket.local_addr().unwrap();
    let (connected, is_connected) = std::sync::mpsc::channel();
    let (died, is_dead) = std::sync::mpsc::channel();
    let crypto = tls.make_quic_client(http3::ALPN);
    let client = std::thread::spawn(move || {
        rt::run(async {
            let local = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let client = Endpoint::new(quinn::EndpointConfig::default(), None, local, Arc::new(quinn::TokioRuntime));
            let conn = client.unwrap().connect_with(quinn::ClientConfig::new(crypto), to, NAME).unwrap().await.unwrap();
            connected.send(()).unwrap();
            rt::blocking(move || is_dead.recv().unwrap()).await.unwrap();
            // Its transport may have said something by itself, and be told already.
            if let Ok((mut send, _)) = conn.open_bi().await {
                let _ = send.write_all(&get("/1")).await;
            }
            conn.closed().await
        })
        .unwrap()
    });
    // The first one ends with its runtime, in the midst of everything.
    rt::run(async {
        let endpoint = serve(1);
        let conn = endpoint.accept().await.unwrap().await.unwrap();
        rt::blocking(move || is_connected.recv().unwrap()).await.unwrap();
        std::mem::forget(conn);
    })
    .unwrap();
    let ended = rt::run(async {
        let _endpoint = serve(2);
        died.send(()).unwrap();
        rt::blocking(move || client.join().unwrap()).await.unwrap()
    })
    .unwrap();
    assert_eq!(ended, ConnectionError::Reset);
}

#[test]
fn without_a_name_or_a_protocol_that_is_served_there_is_no_session() {
    let main = session(&[], |served| async move {
        for (name, alpn, alert) in [("b.example", &b"h3"[..], 112), (NAME, b"h2", 120)] {
            match served.try_connect(name, alpn).await {
                Err(ConnectionError::ConnectionClosed(close)) => {
                    assert_eq!(u64::from(close.error_code), 0x100 + alert, "{name}");
                }
                other => panic!("{name}: {other:?}"),
            }
        }
    });
    assert_eq!((main.tls_fail.get(), main.tls_fail_name.get(), main.tls_fail_cipher.get()), (2, 1, 1));
    assert_eq!(main.h3_sess.get(), 0);
}

// SPDX-License-Identifier: BSD-2-Clause
//! Facts about a connection, with quinn-proto's server as the other end: datagrams go from hand to hand, and time is a number.

use http3::frame::{Http3FrameHeader, Http3FrameType};
use quinn_proto::ServerConfig;
use testkit_tls::{NAME, TlsWorld};
use tls::Trust;

use super::*;

const SERVER: ([u8; 4], u16) = ([192, 0, 2, 1], 443);
const CLIENT: ([u8; 4], u16) = ([192, 0, 2, 2], 50_000);
/// Between two looks at both ends, in nanoseconds.
const STEP: u64 = 1_000_000;
const STEPS: u64 = 60_000;

/// Actions of a server once a request is there.
type Script<'a> = &'a mut dyn FnMut(&mut Connection, StreamId);

struct Pair {
    client: Http3,
    heads: HeadBuffers,
    server: Endpoint,
    accepted: Option<(ConnectionHandle, Connection)>,
    epoch: Instant,
    now: u64,
    /// One datagram in this many is lost, either way; 0: none is.
    loss: u64,
    dice: u64,
    /// The server has clients show first that their address is theirs.
    retries: bool,
}

fn frame(kind: Http3FrameType, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Http3FrameHeader::write(kind, payload.len() as u64, &mut out);
    [out, payload.to_vec()].concat()
}

fn status(status: u16) -> Vec<u8> {
    let mut out = Vec::new();
    head::write_status(status, &mut out);
    out
}

impl Pair {
    fn new(world: &TlsWorld, trust: &Trust, name: &str) -> Pair {
        let epoch = Instant::now();
        let config = ReplayHttp3Config::new(trust.client().unwrap(), epoch).unwrap();
        let client = Http3::new(&config, SERVER.into(), name, 0).unwrap();
        let server = ServerConfig::with_crypto(world.make_quic_server(http3::ALPN));
        let server = Endpoint::new(Arc::new(EndpointConfig::default()), Some(Arc::new(server)), false, None);
        Pair {
            client,
            heads: HeadBuffers::default(),
            server,
            accepted: None,
            epoch,
            now: 0,
            loss: 0,
            dice: 1,
            retries: false,
        }
    }

    fn trusting(world: &TlsWorld) -> Pair {
        let trust = Trust { authorities: Some(world.roots_pem()), spoken: tls::Spoken::Http3, ..Trust::default() };
        Pair::new(world, &trust, NAME)
    }

    fn is_lost(&mut self) -> bool {
        // Not each third or so: what is sent again would be lost again for ever.
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.loss > 0 && (self.dice >> 33).is_multiple_of(self.loss)
    }

    fn carry_to_server(&mut self) {
        let now = self.epoch + Duration::from_nanos(self.now);
        while let Some(datagram) = self.client.datagram() {
            let datagram = datagram.to_vec();
            self.client.sent();
            if self.is_lost() {
                continue;
            }
            let mut out = Vec::new();
            match self.server.handle(now, CLIENT.into(), None, None, (&datagram[..]).into(), &mut out) {
                Some(DatagramEvent::NewConnection(incoming)) if self.retries && incoming.may_retry() => {
                    let retry = self.server.retry(incoming, &mut out).unwrap();
                    self.client.receive(&out[..retry.size], self.now);
                }
                Some(DatagramEvent::NewConnection(incoming)) => {
                    self.accepted = self.server.accept(incoming, now, &mut out, None).ok();
                }
                Some(DatagramEvent::ConnectionEvent(_, event)) => {
                    self.accepted.as_mut().unwrap().1.handle_event(event);
                }
                Some(DatagramEvent::Response(_)) | None => {}
            }
        }
    }

    fn serve(&mut self, script: Script<'_>) {
        let now = self.epoch + Duration::from_nanos(self.now);
        let Some((handle, quic)) = &mut self.accepted else { return };
        if quic.poll_timeout().is_some_and(|due| due <= now) {
            quic.handle_timeout(now);
        }
        while quic.poll().is_some() {}
        while let Some(stream) = quic.streams().accept(Dir::Bi) {
            script(quic, stream);
        }
        let mut datagrams = Vec::new();
        let mut buffer = Vec::new();
        while quic.poll_transmit(now, 1, &mut buffer).is_some() {
            datagrams.push(std::mem::take(&mut buffer));
        }
        while let Some(event) = quic.poll_endpoint_events() {
            if let Some(event) = self.server.handle_event(*handle, event) {
                quic.handle_event(event);
            }
        }
        for datagram in datagrams {
            if !self.is_lost() {
                self.client.receive(&datagram, self.now);
            }
        }
    }

    fn ask(&mut self, request: &[u8], script: Script<'_>) -> Result<ReplayAnswer, ReplayFault> {
        let is_head = request.starts_with(b"HEAD");
        self.client.begin(request, is_head, &mut self.heads, self.now)?;
        for _ in 0..STEPS {
            if self.client.alarm().is_some_and(|due| due <= self.now) {
                self.client.elapse(self.now);
            }
            self.carry_to_server();
            self.serve(script);
            if let Some(answer) = self.client.advance(&mut self.heads)? {
                return Ok(answer);
            }
            self.now += STEP;
        }
        panic!("there is no end");
    }
}

fn shown(result: Result<ReplayAnswer, ReplayFault>) -> String {
    match result {
        Ok(answer) => format!("{} {}{}", answer.status, answer.body_bytes, if answer.keeps { " keeps" } else { "" }),
        Err(fault) => format!("{fault:?}"),
    }
}

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-A: b\r\n\r\n";

fn say(quic: &mut Connection, stream: StreamId, bytes: &[u8]) {
    assert_eq!(quic.send_stream(stream).write(bytes), Ok(bytes.len()));
    quic.send_stream(stream).finish().unwrap();
}

/// Begins the server's control stream, with `more` at its end.
fn control(quic: &mut Connection, more: &[u8]) {
    let stream = quic.streams().open(Dir::Uni).unwrap();
    let mut out = Vec::new();
    control::begin(1000, &mut out);
    assert!(quic.send_stream(stream).write(&[out, more.to_vec()].concat()).is_ok());
}

#[test]
fn requests_follow_each_other_over_a_connection() {
    for loss in [0, 4, 8] {
        let mut pair = Pair::trusting(&TlsWorld::new());
        pair.loss = loss;
        let body = vec![b'x'; 1000];
        let answer =
            [status(103), status(200), frame(Http3FrameType::Data, &body), frame(Http3FrameType::Data, b"y")].concat();
        for _ in 0..3 {
            let got = pair.ask(GET, &mut |quic, stream| say(quic, stream, &answer));
            assert_eq!(shown(got), "200 1001 keeps", "one in {loss} lost");
        }
        let info = pair.client.agreed().unwrap();
        assert_eq!((info.version.name(), info.alpn.as_deref(), info.resumed), ("TLSv1.3", Some(http3::ALPN), false));
    }
}

#[test]
fn what_a_server_does_to_a_request_is_told() {
    let world = TlsWorld::new();
    let check = |want: &str, script: Script<'_>| assert_eq!(shown(Pair::trusting(&world).ask(GET, script)), want);
    let code = |code: Http3ErrorCode| VarInt::from_u32(code.number());
    check("Closed", &mut |quic, stream| quic.send_stream(stream).reset(code(Http3ErrorCode::RequestRejected)).unwrap());
    check("Reset", &mut |quic, stream| quic.send_stream(stream).reset(code(Http3ErrorCode::Internal)).unwrap());
    check("Truncated", &mut |quic, stream| say(quic, stream, b"HTTP/1.1 200 OK\r\n\r\n"));
    check("Truncated", &mut |quic, stream| say(quic, stream, b""));
    check("BadBody", &mut |quic, stream| {
        say(quic, stream, &[status(200), frame(Http3FrameType::Settings, b"")].concat())
    });
    check("Closed", &mut |quic, _| control(quic, &[7, 1, 0]));
    check("200 0", &mut |quic, stream| {
        control(quic, &[7, 1, 4]);
        say(quic, stream, &status(200));
    });
    check("BadHead", &mut |quic, _| control(quic, &[4, 0]));
    let epoch = Instant::now();
    check("Closed", &mut |quic, _| quic.close(epoch, code(Http3ErrorCode::NoError), Default::default()));
}

#[test]
fn who_cannot_be_believed_gets_no_request() {
    let (world, other) = (TlsWorld::new(), TlsWorld::new());
    let stranger = Trust { authorities: Some(other.roots_pem()), spoken: tls::Spoken::Http3, ..Trust::default() };
    let known = Trust { authorities: Some(world.roots_pem()), ..stranger.clone() };
    let blind = Trust { authorities: None, is_blind: true, ..stranger.clone() };
    let mut answer = |quic: &mut Connection, stream| say(quic, stream, &status(204));
    for (trust, name, want) in [
        (&stranger, NAME, "Tls"),
        (&known, "other.test", "Tls"),
        (&known, NAME, "204 0 keeps"),
        (&blind, "other.test", "204 0 keeps"),
    ] {
        let mut pair = Pair::new(&world, trust, name);
        assert_eq!(shown(pair.ask(GET, &mut answer)), want, "{name}");
        assert_eq!(pair.client.reason().is_some(), want == "Tls");
    }
}

#[test]
fn who_is_asked_to_retry_does_so() {
    let mut pair = Pair::trusting(&TlsWorld::new());
    pair.retries = true;
    let got = pair.ask(GET, &mut |quic, stream| say(quic, stream, &status(200)));
    assert_eq!(shown(got), "200 0 keeps");
}

#[test]
fn who_parts_says_so() {
    let mut pair = Pair::trusting(&TlsWorld::new());
    pair.ask(GET, &mut |quic, stream| say(quic, stream, &status(200))).unwrap();
    pair.client.close();
    pair.carry_to_server();
    assert!(pair.accepted.unwrap().1.is_closed());
}

#[test]
fn sessions_are_taken_up_again() {
    let world = TlsWorld::new();
    let trust = Trust { authorities: Some(world.roots_pem()), spoken: tls::Spoken::Http3, ..Trust::default() };
    let mut pair = Pair::new(&world, &trust, NAME);
    let mut answer = |quic: &mut Connection, stream| say(quic, stream, &status(204));
    for _ in 0..2 {
        pair.ask(GET, &mut answer).unwrap();
    }
    let config = pair.client.config.clone();
    pair.client = Http3::new(&config, SERVER.into(), NAME, pair.now).unwrap();
    pair.ask(GET, &mut answer).unwrap();
    assert!(pair.client.agreed().unwrap().resumed);
}

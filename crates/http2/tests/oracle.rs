// SPDX-License-Identifier: BSD-2-Clause
//! Against the h2 crate, in both roles and in memory: what one says the other must understand as it was meant, however the bytes are cut.
//!
//! The h2 crate compresses with Huffman's code and a dynamic table, so this is also HPACK against a second implementation.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too, fail by a panic")]

mod peer;

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use message::Head;
use peer::{TestPeer, request, response};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

#[derive(Clone, Debug, PartialEq)]
struct Message {
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    trailers: Option<Vec<(String, String)>>,
}

/// Values are visible, and names don't mean anything to the protocol.
fn message() -> impl Strategy<Value = Message> {
    let field = ("x-[a-z0-9]{1,8}|accept|user-agent|etag|set-cookie", "[!-~]([ -~]{0,40}[!-~])?");
    let fields = || prop::collection::vec(field, 0..8);
    let body = prop_oneof![Just(0), 1..100usize, 60_000..150_000usize];
    (fields(), body, prop::option::of(prop::collection::vec(field, 1..3))).prop_map(|(fields, len, trailers)| {
        let body = (0..len).map(|i| (i * 7 % 251) as u8).collect();
        Message { fields, body, trailers }
    })
}

/// The fields of a name keep their order; that of names isn't known to a `HeaderMap`.
fn sorted(mut fields: Vec<(String, String)>) -> Vec<(String, String)> {
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    fields
}

fn of_head(head: &Head) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let known = ["scheme", "host"];
    head.iter().map(|f| (text(f.name()), text(f.value()))).filter(|(name, _)| !known.contains(&name.as_str())).collect()
}

fn of_map(map: &HeaderMap) -> Vec<(String, String)> {
    map.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect()
}

fn to_map(fields: &[(String, String)]) -> HeaderMap {
    let entry =
        |(name, value): &(String, String)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
    let mut map = HeaderMap::new();
    fields.iter().map(entry).for_each(|(name, value)| {
        map.append(name, value);
    });
    map
}

fn pairs(fields: &[(String, String)]) -> Vec<(&str, &str)> {
    fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

#[derive(Default)]
struct Half {
    head: Option<Vec<(String, String)>>,
    trailers: Option<Vec<(String, String)>>,
    ended: bool,
}

struct Ours {
    peer: TestPeer,
    halves: BTreeMap<u32, Half>,
    trailers: BTreeMap<u32, Head>,
}

impl Ours {
    fn new(peer: TestPeer) -> Ours {
        Ours { peer, halves: BTreeMap::new(), trailers: BTreeMap::new() }
    }

    /// Takes bytes in pieces, and consumes bodies at once.
    fn read(&mut self, input: &[u8], piece: usize) {
        for piece in input.chunks(piece) {
            let halves = &mut self.halves;
            self.peer.read_with(piece, &mut |event, head| match event {
                http2::Http2Event::Head { stream, end, .. } => {
                    let half = halves.entry(*stream).or_default();
                    (half.head, half.ended) = (Some(of_head(head)), *end);
                }
                http2::Http2Event::Data { stream, end, .. } => halves.entry(*stream).or_default().ended |= *end,
                http2::Http2Event::Trailers { stream } => {
                    let half = halves.entry(*stream).or_default();
                    (half.trailers, half.ended) = (Some(of_head(head)), true);
                }
                http2::Http2Event::None
                | http2::Http2Event::Settings
                | http2::Http2Event::SettingsAck
                | http2::Http2Event::Window { .. }
                | http2::Http2Event::PingAck(_)
                | http2::Http2Event::GoAway { .. } => {}
                other => panic!("{other:?}"),
            });
            let streams: Vec<(u32, usize)> =
                self.peer.received.iter().map(|(stream, body)| (*stream, body.len())).collect();
            streams.into_iter().for_each(|(stream, len)| self.peer.conn.consumed(stream, len));
        }
    }

    fn send(&mut self, stream: u32, message: &Message) {
        if !message.body.is_empty() {
            self.peer.queue(stream, &message.body, message.trailers.is_none());
        }
        if let Some(trailers) = &message.trailers {
            self.trailers.insert(stream, request("", "", &pairs(trailers)));
        }
    }

    fn write(&mut self, out: &mut Vec<u8>) {
        self.peer.write(out);
        let peer = &mut self.peer;
        self.trailers.retain(|stream, trailers| {
            let goes_on = peer.queued(*stream) > 0;
            if !goes_on {
                peer.conn.send_trailers(*stream, trailers);
            }
            goes_on
        });
        self.peer.write(out);
    }

    fn message(&self, stream: u32) -> Message {
        let half = &self.halves[&stream];
        let body = self.peer.received.get(&stream).cloned().unwrap_or_default();
        Message { fields: sorted(half.head.clone().unwrap()), body, trailers: half.trailers.clone().map(sorted) }
    }
}

fn want(message: &Message) -> Message {
    Message {
        fields: sorted(message.fields.clone()),
        body: message.body.clone(),
        trailers: message.trailers.clone().map(sorted),
    }
}

/// Moves bytes between the h2 crate's end and ours until `done`.
async fn pump(io: &mut DuplexStream, ours: &mut Ours, piece: usize, mut each: impl FnMut(&mut Ours) -> bool) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let mut out = Vec::new();
        let done = each(ours);
        ours.write(&mut out);
        let written = io.write_all(&out).await;
        if done {
            return;
        }
        written.unwrap();
        let len = io.read(&mut buffer).await.unwrap();
        assert!(len > 0, "the h2 crate has closed");
        ours.read(&buffer[..len], piece);
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(tokio::task::LocalSet::new().run_until(future))
}

async fn send_body(mut stream: h2::SendStream<Bytes>, message: Message) {
    if !message.body.is_empty() {
        stream.send_data(message.body.into(), message.trailers.is_none()).unwrap();
    }
    if let Some(trailers) = message.trailers {
        stream.send_trailers(to_map(&trailers)).unwrap();
    }
}

async fn receive_body(fields: &HeaderMap, mut stream: h2::RecvStream) -> Message {
    let mut body = Vec::new();
    while let Some(piece) = stream.data().await {
        let piece = piece.unwrap();
        stream.flow_control().release_capacity(piece.len()).unwrap();
        body.extend_from_slice(&piece);
    }
    let trailers = stream.trailers().await.unwrap();
    Message { fields: sorted(of_map(fields)), body, trailers: trailers.map(|map| sorted(of_map(&map))) }
}

fn is_bare(message: &Message) -> bool {
    message.body.is_empty() && message.trailers.is_none()
}

/// Requests of the h2 crate's client to our server, which answers each with the next message.
async fn their_client(exchanges: Vec<(Message, Message)>, piece: usize) {
    let (theirs, mut io) = tokio::io::duplex(20_000);
    let ours = tokio::task::spawn_local({
        let exchanges = exchanges.clone();
        async move {
            let mut ours = Ours::new(TestPeer::server());
            let mut answered = 0;
            pump(&mut io, &mut ours, piece, |ours| {
                for (i, (asked, answer)) in exchanges.iter().enumerate() {
                    let stream = 2 * i as u32 + 1;
                    if ours.halves.get(&stream).is_some_and(|half| half.ended && half.head.is_some()) && i == answered {
                        assert_eq!(ours.message(stream), want(asked));
                        ours.peer.conn.send_head(stream, &response(200, &pairs(&answer.fields)), is_bare(answer));
                        ours.send(stream, answer);
                        answered += 1;
                    }
                }
                answered == exchanges.len()
                    && exchanges.iter().enumerate().all(|(i, _)| ours.peer.queued(2 * i as u32 + 1) == 0)
            })
            .await;
            // Until the client has gone.
            let mut rest = Vec::new();
            let _ = io.read_to_end(&mut rest).await;
        }
    });
    let (client, connection) = h2::client::handshake(theirs).await.unwrap();
    let driver = tokio::task::spawn_local(connection);
    let mut client = client.ready().await.unwrap();
    for (asked, answer) in &exchanges {
        let mut req = http::Request::post("http://h/").body(()).unwrap();
        *req.headers_mut() = to_map(&asked.fields);
        client = client.ready().await.unwrap();
        let (resp, stream) = client.send_request(req, is_bare(asked)).unwrap();
        send_body(stream, asked.clone()).await;
        let resp = resp.await.unwrap();
        assert_eq!(resp.status(), 200);
        let (parts, body) = resp.into_parts();
        assert_eq!(receive_body(&parts.headers, body).await, want(answer));
    }
    drop(client);
    driver.await.unwrap().unwrap();
    ours.await.unwrap();
}

/// Requests of our client to the h2 crate's server.
async fn their_server(exchanges: Vec<(Message, Message)>, piece: usize) {
    let (theirs, mut io) = tokio::io::duplex(20_000);
    let server = tokio::task::spawn_local({
        let exchanges = exchanges.clone();
        async move {
            let mut connection = h2::server::handshake(theirs).await.unwrap();
            let mut exchanges = exchanges.into_iter();
            while let Some(accepted) = connection.accept().await {
                let (req, mut respond) = accepted.unwrap();
                let (asked, answer) = exchanges.next().unwrap();
                tokio::task::spawn_local(async move {
                    let (parts, body) = req.into_parts();
                    assert_eq!((parts.method, parts.uri.path()), (http::Method::POST, "/p"));
                    assert_eq!(receive_body(&parts.headers, body).await, want(&asked));
                    let mut resp = http::Response::new(());
                    *resp.headers_mut() = to_map(&answer.fields);
                    let stream = respond.send_response(resp, is_bare(&answer)).unwrap();
                    if !is_bare(&answer) {
                        send_body(stream, answer).await;
                    }
                });
            }
        }
    });
    let mut ours = Ours::new(TestPeer::client());
    for (i, (asked, answer)) in exchanges.iter().enumerate() {
        let head = request("POST", "/p", &pairs(&asked.fields));
        let stream = ours.peer.conn.open(&head, "http", is_bare(asked), ours.peer.now).unwrap();
        assert_eq!(stream, 2 * i as u32 + 1);
        ours.send(stream, asked);
        pump(&mut io, &mut ours, piece, |ours| ours.halves.get(&stream).is_some_and(|half| half.ended)).await;
        assert_eq!(ours.message(stream), want(answer));
        ours.peer.conn.release(stream);
    }
    drop(io);
    server.await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_h2_crate_asks_us(exchanges in prop::collection::vec((message(), message()), 1..5), piece in prop_oneof![Just(1usize), 2..50usize, Just(100_000)]) {
        block_on(their_client(exchanges, piece));
    }

    #[test]
    fn we_ask_the_h2_crate(exchanges in prop::collection::vec((message(), message()), 1..5), piece in prop_oneof![Just(1usize), 2..50usize, Just(100_000)]) {
        block_on(their_server(exchanges, piece));
    }
}

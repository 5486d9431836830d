// SPDX-License-Identifier: BSD-2-Clause
//! What bench/h3.py asks with, and asks: requests of HTTP/3 over quinn, as many at a time as are wanted; and quinn's bare echo, a server that reads
//! each stream to its end and answers so many bytes, which is what QUIC alone costs.
//!
//! ```text
//! quic echo ROOTS PORT-FILE BYTES
//!     writes its authority and its port, serves until its input ends
//! quic load ROOTS NAME PORT PATH CONNECTIONS STREAMS REQUESTS
//!     a line of JSON says what came of them
//! quic hold ROOTS NAME PORT PATH CONNECTIONS STREAMS WINDOW
//!     an answer on each connection, or STREAMS that are asked for and not read, with WINDOW bytes for each: "held", until its input ends
//! ```

#![allow(clippy::disallowed_methods, reason = "measures the machine")]

use std::cell::Cell;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, RecvStream, SendStream, ServerConfig, TransportConfig, VarInt,
};

const ALPN: &[u8] = b"h3";
/// A control stream with SETTINGS that say nothing.
const CONTROL: &[u8] = &[0, 4, 0];
const MOST_BYTES: usize = 16 << 20;
/// Streams that the echo lets a client have.
const MOST_STREAMS: u32 = 1000;

type Failed = Box<dyn Error>;

fn main() -> Result<(), Failed> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    rt::run(async {
        match words[..] {
            ["echo", roots, port, bytes] => echo(roots, port, bytes.parse()?).await,
            ["load", roots, name, port, path, connections, streams, requests] => {
                let client = Client::new(roots, name, port, path, None)?;
                load(client, connections.parse()?, streams.parse()?, requests.parse()?).await
            }
            ["hold", roots, name, port, path, connections, streams, window] => {
                let client = Client::new(roots, name, port, path, Some(window.parse()?))?;
                hold(&client, connections.parse()?, streams.parse()?).await
            }
            _ => Err("usage: quic echo|load|hold ...".into()),
        }
    })?
}

async fn input_ends() {
    let (ends, ended) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        drop(ends);
    });
    let _ = ended.await;
}

fn socket() -> std::io::Result<UdpSocket> {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
}

async fn echo(roots: &str, port: &str, bytes: usize) -> Result<(), Failed> {
    let tls = testkit_tls::TlsWorld::new();
    let mut config = ServerConfig::with_crypto(tls.make_quic_server(ALPN));
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(MOST_STREAMS.into());
    config.transport_config(Arc::new(transport));
    let socket = socket()?;
    let at = socket.local_addr()?;
    let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), socket, Arc::new(quinn::TokioRuntime))?;
    std::fs::write(roots, tls.roots_pem())?;
    std::fs::write(port, at.port().to_string())?;
    let answer: Rc<[u8]> = vec![b'x'; bytes].into();
    let serve = async {
        while let Some(incoming) = endpoint.accept().await {
            let answer = answer.clone();
            rt::spawn(async move {
                if let Ok(connection) = incoming.await {
                    answer_all(&connection, answer).await;
                }
            });
        }
    };
    tokio::select! { () = serve => {}, () = input_ends() => {} }
    Ok(())
}

async fn answer_all(connection: &Connection, answer: Rc<[u8]>) {
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        let answer = answer.clone();
        rt::spawn(async move {
            if recv.read_to_end(MOST_BYTES).await.is_ok() && send.write_all(&answer).await.is_ok() {
                let _ = send.finish();
                let _ = send.stopped().await;
            }
        });
    }
}

struct Client {
    config: ClientConfig,
    name: String,
    server: SocketAddr,
    request: Vec<u8>,
}

/// A connection, and what lives as long as it: each has a socket of its own, and a control stream that doesn't end.
struct Open {
    connection: Connection,
    _endpoint: Endpoint,
    _control: SendStream,
}

impl Client {
    fn new(roots: &str, name: &str, port: &str, path: &str, window: Option<u32>) -> Result<Self, Failed> {
        let roots = std::fs::read_to_string(roots)?;
        let mut config = ClientConfig::new(testkit_tls::quic_client_for(&roots, ALPN));
        let mut transport = TransportConfig::default();
        if let Some(window) = window {
            transport.stream_receive_window(window.into());
        }
        config.transport_config(Arc::new(transport));
        let server = (Ipv4Addr::LOCALHOST, port.parse()?).into();
        Ok(Client { config, name: name.to_owned(), server, request: request(name, path) })
    }

    async fn connect(&self) -> Result<Open, Failed> {
        let endpoint = Endpoint::new(EndpointConfig::default(), None, socket()?, Arc::new(quinn::TokioRuntime))?;
        let connection = endpoint.connect_with(self.config.clone(), self.server, &self.name)?.await?;
        let mut control = connection.open_uni().await?;
        control.write_all(CONTROL).await?;
        Ok(Open { connection, _endpoint: endpoint, _control: control })
    }

    async fn ask(&self, connection: &Connection) -> Result<RecvStream, Failed> {
        let (mut send, recv) = connection.open_bi().await?;
        send.write_all(&self.request).await?;
        send.finish()?;
        Ok(recv)
    }

    async fn get(&self, connection: &Connection) -> Result<usize, Failed> {
        Ok(self.ask(connection).await?.read_to_end(MOST_BYTES).await?.len())
    }
}

/// A HEADERS frame (RFC 9114 7.2.2) of literals alone (RFC 9204 4.5.6).
fn request(name: &str, path: &str) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in [(":method", "GET"), (":scheme", "https"), (":authority", name), (":path", path)] {
        // A length below the prefix's 7, or 7 and what is left of it.
        match name.len() {
            short @ ..7 => section.push(0x20 | short as u8),
            long => section.extend([0x27, (long - 7) as u8]),
        }
        section.extend(name.as_bytes());
        assert!(value.len() < 127, "a length of one byte");
        section.push(value.len() as u8);
        section.extend(value.as_bytes());
    }
    [&[1, 0x40 | (section.len() >> 8) as u8, section.len() as u8], &section[..]].concat()
}

#[derive(Default)]
struct Count {
    left: Cell<u64>,
    ok: Cell<u64>,
    failed: Cell<u64>,
    bytes: Cell<usize>,
}

impl Count {
    async fn ask_on(&self, client: &Client, connection: &Connection) {
        while self.left.get() > 0 {
            self.left.set(self.left.get() - 1);
            match client.get(connection).await {
                Ok(len) => {
                    self.ok.set(self.ok.get() + 1);
                    self.bytes.set(self.bytes.get() + len);
                }
                Err(_) => self.failed.set(self.failed.get() + 1),
            }
        }
    }
}

async fn load(client: Client, connections: usize, streams: usize, requests: u64) -> Result<(), Failed> {
    let (client, count) = (Rc::new(client), Rc::new(Count { left: Cell::new(requests), ..Count::default() }));
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(client.connect().await?);
    }
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for one in &open {
        for _ in 0..streams {
            let (client, connection, count) = (client.clone(), one.connection.clone(), count.clone());
            tasks.push(rt::spawn(async move { count.ask_on(&client, &connection).await }));
        }
    }
    for task in tasks {
        let _ = task.await;
    }
    let seconds = begun.elapsed().as_secs_f64();
    open.iter().for_each(|one| one.connection.close(VarInt::from_u32(0x100), b""));
    let Count { ok, failed, bytes, .. } = &*count;
    let (ok, failed, bytes) = (ok.get(), failed.get(), bytes.get());
    let said = format!(r#"{{"ok": {ok}, "failed": {failed}, "bytes": {bytes}, "seconds": {seconds}}}"#);
    writeln!(std::io::stdout(), "{said}")?;
    Ok(())
}

/// Connections, and on each so many answers that nobody reads.
async fn hold(client: &Client, connections: usize, streams: usize) -> Result<(), Failed> {
    let (mut open, mut unread) = (Vec::new(), Vec::new());
    for _ in 0..connections {
        let one = client.connect().await?;
        // A stream that is over isn't given back alone: with one more there might not be so many.
        if streams == 0 {
            client.get(&one.connection).await?;
        }
        for _ in 0..streams {
            let mut recv = client.ask(&one.connection).await?;
            // It has begun.
            recv.read_exact(&mut [0]).await?;
            unread.push(recv);
        }
        open.push(one);
    }
    writeln!(std::io::stdout(), "held")?;
    std::io::stdout().flush()?;
    input_ends().await;
    Ok(())
}

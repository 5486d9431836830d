// SPDX-License-Identifier: BSD-2-Clause
//! An engine whose VCL answers everything by itself, and clients of it on streams in memory.

use std::sync::Arc;

use base::Clock;
use engine::{Engine, ListenerInfo};
use testkit_engine::{EngineModules, EngineSettings, Ground};
use testkit_net::memory::{self, MemoryEnd};
use testkit_tls::OneForAll;

use super::super::{AcceptedClient, serve};

/// Says what it was asked, by whom, and over what; after `/hurry` the connection has no time to be idle.
const ECHO: &str = r#"vcl 4.1; backend default none;
sub vcl_recv {
    if (req.url == "/hurry") { set sess.timeout_idle = 0s; }
    if (req.method == "PURGE") { return (purge); }
    if (req.method == "BAN") { ban("req.url == /1"); }
    return (synth(200));
}
sub vcl_synth { synthetic(req.url + " " + client.ip + " " + req.transport); return (deliver); }"#;

pub(super) struct World {
    pub engine: Arc<Engine>,
    listener: Arc<ListenerInfo>,
    _ground: Ground,
}

impl World {
    /// With these parameters, on a listener that expects a PROXY header or doesn't.
    pub fn new(settings: &[(&str, &str)], has_proxy_header: bool) -> Self {
        Self::on(settings, has_proxy_header, None, Clock::system())
    }

    /// The same on a listener with TLS.
    pub fn with_tls(settings: &[(&str, &str)], has_proxy_header: bool, tls: &testkit_tls::TlsWorld) -> Self {
        Self::on(settings, has_proxy_header, Some(tls), Clock::system())
    }

    fn on(
        settings: &[(&str, &str)],
        has_proxy_header: bool,
        tls: Option<&testkit_tls::TlsWorld>,
        clock: Clock,
    ) -> Self {
        let ground = Ground::new();
        let mut spec = EngineSettings::new(clock, "test");
        settings.iter().for_each(|(name, value)| spec.set(name, value));
        if let Some(tls) = tls {
            spec.certificates = Arc::new(OneForAll::new(tls));
        }
        let engine = ground.engine(spec);
        let backends = testkit_engine::backends(&engine);
        engine.vcls.activate(Some(testkit_engine::load(&engine, &backends, EngineModules::NONE, "test", ECHO)));
        let transport = if has_proxy_header { "PROXY" } else { "HTTP/1" };
        let listener = testkit_engine::listener("192.0.2.1:80", transport, tls.is_some());
        World { engine, listener: Arc::new(listener), _ground: ground }
    }

    /// The same over QUIC.
    pub fn with_quic(settings: &[(&str, &str)], tls: &testkit_tls::TlsWorld) -> Self {
        Self::with_quic_at(settings, tls, Clock::system())
    }

    /// The same, by this clock.
    pub fn with_quic_at(settings: &[(&str, &str)], tls: &testkit_tls::TlsWorld, clock: Clock) -> Self {
        let mut world = Self::on(settings, false, Some(tls), clock);
        let listener = Arc::get_mut(&mut world.listener).unwrap();
        (listener.transport, listener.is_quic) = ("QUIC", true);
        world
    }

    pub fn listener(&self) -> &Arc<ListenerInfo> {
        &self.listener
    }

    pub fn connect(&self) -> Client {
        let address = |text: &str| net::Address::inet(text.parse().unwrap());
        let (local, peer) = (address("192.0.2.1:80"), address("192.0.2.9:4000"));
        let (ours, theirs) = memory::pair(local, peer);
        let accepted = AcceptedClient { stream: ours.into(), peer, local };
        drop(rt::spawn(serve(self.engine.clone(), self.listener.clone(), accepted)));
        Client { end: theirs, got: Vec::new() }
    }
}

pub(super) struct Client {
    pub end: MemoryEnd,
    got: Vec<u8>,
}

impl Client {
    pub fn say(&self, text: &str) {
        assert_eq!(self.end.try_write(text.as_bytes()).unwrap(), text.len(), "there is room");
    }

    pub async fn response(&mut self) -> (u16, String) {
        let head = loop {
            if let Some(end) = find(&self.got, "\r\n\r\n") {
                break self.got.drain(..end + 4).collect::<Vec<u8>>();
            }
            assert!(self.more().await, "closed after {:?}", String::from_utf8_lossy(&self.got));
        };
        let head = String::from_utf8(head).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let length = length.map_or(0, |text| text.parse().unwrap());
        while self.got.len() < length {
            assert!(self.more().await, "closed within a body");
        }
        let body = String::from_utf8(self.got.drain(..length).collect()).unwrap();
        (head[9..12].parse().unwrap(), body)
    }

    /// True if the connection ends here, in order and with nothing more.
    pub async fn is_closed(&mut self) -> bool {
        self.got.is_empty() && !self.more().await
    }

    async fn more(&mut self) -> bool {
        let mut piece = [0; 4096];
        loop {
            match self.end.try_read(&mut piece) {
                Ok(read) => {
                    self.got.extend_from_slice(&piece[..read]);
                    return read > 0;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => self.end.readable().await.unwrap(),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn find(text: &[u8], what: &str) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what.as_bytes())
}

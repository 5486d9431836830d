// SPDX-License-Identifier: BSD-2-Clause
//! An engine whose VCL answers everything by itself, and clients of it on streams in memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicUsize, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use backend::Director;
use base::{Clock, Vxid, VxidSource};
use engine::{Engine, Labels, ListenerInfo, Random};
use net::memory::{self, End};
use params::Params;
use shm::vsc::CounterSet;
use shm::vsl::{LogRing, Marker, TxnLog};
use shm::vsm::{Home, SegmentSet};
use storage::{StoreSpec, Stores};
use tables::counters::Sma;
use tls::testing::OneForAll;
use vcl::program::{BackendDecl, ProbeDecl};
use vrt::LoadedVcl;
use vrt::vmod::Vmod;

use super::super::{Accepted, serve};

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
    dir: PathBuf,
}

struct Env {
    log: Arc<LogRing>,
    clock: Clock,
}

struct Nothing;

impl Labels for Nothing {
    fn labelled(&self, _: &str) -> Option<Arc<LoadedVcl>> {
        None
    }
}

impl cache::HeadReader for Nothing {
    fn header<'h>(&self, _: &'h [u8], _: &str) -> Option<&'h [u8]> {
        None
    }

    fn status(&self, _: &[u8]) -> u16 {
        0
    }
}

impl cache::Regexes for Nothing {
    fn compile(&self, _: &str) -> Result<Box<dyn cache::Regex>, String> {
        Err("nothing is cached here".to_owned())
    }
}

impl vrt::Env for Env {
    fn backend(&self, _: &str, _: &BackendDecl, _: Option<&ProbeDecl>) -> Arc<dyn Director> {
        unreachable!("the VCL has none")
    }

    fn vmods(&self) -> &[&'static Vmod] {
        &[]
    }

    fn log(&self) -> TxnLog {
        TxnLog::new(self.log.clone(), Vxid::NONE, Marker::None)
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }
}

/// Counters live as long as the process.
fn leaked<T: tables::counters::Set>() -> &'static T {
    Box::leak(Box::new(CounterSet::<T>::private()))
}

impl World {
    /// With these parameters, on a listener that expects a PROXY header or doesn't.
    pub fn new(settings: &[(&str, &str)], has_proxy_header: bool) -> Self {
        Self::on(settings, has_proxy_header, None, Clock::system())
    }

    /// The same on a listener with TLS.
    pub fn with_tls(settings: &[(&str, &str)], has_proxy_header: bool, tls: &tls::testing::World) -> Self {
        Self::on(settings, has_proxy_header, Some(tls), Clock::system())
    }

    fn on(settings: &[(&str, &str)], has_proxy_header: bool, tls: Option<&tls::testing::World>, clock: Clock) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("lacquer-fronts-{}-{n}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let mut params = Params::default();
        params.set("vsl_space", "1M").unwrap();
        settings.iter().for_each(|(name, value)| drop(params.set(name, value).unwrap()));
        let main = leaked();
        let segments = SegmentSet::create(&dir, Home::Worker, 1, None).unwrap();
        let log = Arc::new(LogRing::create(&segments, params.log_settings(), CounterSet::private()).unwrap());
        let stores = Arc::new(Stores::open(&StoreSpec::in_memory(None), |_| leaked::<Sma>()).unwrap());
        let cache = cache::Cache::new(cache::Config {
            clock: clock.clone(),
            main,
            stores: stores.clone(),
            heads: Box::new(Nothing),
            regexes: Box::new(Nothing),
            params: cache::Params::default(),
        });
        let compiled = vcl::compile("<test>", ECHO.as_bytes(), &vcl::NoSources, &vcl::Options::default());
        let program = compiled.unwrap_or_else(|wrong| panic!("{}", wrong.text)).program;
        let env = Env { log: log.clone(), clock: clock.clone() };
        let vcl = vrt::loaded::load("test", program, &env).unwrap_or_else(|error| panic!("{}", error.0));
        let engine = Arc::new(Engine {
            clock,
            vxids: VxidSource::new(),
            admission: engine::admission::Admission::new(&params),
            params: ArcSwap::from_pointee(params),
            main,
            no_hit: leaked(),
            log,
            cache,
            stores,
            vcl: ArcSwapOption::from(Some(vcl)),
            labels: Box::new(Nothing),
            certificates: tls.map_or(Arc::new(tls::NothingLoaded) as _, |world| Arc::new(OneForAll::new(world)) as _),
            identity: "test".to_owned(),
            hostname: "test".to_owned(),
            sessions: AtomicI64::new(0),
            pipes: AtomicI64::new(0),
            fragfetch: AtomicUsize::new(0),
            classes: Default::default(),
            hints: Default::default(),
            queries: Default::default(),
            refreshes: Default::default(),
            keeps_key_fields: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            drain_watch: Default::default(),
            has_successor: AtomicBool::new(false),
            restricted: Default::default(),
            fleet: Default::default(),
            peers: Default::default(),
            random: Random::seeded(1),
        });
        let transport = if has_proxy_header { "PROXY" } else { "HTTP/1" };
        let listener = ListenerInfo {
            name: "a0".into(),
            transport,
            has_proxy_header,
            is_tls: tls.is_some(),
            is_quic: false,
            frontend: "a0".into(),
            h3_port: None,
            endpoint: "192.0.2.1:80".into(),
            is_unix: false,
        };
        World { engine, listener: Arc::new(listener), dir }
    }

    /// The same over QUIC.
    pub fn with_quic(settings: &[(&str, &str)], tls: &tls::testing::World) -> Self {
        Self::with_quic_at(settings, tls, Clock::system())
    }

    /// The same, by this clock.
    pub fn with_quic_at(settings: &[(&str, &str)], tls: &tls::testing::World, clock: Clock) -> Self {
        let mut world = Self::on(settings, false, Some(tls), clock);
        let listener = Arc::get_mut(&mut world.listener).unwrap();
        (listener.transport, listener.is_quic) = ("QUIC", true);
        world
    }

    /// Its listener.
    pub fn listener(&self) -> &Arc<ListenerInfo> {
        &self.listener
    }

    /// A client's end of a connection that is served from now on.
    pub fn connect(&self) -> Client {
        let address = |text: &str| net::Address::inet(text.parse().unwrap());
        let (local, peer) = (address("192.0.2.1:80"), address("192.0.2.9:4000"));
        let (ours, theirs) = memory::pair(local, peer);
        let accepted = Accepted { stream: ours.into(), peer, local };
        drop(rt::spawn(serve(self.engine.clone(), self.listener.clone(), accepted)));
        Client { end: theirs, got: Vec::new() }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A client that says what it is told to and reads when it is told to.
pub(super) struct Client {
    pub end: End,
    got: Vec<u8>,
}

impl Client {
    pub fn say(&self, text: &str) {
        assert_eq!(self.end.try_write(text.as_bytes()).unwrap(), text.len(), "there is room");
    }

    /// The next response: its status and its body.
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

    /// Whether the connection ends here, in order and with nothing more.
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

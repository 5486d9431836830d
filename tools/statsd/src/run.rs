// SPDX-License-Identifier: BSD-2-Clause
//! Start, main loop, reload, end.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sys::signal::{SIGHUP, SIGINT, SIGTERM, Signals};
use sys::sock::SocketName;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use crate::backend::carbon::CarbonSender;
use crate::backend::graphite::GraphiteNames;
use crate::backend::repeater::Repeater;
use crate::budget::Budget;
use crate::clock;
use crate::config::{BackendConfig, InputConfig, StatsdConfig};
use crate::input::stream::{self, StreamSink};
use crate::input::udp::{CHARGE, UdpReceiver};
use crate::input::{SharedRepeater, SharedShard};
use crate::log::{self, Logger, StatsdLevel};
use crate::server::StatsdServer;
use crate::shard::StatsdShard;
use crate::{management, scrape};

/// Interval of looking at the file, counting drops and showing bad lines.
const TICK: Duration = Duration::from_millis(500);
const LAST_FLUSH: Duration = Duration::from_secs(2);
const BACKLOG: i32 = 512;

#[derive(Debug)]
pub enum StartError {
    Config(crate::config::ConfigError),
    /// An address that can't be had: what for, which, why.
    Bind(&'static str, String, io::Error),
    /// Threads, signals, the repeater's socket.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Config(error) => error.fmt(f),
            StartError::Bind(what, address, error) => write!(f, "{what} {address}: {error}"),
            StartError::System(error) => error.fmt(f),
        }
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        StartError::System(error)
    }
}

#[derive(Default)]
struct BoundListeners {
    udp: Vec<OwnedFd>,
    tcp: Vec<std::net::TcpListener>,
    unix: Vec<(PathBuf, std::os::unix::net::UnixListener)>,
    management: Option<std::net::TcpListener>,
    prometheus: Option<std::net::TcpListener>,
}

/// Runs the server until SIGTERM or SIGINT.
pub fn run(path: &Path) -> Result<(), StartError> {
    let signals = Signals::new(&[SIGTERM, SIGINT, SIGHUP])?;
    log::plain(&format!("[{}] reading config file: {}", std::process::id(), path.display()));
    let config = StatsdConfig::load(path).map_err(StartError::Config)?;
    let logger = Rc::new(Logger::new(&config.log, config.dialect));
    let bound = bind(&config)?;
    let budget = Arc::new(Budget::new(config.max_metrics, config.max_bytes));
    let shard = || -> SharedShard {
        Arc::new(Mutex::new(StatsdShard::new(Arc::clone(&budget), StatsdServer::options(&config))))
    };
    let repeater = SharedRepeater::default();
    let mut receivers = Vec::new();
    let mut listeners = Vec::new();
    for socket in bound.udp {
        listeners.push(format!("udp {}", shown(&socket)));
        receivers.push(UdpReceiver::new(socket, config.receive_buffer, shard(), Arc::clone(&repeater))?);
    }
    listeners.extend(bound.tcp.iter().map(|l| format!("tcp {}", shown(l))));
    listeners.extend(bound.unix.iter().map(|(path, _)| format!("unix {}", path.display())));
    listeners.extend(bound.management.iter().map(|l| format!("management {}", shown(l))));
    listeners.extend(bound.prometheus.iter().map(|l| format!("prometheus {}", shown(l))));
    for text in &listeners {
        logger.log(StatsdLevel::Info, &format!("listening on {text}"));
    }
    tell_buffers(&logger, &receivers, config.receive_buffer);
    let connections = shard();
    let server = StatsdServer::new(config, Arc::clone(&budget), receivers, connections, repeater, logger);
    let (tcp, unix) = (bound.tcp, bound.unix);
    let ended = rt::run(async move {
        let server = Rc::new(server);
        let sink = StreamSink { shard: Arc::clone(&server.connections), repeater: Arc::clone(&server.repeater) };
        let mut tasks = Tasks::default();
        tasks.rebuild(&server, None)?;
        for listener in tcp {
            rt::spawn(stream::serve(TcpListener::from_std(listener)?, sink.clone()));
        }
        let mut paths = Vec::new();
        for (path, listener) in unix {
            rt::spawn(stream::serve(UnixListener::from_std(listener)?, sink.clone()));
            paths.push(path);
        }
        if let Some(listener) = bound.management {
            rt::spawn(management::serve(TcpListener::from_std(listener)?, Rc::clone(&server)));
        }
        if let Some(listener) = bound.prometheus {
            rt::spawn(scrape::serve(TcpListener::from_std(listener)?, Rc::clone(&server)));
        }
        for receiver in &server.receivers {
            receiver.start()?;
        }
        log::plain("server is up");
        main_loop(&server, &mut tasks, watch(signals)?, path).await;
        last_flush(&server).await;
        paths.iter().for_each(|path| drop(std::fs::remove_file(path)));
        Ok(())
    });
    ended?
}

fn bind(config: &StatsdConfig) -> Result<BoundListeners, StartError> {
    let mut bound = BoundListeners::default();
    for input in &config.inputs {
        match input {
            InputConfig::Udp { address, port, v6 } => {
                let default = if *v6 { "::" } else { "0.0.0.0" };
                let sockets = at("udp", address, *port, default, *v6, |a| sys::udp::bind_group(a, config.sockets))?;
                bound.udp.extend(sockets);
            }
            InputConfig::Tcp { address, port } => bound.tcp.push(listen("tcp", address, *port)?),
            InputConfig::Unix { path, mode } => {
                let failed = |error| StartError::Bind("unix", path.display().to_string(), error);
                let socket = sys::sock::bind_unix(path, None, None, *mode).map_err(failed)?;
                sys::sock::listen(&socket, BACKLOG).map_err(failed)?;
                sys::fd::set_nonblocking(&socket, true).map_err(failed)?;
                bound.unix.push((path.clone(), socket.into()));
            }
        }
    }
    if let Some((address, port)) = &config.management {
        bound.management = Some(listen("management", address, *port)?);
    }
    if config.backends.contains(&BackendConfig::Prometheus) {
        bound.prometheus = Some(listen("prometheus", &config.prometheus.0, config.prometheus.1)?);
    }
    Ok(bound)
}

fn listen(what: &'static str, address: &str, port: u16) -> Result<std::net::TcpListener, StartError> {
    let socket = at(what, address, port, "0.0.0.0", false, |a| {
        let socket = sys::sock::bind_tcp_group(a, 1)?.remove(0);
        sys::sock::listen(&socket, BACKLOG)?;
        sys::fd::set_nonblocking(&socket, true)?;
        Ok(socket)
    })?;
    Ok(socket.into())
}

/// Tries the addresses of a name until one can be had.
fn at<T>(
    what: &'static str,
    address: &str,
    port: u16,
    default: &str,
    v6: bool,
    bind: impl Fn(SocketAddr) -> io::Result<T>,
) -> Result<T, StartError> {
    let host = if address.is_empty() { default } else { address };
    let failed = |error| StartError::Bind(what, format!("{host}:{port}"), error);
    let mut found = base::lookup::addresses(host, port).map_err(failed)?;
    // A name of both families: the one that was asked for first.
    found.sort_by_key(|addr| addr.is_ipv6() != v6);
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for addr in found {
        match bind(addr) {
            Ok(bound) => return Ok(bound),
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

fn shown(socket: &impl AsFd) -> String {
    match sys::sock::local_name(socket) {
        Ok(SocketName::Inet(addr)) => addr.to_string(),
        Ok(SocketName::Unix(path)) => path.display().to_string(),
        Err(error) => error.to_string(),
    }
}

fn tell_buffers(logger: &Logger, receivers: &[UdpReceiver], wanted: usize) {
    let Some(receiver) = receivers.first().filter(|_| wanted > 0) else { return };
    let (granted, packets) = (receiver.buffer / 2, receiver.buffer / CHARGE);
    logger.log(
        StatsdLevel::Info,
        &format!("receive buffer: {granted} bytes a socket, room for about {packets} small packets"),
    );
    if granted < wanted {
        let text = format!(
            "receive buffer: {wanted} bytes were asked for and {granted} granted: raise the sysctl net.core.rmem_max, or \
             give the server the capability CAP_NET_ADMIN"
        );
        logger.log(StatsdLevel::Warning, &text);
    }
}

#[derive(Default)]
struct Tasks(Vec<rt::JoinHandle<()>>);

impl Tasks {
    /// Makes the backends that need a task anew, as the configuration says now. Points that wait are handed over.
    fn rebuild(&mut self, server: &Rc<StatsdServer>, before: Option<Rc<CarbonSender>>) -> io::Result<()> {
        self.0.drain(..).for_each(|task| task.abort());
        let config = server.config.borrow();
        let logger = Rc::clone(&server.logger.borrow());
        *server.graphite.borrow_mut() = None;
        if config.backends.contains(&BackendConfig::Graphite) {
            let names = GraphiteNames::new(&config.graphite, &config.prefix);
            let sender = CarbonSender::new(&config.graphite, names.clone(), server.started, config.debug, logger);
            if let Some(sender) = &sender {
                self.0.push(rt::spawn(Rc::clone(sender).run()));
                before.iter().for_each(|before| before.hand_over(sender));
            }
            *server.graphite.borrow_mut() = Some((names, sender));
        }
        *server.repeater.lock() = None;
        if config.backends.contains(&BackendConfig::Repeater) && !config.repeater.targets.is_empty() {
            let repeater = Arc::new(Repeater::new(&config.repeater)?);
            self.0.push(rt::spawn(Arc::clone(&repeater).run()));
            *server.repeater.lock() = Some(repeater);
        }
        Ok(())
    }
}

/// Signals, taken by a thread of their own that ends with the process.
fn watch(mut signals: Signals) -> io::Result<UnboundedReceiver<i32>> {
    let (send, receive) = tokio::sync::mpsc::unbounded_channel();
    let watch = move || {
        while sys::fd::wait(&signals, sys::fd::Interest::Read, None).is_ok() {
            if let Ok(Some(number)) = signals.take()
                && send.send(number).is_err()
            {
                return;
            }
        }
    };
    std::thread::Builder::new().name("statsd-signals".to_owned()).spawn(watch)?;
    Ok(receive)
}

async fn main_loop(server: &Rc<StatsdServer>, tasks: &mut Tasks, mut signals: UnboundedReceiver<i32>, path: &Path) {
    let mut version = Version::read(path);
    let mut flush_at = next_flush(server);
    let mut report_at = next_report(server);
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tokio::time::sleep_until(flush_at) => {
                server.flush();
                flush_at = next_flush(server);
            }
            _ = tokio::time::sleep_until(report_at) => {
                report(server).await;
                report_at = next_report(server);
            }
            _ = tick.tick() => {
                server.count_drops();
                server.collect();
                server.show_messages();
                let now = Version::read(path);
                if now != version && now.is_some() {
                    version = now;
                    if server.config.borrow().reload {
                        reload(server, tasks, path);
                        (flush_at, report_at) = (next_flush(server), next_report(server));
                    }
                }
            }
            number = signals.recv() => match number {
                Some(SIGHUP) => {
                    reload(server, tasks, path);
                    (flush_at, report_at) = (next_flush(server), next_report(server));
                }
                Some(_) | None => return,
            }
        }
    }
}

fn next_flush(server: &StatsdServer) -> Instant {
    let interval = server.config.borrow().flush_interval_ms;
    let wait = clock::until_flush(clock::milliseconds(), server.started as f64 * 1000.0, interval);
    Instant::now() + Duration::from_secs_f64(wait / 1000.0)
}

fn next_report(server: &StatsdServer) -> Instant {
    let never = 86_400_000.0;
    let interval = server.config.borrow().key_flush.as_ref().map_or(never, |k| k.interval_ms);
    Instant::now() + Duration::from_secs_f64(interval / 1000.0)
}

async fn report(server: &StatsdServer) {
    let Some(settings) = server.config.borrow().key_flush.clone() else { return };
    let text = server.key_report(settings.percent);
    match settings.log {
        None => {
            use io::Write as _;
            let _ = io::stdout().lock().write_all(text.as_bytes());
        }
        Some(path) => {
            if let Err(error) = crate::backend::file::append(&path, text.as_bytes()) {
                server.log(StatsdLevel::Warning, &format!("{}: {error}", path.display()));
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Version {
    /// None while there is no file.
    fn read(path: &Path) -> Option<Version> {
        let meta = std::fs::metadata(path).ok()?;
        Some(Version { inode: meta.ino(), size: meta.size(), modified: (meta.mtime(), meta.mtime_nsec()) })
    }
}

/// Loads the file again. A bad one changes nothing.
fn reload(server: &Rc<StatsdServer>, tasks: &mut Tasks, path: &Path) {
    log::plain(&format!("[{}] reading config file: {}", std::process::id(), path.display()));
    let config = match StatsdConfig::load(path) {
        Ok(config) => config,
        Err(error) => {
            server.count(|n| n.reload_failures += 1);
            return server.log(StatsdLevel::Error, &format!("{error}; the configuration stays as it was"));
        }
    };
    // What came before belongs to the old options.
    server.collect();
    let before = server.config.replace(config);
    let (needs_restart, new_prefix, new_log, new_tasks) = {
        let now = server.config.borrow();
        let fixed = |c: &StatsdConfig| {
            (c.inputs.clone(), c.management.clone(), c.sockets, c.receive_buffer, c.prometheus.clone())
        };
        let scraped = |c: &StatsdConfig| c.backends.contains(&BackendConfig::Prometheus);
        let tasks =
            |c: &StatsdConfig| (c.backends.clone(), c.graphite.clone(), c.repeater.clone(), c.prefix.clone(), c.debug);
        (
            fixed(&before) != fixed(&now) || scraped(&before) != scraped(&now),
            (before.prefix != now.prefix).then(|| now.prefix.clone()),
            (before.log != now.log).then(|| Rc::new(Logger::new(&now.log, now.dialect))),
            tasks(&before) != tasks(&now),
        )
    };
    if let Some(prefix) = new_prefix {
        server.store.borrow_mut().set_prefix(&prefix);
    }
    if let Some(logger) = new_log {
        *server.logger.borrow_mut() = logger;
    }
    server.configure_inputs();
    if new_tasks {
        let waiting = server.graphite.borrow().as_ref().and_then(|(_, sender)| sender.clone());
        if let Err(error) = tasks.rebuild(server, waiting) {
            server.log(StatsdLevel::Error, &format!("repeater: {error}"));
        }
    }
    if needs_restart {
        server.log(StatsdLevel::Warning, "addresses, ports, sockets and receive buffers change with a restart only");
    }
    server.count(|n| n.reloads += 1);
}

async fn last_flush(server: &StatsdServer) {
    server.healthy.set(false);
    server.receivers.iter().for_each(UdpReceiver::drain);
    server.flush();
    server.show_messages();
    let sender = server.graphite.borrow().as_ref().and_then(|(_, sender)| sender.clone());
    if let Some(sender) = sender {
        sender.settle(LAST_FLUSH).await;
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! What a hit costs, counted: no allocation, one lock, two system calls and hardly ever a sleep; and what a request costs
//! that has to be fetched. The counts come from `base::costs`, from strace and from the
//! kernel's own figures of the worker's threads.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too, fail by a panic")]
#![allow(clippy::disallowed_methods, reason = "measures the machine")]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);
/// Time to wait for a moment in which nothing else keeps the machine busy.
const PATIENCE: Duration = Duration::from_secs(45);
const BODY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const ROUNDS: usize = 30;
/// Not one: threads would wait for each other's locks.
const PATHS: usize = 64;
const FIELDS: &str = "Host: www.example.com\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0)\r\n\
    Accept: text/html,*/*;q=0.8\r\nAccept-Language: en-GB,en;q=0.5\r\n\r\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Hit,
    Charged,
    /// A hit over HTTP/2, on a connection that was idle.
    Stream,
    /// The origin says no-store: known after the first answer.
    Pass,
    /// Never the same twice.
    Miss,
}

impl Kind {
    /// Connections that ask at once: that is what a busy server finds when it looks.
    fn connections(self) -> usize {
        match self {
            Kind::Hit | Kind::Charged | Kind::Stream => 800,
            Kind::Pass | Kind::Miss => 64,
        }
    }

    fn path(self, connection: usize, asked: u64) -> String {
        match self {
            Kind::Hit | Kind::Charged | Kind::Stream => format!("/page/{}", connection % PATHS),
            Kind::Pass => format!("/pass/{}", connection % PATHS),
            Kind::Miss => format!("/miss/{asked}/{connection}"),
        }
    }

    fn request(self, path: &str, round: u32) -> Vec<u8> {
        match self {
            Kind::Hit | Kind::Charged | Kind::Pass | Kind::Miss => {
                format!("GET {path} HTTP/1.1\r\n{FIELDS}").into_bytes()
            }
            Kind::Stream => h2::request(path, round),
        }
    }

    fn is_whole(self, answer: &[u8], round: u32) -> bool {
        match self {
            Kind::Hit | Kind::Charged | Kind::Pass | Kind::Miss => answer.ends_with(BODY.as_bytes()),
            Kind::Stream => answer.ends_with(&h2::end(round)),
        }
    }

    fn is_good(self, answer: &[u8]) -> bool {
        match self {
            Kind::Hit | Kind::Charged | Kind::Pass | Kind::Miss => answer.starts_with(b"HTTP/1.1 200 "),
            Kind::Stream => answer.windows(BODY.len()).any(|some| some == BODY.as_bytes()),
        }
    }

    /// The costs of work that is done several times a second beside requests are in the figures too, and the lock of
    /// the log's ring, which is taken once for many transactions. A miss keeps a record of its object: two locks.
    fn may_cost(self, costs: &Costs) -> bool {
        let Costs { allocations, locks, sleeps, calls, .. } = *costs;
        match self {
            Kind::Hit | Kind::Stream => allocations < 0.05 && locks < 1.06 && sleeps < 0.05 && calls <= 2.1,
            // One more lock for 32 of them.
            Kind::Charged => allocations < 0.05 && locks < 1.1 && sleeps < 0.05 && calls <= 2.1,
            Kind::Pass => allocations < 13.0 && locks < 16.0 && calls <= 4.9,
            Kind::Miss => allocations < 13.5 && locks < 18.0 && calls <= 4.9,
        }
    }

    /// The same as [`Kind::may_cost`] where other work on the machine makes threads look for what there is to do more
    /// often than the requests do: a hit is read and written once, what is fetched twice (and now and then in two
    /// pieces), and to look costs a hit a call, or one more that ends it. A thread that is stopped while it holds a lock
    /// costs others some calls; one that belongs to a request would come with each.
    fn may_cost_when_busy(self, costs: &Costs) -> bool {
        let looks_alone = match self {
            Kind::Hit | Kind::Charged | Kind::Stream => {
                costs.transfers <= 2.001 && (costs.per_turn <= 2.1 || costs.calls - costs.transfers < 0.5)
            }
            Kind::Pass | Kind::Miss => costs.transfers <= 4.3,
        };
        let calls = if looks_alone { 0.0 } else { costs.calls };
        self.may_cost(&Costs { calls, ..*costs })
    }
}

/// HTTP/2 as far as it is needed here: a request a round, on streams 1, 3, ..
mod h2 {
    use http2::frame::{self, END_HEADERS, END_STREAM};
    use http2::{Http2FrameType, PREFACE, hpack};

    const FIELDS: [(&str, &str); 3] = [(":method", "GET"), (":scheme", "http"), (":authority", "www.example.com")];
    const WINDOW: u32 = 1 << 30;

    fn stream(round: u32) -> u32 {
        2 * round + 1
    }

    /// The request; before the first one come the bytes that begin a connection.
    pub fn request(path: &str, round: u32) -> Vec<u8> {
        let (mut out, mut section) = (Vec::new(), Vec::new());
        if round == 0 {
            out.extend_from_slice(PREFACE);
            frame::write(&mut out, Http2FrameType::Settings, 0, 0, &[]);
            frame::write(&mut out, Http2FrameType::WindowUpdate, 0, 0, &WINDOW.to_be_bytes());
        }
        for (name, value) in FIELDS.into_iter().chain([(":path", path)]) {
            hpack::field(&mut section, name.as_bytes(), value.as_bytes());
        }
        frame::write(&mut out, Http2FrameType::Headers, END_STREAM | END_HEADERS, stream(round), &section);
        out
    }

    pub fn end(round: u32) -> Vec<u8> {
        let mut out = Vec::new();
        frame::write(&mut out, Http2FrameType::Data, END_STREAM, stream(round), &[]);
        out
    }
}

/// Answers on connections that stay.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

fn serve(mut stream: TcpStream) {
    let mut input = Vec::new();
    let mut bytes = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut bytes) {
        input.extend_from_slice(&bytes[..n]);
        while let Some(end) = input.windows(4).position(|four| four == b"\r\n\r\n") {
            let is_pass = input.starts_with(b"GET /pass/");
            input.drain(..end + 4);
            let life = if is_pass { "no-store" } else { "max-age=3600" };
            let fields = format!("Cache-Control: {life}\r\nContent-Type: text/plain\r\nContent-Length: {}", BODY.len());
            let answer = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{BODY}");
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

struct Server {
    process: Child,
    dir: PathBuf,
    address: SocketAddr,
}

impl Server {
    fn start(kind: Kind) -> Server {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("lacquer-costs.{}.{number}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let log = std::fs::File::create(dir.join("out")).unwrap();
        // A port of its own: the kernel's choice, given up for the server.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_lacquer"))
            .arg0("varnishd")
            .args([
                "-F",
                "-j",
                "none",
                // Nobody closes what waits for its next round.
                "-p",
                "timeout_idle=3600",
                "-p",
                "feature=+http2",
                "-p",
                if kind == Kind::Charged { "bots=observe" } else { "bots=off" },
                "-s",
                "malloc,10m",
                "-a",
                &address.to_string(),
                "-b",
                &origin().to_string(),
                "-n",
            ])
            .arg(dir.join("n"))
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut server = Server { process, dir, address };
        let begin = Instant::now();
        while TcpStream::connect(server.address).is_err() {
            let ended = server.process.try_wait().unwrap();
            let said = || std::fs::read_to_string(server.dir.join("out"));
            assert!(ended.is_none() && begin.elapsed() < LIMIT, "the server doesn't start: {:?}", said());
            std::thread::yield_now();
        }
        server
    }

    fn worker(&self) -> u32 {
        let path = format!("/proc/{0}/task/{0}/children", self.process.id());
        let begin = Instant::now();
        // The sockets are there before the worker is.
        loop {
            let children = std::fs::read_to_string(&path).unwrap();
            if let Some(worker) = children.split_whitespace().last() {
                return worker.parse().unwrap();
            }
            assert!(begin.elapsed() < LIMIT, "there is no worker");
            std::thread::yield_now();
        }
    }

    fn counter(&self, name: &str) -> u64 {
        let out = Command::new(env!("CARGO_BIN_EXE_lacquer"))
            .args(["stat", "-1", "-f", name, "-n"])
            .arg(self.dir.join("n"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        text.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no {name}: {text}"))
    }

    fn threads(&self) -> Vec<PathBuf> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.worker())).unwrap();
        let serves = |task: &PathBuf| {
            let name = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
            name.trim_end().strip_prefix("lacquer-").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
        };
        tasks.map(|task| task.unwrap().path()).filter(serves).collect()
    }

    /// Number of times that they went to sleep of their own accord.
    fn sleeps(&self) -> u64 {
        let one = |task: &PathBuf| -> u64 {
            let status = std::fs::read_to_string(task.join("status")).unwrap();
            let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches:")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        self.threads().iter().map(one).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

struct Client {
    streams: Vec<TcpStream>,
    answer: Vec<u8>,
    worker: u32,
    threads: Vec<PathBuf>,
    kind: Kind,
    asked: u64,
    rounds: u32,
}

impl Client {
    fn new(server: &Server, kind: Kind) -> Client {
        let connect = |_| {
            let stream = TcpStream::connect(server.address).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            stream
        };
        let streams = (0..kind.connections()).map(connect).collect();
        let (worker, threads) = (server.worker(), server.threads());
        Client { streams, answer: Vec::new(), worker, threads, kind, asked: 0, rounds: 0 }
    }

    /// All connections ask while the worker is stopped, then all are read, so often. Answers how many requests that makes.
    fn ask(&mut self, times: usize) -> f64 {
        for _ in 0..times {
            signal("-STOP", self.worker);
            while !self.threads.iter().all(|thread| is_stopped(thread)) {
                std::thread::yield_now();
            }
            for (n, stream) in self.streams.iter_mut().enumerate() {
                let request = self.kind.request(&self.kind.path(n, self.asked), self.rounds);
                stream.write_all(&request).unwrap();
            }
            signal("-CONT", self.worker);
            for stream in &mut self.streams {
                self.answer.clear();
                while !self.kind.is_whole(&self.answer, self.rounds) {
                    let mut bytes = [0; 2048];
                    let n = stream.read(&mut bytes).unwrap();
                    assert!(n > 0, "a connection was closed");
                    self.answer.extend_from_slice(&bytes[..n]);
                }
                assert!(self.kind.is_good(&self.answer), "{:?}", String::from_utf8_lossy(&self.answer));
            }
            self.rounds += 1;
            self.asked += self.streams.len() as u64;
        }
        (self.streams.len() * times) as f64
    }
}

/// True if a signal has stopped it, or one who traces it because of one.
fn is_stopped(thread: &Path) -> bool {
    let stat = std::fs::read_to_string(thread.join("stat")).unwrap();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    matches!(state, Some("T" | "t"))
}

fn signal(which: &str, pid: u32) {
    let status = Command::new("kill").args([which, &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

/// System calls of the threads that serve while `run` runs, by name, and how many requests that was; `None` where nothing
/// may be traced.
fn calls_during(server: &Server, run: impl FnOnce() -> f64) -> Option<(HashMap<String, u64>, f64)> {
    let out = server.dir.join("calls");
    let mut strace = Command::new("strace");
    for thread in server.threads() {
        strace.arg("-p").arg(thread.file_name()?);
    }
    let mut strace = strace.args(["-c", "-o"]).arg(&out).stderr(Stdio::piped()).spawn().ok()?;
    let mut said = strace.stderr.take()?;
    let mut text = Vec::new();
    while text.iter().filter(|byte| **byte == b'\n').count() < server.threads().len() {
        let mut byte = [0];
        if said.read(&mut byte).ok()? == 0 {
            return None;
        }
        text.push(byte[0]);
    }
    let hits = run();
    Command::new("kill").args(["-INT", &strace.id().to_string()]).status().ok()?;
    strace.wait().ok()?;
    let table = std::fs::read_to_string(out).ok()?;
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some(((*words.last()?).to_owned(), words.get(3)?.parse().ok()?))
    };
    Some((table.lines().filter_map(row).collect(), hits))
}

/// Per request; what other work on the machine does makes them larger, never smaller.
#[derive(Debug, Clone, Copy)]
struct Costs {
    allocations: f64,
    locks: f64,
    sleeps: f64,
    calls: f64,
    /// Number of `calls` that read and write.
    transfers: f64,
    /// The other calls for each time that a thread looks what there is to do: how often it does hangs on the machine.
    per_turn: f64,
}

impl Costs {
    fn least(self, other: Costs) -> Costs {
        Costs {
            allocations: self.allocations.min(other.allocations),
            locks: self.locks.min(other.locks),
            sleeps: self.sleeps.min(other.sleeps),
            calls: self.calls.min(other.calls),
            transfers: self.transfers.min(other.transfers),
            per_turn: self.per_turn.min(other.per_turn),
        }
    }
}

fn measured(server: &Server, client: &mut Client) -> Costs {
    // The counts, once all requests so far are in them.
    let counts = |asked: u64| {
        let wait = |what: &str, least: u64| {
            let begin = Instant::now();
            while server.counter(what) < least {
                assert!(begin.elapsed() < LIMIT, "{what} stays below {least}");
            }
        };
        wait("MAIN.client_req", asked);
        wait("COSTS.turns", server.counter("COSTS.turns") + 2);
        (server.counter("COSTS.allocations"), server.counter("COSTS.locks"))
    };
    let before = counts(client.asked);
    let (mut hits, mut sleeps) = (0.0, Vec::new());
    for _ in 0..ROUNDS {
        let slept = server.sleeps();
        let asked = client.ask(1);
        // To be stopped looks like a sleep; it isn't the server's.
        let own = (server.sleeps() - slept).saturating_sub(server.threads().len() as u64);
        sleeps.push(own as f64 / asked);
        hits += asked;
    }
    sleeps.sort_by(f64::total_cmp);
    let after = counts(client.asked);
    let each = |a: u64, b: u64| (b - a) as f64 / hits;
    let (calls, hits) = calls_during(server, || client.ask(ROUNDS / 3)).unwrap_or_else(|| {
        println!("system calls aren't counted: strace is missing, or may not trace");
        (HashMap::new(), 1.0)
    });
    let count = |names: &[&str]| names.iter().filter_map(|name| calls.get(*name)).sum::<u64>() as f64;
    // Two calls time each hundredth turn (the parameter step_timing), however many requests that has.
    let (all, turns) = (count(&["total"]) - count(&["clock_gettime"]), count(&["epoll_wait"]));
    let transfers = count(&["recvfrom", "read", "readv", "sendto", "sendmsg", "writev"]);
    Costs {
        allocations: each(before.0, after.0),
        locks: each(before.1, after.1),
        // The usual round's: in one that other work on the machine draws out, threads wake by the clock, too.
        sleeps: sleeps[ROUNDS / 2],
        calls: all / hits,
        transfers: transfers / hits,
        per_turn: (all - transfers) / turns.max(1.0),
    }
}

fn check(kind: Kind) {
    // One after the other: they have the machine to themselves.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    let server = Server::start(kind);
    let mut client = Client::new(&server, kind);
    client.ask(10);
    let begin = Instant::now();
    let mut least = measured(&server, &mut client);
    while !kind.may_cost(&least) && begin.elapsed() < PATIENCE {
        least = least.least(measured(&server, &mut client));
    }
    println!("a {kind:?}: {least:?}");
    assert!(kind.may_cost_when_busy(&least), "a {kind:?}: {least:?}");
}

#[test]
fn a_hit_costs_what_it_may() {
    check(Kind::Hit);
}

#[test]
fn a_hit_that_is_charged_costs_what_it_may() {
    check(Kind::Charged);
}

#[test]
fn a_hit_over_http2_costs_what_it_may() {
    check(Kind::Stream);
}

#[test]
fn a_pass_costs_what_it_may() {
    check(Kind::Pass);
}

#[test]
fn a_miss_costs_what_it_may() {
    check(Kind::Miss);
}

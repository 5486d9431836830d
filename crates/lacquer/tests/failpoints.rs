// SPDX-License-Identifier: BSD-2-Clause
//! What an error of our own costs: in a filter one transaction, under an objhead's lock or by a signal the worker, which leaves a
//! report and is replaced. Faults are injected by `base::failpoint`.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too, fail by a panic")]
#![allow(clippy::disallowed_methods, reason = "measures the machine")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use cli::client::ReplyDecoder;

const LIMIT: Duration = Duration::from_secs(30);

const BODY: &str = "some text, some text, some text";

/// An origin with one answer, which ends with the test's process.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n > 0) {
                head.push(byte[0]);
            }
            let _ =
                write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{BODY}", BODY.len());
        }
    });
    address
}

/// A varnishd whose CLI is its standard input and output.
struct Server {
    process: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    replies: ReplyDecoder,
    dir: PathBuf,
}

impl Server {
    fn start(name: &str, plant: &str) -> Server {
        let dir = std::env::temp_dir().join(format!("lacquer-planted.{name}.{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let vcl = format!(
            "vcl 4.1; backend default {{ .host = \"{0}\"; .port = \"{1}\"; }}\n\
             sub vcl_backend_response {{ set beresp.do_gzip = true; }}\n",
            origin().ip(),
            origin().port()
        );
        std::fs::write(dir.join("test.vcl"), vcl).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_lacquer"))
            .arg0("varnishd")
            .args([
                "-d",
                "-j",
                "none",
                "-a",
                "127.0.0.1:0",
                "-s",
                "malloc,10m",
                "-l",
                "2m",
                "-p",
                "feature=+no_coredump",
            ])
            .arg("-n")
            .arg(dir.join("n"))
            .arg("-f")
            .arg(dir.join("test.vcl"))
            .env("LACQUER_FAILPOINTS", plant)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut server = Server { process, stdin, stdout, replies: ReplyDecoder::new(), dir };
        server.reply();
        server.ask("start");
        server
    }

    fn reply(&mut self) -> (u16, String) {
        let mut bytes = [0; 4096];
        loop {
            if let Some(reply) = self.replies.next_reply().unwrap() {
                return (reply.status as u16, reply.text().into_owned());
            }
            let n = self.stdout.read(&mut bytes).unwrap();
            assert!(n > 0, "the manager has ended");
            self.replies.feed(&bytes[..n]);
        }
    }

    fn ask(&mut self, command: &str) -> (u16, String) {
        writeln!(self.stdin, "{command}").unwrap();
        self.reply()
    }

    fn address(&mut self) -> SocketAddr {
        let (_, text) = self.ask("debug.listen_address");
        let mut words = text.split_whitespace().skip(1);
        let (host, port) = (words.next().unwrap(), words.next().unwrap());
        format!("{host}:{port}").parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The end of the CLI's input ends a manager in debug mode; the kill is for one that doesn't heed it.
        let _ = writeln!(self.stdin, "quit");
        let end = Instant::now() + Duration::from_secs(10);
        while self.process.try_wait().is_ok_and(|ended| ended.is_none()) {
            if Instant::now() > end {
                let _ = self.process.kill();
            }
            std::thread::yield_now();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn is_served(address: SocketAddr, path: &str) -> bool {
    let mut answer = String::new();
    let ask = || -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(LIMIT))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        Ok(stream)
    };
    let read = ask().and_then(|mut stream| stream.read_to_string(&mut answer));
    let end = if answer.contains("\r\nTransfer-Encoding: chunked\r\n") { "\r\n0\r\n\r\n" } else { BODY };
    read.is_ok() && answer.starts_with("HTTP/1.1 200 ") && answer.contains(BODY) && answer.ends_with(end)
}

fn check_filter(name: &str, plant: &str) {
    let mut server = Server::start(name, plant);
    let address = server.address();
    let paths: Vec<String> = (0..8).map(|n| format!("/{n}")).collect();
    let failed: Vec<&String> = paths.iter().filter(|path| !is_served(address, path)).collect();
    assert_eq!(failed.len(), 1, "one request is lost: {failed:?}");
    assert!(is_served(address, failed[0]), "and nothing bad was kept");
    assert_eq!(server.ask("panic.show").0, 300, "the worker has not panicked");
}

#[test]
fn a_fault_in_a_delivery_costs_one_request() {
    // A small body takes two turns. In the second there is nothing left that could be lost.
    check_filter("deliver", "gunzip=3");
}

#[test]
fn a_fault_in_a_fetch_costs_one_request() {
    check_filter("fetch", "gzip=4");
}

/// The third lookup ends the worker; the next one serves, and the report has these parts.
fn check_death(name: &str, plant: &str, parts: &[&str]) {
    let mut server = Server::start(name, plant);
    let address = server.address();
    assert!(is_served(address, "/1") && is_served(address, "/2"));
    assert!(!is_served(address, "/3"), "the third lookup ends the worker");
    let end = Instant::now() + LIMIT;
    while !is_served(address, "/4") {
        assert!(Instant::now() < end, "a new worker serves");
    }
    let (status, report) = server.ask("panic.show");
    assert_eq!(status, 200, "{report}");
    let common =
        ["thread = lacquer-", "step = lookup, client = 127.0.0.1 ", "url = /3\n", "boot (active): ", "argv = "];
    for part in common.iter().chain(parts) {
        assert!(report.contains(part), "{part:?} is in the report:\n{report}");
    }
}

#[test]
fn a_fault_under_an_objhead_lock_restarts_the_worker_with_a_report() {
    check_death("objhead", "objhead=3", &["index out of bounds", "Backtrace:", "cache::search"]);
}

#[test]
fn an_overflown_stack_leaves_a_report_too() {
    let parts = [
        "Panic: Signal 11 (SIGSEGV) because the stack overflowed\n",
        "Backtrace:",
        "overflow_stack",
        "lines left out",
        "thread_start",
    ];
    check_death("stack", "objhead=3:stack", &parts);
}

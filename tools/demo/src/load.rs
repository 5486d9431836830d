// SPDX-License-Identifier: BSD-2-Clause
//! Our own requests: a few a second to measure latency, and a light traffic if asked for.

use crate::pages::IMAGES;
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Requests per second that measure when there is no load.
const PROBES: u32 = 20;
const THREADS: u32 = 4;
/// Time for which a latency counts.
const WINDOW: Duration = Duration::from_secs(10);
const MAX_SAMPLES: usize = 100_000;
const TIMEOUT: Duration = Duration::from_secs(10);

type Samples = Arc<Mutex<VecDeque<(Instant, Duration)>>>;

pub struct Load(Samples);

impl Load {
    /// Asks `address` for pages, `rate` times a second, or a few times when that is 0.
    pub fn start(address: SocketAddr, rate: u32) -> Self {
        let samples = Samples::default();
        let (threads, rate) = if rate == 0 { (1, PROBES) } else { (THREADS.min(rate), rate) };
        let pause = Duration::from_secs(1) * threads / rate;
        for n in 0..threads {
            let samples = Arc::clone(&samples);
            let work = move || run(address, pause, u64::from(n) + 1, &samples);
            let _ = thread::Builder::new().name("load".into()).spawn(work); // fewer threads, less load
        }
        Load(samples)
    }

    /// The latencies of the last ten seconds, in rising order.
    pub fn take(&self) -> Vec<Duration> {
        let mut samples = lock(&self.0);
        let now = Instant::now();
        while samples.front().is_some_and(|(at, _)| now.duration_since(*at) > WINDOW) {
            samples.pop_front();
        }
        let mut all: Vec<Duration> = samples.iter().map(|(_, took)| *took).collect();
        drop(samples);
        all.sort_unstable();
        all
    }
}

fn lock(samples: &Samples) -> MutexGuard<'_, VecDeque<(Instant, Duration)>> {
    samples.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(address: SocketAddr, pause: Duration, seed: u64, samples: &Samples) {
    let (mut connection, mut random, mut next) = (None, seed, Instant::now());
    loop {
        next = (next + pause).max(Instant::now()); // never catch up in a burst
        thread::sleep(next.saturating_duration_since(Instant::now()));
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let begin = Instant::now();
        match ask(&mut connection, address, &path(random >> 33)) {
            Ok(()) => {
                let mut samples = lock(samples);
                if samples.len() >= MAX_SAMPLES {
                    samples.pop_front();
                }
                samples.push_back((begin, begin.elapsed()));
            }
            Err(_) => connection = None, // the cache restarts, or closed an old connection: try again on a new one
        }
    }
}

/// Mostly the first page and its images, a long tail of others, now and then what can't be cached.
fn path(random: u64) -> String {
    let (kind, which) = (random % 100, random / 100);
    match kind {
        0..30 => "/".into(),
        30..85 => format!("/img/{}.svg", which % u64::from(IMAGES) + 1),
        85..98 => format!("/any?size={}&page={}", which % 20_000, which % 500),
        _ => "/now".into(),
    }
}

fn ask(connection: &mut Option<BufReader<TcpStream>>, address: SocketAddr, path: &str) -> io::Result<()> {
    if connection.is_none() {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        *connection = Some(BufReader::new(stream));
    }
    let Some(input) = connection else { return Ok(()) };
    input.get_mut().write_all(format!("GET {path} HTTP/1.1\r\nHost: demo.lacquer.test\r\n\r\n").as_bytes())?;
    match read_answer(input)? {
        true => Ok(()),
        false => {
            *connection = None;
            Ok(())
        }
    }
}

/// Reads one answer; whether the connection is kept.
fn read_answer(input: &mut impl BufRead) -> io::Result<bool> {
    let bad = || io::Error::from(io::ErrorKind::InvalidData);
    let (mut line, mut length, mut chunked, mut keep) = (String::new(), None, false, true);
    read_line(input, &mut line)?;
    while read_line(input, &mut line)? > 2 {
        let (name, value) = line.split_once(':').ok_or_else(bad)?;
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = Some(value.trim().parse().map_err(|_| bad())?),
            "transfer-encoding" => chunked = true,
            "connection" => keep = !value.trim().eq_ignore_ascii_case("close"),
            _ => {}
        }
    }
    match (chunked, length) {
        (true, _) => loop {
            read_line(input, &mut line)?;
            let size = u64::from_str_radix(line.trim_end(), 16).map_err(|_| bad())?;
            skip(input, size + 2)?;
            if size == 0 {
                return Ok(keep);
            }
        },
        (false, Some(length)) => skip(input, length).map(|()| keep),
        (false, None) => io::copy(input, &mut io::sink()).map(|_| false),
    }
}

fn read_line(input: &mut impl BufRead, line: &mut String) -> io::Result<usize> {
    line.clear();
    match input.take(64 << 10).read_line(line)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        n => Ok(n),
    }
}

fn skip(input: &mut impl BufRead, octets: u64) -> io::Result<()> {
    match io::copy(&mut input.take(octets), &mut io::sink())? {
        n if n == octets => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answer: &str, expect: Result<bool, io::ErrorKind>) {
        assert_eq!(read_answer(&mut answer.as_bytes()).map_err(|e| e.kind()), expect, "{answer:?}");
    }

    #[test]
    fn answers() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", Ok(true));
        check("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", Ok(false));
        check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", Ok(true));
        check("HTTP/1.0 200 OK\r\n\r\nall", Ok(false));
        check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", Err(io::ErrorKind::UnexpectedEof));
        check("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", Err(io::ErrorKind::InvalidData));
    }

    #[test]
    fn every_path_is_one_of_the_demo() {
        (0..1000).for_each(|n| assert!(path(n * 7919).starts_with('/')));
    }
}

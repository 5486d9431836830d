// SPDX-License-Identifier: BSD-2-Clause
//! The first requests of a demo, shown as they are made: a miss, a hit, and a page that is never cached, each with its time and its reason
//! as the cache itself gives it (`Cache-Status`, RFC 9211).

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Time that one of them may take: the slow page needs two seconds.
const TIMEOUT: Duration = Duration::from_secs(20);
/// More of a head than this is no answer of the demo's.
const MAX_HEAD: u64 = 64 << 10;

/// The paths to request, in this order, and whether to print the result. The uncacheable page is requested twice and printed once, because
/// the first request can't know yet that it is uncacheable.
const STOPS: [(&str, bool); 4] = [("/slow", true), ("/slow", true), ("/now", false), ("/now", true)];

/// Asks the cache for each page and gives a line for each that is told of; `told` gets it when the answer is there, and says whether to go on.
///
/// # Errors
/// The cache doesn't answer.
pub fn walk(cache: SocketAddr, mut told: impl FnMut(String) -> bool) -> io::Result<()> {
    for (path, is_told) in STOPS {
        let begin = Instant::now();
        let answer = ask(cache, path)?;
        if is_told && !told(answer.line(path, begin.elapsed())) {
            break;
        }
    }
    Ok(())
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    is_hit: bool,
    /// The `detail` of Cache-Status: why it was no hit.
    reason: Option<String>,
    control: String,
}

impl Answer {
    /// `hit   /slow   0.00 s   why`, for a terminal of 80 columns.
    fn line(&self, path: &str, took: Duration) -> String {
        let verdict = if self.is_hit { "hit " } else { "miss" };
        format!("  {verdict}  {path:<5}  {:.2} s  {}\n", took.as_secs_f64(), self.why())
    }

    fn why(&self) -> String {
        let control = &self.control;
        match (self.is_hit, self.reason.as_deref()) {
            (true, _) => format!("served from the cache ({control})"),
            (false, Some("first-fetch")) => "first request: fetched from the site".to_owned(),
            (false, Some("hit-for-miss" | "hit-for-pass")) => {
                format!("not cacheable ({control}): fetched each time")
            }
            (false, Some(reason)) => format!("fetched from the site: {reason}"),
            (false, None) => "fetched from the site".to_owned(),
        }
    }
}

fn ask(cache: SocketAddr, path: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&cache, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {cache}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut input = BufReader::new(stream);
    let answer = read_head(&mut input)?;
    io::copy(&mut input, &mut io::sink())?;
    Ok(answer)
}

fn read_head(input: &mut impl BufRead) -> io::Result<Answer> {
    let mut answer = Answer::default();
    for line in input.take(MAX_HEAD).lines() {
        let line = line?;
        if line.is_empty() {
            return Ok(answer);
        }
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            // Another program in front, which knows no Cache-Status, has the field that our VCL sets.
            "x-cache" => answer.is_hit |= value == "hit",
            "cache-status" => {
                let words: Vec<&str> = value.split(';').map(str::trim).collect();
                answer.is_hit |= words.contains(&"hit");
                answer.reason = words.iter().find_map(|word| word.strip_prefix("detail=")).map(str::to_owned);
            }
            "cache-control" => value.clone_into(&mut answer.control),
            _ => {}
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, line: &str) {
        let answer = read_head(&mut head.replace('\n', "\r\n").as_bytes()).expect("a head");
        let got = answer.line("/slow", Duration::from_millis(2004));
        assert_eq!(got, line);
        assert!(got.trim_end().len() <= 80, "{got}");
    }

    #[test]
    fn what_is_told() {
        check(
            "HTTP/1.1 200 OK\nCache-Control: max-age=10\nX-Cache: miss\nCache-Status: Lacquer; fwd=uri-miss; stored; ttl=10; detail=first-fetch\n\n",
            "  miss  /slow  2.00 s  first request: fetched from the site\n",
        );
        check(
            "HTTP/1.1 200 OK\nCache-Control: max-age=10\nX-Cache: hit\nCache-Status: Lacquer; hit; ttl=9\n\n",
            "  hit   /slow  2.00 s  served from the cache (max-age=10)\n",
        );
        check(
            "HTTP/1.1 200 OK\nCache-Control: no-store\nCache-Status: Lacquer; fwd=miss; detail=hit-for-miss\n\n",
            "  miss  /slow  2.00 s  not cacheable (no-store): fetched each time\n",
        );
        check(
            "HTTP/1.1 200 OK\nCache-Status: Lacquer; fwd=miss; detail=purged\n\n",
            "  miss  /slow  2.00 s  fetched from the site: purged\n",
        );
        check("HTTP/1.1 200 OK\nX-Cache: hit\n\n", "  hit   /slow  2.00 s  served from the cache ()\n");
        check("HTTP/1.1 200 OK\nX-Cache: miss\n\n", "  miss  /slow  2.00 s  fetched from the site\n");
    }

    #[test]
    fn a_head_that_breaks_off_is_an_error() {
        assert_eq!(
            read_head(&mut &b"HTTP/1.1 200 OK\r\n"[..]).map_err(|e| e.kind()),
            Err(io::ErrorKind::UnexpectedEof)
        );
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Asking a server for what seems to be stored twice: are the bodies the same?

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use base::lookup::addresses_of_text;
use sha2::{Digest, Sha256};

use crate::duplicates::SimulateGroup;

const MOST_REQUESTS: usize = 400;
const CONNECT: Duration = Duration::from_secs(5);
/// Time that one answer may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time that a read waits before the deadline is looked at.
const STEP: Duration = Duration::from_secs(1);
const LONGEST_HEAD: usize = 64 << 10;
const LONGEST_BODY: usize = 256 << 20;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Compared {
    pub asked: usize,
    /// Answers that were none, other statuses than 200 or cut off.
    pub failed: usize,
    /// Those that are the same, those first that cost most.
    pub same: Vec<Same>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Same {
    pub bytes: u64,
    pub urls: Vec<String>,
}

impl Same {
    pub fn saved(&self) -> u64 {
        self.bytes * (self.urls.len() as u64 - 1)
    }
}

/// Asks for those of the first groups; `look` is told how many have been asked for, and says whether to go on.
///
/// # Errors
/// The server's name says nothing.
pub fn compare(
    server: &str,
    groups: &[&SimulateGroup],
    mut look: impl FnMut(usize, usize) -> bool,
) -> Result<Compared, String> {
    let addresses = addresses_of_text(server).map_err(|error| format!("--bodies {server}: {error}"))?;
    let address = addresses.into_iter().next().ok_or_else(|| format!("--bodies {server}: no address"))?;
    let all = groups.iter().map(|group| group.urls.len()).sum::<usize>().min(MOST_REQUESTS);
    let mut compared = Compared::default();
    for group in groups {
        let mut bodies = BTreeMap::<[u8; 32], Same>::new();
        for (host, target) in &group.urls {
            if compared.asked >= MOST_REQUESTS || !look(compared.asked, all) {
                break;
            }
            compared.asked += 1;
            match ask(address, host, target) {
                Some((digest, bytes)) => {
                    let same = bodies.entry(digest).or_insert(Same { bytes, urls: Vec::new() });
                    same.urls.push(format!("{host}{target}"));
                }
                None => compared.failed += 1,
            }
        }
        compared.same.extend(bodies.into_values().filter(|same| same.urls.len() > 1));
    }
    compared.same.sort_by_key(|same| std::cmp::Reverse(same.saved()));
    Ok(compared)
}

fn ask(server: SocketAddr, host: &str, target: &str) -> Option<([u8; 32], u64)> {
    // Bytes that were no text were replaced: that URL is another.
    if !host.bytes().chain(target.bytes()).all(|b| b.is_ascii_graphic()) {
        return None;
    }
    let end = Instant::now() + PATIENCE;
    let mut stream = TcpStream::connect_timeout(&server, CONNECT).ok()?;
    stream.set_read_timeout(Some(STEP)).ok()?;
    stream.set_write_timeout(Some(CONNECT)).ok()?;
    // A server doesn't answer HTTP/1.0 in chunks.
    let request = format!("GET {target} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: lacquer-simulate\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Answer::default();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return answer.end(),
            Ok(n) => answer.take(&buffer[..n])?,
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted) => {}
            Err(_) => return None,
        }
        if answer.is_whole() {
            return answer.end();
        }
        if Instant::now() >= end {
            return None;
        }
    }
}

#[derive(Default)]
struct Answer {
    head: Vec<u8>,
    is_head_over: bool,
    length: Option<u64>,
    read: u64,
    hasher: Sha256,
}

impl Answer {
    /// `None`: it is of no use.
    fn take(&mut self, bytes: &[u8]) -> Option<()> {
        if self.is_head_over {
            return self.body(bytes);
        }
        self.head.extend_from_slice(bytes);
        let Some(end) = memchr::memmem::find(&self.head, b"\r\n\r\n") else {
            return (self.head.len() <= LONGEST_HEAD).then_some(());
        };
        let body = self.head.split_off(end + 4);
        self.is_head_over = true;
        let text = String::from_utf8_lossy(&self.head).to_ascii_lowercase();
        let mut lines = text.split("\r\n");
        let is_ok = lines.next().and_then(|line| line.split(' ').nth(1)) == Some("200");
        let fields: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
        let named = |name| fields.iter().find(|field| field.0 == name).map(|field| field.1.trim());
        self.length = named("content-length").map(str::parse).transpose().ok()?;
        if !is_ok || named("transfer-encoding").is_some() {
            return None;
        }
        self.body(&body)
    }

    fn body(&mut self, bytes: &[u8]) -> Option<()> {
        self.read += bytes.len() as u64;
        self.hasher.update(bytes);
        (self.read <= LONGEST_BODY as u64).then_some(())
    }

    fn is_whole(&self) -> bool {
        self.is_head_over && self.length.is_some_and(|length| self.read >= length)
    }

    fn end(self) -> Option<([u8; 32], u64)> {
        let is_good = self.is_head_over && self.length.is_none_or(|length| self.read == length);
        is_good.then(|| (self.hasher.finalize().into(), self.read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(answer: &[u8], cut: usize) -> Option<u64> {
        let mut taken = Answer::default();
        let (first, second) = answer.split_at(cut.min(answer.len()));
        for part in [first, second] {
            taken.take(part)?;
        }
        taken.end().map(|(_, bytes)| bytes)
    }

    #[test]
    fn answers_are_whole_or_nothing() {
        for (answer, bytes) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", Some(3)),
            ("HTTP/1.1 200 OK\r\n\r\nabcd", Some(4)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", None),
            ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nabc", None),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", None),
            ("HTTP/1.1 404 No\r\nContent-Length: 3\r\n\r\nabc", None),
            ("HTTP/1.1 200 OK\r\n", None),
            ("", None),
        ] {
            assert_eq!(read(answer.as_bytes(), 0), bytes, "{answer}");
        }
    }

    proptest! {
        #[test]
        fn it_doesnt_matter_how_an_answer_comes(cut in 0usize..60) {
            prop_assert_eq!(read(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n0123456789", cut), Some(10));
        }

        #[test]
        fn no_answer_can_hurt(answer in proptest::collection::vec(any::<u8>(), 0..300), cut in 0usize..300) {
            read(&answer, cut);
            read(&[b"HTTP/1.1 200 ", &answer[..]].concat(), cut);
        }
    }
}

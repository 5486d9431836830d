// SPDX-License-Identifier: BSD-2-Clause
//! The other end of a backend that is no server (`backend::Service`): reads one request off the connection, has it answered,
//! writes what the answer says, and closes.

use std::io::ErrorKind;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use backend::{Service, ServiceRef};
use base::Vxid;
use http1::{ChunkHeader, Decoder, LAST_CHUNK, Limits, Progress, parse_request};
use message::{Head, HeadLimits, status};
use net::Stream;
use shm::vsl::{LogRing, Marker};
use tables::Tag;

use crate::wire::{self, PIECE};

/// Bytes of a request's head. The engine has its own, lower limit; this one only bounds our buffer.
const HEAD_BYTES: usize = 4 * 1024 * 1024;
/// Lines of a head.
const LINES: u32 = 65_535;

/// How often an answer that is waited for looks whether it still is.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why a connection ends without a whole answer.
pub(crate) type Broken = String;

/// A future of an answer.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<(), Broken>>>>;

/// Who answers.
pub(crate) trait Answer: Send + Sync + 'static {
    /// Answers a request. After an error the connection is cut; the log says why.
    fn answer(self: Arc<Self>, exchange: Exchange) -> Answering;
}

/// A service of `answer`'s, whose errors are logged under a name.
pub(crate) fn service<A: Answer>(name: &str, log: Arc<LogRing>, answer: Arc<A>) -> ServiceRef {
    ServiceRef(Arc::new(Local { name: name.to_owned(), log, answer }))
}

struct Local<A> {
    name: String,
    log: Arc<LogRing>,
    answer: Arc<A>,
}

impl<A: Answer> Service for Local<A> {
    fn accept(&self, stream: Stream) {
        let (name, log, answer) = (self.name.clone(), self.log.clone(), self.answer.clone());
        drop(rt::spawn(async move {
            let stream = Rc::new(stream);
            let answered = async {
                match Exchange::begin(stream.clone()).await? {
                    Some(exchange) => answer.answer(exchange).await,
                    None => Ok(()),
                }
            };
            let done = tokio::select! {
                biased;
                done = answered => done,
                () = gone(&stream) => Ok(()),
            };
            if let Err(why) = done {
                log.write_onef(Tag::Error, Vxid::NONE, Marker::None, format_args!("{name}: {why}"));
            }
        }));
    }
}

/// Ready once the fetch has given the connection up.
async fn gone(stream: &Stream) {
    loop {
        let _ = rt::timeout(LOOK_EVERY, std::future::pending::<()>()).await;
        // What the fetch has sent may still wait to be read: only writing tells.
        if stream.try_write(b"").is_err_and(|why| why.kind() == ErrorKind::BrokenPipe) {
            return;
        }
    }
}

/// A request and the way back.
pub(crate) struct Exchange {
    stream: Rc<Stream>,
    /// The request, but for its target: `/` stands there.
    pub(crate) head: Head,
    /// What is asked for, as the request has it.
    pub(crate) target: Vec<u8>,
    pub(crate) has_body: bool,
    body: Decoder,
    /// Read, and not used yet.
    input: Vec<u8>,
    output: Vec<u8>,
    chunked: bool,
    sends_body: bool,
}

impl Exchange {
    /// Reads a request's head; `None` when there comes none.
    async fn begin(stream: Rc<Stream>) -> Result<Option<Self>, Broken> {
        let mut input = Vec::new();
        let end = loop {
            let from = input.len().saturating_sub(3);
            if !wire::more(&stream, &mut input).await? {
                return if input.is_empty() { Ok(None) } else { Err("the request broke off".to_owned()) };
            }
            if let Some(at) = memchr::memmem::find(&input[from..], b"\r\n\r\n") {
                break from + at + 4;
            }
            if input.len() > HEAD_BYTES {
                return Err("the request's head is too long".to_owned());
            }
        };
        let (plain, target) = without_target(&input[..end]).ok_or("bad request line")?;
        let limits = Limits {
            head_bytes: HEAD_BYTES,
            line_bytes: HEAD_BYTES,
            lenient: true,
            https_scheme: false,
            lone_lf: true,
        };
        let mut head = Head::with_limits(HeadLimits::new(LINES, HEAD_BYTES as u32 * 2));
        let framing = match parse_request(&plain, &limits, &mut head) {
            Ok(Progress::Complete(parsed)) => parsed.framing,
            Ok(_) => return Err("bad request".to_owned()),
            Err(why) => return Err(format!("bad request: {why:?}")),
        };
        input.drain(..end);
        let body = Decoder::request(framing);
        let (has_body, sends_body) = (!body.is_complete(), head.method() != b"HEAD");
        let output = Vec::new();
        Ok(Some(Self { stream, head, target, has_body, body, input, output, chunked: false, sends_body }))
    }

    /// The next bytes of the request's body; `None` at its end.
    pub(crate) async fn next_piece(&mut self) -> Result<Option<Vec<u8>>, Broken> {
        wire::next_piece(&self.stream, &mut self.body, &mut self.input, "bad request body").await
    }

    /// Begins the answer, whose body has `len` bytes or, without that, as many as come. Fields of framing and of the
    /// connection are the exchange's own.
    pub(crate) fn respond(&mut self, status: u16, reason: &[u8], fields: &[(&[u8], &[u8])], len: Option<u64>) {
        let reason = if reason.is_empty() { status::reason(status).as_bytes() } else { reason };
        let out = &mut self.output;
        out.extend([format!("HTTP/1.1 {status} ").as_bytes(), reason, b"\r\n"].concat());
        for (name, value) in fields {
            out.extend([*name, b": ", value, b"\r\n"].concat());
        }
        let has_none = matches!(status, 204 | 304);
        self.sends_body &= !has_none;
        self.chunked = len.is_none() && self.sends_body;
        match len {
            Some(len) if !has_none => out.extend(format!("Content-Length: {len}\r\n").as_bytes()),
            None if self.chunked => out.extend(b"Transfer-Encoding: chunked\r\n"),
            Some(_) | None => {}
        }
        out.extend(b"Connection: close\r\n\r\n");
    }

    /// Sends more of the answer's body.
    pub(crate) async fn send(&mut self, data: &[u8]) -> Result<(), Broken> {
        if data.is_empty() || !self.sends_body {
            return Ok(());
        }
        if self.chunked {
            self.output.extend(ChunkHeader::new(data.len()).as_bytes());
        }
        if self.output.len() + data.len() > PIECE {
            self.flush().await?;
            self.stream.write_all(data, None).await.map_err(wire::why)?;
        } else {
            self.output.extend(data);
        }
        if self.chunked {
            self.output.extend(b"\r\n");
        }
        Ok(())
    }

    /// What was put together so far goes out.
    pub(crate) async fn flush(&mut self) -> Result<(), Broken> {
        let written = self.stream.write_all(&self.output, None).await;
        self.output.clear();
        written.map_err(wire::why)
    }

    /// The answer is whole.
    pub(crate) async fn finish(mut self) -> Result<(), Broken> {
        if self.chunked {
            self.output.extend(LAST_CHUNK);
        }
        self.flush().await?;
        self.stream.shutdown_write();
        // What is left of the request would be an error for its sender, before it has read the answer.
        while !self.body.is_complete() {
            self.input.clear();
            if !matches!(wire::more(&self.stream, &mut self.input).await, Ok(true)) {
                break;
            }
        }
        Ok(())
    }

    /// An answer without a body.
    pub(crate) async fn refuse(mut self, status: u16) -> Result<(), Broken> {
        self.respond(status, b"", &[], Some(0));
        self.finish().await
    }
}

/// The head with `/` for its target, and the target: VCL may ask for anything there.
fn without_target(head: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let line = &head[..memchr::memmem::find(head, b"\r\n")?];
    let (first, last) = (memchr::memchr(b' ', line)?, memchr::memrchr(b' ', line)?);
    let target = line.get(first + 1..last)?;
    Some(([&head[..=first], b"/", &head[last..]].concat(), target.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_what_stands_there() {
        let (plain, target) = without_target(b"GET http://h/a b?c HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!((&plain[..], &target[..]), (&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], &b"http://h/a b?c"[..]));
        for bad in ["GET\r\n\r\n", "GET /\r\n\r\n", "GET / HTTP/1.1"] {
            assert!(without_target(bad.as_bytes()).is_none_or(|(_, target)| target.is_empty()), "{bad}");
        }
    }

    /// Answers with the request's target and body, or as the target says.
    struct Told;

    impl Answer for Told {
        fn answer(self: Arc<Self>, mut exchange: Exchange) -> Answering {
            Box::pin(async move {
                if exchange.target == b"/cut" {
                    return Err("cut".to_owned());
                }
                if exchange.target == b"/refuse" {
                    return exchange.refuse(405).await;
                }
                let target = exchange.target.clone();
                exchange.respond(200, b"", &[(b"X-A", b"b")], None);
                exchange.send(&target).await?;
                while let Some(piece) = exchange.next_piece().await? {
                    exchange.send(&piece).await?;
                }
                exchange.finish().await
            })
        }
    }

    /// What comes back for a request.
    fn ask(request: &'static [u8]) -> String {
        let told = async move {
            let (ours, theirs) = Stream::pair().unwrap();
            rt::spawn(async move {
                if let Ok(Some(exchange)) = Exchange::begin(Rc::new(theirs)).await {
                    let _ = Arc::new(Told).answer(exchange).await;
                }
            });
            ours.write_all(request, None).await.unwrap();
            let mut got = Vec::new();
            while wire::more(&ours, &mut got).await == Ok(true) {}
            String::from_utf8(got).unwrap()
        };
        rt::run(told).unwrap()
    }

    #[test]
    fn one_request_one_answer() {
        assert_eq!(
            ask(b"POST /a b HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nxyz"),
            "HTTP/1.1 200 OK\r\nX-A: b\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n4\r\n/a b\r\n3\r\nxyz\r\n0\r\n\r\n"
        );
        assert_eq!(
            ask(b"HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nX-A: b\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(ask(b"GET /cut HTTP/1.1\r\nHost: h\r\n\r\n"), "");
        assert_eq!(ask(b"junk\r\n\r\n"), "");
    }

    /// Never answers.
    struct Silent;

    impl Answer for Silent {
        fn answer(self: Arc<Self>, exchange: Exchange) -> Answering {
            Box::pin(async move {
                let _held = (self, exchange);
                std::future::pending().await
            })
        }
    }

    #[test]
    fn who_is_given_up_ends() {
        let silent = Arc::new(Silent);
        rt::run(async {
            let (ours, theirs) = Stream::pair().unwrap();
            let (stream, held) = (Rc::new(theirs), silent.clone());
            ours.write_all(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nxy", None).await.unwrap();
            let exchange = Exchange::begin(stream.clone()).await.unwrap().unwrap();
            let waits = async {
                tokio::select! {
                    _ = held.answer(exchange) => panic!("it answered"),
                    () = gone(&stream) => {}
                }
            };
            // The last of its bytes wait unread while it goes.
            ours.write_all(b"z", None).await.unwrap();
            drop(ours);
            assert!(rt::timeout(Duration::from_secs(20), waits).await.is_ok(), "it waits for ever");
        })
        .unwrap();
        assert_eq!(Arc::strong_count(&silent), 1);
    }

    #[test]
    fn an_answer_before_the_requests_end() {
        assert_eq!(
            ask(b"POST /refuse HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nxyz"),
            "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_for_a_request_line(head: Vec<u8>, line in "[A-Z /\\x7f]{0,12}") {
            for head in [head, format!("{line}\r\nHost: h\r\n\r\n").into_bytes()] {
                if let Some((plain, target)) = without_target(&head) {
                    assert_eq!(plain.len() + target.len(), head.len() + 1);
                }
            }
        }
    }
}

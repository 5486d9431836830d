// SPDX-License-Identifier: BSD-2-Clause
//! One answer as it comes in: head, body, what the head says of the cache. No socket here.

use accesslog::{Handling, handling_from_cache_status, handling_from_text};
use http1::{BodyStep, Framing, FramingDecoder, HeadProgress, Http1Limits};
use message::{Head, HeadLimits, HttpVersion};

use crate::faults::ReplayFault;
use crate::h2::HeadBuffers;

const HEAD_BYTES: usize = 128 << 10;
const HEAD_LINES: u16 = 500;

/// Ways in which a cache tells that it had the answer.
pub const SIGNS: [&str; 4] = ["Cache-Status", "X-Cache", "X-Varnish", "Age"];

pub type Verdicts = [Option<SignVerdict>; SIGNS.len()];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignVerdict {
    Hit,
    Miss,
}

impl SignVerdict {
    fn hit_if(is_hit: bool) -> SignVerdict {
        if is_hit { SignVerdict::Hit } else { SignVerdict::Miss }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectionWord {
    Close,
    KeepAlive,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReplayAnswer {
    pub status: u16,
    pub verdicts: Verdicts,
    /// The connection may be used again.
    pub keeps: bool,
    /// Bytes of its body, without chunks' sizes.
    pub body_bytes: u64,
}

#[derive(Debug)]
pub struct Codec {
    limits: Http1Limits,
    head: Head,
    pub heads: HeadBuffers,
}

impl Default for Codec {
    fn default() -> Codec {
        let limits =
            Http1Limits { head_bytes: HEAD_BYTES, line_bytes: HEAD_BYTES, lenient: true, ..Http1Limits::default() };
        let lines = HeadLimits { fields: HEAD_LINES, bytes: 2 * HEAD_BYTES as u32 };
        Codec { limits, head: Head::with_limits(lines), heads: HeadBuffers::default() }
    }
}

#[derive(Clone, Debug)]
enum Body {
    Length(u64),
    Coded(FramingDecoder),
    Eof,
}

#[derive(Clone, Debug)]
enum Phase {
    Head,
    Body(Body),
}

#[derive(Clone, Debug)]
pub struct IncomingAnswer {
    phase: Phase,
    answer: ReplayAnswer,
    to_head: bool,
    kept: Vec<u8>,
    has_begun: bool,
}

impl IncomingAnswer {
    pub fn new() -> IncomingAnswer {
        IncomingAnswer {
            phase: Phase::Head,
            answer: ReplayAnswer::default(),
            to_head: false,
            kept: Vec::new(),
            has_begun: false,
        }
    }

    pub fn expect(&mut self, to_head: bool) {
        self.kept.clear();
        (self.phase, self.answer, self.to_head, self.has_begun) =
            (Phase::Head, ReplayAnswer::default(), to_head, false);
    }

    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Bytes of the body that are still to come, if they needn't be looked at.
    pub fn plain_rest(&self) -> Option<u64> {
        match self.phase {
            Phase::Body(Body::Length(left)) if self.kept.is_empty() => Some(left),
            _ => None,
        }
    }

    /// Notes that `n` of those bytes were read and dropped.
    pub fn discarded(&mut self, n: u64) -> Option<ReplayAnswer> {
        let Phase::Body(Body::Length(left)) = &mut self.phase else { return None };
        let n = n.min(*left);
        *left -= n;
        self.answer.body_bytes += n;
        (*left == 0).then_some(self.answer)
    }

    /// Takes what came; the answer when it is whole.
    ///
    /// # Errors
    /// It is none.
    pub fn take(&mut self, bytes: &[u8], codec: &mut Codec) -> Result<Option<ReplayAnswer>, ReplayFault> {
        self.has_begun |= !bytes.is_empty();
        let mut kept = std::mem::take(&mut self.kept);
        let (used, done) = if kept.is_empty() {
            let (used, done) = self.run(bytes, codec)?;
            kept.extend_from_slice(&bytes[used..]);
            (0, done)
        } else {
            kept.extend_from_slice(bytes);
            self.run(&kept, codec)?
        };
        kept.drain(..used);
        self.kept = kept;
        let Some(mut answer) = done else { return Ok(None) };
        // What nobody asked for makes the connection useless.
        answer.keeps &= self.kept.is_empty();
        Ok(Some(answer))
    }

    /// The connection has ended.
    ///
    /// # Errors
    /// The answer isn't whole.
    pub fn end(&mut self) -> Result<ReplayAnswer, ReplayFault> {
        match &self.phase {
            Phase::Body(Body::Eof) => Ok(self.answer),
            Phase::Body(_) => Err(ReplayFault::Truncated),
            Phase::Head if self.has_begun => Err(ReplayFault::Truncated),
            Phase::Head => Err(ReplayFault::Closed),
        }
    }

    /// Goes as far as the input allows: bytes used, and the answer if that was its end.
    fn run(&mut self, input: &[u8], codec: &mut Codec) -> Result<(usize, Option<ReplayAnswer>), ReplayFault> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            match &mut self.phase {
                Phase::Head => match http1::parse_response(rest, &codec.limits, &mut codec.head) {
                    Ok(HeadProgress::Complete(parsed)) => {
                        at += parsed.consumed;
                        self.begin_body(&codec.head)?;
                    }
                    Ok(_) => return Ok((at, None)),
                    Err(_) => return Err(ReplayFault::BadHead),
                },
                Phase::Body(Body::Length(left)) => {
                    let n = (*left).min(rest.len() as u64);
                    *left -= n;
                    self.answer.body_bytes += n;
                    return Ok((at + n as usize, (*left == 0).then_some(self.answer)));
                }
                Phase::Body(Body::Eof) => {
                    self.answer.body_bytes += rest.len() as u64;
                    return Ok((input.len(), None));
                }
                Phase::Body(Body::Coded(decoder)) => match decoder.decode(rest) {
                    Ok(BodyStep::Data(range)) => {
                        self.answer.body_bytes += range.len() as u64;
                        at += range.end;
                    }
                    Ok(BodyStep::More { consumed }) => return Ok((at + consumed, None)),
                    Ok(BodyStep::End { consumed }) => return Ok((at + consumed, Some(self.answer))),
                    Err(_) => return Err(ReplayFault::BadBody),
                },
            }
        }
    }

    fn begin_body(&mut self, head: &Head) -> Result<(), ReplayFault> {
        let status = head.status();
        if (100..200).contains(&status) && status != 101 {
            return Ok(());
        }
        let framing = http1::response_framing(head, self.to_head).map_err(|_| ReplayFault::BadHead)?;
        let (verdicts, connection) = signs(head);
        let keeps = match connection {
            Some(word) => word == ConnectionWord::KeepAlive,
            None => head.version() >= HttpVersion::HTTP11,
        };
        let keeps = keeps && framing != Framing::Eof && status != 101;
        self.answer = ReplayAnswer { status, verdicts, keeps, body_bytes: 0 };
        self.phase = Phase::Body(match framing {
            Framing::None => Body::Length(0),
            Framing::Length(n) => Body::Length(n),
            Framing::Chunked => Body::Coded(FramingDecoder::response(framing)),
            Framing::Eof => Body::Eof,
        });
        Ok(())
    }
}

/// Verdicts about the cache in the headers, and what Connection says.
pub fn signs(head: &Head) -> (Verdicts, Option<ConnectionWord>) {
    let (mut verdicts, mut connection) = (Verdicts::default(), None);
    for field in head.iter() {
        let value = field.value();
        match field.name().len() {
            3 if field.is("Age") => {
                verdicts[3] = Some(SignVerdict::hit_if(value.iter().any(|b| matches!(b, b'1'..=b'9'))));
            }
            7 if field.is("X-Cache") => verdicts[1] = verdict(handling_from_text(value)).or(verdicts[1]),
            9 if field.is("X-Varnish") => {
                verdicts[2] = Some(SignVerdict::hit_if(value.contains(&b' ')));
            }
            10 if field.is("Connection") => {
                if message::list::has(value, b"close") {
                    connection = Some(ConnectionWord::Close);
                } else if message::list::has(value, b"keep-alive") {
                    connection = Some(ConnectionWord::KeepAlive);
                }
            }
            12 if field.is("Cache-Status") => verdicts[0] = verdict(handling_from_cache_status(value)).or(verdicts[0]),
            _ => {}
        }
    }
    (verdicts, connection)
}

/// `None` for a synthetic response.
fn verdict(handling: Option<Handling>) -> Option<SignVerdict> {
    match handling? {
        Handling::Hit => Some(SignVerdict::Hit),
        Handling::Miss | Handling::Pass | Handling::Pipe => Some(SignVerdict::Miss),
        Handling::Synth => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(result: Result<Option<ReplayAnswer>, ReplayFault>) -> String {
        match result {
            Ok(None) => "more".into(),
            Ok(Some(a)) => format!("{} {} bytes{}", a.status, a.body_bytes, if a.keeps { ", keeps" } else { "" }),
            Err(fault) => format!("{fault:?}"),
        }
    }

    /// All at once and then byte by byte: both must say the same.
    fn check(text: &str, to_head: bool, want: &str) {
        let mut codec = Codec::default();
        let mut whole = IncomingAnswer::new();
        whole.expect(to_head);
        let mut got = whole.take(text.as_bytes(), &mut codec);
        if got == Ok(None) {
            got = whole.end().map(Some);
        }
        assert_eq!(shown(got), want, "{text:?}");
        let mut single = IncomingAnswer::new();
        single.expect(to_head);
        let mut got = Ok(None);
        for byte in text.as_bytes() {
            got = single.take(&[*byte], &mut codec);
            if got != Ok(None) {
                break;
            }
        }
        if got == Ok(None) {
            got = single.end().map(Some);
        }
        assert_eq!(shown(got), want, "{text:?} by bytes");
    }

    #[test]
    fn answers() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", false, "200 3 bytes, keeps");
        check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", true, "200 0 bytes, keeps");
        check("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n", false, "204 0 bytes, keeps");
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            false,
            "200 3 bytes, keeps",
        );
        check("HTTP/1.1 200 OK\r\n\r\nabc", false, "200 3 bytes");
        check("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", false, "200 1 bytes");
        check("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na", false, "200 1 bytes, keeps");
        check("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na", false, "200 1 bytes");
        check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", false, "Truncated");
        check("HTTP/1.1 200 OK\r\nConte", false, "Truncated");
        check("", false, "Closed");
        check("nonsense\r\n\r\n", false, "BadHead");
        check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", false, "BadBody");
    }

    #[test]
    fn what_nobody_asked_for_closes() {
        let mut codec = Codec::default();
        let mut incoming = IncomingAnswer::new();
        let got = incoming.take(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc", &mut codec);
        assert_eq!(shown(got), "200 1 bytes");
    }

    #[test]
    fn signs_of_a_hit() {
        const HIT: Option<SignVerdict> = Some(SignVerdict::Hit);
        const MISS: Option<SignVerdict> = Some(SignVerdict::Miss);
        let mut codec = Codec::default();
        let mut of = |fields: &str| {
            let mut incoming = IncomingAnswer::new();
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{fields}\r\n\r\n");
            incoming.take(text.as_bytes(), &mut codec).unwrap().unwrap().verdicts
        };
        assert_eq!(of("A: b"), [None; 4]);
        assert_eq!(of("Age: 0"), [None, None, None, MISS]);
        assert_eq!(of("Age: 10\r\nX-Varnish: 3 5"), [None, None, HIT, HIT]);
        assert_eq!(of("X-Varnish: 3"), [None, None, MISS, None]);
        assert_eq!(of("X-Cache: MISS, HIT from a"), [None, HIT, None, None]);
        assert_eq!(of("X-Cache: Hit, miss"), [None, MISS, None, None]);
        assert_eq!(of("Cache-Status: a; hit, b; fwd=miss"), [MISS, None, None, None]);
        assert_eq!(of("Cache-Status: a; fwd=miss, b; hit; ttl=5"), [HIT, None, None, None]);
        assert_eq!(of("Cache-Status: a; hit; detail=\"b, c; fwd=miss\""), [HIT, None, None, None]);
        assert_eq!(of("Cache-Status: a; hit\r\nCache-Status: b; fwd=stale"), [MISS, None, None, None]);
    }

    proptest! {
        #[test]
        fn no_bytes_can_hurt(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0usize..60, split in 0usize..90) {
            let mut codec = Codec::default();
            let _ = IncomingAnswer::new().take(&bytes, &mut codec);
            let mut good = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nAge: 5\r\n\r\n3\r\nabc\r\n0\r\n\r\n".to_vec();
            let at = at.min(good.len() - 1);
            if let Some(byte) = bytes.first() { good[at] = *byte; }
            let mut incoming = IncomingAnswer::new();
            let (a, b) = good.split_at(split.min(good.len()));
            if incoming.take(a, &mut codec) == Ok(None) {
                let _ = incoming.take(b, &mut codec);
            }
        }
    }
}

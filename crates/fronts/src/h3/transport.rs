// SPDX-License-Identifier: BSD-2-Clause
//! A stream of QUIC as the engine's [`Transport`]: one request's body in, its response out.

use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use engine::httplog::RESP;
use engine::transport::{BodyLen, BodyState, ReqBodyError, SendError, Transport, TransportAcct, Tunnel};
use http2::fields::SectionFacts;
use http3::qpack::QpackScratch;
use http3::stream::{FrameReader, StreamStep};
use http3::{Http3Abuse, Http3Error, Http3ErrorCode, Http3Limits};
use message::{Head, HeadLimits, hop};
use net::quic::{ReadError, RecvStream, SendStream, VarInt, WriteError};
use shm::vsl::TxnLog;
use storage::Buf;
use tables::close::SessClose;

use super::link::{Held, Link};
use super::response::{Response, ResponseState};
use crate::waits::{RecvWait, SendWait};

const READ_BYTES: usize = 16 * 1024;
/// Read at once while a head comes in.
const HEAD_READ_BYTES: usize = 2 * 1024;

const CUT: &str = "Request body cut short";
const INCOMPLETE: Http3Error = Http3Error::stream(Http3ErrorCode::RequestIncomplete, "Stream ends before its head");
const WRONG_LENGTH: Http3Error = Http3Error::stream(Http3ErrorCode::Message, "The body isn't as long as announced");

/// An urgency (RFC 9218 4.1) as QUIC's streams have it: more is sooner, and 0 is for who says nothing.
fn level(urgency: u8) -> i32 {
    const DEFAULT: i32 = 3;
    DEFAULT - i32::from(urgency)
}

fn count_down(left: &mut Option<u64>, bytes: usize) -> Result<(), Http3Error> {
    if let Some(left) = left {
        *left = left.checked_sub(bytes as u64).ok_or(WRONG_LENGTH)?;
    }
    Ok(())
}

/// The body has ended, whose announced length lacks so many bytes.
fn is_complete(left: Option<u64>) -> Result<(), Http3Error> {
    if left.is_some_and(|left| left > 0) { Err(WRONG_LENGTH) } else { Ok(()) }
}

#[derive(Clone, Copy, Debug)]
enum Body {
    None,
    /// Some of it hasn't been read; so many bytes of the announced length are missing.
    Unread {
        len: Option<u64>,
        left: Option<u64>,
    },
    Done,
    Failed(ReqBodyError),
}

enum Read {
    More(usize),
    End,
}

pub(super) struct H3 {
    pub(super) link: Rc<Link>,
    send: SendStream,
    recv: RecvStream,
    /// Bytes that were read; those before `used` are done with.
    pub(super) input: Vec<u8>,
    pub(super) used: usize,
    reader: FrameReader,
    pub(super) scratch: QpackScratch,
    is_ended: bool,
    body: Body,
    /// True for an extended CONNECT: what the client sends is no body.
    is_tunnel: bool,
    response: Response,
    stops: Option<Http3ErrorCode>,
    is_finished: bool,
    was_reset: bool,
    is_broken: bool,
    held: Held,
    trailers: Option<Head>,
    pub(super) acct: TransportAcct,
    /// Number of changes of priorities already applied.
    priorities_seen: u32,
    recv_wait: RecvWait,
    send_wait: SendWait,
    /// Ends when the client wants no more of the response, and says whether it has stopped it.
    stopped: Option<Pin<Box<dyn Future<Output = bool>>>>,
}

impl H3 {
    pub(super) fn new(link: Rc<Link>, send: SendStream, recv: RecvStream) -> Self {
        let section_bytes = link.sess.engine.params.load().http_req_size as usize;
        H3 {
            held: Held::new(link.clone()),
            link,
            send,
            recv,
            input: Vec::new(),
            used: 0,
            reader: FrameReader::request(section_bytes),
            scratch: QpackScratch::default(),
            is_ended: false,
            body: Body::None,
            is_tunnel: false,
            response: Response::new(),
            stops: None,
            is_finished: false,
            was_reset: false,
            is_broken: false,
            trailers: None,
            acct: TransportAcct::default(),
            priorities_seen: 0,
            recv_wait: RecvWait::default(),
            send_wait: SendWait::new(),
            stopped: None,
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.send.id().into()
    }

    pub(super) fn is_early(&self) -> bool {
        self.recv.is_0rtt()
    }

    pub(super) fn head_is_sent(&self) -> bool {
        self.response.state != ResponseState::Nothing
    }

    pub(super) fn came_to_nothing(&self) -> bool {
        self.was_reset || self.is_broken
    }

    pub(super) fn body_is_broken(&self) -> bool {
        matches!(self.body, Body::Failed(_))
    }

    /// True if the response was sent whole while the client still sends a body that nobody reads.
    pub(super) fn lingers(&self) -> bool {
        let is_whole = self.response.state == ResponseState::Whole && self.is_finished;
        is_whole && !self.is_ended && self.stops == Some(Http3ErrorCode::NoError)
    }

    /// The stream of a response that was sent whole: it may not be with the client yet. And that of a request that lingers.
    pub(super) fn into_ends(self) -> (Option<SendStream>, Option<RecvStream>) {
        let (is_whole, lingers) = (self.response.state == ResponseState::Whole && self.is_finished, self.lingers());
        (is_whole.then_some(self.send), lingers.then_some(self.recv))
    }

    /// Nothing is served on this stream.
    pub(super) fn refuse(&mut self, code: Http3ErrorCode) {
        self.stops = Some(code);
        self.reset(code);
        self.end_input();
    }

    /// The client broke the protocol: the stream ends, or all of the connection.
    pub(super) fn fail(&mut self, error: &Http3Error) {
        self.is_broken = true;
        self.stops = Some(error.code);
        self.reset(error.code);
        self.link.fail(error);
    }

    fn reset(&mut self, code: Http3ErrorCode) {
        self.response.abort();
        self.is_finished = true;
        // One that the client has stopped is reset already.
        let _ = self.send.reset(VarInt::from_u32(code.number()));
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, bytes: usize) -> Poll<Result<Read, ReadError>> {
        let at = self.input.len();
        self.input.resize(at + bytes, 0);
        let read = self.recv.poll_read(cx, &mut self.input[at..]);
        self.input.truncate(at + if let Poll::Ready(Ok(read)) = read { read } else { 0 });
        if self.input.is_empty() {
            // Nothing is held for a stream that is silent.
            self.input = Vec::new();
        }
        Poll::Ready(match ready!(read) {
            Ok(0) => {
                self.is_ended = true;
                Ok(Read::End)
            }
            Ok(read) => Ok(Read::More(read)),
            Err(error) => {
                self.is_ended = true;
                self.was_reset |= matches!(error, ReadError::Reset(_));
                Err(error)
            }
        })
    }

    /// Reads a little more than is wanted yet, as a reset comes to readers. QUIC's own wait for a reset is none for a stream with something
    /// unread: once that was read to its end, the waker would stay until the connection ends.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Result<(), ReadError> {
        while !self.is_ended && self.input.len() - self.used < HEAD_READ_BYTES {
            self.compact();
            match self.poll_read(cx, HEAD_READ_BYTES) {
                Poll::Ready(read) => read.map(drop)?,
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    /// The field section of the request, once it lies in the input; nothing if the client has taken it back.
    pub(super) fn poll_section(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<std::ops::Range<usize>>, Http3Error>> {
        loop {
            let step = self.reader.step(&self.input[self.used..]);
            if let Err(error) = self.link.count(Http3Abuse::Ignored, self.reader.take_useless()) {
                return Poll::Ready(Err(error));
            }
            match step {
                Ok(StreamStep::Fields(range)) => {
                    self.held.release();
                    return Poll::Ready(Ok(Some(self.used + range.start..self.used + range.end)));
                }
                // The reader lets none come before a head.
                Ok(StreamStep::Data(_)) => return Poll::Ready(Err(INCOMPLETE)),
                Ok(StreamStep::More(done)) => self.used += done,
                Err(error) => return Poll::Ready(Err(error)),
            }
            self.compact();
            match self.poll_read(cx, HEAD_READ_BYTES) {
                Poll::Ready(Ok(Read::More(_))) => {}
                Poll::Ready(Ok(Read::End)) => {
                    let error = self.reader.end(self.input.len()).err();
                    return Poll::Ready(Err(error.unwrap_or(INCOMPLETE)));
                }
                Poll::Ready(Err(_)) => return Poll::Ready(Ok(None)),
                Poll::Pending => {
                    return self.wait_holding().map_or_else(|error| Poll::Ready(Err(error)), |()| Poll::Pending);
                }
            }
        }
    }

    /// More has to come before what is held means anything.
    fn wait_holding(&mut self) -> Result<(), Http3Error> {
        self.input.shrink_to_fit();
        self.held.set(self.input.len())
    }

    fn compact(&mut self) {
        self.held.release();
        self.input.drain(..self.used);
        self.used = 0;
    }

    /// The head is read: what follows is the body.
    ///
    /// # Errors
    /// What is at hand of it breaks the protocol.
    pub(super) fn begin_request(&mut self, section: &SectionFacts) -> Result<(), Http3Error> {
        if let Some(priority) = section.priority {
            let _ = self.send.set_priority(level(priority.urgency));
        }
        self.heed_priorities();
        self.is_tunnel = section.extended;
        self.body = Body::Unread { len: section.content_length, left: section.content_length };
        // Most requests end with their head or a short body, and their end is at hand.
        if !self.is_ended {
            self.compact();
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let _ = self.poll_read(&mut cx, HEAD_READ_BYTES);
        }
        self.check_ahead(section.content_length)?;
        if self.used == self.input.len() && self.is_ended && section.content_length.is_none_or(|len| len == 0) {
            self.body = Body::None;
        }
        Ok(())
    }

    /// Judges what is at hand behind the head: no origin hears of a request that is known to be broken.
    fn check_ahead(&mut self, mut left: Option<u64>) -> Result<(), Http3Error> {
        let (mut reader, mut at) = (self.reader.clone(), self.used);
        loop {
            match reader.step(&self.input[at..])? {
                StreamStep::Data(range) => {
                    count_down(&mut left, range.len())?;
                    at += range.end;
                }
                StreamStep::Fields(range) => {
                    self.read_trailers(at + range.start..at + range.end)?;
                    at += range.end;
                }
                StreamStep::More(done) => {
                    at += done;
                    break;
                }
            }
        }
        if self.is_ended {
            reader.end(self.input.len() - at)?;
            is_complete(left)?;
        }
        Ok(())
    }

    fn read_trailers(&mut self, section: std::ops::Range<usize>) -> Result<Head, Http3Error> {
        let params = self.link.sess.engine.params.load();
        let limits =
            Http3Limits { section_bytes: params.http_req_size as usize, line_bytes: params.http_req_hdr_len as usize };
        let mut trailers = Head::with_limits(HeadLimits::new(params.http_max_hdr, params.http_req_size as u32));
        http3::head::read_trailers(&self.input[section], &limits, &mut self.scratch, &mut trailers)
            .map_err(|bad| bad.error())?;
        Ok(trailers)
    }

    /// Does what the client has said on its control stream of this request's priority (RFC 9218 7), which beats the field.
    fn heed_priorities(&mut self) {
        let changes = self.link.priorities.changes();
        if std::mem::replace(&mut self.priorities_seen, changes) != changes
            && let Some(urgency) = self.link.priorities.of(self.id())
        {
            let _ = self.send.set_priority(level(urgency));
        }
    }

    /// The body won't be read: the client may stop sending it, once it has its response.
    pub(super) fn stop_input_later(&mut self) {
        self.stops.get_or_insert(Http3ErrorCode::NoError);
    }

    /// Nobody reads the stream any more. What is at hand is read first: an end needn't be asked for that is there.
    pub(super) fn end_input(&mut self) {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        self.input.clear();
        self.used = 0;
        while !self.is_ended {
            if self.poll_read(&mut cx, READ_BYTES).is_pending() {
                let code = self.stops.unwrap_or(Http3ErrorCode::NoError);
                let _ = self.recv.stop(VarInt::from_u32(code.number()));
                return;
            }
            self.input.clear();
        }
    }

    pub(super) fn finish_response(&mut self) {
        match self.response.state {
            ResponseState::Whole => {}
            ResponseState::Nothing | ResponseState::Body { .. } | ResponseState::Broken => {
                if !self.is_finished {
                    self.reset(Http3ErrorCode::Internal);
                }
            }
        }
    }

    fn fail_body(&mut self, error: ReqBodyError) -> Poll<Result<Option<Buf>, ReqBodyError>> {
        self.body = Body::Failed(error);
        self.recv_wait.over();
        Poll::Ready(Err(error))
    }

    fn break_body(&mut self, error: &Http3Error) -> Poll<Result<Option<Buf>, ReqBodyError>> {
        self.fail(error);
        self.fail_body(ReqBodyError::Malformed(error.text))
    }

    /// The body's next piece in the input; `None` if more has to be read.
    fn next_piece(&mut self) -> Result<Option<Buf>, Http3Error> {
        let Body::Unread { left, .. } = &mut self.body else { return Ok(None) };
        let step = self.reader.step(&self.input[self.used..])?;
        self.link.count(Http3Abuse::Ignored, self.reader.take_useless())?;
        match step {
            StreamStep::Data(range) => {
                count_down(left, range.len())?;
                let piece = self.input[self.used..][range.clone()].to_vec();
                self.used += range.end;
                self.acct.req_body += piece.len() as u64;
                Ok(Some(Buf::unaccounted(piece)))
            }
            StreamStep::Fields(range) => {
                let trailers = self.read_trailers(self.used + range.start..self.used + range.end)?;
                self.used += range.end;
                self.trailers = Some(trailers);
                Ok(None)
            }
            StreamStep::More(done) => {
                self.used += done;
                Ok(None)
            }
        }
    }

    fn end_body(&mut self) -> Result<(), Http3Error> {
        self.reader.end(self.input.len() - self.used)?;
        match self.body {
            Body::Unread { left, .. } => is_complete(left),
            Body::None | Body::Done | Body::Failed(_) => Ok(()),
        }
    }
}

impl Transport for H3 {
    /// A stream has no connection of its own, but TE goes no further, either.
    fn connection(&mut self, head: &mut Head) -> Result<Option<SessClose>, SessClose> {
        let _ = hop::connection(head);
        Ok(None)
    }

    fn send_head(
        &mut self,
        resp: &mut Head,
        len: BodyLen,
        close: Option<SessClose>,
        log: &mut TxnLog,
    ) -> Option<SessClose> {
        self.send_wait.begin(self.link.sess.engine.mono_of(log.last()), &self.link.sess);
        self.acct.resp_head += self.response.head(resp) as u64;
        self.response.state = match len {
            BodyLen::None => ResponseState::Whole,
            BodyLen::Known(len) => ResponseState::Body { left: Some(len) },
            BodyLen::Unknown => ResponseState::Body { left: None },
        };
        close
    }

    fn send_data(&mut self, piece: Buf) {
        self.acct.resp_body += self.response.data(piece) as u64;
    }

    fn send_end(&mut self, trailers: Option<&Head>) {
        self.response.end();
        if let Some(trailers) = trailers {
            self.acct.resp_head += self.response.trailers(trailers) as u64;
        }
    }

    fn abort(&mut self) {
        if !self.is_finished {
            // What breaks a tunnel is none of our faults (RFC 9220 3).
            self.reset(if self.is_tunnel { Http3ErrorCode::RequestCancelled } else { Http3ErrorCode::Internal });
        }
    }

    fn send_minimal(&mut self, status: u16, proxy_status: Option<&str>, log: &mut TxnLog) {
        let head = RESP.log_minimal("HTTP/3.0", status, proxy_status, log);
        self.acct.resp_head += self.response.head(&head) as u64;
        self.response.state = ResponseState::Whole;
    }

    fn send_continue(&mut self, log: &mut TxnLog) {
        RESP.log_bare_status("HTTP/3.0", 100, log);
        self.acct.resp_head += self.response.status(100) as u64;
    }

    fn has_input(&self) -> bool {
        self.used < self.input.len()
    }

    fn send_interim(&mut self, interim: &Head) {
        self.acct.resp_head += self.response.head(interim) as u64;
    }

    fn queued(&self) -> usize {
        self.response.queued()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>, keep: usize) -> Poll<Result<(), SendError>> {
        self.heed_priorities();
        while self.response.queued() > keep {
            if self.send_wait.forbids_write(&self.link.sess) {
                self.reset(Http3ErrorCode::RequestCancelled);
                return Poll::Ready(Err(SendError::TimedOut));
            }
            let written = pin!(self.send.write_chunks(self.response.next())).poll(cx);
            match written {
                Poll::Ready(Ok(written)) => {
                    self.response.wrote(written.chunks, written.bytes);
                    self.send_wait.wrote(written.bytes, keep == 0 && self.response.queued() == 0);
                }
                Poll::Ready(Err(error)) => {
                    self.was_reset |= matches!(error, WriteError::Stopped(_));
                    self.response.abort();
                    self.is_finished = true;
                    return Poll::Ready(Err(SendError::Closed));
                }
                Poll::Pending => {
                    ready!(self.send_wait.poll(&self.link.sess, cx));
                    self.reset(Http3ErrorCode::RequestCancelled);
                    return Poll::Ready(Err(SendError::TimedOut));
                }
            }
        }
        if self.response.state == ResponseState::Whole && self.response.queued() == 0 && !self.is_finished {
            self.is_finished = true;
            // One that the client has stopped has no end.
            let _ = self.send.finish();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_peer_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.poll_ahead(cx).is_err() {
            self.was_reset |= self.link.conn.close_reason().is_none();
            return Poll::Ready(());
        }
        let stopped = self.stopped.get_or_insert_with(|| {
            let stopped = self.send.stopped();
            Box::pin(async move {
                // It ends with an end, too, of what has arrived whole: not before that was sent.
                matches!(stopped.await, Ok(Some(_)))
            })
        });
        let was_stopped = ready!(stopped.as_mut().poll(cx));
        // A future that has ended can't be polled again.
        self.stopped = None;
        self.was_reset |= was_stopped;
        Poll::Ready(())
    }

    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_peer_closed(cx)
    }

    fn reads_all(&self) -> bool {
        false
    }

    fn body_state(&self) -> BodyState {
        match self.body {
            _ if self.is_tunnel => BodyState::None,
            Body::None => BodyState::None,
            Body::Unread { .. } => BodyState::Unread,
            Body::Done => BodyState::Done,
            Body::Failed(_) => BodyState::Failed,
        }
    }

    fn body_len(&self) -> Option<u64> {
        match self.body {
            Body::Unread { len, .. } => len,
            Body::None | Body::Done | Body::Failed(_) => None,
        }
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Buf>, ReqBodyError>> {
        loop {
            match self.body {
                Body::None | Body::Done => return Poll::Ready(Ok(None)),
                Body::Failed(error) => return Poll::Ready(Err(error)),
                Body::Unread { .. } => {}
            }
            let before = self.used;
            match self.next_piece() {
                Ok(Some(piece)) => return Poll::Ready(Ok(Some(piece))),
                Ok(None) if self.used > before && self.used < self.input.len() => continue,
                Ok(None) => {}
                Err(error) => return self.break_body(&error),
            }
            self.compact();
            if self.is_ended {
                return match self.end_body() {
                    Ok(()) => {
                        self.body = Body::Done;
                        Poll::Ready(Ok(None))
                    }
                    Err(error) => self.break_body(&error),
                };
            }
            match self.poll_read(cx, READ_BYTES) {
                Poll::Ready(Ok(Read::More(_))) if self.is_tunnel => {}
                Poll::Ready(Ok(Read::More(bytes))) => self.recv_wait.moved(bytes),
                Poll::Ready(Ok(Read::End)) => {}
                Poll::Ready(Err(_)) => {
                    return self.fail_body(ReqBodyError::Closed(CUT));
                }
                Poll::Pending if self.is_tunnel => return Poll::Pending,
                Poll::Pending => {
                    if let Err(error) = self.wait_holding() {
                        return self.break_body(&error);
                    }
                    ready!(self.recv_wait.poll(&self.link.sess, cx));
                    return self.fail_body(ReqBodyError::TimedOut(CUT));
                }
            }
        }
    }

    fn take_trailers(&mut self) -> Option<Head> {
        self.trailers.take()
    }

    fn asks_tunnel(&self) -> bool {
        self.is_tunnel
    }

    /// A stream can't be given away.
    fn take_tunnel(&mut self) -> Option<Tunnel> {
        None
    }

    fn acct(&self) -> TransportAcct {
        self.acct
    }
}

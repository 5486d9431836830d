// SPDX-License-Identifier: BSD-2-Clause
//! A connection: the codec, its streams, and its output. Exchanges and the connection's task change it by calls that never wait.

use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use base::{Clock, Mono};
use http2::{ErrorCode, Http2AbuseLimits, Http2Event, Http2FrameType, Http2Scratch, Http2Settings, StreamOpenError};
use message::{Head, HeadLimits};
use tables::origin_proto::OriginProto;
use tables::proxy_error::ProxyError;

use super::local::OpeningTicket;
use super::output::Output;
use super::stream::{End, RequestEnd, Stream};
use crate::BackendParams;
use crate::exchange::BodyLen;
use crate::pool::{EndpointPool, PeerLabel};

/// Maximum size of gathered output, in bytes. The rest waits until the origin reads.
const GATHERED: usize = 64 * 1024;
/// A stream's window is reopened after this fraction of it was used: 1 / WINDOW_PARTS.
const WINDOW_PARTS: usize = 4;
/// Text for responses that are missing when an origin ends the connection.
pub(super) const CLOSED: &str = "HTTP/2 connection closed";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    No,
    /// The connection takes no new streams and ends with the last one.
    Retired,
    /// The last stream has ended, and the queue has the last output.
    Last,
    /// Nothing can be read or written any more.
    Over,
}

pub(crate) struct Http2Origin {
    codec: http2::Connection,
    pub(super) net: net::Stream,
    pub(super) label: Arc<PeerLabel>,
    pool: Weak<EndpointPool>,
    clock: Clock,
    /// Streams in the order of their numbers.
    streams: Vec<Stream>,
    pub(super) output: Output,
    head: Head,
    head_limits: HeadLimits,
    /// An unused head whose memory can be reused.
    spare: Option<Head>,
    task: Option<Waker>,
    ending: Ending,
    /// True if the origin has sent its limit on streams. Until then, it gets one.
    is_settled: bool,
    /// Other callers wait for the limit.
    ticket: Option<OpeningTicket>,
    /// Exchanges that wait for the limit and have a stream already.
    unsettled: Vec<Waker>,
    most_streams: usize,
    /// Window of each stream, in bytes.
    window: usize,
    /// True if it was idle, and the system hasn't been asked yet whether the origin sent anything or closed it.
    pub(super) is_doubtful: bool,
    /// Number of complete frames. If it doesn't change while an exchange fails, the connection may be dead. Bytes of a slow frame don't
    /// count: nothing else can arrive before its end.
    heard: u64,
    frame_left: usize,
}

impl Http2Origin {
    /// A new connection. Its preface is queued.
    pub(super) fn new(
        net: net::Stream,
        label: Arc<PeerLabel>,
        pool: &Arc<EndpointPool>,
        clock: Clock,
        params: &BackendParams,
    ) -> Self {
        let config = config(params);
        let window = config.settings.initial_window_size as usize;
        let codec = http2::Connection::client(Arc::new(config), clock.mono());
        Http2Origin {
            codec,
            net,
            label,
            pool: Arc::downgrade(pool),
            clock,
            streams: Vec::new(),
            output: Output::default(),
            head: Head::new(),
            head_limits: HeadLimits::default(),
            spare: None,
            task: None,
            ending: Ending::No,
            is_settled: false,
            ticket: None,
            unsettled: Vec::new(),
            window,
            most_streams: params.http2_streams.max(1) as usize,
            is_doubtful: false,
            heard: 0,
            frame_left: 0,
        }
    }

    /// Keeps the ticket of the callers that wait until the connection accepts them.
    pub(super) fn keep_ticket(&mut self, ticket: OpeningTicket) {
        self.ticket = Some(ticket);
    }

    fn now(&self) -> Mono {
        self.clock.mono()
    }

    /// Number of requests that the connection accepts now.
    pub(crate) fn slots(&self) -> usize {
        if self.ending != Ending::No {
            return 0;
        }
        let most = if self.is_settled { self.most_streams } else { 1 };
        self.codec.slots().min(most.saturating_sub(self.streams.len()))
    }

    pub(super) fn is_over(&self) -> bool {
        self.ending == Ending::Over
    }

    pub(super) fn is_unused(&self) -> bool {
        self.streams.is_empty()
    }

    pub(super) fn heard(&self) -> u64 {
        self.heard
    }

    pub(crate) fn retire(&mut self) {
        if self.ending == Ending::No {
            self.ending = Ending::Retired;
            self.wake_task();
        }
    }

    pub(super) fn await_work(&mut self, waker: &Waker) {
        match &mut self.task {
            Some(task) => task.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    pub(super) fn wake_task(&mut self) {
        self.task.take().into_iter().for_each(Waker::wake);
    }

    pub(super) fn stream(&mut self, id: u32) -> Option<&mut Stream> {
        let at = self.streams.binary_search_by_key(&id, |stream| stream.id).ok()?;
        self.streams.get_mut(at)
    }

    pub(super) fn open(&mut self, bereq: &Head, body: BodyLen) -> Result<u32, StreamOpenError> {
        let ends = matches!(body, BodyLen::None | BodyLen::Known(0));
        let (now, before) = (self.now(), self.codec.output().len());
        let id = self.codec.open(bereq, self.scheme(), ends, now)?;
        self.begin(Stream::new(id, if ends { RequestEnd::Told } else { RequestEnd::Open }), before, bereq.limits());
        Ok(id)
    }

    pub(super) fn open_tunnel(&mut self, bereq: &Head, protocol: &[u8]) -> Result<u32, StreamOpenError> {
        let (now, before) = (self.now(), self.codec.output().len());
        let id = self.codec.open_tunnel(bereq, self.scheme(), protocol, now)?;
        let mut stream = Stream::new(id, RequestEnd::Open);
        stream.is_tunnel = true;
        self.begin(stream, before, bereq.limits());
        Ok(id)
    }

    fn scheme(&self) -> &'static str {
        if self.net.is_sealed() { "https" } else { "http" }
    }

    fn begin(&mut self, mut stream: Stream, before: usize, limits: HeadLimits) {
        stream.acct.bereq_head = (self.codec.output().len() - before) as u64;
        self.is_doubtful |= self.streams.is_empty() && stream.id > 1;
        self.streams.push(stream);
        self.head_limits = limits;
        self.wake_task();
    }

    pub(super) fn takes_tunnels(&self) -> bool {
        self.codec.takes_connect() && !self.is_over()
    }

    /// Ready once the origin has sent its settings, or has gone.
    pub(super) fn poll_settled(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.is_settled || self.is_last() {
            return Poll::Ready(());
        }
        if !self.unsettled.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.unsettled.push(cx.waker().clone());
        }
        Poll::Pending
    }

    fn settles(&mut self) {
        self.ticket = None;
        self.unsettled.drain(..).for_each(Waker::wake);
    }

    /// Schedules a stream that has more of its request to send.
    pub(super) fn offer(&mut self, id: u32) {
        self.codec.offer(id);
        self.wake_task();
    }

    /// Notes that bytes of a response's body were used. The origin gets a window update after each part of the window.
    pub(super) fn consumed(&mut self, id: u32, bytes: usize) {
        let part = self.window / WINDOW_PARTS;
        let Some(stream) = self.stream(id) else { return };
        stream.used += bytes;
        if stream.used < part {
            return;
        }
        let used = std::mem::take(&mut stream.used);
        self.codec.consumed(id, used);
        self.wake_task();
    }

    /// Removes an exchange. An incomplete one is also reset at the origin.
    pub(super) fn leave(&mut self, id: u32) {
        let Ok(at) = self.streams.binary_search_by_key(&id, |stream| stream.id) else { return };
        if self.streams.remove(at).end == End::Open {
            self.codec.reset(id, ErrorCode::Cancel);
        }
        self.codec.release(id);
        self.wake_task();
    }

    pub(super) fn reset(&mut self, id: u32, reason: &'static str) {
        self.codec.reset(id, ErrorCode::Cancel);
        if let Some(stream) = self.stream(id) {
            stream.ends(End::Broken(ProxyError::HttpRequestError, reason));
        }
        self.wake_task();
    }

    /// Takes back a head, whose memory serves the next one.
    pub(super) fn take_back(&mut self, mut head: Head) {
        head.clear();
        self.spare = Some(head);
    }

    pub(super) fn receive(&mut self, input: &[u8], scratch: &mut Http2Scratch) {
        let (now, mut at) = (self.now(), 0);
        self.head.set_limits(self.head_limits);
        loop {
            let step = self.codec.receive(&input[at..], now, &mut self.head, scratch);
            self.hear(step.frame, step.payload.len());
            if let Some(frame) =
                step.frame.filter(|frame| matches!(frame.kind, Http2FrameType::Headers | Http2FrameType::Continuation))
                && let Some(stream) = self.stream(frame.stream)
            {
                stream.acct.beresp_head += frame.to_bytes().len() as u64 + u64::from(frame.len);
            }
            let is_event = !matches!(step.event, Http2Event::None);
            self.take_event(step.event, &input[at..]);
            at += step.consumed;
            if at >= input.len() && !is_event {
                break;
            }
        }
    }

    /// Tracks frames: the one that has begun, if any, and the bytes of the present one.
    fn hear(&mut self, begun: Option<http2::FrameHeader>, payload: usize) {
        let was_within = self.frame_left > 0 || begun.is_some();
        if let Some(frame) = begun {
            self.frame_left = frame.len as usize;
        }
        self.frame_left = self.frame_left.saturating_sub(payload);
        self.heard += u64::from(was_within && self.frame_left == 0);
    }

    fn take_event(&mut self, event: Http2Event, input: &[u8]) {
        match event {
            Http2Event::Head { stream, end, section } => {
                let mut head = self.next_head();
                // HTTP/2 has no reason phrase, but the log and HTTP/1 clients do. It is left out if there is no room.
                let _ = head.set_reason(message::status::reason(head.status()).as_bytes());
                if let Some(stream) = self.stream(stream) {
                    stream.take_head(head, end, section.content_length);
                }
            }
            Http2Event::Trailers { stream } => {
                let trailers = self.next_head();
                if let Some(stream) = self.stream(stream) {
                    stream.trailers = Some(Box::new(trailers));
                    stream.ends(End::Whole);
                }
            }
            Http2Event::Data { stream: id, body, end } => match self.stream(id) {
                Some(stream) => stream.take_data(&input[body], end),
                None => self.codec.consumed(id, body.len()),
            },
            Http2Event::Reset { stream, code } => self.was_reset(stream, code),
            Http2Event::Broken { stream, fault } => {
                if let Some(stream) = self.stream(stream) {
                    stream.ends(End::Broken(ProxyError::HttpProtocolError, fault.text));
                }
            }
            Http2Event::Settings => {
                self.is_settled = true;
                self.settles();
            }
            Http2Event::GoAway { code, .. } => self.goes_away(code),
            Http2Event::Fault(fault) => {
                self.fail_all(ProxyError::HttpProtocolError, fault.text);
                self.ending = Ending::Last;
            }
            Http2Event::None
            | Http2Event::Window { .. }
            | Http2Event::SettingsAck
            | Http2Event::PingAck(_)
            | Http2Event::HeadTooLarge { .. }
            | Http2Event::BadHead { .. }
            | Http2Event::Refused { .. } => {}
        }
    }

    /// Returns the head that has just been decoded, and provides another for the next one.
    fn next_head(&mut self) -> Head {
        let mut next = self.spare.take().unwrap_or_default();
        next.set_limits(self.head_limits);
        std::mem::replace(&mut self.head, next)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "each other code only breaks the response")]
    fn was_reset(&mut self, id: u32, code: ErrorCode) {
        let turns_to_http1 = code == ErrorCode::Http11Required && self.turn_to_http1();
        let Some(stream) = self.stream(id) else { return };
        stream.ends(match code {
            ErrorCode::RefusedStream => End::Refused,
            ErrorCode::Http11Required if turns_to_http1 => End::Refused,
            // The origin doesn't want the rest of the request (RFC 9113 8.1).
            ErrorCode::NoError if stream.end == End::Whole => End::Whole,
            code => End::Broken(ProxyError::HttpResponseIncomplete, reset_text(code)),
        });
    }

    fn goes_away(&mut self, code: ErrorCode) {
        if self.ending == Ending::No {
            self.ending = Ending::Retired;
        }
        if code == ErrorCode::Http11Required {
            self.turn_to_http1();
        }
        for stream in self.streams.iter_mut().filter(|stream| !self.codec.was_processed(stream.id)) {
            stream.ends(End::Refused);
        }
    }

    /// Ends all streams: nothing can be sent or received any more.
    pub(super) fn is_cut(&mut self) {
        self.fail_all(ProxyError::ConnectionTerminated, CLOSED);
        self.ending = Ending::Over;
    }

    /// Ends every stream. Requests that the origin can't have seen may be sent again.
    fn fail_all(&mut self, error: ProxyError, reason: &'static str) {
        self.settles();
        for stream in &mut self.streams {
            stream.ends(if stream.is_written { End::Broken(error, reason) } else { End::Refused });
        }
    }

    /// Gathers the next output: frames of the codec first, then bodies in turn.
    pub(super) fn gather(&mut self) {
        self.codec.flush();
        self.gather_control();
        while self.output.len() < GATHERED
            && let Some(grant) = self.codec.next_send()
        {
            self.gather_body(grant.stream, grant.max);
        }
        for at in 0..self.streams.len() {
            self.gather_end(at);
        }
        self.gather_control();
    }

    fn gather_control(&mut self) {
        let bytes = self.codec.output().len();
        self.output.add(self.codec.output());
        self.codec.wrote(bytes);
        // From here on, the origin may have seen any part of the output.
        for stream in self.streams.iter_mut().rev().take_while(|stream| !stream.is_written) {
            stream.is_written = true;
        }
    }

    fn gather_body(&mut self, id: u32, max: usize) {
        let Ok(at) = self.streams.binary_search_by_key(&id, |stream| stream.id) else {
            return self.codec.withdraw(id);
        };
        let stream = &mut self.streams[at];
        let Some(piece) = stream.piece.take() else { return self.codec.withdraw(id) };
        let len = max.min(piece.len() - stream.sent);
        let Some(header) = self.codec.send_data(id, len, false) else {
            stream.wake();
            return self.codec.withdraw(id);
        };
        self.output.add(&header);
        self.output.add_body(piece.slice(stream.sent..stream.sent + len));
        stream.acct.bereq_body += (header.len() + len) as u64;
        stream.sent += len;
        if stream.sent < piece.len() {
            stream.piece = Some(piece);
            return;
        }
        stream.sent = 0;
        self.codec.withdraw(id);
        stream.wake();
    }

    fn gather_end(&mut self, at: usize) {
        let stream = &mut self.streams[at];
        if stream.piece.is_some() || !matches!(stream.request_end, RequestEnd::Due(_)) {
            return;
        }
        let RequestEnd::Due(trailers) = std::mem::replace(&mut stream.request_end, RequestEnd::Told) else { return };
        let bytes = match trailers {
            Some(trailers) => self.codec.send_trailers(stream.id, &trailers),
            None => {
                let header = self.codec.send_data(stream.id, 0, true);
                header.map_or(0, |header| {
                    self.output.add(&header);
                    header.len()
                })
            }
        };
        stream.acct.bereq_body += bytes as u64;
        stream.wake();
    }

    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty() || !self.codec.output().is_empty()
    }

    /// True if the connection has no streams and takes no new ones, or has no users that could open one.
    pub(super) fn is_finished(&self) -> bool {
        self.is_unused() && (self.ending != Ending::No || self.pool.strong_count() == 0)
    }

    pub(super) fn say_goodbye(&mut self) {
        if self.ending != Ending::Over {
            self.codec.go_away(ErrorCode::NoError);
            self.ending = Ending::Last;
        }
    }

    pub(super) fn is_last(&self) -> bool {
        matches!(self.ending, Ending::Last | Ending::Over)
    }

    pub(super) fn rest(&mut self) {
        self.codec.rest();
        if self.head.arena_bytes() > 0 || self.spare.is_some() {
            (self.head, self.spare) = (Head::new(), None);
        }
    }

    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        let heads = self.head.arena_bytes() + self.spare.as_ref().map_or(0, Head::arena_bytes);
        size_of::<Self>() + self.codec.memory() + heads + self.output.capacity()
    }

    /// Handles an origin that requires HTTP/1.1 (RFC 9113 7). Returns whether that is possible.
    fn turn_to_http1(&mut self) -> bool {
        self.retire();
        let pool = self.pool.upgrade().filter(|pool| pool.endpoint.proto == OriginProto::Auto);
        pool.inspect(|pool| pool.refuses_http2()).is_some()
    }
}

/// Maximum idle time of a connection, by the present parameters.
pub(super) fn idle_limit(params: &BackendParams) -> Duration {
    params.idle_timeout
}

fn config(params: &BackendParams) -> http2::Http2Config {
    let window = params.http2_window.clamp(http2::DEFAULT_WINDOW, http2::MAX_WINDOW);
    let settings = Http2Settings {
        enable_push: false,
        initial_window_size: window,
        max_header_list_size: params.resp_head_bytes,
        ..Http2Settings::default()
    };
    // An origin that resets streams ends requests that we made, which costs it more than us. The small messages that it streams were
    // requested. Heads are as long as `http_resp_size` allows: here, the limits bound only what their frames add to that.
    let usual = Http2AbuseLimits::default();
    let limits = Http2AbuseLimits {
        rapid_resets: 0,
        small_data: 0,
        line_bytes: params.resp_line_bytes,
        section_bytes: usual.section_bytes.max(params.resp_head_bytes),
        continuations: usual.continuations.max(params.resp_head_bytes / settings.max_frame_size * 2),
        ..usual
    };
    // The window is large enough that one stream's unread body doesn't block others.
    let unread = window.saturating_mul(params.http2_streams.max(1)).min(http2::MAX_WINDOW);
    let windows = http2::conn::ReceiveWindow { low_water: unread, increment: unread, max_unread: unread };
    http2::Http2Config { settings, limits, windows, ..http2::Http2Config::default() }
}

/// The description for records like varnishd's.
fn reset_text(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::NoError => "stream reset by the backend: NO_ERROR",
        ErrorCode::ProtocolError => "stream reset by the backend: PROTOCOL_ERROR",
        ErrorCode::InternalError => "stream reset by the backend: INTERNAL_ERROR",
        ErrorCode::FlowControlError => "stream reset by the backend: FLOW_CONTROL_ERROR",
        ErrorCode::StreamClosed => "stream reset by the backend: STREAM_CLOSED",
        ErrorCode::FrameSizeError => "stream reset by the backend: FRAME_SIZE_ERROR",
        ErrorCode::Cancel => "stream reset by the backend: CANCEL",
        ErrorCode::EnhanceYourCalm => "stream reset by the backend: ENHANCE_YOUR_CALM",
        ErrorCode::Http11Required => "stream reset by the backend: HTTP_1_1_REQUIRED",
        ErrorCode::SettingsTimeout
        | ErrorCode::RefusedStream
        | ErrorCode::CompressionError
        | ErrorCode::ConnectError
        | ErrorCode::InadequateSecurity
        | ErrorCode::Other(_) => "stream reset by the backend",
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! What a peer sends, frame by frame (RFC 9113 4, 5.1, 6). Which frame is good where is decided by its header; field sections are
//! [`super::section`]'s.
//!
//! Where varnishd and the RFC give the same fault different codes, its cases have a say: a stream's frames of a wrong size end the
//! connection, a second head that isn't the last does, and PING answers that nobody asked for do so softly.

use base::clock::Mono;
use message::Head;

use super::streams::Closed;
use super::{Connection, Current, Ending, Http2Event, Http2Scratch, ReceiveStep, Role};
use crate::error::{ErrorCode, Http2Abuse, Http2Fault, StreamFault};
use crate::frame::{ACK, END_STREAM, FrameHeader, HEADER_BYTES, Http2FrameType, PADDED, PREFACE};
use crate::priority::Priority;
use crate::settings::MAX_WINDOW;

const PING_BYTES: u32 = 8;
/// Bytes of the longest SETTINGS frame: more than anybody sends.
const MAX_SETTINGS_BYTES: u32 = 4096;
/// Bytes of a GOAWAY frame that mean something to us.
const GO_AWAY_BYTES: u32 = 8;
/// Bytes of a PRIORITY_UPDATE frame that are looked at.
const MAX_PRIORITY_BYTES: u32 = 256;
/// Bytes of data in a frame that costs more than it brings.
const SMALL_DATA: u32 = 32;
/// PRIORITY frames that a new stream may bring along.
const PRIORITIES_PER_STREAM: u32 = 4;
/// WINDOW_UPDATE frames that come with one or follow its end.
const UPDATES_PER_STREAM: u32 = 2;
/// Frames that were on their way when it was over.
const IGNORED_PER_STREAM: u32 = 4;

impl Connection {
    /// Takes from the peer's bytes what makes one event. Call it again with the rest while something was consumed; nothing needs to be kept.
    /// A head is laid into `head`, within its limits.
    pub fn receive(&mut self, input: &[u8], now: Mono, head: &mut Head, scratch: &mut Http2Scratch) -> ReceiveStep {
        self.set_now(now);
        if let Some(fault) = self.pending_fault.take() {
            return ReceiveStep { consumed: 0, frame: None, payload: 0..0, event: self.fail(fault) };
        }
        if self.ending == Ending::Over {
            return ReceiveStep { consumed: input.len(), frame: None, payload: 0..0, event: Http2Event::None };
        }
        if self.preface_left > 0 {
            return self.preface(input);
        }
        let (at, frame) = match self.take_header(input) {
            (at, Some(header)) => (at, Some(header)),
            (at, None) if self.current.is_none() => return step(at, None, at..at, Http2Event::None),
            (at, None) => (at, None),
        };
        if let Some(header) = frame {
            match self.begin_frame(header) {
                Ok(Http2Event::None) => {}
                Ok(event) => {
                    self.current = self.current.filter(|current| current.left > 0);
                    return step(at, frame, at..at, event);
                }
                Err(fault) => return step(input.len(), frame, at..input.len(), self.fail(fault)),
            }
        }
        let Some(current) = self.current else { return step(at, frame, at..at, Http2Event::None) };
        let end = input.len().min(at + current.left as usize);
        let event = if current.header.kind == Http2FrameType::Data {
            self.take_data(current, at, &input[at..end])
        } else {
            self.take_payload(current, &input[at..end], head, scratch)
        };
        match event {
            Ok(event) => step(end, frame, at..end, event),
            Err(fault) => step(input.len(), frame, at..end, self.fail(fault)),
        }
    }

    fn preface(&mut self, input: &[u8]) -> ReceiveStep {
        let from = PREFACE.len() - usize::from(self.preface_left);
        let len = input.len().min(PREFACE.len() - from);
        if input[..len] != PREFACE[from..from + len] {
            let event = self.fail(Http2Fault::protocol("Bad preface"));
            return step(input.len(), None, 0..0, event);
        }
        self.preface_left -= len as u8;
        step(len, None, 0..0, Http2Event::None)
    }

    /// Reads on in the header of the next frame, if one is expected; the header, once it is whole.
    fn take_header(&mut self, input: &[u8]) -> (usize, Option<FrameHeader>) {
        if self.current.is_some() {
            return (0, None);
        }
        let from = usize::from(self.header_bytes);
        let len = input.len().min(HEADER_BYTES - from);
        self.header[from..from + len].copy_from_slice(&input[..len]);
        if from + len < HEADER_BYTES {
            self.header_bytes += len as u8;
            return (len, None);
        }
        self.header_bytes = 0;
        (len, Some(FrameHeader::parse(&self.header)))
    }

    fn begin_frame(&mut self, header: FrameHeader) -> Result<Http2Event, Http2Fault> {
        self.current = Some(Current { header, left: header.len, padding: None, takes: false });
        if header.len > self.config.settings.max_frame_size {
            return Err(Http2Fault::size("A frame larger than allowed"));
        }
        if self.ending == Ending::Soft {
            return Ok(Http2Event::None);
        }
        if let Some(section) = &self.section
            && (header.kind != Http2FrameType::Continuation || header.stream != section.stream)
        {
            return Err(Http2Fault::protocol("A field section is interrupted"));
        }
        self.judge_start(header)?;
        self.judge_stream(header)?;
        match header.kind {
            Http2FrameType::Data => self.begin_data(header),
            Http2FrameType::Headers => self.begin_section(header).map(|()| Http2Event::None),
            Http2FrameType::Continuation => self.continue_section(header).map(|()| Http2Event::None),
            Http2FrameType::PushPromise => Err(Http2Fault::protocol("PUSH_PROMISE")),
            Http2FrameType::Priority if header.len != 5 => Err(Http2Fault::size("PRIORITY of a wrong length")),
            Http2FrameType::RstStream if header.len != 4 => Err(Http2Fault::size("RST_STREAM of a wrong length")),
            Http2FrameType::WindowUpdate if header.len != 4 => Err(Http2Fault::size("WINDOW_UPDATE of a wrong length")),
            Http2FrameType::Ping if header.len != PING_BYTES => Err(Http2Fault::size("PING of a wrong length")),
            Http2FrameType::GoAway if header.len < GO_AWAY_BYTES => Err(Http2Fault::size("GOAWAY of a wrong length")),
            Http2FrameType::PriorityUpdate if header.len < 4 => {
                Err(Http2Fault::size("PRIORITY_UPDATE of a wrong length"))
            }
            Http2FrameType::Settings if header.has(ACK) && header.len > 0 => {
                Err(Http2Fault::size("SETTINGS with ACK and settings"))
            }
            Http2FrameType::Settings if header.len > MAX_SETTINGS_BYTES => Err(Http2Abuse::Settings.into()),
            Http2FrameType::Settings => {
                self.count(|m| &mut m.settings, |l| l.settings, Http2Abuse::Settings).map(|()| Http2Event::None)
            }
            Http2FrameType::Priority | Http2FrameType::PriorityUpdate => {
                self.count(|m| &mut m.priorities, |l| l.priorities, Http2Abuse::Priority).map(|()| Http2Event::None)
            }
            Http2FrameType::WindowUpdate => {
                let counted = self.count(|m| &mut m.window_updates, |l| l.window_updates, Http2Abuse::WindowUpdate);
                counted.map(|()| Http2Event::None)
            }
            Http2FrameType::Unknown(_) | Http2FrameType::GoAway => self.ignored().map(|()| Http2Event::None),
            Http2FrameType::RstStream | Http2FrameType::Ping => Ok(Http2Event::None),
        }
    }

    /// Each side begins with SETTINGS (RFC 9113 3.4).
    fn judge_start(&mut self, header: FrameHeader) -> Result<(), Http2Fault> {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        if !is_first || self.config.lax_start || header.kind == Http2FrameType::Settings && !header.has(ACK) {
            return Ok(());
        }
        Err(Http2Fault::protocol("The first frame is no SETTINGS"))
    }

    /// Checks that the frame may be on this stream at all (RFC 9113 5.1, 5.1.1, 6).
    fn judge_stream(&self, header: FrameHeader) -> Result<(), Http2Fault> {
        let is_idle = header.stream > self.highest;
        match header.kind {
            Http2FrameType::Unknown(_) => return Ok(()),
            Http2FrameType::Settings
            | Http2FrameType::Ping
            | Http2FrameType::GoAway
            | Http2FrameType::PriorityUpdate => {
                return if header.stream == 0 {
                    Ok(())
                } else {
                    Err(Http2Fault::protocol("A frame that belongs to no stream on one"))
                };
            }
            Http2FrameType::WindowUpdate if header.stream == 0 => return Ok(()),
            Http2FrameType::Data
            | Http2FrameType::Headers
            | Http2FrameType::Priority
            | Http2FrameType::RstStream
            | Http2FrameType::PushPromise
            | Http2FrameType::WindowUpdate
            | Http2FrameType::Continuation => {}
        }
        if header.stream == 0 {
            return Err(Http2Fault::protocol("A frame that belongs to a stream on none"));
        }
        if header.stream.is_multiple_of(2) {
            return Err(Http2Fault::protocol("A stream that the server would have opened"));
        }
        match (header.kind, self.role) {
            (Http2FrameType::Priority, _) | (Http2FrameType::Headers, Role::Server) => Ok(()),
            _ if is_idle => Err(Http2Fault::protocol("A frame on a stream that is idle")),
            _ => Ok(()),
        }
    }

    fn ignored(&mut self) -> Result<(), Http2Fault> {
        self.count(|m| &mut m.ignored, |l| l.ignored, Http2Abuse::Ignored)
    }

    /// Charges the windows for a DATA frame, whoever gets it.
    fn begin_data(&mut self, header: FrameHeader) -> Result<Http2Event, Http2Fault> {
        let len = i64::from(header.len);
        if len > self.receive_window {
            return Err(Http2Fault::flow("More data than the connection's window has"));
        }
        self.receive_window -= len;
        if header.has(PADDED) && header.len == 0 {
            return Err(Http2Fault::protocol("Padding larger than its frame"));
        }
        let Some(stream) = self.streams.get_mut(header.stream).filter(|stream| stream.closed().is_none()) else {
            self.open_window(header.len)?;
            return self.data_for_nobody(header.stream);
        };
        let fault = if !stream.receives() {
            Some((ErrorCode::StreamClosed, "Data behind the end of a stream"))
        } else if !stream.has_received_head() {
            Some((ErrorCode::ProtocolError, "Data in front of a head"))
        } else if len > stream.receive_window {
            Some((ErrorCode::FlowControlError, "More data than the stream's window has"))
        } else {
            None
        };
        if let Some((code, text)) = fault {
            self.open_window(header.len)?;
            return self.break_stream(header.stream, StreamFault { code, text });
        }
        stream.receive_window -= len;
        if let Some(current) = &mut self.current {
            current.takes = true;
        }
        if header.has(PADDED) {
            return Ok(Http2Event::None);
        }
        self.set_padding(0)
    }

    /// DATA for a stream that is over.
    fn data_for_nobody(&mut self, stream: u32) -> Result<Http2Event, Http2Fault> {
        self.ignored()?;
        let came_too_late = matches!(self.ending, Ending::Final(last) if stream > last);
        match self.streams.past(stream) {
            // It was on its way.
            Some(Closed::ByUs) => Ok(Http2Event::None),
            None if came_too_late => Ok(Http2Event::None),
            _ => {
                let text = "Data on a stream that is closed";
                self.break_stream(stream, StreamFault { code: ErrorCode::StreamClosed, text })
            }
        }
    }

    /// The padding is known, and so how much data the frame has.
    fn set_padding(&mut self, padding: u32) -> Result<Http2Event, Http2Fault> {
        let Some(current) = &mut self.current else { return Ok(Http2Event::None) };
        current.padding = Some(padding);
        let data = current.left.checked_sub(padding).ok_or(Http2Fault::protocol("Padding larger than its frame"))?;
        let (header, takes) = (current.header, current.takes);
        if !takes {
            return Ok(Http2Event::None);
        }
        if !header.has(END_STREAM) {
            match data {
                0 => self.count(|m| &mut m.empty_data, |l| l.empty_data, Http2Abuse::EmptyData)?,
                1..SMALL_DATA => self.count(|m| &mut m.small_data, |l| l.small_data, Http2Abuse::SmallData)?,
                _ => {}
            }
        }
        let framing = header.len - data;
        let is_there = self.streams.get(header.stream).is_some_and(|stream| stream.closed().is_none());
        self.unread += if is_there { u64::from(data) } else { 0 };
        self.open_window(header.len)?;
        // The owner may have let it go since the frame began.
        let Some(stream) = self.streams.get_mut(header.stream).filter(|_| is_there) else {
            if let Some(frame) = &mut self.current {
                frame.takes = false;
            }
            return Ok(Http2Event::None);
        };
        stream.unread += data;
        stream.padding += framing;
        let is_short = match &mut stream.length_left {
            Some(left) if u64::from(data) > *left => true,
            Some(left) => {
                *left -= u64::from(data);
                header.has(END_STREAM) && *left > 0
            }
            None => false,
        };
        if is_short {
            return self.break_data(header.stream, data, "Received data and Content-Length mismatch");
        }
        self.pad_out(header.stream);
        Ok(Http2Event::None)
    }

    /// Resets a stream whose DATA frame, of so many bytes of data, nobody gets any more.
    fn break_data(&mut self, id: u32, data: u32, text: &'static str) -> Result<Http2Event, Http2Fault> {
        if let Some(current) = &mut self.current {
            current.takes = false;
        }
        self.unread -= u64::from(data);
        if let Some(stream) = self.streams.get_mut(id) {
            stream.unread -= data;
        }
        self.break_stream(id, StreamFault { code: ErrorCode::ProtocolError, text })
    }

    /// Takes what has come of a DATA frame; `at`: where in the input it lies.
    fn take_data(&mut self, current: Current, at: usize, piece: &[u8]) -> Result<Http2Event, Http2Fault> {
        let mut piece_at = 0;
        if current.padding.is_none() && current.takes {
            let Some(&padding) = piece.first() else { return Ok(Http2Event::None) };
            self.advance(1);
            let event = self.set_padding(u32::from(padding))?;
            if !matches!(event, Http2Event::None) {
                // The rest comes with the next step: this one has its event.
                self.advance(piece.len() - 1);
                return Ok(event);
            }
            piece_at = 1;
        }
        let Some(Current { header, left, padding, takes }) = self.current else { return Ok(Http2Event::None) };
        let data_left = left.saturating_sub(padding.unwrap_or_default()) as usize;
        let piece = &piece[piece_at..];
        let data = piece.len().min(data_left);
        let is_whole = self.advance(piece.len());
        // The owner may have reset it in the meantime.
        if !takes || self.streams.get(header.stream).is_none_or(|stream| stream.closed().is_some()) {
            return Ok(Http2Event::None);
        }
        let end = is_whole && header.has(END_STREAM);
        if data == 0 && !end {
            return Ok(Http2Event::None);
        }
        if end && let Some(stream) = self.streams.get_mut(header.stream) {
            stream.received_all();
            self.streams.forget(header.stream);
        }
        let body = at + piece_at..at + piece_at + data;
        Ok(Http2Event::Data { stream: header.stream, body, end })
    }

    fn advance(&mut self, len: usize) -> bool {
        let Some(current) = &mut self.current else { return true };
        current.left -= len as u32;
        let is_whole = current.left == 0;
        if is_whole {
            self.current = None;
        }
        is_whole
    }

    /// Takes what has come of any other frame, which means something once it is whole.
    fn take_payload(
        &mut self,
        current: Current,
        piece: &[u8],
        head: &mut Head,
        scratch: &mut Http2Scratch,
    ) -> Result<Http2Event, Http2Fault> {
        let is_whole = self.advance(piece.len());
        let header = current.header;
        if is_whole && self.partial.is_empty() {
            return self.end_frame(header, piece, head, scratch);
        }
        let keeps = match header.kind {
            Http2FrameType::GoAway => GO_AWAY_BYTES,
            Http2FrameType::PriorityUpdate => MAX_PRIORITY_BYTES,
            Http2FrameType::Unknown(_) => 0,
            // The limit of a section's bytes was held against its length.
            Http2FrameType::Data
            | Http2FrameType::Headers
            | Http2FrameType::Priority
            | Http2FrameType::RstStream
            | Http2FrameType::Settings
            | Http2FrameType::PushPromise
            | Http2FrameType::Ping
            | Http2FrameType::WindowUpdate
            | Http2FrameType::Continuation => header.len,
        };
        let room = (keeps as usize).saturating_sub(self.partial.len());
        self.partial.extend_from_slice(&piece[..piece.len().min(room)]);
        if !is_whole {
            return Ok(Http2Event::None);
        }
        let mut payload = std::mem::take(&mut self.partial);
        let event = self.end_frame(header, &payload, head, scratch);
        payload.clear();
        self.partial = payload;
        event
    }

    fn end_frame(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        head: &mut Head,
        scratch: &mut Http2Scratch,
    ) -> Result<Http2Event, Http2Fault> {
        if self.ending == Ending::Soft && header.kind != Http2FrameType::Ping {
            return Ok(Http2Event::None);
        }
        match header.kind {
            Http2FrameType::Headers => self.headers(header, payload, head, scratch),
            Http2FrameType::Continuation => self.fragment(header, payload, head, scratch),
            Http2FrameType::Priority => self.priority(header.stream, payload),
            Http2FrameType::RstStream => self.rst_stream(header.stream, number(payload)),
            Http2FrameType::Settings => self.settings(header, payload),
            Http2FrameType::Ping => self.ping_frame(header, payload),
            Http2FrameType::GoAway => Ok(self.go_away_frame(payload)),
            Http2FrameType::WindowUpdate => self.window_update(header.stream, number(payload) & MAX_WINDOW),
            Http2FrameType::PriorityUpdate => self.priority_update(payload),
            Http2FrameType::Data | Http2FrameType::PushPromise | Http2FrameType::Unknown(_) => Ok(Http2Event::None),
        }
    }

    /// PRIORITY means nothing any more (RFC 9113 5.3.2), but that a stream can't depend on itself.
    fn priority(&mut self, stream: u32, payload: &[u8]) -> Result<Http2Event, Http2Fault> {
        if number(payload) & MAX_WINDOW != stream {
            return Ok(Http2Event::None);
        }
        let text = "A stream that depends on itself";
        if self.streams.get(stream).is_some_and(|stream| stream.closed().is_none()) {
            return self.break_stream(stream, StreamFault { code: ErrorCode::ProtocolError, text });
        }
        Err(Http2Fault::protocol(text))
    }

    fn priority_update(&mut self, payload: &[u8]) -> Result<Http2Event, Http2Fault> {
        let id = number(payload) & MAX_WINDOW;
        if id == 0 || id.is_multiple_of(2) || self.role == Role::Client {
            return Err(Http2Fault::protocol("PRIORITY_UPDATE for no stream"));
        }
        self.has_priorities = true;
        let priority = Priority::parse(payload.get(4..).unwrap_or_default());
        // One that isn't there yet says so again in its head.
        if let Some(stream) = self.streams.get_mut(id) {
            stream.priority = priority;
            self.streams.requeue(id, self.turn);
        }
        Ok(Http2Event::None)
    }

    fn rst_stream(&mut self, id: u32, code: u32) -> Result<Http2Event, Http2Fault> {
        let code = ErrorCode::from_number(code);
        let Some(stream) = self.streams.get(id).filter(|stream| stream.closed().is_none()) else {
            // Answered so fast that it was over before its reset came.
            if self.role == Role::Server && self.streams.past(id).is_some_and(|closed| closed != Closed::ByUs) {
                self.rapid_reset()?;
            }
            self.ignored()?;
            return Ok(Http2Event::None);
        };
        // A client that has its response may take back the rest of its request.
        if self.role == Role::Server && !stream.lingers && f64::from(self.now - stream.began) < self.rapid_resets.within
        {
            self.rapid_reset()?;
        }
        self.streams.close(id, Closed::ByPeer);
        Ok(Http2Event::Reset { stream: id, code })
    }

    fn settings(&mut self, header: FrameHeader, payload: &[u8]) -> Result<Http2Event, Http2Fault> {
        if header.has(ACK) {
            if self.settings_unacked > 0 {
                self.settings_unacked -= 1;
                self.decoder.settings_taken();
            }
            return Ok(Http2Event::SettingsAck);
        }
        let mut settings = self.peer.clone();
        settings.apply(payload, self.config.lax_settings)?;
        self.change_settings(settings)?;
        self.answer(Http2FrameType::Settings, ACK, 0, &[])?;
        Ok(Http2Event::Settings)
    }

    fn ping_frame(&mut self, header: FrameHeader, payload: &[u8]) -> Result<Http2Event, Http2Fault> {
        let Ok(data) = <[u8; 8]>::try_from(payload) else { return Ok(Http2Event::None) };
        self.count(|m| &mut m.pings, |l| l.pings, Http2Abuse::Ping)?;
        if !header.has(ACK) {
            self.answer(Http2FrameType::Ping, ACK, 0, &data)?;
            return Ok(Http2Event::None);
        }
        if self.ending == Ending::Soft {
            return Ok(Http2Event::None);
        }
        if self.pings_sent == 0 {
            let fault = Http2Fault::protocol("An answer to no PING");
            return Ok(self.fail(Http2Fault { soft: true, ..fault }));
        }
        self.pings_sent -= 1;
        if std::mem::take(&mut self.drain_ping) {
            self.end_drain();
        }
        Ok(Http2Event::PingAck(data))
    }

    fn go_away_frame(&mut self, payload: &[u8]) -> Http2Event {
        let last = number(payload) & MAX_WINDOW;
        // It can only become less (RFC 9113 6.8).
        let last = self.peer_last.map_or(last, |before| before.min(last));
        self.peer_last = Some(last);
        Http2Event::GoAway { last, code: ErrorCode::from_number(number(payload.get(4..).unwrap_or_default())) }
    }

    fn window_update(&mut self, id: u32, increment: u32) -> Result<Http2Event, Http2Fault> {
        if id == 0 {
            if increment == 0 {
                return Err(Http2Fault::protocol("WINDOW_UPDATE by nothing"));
            }
            self.send_window += i64::from(increment);
            if self.send_window > i64::from(MAX_WINDOW) {
                return Err(Http2Fault::flow("The connection's window becomes too large"));
            }
            return Ok(Http2Event::Window { stream: 0 });
        }
        // On one that is over it is counted as all of its kind are: each response may be followed by some.
        let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.closed().is_none()) else {
            return Ok(Http2Event::None);
        };
        stream.send_window += i64::from(increment);
        if increment == 0 {
            let text = "WINDOW_UPDATE by nothing";
            return self.break_stream(id, StreamFault { code: ErrorCode::ProtocolError, text });
        }
        if stream.send_window > i64::from(MAX_WINDOW) {
            let text = "The stream's window becomes too large";
            return self.break_stream(id, StreamFault { code: ErrorCode::FlowControlError, text });
        }
        self.streams.settle(id, self.turn);
        Ok(Http2Event::Window { stream: id })
    }

    /// A new stream explains some frames.
    pub(super) fn pay_back_for_stream(&mut self) {
        self.meters.priorities.pay_back(PRIORITIES_PER_STREAM);
        self.meters.window_updates.pay_back(UPDATES_PER_STREAM);
        self.meters.ignored.pay_back(IGNORED_PER_STREAM);
    }
}

fn step(
    consumed: usize,
    frame: Option<FrameHeader>,
    payload: std::ops::Range<usize>,
    event: Http2Event,
) -> ReceiveStep {
    ReceiveStep { consumed, frame, payload, event }
}

/// The first four bytes.
fn number(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

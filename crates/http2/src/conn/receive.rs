// SPDX-License-Identifier: BSD-2-Clause
//! What a peer sends, frame by frame (RFC 9113 4, 5.1, 6). Which frame is good where is decided by its header; field sections are
//! [`super::section`]'s.
//!
//! Where varnishd and the RFC give the same fault different codes, its cases have a say: a stream's frames of a wrong size end the
//! connection, a second head that isn't the last does, and PING answers that nobody asked for do so softly.

use base::clock::Mono;
use message::Head;

use super::frames::Current;
use super::stream::Closed;
use super::{Connection, Ending, Http2Event, Http2Scratch, PingAnswer, ReceiveStep, Role};
use crate::error::{ErrorCode, Http2Abuse, Http2Fault, StreamFault};
use crate::frame::{ACK, END_STREAM, FrameHeader, Http2FrameType, PADDED};
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
impl Connection {
    /// Takes from the peer's bytes what makes one event. Call it again with the rest while something was consumed; nothing needs to be kept.
    /// A head is laid into `head`, within its limits.
    pub fn receive(&mut self, input: &[u8], now: Mono, head: &mut Head, scratch: &mut Http2Scratch) -> ReceiveStep {
        self.conduct.set_now(now);
        if let Some(fault) = self.pending_fault.take() {
            return ReceiveStep { consumed: 0, frame: None, payload: 0..0, event: self.fail(fault) };
        }
        if self.ending == Ending::Over {
            return ReceiveStep { consumed: input.len(), frame: None, payload: 0..0, event: Http2Event::None };
        }
        if self.reader.expects_preface() {
            return self.preface(input);
        }
        let (at, frame) = match self.reader.take_header(input) {
            (at, Some(header)) => (at, Some(header)),
            (at, None) if self.reader.current.is_none() => return step(at, None, at..at, Http2Event::None),
            (at, None) => (at, None),
        };
        if let Some(header) = frame {
            match self.begin_frame(header) {
                Ok(Http2Event::None) => {}
                Ok(event) => {
                    self.reader.advance(0);
                    return step(at, frame, at..at, event);
                }
                Err(fault) => return step(input.len(), frame, at..input.len(), self.fail(fault)),
            }
        }
        let Some(current) = self.reader.current else { return step(at, frame, at..at, Http2Event::None) };
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
        let Some(len) = self.reader.take_preface(input) else {
            let event = self.fail(Http2Fault::protocol("Bad preface"));
            return step(input.len(), None, 0..0, event);
        };
        step(len, None, 0..0, Http2Event::None)
    }

    fn begin_frame(&mut self, header: FrameHeader) -> Result<Http2Event, Http2Fault> {
        self.reader.begin(header);
        if header.len > self.config.settings.max_frame_size {
            return Err(Http2Fault::size("A frame larger than allowed"));
        }
        if self.ending == Ending::Soft {
            return Ok(Http2Event::None);
        }
        if let Some(stream) = self.sections.open_stream()
            && (header.kind != Http2FrameType::Continuation || header.stream != stream)
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
        if !self.reader.is_first()
            || self.config.lax_start
            || header.kind == Http2FrameType::Settings && !header.has(ACK)
        {
            return Ok(());
        }
        Err(Http2Fault::protocol("The first frame is no SETTINGS"))
    }

    /// Checks that the frame may be on this stream at all (RFC 9113 5.1, 5.1.1, 6).
    fn judge_stream(&self, header: FrameHeader) -> Result<(), Http2Fault> {
        let is_idle = header.stream > self.streams.highest;
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
        self.inflow.charge(header.len)?;
        if header.has(PADDED) && header.len == 0 {
            return Err(Http2Fault::protocol("Padding larger than its frame"));
        }
        let Some(stream) = self.streams.live(header.stream) else {
            self.open_window(header.len)?;
            return self.data_for_nobody(header.stream);
        };
        let len = i64::from(header.len);
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
        if let Some(current) = &mut self.reader.current {
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
        let Some(current) = &mut self.reader.current else { return Ok(Http2Event::None) };
        current.padding = Some(padding);
        let framing = padding + u32::from(current.header.has(PADDED));
        let data = current.left.checked_sub(framing).ok_or(Http2Fault::protocol("Padding larger than its frame"))?;
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
        let is_there = self.streams.is_live(header.stream);
        self.inflow.gave(if is_there { data } else { 0 });
        self.open_window(header.len)?;
        // The owner may have let it go since the frame began.
        let Some(stream) = self.streams.get_mut(header.stream).filter(|_| is_there) else {
            self.reader.discard();
            return Ok(Http2Event::None);
        };
        stream.gave(data, header.len - data);
        if !stream.fits_length(data, header.has(END_STREAM)) {
            return self.break_data(header.stream, data, "Received data and Content-Length mismatch");
        }
        // Nobody would consume anything of a window that only padding has shut.
        if stream.receive_window <= 0 && stream.unread == 0 {
            self.inflow.owe(stream);
        }
        Ok(Http2Event::None)
    }

    fn open_window(&mut self, len: u32) -> Result<(), Http2Fault> {
        let credit = self.inflow.top_up(&self.config.windows, len);
        self.answer(|output| credit.into_iter().for_each(|credit| output.write_credit(0, credit)))
    }

    /// Resets a stream whose DATA frame, of so many bytes of data, nobody gets any more.
    fn break_data(&mut self, id: u32, data: u32, text: &'static str) -> Result<Http2Event, Http2Fault> {
        self.reader.discard();
        self.inflow.consumed(data);
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
            // The length of the padding stays counted in `left` until the piece is taken: it may be all that the frame has.
            let event = self.set_padding(u32::from(padding))?;
            if !matches!(event, Http2Event::None) {
                // The rest comes with the next step: this one has its event.
                self.reader.advance(piece.len());
                return Ok(event);
            }
            piece_at = 1;
        }
        let Some(Current { header, left, padding, takes }) = self.reader.current else { return Ok(Http2Event::None) };
        let data_left = (left as usize).saturating_sub(piece_at + padding.unwrap_or_default() as usize);
        let piece = &piece[piece_at..];
        let data = piece.len().min(data_left);
        let is_whole = self.reader.advance(piece_at + piece.len());
        // The owner may have reset it in the meantime.
        if !takes || !self.streams.is_live(header.stream) {
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

    /// Takes what has come of any other frame, which means something once it is whole.
    fn take_payload(
        &mut self,
        current: Current,
        piece: &[u8],
        head: &mut Head,
        scratch: &mut Http2Scratch,
    ) -> Result<Http2Event, Http2Fault> {
        let is_whole = self.reader.advance(piece.len());
        let header = current.header;
        if is_whole && self.reader.is_in_one_piece() {
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
        self.reader.keep(piece, keeps);
        if !is_whole {
            return Ok(Http2Event::None);
        }
        let payload = self.reader.kept();
        let event = self.end_frame(header, &payload, head, scratch);
        self.reader.give_back(payload);
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
        if self.streams.is_live(stream) {
            return self.break_stream(stream, StreamFault { code: ErrorCode::ProtocolError, text });
        }
        Err(Http2Fault::protocol(text))
    }

    fn priority_update(&mut self, payload: &[u8]) -> Result<Http2Event, Http2Fault> {
        let id = number(payload) & MAX_WINDOW;
        if id == 0 || id.is_multiple_of(2) || self.role == Role::Client {
            return Err(Http2Fault::protocol("PRIORITY_UPDATE for no stream"));
        }
        self.streams.prioritize(id, Priority::parse(payload.get(4..).unwrap_or_default()));
        Ok(Http2Event::None)
    }

    fn rst_stream(&mut self, id: u32, code: u32) -> Result<Http2Event, Http2Fault> {
        let code = ErrorCode::from_number(code);
        let Some(stream) = self.streams.live(id) else {
            // Answered so fast that it was over before its reset came.
            if self.role == Role::Server && self.streams.past(id).is_some_and(|closed| closed != Closed::ByUs) {
                self.conduct.rapid_reset()?;
            }
            self.ignored()?;
            return Ok(Http2Event::None);
        };
        // A client that has its response may take back the rest of its request.
        if self.role == Role::Server && !stream.lingers {
            self.conduct.reset_by_peer(stream.began)?;
        }
        self.streams.close(id, Closed::ByPeer);
        Ok(Http2Event::Reset { stream: id, code })
    }

    fn settings(&mut self, header: FrameHeader, payload: &[u8]) -> Result<Http2Event, Http2Fault> {
        if header.has(ACK) {
            if self.unanswered.settings_taken() {
                self.sections.settings_taken();
            }
            return Ok(Http2Event::SettingsAck);
        }
        let mut settings = self.peer.clone();
        settings.apply(payload, self.config.lax_settings)?;
        self.change_settings(settings)?;
        self.answer(|output| output.write(Http2FrameType::Settings, ACK, 0, &[]))?;
        Ok(Http2Event::Settings)
    }

    fn ping_frame(&mut self, header: FrameHeader, payload: &[u8]) -> Result<Http2Event, Http2Fault> {
        let Ok(data) = <[u8; 8]>::try_from(payload) else { return Ok(Http2Event::None) };
        self.count(|m| &mut m.pings, |l| l.pings, Http2Abuse::Ping)?;
        if !header.has(ACK) {
            self.answer(|output| output.write(Http2FrameType::Ping, ACK, 0, &data))?;
            return Ok(Http2Event::None);
        }
        if self.ending == Ending::Soft {
            return Ok(Http2Event::None);
        }
        match self.unanswered.ping_answered() {
            PingAnswer::Unasked => {
                let fault = Http2Fault::protocol("An answer to no PING");
                return Ok(self.fail(Http2Fault { soft: true, ..fault }));
            }
            PingAnswer::Drain => self.end_drain(),
            PingAnswer::Plain => {}
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
            if !self.streams.open_window(increment) {
                return Err(Http2Fault::flow("The connection's window becomes too large"));
            }
            return Ok(Http2Event::Window { stream: 0 });
        }
        // On one that is over it is counted as all of its kind are: each response may be followed by some.
        let Some(stream) = self.streams.live(id) else { return Ok(Http2Event::None) };
        stream.send_window += i64::from(increment);
        if increment == 0 {
            let text = "WINDOW_UPDATE by nothing";
            return self.break_stream(id, StreamFault { code: ErrorCode::ProtocolError, text });
        }
        if stream.send_window > i64::from(MAX_WINDOW) {
            let text = "The stream's window becomes too large";
            return self.break_stream(id, StreamFault { code: ErrorCode::FlowControlError, text });
        }
        self.streams.settle(id);
        Ok(Http2Event::Window { stream: id })
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

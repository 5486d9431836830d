// SPDX-License-Identifier: BSD-2-Clause
//! What goes out: answers and heads into the output, DATA as headers that the owner puts in front of its own bytes.

use base::clock::Mono;
use message::Head;

use super::streams::Closed;
use super::{Connection, Ending, Grant, Role, StreamOpenError};
use crate::error::{ErrorCode, Http2Abuse, Http2Fault};
use crate::fields::{connect_fields, request_fields, response_fields, trailer_fields};
use crate::frame::{self, DEFAULT_FRAME_SIZE, END_HEADERS, END_STREAM, FrameHeader, HEADER_BYTES, Http2FrameType};
use crate::hpack;
use crate::settings::MAX_WINDOW;

/// A DATA frame below this, cut by a window, is a small one.
const SMALL_DATA: usize = 256;
/// WINDOW_UPDATEs that one DATA frame of ours explains.
const UPDATES_PER_DATA: u32 = 8;
/// PINGs that one DATA frame of ours explains: some peers measure by them.
const PINGS_PER_DATA: u32 = 1;
/// Small DATA frames that one DATA frame of ours answers: messages go to and fro.
const SMALL_PER_DATA: u32 = 1;
/// A stream is given credit inside a frame once a part of its window so large is consumed.
const WINDOW_PARTS: u32 = 4;
/// Most output that waits, heads included: an owner stops reading from a peer that reads nothing long before.
const MOST_OUTPUT: usize = 1 << 20;
/// The output's memory is kept up to this.
const KEPT_OUTPUT: usize = 16 * 1024;

impl Connection {
    /// Control frames and heads that are to be written, in order.
    pub fn output(&self) -> &[u8] {
        &self.out[self.out_at..]
    }

    /// Removes `len` written bytes from the output.
    pub fn wrote(&mut self, len: usize) {
        self.out_at += len;
        if self.out_at >= self.out.len() {
            (self.out_at, self.answers) = (0, 0);
            self.out.clear();
            self.out.shrink_to(KEPT_OUTPUT);
        }
    }

    /// Puts the credit that is due into the output. Before each write.
    pub fn flush(&mut self) {
        let part = self.config.settings.initial_window_size / WINDOW_PARTS;
        let unfinished = self.current.filter(|current| current.takes).map(|current| current.header.stream);
        for id in std::mem::take(&mut self.due) {
            let Some(stream) = self.streams.get_mut(id) else { continue };
            stream.is_due = false;
            let credit = stream.consumed + stream.padding;
            let is_shut = stream.receive_window <= 0;
            if !stream.receives() || stream.lingers || credit == 0 {
                continue;
            }
            // Once a frame, as varnishd does it, and not for each piece of one.
            if unfinished == Some(id) && credit < part && !is_shut {
                continue;
            }
            (stream.consumed, stream.padding) = (0, 0);
            stream.receive_window += i64::from(credit);
            frame::write(&mut self.out, Http2FrameType::WindowUpdate, 0, id, &credit.to_be_bytes());
        }
    }

    /// Bytes of a stream's body are used up, or thrown away. What isn't consumed holds up this stream alone.
    pub fn consumed(&mut self, id: u32, len: usize) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        let len = (len as u64).min(u64::from(stream.unread)) as u32;
        stream.unread -= len;
        stream.consumed += len;
        if !std::mem::replace(&mut stream.is_due, true) {
            self.due.push(id);
        }
        self.unread -= u64::from(len);
        self.top_up(0);
    }

    /// A stream's window that only padding has shut is opened: nobody would consume anything.
    pub(super) fn pad_out(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        if stream.receive_window <= 0 && stream.unread == 0 && !std::mem::replace(&mut stream.is_due, true) {
            self.due.push(id);
        }
    }

    /// Gives the connection credit for a DATA frame. Unlike a stream's, its window doesn't wait for anything to be consumed, so that a slow stream
    /// doesn't hold up others, until too much is.
    pub(super) fn open_window(&mut self, len: u32) -> Result<(), Http2Fault> {
        let before = self.out.len();
        self.top_up(len);
        self.answers += self.out.len() - before;
        self.check_answers()
    }

    fn top_up(&mut self, len: u32) {
        let windows = &self.config.windows;
        let target = i64::from(windows.low_water.min(windows.max_unread).max(crate::DEFAULT_WINDOW));
        let room = target - self.receive_window - self.unread as i64;
        // While it is small it grows with each frame, as varnishd's does; later it waits until it is worth a frame. Between frames it is
        // opened only if it was shut, and something is consumed.
        let is_wide = room < target / 4 && self.receive_window >= target / 2;
        let frame = i64::from(DEFAULT_FRAME_SIZE);
        let waits = len == 0 && (self.receive_window >= frame || room < frame);
        if room <= 0 || is_wide || waits {
            return;
        }
        let credit = room.min(i64::from(windows.increment)).min((room / 8).max(i64::from(len.max(DEFAULT_FRAME_SIZE))));
        self.receive_window += credit;
        frame::write(&mut self.out, Http2FrameType::WindowUpdate, 0, 0, &(credit as u32).to_be_bytes());
    }

    /// Writes an answer to something that the peer may send as often as it likes.
    pub(super) fn answer(
        &mut self,
        kind: Http2FrameType,
        flags: u8,
        stream: u32,
        payload: &[u8],
    ) -> Result<(), Http2Fault> {
        frame::write(&mut self.out, kind, flags, stream, payload);
        self.answers += HEADER_BYTES + payload.len();
        self.check_answers()
    }

    fn check_answers(&self) -> Result<(), Http2Fault> {
        let most = self.config.limits.unread_bytes as usize;
        if most > 0 && self.answers > most { Err(Http2Abuse::Unread.into()) } else { Ok(()) }
    }

    pub(super) fn write_reset(&mut self, stream: u32, code: ErrorCode) -> Result<(), Http2Fault> {
        self.answer(Http2FrameType::RstStream, 0, stream, &code.number().to_be_bytes())
    }

    pub(super) fn write_go_away(&mut self, last: u32, code: ErrorCode) {
        let payload = [last.to_be_bytes(), code.number().to_be_bytes()].concat();
        frame::write(&mut self.out, Http2FrameType::GoAway, 0, 0, &payload);
    }

    /// Opens a stream with a request. Its Host becomes `:authority`; `end`: there is no body.
    ///
    /// # Errors
    /// See [`StreamOpenError`].
    pub fn open(&mut self, request: &Head, scheme: &str, end: bool, now: Mono) -> Result<u32, StreamOpenError> {
        let id = self.begin_stream(now)?;
        if let Some(stream) = self.streams.get_mut(id) {
            stream.is_head_request = request.method() == b"HEAD";
            if end {
                stream.sent_all();
            }
        }
        self.write_section(id, end, |out| {
            request_fields(request, scheme, &mut |name, value| hpack::field(out, name, value))
        });
        Ok(id)
    }

    /// True if the server takes extended CONNECT (RFC 8441), as far as it has said.
    pub fn takes_connect(&self) -> bool {
        self.peer.enable_connect_protocol
    }

    /// Opens a stream with an extended CONNECT for `protocol`, where the server takes that; a success makes it a tunnel.
    ///
    /// # Errors
    /// See [`StreamOpenError`].
    pub fn open_tunnel(
        &mut self,
        request: &Head,
        scheme: &str,
        protocol: &[u8],
        now: Mono,
    ) -> Result<u32, StreamOpenError> {
        let id = self.begin_stream(now)?;
        if let Some(stream) = self.streams.get_mut(id) {
            stream.is_tunnel = true;
        }
        self.write_section(id, false, |out| {
            connect_fields(request, scheme, protocol, &mut |name, value| hpack::field(out, name, value))
        });
        Ok(id)
    }

    /// A stream whose head is written next.
    fn begin_stream(&mut self, now: Mono) -> Result<u32, StreamOpenError> {
        assert_eq!(self.role, Role::Client, "a server opens no streams");
        self.set_now(now);
        if self.ending != Ending::No || self.peer_last.is_some() {
            return Err(StreamOpenError::GoingAway);
        }
        if self.slots() == 0 {
            return Err(StreamOpenError::NoSlot);
        }
        let id = if self.highest == 0 { 1 } else { self.highest + 2 };
        if id > MAX_WINDOW {
            return Err(StreamOpenError::Spent);
        }
        self.highest = id;
        let mut stream = self.new_stream(id);
        stream.priority.incremental = true;
        stream.sent_head();
        self.streams.push(stream);
        Ok(id)
    }

    /// Number of streams that a client may open now.
    pub fn slots(&self) -> usize {
        if self.ending != Ending::No || self.peer_last.is_some() || self.highest >= MAX_WINDOW - 1 {
            return 0;
        }
        let open = self.streams.iter().filter(|stream| stream.closed().is_none()).count();
        (self.peer.max_concurrent_streams as usize).saturating_sub(open)
    }

    /// False if the server's GOAWAY says that it hasn't looked at a stream.
    pub fn was_processed(&self, id: u32) -> bool {
        self.peer_last.is_none_or(|last| id <= last)
    }

    /// Writes the head of a response, final or interim. Bytes of it without frame headers, 0 if the stream is gone.
    pub fn send_head(&mut self, id: u32, response: &Head, end: bool) -> usize {
        let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.sends()) else { return 0 };
        if end {
            stream.sent_all();
        } else if response.status() % 1000 >= 200 {
            stream.sent_head();
        }
        let bytes = self
            .write_section(id, end, |out| response_fields(response, &mut |name, value| hpack::field(out, name, value)));
        self.streams.forget(id);
        bytes
    }

    /// Writes the fields behind a body, which end the stream. Bytes of them without frame headers, 0 if the stream is gone.
    pub fn send_trailers(&mut self, id: u32, trailers: &Head) -> usize {
        let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.sends()) else { return 0 };
        stream.sent_all();
        let bytes = self
            .write_section(id, true, |out| trailer_fields(trailers, &mut |name, value| hpack::field(out, name, value)));
        self.streams.offer(id, false, self.turn);
        self.streams.forget(id);
        bytes
    }

    /// Writes a field section, in as many frames as the peer's frame size takes.
    fn write_section(&mut self, id: u32, end: bool, fields: impl FnOnce(&mut Vec<u8>)) -> usize {
        let begin = self.out.len();
        self.out.extend_from_slice(&[0; HEADER_BYTES]);
        self.encoder.begin(&mut self.out);
        fields(&mut self.out);
        let most = self.peer.max_frame_size as usize;
        let len = self.out.len() - begin - HEADER_BYTES;
        if self.output().len() > MOST_OUTPUT {
            self.pending_fault.get_or_insert(Http2Abuse::Unread.into());
        }
        let flags = if end { END_STREAM } else { 0 };
        if len <= most {
            let header =
                FrameHeader { len: len as u32, kind: Http2FrameType::Headers, flags: flags | END_HEADERS, stream: id };
            self.out[begin..begin + HEADER_BYTES].copy_from_slice(&header.to_bytes());
        } else {
            let block = self.out.split_off(begin + HEADER_BYTES);
            self.out.truncate(begin);
            self.write_in_frames(id, flags, &block, most);
        }
        len
    }

    fn write_in_frames(&mut self, id: u32, flags: u8, block: &[u8], most: usize) {
        let last = block.len().div_ceil(most) - 1;
        for (i, part) in block.chunks(most).enumerate() {
            let (kind, flags) =
                if i == 0 { (Http2FrameType::Headers, flags) } else { (Http2FrameType::Continuation, 0) };
            frame::write(&mut self.out, kind, flags | if i == last { END_HEADERS } else { 0 }, id, part);
        }
    }

    /// There is body of a stream at hand.
    pub fn offer(&mut self, id: u32) {
        self.streams.offer(id, true, self.turn);
    }

    /// There is none at hand.
    pub fn withdraw(&mut self, id: u32) {
        self.streams.offer(id, false, self.turn);
    }

    /// The stream that sends next, and its most bytes: by urgency, in turn among equals, and now and then a less urgent
    /// one.
    pub fn next_send(&self) -> Option<Grant> {
        let stream = self.streams.next(self.turn).filter(|_| self.send_window > 0)?;
        Some(Grant { stream, max: self.window(stream).min(self.frame_size()) })
    }

    /// Bytes that a stream may send now, in as many frames as it likes.
    pub fn window(&self, id: u32) -> usize {
        let window = self.streams.get(id).map_or(0, |stream| stream.send_window.min(self.send_window));
        usize::try_from(window).unwrap_or(0)
    }

    /// Most bytes of one DATA frame: no more than what others can wait for.
    fn frame_size(&self) -> usize {
        self.peer.max_frame_size.min(DEFAULT_FRAME_SIZE) as usize
    }

    /// True if a stream's body is offered and a window keeps it back.
    pub fn is_blocked(&self, id: u32) -> bool {
        self.streams.is_blocked(id) || self.send_window <= 0 && self.streams.is_offered(id)
    }

    /// The header of a DATA frame of `len` bytes, which the owner writes next, and then these bytes. `None`: the stream is gone, or the windows
    /// or the peer's frame size don't take so much.
    pub fn send_data(&mut self, id: u32, len: usize, end: bool) -> Option<[u8; HEADER_BYTES]> {
        if len > 0 && (len > self.window(id) || len > self.peer.max_frame_size as usize) {
            return None;
        }
        let stream = self.streams.get_mut(id).filter(|stream| stream.sends() && stream.has_sent_head())?;
        let bytes = len as i64;
        stream.send_window -= bytes;
        self.send_window -= bytes;
        let is_cut = !end && (stream.send_window == 0 || self.send_window == 0);
        if end {
            stream.sent_all();
        }
        self.turn += 1;
        if end {
            self.streams.offer(id, false, self.turn);
            self.streams.forget(id);
        } else {
            self.streams.requeue(id, self.turn);
            self.streams.settle(id, self.turn);
        }
        self.meter_data(len, is_cut);
        let flags = if end { END_STREAM } else { 0 };
        Some(FrameHeader { len: len as u32, kind: Http2FrameType::Data, flags, stream: id }.to_bytes())
    }

    fn meter_data(&mut self, len: usize, is_cut: bool) {
        self.meters.pings.pay_back(PINGS_PER_DATA);
        self.meters.small_data.pay_back(SMALL_PER_DATA);
        if len >= SMALL_DATA || !is_cut {
            self.meters.window_updates.pay_back(UPDATES_PER_DATA);
            return;
        }
        if let Err(fault) = self.count(|m| &mut m.small_windows, |l| l.small_windows, Http2Abuse::SmallWindow) {
            self.pending_fault.get_or_insert(fault);
        }
    }

    /// Resets a stream with this code.
    pub fn reset(&mut self, id: u32, code: ErrorCode) {
        if self.streams.get(id).is_none_or(|stream| stream.closed().is_some()) {
            return;
        }
        frame::write(&mut self.out, Http2FrameType::RstStream, 0, id, &code.number().to_be_bytes());
        self.streams.close(id, Closed::ByUs);
    }

    /// True if the response is complete and the client still sends its request. The stream then gets no more window,
    /// and the rest of the body may have any length. Some clients discard the response if a reset follows it at once
    /// (RFC 9113 8.1 forbids that): the owner releases the stream later.
    pub fn linger(&mut self, id: u32) -> bool {
        let is_server = self.role == Role::Server;
        let Some(stream) = self.streams.get_mut(id).filter(|stream| is_server && !stream.sends() && stream.receives())
        else {
            return false;
        };
        (stream.lingers, stream.length_left) = (true, None);
        self.unread -= u64::from(std::mem::take(&mut stream.unread));
        self.top_up(0);
        true
    }

    /// The owner is done with a stream that it was told of; once for each. One that isn't over is reset.
    pub fn release(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        let unread = std::mem::take(&mut stream.unread);
        let code = if stream.sends() { ErrorCode::Cancel } else { ErrorCode::NoError };
        self.unread -= u64::from(unread);
        self.reset(id, code);
        self.streams.release(id);
        self.top_up(0);
    }

    /// Asks the peer for a sign of life.
    pub fn ping(&mut self, data: [u8; 8]) {
        self.pings_sent += 1;
        frame::write(&mut self.out, Http2FrameType::Ping, 0, 0, &data);
    }

    /// Says that no new streams will be taken. Those that are under way still are, until the peer has answered a PING; or [`Connection::end_drain`].
    pub fn begin_drain(&mut self) {
        if self.ending != Ending::No {
            return;
        }
        self.ending = Ending::Announced;
        self.write_go_away(MAX_WINDOW, ErrorCode::NoError);
        self.drain_ping = true;
        self.ping(*b"draining");
    }

    /// Says which stream was the last.
    pub fn end_drain(&mut self) {
        if matches!(self.ending, Ending::No | Ending::Announced) {
            self.ending = Ending::Final(self.last_taken);
            self.write_go_away(self.last_taken, ErrorCode::NoError);
        }
    }

    /// A drain has come to its end: no response is under way.
    pub fn is_drained(&self) -> bool {
        matches!(self.ending, Ending::Final(_)) && self.streams.iter().all(|stream| stream.lingers)
    }

    /// Ends the connection: GOAWAY is in the output, and what comes is thrown away.
    pub fn go_away(&mut self, code: ErrorCode) {
        if !self.is_over() {
            self.write_go_away(self.last_taken, code);
            self.ending = Ending::Over;
            self.streams.end_all();
        }
    }
}

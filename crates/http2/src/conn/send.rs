// SPDX-License-Identifier: BSD-2-Clause
//! What goes out: answers and heads into the output, DATA as headers that the owner puts in front of its own bytes.

use base::clock::Mono;
use message::Head;

use super::stream::Closed;
use super::{Connection, Ending, Grant, Role, StreamOpenError};
use crate::error::{ErrorCode, Http2Abuse};
use crate::fields::{PreparedRuns, connect_fields, request_fields, response_fields, trailer_fields};
use crate::frame::{DEFAULT_FRAME_SIZE, END_STREAM, FrameHeader, HEADER_BYTES, Http2FrameType};
use crate::hpack;
use crate::settings::MAX_WINDOW;

/// A stream is given credit inside a frame once a part of its window so large is consumed.
const WINDOW_PARTS: u32 = 4;

impl Connection {
    /// Control frames and heads that are to be written, in order.
    pub fn output(&self) -> &[u8] {
        self.output.waiting()
    }

    /// Removes `len` written bytes from the output.
    pub fn wrote(&mut self, len: usize) {
        self.output.wrote(len);
    }

    /// Puts the credit that is due into the output. Before each write.
    pub fn flush(&mut self) {
        let part = self.config.settings.initial_window_size / WINDOW_PARTS;
        let unfinished = self.reader.taker();
        for id in self.inflow.take_due() {
            let credit = self.streams.get_mut(id).and_then(|stream| stream.take_credit(part, unfinished == Some(id)));
            if let Some(credit) = credit {
                self.output.write_credit(id, credit);
            }
        }
    }

    /// Bytes of a stream's body are used up, or thrown away. What isn't consumed holds up this stream alone.
    pub fn consumed(&mut self, id: u32, len: usize) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        let len = stream.consume(len);
        self.inflow.owe(stream);
        self.make_room(len);
    }

    /// Bytes of bodies need no room any more, which may open the connection's window.
    fn make_room(&mut self, len: u32) {
        self.inflow.consumed(len);
        if let Some(credit) = self.inflow.top_up(&self.config.windows, 0) {
            self.output.write_credit(0, credit);
        }
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
        self.conduct.set_now(now);
        if self.ending != Ending::No || self.peer_last.is_some() {
            return Err(StreamOpenError::GoingAway);
        }
        if self.slots() == 0 {
            return Err(StreamOpenError::NoSlot);
        }
        let id = if self.streams.highest == 0 { 1 } else { self.streams.highest + 2 };
        if id > MAX_WINDOW {
            return Err(StreamOpenError::Spent);
        }
        self.streams.highest = id;
        let mut stream = self.new_stream(id);
        stream.priority.incremental = true;
        stream.sent_head();
        self.streams.push(stream);
        Ok(id)
    }

    /// Number of streams that a client may open now.
    pub fn slots(&self) -> usize {
        if self.ending != Ending::No || self.peer_last.is_some() || self.streams.highest >= MAX_WINDOW - 1 {
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
        self.send_section(id, response, end, |out| {
            response_fields(response, &mut |name, value| hpack::field(out, name, value));
        })
    }

    /// The same as [`Connection::send_head`], with what is known of other heads.
    pub fn send_prepared_head(&mut self, id: u32, response: &Head, end: bool, runs: &mut PreparedRuns) -> usize {
        self.send_section(id, response, end, |out| runs.write_response(response, out))
    }

    fn send_section(&mut self, id: u32, response: &Head, end: bool, fields: impl FnOnce(&mut Vec<u8>)) -> usize {
        let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.sends()) else { return 0 };
        if end {
            stream.sent_all();
        } else if response.status() % 1000 >= 200 {
            stream.sent_head();
        }
        let bytes = self.write_section(id, end, fields);
        self.streams.forget(id);
        bytes
    }

    /// Writes the fields behind a body, which end the stream. Bytes of them without frame headers, 0 if the stream is gone.
    pub fn send_trailers(&mut self, id: u32, trailers: &Head) -> usize {
        let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.sends()) else { return 0 };
        stream.sent_all();
        let bytes = self
            .write_section(id, true, |out| trailer_fields(trailers, &mut |name, value| hpack::field(out, name, value)));
        self.streams.offer(id, false);
        self.streams.forget(id);
        bytes
    }

    /// Writes a field section, in as many frames as the peer's frame size takes.
    fn write_section(&mut self, id: u32, end: bool, fields: impl FnOnce(&mut Vec<u8>)) -> usize {
        let len = self.output.write_section(id, end, self.peer.max_frame_size as usize, fields);
        if self.output.is_overfull() {
            self.pending_fault.get_or_insert(Http2Abuse::Unread.into());
        }
        len
    }

    /// There is body of a stream at hand.
    pub fn offer(&mut self, id: u32) {
        self.streams.offer(id, true);
    }

    /// There is none at hand.
    pub fn withdraw(&mut self, id: u32) {
        self.streams.offer(id, false);
    }

    /// The stream that sends next, and its most bytes: by urgency, in turn among equals, and now and then a less urgent
    /// one.
    pub fn next_send(&self) -> Option<Grant> {
        let stream = self.streams.next()?;
        Some(Grant { stream, max: self.window(stream).min(self.frame_size()) })
    }

    /// Bytes that a stream may send now, in as many frames as it likes.
    pub fn window(&self, id: u32) -> usize {
        self.streams.window(id)
    }

    /// Most bytes of one DATA frame: no more than what others can wait for.
    fn frame_size(&self) -> usize {
        self.peer.max_frame_size.min(DEFAULT_FRAME_SIZE) as usize
    }

    /// True if a stream's body is offered and a window keeps it back.
    pub fn is_blocked(&self, id: u32) -> bool {
        self.streams.is_blocked(id)
    }

    /// The header of a DATA frame of `len` bytes, which the owner writes next, and then these bytes. `None`: the stream is gone, or the windows
    /// or the peer's frame size don't take so much.
    pub fn send_data(&mut self, id: u32, len: usize, end: bool) -> Option<[u8; HEADER_BYTES]> {
        if len > 0 && (len > self.window(id) || len > self.peer.max_frame_size as usize) {
            return None;
        }
        let is_cut = self.streams.send(id, len, end)?;
        if let Err(fault) = self.conduct.sent_data(&self.config.limits, len, is_cut) {
            self.pending_fault.get_or_insert(fault);
        }
        let flags = if end { END_STREAM } else { 0 };
        Some(FrameHeader { len: len as u32, kind: Http2FrameType::Data, flags, stream: id }.to_bytes())
    }

    /// Resets a stream with this code.
    pub fn reset(&mut self, id: u32, code: ErrorCode) {
        if !self.streams.is_live(id) {
            return;
        }
        self.output.write_reset(id, code);
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
        let unread = std::mem::take(&mut stream.unread);
        self.make_room(unread);
        true
    }

    /// The owner is done with a stream that it was told of; once for each. One that isn't over is reset.
    pub fn release(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        let unread = std::mem::take(&mut stream.unread);
        let code = if stream.sends() { ErrorCode::Cancel } else { ErrorCode::NoError };
        self.reset(id, code);
        self.streams.release(id);
        self.make_room(unread);
    }

    /// Asks the peer for a sign of life.
    pub fn ping(&mut self, data: [u8; 8]) {
        self.unanswered.pings += 1;
        self.output.write(Http2FrameType::Ping, 0, 0, &data);
    }

    /// Says that no new streams will be taken. Those that are under way still are, until the peer has answered a PING; or [`Connection::end_drain`].
    pub fn begin_drain(&mut self) {
        if self.ending != Ending::No {
            return;
        }
        self.ending = Ending::Announced;
        self.output.write_go_away(MAX_WINDOW, ErrorCode::NoError);
        self.unanswered.drain = true;
        self.ping(*b"draining");
    }

    /// Says which stream was the last.
    pub fn end_drain(&mut self) {
        if matches!(self.ending, Ending::No | Ending::Announced) {
            self.ending = Ending::Final(self.streams.last_taken);
            self.output.write_go_away(self.streams.last_taken, ErrorCode::NoError);
        }
    }

    /// A drain has come to its end: no response is under way.
    pub fn is_drained(&self) -> bool {
        matches!(self.ending, Ending::Final(_)) && self.streams.iter().all(|stream| stream.lingers)
    }

    /// Ends the connection: GOAWAY is in the output, and what comes is thrown away.
    pub fn go_away(&mut self, code: ErrorCode) {
        if !self.is_over() {
            self.output.write_go_away(self.streams.last_taken, code);
            self.ending = Ending::Over;
            self.streams.end_all();
        }
    }
}

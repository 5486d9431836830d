// SPDX-License-Identifier: BSD-2-Clause
//! A connection, in either role: which frames are good when, what they say, windows, and who sends next.
//!
//! Every stream is opened by the client's end: nothing is pushed (RFC 9113 8.4). A stream that the owner was told of is *held*: it counts
//! among those that a client may have open until [`Connection::release`], so that one who resets streams can't have more work going on than one
//! who waits. What a peer may do only so often is counted ([`crate::Http2AbuseLimits`]), and ends the connection with a reason of its own.
//!
//! An idle connection holds no buffers: a frame that came in part lies in [`Connection::partial`] until it is whole, DATA never.

mod receive;
mod section;
mod send;
mod streams;
use std::ops::Range;
use std::sync::Arc;

use base::clock::Mono;

use crate::error::{ErrorCode, Http2Fault, StreamFault};
use crate::fields::{Malformed, SectionFacts};
use crate::frame::{self, FrameHeader, HEADER_BYTES, Http2FrameType, PREFACE};
use crate::hpack::{HpackDecoder, HpackEncoder};
use crate::limits::{EventMeter, Http2AbuseLimits, RapidResetLimit, seconds_since};
use crate::settings::{DEFAULT_WINDOW, Http2Settings};

use section::OpenSection;
use streams::{Closed, Room, Stream, Streams};

/// Settings that connections of a kind share.
#[derive(Clone, Debug, Default)]
pub struct Http2Config {
    /// Settings that we announce.
    pub settings: Http2Settings,
    /// Limits for a peer.
    pub limits: Http2AbuseLimits,
    /// Windows for received bodies.
    pub windows: ReceiveWindow,
    /// Take settings out of their range (`debug=+h2_nocheck`).
    pub lax_settings: bool,
    /// Take any frame for the first one, where it has to be SETTINGS (RFC 9113 3.4).
    pub lax_start: bool,
    /// Take pseudo-header fields behind others ([`crate::fields::HeadBuilder::take_late_pseudo`]).
    pub late_pseudo: bool,
}

/// The window of the connection for bodies that we receive. A stream's own is `initial_window_size`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiveWindow {
    /// The window is to be as large as this: `h2_rx_window_low_water`.
    pub low_water: u32,
    /// Most credit given at once: `h2_rx_window_increment`.
    pub increment: u32,
    /// Most bytes of all streams that were received and aren't consumed: `h2_rx_unread`. With so many the window is shut.
    pub max_unread: u32,
}

impl Default for ReceiveWindow {
    fn default() -> Self {
        ReceiveWindow { low_water: 10 << 20, increment: 1 << 20, max_unread: 384 << 10 }
    }
}

/// Memory that connections of one thread use in turn.
#[derive(Debug, Default)]
pub struct Http2Scratch {
    strings: Vec<u8>,
}

/// Memory that a connection needs while it is busy. Who owns several connections gives what one doesn't need any more to the next one
/// ([`Connection::rest`], [`Connection::resume`]).
#[derive(Debug, Default)]
pub struct Workspace {
    out: Vec<u8>,
    streams: Room,
}

/// The end of the connection that this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Server,
    Client,
}

/// Result of one call of [`Connection::receive`].
#[derive(Debug)]
pub struct ReceiveStep {
    /// Bytes of the input that were taken. More may be there.
    pub consumed: usize,
    /// The frame whose header ended in them.
    pub frame: Option<FrameHeader>,
    /// Range of the input that is payload of the present frame.
    pub payload: Range<usize>,
    /// Meaning of the bytes.
    pub event: Http2Event,
}

/// Meaning of the peer's bytes to the owner.
#[derive(Debug)]
pub enum Http2Event {
    /// Nothing, or nothing yet.
    None,
    /// A head is in the `Head` that was given: a request; to a client a response, interim ones included.
    Head {
        /// Stream of the head, from now on held.
        stream: u32,
        /// There is no body.
        end: bool,
        /// Further facts of the field section.
        section: SectionFacts,
    },
    /// Fields behind the body are in the `Head` that was given; the stream has ended.
    Trailers {
        /// Number of the stream.
        stream: u32,
    },
    /// A piece of a body.
    Data {
        /// Number of the stream.
        stream: u32,
        /// Range in the input; empty only if this is the end.
        body: Range<usize>,
        /// The stream has ended.
        end: bool,
    },
    /// The peer has reset a stream.
    Reset {
        /// Number of the stream.
        stream: u32,
        /// Code that the peer gave.
        code: ErrorCode,
    },
    /// We have reset a stream for what the peer sent.
    Broken {
        /// Number of the stream.
        stream: u32,
        /// Fault of the peer.
        fault: StreamFault,
    },
    /// A request that never was one: its stream is reset and never was held.
    BadHead {
        /// Number of the stream.
        stream: u32,
        /// Fault of the head.
        malformed: Malformed,
    },
    /// A request above the number of streams that may be open: its stream is reset and never was held.
    Refused {
        /// Number of the stream.
        stream: u32,
    },
    /// The peer's settings; an answer is in the output. Windows may have changed.
    Settings,
    /// The peer has taken ours.
    SettingsAck,
    /// The peer has answered a ping.
    PingAck([u8; 8]),
    /// More may be sent on a stream, or with 0 on all of them.
    Window {
        /// Number of the stream, or 0.
        stream: u32,
    },
    /// The peer takes no new streams, and none above `last` was or will be looked at.
    GoAway {
        /// The last one that was.
        last: u32,
        /// Code that the peer gave.
        code: ErrorCode,
    },
    /// The connection is over: GOAWAY is in the output. All streams are gone.
    Fault(Http2Fault),
}

/// Reasons why a client can't open a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamOpenError {
    /// The server takes no more open streams.
    NoSlot,
    /// One end is going away.
    GoingAway,
    /// No number is left.
    Spent,
}

/// Permission for a stream to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Number of the stream.
    pub stream: u32,
    /// Most bytes in one DATA frame.
    pub max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    No,
    /// GOAWAY with the highest number was sent: streams that are under way are still taken.
    Announced,
    /// GOAWAY with the number of this last stream was sent.
    Final(u32),
    /// A fault that leaves the peer's frames readable: PINGs are answered.
    Soft,
    /// Received bytes are thrown away.
    Over,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    header: FrameHeader,
    /// Bytes of the payload that haven't come.
    left: u32,
    /// DATA: bytes of padding at its end, once known.
    padding: Option<u32>,
    /// DATA: the stream that gets it.
    takes: bool,
}

#[derive(Debug, Default)]
struct Meters {
    rapid_resets: EventMeter,
    made_resets: EventMeter,
    refused: EventMeter,
    settings: EventMeter,
    pings: EventMeter,
    priorities: EventMeter,
    empty_data: EventMeter,
    small_data: EventMeter,
    window_updates: EventMeter,
    small_windows: EventMeter,
    ignored: EventMeter,
}

/// A connection without its socket.
#[derive(Debug)]
pub struct Connection {
    role: Role,
    rapid_resets: RapidResetLimit,
    config: Arc<Http2Config>,
    born: Mono,
    /// Seconds since it was born, as the owner said last.
    now: f32,
    preface_left: u8,
    has_begun: bool,
    header: [u8; HEADER_BYTES],
    header_bytes: u8,
    current: Option<Current>,
    /// Payload of the current frame, when it came in parts.
    partial: Vec<u8>,
    /// A field section, when it came in several frames.
    block: Vec<u8>,
    section: Option<OpenSection>,
    decoder: HpackDecoder,
    encoder: HpackEncoder,
    peer: Http2Settings,
    streams: Streams,
    /// The highest stream there was: the peer's (server), ours (client).
    highest: u32,
    /// The highest of them that was looked at.
    last_taken: u32,
    peer_last: Option<u32>,
    ending: Ending,
    /// A drain's PING is on its way.
    drain_ping: bool,
    pings_sent: u32,
    settings_unacked: u32,
    send_window: i64,
    receive_window: i64,
    /// Bytes of bodies that were given out and aren't consumed.
    unread: u64,
    due: Vec<u32>,
    /// The client has said of some request how urgent it is.
    has_priorities: bool,
    /// Counts sends, for fairness among equals.
    turn: u64,
    out: Vec<u8>,
    out_at: usize,
    /// Bytes of answers in the output.
    answers: usize,
    pending_fault: Option<Http2Fault>,
    meters: Meters,
}

impl Connection {
    /// The server's end of a new connection. Its SETTINGS are in the output; the client's preface is expected.
    pub fn server(config: Arc<Http2Config>, now: Mono) -> Connection {
        Connection::new(Role::Server, config, now)
    }

    /// The server's end after `Upgrade: h2c` (RFC 7540 3.2), with what HTTP2-Settings said: stream 1 is there, held, and has ended on the
    /// client's side.
    ///
    /// # Errors
    /// The settings can't be obeyed.
    pub fn upgraded(config: Arc<Http2Config>, settings: &Http2Settings, now: Mono) -> Result<Connection, Http2Fault> {
        let mut conn = Connection::server(config, now);
        conn.change_settings(settings.clone())?;
        (conn.highest, conn.last_taken) = (1, 1);
        let mut stream = conn.new_stream(1);
        stream.received_all();
        conn.streams.push(stream);
        Ok(conn)
    }

    /// The client's end of a new connection. Preface and SETTINGS are in the output.
    pub fn client(config: Arc<Http2Config>, now: Mono) -> Connection {
        Connection::new(Role::Client, config, now)
    }

    fn new(role: Role, config: Arc<Http2Config>, now: Mono) -> Connection {
        let is_client = role == Role::Client;
        let mut out = Vec::new();
        if is_client {
            out.extend_from_slice(PREFACE);
        }
        frame::write(&mut out, Http2FrameType::Settings, 0, 0, &config.settings.payload(is_client));
        Connection {
            role,
            born: now,
            now: 0.0,
            preface_left: if is_client { 0 } else { PREFACE.len() as u8 },
            has_begun: false,
            header: [0; HEADER_BYTES],
            header_bytes: 0,
            current: None,
            partial: Vec::new(),
            block: Vec::new(),
            section: None,
            decoder: HpackDecoder::new(config.settings.header_table_size),
            encoder: HpackEncoder::default(),
            peer: Http2Settings::default(),
            streams: Streams::default(),
            highest: 0,
            last_taken: 0,
            peer_last: None,
            ending: Ending::No,
            drain_ping: false,
            pings_sent: 0,
            settings_unacked: 1,
            send_window: i64::from(DEFAULT_WINDOW),
            receive_window: i64::from(DEFAULT_WINDOW),
            unread: 0,
            due: Vec::new(),
            has_priorities: false,
            turn: 0,
            out,
            out_at: 0,
            answers: 0,
            pending_fault: None,
            meters: Meters::default(),
            rapid_resets: RapidResetLimit::from(&config.limits),
            config,
        }
    }

    fn new_stream(&self, id: u32) -> Stream {
        Stream::new(id, self.peer.initial_window_size, self.config.settings.initial_window_size, self.now)
    }

    /// Streams that are open or held.
    pub fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// No stream is open or held, no frame is half read, nothing is to be written.
    pub fn is_idle(&self) -> bool {
        self.streams.is_empty() && self.is_between_frames() && self.output().is_empty()
    }

    fn is_between_frames(&self) -> bool {
        self.current.is_none() && self.header_bytes == 0 && self.section.is_none()
    }

    /// Nothing more can come of it: GOAWAY was sent for good.
    pub fn is_over(&self) -> bool {
        matches!(self.ending, Ending::Over | Ending::Soft)
    }

    /// Gives memory up. What is needed again is taken again, or got by [`Connection::resume`].
    pub fn rest(&mut self) -> Workspace {
        let mut out = Vec::new();
        if self.output().is_empty() {
            (out, self.out_at) = (std::mem::take(&mut self.out), 0);
            out.clear();
        }
        if self.partial.is_empty() {
            self.partial = Vec::new();
        }
        if self.block.is_empty() {
            self.block = Vec::new();
        }
        if self.due.is_empty() {
            self.due = Vec::new();
        }
        Workspace { out, streams: self.streams.rest() }
    }

    /// Makes it busy, with memory that another connection has given up.
    pub fn resume(&mut self, workspace: Workspace) {
        if self.out.capacity() == 0 {
            self.out = workspace.out;
        }
        self.streams.resume(workspace.streams);
    }

    /// Bytes of memory held beside the connection itself.
    pub fn memory(&self) -> usize {
        self.out.capacity()
            + self.partial.capacity()
            + self.block.capacity()
            + self.due.capacity() * size_of::<u32>()
            + self.decoder.memory()
            + self.streams.memory()
    }

    fn set_now(&mut self, now: Mono) {
        self.now = seconds_since(self.born, now);
    }

    fn fail(&mut self, fault: Http2Fault) -> Http2Event {
        if self.is_over() {
            self.ending = Ending::Over;
            return Http2Event::None;
        }
        self.write_go_away(self.last_taken, fault.code);
        self.ending = if fault.soft { Ending::Soft } else { Ending::Over };
        self.streams.end_all();
        self.section = None;
        (self.partial, self.block) = (Vec::new(), Vec::new());
        Http2Event::Fault(fault)
    }

    fn change_settings(&mut self, settings: Http2Settings) -> Result<(), Http2Fault> {
        let change = i64::from(settings.initial_window_size) - i64::from(self.peer.initial_window_size);
        if !self.streams.move_windows(change, self.turn) {
            return Err(Http2Fault::flow("SETTINGS: a stream's window becomes too large"));
        }
        self.encoder.table_size(settings.header_table_size);
        self.peer = settings;
        Ok(())
    }

    fn break_stream(&mut self, id: u32, fault: StreamFault) -> Result<Http2Event, Http2Fault> {
        self.count(|m| &mut m.made_resets, |l| l.made_resets, crate::Http2Abuse::MadeReset)?;
        self.write_reset(id, fault.code)?;
        self.streams.close(id, Closed::ByUs);
        Ok(Http2Event::Broken { stream: id, fault })
    }

    /// The limit of rapid resets, and how many more of them there may be now.
    pub fn rapid_resets(&self) -> (RapidResetLimit, f32) {
        let limit = self.rapid_resets;
        (limit, limit.most as f32 - self.meters.rapid_resets.spent_by(self.now, limit.most, limit.period as f32))
    }

    /// Changes the limit of rapid resets, which are then counted from 0.
    pub fn limit_rapid_resets(&mut self, limit: RapidResetLimit) {
        self.rapid_resets = limit;
        self.meters.rapid_resets = EventMeter::default();
    }

    fn rapid_reset(&mut self) -> Result<(), Http2Fault> {
        let is_too_many = self.meters.rapid_resets.count_reset(self.now, self.rapid_resets);
        if is_too_many { Err(crate::Http2Abuse::RapidReset.into()) } else { Ok(()) }
    }

    fn count(
        &mut self,
        meter: impl FnOnce(&mut Meters) -> &mut EventMeter,
        limit: impl FnOnce(&Http2AbuseLimits) -> u32,
        abuse: crate::Http2Abuse,
    ) -> Result<(), Http2Fault> {
        let limits = &self.config.limits;
        let is_too_many = meter(&mut self.meters).count(self.now, limit(limits), limits.period);
        if is_too_many { Err(abuse.into()) } else { Ok(()) }
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! A connection, in either role: which frames are good when, what they say, windows, and who sends next.
//!
//! Every stream is opened by the client's end: nothing is pushed (RFC 9113 8.4). A stream that the owner was told of is *held*: it counts
//! among those that a client may have open until [`Connection::release`], so that one who resets streams can't have more work going on than one
//! who waits. What a peer may do only so often is counted ([`crate::Http2AbuseLimits`]), and ends the connection with a reason of its own.
//!
//! An idle connection holds no buffers: a frame that came in part is kept until it is whole ([`frames`]), DATA never.

mod conduct;
mod frames;
mod inflow;
mod output;
mod past;
mod receive;
mod section;
mod send;
mod stream;
mod streams;

use std::ops::Range;
use std::sync::Arc;

use base::clock::Mono;

use crate::error::{ErrorCode, Http2Fault, StreamFault};
use crate::fields::{Malformed, SectionFacts};
use crate::frame::{self, FrameHeader, Http2FrameType, PREFACE};
use crate::limits::{EventMeter, Http2AbuseLimits, RapidResetLimit};
use crate::settings::Http2Settings;

use conduct::{Conduct, Meters};
use frames::FrameReader;
use inflow::Inflow;
use output::Output;
use section::Sections;
use stream::{Closed, Stream};
use streams::{Room, Streams};

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
    /// A request that is only too large; a part of its head is in the `Head` that was given.
    HeadTooLarge {
        /// Stream of the head, from now on held.
        stream: u32,
        /// There is no body.
        end: bool,
        /// Limit that was reached, and a status.
        malformed: Malformed,
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

/// Frames of ours that the peer has to answer.
#[derive(Debug)]
struct Unanswered {
    settings: u32,
    pings: u32,
    drain: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PingAnswer {
    Unasked,
    Plain,
    /// Nothing of the peer's is on its way any more that a drain would have to wait for.
    Drain,
}

impl Unanswered {
    fn settings_taken(&mut self) -> bool {
        let was_sent = self.settings > 0;
        self.settings -= u32::from(was_sent);
        was_sent
    }

    fn ping_answered(&mut self) -> PingAnswer {
        if self.pings == 0 {
            return PingAnswer::Unasked;
        }
        self.pings -= 1;
        if std::mem::take(&mut self.drain) { PingAnswer::Drain } else { PingAnswer::Plain }
    }
}

/// A connection without its socket.
#[derive(Debug)]
pub struct Connection {
    role: Role,
    config: Arc<Http2Config>,
    /// Settings of the peer; ours are the configuration's.
    peer: Http2Settings,
    conduct: Conduct,
    reader: FrameReader,
    sections: Sections,
    inflow: Inflow,
    streams: Streams,
    output: Output,
    unanswered: Unanswered,
    ending: Ending,
    /// The last stream that the peer will look at, as its GOAWAY said.
    peer_last: Option<u32>,
    /// A fault that was found while something was written.
    pending_fault: Option<Http2Fault>,
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
        (conn.streams.highest, conn.streams.last_taken) = (1, 1);
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
            peer: Http2Settings::default(),
            conduct: Conduct::new(&config.limits, now),
            reader: FrameReader::new(!is_client),
            sections: Sections::new(config.settings.header_table_size),
            inflow: Inflow::default(),
            streams: Streams::default(),
            output: Output::of(out),
            unanswered: Unanswered { settings: 1, pings: 0, drain: false },
            ending: Ending::No,
            peer_last: None,
            pending_fault: None,
            config,
        }
    }

    fn new_stream(&self, id: u32) -> Stream {
        Stream::new(id, self.peer.initial_window_size, self.config.settings.initial_window_size, self.conduct.now())
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
        self.reader.is_between_frames() && self.sections.open_stream().is_none()
    }

    /// Nothing more can come of it: GOAWAY was sent for good.
    pub fn is_over(&self) -> bool {
        matches!(self.ending, Ending::Over | Ending::Soft)
    }

    /// Gives memory up. What is needed again is taken again, or got by [`Connection::resume`].
    pub fn rest(&mut self) -> Workspace {
        self.reader.rest();
        self.sections.rest();
        self.inflow.rest();
        Workspace { out: self.output.rest(), streams: self.streams.rest() }
    }

    /// Makes it busy, with memory that another connection has given up.
    pub fn resume(&mut self, workspace: Workspace) {
        self.output.resume(workspace.out);
        self.streams.resume(workspace.streams);
    }

    /// Bytes of memory held beside the connection itself.
    pub fn memory(&self) -> usize {
        self.output.memory()
            + self.reader.memory()
            + self.sections.memory()
            + self.inflow.memory()
            + self.streams.memory()
    }

    fn fail(&mut self, fault: Http2Fault) -> Http2Event {
        if self.is_over() {
            self.ending = Ending::Over;
            return Http2Event::None;
        }
        self.output.write_go_away(self.streams.last_taken, fault.code);
        self.ending = if fault.soft { Ending::Soft } else { Ending::Over };
        self.streams.end_all();
        self.sections.forget();
        self.reader.forget();
        Http2Event::Fault(fault)
    }

    fn change_settings(&mut self, settings: Http2Settings) -> Result<(), Http2Fault> {
        let change = i64::from(settings.initial_window_size) - i64::from(self.peer.initial_window_size);
        if !self.streams.move_windows(change) {
            return Err(Http2Fault::flow("SETTINGS: a stream's window becomes too large"));
        }
        self.output.table_size(settings.header_table_size);
        self.peer = settings;
        Ok(())
    }

    fn break_stream(&mut self, id: u32, fault: StreamFault) -> Result<Http2Event, Http2Fault> {
        self.count(|m| &mut m.made_resets, |l| l.made_resets, crate::Http2Abuse::MadeReset)?;
        self.answer(|output| output.write_reset(id, fault.code))?;
        self.streams.close(id, Closed::ByUs);
        Ok(Http2Event::Broken { stream: id, fault })
    }

    /// The limit of rapid resets, and how many more of them there may be now.
    pub fn rapid_resets(&self) -> (RapidResetLimit, f32) {
        self.conduct.rapid_resets()
    }

    /// Changes the limit of rapid resets, which are then counted from 0.
    pub fn limit_rapid_resets(&mut self, limit: RapidResetLimit) {
        self.conduct.limit_rapid_resets(limit);
    }

    fn count(
        &mut self,
        meter: impl FnOnce(&mut Meters) -> &mut EventMeter,
        limit: impl FnOnce(&Http2AbuseLimits) -> u32,
        abuse: crate::Http2Abuse,
    ) -> Result<(), Http2Fault> {
        self.conduct.count(&self.config.limits, meter, limit, abuse)
    }

    /// Writes an answer to something that the peer may send as often as it likes.
    fn answer(&mut self, write: impl FnOnce(&mut Output)) -> Result<(), Http2Fault> {
        self.output.answer(self.config.limits.unread_bytes, write)
    }
}

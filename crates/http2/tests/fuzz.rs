// SPDX-License-Identifier: BSD-2-Clause
//! Frames of any kind in any order, and bytes changed in them: what must hold for a connection whatever its peer sends. PROPTEST_CASES makes it
//! longer.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too, fail by a panic")]

mod peer;

use std::collections::BTreeSet;
use std::sync::Arc;

use base::clock::Mono;
use http2::conn::ReceiveWindow;
use http2::{
    Connection, ErrorCode, Http2AbuseLimits, Http2Config, Http2Event, Http2Scratch, Http2Settings, PREFACE, huffman,
};
use message::{Head, HeadLimits};
use peer::{frame, request, response};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Act {
    Frame {
        kind: u8,
        flags: u8,
        stream: u32,
        payload: Vec<u8>,
    },
    /// The owner answers the last head.
    Answer {
        end: bool,
    },
    /// The owner sends so much of a body, as far as it may.
    Send {
        len: usize,
        end: bool,
    },
    /// The owner uses up what came.
    Consume,
    Release,
    Reset,
    Drain,
    Rest,
    /// A pause in seconds.
    Wait(u16),
}

const STREAMS: u32 = 12;
const MAX_UNREAD: u32 = 100_000;

fn section() -> impl Strategy<Value = Vec<u8>> {
    let whole = prop_oneof![Just(vec![0x82, 0x86, 0x84]), Just(vec![0x83, 0x87, 0x85]), Just(vec![0x88]), Just(vec![])];
    let literal = (
        prop_oneof![Just(0x40u8), Just(0u8), Just(0x10)],
        "[a-z:]{0,6}|te|cookie|host|content-length",
        "[ -~]{0,9}|[0-9]{1,6}",
        any::<bool>(),
    );
    let literal = literal.prop_map(|(first, name, value, is_huffman)| {
        let mut out = vec![first];
        for text in [name.as_bytes(), value.as_bytes()] {
            let mut code = Vec::new();
            if is_huffman {
                huffman::encode(text, &mut code)
            } else {
                code.extend_from_slice(text)
            }
            http2::int::write(&mut out, if is_huffman { 0x80 } else { 0 }, 7, code.len() as u64);
            out.extend(code);
        }
        out
    });
    let odd = prop_oneof![
        (0x80u8..=0xff).prop_map(|byte| vec![byte]),
        (0u8..=63).prop_map(|size| vec![0x20, size]),
        prop::collection::vec(any::<u8>(), 0..6),
    ];
    let field = prop_oneof![8 => literal, 1 => odd];
    (whole, prop::collection::vec(field, 0..5)).prop_map(|(first, fields)| [first, fields.concat()].concat())
}

fn good_frame() -> impl Strategy<Value = Act> {
    let stream = (1..=STREAMS / 2).prop_map(|n| 2 * n - 1);
    let heads = (
        prop_oneof![8 => Just(1u8), 1 => Just(9)],
        prop_oneof![Just(5u8), Just(4), Just(1), Just(0), Just(0x2c), Just(0x24)],
        section(),
    );
    let data = (
        Just(0u8),
        prop_oneof![Just(0u8), Just(1), Just(8), Just(9)],
        (0..600usize, any::<u8>()).prop_map(|(len, byte)| vec![byte % 20; len]),
    );
    let number = prop_oneof![Just(0u32), Just(1), Just(1 << 16), Just(1 << 30), any::<u32>()];
    let short = (prop_oneof![Just(3u8), Just(8)], Just(0u8), number.clone().prop_map(|n| n.to_be_bytes().to_vec()));
    let on_stream = prop_oneof![4 => heads, 3 => data, 2 => short, 1 => (Just(2u8), Just(0u8), prop::collection::vec(any::<u8>(), 5))];
    let on_stream = (stream, on_stream);
    let setting = (0..10u16, number).prop_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat());
    let control = prop_oneof![
        (Just(4u8), Just(0u8), prop::collection::vec(setting, 0..4).prop_map(|all| all.concat())),
        (Just(4u8), Just(1u8), Just(vec![])),
        (Just(6u8), 0..2u8, Just(vec![7; 8])),
        (Just(7u8), Just(0u8), Just(vec![0; 8])),
        (Just(8u8), Just(0u8), Just(vec![0, 0, 1, 0])),
        (Just(0x10u8), Just(0u8), Just(vec![0, 0, 0, 3, b'u', b'=', b'1'])),
        (any::<u8>(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..12)),
    ];
    prop_oneof![
        5 => on_stream.prop_map(|(stream, (kind, flags, payload))| Act::Frame { kind, flags, stream, payload }),
        1 => control.prop_map(|(kind, flags, payload)| Act::Frame { kind, flags, stream: 0, payload }),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        10 => good_frame(),
        2 => any::<bool>().prop_map(|end| Act::Answer { end }),
        2 => (0..70_000usize, any::<bool>()).prop_map(|(len, end)| Act::Send { len, end }),
        2 => Just(Act::Consume),
        2 => Just(Act::Release),
        1 => prop_oneof![Just(Act::Reset), Just(Act::Rest), any::<u16>().prop_map(Act::Wait)],
        1 => prop_oneof![9 => Just(Act::Consume), 1 => Just(Act::Drain)],
    ]
}

fn config() -> Arc<Http2Config> {
    let settings =
        Http2Settings { max_concurrent_streams: 4, enable_connect_protocol: true, ..Http2Settings::default() };
    let windows = ReceiveWindow { max_unread: MAX_UNREAD, ..ReceiveWindow::default() };
    let limits = Http2AbuseLimits { section_bytes: 2000, unread_bytes: 4000, ..Http2AbuseLimits::default() };
    Arc::new(Http2Config { settings, limits, windows, ..Http2Config::default() })
}

/// An owner that looks after everything that it is promised.
struct Owner {
    conn: Connection,
    is_server: bool,
    now: f64,
    head: Head,
    scratch: Http2Scratch,
    held: BTreeSet<u32>,
    /// Streams that have said their last word: nothing more may come of them.
    ended: BTreeSet<u32>,
    unread: Vec<(u32, usize)>,
    over: bool,
    events: Vec<String>,
    out: Vec<u8>,
}

impl Owner {
    fn new(is_server: bool) -> Owner {
        let conn =
            if is_server { Connection::server(config(), Mono(0.0)) } else { Connection::client(config(), Mono(0.0)) };
        let mut owner = Owner {
            conn,
            is_server,
            now: 0.0,
            head: Head::with_limits(HeadLimits::new(20, 2000)),
            scratch: Http2Scratch::default(),
            held: BTreeSet::new(),
            ended: BTreeSet::new(),
            unread: Vec::new(),
            over: false,
            events: Vec::new(),
            out: Vec::new(),
        };
        if is_server {
            owner.read(PREFACE, usize::MAX);
        } else {
            for _ in 0..STREAMS / 2 {
                let stream = owner.conn.open(&request("POST", "/", &[]), "http", false, Mono(0.0)).unwrap();
                owner.held.insert(stream);
            }
        }
        owner
    }

    fn read(&mut self, input: &[u8], piece: usize) {
        for piece in input.chunks(piece.min(input.len().max(1))) {
            let mut at = 0;
            loop {
                let step = self.conn.receive(&piece[at..], Mono(self.now), &mut self.head, &mut self.scratch);
                assert!(step.consumed <= piece.len() - at && step.payload.end <= piece.len() - at);
                let is_none = matches!(step.event, Http2Event::None);
                self.judge(step.event, piece.len() - at);
                at += step.consumed;
                if is_none && (step.consumed == 0 || at == piece.len()) {
                    assert_eq!(at, piece.len(), "all is taken");
                    break;
                }
            }
        }
    }

    fn judge(&mut self, event: Http2Event, input: usize) {
        assert!(!self.over || matches!(event, Http2Event::None), "{event:?} after the end");
        let note = format!("{event:?}");
        match event {
            Http2Event::None => return,
            Http2Event::Head { stream, end, .. } | Http2Event::HeadTooLarge { stream, end, .. } => {
                assert_eq!(self.held.insert(stream), self.is_server, "{stream} is new");
                assert!(end <= self.ended.insert(stream) || !end);
                if !end {
                    self.ended.remove(&stream);
                }
                let mut wire = Vec::new();
                self.head.write_to(&mut wire);
                assert_eq!(wire.iter().filter(|&&c| c == b'\n').count(), self.head.len() + 2);
            }
            Http2Event::Trailers { stream } => assert!(self.held.contains(&stream) && self.ended.insert(stream)),
            Http2Event::Data { stream, body, end } => {
                assert!(body.end <= input && (end || !body.is_empty()));
                assert!(self.held.contains(&stream) && !self.ended.contains(&stream), "{stream}");
                self.unread.push((stream, body.len()));
                if end {
                    self.ended.insert(stream);
                }
                // How it is cut depends on how it came.
                let total: usize = self.unread.iter().map(|(_, len)| len).sum();
                assert!(total <= MAX_UNREAD as usize, "{total} bytes unread");
                return if end {
                    self.events.push(format!("end {stream}"))
                };
            }
            Http2Event::Reset { stream, .. } => assert!(self.held.contains(&stream)),
            Http2Event::Fault(_) => self.over = true,
            Http2Event::Broken { stream, .. } => {
                self.ended.insert(stream);
            }
            Http2Event::BadHead { .. }
            | Http2Event::Refused { .. }
            | Http2Event::Settings
            | Http2Event::SettingsAck
            | Http2Event::PingAck(_)
            | Http2Event::Window { .. }
            | Http2Event::GoAway { .. } => {}
        }
        self.events.push(note);
    }

    fn act(&mut self, act: &Act, piece: usize) {
        let last = self.held.last().copied().unwrap_or(1);
        match act {
            Act::Frame { kind, flags, stream, payload } => {
                self.read(&frame::whole(*kind, *flags, *stream, payload), piece);
            }
            Act::Answer { end } if self.is_server => {
                self.conn.send_head(last, &response(200, &[("a", "b")]), *end);
            }
            Act::Answer { .. } => {}
            Act::Send { len, end } => self.send(*len, *end),
            Act::Consume => self.unread.drain(..).for_each(|(stream, len)| self.conn.consumed(stream, len)),
            Act::Release => self.release(last),
            Act::Reset => self.conn.reset(last, ErrorCode::Cancel),
            Act::Drain => self.conn.begin_drain(),
            Act::Rest => {
                let workspace = self.conn.rest();
                self.conn.resume(workspace);
            }
            Act::Wait(seconds) => self.now += f64::from(*seconds) / 100.0,
        }
        self.write();
        assert!(self.conn.memory() < 40_000, "{}", self.conn.memory());
    }

    fn send(&mut self, len: usize, end: bool) {
        self.held.iter().for_each(|stream| self.conn.offer(*stream));
        let mut left = len;
        while let Some(grant) = self.conn.next_send().filter(|_| left > 0) {
            assert!(grant.max > 0 && grant.max <= self.conn.window(grant.stream));
            let len = grant.max.min(left);
            self.conn.send_data(grant.stream, len, false).expect("it was granted");
            left -= len;
        }
        if let Some(stream) = self.held.first().filter(|_| end) {
            self.conn.send_data(*stream, 0, true);
        }
    }

    fn release(&mut self, stream: u32) {
        if self.held.remove(&stream) {
            self.unread.retain(|(unread, _)| *unread != stream);
            self.ended.insert(stream);
            self.conn.release(stream);
            self.conn.release(stream);
        }
    }

    fn write(&mut self) {
        self.conn.flush();
        self.out.extend_from_slice(self.conn.output());
        self.conn.wrote(self.conn.output().len());
    }

    /// All that was written is frames, and nothing behind the last GOAWAY but answers to PINGs.
    fn finish(mut self) -> (Vec<String>, Vec<u8>) {
        let streams: Vec<u32> = self.held.iter().copied().collect();
        streams.into_iter().for_each(|stream| self.release(stream));
        self.write();
        if self.conn.stream_count() != 0 {
            panic!("streams are left");
        }
        let from = if self.is_server { 0 } else { PREFACE.len() };
        let whole: usize = http2::frame::walk(&self.out[from..]).map(|(_, payload)| 9 + payload.len()).sum();
        assert_eq!(whole, self.out.len() - from);
        (self.events, self.out)
    }
}

/// Does it all, with the bytes in one piece and cut.
fn check(acts: &[Act], is_server: bool, piece: usize) {
    let run = |piece: usize| {
        let mut owner = Owner::new(is_server);
        acts.iter().for_each(|act| owner.act(act, piece));
        owner.finish()
    };
    let (whole, whole_out) = run(usize::MAX);
    let (cut, cut_out) = run(piece);
    assert_eq!(whole, cut, "cut into pieces of {piece}");
    // Credit inside a frame may come earlier.
    let frames = |out: &[u8]| {
        frame::list(out).into_iter().filter(|frame| !frame.starts_with("WINDOW_UPDATE")).collect::<Vec<_>>()
    };
    assert_eq!(frames(&whole_out), frames(&cut_out));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn frames_to_a_server(acts in prop::collection::vec(act(), 0..60), piece in 1..40usize) {
        check(&acts, true, piece);
    }

    #[test]
    fn frames_to_a_client(acts in prop::collection::vec(act(), 0..60), piece in 1..40usize) {
        check(&acts, false, piece);
    }

    #[test]
    fn bytes_changed(
        acts in prop::collection::vec(good_frame(), 0..40),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..6),
        is_server: bool,
        piece in 1..40usize,
    ) {
        let mut bytes: Vec<u8> = acts.iter().flat_map(|act| match act {
            Act::Frame { kind, flags, stream, payload } => frame::whole(*kind, *flags, *stream, payload),
            _ => Vec::new(),
        }).collect();
        for (at, byte, how) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => {
                    bytes.remove(at);
                }
            }
        }
        let run = |piece: usize| {
            let mut owner = Owner::new(is_server);
            owner.read(&bytes, piece);
            owner.finish().0
        };
        prop_assert_eq!(run(usize::MAX), run(piece));
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300), is_server: bool) {
        let mut owner = Owner::new(is_server);
        owner.read(&bytes, 7);
        owner.finish();
    }
}

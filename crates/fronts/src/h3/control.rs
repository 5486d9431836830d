// SPDX-License-Identifier: BSD-2-Clause
//! The streams that carry no request: our control stream, and those of the client (RFC 9114 6.2).

use std::future::poll_fn;
use std::rc::Rc;

use http2::priority::Priority;
use http3::control::{self, ControlEvent, ControlReader, DecoderStream, MAX_FRAME_BYTES, StreamKind, check_encoder};
use http3::{Http3Abuse, Http3Error, Http3ErrorCode, varint};
use net::quic::{RecvStream, VarInt};

use super::link::Link;

const READ_BYTES: usize = 512;

/// Says what we take. The client's window has room for it, or it breaks the protocol (RFC 9114 6.2).
pub(super) fn begin(link: &Rc<Link>) {
    let link = link.clone();
    rt::spawn(async move {
        let Ok(mut stream) = link.conn.open_uni().await else { return };
        let mut out = Vec::new();
        control::begin(link.sess.engine.params.load().http_req_size, &mut out);
        // Before all requests: a client waits for it.
        let _ = stream.set_priority(i32::MAX);
        if stream.write_all(&out).await.is_ok() {
            *link.control.borrow_mut() = Some(stream);
            if link.has_gone_away() {
                go_away(&link);
            }
        }
    });
}

/// Tells the client that streams behind those that have begun aren't answered, now or once there is a stream to tell it on.
pub(super) fn go_away(link: &Link) {
    let Some(mut control) = link.control.borrow_mut().take() else { return };
    let mut out = Vec::new();
    control::go_away(link.next_stream(), &mut out);
    let conn = link.conn.clone();
    rt::spawn(async move {
        let _ = control.write_all(&out).await;
        // It stays open as long as the connection is there: its end would be an error.
        conn.closed().await;
    });
}

pub(super) fn receive(link: &Rc<Link>, stream: RecvStream) {
    let link = link.clone();
    rt::spawn(async move {
        if let Err(error) = read(&link, stream).await {
            link.fail(&error);
        }
    });
}

struct Input {
    stream: RecvStream,
    held: Vec<u8>,
}

impl Input {
    async fn more(&mut self) -> bool {
        let at = self.held.len();
        self.held.resize(at + READ_BYTES, 0);
        let read = poll_fn(|cx| self.stream.poll_read(cx, &mut self.held[at..])).await.unwrap_or(0);
        self.held.truncate(at + read);
        read > 0
    }

    fn done(&mut self, bytes: usize) {
        self.held.drain(..bytes);
        if self.held.is_empty() {
            // Nothing is held for a stream that is silent.
            self.held = Vec::new();
        }
    }
}

async fn read(link: &Link, stream: RecvStream) -> Result<(), Http3Error> {
    let mut input = Input { stream, held: Vec::new() };
    let number = loop {
        match varint::read(&input.held) {
            Some((number, len)) => {
                input.done(len);
                break number;
            }
            // One that ends before it says what it is is nobody's.
            None if !input.more().await => return link.count(Http3Abuse::Stream, 1),
            None => {}
        }
    };
    let once = match StreamKind::from_number(number) {
        StreamKind::Control => 0,
        StreamKind::Encoder => 1,
        StreamKind::Decoder => 2,
        StreamKind::Push => return Err(Http3Error::connection(Http3ErrorCode::StreamCreation, "Push by a client")),
        StreamKind::Other => {
            let _ = input.stream.stop(VarInt::from_u32(Http3ErrorCode::StreamCreation.number()));
            return link.count(Http3Abuse::Stream, 1);
        }
    };
    if link.has_stream[once].replace(true) {
        return Err(Http3Error::connection(
            Http3ErrorCode::StreamCreation,
            "Second stream of a kind that there is once",
        ));
    }
    match once {
        0 => control_stream(link, &mut input).await?,
        1 => encoder(link, &mut input).await?,
        _ => decoder(link, &mut input).await?,
    }
    if link.conn.close_reason().is_some() {
        return Ok(());
    }
    Err(Http3Error::connection(Http3ErrorCode::ClosedCriticalStream, "A stream ends that the connection needs"))
}

async fn control_stream(link: &Link, input: &mut Input) -> Result<(), Http3Error> {
    let mut reader = ControlReader::default();
    loop {
        let (event, done) = reader.next(&input.held)?;
        input.done(done);
        if let Some(abuse) = event.as_ref().and_then(ControlEvent::abuse) {
            link.count(abuse, 1)?;
        }
        match event {
            Some(ControlEvent::Priority { stream, value }) => {
                link.priorities.set(stream, Priority::parse(&value).urgency);
                continue;
            }
            Some(
                ControlEvent::Settings(_) | ControlEvent::GoAway | ControlEvent::MaxPushId | ControlEvent::Unknown,
            ) => continue,
            None => debug_assert!(input.held.len() <= MAX_FRAME_BYTES + 16),
        }
        if !input.more().await {
            return Ok(());
        }
    }
}

async fn encoder(link: &Link, input: &mut Input) -> Result<(), Http3Error> {
    loop {
        link.count(Http3Abuse::Ignored, check_encoder(&input.held)?)?;
        input.done(input.held.len());
        if !input.more().await {
            return Ok(());
        }
    }
}

async fn decoder(link: &Link, input: &mut Input) -> Result<(), Http3Error> {
    let mut stream = DecoderStream::default();
    loop {
        link.count(Http3Abuse::Ignored, stream.check(&input.held)?)?;
        input.done(input.held.len());
        if !input.more().await {
            return Ok(());
        }
    }
}

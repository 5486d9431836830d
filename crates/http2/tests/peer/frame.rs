// SPDX-License-Identifier: BSD-2-Clause
//! Frames as words.

use http2::{ErrorCode, Http2FrameType, frame};

/// The frames that `bytes` begin with, one per line.
pub fn list(bytes: &[u8]) -> Vec<String> {
    let number = |payload: &[u8], at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
    let code = |payload: &[u8], at: usize| ErrorCode::from_number(number(payload, at)).name();
    let text = |header: frame::FrameHeader, payload: &[u8]| match header.kind {
        Http2FrameType::GoAway => format!("GOAWAY {} {}", number(payload, 0), code(payload, 4)),
        Http2FrameType::RstStream => format!("RST_STREAM {} {}", header.stream, code(payload, 0)),
        Http2FrameType::WindowUpdate => format!("WINDOW_UPDATE {} {}", header.stream, number(payload, 0)),
        Http2FrameType::Ping | Http2FrameType::Settings if header.has(frame::ACK) => format!("{} ACK", header.kind),
        kind => format!("{kind} {} {:#x} {}", header.stream, header.flags, header.len),
    };
    frame::walk(bytes).map(|(header, payload)| text(header, payload)).collect()
}

pub fn whole(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write(&mut out, Http2FrameType::from_number(kind), flags, stream, payload);
    out
}

// SPDX-License-Identifier: BSD-2-Clause
//! Error codes of HTTP/2 in varnishd's words: what Debug records say of them, and why a session ends with them.

use http2::{ErrorCode, Http2Abuse, Http2Fault};
use tables::close::SessClose;
use tables::counters::{Counter, Main};

pub(super) fn meaning(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::NoError => "Graceful shutdown",
        ErrorCode::ProtocolError => "Protocol error detected",
        ErrorCode::InternalError => "Implementation fault",
        ErrorCode::FlowControlError => "Flow-control limits exceeded",
        ErrorCode::SettingsTimeout => "Settings not acknowledged",
        ErrorCode::StreamClosed => "Frame received for closed stream",
        ErrorCode::FrameSizeError => "Frame size incorrect",
        ErrorCode::RefusedStream => "Stream not processed",
        ErrorCode::Cancel => "Stream cancelled",
        ErrorCode::CompressionError => "Compression state not updated",
        ErrorCode::ConnectError => "TCP connection error for CONNECT method",
        ErrorCode::EnhanceYourCalm => "Processing capacity exceeded",
        ErrorCode::InadequateSecurity => "Negotiated TLS parameters not acceptable",
        ErrorCode::Http11Required => "Use HTTP/1.1 for the request",
        ErrorCode::Other(_) => "Unknown error number",
    }
}

pub(super) fn close_reason(code: ErrorCode) -> SessClose {
    match code {
        ErrorCode::NoError => SessClose::RemClose,
        ErrorCode::InternalError => SessClose::VclFailure,
        ErrorCode::FlowControlError | ErrorCode::EnhanceYourCalm => SessClose::Overload,
        ErrorCode::SettingsTimeout => SessClose::RxTimeout,
        ErrorCode::Http11Required => SessClose::ReqHttp20,
        ErrorCode::ProtocolError
        | ErrorCode::StreamClosed
        | ErrorCode::FrameSizeError
        | ErrorCode::RefusedStream
        | ErrorCode::Cancel
        | ErrorCode::CompressionError
        | ErrorCode::ConnectError
        | ErrorCode::InadequateSecurity
        | ErrorCode::Other(_) => SessClose::RxJunk,
    }
}

/// The reason of a session that ends for a fault.
pub(super) fn fault_reason(fault: &Http2Fault) -> SessClose {
    match fault.abuse {
        Some(Http2Abuse::RapidReset) => SessClose::RapidReset,
        _ => close_reason(fault.code),
    }
}

/// Counts connections that end for it.
pub(super) fn counter(abuse: Http2Abuse, main: &Main) -> &Counter {
    match abuse {
        Http2Abuse::RapidReset => &main.h2_abuse_rapid_reset,
        Http2Abuse::MadeReset => &main.h2_abuse_made_reset,
        Http2Abuse::Refused => &main.h2_abuse_refused,
        Http2Abuse::Continuation => &main.h2_abuse_continuation,
        Http2Abuse::SectionBytes => &main.h2_abuse_header_bytes,
        Http2Abuse::Settings => &main.h2_abuse_settings,
        Http2Abuse::Ping => &main.h2_abuse_ping,
        Http2Abuse::Priority => &main.h2_abuse_priority,
        Http2Abuse::EmptyData => &main.h2_abuse_empty_data,
        Http2Abuse::SmallData => &main.h2_abuse_small_data,
        Http2Abuse::WindowUpdate => &main.h2_abuse_window_update,
        Http2Abuse::SmallWindow => &main.h2_abuse_small_window,
        Http2Abuse::Ignored => &main.h2_abuse_ignored,
        Http2Abuse::Unread => &main.h2_abuse_unread,
    }
}

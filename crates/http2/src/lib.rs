// SPDX-License-Identifier: BSD-2-Clause
//! The HTTP/2 codec (RFC 9113) with HPACK (RFC 7541), for both ends of a connection. Bytes and events in, bytes and values out.
//!
//! Knows no socket and no clock: its owner gives it what was read and the time, and writes what it says. Bodies are never copied: DATA comes
//! out as ranges of the input, and goes in as nine bytes that the owner puts in front of its own.
//!
//! ```text
//! receive(input) -> Step { consumed, event }        until all is consumed; heads land in a message::Head
//! flush, output -> control frames and heads; wrote(n)
//! offer(stream), next_send -> Grant, send_data -> a DATA header
//! release(stream)                                    the owner is done with it
//! ```
//!
//! [`conn`] is the machine; [`fields`], [`hpack`], [`huffman`] and [`int`] are of use to HTTP/3, too.

#![cfg_attr(not(test), warn(clippy::shadow_unrelated, clippy::wildcard_enum_match_arm))]
#![warn(missing_docs)]

pub mod conn;
pub mod error;
pub mod fields;
pub mod frame;
pub mod hpack;
pub mod huffman;
pub mod int;
mod limits;
pub mod priority;
mod settings;

pub use conn::{Connection, Grant, Http2Config, Http2Event, Http2Scratch, ReceiveStep, StreamOpenError, Workspace};
pub use error::{ErrorCode, Http2Abuse, Http2Fault, StreamFault};
pub use frame::{FrameHeader, Http2FrameType, PREFACE};
pub use limits::{EventMeter, Http2AbuseLimits, RapidResetLimit};
pub use priority::Priority;
pub use settings::{DEFAULT_WINDOW, Http2Settings, MAX_WINDOW};

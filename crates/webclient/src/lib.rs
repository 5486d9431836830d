// SPDX-License-Identifier: BSD-2-Clause
//! A client for the few requests that programs beside the traffic make: to a certificate authority, to a collector of traces. A
//! connection for each request, for gRPC one for calls one after the other; blocking, bounded in time and size.

#![allow(clippy::disallowed_methods, reason = "beside the traffic: no simulation moves its time")]

mod answer;
mod grpc;
mod link;
mod target;

pub use answer::{Answer, talk};
pub use grpc::{Call, Channel, GrpcError};
pub use link::{Link, connect, in_words};
pub use sys::timed::Timed;
pub use target::{ClearText, Target};

use std::io;

pub(crate) fn junk(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

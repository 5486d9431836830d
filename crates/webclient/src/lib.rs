// SPDX-License-Identifier: BSD-2-Clause
//! A client for the few requests that programs beside the traffic make: to a certificate authority, to a collector of traces. A
//! connection for each request, for gRPC one for calls one after the other; blocking, bounded in time and size.

#![allow(clippy::disallowed_methods, reason = "beside the traffic: no simulation moves its time")]

mod answer;
mod grpc;
mod link;
mod target;

pub use answer::{WebResponse, talk, talk_to};
pub use grpc::{GrpcCall, GrpcChannel, GrpcError};
pub use link::{WebLink, connect, connect_where, in_words};
pub use sys::timed::Timed;
pub use target::{ClearText, WebTarget};

use std::io;

pub(crate) fn junk(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

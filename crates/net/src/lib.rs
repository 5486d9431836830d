// SPDX-License-Identifier: BSD-2-Clause
//! Listeners, streams, connectors and the PROXY protocol.
//!
//! A [`Stream`] belongs to the runtime of the thread that made it; between threads it travels [`ParkedStream`]. Whether it has a
//! descriptor, and whether that carries what is read and written as it is, only `stream` knows: who needs either asks for it
//! ([`Stream::socket_number`], [`Stream::zero_copy`]) and has another way.

#![cfg_attr(not(test), warn(clippy::shadow_unrelated, clippy::wildcard_enum_match_arm))]
#![warn(missing_docs)]

pub mod address;
pub mod connect;
pub mod handshake;
pub mod ktls;
pub mod listener;
#[cfg(test)]
#[allow(missing_docs, reason = "a test double, documented where its name needs it")]
#[path = "../../testkit-net/src/memory.rs"]
pub mod memory;
pub mod network;
pub mod proxy;
pub mod quic;
pub mod resolve;
pub mod scarce;
mod sealed;
pub mod stream;

pub use address::{Address, AddressText};
pub use connect::{ConnectError, ConnectTarget, connect};
pub use handshake::{HandshakeError, handshake};
pub use ktls::{KtlsOutcome, KtlsUse};
pub use listener::{Accept, AcceptFailure, Accepted, Listener};
pub use resolve::{NamedEndpoint, ResolveError, resolve};
pub use sealed::WriteFault;
pub use stream::{IdleState, IoError, Keepalive, ParkedStream, Socketless, Stream, ZeroCopy};

// The source of `testkit-net`'s streams, which this crate's own tests compile, too, names this crate by its name.
#[cfg(test)]
extern crate self as net;

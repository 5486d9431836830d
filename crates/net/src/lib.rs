// SPDX-License-Identifier: BSD-2-Clause
//! Listeners, streams, connectors and the PROXY protocol.
//!
//! A [`Stream`] belongs to the runtime of the thread that made it; between threads it travels as a [`Bare`] descriptor,
//! which is registered nowhere.

pub mod address;
pub mod connect;
pub mod listener;
pub mod proxy;
pub mod resolve;
pub mod stream;

pub use address::{Address, AddressText};
pub use connect::{ConnectError, Target, connect};
pub use listener::{Accept, Accepted, Listener};
pub use resolve::{Endpoint, ResolveError, resolve};
pub use stream::{Bare, IoError, Keepalive, Parked, Pending, Stream};

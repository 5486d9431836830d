// SPDX-License-Identifier: BSD-2-Clause
//! TLS without I/O: bytes of the network in, plaintext out, and the way back. The only crate that names types of rustls, whose
//! interface changes from release to release: the others see connections, certificates and settings of ours.
//!
//! A connection begins as a [`Handshake`], which rustls carries out, and becomes [`Traffic`]: our own record layer over the keys
//! that were agreed, which holds no buffer, and seals from the pieces that a body lies in.

pub mod bundle;
pub mod certificate;
pub mod challenge;
pub mod client;
mod compressed;
pub mod early;
pub mod error;
pub mod facts;
pub mod groups;
pub mod handshake;
pub mod hello;
pub mod hitch;
mod hybrid;
pub mod info;
pub mod keyring;
pub mod ktls;
pub mod leftover;
pub mod ocsp;
pub mod origin;
pub mod origin_keys;
pub mod over;
pub mod pem;
pub mod placeholder;
pub mod quic;
mod reason;
pub mod record;
pub mod revoked;
pub mod roots;
mod seal;
pub mod server;
mod sessions;
pub mod settings;
pub mod signer;
pub mod single;
#[cfg(test)]
#[path = "../../testkit-tls/src/world.rs"]
pub mod testing;
pub mod tickets;
pub mod traffic;
mod trust;
pub mod verify;
pub mod wanted;
pub mod websocket;
mod wire;

pub use bundle::Bundle;
pub use client::{ClientOptions, TlsClient};
pub use error::{ErrorKind, TlsError};
pub use handshake::{Handshake, HandshakeProgress};
pub use info::{HandshakeInfo, TlsVersion};
pub use keyring::Keyring;
pub use ktls::{KtlsAbility, KtlsKey};
pub use leftover::Leftover;
pub use over::Over;
pub use reason::TlsReason;
pub use server::{Certificates, ClientPolicy, NoCertificate, NothingLoaded, ServerOptions, TlsServer};
pub use single::Single;
pub use traffic::{OpenedRecord, Traffic};
pub use trust::{Spoken, Trust};

#[cfg(test)]
mod tests;

// The source of `testkit-tls`, which this crate's own tests compile, too, names this crate by its name.
#[cfg(test)]
extern crate self as tls;

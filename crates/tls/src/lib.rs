// SPDX-License-Identifier: BSD-2-Clause
//! TLS without I/O: bytes of the network in, plaintext out, and the way back. The only crate that names types of rustls, whose
//! interface changes from release to release: the others see connections, certificates and settings of ours.

pub mod certificate;
pub mod hello;
mod reason;

pub use reason::Reason;

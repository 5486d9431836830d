// SPDX-License-Identifier: BSD-2-Clause
//! Certificates that a certificate authority (CA) gives out by itself: ACME (RFC 8555), with renewal as the CA suggests (RFC 9773).
//!
//! Three parts, in different places:
//! * [`settings`] and [`store`] are the manager's: what the command line asks for, and the directory that only root reads.
//! * [`process`] is a short program of its own. It talks to the CA and has no other rights: no file, no listener. What is to be
//!   stored or shown to the CA it asks the manager for, by [`talk`].
//! * The answers to a CA's challenges are given by the worker (`tls::challenge`), before VCL.
//!
//! ```text
//! manager ──Begin──▶ process        names, and what is known of each
//!         ◀─Account─                 keep these credentials
//!         ◀─Challenge─ ──Done──▶     the worker knows the answer
//!         ◀─Issued── ──Done──▶       stored, and in use
//!         ◀─Standing─                when it goes on, and what went wrong
//! ```

#![allow(clippy::disallowed_methods, reason = "beside the traffic: no simulation moves its time")]

pub mod certificate;
mod http;
pub mod name;
mod order;
pub mod process;
pub mod schedule;
pub mod settings;
pub mod store;
pub mod talk;

pub use name::AcmeName;
pub use settings::AcmeSettings;
pub use store::AcmeStore;

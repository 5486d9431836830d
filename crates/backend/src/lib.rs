// SPDX-License-Identifier: BSD-2-Clause
//! Backends: endpoints, connection pools, probes, the director interface and `backend.list`.
//!
//! A fetch asks a [`Director`] for a [`Backend`] and the backend for a [`BackendConn`]; everything here is shared by all
//! threads of the worker. Knows nothing of VCL source, transactions or the cache.

#![cfg_attr(not(test), warn(clippy::shadow_unrelated, clippy::wildcard_enum_match_arm))]

mod backend;
pub mod buffers;
mod conn;
mod director;
mod endpoint;
mod env;
mod error;
mod exchange;
mod h1;
mod h2;
mod health;
mod list;
mod names;
mod pool;
mod probe;
mod registry;
mod request_signer;
pub mod responder;
mod sealing;
mod service;
mod spec;
mod trouble;

pub use backend::{Backend, ConnectOpts};
pub use conn::BackendConn;
pub use director::{Director, DirectorBase, Health, ResolveCtx, Summary, VclEvent};
pub use endpoint::{Endpoint, EndpointError};
pub use env::{BackendEnv, BackendParams, BackendServices, HeapServices};
pub use error::BackendConnectError;
pub use exchange::{
    BodyLen, BodyStatus, Data, Exchange, ExchangeAcct, ExchangeHeadError, ExchangeSendError, Received, RespLimits,
    ResponseBodyError, SendProgress, announced_length,
};
pub use h1::Http1;
pub use list::{AdminHealth, ListFlags, list_json, list_text, matching, parse_list_flags, set_health};
pub use params::timeouts::BackendLimits;
pub use pool::{LOCKS, Locks};
pub use registry::Backends;
pub use request_signer::{OutgoingBody, OutgoingRequest, RequestSigner, RequestSignerRef};
pub use responder::Responder;
pub use service::{Service, ServiceRef};
pub use spec::{BackendSpec, ProbeSpec, Via};
pub use trouble::BackendFault;

#[cfg(test)]
mod tests;

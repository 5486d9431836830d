// SPDX-License-Identifier: BSD-2-Clause
//! The transaction machine: sessions, requests, backend requests. Every HTTP version meets it at [`transport::Transport`].

#![cfg_attr(not(test), warn(clippy::shadow_unrelated))]

pub mod admission;
mod aux_attrs;
pub mod bereq;
pub mod bots;
mod caching;
pub mod choice;
pub mod classes;
pub mod cluster;
pub mod conn_queue;
pub mod contain;
pub mod costs;
pub mod current;
mod dictionaries;
mod drain;
pub mod early;
pub mod engine;
mod esi;
pub mod fetches;
pub mod forms;
mod gate;
pub mod hints;
pub mod httplog;
mod interim;
mod invalidations;
pub mod loops;
mod packer;
mod parts;
pub mod peers;
pub mod pool;
mod proxy_status;
pub mod queries;
mod random;
pub mod refreshes;
pub mod req;
pub mod reqbody;
pub mod requests;
mod response_filters;
pub mod serving;
pub mod sess;
pub mod sessions;
mod slices;
mod synthetic;
mod trace;
mod trailers;
pub mod transport;
mod uploads;
pub mod vars;
mod vcl_run;
mod vcls;

pub use caching::cache_params;
pub use drain::DrainWatch;
pub use engine::{Engine, EngineConfig};
pub use gate::CacheGate;
pub use random::Random;
pub use req::Req;
pub use req::explain::{TrialRequest, explain};
pub use sess::{ListenerInfo, Sess, SessTimeouts};
pub use transport::Transport;
pub use vcls::{Labels, ServerNames};

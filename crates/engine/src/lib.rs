// SPDX-License-Identifier: BSD-2-Clause
//! The transaction machine: sessions, requests, backend requests. Every HTTP version meets it at [`transport::Transport`].

pub mod bereq;
pub mod choice;
pub mod contain;
pub mod current;
pub mod door;
mod esi;
mod extra;
pub mod httplog;
mod interim;
mod random;
pub mod req;
pub mod reqbody;
mod response_filters;
pub mod sess;
pub mod shared;
mod spare;
pub mod transport;
pub mod turns;
pub mod vars;

pub use random::Random;
pub use req::Req;
pub use req::explain::{Question, explain};
pub use sess::{ListenerInfo, Sess, SessTimeouts};
pub use shared::{Engine, Labels};
pub use transport::Transport;

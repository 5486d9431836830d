// SPDX-License-Identifier: BSD-2-Clause
//! Front ends: one per HTTP version. Each turns its connections into requests for `engine` and the answers into bytes.

mod buffers;
mod conn;
mod h1;
mod output;
mod pace;
mod proxy;
mod send_limits;

pub use h1::{Accepted, serve};

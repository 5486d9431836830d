// SPDX-License-Identifier: BSD-2-Clause
//! Front ends: one per HTTP version. Each turns its connections into requests for `engine` and the answers into bytes.

mod h1;
mod output;
mod proxy;

pub use h1::{Accepted, serve};

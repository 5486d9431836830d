// SPDX-License-Identifier: BSD-2-Clause
//! A network without sockets: streams and datagrams within this process.

pub mod memory;
pub mod quic;

// SPDX-License-Identifier: BSD-2-Clause
//! The manager process: arguments, sockets, CLI, parameters, VCL sources, the worker's life. Never touches traffic.

pub mod checker;
mod fatal;
mod jail;
mod listen;
mod named;
mod options;
mod reply;
mod report;
mod stores;
mod usage;
mod vcls;
mod workdir;

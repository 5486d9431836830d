// SPDX-License-Identifier: BSD-2-Clause
//! Operating-system calls as safe types: sockets, descriptor passing, users, limits, memory maps, signals.
//!
//! This is one of the two crates that may use `unsafe`; each block proves itself. Nothing here knows HTTP, VCL or CLI.

// Wrapping system calls is what this crate is for; every use is a small function with a proof.
#![allow(unsafe_code)]

pub mod alloc;
pub mod arc_cell;
pub mod arena;
pub mod atomic;
pub mod blockfile;
pub mod confine;
pub mod cpu;
pub mod daemon;
pub mod disk;
pub mod extent;
pub mod fault;
pub mod fd;
pub mod holder;
pub mod ktls;
pub mod limits;
pub mod localtime;
pub mod map;
pub mod memory;
pub mod openat;
pub mod packet;
pub mod pages;
pub mod pidfile;
pub mod process;
pub mod secret;
pub mod sentinel;
pub mod signal;
pub mod sock;
pub mod splice;
pub mod syslog;
pub mod tcp;
pub mod timed;
pub mod tty;
pub mod udp;
pub mod uring;
pub mod user;
pub mod words;
pub mod zeroed;

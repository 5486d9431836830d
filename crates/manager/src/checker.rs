// SPDX-License-Identifier: BSD-2-Clause
//! VCL is checked in a short-lived process of this same program, with limits on CPU time and memory and as the jail's
//! user, so that no source can harm the manager, which never parses VCL itself.
//!
//! The checker reads a request on stdin, writes what it made to stdout, and what it has to say to stderr. Status 0: the
//! VCL is good, stdout holds the labels it returns to, the files of keys it names, which the manager reads itself (`originkeys`), and a bundle
//! of every source it read, for the worker to compile again. Status 2: it isn't, stderr says why.

mod child;
pub mod glob;
mod own;
mod parent;
mod sources;
mod wire;

pub use child::run as run_child;
pub use parent::{Checker, Outcome};
pub use sources::DiskSources;
pub use wire::{Good, Request, SINCE_4_1, Source};

/// The program name under which this executable is the checker.
pub const PROGRAM: &str = "lacquer-vcc";

/// The bundle's file within the directory of a VCL.
pub const BUNDLE: &str = "vcl.bundle";

// SPDX-License-Identifier: BSD-2-Clause
//! VCL is checked in a short-lived process of this same program, with limits on CPU time and memory and as the jail's user. No source can
//! harm the manager, which never parses VCL itself.
//!
//! The checker reads a request on stdin and writes its result to stdout and messages to stderr. Status 0: the VCL is valid. stdout has the
//! labels that it returns to, the key files that it names, which the manager reads itself (`originkeys`), and a bundle of every source it
//! read, which the worker compiles again. Status 2: the VCL is invalid, and stderr has the reason.

mod child;
pub mod glob;
mod own;
mod parent;
mod sources;
mod wire;

pub use child::run as run_child;
pub use parent::{CheckOutcome, Checker};
pub use sources::DiskSources;
pub use wire::{COMPAT, CheckRequest, CheckerSource, Good, SINCE_4_1};

/// Program name under which this executable is the checker.
pub const PROGRAM: &str = "lacquer-vcc";

/// Name of the bundle's file within a VCL's directory.
pub const BUNDLE: &str = "vcl.bundle";

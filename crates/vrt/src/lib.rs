// SPDX-License-Identifier: BSD-2-Clause
//! Runs VCL bytecode: values, conversions, ACLs, the machine, the vmod interface.

#![warn(missing_docs)]

pub mod acl;
mod arith;
pub mod convert;
pub mod ctx;
mod exec;
pub mod fields;
mod init;
mod known;
pub mod loaded;
pub mod machine;
mod memo;
mod params;
pub mod profile;
pub mod questions;
mod spec;
pub mod value;
pub mod vmod;

pub use self::params::param;
pub use ctx::{Ctx, Privates, VclFailure};
pub use loaded::{LoadError, LoadedVcl, VclLoadEnv, finish, load, load_waiting};
pub use machine::{Machine, RunOutcome, VclLocation};
pub use spec::{backend_spec, host_alone, probe_spec};
pub use tables::vclsubs::{Method, Return};
pub use tables::vclvars::{HeadId, Type, Var};
pub use value::{BackendRef, Blob, Text, Value};

#[cfg(test)]
mod tests;

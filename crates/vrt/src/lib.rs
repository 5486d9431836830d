// SPDX-License-Identifier: BSD-2-Clause
//! Runs VCL bytecode: values, conversions, regexes, ACLs, the machine, the vmod interface.

pub mod acl;
pub mod convert;
pub mod ctx;
pub mod loaded;
pub mod machine;
pub mod regex;
pub mod value;
pub mod vmod;

pub use ctx::{Ctx, Failure, Privates};
pub use loaded::{Env, LoadError, LoadedVcl, load};
pub use machine::{Action, Machine, Outcome};
pub use tables::vclvars::{HeadId, Method, Return, Type, Var};
pub use value::{BackendRef, Blob, Text, Value};

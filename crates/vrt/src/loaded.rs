// SPDX-License-Identifier: BSD-2-Clause
//! A program made ready to run in a worker: regexes and ACLs compiled, backends made, modules bound, `vcl_init` run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use backend::Director;
use vcl::program::{BackendDecl, ProbeDecl, Program};

use crate::acl::Acl;
use crate::regex::Regex;
use crate::vmod::{Object, PrivCell, Vmod};

/// What loading needs from the worker.
pub trait Env {
    /// Makes a backend (its display name is `vcl.name`); probing starts when the VCL gets warm.
    fn backend(&self, vcl: &str, decl: &BackendDecl, probe: Option<&ProbeDecl>) -> Arc<dyn Director>;

    /// The modules that exist.
    fn vmods(&self) -> &[&'static Vmod];
}

/// Why a program can't be loaded: the text for the CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError(pub String);

/// A VCL that can run.
pub struct LoadedVcl {
    /// The name given by `vcl.load`.
    pub name: String,
    /// Its program.
    pub program: Program,
    /// Its `backend` declarations, in order.
    pub backends: Vec<Arc<dyn Director>>,
    /// Its `acl` declarations, in order.
    pub acls: Vec<Arc<Acl>>,
    /// Its patterns, in order.
    pub regexes: Vec<Arc<Regex>>,
    pub(crate) trace: AtomicBool,
}

impl LoadedVcl {
    /// What `req.backend_hint` is at first.
    pub fn default_backend(&self) -> Option<&Arc<dyn Director>> {
        self.program.default_backend.and_then(|id| self.backends.get(id as usize))
    }

    /// Whether `VCL_trace` records are written (`-p feature=+trace`, `param.set vcc_...`).
    pub fn set_trace(&self, on: bool) {
        self.trace.store(on, Ordering::Relaxed);
    }
}

/// Makes `program` ready to run and runs its `vcl_init`.
///
/// # Errors
/// A pattern that no engine takes, a module or function that isn't built, a constructor or `vcl_init` that failed.
pub fn load(name: &str, program: Program, env: &dyn Env) -> Result<Arc<LoadedVcl>, LoadError> {
    let _ = (name, program, env);
    todo!()
}

/// Runs `vcl_fini`; objects are dropped with the last reference.
pub fn finish(vcl: &Arc<LoadedVcl>) {
    let _ = vcl;
    todo!()
}

#[allow(dead_code)]
struct Bound {
    objects: Vec<std::sync::OnceLock<Object>>,
    sites: Vec<PrivCell>,
}

// SPDX-License-Identifier: BSD-2-Clause
//! A program made ready to run in a worker: regexes and ACLs compiled, backends made, modules bound, `vcl_init` run.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use backend::{BackendSpec, Director, VclEvent};
use base::Clock;
use params::Params;
use shm::vsl::TxnLog;
use tables::vclsubs::Method;
use tables::vclvars::Type;
use tls::origin_keys::VclKeys;
use vcl::program::{AclDecl, BackendDecl, Callee, Program};
use vcl_regex::Regex;

use crate::acl::{Acl, AclDeclaration, AclFlags, DeclaredEntry};
use crate::ctx::VclFailure;
use crate::init::InitCtx;
use crate::known::{self, Prefilter};
use crate::machine::{Machine, RunOutcome};
use crate::profile::VclProfile;
use crate::spec::backend_spec;
use crate::value::Text;
use crate::vmod::{Constructor, Function, ObjectMethod, PrivCell, Vmod, VmodObject};

/// Services of the worker that loading needs.
pub trait VclLoadEnv {
    /// Makes a backend (its display name is `vcl.name`); probing starts when the VCL gets warm.
    fn backend(&self, vcl: &str, spec: BackendSpec) -> Arc<dyn Director>;

    /// Hands over the certificates and keys that a VCL's backends have.
    fn keys(&self, vcl: &str) -> VclKeys {
        let _ = vcl;
        VclKeys::default()
    }

    /// The modules that exist.
    fn vmods(&self) -> &[&'static Vmod];

    /// A log for what `vcl_init` and `vcl_fini` log: it belongs to no transaction.
    fn log(&self) -> TxnLog;

    /// Clock of the worker.
    fn clock(&self) -> Clock;

    /// The parameters of now.
    fn params(&self) -> Params {
        Params::default()
    }

    /// Values of `server.identity` and `server.hostname`.
    fn server_names(&self) -> (&str, &str) {
        ("", "")
    }

    /// Adds a ban, for `vcl_init` and `vcl_fini`.
    ///
    /// # Errors
    /// What is wrong with the expression.
    fn ban(&self, spec: &[u8]) -> Result<(), String> {
        let _ = spec;
        Err("Not available in vcl_init or vcl_fini".to_owned())
    }

    /// Makes backends while the VCL runs, for the modules that do; `None` where there are none to be had.
    fn backend_maker(&self) -> Option<BackendMaker> {
        None
    }
}

/// Makes a backend of the VCL of that name; it is cold.
pub type BackendMaker = Arc<dyn Fn(&str, BackendSpec) -> Arc<dyn Director> + Send + Sync>;

/// Reason why a program can't be loaded: the text for the CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError(pub String);

/// A VCL that can run.
pub struct LoadedVcl {
    /// The name given by `vcl.load`.
    pub name: String,
    /// The program that the VCL was compiled to.
    pub program: Program,
    /// Backends in the order of their declarations; `None` for `backend x none;`.
    pub backends: Vec<Option<Arc<dyn Director>>>,
    /// Certificates and keys of its backends.
    pub keys: VclKeys,
    /// ACLs in the order of their declarations.
    pub acls: Vec<Arc<Acl>>,
    /// Patterns in the program's order.
    pub regexes: Vec<Arc<Regex>>,
    pub(crate) stores: Vec<Text>,
    pub(crate) sieves: Vec<Prefilter>,
    /// For each name of a field, the first that is the same in lower case.
    pub(crate) same_fields: Vec<u16>,
    pub(crate) addresses: Vec<Option<SocketAddr>>,
    pub(crate) sites: Vec<BoundCall>,
    pub(crate) modules: Vec<PrivCell>,
    pub(crate) objects: Vec<OnceLock<VmodObject>>,
    directors: Mutex<Vec<Weak<dyn Director>>>,
    completions: Mutex<Vec<Completion>>,
    /// `vcl_init` has ended: from now on backends hear here that they are warm.
    is_ready: AtomicBool,
    backend_maker: Option<BackendMaker>,
    /// Cost of its lines, when asked.
    pub profile: VclProfile,
}

/// Work of a module once `vcl_init` has ended well.
type Completion = Box<dyn FnOnce() -> Result<(), VclFailure> + Send>;

pub(crate) struct BoundCall {
    pub import: u32,
    pub args: usize,
    pub void: bool,
    pub code: VmodCode,
    /// Not [`Func::is_local`]: how a trial names the call.
    pub outside: Option<Outside>,
    pub private: PrivCell,
}

/// A function with effects outside of its transaction.
pub(crate) struct Outside {
    /// `module.function`, or `object.method` with the object's name in VCL.
    pub name: String,
    pub returns: Type,
}

pub(crate) enum VmodCode {
    Function(Function),
    Constructor(Constructor, u32),
    Method(ObjectMethod, u32),
}

impl LoadedVcl {
    /// The initial value of `req.backend_hint`. `None` when it is declared as `none`, or there is none.
    pub fn default_backend(&self) -> Option<&Arc<dyn Director>> {
        self.program.default_backend.and_then(|id| self.backends.get(id as usize)?.as_ref())
    }

    /// Makes a module's director known to `backend.list` and to temperature events.
    pub fn add_director(&self, director: &Arc<dyn Director>) {
        let mut directors = self.directors.lock().unwrap_or_else(|e| e.into_inner());
        directors.retain(|known| known.strong_count() > 0);
        directors.push(Arc::downgrade(director));
    }

    /// Has a module complete an object of its own when `vcl_init` has ended well; what fails there fails the load.
    pub fn complete_later(&self, completion: impl FnOnce() -> Result<(), VclFailure> + Send + 'static) {
        self.completions.lock().unwrap_or_else(|e| e.into_inner()).push(Box::new(completion));
    }

    /// Makes a backend, known to `backend.list`. One that is made while the VCL runs is warm; one of `vcl_init` gets so
    /// with the VCL. `None` where that isn't possible (the checker).
    pub fn make_backend(&self, spec: BackendSpec) -> Option<Arc<dyn Director>> {
        let backend = (self.backend_maker.as_ref()?)(&self.name, spec);
        self.add_director(&backend);
        if self.is_ready.load(Ordering::Acquire) {
            backend.event(VclEvent::Warm);
        }
        Some(backend)
    }

    /// All backends and directors of this VCL that still exist.
    pub fn directors(&self) -> Vec<Arc<dyn Director>> {
        let made = self.directors.lock().unwrap_or_else(|e| e.into_inner());
        let own = self.backends.iter().flatten().cloned();
        own.chain(made.iter().filter_map(Weak::upgrade)).collect()
    }
}

/// Makes `program` ready to run and runs its `vcl_init`, which must not wait.
///
/// # Errors
/// See [`load_waiting`]; also a module that waits in `vcl_init`.
pub fn load(name: &str, program: Program, env: &dyn VclLoadEnv) -> Result<Arc<LoadedVcl>, LoadError> {
    let future = std::pin::pin!(load_waiting(name, program, env));
    let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
    match future.poll(&mut nobody) {
        std::task::Poll::Ready(loaded) => loaded,
        std::task::Poll::Pending => Err(failed(name, "vcl_init waits")),
    }
}

/// Makes `program` ready to run and runs its `vcl_init`.
///
/// # Errors
/// A pattern that no engine takes, a module or function that isn't built, a constructor or `vcl_init` that failed.
pub async fn load_waiting(name: &str, program: Program, env: &dyn VclLoadEnv) -> Result<Arc<LoadedVcl>, LoadError> {
    let vcl = Arc::new(bind(name, program, env)?);
    let mut ctx = InitCtx::new(env);
    let outcome = run_method(&vcl, Method::Init, &mut ctx).await;
    match outcome.and_then(|()| initialized(&vcl)) {
        Ok(()) => Ok(vcl),
        Err(VclFailure(reason)) => {
            // vcl_init may have got half way: vcl_fini runs in any case.
            let _ = run_method(&vcl, Method::Fini, &mut ctx).await;
            Err(failed(name, &reason))
        }
    }
}

fn failed(name: &str, reason: &str) -> LoadError {
    LoadError(format!("VCL \"{name}\" Failed initialization\nMessage:\n\t{reason}"))
}

fn initialized(vcl: &LoadedVcl) -> Result<(), VclFailure> {
    if let Some(n) = vcl.objects.iter().position(|o| o.get().is_none()) {
        return Err(format!("Object {} not initialized", vcl.program.objects[n].name).into());
    }
    let completions = std::mem::take(&mut *vcl.completions.lock().unwrap_or_else(|e| e.into_inner()));
    completions.into_iter().try_for_each(|completion| completion())?;
    vcl.is_ready.store(true, Ordering::Release);
    Ok(())
}

/// Runs `vcl_fini`; objects are dropped with the last reference. What fails in it is ignored.
pub fn finish(vcl: &Arc<LoadedVcl>, env: &dyn VclLoadEnv) {
    let mut ctx = InitCtx::new(env);
    let future = std::pin::pin!(run_method(vcl, Method::Fini, &mut ctx));
    let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
    let _ = future.poll(&mut nobody);
}

async fn run_method(vcl: &Arc<LoadedVcl>, method: Method, ctx: &mut InitCtx<'_>) -> Result<(), VclFailure> {
    let mut machine = Machine::new();
    machine.start(vcl, method);
    loop {
        match machine.run(ctx) {
            RunOutcome::Done(_) => return Ok(()),
            RunOutcome::Failed(failure) => return Err(failure),
            RunOutcome::OutOfBudget => {}
            RunOutcome::Wait(future) => {
                let value = future.await;
                machine.resume(value);
            }
        }
    }
}

fn bind(name: &str, program: Program, env: &dyn VclLoadEnv) -> Result<LoadedVcl, LoadError> {
    let mut regexes = Vec::with_capacity(program.constants.regexes.len());
    for pattern in &program.constants.regexes {
        let regex = Regex::new(pattern).map_err(|e| failed(name, &format!("Regexp compilation error: {}", e.text)))?;
        regexes.push(Arc::new(regex));
    }
    let mut acls = Vec::with_capacity(program.acls.len());
    for decl in &program.acls {
        acls.push(Arc::new(build_acl(decl).map_err(|reason| failed(name, &reason))?));
    }
    let sites = bind_calls(&program, env).map_err(|reason| failed(name, &reason))?;
    let keys = env.keys(name);
    let compat = env.params().compat();
    let make = |decl: &BackendDecl| Some(env.backend(name, backend_spec(&program, decl, &keys, compat)?));
    Ok(LoadedVcl {
        name: name.to_owned(),
        backends: program.backends.iter().map(make).collect(),
        sieves: program.lean.subjects.iter().map(|subject| Prefilter::new(subject, &program, &regexes)).collect(),
        same_fields: known::same_fields(&program),
        acls,
        regexes,
        stores: program.stores.iter().map(|s| Text::from(s.as_str())).collect(),
        addresses: program.constants.strings.iter().map(|s| std::str::from_utf8(s).ok()?.parse().ok()).collect(),
        sites,
        modules: program.imports.iter().map(|_| PrivCell::default()).collect(),
        objects: program.objects.iter().map(|_| OnceLock::new()).collect(),
        directors: Mutex::default(),
        completions: Mutex::default(),
        is_ready: AtomicBool::new(false),
        backend_maker: env.backend_maker(),
        keys,
        profile: VclProfile::default(),
        program,
    })
}

fn build_acl(decl: &AclDecl) -> Result<Acl, String> {
    let entry = |e: &vcl::program::AclEntry| DeclaredEntry {
        negated: e.negated,
        ignorable: e.ignorable,
        addr: e.addr.clone(),
        mask: e.mask,
    };
    let built = AclDeclaration {
        name: decl.name.clone(),
        flags: AclFlags { log: decl.log, pedantic: decl.pedantic, table: decl.table, fold: decl.fold },
        entries: decl.entries.iter().map(entry).collect(),
    };
    // Names were resolved when this was compiled; what didn't resolve then doesn't now.
    let mut resolve = |host: &str| -> Result<Vec<IpAddr>, String> {
        let same = |e: &&vcl::program::AclEntry| e.addr.split('/').next() == Some(host);
        let found = decl.entries.iter().filter(same).map(|e| e.resolved.clone()).find(|r| !r.is_empty());
        found.ok_or_else(|| "not resolved".to_owned())
    };
    Acl::build(&built, &mut resolve, &mut Vec::new()).map_err(|e| e.text)
}

fn bind_calls(program: &Program, env: &dyn VclLoadEnv) -> Result<Vec<BoundCall>, String> {
    let mut sites = Vec::with_capacity(program.calls.len());
    for call in &program.calls {
        let import = &program.imports[call.import as usize];
        let vmod = env.vmods().iter().find(|m| m.signature.name == import.module);
        let vmod = *vmod.ok_or_else(|| format!("module {} isn't built", import.module))?;
        let class = |object: u32| &program.objects[object as usize].class[..];
        let (code, name, func) = match &call.callee {
            Callee::Function(name) => (
                vmod.function(name).map(VmodCode::Function),
                format!("{}.{name}", import.module),
                vmod.signature.function(name),
            ),
            Callee::Constructor(object) => {
                let class = class(*object);
                let code = vmod.constructor(class).map(|new| VmodCode::Constructor(new, *object));
                (code, format!("{}.{class}", import.module), None)
            }
            Callee::Method(object, name) => {
                let func = vmod.signature.object(class(*object)).and_then(|object| object.method(name));
                let code = vmod.method(class(*object), name).map(|method| VmodCode::Method(method, *object));
                (code, format!("{}.{name}", program.objects[*object as usize].name), func)
            }
        };
        let code = code.ok_or_else(|| format!("{}: {name}() isn't built", import.module))?;
        let outside = func.filter(|func| !func.is_local).map(|_| Outside { name, returns: call.returns });
        let void = call.returns == Type::Void;
        let private = PrivCell::default();
        sites.push(BoundCall { import: call.import, args: call.args as usize, void, code, outside, private });
    }
    Ok(sites)
}

// SPDX-License-Identifier: BSD-2-Clause
//! A transaction for tests: heads, a log that can be read, and two small modules.

use std::sync::Arc;

use backend::{BackendSpec, Director, HeapServices};
use base::{Clock, Vxid};
use message::Head;
use shm::vsc::CounterSet;
use shm::vsl::{LogFormat, LogRing, Marker, Record, TxnLog};
use shm::vsm::{SegmentSet, SetOwner};
use tables::Tag;
use tables::vclsubs::Method;
use tables::vclvars::{HeadId, Var};
use testkit::ScratchDir;
use vcl::program::Program;

use crate::ctx::{Ctx, Privates, StoreProperty, VclFailure, VclWait};
use crate::loaded::{LoadedVcl, VclLoadEnv, load};
use crate::machine::{Machine, RunOutcome};
use crate::value::{BackendRef, Blob, Text, Value};
use crate::vmod::{Vmod, VmodCall, wait};

pub struct VrtWorld {
    pub vcl: Arc<LoadedVcl>,
    pub ctx: VrtTestCtx,
    machine: Machine,
    _dir: ScratchDir,
}

pub struct VrtTestCtx {
    pub req: Head,
    pub bereq: Head,
    pub beresp: Head,
    pub resp: Head,
    pub hash: Vec<u8>,
    pub body: Vec<u8>,
    pub log: TxnLog,
    ring: Arc<LogRing>,
    clock: Clock,
    task: Privates,
    hint: Value,
}

struct TestEnv {
    ring: Arc<LogRing>,
    backends: Arc<backend::Backends>,
}

crate::words! {
    enum Decoding { Identity = "IDENTITY" }
}

crate::vmod! {
    static BLOB = blob;

    object blob(decoding: Decoding = Identity, encoded: STRANDS) -> Text
        = |_: &mut VmodCall<'_>, _: &str, _: Decoding, text: Option<&Text>| text.cloned().ok_or_else(|| "no text".into()),
    methods {
        fn get() -> BLOB = |_: &Text, _: &mut VmodCall<'_>| None::<Blob>;
        fn encode() -> STRING = |text: &Text, _: &mut VmodCall<'_>| text.clone();
    }
}

crate::vmod! {
    static VTC = vtc;

    functions {
        fn sleep(_: DURATION) -> VOID, waits
            = |_: &mut VmodCall<'_>, _: f64| wait(std::future::pending::<Result<(), VclFailure>>());
        fn typesize(_: STRING) -> INT, pure = |_: &mut VmodCall<'_>, _: &[u8]| 8;
    }
}

static MODULES: vcl::Modules = vcl::Modules(&[&BLOB.signature, &VTC.signature]);

impl VclLoadEnv for TestEnv {
    fn backend(&self, vcl: &str, spec: BackendSpec) -> Arc<dyn Director> {
        self.backends.create(vcl, spec)
    }

    fn vmods(&self) -> &[&'static Vmod] {
        static ALL: [&Vmod; 2] = [&BLOB, &VTC];
        &ALL
    }

    fn log(&self) -> TxnLog {
        TxnLog::new(self.ring.clone(), Vxid::NONE, Marker::None)
    }

    fn clock(&self) -> Clock {
        Clock::manual()
    }
}

impl VrtWorld {
    pub fn new(vcl: &str) -> VrtWorld {
        VrtWorld::try_new(vcl).unwrap_or_else(|reason| panic!("{vcl}\n{reason}"))
    }

    pub fn try_new(text: &str) -> Result<VrtWorld, String> {
        VrtWorld::with(text, true)
    }

    pub fn with(text: &str, optimise: bool) -> Result<VrtWorld, String> {
        VrtWorld::of(VrtWorld::compile(text, optimise)?)
    }

    pub fn compile(text: &str, optimise: bool) -> Result<Program, String> {
        let text = text.replace("import probe_me;", "");
        let compiled = vcl::compile(
            "<vcl.inline>",
            text.as_bytes(),
            &vcl::NoSources,
            &vcl::CompileOptions { err_unref: false, optimise, modules: MODULES, ..vcl::CompileOptions::default() },
        );
        Ok(compiled.map_err(|d| d.to_string())?.program)
    }

    pub fn of(program: Program) -> Result<VrtWorld, String> {
        let dir = ScratchDir::new("vrt");
        let set = SegmentSet::create(dir.path(), SetOwner::Worker, 1, None).unwrap();
        let mut params = params::Params::default();
        params.set("vsl_space", "1M").unwrap();
        let ring = Arc::new(
            LogRing::create(&set, LogFormat::of_server(params.compat()), params.log_settings(), CounterSet::private())
                .unwrap(),
        );
        let services = Arc::new(HeapServices::default());
        let backends = backend::Backends::new(backend::BackendEnv {
            clock: Clock::manual(),
            services,
            compat: tables::Compat::default(),
        });
        let env = TestEnv { ring: ring.clone(), backends };
        let vcl = load("test", program, &env).map_err(|e| e.0)?;
        let mut ctx = VrtTestCtx {
            req: Head::new(),
            bereq: Head::new(),
            beresp: Head::new(),
            resp: Head::new(),
            hash: Vec::new(),
            body: Vec::new(),
            log: TxnLog::new(ring.clone(), Vxid(1001), Marker::Client),
            ring,
            clock: Clock::manual(),
            task: Privates::default(),
            hint: Value::Backend(None),
        };
        ctx.req.start_request(b"GET", b"/foo?a=1", b"HTTP/1.1").unwrap();
        ctx.req.set("Host", "example.com").unwrap();
        ctx.bereq.copy_from(&ctx.req);
        ctx.beresp.start_response(b"HTTP/1.1", 200).unwrap();
        ctx.resp.start_response(b"HTTP/1.1", 200).unwrap();
        Ok(VrtWorld { vcl, ctx, machine: Machine::new(), _dir: dir })
    }

    pub fn unmask(&mut self, change: &str) {
        let mut params = params::Params::default();
        params.set("vsl_mask", change).unwrap();
        self.ctx.ring.apply(params.log_settings());
    }

    pub fn start(&self, method: Method) -> Machine {
        let mut machine = Machine::new();
        machine.start(&self.vcl, method);
        machine
    }

    pub fn run(&mut self, method: Method) -> String {
        match self.finish(method) {
            RunOutcome::Done(action) => format!("{action:?}"),
            RunOutcome::Failed(failure) => format!("Failed({})", failure.0),
            RunOutcome::Wait(_) | RunOutcome::OutOfBudget => "Wait".to_owned(),
        }
    }

    pub fn finish(&mut self, method: Method) -> RunOutcome {
        self.machine.start(&self.vcl, method);
        loop {
            match self.machine.run(&mut self.ctx) {
                RunOutcome::OutOfBudget => {}
                outcome => return outcome,
            }
        }
    }

    pub fn end_at_once(&mut self, method: Method) -> Option<String> {
        let action = self.machine.end_at_once(&self.vcl, method, &mut self.ctx.log)?;
        Some(format!("{action:?}"))
    }

    /// Place where the last subroutine ended.
    pub fn ended_at(&self) -> Option<String> {
        self.machine.ended_at().map(|at| at.to_string())
    }

    /// The transaction's records so far, as `Tag data`.
    pub fn log_texts(&mut self) -> Vec<String> {
        self.ctx.log.flush();
        let text = |record: &Record| format!("{} {}", record.tag.name(), String::from_utf8_lossy(&record.data));
        self.ctx.ring.records().0.iter().map(text).collect()
    }
}

impl VrtTestCtx {
    fn pick(&mut self, id: HeadId) -> Option<&mut Head> {
        match id {
            HeadId::Req | HeadId::ReqTop => Some(&mut self.req),
            HeadId::Bereq => Some(&mut self.bereq),
            HeadId::Beresp => Some(&mut self.beresp),
            HeadId::Resp => Some(&mut self.resp),
            HeadId::Obj => None,
        }
    }
}

impl Ctx for VrtTestCtx {
    fn head(&mut self, id: HeadId) -> Option<&Head> {
        self.pick(id).map(|h| &*h)
    }

    fn edit(&mut self, id: HeadId) -> Option<(&mut Head, &mut TxnLog)> {
        let head = match id {
            HeadId::Req => &mut self.req,
            HeadId::Bereq => &mut self.bereq,
            HeadId::Beresp => &mut self.beresp,
            HeadId::Resp => &mut self.resp,
            HeadId::ReqTop | HeadId::Obj => return None,
        };
        Some((head, &mut self.log))
    }

    fn get(&mut self, var: Var) -> Value {
        match var {
            Var::ClientIp | Var::ServerIp | Var::RemoteIp => Value::Ip("127.0.0.1:80".parse().ok()),
            Var::ReqBackendHint => self.hint.clone(),
            Var::ReqRestarts | Var::ReqEsiLevel => Value::Int(0),
            Var::BereqUncacheable => Value::Bool(false),
            Var::BerespTtl => Value::Duration(120.0),
            Var::ReqXid | Var::BereqXid => Value::Int(1001),
            _ => Value::NULL,
        }
    }

    fn set(&mut self, var: Var, value: Value) -> Result<(), VclFailure> {
        if var == Var::ReqBackendHint {
            self.hint = value;
        }
        Ok(())
    }

    fn unset(&mut self, _: Var) -> Result<(), VclFailure> {
        Ok(())
    }

    fn body(&mut self, data: &[u8], append: bool) -> Result<(), VclFailure> {
        if !append {
            self.body.clear();
        }
        self.body.extend_from_slice(data);
        Ok(())
    }

    fn log(&mut self) -> &mut TxnLog {
        &mut self.log
    }

    fn hash_data(&mut self, data: Option<&[u8]>) {
        self.hash.extend_from_slice(data.unwrap_or(b"\0"));
    }

    fn pass_for(&mut self, seconds: f64) {
        self.log.putf(Tag::Ttl, format_args!("HFP {seconds}"));
    }

    fn ban(&mut self, _: &[u8]) -> Result<(), String> {
        Err("no bans here".to_owned())
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn task(&mut self) -> &mut Privates {
        &mut self.task
    }

    fn rollback(&mut self, _: HeadId) -> Result<(), VclFailure> {
        Ok(())
    }

    fn cache_req_body(&mut self, _: u64) -> Result<VclWait<bool>, VclFailure> {
        Err("no body".into())
    }

    fn purge(&mut self, _: f64, _: Option<f64>, _: Option<f64>) -> Result<i64, VclFailure> {
        Ok(0)
    }

    fn store(&mut self, _: &[u8], _: StoreProperty) -> Value {
        Value::Bytes(0)
    }

    fn resolve(&mut self, director: &BackendRef) -> Option<BackendRef> {
        Some(director.clone())
    }

    fn has_store(&mut self, _: &[u8]) -> bool {
        false
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! A transaction for tests: VCL is compiled, loaded with the real modules, and run over it.

use std::marker::PhantomData;
use std::sync::Arc;

use backend::{BackendSpec, Director, HeapServices};
use base::{Clock, Vxid};
use message::Head;
use shm::vsc::CounterSet;
use shm::vsl::{LogFormat, LogRing, Marker, Record, TxnLog};
use shm::vsm::{SegmentSet, SetOwner};
use testkit::ScratchDir;
use vrt::ctx::{RapidResets, StoreProperty, VclWait};
use vrt::vmod::Vmod;
use vrt::{
    BackendRef, Blob, Ctx, HeadId, LoadedVcl, Machine, Method, Privates, RunOutcome, Value, Var, VclFailure, VclLoadEnv,
};

pub use vcl::Modules as Signatures;

pub trait TestModules {
    const ALL: &'static [&'static Vmod];
    const MODULES: Signatures;
}

/// A VCL with some of the modules, and a transaction that it is run over.
pub struct VclWorld<M> {
    pub vcl: Arc<LoadedVcl>,
    pub ctx: TestCtx,
    _dir: ScratchDir,
    modules: PhantomData<M>,
}

/// A transaction that has only what modules ask for.
pub struct TestCtx {
    pub req: Head,
    pub bereq: Head,
    pub resp: Head,
    /// The TLVs of the PROXY header.
    pub tlvs: Vec<u8>,
    pub tls: Option<tls::HandshakeInfo>,
    pub resets: Option<RapidResets>,
    /// User and group of the peer.
    pub ids: Result<(u32, u32), String>,
    /// Calls of what changes the cache or the request.
    pub purged: Vec<String>,
    log: TxnLog,
    ring: Arc<LogRing>,
    clock: Clock,
    task: Privates,
    hint: Value,
}

struct TestEnv {
    modules: &'static [&'static Vmod],
    ring: Arc<LogRing>,
    clock: Clock,
    backends: Arc<backend::Backends>,
}

impl VclLoadEnv for TestEnv {
    fn backend(&self, vcl: &str, spec: BackendSpec) -> Arc<dyn Director> {
        self.backends.create(vcl, spec)
    }

    fn vmods(&self) -> &[&'static Vmod] {
        self.modules
    }

    fn log(&self) -> TxnLog {
        TxnLog::new(self.ring.clone(), Vxid::NONE, Marker::None)
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn backend_maker(&self) -> Option<vrt::loaded::BackendMaker> {
        let backends = self.backends.clone();
        Some(Arc::new(move |vcl, spec| backends.create(vcl, spec)))
    }
}

impl TestCtx {
    pub fn clock_mut(&mut self) -> &mut Clock {
        &mut self.clock
    }
}

impl<M: TestModules> VclWorld<M> {
    /// A VCL that must compile.
    pub fn new(vcl: &str) -> Self {
        Self::try_new(vcl).unwrap_or_else(|reason| panic!("{vcl}\n{reason}"))
    }

    pub fn try_new(text: &str) -> Result<Self, String> {
        let options = vcl::CompileOptions { err_unref: false, modules: M::MODULES, ..vcl::CompileOptions::default() };
        let compiled = vcl::compile("<vcl.inline>", text.as_bytes(), &vcl::NoSources, &options);
        let program = compiled.map_err(|d| d.to_string())?.program;
        let dir = ScratchDir::new("vmods");
        let set = SegmentSet::create(dir.path(), SetOwner::Worker, 1, None).expect("a segment set");
        let mut params = params::Params::default();
        params.set("vsl_space", "1M").expect("a size");
        params.set("vsl_mask", "+Debug").expect("a tag");
        let ring = Arc::new(
            LogRing::create(&set, LogFormat::of_server(params.compat()), params.log_settings(), CounterSet::private())
                .expect("a ring"),
        );
        let services = Arc::new(HeapServices::default());
        let backends = backend::Backends::new(backend::BackendEnv {
            clock: Clock::manual(),
            services,
            compat: tables::Compat::default(),
        });
        let clock = Clock::manual();
        let env = TestEnv { modules: M::ALL, ring: ring.clone(), clock: clock.clone(), backends };
        let vcl = vrt::load("test", program, &env).map_err(|e| e.0)?;
        let mut ctx = TestCtx {
            req: Head::new(),
            bereq: Head::new(),
            resp: Head::new(),
            tlvs: Vec::new(),
            tls: None,
            resets: None,
            ids: Err("not listening on a Unix domain socket".into()),
            purged: Vec::new(),
            log: TxnLog::new(ring.clone(), Vxid(1001), Marker::Client),
            ring,
            clock,
            task: Privates::default(),
            hint: Value::Backend(None),
        };
        ctx.req.start_request(b"GET", b"/foo?a=1", b"HTTP/1.1").expect("room");
        ctx.bereq.copy_from(&ctx.req);
        ctx.resp.start_response(b"HTTP/1.1", 200).expect("room");
        Ok(VclWorld { vcl, ctx, _dir: dir, modules: PhantomData })
    }

    /// A VCL with these declarations and this body of vcl_recv.
    pub fn with(declarations: &str, body: &str) -> Self {
        Self::new(&format!("vcl 4.1; {declarations} sub vcl_recv {{ {body} return (hash); }}"))
    }

    pub fn field(&self, name: &str) -> String {
        String::from_utf8_lossy(self.ctx.req.get(name).unwrap_or(b"<unset>")).into_owned()
    }

    /// The value that vcl_recv leaves in that field of the request; its end, if that isn't `return (hash)`.
    pub fn recv(&mut self, name: &str) -> String {
        let action = self.run(Method::Recv);
        if action == "Hash" { self.field(name) } else { action }
    }

    pub fn run(&mut self, method: Method) -> String {
        let mut machine = Machine::new();
        machine.start(&self.vcl, method);
        let ctx = &mut self.ctx;
        rt::run(async move {
            loop {
                match machine.run(ctx) {
                    RunOutcome::Done(action) => return format!("{action:?}"),
                    RunOutcome::Failed(failure) => return format!("Failed({})", failure.0),
                    RunOutcome::Wait(future) => machine.resume(future.await),
                    RunOutcome::OutOfBudget => {}
                }
            }
        })
        .expect("a runtime")
    }

    /// The records so far, as `Tag data`.
    pub fn log_texts(&mut self) -> Vec<String> {
        self.ctx.log.flush();
        let text = |record: &Record| format!("{} {}", record.tag.name(), String::from_utf8_lossy(&record.data));
        self.ctx.ring.records().0.iter().map(text).collect()
    }

    /// Ends the task: what modules keep for it goes.
    pub fn end_task(&mut self) {
        self.ctx.task.clear();
    }
}

impl Ctx for TestCtx {
    fn head(&mut self, id: HeadId) -> Option<&Head> {
        match id {
            HeadId::Req | HeadId::ReqTop => Some(&self.req),
            HeadId::Bereq => Some(&self.bereq),
            HeadId::Resp => Some(&self.resp),
            HeadId::Beresp | HeadId::Obj => None,
        }
    }

    fn edit(&mut self, id: HeadId) -> Option<(&mut Head, &mut TxnLog)> {
        match id {
            HeadId::Req => Some((&mut self.req, &mut self.log)),
            HeadId::Bereq => Some((&mut self.bereq, &mut self.log)),
            HeadId::Resp => Some((&mut self.resp, &mut self.log)),
            HeadId::ReqTop | HeadId::Beresp | HeadId::Obj => None,
        }
    }

    fn get(&mut self, var: Var) -> Value {
        match var {
            Var::ClientIp | Var::ServerIp => Value::Ip("192.0.2.1:1234".parse().ok()),
            Var::ReqBackendHint | Var::BereqBackend => self.hint.clone(),
            Var::ReqRestarts => Value::Int(0),
            Var::BereqHash => Value::Blob(Some(Blob::new([0x12; 32]))),
            _ => Value::NULL,
        }
    }

    fn set(&mut self, var: Var, value: Value) -> Result<(), VclFailure> {
        if matches!(var, Var::ReqBackendHint | Var::BereqBackend) {
            self.hint = value;
        }
        Ok(())
    }

    fn unset(&mut self, _: Var) -> Result<(), VclFailure> {
        Ok(())
    }

    fn body(&mut self, _: &[u8], _: bool) -> Result<(), VclFailure> {
        Ok(())
    }

    fn log(&mut self) -> &mut TxnLog {
        &mut self.log
    }

    fn hash_data(&mut self, _: Option<&[u8]>) {}

    fn ban(&mut self, spec: &[u8]) -> Result<(), String> {
        if spec == b"obj.status == 200" { Ok(()) } else { Err("No ban conditions found.".into()) }
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn task(&mut self) -> &mut Privates {
        &mut self.task
    }

    fn rollback(&mut self, id: HeadId) -> Result<(), VclFailure> {
        self.purged.push(format!("rollback {}", id.name()));
        Ok(())
    }

    fn peer_ids(&mut self) -> Result<(u32, u32), String> {
        self.ids.clone()
    }

    fn rapid_resets(&mut self, limit: Option<RapidResets>) -> Option<RapidResets> {
        let before = self.resets?;
        self.resets = limit.or(self.resets);
        Some(before)
    }

    fn tls(&mut self) -> Option<&tls::HandshakeInfo> {
        self.tls.as_ref()
    }

    fn proxy_tlvs(&mut self) -> Option<Vec<u8>> {
        Some(self.tlvs.to_vec())
    }

    fn cache_req_body(&mut self, limit: u64) -> Result<VclWait<bool>, VclFailure> {
        Ok(Box::pin(async move { limit >= 10 }))
    }

    fn purge(&mut self, ttl: f64, grace: Option<f64>, keep: Option<f64>) -> Result<i64, VclFailure> {
        self.purged.push(format!("purge {ttl} {grace:?} {keep:?}"));
        Ok(2)
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

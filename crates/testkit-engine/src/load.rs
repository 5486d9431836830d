// SPDX-License-Identifier: BSD-2-Clause
//! VCL from a text, and its backends.

use std::sync::Arc;

use backend::{BackendSpec, Backends, Director};
use base::{Clock, Vxid};
use engine::Engine;
use params::Params;
use shm::vsc::CounterSet;
use shm::vsl::{Marker, TxnLog};
use tables::counters::{Main, Vbe, Vcp};
use tables::tags::Tag;
use vrt::LoadedVcl;
use vrt::vmod::Vmod;

#[derive(Clone, Copy)]
pub struct EngineModules {
    pub all: &'static [&'static Vmod],
    pub signatures: vcl::Modules,
}

impl EngineModules {
    pub const NONE: EngineModules = EngineModules { all: &[], signatures: tables::vmods::Modules(&[]) };
}

/// Backends that log to the engine's log and count for themselves. They hold the engine.
pub fn backends(engine: &Arc<Engine>) -> Arc<Backends> {
    Backends::new(backend::BackendEnv {
        clock: engine.clock.clone(),
        services: Arc::new(Services(engine.clone(), Vcp::default())),
        compat: engine.params.load().compat(),
    })
}

/// Compiles and loads a VCL. One that has backends holds these, and they the engine: take it out of the engine at the end.
///
/// # Panics
/// It doesn't compile, or a module doesn't want to be loaded.
pub fn load(
    engine: &Arc<Engine>,
    backends: &Arc<Backends>,
    modules: EngineModules,
    name: &str,
    text: &str,
) -> Arc<LoadedVcl> {
    let options = vcl::CompileOptions {
        compat: engine.params.load().compat(),
        err_unref: false,
        modules: modules.signatures,
        ..vcl::CompileOptions::default()
    };
    let compiled = vcl::compile(name, text.as_bytes(), &vcl::NoSources, &options);
    let compiled = compiled.unwrap_or_else(|wrong| panic!("{name}: {}", wrong));
    let env = LoadEnv { engine, backends, modules };
    vrt::loaded::load(name, compiled.program, &env).unwrap_or_else(|error| panic!("{name}: {}", error.0))
}

struct Services(Arc<Engine>, Vcp);

impl backend::BackendServices for Services {
    fn params(&self) -> backend::BackendParams {
        (&**self.0.params.load()).into()
    }

    fn main(&self) -> &Main {
        self.0.main
    }

    fn pools(&self) -> &Vcp {
        &self.1
    }

    fn publish(&self, _vcl: &str, _backend: &str) -> CounterSet<Vbe> {
        CounterSet::private()
    }

    fn log_error(&self, text: &str) {
        self.0.log.write_one(Tag::Error, Vxid::NONE, Marker::None, text.as_bytes());
    }

    fn log_notice(&self, text: &str) {
        self.0.log.write_one(Tag::Notice, Vxid::NONE, Marker::None, text.as_bytes());
    }

    fn tell_operator(&self, _: &str) {}

    fn log_health(&self, text: &str) {
        self.0.log.write_one(Tag::BackendHealth, Vxid::NONE, Marker::None, text.as_bytes());
    }
}

struct LoadEnv<'a> {
    engine: &'a Arc<Engine>,
    backends: &'a Arc<Backends>,
    modules: EngineModules,
}

impl vrt::VclLoadEnv for LoadEnv<'_> {
    fn backend(&self, vcl: &str, spec: BackendSpec) -> Arc<dyn Director> {
        self.backends.create(vcl, spec)
    }

    fn vmods(&self) -> &[&'static Vmod] {
        self.modules.all
    }

    fn log(&self) -> TxnLog {
        TxnLog::new(self.engine.log.clone(), Vxid::NONE, Marker::None)
    }

    fn clock(&self) -> Clock {
        self.engine.clock.clone()
    }

    fn params(&self) -> Params {
        Params::clone(&self.engine.params.load())
    }
}

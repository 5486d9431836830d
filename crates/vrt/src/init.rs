// SPDX-License-Identifier: BSD-2-Clause
//! What `vcl_init` and `vcl_fini` see: no transaction, only the clock, a log and the server.

use base::Clock;
use message::Head;
use params::Params;
use shm::vsl::TxnLog;
use tables::Compat;
use tables::vclvars::{HeadId, Var};

use crate::ctx::{Ctx, Privates, StoreProperty, VclFailure, VclWait};
use crate::loaded::VclLoadEnv;
use crate::value::{BackendRef, Value};

pub(crate) struct InitCtx<'a> {
    env: &'a dyn VclLoadEnv,
    log: TxnLog,
    clock: Clock,
    task: Privates,
    params: Box<Params>,
}

impl<'a> InitCtx<'a> {
    pub fn new(env: &'a dyn VclLoadEnv) -> Self {
        InitCtx { env, log: env.log(), clock: env.clock(), task: Privates::default(), params: Box::new(env.params()) }
    }
}

fn nowhere<T>() -> Result<T, VclFailure> {
    Err(VclFailure::new("Not available in vcl_init or vcl_fini"))
}

impl Ctx for InitCtx<'_> {
    fn compat(&self) -> Compat {
        self.params.compat()
    }

    fn head(&mut self, _: HeadId) -> Option<&Head> {
        None
    }

    fn edit(&mut self, _: HeadId) -> Option<(&mut Head, &mut TxnLog)> {
        None
    }

    fn get(&mut self, var: Var) -> Value {
        let (identity, hostname) = self.env.server_names();
        match var {
            Var::ServerIdentity => Value::text(identity),
            Var::ServerHostname => Value::text(hostname),
            _ => crate::param(&self.params, var).unwrap_or(Value::NULL),
        }
    }

    fn set(&mut self, _: Var, _: Value) -> Result<(), VclFailure> {
        nowhere()
    }

    fn unset(&mut self, _: Var) -> Result<(), VclFailure> {
        nowhere()
    }

    fn body(&mut self, _: &[u8], _: bool) -> Result<(), VclFailure> {
        nowhere()
    }

    fn log(&mut self) -> &mut TxnLog {
        &mut self.log
    }

    fn hash_data(&mut self, _: Option<&[u8]>) {}

    fn is_coding_made(&mut self, coding: message::Coding) -> bool {
        self.params.supported_codings().has(coding)
    }

    fn ban(&mut self, spec: &[u8]) -> Result<(), String> {
        self.env.ban(spec)
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn task(&mut self) -> &mut Privates {
        &mut self.task
    }

    fn rollback(&mut self, _: HeadId) -> Result<(), VclFailure> {
        nowhere()
    }

    fn cache_req_body(&mut self, _: u64) -> Result<VclWait<bool>, VclFailure> {
        nowhere()
    }

    fn purge(&mut self, _: f64, _: Option<f64>, _: Option<f64>) -> Result<i64, VclFailure> {
        nowhere()
    }

    fn store(&mut self, _: &[u8], property: StoreProperty) -> Value {
        match property {
            StoreProperty::Happy => Value::Bool(false),
            StoreProperty::FreeSpace | StoreProperty::UsedSpace => Value::Bytes(0),
        }
    }

    fn resolve(&mut self, _: &BackendRef) -> Option<BackendRef> {
        None
    }

    fn has_store(&mut self, _: &[u8]) -> bool {
        false
    }
}

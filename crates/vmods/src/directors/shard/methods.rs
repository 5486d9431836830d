// SPDX-License-Identifier: BSD-2-Clause
//! The methods of shard and shard_param.

use std::sync::Arc;

use backend::{Director, Health};
use base::{Real, Vxid};
use shm::vsl::Marker;
use tables::Tag;
use vrt::vmod::{BACKEND, BOOL, CallResult, VOID, VmodCall, give};
use vrt::{BackendRef, Blob, Ctx, HeadId, Method, Value, Var, VclFailure};

use super::super::base;
use super::param::{Healthy, KeyFrom, Layer, Param, Resolve, own_mut};
use super::ring::{ChoiceInput, Member, Task};
use super::{DeferredArgs, KeySource, Shard, failed, wish};

/// Points for a member of weight 1 when nobody says.
const REPLICAS: i64 = 67;

vrt::vmod_args! {
    pub(in super::super) struct ShardArgs<'a> {
        by: [KeyFrom] as Option<KeyFrom>,
        key: [INT] as Option<i64>,
        key_blob: [BLOB] as Option<Option<&'a Blob>>,
        alt: [INT] as Option<i64>,
        warmup: [REAL] as Option<f64>,
        rampup: [BOOL] as Option<bool>,
        healthy: [Healthy] as Option<Healthy>,
    }
}

vrt::vmod_args! {
    pub(in super::super) struct Choice<'a> {
        by: [KeyFrom] as Option<KeyFrom> = Hash,
        key: [INT] as Option<i64>,
        key_blob: [BLOB] as Option<Option<&'a Blob>>,
        alt: [INT] as Option<i64> = 0,
        warmup: [REAL] as Option<f64> = (-1.0),
        rampup: [BOOL] as Option<bool> = true,
        healthy: [Healthy] as Option<Healthy> = Chosen,
        param: [BLOB] as Option<Option<&'a Blob>>,
        resolve: [Resolve] as Option<Resolve>,
    }
}

impl<'a> Choice<'a> {
    fn parameters(&self) -> ShardArgs<'a> {
        let Choice { by, key, key_blob, alt, warmup, rampup, healthy, param: _, resolve: _ } = *self;
        ShardArgs { by, key, key_blob, alt, warmup, rampup, healthy }
    }
}

pub(in super::super) fn new(call: &mut VmodCall<'_>, name: &str) -> Result<Arc<Shard>, VclFailure> {
    let shard = Arc::new(Shard::new(base(call, name)));
    let known: Arc<dyn Director> = shard.clone();
    call.vcl.add_director(&known);
    Ok(shard)
}

pub(in super::super) fn clear(shard: &Arc<Shard>, call: &mut VmodCall<'_>) -> bool {
    change(call, shard).tasks.push(Task::Clear);
    true
}

pub(in super::super) fn clear_param(param: &Arc<Param>, call: &mut VmodCall<'_>) -> CallResult<VOID> {
    put(call, param, "shard_param.clear()", |_, _| Ok(Layer::default()))
}

pub(in super::super) fn set_param(
    param: &Arc<Param>,
    call: &mut VmodCall<'_>,
    given: ShardArgs<'_>,
) -> CallResult<VOID> {
    put(call, param, "shard_param.set()", |call, name| read(call, &given, name, "shard_param.set()"))
}

pub(in super::super) fn key_of(param: &Arc<Param>, call: &mut VmodCall<'_>) -> i64 {
    let layer = param.layer(call.ctx.task());
    with_source(call, |source| wish(layer, source).key).into()
}

fn used(blob: &Blob) -> Option<Arc<Param>> {
    blob.own()?.clone().downcast().ok()
}

fn log(ctx: &mut dyn Ctx, tag: Tag, name: &str, text: &str) {
    ctx.log().putf(tag, format_args!("vmod_directors: shard {name}: {text}"));
}

/// A Debug record of no transaction. A trial isn't logged.
fn log_debug(ctx: &mut dyn Ctx, text: &str) {
    if ctx.trial().is_some() {
        return;
    }
    let text = format!("vmod_directors: shard: {text}");
    ctx.log().ring().write_one(Tag::Debug, Vxid::NONE, Marker::None, text.as_bytes());
}

fn is_housekeeping(method: Method) -> bool {
    matches!(method, Method::Init | Method::Fini)
}

/// True in subroutines where parameters can be set for one task: it has a bereq.
fn has_bereq(method: Method) -> bool {
    matches!(method, Method::Pipe | Method::BackendFetch | Method::BackendResponse | Method::BackendError)
}

/// Changes that a task has in mind; without `.reconfigure()` they come into force at its end.
struct Change {
    shard: Arc<Shard>,
    tasks: Vec<Task>,
}

impl Drop for Change {
    fn drop(&mut self) {
        if !self.tasks.is_empty() {
            self.shard.ring.write().reconfigure(&self.tasks, REPLICAS);
        }
    }
}

fn change<'a>(call: &'a mut VmodCall<'_>, shard: &Arc<Shard>) -> &'a mut Change {
    let key = Arc::as_ptr(shard) as usize;
    call.ctx.task().keyed(key, || Change { shard: shard.clone(), tasks: Vec::new() })
}

pub(in super::super) fn set_warmup(shard: &Arc<Shard>, call: &mut VmodCall<'_>, probability: f64) {
    if (0.0..1.0).contains(&probability) {
        shard.ring.write().warmup = probability;
    } else {
        log(call.ctx, Tag::Notice, object_name(shard), &format!(".set_warmup({probability:.6}) ignored"));
    }
}

fn object_name(shard: &Shard) -> &str {
    shard.base.name()
}

pub(in super::super) fn associate(
    shard: &Arc<Shard>,
    _: &mut VmodCall<'_>,
    param: Option<&Blob>,
) -> Result<(), VclFailure> {
    let param = match param {
        None => None,
        Some(blob) => match used(blob) {
            Some(param) => Some(param),
            None => return failed(object_name(shard), "shard .associate param invalid"),
        },
    };
    *shard.associated.write() = param;
    Ok(())
}

fn named(ident: &[u8]) -> Option<Box<[u8]>> {
    Some(ident).filter(|ident| !ident.is_empty()).map(Into::into)
}

pub(in super::super) fn add_backend(
    shard: &Arc<Shard>,
    call: &mut VmodCall<'_>,
    backend: Option<&BackendRef>,
    ident: &[u8],
    rampup: Option<f64>,
    weight: Option<f64>,
) -> CallResult<BOOL> {
    let Some(backend) = backend else {
        return failed(object_name(shard), "None backend cannot be added");
    };
    let mut share = 1.0;
    if let Some(weight) = weight {
        if weight >= 1.0 {
            share = weight;
        } else {
            let text = format!(".add_backend(weight={weight:.6}) ignored");
            log(call.ctx, Tag::Notice, object_name(shard), &text);
        }
    }
    let member = Member { backend: backend.clone(), ident: named(ident), rampup, replicas: 0 };
    change(call, shard).tasks.push(Task::Add(member, share));
    give(true)
}

pub(in super::super) fn remove_backend(
    shard: &Arc<Shard>,
    call: &mut VmodCall<'_>,
    backend: Option<&BackendRef>,
    ident: &[u8],
) -> CallResult<BOOL> {
    let (backend, ident) = (backend.cloned(), named(ident));
    if backend.is_none() && ident.is_none() {
        return failed(object_name(shard), ".remove_backend(): either backend or ident are required");
    }
    change(call, shard).tasks.push(Task::Remove(backend, ident));
    give(true)
}

pub(in super::super) fn reconfigure(shard: &Arc<Shard>, call: &mut VmodCall<'_>, replicas: i64) -> bool {
    let name = object_name(shard);
    if replicas <= 0 {
        log(call.ctx, Tag::Error, name, &format!(".reconfigure() invalid replicas argument {replicas}"));
        return false;
    }
    let tasks = std::mem::take(&mut change(call, shard).tasks);
    if tasks.is_empty() {
        return true;
    }
    let (notices, anybody) = shard.ring.write().reconfigure(&tasks, replicas);
    let circle = shard.ring.read().circle();
    circle.iter().for_each(|text| log_debug(call.ctx, text));
    notices.iter().for_each(|text| log(call.ctx, Tag::Notice, name, text));
    if !anybody {
        log(call.ctx, Tag::Error, name, ".reconfigure() no backends");
    }
    anybody
}

/// Parameters out of a call; logs what is only odd.
fn read(call: &mut VmodCall<'_>, given: &ShardArgs<'_>, name: &str, func: &str) -> Result<Layer, VclFailure> {
    let (layer, note) = Layer::read(given, name, func)?;
    if let Some(text) = note {
        log(call.ctx, Tag::Error, name, &text);
    }
    Ok(layer)
}

fn with_source<T>(call: &mut VmodCall<'_>, then: impl FnOnce(&KeySource<'_>) -> T) -> T {
    let has_bereq = has_bereq(call.method);
    let digest = match has_bereq.then(|| call.ctx.get(Var::BereqHash)) {
        Some(Value::Blob(Some(blob))) => blob.as_bytes().try_into().ok(),
        _ => None,
    };
    // vcl_pipe has both heads: it is the request's then.
    let head = if has_bereq && call.method != Method::Pipe { HeadId::Bereq } else { HeadId::Req };
    let url = call.ctx.head(head).map_or(&b""[..], |head| head.url());
    then(&KeySource { digest, url })
}

struct ImmediateChoice<'a> {
    ctx: &'a mut dyn Ctx,
    name: &'a str,
}

impl ChoiceInput for ImmediateChoice<'_> {
    fn now(&self) -> Real {
        self.ctx.clock().real()
    }
    fn health(&mut self, member: &Arc<dyn Director>) -> Health {
        Health { ok: self.ctx.healthy(member), ..member.healthy(self.now()) }
    }
    fn roll(&mut self) -> f64 {
        self.ctx.random()
    }
    fn error(&mut self, text: &str) {
        log(self.ctx, Tag::Error, self.name, text);
    }
    fn debug(&mut self, text: &str) {
        log_debug(self.ctx, text);
    }
}

pub(in super::super) fn backend(
    shard: &Arc<Shard>,
    call: &mut VmodCall<'_>,
    choice: Choice<'_>,
) -> CallResult<BACKEND> {
    let name = object_name(shard);
    let lazy = match choice.resolve {
        Some(resolve) => resolve == Resolve::Lazy,
        None => is_housekeeping(call.method),
    };
    let given = choice.parameters();
    let others = choice.param.is_some() || given.any();
    let itself: BackendRef = shard.clone();
    if lazy && !others {
        return give(itself);
    }
    if lazy && !has_bereq(call.method) {
        let text = ".backend(resolve=LAZY) with other parameters can only be used in backend/pipe context";
        return failed(name, text);
    }
    if !lazy && is_housekeeping(call.method) {
        return failed(name, ".backend(resolve=NOW) can not be used in vcl_init{}/vcl_fini{}");
    }
    let param = match choice.param {
        Some(param) => match param.and_then(used) {
            Some(param) => Some(param),
            None => return failed(name, ".backend(key_blob) param invalid"),
        },
        None => None,
    };
    let layer = read(call, &given, name, "shard.backend()")?;
    if lazy {
        let own: &mut DeferredArgs = own_mut(call.ctx.task(), &**shard);
        // Parameters named once stay until others are named.
        *own = DeferredArgs { layer, param: param.or(own.param.take()) };
        return give(itself);
    }
    let below = param.map_or_else(|| shard.layer(call.ctx.task()), |param| *param.vcl.lock());
    let wish = with_source(call, |source| wish(layer.over(below), source));
    let found = shard.pick(wish, &mut ImmediateChoice { ctx: call.ctx, name });
    give(found)
}

fn put(
    call: &mut VmodCall<'_>,
    param: &Arc<Param>,
    func: &str,
    make: impl FnOnce(&mut VmodCall<'_>, &str) -> Result<Layer, VclFailure>,
) -> CallResult<VOID> {
    if is_housekeeping(call.method) {
        let layer = make(call, &param.name)?;
        *param.vcl.lock() = layer;
        return give(());
    }
    if !has_bereq(call.method) {
        let text = format!("{func} may only be used in vcl_init and in backend/pipe context");
        return failed(&param.name, &text);
    }
    let layer = make(call, &param.name)?;
    *own_mut(call.ctx.task(), &**param) = layer;
    give(())
}

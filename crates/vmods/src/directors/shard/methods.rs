// SPDX-License-Identifier: BSD-2-Clause
//! The methods of shard and shard_param.

use std::sync::Arc;

use backend::{Director, Health};
use base::{Real, Vxid};
use shm::vsl::Marker;
use tables::Tag;
use vrt::vmod::{Call, CallResult, Class, Object};
use vrt::{Blob, Ctx, Failure, HeadId, Method, Value, Var};

use super::super::{base, hash32};
use super::param::{Layer, Param, own_mut};
use super::ring::{Dice, Member, Task};
use super::{KeySource, Lazy, Shard, failed, wish};
use crate::args::{Args, give};

/// Points for a member of weight 1 when nobody says.
const REPLICAS: i64 = 67;

pub(in super::super) const CLASS: Class = Class {
    name: "shard",
    new: |call, name, _| {
        let shard = Arc::new(Shard::new(base(call, name)));
        let known: Arc<dyn Director> = shard.clone();
        call.vcl.add_director(&known);
        Ok(shard)
    },
    methods: &[
        ("set_warmup", set_warmup),
        ("set_rampup", |_, object, args| {
            shard(object).ring.write().rampup = Args(args).real(0).max(0.0);
            give(Value::Void)
        }),
        ("associate", associate),
        ("add_backend", add_backend),
        ("remove_backend", remove_backend),
        ("clear", |call, object, _| {
            change(call, &shard(object)).tasks.push(Task::Clear);
            give(Value::Bool(true))
        }),
        ("reconfigure", reconfigure),
        ("key", |_, _, args| give(Value::Int(hash32(&[Args(args).bytes_of(0)]).into()))),
        ("backend", backend),
        ("debug", |_, object, args| {
            shard(object).ring.write().debug = Args(args).int(0) as u32;
            give(Value::Void)
        }),
    ],
};

pub(in super::super) const PARAM_CLASS: Class = Class {
    name: "shard_param",
    new: |_, name, _| Ok(Arc::new(Param::new(name))),
    methods: &[
        ("clear", |call, object, _| set_param(call, object, "shard_param.clear()", |_, _| Ok(Layer::default()))),
        ("set", |call, object, args| {
            set_param(call, object, "shard_param.set()", |call, name| read(call, args, name, "shard_param.set()"))
        }),
        ("get_by", |call, object, _| {
            let layer = param(object).layer(call.ctx.task());
            give(Value::text(layer.by.map_or("HASH", |by| by.word())))
        }),
        ("get_key", |call, object, _| {
            let layer = param(object).layer(call.ctx.task());
            let key = with_source(call, |source| wish(layer, source).key);
            give(Value::Int(key.into()))
        }),
        ("get_alt", |call, object, _| give(Value::Int(param(object).layer(call.ctx.task()).alt.unwrap_or(0)))),
        ("get_warmup", |call, object, _| {
            give(Value::Real(param(object).layer(call.ctx.task()).warmup.unwrap_or(-1.0)))
        }),
        ("get_rampup", |call, object, _| {
            give(Value::Bool(param(object).layer(call.ctx.task()).rampup.unwrap_or(true)))
        }),
        ("get_healthy", |call, object, _| {
            give(Value::text(param(object).layer(call.ctx.task()).healthy.map_or("CHOSEN", |healthy| healthy.word())))
        }),
        ("use", |_, object, _| give(Value::Blob(Some(Blob::of(param(object)))))),
    ],
};

fn shard(object: &Object) -> Arc<Shard> {
    object.clone().downcast().expect("made by this class")
}

fn param(object: &Object) -> Arc<Param> {
    object.clone().downcast().expect("made by this class")
}

/// The object behind `shard_param.use()`.
fn used(blob: &Blob) -> Option<Arc<Param>> {
    blob.own()?.clone().downcast().ok()
}

fn log(ctx: &mut dyn Ctx, tag: Tag, name: &str, text: &str) {
    ctx.log().putf(tag, format_args!("vmod_directors: shard {name}: {text}"));
}

/// A Debug record of no transaction.
fn log_debug(ctx: &mut dyn Ctx, text: &str) {
    let text = format!("vmod_directors: shard: {text}");
    ctx.log().ring().write_one(Tag::Debug, Vxid::NONE, Marker::None, text.as_bytes());
}

fn is_housekeeping(method: Method) -> bool {
    matches!(method, Method::Init | Method::Fini)
}

/// Where parameters can be set for one task: it has a bereq.
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

fn change<'a>(call: &'a mut Call<'_>, shard: &Arc<Shard>) -> &'a mut Change {
    let key = Arc::as_ptr(shard) as usize;
    call.ctx.task().keyed(key, || Change { shard: shard.clone(), tasks: Vec::new() })
}

fn set_warmup(call: &mut Call<'_>, object: &Object, args: &[Value]) -> CallResult {
    let (shard, probability) = (shard(object), Args(args).real(0));
    if (0.0..1.0).contains(&probability) {
        shard.ring.write().warmup = probability;
    } else {
        log(call.ctx, Tag::Notice, object_name(&shard), &format!(".set_warmup({probability:.6}) ignored"));
    }
    give(Value::Void)
}

fn object_name(shard: &Shard) -> &str {
    shard.base.name()
}

fn associate(_: &mut Call<'_>, object: &Object, args: &[Value]) -> CallResult {
    let shard = shard(object);
    let param = match Args(args).blob(0) {
        None => None,
        Some(blob) => match used(blob) {
            Some(param) => Some(param),
            None => return failed(object_name(&shard), "shard .associate param invalid"),
        },
    };
    *shard.associated.write() = param;
    give(Value::Void)
}

fn ident(args: Args<'_>, at: usize) -> Option<Box<[u8]>> {
    args.text(at).map(|text| text.as_bytes()).filter(|text| !text.is_empty()).map(Into::into)
}

/// `(backend, ident, rampup, weight)`
fn add_backend(call: &mut Call<'_>, object: &Object, args: &[Value]) -> CallResult {
    let (shard, args) = (shard(object), Args(args));
    let Some(backend) = args.backend(0) else {
        return failed(object_name(&shard), "None backend cannot be added");
    };
    let mut weight = 1.0;
    if args.given(3) {
        if args.real(3) >= 1.0 {
            weight = args.real(3);
        } else {
            let text = format!(".add_backend(weight={:.6}) ignored", args.real(3));
            log(call.ctx, Tag::Notice, object_name(&shard), &text);
        }
    }
    let rampup = args.given(2).then(|| args.real(2));
    let member = Member { backend: backend.clone(), ident: ident(args, 1), rampup, replicas: 0 };
    change(call, &shard).tasks.push(Task::Add(member, weight));
    give(Value::Bool(true))
}

/// `(backend, ident)`
fn remove_backend(call: &mut Call<'_>, object: &Object, args: &[Value]) -> CallResult {
    let (shard, args) = (shard(object), Args(args));
    let (backend, ident) = (args.backend(0).cloned(), ident(args, 1));
    if backend.is_none() && ident.is_none() {
        return failed(object_name(&shard), ".remove_backend(): either backend or ident are required");
    }
    change(call, &shard).tasks.push(Task::Remove(backend, ident));
    give(Value::Bool(true))
}

fn reconfigure(call: &mut Call<'_>, object: &Object, args: &[Value]) -> CallResult {
    let (shard, replicas) = (shard(object), Args(args).int(0));
    let name = object_name(&shard);
    if replicas <= 0 {
        log(call.ctx, Tag::Error, name, &format!(".reconfigure() invalid replicas argument {replicas}"));
        return give(Value::Bool(false));
    }
    let tasks = std::mem::take(&mut change(call, &shard).tasks);
    if tasks.is_empty() {
        return give(Value::Bool(true));
    }
    let (notices, anybody) = shard.ring.write().reconfigure(&tasks, replicas);
    let circle = shard.ring.read().circle();
    circle.iter().for_each(|text| log_debug(call.ctx, text));
    notices.iter().for_each(|text| log(call.ctx, Tag::Notice, name, text));
    if !anybody {
        log(call.ctx, Tag::Error, name, ".reconfigure() no backends");
    }
    give(Value::Bool(anybody))
}

/// Parameters out of a call; logs what is only odd.
fn read(call: &mut Call<'_>, args: &[Value], name: &str, func: &str) -> Result<Layer, Failure> {
    let (layer, note) = Layer::read(Args(args), name, func)?;
    if let Some(text) = note {
        log(call.ctx, Tag::Error, name, &text);
    }
    Ok(layer)
}

/// What keys are made of in this call's transaction.
fn with_source<T>(call: &mut Call<'_>, then: impl FnOnce(&KeySource<'_>) -> T) -> T {
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

/// A choice made in VCL.
struct Now<'a> {
    ctx: &'a mut dyn Ctx,
    name: &'a str,
}

impl Dice for Now<'_> {
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

/// `(by, key, key_blob, alt, warmup, rampup, healthy, param, resolve)`
fn backend(call: &mut Call<'_>, object: &Object, args: &[Value]) -> CallResult {
    let (shard, a) = (shard(object), Args(args));
    let name = object_name(&shard);
    let lazy = if a.given(8) { a.word(8) == "LAZY" } else { is_housekeeping(call.method) };
    let others = (0..8).any(|at| a.given(at));
    if lazy && !others {
        return give(Value::Backend(Some(shard.clone())));
    }
    if lazy && !has_bereq(call.method) {
        let text = ".backend(resolve=LAZY) with other parameters can only be used in backend/pipe context";
        return failed(name, text);
    }
    if !lazy && is_housekeeping(call.method) {
        return failed(name, ".backend(resolve=NOW) can not be used in vcl_init{}/vcl_fini{}");
    }
    let param = match a.blob(7).map(used) {
        Some(None) => return failed(name, ".backend(key_blob) param invalid"),
        None if a.given(7) => return failed(name, ".backend(key_blob) param invalid"),
        found => found.flatten(),
    };
    let layer = read(call, args, name, "shard.backend()")?;
    if lazy {
        let own: &mut Lazy = own_mut(call.ctx.task(), &*shard);
        // Parameters named once stay until others are named.
        *own = Lazy { layer, param: param.or(own.param.take()) };
        return give(Value::Backend(Some(shard.clone())));
    }
    let below = param.map_or_else(|| shard.layer(call.ctx.task()), |param| *param.vcl.lock());
    let wish = with_source(call, |source| wish(layer.over(below), source));
    let found = shard.pick(wish, &mut Now { ctx: call.ctx, name });
    give(Value::Backend(found))
}

fn set_param(
    call: &mut Call<'_>,
    object: &Object,
    func: &str,
    make: impl FnOnce(&mut Call<'_>, &str) -> Result<Layer, Failure>,
) -> CallResult {
    let param = param(object);
    if is_housekeeping(call.method) {
        let layer = make(call, &param.name)?;
        *param.vcl.lock() = layer;
        return give(Value::Void);
    }
    if !has_bereq(call.method) {
        let text = format!("{func} may only be used in vcl_init and in backend/pipe context");
        return failed(&param.name, &text);
    }
    let layer = make(call, &param.name)?;
    *own_mut(call.ctx.task(), &*param) = layer;
    give(Value::Void)
}

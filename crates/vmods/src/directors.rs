// SPDX-License-Identifier: BSD-2-Clause
//! vmod_directors(3).

pub(crate) mod members;
mod shard;
mod simple;

use std::sync::Arc;

use backend::{Director, DirectorBase};
use sha2::{Digest, Sha256};
use simple::{Kind, Simple};
use vrt::vmod::{Call, CallResult, Class, Object, Vmod};
use vrt::{Failure, Method, Value};

use crate::args::{Args, fail, give};

/// vmod_directors(3)
pub(crate) static VMOD: Vmod = Vmod {
    name: "directors",
    functions: &[("lookup", lookup)],
    classes: &[
        Class {
            name: "round_robin",
            new: |call, name, _| simple(call, name, Kind::RoundRobin),
            methods: &[("add_backend", add), ("remove_backend", remove), ("backend", itself)],
        },
        Class {
            name: "fallback",
            new: |call, name, args| simple(call, name, Kind::Fallback { sticky: Args(args).bool(0) }),
            methods: &[("add_backend", add), ("remove_backend", remove), ("backend", itself)],
        },
        Class {
            name: "random",
            new: |call, name, _| simple(call, name, Kind::Random),
            methods: &[("add_backend", add), ("remove_backend", remove), ("backend", itself)],
        },
        Class {
            name: "hash",
            new: |call, name, _| simple(call, name, Kind::Hash),
            methods: &[("add_backend", add), ("remove_backend", remove), ("backend", hash_backend)],
        },
        shard::CLASS,
        shard::PARAM_CLASS,
    ],
};

fn base(call: &mut Call<'_>, name: &str) -> DirectorBase {
    DirectorBase::new(&call.vcl.name, name, call.ctx.clock().real())
}

/// The last four octets of SHA-256, little-endian: what `hash` and `shard` have always placed texts by.
fn hash32(parts: &[&[u8]]) -> u32 {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    let digest = hash.finalize();
    u32::from_le_bytes([digest[28], digest[29], digest[30], digest[31]])
}

fn lookup(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    if !matches!(call.method, Method::Init | Method::Fini) {
        return fail("lookup() may only be called from vcl_init / vcl_fini");
    }
    let name = Args(args).bytes_of(0);
    let found = call.vcl.directors().into_iter().find(|director| director.name().as_bytes() == name);
    give(Value::Backend(found))
}

fn simple(call: &mut Call<'_>, name: &str, kind: Kind) -> Result<Object, Failure> {
    let director = Arc::new(Simple::new(base(call, name), kind));
    let known: Arc<dyn Director> = director.clone();
    call.vcl.add_director(&known);
    Ok(director)
}

fn this(object: &Object) -> Arc<Simple> {
    object.clone().downcast().expect("made by this class")
}

fn add(_: &mut Call<'_>, object: &Object, args: &[Value]) -> CallResult {
    let director = this(object);
    let Some(backend) = Args(args).backend(0) else {
        return fail(format!("{}: None backend cannot be added", director.name()));
    };
    let weight = if args.len() > 1 { Args(args).real(1) } else { 0.0 };
    director.add(backend.clone(), weight);
    give(Value::Void)
}

fn remove(_: &mut Call<'_>, object: &Object, args: &[Value]) -> CallResult {
    let director = this(object);
    let Some(backend) = Args(args).backend(0) else {
        return fail(format!("{}: None backend cannot be removed", director.name()));
    };
    director.remove(backend);
    give(Value::Void)
}

fn itself(_: &mut Call<'_>, object: &Object, _: &[Value]) -> CallResult {
    give(Value::Backend(Some(this(object))))
}

/// A text's place among the weights, 0 to 1.
fn place(text: &[u8]) -> f64 {
    f64::from(hash32(&[text])) / 4_294_967_296.0
}

/// Chosen at once, by the text.
fn hash_backend(call: &mut Call<'_>, object: &Object, args: &[Value]) -> CallResult {
    let place = place(Args(args).bytes_of(0));
    give(Value::Backend(this(object).by_weight(place, |member| call.ctx.healthy(member))))
}

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) use super::simple::tests::{Fake, stub};
}

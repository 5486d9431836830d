// SPDX-License-Identifier: BSD-2-Clause
//! vmod_var(3) of varnish-modules. Variables belong to a task; the global ones to the process, whatever VCL set them.

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::RwLock;
use vrt::vmod::{Call, CallResult, Vmod};
use vrt::{Text, Value};

use crate::args::{Args, fail, give};

/// Global variables there may be.
const MOST: usize = 100_000;

static GLOBAL: LazyLock<RwLock<HashMap<Text, Option<Text>>>> = LazyLock::new(RwLock::default);

/// vmod_var(3)
pub(crate) static VMOD: Vmod = Vmod {
    name: "var",
    classes: &[],
    functions: &[
        ("set", set_text),
        ("get", |call, args| get(call, args, Value::NULL)),
        ("global_set", global_set),
        ("global_get", |_, args| {
            let found = Args(args).text(0).and_then(|key| GLOBAL.read().get(key).cloned()).flatten();
            give(Value::String(found))
        }),
        ("set_int", set),
        ("get_int", |call, args| get(call, args, Value::Int(0))),
        ("set_string", set_text),
        ("get_string", |call, args| get(call, args, Value::NULL)),
        ("set_real", set),
        ("get_real", |call, args| get(call, args, Value::Real(0.0))),
        ("set_duration", set),
        ("get_duration", |call, args| get(call, args, Value::Duration(0.0))),
        ("set_ip", set),
        ("get_ip", |call, args| get(call, args, Value::Ip(None))),
        ("set_backend", set),
        ("get_backend", |call, args| get(call, args, Value::Backend(None))),
        ("clear", |call, _| {
            call.ctx.task().get::<Variables>().0.clear();
            give(Value::Void)
        }),
    ],
};

#[derive(Default)]
struct Variables(Vec<(Text, Value)>);

fn set(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    put(call, args, args[1].clone())
}

/// An unset text is kept as an empty one.
fn set_text(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    put(call, args, Value::String(Some(Args(args).text(1).cloned().unwrap_or(Text::EMPTY))))
}

fn put(call: &mut Call<'_>, args: &[Value], value: Value) -> CallResult {
    let Some(key) = Args(args).text(0) else { return give(Value::Void) };
    let variables = &mut call.ctx.task().get::<Variables>().0;
    match variables.iter_mut().find(|(name, _)| name == key) {
        Some((_, old)) => *old = value,
        None => variables.push((key.clone(), value)),
    }
    give(Value::Void)
}

fn get(call: &mut Call<'_>, args: &[Value], otherwise: Value) -> CallResult {
    let Some(key) = Args(args).text(0) else { return give(otherwise) };
    let variables = &call.ctx.task().get::<Variables>().0;
    let found = variables.iter().find(|(name, value)| name == key && value.ty() == otherwise.ty());
    give(found.map_or(otherwise, |(_, value)| value.clone()))
}

fn global_set(_: &mut Call<'_>, args: &[Value]) -> CallResult {
    let Some(key) = Args(args).text(0) else { return give(Value::Void) };
    let mut global = GLOBAL.write();
    if global.len() >= MOST && !global.contains_key(key) {
        return fail(format!("vmod_var: more than {MOST} global variables"));
    }
    global.insert(key.clone(), Args(args).text(1).cloned());
    give(Value::Void)
}

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_var(3) of varnish-modules. Variables belong to a task; the global ones to the process, whatever VCL set them.

use std::net::SocketAddr;
use std::sync::LazyLock;

use parking_lot::RwLock;
use vrt::vmod::{CallResult, STRING, VOID, VmodCall, give};
use vrt::{BackendRef, Method, Text, Value};

use vmod_support::bounded::{BoundedMap, Worth};

/// Global variables there may be; one more takes the place of another, unless vcl_init set that.
const MAX: usize = 100_000;

/// Texts, and whether vcl_init set them.
type Globals = BoundedMap<Text, (Option<Text>, bool)>;

static GLOBAL: LazyLock<RwLock<Globals>> = LazyLock::new(RwLock::default);

vrt::vmod! {
    /// Variables of a request or fetch, and global variables
    pub(crate) static VMOD = var;

    functions {
        /// Sets a variable of this request or fetch
        fn set(key: STRING, value: STRING) -> VOID, local = set_text;

        /// Returns a string; unset if it doesn't exist
        fn get(_: STRING) -> STRING, local = get_text;

        /// Sets a string for all requests of all VCLs. There may be 100,000 of them; one more replaces another that wasn't
        /// set in vcl_init
        fn global_set(_: STRING, _: STRING) -> VOID = global_set;

        /// Returns a global string; unset if it doesn't exist
        fn global_get(_: STRING) -> STRING, local = global_get;

        /// Sets a variable of this request or fetch
        fn set_int(key: STRING, value: INT) -> VOID, local
            = |call: &mut VmodCall<'_>, key: Option<&Text>, value: i64| put(call, key, Value::Int(value));

        /// Returns an integer; 0 if it doesn't exist
        fn get_int(key: STRING) -> INT, local = get_int;

        /// Sets a variable of this request or fetch
        fn set_string(key: STRING, value: STRING) -> VOID, local = set_text;

        /// Same as get
        fn get_string(key: STRING) -> STRING, local = get_text;

        /// Sets a variable of this request or fetch
        fn set_real(key: STRING, value: REAL) -> VOID, local
            = |call: &mut VmodCall<'_>, key: Option<&Text>, value: f64| put(call, key, Value::Real(value));

        /// Returns a real number; 0 if it doesn't exist
        fn get_real(key: STRING) -> REAL, local = get_real;

        /// Sets a variable of this request or fetch
        fn set_duration(key: STRING, value: DURATION) -> VOID, local
            = |call: &mut VmodCall<'_>, key: Option<&Text>, value: f64| put(call, key, Value::Duration(value));

        /// Returns a duration; 0 if it doesn't exist
        fn get_duration(key: STRING) -> DURATION, local = get_duration;

        /// Sets a variable of this request or fetch
        fn set_ip(key: STRING, value: IP) -> VOID, local
            = |call: &mut VmodCall<'_>, key: Option<&Text>, value: Option<SocketAddr>| put(call, key, Value::Ip(value));

        /// Returns an address; unset if it doesn't exist
        fn get_ip(key: STRING) -> IP, local = get_ip;

        /// Sets a variable of this request or fetch
        fn set_backend(key: STRING, value: BACKEND) -> VOID, local
            = |call: &mut VmodCall<'_>, key: Option<&Text>, value: Option<&BackendRef>| put(call, key, Value::Backend(value.cloned()));

        /// Returns a backend; unset if it doesn't exist
        fn get_backend(key: STRING) -> BACKEND, local = get_backend;

        /// Removes all variables of this request or fetch
        fn clear() -> VOID, local = clear;
    }
}

fn global_get(_: &mut VmodCall<'_>, text: Option<&Text>) -> CallResult<STRING> {
    let found = text.and_then(|key| GLOBAL.read().get(key)?.0.clone());
    give(found)
}

fn clear(call: &mut VmodCall<'_>) -> CallResult<VOID> {
    call.ctx.task().get::<Variables>().0.clear();
    give(())
}

#[derive(Default)]
struct Variables(Vec<(Text, Value)>);

/// An unset text is kept as an empty one.
fn set_text(call: &mut VmodCall<'_>, key: Option<&Text>, value: Option<&Text>) {
    put(call, key, Value::String(Some(value.cloned().unwrap_or(Text::EMPTY))));
}

fn put(call: &mut VmodCall<'_>, key: Option<&Text>, value: Value) {
    let Some(key) = key else { return };
    let variables = &mut call.ctx.task().get::<Variables>().0;
    match variables.iter_mut().find(|(name, _)| name == key) {
        Some((_, old)) => *old = value,
        None => variables.push((key.clone(), value)),
    }
}

/// The variable of that name, if it is of the type that `of` reads.
fn get<T>(call: &mut VmodCall<'_>, key: Option<&Text>, of: impl Fn(&Value) -> Option<T>) -> Option<T> {
    let variables = &call.ctx.task().get::<Variables>().0;
    variables.iter().filter(|(name, _)| Some(name) == key).find_map(|(_, value)| of(value))
}

fn get_text(call: &mut VmodCall<'_>, key: Option<&Text>) -> Option<Text> {
    get(call, key, |value| if let Value::String(text) = value { Some(text.clone()) } else { None }).flatten()
}

fn get_int(call: &mut VmodCall<'_>, key: Option<&Text>) -> i64 {
    get(call, key, |value| if let Value::Int(number) = value { Some(*number) } else { None }).unwrap_or(0)
}

fn get_real(call: &mut VmodCall<'_>, key: Option<&Text>) -> f64 {
    get(call, key, |value| if let Value::Real(number) = value { Some(*number) } else { None }).unwrap_or(0.0)
}

fn get_duration(call: &mut VmodCall<'_>, key: Option<&Text>) -> f64 {
    get(call, key, |value| if let Value::Duration(seconds) = value { Some(*seconds) } else { None }).unwrap_or(0.0)
}

fn get_ip(call: &mut VmodCall<'_>, key: Option<&Text>) -> Option<SocketAddr> {
    get(call, key, |value| if let Value::Ip(ip) = value { Some(*ip) } else { None }).flatten()
}

fn get_backend(call: &mut VmodCall<'_>, key: Option<&Text>) -> Option<BackendRef> {
    get(call, key, |value| if let Value::Backend(backend) = value { Some(backend.clone()) } else { None }).flatten()
}

fn global_set(call: &mut VmodCall<'_>, text: Option<&Text>, text2: Option<&Text>) {
    let Some(key) = text else { return };
    let mut global = GLOBAL.write();
    let is_kept = call.method == Method::Init || global.get(key).is_some_and(|(_, is_kept)| *is_kept);
    if !global.contains_key(key) {
        global.make_room(MAX, |(_, is_kept)| if *is_kept { Worth::Kept } else { Worth::Some(0.0) });
    }
    global.insert(key.clone(), (text2.cloned(), is_kept));
}

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_utils of Varnish Enterprise.

use vrt::vmod::{Call, CallResult, Vmod};
use vrt::{Text, Value};

use crate::args::{Args, give};
use crate::standard::strftime;

/// vmod_utils
pub(crate) static VMOD: Vmod = Vmod {
    name: "utils",
    classes: &[],
    functions: &[
        ("newline", |_, _| give(Value::text("\n"))),
        ("time_format", time_format),
        ("fast_304", |call, _| {
            call.ctx.fast_304()?;
            give(Value::Void)
        }),
        ("is_fast_304", |call, _| give(Value::Bool(call.ctx.is_fast_304()))),
        ("resolve_backend", |call, args| {
            let director = Args(args).backend(0);
            give(Value::Backend(director.and_then(|director| call.ctx.resolve(director))))
        }),
    ],
};

fn time_format(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let args = Args(args);
    let (format, is_local) = (args.bytes_of(0), args.bool(1));
    let time = if args.given(2) { args.real(2) } else { call.ctx.clock().real().0 };
    let text = if is_local { local(format, time) } else { strftime::format(time, format).map(Text::from) };
    give(Value::String(text))
}

fn local(format: &[u8], time: f64) -> Option<Text> {
    let format = std::str::from_utf8(format).ok()?;
    sys::localtime::format(format, time.floor() as i64).map(Text::from)
}

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_xkey(3) of varnish-modules; the index is the cache's.

use vrt::Value;
use vrt::vmod::{Call, CallResult, Vmod};

use crate::args::{Args, give, wait};

/// vmod_xkey(3)
pub(crate) static VMOD: Vmod = Vmod {
    name: "xkey",
    classes: &[],
    functions: &[("purge", |call, args| purge(call, args, false)), ("softpurge", |call, args| purge(call, args, true))],
};

fn purge(call: &mut Call<'_>, args: &[Value], soft: bool) -> CallResult {
    let keys = Args(args).bytes_of(0);
    if keys.is_empty() {
        return give(Value::Int(0));
    }
    let keys: Vec<&[u8]> = message::tags::words(keys).collect();
    let purge = call.ctx.purge_tags(&keys, soft)?;
    wait(async move { Ok(Value::Int(purge.await)) })
}

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_xkey(3) of varnish-modules; the index is the cache's.

use vrt::vmod::{CallResult, INT, VmodCall, give, wait};

vrt::vmod! {
    /// Purges by the keys in the response's xkey (or X-HashTwo) headers. Objects that were stored before a VCL with this
    /// import was loaded have none. The memory of keys isn't part of a store: XKEY.g_bytes counts it
    pub(crate) static VMOD = xkey;

    needs { Tags, KeyFields }

    functions {
        /// Purges all objects that have any of these keys, separated by blanks or commas; returns their number
        fn purge(keys: STRING) -> INT, waits = |call: &mut VmodCall<'_>, keys: &[u8]| purge(call, keys, false);

        /// Makes these objects stale and keeps grace and keep; returns how many were fresh
        fn softpurge(keys: STRING) -> INT, waits = |call: &mut VmodCall<'_>, keys: &[u8]| purge(call, keys, true);
    }
}

fn purge(call: &mut VmodCall<'_>, keys: &[u8], soft: bool) -> CallResult<INT> {
    if keys.is_empty() {
        return give(0);
    }
    let keys: Vec<&[u8]> = message::tags::words(keys).collect();
    let purge = call.ctx.purge_tags(&keys, soft)?;
    wait(async move { Ok(purge.await) })
}

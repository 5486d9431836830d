// SPDX-License-Identifier: BSD-2-Clause
//! vmod_xkey(3) of varnish-modules; the index is the cache's.

use vrt::vmod::{Call, CallResult, INT, give, wait};

vrt::vmod! {
    /// Purging by the keys in the response's xkey (or X-HashTwo) fields. Objects stored before a VCL with this import was
    /// loaded have none. What keys take in memory isn't part of a store's size: XKEY.g_bytes counts it
    pub(crate) static VMOD = xkey;

    needs { Tags, KeyFields }

    functions {
        /// Purges all objects with any of these keys, between blanks or commas; says how many
        fn purge(keys: STRING) -> INT, waits = |call: &mut Call<'_>, keys: &[u8]| purge(call, keys, false);

        /// Takes their ttl, leaving grace and keep; says how many were fresh
        fn softpurge(keys: STRING) -> INT, waits = |call: &mut Call<'_>, keys: &[u8]| purge(call, keys, true);
    }
}

fn purge(call: &mut Call<'_>, keys: &[u8], soft: bool) -> CallResult<INT> {
    if keys.is_empty() {
        return give(0);
    }
    let keys: Vec<&[u8]> = message::tags::words(keys).collect();
    let purge = call.ctx.purge_tags(&keys, soft)?;
    wait(async move { Ok(purge.await) })
}

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_tags: purging by tags, however they were given, and by URLs, which are tags, too (`tag_urls`).

use vrt::vmod::{Call, CallResult, INT, give, wait};

vrt::vmod! {
    /// Purging by the tags that tag_fields and beresp.tags give objects, and by the URLs that were asked for (parameter tag_urls). Each
    /// function says how many objects it hit. A hard purge takes them out of the cache; a soft one takes their ttl only, so that grace and keep
    /// go on, and counts those that had some
    pub(crate) static VMOD = tags;

    needs { Tags }

    functions {
        /// Purges the objects with any of these tags, between blanks or commas
        fn purge(tags: STRING, soft: BOOL = false) -> INT, waits
            = |call: &mut Call<'_>, tags: &[u8], soft: bool| purge(call, &message::tags::words(tags).collect::<Vec<_>>(), soft);

        /// Purges all objects of a URL, as in tags.purge_url(req.http.host, req.url)
        fn purge_url(host: STRING, url: STRING, soft: BOOL = false) -> INT, waits
            = |call: &mut Call<'_>, host: &[u8], url: &[u8], soft: bool| purge(call, &[&message::tags::of_url(host, url)], soft);

        /// Purges the objects of all URLs at a host
        fn purge_host(host: STRING, soft: BOOL = false) -> INT, waits
            = |call: &mut Call<'_>, host: &[u8], soft: bool| purge(call, &[&message::tags::of_prefix(host, b"")], soft);

        /// Purges the objects of all URLs at a host that begin so
        fn purge_prefix(host: STRING, prefix: STRING, soft: BOOL = false) -> INT, waits
            = |call: &mut Call<'_>, host: &[u8], prefix: &[u8], soft: bool| purge(call, &[&message::tags::of_prefix(host, prefix)], soft);
    }
}

fn purge(call: &mut Call<'_>, tags: &[&[u8]], soft: bool) -> CallResult<INT> {
    if tags.is_empty() {
        return give(0);
    }
    let purge = call.ctx.purge_tags(tags, soft)?;
    wait(async move { Ok(purge.await) })
}

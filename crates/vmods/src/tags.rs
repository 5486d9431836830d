// SPDX-License-Identifier: BSD-2-Clause
//! vmod_tags: purging by tags, however they were given, and by URLs, which are tags, too (`tag_urls`).

use vrt::vmod::{CallResult, INT, VmodCall, give, wait};

vrt::vmod! {
    /// Purges by the tags of objects (tag_fields, beresp.tags) and by requested URLs (parameter tag_urls). Each function
    /// returns the number of objects that it hit. A hard purge removes them; a soft one makes them stale, keeps grace and
    /// keep, and counts only those that were fresh
    pub(crate) static VMOD = tags;

    needs { Tags }

    functions {
        /// Purges the objects that have any of these tags, separated by blanks or commas
        fn purge(tags: STRING, soft: BOOL = false) -> INT, waits
            = |call: &mut VmodCall<'_>, tags: &[u8], soft: bool| purge(call, &message::tags::words(tags).collect::<Vec<_>>(), soft);

        /// Purges all objects of a URL, such as tags.purge_url(req.http.host, req.url)
        fn purge_url(host: STRING, url: STRING, soft: BOOL = false) -> INT, waits
            = |call: &mut VmodCall<'_>, host: &[u8], url: &[u8], soft: bool| purge(call, &[&message::tags::of_url(host, url)], soft);

        /// Purges the objects of all URLs of a host
        fn purge_host(host: STRING, soft: BOOL = false) -> INT, waits
            = |call: &mut VmodCall<'_>, host: &[u8], soft: bool| purge(call, &[&message::tags::of_prefix(host, b"")], soft);

        /// Purges the objects of all URLs of a host with this prefix
        fn purge_prefix(host: STRING, prefix: STRING, soft: BOOL = false) -> INT, waits
            = |call: &mut VmodCall<'_>, host: &[u8], prefix: &[u8], soft: bool| purge(call, &[&message::tags::of_prefix(host, prefix)], soft);
    }
}

fn purge(call: &mut VmodCall<'_>, tags: &[&[u8]], soft: bool) -> CallResult<INT> {
    if tags.is_empty() {
        return give(0);
    }
    let purge = call.ctx.purge_tags(tags, soft)?;
    wait(async move { Ok(purge.await) })
}

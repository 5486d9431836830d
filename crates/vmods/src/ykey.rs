// SPDX-License-Identifier: BSD-2-Clause
//! vmod_ykey: keys that VCL gives objects; the index is the cache's, where they are apart from those of xkey by what no field can
//! hold: a NUL before the namespace, and one before the key.

use vrt::vmod::{CallResult, INT, VOID, VmodCall, give, wait};
use vrt::{HeadId, Method, Text};

use vmod_support::args::fail;

vrt::vmod! {
    /// Purges by the keys that VCL assigns to an object. Objects that were stored before a VCL with this import was loaded
    /// have none. Any character of sep separates keys. A hard purge removes objects; a soft one makes them stale and keeps
    /// grace and keep. XKEY.* counts these keys together with those of xkey, which are separate
    pub(crate) static VMOD = ykey;

    needs { Tags }

    functions {
        /// Adds one key to the object
        fn add_key(key: STRING) -> VOID, only(Method::BackendResponse.set().with(Method::BackendError.set()))
            = |call: &mut VmodCall<'_>, key: &[u8]| add(call, &one(key));

        /// Adds all keys of a string to the object
        fn add_keys(
            keys: STRING, sep: STRING = ", "
        ) -> VOID, only(Method::BackendResponse.set().with(Method::BackendError.set())) = |call: &mut VmodCall<'_>, keys: &[u8], sep: &[u8]| add(call, &words(keys, sep));

        /// Adds all keys in the headers of a name to the object
        fn add_header(
            header: HEADER, sep: STRING = ", "
        ) -> VOID, only(Method::BackendResponse.set().with(Method::BackendError.set())) = add_header;

        /// Adds a key for each parent directory of a URL (default bereq.url): / and /a/ and /a/b/ for /a/b/c
        fn add_tree_keys(
            url: STRING = null
        ) -> VOID, only(Method::BackendResponse.set().with(Method::BackendError.set())) = add_tree_keys;

        /// Sets the namespace of keys until the end of the task
        fn namespace(namespace: STRING) -> VOID, local = namespace;

        /// Resets the namespace of keys
        fn namespace_reset() -> VOID, local = namespace_reset;

        /// Purges the objects that have a key; returns their number
        fn purge_key(key: STRING, soft: BOOL = false) -> INT, waits
            = |call: &mut VmodCall<'_>, key: &[u8], soft: bool| purge(call, &one(key), soft);

        /// Purges the objects that have any key of a string; returns their number
        fn purge_keys(keys: STRING, sep: STRING = ", ", soft: BOOL = false) -> INT, waits
            = |call: &mut VmodCall<'_>, keys: &[u8], sep: &[u8], soft: bool| purge(call, &words(keys, sep), soft);

        /// Purges the objects that have any of the keys in the headers of a name; returns their number
        fn purge_header(header: HEADER, sep: STRING = ", ", soft: BOOL = false) -> INT, waits = purge_header;
    }

    left_out {
        "ykey.add_hashed_keys" => "ykey.add_key, with the texts";
        "ykey.purge" => "ykey.purge_keys";
        "ykey.add_blob" => "ykey.add_key, with blob.encode";
        "ykey.get_hashed_keys" => "the texts that were added";
        "ykey.purge_blob" => "ykey.purge_key, with blob.encode";
    }
}

fn add_header(call: &mut VmodCall<'_>, header: (HeadId, &Text), sep: &[u8]) -> CallResult<VOID> {
    let keys = in_fields(call, header, sep);
    add(call, &keys)
}

fn add_tree_keys(call: &mut VmodCall<'_>, url: Option<&Text>) -> CallResult<VOID> {
    let url = match url {
        Some(url) => url.to_vec(),
        None => call.ctx.head(HeadId::Bereq).map_or_else(Vec::new, |head| head.url().to_vec()),
    };
    add(call, &directories(&url))
}

fn namespace(call: &mut VmodCall<'_>, namespace: Option<&Text>) -> CallResult<VOID> {
    if namespace.map_or(&b""[..], |text| text.as_bytes()).contains(&0) {
        return fail("ykey.namespace(): a NUL");
    }
    call.ctx.task().get::<Namespace>().0 = namespace.cloned().unwrap_or(Text::EMPTY);
    give(())
}

fn namespace_reset(call: &mut VmodCall<'_>) -> CallResult<VOID> {
    call.ctx.task().get::<Namespace>().0 = Text::EMPTY;
    give(())
}

fn purge_header(call: &mut VmodCall<'_>, header: (HeadId, &Text), sep: &[u8], soft: bool) -> CallResult<INT> {
    let keys = in_fields(call, header, sep);
    purge(call, &keys, soft)
}

/// The task's namespace; empty: none.
struct Namespace(Text);

impl Default for Namespace {
    fn default() -> Self {
        Namespace(Text::EMPTY)
    }
}

type Keys = Vec<Vec<u8>>;

fn one(key: &[u8]) -> Keys {
    Some(key.to_vec()).filter(|key| !key.is_empty()).into_iter().collect()
}

fn words(text: &[u8], separators: &[u8]) -> Keys {
    let parts = text.split(|byte| separators.contains(byte)).filter(|word| !word.is_empty());
    parts.map(<[u8]>::to_vec).collect()
}

fn in_fields(call: &mut VmodCall<'_>, header: (HeadId, &Text), sep: &[u8]) -> Keys {
    let ((id, name), separators) = (header, sep);
    let Some(head) = call.ctx.head(id) else { return Keys::new() };
    head.get_all(name).flat_map(|value| words(value, separators)).collect()
}

/// The directories that a URL is in, from the root on.
fn directories(url: &[u8]) -> Keys {
    let end = url.iter().position(|b| matches!(b, b'?' | b'#')).unwrap_or(url.len());
    let path = &url[..end];
    path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| path[..=at].to_vec()).collect()
}

/// The keys as the index has them.
fn in_namespace(call: &mut VmodCall<'_>, keys: &Keys) -> Keys {
    let namespace = call.ctx.task().get::<Namespace>().0.clone();
    keys.iter().map(|key| [&b"\0"[..], &namespace, b"\0", key].concat()).collect()
}

fn add(call: &mut VmodCall<'_>, keys: &Keys) -> CallResult<VOID> {
    if !matches!(call.method, Method::BackendResponse | Method::BackendError) {
        return fail("ykey: keys are added in vcl_backend_response and vcl_backend_error");
    }
    let keys = in_namespace(call, keys);
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    call.ctx.add_tags(&keys).map_err(|reason| vrt::VclFailure::new(format!("ykey: {}", reason.0)))?;
    give(())
}

fn purge(call: &mut VmodCall<'_>, keys: &Keys, soft: bool) -> CallResult<INT> {
    if keys.is_empty() {
        return give(0);
    }
    let keys = in_namespace(call, keys);
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let purge = call.ctx.purge_tags(&keys, soft)?;
    wait(async move { Ok(purge.await) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_texts_and_urls() {
        let texts = |keys: Keys| keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect::<Vec<_>>();
        assert_eq!(texts(words(b"a, b,,c d", b", ")), ["a", "b", "c", "d"]);
        assert_eq!(texts(words(b"a, b|c", b"|")), ["a, b", "c"]);
        assert_eq!(texts(directories(b"/a/b/c.html?/x/")), ["/", "/a/", "/a/b/"]);
        assert_eq!(texts(directories(b"/a/")), ["/", "/a/"]);
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_ykey: keys that VCL gives objects; the index is the cache's, where they are apart from those of xkey by what no field can
//! hold: a NUL before the namespace, and one before the key.

use vrt::vmod::{Call, CallResult, Vmod};
use vrt::{HeadId, Method, Text, Value};

use crate::args::{Args, fail, give, wait};

/// vmod_ykey
pub(crate) static VMOD: Vmod = Vmod {
    name: "ykey",
    classes: &[],
    functions: &[
        ("add_key", |call, args| add(call, &one(args))),
        ("add_keys", |call, args| add(call, &words(Args(args).bytes_of(0), Args(args).bytes_of(1)))),
        ("add_header", |call, args| {
            let keys = in_fields(call, args);
            add(call, &keys)
        }),
        ("add_tree_keys", |call, args| {
            let url = match Args(args).text(0) {
                Some(url) => url.to_vec(),
                None => call.ctx.head(HeadId::Bereq).map_or_else(Vec::new, |head| head.url().to_vec()),
            };
            add(call, &directories(&url))
        }),
        ("namespace", |call, args| {
            if Args(args).bytes_of(0).contains(&0) {
                return fail("ykey.namespace(): a NUL");
            }
            call.ctx.task().get::<Namespace>().0 = Args(args).text(0).cloned().unwrap_or(Text::EMPTY);
            give(Value::Void)
        }),
        ("namespace_reset", |call, _| {
            call.ctx.task().get::<Namespace>().0 = Text::EMPTY;
            give(Value::Void)
        }),
        ("purge_key", |call, args| purge(call, &one(args), Args(args).bool(1))),
        ("purge_keys", |call, args| {
            purge(call, &words(Args(args).bytes_of(0), Args(args).bytes_of(1)), Args(args).bool(2))
        }),
        ("purge_header", |call, args| {
            let keys = in_fields(call, args);
            purge(call, &keys, Args(args).bool(2))
        }),
    ],
};

/// The task's namespace; empty: none.
struct Namespace(Text);

impl Default for Namespace {
    fn default() -> Self {
        Namespace(Text::EMPTY)
    }
}

type Keys = Vec<Vec<u8>>;

fn one(args: &[Value]) -> Keys {
    Some(Args(args).bytes_of(0).to_vec()).filter(|key| !key.is_empty()).into_iter().collect()
}

fn words(text: &[u8], separators: &[u8]) -> Keys {
    let parts = text.split(|byte| separators.contains(byte)).filter(|word| !word.is_empty());
    parts.map(<[u8]>::to_vec).collect()
}

fn in_fields(call: &mut Call<'_>, args: &[Value]) -> Keys {
    let ((id, name), separators) = (Args(args).header(0), Args(args).bytes_of(1));
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
fn in_namespace(call: &mut Call<'_>, keys: &Keys) -> Keys {
    let namespace = call.ctx.task().get::<Namespace>().0.clone();
    keys.iter().map(|key| [&b"\0"[..], &namespace, b"\0", key].concat()).collect()
}

fn add(call: &mut Call<'_>, keys: &Keys) -> CallResult {
    if !matches!(call.method, Method::BackendResponse | Method::BackendError) {
        return fail("ykey: keys are added in vcl_backend_response and vcl_backend_error");
    }
    let keys = in_namespace(call, keys);
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    call.ctx.add_tags(&keys).map_err(|why| vrt::Failure::new(format!("ykey: {}", why.0)))?;
    give(Value::Void)
}

fn purge(call: &mut Call<'_>, keys: &Keys, soft: bool) -> CallResult {
    if keys.is_empty() {
        return give(Value::Int(0));
    }
    let keys = in_namespace(call, keys);
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let purge = call.ctx.purge_tags(&keys, soft)?;
    wait(async move { Ok(Value::Int(purge.await)) })
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

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_json of Varnish Enterprise: one document of each task, read by paths (`a.b[2].c`, `[0]`). A member whose whole name is the
//! path is found, too. Not built: responses' bodies, json_string.

use serde_json::Value as Json;
use vrt::Value;
use vrt::vmod::{Call, CallResult, Vmod};

use crate::args::{Args, fail, give};
use crate::values::{Id, Node, Values};

/// Bytes of a document.
const MOST: usize = 4 * 1024 * 1024;

/// vmod_json
pub(crate) static VMOD: Vmod = Vmod {
    name: "json",
    classes: &[],
    functions: &[
        ("parse", |call, args| {
            let text = Args(args).bytes_of(0).to_vec();
            read(call, &text)
        }),
        ("parse_req_body", |call, _| match crate::bodyaccess::body(call, None, b"") {
            Some(body) => read(call, &body),
            None => read(call, b""),
        }),
        ("contains", |call, args| about(call, args, |document, at| document.zip(at).is_some(), Value::Bool)),
        ("get", |call, args| {
            if Args(args).bool(2) {
                return fail("json.get(): json_string isn't built into Lacquer");
            }
            let error = Value::String(Args(args).text(1).cloned());
            let text = |document: Option<&Values>, at| {
                document.zip(at).map(|(values, id)| match values.get(id) {
                    Node::Null => "null".to_owned(),
                    _ => values.text(id, false),
                })
            };
            about(call, args, text, |found| found.map_or(error, Value::text))
        }),
        ("length", |call, args| {
            let size = |document: Option<&Values>, at| document.zip(at).map_or(0, |(values, id)| values.size(id));
            about(call, args, size, |size| Value::Int(size as i64))
        }),
        ("is_valid", |call, _| {
            let is_valid = document(call).is_some();
            give(Value::Bool(is_valid))
        }),
        ("is_error", |call, _| {
            let is_error = document(call).is_none();
            give(Value::Bool(is_error))
        }),
        ("is_object", |call, args| is(call, args, "object")),
        ("is_array", |call, args| is(call, args, "array")),
        ("is_string", |call, args| is(call, args, "string")),
        ("is_number", |call, args| is(call, args, "number")),
        ("is_true", |call, args| is(call, args, "true")),
        ("is_false", |call, args| is(call, args, "false")),
        ("is_null", |call, args| is(call, args, "null")),
        ("stringify", |_, args| {
            let quoted = Json::from(String::from_utf8_lossy(Args(args).bytes_of(0))).to_string();
            let text = if Args(args).bool(1) { &quoted[..] } else { &quoted[1..quoted.len() - 1] };
            give(Value::text(text))
        }),
        ("reset", |call, _| {
            call.ctx.task().get::<Document>().0 = None;
            give(Value::Void)
        }),
    ],
};

/// A task's document, if it is one.
#[derive(Default)]
struct Document(Option<Values>);

fn document<'a>(call: &'a mut Call<'_>) -> Option<&'a Values> {
    call.ctx.task().get::<Document>().0.as_ref()
}

fn read(call: &mut Call<'_>, text: &[u8]) -> CallResult {
    if text.len() > MOST {
        return fail("json: a document has no more than 4 MB");
    }
    let mut values = Values::default();
    let is_json = values.add(text);
    call.ctx.task().get::<Document>().0 = is_json.then_some(values);
    give(Value::Void)
}

/// Something about the place that the first argument names; the root when it names none.
fn about<T>(
    call: &mut Call<'_>,
    args: &[Value],
    what: impl FnOnce(Option<&Values>, Option<Id>) -> T,
    value: impl FnOnce(T) -> Value,
) -> CallResult {
    let document = document(call);
    let at = document.and_then(|values| {
        let root = *values.roots.first()?;
        match Args(args).text(0) {
            None => Some(root),
            Some(path) => values.find(root, std::str::from_utf8(path).ok()?),
        }
    });
    give(value(what(document, at)))
}

fn is(call: &mut Call<'_>, args: &[Value], kind: &str) -> CallResult {
    let is = |document: Option<&Values>, at| document.zip(at).is_some_and(|(values, id)| values.type_of(id) == kind);
    about(call, args, is, Value::Bool)
}

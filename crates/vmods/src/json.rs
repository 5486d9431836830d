// SPDX-License-Identifier: BSD-2-Clause
//! vmod_json of Varnish Enterprise: one document of each task, read by paths (`a.b[2].c`, `[0]`). A member whose whole name is the
//! path is found, too. Not built: responses' bodies, json_string.

use serde_json::Value as Json;
use vrt::Text;
use vrt::vmod::{BOOL, CallResult, INT, STRING, VOID, VmodCall, give};

use crate::support::values::{Id, ValueNode, Values};
use vmod_support::args::fail;

/// Bytes of a document.
const MAX: usize = 4 * 1024 * 1024;

vrt::vmod! {
    /// One JSON document per task, at most 4 MB, read by paths such as a.b[2].c
    pub(crate) static VMOD = json;

    functions {
        /// Parses a string as the document
        fn parse(json: STRING) -> VOID, local = parse;

        /// Parses the request's body as the document. If std.cache_req_body hasn't cached it, there is no document, and
        /// VCL_Error says so
        fn parse_req_body() -> VOID, local = parse_req_body;

        /// Returns whether the path exists
        fn contains(element: STRING) -> BOOL, local = contains;

        /// Returns the value at the path: strings as they are, other types as JSON; error if the path doesn't exist.
        /// json_string isn't supported and fails
        fn get(search: STRING, error: STRING = null, json_string: BOOL = false) -> STRING, local = get;

        /// Returns the number of members of an object or elements of an array; 0 for other types
        fn length(element: [STRING]) -> INT, local = length;

        /// Returns whether there is a document
        fn is_valid() -> BOOL, local = is_valid;

        /// Returns whether there is no document
        fn is_error() -> BOOL, local = is_error;

        /// Returns whether the path, or the root, is an object
        fn is_object(element: [STRING]) -> BOOL, local
            = |call: &mut VmodCall<'_>, element: Option<&Text>| is(call, element, "object");

        /// Returns whether the path, or the root, is an array
        fn is_array(element: [STRING]) -> BOOL, local
            = |call: &mut VmodCall<'_>, element: Option<&Text>| is(call, element, "array");

        /// Returns whether the path, or the root, is a string
        fn is_string(element: [STRING]) -> BOOL, local
            = |call: &mut VmodCall<'_>, element: Option<&Text>| is(call, element, "string");

        /// Returns whether the path, or the root, is a number
        fn is_number(element: [STRING]) -> BOOL, local
            = |call: &mut VmodCall<'_>, element: Option<&Text>| is(call, element, "number");

        /// Returns whether the path, or the root, is true
        fn is_true(element: [STRING]) -> BOOL, local = |call: &mut VmodCall<'_>, element: Option<&Text>| is(call, element, "true");

        /// Returns whether the path, or the root, is false
        fn is_false(element: [STRING]) -> BOOL, local
            = |call: &mut VmodCall<'_>, element: Option<&Text>| is(call, element, "false");

        /// Returns whether the path, or the root, is null
        fn is_null(element: [STRING]) -> BOOL, local = |call: &mut VmodCall<'_>, element: Option<&Text>| is(call, element, "null");

        /// Returns a string as a JSON string, with or without quotes
        fn stringify(value: STRING, quoted: BOOL = true) -> STRING, pure = stringify;

        /// Discards the document
        fn reset() -> VOID, local = reset;
    }

    left_out {
        "json.parse_resp_index" => "json.parse, with what xbody.capture has kept of the response";
    }
}

fn parse(call: &mut VmodCall<'_>, json: &[u8]) -> CallResult<VOID> {
    let text = json.to_vec();
    read(call, &text)
}

fn parse_req_body(call: &mut VmodCall<'_>) -> CallResult<VOID> {
    match crate::bodyaccess::body(call, None, b"") {
        Some(body) => read(call, &body),
        None => read(call, b""),
    }
}

fn contains(call: &mut VmodCall<'_>, element: Option<&Text>) -> CallResult<BOOL> {
    give(about(call, element, |document, at| document.zip(at).is_some()))
}

fn get(call: &mut VmodCall<'_>, search: Option<&Text>, error: Option<&Text>, json_string: bool) -> CallResult<STRING> {
    if json_string {
        return fail("json.get(): json_string isn't built into Lacquer");
    }
    let text = |document: Option<&Values>, at| {
        document.zip(at).map(|(values, id)| match values.get(id) {
            ValueNode::Null => "null".to_owned(),
            _ => values.text(id, false),
        })
    };
    give(about(call, search, text).map(Text::from).or_else(|| error.cloned()))
}

fn length(call: &mut VmodCall<'_>, element: Option<&Text>) -> CallResult<INT> {
    let size = |document: Option<&Values>, at| document.zip(at).map_or(0, |(values, id)| values.size(id));
    give(about(call, element, size) as i64)
}

fn is_valid(call: &mut VmodCall<'_>) -> CallResult<BOOL> {
    let is_valid = document(call).is_some();
    give(is_valid)
}

fn is_error(call: &mut VmodCall<'_>) -> CallResult<BOOL> {
    let is_error = document(call).is_none();
    give(is_error)
}

fn stringify(_: &mut VmodCall<'_>, value: &[u8], keeps_quotes: bool) -> CallResult<STRING> {
    let quoted = Json::from(String::from_utf8_lossy(value)).to_string();
    let text = if keeps_quotes { &quoted[..] } else { &quoted[1..quoted.len() - 1] };
    give(text)
}

fn reset(call: &mut VmodCall<'_>) -> CallResult<VOID> {
    call.ctx.task().get::<Document>().0 = None;
    give(())
}

#[derive(Default)]
struct Document(Option<Values>);

fn document<'a>(call: &'a mut VmodCall<'_>) -> Option<&'a Values> {
    call.ctx.task().get::<Document>().0.as_ref()
}

fn read(call: &mut VmodCall<'_>, text: &[u8]) -> CallResult<VOID> {
    if text.len() > MAX {
        return fail("json: a document has no more than 4 MB");
    }
    let mut values = Values::default();
    let is_json = values.add(text);
    call.ctx.task().get::<Document>().0 = is_json.then_some(values);
    give(())
}

/// Something about the place that the first argument names; the root when it names none.
fn about<T>(call: &mut VmodCall<'_>, element: Option<&Text>, what: impl FnOnce(Option<&Values>, Option<Id>) -> T) -> T {
    let document = document(call);
    let at = document.and_then(|values| {
        let root = *values.roots.first()?;
        match element {
            None => Some(root),
            Some(path) => values.find(root, std::str::from_utf8(path).ok()?),
        }
    });
    what(document, at)
}

fn is(call: &mut VmodCall<'_>, element: Option<&Text>, kind: &str) -> CallResult<BOOL> {
    let is = |document: Option<&Values>, at| document.zip(at).is_some_and(|(values, id)| values.type_of(id) == kind);
    give(about(call, element, is))
}

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_json of Varnish Enterprise. Not built: responses' bodies.

use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, LeftOut, Module};

const ELEMENT: &[Arg] = &[Arg::new(String, "element").opt()];

const fn is(name: &'static str, text: &'static str) -> Func {
    Func::new(Bool, name, ELEMENT, text)
}

/// vmod_json
pub(crate) const MODULE: Module = Module {
    left_out: LEFT_OUT,
    name: "json",
    text: "One document of JSON of each task, of 4 MB at most, read by paths as a.b[2].c",
    objects: &[],
    functions: &[
        Func::new(Void, "parse", &[Arg::new(String, "json")], "A text is the document from now on"),
        Func::new(
            Void,
            "parse_req_body",
            &[],
            "The request's body is; no document, and VCL_Error says so, when std.cache_req_body doesn't keep it",
        ),
        Func::new(Bool, "contains", &[Arg::new(String, "element")], "Whether the path leads to something"),
        Func::new(
            String,
            "get",
            &[
                Arg::new(String, "search"),
                Arg::new(String, "error").or(D::Null),
                Arg::new(Bool, "json_string").or(D::Bool(false)),
            ],
            "What the path leads to: texts as they are, anything else in JSON; else error. json_string fails",
        ),
        Func::new(Int, "length", ELEMENT, "Members of an object, elements of an array, else 0"),
        Func::new(Bool, "is_valid", &[], "Whether there is a document"),
        Func::new(Bool, "is_error", &[], "Whether there is none"),
        is("is_object", "Whether the path, or the root, is an object"),
        is("is_array", "Whether the path, or the root, is an array"),
        is("is_string", "Whether the path, or the root, is a string"),
        is("is_number", "Whether the path, or the root, is a number"),
        is("is_true", "Whether the path, or the root, is true"),
        is("is_false", "Whether the path, or the root, is false"),
        is("is_null", "Whether the path, or the root, is null"),
        Func::new(
            String,
            "stringify",
            &[Arg::new(String, "value"), Arg::new(Bool, "quoted").or(D::Bool(true))],
            "A text as a string of JSON, with or without its quotes",
        )
        .pure(),
        Func::new(Void, "reset", &[], "There is no document any more"),
    ],
};

/// What isn't built.
pub(crate) const LEFT_OUT: &[LeftOut] =
    &[LeftOut("json.parse_resp_index", "json.parse, with what xbody.capture has kept of the response")];

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_querystring(3) of libvmod-querystring.

use tables::vclvars::Method;
use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module, Object};

const TEXT: &[Arg] = &[Arg::pos(String)];
const SITE: Arg = Arg::new(String, "url").opt();
const FILTER: &[Arg] = &[SITE, Arg::of("mode", &["keep", "drop"]).or(D::Enum("drop"))];

/// vmod_querystring(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "querystring",
    text: "Query parameters: dropped, kept, sorted, made unique. Without a URL it is req.url, in fetches bereq.url",
    functions: &[
        Func::new(String, "clean", &[SITE], "The URL without empty parameters"),
        Func::new(
            String,
            "sort",
            &[SITE, Arg::new(Bool, "uniq").or(D::Bool(false))],
            "The URL with its parameters in order, without empty ones, on demand without duplicates",
        ),
        Func::new(String, "remove", &[SITE], "The URL without its query"),
    ],
    objects: &[Object {
        name: "filter",
        args: &[
            Arg::new(Bool, "sort").or(D::Bool(false)),
            Arg::new(Bool, "uniq").or(D::Bool(false)),
            Arg::of("match", &["name", "param"]).or(D::Enum("name")),
        ],
        text: "What is to be dropped or kept, by the parameters' names or by the whole of them",
        methods: &[
            Func::new(Void, "add_string", TEXT, "Means the parameters that are this text").only(Method::Init.set()),
            Func::new(Void, "add_glob", TEXT, "Means the parameters that fit this pattern of a shell")
                .only(Method::Init.set()),
            Func::new(Void, "add_regex", &[Arg::pos(Regex)], "Means the parameters that match")
                .only(Method::Init.set()),
            Func::new(String, "apply", FILTER, "The URL without the parameters that are meant, or with them alone"),
            Func::new(String, "extract", FILTER, "The query of that URL; unset when there is none"),
        ],
    }],
};

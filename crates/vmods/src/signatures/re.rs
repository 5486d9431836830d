// SPDX-License-Identifier: BSD-2-Clause
//! vmod_re of libvmod-re (UPLEX): the objects of its releases for Varnish 4 and later, the functions of those for 3.0. Not built:
//! bodies, and work on them as a filter.

use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, LeftOut, Module, Object};

/// The engines' time is linear, or bounded by pcre2_match_limit: these say nothing here.
const LIMIT: Arg = Arg::new(Int, "limit").or(D::Int(1000));
const RECURSION: Arg = Arg::new(Int, "limit_recursion").or(D::Int(1000));
const FALLBACK: Arg = Arg::new(String, "fallback").or(D::Str("**BACKREF METHOD FAILED**"));
const REFNUM: Arg = Arg::new(Int, "refnum");
const SUBJECT: Arg = Arg::new(String, "subject");
const PATTERN: Arg = Arg::new(String, "pattern");

const MATCH: &str = "Whether the pattern is found; keeps its groups for this task";
const BACKREF: &str = "Group 0 to 10 of the last match of this task; fallback when there is none";

/// vmod_re
pub(crate) const MODULE: Module = Module {
    left_out: LEFT_OUT,
    name: "re",
    text: "Patterns whose groups can be asked for after a match",
    functions: &[
        Func::new(Bool, "match", &[SUBJECT, PATTERN], MATCH),
        Func::new(Bool, "match_dyn", &[SUBJECT, PATTERN], MATCH),
        Func::new(String, "backref", &[REFNUM, FALLBACK], BACKREF),
        Func::new(String, "version", &[], "The version of this module"),
    ],
    objects: &[Object {
        name: "regex",
        args: &[
            PATTERN,
            LIMIT,
            RECURSION,
            Arg::new(Bool, "forbody").or(D::Bool(false)),
            Arg::new(Bool, "asfilter").or(D::Bool(false)),
        ],
        text: "A pattern of VCL's syntax (PCRE2)",
        methods: &[
            Func::new(Bool, "match", &[SUBJECT, LIMIT, RECURSION], MATCH),
            Func::new(Bool, "match_dyn", &[PATTERN, SUBJECT, LIMIT, RECURSION], "The same with a pattern made now"),
            Func::new(String, "backref", &[REFNUM, FALLBACK], BACKREF),
        ],
    }],
};

/// Not built.
pub(crate) const LEFT_OUT: &[LeftOut] = &[
    LeftOut("re.regex.match_body", "bodyaccess.rematch_req_body, or rers.capture_req_body for its groups"),
    LeftOut("re.regex.foreach", "regsuball"),
    LeftOut("re.regex.foreach_body", "xbody.regsub, or rers.replace_resp_body"),
    LeftOut("re.regex.substitute_match", "xbody.regsub, or rers.replace_resp_body"),
    LeftOut("re.regex.clear_substitutions", "xbody.regsub, or rers.replace_resp_body"),
];

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_selector(3) of libvmod-selector 2.6.

use tables::vclvars::Method;
use tables::vclvars::Methods;
use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, LeftOut, Module, Object};

const N: Arg = Arg::new(Int, "n").or(D::Int(0));
const ELEMENT: Arg = Arg::new(String, "element").or(D::Null);
const SELECT: Arg =
    Arg::of("select", &["UNIQUE", "EXACT", "FIRST", "LAST", "SHORTEST", "LONGEST"]).or(D::Enum("UNIQUE"));
const CHOSEN: &[Arg] = &[N, ELEMENT, SELECT];
const INIT: Methods = Method::Init.set();

/// vmod_selector(3)
pub(crate) const MODULE: Module = Module {
    left_out: LEFT_OUT,
    name: "selector",
    text: "Sets of texts, matched whole or as prefixes, and what belongs to each of them",
    functions: &[Func::new(String, "version", &[], "The version of libvmod-selector that this follows").pure()],
    objects: &[Object {
        name: "set",
        args: &[Arg::new(Bool, "case_sensitive").or(D::Bool(true)), Arg::new(Bool, "allow_overlaps").or(D::Bool(true))],
        text: "A set. n > 0 means its n-th element, else element says which, else select says which of those that the last match of this \
               task found. After a match that failed what is asked for is unset, 0 or false. Without allow_overlaps no element may be \
               the prefix of another",
        methods: &[
            Func::new(
                Void,
                "add",
                &[
                    Arg::pos(String),
                    Arg::new(String, "string").opt(),
                    Arg::new(Regex, "regex").opt(),
                    Arg::new(Backend, "backend").opt(),
                    Arg::new(Int, "integer").opt(),
                    Arg::new(Bool, "bool").opt(),
                ],
                "Adds an element, and what belongs to it",
            )
            .only(INIT),
            Func::new(Void, "compile", &[], "Nothing can be added any more; vcl_init's end does that, too").only(INIT),
            Func::new(Bool, "match", &[Arg::pos(String)], "Whether the text is an element"),
            Func::new(Bool, "hasprefix", &[Arg::pos(String)], "Whether the text begins with an element"),
            Func::new(Int, "nmatches", &[], "How many elements the last match of this task found"),
            Func::new(Bool, "matched", CHOSEN, "Whether the last match of this task found that element"),
            Func::new(Int, "which", &[SELECT, ELEMENT], "The element's number"),
            Func::new(String, "element", &[N, SELECT], "The element, as it was added"),
            Func::new(String, "string", CHOSEN, "The element's string"),
            Func::new(Backend, "backend", CHOSEN, "The element's backend"),
            Func::new(Int, "integer", CHOSEN, "The element's integer"),
            Func::new(Bool, "bool", CHOSEN, "The element's bool"),
            Func::new(
                Bool,
                "re_match",
                &[Arg::new(String, "subject"), N, ELEMENT, SELECT],
                "Whether the element's regex matches a text",
            ),
            Func::new(
                String,
                "sub",
                &[
                    Arg::new(String, "str"),
                    Arg::new(String, "sub"),
                    Arg::new(Bool, "all").or(D::Bool(false)),
                    N,
                    ELEMENT,
                    SELECT,
                ],
                "A text with what the element's regex matches replaced, as by regsub; by regsuball with all",
            ),
        ],
    }],
};

/// What isn't built.
pub(crate) const LEFT_OUT: &[LeftOut] = &[
    LeftOut("selector.set.subroutine", "`if` and `call` on which()"),
    LeftOut("selector.set.check_call", "`if` and `call` on which()"),
    LeftOut("selector.set.create_stats", "nothing: it only makes counters"),
];

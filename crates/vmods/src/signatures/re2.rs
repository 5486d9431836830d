// SPDX-License-Identifier: BSD-2-Clause
//! vmod_re2(3) of libvmod-re2. Not built: patterns' subroutines (`sub=`, subroutine, check_call).

use tables::vclvars::Method;
use tables::vmods::Default as D;
use tables::vmods::Type::{self, *};
use tables::vmods::{Arg, Func, Module, Object};

const fn flag(name: &'static str, default: bool) -> Arg {
    Arg::new(Bool, name).or(D::Bool(default))
}

const fn arg(ty: Type, name: &'static str) -> Arg {
    Arg::new(ty, name)
}

const fn fallback(text: &'static str) -> Arg {
    Arg::new(String, "fallback").or(D::Str(text))
}

const UTF8: Arg = flag("utf8", false);
const POSIX: Arg = flag("posix_syntax", false);
const LONGEST: Arg = flag("longest_match", false);
const MAX_MEM: Arg = Arg::new(Int, "max_mem").or(D::Int(8_388_608));
const LITERAL: Arg = flag("literal", false);
const NEVER_NL: Arg = flag("never_nl", false);
const DOT_NL: Arg = flag("dot_nl", false);
const NEVER_CAPTURE: Arg = flag("never_capture", false);
const CASE: Arg = flag("case_sensitive", true);
const CLASSES: Arg = flag("perl_classes", false);
const BOUNDARY: Arg = flag("word_boundary", false);
const ONE_LINE: Arg = flag("one_line", false);

const PATTERN: Arg = arg(String, "pattern");
const TEXT: Arg = arg(String, "text");
const REWRITE: Arg = arg(String, "rewrite");
const N: Arg = Arg::new(Int, "n").or(D::Int(0));
const SELECT: Arg = Arg::of("select", &["FIRST", "LAST", "UNIQUE"]).or(D::Enum("UNIQUE"));
const CHOSEN: &[Arg] = &[N, SELECT];

const BACKREF: &str =
    "A group of the last match of this task; fallback when it took no part, a failure without a match";
const NAMED: &str = "A named group of the last match of this task, as backref";
const SUB: &str = "The text with the first match replaced; fallback when there is none";
const SUBALL: &str = "The text with all matches replaced; fallback when there is none";
const EXTRACT: &str = "What rewrite makes of the first match alone; fallback when there is none";
const COST: &str = "A measure of the pattern's size";

const PATTERN_AND_OPTIONS: &[Arg] = &[
    PATTERN,
    UTF8,
    POSIX,
    LONGEST,
    MAX_MEM,
    LITERAL,
    NEVER_NL,
    DOT_NL,
    NEVER_CAPTURE,
    CASE,
    CLASSES,
    BOUNDARY,
    ONE_LINE,
];

/// vmod_re2(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "re2",
    text: "Regular expressions in RE2's syntax, and sets of them that are matched at once. All of Lacquer's take linear time",
    functions: &[
        Func::new(
            Bool,
            "match",
            &[
                PATTERN,
                arg(String, "subject"),
                UTF8,
                POSIX,
                LONGEST,
                MAX_MEM,
                LITERAL,
                NEVER_NL,
                DOT_NL,
                NEVER_CAPTURE,
                CASE,
                CLASSES,
                BOUNDARY,
                ONE_LINE,
            ],
            "Whether a pattern that is compiled for this call matches",
        ),
        Func::new(String, "backref", &[arg(Int, "ref"), fallback("**BACKREF FUNCTION FAILED**")], BACKREF),
        Func::new(String, "namedref", &[arg(String, "name"), fallback("**NAMEDREF FUNCTION FAILED**")], NAMED),
        Func::new(String, "sub", &rewriting("**SUB FUNCTION FAILED**"), SUB),
        Func::new(String, "suball", &rewriting("**SUBALL FUNCTION FAILED**"), SUBALL),
        Func::new(String, "extract", &rewriting("**EXTRACT FUNCTION FAILED**"), EXTRACT),
        Func::new(Int, "cost", PATTERN_AND_OPTIONS, COST),
        Func::new(String, "quotemeta", &[Arg::pos(String)], "The text as a pattern that means just it").pure(),
        Func::new(String, "version", &[], "The version of libvmod-re2 that this follows").pure(),
    ],
    objects: &[
        Object {
            name: "regex",
            args: PATTERN_AND_OPTIONS,
            text: "A pattern; longest_match and never_nl aren't built",
            methods: &[
                Func::new(Bool, "match", &[Arg::pos(String)], "Whether it matches"),
                Func::new(String, "backref", &[arg(Int, "ref"), fallback("**BACKREF METHOD FAILED**")], BACKREF),
                Func::new(String, "namedref", &[arg(String, "name"), fallback("**NAMEDREF METHOD FAILED**")], NAMED),
                Func::new(String, "sub", &[TEXT, REWRITE, fallback("**SUB METHOD FAILED**")], SUB),
                Func::new(String, "suball", &[TEXT, REWRITE, fallback("**SUBALL METHOD FAILED**")], SUBALL),
                Func::new(String, "extract", &[TEXT, REWRITE, fallback("**EXTRACT METHOD FAILED**")], EXTRACT),
                Func::new(Int, "cost", &[], COST),
            ],
        },
        Object {
            name: "set",
            args: &[
                Arg::of("anchor", &["none", "start", "both"]).or(D::Enum("none")),
                UTF8,
                POSIX,
                LONGEST,
                MAX_MEM,
                LITERAL,
                NEVER_NL,
                DOT_NL,
                CASE,
                CLASSES,
                BOUNDARY,
                ONE_LINE,
            ],
            text: "Patterns that are matched at once; a match tells which of them. n > 0 means the n-th pattern, else select says \
                   which of those that matched",
            methods: &[
                Func::new(
                    Void,
                    "add",
                    &[
                        Arg::pos(String),
                        arg(String, "string").opt(),
                        arg(Backend, "backend").opt(),
                        arg(Bool, "save").opt(),
                        arg(Bool, "never_capture").opt(),
                        arg(Int, "integer").opt(),
                    ],
                    "Adds a pattern with what belongs to it; save keeps it for sub, suball and extract",
                )
                .only(Method::Init.set()),
                Func::new(Void, "compile", &[], "Nothing: sets are compiled when they are complete")
                    .only(Method::Init.set()),
                Func::new(Bool, "match", &[Arg::pos(String)], "Whether any pattern matches"),
                Func::new(Bool, "matched", &[Arg::pos(Int)], "Whether the n-th pattern matched"),
                Func::new(Int, "nmatches", &[], "How many patterns matched"),
                Func::new(Int, "which", &[SELECT], "The number of a pattern that matched"),
                Func::new(String, "string", CHOSEN, "The pattern's string"),
                Func::new(Backend, "backend", CHOSEN, "The pattern's backend"),
                Func::new(Int, "integer", CHOSEN, "The pattern's integer"),
                Func::new(String, "sub", &[TEXT, REWRITE, fallback("**SUB METHOD FAILED**"), N, SELECT], SUB),
                Func::new(String, "suball", &[TEXT, REWRITE, fallback("**SUBALL METHOD FAILED**"), N, SELECT], SUBALL),
                Func::new(
                    String,
                    "extract",
                    &[TEXT, REWRITE, fallback("**EXTRACT METHOD FAILED**"), N, SELECT],
                    EXTRACT,
                ),
                Func::new(
                    Bool,
                    "saved",
                    &[Arg::of("which", &["REGEX", "STR", "BE", "INT", "SUB"]).or(D::Enum("REGEX")), N, SELECT],
                    "Whether such a thing belongs to the pattern",
                ),
                Func::new(
                    Void,
                    "hdr_filter",
                    &[Arg::pos(Http), flag("whitelist", true)],
                    "Keeps the lines of a head that match, or removes them",
                ),
            ],
        },
    ],
};

const fn rewriting(text: &'static str) -> [Arg; 16] {
    [
        PATTERN,
        TEXT,
        REWRITE,
        fallback(text),
        UTF8,
        POSIX,
        LONGEST,
        MAX_MEM,
        LITERAL,
        NEVER_NL,
        DOT_NL,
        NEVER_CAPTURE,
        CASE,
        CLASSES,
        BOUNDARY,
        ONE_LINE,
    ]
}

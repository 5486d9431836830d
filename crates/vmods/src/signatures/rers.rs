// SPDX-License-Identifier: BSD-2-Clause
//! vmod_rers (gquintard), whole.

use tables::vclvars::Method;
use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module, Object};

const TEXT: Arg = Arg::new(String, "s");
const REGEX: Arg = Arg::new(String, "regex");

/// vmod_rers
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "rers",
    text: "Patterns of Rust's regex made at run time, named groups, and bodies rewritten",
    functions: &[],
    objects: &[Object {
        name: "init",
        args: &[Arg::new(Int, "n").or(D::Int(100))],
        text: "A store of n patterns; the one that was used longest ago makes room",
        methods: &[
            Func::new(Bool, "is_match", &[TEXT, REGEX], "Whether the pattern is found; never when it is no pattern"),
            Func::new(
                String,
                "replace",
                &[TEXT, REGEX, Arg::new(String, "sub"), Arg::new(Int, "lim").or(D::Int(0))],
                "The text with each match, or the first lim, replaced; $1 and $name are groups",
            ),
            Func::new(
                Bool,
                "capture",
                &[Arg::new(String, "string"), REGEX],
                "As is_match, and keeps the groups for this task",
            ),
            Func::new(
                Bool,
                "capture_req_body",
                &[REGEX],
                "The same with the request's body, which std.cache_req_body has kept: fails when it hasn't, false when it isn't UTF-8",
            ),
            Func::new(String, "group", &[Arg::new(Int, "index")], "A group of the last capture; empty when there is none"),
            Func::new(String, "named_group", &[Arg::new(String, "name")], "The same, by name"),
            Func::new(
                Void,
                "replace_resp_body",
                &[REGEX, TEXT],
                "Replaces in the body of this response, pair by pair, where rers is in beresp.filters or resp.filters; 8 MB at most, \
                 or the response fails",
            )
            .only(Method::BackendResponse.set().with(Method::Deliver.set()).with(Method::Synth.set())),
        ],
    }],
};

// SPDX-License-Identifier: BSD-2-Clause
//! Our module for Accept-Language (RFC 9110 12.5.4, RFC 4647).

use tables::vmods::Default as D;
use tables::vmods::Type::{self, *};
use tables::vmods::{Arg, Func, Module};

const fn a(ty: Type, name: &'static str) -> Arg {
    Arg::new(ty, name)
}

const MOST: Arg = a(Int, "most").or(D::Int(100));

/// vmod_accept_language(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "accept_language",
    text: "The best of a site's languages for an Accept-Language field, as RFC 4647 has it",
    objects: &[],
    functions: &[
        Func::new(
            String,
            "lookup",
            &[a(String, "accept"), a(String, "languages"), a(String, "default").or(D::Null), MOST],
            "One language, by RFC 4647's lookup: of the ranges in order of their q, the first of which a language is left when \
             subtags are cut off its end (de-AT: de). Languages are a list with spaces or commas, and come back as written in \
             it. Without a match, the default, or else the first of the list. Ranges after `most` are not read",
        )
        .pure(),
        Func::new(
            String,
            "filter",
            &[
                a(String, "accept"),
                a(String, "languages"),
                Arg::of("by", &["basic", "extended"]).or(D::Enum("basic")),
                MOST,
            ],
            "All languages that the field accepts, best first, with \", \" between, by RFC 4647's basic filtering (de: de, de-AT) \
             or extended filtering (de-DE: also de-Latn-DE). Empty when there are none",
        )
        .pure(),
    ],
};

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_edgestash of Varnish Enterprise. Not built: JSON by URL, partials, quoted delimiters, packing.

use super::Default as D;
use super::Type::*;
use super::{Arg, Func, LeftOut, Module};
use crate::vclvars::{Method, Methods};

const RESPONSE: Methods = Method::BackendResponse.set();
const DELIVER: Methods = Method::Deliver.set();
const QUOTE: Arg = Arg::new(String, "quote_char").or(D::Str(""));

/// vmod_edgestash
pub(super) const MODULE: Module = Module {
    name: "edgestash",
    text: "Mustache templates in the cache, filled in from JSON when they are delivered",
    objects: &[],
    functions: &[
        Func::new(
            Void,
            "parse_response",
            &[],
            "The response is a template, of 1 MB at most; what is none is delivered as it is, and VCL_Error says why",
        )
        .only(RESPONSE),
        Func::new(Void, "index_json", &[], "The response is JSON, of 1 MB at most").only(RESPONSE),
        Func::new(
            Void,
            "add_json",
            &[Arg::new(String, "json_blob")],
            "JSON for the template; documents are searched in the order of the calls. 64 of them, 4 MB at most",
        )
        .only(DELIVER),
        Func::new(
            Void,
            "execute",
            &[Arg::new(Bool, "do_gzip").opt()],
            "Delivers the template filled in, unpacked; nothing when it is none",
        )
        .only(DELIVER),
        Func::new(
            Void,
            "set_delimiter",
            &[Arg::new(String, "start"), Arg::new(String, "end"), QUOTE],
            "What tags begin and end with, for parse_response calls that follow; a quote_char fails",
        )
        .only(RESPONSE),
        Func::new(String, "get_sdelimiter", &[QUOTE], "What tags begin with").only(Methods::BACKEND),
        Func::new(String, "get_edelimiter", &[QUOTE], "What tags end with").only(Methods::BACKEND),
        Func::new(Bool, "is_edgestash", &[], "Whether parse_response found this object to be a template"),
        Func::new(Bool, "is_json", &[], "Whether index_json found this object to be JSON"),
        Func::new(String, "version", &[], "The version of Edgestash that this is like"),
    ],
};

const BY_URL: &str = "edgestash.add_json, with JSON that VCL has, as of kvstore or http";

/// What isn't built.
pub(super) const LEFT_OUT: &[LeftOut] =
    &[LeftOut("edgestash.add_json_url", BY_URL), LeftOut("edgestash.add_json_url_csv", BY_URL)];

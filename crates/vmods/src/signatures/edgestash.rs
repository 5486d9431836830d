// SPDX-License-Identifier: BSD-2-Clause
//! vmod_edgestash of Varnish Enterprise. Not built: partials, xbody's captures by URL, quoted delimiters, packing.

use tables::vclvars::{Method, Methods};
use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module};

const RESPONSE: Methods = Method::BackendResponse.set();
const DELIVER: Methods = Method::Deliver.set();
const QUOTE: Arg = Arg::new(String, "quote_char").or(D::Str(""));

const HOST: Arg = Arg::new(String, "json_host").or(D::Str(""));
const XBODY: Arg = Arg::new(Bool, "xbody").or(D::Bool(false));

/// vmod_edgestash
pub(crate) const MODULE: Module = Module {
    left_out: &[],
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
            "add_json_url",
            &[Arg::new(String, "json_url"), HOST, XBODY],
            "JSON that a URL has, asked for as a fragment is when the template is delivered; of 1 MB at most. xbody fails",
        )
        .only(DELIVER),
        Func::new(
            Void,
            "add_json_url_csv",
            &[
                Arg::new(String, "json_urls"),
                Arg::new(String, "prefix").or(D::Str("")),
                Arg::new(String, "delimiter").or(D::Str(",")),
                HOST,
                XBODY,
            ],
            "The same for each URL of a list, prefix and all",
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

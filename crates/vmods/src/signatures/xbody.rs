// SPDX-License-Identifier: BSD-2-Clause
//! vmod_xbody of Varnish Enterprise 6. Not built: log_body, for which there is no log tag.

use tables::vclvars::{Method, Methods};
use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, LeftOut, Module};

const HASH: Arg = Arg::of("algorithm", &["md5", "sha1", "sha224", "sha256", "sha384", "sha512"]);
const NAME: Arg = Arg::new(String, "name").or(D::Str(""));
const PATTERN: Arg = Arg::new(String, "pattern");
const MAX: Arg = Arg::new(Int, "max").or(D::Int(0));
const RESPONSE: Methods = Method::BackendResponse.set();
const DELIVER: Methods = Method::Deliver.set().with(Method::Synth.set());

/// vmod_xbody
pub(crate) const MODULE: Module = Module {
    left_out: LEFT_OUT,
    name: "xbody",
    text: "Response bodies rewritten, searched and hashed on their way into the cache, by patterns; the request's body as a text",
    objects: &[],
    functions: &[
        Func::new(
            Void,
            "regsub",
            &[PATTERN, Arg::new(String, "substitution"), Arg::new(String, "mode").or(D::Str("g")), MAX],
            "Replaces in the response's body: each match in mode g, the first in an empty one, no more than max unless that is 0; \
             \\1 is a group. 8 MB at most, or the fetch fails",
        )
        .only(RESPONSE),
        Func::new(
            Void,
            "capture",
            &[Arg::new(String, "name"), PATTERN, Arg::new(String, "value"), Arg::new(String, "mode").or(D::Str("")), MAX],
            "Keeps a value under a name with the object, when the pattern is found; both may have groups. The object doesn't stream",
        )
        .only(RESPONSE),
        Func::new(
            Void,
            "hash_body",
            &[HASH, NAME, Arg::new(Bool, "do_stream").or(D::Bool(false))],
            "Keeps a hash of the body with the object, as the body came; with do_stream the object may stream, and the hash is there \
             once it is whole",
        )
        .only(RESPONSE),
        Func::new(Blob, "get_hash", &[NAME], "A hash that hash_body has kept").only(DELIVER),
        Func::new(
            String,
            "get",
            &[Arg::new(String, "value"), Arg::new(String, "default").or(D::Null)],
            "The value that was captured under a name",
        )
        .only(DELIVER),
        Func::new(String, "get_all", &[], "All that was captured, as an object in JSON").only(DELIVER),
        Func::new(Void, "synth", &[], "Keeps what was captured for vcl_synth").only(Method::Deliver.set()),
        Func::new(
            Void,
            "set",
            &[Arg::new(String, "json")],
            "These values are captured, in the place of all that regsub and capture would do",
        )
        .only(RESPONSE),
        Func::new(
            String,
            "get_req_body",
            &[],
            "The request's body; unset, and VCL_Error says so, when std.cache_req_body doesn't keep it",
        ),
        Func::new(Blob, "get_req_body_hash", &[HASH], "A hash of the request's body, as get_req_body"),
        Func::new(Void, "reset", &[], "What was asked for this body is forgotten"),
    ],
};

/// What isn't built.
pub(crate) const LEFT_OUT: &[LeftOut] =
    &[LeftOut("xbody.log_body", "xbody.capture, and std.log of what it has in vcl_deliver")];

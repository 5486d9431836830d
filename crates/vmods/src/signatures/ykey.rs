// SPDX-License-Identifier: BSD-2-Clause
//! vmod_ykey of Varnish Enterprise 6.

use tables::vclvars::Method;
use tables::vclvars::Methods;
use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, LeftOut, Module};

const KEY: Arg = Arg::new(String, "key");
const KEYS: Arg = Arg::new(String, "keys");
const HEADER: Arg = Arg::new(Header, "header");
const SEP: Arg = Arg::new(String, "sep").or(D::Str(", "));
const SOFT: Arg = Arg::new(Bool, "soft").or(D::Bool(false));
const RESPONSE: Methods = Method::BackendResponse.set().with(Method::BackendError.set());

/// vmod_ykey
pub(crate) const MODULE: Module = Module {
    left_out: LEFT_OUT,
    name: "ykey",
    text: "Purging by the keys that VCL gives an object. Objects stored before a VCL with this import was loaded have none. Any \
           character of sep parts keys. A hard purge takes objects out of the cache; a soft one takes their ttl only, so that grace \
           and keep go on. The keys are counted by XKEY.*, as those of xkey are, which are others",
    objects: &[],
    functions: &[
        Func::new(Void, "add_key", &[KEY], "Gives the object one key").only(RESPONSE),
        Func::new(Void, "add_keys", &[KEYS, SEP], "Gives the object all keys of a text").only(RESPONSE),
        Func::new(Void, "add_header", &[HEADER, SEP], "Gives the object all keys in the fields of a name")
            .only(RESPONSE),
        Func::new(
            Void,
            "add_tree_keys",
            &[Arg::new(String, "url").or(D::Null)],
            "Gives the object a key for each directory that a URL, or bereq.url, is in: / and /a/ and /a/b/ for /a/b/c",
        )
        .only(RESPONSE),
        Func::new(
            Void,
            "namespace",
            &[Arg::new(String, "namespace")],
            "Until the task ends keys are those of a namespace",
        ),
        Func::new(Void, "namespace_reset", &[], "Keys are those without a namespace again"),
        Func::new(Int, "purge_key", &[KEY, SOFT], "Purges the objects with a key; says how many").waits(),
        Func::new(Int, "purge_keys", &[KEYS, SEP, SOFT], "Purges the objects with any key of a text; says how many")
            .waits(),
        Func::new(
            Int,
            "purge_header",
            &[HEADER, SEP, SOFT],
            "Purges the objects with any of the keys in the fields of a name; says how many",
        )
        .waits(),
    ],
};

/// What isn't built.
pub(crate) const LEFT_OUT: &[LeftOut] = &[
    LeftOut("ykey.add_hashed_keys", "ykey.add_key, with the texts"),
    LeftOut("ykey.purge", "ykey.purge_keys"),
    LeftOut("ykey.add_blob", "ykey.add_key, with blob.encode"),
    LeftOut("ykey.get_hashed_keys", "the texts that were added"),
    LeftOut("ykey.purge_blob", "ykey.purge_key, with blob.encode"),
];

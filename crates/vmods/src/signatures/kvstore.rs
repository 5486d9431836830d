// SPDX-License-Identifier: BSD-2-Clause
//! vmod_kvstore of Varnish Enterprise 6: tables of texts.

use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, LeftOut, Module, Object};

const KEY: Arg = Arg::new(String, "key");
const TTL: Arg = Arg::new(Duration, "ttl").or(D::Real(0.0));

/// vmod_kvstore
pub(crate) const MODULE: Module = Module {
    left_out: LEFT_OUT,
    name: "kvstore",
    text: "Tables of texts, by key, each key with a life of its own. A table belongs to its VCL and takes a million keys at most",
    functions: &[],
    objects: &[Object {
        name: "init",
        args: &[
            Arg::new(Int, "buckets").or(D::Int(25_000)),
            Arg::of("scope", &["GLOBAL", "REQUEST"]).or(D::Enum("GLOBAL")),
        ],
        text: "A table. It begins with room for so many keys as buckets says and grows. With scope=REQUEST what vcl_init sets is \
               what all tasks begin with, and what a task sets is its own",
        methods: &[
            Func::new(Void, "set", &[KEY, Arg::new(String, "value"), TTL], "Sets a key; for ttl, or for good when that is 0"),
            Func::new(
                String,
                "get",
                &[KEY, Arg::new(String, "default").or(D::Null)],
                "The value of a key; the default when there is none",
            ),
            Func::new(Void, "delete", &[KEY], "Deletes a key"),
            Func::new(
                Int,
                "counter",
                &[KEY, Arg::new(Int, "increment").or(D::Int(1)), TTL],
                "Adds to the number that a key has, 0 when it has none, and says what it is then. A life that is given begins anew",
            ),
            Func::new(
                Bool,
                "limit",
                &[KEY, Arg::new(Int, "max"), Arg::new(Int, "count").or(D::Int(1))],
                "Adds to the number that a key has, 0 when it has none, unless it would be more than max then: whether it did",
            ),
            Func::new(Bool, "contains", &[KEY], "Whether there is such a key"),
            Func::new(Int, "size", &[], "How many keys there are, with those whose life is over and that nobody asked for since"),
            Func::new(Int, "compact", &[], "Drops the keys whose life is over; says how many they were"),
            Func::new(
                Int,
                "init_file",
                &[Arg::new(String, "path"), Arg::new(String, "separator").or(D::Str(","))],
                "Puts the lines of a file, each a key, the separator and a value, in the place of all that is there, at once; says how \
                 many they are. A file that can't be read fails and changes nothing",
            )
            .blocks(),
        ],
    }],
};

/// What isn't built.
pub(crate) const LEFT_OUT: &[LeftOut] = &[
    LeftOut("kvstore.init.gauge", "set, or statsd.gauge for a figure to watch"),
    LeftOut("kvstore.init.get_any", "get, for each key"),
    LeftOut("kvstore.init.get_backend", "get, and a backend by `if`"),
    LeftOut("kvstore.init.init_conf", "init_file, with one separator for all lines"),
    LeftOut("kvstore.init.lock", "counter or limit, which nothing comes between"),
    LeftOut("kvstore.init.set_backend", "set, with the backend's name"),
    LeftOut("kvstore.init.unlock", "counter or limit, which nothing comes between"),
];

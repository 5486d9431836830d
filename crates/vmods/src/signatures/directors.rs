// SPDX-License-Identifier: BSD-2-Clause
//! vmod_directors(3).

use tables::vmods::Default as D;
use tables::vmods::Type::{self, *};
use tables::vmods::{Arg, Func, Module, Object};

const fn a(ty: Type, name: &'static str) -> Arg {
    Arg::new(ty, name)
}

const BY: Arg = Arg::of("by", &["HASH", "URL", "KEY", "BLOB"]).opt();
const HEALTHY: Arg = Arg::of("healthy", &["CHOSEN", "IGNORE", "ALL"]).opt();
const ADD: Func = Func::new(Void, "add_backend", &[Arg::pos(Backend)], "Adds a backend");
const REMOVE: Func = Func::new(Void, "remove_backend", &[Arg::pos(Backend)], "Takes a backend out");
const PICK: Func = Func::new(Backend, "backend", &[], "The director, to set as req.backend_hint or bereq.backend");

const SHARD: &[Func] = &[
    Func::new(
        Void,
        "set_warmup",
        &[a(Real, "probability").or(D::Real(0.0))],
        "How often the next server is used before it must be",
    ),
    Func::new(
        Void,
        "set_rampup",
        &[a(Duration, "duration").or(D::Real(0.0))],
        "How long a server that came back gets less than its share",
    ),
    Func::new(
        Void,
        "associate",
        &[a(Blob, "param").or(D::Null)],
        "Takes its parameters from a shard_param; none: its own",
    ),
    Func::new(
        Bool,
        "add_backend",
        &[a(Backend, "backend"), a(String, "ident").opt(), a(Duration, "rampup").opt(), a(Real, "weight").opt()],
        "Adds a backend at the next reconfigure, under its name or another identifier",
    ),
    Func::new(
        Bool,
        "remove_backend",
        &[a(Backend, "backend").opt().or(D::Null), a(String, "ident").opt().or(D::Null)],
        "Takes backends out at the next reconfigure, by backend, identifier or both",
    ),
    Func::new(Bool, "clear", &[], "Takes all backends out at the next reconfigure"),
    Func::new(
        Bool,
        "reconfigure",
        &[a(Int, "replicas").or(D::Int(67))],
        "Builds the ring with so many points a backend",
    ),
    Func::new(Int, "key", &[Arg::pos(Strands)], "The key that a text has on the ring").pure(),
    Func::new(
        Backend,
        "backend",
        &[
            BY.or(D::Enum("HASH")),
            a(Int, "key").opt(),
            a(Blob, "key_blob").opt(),
            a(Int, "alt").opt().or(D::Int(0)),
            a(Real, "warmup").opt().or(D::Real(-1.0)),
            a(Bool, "rampup").opt().or(D::Bool(true)),
            HEALTHY.or(D::Enum("CHOSEN")),
            a(Blob, "param").opt(),
            Arg::of("resolve", &["NOW", "LAZY"]).opt(),
        ],
        "A backend by its place on the ring",
    ),
    Func::new(Void, "debug", &[Arg::pos(Int)], "Bits of what to log; nothing is logged here"),
];

const SHARD_PARAM: &[Func] = &[
    Func::new(Void, "clear", &[], "Back to the defaults"),
    Func::new(
        Void,
        "set",
        &[
            BY,
            a(Int, "key").opt(),
            a(Blob, "key_blob").opt(),
            a(Int, "alt").opt(),
            a(Real, "warmup").opt(),
            a(Bool, "rampup").opt(),
            HEALTHY,
        ],
        "Sets parameters: in vcl_init for all, in a backend subroutine for this transaction",
    ),
    Func::new(String, "get_by", &[], "What the key is taken from"),
    Func::new(Int, "get_key", &[], "The key"),
    Func::new(Int, "get_alt", &[], "How many places are skipped"),
    Func::new(Real, "get_warmup", &[], "The probability of warming up; -1: the director's"),
    Func::new(Bool, "get_rampup", &[], "Whether a server that came back is spared"),
    Func::new(String, "get_healthy", &[], "How health is heeded"),
    Func::new(Blob, "use", &[], "These parameters, for shard's associate and backend"),
];

/// vmod_directors(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "directors",
    text: "Choosing among backends",
    functions: &[Func::new(
        Backend,
        "lookup",
        &[Arg::pos(String)],
        "A backend or director of this VCL by name; in vcl_init and vcl_fini only",
    )
    .only(tables::vclvars::Methods::HOUSEKEEPING)],
    objects: &[
        Object {
            name: "round_robin",
            args: &[],
            methods: &[ADD, REMOVE, PICK],
            text: "Takes the next healthy one in turn",
        },
        Object {
            name: "fallback",
            args: &[a(Bool, "sticky").or(D::Bool(false))],
            methods: &[ADD, REMOVE, PICK],
            text: "Takes the first healthy one; sticky: stays with it until it fails",
        },
        Object {
            name: "random",
            args: &[],
            methods: &[
                Func::new(Void, "add_backend", &[Arg::pos(Backend), Arg::pos(Real)], "Adds a backend with its weight"),
                REMOVE,
                PICK,
            ],
            text: "Takes any healthy one, by weight",
        },
        Object {
            name: "hash",
            args: &[],
            methods: &[
                Func::new(
                    Void,
                    "add_backend",
                    &[Arg::pos(Backend), a(Real, "weight").or(D::Real(1.0))],
                    "Adds a backend with its weight",
                ),
                REMOVE,
                Func::new(Backend, "backend", &[Arg::pos(Strands)], "The backend that a text belongs to"),
            ],
            text: "Takes the one that a text's hash belongs to",
        },
        Object { name: "shard", args: &[], methods: SHARD, text: "Consistent hashing with warm-up and ramp-up" },
        Object {
            name: "shard_param",
            args: &[],
            methods: SHARD_PARAM,
            text: "A set of parameters for shard directors",
        },
    ],
};

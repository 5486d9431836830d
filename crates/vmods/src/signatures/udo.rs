// SPDX-License-Identifier: BSD-2-Clause
//! vmod_udo of Varnish Enterprise 6.

use tables::vclvars::Method;
use tables::vclvars::Methods;
use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, LeftOut, Module, Object};

const TYPES: &[&str] = &["hash", "fallback", "random"];

/// vmod_udo
pub(crate) const MODULE: Module = Module {
    left_out: LEFT_OUT,
    name: "udo",
    text: "A director over backends and over the addresses of names (activedns). Each task has its own order of them, and goes on in it \
           with each backend that it needs: a retry gets another one, and none when all were tried",
    functions: &[],
    objects: &[Object {
        name: "director",
        args: &[Arg::of("type", TYPES).or(D::Enum("hash"))],
        text: "Its order is by the hash of the object (the same for the same object, as far as weights and health allow), by the order in \
               which backends were added, or by lot",
        methods: &[
            Func::new(
                Void,
                "add_backend",
                &[
                    Arg::new(Backend, "backend"),
                    Arg::new(Real, "weight").or(D::Real(1.0)),
                    Arg::new(Blob, "hash").or(D::Null),
                ],
                "Adds a backend; its share is by weight, its place by hash (32 bytes), else by its name",
            )
            .only(Method::Init.set()),
            Func::new(
                Void,
                "subscribe",
                &[Arg::new(String, "tag")],
                "Adds the backends of a group: what its get_tag() says",
            )
            .only(Method::Init.set()),
            Func::new(
                Void,
                "set_type",
                &[Arg::of("type", TYPES)],
                "Another order: for all in vcl_init, elsewhere for this task's .backend()",
            ),
            Func::new(
                Void,
                "set_hash",
                &[Arg::new(Blob, "hash")],
                "What this task's order is by, in the place of the object's hash",
            )
            .only(Methods::CLIENT.with(Methods::BACKEND)),
            Func::new(Backend, "backend", &[], "The director. The first time it waits for the lookups of its groups")
                .waits(),
            Func::new(
                String,
                "get_identifier",
                &[],
                "A text that no other director has: a request that comes in with it was sent by this one",
            ),
            Func::new(
                Bool,
                "self_identify",
                &[Arg::new(String, "identifier")],
                "Whether the text is this director's. If so, the backend that has the address at which the request came in is known to \
                 be this server itself",
            ),
            Func::new(
                Bool,
                "self_is_next",
                &[Arg::new(Int, "lookahead").or(D::Int(0))],
                "Whether this server itself comes next in the task's order, or within so many more",
            ),
        ],
    }],
};

/// What isn't built.
pub(crate) const LEFT_OUT: &[LeftOut] = &[
    LeftOut("udo.director.avoid_backend", "a retry, which gets another backend"),
    LeftOut("udo.director.dump", "backend.list of varnishadm"),
    LeftOut("udo.director.exhaust_backend", "a retry, which gets another backend"),
    LeftOut("udo.director.is_identified", "what self_identify said"),
    LeftOut("udo.director.reset", "another director with the same backends"),
    LeftOut("udo.director.set_identity", "self_identify"),
    LeftOut("udo.director.set_subtype", "set_type, and a director in a director"),
];

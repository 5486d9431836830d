// SPDX-License-Identifier: BSD-2-Clause
//! Modules for tests: the parts of some real ones that the tests call.

use tables::vclvars::{Method, Type, Type::*};
use tables::vmods::{Arg, Default as D, Func, Module, Modules, Object};

pub const MODULES: Modules = Modules(&[&BLOB, &COOKIE, &DIRECTORS, &DYNAMIC, &PURGE, &SAINTMODE, &STD, &VAR]);

const fn a(ty: Type, name: &'static str) -> Arg {
    Arg::new(ty, name)
}

const fn func(ret: Type, name: &'static str, args: &'static [Arg]) -> Func {
    Func::new(ret, name, args, "a text")
}

const fn module(name: &'static str, functions: &'static [Func], objects: &'static [Object]) -> Module {
    Module { name, functions, objects, text: "a text", left_out: &[] }
}

const CODES: &[&str] = &["IDENTITY", "BASE64", "BASE64URL", "BASE64URLNOPAD", "BASE64CF", "HEX", "URL"];
const ENCODING: Arg = Arg::one_of("encoding", CODES).or(D::Enum("IDENTITY"));
const CASE: Arg = Arg::one_of("case", &["LOWER", "UPPER", "DEFAULT"]).or(D::Enum("DEFAULT"));

const BLOB: Module = module(
    "blob",
    &[func(String, "encode", &[ENCODING, CASE, a(Blob, "blob")]).pure()],
    &[Object {
        name: "blob",
        args: &[Arg::one_of("decoding", CODES).or(D::Enum("IDENTITY")), a(Strands, "encoded")],
        methods: &[func(Blob, "get", &[]), func(String, "encode", &[ENCODING, CASE])],
        text: "a text",
    }],
);

const COOKIE: Module = module("cookie", &[func(Void, "parse", &[a(String, "cookieheader")])], &[]);

const fn director(name: &'static str, add: &'static [Arg], pick: &'static [Arg]) -> Object {
    const ADD: [Func; 2] = [
        func(Void, "add_backend", &[Arg::pos(Backend)]),
        func(Void, "add_backend", &[Arg::pos(Backend), a(Real, "weight").or(D::Real(1.0))]),
    ];
    const NONE: &[Func] = &[ADD[0], func(Backend, "backend", &[])];
    const TEXT: &[Func] = &[ADD[1], func(Backend, "backend", &[Arg::pos(Strands)])];
    const WEIGHT: &[Func] = &[ADD[1], func(Backend, "backend", &[])];
    let methods = match (add.len(), pick.len()) {
        (1, _) => NONE,
        (_, 0) => WEIGHT,
        _ => TEXT,
    };
    Object { name, args: &[], methods, text: "a text" }
}

const BACKEND: Arg = Arg::pos(Backend);
const WEIGHT: Arg = a(Real, "weight");

const DIRECTORS: Module = module(
    "directors",
    &[],
    &[
        director("round_robin", &[BACKEND], &[]),
        director("fallback", &[BACKEND], &[]),
        director("random", &[BACKEND, WEIGHT], &[]),
        director("hash", &[BACKEND, WEIGHT], &[Arg::pos(Strands)]),
    ],
);

const fn seconds(name: &'static str, default: f64) -> Arg {
    a(Duration, name).or(D::Real(default))
}

const DYNAMIC: Module = module(
    "dynamic",
    &[],
    &[Object {
        name: "director",
        args: &[
            a(String, "port").or(D::Str("http")),
            a(String, "host_header").or(D::Null),
            a(Probe, "probe").or(D::Null),
            a(Acl, "whitelist").or(D::Null),
            seconds("ttl", 3600.0),
            seconds("connect_timeout", 0.0),
            seconds("first_byte_timeout", 0.0),
            seconds("between_bytes_timeout", 0.0),
        ],
        methods: &[func(Backend, "backend", &[a(String, "host").or(D::Str("")), a(String, "port").or(D::Str(""))])],
        text: "a text",
    }],
);

const PURGE: Module = module("purge", &[func(Int, "hard", &[]).only(Method::Hit.set().with(Method::Miss.set()))], &[]);

const SAINTMODE: Module = module(
    "saintmode",
    &[func(Void, "blacklist", &[a(Duration, "expires")]).only(Method::BackendResponse.set())],
    &[Object {
        name: "saintmode",
        args: &[a(Backend, "backend"), a(Int, "threshold")],
        methods: &[func(Backend, "backend", &[])],
        text: "a text",
    }],
);

const STD: Module = module(
    "std",
    &[
        func(Real, "random", &[a(Real, "lo"), a(Real, "hi")]),
        func(Void, "collect", &[a(Header, "hdr"), a(String, "sep").or(D::Str(", "))]),
        func(String, "toupper", &[a(Strands, "s")]).pure(),
        func(String, "tolower", &[a(Strands, "s")]).pure(),
        func(Int, "port", &[a(Ip, "ip")]).pure(),
        func(
            Duration,
            "duration",
            &[a(String, "s").opt(), a(Duration, "fallback").opt(), a(Real, "real").opt(), a(Int, "integer").opt()],
        ),
        func(
            Int,
            "integer",
            &[
                a(String, "s").opt(),
                a(Int, "fallback").opt(),
                a(Bool, "bool").opt(),
                a(Bytes, "bytes").opt(),
                a(Duration, "duration").opt(),
                a(Real, "real").opt(),
                a(Time, "time").opt(),
            ],
        ),
        func(
            Ip,
            "ip",
            &[a(String, "s"), a(Ip, "fallback").opt(), a(Bool, "resolve").or(D::Bool(true)), a(String, "p").opt()],
        )
        .waits(),
        func(
            Time,
            "time",
            &[a(String, "s").opt(), a(Time, "fallback").opt(), a(Real, "real").opt(), a(Int, "integer").opt()],
        ),
        func(Void, "log", &[a(Strands, "s")]),
        func(Void, "syslog", &[a(Int, "priority"), a(Strands, "s")]),
        func(Bool, "cache_req_body", &[a(Bytes, "size")]).waits().only(Method::Recv.set()),
    ],
    &[],
);

const VAR: Module = module(
    "var",
    &[func(Void, "set", &[a(String, "key"), a(String, "value")]), func(String, "get", &[Arg::pos(String)])],
    &[],
);

// SPDX-License-Identifier: BSD-2-Clause
//! Modules for tests: the parts of some real ones that the tests call.

use tables::vclsubs::Method;
use tables::vclvars::{Type, Type::*};
use tables::vmods::{Default as D, Func, Module, Modules, VmodArg, VmodObjectType};

pub const MODULES: Modules = Modules(&[&BLOB, &COOKIE, &DIRECTORS, &DYNAMIC, &PURGE, &SAINTMODE, &STD, &VAR]);

const fn a(ty: Type, name: &'static str) -> VmodArg {
    VmodArg::new(ty, name)
}

const fn func(ret: Type, name: &'static str, args: &'static [VmodArg]) -> Func {
    Func::new(ret, name, args, "a text")
}

const fn module(name: &'static str, functions: &'static [Func], objects: &'static [VmodObjectType]) -> Module {
    Module { name, functions, objects, text: "a text", left_out: &[] }
}

const CODES: &[&str] = &["IDENTITY", "BASE64", "BASE64URL", "BASE64URLNOPAD", "BASE64CF", "HEX", "URL"];
const ENCODING: VmodArg = VmodArg::one_of("encoding", CODES).or(D::Enum("IDENTITY"));
const CASE: VmodArg = VmodArg::one_of("case", &["LOWER", "UPPER", "DEFAULT"]).or(D::Enum("DEFAULT"));

const BLOB: Module = module(
    "blob",
    &[func(String, "encode", &[ENCODING, CASE, a(Blob, "blob")]).pure()],
    &[VmodObjectType {
        name: "blob",
        args: &[VmodArg::one_of("decoding", CODES).or(D::Enum("IDENTITY")), a(Strands, "encoded")],
        methods: &[func(Blob, "get", &[]), func(String, "encode", &[ENCODING, CASE])],
        text: "a text",
    }],
);

const COOKIE: Module = module("cookie", &[func(Void, "parse", &[a(String, "cookieheader")])], &[]);

const fn director(name: &'static str, add: &'static [VmodArg], pick: &'static [VmodArg]) -> VmodObjectType {
    const ADD: [Func; 2] = [
        func(Void, "add_backend", &[VmodArg::pos(Backend)]),
        func(Void, "add_backend", &[VmodArg::pos(Backend), a(Real, "weight").or(D::Real(1.0))]),
    ];
    const NONE: &[Func] = &[ADD[0], func(Backend, "backend", &[])];
    const TEXT: &[Func] = &[ADD[1], func(Backend, "backend", &[VmodArg::pos(Strands)])];
    const WEIGHT: &[Func] = &[ADD[1], func(Backend, "backend", &[])];
    let methods = match (add.len(), pick.len()) {
        (1, _) => NONE,
        (_, 0) => WEIGHT,
        _ => TEXT,
    };
    VmodObjectType { name, args: &[], methods, text: "a text" }
}

const BACKEND: VmodArg = VmodArg::pos(Backend);
const WEIGHT: VmodArg = a(Real, "weight");

const DIRECTORS: Module = module(
    "directors",
    &[],
    &[
        director("round_robin", &[BACKEND], &[]),
        director("fallback", &[BACKEND], &[]),
        director("random", &[BACKEND, WEIGHT], &[]),
        director("hash", &[BACKEND, WEIGHT], &[VmodArg::pos(Strands)]),
    ],
);

const fn seconds(name: &'static str, default: f64) -> VmodArg {
    a(Duration, name).or(D::Real(default))
}

const DYNAMIC: Module = module(
    "dynamic",
    &[],
    &[VmodObjectType {
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
    &[VmodObjectType {
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
        func(Duration, "timed_call", &[VmodArg::pos(Sub)]),
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
    &[func(Void, "set", &[a(String, "key"), a(String, "value")]), func(String, "get", &[VmodArg::pos(String)])],
    &[],
);

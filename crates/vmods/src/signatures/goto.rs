// SPDX-License-Identifier: BSD-2-Clause
//! vmod_goto of Varnish Enterprise 6.

use tables::vclvars::Method;
use tables::vclvars::Methods;
use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module, Object};

const BACKEND_SIDE: Methods =
    Method::BackendFetch.set().with(Method::BackendResponse.set()).with(Method::BackendError.set());

const fn seconds(name: &'static str, default: f64) -> Arg {
    Arg::new(Duration, name).or(D::Real(default))
}

const ARGS: &[Arg] = &[
    Arg::new(String, "s"),
    Arg::new(String, "port").or(D::Null),
    Arg::new(String, "host_header").or(D::Null),
    Arg::new(Probe, "probe").or(D::Null),
    Arg::of("ip_version", &["system", "ipv4", "ipv6"]).or(D::Enum("system")),
    seconds("ttl", 10.0),
    Arg::of("ttl_rule", &["force"]).or(D::Enum("force")),
    seconds("connect_timeout", 0.0),
    seconds("first_byte_timeout", 0.0),
    seconds("between_bytes_timeout", 0.0),
    Arg::new(Int, "max_connections").or(D::Int(0)),
    Arg::new(Int, "proxy_header").or(D::Int(0)),
    Arg::new(Bool, "ssl").or(D::Bool(false)),
];

/// vmod_goto
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "goto",
    text: "Backends by names that are known at run time only: HOST, HOST:PORT or http://HOST:PORT/; without a port it is port's, else \
           80. The system's resolver is asked, again after ttl; it knows no SRV records. Not built: https and ssl=true, for which a TLS \
           proxy must stand before the backend, and a ttl out of the DNS",
    functions: &[Func::new(
        Backend,
        "dns_backend",
        ARGS,
        "The director of a name. The first time it waits for the lookup; no backend when there are more than 1000 names",
    )
    .only(BACKEND_SIDE)
    .waits()],
    objects: &[Object {
        name: "dns_director",
        args: ARGS,
        text: "A director over the addresses of a name, which it takes in turn. A lookup that fails changes nothing",
        methods: &[Func::new(Backend, "backend", &[], "The director. The first time it waits for the lookup").waits()],
    }],
};

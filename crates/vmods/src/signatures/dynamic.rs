// SPDX-License-Identifier: BSD-2-Clause
//! vmod_dynamic(3) of libvmod-dynamic. Not built: resolver objects and service(), which ask DNS servers themselves.

use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, LeftOut, Module, Object};

const fn seconds(name: &'static str, default: f64) -> Arg {
    Arg::new(Duration, name).or(D::Real(default))
}

/// vmod_dynamic(3)
pub(crate) const MODULE: Module = Module {
    left_out: LEFT_OUT,
    name: "dynamic",
    text: "Backends by names that are known at run time only",
    functions: &[],
    objects: &[Object {
        name: "director",
        args: &[
            Arg::new(String, "port").or(D::Str("http")),
            Arg::new(String, "host_header").or(D::Null),
            Arg::of("share", &["DIRECTOR", "HOST"]).or(D::Enum("DIRECTOR")),
            Arg::new(Probe, "probe").or(D::Null),
            Arg::new(Acl, "whitelist").or(D::Null),
            seconds("ttl", 3600.0),
            seconds("connect_timeout", 0.0),
            seconds("first_byte_timeout", 0.0),
            seconds("between_bytes_timeout", 0.0),
            seconds("domain_usage_timeout", 7200.0),
            seconds("first_lookup_timeout", 10.0),
            Arg::new(Int, "max_connections").or(D::Int(0)),
            Arg::new(Int, "proxy_header").or(D::Int(0)),
            Arg::new(Blob, "resolver").or(D::Null),
            Arg::of("ttl_from", &["cfg", "dns", "min", "max"]).or(D::Enum("cfg")),
        ],
        text: "Makes backends for the addresses of names, which it looks up again every ttl, and takes them in turn. A lookup that \
               fails changes nothing; only what whitelist has counts",
        methods: &[
            Func::new(
                Backend,
                "backend",
                &[Arg::new(String, "host").or(D::Str("")), Arg::new(String, "port").or(D::Str(""))],
                "The director of a name: of the Host field when host is empty. The first time it waits for the lookup",
            )
            .waits(),
            Func::new(Void, "debug", &[Arg::pos(Bool)], "Whether lookups are written to the log"),
        ],
    }],
};

/// What asks DNS servers itself.
pub(crate) const LEFT_OUT: &[LeftOut] = &[
    LeftOut("dynamic.resolver", "a director without one: the system's resolver is asked"),
    LeftOut("dynamic.director.service", "director.backend with host and port: SRV records aren't looked up"),
];

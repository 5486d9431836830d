// SPDX-License-Identifier: BSD-2-Clause
//! vmod_std(3).

use tables::vclvars::{Method, Methods};
use tables::vmods::Default as D;
use tables::vmods::Type::{self, *};
use tables::vmods::{Arg, Func, LeftOut, Module};

const fn a(ty: Type, name: &'static str) -> Arg {
    Arg::new(ty, name)
}

/// vmod_std(3)
pub(crate) const MODULE: Module = Module {
    left_out: LEFT_OUT,
    name: "std",
    text: "Everyday functions: conversions, text, logging, files",
    objects: &[],
    functions: &[
        Func::new(Real, "random", &[a(Real, "lo"), a(Real, "hi")], "A random number between lo and hi"),
        Func::new(Real, "round", &[a(Real, "r")], "r rounded to the nearest whole number, halves away from zero")
            .pure(),
        Func::new(
            Void,
            "collect",
            &[a(Header, "hdr"), a(String, "sep").or(D::Str(", "))],
            "Joins all fields of one name into the first, sep between them",
        ),
        Func::new(String, "querysort", &[Arg::pos(String)], "The URL with the parameters of its query in order").pure(),
        Func::new(String, "toupper", &[a(Strands, "s")], "s in ASCII upper case").pure(),
        Func::new(String, "tolower", &[a(Strands, "s")], "s in ASCII lower case").pure(),
        Func::new(
            String,
            "strstr",
            &[a(String, "s1"), a(String, "s2")],
            "s1 from the first place where s2 occurs in it; unset when it doesn't",
        )
        .pure(),
        Func::new(
            Bool,
            "fnmatch",
            &[
                a(String, "pattern"),
                a(String, "subject"),
                a(Bool, "pathname").or(D::Bool(true)),
                a(Bool, "noescape").or(D::Bool(false)),
                a(Bool, "period").or(D::Bool(false)),
            ],
            "Whether the whole subject matches a pattern of the shell",
        ),
        Func::new(
            String,
            "fileread",
            &[Arg::pos(String)],
            "The contents of a file, read at the first call and kept while the VCL is loaded",
        )
        .blocks(),
        Func::new(Blob, "blobread", &[Arg::pos(String)], "The same, as a blob").blocks(),
        Func::new(Bool, "file_exists", &[a(String, "path")], "Whether the file exists").blocks(),
        Func::new(Bool, "healthy", &[a(Backend, "be")], "Whether the backend or director is healthy"),
        Func::new(Int, "port", &[a(Ip, "ip")], "The port of an address; -1 when there is none").pure(),
        Func::new(
            Duration,
            "duration",
            &[a(String, "s").opt(), a(Duration, "fallback").opt(), a(Real, "real").opt(), a(Int, "integer").opt()],
            "A duration from text with a unit or from a number of seconds, else the fallback",
        ),
        Func::new(
            Bytes,
            "bytes",
            &[a(String, "s").opt(), a(Bytes, "fallback").opt(), a(Real, "real").opt(), a(Int, "integer").opt()],
            "A byte size from text with an optional unit or from a number, else the fallback",
        ),
        Func::new(
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
            "An integer from text or from another type, fractions cut, else the fallback",
        ),
        Func::new(
            Ip,
            "ip",
            &[a(String, "s"), a(Ip, "fallback").opt(), a(Bool, "resolve").or(D::Bool(true)), a(String, "p").opt()],
            "The address that s names (a host name too, unless resolve is false), with port p, else the fallback",
        )
        .waits(),
        Func::new(
            Real,
            "real",
            &[
                a(String, "s").opt(),
                a(Real, "fallback").opt(),
                a(Int, "integer").opt(),
                a(Bool, "bool").opt(),
                a(Bytes, "bytes").opt(),
                a(Duration, "duration").opt(),
                a(Time, "time").opt(),
            ],
            "A real number from text or from another type, else the fallback",
        ),
        Func::new(
            Time,
            "time",
            &[a(String, "s").opt(), a(Time, "fallback").opt(), a(Real, "real").opt(), a(Int, "integer").opt()],
            "A time from an HTTP date, ISO 8601 or seconds since 1970, else the fallback",
        ),
        Func::new(
            String,
            "strftime",
            &[a(Time, "time"), a(String, "format")],
            "The time in UTC, written by a strftime(3) format; unset on an error",
        )
        .pure(),
        Func::new(Void, "log", &[a(Strands, "s")], "Logs s as VCL_Log"),
        Func::new(Void, "syslog", &[a(Int, "priority"), a(Strands, "s")], "Sends s to the system's log"),
        Func::new(Void, "timestamp", &[a(String, "s")], "Logs a Timestamp record called s")
            .only(Methods::CLIENT.with(Methods::BACKEND)),
        Func::new(Void, "rfc_ttl", &[], "Sets ttl, grace and keep of beresp anew, as its status and fields say now")
            .only(Method::BackendResponse.set()),
        Func::new(Time, "now", &[], "The time at this very moment; `now` is when the subroutine began"),
        Func::new(Bool, "syntax", &[Arg::pos(Real)], "Whether the VCL's version is at least the one given"),
        Func::new(
            String,
            "getenv",
            &[a(String, "name")],
            "A variable of the process' environment; unset when it has none",
        ),
        Func::new(
            Bool,
            "cache_req_body",
            &[a(Bytes, "size")],
            "Reads the request's body, up to size bytes, so that it can be sent more than once",
        )
        .waits()
        .only(Method::Recv.set()),
        Func::new(Void, "late_100_continue", &[a(Bool, "late")], "Whether 100-continue waits until the body is needed")
            .only(Method::Recv.set()),
        Func::new(Void, "set_ip_tos", &[a(Int, "tos")], "Sets the type-of-service bits of the client's connection")
            .only(Methods::CLIENT),
        Func::new(Void, "rollback", &[a(Http, "h")], "Puts req or bereq back to what it was at the start"),
        Func::new(Bool, "ban", &[Arg::pos(String)], "Adds a ban; false when it can't (see ban_error)")
            .only(Methods::CLIENT.with(Methods::BACKEND)),
        Func::new(String, "ban_error", &[], "Why the last ban of this task failed; empty when it didn't")
            .only(Methods::CLIENT.with(Methods::BACKEND)),
        Func::new(Int, "real2integer", &[a(Real, "r"), a(Int, "fallback")], "Old name of integer(real=)"),
        Func::new(Time, "real2time", &[a(Real, "r"), a(Time, "fallback")], "Old name of time(real=)"),
        Func::new(Int, "time2integer", &[a(Time, "t"), a(Int, "fallback")], "Old name of integer(time=)"),
        Func::new(Real, "time2real", &[a(Time, "t"), a(Real, "fallback")], "Old name of real(time=)"),
    ],
};

/// What isn't built.
pub(crate) const LEFT_OUT: &[LeftOut] =
    &[LeftOut("std.timed_call", "two calls of std.now(), or the profile of `vcl.profile`")];

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_vtc(3).

use tables::vmods::Default as D;
use tables::vmods::Type::{self, *};
use tables::vmods::{Arg, Func, Module};

const fn a(ty: Type, name: &'static str) -> Arg {
    Arg::new(ty, name)
}

const SPACE: Arg = Arg::of("", &["client", "backend", "session", "thread"]);

/// vmod_vtc(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "vtc",
    text: "Helpers for test cases",
    objects: &[],
    functions: &[
        Func::new(
            Void,
            "barrier_sync",
            &[a(String, "addr"), a(Duration, "timeout").or(D::Real(0.0))],
            "Waits until all have reached varnishtest's barrier at addr; else fails",
        )
        .waits(),
        Func::new(Backend, "no_backend", &[], "An unset backend"),
        Func::new(Stevedore, "no_stevedore", &[], "An unset storage"),
        Func::new(Ip, "no_ip", &[], "An unset address"),
        Func::new(Void, "panic", &[Arg::pos(Strands)], "Stops the worker with this text, as a failed invariant does"),
        Func::new(Void, "sleep", &[Arg::pos(Duration)], "Holds the transaction for a while").waits(),
        Func::new(Void, "workspace_alloc", &[SPACE, a(Int, "size")], "Takes bytes of a workspace's budget"),
        Func::new(Bytes, "workspace_reserve", &[SPACE, a(Int, "size")], "How many bytes could be taken of a workspace"),
        Func::new(Int, "workspace_free", &[SPACE], "Bytes left of a workspace's budget"),
        Func::new(Void, "workspace_snapshot", &[SPACE], "Remembers how full a workspace is"),
        Func::new(Void, "workspace_reset", &[SPACE], "Goes back to what workspace_snapshot remembered"),
        Func::new(Bool, "workspace_overflowed", &[SPACE], "Whether more was asked of a workspace than it had"),
        Func::new(Void, "workspace_overflow", &[SPACE], "Marks a workspace as overflowed"),
        Func::new(
            Blob,
            "workspace_dump",
            &[SPACE, Arg::of("", &["s", "f", "r"]), a(Bytes, "off").or(D::Int(0)), a(Bytes, "len").or(D::Int(64))],
            "Bytes of a workspace; there is none here, so it fails",
        ),
        Func::new(
            Int,
            "typesize",
            &[Arg::pos(String)],
            "Size of a C struct of the types p i d f l s z o j; -1 for another letter",
        )
        .pure(),
        Func::new(
            Blob,
            "proxy_header",
            &[Arg::of("version", &["v1", "v2"]), a(Ip, "client"), a(Ip, "server"), a(String, "authority").or(D::Null)],
            "A PROXY protocol header for these addresses",
        ),
        Func::new(
            Void,
            "vsl",
            &[a(Int, "vxid"), a(String, "tag"), Arg::of("side", &["c", "b"]), a(Strands, "s")],
            "Writes a log record of any transaction",
        ),
        Func::new(Void, "vsl_replay", &[a(Strands, "s")], "Writes the log records that varnishlog -g raw printed"),
    ],
};

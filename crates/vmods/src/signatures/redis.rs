// SPDX-License-Identifier: BSD-2-Clause
//! vmod_redis of libvmod-redis (carlosabalde). Not built: see `LEFT_OUT`; clusters, sentinels, weights, TLS and roles found out are refused
//! when the VCL is loaded.

use tables::vclvars::Method;
use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, LeftOut, Module, Object};

const fn text(name: &'static str) -> Arg {
    Arg::new(String, name).or(D::Str(""))
}

const fn int(name: &'static str, default: i64) -> Arg {
    Arg::new(Int, name).or(D::Int(default))
}

const fn flag(name: &'static str, default: bool) -> Arg {
    Arg::new(Bool, name).or(D::Bool(default))
}

const fn more(name: &'static str) -> Arg {
    Arg::new(String, name).opt()
}

const fn is(name: &'static str, text: &'static str) -> Func {
    Func::new(Bool, name, &[], text)
}

const INDEX: &[Arg] = &[Arg::new(Int, "index")];

const fn nth(name: &'static str, text: &'static str) -> Func {
    Func::new(Bool, name, INDEX, text)
}

const ROLES: &[&str] = &["master", "slave", "auto", "cluster"];
const PROTOCOLS: &[&str] = &["RESP2", "RESP3", "default"];
const MASTER: Arg = flag("master", true);

/// vmod_redis
pub(crate) const MODULE: Module = Module {
    left_out: LEFT_OUT,
    name: "redis",
    text: "Commands to Redis servers; a reply has 8 MB and 100,000 values at most. Not built: clusters, sentinels, weights, TLS",
    functions: &[
        Func::new(Void, "weights", &[text("rules")], "Nothing; fails when there are rules").only(Method::Init.set()),
        Func::new(
            Void,
            "sentinels",
            &[
                text("locations"),
                int("period", 60),
                int("connection_timeout", 500),
                int("command_timeout", 0),
                Arg::of("protocol", PROTOCOLS).or(D::Enum("default")),
                flag("tls", false),
                text("tls_cafile"),
                text("tls_capath"),
                text("tls_certfile"),
                text("tls_keyfile"),
                text("tls_sni"),
                text("password"),
                flag("debug", false),
            ],
            "Nothing; fails when there are locations",
        )
        .only(Method::Init.set()),
    ],
    objects: &[Object {
        name: "db",
        args: &[
            text("location"),
            Arg::of("type", ROLES).or(D::Enum("auto")),
            int("connection_timeout", 1000),
            int("connection_ttl", 0),
            int("command_timeout", 0),
            int("max_command_retries", 0),
            flag("shared_connections", true),
            int("max_connections", 128),
            Arg::of("protocol", PROTOCOLS).or(D::Enum("default")),
            flag("tls", false),
            text("tls_cafile"),
            text("tls_capath"),
            text("tls_certfile"),
            text("tls_keyfile"),
            text("tls_sni"),
            text("user"),
            text("password"),
            int("sickness_ttl", 60),
            flag("ignore_slaves", false),
            flag("debug", false),
            int("max_cluster_hops", 32),
        ],
        text: "Servers by HOST:PORT or the path of a socket; auto counts as master. Times are in milliseconds, ttls in seconds; 0 is a \
               minute, or no ttl. Each server has max_connections at most, shared by all threads; 128 without shared_connections. debug \
               writes each command's name as a Debug record",
        methods: &[
            Func::new(
                Void,
                "add_server",
                &[Arg::new(String, "location"), Arg::of("type", ROLES)],
                "Another server, master or slave",
            )
            .only(Method::Init.set()),
            Func::new(Void, "command", &[Arg::new(String, "name")], "Begins a command of this task; the last reply is gone"),
            Func::new(Void, "timeout", &[Arg::new(Int, "command_timeout")], "How long it may take, in milliseconds"),
            Func::new(Void, "retries", &[Arg::new(Int, "max_command_retries")], "How often it is tried again, 10 at most"),
            Func::new(Void, "push", &[Arg::new(String, "arg")], "An argument; 1024 of them, 1 MB at most"),
            Func::new(
                Void,
                "execute",
                &[MASTER],
                "Sends the command to a master, or to any server, slaves first, and waits for the reply. A VCL_Error record says why \
                 there is none",
            )
            .waits(),
            Func::new(
                Void,
                "easy_execute",
                &[
                    Arg::new(String, "command"),
                    more("cmd_arg1"),
                    more("cmd_arg2"),
                    more("cmd_arg3"),
                    more("cmd_arg4"),
                    more("cmd_arg5"),
                    more("cmd_arg6"),
                    more("cmd_arg7"),
                    more("cmd_arg8"),
                    more("cmd_arg9"),
                    more("cmd_arg10"),
                    more("cmd_arg11"),
                    more("cmd_arg12"),
                    more("cmd_arg13"),
                    more("cmd_arg14"),
                    more("cmd_arg15"),
                    more("cmd_arg16"),
                    Arg::new(Int, "timeout").opt(),
                    Arg::new(Int, "retries").opt(),
                    MASTER,
                ],
                "command, push, timeout, retries and execute in one",
            )
            .waits(),
            is("replied", "Whether there is a reply"),
            is("reply_is_error", "Whether it is an error"),
            is("reply_is_nil", "Whether it is nil"),
            is("reply_is_status", "Whether it is a status"),
            is("reply_is_integer", "Whether it is an integer"),
            is("reply_is_boolean", "Whether it is a boolean"),
            is("reply_is_double", "Whether it is a double"),
            is("reply_is_string", "Whether it is a string"),
            is("reply_is_array", "Whether it is an array, a map or a set"),
            Func::new(String, "get_reply", &[], "The reply as a text; unset when it is nil or an array"),
            Func::new(String, "get_error_reply", &[], "The error, if the reply is one"),
            Func::new(String, "get_status_reply", &[], "The status, if the reply is one"),
            Func::new(Int, "get_integer_reply", &[], "The integer, or 0"),
            Func::new(Bool, "get_boolean_reply", &[], "The boolean, or false"),
            Func::new(Real, "get_double_reply", &[], "The double, or 0"),
            Func::new(String, "get_string_reply", &[], "The string, if the reply is one"),
            Func::new(Int, "get_array_reply_length", &[], "How many values the array has; a map has its keys and its values"),
            nth("array_reply_is_error", "Whether this value of the array is an error"),
            nth("array_reply_is_nil", "Whether this value of the array is nil"),
            nth("array_reply_is_status", "Whether this value of the array is a status"),
            nth("array_reply_is_integer", "Whether this value of the array is an integer"),
            nth("array_reply_is_boolean", "Whether this value of the array is a boolean"),
            nth("array_reply_is_double", "Whether this value of the array is a double"),
            nth("array_reply_is_string", "Whether this value of the array is a string"),
            nth("array_reply_is_array", "Whether this value of the array is an array"),
            Func::new(String, "get_array_reply_value", INDEX, "This value of the array as a text"),
            Func::new(Void, "free", &[], "Forgets command and reply"),
        ],
    }],
};

const METHOD: &str = "the method of that name";
const COUNTERS: &str = "Redis's own INFO";

/// What isn't built.
pub(crate) const LEFT_OUT: &[LeftOut] = &[
    LeftOut("redis.use", METHOD),
    LeftOut("redis.add_server", METHOD),
    LeftOut("redis.command", METHOD),
    LeftOut("redis.timeout", METHOD),
    LeftOut("redis.retries", METHOD),
    LeftOut("redis.push", METHOD),
    LeftOut("redis.execute", METHOD),
    LeftOut("redis.easy_execute", METHOD),
    LeftOut("redis.replied", METHOD),
    LeftOut("redis.reply_is_error", METHOD),
    LeftOut("redis.reply_is_nil", METHOD),
    LeftOut("redis.reply_is_status", METHOD),
    LeftOut("redis.reply_is_integer", METHOD),
    LeftOut("redis.reply_is_boolean", METHOD),
    LeftOut("redis.reply_is_double", METHOD),
    LeftOut("redis.reply_is_string", METHOD),
    LeftOut("redis.reply_is_array", METHOD),
    LeftOut("redis.get_reply", METHOD),
    LeftOut("redis.get_error_reply", METHOD),
    LeftOut("redis.get_status_reply", METHOD),
    LeftOut("redis.get_integer_reply", METHOD),
    LeftOut("redis.get_boolean_reply", METHOD),
    LeftOut("redis.get_double_reply", METHOD),
    LeftOut("redis.get_string_reply", METHOD),
    LeftOut("redis.get_array_reply_length", METHOD),
    LeftOut("redis.array_reply_is_error", METHOD),
    LeftOut("redis.array_reply_is_nil", METHOD),
    LeftOut("redis.array_reply_is_status", METHOD),
    LeftOut("redis.array_reply_is_integer", METHOD),
    LeftOut("redis.array_reply_is_boolean", METHOD),
    LeftOut("redis.array_reply_is_double", METHOD),
    LeftOut("redis.array_reply_is_string", METHOD),
    LeftOut("redis.array_reply_is_array", METHOD),
    LeftOut("redis.get_array_reply_value", METHOD),
    LeftOut("redis.free", METHOD),
    LeftOut("redis.stats", COUNTERS),
    LeftOut("redis.counter", COUNTERS),
    LeftOut("redis.db.stats", COUNTERS),
    LeftOut("redis.db.counter", COUNTERS),
];

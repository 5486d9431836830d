// SPDX-License-Identifier: BSD-2-Clause
//! vmod_var(3) of varnish-modules.

use tables::vmods::Type::{self, *};
use tables::vmods::{Arg, Func, Module};

const KEY: Arg = Arg::new(String, "key");

const fn set(name: &'static str, args: &'static [Arg]) -> Func {
    Func::new(Void, name, args, "Sets a variable of this request or fetch")
}

const fn get(name: &'static str, ret: Type, text: &'static str) -> Func {
    Func::new(ret, name, &[KEY], text)
}

/// vmod_var(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "var",
    text: "Variables, of a request or fetch, and global ones",
    objects: &[],
    functions: &[
        set("set", &[KEY, Arg::new(String, "value")]),
        Func::new(String, "get", &[Arg::pos(String)], "A text; unset when there is no such text"),
        Func::new(
            Void,
            "global_set",
            &[Arg::pos(String), Arg::pos(String)],
            "Sets a text for all requests of all VCLs",
        ),
        Func::new(String, "global_get", &[Arg::pos(String)], "A text of all requests; unset when there is none"),
        set("set_int", &[KEY, Arg::new(Int, "value")]),
        get("get_int", Int, "An integer; 0 when there is none"),
        set("set_string", &[KEY, Arg::new(String, "value")]),
        get("get_string", String, "As get"),
        set("set_real", &[KEY, Arg::new(Real, "value")]),
        get("get_real", Real, "A number; 0 when there is none"),
        set("set_duration", &[KEY, Arg::new(Duration, "value")]),
        get("get_duration", Duration, "A duration; 0 when there is none"),
        set("set_ip", &[KEY, Arg::new(Ip, "value")]),
        get("get_ip", Ip, "An address; unset when there is none"),
        set("set_backend", &[KEY, Arg::new(Backend, "value")]),
        get("get_backend", Backend, "A backend; unset when there is none"),
        Func::new(Void, "clear", &[], "Forgets all variables of this request or fetch"),
    ],
};

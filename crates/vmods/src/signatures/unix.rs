// SPDX-License-Identifier: BSD-2-Clause
//! vmod_unix(3).

use tables::vclvars::Methods;
use tables::vmods::Type::*;
use tables::vmods::{Func, Module};

/// vmod_unix(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "unix",
    text: "Who is at the other end of a unix domain socket",
    objects: &[],
    functions: &[
        Func::new(String, "user", &[], "Name of the peer's user").blocks().only(Methods::CLIENT.with(Methods::BACKEND)),
        Func::new(String, "group", &[], "Name of the peer's group")
            .blocks()
            .only(Methods::CLIENT.with(Methods::BACKEND)),
        Func::new(Int, "uid", &[], "Number of the peer's user; -1 on an error")
            .only(Methods::CLIENT.with(Methods::BACKEND)),
        Func::new(Int, "gid", &[], "Number of the peer's group; -1 on an error")
            .only(Methods::CLIENT.with(Methods::BACKEND)),
    ],
};

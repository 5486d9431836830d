// SPDX-License-Identifier: BSD-2-Clause
//! vmod_basicauth(3) of vmod-basicauth.

use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module};

/// vmod_basicauth(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "basicauth",
    text: "Passwords in a file of Apache's htpasswd",
    objects: &[],
    functions: &[Func::new(
        Bool,
        "match",
        &[Arg::new(String, "file"), Arg::new(String, "authorization")],
        "Whether the value of an Authorization field has a user and password of the file (bcrypt, MD5, SHA-1 or plain)",
    )
    .blocks()],
};

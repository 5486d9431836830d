// SPDX-License-Identifier: BSD-2-Clause
//! vmod_fileserver of vmod-fileserver.

use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module, Object};

/// vmod_fileserver
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "fileserver",
    text: "A directory as a backend. GET and HEAD are answered, other methods with 405; what isn't there with 404, what can't be read and \
           directories with 403",
    functions: &[],
    objects: &[Object {
        name: "root",
        args: &[
            Arg::new(String, "path"),
            Arg::new(String, "mime_db").opt(),
            Arg::new(Bool, "follow_links").or(D::Bool(false)),
        ],
        text: "A directory. mime_db is a table of content types by extension, /etc/mime.types if that is there; an empty one is none. \
               A path with a link in it fails, unless follow_links is true: then links lead anywhere",
        methods: &[Func::new(
            Backend,
            "backend",
            &[],
            "The backend. The query is no part of the path, and .. never leads out of the directory. Answers have ETag and \
             Last-Modified, and If-None-Match and If-Modified-Since are heard",
        )],
    }],
};

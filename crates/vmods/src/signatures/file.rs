// SPDX-License-Identifier: BSD-2-Clause
//! vmod_file of Varnish Enterprise 6.

use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, LeftOut, Module, Object};

const PATH: Arg = Arg::new(String, "path");

/// vmod_file
pub(crate) const MODULE: Module = Module {
    left_out: LEFT_OUT,
    name: "file",
    text: "Files, read in VCL or as a backend. Not built: writing, and running programs",
    functions: &[],
    objects: &[Object {
        name: "init",
        args: &[
            Arg::new(String, "rootdir").or(D::Null),
            Arg::new(String, "mimedb").opt(),
            Arg::new(Bool, "disable_symlinks").or(D::Bool(false)),
        ],
        text: "A directory: paths are beneath it, and links out of it fail, all links with disable_symlinks. Without one paths are whole, \
               and only those that allow() names can be read. mimedb is a table of content types by extension, /etc/mime.types if that is there",
        methods: &[
            Func::new(
                Void,
                "allow",
                &[PATH, Arg::new(String, "mode").or(D::Str("r"))],
                "Lets a path and all beneath it be read. Another mode than r fails",
            ),
            Func::new(
                String,
                "read",
                &[PATH],
                "What the file says, 10 MB at most; unset when it can't be read, and the log says why",
            )
            .blocks(),
            Func::new(Bool, "exists", &[PATH], "Whether there is such a file, and it can be read").blocks(),
            Func::new(
                Time,
                "lastmodified",
                &[PATH],
                "When the file was changed last; the beginning of 1970 when that can't be told",
            )
            .blocks(),
            Func::new(
                Backend,
                "backend",
                &[],
                "A backend that answers GET and HEAD with the files beneath the directory, with Last-Modified; If-Modified-Since is heard",
            ),
        ],
    }],
};

/// What isn't built.
pub(crate) const LEFT_OUT: &[LeftOut] = &[
    LeftOut("file.arg", "a program beside the server: programs aren't run"),
    LeftOut("file.split_args", "a program beside the server: programs aren't run"),
    LeftOut("file.init.append", "std.log and varnishlog: files aren't written"),
    LeftOut("file.init.exec", "a program beside the server, as a backend: programs aren't run"),
    LeftOut("file.init.exec_get_errorcode", "a program beside the server, as a backend: programs aren't run"),
    LeftOut("file.init.delete", "a program beside the server: files aren't changed"),
    LeftOut("file.init.write_blob", "kvstore, for texts in memory: files aren't written"),
    LeftOut("file.init.write_req_body", "a backend that takes it: files aren't written"),
    LeftOut("file.init.write", "kvstore, for texts in memory: files aren't written"),
];

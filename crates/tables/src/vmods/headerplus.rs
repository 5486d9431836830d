// SPDX-License-Identifier: BSD-2-Clause
//! vmod_headerplus of Varnish Enterprise 6: the fields of a head, and the attributes in their values.

use super::Default as D;
use super::Type::*;
use super::{Arg, Func, LeftOut, Module};

const NAME: Arg = Arg::new(String, "name");
const VALUE: Arg = Arg::new(String, "value");
const REGEX: Arg = Arg::new(String, "regex");
const ATTR: Arg = Arg::new(String, "attr");
const DEF: Arg = Arg::new(String, "def").or(D::Null);
const KEEP: Arg = Arg::new(Bool, "keep").or(D::Bool(false));
const DELETE_KEEP: Arg = Arg::new(Bool, "delete_keep").or(D::Bool(false));
const SEPARATOR: Arg = Arg::new(String, "separator").or(D::Str(", "));

/// vmod_headerplus
pub(super) const MODULE: Module = Module {
    name: "headerplus",
    text: "The fields of a head by name or pattern, and the attributes in their values. init() says which head and reads it; what is \
           changed after that shows nowhere until write(). Attributes are what stands between commas or semicolons, NAME or \
           NAME=VALUE; names count in any case. A value in quotes is given without them",
    objects: &[],
    functions: &[
        Func::new(Void, "init", &[Arg::new(Http, "head")], "Reads a head: req, bereq, beresp or resp"),
        Func::new(Void, "init_req", &[], "Old name of init(req)"),
        Func::new(Void, "init_resp", &[], "Old name of init(resp)"),
        Func::new(Void, "reset", &[], "Reads the head again; what was changed is forgotten"),
        Func::new(Void, "write", &[], "Makes the changes to the head. Fields that VCL itself set since init() stay"),
        Func::new(Void, "add", &[NAME, VALUE, KEEP], "Adds a field; keep makes it one that is kept"),
        Func::new(Void, "set", &[NAME, VALUE, KEEP], "Replaces all fields of that name by one"),
        Func::new(String, "get", &[NAME, DEF], "The value of the first field of that name"),
        Func::new(String, "get_regex", &[REGEX, DEF], "The value of the first field whose name matches"),
        Func::new(
            Void,
            "delete",
            &[NAME, DELETE_KEEP],
            "Deletes the fields of that name; kept ones with delete_keep only",
        ),
        Func::new(Void, "delete_regex", &[REGEX, DELETE_KEEP], "Deletes the fields whose names match"),
        Func::new(Void, "keep", &[NAME], "From now on only kept fields are written: those of that name are"),
        Func::new(Void, "keep_regex", &[REGEX], "The same for the fields whose names match"),
        Func::new(Void, "rename", &[NAME, Arg::new(String, "new_name")], "Gives the fields of one name another"),
        Func::new(Void, "collapse", &[NAME, SEPARATOR], "Joins the fields of that name to one"),
        Func::new(
            Void,
            "collapse_regex",
            &[REGEX, NAME, SEPARATOR],
            "Joins the fields whose names match to one of the name given",
        ),
        Func::new(Void, "split", &[NAME, SEPARATOR], "Makes a field of each part of the fields of that name"),
        Func::new(Int, "count", &[], "How many fields would be left"),
        Func::new(
            String,
            "as_list",
            &[
                Arg::of("type", &["NAME", "VALUE", "BOTH"]),
                Arg::new(String, "separator"),
                Arg::new(String, "join").or(D::Str("")),
                Arg::of("name_case", &["LOWER", "UPPER", "KEEP"]).or(D::Enum("KEEP")),
            ],
            "The names, values, or both with join between them, of the fields that would be left",
        ),
        Func::new(String, "attr_get", &[NAME, ATTR, DEF], "The value of an attribute; empty when it has none"),
        Func::new(Bool, "attr_exists", &[NAME, ATTR], "Whether there is such an attribute"),
        Func::new(
            Void,
            "attr_set",
            &[NAME, ATTR, Arg::new(String, "value").or(D::Null)],
            "Sets an attribute, in the field that has it or else in the first, which is made when there is none. attr may be \
             NAME=VALUE",
        ),
        Func::new(Void, "attr_delete", &[NAME, ATTR], "Deletes an attribute, and a field that has no other"),
    ],
};

/// What isn't built.
pub(super) const LEFT_OUT: &[LeftOut] = &[
    LeftOut("headerplus.as_json", "headerplus.as_list"),
    LeftOut("headerplus.from_json", "headerplus.add, for each field"),
    LeftOut("headerplus.prefix", "set head.http.NAME = TEXT + head.http.NAME"),
    LeftOut("headerplus.suffix", "set head.http.NAME = head.http.NAME + TEXT"),
    LeftOut("headerplus.write_req0", "headerplus.write"),
];

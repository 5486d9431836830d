// SPDX-License-Identifier: BSD-2-Clause
//! vmod_headerplus of Varnish Enterprise 6: the fields of a head, and the attributes in their values.

use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, LeftOut, Module};

const NAME: Arg = Arg::new(String, "name");
const VALUE: Arg = Arg::new(String, "value");
const REGEX: Arg = Arg::new(String, "name_re");
const VALUE_RE: Arg = Arg::new(String, "value_re").opt();
const ATTR: Arg = Arg::new(String, "attr");
const DEF: Arg = Arg::new(String, "def").or(D::Null);
const KEEP: Arg = Arg::new(Bool, "keep").or(D::Bool(true));
const DELETE_KEEP: Arg = Arg::new(Bool, "delete_keep").or(D::Bool(false));
const DELIM: Arg = Arg::new(String, "delim").or(D::Str(", "));
const ALL: Arg = Arg::new(Bool, "all").or(D::Bool(false));
const REMOVE: Arg = Arg::new(Bool, "remove").or(D::Bool(true));
const SUB: Arg = Arg::new(String, "sub");
/// What parts attributes.
const BETWEEN: Arg = Arg::new(String, "hdr_delim").opt();
/// What parts an attribute's name and its value.
const EQUALS: Arg = Arg::new(String, "attr_delim").or(D::Str("="));

/// vmod_headerplus
pub(crate) const MODULE: Module = Module {
    left_out: LEFT_OUT,
    name: "headerplus",
    text: "The fields of a head by name or pattern, and the attributes in their values. init() says which head and reads it; what is \
           changed after that shows nowhere until write(). Attributes are what stands between commas or semicolons, NAME or \
           NAME=VALUE; hdr_delim gives other bytes that part them, attr_delim another text for the equals sign. Names and their \
           patterns count in any case. A value in quotes is given without them",
    objects: &[],
    functions: &[
        Func::new(Void, "init", &[Arg::new(Http, "head")], "Reads a head: req, bereq, beresp or resp"),
        Func::new(Void, "init_req", &[], "init(req), or init(bereq) where a backend is asked"),
        Func::new(Void, "init_resp", &[], "init(resp), or init(beresp) where a backend is asked"),
        Func::new(Void, "reset", &[], "Reads the head again; what was changed is forgotten"),
        Func::new(Void, "write", &[], "Makes the changes to the head. Fields that VCL itself set since init() stay"),
        Func::new(Void, "add", &[NAME, VALUE, KEEP], "Adds a field, one that is kept unless keep is false"),
        Func::new(Void, "set", &[NAME, VALUE, KEEP], "Replaces all fields of that name by one"),
        Func::new(
            Void,
            "append",
            &[NAME, VALUE, DELIM, ALL, KEEP],
            "Adds delim and the value to the first field of that name, or to all of them; makes one when there is none",
        ),
        Func::new(
            String,
            "get",
            &[NAME, VALUE_RE, DEF],
            "The value of the first field of that name whose value matches, if that is asked for",
        ),
        Func::new(String, "get_regex", &[REGEX, VALUE_RE, DEF], "The same of the first field whose name matches"),
        Func::new(
            String,
            "get_name_regex",
            &[REGEX.opt(), VALUE_RE],
            "The name of the first field whose name and value match what is given",
        ),
        Func::new(
            Void,
            "delete",
            &[NAME, DELETE_KEEP],
            "Deletes the fields of that name; kept ones with delete_keep only",
        ),
        Func::new(Void, "delete_regex", &[REGEX, DELETE_KEEP], "Deletes the fields whose names match"),
        Func::new(Void, "keep", &[NAME], "From now on only kept fields are written: those of that name are"),
        Func::new(Void, "keep_regex", &[REGEX], "The same for the fields whose names match"),
        Func::new(
            Void,
            "rename",
            &[NAME, Arg::new(String, "new_name"), REMOVE],
            "Gives the fields of one name another; without remove, to copies of them that are added",
        ),
        Func::new(
            Void,
            "regsub_name",
            &[REGEX, SUB, ALL, REMOVE],
            "Replaces what matches in names, once or always; without remove, in copies that are added",
        ),
        Func::new(
            Void,
            "regsub_value",
            &[REGEX, Arg::new(String, "value_re"), SUB, ALL],
            "Replaces what matches in the values of fields whose names match, once or always",
        ),
        Func::new(
            Void,
            "prefix",
            &[REGEX, Arg::new(String, "prefix"), REMOVE],
            "Puts a text before the names that match; without remove, to copies that are added",
        ),
        Func::new(
            Void,
            "suffix",
            &[REGEX, Arg::new(String, "suffix"), REMOVE],
            "Puts a text behind the names that match; without remove, to copies that are added",
        ),
        Func::new(
            Void,
            "collapse",
            &[NAME, Arg::new(String, "new_name").opt(), DELIM, KEEP],
            "Joins the fields of that name to one, of another name if that is given",
        ),
        Func::new(
            Void,
            "collapse_regex",
            &[REGEX, Arg::new(String, "new_name"), DELIM, KEEP],
            "Joins the fields whose names match to one of the name given",
        ),
        Func::new(Void, "split", &[NAME, DELIM], "Makes a field of each part of the fields of that name"),
        Func::new(Int, "count", &[NAME.opt()], "How many fields of that name would be left, or how many at all"),
        Func::new(Int, "count_regex", &[REGEX], "How many fields whose names match would be left"),
        Func::new(
            String,
            "as_list",
            &[
                Arg::of("which", &["BOTH", "NAME", "VALUE"]).or(D::Enum("BOTH")),
                Arg::new(String, "hdr_delim").or(D::Str(", ")),
                Arg::new(String, "value_delim").or(D::Str(": ")),
                Arg::new(Bool, "sort").or(D::Bool(true)),
                Arg::of("name_case", &["NONE", "UPPER", "LOWER"]).or(D::Enum("NONE")),
            ],
            "The names, values, or both with value_delim between them, of the fields that would be left, sorted by their bytes \
             unless told",
        ),
        Func::new(
            String,
            "attr_get",
            &[NAME, ATTR, BETWEEN, EQUALS, DEF],
            "The value of an attribute; empty when it has none",
        ),
        Func::new(Bool, "attr_exists", &[NAME, ATTR, BETWEEN, EQUALS], "Whether there is such an attribute"),
        Func::new(Int, "attr_count", &[NAME, BETWEEN, EQUALS], "How many attributes the fields of that name have"),
        Func::new(
            Void,
            "attr_set",
            &[
                NAME,
                ATTR,
                Arg::new(String, "value").or(D::Null),
                BETWEEN,
                EQUALS,
                Arg::of("how", &["FIRST", "UPDATE", "ALL"]).or(D::Enum("FIRST")),
            ],
            "Sets an attribute in the first field that has it, in each that has it (UPDATE), or in all of that name (ALL); where none \
             has it, in the first, which is made when there is none. attr may be NAME=VALUE",
        ),
        Func::new(
            Void,
            "attr_delete",
            &[NAME, ATTR, BETWEEN, ALL, EQUALS],
            "Deletes an attribute from the first field that has it, or from all, and a field that has no other",
        ),
    ],
};

/// What isn't built.
pub(crate) const LEFT_OUT: &[LeftOut] = &[
    LeftOut("headerplus.as_json", "headerplus.as_list"),
    LeftOut("headerplus.from_json", "headerplus.add, for each field"),
    LeftOut("headerplus.reset_req", "std.rollback(req) or std.rollback(bereq)"),
    LeftOut("headerplus.write_req0", "headerplus.write"),
];

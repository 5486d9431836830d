// SPDX-License-Identifier: BSD-2-Clause
//! vmod_urlplus of Varnish Enterprise 6: a URL taken apart.

use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, LeftOut, Module};

const NAME: Arg = Arg::new(String, "name");
const REGEX: Arg = Arg::new(String, "regex");
const KEEP: Arg = Arg::new(Bool, "keep").or(D::Bool(false));
const DELETE_KEEP: Arg = Arg::new(Bool, "delete_keep").or(D::Bool(false));
const DEF: Arg = Arg::new(String, "def").or(D::Null);
const SLASH: &[&str] = &["FROM_INPUT", "TRUE", "FALSE"];
const LEADING: Arg = Arg::of("leading_slash", SLASH).or(D::Enum("FROM_INPUT"));
const TRAILING: Arg = Arg::of("trailing_slash", SLASH).or(D::Enum("FROM_INPUT"));
const SORT: Arg = Arg::new(Bool, "sort_query").or(D::Bool(true));
const UNIQUE: Arg = Arg::of("query_unique", &["NONE", "KEY", "KEY_VALUE"]).or(D::Enum("NONE"));
const EQUAL: Arg = Arg::new(Bool, "query_keep_equal_sign").or(D::Bool(false));
const WHOLE: &[Arg] = &[SORT, UNIQUE, LEADING, TRAILING, EQUAL];
const START: Arg = Arg::new(Int, "start_range").or(D::Int(0));
const END: Arg = Arg::new(Int, "end_range").or(D::Int(-1));
const PART: &[Arg] = &[Arg::of("part", &["ALL", "URL", "QUERY"]).or(D::Enum("ALL"))];

/// vmod_urlplus
pub(crate) const MODULE: Module = Module {
    left_out: LEFT_OUT,
    name: "urlplus",
    text: "The URL as segments and query parameters. The first call of a task takes the transaction's URL apart, req.url or \
           bereq.url; what is changed shows nowhere until write(). Nothing is decoded; empty segments and parameters don't count. \
           A position counts from 0, or back from -1, the last",
    objects: &[],
    functions: &[
        Func::new(Void, "parse", &[Arg::new(String, "url")], "Takes this URL apart, in the place of what was there"),
        Func::new(Void, "reset", &[], "Forgets all; the next call takes the transaction's URL apart again"),
        Func::new(
            Void,
            "write",
            WHOLE,
            "Makes what is left the transaction's URL. Of parameters that are the same by \
                   query_unique the first stays; an empty value loses its = unless query_keep_equal_sign",
        ),
        Func::new(String, "as_string", WHOLE, "What write would write"),
        Func::new(String, "url_as_string", &[LEADING, TRAILING], "Its path"),
        Func::new(String, "query_as_string", &[SORT, UNIQUE, EQUAL], "Its query, without the ?"),
        Func::new(String, "query_get", &[NAME, DEF], "The value of the first parameter of that name"),
        Func::new(String, "query_get_regex", &[REGEX, DEF], "The value of the first parameter whose name matches"),
        Func::new(
            Void,
            "query_add",
            &[NAME, Arg::new(String, "value").or(D::Null), KEEP],
            "Adds a parameter; keep makes it one that is kept",
        ),
        Func::new(
            Void,
            "query_delete",
            &[NAME, DELETE_KEEP],
            "Deletes the parameters of that name; kept ones with delete_keep only",
        ),
        Func::new(Void, "query_delete_regex", &[REGEX, DELETE_KEEP], "Deletes the parameters whose names match"),
        Func::new(Void, "query_keep", &[NAME], "From now on only kept parameters are written: those of that name are"),
        Func::new(Void, "query_keep_regex", &[REGEX], "The same for the parameters whose names match"),
        Func::new(Int, "query_count", &[], "How many parameters would be written"),
        Func::new(
            String,
            "url_get",
            &[START, END, LEADING, TRAILING],
            "The segments of a range, both ends included; unset when there are none. A trailing slash belongs to the last",
        ),
        Func::new(
            Void,
            "url_add",
            &[NAME, KEEP, Arg::new(Int, "position").or(D::Int(-1))],
            "Adds a segment so that it has this position; at the end when there are fewer",
        ),
        Func::new(Void, "url_delete", &[NAME, DELETE_KEEP], "Deletes the segments that are this text"),
        Func::new(Void, "url_delete_regex", &[REGEX, DELETE_KEEP], "Deletes the segments that match"),
        Func::new(Void, "url_delete_range", &[START, END, DELETE_KEEP], "Deletes the segments of a range"),
        Func::new(
            Void,
            "url_keep",
            &[NAME],
            "From now on only kept segments are written: those that are this text are",
        ),
        Func::new(Void, "url_keep_regex", &[REGEX], "The same for the segments that match"),
        Func::new(Int, "url_count", &[], "How many segments would be written"),
        Func::new(String, "get_basename", &[], "The last segment; unset when the path ends in a slash"),
        Func::new(String, "get_filename", &[], "The same without its extension"),
        Func::new(String, "get_extension", &[], "What follows the last dot of the last segment; unset without one"),
        Func::new(
            String,
            "get_dirname",
            &[],
            "The path before the last segment, without a slash at its end unless it is /",
        ),
        Func::new(Void, "tolower", PART, "Makes letters small: of all, of the path, or of the query"),
        Func::new(Void, "toupper", PART, "Makes letters capital"),
    ],
};

/// What isn't built.
pub(crate) const LEFT_OUT: &[LeftOut] = &[LeftOut("urlplus.query_set", "urlplus.query_delete, then urlplus.query_add")];

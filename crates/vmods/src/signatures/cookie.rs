// SPDX-License-Identifier: BSD-2-Clause
//! vmod_cookie(3).

use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module};

const NAME: Arg = Arg::new(String, "cookiename");
const LIST: Arg = Arg::new(String, "filterstring");
const RE: Arg = Arg::new(Regex, "expression");
const DATE: &[Arg] = &[Arg::new(Time, "now"), Arg::new(Duration, "timedelta")];

/// vmod_cookie(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "cookie",
    text: "Reads and rewrites the Cookie field",
    objects: &[],
    functions: &[
        Func::new(Void, "clean", &[], "Forgets all cookies"),
        Func::new(Void, "delete", &[NAME], "Forgets one cookie"),
        Func::new(Void, "filter", &[LIST], "Forgets the cookies of a list with commas"),
        Func::new(Void, "filter_except", &[LIST], "Old name of keep"),
        Func::new(Void, "filter_re", &[RE], "Forgets the cookies whose names match"),
        Func::new(Void, "keep", &[LIST], "Forgets all cookies but those of a list with commas"),
        Func::new(Void, "keep_re", &[RE], "Forgets all cookies but those whose names match"),
        Func::new(String, "format_date", DATE, "The HTTP date a while after a time").pure(),
        Func::new(String, "format_rfc1123", DATE, "Old name of format_date").pure(),
        Func::new(String, "get", &[NAME], "The value of a cookie; unset when there is none"),
        Func::new(String, "get_re", &[RE], "The value of the first cookie whose name matches; unset when none does"),
        Func::new(String, "get_string", &[], "All cookies as the value of a Cookie field"),
        Func::new(Bool, "isset", &[NAME], "Whether there is such a cookie"),
        Func::new(
            Void,
            "parse",
            &[Arg::new(String, "cookieheader")],
            "Reads the value of a Cookie field, after forgetting what was read before",
        ),
        Func::new(Void, "set", &[NAME, Arg::new(String, "value")], "Sets a cookie"),
    ],
};

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_cookieplus of Varnish Enterprise 6: cookies that came, and those that are set.

use tables::vclvars::Method;
use tables::vclvars::Methods;
use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, LeftOut, Module};

const NAME: Arg = Arg::new(String, "name");
const REGEX: Arg = Arg::new(String, "regex");
const VALUE: Arg = Arg::new(String, "value");
const DEF: Arg = Arg::new(String, "default").or(D::Null);
const DELETE_KEEP: Arg = Arg::new(Bool, "delete_keep").or(D::Bool(false));
const KEEP: Arg = Arg::new(Bool, "keep").or(D::Bool(true));
const OVERRIDE: Arg = Arg::new(Bool, "override").or(D::Bool(true));
const FIRST_OR_LAST: &[&str] = &["FIRST", "LAST"];

const RESPONSE: Methods = Method::Deliver
    .set()
    .with(Method::Synth.set())
    .with(Method::BackendResponse.set())
    .with(Method::BackendError.set());

const fn set(func: Func) -> Func {
    func.only(RESPONSE)
}

/// vmod_cookieplus
pub(crate) const MODULE: Module = Module {
    left_out: LEFT_OUT,
    name: "cookieplus",
    text: "The cookies of the Cookie field of req or bereq, and of the Set-Cookie fields of resp or beresp. What is changed shows nowhere \
           until write() or setcookie_write(). Names count in their case",
    objects: &[],
    functions: &[
        Func::new(
            Void,
            "add",
            &[NAME, VALUE, KEEP, OVERRIDE],
            "Adds a cookie, in the place of those of that name unless override is false; where only kept ones are written it is kept",
        ),
        Func::new(
            String,
            "get",
            &[NAME, DEF, Arg::of("occurrence", FIRST_OR_LAST).or(D::Enum("FIRST"))],
            "The value of the first cookie of that name, or the last",
        ),
        Func::new(String, "get_regex", &[REGEX, DEF], "The value of the first cookie whose name matches"),
        Func::new(
            Void,
            "delete",
            &[NAME, DELETE_KEEP],
            "Deletes the cookies of that name, kept ones excepted unless told",
        ),
        Func::new(
            Void,
            "delete_regex",
            &[REGEX, DELETE_KEEP],
            "Deletes the cookies whose names match, kept ones excepted unless told",
        ),
        Func::new(
            Void,
            "keep",
            &[NAME],
            "From now on only kept cookies are written: those of that name, and added ones",
        ),
        Func::new(Void, "keep_regex", &[REGEX], "The same for the cookies whose names match"),
        Func::new(
            Void,
            "remove_duplicate",
            &[NAME, Arg::of("keep", FIRST_OR_LAST).or(D::Enum("FIRST"))],
            "Leaves one of the cookies of that name",
        ),
        Func::new(
            Void,
            "remove_all_duplicates",
            &[Arg::of("keep", FIRST_OR_LAST).or(D::Enum("FIRST"))],
            "Leaves one of the cookies of each name",
        ),
        Func::new(
            Void,
            "remove_deleted",
            &[NAME],
            "Forgets that this cookie was deleted: setcookie_add_deleted() leaves the client's alone",
        ),
        Func::new(Void, "remove_deleted_regex", &[REGEX], "The same for those whose names match"),
        Func::new(Int, "count", &[], "How many cookies write() would write"),
        Func::new(String, "as_string", &[], "What write() would write"),
        Func::new(
            Void,
            "parse",
            &[Arg::new(String, "cookies")],
            "Works on these cookies from now on, in place of the field's",
        ),
        Func::new(
            Void,
            "regsub",
            &[
                NAME,
                Arg::of("where", &["NAME", "VALUE"]),
                Arg::new(String, "pattern"),
                Arg::new(String, "replace"),
                Arg::new(Bool, "repeat").or(D::Bool(false)),
            ],
            "Replaces what matches pattern in the names or values of the cookies whose names match name, once or always",
        ),
        Func::new(Void, "reset", &[], "Forgets all that was done and not written"),
        Func::new(Void, "write", &[], "Makes what is left the Cookie field; there is none when nothing is left"),
        set(Func::new(
            Void,
            "setcookie_add",
            &[
                NAME,
                VALUE,
                Arg::new(Duration, "ttl").opt(),
                Arg::new(String, "domain").or(D::Null),
                Arg::new(String, "path").or(D::Null),
                Arg::new(Bool, "secure").or(D::Bool(false)),
                Arg::new(Bool, "httponly").or(D::Bool(false)),
                Arg::new(String, "extra").or(D::Null),
                KEEP,
                OVERRIDE,
            ],
            "Adds a Set-Cookie, in the place of those of that name unless override is false; with Expires and Max-Age, Domain, \
             Path, Secure, HttpOnly and what extra says as given",
        )),
        set(Func::new(
            Void,
            "setcookie_add_deleted",
            &[KEEP],
            "Adds a Set-Cookie that ends it for each cookie that was deleted from the request",
        )),
        set(Func::new(Int, "setcookie_count", &[], "How many Set-Cookies setcookie_write() would leave")),
        set(Func::new(Void, "setcookie_reset", &[], "Forgets all that was done to Set-Cookies and not written")),
        set(Func::new(String, "setcookie_get", &[NAME, DEF], "The value that the first Set-Cookie of that name sets")),
        set(Func::new(
            String,
            "setcookie_get_regex",
            &[REGEX, DEF],
            "The value that the first Set-Cookie sets whose name matches",
        )),
        set(Func::new(
            Void,
            "setcookie_delete",
            &[NAME, DELETE_KEEP],
            "Deletes the Set-Cookies of that name, kept ones excepted unless told",
        )),
        set(Func::new(
            Void,
            "setcookie_delete_regex",
            &[REGEX, DELETE_KEEP],
            "Deletes the Set-Cookies whose names match, kept ones excepted unless told",
        )),
        set(Func::new(
            Void,
            "setcookie_keep",
            &[NAME],
            "From now on only kept Set-Cookies are written: those of that name, and added ones",
        )),
        set(Func::new(Void, "setcookie_keep_regex", &[REGEX], "The same for the Set-Cookies whose names match")),
        set(Func::new(Void, "setcookie_write", &[], "Makes what is left the Set-Cookie fields")),
    ],
};

/// What isn't built.
pub(crate) const LEFT_OUT: &[LeftOut] = &[
    LeftOut("cookieplus.as_json", "cookieplus.as_string"),
    LeftOut("cookieplus.setcookie_parse", "cookieplus.setcookie_add, for each cookie"),
    LeftOut("cookieplus.setcookie_regsub", "cookieplus.setcookie_get, regsub and cookieplus.setcookie_add"),
];

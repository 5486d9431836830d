// SPDX-License-Identifier: BSD-2-Clause
//! vmod_cookieplus of Varnish Enterprise 6: cookies that came, and those that are set.

use super::Default as D;
use super::Type::*;
use super::{Arg, Func, Methods, Module};
use crate::vclvars::Method;

const NAME: Arg = Arg::new(String, "name");
const REGEX: Arg = Arg::new(String, "regex");
const VALUE: Arg = Arg::new(String, "value");
const DEF: Arg = Arg::new(String, "def").or(D::Null);

const RESPONSE: Methods = Method::Deliver
    .set()
    .with(Method::Synth.set())
    .with(Method::BackendResponse.set())
    .with(Method::BackendError.set());

const fn set(func: Func) -> Func {
    func.only(RESPONSE)
}

/// vmod_cookieplus
pub(super) const MODULE: Module = Module {
    name: "cookieplus",
    text: "The cookies of the Cookie field of req or bereq, and of the Set-Cookie fields of resp or beresp. What is changed shows nowhere \
           until write() or setcookie_write(). Names count in their case",
    objects: &[],
    functions: &[
        Func::new(Void, "add", &[NAME, VALUE], "Adds a cookie, in the place of those of that name"),
        Func::new(String, "get", &[NAME, DEF], "The value of the first cookie of that name"),
        Func::new(String, "get_regex", &[REGEX, DEF], "The value of the first cookie whose name matches"),
        Func::new(Void, "delete", &[NAME], "Deletes the cookies of that name, kept ones excepted"),
        Func::new(Void, "delete_regex", &[REGEX], "Deletes the cookies whose names match, kept ones excepted"),
        Func::new(
            Void,
            "keep",
            &[NAME],
            "From now on only kept cookies are written: those of that name, and added ones",
        ),
        Func::new(Void, "keep_regex", &[REGEX], "The same for the cookies whose names match"),
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
            ],
            "Adds a Set-Cookie, in the place of those of that name; with Expires and Max-Age, Domain and Path as given",
        )),
        set(Func::new(String, "setcookie_get", &[NAME, DEF], "The value that the first Set-Cookie of that name sets")),
        set(Func::new(
            String,
            "setcookie_get_regex",
            &[REGEX, DEF],
            "The value that the first Set-Cookie sets whose name matches",
        )),
        set(Func::new(Void, "setcookie_delete", &[NAME], "Deletes the Set-Cookies of that name, kept ones excepted")),
        set(Func::new(
            Void,
            "setcookie_delete_regex",
            &[REGEX],
            "Deletes the Set-Cookies whose names match, kept ones excepted",
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

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_cookieplus: the cookies of a task, worked on until write() makes the changes. What is kept holds as in urlplus.

use std::collections::HashSet;

use vcl_regex::Regex;
use vrt::fields::{append_field, remove_line, set_field, unset_field};
use vrt::vmod::{CallResult, INT, Methods, STRING, VOID, VmodCall, give};
use vrt::{HeadId, Method, Text, Value, VclFailure};

use crate::support::pattern;
use vmod_support::args::{fail, gave_up};

/// Subroutines in which a response's cookies can be reached.
const SET: Methods = Method::Deliver
    .set()
    .with(Method::Synth.set())
    .with(Method::BackendResponse.set())
    .with(Method::BackendError.set());

vrt::words! {
    enum Occurrence { First = "FIRST", Last = "LAST" }
}

vrt::words! {
    enum Where { Name = "NAME", Value = "VALUE" }
}

vrt::vmod_args! {
    struct SetCookie<'a> {
        name: STRING as &'a [u8],
        value: STRING as &'a [u8],
        ttl: [DURATION] as Option<f64>,
        domain: STRING as &'a [u8] = null,
        path: STRING as &'a [u8] = null,
        secure: BOOL as bool = false,
        httponly: BOOL as bool = false,
        extra: STRING as &'a [u8] = null,
        keep: BOOL as bool = true,
        r#override: BOOL as bool = true,
    }
}

vrt::vmod! {
    /// The cookies in the Cookie header of req or bereq, and in the Set-Cookie headers of resp or beresp. Changes take
    /// effect with write() or setcookie_write(). Names are case-sensitive
    pub(crate) static VMOD = cookieplus;

    functions {
        /// Adds a cookie, which replaces those of that name unless override is false. With keep it counts as kept
        fn add(name: STRING, value: STRING, keep: BOOL = true, override: BOOL = true) -> VOID, local = add_cookie;

        /// Returns the value of the first or last cookie of that name
        fn get(name: STRING, default: STRING = null, occurrence: Occurrence = First) -> STRING, local = get;

        /// Returns the value of the first cookie whose name matches
        fn get_regex(regex: STRING, default: STRING = null) -> STRING, local = |call: &mut VmodCall<'_>, regex: &[u8], default: Option<&Text>| get_regex(call, Kind::Cookie, "get_regex", regex, default);

        /// Deletes the cookies of that name; kept ones only with delete_keep
        fn delete(name: STRING, delete_keep: BOOL = false) -> VOID, local = |call: &mut VmodCall<'_>, name: &[u8], kept_too: bool| drop_each(call, Kind::Cookie, &Wanted::Name(name), kept_too);

        /// Deletes the cookies whose names match; kept ones only with delete_keep
        fn delete_regex(regex: STRING, delete_keep: BOOL = false) -> VOID, local = |call: &mut VmodCall<'_>, regex: &[u8], kept_too: bool| delete_regex(call, Kind::Cookie, "delete_regex", regex, kept_too);

        /// Keeps the cookies of that name. Only kept cookies, and added ones, are written from now on
        fn keep(name: STRING) -> VOID, local = |call: &mut VmodCall<'_>, name: &[u8]| keep_each(call, Kind::Cookie, &Wanted::Name(name));

        /// Keeps the cookies whose names match, as keep
        fn keep_regex(regex: STRING) -> VOID, local = |call: &mut VmodCall<'_>, regex: &[u8]| keep_regex(call, Kind::Cookie, "keep_regex", regex);

        /// Removes all but one of the cookies of that name
        fn remove_duplicate(name: STRING, keep: Occurrence = First) -> VOID, local = remove_duplicate;

        /// Removes all but one of the cookies of each name
        fn remove_all_duplicates(keep: Occurrence = First) -> VOID, local = remove_all_duplicates;

        /// Undoes the deletion of a cookie for setcookie_add_deleted(), which then leaves the client's cookie alone
        fn remove_deleted(name: STRING) -> VOID, local = remove_deleted;

        /// Undoes the deletion of the cookies whose names match, as remove_deleted
        fn remove_deleted_regex(regex: STRING) -> VOID, local = remove_deleted_regex;

        /// Returns the number of cookies that write() would write
        fn count() -> INT, local = |call: &mut VmodCall<'_>| count(call, Kind::Cookie);

        /// Returns the value that write() would write
        fn as_string() -> STRING, local = as_string;

        /// Replaces the cookies of the header by these
        fn parse(cookies: STRING) -> VOID, local = parse;

        /// Replaces the first match or all matches of pattern in the names or values of the cookies whose names match name
        fn regsub(name: STRING, where: Where, pattern: STRING, replace: STRING, repeat: BOOL = false) -> VOID, local
            = regsub;

        /// Discards all changes that aren't written
        fn reset() -> VOID, local = |call: &mut VmodCall<'_>| reset(call, Kind::Cookie);

        /// Writes the remaining cookies to the Cookie header; removes it if none is left
        fn write() -> VOID, local = |call: &mut VmodCall<'_>| write(call, Kind::Cookie);

        /// Adds a Set-Cookie header, which replaces those of that name unless override is false; with the given Expires and
        /// Max-Age, Domain, Path, Secure, HttpOnly and extra attributes
        fn setcookie_add(..SetCookie<'_>) -> VOID, local, only(SET) = add_set_cookie;

        /// Adds a Set-Cookie header that expires each cookie that was deleted from the request
        fn setcookie_add_deleted(keep: BOOL = true) -> VOID, local, only(SET) = setcookie_add_deleted;

        /// Returns the number of Set-Cookie headers that setcookie_write() would write
        fn setcookie_count() -> INT, local, only(SET) = |call: &mut VmodCall<'_>| count(call, Kind::SetCookie);

        /// Discards all changes to Set-Cookie headers that aren't written
        fn setcookie_reset() -> VOID, local, only(SET) = |call: &mut VmodCall<'_>| reset(call, Kind::SetCookie);

        /// Returns the value in the first Set-Cookie header of that name
        fn setcookie_get(name: STRING, default: STRING = null) -> STRING, local, only(SET) = |call: &mut VmodCall<'_>, name: &[u8], default: Option<&Text>| find(call, Kind::SetCookie, &Wanted::Name(name), default);

        /// Returns the value in the first Set-Cookie header whose name matches
        fn setcookie_get_regex(regex: STRING, default: STRING = null) -> STRING, local, only(SET) = |call: &mut VmodCall<'_>, regex: &[u8], default: Option<&Text>| get_regex(call, Kind::SetCookie, "setcookie_get_regex", regex, default);

        /// Deletes the Set-Cookie headers of that name; kept ones only with delete_keep
        fn setcookie_delete(name: STRING, delete_keep: BOOL = false) -> VOID, local, only(SET) = |call: &mut VmodCall<'_>, name: &[u8], kept_too: bool| drop_each(call, Kind::SetCookie, &Wanted::Name(name), kept_too);

        /// Deletes the Set-Cookie headers whose names match; kept ones only with delete_keep
        fn setcookie_delete_regex(regex: STRING, delete_keep: BOOL = false) -> VOID, local, only(SET) = |call: &mut VmodCall<'_>, regex: &[u8], kept_too: bool| delete_regex(call, Kind::SetCookie, "setcookie_delete_regex", regex, kept_too);

        /// Keeps the Set-Cookie headers of that name. Only kept ones, and added ones, are written from now on
        fn setcookie_keep(name: STRING) -> VOID, local, only(SET) = |call: &mut VmodCall<'_>, name: &[u8]| keep_each(call, Kind::SetCookie, &Wanted::Name(name));

        /// Keeps the Set-Cookie headers whose names match, as setcookie_keep
        fn setcookie_keep_regex(regex: STRING) -> VOID, local, only(SET) = |call: &mut VmodCall<'_>, regex: &[u8]| keep_regex(call, Kind::SetCookie, "setcookie_keep_regex", regex);

        /// Writes the remaining Set-Cookie headers
        fn setcookie_write() -> VOID, local, only(SET) = |call: &mut VmodCall<'_>| write(call, Kind::SetCookie);
    }

    left_out {
        "cookieplus.as_json" => "cookieplus.as_string";
        "cookieplus.setcookie_parse" => "cookieplus.setcookie_add, for each cookie";
        "cookieplus.setcookie_regsub" => "cookieplus.setcookie_get, regsub and cookieplus.setcookie_add";
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Cookie,
    SetCookie,
}

impl Kind {
    fn field(self) -> &'static str {
        match self {
            Kind::Cookie => "Cookie",
            Kind::SetCookie => "Set-Cookie",
        }
    }

    fn head(self, call: &mut VmodCall<'_>) -> Result<HeadId, VclFailure> {
        let is_fetch = matches!(call.method, Method::BackendFetch | Method::BackendResponse | Method::BackendError);
        let id = match (self, call.method) {
            (Kind::Cookie, _) => Some(if is_fetch { HeadId::Bereq } else { HeadId::Req }),
            (Kind::SetCookie, Method::BackendResponse | Method::BackendError) => Some(HeadId::Beresp),
            (Kind::SetCookie, Method::Deliver | Method::Synth) => Some(HeadId::Resp),
            (Kind::SetCookie, _) => None,
        };
        match id.filter(|id| call.ctx.head(*id).is_some()) {
            Some(id) => Ok(id),
            None => fail(format!("cookieplus: there is no {} field here", self.field())),
        }
    }
}

/// A task's cookies: one list for each kind.
#[derive(Default)]
struct CookieState {
    cookies: List,
    set: List,
    /// Names of cookies that the request had and write() left out, once each.
    deleted: Vec<Vec<u8>>,
}

#[derive(Default, Debug)]
struct List {
    /// The values of the fields as they were read.
    source: Option<Vec<Vec<u8>>>,
    cookies: Vec<Cookie>,
    /// Names that cookies had before: those aren't deleted.
    renamed: Vec<Vec<u8>>,
    keeps: bool,
    is_changed: bool,
}

#[derive(Debug)]
struct Cookie {
    name: Vec<u8>,
    value: Vec<u8>,
    text: Vec<u8>,
    is_kept: bool,
    /// The field that it is alone in (Set-Cookie).
    is_new: bool,
}

enum Wanted<'a> {
    Name(&'a [u8]),
    Pattern(std::sync::Arc<Regex>),
}

impl Wanted<'_> {
    fn is(&self, cookie: &Cookie) -> Result<bool, VclFailure> {
        match self {
            Wanted::Name(name) => Ok(cookie.name == *name),
            Wanted::Pattern(regex) => regex.is_match(&cookie.name).map_err(gave_up),
        }
    }
}

fn matching<'a>(call: &mut VmodCall<'_>, who: &str, regex: &[u8]) -> Result<Wanted<'a>, VclFailure> {
    let regex = pattern::compile(call, &format!("cookieplus.{who}()"), regex)?;
    Ok(Wanted::Pattern(regex))
}

impl Cookie {
    fn read(text: &[u8]) -> Cookie {
        let (name, value) = match memchr::memchr(b'=', text) {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text, &b""[..]),
        };
        Cookie {
            name: name.trim_ascii().to_vec(),
            value: value.trim_ascii().to_vec(),
            text: text.to_vec(),
            is_kept: false,
            is_new: false,
        }
    }
}

impl List {
    fn read(kind: Kind, source: Vec<Vec<u8>>) -> List {
        let cookies = match kind {
            Kind::Cookie => {
                let parts = source.iter().flat_map(|value| value.split(|b| *b == b';'));
                parts.map(<[u8]>::trim_ascii).filter(|text| !text.is_empty()).map(Cookie::read).collect()
            }
            Kind::SetCookie => source
                .iter()
                .map(|value| {
                    let first = value.split(|b| *b == b';').next().unwrap_or_default();
                    Cookie { text: value.clone(), ..Cookie::read(first) }
                })
                .collect(),
        };
        List { source: Some(source), cookies, renamed: Vec::new(), keeps: false, is_changed: false }
    }

    fn is_left(&self, cookie: &Cookie) -> bool {
        cookie.is_kept || !self.keeps
    }

    fn left(&self) -> impl DoubleEndedIterator<Item = &Cookie> {
        self.cookies.iter().filter(|cookie| self.is_left(cookie))
    }

    fn line(&self) -> Vec<u8> {
        self.left().map(|cookie| &cookie.text[..]).collect::<Vec<_>>().join(&b"; "[..])
    }

    fn add(&mut self, cookie: Cookie, replaces: bool) {
        self.cookies.retain(|old| !replaces || old.name != cookie.name);
        self.cookies.push(cookie);
        self.is_changed = true;
    }

    /// Leaves the first or last of the wanted cookies that have the same name.
    fn leave_one(&mut self, which: Occurrence, wanted: impl Fn(&Cookie) -> bool) {
        let (before, is_last) = (self.cookies.len(), which == Occurrence::Last);
        if is_last {
            self.cookies.reverse();
        }
        let mut seen = HashSet::new();
        self.cookies.retain(|cookie| !wanted(cookie) || seen.insert(cookie.name.clone()));
        if is_last {
            self.cookies.reverse();
        }
        self.is_changed |= self.cookies.len() != before;
    }
}

/// The task's list; read when there is none, and again when VCL has changed the fields that nothing here has changed.
fn list<'a>(call: &'a mut VmodCall<'_>, kind: Kind) -> Result<&'a mut List, VclFailure> {
    let id = kind.head(call)?;
    let head = call.ctx.head(id);
    let now: Vec<Vec<u8>> = head
        .into_iter()
        .flat_map(|head| head.iter())
        .filter(|f| f.is(kind.field()))
        .map(|f| f.value().to_vec())
        .collect();
    let state = call.ctx.task().get::<CookieState>();
    let list = match kind {
        Kind::Cookie => &mut state.cookies,
        Kind::SetCookie => &mut state.set,
    };
    if list.source.is_none() || !list.is_changed && list.source.as_ref() != Some(&now) {
        *list = List::read(kind, now);
    }
    Ok(list)
}

fn get(call: &mut VmodCall<'_>, name: &[u8], default: Option<&Text>, occurrence: Occurrence) -> CallResult<STRING> {
    if occurrence == Occurrence::Last {
        let last = list(call, Kind::Cookie)?.left().rev().find(|cookie| cookie.name == name);
        return give(last.map_or_else(|| default.cloned(), |cookie| Some(Text::copy(&cookie.value))));
    }
    find(call, Kind::Cookie, &Wanted::Name(name), default)
}

fn get_regex(
    call: &mut VmodCall<'_>,
    kind: Kind,
    who: &str,
    regex: &[u8],
    default: Option<&Text>,
) -> CallResult<STRING> {
    let wanted = matching(call, who, regex)?;
    find(call, kind, &wanted, default)
}

fn find(call: &mut VmodCall<'_>, kind: Kind, wanted: &Wanted<'_>, default: Option<&Text>) -> CallResult<STRING> {
    let list = list(call, kind)?;
    for cookie in list.cookies.iter().filter(|cookie| list.is_left(cookie)) {
        if wanted.is(cookie)? {
            return give(Some(Text::copy(&cookie.value)));
        }
    }
    give(default.cloned())
}

fn add_cookie(call: &mut VmodCall<'_>, name: &[u8], value: &[u8], keep: bool, replaces: bool) -> CallResult<VOID> {
    let text = [named(name)?, b"=", value].concat();
    add(call, Kind::Cookie, name, value, text, (keep, replaces))
}

fn add_set_cookie(call: &mut VmodCall<'_>, set: SetCookie<'_>) -> CallResult<VOID> {
    let mut text = [named(set.name)?, b"=", set.value].concat();
    attributes(call, &set, &mut text)?;
    add(call, Kind::SetCookie, set.name, set.value, text, (set.keep, set.r#override))
}

fn named(name: &[u8]) -> Result<&[u8], VclFailure> {
    if name.is_empty() { fail("cookieplus: a cookie has a name") } else { Ok(name) }
}

/// A cookie that is kept or not, and replaces those of its name or not.
fn add(
    call: &mut VmodCall<'_>,
    kind: Kind,
    name: &[u8],
    value: &[u8],
    text: Vec<u8>,
    (is_kept, replaces): (bool, bool),
) -> CallResult<VOID> {
    let cookie = Cookie { name: name.to_vec(), value: value.to_vec(), text, is_kept, is_new: true };
    list(call, kind)?.add(cookie, replaces);
    give(())
}

/// Expires the cookies at a client that write() took from its request; the path and domain they were set for aren't
/// known here.
fn setcookie_add_deleted(call: &mut VmodCall<'_>, is_kept: bool) -> CallResult<VOID> {
    for name in call.ctx.task().get::<CookieState>().deleted.clone() {
        let text = [&name[..], b"=; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=0"].concat();
        let cookie = Cookie { name, value: Vec::new(), text, is_kept, is_new: true };
        list(call, Kind::SetCookie)?.add(cookie, true);
    }
    give(())
}

fn remove_duplicate(call: &mut VmodCall<'_>, name: &[u8], keep: Occurrence) -> CallResult<VOID> {
    list(call, Kind::Cookie)?.leave_one(keep, |cookie| cookie.name == name);
    give(())
}

fn remove_all_duplicates(call: &mut VmodCall<'_>, keep: Occurrence) -> CallResult<VOID> {
    list(call, Kind::Cookie)?.leave_one(keep, |_| true);
    give(())
}

fn remove_deleted(call: &mut VmodCall<'_>, name: &[u8]) -> CallResult<VOID> {
    call.ctx.task().get::<CookieState>().deleted.retain(|deleted| deleted != name);
    give(())
}

fn remove_deleted_regex(call: &mut VmodCall<'_>, regex: &[u8]) -> CallResult<VOID> {
    let regex = pattern::compile(call, "cookieplus.remove_deleted_regex()", regex)?;
    let deleted = &mut call.ctx.task().get::<CookieState>().deleted;
    let mut left = Vec::with_capacity(deleted.len());
    for name in std::mem::take(deleted) {
        if !regex.is_match(&name).map_err(gave_up)? {
            left.push(name);
        }
    }
    *deleted = left;
    give(())
}

fn count(call: &mut VmodCall<'_>, kind: Kind) -> CallResult<INT> {
    let count = list(call, kind)?.left().count();
    give(count as i64)
}

fn as_string(call: &mut VmodCall<'_>) -> CallResult<STRING> {
    let line = list(call, Kind::Cookie)?.line();
    give(Text::copy(&line))
}

fn parse(call: &mut VmodCall<'_>, cookies: &[u8]) -> CallResult<VOID> {
    let list = list(call, Kind::Cookie)?;
    let source = list.source.take();
    *list = List { source, is_changed: true, ..List::read(Kind::Cookie, vec![cookies.to_vec()]) };
    give(())
}

fn regsub(
    call: &mut VmodCall<'_>,
    names: &[u8],
    what: Where,
    regex: &[u8],
    with: &[u8],
    all: bool,
) -> CallResult<VOID> {
    let is_name = what == Where::Name;
    let wanted = matching(call, "regsub", names)?;
    let regex = pattern::compile(call, "cookieplus.regsub()", regex)?;
    let list = list(call, Kind::Cookie)?;
    for cookie in &mut list.cookies {
        let mut to = Vec::new();
        let from = if is_name { &cookie.name } else { &cookie.value };
        if !wanted.is(cookie)? || !regex.sub(from, with, all, &mut to).map_err(gave_up)? {
            continue;
        }
        if is_name && to.is_empty() {
            return fail("cookieplus: a cookie has a name");
        }
        if is_name {
            list.renamed.push(std::mem::replace(&mut cookie.name, to));
        } else {
            cookie.value = to;
        }
        cookie.text = [&cookie.name[..], b"=", &cookie.value].concat();
        list.is_changed = true;
    }
    give(())
}

fn reset(call: &mut VmodCall<'_>, kind: Kind) -> CallResult<VOID> {
    let state = call.ctx.task().get::<CookieState>();
    match kind {
        Kind::Cookie => (state.cookies, state.deleted) = (List::default(), Vec::new()),
        Kind::SetCookie => state.set = List::default(),
    }
    give(())
}

fn attributes(call: &mut VmodCall<'_>, set: &SetCookie<'_>, text: &mut Vec<u8>) -> Result<(), VclFailure> {
    if let Some(ttl) = set.ttl {
        let until = vrt::convert::to_text(&Value::Time(call.ctx.clock().real().0 + ttl))?;
        text.extend_from_slice(b"; Expires=");
        text.extend_from_slice(until.as_ref().map_or(b"", |until| until.as_bytes()));
        text.extend_from_slice(format!("; Max-Age={}", ttl as i64).as_bytes());
    }
    for (value, word) in [(set.domain, "; Domain="), (set.path, "; Path=")] {
        if !value.is_empty() {
            text.extend_from_slice(word.as_bytes());
            text.extend_from_slice(value);
        }
    }
    for (is_set, word) in [(set.secure, "; Secure"), (set.httponly, "; HttpOnly")] {
        if is_set {
            text.extend_from_slice(word.as_bytes());
        }
    }
    if !set.extra.is_empty() {
        text.extend_from_slice(b"; ");
        text.extend_from_slice(set.extra);
    }
    Ok(())
}

fn delete_regex(call: &mut VmodCall<'_>, kind: Kind, who: &str, regex: &[u8], kept_too: bool) -> CallResult<VOID> {
    let wanted = matching(call, who, regex)?;
    drop_each(call, kind, &wanted, kept_too)
}

fn drop_each(call: &mut VmodCall<'_>, kind: Kind, wanted: &Wanted<'_>, kept_too: bool) -> CallResult<VOID> {
    let list = list(call, kind)?;
    let mut left = Vec::with_capacity(list.cookies.len());
    let before = list.cookies.len();
    for cookie in std::mem::take(&mut list.cookies) {
        if !kept_too && cookie.is_kept && !cookie.is_new || !wanted.is(&cookie)? {
            left.push(cookie);
        }
    }
    list.is_changed |= left.len() != before;
    list.cookies = left;
    give(())
}

fn keep_regex(call: &mut VmodCall<'_>, kind: Kind, who: &str, regex: &[u8]) -> CallResult<VOID> {
    let wanted = matching(call, who, regex)?;
    keep_each(call, kind, &wanted)
}

fn keep_each(call: &mut VmodCall<'_>, kind: Kind, wanted: &Wanted<'_>) -> CallResult<VOID> {
    let list = list(call, kind)?;
    (list.keeps, list.is_changed) = (true, true);
    for cookie in &mut list.cookies {
        cookie.is_kept |= wanted.is(cookie)?;
    }
    give(())
}

fn write(call: &mut VmodCall<'_>, kind: Kind) -> CallResult<VOID> {
    let id = kind.head(call)?;
    let list = std::mem::take(list(call, kind)?);
    if list.is_changed {
        match kind {
            Kind::Cookie => write_line(call, id, &list)?,
            Kind::SetCookie => write_fields(call, id, &list)?,
        }
    }
    give(())
}

fn write_line(call: &mut VmodCall<'_>, id: HeadId, list: &List) -> Result<(), VclFailure> {
    let line = list.line();
    let came = List::read(Kind::Cookie, list.source.clone().unwrap_or_default());
    let deleted = &mut call.ctx.task().get::<CookieState>().deleted;
    for cookie in came.cookies.into_iter().filter(|came| !list.left().any(|left| left.name == came.name)) {
        if !cookie.name.is_empty() && !list.renamed.contains(&cookie.name) && !deleted.contains(&cookie.name) {
            deleted.push(cookie.name);
        }
    }
    if line.is_empty() {
        unset_field(call.ctx, id, b"Cookie")?;
    } else if list.source.as_ref().is_none_or(|source| source.len() != 1 || source[0] != line) {
        set_field(call.ctx, id, b"Cookie", &line)?;
    }
    Ok(())
}

/// Fields that are left stay as they are.
fn write_fields(call: &mut VmodCall<'_>, id: HeadId, list: &List) -> Result<(), VclFailure> {
    let mut left: Vec<&[u8]> = list
        .cookies
        .iter()
        .filter(|cookie| !cookie.is_new && list.is_left(cookie))
        .map(|cookie| &cookie.text[..])
        .collect();
    for gone in list.source.iter().flatten() {
        if let Some(at) = left.iter().position(|text| text == gone) {
            left.remove(at);
            continue;
        }
        let find = |f: &message::Field<'_>| f.is(Kind::SetCookie.field()) && f.value() == gone;
        let at = call.ctx.head(id).and_then(|head| head.iter().position(|f| find(&f)));
        if let Some(at) = at {
            remove_line(call.ctx, id, at)?;
        }
    }
    for cookie in list.cookies.iter().filter(|cookie| cookie.is_new) {
        append_field(call.ctx, id, b"Set-Cookie", &cookie.text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: Kind, lines: &[&str]) -> Vec<(String, String)> {
        let list = List::read(kind, lines.iter().map(|line| line.as_bytes().to_vec()).collect());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        list.cookies.iter().map(|cookie| (text(&cookie.name), text(&cookie.value))).collect()
    }

    #[test]
    fn names_and_values() {
        let pairs = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect::<Vec<_>>();
        assert_eq!(
            read(Kind::Cookie, &["a=1;b = 2=3 ;; c", "=d; e="]),
            pairs(&[("a", "1"), ("b", "2=3"), ("c", ""), ("", "d"), ("e", "")])
        );
        assert_eq!(read(Kind::SetCookie, &["a=1; Path=/", " b=2;x=y", ""]), pairs(&[("a", "1"), ("b", "2"), ("", "")]));
        assert!(read(Kind::Cookie, &["", " ; "]).is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_text(text in "[ab=; ]{0,30}") {
            read(Kind::Cookie, &[&text]);
            read(Kind::SetCookie, &[&text]);
        }
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_cookieplus: the cookies of a task, worked on until write() makes the changes. What is kept holds as in urlplus.

use vrt::fields::{append_field, remove_line, set_field, unset_field};
use vrt::regex::Regex;
use vrt::vmod::{Call, CallResult, Function, Vmod};
use vrt::{Failure, HeadId, Method, Text, Value};

use crate::args::{Args, fail, gave_up, give};
use crate::pattern;

/// vmod_cookieplus
pub(crate) static VMOD: Vmod = Vmod { name: "cookieplus", classes: &[], functions: FUNCTIONS };

const FUNCTIONS: &[(&str, Function)] = &[
    ("add", |call, args| {
        let (name, value) = (Args(args).bytes_of(0), Args(args).bytes_of(1));
        let how = Added { keep: Args(args).bool(2), replaces: Args(args).bool(3) };
        add(call, Kind::Cookie, name, value, [name, b"=", value].concat(), how)
    }),
    ("get", |call, args| {
        let wanted = Wanted::Name(Args(args).bytes_of(0));
        if Args(args).word(2) == "LAST" {
            return get_last(call, &wanted, &args[1]);
        }
        get(call, Kind::Cookie, &wanted, &args[1])
    }),
    ("get_regex", |call, args| {
        let wanted = matching(call, "get_regex", args)?;
        get(call, Kind::Cookie, &wanted, &args[1])
    }),
    ("delete", |call, args| delete(call, Kind::Cookie, &Wanted::Name(Args(args).bytes_of(0)), Args(args).bool(1))),
    ("delete_regex", |call, args| {
        let wanted = matching(call, "delete_regex", args)?;
        delete(call, Kind::Cookie, &wanted, Args(args).bool(1))
    }),
    ("remove_duplicate", |call, args| {
        let name = Args(args).bytes_of(0);
        one_of_each(call, Args(args).word(1), &|cookie| cookie.name == name)
    }),
    ("remove_all_duplicates", |call, args| one_of_each(call, Args(args).word(0), &|_| true)),
    ("remove_deleted", |call, args| {
        let name = Args(args).bytes_of(0);
        call.ctx.task().get::<State>().deleted.retain(|deleted| deleted != name);
        give(Value::Void)
    }),
    ("remove_deleted_regex", |call, args| {
        let regex = pattern::compile(call, "cookieplus.remove_deleted_regex()", Args(args).bytes_of(0))?;
        let deleted = &mut call.ctx.task().get::<State>().deleted;
        let mut left = Vec::with_capacity(deleted.len());
        for name in std::mem::take(deleted) {
            if !regex.is_match(&name).map_err(gave_up)? {
                left.push(name);
            }
        }
        *deleted = left;
        give(Value::Void)
    }),
    ("count", |call, _| count(call, Kind::Cookie)),
    ("as_string", |call, _| {
        let list = list(call, Kind::Cookie)?;
        give(Value::String(Some(Text::copy(&list.line()))))
    }),
    ("parse", |call, args| {
        let list = list(call, Kind::Cookie)?;
        let source = list.source.take();
        *list = List { source, is_changed: true, ..List::read(Kind::Cookie, vec![Args(args).bytes_of(0).to_vec()]) };
        give(Value::Void)
    }),
    ("reset", |call, _| {
        let state = call.ctx.task().get::<State>();
        (state.cookies, state.deleted) = (List::default(), Vec::new());
        give(Value::Void)
    }),
    ("keep", |call, args| keep(call, Kind::Cookie, &Wanted::Name(Args(args).bytes_of(0)))),
    ("keep_regex", |call, args| {
        let wanted = matching(call, "keep_regex", args)?;
        keep(call, Kind::Cookie, &wanted)
    }),
    ("write", write),
    ("setcookie_add", setcookie_add),
    ("setcookie_get", |call, args| get(call, Kind::SetCookie, &Wanted::Name(Args(args).bytes_of(0)), &args[1])),
    ("setcookie_get_regex", |call, args| {
        let wanted = matching(call, "setcookie_get_regex", args)?;
        get(call, Kind::SetCookie, &wanted, &args[1])
    }),
    ("setcookie_add_deleted", setcookie_add_deleted),
    ("setcookie_count", |call, _| count(call, Kind::SetCookie)),
    ("setcookie_reset", |call, _| {
        call.ctx.task().get::<State>().set = List::default();
        give(Value::Void)
    }),
    ("setcookie_delete", |call, args| {
        delete(call, Kind::SetCookie, &Wanted::Name(Args(args).bytes_of(0)), Args(args).bool(1))
    }),
    ("setcookie_delete_regex", |call, args| {
        let wanted = matching(call, "setcookie_delete_regex", args)?;
        delete(call, Kind::SetCookie, &wanted, Args(args).bool(1))
    }),
    ("setcookie_keep", |call, args| keep(call, Kind::SetCookie, &Wanted::Name(Args(args).bytes_of(0)))),
    ("setcookie_keep_regex", |call, args| {
        let wanted = matching(call, "setcookie_keep_regex", args)?;
        keep(call, Kind::SetCookie, &wanted)
    }),
    ("setcookie_write", setcookie_write),
];

/// Which cookies.
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

    /// Whose fields, in this subroutine.
    fn head(self, call: &mut Call<'_>) -> Result<HeadId, Failure> {
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

/// What a task works on: one list for each kind.
#[derive(Default)]
struct State {
    cookies: List,
    set: List,
    /// Names of cookies that the request had and write() left out, once each.
    deleted: Vec<Vec<u8>>,
}

/// How a cookie is added.
struct Added {
    keep: bool,
    replaces: bool,
}

#[derive(Default, Debug)]
struct List {
    /// The values of the fields as they were read.
    source: Option<Vec<Vec<u8>>>,
    cookies: Vec<Cookie>,
    /// Only kept ones are written.
    keeps: bool,
    is_changed: bool,
}

#[derive(Debug)]
struct Cookie {
    name: Vec<u8>,
    value: Vec<u8>,
    /// As it is written.
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
    fn is(&self, cookie: &Cookie) -> Result<bool, Failure> {
        match self {
            Wanted::Name(name) => Ok(cookie.name == *name),
            Wanted::Pattern(regex) => regex.is_match(&cookie.name).map_err(gave_up),
        }
    }
}

fn matching<'a>(call: &mut Call<'_>, who: &str, args: &[Value]) -> Result<Wanted<'a>, Failure> {
    let regex = pattern::compile(call, &format!("cookieplus.{who}()"), Args(args).bytes_of(0))?;
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
        List { source: Some(source), cookies, keeps: false, is_changed: false }
    }

    fn is_left(&self, cookie: &Cookie) -> bool {
        cookie.is_kept || !self.keeps
    }

    fn left(&self) -> impl Iterator<Item = &Cookie> {
        self.cookies.iter().filter(|cookie| self.is_left(cookie))
    }

    /// The Cookie field of what is left.
    fn line(&self) -> Vec<u8> {
        self.left().map(|cookie| &cookie.text[..]).collect::<Vec<_>>().join(&b"; "[..])
    }
}

/// The task's list; read when there is none, and again when VCL has changed the fields that nothing here has changed.
fn list<'a>(call: &'a mut Call<'_>, kind: Kind) -> Result<&'a mut List, Failure> {
    let id = kind.head(call)?;
    let head = call.ctx.head(id);
    let now: Vec<Vec<u8>> = head
        .into_iter()
        .flat_map(|head| head.iter())
        .filter(|f| f.is(kind.field()))
        .map(|f| f.value().to_vec())
        .collect();
    let state = call.ctx.task().get::<State>();
    let list = match kind {
        Kind::Cookie => &mut state.cookies,
        Kind::SetCookie => &mut state.set,
    };
    if list.source.is_none() || !list.is_changed && list.source.as_ref() != Some(&now) {
        *list = List::read(kind, now);
    }
    Ok(list)
}

fn get(call: &mut Call<'_>, kind: Kind, wanted: &Wanted<'_>, default: &Value) -> CallResult {
    let list = list(call, kind)?;
    for cookie in list.cookies.iter().filter(|cookie| list.is_left(cookie)) {
        if wanted.is(cookie)? {
            return give(Value::String(Some(Text::copy(&cookie.value))));
        }
    }
    give(default.clone())
}

fn get_last(call: &mut Call<'_>, wanted: &Wanted<'_>, default: &Value) -> CallResult {
    let list = list(call, Kind::Cookie)?;
    for cookie in list.cookies.iter().rev().filter(|cookie| list.is_left(cookie)) {
        if wanted.is(cookie)? {
            return give(Value::String(Some(Text::copy(&cookie.value))));
        }
    }
    give(default.clone())
}

fn count(call: &mut Call<'_>, kind: Kind) -> CallResult {
    let list = list(call, kind)?;
    give(Value::Int(list.left().count() as i64))
}

/// Of those wanted with one name the first or last is left.
fn one_of_each(call: &mut Call<'_>, which: &str, wanted: &dyn Fn(&Cookie) -> bool) -> CallResult {
    let list = list(call, Kind::Cookie)?;
    let before = list.cookies.len();
    if which == "LAST" {
        list.cookies.reverse();
    }
    let mut seen = std::collections::HashSet::new();
    list.cookies.retain(|cookie| !wanted(cookie) || seen.insert(cookie.name.clone()));
    if which == "LAST" {
        list.cookies.reverse();
    }
    list.is_changed |= list.cookies.len() != before;
    give(Value::Void)
}

fn add(call: &mut Call<'_>, kind: Kind, name: &[u8], value: &[u8], text: Vec<u8>, how: Added) -> CallResult {
    if name.is_empty() {
        return fail("cookieplus: a cookie has a name");
    }
    let list = list(call, kind)?;
    list.cookies.retain(|cookie| !how.replaces || cookie.name != name);
    list.cookies.push(Cookie { name: name.to_vec(), value: value.to_vec(), text, is_kept: how.keep, is_new: true });
    list.is_changed = true;
    give(Value::Void)
}

fn setcookie_add(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let given = Args(args);
    let (name, value) = (given.bytes_of(0), given.bytes_of(1));
    let mut text = [name, b"=", value].concat();
    if given.given(2) {
        let until = vrt::convert::to_text(&Value::Time(call.ctx.clock().real().0 + given.real(2)))?;
        text.extend_from_slice(b"; Expires=");
        text.extend_from_slice(until.as_ref().map_or(b"", |until| until.as_bytes()));
        text.extend_from_slice(format!("; Max-Age={}", given.real(2) as i64).as_bytes());
    }
    for (at, word) in [(3, "; Domain="), (4, "; Path=")] {
        if let Some(value) = given.text(at).filter(|value| !value.as_bytes().is_empty()) {
            text.extend_from_slice(word.as_bytes());
            text.extend_from_slice(value.as_bytes());
        }
    }
    for (at, word) in [(5, "; Secure"), (6, "; HttpOnly")] {
        if given.bool(at) {
            text.extend_from_slice(word.as_bytes());
        }
    }
    if let Some(extra) = given.text(7).filter(|extra| !extra.as_bytes().is_empty()) {
        text.extend_from_slice(b"; ");
        text.extend_from_slice(extra.as_bytes());
    }
    add(call, Kind::SetCookie, name, value, text, Added { keep: given.bool(8), replaces: given.bool(9) })
}

/// What ends at a client the cookies that write() took from its request; where they hold isn't known here.
fn setcookie_add_deleted(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let keep = Args(args).bool(0);
    for name in call.ctx.task().get::<State>().deleted.clone() {
        let text = [&name[..], b"=; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=0"].concat();
        add(call, Kind::SetCookie, &name, b"", text, Added { keep, replaces: true })?;
    }
    give(Value::Void)
}

fn delete(call: &mut Call<'_>, kind: Kind, wanted: &Wanted<'_>, kept_too: bool) -> CallResult {
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
    give(Value::Void)
}

fn keep(call: &mut Call<'_>, kind: Kind, wanted: &Wanted<'_>) -> CallResult {
    let list = list(call, kind)?;
    (list.keeps, list.is_changed) = (true, true);
    for cookie in &mut list.cookies {
        cookie.is_kept |= wanted.is(cookie)?;
    }
    give(Value::Void)
}

fn taken(call: &mut Call<'_>, kind: Kind) -> Result<List, Failure> {
    Ok(std::mem::take(list(call, kind)?))
}

fn write(call: &mut Call<'_>, _: &[Value]) -> CallResult {
    let id = Kind::Cookie.head(call)?;
    let list = taken(call, Kind::Cookie)?;
    if !list.is_changed {
        return give(Value::Void);
    }
    let line = list.line();
    let came = List::read(Kind::Cookie, list.source.clone().unwrap_or_default());
    let deleted = &mut call.ctx.task().get::<State>().deleted;
    for cookie in came.cookies.into_iter().filter(|came| !list.left().any(|left| left.name == came.name)) {
        if !cookie.name.is_empty() && !deleted.contains(&cookie.name) {
            deleted.push(cookie.name);
        }
    }
    if line.is_empty() {
        unset_field(call.ctx, id, b"Cookie")?;
    } else if list.source.as_ref().is_none_or(|source| source.len() != 1 || source[0] != line) {
        set_field(call.ctx, id, b"Cookie", &line)?;
    }
    give(Value::Void)
}

/// Fields that are left stay as they are.
fn setcookie_write(call: &mut Call<'_>, _: &[Value]) -> CallResult {
    let id = Kind::SetCookie.head(call)?;
    let list = taken(call, Kind::SetCookie)?;
    if !list.is_changed {
        return give(Value::Void);
    }
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
    give(Value::Void)
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

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_cookieplus: the cookies of a task, worked on until write() makes the changes. What is kept holds as in urlplus.

use std::collections::HashSet;

use vrt::fields::{append_field, remove_line, set_field, unset_field};
use vrt::regex::Regex;
use vrt::vmod::{Call, CallResult, Function, Vmod};
use vrt::{Failure, HeadId, Method, Text, Value};

use crate::args::{Args, fail, gave_up, give};
use crate::pattern;

/// vmod_cookieplus
pub(crate) static VMOD: Vmod = Vmod { name: "cookieplus", classes: &[], functions: FUNCTIONS };

/// Each function for either kind of cookies, by its two names, and those for one kind.
macro_rules! of_both {
    ($(($name:literal, $set:literal, $act:ident),)* ; $(($one:literal, $does:ident),)*) => {
        &[$(
            ($name, |call, args| $act(call, Kind::Cookie, $name, args)),
            ($set, |call, args| $act(call, Kind::SetCookie, $set, args)),
        )* $(($one, $does),)*]
    };
}

const FUNCTIONS: &[(&str, Function)] = of_both![
    ("add", "setcookie_add", add),
    ("get", "setcookie_get", get),
    ("get_regex", "setcookie_get_regex", get_regex),
    ("delete", "setcookie_delete", delete),
    ("delete_regex", "setcookie_delete_regex", delete_regex),
    ("keep", "setcookie_keep", keep),
    ("keep_regex", "setcookie_keep_regex", keep_regex),
    ("write", "setcookie_write", write),
    ("count", "setcookie_count", count),
    ("reset", "setcookie_reset", reset),
    ;
    ("remove_duplicate", remove_duplicate),
    ("remove_all_duplicates", remove_all_duplicates),
    ("remove_deleted", remove_deleted),
    ("remove_deleted_regex", remove_deleted_regex),
    ("as_string", as_string),
    ("parse", parse),
    ("regsub", regsub),
    ("setcookie_add_deleted", setcookie_add_deleted),
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

#[derive(Default, Debug)]
struct List {
    /// The values of the fields as they were read.
    source: Option<Vec<Vec<u8>>>,
    cookies: Vec<Cookie>,
    /// Names that cookies had before: those aren't deleted.
    renamed: Vec<Vec<u8>>,
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
        List { source: Some(source), cookies, renamed: Vec::new(), keeps: false, is_changed: false }
    }

    fn is_left(&self, cookie: &Cookie) -> bool {
        cookie.is_kept || !self.keeps
    }

    fn left(&self) -> impl DoubleEndedIterator<Item = &Cookie> {
        self.cookies.iter().filter(|cookie| self.is_left(cookie))
    }

    /// The Cookie field of what is left.
    fn line(&self) -> Vec<u8> {
        self.left().map(|cookie| &cookie.text[..]).collect::<Vec<_>>().join(&b"; "[..])
    }

    fn add(&mut self, cookie: Cookie, replaces: bool) {
        self.cookies.retain(|old| !replaces || old.name != cookie.name);
        self.cookies.push(cookie);
        self.is_changed = true;
    }

    /// Of those wanted with one name the first or last is left.
    fn leave_one(&mut self, which: &str, wanted: impl Fn(&Cookie) -> bool) {
        let (before, is_last) = (self.cookies.len(), which == "LAST");
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

fn named<'a>(args: &'a [Value]) -> Wanted<'a> {
    Wanted::Name(Args(args).bytes_of(0))
}

fn get(call: &mut Call<'_>, kind: Kind, _: &str, args: &[Value]) -> CallResult {
    if kind == Kind::Cookie && Args(args).word(2) == "LAST" {
        let name = Args(args).bytes_of(0);
        let last = list(call, kind)?.left().rev().find(|cookie| cookie.name == name);
        return give(last.map_or_else(|| args[1].clone(), |cookie| Value::String(Some(Text::copy(&cookie.value)))));
    }
    find(call, kind, &named(args), &args[1])
}

fn get_regex(call: &mut Call<'_>, kind: Kind, who: &str, args: &[Value]) -> CallResult {
    let wanted = matching(call, who, args)?;
    find(call, kind, &wanted, &args[1])
}

fn find(call: &mut Call<'_>, kind: Kind, wanted: &Wanted<'_>, default: &Value) -> CallResult {
    let list = list(call, kind)?;
    for cookie in list.cookies.iter().filter(|cookie| list.is_left(cookie)) {
        if wanted.is(cookie)? {
            return give(Value::String(Some(Text::copy(&cookie.value))));
        }
    }
    give(default.clone())
}

fn add(call: &mut Call<'_>, kind: Kind, _: &str, args: &[Value]) -> CallResult {
    let (name, value) = (Args(args).bytes_of(0), Args(args).bytes_of(1));
    if name.is_empty() {
        return fail("cookieplus: a cookie has a name");
    }
    let mut text = [name, b"=", value].concat();
    if kind == Kind::SetCookie {
        attributes(call, args, &mut text)?;
    }
    let keep = if kind == Kind::Cookie { 2 } else { 8 };
    let (is_kept, replaces) = (Args(args).bool(keep), Args(args).bool(keep + 1));
    let cookie = Cookie { name: name.to_vec(), value: value.to_vec(), text, is_kept, is_new: true };
    list(call, kind)?.add(cookie, replaces);
    give(Value::Void)
}

/// What ends at a client the cookies that write() took from its request; where they hold isn't known here.
fn setcookie_add_deleted(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let is_kept = Args(args).bool(0);
    for name in call.ctx.task().get::<State>().deleted.clone() {
        let text = [&name[..], b"=; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=0"].concat();
        let cookie = Cookie { name, value: Vec::new(), text, is_kept, is_new: true };
        list(call, Kind::SetCookie)?.add(cookie, true);
    }
    give(Value::Void)
}

fn remove_duplicate(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let name = Args(args).bytes_of(0);
    list(call, Kind::Cookie)?.leave_one(Args(args).word(1), |cookie| cookie.name == name);
    give(Value::Void)
}

fn remove_all_duplicates(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    list(call, Kind::Cookie)?.leave_one(Args(args).word(0), |_| true);
    give(Value::Void)
}

fn remove_deleted(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let name = Args(args).bytes_of(0);
    call.ctx.task().get::<State>().deleted.retain(|deleted| deleted != name);
    give(Value::Void)
}

fn remove_deleted_regex(call: &mut Call<'_>, args: &[Value]) -> CallResult {
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
}

fn count(call: &mut Call<'_>, kind: Kind, _: &str, _: &[Value]) -> CallResult {
    let count = list(call, kind)?.left().count();
    give(Value::Int(count as i64))
}

fn as_string(call: &mut Call<'_>, _: &[Value]) -> CallResult {
    let line = list(call, Kind::Cookie)?.line();
    give(Value::String(Some(Text::copy(&line))))
}

fn parse(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let list = list(call, Kind::Cookie)?;
    let source = list.source.take();
    *list = List { source, is_changed: true, ..List::read(Kind::Cookie, vec![Args(args).bytes_of(0).to_vec()]) };
    give(Value::Void)
}

/// Changes the names or values of the cookies whose names match.
fn regsub(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let (is_name, with, all) = (Args(args).word(1) == "NAME", Args(args).bytes_of(3), Args(args).bool(4));
    let wanted = matching(call, "regsub", args)?;
    let regex = pattern::compile(call, "cookieplus.regsub()", Args(args).bytes_of(2))?;
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
    give(Value::Void)
}

fn reset(call: &mut Call<'_>, kind: Kind, _: &str, _: &[Value]) -> CallResult {
    let state = call.ctx.task().get::<State>();
    match kind {
        Kind::Cookie => (state.cookies, state.deleted) = (List::default(), Vec::new()),
        Kind::SetCookie => state.set = List::default(),
    }
    give(Value::Void)
}

/// What setcookie_add was given beside name and value.
fn attributes(call: &mut Call<'_>, args: &[Value], text: &mut Vec<u8>) -> Result<(), Failure> {
    let given = Args(args);
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
    Ok(())
}

fn delete(call: &mut Call<'_>, kind: Kind, _: &str, args: &[Value]) -> CallResult {
    drop_each(call, kind, &named(args), Args(args).bool(1))
}

fn delete_regex(call: &mut Call<'_>, kind: Kind, who: &str, args: &[Value]) -> CallResult {
    let wanted = matching(call, who, args)?;
    drop_each(call, kind, &wanted, Args(args).bool(1))
}

fn drop_each(call: &mut Call<'_>, kind: Kind, wanted: &Wanted<'_>, kept_too: bool) -> CallResult {
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

fn keep(call: &mut Call<'_>, kind: Kind, _: &str, args: &[Value]) -> CallResult {
    keep_each(call, kind, &named(args))
}

fn keep_regex(call: &mut Call<'_>, kind: Kind, who: &str, args: &[Value]) -> CallResult {
    let wanted = matching(call, who, args)?;
    keep_each(call, kind, &wanted)
}

fn keep_each(call: &mut Call<'_>, kind: Kind, wanted: &Wanted<'_>) -> CallResult {
    let list = list(call, kind)?;
    (list.keeps, list.is_changed) = (true, true);
    for cookie in &mut list.cookies {
        cookie.is_kept |= wanted.is(cookie)?;
    }
    give(Value::Void)
}

fn write(call: &mut Call<'_>, kind: Kind, _: &str, _: &[Value]) -> CallResult {
    let id = kind.head(call)?;
    let list = std::mem::take(list(call, kind)?);
    if list.is_changed {
        match kind {
            Kind::Cookie => write_line(call, id, &list)?,
            Kind::SetCookie => write_fields(call, id, &list)?,
        }
    }
    give(Value::Void)
}

fn write_line(call: &mut Call<'_>, id: HeadId, list: &List) -> Result<(), Failure> {
    let line = list.line();
    let came = List::read(Kind::Cookie, list.source.clone().unwrap_or_default());
    let deleted = &mut call.ctx.task().get::<State>().deleted;
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
fn write_fields(call: &mut Call<'_>, id: HeadId, list: &List) -> Result<(), Failure> {
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

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_cookie(3): the cookies of a task, in order.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use tables::{Compat, Tag};
use vcl_regex::{MatchError, Regex};
use vrt::vmod::{BOOL, CallResult, STRING, VOID, VmodCall, give};
use vrt::{Text, Value};

use vmod_support::args::gave_up;

vrt::vmod! {
    /// Reads and rewrites the Cookie header
    pub(crate) static VMOD = cookie;

    functions {
        /// Removes all cookies
        fn clean() -> VOID, local = clean;

        /// Removes one cookie
        fn delete(cookiename: STRING) -> VOID, local = delete;

        /// Removes the cookies of a comma-separated list
        fn filter(filterstring: STRING) -> VOID, local = |call: &mut VmodCall<'_>, list: &[u8]| filter(call, list, false);

        /// Old name of keep
        fn filter_except(filterstring: STRING) -> VOID, local
            = |call: &mut VmodCall<'_>, list: &[u8]| filter(call, list, true);

        /// Removes the cookies whose names match
        fn filter_re(expression: REGEX) -> VOID, local = |call: &mut VmodCall<'_>, regex: &Arc<Regex>| filter_re(call, regex, false);

        /// Removes all cookies except those of a comma-separated list
        fn keep(filterstring: STRING) -> VOID, local = |call: &mut VmodCall<'_>, list: &[u8]| filter(call, list, true);

        /// Removes all cookies except those whose names match
        fn keep_re(expression: REGEX) -> VOID, local = |call: &mut VmodCall<'_>, regex: &Arc<Regex>| filter_re(call, regex, true);

        /// Returns the HTTP date of a time plus a duration
        fn format_date(now: TIME, timedelta: DURATION) -> STRING, pure
            = |_, now: f64, timedelta: f64| format_date(now, timedelta);

        /// Old name of format_date
        fn format_rfc1123(now: TIME, timedelta: DURATION) -> STRING, pure
            = |_, now: f64, timedelta: f64| format_date(now, timedelta);

        /// Returns the value of a cookie; unset if there is none
        fn get(cookiename: STRING) -> STRING, local = cookie_get;

        /// Returns the value of the first cookie whose name matches; unset if none does
        fn get_re(expression: REGEX) -> STRING, local = get_re;

        /// Returns all cookies as the value of a Cookie header
        fn get_string() -> STRING, local = |call: &mut VmodCall<'_>| {
            let compat = call.ctx.compat();
            jar(call).line(compat)
        };

        /// Returns whether there is such a cookie
        fn isset(cookiename: STRING) -> BOOL, local = isset;

        /// Parses the value of a Cookie header; earlier cookies are discarded
        fn parse(cookieheader: STRING) -> VOID, local = parse;

        /// Sets a cookie
        fn set(cookiename: STRING, value: STRING) -> VOID, local = cookie_set;
    }
}

fn clean(call: &mut VmodCall<'_>) -> CallResult<VOID> {
    jar(call).0.clear();
    give(())
}

fn delete(call: &mut VmodCall<'_>, name: &[u8]) -> CallResult<VOID> {
    jar(call).0.retain(|cookie| *cookie.0 != *name);
    give(())
}

fn cookie_get(call: &mut VmodCall<'_>, cookiename: &[u8]) -> CallResult<STRING> {
    let found = jar(call).get(cookiename).cloned();
    give(found)
}

fn isset(call: &mut VmodCall<'_>, cookiename: &[u8]) -> CallResult<BOOL> {
    let found = jar(call).get(cookiename).is_some();
    give(found)
}

fn cookie_set(call: &mut VmodCall<'_>, cookiename: &[u8], value: &[u8]) -> CallResult<VOID> {
    jar(call).set(cookiename, value);
    give(())
}

#[derive(Debug, Default)]
struct Jar(Vec<(Text, Text)>);

fn jar<'a>(call: &'a mut VmodCall<'_>) -> &'a mut Jar {
    call.ctx.task().get::<Jar>()
}

fn skip_space(text: &[u8]) -> &[u8] {
    let at = text.iter().position(|b| !matches!(b, b' ' | b'\t'..=b'\r')).unwrap_or(text.len());
    &text[at..]
}

/// Number of cookies above which each is found by a map: a search through all for each would take too long.
const MANY: usize = 64;

impl Jar {
    /// Reads the value of a Cookie field; how many it found, empty ones included.
    fn parse(&mut self, mut text: &[u8]) -> usize {
        let mut count = 0;
        let mut places = HashMap::new();
        self.0.clear();
        while let Some(equals) = memchr::memchr(b'=', skip_space(text)) {
            let (name, rest) = skip_space(text).split_at(equals);
            let end = memchr::memchr(b';', &rest[1..]).unwrap_or(rest.len() - 1);
            let value = &rest[1..1 + end];
            if self.0.len() < MANY {
                self.set(name, value);
            } else {
                if places.is_empty() {
                    places = self.0.iter().enumerate().map(|(at, cookie)| (cookie.0.clone(), at)).collect();
                }
                self.set_by(&mut places, name, value);
            }
            count += 1;
            text = rest.get(end + 2..).unwrap_or_default();
        }
        count
    }

    fn get(&self, name: &[u8]) -> Option<&Text> {
        self.0.iter().find(|cookie| *cookie.0 == *name).map(|cookie| &cookie.1)
    }

    /// Cookies without a name or a value don't count.
    fn set(&mut self, name: &[u8], value: &[u8]) {
        if name.is_empty() || value.is_empty() {
            return;
        }
        match self.0.iter_mut().find(|cookie| *cookie.0 == *name) {
            Some(cookie) => cookie.1 = value.into(),
            None => self.0.push((name.into(), value.into())),
        }
    }

    /// The same, by a list of places.
    fn set_by(&mut self, places: &mut HashMap<Text, usize>, name: &[u8], value: &[u8]) {
        if name.is_empty() || value.is_empty() {
            return;
        }
        match places.entry(name.into()) {
            Entry::Occupied(place) => self.0[*place.get()].1 = value.into(),
            Entry::Vacant(place) => {
                place.insert(self.0.len());
                self.0.push((name.into(), value.into()));
            }
        }
    }

    /// Up to release 7.1 the line ends in a semicolon.
    fn line(&self, compat: Compat) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, value) in &self.0 {
            let sep: &[u8] = if out.is_empty() { b"" } else { b"; " };
            out.extend_from_slice(&[sep, name, b"=", value].concat());
        }
        if compat == Compat::V7_1 && !out.is_empty() {
            out.push(b';');
        }
        out
    }

    /// Keeps those in a list with commas, or those not in it. Blanks before a name don't belong to it, those after do.
    fn filter(&mut self, list: &[u8], keep: bool) {
        let names: Vec<&[u8]> = list.split(|&b| b == b',').map(skip_space).filter(|name| !name.is_empty()).collect();
        self.0.retain(|cookie| names.contains(&cookie.0.as_bytes()) == keep);
    }

    /// The same by a pattern; gives what was removed.
    fn filter_re(&mut self, regex: &Regex, keep: bool) -> Result<Vec<(Text, Text)>, MatchError> {
        let mut removed = Vec::new();
        for cookie in std::mem::take(&mut self.0) {
            let kept = regex.is_match(&cookie.0)? == keep;
            if kept { &mut self.0 } else { &mut removed }.push(cookie);
        }
        Ok(removed)
    }
}

fn parse(call: &mut VmodCall<'_>, text: &[u8]) -> CallResult<VOID> {
    if text.is_empty() {
        call.ctx.log().put(Tag::Debug, b"cookie: nothing to parse");
        return give(());
    }
    let count = jar(call).parse(text);
    call.ctx.log().putf(Tag::Debug, format_args!("cookie: parsed {count} cookies."));
    give(())
}

fn filter(call: &mut VmodCall<'_>, list: &[u8], keep: bool) -> CallResult<VOID> {
    jar(call).filter(list, keep);
    give(())
}

fn filter_re(call: &mut VmodCall<'_>, regex: &Regex, keep: bool) -> CallResult<VOID> {
    let removed = jar(call).filter_re(regex, keep).map_err(gave_up)?;
    let head: &[u8] = if keep { b"Removing cookie " } else { b"Removing matching cookie " };
    for (name, value) in removed {
        call.ctx.log().put_parts(Tag::Debug, &[head, &name, b" (value: ", &value, b")"]);
    }
    give(())
}

fn get_re(call: &mut VmodCall<'_>, regex: &Arc<Regex>) -> CallResult<STRING> {
    for at in 0..jar(call).0.len() {
        let (name, value) = jar(call).0[at].clone();
        call.ctx.log().put2(Tag::Debug, b"cookie: checking ", &name);
        if regex.is_match(&name).map_err(gave_up)? {
            return give(Some(value));
        }
    }
    give(None::<Text>)
}

fn format_date(now: f64, timedelta: f64) -> CallResult<STRING> {
    let time = Value::Time(now + timedelta);
    give(vrt::convert::to_text(&time)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jar(text: &str) -> Jar {
        let mut jar = Jar::default();
        jar.parse(text.as_bytes());
        jar
    }

    fn check(jar: &Jar, want: &str) {
        assert_eq!(String::from_utf8_lossy(&jar.line(Compat::V7_1)), want);
        assert_eq!(String::from_utf8_lossy(&jar.line(Compat::V9)), want.strip_suffix(';').unwrap_or(want));
    }

    #[test]
    fn parsing() {
        check(&jar("a=1; b=2"), "a=1; b=2;");
        check(&jar("a=1;b=2;"), "a=1; b=2;");
        check(&jar("  a=1=2;;b=; =3; c=4; a=5"), "a=5; c=4;");
        check(&jar("a=1=2;;b=3"), "a=1=2; ;b=3;");
        check(&jar("novalue"), "");
        check(&jar("a=1; novalue; b=2"), "a=1; novalue; b=2;");
        assert_eq!(Jar::default().parse(b"a=1; b=; c=3"), 3);
        check(&jar("a=\"x;y\""), "a=\"x;");
    }

    #[test]
    fn many_cookies_are_no_work_for_minutes() {
        let line: String = (0..200_000).map(|n| format!("c{n}={n}; ")).collect();
        let mut many = jar(&format!("{line}c7=seven; c199999=last; new=1; =2; x=; "));
        assert_eq!(many.0.len(), 200_001);
        let value = |jar: &Jar, name: &str| jar.get(name.as_bytes()).map(|v| String::from_utf8_lossy(v).into_owned());
        assert_eq!(value(&many, "c7").as_deref(), Some("seven"));
        assert_eq!(value(&many, "c199999").as_deref(), Some("last"));
        assert_eq!((value(&many, "new").as_deref(), value(&many, "x")), (Some("1"), None));
        many.parse(b"a=1; a=2");
        check(&many, "a=2;");
    }

    #[test]
    fn lists() {
        let mut some = jar("a=1; b=2; c=3; d=4");
        some.filter(b"a, ,c", false);
        check(&some, "b=2; d=4;");
        some.filter(b" d,x", true);
        check(&some, "d=4;");
        some.filter(b"", true);
        check(&some, "");
    }

    #[test]
    fn patterns() {
        let regex = Regex::new(b"^__utm.$").expect("good");
        let mut some = jar("__utma=1; b=2; __utmz=3");
        assert_eq!(some.filter_re(&regex, false).map(|removed| removed.len()), Ok(2));
        check(&some, "b=2;");
        assert_eq!(some.filter_re(&regex, true).map(|removed| removed.len()), Ok(1));
    }

    #[test]
    fn setting() {
        let mut some = jar("a=1; b=2");
        some.set(b"a", b"3");
        some.set(b"c", b"");
        some.set(b"d", b"4");
        check(&some, "a=3; b=2; d=4;");
        assert_eq!(some.get(b"d"), Some(&Text::from("4")));
        assert_eq!(some.get(b""), None);
    }

    proptest::proptest! {
        #[test]
        fn lines_come_back(cookies in proptest::collection::vec(("[a-z]{1,3}", "[!-:<-~]{1,5}"), 0..6)) {
            let mut first = Jar::default();
            cookies.iter().for_each(|(name, value)| first.set(name.as_bytes(), value.as_bytes()));
            let mut second = Jar::default();
            proptest::prop_assert_eq!(second.parse(&first.line(Compat::V9)), first.0.len());
            proptest::prop_assert_eq!(second.0, first.0);
        }

        #[test]
        fn any_text(text in "[a=; \\t\",]{0,30}") {
            jar(&text);
        }
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_cookie(3): the cookies of a task, in order.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use tables::Tag;
use vrt::regex::{MatchError, Regex};
use vrt::vmod::{Call, CallResult, Vmod};
use vrt::{Text, Value};

use crate::args::{Args, gave_up, give};

/// vmod_cookie(3)
pub(crate) static VMOD: Vmod = Vmod {
    name: "cookie",
    classes: &[],
    functions: &[
        ("clean", |call, _| {
            jar(call).0.clear();
            give(Value::Void)
        }),
        ("delete", |call, args| {
            let name = Args(args).bytes_of(0);
            jar(call).0.retain(|cookie| *cookie.0 != *name);
            give(Value::Void)
        }),
        ("filter", |call, args| filter(call, args, false)),
        ("filter_re", |call, args| filter_re(call, args, false)),
        ("filter_except", |call, args| filter(call, args, true)),
        ("keep", |call, args| filter(call, args, true)),
        ("keep_re", |call, args| filter_re(call, args, true)),
        ("format_date", |_, args| format_date(args)),
        ("format_rfc1123", |_, args| format_date(args)),
        ("get", |call, args| {
            let found = jar(call).get(Args(args).bytes_of(0)).cloned();
            give(Value::String(found))
        }),
        ("get_re", get_re),
        ("get_string", |call, _| give(Value::text(jar(call).line()))),
        ("isset", |call, args| {
            let found = jar(call).get(Args(args).bytes_of(0)).is_some();
            give(Value::Bool(found))
        }),
        ("parse", parse),
        ("set", |call, args| {
            jar(call).set(Args(args).bytes_of(0), Args(args).bytes_of(1));
            give(Value::Void)
        }),
    ],
};

/// Names and values.
#[derive(Debug, Default)]
struct Jar(Vec<(Text, Text)>);

fn jar<'a>(call: &'a mut Call<'_>) -> &'a mut Jar {
    call.ctx.task().get::<Jar>()
}

fn skip_space(text: &[u8]) -> &[u8] {
    let at = text.iter().position(|b| !matches!(b, b' ' | b'\t'..=b'\r')).unwrap_or(text.len());
    &text[at..]
}

/// With more cookies a search through all of them for each would take too long.
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

    fn line(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, value) in &self.0 {
            let sep: &[u8] = if out.is_empty() { b"" } else { b" " };
            out.extend_from_slice(&[sep, name, b"=", value, b";"].concat());
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

fn parse(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let text = Args(args).bytes_of(0);
    if text.is_empty() {
        call.ctx.log().put(Tag::Debug, b"cookie: nothing to parse");
        return give(Value::Void);
    }
    let count = jar(call).parse(text);
    call.ctx.log().putf(Tag::Debug, format_args!("cookie: parsed {count} cookies."));
    give(Value::Void)
}

fn filter(call: &mut Call<'_>, args: &[Value], keep: bool) -> CallResult {
    jar(call).filter(Args(args).bytes_of(0), keep);
    give(Value::Void)
}

fn filter_re(call: &mut Call<'_>, args: &[Value], keep: bool) -> CallResult {
    let removed = jar(call).filter_re(Args(args).regex(0), keep).map_err(gave_up)?;
    let head: &[u8] = if keep { b"Removing cookie " } else { b"Removing matching cookie " };
    for (name, value) in removed {
        call.ctx.log().put_parts(Tag::Debug, &[head, &name, b" (value: ", &value, b")"]);
    }
    give(Value::Void)
}

fn get_re(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let regex = Args(args).regex(0);
    for at in 0..jar(call).0.len() {
        let (name, value) = jar(call).0[at].clone();
        call.ctx.log().put2(Tag::Debug, b"cookie: checking ", &name);
        if regex.is_match(&name).map_err(gave_up)? {
            return give(Value::String(Some(value)));
        }
    }
    give(Value::NULL)
}

fn format_date(args: &[Value]) -> CallResult {
    let time = Value::Time(Args(args).real(0) + Args(args).real(1));
    give(Value::String(vrt::convert::to_text(&time)?))
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
        assert_eq!(String::from_utf8_lossy(&jar.line()), want);
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
        /// What is written is read back the same.
        #[test]
        fn lines_come_back(cookies in proptest::collection::vec(("[a-z]{1,3}", "[!-:<-~]{1,5}"), 0..6)) {
            let mut first = Jar::default();
            cookies.iter().for_each(|(name, value)| first.set(name.as_bytes(), value.as_bytes()));
            let mut second = Jar::default();
            proptest::prop_assert_eq!(second.parse(&first.line()), first.0.len());
            proptest::prop_assert_eq!(second.0, first.0);
        }

        #[test]
        fn any_text(text in "[a=; \\t\",]{0,30}") {
            jar(&text);
        }
    }
}

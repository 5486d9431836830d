// SPDX-License-Identifier: BSD-2-Clause
//! vmod_querystring(3) of libvmod-querystring. Only `?`, `&` and `=` have a meaning; nothing is decoded. A parameter without a
//! name is an empty one and never stays.

use std::sync::Arc;

use base::fnmatch::{self, Flags};
use parking_lot::RwLock;
use tables::Tag;
use vrt::regex::Regex;
use vrt::vmod::{Call, CallResult, Class, Object, Vmod};
use vrt::{Failure, HeadId, Method, Text, Value};

use crate::args::{Args, fail, give};

/// vmod_querystring(3)
pub(crate) static VMOD: Vmod = Vmod {
    name: "querystring",
    functions: &[
        ("clean", |call, args| plain(call, args, |url| Filter::default().apply(url, true, &mut Vec::new()))),
        ("sort", |call, args| {
            let filter = Filter { sort: true, uniq: Args(args).bool(1), whole: true, rules: RwLock::default() };
            plain(call, args, |url| filter.apply(url, true, &mut Vec::new()))
        }),
        ("remove", |call, args| plain(call, args, |url| split(url).0.to_vec())),
    ],
    classes: &[Class {
        name: "filter",
        new: |_, _, args| {
            let (sort, uniq, whole) = (Args(args).bool(0), Args(args).bool(1), Args(args).word(2) == "param");
            Ok(Arc::new(Filter { sort, uniq, whole, rules: RwLock::default() }))
        },
        methods: &[
            ("add_string", |call, object, args| add(call, object, Rule::Exact(Args(args).bytes_of(0).into()))),
            ("add_glob", |call, object, args| add(call, object, Rule::Glob(Args(args).bytes_of(0).into()))),
            ("add_regex", |call, object, args| match &args[0] {
                Value::Regex(regex) => add(call, object, Rule::Regex(regex.clone())),
                other => panic!("a pattern is {other:?}"),
            }),
            ("apply", |call, object, args| filtered(call, object, args, |url| url.to_vec())),
            ("extract", |call, object, args| {
                filtered(call, object, args, |url| split(url).1.unwrap_or_default().to_vec())
            }),
        ],
    }],
};

enum Rule {
    Exact(Box<[u8]>),
    Glob(Box<[u8]>),
    Regex(Arc<Regex>),
}

#[derive(Default)]
struct Filter {
    sort: bool,
    uniq: bool,
    /// Rules and duplicates look at `name=value`, not only at the name.
    whole: bool,
    rules: RwLock<Vec<Rule>>,
}

fn add(call: &mut Call<'_>, object: &Object, rule: Rule) -> CallResult {
    if call.method != Method::Init {
        return fail("querystring: a filter takes criteria in vcl_init only");
    }
    this(object).rules.write().push(rule);
    give(Value::Void)
}

fn this(object: &Object) -> Arc<Filter> {
    object.clone().downcast().expect("made by this class")
}

/// The URL that was given, or the transaction's.
fn url(call: &mut Call<'_>, args: &[Value]) -> Result<Option<Text>, Failure> {
    if Args(args).given(0) {
        return Ok(Args(args).text(0).cloned());
    }
    // Where there is a req it counts; fetches have none.
    for id in [HeadId::Req, HeadId::Bereq] {
        if let Some(head) = call.ctx.head(id) {
            return Ok(Some(Text::copy(head.url())));
        }
    }
    fail("querystring: there is no URL here")
}

fn plain(call: &mut Call<'_>, args: &[Value], change: impl FnOnce(&[u8]) -> Vec<u8>) -> CallResult {
    let url = url(call, args)?;
    give(Value::String(url.map(|url| change(&url).into())))
}

fn filtered(call: &mut Call<'_>, object: &Object, args: &[Value], part: fn(&[u8]) -> Vec<u8>) -> CallResult {
    let Some(url) = url(call, args)? else { return give(Value::NULL) };
    let mut errors = Vec::new();
    let changed = this(object).apply(&url, Args(args).word(1) == "drop", &mut errors);
    for error in errors {
        call.ctx.log().put2(Tag::Error, b"querystring.filter: ", error.as_bytes());
    }
    give(Value::text(part(&changed)))
}

/// What stands before the query, and the query.
fn split(url: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'?', url) {
        Some(at) => (&url[..at], Some(&url[at + 1..])),
        None => (url, None),
    }
}

fn name(param: &[u8]) -> &[u8] {
    &param[..memchr::memchr(b'=', param).unwrap_or(param.len())]
}

impl Filter {
    /// The URL without what the rules mean (`drop`), or with nothing else. A rule that gives up keeps the parameter.
    fn apply(&self, url: &[u8], drop: bool, errors: &mut Vec<&'static str>) -> Vec<u8> {
        let (path, Some(query)) = split(url) else { return url.to_vec() };
        let part = |param: &'_ [u8]| if self.whole { param.len() } else { name(param).len() };
        let rules = self.rules.read();
        let mut keeps = |param: &&[u8]| {
            let subject = &param[..part(param)];
            for rule in rules.iter() {
                match rule.means(subject) {
                    Ok(false) => {}
                    Ok(true) => return !drop,
                    Err(error) => {
                        errors.push(error);
                        return true;
                    }
                }
            }
            drop
        };
        let params = query.split(|byte| *byte == b'&').filter(|param| !name(param).is_empty());
        let mut params: Vec<&[u8]> = params.filter(|param| keeps(param)).collect();
        if self.sort {
            params.sort();
        }
        if self.uniq {
            params.dedup_by(|a, b| a[..part(a)] == b[..part(b)]);
        }
        let mut out = Vec::with_capacity(url.len());
        out.extend_from_slice(path);
        for (at, param) in params.into_iter().enumerate() {
            out.push(if at == 0 { b'?' } else { b'&' });
            out.extend_from_slice(param);
        }
        out
    }
}

impl Rule {
    fn means(&self, subject: &[u8]) -> Result<bool, &'static str> {
        Ok(match self {
            Rule::Exact(text) => **text == *subject,
            Rule::Glob(glob) => fnmatch::matches(glob, subject, Flags::default()),
            Rule::Regex(regex) => return regex.is_match(subject).map_err(|error| error.text()),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filter(sort: bool, uniq: bool, whole: bool, rules: Vec<Rule>) -> Filter {
        Filter { sort, uniq, whole, rules: RwLock::new(rules) }
    }

    fn check(filter: &Filter, drop: bool, url: &str, want: &str) {
        let got = filter.apply(url.as_bytes(), drop, &mut Vec::new());
        assert_eq!(String::from_utf8_lossy(&got), want, "{url}");
    }

    #[test]
    fn empty_parameters_go() {
        let none = Filter::default();
        for (url, want) in [
            ("/?", "/"),
            ("/?&a&&", "/?a"),
            ("/?=x", "/"),
            ("/?x=", "/?x="),
            ("/", "/"),
            ("?", ""),
            ("/?a?b=c", "/?a?b=c"),
        ] {
            check(&none, true, url, want);
        }
    }

    #[test]
    fn rules_by_name_and_by_the_whole() {
        let rules = || {
            let regex = Regex::new(b"^sess[0-9]+$").expect("good");
            vec![Rule::Exact(b"_"[..].into()), Rule::Glob(b"utm_*"[..].into()), Rule::Regex(Arc::new(regex))]
        };
        let by_name = filter(false, false, false, rules());
        check(&by_name, true, "/?utm_a=1&b=utm_&sess7=x&_=3&sess=1", "/?b=utm_&sess=1");
        check(&by_name, false, "/?utm_a=1&b=utm_&sess7=x&_=3&sess=1", "/?utm_a=1&sess7=x&_=3");
        check(&filter(false, false, true, rules()), true, "/?utm_a=1&sess7=x&_=3&_", "/?sess7=x&_=3");
    }

    #[test]
    fn order_and_duplicates() {
        check(&filter(true, false, false, vec![]), true, "/?b&a&ba&a=1", "/?a&a=1&b&ba");
        check(&filter(false, true, false, vec![]), true, "/?a=0&b=1&b=2&a=0", "/?a=0&b=1&a=0");
        check(&filter(true, true, true, vec![]), true, "/?b=1&a&b=2&b=1", "/?a&b=1&b=2");
    }

    proptest! {
        /// What stays are parameters that were there, as often or once; a second time nothing changes, and what the rules
        /// drop and what they keep are all.
        #[test]
        fn parameters_stay_or_go(
            url in "/[a/]{0,5}(\\?([ab_]{0,2}(=[ab=?]{0,3})?&?){0,8})?", sort: bool, uniq: bool, whole: bool, glob in "[ab*?\\[\\]\\\\]{0,4}",
        ) {
            let params = |url: &[u8]| -> Vec<Vec<u8>> {
                let query = split(url).1.unwrap_or_default();
                let mut all: Vec<Vec<u8>> = query.split(|byte| *byte == b'&').filter(|param| !name(param).is_empty()).map(<[u8]>::to_vec).collect();
                all.sort();
                all
            };
            let apply = |filter: &Filter, url: &[u8], drop| filter.apply(url, drop, &mut Vec::new());
            let any = || filter(sort, uniq, whole, vec![Rule::Glob(glob.as_bytes().into())]);
            for drop in [false, true] {
                let once = apply(&any(), url.as_bytes(), drop);
                prop_assert_eq!(&apply(&any(), &once, drop), &once);
                prop_assert_eq!(split(&once).0, split(url.as_bytes()).0);
            }
            let each = filter(sort, false, whole, vec![Rule::Glob(glob.as_bytes().into())]);
            let mut both = [params(&apply(&each, url.as_bytes(), false)), params(&apply(&each, url.as_bytes(), true))].concat();
            both.sort();
            prop_assert_eq!(both, params(url.as_bytes()));
        }

        #[test]
        fn any_bytes_do_no_harm(url: Vec<u8>, glob: Vec<u8>, whole: bool) {
            filter(true, true, whole, vec![Rule::Glob(glob.into())]).apply(&url, true, &mut Vec::new());
        }
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_querystring(3) of libvmod-querystring. Only `?`, `&` and `=` have a meaning; nothing is decoded. A parameter without a
//! name is an empty one and never stays.

use std::sync::Arc;

use base::fnmatch::{self, MatchFlags};
use parking_lot::RwLock;
use tables::Tag;
use vcl_regex::Regex;
use vrt::vmod::{CallResult, STRING, VOID, VmodCall, give};
use vrt::{HeadId, Method, Text, VclFailure};

use vmod_support::args::fail;

vrt::words! {
    enum Match { Name = "name", Param = "param" }
}

vrt::words! {
    enum Mode { Keep = "keep", Drop = "drop" }
}

vrt::vmod! {
    /// Removes, keeps, sorts and deduplicates query arguments. The default URL is req.url, in fetches bereq.url
    pub(crate) static VMOD = querystring;

    functions {
        /// Returns the URL without empty arguments
        fn clean(url: [STRING]) -> STRING, local = clean;

        /// Returns the URL with its arguments sorted, without empty ones, optionally without duplicates
        fn sort(url: [STRING], uniq: BOOL = false) -> STRING, local = sort;

        /// Returns the URL without its query
        fn remove(url: [STRING]) -> STRING, local
            = |call: &mut VmodCall<'_>, url: Option<Option<&Text>>| plain(call, url, |url| split(url).0.to_vec());
    }

    /// A filter of query arguments, by name or by the whole argument
    object filter(sort: BOOL = false, uniq: BOOL = false, match: Match = Name) -> Arc<Filter> = new, methods {
        /// Selects the arguments that are equal to this string
        fn add_string(_: STRING) -> VOID, only(Method::Init.set())
            = |this: &Arc<Filter>, call: &mut VmodCall<'_>, text: &[u8]| add(call, this, Rule::Exact(text.into()));

        /// Selects the arguments that match this shell pattern
        fn add_glob(_: STRING) -> VOID, only(Method::Init.set())
            = |this: &Arc<Filter>, call: &mut VmodCall<'_>, text: &[u8]| add(call, this, Rule::Glob(text.into()));

        /// Selects the arguments that match
        fn add_regex(_: REGEX) -> VOID, only(Method::Init.set()) = add_regex;

        /// Returns the URL without the selected arguments, or with only these
        fn apply(url: [STRING], mode: Mode = Drop) -> STRING, local = filter_apply;

        /// Returns the query of that URL; unset if there is none
        fn extract(url: [STRING], mode: Mode = Drop) -> STRING, local = extract;
    }
}

fn clean(call: &mut VmodCall<'_>, url: Option<Option<&Text>>) -> CallResult<STRING> {
    plain(call, url, |url| Filter::default().apply(url, true, &mut Vec::new()))
}

fn sort(call: &mut VmodCall<'_>, url: Option<Option<&Text>>, uniq: bool) -> CallResult<STRING> {
    let filter = Filter { sort: true, uniq, whole: true, rules: RwLock::default() };
    plain(call, url, |url| filter.apply(url, true, &mut Vec::new()))
}

fn new(_: &mut VmodCall<'_>, _: &str, sort: bool, uniq: bool, matches: Match) -> Result<Arc<Filter>, VclFailure> {
    let (sort, uniq, whole) = (sort, uniq, matches == Match::Param);
    Ok(Arc::new(Filter { sort, uniq, whole, rules: RwLock::default() }))
}

fn add_regex(this: &Arc<Filter>, call: &mut VmodCall<'_>, regex: &Arc<Regex>) -> CallResult<VOID> {
    add(call, this, Rule::Regex(regex.clone()))
}

fn filter_apply(
    this: &Arc<Filter>,
    call: &mut VmodCall<'_>,
    url: Option<Option<&Text>>,
    mode: Mode,
) -> CallResult<STRING> {
    filtered(call, this, url, mode, |url| url.to_vec())
}

fn extract(this: &Arc<Filter>, call: &mut VmodCall<'_>, url: Option<Option<&Text>>, mode: Mode) -> CallResult<STRING> {
    filtered(call, this, url, mode, |url| split(url).1.unwrap_or_default().to_vec())
}

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

fn add(call: &mut VmodCall<'_>, filter: &Filter, rule: Rule) -> CallResult<VOID> {
    if call.method != Method::Init {
        return fail("querystring: a filter takes criteria in vcl_init only");
    }
    filter.rules.write().push(rule);
    give(())
}

/// The URL that was given, or the transaction's.
fn url(call: &mut VmodCall<'_>, given: Option<Option<&Text>>) -> Result<Option<Text>, VclFailure> {
    if let Some(url) = given {
        return Ok(url.cloned());
    }
    // Where there is a req it counts; fetches have none.
    for id in [HeadId::Req, HeadId::Bereq] {
        if let Some(head) = call.ctx.head(id) {
            return Ok(Some(Text::copy(head.url())));
        }
    }
    fail("querystring: there is no URL here")
}

fn plain(
    call: &mut VmodCall<'_>,
    given: Option<Option<&Text>>,
    change: impl FnOnce(&[u8]) -> Vec<u8>,
) -> CallResult<STRING> {
    let url = url(call, given)?;
    give(url.map(|url| change(&url)))
}

fn filtered(
    call: &mut VmodCall<'_>,
    filter: &Filter,
    given: Option<Option<&Text>>,
    mode: Mode,
    part: fn(&[u8]) -> Vec<u8>,
) -> CallResult<STRING> {
    let Some(url) = url(call, given)? else { return give(None::<Text>) };
    let mut errors = Vec::new();
    let changed = filter.apply(&url, mode == Mode::Drop, &mut errors);
    for error in errors {
        call.ctx.log().put2(Tag::Error, b"querystring.filter: ", error.as_bytes());
    }
    give(part(&changed))
}

/// Splits a URL into the part before the query, and the query.
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
            Rule::Glob(glob) => fnmatch::matches(glob, subject, MatchFlags::default()),
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

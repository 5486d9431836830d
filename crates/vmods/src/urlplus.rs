// SPDX-License-Identifier: BSD-2-Clause
//! vmod_urlplus: a task's URL as segments and parameters. What its documentation leaves open: a scheme and host stay as they are,
//! a range without segments gives nothing, a value that is missing is unset rather than empty.

use vcl_regex::Regex;
use vrt::vmod::EnumWords;
use vrt::vmod::{CallResult, INT, STRING, VOID, VmodCall, give};
use vrt::{HeadId, Text, VclFailure};

use crate::support::pattern;
use vmod_support::args::{fail, gave_up};

vrt::words! {
    enum QueryUnique { None = "NONE", Key = "KEY", KeyValue = "KEY_VALUE" }
}

vrt::words! {
    enum Slash { FromInput = "FROM_INPUT", True = "TRUE", False = "FALSE" }
}

vrt::words! {
    enum Part { All = "ALL", Url = "URL", Query = "QUERY" }
}

vrt::vmod! {
    /// The URL as path segments and query arguments. A task's first call parses the transaction's URL (req.url or
    /// bereq.url); changes take effect with write(). Nothing is decoded; empty segments and arguments are ignored.
    /// Positions count from 0, or backwards from -1, the last
    pub(crate) static VMOD = urlplus;

    functions {
        /// Parses this URL and discards the previous one
        fn parse(url: STRING) -> VOID, local = urlplus_parse;

        /// Discards everything; the next call parses the transaction's URL again
        fn reset() -> VOID, local = reset;

        /// Writes the result to the transaction's URL. Of arguments that are equal by query_unique only the first is kept.
        /// An empty value loses its = unless query_keep_equal_sign
        fn write(
            sort_query: BOOL = true, query_unique: QueryUnique = None, leading_slash: Slash = FromInput,
            trailing_slash: Slash = FromInput, query_keep_equal_sign: BOOL = false
        ) -> VOID, local = write;

        /// Returns the URL that write would write
        fn as_string(
            sort_query: BOOL = true, query_unique: QueryUnique = None, leading_slash: Slash = FromInput,
            trailing_slash: Slash = FromInput, query_keep_equal_sign: BOOL = false
        ) -> STRING, local = as_string;

        /// Returns the path of that URL
        fn url_as_string(leading_slash: Slash = FromInput, trailing_slash: Slash = FromInput) -> STRING, local
            = url_as_string;

        /// Returns the query of that URL, without the ?
        fn query_as_string(
            sort_query: BOOL = true, query_unique: QueryUnique = None, query_keep_equal_sign: BOOL = false
        ) -> STRING, local = query_as_string;

        /// Returns the value of the first argument of that name
        fn query_get(name: STRING, def: STRING = null) -> STRING, local = query_get;

        /// Returns the value of the first argument whose name matches
        fn query_get_regex(regex: STRING, def: STRING = null) -> STRING, local = query_get_regex;

        /// Adds an argument; with keep it counts as kept
        fn query_add(name: STRING, value: STRING = null, keep: BOOL = false) -> VOID, local = query_add;

        /// Deletes the arguments of that name; kept ones only with delete_keep
        fn query_delete(name: STRING, delete_keep: BOOL = false) -> VOID, local = query_delete;

        /// Deletes the arguments whose names match
        fn query_delete_regex(regex: STRING, delete_keep: BOOL = false) -> VOID, local = query_delete_regex;

        /// Keeps the arguments of that name. Only kept arguments are written from now on
        fn query_keep(name: STRING) -> VOID, local = query_keep;

        /// Keeps the arguments whose names match, as query_keep
        fn query_keep_regex(regex: STRING) -> VOID, local = query_keep_regex;

        /// Returns the number of arguments that would be written
        fn query_count() -> INT, local = query_count;

        /// Returns the segments of a range, both ends included; unset if there are none. A trailing slash belongs to the
        /// last segment
        fn url_get(
            start_range: INT = 0, end_range: INT = (-1), leading_slash: Slash = FromInput,
            trailing_slash: Slash = FromInput
        ) -> STRING, local = url_get;

        /// Inserts a segment at this position; at the end if there are fewer
        fn url_add(name: STRING, keep: BOOL = false, position: INT = (-1)) -> VOID, local = url_add;

        /// Deletes the segments that are equal to this string
        fn url_delete(name: STRING, delete_keep: BOOL = false) -> VOID, local = url_delete;

        /// Deletes the segments that match
        fn url_delete_regex(regex: STRING, delete_keep: BOOL = false) -> VOID, local = url_delete_regex;

        /// Deletes the segments of a range
        fn url_delete_range(start_range: INT = 0, end_range: INT = (-1), delete_keep: BOOL = false) -> VOID, local
            = url_delete_range;

        /// Keeps the segments that are equal to this string. Only kept segments are written from now on
        fn url_keep(name: STRING) -> VOID, local = url_keep;

        /// Keeps the segments that match, as url_keep
        fn url_keep_regex(regex: STRING) -> VOID, local = url_keep_regex;

        /// Returns the number of segments that would be written
        fn url_count() -> INT, local = url_count;

        /// Returns the last segment; unset if the path ends in a slash
        fn get_basename() -> STRING, local = get_basename;

        /// Returns the last segment without its extension
        fn get_filename() -> STRING, local = get_filename;

        /// Returns the text after the last dot of the last segment; unset without a dot
        fn get_extension() -> STRING, local = get_extension;

        /// Returns the path before the last segment, without a trailing slash unless it is /
        fn get_dirname() -> STRING, local = get_dirname;

        /// Converts to lower case: everything, the path, or the query
        fn tolower(part: Part = All) -> VOID, local
            = |call: &mut VmodCall<'_>, part: Part| change_case(call, part.word(), <[u8]>::make_ascii_lowercase);

        /// Converts to upper case
        fn toupper(part: Part = All) -> VOID, local
            = |call: &mut VmodCall<'_>, part: Part| change_case(call, part.word(), <[u8]>::make_ascii_uppercase);
    }

    left_out {
        "urlplus.query_set" => "urlplus.query_delete, then urlplus.query_add";
    }
}

fn urlplus_parse(call: &mut VmodCall<'_>, url: &[u8]) -> CallResult<VOID> {
    let url = Url::parse(url);
    call.ctx.task().get::<TaskUrl>().0 = Some(url);
    give(())
}

fn reset(call: &mut VmodCall<'_>) -> CallResult<VOID> {
    call.ctx.task().get::<TaskUrl>().0 = None;
    give(())
}

fn as_string(
    call: &mut VmodCall<'_>,
    sorts: bool,
    unique: QueryUnique,
    leading: Slash,
    trailing: Slash,
    keeps_equal: bool,
) -> CallResult<STRING> {
    let text = url(call)?.text(Form { sorts, unique, keeps_equal }, Slashes::new(leading, trailing));
    give(text)
}

fn url_as_string(call: &mut VmodCall<'_>, leading: Slash, trailing: Slash) -> CallResult<STRING> {
    let text = url(call)?.path(Slashes::new(leading, trailing));
    give(text)
}

fn query_as_string(call: &mut VmodCall<'_>, sorts: bool, unique: QueryUnique, keeps_equal: bool) -> CallResult<STRING> {
    let text = url(call)?.query(Form { sorts, unique, keeps_equal });
    give(text)
}

fn query_get(call: &mut VmodCall<'_>, name: &[u8], def: Option<&Text>) -> CallResult<STRING> {
    let found = url(call)?.params.iter().find(|param| param.name == name).map(Param::value);
    give(found.map(Text::from).or_else(|| def.cloned()))
}

fn query_get_regex(call: &mut VmodCall<'_>, regex: &[u8], def: Option<&Text>) -> CallResult<STRING> {
    let regex = pattern::compile(call, "urlplus.query_get_regex()", regex)?;
    for param in &url(call)?.params {
        if regex.is_match(&param.name).map_err(gave_up)? {
            return give(param.value());
        }
    }
    give(def.cloned())
}

fn query_add(call: &mut VmodCall<'_>, name: &[u8], value: Option<&Text>, keep: bool) -> CallResult<VOID> {
    let (name, value) = (name, value.map(|value| value.to_vec()));
    if name.is_empty() {
        return fail("urlplus.query_add(): a parameter has a name");
    }
    let param = Param { name: name.to_vec(), value, is_kept: keep };
    url(call)?.params.push(param);
    give(())
}

fn query_delete(call: &mut VmodCall<'_>, name: &[u8], all: bool) -> CallResult<VOID> {
    url(call)?.params.retain(|param| param.name != name || param.is_kept && !all);
    give(())
}

fn query_delete_regex(call: &mut VmodCall<'_>, regex: &[u8], all: bool) -> CallResult<VOID> {
    let regex = pattern::compile(call, "urlplus.query_delete_regex()", regex)?;
    delete_matching(&mut url(call)?.params, &regex, |param| &param.name, |param| param.is_kept && !all)
}

fn query_keep(call: &mut VmodCall<'_>, name: &[u8]) -> CallResult<VOID> {
    let url = url(call)?;
    url.keeps_params = true;
    url.params.iter_mut().filter(|param| param.name == name).for_each(|param| param.is_kept = true);
    give(())
}

fn query_keep_regex(call: &mut VmodCall<'_>, regex: &[u8]) -> CallResult<VOID> {
    let regex = pattern::compile(call, "urlplus.query_keep_regex()", regex)?;
    let url = url(call)?;
    url.keeps_params = true;
    keep_matching(&mut url.params, &regex, |param| (&param.name, &mut param.is_kept))
}

fn query_count(call: &mut VmodCall<'_>) -> CallResult<INT> {
    let count = url(call)?.left_params().count();
    give(count as i64)
}

fn url_get(call: &mut VmodCall<'_>, from: i64, to: i64, leading: Slash, trailing: Slash) -> CallResult<STRING> {
    let found = url(call)?.range_text(from, to, Slashes::new(leading, trailing));
    give(found)
}

fn url_add(call: &mut VmodCall<'_>, text: &[u8], is_kept: bool, position: i64) -> CallResult<VOID> {
    if text.is_empty() || text.contains(&b'/') || text.contains(&b'?') {
        return fail("urlplus.url_add(): a segment is a text without / and ?");
    }
    let segments = &mut url(call)?.segments;
    let len = segments.len() as i64;
    let at = if position < 0 { (len + 1).saturating_add(position) } else { position }.clamp(0, len);
    segments.insert(at as usize, Segment { text: text.to_vec(), is_kept });
    give(())
}

fn url_delete(call: &mut VmodCall<'_>, text: &[u8], all: bool) -> CallResult<VOID> {
    url(call)?.segments.retain(|segment| segment.text != text || segment.is_kept && !all);
    give(())
}

fn url_delete_regex(call: &mut VmodCall<'_>, regex: &[u8], all: bool) -> CallResult<VOID> {
    let regex = pattern::compile(call, "urlplus.url_delete_regex()", regex)?;
    delete_matching(&mut url(call)?.segments, &regex, |segment| &segment.text, |segment| segment.is_kept && !all)
}

fn url_delete_range(call: &mut VmodCall<'_>, from: i64, to: i64, all: bool) -> CallResult<VOID> {
    let segments = &mut url(call)?.segments;
    if let Some(range) = range(segments.len(), from, to) {
        let mut at = 0;
        segments.retain(|segment| {
            at += 1;
            !range.contains(&(at - 1)) || segment.is_kept && !all
        });
    }
    give(())
}

fn url_keep(call: &mut VmodCall<'_>, name: &[u8]) -> CallResult<VOID> {
    let url = url(call)?;
    url.keeps_segments = true;
    let named = |segment: &&mut Segment| segment.text == name;
    url.segments.iter_mut().filter(named).for_each(|segment| segment.is_kept = true);
    give(())
}

fn url_keep_regex(call: &mut VmodCall<'_>, regex: &[u8]) -> CallResult<VOID> {
    let regex = pattern::compile(call, "urlplus.url_keep_regex()", regex)?;
    let url = url(call)?;
    url.keeps_segments = true;
    keep_matching(&mut url.segments, &regex, |segment| (&segment.text, &mut segment.is_kept))
}

fn url_count(call: &mut VmodCall<'_>) -> CallResult<INT> {
    let count = url(call)?.left_segments().count();
    give(count as i64)
}

fn get_basename(call: &mut VmodCall<'_>) -> CallResult<STRING> {
    let name = url(call)?.last();
    give(name)
}

fn get_filename(call: &mut VmodCall<'_>) -> CallResult<STRING> {
    let name = url(call)?.last().map(|last| split_extension(last).0);
    give(name)
}

fn get_extension(call: &mut VmodCall<'_>) -> CallResult<STRING> {
    let extension = url(call)?.last().and_then(|last| split_extension(last).1);
    give(extension)
}

fn get_dirname(call: &mut VmodCall<'_>) -> CallResult<STRING> {
    let name = url(call)?.dirname();
    give(name)
}

#[derive(Default)]
struct TaskUrl(Option<Url>);

#[derive(Debug, Default, Clone)]
struct Url {
    /// Scheme and host of an absolute URL.
    origin: Vec<u8>,
    leading: bool,
    trailing: bool,
    segments: Vec<Segment>,
    params: Vec<Param>,
    /// Only kept ones are written.
    keeps_segments: bool,
    keeps_params: bool,
}

#[derive(Debug, Clone)]
struct Segment {
    text: Vec<u8>,
    is_kept: bool,
}

#[derive(Debug, Clone)]
struct Param {
    name: Vec<u8>,
    value: Option<Vec<u8>>,
    is_kept: bool,
}

#[derive(Clone, Copy)]
struct Form {
    sorts: bool,
    unique: QueryUnique,
    keeps_equal: bool,
}

/// Slashes at a path's begin and end; `None`: as they came.
#[derive(Clone, Copy)]
struct Slashes {
    leading: Option<bool>,
    trailing: Option<bool>,
}

impl Slashes {
    fn new(leading: Slash, trailing: Slash) -> Slashes {
        let slash = |slash| match slash {
            Slash::True => Some(true),
            Slash::False => Some(false),
            Slash::FromInput => None,
        };
        Slashes { leading: slash(leading), trailing: slash(trailing) }
    }
}

fn head_of(call: &mut VmodCall<'_>) -> Result<HeadId, VclFailure> {
    let found = [HeadId::Req, HeadId::Bereq].into_iter().find(|id| call.ctx.head(*id).is_some());
    found.ok_or(VclFailure::new("urlplus: there is no URL here"))
}

fn url<'a>(call: &'a mut VmodCall<'_>) -> Result<&'a mut Url, VclFailure> {
    if call.ctx.task().get::<TaskUrl>().0.is_none() {
        let id = head_of(call)?;
        let parsed = call.ctx.head(id).map(|head| Url::parse(head.url()));
        call.ctx.task().get::<TaskUrl>().0 = parsed;
    }
    Ok(call.ctx.task().get::<TaskUrl>().0.get_or_insert_default())
}

fn write(
    call: &mut VmodCall<'_>,
    sorts: bool,
    unique: QueryUnique,
    leading: Slash,
    trailing: Slash,
    keeps_equal: bool,
) -> CallResult<VOID> {
    let mut text = url(call)?.text(Form { sorts, unique, keeps_equal }, Slashes::new(leading, trailing));
    if text.is_empty() || text.starts_with(b"?") {
        text.insert(0, b'/');
    }
    let id = head_of(call)?;
    vrt::fields::set_url(call.ctx, id, &text)?;
    call.ctx.task().get::<TaskUrl>().0 = None;
    give(())
}

fn delete_matching<T>(
    all: &mut Vec<T>,
    regex: &Regex,
    name: impl Fn(&T) -> &Vec<u8>,
    stays: impl Fn(&T) -> bool,
) -> CallResult<VOID> {
    let mut stopped = None;
    all.retain(|one| {
        stays(one) || !regex.is_match(name(one)).unwrap_or_else(|reason| stopped.replace(reason).is_some())
    });
    stopped.map_or_else(|| give(()), |reason| Err(gave_up(reason)))
}

fn keep_matching<T>(all: &mut [T], regex: &Regex, of: impl Fn(&mut T) -> (&Vec<u8>, &mut bool)) -> CallResult<VOID> {
    for one in all {
        let (name, is_kept) = of(one);
        *is_kept |= regex.is_match(name).map_err(gave_up)?;
    }
    give(())
}

fn change_case(call: &mut VmodCall<'_>, part: &'static str, change: fn(&mut [u8])) -> CallResult<VOID> {
    let url = url(call)?;
    if part != "QUERY" {
        url.segments.iter_mut().for_each(|segment| change(&mut segment.text));
    }
    if part != "URL" {
        for param in &mut url.params {
            change(&mut param.name);
            param.value.as_deref_mut().into_iter().for_each(change);
        }
    }
    give(())
}

/// Places `from..=to` of `len`, negative ones counted from the end; `None` when there are none.
fn range(len: usize, from: i64, to: i64) -> Option<std::ops::RangeInclusive<usize>> {
    let len = len as i64;
    let place = |n: i64| if n < 0 { n.saturating_add(len) } else { n };
    let (from, to) = (place(from).max(0), place(to).min(len - 1));
    (from <= to).then_some(from as usize..=to as usize)
}

fn split_extension(name: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memrchr(b'.', name) {
        Some(dot) => (&name[..dot], Some(&name[dot + 1..])),
        None => (name, None),
    }
}

impl Param {
    fn value(&self) -> &[u8] {
        self.value.as_deref().unwrap_or_default()
    }
}

impl Url {
    fn parse(text: &[u8]) -> Url {
        let end = memchr::memchr(b'?', text).unwrap_or(text.len());
        let (mut path, query) = (&text[..end], text.get(end + 1..).unwrap_or_default());
        let mut url = Url::default();
        if let Some(colon) = memchr::memmem::find(path, b"://").filter(|at| !path[..*at].contains(&b'/')) {
            let host = memchr::memchr(b'/', &path[colon + 3..]).map_or(path.len(), |at| colon + 3 + at);
            url.origin = path[..host].to_vec();
            path = &path[host..];
        }
        url.leading = path.starts_with(b"/");
        url.trailing = path.len() > 1 && path.ends_with(b"/");
        let segments = path.split(|b| *b == b'/').filter(|text| !text.is_empty());
        url.segments = segments.map(|text| Segment { text: text.to_vec(), is_kept: false }).collect();
        for param in query.split(|b| *b == b'&').filter(|text| !text.is_empty()) {
            let (name, value) = match memchr::memchr(b'=', param) {
                Some(at) => (&param[..at], Some(param[at + 1..].to_vec())),
                None => (param, None),
            };
            url.params.push(Param { name: name.to_vec(), value, is_kept: false });
        }
        url
    }

    fn left_segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.is_kept || !self.keeps_segments)
    }

    fn left_params(&self) -> impl Iterator<Item = &Param> {
        self.params.iter().filter(|param| param.is_kept || !self.keeps_params)
    }

    fn last(&self) -> Option<&[u8]> {
        self.left_segments().last().filter(|_| !self.trailing).map(|segment| &segment.text[..])
    }

    fn dirname(&self) -> Vec<u8> {
        let left: Vec<&Segment> = self.left_segments().collect();
        let dirs = if self.trailing { &left[..] } else { &left[..left.len().saturating_sub(1)] };
        let mut out = Vec::new();
        for (n, dir) in dirs.iter().enumerate() {
            if n > 0 || self.leading {
                out.push(b'/');
            }
            out.extend_from_slice(&dir.text);
        }
        if dirs.is_empty() && self.leading { b"/".to_vec() } else { out }
    }

    fn range_text(&self, from: i64, to: i64, slashes: Slashes) -> Option<Vec<u8>> {
        let left: Vec<&Segment> = self.left_segments().collect();
        if left.is_empty() && (from, to) == (0, -1) {
            return Some(self.join(&left, slashes, self.trailing));
        }
        let range = range(left.len(), from, to)?;
        let ends = self.trailing && *range.end() + 1 == left.len();
        Some(self.join(&left[range], slashes, ends))
    }

    fn join(&self, segments: &[&Segment], slashes: Slashes, trailing: bool) -> Vec<u8> {
        let mut out = Vec::new();
        if slashes.leading.unwrap_or(self.leading) {
            out.push(b'/');
        }
        for (n, segment) in segments.iter().enumerate() {
            if n > 0 {
                out.push(b'/');
            }
            out.extend_from_slice(&segment.text);
        }
        if slashes.trailing.unwrap_or(trailing) && !segments.is_empty() {
            out.push(b'/');
        }
        out
    }

    fn path(&self, slashes: Slashes) -> Vec<u8> {
        let left: Vec<&Segment> = self.left_segments().collect();
        [&self.origin[..], &self.join(&left, slashes, self.trailing)].concat()
    }

    fn query(&self, form: Form) -> Vec<u8> {
        let has_equal = |param: &Param| !param.value().is_empty() || form.keeps_equal && param.value.is_some();
        // One of which nothing is written would leave two `&` side by side.
        let mut params: Vec<&Param> =
            self.left_params().filter(|param| !param.name.is_empty() || has_equal(param)).collect();
        if form.unique != QueryUnique::None {
            let mut seen = std::collections::HashSet::new();
            let by_key = form.unique == QueryUnique::Key;
            params.retain(|param| seen.insert((&param.name, (!by_key).then(|| param.value()))));
        }
        if form.sorts {
            params.sort_by(|a, b| (&a.name, a.value()).cmp(&(&b.name, b.value())));
        }
        let mut out = Vec::new();
        for (n, param) in params.iter().enumerate() {
            if n > 0 {
                out.push(b'&');
            }
            out.extend_from_slice(&param.name);
            if has_equal(param) {
                out.push(b'=');
                out.extend_from_slice(param.value());
            }
        }
        out
    }

    fn text(&self, form: Form, slashes: Slashes) -> Vec<u8> {
        let (mut out, query) = (self.path(slashes), self.query(form));
        if !query.is_empty() {
            out.push(b'?');
            out.extend_from_slice(&query);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAIN: Form = Form { sorts: false, unique: QueryUnique::None, keeps_equal: true };
    const AS_CAME: Slashes = Slashes { leading: None, trailing: None };

    #[test]
    fn what_is_not_changed_comes_back() {
        for url in ["/", "/a", "/a/b/", "/a?b=c&d", "*", "http://h:80/a/b?c=d/e?f", "/a?b=&c==&%20=%26", "http://h"] {
            assert_eq!(Url::parse(url.as_bytes()).text(PLAIN, AS_CAME), url.as_bytes());
        }
        for (url, cleaned) in [("//a///b//?", "/a/b/"), ("/a?&&b&", "/a?b"), ("", "")] {
            assert_eq!(Url::parse(url.as_bytes()).text(PLAIN, AS_CAME), cleaned.as_bytes());
        }
    }

    #[test]
    fn ranges_from_both_ends() {
        let of = |from, to| range(4, from, to);
        assert_eq!(
            [of(0, -1), of(1, 2), of(-2, -1), of(3, 99), of(-99, 0)],
            [0..=3, 1..=2, 2..=3, 3..=3, 0..=0].map(Some)
        );
        assert_eq!([of(2, 1), of(4, 9), of(0, -5), range(0, 0, -1), of(i64::MIN, i64::MIN)], [const { None }; 5]);
    }

    #[test]
    fn a_query_may_be_sorted_and_have_each_once() {
        let url = Url::parse(b"/?b=2&a=1&b=1&a=1&c=");
        let form = |sorts, unique| Form { sorts, unique, keeps_equal: false };
        assert_eq!(url.query(form(true, QueryUnique::None)), b"a=1&a=1&b=1&b=2&c");
        assert_eq!(Url::parse(b"/?=&a&=&=b").query(form(false, QueryUnique::None)), b"a&=b");
        assert_eq!(url.query(form(false, QueryUnique::Key)), b"b=2&a=1&c");
        assert_eq!(url.query(form(true, QueryUnique::KeyValue)), b"a=1&b=1&b=2&c");
    }

    proptest! {
        /// Writing twice gives the same as writing once, and every part is a part of the input.
        #[test]
        fn any_url(url in "([a-z]{0,3}:?/{0,3})?([ab./?&=:%]{0,12}|\\PC{0,12})", from in -5i64..5, to in -5i64..5, keeps_equal: bool) {
            let parsed = Url::parse(url.as_bytes());
            let form = Form { keeps_equal, ..PLAIN };
            let once = parsed.text(form, AS_CAME);
            prop_assert_eq!(Url::parse(&once).text(form, AS_CAME), once.clone());
            prop_assert!(once.len() <= url.len());
            for (leading, trailing) in [(Some(true), Some(false)), (Some(false), Some(true))] {
                let slashes = Slashes { leading, trailing };
                let path = parsed.range_text(from, to, slashes);
                if let Some(path) = path.filter(|path| path.len() > 1) {
                    prop_assert_eq!((path.starts_with(b"/"), path.ends_with(b"/")), (leading == Some(true), trailing == Some(true)));
                }
            }
            let names: usize = parsed.params.iter().map(|param| param.name.len() + param.value().len()).sum();
            prop_assert!(names <= url.len());
            prop_assert!(parsed.last().is_none_or(|last| memchr::memmem::find(url.as_bytes(), last).is_some()));
            for (sorts, unique) in [(true, QueryUnique::None), (true, QueryUnique::Key), (true, QueryUnique::KeyValue)] {
                let form = Form { sorts, unique, keeps_equal };
                let query = parsed.query(form);
                prop_assert_eq!(Url::parse(&[b"/?", &query[..]].concat()).query(form), query);
            }
        }
    }
}

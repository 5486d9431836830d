// SPDX-License-Identifier: BSD-2-Clause
//! vmod_rers (gquintard): patterns in the syntax of Rust's crate regex, made while VCL runs, a store of them, and bodies
//! rewritten. As documented there a pattern that can't be compiled matches nothing and changes nothing; here a VCL_Error
//! record says so. Subjects that aren't UTF-8 are matched as bytes. A body that is rewritten is held as a whole, 8 MB at most.

use std::sync::Arc;

use filters::{Filter, FilterError, FilterStep};
use parking_lot::Mutex;
use regex_automata::Input;
use regex_automata::meta::Regex;
use regex_automata::util::captures::Captures;
use regex_automata::util::{interpolate, syntax};
use tables::Tag;
use vrt::vmod::{BOOL, CallResult, STRING, VOID, VmodCall, give};
use vrt::{Method, Text, VclFailure};

use crate::support::body_collector::{BodyCollector, MAX_BODY_BYTES, WorkState};
use vmod_support::args::fail;

const MAX_KEPT: i64 = 10_000;
const MAX_PAIRS: usize = 100;
const PATTERN_BYTES: usize = 10 << 20;

vrt::vmod! {
    /// Regular expressions of Rust's regex compiled at run time, named groups, and rewriting of bodies
    pub(crate) static VMOD = rers;

    /// A cache of n compiled patterns, with LRU eviction
    object init(n: INT = 100) -> Store = new, methods {
        /// Returns whether the pattern matches; false if it is invalid
        fn is_match(s: STRING, regex: STRING) -> BOOL, local = is_match;

        /// Returns the string with all matches, or the first lim, replaced; $1 and $name are groups
        fn replace(s: STRING, regex: STRING, sub: STRING, lim: INT = 0) -> STRING, local = replace;

        /// Same as is_match, and saves the groups for this task
        fn capture(string: STRING, regex: STRING) -> BOOL, local = init_capture;

        /// Same as capture, on the request's body. Fails if std.cache_req_body hasn't cached it; false if it isn't UTF-8
        fn capture_req_body(regex: STRING) -> BOOL, local = capture_req_body;

        /// Returns a group of the last capture; empty if there is none
        fn group(index: INT) -> STRING, local = init_group;

        /// Returns a group of the last capture by name, as group
        fn named_group(name: STRING) -> STRING, local = named_group;

        /// Replaces matches in the body of this response, one pair after the other, if rers is in beresp.filters or
        /// resp.filters. A body over 8 MB makes the response fail
        fn replace_resp_body(
            regex: STRING, s: STRING
        ) -> VOID, only(Method::Deliver.set().with(Method::Synth.set()).with(Method::BackendResponse.set())) = replace_resp_body;
    }
}

fn new(_: &mut VmodCall<'_>, name: &str, n: i64) -> Result<Store, VclFailure> {
    match n {
        room @ 1..=MAX_KEPT => Ok(Store { room: room as usize, kept: Mutex::default() }),
        _ => fail(format!("rers: {name}: n must be 1 to {MAX_KEPT}")),
    }
}

fn is_match(this: &Store, call: &mut VmodCall<'_>, s: Option<&Text>, regex: &[u8]) -> CallResult<BOOL> {
    let Some(regex) = pattern(call, this, regex) else { return give(false) };
    give(s.is_some_and(|subject| regex.is_match(subject.as_bytes())))
}

fn init_capture(this: &Store, call: &mut VmodCall<'_>, string: Option<&Text>, regex: &[u8]) -> CallResult<BOOL> {
    let regex = pattern(call, this, regex);
    capture(call, regex, string.cloned())
}

fn capture_req_body(this: &Store, call: &mut VmodCall<'_>, regex: &[u8]) -> CallResult<BOOL> {
    let mut body = Vec::new();
    if !call.ctx.kept_body(&mut |piece| body.extend_from_slice(piece)) {
        return fail("rers: capture_req_body(): the request's body isn't kept: std.cache_req_body comes first");
    }
    let regex = pattern(call, this, regex);
    let body = std::str::from_utf8(&body).is_ok().then(|| Text::from(body));
    capture(call, regex, body)
}

fn init_group(_: &Store, call: &mut VmodCall<'_>, index: i64) -> CallResult<STRING> {
    let index = usize::try_from(index).ok();
    group(call, |found| index.and_then(|index| found.get_group(index)))
}

fn named_group(_: &Store, call: &mut VmodCall<'_>, name: &[u8]) -> CallResult<STRING> {
    group(call, |found| found.get_group_by_name(std::str::from_utf8(name).ok()?))
}

fn replace_resp_body(this: &Store, call: &mut VmodCall<'_>, regex: &[u8], s: &[u8]) -> CallResult<VOID> {
    if !matches!(call.method, Method::BackendResponse | Method::Deliver | Method::Synth) {
        return fail("rers: replace_resp_body() is for vcl_backend_response, vcl_deliver and vcl_synth");
    }
    let Some(regex) = pattern(call, this, regex) else { return give(()) };
    let with = s.to_vec();
    let Some(injected) = call.ctx.injected_filters() else { return fail("rers: there is no response here") };
    let pairs = &mut injected.named(Body::default).pairs;
    if pairs.len() >= MAX_PAIRS {
        return fail(format!("rers: a body has no more than {MAX_PAIRS} replacements"));
    }
    pairs.push((regex, with));
    give(())
}

/// An `init` object. The pattern that was used last is at the end.
struct Store {
    room: usize,
    kept: Mutex<Vec<(Text, Option<Arc<Regex>>)>>,
}

/// The last match of a task, of whichever store.
#[derive(Default)]
struct Last(Option<(Text, Captures)>);

fn make(pattern: &[u8]) -> Option<Regex> {
    let config = Regex::config().nfa_size_limit(Some(PATTERN_BYTES)).utf8_empty(false);
    let syntax = syntax::Config::new().utf8(false);
    Regex::builder().configure(config).syntax(syntax).build(std::str::from_utf8(pattern).ok()?).ok()
}

/// The pattern that is argument `at`, out of the store if it has it.
fn pattern(call: &mut VmodCall<'_>, store: &Store, pattern: &[u8]) -> Option<Arc<Regex>> {
    let found = {
        let mut kept = store.kept.lock();
        let found = kept.iter().rposition(|(text, _)| text.as_bytes() == pattern);
        found.map(|at| {
            kept[at..].rotate_left(1);
            kept.last().and_then(|(_, regex)| regex.clone())
        })
    };
    let regex = found.unwrap_or_else(|| {
        let regex = make(pattern).map(Arc::new);
        let mut kept = store.kept.lock();
        if kept.len() >= store.room {
            kept.remove(0);
        }
        kept.push((Text::copy(pattern), regex.clone()));
        regex
    });
    if regex.is_none() {
        call.ctx.log().putf(Tag::VclError, format_args!("rers: bad pattern \"{}\"", pattern.escape_ascii()));
    }
    regex
}

fn capture(call: &mut VmodCall<'_>, regex: Option<Arc<Regex>>, subject: Option<Text>) -> CallResult<BOOL> {
    let found = regex.zip(subject).and_then(|(regex, subject)| {
        let mut found = regex.create_captures();
        regex.captures(subject.as_bytes(), &mut found);
        found.is_match().then_some((subject, found))
    });
    let is_match = found.is_some();
    call.ctx.task().get::<Last>().0 = found;
    give(is_match)
}

fn group(call: &mut VmodCall<'_>, which: impl FnOnce(&Captures) -> Option<regex_automata::Span>) -> CallResult<STRING> {
    let last = call.ctx.task().get::<Last>();
    let found = last.0.as_ref().and_then(|(subject, found)| Some(&subject.as_bytes()[which(found)?.range()]));
    give(found.unwrap_or_default())
}

fn replace(
    this: &Store,
    call: &mut VmodCall<'_>,
    s: Option<&Text>,
    regex: &[u8],
    sub: &[u8],
    lim: i64,
) -> CallResult<STRING> {
    let Some(subject) = s.cloned() else { return give(None::<Text>) };
    let Some(regex) = pattern(call, this, regex) else { return give(Some(subject)) };
    let most = match lim {
        ..=0 => usize::MAX,
        most => most as usize,
    };
    match replaced(&regex, &subject, sub, most) {
        Ok(Some(text)) => give(text),
        Ok(None) => give(Some(subject)),
        Err(reason) => fail(format!("rers: replace(): {reason}")),
    }
}

/// The subject with matches replaced; `None` if nothing matches.
fn replaced(regex: &Regex, subject: &[u8], with: &[u8], most: usize) -> Result<Option<Vec<u8>>, &'static str> {
    let (mut out, mut done) = (Vec::new(), 0);
    let mut seen = false;
    for found in regex.captures_iter(Input::new(subject)).take(most) {
        let Some(whole) = found.get_match() else { break };
        seen = true;
        out.extend_from_slice(&subject[done..whole.start()]);
        let text = |group: usize, out: &mut Vec<u8>| {
            if let Some(span) = found.get_group(group) {
                out.extend_from_slice(&subject[span.range()]);
            }
        };
        interpolate::bytes(with, text, |name| regex.group_info().to_index(found.pattern()?, name), &mut out);
        done = whole.end();
        if out.len() > MAX_BODY_BYTES {
            return Err("the text became longer than 8 MB");
        }
    }
    if !seen {
        return Ok(None);
    }
    out.extend_from_slice(&subject[done..]);
    Ok(Some(out))
}

/// The filter `rers`: one pair after the other on the whole body.
#[derive(Default)]
struct Body {
    gathered: BodyCollector,
    pairs: Vec<(Arc<Regex>, Vec<u8>)>,
    done: usize,
}

impl Filter for Body {
    fn name(&self) -> &'static str {
        "rers"
    }

    fn needs_whole(&self) -> bool {
        true
    }

    fn step(&mut self, input: &[u8], is_last: bool, out: &mut [u8]) -> Result<FilterStep, FilterError> {
        let (pairs, done) = (&self.pairs, &mut self.done);
        self.gathered.step("rers", input, is_last, out, |body| {
            let Some((regex, with)) = pairs.get(*done) else { return Ok(WorkState::Done) };
            *done += 1;
            if let Some(new) = replaced(regex, body, with, usize::MAX)? {
                *body = new;
            }
            Ok(WorkState::More)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::support::body_collector::tests::run;

    fn through(pairs: &[(&str, &str)], body: &[u8], cut: usize, room: usize) -> Result<Vec<u8>, FilterError> {
        let pair = |(pattern, with): &(&str, &str)| {
            (Arc::new(make(pattern.as_bytes()).expect("a pattern")), with.as_bytes().to_vec())
        };
        let mut filter = Body { pairs: pairs.iter().map(pair).collect(), ..Body::default() };
        run(&mut filter, body, cut, room)
    }

    #[test]
    fn pairs_work_one_after_the_other() {
        let pairs = [("1", "aA"), ("567.", "eEfFgG|"), ("f", "X"), ("e", "Y"), ("(?P<n>[34])", "<$n>")];
        assert_eq!(through(&pairs, b"0123456789", 3, 2), Ok(b"0aA2<3><4>YEXFgG|9".to_vec()));
        assert_eq!(through(&[("^", "("), ("$", ")")], b"", 1, 1), Ok(b"()".to_vec()));
        assert_eq!(through(&[], b"\xff", 1, 1), Ok(b"\xff".to_vec()));
    }

    #[test]
    fn what_grows_too_much_is_an_error() {
        let body = [b'a'; 1000];
        let long = "b".repeat(20_000);
        assert!(through(&[("a", &long)], &body, 100, 100).is_err());
    }

    proptest! {
        #[test]
        fn any_pattern(pattern in "[ab.*+?()|\\[\\]{}0-9^$\\\\-]{0,12}", with in "[a$0-9{}]{0,6}", body in "[ab\n]{0,60}", cut in 1usize..70) {
            let Some(regex) = make(pattern.as_bytes()) else { return Ok(()) };
            let whole = replaced(&regex, body.as_bytes(), with.as_bytes(), usize::MAX).expect("short");
            prop_assert_eq!(
                through(&[(&pattern, &with)], body.as_bytes(), cut, 7),
                Ok(whole.unwrap_or_else(|| body.clone().into_bytes()))
            );
        }
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_re of libvmod-re: groups of a match, each object's apart from the others' and from the functions'. An absent subject is
//! matched as the empty text. A pattern made while VCL runs that can't be compiled, and a match that gives up, are VCL_Error
//! records and no match, as there. `limit` and `limit_recursion` say nothing: the engines' time is linear or bounded by
//! the parameter pcre2_match_limit.

use std::ops::Range;
use std::sync::Arc;

use tables::Tag;
use vcl_regex::Regex;
use vrt::vmod::{BOOL, CallResult, STRING, VmodCall, give};
use vrt::{Text, VclFailure};

use crate::support::pattern;
use vmod_support::args::fail;

const MAX_GROUPS: i64 = 10;
/// Key of the functions' last match; an object's key is its address.
const FUNCTIONS: usize = 0;

vrt::vmod! {
    /// Regular expressions whose groups can be read after a match
    pub(crate) static VMOD = re;

    functions {
        /// Returns whether the pattern matches, and saves its groups for this task
        fn match(subject: STRING, pattern: STRING) -> BOOL, local = re_match;

        /// Returns whether the pattern matches, and saves its groups for this task
        fn match_dyn(subject: STRING, pattern: STRING) -> BOOL, local = re_match_dyn;

        /// Returns group 0 to 10 of this task's last match; fallback if there is none
        fn backref(refnum: INT, fallback: STRING = "**BACKREF METHOD FAILED**") -> STRING, local
            = |call: &mut VmodCall<'_>, number: i64, fallback: Option<&Text>| backref(call, FUNCTIONS, number, fallback);

        /// Returns the version of this module
        fn version() -> STRING, local = |_| env!("CARGO_PKG_VERSION");
    }

    /// A regular expression in VCL's syntax (PCRE2)
    object regex(
        pattern: STRING, limit: INT = 1000, limit_recursion: INT = 1000, forbody: BOOL = false, asfilter: BOOL =
        false
    ) -> Arc<Regex> = new, methods {
        /// Returns whether the pattern matches, and saves its groups for this task
        fn match(subject: STRING, limit: INT = 1000, limit_recursion: INT = 1000) -> BOOL, local = regex_match;

        /// Same as match, with a pattern that is compiled now
        fn match_dyn(pattern: STRING, subject: STRING, limit: INT = 1000, limit_recursion: INT = 1000) -> BOOL, local
            = regex_match_dyn;

        /// Returns group 0 to 10 of this task's last match; fallback if there is none
        fn backref(refnum: INT, fallback: STRING = "**BACKREF METHOD FAILED**") -> STRING, local
            = |this: &Arc<Regex>, call: &mut VmodCall<'_>, number: i64, fallback: Option<&Text>| backref(call, key(this), number, fallback);
    }

    left_out {
        "re.regex.match_body" => "bodyaccess.rematch_req_body, or rers.capture_req_body for its groups";
        "re.regex.foreach" => "regsuball";
        "re.regex.foreach_body" => "xbody.regsub, or rers.replace_resp_body";
        "re.regex.substitute_match" => "xbody.regsub, or rers.replace_resp_body";
        "re.regex.clear_substitutions" => "xbody.regsub, or rers.replace_resp_body";
    }
}

fn re_match(call: &mut VmodCall<'_>, subject: Option<&Text>, pattern: &[u8]) -> CallResult<BOOL> {
    match_dyn(call, FUNCTIONS, pattern, subject)
}

fn re_match_dyn(call: &mut VmodCall<'_>, subject: Option<&Text>, pattern: &[u8]) -> CallResult<BOOL> {
    match_dyn(call, FUNCTIONS, pattern, subject)
}

fn new(
    _: &mut VmodCall<'_>,
    name: &str,
    pattern: &[u8],
    _: i64,
    _: i64,
    forbody: bool,
    asfilter: bool,
) -> Result<Arc<Regex>, VclFailure> {
    for (is_wanted, what) in [(forbody, "forbody"), (asfilter, "asfilter")] {
        if is_wanted {
            return fail(format!("re: {name}: {what} isn't built into Lacquer; see xbody and rers"));
        }
    }
    match Regex::new(pattern) {
        Ok(regex) => Ok(Arc::new(regex)),
        Err(reason) => fail(format!("re: {name}: {} at {}", reason.text, reason.offset)),
    }
}

fn regex_match(this: &Arc<Regex>, call: &mut VmodCall<'_>, subject: Option<&Text>, _: i64, _: i64) -> CallResult<BOOL> {
    let subject = subject.cloned();
    matched(call, key(this), this, subject)
}

fn regex_match_dyn(
    this: &Arc<Regex>,
    call: &mut VmodCall<'_>,
    pattern: &[u8],
    subject: Option<&Text>,
    _: i64,
    _: i64,
) -> CallResult<BOOL> {
    match_dyn(call, key(this), pattern, subject)
}

/// The last match of a task: its subject, and where its groups are in it.
struct LastMatch {
    subject: Text,
    groups: Vec<Option<Range<usize>>>,
}

#[derive(Default)]
struct Last(Option<LastMatch>);

fn key(regex: &Arc<Regex>) -> usize {
    std::ptr::from_ref(regex) as usize
}

fn match_dyn(call: &mut VmodCall<'_>, key: usize, pattern: &[u8], subject: Option<&Text>) -> CallResult<BOOL> {
    match pattern::compile(call, "re", pattern) {
        Ok(regex) => matched(call, key, &regex, subject.cloned()),
        Err(reason) => {
            call.ctx.log().put(Tag::VclError, reason.0.as_bytes());
            call.ctx.task().keyed(key, Last::default).0 = None;
            give(false)
        }
    }
}

fn matched(call: &mut VmodCall<'_>, key: usize, regex: &Regex, subject: Option<Text>) -> CallResult<BOOL> {
    let subject = subject.unwrap_or(Text::EMPTY);
    let mut groups = None;
    let done = regex.each_match(subject.as_bytes(), &mut |found| {
        groups = Some(found.iter().take(MAX_GROUPS as usize + 1).cloned().collect());
        false
    });
    if let Err(reason) = done {
        call.ctx.log().putf(Tag::VclError, format_args!("re: {}", reason.text()));
    }
    let found = groups.map(|groups| LastMatch { subject, groups });
    let is_match = found.is_some();
    call.ctx.task().keyed(key, Last::default).0 = found;
    give(is_match)
}

fn backref(call: &mut VmodCall<'_>, key: usize, number: i64, fallback: Option<&Text>) -> CallResult<STRING> {
    if !(0..=MAX_GROUPS).contains(&number) {
        call.ctx.log().putf(Tag::VclError, format_args!("re: backref({number}): groups are 0 to {MAX_GROUPS}"));
        return give(fallback.cloned());
    }
    let group = call.ctx.task().find::<Last>(key).and_then(|last| {
        let found = last.0.as_ref()?;
        let at = found.groups.get(number as usize)?.clone()?;
        Some(Text::copy(&found.subject.as_bytes()[at]))
    });
    give(group.or_else(|| fallback.cloned()))
}

// SPDX-License-Identifier: BSD-2-Clause
//! Sets of patterns, matched at once by one automaton. It is made when `vcl_init` has ended: nothing can be added afterwards.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use regex_automata::meta::Regex;
use regex_automata::{Input, PatternSet};
use vrt::vmod::{BACKEND, BOOL, CallResult, EnumWords, INT, STRING, VOID, VmodCall, give};
use vrt::{BackendRef, HeadId, Method, Text, VclFailure};

use super::pattern::{Options, Pattern, Rewrite, error_text};
use super::{Anchor, Select, Which, failed, key, rewritten};

with_options! { SetArgs [] [] { anchor: Anchor as Anchor = None, } [] _args false }

pub(super) fn new(call: &mut VmodCall<'_>, name: &str, args: SetArgs) -> Result<Arc<Set>, VclFailure> {
    let (name, members) = (name.to_owned(), Mutex::default());
    let (anchor, options) = (args.anchor, args.options());
    let set = Arc::new(Set { name, anchor, options, members, whole: OnceLock::new() });
    let made = set.clone();
    call.vcl.complete_later(move || made.whole().map(drop));
    Ok(set)
}

pub(super) fn compile(set: &Arc<Set>, call: &mut VmodCall<'_>) -> CallResult<VOID> {
    if call.method != Method::Init {
        return failed(&format!("{}.compile() called in a subroutine other than vcl_init", set.name));
    }
    give(())
}

pub(super) fn is_match(set: &Arc<Set>, call: &mut VmodCall<'_>, subject: Option<&Text>) -> CallResult<BOOL> {
    let found = match subject {
        Some(subject) => set.find(subject)?,
        None => Vec::new(),
    };
    let is_match = !found.is_empty();
    *call.ctx.task().keyed(key(set), || SetMatches(Vec::new())) = SetMatches(found);
    give(is_match)
}

pub(super) fn matched(set: &Arc<Set>, call: &mut VmodCall<'_>, n: i64) -> CallResult<BOOL> {
    let count = set.members.lock().len();
    let Some(found) = last(call, set) else {
        return failed(&format!("{}.matched({n}) called without prior match", set.name));
    };
    if n < 1 || n > count as i64 {
        return failed(&format!("n={n} out of range in {}.matched() ({count} patterns)", set.name));
    }
    give(found.contains(&(n as usize - 1)))
}

pub(super) fn nmatches(set: &Arc<Set>, call: &mut VmodCall<'_>) -> CallResult<INT> {
    match last(call, set) {
        Some(found) => give(found.len() as i64),
        None => failed(&format!("{}.nmatches() called without prior match", set.name)),
    }
}

pub(super) fn which(set: &Arc<Set>, call: &mut VmodCall<'_>, select: Select) -> CallResult<INT> {
    let at = chosen(call, set, 0, select, &format!("{}.which(0)", set.name))?;
    give(at as i64 + 1)
}

pub(super) fn string(set: &Arc<Set>, call: &mut VmodCall<'_>, n: i64, select: Select) -> CallResult<STRING> {
    let (place, member) = member(call, set, n, select, "string")?;
    match member.string {
        Some(text) => give(text),
        None => failed(&format!("{place}: String {} was not added", member.number)),
    }
}

pub(super) fn backend(set: &Arc<Set>, call: &mut VmodCall<'_>, n: i64, select: Select) -> CallResult<BACKEND> {
    let (place, member) = member(call, set, n, select, "backend")?;
    match member.backend {
        Some(backend) => give(backend),
        None => failed(&format!("{place}: Backend {} was not added", member.number)),
    }
}

pub(super) fn integer(set: &Arc<Set>, call: &mut VmodCall<'_>, n: i64, select: Select) -> CallResult<INT> {
    let (place, member) = member(call, set, n, select, "integer")?;
    match member.integer {
        Some(integer) => give(integer),
        None => failed(&format!("{place}: Integer {} was not added", member.number)),
    }
}

pub(super) fn saved(set: &Arc<Set>, call: &mut VmodCall<'_>, which: Which, n: i64, select: Select) -> CallResult<BOOL> {
    let (_, member) = member(call, set, n, select, "saved")?;
    give(match which {
        Which::Regex => member.saved.is_some(),
        Which::Str => member.string.is_some(),
        Which::Be => member.backend.is_some(),
        Which::Int => member.integer.is_some(),
        Which::Sub => false,
    })
}

pub(super) fn hdr_filter(set: &Arc<Set>, call: &mut VmodCall<'_>, id: HeadId, keeps: bool) -> CallResult<VOID> {
    let whole = set.whole()?;
    if let Some((head, _)) = call.ctx.edit(id) {
        head.retain(|field| whole.is_match(Input::new(field.line())) == keeps);
    }
    give(())
}

pub(super) struct Set {
    name: String,
    anchor: Anchor,
    options: Options,
    members: Mutex<Vec<Member>>,
    whole: OnceLock<Regex>,
}

#[derive(Clone)]
struct Member {
    /// Number of the pattern, from 1.
    number: usize,
    text: String,
    string: Option<Text>,
    backend: Option<BackendRef>,
    integer: Option<i64>,
    saved: Option<Arc<Pattern>>,
}

/// The patterns that the last match of a task found, in order.
struct SetMatches(Vec<usize>);

fn last(call: &mut VmodCall<'_>, set: &Arc<Set>) -> Option<Vec<usize>> {
    call.ctx.task().find::<SetMatches>(key(set)).map(|found| found.0.clone())
}

pub(super) fn add(
    set: &Arc<Set>,
    call: &mut VmodCall<'_>,
    pattern: &[u8],
    string: Option<&Text>,
    backend: Option<&BackendRef>,
    save: Option<bool>,
    never_capture: Option<bool>,
    integer: Option<i64>,
) -> CallResult<VOID> {
    let place = format!("{}.add(\"{}\")", set.name, String::from_utf8_lossy(pattern));
    if call.method != Method::Init {
        return failed(&format!("{place} called in a subroutine other than vcl_init"));
    }
    let options = Options { never_capture: never_capture == Some(true), ..set.options };
    let compiled = Pattern::new(pattern, &options);
    let compiled = compiled.or_else(|reason| failed(&format!("{place}: Cannot compile: {reason}")))?;
    let text = options.text(pattern).or_else(|reason| failed(&format!("{place}: Cannot compile: {reason}")))?;
    let mut members = set.members.lock();
    let number = members.len() + 1;
    members.push(Member {
        number,
        text,
        string: string.cloned(),
        backend: backend.cloned(),
        integer,
        saved: (save == Some(true)).then(|| Arc::new(compiled)),
    });
    give(())
}

impl Set {
    fn whole(&self) -> Result<&Regex, VclFailure> {
        if let Some(whole) = self.whole.get() {
            return Ok(whole);
        }
        let made = {
            let members = self.members.lock();
            if members.is_empty() {
                return failed(&format!("{}: no patterns were added", self.name));
            }
            let anchored = |member: &Member| match self.anchor {
                Anchor::Start => format!("\\A(?:{})", member.text),
                Anchor::Both => format!("\\A(?:{})\\z", member.text),
                Anchor::None => member.text.clone(),
            };
            let texts: Vec<String> = members.iter().map(anchored).collect();
            let config = Regex::config()
                .utf8_empty(false)
                .nfa_size_limit(Some(self.options.limit()))
                .match_kind(regex_automata::MatchKind::All)
                .which_captures(regex_automata::nfa::thompson::WhichCaptures::None);
            Regex::builder().configure(config).syntax(self.options.syntax()).build_many(&texts)
        };
        let made =
            made.or_else(|error| failed(&format!("{}: set cannot be compiled: {}", self.name, error_text(&error))))?;
        Ok(self.whole.get_or_init(|| made))
    }

    fn find(&self, subject: &[u8]) -> Result<Vec<usize>, VclFailure> {
        let whole = self.whole()?;
        let mut found = PatternSet::new(whole.pattern_len());
        whole.which_overlapping_matches(&Input::new(subject), &mut found);
        Ok(found.iter().map(|id| id.as_usize()).collect())
    }
}

/// The place of the pattern that `n` and `select` mean.
fn chosen(call: &mut VmodCall<'_>, set: &Arc<Set>, n: i64, select: Select, place: &str) -> Result<usize, VclFailure> {
    let count = set.members.lock().len();
    if n > 0 {
        let at = usize::try_from(n).unwrap_or(usize::MAX) - 1;
        return if at < count { Ok(at) } else { failed(&format!("{place}: set has {count} patterns")) };
    }
    let Some(found) = last(call, set) else { return failed(&format!("{place} called without prior match")) };
    match (select, found.as_slice()) {
        (_, []) => failed(&format!("{place}: previous match was unsuccessful")),
        (_, [only]) => Ok(*only),
        (Select::First, [first, ..]) => Ok(*first),
        (Select::Last, [.., last]) => Ok(*last),
        (Select::Unique, several) => failed(&format!("{place}: {} successful matches", several.len())),
    }
}

/// The pattern that `n` and `select` mean, and how a failure names the call.
fn member(
    call: &mut VmodCall<'_>,
    set: &Arc<Set>,
    n: i64,
    select: Select,
    method: &str,
) -> Result<(String, Member), VclFailure> {
    let short = format!("{}.{method}({n})", set.name);
    let at = chosen(call, set, n, select, &short)?;
    let member = set.members.lock()[at].clone();
    Ok((format!("{}.{method}({n}, {})", set.name, select.word()), member))
}

pub(super) fn rewrite(
    set: &Arc<Set>,
    call: &mut VmodCall<'_>,
    texts: [Option<&Text>; 3],
    (n, select): (i64, Select),
    (method, how): (&str, Rewrite),
) -> CallResult<STRING> {
    let (_, member) = member(call, set, n, select, method)?;
    let name = &set.name;
    let Some(pattern) = member.saved else {
        let shown = |text: Option<&Text>| text.map_or_else(String::new, |text| text.lossy().into_owned());
        let (text, with, number) = (shown(texts[0]), shown(texts[1]), member.number);
        let call = format!("{name}.{method}({text}, {with}, {n}, {})", select.word());
        return failed(&format!("{call}: Pattern {number} was not saved"));
    };
    rewritten(&pattern, texts, &format!("{name}.{method}"), how)
}

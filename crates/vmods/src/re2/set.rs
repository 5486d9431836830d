// SPDX-License-Identifier: BSD-2-Clause
//! Sets of patterns, matched at once by one automaton. It is made when `vcl_init` has ended: nothing can be added afterwards.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use regex_automata::meta::Regex;
use regex_automata::{Input, PatternSet};
use vrt::vmod::{Call, CallResult, Class, Object};
use vrt::{BackendRef, Failure, Method, Text, Value};

use super::pattern::{Options, Pattern, Rewrite, why};
use super::{failed, key, rewritten};
use crate::args::{Args, give};

pub(super) const CLASS: Class = Class {
    name: "set",
    new: |call, name, args| {
        let (anchor, options) = (Args(args).word(0), Options::of(args, 1, false));
        let (name, members) = (name.to_owned(), Mutex::default());
        let set = Arc::new(Set { name, anchor, options, members, whole: OnceLock::new() });
        let made = set.clone();
        call.vcl.complete_later(move || made.whole().map(drop));
        Ok(set)
    },
    methods: &[
        ("add", add),
        ("compile", |call, object, _| {
            if call.method != Method::Init {
                return failed(&format!("{}.compile() called in a subroutine other than vcl_init", this(object).name));
            }
            give(Value::Void)
        }),
        ("match", |call, object, args| {
            let set = this(object);
            let found = match Args(args).text(0) {
                Some(subject) => set.find(subject)?,
                None => Vec::new(),
            };
            let is_match = !found.is_empty();
            *call.ctx.task().keyed(key(object), || Matched(Vec::new())) = Matched(found);
            give(Value::Bool(is_match))
        }),
        ("matched", |call, object, args| {
            let (set, n, count) = (this(object), Args(args).int(0), this(object).members.lock().len());
            let Some(found) = matched(call, object) else {
                return failed(&format!("{}.matched({n}) called without prior match", set.name));
            };
            if n < 1 || n > count as i64 {
                return failed(&format!("n={n} out of range in {}.matched() ({count} patterns)", set.name));
            }
            give(Value::Bool(found.contains(&(n as usize - 1))))
        }),
        ("nmatches", |call, object, _| match matched(call, object) {
            Some(found) => give(Value::Int(found.len() as i64)),
            None => failed(&format!("{}.nmatches() called without prior match", this(object).name)),
        }),
        ("which", |call, object, args| {
            let at = chosen(call, object, 0, Args(args).word(0), &format!("{}.which(0)", this(object).name))?;
            give(Value::Int(at as i64 + 1))
        }),
        ("string", |call, object, args| {
            let (place, member) = member(call, object, args, 0, "string")?;
            match member.string {
                Some(text) => give(Value::String(Some(text))),
                None => failed(&format!("{place}: String {} was not added", member.number)),
            }
        }),
        ("backend", |call, object, args| {
            let (place, member) = member(call, object, args, 0, "backend")?;
            match member.backend {
                Some(backend) => give(Value::Backend(Some(backend))),
                None => failed(&format!("{place}: Backend {} was not added", member.number)),
            }
        }),
        ("integer", |call, object, args| {
            let (place, member) = member(call, object, args, 0, "integer")?;
            match member.integer {
                Some(integer) => give(Value::Int(integer)),
                None => failed(&format!("{place}: Integer {} was not added", member.number)),
            }
        }),
        ("sub", |call, object, args| rewrite(call, object, args, "sub", Rewrite::First)),
        ("suball", |call, object, args| rewrite(call, object, args, "suball", Rewrite::All)),
        ("extract", |call, object, args| rewrite(call, object, args, "extract", Rewrite::Extract)),
        ("saved", |call, object, args| {
            let (_, member) = member(call, object, args, 1, "saved")?;
            give(Value::Bool(match Args(args).word(0) {
                "REGEX" => member.saved.is_some(),
                "STR" => member.string.is_some(),
                "BE" => member.backend.is_some(),
                "INT" => member.integer.is_some(),
                _ => false,
            }))
        }),
        ("hdr_filter", |call, object, args| {
            let (set, id, keeps) = (this(object), Args(args).http(0), Args(args).bool(1));
            let whole = set.whole()?;
            if let Some((head, _)) = call.ctx.edit(id) {
                head.retain(|field| whole.is_match(Input::new(field.line())) == keeps);
            }
            give(Value::Void)
        }),
    ],
};

struct Set {
    name: String,
    anchor: &'static str,
    options: Options,
    members: Mutex<Vec<Member>>,
    whole: OnceLock<Regex>,
}

#[derive(Clone)]
struct Member {
    /// From 1.
    number: usize,
    text: String,
    string: Option<Text>,
    backend: Option<BackendRef>,
    integer: Option<i64>,
    saved: Option<Arc<Pattern>>,
}

/// The patterns that the last match of a task found, in order.
struct Matched(Vec<usize>);

fn this(object: &Object) -> Arc<Set> {
    object.clone().downcast().expect("made by this class")
}

fn matched(call: &mut Call<'_>, object: &Object) -> Option<Vec<usize>> {
    call.ctx.task().find::<Matched>(key(object)).map(|found| found.0.clone())
}

fn add(call: &mut Call<'_>, object: &Object, args: &[Value]) -> CallResult {
    let set = this(object);
    let (args, pattern) = (Args(args), Args(args).bytes_of(0));
    let place = format!("{}.add(\"{}\")", set.name, String::from_utf8_lossy(pattern));
    if call.method != Method::Init {
        return failed(&format!("{place} called in a subroutine other than vcl_init"));
    }
    let flag = |at: usize| args.given(at) && args.bool(at);
    let options = Options { never_capture: flag(4), ..set.options };
    let compiled = Pattern::new(pattern, &options);
    let compiled = compiled.or_else(|why| failed(&format!("{place}: Cannot compile: {why}")))?;
    let text = options.text(pattern).or_else(|why| failed(&format!("{place}: Cannot compile: {why}")))?;
    let mut members = set.members.lock();
    let number = members.len() + 1;
    members.push(Member {
        number,
        text,
        string: args.text(1).cloned(),
        backend: args.backend(2).cloned(),
        integer: args.given(5).then(|| args.int(5)),
        saved: flag(3).then(|| Arc::new(compiled)),
    });
    give(Value::Void)
}

impl Set {
    fn whole(&self) -> Result<&Regex, Failure> {
        if let Some(whole) = self.whole.get() {
            return Ok(whole);
        }
        let made = {
            let members = self.members.lock();
            if members.is_empty() {
                return failed(&format!("{}: no patterns were added", self.name));
            }
            let anchored = |member: &Member| match self.anchor {
                "start" => format!("\\A(?:{})", member.text),
                "both" => format!("\\A(?:{})\\z", member.text),
                _ => member.text.clone(),
            };
            let texts: Vec<String> = members.iter().map(anchored).collect();
            let config = Regex::config()
                .utf8_empty(false)
                .nfa_size_limit(Some(self.options.limit()))
                .match_kind(regex_automata::MatchKind::All)
                .which_captures(regex_automata::nfa::thompson::WhichCaptures::None);
            Regex::builder().configure(config).syntax(self.options.syntax()).build_many(&texts)
        };
        let made = made.or_else(|error| failed(&format!("{}: set cannot be compiled: {}", self.name, why(&error))))?;
        Ok(self.whole.get_or_init(|| made))
    }

    /// The patterns that match, in order.
    fn find(&self, subject: &[u8]) -> Result<Vec<usize>, Failure> {
        let whole = self.whole()?;
        let mut found = PatternSet::new(whole.pattern_len());
        whole.which_overlapping_matches(&Input::new(subject), &mut found);
        Ok(found.iter().map(|id| id.as_usize()).collect())
    }
}

/// The place of the pattern that `n` and `select` mean.
fn chosen(call: &mut Call<'_>, object: &Object, n: i64, select: &str, place: &str) -> Result<usize, Failure> {
    let count = this(object).members.lock().len();
    if n > 0 {
        let at = usize::try_from(n).unwrap_or(usize::MAX) - 1;
        return if at < count { Ok(at) } else { failed(&format!("{place}: set has {count} patterns")) };
    }
    let Some(found) = matched(call, object) else { return failed(&format!("{place} called without prior match")) };
    match (select, found.as_slice()) {
        (_, []) => failed(&format!("{place}: previous match was unsuccessful")),
        (_, [only]) => Ok(*only),
        ("FIRST", [first, ..]) => Ok(*first),
        ("LAST", [.., last]) => Ok(*last),
        (_, several) => failed(&format!("{place}: {} successful matches", several.len())),
    }
}

/// The pattern that the arguments `n` and `select` at `at` mean, and how a failure names the call.
fn member(
    call: &mut Call<'_>,
    object: &Object,
    args: &[Value],
    at: usize,
    method: &str,
) -> Result<(String, Member), Failure> {
    let (set, n, select) = (this(object), Args(args).int(at), Args(args).word(at + 1));
    let short = format!("{}.{method}({n})", set.name);
    let at = chosen(call, object, n, select, &short)?;
    let member = set.members.lock()[at].clone();
    Ok((format!("{}.{method}({n}, {select})", set.name), member))
}

fn rewrite(call: &mut Call<'_>, object: &Object, args: &[Value], method: &str, how: Rewrite) -> CallResult {
    let (_, member) = member(call, object, args, 3, method)?;
    let (name, n, select) = (&this(object).name, Args(args).int(3), Args(args).word(4));
    let Some(pattern) = member.saved else {
        let (text, with) =
            (String::from_utf8_lossy(Args(args).bytes_of(0)), String::from_utf8_lossy(Args(args).bytes_of(1)));
        let number = member.number;
        return failed(&format!("{name}.{method}({text}, {with}, {n}, {select}): Pattern {number} was not saved"));
    };
    rewritten(&pattern, &args[..3], &format!("{name}.{method}"), how)
}

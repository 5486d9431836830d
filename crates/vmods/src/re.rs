// SPDX-License-Identifier: BSD-2-Clause
//! vmod_re of libvmod-re: groups of a match, each object's apart from the others' and from the functions'. An absent subject is
//! matched as the empty text. A pattern made while VCL runs that can't be compiled, and a match that gives up, are VCL_Error
//! records and no match, as there. `limit` and `limit_recursion` say nothing: the engines' time is linear or bounded by
//! the parameter pcre2_match_limit.

use std::ops::Range;
use std::sync::Arc;

use tables::Tag;
use vrt::regex::Regex;
use vrt::vmod::{Call, CallResult, Class, Object, Vmod};
use vrt::{Text, Value};

use crate::args::{Args, fail, give};
use crate::pattern;

/// The highest group that may be asked for.
const MOST_GROUPS: i64 = 10;
/// What the functions' last match is kept under; an object's under its address.
const FUNCTIONS: usize = 0;

/// vmod_re
pub(crate) static VMOD: Vmod = Vmod {
    name: "re",
    functions: &[
        ("match", |call, args| match_dyn(call, FUNCTIONS, &args[1], &args[0])),
        ("match_dyn", |call, args| match_dyn(call, FUNCTIONS, &args[1], &args[0])),
        ("backref", |call, args| backref(call, FUNCTIONS, args)),
        ("version", |_, _| give(Value::text(env!("CARGO_PKG_VERSION")))),
    ],
    classes: &[Class {
        name: "regex",
        new: |_, name, args| {
            for (at, what) in [(3, "forbody"), (4, "asfilter")] {
                if Args(args).bool(at) {
                    return fail(format!("re: {name}: {what} isn't built into Lacquer; see xbody and rers"));
                }
            }
            match Regex::new(Args(args).bytes_of(0)) {
                Ok(regex) => Ok(Arc::new(regex)),
                Err(why) => fail(format!("re: {name}: {} at {}", why.text, why.offset)),
            }
        },
        methods: &[
            ("match", |call, object, args| {
                let regex: Arc<Regex> = object.clone().downcast().expect("made by this class");
                let subject = Args(args).text(0).cloned();
                matched(call, key(object), &regex, subject)
            }),
            ("match_dyn", |call, object, args| match_dyn(call, key(object), &args[0], &args[1])),
            ("backref", |call, object, args| backref(call, key(object), args)),
        ],
    }],
};

/// The last match of a task: its subject, and where its groups are in it.
struct Found {
    subject: Text,
    groups: Vec<Option<Range<usize>>>,
}

#[derive(Default)]
struct Last(Option<Found>);

fn key(object: &Object) -> usize {
    Arc::as_ptr(object).cast::<()>() as usize
}

fn match_dyn(call: &mut Call<'_>, key: usize, pattern: &Value, subject: &Value) -> CallResult {
    let subject = Args(std::slice::from_ref(subject)).text(0).cloned();
    match pattern::compile(call, "re", Args(std::slice::from_ref(pattern)).bytes_of(0)) {
        Ok(regex) => matched(call, key, &regex, subject),
        Err(why) => {
            call.ctx.log().put(Tag::VclError, why.0.as_bytes());
            call.ctx.task().keyed(key, Last::default).0 = None;
            give(Value::Bool(false))
        }
    }
}

fn matched(call: &mut Call<'_>, key: usize, regex: &Regex, subject: Option<Text>) -> CallResult {
    let subject = subject.unwrap_or(Text::EMPTY);
    let mut groups = None;
    let done = regex.each_match(subject.as_bytes(), &mut |found| {
        groups = Some(found.iter().take(MOST_GROUPS as usize + 1).cloned().collect());
        false
    });
    if let Err(why) = done {
        call.ctx.log().putf(Tag::VclError, format_args!("re: {}", why.text()));
    }
    let found = groups.map(|groups| Found { subject, groups });
    let is_match = found.is_some();
    call.ctx.task().keyed(key, Last::default).0 = found;
    give(Value::Bool(is_match))
}

fn backref(call: &mut Call<'_>, key: usize, args: &[Value]) -> CallResult {
    let number = Args(args).int(0);
    if !(0..=MOST_GROUPS).contains(&number) {
        call.ctx.log().putf(Tag::VclError, format_args!("re: backref({number}): groups are 0 to {MOST_GROUPS}"));
        return give(args[1].clone());
    }
    let group = call.ctx.task().find::<Last>(key).and_then(|last| {
        let found = last.0.as_ref()?;
        let at = found.groups.get(number as usize)?.clone()?;
        Some(Text::copy(&found.subject.as_bytes()[at]))
    });
    give(group.map_or_else(|| args[1].clone(), |group| Value::String(Some(group))))
}

// SPDX-License-Identifier: BSD-2-Clause
//! vmod_re2(3) of libvmod-re2: its functions and objects.

mod pattern;
mod set;

use std::sync::Arc;

use vrt::vmod::{Call, CallResult, Class, Object, Vmod};
use vrt::{Failure, Text, Value};

use self::pattern::{Match, Options, Pattern, Rewrite};
use crate::args::{Args, fail, give};

/// vmod_re2(3)
pub(crate) static VMOD: Vmod = Vmod {
    name: "re2",
    functions: &[
        ("match", match_function),
        ("backref", |call, args| {
            let found = last(call, FUNCTION).cloned();
            backref(found, args, "re2")
        }),
        ("namedref", |call, args| {
            let found = last(call, FUNCTION).cloned();
            namedref(found, args, "re2")
        }),
        ("sub", |_, args| rewrite_function(args, "sub", Rewrite::First)),
        ("suball", |_, args| rewrite_function(args, "suball", Rewrite::All)),
        ("extract", |_, args| rewrite_function(args, "extract", Rewrite::Extract)),
        ("cost", |_, args| {
            let pattern = Args(args).bytes_of(0);
            let compiled =
                compile(pattern, &Options::of(args, 1, true), &format!("re2.cost(pattern=\"{}\")", shown(pattern)))?;
            give(Value::Int(compiled.cost()))
        }),
        ("quotemeta", |_, args| {
            let quoted = |text: &Text| Text::from(pattern::quoted(text));
            give(Value::String(Args(args).text(0).map(quoted)))
        }),
        ("version", |_, _| give(Value::text("2.0.0"))),
    ],
    classes: &[
        Class {
            name: "regex",
            new: |_, name, args| {
                let pattern =
                    compile(Args(args).bytes_of(0), &Options::of(args, 1, true), &format!("{name} constructor"))?;
                Ok(Arc::new(Named { name: name.to_owned(), pattern: Arc::new(pattern) }))
            },
            methods: &[
                ("match", |call, object, args| {
                    let named = this(object);
                    let found = Args(args).text(0).and_then(|subject| named.pattern.find(subject));
                    let is_match = found.is_some();
                    remember(call, key(object), named.pattern.clone(), found);
                    give(Value::Bool(is_match))
                }),
                ("backref", |call, object, args| {
                    let found = last(call, key(object)).cloned();
                    backref(found, args, &this(object).name)
                }),
                ("namedref", |call, object, args| {
                    let found = last(call, key(object)).cloned();
                    namedref(found, args, &this(object).name)
                }),
                ("sub", |_, object, args| rewrite_method(object, args, "sub", Rewrite::First)),
                ("suball", |_, object, args| rewrite_method(object, args, "suball", Rewrite::All)),
                ("extract", |_, object, args| rewrite_method(object, args, "extract", Rewrite::Extract)),
                ("cost", |_, object, _| give(Value::Int(this(object).pattern.cost()))),
            ],
        },
        set::CLASS,
    ],
};

/// A `regex` object.
struct Named {
    name: String,
    pattern: Arc<Pattern>,
}

/// The last match of a task; of the functions under [`FUNCTION`], of an object under its address.
#[derive(Clone)]
struct Last {
    pattern: Arc<Pattern>,
    found: Option<Match>,
}

const FUNCTION: usize = 0;

fn this(object: &Object) -> Arc<Named> {
    object.clone().downcast().expect("made by this class")
}

fn key(object: &Object) -> usize {
    Arc::as_ptr(object).cast::<()>() as usize
}

fn last<'a>(call: &'a mut Call<'_>, key: usize) -> Option<&'a Last> {
    call.ctx.task().find::<Last>(key).map(|last| &*last)
}

fn remember(call: &mut Call<'_>, key: usize, pattern: Arc<Pattern>, found: Option<Match>) {
    let kept = call.ctx.task().keyed(key, || Last { pattern: pattern.clone(), found: None });
    *kept = Last { pattern, found };
}

fn shown(text: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(text)
}

fn failed<T>(what: &str) -> Result<T, Failure> {
    fail(format!("vmod re2 failure: {what}"))
}

fn compile(pattern: &[u8], options: &Options, place: &str) -> Result<Pattern, Failure> {
    Pattern::new(pattern, options).or_else(|why| failed(&format!("{place}: Cannot compile: {why}: {}", shown(pattern))))
}

fn match_function(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let (pattern, subject) = (Args(args).bytes_of(0), Args(args).text(1));
    let place = format!("re2.match(pattern=\"{}\", text=\"{}\")", shown(pattern), shown(Args(args).bytes_of(1)));
    let pattern = Arc::new(compile(pattern, &Options::of(args, 2, true), &place)?);
    let found = subject.and_then(|subject| pattern.find(subject));
    let is_match = found.is_some();
    remember(call, FUNCTION, pattern, found);
    give(Value::Bool(is_match))
}

fn backref(last: Option<Last>, args: &[Value], name: &str) -> CallResult {
    let (group, fallback) = (Args(args).int(0), Args(args).text(1));
    let Some(fallback) = fallback else {
        return failed(&format!("{name}.backref(ref={group}): fallback is undefined"));
    };
    let place = format!("{name}.backref(ref={group}, fallback=\"{}\")", fallback.lossy());
    let Some(last) = last else { return failed(&format!("{place}: backref called without prior match")) };
    if last.pattern.never_captures() {
        return failed(&format!("{place}: never_capture is true for object {name}"));
    }
    let most = last.pattern.groups();
    let Some(group) = usize::try_from(group).ok().filter(|group| *group <= most) else {
        return failed(&format!("{place}: backref out of range (max {most})"));
    };
    let found = last.found.as_ref().and_then(|found| found.group(group));
    give(Value::String(Some(found.map_or_else(|| fallback.clone(), Text::copy))))
}

fn namedref(last: Option<Last>, args: &[Value], object: &str) -> CallResult {
    let (name, Some(fallback)) = (Args(args).bytes_of(0), Args(args).text(1)) else {
        return failed(&format!("{object}.namedref(): fallback is undefined"));
    };
    let place = format!("{object}.namedref(name=\"{}\", fallback=\"{}\")", shown(name), fallback.lossy());
    if name.is_empty() {
        return failed(&format!("{place}: name is empty"));
    }
    let Some(last) = last else { return failed(&format!("{place}: namedref called without prior match")) };
    if last.pattern.never_captures() {
        return failed(&format!("{place}: never_capture is true for object {object}"));
    }
    let Some(group) = last.pattern.group_called(name) else { return failed(&format!("{place}: no such named group")) };
    let found = last.found.as_ref().and_then(|found| found.group(group));
    give(Value::String(Some(found.map_or_else(|| fallback.clone(), Text::copy))))
}

fn rewrite_function(args: &[Value], function: &str, how: Rewrite) -> CallResult {
    let pattern = Args(args).bytes_of(0);
    let pattern =
        compile(pattern, &Options::of(args, 4, true), &format!("re2.{function}(pattern=\"{}\")", shown(pattern)))?;
    rewritten(&pattern, &args[1..4], &format!("re2.{function}"), how)
}

fn rewrite_method(object: &Object, args: &[Value], method: &str, how: Rewrite) -> CallResult {
    let named = this(object);
    rewritten(&named.pattern, &args[..3], &format!("{}.{method}", named.name), how)
}

/// `text, rewrite, fallback`
fn rewritten(pattern: &Pattern, args: &[Value], place: &str, how: Rewrite) -> CallResult {
    let args = Args(args);
    let fallback = args.text(2).map_or("<undefined>".into(), |text| text.lossy());
    for (at, what) in ["text", "rewrite", "fallback"].into_iter().enumerate() {
        if args.text(at).is_none() {
            let text = args.text(0).map_or("<undefined>".into(), |text| text.lossy());
            return failed(&format!("{place}(text={text}, fallback=\"{fallback}\"): {what} is undefined"));
        }
    }
    let result = pattern.rewrite(args.bytes_of(0), args.bytes_of(1), how);
    give(match result {
        Some(text) => Value::text(text),
        None => Value::String(args.text(2).cloned()),
    })
}

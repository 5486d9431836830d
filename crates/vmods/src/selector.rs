// SPDX-License-Identifier: BSD-2-Clause
//! vmod_selector(3) of libvmod-selector: sets of texts. A set is made when `vcl_init` has ended: sorted, each element with the longest
//! other that is its prefix, so that a match is one binary search.

use std::sync::{Arc, OnceLock};

use base::Vxid;
use parking_lot::Mutex;
use shm::vsl::Marker;
use tables::Tag;
use vrt::regex::Regex;
use vrt::vmod::{Call, CallResult, Class, Object, ObjectMethod, Vmod};
use vrt::{BackendRef, Failure, Method, Text, Value};

use crate::args::{Args, fail, gave_up, give};

/// vmod_selector(3)
pub(crate) static VMOD: Vmod = Vmod {
    name: "selector",
    functions: &[("version", |_, _| give(Value::text("2.6.0")))],
    classes: &[Class {
        name: "set",
        new: |call, name, args| {
            let set = Arc::new(Set {
                name: name.to_owned(),
                has_case: Args(args).bool(0),
                may_overlap: Args(args).bool(1),
                elements: Mutex::default(),
                made: OnceLock::new(),
            });
            let (made, vcl, log) = (set.clone(), call.vcl.name.clone(), call.ctx.log().ring().clone());
            call.vcl.complete_later(move || {
                if made.make()?.elements.is_empty() {
                    let name = &made.name;
                    let text = format_args!(
                        "VCL {vcl} vmod selector {name} set initialization: no entries were added, nothing to compile, \
                         {name}.match() will always fail"
                    );
                    log.write_onef(Tag::VclError, Vxid::NONE, Marker::None, text);
                }
                Ok(())
            });
            Ok(set)
        },
        methods: METHODS,
    }],
};

const METHODS: &[(&str, ObjectMethod)] = &[
    ("add", add),
    ("compile", |call, object, _| {
        let set = this(object);
        set.only_in_init(call, "compile")?;
        set.make()?;
        give(Value::Void)
    }),
    ("match", |call, object, args| {
        find(call, object, args, "match", |made, text| made.exact(text).into_iter().collect())
    }),
    ("hasprefix", |call, object, args| find(call, object, args, "hasprefix", Made::prefixes)),
    ("nmatches", |call, object, _| match matched(call, object) {
        Some(found) => give(Value::Int(found.all.len() as i64)),
        None => this(object).failed("nmatches() called without prior match"),
    }),
    ("matched", is_matched),
    ("which", |call, object, args| {
        let at = chosen(call, object, "which", 0, Args(args).text(1), Args(args).word(0))?;
        give(Value::Int(at.map_or(0, |at| at as i64 + 1)))
    }),
    ("element", |call, object, args| {
        let at = chosen(call, object, "element", Args(args).int(0), None, Args(args).word(1))?;
        give(Value::String(at.and_then(|at| Some(this(object).made.get()?.elements[at].text.clone()))))
    }),
    ("string", |call, object, args| {
        let found = property(call, object, args, 0, "string", "string", |element| element.string.clone())?;
        give(Value::String(found))
    }),
    ("backend", |call, object, args| {
        let found = property(call, object, args, 0, "backend", "backend", |element| element.backend.clone())?;
        give(Value::Backend(found))
    }),
    ("integer", |call, object, args| {
        let found = property(call, object, args, 0, "integer", "integer", |element| element.integer)?;
        give(Value::Int(found.unwrap_or(0)))
    }),
    ("bool", |call, object, args| {
        let found = property(call, object, args, 0, "bool", "boolean", |element| element.boolean)?;
        give(Value::Bool(found.unwrap_or(false)))
    }),
    ("re_match", |call, object, args| {
        let regex = property(call, object, args, 1, "re_match", "regex", |element| element.regex.clone())?;
        let (Some(regex), Some(subject)) = (regex, Args(args).text(0)) else { return give(Value::Bool(false)) };
        give(Value::Bool(regex.is_match(subject).map_err(gave_up)?))
    }),
    ("sub", |call, object, args| {
        let regex = property(call, object, args, 3, "sub", "regex", |element| element.regex.clone())?;
        let subject = Args(args).text(0).cloned().unwrap_or(Text::EMPTY);
        let Some(regex) = regex else { return give(Value::String(Some(subject))) };
        let mut out = Vec::new();
        let is_changed = regex.sub(&subject, Args(args).bytes_of(1), Args(args).bool(2), &mut out).map_err(gave_up)?;
        give(if is_changed { Value::text(out) } else { Value::String(Some(subject)) })
    }),
];

/// A `set` object.
struct Set {
    name: String,
    has_case: bool,
    may_overlap: bool,
    elements: Mutex<Vec<Element>>,
    made: OnceLock<Made>,
}

#[derive(Clone)]
struct Element {
    text: Text,
    string: Option<Text>,
    regex: Option<Arc<Regex>>,
    backend: Option<BackendRef>,
    integer: Option<i64>,
    boolean: Option<bool>,
}

/// A set that nothing is added to any more.
struct Made {
    has_case: bool,
    elements: Vec<Element>,
    /// In order of their keys.
    keys: Vec<Key>,
}

struct Key {
    text: Text,
    /// Which element it is.
    element: usize,
    /// The longest other key that is a prefix of it.
    prefix: Option<usize>,
}

/// What the last match of a task found.
#[derive(Clone, Default)]
struct Matched {
    /// Elements, the shortest first.
    all: Vec<usize>,
    /// The one that is the whole text.
    exact: Option<usize>,
}

fn this(object: &Object) -> Arc<Set> {
    object.clone().downcast().expect("made by this class")
}

fn key(object: &Object) -> usize {
    Arc::as_ptr(object).cast::<()>() as usize
}

fn matched(call: &mut Call<'_>, object: &Object) -> Option<Matched> {
    call.ctx.task().find::<Matched>(key(object)).cloned()
}

fn add(call: &mut Call<'_>, object: &Object, args: &[Value]) -> CallResult {
    let (set, given) = (this(object), Args(args));
    set.only_in_init(call, "add")?;
    if set.made.get().is_some() {
        return set.failed("add(): set was already compiled");
    }
    let Some(text) = given.text(0) else { return set.failed("add(): string to be added is NULL") };
    set.elements.lock().push(Element {
        text: text.clone(),
        string: given.text(1).cloned(),
        regex: match &args[2] {
            Value::Regex(regex) => Some(regex.clone()),
            _ => None,
        },
        backend: given.backend(3).cloned(),
        integer: given.given(4).then(|| given.int(4)),
        boolean: given.given(5).then(|| given.bool(5)),
    });
    give(Value::Void)
}

fn find(
    call: &mut Call<'_>,
    object: &Object,
    args: &[Value],
    method: &str,
    search: impl FnOnce(&Made, &[u8]) -> Vec<usize>,
) -> CallResult {
    let set = this(object);
    let Some(made) = set.made.get() else { return set.failed(&format!("{method}(): set was not compiled")) };
    if made.elements.is_empty() {
        return set.failed(&format!("{method}(): no entries were added"));
    }
    let Some(subject) = Args(args).text(0) else {
        let text = format_args!("vmod_selector: {}.{method}(): subject string is NULL", set.name);
        call.ctx.log().putf(Tag::Notice, text);
        return give(Value::Bool(false));
    };
    let all = search(made, subject);
    let is_match = !all.is_empty();
    let exact = all.last().copied().filter(|at| made.elements[*at].text.len() == subject.len());
    remember(call, object, Matched { all, exact });
    give(Value::Bool(is_match))
}

fn remember(call: &mut Call<'_>, object: &Object, found: Matched) {
    *call.ctx.task().keyed(key(object), Matched::default) = found;
}

fn is_matched(call: &mut Call<'_>, object: &Object, args: &[Value]) -> CallResult {
    let (set, given) = (this(object), Args(args));
    let (n, select) = (given.int(0), given.word(2));
    let Some(made) = set.made.get() else { return set.failed("matched(): set was not compiled") };
    let count = made.elements.len();
    if n > count as i64 {
        return set.failed(&format!("matched({n}) out of range ({count} members)"));
    }
    let Some(found) = matched(call, object) else { return set.failed("matched() called without prior match") };
    give(Value::Bool(match (n, given.text(1), select) {
        (1.., _, _) => found.all.contains(&(n as usize - 1)),
        (_, Some(element), _) => made.exact(element).is_some_and(|at| found.all.contains(&at)),
        (_, None, "UNIQUE") => found.all.len() == 1,
        (_, None, "EXACT") => found.exact.is_some(),
        (_, None, _) => !found.all.is_empty(),
    }))
}

/// The element that `n`, `element` and `select` mean; none when the last match failed.
fn chosen(
    call: &mut Call<'_>,
    object: &Object,
    method: &str,
    n: i64,
    element: Option<&Text>,
    select: &str,
) -> Result<Option<usize>, Failure> {
    let set = this(object);
    let Some(made) = set.made.get() else { return set.failed(&format!("{method}(): set was not compiled")) };
    if n > 0 {
        let count = made.elements.len();
        return match usize::try_from(n) {
            Ok(n) if n <= count => Ok(Some(n - 1)),
            _ => set.failed(&format!("{method}({n}): set has {count} elements")),
        };
    }
    if let Some(element) = element {
        let Some(at) = made.exact(element) else {
            return set.failed(&format!("{method}(element=\"{}\"): no such element", element.lossy()));
        };
        remember(call, object, Matched { all: vec![at], exact: Some(at) });
        return Ok(Some(at));
    }
    let Some(Matched { all, exact }) = matched(call, object) else {
        return set.failed(&format!("{method}() called without prior match"));
    };
    let count = all.len();
    match select {
        _ if count == 0 => Ok(None),
        "EXACT" if exact.is_none() => set.failed(&format!("{method}(select=EXACT): no element matched exactly")),
        "EXACT" => Ok(exact),
        "UNIQUE" if count > 1 => set.failed(&format!("{method}(select=UNIQUE): {count} elements were matched")),
        "FIRST" => Ok(all.iter().min().copied()),
        "LAST" => Ok(all.iter().max().copied()),
        "LONGEST" => Ok(all.last().copied()),
        _ => Ok(all.first().copied()),
    }
}

/// What belongs to the element that the arguments from `at` on mean.
fn property<T>(
    call: &mut Call<'_>,
    object: &Object,
    args: &[Value],
    at: usize,
    method: &str,
    what: &str,
    get: impl FnOnce(&Element) -> Option<T>,
) -> Result<Option<T>, Failure> {
    let (set, given) = (this(object), Args(args));
    let found = chosen(call, object, method, given.int(at), given.text(at + 1), given.word(at + 2))?;
    let (Some(found), Some(made)) = (found, set.made.get()) else { return Ok(None) };
    match get(&made.elements[found]) {
        Some(value) => Ok(Some(value)),
        None => set.failed(&format!("{method}(): {what} not added for element {}", found + 1)),
    }
}

impl Set {
    fn failed<T>(&self, what: &str) -> Result<T, Failure> {
        fail(format!("vmod selector failure: {}.{what}", self.name))
    }

    fn only_in_init(&self, call: &Call<'_>, method: &str) -> Result<(), Failure> {
        match call.method {
            Method::Init => Ok(()),
            _ => self.failed(&format!("{method}() may only be called in vcl_init")),
        }
    }

    fn make(&self) -> Result<&Made, Failure> {
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        let made = Made::new(std::mem::take(&mut *self.elements.lock()), self.has_case, self.may_overlap);
        match made {
            Ok(made) => Ok(self.made.get_or_init(|| made)),
            Err(why) => fail(format!("vmod selector failure: {} set initialization: {why}", self.name)),
        }
    }
}

impl Made {
    fn new(elements: Vec<Element>, has_case: bool, may_overlap: bool) -> Result<Made, String> {
        let texts = elements.iter().enumerate();
        let key = |(element, e): (usize, &Element)| Key { text: folded(&e.text, has_case), element, prefix: None };
        let mut keys: Vec<Key> = texts.map(key).collect();
        keys.sort_by(|a, b| a.text.as_bytes().cmp(b.text.as_bytes()));
        for at in 1..keys.len() {
            let (before, this) = keys.split_at_mut(at);
            let this = &mut this[0];
            if before[at - 1].text == this.text {
                return Err(format!("\"{}\" added more than once", this.text.lossy()));
            }
            // Who comes before is a prefix, or has all prefixes that there are.
            let mut prefix = Some(at - 1);
            while let Some(other) = prefix.filter(|other| !this.text.starts_with(&before[*other].text)) {
                prefix = before[other].prefix;
            }
            this.prefix = prefix;
            if prefix.is_some() && !may_overlap {
                return Err("allow_overlaps is false but strings with common prefixes were added".to_owned());
            }
        }
        Ok(Made { has_case, elements, keys })
    }

    /// The element that is the text.
    fn exact(&self, text: &[u8]) -> Option<usize> {
        let text = folded(text, self.has_case);
        let at = self.keys.binary_search_by(|key| key.text.as_bytes().cmp(text.as_bytes())).ok()?;
        Some(self.keys[at].element)
    }

    /// The elements that are prefixes of the text, the shortest first.
    fn prefixes(&self, text: &[u8]) -> Vec<usize> {
        let text = folded(text, self.has_case);
        let above = self.keys.partition_point(|key| key.text.as_bytes() <= text.as_bytes());
        let mut found = Vec::new();
        let mut next = above.checked_sub(1);
        while let Some(at) = next {
            if text.starts_with(&self.keys[at].text) {
                found.push(self.keys[at].element);
            }
            next = self.keys[at].prefix;
        }
        found.reverse();
        found
    }
}

fn folded(text: &[u8], has_case: bool) -> Text {
    if has_case { Text::copy(text) } else { Text::from(text.to_ascii_lowercase()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(texts: &[&str], has_case: bool) -> Made {
        let element = |text: &&str| Element {
            text: Text::from(*text),
            string: None,
            regex: None,
            backend: None,
            integer: None,
            boolean: None,
        };
        Made::new(texts.iter().map(element).collect(), has_case, true).expect("no text twice")
    }

    #[test]
    fn prefixes() {
        let set = made(&["/foo/bar/baz/", "/foo/", "/foo/bar/", "/foo/x", "/fop/", "b"], true);
        for (text, wanted) in [
            ("/foo/bar/baz/q", &[1, 2, 0][..]),
            ("/foo/bar/", &[1, 2]),
            ("/foo/bar", &[1]),
            ("/foo/z", &[1]),
            ("/foo/x", &[1, 3]),
            ("/foo", &[]),
            ("/fop/q", &[4]),
            ("", &[]),
            ("bb", &[5]),
            ("c", &[]),
        ] {
            assert_eq!(set.prefixes(text.as_bytes()), wanted, "{text}");
        }
        assert_eq!(made(&["", "a"], true).prefixes(b"ab"), [0, 1]);
    }

    #[test]
    fn case() {
        let set = made(&["Www.Foo.Com"], false);
        assert_eq!((set.exact(b"WWW.foo.com"), set.exact(b"www.foo.co")), (Some(0), None));
        assert_eq!(set.prefixes(b"wWw.FOO.comx"), [0]);
        assert_eq!(made(&["A"], true).exact(b"a"), None);
    }

    proptest::proptest! {
        /// The chain of prefixes finds what a look at each element finds.
        #[test]
        fn as_if_each_were_tried(texts in proptest::collection::btree_set("[ab]{0,4}", 1..12), text in "[abc]{0,6}") {
            let texts: Vec<&str> = texts.iter().map(String::as_str).rev().collect();
            let set = made(&texts, true);
            let mut each: Vec<usize> = (0..texts.len()).filter(|at| text.starts_with(texts[*at])).collect();
            each.sort_by_key(|at| texts[*at].len());
            proptest::prop_assert_eq!(set.prefixes(text.as_bytes()), each);
            proptest::prop_assert_eq!(set.exact(text.as_bytes()), texts.iter().position(|other| *other == text));
        }
    }
}

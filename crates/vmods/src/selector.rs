// SPDX-License-Identifier: BSD-2-Clause
//! vmod_selector(3) of libvmod-selector: sets of texts. A set is made when `vcl_init` has ended: sorted, each element with the longest
//! other that is its prefix, so that a match is one binary search.

use std::sync::{Arc, OnceLock};

use base::Vxid;
use parking_lot::Mutex;
use shm::vsl::Marker;
use tables::Tag;
use vcl_regex::Regex;
use vrt::vmod::{BACKEND, BOOL, CallResult, INT, STRING, VOID, VmodCall, give};
use vrt::{BackendRef, Method, Text, VclFailure};

use vmod_support::args::{fail, gave_up};

vrt::words! {
    enum Select {
        Unique = "UNIQUE", Exact = "EXACT", First = "FIRST", Last = "LAST", Shortest = "SHORTEST", Longest =
        "LONGEST",
    }
}

vrt::vmod! {
    /// Sets of strings, matched as a whole or as prefixes, with associated values
    pub(crate) static VMOD = selector;

    functions {
        /// Returns the version of libvmod-selector with which this module is compatible
        fn version() -> STRING, pure = |_| "2.6.0";
    }

    /// A set. n > 0 selects its n-th element, otherwise element selects one, otherwise select chooses one of those that
    /// this task's last match found. After a failed match the results are unset, 0 or false. Without allow_overlaps no
    /// element may be the prefix of another
    object set(case_sensitive: BOOL = true, allow_overlaps: BOOL = true) -> Arc<Set> = set_new, methods {
        /// Adds an element with its associated values
        fn add(
            _: STRING, string: [STRING], regex: [REGEX], backend: [BACKEND], integer: [INT], bool: [BOOL]
        ) -> VOID, only(Method::Init.set()) = add;

        /// Completes the set; the end of vcl_init does the same
        fn compile() -> VOID, only(Method::Init.set()) = compile;

        /// Returns whether the string is an element
        fn match(_: STRING) -> BOOL, local = set_match;

        /// Returns whether the string begins with an element
        fn hasprefix(_: STRING) -> BOOL, local = hasprefix;

        /// Returns the number of elements that this task's last match found
        fn nmatches() -> INT, local = nmatches;

        /// Returns whether this task's last match found that element
        fn matched(n: INT = 0, element: STRING = null, select: Select = Unique) -> BOOL, local = is_matched;

        /// Returns the element's number
        fn which(select: Select = Unique, element: STRING = null) -> INT, local = which;

        /// Returns the element, as it was added
        fn element(n: INT = 0, select: Select = Unique) -> STRING, local = element;

        /// Returns the element's string
        fn string(n: INT = 0, element: STRING = null, select: Select = Unique) -> STRING, local = string;

        /// Returns the element's backend
        fn backend(n: INT = 0, element: STRING = null, select: Select = Unique) -> BACKEND, local = backend;

        /// Returns the element's integer
        fn integer(n: INT = 0, element: STRING = null, select: Select = Unique) -> INT, local = integer;

        /// Returns the element's bool
        fn bool(n: INT = 0, element: STRING = null, select: Select = Unique) -> BOOL, local = bool;

        /// Returns whether the element's regex matches a string
        fn re_match(subject: STRING, n: INT = 0, element: STRING = null, select: Select = Unique) -> BOOL, local = re_match;

        /// Returns a string with the first match of the element's regex replaced, as regsub; with all, as regsuball
        fn sub(
            str: STRING, sub: STRING, all: BOOL = false, n: INT = 0, element: STRING = null, select: Select =
            Unique
        ) -> STRING, local = sub;
    }

    left_out {
        "selector.set.subroutine" => "`if` and `call` on which()";
        "selector.set.check_call" => "`if` and `call` on which()";
        "selector.set.create_stats" => "nothing: it only makes counters";
    }
}

fn set_new(
    call: &mut VmodCall<'_>,
    name: &str,
    case_sensitive: bool,
    allow_overlaps: bool,
) -> Result<Arc<Set>, VclFailure> {
    let set = Arc::new(Set {
        name: name.to_owned(),
        has_case: case_sensitive,
        may_overlap: allow_overlaps,
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
}

fn compile(set: &Arc<Set>, call: &mut VmodCall<'_>) -> CallResult<VOID> {
    set.only_in_init(call, "compile")?;
    set.make()?;
    give(())
}

fn set_match(this: &Arc<Set>, call: &mut VmodCall<'_>, text: Option<&Text>) -> CallResult<BOOL> {
    find(call, this, text, "match", |made, text| made.exact(text).into_iter().collect())
}

fn hasprefix(this: &Arc<Set>, call: &mut VmodCall<'_>, text: Option<&Text>) -> CallResult<BOOL> {
    find(call, this, text, "hasprefix", FrozenSet::prefixes)
}

fn nmatches(this: &Arc<Set>, call: &mut VmodCall<'_>) -> CallResult<INT> {
    match matched(call, this) {
        Some(found) => give(found.all.len() as i64),
        None => this.failed("nmatches() called without prior match"),
    }
}

fn which(this: &Arc<Set>, call: &mut VmodCall<'_>, select: Select, element: Option<&Text>) -> CallResult<INT> {
    let at = chosen(call, this, "which", 0, element, select)?;
    give(at.map_or(0, |at| at as i64 + 1))
}

fn element(this: &Arc<Set>, call: &mut VmodCall<'_>, n: i64, select: Select) -> CallResult<STRING> {
    let at = chosen(call, this, "element", n, None, select)?;
    give(at.and_then(|at| Some(this.made.get()?.elements[at].text.clone())))
}

fn string(
    this: &Arc<Set>,
    call: &mut VmodCall<'_>,
    n: i64,
    element: Option<&Text>,
    select: Select,
) -> CallResult<STRING> {
    let found = property(call, this, (n, element, select), "string", "string", |element| element.string.clone())?;
    give(found)
}

fn backend(
    this: &Arc<Set>,
    call: &mut VmodCall<'_>,
    n: i64,
    element: Option<&Text>,
    select: Select,
) -> CallResult<BACKEND> {
    let found = property(call, this, (n, element, select), "backend", "backend", |element| element.backend.clone())?;
    give(found)
}

fn integer(
    this: &Arc<Set>,
    call: &mut VmodCall<'_>,
    n: i64,
    element: Option<&Text>,
    select: Select,
) -> CallResult<INT> {
    let found = property(call, this, (n, element, select), "integer", "integer", |element| element.integer)?;
    give(found.unwrap_or(0))
}

fn bool(this: &Arc<Set>, call: &mut VmodCall<'_>, n: i64, element: Option<&Text>, select: Select) -> CallResult<BOOL> {
    let found = property(call, this, (n, element, select), "bool", "boolean", |element| element.boolean)?;
    give(found.unwrap_or(false))
}

fn re_match(
    this: &Arc<Set>,
    call: &mut VmodCall<'_>,
    subject: Option<&Text>,
    n: i64,
    element: Option<&Text>,
    select: Select,
) -> CallResult<BOOL> {
    let regex = property(call, this, (n, element, select), "re_match", "regex", |element| element.regex.clone())?;
    let (Some(regex), Some(subject)) = (regex, subject) else { return give(false) };
    give(regex.is_match(subject).map_err(gave_up)?)
}

fn sub(
    this: &Arc<Set>,
    call: &mut VmodCall<'_>,
    str: Option<&Text>,
    sub: &[u8],
    all: bool,
    n: i64,
    element: Option<&Text>,
    select: Select,
) -> CallResult<STRING> {
    let regex = property(call, this, (n, element, select), "sub", "regex", |element| element.regex.clone())?;
    let subject = str.cloned().unwrap_or(Text::EMPTY);
    let Some(regex) = regex else { return give(subject) };
    let mut out = Vec::new();
    let is_changed = regex.sub(&subject, sub, all, &mut out).map_err(gave_up)?;
    give(if is_changed { Text::from(out) } else { subject })
}

struct Set {
    name: String,
    has_case: bool,
    may_overlap: bool,
    elements: Mutex<Vec<Element>>,
    made: OnceLock<FrozenSet>,
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

struct FrozenSet {
    has_case: bool,
    elements: Vec<Element>,
    keys: Vec<Key>,
}

struct Key {
    text: Text,
    /// Number of the element that the key belongs to.
    element: usize,
    /// The longest other key that is a prefix of it.
    prefix: Option<usize>,
}

#[derive(Clone, Default)]
struct LastMatch {
    /// Elements, the shortest first.
    all: Vec<usize>,
    exact: Option<usize>,
}

fn key(set: &Arc<Set>) -> usize {
    std::ptr::from_ref(set) as usize
}

fn matched(call: &mut VmodCall<'_>, set: &Arc<Set>) -> Option<LastMatch> {
    call.ctx.task().find::<LastMatch>(key(set)).cloned()
}

fn add(
    set: &Arc<Set>,
    call: &mut VmodCall<'_>,
    text: Option<&Text>,
    string: Option<&Text>,
    regex: Option<&Arc<Regex>>,
    backend: Option<&BackendRef>,
    integer: Option<i64>,
    boolean: Option<bool>,
) -> CallResult<VOID> {
    set.only_in_init(call, "add")?;
    if set.made.get().is_some() {
        return set.failed("add(): set was already compiled");
    }
    let Some(text) = text else { return set.failed("add(): string to be added is NULL") };
    set.elements.lock().push(Element {
        text: text.clone(),
        string: string.cloned(),
        regex: regex.cloned(),
        backend: backend.cloned(),
        integer,
        boolean,
    });
    give(())
}

fn find(
    call: &mut VmodCall<'_>,
    set: &Arc<Set>,
    subject: Option<&Text>,
    method: &str,
    search: impl FnOnce(&FrozenSet, &[u8]) -> Vec<usize>,
) -> CallResult<BOOL> {
    let Some(made) = set.made.get() else { return set.failed(&format!("{method}(): set was not compiled")) };
    if made.elements.is_empty() {
        return set.failed(&format!("{method}(): no entries were added"));
    }
    let Some(subject) = subject else {
        let text = format_args!("vmod_selector: {}.{method}(): subject string is NULL", set.name);
        call.ctx.log().putf(Tag::Notice, text);
        return give(false);
    };
    let all = search(made, subject);
    let is_match = !all.is_empty();
    let exact = all.last().copied().filter(|at| made.elements[*at].text.len() == subject.len());
    remember(call, set, LastMatch { all, exact });
    give(is_match)
}

fn remember(call: &mut VmodCall<'_>, set: &Arc<Set>, found: LastMatch) {
    *call.ctx.task().keyed(key(set), LastMatch::default) = found;
}

fn is_matched(
    set: &Arc<Set>,
    call: &mut VmodCall<'_>,
    n: i64,
    element: Option<&Text>,
    select: Select,
) -> CallResult<BOOL> {
    let Some(made) = set.made.get() else { return set.failed("matched(): set was not compiled") };
    let count = made.elements.len();
    if n > count as i64 {
        return set.failed(&format!("matched({n}) out of range ({count} members)"));
    }
    let Some(found) = matched(call, set) else { return set.failed("matched() called without prior match") };
    give(match (n, element, select) {
        (1.., _, _) => found.all.contains(&(n as usize - 1)),
        (_, Some(element), _) => made.exact(element).is_some_and(|at| found.all.contains(&at)),
        (_, None, Select::Unique) => found.all.len() == 1,
        (_, None, Select::Exact) => found.exact.is_some(),
        (_, None, Select::First | Select::Last | Select::Shortest | Select::Longest) => !found.all.is_empty(),
    })
}

/// The element that `n`, `element` and `select` mean; none when the last match failed.
fn chosen(
    call: &mut VmodCall<'_>,
    set: &Arc<Set>,
    method: &str,
    n: i64,
    element: Option<&Text>,
    select: Select,
) -> Result<Option<usize>, VclFailure> {
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
        remember(call, set, LastMatch { all: vec![at], exact: Some(at) });
        return Ok(Some(at));
    }
    let Some(LastMatch { all, exact }) = matched(call, set) else {
        return set.failed(&format!("{method}() called without prior match"));
    };
    let count = all.len();
    match select {
        _ if count == 0 => Ok(None),
        Select::Exact if exact.is_none() => set.failed(&format!("{method}(select=EXACT): no element matched exactly")),
        Select::Exact => Ok(exact),
        Select::Unique if count > 1 => set.failed(&format!("{method}(select=UNIQUE): {count} elements were matched")),
        Select::First => Ok(all.iter().min().copied()),
        Select::Last => Ok(all.iter().max().copied()),
        Select::Longest => Ok(all.last().copied()),
        Select::Unique | Select::Shortest => Ok(all.first().copied()),
    }
}

/// A property of the element that the arguments from `at` on mean.
fn property<T>(
    call: &mut VmodCall<'_>,
    set: &Arc<Set>,
    (n, element, select): (i64, Option<&Text>, Select),
    method: &str,
    what: &str,
    get: impl FnOnce(&Element) -> Option<T>,
) -> Result<Option<T>, VclFailure> {
    let found = chosen(call, set, method, n, element, select)?;
    let (Some(found), Some(made)) = (found, set.made.get()) else { return Ok(None) };
    match get(&made.elements[found]) {
        Some(value) => Ok(Some(value)),
        None => set.failed(&format!("{method}(): {what} not added for element {}", found + 1)),
    }
}

impl Set {
    fn failed<T>(&self, what: &str) -> Result<T, VclFailure> {
        fail(format!("vmod selector failure: {}.{what}", self.name))
    }

    fn only_in_init(&self, call: &VmodCall<'_>, method: &str) -> Result<(), VclFailure> {
        match call.method {
            Method::Init => Ok(()),
            _ => self.failed(&format!("{method}() may only be called in vcl_init")),
        }
    }

    fn make(&self) -> Result<&FrozenSet, VclFailure> {
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        let made = FrozenSet::new(std::mem::take(&mut *self.elements.lock()), self.has_case, self.may_overlap);
        match made {
            Ok(made) => Ok(self.made.get_or_init(|| made)),
            Err(reason) => fail(format!("vmod selector failure: {} set initialization: {reason}", self.name)),
        }
    }
}

impl FrozenSet {
    fn new(elements: Vec<Element>, has_case: bool, may_overlap: bool) -> Result<FrozenSet, String> {
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
        Ok(FrozenSet { has_case, elements, keys })
    }

    fn exact(&self, text: &[u8]) -> Option<usize> {
        let text = folded(text, self.has_case);
        let at = self.keys.binary_search_by(|key| key.text.as_bytes().cmp(text.as_bytes())).ok()?;
        Some(self.keys[at].element)
    }

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

    fn made(texts: &[&str], has_case: bool) -> FrozenSet {
        let element = |text: &&str| Element {
            text: Text::from(*text),
            string: None,
            regex: None,
            backend: None,
            integer: None,
            boolean: None,
        };
        FrozenSet::new(texts.iter().map(element).collect(), has_case, true).expect("no text twice")
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

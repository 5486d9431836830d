// SPDX-License-Identifier: BSD-2-Clause
//! vmod_re2(3) of libvmod-re2: its functions and objects.

mod pattern;

use std::sync::Arc;

use vrt::vmod::{BOOL, CallResult, STRING, VmodCall, give};
use vrt::{Method, Text, VclFailure};

use self::pattern::{Match, Options, Pattern, Rewrite};
use self::set::{Set, SetArgs};
use vmod_support::args::fail;

vrt::words! {
    pub(super) enum Anchor { None = "none", Start = "start", Both = "both" }
}

vrt::words! {
    pub(super) enum Select { First = "FIRST", Last = "LAST", Unique = "UNIQUE" }
}

vrt::words! {
    pub(super) enum Which { Regex = "REGEX", Str = "STR", Be = "BE", Int = "INT", Sub = "SUB" }
}

/// A list of arguments that ends with the options of a pattern; those of sets have no `never_capture`.
macro_rules! with_options {
    ($list:ident { $($before:tt)* }) => {
        with_options! {
            $list [<'a>] [<'_>] { $($before)* } [never_capture: BOOL as bool = false,] args args.never_capture
        }
    };
    (
        $list:ident [$($life:tt)*] [$($elided:tt)*]
        { $($before:tt)* } [$($captures:tt)*] $args:ident $never_capture:expr
    ) => {
        vrt::vmod_args! {
            pub(in crate::re2) struct $list $($life)* {
                $($before)*
                utf8: BOOL as bool = false,
                posix_syntax: BOOL as bool = false,
                longest_match: BOOL as bool = false,
                max_mem: INT as i64 = 8388608,
                literal: BOOL as bool = false,
                never_nl: BOOL as bool = false,
                dot_nl: BOOL as bool = false,
                $($captures)*
                case_sensitive: BOOL as bool = true,
                perl_classes: BOOL as bool = false,
                word_boundary: BOOL as bool = false,
                one_line: BOOL as bool = false,
            }
        }

        impl $list $($elided)* {
            pub(in crate::re2) fn options(&self) -> Options {
                let $args = self;
                Options {
                    utf8: self.utf8,
                    posix: self.posix_syntax,
                    longest: self.longest_match,
                    max_mem: self.max_mem,
                    literal: self.literal,
                    never_nl: self.never_nl,
                    dot_nl: self.dot_nl,
                    never_capture: $never_capture,
                    case_sensitive: self.case_sensitive,
                    perl_classes: self.perl_classes,
                    word_boundary: self.word_boundary,
                    one_line: self.one_line,
                }
            }
        }
    };
}

/// Those of a function that rewrites: they differ in the fallback.
macro_rules! rewriting {
    ($($list:ident or $fallback:literal;)*) => { $(
        with_options! { $list {
            pattern: STRING as &'a [u8],
            text: STRING as Option<&'a Text>,
            rewrite: STRING as Option<&'a Text>,
            fallback: STRING as Option<&'a Text> = $fallback,
        } }

        impl<'a> $list<'a> {
            fn parts(&self) -> (&'a [u8], [Option<&'a Text>; 3], Options) {
                (self.pattern, [self.text, self.rewrite, self.fallback], self.options())
            }
        }
    )* };
}

with_options! { MatchArgs { pattern: STRING as &'a [u8], subject: STRING as Option<&'a Text>, } }
with_options! { PatternArgs { pattern: STRING as &'a [u8], } }
rewriting! {
    SubArgs or "**SUB FUNCTION FAILED**";
    SuballArgs or "**SUBALL FUNCTION FAILED**";
    ExtractArgs or "**EXTRACT FUNCTION FAILED**";
}

mod set;

vrt::vmod! {
    /// Regular expressions in RE2's syntax, and sets of them that are matched together. Matching takes linear time
    pub(crate) static VMOD = re2;

    functions {
        /// Returns whether a pattern matches, which is compiled for this call
        fn match(..MatchArgs<'_>) -> BOOL, local = match_function;

        /// Returns a group of this task's last match; fallback if the group wasn't part of it. Fails if there was no match
        fn backref(ref: INT, fallback: STRING = "**BACKREF FUNCTION FAILED**") -> STRING, local = |call: &mut VmodCall<'_>, group: i64, fallback: Option<&Text>| backref(last(call, FUNCTION).cloned(), group, fallback, "re2");

        /// Returns a named group of this task's last match, as backref
        fn namedref(name: STRING, fallback: STRING = "**NAMEDREF FUNCTION FAILED**") -> STRING, local = |call: &mut VmodCall<'_>, name: &[u8], fallback: Option<&Text>| namedref(last(call, FUNCTION).cloned(), name, fallback, "re2");

        /// Returns the string with the first match replaced; fallback if there is none
        fn sub(..SubArgs<'_>) -> STRING, local = |_, args: SubArgs<'_>| rewrite_function(&args.parts(), "sub", Rewrite::First);

        /// Returns the string with all matches replaced; fallback if there is none
        fn suball(..SuballArgs<'_>) -> STRING, local = |_, args: SuballArgs<'_>| rewrite_function(&args.parts(), "suball", Rewrite::All);

        /// Returns rewrite with the groups of the first match; fallback if there is none
        fn extract(..ExtractArgs<'_>) -> STRING, local = |_, args: ExtractArgs<'_>| rewrite_function(&args.parts(), "extract", Rewrite::Extract);

        /// Returns a measure of the pattern's size
        fn cost(..PatternArgs<'_>) -> INT, local = cost;

        /// Returns the string as a pattern that matches it literally
        fn quotemeta(_: STRING) -> STRING, pure = |_, text: Option<&Text>| text.map(|text| pattern::quoted(text));

        /// Returns the version of libvmod-re2 with which this module is compatible
        fn version() -> STRING, pure = |_| "2.0.0";
    }

    /// A regular expression. longest_match and never_nl aren't supported
    object regex(..PatternArgs<'_>) -> RegexObject = new_regex, methods {
        /// Returns whether it matches
        fn match(_: STRING) -> BOOL, local = RegexObject::is_match;

        /// Returns a group of this task's last match; fallback if the group wasn't part of it. Fails if there was no match
        fn backref(ref: INT, fallback: STRING = "**BACKREF METHOD FAILED**") -> STRING, local = RegexObject::backref;

        /// Returns a named group of this task's last match, as backref
        fn namedref(name: STRING, fallback: STRING = "**NAMEDREF METHOD FAILED**") -> STRING, local = RegexObject::namedref;

        /// Returns the string with the first match replaced; fallback if there is none
        fn sub(text: STRING, rewrite: STRING, fallback: STRING = "**SUB METHOD FAILED**") -> STRING, local = |this: &RegexObject, _, text: Option<&Text>, rewrite: Option<&Text>, fallback: Option<&Text>|
            this.rewrite([text, rewrite, fallback], "sub", Rewrite::First);

        /// Returns the string with all matches replaced; fallback if there is none
        fn suball(
            text: STRING, rewrite: STRING, fallback: STRING = "**SUBALL METHOD FAILED**"
        ) -> STRING, local = |this: &RegexObject, _, text: Option<&Text>, rewrite: Option<&Text>, fallback: Option<&Text>|
            this.rewrite([text, rewrite, fallback], "suball", Rewrite::All);

        /// Returns rewrite with the groups of the first match; fallback if there is none
        fn extract(text: STRING, rewrite: STRING, fallback: STRING = "**EXTRACT METHOD FAILED**") -> STRING, local
            = |this: &RegexObject, _, text: Option<&Text>, rewrite: Option<&Text>, fallback: Option<&Text>|
            this.rewrite([text, rewrite, fallback], "extract", Rewrite::Extract);

        /// Returns a measure of the pattern's size
        fn cost() -> INT, local = |this: &RegexObject, _| this.pattern.cost();
    }

    /// Patterns that are matched together; a match reports which of them. n > 0 selects the n-th pattern, otherwise select
    /// chooses one of those that matched
    object set(..SetArgs) -> Arc<Set> = set::new, methods {
        /// Adds a pattern with its associated values; save is required for sub, suball and extract
        fn add(
            _: STRING, string: [STRING], backend: [BACKEND], save: [BOOL], never_capture: [BOOL], integer: [INT]
        ) -> VOID, only(Method::Init.set()) = set::add;

        /// Has no effect: sets are compiled when they are complete
        fn compile() -> VOID, only(Method::Init.set()) = set::compile;

        /// Returns whether any pattern matches
        fn match(_: STRING) -> BOOL, local = set::is_match;

        /// Returns whether the n-th pattern matched
        fn matched(_: INT) -> BOOL, local = set::matched;

        /// Returns the number of patterns that matched
        fn nmatches() -> INT, local = set::nmatches;

        /// Returns the number of a pattern that matched
        fn which(select: Select = Unique) -> INT, local = set::which;

        /// Returns the pattern's string
        fn string(n: INT = 0, select: Select = Unique) -> STRING, local = set::string;

        /// Returns the pattern's backend
        fn backend(n: INT = 0, select: Select = Unique) -> BACKEND, local = set::backend;

        /// Returns the pattern's integer
        fn integer(n: INT = 0, select: Select = Unique) -> INT, local = set::integer;

        /// Returns the string with the first match replaced; fallback if there is none
        fn sub(
            text: STRING, rewrite: STRING, fallback: STRING = "**SUB METHOD FAILED**", n: INT = 0, select:
            Select = Unique
        ) -> STRING, local = |set: &Arc<Set>, call: &mut VmodCall<'_>, text: Option<&Text>, rewrite: Option<&Text>, fallback: Option<&Text>, n: i64, select: Select|
            set::rewrite(set, call, [text, rewrite, fallback], (n, select), ("sub", Rewrite::First));

        /// Returns the string with all matches replaced; fallback if there is none
        fn suball(
            text: STRING, rewrite: STRING, fallback: STRING = "**SUBALL METHOD FAILED**", n: INT = 0, select:
            Select = Unique
        ) -> STRING, local = |set: &Arc<Set>, call: &mut VmodCall<'_>, text: Option<&Text>, rewrite: Option<&Text>, fallback: Option<&Text>, n: i64, select: Select|
            set::rewrite(set, call, [text, rewrite, fallback], (n, select), ("suball", Rewrite::All));

        /// Returns rewrite with the groups of the first match; fallback if there is none
        fn extract(
            text: STRING, rewrite: STRING, fallback: STRING = "**EXTRACT METHOD FAILED**", n: INT = 0, select:
            Select = Unique
        ) -> STRING, local = |set: &Arc<Set>, call: &mut VmodCall<'_>, text: Option<&Text>, rewrite: Option<&Text>, fallback: Option<&Text>, n: i64, select: Select|
            set::rewrite(set, call, [text, rewrite, fallback], (n, select), ("extract", Rewrite::Extract));

        /// Returns whether the pattern has such an associated value
        fn saved(which: Which = Regex, n: INT = 0, select: Select = Unique) -> BOOL, local = set::saved;

        /// Keeps only the header lines that match, or removes them
        fn hdr_filter(_: HTTP, whitelist: BOOL = true) -> VOID, local = set::hdr_filter;
    }
}

struct RegexObject {
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

fn key<T>(object: &T) -> usize {
    std::ptr::from_ref(object) as usize
}

fn new_regex(_: &mut VmodCall<'_>, name: &str, args: PatternArgs<'_>) -> Result<RegexObject, VclFailure> {
    let pattern = compile(args.pattern, &args.options(), &format!("{name} constructor"))?;
    Ok(RegexObject { name: name.to_owned(), pattern: Arc::new(pattern) })
}

impl RegexObject {
    fn is_match(&self, call: &mut VmodCall<'_>, subject: Option<&Text>) -> bool {
        let found = subject.and_then(|subject| self.pattern.find(subject));
        let is_match = found.is_some();
        remember(call, key(self), self.pattern.clone(), found);
        is_match
    }

    fn backref(&self, call: &mut VmodCall<'_>, group: i64, fallback: Option<&Text>) -> CallResult<STRING> {
        backref(last(call, key(self)).cloned(), group, fallback, &self.name)
    }

    fn namedref(&self, call: &mut VmodCall<'_>, name: &[u8], fallback: Option<&Text>) -> CallResult<STRING> {
        namedref(last(call, key(self)).cloned(), name, fallback, &self.name)
    }

    fn rewrite(&self, texts: [Option<&Text>; 3], method: &str, how: Rewrite) -> CallResult<STRING> {
        rewritten(&self.pattern, texts, &format!("{}.{method}", self.name), how)
    }
}

fn cost(_: &mut VmodCall<'_>, args: PatternArgs<'_>) -> Result<i64, VclFailure> {
    let place = format!("re2.cost(pattern=\"{}\")", shown(args.pattern));
    Ok(compile(args.pattern, &args.options(), &place)?.cost())
}

fn last<'a>(call: &'a mut VmodCall<'_>, key: usize) -> Option<&'a Last> {
    call.ctx.task().find::<Last>(key).map(|last| &*last)
}

fn remember(call: &mut VmodCall<'_>, key: usize, pattern: Arc<Pattern>, found: Option<Match>) {
    let kept = call.ctx.task().keyed(key, || Last { pattern: pattern.clone(), found: None });
    *kept = Last { pattern, found };
}

fn shown(text: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(text)
}

fn failed<T>(what: &str) -> Result<T, VclFailure> {
    fail(format!("vmod re2 failure: {what}"))
}

fn compile(pattern: &[u8], options: &Options, place: &str) -> Result<Pattern, VclFailure> {
    Pattern::new(pattern, options)
        .or_else(|reason| failed(&format!("{place}: Cannot compile: {reason}: {}", shown(pattern))))
}

fn match_function(call: &mut VmodCall<'_>, args: MatchArgs<'_>) -> CallResult<BOOL> {
    let subject = args.subject.map_or(&b""[..], |subject| subject.as_bytes());
    let place = format!("re2.match(pattern=\"{}\", text=\"{}\")", shown(args.pattern), shown(subject));
    let pattern = Arc::new(compile(args.pattern, &args.options(), &place)?);
    let found = args.subject.and_then(|subject| pattern.find(subject));
    let is_match = found.is_some();
    remember(call, FUNCTION, pattern, found);
    give(is_match)
}

fn backref(last: Option<Last>, group: i64, fallback: Option<&Text>, name: &str) -> CallResult<STRING> {
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
    give(found.map_or_else(|| fallback.clone(), Text::copy))
}

fn namedref(last: Option<Last>, name: &[u8], fallback: Option<&Text>, object: &str) -> CallResult<STRING> {
    let Some(fallback) = fallback else {
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
    give(Some(found.map_or_else(|| fallback.clone(), Text::copy)))
}

fn rewrite_function(
    (pattern, texts, options): &(&[u8], [Option<&Text>; 3], Options),
    function: &str,
    how: Rewrite,
) -> CallResult<STRING> {
    let pattern = compile(pattern, options, &format!("re2.{function}(pattern=\"{}\")", shown(pattern)))?;
    rewritten(&pattern, *texts, &format!("re2.{function}"), how)
}

fn rewritten(pattern: &Pattern, texts: [Option<&Text>; 3], place: &str, how: Rewrite) -> CallResult<STRING> {
    let known = |text: Option<&Text>| text.map_or("<undefined>".to_owned(), |text| text.lossy().into_owned());
    let [Some(text), Some(rewrite), Some(fallback)] = texts else {
        let what = ["text", "rewrite", "fallback"].into_iter().zip(texts).find(|(_, text)| text.is_none());
        let (text, fallback, what) = (known(texts[0]), known(texts[2]), what.map_or("", |(what, _)| what));
        return failed(&format!("{place}(text={text}, fallback=\"{fallback}\"): {what} is undefined"));
    };
    match pattern.rewrite(text, rewrite, how) {
        Some(text) => give(Text::from(text)),
        None => give(fallback.clone()),
    }
}

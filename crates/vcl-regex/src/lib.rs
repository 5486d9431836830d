// SPDX-License-Identifier: BSD-2-Clause
//! Regular expressions as VCL authors write them (PCRE2 syntax on bytes), run by engines whose time is linear; patterns
//! that need look-around, back-references, atomic groups or `\K` run on a backtracker with a limit, and plain text with
//! or without anchors on no engine at all.

mod backtrack;
mod class;
mod emit;
mod linear;
mod literal;
mod never;
mod node;
mod parse;
mod sub;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use backtrack::{Backtrack, Groups};
use emit::{Dialect, emit};
use linear::{BuildError, Linear};
use literal::Literal;
use node::Node;
pub use sub::Substitution;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegexError {
    /// Byte in the pattern where it was noticed.
    pub offset: usize,
    /// The reason in PCRE2's words.
    pub text: &'static str,
}

/// Alternatives that make a list a long one.
const LONG_LIST: usize = 16;

/// Says in one go whether any of several patterns is found.
#[derive(Debug)]
pub struct AnyOf(Linear);

impl AnyOf {
    /// `None`: they can't be run as one.
    pub fn new(regexes: &[&Regex]) -> Option<AnyOf> {
        let text = |regex: &&Regex| match regex.test {
            Test::Linear(_) if !regex.heeds_last_newline => {
                Some(format!("(?:{})", emit(&literal::for_test(&regex.node), Dialect::Linear, false)))
            }
            _ => None,
        };
        let texts: Vec<String> = regexes.iter().map(text).collect::<Option<_>>()?;
        Linear::new(&texts.join("|")).ok().map(AnyOf)
    }

    pub fn is_match(&self, subject: &[u8]) -> bool {
        self.0.is_match(subject)
    }
}

pub type MatchGroup = Option<Range<usize>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchError {
    /// More steps than the param `pcre2_match_limit` allows.
    Limit,
}

impl MatchError {
    /// PCRE2's number: what `regsub: Regexp matching returned N` shows.
    pub fn code(self) -> i32 {
        -47
    }

    /// PCRE2's words: what `Regexp matching failed: ...` shows.
    pub fn text(self) -> &'static str {
        "match limit exceeded"
    }
}

/// Sets the step limit of backtracking patterns, for the whole process: the param `pcre2_match_limit`.
pub fn set_match_limit(limit: u32) {
    backtrack::LIMIT.store(limit, Ordering::Relaxed);
}

pub fn matches_given_up() -> u64 {
    backtrack::GIVEN_UP.load(Ordering::Relaxed)
}

/// Compiles a pattern for the VCL compiler alone (`vcl::Options::check_regex`). Returns the part that can never match, as a warning.
///
/// # Errors
/// PCRE2's message if the pattern is invalid.
pub fn check(pattern: &[u8]) -> Result<Option<&'static str>, String> {
    Regex::new(pattern).map(|regex| regex.never()).map_err(|error| error.text.to_owned())
}

/// A compiled pattern. Matching takes no lock and allocates nothing once warm (backtracking patterns excepted).
#[derive(Debug)]
pub struct Regex {
    pattern: Box<[u8]>,
    node: Node,
    /// The engine that answers `~`.
    test: Test,
    /// Finds places and groups; made when first needed, as most patterns are only tested.
    full: OnceLock<Option<Linear>>,
    /// For subjects that end in a newline, when that matters to `$` or `^`.
    exact: OnceLock<Option<Backtrack>>,
    /// The same pattern where a match of no bytes doesn't count.
    not_empty: OnceLock<Option<Backtrack>>,
    heeds_last_newline: bool,
    may_be_empty: bool,
    groups: u32,
}

#[derive(Debug)]
enum Test {
    Literal(Literal),
    Linear(Linear),
    Backtrack(Backtrack),
}

impl Regex {
    /// Compiles a pattern; time and memory are bounded.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn new(pattern: &[u8]) -> Result<Regex, RegexError> {
        let parsed = parse::parse(pattern)?;
        let node = parsed.node;
        let too_large = RegexError { offset: pattern.len(), text: "regular expression is too large" };
        let test = if let Some(literal) = Literal::from_node(&node) {
            Test::Literal(literal)
        } else if node.needs_backtracking() {
            let text = emit(&node, Dialect::Backtracking, true);
            Test::Backtrack(Backtrack::new(text, false).ok_or(too_large)?)
        } else {
            let text = emit(&literal::for_test(&node), Dialect::Linear, false);
            Test::Linear(Linear::new(&text).map_err(|error| match error {
                BuildError::TooLarge => too_large,
                BuildError::Refused => RegexError { offset: 0, text: "this pattern isn't supported by Lacquer" },
            })?)
        };
        Ok(Regex {
            pattern: pattern.into(),
            heeds_last_newline: node.cares_for_last_newline(),
            may_be_empty: node.may_be_empty(),
            groups: parsed.groups,
            node,
            test,
            full: OnceLock::new(),
            exact: OnceLock::new(),
            not_empty: OnceLock::new(),
        })
    }

    pub fn pattern(&self) -> &[u8] {
        &self.pattern
    }

    /// The part that can never match, said as a warning.
    pub fn never(&self) -> Option<&'static str> {
        never::never(&self.node)
    }

    pub fn groups(&self) -> u32 {
        self.groups
    }

    /// Texts, in lower case, of which any subject that matches has one, whatever its case; empty when there is no such
    /// list, or only a long one.
    pub fn needs(&self) -> Vec<Vec<u8>> {
        literal::needed(&self.node).unwrap_or_default()
    }

    /// True if it is a list of many alternatives, of which most subjects have none.
    pub fn is_long_list(&self) -> bool {
        let mut node = &literal::for_test(&self.node);
        while let Node::Group(inner) = node {
            node = inner;
        }
        matches!(node, Node::Alt(nodes) if nodes.len() >= LONG_LIST) && !self.heeds_last_newline
    }

    /// True if it runs on the backtracker, which takes many times as long over a byte.
    pub fn is_backtracking(&self) -> bool {
        matches!(self.test, Test::Backtrack(_))
    }

    /// True if it is plain text, or nearly so: looked for without an engine.
    pub fn is_plain(&self) -> bool {
        matches!(self.test, Test::Literal(_))
    }

    /// `subject ~ pattern`.
    ///
    /// # Errors
    /// The step limit.
    pub fn is_match(&self, subject: &[u8]) -> Result<bool, MatchError> {
        if subject.is_empty() && !self.may_be_empty {
            return Ok(false);
        }
        match &self.test {
            Test::Literal(literal) => Ok(literal.find(subject).is_some()),
            Test::Linear(_) if self.newline_matters(subject) => self.exact()?.is_match(subject),
            Test::Linear(linear) => Ok(linear.is_match(subject)),
            Test::Backtrack(backtrack) => backtrack.is_match(subject),
        }
    }

    /// The place of the first match.
    ///
    /// # Errors
    /// The step limit.
    pub fn find(&self, subject: &[u8]) -> Result<Option<Range<usize>>, MatchError> {
        match &self.test {
            Test::Literal(literal) => Ok(literal.find(subject)),
            Test::Linear(_) if self.newline_matters(subject) => self.exact()?.find(subject, 0),
            Test::Linear(_) => Ok(self.full()?.find(subject, 0)),
            Test::Backtrack(backtrack) => backtrack.find(subject, 0),
        }
    }

    /// `regsub` (`all` false) and `regsuball`: the result is appended to `out`. In `with`, `\0` to `\9` are groups and
    /// any other escaped byte is itself. False: no match, and `out` is as it was.
    ///
    /// # Errors
    /// The step limit; `out` may then have grown.
    pub fn sub(&self, subject: &[u8], with: &[u8], all: bool, out: &mut Vec<u8>) -> Result<bool, MatchError> {
        let mut substitution = Substitution::new(with);
        while !self.sub_some(&mut substitution, subject, with, all, usize::MAX, out)? {}
        Ok(substitution.progress().1 > 0)
    }

    /// Does what [`Regex::sub`] does, but for at most so many matches of it; true: that was the end. Without any match nothing is appended.
    ///
    /// # Errors
    /// The step limit; `out` may then have grown.
    pub fn sub_some(
        &self,
        substitution: &mut Substitution,
        subject: &[u8],
        with: &[u8],
        all: bool,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, MatchError> {
        substitution.run(self, subject, with, all, most, out)
    }

    /// Calls `found` with the groups of each match (0, the whole, to 10 at least), as `regsuball` finds them, until it says false.
    ///
    /// # Errors
    /// The step limit.
    pub fn each_match(&self, subject: &[u8], found: &mut dyn FnMut(&[MatchGroup]) -> bool) -> Result<(), MatchError> {
        sub::each(self, subject, true, found)
    }

    /// Appends what `with` is for a match: see [`Regex::sub`].
    pub fn expand(with: &[u8], subject: &[u8], groups: &[MatchGroup], out: &mut Vec<u8>) {
        sub::expand(with, subject, groups, out);
    }

    fn newline_matters(&self, subject: &[u8]) -> bool {
        self.heeds_last_newline && subject.last() == Some(&b'\n')
    }

    fn full(&self) -> Result<&Linear, MatchError> {
        let make = || Linear::new(&emit(&self.node, Dialect::Linear, true)).ok();
        self.full.get_or_init(make).as_ref().ok_or(MatchError::Limit)
    }

    fn exact(&self) -> Result<&Backtrack, MatchError> {
        let make = || Backtrack::new(emit(&self.node, Dialect::Backtracking, true), false);
        self.exact.get_or_init(make).as_ref().ok_or(MatchError::Limit)
    }

    /// `None`: it never matches anything but the empty string.
    fn not_empty(&self) -> Option<&Backtrack> {
        let make = || Backtrack::new(emit(&self.node, Dialect::Backtracking, true), true);
        self.not_empty.get_or_init(make).as_ref()
    }

    /// The first match at or after `from`; its groups when `groups` is given, else only the whole.
    fn search(
        &self,
        subject: &[u8],
        from: usize,
        nonempty: bool,
        captures: bool,
        groups: &mut Groups,
    ) -> Result<bool, MatchError> {
        let backtrack = if nonempty && self.may_be_empty {
            match self.not_empty() {
                Some(backtrack) => Some(backtrack),
                None => return Ok(false),
            }
        } else {
            match &self.test {
                Test::Backtrack(backtrack) => Some(backtrack),
                Test::Linear(_) if self.newline_matters(subject) => Some(self.exact()?),
                Test::Linear(_) | Test::Literal(_) => None,
            }
        };
        let found = match (backtrack, &self.test) {
            (Some(backtrack), _) if captures => return backtrack.captures(subject, from, groups),
            (Some(backtrack), _) => backtrack.find(subject, from)?,
            (None, Test::Literal(literal)) => literal.find_from(subject, from),
            (None, _) if captures => return Ok(self.full()?.captures(subject, from, groups)),
            (None, _) => self.full()?.find(subject, from),
        };
        groups.clear();
        groups.extend(found.map(Some));
        Ok(!groups.is_empty())
    }
}

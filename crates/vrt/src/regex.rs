// SPDX-License-Identifier: BSD-2-Clause
//! Regular expressions as VCL authors write them (PCRE2 syntax on bytes), run by engines whose time is linear; patterns
//! that need look-around, back-references, atomic groups or `\K` run on a backtracker with a limit.

use std::ops::Range;

/// Why a pattern can't be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegexError {
    /// Byte in the pattern where it was noticed.
    pub offset: usize,
    /// In PCRE2's words.
    pub text: &'static str,
}

/// A match that was given up.
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

/// A compiled pattern. Matching takes no lock and allocates nothing once warm.
#[derive(Debug)]
pub struct Regex {}

/// Sets the process-wide step limit of backtracking patterns: the param `pcre2_match_limit`.
pub fn set_match_limit(_limit: u32) {
    todo!()
}

impl Regex {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn new(_pattern: &[u8]) -> Result<Regex, RegexError> {
        todo!()
    }

    /// The pattern as it was written.
    pub fn pattern(&self) -> &[u8] {
        todo!()
    }

    /// `subject ~ pattern`.
    ///
    /// # Errors
    /// The step limit.
    pub fn is_match(&self, _subject: &[u8]) -> Result<bool, MatchError> {
        todo!()
    }

    /// Where the first match is.
    ///
    /// # Errors
    /// The step limit.
    pub fn find(&self, _subject: &[u8]) -> Result<Option<Range<usize>>, MatchError> {
        todo!()
    }

    /// `regsub` (`all` false) and `regsuball`: the result is appended to `out`. False: no match, and `out` is as it was.
    ///
    /// # Errors
    /// The step limit; `out` may then have grown.
    pub fn sub(&self, _subject: &[u8], _with: &[u8], _all: bool, _out: &mut Vec<u8>) -> Result<bool, MatchError> {
        todo!()
    }
}

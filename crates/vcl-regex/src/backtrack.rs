// SPDX-License-Identifier: BSD-2-Clause
//! The backtracking engine, for look-around, back-references, atomic groups and `\K` only. It stops after as many
//! steps back as the param `pcre2_match_limit` allows.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use fancy_regex::{BytesMode, Regex, RegexBuilder};

use super::MatchError;

/// The value of the parameter `pcre2_match_limit`.
pub(super) static LIMIT: AtomicU32 = AtomicU32::new(10_000);
const SIZE_LIMIT: usize = 8 << 20;
const MAX_INSTRUCTIONS: usize = 200_000;

#[derive(Debug)]
pub(super) struct Backtrack {
    text: String,
    not_empty: bool,
    built: RwLock<(u32, Arc<Regex>)>,
}

/// The groups of a match; group 0 is the whole.
pub(super) type Groups = Vec<Option<Range<usize>>>;

impl Backtrack {
    /// With `not_empty`, matches of no bytes don't count.
    pub(super) fn new(text: String, not_empty: bool) -> Option<Backtrack> {
        let limit = LIMIT.load(Ordering::Relaxed);
        let built = RwLock::new((limit, Arc::new(build(&text, not_empty, limit)?)));
        Some(Backtrack { text, not_empty, built })
    }

    fn regex(&self) -> Arc<Regex> {
        let limit = LIMIT.load(Ordering::Relaxed);
        {
            let built = self.built.read().unwrap_or_else(|poison| poison.into_inner());
            if built.0 == limit {
                return built.1.clone();
            }
        }
        let mut built = self.built.write().unwrap_or_else(|poison| poison.into_inner());
        if built.0 != limit
            && let Some(regex) = build(&self.text, self.not_empty, limit)
        {
            *built = (limit, Arc::new(regex));
        }
        built.1.clone()
    }

    pub(super) fn is_match(&self, subject: &[u8]) -> Result<bool, MatchError> {
        self.regex().is_match(subject).map_err(|_| given_up())
    }

    pub(super) fn find(&self, subject: &[u8], from: usize) -> Result<Option<Range<usize>>, MatchError> {
        let found = self.regex().find_from_pos(subject, from).map_err(|_| given_up())?;
        Ok(found.map(|m| m.start()..m.end()))
    }

    pub(super) fn captures(&self, subject: &[u8], from: usize, groups: &mut Groups) -> Result<bool, MatchError> {
        let regex = self.regex();
        let found = regex.captures_from_pos(subject, from).map_err(|_| given_up())?;
        groups.clear();
        let Some(found) = found else { return Ok(false) };
        groups.extend(found.iter().map(|group| group.map(|m| m.start()..m.end())));
        Ok(true)
    }
}

pub(super) static GIVEN_UP: AtomicU64 = AtomicU64::new(0);

#[cold]
fn given_up() -> MatchError {
    GIVEN_UP.fetch_add(1, Ordering::Relaxed);
    MatchError::Limit
}

fn build(text: &str, not_empty: bool, limit: u32) -> Option<Regex> {
    RegexBuilder::new(text)
        .bytes_mode(BytesMode::Ascii)
        .backtrack_limit(limit as usize)
        .delegate_size_limit(SIZE_LIMIT)
        .max_prog_size(MAX_INSTRUCTIONS)
        .find_not_empty(not_empty)
        .build()
        .ok()
}

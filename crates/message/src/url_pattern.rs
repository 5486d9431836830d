// SPDX-License-Identifier: BSD-2-Clause
//! URL patterns (WHATWG URL Pattern) for the path and query of one origin, without regular expressions: the subset that
//! RFC 9842 2.1.1 allows for compression dictionaries.
//!
//! A pattern becomes a small automaton, which takes time in proportion to the length of the URL times that of the pattern.
//! Both are bounded.
//! A pattern that names another origin, a fragment, or a group with a regular expression is refused.

mod automaton;
mod parts;

use automaton::{Automaton, MAX_STATES};
use parts::Delimiter;

const MAX_BYTES: usize = 1024;
/// Longer URLs match no pattern.
const MAX_URL: usize = 2048;

/// A pattern of URLs of one origin.
#[derive(Debug)]
pub struct UrlPattern {
    path: Automaton,
    /// `None`: any query, or none.
    query: Option<Automaton>,
}

/// The reason why a text isn't a pattern that is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlPatternError {
    /// The pattern is longer than 1024 bytes.
    TooLong,
    /// The automaton has more than 256 states.
    TooManyStates,
    /// The scheme, host or port isn't this origin's.
    OtherOrigin,
    /// A fragment is named, which no request has.
    Fragment,
    /// A group has a regular expression.
    Regexp,
    /// A brace, a parenthesis, a name or a backslash is out of place, or a name occurs twice.
    Syntax,
}

impl UrlPatternError {
    /// The reason in words.
    pub const fn text(self) -> &'static str {
        match self {
            UrlPatternError::TooLong => "the pattern is longer than 1024 bytes",
            UrlPatternError::TooManyStates => {
                "the pattern, with the path that it is relative to, is longer than 256 steps"
            }
            UrlPatternError::OtherOrigin => "the pattern is of another origin",
            UrlPatternError::Fragment => "the pattern has a fragment",
            UrlPatternError::Regexp => "the pattern has a regular expression",
            UrlPatternError::Syntax => "the pattern has a syntax error",
        }
    }
}

impl UrlPattern {
    /// Reads a pattern that the response for the URL `base` of `host` has.
    ///
    /// # Errors
    /// [`UrlPatternError`].
    pub fn parse(pattern: &[u8], host: &[u8], base: &[u8]) -> Result<Self, UrlPatternError> {
        if pattern.len() > MAX_BYTES {
            return Err(UrlPatternError::TooLong);
        }
        let local = without_origin(pattern, host)?;
        let (path, query) = split(local)?;
        let base_path = base.split(|&c| c == b'?').next().unwrap_or_default();
        let path = match path {
            b"" if query.is_some() => Automaton::literal(base_path),
            b"" => return Err(UrlPatternError::Syntax),
            [b'/', ..] | [b'{' | b'\\', b'/', ..] => parts::compile(path, Delimiter::Slash)?,
            _ => {
                let dir_len = base_path.iter().rposition(|&c| c == b'/').map_or(0, |at| at + 1);
                let whole = [&parts::escaped(&base_path[..dir_len]), path].concat();
                parts::compile(&whole, Delimiter::Slash)?
            }
        };
        let query = query.map(|query| parts::compile(query, Delimiter::None)).transpose()?;
        if path.states() + query.as_ref().map_or(0, Automaton::states) > MAX_STATES {
            return Err(UrlPatternError::TooManyStates);
        }
        Ok(UrlPattern { path, query })
    }

    /// True if the pattern matches the path and query `url`, as a request has it.
    pub fn matches(&self, url: &[u8]) -> bool {
        url.len() <= MAX_URL && self.matches_in(url, &mut 0)
    }

    fn matches_in(&self, url: &[u8], steps: &mut usize) -> bool {
        let (path, query) = match url.iter().position(|&c| c == b'?') {
            Some(at) => (&url[..at], &url[at + 1..]),
            None => (url, &b""[..]),
        };
        self.path.matches(path, steps) && self.query.as_ref().is_none_or(|pattern| pattern.matches(query, steps))
    }

    /// Memory of the pattern, in bytes.
    pub fn bytes(&self) -> usize {
        self.path.bytes() + self.query.as_ref().map_or(0, Automaton::bytes)
    }
}

/// The pattern without a scheme and a host, which must be literally this one.
fn without_origin<'p>(pattern: &'p [u8], host: &[u8]) -> Result<&'p [u8], UrlPatternError> {
    let Some(scheme_end) = pattern.windows(3).position(|three| three == b"://") else { return Ok(pattern) };
    let (scheme, behind) = (&pattern[..scheme_end], &pattern[scheme_end + 3..]);
    let path_at = behind.iter().position(|&c| c == b'/').ok_or(UrlPatternError::OtherOrigin)?;
    let is_web = scheme.eq_ignore_ascii_case(b"https") || scheme.eq_ignore_ascii_case(b"http");
    match is_web && behind[..path_at].eq_ignore_ascii_case(host) {
        true => Ok(&behind[path_at..]),
        false => Err(UrlPatternError::OtherOrigin),
    }
}

/// Splits at the `?` that begins the query: not one that follows a name, a wildcard or a group, where it means "optional".
fn split(pattern: &[u8]) -> Result<(&[u8], Option<&[u8]>), UrlPatternError> {
    let (mut depth, mut at, mut may_modify) = (0u32, 0, false);
    while let Some(&c) = pattern.get(at) {
        let mut next_may_modify = false;
        match c {
            b'\\' if pattern.get(at + 1) == Some(&b'?') && depth == 0 => {
                return Ok((&pattern[..at], Some(&pattern[at + 2..])));
            }
            b'\\' => at += 1,
            b'#' => return Err(UrlPatternError::Fragment),
            b'(' => match pattern[at..].iter().position(|&end| end == b')') {
                Some(len) => {
                    at += len;
                    next_may_modify = true;
                }
                None => return Err(UrlPatternError::Syntax),
            },
            b'{' => depth += 1,
            b'}' => {
                depth = depth.checked_sub(1).ok_or(UrlPatternError::Syntax)?;
                next_may_modify = true;
            }
            b'*' => next_may_modify = true,
            b':' => {
                at += parts::name_len(&pattern[at + 1..]);
                next_may_modify = true;
            }
            b'?' if depth == 0 && !may_modify => return Ok((&pattern[..at], Some(&pattern[at + 1..]))),
            _ => {}
        }
        may_modify = next_may_modify;
        at += 1;
    }
    Ok((pattern, None))
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: BSD-2-Clause
//! Which records and transactions are shown: the options -b -c -C -E -i -I -x -X -v -L -R -T, in the order given.

use shm::vsl::Marker;
use tables::Tag;
use tables::tags::TagMask;
use vcl_regex::Regex;

use crate::names::{self, NameError};
use crate::number;
use crate::record::Rec;

/// A regex and the tags it applies to (None: all).
#[derive(Debug)]
struct Filter {
    tags: Option<TagMask>,
    regex: Regex,
}

/// The selection. `Default` shows everything.
#[derive(Debug)]
pub struct Select {
    pub backend: bool,
    pub client: bool,
    pub esi: bool,
    /// -b and -c together show both sides in logs of 7.1, too, as tools of later releases do.
    pub has_both_sides: bool,
    /// -C: regexes given later don't heed case.
    pub caseless: bool,
    /// -v: every line says its transaction.
    pub verbose: bool,
    pub limit: usize,
    /// -T: seconds until a transaction is given out incomplete.
    pub timeout: f64,
    /// -R: so many transactions per so many seconds.
    pub rate: Option<(f64, f64)>,
    seen: bool,
    suppressed: TagMask,
    include: Vec<Filter>,
    exclude: Vec<Filter>,
}

impl Default for Select {
    fn default() -> Select {
        Select {
            backend: false,
            client: false,
            esi: false,
            has_both_sides: false,
            caseless: false,
            verbose: false,
            limit: 1000,
            timeout: 120.0,
            rate: None,
            seen: false,
            suppressed: TagMask::default(),
            include: Vec::new(),
            exclude: Vec::new(),
        }
    }
}

/// A regex in VCL's dialect.
///
/// # Errors
/// Where and why it is none.
pub fn regex(pattern: &str, caseless: bool) -> Result<Regex, (usize, &'static str)> {
    const CASELESS: &str = "(?i)";
    if !caseless {
        return Regex::new(pattern.as_bytes()).map_err(|e| (e.offset, e.text));
    }
    let caseless = format!("{CASELESS}{pattern}");
    Regex::new(caseless.as_bytes()).map_err(|e| (e.offset.saturating_sub(CASELESS.len()), e.text))
}

impl Select {
    /// Takes an option if it is one of ours.
    ///
    /// # Errors
    /// What is wrong with its value.
    pub fn option(&mut self, letter: char, value: &str) -> Result<bool, String> {
        if matches!(letter, 'i' | 'I') && !self.seen {
            Tag::ALL.iter().for_each(|tag| self.suppressed.set(*tag, true));
        }
        match letter {
            'b' => self.backend = true,
            'c' => self.client = true,
            'C' => self.caseless = true,
            'E' => (self.esi, self.client) = (true, true),
            'v' => self.verbose = true,
            'i' | 'x' => {
                self.seen = true;
                let tags = names::list(value).map_err(|e| name_error(letter, value, e))?;
                Tag::ALL.iter().filter(|t| tags.has(**t)).for_each(|t| self.suppressed.set(*t, letter == 'x'));
            }
            'I' | 'X' => {
                self.seen = true;
                let filter = self.filter(letter, value)?;
                if letter == 'I' { &mut self.include } else { &mut self.exclude }.push(filter);
            }
            'L' => {
                let (n, rest) = number::integer(value).unwrap_or((0, value));
                if !rest.trim_start().is_empty() {
                    return Err("-L: Syntax error".into());
                }
                self.limit = positive(n).ok_or("-L: Range error")?;
            }
            'R' => self.rate = Some(rate(value)?),
            'T' => {
                let seconds = number::exact(value).ok_or("-T: Syntax error")?;
                if seconds < 0.0 {
                    return Err("-T: Range error".into());
                }
                self.timeout = seconds;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn filter(&self, letter: char, value: &str) -> Result<Filter, String> {
        let (tags, pattern) = match value.split_once(':') {
            Some((tags, pattern)) => (Some(names::list(tags).map_err(|e| name_error(letter, tags, e))?), pattern),
            None => (None, value),
        };
        let regex = regex(pattern, self.caseless)
            .map_err(|(at, text)| format!("-{letter}: Regex error at position {at} ({text})"))?;
        Ok(Filter { tags, regex })
    }

    pub fn shows(&self, rec: &Rec<'_>) -> bool {
        // A regex that gives up counts as a match.
        let any = |filters: &[Filter]| {
            filters
                .iter()
                .any(|f| f.tags.is_none_or(|tags| tags.has(rec.tag)) && f.regex.is_match(rec.raw).unwrap_or(true))
        };
        let is_of_side = match (self.client, self.backend) {
            (false, false) => true,
            (true, false) => rec.marker == Marker::Client,
            (false, true) => rec.marker == Marker::Backend,
            // No record has both sides, which 7.1 asks for.
            (true, true) => self.has_both_sides || rec.format.is_wide(),
        };
        if !is_of_side {
            return false;
        }
        any(&self.include) || !(any(&self.exclude) || self.suppressed.has(rec.tag))
    }
}

fn name_error(letter: char, text: &str, error: NameError) -> String {
    match error {
        NameError::None => format!("-{letter}: \"{text}\" matches zero tags"),
        NameError::Ambiguous => format!("-{letter}: \"{text}\" is ambiguous"),
        NameError::Syntax => format!("-{letter}: Syntax error in \"{text}\""),
    }
}

fn positive(n: i64) -> Option<usize> {
    if n > 0 && n <= i64::from(i32::MAX) { usize::try_from(n).ok() } else { None }
}

fn rate(value: &str) -> Result<(f64, f64), String> {
    let (n, rest) = number::integer(value).unwrap_or((0, value));
    let n = positive(n).ok_or("-R: Range error")? as f64;
    if rest.is_empty() {
        return Ok((n, 1.0));
    }
    let period = rest.strip_prefix('/').filter(|p| !p.is_empty() && p.len() <= 30).ok_or("-R: Syntax error")?;
    let one = if period.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "1" };
    let seconds = number::duration(&format!("{one}{period}")).filter(|s| *s > 0.0);
    Ok((n, seconds.ok_or("-R: Syntax error: Invalid duration")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{make, records};

    fn shown(options: &[(char, &str)]) -> Result<String, String> {
        let mut select = Select::default();
        for (letter, value) in options {
            assert!(select.option(*letter, value)?);
        }
        let mut log = make(Tag::ReqUrl, 1, Marker::Client, b"/a");
        log.extend(make(Tag::ReqHeader, 1, Marker::Client, b"Host: a"));
        log.extend(make(Tag::BereqUrl, 2, Marker::Backend, b"/A"));
        log.extend(make(Tag::Cli, 0, Marker::None, b"Rd ping"));
        let names: Vec<_> = records(&log).filter(|r| select.shows(r)).map(|r| r.tag.name()).collect();
        Ok(names.join(" "))
    }

    fn check(options: &[(char, &str)], expected: &str) {
        assert_eq!(shown(options).unwrap_or_else(|e| e), expected, "{options:?}");
    }

    #[test]
    fn selections() {
        check(&[], "ReqURL ReqHeader BereqURL CLI");
        check(&[('c', "")], "ReqURL ReqHeader");
        check(&[('b', "")], "BereqURL");
        check(&[('i', "*URL")], "ReqURL BereqURL");
        check(&[('i', "*URL"), ('x', "ReqURL")], "BereqURL");
        check(&[('x', "*URL"), ('i', "ReqURL")], "ReqURL ReqHeader CLI");
        check(&[('I', "/a")], "ReqURL");
        check(&[('C', ""), ('I', "/a")], "ReqURL BereqURL");
        check(&[('I', "ReqHeader:^Host")], "ReqHeader");
        check(&[('X', "Host|ping")], "ReqURL BereqURL");
        check(&[('i', "nope")], "-i: \"nope\" matches zero tags");
        check(&[('I', "ReqU:x")], "-I: \"ReqU\" is ambiguous");
        check(&[('X', "a(")], "-X: Regex error at position 2 (missing closing parenthesis)");
        check(&[('L', "0")], "-L: Range error");
        check(&[('R', "1/x")], "-R: Syntax error: Invalid duration");
        check(&[('T', "x")], "-T: Syntax error");
        check(&[('R', "10/2m"), ('T', "3.5"), ('L', "7")], "ReqURL ReqHeader BereqURL CLI");
    }
}

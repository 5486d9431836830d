// SPDX-License-Identifier: BSD-2-Clause
//! Several sources, one after the other, as one stream of entries.

use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use logq::source::strerror;

use crate::entry::{AccessEntry, LineReading, Skip};
use crate::format::LogFormat;
use crate::input::{self, AccessInput, InputLine};
use crate::vsl::{self, FoundEntry, LogExtent};
use crate::{ncsa, urls};

#[derive(Clone, Debug, Default)]
pub struct AccessSources {
    /// Files; `-` is standard input. Each may be packed with gzip.
    pub files: Vec<String>,
    /// Instead of them: a running varnishd's workdir.
    pub live: Option<PathBuf>,
    /// The format of lines; `None`: they tell their format themselves.
    pub format: Option<LogFormat>,
    /// With a varnishlog, an entry comes when all that the request caused has ended, and says how it was answered after restarts and how
    /// long its backends worked. Otherwise it says what the client's first transaction does.
    pub with_caused: bool,
}

#[derive(Debug)]
pub enum SourceItem<'a> {
    Entry(AccessEntry<'a>),
    Skipped(Skip),
    /// There is nothing more at the moment: the source may be waited for.
    Idle,
    Note(String),
}

/// Remarks that were made already. Each is made once.
#[derive(Default)]
struct Told {
    readings: [bool; LineReading::ALL.len()],
    is_ambiguous: bool,
}

/// The taker of what comes; false when it has had enough.
type Take<'a> = dyn FnMut(SourceItem<'_>) -> bool + 'a;

impl AccessSources {
    /// Bytes of all files as they lie on the disk, if that can be known.
    pub fn bytes(&self) -> Option<u64> {
        if self.live.is_some() || self.files.iter().any(|file| file == "-") {
            return None;
        }
        Some(self.files.iter().filter_map(|file| std::fs::metadata(file).ok()).map(|file| file.len()).sum())
    }

    /// Reads them once; `read` counts bytes as they lie on the disk. False when `take` has had enough.
    pub fn read(&self, read: &Arc<AtomicU64>, take: &mut Take<'_>) -> bool {
        match &self.live {
            Some(workdir) => follow(workdir, self.extent(), take),
            None => {
                let mut told = Told::default();
                self.files.iter().all(|name| self.file(name, read, &mut told, take))
            }
        }
    }

    fn extent(&self) -> LogExtent {
        if self.with_caused { LogExtent::Caused } else { LogExtent::Client }
    }

    fn file(&self, name: &str, read: &Arc<AtomicU64>, told: &mut Told, take: &mut Take<'_>) -> bool {
        let mut is_on = true;
        let ended = match input::open(name, read) {
            Ok(AccessInput::Lines(mut from)) => self.lines(name, &mut from, told, &mut |item| {
                is_on = take(item);
                is_on
            }),
            Ok(AccessInput::Records(mut from)) => vsl::read(&mut from, self.extent(), &mut |found| {
                is_on = take(item_found(found));
                is_on
            }),
            Err(error) => return take(SourceItem::Note(error)),
        };
        let Err(error) = ended else { return is_on };
        let what = match error.kind() {
            io::ErrorKind::UnexpectedEof => "it was cut off".to_owned(),
            _ => strerror(&error),
        };
        is_on && take(SourceItem::Note(format!("{name}: {what}; what came before that was used")))
    }

    fn lines(
        &self,
        name: &str,
        from: &mut BufReader<Box<dyn Read>>,
        told: &mut Told,
        take: &mut Take<'_>,
    ) -> io::Result<()> {
        let (mut line, mut number) = (Vec::new(), 0u64);
        loop {
            if memchr::memchr(b'\n', from.buffer()).is_none() && !take(SourceItem::Idle) {
                return Ok(());
            }
            number += 1;
            let item = match input::next_line(from, &mut line)? {
                InputLine::End => return Ok(()),
                InputLine::TooLong => Some(Err(Skip::TooLong)),
                InputLine::Whole => self.line(&line),
            };
            let Some(entry) = item else { continue };
            for remark in told.remarks(&entry, &line) {
                if !take(SourceItem::Note(format!("{name} line {number}: {remark}"))) {
                    return Ok(());
                }
            }
            if !take(item_of(entry)) {
                return Ok(());
            }
        }
    }

    fn line<'a>(&'a self, line: &'a [u8]) -> Option<Result<AccessEntry<'a>, Skip>> {
        match (&self.format, line.trim_ascii_start()) {
            (_, b"") => None,
            (Some(format), _) => Some(format.read(line)),
            (None, text) if text.starts_with(b"#") || urls::is_url_line(text) => urls::parse(text).transpose(),
            (None, text) => match ncsa::parse(text) {
                // A list of bare hosts: `www.example.com/path`.
                Err(Skip::NotALine) if is_one_word(text) => {
                    Some(urls::parse(text).and_then(|entry| entry.ok_or(Skip::NotALine)))
                }
                other => Some(other),
            },
        }
    }
}

impl Told {
    /// Returns the remarks on how this line was read that no earlier line caused.
    fn remarks(&mut self, entry: &Result<AccessEntry<'_>, Skip>, line: &[u8]) -> Vec<String> {
        match entry {
            Ok(entry) => {
                let is_new = |reading: &LineReading| !std::mem::replace(&mut self.readings[*reading as usize], true);
                entry.readings().filter(is_new).map(|reading| reading.text().to_owned()).collect()
            }
            Err(Skip::Ambiguous) if !std::mem::replace(&mut self.is_ambiguous, true) => vec![ncsa::doubt(line)],
            Err(_) => Vec::new(),
        }
    }
}

fn item_found(found: FoundEntry<'_>) -> SourceItem<'_> {
    match found {
        FoundEntry::Entry(entry) => item_of(entry),
        FoundEntry::Nothing => SourceItem::Idle,
        FoundEntry::Note(what) => SourceItem::Note(what),
    }
}

fn item_of(entry: Result<AccessEntry<'_>, Skip>) -> SourceItem<'_> {
    entry.map_or_else(SourceItem::Skipped, SourceItem::Entry)
}

fn follow(workdir: &Path, extent: LogExtent, take: &mut Take<'_>) -> bool {
    let mut is_on = true;
    let followed = vsl::follow(workdir, extent, &mut |found| {
        is_on = take(item_found(found));
        is_on
    });
    is_on && followed.err().is_none_or(|error| take(SourceItem::Note(error)))
}

fn is_one_word(line: &[u8]) -> bool {
    line.first().is_some_and(u8::is_ascii_alphanumeric)
        && line.contains(&b'.')
        && !line.trim_ascii_end().contains(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_named_once_and_a_doubt_too() {
        let sources = AccessSources::default();
        let mut told = Told::default();
        let mut remarks = |line: &str| {
            let entry = sources.line(line.as_bytes()).expect("a line");
            let remarks = told.remarks(&entry, line.as_bytes());
            (entry.err(), remarks.len(), remarks.concat())
        };
        const REST: &str = r#"[10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 5"#;
        let (skip, n, first) = remarks(&format!("site.example 192.0.2.1 - - {REST}"));
        assert!(skip.is_none() && n == 1 && first.starts_with("the first word is taken as the host"), "{first}");
        assert_eq!(remarks(&format!("other.example 192.0.2.1 - - {REST}")).1, 0);
        let doubtful = format!("192.0.2.2 192.0.2.1 - - {REST}");
        let (skip, n, doubt) = remarks(&doubtful);
        assert!(
            skip == Some(Skip::Ambiguous) && n == 1 && doubt.starts_with("\"192.0.2.2 192.0.2.1 - -\" can"),
            "{doubt}"
        );
        assert_eq!(remarks(&doubtful).1, 0);
        assert_eq!(remarks(&format!("192.0.2.1 - - {REST}")).1, 0);
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! The options and words by which tools are told what to read, and how long.

use std::ops::RangeInclusive;
use std::time::Duration;

use shm::reader::CounterReader;
use toolkit::args::{Arg, Args};

use crate::format::LogFormat;
use crate::gather::Gathering;

/// Times for which a running log may be followed.
const TIMES: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(1_000_000_000);

impl Gathering {
    /// Takes an argument in if it is one of these: a file's name, `-n`, `--live`, `--log-format`, `-d`, `-q`; true if
    /// it was.
    ///
    /// # Errors
    /// It was, and its value is missing or wrong.
    pub fn take(&mut self, arg: Arg<'_>, args: &mut Args<'_>) -> Result<bool, String> {
        match arg {
            Arg::Word(file) => self.sources.files.push(file.to_owned()),
            Arg::Option("-q" | "--quiet") => self.is_quiet = true,
            Arg::Option("--live") => self.sources.live = Some(CounterReader::workdir_of(None)),
            Arg::Option("-n") => self.sources.live = Some(CounterReader::workdir_of(Some(args.value()?))),
            Arg::Option("--log-format") => self.sources.format = Some(LogFormat::parse(args.value()?)?),
            Arg::Option("-d" | "--duration") => self.duration = Some(args.time(TIMES)?),
            Arg::Help | Arg::Option(_) => return Ok(false),
        }
        Ok(true)
    }

    /// Checks that it was told once what to read.
    ///
    /// # Errors
    /// It wasn't, or twice.
    pub fn check(&self) -> Result<(), String> {
        match (&self.sources.live, self.sources.files.is_empty()) {
            (None, true) => Err("which log?".into()),
            (Some(_), false) => Err("a running log or files, not both".into()),
            (None, false) | (Some(_), true) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings that a line of options gives; the first option that is somebody else's is its end.
    fn told(line: &str) -> Result<Gathering, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let (mut gathering, mut args) = (Gathering::default(), Args::new(&words));
        while let Some(arg) = args.next()? {
            if !gathering.take(arg, &mut args)? {
                return Err(args.unknown(""));
            }
        }
        gathering.check().map(|()| gathering)
    }

    #[test]
    fn what_is_read_is_told_by_words() {
        let files = told("a.log -q - --log-format %r").expect("files");
        assert_eq!((files.sources.files.join(" "), files.is_quiet), ("a.log -".to_owned(), true));
        assert!(files.sources.format.is_some() && files.sources.live.is_none() && files.duration.is_none());
        let live = told("-n /a/b --duration 90").expect("a running one");
        assert_eq!(live.sources.live.as_deref(), Some(std::path::Path::new("/a/b")));
        assert_eq!(live.duration, Some(Duration::from_secs(90)));
        assert!(told("--live").is_ok_and(|live| live.sources.live.is_some()));
    }

    #[test]
    fn what_cant_be_read_is_named() {
        for (line, named) in [
            ("", "which log"),
            ("-q", "which log"),
            ("--live a.log", "not both"),
            ("-n", "-n needs a value"),
            ("a.log -d 0", "-d 0: not a time from 100ms"),
            ("a.log --top 5", "--top"),
            ("a.log -h", "no option"),
        ] {
            let error = told(line).unwrap_err();
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! The options and words by which tools are told what to read, and how long.

use std::ops::RangeInclusive;
use std::time::Duration;

use shm::reader::CounterReader;
use toolkit::opt;
use toolkit::options::Opt;

use crate::format::LogFormat;
use crate::gather::Gathering;

/// Times for which a running log may be followed.
const TIMES: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(1_000_000_000);

/// Options of a tool that reads logs.
pub trait Gathers: Sized + 'static {
    fn gathering(&mut self) -> &mut Gathering;

    const LOG_FORMAT: Opt<Self> = opt!("--log-format FORMAT": "Line format, in Apache's LogFormat syntax (default: detected)" =>
            |o, args| o.gathering().sources.format = Some(LogFormat::parse(args.value()?)?));
    const LIVE: Opt<Self> = live("Read the log of the server with this working directory (--live: the default one)");
    const DURATION: Opt<Self> = opt!("-d TIME" | "--duration": "Exit after this time" =>
            |o, args| o.gathering().duration = Some(args.time(TIMES)?));
    const QUIET: Opt<Self> = opt!("-q" | "--quiet": "Show no progress" => |o, _| o.gathering().is_quiet = true);

    fn file(&mut self, name: &str) -> Result<(), String> {
        self.gathering().sources.files.push(name.to_owned());
        Ok(())
    }
}

/// The row for `-n` and `--live`, with this help.
pub const fn live<O: Gathers>(text: &'static str) -> Opt<O> {
    opt!("-n DIR" | "--live": text => |o, args| {
        let name = if args.name() == "-n" { Some(args.value()?) } else { None };
        o.gathering().sources.live = Some(CounterReader::workdir_of(name));
    })
}

impl Gathering {
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
    use toolkit::tool::Tool;

    impl Gathers for Gathering {
        fn gathering(&mut self) -> &mut Gathering {
            self
        }
    }

    const TOOL: Tool<Gathering> = Tool {
        word: Gathering::file,
        ..Tool::new("", &[("", &[Gathers::LOG_FORMAT, Gathers::LIVE, Gathers::DURATION, Gathers::QUIET])])
    };

    fn told(line: &str) -> Result<Gathering, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let gathering = TOOL.read(Gathering::default(), &words)?.ok_or("help")?;
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
            ("a.log -h", "help"),
        ] {
            let error = told(line).unwrap_err();
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}

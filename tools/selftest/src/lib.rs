// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer selftest`: checks an installation in a few seconds. It starts this program as varnishd, on free ports, in a directory of its own,
//! before an origin of its own, asks it for what a cache does, kills its worker once, and says of each step whether it holds.
//!
//! Nothing of a running server is touched, and nothing is left behind.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod checks;
mod origin;
mod server;

use std::path::PathBuf;
use std::time::Instant;
use toolkit::opt;
use toolkit::options::{HelpPart, Opt};
use toolkit::print;
use toolkit::tool::{AfterError, Tool};

const INTRODUCTION: &str = "\
Usage: lacquer selftest [options]

Checks this installation. Starts a server on free ports, tests its functions (hits, misses, passes, gzip, ranges, ESI,
purges, bans, a store on disk), reads its log and counters, kills its worker, and stops it. Reports the result of each
step. It takes a few seconds, touches no running server, and leaves no files behind.

";

const EPILOGUE: &str = "
The exit status is 0 if all steps passed, 1 if one failed, 2 if an option is wrong or nothing could be tested.
";

const HELP: &[HelpPart<SelftestOptions>] = &[
    (
        INTRODUCTION,
        &[
            opt!("-v FILE, --vcl FILE": "also check this VCL (default /etc/varnish/default.vcl, if it exists)" =>
                |o, args| o.vcl = Some(args.value()?.into())),
            opt!("--keep": "keep the server's directory with its log, and print its path" => |o, _| o.is_kept = true),
            opt!("-q": "print only failures" => |o, _| o.is_quiet = true),
            Opt::line("-h, --help", "show this help"),
        ],
    ),
    (EPILOGUE, &[]),
];

pub const TOOL: Tool<SelftestOptions> =
    Tool { indent: 2, column: 23, after_error: AfterError::Nothing, ..Tool::new("lacquer selftest", HELP) };

const USUAL_VCL: &str = "/etc/varnish/default.vcl";

#[derive(Debug, Default, PartialEq, Eq)]
pub struct SelftestOptions {
    vcl: Option<PathBuf>,
    is_kept: bool,
    is_quiet: bool,
}

pub fn main(args: &[String]) -> i32 {
    TOOL.main(args, |words| TOOL.read(SelftestOptions::default(), words), |options| run(&options))
}

fn run(options: &SelftestOptions) -> Result<i32, String> {
    let begin = Instant::now();
    let mut report = Report { is_quiet: options.is_quiet, passed: 0, failed: 0 };
    let usual = PathBuf::from(USUAL_VCL);
    let vcl = options.vcl.clone().or_else(|| usual.exists().then_some(usual));
    checks::programs(&mut report)?;
    if let Some(vcl) = vcl {
        report.step(&format!("{} compiles", vcl.display()), || checks::compiles(&vcl));
    }
    let kept = checks::of_server(&mut report, options.is_kept)?;
    if let Some(directory) = kept {
        print::foreign(format_args!("the server's directory: {}\n", directory.display()));
    }
    let Report { passed, failed, .. } = report;
    print::out(format_args!("selftest: {passed} passed, {failed} failed, in {:.1} s\n", begin.elapsed().as_secs_f64()));
    Ok(i32::from(failed > 0))
}

/// The outcomes of the steps; it tells of each at once.
struct Report {
    is_quiet: bool,
    passed: u32,
    failed: u32,
}

impl Report {
    /// Does a step and tells of it: its error says what was expected and what came. Gives whether it holds.
    fn step(&mut self, what: &str, work: impl FnOnce() -> Result<(), String>) -> bool {
        let begin = Instant::now();
        let result = work();
        let took = begin.elapsed().as_millis();
        match &result {
            Ok(()) if self.is_quiet => {}
            Ok(()) => print::foreign(format_args!("  ok      {what} ({took} ms)\n")),
            Err(error) => print::foreign(format_args!("  FAILED  {what}: {error}\n")),
        }
        match result.is_ok() {
            true => self.passed += 1,
            false => self.failed += 1,
        }
        result.is_ok()
    }

    fn note(&self, text: &str) {
        if !self.is_quiet {
            print::foreign(format_args!("  note    {text}\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str], expect: Result<Option<SelftestOptions>, &str>) {
        let words: Vec<String> = words.iter().map(|&word| word.into()).collect();
        assert_eq!(TOOL.read(SelftestOptions::default(), &words), expect.map_err(str::to_owned));
    }

    #[test]
    fn words() {
        check(&[], Ok(Some(SelftestOptions::default())));
        check(&["--vcl=a", "-q"], Ok(Some(SelftestOptions { vcl: Some("a".into()), is_quiet: true, is_kept: false })));
        check(&["-v"], Err("-v needs a value"));
        check(&["x"], Err("what is x? (--help shows the usage)"));
        check(&["-z"], Err("no option -z (--help shows the usage)"));
        check(&["x", "-h"], Err("what is x? (--help shows the usage)"));
        check(&["-h"], Ok(None));
    }

    #[test]
    fn what_does_not_hold_is_counted() {
        let mut report = Report { is_quiet: true, passed: 0, failed: 0 };
        assert!(report.step("a", || Ok(())) && !report.step("b", || Err("expected c".to_owned())));
        assert_eq!((report.passed, report.failed), (1, 1));
    }
}

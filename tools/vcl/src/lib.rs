// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer vcl`: looks at VCL files without a server. Reads files through the [`Sources`] it is given; writes only to
//! stdout and stderr.

mod args;
mod check;
mod diff;
mod explain;
mod fmt;
mod judge;
mod lsp;
mod messages;
mod migrate;
mod show;
mod texts;

use std::io::{self, Read, Write};

use base::say;
use vcl::{Options, Sources};

use args::{Args, Command};

/// What `lacquer vcl` can do.
pub const USAGE: &str = "\
Usage: lacquer vcl check [options] FILE...    says all that is wrong with VCL files; a part of a VCL is judged with the
                                              file that includes it, or by itself
       lacquer vcl explain [options] FILE     shows the bytecode of each subroutine beside its source
       lacquer vcl fmt [options] FILE...      lays files out in one way, in place
       lacquer vcl profile [options] [VCL]    what each line of a running VCL costs (profile --help)
       lacquer vcl lsp [options]              serves an editor on stdin and stdout (Language Server Protocol)
       lacquer vcl migrate [options] FILE     prints a file of VCL 2.0, 2.1 or 3.0 as VCL 4.1 (its includes in their places)
                                              on stdout, and what was changed and why on stderr

A FILE called - is standard input; fmt then writes to standard output.

  -I DIR           where to look for relative names (vcl_path); may be given several times (default /etc/varnish)
  --syntax 4.0|4.1 of a part of a VCL 4: what the file that includes it begins with (default 4.1)
  --dialect 2.0|2.1|3.0
                   for files without `vcl 4.x;` (default: told by their words)
  --label NAME     a label that `return (vcl(NAME))` may name; may be given several times
  --store NAME     a store (`-s NAME=...`) that `storage.NAME` may name; may be given several times
  --resolve        check: look host names up, and report those that have no address; else no network is asked
  --format json    check: one JSON object per file and line: file, ok, errors, warnings (message, hint, code, source, line,
                   column, text, related: message, source, line, column), notes
                   migrate: one object: file, ok, dialect, vcl, notes (source, line, old, new, why, warning) or errors
  --check          fmt: change nothing; name the files that would be changed
  --diff           fmt: change nothing; show what would be changed, as diff -u does
  --indent N|tab   fmt: what a level is indented by (default 4 spaces)
  --plain          explain: without the optimiser
  --sub NAME       explain: only this subroutine
  --builtin        explain: the built-in VCL's subroutines too

check is in colour on a terminal, unless NO_COLOR is set.
They end with 0 when all files are good, 2 when one isn't, 1 when they can't be used so.
";

/// Runs `args`, the words after `lacquer vcl`; `sources` makes what files are read through, from a vcl_path. Gives the
/// exit status.
pub fn main(args: &[String], sources: &dyn Fn(&str) -> Box<dyn Sources>) -> i32 {
    let args = match args::parse(args) {
        Ok(args) => args,
        Err(why) => {
            say::err(format_args!("lacquer vcl: {why}\n{USAGE}"));
            return 1;
        }
    };
    let sources = sources(&args.path());
    match &args.command {
        Command::Help => out(USAGE.as_bytes(), 0),
        Command::Check => check::run(&args, &*sources),
        Command::Explain => explain::run(&args, &*sources),
        Command::Fmt => fmt::run(&args),
        Command::Lsp => lsp::run(&args, &*sources),
        Command::Migrate => migrate::run(&args, &*sources),
    }
}

/// Writes to stdout; gives `status`, or 1 where that fails. A reader that has seen enough is no failure.
pub(crate) fn out(bytes: &[u8], status: i32) -> i32 {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => {
            say::err(format_args!("lacquer vcl: stdout: {why}\n"));
            1
        }
        _ => status,
    }
}

/// A file compiled, or what is wrong with it. Host names aren't resolved.
fn compile(file: &str, args: &Args, sources: &dyn Sources) -> Result<vcl::Compiled, String> {
    let (name, text) = read(file, sources)?;
    let mut texts = texts::Texts::new(sources, args.dialect);
    texts.put(&name, &name, text, serde_json::Value::Null);
    let how = judge::How { args, asks: texts::Asks::default(), trusting: false };
    judge::program(&texts, &name, how)
}

/// A file's name in messages, and its text.
fn read(file: &str, sources: &dyn Sources) -> Result<(String, Vec<u8>), String> {
    if file == "-" {
        let mut text = Vec::new();
        io::stdin().lock().read_to_end(&mut text).map_err(|e| format!("stdin: {e}\n"))?;
        return Ok(("<stdin>".to_owned(), text));
    }
    // A name given on the command line is a path like any other program's; the vcl_path is tried after that.
    let here = if file.starts_with('/') {
        file.to_owned()
    } else {
        std::env::current_dir().unwrap_or_default().join(file).display().to_string()
    };
    sources.read(&here).or_else(|why| sources.read(file).map_err(|_| format!("{why}\n")))
}

fn options(args: &Args) -> Options {
    Options {
        dialect: args.dialect,
        check_regex: Some(vrt::check_regex),
        optimise: !args.plain,
        labels: args.labels.clone(),
        stores: args.stores.clone(),
        ..Options::default()
    }
}

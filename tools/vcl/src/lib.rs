// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer vcl`: tools for VCL files that need no server. They read files through the given [`Sources`] and write only to stdout, stderr
//! and the files of `fmt`.

mod args;
mod check;
mod codes;
mod diff;
mod explain;
mod fmt;
mod help;
mod judge;
mod lsp;
mod migrate;
mod modules;
mod policy;
mod show;
mod texts;

use std::io::{self, Read, Write};

use toolkit::print;
use vcl::{CompileOptions, Modules, Sources};

use args::{VclArgs, VclToolCommand};
pub use help::{manual, options_by_command};

/// Runs `args`, the words after `lacquer vcl`. `modules` are available to `import`. `sources` creates the file reader for a vcl_path.
/// Returns the exit status.
pub fn main(args: &[String], modules: Modules, sources: &dyn Fn(&str) -> Box<dyn Sources>) -> i32 {
    modules::set(modules);
    let args = match args::parse(args).and_then(VclArgs::settled) {
        Ok(args) => args,
        Err(reason) => return refuse(args, &reason),
    };
    let sources = sources(&args.path());
    match &args.command {
        VclToolCommand::Help => out(help::text(args.topic.as_ref()).as_bytes(), 0),
        VclToolCommand::Check => check::run(&args, &*sources),
        VclToolCommand::Codes => codes::run(&args.files),
        VclToolCommand::Explain => explain::run(&args, &*sources),
        VclToolCommand::Fmt => fmt::run(&args),
        VclToolCommand::Lsp => lsp::run(&args, &*sources),
        VclToolCommand::Migrate => migrate::run(&args, &*sources),
    }
}

fn refuse(args: &[String], reason: &str) -> i32 {
    let command = args.first().filter(|word| help::is_command(word)).map(|word| format!(" {word}")).unwrap_or_default();
    print::err(format_args!("lacquer vcl{command}: {reason}\n`lacquer vcl{command} --help` says what it takes.\n"));
    1
}

/// Writes to stdout. Returns `status`, or 1 if writing fails. A reader that closes the pipe early is no failure.
pub(crate) fn out(bytes: &[u8], status: i32) -> i32 {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(reason) if reason.kind() != io::ErrorKind::BrokenPipe => {
            print::err(format_args!("lacquer vcl: stdout: {reason}\n"));
            1
        }
        _ => status,
    }
}

/// The name of a file for messages, and its text.
fn read(file: &str, sources: &dyn Sources) -> Result<(String, Vec<u8>), String> {
    if file == "-" {
        let mut text = Vec::new();
        io::stdin().lock().read_to_end(&mut text).map_err(|e| format!("stdin: {e}\n"))?;
        return Ok(("<stdin>".to_owned(), text));
    }
    // A name on the command line is tried as a path first, like any other program's, then in the vcl_path.
    let here = if file.starts_with('/') {
        file.to_owned()
    } else {
        std::env::current_dir().unwrap_or_default().join(file).display().to_string()
    };
    sources.read(&here).or_else(|reason| sources.read(file).map_err(|_| format!("{reason}\n")))
}

fn options(args: &VclArgs) -> CompileOptions {
    CompileOptions {
        compat: args.compat.unwrap_or_default(),
        dialect: args.dialect,
        check_regex: Some(vcl_regex::check),
        optimise: !args.plain,
        labels: args.labels.clone(),
        stores: args.stores.clone(),
        modules: modules::all(),
        ..CompileOptions::default()
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer migrate`: what a configuration of nginx, Apache or squid asks of a cache, as VCL and a command line; and the start lines of
//! Varnish's own files. What has no counterpart is refused by its name and place, never left out in silence.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod account;
mod apache;
mod compare;
mod fates;
mod hitch;
mod migrated;
mod nginx;
mod options;
mod regex;
mod source;
mod squid;
mod varnish;
mod vcl;

use ::vcl as vcl_compiler;

use migrated::{MigrateLevel, Migrated};
pub use options::TOOL;
use options::{From, MigrateOptions, parse};
use source::{BoundedFiles, DiskFiles, FileSource, OneText};
use tables::Compat;
use tables::vmods::Modules;
use toolkit::print;

/// `HOST:PORT` or `[HOST]:PORT` in two.
fn split_address(text: &str) -> Option<(&str, &str)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    (!host.is_empty() && port.parse::<u16>().is_ok()).then_some((host, port))
}

/// Runs `args`, the words after `lacquer migrate`. `modules` are those that VCL and `-E` can name.
pub fn main(args: &[String], modules: Modules) -> i32 {
    match args.iter().position(|arg| arg == "--compare") {
        Some(at) => compare::main(&[&args[..at], &args[at + 1..]].concat()),
        None => TOOL.main(args, parse, |options| run(&options, modules)),
    }
}

/// Translates a configuration of one file, as the fuzz target does.
///
/// # Errors
/// The tool's: the text isn't one of that kind, or what came of it doesn't compile.
pub fn translate(kind: &str, text: String, modules: Modules) -> Result<String, String> {
    let options = parse(&[kind.to_owned(), OneText::NAME.to_owned()])?.ok_or("no kind is named")?;
    let migrated = migrate(&options, &OneText(text), modules)?;
    Ok(verified(&options, migrated, modules)?.vcl)
}

fn run(options: &MigrateOptions, modules: Modules) -> Result<i32, String> {
    let migrated = migrate(options, &DiskFiles, modules).and_then(|migrated| verified(options, migrated, modules))?;
    if let Some(dir) = &options.out {
        migrated.write(dir).map_err(|error| format!("{dir}: {error}"))?;
    }
    match (options.is_report, options.is_json) {
        (true, true) => print::out(format_args!("{:#}\n", migrated.account.json())),
        (true, false) => print::foreign(migrated.account.text()),
        (false, true) => print::out(format_args!("{:#}\n", migrated.json())),
        (false, false) => {
            if options.out.is_none() {
                print::foreign(migrated.text());
            }
            migrated.notes.iter().for_each(|note| print::foreign_err(format_args!("{note}\n")));
            print::err(format_args!("{}; --report lists them\n", migrated.account.summary()));
        }
    }
    Ok(i32::from(migrated.notes.iter().any(|note| note.level == MigrateLevel::Refused)))
}

fn migrate(options: &MigrateOptions, files: &dyn FileSource, modules: Modules) -> Result<Migrated, String> {
    let files = &BoundedFiles::new(files);
    let (host, port) = split_address(&options.origin).ok_or_else(|| format!("--origin {}", options.origin))?;
    let mut migrated = match options.from {
        From::Nginx => nginx::migrate(&options.file, (host, port), files),
        From::Apache => apache::migrate(&options.file, (host, port), files),
        From::Squid => squid::migrate(&options.file, files),
        From::Varnish => {
            varnish::migrate(&[std::slice::from_ref(&options.file), &options.more].concat(), files, modules)
        }
        From::Hitch => hitch::migrate(&options.file, files),
    }?;
    migrated.sources = files.seen();
    migrated.close();
    Ok(migrated)
}

/// The result, once its VCL has compiled.
fn verified(options: &MigrateOptions, migrated: Migrated, modules: Modules) -> Result<Migrated, String> {
    if migrated.is_start_line {
        return Ok(migrated);
    }
    compile(&migrated.vcl, modules).map_err(|errors| {
        let first = errors.lines().next().unwrap_or_default();
        format!("{}: the VCL that came of it doesn't compile: {first}", options.file)
    })?;
    Ok(migrated)
}

fn compile(vcl: &str, modules: Modules) -> Result<(), String> {
    let options = vcl_compiler::CompileOptions {
        compat: Compat::chosen(None)?,
        check_regex: Some(vcl_regex::check),
        modules,
        lazy_hosts: true,
        ..vcl_compiler::CompileOptions::default()
    };
    let compiled = vcl_compiler::compile("migrated", vcl.as_bytes(), &vcl_compiler::NoSources, &options);
    compiled.map(|_| ()).map_err(|errors| errors.to_string())
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: BSD-2-Clause
//! The compiler of the Varnish configuration language, from source text to bytecode. It does no IO except through
//! [`Sources`].

mod acls;
mod atom;
mod backend_tls;
mod backend_via;
mod backends;
mod by_release;
mod call;
mod check;
mod code;
mod constants;
mod diag;
mod dialect;
mod emit;
mod expr;
pub mod fold;
pub mod format;
mod hint;
mod input;
mod ir;
mod lean;
mod link;
mod lint;
pub mod listing;
mod names;
mod odd;
mod optimise;
pub mod outline;
mod own_listeners;
mod personal;
pub mod program;
mod restarts;
mod source;
mod source_map;
pub mod statements;
mod stmt;
mod symbols;
mod token;
mod top;
mod units;
mod vcc;

use std::sync::LazyLock;

use tables::Compat;

pub use code::{About, DiagnosticCode, PREAMBLE};
pub use diag::{Diagnostic, DiagnosticSeverity, Diagnostics, FileSpan, Fix};
pub use dialect::{Detection, Migration, MigrationNote, detect, migrate};
pub use odd::{ascii_edits, to_ascii, to_ascii_in_place};
pub use program::Program;
pub use source::{MAIN, NoSources, Recorder, SourceAnswer, SourceBundle, Sources, TlsFileKind};
pub use tables::dialects::Dialect;
pub use tables::vmods::Modules;

/// Checks a pattern. Returns the error, or for a valid pattern the part of it that can never match.
pub type RegexCheck = fn(&[u8]) -> Result<Option<&'static str>, String>;

#[derive(Debug, Clone)]
pub struct CompileOptions {
    /// The release whose built-in VCL is appended.
    pub compat: Compat,
    /// True if `vcc_feature=+allow_inline_c` is set. `C{ ... }C` is refused either way; only the message differs.
    pub allow_inline_c: bool,
    /// `vcc_feature=+err_unref`: an unused symbol is an error instead of a warning.
    pub err_unref: bool,
    /// `vcc_feature=+unsafe_path`: `include` and `import ... from` may name absolute paths.
    pub unsafe_path: bool,
    /// Backend names may resolve to no address or to many; they are resolved again at run time (`backend_dns_lazy`).
    pub lazy_hosts: bool,
    /// The dialect of a file without `vcl 4.x;`; `None` detects it from the file's words.
    pub dialect: Option<Dialect>,
    pub stores: Vec<String>,
    /// Labels that `return (vcl(label))` may name.
    pub labels: Vec<String>,
    /// `None` accepts all patterns; errors then appear on loading.
    pub check_regex: Option<RegexCheck>,
    pub modules: Modules,
    /// The built-in VCL to append; `None` = [`builtin`].
    pub builtin: Option<String>,
    /// Keeps the sources' text in the program (`vcl.show`, `-C`).
    pub keep_sources: bool,
    /// Maximum number of errors to report. After each but the last, compiling continues with the next declaration.
    pub max_errors: usize,
    /// Optimises the bytecode for speed. Behaviour and log records are the same either way.
    pub optimise: bool,
}

#[cfg(not(test))]
const NO_MODULES: Modules = Modules(&[]);
#[cfg(test)]
const NO_MODULES: Modules = tests::modules::MODULES;

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions {
            compat: Compat::default(),
            allow_inline_c: false,
            err_unref: true,
            unsafe_path: true,
            lazy_hosts: false,
            dialect: None,
            stores: Vec::new(),
            labels: Vec::new(),
            check_regex: None,
            modules: NO_MODULES,
            builtin: None,
            keep_sources: true,
            max_errors: 1,
            optimise: true,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Compiled {
    pub program: Program,
    pub warnings: Diagnostics,
}

/// Compiles `text`, called `name` in messages (`<vcl.inline>` for text from the CLI).
///
/// # Errors
/// The errors, and the warnings up to the last of them.
pub fn compile(
    name: &str,
    text: &[u8],
    sources: &dyn Sources,
    options: &CompileOptions,
) -> Result<Compiled, Diagnostics> {
    let mut vcc = vcc::Vcc::new(sources, options);
    let stopped = run(&mut vcc, name, text);
    match vcc.recover(stopped).and_then(|()| vcc.unfailed()) {
        Ok(()) => {
            vcc.link().map_err(|_| Diagnostic::error(DiagnosticCode::Internal, "VCL compiler internal error\n").into())
        }
        Err(vcc::CompileStopped) => Err(Diagnostics(vcc.found)),
    }
}

fn run(vcc: &mut vcc::Vcc<'_>, name: &str, text: &[u8]) -> vcc::VccResult {
    let mut builtin = vcc.options.builtin.clone().unwrap_or_else(|| builtin(vcc.options.compat).to_owned());
    vcc.note_builtin_subs(builtin.as_bytes());
    let mut sources = Vec::new();
    match dialect::translate(name, text, vcc.outside, vcc.options, &mut sources) {
        Ok(Some(translation)) => vcc.read_translated(sources, translation)?,
        Ok(None) => {
            let kind = if name.starts_with('<') { "vcl.inline" } else { "file" };
            vcc.read(name, kind, text.to_vec(), None, false)?;
            vcc.end_text(0);
        }
        Err(fail) => {
            (vcc.sources, vcc.draft) = (sources, fail);
            return Err(vcc::CompileStopped);
        }
    }
    if vcc.speaks_of_refresh() {
        builtin.push_str(REFRESH);
        vcc.note_builtin_subs(builtin.as_bytes());
    }
    vcc.read("<builtin>", "builtin", builtin.into_bytes(), None, true)?;
    vcc.program()?;
    // Skipped declarations may contain the missing names.
    vcc.unfailed()?;
    vcc.check()?;
    vcc.unfailed()?;
    if vcc.program.default_backend.is_none() {
        vcc.hint(
            "Declare one: backend default { .host = \"127.0.0.1\"; .port = \"8080\"; }, or `backend default none;`.",
        );
        let text = "No backends or directors found in VCL program, at least one is necessary.\n";
        return vcc.fail_nowhere(DiagnosticCode::NoBackend, text);
    }
    vcc.check_own_backends()?;
    vcc.lint();
    Ok(())
}

pub const UNUSED: &str = "Use it or delete it; with the parameter vcc_err_unref=off this is a warning.";

/// Our built-in VCL. Under both releases it checks request targets and methods as 9.0's does.
pub fn builtin(compat: Compat) -> &'static str {
    static TEXTS: [LazyLock<String>; 2] =
        [LazyLock::new(|| builtin_of(Compat::V7_1)), LazyLock::new(|| builtin_of(Compat::V9))];
    match compat {
        Compat::V7_1 => &TEXTS[0],
        Compat::V9 => &TEXTS[1],
    }
}

fn builtin_of(compat: Compat) -> String {
    let text = include_str!("builtin.vcl").replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    match compat {
        Compat::V7_1 => text,
        Compat::V9 => text.replace(EMPTY_RANGE, include_str!("builtin_range.vcl")) + REFRESH,
    }
}

/// The hook of 7.6 as 7.1 has it: a `Content-Range` that doesn't belong to its status fails the fetch.
const EMPTY_RANGE: &str = "# For VCL of later releases.\nsub vcl_beresp_range {\n}\n";
const REFRESH: &str = include_str!("builtin_refresh.vcl");

/// The text between the braces of one of its subroutines.
pub(crate) fn builtin_sub(name: &str) -> &'static str {
    let text = builtin(Compat::V7_1);
    let from = text.find(&format!("sub {name} {{\n")).expect("a subroutine of builtin.vcl") + name.len() + 6;
    let to = text[from..].find("\n}\n").expect("it ends") + from + 1;
    &text[from..to]
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: BSD-2-Clause
//! The Varnish configuration language, from source text down to bytecode. No IO besides what [`Sources`] gives.

mod acls;
mod atom;
mod backend_tls;
mod backends;
mod call;
mod check;
mod code;
mod diag;
mod dialect;
mod emit;
mod expr;
pub mod format;
mod hint;
mod input;
mod ir;
mod link;
mod lint;
pub mod listing;
mod odd;
mod optimise;
pub mod outline;
mod own_listeners;
mod personal;
pub mod program;
mod restarts;
mod source;
pub mod statements;
mod stmt;
mod symbols;
mod token;
mod top;
mod units;
mod vcc;

use std::sync::LazyLock;

pub use code::{About, Code, PREAMBLE};
pub use diag::{Diagnostic, Diagnostics, Fix, Place, Severity};
pub use dialect::{Detection, Migration, Note, detect, migrate};
pub use odd::{ascii_edits, to_ascii, to_ascii_in_place};
pub use program::Program;
pub use source::{Answer, MAIN, NoSources, Recorder, SourceBundle, Sources, TlsFileKind};
pub use tables::dialects::Dialect;
pub use tables::vmods::Modules;

/// Says what is wrong with a pattern; of one that compiles, what in it can never match.
pub type RegexCheck = fn(&[u8]) -> Result<Option<&'static str>, String>;

/// How to compile.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether `C{ ... }C` would be allowed (`vcc_feature=+allow_inline_c`); it is refused either way, with another text.
    pub allow_inline_c: bool,
    /// `vcc_feature=+err_unref`: an unused symbol is an error, else a warning.
    pub err_unref: bool,
    /// `vcc_feature=+unsafe_path`: `include` and `import ... from` may name absolute paths.
    pub unsafe_path: bool,
    /// A backend's name may have no address now, or many: it is looked up again at run time (`backend_dns_lazy`).
    pub lazy_hosts: bool,
    /// The dialect of a file without `vcl 4.x;`; `None` = as its words say.
    pub dialect: Option<Dialect>,
    /// Names of the stores (`-s`).
    pub stores: Vec<String>,
    /// Names of the labels that `return (vcl(label))` may name.
    pub labels: Vec<String>,
    /// Says what is wrong with a pattern; `None` accepts all, and loading finds out.
    pub check_regex: Option<RegexCheck>,
    /// The modules that `import` finds.
    pub modules: Modules,
    /// The built-in VCL to append; `None` = ours ([`builtin`]).
    pub builtin: Option<String>,
    /// Whether this compile is to keep the sources' text in the program (`vcl.show`, `-C`).
    pub keep_sources: bool,
    /// Most errors that are looked for: behind one that isn't the last, compiling goes on with the next declaration.
    pub max_errors: usize,
    /// Whether the bytecode is rearranged to run faster; it does and logs the same either way.
    pub optimise: bool,
}

/// What an import finds when nobody says it.
#[cfg(not(test))]
const NO_MODULES: Modules = Modules(&[]);
#[cfg(test)]
const NO_MODULES: Modules = tests::modules::MODULES;

impl Default for Options {
    fn default() -> Self {
        Options {
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

/// A VCL that compiled.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The program.
    pub program: Program,
    /// Warnings.
    pub warnings: Diagnostics,
}

/// Compiles `text`, called `name` in messages (`<vcl.inline>` for text from the CLI).
///
/// # Errors
/// What is wrong and where: warnings up to the last error that was looked for, and the errors.
pub fn compile(name: &str, text: &[u8], sources: &dyn Sources, options: &Options) -> Result<Compiled, Diagnostics> {
    let mut vcc = vcc::Vcc::new(sources, options);
    let stopped = run(&mut vcc, name, text);
    match vcc.recover(stopped).and_then(|()| vcc.unfailed()) {
        Ok(()) => vcc.link().map_err(|_| Diagnostic::error(Code::Internal, "VCL compiler internal error\n").into()),
        Err(vcc::CompileStopped) => Err(Diagnostics(vcc.found)),
    }
}

fn run(vcc: &mut vcc::Vcc<'_>, name: &str, text: &[u8]) -> vcc::R {
    let mut builtin = vcc.options.builtin.clone().unwrap_or_else(|| builtin().to_owned());
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
        builtin.push_str(include_str!("builtin_refresh.vcl"));
        vcc.note_builtin_subs(builtin.as_bytes());
    }
    vcc.read("<builtin>", "builtin", builtin.into_bytes(), None, true)?;
    vcc.program()?;
    // What was passed over may be what is missing.
    vcc.unfailed()?;
    vcc.check()?;
    vcc.unfailed()?;
    if vcc.program.default_backend.is_none() {
        vcc.hint(
            "Declare one: backend default { .host = \"127.0.0.1\"; .port = \"8080\"; }, or `backend default none;`.",
        );
        let text = "No backends or directors found in VCL program, at least one is necessary.\n";
        return vcc.fail_nowhere(Code::NoBackend, text);
    }
    vcc.check_own_backends()?;
    vcc.lint();
    Ok(())
}

impl Diagnostics {
    /// The text as the CLI answers it, with status 106.
    pub fn for_cli(&self) -> String {
        let text = self.to_string();
        let end = if text.ends_with('\n') { "" } else { "\n" };
        format!(
            "Message from VCC-compiler:\n{text}{end}Running VCC-compiler failed, exited with 2\nVCL compilation failed"
        )
    }
}

/// What to do about a name that nothing uses.
pub const UNUSED: &str = "Use it or delete it; with the parameter vcc_err_unref=off this is a warning.";

/// Our built-in VCL. It behaves as 7.1's, but for targets and methods, which it judges as 9.0's does.
pub fn builtin() -> &'static str {
    static TEXT: LazyLock<String> =
        LazyLock::new(|| include_str!("builtin.vcl").replace("@VERSION@", env!("CARGO_PKG_VERSION")));
    &TEXT
}

/// What stands between the braces of one of its subroutines.
pub(crate) fn builtin_sub(name: &str) -> &'static str {
    let text = builtin();
    let from = text.find(&format!("sub {name} {{\n")).expect("a subroutine of builtin.vcl") + name.len() + 6;
    let to = text[from..].find("\n}\n").expect("it ends") + from + 1;
    &text[from..to]
}

#[cfg(test)]
mod tests;

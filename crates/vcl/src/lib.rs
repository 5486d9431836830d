// SPDX-License-Identifier: BSD-2-Clause
//! The Varnish configuration language, from source text down to bytecode. No IO besides what [`Sources`] gives.

pub mod program;
mod source;

pub use program::Program;
pub use source::{Answer, Recorder, SourceBundle, Sources};

/// How to compile.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether `C{ ... }C` would be allowed (`vcc_feature=+allow_inline_c`); it is refused either way, with another text.
    pub allow_inline_c: bool,
    /// `vcc_feature=+err_unref`: an unused symbol is an error, else a warning.
    pub err_unref: bool,
    /// `vcc_feature=+unsafe_path`: `include` and `import ... from` may name absolute paths.
    pub unsafe_path: bool,
    /// The version of the language for which files are, when they don't say (`-b` uses it): 40 or 41.
    pub syntax: u8,
    /// Names of the stores (`-s`).
    pub stores: Vec<String>,
    /// The built-in VCL to append; `None` = ours ([`builtin`]).
    pub builtin: Option<String>,
    /// Whether this compile is to keep the sources' text in the program (`vcl.show`, `-C`).
    pub keep_sources: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            allow_inline_c: false,
            err_unref: true,
            unsafe_path: true,
            syntax: 41,
            stores: Vec::new(),
            builtin: None,
            keep_sources: true,
        }
    }
}

/// A VCL that compiled.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The program.
    pub program: Program,
    /// Warnings as the CLI shows them; empty when there are none.
    pub warnings: String,
}

/// Why a VCL didn't compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics {
    /// The text as varnishd's CLI shows it, last lines included.
    pub text: String,
}

/// Compiles `text`, called `name` in messages (`<vcl.inline>` for text from the CLI).
///
/// # Errors
/// What is wrong and where.
pub fn compile(name: &str, text: &str, sources: &dyn Sources, options: &Options) -> Result<Compiled, Diagnostics> {
    let _ = (name, text, sources, options);
    todo!()
}

/// Our built-in VCL, same behaviour as 7.1's.
pub fn builtin() -> &'static str {
    ""
}

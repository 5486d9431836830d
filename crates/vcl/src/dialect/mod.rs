// SPDX-License-Identifier: BSD-2-Clause
//! VCL from before 4.0: detects a file's dialect, and translates the program to VCL 4.1 with a note for each change.
//!
//! Running and migrating share one translation: the output of `lacquer vcl migrate` is the program that runs, compiled
//! like any 4.1 file. Each piece of it is mapped to its origin, so messages and traces refer to the file as written.
//! Implicit behaviour of an old release (its built-in VCL, its rules for storing) is written out in VCL.

mod assign;
mod ban;
mod ctx;
mod cursor;
mod decl;
mod detect;
mod dns;
mod expr;
mod flat;
mod hint;
mod languages;
mod late;
mod leave;
mod names;
mod out;
mod policy;
mod stmt;
mod subs;
mod walk;

use tables::dialects::Dialect;

use crate::diag::DiagnosticDraft;
use crate::token::{BYTE_ORDER_MARK, VclSource};
use crate::{CompileOptions, Diagnostics, Sources};

pub use detect::Detection;
pub(crate) use out::SourceMap;

/// A change made by a migration, or a feature that it can't keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationNote {
    pub source: String,
    /// The line in the file; 0 refers to the whole file.
    pub line: u32,
    pub old: String,
    /// The translated text; empty if it was deleted.
    pub new: String,
    pub reason: String,
    /// True if the program's behaviour may change.
    pub warning: bool,
}

#[derive(Clone, Debug)]
pub struct Migration {
    /// The original dialect; `None` if it is 4.x already.
    pub dialect: Option<Dialect>,
    /// The program, with includes in their places.
    pub text: Vec<u8>,
    pub notes: Vec<MigrationNote>,
}

/// The result of a translation step, or the reason why a program can't be translated.
pub(crate) type DialectResult<T = ()> = Result<T, DiagnosticDraft>;

pub(crate) struct Translation {
    pub text: Vec<u8>,
    pub map: SourceMap,
    pub notes: Vec<MigrationNote>,
    pub dialect: Dialect,
}

/// Reads a program into `sources` and translates it. `None` if it is VCL 4.x or its dialect is unknown; then nothing
/// was changed.
pub(crate) fn translate(
    name: &str,
    text: &[u8],
    outside: &dyn Sources,
    options: &CompileOptions,
    sources: &mut Vec<VclSource>,
) -> DialectResult<Option<Translation>> {
    if begins_with_version(text) {
        return Ok(None);
    }
    let items = flat::load(name, text, outside, options, sources)?;
    let found = options.dialect.map_or_else(|| detect::detect(&items, sources), Detection::Old);
    found.dialect().map(|dialect| walk::translate(dialect, &items, sources)).transpose()
}

/// Detects the dialect of a text and its includes, even if they are damaged.
pub fn detect(name: &str, text: &[u8], outside: &dyn Sources, options: &CompileOptions) -> Detection {
    if begins_with_version(text) {
        return Detection::New;
    }
    options.dialect.map_or_else(
        || {
            let mut sources = Vec::new();
            let items = flat::load_patiently(name, text, outside, options, &mut sources);
            detect::detect(&items, &sources)
        },
        Detection::Old,
    )
}

fn begins_with_version(text: &[u8]) -> bool {
    let mut at = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    while at < text.len() {
        match &text[at..] {
            [c, ..] if c.is_ascii_whitespace() => at += 1,
            [b'#', ..] | [b'/', b'/', ..] => {
                at += text[at..].iter().position(|c| *c == b'\n').unwrap_or(text.len() - at);
            }
            [b'/', b'*', ..] => match text[at + 2..].windows(2).position(|w| w == b"*/") {
                Some(n) => at += n + 4,
                None => return false,
            },
            rest => {
                return rest.starts_with(b"vcl") && rest.get(3).is_some_and(|c| c.is_ascii_whitespace() || *c == b'/');
            }
        }
    }
    false
}

/// The hint for a well-known C file, with its replacement.
pub(crate) fn known_file(path: &str) -> Option<&'static str> {
    let file = path.rsplit('/').next().unwrap_or(path);
    KNOWN_FILES.iter().find(|(name, _)| *name == file).map(|(_, hint)| *hint)
}

const KNOWN_FILES: [(&str, &str); 1] = [(
    "accept-language.vcl",
    "This is the well-known C file that picks a language from Accept-Language. C isn't compiled here. In its place take the \
     file of that name that comes with Lacquer: remove this one, set req.http.X-Languages to the site's languages, and \
     `call rewrite_accept_language;` where the C called vcl_rewrite_accept_language(sp). It sets the same \
     X-Varnish-Accept-Language.",
)];

/// Translates a program of an old dialect to VCL 4.1.
///
/// # Errors
/// The first construct without a counterpart, and its place.
pub fn migrate(
    name: &str,
    text: &[u8],
    outside: &dyn Sources,
    options: &CompileOptions,
) -> Result<Migration, Diagnostics> {
    let mut sources = Vec::new();
    match translate(name, text, outside, options, &mut sources) {
        Ok(Some(t)) => Ok(Migration { dialect: Some(t.dialect), text: t.text, notes: t.notes }),
        Ok(None) => Ok(Migration { dialect: None, text: text.to_vec(), notes: Vec::new() }),
        Err(fail) => Err(fail.error(&sources).into()),
    }
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: BSD-2-Clause
//! VCL from before 4.0: which dialect a file is in, and the same program in VCL 4.1 with a note for each change.
//!
//! One translation serves running and migrating: what `lacquer vcl migrate` prints is what runs, compiled like any 4.1
//! file; each stretch of it knows the place it comes from, so messages and traces speak of the file as it was written.
//! What an old release did by itself (its built-in VCL, its rules for what is stored) is written out in VCL.

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

use crate::diag::Draft;
use crate::token::{BYTE_ORDER_MARK, Source};
use crate::{Diagnostics, Options, Sources};

pub use detect::Detection;
pub(crate) use out::SourceMap;

/// A change that a migration made, or something it can't keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The file.
    pub source: String,
    /// The line in it; 0 = of the whole file.
    pub line: u32,
    /// What it said.
    pub old: String,
    /// What it says now; empty = nothing.
    pub new: String,
    /// Why.
    pub reason: String,
    /// Whether the program may now act differently.
    pub warning: bool,
}

/// A program in VCL 4.1.
#[derive(Clone, Debug)]
pub struct Migration {
    /// What it was written in; none = it is 4.x already.
    pub dialect: Option<Dialect>,
    /// The program, its includes in their places.
    pub text: Vec<u8>,
    /// What was changed, in order.
    pub notes: Vec<Note>,
}

/// What it gives, or why a program can't be translated.
pub(crate) type R<T = ()> = Result<T, Draft>;

/// An old program in VCL 4.1.
pub(crate) struct Translation {
    pub text: Vec<u8>,
    pub map: SourceMap,
    pub notes: Vec<Note>,
    pub dialect: Dialect,
}

/// Reads a program into `sources` and translates it; `None` = it is new, or can't be told, and nothing was done.
pub(crate) fn translate(
    name: &str,
    text: &[u8],
    outside: &dyn Sources,
    options: &Options,
    sources: &mut Vec<Source>,
) -> R<Option<Translation>> {
    if begins_with_version(text) {
        return Ok(None);
    }
    let items = flat::load(name, text, outside, options, sources)?;
    let found = options.dialect.map_or_else(|| detect::detect(&items, sources), Detection::Old);
    found.dialect().map(|dialect| walk::translate(dialect, &items, sources)).transpose()
}

/// What the words of a text and of what it includes say of its dialect, however damaged it is.
pub fn detect(name: &str, text: &[u8], outside: &dyn Sources, options: &Options) -> Detection {
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

/// Whether the first thing a text says is its version.
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

/// Files of C that were passed around, and what does their work here.
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
/// What has no counterpart, and where.
pub fn migrate(name: &str, text: &[u8], outside: &dyn Sources, options: &Options) -> Result<Migration, Diagnostics> {
    let mut sources = Vec::new();
    match translate(name, text, outside, options, &mut sources) {
        Ok(Some(t)) => Ok(Migration { dialect: Some(t.dialect), text: t.text, notes: t.notes }),
        Ok(None) => Ok(Migration { dialect: None, text: text.to_vec(), notes: Vec::new() }),
        Err(fail) => Err(fail.error(&sources).into()),
    }
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: BSD-2-Clause
//! Uses of a name in all texts that belong together.

use std::ops::Range;

use tables::vclsubs::{Method, Return};
use vcl::outline::{DeclarationKind, DottedName};

use super::know;
use crate::texts::OpenText;

/// The meaning of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A declaration in a text.
    Declared(DeclarationKind, String),
    /// A variable of the language, in lower case.
    Variable(String),
}

/// The name at byte `at` of the first of `parts`: its range and its meaning.
pub(super) fn target(parts: &[OpenText], at: usize) -> Option<(Range<usize>, Target)> {
    let part = parts.first()?;
    let touches = |name: &&DottedName| name.at.start <= at && at <= name.at.end;
    let name = part.outline.names(&part.text).into_iter().find(|name| touches(&name) && !name.inner)?;
    let text = |range: &Range<usize>| String::from_utf8_lossy(&part.text[range.clone()]).into_owned();
    let first = text(&name.first);
    if is_action(part, &name) {
        return None;
    }
    let declared = know::declaration(parts, &first).map(|(_, d)| d.kind);
    match declared {
        Some(kind) if name.at == name.first || matches!(kind, DeclarationKind::Object | DeclarationKind::Import) => {
            Some((name.first, Target::Declared(kind, first)))
        }
        _ if name.at != name.first => Some((name.at.clone(), Target::Variable(text(&name.at).to_ascii_lowercase()))),
        _ => None,
    }
}

/// True if a name is the word of `return (...)`.
fn is_action(part: &OpenText, name: &DottedName) -> bool {
    let word = &part.text[name.at.clone()];
    Return::ALL.iter().any(|action| action.name().as_bytes() == word)
        && part
            .outline
            .cursor_context(&part.text, name.at.start)
            .before
            .ends_with(&["return".to_owned(), "(".to_owned()])
}

/// The ranges of `target` in `part`, including its declarations.
pub(super) fn uses(part: &OpenText, target: &Target) -> Vec<Range<usize>> {
    let names = part.outline.names(&part.text).into_iter().filter(|name| !name.inner);
    let is = |name: &DottedName| match target {
        Target::Declared(kind, wanted) => {
            part.text[name.first.clone()] == *wanted.as_bytes()
                && (name.at == name.first || matches!(kind, DeclarationKind::Object | DeclarationKind::Import))
                && !is_action(part, name)
        }
        Target::Variable(wanted) => part.text[name.at.clone()].eq_ignore_ascii_case(wanted.as_bytes()),
    };
    let found = names.filter(is).map(|name| match target {
        Target::Declared(..) => name.first,
        Target::Variable(_) => name.at,
    });
    found.collect()
}

pub(super) fn declarations(part: &OpenText, target: &Target) -> Vec<Range<usize>> {
    let Target::Declared(_, name) = target else { return Vec::new() };
    part.outline.declarations.iter().filter(|d| d.name == *name).map(|d| d.at.clone()).collect()
}

/// The old name of `target` if it can be renamed to `new`, else the reason why it can't.
pub(super) fn renamed(parts: &[OpenText], target: &Target, new: &str) -> Result<String, String> {
    const WORDS: [&str; 21] = [
        "acl", "backend", "bereq", "beresp", "call", "else", "false", "if", "import", "include", "new", "now", "obj",
        "probe", "req", "resp", "return", "set", "sub", "true", "unset",
    ];
    let Target::Declared(kind, old) = target else {
        return Err("This name is the language's own.".to_owned());
    };
    if *kind == DeclarationKind::Sub && (old.starts_with("vcl_") || Method::ALL.iter().any(|m| m.sub_name() == old)) {
        return Err(format!("{old} is called by the server: its name is the language's own."));
    }
    let plain = new.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-'));
    if !plain || !new.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(format!("{new:?} is no name: a letter, then letters, digits, _ and -."));
    }
    if WORDS.contains(&new) || new.starts_with("vcl_") {
        return Err(format!("{new} is a word of the language."));
    }
    if new != old && know::declaration(parts, new).is_some() {
        return Err(format!("{new} is declared already."));
    }
    Ok(old.clone())
}

// SPDX-License-Identifier: BSD-2-Clause
//! Messages as values, and varnishd's text for them: `('<vcl.inline>' Line 3 Pos 9) -- (Pos 12)`, the source line, and
//! a line of marks below it.
//!
//! A message under construction is a [`DiagnosticDraft`]; its places are byte ranges of numbered sources. [`DiagnosticDraft::error`] and
//! [`DiagnosticDraft::warning`] convert it to a [`Diagnostic`], whose places are in the files as written.

use std::fmt::{self, Write};
use std::ops::Range;

use crate::code::DiagnosticCode;
use crate::token::{Token, VclSource};

/// A byte range of a source: source number, start, end.
pub(crate) type Span = (u32, u32, u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiagnosticSeverity {
    Error,
    /// The VCL loads, but may not do what its author expects.
    Warning,
}

/// A byte range of a file as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSpan {
    /// The file, as messages name it.
    pub source: String,
    pub at: Range<usize>,
    /// Line of the first byte, from 1.
    pub line: u32,
    /// Column of the first byte, from 1; a tab advances to the next multiple of eight.
    pub column: u32,
}

/// An automatic correction of a mistake that has only one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix<At = FileSpan> {
    pub title: String,
    /// Ranges, which don't overlap, and their replacements.
    pub edits: Vec<(At, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: DiagnosticSeverity,
    pub code: DiagnosticCode,
    /// The message, in lines without places.
    pub message: String,
    /// `None` if the message isn't about one place.
    pub place: Option<FileSpan>,
    /// Related places, each with its own text.
    pub labels: Vec<(String, FileSpan)>,
    pub hint: Option<String>,
    pub fix: Option<Fix>,
    /// The complete message as varnishd's compiler writes it.
    pub text: String,
}

impl Diagnostic {
    pub fn error(code: DiagnosticCode, message: &str) -> Diagnostic {
        DiagnosticDraft::new(code, message).error(&[])
    }

    /// Turns a warning into an error. `hint` is used unless it has one.
    pub fn into_error(mut self, hint: &str) -> Diagnostic {
        let hint = self.hint.get_or_insert_with(|| hint.to_owned());
        if let Some(text) = self.text.strip_suffix(JUST_A_WARNING) {
            self.text = text.to_owned() + &hint_line(hint);
        }
        self.severity = DiagnosticSeverity::Error;
        self
    }
}

/// Last line of a warning in varnishd's text.
const JUST_A_WARNING: &str = "(That was just a warning)\n";

/// Last line of an error with a hint.
fn hint_line(hint: &str) -> String {
    format!("Hint: {hint}\n")
}

/// Errors and warnings in the order in which they were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

/// Writes varnishd's text, which ends with the first error.
impl fmt::Display for Diagnostics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for one in &self.0 {
            out.write_str(&one.text)?;
            if one.severity == DiagnosticSeverity::Error {
                break;
            }
        }
        Ok(())
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(one: Diagnostic) -> Diagnostics {
        Diagnostics(vec![one])
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Token(Span),
    Range(Span, Span),
    /// A whole line of a source (source, line), shown before the text.
    Line(u32, u32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hint {
    pub text: String,
    pub fix: Option<Fix<Span>>,
}

impl Hint {
    pub fn with(text: impl Into<String>, fix: impl Into<Option<Fix<Span>>>) -> Hint {
        Hint { text: text.into(), fix: fix.into() }
    }
}

impl<T: Into<String>> From<T> for Hint {
    fn from(text: T) -> Hint {
        Hint { text: text.into(), fix: None }
    }
}

impl Fix<Span> {
    pub fn one(title: impl Into<String>, at: Span, new: impl Into<String>) -> Self {
        Fix { title: title.into(), edits: vec![(at, new.into())] }
    }

    pub fn replace(at: Span, new: &str) -> Self {
        Fix::one(format!("Replace by {new}"), at, new)
    }

    pub fn insert((src, _, end): Span, new: &str) -> Self {
        Fix::one(format!("Insert {}", new.trim()), (src, end, end), new)
    }

    pub fn delete(at: Span, old: &str) -> Self {
        Fix::one(format!("Delete {old}"), at, "")
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DiagnosticDraft {
    code: Option<DiagnosticCode>,
    /// Pieces of text, each with the place that is shown after it.
    parts: Vec<(String, Option<Mark>)>,
    hint: Option<String>,
    fix: Option<Fix<Span>>,
}

impl DiagnosticDraft {
    pub fn new(code: DiagnosticCode, text: impl Into<String>) -> DiagnosticDraft {
        DiagnosticDraft { code: Some(code), parts: vec![(text.into(), None)], hint: None, fix: None }
    }

    pub fn at(code: DiagnosticCode, text: impl Into<String>, span: Span) -> DiagnosticDraft {
        let mut draft = DiagnosticDraft::new(code, text);
        draft.show(span);
        draft
    }

    pub fn line(code: DiagnosticCode, text: String, source: u32, line: u32) -> DiagnosticDraft {
        let mut draft = DiagnosticDraft::new(code, text);
        draft.mark(Mark::Line(source, line));
        draft
    }

    /// Sets the kind of mistake. The first call wins: it is the most specific.
    pub fn code(&mut self, code: DiagnosticCode) {
        self.code.get_or_insert(code);
    }

    pub fn is_about_a_name(&self) -> bool {
        self.code.is_some_and(|code| code.is_unknown_name() || code == DiagnosticCode::WrongKind)
    }

    pub fn say(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some((words, None)) => words.push_str(text),
            _ => self.parts.push((text.to_owned(), None)),
        }
    }

    fn mark(&mut self, mark: Mark) {
        match self.parts.last_mut() {
            Some((_, place @ None)) => *place = Some(mark),
            _ => self.parts.push((String::new(), Some(mark))),
        }
    }

    pub fn show(&mut self, span: Span) {
        self.mark(Mark::Token(span));
    }

    pub fn show_range(&mut self, first: Span, last: Span) {
        self.mark(Mark::Range(first, last));
    }

    /// Sets the hint. The first call wins: it is the most specific.
    pub fn hint(&mut self, hint: Hint) {
        if self.hint.is_none() {
            self.hint = Some(hint.text);
            self.fix = hint.fix;
        }
    }

    pub fn has_hint(&self) -> bool {
        self.hint.is_some()
    }

    pub fn hinted(mut self, hint: Option<Hint>) -> DiagnosticDraft {
        hint.into_iter().for_each(|hint| self.hint(hint));
        self
    }

    /// Adds a correction to a message whose text already explains it.
    pub fn fixed(mut self, fix: Option<Fix<Span>>) -> DiagnosticDraft {
        self.fix = fix;
        self
    }

    pub fn first_place(&self) -> Option<Span> {
        self.parts.iter().find_map(|(_, mark)| match mark {
            Some(Mark::Token(span) | Mark::Range(span, _)) => Some(*span),
            Some(Mark::Line(..)) | None => None,
        })
    }

    pub fn error(self, sources: &[VclSource]) -> Diagnostic {
        let end = self.hint.as_deref().map(hint_line);
        self.finish(DiagnosticSeverity::Error, &end.unwrap_or_default(), sources)
    }

    pub fn warning(self, sources: &[VclSource]) -> Diagnostic {
        self.finish(DiagnosticSeverity::Warning, JUST_A_WARNING, sources)
    }

    /// Completes the message; `end` is the last line of varnishd's text.
    pub fn finish(self, severity: DiagnosticSeverity, end: &str, sources: &[VclSource]) -> Diagnostic {
        let (mut message, mut place, mut labels) = (Vec::new(), None, Vec::new());
        for (words, mark) in &self.parts {
            let mut said: Vec<&str> = words.lines().map(bare).filter(|line| !line.is_empty()).collect();
            let here = mark.map(|mark| place_of(sources, mark));
            let label = if here.is_some() && place.is_some() { said.pop() } else { None };
            message.append(&mut said);
            match (here, label) {
                (Some(here), Some(label)) => labels.push((printable(label.to_owned()), here)),
                (Some(here), None) => drop(place.get_or_insert(here)),
                (None, _) => {}
            }
        }
        message.dedup();
        Diagnostic {
            severity,
            code: self.code.unwrap_or(DiagnosticCode::Internal),
            message: printable(message.join("\n")),
            place,
            labels,
            text: printable(text_of(&self.parts, sources) + end),
            hint: self.hint.map(printable),
            fix: self.fix.and_then(|fix| fix_of(fix, sources)),
        }
    }
}

/// Strips the words that only introduce the place after the line.
fn bare(line: &str) -> &str {
    let line = line.trim().trim_end_matches(" at").trim_end_matches(':');
    if matches!(line, "at" | "At") { "" } else { line }
}

/// Replaces control characters: text quoted from files must not reach a terminal as commands.
fn printable(text: String) -> String {
    let is_odd = |c: char| c.is_control() && c != '\n' && c != '\t';
    if text.contains(is_odd) { text.replace(is_odd, "?") } else { text }
}

/// Renders the message as varnishd's compiler writes it.
fn text_of(parts: &[(String, Option<Mark>)], sources: &[VclSource]) -> String {
    let mut out = String::new();
    for (words, mark) in parts {
        if let Some(Mark::Line(source, line)) = mark {
            let _ = write!(out, "('{}' Line {line}) ", sources[*source as usize].name);
        }
        out.push_str(words);
        match *mark {
            Some(Mark::Token(span)) => show(&mut out, sources, span),
            Some(Mark::Range(first, last)) => show_range(&mut out, sources, first, last),
            Some(Mark::Line(..)) | None => {}
        }
    }
    out
}

fn place_of(sources: &[VclSource], mark: Mark) -> FileSpan {
    let (src, start, end) = match mark {
        Mark::Token(span) => origin_of(sources, span),
        Mark::Range(first, last) => {
            let (first, last) = ends_of(sources, first, last);
            (first.0, first.1, if first.0 == last.0 { last.2 } else { first.2 })
        }
        Mark::Line(src, line) => {
            let text = &sources[src as usize].text;
            let mut lines = text.split(|c| *c == b'\n');
            let start: usize = lines.by_ref().take(line as usize - 1).map(|line| line.len() + 1).sum();
            let line = lines.next().unwrap_or_default();
            let from = start + line.len() - line.trim_ascii_start().len();
            (src, from as u32, (start + line.trim_ascii_end().len()).max(from) as u32)
        }
    };
    let source = &sources[src as usize];
    let (from, to) = (clamp(&source.text, start), clamp(&source.text, end));
    // A range that ends at a character covers it, as a mark does.
    let is_there = source.text.get(from).is_some_and(|c| !matches!(c, b'\n' | b'\r'));
    let (line, column) = line_and_pos(&source.text, from);
    FileSpan { source: source.name.clone(), at: from..to.max(from + usize::from(is_there)), line, column }
}

/// Converts a fix to the files as written; `None` if a part of it is in text that the translation changed.
fn fix_of(fix: Fix<Span>, sources: &[VclSource]) -> Option<Fix> {
    let bytes = |(src, start, end): Span| sources[src as usize].text.get(start as usize..end as usize);
    let edit = |((src, start, end), new): (Span, String)| {
        let (src, start, end) = match &sources[src as usize].map {
            None => (src, start, end),
            Some(map) => {
                // An insertion is placed after a byte.
                let from = if start == end { start.saturating_sub(1) } else { start };
                let found = map.origin(from, end).filter(|found| bytes(*found) == bytes((src, from, end)))?;
                if start == end { (found.0, found.2, found.2) } else { found }
            }
        };
        let source = &sources[src as usize];
        let (line, column) = line_and_pos(&source.text, start as usize);
        Some((FileSpan { source: source.name.clone(), at: start as usize..end as usize, line, column }, new))
    };
    let edits = fix.edits.into_iter().map(edit).collect::<Option<Vec<_>>>()?;
    Some(Fix { title: fix.title, edits })
}

/// Maximum number of bytes quoted from a line.
const QUOTED: usize = 400;

fn line_start(text: &[u8], at: usize) -> usize {
    text[..at].iter().rposition(|c| *c == b'\n').map_or(0, |n| n + 1)
}

fn clamp(text: &[u8], at: u32) -> usize {
    (at as usize).min(text.len())
}

/// Line and column, from 1; a tab advances to the next multiple of eight.
pub(crate) fn line_and_pos(text: &[u8], at: usize) -> (u32, u32) {
    let start = line_start(text, at);
    let line = text[..start].iter().filter(|c| **c == b'\n').count() + 1;
    let pos = text[start..at].iter().fold(0u32, |pos, c| if *c == b'\t' { (pos & !7) + 8 } else { pos + 1 });
    (line as u32, pos + 1)
}

fn last_byte((_, start, end): Span) -> u32 {
    end.saturating_sub(1).max(start)
}

fn coordinate(out: &mut String, source: &VclSource, at: u32, short: bool) {
    let (line, pos) = line_and_pos(&source.text, clamp(&source.text, at));
    if short {
        let _ = write!(out, "(Pos {pos})");
    } else {
        let _ = write!(out, "('{}' Line {line} Pos {pos})", source.name);
    }
}

/// Quotes the line that begins at `start` and marks the bytes in `from..to`. A very long line is cut to the
/// surroundings of the mark.
fn quote(out: &mut String, text: &[u8], start: usize, from: u32, to: u32) {
    let (mut quoted, mut marks, mut column) = (Vec::new(), String::new(), 0usize);
    let before = (from as usize).saturating_sub(start);
    let skip = if before > QUOTED / 2 { before - QUOTED / 4 } else { 0 };
    if skip > 0 {
        quoted.extend_from_slice(b"[...]");
        marks.push_str("-----");
    }
    let line = text[start..].iter().take_while(|c| **c != b'\n').enumerate();
    for (at, c) in line.skip(skip).take(QUOTED) {
        let at = (start + at) as u32;
        let mark = if at >= from && at < to { '#' } else { '-' };
        let (c, width) = match *c {
            b'\t' => (b' ', 8 - (column & 7)),
            b'\r' => continue,
            c => (c, 1),
        };
        for _ in 0..width {
            quoted.push(c);
            marks.push(mark);
        }
        column += width;
    }
    let _ = writeln!(out, "{}\n{marks}", String::from_utf8_lossy(&quoted));
}

/// The original token for a token of translated text; the token itself if its source wasn't translated.
pub(crate) fn origin(sources: &[VclSource], token: &Token) -> Token {
    let (src, start, end) = origin_of(sources, token.span());
    Token { src, start, end, ..*token }
}

/// The original range for any range.
fn origin_of(sources: &[VclSource], span: Span) -> Span {
    let map = sources[span.0 as usize].map.as_ref();
    map.and_then(|map| map.origin(span.1, span.2)).unwrap_or(span)
}

fn show(out: &mut String, sources: &[VclSource], span: Span) {
    let (src, start, end) = origin_of(sources, span);
    let source = &sources[src as usize];
    coordinate(out, source, start, false);
    out.push('\n');
    let line = line_start(&source.text, clamp(&source.text, start));
    quote(out, &source.text, line, start, end);
    out.push('\n');
}

/// The first and last range in the files as written. If the range was assembled from several places, only the first is
/// shown.
fn ends_of(sources: &[VclSource], first: Span, last: Span) -> (Span, Span) {
    let (first, last) = (origin_of(sources, first), origin_of(sources, last));
    (first, if first.0 == last.0 && first.1 > last.1 { first } else { last })
}

fn show_range(out: &mut String, sources: &[VclSource], first: Span, last: Span) {
    let (first, last) = ends_of(sources, first, last);
    let (s1, s2) = (&sources[first.0 as usize], &sources[last.0 as usize]);
    let l1 = line_start(&s1.text, clamp(&s1.text, first.1));
    let l2 = line_start(&s2.text, clamp(&s2.text, last_byte(last)));
    let same = first.0 == last.0;
    coordinate(out, s1, first.1, false);
    if same && l1 == l2 {
        out.push_str(" -- ");
        coordinate(out, s2, last_byte(last), true);
        out.push('\n');
        quote(out, &s1.text, l1, first.1, last.2);
    } else {
        let to = if same { last.2 } else { u32::MAX };
        let next = s1.text[l1..].iter().position(|c| *c == b'\n').map_or(s1.text.len(), |n| l1 + n + 1);
        let adjacent = same && next == l2;
        if adjacent {
            out.push_str(" -- ");
            coordinate(out, s2, last_byte(last), false);
        }
        out.push('\n');
        quote(out, &s1.text, l1, first.1, to);
        if !adjacent {
            out.push_str("[...]\n");
            coordinate(out, s2, last_byte(last), false);
            out.push('\n');
        }
        quote(out, &s2.text, l2, if same { first.1 } else { 0 }, last.2);
    }
    out.push('\n');
}

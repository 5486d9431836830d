// SPDX-License-Identifier: BSD-2-Clause
//! Finds all errors of a VCL in all its files. The compiler skips the rest of a declaration after an error. This module removes the faulty
//! part and compiles again, so that all errors are reported together. `lacquer vcl check` and the language server show the same findings.

use std::borrow::Cow;
use std::ops::Range;

use tables::vclvars::VARS;
use vcl::outline::{self, Outline};
use vcl::{CompileOptions, Diagnostic, DiagnosticCode, DiagnosticSeverity, FileSpan, Fix, Sources};

use crate::args::{VclArgs, VclToolCommand};
use crate::modules;
use crate::texts::{OpenText, OpenTexts, Overlay, StrayInclude};

/// Maximum number of errors that are searched for in one VCL.
const MAX: usize = 30;
/// Name of the text that stands in for the file that includes a fragment.
const STAND_IN: &str = "<editor>";

/// Name of the backend in that text.
pub(crate) const STAND_IN_BACKEND: &str = "lacquer_lsp";

#[derive(Debug, Clone)]
pub(crate) struct LocatedDiagnostic {
    pub diagnostic: Diagnostic,
    /// `None` if the finding is about the whole VCL.
    pub location: Option<Location>,
    /// Related places, with the text for each.
    pub labels: Vec<(String, Location)>,
    pub fix: Option<Fix<Location>>,
}

impl LocatedDiagnostic {
    pub fn nowhere(diagnostic: Diagnostic) -> LocatedDiagnostic {
        LocatedDiagnostic { diagnostic, location: None, labels: Vec::new(), fix: None }
    }

    /// The complete name at the location, including all dots.
    fn name(&self) -> Option<String> {
        let Location { text, at, .. } = self.location.as_ref()?;
        let names = Outline::parse(text).names(text);
        let whole = names.iter().find(|name| name.at.start <= at.start && at.end <= name.at.end);
        Some(String::from_utf8_lossy(text.get(whole.map_or(at, |name| &name.at).clone())?).into_owned())
    }

    fn is_warning(&self) -> bool {
        self.diagnostic.severity == DiagnosticSeverity::Warning
    }
}

/// A range of a text as written.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    pub path: String,
    pub text: Vec<u8>,
    pub at: Range<usize>,
}

impl Location {
    /// Line number, from 1.
    pub fn line(&self) -> usize {
        self.text[..self.at.start.min(self.text.len())].iter().filter(|c| **c == b'\n').count() + 1
    }

    fn is_in(&self, stretches: &[(String, Range<usize>)]) -> bool {
        stretches.iter().any(|(path, stretch)| *path == self.path && stretch.contains(&self.at.start))
    }

    /// Offsets of the start and end of its line.
    pub fn line_ends(&self) -> (usize, usize) {
        let at = self.at.start.min(self.text.len());
        let start = self.text[..at].iter().rposition(|c| *c == b'\n').map_or(0, |n| n + 1);
        let end = self.text[at..].iter().position(|c| *c == b'\n').map_or(self.text.len(), |n| at + n);
        (start, end)
    }

    /// Column of its first character, from 1.
    pub fn column(&self) -> usize {
        let before = &self.text[self.line_ends().0..self.at.start.min(self.text.len())];
        String::from_utf8_lossy(before).chars().count() + 1
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Judgement {
    pub findings: Vec<LocatedDiagnostic>,
    /// True if it is a part of a VCL, judged by itself. Undeclared names may be declared elsewhere.
    pub is_fragment: bool,
}

pub(crate) fn judge(texts: &OpenTexts<'_>, root: &str, args: &VclArgs) -> Judgement {
    let mut judged = Judgement::default();
    let mut overlay = texts.overlay(root);
    overlay.looks_up_hosts = args.resolve;
    if overlay.read(root).is_err() {
        return judged;
    }
    let compile = Compile::new(texts, root, args);
    let mut halves: Vec<(String, Range<usize>)> = Vec::new();
    judged.is_fragment = compile.stand_in.is_some();
    for round in 0..MAX {
        let result = compile.run(&overlay);
        let (said, failed) = match result {
            Ok(good) => (good.warnings, false),
            Err(diagnostics) => (diagnostics, true),
        };
        let mut errors = Vec::new();
        for diagnostic in said.0 {
            // A name may be unused only because of the error.
            if failed && diagnostic.code == DiagnosticCode::Unused {
                continue;
            }
            if diagnostic.severity == DiagnosticSeverity::Error {
                errors.push(diagnostic.clone());
            }
            let found = finding(&overlay, diagnostic);
            // After parts were removed, the rest may be unused or unreachable.
            let is_left = found.diagnostic.code == DiagnosticCode::Unused && is_nowhere_else(texts, root, &found);
            if round > 0 && (found.is_warning() || found.diagnostic.code == DiagnosticCode::Unused) && !is_left {
                continue;
            }
            if found.location.as_ref().is_some_and(|location| location.is_in(&halves))
                || is_meant(&judged.findings, &found)
            {
                continue;
            }
            let is_said = is_known(&judged.findings, &found) || judged.is_fragment && is_elsewhere(&overlay, &found);
            if !is_said {
                judged.findings.push(found);
            }
        }
        let hosts = std::mem::take(overlay.unresolved.get_mut());
        let is_host = !hosts.is_empty();
        overlay.told_hosts.extend(hosts);
        if !failed || !is_host && !take_out(&mut overlay, errors, &mut halves) {
            break;
        }
    }
    if judged.is_fragment && !args.is_part {
        judged.findings.push(not_whole(texts, root));
    }
    judged.findings.extend(texts.stray_includes(root).into_iter().map(stray));
    let place = |found: &LocatedDiagnostic| {
        found.location.as_ref().map(|location| (location.path != root, location.path.clone(), location.at.start))
    };
    judged.findings.sort_by_cached_key(place);
    judged
}

/// True if a fix for a misspelt name suggests the unused name.
fn is_meant(all: &[LocatedDiagnostic], found: &LocatedDiagnostic) -> bool {
    let Some(name) = found.name().filter(|_| found.diagnostic.code == DiagnosticCode::Unused) else { return false };
    let edits = all.iter().filter_map(|other| other.fix.as_ref()).flat_map(|fix| &fix.edits);
    edits.into_iter().any(|(_, new)| *new == name)
}

/// Compiles the VCL that begins with `root`. Returns the program or the first error.
pub(crate) fn program(texts: &OpenTexts<'_>, root: &str, args: &VclArgs) -> Result<vcl::Compiled, String> {
    let overlay = texts.overlay(root);
    overlay.read(root).map_err(|reason| format!("{reason}\n"))?;
    Compile::new(texts, root, args).run(&overlay).map_err(|reason| reason.to_string())
}

/// The error for a file that exists but keeps the VCL from being loaded. The rest of the VCL is judged with it all the same.
fn stray(include: StrayInclude) -> LocatedDiagnostic {
    let StrayInclude { path, text, at, reason, found } = include;
    let (folder, name) = found.rsplit_once('/').unwrap_or((".", &found));
    let mut error = Diagnostic::error(DiagnosticCode::File, reason.trim_end());
    error.hint = Some(format!(
        "varnishd looks for it in vcl_path alone, not beside the file: say -I {folder}, or write \"./{name}\" if it is always there."
    ));
    let location = Location { path, text, at };
    error.place = Some(FileSpan {
        source: location.path.clone(),
        at: location.at.clone(),
        line: u32::try_from(location.line()).unwrap_or(u32::MAX),
        column: u32::try_from(location.column()).unwrap_or(u32::MAX),
    });
    LocatedDiagnostic { location: Some(location), ..LocatedDiagnostic::nowhere(error) }
}

/// The minimum that a VCL needs.
const BACKEND: &str = "`backend default { .host = \"127.0.0.1\"; .port = \"8080\"; }` (or `backend default none;` where nothing is fetched)";

fn not_whole(texts: &OpenTexts<'_>, file: &str) -> LocatedDiagnostic {
    let is_told = texts.is_versioned(file) || texts.dialect(file).is_some();
    let (code, lacks, needs) = match (is_told, texts.has_backend(file)) {
        (true, _) => (DiagnosticCode::NoBackend, "it declares no backend", format!("Write {BACKEND}")),
        (false, true) => {
            (DiagnosticCode::Version, "it doesn't say `vcl 4.1;`", "Write `vcl 4.1;` as the first line".to_owned())
        }
        (false, false) => (
            DiagnosticCode::Version,
            "it doesn't say `vcl 4.1;` and declares no backend",
            format!("Write `vcl 4.1;` as the first line, and below it {BACKEND}"),
        ),
    };
    let mut error = Diagnostic::error(code, &format!("By itself it can't be loaded: {lacks}."));
    error.hint = Some(format!(
        "{needs}. If another file includes it, name that one, too, or say --part: what it doesn't declare may be declared elsewhere."
    ));
    LocatedDiagnostic::nowhere(error)
}

struct Compile<'a> {
    root: &'a str,
    options: CompileOptions,
    /// A text that includes the fragment; `None` if it is a whole VCL.
    stand_in: Option<Vec<u8>>,
}

impl<'a> Compile<'a> {
    fn new(texts: &OpenTexts<'_>, root: &'a str, args: &VclArgs) -> Compile<'a> {
        let dialect = texts.dialect(root);
        let (labels, stores) = match args.command {
            VclToolCommand::Lsp => assumed(args, texts, root),
            _ => (args.labels.clone(), args.stores.clone()),
        };
        let options = CompileOptions {
            compat: args.compat.unwrap_or_default(),
            dialect,
            check_regex: Some(vcl_regex::check),
            modules: modules::all(),
            optimise: !args.plain,
            labels,
            stores,
            err_unref: false,
            max_errors: MAX,
            ..CompileOptions::default()
        };
        let backend = if dialect.is_some() {
            format!("backend {STAND_IN_BACKEND} {{ .host = \"192.0.2.1\"; }}")
        } else {
            let syntax = args.syntax;
            format!("vcl {}.{}; backend {STAND_IN_BACKEND} none;", syntax / 10, syntax % 10)
        };
        let is_said_to_be = args.is_part && !texts.is_versioned(root);
        let is_part = !texts.is_whole(root) || is_said_to_be || !texts.has_backend(root);
        let is_fragment = is_part && !root.contains('"');
        let stand_in = is_fragment.then(|| format!("{backend} include \"{root}\";").into_bytes());
        Compile { root, options, stand_in }
    }

    fn run(&self, overlay: &Overlay<'_>) -> Result<vcl::Compiled, vcl::Diagnostics> {
        if let Some(stand_in) = &self.stand_in {
            return vcl::compile(STAND_IN, stand_in, overlay, &self.options);
        }
        let main = overlay.read(self.root).map(|(_, text)| text).unwrap_or_default();
        vcl::compile(self.root, &main, overlay, &self.options)
    }
}

/// Removes faulty parts from the texts, so that compiling again shows more errors. Returns whether any could be removed.
fn take_out(overlay: &mut Overlay<'_>, errors: Vec<Diagnostic>, halves: &mut Vec<(String, Range<usize>)>) -> bool {
    let mut is_taken = false;
    for error in errors {
        is_taken |= take_one_out(overlay, error, halves);
    }
    is_taken
}

/// Removes the part of one error. A declaration that lost a line is recorded in `halves`: things missing there are no further errors.
fn take_one_out(overlay: &mut Overlay<'_>, error: Diagnostic, halves: &mut Vec<(String, Range<usize>)>) -> bool {
    let Diagnostic { code, place: Some(place), .. } = error else { return false };
    let Ok((path, text)) = overlay.read(&place.source) else { return false };
    // Invalid characters are all replaced at once. They don't make the text around them wrong.
    if let Cow::Owned(ascii) = vcl::to_ascii_in_place(&text) {
        overlay.instead.insert(path, ascii);
        return true;
    }
    let at = place.at.start;
    let outline = Outline::parse(&text);
    // The end of a block is there, but not its beginning.
    let blank = at.checked_sub(1).filter(|before| matches!(text[*before], b' ' | b'\t'));
    if let (true, Some(blank), true) = (code == DiagnosticCode::MissingBrace, blank, outline.lacks_brace()) {
        let mut text = text;
        text[blank] = b'{';
        overlay.instead.insert(path, text);
        return true;
    }
    let mut all = outline.declarations.iter();
    // For a repeated declaration, the first one stays.
    let again = all.clone().find(|d| d.at.start == at && all.clone().any(|o| o.name == d.name && o.at.start < at));
    let around = all.find(|d| d.whole.contains(&at) && d.kind != outline::DeclarationKind::Sub);
    let is_half = |d: &&outline::Declaration| halves.iter().any(|(file, half)| *file == path && *half == d.whole);
    let (stretch, with) = match (again, around.filter(is_half)) {
        (Some(again), _) => (again.whole.clone(), ""),
        (None, Some(half)) => match body(half) {
            Some(with) => (half.at.end..half.whole.end, with),
            None => return false,
        },
        (None, None) => match outline.without(&text, at) {
            Some(found) => found,
            None => return false,
        },
    };
    if text[stretch.clone()].trim_ascii() == with.trim_ascii().as_bytes() {
        return false;
    }
    halves.extend(around.filter(|_| again.is_none()).map(|d| (path.clone(), d.whole.clone())));
    let Some(text) = blanked(text, stretch, with) else { return false };
    overlay.instead.insert(path, text);
    true
}

/// The shortest valid body of such a declaration.
fn body(declaration: &outline::Declaration) -> Option<&'static str> {
    match declaration.kind {
        outline::DeclarationKind::Backend => Some(" none;"),
        outline::DeclarationKind::Acl | outline::DeclarationKind::Probe => Some(" { }"),
        _ => None,
    }
}

/// Replaces a range of the text by `with` and blanks. All other positions stay the same.
fn blanked(mut text: Vec<u8>, stretch: Range<usize>, with: &str) -> Option<Vec<u8>> {
    let head = stretch.start..stretch.start + with.len();
    if text.get(head.clone())?.contains(&b'\n') {
        return None;
    }
    for c in &mut text[stretch] {
        if *c != b'\n' && *c != b'\r' {
            *c = b' ';
        }
    }
    text[head].copy_from_slice(with.as_bytes());
    Some(text)
}

/// Labels and stores of the command line, or, if it names none, all that the texts name. Only a server knows the real ones.
fn assumed(args: &VclArgs, texts: &OpenTexts<'_>, root: &str) -> (Vec<String>, Vec<String>) {
    let (mut labels, mut stores) = (args.labels.clone(), args.stores.clone());
    // One store always exists.
    let (no_labels, no_stores) = (labels.is_empty(), stores.len() == 1);
    for OpenText { text, outline, .. } in texts.parts(root) {
        let names = outline.names(&text);
        let words: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(&text[name.at.clone()])).collect();
        for (n, word) in words.iter().enumerate() {
            if let Some((_, rest)) = word.split_once('.').filter(|(first, _)| no_stores && *first == "storage") {
                stores.push(rest.split('.').next().unwrap_or_default().to_owned());
            }
            let returned = n > 0 && words[n - 1] == "return" && word == "vcl";
            if let Some(label) = words.get(n + 1).filter(|_| no_labels && returned) {
                labels.push(label.clone().into_owned());
            }
        }
    }
    (labels, stores)
}

/// True if an unused name appears only in its declaration, so that none of the parts taken out used it.
fn is_nowhere_else(texts: &OpenTexts<'_>, root: &str, found: &LocatedDiagnostic) -> bool {
    let Some(name) = found.name() else { return false };
    let count = |OpenText { text, outline, .. }: OpenText| {
        outline.names(&text).iter().filter(|at| text[at.first.clone()] == *name.as_bytes()).count()
    };
    texts.parts(root).into_iter().map(count).sum::<usize>() <= 1
}

/// True if a fragment's finding may vanish in the file that includes it: a missing declaration, or a warning that depends on the rest.
fn is_elsewhere(overlay: &Overlay<'_>, found: &LocatedDiagnostic) -> bool {
    use DiagnosticCode::{AclHostBits, NeverMatches, PatternCompared, Translated, Unreachable};
    if found.location.is_none() {
        return true;
    }
    let code = found.diagnostic.code;
    if found.is_warning() || code == DiagnosticCode::Unused {
        return !matches!(code, Unreachable | PatternCompared | NeverMatches | Translated | AclHostBits);
    }
    code.is_unknown_name() && found.name().is_none_or(|name| !is_of_language(overlay, &name))
}

/// True if an unknown name begins like the language's own, or like a module that is imported here. No other file can declare it.
fn is_of_language(overlay: &Overlay<'_>, name: &str) -> bool {
    let Some((first, _)) = name.split_once('.') else { return false };
    let imports = |part: &OpenText| {
        let mut all = part.outline.declarations.iter();
        all.any(|d| d.kind == outline::DeclarationKind::Import && d.name == first)
    };
    VARS.iter().any(|var| var.name.split('.').next() == Some(first)) && first != "storage"
        || overlay.texts.parts(overlay.root).iter().any(imports)
}

pub(crate) fn is_known(all: &[LocatedDiagnostic], found: &LocatedDiagnostic) -> bool {
    let place = |found: &LocatedDiagnostic| {
        found.location.as_ref().map(|location| (location.path.clone(), location.at.clone()))
    };
    let here = place(found);
    all.iter().any(|other| place(other) == here && other.diagnostic.message.starts_with(&found.diagnostic.message))
}

fn finding(overlay: &Overlay<'_>, mut diagnostic: Diagnostic) -> LocatedDiagnostic {
    // The VCL compiles, but can't be loaded.
    if diagnostic.code == DiagnosticCode::Unused {
        diagnostic = diagnostic.into_error(vcl::UNUSED);
    }
    let located = |(said, place): &(String, FileSpan)| Some((said.clone(), locate(overlay, place)?));
    let labels = diagnostic.labels.iter().filter_map(located).collect();
    let fix = diagnostic.fix.as_ref().and_then(|fix| {
        let edits = fix.edits.iter().map(|(place, new)| Some((locate(overlay, place)?, new.clone())));
        Some(Fix { title: fix.title.clone(), edits: edits.collect::<Option<_>>()? })
    });
    let location = diagnostic.place.as_ref().and_then(|place| locate(overlay, place));
    LocatedDiagnostic { diagnostic, location, labels, fix }
}

/// Translates a place of the compiler's to the file and its text as written.
fn locate(overlay: &Overlay<'_>, place: &FileSpan) -> Option<Location> {
    let (path, text) = overlay.read(&place.source).ok()?;
    // Tokens are bytes; none may end inside a character.
    let to = (place.at.end..text.len()).find(|at| text[*at] & 0xc0 != 0x80).unwrap_or(text.len());
    let written = overlay.texts.overlay(overlay.root).read(&path).map_or(text, |(_, text)| text);
    Some(Location { path, text: written, at: place.at.start..to })
}

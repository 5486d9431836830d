// SPDX-License-Identifier: BSD-2-Clause
//! What is wrong with a VCL, in all its files. The compiler stops at the first error; here what is wrong is taken out and the
//! rest compiled again, so that all errors are told at once. `lacquer vcl check` and the language server show the same.

use std::borrow::Cow;
use std::ops::Range;

use tables::vclvars::VARS;
use vcl::outline::{self, Outline};
use vcl::{Options, Sources};

use crate::args::{Args, Command};
use crate::messages::{self, Message, Position};
use crate::modules;
use crate::texts::{Overlay, Part, StrayInclude, Texts};

/// Most errors that are looked for in one VCL.
const MAX: usize = 30;
/// What stands for the file that includes a fragment.
const STAND_IN: &str = "<editor>";

/// The backend of that.
pub(crate) const STAND_IN_BACKEND: &str = "lacquer_lsp";

/// One thing that is wrong.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    pub message: Message,
    /// A word for it.
    pub code: &'static str,
    pub severity: Severity,
    /// It may be shown faded.
    pub unnecessary: bool,
    /// Where; a finding about the whole VCL has no place.
    pub location: Option<Location>,
    /// Other places that belong to it, and what is to be said there.
    pub related: Vec<(String, Location)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    Error,
    Warning,
}

impl Finding {
    /// An error about no place.
    pub fn nowhere(message: Message) -> Finding {
        let (code, severity, unnecessary) = kind_of(&message);
        Finding { message, code, severity, unnecessary, location: None, related: Vec::new() }
    }
}

/// A stretch of a text as it was written.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    pub path: String,
    pub text: Vec<u8>,
    pub at: Range<usize>,
}

impl Location {
    /// Its line, from 1.
    pub fn line(&self) -> usize {
        self.text[..self.at.start.min(self.text.len())].iter().filter(|c| **c == b'\n').count() + 1
    }

    fn is_in(&self, stretches: &[(String, Range<usize>)]) -> bool {
        stretches.iter().any(|(path, stretch)| *path == self.path && stretch.contains(&self.at.start))
    }

    /// Where its line begins and ends.
    pub fn line_ends(&self) -> (usize, usize) {
        let at = self.at.start.min(self.text.len());
        let start = self.text[..at].iter().rposition(|c| *c == b'\n').map_or(0, |n| n + 1);
        let end = self.text[at..].iter().position(|c| *c == b'\n').map_or(self.text.len(), |n| at + n);
        (start, end)
    }

    /// Its first character's place in the line, from 1.
    pub fn column(&self) -> usize {
        let before = &self.text[self.line_ends().0..self.at.start.min(self.text.len())];
        String::from_utf8_lossy(before).chars().count() + 1
    }
}

/// What was found in a VCL, and what it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Judgement {
    pub findings: Vec<Finding>,
    /// It is a part of a VCL, judged by itself: what isn't declared may be declared elsewhere.
    pub is_fragment: bool,
}

/// What is wrong with the VCL that begins with `root`.
pub(crate) fn judge(texts: &Texts<'_>, root: &str, args: &Args) -> Judgement {
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
        let (said, failed) = match &result {
            Ok(good) => (good.warnings.as_str(), false),
            Err(reason) => (reason.text.as_str(), true),
        };
        let mut error = None;
        for message in messages::parse(said, failed) {
            // What is unused may be so because of the error.
            if failed && message.what.starts_with("Unused ") {
                continue;
            }
            error = if message.warning { error } else { Some(message.clone()) };
            // With parts taken out, what is left may well be unused or unreached.
            if round > 0 && message.warning && !is_nowhere_else(texts, root, &message) {
                continue;
            }
            let found = finding(&overlay, message);
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
        if !failed || !take_out(&mut overlay, error, &mut halves) {
            break;
        }
    }
    if judged.is_fragment && !args.is_part {
        judged.findings.push(not_whole(texts, root));
    }
    judged.findings.extend(texts.stray_includes(root).into_iter().map(stray));
    let place = |found: &Finding| {
        found.location.as_ref().map(|location| (location.path != root, location.path.clone(), location.at.start))
    };
    judged.findings.sort_by_cached_key(place);
    judged
}

/// Whether what is unused is what a misspelt name means.
fn is_meant(all: &[Finding], found: &Finding) -> bool {
    let name = found.message.what.strip_prefix("Unused ").and_then(|rest| rest.split([' ', ',']).nth(1));
    let hints = all.iter().filter_map(|other| other.message.hint.as_deref());
    name.is_some_and(|name| hints.into_iter().any(|hint| hint == format!("Is {name} meant?")))
}

/// The program of the VCL that begins with `root`, or the first error.
pub(crate) fn program(texts: &Texts<'_>, root: &str, args: &Args) -> Result<vcl::Compiled, String> {
    let overlay = texts.overlay(root);
    overlay.read(root).map_err(|reason| format!("{reason}\n"))?;
    Compile::new(texts, root, args).run(&overlay).map_err(|reason| reason.text)
}

/// Why a file that is at hand keeps a VCL from being loaded. The rest of the VCL is judged with it all the same.
fn stray(include: StrayInclude) -> Finding {
    let StrayInclude { path, text, at, reason, found } = include;
    let mut message = Message::parse(&format!("{}\n", reason.trim_end()));
    let (folder, name) = found.rsplit_once('/').unwrap_or((".", &found));
    message.hint = Some(format!(
        "varnishd looks for it in vcl_path alone, not beside the file: say -I {folder}, or write \"./{name}\" if it is always there."
    ));
    let location = Location { path, text, at };
    message.place = Some(Position {
        source: location.path.clone(),
        line: u32::try_from(location.line()).unwrap_or(u32::MAX),
        column: u32::try_from(location.column()).unwrap_or(u32::MAX),
        width: u32::try_from(location.at.len()).unwrap_or(u32::MAX),
    });
    Finding { location: Some(location), ..Finding::nowhere(message) }
}

/// The least that a VCL needs.
const BACKEND: &str = "`backend default { .host = \"127.0.0.1\"; .port = \"8080\"; }` (or `backend default none;` where nothing is fetched)";

/// Why a file that nothing includes can't be loaded.
fn not_whole(texts: &Texts<'_>, file: &str) -> Finding {
    let is_told = texts.is_versioned(file) || texts.dialect(file).is_some();
    let (lacks, needs) = match (is_told, texts.has_backend(file)) {
        (true, _) => ("it declares no backend", format!("Write {BACKEND}")),
        (false, true) => ("it doesn't say `vcl 4.1;`", "Write `vcl 4.1;` as the first line".to_owned()),
        (false, false) => (
            "it doesn't say `vcl 4.1;` and declares no backend",
            format!("Write `vcl 4.1;` as the first line, and below it {BACKEND}"),
        ),
    };
    let mut message = Message::parse(&format!("By itself it can't be loaded: {lacks}.\n"));
    message.hint = Some(format!(
        "{needs}. If another file includes it, name that one, too, or say --part: what it doesn't declare may be declared elsewhere."
    ));
    Finding::nowhere(message)
}

/// One VCL, again and again.
struct Compile<'a> {
    root: &'a str,
    options: Options,
    /// Of a fragment: a text that includes it.
    stand_in: Option<Vec<u8>>,
}

impl<'a> Compile<'a> {
    fn new(texts: &Texts<'_>, root: &'a str, args: &Args) -> Compile<'a> {
        let dialect = texts.dialect(root);
        let (labels, stores) = match args.command {
            Command::Lsp => assumed(args, texts, root),
            _ => (args.labels.clone(), args.stores.clone()),
        };
        let options = Options {
            dialect,
            check_regex: Some(vcl_regex::check),
            modules: modules::all(),
            optimise: !args.plain,
            labels,
            stores,
            err_unref: false,
            ..Options::default()
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

/// Takes what is wrong out of the texts, so that compiling them again shows more. What is left of a declaration that a line was
/// taken out of is noted in `halves`: what is missing there is no other error.
fn take_out(overlay: &mut Overlay<'_>, error: Option<Message>, halves: &mut Vec<(String, Range<usize>)>) -> bool {
    let hosts = std::mem::take(overlay.unresolved.get_mut());
    if !hosts.is_empty() {
        overlay.told_hosts.extend(hosts);
        return true;
    }
    let Some(Message { what, place: Some(place), .. }) = error else { return false };
    let Ok((path, text)) = overlay.read(&place.source) else { return false };
    // Characters that aren't VCL's are told at once; nothing that stands around them is wrong by that.
    if let Cow::Owned(ascii) = vcl::to_ascii_in_place(&text) {
        overlay.instead.insert(path, ascii);
        return true;
    }
    let at = of_column(&text, place.line, place.column);
    let outline = Outline::parse(&text);
    // The block's end is there, its beginning isn't.
    let blank = at.checked_sub(1).filter(|before| matches!(text[*before], b' ' | b'\t'));
    if let (true, Some(blank), true) = (what.starts_with("Expected '{' got"), blank, outline.lacks_brace()) {
        let mut text = text;
        text[blank] = b'{';
        overlay.instead.insert(path, text);
        return true;
    }
    let mut all = outline.declarations.iter();
    // One that is declared again: the first stays.
    let again = all.clone().find(|d| d.at.start == at && all.clone().any(|o| o.name == d.name && o.at.start < at));
    let around = all.find(|d| d.whole.contains(&at) && d.kind != outline::Kind::Sub);
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

/// The least that can stand behind the name in such a declaration.
fn body(declaration: &outline::Declaration) -> Option<&'static str> {
    match declaration.kind {
        outline::Kind::Backend => Some(" none;"),
        outline::Kind::Acl | outline::Kind::Probe => Some(" { }"),
        _ => None,
    }
}

/// A text with a stretch made blank but for `with`; all else stays where it is.
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

/// Labels and stores: those of the command line, and where it names none all that the texts name. They are a server's.
fn assumed(args: &Args, texts: &Texts<'_>, root: &str) -> (Vec<String>, Vec<String>) {
    let (mut labels, mut stores) = (args.labels.clone(), args.stores.clone());
    // One store is always there.
    let (no_labels, no_stores) = (labels.is_empty(), stores.len() == 1);
    for Part { text, outline, .. } in texts.parts(root) {
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

/// Of what is unused: whether its name stands only where it is declared, so that nothing that was taken out used it.
fn is_nowhere_else(texts: &Texts<'_>, root: &str, message: &Message) -> bool {
    let Some(rest) = message.what.strip_prefix("Unused ") else { return false };
    let Some(name) = rest.split([' ', ',']).nth(1) else { return false };
    let count = |Part { text, outline, .. }: Part| {
        outline.names(&text).iter().filter(|at| text[at.first.clone()] == *name.as_bytes()).count()
    };
    texts.parts(root).into_iter().map(count).sum::<usize>() <= 1
}

/// The subject of a complaint about a name: `Symbol not found: 'x.y'`.
fn quoted(what: &str) -> &str {
    what.split('\'').nth(1).unwrap_or_default()
}

/// What a fragment needs may stand in the file that includes it; and what may be odd alone may be right with the rest.
fn is_elsewhere(overlay: &Overlay<'_>, found: &Finding) -> bool {
    let message = &found.message;
    if found.location.is_none() {
        return true;
    }
    if message.warning {
        return !matches!(
            found.code,
            "unreachable" | "pattern-compared" | "never-matches" | "translated" | "acl-host-bits"
        );
    }
    let unknown = ["Symbol not found", "Undefined ", "Unknown ", "Subroutine "];
    if !unknown.iter().any(|begin| message.what.starts_with(begin)) || message.what.contains("recurses") {
        return false;
    }
    !is_of_language(overlay, quoted(&message.what))
}

/// Whether a name that isn't known begins like the language's own, or like a module that is imported here: nobody else can
/// declare it.
fn is_of_language(overlay: &Overlay<'_>, name: &str) -> bool {
    let Some((first, _)) = name.split_once('.') else { return false };
    let imports = |part: &Part| {
        let mut all = part.outline.declarations.iter();
        all.any(|d| d.kind == outline::Kind::Import && d.name == first)
    };
    VARS.iter().any(|var| var.name.split('.').next() == Some(first)) && first != "storage"
        || overlay.texts.parts(overlay.root).iter().any(imports)
}

pub(crate) fn is_known(all: &[Finding], found: &Finding) -> bool {
    let place = |found: &Finding| found.location.as_ref().map(|location| (location.path.clone(), location.at.clone()));
    let here = place(found);
    all.iter().any(|other| place(other) == here && other.message.prose.starts_with(&found.message.prose))
}

fn finding(overlay: &Overlay<'_>, mut message: Message) -> Finding {
    let location = message.place.as_ref().and_then(|place| locate(overlay, place));
    let related: Vec<_> =
        message.others.iter().filter_map(|(label, place)| Some((label.clone(), locate(overlay, place)?))).collect();
    let (code, severity, unnecessary) = kind_of(&message);
    if code == "unused" && message.hint.is_none() {
        message.hint = Some(vcl::UNUSED.to_owned());
    }
    Finding { message, code, severity, unnecessary, location, related }
}

/// Where a place of the compiler's is: the file, its text as written, and the bytes.
fn locate(overlay: &Overlay<'_>, place: &Position) -> Option<Location> {
    let (path, text) = overlay.read(&place.source).ok()?;
    let mut from = of_column(&text, place.line, place.column);
    let mut to = of_column(&text, place.line, place.column.saturating_add(place.width)).max(from);
    if place.width == messages::WHOLE {
        let line = &text[from..to];
        to = from + line.trim_ascii_end().len();
        from = (from + line.len() - line.trim_ascii_start().len()).min(to);
    }
    // Marks count bytes: none may end inside of a character.
    let to = (to..text.len()).find(|at| text[*at] & 0xc0 != 0x80).unwrap_or(text.len());
    let written = overlay.texts.overlay(overlay.root).read(&path).map_or(text, |(_, text)| text);
    Some(Location { path, text: written, at: from..to })
}

/// The byte of a line and a column of the compiler's, both from 1.
pub(crate) fn of_column(text: &[u8], line: u32, column: u32) -> usize {
    let mut start = 0;
    for _ in 1..line {
        match text[start..].iter().position(|c| *c == b'\n') {
            Some(n) => start += n + 1,
            None => return text.len(),
        }
    }
    let end = text[start..].iter().position(|c| *c == b'\n').map_or(text.len(), |n| start + n);
    let mut at_column = 1;
    for (at, c) in text.iter().enumerate().take(end).skip(start) {
        if at_column >= column {
            return at;
        }
        at_column = if *c == b'\t' { ((at_column - 1) & !7) + 9 } else { at_column + 1 };
    }
    end
}

/// A word for what is wrong, how bad it is, and tags. What is unused keeps a VCL from being loaded.
fn kind_of(message: &Message) -> (&'static str, Severity, bool) {
    use Severity::{Error, Warning};
    const KINDS: [(&str, &str, Severity, bool); 19] = [
        ("By itself it can't be loaded", "not-whole", Error, false),
        ("Unused ", "unused", Error, true),
        ("This is never reached", "unreachable", Warning, true),
        ("This part of ", "unreachable", Warning, true),
        ("This looks everything up", "may-be-personal", Warning, false),
        ("== and != compare", "pattern-compared", Warning, false),
        ("This pattern can never", "never-matches", Warning, false),
        ("An alternative in this", "never-matches", Warning, false),
        ("The request that is piped", "wrong-place", Warning, false),
        ("`import ", "import-missing", Warning, false),
        ("Non-zero bits", "acl-host-bits", Warning, false),
        ("Symbol not found", "unknown-name", Error, false),
        ("Undefined ", "undeclared", Error, false),
        ("Expected ", "syntax", Error, false),
        ("Syntax error", "syntax", Error, false),
        ("Unterminated ", "syntax", Error, false),
        ("Regexp compilation error", "regex", Error, false),
        ("Invalid return", "return", Error, false),
        ("Could not find VMOD", "unknown-module", Error, false),
    ];
    let known = KINDS.iter().find(|(begin, ..)| message.what.starts_with(begin));
    let severity = if message.warning { Warning } else { Error };
    match known {
        // An ACL's odd bits are an error or a warning as the ACL says.
        Some((_, "acl-host-bits", _, unnecessary)) => ("acl-host-bits", severity, *unnecessary),
        Some((_, code, severity, unnecessary)) => (code, *severity, *unnecessary),
        None if message.what.contains(" is stored: ") => ("stored", Warning, false),
        None if message.what.contains(" does nothing when set in ") => ("wrong-place", Warning, false),
        None if message.what.contains(" works in ") => ("wrong-place", Warning, false),
        None if message.what.contains(" -> ") && message.warning => ("translated", Warning, false),
        None if message.prose.contains("subroutine") && !message.warning => ("wrong-place", Error, false),
        None => (if message.warning { "warning" } else { "error" }, severity, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_tabs_by_eight() {
        assert_eq!(of_column(b"x\n\tab", 2, 9), 3);
        assert_eq!(of_column(b"x\n\tab", 2, 10), 4);
        assert_eq!(of_column(b"x\n\tab", 9, 1), 5);
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! What the compiler says of a VCL, for all its files. The compiler stops at the first error; here what is wrong is taken out
//! and the rest compiled again, so that an editor shows them all.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Value, json};
use vcl::outline::Outline;
use vcl::{Options, Sources};

use super::Server;
use super::fix::{self, Fix};
use super::know::Part;
use super::text::{self, Lines};
use super::texts::Overlay;
use crate::messages::{self, Message, Place};

/// Most errors that are looked for in one VCL.
const MOST: usize = 30;
/// What stands for the file that includes a fragment.
const STAND_IN: &str = "<editor>";

/// What was found wrong in a file.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// As the protocol has it.
    pub shown: Value,
    pub at: Range<usize>,
    pub fix: Option<Fix>,
}

/// By file.
pub(super) type ByFile = BTreeMap<String, Vec<Found>>;

/// What is wrong with the VCL that begins with `root`.
pub(super) fn diagnose(server: &Server<'_>, root: &str) -> ByFile {
    let texts = &server.texts;
    let mut overlay = texts.overlay(root);
    let Ok((_, main)) = overlay.read(root) else { return ByFile::new() };
    let fragment = !texts.is_whole(root) && !root.contains('"');
    let dialect = texts.dialect(root);
    let (labels, stores) = assumed(server, root);
    let options = Options {
        syntax: server.args.syntax,
        dialect: if Outline::of(&main).versioned { None } else { dialect },
        check_regex: Some(vrt::check_regex),
        labels,
        stores,
        err_unref: false,
        ..Options::default()
    };
    let backend = if dialect.is_some() {
        "backend lacquer_lsp { .host = \"192.0.2.1\"; }"
    } else {
        "vcl 4.1; backend lacquer_lsp none;"
    };
    let stand_in = format!("{backend} include \"{root}\";").into_bytes();
    let mut out = ByFile::new();
    for round in 0..MOST {
        let result = if fragment {
            vcl::compile(STAND_IN, &stand_in, &overlay, &options)
        } else {
            let main = overlay.read(root).map(|(_, text)| text).unwrap_or_default();
            vcl::compile(root, &main, &overlay, &options)
        };
        let (said, failed) = match &result {
            Ok(good) => (good.warnings.as_str(), false),
            Err(why) => (why.text.as_str(), true),
        };
        let mut error = None;
        for message in messages::parse(said, failed) {
            // What is unused may be so because of the error.
            if failed && message.what.starts_with("Unused ") {
                continue;
            }
            // With parts taken out, what is left may well be unused or unreached.
            let elsewhere = fragment && is_elsewhere(&message);
            if (round == 0 || !message.warning) && !elsewhere {
                add(server, &overlay, root, &message, &mut out);
            }
            error = if message.warning { error } else { message.place };
        }
        let Some((path, text)) = error.filter(|_| failed).and_then(|place| without(&overlay, &place)) else { break };
        overlay.instead.insert(path, text);
    }
    out
}

/// Labels and stores: those of the command line, and where it names none all that the texts name. They are a server's.
fn assumed(server: &Server<'_>, root: &str) -> (Vec<String>, Vec<String>) {
    let (mut labels, mut stores) = (server.args.labels.clone(), server.args.stores.clone());
    // One store is always there.
    let (no_labels, no_stores) = (labels.is_empty(), stores.len() == 1);
    for Part { text, outline, .. } in server.texts.parts(root) {
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

/// What a fragment needs may stand in the file that includes it.
fn is_elsewhere(message: &Message) -> bool {
    let unknown = ["Symbol not found", "Undefined ", "Unknown ", "Subroutine "];
    message.warning
        || message.place.as_ref().is_none_or(|place| place.source == STAND_IN)
        || unknown.iter().any(|begin| message.what.starts_with(begin)) && !message.what.contains("recurses")
}

/// A text without what is wrong at `place`; all else stays where it is.
fn without(overlay: &Overlay<'_>, place: &Place) -> Option<(String, Vec<u8>)> {
    let (path, mut text) = overlay.read(&place.source).ok()?;
    let at = text::of_column(&text, place.line, place.column);
    let (stretch, with) = Outline::of(&text).without(&text, at)?;
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
    Some((path, text))
}

fn add(server: &Server<'_>, overlay: &Overlay<'_>, root: &str, message: &Message, out: &mut ByFile) {
    let client = &server.client;
    let located = message.place.as_ref().and_then(|place| locate(overlay, place));
    let (path, text, at) = located.unwrap_or_else(|| (root.to_owned(), Vec::new(), 0..0));
    let found = out.entry(path.clone()).or_default();
    if found
        .iter()
        .any(|found| found.at == at && found.shown["message"].as_str().is_some_and(|m| m.starts_with(&message.prose)))
    {
        return;
    }
    let mut said = message.prose.clone();
    let mut related = Vec::new();
    for (label, place) in &message.others {
        let Some((path, text, at)) = locate(overlay, place) else { continue };
        if client.related {
            let range = Lines::new(&text, client.encoding).range(&at);
            let location = json!({ "uri": server.uri_of(&path), "range": range });
            related.push(json!({ "location": location, "message": label }));
        } else {
            said.push_str(&format!("\n{label} ({path}:{})", place.line));
        }
    }
    if let Some(hint) = &message.hint {
        said.push('\n');
        said.push_str(hint);
    }
    let (code, severity, tags) = kind_of(message);
    let mut shown = json!({
        "range": Lines::new(&text, client.encoding).range(&at),
        "severity": severity,
        "code": code,
        "source": "lacquer",
        "message": said,
    });
    if !related.is_empty() {
        shown["relatedInformation"] = related.into();
    }
    if !tags.is_empty() && client.tags {
        shown["tags"] = tags.into();
    }
    let fix = fix::of(message, &text, &at);
    found.push(Found { shown, at, fix });
}

/// Where a place of the compiler's is: the file, its text as written, and the bytes.
fn locate(overlay: &Overlay<'_>, place: &Place) -> Option<(String, Vec<u8>, Range<usize>)> {
    let (path, text) = overlay.read(&place.source).ok()?;
    let mut from = text::of_column(&text, place.line, place.column);
    let mut to = text::of_column(&text, place.line, place.column.saturating_add(place.width)).max(from);
    if place.width == messages::WHOLE {
        let line = &text[from..to];
        to = from + line.trim_ascii_end().len();
        from = (from + line.len() - line.trim_ascii_start().len()).min(to);
    }
    // Marks count bytes: none may end inside of a character.
    let to = (to..text.len()).find(|at| text[*at] & 0xc0 != 0x80).unwrap_or(text.len());
    let written = overlay.texts.overlay(overlay.root).read(&path).map_or(text, |(_, text)| text);
    Some((path, written, from..to))
}

const ERROR: u8 = 1;
const WARNING: u8 = 2;
/// The protocol's tag of what may be shown faded.
const UNNECESSARY: u8 = 1;

/// A word for what is wrong, how bad it is, and tags. What is unused keeps a VCL from being loaded.
fn kind_of(message: &Message) -> (&'static str, u8, &'static [u8]) {
    const KINDS: [(&str, &str, u8, &[u8]); 17] = [
        ("Unused ", "unused", ERROR, &[UNNECESSARY]),
        ("This is never reached", "unreachable", WARNING, &[UNNECESSARY]),
        ("This part of ", "unreachable", WARNING, &[UNNECESSARY]),
        ("== and != compare", "pattern-compared", WARNING, &[]),
        ("This pattern can never", "never-matches", WARNING, &[]),
        ("An alternative in this", "never-matches", WARNING, &[]),
        ("The request that is piped", "wrong-place", WARNING, &[]),
        ("`import ", "import-missing", WARNING, &[]),
        ("Non-zero bits", "acl-host-bits", WARNING, &[]),
        ("Symbol not found", "unknown-name", ERROR, &[]),
        ("Undefined ", "undeclared", ERROR, &[]),
        ("Expected ", "syntax", ERROR, &[]),
        ("Syntax error", "syntax", ERROR, &[]),
        ("Unterminated ", "syntax", ERROR, &[]),
        ("Regexp compilation error", "regex", ERROR, &[]),
        ("Invalid return", "return", ERROR, &[]),
        ("Could not find VMOD", "unknown-module", ERROR, &[]),
    ];
    let known = KINDS.iter().find(|(begin, ..)| message.what.starts_with(begin));
    let severity = if message.warning { WARNING } else { ERROR };
    match known {
        // An ACL's odd bits are an error or a warning as the ACL says.
        Some((_, "acl-host-bits", _, tags)) => ("acl-host-bits", severity, tags),
        Some((_, code, severity, tags)) => (code, *severity, tags),
        None if message.what.contains(" is stored: ") => ("stored", WARNING, &[]),
        None if message.what.contains(" does nothing when set in ") => ("wrong-place", WARNING, &[]),
        None if message.what.contains(" works in ") => ("wrong-place", WARNING, &[]),
        None if message.what.contains(" -> ") && message.warning => ("translated", WARNING, &[]),
        None if message.prose.contains("subroutine") && !message.warning => ("wrong-place", ERROR, &[]),
        None => (if message.warning { "warning" } else { "error" }, severity, &[]),
    }
}

/// What several VCLs say of one file, each thing once.
pub(super) fn of_file<'f>(by_root: &'f BTreeMap<String, ByFile>, path: &str) -> Vec<&'f Found> {
    let mut out: Vec<&Found> = Vec::new();
    for found in by_root.values().filter_map(|by_file| by_file.get(path)).flatten() {
        if !out.iter().any(|other| other.shown == found.shown) {
            out.push(found);
        }
    }
    out
}

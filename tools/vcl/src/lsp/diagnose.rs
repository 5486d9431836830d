// SPDX-License-Identifier: BSD-2-Clause
//! What is wrong with a VCL, as the protocol has it.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Value, json};
use vcl::{Fix, Severity};

use super::Server;
use super::text::Lines;
use crate::judge::{self, Finding, Location};

/// What was found wrong in a file.
#[derive(Debug, Clone)]
pub(super) struct FileFindings {
    /// As the protocol has it.
    pub shown: Value,
    pub at: Range<usize>,
    pub fix: Option<Fix<Location>>,
}

/// By file.
pub(super) type ByFile = BTreeMap<String, Vec<FileFindings>>;

/// The protocol's tag of what may be shown faded.
const UNNECESSARY: u8 = 1;

/// What is wrong with the VCL that begins with `root`. A text is checked at each key: no host name
/// is looked up, since that could be waited for.
pub(super) fn diagnose(server: &Server<'_>, root: &str) -> ByFile {
    let mut out = ByFile::new();
    for finding in judge::judge(&server.texts, root, server.args).findings {
        let nowhere = || Location { path: root.to_owned(), text: Vec::new(), at: 0..0 };
        let location = finding.location.clone().unwrap_or_else(nowhere);
        let found = found(server, &finding, &location);
        out.entry(location.path).or_default().push(found);
    }
    out
}

fn found(server: &Server<'_>, finding: &Finding, location: &Location) -> FileFindings {
    let client = &server.client;
    let range = |location: &Location| Lines::new(&location.text, client.encoding).range(&location.at);
    let diagnostic = &finding.diagnostic;
    let mut said = diagnostic.message.clone();
    let mut related = Vec::new();
    for (label, location) in &finding.labels {
        if client.related {
            let location = json!({ "uri": server.uri_of(&location.path), "range": range(location) });
            related.push(json!({ "location": location, "message": label }));
        } else {
            said.push_str(&format!("\n{label} ({}:{})", location.path, location.line()));
        }
    }
    if let Some(hint) = &diagnostic.hint {
        said.push('\n');
        said.push_str(hint);
    }
    let mut shown = json!({
        "range": range(location),
        "severity": match diagnostic.severity {
            Severity::Error => 1,
            Severity::Warning => 2,
        },
        "code": diagnostic.code.about().word,
        "source": "lacquer",
        "message": said,
    });
    if !related.is_empty() {
        shown["relatedInformation"] = related.into();
    }
    if diagnostic.code.is_unnecessary() && client.tags {
        shown["tags"] = json!([UNNECESSARY]);
    }
    FileFindings { shown, at: location.at.clone(), fix: finding.fix.clone() }
}

/// What several VCLs say of one file, each thing once.
pub(super) fn of_file<'f>(by_root: &'f BTreeMap<String, ByFile>, path: &str) -> Vec<&'f FileFindings> {
    let mut out: Vec<&FileFindings> = Vec::new();
    for found in by_root.values().filter_map(|by_file| by_file.get(path)).flatten() {
        if !out.iter().any(|other| other.shown == found.shown) {
            out.push(found);
        }
    }
    out
}

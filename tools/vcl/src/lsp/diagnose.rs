// SPDX-License-Identifier: BSD-2-Clause
//! Findings of a VCL in the protocol's form.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Value, json};
use vcl::{DiagnosticSeverity, Fix};

use super::Server;
use super::text::Lines;
use crate::judge::{self, LocatedDiagnostic, Location};

#[derive(Debug, Clone)]
pub(super) struct FileFindings {
    /// The diagnostic in the protocol's form.
    pub shown: Value,
    pub at: Range<usize>,
    pub fix: Option<Fix<Location>>,
}

/// Findings by the path of their file.
pub(super) type ByFile = BTreeMap<String, Vec<FileFindings>>;

/// The protocol's tag for text that may be faded out.
const UNNECESSARY: u8 = 1;

/// Checks the VCL that begins with `root`. This runs at each keystroke, so no host name is looked up: a look-up can block.
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

fn found(server: &Server<'_>, finding: &LocatedDiagnostic, location: &Location) -> FileFindings {
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
            DiagnosticSeverity::Error => 1,
            DiagnosticSeverity::Warning => 2,
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

/// The findings of all VCLs about one file, without duplicates.
pub(super) fn of_file<'f>(by_root: &'f BTreeMap<String, ByFile>, path: &str) -> Vec<&'f FileFindings> {
    let mut out: Vec<&FileFindings> = Vec::new();
    for found in by_root.values().filter_map(|by_file| by_file.get(path)).flatten() {
        if !out.iter().any(|other| other.shown == found.shown) {
            out.push(found);
        }
    }
    out
}

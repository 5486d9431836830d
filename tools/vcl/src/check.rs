// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer vcl check`: reports all errors of files, each checked with the files that include it.

use serde_json::{Value, json};
use vcl::{Diagnostic, DiagnosticCode, DiagnosticSeverity, Diagnostics, FileSpan, Sources};

use crate::args::{CheckFormat, VclArgs};
use crate::judge::{self, Judgement, LocatedDiagnostic};
use crate::show::{self, Colours};
use crate::texts::OpenTexts;
use crate::{out, read};

pub(crate) fn run(args: &VclArgs, sources: &dyn Sources) -> i32 {
    let mut texts = OpenTexts::new(sources, args.dialect);
    let mut named = Vec::new();
    for file in &args.files {
        let name = read(file, sources).map(|(name, text)| {
            texts.put(&name, &name, text, Value::Null);
            name
        });
        named.push((file, name));
    }
    let colours = Colours::of(&std::io::stdout());
    let mut status = 0;
    for (file, name) in named {
        let verdict = match name {
            Ok(name) => Verdict::check(&texts, &name, args),
            Err(reason) => Verdict::unreadable(&reason),
        };
        if !verdict.is_good() {
            status = 2;
        }
        let shown = match args.format {
            CheckFormat::Json => verdict.as_json(file),
            CheckFormat::Text => verdict.as_text(file, colours),
        };
        if out(shown.as_bytes(), 0) != 0 {
            return 1;
        }
    }
    status
}

#[derive(Debug, Default)]
struct Verdict {
    findings: Vec<LocatedDiagnostic>,
    /// Remarks on how the file was judged.
    notes: Vec<String>,
}

impl Verdict {
    fn unreadable(reason: &str) -> Verdict {
        Verdict {
            findings: vec![LocatedDiagnostic::nowhere(Diagnostic::error(DiagnosticCode::File, reason))],
            notes: Vec::new(),
        }
    }

    fn check(texts: &OpenTexts<'_>, file: &str, args: &VclArgs) -> Verdict {
        let mut verdict = Verdict::default();
        let mut is_alone = false;
        for root in texts.roots(file) {
            if root == file {
                is_alone = true;
                continue;
            }
            let own: Vec<String> = texts.parts(file).into_iter().map(|part| part.path).collect();
            let is_own = |found: &LocatedDiagnostic| {
                found.location.as_ref().is_some_and(|location| own.contains(&location.path))
            };
            let judged = judge::judge(texts, &root, args);
            let (own, others): (Vec<_>, Vec<_>) = judged.findings.into_iter().partition(is_own);
            verdict.notes.push(format!("judged with {root}, which includes it"));
            // An error there may have kept it from being read.
            if others.iter().any(|found| found.diagnostic.severity == DiagnosticSeverity::Error) {
                verdict.notes.push(format!("{root} has errors of its own"));
                is_alone = true;
            }
            verdict.add(own);
        }
        if is_alone {
            let Judgement { findings, is_fragment } = judge::judge(texts, file, args);
            if is_fragment && args.is_part {
                verdict
                    .notes
                    .push("judged as a part of a VCL: what it doesn't declare may be declared elsewhere".to_owned());
            }
            verdict.add(findings);
        }
        verdict
    }

    fn add(&mut self, findings: Vec<LocatedDiagnostic>) {
        for found in findings {
            if !judge::is_known(&self.findings, &found) {
                self.findings.push(found);
            }
        }
    }

    fn of_severity(&self, severity: DiagnosticSeverity) -> impl Iterator<Item = &LocatedDiagnostic> {
        self.findings.iter().filter(move |found| found.diagnostic.severity == severity)
    }

    fn is_good(&self) -> bool {
        self.of_severity(DiagnosticSeverity::Error).next().is_none()
    }

    /// The verdict on one file, as one line.
    fn as_json(&self, file: &str) -> String {
        let list = |severity| self.of_severity(severity).map(|found| object(&found.diagnostic)).collect::<Vec<_>>();
        let (errors, warnings) = (list(DiagnosticSeverity::Error), list(DiagnosticSeverity::Warning));
        let all =
            json!({ "file": file, "ok": self.is_good(), "errors": errors, "warnings": warnings, "notes": self.notes });
        format!("{all}\n")
    }

    fn as_text(&self, file: &str, colours: Colours) -> String {
        let verdict = if self.is_good() { "good" } else { "refused" };
        let count = |severity, word: &str| match self.of_severity(severity).count() {
            0 => String::new(),
            1 => format!(", 1 {word}"),
            n => format!(", {n} {word}s"),
        };
        let (errors, warnings) =
            (count(DiagnosticSeverity::Error, "error"), count(DiagnosticSeverity::Warning, "warning"));
        let mut out = format!("{file}: {verdict}{errors}{warnings}\n");
        self.notes.iter().for_each(|note| out.push_str(&show::note(note, colours)));
        for found in &self.findings {
            out.push_str(&show::finding(found, colours));
            out.push('\n');
        }
        out
    }
}

/// The compiler's errors as JSON.
pub(crate) fn errors(diagnostics: &Diagnostics) -> Vec<Value> {
    diagnostics.0.iter().filter(|one| one.severity == DiagnosticSeverity::Error).map(object).collect()
}

fn object(one: &Diagnostic) -> Value {
    let at = one.place.as_ref();
    let label = |(said, place): &(String, FileSpan)| json!({ "message": said, "source": place.source, "line": place.line, "column": place.column });
    let edit = |(FileSpan { source, at, line, column }, new): &(FileSpan, String)| json!({ "source": source, "line": line, "column": column, "start": at.start, "end": at.end, "new": new });
    json!({
        "message": one.message,
        "hint": one.hint,
        "code": one.code.about().word,
        "source": at.map(|place| &place.source),
        "line": at.map(|place| place.line),
        "column": at.map(|place| place.column),
        "text": one.text.trim_end(),
        "labels": one.labels.iter().map(label).collect::<Vec<_>>(),
        "fix": one.fix.as_ref().map(|fix| {
            json!({ "title": fix.title, "edits": fix.edits.iter().map(edit).collect::<Vec<_>>() })
        }),
    })
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer vcl migrate`: converts an old file to VCL 4.1 on stdout and prints a note for each change on stderr. With `--format json`, both
//! are in one object.

use serde_json::json;
use toolkit::print;
use vcl::{Diagnostic, DiagnosticCode, Migration, MigrationNote, Sources};

use crate::args::{CheckFormat, VclArgs};
use crate::{options, out, read};

pub(crate) fn run(args: &VclArgs, sources: &dyn Sources) -> i32 {
    let file = &args.files[0];
    let result = match read(file, sources) {
        Ok((name, text)) => vcl::migrate(&name, &text, sources, &options(args)),
        Err(reason) => Err(Diagnostic::error(DiagnosticCode::File, &reason).into()),
    };
    match (result, args.format) {
        (Ok(migrated), CheckFormat::Json) => out(format!("{}\n", as_json(file, &migrated)).as_bytes(), 0),
        (Err(reason), CheckFormat::Json) => {
            let refused = json!({ "file": file, "ok": false, "errors": crate::check::errors(&reason) });
            out(format!("{refused}\n").as_bytes(), 2)
        }
        (Ok(migrated), CheckFormat::Text) => {
            print::err(as_text(file, &migrated));
            out(&migrated.text, 0)
        }
        (Err(reason), CheckFormat::Text) => {
            print::err(format_args!("{}\n", reason.to_string().trim_end()));
            2
        }
    }
}

fn as_text(file: &str, migrated: &Migration) -> String {
    let Some(dialect) = migrated.dialect else { return format!("{file}: is VCL 4 already; unchanged\n") };
    let mut out = format!("{file}: VCL {}\n", dialect.name());
    for note in &migrated.notes {
        let MigrationNote { source, line, old, new, reason, warning } = note;
        let place = if *line == 0 { source.clone() } else { format!("{source}:{line}") };
        let new = if new.is_empty() { "(left out)" } else { new };
        let mark = if *warning { "warning: " } else { "" };
        out.push_str(&format!("{place}: {mark}{old} -> {new}: {reason}\n"));
    }
    out
}

fn as_json(file: &str, migrated: &Migration) -> String {
    let notes: Vec<_> = migrated
        .notes
        .iter()
        .map(|n| {
            json!({ "source": n.source, "line": n.line, "old": n.old, "new": n.new, "why": n.reason, "warning": n.warning })
        })
        .collect();
    let dialect = migrated.dialect.map_or("4", |dialect| dialect.name());
    let text = String::from_utf8_lossy(&migrated.text);
    json!({ "file": file, "ok": true, "dialect": dialect, "vcl": text, "notes": notes }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_name_line_old_and_new() {
        let note = MigrationNote {
            source: "a.vcl".to_owned(),
            line: 3,
            old: "esi;".to_owned(),
            new: String::new(),
            reason: "because".to_owned(),
            warning: true,
        };
        let migrated = Migration { dialect: Some(vcl::Dialect::V21), text: b"vcl 4.1;\n".to_vec(), notes: vec![note] };
        assert_eq!(as_text("a.vcl", &migrated), "a.vcl: VCL 2.1\na.vcl:3: warning: esi; -> (left out): because\n");
        let value: serde_json::Value = serde_json::from_str(&as_json("a.vcl", &migrated)).unwrap();
        assert_eq!((&value["dialect"], &value["notes"][0]["line"]), (&json!("2.1"), &json!(3)));
    }
}

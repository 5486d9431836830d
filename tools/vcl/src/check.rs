// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer vcl check`

use serde_json::json;
use vcl::Sources;

use crate::args::Args;
use crate::messages::{self, Message};
use crate::{Format, compile, out};

pub(crate) fn run(args: &Args, sources: &dyn Sources) -> i32 {
    let mut status = 0;
    for file in &args.files {
        let result = compile(file, args, sources);
        if result.is_err() {
            status = 2;
        }
        let mut shown = match (args.format, &result) {
            (Format::Json, _) => as_json(file, &result),
            (Format::Text, Ok(good)) => format!("{file}: good\n{}", good.warnings),
            (Format::Text, Err(text)) => format!("{file}: refused\n{text}"),
        };
        if !shown.ends_with('\n') {
            shown.push('\n');
        }
        if out(shown.as_bytes(), 0) != 0 {
            return 1;
        }
    }
    status
}

/// One line for one file.
fn as_json(file: &str, result: &Result<vcl::Compiled, String>) -> String {
    let (text, failed) = match result {
        Ok(good) => (&good.warnings, false),
        Err(text) => (text, true),
    };
    let (errors, warnings) = (objects(text, failed, false), objects(text, failed, true));
    json!({ "file": file, "ok": !failed, "errors": errors, "warnings": warnings }).to_string()
}

/// The errors, or the warnings, in what the compiler said.
pub(crate) fn objects(text: &str, failed: bool, warnings: bool) -> Vec<serde_json::Value> {
    messages::parse(text, failed).iter().filter(|message| message.warning == warnings).map(object).collect()
}

fn object(message: &Message) -> serde_json::Value {
    let place = message.place.as_ref();
    json!({
        "message": message.what,
        "hint": message.hint,
        "source": place.map(|p| &p.source),
        "line": place.map(|p| p.line),
        "column": place.map(|p| p.column),
        "text": message.text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_object() {
        let text = "Symbol not found: 'x'\n('f' Line 2 Pos 3)\n  x;\n--#-\n".to_owned();
        let line: serde_json::Value = serde_json::from_str(&as_json("f", &Err(text))).unwrap();
        assert_eq!(line["ok"], false);
        assert_eq!(line["errors"][0]["message"], "Symbol not found: 'x'");
        assert_eq!((&line["errors"][0]["line"], &line["errors"][0]["column"]), (&json!(2), &json!(3)));
    }
}

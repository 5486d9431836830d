// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer vcl check`

use serde_json::json;
use vcl::Sources;

use crate::args::Args;
use crate::{Format, compile};

pub(crate) fn run(args: &Args, sources: &dyn Sources) -> i32 {
    let mut status = 0;
    for file in &args.files {
        let result = compile(file, args, sources);
        if result.is_err() {
            status = 2;
        }
        match args.format {
            Format::Json => println!("{}", as_json(file, &result)),
            Format::Text => {
                let (word, text) = match &result {
                    Ok(good) => ("good", good.warnings.as_str()),
                    Err(text) => ("refused", text.as_str()),
                };
                println!("{file}: {word}");
                print!("{text}");
                if !text.is_empty() && !text.ends_with('\n') {
                    println!();
                }
            }
        }
    }
    status
}

/// One line for one file.
fn as_json(file: &str, result: &Result<vcl::Compiled, String>) -> String {
    let (ok, errors, warnings) = match result {
        Ok(good) => (true, Vec::new(), messages(&good.warnings)),
        Err(text) => (false, messages(text), Vec::new()),
    };
    json!({ "file": file, "ok": ok, "errors": errors, "warnings": warnings }).to_string()
}

/// The compiler's text as messages: what is wrong, the first place it names, and the whole.
pub(crate) fn messages(text: &str) -> Vec<serde_json::Value> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let message = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('(')).unwrap_or_default();
    let place = text.lines().find_map(place);
    let (source, line, column) = place.map_or((None, None, None), |(s, l, c)| (Some(s), Some(l), Some(c)));
    vec![json!({ "message": message, "source": source, "line": line, "column": column, "text": text })]
}

/// `('file' Line 3 Pos 7)`, as the compiler writes places.
fn place(line: &str) -> Option<(String, u32, u32)> {
    let (name, rest) = line.split_once("('")?.1.split_once("' Line ")?;
    let (number, rest) = rest.split_once(" Pos ")?;
    let column: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((name.to_owned(), number.parse().ok()?, column.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found() {
        assert_eq!(place("('a b.vcl' Line 12 Pos 34) -- (Pos 36)"), Some(("a b.vcl".to_owned(), 12, 34)));
        assert_eq!(place("At: ('x' Line 1 Pos 2)"), Some(("x".to_owned(), 1, 2)));
        assert_eq!(place("nothing"), None);
    }

    #[test]
    fn an_error_is_one_object() {
        let text = "Symbol not found: 'x'\n('f' Line 2 Pos 3)\n  x;\n--#-\n".to_owned();
        let line: serde_json::Value = serde_json::from_str(&as_json("f", &Err(text))).unwrap();
        assert_eq!(line["ok"], false);
        assert_eq!(line["errors"][0]["message"], "Symbol not found: 'x'");
        assert_eq!((&line["errors"][0]["line"], &line["errors"][0]["column"]), (&json!(2), &json!(3)));
    }
}

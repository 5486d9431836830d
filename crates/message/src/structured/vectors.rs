// SPDX-License-Identifier: BSD-2-Clause
//! The vectors of httpwg/structured-field-tests, which are fetched by hand: docs/judges.md has the command.

use serde_json::{Value, json};

use super::{Dictionary, FieldItem, FieldMember, Parameters, item, list, write_list};

#[test]
#[ignore = "reads a clone of httpwg/structured-field-tests, named by STRUCTURED_FIELD_TESTS"]
fn all_vectors_hold() {
    let dir = std::env::var_os("STRUCTURED_FIELD_TESTS")
        .expect("STRUCTURED_FIELD_TESTS names a clone of httpwg/structured-field-tests");
    let files = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let (mut vectors, mut wrong) = (0, Vec::new());
    for file in files.filter(|path| path.extension().is_some_and(|end| end == "json")) {
        let all: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        for vector in all.as_array().unwrap() {
            vectors += 1;
            if let Err(reason) = check(vector) {
                wrong.push(format!("{}: {}: {reason}", file.display(), vector["name"]));
            }
        }
    }
    println!("{vectors} vectors, {} wrong", wrong.len());
    assert!(vectors > 1000 && wrong.is_empty(), "{}", wrong.join("\n"));
}

fn check(vector: &Value) -> Result<(), String> {
    let joined = |lines: &Value| {
        lines.as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect::<Vec<_>>().join(", ")
    };
    let raw = joined(&vector["raw"]);
    let is = |what: &str| vector[what].as_bool().unwrap_or(false);
    let Some((seen, written)) = read(vector["header_type"].as_str().unwrap(), raw.as_bytes()) else {
        return if is("must_fail") || is("can_fail") { Ok(()) } else { Err(format!("{raw} is refused")) };
    };
    if is("must_fail") {
        return Err(format!("{raw} is taken for {seen}"));
    }
    if seen != exact(&vector["expected"]) {
        return Err(format!("{raw} is taken for {seen}, not {}", exact(&vector["expected"])));
    }
    let canonical = if vector["canonical"].is_array() { joined(&vector["canonical"]) } else { raw };
    if written == canonical { Ok(()) } else { Err(format!("{written} is written for {canonical}")) }
}

/// A field as the vectors say what is expected, and as it is written again.
fn read(kind: &str, raw: &[u8]) -> Option<(Value, String)> {
    let mut out = Vec::new();
    let seen = match kind {
        "item" => {
            let item = item(raw)?;
            item.write(&mut out);
            shown(&item)
        }
        "list" => {
            let members = list(raw)?;
            write_list(&members, &mut out);
            members.iter().map(shown).collect()
        }
        _ => {
            let members = Dictionary::parse(raw)?;
            members.write(&mut out);
            members.with_parameters().map(|(key, member)| json!([text(key), shown(member)])).collect()
        }
    };
    Some((seen, text(&out)))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn shown(member: &FieldMember) -> Value {
    json!([value(&member.item), parameters(&member.parameters)])
}

fn parameters(all: &Parameters) -> Value {
    all.iter().map(|(key, item)| json!([text(key), value(item)])).collect()
}

fn value(item: &FieldItem) -> Value {
    let typed = |name: &str, value: Value| json!({ "__type": name, "value": value });
    match item {
        FieldItem::Integer(number) => json!(number),
        FieldItem::Decimal { thousandths } => typed("decimal", json!(thousandths)),
        FieldItem::Boolean(is_true) => json!(is_true),
        FieldItem::String(bytes) => json!(text(bytes)),
        FieldItem::Token(bytes) => typed("token", json!(text(bytes))),
        FieldItem::Bytes(bytes) => typed("binary", json!(base32(bytes))),
        FieldItem::Date(seconds) => typed("date", json!(seconds)),
        FieldItem::Display(text) => typed("displaystring", json!(text)),
        FieldItem::List(members) => members.iter().map(shown).collect(),
    }
}

/// The expected value, with decimals as thousandths.
fn exact(expected: &Value) -> Value {
    match expected {
        Value::Number(number) if number.is_f64() => {
            let thousandths = (number.as_f64().unwrap() * 1000.0).round() as i64;
            json!({ "__type": "decimal", "value": thousandths })
        }
        Value::Array(all) => all.iter().map(exact).collect(),
        other => other.clone(),
    }
}

/// RFC 4648 6, in which the vectors have bytes.
fn base32(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut out = String::new();
    for group in bytes.chunks(5) {
        let bits = group.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte)) << (8 * (5 - group.len()));
        let letters = (group.len() * 8).div_ceil(5);
        out.extend(
            (0..8)
                .map(|at| if at < letters { char::from(LETTERS[(bits >> (35 - 5 * at) & 31) as usize]) } else { '=' }),
        );
    }
    out
}

// SPDX-License-Identifier: BSD-2-Clause
//! The result of a probe as an object: `-g probe` of `varnishlog-json`.

use logq::Rec;
use tables::Tag;

use super::value::{JsonObject, JsonValue};

/// Bytes of a probe's eight letters; the last one says whether the last probe was good.
const LETTERS: usize = 8;

/// The object of a `Backend_health`: `boot.default Still healthy 4---X-RH 8 3 8 0.000324 0.000291 "HTTP/1.1 200 OK"`. `None` for other records.
pub fn object(rec: &Rec<'_>) -> Option<JsonObject> {
    if rec.tag != Tag::BackendHealth {
        return None;
    }
    let words: Vec<&[u8]> = rec.text().splitn(10, |b| *b == b' ').collect();
    let [backend, _, health, report, _, _, _, duration, _, message] = words[..] else { return None };
    if report.len() != LETTERS {
        return None;
    }
    let mut made = JsonObject::default();
    made.set("backend", JsonValue::text(backend));
    made.set("healthy", JsonValue::Bool(health == b"healthy"));
    made.set("happy", JsonValue::Bool(report.ends_with(b"H")));
    made.set("report", JsonValue::text(report));
    made.set("duration", seconds(duration));
    made.set("message", JsonValue::text(unquoted(message)));
    Some(made)
}

/// A duration without the zeros behind it.
fn seconds(text: &[u8]) -> JsonValue {
    let value = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    match value.filter(|value| value.is_finite()) {
        Some(value) if value > 0.0 && value < 1e-4 => {
            // As %g has it: two digits of exponent.
            JsonValue::Number(format!("{value:e}").replace("e-", "e-0"))
        }
        Some(value) => JsonValue::Number(format!("{value}")),
        None => JsonValue::text(text),
    }
}

fn unquoted(message: &[u8]) -> &[u8] {
    match message.strip_prefix(b"\"") {
        Some(inside) => inside.split(|b| *b == b'"').next().unwrap_or_default(),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use logq::record::{make, records};
    use shm::vsl::Marker;

    use super::super::value::JsonLayout;
    use super::*;

    fn check(text: &str, expected: &str) {
        let record = make(Tag::BackendHealth, 0, Marker::None, text.as_bytes());
        let mut out = String::new();
        if let Some(object) = records(&record).next().and_then(|rec| object(&rec)) {
            JsonValue::Object(object).write(&mut out, JsonLayout::Line);
        }
        assert_eq!(out, expected, "{text}");
    }

    #[test]
    fn probes() {
        check(
            "boot.default Still healthy 4---X-RH 8 3 8 0.000324 0.000291 \"HTTP/1.1 200 OK\"",
            r#"{"backend":"boot.default","healthy":true,"happy":true,"report":"4---X-RH","duration":0.000324,"message":"HTTP/1.1 200 OK"}"#,
        );
        check(
            "boot.b Went sick 4---X-r- 2 3 8 0.000012 0.000000 \"HTTP/1.1 503 A \"B\"\"",
            r#"{"backend":"boot.b","healthy":false,"happy":false,"report":"4---X-r-","duration":1.2e-05,"message":"HTTP/1.1 503 A "}"#,
        );
        check(
            "boot.c Still sick -------- 0 3 8 0.000000 0.500000 Open timeout 2.000s - select(2)",
            r#"{"backend":"boot.c","healthy":false,"happy":false,"report":"--------","duration":0,"message":"Open timeout 2.000s - select(2)"}"#,
        );
        check("boot.d Still sick", "");
        check("a b healthy ---- 0 3 8 0 0 x", "");
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! OpenTelemetry's data model of logs with the names of its semantic conventions for HTTP: attributes side by side, a line each request.

use super::writer::Writer;
use crate::time::rfc3339;
use crate::{Transaction, attributes, ids};

pub(super) fn write(w: &mut Writer<'_>, t: &Transaction) {
    let id = ids::of_request(t).own;
    w.object(|w| {
        if let Some(end) = t.end() {
            w.text("Timestamp", &rfc3339(end));
        }
        w.text("TraceId", &format!("{:032x}", id.trace));
        w.text("SpanId", &format!("{:016x}", id.span));
        w.text("SeverityText", if t.has_failed() { "ERROR" } else { "INFO" });
        w.text("Body", &format!("{} {} {}", t.request.method, t.request.url, t.response.status));
        w.child("Attributes", |w| {
            for (name, value) in attributes::of(t) {
                match value {
                    attributes::AttributeValue::Text(text) => w.text(&name, &text),
                    attributes::AttributeValue::Number(number) => w.number(&name, number),
                    attributes::AttributeValue::Boolean(value) => w.boolean(&name, value),
                }
            }
            for (name, value) in &t.request.fields {
                w.text(&format!("http.request.header.{}", name.to_ascii_lowercase()), value);
            }
        });
    });
}

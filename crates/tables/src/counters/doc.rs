// SPDX-License-Identifier: BSD-2-Clause
//! The JSON document of a set, as varnish-7.1's statistics library reads it: every member is a string but `index`.

use super::{CounterFields, CounterFormat, CounterKind, CounterLevel, Elem};
use crate::json::quote_into;

/// The document for `T`: compact JSON, ASCII, without a final NUL. `index` is the byte offset in the segment's body.
pub fn json_doc<T: CounterFields>() -> String {
    let mut out = String::with_capacity(256 + T::ELEMS.len() * 240);
    out.push_str("{\"version\":\"1\",\"name\":");
    quote_into(&mut out, &T::NAME.to_ascii_lowercase());
    out.push_str(",\"oneliner\":");
    quote_into(&mut out, T::ONELINER);
    out.push_str(&format!(",\"order\":{},\"docs\":\"\",\"elements\":{},\"elem\":{{", T::ORDER, T::ELEMS.len()));
    for (i, elem) in T::ELEMS.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        push_elem(&mut out, elem, i * 8);
    }
    out.push_str("}}");
    out
}

fn push_elem(out: &mut String, elem: &Elem, index: usize) {
    quote_into(out, elem.name);
    out.push(':');
    let text = [
        ("type", kind_text(elem.kind)),
        ("ctype", "uint64_t"),
        ("level", level_text(elem.level)),
        ("oneliner", elem.oneliner),
        ("group", elem.group),
        ("format", format_text(elem.format)),
        ("name", elem.name),
        ("docs", elem.docs),
    ];
    let mut sep = '{';
    for (key, value) in text {
        if key == "group" && value.is_empty() {
            continue;
        }
        out.push(sep);
        quote_into(out, key);
        out.push(':');
        quote_into(out, value);
        sep = ',';
    }
    out.push_str(&format!(",\"index\":{index}}}"));
}

fn kind_text(kind: CounterKind) -> &'static str {
    match kind {
        CounterKind::Counter => "counter",
        CounterKind::Gauge => "gauge",
        CounterKind::Bitmap => "bitmap",
    }
}

fn level_text(level: CounterLevel) -> &'static str {
    match level {
        CounterLevel::Info => "info",
        CounterLevel::Diag => "diag",
        CounterLevel::Debug => "debug",
    }
}

fn format_text(format: CounterFormat) -> &'static str {
    match format {
        CounterFormat::Integer => "integer",
        CounterFormat::Bytes => "bytes",
        CounterFormat::Bitmap => "bitmap",
        CounterFormat::Duration => "duration",
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Trees of numbers and texts, shown as node's `util.inspect` shows objects or as JSON. Scripts read both.

mod inspect;

pub use inspect::inspect;

use crate::number;

#[derive(Clone, Debug, PartialEq)]
pub enum StatsdShow {
    Number(f64),
    Text(String),
    List(Vec<StatsdShow>),
    /// Names and values, in the order to show.
    Object(Vec<(String, StatsdShow)>),
}

impl StatsdShow {
    /// A text of bytes that may not be UTF-8.
    pub fn text(bytes: &[u8]) -> StatsdShow {
        StatsdShow::Text(String::from_utf8_lossy(bytes).into_owned())
    }

    pub fn numbers(numbers: &[f64]) -> StatsdShow {
        StatsdShow::List(numbers.iter().map(|n| StatsdShow::Number(*n)).collect())
    }
}

/// The tree as JSON on one line. A number that JSON doesn't have is null, as with `JSON.stringify`.
pub fn json(show: &StatsdShow) -> String {
    let mut out = String::new();
    write_json(&mut out, show);
    out
}

fn write_json(out: &mut String, show: &StatsdShow) {
    match show {
        StatsdShow::Number(n) if n.is_finite() => out.push_str(&number::show(*n)),
        StatsdShow::Number(_) => out.push_str("null"),
        StatsdShow::Text(text) => quote(out, text),
        StatsdShow::List(list) => {
            out.push('[');
            for (at, item) in list.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                write_json(out, item);
            }
            out.push(']');
        }
        StatsdShow::Object(members) => {
            out.push('{');
            for (at, (name, value)) in members.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                quote(out, name);
                out.push(':');
                write_json(out, value);
            }
            out.push('}');
        }
    }
}

fn quote(out: &mut String, text: &str) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

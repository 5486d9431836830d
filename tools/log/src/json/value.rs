// SPDX-License-Identifier: BSD-2-Clause
//! JSON whose members keep the order in which they came, written as `varnishlog-json` of Varnish 9 does: in one line, or indented by tabs.

use tables::json::quote_into;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JsonValue {
    Text(String),
    /// The digits of a number, as the log has them.
    Number(String),
    Bool(bool),
    List(Vec<JsonValue>),
    Object(JsonObject),
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JsonObject(Vec<(String, JsonValue)>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JsonLayout {
    Line,
    Indented,
}

impl JsonValue {
    /// Text of the log. Bytes that are no UTF-8 are U+FFFD.
    pub fn text(bytes: &[u8]) -> JsonValue {
        JsonValue::Text(String::from_utf8_lossy(bytes).into_owned())
    }

    /// A number of the log; what JSON has no such number for is a text.
    pub fn number(bytes: &[u8]) -> JsonValue {
        let (whole, fraction) = match bytes.iter().position(|b| *b == b'.') {
            Some(point) => (&bytes[..point], Some(&bytes[point + 1..])),
            None => (bytes, None),
        };
        let whole = whole.strip_prefix(b"-").unwrap_or(whole);
        let is_digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
        let has_no_zero = whole.len() == 1 || whole.first() != Some(&b'0');
        let text = String::from_utf8_lossy(bytes).into_owned();
        if is_digits(whole) && has_no_zero && fraction.is_none_or(is_digits) {
            JsonValue::Number(text)
        } else {
            JsonValue::Text(text)
        }
    }

    pub fn write(&self, out: &mut String, layout: JsonLayout) {
        self.write_at(out, layout, 0);
    }

    fn write_at(&self, out: &mut String, layout: JsonLayout, depth: usize) {
        match self {
            JsonValue::Text(text) => quote_into(out, text),
            JsonValue::Number(digits) => out.push_str(digits),
            JsonValue::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            JsonValue::List(all) => {
                out.push('[');
                for (n, value) in all.iter().enumerate() {
                    let comma = if layout == JsonLayout::Line { "," } else { ", " };
                    out.push_str(if n > 0 { comma } else { "" });
                    value.write_at(out, layout, depth + 1);
                }
                out.push(']');
            }
            JsonValue::Object(object) => object.write_at(out, layout, depth),
        }
    }
}

impl JsonObject {
    pub fn get(&self, name: &str) -> Option<&JsonValue> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// Adds a member, or gives the one of that name another value.
    pub fn set(&mut self, name: &str, value: JsonValue) {
        *self.entry(name, || JsonValue::Bool(false)) = value;
    }

    /// Adds the members of another object, in their order.
    pub fn append(&mut self, more: JsonObject) {
        more.0.into_iter().for_each(|(name, value)| self.set(&name, value));
    }

    /// Appends to a list, which begins with this value if there is none.
    pub fn push(&mut self, name: &str, value: JsonValue) {
        if let JsonValue::List(all) = self.entry(name, || JsonValue::List(Vec::new())) {
            all.push(value);
        }
    }

    fn entry(&mut self, name: &str, new: impl FnOnce() -> JsonValue) -> &mut JsonValue {
        let at = self.0.iter().position(|(own, _)| own == name).unwrap_or_else(|| {
            self.0.push((name.to_owned(), new()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    fn write_at(&self, out: &mut String, layout: JsonLayout, depth: usize) {
        let (line_end, colon) = if layout == JsonLayout::Line { ("", ":") } else { ("\n", ":\t") };
        let indent = |out: &mut String, depth| {
            if layout == JsonLayout::Indented {
                (0..depth).for_each(|_| out.push('\t'));
            }
        };
        out.push('{');
        out.push_str(line_end);
        for (n, (name, value)) in self.0.iter().enumerate() {
            indent(out, depth + 1);
            quote_into(out, name);
            out.push_str(colon);
            value.write_at(out, layout, depth + 1);
            out.push_str(if n + 1 < self.0.len() { "," } else { "" });
            out.push_str(line_end);
        }
        indent(out, depth);
        out.push('}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_in_their_order() {
        let mut object = JsonObject::default();
        object.set("b", JsonValue::text(b"x\"\xff"));
        object.set("a", JsonValue::number(b"1.500000"));
        object.set("none", JsonValue::Object(JsonObject::default()));
        object.push("list", JsonValue::Bool(true));
        object.push("list", JsonValue::List(vec![]));
        object.set("b", JsonValue::text(b"y"));
        let value = JsonValue::Object(object);
        let check = |layout, expected: &str| {
            let mut out = String::new();
            value.write(&mut out, layout);
            assert_eq!(out, expected);
        };
        check(JsonLayout::Line, r#"{"b":"y","a":1.500000,"none":{},"list":[true,[]]}"#);
        check(
            JsonLayout::Indented,
            "{\n\t\"b\":\t\"y\",\n\t\"a\":\t1.500000,\n\t\"none\":\t{\n\t},\n\t\"list\":\t[true, []]\n}",
        );
    }

    #[test]
    fn numbers_are_those_of_json() {
        let check = |text: &str, is_number| {
            assert_eq!(matches!(JsonValue::number(text.as_bytes()), JsonValue::Number(_)), is_number, "{text}");
        };
        for number in ["0", "8080", "-3", "1700000000.250000", "0.5"] {
            check(number, true);
        }
        for text in ["", "-", "08", "1.", ".5", "1e3", "1.2.3", "x", "1\u{665}"] {
            check(text, false);
        }
    }
}

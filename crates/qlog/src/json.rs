// SPDX-License-Identifier: BSD-2-Clause
//! A writer of JSON objects, whose members are left out where they have no value.

use std::fmt::{Debug, Write as _};

/// An object that is open.
pub struct Object<'a> {
    out: &'a mut String,
    is_empty: bool,
}

/// Writes an object with the members that `members` adds.
pub fn object(out: &mut String, members: impl FnOnce(&mut Object<'_>)) {
    out.push('{');
    members(&mut Object { out, is_empty: true });
    out.push('}');
}

impl Object<'_> {
    pub fn texts(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            text(self.member(name), value);
        }
    }

    /// The shortest digits that stand for a number, with a point if it isn't of a type of whole numbers: `Debug` writes these.
    pub fn numbers(&mut self, name: &str, value: Option<impl Debug>) {
        if let Some(value) = value {
            // Writing to a String can't fail.
            let _ = write!(self.member(name), "{value:?}");
        }
    }

    pub fn lists(&mut self, name: &str, values: Option<&[String]>) {
        let Some(values) = values else { return };
        let out = self.member(name);
        out.push('[');
        for (at, value) in values.iter().enumerate() {
            out.push_str(if at > 0 { "," } else { "" });
            text(out, value);
        }
        out.push(']');
    }

    pub fn object(&mut self, name: &str, members: impl FnOnce(&mut Object<'_>)) {
        object(self.member(name), members);
    }

    /// A member whose value `write` appends.
    pub fn value(&mut self, name: &str, write: impl FnOnce(&mut String)) {
        write(self.member(name));
    }

    fn member(&mut self, name: &str) -> &mut String {
        if !self.is_empty {
            self.out.push(',');
        }
        self.is_empty = false;
        text(self.out, name);
        self.out.push(':');
        self.out
    }
}

fn text(out: &mut String, value: &str) {
    out.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\0'..'\x20' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_without_a_value_are_left_out() {
        let mut out = String::new();
        object(&mut out, |all| {
            all.texts("a", None);
            all.object("b", |_| {});
            all.numbers("c", Some(1.0f32));
            all.numbers("d", None::<u64>);
            all.lists("e", Some(&["x".into(), "y".into()]));
            all.numbers("f", Some(u64::MAX));
        });
        assert_eq!(out, r#"{"b":{},"c":1.0,"e":["x","y"],"f":18446744073709551615}"#);
    }

    #[test]
    fn texts_are_escaped() {
        let mut out = String::new();
        text(&mut out, "a\"b\\c\n\u{1e}é");
        assert_eq!(out, "\"a\\\"b\\\\c\\u000a\\u001eé\"");
    }
}

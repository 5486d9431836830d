// SPDX-License-Identifier: BSD-2-Clause
//! Values in the one form that they have when they are written (RFC 9651 4.1).

use super::{Dictionary, FieldItem, FieldMember, Parameters};

impl Dictionary {
    pub fn write(&self, out: &mut Vec<u8>) {
        for (at, (key, member)) in self.0.iter().enumerate() {
            out.extend_from_slice(if at > 0 { b", " } else { b"" });
            out.extend_from_slice(key);
            if member.item == FieldItem::Boolean(true) {
                write_parameters(&member.parameters, out);
            } else {
                out.push(b'=');
                member.write(out);
            }
        }
    }
}

pub(crate) fn write_list(members: &[FieldMember], out: &mut Vec<u8>) {
    for (at, member) in members.iter().enumerate() {
        out.extend_from_slice(if at > 0 { b", " } else { b"" });
        member.write(out);
    }
}

impl FieldMember {
    pub fn write(&self, out: &mut Vec<u8>) {
        self.item.write(out);
        write_parameters(&self.parameters, out);
    }
}

impl FieldItem {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            FieldItem::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
            FieldItem::Decimal { thousandths } => write_decimal(*thousandths, out),
            FieldItem::Boolean(is_true) => out.extend_from_slice(if *is_true { b"?1" } else { b"?0" }),
            FieldItem::String(text) => write_string(text, out),
            FieldItem::Token(text) => out.extend_from_slice(text),
            FieldItem::Bytes(bytes) => out.extend_from_slice(format!(":{}:", base::base64::encode(bytes)).as_bytes()),
            FieldItem::Date(seconds) => out.extend_from_slice(format!("@{seconds}").as_bytes()),
            FieldItem::Display(text) => write_display(text, out),
            FieldItem::List(members) => {
                out.push(b'(');
                for (at, member) in members.iter().enumerate() {
                    out.extend_from_slice(if at > 0 { b" " } else { b"" });
                    member.write(out);
                }
                out.push(b')');
            }
        }
    }
}

fn write_parameters(parameters: &Parameters, out: &mut Vec<u8>) {
    for (key, value) in parameters {
        out.push(b';');
        out.extend_from_slice(key);
        if *value != FieldItem::Boolean(true) {
            out.push(b'=');
            value.write(out);
        }
    }
}

fn write_decimal(thousandths: i64, out: &mut Vec<u8>) {
    let sign = if thousandths < 0 { "-" } else { "" };
    let (whole, part) = (thousandths.unsigned_abs() / 1000, thousandths.unsigned_abs() % 1000);
    let part = format!("{part:03}");
    let part = part.trim_end_matches('0');
    out.extend_from_slice(format!("{sign}{whole}.{}", if part.is_empty() { "0" } else { part }).as_bytes());
}

fn write_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &c in text {
        if matches!(c, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(c);
    }
    out.push(b'"');
}

fn write_display(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"%\"");
    for c in text.bytes() {
        match c {
            b'%' | b'"' | ..b' ' | 0x7f.. => out.extend_from_slice(format!("%{c:02x}").as_bytes()),
            _ => out.push(c),
        }
    }
    out.push(b'"');
}

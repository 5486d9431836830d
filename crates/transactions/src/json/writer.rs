// SPDX-License-Identifier: BSD-2-Clause
//! JSON as it is written: names, values and the commas between them.

use std::fmt::Write as _;

use tables::json::quote_into;

pub(super) struct Writer<'a> {
    out: &'a mut String,
    /// Something stands in front in this object or list.
    has_before: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(out: &'a mut String) -> Writer<'a> {
        Writer { out, has_before: false }
    }

    fn comma(&mut self) {
        if self.has_before {
            self.out.push(',');
        }
        self.has_before = true;
    }

    fn name(&mut self, name: &str) {
        self.comma();
        quote_into(self.out, name);
        self.out.push(':');
    }

    fn within(&mut self, brackets: (char, char), fill: impl FnOnce(&mut Writer<'_>)) {
        self.out.push(brackets.0);
        fill(&mut Writer { out: self.out, has_before: false });
        self.out.push(brackets.1);
    }

    /// An object, as the whole value.
    pub(super) fn object(&mut self, fill: impl FnOnce(&mut Writer<'_>)) {
        self.within(('{', '}'), fill);
    }

    /// An object as the next one of a list.
    pub(super) fn item(&mut self, fill: impl FnOnce(&mut Writer<'_>)) {
        self.comma();
        self.object(fill);
    }

    pub(super) fn child(&mut self, name: &str, fill: impl FnOnce(&mut Writer<'_>)) {
        self.name(name);
        self.object(fill);
    }

    /// A field that is a list, unless it is empty.
    pub(super) fn list<T>(&mut self, name: &str, all: &[T], mut each: impl FnMut(&mut Writer<'_>, &T)) {
        if !all.is_empty() {
            self.name(name);
            self.within(('[', ']'), |w| all.iter().for_each(|one| each(w, one)));
        }
    }

    /// A list of texts, unless it is empty.
    pub(super) fn texts(&mut self, name: &str, all: &[String]) {
        self.list(name, all, |w, text| {
            w.comma();
            quote_into(w.out, text);
        });
    }

    /// A text, unless it is empty.
    pub(super) fn text(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.name(name);
            quote_into(self.out, text);
        }
    }

    pub(super) fn number(&mut self, name: &str, number: u64) {
        self.name(name);
        let _ = write!(self.out, "{number}");
    }

    /// A number, unless it is 0 and so means nothing.
    pub(super) fn positive(&mut self, name: &str, number: u64) {
        if number > 0 {
            self.number(name, number);
        }
    }

    /// Nanoseconds as seconds, exactly.
    pub(super) fn seconds(&mut self, name: &str, ns: u64) {
        self.name(name);
        let _ = write!(self.out, "{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    }

    pub(super) fn boolean(&mut self, name: &str, value: bool) {
        self.name(name);
        self.out.push_str(if value { "true" } else { "false" });
    }
}

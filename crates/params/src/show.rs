// SPDX-License-Identifier: BSD-2-Clause
//! What `param.show` answers, in varnish-7.1's layout, and the reference text of `-x parameter`.

use super::bits::{DebugBits, ExperimentalBits, FeatureBits, VccFeatureBits};
use super::{Flag, ParamError, ParamKind, Params, SPECS, Spec, limits, lookup, old};
use tables::Compat;
use tables::json::quote;

const WRAP_AT: usize = 72;
/// The column in which they begin.
const MARGIN: usize = 8;
/// Columns by which a table is set in beyond that.
const TABLE_INDENT: usize = 3;
const VALUE_COLUMN: usize = 30;

/// The things to show: `param.show [-l|-j] [NAME|changed]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParamShow<'a> {
    /// Only this one, in the long form.
    pub name: Option<&'a str>,
    pub long: bool,
    pub changed: bool,
}

impl ParamShow<'_> {
    pub fn text(&self, params: &Params) -> Result<String, ParamError> {
        let mut out = String::new();
        for spec in self.chosen(params)? {
            if self.long || self.name.is_some() {
                long(&mut out, params, spec, self.name);
            } else {
                short(&mut out, params, spec);
            }
        }
        Ok(out)
    }

    /// The JSON objects, separated by commas, set in by two: what stands between the head and the closing bracket.
    pub fn json(&self, params: &Params) -> Result<String, ParamError> {
        let objects: Vec<String> = self.chosen(params)?.map(|spec| json_object(params, spec, self.name)).collect();
        Ok(objects.join(",\n"))
    }

    fn chosen<'p>(&self, params: &'p Params) -> Result<impl Iterator<Item = &'static Spec> + use<'p>, ParamError> {
        let one = match self.name {
            Some(name) => Some(lookup(name).ok_or_else(|| match old::gone(name) {
                Some(instead) => ParamError::Gone { name: name.to_owned(), instead, is_forgiven: false },
                None => ParamError::Unknown { name: name.to_owned() },
            })?),
            None => None,
        };
        let changed = self.changed;
        Ok(SPECS.iter().filter(move |spec| {
            one.is_none_or(|o| o == *spec)
                && !(changed && spec.value(params).show(params.compat) == spec.default(params.compat))
        }))
    }
}

fn short(out: &mut String, params: &Params, spec: &Spec) {
    let value = if spec.has(Flag::NotAvailable) { "-".to_owned() } else { value_text(params, spec) };
    out.push_str(&format!("{:VALUE_COLUMN$}{value}\n", spec.name));
}

fn value_text(params: &Params, spec: &Spec) -> String {
    let mut text = spec.value(params).show(params.compat);
    let is_default = text == spec.default(params.compat);
    if !spec.unit.is_empty() {
        text.push_str(&format!(" [{}]", spec.unit));
    }
    if is_default {
        text.push_str(" (default)");
    }
    text
}

fn long(out: &mut String, params: &Params, spec: &Spec, asked: Option<&str>) {
    out.push_str(&format!("{}\n", asked.unwrap_or(spec.name)));
    if spec.has(Flag::NotAvailable) {
        out.push_str("        Not available\n\n\n\n");
        wrap(out, "NB: There is no such thing on this platform.");
        out.push_str("\n\n");
        return;
    }
    out.push_str(&format!("        Value is: {}\n", value_text(params, spec)));
    if asked.is_some_and(|name| name != spec.name) {
        out.push_str(&format!("        Alias of: {}\n", spec.name));
    }
    let default = spec.default(params.compat);
    if spec.value(params).show(params.compat) != default {
        out.push_str(&format!("        Default is: {default}\n"));
    }
    let (min, max) = limits::resolve(spec, params);
    if let Some(min) = min {
        out.push_str(&format!("        Minimum is: {min}\n"));
    }
    if let Some(max) = max {
        out.push_str(&format!("        Maximum is: {max}\n"));
    }
    out.push('\n');
    wrap(out, spec.text);
    bit_table(out, spec.kind);
    for note in notes(params, spec) {
        out.push_str("\n\n");
        wrap(out, note);
    }
    out.push_str("\n\n");
}

fn notes(params: &Params, spec: &Spec) -> Vec<&'static str> {
    let mut notes: Vec<&'static str> = spec.flags.iter().filter_map(|f| note(*f)).collect();
    if params.is_protected(spec) {
        notes.push("NB: This parameter is protected (-r) and cannot be changed.");
    }
    notes
}

fn note(flag: Flag) -> Option<&'static str> {
    Some(match flag {
        Flag::ObjSticky => "NB: Applies when an object is stored. Cached objects keep their values.",
        Flag::DelayedEffect => "NB: A change may take a while to have its full effect.",
        Flag::Experimental => "NB: There is little experience with other values. Be careful, and report what you find.",
        Flag::MustReload => "NB: A change takes effect when VCL is loaded again.",
        Flag::MustRestart => "NB: A change takes effect when the worker process is restarted.",
        Flag::Wizard => "NB: Leave this alone unless a developer asks for it.",
        Flag::BuildOptions => "NB: The default depends on how this program was built.",
        Flag::Own => "NB: Specific to Lacquer; Varnish 7.1 has no such parameter.",
        Flag::NoEffect => "NB: Accepted because Varnish has it; it has no effect here.",
        Flag::NotAvailable => return None,
    })
}

fn wrap(out: &mut String, text: &str) {
    for (i, line) in text.split('\n').enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if !line.is_empty() {
            out.push_str(&" ".repeat(MARGIN));
            wrap_words(out, line, MARGIN, MARGIN);
        }
    }
}

/// Appends words from column `at`, later lines set in by `indent`.
fn wrap_words(out: &mut String, line: &str, at: usize, indent: usize) {
    let mut column = at;
    for (i, word) in line.split(' ').enumerate() {
        let width = word.chars().count() + 1;
        if i > 0 && column + width >= WRAP_AT {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if i > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width - 1;
    }
}

type Rows = &'static [(&'static str, &'static str)];

fn bit_table(out: &mut String, kind: ParamKind) {
    let (names, head): (Rows, Rows) = match kind {
        ParamKind::Debug => (DebugBits::NAMES, &[("none", "Clear all")]),
        ParamKind::Experimental => (ExperimentalBits::NAMES, &[("none", "Clear all")]),
        ParamKind::VccFeature => (VccFeatureBits::NAMES, &[("none", "Clear all"), ("all", "Set all")]),
        ParamKind::Feature => (FeatureBits::NAMES, &[("default", "Set the default"), ("none", "Clear all")]),
        _ => return,
    };
    let width = names.iter().map(|(name, _)| name.len() + 2).max().unwrap_or(0).max(20);
    for (name, text) in head {
        table_row(out, name, text, width);
    }
    out.push_str("\n\n        Use +/- prefix to set/clear single bits:");
    for (name, text) in names {
        table_row(out, name, text, width);
    }
}

fn table_row(out: &mut String, name: &str, text: &str, width: usize) {
    out.push_str(&format!("\n{}{name:width$}", " ".repeat(MARGIN + TABLE_INDENT)));
    let column = MARGIN + TABLE_INDENT + width;
    wrap_words(out, text, column, column);
}

fn json_object(params: &Params, spec: &Spec, asked: Option<&str>) -> String {
    let mut out = format!("  {{\n    \"name\": {},\n", quote(asked.unwrap_or(spec.name)));
    if asked.is_some_and(|name| name != spec.name) {
        out.push_str(&format!("    \"alias\": {},\n", quote(spec.name)));
    }
    if spec.has(Flag::NotAvailable) {
        out.push_str("    \"implemented\": false\n  }");
        return out;
    }
    out.push_str(&format!("    \"implemented\": true,\n    \"value\": {},\n", spec.value(params).json(params.compat)));
    let (min, max) = limits::resolve(spec, params);
    let unit = (!spec.unit.is_empty()).then(|| spec.unit.to_owned());
    let pairs = [
        ("units", unit),
        ("default", Some(spec.default(params.compat).to_owned())),
        ("minimum", min),
        ("maximum", max),
    ];
    for (key, value) in pairs {
        if let Some(value) = value {
            out.push_str(&format!("    \"{key}\": {},\n", quote(&value)));
        }
    }
    out.push_str(&format!("    \"description\": {},\n    \"flags\": [", quote(spec.text)));
    let mut flags: Vec<&str> = spec.flags.iter().filter_map(|f| flag_name(*f)).collect();
    if params.is_protected(spec) {
        flags.push("protected");
    }
    for (i, flag) in flags.iter().enumerate() {
        out.push_str(&format!("{}\n      \"{flag}\"", if i > 0 { "," } else { "" }));
    }
    out.push_str(if flags.is_empty() { "]\n  }" } else { "\n    ]\n  }" });
    out
}

fn flag_name(flag: Flag) -> Option<&'static str> {
    Some(match flag {
        Flag::ObjSticky => "obj_sticky",
        Flag::DelayedEffect => "delayed_effect",
        Flag::Experimental => "experimental",
        Flag::MustReload => "must_reload",
        Flag::MustRestart => "must_restart",
        Flag::Wizard => "wizard",
        Flag::BuildOptions => "build_options",
        Flag::NotAvailable | Flag::Own | Flag::NoEffect => return None,
    })
}

/// The reference of all parameters as reStructuredText (`-x parameter`).
pub fn rst(compat: Compat) -> String {
    let mut out = String::from("\n.. The parameters, as varnishd -x parameter writes them\n\n");
    for spec in SPECS {
        let name = spec.name;
        out.push_str(&format!(".. _ref_param_{name}:\n\n{name}\n{}\n", "~".repeat(name.len())));
        if !spec.unit.is_empty() {
            out.push_str(&format!("\t* Units: {}\n", spec.unit));
        }
        out.push_str(&format!("\t* Default: {}\n", spec.default(compat)));
        let (min_why, max_why) = limits::reasons(spec);
        for (label, value) in [("Minimum", min_why.or(spec.min)), ("Maximum", max_why.or(spec.max))] {
            if let Some(value) = value {
                out.push_str(&format!("\t* {label}: {value}\n"));
            }
        }
        // Two names differ between this text and the CLI, as in varnishd.
        let flags = spec.flags.iter().filter(|flag| **flag != Flag::BuildOptions).filter_map(|f| flag_name(*f));
        let flags: Vec<&str> = flags.map(|name| if name == "delayed_effect" { "delayed" } else { name }).collect();
        if !flags.is_empty() {
            out.push_str(&format!("\t* Flags: {}\n", flags.join(", ")));
        }
        out.push_str(&format!("\n{}\n\n", spec.text.replace('\n', "\n\n")));
    }
    out
}

// SPDX-License-Identifier: BSD-2-Clause
//! A transaction as a line of JSON (docs/json-log.md describes the fields).
//!
//! Names are ours, or those of the Elastic Common Schema or of OpenTelemetry's semantic conventions as far as these have one; what they lack
//! stands below `lacquer`. What isn't to be shown is taken out of the records before ([`logq::redact`]). Bytes that are no UTF-8 are U+FFFD.

mod ecs;
mod otel;
mod own;
mod writer;

use crate::Transaction;

use writer::Writer;

/// The version of the names: it changes when one changes its meaning or goes away.
pub const VERSION: u32 = 1;

/// The convention by which fields are named.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FieldNaming {
    #[default]
    Own,
    /// The Elastic Common Schema.
    Ecs,
    /// Names of OpenTelemetry's semantic conventions.
    Otel,
}

impl FieldNaming {
    pub const ALL: &'static [FieldNaming] = &[FieldNaming::Own, FieldNaming::Ecs, FieldNaming::Otel];

    pub const fn name(self) -> &'static str {
        match self {
            FieldNaming::Own => "lacquer",
            FieldNaming::Ecs => "ecs",
            FieldNaming::Otel => "otel",
        }
    }

    pub fn from_name(name: &str) -> Option<FieldNaming> {
        FieldNaming::ALL.iter().copied().find(|names| names.name() == name)
    }
}

/// Appends a transaction with those below it, and a newline.
pub fn line(out: &mut String, transaction: &Transaction, names: FieldNaming) {
    let mut writer = Writer::new(out);
    match names {
        FieldNaming::Own => own::write(&mut writer, transaction),
        FieldNaming::Ecs => ecs::write(&mut writer, transaction),
        FieldNaming::Otel => otel::write(&mut writer, transaction),
    }
    out.push('\n');
}

/// Appends that so many lines are missing here, as a line that no request has.
pub fn gap(out: &mut String, lost: u64, why: &str) {
    let mut writer = Writer::new(out);
    writer.object(|w| {
        w.number("version", VERSION.into());
        w.text("type", "gap");
        w.number("lost", lost);
        w.text("why", why);
    });
    out.push('\n');
}

#[cfg(test)]
mod tests;

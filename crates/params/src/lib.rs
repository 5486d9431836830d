// SPDX-License-Identifier: BSD-2-Clause
//! Parameters: their values ([`Params`]), what is known of each ([`Spec`]), setting and showing them as `param.set` and
//! `param.show` do, and the lines in which the manager hands all values to the worker.
//!
//! [`Params`] is plain data: share it as `Arc<Params>` and replace it whole when something changes.

mod bits;
pub mod bots;
pub mod classes;
mod limits;
pub mod negative_ttl;
mod old;
mod show;
mod table;
pub mod tenants;
pub mod timeouts;
mod value;

pub use bits::{
    DebugBit, DebugBits, ExperimentalBit, ExperimentalBits, FeatureBit, FeatureBits, VccFeatureBit, VccFeatureBits,
};
pub use show::{ParamShow, rst};
pub use table::{Params, SPECS};
pub use timeouts::NEVER;
pub use value::{BytesOrAuto, ParamKind, ParamValue, PoolParam, show_bytes};

use message::{Coding, Codings};
use tables::Compat;
use tables::tags::{LogSettings, TagMask};

/// The facts that have to be known before a parameter is changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flag {
    /// Looked at when an object is made.
    ObjSticky,
    DelayedEffect,
    Experimental,
    /// Takes effect when VCL is loaded again.
    MustReload,
    /// Takes effect when the worker is started again.
    MustRestart,
    Wizard,
    /// The default hangs on how the program was built.
    BuildOptions,
    NotAvailable,
    /// Lacquer's own: Varnish 7.1 has none of this name.
    Own,
    /// Taken and kept because Varnish has it; it has no effect here.
    NoEffect,
}

#[derive(Debug)]
pub struct Spec {
    pub name: &'static str,
    pub kind: ParamKind,
    /// Default, as `param.show` shows it, under `--compat 7.1`.
    default: &'static str,
    /// The default under `--compat 9`, where it is another one.
    default_of_9: Option<&'static str>,
    pub unit: &'static str,
    pub min: Option<&'static str>,
    pub max: Option<&'static str>,
    pub flags: &'static [Flag],
    /// Text; paragraphs end in a newline.
    pub text: &'static str,
    pub(crate) get: fn(&Params) -> ParamValue,
    pub(crate) put: fn(&mut Params, ParamValue),
}

/// The reason why a parameter was not set. `Display` is the whole text of the CLI's reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParamError {
    Unknown {
        name: String,
    },
    /// A name older or newer releases have; says what to do instead.
    Gone {
        name: String,
        instead: &'static str,
        /// Setting it may be taken for done: nobody can miss it.
        is_forgiven: bool,
    },
    Invalid {
        name: &'static str,
        value: String,
        /// Ends in a newline mostly, as Varnish writes it.
        reason: String,
    },
    NotAvailable {
        name: &'static str,
    },
    /// The option `-r` forbids it.
    Protected {
        name: &'static str,
    },
}

impl ParamError {
    /// The CLI's status: 106, 107 or 300.
    pub fn status(&self) -> u16 {
        match self {
            Self::Unknown { .. } | Self::Gone { .. } | Self::Invalid { .. } => 106,
            Self::Protected { .. } => 107,
            Self::NotAvailable { .. } => 300,
        }
    }
}

impl std::fmt::Display for ParamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown { name } => {
                write!(f, "Unknown parameter \"{name}\".")?;
                nearest(name).map_or(Ok(()), |near| write!(f, "\nIs {near} meant?"))
            }
            Self::Gone { name, instead, .. } => write!(f, "Unknown parameter \"{name}\".\n{instead}"),
            Self::Invalid { name, value, reason } => {
                write!(f, "{reason}\n(attempting to set param '{name}' to '{value}')")
            }
            Self::NotAvailable { name } => write!(f, "parameter \"{name}\" is not available on this platform."),
            Self::Protected { name } => write!(f, "parameter \"{name}\" is protected."),
        }
    }
}

impl std::error::Error for ParamError {}

impl ParamError {
    /// The words to say instead of an error about a name that is gone and that nobody can miss.
    pub fn forgiven(&self) -> Option<String> {
        match self {
            Self::Gone { is_forgiven: true, .. } => self.forgiven_at_start(),
            Self::Gone { .. }
            | Self::Unknown { .. }
            | Self::Invalid { .. }
            | Self::NotAvailable { .. }
            | Self::Protected { .. } => None,
        }
    }

    /// The words to say instead of an error about a name that is gone, on the command line: an old start line starts.
    pub fn forgiven_at_start(&self) -> Option<String> {
        match self {
            Self::Gone { name, instead, .. } => Some(format!("Parameter {name} is ignored: {instead}")),
            Self::Unknown { .. } | Self::Invalid { .. } | Self::NotAvailable { .. } | Self::Protected { .. } => None,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParamChange {
    /// The parameter; not always the name given (old names are mapped).
    pub spec: &'static Spec,
    /// Something worth telling: the name is old, the unit has changed, it has no effect here, the value is unwise.
    pub note: Option<String>,
}

impl ParamChange {
    /// The note as a line for the log; `name` is what was given.
    pub fn note(&self, name: &str) -> Option<String> {
        let note = self.note.as_deref()?;
        Some(match self.spec.name == name {
            true => format!("Parameter {name}: {note}"),
            false => format!("Parameter {name} is called {} here. {note}", self.spec.name),
        })
    }

    /// The answer of `param.set`: empty, or when the change takes effect. `running`: true if there is a worker.
    pub fn reply(&self, running: bool) -> &'static str {
        if running && self.spec.has(Flag::MustRestart) {
            "\nChange will take effect when child is restarted"
        } else if self.spec.has(Flag::MustReload) {
            "\nChange will take effect when VCL script is reloaded"
        } else {
            ""
        }
    }
}

impl PartialEq for Spec {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Spec {}

impl Spec {
    pub fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// Default, as `param.show` shows it.
    pub fn default(&self, compat: Compat) -> &'static str {
        match compat {
            Compat::V7_1 => self.default,
            Compat::V9 => self.default_of_9.unwrap_or(self.default),
        }
    }

    pub fn value(&self, params: &Params) -> ParamValue {
        (self.get)(params)
    }

    pub fn no_effect(&self) -> bool {
        self.has(Flag::NoEffect)
    }
}

/// The parameter of this name, or of the name that `name` is an alias of.
pub fn lookup(name: &str) -> Option<&'static Spec> {
    let name = old::alias(name).unwrap_or(name);
    SPECS.binary_search_by(|s| s.name.cmp(name)).ok().map(|i| &SPECS[i])
}

/// The parameter that a mistyped name stands for. Only present names, as the old ones are known by themselves.
fn nearest(name: &str) -> Option<&'static str> {
    base::spelling::nearest(name, SPECS.iter().map(|spec| spec.name))
}

/// The parameter whose bits are parameters up to 7.1, and these: what protects one of them protects all that sets it.
const VCC_FEATURE: &str = "vcc_feature";
const VCC_BITS: [&str; 3] = ["vcc_allow_inline_c", "vcc_err_unref", "vcc_unsafe_path"];

/// The line of a release other than 7.1 before the parameters. A program that doesn't know it refuses to take over.
const COMPAT_LINE: &str = "compat=";

impl Default for Params {
    fn default() -> Self {
        Self::of(Compat::default())
    }
}

impl Params {
    /// The defaults of a release.
    pub fn of(compat: Compat) -> Self {
        // The mask's default is written as what it takes from this.
        let mut params = Self { compat, vsl_mask: TagMask::ON_DEMAND, ..Self::blank() };
        for spec in SPECS {
            let value = value::parse(spec, &params, spec.default(compat), (None, None));
            params.put(spec, value.expect("a default is valid (tested)"));
        }
        params
    }

    /// The release whose manners the server has.
    #[inline]
    pub fn compat(&self) -> Compat {
        self.compat
    }

    /// `param.set NAME TEXT`. Nothing changes on an error.
    pub fn set(&mut self, name: &str, text: &str) -> Result<ParamChange, ParamError> {
        let spec = self.settable(name)?;
        let value = value::parse(spec, self, text, limits::resolve(spec, self)).and_then(|value| {
            limits::check(spec, self, &value)?;
            Ok(value)
        });
        let value = value.map_err(|reason| ParamError::Invalid { name: spec.name, value: text.to_owned(), reason })?;
        let (value, note) = old::convert(name, spec, value);
        let idle = value::idle_bit(&spec.value(self), &value);
        let notes: Vec<&str> = [note, old::advice(spec, &value), idle].into_iter().flatten().collect();
        self.put(spec, value);
        Ok(ParamChange { spec, note: (!notes.is_empty()).then(|| notes.join(" ")) })
    }

    /// `-p NAME=TEXT`: as [`Params::set`], and values that only old releases took are made to fit.
    pub fn set_at_start(&mut self, name: &str, text: &str) -> Result<ParamChange, ParamError> {
        let refused = match self.set(name, text) {
            Err(error @ ParamError::Invalid { .. }) => error,
            done => return done,
        };
        let spec = self.settable(name)?;
        let (least, _) = limits::resolve(spec, self);
        let Some((text, reason)) = old::eased(name, spec, text, least.as_deref()) else { return Err(refused) };
        self.set(name, &text).map(|applied| ParamChange { note: Some(reason.to_owned()), ..applied })
    }

    pub fn reset(&mut self, name: &str) -> Result<ParamChange, ParamError> {
        let spec = self.settable(name)?;
        // The text of a default names bits that are set, and leaves the others as they are.
        let is_list = matches!(
            spec.kind,
            ParamKind::Debug | ParamKind::Feature | ParamKind::Experimental | ParamKind::VccFeature | ParamKind::Tags
        );
        self.set(spec.name, if is_list { "default" } else { spec.default(self.compat) })
    }

    /// `-r LIST`: these can't be changed any more. Names are separated by commas.
    pub fn protect(&mut self, list: &str) -> Result<(), ParamError> {
        for name in list.split(',').map(str::trim) {
            let spec = lookup(name).ok_or_else(|| ParamError::Unknown { name: name.to_owned() })?;
            if !self.protected.contains(&spec.name) {
                self.protected.push(spec.name);
            }
        }
        Ok(())
    }

    pub fn is_protected(&self, spec: &Spec) -> bool {
        let is_listed = |name: &str| self.protected.contains(&name);
        is_listed(spec.name)
            || match spec.name {
                VCC_FEATURE => VCC_BITS.into_iter().any(is_listed),
                name => VCC_BITS.contains(&name) && is_listed(VCC_FEATURE),
            }
    }

    pub fn protected(&self) -> &[&'static str] {
        &self.protected
    }

    pub fn has_dictionaries(&self) -> bool {
        self.dictionary_space > 0 && self.dictionary_max > 0
    }

    /// The codings that the server makes and undoes itself. Without gzip there are none.
    pub fn supported_codings(&self) -> Codings {
        if !self.http_gzip_support {
            return Codings::NONE;
        }
        let mut codings = Codings::GZIP;
        if self.http_brotli_support {
            codings = codings.with(Coding::Brotli);
        }
        if self.http_zstd_support {
            codings = codings.with(Coding::Zstd);
        }
        codings
    }

    pub fn log_settings(&self) -> LogSettings {
        LogSettings {
            space: self.vsl_space,
            mask: self.vsl_mask,
            reclen: self.vsl_reclen,
            buffer: self.vsl_buffer,
            is_sync: self.debug.has(DebugBit::Syncvsl),
        }
    }

    /// All values as `name=value` lines, for the worker. Newlines and backslashes in values are escaped.
    pub fn encode(&self) -> String {
        let mut out = String::with_capacity(8 << 10);
        if self.compat != Compat::V7_1 {
            out.push_str(&format!("{COMPAT_LINE}{}\n", self.compat));
        }
        for spec in SPECS {
            let value = spec.value(self).exact().replace('\\', "\\\\").replace('\n', "\\n");
            out.push_str(&format!("{}={value}\n", spec.name));
        }
        out
    }

    /// Reads what [`Params::encode`] wrote; a parameter that is not named keeps its default.
    pub fn decode(text: &str) -> Result<Self, ParamError> {
        let mut lines = text.lines().peekable();
        let compat = match lines.peek().and_then(|line| line.strip_prefix(COMPAT_LINE)) {
            Some(word) => {
                lines.next();
                Compat::parse(word).map_err(|reason| ParamError::Invalid {
                    name: "compat",
                    value: word.to_owned(),
                    reason,
                })?
            }
            None => Compat::V7_1,
        };
        let mut params = Self::of(compat);
        for line in lines {
            let (name, value) = line.split_once('=').ok_or_else(|| ParamError::Unknown { name: line.to_owned() })?;
            let spec = lookup(name).ok_or_else(|| ParamError::Unknown { name: name.to_owned() })?;
            let text = value::unescape(value);
            let value = value::parse_exact(spec, &text).map_err(|reason| ParamError::Invalid {
                name: spec.name,
                value: text,
                reason,
            })?;
            params.put(spec, value);
        }
        Ok(params)
    }

    /// Stores a value. Up to 7.1 the bits of vcc_feature are parameters, so either shows what the other sets.
    fn put(&mut self, spec: &Spec, value: ParamValue) {
        (spec.put)(self, value);
        let bits = &mut self.vcc_feature;
        match spec.name {
            VCC_FEATURE => {
                self.vcc_err_unref = bits.has(VccFeatureBit::ErrUnref);
                self.vcc_allow_inline_c = bits.has(VccFeatureBit::AllowInlineC);
                self.vcc_unsafe_path = bits.has(VccFeatureBit::UnsafePath);
            }
            "vcc_err_unref" => bits.set(VccFeatureBit::ErrUnref, self.vcc_err_unref),
            "vcc_allow_inline_c" => bits.set(VccFeatureBit::AllowInlineC, self.vcc_allow_inline_c),
            "vcc_unsafe_path" => bits.set(VccFeatureBit::UnsafePath, self.vcc_unsafe_path),
            _ => {}
        }
    }

    fn settable(&self, name: &str) -> Result<&'static Spec, ParamError> {
        let spec = lookup(name).ok_or_else(|| match old::gone(name) {
            Some(instead) => ParamError::Gone { name: name.to_owned(), instead, is_forgiven: old::is_forgiven(name) },
            None => ParamError::Unknown { name: name.to_owned() },
        })?;
        if spec.has(Flag::NotAvailable) {
            return Err(ParamError::NotAvailable { name: spec.name });
        }
        if self.is_protected(spec) {
            return Err(ParamError::Protected { name: spec.name });
        }
        Ok(spec)
    }
}

#[cfg(test)]
mod tests;

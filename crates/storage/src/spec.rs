// SPDX-License-Identifier: BSD-2-Clause
//! The text of a `-s` option: `[name=]kind[,arguments]`.

use std::fs::File;
use std::sync::Arc;

use base::text::parse_bytes;

/// What a store is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Memory, with or without a limit.
    Malloc,
    /// A file, mapped; what is in it doesn't outlive the worker. Every block takes whole pages.
    File,
}

impl Kind {
    /// The word of `storage.list` and of the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Malloc => "malloc",
            Kind::File => "file",
        }
    }
}

/// One `-s`, understood.
#[derive(Debug, Clone)]
pub struct StoreSpec {
    /// Name given, or `s0`, `s1`, ... in the order of the unnamed ones.
    pub name: String,
    /// What it is made of.
    pub kind: Kind,
    /// Most bytes it may hold; `None` for no limit, or a file's size.
    pub limit: Option<u64>,
    /// The file of a store that has one, open for reading and writing and as long as the limit.
    pub file: Option<Arc<File>>,
}

/// Why a `-s` isn't accepted. The text is varnishd's where it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpecError {
    /// Nothing behind `-s` or the `=`.
    NoKind,
    /// A `name=` that isn't a name.
    BadName(String),
    /// A `name=` and nothing behind it.
    Empty(String),
    /// A kind that doesn't exist.
    UnknownKind(String),
    /// A kind of Varnish's that isn't built here yet.
    NotBuilt(String),
    /// More arguments than the kind takes.
    TooManyArguments(&'static str),
    /// A size that can't be read.
    BadSize(&'static str, String),
    /// A size below 1 MB.
    TooSmall(&'static str, String),
    /// Two stores of one name: the option, the name.
    Duplicate(String, String),
}

/// Smallest limit of a store.
const MIN_SIZE: u64 = 1 << 20;

impl StoreSpec {
    /// Parses one option; `unnamed` counts the stores without a name so far.
    ///
    /// # Errors
    /// [`SpecError`], whose text is ready for stderr.
    pub fn parse(option: &str, unnamed: &mut usize) -> Result<StoreSpec, SpecError> {
        let (name, rest) = match option.split_once('=') {
            Some((name, rest)) if !name.contains(',') => (Some(name), rest),
            _ => (None, option),
        };
        if let Some(name) = name.filter(|name| !is_name(name)) {
            return Err(SpecError::BadName(name.to_owned()));
        }
        if name.is_some() && rest.is_empty() {
            return Err(SpecError::Empty(option.to_owned()));
        }
        let mut args = rest.split(',').map(str::trim);
        let kind = match args.next().unwrap_or("") {
            "" => return Err(SpecError::NoKind),
            "malloc" | "default" => Kind::Malloc,
            word @ ("file" | "debug" | "persistent" | "deprecated_persistent" | "umem") => {
                return Err(SpecError::NotBuilt(word.to_owned()));
            }
            other => return Err(SpecError::UnknownKind(other.to_owned())),
        };
        let limit = size(kind, args.next().unwrap_or(""))?;
        if args.next().is_some() {
            return Err(SpecError::TooManyArguments(kind.as_str()));
        }
        let name = name.map_or_else(
            || {
                *unnamed += 1;
                format!("s{}", *unnamed - 1)
            },
            str::to_owned,
        );
        Ok(StoreSpec { name, kind, limit, file: None })
    }

    /// Parses all `-s` options of a command line and adds Transient (at the end, as in `storage.list`) unless one is
    /// named so; without any option there is one `malloc` store of 100 MB, as varnishd's default.
    ///
    /// # Errors
    /// The first option that isn't accepted.
    pub fn parse_all<S: AsRef<str>>(options: &[S]) -> Result<Vec<StoreSpec>, SpecError> {
        let default = ["default,100m"];
        let mut unnamed = 0;
        let mut specs: Vec<StoreSpec> = Vec::new();
        let mut add = |option: &str| {
            let spec = StoreSpec::parse(option, &mut unnamed)?;
            if specs.iter().any(|other| other.name == spec.name) {
                return Err(SpecError::Duplicate(option.to_owned(), spec.name));
            }
            specs.push(spec);
            Ok(())
        };
        if options.is_empty() {
            default.iter().try_for_each(|option| add(option))?;
        }
        options.iter().try_for_each(|option| add(option.as_ref()))?;
        let transient = match specs.iter().position(|spec| spec.name == TRANSIENT) {
            Some(at) => specs.remove(at),
            None => StoreSpec { name: TRANSIENT.to_owned(), kind: Kind::Malloc, limit: None, file: None },
        };
        specs.push(transient);
        Ok(specs)
    }
}

/// Name of the store of short-lived and passed objects.
pub(crate) const TRANSIENT: &str = "Transient";

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

fn size(kind: Kind, text: &str) -> Result<Option<u64>, SpecError> {
    match (text, parse_bytes(text)) {
        ("", _) => Ok(None),
        (_, None) => Err(SpecError::BadSize(kind.as_str(), text.to_owned())),
        (_, Some(bytes)) if bytes < MIN_SIZE => Err(SpecError::TooSmall(kind.as_str(), text.to_owned())),
        (_, some) => Ok(some),
    }
}

impl std::fmt::Display for SpecError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoKind => write!(f, "-s argument lacks strategy {{malloc, file, ...}}"),
            Self::BadName(name) => write!(f, "invalid -s name \"{name}\"=[...]"),
            Self::Empty(option) => write!(f, "Empty named -s argument \"{option}\""),
            Self::UnknownKind(word) => write!(f, "Unknown storage method \"{word}\""),
            Self::NotBuilt(word) => write!(f, "-s {word}: this kind of storage is not built yet; use malloc"),
            Self::TooManyArguments(kind) => write!(f, "(-s{kind}) too many arguments"),
            Self::BadSize(kind, text) => {
                write!(f, "(-s{kind}) size \"{text}\": Unknown BYTES unit of measurement ([KMGTP][B])")
            }
            Self::TooSmall(kind, text) => {
                write!(f, "(-s{kind}) size \"{text}\": too small, did you forget to specify M or G?")
            }
            Self::Duplicate(option, name) => write!(f, "(-s {option}) '{name}' is already defined"),
        }
    }
}

impl std::error::Error for SpecError {}

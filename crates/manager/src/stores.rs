// SPDX-License-Identifier: BSD-2-Clause
//! -s: which stores there are, read by the table of kinds (`tables::stores`). Checked here, made by the worker.

use std::path::PathBuf;

use base::text::{bytes_error, parse_bytes};
use tables::stores::{self, DEFAULT, Kind, KindDef, MIN_BYTES, NOT_BUILT, OptionDef, TRANSIENT, Takes};

use crate::fatal::{Fatal, argument};
use crate::named;

/// One store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreArg {
    /// `name=`, or s0, s1, ...
    pub name: String,
    /// The argument as given.
    pub spec: String,
    /// The kind as given: malloc, default, file.
    pub kind_text: String,
    /// What it is.
    pub kind: Kind,
    /// Path of its file, for a kind that has one; a directory means an unlinked file in it.
    pub path: Option<PathBuf>,
    /// Limit in bytes; None is unlimited (malloc), or an existing file's size.
    pub bytes: Option<u64>,
}

/// All stores, Transient last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stores {
    list: Vec<StoreArg>,
    transient: Option<StoreArg>,
    unnamed: u32,
}

impl Stores {
    /// Adds what one -s argument says.
    pub fn add(&mut self, spec: &str) -> Result<(), Fatal> {
        let parts = named::parse(spec, "-s")?;
        let kind_text = parts.words[0].clone();
        let def = kind_of(&kind_text)?;
        let name = parts.name.unwrap_or_else(|| {
            self.unnamed += 1;
            format!("s{}", self.unnamed - 1)
        });
        let taken = match name.as_str() {
            TRANSIENT => self.transient.is_some(),
            _ => self.list.iter().any(|store| store.name == name),
        };
        if taken {
            return argument(format!("(-s {spec}) '{name}' is already defined"));
        }
        let mut store = StoreArg { name, spec: spec.to_string(), kind_text, kind: def.kind, path: None, bytes: None };
        store.take_options(def, &parts.words[1..])?;
        if store.name == TRANSIENT {
            self.transient = Some(store);
        } else {
            self.list.push(store);
        }
        Ok(())
    }

    /// Adds what has to be there and wasn't given: a 100 MB store, and Transient.
    pub fn complete(&mut self) -> Result<(), Fatal> {
        if self.list.is_empty() && self.transient.is_none() {
            self.add(DEFAULT)?;
        }
        if self.transient.is_none() {
            self.add(&format!("{TRANSIENT}=default"))?;
        }
        Ok(())
    }

    /// In order, Transient last.
    pub fn iter(&self) -> impl Iterator<Item = &StoreArg> {
        self.list.iter().chain(self.transient.iter())
    }

    /// Whether Varnish's banner would name a store here (those given or added, in order of configuration).
    pub fn idents(&self) -> String {
        self.iter().map(|store| format!(",-s{}", store.kind_text)).collect()
    }
}

/// The kind that `-s` names by this word.
fn kind_of(word: &str) -> Result<&'static KindDef, Fatal> {
    if word.is_empty() {
        let words: Vec<_> = stores::words().collect();
        return argument(format!("-s argument lacks strategy {{{}, ...}}", words.join(", ")));
    }
    if let Some((_, text)) = NOT_BUILT.iter().find(|(other, _)| *other == word) {
        return argument(*text);
    }
    let Some(kind) = Kind::named(word) else {
        let (known, example) =
            (stores::listed(stores::words().chain(stores::aliases()), "and"), stores::KINDS[0].example);
        return argument(format!("Unknown storage method \"{word}\"\n\tThere are {known}: {example}"));
    };
    Ok(kind.def())
}

impl StoreArg {
    fn take_options(&mut self, def: &KindDef, words: &[String]) -> Result<(), Fatal> {
        let kind = def.word;
        if words.len() > def.options.len() {
            return argument(format!("(-s{kind}) too many arguments"));
        }
        for (at, option) in def.options.iter().enumerate() {
            match words.get(at).filter(|word| !word.is_empty()) {
                Some(word) => self.take_option(def, option, word)?,
                None if option.is_mandatory => return argument(format!("(-s{kind}) {} is mandatory", option.name)),
                None => {}
            }
        }
        // The size of a file that is there already may be left out.
        if self.bytes.is_none() && self.path.as_ref().is_some_and(|path| !path.is_file()) {
            return argument(format!("(-s{kind}) no size specified"));
        }
        Ok(())
    }

    fn take_option(&mut self, def: &KindDef, option: &OptionDef, word: &str) -> Result<(), Fatal> {
        let (kind, name) = (def.word, option.name);
        match option.takes {
            Takes::Path => self.path = Some(PathBuf::from(word)),
            Takes::Size => self.bytes = Some(size(def, option, word)?),
            Takes::Bytes if parse_bytes(word).is_none() => {
                return argument(format!("(-s{kind}) {name} \"{word}\": {}", bytes_error(word)));
            }
            Takes::Word(known) if !known.contains(&word) => {
                return argument(format!("(-s {kind}) invalid {name}: \"{word}\""));
            }
            Takes::Bytes | Takes::Word(_) => {}
        }
        Ok(())
    }
}

fn size(def: &KindDef, option: &OptionDef, word: &str) -> Result<u64, Fatal> {
    let (kind, name) = (def.word, option.name);
    match parse_bytes(word) {
        None => {
            let (reason, example) = (bytes_error(word), def.example);
            argument(format!(
                "(-s{kind}) {name} \"{word}\": {reason}\n\tA size is a number with k, m, g or t: {example}"
            ))
        }
        Some(bytes) if bytes < MIN_BYTES => {
            argument(format!("(-s{kind}) {name} \"{word}\": too small, did you forget to specify M or G?"))
        }
        Some(bytes) => Ok(bytes),
    }
}

#[cfg(test)]
mod tests;

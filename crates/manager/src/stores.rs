// SPDX-License-Identifier: BSD-2-Clause
//! -s: which stores there are, read by the table of kinds (`tables::stores`). Checked here, made by the worker.

use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use base::text::{bytes_error, parse_bytes};
use tables::stores::{self, DEFAULT, DiskOptions, KindDef, LASTING, MIN_BYTES, NOT_BUILT, StoreMedium};
use tables::stores::{NamedDef, OptionDef, OptionValue, TRANSIENT, Takes};

use crate::fatal::{Fatal, argument};
use crate::named;
use crate::options::OrderedArg;

/// Error for a directory.
pub const NO_DIRECTORY: &str = "a store that is kept has a file of its own, not a directory";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreArg {
    /// `name=`, or s0, s1, ...
    pub name: String,
    /// The argument as given.
    pub spec: String,
    /// The kind as given: malloc, default, file.
    pub kind_text: String,
    pub kind: StoreMedium,
    /// Path of its file, for a kind that has one; a directory means an unlinked file in it.
    pub path: Option<PathBuf>,
    /// Limit in bytes; None is unlimited (malloc), or an existing file's size.
    pub bytes: Option<u64>,
    pub disk: DiskOptions,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagerStores {
    list: Vec<StoreArg>,
    transient: Option<StoreArg>,
    unnamed: u32,
}

impl ManagerStores {
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
        // The other name of a file is that of one that lasts.
        let disk = DiskOptions { keep: kind_text == LASTING, ..DiskOptions::default() };
        let mut store =
            StoreArg { name, spec: spec.to_string(), kind_text, kind: def.kind, path: None, bytes: None, disk };
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

    /// The stores of a whole command line.
    ///
    /// # Errors
    /// In words.
    pub fn of_arguments(arguments: &[OrderedArg]) -> Result<ManagerStores, String> {
        let mut stores = ManagerStores::default();
        for arg in arguments {
            if let OrderedArg::Store(spec) = arg {
                stores.add(spec).map_err(|e| e.to_string())?;
            }
        }
        stores.complete().map_err(|e| e.to_string())?;
        Ok(stores)
    }

    /// In order, Transient last.
    pub fn iter(&self) -> impl Iterator<Item = &StoreArg> {
        self.list.iter().chain(self.transient.iter())
    }

    /// The stores as Varnish's banner names them (those given or added, in order of configuration).
    pub fn idents(&self) -> String {
        self.iter().map(|store| format!(",-s{}", store.kind_text)).collect()
    }
}

fn kind_of(word: &str) -> Result<&'static KindDef, Fatal> {
    if word.is_empty() {
        let words: Vec<_> = stores::words().collect();
        return argument(format!("-s argument lacks strategy {{{}, ...}}", words.join(", ")));
    }
    if let Some((_, text)) = NOT_BUILT.iter().find(|(other, _)| *other == word) {
        return argument(*text);
    }
    let Some(kind) = StoreMedium::named(word) else {
        let (known, example) =
            (stores::listed(stores::words().chain(stores::aliases()), "and"), stores::KINDS[0].example);
        return argument(format!("Unknown storage method \"{word}\"\n\tThere are {known}: {example}"));
    };
    Ok(kind.def())
}

impl StoreArg {
    fn take_options(&mut self, def: &'static KindDef, words: &[String]) -> Result<(), Fatal> {
        let kind = def.word;
        let (mut named, mut words): (Vec<_>, Vec<_>) =
            words.iter().enumerate().partition(|(at, word)| *at > 0 && named_option(def, word).is_some());
        for (_, word) in named.drain(..) {
            self.take_named(def, word)?;
        }
        let words: Vec<&String> = words.drain(..).map(|(_, word)| word).collect();
        if words.len() > def.options.len() {
            return argument(format!("(-s{kind}) too many arguments"));
        }
        for (at, option) in def.options.iter().enumerate() {
            match words.get(at).copied().filter(|word| !word.is_empty()) {
                Some(word) => self.take_option(def, option, word)?,
                None if option.is_mandatory => return argument(format!("(-s{kind}) {} is mandatory", option.name)),
                None => {}
            }
        }
        // The size of a file or device that is there already may be left out.
        if self.bytes.is_none() && self.path.as_ref().is_some_and(|path| !has_size(path)) {
            return argument(format!("(-s{kind}) no size specified"));
        }
        if self.disk.keep && self.path.as_ref().is_some_and(|path| path.is_dir()) {
            return argument(format!("(-s{kind}) {NO_DIRECTORY}"));
        }
        if self.disk.journal.is_some() && !self.disk.keep {
            return argument(format!("(-s{kind}) only a store that is kept has a journal: keep"));
        }
        Ok(())
    }

    fn take_named(&mut self, def: &'static KindDef, word: &str) -> Result<(), Fatal> {
        let Some((option, value)) = named_option(def, word) else { return Ok(()) };
        let value = match value {
            Some(text) if option.takes_bytes => Some(OptionValue::Bytes(size(def, option.name, text)?)),
            Some(text) => Some(OptionValue::Word(text)),
            None => None,
        };
        if (option.set)(&mut self.disk, value) {
            return Ok(());
        }
        argument(format!("(-s{}) invalid {}: \"{word}\"\n\tIt is {}", def.word, option.name, option.example))
    }

    /// A size in percent, as releases before 4 took it: of what is free on the file's file system.
    fn share_of_disk(&self, def: &KindDef, word: &str) -> Option<Result<u64, Fatal>> {
        let percent: u64 = word.strip_suffix('%')?.parse().ok().filter(|percent| (1..=100).contains(percent))?;
        let path = self.path.as_ref()?;
        let dir = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
        let dir = dir.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // The blocks of the file itself are free for it.
        let own = path.metadata().map_or(0, |file| if file.is_file() { file.blocks() * 512 } else { 0 });
        Some(match sys::disk::room_bytes(dir) {
            Ok(free) => Ok((free + own) / 100 * percent / PAGE * PAGE),
            Err(error) => argument(format!("(-s{}) \"{word}\" of {}: {error}", def.word, dir.display())),
        })
    }

    fn take_option(&mut self, def: &KindDef, option: &OptionDef, word: &str) -> Result<(), Fatal> {
        let (kind, name) = (def.word, option.name);
        match option.takes {
            Takes::Path => self.path = Some(PathBuf::from(word)),
            Takes::Size => self.bytes = Some(self.share_of_disk(def, word).unwrap_or_else(|| size(def, name, word))?),
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

/// The option that is given by its name here, and its value.
fn named_option<'a>(def: &'static KindDef, word: &'a str) -> Option<(&'static NamedDef, Option<&'a str>)> {
    let (name, value) =
        word.split_once('=').map_or((word, None), |(name, value)| (name.trim_end(), Some(value.trim())));
    def.named.iter().find(|option| option.name == name).map(|option| (option, value))
}

/// A share of a disk is whole pages.
const PAGE: u64 = 4096;

fn has_size(path: &Path) -> bool {
    match path.metadata() {
        Ok(found) => found.is_file() || found.file_type().is_block_device(),
        // Who opens it may look.
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    }
}

fn size(def: &KindDef, name: &str, word: &str) -> Result<u64, Fatal> {
    let kind = def.word;
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

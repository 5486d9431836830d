// SPDX-License-Identifier: BSD-2-Clause
//! -s: which stores there are. Checked here, made by the worker.

use std::path::PathBuf;

use base::text::{parse_bytes, why_no_bytes};

use crate::fatal::{Fatal, argument};
use crate::named;

/// The store for short-lived and uncacheable bodies.
pub const TRANSIENT: &str = "Transient";

/// What a store keeps its objects in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Memory.
    Malloc,
    /// A file.
    File {
        /// Where; a directory means an unlinked file in it.
        path: PathBuf,
        /// Allocation unit in bytes, when given.
        granularity: Option<u64>,
    },
}

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
    /// Limit in bytes; None is unlimited (malloc), or an existing file's size.
    pub bytes: Option<u64>,
}

impl StoreArg {
    /// The kind, as `storage.list` names it.
    pub fn kind_word(&self) -> &'static str {
        match self.kind {
            Kind::Malloc => "malloc",
            Kind::File { .. } => "file",
        }
    }
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
        if kind_text.is_empty() {
            return argument("-s argument lacks strategy {malloc, file, ...}");
        }
        let check = kind_check(&kind_text)?;
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
        let (kind, bytes) = check(&parts.words[1..], display_kind(&kind_text))?;
        let store = StoreArg { name, spec: spec.to_string(), kind_text, kind, bytes };
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
            self.add("default,100m")?;
        }
        if self.transient.is_none() {
            self.add("Transient=default")?;
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

type Check = fn(&[String], &str) -> Result<(Kind, Option<u64>), Fatal>;

fn kind_check(kind: &str) -> Result<Check, Fatal> {
    match kind {
        "malloc" | "default" => Ok(check_malloc),
        "file" => Ok(check_file),
        "debug" => argument("storage method \"debug\" isn't built into Lacquer: use malloc"),
        "umem" => argument("storage method \"umem\" is Solaris' own: use malloc"),
        "persistent" | "deprecated_persistent" => {
            argument(format!("-s{kind} has been deprecated and isn't built into Lacquer: use malloc or file"))
        }
        other => argument(format!(
            "Unknown storage method \"{other}\"\n\tThere are malloc, file and default: -s malloc,256m"
        )),
    }
}

/// "default" stands for malloc, in messages too.
fn display_kind(kind: &str) -> &str {
    if kind == "default" { "malloc" } else { kind }
}

fn check_malloc(words: &[String], kind: &str) -> Result<(Kind, Option<u64>), Fatal> {
    if words.len() > 1 {
        return argument(format!("(-s{kind}) too many arguments"));
    }
    let bytes = match words.first().map(String::as_str) {
        None | Some("") => None,
        Some(text) => Some(size(text, kind)?),
    };
    Ok((Kind::Malloc, bytes))
}

fn check_file(words: &[String], kind: &str) -> Result<(Kind, Option<u64>), Fatal> {
    if words.len() > 4 {
        return argument(format!("(-s{kind}) too many arguments"));
    }
    let word = |at: usize| words.get(at).map(String::as_str).filter(|w| !w.is_empty());
    let Some(path) = word(0) else {
        return argument(format!("(-s{kind}) path is mandatory"));
    };
    let path = PathBuf::from(path);
    let bytes = word(1).map(|text| size(text, kind)).transpose()?;
    let granularity = word(2)
        .map(|text| bytes_of(text).ok_or(text))
        .transpose()
        .or_else(|text| argument(format!("(-s{kind}) granularity \"{text}\": {}", why_no_bytes(text))))?;
    if let Some(advice) = word(3)
        && !["normal", "random", "sequential"].contains(&advice)
    {
        return argument(format!("(-s {kind}) invalid advice: \"{advice}\""));
    }
    if bytes.is_none() && !path.is_file() {
        return argument(format!("(-s{kind}) no size specified"));
    }
    Ok((Kind::File { path, granularity }, bytes))
}

fn bytes_of(text: &str) -> Option<u64> {
    parse_bytes(text)
}

fn size(text: &str, kind: &str) -> Result<u64, Fatal> {
    match bytes_of(text) {
        None => {
            let like = if kind == "file" { "-s file,/var/lib/varnish/storage.bin,10G" } else { "-s malloc,256m" };
            let why = why_no_bytes(text);
            argument(format!("(-s{kind}) size \"{text}\": {why}\n\tA size is a number with k, m, g or t: {like}"))
        }
        Some(bytes) if bytes < 1 << 20 => {
            argument(format!("(-s{kind}) size \"{text}\": too small, did you forget to specify M or G?"))
        }
        Some(bytes) => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(specs: &[&str]) -> Result<Vec<(String, Option<u64>)>, Fatal> {
        let mut stores = Stores::default();
        for spec in specs {
            stores.add(spec)?;
        }
        stores.complete()?;
        Ok(stores.iter().map(|s| (s.name.clone(), s.bytes)).collect())
    }

    fn refused(specs: &[&str], text: &str) {
        assert_eq!(list(specs), Err(Fatal::Argument(text.into())));
    }

    #[test]
    fn stores_get_names_and_a_transient_one() {
        let m = Some(1 << 20);
        assert_eq!(
            list(&["malloc,1m", "x=default,1m"]),
            Ok(vec![("s0".into(), m), ("x".into(), m), (TRANSIENT.into(), None)])
        );
        assert_eq!(list(&[]), Ok(vec![("s0".into(), Some(100 << 20)), (TRANSIENT.into(), None)]));
        assert_eq!(list(&["malloc,30G"]).unwrap()[0].1, Some(30 << 30));
    }

    #[test]
    fn mistakes_are_named() {
        refused(&["main=default,10m", "main=default,100m"], "(-s main=default,100m) 'main' is already defined");
        refused(
            &["Transient=default,10m", "Transient=default,100m"],
            "(-s Transient=default,100m) 'Transient' is already defined",
        );
        refused(&["malloc,10"], "(-smalloc) size \"10\": too small, did you forget to specify M or G?");
        refused(&["malloc,1m,2"], "(-smalloc) too many arguments");
        refused(
            &["malloc,1x"],
            "(-smalloc) size \"1x\": Unknown BYTES unit of measurement ([KMGTP][B])\n\tA size is a number with k, m, g or t: -s malloc,256m",
        );
        refused(&["x"], "Unknown storage method \"x\"\n\tThere are malloc, file and default: -s malloc,256m");
        refused(&["file"], "(-sfile) path is mandatory");
    }
}

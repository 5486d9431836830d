// SPDX-License-Identifier: BSD-2-Clause
//! The texts, and which files belong together. A VCL is a whole file and its includes.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::path::Path;

use serde_json::Value;
use vcl::outline::{DeclarationKind, IncludeStatement, Outline};
use vcl::{CompileOptions, Detection, Dialect, Sources, TlsFileKind};

use crate::modules;

/// Maximum number of files of one VCL.
const MAX_FILES: usize = 500;
/// Maximum number of files that are searched for one that includes another.
const MAX_LOOKED_AT: usize = 200;
/// Number of parent directories that are searched for an including file.
const MAX_ABOVE: usize = 2;

/// An `include` of a file that varnishd wouldn't find: it is in the directory of the compiled file, or in a folder of the editor.
pub(crate) struct StrayInclude {
    pub path: String,
    pub text: Vec<u8>,
    pub at: Range<usize>,
    pub reason: String,
    pub found: String,
}

/// A text of a VCL, and its declarations.
pub(crate) struct OpenText {
    pub path: String,
    pub text: Vec<u8>,
    pub outline: Outline,
}

/// A text in the editor, or a file on the command line.
#[derive(Debug)]
pub(crate) struct Doc {
    /// The URI as the editor spells it.
    pub uri: String,
    pub text: Vec<u8>,
    pub version: Value,
    /// The file on disk that includes it, found when it was opened or saved.
    home: Option<String>,
}

/// The open texts, and the sources of all others.
pub(crate) struct OpenTexts<'a> {
    sources: &'a dyn Sources,
    dialect: Option<Dialect>,
    pub folders: Vec<String>,
    pub open: BTreeMap<String, Doc>,
}

/// The editor's texts, then the disk's. Some have parts removed.
pub(crate) struct Overlay<'a> {
    pub texts: &'a OpenTexts<'a>,
    /// The file to compile. Its directory is searched, too.
    pub root: &'a str,
    /// Replacement texts by path.
    pub instead: BTreeMap<String, Vec<u8>>,
    /// True if host names are looked up, which may block. Otherwise each has an address.
    pub looks_up_hosts: bool,
    /// Host names without an address that were already reported.
    pub told_hosts: BTreeSet<String>,
    pub unresolved: RefCell<BTreeSet<String>>,
}

impl Overlay<'_> {
    fn text_of(&self, path: &str) -> Option<Vec<u8>> {
        self.instead.get(path).cloned().or_else(|| self.texts.open.get(path).map(|doc| doc.text.clone()))
    }
}

impl Sources for Overlay<'_> {
    fn read(&self, path: &str) -> Result<(String, Vec<u8>), String> {
        let found = match self.texts.sources.read(path) {
            Ok(found) => Ok(found),
            Err(_) if self.text_of(path).is_some() => Ok((path.to_owned(), Vec::new())),
            Err(reason) => {
                let beside = self.texts.beside(self.root, path);
                let mut found = beside.iter().filter_map(|path| match self.text_of(path) {
                    Some(text) => Some((path.clone(), text)),
                    None => self.texts.sources.read(path).ok(),
                });
                found.next().ok_or(reason)
            }
        };
        found.map(|(name, text)| {
            let text = self.text_of(&name).unwrap_or(text);
            (name, text)
        })
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        let found = self.texts.sources.glob(pattern)?;
        if !found.is_empty() {
            return Ok(found);
        }
        let beside = self.texts.beside(self.root, pattern);
        let mut found = beside.iter().filter_map(|pattern| self.texts.sources.glob(pattern).ok());
        Ok(found.find(|files| !files.is_empty()).unwrap_or_default())
    }

    fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        let some = || vec![host.parse().unwrap_or(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)))];
        if !self.looks_up_hosts || self.told_hosts.contains(host) {
            return Ok(some());
        }
        let found = self.texts.sources.resolve(host);
        if found.as_ref().map_or(true, Vec::is_empty) {
            self.unresolved.borrow_mut().insert(host.to_owned());
        }
        found
    }

    fn is_socket(&self, path: &str) -> Result<bool, String> {
        self.texts.sources.is_socket(path)
    }

    fn tls_file(&self, path: &str, kind: TlsFileKind) -> Result<(String, Vec<u8>), String> {
        self.texts.sources.tls_file(path, kind)
    }
}

impl<'a> OpenTexts<'a> {
    pub fn new(sources: &'a dyn Sources, dialect: Option<Dialect>) -> OpenTexts<'a> {
        OpenTexts { sources, dialect, folders: Vec::new(), open: BTreeMap::new() }
    }

    /// Adds a text, and searches the disk for the file that includes it.
    pub fn put(&mut self, path: &str, uri: &str, text: Vec<u8>, version: Value) {
        self.open.insert(path.to_owned(), Doc { uri: uri.to_owned(), text, version, home: None });
        self.find_home(path);
    }

    pub fn find_home(&mut self, path: &str) {
        let home = self.home_of(path);
        if let Some(doc) = self.open.get_mut(path) {
            doc.home = home;
        }
    }

    pub fn overlay<'o>(&'o self, root: &'o str) -> Overlay<'o> {
        Overlay {
            texts: self,
            root,
            instead: BTreeMap::new(),
            looks_up_hosts: false,
            told_hosts: BTreeSet::new(),
            unresolved: RefCell::default(),
        }
    }

    /// Paths for a relative name in a copy of a server's files: beside the file that is compiled, and in the editor's folders.
    fn beside(&self, root: &str, name: &str) -> Vec<String> {
        if name.starts_with('/') {
            return Vec::new();
        }
        let own = root.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        own.iter().chain(&self.folders).map(|folder| format!("{folder}/{name}")).collect()
    }

    /// The files that make up `root`, itself first.
    pub fn parts(&self, root: &str) -> Vec<OpenText> {
        let overlay = self.overlay(root);
        let mut parts: Vec<OpenText> = Vec::new();
        let mut wanted = vec![root.to_owned()];
        while let Some(path) = wanted.pop() {
            let Ok((path, text)) = overlay.read(&path) else { continue };
            if parts.len() == MAX_FILES || parts.iter().any(|part| part.path == path) {
                continue;
            }
            let outline = Outline::parse(&text);
            for include in outline.includes.iter().rev() {
                wanted.extend(files(&overlay, &path, include));
            }
            parts.push(OpenText { path, text, outline });
        }
        parts
    }

    /// Includes of `root` and its parts that only our own search rules find.
    pub fn stray_includes(&self, root: &str) -> Vec<StrayInclude> {
        let overlay = self.overlay(root);
        let mut strays = Vec::new();
        for OpenText { path, text, outline } in self.parts(root) {
            for include in outline.includes.iter().filter(|include| !include.glob) {
                for name in files(&overlay, &path, include) {
                    let Err(reason) = self.sources.read(&name) else { continue };
                    let Some((found, _)) = overlay.read(&name).ok().filter(|(found, _)| *found != name) else {
                        continue;
                    };
                    strays.push(StrayInclude {
                        path: path.clone(),
                        text: text.clone(),
                        at: include.at.clone(),
                        reason,
                        found,
                    });
                }
            }
        }
        strays
    }

    /// The dialect of the VCL that begins with `root`. `None` is 4.x, also for a part of a VCL that has no words of a dialect.
    pub fn dialect(&self, root: &str) -> Option<Dialect> {
        let overlay = self.overlay(root);
        let (name, text) = overlay.read(root).ok()?;
        let options = CompileOptions { dialect: self.dialect, modules: modules::all(), ..CompileOptions::default() };
        match vcl::detect(&name, &text, &overlay, &options) {
            Detection::Any if !self.has_backend(root) => None,
            found => found.dialect(),
        }
    }

    /// True if `path` is a VCL by itself: it declares a version, or it is in an old dialect and has a backend.
    pub fn is_whole(&self, path: &str) -> bool {
        self.is_versioned(path) || self.dialect(path).is_some() && self.has_backend(path)
    }

    pub fn is_versioned(&self, path: &str) -> bool {
        self.overlay(path).read(path).is_ok_and(|(_, text)| Outline::parse(&text).versioned)
    }

    /// True if `path` or a file that it includes declares a backend.
    pub fn has_backend(&self, path: &str) -> bool {
        let declares = |part: &OpenText| {
            let mut all = part.outline.declarations.iter();
            all.any(|d| matches!(d.kind, DeclarationKind::Backend | DeclarationKind::Director))
        };
        self.parts(path).iter().any(declares)
    }

    /// The files that `path` is checked with: open files that include it, else the one on disk, else itself.
    pub fn roots(&self, path: &str) -> Vec<String> {
        let includes = |root: &&String| {
            let parts = self.parts(root);
            parts.first().is_some_and(|first| first.path == **root)
                && parts.iter().skip(1).any(|part| part.path == path)
        };
        let all: Vec<&String> = self.open.keys().filter(|root| *root != path).filter(includes).collect();
        // Files that are themselves included don't count.
        let mut found: Vec<String> = all.into_iter().filter(|root| self.is_whole(root)).cloned().collect();
        if found.is_empty() {
            found.extend(self.open.get(path).and_then(|doc| doc.home.clone()));
        }
        if found.is_empty() { vec![path.to_owned()] } else { found }
    }

    fn home_of(&self, path: &str) -> Option<String> {
        if !path.starts_with('/') || self.is_versioned(path) && self.has_backend(path) {
            return None;
        }
        let mut looked_at = 0;
        for folder in Path::new(path).ancestors().skip(1).take(MAX_ABOVE + 1) {
            let mut names: Vec<_> =
                std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
            names.sort();
            // Opening a named pipe would block.
            for name in names.iter().filter(|name| name.extension().is_some_and(|end| end == "vcl") && name.is_file()) {
                looked_at += 1;
                let Some(name) = name.to_str().filter(|name| *name != path) else { continue };
                if looked_at > MAX_LOOKED_AT {
                    return None;
                }
                if self.is_whole(name) && self.parts(name).iter().skip(1).any(|part| part.path == path) {
                    return Some(name.to_owned());
                }
            }
        }
        None
    }
}

/// The files that match an include in `path`.
pub(crate) fn files(overlay: &Overlay<'_>, path: &str, include: &IncludeStatement) -> Vec<String> {
    let name = match include.path.strip_prefix("./").zip(path.rsplit_once('/')) {
        Some((rest, (folder, _))) => format!("{folder}/{rest}"),
        None => include.path.clone(),
    };
    if include.glob { overlay.glob(&name).unwrap_or_default() } else { vec![name] }
}

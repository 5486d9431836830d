// SPDX-License-Identifier: BSD-2-Clause
//! Files as a configuration names them, and places in them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// More than this is no configuration, in bytes.
const MAX_FILE: u64 = 16 << 20;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SourcePlace {
    pub file: Rc<str>,
    /// The line's number, from 1 on.
    pub line: usize,
    /// Tells directives of one line apart; messages don't name it.
    pub column: usize,
}

impl fmt::Display for SourcePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

pub trait FileSource {
    fn read(&self, path: &str) -> Result<String, String>;

    /// The files that match a pattern with `*` and `?` in its last parts, sorted by name.
    fn matching(&self, pattern: &str) -> Vec<String>;
}

pub struct DiskFiles;

impl FileSource for DiskFiles {
    fn read(&self, path: &str) -> Result<String, String> {
        let bytes = std::fs::metadata(path).map_err(|e| format!("{path}: {e}"))?.len();
        if bytes > MAX_FILE {
            return Err(format!("{path}: {bytes} bytes are no configuration"));
        }
        let text = std::fs::read(path).map_err(|e| format!("{path}: {e}"))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn matching(&self, pattern: &str) -> Vec<String> {
        let mut found = vec![PathBuf::from(if pattern.starts_with('/') { "/" } else { "" })];
        for part in pattern.split('/').filter(|part| !part.is_empty()) {
            found = match part.contains(['*', '?']) {
                false => found.into_iter().map(|path| path.join(part)).filter(|path| path.exists()).collect(),
                true => found.iter().flat_map(|path| entries(path, part)).collect(),
            };
        }
        found.into_iter().map(|path| path.to_string_lossy().into_owned()).collect()
    }
}

fn entries(dir: &Path, pattern: &str) -> Vec<PathBuf> {
    let dir_name = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let Ok(all) = std::fs::read_dir(dir_name) else { return Vec::new() };
    let names = all.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    // As in a shell, what begins with a dot is hidden.
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.') && fits(pattern, name)).collect();
    names.sort();
    names.into_iter().map(|name| dir.join(name)).collect()
}

/// True if a name is one of a pattern: `*` is any text, `?` any letter.
pub fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    // Which beginnings of the name the beginning of the pattern so far can be.
    let mut at = vec![false; name.len() + 1];
    at[0] = true;
    for c in pattern {
        let mut next = vec![false; name.len() + 1];
        for i in 0..=name.len() {
            next[i] = match c {
                '*' => at[i] || i > 0 && next[i - 1],
                _ => i > 0 && at[i - 1] && (c == '?' || name[i - 1] == c),
            };
        }
        at = next;
    }
    at[name.len()]
}

/// `path` as it is meant in a file of `directory`.
pub fn beside(directory: &str, path: &str) -> String {
    match path.starts_with('/') || directory.is_empty() {
        true => path.to_owned(),
        false => format!("{directory}/{path}"),
    }
}

/// The directory of a file; empty for a name alone.
pub fn directory_of(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(dir, _)| dir)
}

#[cfg(test)]
pub struct Given(pub &'static [(&'static str, &'static str)]);

#[cfg(test)]
impl FileSource for Given {
    fn read(&self, path: &str) -> Result<String, String> {
        let found = self.0.iter().find(|(name, _)| *name == path);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| format!("{path}: not there"))
    }

    fn matching(&self, pattern: &str) -> Vec<String> {
        self.0.iter().filter(|(name, _)| fits(pattern, name)).map(|(name, _)| (*name).to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, is_one) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.confx", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("a*b*c", "axxbyybc", true),
        ] {
            assert_eq!(fits(pattern, name), is_one, "{pattern} {name}");
        }
    }

    #[test]
    fn names_are_meant_from_a_directory() {
        assert_eq!(beside("/etc/nginx", "conf.d/*.conf"), "/etc/nginx/conf.d/*.conf");
        assert_eq!(beside("/etc/nginx", "/a"), "/a");
        assert_eq!((directory_of("/etc/a.conf"), directory_of("a.conf")), ("/etc", ""));
    }
}

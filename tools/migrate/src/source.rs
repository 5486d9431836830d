// SPDX-License-Identifier: BSD-2-Clause
//! Files as a configuration names them, and places in them.

use std::cell::Cell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// More than this is no configuration, in bytes; also of all files together.
const MAX_BYTES: usize = 16 << 20;

/// Directives that a configuration may have.
const MAX_DIRECTIVES: usize = 50_000;

/// Checks that a configuration may have one more directive.
///
/// # Errors
/// The configuration has too many; the text says where.
pub fn check_count(count: usize, place: &SourcePlace) -> Result<(), String> {
    match count < MAX_DIRECTIVES {
        true => Ok(()),
        false => Err(format!("{place}: more than {MAX_DIRECTIVES} directives are no configuration")),
    }
}

/// Files that a configuration may have, each inclusion counted.
const MAX_FILES: usize = 10_000;

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
        let said = |error: std::io::Error| format!("{path}: {error}");
        let meta = std::fs::metadata(path).map_err(said)?;
        if !meta.is_file() {
            return Err(format!("{path}: it is no file"));
        }
        if meta.len() > MAX_BYTES as u64 {
            return Err(format!("{path}:1: {} bytes are no configuration: at most {MAX_BYTES} are read", meta.len()));
        }
        decoded(path, std::fs::read(path).map_err(said)?)
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

/// The text of a file in UTF-8, without a byte order mark. Comments may be in any encoding.
fn decoded(path: &str, bytes: Vec<u8>) -> Result<String, String> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(format!("{path}:1: it is UTF-16: save it as UTF-8"));
    }
    let line_of = |at: usize| bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        return Err(format!("{path}:{}: a byte 0: it is no text", line_of(at)));
    }
    let mut at = 0;
    for chunk in bytes.utf8_chunks() {
        at += chunk.valid().len();
        if let [byte, ..] = chunk.invalid()
            && !is_comment(&bytes[..at])
        {
            return Err(format!("{path}:{}: byte {byte:#04x} is no UTF-8: save it as UTF-8", line_of(at)));
        }
        at += chunk.invalid().len();
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// True if what stands behind these bytes belongs to a comment: a `#` before it in its line, at the beginning or behind a blank.
fn is_comment(before: &[u8]) -> bool {
    let line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_blank = |at: usize| line[..at].last().is_none_or(u8::is_ascii_whitespace);
    line.iter().enumerate().any(|(at, byte)| *byte == b'#' && is_blank(at))
}

/// Files with a bound for all of them together: includes of includes end.
pub struct BoundedFiles<'a> {
    files: &'a dyn FileSource,
    count: Cell<usize>,
    bytes: Cell<usize>,
}

impl<'a> BoundedFiles<'a> {
    pub fn new(files: &'a dyn FileSource) -> BoundedFiles<'a> {
        BoundedFiles { files, count: Cell::new(0), bytes: Cell::new(0) }
    }
}

impl FileSource for BoundedFiles<'_> {
    fn read(&self, path: &str) -> Result<String, String> {
        self.count.set(self.count.get() + 1);
        if self.count.get() > MAX_FILES {
            return Err(format!("{path}:1: more than {MAX_FILES} files: does one include itself?"));
        }
        let text = self.files.read(path)?;
        self.bytes.set(self.bytes.get() + text.len());
        match self.bytes.get() > MAX_BYTES {
            true => Err(format!("{path}:1: with the files before it more than {MAX_BYTES} bytes are no configuration")),
            false => Ok(text),
        }
    }

    fn matching(&self, pattern: &str) -> Vec<String> {
        self.files.matching(pattern)
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
    fn files_are_text_in_utf8() {
        let of = |bytes: &[u8]| decoded("f", bytes.to_vec());
        assert_eq!(of("\u{feff}a \u{fc}\n".as_bytes()).as_deref(), Ok("a \u{fc}\n"));
        assert_eq!(of(b"# f\xfcr\na b; # f\xfcr\n").as_deref(), Ok("# f\u{fffd}r\na b; # f\u{fffd}r\n"));
        for (bytes, error) in [
            (&b"a\nb#\xfc\n"[..], "f:2: byte 0xfc is no UTF-8: save it as UTF-8"),
            (b"a\n\0", "f:2: a byte 0: it is no text"),
            (b"\xff\xfea\0", "f:1: it is UTF-16: save it as UTF-8"),
            (b"\xfe\xff\0a", "f:1: it is UTF-16: save it as UTF-8"),
        ] {
            assert_eq!(of(bytes), Err(error.to_owned()));
        }
        let told = |path: &str| DiskFiles.read(path).expect_err(path);
        assert_eq!([told("/"), told("/dev/zero")], ["/: it is no file", "/dev/zero: it is no file"]);
    }

    #[test]
    fn all_files_together_have_a_bound() {
        let long: &'static str = Box::leak("a\n".repeat(MAX_BYTES / 4).into_boxed_str());
        let given: &'static [(&str, &str)] = Box::leak(Box::new([("f", long), ("g", "")]));
        let (given, several) = (Given(given), Given(given));
        let files = BoundedFiles::new(&given);
        assert!(files.read("f").is_ok() && files.read("f").is_ok());
        assert!(files.read("f").is_err_and(|error| error.starts_with("f:1: with the files before it")));
        let files = BoundedFiles::new(&several);
        assert!((0..MAX_FILES).all(|_| files.read("g").is_ok()));
        assert!(files.read("g").is_err_and(|error| error.starts_with("g:1: more than 10000 files")));
    }

    #[test]
    fn names_are_meant_from_a_directory() {
        assert_eq!(beside("/etc/nginx", "conf.d/*.conf"), "/etc/nginx/conf.d/*.conf");
        assert_eq!(beside("/etc/nginx", "/a"), "/a");
        assert_eq!((directory_of("/etc/a.conf"), directory_of("a.conf")), ("/etc", ""));
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Files as a configuration names them, and places in them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;

/// More than this is no configuration, in bytes; also of all files together.
const MAX_BYTES: usize = 16 << 20;

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

/// Names that all listings of directories together may have.
const MAX_NAMES: usize = 100_000;

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

/// The kind of thing that stands at a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathKind {
    Missing,
    Directory,
    /// Anything else, also a path that can't be examined: reading it gives the error.
    File,
}

pub trait FileSource {
    fn read(&self, path: &str) -> Result<String, String>;

    fn kind(&self, path: &str) -> PathKind;

    /// The names in a directory, sorted; the current one for an empty path.
    fn names(&self, directory: &str) -> Result<Vec<String>, String>;
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

    fn kind(&self, path: &str) -> PathKind {
        match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => PathKind::Directory,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => PathKind::Missing,
            _ => PathKind::File,
        }
    }

    fn names(&self, directory: &str) -> Result<Vec<String>, String> {
        let said = |error: std::io::Error| format!("{directory}: {error}");
        let all = std::fs::read_dir(if directory.is_empty() { "." } else { directory }).map_err(said)?;
        // One more than the bound shows that there are too many.
        let names = all.take(MAX_NAMES + 1).map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut names = names.collect::<std::io::Result<Vec<String>>>().map_err(said)?;
        names.sort();
        Ok(names)
    }
}

/// A text that is the only file.
pub struct OneText(pub String);

impl OneText {
    pub const NAME: &str = "f";
}

impl FileSource for OneText {
    fn read(&self, path: &str) -> Result<String, String> {
        if path == Self::NAME { Ok(self.0.clone()) } else { Err(format!("{path}: not there")) }
    }

    fn kind(&self, path: &str) -> PathKind {
        if path == Self::NAME { PathKind::File } else { PathKind::Missing }
    }

    fn names(&self, _: &str) -> Result<Vec<String>, String> {
        Ok(vec![Self::NAME.to_owned()])
    }
}

/// The paths that match a pattern whose parts may have wildcards, sorted by part.
///
/// # Errors
/// A directory can't be read, or too many names were looked at.
pub fn matching(files: &dyn FileSource, pattern: &str) -> Result<Vec<String>, String> {
    let mut found = vec![if pattern.starts_with('/') { "/" } else { "" }.to_owned()];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let mut next = Vec::new();
        for directory in &found {
            if !is_pattern(part) {
                next.push(joined(directory, part));
            } else if directory.is_empty() || files.kind(directory) == PathKind::Directory {
                // A name that begins with a dot fits only a pattern that does, as in a shell.
                let is_shown = |name: &String| part.starts_with('.') || !name.starts_with('.');
                let names = files.names(directory)?.into_iter().filter(|name| is_shown(name) && fits(part, name));
                next.extend(names.map(|name| joined(directory, &name)));
            }
        }
        found = next;
    }
    found.retain(|path| files.kind(path) != PathKind::Missing);
    Ok(found)
}

/// The files that a name stands for: itself, or those that match it as a pattern.
///
/// # Errors
/// The same as for [`matching`].
pub fn named(files: &dyn FileSource, name: &str) -> Result<Vec<String>, String> {
    if is_pattern(name) { matching(files, name) } else { Ok(vec![name.to_owned()]) }
}

/// True if a word stands for the names that match it: it has `*`, `?` or a closed `[...]`.
pub fn is_pattern(word: &str) -> bool {
    let has_class = word.split_once('[').is_some_and(|(_, rest)| rest.contains(']'));
    has_class || word.contains(['*', '?'])
}

pub fn joined(directory: &str, name: &str) -> String {
    Path::new(directory).join(name).to_string_lossy().into_owned()
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
    names: Cell<usize>,
    seen: RefCell<BTreeSet<String>>,
}

impl<'a> BoundedFiles<'a> {
    pub fn new(files: &'a dyn FileSource) -> BoundedFiles<'a> {
        BoundedFiles {
            files,
            count: Cell::default(),
            bytes: Cell::default(),
            names: Cell::default(),
            seen: RefCell::default(),
        }
    }

    pub fn seen(&self) -> Vec<String> {
        self.seen.borrow().iter().cloned().collect()
    }
}

impl FileSource for BoundedFiles<'_> {
    fn read(&self, path: &str) -> Result<String, String> {
        self.count.set(self.count.get() + 1);
        if self.count.get() > MAX_FILES {
            return Err(format!("{path}:1: more than {MAX_FILES} files: does one include itself?"));
        }
        self.seen.borrow_mut().insert(path.to_owned());
        let text = self.files.read(path)?;
        self.bytes.set(self.bytes.get() + text.len());
        match self.bytes.get() > MAX_BYTES {
            true => Err(format!("{path}:1: with the files before it more than {MAX_BYTES} bytes are no configuration")),
            false => Ok(text),
        }
    }

    fn kind(&self, path: &str) -> PathKind {
        self.files.kind(path)
    }

    fn names(&self, directory: &str) -> Result<Vec<String>, String> {
        let names = self.files.names(directory)?;
        self.names.set(self.names.get() + names.len());
        match self.names.get() > MAX_NAMES {
            true => Err(format!("{directory}: with the directories before it more than {MAX_NAMES} names")),
            false => Ok(names),
        }
    }
}

/// One place of a pattern, and the letters that fit it.
enum PatternPart {
    AnyText,
    AnyLetter,
    Letter(char),
    Class { is_not: bool, ranges: Vec<(char, char)> },
}

/// The parts of a pattern; a `[` that isn't closed is a letter.
fn parts(pattern: &str) -> Vec<PatternPart> {
    let letters: Vec<char> = pattern.chars().collect();
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(&c) = letters.get(at) {
        at += 1;
        out.push(match (c, class(&letters[at..])) {
            ('*', _) => PatternPart::AnyText,
            ('?', _) => PatternPart::AnyLetter,
            ('[', Some((part, length))) => {
                at += length;
                part
            }
            _ => PatternPart::Letter(c),
        });
    }
    out
}

/// The class behind a `[`, and its length with the `]`. A `]` that comes first is one of its letters.
fn class(letters: &[char]) -> Option<(PatternPart, usize)> {
    let is_not = matches!(letters.first(), Some('!' | '^'));
    let begin = usize::from(is_not);
    let end = begin + 1 + letters.get(begin + 1..)?.iter().position(|c| *c == ']')?;
    let mut ranges = Vec::new();
    let mut rest = &letters[begin..end];
    while let [first, behind @ ..] = rest {
        let (last, behind) = match behind {
            ['-', last, behind @ ..] => (last, behind),
            _ => (first, behind),
        };
        ranges.push((*first, *last));
        rest = behind;
    }
    Some((PatternPart::Class { is_not, ranges }, end + 1))
}

/// True if a name is one of a pattern: `*` is any text, `?` any letter, `[a-z]` one of these letters, `[!a-z]` none of them.
pub fn fits(pattern: &str, name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    // Which beginnings of the name the beginning of the pattern so far can be.
    let mut at = vec![false; name.len() + 1];
    at[0] = true;
    for part in parts(pattern) {
        let mut next = vec![false; name.len() + 1];
        for i in 0..=name.len() {
            let before = i > 0 && at[i - 1];
            next[i] = match &part {
                PatternPart::AnyText => at[i] || i > 0 && next[i - 1],
                PatternPart::AnyLetter => before,
                PatternPart::Letter(c) => before && name[i - 1] == *c,
                PatternPart::Class { is_not, ranges } => {
                    before && ranges.iter().any(|(first, last)| (first..=last).contains(&&name[i - 1])) != *is_not
                }
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

/// True for a name of a host, an address or a port: no sign of it has a meaning within a string of VCL or of tls.conf.
pub fn is_address(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || ".-_:[]*".contains(c))
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

    fn kind(&self, path: &str) -> PathKind {
        let below = format!("{}/", path.trim_end_matches('/'));
        match self.0.iter().any(|(name, _)| name.starts_with(&below)) {
            true => PathKind::Directory,
            false if self.0.iter().any(|(name, _)| *name == path) => PathKind::File,
            false => PathKind::Missing,
        }
    }

    fn names(&self, directory: &str) -> Result<Vec<String>, String> {
        let below = if directory.is_empty() { String::new() } else { format!("{}/", directory.trim_end_matches('/')) };
        let inside = self.0.iter().filter_map(|(name, _)| name.strip_prefix(&below)?.split('/').next());
        Ok(inside.map(str::to_owned).collect::<BTreeSet<String>>().into_iter().collect())
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
            ("[ab]x", "bx", true),
            ("[ab]x", "cx", false),
            ("[!0-9]*", "a1", true),
            ("[^0-9]*", "1a", false),
            ("0[0-9-]", "0-", true),
            ("[]a]", "]", true),
            ("[!]a]", "]", false),
            ("[a", "[a", true),
            ("[]", "[]", true),
            ("[z-a]", "m", false),
        ] {
            assert_eq!(fits(pattern, name), is_one, "{pattern} {name}");
        }
        let all = ["a*", "?", "a[0-9].conf", "[", "a]b[", "a"].map(is_pattern);
        assert_eq!(all, [true, true, true, false, false, false]);
    }

    #[test]
    fn patterns_of_paths() {
        let files = Given(&[("/e/a/x.conf", ""), ("/e/b/x.conf", ""), ("/e/b/.x.conf", ""), ("/e/c", "")]);
        for (pattern, expect) in [
            ("/e/*/x.conf", &["/e/a/x.conf", "/e/b/x.conf"][..]),
            ("/e/[!a]/*.conf", &["/e/b/x.conf"]),
            ("/e/b/.*", &["/e/b/.x.conf"]),
            ("/e/?", &["/e/a", "/e/b", "/e/c"]),
            ("/f/*", &[]),
        ] {
            assert_eq!(
                matching(&files, pattern),
                Ok(expect.iter().map(|path| (*path).to_owned()).collect()),
                "{pattern}"
            );
        }
    }

    #[test]
    fn a_walk_through_directories_has_a_bound() {
        struct Endless;
        impl FileSource for Endless {
            fn read(&self, path: &str) -> Result<String, String> {
                Err(path.to_owned())
            }
            fn kind(&self, _: &str) -> PathKind {
                PathKind::Directory
            }
            fn names(&self, _: &str) -> Result<Vec<String>, String> {
                Ok((0..100).map(|name| name.to_string()).collect())
            }
        }
        let error = matching(&BoundedFiles::new(&Endless), "/*/*/*/*/*").expect_err("too many");
        assert!(error.ends_with(": with the directories before it more than 100000 names"), "{error}");
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

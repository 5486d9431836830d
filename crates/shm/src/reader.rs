// SPDX-License-Identifier: BSD-2-Clause
//! Reading a workdir, ours or a genuine varnishd's: the index, the documents, the numbers; [`log`] reads the ring.
//!
//! Whatever the files hold is data to doubt. Nothing is mapped: a read of a file in shared memory sees what a mapping
//! sees, and a file cut short under us is a short read instead of a SIGBUS. A counter is one aligned word, so a
//! read sees it whole.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tables::counters::{CounterFormat, CounterKind, CounterLevel};

use crate::vsm::SetOwner;

pub mod find;
pub mod log;
mod status;

pub use find::{find, who_may_read};
pub use status::{WorkdirStatus, manager_arg, status};

/// Directory of named instances' workdirs (varnish-7.1's state directory).
pub const STATE_DIR: &str = "/var/lib/varnish";

const INDEX_BYTES: u64 = 4 << 20;
const SEGMENT_BYTES: u64 = 4 << 20;
/// Segments of one workdir that are looked at.
const SEGMENTS: usize = 100_000;
/// Bytes of documents and counters that one look reads in all: fifty times what ten thousand backends have.
const LOOK_BYTES: usize = 256 << 20;
/// Counters that one look gives.
const READINGS: usize = 4_000_000;
/// Fixed part of a segment.
const HEAD: usize = 24;
/// First word of a segment in use.
const READY: u32 = 1;

/// Reasons why there is nothing to read.
#[derive(Debug)]
pub enum ShmReadError {
    /// No manager runs in this workdir: its index is missing or has no head.
    NotRunning {
        /// The workdir without a manager.
        workdir: PathBuf,
    },
    /// The operating system refused a file.
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
}

impl fmt::Display for ShmReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShmReadError::NotRunning { workdir } => {
                write!(f, "Could not get hold of varnishd, is it running? (no manager in {})", workdir.display())
            }
            ShmReadError::Io { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for ShmReadError {}

/// Returns the value of `VARNISH_DEFAULT_N`, or of Vinyl Cache's name for it, which stands for `-n`.
fn default_name() -> Option<String> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    set("VARNISH_DEFAULT_N").or_else(|| set("VINYL_DEFAULT_N"))
}

/// Description of one counter in a document.
#[derive(Debug)]
pub struct CounterDoc {
    /// Name within its set.
    pub name: String,
    /// Kind of the counter.
    pub kind: CounterKind,
    /// Level of the counter.
    pub level: CounterLevel,
    /// Format of the value.
    pub format: CounterFormat,
    /// Text in one line.
    pub oneliner: String,
    /// Long text, often empty.
    pub docs: String,
    /// Byte offset in the body.
    index: usize,
}

impl CounterDoc {
    /// One that no workdir has, for tests of those who read them.
    pub fn new(name: &str, kind: CounterKind, level: CounterLevel, format: CounterFormat) -> CounterDoc {
        let (name, oneliner, docs) = (name.to_owned(), String::new(), String::new());
        CounterDoc { name, kind, level, format, oneliner, docs, index: 0 }
    }
}

/// One counter's value at one moment.
#[derive(Clone, Debug)]
pub struct CounterValue {
    /// Prefix of the name: `MAIN`, `SMA.s0`, `VBE.boot.a`.
    pub set: Arc<str>,
    /// Description of the counter.
    pub about: Arc<CounterDoc>,
    /// Present value. A gauge may have wrapped below 0 for a moment.
    pub value: u64,
}

impl CounterValue {
    /// The full name: `MAIN.cache_hit`.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.set, self.about.name)
    }

    /// The value as a signed number: a gauge just below 0 isn't huge.
    pub fn signed(&self) -> i64 {
        self.value as i64
    }
}

/// Reads the counters of one workdir. Documents are read once and kept.
#[derive(Debug)]
pub struct CounterReader {
    workdir: PathBuf,
    docs: HashMap<u64, Arc<[Arc<CounterDoc>]>>,
}

impl CounterReader {
    /// A reader of this workdir (`-n`). Nothing is opened yet.
    pub fn new(workdir: &Path) -> CounterReader {
        CounterReader { workdir: workdir.to_owned(), docs: HashMap::new() }
    }

    /// The workdir that `-n` names: a path when absolute, otherwise a directory below [`STATE_DIR`]. Without a name the environment's
    /// `VARNISH_DEFAULT_N` names it, or it is `varnishd`.
    pub fn workdir_of(name: Option<&str>) -> PathBuf {
        let named = name.filter(|given| !given.is_empty()).map(str::to_owned).or_else(default_name);
        // An absolute name replaces what it is joined to.
        Path::new(STATE_DIR).join(named.as_deref().unwrap_or("varnishd"))
    }

    /// All counters now, in the order of the index, the manager's first. Sets that go while they are read, or that
    /// make no sense, are left out.
    ///
    /// # Errors
    /// No manager runs there, or its index may not be read. A missing worker is no error: then only the manager counts.
    pub fn read(&mut self) -> Result<Vec<CounterValue>, ShmReadError> {
        let mut all = Vec::new();
        let mut seen = HashMap::new();
        let mut left = LOOK_BYTES;
        for home in [SetOwner::Manager, SetOwner::Worker] {
            let dir = self.workdir.join(home.dir_name());
            let segments = match segments(&dir) {
                Ok(Some(segments)) => segments,
                Ok(None) if home == SetOwner::Worker => continue,
                Ok(None) => return Err(ShmReadError::NotRunning { workdir: self.workdir.clone() }),
                Err(_) if home == SetOwner::Worker => continue,
                Err(error) => return Err(ShmReadError::Io { path: dir.join(crate::vsm::INDEX_NAME), error }),
            };
            for segment in segments {
                let bytes = self.segment(&dir, &segment, &mut seen, &mut all);
                // More than that isn't a workdir of ours or of Varnish's.
                left = left.saturating_sub(bytes);
                if left == 0 || all.len() > READINGS {
                    break;
                }
            }
        }
        // Documents of a life that is over.
        self.docs = seen;
        Ok(all)
    }

    /// Reads a segment: how many bytes it had.
    fn segment(&self, dir: &Path, segment: &Line, seen: &mut Docs, all: &mut Vec<CounterValue>) -> usize {
        match segment.class.as_str() {
            "StatDoc" => {
                let known = u64::from_str_radix(&segment.ident, 16).ok().and_then(|id| Some((id, self.docs.get(&id)?)));
                if let Some((id, doc)) = known {
                    seen.insert(id, Arc::clone(doc));
                    return 0;
                }
                let Some(bytes) = load(dir, segment) else { return 0 };
                if let (Some(id), Some(doc)) = (doc_id(&bytes), parse(&bytes)) {
                    seen.insert(id, doc);
                }
                bytes.len()
            }
            "Stat" => {
                let Some(bytes) = load(dir, segment) else { return 0 };
                let (Some(READY), Some(body)) = (u32_at(&bytes, 0), body(&bytes)) else { return bytes.len() };
                let Some(doc) = doc_id(&bytes).and_then(|id| seen.get(&id)) else { return bytes.len() };
                let set: Arc<str> = segment.ident.as_str().into();
                all.extend(doc.iter().filter_map(|about| {
                    let value = u64_at(body, about.index)?;
                    Some(CounterValue { set: Arc::clone(&set), about: Arc::clone(about), value })
                }));
                bytes.len()
            }
            _ => 0,
        }
    }
}

type Docs = HashMap<u64, Arc<[Arc<CounterDoc>]>>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    file: String,
    offset: u64,
    length: u64,
    class: String,
    ident: String,
}

/// Opens an ordinary file. What else may stand there isn't waited for (a pipe that nobody writes) or followed.
fn open(path: &Path) -> io::Result<File> {
    let kind = std::fs::symlink_metadata(path)?.file_type();
    if !kind.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    File::open(path)
}

/// The segments in force; None when there is no index with a head.
fn segments(dir: &Path) -> io::Result<Option<Vec<Line>>> {
    let mut text = Vec::new();
    match open(&dir.join(crate::vsm::INDEX_NAME)) {
        Ok(file) => file.take(INDEX_BYTES).read_to_end(&mut text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(index(&String::from_utf8_lossy(&text)))
}

fn index_text(dir: &Path) -> String {
    let mut text = Vec::new();
    let read = open(&dir.join(crate::vsm::INDEX_NAME)).and_then(|f| f.take(INDEX_BYTES).read_to_end(&mut text));
    if read.is_err() {
        text.clear();
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn index(text: &str) -> Option<Vec<Line>> {
    index_head(text)?;
    // A line without its end is still being written.
    let lines = text.split_inclusive('\n').skip(1).filter_map(|line| line.strip_suffix('\n'));
    let mut live: Vec<Option<Line>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for line in lines {
        let Some((sign, rest)) = line.split_once(' ') else { continue };
        match (sign, places.get(rest)) {
            ("+", None) if live.len() < SEGMENTS => {
                if let Some(parsed) = line_of(rest) {
                    places.insert(rest, live.len());
                    live.push(Some(parsed));
                }
            }
            ("-", Some(&at)) => {
                live[at] = None;
                places.remove(rest);
            }
            _ => {}
        }
    }
    Some(live.into_iter().flatten().collect())
}

/// The first line: the pid of who writes the index, and when that process began.
fn index_head(text: &str) -> Option<(u64, u64)> {
    let (line, _) = text.split_once('\n')?;
    let mut words = line.strip_prefix("# ")?.split(' ');
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// `<file> <offset> <length> <class> <ident>`; the last two may be missing.
fn line_of(text: &str) -> Option<Line> {
    let mut words = text.split_ascii_whitespace();
    let file = words.next()?;
    // Segments are files of their directory; nothing else is opened.
    if file.contains('/') || file.starts_with("..") {
        return None;
    }
    Some(Line {
        file: file.to_owned(),
        offset: words.next()?.parse().ok()?,
        length: words.next()?.parse().ok()?,
        class: words.next().unwrap_or_default().to_owned(),
        ident: words.next().unwrap_or_default().to_owned(),
    })
}

fn load(dir: &Path, line: &Line) -> Option<Vec<u8>> {
    load_any(dir, line).filter(|bytes| bytes.len() >= HEAD)
}

fn load_any(dir: &Path, line: &Line) -> Option<Vec<u8>> {
    let mut file = open(&dir.join(&line.file)).ok()?;
    file.seek(SeekFrom::Start(line.offset)).ok()?;
    let mut bytes = Vec::new();
    file.take(line.length.min(SEGMENT_BYTES)).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn load_text(dir: &Path, line: &Line) -> Option<String> {
    let bytes = load_any(dir, line)?;
    Some(String::from_utf8_lossy(bytes.split(|b| *b == 0).next()?).into_owned())
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn doc_id(bytes: &[u8]) -> Option<u64> {
    u64_at(bytes, 16)
}

fn body(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(usize::try_from(u64_at(bytes, 8)?).ok()?..)
}

/// The counters that a document describes; what it says badly of one leaves that one out.
fn parse(bytes: &[u8]) -> Option<Arc<[Arc<CounterDoc>]>> {
    if u32_at(bytes, 0) != Some(READY) {
        return None;
    }
    let text = body(bytes)?.split(|b| *b == 0).next()?;
    let doc: Value = serde_json::from_slice(text).ok()?;
    let mut all: Vec<_> = doc.get("elem")?.as_object()?.values().filter_map(about).map(Arc::new).collect();
    // In the order of the document, which is that of the counters.
    all.sort_by_key(|about| about.index);
    Some(all.into())
}

fn about(member: &Value) -> Option<CounterDoc> {
    let text = |key: &str| member.get(key).and_then(Value::as_str);
    if text("ctype")? != "uint64_t" {
        return None;
    }
    let kind = match text("type")? {
        "counter" => CounterKind::Counter,
        "gauge" => CounterKind::Gauge,
        "bitmap" => CounterKind::Bitmap,
        _ => return None,
    };
    let level = match text("level")? {
        "info" => CounterLevel::Info,
        "diag" => CounterLevel::Diag,
        _ => CounterLevel::Debug,
    };
    let format = match text("format")? {
        "bytes" => CounterFormat::Bytes,
        "bitmap" => CounterFormat::Bitmap,
        "duration" => CounterFormat::Duration,
        _ => CounterFormat::Integer,
    };
    Some(CounterDoc {
        name: text("name")?.to_owned(),
        kind,
        level,
        format,
        oneliner: text("oneliner").unwrap_or_default().to_owned(),
        docs: text("docs").unwrap_or_default().to_owned(),
        index: usize::try_from(member.get("index")?.as_u64()?).ok()?,
    })
}

#[cfg(test)]
mod tests;

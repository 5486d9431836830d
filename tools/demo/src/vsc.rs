// SPDX-License-Identifier: BSD-2-Clause
//! Reads the worker's counters out of its working directory, without asking anybody.
//!
//! Format: the set's `_.index` is text, one segment a line; a `Stat` segment holds counters as 64-bit words, and the `StatDoc`
//! segment with the same id says in JSON which word is which. The files are shared memory: reading one reads what is now.

use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Segments larger than this are no description of counters.
const MAX_DOC: u64 = 4 << 20;
/// Octets before a segment's body: ready word, body offset, document id.
const HEAD: u64 = 24;

/// The counters of one worker; finds itself again when the worker is another one.
pub struct WorkerCounters {
    directory: PathBuf,
    index: String,
    words: HashMap<String, (usize, u64)>,
    files: Vec<File>,
}

impl WorkerCounters {
    /// The counters of the worker whose working directory this is; it may not be there yet.
    pub fn new(n: &Path) -> Self {
        let directory = n.join("_.vsm_child");
        Self { directory, index: String::new(), words: HashMap::new(), files: Vec::new() }
    }

    /// Looks whether segments came or went. Call before a round of `get`.
    pub fn refresh(&mut self) {
        let index = std::fs::read_to_string(self.directory.join("_.index")).unwrap_or_default();
        if index != self.index {
            self.words.clear();
            self.files.clear();
            self.read(&index);
            self.index = index;
        }
    }

    /// The value of `MAIN.client_req` and the like; None when there is no such counter now.
    pub fn get(&self, name: &str) -> Option<u64> {
        let (file, at) = self.words.get(name)?;
        word(self.files.get(*file)?, *at)
    }

    /// The sum of all counters whose name begins with `prefix` and ends with `suffix`.
    pub fn sum(&self, prefix: &str, suffix: &str) -> u64 {
        let fits = |n: &&String| n.starts_with(prefix) && n.ends_with(suffix);
        self.words.keys().filter(fits).filter_map(|n| self.get(n)).fold(0, u64::wrapping_add)
    }

    fn read(&mut self, index: &str) {
        let mut live: Vec<Vec<&str>> = Vec::new();
        for line in index.lines() {
            let mut words: Vec<&str> = line.split_whitespace().collect();
            match words.first().copied() {
                Some("+") if words.len() == 6 => live.push(words.split_off(1)),
                Some("-") => live.retain(|l| l[..] != words[1..]),
                _ => {}
            }
        }
        let segments: Vec<Segment> = live.iter().filter_map(|l| Segment::open(&self.directory, l)).collect();
        let docs: HashMap<u64, Vec<(String, u64)>> =
            segments.iter().filter(|s| s.class == "StatDoc").filter_map(|s| Some((s.id, s.document()?))).collect();
        for s in segments.into_iter().filter(|s| s.class == "Stat") {
            let Some(doc) = docs.get(&s.id) else { continue };
            for (name, at) in doc {
                self.words.insert(format!("{}.{name}", s.ident), (self.files.len(), s.body + at));
            }
            self.files.push(s.file);
        }
    }
}

/// One segment of counters or of their description, ready to be read.
struct Segment {
    class: String,
    ident: String,
    id: u64,
    file: File,
    /// Offsets in the file at which its body begins and the segment ends.
    body: u64,
    end: u64,
}

impl Segment {
    /// `line` is file, offset, length, class, ident. None for other segments and for those not ready.
    fn open(directory: &Path, line: &[&str]) -> Option<Self> {
        let [name, offset, length, class, ident] = line else { return None };
        if !matches!(*class, "Stat" | "StatDoc") || name.contains('/') {
            return None;
        }
        let (offset, length): (u64, u64) = (offset.parse().ok()?, length.parse().ok()?);
        let file = File::open(directory.join(name)).ok()?;
        let ready = word(&file, offset)? & 0xffff_ffff;
        let (body, id) = (word(&file, offset.checked_add(8)?)?, word(&file, offset.checked_add(16)?)?);
        let sound = ready == 1 && body >= HEAD && body <= length;
        let (body, end) = (offset.checked_add(body)?, offset.checked_add(length)?);
        sound.then(|| Segment { class: (*class).into(), ident: (*ident).into(), id, file, body, end })
    }

    /// Name and place in the body of each counter.
    fn document(&self) -> Option<Vec<(String, u64)>> {
        let length = (self.end - self.body).min(MAX_DOC);
        let mut text = vec![0; usize::try_from(length).ok()?];
        self.file.read_exact_at(&mut text, self.body).ok()?;
        let text = text.split(|&b| b == 0).next()?;
        let doc: Value = serde_json::from_slice(text).ok()?;
        let place = |(name, e): (&String, &Value)| Some((name.clone(), e["index"].as_u64()?));
        Some(doc["elem"].as_object()?.iter().filter_map(place).collect())
    }
}

fn word(file: &File, at: u64) -> Option<u64> {
    let mut octets = [0; 8];
    file.read_exact_at(&mut octets, at).ok()?;
    Some(u64::from_le_bytes(octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(id: u64, body: &[u8]) -> Vec<u8> {
        let head = [1u64, HEAD, id].into_iter().flat_map(u64::to_le_bytes);
        head.chain(body.iter().copied()).collect()
    }

    #[test]
    fn values_by_name() {
        let n = std::env::temp_dir().join(format!("lacquer-demo-vsc.{}", std::process::id()));
        let set = n.join("_.vsm_child");
        std::fs::create_dir_all(&set).expect("a temporary directory");
        let doc = br#"{"version":"1","elements":2,"elem":{"a":{"index":0},"b":{"index":8}}}"#;
        let values: Vec<u8> = [7u64, 9].iter().flat_map(|w| w.to_le_bytes()).collect();
        std::fs::write(set.join("doc"), segment(5, &[doc.as_slice(), b"\0\0"].concat())).expect("a file");
        std::fs::write(set.join("main"), [vec![0; 64], segment(5, &values)].concat()).expect("a file");
        let index = format!(
            "# 1 2\n+ doc 0 {} StatDoc 5\n+ gone 0 8 Stat X\n+ main 64 40 Stat MAIN\n- gone 0 8 Stat X\n",
            HEAD as usize + doc.len() + 2
        );
        let mut c = WorkerCounters::new(&n);
        c.refresh();
        assert_eq!(c.get("MAIN.a"), None, "nothing is there yet");
        std::fs::write(set.join("_.index"), index).expect("a file");
        c.refresh();
        assert_eq!((c.get("MAIN.a"), c.get("MAIN.b"), c.get("MAIN.c")), (Some(7), Some(9), None));
        assert_eq!(c.sum("MAIN.", "b"), 9);
        std::fs::remove_dir_all(&n).expect("our own directory");
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! The `_.index` file: lines appended as segments come and go, written anew when too many are dead.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Owner, new_file};

pub const FILE_NAME: &str = "_.index";

/// Deletions that are always appended before the index may be written anew.
const DELETIONS_KEPT: usize = 10;

/// The lines in force, and the file that tells readers of them.
#[derive(Debug)]
pub struct SegmentIndex {
    path: PathBuf,
    owner: Option<Owner>,
    head: String,
    /// The file; `None` once closed.
    file: Option<File>,
    live: BTreeMap<u64, String>,
    next: u64,
    deletions: usize,
}

impl SegmentIndex {
    pub fn create(dir: &Path, pid: u32, birth: u64, owner: Option<Owner>) -> io::Result<Self> {
        let path = dir.join(FILE_NAME);
        let head = format!("# {pid} {birth}\n");
        let mut file = new_file(&path, owner)?;
        file.write_all(head.as_bytes())?;
        Ok(Self { path, owner, head, file: Some(file), live: BTreeMap::new(), next: 1, deletions: 0 })
    }

    /// The directory has its final name now.
    pub fn moved_to(&mut self, dir: &Path) {
        self.path = dir.join(FILE_NAME);
    }

    /// Publishes a segment: `text` is its line without the sign. The number is for [`SegmentIndex::remove`].
    pub fn add(&mut self, text: String) -> io::Result<u64> {
        let id = self.next;
        self.next += 1;
        let line = format!("+ {text}\n");
        self.live.insert(id, text);
        if let Err(error) = self.append(&line) {
            self.live.remove(&id);
            return Err(error);
        }
        Ok(id)
    }

    pub fn remove(&mut self, id: u64) {
        let Some(text) = self.live.remove(&id) else { return };
        // Readers assert that a deletion matches a line, so a failed append falls back to a fresh index.
        let done = if self.deletions < DELETIONS_KEPT || self.deletions * 2 < self.live.len() {
            self.deletions += 1;
            self.append(&format!("- {text}\n"))
        } else {
            self.rewrite()
        };
        // No room on the file system even so: the segment stays listed until the next rewrite, its memory unchanged.
        let _ = done;
    }

    pub fn close(&mut self) {
        if self.file.take().is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// One line in one write; half a line would mislead readers, so then the index is written anew.
    fn append(&mut self, line: &str) -> io::Result<()> {
        match &mut self.file {
            None => Ok(()),
            Some(file) => match file.write(line.as_bytes()) {
                Ok(n) if n == line.len() => Ok(()),
                _ => self.rewrite(),
            },
        }
    }

    fn rewrite(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            return Ok(());
        }
        let mut text = self.head.clone();
        self.live.values().for_each(|line| text.push_str(&format!("+ {line}\n")));
        let fresh = self.path.with_extension("index.new");
        let _ = fs::remove_file(&fresh);
        let written = new_file(&fresh, self.owner).and_then(|mut file| file.write_all(text.as_bytes()));
        written.and_then(|()| fs::rename(&fresh, &self.path)).inspect_err(|_| {
            let _ = fs::remove_file(&fresh);
        })?;
        self.file = Some(OpenOptions::new().append(true).open(&self.path)?);
        self.deletions = 0;
        Ok(())
    }
}

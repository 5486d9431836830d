// SPDX-License-Identifier: BSD-2-Clause
//! Files that calls of a module read: each is held once, whoever asks for it, and read again when it is another one than it
//! was (its time, length or number in the file system).

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// Files that are kept though nobody holds them at the moment.
const KEPT: usize = 8;

/// Values that are made of the files' bytes.
pub struct ParsedFiles<T> {
    most_bytes: u64,
    make: fn(Vec<u8>) -> Result<T, String>,
    /// The one asked for last is the last.
    known: Mutex<Vec<FileState<T>>>,
}

struct FileState<T> {
    path: PathBuf,
    stamp: Stamp,
    made: Weak<T>,
    kept: Option<Arc<T>>,
}

/// The facts by which a file is known to be the one it was.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp([i64; 6]);

impl Stamp {
    fn new(file: &std::fs::Metadata) -> Self {
        let number = |n: u64| n.cast_signed();
        Stamp([
            number(file.dev()),
            number(file.ino()),
            number(file.len()),
            file.mtime(),
            file.mtime_nsec(),
            file.ctime_nsec(),
        ])
    }
}

impl<T> ParsedFiles<T> {
    /// No files yet: of each no more than so many bytes, made into what is kept by `make`.
    pub const fn new(most_bytes: u64, make: fn(Vec<u8>) -> Result<T, String>) -> Self {
        Self { most_bytes, make, known: Mutex::new(Vec::new()) }
    }

    /// The value for the file's present bytes; blocks. Held as long as the caller holds it.
    pub fn share(&self, path: &Path) -> Result<Arc<T>, String> {
        self.get(path, false)
    }

    /// [`ParsedFiles::share`], and a few files are held until others are asked for.
    pub fn keep(&self, path: &Path) -> Result<Arc<T>, String> {
        self.get(path, true)
    }

    fn get(&self, path: &Path, keep: bool) -> Result<Arc<T>, String> {
        let text = |error: std::io::Error| error.to_string();
        let mut file = File::open(path).map_err(text)?;
        let about = file.metadata().map_err(text)?;
        let stamp = Stamp::new(&about);
        if let Some(made) = self.known(path, stamp, keep) {
            return Ok(made);
        }
        if about.len() > self.most_bytes {
            return Err(format!("longer than {} bytes", self.most_bytes));
        }
        let mut bytes = Vec::new();
        file.by_ref().take(self.most_bytes).read_to_end(&mut bytes).map_err(text)?;
        let made = Arc::new((self.make)(bytes)?);
        // Written meanwhile: it is read again the next time.
        if file.metadata().is_ok_and(|about| Stamp::new(&about) == stamp) {
            let kept = keep.then(|| made.clone());
            self.remember(FileState { path: path.to_owned(), stamp, made: Arc::downgrade(&made), kept });
        }
        Ok(made)
    }

    fn known(&self, path: &Path, stamp: Stamp, keep: bool) -> Option<Arc<T>> {
        let mut known = self.known.lock();
        let at = known.iter().position(|known| known.path == path && known.stamp == stamp)?;
        let made = known[at].made.upgrade()?;
        if keep && at + 1 < known.len() {
            let last = known.remove(at);
            known.push(last);
        }
        Some(made)
    }

    fn remember(&self, new: FileState<T>) {
        // Freed after the unlock.
        let _gone: Vec<FileState<T>> = {
            let mut known = self.known.lock();
            let mut kept = known.iter().filter(|known| known.kept.is_some() && known.path != new.path).count();
            let mut is_gone = |known: &mut FileState<T>| {
                let is_surplus = known.kept.is_some() && kept >= KEPT;
                kept -= usize::from(is_surplus);
                known.path == new.path || is_surplus || known.made.strong_count() == 0
            };
            let gone = known.extract_if(.., &mut is_gone).collect();
            known.push(new);
            gone
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_held_once_and_read_again_when_it_is_another() {
        let files: ParsedFiles<Vec<u8>> =
            ParsedFiles::new(100, |bytes| if bytes.is_empty() { Err("empty".to_owned()) } else { Ok(bytes) });
        let path = std::env::temp_dir().join(format!("lacquer-shared-{}", std::process::id()));
        std::fs::write(&path, "one").unwrap();
        let (first, second) = (files.share(&path).unwrap(), files.keep(&path).unwrap());
        assert!(Arc::ptr_eq(&first, &second) && *first == b"one");
        std::fs::write(&path, "another").unwrap();
        assert_eq!(*files.share(&path).unwrap(), b"another");
        std::fs::write(&path, "").unwrap();
        assert_eq!(files.share(&path), Err("empty".to_owned()));
        std::fs::write(&path, [b'x'; 101]).unwrap();
        assert_eq!(files.share(&path), Err("longer than 100 bytes".to_owned()));
        std::fs::remove_file(&path).unwrap();
        assert!(files.share(&path).is_err() && *first == b"one");
    }

    #[test]
    fn a_few_are_kept() {
        let files: ParsedFiles<Vec<u8>> = ParsedFiles::new(100, Ok);
        let path = |n: usize| std::env::temp_dir().join(format!("lacquer-kept-{n}-{}", std::process::id()));
        let held: Vec<Weak<Vec<u8>>> = (0..KEPT + 2)
            .map(|n| {
                std::fs::write(path(n), "x").unwrap();
                let made = Arc::downgrade(&files.keep(&path(n)).unwrap());
                files.keep(&path(0)).unwrap();
                made
            })
            .collect();
        (0..KEPT + 2).for_each(|n| std::fs::remove_file(path(n)).unwrap());
        let kept: Vec<bool> = held.iter().map(|made| made.strong_count() > 0).collect();
        let want: Vec<bool> = (0..KEPT + 2).map(|n| n == 0 || n > 2).collect();
        assert_eq!(kept, want);
    }
}

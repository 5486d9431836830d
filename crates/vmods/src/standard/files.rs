// SPDX-License-Identifier: BSD-2-Clause
//! `std.fileread` and `std.blobread`: a file is read once and kept while a VCL that read it is loaded, in one copy for
//! all that read it. A file that can't be read is asked for again the next time.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;

pub(super) type Contents = Arc<[u8]>;

type Files = HashMap<Vec<u8>, Weak<[u8]>>;

/// All files in use; a lock here is held for a look only.
static FILES: LazyLock<Mutex<Files>> = LazyLock::new(Mutex::default);

/// The last file that a place in VCL has read.
#[derive(Default)]
pub(super) struct Last(Mutex<Option<(Vec<u8>, Contents)>>);

impl Last {
    /// The contents, if this place or another has read the file.
    pub(super) fn known(&self, name: &[u8]) -> Option<Contents> {
        let mut last = self.0.lock();
        if let Some((known, contents)) = &*last
            && known == name
        {
            return Some(contents.clone());
        }
        let contents = FILES.lock().get(name)?.upgrade()?;
        *last = Some((name.to_vec(), contents.clone()));
        Some(contents)
    }

    pub(super) fn read(&self, name: &[u8]) -> Option<Contents> {
        let contents: Contents = std::fs::read(path(name)).ok()?.into();
        let mut files = FILES.lock();
        files.retain(|_, kept| kept.strong_count() > 0);
        files.insert(name.to_vec(), Arc::downgrade(&contents));
        drop(files);
        *self.0.lock() = Some((name.to_vec(), contents.clone()));
        Some(contents)
    }
}

pub(super) fn path(name: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_once_while_somebody_keeps_it() {
        let path = std::env::temp_dir().join(format!("lacquer-files-{}", std::process::id()));
        let name = path.to_str().expect("a plain name").as_bytes();
        std::fs::write(&path, "one").expect("writable");
        let (first, second) = (Last::default(), Last::default());
        assert_eq!(first.known(name), None);
        assert_eq!(first.read(name).as_deref(), Some(&b"one"[..]));
        std::fs::write(&path, "two").expect("writable");
        assert_eq!(first.known(name).as_deref(), Some(&b"one"[..]));
        assert_eq!(second.known(name).as_deref(), Some(&b"one"[..]));
        drop((first, second));
        assert_eq!(Last::default().known(name), None);
        std::fs::remove_file(&path).expect("there");
        assert_eq!(Last::default().read(name), None);
    }
}

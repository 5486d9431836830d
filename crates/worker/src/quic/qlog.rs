// SPDX-License-Identifier: BSD-2-Clause
//! Files for the qlogs (draft-ietf-quic-qlog-main-schema, JSON text sequences) of the connections that `h3_qlog` asks for.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use parking_lot::Mutex;

/// Bytes of a file at most: what comes later is left out.
const MAX_BYTES: u64 = 16 << 20;

#[derive(Debug)]
pub struct Qlogs {
    dir: PathBuf,
    state: Mutex<QlogState>,
}

#[derive(Debug, Default)]
struct QlogState {
    /// The parameter's value, when it was looked at last.
    asked: u32,
    /// Number of further connections that get one.
    left: u32,
    /// Number of connections that got one.
    begun: u64,
}

impl Qlogs {
    /// Files will be in this directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Qlogs { dir: dir.into(), state: Mutex::default() }
    }

    /// A file for a connection that begins, if so many (`asked`, the parameter) haven't got one since it was set.
    pub fn begin(&self, asked: u32) -> Option<QlogFile> {
        let mut state = self.state.lock();
        if state.asked != asked {
            (state.asked, state.left) = (asked, asked);
        }
        state.left = state.left.checked_sub(1)?;
        state.begun += 1;
        let path = self.dir.join(format!("qlog-{}.sqlog", state.begun));
        drop(state);
        match File::create(&path) {
            Ok(file) => Some(QlogFile { file: BufWriter::new(file), left: MAX_BYTES }),
            Err(error) => {
                report_line!("{}: {error}", path.display());
                None
            }
        }
    }
}

/// Takes [`MAX_BYTES`], and no more.
#[derive(Debug)]
pub struct QlogFile {
    file: BufWriter<File>,
    left: u64,
}

impl Write for QlogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        self.file.write_all(&bytes[..room])?;
        self.left -= room as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Dir {
            let path = std::env::temp_dir().join(format!("lacquer-qlog-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Dir(path)
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn as_many_as_were_asked_for_and_again_when_they_are_asked_for_anew() {
        let dir = Dir::new("count");
        let qlogs = Qlogs::new(&dir.0);
        let begun = |asked| std::iter::from_fn(|| qlogs.begin(asked)).take(10).count();
        assert_eq!((begun(0), begun(2), begun(2), begun(0), begun(2)), (0, 2, 0, 0, 2));
        assert_eq!(std::fs::read_dir(&dir.0).unwrap().count(), 4);
    }

    #[test]
    fn a_file_has_an_end() {
        let dir = Dir::new("end");
        let mut file = Qlogs::new(&dir.0).begin(1).unwrap();
        let piece = vec![b'x'; 1 << 20];
        (0..20).for_each(|_| file.write_all(&piece).unwrap());
        drop(file);
        assert_eq!(std::fs::metadata(dir.0.join("qlog-1.sqlog")).unwrap().len(), MAX_BYTES);
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! The release whose manners a server has: `--compat`, or the file of the packages. It chooses where releases contradict each other (texts, defaults, the
//! log's format), never which words, options or parameters are known.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

/// Varnish 7.1 or Varnish 9. Fixed from a server's start to its end, upgrades included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Compat {
    #[default]
    V7_1,
    V9,
}

/// The file that chooses for servers without `--compat`: one of the words.
pub const FILE: &str = "/etc/lacquer/compat";

/// The choice where neither option nor file makes one.
const UNCHOSEN: Compat = Compat::V9;

impl Compat {
    pub const ALL: [Compat; 2] = [Compat::V7_1, Compat::V9];

    pub fn word(self) -> &'static str {
        match self {
            Self::V7_1 => "7.1",
            Self::V9 => "9",
        }
    }

    /// The version that tools and scripts compare.
    pub fn version(self) -> &'static str {
        match self {
            Self::V7_1 => "varnish-7.1.1",
            Self::V9 => "varnish-9.0.2",
        }
    }

    /// The release as `Via` and similar texts have it.
    pub fn release(self) -> &'static str {
        match self {
            Self::V7_1 => "7.1",
            Self::V9 => "9.0",
        }
    }

    pub fn is_9(self) -> bool {
        self == Self::V9
    }

    /// # Errors
    /// The sentence that names both words.
    pub fn parse(word: &str) -> Result<Compat, String> {
        let known = Self::ALL.into_iter().find(|compat| compat.word() == word);
        known.ok_or_else(|| format!("\"{word}\" is no release to be compatible with: it is 7.1 or 9"))
    }

    /// The choice of a server that is started now: that of the option, else that of [`FILE`].
    ///
    /// # Errors
    /// The sentence that says why the file can't be followed.
    pub fn chosen(option: Option<Compat>) -> Result<Compat, String> {
        option.map_or_else(|| Self::of_file(Path::new(FILE)), Ok)
    }

    fn of_file(path: &Path) -> Result<Compat, String> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(UNCHOSEN),
            Err(e) => return Err(format!("{}: {e}: it chooses between --compat 7.1 and --compat 9", path.display())),
        };
        Self::parse(text.trim()).map_err(|reason| format!("{}: {reason}", path.display()))
    }
}

impl fmt::Display for Compat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for compat in Compat::ALL {
            assert_eq!(Compat::parse(&compat.to_string()), Ok(compat));
        }
        for wrong in ["", "7", "9.0", "8", "7.1 "] {
            let reason = Compat::parse(wrong).unwrap_err();
            assert!(reason.contains("7.1 or 9"), "{reason}");
        }
    }

    #[test]
    fn a_file_chooses_where_no_option_does() {
        let dir = std::env::temp_dir().join(format!("lacquer-compat-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let file = dir.join("compat");
        assert_eq!(Compat::of_file(&file), Ok(UNCHOSEN));
        std::fs::write(&file, "9\n").unwrap();
        assert_eq!(Compat::of_file(&file), Ok(Compat::V9));
        std::fs::write(&file, "nine\n").unwrap();
        let reason = Compat::of_file(&file).unwrap_err();
        assert!(reason.starts_with(&file.display().to_string()) && reason.contains("7.1 or 9"), "{reason}");
        assert!(Compat::of_file(&dir).is_err(), "a directory has no word");
        assert_eq!(Compat::chosen(Some(Compat::V9)), Ok(Compat::V9));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

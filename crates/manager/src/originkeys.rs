// SPDX-License-Identifier: BSD-2-Clause
//! Certificates and keys that a VCL's backends are to be shown (`.certificate`): read as root when the VCL is loaded, kept in sealed memory
//! as long as it is, and given to each worker before it loads the VCL.

use std::fs::File;

use cli::handoff::HandoffSecret;
use tls::origin_keys;
use tls::pem::{self, Pair};

use crate::certs::files::bytes_of;
use crate::fatal::errno_text;
use crate::jail::Jail;
use crate::manager::Manager;

/// Reads what these files hold; `None` if there are no files. This process has keys from here on, which no core may show.
///
/// # Errors
/// One of them is of no use: in words, with its path.
pub fn read(vcl: &str, paths: &[String], jail: &Jail) -> Result<Option<File>, String> {
    if paths.is_empty() {
        return Ok(None);
    }
    jail.forbid_cores().map_err(|e| format!("Can't disable core dumps: {}", errno_text(&e)))?;
    let pairs: Vec<(String, Pair)> =
        paths.iter().map(|path| Ok((path.clone(), pair(path, jail)?))).collect::<Result<_, String>>()?;
    let sealed = sys::secret::seal("lacquer-origin-keys", &origin_keys::encode(vcl, &pairs));
    sealed.map(Some).map_err(|e| format!("No memory for keys: {}", errno_text(&e)))
}

fn pair(path: &str, jail: &Jail) -> Result<Pair, String> {
    let bytes = jail.privileged(|| bytes_of(path, pem::LONGEST_FILE));
    let bytes = bytes.map_err(|reason| format!("Cannot read file '{path}' ({reason})"))?;
    let pair = pem::read(&bytes).and_then(pem::Contents::pair);
    pair.map_err(|reason| format!("Cannot use file '{path}': {reason}"))
}

impl Manager {
    /// Gives the worker the keys of all VCLs, which it is about to load.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn push_origin_keys(&mut self) -> Result<(), String> {
        let files = self.vcls.keys().map(File::try_clone).collect::<std::io::Result<Vec<_>>>();
        let files = files.map_err(|e| errno_text(&e))?;
        files.iter().try_for_each(|file| self.send_secret(HandoffSecret::OriginKeys, file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_no_use_is_told_with_its_path() {
        let dir = std::env::temp_dir().join(format!("origin-keys-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let says = |name: &str| {
            let path = dir.join(name).to_string_lossy().into_owned();
            let said = read("v", std::slice::from_ref(&path), &Jail::None).unwrap_err();
            assert!(said.contains(&path), "{said}");
            said.replace(&path, "PATH")
        };
        std::fs::write(dir.join("empty.pem"), "").unwrap();
        std::fs::write(dir.join("text.pem"), "no certificate").unwrap();
        assert_eq!(says("none.pem"), "Cannot read file 'PATH' (No such file or directory)");
        assert_eq!(says(""), "Cannot read file 'PATH' (Not a file)");
        assert_eq!(says("empty.pem"), "Cannot use file 'PATH': the file is empty");
        assert!(says("text.pem").starts_with("Cannot use file 'PATH': no certificate in it"));
        assert!(read("v", &[], &Jail::None).unwrap().is_none());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

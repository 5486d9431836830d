// SPDX-License-Identifier: BSD-2-Clause
//! The directory of one CA: the account, and for each name key and chain in one file and its standing in another. The owner alone may
//! read it. One server at a time has it, by a lock. Each file is written whole or not at all: beside its place, then renamed.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::certificate;
use crate::name::AcmeName;
use crate::talk::NameStanding;

/// Nothing in the directory is longer.
const LONGEST: u64 = 2 * certificate::LONGEST as u64;
const ACCOUNT: &str = "account.json";
const LOCK: &str = "lock";

#[derive(Debug)]
pub struct AcmeStore {
    place: PathBuf,
    /// Held as long as it is open.
    _lock: File,
}

impl AcmeStore {
    /// Makes the directory where there is none, and locks it.
    ///
    /// # Errors
    /// A text with the path: it can't be made, is somebody else's, or another server has it.
    pub fn open(place: &Path) -> Result<AcmeStore, String> {
        let told = |what: &str, error: &io::Error| format!("{}: {what}: {error}", place.display());
        DirBuilder::new().recursive(true).mode(0o700).create(place).map_err(|e| told("cannot be made", &e))?;
        let facts = fs::symlink_metadata(place).map_err(|e| told("cannot be looked at", &e))?;
        // Who made it could read the keys, or put others there.
        if !facts.is_dir() || facts.uid() != sys::user::effective() {
            return Err(format!("{}: not a directory of this user's own", place.display()));
        }
        fs::set_permissions(place, fs::Permissions::from_mode(0o700))
            .map_err(|e| told("cannot be closed to others", &e))?;
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(place.join(LOCK));
        let lock = lock.map_err(|e| told("cannot be locked", &e))?;
        match lock.try_lock() {
            Ok(()) => Ok(AcmeStore { place: place.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(format!("{}: another server uses it", place.display())),
            Err(TryLockError::Error(e)) => Err(told("cannot be locked", &e)),
        }
    }

    pub fn place(&self) -> &Path {
        &self.place
    }

    pub fn account(&self) -> io::Result<Option<String>> {
        self.read(ACCOUNT)
    }

    pub fn put_account(&self, credentials: &str) -> io::Result<()> {
        self.write(ACCOUNT, credentials.as_bytes())
    }

    pub fn names(&self) -> Vec<AcmeName> {
        let files = fs::read_dir(&self.place).into_iter().flatten().flatten();
        let name = |file: fs::DirEntry| AcmeName::parse(file.file_name().to_str()?.strip_suffix(".pem")?).ok();
        files.filter_map(name).collect()
    }

    pub fn certificate(&self, name: &AcmeName) -> io::Result<Option<String>> {
        self.read(&format!("{name}.pem"))
    }

    pub fn put_certificate(&self, name: &AcmeName, pem: &str) -> io::Result<()> {
        self.write(&format!("{name}.pem"), pem.as_bytes())
    }

    /// The standing of a name. One that can't be read is none: it only delays.
    pub fn standing(&self, name: &AcmeName) -> NameStanding {
        let text = self.read(&format!("{name}.state")).ok().flatten().unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    pub fn put_standing(&self, name: &AcmeName, standing: &NameStanding) -> io::Result<()> {
        self.write(&format!("{name}.state"), &serde_json::to_vec(standing)?)
    }

    fn read(&self, file: &str) -> io::Result<Option<String>> {
        let opened = match File::open(self.place.join(file)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut text = String::new();
        opened.take(LONGEST).read_to_string(&mut text)?;
        Ok(Some(text))
    }

    fn write(&self, file: &str, bytes: &[u8]) -> io::Result<()> {
        let (path, beside) = (self.place.join(file), self.place.join(format!(".{file}.new")));
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut new = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&beside)?;
        new.write_all(bytes)?;
        new.sync_all()?;
        fs::rename(&beside, &path)?;
        File::open(&self.place)?.sync_all()
    }
}

pub fn without_key(pem: &str) -> String {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let mut chain = String::new();
    let mut rest = pem;
    while let Some(at) = rest.find(BEGIN) {
        let Some(length) = rest[at..].find(END) else { break };
        chain.push_str(&rest[at..at + length + END.len()]);
        chain.push('\n');
        rest = &rest[at + length + END.len()..];
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        let place = std::env::temp_dir().join(format!("lacquer-acme-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        place
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_put_there_is_found_again_by_its_owner_alone() {
        let place = place("kept");
        let name = AcmeName::parse("a.example").unwrap();
        let standing = NameStanding { failures: 2, error: Some("no".into()), ..NameStanding::default() };
        {
            let store = AcmeStore::open(&place).unwrap();
            assert_eq!((store.account().unwrap(), store.certificate(&name).unwrap()), (None, None));
            store.put_account("secret").unwrap();
            store.put_certificate(&name, "one").unwrap();
            assert_eq!(store.names(), std::slice::from_ref(&name));
            store.put_certificate(&name, "two").unwrap();
            store.put_standing(&name, &standing).unwrap();
        }
        // What a crash has left beside its place is in nobody's way.
        fs::write(place.join(".a.example.pem.new"), "half").unwrap();
        let store = AcmeStore::open(&place).unwrap();
        assert_eq!(store.account().unwrap().as_deref(), Some("secret"));
        assert_eq!(store.certificate(&name).unwrap().as_deref(), Some("two"));
        assert_eq!(store.standing(&name), standing);
        store.put_certificate(&name, "three").unwrap();
        assert_eq!(mode(&place), 0o700);
        for file in fs::read_dir(&place).unwrap() {
            let path = file.unwrap().path();
            assert_eq!(mode(&path), 0o600, "{}", path.display());
        }
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn two_servers_dont_share_it() {
        let place = place("locked");
        let first = AcmeStore::open(&place).unwrap();
        assert!(AcmeStore::open(&place).unwrap_err().contains("another server"));
        drop(first);
        assert!(AcmeStore::open(&place).is_ok());
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn a_directory_open_to_others_is_closed_and_a_file_in_its_place_refused() {
        let place = place("open");
        fs::create_dir(&place).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
        AcmeStore::open(&place).unwrap();
        assert_eq!(mode(&place), 0o700);
        fs::remove_dir_all(&place).unwrap();
        fs::write(&place, "").unwrap();
        assert!(AcmeStore::open(&place).unwrap_err().contains(place.to_str().unwrap()));
        fs::remove_file(&place).unwrap();
    }

    #[test]
    fn a_standing_that_is_damaged_is_none() {
        let place = place("damaged");
        let (store, name) = (AcmeStore::open(&place).unwrap(), AcmeName::parse("a.example").unwrap());
        fs::write(place.join("a.example.state"), "{\"failures\": ").unwrap();
        assert_eq!(store.standing(&name), NameStanding::default());
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn keys_are_left_out() {
        let chain = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n";
        let key = "-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----\n";
        assert_eq!(without_key(&format!("{chain}{key}junk\n{chain}")), format!("{chain}{chain}"));
        assert_eq!(without_key("-----BEGIN CERTIFICATE-----\nQQ"), "");
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! The journal of stores that are kept: a file, opened and locked for as long as the manager or a worker lives. One for
//! all of them, as there is one order of bans and purges. What is in it is the workers' affair.

use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use storage::journal::{JournalFile, is_foreign};

use crate::fatal::{Fatal, argument, errno_text};
use crate::jail::Jail;
use crate::stores::ManagerStores;

/// Longest wait for the lock of a process that ends.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_LOOK: Duration = Duration::from_millis(50);

pub fn open(stores: &ManagerStores, jail: &Jail) -> Result<Option<File>, Fatal> {
    jail.privileged(|| path_of(stores)?.map(|path| open_at(&path)).transpose())
}

/// Empties the journal, so that no store is known and all begin empty.
pub fn empty(journal: &File) -> std::io::Result<()> {
    journal.set_len(0)
}

/// The one that is given, or one beside the file of the first such store.
fn path_of(stores: &ManagerStores) -> Result<Option<PathBuf>, Fatal> {
    let kept = || stores.iter().filter(|store| store.disk.keep);
    let mut given: Vec<&PathBuf> = kept().filter_map(|store| store.disk.journal.as_ref()).collect();
    given.dedup();
    match given[..] {
        [] => {}
        [one] => return Ok(Some(one.clone())),
        [one, other, ..] => {
            let (one, other) = (one.display(), other.display());
            return argument(format!("(-sfile) all stores have one journal, not {one} and {other}"));
        }
    }
    let Some(path) = kept().find_map(|store| store.path.as_ref()) else { return Ok(None) };
    if !path.is_file() {
        let path = path.display();
        return argument(format!(
            "(-sfile) \"{path}\" can't have a journal beside it: journal=/var/lib/varnish/journal"
        ));
    }
    let mut beside = path.clone().into_os_string();
    beside.push(".journal");
    Ok(Some(beside.into()))
}

fn open_at(path: &Path) -> Result<File, Fatal> {
    let refused = |why: &str| argument(format!("(-sfile) the journal \"{}\" {why}", path.display()));
    let file = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    let file = match file {
        Ok(file) => file,
        Err(error) => return refused(&format!("can't be opened: {}", errno_text(&error))),
    };
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return refused("is no file");
    }
    if let Err(why) = locked(&file) {
        return refused(&why);
    }
    match file.try_clone().and_then(|file| is_foreign(&JournalFile::on_disk(file))) {
        Ok(false) => Ok(file),
        Ok(true) => refused("holds something that isn't a journal; nothing was changed"),
        Err(error) => refused(&format!("can't be read: {}", errno_text(&error))),
    }
}

/// Waits for a process that is ending.
fn locked(file: &File) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_PATIENCE => std::thread::sleep(LOCK_LOOK),
            Err(TryLockError::WouldBlock) => return Err("is in use by another process".to_owned()),
            Err(TryLockError::Error(error)) => return Err(format!("can't be locked: {}", errno_text(&error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(specs: &[&str], path: Result<Option<&str>, &str>) {
        let mut stores = ManagerStores::default();
        specs.iter().for_each(|spec| stores.add(spec).unwrap());
        let got = path_of(&stores).map_err(|error| error.to_string());
        match (&got, path) {
            (Ok(got), Ok(path)) => assert_eq!(got.as_deref(), path.map(Path::new)),
            (Err(got), Err(text)) => assert!(got.contains(text), "{got}"),
            _ => panic!("{got:?} {path:?}"),
        }
    }

    #[test]
    fn the_journal_is_where_it_is_said_or_beside_the_first_store_that_is_kept() {
        let place = JournalPlace::new();
        let store = place.0.join("s");
        std::fs::write(&store, "").unwrap();
        let kept = |path: &Path, more: &str| format!("file,{},1g,keep{more}", path.display());
        let beside = format!("{}.journal", store.display());
        check(&["malloc,1g", &format!("file,{},1g", store.display())], Ok(None));
        check(&["malloc,1g", &kept(&store, "")], Ok(Some(&beside)));
        check(&[&kept(&store, ""), &kept(Path::new("/nowhere"), ",journal=/j")], Ok(Some("/j")));
        check(&[&kept(&store, ",journal=/j"), &kept(&store, ",journal=/j")], Ok(Some("/j")));
        check(&[&kept(&store, ",journal=/j"), &kept(&store, ",journal=/k")], Err("not /j and /k"));
        check(&[&kept(Path::new("/dev/null"), "")], Err("\"/dev/null\" can't have a journal beside it"));
    }

    struct JournalPlace(PathBuf);

    impl JournalPlace {
        fn new() -> JournalPlace {
            static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
            let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let dir = std::env::temp_dir().join(format!("lacquer-journal-{}-{number}", std::process::id()));
            std::fs::create_dir(&dir).unwrap();
            JournalPlace(dir)
        }
    }

    impl Drop for JournalPlace {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_no_journal_is_left_as_it_is() {
        let place = JournalPlace::new();
        let path = place.0.join("j");
        drop(open_at(&path).unwrap());
        drop(storage::journal::Journal::format(JournalFile::on_disk(open_at(&path).unwrap())).unwrap());
        drop(open_at(&path).unwrap());
        std::fs::write(&path, "a letter").unwrap();
        let refused = open_at(&path).unwrap_err().to_string();
        assert!(refused.contains("holds something that isn't a journal"), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), b"a letter");
        let refused = open_at(&place.0).unwrap_err().to_string();
        assert!(refused.contains("can't be opened: Is a directory"), "{refused}");
        let refused = open_at(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(refused.contains("is no file"), "{refused}");
    }
}

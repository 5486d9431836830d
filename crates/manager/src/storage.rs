// SPDX-License-Identifier: BSD-2-Clause
//! The stores, and what of them outlives workers: files, memory, and the journal of invalidations.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

use base::clock::Mono;
use cli::record::Fd;
use cli::{record, words};

use crate::arenas::{ArenaSuccession, Arenas, ArenasRecord, Legacy};
use crate::fatal::{Fatal, errno_text};
use crate::jail::Jail;
use crate::journalfile;
use crate::options::StartMode;
use crate::report::{ReportSeverity, print};
use crate::storefile::{self, StoreFile};
use crate::stores::ManagerStores;
use crate::upgrade::carried::{Carried, Successor, copy, copy_file};

#[derive(Debug)]
pub(crate) struct Storage {
    pub stores: ManagerStores,
    pub files: Vec<StoreFile>,
    pub journal_file: Option<File>,
    /// File that a worker locks as long as it writes to one of the stores.
    pub write_lock: Option<File>,
    /// Memory of stores, which outlives workers as long as `succession` allows.
    pub arenas: Arenas,
    pub succession: ArenaSuccession,
}

impl Storage {
    pub fn open(stores: ManagerStores, mode: StartMode, jail: &Jail) -> Result<Storage, Fatal> {
        // A mere look at a VCL is possible beside a server that uses the stores of the same command line.
        let (files, journal_file) = match mode {
            StartMode::PrintVcl => storefile::check_all(&stores, jail).map(|()| (Vec::new(), None))?,
            StartMode::Daemon | StartMode::Foreground | StartMode::Debug => {
                (storefile::open_all(&stores, jail)?, journalfile::open(&stores, jail)?)
            }
        };
        let write_lock = storefile::write_lock(&files)?;
        let (arenas, succession) = (Arenas::default(), ArenaSuccession::default());
        Ok(Storage { stores, files, journal_file, write_lock, arenas, succession })
    }

    /// Files and memory that a worker inherits.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let files = self.files.iter().map(|store| &store.file).chain(&self.journal_file);
        files.map(AsFd::as_fd).chain(self.arenas.descriptors())
    }

    /// Completes the arenas, if that is possible: a worker serves without memory that outlives it, too.
    pub fn complete_arenas(&mut self) {
        if let Err(e) = self.arenas.complete(&self.stores) {
            let text = format!("No memory for stores that outlives the child: {}", errno_text(&e));
            print(ReportSeverity::Error, &text);
        }
    }

    /// Carries out what a worker's end means for the objects.
    pub fn settle(&mut self, legacy: Legacy) {
        match legacy {
            Legacy::Kept => return,
            Legacy::Dropped => {}
            Legacy::Distrusted => self.empty_journal(),
        }
        self.arenas.empty();
        self.files.iter_mut().for_each(StoreFile::drop_contents);
    }

    /// No store that is kept is to be believed.
    fn empty_journal(&self) {
        if let Some(Err(e)) = self.journal_file.as_ref().map(journalfile::empty) {
            print(ReportSeverity::Error, &format!("Can't truncate the journal: {}", errno_text(&e)));
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenStore {
    pub store: String,
    pub file: Fd,
    pub bytes: u64,
    pub life: u64,
}

words!(OpenStore { store, file, bytes, life });

record! {
    #[derive(Clone, Debug, Default, PartialEq)]
    pub(crate) struct StorageRecord {
        each "store" pub files: Vec<OpenStore>,
        maybe "journal_file" pub journal_file: Option<Fd>,
        maybe "write_lock" pub write_lock: Option<Fd>,
        part pub arenas: ArenasRecord,
        one "after_death" pub after_death: bool,
    }
}

impl Carried for Storage {
    type Record = StorageRecord;

    fn save(&self, now: Mono) -> StorageRecord {
        let open =
            |f: &StoreFile| OpenStore { store: f.store.clone(), file: Fd::of(&f.file), bytes: f.bytes, life: f.life };
        StorageRecord {
            files: self.files.iter().map(open).collect(),
            journal_file: self.journal_file.as_ref().map(Fd::of),
            write_lock: self.write_lock.as_ref().map(Fd::of),
            arenas: self.arenas.save(now),
            after_death: self.succession.is_after_death(),
        }
    }

    fn restore(record: &StorageRecord, by: &Successor<'_>) -> Result<Storage, String> {
        let file = |open: &OpenStore| {
            let OpenStore { store, file, bytes, life } = open.clone();
            Ok(StoreFile { store, file: copy(file)?.into(), bytes, life })
        };
        Ok(Storage {
            stores: ManagerStores::of_arguments(&by.options.ordered)?,
            files: record.files.iter().map(file).collect::<Result<_, String>>()?,
            journal_file: copy_file(record.journal_file)?,
            write_lock: copy_file(record.write_lock)?,
            arenas: Arenas::restore(&record.arenas, by)?,
            succession: ArenaSuccession::resume(record.after_death),
        })
    }
}

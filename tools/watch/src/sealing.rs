// SPDX-License-Identifier: BSD-2-Clause
//! TLS of the page: its certificate, and the authorities of the clients that may see it. The files are read again when they change.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tls::Single;
use tls::origin::file;
use toolkit::print;

const LOOKS: Duration = Duration::from_secs(10);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PemFiles {
    /// Certificate and its intermediates, also the key if `key` is `None`.
    pub chain: PathBuf,
    pub key: Option<PathBuf>,
    /// Certificates of the authorities for clients.
    pub authorities: Option<PathBuf>,
}

/// TLS of the page. The files are read again when they change.
#[derive(Debug)]
pub struct PageTls {
    files: PemFiles,
    made: Mutex<Made>,
}

#[derive(Debug)]
struct Made {
    single: Single,
    /// The files' modification times when the certificate was loaded.
    of: Vec<Option<SystemTime>>,
    looked: Instant,
}

impl PemFiles {
    fn all(&self) -> impl Iterator<Item = &Path> {
        [Some(&self.chain), self.key.as_ref(), self.authorities.as_ref()].into_iter().flatten().map(PathBuf::as_path)
    }

    fn changed(&self) -> Vec<Option<SystemTime>> {
        self.all().map(|path| std::fs::metadata(path).and_then(|meta| meta.modified()).ok()).collect()
    }

    fn read(&self) -> Result<Single, String> {
        let chain = file(&self.chain)?;
        let key = self.key.as_deref().map(file).transpose()?;
        let authorities = self.authorities.as_deref().map(file).transpose()?;
        Single::of(&chain, key.as_deref().map(Vec::as_slice), authorities.as_deref().map(Vec::as_slice))
            .map_err(|error| format!("{}: {error}", self.chain.display()))
    }
}

impl PageTls {
    pub fn new(files: PemFiles) -> Result<PageTls, String> {
        let (of, single) = (files.changed(), files.read()?);
        Ok(PageTls { files, made: Mutex::new(Made { single, of, looked: Instant::now() }) })
    }

    pub fn asks_clients(&self) -> bool {
        self.files.authorities.is_some()
    }

    /// The certificate for new connections. If a changed file can't be used, the error is printed once and the old certificate stays.
    pub fn single(&self) -> Single {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.looked.elapsed() >= LOOKS {
            self.look(&mut made);
        }
        made.single.clone()
    }

    fn look(&self, made: &mut Made) {
        made.looked = Instant::now();
        let of = self.files.changed();
        if of == made.of {
            return;
        }
        match self.files.read() {
            Ok(single) => made.single = single,
            Err(error) => print::err(format_args!("lacquer watch: the former certificate stays: {error}\n")),
        }
        made.of = of;
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! The certificates of the server: what was configured, what is staged, and the bundle that workers have.
//!
//! A change is a new bundle, made and checked beside the present one and put in its place whole, in the worker first: what fails
//! on the way leaves everything as it was. Keys are in bundles (sealed memory that goes to workers by descriptor), and, between
//! `tls.cert.load` and `tls.cert.commit`, in memory that is wiped: never in a text, a log or the workdir.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::clock::Mono;
use tls::Bundle;
use tls::bundle::{BundleEntry, CertificateScope, GLOBAL};
use tls::ocsp::ValiditySpan;
use tls::settings::Overrides;

use crate::fatal::errno_text;
use crate::jail::Jail;

mod commands;
pub mod config;
mod draft;
mod expiry;
pub mod files;
mod lists;
mod long;
mod place;
mod watch;

use draft::CertsDraft;
use files::{Fresh, Paths, Signature};
use lists::Listed;
use long::Work;
pub use long::changes_certificates;
use watch::{Making, WatchedFiles};

/// Prefix of the ids of the ACME client's certificates: they come and go by that client alone.
pub const ACME: &str = "acme:";

const MOST_READERS: usize = 8;
/// Number of certificates that are read without threads.
const FEW: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateStanding {
    Active,
    /// Added by the next commit.
    Staged,
    /// Removed by the next commit.
    Discarded,
}

impl CertificateStanding {
    pub fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Staged => "staged",
            Self::Discarded => "discard",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Row {
    pub entry: BundleEntry,
    pub standing: CertificateStanding,
    /// Number of the certificate in the present bundle.
    place: Option<u32>,
    /// Key and chain that the present bundle hasn't.
    fresh: Option<Fresh>,
    watched: WatchedFiles<3>,
    /// Reason why its files aren't in use.
    trouble: Option<String>,
    /// Reason why an expected OCSP response is missing.
    staple_trouble: Option<String>,
    /// Last message about its end.
    told: expiry::ReportedConcern,
}

impl Row {
    fn of(entry: BundleEntry) -> Row {
        Row {
            entry,
            standing: CertificateStanding::Active,
            place: None,
            fresh: None,
            watched: WatchedFiles::default(),
            trouble: None,
            staple_trouble: None,
            told: None,
        }
    }

    fn read(entry: BundleEntry) -> Result<Row, String> {
        let mut row = Row::of(entry);
        // Before they are read: a change in between is found later.
        row.watched.saw(row.paths().signatures());
        let (fresh, facts) = files::load(row.paths())?;
        row.take(fresh, facts);
        Ok(row)
    }

    /// Takes over what was read of its files, for the next bundle.
    fn take(&mut self, fresh: Fresh, facts: tls::facts::CertificateFacts) {
        (self.entry.facts, self.entry.staple) = (facts, fresh.staple.span);
        self.staple_trouble.clone_from(&fresh.staple.trouble);
        self.fresh = Some(fresh);
    }

    fn paths(&self) -> Paths<'_> {
        let BundleEntry { path, key_path, ocsp_path, is_ocsp_awaited, .. } = &self.entry;
        Paths { chain: path, key: key_path, ocsp: ocsp_path, is_ocsp_awaited: *is_ocsp_awaited }
    }

    /// The fault of the certificate at that time, except for its own end.
    pub fn trouble(&self, now: i64) -> Option<String> {
        self.trouble.clone().or_else(|| self.staple_trouble(now))
    }

    fn staple_trouble(&self, now: i64) -> Option<String> {
        let ValiditySpan { from, until } = self.entry.staple;
        let path = &self.entry.ocsp_path;
        match &self.staple_trouble {
            Some(trouble) => Some(trouble.clone()),
            None if self.entry.staple == ValiditySpan::default() => None,
            None if now >= until => Some(format!("{path}: the OCSP response has expired and is no longer sent")),
            None if now < from => Some(format!("{path}: the OCSP response isn't valid yet and isn't sent")),
            None => None,
        }
    }

    fn is_from_files(&self) -> bool {
        !self.entry.path.is_empty()
    }
}

#[derive(Debug)]
struct Current {
    file: File,
    bundle: Bundle,
}

/// A bundle that may take its place, with the number in it of each row.
pub struct BundleCandidate {
    current: Current,
    places: Vec<Option<u32>>,
}

impl BundleCandidate {
    pub fn file(&self) -> &File {
        &self.current.file
    }

    /// The same without keys.
    ///
    /// # Errors
    /// No memory for it.
    pub fn keyless(&self) -> std::io::Result<File> {
        self.current.keyless()
    }
}

/// Certificates whose files are read again, a part at a time.
#[derive(Debug)]
struct Rereading {
    /// Numbers of those not read yet. Others may join behind them meanwhile.
    numbers: std::vec::IntoIter<usize>,
    read: Vec<Reread>,
}

#[derive(Debug)]
struct Reread {
    at: usize,
    seen: [Option<Signature>; 3],
    loaded: (Fresh, tls::facts::CertificateFacts),
}

/// All of it. Without a listener for TLS there is nothing in it.
#[derive(Debug, Default)]
pub struct Certs {
    /// The global scope, then one for each listener for TLS; empty without such a listener.
    scopes: Vec<CertificateScope>,
    /// Files about clients' certificates.
    lists: Vec<Listed>,
    /// Shared with drafts: a change while there is one copies them.
    rows: Arc<Vec<Row>>,
    current: Option<Arc<Current>>,
    making: Option<Making>,
    work: Option<Work>,
    /// Number of the last generated id.
    unnamed: u32,
    /// The certificate, and the list, whose files are looked at next.
    next_look: usize,
    next_list: usize,
    gathered: Vec<String>,
    gathered_since: Option<Mono>,
    /// Time of the last survey of their ends.
    surveyed: Option<i64>,
}

impl Certs {
    pub fn is_on(&self) -> bool {
        !self.scopes.is_empty()
    }

    pub fn file(&self) -> Option<&File> {
        self.current.as_ref().map(|current| &current.file)
    }

    /// The same without keys.
    ///
    /// # Errors
    /// No memory for it.
    pub fn keyless(&self) -> std::io::Result<Option<File>> {
        self.current.as_ref().map(|current| current.keyless()).transpose()
    }

    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn rows_mut(&mut self) -> &mut Vec<Row> {
        Arc::make_mut(&mut self.rows)
    }

    pub fn scope_name(&self, number: u32) -> &str {
        match self.scopes.get(number as usize) {
            Some(scope) if number != GLOBAL => &scope.name,
            _ => "default",
        }
    }

    pub fn scope_named(&self, name: &str) -> Option<u32> {
        let at = self.scopes.iter().skip(1).position(|scope| scope.name == name)?;
        Some(at as u32 + 1)
    }

    /// The fault of a certificate at that time, except for its own end: also of the files that clients' certificates
    /// are judged by.
    pub fn trouble(&self, row: &Row, now: i64) -> Option<String> {
        let scopes = self.scopes.iter().enumerate();
        let around = scopes
            .filter(|(number, _)| [GLOBAL, row.entry.scope].contains(&(*number as u32)) || row.entry.scope == GLOBAL);
        let mut said = around.map(|(_, scope)| &scope.overrides).chain([&row.entry.overrides]);
        let of_lists = |said: &Overrides| {
            self.trouble_of_list(said.client_ca).or_else(|| self.trouble_of_list(said.client_crl)).map(str::to_owned)
        };
        row.trouble(now).or_else(|| said.find_map(of_lists))
    }

    pub fn has_staged(&self) -> bool {
        self.rows.iter().any(|row| row.standing != CertificateStanding::Active)
    }

    /// True if an id is free. That of a discarded certificate may be taken.
    pub fn is_free(&self, id: &str) -> bool {
        self.rows.iter().all(|row| row.entry.id != id || row.standing == CertificateStanding::Discarded)
    }

    pub fn new_id(&mut self) -> String {
        loop {
            let id = format!("cert{}", self.unnamed);
            self.unnamed += 1;
            if self.is_free(&id) {
                return id;
            }
        }
    }

    pub fn next_batch(&self) -> u32 {
        self.rows
            .iter()
            .filter(|row| row.standing == CertificateStanding::Active)
            .map(|row| row.entry.batch + 1)
            .max()
            .unwrap_or(0)
    }

    /// Reads the files of certificates and stages them: all, or none.
    ///
    /// # Errors
    /// In words, with the path.
    pub fn stage(&mut self, entries: Vec<BundleEntry>, refuses_duplicates: bool, jail: &Jail) -> Result<(), String> {
        let before = self.rows.len();
        self.refuse_taken_ids(&entries)?;
        for mut row in jail.privileged(|| read_all(entries))? {
            row.standing = CertificateStanding::Staged;
            self.rows_mut().push(row);
        }
        let done = if refuses_duplicates { self.refuse_duplicates(before) } else { Ok(()) };
        if done.is_err() {
            self.rows_mut().truncate(before);
        }
        done
    }

    fn refuse_taken_ids(&self, entries: &[BundleEntry]) -> Result<(), String> {
        if let Some(entry) = entries.iter().find(|entry| !is_name(&entry.id)) {
            let id = entry.id.escape_debug();
            return Err(format!(
                "Invalid certificate ID '{id}': it must not contain blanks or non-printable characters."
            ));
        }
        let standing = self.rows.iter().filter(|row| row.standing != CertificateStanding::Discarded);
        let mut taken: HashSet<&str> = standing.map(|row| row.entry.id.as_str()).collect();
        match entries.iter().find(|entry| !taken.insert(&entry.id)) {
            Some(entry) => Err(format!("Certificate ID '{}' already exists.", entry.id)),
            None => Ok(()),
        }
    }

    /// No name of the certificates from `new` on may be another's, too, in its scope.
    fn refuse_duplicates(&self, new: usize) -> Result<(), String> {
        let mut taken: HashMap<(u32, &str), CertificateStanding> = HashMap::new();
        for (at, row) in self.rows.iter().enumerate().filter(|(_, row)| row.standing != CertificateStanding::Discarded)
        {
            let mut own: Vec<&str> = row.entry.facts.names.iter().map(String::as_str).collect();
            own.sort_unstable();
            own.dedup();
            for name in own {
                match taken.insert((row.entry.scope, name), row.standing) {
                    Some(CertificateStanding::Staged) if at >= new => {
                        return Err(format!("{}: '{name}' already staged.", row.entry.path));
                    }
                    Some(_) if at >= new => return Err(format!("{}: '{name}' already loaded.", row.entry.path)),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    pub fn discard(&mut self, id: &str) -> bool {
        let mut found = false;
        for row in self.rows_mut().iter_mut().filter(|row| row.entry.id == id) {
            (row.standing, found) = (CertificateStanding::Discarded, true);
        }
        found
    }

    pub fn roll_back(&mut self) {
        self.rows_mut().retain(|row| row.place.is_some());
        self.rows_mut().iter_mut().for_each(|row| row.standing = CertificateStanding::Active);
    }

    /// A bundle of what there will be after a commit.
    ///
    /// # Errors
    /// In words.
    pub fn with_staged(&self) -> Result<BundleCandidate, String> {
        CertsDraft::of(self).with_staged()
    }

    /// A bundle of what there is, with what was read again; what is staged stays so.
    ///
    /// # Errors
    /// In words.
    pub fn without_staged(&self) -> Result<BundleCandidate, String> {
        CertsDraft::of(self).without_staged()
    }

    /// The worker has it, or there is none: it takes the present one's place, and what is in it is active. With `commits` what
    /// was staged is, and what was discarded is gone.
    pub fn accept(&mut self, candidate: BundleCandidate, commits: bool) {
        (self.current, self.surveyed) = (Some(Arc::new(candidate.current)), None);
        for (row, place) in self.rows_mut().iter_mut().zip(candidate.places) {
            row.place = place;
            if place.is_some() {
                if row.fresh.take().is_some() {
                    row.watched.succeed();
                }
                if row.standing == CertificateStanding::Staged {
                    row.standing = CertificateStanding::Active;
                }
            }
        }
        self.accept_lists();
        if commits {
            self.rows_mut().retain(|row| row.standing != CertificateStanding::Discarded);
        }
    }

    /// Reads all certificates and lists of files again. All, or none: who hears an error says [`Certs::forget_fresh`].
    ///
    /// # Errors
    /// In words, with the path of the first that is of no use.
    pub fn reread_all(&mut self, jail: &Jail) -> Result<(), String> {
        let mut rereading = self.begin_rereading(jail)?;
        while !self.reread_some(&mut rereading, Duration::MAX, jail)? {}
        self.take_reread(rereading);
        Ok(())
    }

    /// Reads lists again, and begins with certificates.
    fn begin_rereading(&mut self, jail: &Jail) -> Result<Rereading, String> {
        self.lists.iter_mut().try_for_each(|listed| listed.read_again(jail))?;
        let numbers: Vec<usize> = (0..self.rows.len()).filter(|at| self.rows[*at].is_from_files()).collect();
        Ok(Rereading { read: Vec::with_capacity(numbers.len()), numbers: numbers.into_iter() })
    }

    /// Goes on reading for about that long; whether all is read.
    fn reread_some(&self, rereading: &mut Rereading, limit: Duration, jail: &Jail) -> Result<bool, String> {
        let begun = Instant::now();
        jail.privileged(|| {
            for at in rereading.numbers.by_ref() {
                let paths = self.rows[at].paths();
                // Before they are read: a change in between is found later.
                let seen = paths.signatures();
                rereading.read.push(Reread { at, seen, loaded: files::load(paths)? });
                if begun.elapsed() > limit {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    fn take_reread(&mut self, rereading: Rereading) {
        for Reread { at, seen, loaded } in rereading.read {
            self.renew(at, seen, loaded);
        }
    }

    fn renew(
        &mut self,
        at: usize,
        seen: [Option<Signature>; 3],
        (fresh, facts): (Fresh, tls::facts::CertificateFacts),
    ) {
        let row = &mut self.rows_mut()[at];
        row.take(fresh, facts);
        row.watched.saw(seen);
        row.trouble = None;
    }

    /// Forgets what was read again and isn't in use: what workers have stands.
    pub fn forget_fresh(&mut self) {
        self.forget_fresh_lists();
        let Some(current) = self.current.clone() else { return };
        for row in self.rows_mut().iter_mut().filter(|row| row.fresh.is_some()) {
            let Some(place) = row.place else { continue };
            (row.fresh, row.staple_trouble) = (None, None);
            row.watched.doubt();
            if let Some(facts) = facts_in(&current.bundle, place) {
                row.entry.facts = facts;
            }
            row.entry.staple = current.bundle.keyed(place).map(|keyed| keyed.staple).unwrap_or_default();
        }
    }

    /// A bundle's certificates, for a manager that takes another's place.
    ///
    /// # Errors
    /// In words.
    pub fn resume(file: File) -> Result<Certs, String> {
        let current = Current::open(file)?;
        let damaged = "the bundle of certificates is damaged";
        let mut rows = Vec::with_capacity(current.bundle.len());
        for place in 0..current.bundle.len() as u32 {
            let entry = current.bundle.entry(place).ok_or(damaged)?;
            let facts = facts_in(&current.bundle, place).ok_or(damaged)?;
            // A file may have changed before and not be in use yet, or be of no use.
            let watched = WatchedFiles::unsure();
            rows.push(Row { place: Some(place), watched, ..Row::of(BundleEntry { facts, ..entry }) });
        }
        let lists = current.bundle.lists().ok_or(damaged)?.into_iter().map(Listed::resumed).collect();
        let scopes = current.bundle.scopes().to_vec();
        Ok(Certs { scopes, lists, rows: Arc::new(rows), current: Some(Arc::new(current)), ..Certs::default() })
    }
}

/// The certificates that a manager begins with, in a bundle for the first worker.
///
/// # Errors
/// In words.
pub fn begin(
    config: Option<&config::CertsConfig>,
    listeners: &[String],
    refuses_duplicates: bool,
    jail: &Jail,
) -> Result<Certs, String> {
    let mut certs = config::certs(config, listeners, refuses_duplicates, jail)?;
    if certs.is_on() {
        let candidate = certs.with_staged()?;
        certs.accept(candidate, true);
    }
    Ok(certs)
}

impl Current {
    fn open(file: File) -> Result<Current, String> {
        let secret = sys::secret::SealedSecret::map(&file)
            .map_err(|e| format!("can't map the memory for certificates: {}", errno_text(&e)))?;
        let bundle = Bundle::open(Box::new(secret)).map_err(|e| e.to_string())?;
        Ok(Current { file, bundle })
    }

    fn keyless(&self) -> std::io::Result<File> {
        sys::secret::seal("lacquer-certificates", &self.bundle.without_keys())
    }
}

/// True if lists can show the text: they separate by tabs and lines.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn facts_in(bundle: &Bundle, place: u32) -> Option<tls::facts::CertificateFacts> {
    tls::facts::read(bundle.keyed(place)?.chain.first()?).ok()
}

/// Reads the files of many, by several threads: parsing a key and what it belongs to takes a while.
fn read_all(entries: Vec<BundleEntry>) -> Result<Vec<Row>, String> {
    let threads = sys::cpu::usable().clamp(1, MOST_READERS);
    let share = entries.len().div_ceil(threads).max(FEW);
    if entries.len() <= share {
        return entries.into_iter().map(Row::read).collect();
    }
    let mut shares: Vec<Vec<BundleEntry>> = Vec::new();
    let mut rest = entries.into_iter().peekable();
    while rest.peek().is_some() {
        shares.push(rest.by_ref().take(share).collect());
    }
    let read = |share: Vec<BundleEntry>| share.into_iter().map(Row::read).collect::<Result<Vec<Row>, String>>();
    std::thread::scope(|scope| {
        let readers: Vec<_> = shares.into_iter().map(|share| scope.spawn(move || read(share))).collect();
        let read = readers.into_iter().map(|reader| reader.join().expect("reading certificates doesn't panic"));
        let parts: Vec<Vec<Row>> = read.collect::<Result<_, String>>()?;
        Ok(parts.into_iter().flatten().collect())
    })
}

#[cfg(test)]
mod tests;

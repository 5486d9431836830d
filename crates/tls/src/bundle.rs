// SPDX-License-Identifier: BSD-2-Clause
//! All certificates of a server in one piece of memory: keys, chains and settings, found by listener and name.
//!
//! The manager writes one ([`BundleBuilder`]) and hands its descriptor to workers, which look names up in it and read no more than
//! the certificate that is asked for. A bundle is never changed: other certificates are another bundle. It says all that the
//! manager knows of them, too, so that the manager after an upgrade reads its certificates from the bundle.
//!
//! ```text
//! head     magic, length of all, then for each table: where it begins, how many rows it has
//! scopes   rows: where a record is. The first scope is the global one, then one for each TLS listener
//! lists    rows: where a record is: what clients' certificates are checked with: CAs, or lists of revoked ones
//! DER      rows: where, how long: the certificates of chains, each once
//! entries  rows: where a record is: a certificate's key, chain, and what is known of it
//! names    rows: scope, entry, where the name is, how long; sorted by scope and name: a search by halves finds them
//! ```
//! Numbers are little-endian, lists and texts have their length before them. Every place is checked when it is read: a damaged
//! bundle costs certificates, never a crash.

use std::cmp::Ordering;

use zeroize::Zeroizing;

use crate::facts::CertificateFacts;
use crate::ocsp::ValiditySpan;
use crate::pem::KeyForm;
use crate::server::ClientPolicy;
use crate::settings::Overrides;

mod build;

use crate::wire::WireReader;
pub use build::{BundleBuilder, Material};

const MAGIC: &[u8; 8] = b"LQTLS\0\0\x02";
const SCOPES: usize = 0;
const LISTS: usize = 1;
const DER: usize = 2;
const ENTRIES: usize = 3;
const NAMES: usize = 4;
const TABLES: usize = 5;
/// Bytes of a row of each.
const ROW: [usize; TABLES] = [8, 8, 12, 8, 18];
/// Magic, length, and for each table an offset and a count.
const HEAD_BYTES: usize = MAGIC.len() + 8 + TABLES * 12;

/// The number of the scope that isn't a listener's.
pub const GLOBAL: u32 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotABundle;

impl std::fmt::Display for NotABundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a bundle of certificates, or a damaged one")
    }
}

impl std::error::Error for NotABundle {}

/// Settings for connections to one listener. The global scope's hold where listeners set none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateScope {
    /// The listener's name; the global scope has none.
    pub name: String,
    /// `sni-nomatch-abort`; without it the default certificate answers for unknown names.
    pub aborts_unknown: bool,
    /// `match-global-certs`: the global certificates are looked at, too.
    pub matches_global: bool,
    /// The certificate that answers without a name.
    pub default: Option<u32>,
    /// True if its certificates ask different things of clients. The builder sets it.
    pub differs: bool,
    pub overrides: Overrides,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListKind {
    /// `client-verify-ca`: certificates of authorities.
    #[default]
    Authorities,
    /// `client-verify-crl`: lists of certificates that were revoked.
    Revoked,
}

impl ListKind {
    pub fn key(self) -> &'static str {
        match self {
            Self::Authorities => "client-verify-ca",
            Self::Revoked => "client-verify-crl",
        }
    }
}

/// A file that says whom to trust, or whom no longer, among clients' certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    pub kind: ListKind,
    pub path: String,
    pub ders: Vec<Vec<u8>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleEntry {
    pub id: String,
    pub scope: u32,
    /// Certificates of one commit have the same number; for a name that several have, the highest one is taken.
    pub batch: u32,
    pub is_default: bool,
    /// Path of the certificate, as configured; empty if it came from no file.
    pub path: String,
    pub key_path: String,
    pub ocsp_path: String,
    /// The file needn't be there: another program writes it by and by.
    pub is_ocsp_awaited: bool,
    /// Period in which the OCSP response may be sent; empty without a response.
    pub staple: ValiditySpan,
    pub overrides: Overrides,
    /// Facts read from the certificate. A bundle keeps the names in a table of its own, so they are missing here.
    pub facts: CertificateFacts,
}

/// Key, chain and OCSP response of a certificate, borrowed from the bundle.
pub struct Keyed<'a> {
    pub scope: u32,
    pub overrides: Overrides,
    pub form: KeyForm,
    pub key: &'a [u8],
    pub chain: Vec<&'a [u8]>,
    /// DER of an OCSP answer, or empty.
    pub ocsp: &'a [u8],
    pub staple: ValiditySpan,
}

impl Keyed<'_> {
    /// True if another process holds the key: a key in DER begins with its tag.
    pub fn is_without_key(&self) -> bool {
        self.key.first().is_none_or(|tag| *tag == 0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameMatch {
    Entry(u32),
    NothingLoaded,
    /// None has this name, and the listener aborts then.
    UnknownName,
}

pub struct Bundle {
    bytes: Box<dyn AsRef<[u8]> + Send + Sync>,
    /// Offset and number of rows of each table.
    tables: [(usize, u32); TABLES],
    scopes: Vec<CertificateScope>,
}

impl std::fmt::Debug for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bundle {{ scopes: {}, entries: {} }}", self.scopes.len(), self.len())
    }
}

impl Bundle {
    /// Reads the head and the scopes.
    ///
    /// # Errors
    /// It isn't a bundle, or not a whole one.
    pub fn open(bytes: Box<dyn AsRef<[u8]> + Send + Sync>) -> Result<Bundle, NotABundle> {
        let tables = read_head((*bytes).as_ref()).ok_or(NotABundle)?;
        let mut bundle = Bundle { bytes, tables, scopes: Vec::new() };
        let scopes = (0..bundle.tables[SCOPES].1).map(|n| bundle.read_scope(n)).collect::<Option<Vec<_>>>();
        bundle.scopes = scopes.filter(|scopes| !scopes.is_empty()).ok_or(NotABundle)?;
        Ok(bundle)
    }

    fn bytes(&self) -> &[u8] {
        (*self.bytes).as_ref()
    }

    pub fn len(&self) -> usize {
        self.tables[ENTRIES].1 as usize
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn scopes(&self) -> &[CertificateScope] {
        &self.scopes
    }

    /// The number of a listener's scope. One that nothing is said of has the global one.
    pub fn scope_of(&self, listener: &str) -> u32 {
        let at = self.scopes.iter().skip(1).position(|scope| scope.name == listener);
        at.map_or(GLOBAL, |at| at as u32 + 1)
    }

    /// The certificate with which a listener answers who asks for `name`, in any case, or doesn't say.
    pub fn find(&self, scope: u32, name: Option<&str>) -> NameMatch {
        let Some(own) = self.scopes.get(scope as usize) else { return NameMatch::NothingLoaded };
        let global = if own.matches_global && scope != GLOBAL { self.scopes.first() } else { None };
        if let Some(name) = name {
            let name = name.to_ascii_lowercase();
            let name = name.strip_suffix('.').unwrap_or(&name);
            let found = self.find_name(scope, name).or_else(|| global.and_then(|_| self.find_name(GLOBAL, name)));
            match found {
                Some(entry) => return NameMatch::Entry(entry),
                None if self.is_empty() => return NameMatch::NothingLoaded,
                None if own.aborts_unknown => return NameMatch::UnknownName,
                None => {}
            }
        }
        // Without a certificate of its own a listener has the global ones, whatever it says of names.
        let default = own.default.or_else(|| self.scopes.first().and_then(|global| global.default));
        default.map_or(NameMatch::NothingLoaded, NameMatch::Entry)
    }

    /// Policies for clients that the certificates of a host set, at all listeners: those that name it or, where none
    /// does, those whose wildcard fits. Empty if one of them asks nothing, since the host is reachable without a client
    /// certificate anyway.
    pub fn asked_for(&self, host: &str) -> Vec<ClientPolicy> {
        let host = host.to_ascii_lowercase();
        let host = host.strip_suffix('.').unwrap_or(&host);
        let exact = (host.as_bytes(), &b""[..]);
        let wildcard = host.split_once('.').map(|(_, rest)| (&b"*."[..], rest.as_bytes()));
        for (first, second) in [Some(exact), wildcard].into_iter().flatten() {
            let scopes = 0..self.scopes.len() as u32;
            let asked = scopes.filter_map(|scope| self.policy(scope, self.find_exact(scope, first, second)?));
            let asked: Vec<ClientPolicy> = asked.collect();
            if !asked.is_empty() {
                return if asked.iter().any(|policy| policy.asks_nothing()) { Vec::new() } else { asked };
            }
        }
        Vec::new()
    }

    pub fn asks_clients(&self) -> bool {
        let asks = |policy: ClientPolicy| !policy.asks_nothing();
        self.scopes.iter().any(|scope| scope.differs || asks(ClientPolicy::of(&scope.overrides)))
            || (0..self.len() as u32).any(|number| {
                let own = self.record(ENTRIES, number).and_then(|mut record| self.policy(record.u32()?, number));
                own.is_some_and(asks)
            })
    }

    /// The exact name, or the wildcard for all names beside it.
    fn find_name(&self, scope: u32, name: &str) -> Option<u32> {
        self.find_exact(scope, name.as_bytes(), b"").or_else(|| {
            let (_, rest) = name.split_once('.')?;
            self.find_exact(scope, b"*.", rest.as_bytes())
        })
    }

    fn find_exact(&self, scope: u32, first: &[u8], second: &[u8]) -> Option<u32> {
        let (mut low, mut high) = (0, self.tables[NAMES].1);
        while low < high {
            let middle = low + (high - low) / 2;
            let (at, entry, name) = self.name_row(middle)?;
            let order = at.cmp(&scope).then_with(|| compare(name, first, second));
            match order {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Some(entry),
            }
        }
        None
    }

    /// The names by which certificates are found: scope, entry, name.
    pub fn names(&self) -> impl Iterator<Item = (u32, u32, &str)> {
        (0..self.tables[NAMES].1).filter_map(|row| {
            let (scope, entry, name) = self.name_row(row)?;
            Some((scope, entry, std::str::from_utf8(name).ok()?))
        })
    }

    fn name_row(&self, row: u32) -> Option<(u32, u32, &[u8])> {
        let mut row = self.row(NAMES, row)?;
        let (scope, entry) = (row.u32()?, row.u32()?);
        let (at, len) = (usize::try_from(row.u64()?).ok()?, usize::from(row.u16()?));
        Some((scope, entry, self.bytes().get(at..at.checked_add(len)?)?))
    }

    pub fn entry(&self, number: u32) -> Option<BundleEntry> {
        let mut record = self.record(ENTRIES, number)?;
        let (scope, batch, is_default) = (record.u32()?, record.u32()?, record.u8()? != 0);
        let overrides = Overrides::decode(record.text()?)?;
        let texts: [String; 6] = {
            let mut next = || record.text().map(str::to_owned);
            [next()?, next()?, next()?, next()?, next()?, next()?]
        };
        let [id, path, key_path, ocsp_path, subject, issuer] = texts;
        let (not_before, not_after) = (record.u64()? as i64, record.u64()? as i64);
        let serial = record.text()?.to_owned();
        let (is_ocsp_awaited, staple) = (record.u8()? != 0, read_span(&mut record)?);
        let facts = CertificateFacts { subject, issuer, names: Vec::new(), not_before, not_after, serial };
        Some(BundleEntry {
            id,
            scope,
            batch,
            is_default,
            path,
            key_path,
            ocsp_path,
            is_ocsp_awaited,
            staple,
            overrides,
            facts,
        })
    }

    /// Policy for clients of a certificate, at a listener with this scope.
    pub fn policy(&self, scope: u32, number: u32) -> Option<ClientPolicy> {
        let mut record = self.record(ENTRIES, number)?;
        let (_scope, _batch, _is_default) = (record.u32()?, record.u32()?, record.u8()?);
        let own = Overrides::decode(record.text()?)?;
        Some(ClientPolicy::of(&own.over(&self.scopes.get(scope as usize)?.overrides).over(&self.scopes[0].overrides)))
    }

    pub fn keyed(&self, number: u32) -> Option<Keyed<'_>> {
        let mut record = self.record(ENTRIES, number)?;
        let (scope, _batch, _is_default) = (record.u32()?, record.u32()?, record.u8()?);
        let overrides = Overrides::decode(record.text()?)?;
        for _ in 0..6 {
            record.bytes()?;
        }
        record.u64()?;
        record.u64()?;
        record.bytes()?;
        record.u8()?;
        let staple = read_span(&mut record)?;
        let (form, key, ocsp) = (KeyForm::numbered(record.u8()?)?, record.bytes()?, record.bytes()?);
        let links = record.u32()?;
        let chain = (0..links).map(|_| self.der(record.u32()?)).collect::<Option<Vec<_>>>()?;
        (!chain.is_empty()).then_some(Keyed { scope, overrides, form, key, chain, ocsp, staple })
    }

    /// A bundle of the same certificates with zeros in place of their keys, for a process that has others sign.
    pub fn without_keys(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(self.bytes().to_vec());
        for keyed in (0..self.len() as u32).filter_map(|number| self.keyed(number)) {
            let at = keyed.key.as_ptr().addr() - self.bytes().as_ptr().addr();
            bytes[at..at + keyed.key.len()].fill(0);
        }
        bytes
    }

    fn der(&self, number: u32) -> Option<&[u8]> {
        let mut row = self.row(DER, number)?;
        let (at, len) = (usize::try_from(row.u64()?).ok()?, row.u32()? as usize);
        self.bytes().get(at..at.checked_add(len)?)
    }

    pub fn list(&self, number: u32) -> Option<Vec<&[u8]>> {
        let mut record = self.record(LISTS, number)?;
        let (_kind, _path, count) = (record.u8()?, record.text()?, record.u32()?);
        (0..count).map(|_| record.bytes()).collect()
    }

    pub fn lists(&self) -> Option<Vec<List>> {
        let list = |number| {
            let mut record = self.record(LISTS, number)?;
            let kind = if record.u8()? == 0 { ListKind::Authorities } else { ListKind::Revoked };
            let path = record.text()?.to_owned();
            Some(List { kind, path, ders: self.list(number)?.into_iter().map(<[u8]>::to_vec).collect() })
        };
        (0..self.tables[LISTS].1).map(list).collect()
    }

    fn read_scope(&self, number: u32) -> Option<CertificateScope> {
        let mut record = self.record(SCOPES, number)?;
        let name = record.text()?.to_owned();
        let (aborts_unknown, matches_global) = (record.u8()? != 0, record.u8()? != 0);
        let default = record.u32()?.checked_sub(1);
        let differs = record.u8()? != 0;
        let overrides = Overrides::decode(record.text()?)?;
        Some(CertificateScope { name, aborts_unknown, matches_global, default, differs, overrides })
    }

    fn row(&self, table: usize, number: u32) -> Option<WireReader<'_>> {
        let (at, rows) = self.tables[table];
        let from = at.checked_add((number as usize).checked_mul(ROW[table])?)?;
        let row = self.bytes().get(from..from.checked_add(ROW[table])?)?;
        (number < rows).then_some(WireReader(row))
    }

    /// The record that a row of type place points to.
    fn record(&self, table: usize, number: u32) -> Option<WireReader<'_>> {
        let at = usize::try_from(self.row(table, number)?.u64()?).ok()?;
        Some(WireReader(self.bytes().get(at..)?))
    }
}

fn read_span(record: &mut WireReader<'_>) -> Option<ValiditySpan> {
    Some(ValiditySpan { from: record.u64()? as i64, until: record.u64()? as i64 })
}

/// `name` beside `first` and `second` one after the other.
fn compare(name: &[u8], first: &[u8], second: &[u8]) -> Ordering {
    let (head, tail) = name.split_at(first.len().min(name.len()));
    head.cmp(first).then_with(|| tail.cmp(second))
}

fn read_head(bytes: &[u8]) -> Option<[(usize, u32); TABLES]> {
    let mut head = WireReader(bytes.strip_prefix(MAGIC)?);
    if head.u64()? != bytes.len() as u64 {
        return None;
    }
    let mut tables = [(0, 0); TABLES];
    for (table, place) in tables.iter_mut().enumerate() {
        let (at, rows) = (usize::try_from(head.u64()?).ok()?, head.u32()?);
        let end = at.checked_add((rows as usize).checked_mul(ROW[table])?)?;
        if end > bytes.len() {
            return None;
        }
        *place = (at, rows);
    }
    Some(tables)
}

#[cfg(test)]
mod tests;

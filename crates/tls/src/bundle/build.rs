// SPDX-License-Identifier: BSD-2-Clause
//! How a bundle is written: who has which name is decided here, once, so that a lookup finds one certificate.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use zeroize::Zeroizing;

use super::{
    BundleEntry, CertificateScope, DER, ENTRIES, GLOBAL, HEAD_BYTES, LISTS, List, ListKind, MAGIC, NAMES, SCOPES,
    TABLES,
};
use crate::pem::KeyForm;
use crate::server::ClientPolicy;
use crate::settings::Overrides;
use crate::wire::WireWriter;

pub struct Material<'a> {
    pub form: KeyForm,
    pub key: &'a [u8],
    pub chain: Vec<&'a [u8]>,
    pub ocsp: &'a [u8],
}

/// A bundle that is being put together. Entries come in the order in which they were listed.
pub struct BundleBuilder<'a> {
    scopes: Vec<CertificateScope>,
    lists: Vec<&'a List>,
    entries: Vec<(&'a BundleEntry, Material<'a>)>,
}

impl<'a> BundleBuilder<'a> {
    /// With these scopes, the first of which is the global one (their defaults are found here), and these lists.
    pub fn new(scopes: Vec<CertificateScope>, lists: Vec<&'a List>) -> BundleBuilder<'a> {
        assert!(!scopes.is_empty(), "the global scope is always there");
        BundleBuilder { scopes, lists, entries: Vec::new() }
    }

    pub fn add(&mut self, entry: &'a BundleEntry, material: Material<'a>) {
        self.entries.push((entry, material));
    }

    pub fn build(mut self) -> Zeroizing<Vec<u8>> {
        let global = self.scopes[GLOBAL as usize].overrides.clone();
        for (number, scope) in self.scopes.iter_mut().enumerate() {
            scope.default = default_of(&self.entries, number as u32);
            scope.differs = number as u32 != GLOBAL && differs(&self.entries, number as u32, scope, &global);
        }
        let mut out = WireWriter(Zeroizing::new(Vec::with_capacity(self.most_bytes())));
        out.0.resize(HEAD_BYTES, 0);
        let mut tables = [(0, 0); TABLES];
        let mut seen: HashMap<&[u8], u32> = HashMap::new();
        let mut ders: Vec<(u64, u32)> = Vec::new();
        let mut places = Vec::with_capacity(self.entries.len());
        for (_, material) in &self.entries {
            for der in &material.chain {
                if let Slot::Vacant(slot) = seen.entry(der) {
                    slot.insert(ders.len() as u32);
                    ders.push((out.place(), der.len() as u32));
                    out.0.extend_from_slice(der);
                }
            }
        }
        for (entry, material) in &self.entries {
            places.push(out.place());
            write_entry(&mut out, entry, material, |der| seen[der]);
        }
        let scopes: Vec<u64> = self.scopes.iter().map(|scope| write_scope(&mut out, scope)).collect();
        let lists: Vec<u64> = self.lists.iter().map(|list| write_list(&mut out, list)).collect();
        let names: Vec<(u32, u32, u64, u16)> = chosen_names(&self.entries)
            .into_iter()
            .map(|(scope, name, entry)| {
                let at = out.place();
                out.0.extend_from_slice(name.as_bytes());
                (scope, entry, at, name.len() as u16)
            })
            .collect();
        for (table, rows) in [(SCOPES, scopes), (LISTS, lists), (ENTRIES, places)] {
            tables[table] = (out.place(), rows.len() as u32);
            rows.iter().for_each(|at| out.u64(*at));
        }
        tables[DER] = (out.place(), ders.len() as u32);
        for (at, len) in ders {
            out.u64(at);
            out.u32(len);
        }
        tables[NAMES] = (out.place(), names.len() as u32);
        for (scope, entry, at, len) in names {
            out.u32(scope);
            out.u32(entry);
            out.u64(at);
            out.u16(len);
        }
        write_head(&mut out, &tables);
        out.0
    }

    /// Room for all, without what is the same in several chains left out.
    fn most_bytes(&self) -> usize {
        let entries: usize = self
            .entries
            .iter()
            .map(|(entry, material)| {
                let texts = entry.id.len() + entry.path.len() + entry.key_path.len() + entry.ocsp_path.len();
                let facts = entry.facts.subject.len() + entry.facts.issuer.len() + entry.facts.serial.len();
                let names: usize = entry.facts.names.iter().map(|name| name.len() + 18).sum();
                let chain: usize = material.chain.iter().map(|der| der.len() + 16).sum();
                texts + facts + names + chain + material.key.len() + material.ocsp.len() + 512
            })
            .sum();
        let lists: usize = self.lists.iter().flat_map(|list| &list.ders).map(|der| der.len() + 4).sum();
        let lists: usize = self.lists.iter().map(|list| list.path.len() + 24).sum::<usize>() + lists;
        let scopes: usize = self.scopes.iter().map(|scope| scope.name.len() + 256).sum();
        HEAD_BYTES + entries + lists + scopes
    }
}

/// The last that was named so, or else the first of the scope.
fn default_of(entries: &[(&BundleEntry, Material<'_>)], scope: u32) -> Option<u32> {
    let of_scope = || entries.iter().enumerate().filter(|(_, (entry, _))| entry.scope == scope);
    // Of later commits first; within a commit the last.
    let named = of_scope().filter(|(_, (entry, _))| entry.is_default).max_by_key(|(at, (entry, _))| (entry.batch, *at));
    named.or_else(|| of_scope().next()).map(|(at, _)| at as u32)
}

fn differs(
    entries: &[(&BundleEntry, Material<'_>)],
    number: u32,
    scope: &CertificateScope,
    global: &Overrides,
) -> bool {
    let of = |number: u32| entries.iter().map(|(entry, _)| *entry).filter(move |entry| entry.scope == number);
    let takes_global = scope.matches_global || of(number).next().is_none();
    let shown = of(number).chain(of(GLOBAL).filter(|_| takes_global));
    let mut asked = shown.map(|entry| ClientPolicy::of(&entry.overrides.over(&scope.overrides).over(global)));
    let first = asked.next();
    asked.any(|other| Some(other) != first)
}

/// Each name of each scope, sorted, with the certificate that has it: of the latest commit, and there the first.
fn chosen_names<'a>(entries: &[(&'a BundleEntry, Material<'_>)]) -> Vec<(u32, &'a str, u32)> {
    let mut names: Vec<(u32, &str, u32)> = Vec::new();
    for (at, (entry, _)) in entries.iter().enumerate() {
        names.extend(entry.facts.names.iter().map(|name| (entry.scope, name.as_str(), at as u32)));
    }
    let batch = |at: u32| entries[at as usize].0.batch;
    names.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then_with(|| batch(b.2).cmp(&batch(a.2))).then(a.2.cmp(&b.2)));
    names.dedup_by(|later, first| (later.0, later.1) == (first.0, first.1));
    names
}

fn write_entry(out: &mut WireWriter, entry: &BundleEntry, material: &Material<'_>, number_of: impl Fn(&[u8]) -> u32) {
    let BundleEntry { id, scope, batch, is_default, path, key_path, ocsp_path, .. } = entry;
    let BundleEntry { is_ocsp_awaited, staple, overrides, facts, .. } = entry;
    out.u32(*scope);
    out.u32(*batch);
    out.u8(u8::from(*is_default));
    out.bytes(overrides.encode().as_bytes());
    for text in [id, path, key_path, ocsp_path, &facts.subject, &facts.issuer] {
        out.bytes(text.as_bytes());
    }
    out.u64(facts.not_before as u64);
    out.u64(facts.not_after as u64);
    out.bytes(facts.serial.as_bytes());
    out.u8(u8::from(*is_ocsp_awaited));
    out.u64(staple.from as u64);
    out.u64(staple.until as u64);
    out.u8(material.form.number());
    out.bytes(material.key);
    out.bytes(material.ocsp);
    out.u32(material.chain.len() as u32);
    material.chain.iter().for_each(|der| out.u32(number_of(der)));
}

fn write_scope(out: &mut WireWriter, scope: &CertificateScope) -> u64 {
    let at = out.place();
    out.bytes(scope.name.as_bytes());
    out.u8(u8::from(scope.aborts_unknown));
    out.u8(u8::from(scope.matches_global));
    out.u32(scope.default.map_or(0, |entry| entry + 1));
    out.u8(u8::from(scope.differs));
    out.bytes(scope.overrides.encode().as_bytes());
    at
}

fn write_list(out: &mut WireWriter, list: &List) -> u64 {
    let at = out.place();
    out.u8(u8::from(list.kind == ListKind::Revoked));
    out.bytes(list.path.as_bytes());
    out.u32(list.ders.len() as u32);
    list.ders.iter().for_each(|der| out.bytes(der));
    at
}

fn write_head(out: &mut WireWriter, tables: &[(u64, u32); TABLES]) {
    let mut head = MAGIC.to_vec();
    head.extend_from_slice(&out.place().to_le_bytes());
    for (at, rows) in tables {
        head.extend_from_slice(&at.to_le_bytes());
        head.extend_from_slice(&rows.to_le_bytes());
    }
    out.0[..HEAD_BYTES].copy_from_slice(&head);
}

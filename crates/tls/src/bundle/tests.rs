// SPDX-License-Identifier: BSD-2-Clause
//! Bundles that were built and read, and damaged ones.

use proptest::prelude::*;

use super::*;

fn entry(id: &str, scope: u32, names: &[&str]) -> BundleEntry {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    let facts = CertificateFacts {
        subject: format!("CN of {id}"),
        issuer: "CA".into(),
        names,
        not_before: -1,
        not_after: 7,
        serial: "0A".into(),
    };
    BundleEntry { id: id.into(), scope, path: format!("/etc/{id}.pem"), facts, ..BundleEntry::default() }
}

fn scope(name: &str) -> CertificateScope {
    CertificateScope { name: name.into(), matches_global: true, ..CertificateScope::default() }
}

fn list() -> List {
    List { kind: ListKind::Revoked, path: "/etc/ca.pem".into(), ders: vec![b"ca 1".to_vec(), b"ca 2".to_vec()] }
}

fn bytes(scopes: Vec<CertificateScope>, entries: &[BundleEntry]) -> Vec<u8> {
    let list = list();
    let mut builder = BundleBuilder::new(scopes, vec![&list]);
    let keys: Vec<Vec<u8>> = entries.iter().map(|entry| format!("key of {}", entry.id).into_bytes()).collect();
    let leaves: Vec<Vec<u8>> = entries.iter().map(|entry| format!("leaf of {}", entry.id).into_bytes()).collect();
    for ((entry, key), leaf) in entries.iter().zip(&keys).zip(&leaves) {
        builder.add(entry, Material { form: KeyForm::Sec1, key, chain: vec![leaf, b"intermediate"], ocsp: b"" });
    }
    builder.build().to_vec()
}

fn bundle(scopes: Vec<CertificateScope>, entries: &[BundleEntry]) -> Bundle {
    Bundle::open(Box::new(bytes(scopes, entries))).expect("what was built can be read")
}

fn check(bundle: &Bundle, listener: &str, name: Option<&str>, expected: &str) {
    let found = match bundle.find(bundle.scope_of(listener), name) {
        NameMatch::Entry(number) => bundle.entry(number).expect("it is there").id,
        other => format!("{other:?}"),
    };
    assert_eq!(found, expected, "{name:?} at {listener:?}");
}

#[test]
fn names_are_found_exactly_or_by_one_wildcard() {
    let entries = [
        entry("a", 0, &["example.com", "www.example.com"]),
        entry("w", 0, &["*.example.com"]),
        entry("z", 0, &["zzz"]),
    ];
    let bundle = bundle(vec![scope(""), scope("a0")], &entries);
    check(&bundle, "a0", Some("www.example.com"), "a");
    check(&bundle, "a0", Some("WWW.Example.COM."), "a");
    check(&bundle, "a0", Some("api.example.com"), "w");
    check(&bundle, "a0", Some("a.api.example.com"), "a");
    check(&bundle, "a0", Some("com"), "a");
    check(&bundle, "a0", Some(""), "a");
    check(&bundle, "a0", Some("*.example.com"), "w");
    check(&bundle, "a0", None, "a");
    check(&bundle, "zzz", Some("zzz"), "z");
}

#[test]
fn a_listener_has_its_own_certificates_before_the_global_ones() {
    let entries = [entry("global", 0, &["a", "b"]), entry("own", 1, &["a"]), entry("other", 2, &["c"])];
    let own_only = CertificateScope { matches_global: false, ..scope("own") };
    let strict = CertificateScope { aborts_unknown: true, ..scope("strict") };
    let bundle = bundle(vec![scope(""), own_only, scope("both"), strict], &entries);
    check(&bundle, "own", Some("a"), "own");
    check(&bundle, "own", Some("b"), "own");
    check(&bundle, "both", Some("a"), "global");
    check(&bundle, "both", Some("c"), "other");
    check(&bundle, "both", None, "other");
    check(&bundle, "strict", Some("b"), "global");
    check(&bundle, "strict", Some("c"), "UnknownName");
    check(&bundle, "strict", None, "global");
}

#[test]
fn without_certificates_nothing_is_loaded() {
    let strict = CertificateScope { aborts_unknown: true, ..scope("strict") };
    let bundle = bundle(vec![scope(""), strict], &[]);
    check(&bundle, "strict", Some("a"), "NothingLoaded");
    check(&bundle, "strict", None, "NothingLoaded");
    check(&bundle, "unheard of", None, "NothingLoaded");
}

#[test]
fn of_equal_names_the_latest_commits_first_is_taken() {
    let mut entries = [entry("first", 0, &["a"]), entry("second", 0, &["a"]), entry("later", 0, &["b"])];
    check(&bundle(vec![scope("")], &entries), "", Some("a"), "first");
    entries[1].batch = 1;
    check(&bundle(vec![scope("")], &entries), "", Some("a"), "second");
}

#[test]
fn the_default_is_the_last_that_was_named_so() {
    let mut entries = [entry("a", 0, &["a"]), entry("b", 0, &["b"]), entry("c", 0, &["c"])];
    check(&bundle(vec![scope("")], &entries), "", None, "a");
    entries[1].is_default = true;
    check(&bundle(vec![scope("")], &entries), "", None, "b");
    entries[2].is_default = true;
    check(&bundle(vec![scope("")], &entries), "", None, "c");
    entries[0] = BundleEntry { is_default: true, batch: 2, ..entries[0].clone() };
    check(&bundle(vec![scope("")], &entries), "", None, "a");
}

#[test]
fn all_comes_back() {
    let mut given = entry("x", 1, &["a"]);
    given.overrides = Overrides { client_ca: Some(0), prefers_own_order: Some(true), ..Overrides::default() };
    (given.key_path, given.ocsp_path, given.batch, given.is_default) = ("k".into(), "o".into(), 3, true);
    let bundle = bundle(vec![scope(""), scope("a0")], &[entry("w", 0, &[]), given.clone()]);
    assert_eq!(bundle.names().collect::<Vec<_>>(), [(1, 1, "a")]);
    given.facts.names.clear();
    assert_eq!(bundle.entry(1), Some(given.clone()));
    let keyed = bundle.keyed(1).unwrap();
    assert_eq!((keyed.scope, keyed.form, keyed.key), (1, KeyForm::Sec1, &b"key of x"[..]));
    assert_eq!((keyed.overrides, keyed.chain), (given.overrides, vec![&b"leaf of x"[..], &b"intermediate"[..]]));
    assert_eq!(bundle.list(0), Some(vec![&b"ca 1"[..], &b"ca 2"[..]]));
    assert_eq!(bundle.lists(), Some(vec![list()]));
    assert!(bundle.list(1).is_none() && bundle.entry(2).is_none() && bundle.keyed(2).is_none());
    assert_eq!((bundle.scopes()[1].default, bundle.len(), bundle.tables[DER].1), (Some(1), 2, 3));
}

fn walk(bundle: &Bundle) {
    for n in 0..3 {
        let _ = (bundle.entry(n), bundle.keyed(n).map(|k| k.chain.len()), bundle.list(n));
        for name in [None, Some("a"), Some("b.c"), Some("www.example.com")] {
            let _ = bundle.find(n, name);
        }
    }
    assert!(bundle.names().count() <= bundle.bytes().len());
}

proptest! {
    #[test]
    fn damage_is_refused_or_costs_certificates(at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        let mut bytes = bytes(vec![scope(""), scope("a0")], &[entry("a", 0, &["a", "*.c"]), entry("b", 1, &["b.c"])]);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(bundle) = Bundle::open(Box::new(bytes.clone())) {
            walk(&bundle);
        }
        let cut = cut.index(bytes.len());
        prop_assert!(Bundle::open(Box::new(bytes[..cut].to_vec())).is_err());
    }

    #[test]
    fn bytes_of_others_are_no_bundle(bytes: Vec<u8>) {
        prop_assert!(Bundle::open(Box::new(bytes)).is_err());
    }

    #[test]
    fn every_name_is_found(names in prop::collection::hash_set("[a-d]{1,3}(\\.[a-d]{1,2}){0,2}", 1..40)) {
        let entries: Vec<BundleEntry> = names.iter().map(|name| entry(name, 0, &[name])).collect();
        let bundle = bundle(vec![scope("")], &entries);
        for name in &names {
            check(&bundle, "", Some(name), name);
        }
    }
}

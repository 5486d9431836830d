// SPDX-License-Identifier: BSD-2-Clause
//! Certificates that are staged, committed, read again and refused.

use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, DnType, KeyPair};
use tls::bundle::NameMatch;

use super::config::CertsConfig;
use super::*;

/// A directory of its own, gone at the end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("lacquer-certs-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).expect("a directory can be made");
        Dir(dir)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        // As careful hands do it: no moment without the file.
        let new = self.0.join(format!("{name}.new"));
        std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path)).expect("a file can be written");
        shown(&path)
    }

    fn certificate(&self, file: &str, names: &[&str]) -> String {
        self.write(file, &pem(names))
    }

    fn config(&self, text: &str) -> CertsConfig {
        CertsConfig::read(&self.write("tls.conf", text), &Jail::None).expect("it can be read")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn pem(names: &[&str]) -> String {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
    params.distinguished_name.push(DnType::CommonName, names.first().copied().unwrap_or("nobody"));
    let certificate = params.self_signed(&key).unwrap();
    format!("{}{}", key.serialize_pem(), certificate.pem())
}

fn entry(certs: &mut Certs, id: &str, path: &str) -> BundleEntry {
    BundleEntry { id: id.into(), path: path.into(), batch: certs.next_batch(), ..BundleEntry::default() }
}

fn plain(listeners: &[&str]) -> Certs {
    let listeners: Vec<String> = listeners.iter().map(|name| (*name).to_owned()).collect();
    begin(None, &listeners, false, &Jail::None).unwrap()
}

fn load(certs: &mut Certs, id: &str, path: &str) -> Result<(), String> {
    let entry = entry(certs, id, path);
    certs.stage(vec![entry], false, &Jail::None)
}

fn commit(certs: &mut Certs) {
    let candidate = certs.with_staged().unwrap();
    certs.accept(candidate, true);
}

fn found(certs: &Certs, listener: &str, name: Option<&str>) -> String {
    let bundle = &certs.current.as_ref().unwrap().bundle;
    match bundle.find(bundle.scope_of(listener), name) {
        NameMatch::Entry(number) => bundle.entry(number).unwrap().id,
        other => format!("{other:?}"),
    }
}

fn list(certs: &Certs) -> String {
    certs.rows().iter().map(|row| format!("{}:{} ", row.entry.id, row.standing.word())).collect()
}

#[test]
fn what_is_staged_is_used_from_the_commit_on() {
    let dir = Dir::new("stage");
    let (a, b) = (dir.certificate("a.pem", &["a.example"]), dir.certificate("b.pem", &["b.example"]));
    let mut certs = plain(&["a0"]);
    assert_eq!(found(&certs, "a0", None), "NothingLoaded");
    load(&mut certs, "a", &a).unwrap();
    assert_eq!((list(&certs).as_str(), found(&certs, "a0", None).as_str()), ("a:staged ", "NothingLoaded"));
    commit(&mut certs);
    assert_eq!((list(&certs).as_str(), found(&certs, "a0", None).as_str()), ("a:active ", "a"));
    load(&mut certs, "b", &b).unwrap();
    assert!(certs.discard("a") && !certs.discard("c"));
    assert_eq!((list(&certs).as_str(), found(&certs, "a0", Some("a.example")).as_str()), ("a:discard b:staged ", "a"));
    certs.roll_back();
    assert_eq!((list(&certs).as_str(), certs.has_staged()), ("a:active ", false));
    load(&mut certs, "b", &b).unwrap();
    certs.discard("a");
    commit(&mut certs);
    assert_eq!((list(&certs).as_str(), found(&certs, "a0", Some("b.example")).as_str()), ("b:active ", "b"));
    assert_eq!(found(&certs, "a0", Some("a.example")), "UnknownName");
}

#[test]
fn what_cannot_be_used_is_refused_with_its_path() {
    let dir = Dir::new("refused");
    let mut certs = plain(&["a0"]);
    let good = dir.certificate("good.pem", &["a.example"]);
    let text = std::fs::read_to_string(&good).unwrap();
    let mismatch = dir.write(
        "mismatch.pem",
        &format!(
            "{}{}",
            pem(&["b.example"]).split_inclusive("END PRIVATE KEY-----\n").next().unwrap(),
            text.split_inclusive("END PRIVATE KEY-----\n").nth(1).unwrap()
        ),
    );
    for (path, reason) in [
        (shown(&dir.0.join("none.pem")), "Unable to read certificate file '"),
        (shown(&dir.0), "Not a file"),
        (dir.write("empty.pem", ""), "empty.pem: the file is empty"),
        (dir.write("text.pem", "hello"), "text.pem: no certificate in it"),
        (
            dir.write("encrypted.pem", &text.replace("PRIVATE", "ENCRYPTED PRIVATE")),
            "encrypted.pem: the private key is encrypted",
        ),
        (mismatch, "mismatch.pem: Private key mismatch"),
        (dir.certificate("nobody.pem", &[]), ""),
    ] {
        let refused = load(&mut certs, "x", &path);
        match refused {
            Err(text) => assert!(text.contains(reason), "{path}: {text}"),
            Ok(()) => assert!(reason.is_empty(), "{path}"),
        }
        certs.roll_back();
    }
    let fifo = dir.0.join("fifo.pem");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
    assert!(load(&mut certs, "x", &shown(&fifo)).unwrap_err().contains("Not a file"));
    assert_eq!(certs.rows().len(), 0);
    load(&mut certs, "x", &good).unwrap();
    assert_eq!(load(&mut certs, "x", &good), Err("Certificate ID 'x' already exists.".to_owned()));
}

#[test]
fn a_name_of_another_is_refused_where_that_is_wanted() {
    let dir = Dir::new("duplicates");
    let (a, b) = (dir.certificate("a.pem", &["a.example"]), dir.certificate("b.pem", &["b.example", "a.example"]));
    let mut certs = plain(&["a0"]);
    let first = entry(&mut certs, "a", &a);
    certs.stage(vec![first], true, &Jail::None).unwrap();
    let second = entry(&mut certs, "b", &b);
    let refused = certs.stage(vec![second.clone()], true, &Jail::None).unwrap_err();
    assert!(refused.contains("'a.example' already staged"), "{refused}");
    commit(&mut certs);
    let refused = certs.stage(vec![second.clone()], true, &Jail::None).unwrap_err();
    assert!(refused.contains("'a.example' already loaded"), "{refused}");
    let second = BundleEntry { batch: certs.next_batch(), ..second };
    certs.stage(vec![second], false, &Jail::None).unwrap();
    commit(&mut certs);
    assert_eq!(found(&certs, "a0", Some("a.example")), "b");
}

#[test]
fn a_reload_takes_all_files_or_none() {
    let dir = Dir::new("reload");
    let (a, b) = (dir.certificate("a.pem", &["a.example"]), dir.certificate("b.pem", &["b.example"]));
    let mut certs = plain(&["a0"]);
    load(&mut certs, "a", &a).unwrap();
    load(&mut certs, "b", &b).unwrap();
    commit(&mut certs);
    dir.certificate("a.pem", &["new.example"]);
    dir.write("b.pem", "broken");
    assert!(certs.reread_all(&Jail::None).unwrap_err().contains("b.pem: no certificate"));
    assert_eq!((found(&certs, "a0", Some("a.example")).as_str(), certs.rows()[0].fresh.is_none()), ("a", true));
    dir.certificate("b.pem", &["b.example"]);
    certs.reread_all(&Jail::None).unwrap();
    certs.forget_fresh();
    assert_eq!(certs.rows()[0].entry.facts.names, ["a.example"]);
    certs.reread_all(&Jail::None).unwrap();
    commit(&mut certs);
    assert_eq!(
        (found(&certs, "a0", Some("new.example")).as_str(), found(&certs, "a0", Some("a.example")).as_str()),
        ("a", "UnknownName")
    );
}

#[test]
fn the_manager_after_an_upgrade_reads_all_from_the_bundle() {
    let dir = Dir::new("resume");
    let a = dir.certificate("a.pem", &["a.example", "*.a.example"]);
    let mut certs = plain(&["a0", "a1"]);
    load(&mut certs, "a", &a).unwrap();
    commit(&mut certs);
    let resumed = Certs::resume(certs.file().unwrap().try_clone().unwrap()).unwrap();
    assert_eq!((resumed.scopes.len(), resumed.scope_named("a1"), list(&resumed).as_str()), (3, Some(2), "a:active "));
    assert_eq!(resumed.rows()[0].entry, certs.rows()[0].entry);
    let mut resumed = resumed;
    load(&mut resumed, "b", &dir.certificate("b.pem", &["b.example"])).unwrap();
    commit(&mut resumed);
    assert_eq!(
        (found(&resumed, "a1", Some("x.a.example")).as_str(), found(&resumed, "a1", Some("b.example")).as_str()),
        ("a", "b")
    );
}

#[test]
fn a_configuration_becomes_scopes_and_certificates() {
    let dir = Dir::new("config");
    for name in ["own", "global", "last", "d1", "d2"] {
        dir.certificate(&format!("{name}.pem"), &[&format!("{name}.example")]);
    }
    let ca = dir.certificate("ca.crt", &["ca"]);
    let at = shown(&dir.0);
    let config = dir.config(&format!(
        "frontend = {{ host = \"localhost\" port = \"0\" pem-file = \"{at}/own.pem\" client-verify = optional client-verify-ca = \"{ca}\" }}
         frontend = {{ port = \"0\" name = \"both\" sni-nomatch-abort = on ciphers = \"CHACHA20\" }}
         pem-file = \"{at}/global.pem\" pem-file = {{ cert = \"{at}/last.pem\" name = \"the-last\" }}
         pem-dir = \"{at}\" pem-dir-glob = \"d?.pem\" workers = 4"
    ));
    assert_eq!(config.listeners().collect::<Vec<_>>(), ["tls0=localhost:0,https", "both=:0,https"]);
    assert_eq!(config.notes("F").len(), 1);
    let listeners = ["tls0", "tls0", "both", "a0"].map(str::to_owned);
    let certs = begin(Some(&config), &listeners, false, &Jail::None).unwrap();
    assert_eq!(list(&certs), "cert0:active the-last:active cert1:active cert2:active cert3:active ");
    for (listener, name, expected) in [
        ("tls0", Some("own.example"), "cert3"),
        ("tls0", Some("global.example"), "cert3"),
        ("tls0", None, "cert3"),
        ("both", Some("global.example"), "cert0"),
        ("both", Some("d2.example"), "cert2"),
        ("both", Some("own.example"), "UnknownName"),
        ("both", None, "the-last"),
        ("a0", Some("last.example"), "the-last"),
        ("a0", Some("nobody"), "UnknownName"),
    ] {
        assert_eq!(found(&certs, listener, name), expected, "{listener} {name:?}");
    }
    assert_eq!(
        (certs.scopes[1].overrides.client_ca, certs.scopes[2].overrides.ciphers.as_deref()),
        (Some(0), Some(&[2, 3][..]))
    );
}

#[test]
fn a_configuration_that_makes_no_sense_is_refused() {
    let dir = Dir::new("nonsense");
    let good = dir.certificate("good.pem", &["a.example"]);
    let refused = |text: &str| {
        let config = dir.config(text);
        let names: Vec<String> = config.listeners().map(|_| "tls0".to_owned()).collect();
        begin(Some(&config), &names, true, &Jail::None).expect_err(text)
    };
    let with = |rest: &str| refused(&format!("frontend = \"*:0\"\npem-file = \"{good}\"\n{rest}"));
    for (rest, reason) in [
        ("ciphers = \"()#/\"", "Invalid cipher list"),
        ("ciphersuites = \"$#$\"", "Invalid ciphersuites"),
        ("tls-protos = SSLv3", "TLSv1.2"),
        ("pem-file = \"/nowhere\"", "/nowhere"),
        ("pem-dir = \"/nowhere\"", "pem-dir /nowhere"),
        ("client-verify = required", "client-verify requires client-verify-ca"),
        ("client-verify-ca = \"/nowhere\"", "client-verify-ca"),
    ] {
        let text = with(rest);
        assert!(text.contains(reason), "{rest}: {text}");
    }
    assert!(with(&format!("pem-file = \"{good}\"")).contains("already staged"));
    assert!(refused(&format!("pem-file = \"{good}\"")).contains("No frontend listen endpoint definitions found"));
    let named = format!("pem-file = {{ cert = \"{good}\" name = \"x\" }}");
    assert!(refused(&format!("frontend = \"*:0\" {named} {named}")).contains("Certificate ID 'x' already exists"));
    let bad = CertsConfig::read(&dir.write("bad.conf", "nonsense"), &Jail::None).unwrap_err().to_string();
    assert!(bad.contains("bad.conf: Parsing error in line 1"), "{bad}");
    assert!(
        CertsConfig::read(&dir.write("empty.conf", ""), &Jail::None).unwrap_err().to_string().contains("Parsing error")
    );
    assert!(
        CertsConfig::read("/nowhere", &Jail::None)
            .unwrap_err()
            .to_string()
            .contains("-A: Cannot open '/nowhere': No such file")
    );
}

/// Looks until something comes of it, three times at most; what came.
fn looked(certs: &mut Certs) -> Vec<watch::Change> {
    (0..3).flat_map(|_| certs.look(watch::STEP, &Jail::None)).collect()
}

#[test]
fn a_file_that_changes_is_read_and_a_broken_one_changes_nothing() {
    let dir = Dir::new("watch");
    let (a, b) = (dir.certificate("a.pem", &["a.example"]), dir.certificate("b.pem", &["b.example"]));
    let mut certs = plain(&["a0"]);
    load(&mut certs, "a", &a).unwrap();
    load(&mut certs, "b", &b).unwrap();
    assert_eq!(looked(&mut certs), [], "what is staged isn't watched");
    commit(&mut certs);
    assert_eq!(looked(&mut certs), []);
    dir.certificate("a.pem", &["new.example"]);
    assert_eq!(certs.look(watch::STEP, &Jail::None), [], "it may be still written to");
    assert_eq!(certs.look(watch::STEP, &Jail::None), [watch::Change::Read { id: "a".into() }]);
    let candidate = certs.without_staged().unwrap();
    certs.accept(candidate, false);
    assert_eq!(found(&certs, "a0", Some("new.example")), "a");
    dir.write("a.pem", "broken");
    let changes = looked(&mut certs);
    assert!(
        matches!(&changes[..], [watch::Change::Refused { id, reason }] if id == "a" && reason.contains("a.pem: no cert")),
        "{changes:?}"
    );
    assert!(certs.rows()[0].trouble.is_some());
    assert_eq!((found(&certs, "a0", Some("new.example")).as_str(), looked(&mut certs).len()), ("a", 0));
    std::fs::remove_file(&b).unwrap();
    assert!(matches!(&looked(&mut certs)[..], [watch::Change::Refused { .. }]));
    dir.certificate("a.pem", &["good.example"]);
    assert_eq!(looked(&mut certs), [watch::Change::Read { id: "a".into() }]);
    assert_eq!(certs.rows()[0].trouble, None);
}

#[test]
fn what_is_staged_stays_so_while_a_file_changes() {
    let dir = Dir::new("beside");
    let (a, b) = (dir.certificate("a.pem", &["a.example"]), dir.certificate("b.pem", &["b.example"]));
    let mut certs = plain(&["a0"]);
    load(&mut certs, "a", &a).unwrap();
    commit(&mut certs);
    load(&mut certs, "b", &b).unwrap();
    certs.discard("a");
    dir.certificate("a.pem", &["new.example"]);
    assert_eq!(looked(&mut certs).len(), 1);
    let candidate = certs.without_staged().unwrap();
    certs.accept(candidate, false);
    assert_eq!(list(&certs), "a:discard b:staged ");
    assert_eq!(
        (found(&certs, "a0", Some("new.example")).as_str(), found(&certs, "a0", Some("b.example")).as_str()),
        ("a", "UnknownName")
    );
    certs.roll_back();
    assert_eq!(list(&certs), "a:active ");
}

#[test]
fn a_listener_knows_whether_its_certificates_ask_the_same_of_clients() {
    let dir = Dir::new("detour");
    let (open, closed) = (dir.certificate("open.pem", &["open"]), dir.certificate("closed.pem", &["closed"]));
    let ca = dir.certificate("ca.crt", &["ca"]);
    let asks = format!("pem-file = {{ cert = \"{closed}\" client-verify = required client-verify-ca = \"{ca}\" }}");
    let both = format!("pem-file = \"{open}\" {asks}");
    for (text, expected) in [
        (format!("frontend = {{ port = \"0\" {both} }}"), &[true][..]),
        (format!("frontend = {{ port = \"0\" }} {both}"), &[true]),
        (format!("frontend = {{ port = \"0\" match-global-certs = on pem-file = \"{open}\" }} {asks}"), &[true]),
        (
            format!("frontend = {{ port = \"0\" {asks} }} frontend = {{ port = \"0\" pem-file = \"{open}\" }}"),
            &[false, false],
        ),
        (format!("frontend = {{ port = \"0\" {asks} {asks} }} pem-file = \"{open}\""), &[false]),
    ] {
        let config = dir.config(&text);
        let names: Vec<String> = config.listeners().map(|l| l.split('=').next().unwrap().to_owned()).collect();
        let certs = begin(Some(&config), &names, false, &Jail::None).unwrap();
        let scopes = certs.current.as_ref().unwrap().bundle.scopes();
        assert_eq!(scopes[1..].iter().map(|scope| scope.differs).collect::<Vec<_>>(), expected, "{text}");
    }
}

#[test]
fn each_frontend_has_a_name_of_its_own() {
    let dir = Dir::new("names");
    let twice =
        dir.write("twice.conf", "frontend = { port = \"1\" name = \"x\" }\n\nfrontend = { port = \"2\" name = \"x\" }");
    let refused = CertsConfig::read(&twice, &Jail::None).unwrap_err().to_string();
    assert!(refused.contains("twice.conf: lines 1 and 3: two frontends are named 'x'"), "{refused}");
    let config = dir.config("frontend = \"*:1\" frontend = { port = \"2\" name = \"tls0\" } frontend = \"*:3\"");
    assert_eq!(config.listeners().collect::<Vec<_>>(), ["tls1=:1,https", "tls0=:2,https", "tls2=:3,https"]);
}

#[test]
fn a_renewal_that_could_not_be_put_in_place_is_tried_again() {
    let dir = Dir::new("regret");
    let a = dir.certificate("a.pem", &["a.example"]);
    let mut certs = plain(&["a0"]);
    load(&mut certs, "a", &a).unwrap();
    commit(&mut certs);
    dir.certificate("a.pem", &["new.example"]);
    assert_eq!(looked(&mut certs).len(), 1);
    for _ in 0..3 {
        certs.regret("the worker is gone");
        assert_eq!(certs.rows()[0].trouble.as_deref(), Some("the worker is gone"));
        assert_eq!(looked(&mut certs), [], "not at once");
        let looks = (0..40).position(|_| !certs.look(watch::STEP, &Jail::None).is_empty());
        assert!(looks.is_some(), "it is never tried again");
    }
    let candidate = certs.without_staged().unwrap();
    certs.accept(candidate, false);
    assert_eq!((found(&certs, "a0", Some("new.example")).as_str(), looked(&mut certs).len()), ("a", 0));
    assert_eq!(certs.rows()[0].trouble, None);
}

#[test]
fn what_changed_before_an_upgrade_is_found_after_it() {
    let dir = Dir::new("unsure");
    let names = ["same", "new", "broken", "gone"];
    let mut certs = plain(&["a0"]);
    for name in names {
        let path = dir.certificate(&format!("{name}.pem"), &[&format!("{name}.example")]);
        load(&mut certs, name, &path).unwrap();
    }
    commit(&mut certs);
    dir.certificate("new.pem", &["newer.example"]);
    dir.write("broken.pem", "broken");
    std::fs::remove_file(dir.0.join("gone.pem")).unwrap();
    let mut resumed = Certs::resume(certs.file().unwrap().try_clone().unwrap()).unwrap();
    let mut changed: Vec<String> = looked(&mut resumed)
        .into_iter()
        .map(|change| match change {
            watch::Change::Read { id } => format!("read {id}"),
            watch::Change::Refused { id, .. } => format!("refused {id}"),
        })
        .collect();
    changed.sort();
    assert_eq!(changed, ["read new", "refused broken", "refused gone"]);
    let trouble: Vec<bool> = resumed.rows().iter().map(|row| row.trouble.is_some()).collect();
    assert_eq!((trouble, looked(&mut resumed).len()), (vec![false, false, true, true], 0));
}

/// A CA, a client of its, and another client that it has revoked.
fn clients() -> (String, String) {
    use rcgen::{BasicConstraints, CertifiedIssuer, IsCa, KeyUsagePurpose, SerialNumber, date_time_ymd};
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "Clients");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let revoked = rcgen::RevokedCertParams {
        serial_number: SerialNumber::from(7_u64),
        revocation_time: date_time_ymd(2026, 1, 1),
        reason_code: None,
        invalidity_date: None,
    };
    let list = rcgen::CertificateRevocationListParams {
        this_update: date_time_ymd(2026, 1, 1),
        next_update: date_time_ymd(2126, 1, 1),
        crl_number: SerialNumber::from(1_u64),
        issuing_distribution_point: None,
        revoked_certs: vec![revoked],
        key_identifier_method: rcgen::KeyIdMethod::Sha256,
    };
    (ca.pem(), list.signed_by(&ca).unwrap().pem().unwrap())
}

#[test]
fn many_are_looked_at_as_often_as_few() {
    let dir = Dir::new("many");
    let (a, z) = (dir.certificate("a.pem", &["a.example"]), dir.certificate("z.pem", &["z.example"]));
    let mut certs = plain(&["a0"]);
    load(&mut certs, "z", &z).unwrap();
    load(&mut certs, "a", &a).unwrap();
    commit(&mut certs);
    let one = |n| Row {
        place: Some(1),
        watched: certs.rows[1].watched,
        ..Row::of(BundleEntry { id: n, ..certs.rows[1].entry.clone() })
    };
    let others: Vec<Row> = (0..4000).map(|n: u32| one(format!("a{n}"))).collect();
    certs.rows_mut().extend(others);
    dir.certificate("z.pem", &["new.example"]);
    let looks = (1..).find(|_| !certs.look(watch::STEP, &Jail::None).is_empty());
    // Two are needed. A machine with other things to do may need some more.
    assert!(looks < Some(8), "{looks:?}");
}

#[test]
fn an_id_is_one_word() {
    let dir = Dir::new("ids");
    let a = dir.certificate("a.pem", &["a.example"]);
    let mut certs = plain(&["a0"]);
    for id in ["", "x y", "x\n default\tshop\tactive\tevil", "\u{1b}[31m"] {
        let refused = load(&mut certs, id, &a).unwrap_err();
        assert!(refused.contains("Invalid certificate ID") && !refused.contains(char::is_control), "{refused:?}");
    }
    assert_eq!(list(&certs), "");
    let config = CertsConfig::read(&dir.write("tls.conf", "frontend = { port = \"1\" name = \"a b\" }"), &Jail::None);
    assert!(config.is_err());
}

#[test]
fn files_about_clients_are_watched() {
    let dir = Dir::new("lists");
    let ((ca, crl), (other, other_crl)) = (clients(), clients());
    let (a, authorities) = (dir.certificate("a.pem", &["a.example"]), dir.write("ca.pem", &ca));
    let revoked = dir.write("crl.pem", &crl);
    let config = dir.config(&format!(
        "frontend = \"*:1\" pem-file = \"{a}\" client-verify = required client-verify-ca = \"{authorities}\" client-verify-crl = \"{revoked}\""
    ));
    let mut certs = begin(Some(&config), &["tls0".to_owned()], false, &Jail::None).unwrap();
    let used = |certs: &Certs| certs.current.as_ref().unwrap().bundle.lists().unwrap();
    let wrong = |certs: &Certs| certs.trouble(&certs.rows()[0], 0);
    let (first, before) = (used(&certs), std::time::Duration::from_secs(1));
    assert_eq!((first.len(), first[0].ders.len(), first[1].ders.len()), (2, 1, 1));
    assert_eq!(looked(&mut certs), []);
    for (name, text, key) in [("ca.pem", &other, "client-verify-ca"), ("crl.pem", &other_crl, "client-verify-crl")] {
        dir.write(name, text);
        let changes: Vec<_> = (0..4).flat_map(|_| certs.look(before, &Jail::None)).collect();
        let id = format!("{key} {}", dir.0.join(name).display());
        assert_eq!(changes, [watch::Change::Read { id: id.clone() }]);
        // The worker can't be given it: it is tried again.
        certs.regret("the worker is gone");
        assert_eq!((used(&certs), wrong(&certs).as_deref()), (used(&certs), Some("the worker is gone")));
        let again = (0..40).find_map(|_| certs.look(before, &Jail::None).pop());
        assert_eq!(again, Some(watch::Change::Read { id }));
        let candidate = certs.without_staged().unwrap();
        certs.accept(candidate, false);
        assert_eq!(wrong(&certs), None);
        dir.write(name, "broken");
        let changes: Vec<_> = (0..4).flat_map(|_| certs.look(before, &Jail::None)).collect();
        assert!(
            matches!(&changes[..], [watch::Change::Refused { reason, .. }] if reason.contains(name)),
            "{changes:?}"
        );
        assert!(wrong(&certs).is_some_and(|text| text.contains(name)));
        assert!(certs.reread_all(&Jail::None).is_err());
        certs.forget_fresh();
        dir.write(name, text);
        (0..4).for_each(|_| drop(certs.look(before, &Jail::None)));
        assert_eq!(wrong(&certs), None);
    }
    let last = used(&certs);
    assert!(first[0] != last[0] && first[1] != last[1]);
    // After an upgrade they are read again.
    dir.write("ca.pem", &ca);
    let mut resumed = Certs::resume(certs.file().unwrap().try_clone().unwrap()).unwrap();
    let changes: Vec<_> = (0..4).flat_map(|_| resumed.look(before, &Jail::None)).collect();
    assert_eq!(changes.len(), 1, "{changes:?}");
}

#[test]
fn a_draft_stays_as_it_is_in_another_thread() {
    let dir = Dir::new("draft");
    let a = dir.certificate("a.pem", &["a.example"]);
    let mut certs = plain(&["a0"]);
    load(&mut certs, "a", &a).unwrap();
    commit(&mut certs);
    dir.certificate("a.pem", &["new.example"]);
    certs.reread_all(&Jail::None).unwrap();
    let draft = CertsDraft::of(&certs);
    let taken = draft.another();
    let made = sys::process::beside(move || taken.without_staged()).unwrap();
    load(&mut certs, "b", &dir.certificate("b.pem", &["b.example"])).unwrap();
    assert!(!draft.is_of(&certs), "something else was staged");
    let candidate = made.recv().unwrap().unwrap();
    assert_eq!((candidate.current.bundle.len(), certs.rows().len()), (1, 2));
    let draft = CertsDraft::of(&certs);
    let candidate = draft.without_staged().unwrap();
    assert!(draft.is_of(&certs));
    drop(draft);
    certs.accept(candidate, false);
    assert_eq!(found(&certs, "a0", Some("new.example")), "a");
}

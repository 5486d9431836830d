// SPDX-License-Identifier: BSD-2-Clause
//! Files that hitch takes, and mistakes in them.

use proptest::prelude::*;

use super::*;

fn refused(text: &str, line: usize, reason: &str) {
    let error = read(text).expect_err(text);
    assert!(error.line == line && error.reason.contains(reason), "{text:?}: {error}");
}

#[test]
fn hitchs_own_example_is_read() {
    let text = r#"
# Run 'man hitch.conf' for a description of all options.
frontend = {
    host = "*"
    port = "443"
}
backend = "[127.0.0.1]:6086"    # 6086 is the default Varnish PROXY port.
workers = 4                     # number of CPU cores
daemon = on
user = "hitch"
group = "hitch"
# alpn-protos = "h2, http/1.1"
write-proxy-v2 = on             # Write PROXY header
"#;
    let file = read(text).unwrap();
    assert_eq!((file.frontends.len(), file.frontends[0].endpoint.as_str()), (1, ":443"));
    let ignored: Vec<&str> = file.ignored.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(ignored, ["backend", "workers", "daemon", "user", "group", "write-proxy-v2"]);
    assert_eq!(file.ignored[0].1, 7);
}

#[test]
fn all_keys_have_their_place() {
    let text = r#"
frontend = { host = "::1" port = "8443" name = "main" match-global-certs = on sni-nomatch-abort = "off"
  pem-file = { cert = "a.pem" private-key = "a.key" name = "a" dhparam = "dh.pem" ocsp-resp-file = "a.ocsp"
    client-verify = required client-verify-ca = "ca.pem" client-verify-crl = "crl.pem" ciphers = "HIGH" }
  tls-protos = TLSv1.2 TLSv1.3
  prefer-server-ciphers = true }
frontend = "[*]:443+b.pem"
frontend = "localhost:0"
frontend = { host = "/run/x.sock" }
pem-file = "c.pem" pem-file = ""
ciphers = "ECDHE+AESGCM" ciphersuites = "" ecdh-curve = "X25519:prime256v1"
alpn-protos = "h2, http/1.1" tls-protos = TLSv1.1,TLSv1.2
sni-nomatch-abort = on pem-dir = "/etc/certs" pem-dir-glob = "*.pem" ticket-keys-file = "/etc/keys"
acme = { name = "a.example" "b.example" mail = "x@a.example" }
"#;
    let file = read(text).unwrap();
    let main = &file.frontends[0];
    assert_eq!((main.name.as_deref(), main.endpoint.as_str(), main.line), (Some("main"), "[::1]:8443", 2));
    assert_eq!(
        (main.matches_global, main.aborts_unknown, main.said.prefers_own_order),
        (Some(true), Some(false), Some(true))
    );
    assert_eq!(main.said.protocols, Some(vec![3, 4]));
    let own = &main.certificates[0];
    assert_eq!(
        (own.path.as_str(), own.key.as_deref(), own.ocsp.as_deref(), own.id.as_deref()),
        ("a.pem", Some("a.key"), Some("a.ocsp"), Some("a"))
    );
    assert_eq!(own.said.client_crl.as_deref(), Some("crl.pem"));
    assert_eq!((own.said.client_verify, own.said.client_ca.as_deref()), (Some(ClientVerify::Required), Some("ca.pem")));
    let endpoints: Vec<&str> = file.frontends.iter().map(|f| f.endpoint.as_str()).collect();
    assert_eq!(endpoints, ["[::1]:8443", ":443", "localhost:0", "/run/x.sock"]);
    assert_eq!(file.frontends[1].certificates[0].path, "b.pem");
    assert_eq!(
        (file.certificates.len(), file.aborts_unknown, file.said.ciphersuites.as_deref()),
        (1, Some(true), None)
    );
    assert_eq!(file.said.protocols, Some(vec![2, 3]));
    assert_eq!(file.acme[0].pairs[0], ("name".into(), "a.example b.example".into(), 14));
    let overrides = file.said.overrides(|_, _| Ok(7)).unwrap();
    assert_eq!(overrides.versions, Some(Versions { tls12: true, tls13: false }));
    assert_eq!(
        (overrides.ciphers, overrides.groups, overrides.alpn),
        (Some(vec![0, 1, 4, 5]), Some(vec![0, 1]), Some(vec![1, 0]))
    );
}

#[test]
fn what_makes_no_sense_is_refused_with_its_line() {
    refused("", 1, "says nothing");
    refused("# only\n# comments\n", 2, "says nothing");
    refused("frontend = {\n host = \"a\"\n", 1, "without its end");
    refused("frontend = { host = \"a\" }", 1, "needs a port");
    refused("frontend = { host = \"[::1]\" port = \"443\" }", 1, "no brackets; write host = \"::1\"");
    refused("\npem-fiel = \"a\"", 2, "no 'pem-fiel'");
    refused("frontend = {\n\n workers = 3 port = \"1\" }", 3, "no 'workers'");
    refused("ciphers", 1, "isn't followed by '='");
    refused("ciphers =", 1, "no value");
    refused("ciphers = \"a\" \"b\"", 1, "one value");
    refused("= 1", 1, "where a key should stand");
    refused("a = { b = { c = { d = 1 } } }", 1, "too deep");
    refused("sni-nomatch-abort = perhaps", 1, "on or off");
    refused("tls-protos = TLSv1.4", 1, "no version");
    refused("client-verify = always", 1, "none, optional or required");
    refused("pem-file = { private-key = \"a\" }", 1, "needs its cert");
    refused("frontend = \"*:443\" }", 1, "where a key should stand");
    refused("acme = \"a.example\"", 1, "a block in braces");
}

#[test]
fn a_file_that_is_none_is_not_repeated() {
    let key = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0";
    for text in [
        key.to_owned(),
        format!("{key} = x"),
        format!("pem-file {key}"),
        format!("\"{key}\""),
        format!("a = b {{ {key} }}"),
    ] {
        let error = read(&text).unwrap_err().to_string();
        assert!(!error.contains("c2Vj"), "{error}");
    }
    let error = read(&format!("{key}==\n")).unwrap_err();
    assert_eq!(error.to_string(), "Parsing error in line 1: a word of 64 letters where a key should stand");
}

#[test]
fn what_hitch_has_in_a_frontend_may_stand_there() {
    let file = read("frontend = { host = \"*\" port = \"443\"\n ssl = off\n tls = on ciphers = \"HIGH\" }").unwrap();
    assert_eq!(file.ignored, [("ssl".to_owned(), 2), ("tls".to_owned(), 3)]);
    assert!(read("frontend = { port = \"443\" tls = perhaps }").is_err());
}

#[test]
fn answers_are_where_hitch_keeps_them() {
    assert_eq!(ocsp_path("/var/lib/hitch/", "/tmp/tlsw/a.pem"), "/var/lib/hitch/0817c18e02a93f0b63c580725634d2d8");
    assert_eq!(read("ocsp-dir = \"/o\"").unwrap().ocsp_dir.as_deref(), Some("/o"));
    assert_eq!(read("ocsp-dir = \"\"").unwrap().ocsp_dir, None);
}

#[test]
fn lists_that_leave_nothing_are_refused() {
    let said = |said: HitchSettings| said.overrides(|_, _| Ok(0)).unwrap_err();
    assert!(
        said(HitchSettings { ciphers: Some("()#/".into()), ..HitchSettings::default() })
            .starts_with("Invalid cipher list")
    );
    assert!(
        said(HitchSettings { ciphersuites: Some("$#$".into()), ..HitchSettings::default() })
            .starts_with("Invalid ciphersuites")
    );
    assert!(said(HitchSettings { protocols: Some(vec![0, 1]), ..HitchSettings::default() }).contains("TLSv1.2"));
    assert!(
        said(HitchSettings { groups: Some("P-521".into()), ..HitchSettings::default() })
            .contains("Failed to set groups")
    );
}

/// A case of `recorded/verdicts.txt`: its name, whether hitch 1.7.2 takes the file, the file.
fn verdicts() -> Vec<(&'static str, bool, String)> {
    let lines = include_str!("recorded/verdicts.txt").lines();
    lines
        .map(|line| {
            let [name, verdict, escaped] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let (mut bytes, mut rest) = (Vec::new(), escaped.as_bytes());
            while let [first, behind @ ..] = rest {
                let (byte, used) = match behind {
                    [b'n', ..] if *first == b'\\' => (b'\n', 1),
                    [b'r', ..] if *first == b'\\' => (b'\r', 1),
                    [b't', ..] if *first == b'\\' => (b'\t', 1),
                    [b'x', ..] if *first == b'\\' => {
                        let digits = std::str::from_utf8(&behind[1..3]).unwrap();
                        (u8::from_str_radix(digits, 16).unwrap(), 3)
                    }
                    [other, ..] if *first == b'\\' => (*other, 1),
                    _ => (*first, 0),
                };
                bytes.push(byte);
                rest = &behind[used..];
            }
            (name, verdict == "ok", String::from_utf8_lossy(&bytes).into_owned())
        })
        .collect()
}

/// Cases judged otherwise on purpose, with the reason.
const OTHERWISE: [(&str, bool, &str); 8] = [
    ("auto", true, "newer hitches take it"),
    ("frontend no brackets", true, "Varnish 9 takes a listener of -a"),
    ("frontend port only", true, "Varnish 9 takes a listener of -a"),
    ("ecdh in block", true, "ours"),
    ("alpn in block", true, "ours"),
    ("host with brackets", false, "hitch takes the file and can't listen"),
    ("setting in a comment at the end", false, "hitch reads a comment as a setting"),
    ("escaped quote", false, "hitch cuts the value"),
];

#[test]
fn files_are_judged_as_hitch_judges_them() {
    let all = verdicts();
    assert!(all.len() > 100 && all.iter().filter(|case| case.1).count() > 45);
    for (name, is_taken, text) in &all {
        let want = OTHERWISE.iter().find(|case| case.0 == *name).map_or(*is_taken, |case| case.1);
        let got = read(text);
        assert_eq!(got.is_ok(), want, "{name}: {text:?}: {got:?}");
        let Ok(file) = got else { continue };
        let certificates = file.frontends.iter().flat_map(|f| &f.certificates).chain(&file.certificates);
        assert!(certificates.into_iter().all(|pem| pem.path == "site.pem"), "{name}: {file:?}");
        assert!(!file.frontends.is_empty(), "{name}: {file:?}");
    }
    assert!(OTHERWISE.iter().all(|(name, want, _)| all.iter().any(|case| case.0 == *name && case.1 != *want)));
}

#[test]
fn files_mean_what_they_mean_to_hitch() {
    let all = verdicts();
    let file = |name: &str| read(&all.iter().find(|case| case.0 == name).expect(name).2).expect(name);
    let ciphers = |name| file(name).said.ciphers.unwrap_or_default();
    assert_eq!(ciphers("unquoted word"), "HIGH");
    assert_eq!(ciphers("comment after a word"), "HIGH");
    assert_eq!(ciphers("quote without end"), "HIGH");
    assert_eq!(ciphers("escape at end"), "HIGH");
    assert_eq!(ciphers("empty after"), "HIGH", "an empty string says nothing");
    assert_eq!(ciphers("twice"), "ECDHE+AESGCM");
    assert_eq!(ciphers("empty string"), "");
    for name in ["commas", "protos glued", "protos plus"] {
        assert_eq!(file(name).said.protocols, Some(vec![3, 4]), "{name}");
    }
    let words = file("bool words");
    assert_eq!((words.said.prefers_own_order, words.aborts_unknown), (Some(true), Some(true)));
    assert_eq!(file("same port two hosts").frontends.len(), 2);
    assert_eq!(file("empty frontend string").frontends.len(), 1);
    assert_eq!(file("comma block").frontends[0].endpoint, ":0");
    assert_eq!(file("frontend with cert").frontends[0].certificates.len(), 1);
    assert_eq!(file("no host").frontends[0].endpoint, ":8499");
    // A backslash stands for itself.
    assert_eq!(read(r#"ciphers = "a\\b" frontend = "[*]:1""#).unwrap().said.ciphers.as_deref(), Some(r"a\\b"));
}

#[test]
fn what_separates_words_is_named_where_it_hurts() {
    refused("pem-file = /etc/ssl/a.pem\n", 1, "in quotes; outside of quotes '/' only separates words");
    refused("prefer_server_ciphers = on\n", 1, "isn't followed by '='; outside of quotes '_' only separates words");
    refused("pem-file = \"/a.pem\nciphers = HIGH\n", 1, "'pem-file' has one value, in quotes; a quote without its end");
    refused("frontend = { port = 443 }\n", 1, "write port = \"443\"");
    refused("pem-file = \"on\"\n", 1, "it is a switch");
    refused("tls-protos = \"TLSv1.2\"\n", 1, "without quotes");
    refused("tls = on\ntls-protos = TLSv1.3\n", 2, "'tls-protos' after the 'tls' of line 1");
    refused("frontend = \"[*]:1\"\nfrontend = { port = \"1\" }\n", 2, ":1 is the frontend of line 1, too");
    refused("ciphers = HIGH\n# the end", 2, "a comment without a newline at its end");
    refused("pem-file = \"caf\u{fffd}.pem\"\n", 1, "isn't UTF-8");
    refused("acme = { name = a.example }\n", 1, "'name' is in quotes; outside of quotes '.' only separates words");
}

#[test]
fn a_piece_of_a_key_is_not_repeated() {
    let error = read("c2VjcmV0/LXNlY3JldC1z+ZWNyZXQ=\n").unwrap_err().to_string();
    assert!(!error.contains("c2Vj") && !error.contains("LXNl"), "{error}");
}

proptest! {
    #[test]
    fn any_text_is_answered(text in "([a-z-]{1,8}|[={}\"#\\\\\n ,]|frontend|pem-file|port|cert){0,40}") {
        let _ = read(&text);
    }

    #[test]
    fn any_string_comes_through(path in "[^\"\\\\\u{0}\u{fffd}]{3,40}#") {
        let text = format!("pem-file = \"{path}\"");
        prop_assert_eq!(&read(&text).unwrap().certificates[0].path, &path);
    }
}

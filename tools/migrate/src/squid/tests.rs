// SPDX-License-Identifier: BSD-2-Clause
//! Configurations of squid and what comes of them.

use super::rule::{Rule, first_match};
use super::units::Networks;
use super::*;
use crate::source::Given;

fn of(text: &'static str) -> Migrated {
    let files: &'static [(&str, &str)] = Box::leak(Box::new([("s.conf", text)]));
    crate::tests::compiled(migrate("s.conf", &Given(files)).expect("squid's language"))
}

#[test]
fn the_port_of_a_peer() {
    let peer = |port: &str| notes(&format!("http_port 80 accel\ncache_peer 10.0.0.1 parent {port} 0 originserver\n")).1;
    for port in ["80]", "0", "65536", "frob"] {
        let refused = format!("{port:?} is no port: write its number, from 1 to 65535");
        assert!(peer(port).iter().any(|note| note.contains(&refused)), "{port}: {:#?}", peer(port));
    }
    for port in ["80", "http", "65535"] {
        assert!(!peer(port).iter().any(|note| note.contains("no port")), "{port}");
    }
}

#[test]
fn an_accelerator() {
    let migrated = of(
        "http_port 80 accel defaultsite=www.a.org vhost\ncache_peer 10.0.0.1 parent 8080 0 no-query originserver name=app\nacl ours dstdomain .a.org\ncache_peer_access app allow ours\nhttp_access allow ours\nhttp_access deny all\ncache_mem 256 MB\n",
    );
    assert_eq!(migrated.arguments, ["-a", ":80", "-s", "malloc,256m", "-p", "feature=+rfc9111"]);
    for wanted in [
        "backend app {\n\t.host = \"10.0.0.1\";\n\t.port = \"8080\";\n}",
        "if (!req.http.Host) { set req.http.Host = \"www.a.org\"; }",
        "if (req.http.Squid-Host ~ \"(?i)^((.+\\.)?a\\.org)$\") {\n\t} else {\n\t\treturn (synth(403));\n\t}",
        "set req.backend_hint = app;",
    ] {
        assert!(migrated.vcl.contains(wanted), "{wanted}:\n{}", migrated.vcl);
    }
    assert_eq!(migrated.notes, []);
}

/// squid: "the default is the opposite of the last line in the list".
#[test]
fn the_first_match_decides() {
    let rule = |word: &str, condition: &str| Rule { is_allowed: word == "allow", condition: condition.to_owned() };
    for (rules, expect) in [
        (vec![], "true"),
        (vec![rule("allow", "a"), rule("deny", "true")], "a"),
        (vec![rule("allow", "a")], "a"),
        (vec![rule("deny", "b")], "!(b)"),
        (vec![rule("deny", "b"), rule("allow", "true")], "!(b)"),
        (vec![rule("allow", "a"), rule("deny", "b"), rule("allow", "c")], "a || !(b) && c"),
        (vec![rule("deny", "true"), rule("allow", "a")], "false"),
    ] {
        assert_eq!(first_match(&rules, true), expect);
    }
}

#[test]
fn an_acl_that_is_not_known_allows_nothing() {
    let migrated = of(
        "acl t time 9:00-17:00\nacl a dstdomain a.org\nhttp_access deny a t\nhttp_access allow t\nhttp_access allow a\nhttp_port 80 accel\n",
    );
    let host = "req.http.Squid-Host ~ \"(?i)^(a\\.org)$\"";
    let wanted = format!(
        "if ({host}) {{\n\t\treturn (synth(403));\n\t}} else if ({host}) {{\n\t}} else {{\n\t\treturn (synth(403));"
    );
    assert!(migrated.vcl.contains(&wanted), "{}", migrated.vcl);
    assert_eq!(migrated.notes.iter().filter(|note| note.to_string().contains(": refused: ")).count(), 3);
}

/// squid's last rule is the opposite of the last line, though that line's acl isn't known here.
#[test]
fn a_line_that_allows_nothing_is_still_the_last() {
    let vcl = |lines: &str| {
        let text = format!(
            "http_port 80 accel\ncache_peer 10.0.0.1 parent 80 0 originserver name=p\nacl b src 192.0.2.1\nacl t note vpn yes\n{lines}"
        );
        of(Box::leak(text.into_boxed_str())).vcl
    };
    let denied = vcl("http_access deny b\nhttp_access allow t\n");
    assert!(
        denied.contains("if (client.ip ~ b) {\n\t\treturn (synth(403));\n\t} else {\n\t\treturn (synth(403));"),
        "{denied}"
    );
    let passed = vcl("http_access allow all\ncache allow t\n");
    assert!(passed.contains("{ return (pass); }\n\treturn (pass);"), "{passed}");
    let missed = vcl("http_access allow all\nmiss_access allow t\n");
    assert!(missed.contains("return (synth(504)); }\n\treturn (synth(403));\n"), "{missed}");
    let peer = vcl("http_access allow all\ncache_peer_access p allow t\n");
    assert!(!peer.contains("set req.backend_hint = p;") && peer.contains("return (synth(502));"), "{peer}");
}

/// Seen beside squid 5.7: a hit needs no peer; a miss gets 504 by only-if-cached, 403 by miss_access, 502 without a peer, in this order.
#[test]
fn only_a_miss_needs_a_peer() {
    let vcl = vcl("acl b src 192.0.2.1\nmiss_access deny b\nalways_direct allow b\ncache_peer_access p allow b\n");
    let (recv, forward) = vcl.split_once("sub squid_forward {").expect("a subroutine for misses");
    assert!(!recv.contains("(synth(50") && !recv.contains("backend_hint"), "{vcl}");
    let statuses: Vec<&str> = forward.split("return (synth(").skip(1).map(|rest| &rest[..3]).collect();
    assert_eq!(statuses, ["504", "403", "503", "502"], "{vcl}");
    assert_eq!(vcl.matches("\tcall squid_forward;").count(), 2, "{vcl}");
}

/// Seen beside squid: acls read the URL decoded, and Host without a port and dots at its end.
#[test]
fn acls_read_what_squid_reads() {
    let migrated = of(
        "http_port 80 accel\nacl a urlpath_regex ^/admin\nacl b dstdomain b.org\nacl c url_regex ^https://\nhttp_access deny a\nhttp_access deny b\nhttp_access deny c\nhttp_access allow all\n",
    );
    for wanted in [
        "blob.transcode(decoding=URL, encoded=req.url);",
        "if (req.http.Squid-Path ~ \"(^/admin)\") {",
        "if (req.http.Squid-Host ~ \"(?i)^(b\\.org)$\") {",
        "if (req.http.Squid-Url ~ \"(^https://)\") {",
        "unset bereq.http.Squid-Host;",
    ] {
        assert!(migrated.vcl.contains(wanted), "{wanted}:\n{}", migrated.vcl);
    }
}

#[test]
fn a_proxy_is_refused() {
    let migrated = of("http_port 3128\ndelay_pools 1\nnonsense 1\n");
    let said: Vec<String> = migrated.notes.iter().map(|note| format!("{} {}", note.place, note.directive)).collect();
    assert_eq!(said, ["s.conf:1 http_port", "s.conf:2 delay_pools", "s.conf:3 nonsense"]);
}

#[test]
fn refresh_patterns_are_minutes_and_shares() {
    let migrated = of("refresh_pattern -i \\.png$ 10 20% 60\nrefresh_pattern . 0 20% 4320\n");
    for wanted in ["~ \"(?i)\\.png$\"", "set beresp.ttl = 600s - beresp.age;", "* 0.2", "set beresp.ttl = 3600s;"] {
        assert!(migrated.vcl.contains(wanted), "{wanted}:\n{}", migrated.vcl);
    }
}

#[test]
fn networks_and_ranges() {
    let of = |text| Networks::of(text).map(|all| all.entries.join(" "));
    assert_eq!(of("10.0.0.0/255.255.255.0").as_deref(), Some("\"10.0.0.0\"/24"));
    assert_eq!(
        of("10.0.0.1-10.0.0.9").as_deref(),
        Some("\"10.0.0.1\" \"10.0.0.2\"/31 \"10.0.0.4\"/30 \"10.0.0.8\"/31")
    );
    assert_eq!(of("0.0.0.0-255.255.255.255").as_deref(), Some("\"0.0.0.0\"/0"));
    assert_eq!(of("::1").as_deref(), Some("\"::1\""));
    for text in [
        "10.0.0.9-10.0.0.1",
        "10.0.0.1-10.0.0.9/24",
        "::1-::9",
        "1\";}",
        "10.0.0.0/33",
        "10.0.0.0/255.0.255.0",
        "::/x",
        "a/8",
        "",
    ] {
        assert_eq!(of(text), None, "{text}");
    }
}

/// Lines as in the squid.conf that squid comes with: `squid -k parse` takes what follows a blank and `#` as a comment.
#[test]
fn comments_and_ranges_of_squids_own_file() {
    let migrated = of("acl localnet src 0.0.0.1-0.255.255.255\t# RFC 1122 \"this\" network (LAN)\n\
         acl localnet src 169.254.0.0/16 \t# RFC 3927 link-local (directly plugged) machines\nacl nobody src 10.0.0.0/8 #x\n\
         http_port 80 accel vhost # not 3128\ncache_peer 10.0.0.1 parent 8080 0 originserver\nhttp_access allow localnet\nhttp_access deny all\n");
    assert_eq!(migrated.notes, []);
    assert!(migrated.vcl.contains("\t\"0.128.0.0\"/9;\n\t\"169.254.0.0\"/16;\n}"), "{}", migrated.vcl);
    assert!(!migrated.vcl.contains("RFC") && !migrated.vcl.contains("nobody"), "{}", migrated.vcl);
}

#[test]
fn each_directive_has_one_fate() {
    let mut migrated = of(
        "http_port 80 accel\ncache_peer 10.0.0.1 parent 80 0 originserver name=p\nacl t time 9:00-17:00\nacl b src 192.0.2.1\nhttp_access allow b t\nhttp_access deny all\n\
         cache_peer_access p allow b\ncache_mem 8 MB\nconnect_timeout 2 minutes\nread_timeout x\nrefresh_pattern ^ftp: 1 2% 3\nrefresh_pattern . 0 20% 4320\n\
         coredump_dir /x\ndns_timeout 1 minute\nvia on\nforwarded_for delete\ncollapsed_forwarding on\nurl_rewrite_children 4\n",
    );
    migrated.close();
    assert_eq!(
        migrated.account.short(),
        "acl 1/0/1, cache_mem 1/0/0, cache_peer 1/0/0, cache_peer_access 1/0/0, collapsed_forwarding 0/1/0, connect_timeout 1/0/0, coredump_dir 0/1/0, \
         dns_timeout 0/1/0, forwarded_for 0/0/1, http_access 1/0/1, http_port 1/0/0, read_timeout 0/0/1, refresh_pattern 1/1/0, url_rewrite_children 0/1/0, via 0/1/0"
    );
    assert!(migrated.arguments.contains(&"connect_timeout=120".to_owned()), "{:?}", migrated.arguments);
}

/// A directive that isn't known may keep something from being kept.
#[test]
fn what_is_not_known_keeps_nothing() {
    let migrated =
        of("http_port 80 accel\ncache_peer 10.0.0.1 parent 80 0 originserver\nhttp_access allow all\nfrobnicate 1\n");
    assert!(
        migrated.notes.iter().any(|note| note.to_string().contains("s.conf:4: refused: frobnicate: nothing is known"))
    );
    assert!(!migrated.vcl.contains("return (hash)"), "{}", migrated.vcl);
}

fn vcl(lines: &str) -> String {
    let text = format!(
        "http_port 80 accel\ncache_peer 10.0.0.1 parent 80 0 originserver name=p\nhttp_access allow all\n{lines}"
    );
    of(Box::leak(text.into_boxed_str())).vcl
}

/// Seen beside squid 5.7: without a refresh_pattern that fits nothing old is served, with one for a week or as max-stale and max_stale say.
#[test]
fn old_responses_while_the_origin_fails() {
    for (lines, seconds) in [
        ("", None),
        ("refresh_pattern . 0 20% 4320\n", Some(604_800)),
        ("refresh_pattern . 0 20% 4320 max-stale=60\n", Some(60)),
        ("refresh_pattern . 0 20% 4320 max-stale=0\n", None),
        ("max_stale 2 weeks\nrefresh_pattern . 0 20% 4320\n", Some(1_209_600)),
    ] {
        let vcl = vcl(lines);
        let granted = seconds.map(|seconds| format!("\"stale-if-error={seconds}\""));
        assert!(granted.is_none_or(|text| vcl.contains(&text)), "{lines}: {vcl}");
        assert_eq!(vcl.contains("+ \"stale-if-error="), seconds.is_some(), "{lines}");
        assert!(vcl.contains("set beresp.grace = 0s;\n\tset beresp.keep = 0s;"), "{vcl}");
    }
}

#[test]
fn options_of_refresh_patterns() {
    let longer = vcl("refresh_pattern . 10 20% 60 override-expire override-lastmod\n");
    assert_eq!(longer.matches("if (beresp.ttl < 600s && beresp.http.Cache-Control !~").count(), 2, "{longer}");
    assert!(!vcl("refresh_pattern . 10 20% 60 override-expire max-stale=0\n").contains("beresp.ttl < 600s"));
    let stored = vcl("refresh_pattern ^http://a/ 0 0% 0\nrefresh_pattern . 0 0% 0 ignore-no-store\n");
    assert!(
        stored.contains(
            "\t\tset bereq.http.Squid-No-Store = \"true\";\n\t} else {\n\t\tset bereq.http.Squid-No-Store = \"false\";"
        ),
        "{stored}"
    );
    assert!(vcl("refresh_pattern . 0 0% 0 ignore-reload\n").contains("unset req.http.Pragma;"));
    assert!(
        vcl("refresh_pattern . 0 0% 0 ignore-auth reload-into-ims store-stale ignore-private\n")
            .contains("return (hash);")
    );
    // An option that isn't known may keep something from being kept.
    assert!(!vcl("refresh_pattern . 0 0% 0 frobnicate\n").contains("return (hash);"));
    assert!(!vcl("refresh_pattern . x\n").contains("return (hash);"));
}

/// Statuses that negative_ttl is for; others aren't kept, whatever they say.
#[test]
fn errors_are_kept_as_negative_ttl_says() {
    let none = vcl("");
    assert!(!none.contains("beresp.status == 404") && none.contains("(beresp.status == 302 || beresp.status == 307)"));
    let some = vcl("negative_ttl 5 minutes\n");
    assert!(some.contains("set beresp.ttl = 300s;\n\t\tif (beresp.http.Cache-Control ~"), "{some}");
    for status in [303, 401, 409] {
        assert!(!some.contains(&format!("beresp.status == {status}")), "{status}");
    }
}

#[test]
fn a_peer_whose_responses_are_not_kept() {
    let vcl = vcl("cache_peer 10.0.0.2 parent 80 0 originserver proxy-only name=q\ncache_peer_access p deny all\n");
    assert!(vcl.contains("if (beresp.backend == q) { set beresp.ttl = 0s; }"), "{vcl}");
}

#[test]
fn values_of_acls() {
    let files: &'static [(&str, &str)] = &[
        (
            "s.conf",
            "http_port 80 accel\nacl f urlpath_regex \"/v\"\nacl m urlpath_regex -i A +i b\nacl p proto HTTPS\nacl g dstdomain \"/none\"\nhttp_access deny f\nhttp_access deny m\nhttp_access deny p\nhttp_access allow all\n",
        ),
        ("/v", "# values\n^/one two$\n\n^/three\n"),
    ];
    let migrated = crate::tests::compiled(migrate("s.conf", &Given(files)).expect("squid's language"));
    for wanted in ["\"(^/one two$|^/three)\"", "\"((?i:A)|(?:b))\"", "req.http.Squid-Url ~ \"(?i)^(HTTPS)://\""] {
        assert!(migrated.vcl.contains(wanted), "{wanted}: {}", migrated.vcl);
    }
    assert!(migrated.notes.iter().any(|note| note.to_string().contains("s.conf:5: refused: acl: the file")));
}

/// squid leaves comments and empty lines out within a line that goes on, and blanks before each piece.
#[test]
fn lines_that_go_on() {
    let vcl = vcl("acl a dstdomain \\\n  # within\n\n   b.example\\\n   .org c.example\ncache deny a\n");
    assert!(vcl.contains("\"(?i)^(b\\.example\\.org|c\\.example)$\""), "{vcl}");
}

/// Seen beside squid 5.7: PURGE is denied unless an acl names it; then it is answered with 200 or 404, once http_access lets it in.
#[test]
fn purges() {
    let none = vcl("");
    assert!(
        none.contains("if (req.method == \"PURGE\") { return (synth(403)); }") && !none.contains("purge."),
        "{none}"
    );
    let some = vcl("acl p method PURGE\nhttp_access deny p\n");
    for wanted in [
        "import purge;",
        "if (req.method == \"PURGE\") { return (hash); }",
        "set req.http.Squid-Purged = purge.hard();",
    ] {
        assert!(some.contains(wanted), "{wanted}: {some}");
    }
}

#[test]
fn logins_that_are_not_sent() {
    let (migrated, told) = notes("http_port 80 accel\ncache_peer a parent 80 0 originserver login=user:word\n");
    assert!(
        !migrated.vcl.contains("return (hash)") && told[0].contains("until then all requests are passed"),
        "{told:?}"
    );
}

#[test]
fn units_of_time_and_size() {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for (text, seconds) in [
        ("5", Some(5)),
        ("1 minute", Some(60)),
        ("2 Months", Some(5_184_000)),
        ("0.5 hours", Some(1800)),
        ("1 week", Some(604_800)),
        ("0 anything", Some(0)),
        ("x", None),
        ("5 foo", None),
        ("5minutes", None),
        ("-5 minutes", None),
        ("inf", None),
    ] {
        assert_eq!(units::seconds(&words(text)), seconds, "{text}");
    }
    for (text, bytes) in [
        ("4", Some(4)),
        ("1.5 MB", Some(1_572_864)),
        ("8 kb", Some(8192)),
        ("1 GB", Some(1 << 30)),
        ("4 M", None),
        ("4MB", None),
        ("-1 KB", None),
        ("abc KB", None),
    ] {
        assert_eq!(units::bytes(&words(text)), bytes, "{text}");
    }
    assert_eq!([1 << 30, 3 << 20, 5 << 10, 7].map(units::size), ["1g", "3m", "5k", "7b"]);
}

/// `squid -k parse` takes none of these, so that nobody knows what they are to mean.
#[test]
fn values_that_are_not_understood_are_refused() {
    let of_peer = |option: &str| format!("cache_peer b parent 80 0 originserver {option}");
    let peers =
        ["connect-timeout=abc", "connect-timeout=5s", "weight=x", "standby=x", "front-end-https=maybe", "name="];
    let mut lines: Vec<String> = peers.map(of_peer).to_vec();
    lines.extend(
        [
            "cache_peer b parent 80 x originserver",
            "http_port 81 accel tcpkeepalive=x",
            "http_port 81 accel disable-pmtu-discovery=x",
            "http_port 81 accel no-vhost",
            "https_port 443 accel cert=/a cert=/b",
            "negative_ttl abc",
            "negative_ttl 5 foo",
            "max_stale x",
            "maximum_object_size 4 M",
            "cache_mem 64",
            "cache_mem x MB",
            "cache_dir ufs /x",
            "cache_dir ufs /x 100 16 256 no-store",
            "connect_timeout 30 foo",
            "refresh_pattern . 1.5 20% 60",
            "refresh_pattern . inf 20% 60",
            "refresh_pattern . 5 x% 60",
            "refresh_pattern . 5 20% 60 max-stale=x",
            "acl p port abc",
            "acl p localport 90-80",
        ]
        .map(str::to_owned),
    );
    for line in lines {
        let (_, told) = notes(&format!("http_port 80 accel\ncache_peer a parent 80 0 originserver\n{line}\n"));
        assert!(told.iter().any(|note| note.starts_with("3: refused: ")), "{line}: {told:?}");
    }
    // The last one of an option counts; zero asks for no limit; ages are cropped to a year.
    let vcl = vcl(
        "cache_peer b parent 80 0 originserver name=x max-conn=5 max-conn=0 connect-timeout=0 name=q\ncache_peer_access p deny all\nrefresh_pattern . -5 20 99999999\n",
    );
    assert!(
        vcl.contains("backend q {") && !vcl.contains(".max_connections") && !vcl.contains(".connect_timeout"),
        "{vcl}"
    );
    assert!(vcl.contains("> 31536000s") && vcl.contains("set beresp.ttl = 0s - beresp.age;"), "{vcl}");
}

#[test]
fn an_acl_without_values_holds_for_nothing() {
    for kind in ["src", "dstdomain", "urlpath_regex", "method", "all-of", "port"] {
        let vcl = vcl(&format!("acl none {kind} -n\ncache deny none\n"));
        assert_eq!(vcl.matches("return (pass);").count(), 2, "{kind}: {vcl}");
    }
}

/// squid warns of bits that the mask doesn't have, and VCL refuses them.
#[test]
fn networks_lose_the_bits_outside_their_masks() {
    for (text, network, is_cut) in [
        ("192.168.1.5/24", "\"192.168.1.0\"/24", true),
        ("192.168.1.5/255.255.0.0", "\"192.168.0.0\"/16", true),
        ("1.2.3.4/0", "\"0.0.0.0\"/0", true),
        ("1.2.3.4/32", "\"1.2.3.4\"/32", false),
        ("2001:db8::5/32", "\"2001:db8::\"/32", true),
        ("fe80::/ffff::", "\"fe80::\"/16", false),
    ] {
        let found = Networks::of(text).expect(text);
        assert_eq!((found.entries.join(" ").as_str(), found.is_cut), (network, is_cut), "{text}");
    }
    let migrated = of("http_port 80 accel\nacl lan src 192.168.1.5/24 fd00::1/8\nhttp_access allow lan\n");
    assert_eq!(migrated.notes.len(), 1);
    assert!(migrated.notes[0].to_string().starts_with("s.conf:2: note: acl: the mask"), "{}", migrated.notes[0]);
}

#[test]
fn names_that_differ_in_signs_are_several() {
    let migrated = of(
        "http_port 80 accel\ncache_peer 10.0.0.1 parent 80 0 originserver name=office-net\ncache_peer 10.0.0.2 parent 80 0 originserver name=office.net\n\
         acl office-net src 10.0.0.0/8\nacl office_net src all 0.0.0.0/0\nacl Office-Net src 10.1.0.0/16\nacl req src 10.2.0.0/16\n\
         acl squid_forward src 10.3.0.0/16\nacl peers_1 src 10.4.0.0/16\nhttp_access allow office-net\nhttp_access deny Office-Net\nhttp_access deny req\n\
         http_access deny squid_forward\nhttp_access deny peers_1\ncache_peer_access office-net allow office_net\ncache_peer_access office.net deny office_net\n",
    );
    assert!(migrated.vcl.contains("acl office_net_3 {\n\t\"10.0.0.0\"/8;\n\t\"10.1.0.0\"/16;\n}"), "{}", migrated.vcl);
    assert!(
        migrated.vcl.contains("if (client.ip ~ office_net_3) {\n\t} else if (client.ip ~ office_net_3) {"),
        "{}",
        migrated.vcl
    );
    assert!(
        migrated.vcl.contains("if (client.ip ~ office_net_4) {\n\t\tset req.backend_hint = office_net;"),
        "{}",
        migrated.vcl
    );
    assert_eq!(migrated.notes, []);
}

/// squid compares names of acls and peers in small letters, and lines for an acl of its own add to it.
#[test]
fn names_in_any_letters() {
    let migrated = of(
        "http_port 80 accel\ncache_peer 10.0.0.1 parent 80 0 originserver name=App\nacl Own src 10.1.0.0/16\nacl localhost src 10.2.0.0/16\n\
         http_access deny OWN\nhttp_access deny !LOCALHOST\nhttp_access allow all\ncache_peer_access APP deny own\n",
    );
    for wanted in [
        "if (client.ip ~ own) {\n\t\treturn (synth(403));",
        "else if (!(client.ip == \"127.0.0.1\" || client.ip == \"::1\" || client.ip ~ localhost)) {",
        "if (!(client.ip ~ own)) {\n\t\tset req.backend_hint = app;",
    ] {
        assert!(migrated.vcl.contains(wanted), "{wanted}:\n{}", migrated.vcl);
    }
    assert_eq!(migrated.notes, []);
}

/// The notes on a text, without the name of its file.
fn notes(text: &str) -> (Migrated, Vec<String>) {
    let migrated = of(Box::leak(format!("{text}http_access allow all\n").into_boxed_str()));
    let notes = migrated.notes.iter().map(|note| note.to_string().trim_start_matches("s.conf:").to_owned()).collect();
    (migrated, notes)
}

#[test]
fn options_of_ports() {
    let (migrated, told) = notes(
        "http_port 80 accel require-proxy-header vport\nhttps_port 443 accel cert=/c clientca=/ca tls-min-version=1.2\nhttps_port 8443 accel cert=/d\n",
    );
    assert_eq!(migrated.arguments[..2], ["-a", ":80,PROXY"]);
    assert_eq!(migrated.tls.len(), 4);
    assert!(migrated.vcl.contains("if (std.port(local.ip) == 443) { return (synth(403)); }"), "{}", migrated.vcl);
    let begins = [
        "1: refused: http_port: vport: ",
        "2: note: https_port: tls-min-version=1.2: ",
        "2: refused: https_port: clients must have a certificate",
    ];
    assert!(told.len() == 3 && told.iter().zip(begins).all(|(note, begin)| note.starts_with(begin)), "{told:?}");
}

/// A URL is another one by https: it has a key of its own, and refresh_pattern sees its scheme.
#[test]
fn http_and_https_are_kept_apart() {
    let lines = "http_port 80 accel\nrefresh_pattern ^https: 10 20% 60\n";
    let (plain, _) = notes(lines);
    assert!(
        !plain.vcl.contains("sub vcl_hash") && plain.vcl.contains("if (\"http://\" + bereq.http.Host"),
        "{}",
        plain.vcl
    );
    let (both, _) = notes(&format!("{lines}https_port 443 accel cert=/c\n"));
    assert!(both.vcl.contains("hash_data(req.http.X-Forwarded-Proto);"), "{}", both.vcl);
    let url =
        "regsub(bereq.http.X-Forwarded-Proto, \"^(?!https$).*$\", \"http\") + \"://\" + bereq.http.Host + bereq.url";
    for wanted in [
        format!("cookie.set(\"url\", {url});"),
        "unset bereq.http.X-Forwarded-Proto;".to_owned(),
        "if (cookie.get(\"url\") ~ \"^https:\") {".to_owned(),
    ] {
        assert!(both.vcl.contains(&wanted), "{wanted}: {}", both.vcl);
    }
}

/// Seen beside squid 5.7: Host is written in one way, which depends on the scheme, and each port has a site of its own.
#[test]
fn hosts_and_sites_of_ports() {
    let (both, _) = notes(
        "http_port 80 accel defaultsite=b.org no-vhost\nhttps_port 10.0.0.1:443 accel defaultsite=a.org ignore-cc cert=/c\nacl o port 443\nhttp_access deny o\n",
    );
    for wanted in [
        "if (std.port(local.ip) == 80) {\n\t\tset req.http.Host = \"b.org\";\n\t} else if (std.port(local.ip) == 443 && local.ip == \"10.0.0.1\") {\n\t\tif (!req.http.Host) { set req.http.Host = \"a.org\"; }",
        "set req.http.Host = regsub(regsub(std.tolower(req.http.Host), \"\\.*(:\\d+)?$\", \"\\1\"), \":0+(\\d+)$\", \":\\1\");",
        "if (req.http.X-Forwarded-Proto == \"https\") {\n\t\tif (req.http.Host) { set req.http.Host = regsub(req.http.Host, \":443$\", \"\"); }",
        "if (std.port(local.ip) == 443 && local.ip == \"10.0.0.1\") {\n\t\tunset req.http.Cache-Control;",
        "if (std.integer(req.http.Squid-Port, 0) == 443) {",
        "unset bereq.http.Squid-Port;",
    ] {
        assert!(both.vcl.contains(wanted), "{wanted}:\n{}", both.vcl);
    }
}

/// squid sends an origin no Authorization unless `login=` says so; other hosts and headers go with the peer.
#[test]
fn options_of_peers() {
    let peer = "http_port 80 accel\ncache_peer 10.0.0.1 parent 80 0 originserver no-query weight=2 connect-timeout=3";
    let (plain, told) = notes(&format!("{peer}\n"));
    assert!(
        plain
            .vcl
            .contains("cookie.set(\"authorization\", bereq.http.Authorization);\n\tunset bereq.http.Authorization;")
    );
    assert!(plain.vcl.contains(".connect_timeout = 3s;") && told.is_empty(), "{told:?} {}", plain.vcl);
    let (own, told) =
        notes(&format!("{peer} login=PASS forceddomain=a.org front-end-https=auto sslflags=X monitorurl=/\n"));
    for wanted in [
        "set req.http.Squid-Domain = \"a.org\";",
        "set req.http.Squid-Login = \"pass\";",
        "if (req.http.X-Forwarded-Proto == \"https\") {\n\t\tset req.http.Front-End-Https = \"On\";",
        "unset req.http.Squid-Domain;",
        "if (bereq.http.Squid-Domain) { set bereq.http.Host = bereq.http.Squid-Domain; }",
        "if (bereq.http.Squid-Login != \"pass\") {\n\t\tunset bereq.http.Authorization;",
        "unset bereq.http.Squid-Login;",
    ] {
        assert!(own.vcl.contains(wanted), "{wanted}:\n{}", own.vcl);
    }
    let begins = ["2: refused: cache_peer: sslflags=X: TLS to origins", "2: refused: cache_peer: monitorurl=/: "];
    assert!(told.len() == 2 && told.iter().zip(begins).all(|(note, begin)| note.starts_with(begin)), "{told:?}");
    let (_, told) = notes(
        "http_port 80 accel\ncache_peer a parent 80 0 originserver round-robin forceddomain=a.org\ncache_peer b parent 80 0 originserver round-robin\n",
    );
    assert!(told[0].starts_with("3: refused: cache_peer: in turn with a, which has other options"), "{told:?}");
    let (_, told) = notes("http_port 80 accel\ncache_peer a parent 80 0 originserver round-robin weight=3\n");
    assert!(told.len() == 1 && told[0].starts_with("2: note: cache_peer: weight=3: "), "{told:?}");
}

#[test]
fn a_setting_that_stands_twice() {
    let (migrated, _) = notes(
        "http_port 80 accel\ncache_mem 8 MB\nvisible_hostname a\nconnect_timeout 5 seconds\ncache_mem 16 MB\nvisible_hostname b\n",
    );
    assert_eq!(
        migrated.arguments,
        ["-a", ":80", "-s", "malloc,16m", "-i", "b", "-p", "connect_timeout=5", "-p", "feature=+rfc9111"]
    );
}

#[test]
fn a_peer_is_named_once() {
    let migrated = of(
        "http_port 80 accel\ncache_peer 10.0.0.1 parent 80 0 originserver\ncache_peer 10.0.0.1 parent 81 0 originserver\nhttp_access allow all\n",
    );
    assert!(
        migrated
            .notes
            .iter()
            .any(|note| note.to_string().starts_with("s.conf:3: refused: cache_peer: there is a peer"))
    );
}

/// Acls of acls may name others twice: the texts are written once, and all together are bounded.
#[test]
fn acls_of_acls_do_not_grow_without_end() {
    let doubled = |kind: &str, line: fn(usize) -> String| {
        let lines: String = (1..41).map(|i| format!("acl a{i} {kind} {}\n", line(i))).collect();
        vcl(&format!("acl a0 dstdomain a.example\nacl b method GET\n{lines}cache deny b\ncache deny a40\n"))
    };
    for kind in ["all-of", "any-of"] {
        let same = doubled(kind, |i| format!("a{0} a{0} a{0}", i - 1));
        assert_eq!(same.matches("a\\.example").count(), 1, "{same}");
        let others = doubled(kind, |i| format!("a{0} !a{0}", i - 1));
        assert!(others.len() < 10 << 20 && others.contains("req.method == \"GET\""), "{}", others.len());
    }
    let text: String = (1..41).map(|i| format!("acl a{i} all-of a{0} !a{0}\n", i - 1)).collect();
    let migrated = of(Box::leak(
        format!("acl a0 dstdomain a.example\n{text}http_access deny a40\nhttp_access allow all\n").into_boxed_str(),
    ));
    assert!(migrated.notes.iter().any(|note| note.to_string().contains(": refused: acl: the conditions of all acls")));
}

#[test]
fn a_rule_with_too_long_acls_is_the_stricter_one() {
    let hosts: String = (0..50_000).map(|i| format!(" host{i}.a.example")).collect();
    let rules = "http_access allow long\n".repeat(5) + "http_access deny long\nhttp_access allow all\n";
    let text = format!("http_port 80 accel\nacl long dstdomain{hosts}\n{rules}");
    let files: &'static [(&str, &str)] = Box::leak(Box::new([("s.conf", &*Box::leak(text.into_boxed_str()))]));
    let migrated = migrate("s.conf", &Given(files)).expect("squid's language");
    let refused: Vec<String> = migrated.notes.iter().map(ToString::to_string).collect();
    assert!(
        refused
            .iter()
            .any(|note| note.starts_with("s.conf:8: refused: http_access: ") && note.ends_with("denies everything")),
        "{refused:?}"
    );
    assert!(
        refused
            .iter()
            .any(|note| note.starts_with("s.conf:7: refused: http_access: ") && note.ends_with("by this line")),
        "{refused:?}"
    );
    assert!(migrated.vcl.len() < 5 << 20);
}

/// A text of the configuration never becomes a part of the program or of tls.conf.
#[test]
fn no_word_can_add_to_the_program() {
    const LINES: [&str; 14] = [
        "http_port W accel",
        "http_port 80 accel defaultsite=W",
        "http_port 80 accel no-vhost defaultsite=W",
        "https_port W accel cert=/a",
        "https_port 443 accel cert=W",
        "https_port 443 accel cert=/a key=W",
        "cache_peer W parent 80 0 originserver name=q",
        "cache_peer a parent W 0 originserver name=q",
        "cache_peer 10.0.0.2 parent 80 0 originserver name=W",
        "cache_peer 10.0.0.2 parent 80 0 originserver name=q max-conn=W",
        "cache_peer 10.0.0.2 parent 80 0 originserver name=q forceddomain=W",
        "cache_peer_domain p W",
        "cache_mem W MB",
        "visible_hostname W",
    ];
    const KINDS: [&str; 14] = [
        "src",
        "dstdomain",
        "dstdom_regex",
        "urlpath_regex",
        "url_regex",
        "any-of",
        "all-of",
        "req_header",
        "req_header X",
        "port",
        "myport",
        "method",
        "proto",
        "browser",
    ];
    let kinds = KINDS.iter().flat_map(|kind| {
        [format!("acl x {kind} W\nhttp_access deny x"), format!("acl W {kind} a\nhttp_access deny W")]
    });
    let lines: Vec<String> = LINES.iter().map(|line| (*line).to_owned()).chain(kinds).collect();
    let words = [
        "a\";return(pass);#",
        "X\"||req.method!=\"",
        "1\";}sub/**/vcl_recv{return(pass);}acl/**/y{\"1",
        "\"};#",
        "a{",
        "a}",
        "a;",
        "a\u{85}b",
        "a\u{7f}b",
        "{\"a\"}x\"",
        "a\\",
    ];
    for line in &lines {
        for word in words {
            let text = format!(
                "http_port 80 accel\ncache_peer 10.0.0.1 parent 80 0 originserver name=p\n{}\nhttp_access allow all\n",
                line.replace('W', word)
            );
            let files: &'static [(&str, &str)] =
                Box::leak(Box::new([("s.conf", &*Box::leak(text.clone().into_boxed_str()))]));
            let Ok(migrated) = migrate("s.conf", &Given(files)) else { continue };
            let migrated = crate::tests::compiled(migrated);
            let count = |word: &str| migrated.vcl.lines().filter(|line| line.starts_with(word)).count();
            assert!(count("sub ") <= 13 && count("acl ") <= 1 && count("backend ") <= 2, "{text}{}", migrated.vcl);
            let code = without_strings(&migrated.vcl);
            assert!(!code.contains("return(") && !code.contains("||req") && !code.contains("/**/"), "{text}{code}");
            let is_whole = |line: &String| line.matches('"').count().is_multiple_of(2) && !line.contains("return");
            assert!(migrated.tls.iter().all(is_whole), "{text}{:?}", migrated.tls);
        }
    }
}

fn without_strings(vcl: &str) -> String {
    let (mut out, mut rest) = (String::new(), vcl);
    while let Some(at) = rest.find('"') {
        let is_long = rest[..at].ends_with('{');
        let (begin, end) = match (rest[at..].starts_with("\"\"\""), is_long) {
            (true, _) => (at + 3, "\"\"\""),
            (false, true) => (at + 1, "\"}"),
            (false, false) => (at + 1, "\""),
        };
        out.push_str(&rest[..at]);
        let close = begin + rest[begin..].find(end).expect("a string ends");
        rest = &rest[close + end.len()..];
    }
    out + rest
}

#[test]
fn each_directory_is_a_store_of_its_own() {
    let migrated = of("cache_dir ufs /a 100 16 256\ncache_dir rock /b 200\ncache_dir ufs /c x\nhttp_port 80 accel\n");
    let stores = ["disk=file,/var/lib/varnish/disk.store,100m", "disk2=file,/var/lib/varnish/disk2.store,200m"];
    assert_eq!(migrated.arguments[..4], ["-s", stores[0], "-s", stores[1]]);
    assert!(migrated.notes.iter().any(|note| note.to_string().starts_with("s.conf:3: refused: cache_dir: ")));
}

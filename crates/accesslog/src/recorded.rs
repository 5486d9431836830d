// SPDX-License-Identifier: BSD-2-Clause
//! Lines that other programs really wrote, read as `Sources` reads them.

use testkit::recorded::{AccessLog, access};

use crate::entry::{AccessEntry, LineReading, Skip};
use crate::format::LogFormat;
use crate::ncsa;

/// Targets of the requests that `record_access.py` sends, or why there is none.
const USUAL: &str = r#"/plain?a=1&b=%20 /six /quotes?q="x" /agent /empty /old /absolute /port /forwarded /user /user /user * BadTarget BadTarget NoRequest NoRequest"#;

fn log(name: &str) -> AccessLog {
    access().into_iter().find(|log| log.name == name).unwrap_or_else(|| panic!("no {name}"))
}

fn shown(text: &[u8]) -> String {
    text.escape_ascii().to_string().replace("\\\"", "\"")
}

fn targets(entries: &[Result<AccessEntry<'_>, Skip>]) -> String {
    let target = |entry: &Result<AccessEntry<'_>, Skip>| match entry {
        Ok(entry) => shown(&entry.target),
        Err(skip) => format!("{skip:?}"),
    };
    entries.iter().map(target).collect::<Vec<_>>().join(" ")
}

/// Different hosts in the order of their first request, with `-` for none.
fn hosts(entries: &[Result<AccessEntry<'_>, Skip>]) -> String {
    let mut all: Vec<String> = Vec::new();
    for entry in entries.iter().flatten() {
        let host = entry.host.as_deref().map_or("-".into(), shown);
        if !all.contains(&host) {
            all.push(host);
        }
    }
    all.join(" ")
}

/// Each request but that to `/six` came from 127.0.0.1.
fn check_clients(name: &str, entries: &[Result<AccessEntry<'_>, Skip>]) {
    for entry in entries.iter().flatten() {
        let want: &[u8] = if *entry.target == *b"/six" { b"::1" } else { b"127.0.0.1" };
        assert_eq!(entry.client.as_deref(), Some(want), "{name}: {entry:?}");
    }
}

fn check_rest(name: &str, entries: &[Result<AccessEntry<'_>, Skip>]) {
    let has_agents = !["common", "nozone", "haproxy"].iter().any(|word| name.contains(word));
    let first = entries.iter().flatten().next().and_then(|entry| entry.time).expect("a time").ns;
    for entry in entries.iter().flatten() {
        let late = entry.time.expect("a time").ns - first;
        assert!((0..60_000_000_000).contains(&late), "{name}: {entry:?}");
        assert!(entry.status.is_some_and(|status| status >= 200) && entry.bytes.is_some(), "{name}: {entry:?}");
        let agent = entry.field("User-Agent").map(shown);
        let want = match &*entry.target {
            b"/six" => Some("six/1"),
            b"/two" => Some("h2/1"),
            b"/plain?a=1&b=%20" => Some("Mozilla/5.0 (X11; Linux x86_64)"),
            // Squid doesn't escape a header's own quotes: nothing is better than a piece of it.
            b"/agent" if name.contains("squid") => None,
            b"/agent" => Some(r#"a "quoted" \\ back\xe9\ttab [x]"#),
            _ => continue,
        };
        assert_eq!(agent.as_deref(), want.filter(|_| has_agents), "{name}: {entry:?}");
    }
}

fn check(name: &str, want: &str, want_hosts: &str, readings: &[LineReading]) {
    let log = log(name);
    let entries: Vec<_> = log.lines.iter().map(|line| ncsa::parse(line)).collect();
    assert_eq!(targets(&entries), want, "{name}");
    assert_eq!(hosts(&entries), want_hosts, "{name}");
    check_clients(name, &entries);
    check_rest(name, &entries);
    let taken: Vec<LineReading> = LineReading::ALL
        .into_iter()
        .filter(|reading| entries.iter().flatten().any(|entry| entry.readings().any(|taken| taken == *reading)))
        .collect();
    assert_eq!(taken, readings, "{name}");
}

#[test]
fn nginx() {
    let all = format!("{USUAL} /two");
    for name in ["nginx-1.22 combined", "nginx-1.22 main", "nginx-1.22 iso"] {
        check(name, &all, "- other.example:81", &[]);
    }
    let first = &[LineReading::HostFirst];
    check("nginx-1.22 vhost", &all, "site.example [2001:db8::1] other.example:81", first);
    check("nginx-1.22 http_host", &all, "site.example [2001:db8::1]:8080 - other.example:81 SITE.example:8080", first);
}

#[test]
fn apache() {
    let all = format!("{USUAL} /two");
    check("apache-2.4 combined", &all, "- other.example:81", &[]);
    check("apache-2.4 common", &all, "- other.example:81", &[]);
    check("apache-2.4 nozone", &all, "- other.example:81", &[LineReading::NoZone]);
    // The line of HTTP/2 has the port that was listened on.
    let log = log("apache-2.4 vhost_combined");
    let port = shown(log.lines.last().expect("a line").split(|b| *b == b' ').next().expect("a word"));
    let first = &[LineReading::HostFirst];
    check(log.name, &all, &format!("site.example other.example:81 {port}"), first);
    check("apache-2.4 vcommon", &all, "site.example other.example:81", first);
}

#[test]
fn clients_that_proxies_name() {
    let all = format!("{} /two", USUAL.replace("/forwarded", "Ambiguous"));
    for name in ["nginx-1.22 forwarded", "apache-2.4 forwarded", "apache-2.4 forwarded_first"] {
        let log = log(name);
        let entries: Vec<_> = log.lines.iter().map(|line| ncsa::parse(line)).collect();
        assert_eq!(targets(&entries), all, "{name}");
        assert_eq!(hosts(&entries), "- other.example:81", "{name}");
        if name.ends_with("first") {
            check_clients(name, &entries);
        } else {
            assert!(entries.iter().flatten().all(|entry| entry.client.is_none()), "{name}");
        }
        let line = log.lines.iter().find(|line| line.starts_with(b"192.0.2.7")).expect("a forwarded request");
        assert!(ncsa::doubt(line).starts_with("\"192.0.2.7, 198.51.100.9 "), "{}", ncsa::doubt(line));
    }
}

#[test]
fn haproxy() {
    let all = r#"NoRequest /plain?a=1&b=%20 /six /quotes?q="x" /agent /empty /old NoRequest /port /forwarded /user /user /user * NoRequest NoRequest NoRequest NoRequest /two"#;
    for kind in ["raw", "rfc3164", "rfc5424"] {
        check(&format!("haproxy-2.6 clf {kind}"), all, "- site.example", &[]);
    }
    let zone = &[LineReading::NoZone];
    check("haproxy-2.6 httplog raw", all, "- site.example", zone);
    // Two connections were logged in another order than they came.
    let https = log("haproxy-2.6 httpslog raw");
    let entries: Vec<_> = https.lines.iter().map(|line| ncsa::parse(line)).collect();
    check("haproxy-2.6 httpslog raw", &targets(&entries), "- site.example", zone);
    let sorted = |text: &str| {
        let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        words.sort();
        words
    };
    assert_eq!(sorted(&targets(&entries)), sorted(all));
    assert!(entries.iter().flatten().all(|entry| entry.duration.is_some_and(|time| time.as_secs() < 1)));
}

#[test]
fn squid() {
    let all = r#"NoRequest /plain?a=1&b=%20 /six /quotes?q="x" /agent /empty /old /absolute /port /forwarded /user /user /user BadTarget BadTarget /ablank NoRequest BadTarget"#;
    let hosts = "site.example [2001:db8::1]:8080 other.example:81 site.example:8080";
    for name in ["squid-5.7 common", "squid-5.7 combined"] {
        check(name, all, hosts, &[]);
    }
}

#[test]
fn varnish() {
    let all = USUAL.replace("/quotes?q=\"x\"", "NoRequest").replace("BadTarget BadTarget", "NoRequest NoRequest");
    let hosts = "site.example [2001:db8::1]:8080 localhost other.example:81 SITE.example:8080";
    check("varnish-7.1 default", &all, hosts, &[]);
    check("varnish-7.1 host", &all, hosts, &[LineReading::HostFirst]);
}

#[test]
fn formats_that_must_be_declared() {
    for name in ["nginx-1.22 msec", "squid-5.7 squid", "squid-5.7 referrer", "squid-5.7 useragent"] {
        let log = log(name);
        let entries: Vec<_> = log.lines.iter().map(|line| ncsa::parse(line)).collect();
        assert!(
            entries.iter().all(|e| matches!(e, Err(Skip::NotALine | Skip::NoRequest | Skip::BadTarget))),
            "{name}: {}",
            targets(&entries)
        );
    }
}

/// Declared, lines say the same as without, and more.
#[test]
fn declared_formats() {
    const TAIL: &str = r#"%l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i""#;
    for (name, format) in [
        ("nginx-1.22 combined", format!("%h {TAIL}")),
        ("nginx-1.22 vhost", format!("%v %h {TAIL}")),
        ("nginx-1.22 http_host", format!("%v %h {TAIL}")),
        ("nginx-1.22 iso", format!("%h {TAIL}")),
        ("nginx-1.22 main", format!("%h {TAIL} \"%{{X-Forwarded-For}}i\"")),
        ("apache-2.4 combined", format!("%h {TAIL}")),
        ("apache-2.4 vhost_combined", format!("%v:%p %h {TAIL}")),
        ("varnish-7.1 default", format!("%h {TAIL}")),
        ("varnish-7.1 host", format!("%{{Host}}i %h {TAIL} %{{Varnish:handling}}x")),
    ] {
        let (log, format) = (log(name), LogFormat::parse(&format).expect("a format"));
        for line in &log.lines {
            let known = |entry: Result<AccessEntry<'_>, Skip>| {
                entry.map(|entry| {
                    // `%v:%p` has the port by itself.
                    let host = entry.host.map(|host| shown(&host)).map(|host| match host.split_once(':') {
                        Some((host, _)) if name.ends_with("vhost_combined") => host.to_owned(),
                        _ => host,
                    });
                    (
                        entry.target.into_owned(),
                        host,
                        entry.client.map(|client| shown(&client)),
                        entry.time,
                        entry.status,
                    )
                })
            };
            let (plain, declared) = (known(ncsa::parse(line)), known(format.read(line)));
            assert_eq!(plain, declared, "{name}: {}", shown(line));
        }
    }
}

#[test]
fn declared_clients_that_proxies_name() {
    const TAIL: &str = r#"%l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i""#;
    let check = |name: &str, format: &str, want: &[u8]| {
        let (log, format) = (log(name), LogFormat::parse(format).expect("a format"));
        let entries: Vec<_> = log.lines.iter().map(|line| format.read(line)).collect();
        assert_eq!(targets(&entries), format!("{USUAL} /two"), "{name}");
        let forwarded = entries.iter().flatten().find(|entry| *entry.target == *b"/forwarded").expect("a request");
        assert_eq!(forwarded.client.as_deref(), Some(want), "{name}");
    };
    check("nginx-1.22 forwarded", &format!("%{{X-Forwarded-For}}i {TAIL}"), b"192.0.2.7");
    check("apache-2.4 forwarded", &format!("%{{X-Forwarded-For}}i {TAIL}"), b"192.0.2.7");
    check("apache-2.4 forwarded_first", &format!("%{{X-Forwarded-For}}i %h {TAIL}"), b"127.0.0.1");
    let msec = r#"%h %{%s}t %T %v "%r" %>s %b"#;
    check("nginx-1.22 msec", msec, b"127.0.0.1");
    let (log, format) = (log("nginx-1.22 msec"), LogFormat::parse(msec).expect("a format"));
    let entries: Vec<_> = log.lines.iter().map(|line| format.read(line)).collect();
    assert_eq!(hosts(&entries), "site.example [2001:db8::1] other.example:81");
    check_clients(log.name, &entries);
}

// SPDX-License-Identifier: BSD-2-Clause
//! Configurations as sites have them, and what comes of them. That the VCL compiles and acts as nginx does is shown by the suite `migrate`.

use super::*;
use crate::migrated::MigratedNote;
use crate::source::Given;

fn of(text: &'static str) -> Migrated {
    let files: &'static [(&str, &str)] = Box::leak(Box::new([("n.conf", text)]));
    migrate("n.conf", ("127.0.0.1", "8080"), &Given(files)).expect("nginx's language")
}

/// Each of `expect` stands in the VCL, in this order.
fn check(text: &'static str, expect: &[&str]) {
    let vcl = of(text).vcl;
    let mut rest = vcl.as_str();
    for wanted in expect {
        let Some(at) = rest.find(wanted) else { panic!("{wanted} isn't there, or not in this place:\n{vcl}") };
        rest = &rest[at + wanted.len()..];
    }
}

#[test]
fn a_cached_site() {
    check(
        "http { proxy_cache_path /c keys_zone=z:10m max_size=2g inactive=1h;
         server { location / { proxy_pass http://10.0.0.1:81; proxy_cache z; proxy_cache_valid 200 5m; proxy_cache_valid any 1m; } } }",
        &[
            ".host = \"10.0.0.1\";\n\t.port = \"81\";",
            "set req.backend_hint = b_10_0_0_1_81;",
            "return (hash);",
            "set bereq.http.Host = \"10.0.0.1:81\";",
            "if (beresp.status == 200) {\n\t\t\tset beresp.ttl = 300s;\n\t\t} else {\n\t\t\tset beresp.ttl = 60s;",
            "set beresp.grace = 0s;",
        ],
    );
}

#[test]
fn an_upstream_with_a_spare_server() {
    check(
        "upstream app { server a:1; server b:2 weight=3; server c:3 backup; } server { location / { proxy_pass http://app; } }",
        &[
            "backend app_1 {",
            "new app = directors.random();",
            "app.add_backend(app_1, 1.0);",
            "app.add_backend(app_2, 3.0);",
            "new app_all = directors.fallback();",
            "app_all.add_backend(app_3);",
            "set req.backend_hint = app_all.backend();",
            "return (pass);",
        ],
    );
}

#[test]
fn http_goes_to_https() {
    let migrated = of("server { listen 80; server_name a.org; return 301 https://$host$request_uri; }
         server { listen 443 ssl http2; server_name a.org; ssl_certificate /c; ssl_certificate_key /k; location / { proxy_pass http://b; } }");
    assert_eq!(migrated.arguments, ["-a", ":80", "-p", "x_forwarded_proto=on"]);
    assert_eq!(migrated.tls, ["frontend = \"*:443\"", "pem-file = { cert = \"/c\" private-key = \"/k\" }"]);
    assert!(
        migrated.vcl.contains(
            "if (req.http.X-Forwarded-Proto != \"https\" && req.http.Host ~ \"(?i)^(a\\.org)(:\\d+)?$\") {\n\t\tcall site_1_recv;"
        ),
        "{}",
        migrated.vcl
    );
    assert!(migrated.vcl.contains("set resp.http.Location = resp.reason;"), "{}", migrated.vcl);
}

#[test]
fn what_nginx_serves_itself_stays_with_it() {
    let migrated = of(
        "server { root /srv; location ~ \\.php$ { fastcgi_pass unix:/run/p; fastcgi_cache z; fastcgi_cache_valid 1m; } }",
    );
    assert!(migrated.vcl.contains("backend b_127_0_0_1_8080 {"), "{}", migrated.vcl);
    assert!(
        migrated.notes.iter().any(|note| note.text.contains("let this server listen on 127.0.0.1:8080")),
        "{:?}",
        migrated.notes
    );
}

#[test]
fn what_has_no_counterpart_is_refused_by_name_and_line() {
    let migrated = of(
        "limit_req_zone $a zone=b:1m rate=1r/s;\nserver {\n if ($x) { set $y 1; }\n location / { proxy_pass http://a; frobnicate on;\n add_header X $geoip; } }",
    );
    let said: Vec<String> =
        migrated.notes.iter().map(MigratedNote::to_string).filter(|text| text.contains("refused")).collect();
    for wanted in [
        "n.conf:1: refused: limit_req_zone: `import vsthrottle;` has it",
        "n.conf:3: refused: if: only a comparison",
        "n.conf:3: refused: set: ",
        "n.conf:4: refused: frobnicate: nothing is known of it here",
        "n.conf:5: refused: add_header: $geoip is unknown here",
    ] {
        assert!(said.iter().any(|text| text.starts_with(wanted)), "{wanted}: {said:#?}");
    }
}

#[test]
fn no_server_is_no_site() {
    assert_eq!(
        migrate("n.conf", ("a", "1"), &Given(&[("n.conf", "events {}")])).map(|_| ()),
        Err("n.conf: there is no server in it".to_owned())
    );
}

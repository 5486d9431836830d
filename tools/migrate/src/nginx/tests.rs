// SPDX-License-Identifier: BSD-2-Clause
//! Configurations as sites have them, and what comes of them. That the VCL compiles and acts as nginx does is shown by the suite `migrate`.

use super::*;
use crate::migrated::MigratedNote;
use crate::source::Given;

fn of(text: &'static str) -> Migrated {
    let files: &'static [(&str, &str)] = Box::leak(Box::new([("n.conf", text)]));
    crate::tests::compiled(migrate("n.conf", ("127.0.0.1", "8080"), &Given(files)).expect("nginx's language"))
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
            "call nginx_lifetime;",
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
fn nginx_behind_a_cache_compresses_for_proxies_or_says_so() {
    let told = |gzip: &str| {
        let text: &'static str =
            Box::leak(format!("http {{ gzip on; {gzip} server {{ location / {{ root /srv; }} }} }}").into_boxed_str());
        of(text).notes.iter().filter(|note| note.directive == "gzip" && note.text.contains("gzip_proxied any")).count()
    };
    assert_eq!((told(""), told("gzip_proxied off;"), told("gzip_proxied any;")), (1, 1, 0));
}

#[test]
fn without_merged_slashes_a_segment_may_be_empty() {
    check("server { location / { proxy_pass http://a; } }", &["[^/]+/\\.\\."]);
    check("server { merge_slashes off; location / { proxy_pass http://a; } }", &["[^/]*/\\.\\."]);
}

#[test]
fn a_text_that_nginx_changes_stays_with_it() {
    for (directives, stays) in [
        ("ssi on; return 200 '<!--#echo var=uri -->';", true),
        ("ssi on; return 200 text;", false),
        ("ssi off; return 200 '<!--#echo var=uri -->';", false),
        ("sub_filter a b; return 200 text;", true),
        ("sub_filter a b; return 404;", false),
    ] {
        let text: &'static str = Box::leak(format!("server {{ location /t {{ {directives} }} }}").into_boxed_str());
        assert_eq!(of(text).notes.iter().any(|note| note.text.contains("stays with nginx")), stays, "{directives}");
    }
}

#[test]
fn trace_is_passed_to_nobody() {
    check(
        "server { location / { proxy_pass http://a; } }",
        &["if (req.method == \"TRACE\") { return (synth(405)); }", "call nginx_path;"],
    );
}

#[test]
fn a_named_location_that_nothing_reaches_leaves_no_rewriting() {
    let text = "http { server { location / { gzip_static always; root /x; } location = /double { error_page 404 @double; root /y; }
         location @double { rewrite ^ /t1 break; gzip_static always; root /z; } } }";
    assert!(!of(text).vcl.contains("site1_rewritten"));
}

#[test]
fn http_goes_to_https() {
    let migrated = of("server { listen 80; server_name a.org; return 301 https://$host$request_uri; }
         server { listen 443 ssl http2; server_name a.org; ssl_certificate /c; ssl_certificate_key /k; location / { proxy_pass http://b; } }");
    assert_eq!(migrated.arguments, ["-a", ":80", "-p", "x_forwarded_proto=on"]);
    assert_eq!(migrated.tls, ["frontend = \"*:443\"", "pem-file = { cert = \"/c\" private-key = \"/k\" }"]);
    assert!(
        migrated
            .vcl
            .contains("if (req.http.X-Forwarded-Proto != \"https\") {\n\t\tcall site1;\n\t} else {\n\t\tcall site2;"),
        "{}",
        migrated.vcl
    );
    assert!(migrated.vcl.contains("set resp.http.Location = req.http.Nginx-Text;"), "{}", migrated.vcl);
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

/// The refusals of a text, in the order of lines.
fn refused(text: &'static str) -> Vec<String> {
    of(text).notes.iter().map(MigratedNote::to_string).filter(|text| text.contains("refused")).collect()
}

#[test]
fn what_has_no_counterpart_is_refused_by_name_and_line_and_passed() {
    let text = "limit_req zone=b;\nserver { proxy_cache z; proxy_cache_valid 1m;\n location /d { proxy_pass http://a; } location /a { if ($x) { set $y 1; } proxy_pass http://a; }
 location /b { limit_req off; proxy_pass http://a; frobnicate on; }\n location /c { limit_req off; proxy_pass http://a; add_header X $geoip; } }";
    let said = refused(text);
    for wanted in [
        "n.conf:1: refused: limit_req: `import vsthrottle;` has it",
        "n.conf:3: refused: if: $x has no counterpart",
        "n.conf:4: refused: frobnicate: nothing is known of it here",
        "n.conf:5: refused: add_header: $geoip has no counterpart",
    ] {
        assert!(said.iter().any(|text| text.starts_with(wanted)), "{wanted}: {said:#?}");
    }
    let vcl = of(text).vcl;
    assert!(
        !vcl.contains("return (hash)") && vcl.matches("set req.backend_hint = b_127_0_0_1_8080;").count() >= 3,
        "{vcl}"
    );
}

/// A server's own `return` counts before any location; `off` takes back what stands around it.
#[test]
fn what_is_off_is_no_refusal() {
    assert_eq!(
        refused("auth_basic x; server { location / { auth_basic off; proxy_pass http://a; } }"),
        Vec::<String>::new()
    );
    assert_eq!(refused("auth_basic x; server { location / { root /srv; } }"), Vec::<String>::new());
    assert_eq!(refused("auth_basic x; server { location / { proxy_pass http://a; } }").len(), 1);
}

/// A map or `set` says which of several origins a request goes to.
#[test]
fn origins_that_variables_choose() {
    check(
        "map $host $up { default app; b.org 127.0.0.1:9002; off.org \"\"; } upstream app { server a:1; }
         server { location / { proxy_pass http://$up; proxy_cache z; add_header X-A 1 always; } }",
        &[
            "set req.http.Nginx-Origin = \"http://\" + req.http.Nginx-Var-up;",
            "if (req.http.Nginx-Origin == \"http://\") {",
            "return (synth(500));",
            "} else if (req.http.Nginx-Origin == \"http://127.0.0.1:9002\") {",
            "set req.http.Nginx-Location = \"site1_loc1to2\";",
            "set req.backend_hint = b_127_0_0_1_9002;",
            "return (hash);",
            "} else if (req.http.Nginx-Origin == \"http://app\") {",
            "set req.backend_hint = app_1;",
            "} else {\n\t\treturn (synth(500));",
            "set bereq.http.Host = \"127.0.0.1:9002\";",
            "unset bereq.http.Nginx-Origin;",
            "hash_data(\"http://127.0.0.1:9002\");",
        ],
    );
    // Where nothing sets a variable, it is empty.
    let upstreams = "upstream app { server a:1; } upstream app-green { server b:1; }";
    for text in [
        "map $cookie_c $s { green -green; } server { location / { proxy_pass http://app$s; } }",
        "server { location / { if ($cookie_c) { set $s -green; } proxy_pass http://app$s; } }",
    ] {
        check(
            Box::leak(format!("{upstreams} {text}").into_boxed_str()),
            &[
                "if (req.http.Nginx-Origin == \"http://app\") {",
                "set req.backend_hint = app_1;",
                "} else if (req.http.Nginx-Origin == \"http://app-green\") {",
            ],
        );
    }
    // Beside a variable a URI is the whole one.
    check("server { set $up http://10.0.0.1; location /a/ { proxy_pass $up/b/; } }", &["set bereq.url = \"/b/\";"]);
    check("server { location / { proxy_pass $scheme://a; } }", &["set req.http.Nginx-Origin = \"http\" + \"://a\";"]);
}

/// A name that only a request tells.
#[test]
fn origins_that_requests_name() {
    let dynamic = "resolver 10.0.0.2; upstream app { server a:1; }
         server { location / { proxy_pass http://$host; proxy_read_timeout 7s; } location /b { proxy_pass https://$http_host$request_uri; proxy_cache z; } }";
    check(
        dynamic,
        &[
            "import dynamic;",
            "= dynamic.director(port = \"80\", ttl = 60s, first_byte_timeout = 7s, between_bytes_timeout = 7s);",
            "= dynamic.director(port = \"443\", ttl = 60s, ssl = true, ssl_verify_peer = false, ssl_verify_host = false);",
            "if (req.http.Nginx-Origin ~ \"(?i)^http://app$\") {",
            "set req.backend_hint = app_1;",
            "} else if (req.http.Nginx-Origin ~ \"(?i)^http://",
            "set req.backend_hint = dynamic_names.backend(regsub(",
            "set req.http.Nginx-Location = \"nginx\";",
            "set bereq.http.Host = std.tolower(regsub(bereq.http.Host,",
            "hash_data(\"https://\" + req.http.host);",
        ],
    );
    let told: Vec<String> = of(dynamic).notes.iter().map(MigratedNote::to_string).collect();
    assert_eq!(told.iter().filter(|note| note.contains("clients choose whom the cache asks")).count(), 1, "{told:?}");
    for (lines, reason) in [
        ("proxy_pass http://$host;", "is looked up by `resolver`, and there is none"),
        ("resolver 10.0.0.2; proxy_pass $arg_url;", "a variable says its scheme"),
        ("resolver 10.0.0.2; proxy_pass http://$nobody;", "$nobody has no counterpart"),
        ("proxy_pass http://app$is_args$args;", "it is no address"),
    ] {
        let text = format!("upstream app {{ server a:1; }}\nserver {{ location / {{ {lines} proxy_cache z; }} }}");
        let said = refused(Box::leak(text.into_boxed_str()));
        assert!(said.iter().any(|line| line.contains("proxy_pass: ") && line.contains(reason)), "{lines}: {said:?}");
    }
}

/// nginx checks no certificate of an origin unless it is told to, which is refused.
#[test]
fn origins_over_tls() {
    check("server { location / { proxy_pass https://a; } }", &[".ssl = 1;\n\t.ssl_verify_peer = 0;"]);
}

#[test]
fn wordpress_is_cached_by_way_of_try_files() {
    check(
        "fastcgi_cache_path /c keys_zone=WP:10m; server { root /srv; set $skip 0; if ($http_cookie ~* \"wordpress_logged_in\") { set $skip 1; }
         location / { try_files $uri $uri/ /index.php?$args; }
         location ~ \\.php$ { fastcgi_pass unix:/run/p; fastcgi_cache WP; fastcgi_cache_valid 200 1h; fastcgi_cache_bypass $skip; fastcgi_no_cache $skip; } }",
        &[
            "sub site1_loc1 {",
            "set req.backend_hint = b_127_0_0_1_8080;",
            "if (req.http.Nginx-Var-skip + \"\" !~ \"^0?$\") { set req.hash_always_miss = true; return (pass); }",
            "return (hash);",
            "sub vcl_backend_response {",
            "site1_loc1|site1_loc2",
            "beresp.http.Accept-Ranges",
        ],
    );
}

#[test]
fn no_server_is_no_site() {
    assert_eq!(
        migrate("n.conf", ("a", "1"), &Given(&[("n.conf", "events {}")])).map(|_| ()),
        Err("n.conf: there is no server in it".to_owned())
    );
}

/// The VCL of a server of these lines, whose zone is `z`, and its refusals in one text.
fn told(lines: &str) -> (String, String) {
    let text = format!("proxy_cache_path /c keys_zone=z:1m max_size=1g; server {{ {lines} }}");
    let text: &'static str = Box::leak(text.into_boxed_str());
    (of(text).vcl, refused(text).join("\n"))
}

/// nginx asks the rules of the location that has `try_files`, then those of the one that it leads to.
#[test]
fn try_files_keeps_the_rules_of_its_location() {
    let app = "location @app { proxy_pass http://a; proxy_cache z; proxy_cache_valid 200 1m; }";
    for rule in ["auth_basic x;", "limit_except GET { deny all; }", "auth_request /a;"] {
        let (vcl, refused) = told(&format!("location / {{ {rule} try_files $uri @app; }} {app}"));
        assert!(!vcl.contains("return (hash)") && refused.contains("the location stays with nginx"), "{rule}: {vcl}");
    }
    let (vcl, refused) = told(&format!("location / {{ allow 10.0.0.0/8; deny all; try_files $uri @app; }} {app}"));
    let (rule, hash) = (vcl.find("client.ip ~ addresses_1"), vcl.find("return (hash)"));
    assert!(refused.is_empty() && rule.is_some() && rule < hash, "{vcl}");
}

/// Without a key of its own a zone keeps responses by the URL that the origin is asked for, whatever Host was.
#[test]
fn nginx_has_its_own_key() {
    let (vcl, _) = told(
        "location / { proxy_pass http://a; proxy_cache z; if ($cookie_beta) { proxy_pass http://b; } } location /x/ { proxy_pass http://c/y/; proxy_cache z; }",
    );
    for wanted in [
        "hash_data(\"z\");\n\t\thash_data(\"http://a\");\n\t\thash_data(req.url);\n\t\treturn (lookup);",
        "hash_data(\"http://b\");\n\t\thash_data(req.url);",
        "hash_data(\"http://c\");\n\t\thash_data(regsub(req.url, \"^/x/\", \"/y/\"));",
    ] {
        assert!(vcl.contains(wanted), "{wanted}:\n{vcl}");
    }
}

/// nginx sees this cache's address: what it would let in by that is answered with 403.
#[test]
fn rules_of_addresses_that_nginx_would_decide_otherwise() {
    for lines in [
        "location / { satisfy any; allow 127.0.0.1; deny all; auth_basic x; proxy_pass http://a; }",
        "location / { satisfy any; allow 127.0.0.1; deny all; auth_basic x; root /srv; }",
        "set_real_ip_from 10.0.0.1; allow 127.0.0.1; deny all; location / { proxy_pass http://a; }",
        "location / { satisfy any; limit_except GET { allow 127.0.0.1; deny all; } proxy_pass http://a; }",
        "location / { if ($remote_addr != 127.0.0.1) { return 403; } if (-f $x) { return 404; } proxy_pass http://a; }",
        "if ($remote_addr != 127.0.0.1) { return 403; } if (-f $x) { return 404; } location / { proxy_pass http://a; }",
    ] {
        let (vcl, refused) = told(lines);
        assert!(refused.contains("answered with 403"), "{lines}: {refused}");
        assert!(vcl.contains("return (synth(403));") && !vcl.contains("return (hash)"), "{lines}: {vcl}");
    }
    let (vcl, refused) = told("location / { limit_except GET { allow 127.0.0.1; deny all; } proxy_pass http://a; }");
    assert_eq!(refused, "");
    let wanted = "if (req.method !~ \"^(GET|HEAD)$\") {\n\t\tif (client.ip ~ addresses_1) {\n\t\t} else {\n\t\t\treturn (synth(403));";
    assert!(vcl.contains(wanted), "{vcl}");
}

/// nginx caches nothing where the zone is empty, and fails where there is none of that name.
#[test]
fn a_zone_that_is_a_variable() {
    let (vcl, refused) = told("location / { proxy_pass http://a; proxy_cache $arg_zone; proxy_cache_valid 200 1m; }");
    let wanted = "if (req.http.Nginx-Zone == \"\" || req.http.Nginx-Zone == \"off\") { return (pass); }\n\tif (req.http.Nginx-Zone !~ \"^(z)$\") { return (synth(500)); }";
    assert!(refused.is_empty() && vcl.contains(wanted) && vcl.contains("hash_data(req.http.Nginx-Zone);"), "{vcl}");
}

/// The first byte of a range decides whether the cache is asked.
#[test]
fn ranges_behind_an_offset_are_passed() {
    let of = |offset| {
        told(&format!("location / {{ proxy_pass http://a; proxy_cache z; proxy_cache_max_range_offset {offset}; }}")).0
    };
    assert!(of("0").contains("if (req.http.Range) { return (pass); }"));
    assert!(of("1k").contains(", 1024) >= 1024) { return (pass); }"));
}

#[test]
fn methods_that_no_cache_keeps_are_refused() {
    let (_, refused) = told("location / { proxy_pass http://a; proxy_cache z; proxy_cache_methods GET POST; }");
    assert!(refused.contains("proxy_cache_methods: responses to GET and HEAD alone"), "{refused}");
}

/// An error begins the request again: at a named location, or at another URL.
#[test]
fn pages_of_errors() {
    let (vcl, refused) = told(
        "error_page 404 = @app; error_page 502 /down; proxy_intercept_errors on; location / { proxy_pass http://a; } location = /down { proxy_pass http://b; } location @app { return 410; }",
    );
    for wanted in [
        "if (req.http.Nginx-Named == \"site1_loc3\") {\n\t\tcall site1_loc3;",
        "if (!req.http.Nginx-Error && (!resp.http.Nginx-Failed && (resp.status == 404))) {",
        "return (synth(resp.status));",
        "set req.http.Nginx-Status = \"\" + resp.status;\n\t\t\tset req.http.Nginx-Url = \"/down\";",
        "set beresp.http.Nginx-Failed = \"1\";",
    ] {
        assert!(vcl.contains(wanted), "{wanted}: {vcl}");
    }
    assert_eq!(refused, "");
    for (page, reason) in [
        ("error_page 404 @no;", "there is no @no"),
        ("error_page x /a;", "x is no status"),
        ("error_page 404 /i; location /i { internal; root /srv; }", "take `internal` away"),
        ("error_page 404 @f; location @f { root /srv; }", "nginx gives @f to nobody"),
    ] {
        let (vcl, refused) = told(&format!("proxy_cache z; {page} location / {{ proxy_pass http://a; }}"));
        assert!(refused.contains(reason) && !vcl.contains("return (hash)"), "{page}: {refused}");
    }
}

/// Neither asked for nor kept: such a request has nothing to do with what is kept for others.
#[test]
fn what_is_bypassed_and_not_kept_is_passed() {
    let (vcl, _) = told(
        "location / { proxy_pass http://a; proxy_cache z; proxy_cache_bypass $arg_a $arg_b; proxy_no_cache $arg_b; }",
    );
    assert_eq!(vcl.matches("set req.hash_always_miss = true; }").count(), 1, "{vcl}");
    assert_eq!(vcl.matches("set req.hash_always_miss = true; return (pass); }").count(), 1, "{vcl}");
}

#[test]
fn vary_that_is_ignored_still_reaches_clients() {
    let (vcl, _) = told("location / { proxy_pass http://a; proxy_cache z; proxy_ignore_headers Vary; }");
    for wanted in ["set beresp.http.Nginx-Vary = beresp.http.Vary;", "set resp.http.Vary = resp.http.Nginx-Vary;"] {
        assert!(vcl.contains(wanted), "{wanted}: {vcl}");
    }
}

/// Without buffers nginx caches nothing, as a directive or the response says.
#[test]
fn what_is_not_buffered_is_not_cached() {
    let cached = "proxy_pass http://a; proxy_cache z; proxy_cache_valid 200 1h;";
    let (vcl, said) = told(&format!("proxy_buffering off; location / {{ {cached} }}"));
    assert!(!vcl.contains("return (hash)") && vcl.contains("return (pass)") && said.is_empty(), "{said} {vcl}");
    let (vcl, _) = told(&format!("proxy_buffering off; location / {{ proxy_buffering on; {cached} }}"));
    assert!(vcl.contains("return (hash)") && vcl.contains("beresp.http.X-Accel-Buffering ~ \"(?i)^no$\""), "{vcl}");
    let (vcl, _) = told(&format!("location / {{ {cached} proxy_ignore_headers X-Accel-Buffering; }}"));
    assert!(!vcl.contains("X-Accel-Buffering ~"), "{vcl}");
}

/// Addresses and numbers compare as texts.
#[test]
fn conditions_of_addresses_and_numbers() {
    for text in [
        "$remote_addr = 10.1.1.1",
        "$server_port = 443",
        "$remote_addr",
        "$remote_addr ~ ^10",
        "$server_addr != $remote_addr",
    ] {
        let (vcl, refused) = told(&format!("location / {{ if ({text}) {{ return 403; }} proxy_pass http://a; }}"));
        assert!(refused.is_empty() && vcl.contains("if (\"\" + "), "{text}: {refused} {vcl}");
    }
}

/// The directives of a text by name, with the numbers of those that are translated, without meaning and refused.
fn fates(text: &'static str) -> String {
    let mut migrated = of(text);
    migrated.close();
    migrated.account.short()
}

#[test]
fn each_directive_has_one_fate() {
    assert_eq!(
        fates(
            "user www; events { worker_connections 9; } http { types { a b; c d; } proxy_set_header X y; proxy_read_timeout 9s; echo_all on;
             upstream u { server a:1; server b:2; keepalive 4; } upstream idle { server c:1; } map $uri $m { default 1; }
             server { listen 80; server_name a; proxy_cache_valid 1m;
              location / { proxy_pass http://u; } location /t { proxy_read_timeout 1s; proxy_pass http://u; }
              location /s { root /srv; expires 1d; } location /r { return 301 /x; add_header A b; proxy_send_lowat 1; } } }"
        ),
        "add_header 1/0/0, echo_all 0/0/1, events 0/1/0, expires 0/1/0, http 1/0/0, keepalive 0/1/0, listen 1/0/0, location 4/0/0, map 0/1/0, \
         proxy_cache_valid 0/1/0, proxy_pass 0/2/0, proxy_read_timeout 0/2/0, proxy_send_lowat 0/1/0, proxy_set_header 0/1/0, return 1/0/0, \
         root 0/1/0, server 1/3/0, server_name 1/0/0, types 1/0/0, upstream 0/2/0, user 0/1/0, worker_connections 0/1/0"
    );
    assert_eq!(
        fates(
            "upstream u { server a:1; server b:2; keepalive 4; } proxy_read_timeout 9s; gzip_types a/b;
             server { proxy_set_header X y; location / { proxy_pass http://u; fastcgi_param A b; } location /t { proxy_read_timeout 1s; proxy_pass http://u; } }"
        ),
        "fastcgi_param 0/1/0, gzip_types 1/0/0, keepalive 0/1/0, location 2/0/0, proxy_pass 2/0/0, proxy_read_timeout 2/0/0, proxy_set_header 1/0/0, \
         server 3/0/0, upstream 1/0/0"
    );
}

/// A directive that holds in a location and that its translation doesn't read can't pass for translated, and nothing is cached beside it.
#[test]
fn a_directive_that_nothing_reads_is_refused() {
    for (lines, name) in [
        ("proxy_redirect http://$host/ /; location / { proxy_pass http://a; proxy_cache z; }", "proxy_redirect"),
        ("location / { proxy_pass http://a; proxy_cache z; proxy_cache_methods GET POST; }", "proxy_cache_methods"),
        ("location / { proxy_pass http://a; proxy_cache z; try_files $uri =404; }", "try_files"),
    ] {
        let (vcl, refused) = told(lines);
        assert!(refused.contains(&format!("refused: {name}: ")), "{lines}: {refused}");
        assert!(!vcl.contains("return (hash)"), "{lines}: {vcl}");
    }
    let (vcl, refused) = told(
        "proxy_redirect off; location / { proxy_pass http://a; proxy_cache z; try_files $uri =404; proxy_cache off; }",
    );
    assert!(refused.contains("try_files") && !vcl.contains("return (hash)"), "{vcl}");
}

#[test]
fn headers_to_the_origin_that_are_empty() {
    check(
        "server { listen 443 ssl; ssl_certificate /c; ssl_certificate_key /k; location / { proxy_set_header X-A $http_x_b; proxy_set_header X-C $remote_addr; proxy_pass http://a; } }",
        &[
            "set bereq.http.X-A = bereq.http.x-b; if (bereq.http.X-A == \"\") { unset bereq.http.X-A; }",
            "set bereq.http.X-C = client.ip;\n",
            "unset bereq.http.X-Forwarded-Proto;",
        ],
    );
}

#[test]
fn answers_that_depend_on_files() {
    let php = |valid: &str, test: &str| {
        told(&format!(
            "location ~ \\.php$ {{ if ({test} $document_root$uri) {{ return 404; }} fastcgi_pass a:1; fastcgi_cache z; fastcgi_cache_valid {valid}; }}"
        ))
    };
    let (vcl, refused) = php("200 1h", "!-f");
    assert!(refused.is_empty() && vcl.contains("return (hash)") && !vcl.contains("(synth(404))"), "{refused} {vcl}");
    for valid in ["any 1h", "200 404 1h"] {
        let (vcl, refused) = php(valid, "!-f");
        assert!(refused.contains("a 404 would be kept") && !vcl.contains("return (hash)"), "{valid}: {vcl}");
    }
    let (vcl, refused) =
        told("location / { if (-f $request_filename) { return 404; } proxy_pass http://a; proxy_cache z; }");
    assert!(refused.contains("if: only variables") && !vcl.contains("return (hash)"), "{vcl}");
}

#[test]
fn parentheses_of_conditions() {
    for condition in ["$uri ~ \"(a|b)\"", "$uri ~ (a|b)", " $uri ~ (a|b) "] {
        let (vcl, _) = told(&format!("location / {{ if ({condition}) {{ return 403; }} proxy_pass http://a; }}"));
        assert!(vcl.contains("~ \"(a|b)\""), "{condition}: {vcl}");
    }
}

#[test]
fn a_scheme_that_a_balancer_tells() {
    let migrated = of(
        "map $http_x_forwarded_proto $s { default $scheme; ~https$ https; } server { location / { proxy_set_header X-Forwarded-Proto $s; proxy_pass http://a; } }",
    );
    assert_eq!(migrated.arguments, ["-a", ":80"]);
}

#[test]
fn paths_with_quotes() {
    check("server { location '/a\"b' { proxy_pass http://a; } }", &["Nginx-Path ~ \"^/a\\x22b\""]);
}

/// Texts whose Content-Type doesn't name theirs get one.
#[test]
fn charsets() {
    let (vcl, refused) =
        told("charset utf-8; location / { proxy_pass http://a; } location /o { charset off; proxy_pass http://a; }");
    let wanted = "if (resp.http.Content-Type ~ \"(?i)^(text/xml|text/plain|text/vnd\\.wap\\.wml|application/javascript|application/rss\\+xml|text/html)$\" && resp.status != 301 && resp.status != 302) {\n\t\t\tset resp.http.Content-Type = resp.http.Content-Type + \"; charset=\" + \"utf-8\";";
    assert!(refused.is_empty() && vcl.contains(wanted), "{refused} {vcl}");
    let (vcl, refused) = told("charset utf-8; charset_types *; location / { proxy_pass http://a; }");
    assert!(refused.is_empty() && vcl.contains("!~ \"(?i)charset=\""), "{refused} {vcl}");
    assert!(super::known::fate("charset_map").is_some_and(|fate| matches!(fate, Fate::Refused(_))));
}

/// Timeouts are those of a location, and of no other one that asks the same servers.
#[test]
fn locations_with_other_timeouts_have_other_backends() {
    let migrated = of(
        "upstream u { server a:1; server b:1; } server { location / { proxy_pass http://u; } location /x { proxy_pass http://u; proxy_read_timeout 300s; }
         location /y { proxy_pass http://c; } location /z { proxy_pass http://c; proxy_connect_timeout 1s; } location /zz { proxy_pass http://c; } }",
    );
    for wanted in [
        "set req.backend_hint = u.backend();",
        "set req.backend_hint = u_3.backend();",
        "set req.backend_hint = c;",
        "set req.backend_hint = c_2;",
    ] {
        assert!(migrated.vcl.contains(wanted), "{wanted}:\n{}", migrated.vcl);
    }
    assert_eq!(migrated.vcl.matches(".first_byte_timeout = 300s;").count(), 2, "{}", migrated.vcl);
    assert_eq!(migrated.vcl.matches(".connect_timeout = 1s;").count(), 1, "{}", migrated.vcl);
    assert_eq!(migrated.vcl.matches("\nbackend ").count(), 6, "{}", migrated.vcl);
}

#[test]
fn slices() {
    const LINES: &str = "proxy_cache_path /c keys_zone=z:1m max_size=1g; server { proxy_cache z; proxy_cache_key $uri$slice_range;
        proxy_set_header Range $slice_range; proxy_cache_valid 200 1m; proxy_cache_valid 206 404 1h; location / { SLICE proxy_pass http://a; } }";
    // Varnish's compiler knows no slices, ours does.
    let of = |slice: &str| of(Box::leak(LINES.replace("SLICE", slice).into_boxed_str()));
    let vcl = of("slice 1m;").vcl;
    for wanted in [
        "set bereq.do_slice = true;\n\t\tset bereq.slice_size = 1024KB;",
        "hash_data(req.http.Nginx-Path);",
        "if (beresp.status == 200 || beresp.status == 404) {\n\t\t\tset beresp.ttl = 3600s;",
    ] {
        assert!(vcl.contains(wanted), "{wanted}:\n{vcl}");
    }
    for (slice, directive) in
        [("slice 3m;", "slice"), ("slice 1m; proxy_cache off;", "slice"), ("", "proxy_set_header")]
    {
        let migrated = of(slice);
        let is_refused = |note: &MigratedNote| note.directive == directive && note.to_string().contains("refused");
        assert!(migrated.notes.iter().any(is_refused), "{slice}: {:?}", migrated.notes);
        assert!(!migrated.vcl.contains("do_slice"), "{slice}: {}", migrated.vcl);
    }
}

#[test]
fn connections_that_nginx_closes() {
    for text in [
        "server { return 444; }",
        "server { location / { return 444; } location /a { proxy_pass http://a; } }",
        "server { if ($host = b) { return 444; } location / { root /w; } }",
    ] {
        let text: &'static str = text;
        let migrated = of(text);
        let is_told = |note: &MigratedNote| note.directive == "return" && note.text.contains("clients get 503");
        assert!(migrated.notes.iter().any(is_told), "{text}: {:?}", migrated.notes);
    }
}

#[test]
fn redirections_in_which_nginx_names_itself() {
    check(
        "server { root /w; }",
        &[
            "sub vcl_deliver {\n\tif (resp.http.Location ~ \"^http://[^/:]*:(8080)/\" && ",
            "set resp.http.Location = regsub(resp.http.Location, \"^http://[^/]*\", \"\");",
        ],
    );
    assert!(
        !of("server { location / { proxy_pass http://a; } }").vcl.contains("(resp.http.Location ~ \"^http://[^/:]*:(")
    );
}

#[test]
fn backslashes_in_uris() {
    check(
        "server { location /a/ { proxy_pass http://b/c\\\\0/; } }",
        &["set bereq.url = regsub(bereq.url, \"^/a/\", \"/c\\\\0/\");"],
    );
}

#[test]
fn names_of_zones_and_backends() {
    let migrated = of(
        "proxy_cache_path /a keys_zone=a-b:1m max_size=1g; proxy_cache_path /b keys_zone=a_b:1m max_size=1g; proxy_cache_path /c keys_zone=Transient:1m max_size=1g;
         upstream std { server a:1; } upstream STD { server b:1; } upstream site1 { server c:1; }
         server { location /a { proxy_pass http://std; } location /b { proxy_pass http://STD; } location /c { proxy_pass http://site1; } }",
    );
    let stores: Vec<&str> =
        migrated.arguments.iter().filter_map(|word| word.split_once("=file").map(|(name, _)| name)).collect();
    assert_eq!(stores, ["a_b", "a_b_2", "b_Transient"]);
    assert_eq!(migrated.vcl.matches("\nbackend ").count(), 4, "{}", migrated.vcl);
}

/// nginx picks a variant by a hash of its own: locations that ask for one stay with it.
#[test]
fn variants_that_nginx_picks() {
    let split = "split_clients \"${remote_addr}x\" $variant { 50% a; * b; }";
    for lines in [
        "location / { proxy_pass http://a; proxy_cache z; proxy_cache_key $uri$variant; }",
        "location / { proxy_pass http://a; proxy_cache z; proxy_set_header X-Variant $variant; }",
        "location / { proxy_pass http://a; proxy_cache z; add_header X-Variant ${variant}; }",
        "location / { proxy_pass http://a; proxy_cache z; proxy_no_cache $variant; }",
        "location / { proxy_pass http://$variant; proxy_cache z; }",
        "location / { rewrite ^ /$variant$uri break; proxy_pass http://a; proxy_cache z; }",
        "location / { if ($arg_a) { set $variant c; } proxy_pass http://a; proxy_cache z; proxy_cache_key $uri$variant; }",
    ] {
        let text: &'static str = Box::leak(
            format!("{split} server {{ {lines} location /o {{ proxy_pass http://a; proxy_cache z; }} }}")
                .into_boxed_str(),
        );
        let (vcl, said) = (of(text).vcl, refused(text).join("\n"));
        assert!(
            said.contains("the location stays with nginx") && (said.contains("variable") || said.contains("$variant")),
            "{lines}: {said}"
        );
        assert!(vcl.matches("return (hash)").count() == 1, "{lines}: {vcl}");
    }
    let lines = "location / { if ($variant = a) { return 403; } proxy_pass http://a; proxy_cache z; }";
    let text: &'static str = Box::leak(format!("{split} server {{ {lines} }}").into_boxed_str());
    let said = refused(text).join("\n");
    assert!(
        said.contains(
            "if: to nginx every client has this cache's address; `set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For;` in this server gives it the client's; until then these requests are answered with 403"
        ),
        "{said}"
    );
}

/// The notes of a server's lines that speak of the client's address.
fn judged(lines: &str) -> Vec<String> {
    let text = format!("limit_req_zone $binary_remote_addr zone=r:1m;\nserver {{ {lines} }}");
    let notes = of(Box::leak(text.into_boxed_str())).notes;
    notes.iter().map(MigratedNote::to_string).filter(|text| text.contains("sees the cache's address")).collect()
}

/// nginx goes on counting clients in locations that stay with it, and sees one client alone.
#[test]
fn limits_of_clients_that_nginx_no_longer_sees() {
    let advice = "`set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For;` in this server gives it the client's";
    let limit = format!(
        "n.conf:2: note: limit_req: nginx sees the cache's address there: all clients share one limit; {advice}"
    );
    assert_eq!(judged("location / { limit_req zone=r burst=5; root /srv; }"), std::slice::from_ref(&limit));
    assert_eq!(judged("location / { limit_req zone=r; proxy_pass http://a; proxy_cache z; }"), [limit]);
    assert_eq!(judged("limit_req zone=r; location / { proxy_pass http://a; limit_req off; }").len(), 0);
    assert_eq!(judged("location / { allow 10.0.0.0/8; deny all; root /srv; }").len(), 1);
    assert_eq!(
        judged("location / { allow 10.0.0.0/8; deny all; proxy_set_header A $remote_addr; proxy_pass http://a; }")
            .len(),
        0
    );
    let known = "set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For;";
    assert_eq!(judged(&format!("{known} location / {{ limit_req zone=r; root /srv; }}")).len(), 0);
}

/// nginx that knows its clients applies its own rules to them.
#[test]
fn rules_of_addresses_are_left_to_nginx_that_knows_its_clients() {
    let known = "set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For;";
    for lines in [
        "location / { satisfy any; allow 127.0.0.1; deny all; auth_basic x; root /srv; }",
        "location / { allow 127.0.0.1; deny all; proxy_pass http://a; }",
        "location / { if ($remote_addr != 127.0.0.1) { return 403; } if (-f $x) { return 404; } proxy_pass http://a; }",
    ] {
        let (vcl, refused) = told(&format!("{known} {lines}"));
        assert!(!refused.contains("answered with 403"), "{lines}: {refused}");
        assert!(
            !vcl.contains("synth(403)") && vcl.contains("set req.backend_hint = b_127_0_0_1_8080;"),
            "{lines}: {vcl}"
        );
    }
}

/// A zone that a variable names has the name that nginx knows it by.
#[test]
fn zones_that_variables_name() {
    check(
        "proxy_cache_path /c keys_zone=my-zone:1m inactive=1h; proxy_cache_path /d keys_zone=a.b:1m; map $host $z { default my-zone; }
         server { location / { proxy_pass http://a; proxy_cache $z; } location /s { proxy_pass http://a; proxy_cache my-zone; proxy_cache_use_stale error; } }",
        &["if (req.http.Nginx-Zone !~ \"^(my-zone|a\\.b)$\") { return (synth(500)); }", "set req.grace = 3600s;"],
    );
    let migrated = of("proxy_cache_path /c keys_zone=my-zone:1m max_size=1g; server { return 200; }");
    assert_eq!(migrated.arguments[2..], ["-s", "my_zone=file,/var/lib/varnish/my_zone.store,1g,keep"]);
}

/// Sites with a place `WORD` for any text.
const WITH_A_WORD: [&str; 30] = [
    "server { server_name 'WORD'; location / { proxy_pass http://a; } }",
    "server { server_name a '~WORD'; location / { proxy_pass http://a; } }",
    "server { listen 'WORD'; location / { proxy_pass http://a; } }",
    "server { listen 'a WORD:80'; listen 'unix:/WORD'; location / { proxy_pass http://a; } }",
    "server { listen 443 ssl; ssl_certificate 'WORD'; ssl_certificate_key 'WORD'; location / { proxy_pass http://a; } }",
    "upstream 'WORD' { server a:1; server b:1; } server { location / { proxy_pass 'http://WORD'; } }",
    "upstream u { server 'aWORD'; } server { location / { proxy_pass http://u; } }",
    "upstream u { server 'a:1WORD'; } server { location / { proxy_pass http://u; } }",
    "upstream u { server 'unix:/WORD'; } server { location / { proxy_pass http://u; } }",
    "upstream u { server a 'max_conns=1WORD'; } server { location / { proxy_pass http://u; } }",
    "upstream u { server a 'weight=1WORD'; server b; } server { location / { proxy_pass http://u; } }",
    "server { location / { proxy_pass 'http://aWORD:80'; } }",
    "server { location / { proxy_pass 'http://unix:/WORD:/x'; } }",
    "server { location / { proxy_pass 'http://a/WORD'; proxy_redirect 'WORD' 'WORD'; } }",
    "server { location 'WORD' { proxy_pass http://a; } location = '/WORD' { root 'WORD'; } location ~ 'WORD' { return 301 'WORD'; } }",
    "server { location / { proxy_pass http://a; proxy_cache 'WORD'; proxy_cache_key 'WORD'; proxy_cache_valid 'WORD' 1m; } }",
    "server { location / { proxy_pass http://a; proxy_cache z; proxy_cache_use_stale 'http_500WORD'; proxy_cache_valid 1m; } }",
    "server { location / { proxy_pass http://a; proxy_cache z; proxy_cache_bypass '$WORD'; proxy_no_cache 'WORD'; } }",
    "server { location / { proxy_pass http://a; proxy_cache z; proxy_cache_methods 'WORD'; proxy_cache_max_range_offset 'WORD'; } }",
    "server { location / { proxy_pass http://a; proxy_set_header 'WORD' b; proxy_hide_header 'WORD'; } }",
    "server { location / { proxy_pass http://a; proxy_set_header b 'WORD'; add_header c 'WORD'; add_header 'WORD' c; } }",
    "server { location / { proxy_pass http://a; proxy_read_timeout 'WORD'; client_max_body_size 'WORD'; expires 'WORD'; } }",
    "server { location / { default_type 'WORD'; types { 'WORD' 'WORD'; } return 200 'WORD'; } }",
    "server { gzip on; gzip_types 'WORD'; charset 'WORD'; charset_types 'WORD'; location / { proxy_pass http://a; } }",
    "server { error_page 404 'WORD'; error_page 'WORD' /x; location / { proxy_pass http://a; } }",
    "server { set $x 'WORD'; set '$WORD' y; rewrite 'WORD' 'WORD' 'WORD'; if ($x = 'WORD') { return 403; } location / { proxy_pass http://a; } }",
    "map $host '$WORD' { default 1; 'WORD' 'WORD'; '~WORD' 2; } server { location / { proxy_pass http://a; proxy_set_header X '${WORD}'; } }",
    "geo $g { default 'WORD'; 'WORD' 1; 10.0.0.0/8 'WORD'; } server { location / { proxy_pass http://a; proxy_set_header X $g; } }",
    "server { location / { allow 'WORD'; limit_except 'WORD' { deny all; } proxy_pass http://a; } }",
    "proxy_cache_path /c 'keys_zone=WORD:1m' 'max_size=WORD'; map $host $z { default a; } server { location / { proxy_pass http://a; proxy_cache $z; } }",
];

/// The lines that begin a subroutine in the VCL of a site with a word, which compiles; none if the word is an error.
fn subs(site: &str, word: &str) -> Vec<String> {
    let quoted = word.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n");
    let text: &'static str = Box::leak(site.replace("WORD", &quoted).into_boxed_str());
    let files: &'static [(&str, &str)] = Box::leak(Box::new([("n.conf", text)]));
    let migrated = migrate("n.conf", ("127.0.0.1", "8080"), &Given(files));
    let Ok(migrated) = migrated else { return Vec::new() };
    assert!(migrated.tls.iter().all(|line| !line.contains('\n')), "{:?}", migrated.tls);
    assert!(migrated.tls.iter().all(|line| matches!(line.matches('"').count(), 2 | 4)), "{:?}", migrated.tls);
    let vcl = crate::tests::compiled(migrated).vcl;
    vcl.lines().filter(|line| line.starts_with("sub ")).map(str::to_owned).collect()
}

const ODD_WORDS: [&str; 13] = [
    "\"; } sub vcl_recv { return (pass); } #",
    "a\"; }\nsub vcl_recv { return (pass); }\n#",
    "\nsub vcl_recv { return (pass); }\n#",
    "\"}; } sub vcl_recv { return (pass); } #",
    "\"\"\"; } sub vcl_recv { return (pass); } #",
    " || true",
    ".0); new x = directors.random(",
    "; } sub vcl_recv { return (pass); } sub b {",
    "a\\",
    "{\"",
    "\"",
    "\r\t",
    "$; } sub vcl_recv { return (pass); } #",
];

/// No text of a configuration becomes VCL of its own.
#[test]
fn texts_stay_texts() {
    for site in WITH_A_WORD {
        for word in ODD_WORDS {
            let recv = subs(site, word).iter().filter(|line| line.contains("vcl_recv")).count();
            assert!(recv <= 1, "{site} {word:?}");
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_stays_a_text(word in "[a-z\"'{}#;|\\n\\\\$()/ .:-]{0,12}", at in 0..WITH_A_WORD.len()) {
        let recv = subs(WITH_A_WORD[at], &word).iter().filter(|line| line.contains("vcl_recv")).count();
        assert!(recv <= 1, "{word:?}");
    }
}

/// nginx doesn't heed the host bits of a network; an acl has none.
#[test]
fn networks_with_host_bits() {
    let migrated = of(
        "geo $g { default 0;\n 10.1.2.3/8 1; } server { location / {\n allow 192.168.1.1/24; deny all; proxy_pass http://a; proxy_set_header G $g; } }",
    );
    for wanted in ["\"192.168.1.0\"/24;", "\"10.0.0.0\"/8;"] {
        assert!(migrated.vcl.contains(wanted), "{wanted}: {}", migrated.vcl);
    }
    let notes: Vec<String> = migrated.notes.iter().map(MigratedNote::to_string).collect();
    for wanted in [
        "n.conf:2: note: geo: the host bits of its network mean nothing: it is 10.0.0.0/8",
        "n.conf:3: note: allow: the host bits of its network mean nothing: it is 192.168.1.0/24",
    ] {
        assert!(notes.iter().any(|note| note == wanted), "{wanted}: {notes:#?}");
    }
}

/// A table is asked after those that it asks for itself, whoever else asks for them.
#[test]
fn tables_that_ask_for_tables() {
    check(
        "map $b $c { x 1; } map $host $b { y 2; } map $b $a { z 3; } server { location / { proxy_pass http://o; proxy_set_header X $a$c; } }",
        &["call nginx_map_b;", "call nginx_map_a;", "call nginx_map_c;"],
    );
}

/// A chain of tables whose end can't be translated: none of them is known, and each was tried twice at most.
#[test]
fn a_long_chain_of_tables() {
    let end = |source: &str| {
        let chain: String = (1..4000).map(|i| format!("map $v{i} $v{} {{ a b; }}\n", i - 1)).collect();
        let text = format!(
            "{chain} map {source} $v3999 {{ a b; }} server {{ location / {{ proxy_pass http://o; proxy_set_header X $v0; }} }}"
        );
        let files: &'static [(&str, &str)] = Box::leak(Box::new([("n.conf", &*text.leak())]));
        migrate("n.conf", ("127.0.0.1", "8080"), &Given(files)).expect("nginx's language").vcl
    };
    for unknown in ["$nosuch", "$geoip"] {
        assert_eq!(end(unknown).matches("call nginx_map_").count(), 0);
    }
    assert_eq!(end("$host").matches("call nginx_map_").count(), 4000);
}

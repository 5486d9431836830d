// SPDX-License-Identifier: BSD-2-Clause
//! Command lines, and texts that are no configuration.

use super::*;
use std::collections::BTreeSet;

/// A result as it is, once its VCL has compiled.
pub fn compiled(migrated: Migrated) -> Migrated {
    if let Err(errors) = compile(&migrated.vcl, vmods::MODULES) {
        panic!("{errors}\n{}", migrated.vcl);
    }
    migrated
}

fn check(words: &str, expect: &str) {
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let got = match parse(&words) {
        Ok(Some(o)) => format!("{:?} {} {} {:?} {} {}", o.from, o.file, o.origin, o.out, o.is_json, o.is_report),
        Ok(None) => "help".to_owned(),
        Err(error) => error,
    };
    assert_eq!(got, expect);
}

#[test]
fn words() {
    check("nginx a.conf", "Nginx a.conf 127.0.0.1:8080 None false false");
    check("--format=json apache2 a --origin [::1]:81 --out d", "Apache a [::1]:81 Some(\"d\") true false");
    check("nginx --report a", "Nginx a 127.0.0.1:8080 None false true");
    check("nginx", "whose configuration, and which file?");
    check("ngnix a", "nothing is known of \"ngnix\": is \"nginx\" meant?; VCL before 4.0 is for `lacquer vcl migrate`");
    check("squid a --origin b", "--origin b: HOST:PORT is wanted");
    check("squid -h", "help");
}

#[test]
fn no_line_is_too_short() {
    for from in [From::Nginx, From::Apache, From::Squid] {
        let source = match from {
            From::Nginx => concat!(
                include_str!("nginx.rs"),
                include_str!("nginx/admit.rs"),
                include_str!("nginx/asked.rs"),
                include_str!("nginx/cached.rs"),
                include_str!("nginx/capture.rs"),
                include_str!("nginx/kept.rs"),
                include_str!("nginx/known.rs"),
                include_str!("nginx/leaf.rs"),
                include_str!("nginx/location.rs"),
                include_str!("nginx/response.rs"),
                include_str!("nginx/script.rs"),
                include_str!("nginx/table.rs"),
                include_str!("nginx/site.rs"),
                include_str!("nginx/upstream.rs")
            ),
            From::Apache => concat!(
                include_str!("apache.rs"),
                include_str!("apache/access.rs"),
                include_str!("apache/cache.rs"),
                include_str!("apache/known.rs"),
                include_str!("apache/listen.rs"),
                include_str!("apache/reader.rs"),
                include_str!("apache/section.rs"),
                include_str!("apache/settings.rs"),
                include_str!("apache/unseen.rs")
            ),
            // Shell and hitch files have tests of their own.
            From::Varnish | From::Hitch => continue,
            From::Squid => concat!(
                include_str!("squid.rs"),
                include_str!("squid/acl.rs"),
                include_str!("squid/peer.rs"),
                include_str!("squid/port.rs"),
                include_str!("squid/refresh.rs"),
                include_str!("squid/response.rs"),
                include_str!("squid/rule.rs")
            ),
        };
        let is_name = |word: &&str| !word.is_empty() && word.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
        let names: BTreeSet<&str> = source.split('"').filter(is_name).collect();
        assert!(names.len() > 20);
        let mut seen = BTreeSet::new();
        for name in names {
            for words in
                ["", " a", " \u{e9}", " a b", " a b c", " all allow", " $", " ~", " -i", " 1\u{e9}", " \"", " = ."]
            {
                let line = match from {
                    From::Nginx => format!(
                        "{name}{words}; server {{ {name}{words}; location / {{ {name}{words}; }} }} upstream u {{ {name}{words}; }}"
                    ),
                    From::Apache | From::Squid | From::Varnish | From::Hitch => {
                        format!("{name}{words}\n<{name}{words}>\n</{name}>\n")
                    }
                };
                translate(from, line, &mut seen);
            }
        }
    }
}

/// Translates a text; a program that isn't among those that were `seen` is compiled.
fn translate(from: From, text: String, seen: &mut BTreeSet<String>) {
    let options =
        MigrateOptions { from, file: "f".to_owned(), ..parse(&["squid".to_owned(), "f".to_owned()]).unwrap().unwrap() };
    // The output is VCL, whether lines were refused or not.
    if let Ok(migrated) = migrate(&options, &OneText(text), vmods::MODULES)
        && seen.insert(migrated.vcl.clone())
    {
        compiled(migrated);
    }
}

/// The error of a text, or an empty text.
fn error_of(from: From, text: &str) -> String {
    let options =
        MigrateOptions { from, file: "f".to_owned(), ..parse(&["squid".to_owned(), "f".to_owned()]).unwrap().unwrap() };
    migrate(&options, &OneText(text.to_owned()), vmods::MODULES).err().unwrap_or_default()
}

#[test]
fn bad_input_is_named_by_file_and_line() {
    for (from, text, error) in [
        (From::Nginx, "\ninclude f;", "f:2: includes nest deeper than 20"),
        (From::Squid, "\ninclude f", "f:2: includes nest deeper than 16"),
        (From::Apache, "\nInclude f", "f:2: includes nest deeper than 20"),
        (From::Nginx, "\ninclude g;", "f:2: include: g: not there"),
        (From::Apache, "Include g", "f:1: Include: g: not there"),
        (From::Nginx, "http {\n server {", "f:2: server { isn't closed: a } is missing"),
        (From::Nginx, &format!("http {{\n{}", "a {".repeat(1000)), "f:2: blocks nest deeper than 20"),
        (From::Apache, "Listen 80\n<Location /a>", "f:2: <location> isn't closed: </location> is missing"),
        (From::Apache, "<If x>\n<Files a>\n</If>", "f:3: </if> stands where <files> of f:2 is open"),
        (From::Apache, "Listen 80\n</VirtualHost>", "f:2: </virtualhost> closes no section"),
        (From::Apache, &"<If x>\n".repeat(1000), "f:65: sections nest deeper than 64"),
        (
            From::Nginx,
            "server { location ~ ( { } }",
            "f:1: location: the regex ( isn't taken: missing closing parenthesis",
        ),
        (
            From::Nginx,
            "server {\n server_name ~*a[; }",
            "f:2: server_name: the regex (?i)a[ isn't taken: missing terminating ] for character class",
        ),
        (
            From::Nginx,
            "map $uri $m {\n ~*( 1; }\nserver { }",
            "f:2: map: the regex (?i)( isn't taken: missing closing parenthesis",
        ),
        (
            From::Nginx,
            "server {\n if ($uri ~ \"[\") { return 403; } }",
            "f:2: if: the regex [ isn't taken: missing terminating ] for character class",
        ),
        (From::Nginx, "server { rewrite ( /b; }", "f:1: rewrite: the regex ( isn't taken: missing closing parenthesis"),
        (
            From::Nginx,
            &format!("server {{\n location ~ {} {{ }} }}", "(a|b)".repeat(20_000)),
            "f:2: location: the regex (a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)... isn't taken: regular expression is too large",
        ),
        (From::Squid, "\nacl a url_regex -i a b(", "f:2: acl: the regex b( isn't taken: missing closing parenthesis"),
        (
            From::Squid,
            "acl a req_header X-( [",
            "f:1: acl: the regex [ isn't taken: missing terminating ] for character class",
        ),
        (
            From::Squid,
            "refresh_pattern -i ( 1 2% 3",
            "f:1: refresh_pattern: the regex ( isn't taken: missing closing parenthesis",
        ),
        (
            From::Apache,
            "<LocationMatch \"(\">\n</LocationMatch>",
            "f:1: locationmatch: the regex ( isn't taken: missing closing parenthesis",
        ),
        (
            From::Apache,
            "<Location ~ (>\n</Location>",
            "f:1: location: the regex ( isn't taken: missing closing parenthesis",
        ),
        (
            From::Apache,
            &"<VirtualHost *:80>\n</VirtualHost>\n".repeat(2001),
            "f:4001: more than 2000 virtual hosts are too many for one VCL",
        ),
        (From::Squid, &"via on\n".repeat(60_000), "f:50001: more than 50000 directives are no configuration"),
        (From::Nginx, &"a;\n".repeat(60_000), "f:50001: more than 50000 directives are no configuration"),
        (From::Apache, &"A b\n".repeat(60_000), "f:50001: more than 50000 directives are no configuration"),
    ] {
        assert_eq!(error_of(from, text), error);
    }
}

/// Lists of many names are several regexes, and the VCL compiles.
#[test]
fn long_lists_compile() {
    let hosts: String = (0..2000).map(|i| format!(" h{i}.example.org")).collect();
    for (from, text) in [
        (
            From::Squid,
            format!(
                "http_port 80 accel\nacl d dstdomain{hosts}\nacl u url_regex{hosts}\nhttp_access deny u\nhttp_access allow d\n"
            ),
        ),
        (
            From::Nginx,
            format!(
                "server {{ server_name{hosts}; location / {{ proxy_pass http://a; }} }} server {{ location / {{ proxy_pass http://b; }} }}"
            ),
        ),
        (
            From::Apache,
            format!(
                "Listen 80\n<VirtualHost *:80>\nServerAlias{hosts}\n</VirtualHost>\n<VirtualHost *:80>\nServerAlias{hosts} x\nCacheEnable disk /\n</VirtualHost>\n"
            ),
        ),
    ] {
        translate(from, text, &mut BTreeSet::new());
    }
}

/// A configuration that ends anywhere is an error, or what is left of it compiles.
#[test]
fn truncated_configurations() {
    const NGINX: &str = "map $uri $m { default 0; ~a 1; } http { upstream u { server a:1 weight=2; server b; } server { listen 443 ssl; server_name *.a \"b\"; \
        if ($http_cookie ~* \"x(y)\") { set $s 1; } location ~ \\.php$ { proxy_pass http://u/x; proxy_cache z; proxy_cache_valid 200 1m; add_header A ${m}b always; } } }";
    const SQUID: &str = "http_port 80 accel defaultsite=a vhost # b\ncache_peer 10.0.0.1 parent 80 0 originserver name=p round-robin\nacl a src 10.0.0.0/8 \\\n 192.0.2.1-192.0.2.9\n\
        acl h req_header X-A -i ^b$\nhttp_access allow a !h\ncache deny h\nrefresh_pattern -i \\.png$ 10 20% 4320 override-expire\ncache_mem 8 MB\n";
    const APACHE: &str = "Listen 80\n<VirtualHost *:80>\nServerName a.org\n<Location \"/a b\">\nCacheEnable disk\nRequire ip 10.0.0.0/8 \\\n 127.0.0.1\n</Location>\n\
        RewriteCond %{HTTP_REFERER} !^$ [NC]\nCacheMaxExpire 60\n</VirtualHost>\nLogFormat \"%h \\\"%r\\\"\" c\n";
    let mut seen = BTreeSet::new();
    for (from, text) in [(From::Nginx, NGINX), (From::Squid, SQUID), (From::Apache, APACHE)] {
        (0..=text.len()).for_each(|end| translate(from, text[..end].to_owned(), &mut seen));
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_a_configuration_or_none(
        from in proptest::sample::select(vec![From::Nginx, From::Apache, From::Squid]),
        text in "((acl|http_access|cache_peer|refresh_pattern|server|location|proxy_pass|expires|map|listen|<VirtualHost|CacheEnable|\\PC{0,4})[ \n;{}\"$~]{0,2}){0,12}",
    ) {
        translate(from, text, &mut BTreeSet::new());
    }
}

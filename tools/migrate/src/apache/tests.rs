// SPDX-License-Identifier: BSD-2-Clause
//! Configurations of Apache and what comes of them.

use super::reader::with_port;
use super::*;
use crate::source::Given;

fn of(text: &'static str) -> Migrated {
    let files: &'static [(&str, &str)] =
        Box::leak(Box::new([("/a/apache2.conf", text), ("/a/ports.conf", "Listen 80\n")]));
    crate::tests::compiled(migrate("/a/apache2.conf", ("127.0.0.1", "8081"), &Given(files)).expect("Apache's language"))
}

#[test]
fn a_site_moves_to_another_port() {
    let migrated = of(
        "Include ports.conf\nLogFormat \"%h %l %u %t \\\"%r\\\" %>s %b\" common\n<VirtualHost *:80>\n  ServerName a.org\n</VirtualHost>\n",
    );
    assert_eq!(migrated.arguments, ["-a", ":80"]);
    assert_eq!(
        migrated.files,
        [
            ("/a/ports.conf".to_owned(), "Listen 127.0.0.1:8081\n".to_owned()),
            (
                "/a/apache2.conf".to_owned(),
                "Include ports.conf\nLogFormat \"%{X-Forwarded-For}i %l %u %t \\\"%r\\\" %>s %b\" common\n<VirtualHost *:8081>\n  ServerName a.org\n</VirtualHost>\n".to_owned()
            ),
        ]
    );
    assert!(migrated.vcl.contains(".port = \"8081\";"), "{}", migrated.vcl);
}

#[test]
fn tls_moves_to_the_cache() {
    let migrated = of(
        "Listen 443\n<VirtualHost 10.0.0.1:443>\nSSLCertificateFile /c.pem\nSSLCertificateKeyFile /k.pem\n</VirtualHost>\n",
    );
    assert_eq!(migrated.tls, ["frontend = \"*:443\"", "pem-file = { cert = \"/c.pem\" private-key = \"/k.pem\" }"]);
    assert!(!migrated.notes.iter().any(|note| note.to_string().contains(": refused: ")), "{:?}", migrated.notes);
    for wanted in [
        "backend apache_443 {",
        ".port = \"8082\";",
        "if (std.port(local.ip) == 443) {\n\t\tset req.backend_hint = apache_443;",
    ] {
        assert!(migrated.vcl.contains(wanted), "{wanted}: {}", migrated.vcl);
    }
}

/// Behind the cache Apache has a port for each of TLS, speaks no TLS there, and its rules and programs see https all the same.
#[test]
fn apache_speaks_no_tls_behind_the_cache() {
    const HOST: &str = "ServerName a.org\nSSLEngine on\nSSLRequireSSL\nRequire ssl\nRewriteCond %{HTTPS} !=on\nRewriteRule ^ https://a.org/ [R]\n";
    let text = format!(
        "Listen 80\nListen 443\nListen [::1]:443\n<VirtualHost *:80>\n{HOST}</VirtualHost>\n<VirtualHost _default_:443>\n{HOST}</VirtualHost>\n"
    );
    let migrated = of(Box::leak(text.replacen("SSLEngine on\nSSLRequireSSL\nRequire ssl\n", "", 1).into_boxed_str()));
    assert_eq!(
        migrated.files[0].1,
        "Listen 127.0.0.1:8081\nListen 127.0.0.1:8082\n# Listen 127.0.0.1:8082\n<VirtualHost *:8081>\nServerName a.org\nRewriteCond %{HTTPS} !=on\n\
         RewriteRule ^ https://a.org/ [R]\n</VirtualHost>\n<VirtualHost _default_:8082>\nServerName https://a.org\n<IfModule setenvif_module>\n\
         SetEnvIf Request_URI ^ HTTPS=on\n</IfModule>\n# SSLRequireSSL\nRequire all granted\nRewriteCond on !=on\nRewriteRule ^ https://a.org/ [R]\n</VirtualHost>\n"
    );
    assert!(!migrated.notes.iter().any(|note| note.to_string().contains(": refused: ")), "{:?}", migrated.notes);
    let both = of(
        "Listen 80\nListen 443\n<VirtualHost *:80 *:443>\nRewriteCond %{HTTPS} off\nSSLRequireSSL\n</VirtualHost>\n",
    );
    let refused: Vec<&str> = both
        .notes
        .iter()
        .filter(|note| note.to_string().contains(": refused: "))
        .map(|note| note.directive.as_str())
        .collect();
    assert_eq!(refused, ["RewriteCond", "SSLRequireSSL"]);
}

/// Beyond CacheMaxFileSize mod_cache_disk keeps nothing.
#[test]
fn the_largest_response() {
    let of = |lines: &str| of(Box::leak(format!("Listen 80\nCacheEnable disk /\n{lines}").into_boxed_str())).vcl;
    assert!(!of("").contains("Content-Length"));
    assert!(of("CacheMaxFileSize 10\n").contains("std.real(beresp.http.Content-Length, 0.0) > 10.0"));
    let host = "<VirtualHost *:80>\nServerName a\nCacheMaxFileSize 10\n</VirtualHost>\n<VirtualHost *:80>\nServerName b\n</VirtualHost>\n";
    assert!(of(host).contains("std.real(beresp.http.Content-Length, 0.0) > std.real(cookie.get(\"bytes\"), 0.0)"));
}

/// Virtual hosts of TLS are told apart among themselves, and their lines act on nothing else.
#[test]
fn lines_of_tls_stay_in_their_hosts() {
    const PLAIN: &str = "Listen 80\nListen 443\n<VirtualHost *:80>\nServerName a.org\n</VirtualHost>\n";
    let of = |text: String| of(Box::leak(text.into_boxed_str()));
    let lines = "ServerName a.org\nCacheEnable disk /\nCacheDisable /private\n</VirtualHost>\n";
    let vcl = of(format!("{PLAIN}<VirtualHost *:443>\n{lines}")).vcl;
    assert!(vcl.contains("if (!(std.port(local.ip) == 443)) { return (pass); }"), "{vcl}");
    assert!(vcl.contains("if (std.port(local.ip) == 443 && req.url ~ \"^/private\") {\n\t\treturn (pass);"), "{vcl}");
    assert!(!vcl.contains("synth(403)"), "{vcl}");
    let second = "<VirtualHost *:443>\nServerName b.org\n</VirtualHost>\n";
    let vcl = of(format!("{PLAIN}{second}<VirtualHost 10.0.0.1:443>\n{lines}")).vcl;
    let name = |is: &str, name: &str| format!("req.http.Host {is}~ \"(?i)^({name}\\.org)\\.?(:\\d*)?$\"");
    let condition = format!("std.port(local.ip) == 443 && {} && {}", name("", "a"), name("!", "b"));
    assert!(vcl.contains(&format!("if (!({condition})) {{ return (pass); }}")), "{condition}: {vcl}");
    // A host of both keeps its other address.
    let both = of(format!("Listen 80\nListen 443\n<VirtualHost *:80 *:443>\n{lines}"));
    assert!(both.files[0].1.contains("\n<VirtualHost *:8081 *:8082>\n"), "{:?}", both.files);
    assert!(!both.vcl.contains("std.port(local.ip) == 443 &&"), "{}", both.vcl);
}

/// A request is the first host's whose names it fits, also where another host's names fit as well.
#[test]
fn names_that_several_hosts_have() {
    let vcl = of(
        "Listen 80\nCacheEnable disk /\n<VirtualHost *:80>\nServerName a.org\nServerAlias *.a.org\nCacheDisable /private\n</VirtualHost>\n\
         <VirtualHost *:80>\nServerName x.a.org\nCacheDisable /x\n</VirtualHost>\n<VirtualHost *:80>\nServerName A.ORG\n</VirtualHost>\n",
    )
    .vcl;
    let first = "(req.http.Host ~ \"(?i)^(a\\.org|.*\\.a\\.org)\\.?(:\\d*)?$\" || req.http.Host !~ \"(?i)^(x\\.a\\.org)\\.?(:\\d*)?$\")";
    let second = "req.http.Host ~ \"(?i)^(x\\.a\\.org)\\.?(:\\d*)?$\" && req.http.Host !~ \"(?i)^(a\\.org|.*\\.a\\.org)\\.?(:\\d*)?$\"";
    assert!(vcl.contains(&format!("({first} && req.url ~ \"^/private\") || ({second} && req.url ~ \"^/x\")")), "{vcl}");
}

/// Ports are of TLS if a line says so, wherever that stands.
#[test]
fn ports_of_tls() {
    let migrated = of(
        "Listen 80\nListen 8443\nListen 9443 https\nCacheEnable disk /\n<VirtualHost *:80>\nServerName a.org\n</VirtualHost>\n\
         <VirtualHost *:8443>\nServerName a.org\nSSLEngine on\nSSLCertificateFile /c.pem\nCacheDisable /private\n</VirtualHost>\n",
    );
    assert_eq!(migrated.arguments[..2], ["-a", ":80"]);
    assert_eq!(migrated.tls, ["frontend = \"*:8443\"", "frontend = \"*:9443\"", "pem-file = \"/c.pem\""]);
    assert!(migrated.vcl.contains("if (std.port(local.ip) == 8443 && req.url ~ \"^/private\")"), "{}", migrated.vcl);
    // A redirection from http to https isn't the page itself.
    assert!(migrated.vcl.contains("hash_data(req.http.X-Forwarded-Proto);"), "{}", migrated.vcl);
    let lines = "RequestHeader set X-Forwarded-Proto expr=%{REQUEST_SCHEME}\n";
    let told = |listen: &str| {
        let notes = of(Box::leak(format!("Listen {listen}\n{lines}").into_boxed_str())).notes;
        notes.iter().any(|note| note.to_string().contains(":2: note: RequestHeader: Apache no longer sees TLS"))
    };
    assert!(told("443") && !told("80"));
    let text = &migrated.files[0].1;
    assert!(text.contains("Listen 127.0.0.1:8081\nListen 127.0.0.1:8082\nListen 127.0.0.1:8083\n"), "{text}");
}

/// Conditions on requests: where mod_cache runs behind all other rules, a hit here would pass by conditions on what a request says beside its URL.
#[test]
fn conditions_on_requests() {
    let vcl = |lines: &str, is_quick: &str| {
        let text = format!("CacheQuickHandler {is_quick}\nCacheEnable disk /\n{lines}");
        of(Box::leak(text.into_boxed_str())).vcl
    };
    let passes = "Apache-Path ~ \"^/a(/|$)\") {\n\t\treturn (pass);";
    for lines in [
        "<If \"%{HTTP_COOKIE} !~ /in/\">\nRequire all denied\n</If>",
        "RewriteCond %{HTTP:X-Role} !admin\nRewriteRule ^ - [F]",
        "RewriteCond %{TIME_HOUR} <9\nRewriteRule ^ - [F]",
        "RewriteCond expr \"%{HTTP_COOKIE} !~ /in/\"\nRewriteRule ^ - [F]",
        "SetEnvIf X-Role admin Is_Admin\nRewriteCond %{ENV:is_admin} !1\nRewriteRule ^ - [F]",
    ] {
        let lines = format!("<Location /a>\n{lines}\n</Location>\n");
        assert!(vcl(&lines, "off").contains(passes), "{}", vcl(&lines, "off"));
        assert!(!vcl(&lines, "on").contains(passes), "{}", vcl(&lines, "on"));
    }
    for lines in [
        "RewriteCond %{HTTP_HOST}%{REQUEST_URI} x",
        "SetEnvIf Request_URI ^/a/b is_b\nRewriteCond %{ENV:is_b} 1",
        "RewriteCond %{ENV:REDIRECT_STATUS} ^$",
    ] {
        let lines = format!("<Location /a>\n{lines}\nRewriteRule ^ - [F]\n</Location>\n");
        assert!(!vcl(&lines, "off").contains(passes), "{}", vcl(&lines, "off"));
    }
}

#[test]
fn texts_that_tls_conf_cannot_have() {
    let migrated = of("Listen 443\nListen 'a\"b:80'\nSSLCertificateFile '/a\" client-verify = none'\n");
    assert_eq!(migrated.tls, ["frontend = \"*:443\""]);
    let refused: Vec<String> =
        migrated.notes.iter().map(ToString::to_string).filter(|note| note.contains("refused")).collect();
    assert!(
        refused[0].contains(":2: refused: Listen: ") && refused[1].contains(":3: refused: SSLCertificateFile: "),
        "{refused:?}"
    );
}

#[test]
fn one_store_for_all() {
    let migrated = of("Listen 80\nCacheRoot /a\n<VirtualHost *:80>\nCacheRoot /b\n</VirtualHost>\n");
    assert_eq!(migrated.arguments.iter().filter(|word| *word == "-s").count(), 1, "{:?}", migrated.arguments);
}

#[test]
fn what_mod_cache_did() {
    let migrated = of(
        "CacheEnable disk /\nCacheDisable /private\nCacheDefaultExpire 600\nCacheMaxExpire 60\nCacheIgnoreHeaders Set-Cookie\n",
    );
    for wanted in [
        "if (req.url ~ \"^/private\") {\n\t\treturn (pass);",
        "set beresp.ttl = 600s - beresp.age;",
        "if (beresp.ttl > 60s) { set beresp.ttl = 60s; }",
        "if (obj.hits > 0) { unset resp.http.Set-Cookie; }",
        "set beresp.grace = 0s;",
    ] {
        assert!(migrated.vcl.contains(wanted), "{wanted}:\n{}", migrated.vcl);
    }
    let said: Vec<String> = migrated.notes.iter().map(ToString::to_string).collect();
    assert!(said.iter().all(|note| note.contains(": note: CacheEnable: Apache keeps copies")), "{said:?}");
    assert_eq!(migrated.arguments, ["-p", "feature=+rfc9111"]);
}

#[test]
fn expired_responses_are_fetched_anew() {
    for (value, count) in [("On", 1), ("off", 0)] {
        let text = format!("CacheEnable disk /\nCacheStoreExpired {value}\n");
        let migrated = of(Box::leak(text.into_boxed_str()));
        let is_said = |note: &&crate::migrated::MigratedNote| {
            note.to_string().contains(":2: note: CacheStoreExpired: a response")
        };
        assert_eq!(migrated.notes.iter().filter(is_said).count(), count, "{value}: {:?}", migrated.notes);
    }
}

/// With CacheQuickHandler, which is on by default, mod_cache decides before sections of paths are known; their other settings hold.
#[test]
fn sections_of_paths_need_the_slow_handler() {
    let lines = "<Location /c>\nCacheEnable disk\nCacheStorePrivate On\n</Location>\n<Location /c/x>\nCacheDisable on\n</Location>\n";
    let of = |text: String| of(Box::leak(text.into_boxed_str()));
    let quick = of(format!("CacheEnable disk /\n{lines}"));
    assert!(!quick.vcl.contains("^/c/x(/|$)"), "{}", quick.vcl);
    assert!(quick.vcl.contains("if (req.http.Apache-Path ~ \"^/c(/|$)\") { set req.http.Apache-private = \"on\"; }"));
    assert_eq!(quick.notes.iter().filter(|note| note.text.contains("has no effect")).count(), 2);
    let slow = of(format!("CacheQuickHandler off\n{lines}"));
    for wanted in [
        "if (req.http.Apache-Path ~ \"^/c/x(/|$)\") {\n\t\treturn (pass);",
        "if (!(req.http.Apache-Path ~ \"^/c(/|$)\")) { return (pass); }",
    ] {
        assert!(slow.vcl.contains(wanted), "{wanted}:\n{}", slow.vcl);
    }
    // A virtual host may say otherwise.
    let host = of(format!(
        "CacheQuickHandler off\nCacheEnable disk /\n<VirtualHost *:80>\nServerName a.org\nCacheQuickHandler on\n{lines}</VirtualHost>\n"
    ));
    assert!(!host.vcl.contains("return (pass);\n\t}\n\tif (req.http.Apache-Path"), "{}", host.vcl);
    assert_eq!(host.notes.iter().filter(|note| note.text.contains("has no effect")).count(), 2);
}

/// Apache merges the main server's settings first, then a virtual host's, then those of paths.
#[test]
fn later_sections_win() {
    let vcl = of(
        "<Location /c>\nCacheMaxExpire 3\n</Location>\n<VirtualHost *:80>\nServerName a.org\nCacheMaxExpire 2\n</VirtualHost>\nCacheMaxExpire 1\nCacheEnable disk /\n",
    )
    .vcl;
    let at = |text: &str| vcl.find(text).unwrap_or_else(|| panic!("{text}: {vcl}"));
    assert!(at("Apache-max = \"1\"") < at("Apache-max = \"2\"") && at("Apache-max = \"2\"") < at("Apache-max = \"3\""));
    assert!(vcl.contains("if (beresp.ttl > std.duration(cookie.get(\"max\") + \"s\", 0s))"), "{vcl}");
}

#[test]
fn quotes_and_backslashes() {
    for (line, expect) in [
        (r#"LocationMatch "\.css$" '\d' a\.b"#, vec!["LocationMatch", r"\.css$", r"\d", r"a\.b"]),
        (r#"A "x \"y\" \\z" 'it''s' "b"c"#, vec!["A", r#"x "y" \z"#, "it", "s", "b", "c"]),
        (r"A b#c \\d", vec!["A", "b#c", r"\d"]),
        ("# A", vec![]),
        ("A \"open", vec!["A", "open"]),
    ] {
        assert_eq!(super::reader::words(line), expect, "{line}");
    }
}

/// Lines that Apache never reads count for nothing; what only the command line or the environment decides is passed.
#[test]
fn sections_of_the_configuration_itself() {
    let vcl = |text: &str| of(Box::leak(format!("CacheEnable disk /\n{text}").into_boxed_str())).vcl;
    let all = "sub vcl_recv {\n\treturn (pass);";
    assert!(!vcl("<IfModule !mod_cache.c>\nCacheDisable /a\nListen 81\n</IfModule>\n").contains("\"^/a\""));
    assert!(vcl("Define A /x\n<IfDefine A>\nCacheDisable ${A}/y\n</IfDefine>\n").contains("\"^/x/y\""));
    assert!(vcl("<IfDefine A>\nCacheDisable /a\n</IfDefine>\n").contains(all));
    assert!(vcl("CacheDisable ${FROM_OUTSIDE}\n").contains(all));
    assert!(vcl("Use Site a\n").contains(all));
    let slow = "CacheQuickHandler off\nCacheDisable /a\n";
    assert!(vcl(&format!("{slow}RewriteRule ^/b /a/b\n")).contains(all));
    assert!(!vcl(&format!("{slow}RewriteRule ^/b http://127.0.0.1/a [P]\n")).contains(all));
    assert!(!vcl("CacheDisable /a\nRewriteRule ^/b /a/b\n").contains(all));
    assert!(vcl(&format!("{slow}<Directory /srv>\nAllowOverride All\n</Directory>\n")).contains(all));
}

/// The variable `no-cache` keeps a response from being stored.
#[test]
fn a_variable_that_forbids_storing() {
    let vcl = |text: &str| of(Box::leak(format!("CacheEnable disk /\n{text}").into_boxed_str())).vcl;
    for (line, condition) in [
        ("SetEnvIf Request_URI \\.css$ no-cache", "req.http.Apache-Path ~ \"\\.css$\""),
        ("SetEnvIfNoCase X-Mode secret no-cache=1", "req.http.X-Mode ~ \"(?i)secret\""),
        ("BrowserMatch Bot no-cache", "req.http.User-Agent ~ \"Bot\""),
        ("<Location /a>\nSetEnv no-cache 1\n</Location>", "req.http.Apache-Path ~ \"^/a(/|$)\""),
        ("SetEnvIf Request_URI ^/p secret No-Cache", "req.http.Apache-Path ~ \"^/p\""),
        ("BrowserMatch Bot no-gzip no-cache", "req.http.User-Agent ~ \"Bot\""),
        (
            "<Location /a>\nSetEnvIfExpr \"req('X') == 'y'\" no-cache\n</Location>",
            "req.http.Apache-Path ~ \"^/a(/|$)\"",
        ),
        ("<Location /a>\nRewriteRule ^/p - [L,E=no-cache:1]\n</Location>", "req.http.Apache-Path ~ \"^/a(/|$)\""),
        ("<Location /a>\nRewriteRule ^/(.*) - [ENV=%1:1]\n</Location>", "req.http.Apache-Path ~ \"^/a(/|$)\""),
        ("<Location /a>\nPassEnv HOME no-cache\n</Location>", "req.http.Apache-Path ~ \"^/a(/|$)\""),
        (
            "SetEnvIf X-Mode y secret\n<Location /a>\nSetEnvIf secret 1 no-cache\n</Location>",
            "req.http.Apache-Path ~ \"^/a(/|$)\"",
        ),
    ] {
        let vcl = vcl(line);
        let missed = &vcl[vcl.find("sub vcl_miss").expect("there")..];
        assert!(missed.contains(&format!("if ({condition}) {{\n\t\treturn (pass);")), "{line}: {vcl}");
    }
    let stored = vcl("");
    for line in [
        "RewriteRule ^/p - [E=other:no-cache]",
        "SetEnvIf X-Mode no-cache secret",
        "PassEnv HOME",
        "SetEnvIf X y !no-cache",
    ] {
        assert_eq!(vcl(line), stored, "{line}");
    }
}

/// Hits don't reach Apache, and to Apache every client has the cache's address.
#[test]
fn rules_of_access_are_passed_or_denied() {
    let of = |lines: &str| {
        let migrated = of(Box::leak(format!("Listen 80\nCacheEnable disk /\n{lines}").into_boxed_str()));
        let is_refused = migrated.notes.iter().any(|note| note.to_string().contains("refused"));
        let path = "if (req.http.Apache-Path ~ \"^/p(/|$)\") {\n\t\treturn ";
        let vcl = migrated.vcl;
        (vcl.contains(&format!("{path}(synth(403));")), vcl.contains(&format!("{path}(pass);")), is_refused)
    };
    let nothing = (false, false, false);
    for (rule, expect) in [
        ("Require local", (true, true, true)),
        ("Require ip 127.0.0.1", (true, true, true)),
        ("Require ip 0.0.0.0/0", (true, true, true)),
        ("Require host example.org", (true, true, true)),
        ("Require not ip 10.0.0.1", (true, true, true)),
        ("Order allow,deny\nAllow from 127", (true, true, true)),
        ("Deny from 192.0.2.1", (true, true, true)),
        ("SSLVerifyClient require", (true, true, true)),
        ("RewriteCond %{REMOTE_ADDR} !^127\\.", (true, true, true)),
        ("<RequireNone>\nRequire ip 10\n</RequireNone>", (true, true, true)),
        // Apache itself denies these to the cache's address.
        ("Require ip 10.0.0.0/8", (false, true, true)),
        ("Allow from 10.0.0.0/8", (false, true, true)),
        ("Allow from env=x", (false, true, false)),
        ("Require valid-user", (false, true, false)),
        ("AuthType Basic", (false, true, false)),
        ("Require all granted", nothing),
        ("Require all denied", nothing),
        ("Deny from all", nothing),
    ] {
        assert_eq!(of(&format!("<Location /p>\n{rule}\n</Location>\n")), expect, "{rule}");
    }
    // Apache takes the client's address from the cache.
    let known =
        "RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1\n<Location /p>\nRequire local\n</Location>\n";
    assert_eq!(of(known), (false, true, false));
}

/// Rules of directories hold for all requests; where nothing was kept, nothing is.
#[test]
fn rules_of_directories_hold_for_everything() {
    let migrated = of("Listen 80\n<Directory /srv/secret>\nRequire local\n</Directory>\n");
    assert!(migrated.vcl.contains("sub vcl_recv {\n\treturn (synth(403));\n\treturn (pass);"), "{}", migrated.vcl);
    assert!(of("Listen 80\n").vcl.contains("sub vcl_recv {\n\treturn (pass);"));
}

#[test]
fn virtual_hosts_of_other_ports() {
    let migrated = of(
        "Listen 80\nListen 8080\n<VirtualHost *:80>\nServerName a.org\n</VirtualHost>\n<VirtualHost *:8080>\nServerName b.org\n</VirtualHost>\n<VirtualHost 10.0.0.1:80>\nServerName c.org\n</VirtualHost>\n",
    );
    assert_eq!(migrated.notes.iter().filter(|note| note.to_string().contains("refused: VirtualHost")).count(), 3);
    for wanted in [
        "^(b\\.org)\\.?(:\\d*)?$\"",
        "!(std.port(local.ip) == 8080)",
        "!(std.port(local.ip) == 80 && local.ip == \"10.0.0.1\")",
    ] {
        assert!(migrated.vcl.contains(wanted), "{wanted}: {}", migrated.vcl);
    }
}

/// Requests outside an enabled part pass; a section that can't be translated is refused and passes.
#[test]
fn sections() {
    let migrated = of(
        "CacheQuickHandler off\n<VirtualHost *:80>\nServerName a.org\n</VirtualHost>\n<VirtualHost *:80>\nServerName b.org:80\nServerAlias *.b.org\n<Location \"/c\">\nCacheEnable disk\n</Location>\n</VirtualHost>\n",
    );
    let wanted = "if (!(req.http.Host ~ \"(?i)^(b\\.org|.*\\.b\\.org)\\.?(:\\d*)?$\" && req.http.Host !~ \"(?i)^(a\\.org)\\.?(:\\d*)?$\" && req.http.Apache-Path ~ \"^/c(/|$)\")) { return (pass); }";
    assert!(migrated.vcl.contains(wanted), "{}", migrated.vcl);
    let migrated =
        of("CacheQuickHandler off\nCacheEnable disk /\n<If \"%{QUERY_STRING} == 'x'\">\nCacheDisable on\n</If>\n");
    assert!(migrated.vcl.contains("sub vcl_recv {\n\treturn (pass);"), "{}", migrated.vcl);
    assert!(
        migrated
            .notes
            .iter()
            .any(|note| note.to_string().contains("apache2.conf:4: refused: CacheDisable: within <if>")),
        "{:?}",
        migrated.notes
    );
}

#[test]
fn rules_that_hits_would_pass_by_are_refused() {
    let refused = |text: &str| {
        let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
        let notes = of(text).notes;
        notes.iter().filter(|note| note.to_string().contains(": refused: ")).count()
    };
    let rule = "RewriteRule \\.(jpg|gif|png)$ - [F]\n";
    for (cond, is_refused) in [
        ("RewriteCond %{HTTP_REFERER} !^http://(www\\.)?domain\\.com [NC]\n", true),
        ("RewriteCond %{HTTP:Referer} !^$\n", true),
        ("RewriteCond %{HTTP_USER_AGENT} Wget\n", true),
        ("RewriteCond %{REMOTE_ADDR} ^10\\.\n", true),
        ("RewriteCond %{REQUEST_FILENAME} !-f\n", false),
    ] {
        assert_eq!(refused(&format!("RewriteEngine On\n{cond}{rule}")), usize::from(is_refused), "{cond}");
    }
    assert_eq!(refused("SetEnvIfNoCase Referer \"^https?://domain\\.com\" local_ref=1\n"), 1);
    assert_eq!(refused("BrowserMatch \"^Wget\" bad_bot\n"), 1);
    // Debian's mods-enabled/setenvif.conf and ssl.conf: they deny nobody.
    let stock = "BrowserMatch \"Mozilla/2\" nokeepalive\nBrowserMatch \"MSIE 4\\.0b2;\" nokeepalive downgrade-1.0 force-response-1.0\n\
                 BrowserMatch \"Microsoft Data Access Internet Publishing Provider\" redirect-carefully\n\
                 BrowserMatch \"MSIE [2-6]\" nokeepalive ssl-unclean-shutdown downgrade-1.0 force-response-1.0\n";
    assert_eq!(refused(stock), 0);
}

#[test]
fn addresses() {
    assert_eq!(with_port("*:80", "81"), "*:81");
    assert_eq!(with_port("10.0.0.1:80", "81"), "*:81");
    assert_eq!(with_port("a.org", "81"), "a.org");
}

#[test]
fn each_directive_has_one_fate() {
    let mut migrated = of(
        "Listen 80\nListen 443\nUser www-data\nUse Site a\nfrobnicate on\nRequire all granted\nCacheEnable disk /\nCacheMaxExpire x\n<Location /p>\nRequire valid-user\nProxyPass http://a/\n</Location>\n\
         <Files x>\nRequire ip 10.0.0.1\n</Files>\nSSLCertificateFile /a\nSSLCertificateFile /b\nSSLCertificateKeyFile /k\nSSLCipherSuite HIGH\nCustomLog /l x\nCacheLock on\n",
    );
    migrated.close();
    assert_eq!(
        migrated.account.short(),
        "CacheEnable 1/0/0, CacheLock 0/1/0, CacheMaxExpire 0/0/1, CustomLog 0/1/0, Files 0/1/0, Listen 2/0/0, Location 1/0/0, ProxyPass 0/1/0, Require 1/1/1, \
         SSLCertificateFile 2/0/0, SSLCertificateKeyFile 1/0/0, SSLCipherSuite 0/1/0, Use 0/0/1, User 0/1/0, frobnicate 0/0/1"
    );
    assert_eq!(
        migrated.tls,
        ["frontend = \"*:443\"", "pem-file = \"/a\"", "pem-file = { cert = \"/b\" private-key = \"/k\" }"]
    );
}

/// A rule of the cache that isn't known keeps everything from being kept.
#[test]
fn what_is_not_known_of_the_cache_keeps_nothing() {
    let migrated = of("Listen 80\nCacheEnable disk /\nCacheFrobnicate on\n");
    assert!(migrated.vcl.contains("sub vcl_recv {\n\treturn (pass);"), "{}", migrated.vcl);
}

/// Apache 2.4 reads a directory as all files in it, and ignores only what isn't there.
#[test]
fn included_files() {
    const FILES: &[(&str, &str)] = &[
        ("/a/apache2.conf", ""),
        ("/r/c/1.conf", "CacheDisable /one\n"),
        ("/r/c/.2.conf", "CacheDisable /hidden\n"),
        ("/r/c/d/3.conf", "CacheDisable /below\n"),
        ("/a/c/4.conf", "CacheDisable /beside\n"),
    ];
    struct Unreadable(String);
    impl FileSource for Unreadable {
        fn read(&self, path: &str) -> Result<String, String> {
            match path {
                "/a/apache2.conf" => Ok(self.0.clone()),
                "/r/c/d/3.conf" if self.0.contains("/r/c/d") => Err(format!("{path}:1: a byte 0: it is no text")),
                _ => Given(FILES).read(path),
            }
        }
        fn kind(&self, path: &str) -> crate::source::PathKind {
            Given(FILES).kind(path)
        }
        fn names(&self, directory: &str) -> Result<Vec<String>, String> {
            Given(FILES).names(directory)
        }
    }
    let read = |lines: &str| {
        let text = format!("Listen 80\nCacheEnable disk /\n{lines}\n");
        let vcl = migrate("/a/apache2.conf", ("127.0.0.1", "81"), &Unreadable(text))?.vcl;
        let is_there = |name: &&&str| vcl.contains(&format!("^/{name}\""));
        Ok::<_, String>(
            ["one", "hidden", "below", "beside"].iter().filter(is_there).copied().collect::<Vec<_>>().join(" "),
        )
    };
    for (lines, expect) in [
        ("IncludeOptional none.conf\nIncludeOptional none*.conf\nIncludeOptional none/x.conf", Ok("")),
        ("Include c/*.conf", Ok("beside")),
        ("ServerRoot \"/r\"\nInclude c/*.conf", Ok("one")),
        ("ServerRoot /r/\nIncludeOptional c/[0-9].conf", Ok("one")),
        ("ServerRoot /r\nInclude c", Ok("one hidden below")),
        ("ServerRoot /r\nIncludeOptional [c]", Ok("one hidden below")),
        ("Include none*.conf", Err("3: Include: /a/none*.conf: nothing matches")),
        ("Include none.conf", Err("3: Include: /a/none.conf: not there")),
        ("IncludeOptional /r/c/d/*", Err("3: IncludeOptional: /r/c/d/3.conf:1: a byte 0: it is no text")),
        ("IncludeOptional /r/c/d/3.conf", Err("3: IncludeOptional: /r/c/d/3.conf:1: a byte 0: it is no text")),
        ("IncludeOptional a b", Err("3: IncludeOptional: one file or pattern is wanted")),
        ("IncludeOptional ${X}/a", Err("3: IncludeOptional: /a/${X}/a: a variable of the environment: Define it")),
        (
            "ServerRoot /none\nIncludeOptional a",
            Err("4: IncludeOptional: ServerRoot /none is no directory: name the one that the files are in"),
        ),
    ] {
        let expect = expect.map(str::to_owned).map_err(|error| format!("/a/apache2.conf:{error}"));
        assert_eq!(read(lines), expect, "{lines}");
    }
}

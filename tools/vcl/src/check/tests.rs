// SPDX-License-Identifier: BSD-2-Clause
//! Tests with files from a list instead of a disk, and without a resolver.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::*;

struct Files(BTreeMap<&'static str, &'static str>);

impl Sources for Files {
    fn read(&self, path: &str) -> Result<(String, Vec<u8>), String> {
        let found = self.0.get(path).map(|text| (path.to_owned(), text.as_bytes().to_vec()));
        found.ok_or_else(|| format!("Cannot read file '{path}'"))
    }

    fn glob(&self, _: &str) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        if host == "known.example" { Ok(vec![IpAddr::from([192, 0, 2, 7])]) } else { Err("no such name".to_owned()) }
    }

    fn is_socket(&self, _: &str) -> Result<bool, String> {
        Ok(true)
    }
}

/// Runs `check` on files and returns its JSON reports. `words` come first on the command line.
fn check(words: &str, files: &[(&'static str, &'static str)]) -> Vec<Value> {
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    let line = format!("check {words} {}", names.join(" "));
    let args = crate::args::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).unwrap();
    let sources = Files(files.iter().copied().collect());
    let mut texts = OpenTexts::new(&sources, args.dialect);
    for (name, text) in files {
        texts.put(name, name, text.as_bytes().to_vec(), Value::Null);
    }
    let of = |name| serde_json::from_str(&Verdict::check(&texts, name, &args).as_json(name)).unwrap();
    names.into_iter().map(of).collect()
}

fn lines(list: &Value) -> Vec<(u64, &str)> {
    let all = list.as_array().unwrap().iter();
    all.map(|one| (one["line"].as_u64().unwrap_or(0), one["code"].as_str().unwrap())).collect()
}

#[test]
fn all_errors_of_a_file_are_told() {
    let text = "vcl 4.1;\nbackend b none;\nsub vcl_recv {\n  set req.htp.x = 1;\n  unset req.url;\n  return (lookup);\n}\n\
                sub a { }\nacl u { }\n";
    let got = &check("", &[("/a.vcl", text)])[0];
    assert_eq!(got["ok"], false);
    let mut lines = lines(&got["errors"]);
    lines.sort_unstable();
    assert_eq!(lines.iter().map(|l| l.0).collect::<Vec<_>>(), [4, 5, 6, 8, 9], "{got}");
}

#[test]
fn host_names_are_looked_up_on_demand() {
    let text = "vcl 4.1;\nbackend a { .host = \"one.example\"; }\nbackend b { .host = \"known.example\"; }\n\
                acl c { \"two.example\"; }\nsub vcl_recv { if (client.ip ~ c) { set req.backend_hint = b; } }\n";
    assert_eq!(check("", &[("/a.vcl", text)])[0]["ok"], true);
    let got = &check("--resolve", &[("/a.vcl", text)])[0];
    assert_eq!(lines(&got["errors"]).iter().map(|l| l.0).collect::<Vec<_>>(), [2, 4], "{got}");
}

#[test]
fn a_part_is_judged_with_what_includes_it_or_alone() {
    let part = "sub hello {\n  set req.backend_hint = web;\n  set req.http.x = nobody.knows;\n}\n";
    let main = "vcl 4.1;\nbackend web none;\ninclude \"/part.vcl\";\nsub vcl_recv { call hello; }\n";
    let both = check("", &[("/main.vcl", main), ("/part.vcl", part)]);
    assert_eq!(lines(&both[1]["errors"]), [(3, "unknown-name")], "{both:?}");
    assert!(both[1]["notes"][0].as_str().unwrap().contains("/main.vcl"), "{both:?}");
    // By itself the part may be right. Names of the language can't be declared elsewhere.
    let alone = &check("--part", &[("/part.vcl", part)])[0];
    assert_eq!((&alone["ok"], alone["notes"].as_array().unwrap().len()), (&json!(true), 1), "{alone}");
    let wrong = &check("--part", &[("/part.vcl", "sub hello {\n  set req.htp.x = req.urll;\n}\n")])[0];
    assert_eq!(lines(&wrong["errors"]), [(2, "unknown-name")], "{wrong}");
}

#[test]
fn an_include_that_varnishd_wouldnt_find_is_an_error() {
    let main = |include: &str| -> &'static str {
        format!("vcl 4.1;\nbackend b none;\ninclude \"{include}\";\nsub vcl_recv {{ call hello; }}\n").leak()
    };
    let part = ("/site/part.vcl", "sub hello { unset req.http.x; }\n");
    let both = check("", &[("/site/main.vcl", main("part.vcl")), part]);
    assert_eq!((lines(&both[0]["errors"]), &both[1]["ok"]), (vec![(3, "file")], &json!(false)), "{both:?}");
    assert!(both[0]["errors"][0]["hint"].as_str().unwrap().contains("-I /site"), "{both:?}");
    for include in ["./part.vcl", "/site/part.vcl"] {
        let both = check("", &[("/site/main.vcl", main(include)), part]);
        assert_eq!((&both[0]["ok"], &both[1]["ok"]), (&json!(true), &json!(true)), "{both:?}");
    }
}

#[test]
fn a_file_that_cant_be_loaded_is_a_part_if_it_is_said_so() {
    for (code, text, lacks) in [
        ("no-backend", "vcl 4.1;\nsub vcl_recv {\n  set req.backend_hint = web;\n}\n", "it declares no backend."),
        ("no-backend", "sub vcl_recv {\n  error 404;\n}\n", "it declares no backend."),
        ("version", "backend b { .host = \"192.0.2.1\"; }\nsub vcl_synth { }\n", "it doesn't say `vcl 4.1;`."),
        ("version", "", "it doesn't say `vcl 4.1;` and declares no backend."),
    ] {
        let got = &check("", &[("/subs.vcl", text)])[0];
        assert_eq!(lines(&got["errors"]), [(0, code)], "{got}");
        assert!(got["errors"][0]["message"].as_str().unwrap().ends_with(lacks), "{got}");
        let part = &check("--part", &[("/subs.vcl", text)])[0];
        assert_eq!((&part["ok"], part["notes"].as_array().unwrap().len()), (&json!(true), 1), "{part}");
    }
}

#[test]
fn a_file_with_a_backend_and_no_version_is_vcl_3() {
    let whole = "backend b { .host = \"192.0.2.1\"; }\nsub vcl_recv {\n  set req.http.host = \"a\";\n}\n";
    let got = &check("", &[("/a.vcl", whole)])[0];
    assert_eq!((&got["ok"], &got["notes"]), (&json!(true), &json!([])), "{got}");
    let language = "C{\n  /* nothing */\n}C\nbackend b { .host = \"192.0.2.1\"; }\n";
    assert_eq!(check("", &[("/a.vcl", language)])[0]["ok"], true);
    // The including file decides.
    let main = "vcl 4.1;\ninclude \"/b.vcl\";\nsub vcl_recv { set req.backend_hint = b; }\n";
    let both = check(
        "",
        &[("/main.vcl", main), ("/b.vcl", "backend b none;\nimport std;\nsub vcl_init { std.log(\"a\"); }\n")],
    );
    assert_eq!((&both[0]["ok"], &both[1]["ok"]), (&json!(true), &json!(true)), "{both:?}");
}

#[test]
fn damage_is_told_once_and_hides_nothing() {
    let text = "backend b { .host = \"192.0.2.1\"; }\nsub vcl_recv {\n\u{a0}if\u{a0}(req.url ~ “^/a”) {\n    lookup;\n  }\n  \
                set req.http.a = “b”;\n}\nsub vcl_fetch {\n  set obj.ttl = 3600s;\n  set obj.nothing = 1s;\n}\n";
    let got = &check("", &[("/a.vcl", text)])[0];
    assert_eq!(lines(&got["errors"]), [(3, "character"), (10, "unknown-name")], "{got}");
    let hint = got["errors"][0]["hint"].as_str().unwrap();
    assert!(hint.contains("2 no-break spaces and 4 typographic quotes"), "{hint}");
}

#[test]
fn a_line_that_cant_be_read_keeps_its_braces() {
    for (line, end) in [
        ("if (req.url ~ \"^/a) {", "}"),
        ("if (req.url ~ '^/a{2}') { # note", "}"),
        ("if (req.url ~ \"^/a) { return (pass); }", ""),
        ("set req.http.a = 'b';", ""),
        ("if (req.url ~ \"a\")", "}"),
    ] {
        for version in ["vcl 4.1;", "# 3.0"] {
            let text = format!(
                "{version}\nbackend b {{ .host = \"192.0.2.1\"; }}\nsub vcl_recv {{\n  {line}\n    unset req.http.b;\n  {end}\n  \
                 set req.nothing = \"1\";\n}}\nsub vcl_deliver {{ }}\n"
            );
            let text: &'static str = text.leak();
            let got = &check("", &[("/a.vcl", text)])[0];
            let at = if line.ends_with(')') { 5 } else { 4 };
            let all: Vec<u64> = lines(&got["errors"]).iter().map(|l| l.0).collect();
            assert_eq!(all, [at, 7], "{text}{got}");
        }
    }
}

#[test]
fn a_part_is_read_in_the_syntax_that_is_asked_for() {
    let text = "sub vcl_recv {\n  set req.http.x = local.endpoint;\n}\n";
    assert_eq!(check("--part", &[("/a.vcl", text)])[0]["ok"], true);
    assert_eq!(check("--part --syntax 4.0", &[("/a.vcl", text)])[0]["ok"], false);
}

#[test]
fn backends_of_a_part_may_be_used_elsewhere() {
    let two = "backend a { .host = \"192.0.2.1\"; }\nbackend b { .host = \"192.0.2.2\"; }\n";
    assert_eq!(check("--part", &[("/a.vcl", two)])[0]["ok"], true);
    assert_eq!(check("", &[("/a.vcl", two)])[0]["ok"], false);
}

#[test]
fn other_places_are_told() {
    let text = "vcl 4.1;\nbackend b none;\nsub a { }\nsub a { }\nsub vcl_recv { call a; }\n";
    let got = &check("", &[("/a.vcl", text)])[0];
    assert_eq!(got["errors"][0]["labels"][0]["line"], 3, "{got}");
}

#[test]
fn errors_of_declarations_hide_no_others() {
    let text = "vcl 4.1;\nbackend b { .hst = \"127.0.0.1\"; }\nprobe p { .url = \"/\"; }\nprobe p { .url = \"/x\"; }\n\
                acl a { \"10.0.0.0\"/99; \"127.0.0.1\"; }\nsub vcl_recv {\n  if (client.ip ~ a) { unset req.url; }\n}\n";
    let got = &check("", &[("/a.vcl", text)])[0];
    let mut lines: Vec<u64> = lines(&got["errors"]).iter().map(|l| l.0).collect();
    lines.sort_unstable();
    assert_eq!(lines, [2, 4, 5, 7], "{got}");
}

#[test]
fn what_cant_be_taken_out_hides_no_others() {
    let text = "vcl 4.1;\nimport nope;\nbackend b none;\nimport directors;\nnonsense;\nsub vcl_init {\n  new d = directors.nope();\n  \
                new e = directors.random();\n}\nsub vcl_recv {\n  nope.f();\n  set req.backend_hint = e.backend();\n}\n\
                sub vcl_deliver {\n  set resp.htp.x = 1;\n  set resp.http.x = d.x();\n}\nsub vcl_synth {\n  unset resp.status;\n}\n";
    let got = &check("", &[("/a.vcl", text)])[0];
    let mut lines = lines(&got["errors"]);
    lines.sort_unstable();
    // Names that lines 2 and 7 would have declared aren't reported again.
    let all = [(2, "unknown-module"), (5, "syntax"), (7, "unknown-name"), (15, "unknown-name"), (19, "read-only")];
    assert_eq!(lines, all, "{got}");
}

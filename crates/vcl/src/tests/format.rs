// SPDX-License-Identifier: BSD-2-Clause
//! Tests of the formatter's output, and that it is idempotent.

use proptest::prelude::*;

use super::{FormatStyle, format};

fn of(text: &str) -> String {
    match format("x.vcl", text.as_bytes(), &FormatStyle::default()) {
        Ok(out) => String::from_utf8(out).unwrap(),
        Err(reason) => panic!("{reason}"),
    }
}

#[test]
fn a_file_is_laid_out() {
    let untidy = "vcl 4.1;import std;\n\n\n\nbackend  b{.host=\"127.0.0.1\";.probe={.url = \"/\" ;.interval=5 s;}}\nsub vcl_recv\n{\n\n
# why\n\tif(req.http.host=='') {}\n}";
    assert!(format("x", untidy.as_bytes(), &FormatStyle::default()).is_err(), "quotes that VCL hasn't");
    let untidy = untidy
        .replace("''", "\"\"")
        .replace("{}", "{ return(pass) ; }else if(-1 s<req.ttl&&!req.http.a||req.url~\"^/a\"){call  c;}");
    assert_eq!(
        of(&untidy),
        "vcl 4.1;
import std;

backend b {
    .host = \"127.0.0.1\";
    .probe = {
        .url = \"/\";
        .interval = 5 s;
    }
}

sub vcl_recv {
    # why
    if (req.http.host == \"\") {
        return (pass);
    } else if (-1 s < req.ttl && !req.http.a || req.url ~ \"^/a\") {
        call c;
    }
}
"
    );
}

#[test]
fn acls_keep_their_masks_and_flags() {
    assert_eq!(
        of("acl a   -fold +log { \"10.0.0.0\" / 8;! \"10.1.1.1\";(\"localhost\"/32);}"),
        "acl a -fold +log {\n    \"10.0.0.0\"/8;\n    !\"10.1.1.1\";\n    (\"localhost\"/32);\n}\n"
    );
}

#[test]
fn comments_stay_where_they_are() {
    let tidy = "# top\nvcl 4.1; # the version\n\n/* two\n   lines */\nsub a { # begins\n    set req.http.a = \"b\" + // more\n        \"c\";\n    # last\n}\n\n# end\n";
    assert_eq!(of(tidy), tidy);
    assert_eq!(of("sub a {set /* x */ req.http.a = \"\";}# y"), "sub a {\n    set /* x */ req.http.a = \"\";\n} # y\n");
}

#[test]
fn a_break_inside_a_statement_stays() {
    let tidy = "sub a {\n    if (req.url == \"/a\" ||\n        req.url == \"/b\"\n    ) {\n        hash_data(\n            req.url);\n    }\n}\n";
    assert_eq!(of(tidy), tidy);
    assert_eq!(
        of("sub a\n{\n  set req.url =\n  {\"x\n y\"}\n  ; }"),
        "sub a {\n    set req.url =\n        {\"x\n y\"};\n}\n"
    );
}

#[test]
fn what_is_wrong_is_shown_with_its_place() {
    let reason = format("x.vcl", b"sub a {\n}\n}\n", &FormatStyle::default()).unwrap_err().to_string();
    assert!(reason.contains("('x.vcl' Line 3 Pos 1)"), "{reason}");
    let reason = format("x.vcl", b"sub a {\n set \"x\n", &FormatStyle::default()).unwrap_err().to_string();
    assert!(reason.starts_with("Unterminated string") && reason.contains("Line 2 Pos 6"), "{reason}");
}

#[test]
fn tabs_when_wanted() {
    let style = FormatStyle { indent: "\t".to_owned() };
    assert_eq!(format("x", b"sub a{b();}", &style).unwrap(), b"sub a {\n\tb();\n}\n");
}

#[test]
fn the_builtin_vcl_means_the_same() {
    let text = of(crate::builtin(tables::Compat::V9));
    assert_eq!(of(&text), text);
}

#[test]
fn what_would_be_read_as_another_word_keeps_its_space() {
    // These texts aren't VCL, but they are kept unchanged.
    for text in ["vcl 4 .1;\n", "a --;\n", "set a.b! = c;\n", "x - -1;\n", "x = / /;\n", "x & & y;\n"] {
        let once = of(text);
        assert_eq!(of(&once), once);
        assert_eq!(once.split_whitespace().collect::<String>(), text.split_whitespace().collect::<String>());
    }
}

#[test]
fn lines_end_as_the_first_one_does() {
    let dos = "vcl 4.1;\r\n\r\n\r\n# c\r\nsub a{\r\n\r\nset req.url = {\"x\ny\"} + # why\r\n\"z\";}\r\n";
    let tidy = "vcl 4.1;\r\n\r\n# c\r\nsub a {\r\n    set req.url = {\"x\ny\"} + # why\r\n        \"z\";\r\n}\r\n";
    assert_eq!(of(dos), tidy);
    assert_eq!(of(tidy), tidy);
    assert_eq!(of("sub a{\nb();\r\n}"), "sub a {\n    b();\n}\n");
    // Some editors write a byte order mark. It is no VCL, and older compilers refuse it.
    assert_eq!(of("\u{feff}sub a{}"), "sub a {\n}\n");
}

fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "if",
        "else",
        "elsif",
        "return",
        "sub",
        "acl",
        "a",
        "b.c",
        "set",
        "-",
        "+",
        "!",
        "(",
        ")",
        "{",
        "}",
        ";",
        ",",
        "=",
        "==",
        "&&",
        "~",
        "!~",
        "/",
        "*",
        "1",
        "2.5",
        "3s",
        "4 m",
        "\"x y\"",
        "{\"l\no\"}",
        "\"\"\"q\"\"\"",
        ":Zm9v:",
        "# c\n",
        "// d\n",
        "/* e */",
        "/* f\n g */",
        "C{ x(); }C",
        "\n",
        "\n\n\n",
        "\t",
        ".",
        "++",
        "<",
        "%",
        "req.http.x-y",
        ".host",
    ])
}

proptest! {
    #[test]
    fn again_changes_nothing(pieces in prop::collection::vec((piece(), prop::bool::weighted(0.8)), 0..60)) {
        let text: String = pieces.iter().flat_map(|(p, space)| [*p, if *space { " " } else { "" }]).collect();
        match format("x", text.as_bytes(), &FormatStyle::default()) {
            Ok(once) => {
                let twice = format("x", &once, &FormatStyle::default()).expect("what was laid out can be laid out");
                prop_assert_eq!(String::from_utf8_lossy(&once), String::from_utf8_lossy(&twice));
            }
            Err(reason) => prop_assert!(!reason.to_string().contains("change of meaning"), "{}", text),
        }
    }

    #[test]
    fn any_bytes_are_survived(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = format("x", &text, &FormatStyle::default());
    }
}

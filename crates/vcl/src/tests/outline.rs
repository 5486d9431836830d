// SPDX-License-Identifier: BSD-2-Clause
//! Tests of outlines of complete, incomplete and random texts.

use proptest::prelude::*;

use super::{CursorContext, DeclarationKind, Outline};

const TEXT: &str = "vcl 4.1;
import std;
import directors as d;
include \"./more.vcl\";
include +glob \"x/*.vcl\";
backend b { .host = \"h\"; .probe = { .url = \"/\"; } }
sub vcl_init {
    new rr = d.round_robin();
}
sub vcl_recv {
    if (req.http.x-y ~ \"a.b\") { return (pass); }
}
";

fn spot(text: &str) -> (CursorContext, String) {
    let at = text.find('|').unwrap();
    let text = text.replace('|', "");
    let spot = Outline::parse(text.as_bytes()).cursor_context(text.as_bytes(), at);
    let name = text[spot.name.clone()].to_owned();
    (spot, name)
}

#[test]
fn declarations_and_includes_are_found() {
    let outline = Outline::parse(TEXT.as_bytes());
    let found: Vec<_> = outline.declarations.iter().map(|d| (d.kind, d.name.as_str(), d.of.as_str())).collect();
    assert_eq!(
        found,
        [
            (DeclarationKind::Import, "std", "std"),
            (DeclarationKind::Import, "d", "directors"),
            (DeclarationKind::Backend, "b", ""),
            (DeclarationKind::Sub, "vcl_init", ""),
            (DeclarationKind::Object, "rr", "d.round_robin"),
            (DeclarationKind::Sub, "vcl_recv", ""),
        ]
    );
    assert!(outline.versioned);
    let files: Vec<_> = outline.includes.iter().map(|i| (i.path.as_str(), i.glob)).collect();
    assert_eq!(files, [("./more.vcl", false), ("x/*.vcl", true)]);
    assert!(TEXT[outline.declarations[2].whole.clone()].ends_with("} }"));
}

#[test]
fn a_spot_knows_its_name_statement_and_subroutine() {
    let (at, name) = spot("sub vcl_recv {\n  set req.ht|tp.a = req.url;\n}\n");
    assert_eq!(
        (name.as_str(), at.before.as_slice(), at.sub.as_deref()),
        ("req.http.a", &["set".to_owned()][..], Some("vcl_recv"))
    );
    let (at, name) = spot("sub a {\n  return (|");
    assert_eq!((name.as_str(), at.before.join(" ").as_str(), at.sub.as_deref()), ("", "return (", Some("a")));
    let (at, name) = spot("sub a {\n  std.|\n}");
    assert_eq!((name.as_str(), at.before.len()), ("std.", 0));
    let (at, name) = spot("backend b {\n .ho|\n}");
    assert_eq!((name.as_str(), at.block, at.sub), (".ho", Some(DeclarationKind::Backend), None));
    assert!(spot("include \"a|b\";").0.in_string);
}

#[test]
fn half_a_text_is_read_as_far_as_it_goes() {
    let outline = Outline::parse(b"sub a {\n  set req.url = \"x\n}\nsub b {\n  if (\nsub c {\n}\n");
    let names: Vec<_> = outline.declarations.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(outline.declarations[1].whole.end < outline.declarations[2].whole.start);
}

#[test]
fn names_are_found_with_what_they_are_for() {
    let text = "backend b { .host = \"a.b\"; }\nsub f { x.y(b, name = b); set req.http.a-b = q . r; } # no";
    let names: Vec<_> = Outline::parse(text.as_bytes()).names(text.as_bytes());
    let shown: Vec<_> = names.iter().map(|n| (&text[n.at.clone()], &text[n.first.clone()], n.inner)).collect();
    let plain = |name| (name, name, false);
    let expected = [
        plain("backend"),
        plain("b"),
        ("host", "host", true),
        plain("sub"),
        plain("f"),
        ("x.y", "x", false),
        plain("b"),
        ("name", "name", true),
        plain("b"),
        plain("set"),
        ("req.http.a-b", "req", false),
        plain("q"),
        ("r", "r", true),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_call_knows_which_argument_is_being_written() {
    let call = |text: &str| {
        let at = text.find('|').unwrap();
        let text = text.replace('|', "");
        Outline::parse(text.as_bytes()).call(text.as_bytes(), at).map(|c| (c.name, c.arg, c.named))
    };
    let of = |name: &str, arg, named: Option<&str>| Some((name.to_owned(), arg, named.map(str::to_owned)));
    assert_eq!(call("sub a { std.log(|"), of("std.log", 0, None));
    assert_eq!(call("sub a { a.b(c(1, 2), |)"), of("a.b", 1, None));
    assert_eq!(call("sub a { a.b(1, x = |2)"), of("a.b", 1, Some("x")));
    assert_eq!(call("sub a { a.b(); |"), None);
    assert_eq!(call("sub a { if ((|"), None);
}

#[test]
fn what_is_wrong_can_be_taken_out() {
    let without = |text: &str| {
        let at = text.find('|').unwrap();
        let mut text = text.replace('|', "");
        let (range, with) = Outline::parse(text.as_bytes()).without(text.as_bytes(), at)?;
        text.replace_range(range, with);
        Some(text)
    };
    let is = |text: &str, left: Option<&str>| assert_eq!(without(text).as_deref(), left, "{text}");
    is("sub a { set b = |c; call d; }", Some("sub a {  call d; }"));
    is("sub a { if (x == |y) { call d; } }", Some("sub a { if (true) { call d; } }"));
    is("sub a { if (x == (y |{ call d; } }", Some("sub a { if (true){ call d; } }"));
    is("sub a { if (|x) { } }", None);
    is("sub a { new x = |y; }", None);
    is("backend b { .host = |c; }", Some("backend b {  }"));
    is("acl a { |x; }", Some("acl a {  }"));
    is("sub a { } set |x;", None);
}

#[test]
fn comments_and_what_cannot_be_read_are_known() {
    let at = |text: &str| spot(text).0;
    assert!(at("sub a { /* x | */ }").in_comment && at("# x|").in_comment && at("a; // b|\n").in_comment);
    assert!(!at("sub a { /* x */| }").in_comment && !at("# x\n|").in_comment && !at("|# x\n").in_comment);
    assert!(at("sub a { set b = \"x|\n}").in_string && !at("sub a { set |b = \"x\n}").in_string);
    assert_eq!(at("backend b { .probe = { .u|").block, Some(DeclarationKind::Probe));
    assert_eq!(at("backend b { .probe = { } .u|").block, Some(DeclarationKind::Backend));
}

#[test]
fn long_texts_that_never_end_are_read_once() {
    for piece in ["sub a {", "sub a ", "new a = b ", "backend b { .c = {", "\"\n", "{\"\n", "/*\n", "a.b("] {
        let text = piece.repeat(40_000);
        let outline = Outline::parse(text.as_bytes());
        outline.cursor_context(text.as_bytes(), text.len());
        outline.names(text.as_bytes());
        outline.call(text.as_bytes(), text.len());
        outline.blocks();
    }
}

fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "sub a {",
        "if (b) {",
        "}",
        "{",
        "(",
        ")",
        ";",
        ",",
        ".",
        "=",
        "set ",
        "new x = ",
        "req.http.y",
        "acl a {",
        "\"s\"",
        "\"",
        "{\"",
        "/* c */",
        "/*",
        "# d\n",
        "\n",
        "\r\n",
        " ",
        "std.log(",
        "\u{e4}",
        "\u{1f600}",
        "vcl 4.1;",
        "include \"i\";",
    ])
}

proptest! {
    #[test]
    fn pieces_in_any_order_are_survived(pieces in prop::collection::vec(piece(), 0..40), at in 0usize..300) {
        let text = pieces.concat();
        let (text, at) = (text.as_bytes(), at.min(text.len()));
        let outline = Outline::parse(text);
        let spot = outline.cursor_context(text, at);
        prop_assert!(spot.name.start <= spot.name.end && spot.name.end <= text.len());
        for name in outline.names(text) {
            prop_assert!(name.at.start == name.first.start && name.first.end <= name.at.end && name.at.end <= text.len());
        }
        for block in outline.blocks() {
            prop_assert_eq!((text[block.start], text[block.end - 1]), (b'{', b'}'));
        }
        if let Some((range, with)) = outline.without(text, at) {
            prop_assert!(range.end <= text.len() && with.len() <= range.len());
        }
        outline.call(text, at);
        prop_assert!(outline.before(at).is_none_or(|token| token.end <= at));
        for d in &outline.declarations {
            prop_assert!(d.whole.contains(&d.at.start) && d.at.end <= d.whole.end && d.whole.end <= text.len(), "{:?}", d);
        }
    }

    #[test]
    fn any_text_and_place_are_survived(text in "[a-z.;{}()\"/*#\n =]{0,120}", at in 0usize..130) {
        let outline = Outline::parse(text.as_bytes());
        let spot = outline.cursor_context(text.as_bytes(), at.min(text.len()));
        prop_assert!(spot.name.end <= text.len());
        for d in &outline.declarations {
            prop_assert!(d.whole.contains(&d.at.start) && d.whole.end <= text.len());
        }
    }
}

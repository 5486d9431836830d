// SPDX-License-Identifier: BSD-2-Clause
//! Outlines of whole, half and random texts.

use proptest::prelude::*;

use super::{Kind, Outline, Spot};

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

fn spot(text: &str) -> (Spot, String) {
    let at = text.find('|').unwrap();
    let text = text.replace('|', "");
    let spot = Outline::of(text.as_bytes()).spot(text.as_bytes(), at);
    let name = text[spot.name.clone()].to_owned();
    (spot, name)
}

#[test]
fn declarations_and_includes_are_found() {
    let outline = Outline::of(TEXT.as_bytes());
    let found: Vec<_> = outline.declarations.iter().map(|d| (d.kind, d.name.as_str(), d.of.as_str())).collect();
    assert_eq!(
        found,
        [
            (Kind::Import, "std", "std"),
            (Kind::Import, "d", "directors"),
            (Kind::Backend, "b", ""),
            (Kind::Sub, "vcl_init", ""),
            (Kind::Object, "rr", "d.round_robin"),
            (Kind::Sub, "vcl_recv", ""),
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
    assert_eq!((name.as_str(), at.block, at.sub), (".ho", Some(Kind::Backend), None));
    assert!(spot("include \"a|b\";").0.in_string);
}

#[test]
fn half_a_text_is_read_as_far_as_it_goes() {
    let outline = Outline::of(b"sub a {\n  set req.url = \"x\n}\nsub b {\n  if (\nsub c {\n}\n");
    let names: Vec<_> = outline.declarations.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(outline.declarations[1].whole.end < outline.declarations[2].whole.start);
}

proptest! {
    #[test]
    fn any_text_and_place_are_survived(text in "[a-z.;{}()\"/*#\n =]{0,120}", at in 0usize..130) {
        let outline = Outline::of(text.as_bytes());
        let spot = outline.spot(text.as_bytes(), at.min(text.len()));
        prop_assert!(spot.name.end <= text.len());
        for d in &outline.declarations {
            prop_assert!(d.whole.contains(&d.at.start) && d.whole.end <= text.len());
        }
    }
}

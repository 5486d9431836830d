// SPDX-License-Identifier: BSD-2-Clause
//! Fields that are read, refused, and written again.

use proptest::prelude::*;

use super::*;

fn check(text: &str, want: Option<&[(&str, FieldItem)]>) {
    let read = Dictionary::parse(text.as_bytes());
    let members = read.as_ref().map(|all| all.members().map(|(key, item)| (key, item.clone())).collect::<Vec<_>>());
    let want = want.map(|all| all.iter().map(|(key, item)| (key.as_bytes(), item.clone())).collect());
    assert_eq!(members, want, "{text}");
}

#[test]
fn dictionaries_of_directives() {
    check("", Some(&[]));
    check("max-age=60, no-store", Some(&[("max-age", FieldItem::Integer(60)), ("no-store", FieldItem::Boolean(true))]));
    check("a=1;x=\"y\";z , a=2", Some(&[("a", FieldItem::Integer(2))]));
    check(
        "a=?0,b=-7,c=1.5",
        Some(&[
            ("a", FieldItem::Boolean(false)),
            ("b", FieldItem::Integer(-7)),
            ("c", FieldItem::Decimal { thousandths: 1500 }),
        ]),
    );
    check("a=(), b=tok/en", Some(&[("a", FieldItem::List(Vec::new())), ("b", FieldItem::Token(b"tok/en".to_vec()))]));
    check("a=\"1\\\"0\"", Some(&[("a", FieldItem::String(b"1\"0".to_vec()))]));
    check(
        "a=:aGk=:, b=@1659578233, c=%\"x%c3%bc\"",
        Some(&[
            ("a", FieldItem::Bytes(b"hi".to_vec())),
            ("b", FieldItem::Date(1_659_578_233)),
            ("c", FieldItem::Display("xü".to_owned())),
        ]),
    );
}

#[test]
fn what_is_no_dictionary() {
    for text in [
        "max-age =1",
        "max-age= 1",
        "Max-Age=1",
        "a,",
        "a,,b",
        "a=1 b",
        "&&",
        "a=",
        "a=\"x",
        "a=(1",
        "a=1.",
        "a=1234567890123456",
        "a=?2",
        "a=(1)(2)",
        "a=@1.5",
        "a=%\"%C3%BC\"",
        "a=%\"%ff\"",
        "a=%\"%c\"",
    ] {
        check(text, None);
    }
}

#[test]
fn repeated_keys_keep_their_place_and_count_as_read() {
    let text = (0..200).map(|n| format!("a{}", ";p=1;q;p=2".repeat(80 + n % 2))).collect::<Vec<_>>().join(",");
    let read = Dictionary::parse(text.as_bytes()).expect("a dictionary");
    let only = read.get(b"a").expect("there");
    assert_eq!((read.len(), only.parameters.len(), &only.parameters[0].1), (1, 2, &FieldItem::Integer(2)));
    assert_eq!(Dictionary::parse(format!("a{}", ";p".repeat(257)).as_bytes()), None);
}

/// The examples of RFC 9421 2.1.1, and one of each type.
#[test]
fn a_field_is_written_in_one_form() {
    for (text, want) in [
        ("a=1,    b=2;x=1;y=2,   c=(a   b   c), d", "a=1, b=2;x=1;y=2, c=(a b c), d"),
        ("a=?1;q=?1;r=?0,b=?0", "a;q;r=?0, b=?0"),
        ("a=1.50, b=-0.001, c=12.0, d=-0007", "a=1.5, b=-0.001, c=12.0, d=-7"),
        ("a=\"x\\\\\\\"y\";b=:aGk:", "a=\"x\\\\\\\"y\";b=:aGk=:"),
        ("a=%\"%41%25%22%c3%bc\", b=@-5", "a=%\"A%25%22%c3%bc\", b=@-5"),
        ("a=1;x=1;y=2;x=3, b, a=2;z", "a=2;z, b"),
        ("a=(\"x\";p=1 1.0 );q", "a=(\"x\";p=1 1.0);q"),
    ] {
        let (mut out, read) = (Vec::new(), Dictionary::parse(text.as_bytes()).expect("a dictionary"));
        read.write(&mut out);
        assert_eq!(String::from_utf8_lossy(&out), want);
    }
    let mut out = Vec::new();
    write_list(&list(b"a;b , (1  2);c,\"d\"").expect("a list"), &mut out);
    assert_eq!(out, b"a;b, (1 2);c, \"d\"");
}

#[test]
fn lists_of_strings() {
    assert_eq!(strings(b"\"a\", \"b c\";x, tok, 5"), Some(vec![b"a".to_vec(), b"b c".to_vec()]));
    assert_eq!(strings(b"\"a\" \"b\""), None);
    let many = vec!["\"x\""; MAX_MEMBERS + 1].join(",");
    assert_eq!(strings(many.as_bytes()), None);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(text in proptest::collection::vec(any::<u8>(), 0..60)) {
        let _ = (Dictionary::parse(&text), strings(&text));
    }

    #[test]
    fn near_misses_are_read_or_refused(text in "([a-c]|=|,| |;|\"|\\\\|[0-9]|\\(|\\)|\\?|:|@|%|-|\\.){0,20}") {
        let _ = strings(text.as_bytes());
        if let Some(read) = Dictionary::parse(text.as_bytes()) {
            let mut out = Vec::new();
            read.write(&mut out);
            prop_assert_eq!(Dictionary::parse(&out), Some(read));
        }
    }
}

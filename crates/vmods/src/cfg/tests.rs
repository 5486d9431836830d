// SPDX-License-Identifier: BSD-2-Clause
//! Files of settings and rules, those that are wrong among them.

use super::variables::{Delimiters, Variables};
use super::{MAX_BYTES, RULES, Rules};

fn usual() -> Delimiters {
    Delimiters { name: b":".to_vec(), value: b";".to_vec() }
}

fn ini(text: &str) -> Result<String, String> {
    Variables::of_ini(text.as_bytes(), &usual()).map(|variables| variables.dump(b""))
}

fn json(text: &str) -> Result<String, String> {
    Variables::of_json(text.as_bytes(), &usual()).map(|variables| variables.dump(b""))
}

fn check(found: Result<String, String>, wanted: &str) {
    assert_eq!(found.unwrap_or_else(|reason| reason), wanted);
}

#[test]
fn lines_of_ini_files() {
    check(ini(""), "{}");
    check(ini("server: ACME\n\n[joke]\nstart = 1\nstop=2\n"), r#"{"joke:start":"1","joke:stop":"2","server":"ACME"}"#);
    check(ini("\u{feff}a = 1\r\nb = 2\r\n"), r#"{"a":"1","b":"2"}"#);
    check(ini("; c\n# c\na = 1 ; c\nb = 1;2\nc = ;\nd =;\n"), r#"{"a":"1","b":"1;2","c":"","d":";"}"#);
    check(ini("a = 1\na = 2\na:3\n"), r#"{"a":"1;2;3"}"#);
    check(ini("a = 1\n  2 ; kept\n\n\t3\n  # c\n[s]\n b = 4\n"), r#"{"a":"1;2 ; kept;3","s:b":"4"}"#);
    check(ini("a = b = c\nurl = http://x:80/?a=b\n"), r#"{"a":"b = c","url":"http://x:80/?a=b"}"#);
    check(ini("[a\nb = 1"), "line 1: a section without ]");
    check(ini("a = 1\nword\n"), "line 2: neither NAME = VALUE nor [SECTION]");
    check(ini("word ; a = 1"), "line 1: neither NAME = VALUE nor [SECTION]");
}

#[test]
fn members_of_json_files() {
    check(json("{}"), "{}");
    check(json(r#"{"a": {"b": {"c": "x"}, "d": true}, "e": [1], "f": null}"#), r#"{"a:b:c":"x","a:d":"true"}"#);
    check(
        json(r#"{"i": 42, "m": -7, "r": 1.5, "w": 2.0, "l": 9007199254740993}"#),
        r#"{"i":"42","l":"9007199254740993","m":"-7","r":"1.500","w":"2"}"#,
    );
    check(json("[1]"), "not a JSON object");
    assert!(json("{").is_err() && json("").is_err());
    assert!(json(&format!("{}1{}", r#"{"a":"#.repeat(200), "}".repeat(200))).is_err());
}

#[test]
fn other_delimiters() {
    let other = Delimiters { name: b"_".to_vec(), value: b", ".to_vec() };
    let found = Variables::of_ini(b"[s]\na = 1\na = 2\n", &other).expect("it is right");
    assert_eq!(found.dump(b"s_"), r#"{"s_a":"1, 2"}"#);
    assert_eq!(found.dump(b"x"), "{}");
}

#[test]
fn long_names_of_many_settings_are_refused() {
    let section = "s".repeat(MAX_BYTES as usize / 4);
    let file = format!("[{section}]\n{}", "a=1\n".repeat(1000));
    check(ini(&file), "names and values of more than 67108864 bytes");
    let members: Vec<String> = (0..1000).map(|n| format!(r#""{n}": {{}}"#)).collect();
    check(
        json(&format!(r#"{{"{section}": {{{}}}}}"#, members.join(","))),
        "names and values of more than 67108864 bytes",
    );
}

#[test]
fn rules_of_a_file() {
    let rules = Rules::parse(b"(?i)\\.(?:jpg|png)$ -> 7d\n\n  ^/a->b->c \r\nx ->\n").expect("they are right");
    let found = |text: &str| {
        let first = rules.0.iter().find(|(regex, _)| regex.is_match(text.as_bytes()).expect("short"));
        first.map(|(_, value)| value.lossy().into_owned())
    };
    assert_eq!(found("/b.JPG").as_deref(), Some("7d"));
    assert_eq!(found("/a").as_deref(), Some("b->c"));
    assert_eq!(found("/x").as_deref(), Some(""));
    assert_eq!(found("/"), None);
    let refused = |text: &str| Rules::parse(text.as_bytes()).err().unwrap_or_default();
    assert_eq!(refused("a -> b\nword"), "line 2: a rule is PATTERN -> VALUE");
    assert_eq!(refused("-> b"), "line 1: a rule is PATTERN -> VALUE");
    assert!(refused("a -> b\n( -> b").starts_with("line 2: bad pattern \"(\": "));
    assert_eq!(refused(&"a->b\n".repeat(RULES + 1)), format!("line {}: more than {RULES} rules", RULES + 1));
}

proptest::proptest! {
    #[test]
    fn any_text(text in "[a-c=:;# \\[\\]\n\r\t>{}\",-]{0,60}") {
        let _ = (ini(&text), json(&text), Rules::parse(text.as_bytes()));
    }
}

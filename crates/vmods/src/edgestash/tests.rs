// SPDX-License-Identifier: BSD-2-Clause
//! Templates and JSON, and what they make.

use proptest::prelude::*;

use super::*;
use crate::support::body_collector::tests::run;

fn filled(template: &[u8], json: &[&str], cut: usize, room: usize) -> Result<String, FilterError> {
    let mut page = Page::default();
    for json in json {
        page.values.add(json.as_bytes());
    }
    run(&mut page, template, cut, room).map(|made| String::from_utf8_lossy(&made).into_owned())
}

#[track_caller]
fn check(template: &str, json: &[&str], wanted: &str) {
    for (cut, room) in [(1, 1), (5, 1000)] {
        assert_eq!(filled(template.as_bytes(), json, cut, room).as_deref(), Ok(wanted), "{template}");
    }
}

#[test]
fn variables() {
    check("Hello {{name}} {{ test }}!", &[r#"{"name": "Reza", "test": 1.5}"#], "Hello Reza 1.5!");
    check(
        "{{a}}|{{& a}}|{{no}}|{{n}}|{{t}}",
        &[r#"{"a": "<\"&>", "n": null, "t": true}"#],
        "&lt;&quot;&amp;&gt;|<\\\"&>|||true",
    );
    check(
        "{{a.b[1].c}} {{a.x}} {{.}}",
        &[r#"{"a": {"b": [0, {"c": "d"}]}, "a.x": 1}"#],
        "d 1 {&quot;a&quot;:{&quot;b&quot;:[0,{&quot;c&quot;:&quot;d&quot;}]},&quot;a.x&quot;:1}",
    );
    check("{{[0]}}{{[1]}}", &["[5]"], "5");
    // The first document that has it.
    check("{{a}}{{b}}", &[r#"{"a": 1}"#, "no JSON", r#"{"a": 2, "b": 3}"#], "13");
    check("{{a}}", &[], "");
    check("{{a}}{{! not\n this }}{{=${ }=}}{{a}}${a}", &[r#"{"a": 1}"#], "1{{a}}1");
}

#[test]
fn sections() {
    let people =
        r#"{"p": [{"n": "a"}, {"n": "b"}, {"m": 1}], "n": "z", "e": [], "o": {"n": "o"}, "f": false, "zero": 0}"#;
    check("{{#p}}<{{n}}>{{/p}}{{^p}}none{{/p}}", &[people], "<a><b><z>");
    check("{{#e}}x{{/e}}{{^e}}none{{/}}{{#f}}x{{/f}}{{^no}}no{{/no}}", &[people], "noneno");
    check("{{#o}}{{n}}{{#p}}{{n}}{{/p}}{{/o}}{{#zero}}0{{/zero}}", &[people], "oabo0");
    check("[{{#.}}\"{{v}}\"{{^$last}},{{/$last}}{{/}}]", &[r#"[{"v": 1}, {"v": 2}]"#], "[\"1\",\"2\"]");
    check("{{#.}}{{a}}{{$pos}}/{{$size}} {{/}}{{^.}}none{{/}}", &[r#"{"a": 1}"#, r#"{"a": 2, "b": 3}"#], "10/1 21/2 ");
    check("{{#.}}x{{/.}}{{^.}}none{{/.}}", &[], "none");
    check("{{#p}}{{#$first}}({{/}}{{$pos}}{{#$last}}){{/}}{{/}}", &[people], "(012)");
    check("{{#l}}{{.}},{{/l}}", &[r#"{"l": [1, "b", null, [2]]}"#], "1,b,,[2],");
    check("{{#$type}}{{$type}}{{/}}{{^$type}}none{{/}}", &["{}"], "object");
    check("{{#$type}}{{$type}}{{/}}{{^$type}}none{{/}}", &["{"], "none");
}

#[test]
fn expressions() {
    let json = &[r#"{"n": 7, "s": "x", "t": true, "l": [1, 2]}"#];
    for (expr, wanted) in [
        ("n + 1f", "8"),
        ("n - 2f * 3f", "1"),
        ("(n - 2f) * 3d", "15"),
        ("n / 2f", "3.5"),
        ("($pos % 2f) == 0f", "true"),
        ("n == 7f", "true"),
        ("s == \"x\"", "true"),
        ("s == 7f", "false"),
        ("s != \"y\" && t", "true"),
        ("(! t) || n < 3f", "false"),
        ("n >= 7f && n <= 7f", "true"),
        ("s + 1f", ""),
        ("no == null", "true"),
        ("\"a b\"", "a b"),
        ("$ size", "4"),
        ("-1.5f", "-1.5"),
    ] {
        check(&format!("{{{{{expr}}}}}"), json, wanted);
    }
    check("{{#(n % 2f) == 1f}}odd{{/}}{{#(n % 2f) == 0f}}even{{/}}", json, "odd");
}

#[test]
fn lines_of_tags_alone() {
    check(
        "a\n{{#l}}\n- {{.}}\n{{/l}}\n  {{! c }}\nb {{! c }}\n{{=[ ]=}}\n[x]",
        &[r#"{"l": [1, 2]}"#],
        "a\n- 1\n- 2\nb \n",
    );
    check("{{#a}}\r\nx\r\n{{/a}}", &[r#"{"a": 1}"#], "x\r\n");
}

#[test]
fn what_is_no_template() {
    let deep = format!("{}{}", "{{#a}}".repeat(65), "{{/}}".repeat(65));
    let parens = format!("{{{{{}a{}}}}}", "(".repeat(65), ")".repeat(65));
    for text in [
        "{{a",
        "{{#a}}",
        "{{/a}}",
        "{{#a}}{{#b}}{{/a}}{{/b}}",
        "{{{a}}}",
        "{{}}",
        "{{a b}}",
        "{{( a}}",
        "{{a )}}",
        "{{$x}}",
        "{{a +}}",
        "{{+}}",
        "{{\"a}}",
        "{{=a=}}",
        "{{=a b c=}}",
        "{{#}}{{/}}",
        &deep,
        &parens,
    ] {
        let found = parse(text.as_bytes(), &Delimiters::default());
        assert!(matches!(found, Err(Fault::NoTemplate(_))), "{text}: {found:?}");
    }
    assert!(matches!(parse(b"{{> /url}}", &Delimiters::default()), Err(Fault::NotBuilt(_))));
    assert!(parse(b"{{a\xff}}", &Delimiters::default()).is_err());
    assert_eq!(Delimiters::new(b"[ ", b"]"), None);
}

#[test]
fn looked_at_on_the_way_in() {
    let look = |as_json, body: &[u8]| {
        let mut looking = PageScanner { as_json, ..PageScanner::default() };
        let made = run(&mut looking, body, 5000, 700);
        assert!(made.is_err() || made.as_deref() == Ok(body));
        let mut notes = Vec::new();
        looking.take_notes(&mut notes);
        (made.map(drop), looking.take_metadata().map(|left| String::from_utf8(left).unwrap()), notes.len())
    };
    assert_eq!(look(false, b"{{a}}"), (Ok(()), Some("{{ }}".into()), 0));
    assert_eq!(look(false, b"{{a"), (Ok(()), None, 1));
    assert_eq!(look(false, &[b'a'; MAX + 1]), (Ok(()), None, 1));
    assert_eq!(look(true, b"[1]"), (Ok(()), Some(String::new()), 0));
    assert_eq!(look(true, b"[1"), (Ok(()), None, 1));
    assert!(look(false, b"{{>a}}").0.is_err());
}

#[test]
fn documents_that_are_asked_for() {
    let mut page = Page::default();
    for url in ["/1", "/2", "/3"] {
        page.values.add(b"null");
        page.asked.push((page.values.roots.len() - 1, Subrequest { url: url.into(), host: None, most: MAX }));
    }
    page.values.add(b"{\"a\": 4, \"b\": 4}");
    let asked = page.take_subrequests();
    assert_eq!(asked.iter().map(|asked| &asked.url[..]).collect::<Vec<_>>(), [b"/1", b"/2", b"/3"]);
    assert!(page.take_subrequests().is_empty());
    page.answer(vec![None, Some(b"{".to_vec()), Some(b"{\"a\": 3}".to_vec())]);
    assert_eq!(run(&mut page, b"{{a}}{{b}}", 3, 3), Ok(b"34".to_vec()));
    // All of it is bounded.
    let long = [b"\"", &vec![b'x'; MAX_JSON_BYTES][..], b"\""].concat();
    let mut page = Page::default();
    page.values.add(b"null");
    page.waiting = vec![0];
    page.answer(vec![Some(long)]);
    assert_eq!(run(&mut page, b"{{.}}", 3, 3), Ok(Vec::new()));
}

#[test]
fn too_many_steps_are_an_error() {
    let json = format!("{{\"a\": [{}1]}}", "1,".repeat(99));
    let template = format!("{}{}", "{{#a}}".repeat(5), "{{/a}}".repeat(5));
    assert!(filled(template.as_bytes(), &[&json], 100, 100).is_err());
}

proptest! {
    #[test]
    fn any_template_and_any_json(template in "([{}#^/!&=. a-c$()\"+<>%0-9f\n\\[\\]-]|\\{\\{|\\}\\}|\\{\\{#a\\}\\}|\\{\\{/\\}\\}){0,30}", json in "[\\[\\]{}\":,a-c0-9 ]{0,20}", cut in 1usize..50) {
        let whole = filled(template.as_bytes(), &[&json], 1000, 1000);
        prop_assert_eq!(&filled(template.as_bytes(), &[&json], cut, 3), &whole);
        if parse(template.as_bytes(), &Delimiters::default()).is_ok() {
            prop_assert!(whole.is_ok());
        }
    }

    #[test]
    fn values_are_escaped(value in "\\PC{0,20}") {
        let json = serde_json::json!({ "a": value }).to_string();
        let made = filled(b"{{a}}", &[&json], 10, 10).expect("a template");
        prop_assert!(!made.contains(['<', '>', '"']));
        let back = made.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
        prop_assert_eq!(back, value);
    }
}

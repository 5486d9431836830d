// SPDX-License-Identifier: BSD-2-Clause
//! Facts about heads.

use proptest::prelude::*;

use super::*;

fn lines(head: &Head) -> Vec<String> {
    head.iter().map(|f| String::from_utf8_lossy(f.line()).into_owned()).collect()
}

fn head(text: &[&str]) -> Head {
    let mut head = Head::new();
    head.start_response(b"HTTP/1.1", 200).unwrap();
    text.iter().for_each(|l| head.append_line(l.as_bytes()).unwrap());
    head
}

#[test]
fn lines_keep_their_order_case_and_blanks() {
    let h = head(&["B:  two \t", "a: 1", "EMPTY:", "b: three"]);
    assert_eq!(lines(&h), ["B:  two \t", "a: 1", "EMPTY:", "b: three"]);
    assert_eq!(h.get("b"), Some(&b"two"[..]));
    assert_eq!(h.get("Empty"), Some(&b""[..]));
    assert_eq!(h.get("c"), None);
    assert_eq!(h.get_all(b"B").collect::<Vec<_>>(), [&b"two"[..], b"three"]);
    assert_eq!(h.count("b"), 2);
}

#[test]
fn a_name_that_is_the_start_of_another_is_not_it() {
    let h = head(&["Content-Length: 5", "Cookie2: a"]);
    assert!(!h.has("Content"));
    assert!(!h.has("Cookie"));
}

#[test]
fn set_replaces_all_and_goes_to_the_end() {
    let mut h = head(&["a: 1", "b: 2", "A: 3", "c: 4"]);
    h.set("a", "5").unwrap();
    assert_eq!(lines(&h), ["b: 2", "c: 4", "a: 5"]);
    h.set("d", "6").unwrap();
    assert_eq!(h.unset("B"), 1);
    assert_eq!(lines(&h), ["c: 4", "a: 5", "d: 6"]);
}

#[test]
fn collect_joins_into_the_first() {
    let mut h = head(&["a: 1", "x: y", "A:  2 ", "a:"]);
    assert_eq!(h.collect("a"), Ok(true));
    assert_eq!(lines(&h), ["a: 1, 2, ", "x: y"]);
    assert_eq!(h.collect("a"), Ok(false));
    assert_eq!(h.collect("nope"), Ok(false));
}

#[test]
fn limits_are_errors_and_change_nothing() {
    let mut h = Head::with_limits(HeadLimits { fields: 2, bytes: 40 });
    h.append("a", "1").unwrap();
    h.append("b", "2").unwrap();
    assert_eq!(h.append("c", "3"), Err(LostHeader::TooManyFields));
    h.set("a", "4").unwrap();
    assert_eq!(h.set("b", "x".repeat(60)), Err(LostHeader::NoSpace));
    assert_eq!(h.append("no token", "x"), Err(LostHeader::BadField));
    assert_eq!(lines(&h), ["b: 2", "a: 4"]);
}

#[test]
fn garbage_is_squeezed_out_before_space_is_lost() {
    let mut h = Head::with_limits(HeadLimits { fields: 9, bytes: 100 });
    h.start_request(b"GET", b"/", b"HTTP/1.1").unwrap();
    h.append("keep", "me").unwrap();
    for i in 0..1000 {
        h.set("counter", i.to_string()).unwrap();
        h.set_url(format!("/{i}")).unwrap();
    }
    assert!(h.arena_bytes() <= 100);
    assert_eq!(lines(&h), ["keep: me", "counter: 999"]);
    assert_eq!((h.method(), h.url(), h.proto()), (&b"GET"[..], &b"/999"[..], &b"HTTP/1.1"[..]));
}

#[test]
fn wire_form_of_both_kinds() {
    let mut out = Vec::new();
    let mut h = Head::new();
    h.start_request(b"GET", b"/x", b"HTTP/1.1").unwrap();
    h.append("Host", "a").unwrap();
    h.write_to(&mut out);
    assert_eq!(out, b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    out.clear();
    h.start_response(b"HTTP/1.1", 1404).unwrap();
    h.write_to(&mut out);
    assert_eq!(out, b"HTTP/1.1 404 Not Found\r\n\r\n");
    assert_eq!((h.status(), h.is_status(404)), (1404, true));
}

#[test]
fn laid_lines_and_others_are_sent_in_their_order() {
    let mut h = Head::new();
    h.lay(b"skipped\r\nA: 1\r\nB:2\r\nlonger than needed \r\nC: 3\r\n\r\n").unwrap();
    h.append_laid_line(9..13, 1).unwrap();
    h.append_laid_line(15..18, 1).unwrap();
    h.append_checked_line(b"X: y", 1).unwrap();
    h.append_laid_line(41..45, 1).unwrap();
    let mut out = Vec::new();
    h.write_fields(&mut out);
    assert_eq!(out, b"A: 1\r\nB:2\r\nX: y\r\nC: 3\r\n\r\n");
    assert_eq!(Head::with_limits(HeadLimits { fields: 9, bytes: 9 }).lay(b"0123456789"), Err(LostHeader::NoSpace));
}

#[test]
fn status_sets_the_reason_and_reason_alone_doesnt_change_it() {
    let mut h = head(&[]);
    h.set_status(503).unwrap();
    assert_eq!(h.reason(), b"Service Unavailable");
    h.set_reason("Oops").unwrap();
    assert_eq!((h.status(), h.reason()), (503, &b"Oops"[..]));
    h.set_status(799).unwrap();
    assert_eq!(h.reason(), b"Unknown HTTP Status");
}

#[test]
fn versions() {
    let check = |text: &str, number| assert_eq!(HttpVersion::parse(text.as_bytes()).number(), number, "{text}");
    check("HTTP/1.1", 11);
    check("HTTP/1.0", 10);
    check("HTTP/2.0", 20);
    check("http/1.1", 0);
    check("HTTP/1.10", 0);
    check("", 0);
}

#[test]
fn a_stored_head_comes_back_without_what_was_left_out() {
    let h = head(&["A: 1", "drop: me", "b:2 "]);
    let mut stored = vec![0xff];
    h.store_to(&mut stored, |f| !f.is("drop"));
    let mut back = Head::new();
    back.load_from(&stored[1..]).unwrap();
    assert_eq!(lines(&back), ["A: 1", "b:2 "]);
    assert_eq!((back.status(), back.reason(), back.version()), (200, &b"OK"[..], HttpVersion::HTTP11));
    let view = StoredHead::parse(&stored[1..]).unwrap();
    assert_eq!((view.get("B"), view.get("drop"), view.status()), (Some(&b"2"[..]), None, 200));
}

#[test]
fn many_lines_can_be_stored() {
    let mut h = Head::with_limits(HeadLimits { fields: 3000, bytes: 1 << 20 });
    h.start_response(b"HTTP/1.1", 200).unwrap();
    (0..2000).for_each(|i| h.append(format!("h{i}"), i.to_string()).unwrap());
    let mut stored = Vec::new();
    h.store_to(&mut stored, |f| !f.value().ends_with(b"7"));
    let mut back = Head::new();
    back.load_from(&stored).unwrap();
    assert_eq!(back.len(), 1800);
    assert_eq!(back.get("h1999"), Some(&b"1999"[..]));
    assert_eq!(back.get("h1997"), None);
}

fn any_line() -> impl Strategy<Value = (String, String)> {
    ("[a-cA-C-]{1,3}", "[ \t]?[ -~]{0,8}")
}

proptest! {
    #[test]
    fn stored_heads_round_trip(fields in proptest::collection::vec(any_line(), 0..50), status in 100u16..2000) {
        let mut h = Head::new();
        h.start_response(b"HTTP/1.0", status).unwrap();
        for (name, value) in &fields {
            h.append(name, value).unwrap();
        }
        let mut stored = Vec::new();
        h.store_to(&mut stored, |_| true);
        let mut back = Head::new();
        back.load_from(&stored).unwrap();
        prop_assert_eq!(&back, &h);
        for end in 0..stored.len() {
            prop_assert!(back.load_from(&stored[..end]).is_err());
            prop_assert!(back.is_empty());
        }
    }

    #[test]
    fn damaged_stored_heads_are_errors_or_heads(bytes in proptest::collection::vec(any::<u8>(), 0..100), lines in 0u8..4) {
        let mut bytes = bytes;
        if bytes.len() >= 8 {
            (bytes[0], bytes[1], bytes[5], bytes[6], bytes[7]) = (2, bytes[1] % 9, 0, lines, 0);
        }
        let mut h = Head::new();
        if h.load_from(&bytes).is_ok() {
            h.iter().for_each(|f| { let _ = (f.name(), f.value()); });
        }
    }

    #[test]
    fn changes_agree_with_a_plain_list(ops in proptest::collection::vec((0u8..5, "[ab]", "[xy]{0,9}"), 0..60)) {
        let mut h = Head::with_limits(HeadLimits { fields: 40, bytes: 300 });
        let mut model: Vec<(String, String)> = Vec::new();
        for (op, name, value) in ops {
            let fits = |model: &[(String, String)], gone: usize| model.len() - gone < 40;
            match op {
                0 | 1 => if h.append(&name, &value).is_ok() { prop_assert!(fits(&model, 0)); model.push((name, value)) },
                2 => if h.set(&name, &value).is_ok() {
                    model.retain(|(n, _)| *n != name);
                    model.push((name, value));
                },
                3 => { h.unset(&name); model.retain(|(n, _)| *n != name) },
                _ => if let Ok(true) = h.collect(&name) {
                    let all: Vec<_> = model.iter().filter(|(n, _)| *n == name).map(|(_, v)| v.clone()).collect();
                    let first = model.iter().position(|(n, _)| *n == name).unwrap();
                    model[first].1 = all.join(", ");
                    let mut i = 0;
                    model.retain(|(n, _)| { i += 1; i - 1 <= first || *n != name });
                },
            }
            let got: Vec<_> = h.iter().map(|f| (f.name().to_vec(), f.value().to_vec())).collect();
            let want: Vec<_> = model.iter().map(|(n, v)| (n.clone().into_bytes(), crate::chars::trim(v.as_bytes()).to_vec())).collect();
            prop_assert_eq!(got, want);
            let (mut wire, mut plain) = (Vec::new(), Vec::new());
            h.write_fields(&mut wire);
            h.iter().for_each(|f| plain.extend_from_slice(&[f.line(), b"\r\n"].concat()));
            plain.extend_from_slice(b"\r\n");
            prop_assert_eq!(wire, plain);
            prop_assert!(h.arena_bytes() <= 300);
        }
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Conditional requests (RFC 9110 13). Varnish compares the whole of If-None-Match with the entity tag; here it is a list.

use base::clock::Real;

use crate::{Head, date, names};

/// True if a 200 may be answered with 304: the client's copy is still good. `date` stands in for a missing Last-Modified, to the second.
pub fn is_not_modified(request: &Head, response: &Head, t_req: Real, date: impl FnOnce() -> Option<Real>) -> bool {
    // To other methods a false condition is 412, which is the origin's to say.
    if !response.is_status(200) || !matches!(request.method(), b"GET" | b"HEAD" | b"QUERY") {
        return false;
    }
    // If-None-Match makes If-Modified-Since void (RFC 9110 13.1.3).
    if request.has(names::IF_NONE_MATCH) {
        let lines = request.iter().filter(|field| field.is(names::IF_NONE_MATCH));
        return lines.into_iter().any(|line| names_tag(line.value(), request.has(names::RANGE), response));
    }
    // One that has more than one member must be ignored (13.1.3).
    let Some(since) = request.only(names::IF_MODIFIED_SINCE).and_then(date::parse) else { return false };
    if since.0 == 0.0 || since > t_req {
        return false;
    }
    match response.get(names::LAST_MODIFIED) {
        Some(text) => date::parse(text).is_some_and(|modified| modified.0 != 0.0 && modified <= since),
        None => date().is_some_and(|date| date.0.floor() <= since.0),
    }
}

/// True if a Last-Modified beside this Date is a strong validator: at least a second earlier (RFC 9110 8.8.2.2).
pub fn is_strong_date(last_modified: &[u8], date: &[u8]) -> bool {
    match (date::parse(last_modified), date::parse(date)) {
        (Some(modified), Some(date)) => modified.0 != 0.0 && date.0 != 0.0 && modified.0 + 1.0 <= date.0,
        _ => false,
    }
}

/// True if a line of If-None-Match names the response's entity tag. `*` names any.
fn names_tag(line: &[u8], strongly: bool, response: &Head) -> bool {
    if line == b"*" {
        return true;
    }
    let Some(etag) = response.get(names::ETAG) else { return false };
    let equal = if strongly { strong_equal } else { weak_equal };
    // The whole line first: tags without quotes are no tags, but some send them, commas and all.
    equal(line, etag) || Tags(line).any(|tag| equal(tag, etag))
}

/// The members of a list of entity tags; a comma in quotes is part of its tag. What isn't a tag ends at the next comma.
struct Tags<'a>(&'a [u8]);

impl<'a> Iterator for Tags<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.0.iter().position(|c| !matches!(c, b' ' | b'\t' | b','))?;
        let rest = &self.0[start..];
        let opaque = rest.strip_prefix(b"W/").unwrap_or(rest);
        let quoted = opaque.strip_prefix(b"\"").and_then(|inside| memchr::memchr(b'"', inside)).map(|len| len + 2);
        let quoted = quoted.map_or(0, |len| rest.len() - opaque.len() + len);
        let len = match rest[quoted..].iter().find(|c| !matches!(c, b' ' | b'\t')) {
            None | Some(b',') if quoted > 0 => quoted,
            // No tag, or one with junk behind it, which is none either.
            _ => quoted + memchr::memchr(b',', &rest[quoted..]).unwrap_or(rest.len() - quoted),
        };
        self.0 = &rest[len..];
        Some(crate::chars::trim(&rest[..len]))
    }
}

/// Strong comparison of entity tags (RFC 9110 8.8.3.2).
pub fn strong_equal(a: &[u8], b: &[u8]) -> bool {
    !a.starts_with(b"W/") && !b.starts_with(b"W/") && a == b
}

/// Weak comparison of entity tags (RFC 9110 8.8.3.2).
pub fn weak_equal(a: &[u8], b: &[u8]) -> bool {
    a.strip_prefix(b"W/").unwrap_or(a) == b.strip_prefix(b"W/").unwrap_or(b)
}

/// True if If-Range lets a Range count: there is none, or its validator is strong and the response's (RFC 9110 13.1.5).
pub fn if_range_holds(request: &Head, response: &Head) -> bool {
    if !request.has(names::IF_RANGE) {
        return true;
    }
    let Some(wanted) = request.only(names::IF_RANGE).filter(|wanted| !wanted.starts_with(b"W/")) else { return false };
    if wanted.starts_with(b"\"") {
        return response.only(names::ETAG).is_some_and(|etag| strong_equal(wanted, etag));
    }
    let time = |head: &Head, name| head.get(name).and_then(date::parse).filter(|t| t.0 != 0.0);
    let (Some(wanted), Some(date), Some(modified)) =
        (date::parse(wanted).filter(|t| t.0 != 0.0), time(response, names::DATE), time(response, names::LAST_MODIFIED))
    else {
        return false;
    };
    // A date is a strong validator only of what didn't change in the second in which it was sent (RFC 9110 8.8.2.2).
    modified.0 + 1.0 <= date.0 && modified == wanted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_date_is_strong_a_second_later() {
        let at = |second: u8| format!("Sun, 06 Nov 1994 08:49:{second:02} GMT");
        let strong = |modified: &str, date: &str| is_strong_date(modified.as_bytes(), date.as_bytes());
        assert!(strong(&at(36), &at(37)) && strong(&at(1), &at(37)));
        assert!(!strong(&at(37), &at(37)) && !strong(&at(38), &at(37)));
        assert!(!strong("yesterday", &at(37)) && !strong(&at(36), ""));
    }

    const OLD: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const NEW: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn check(request: &[(&str, &str)], response: &[(&str, &str)], want: bool) {
        let mut req = Head::new();
        req.start_request(b"GET", b"/", b"HTTP/1.1").unwrap();
        request.iter().for_each(|(n, v)| req.append(n, v).unwrap());
        let mut resp = Head::new();
        resp.start_response(b"HTTP/1.1", 200).unwrap();
        response.iter().for_each(|(n, v)| resp.append(n, v).unwrap());
        assert_eq!(is_not_modified(&req, &resp, Real(1e9), || None), want, "{request:?} {response:?}");
    }

    #[test]
    fn entity_tags_compare_weakly_unless_ranged() {
        check(&[("If-None-Match", "\"a\"")], &[("ETag", "\"a\"")], true);
        check(&[("If-None-Match", "W/\"a\"")], &[("ETag", "\"a\"")], true);
        check(&[("If-None-Match", "\"b\"")], &[("ETag", "\"a\"")], false);
        check(&[("If-None-Match", "\"a\""), ("Range", "bytes=0-1")], &[("ETag", "W/\"a\"")], false);
        check(&[("If-None-Match", "\"a\"")], &[], false);
    }

    #[test]
    fn if_none_match_is_a_list() {
        let tag = |tag: &'static str| [("ETag", tag)];
        check(&[("If-None-Match", "\"b\", \"a\"")], &tag("\"a\""), true);
        check(&[("If-None-Match", "\"b\",W/\"a\" ,\"c\"")], &tag("\"a\""), true);
        check(&[("If-None-Match", "\"b\""), ("If-None-Match", "\"a\"")], &tag("\"a\""), true);
        check(&[("If-None-Match", "\"b,\"a\",c\"")], &tag("\"x\""), false);
        check(&[("If-None-Match", "\"a,b\"")], &tag("\"a,b\""), true);
        check(&[("If-None-Match", "\"a,b\", \"c\"")], &tag("\"b\""), false);
        check(&[("If-None-Match", "\"a\\\", \"c\"")], &tag("\"c\""), true);
        check(&[("If-None-Match", "a, b")], &tag("b"), true);
        check(&[("If-None-Match", ",,\"a")], &tag("\"a\""), false);
        check(&[("If-None-Match", "\"a\"junk")], &tag("\"a\""), false);
        check(&[("If-None-Match", "\"a\" junk, \"b\"")], &tag("\"a\""), false);
        check(&[("If-None-Match", "\"a\"\"b\"")], &tag("\"a\""), false);
        check(&[("If-None-Match", "\"a\"junk,\"b\"")], &tag("\"b\""), true);
        check(&[("If-None-Match", "\"a\"\t ,")], &tag("\"a\""), true);
        check(&[("If-None-Match", "\"b\", W/\"a\""), ("Range", "bytes=0-")], &tag("\"a\""), false);
        check(&[("If-None-Match", "*")], &tag("\"a\""), true);
        check(&[("If-None-Match", "*")], &[], true);
        check(&[("If-None-Match", "\"*\"")], &tag("\"a\""), false);
    }

    #[test]
    fn only_reading_is_conditional_here() {
        let (mut req, mut resp) = (Head::new(), Head::new());
        req.start_request(b"PUT", b"/", b"HTTP/1.1").unwrap();
        req.append("If-None-Match", "*").unwrap();
        resp.start_response(b"HTTP/1.1", 200).unwrap();
        assert!(!is_not_modified(&req, &resp, Real(1e9), || None));
    }

    #[test]
    fn if_range_takes_strong_validators_only() {
        let check = |wanted: &str, etag: &str, date: &str, want: bool| {
            let (mut req, mut resp) = (Head::new(), Head::new());
            req.append("If-Range", wanted).unwrap();
            resp.start_response(b"HTTP/1.1", 200).unwrap();
            [("ETag", etag), ("Date", date), ("Last-Modified", OLD)]
                .iter()
                .for_each(|(n, v)| resp.append(n, v).unwrap());
            assert_eq!(if_range_holds(&req, &resp), want, "{wanted} {etag} {date}");
        };
        check("\"a\"", "\"a\"", NEW, true);
        check("\"a\"", "\"b\"", NEW, false);
        check("\"a\"", "W/\"a\"", NEW, false);
        check("W/\"a\"", "W/\"a\"", NEW, false);
        check(OLD, "\"a\"", NEW, true);
        check(OLD, "\"a\"", OLD, false);
        check(NEW, "\"a\"", NEW, false);
        check("rubbish", "\"a\"", NEW, false);
    }

    #[test]
    fn if_none_match_hides_if_modified_since() {
        check(
            &[("If-None-Match", "\"b\""), ("If-Modified-Since", NEW)],
            &[("ETag", "\"a\""), ("Last-Modified", OLD)],
            false,
        );
    }

    #[test]
    fn dates_compare_to_the_second() {
        check(&[("If-Modified-Since", OLD)], &[("Last-Modified", OLD)], true);
        check(&[("If-Modified-Since", OLD)], &[("Last-Modified", NEW)], false);
        check(&[("If-Modified-Since", "rubbish")], &[("Last-Modified", OLD)], false);
        check(&[("If-Modified-Since", "Fri, 31 Dec 2100 23:59:59 GMT")], &[("Last-Modified", OLD)], false);
        check(&[("If-Modified-Since", OLD)], &[], false);
        let mut req = Head::new();
        req.start_request(b"GET", b"/", b"HTTP/1.1").unwrap();
        req.append("If-Modified-Since", OLD).unwrap();
        let mut resp = Head::new();
        resp.start_response(b"HTTP/1.1", 200).unwrap();
        let since = date::parse(OLD.as_bytes()).unwrap().0;
        for (received, want) in [(since + 0.9, true), (since + 1.0, false)] {
            assert_eq!(is_not_modified(&req, &resp, Real(1e9), || Some(Real(received))), want);
        }
    }

    /// Several lines of a field that has one value are void (RFC 9110 5.5, 13.1.3, 13.1.5). If-None-Match is a list.
    #[test]
    fn a_second_line_makes_a_date_void() {
        let stored = [("ETag", "\"a\""), ("Last-Modified", OLD)];
        check(&[("If-Modified-Since", OLD); 2], &stored, false);
        check(&[("If-Modified-Since", OLD), ("If-Modified-Since", "rubbish")], &stored, false);
        check(&[("If-None-Match", "\"b\""), ("If-None-Match", "*")], &stored, true);
        let holds = |wanted: &[&str], etags: &[&str]| {
            let (mut req, mut resp) = (Head::new(), Head::new());
            wanted.iter().for_each(|value| req.append(names::IF_RANGE, value).unwrap());
            etags.iter().for_each(|value| resp.append(names::ETAG, value).unwrap());
            if_range_holds(&req, &resp)
        };
        assert!(holds(&[], &["\"a\""]) && holds(&["\"a\""], &["\"a\""]));
        assert!(!holds(&["\"a\"", "\"a\""], &["\"a\""]) && !holds(&["\"a\"", "\"b\""], &["\"a\""]));
        assert!(!holds(&["\"a\""], &["\"a\"", "\"b\""]), "which of them its bytes have is a guess");
    }

    proptest! {
        #[test]
        fn tags_of_any_line_are_parts_of_it(line in "(W/|\"|[a-c,\\* \t\\\\]|\"[a-c, ]{0,3}\"){0,12}") {
            let mut at = 0;
            for tag in Tags(line.as_bytes()) {
                prop_assert!(!tag.is_empty());
                at += memchr::memmem::find(&line.as_bytes()[at..], tag).expect("a part of the line, in its order") + tag.len();
            }
        }

        #[test]
        fn a_tag_is_found_wherever_it_stands(others in proptest::collection::vec("(W/)?\"[a-c, /]{0,4}\"", 0..5), opaque in "[d-f, /]{0,5}", weak: bool, at: prop::sample::Index) {
            let etag = format!("{}\"{opaque}\"", if weak { "W/" } else { "" });
            let mut response = Head::new();
            response.append(names::ETAG, &etag).unwrap();
            let without = others.join(", ");
            let is_among = others.iter().any(|other| weak_equal(other.as_bytes(), etag.as_bytes()));
            prop_assert_eq!(names_tag(without.as_bytes(), false, &response), is_among);
            let mut all = others;
            all.insert(at.index(all.len() + 1), etag);
            prop_assert!(names_tag(all.join(",").as_bytes(), false, &response));
            prop_assert_eq!(names_tag(all.join(",").as_bytes(), true, &response), !weak);
        }
    }
}

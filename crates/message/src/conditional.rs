// SPDX-License-Identifier: BSD-2-Clause
//! Conditional requests (RFC 9110 13), with varnishd's outcomes: one entity tag is compared with the whole field.

use base::clock::Real;

use crate::{Head, date, names};

/// Whether a 200 may be answered with 304: the client's copy is still good. `last_modified`: the object's, which stands in
/// for a response without the field (varnishd keeps it as an attribute of the object).
pub fn is_not_modified(request: &Head, response: &Head, t_req: Real, last_modified: Option<Real>) -> bool {
    if !response.is_status(200) {
        return false;
    }
    // If-None-Match makes If-Modified-Since void (RFC 9110 13.1.3).
    if let Some(wanted) = request.get(names::IF_NONE_MATCH) {
        let Some(etag) = response.get(names::ETAG) else { return false };
        return if request.has(names::RANGE) { strong_equal(wanted, etag) } else { weak_equal(wanted, etag) };
    }
    let Some(since) = request.get(names::IF_MODIFIED_SINCE).and_then(date::parse) else { return false };
    if since.0 == 0.0 || since > t_req {
        return false;
    }
    match response.get(names::LAST_MODIFIED) {
        Some(text) => date::parse(text).is_some_and(|modified| modified.0 != 0.0 && modified <= since),
        None => last_modified.is_some_and(|modified| modified <= since),
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

/// Whether If-Range lets a Range count: there is none, or its validator is strong and the response's
/// (RFC 9110 13.1.5).
pub fn if_range_holds(request: &Head, response: &Head) -> bool {
    let Some(wanted) = request.get(names::IF_RANGE) else { return true };
    if wanted.starts_with(b"W/") {
        return false;
    }
    if wanted.starts_with(b"\"") {
        return response.get(names::ETAG).is_some_and(|etag| strong_equal(wanted, etag));
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
    use super::*;

    const OLD: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const NEW: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn check(request: &[(&str, &str)], response: &[(&str, &str)], want: bool) {
        let mut req = Head::new();
        request.iter().for_each(|(n, v)| req.append(n, v).unwrap());
        let mut resp = Head::new();
        resp.start_response(b"HTTP/1.1", 200).unwrap();
        response.iter().for_each(|(n, v)| resp.append(n, v).unwrap());
        assert_eq!(is_not_modified(&req, &resp, Real(1e9), None), want, "{request:?} {response:?}");
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
    }
}

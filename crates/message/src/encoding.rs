// SPDX-License-Identifier: BSD-2-Clause
//! Accept-Encoding, and what gzip does to the fields of a response.

use crate::{Head, Lost, list, names};

/// Whether the client takes gzip: `x-gzip`, or `gzip` with a weight above 0 (RFC 9110 12.5.3). Only the first
/// Accept-Encoding line counts, as in varnishd.
pub fn takes_gzip(request: &Head) -> bool {
    request
        .get(names::ACCEPT_ENCODING)
        .is_some_and(|value| list::has(value, b"x-gzip") || list::quality(value, b"gzip") > 0.0)
}

/// Before vcl_recv with `http_gzip_support`: Accept-Encoding becomes `gzip` or goes, so that it can't split the cache.
///
/// # Errors
/// See [`Lost`].
pub fn normalise_accept_encoding(request: &mut Head) -> Result<(), Lost> {
    if !takes_gzip(request) {
        request.unset(names::ACCEPT_ENCODING);
        return Ok(());
    }
    if request.get(names::ACCEPT_ENCODING) == Some(b"gzip") && request.count(names::ACCEPT_ENCODING) == 1 {
        return Ok(());
    }
    request.set(names::ACCEPT_ENCODING, "gzip")
}

/// Content-Encoding is gzip (or x-gzip).
pub fn is_gzip(response: &Head) -> bool {
    response
        .get(names::CONTENT_ENCODING)
        .is_some_and(|v| v.eq_ignore_ascii_case(b"gzip") || v.eq_ignore_ascii_case(b"x-gzip"))
}

/// Makes a strong ETag weak: the bytes of the body change (RFC 9110 8.8.1).
///
/// # Errors
/// See [`Lost`].
pub fn weaken_etag(response: &mut Head) -> Result<(), Lost> {
    let Some(etag) = response.get(names::ETAG) else { return Ok(()) };
    if etag.starts_with(b"W/") {
        return Ok(());
    }
    let weak = [b"W/", etag].concat();
    response.set(names::ETAG, weak)
}

/// Makes sure that Vary names Accept-Encoding.
///
/// # Errors
/// See [`Lost`].
pub fn vary_on_encoding(response: &mut Head) -> Result<(), Lost> {
    let vary = match response.get(names::VARY) {
        Some(vary) if list::has(vary, b"Accept-Encoding") => return Ok(()),
        Some(vary) => [vary, b", Accept-Encoding"].concat(),
        None => b"Accept-Encoding".to_vec(),
    };
    response.set(names::VARY, vary)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn normalised(value: &str) -> Option<String> {
        let mut head = Head::new();
        head.append(names::ACCEPT_ENCODING, value).unwrap();
        normalise_accept_encoding(&mut head).unwrap();
        head.get(names::ACCEPT_ENCODING).map(|v| String::from_utf8_lossy(v).into_owned())
    }

    #[test]
    fn accept_encoding_becomes_gzip_or_goes() {
        for yes in ["gzip", "x-gzip", "br, GZIP;q=0.5", "deflate, gzip", "gzip;q=1.0, *;q=0"] {
            assert_eq!(normalised(yes).as_deref(), Some("gzip"), "{yes}");
        }
        for no in ["", "br", "gzip;q=0", "gzip;q=0.0", "*", "gzipped"] {
            assert_eq!(normalised(no), None, "{no}");
        }
    }

    #[test]
    fn etags_are_weakened_once() {
        let mut head = Head::new();
        head.append("ETag", "\"a\"").unwrap();
        weaken_etag(&mut head).unwrap();
        weaken_etag(&mut head).unwrap();
        assert_eq!(head.get("etag"), Some(&b"W/\"a\""[..]));
    }

    #[test]
    fn vary_gets_accept_encoding_once() {
        let mut head = Head::new();
        vary_on_encoding(&mut head).unwrap();
        assert_eq!(head.get("vary"), Some(&b"Accept-Encoding"[..]));
        head.set("Vary", "Cookie").unwrap();
        vary_on_encoding(&mut head).unwrap();
        vary_on_encoding(&mut head).unwrap();
        assert_eq!(head.get("vary"), Some(&b"Cookie, Accept-Encoding"[..]));
    }

    proptest! {
        #[test]
        fn any_accept_encoding_becomes_gzip_or_goes(value in "(gzip|x-gzip|br|\\*|[;, \t=]|q=|[01](\\.[0-9]{0,3})?|[!-~]){0,9}") {
            let once = normalised(value.trim());
            prop_assert!(once.as_deref().is_none_or(|value| value == "gzip"));
        }
    }
}

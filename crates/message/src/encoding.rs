// SPDX-License-Identifier: BSD-2-Clause
//! What a change of a body's coding does to the fields of its response.

use crate::{Head, LostHeader, list, names};

/// Makes a strong ETag weak: the bytes of the body change (RFC 9110 8.8.1).
///
/// # Errors
/// See [`LostHeader`].
pub fn weaken_etag(response: &mut Head) -> Result<(), LostHeader> {
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
/// See [`LostHeader`].
pub fn vary_on_encoding(response: &mut Head) -> Result<(), LostHeader> {
    let vary = match response.get(names::VARY) {
        Some(vary) if list::has(vary, b"Accept-Encoding") => return Ok(()),
        Some(vary) => [vary, b", Accept-Encoding"].concat(),
        None => b"Accept-Encoding".to_vec(),
    };
    response.set(names::VARY, vary)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}

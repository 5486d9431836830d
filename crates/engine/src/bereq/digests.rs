// SPDX-License-Identifier: BSD-2-Clause
//! Digests of a response's body (RFC 9530), verified while it comes. A body that has another digest than its head or its trailers say fails the
//! fetch: nothing of it stays in the cache, and what a client has of it isn't whole.
//!
//! `Content-Digest` is of the bytes that come. So is `Repr-Digest`, in the response to GET that has all of the representation; a part of it
//! can't be verified.

use backend::BodyStatus;
use message::digest::{self, CONTENT_DIGEST, DigestAlgorithm, REPR_DIGEST};
use message::{Head, list, names};
use sha2::{Digest, Sha256, Sha512};
use tables::proxy_error::ProxyError;
use tables::tags::Tag;

use super::Bereq;
use super::body::BodyFailure;

/// Bytes that are hashed in about a microsecond, by one algorithm without help of the processor.
pub(crate) const HASHED_A_MICRO: usize = 250;

/// The body so far, and the digests that it must have at its end.
pub(super) struct BodyCheck {
    expected: Vec<ExpectedDigest>,
    sha256: Option<Sha256>,
    sha512: Option<Sha512>,
    /// Bytes that are still to come, if that is announced.
    left: Option<u64>,
    verifies_repr: bool,
    awaits_trailers: bool,
}

struct ExpectedDigest {
    field: &'static str,
    algorithm: DigestAlgorithm,
    digest: Vec<u8>,
}

impl BodyCheck {
    /// Starts the check of a body of that announced length. `None` if nothing is said that could be verified.
    fn begin(head: &Head, verifies_repr: bool, length: Option<u64>) -> Option<Box<Self>> {
        // The trailers will name the algorithm.
        let awaits_trailers = names_digest(head);
        let mut check = BodyCheck {
            expected: Vec::new(),
            sha256: None,
            sha512: None,
            left: length,
            verifies_repr,
            awaits_trailers,
        };
        check.expect(head);
        let needs = |algorithm| awaits_trailers || check.expected.iter().any(|one| one.algorithm == algorithm);
        let (needs_256, needs_512) = (needs(DigestAlgorithm::Sha256), needs(DigestAlgorithm::Sha512));
        (check.sha256, check.sha512) = (needs_256.then(Sha256::new), needs_512.then(Sha512::new));
        (needs_256 || needs_512).then(|| Box::new(check))
    }

    /// True if the verdict comes behind the last byte: no length may be announced then, or a client takes the body for whole before it.
    pub(super) fn awaits_trailers(&self) -> bool {
        self.awaits_trailers
    }

    fn expect(&mut self, head: &Head) {
        for field in digest::OF_A_BODY {
            if field == REPR_DIGEST && !self.verifies_repr {
                continue;
            }
            let Some(value) = head.joined(field) else { continue };
            let all = digest::digests(&value).into_iter();
            self.expected.extend(all.map(|(algorithm, digest)| ExpectedDigest { field, algorithm, digest }));
        }
    }

    /// Takes the next bytes. True if they are the last ones, by the announced length.
    fn take(&mut self, bytes: &[u8]) -> bool {
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(bytes);
        }
        if let Some(sha512) = &mut self.sha512 {
            sha512.update(bytes);
        }
        self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
        self.left == Some(0)
    }

    /// The first digest that the body doesn't have.
    fn mismatch(&self) -> Option<(&'static str, DigestAlgorithm)> {
        let sha256 = self.sha256.clone().map(|hash| hash.finalize().to_vec());
        let sha512 = self.sha512.clone().map(|hash| hash.finalize().to_vec());
        let wrong = self.expected.iter().find(|expected| {
            let found = match expected.algorithm {
                DigestAlgorithm::Sha256 => &sha256,
                DigestAlgorithm::Sha512 => &sha512,
            };
            found.as_ref().is_some_and(|found| *found != expected.digest)
        });
        wrong.map(|expected| (expected.field, expected.algorithm))
    }
}

/// True if `Trailer` announces a digest behind the body.
fn names_digest(head: &Head) -> bool {
    head.get_all(names::TRAILER.as_bytes()).any(|value| {
        digest::OF_A_BODY
            .iter()
            .any(|field| list::members(value).any(|name| name.eq_ignore_ascii_case(field.as_bytes())))
    })
}

impl Bereq {
    /// Starts the check of the body that is about to come, if its head says something to verify.
    pub(super) fn begin_check(&self, received: BodyStatus) -> Option<Box<BodyCheck>> {
        let head = &self.beresp;
        let says_any = head.has(CONTENT_DIGEST) || head.has(REPR_DIGEST) || head.has(names::TRAILER);
        if !says_any || !self.params.digest_check {
            return None;
        }
        let length = match received {
            BodyStatus::Length(length) => Some(length),
            BodyStatus::Chunked | BodyStatus::Eof => None,
            BodyStatus::None if self.ask.head.method() == b"HEAD" || matches!(head.status(), 204 | 304) => return None,
            BodyStatus::None => Some(0),
        };
        // The head of a slice has been made that of the whole.
        let is_part = self.kind.is_placed() || head.is_status(206) || head.has(names::CONTENT_RANGE);
        BodyCheck::begin(head, self.ask.head.method() == b"GET" && !is_part, length)
    }

    /// Checks the next `received` bytes. They are given away only behind this call: a client that has the last byte of an announced length
    /// takes the body for whole.
    pub(super) fn check_piece(&mut self, check: &mut BodyCheck, received: usize) -> Result<(), BodyFailure> {
        let data = &super::OriginExchange::of(&mut self.ask.link).conn.data()[..received];
        if check.take(data) { self.check_whole(check) } else { Ok(()) }
    }

    pub(super) fn check_end(&mut self, check: &mut BodyCheck) -> Result<(), BodyFailure> {
        if let Some(trailers) = super::OriginExchange::of(&mut self.ask.link).conn.trailers() {
            check.expect(trailers);
        }
        self.check_whole(check)
    }

    fn check_whole(&mut self, check: &BodyCheck) -> Result<(), BodyFailure> {
        let Some((field, algorithm)) = check.mismatch() else { return Ok(()) };
        self.engine.main.fetch_digest.inc();
        self.log.putf(Tag::FetchError, format_args!("body doesn't match {field} ({})", algorithm.key()));
        self.blame(ProxyError::HttpProtocolError, "the body doesn't match its digest");
        Err(BodyFailure::Logged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 9530, appendix B.
    const BODY: &[u8] = b"{\"hello\": \"world\"}\n";
    const SHA256: &str = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:";

    fn head(lines: &[&str]) -> Head {
        let mut head = Head::new();
        head.start_response(b"HTTP/1.1", 200).unwrap();
        lines.iter().for_each(|line| head.append_line(line.as_bytes()).unwrap());
        head
    }

    /// The verdict on the body: `-` if there is nothing to verify, `ok`, or the field that is wrong.
    fn verdict(lines: &[&str], trailers: &[&str], is_whole: bool, body: &[u8]) -> &'static str {
        let Some(mut check) = BodyCheck::begin(&head(lines), is_whole, None) else { return "-" };
        body.chunks(5).for_each(|piece| assert!(!check.take(piece)));
        check.expect(&head(trailers));
        check.mismatch().map_or("ok", |(field, _)| field)
    }

    #[test]
    fn a_body_has_its_digests_or_not() {
        for field in digest::OF_A_BODY {
            let line = format!("{field}: {SHA256}");
            assert_eq!(verdict(&[&line], &[], true, BODY), "ok");
            assert_eq!(verdict(&[&line], &[], true, b"{\"hello\": \"word\"}\n"), field);
            assert_eq!(verdict(&[&line.to_lowercase()], &[], true, BODY), field, "base64 has cases");
        }
        assert_eq!(verdict(&[], &[], true, BODY), "-");
        assert_eq!(verdict(&["Repr-Digest: md5=:AAAA:", "Content-Digest: broken"], &[], true, BODY), "-");
    }

    #[test]
    fn each_known_digest_counts() {
        let both = |second: &str| format!("Content-Digest: {SHA256}, sha-512=:{second}:, md5=:AAAA:");
        let right = base::base64::encode(&Sha512::digest(BODY));
        assert_eq!(verdict(&[&both(&right)], &[], true, BODY), "ok");
        assert_eq!(verdict(&[&both("AAAA")], &[], true, BODY), CONTENT_DIGEST);
        let lines = [format!("Content-Digest: {SHA256}"), "Repr-Digest: sha-256=:AAAA:".to_owned()];
        assert_eq!(verdict(&[&lines[0], &lines[1]], &[], true, BODY), REPR_DIGEST);
        assert_eq!(
            verdict(&[&lines[0], &lines[1]], &[], false, BODY),
            "ok",
            "of a part, the whole's digest says nothing"
        );
        assert_eq!(verdict(&[&lines[1]], &[], false, BODY), "-");
    }

    #[test]
    fn trailers_that_are_announced_count() {
        let trailer = format!("Repr-Digest: {SHA256}");
        assert_eq!(verdict(&["Trailer: x, repr-digest"], &[&trailer], true, BODY), "ok");
        assert_eq!(verdict(&["Trailer: Repr-Digest"], &[&trailer], true, b"other"), REPR_DIGEST);
        assert_eq!(verdict(&["Trailer: Repr-Digest"], &[], true, b"other"), "ok");
        assert_eq!(verdict(&["Trailer: x"], &[&trailer], true, b"other"), "-");
    }

    #[test]
    fn the_last_byte_of_an_announced_length_is_known() {
        let mut check = BodyCheck::begin(&head(&[&format!("Content-Digest: {SHA256}")]), true, Some(3)).unwrap();
        assert!(!check.take(b"ab") && check.take(b"c"));
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! What the head of a stored response becomes when a newer response about the same representation comes (RFC 9111 3.2, 3.4, 4.3.5).

use crate::{Head, LostHeader, digest, names};

/// The stored head, with each field of the newer one in the place of its own lines of that name. What tells of the stored body stays:
/// its coding, its length and its digests.
///
/// # Errors
/// See [`LostHeader`].
pub fn updated(stored: &Head, newer: &Head) -> Result<Head, LostHeader> {
    let mut head = Head::with_limits(newer.limits());
    head.copy_from(newer);
    for name in [names::CONTENT_ENCODING, names::CONTENT_LENGTH, names::CONTENT_RANGE] {
        head.unset(name);
    }
    digest::remove(&mut head);
    head.set_proto(stored.proto())?;
    head.set_status(stored.status())?;
    head.set_reason(stored.reason())?;
    let own = head.len();
    for field in stored.iter() {
        let is_newer = (0..own).any(|at| head.field(at).is_some_and(|new| new.is(field.name())));
        if !is_newer {
            head.append_line(field.line())?;
        }
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16, lines: &[&str]) -> Head {
        let mut head = Head::new();
        head.start_response(b"HTTP/1.1", status).unwrap();
        lines.iter().for_each(|line| head.append_line(line.as_bytes()).unwrap());
        head
    }

    #[test]
    fn newer_fields_take_the_place_of_stored_ones_and_the_body_keeps_its_own() {
        let stored = head(200, &["A: 1", "A: 2", "B: 1", "Content-Length: 10", "Repr-Digest: a=:AA==:"]);
        let newer =
            head(206, &["a: 3", "C: 1", "Content-Length: 4", "Content-Range: bytes 0-3/10", "Repr-Digest: b=:AA==:"]);
        let updated = updated(&stored, &newer).unwrap();
        let lines: Vec<_> = updated.iter().map(|field| String::from_utf8_lossy(field.line()).into_owned()).collect();
        assert_eq!(lines, ["a: 3", "C: 1", "B: 1", "Content-Length: 10", "Repr-Digest: a=:AA==:"]);
        assert_eq!(updated.status(), 200);
    }
}

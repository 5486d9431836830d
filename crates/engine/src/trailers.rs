// SPDX-License-Identifier: BSD-2-Clause
//! The fields behind a response's body (RFC 9110 6.5) on their way from a fetch to the client that it is made for; both are
//! on one thread. An object is kept without them: they are for a response that nobody else gets.

use std::cell::RefCell;
use std::rc::Rc;

use base::Vxid;
use message::{Head, LostHeader, digest, hop};

/// The way; its clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Trailers(Rc<RefCell<Option<(Vxid, Head)>>>);

impl Trailers {
    /// Leaves those of the object that the fetch `of` has made: without digests, unless the body `is_as_it_came`.
    ///
    /// # Errors
    /// One doesn't fit into a head; the others are there.
    pub fn put(&self, of: Vxid, trailers: &Head, is_as_it_came: bool) -> Result<(), LostHeader> {
        let mut head = Head::with_limits(trailers.limits());
        let done = head.append_from(trailers, |field| hop::may_be_trailer(field.name()));
        if !is_as_it_came {
            digest::remove(&mut head);
        }
        *self.0.borrow_mut() = (!head.is_empty()).then_some((of, head));
        done
    }

    /// True if there are trailers of the object that the fetch `of` has made.
    pub fn are_there(&self, of: Vxid) -> bool {
        self.0.borrow().as_ref().is_some_and(|(made_by, _)| *made_by == of)
    }

    pub fn take(&self, of: Vxid) -> Option<Head> {
        self.0.borrow_mut().take().filter(|(made_by, _)| *made_by == of).map(|(_, head)| head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_go_with_the_body_that_they_are_of() {
        let mut head = Head::new();
        head.append("Repr-Digest", "sha-256=:AA==:").unwrap();
        let trailers = Trailers::default();
        trailers.put(Vxid(2), &head, false).unwrap();
        assert!(!trailers.are_there(Vxid(2)));
        trailers.put(Vxid(2), &head, true).unwrap();
        assert!(trailers.take(Vxid(2)).is_some_and(|taken| taken.has("Repr-Digest")));
    }

    #[test]
    fn they_are_taken_once_and_for_their_object_alone() {
        let mut head = Head::new();
        for (name, value) in [("grpc-status", "0"), ("Content-Length", "5"), ("Connection", "x")] {
            head.append(name, value).unwrap();
        }
        let (ours, other) = (Vxid(4), Vxid(6));
        let trailers = Trailers::default();
        trailers.put(ours, &head, true).unwrap();
        assert!(trailers.are_there(ours) && !trailers.are_there(other));
        let taken = trailers.clone().take(ours).unwrap();
        let names: Vec<_> = taken.iter().map(|field| field.name().to_vec()).collect();
        assert_eq!(names, [b"grpc-status".to_vec()], "what frames or routes a message stays behind");
        assert!(trailers.take(ours).is_none());
        trailers.put(ours, &head, true).unwrap();
        assert!(trailers.take(other).is_none());
    }
}

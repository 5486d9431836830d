// SPDX-License-Identifier: BSD-2-Clause
//! Bans and purges that a transaction's VCL has made, until they are durable: in the journal, and in a fleet's log.
//! Nobody may hear of the transaction's result before.

use std::cell::RefCell;
use std::rc::Rc;

use ::fleet::{Announced, Invalidation};
use base::Mono;

use crate::engine::{Engine, WhenKept};

/// The invalidations for which nobody has waited yet. Few transactions have any.
#[derive(Default)]
pub(crate) struct Invalidations(Option<Announcements>);

/// Messages on their way to the fleet's log, shared with the purges that take steps; none without a fleet.
type Announcements = Rc<RefCell<Vec<Announced>>>;

impl Invalidations {
    /// Notes an invalidation here, which the journal is to keep.
    pub fn note(&mut self) {
        self.announcements();
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn announcements(&mut self) -> &Announcements {
        self.0.get_or_insert_default()
    }

    fn take(&mut self) -> Vec<Announced> {
        self.0.take().map(|announced| announced.take()).unwrap_or_default()
    }
}

impl Engine {
    /// Notes an invalidation, and appends it to the fleet's log.
    pub(crate) fn announce(&self, by: &mut Invalidations, what: impl FnOnce() -> Invalidation, at: Mono) {
        by.note();
        if let Some(node) = self.cluster.node() {
            by.announcements().borrow_mut().push(node.append(what(), self.real_of(at).0));
        }
    }

    /// Like [`Engine::announce`], for an invalidation by a future. Returns the function that the future calls once it
    /// is done.
    pub(crate) fn announce_later(
        &self,
        by: &mut Invalidations,
        what: impl FnOnce() -> Invalidation + 'static,
        at: Mono,
    ) -> Option<Box<dyn FnOnce()>> {
        by.note();
        let node = self.cluster.node()?.clone();
        let (to, at) = (by.announcements().clone(), self.real_of(at).0);
        let pending = node.begin_invalidation();
        Some(Box::new(move || {
            to.borrow_mut().push(node.append(what(), at));
            drop(pending);
        }))
    }

    /// Resolves when these are durable; `None` if they already are.
    pub(crate) fn settled(&self, invalidations: &mut Invalidations) -> Option<WhenKept> {
        let announced = invalidations.take();
        let kept = self.kept();
        if announced.is_empty() {
            return kept;
        }
        Some(Box::pin(async move {
            if let Some(kept) = kept {
                kept.await?;
            }
            for entry in announced {
                entry.await?;
            }
            Ok(())
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noted_invalidation_is_waited_for_once() {
        let mut invalidations = Invalidations::default();
        assert!(invalidations.is_empty());
        invalidations.note();
        invalidations.note();
        assert!(!invalidations.is_empty());
        assert!(invalidations.take().is_empty() && invalidations.is_empty());
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Room for what one step makes, which a thread keeps: nothing is cleared for a step, and the room stays in the
//! processor's caches, however many bodies are on their way.

use std::cell::Cell;

use crate::SLICE;

thread_local! {
    static ROOM: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

pub(crate) fn trim() {
    drop(ROOM.take());
}

/// Calls `f` with room for two slices, in which anything may stand.
pub fn with_room<R>(f: impl FnOnce(&mut [u8]) -> R) -> R {
    // Taken out while it is used: a call within `f` gets other room.
    let mut room = ROOM.take().unwrap_or_else(|| vec![0; 2 * SLICE].into_boxed_slice());
    let result = f(&mut room);
    ROOM.set(Some(room));
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_used_again_and_a_call_within_gets_its_own() {
        let at = with_room(|outer| {
            let at = outer.as_ptr();
            assert_ne!(with_room(|inner| inner.as_ptr()), at);
            at
        });
        assert_eq!(with_room(|again| again.as_ptr()), at);
    }
}

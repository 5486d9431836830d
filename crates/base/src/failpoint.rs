// SPDX-License-Identifier: BSD-2-Clause
//! Faults that tests plant: [`index_error`] shows what an error of our own costs, [`fault`] whether tests find a wrong
//! step. Both act in builds with debug assertions only. While nothing is planted each is one relaxed load.

/// Indexes out of bounds at the turn that the environment variable `LACQUER_FAILPOINTS` names: `filter=3` is the third
/// time that the place called `filter` is reached, `filter=3:stack` overflows the stack there. Commas separate several.
#[inline(always)]
pub fn index_error(place: &str) {
    if cfg!(debug_assertions) {
        active::reach(place);
    }
}

/// True if the caller has to do the wrong thing: `name` is the fault that the simulator has planted on this thread.
#[inline(always)]
pub fn fault(name: &str) -> bool {
    cfg!(debug_assertions) && active::is_wrong(name)
}

/// Plants a fault on this thread, or takes it away.
///
/// # Panics
/// This build has no faults: whoever plants one would take their absence for a success.
pub fn plant(name: Option<&'static str>) {
    assert!(cfg!(debug_assertions) || name.is_none(), "builds without debug assertions have no faults to plant");
    active::plant(name);
}

mod active {
    use std::cell::Cell;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

    #[derive(Debug)]
    struct Failpoint {
        place: String,
        /// Turns until it is due: 1 is now, 0 is past.
        left: AtomicUsize,
        overflows_stack: bool,
    }

    static FAILPOINTS: OnceLock<Vec<Failpoint>> = OnceLock::new();
    static HAS_NO_FAILPOINTS: AtomicBool = AtomicBool::new(false);
    /// A thread has planted a fault at some time. Threads read their own fault, so the order of this store is of no
    /// consequence to others.
    static WAS_PLANTED: AtomicBool = AtomicBool::new(false);

    thread_local! {
        static FAULT: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    pub fn plant(name: Option<&'static str>) {
        if name.is_some() {
            WAS_PLANTED.store(true, Relaxed);
        }
        FAULT.set(name);
    }

    #[inline]
    pub fn is_wrong(name: &str) -> bool {
        // A thread that is ending has no fault any more.
        WAS_PLANTED.load(Relaxed) && FAULT.try_with(Cell::get).ok().flatten() == Some(name)
    }

    #[inline]
    pub fn reach(place: &str) {
        if !HAS_NO_FAILPOINTS.load(Relaxed) {
            look(place);
        }
    }

    #[cold]
    fn look(place: &str) {
        let planted = FAILPOINTS.get_or_init(|| parse(&std::env::var("LACQUER_FAILPOINTS").unwrap_or_default()));
        if planted.is_empty() {
            HAS_NO_FAILPOINTS.store(true, Relaxed);
        }
        let is_due = |plant: &&Failpoint| {
            plant.place == place && plant.left.try_update(Relaxed, Relaxed, |left| left.checked_sub(1)) == Ok(1)
        };
        match planted.iter().find(is_due) {
            None => {}
            Some(plant) if plant.overflows_stack => {
                overflow_stack(0);
            }
            Some(_) => {
                let nothing: &[u8] = &[];
                // The compiler must not foresee it: the check at run time has to fail.
                let _ = nothing[std::hint::black_box(place.len())];
            }
        }
    }

    #[inline(never)]
    fn overflow_stack(depth: usize) -> usize {
        let frame = std::hint::black_box([depth; 512]);
        if std::hint::black_box(depth) == usize::MAX { depth } else { overflow_stack(depth + 1) + frame[depth % 512] }
    }

    fn parse(text: &str) -> Vec<Failpoint> {
        let one = |word: &str| {
            let (place, turn) = word.split_once('=')?;
            let (turn, kind) = turn.split_once(':').unwrap_or((turn, ""));
            let left = AtomicUsize::new(turn.parse().ok()?);
            Some(Failpoint { place: place.to_owned(), left, overflows_stack: kind == "stack" })
        };
        text.split(',').filter_map(one).collect()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_fault_is_there_while_it_is_planted() {
            crate::failpoint::plant(Some("this one"));
            assert!(crate::failpoint::fault("this one") && !crate::failpoint::fault("another"));
            crate::failpoint::plant(None);
            assert!(!crate::failpoint::fault("this one"));
        }

        #[test]
        fn places_and_turns_are_read() {
            let read = parse("filter=3,objhead=1:stack,bad");
            let read: Vec<_> =
                read.iter().map(|plant| (&*plant.place, plant.left.load(Relaxed), plant.overflows_stack)).collect();
            assert_eq!(read, [("filter", 3, false), ("objhead", 1, true)]);
        }
    }
}

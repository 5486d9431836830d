// SPDX-License-Identifier: BSD-2-Clause
//! Faults that tests plant, to see what an error of our own costs ([`index_error`]) and whether it is found ([`fault`]).
//! Without the feature `failpoints`, which only tests turn on, both are nothing at all.

/// An index out of bounds at the turn that the environment variable `LACQUER_FAILPOINTS` names: `filter=3` is the third
/// time that the place called `filter` is reached. `filter=3:stack` overflows the stack there. Several are divided by commas.
#[inline(always)]
pub fn index_error(place: &str) {
    #[cfg(feature = "failpoints")]
    active::reach(place);
    #[cfg(not(feature = "failpoints"))]
    let _ = place;
}

/// Whether the code is to do wrong here: `name` is the fault that the simulator has planted on this thread.
#[inline(always)]
pub fn fault(name: &str) -> bool {
    #[cfg(feature = "failpoints")]
    return active::is_wrong(name);
    #[cfg(not(feature = "failpoints"))]
    {
        let _ = name;
        false
    }
}

/// Plants a fault on this thread, or takes it away.
#[cfg(feature = "failpoints")]
pub fn plant(name: Option<&'static str>) {
    active::FAULT.set(name);
}

#[cfg(feature = "failpoints")]
mod active {
    use std::cell::Cell;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// Something planted.
    #[derive(Debug)]
    struct Failpoint {
        place: String,
        /// In how many turns it is due: 1 is now, 0 is past.
        left: AtomicUsize,
        overflows_stack: bool,
    }

    static FAILPOINTS: OnceLock<Vec<Failpoint>> = OnceLock::new();

    thread_local! {
        pub static FAULT: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    pub fn is_wrong(name: &str) -> bool {
        // With the thread its faults go, too.
        FAULT.try_with(Cell::get).ok().flatten() == Some(name)
    }

    pub fn reach(place: &str) {
        let planted = FAILPOINTS.get_or_init(|| parse(&std::env::var("LACQUER_FAILPOINTS").unwrap_or_default()));
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
                // Not foreseen by the compiler: it must be the run-time check that fails.
                let _ = nothing[std::hint::black_box(place.len())];
            }
        }
    }

    /// Calls itself until the stack ends.
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

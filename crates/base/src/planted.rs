// SPDX-License-Identifier: BSD-2-Clause
//! Faults that tests plant, to see what an error of our own costs. Without the feature `planted-faults`, which only
//! tests turn on, [`index_error`] is nothing at all.

/// An index out of bounds at the turn that the environment variable `LACQUER_PLANT` names: `filter=3` is the third
/// time that the place called `filter` is reached. `filter=3:stack` overflows the stack there. Several are divided by commas.
#[inline(always)]
pub fn index_error(place: &str) {
    #[cfg(feature = "planted-faults")]
    active::reach(place);
    #[cfg(not(feature = "planted-faults"))]
    let _ = place;
}

#[cfg(feature = "planted-faults")]
mod active {
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

    pub fn reach(place: &str) {
        let planted = FAILPOINTS.get_or_init(|| parse(&std::env::var("LACQUER_PLANT").unwrap_or_default()));
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
        fn places_and_turns_are_read() {
            let read = parse("filter=3,objhead=1:stack,bad");
            let read: Vec<_> =
                read.iter().map(|plant| (&*plant.place, plant.left.load(Relaxed), plant.overflows_stack)).collect();
            assert_eq!(read, [("filter", 3, false), ("objhead", 1, true)]);
        }
    }
}

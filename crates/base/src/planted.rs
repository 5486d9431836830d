// SPDX-License-Identifier: BSD-2-Clause
//! Faults that tests plant, to see what an error of our own costs. Without the feature `planted-faults`, which only
//! tests turn on, [`index_error`] is nothing at all.

/// An index out of bounds at the turn that the environment variable `LACQUER_PLANT` names: `filter=3` is the third
/// time that the place called `filter` is reached. Several are divided by commas.
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

    /// Places, and in how many turns each fails: 1 is now, 0 is past.
    static PLANTED: OnceLock<Vec<(String, AtomicUsize)>> = OnceLock::new();

    pub fn reach(place: &str) {
        let planted = PLANTED.get_or_init(|| parse(&std::env::var("LACQUER_PLANT").unwrap_or_default()));
        let due = planted.iter().any(|(name, left)| {
            name == place && left.try_update(Relaxed, Relaxed, |left| left.checked_sub(1)) == Ok(1)
        });
        if due {
            let nothing: &[u8] = &[];
            // Not foreseen by the compiler: it must be the run-time check that fails.
            let _ = nothing[std::hint::black_box(place.len())];
        }
    }

    fn parse(text: &str) -> Vec<(String, AtomicUsize)> {
        let one = |word: &str| {
            let (place, turn) = word.split_once('=')?;
            Some((place.to_owned(), AtomicUsize::new(turn.parse().ok()?)))
        };
        text.split(',').filter_map(one).collect()
    }

    #[cfg(test)]
    mod tests {
        #[test]
        fn places_and_turns_are_read() {
            let read = super::parse("filter=3,objhead=1,bad");
            let read: Vec<_> = read.iter().map(|(place, left)| (place.as_str(), left.load(super::Relaxed))).collect();
            assert_eq!(read, [("filter", 3), ("objhead", 1)]);
        }
    }
}

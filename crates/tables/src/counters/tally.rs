// SPDX-License-Identifier: BSD-2-Clause
//! Counts that a serving thread keeps to itself while it has work: written out when it waits for events, a counter that
//! every request changes costs one atomic addition for all of them. Of a gauge only what is taken off is kept: were it added
//! later than another thread takes it off, the gauge would show less than nothing.

use std::cell::Cell;

use super::Counter;

/// Counters that a thread keeps; two that share a place take turns.
const PLACES: usize = 64;

type TallyCell = Cell<Option<(&'static Counter, u64)>>;

struct Tallies {
    is_on: Cell<bool>,
    /// The places that are taken, a bit each.
    taken: Cell<u64>,
    places: [TallyCell; PLACES],
}

thread_local! {
    static TALLIES: Tallies = const {
        Tallies { is_on: Cell::new(false), taken: Cell::new(0), places: [const { Cell::new(None) }; PLACES] }
    };
}

/// This thread will call [`flush`] whenever it is about to wait: until then it may keep what it counts.
pub fn begin_tally() {
    TALLIES.with(|tallies| tallies.is_on.set(true));
}

pub fn flush() {
    TALLIES.with(|tallies| {
        let mut taken = tallies.taken.take();
        while taken != 0 {
            let at = taken.trailing_zeros() as usize;
            taken &= taken - 1;
            if let Some((counter, sum)) = tallies.places[at].take() {
                counter.add(sum);
            }
        }
    });
}

impl Counter {
    /// Adds `n` (or takes it off, as a two's complement) now or when this thread settles its accounts: others see it by
    /// the time that the thread waits for events.
    #[inline]
    pub fn tally_add(&'static self, n: u64) {
        TALLIES.with(|tallies| {
            if !tallies.is_on.get() {
                return self.add(n);
            }
            let at = std::ptr::from_ref(self).addr() / size_of::<Self>() % PLACES;
            let place = &tallies.places[at];
            match place.get() {
                Some((counter, sum)) if std::ptr::eq(counter, self) => place.set(Some((counter, sum.wrapping_add(n)))),
                other => {
                    other.into_iter().for_each(|(counter, sum)| counter.add(sum));
                    place.set(Some((self, n)));
                    tallies.taken.set(tallies.taken.get() | 1 << at);
                }
            }
        });
    }

    /// Adds one; see [`Counter::tally_add`].
    #[inline]
    pub fn tally(&'static self) {
        self.tally_add(1);
    }

    /// Takes `n` off; see [`Counter::tally_add`].
    #[inline]
    pub fn untally(&'static self, n: u64) {
        self.tally_add(n.wrapping_neg());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_kept_until_the_thread_settles() {
        let counters: &'static [Counter] = Box::leak((0..3 * PLACES).map(|_| Counter::default()).collect());
        let count = || {
            for _ in 0..3 {
                counters.iter().for_each(Counter::tally);
            }
            (0..5).for_each(|_| counters[1].untally(1));
        };
        let values = || [counters[0].get(), counters[1].get().cast_signed().unsigned_abs(), counters[PLACES].get()];
        count();
        assert_eq!(values(), [3, 2, 3], "at once");
        begin_tally();
        counters[2].tally();
        assert_eq!(counters[2].get(), 3);
        count();
        flush();
        assert_eq!((values(), counters[2].get()), ([6, 4, 6], 7));
        flush();
        assert_eq!(values(), [6, 4, 6]);
    }
}

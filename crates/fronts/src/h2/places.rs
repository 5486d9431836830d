// SPDX-License-Identifier: BSD-2-Clause
//! The streams of a connection that somebody works for. Each has a place, which is another's once it is over.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use super::stream::Stream;

/// Connections with more streams at once leave no places to the next one: a thread has as many workspaces as connections were busy at once, 64 at
/// most ([`rt::Runners`]).
const KEPT_PLACES: usize = 16;

#[derive(Default)]
pub(super) struct Places {
    streams: Vec<Stream>,
    /// Number and place of those that are somebody's. Numbers only grow, and the oldest mostly end first.
    index: VecDeque<(u32, usize)>,
    /// Places of no stream.
    free: Vec<usize>,
}

impl Places {
    pub(super) fn live(&self) -> usize {
        self.index.len()
    }

    /// A stream begins, with a higher number than all before. Its place.
    pub(super) fn take(&mut self, id: u32) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.streams.push(Stream::default());
            self.streams.len() - 1
        });
        self.index.push_back((id, place));
        place
    }

    pub(super) fn leave(&mut self, place: usize) {
        let id = self.streams[place].id;
        self.streams[place].close();
        if let Some(at) = self.position(id) {
            self.index.remove(at);
        }
        self.free.push(place);
    }

    pub(super) fn find(&self, id: u32) -> Option<usize> {
        self.position(id).map(|at| self.index[at].1)
    }

    #[inline]
    fn position(&self, id: u32) -> Option<usize> {
        if self.index.front()?.0 == id {
            return Some(0);
        }
        self.index.binary_search_by_key(&id, |&(id, _)| id).ok()
    }

    /// Those that are somebody's: number and place.
    pub(super) fn in_use(&self) -> impl Iterator<Item = &(u32, usize)> {
        self.index.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.streams.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.streams.iter()
    }

    /// The same as [`Places::iter`], for changing them.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.streams.iter_mut()
    }

    /// Bytes of memory, without what streams hold of bodies that come.
    #[cfg(test)]
    fn memory(&self) -> usize {
        self.streams.capacity() * size_of::<Stream>()
            + self.streams.iter().map(|stream| stream.download.memory()).sum::<usize>()
            + self.index.capacity() * size_of::<(u32, usize)>()
            + self.free.capacity() * size_of::<usize>()
    }

    /// Without a stream, for the next connection.
    pub(super) fn emptied(mut self) -> Self {
        if self.live() > 0 || self.len() > KEPT_PLACES {
            return Places::default();
        }
        self.streams.iter_mut().for_each(Stream::rest);
        self
    }
}

impl Index<usize> for Places {
    type Output = Stream;

    fn index(&self, place: usize) -> &Stream {
        &self.streams[place]
    }
}

impl IndexMut<usize> for Places {
    fn index_mut(&mut self, place: usize) -> &mut Stream {
        &mut self.streams[place]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn open(places: &mut Places, id: u32) -> usize {
        let place = places.take(id);
        places[place].id = id;
        place
    }

    #[test]
    fn what_many_streams_took_is_not_kept() {
        for (count, kept) in [(KEPT_PLACES, KEPT_PLACES), (KEPT_PLACES + 1, 0)] {
            let mut places = Places::default();
            let all: Vec<_> = (0..count).map(|i| open(&mut places, i as u32 * 2 + 1)).collect();
            all.into_iter().for_each(|place| places.leave(place));
            assert_eq!(places.emptied().len(), kept);
        }
        let mut places = Places::default();
        open(&mut places, 1);
        assert_eq!(places.emptied().len(), 0, "a stream that isn't over");
    }

    /// With 64 workspaces a thread: some hundred KB.
    #[test]
    fn what_is_kept_is_small() {
        let mut places = Places::default();
        let all: Vec<_> = (0..KEPT_PLACES).map(|i| open(&mut places, i as u32 * 2 + 1)).collect();
        for place in all {
            (0..100).for_each(|_| places[place].download.push(storage::Buf::unaccounted(vec![0; 10])));
            places.leave(place);
        }
        let places = places.emptied();
        assert!(places.len() == KEPT_PLACES && places.memory() <= 6 * 1024, "{} bytes", places.memory());
    }

    proptest! {
        #[test]
        fn each_stream_has_a_place_of_its_own(steps in prop::collection::vec((any::<bool>(), any::<usize>()), 0..80)) {
            let (mut places, mut model, mut next) = (Places::default(), Vec::<(u32, usize)>::new(), 1);
            for (ends, which) in steps {
                if ends && !model.is_empty() {
                    places.leave(model.remove(which % model.len()).1);
                } else {
                    let place = open(&mut places, next);
                    prop_assert!(model.iter().all(|&(_, other)| other != place));
                    model.push((next, place));
                    next += 2;
                }
                prop_assert_eq!(places.live(), model.len());
                for id in (1..next).step_by(2) {
                    let want = model.iter().find(|&&(other, _)| other == id).map(|&(_, place)| place);
                    prop_assert_eq!(places.find(id), want);
                }
            }
        }
    }
}

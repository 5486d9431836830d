// SPDX-License-Identifier: BSD-2-Clause
//! Objects of which only parts are stored (RFC 9111 3.3, 3.4): the stored parts, and the parts that a request needs.
//!
//! ```text
//! head   that of the whole object: 200, with its length
//! body   the parts, one behind the other in order
//! ```
//!
//! Parts are combined into one object if all have the same strong validator and the same total length; nothing else
//! shows that they are of one version. An object with all its bytes is an ordinary object.

use std::ops::Range;

use cache::ObjRef;
use message::range::{self, Selection, Slice};
use message::{Head, conditional};
use params::Params;

use crate::aux_attrs::AuxAttrs;
use crate::slices::Validator;

const MAX_PARTS: usize = 64;

const FORMAT: u8 = 1;

const PLACE: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredParts {
    pub total: u64,
    pub validator: Validator,
    /// Places of the parts, in order. None touches the next, and together they aren't the whole.
    places: Vec<Slice>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WantedPart {
    All,
    These(Vec<Slice>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JoinedPart {
    /// Ranges of the stored body before the new part, and behind it.
    pub before: Vec<Range<u64>>,
    pub behind: Vec<Range<u64>>,
    /// All parts afterwards; `None` if they are the whole object.
    pub parts: Option<StoredParts>,
}

impl WantedPart {
    /// The part that `request` asks for of an object with that head and `total` bytes. A request that can't be answered
    /// from one part asks for all.
    pub fn of(request: &Head, head: &Head, total: u64, params: &Params) -> Self {
        let range = range::asked(request).filter(|_| params.http_range_support && request.method() == b"GET");
        let Some(range) = range.filter(|_| conditional::if_range_holds(request, head)) else { return WantedPart::All };
        match range::select(range, Some(total), params.http_range_parts as usize) {
            Ok(Selection::One(slice)) => WantedPart::These(vec![slice]),
            Ok(Selection::Many(slices)) => WantedPart::These(slices),
            Ok(Selection::Whole) | Err(_) => WantedPart::All,
        }
    }
}

impl StoredParts {
    /// The object has this part alone; `None`: that is all of it.
    pub fn one(total: u64, validator: Validator, place: Slice) -> Option<Self> {
        (place.bytes() < total).then(|| StoredParts { total, validator, places: vec![place] })
    }

    /// The parts of an object; `None` if it is complete.
    #[inline]
    pub fn of(obj: &ObjRef) -> Option<StoredParts> {
        let stored = obj.aux_attrs();
        if stored.is_empty() { None } else { Self::read(stored) }
    }

    #[cold]
    fn read(aux_attrs: &[u8]) -> Option<StoredParts> {
        // What can't be read has no part that anybody could want.
        let unreadable = || StoredParts { total: u64::MAX, validator: Validator::default(), places: Vec::new() };
        AuxAttrs::read(aux_attrs).parts.map(|stored| Self::parse(stored).unwrap_or_else(unreadable))
    }

    fn parse(stored: &[u8]) -> Option<StoredParts> {
        let (&format, stored) = stored.split_first()?;
        let (total, stored) = stored.split_first_chunk()?;
        let (count, stored) = stored.split_first_chunk()?;
        let (total, count) = (u64::from_le_bytes(*total), usize::from(u16::from_le_bytes(*count)));
        let (places, validator) = stored.split_at_checked(count * PLACE)?;
        let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
        let place = |bytes: &[u8]| Some(Slice { low: number(&bytes[..8])?, high: number(&bytes[8..])? });
        let places: Vec<Slice> = places.chunks_exact(PLACE).map(place).collect::<Option<_>>()?;
        let are_sound = places.iter().all(|one| one.low <= one.high && one.high < total)
            && places.windows(2).all(|two| two[0].high + 1 < two[1].low);
        let parts = StoredParts { total, validator: Validator::parse(validator)?, places };
        (format == FORMAT && are_sound && parts.bytes() < total).then_some(parts)
    }

    pub fn store(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.extend_from_slice(&self.total.to_le_bytes());
        out.extend_from_slice(&(self.places.len() as u16).to_le_bytes());
        for place in &self.places {
            out.extend_from_slice(&place.low.to_le_bytes());
            out.extend_from_slice(&place.high.to_le_bytes());
        }
        self.validator.store(&mut out);
        out
    }

    pub fn bytes(&self) -> u64 {
        self.places.iter().map(Slice::bytes).sum()
    }

    /// Offset in the stored body of these bytes of the object, if they are stored.
    pub fn offset_of(&self, wanted: Slice) -> Option<u64> {
        let mut before = 0;
        for place in &self.places {
            if place.low <= wanted.low && wanted.high <= place.high {
                return Some(before + wanted.low - place.low);
            }
            before += place.bytes();
        }
        None
    }

    pub fn have(&self, wanted: &WantedPart) -> bool {
        match wanted {
            WantedPart::All => false,
            WantedPart::These(slices) => slices.iter().all(|slice| self.offset_of(*slice).is_some()),
        }
    }

    /// From the first byte that is wanted and isn't there up to the last; `None`: there is no such byte.
    pub fn missing(&self, wanted: &WantedPart) -> Option<Slice> {
        let whole = [Slice { low: 0, high: self.total.saturating_sub(1) }];
        let slices = match wanted {
            WantedPart::All => &whole[..],
            WantedPart::These(slices) => &slices[..],
        };
        let mut hull: Option<Slice> = None;
        for slice in slices {
            let Some(missing) = self.missing_of(*slice) else { continue };
            hull = Some(match hull {
                None => missing,
                Some(hull) => Slice { low: hull.low.min(missing.low), high: hull.high.max(missing.high) },
            });
        }
        hull
    }

    fn missing_of(&self, mut wanted: Slice) -> Option<Slice> {
        for place in &self.places {
            if place.low <= wanted.low && wanted.low <= place.high {
                if wanted.high <= place.high {
                    return None;
                }
                wanted.low = place.high + 1;
            }
            if place.low <= wanted.high && wanted.high <= place.high {
                // It begins before that, or it would have been taken above.
                wanted.high = place.low - 1;
            }
        }
        Some(wanted)
    }

    pub fn join(&self, new: Slice) -> JoinedPart {
        let (mut before, mut behind, mut offset) = (Vec::new(), Vec::new(), 0);
        let mut places: Vec<Slice> = Vec::with_capacity(self.places.len() + 1);
        let mut is_in = false;
        let add = |joined: &mut Vec<Slice>, place: Slice| match joined.last_mut() {
            Some(last) if last.high + 1 == place.low => last.high = place.high,
            Some(_) | None => joined.push(place),
        };
        for place in &self.places {
            if place.low < new.low {
                let high = place.high.min(new.low - 1);
                before.push(offset..offset + high + 1 - place.low);
                add(&mut places, Slice { low: place.low, high });
            }
            if place.high > new.high {
                if !is_in {
                    add(&mut places, new);
                    is_in = true;
                }
                let low = place.low.max(new.high + 1);
                behind.push(offset + low - place.low..offset + place.bytes());
                add(&mut places, Slice { low, high: place.high });
            }
            offset += place.bytes();
        }
        if !is_in {
            add(&mut places, new);
        }
        if places.len() > MAX_PARTS {
            let parts = Self::one(self.total, self.validator.clone(), new);
            return JoinedPart { before: Vec::new(), behind: Vec::new(), parts };
        }
        let parts = StoredParts { total: self.total, validator: self.validator.clone(), places };
        JoinedPart { before, behind, parts: (parts.bytes() < self.total).then_some(parts) }
    }

    /// The parts that remain when only the first `bytes` bytes of the stored body do.
    pub fn cut_to(&self, mut bytes: u64) -> Option<StoredParts> {
        let mut places = Vec::new();
        for place in &self.places {
            let taken = place.bytes().min(bytes);
            bytes -= taken;
            if taken > 0 {
                places.push(Slice { low: place.low, high: place.low + taken - 1 });
            }
        }
        (!places.is_empty()).then(|| StoredParts { places, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slice((low, high): (u64, u64)) -> Slice {
        Slice { low, high }
    }

    fn parts(total: u64, places: &[(u64, u64)]) -> StoredParts {
        StoredParts { total, validator: Validator::default(), places: places.iter().copied().map(slice).collect() }
    }

    #[test]
    fn what_was_stored_is_read_and_torn_bytes_have_no_part() {
        let stored = parts(100, &[(0, 4), (10, 19)]).store();
        assert_eq!(StoredParts::parse(&stored), Some(parts(100, &[(0, 4), (10, 19)])));
        (0..stored.len()).for_each(|n| assert_eq!(StoredParts::parse(&stored[..n]), None, "{n}"));
        for unsound in
            [parts(100, &[(5, 4)]), parts(100, &[(0, 100)]), parts(100, &[(0, 4), (5, 9)]), parts(5, &[(0, 4)])]
        {
            assert_eq!(StoredParts::parse(&unsound.store()), None, "{unsound:?}");
        }
    }

    #[test]
    fn a_request_wants_what_its_range_says_and_otherwise_all() {
        let check = |method: &[u8], fields: &[(&str, &str)], want| {
            let (mut request, mut head) = (Head::new(), Head::new());
            request.start_request(method, b"/", b"HTTP/1.1").unwrap();
            fields.iter().for_each(|(name, value)| request.append(name, value).unwrap());
            head.start_response(b"HTTP/1.1", 200).unwrap();
            head.append("ETag", "\"a\"").unwrap();
            assert_eq!(WantedPart::of(&request, &head, 10, &Params::default()), want, "{fields:?}");
        };
        let these = |slices: &[(u64, u64)]| WantedPart::These(slices.iter().copied().map(slice).collect());
        check(b"GET", &[("Range", "bytes=2-3")], these(&[(2, 3)]));
        check(b"GET", &[("Range", "bytes=-3")], these(&[(7, 9)]));
        check(b"GET", &[("Range", "bytes=0-0,5-")], these(&[(0, 0), (5, 9)]));
        check(b"GET", &[("Range", "bytes=2-3"), ("If-Range", "\"a\"")], these(&[(2, 3)]));
        check(b"GET", &[("Range", "bytes=2-3"), ("If-Range", "\"b\"")], WantedPart::All);
        check(b"GET", &[("Range", "bytes=10-")], WantedPart::All);
        check(b"GET", &[("Range", "lines=1-2")], WantedPart::All);
        check(b"HEAD", &[("Range", "bytes=2-3")], WantedPart::All);
        check(b"GET", &[], WantedPart::All);
    }

    #[test]
    fn a_cut_body_has_what_came_of_it() {
        let parts = parts(100, &[(10, 19), (30, 39)]);
        let cut = |bytes| parts.cut_to(bytes).map(|parts| parts.places);
        assert_eq!(cut(0), None);
        assert_eq!(cut(3), Some(vec![slice((10, 12))]));
        assert_eq!(cut(11), Some(vec![slice((10, 19)), slice((30, 30))]));
        assert_eq!(cut(99), Some(parts.places.clone()));
    }

    #[test]
    fn too_many_parts_leave_the_newest() {
        let places: Vec<_> = (0..MAX_PARTS as u64).map(|n| (n * 10, n * 10 + 1)).collect();
        let many = parts(10_000, &places);
        assert_eq!(many.join(slice((5, 6))).parts, Some(parts(10_000, &[(5, 6)])));
        assert_eq!(many.join(slice((2, 6))).parts.map(|parts| parts.places.len()), Some(MAX_PARTS));
    }

    const TOTAL: usize = 40;

    /// The object; parts of it are put together in `stored` as the engine does.
    fn object() -> Vec<u8> {
        (0..TOTAL as u8).collect()
    }

    proptest! {
        #[test]
        fn parts_put_together_are_those_bytes_of_the_object(drawn in prop::collection::vec((0..TOTAL, 0..TOTAL), 1..12), wanted in prop::collection::vec((0..TOTAL, 0..TOTAL), 1..4)) {
            let object = object();
            let at = |(a, b): (usize, usize)| slice((a.min(b) as u64, a.max(b) as u64));
            let bytes_of = |slice: Slice| object[slice.low as usize..=slice.high as usize].to_vec();
            let mut held = [false; TOTAL];
            let (mut now, mut stored): (Option<StoredParts>, Vec<u8>) = (None, Vec::new());
            for place in drawn.into_iter().map(at) {
                (place.low..=place.high).for_each(|byte| held[byte as usize] = true);
                let (joined, new) = match &now {
                    None => (JoinedPart { before: vec![], behind: vec![], parts: StoredParts::one(TOTAL as u64, Validator::default(), place) }, bytes_of(place)),
                    Some(parts) => (parts.join(place), bytes_of(place)),
                };
                let mut body = Vec::new();
                joined.before.iter().for_each(|range| body.extend_from_slice(&stored[range.start as usize..range.end as usize]));
                body.extend_from_slice(&new);
                joined.behind.iter().for_each(|range| body.extend_from_slice(&stored[range.start as usize..range.end as usize]));
                let Some(parts) = joined.parts else {
                    prop_assert_eq!(&body, &object);
                    prop_assert!(held.iter().all(|held| *held));
                    return Ok(());
                };
                prop_assert_eq!(StoredParts::parse(&parts.store()), Some(parts.clone()));
                prop_assert_eq!(body.len() as u64, parts.bytes());
                (now, stored) = (Some(parts), body);
            }
            let parts = now.expect("at least one");
            let wanted: Vec<Slice> = wanted.into_iter().map(at).collect();
            for one in &wanted {
                let is_there = (one.low..=one.high).all(|byte| held[byte as usize]);
                let offset = parts.offset_of(*one);
                prop_assert_eq!(offset.is_some(), is_there);
                if let Some(offset) = offset {
                    let offset = offset as usize;
                    prop_assert_eq!(&stored[offset..offset + one.bytes() as usize], &bytes_of(*one)[..]);
                }
            }
            let wanted = WantedPart::These(wanted);
            let WantedPart::These(slices) = &wanted else { unreachable!() };
            let gaps = || slices.iter().flat_map(|one| one.low..=one.high).filter(|byte| !held[*byte as usize]);
            let hull = gaps().min().zip(gaps().max()).map(slice);
            prop_assert_eq!(parts.missing(&wanted), hull);
            prop_assert_eq!(parts.have(&wanted), hull.is_none());
            if let Some(hull) = hull {
                let joined = parts.join(hull).parts;
                prop_assert!(joined.is_none_or(|parts| parts.have(&wanted)));
            }
        }

        #[test]
        fn no_stored_bytes_make_parts_that_panic(stored: Vec<u8>) {
            if let Some(parts) = StoredParts::parse(&stored) {
                let _ = (parts.missing(&WantedPart::All), parts.offset_of(slice((0, 0))));
            }
        }
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Objects kept in slices: what a head knows of its slices, how a slice is named, and when a response is of the same version.
//!
//! ```text
//! head   the request's digest, an object like any other but without a body; beside it a `SliceSet`
//! slice  SHA-256("slice", digest, the set's name, index): an object like any other, whose body is bytes index * size ..
//! ```
//!
//! A set is of one version of the object. Its name is drawn when the head is stored and goes on with it over a 304; whatever
//! else takes the head's place (another version, a fetch after a purge or ban) has another name, under which no slice of
//! the old one is found. So nothing can mix versions, and whoever invalidates the head invalidates its slices.

use std::hash::{BuildHasher, RandomState};

use cache::{Cache, Digest, DigestBuilder, ObjRef};
use message::range::{ContentRange, Slice, content_range};
use message::{Head, date, names};

use crate::aux_attrs::AuxAttrs;

/// The error of a slice's fetch whose object has changed meanwhile. A request that waits for the slice recognizes it by
/// this text.
pub(crate) const CHANGED: &str = "the object has changed";

const VALIDATOR_BYTES: usize = 1024;

/// First byte of a stored set.
const FORMAT: u8 = 1;

/// The entity tag or date that tells one version of an object from another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Validator {
    etag: Vec<u8>,
    last_modified: Vec<u8>,
}

/// The slices of an object: see the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SliceSet {
    name: [u8; 16],
    size_log2: u8,
    /// Bytes of the whole object.
    pub total: u64,
    pub validator: Validator,
}

impl Validator {
    /// The validator of a response that may be split: a strong entity tag, or a date that is a strong validator (RFC
    /// 9110 8.8.2.2).
    ///
    /// # Errors
    /// The reason why the response may not be split.
    pub fn of(response: &Head) -> Result<Self, &'static str> {
        let field = |name| response.get(name).unwrap_or_default();
        let (etag, last_modified) = (field(names::ETAG), field(names::LAST_MODIFIED));
        if etag.len().max(last_modified.len()) > VALIDATOR_BYTES {
            return Err("its validator is too long");
        }
        if etag.starts_with(b"W/") {
            return Err("its entity tag is weak");
        }
        let validator = Validator { etag: etag.to_vec(), last_modified: last_modified.to_vec() };
        if !etag.is_empty() {
            return Ok(validator);
        }
        let time = |name| response.get(name).and_then(date::parse).filter(|time| time.0 != 0.0);
        match (time(names::LAST_MODIFIED), time(names::DATE)) {
            (Some(modified), Some(sent)) if modified.0 + 1.0 <= sent.0 => Ok(validator),
            (Some(_), _) => Err("it was modified in the second in which it was sent, and has no entity tag"),
            (None, _) => Err("it has neither an entity tag nor Last-Modified"),
        }
    }

    pub fn is_of(&self, response: &Head) -> bool {
        let field = |name| response.get(name).unwrap_or_default();
        let is_same_tag = field(names::ETAG) == self.etag;
        // Where there is a tag, that alone counts: servers behind one name often disagree about the date.
        is_same_tag && (!self.etag.is_empty() || field(names::LAST_MODIFIED) == self.last_modified)
    }

    /// True if a 304 is about another version. It may leave out the validators.
    pub fn is_denied_by(&self, response: &Head) -> bool {
        match response.get(names::ETAG) {
            Some(etag) => etag != self.etag,
            None => {
                self.etag.is_empty()
                    && response.get(names::LAST_MODIFIED).is_some_and(|date| date != self.last_modified)
            }
        }
    }

    pub fn store(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.etag.len() as u16).to_le_bytes());
        out.extend_from_slice(&self.etag);
        out.extend_from_slice(&self.last_modified);
    }

    pub fn parse(stored: &[u8]) -> Option<Self> {
        let (etag, rest) = stored.split_first_chunk()?;
        let (etag, last_modified) = rest.split_at_checked(usize::from(u16::from_le_bytes(*etag)))?;
        Some(Validator { etag: etag.to_vec(), last_modified: last_modified.to_vec() })
    }

    pub fn if_range(&self) -> &[u8] {
        if self.etag.is_empty() { &self.last_modified } else { &self.etag }
    }
}

impl SliceSet {
    pub fn new(total: u64, size_log2: u8, validator: Validator, transaction: u64) -> Self {
        let mut name = [0; 16];
        name[..8].copy_from_slice(&RandomState::new().hash_one(transaction).to_le_bytes());
        name[8..].copy_from_slice(&RandomState::new().hash_one(total).to_le_bytes());
        SliceSet { name, size_log2, total, validator }
    }

    #[inline]
    pub fn of(obj: &ObjRef) -> Option<SliceSet> {
        let stored = obj.aux_attrs();
        if stored.is_empty() { None } else { Self::read(stored) }
    }

    /// The set in auxiliary attributes, as [`SliceSet::of`] finds it in an object.
    #[cold]
    pub fn read(aux_attrs: &[u8]) -> Option<SliceSet> {
        Self::parse(AuxAttrs::read(aux_attrs).slices?)
    }

    fn parse(stored: &[u8]) -> Option<SliceSet> {
        let (fixed, validator) = stored.split_at_checked(26)?;
        let (&size_log2, total) = (fixed.get(1)?, u64::from_le_bytes(fixed[2..10].try_into().ok()?));
        let name = fixed[10..26].try_into().ok()?;
        let is_possible = fixed[0] == FORMAT && (10..=40).contains(&size_log2) && total > 0;
        let validator = Validator::parse(validator)?;
        is_possible.then_some(SliceSet { name, size_log2, total, validator })
    }

    pub fn store(&self) -> Vec<u8> {
        let mut out = vec![FORMAT, self.size_log2];
        out.extend_from_slice(&self.total.to_le_bytes());
        out.extend_from_slice(&self.name);
        self.validator.store(&mut out);
        out
    }

    /// Under which a slice is found; `object` is the head's.
    pub fn digest(&self, object: &Digest, index: u64) -> Digest {
        let mut builder = DigestBuilder::new();
        builder.add(Some(b"slice"));
        builder.add(Some(&object.0));
        builder.add(Some(&self.name));
        builder.add(Some(&index.to_le_bytes()));
        builder.finish()
    }

    /// The mark that is stored beside a slice.
    pub fn mark(&self, index: u64) -> Vec<u8> {
        let mut out = self.name.to_vec();
        out.extend_from_slice(&index.to_le_bytes());
        out
    }

    /// True if the object is this slice, as far as its head says.
    pub fn is_slice(&self, obj: &ObjRef, index: u64) -> bool {
        AuxAttrs::read(obj.aux_attrs()).slice == Some(&self.mark(index))
    }

    /// Bytes in a slice, but for the last.
    pub fn size(&self) -> u64 {
        1 << self.size_log2
    }

    pub fn count(&self) -> u64 {
        self.total.div_ceil(self.size())
    }

    pub fn index_of(&self, byte: u64) -> u64 {
        byte >> self.size_log2
    }

    pub fn place(&self, index: u64) -> Slice {
        slice_at(index, self.size_log2, Some(self.total))
    }

    /// Checks that a response is this slice of this version.
    pub fn check(&self, response: &Head, index: u64) -> Result<(), SliceMismatch> {
        match response.status() {
            206 => {}
            // The whole, so not this version or not by parts; not there, or not so long.
            200 | 404 | 410 | 412 | 416 => return Err(SliceMismatch::Changed),
            _ => return Err(SliceMismatch::Failed),
        }
        if !self.validator.is_of(response) || response.has(names::CONTENT_ENCODING) {
            return Err(SliceMismatch::Changed);
        }
        match content_range(response) {
            Ok(Some(ContentRange { slice: Some(slice), complete: Some(total) })) if total == self.total => {
                if slice == self.place(index) { Ok(()) } else { Err(SliceMismatch::Failed) }
            }
            Ok(Some(ContentRange { complete: Some(_), .. })) => Err(SliceMismatch::Changed),
            Ok(Some(ContentRange { complete: None, .. }) | None) | Err(_) => Err(SliceMismatch::Failed),
        }
    }
}

/// Most slices looked for, to free them when their object has ended, or to renew their lifetime. Slices beyond that end
/// with their own lifetime or are evicted.
const FREED: u64 = 1 << 16;

/// Slices looked for so before other tasks have their turn.
const FREED_AT_ONCE: u64 = 64;

/// Frees the slices of an object that is no more. `object`: its digest.
pub(crate) fn free(cache: &Cache, object: Digest, set: SliceSet) {
    let cache = cache.clone();
    rt::spawn(async move {
        for index in 0..set.count().min(FREED) {
            cache.drop_stored(&set.digest(&object, index));
            if index % FREED_AT_ONCE == FREED_AT_ONCE - 1 {
                rt::yield_now().await;
            }
        }
    });
}

/// The object was found to be still good: its slices, as far as they are in memory, live as long as its head does from now on.
pub(crate) fn renew(cache: &Cache, object: Digest, set: SliceSet, head: ObjRef) {
    let cache = cache.clone();
    rt::spawn(async move {
        for index in 0..set.count().min(FREED) {
            // A purge may come meanwhile, and shorten that.
            if head.is_dying() {
                return;
            }
            cache.extend_stored(&set.digest(&object, index), head.times());
            if index % FREED_AT_ONCE == FREED_AT_ONCE - 1 {
                rt::yield_now().await;
            }
        }
    });
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SliceMismatch {
    Changed,
    /// The response doesn't show that: an error, or a Content-Range that doesn't fit the request.
    Failed,
}

/// The place of a slice in an object of that length, as far as that is known.
pub(crate) fn slice_at(index: u64, size_log2: u8, total: Option<u64>) -> Slice {
    let low = index << size_log2;
    let high = low.saturating_add((1 << size_log2) - 1);
    Slice { low, high: total.map_or(high, |total| high.min(total.saturating_sub(1))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const NEW: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn response(status: u16, fields: &[(&str, &str)]) -> Head {
        let mut head = Head::new();
        head.start_response(b"HTTP/1.1", status).unwrap();
        fields.iter().for_each(|(name, value)| head.append(name, value).unwrap());
        head
    }

    fn set(total: u64, etag: &str, modified: &str) -> SliceSet {
        let validator = Validator { etag: etag.into(), last_modified: modified.into() };
        SliceSet::new(total, 16, validator, 1)
    }

    #[test]
    fn only_what_is_told_apart_for_sure_is_taken_apart() {
        let check = |fields: &[(&str, &str)], want| {
            assert_eq!(Validator::of(&response(200, fields)).map(|validator| validator.if_range().to_vec()), want);
        };
        check(&[("ETag", "\"a\"")], Ok(b"\"a\"".to_vec()));
        check(&[("ETag", "\"a\""), ("Last-Modified", OLD)], Ok(b"\"a\"".to_vec()));
        check(&[("ETag", "W/\"a\""), ("Last-Modified", OLD), ("Date", NEW)], Err("its entity tag is weak"));
        check(&[("Last-Modified", OLD), ("Date", NEW)], Ok(OLD.into()));
        check(
            &[("Last-Modified", OLD), ("Date", OLD)],
            Err("it was modified in the second in which it was sent, and has no entity tag"),
        );
        check(&[], Err("it has neither an entity tag nor Last-Modified"));
        check(&[("Last-Modified", "yesterday")], Err("it has neither an entity tag nor Last-Modified"));
        check(&[("ETag", &"x".repeat(1025))], Err("its validator is too long"));
    }

    #[test]
    fn what_was_stored_is_read_and_torn_bytes_are_none() {
        let set = set(1 << 40, "\"tag\"", OLD);
        let stored = set.store();
        assert_eq!(SliceSet::parse(&stored), Some(set));
        (0..28).for_each(|n| assert_eq!(SliceSet::parse(&stored[..n]), None));
        assert_eq!(SliceSet::parse(&[9; 40]), None);
    }

    #[test]
    fn slices_cover_an_object_without_a_gap() {
        for total in [1, 65_535, 65_536, 65_537, 1 << 20, (1 << 20) + 1] {
            let set = set(total, "\"a\"", "");
            let mut next = 0;
            for index in 0..set.count() {
                let place = set.place(index);
                assert_eq!((place.low, set.index_of(place.low), set.index_of(place.high)), (next, index, index));
                next = place.high + 1;
            }
            assert_eq!(next, total);
        }
    }

    #[test]
    fn each_slice_of_each_set_has_a_digest_of_its_own() {
        let (object, a, b) = (Digest([7; 32]), set(1 << 30, "\"a\"", ""), set(1 << 30, "\"a\"", ""));
        let digests: std::collections::HashSet<_> =
            [&a, &b].into_iter().flat_map(|set| (0..100).map(move |i| set.digest(&object, i))).collect();
        assert_eq!(digests.len(), 200, "the same validator doesn't make the same set");
        assert_eq!(a.digest(&object, 3), a.digest(&object, 3));
    }

    #[test]
    fn what_isnt_this_slice_of_this_version_is_told() {
        let set = set(100_000, "\"a\"", OLD);
        let check = |status, tag: &str, range: &str, want| {
            let response = response(status, &[("ETag", tag), ("Content-Range", range)]);
            assert_eq!(set.check(&response, 1), want, "{status} {tag} {range}");
        };
        let (changed, failed) = (Err(SliceMismatch::Changed), Err(SliceMismatch::Failed));
        check(206, "\"a\"", "bytes 65536-99999/100000", Ok(()));
        check(206, "\"b\"", "bytes 65536-99999/100000", changed);
        check(206, "W/\"a\"", "bytes 65536-99999/100000", changed);
        check(206, "\"a\"", "bytes 65536-99999/100001", changed);
        check(206, "\"a\"", "bytes 65536-99999/*", failed);
        check(206, "\"a\"", "bytes 65537-99999/100000", failed);
        check(206, "\"a\"", "bytes 0-65535/100000", failed);
        check(206, "\"a\"", "lines 1-2/3", failed);
        check(206, "\"a\"", "bytes 9-1/", failed);
        check(200, "\"a\"", "", changed);
        check(416, "\"a\"", "bytes */9", changed);
        check(404, "", "", changed);
        check(503, "", "", failed);
        check(302, "", "", failed);
        let mut coded = response(206, &[("ETag", "\"a\""), ("Content-Range", "bytes 65536-99999/100000")]);
        coded.append("Content-Encoding", "gzip").unwrap();
        assert_eq!(set.check(&coded, 1), changed);
    }

    #[test]
    fn without_a_tag_the_date_counts_and_with_one_it_doesnt() {
        let range = ("Content-Range", "bytes 0-65535/100000");
        let dated = set(100_000, "", OLD);
        assert_eq!(dated.check(&response(206, &[range, ("Last-Modified", OLD)]), 0), Ok(()));
        assert_eq!(dated.check(&response(206, &[range, ("Last-Modified", NEW)]), 0), Err(SliceMismatch::Changed));
        assert_eq!(dated.check(&response(206, &[range]), 0), Err(SliceMismatch::Changed));
        let tagged = set(100_000, "\"a\"", OLD);
        let moved = response(206, &[range, ("ETag", "\"a\""), ("Last-Modified", NEW)]);
        assert_eq!(tagged.check(&moved, 0), Ok(()));
    }

    proptest::proptest! {
        #[test]
        fn no_stored_bytes_make_a_set_that_panics(stored: Vec<u8>) {
            if let Some(set) = SliceSet::parse(&stored) {
                let last = set.count() - 1;
                assert_eq!(set.place(last).high, set.total - 1);
            }
        }
    }
}

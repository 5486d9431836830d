// SPDX-License-Identifier: BSD-2-Clause
//! vmod_vsthrottle(3) of varnish-modules: token buckets, one for each key, limit, period and block, for the whole process.
//!
//! As there, a bucket gains whole tokens since it last gave one, a request refused by `block` takes a token if there is one and
//! lets what was gained of the next be lost, and `block` isn't renewed while it lasts. Buckets that are full again are dropped when others
//! are made. Not as there: asking what remains adds nothing (there each call adds what was gained once more).

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use base::Mono;
use parking_lot::Mutex;
use vmod_support::bounded::{BoundedMap, Worth};
use vrt::Text;
use vrt::vmod::VmodCall;

/// Parts, each with a lock.
const PARTS: usize = 16;
/// Buckets of a part. When all are in use, the one that gave a token longest ago, of a few, makes room.
const MAX: usize = 65_536;

static PARTS_OF_ALL: LazyLock<([Mutex<Part>; PARTS], RandomState)> = LazyLock::new(Default::default);

vrt::vmod! {
    /// Rate limits by token buckets: a number of requests per key and period. All four arguments together identify a bucket
    pub(crate) static VMOD = vsthrottle;

    functions {
        /// Takes a token. Returns true if there was none or the bucket is blocked
        fn is_denied(key: STRING, limit: INT, period: DURATION, block: DURATION = 0.0) -> BOOL
            = |call: &mut VmodCall<'_>, key: Option<&Text>, limit: i64, period: f64, block: f64|
            with(call, key, (limit, period, block), |b, now| b.is_denied(now)).unwrap_or(true);

        /// Puts a token back
        fn return_token(key: STRING, limit: INT, period: DURATION, block: DURATION = 0.0) -> VOID
            = |call: &mut VmodCall<'_>, key: Option<&Text>, limit: i64, period: f64, block: f64|
            with(call, key, (limit, period, block), |b, _| b.put_back()).unwrap_or(());

        /// Removes the bucket; the next call starts with a full one that isn't blocked
        fn remove_bucket(key: STRING, limit: INT, period: DURATION, block: DURATION = 0.0) -> VOID = remove;

        /// Returns the number of remaining tokens; -1 without a key
        fn remaining(key: STRING, limit: INT, period: DURATION, block: DURATION = 0.0) -> INT, local
            = |call: &mut VmodCall<'_>, key: Option<&Text>, limit: i64, period: f64, block: f64|
            read(call, key, (limit, period, block), |b, now| b.filled(now)).unwrap_or(-1);

        /// Returns how long the bucket remains blocked; -1 s without a key
        fn blocked(key: STRING, limit: INT, period: DURATION, block: DURATION) -> DURATION, local
            = |call: &mut VmodCall<'_>, key: Option<&Text>, limit: i64, period: f64, block: f64|
            read(call, key, (limit, period, block), |b, now| b.blocked(now)).unwrap_or(-1.0);
    }
}

type Name = (Text, i64, u64, u64);

type Part = BoundedMap<Name, Bucket>;

struct Bucket {
    tokens: i64,
    limit: i64,
    period: f64,
    block: f64,
    /// Time at which it last gave a token.
    last: Mono,
    blocked_until: Mono,
}

fn named(key: Option<&Text>, (limit, period, block): (i64, f64, f64)) -> Option<Name> {
    Some((key?.clone(), limit, period.to_bits(), block.to_bits()))
}

fn part_of(name: &Name) -> &'static Mutex<Part> {
    let (parts, hasher) = &*PARTS_OF_ALL;
    &parts[hasher.hash_one(name.0.as_bytes()) as usize % PARTS]
}

/// The result of `act` on the bucket; `None` without a key.
fn with<T>(
    call: &mut VmodCall<'_>,
    key: Option<&Text>,
    limits: (i64, f64, f64),
    act: impl FnOnce(&mut Bucket, Mono) -> T,
) -> Option<T> {
    let name = named(key, limits)?;
    let now = call.ctx.clock().mono();
    let mut part = part_of(&name).lock();
    if let Some(bucket) = part.get_mut(&name) {
        return Some(act(bucket, now));
    }
    make_room(&mut part, now);
    Some(act(part.insert(name, Bucket::new(limits, now)), now))
}

/// The result of `read` on a bucket; one that isn't there is full.
fn read<T>(
    call: &mut VmodCall<'_>,
    key: Option<&Text>,
    limits: (i64, f64, f64),
    of: impl Fn(&Bucket, Mono) -> T,
) -> Option<T> {
    let name = named(key, limits)?;
    let now = call.ctx.clock().mono();
    let part = part_of(&name).lock();
    Some(part.get(&name).map_or_else(|| of(&Bucket::new(limits, now), now), |bucket| of(bucket, now)))
}

fn remove(_: &mut VmodCall<'_>, key: Option<&Text>, limit: i64, period: f64, block: f64) {
    if let Some(name) = named(key, (limit, period, block)) {
        part_of(&name).lock().remove(&name);
    }
}

fn make_room(part: &mut Part, now: Mono) {
    part.make_room(MAX, |bucket| match bucket.is_as_new(now) {
        true => Worth::Nothing,
        false => Worth::Some(bucket.last.0.max(bucket.blocked_until.0)),
    });
}

impl Bucket {
    fn new((limit, period, block): (i64, f64, f64), now: Mono) -> Bucket {
        Bucket { tokens: limit, limit, period, block, last: now, blocked_until: Mono(0.0) }
    }

    fn is_as_new(&self, now: Mono) -> bool {
        now.since(self.last) > self.period && now.0 >= self.blocked_until.0
    }

    fn filled(&self, now: Mono) -> i64 {
        let gained = now.since(self.last) / self.period * self.limit as f64;
        self.tokens.saturating_add(gained as i64).min(self.limit)
    }

    fn is_denied(&mut self, now: Mono) -> bool {
        let (tokens, is_blocked) = (self.filled(now), now.0 < self.blocked_until.0);
        if is_blocked {
            (self.tokens, self.last) = (tokens, now);
        }
        if tokens > 0 {
            self.tokens = tokens - 1;
            self.last = now;
            return is_blocked;
        }
        if !is_blocked && self.block > 0.0 {
            self.blocked_until = now.plus(self.block);
        }
        true
    }

    fn put_back(&mut self) {
        self.tokens = self.tokens.saturating_add(1).min(self.limit);
    }

    fn blocked(&self, now: Mono) -> f64 {
        self.blocked_until.since(now).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(bucket: &mut Bucket, times: &[f64]) -> Vec<bool> {
        times.iter().map(|at| bucket.is_denied(Mono(*at))).collect()
    }

    #[test]
    fn a_bucket_gives_what_it_gained() {
        let mut bucket = Bucket::new((2, 1.0, 0.0), Mono(0.0));
        assert_eq!(denied(&mut bucket, &[0.0, 0.0, 0.0, 0.4]), [false, false, true, true]);
        // What was gained beyond whole tokens is lost when one is given.
        assert_eq!(denied(&mut bucket, &[0.8, 0.8, 1.1, 1.4]), [false, true, true, false]);
        assert_eq!(bucket.filled(Mono(100.0)), 2);
    }

    #[test]
    fn a_block_lasts_and_is_not_renewed() {
        let mut bucket = Bucket::new((1, 0.1, 0.4), Mono(0.0));
        assert_eq!(denied(&mut bucket, &[0.0, 0.0, 0.25, 0.3]), [false, true, true, true]);
        assert!((bucket.blocked(Mono(0.3)) - 0.1).abs() < 1e-9);
        assert_eq!(denied(&mut bucket, &[0.55]), [false]);
        assert_eq!(bucket.blocked(Mono(0.6)), 0.0);
        // Who keeps asking while it is blocked puts off what it gains.
        let mut bucket = Bucket::new((1, 1.0, 1.5), Mono(0.0));
        assert_eq!(
            denied(&mut bucket, &[0.0, 0.5, 1.4, 1.9, 2.1, 2.3, 2.5]),
            [false, true, true, true, true, true, true]
        );
    }

    #[test]
    fn odd_arguments_do_no_harm() {
        for (limit, period) in
            [(0, 1.0), (-1, 1.0), (2, 0.0), (2, -1.0), (i64::MAX, f64::MIN_POSITIVE), (i64::MIN, -0.0)]
        {
            let mut bucket = Bucket::new((limit, period, f64::MAX), Mono(0.0));
            for at in [0.0, 1.0, 1e9] {
                bucket.is_denied(Mono(at));
                bucket.put_back();
            }
        }
    }

    #[test]
    fn a_part_is_bounded_and_a_new_bucket_looks_at_a_few_others() {
        let mut part = Part::default();
        let name = |n| (Text::EMPTY, n, 0, 0);
        for n in 0..MAX as i64 + 100 {
            make_room(&mut part, Mono(1.0));
            part.insert(name(n), Bucket::new((1, 10.0, 0.0), Mono(1.0)));
        }
        assert_eq!(part.len(), MAX);
        for n in 0..MAX as i64 / 4 {
            make_room(&mut part, Mono(100.0));
            part.insert(name(-n), Bucket::new((1, 10.0, 0.0), Mono(100.0)));
        }
        assert!(part.len() < MAX / 2, "{}", part.len());
    }
}

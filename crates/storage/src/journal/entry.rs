// SPDX-License-Identifier: BSD-2-Clause
//! What a journal's entries say, and their form: a length, a kind, then little-endian words. Nothing in it is a Rust type,
//! so that another build reads it, or sees that it can't.

use std::sync::Arc;

/// One thing that happened to the invalidations. Times are seconds of the machine's monotonic clock, `real` is since 1970;
/// what the machine's clock says means something together with the [`JournalLife`] before.
#[derive(Clone, Debug, PartialEq)]
pub enum JournalEntry {
    /// A ban came onto the list, or is on it.
    Ban(JournalBan),
    /// Every object that a ban could hit has been tested, or a newer one says the same: its number, else 0.
    Completed {
        /// Number of the ban.
        seq: u64,
        /// Number of the newer one.
        successor: u64,
    },
    /// Bans with lower numbers have left the list: no object stands below this one.
    Oldest {
        /// The oldest ban that is left.
        seq: u64,
    },
    /// All variants of a digest were purged, wholly or softly.
    Purge(JournalPurge),
    /// All objects that bear a key were purged.
    TagPurge(JournalTagPurge),
    /// The newest number that was ever given.
    Newest {
        /// The newest number that was ever given.
        seq: u64,
    },
    /// A purge of either kind has reached all that it was to reach.
    Done {
        /// Number of the purge.
        seq: u64,
    },
    /// Another worker writes from here on.
    Life(JournalLife),
    /// A store that has this number, of an earlier life, may be believed, too.
    Known {
        /// Number of the store.
        number: u64,
    },
    /// All stores have the number of this life: those of earlier ones count no more.
    Bound,
    /// A purge of either kind has reached all that is in memory, but may not last in a home.
    Reached {
        /// Number of the purge.
        seq: u64,
    },
    /// Purges by key up to that number are forgotten: whatever has a key and was fetched before counts as purged.
    KeysLost {
        /// Highest number of these purges.
        seq: u64,
    },
    /// Stored objects have stood all that the log of a fleet says up to there.
    Followed(Followed),
    /// An entry of a fleet's log that this server would append again.
    Held(JournalHeld),
}

/// An entry of the log of a fleet.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalHeld {
    /// Number in the log; 0: it isn't known to be there.
    pub seq: u64,
    /// Mark by which it is recognised.
    pub mark: u64,
    /// Time when the server held it first, in seconds since 1970.
    pub since: f64,
    /// Name of the entry.
    pub id: String,
    /// Text; empty: the server doesn't hold the entry any more.
    pub bytes: Arc<[u8]>,
}

/// A place in the log of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// Epoch of the log.
    pub epoch: Vec<u8>,
    /// Number of the entry there.
    pub seq: u64,
    /// Mark by which that entry is recognised.
    pub mark: Option<u64>,
}

/// The writer of a journal, from one start of a worker to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JournalLife {
    /// Drawn for it: a store that lasts has it, too. So each is known to belong to the other.
    pub number: u64,
    /// Number of the machine's start that its clock counts from; 0 when that isn't known.
    pub boot: u64,
    /// When the machine's clock was 0: seconds since 1970.
    pub epoch: f64,
}

impl JournalLife {
    /// A time of this life as a later one that is `now` tells it. As long as the machine runs there is nothing to be changed.
    pub fn translate(&self, seconds: f64, now: &JournalLife) -> f64 {
        let is_same = self.boot == now.boot && now.boot != 0;
        if is_same { seconds } else { seconds + (self.epoch - now.epoch) }
    }
}

/// A ban as it is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JournalBan {
    /// Number of the ban.
    pub seq: u64,
    /// Time when it was made, in seconds since 1970.
    pub real: f64,
    /// The same time by the monotonic clock.
    pub mono: f64,
    /// True after an [`JournalEntry::Completed`] for it.
    pub is_completed: bool,
    /// Number of the newer ban in [`JournalEntry::Completed`].
    pub successor: u64,
    /// Expression of the ban, in a form of the cache's own.
    pub spec: Vec<u8>,
}

/// A purge as it is kept: new lives from then on; `None` leaves one alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JournalPurge {
    /// Number of the purge.
    pub seq: u64,
    /// Digest that it purged.
    pub digest: [u8; 32],
    /// Time when it was made.
    pub at: f64,
    /// New TTL in seconds.
    pub ttl: Option<f64>,
    /// New grace in seconds.
    pub grace: Option<f64>,
    /// New keep in seconds.
    pub keep: Option<f64>,
}

/// A purge by key as it is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JournalTagPurge {
    /// Number of the purge.
    pub seq: u64,
    /// Key of the objects.
    pub key: Vec<u8>,
    /// When it was made, if it took the objects' ttl only.
    pub soft: Option<f64>,
}

impl JournalEntry {
    /// Writes it behind `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&[0; 4]);
        match self {
            JournalEntry::Ban(ban) => {
                out.push(1);
                put(out, ban.seq);
                put(out, ban.real.to_bits());
                put(out, ban.mono.to_bits());
                out.push(u8::from(ban.is_completed));
                put(out, ban.successor);
                out.extend_from_slice(&ban.spec);
            }
            JournalEntry::Completed { seq, successor } => {
                out.push(2);
                put(out, *seq);
                put(out, *successor);
            }
            JournalEntry::Oldest { seq } => one(out, 3, *seq),
            JournalEntry::Purge(purge) => {
                out.push(4);
                put(out, purge.seq);
                out.extend_from_slice(&purge.digest);
                put(out, purge.at.to_bits());
                [purge.ttl, purge.grace, purge.keep].into_iter().for_each(|life| put_option(out, life));
            }
            JournalEntry::TagPurge(purge) => {
                out.push(5);
                put(out, purge.seq);
                put_option(out, purge.soft);
                out.extend_from_slice(&purge.key);
            }
            JournalEntry::Newest { seq } => one(out, 6, *seq),
            JournalEntry::Done { seq } => one(out, 7, *seq),
            JournalEntry::Life(life) => {
                one(out, 8, life.number);
                put(out, life.boot);
                put(out, life.epoch.to_bits());
            }
            JournalEntry::Known { number } => one(out, 9, *number),
            JournalEntry::Bound => out.push(10),
            JournalEntry::Reached { seq } => one(out, 11, *seq),
            JournalEntry::KeysLost { seq } => one(out, 12, *seq),
            JournalEntry::Followed(place) => {
                one(out, 13, place.seq);
                out.push(u8::from(place.mark.is_some()));
                put(out, place.mark.unwrap_or_default());
                out.extend_from_slice(&place.epoch);
            }
            JournalEntry::Held(held) => {
                one(out, 14, held.seq);
                put(out, held.mark);
                put(out, held.since.to_bits());
                put(out, held.id.len() as u64);
                out.extend_from_slice(held.id.as_bytes());
                out.extend_from_slice(&held.bytes);
            }
        }
        let len = (out.len() - begin - 4) as u32;
        out[begin..begin + 4].copy_from_slice(&len.to_le_bytes());
    }

    /// Reads all that stand in `bytes`; `None` when there is something that no version of ours has written.
    pub fn decode_all(mut bytes: &[u8]) -> Option<Vec<JournalEntry>> {
        let mut entries = Vec::new();
        while let Some((len, rest)) = bytes.split_first_chunk() {
            let (body, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            entries.push(JournalEntry::decode(body)?);
            bytes = rest;
        }
        bytes.is_empty().then_some(entries)
    }

    fn decode(body: &[u8]) -> Option<JournalEntry> {
        let (kind, rest) = body.split_first()?;
        let mut words = Words(rest);
        let entry = match kind {
            1 => JournalEntry::Ban(JournalBan {
                seq: words.u64()?,
                real: words.f64()?,
                mono: words.f64()?,
                is_completed: words.flag()?,
                successor: words.u64()?,
                spec: words.rest(),
            }),
            2 => JournalEntry::Completed { seq: words.u64()?, successor: words.u64()? },
            3 => JournalEntry::Oldest { seq: words.u64()? },
            4 => JournalEntry::Purge(JournalPurge {
                seq: words.u64()?,
                digest: *words.take()?,
                at: words.f64()?,
                ttl: words.option()?,
                grace: words.option()?,
                keep: words.option()?,
            }),
            5 => {
                JournalEntry::TagPurge(JournalTagPurge { seq: words.u64()?, soft: words.option()?, key: words.rest() })
            }
            6 => JournalEntry::Newest { seq: words.u64()? },
            7 => JournalEntry::Done { seq: words.u64()? },
            8 => JournalEntry::Life(JournalLife { number: words.u64()?, boot: words.u64()?, epoch: words.f64()? }),
            9 => JournalEntry::Known { number: words.u64()? },
            10 => JournalEntry::Bound,
            11 => JournalEntry::Reached { seq: words.u64()? },
            12 => JournalEntry::KeysLost { seq: words.u64()? },
            13 => {
                let (seq, has_mark, mark) = (words.u64()?, words.flag()?, words.u64()?);
                JournalEntry::Followed(Followed { seq, mark: has_mark.then_some(mark), epoch: words.rest() })
            }
            14 => {
                let (seq, mark, since, len) = (words.u64()?, words.u64()?, words.f64()?, words.u64()?);
                let (id, bytes) = words.0.split_at_checked(usize::try_from(len).ok()?)?;
                words = Words(&[]);
                JournalEntry::Held(JournalHeld {
                    seq,
                    mark,
                    since,
                    id: String::from_utf8(id.to_vec()).ok()?,
                    bytes: bytes.into(),
                })
            }
            _ => return None,
        };
        words.0.is_empty().then_some(entry)
    }
}

fn one(out: &mut Vec<u8>, kind: u8, seq: u64) {
    out.push(kind);
    put(out, seq);
}

fn put(out: &mut Vec<u8>, word: u64) {
    out.extend_from_slice(&word.to_le_bytes());
}

fn put_option(out: &mut Vec<u8>, seconds: Option<f64>) {
    out.push(u8::from(seconds.is_some()));
    put(out, seconds.unwrap_or_default().to_bits());
}

struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(word)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(|word| u64::from_le_bytes(*word))
    }

    /// A finite number: no time of ours is anything else.
    fn f64(&mut self) -> Option<f64> {
        self.u64().map(f64::from_bits).filter(|seconds| seconds.is_finite())
    }

    fn flag(&mut self) -> Option<bool> {
        match self.take()? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    fn option(&mut self) -> Option<Option<f64>> {
        let (is_some, seconds) = (self.flag()?, self.f64()?);
        Some(is_some.then_some(seconds))
    }

    fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }
}

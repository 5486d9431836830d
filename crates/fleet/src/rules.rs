// SPDX-License-Identifier: BSD-2-Clause
//! What a node that comes to a log has to do, as a function of where it was and of what the log has.
//!
//! ```text
//! position      the log                                       verdict
//! none          any                                           begin at its end: what is stored may have missed anything
//! another epoch isn't known by an entry that was seen         the same: it is another log
//! seq           ends before seq                               the same: it is an older state of itself
//! seq           begins after seq + 1                          the same: what came in between is gone
//! seq, mark     has seq, with another mark, or hasn't it      the same, found out by looking at entry seq
//! seq, mark     has seq, with that mark                       go on behind it
//! ```
//!
//! The epoch alone doesn't tell one log from another: nodes that make a log in a cluster of NATS at the same moment may be told different ones,
//! and the next leader may tell the other one. An entry of a node's has an id and a time, so that no other log has it.

use crate::LogBounds;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pub epoch: String,
    /// Number of the entry that was carried out last; 0: none was in it.
    pub seq: u64,
    /// Mark of that entry ([`crate::mark`]); `None`: it was never seen.
    pub mark: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowVerdict {
    /// Go on: follow from that number. The first entry must be the position's, if it has a mark.
    Replay { from: u64 },
    /// Begin at the log's end, as stored objects may have missed something.
    Begin {
        /// The reason, if there has to be one: the node was at the log before.
        gap: Option<Gap>,
    },
}

/// The reason why nobody knows which entries a node has missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    pub why: String,
    /// The log has lost entries, which other nodes may not notice; what it has from that number on is newer than the
    /// loss. `None`: this node alone has missed some.
    pub lost_before: Option<u64>,
}

impl Gap {
    pub fn trimmed(why: impl Into<String>) -> Gap {
        Gap { why: why.into(), lost_before: None }
    }

    pub fn lost(why: impl Into<String>, before: u64) -> Gap {
        Gap { why: why.into(), lost_before: Some(before) }
    }
}

pub const OTHER_LOG: &str = "the log is another one than before";

pub fn judge(position: Option<&Position>, bounds: &LogBounds) -> FollowVerdict {
    let Some(position) = position else { return FollowVerdict::Begin { gap: None } };
    let trimmed = |words: String| FollowVerdict::Begin { gap: Some(Gap::trimmed(words)) };
    if position.epoch != bounds.epoch {
        let is_there = (bounds.first..=bounds.last).contains(&position.seq);
        return match position.mark {
            Some(_) if is_there => FollowVerdict::Replay { from: position.seq },
            // A node that had seen no entry knows of none that is lost.
            None if position.seq == 0 => trimmed(OTHER_LOG.to_owned()),
            _ => FollowVerdict::Begin { gap: Some(Gap::lost(OTHER_LOG, 0)) },
        };
    }
    let seq = position.seq;
    if seq > bounds.last {
        if base::failpoint::fault("a log that was put back and is gone on with") {
            return FollowVerdict::Replay { from: bounds.last.saturating_add(1) };
        }
        let why = format!("the log ends at {}, and was at {seq} before: it has lost entries", bounds.last);
        return FollowVerdict::Begin { gap: Some(Gap::lost(why, bounds.last.saturating_add(1))) };
    }
    if seq < bounds.first && base::failpoint::fault("a log that was trimmed and is gone on with") {
        return FollowVerdict::Replay { from: bounds.first };
    }
    if seq.saturating_add(1) < bounds.first {
        return trimmed(format!("the log begins at {} now: entries from {} on are missing", bounds.first, seq + 1));
    }
    match position.mark {
        // Nothing is known of the entry but its number, which an older state of the log that has grown again has, too.
        None if seq > 0 => trimmed(format!("nobody knows whether entry {seq} is the one that it was")),
        Some(_) if seq < bounds.first => trimmed(format!("entry {seq}, which identifies the log, is missing")),
        Some(_) => FollowVerdict::Replay { from: seq },
        None => FollowVerdict::Replay { from: 1 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(position: Option<(&str, u64, Option<u64>)>, (first, last): (u64, u64), wanted: &str) {
        let position = position.map(|(epoch, seq, mark)| Position { epoch: epoch.to_owned(), seq, mark });
        let said = match judge(position.as_ref(), &LogBounds { epoch: "e".to_owned(), first, last }) {
            FollowVerdict::Replay { from } => format!("from {from}"),
            FollowVerdict::Begin { gap } => gap.map_or_else(|| "begin".to_owned(), |gap| gap.why),
        };
        assert_eq!(said, wanted);
    }

    #[test]
    fn who_comes_for_the_first_time_begins_at_the_end() {
        check(None, (1, 0), "begin");
        check(None, (1, 90), "begin");
    }

    #[test]
    fn who_was_there_goes_on() {
        check(Some(("e", 0, None)), (1, 0), "from 1");
        check(Some(("e", 0, None)), (1, 7), "from 1");
        check(Some(("e", 7, Some(3))), (1, 7), "from 7");
        check(Some(("e", 7, Some(3))), (7, 300), "from 7");
    }

    #[test]
    fn what_was_trimmed_is_a_gap() {
        check(Some(("e", 0, None)), (2, 7), "the log begins at 2 now: entries from 1 on are missing");
        check(Some(("e", 7, Some(3))), (9, 300), "the log begins at 9 now: entries from 8 on are missing");
        check(Some(("e", 7, Some(3))), (8, 300), "entry 7, which identifies the log, is missing");
        check(Some(("e", 7, Some(3))), (8, 7), "entry 7, which identifies the log, is missing");
    }

    #[test]
    fn another_log_or_an_older_state_of_it_is_a_gap() {
        for (seq, mark, bounds) in [(0, None, (1, 7)), (7, None, (1, 7)), (8, Some(3), (1, 7)), (7, Some(3), (8, 300))]
        {
            check(Some(("d", seq, mark)), bounds, OTHER_LOG);
        }
        check(Some(("d", 7, Some(3))), (1, 7), "from 7");
        check(Some(("e", 8, Some(3))), (1, 7), "the log ends at 7, and was at 8 before: it has lost entries");
        check(Some(("e", 7, None)), (1, 7), "nobody knows whether entry 7 is the one that it was");
    }
}

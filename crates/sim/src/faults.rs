// SPDX-License-Identifier: BSD-2-Clause
//! Faults that stand in the product's code where tests may plant them ([`base::failpoint::fault`]), and the scenario that
//! is to find each: the proof that a bug of that kind would be found.

#[derive(Clone, Copy, Debug)]
pub struct PlantedFault {
    pub name: &'static str,
    pub scenario: &'static str,
}

/// In the place of a scenario: the exchanges that are compared with the model of RFC 9111 find it.
pub(crate) const RFC9111: &str = "rfc9111";

/// The same: histories of a fleet find it.
pub(crate) const FLEET: &str = "fleet";

pub const FAULTS: &[PlantedFault] = &[
    fault("a lost wake-up", "waiters_of_a_failed_fetch"),
    fault("a purge that forgets a running fetch", "purged_while_fetched"),
    fault("a ban that forgets a running fetch", "banned_while_fetched"),
    fault("a double release of storage", "evicted_while_delivered"),
    fault("a leak of storage", "many_clients_share_one_fetch"),
    fault("a torn body", "origins_that_fail"),
    fault("a 304 that forgets the stored head", "refreshed_by_304"),
    fault("a mix-up of variants", "variants_keep_apart"),
    fault("a hit-for-miss that is serialised", "private_answers_are_fetched_side_by_side"),
    fault("a second fetch beside the first", "many_clients_share_one_fetch"),
    fault("grace beyond its end", "stale_while_revalidated"),
    fault("a filter that drops a piece where it yields", "packed_bodies"),
    fault("a retry that keeps the old filters", "packed_bodies"),
    fault("a hash of the first part's first byte only", "banned_while_fetched"),
    fault("a slot that isn't given back", "many_clients_share_one_fetch"),
    fault("a waiter left behind by a dropped client", "waiters_that_are_dropped"),
    fault("an ESI child that outlives its page", "fragments_end_with_their_page"),
    fault("an eviction under delivery", "slow_readers_of_a_small_store"),
    fault("an upload completed after a cut", "uploads_come_whole_or_not_at_all"),
    fault("a cut upload kept as a whole one", "uploads_come_whole_or_not_at_all"),
    fault("a marker that hides what is stale", RFC9111),
    fault("an age that forgets the way", RFC9111),
    fault("a gate that is never closed", FLEET),
    fault("a log that was trimmed and is gone on with", FLEET),
    fault("a log that was put back and is gone on with", FLEET),
    fault("an acknowledgement before the log has it", FLEET),
    fault("a refusal taken for an acknowledgement", FLEET),
    fault("an entry without an answer that is forgotten", FLEET),
    fault("a purge that forgets a running fetch", FLEET),
    fault("a ban that forgets a running fetch", FLEET),
    fault("a batch but for its last entry", FLEET),
    fault("an entry of others taken for an own one", FLEET),
    fault("a cap on staleness that is forgotten", FLEET),
    fault("an entry that the log has lost and nobody misses", FLEET),
    fault("a lost entry that isn't appended again", FLEET),
    fault("a loss of which nobody is told", FLEET),
    fault("an entry taken for another one by its number", FLEET),
    fault("a loss for which everything is given up", FLEET),
    fault("an entry that wasn't lost and is appended again", FLEET),
];

const fn fault(name: &'static str, scenario: &'static str) -> PlantedFault {
    PlantedFault { name, scenario }
}

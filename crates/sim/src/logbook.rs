// SPDX-License-Identifier: BSD-2-Clause
//! The log of a simulation, read back: every transaction begins once and ends once (unless its task was dropped), and no
//! fragment ends after its page (unless that was given up: then fragments that had begun before their turn end a little later).

use std::collections::BTreeMap;

use shm::vsl::Record;
use tables::tags::Tag;

use crate::plan::GivenUp;

#[derive(Default)]
struct Txn {
    begins: usize,
    ends: usize,
    /// Position of its last End.
    ended_at: usize,
    /// The page that a fragment belongs to.
    page: Option<u64>,
}

/// Checks that all transactions have ended as they should.
///
/// # Errors
/// The one that hasn't.
pub(crate) fn check(records: &[Record], given_up: GivenUp) -> Result<(), String> {
    let mut txns: BTreeMap<u64, Txn> = BTreeMap::new();
    for (at, record) in records.iter().enumerate().filter(|(_, record)| record.vxid != 0) {
        let txn = txns.entry(record.vxid).or_default();
        match record.tag {
            Tag::Begin => {
                txn.begins += 1;
                txn.page = page_of(&record.data);
            }
            Tag::End => {
                txn.ends += 1;
                txn.ended_at = at;
            }
            _ if txn.ends > 0 => return Err(format!("{} goes on after its End: {record:?}", record.vxid)),
            _ => {}
        }
    }
    for (vxid, txn) in &txns {
        let has_ended = txn.ends == 1 || (txn.ends == 0 && given_up == GivenUp::Tasks);
        if txn.begins != 1 || !has_ended {
            return Err(format!("transaction {vxid} begins {} times and ends {} times", txn.begins, txn.ends));
        }
        let page = txn.page.filter(|_| given_up == GivenUp::Nothing).and_then(|page| txns.get(&page));
        if page.is_some_and(|page| page.ended_at < txn.ended_at) {
            return Err(format!("fragment {vxid} outlives its page"));
        }
    }
    Ok(())
}

/// `req 3 esi 1` begins a fragment of 3.
fn page_of(begin: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(begin).ok()?;
    let mut words = text.split(' ');
    let (kind, of, why) = (words.next()?, words.next()?, words.next()?);
    (kind == "req" && why == "esi").then(|| of.parse().ok())?
}

// SPDX-License-Identifier: BSD-2-Clause
//! The table of uploads: when each is forgotten, and whose it is. Of a full table, the client network with the most uploads loses the one
//! that would be forgotten first. So a client that begins many drives out its own.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use base::Mono;

use super::holder::Holder;

pub(super) const MAX_UPLOADS: usize = 10_000;
/// Seconds. A client that hasn't got the last response may ask once more how the upload ended.
const FINISHED_LIFE: f64 = 60.0;

pub(super) type UploadKey = u64;

/// `None`: the client has no address.
pub(super) type ClientNetwork = Option<IpAddr>;

/// Milliseconds of the monotonic clock, and the upload that is forgotten then.
type Ending = (u64, UploadKey);

pub(super) struct HeldUpload {
    pub holder: Holder,
    pub client: ClientNetwork,
    end: u64,
    is_finished: bool,
}

#[derive(Default)]
pub(super) struct UploadTable {
    uploads: HashMap<UploadKey, HeldUpload>,
    by_end: BTreeSet<Ending>,
    by_client: HashMap<ClientNetwork, BTreeSet<Ending>>,
    /// The number of its uploads, and the client.
    shares: BTreeSet<(usize, ClientNetwork)>,
    unfinished: usize,
}

impl UploadTable {
    /// Returns `true` if another upload was dropped to make room. `life`: in seconds.
    pub fn put(&mut self, key: UploadKey, holder: Holder, client: ClientNetwork, now: Mono, life: f64) -> bool {
        self.remove(key);
        let is_full = self.uploads.len() >= MAX_UPLOADS;
        if is_full {
            self.drop_of_largest_share();
        }
        self.add(key, HeldUpload { holder, client, end: millis(now.plus(life)), is_finished: false });
        is_full
    }

    pub fn get(&self, key: UploadKey, now: Mono) -> Option<&HeldUpload> {
        self.uploads.get(&key).filter(|upload| upload.end > millis(now))
    }

    pub fn len(&self) -> usize {
        self.uploads.len()
    }

    pub fn unfinished(&self) -> usize {
        self.unfinished
    }

    /// The upload's life begins anew.
    pub fn goes_on(&mut self, key: UploadKey, now: Mono, life: f64) {
        if let Some(upload) = self.remove(key) {
            self.add(key, HeldUpload { end: millis(now.plus(life)), is_finished: false, ..upload });
        }
    }

    pub fn finish(&mut self, key: UploadKey, now: Mono) {
        if let Some(upload) = self.remove(key) {
            let end = upload.end.min(millis(now.plus(FINISHED_LIFE)));
            self.add(key, HeldUpload { end, is_finished: true, ..upload });
        }
    }

    pub fn forget_old(&mut self, now: Mono) {
        while let Some((_, key)) = self.by_end.first().copied().filter(|(end, _)| *end <= millis(now)) {
            self.remove(key);
        }
    }

    pub fn remove(&mut self, key: UploadKey) -> Option<HeldUpload> {
        let upload = self.uploads.remove(&key)?;
        let ending = (upload.end, key);
        self.by_end.remove(&ending);
        self.change_share(upload.client, |own| own.remove(&ending));
        self.unfinished -= usize::from(!upload.is_finished);
        Some(upload)
    }

    fn add(&mut self, key: UploadKey, upload: HeldUpload) {
        let ending = (upload.end, key);
        self.by_end.insert(ending);
        self.change_share(upload.client, |own| own.insert(ending));
        self.unfinished += usize::from(!upload.is_finished);
        self.uploads.insert(key, upload);
    }

    fn change_share(&mut self, client: ClientNetwork, change: impl FnOnce(&mut BTreeSet<Ending>) -> bool) {
        let own = self.by_client.entry(client).or_default();
        self.shares.remove(&(own.len(), client));
        change(own);
        match own.len() {
            0 => _ = self.by_client.remove(&client),
            count => _ = self.shares.insert((count, client)),
        }
    }

    fn drop_of_largest_share(&mut self) {
        let largest = self.shares.last().and_then(|(_, client)| self.by_client.get(client));
        if let Some((_, key)) = largest.and_then(BTreeSet::first).copied() {
            self.remove(key);
        }
    }
}

fn millis(at: Mono) -> u64 {
    (at.0 * 1000.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: f64 = 100.0;

    fn client(n: u8) -> ClientNetwork {
        Some([10, 0, 0, n].into())
    }

    fn put(table: &mut UploadTable, key: UploadKey, whose: u8, now: f64) -> bool {
        table.put(key, Holder::nobody(), client(whose), Mono(now), LIFE)
    }

    #[track_caller]
    fn check(table: &UploadTable, keys: &[UploadKey], unfinished: usize) {
        let mut left: Vec<UploadKey> = table.uploads.keys().copied().collect();
        left.sort_unstable();
        assert_eq!((left.as_slice(), table.unfinished()), (keys, unfinished));
        let shared: usize = table.shares.iter().map(|(count, _)| count).sum();
        assert_eq!((table.by_end.len(), shared, table.by_client.len()), (keys.len(), keys.len(), table.shares.len()));
    }

    #[test]
    fn an_upload_is_forgotten_after_its_life_which_only_its_holder_renews() {
        let mut table = UploadTable::default();
        (1..=2).for_each(|key| _ = put(&mut table, key, 1, 0.0));
        assert!(table.get(1, Mono(50.0)).is_some());
        table.goes_on(2, Mono(50.0), LIFE);
        assert!(table.get(1, Mono(100.0)).is_none(), "looking at it doesn't renew it");
        table.forget_old(Mono(99.0));
        check(&table, &[1, 2], 2);
        table.forget_old(Mono(100.0));
        check(&table, &[2], 1);
        table.forget_old(Mono(150.0));
        check(&table, &[], 0);
        table.goes_on(2, Mono(150.0), LIFE);
        check(&table, &[], 0);
    }

    #[test]
    fn a_finished_upload_isnt_counted_and_stays_for_a_minute_at_most() {
        let mut table = UploadTable::default();
        (1..=2).for_each(|key| _ = put(&mut table, key, 1, 0.0));
        table.finish(1, Mono(10.0));
        check(&table, &[1, 2], 1);
        table.finish(1, Mono(30.0));
        table.forget_old(Mono(70.0));
        check(&table, &[2], 1);
        table.finish(2, Mono(90.0));
        table.forget_old(Mono(100.0));
        check(&table, &[], 0);
    }

    #[test]
    fn the_holder_may_say_that_a_finished_upload_goes_on() {
        let mut table = UploadTable::default();
        put(&mut table, 1, 1, 0.0);
        table.finish(1, Mono(10.0));
        table.goes_on(1, Mono(20.0), LIFE);
        table.forget_old(Mono(119.0));
        check(&table, &[1], 1);
    }

    #[test]
    fn a_client_that_fills_the_table_drives_out_its_own_uploads() {
        let mut table = UploadTable::default();
        put(&mut table, 1, 1, 0.0);
        for key in 2..=MAX_UPLOADS as UploadKey {
            assert!(!put(&mut table, key, 2, 1.0));
        }
        assert!(put(&mut table, 20_000, 2, 2.0));
        assert!(put(&mut table, 20_001, 3, 2.0));
        assert_eq!(table.len(), MAX_UPLOADS);
        let has = |key| table.uploads.contains_key(&key);
        assert_eq!([1, 2, 3, 4, 20_000, 20_001].map(has), [true, false, false, true, true, true]);
        assert!(!put(&mut table, 20_001, 3, 3.0), "it is there already");
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! The disks of stores that have one: opened as the manager hands them over, driven by a thread each, shown by counters, told
//! of in the log. A disk that can't be opened, or fails later, costs hits: the store goes on in its memory.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use base::{Clock, clock};
use cli::handoff::{DiskStart, StoreStart};
use disk::{Bond, DeviceOptions, Disk, DiskCounts, DiskStoreOptions, Driver, FileDevice, Others, Stage};
use parking_lot::Mutex;
use storage::Home;
use sys::blockfile::Direct;
use sys::pages::PagePool;
use tables::counters::{DiskSet, Smf};
use tables::stores::{Checks, DirectIo};

use crate::journal::PastJournal;

/// Between two looks at a disk: what waits to be written is written after two of them.
const TICK: Duration = Duration::from_millis(250);
const OPENING_TICK: Duration = Duration::from_millis(20);
/// Between two lines about a start that takes long.
const TELL_PROGRESS: Duration = Duration::from_secs(1);
/// Between two lines about a disk that fails.
const TELL_TROUBLE: Duration = Duration::from_secs(60);
/// Memory that the system keeps for operations in progress: one part in so many of the front.
const POOL_SHARE: u64 = 8;
const POOL: std::ops::RangeInclusive<u64> = 16 << 20..=32 << 20;

#[derive(Default)]
pub struct Disks {
    all: Vec<Arc<OpenDisk>>,
    lock: Arc<WriteLock>,
}

/// Lock of the one worker that writes to disks. The kernel keeps the lock of a worker that has died until the last of
/// its writes has ended.
#[derive(Default)]
struct WriteLock {
    /// `None`: nobody else can write.
    file: Option<Arc<File>>,
    /// This worker would write.
    is_wanted: AtomicBool,
}

impl WriteLock {
    fn open(number: Option<i32>) -> WriteLock {
        let file = number.map(|number| sys::fd::inherit(number).map(|fd| Arc::new(File::from(fd))));
        let file = file.transpose().inspect_err(|error| report_line!("the lock of disks: {error}"));
        WriteLock { file: file.unwrap_or_default(), is_wanted: AtomicBool::new(false) }
    }

    fn want(&self) {
        self.is_wanted.store(true, Relaxed);
    }

    /// True if this worker has it. It takes the lock if it wants it and nobody has it.
    fn is_held(&self) -> bool {
        self.is_wanted.load(Relaxed) && self.file.as_ref().is_none_or(|file| file.try_lock().is_ok())
    }

    fn give_up(&self) {
        self.is_wanted.store(false, Relaxed);
        self.file.iter().for_each(|file| _ = file.unlock());
    }
}

struct OpenDisk {
    store: String,
    disk: Disk,
    device: Arc<FileDevice>,
    driver: Mutex<Option<Driver>>,
    shown: DiskCounterSets,
    index_limit: u64,
    is_kept: bool,
    /// Number of the store's life, from the manager; and what this process has drawn for it.
    life: u64,
    drawn: u64,
}

#[derive(Clone, Copy)]
pub struct DiskCounterSets {
    pub smf: &'static Smf,
    pub disk: &'static DiskSet,
}

impl Disks {
    /// Opens what the manager hands over; `counters` has those of a store by its name. Nothing is read or written yet; beside
    /// a worker that has them nothing is before [`Disks::take_over`].
    pub fn open<'a>(
        stores: impl Iterator<Item = &'a StoreStart>,
        clock: &Clock,
        past: Option<&PastJournal>,
        has_former: bool,
        write_lock: Option<i32>,
        mut counters: impl FnMut(&str) -> DiskCounterSets,
    ) -> Disks {
        let lock = WriteLock::open(write_lock);
        if !has_former {
            lock.want();
        }
        let others = match has_former {
            true => Others::Present,
            false if lock.is_held() => Others::Nobody,
            false => Others::Ended,
        };
        let mut disks = Vec::new();
        for store in stores {
            let Some(disk) = &store.disk else { continue };
            let options = DiskStoreOptions { others, ..disk_options(disk, clock, past) };
            match OpenDisk::open(store, disk, options, lock.file.clone(), counters(&store.name)) {
                Ok(open) => disks.push(Arc::new(open)),
                Err(why) => report_line!("storage.{}: {why}: using memory only", store.name),
            }
        }
        Disks { all: disks, lock: Arc::new(lock) }
    }

    pub fn home_of(&self, store: &str) -> Option<Arc<dyn Home>> {
        let open = self.all.iter().find(|open| open.store == store)?;
        Some(Arc::new(open.disk.clone()))
    }

    /// Has each of them opened and driven by a thread of its own.
    pub fn start(&self, clock: &Clock) {
        for open in &self.all {
            let Some(driver) = open.driver.lock().take() else { continue };
            let (own, clock, lock) = (open.clone(), clock.clone(), self.lock.clone());
            let thread = std::thread::Builder::new().name("lacquer-disk".to_owned());
            let spawned = thread.spawn(move || rt::run(own.drive(driver, &clock, &lock)));
            if let Err(error) = spawned {
                report_line!("storage.{}: can't start a thread for its disk: {error}: using memory only", open.store);
            }
        }
    }

    /// Writes nothing more, so that another worker may take over; what isn't done within `limit` is taken back.
    ///
    /// # Errors
    /// Whose disk takes too long.
    pub fn hand_over(&self, limit: Duration) -> Result<(), String> {
        let until = clock::now() + limit;
        for open in &self.all {
            let left = until.saturating_duration_since(clock::now()).max(Duration::from_millis(1));
            if !matches!(rt::run(rt::timeout(left, open.hand_over())), Ok(Ok(()))) {
                self.take_back();
                return Err(format!("storage.{}: its disk hasn't been read yet, or is too slow", open.store));
            }
        }
        self.lock.give_up();
        Ok(())
    }

    /// Goes on after that: the other worker is gone, and has written nothing.
    pub fn take_back(&self) {
        self.lock.want();
        let _ = self.lock.is_held();
        self.all.iter().for_each(|open| open.disk.take_back());
    }

    /// Takes over what another worker has handed over, with what its journal says. After that was replayed: a purge spares
    /// what is newer only as long as nothing is read in.
    pub fn take_over(&self, past: Option<&PastJournal>) {
        for open in &self.all {
            open.disk.take_over(Some(bond(past, open.life, open.drawn)), past.map_or(0, |past| past.least_ban_seq));
        }
    }

    /// Waits until all that was taken over can be found, for `limit` at most: what can't be is a miss.
    pub fn read_in(&self, limit: Duration) {
        let until = clock::now() + limit;
        for open in &self.all {
            let left = until.saturating_duration_since(clock::now());
            let _ = rt::run(rt::timeout(left, open.disk.read_in()));
        }
    }

    /// No other worker is to write any more: this one does as soon as nothing of others can arrive.
    pub fn want_to_write(&self) {
        self.lock.want();
    }

    /// No other worker reads any more.
    pub fn own(&self) {
        self.all.iter().for_each(|open| open.disk.own());
    }

    /// Brings to the disks what isn't there yet, so that the next start finds it at once; a disk that takes longer than
    /// `limit` is left as after a crash.
    pub fn close(&self, limit: Duration) {
        let until = clock::now() + limit;
        for open in self.all.iter().filter(|open| open.disk.progress().stage == Stage::Ready) {
            let left = until.saturating_duration_since(clock::now()).max(Duration::from_millis(1));
            let _ = rt::run(rt::timeout(left, open.disk.close()));
        }
    }

    /// All, with the store's name; and the memory that the kernel holds for operations.
    pub fn usage(&self) -> impl Iterator<Item = (&str, disk::DiskUsage, u64)> {
        self.all.iter().map(|open| (open.store.as_str(), open.disk.usage(), open.device.locked_bytes()))
    }
}

impl OpenDisk {
    fn open(
        store: &StoreStart,
        start: &DiskStart,
        options: DiskStoreOptions,
        held: Option<Arc<File>>,
        shown: DiskCounterSets,
    ) -> Result<OpenDisk, String> {
        let wanted = &start.options;
        let number = store.fd.ok_or("the manager has no file for it")?;
        let file = File::from(sys::fd::inherit(number).map_err(|error| error.to_string())?);
        let front = wanted.front_bytes.unwrap_or_default();
        let pool = PagePool::new((front / POOL_SHARE).clamp(*POOL.start(), *POOL.end()) as usize).ok();
        let device = DeviceOptions {
            bytes: store.size,
            // The manager has tried, at a time when nobody waited for a worker.
            direct: if wanted.direct == DirectIo::Off { Direct::Never } else { Direct::AsFound },
            pool: pool.clone(),
            held,
            ..DeviceOptions::default()
        };
        let device = Arc::new(FileDevice::from_file(file, &device).map_err(|why| format!("its file {why}"))?);
        for note in device.notes() {
            report_line!("storage.{}: {note}", store.name);
        }
        let (index_limit, is_kept) = (options.index_bytes, wanted.keep);
        let (life, drawn) = (start.life, options.drawn);
        // What is read ahead leaves room for records and for what is written.
        let read_ahead_bytes = pool.as_ref().map_or(options.read_ahead_bytes, |pool| pool.bytes() as u64 / 4 * 3);
        let (disk, driver) = Disk::open(device.clone(), DiskStoreOptions { pool, read_ahead_bytes, ..options });
        let driver = Mutex::new(Some(driver));
        Ok(OpenDisk { store: store.name.clone(), disk, device, driver, shown, index_limit, is_kept, life, drawn })
    }

    /// Ends when nothing of this worker's is written any more, not even what nobody waits for as it has stalled: it may still
    /// arrive where the next worker has written.
    async fn hand_over(&self) {
        self.disk.hand_over().await;
        while self.device.counts().writes_in_progress > 0 {
            rt::sleep(OPENING_TICK).await;
        }
    }

    async fn drive(self: Arc<Self>, driver: Driver, clock: &Clock, lock: &WriteLock) {
        rt::spawn(driver);
        let mut story = Story::new(self.is_kept);
        let mut may_write = false;
        loop {
            if !may_write && lock.is_held() {
                may_write = true;
                self.disk.allow_writing();
            }
            self.disk.tick(seconds(clock));
            self.show();
            for line in story.go_on(&self.disk, clock::now()) {
                report_line!("storage.{}: {line}", self.store);
            }
            rt::sleep(if story.is_opened { TICK } else { OPENING_TICK }).await;
        }
    }

    fn show(&self) {
        let (usage, progress, counts) = (self.disk.usage(), self.disk.progress(), self.disk.counts());
        let DiskCounterSets { smf, disk } = self.shown;
        let failed = counts.puts_slow + counts.puts_no_segment + counts.puts_too_large + counts.puts_failed;
        for (counter, value) in [
            (&smf.c_req, counts.puts + failed - counts.puts_failed),
            (&smf.c_fail, failed),
            (&smf.c_bytes, counts.bytes_written),
            (&smf.c_freed, counts.segments_reclaimed * usage.segment_bytes),
            (&smf.g_alloc, usage.objects),
            (&smf.g_bytes, usage.total_bytes - usage.free_bytes),
            (&smf.g_space, usage.free_bytes),
            (&smf.g_smf, usage.total_bytes / usage.segment_bytes.max(1)),
            (&smf.g_smf_large, usage.free_bytes / usage.segment_bytes.max(1)),
            (&disk.ready, u64::from(progress.stage == Stage::Ready && progress.may_store)),
            (&disk.segments_loaded, progress.segments_loaded),
            (&disk.segments_found, progress.segments),
            (&disk.objects, usage.objects),
            (&disk.index_bytes, usage.index_bytes),
            (&disk.index_limit, self.index_limit),
            (&disk.buffer_bytes, usage.buffer_bytes),
            (&disk.in_progress, self.device.counts().in_progress),
        ] {
            counter.set(value);
        }
        show_counts(disk, &counts);
    }
}

fn show_counts(set: &DiskSet, counts: &DiskCounts) {
    macro_rules! show {
        ($($name:ident)+) => { $(set.$name.set(counts.$name);)+ };
    }
    show!(loads loads_mismatched loads_gone reads_refused bytes_read puts puts_slow puts_no_segment puts_too_large);
    show!(puts_overtaken puts_failed index_full bytes_written removed reclaimed moved segments_reclaimed read_errors);
    show!(write_errors sync_errors stalls checksum_errors segments_quarantined segments_scanned segments_unjudged);
}

struct Story {
    is_kept: bool,
    began: Instant,
    told: Instant,
    /// Segments that were read when that was told.
    told_loaded: u64,
    is_opened: bool,
    troubles: [u64; 6],
    told_trouble: Option<Instant>,
}

impl Story {
    fn new(is_kept: bool) -> Story {
        let now = clock::now();
        Story { is_kept, began: now, told: now, told_loaded: 0, is_opened: false, troubles: [0; 6], told_trouble: None }
    }

    fn go_on(&mut self, disk: &Disk, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.is_opened {
            lines.extend(self.opening(disk.progress(), now));
            if self.is_opened && self.is_kept && disk.was_unknown() {
                lines.push("it begins empty: its journal knows nothing of what was there".to_owned());
            }
        }
        lines.extend(self.trouble(&disk.counts(), now));
        lines
    }

    fn opening(&mut self, progress: disk::DiskProgress, now: Instant) -> Option<String> {
        let disk::DiskProgress { stage, segments_loaded, segments, objects, .. } = progress;
        match stage {
            Stage::Waiting => {
                (self.began, self.told) = (now, now);
                None
            }
            Stage::Opening | Stage::Recovering if now - self.told < TELL_PROGRESS => None,
            // It waits: for others that may still write, or for a device that fails, and that is told of elsewhere.
            Stage::Opening | Stage::Recovering if segments_loaded == self.told_loaded => None,
            Stage::Opening | Stage::Recovering => {
                (self.told, self.told_loaded) = (now, segments_loaded);
                Some(format!("{segments_loaded} of {segments} segments read, {objects} objects"))
            }
            Stage::Ready => {
                self.is_opened = true;
                let time = now - self.began;
                (objects > 0).then(|| format!("{objects} objects on its disk, read in {:.1} s", time.as_secs_f64()))
            }
            Stage::Refused(why) => {
                self.is_opened = true;
                Some(format!("its disk can't be used: {why}: using memory only"))
            }
        }
    }

    fn trouble(&mut self, counts: &DiskCounts, now: Instant) -> Option<String> {
        let DiskCounts {
            read_errors, write_errors, sync_errors, stalls, checksum_errors, segments_quarantined, ..
        } = *counts;
        let troubles = [read_errors, write_errors, sync_errors, stalls, checksum_errors, segments_quarantined];
        let is_soon = self.told_trouble.is_some_and(|told| now - told < TELL_TROUBLE);
        if troubles == self.troubles || is_soon {
            return None;
        }
        (self.troubles, self.told_trouble) = (troubles, Some(now));
        Some(format!(
            "its disk fails: {read_errors} reads, {write_errors} writes and {sync_errors} syncs failed, {stalls} took too long, \
             {checksum_errors} checksums were wrong; {segments_quarantined} segments aren't written any more"
        ))
    }
}

/// Options for opening a store on a disk, with what the journal knows of it.
fn disk_options(start: &DiskStart, clock: &Clock, past: Option<&PastJournal>) -> DiskStoreOptions {
    let wanted = &start.options;
    let drawn = RandomState::new().hash_one(clock.real().0.to_bits());
    DiskStoreOptions {
        index_bytes: wanted.index_bytes.unwrap_or(u64::MAX),
        journal: Some(bond(past, start.life, drawn)),
        least_ban_seq: past.map_or(0, |past| past.least_ban_seq),
        replaces: true,
        checks_bodies: wanted.checks == Checks::All,
        ..DiskStoreOptions::new(seconds(clock), drawn)
    }
}

/// The number of a store's journal. What no journal knows begins empty.
fn bond(past: Option<&PastJournal>, life: u64, drawn: u64) -> Bond {
    past.map_or_else(|| Bond { known: Vec::new(), own: drawn }, |past| past.bond(life))
}

fn seconds(clock: &Clock) -> u32 {
    clock.real().0 as u32
}

#[cfg(test)]
mod tests {
    use disk::{DiskOpenError, DiskProgress};

    use super::*;

    #[test]
    fn a_start_that_takes_long_is_told_each_second() {
        let mut story = Story::new(true);
        let at = |millis| story_began() + Duration::from_millis(millis);
        story.began = at(0);
        story.told = at(0);
        let progress =
            |stage, segments_loaded| DiskProgress { stage, segments_loaded, segments: 9, objects: 5, may_store: true };
        assert_eq!(story.opening(progress(Stage::Opening, 0), at(900)), None);
        let said = story.opening(progress(Stage::Recovering, 3), at(1000)).unwrap();
        assert_eq!(said, "3 of 9 segments read, 5 objects");
        assert_eq!(story.opening(progress(Stage::Recovering, 4), at(1900)), None);
        assert!(story.opening(progress(Stage::Recovering, 4), at(2000)).is_some());
        // Nothing is read any more, and it isn't ready yet.
        assert_eq!(story.opening(progress(Stage::Recovering, 4), at(9000)), None);
        let said = story.opening(progress(Stage::Ready, 9), at(9100)).unwrap();
        assert_eq!((said.as_str(), story.is_opened), ("5 objects on its disk, read in 9.1 s", true));
    }

    fn story_began() -> Instant {
        static BEGAN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *BEGAN.get_or_init(clock::now)
    }

    #[test]
    fn an_empty_disk_is_nothing_to_tell_and_a_refused_one_is() {
        let mut story = Story::new(true);
        let now = clock::now();
        let progress = |stage| DiskProgress { stage, segments_loaded: 0, segments: 0, objects: 0, may_store: true };
        assert_eq!(story.opening(progress(Stage::Ready), now), None);
        let said = story.opening(progress(Stage::Refused(DiskOpenError::Damaged)), now).unwrap();
        assert!(said.ends_with("superblock is damaged: using memory only"), "{said}");
    }

    #[test]
    fn trouble_is_told_at_once_and_then_once_a_minute() {
        let mut story = Story::new(true);
        let now = clock::now();
        let counts = |read_errors| DiskCounts { read_errors, ..DiskCounts::default() };
        assert_eq!(story.trouble(&counts(0), now), None);
        assert!(story.trouble(&counts(1), now).unwrap().starts_with("its disk fails: 1 reads, "));
        assert_eq!(story.trouble(&counts(2), now + Duration::from_secs(59)), None);
        assert!(story.trouble(&counts(2), now + Duration::from_secs(60)).is_some());
        assert_eq!(story.trouble(&counts(2), now + Duration::from_secs(200)), None);
    }
}

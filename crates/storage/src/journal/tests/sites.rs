// SPDX-License-Identifier: BSD-2-Clause
//! One call to the medium fails: each of a journal's life in turn, and having done nothing, half or all of it. Whatever was
//! acknowledged is there after a kill and after a power cut, or the journal says that it can't be believed.

use super::*;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Done {
    Nothing,
    Half,
    All,
}

// Fails the n-th call.
#[derive(Clone, Debug)]
struct Failing {
    disk: Disk,
    calls: Arc<Mutex<usize>>,
    nth: usize,
    done: Done,
}

impl Failing {
    fn is_due(&self) -> bool {
        let mut calls = self.calls.lock();
        *calls += 1;
        *calls == self.nth
    }

    // Does `work` with as many bytes as get through.
    fn meet(&self, bytes: usize, work: impl FnOnce(usize) -> io::Result<()>) -> io::Result<()> {
        if !self.is_due() {
            return work(bytes);
        }
        match self.done {
            Done::Nothing => {}
            Done::Half => work(bytes / 2)?,
            Done::All => work(bytes)?,
        }
        Err(io::Error::from_raw_os_error(5))
    }
}

impl Medium for Failing {
    fn len(&self) -> io::Result<u64> {
        self.meet(0, |_| Ok(())).and_then(|()| self.disk.len())
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.meet(into.len(), |bytes| self.disk.read_at(at, &mut into[..bytes]))
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.meet(bytes.len(), |some| self.disk.write_at(at, &bytes[..some]))
    }

    fn clear(&self, at: u64, end: u64) -> io::Result<()> {
        self.meet(end.saturating_sub(at) as usize, |bytes| self.disk.clear(at, at + bytes as u64))
    }

    fn sync(&self) -> io::Result<()> {
        if self.is_due() {
            self.disk.0.lock().lose_track();
            return Err(io::Error::from_raw_os_error(5));
        }
        self.disk.sync()
    }
}

// A journal, and what its callers know of it.
struct Life {
    medium: Failing,
    journal: Journal,
    // Entries that are still needed, and how many of them were acknowledged.
    all: Vec<JournalEntry>,
    acknowledged: usize,
    // Entries that need not be there any more.
    needless: Vec<JournalEntry>,
}

impl Life {
    fn write(&mut self, seq: u64) {
        self.all.push(ban(seq));
        if self.journal.commit(self.journal.append(&ban(seq))).is_ok() {
            self.acknowledged = self.all.len();
        }
        self.check("a write");
    }

    fn replace(&mut self, from: usize, meanwhile: u64) {
        let Some(cut) = self.journal.cut() else { return };
        let needed = self.all[from..].to_vec();
        self.all.push(ban(meanwhile));
        let ticket = self.journal.append(&ban(meanwhile));
        let _ = cut.finish(&needed);
        self.needless.extend(self.all.drain(..from));
        self.acknowledged -= from;
        if self.journal.is_stable(ticket) {
            self.acknowledged = self.all.len();
        }
        self.check("a new log");
    }

    // Another process takes over, writes, and is gone again.
    fn hand_over(&mut self, seq: u64) {
        let _ = self.journal.hand_over(Box::new(Next::default()));
        self.check("a handover");
        if let Ok((other, _)) = Journal::open(self.medium.clone()) {
            self.all.push(ban(seq));
            if other.commit(other.append(&ban(seq))).is_ok() {
                self.acknowledged = self.all.len();
            }
        }
        self.check("a successor");
        let _ = self.journal.take_back();
        self.replace(0, seq + 1);
    }

    // A restart of the process. A journal that can't be read for once is read the next time.
    fn reopen(&mut self) -> bool {
        let opened = Journal::open(self.medium.clone());
        self.check("an open");
        match opened.or_else(|_| Journal::open(self.medium.clone())) {
            Ok((journal, _)) => {
                self.journal = journal;
                self.all = self.needed(&self.medium.disk.bytes()).expect("it was just read");
                self.acknowledged = self.all.len();
                true
            }
            Err(_) => false,
        }
    }

    // The next process finds this; `None` if it believes nothing.
    fn needed(&self, bytes: &[u8]) -> Option<Vec<JournalEntry>> {
        let found = reopen(bytes).ok()?;
        Some(found.into_iter().filter(|entry| !self.needless.contains(entry)).collect())
    }

    fn check(&self, what: &str) {
        let state = self.medium.disk.0.lock().clone();
        let mut drawn = [1u8, 2, 3, 200, 2, 0, 3, 90, 2, 2].into_iter().cycle();
        let ends = [
            ("a kill", state.bytes.clone()),
            ("a power cut that takes everything", state.cut_power(|| 2)),
            ("a power cut", state.cut_power(|| drawn.next().unwrap())),
        ];
        for (end, bytes) in ends {
            if let Some(found) = self.needed(&bytes) {
                let ok = found.starts_with(&self.all[..self.acknowledged]);
                assert!(
                    ok,
                    "{end} after {what}: {found:?} lacks of {:?} ({} acknowledged)",
                    self.all, self.acknowledged
                );
            }
        }
    }
}

// Runs a whole life; false if the fault wasn't met any more.
fn live(nth: usize, done: Done) -> bool {
    let medium = Failing { disk: Disk::default(), calls: Arc::default(), nth, done };
    let formatted = Journal::format(medium.clone()).or_else(|_| Journal::format(medium.clone()));
    let journal = formatted.expect("it fails once only");
    let mut life = Life { medium: medium.clone(), journal, all: Vec::new(), acknowledged: 0, needless: Vec::new() };
    (1..4).for_each(|seq| life.write(seq));
    life.replace(1, 4);
    life.write(5);
    life.replace(2, 6);
    life.write(7);
    life.hand_over(8);
    life.write(10);
    if life.reopen() {
        life.write(11);
        life.replace(0, 12);
        life.write(13);
    }
    *medium.calls.lock() >= nth
}

#[test]
fn a_call_that_fails_takes_nothing_acknowledged() {
    for done in [Done::Nothing, Done::Half, Done::All] {
        let count = (1..).take_while(|&nth| live(nth, done)).count();
        assert!(count > 50, "{done:?}: {count} calls");
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! The manager's set of shared memory: what tools read to find the CLI, the identity, the MGT counters, and, while a
//! worker lives, the Params and Panic segments.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use shm::vsc::{CounterMaker, CounterSet};
use shm::vsm::{self, Owner, Segment, SegmentSet, SetOwner, SharedSegment};
use tables::Compat;
use tables::counters::{Counter, CounterFields, Elem, Mgt};

use crate::jail::Jail;
use crate::workdir;

/// Bytes of the Params segment; no tool reads it.
const PARAMS_BYTES: usize = 672;
const PANIC_BYTES: usize = 64 << 10;

pub const WORKER_DIR: &str = SetOwner::Worker.dir_name();

#[derive(Debug)]
pub struct ManagerMemory {
    set: SegmentSet,
    /// Kept so that they stay published.
    arguments: Vec<Segment>,
    pub counters: CounterSet<Mgt>,
    child: Option<ChildMemory>,
}

/// Segments that exist while a worker does. The order matters: fields drop in it, and the index says Panic went first.
#[derive(Debug)]
struct ChildMemory {
    panic: LastWords,
    #[expect(dead_code, reason = "kept so that it stays published")]
    params: Option<Segment>,
}

#[derive(Debug)]
enum LastWords {
    /// A segment of this set.
    Published(Segment),
    /// One of a set before this one, which the worker has open.
    Inherited(SharedSegment, OwnedFd),
}

fn owner(ids: Option<(u32, u32)>) -> Option<Owner> {
    ids.map(|(uid, gid)| Owner { uid, gid })
}

/// Counters that the manager sets anew each second, or whenever it looks at certificates; an upgrade carries all others over.
const RECOMPUTED: [&str; 5] = ["uptime", "certs_loaded", "certs_expired", "certs_ending", "certs_next_end"];

impl ManagerMemory {
    pub fn create(jail: &Jail, identity: &str, compat: Compat) -> io::Result<ManagerMemory> {
        let workdir = Path::new(workdir::HERE);
        jail.privileged(|| {
            let _ = vsm::remove(workdir, SetOwner::Worker);
            let _ = vsm::remove_set_aside(workdir, SetOwner::Worker);
        });
        // Tools would take a part of it for a running server's.
        let remove = || jail.privileged(|| _ = vsm::remove(workdir, SetOwner::Manager));
        ManagerMemory::create_beside(jail, identity, compat).inspect_err(|_| remove())
    }

    /// The same as [`ManagerMemory::create`], without touching a running worker's segments.
    pub fn create_beside(jail: &Jail, identity: &str, compat: Compat) -> io::Result<ManagerMemory> {
        let workdir = Path::new(workdir::HERE);
        let set = jail.privileged(|| {
            SegmentSet::create(workdir, SetOwner::Manager, std::process::id(), owner(jail.manager_ids()))
        })?;
        let identity = set.put("Arg", "-i", &with_nul(identity))?;
        let compat = set.put("Arg", "--compat", &with_nul(compat.word()))?;
        let counters = CounterMaker::new(&set).add::<Mgt>("MGT")?;
        Ok(ManagerMemory { set, arguments: vec![identity, compat], counters, child: None })
    }

    /// Publishes an argument: `-T` (a line for each address) or `-S` (the secret's path).
    pub fn publish(&mut self, option: &str, value: &str) -> io::Result<()> {
        self.arguments.push(self.set.put("Arg", option, &with_nul(value))?);
        Ok(())
    }

    /// Makes the worker's directory anew, and the Params and Panic segments; gives the Panic segment's file.
    pub fn child_new(&mut self, jail: &Jail) -> io::Result<OwnedFd> {
        jail.privileged(|| {
            vsm::set_aside(Path::new(workdir::HERE), SetOwner::Worker)?;
            workdir::make_worker_dir(&Path::new(workdir::HERE).join(SetOwner::Worker.dir_name()), jail)
        })?;
        let mut params = self.set.prepare("Params", "", PARAMS_BYTES)?;
        params.publish()?;
        let mut panic = self.set.prepare("Panic", "", PANIC_BYTES)?;
        panic.publish()?;
        let file = panic.open_file()?;
        self.child = Some(ChildMemory { panic: LastWords::Published(panic), params: Some(params) });
        Ok(file)
    }

    pub fn panic_text(&self) -> Vec<u8> {
        let read = |child: &ChildMemory| match &child.panic {
            LastWords::Published(segment) => segment.read_text(),
            LastWords::Inherited(memory, _) => memory.read_text(),
        };
        self.child.as_ref().map(read).unwrap_or_default()
    }

    pub fn panic_file(&self) -> io::Result<OwnedFd> {
        match self.child.as_ref().map(|child| &child.panic) {
            Some(LastWords::Published(segment)) => segment.open_file(),
            Some(LastWords::Inherited(_, file)) => sys::fd::duplicate(file),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub fn values(&self) -> Vec<(String, u64)> {
        self.carried().map(|(name, counter)| (name.to_owned(), counter.get())).collect()
    }

    pub fn set_values(&self, values: &[(String, u64)]) {
        for (name, counter) in self.carried() {
            if let Some((_, value)) = values.iter().find(|(known, _)| known == name) {
                counter.set(*value);
            }
        }
    }

    fn carried(&self) -> impl Iterator<Item = (&'static str, &Counter)> {
        let found = |elem: &'static Elem| self.counters.by_name(elem.name).map(|counter| (elem.name, counter));
        Mgt::ELEMS.iter().filter(|elem| !RECOMPUTED.contains(&elem.name)).filter_map(found)
    }

    /// A worker that had its memory before this program began.
    pub fn child_inherited(&mut self, panic: OwnedFd) -> io::Result<()> {
        let memory = SharedSegment::from_fd(sys::fd::duplicate(&panic)?)?;
        self.child = Some(ChildMemory { panic: LastWords::Inherited(memory, panic), params: None });
        Ok(())
    }

    /// The worker is gone: so are its segments, and its directory as far as anybody sees, unless tests want to look at it.
    /// [`ManagerMemory::tidy`] ends it.
    pub fn child_gone(&mut self, jail: &Jail, keep: bool) {
        if !keep {
            let _ = jail.privileged(|| vsm::set_aside(Path::new(workdir::HERE), SetOwner::Worker));
        }
        self.child = None;
    }

    /// Removes directories that were set aside. It may take as long as a disk likes, so nobody should be waiting for a worker.
    pub fn tidy(&self, jail: &Jail) {
        let _ = jail.privileged(|| vsm::remove_set_aside(Path::new(workdir::HERE), SetOwner::Worker));
    }

    /// The end: readers see that no manager runs.
    pub fn close(&mut self, jail: &Jail, keep: bool) {
        self.set.close();
        if !keep {
            jail.privileged(|| {
                let _ = vsm::remove(Path::new(workdir::HERE), SetOwner::Manager);
                let _ = vsm::remove(Path::new(workdir::HERE), SetOwner::Worker);
            });
            self.tidy(jail);
        }
    }
}

fn with_nul(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

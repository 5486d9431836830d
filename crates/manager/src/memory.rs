// SPDX-License-Identifier: BSD-2-Clause
//! The manager's set of shared memory: what tools read to find the CLI, the identity, the MGT counters, and, while a
//! worker lives, the Params and Panic segments.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use shm::vsc::{CounterSet, Stats};
use shm::vsm::{self, Home, Owner, Segment, SegmentSet};
use tables::counters::Mgt;

use crate::jail::Jail;
use crate::workdir;

/// Bytes of the Params segment; no tool reads it.
const PARAMS_BYTES: usize = 672;
/// Bytes of the Panic segment.
const PANIC_BYTES: usize = 64 << 10;

/// The set, as long as the manager lives.
#[derive(Debug)]
pub struct Memory {
    set: SegmentSet,
    /// Kept so that they stay published.
    arguments: Vec<Segment>,
    /// MGT
    pub counters: CounterSet<Mgt>,
    child: Option<ChildMemory>,
}

/// What exists while a worker does. The order matters: fields drop in it, and the index says Panic went first.
#[derive(Debug)]
struct ChildMemory {
    panic: Segment,
    #[expect(dead_code, reason = "kept so that it stays published")]
    params: Segment,
}

fn owner(ids: Option<(u32, u32)>) -> Option<Owner> {
    ids.map(|(uid, gid)| Owner { uid, gid })
}

impl Memory {
    /// Makes the set with the identity and the MGT counters.
    pub fn create(jail: &Jail, identity: &str) -> io::Result<Memory> {
        let workdir = Path::new(workdir::HERE);
        let set = jail.privileged(|| {
            let _ = vsm::remove(workdir, Home::Worker);
            let _ = vsm::remove_set_aside(workdir, Home::Worker);
            SegmentSet::create(workdir, Home::Manager, std::process::id(), owner(jail.manager_ids()))
        })?;
        let identity = set.put("Arg", "-i", &with_nul(identity))?;
        let counters = Stats::new(&set).add::<Mgt>("MGT")?;
        Ok(Memory { set, arguments: vec![identity], counters, child: None })
    }

    /// Publishes an argument: `-T` (a line for each address) or `-S` (the secret's path).
    pub fn publish(&mut self, option: &str, value: &str) -> io::Result<()> {
        self.arguments.push(self.set.put("Arg", option, &with_nul(value))?);
        Ok(())
    }

    /// Makes the worker's directory anew, and the Params and Panic segments; gives the Panic segment's file.
    pub fn child_new(&mut self, jail: &Jail) -> io::Result<OwnedFd> {
        jail.privileged(|| {
            vsm::set_aside(Path::new(workdir::HERE), Home::Worker)?;
            workdir::make_worker_dir(&Path::new(workdir::HERE).join(Home::Worker.dir_name()), jail)
        })?;
        let mut params = self.set.prepare("Params", "", PARAMS_BYTES)?;
        params.publish()?;
        let mut panic = self.set.prepare("Panic", "", PANIC_BYTES)?;
        panic.publish()?;
        let file = panic.open_file()?;
        self.child = Some(ChildMemory { panic, params });
        Ok(file)
    }

    /// What a worker left as its last words; empty when it left none.
    pub fn panic_text(&self) -> Vec<u8> {
        self.child.as_ref().map(|child| child.panic.read_text()).unwrap_or_default()
    }

    /// The worker is gone: so are its segments, and its directory as far as anybody sees, unless tests want to look at it.
    /// [`Memory::tidy`] ends it.
    pub fn child_gone(&mut self, jail: &Jail, keep: bool) {
        if !keep {
            let _ = jail.privileged(|| vsm::set_aside(Path::new(workdir::HERE), Home::Worker));
        }
        self.child = None;
    }

    /// Removes directories that were set aside. It may take as long as a disk likes, so nobody should be waiting for a worker.
    pub fn tidy(&self, jail: &Jail) {
        let _ = jail.privileged(|| vsm::remove_set_aside(Path::new(workdir::HERE), Home::Worker));
    }

    /// The end: readers see that no manager runs.
    pub fn close(&mut self, jail: &Jail, keep: bool) {
        self.set.close();
        if !keep {
            jail.privileged(|| {
                let _ = vsm::remove(Path::new(workdir::HERE), Home::Manager);
                let _ = vsm::remove(Path::new(workdir::HERE), Home::Worker);
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

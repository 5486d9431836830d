// SPDX-License-Identifier: BSD-2-Clause
//! A cache over an arena, and those that come after it: a worker dies by being left as it is while a copy of its arena is
//! opened by the next. Or a cache over a home, which the next one has, too.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use storage::StoreSpec;
use testkit_storage::SimulatedHome;

use super::kit::*;
use crate::*;

pub struct TestLine {
    pub kit: Kit,
    arena: Option<Arc<File>>,
    pub home: Option<SimulatedHome>,
    limit: Option<u64>,
    params: CacheParams,
}

fn specs(arena: Option<&Arc<File>>, home: Option<&SimulatedHome>, limit: Option<u64>) -> Vec<StoreSpec> {
    let mut specs = StoreSpec::in_memory(limit);
    specs[0].arena = arena.cloned();
    if let Some(home) = home {
        specs[0].home = Some(Arc::new(home.clone()));
    }
    specs
}

pub fn unnamed() -> Arc<File> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let name = format!("lacquer-cache-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
    let path = std::env::temp_dir().join(name);
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    Arc::new(file)
}

/// The file as a killed process leaves it, copied without the holes of a long file.
pub fn copy(file: &File) -> Arc<File> {
    let into = unnamed();
    into.set_len(file.metadata().unwrap().len()).unwrap();
    let (mut bytes, mut at) = (vec![0; 1 << 20], 0);
    loop {
        let count = file.read_at(&mut bytes, at).unwrap();
        if count == 0 {
            return into;
        }
        let pages = bytes[..count].chunks(4096).enumerate().filter(|(_, page)| page.iter().any(|&byte| byte != 0));
        pages.for_each(|(n, page)| into.write_all_at(page, at + n as u64 * 4096).unwrap());
        at += count as u64;
    }
}

impl TestLine {
    pub fn new() -> TestLine {
        TestLine::with(Some(8 << 20), CacheParams::default())
    }

    pub fn with(limit: Option<u64>, params: CacheParams) -> TestLine {
        let arena = Some(unnamed());
        let kit = Kit::of(&specs(arena.as_ref(), None, limit), params.clone());
        TestLine { kit, arena, home: None, limit, params }
    }

    pub fn at_home(limit: Option<u64>, params: CacheParams) -> TestLine {
        let home = Some(SimulatedHome::new());
        let kit = Kit::of(&specs(None, home.as_ref(), limit), params.clone());
        TestLine { kit, arena: None, home, limit, params }
    }

    pub fn mortal(limit: Option<u64>, params: CacheParams) -> TestLine {
        TestLine { kit: Kit::with(limit, params.clone()), arena: None, home: None, limit, params }
    }

    pub fn survives(&self) -> bool {
        self.arena.is_some() || self.home.is_some()
    }

    pub fn specs(&self) -> Vec<StoreSpec> {
        specs(self.arena.as_ref(), self.home.as_ref(), self.limit)
    }

    /// The worker that starts if this one dies now. It knows the bans of this one, and has looked for no survivors yet.
    pub fn successor(&self) -> TestLine {
        let arena = self.arena.as_deref().map(copy);
        let specs = specs(arena.as_ref(), self.home.as_ref(), self.limit);
        let kit = Kit::at(self.kit.clock.clone(), &specs, self.params.clone());
        kit.go_on_from(&self.kit);
        kit.cache.shared().bans.take_over(&self.kit.cache.shared().bans);
        TestLine { kit, arena, home: self.home.clone(), limit: self.limit, params: self.params.clone() }
    }

    /// Dies at once, before the next one looks for survivors.
    pub fn dead(self) -> TestLine {
        self.successor()
    }

    /// Dies at once; the next one begins to adopt.
    pub fn die(self) -> TestLine {
        let next = self.dead();
        next.kit.cache.adopt_survivors();
        next
    }

    pub fn adopt_all(&self) {
        while self.kit.cache.adopt_some(1, &mut |_| {}) {}
        assert!(!self.kit.cache.is_adopting());
    }

    pub fn verdicts<const N: usize>(&self, urls: [&str; N]) -> [&'static str; N] {
        urls.map(|url| self.kit.verdict(url))
    }
}

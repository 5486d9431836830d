// SPDX-License-Identifier: BSD-2-Clause
//! The counters `MEMPOOL.*`: what Varnish takes from its pools of memory, and how many of them are in use. Here they are
//! counted by the thread that has them; threads are dealt out to `thread_pools` shares, as Varnish's are to its pools.
//! `LCK.conn_pool` counts the locks of the pools of backend connections.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use engine::bereq::Bereq;
use engine::current::TransactionKind;
use engine::{Req, Sess};
use shm::vsc::{CounterMaker, CounterSet};
use tables::counters::{Lck, Mempool};

use crate::watchdog::ThreadHandle;

pub struct WorkerPools {
    req: Vec<CounterSet<Mempool>>,
    sess: Vec<CounterSet<Mempool>>,
    busyobj: CounterSet<Mempool>,
    conn_pool: CounterSet<Lck>,
}

impl WorkerPools {
    /// Publishes them, for that many shares.
    pub fn new(stats: &CounterMaker, shares: u32) -> io::Result<WorkerPools> {
        let sized = |ident: &str, bytes: usize| {
            let set = stats.add::<Mempool>(ident)?;
            set.sz_wanted.set(bytes as u64);
            set.sz_actual.set(bytes as u64);
            Ok::<_, io::Error>(set)
        };
        Ok(WorkerPools {
            req: (0..shares).map(|n| sized(&format!("MEMPOOL.req{n}"), Req::BYTES)).collect::<Result<_, _>>()?,
            sess: (0..shares)
                .map(|n| sized(&format!("MEMPOOL.sess{n}"), size_of::<Sess>()))
                .collect::<Result<_, _>>()?,
            conn_pool: stats.add::<Lck>("LCK.conn_pool")?,
            busyobj: sized("MEMPOOL.busyobj", Bereq::BYTES)?,
        })
    }

    pub fn show(&self, threads: &[ThreadHandle]) {
        for (sets, what) in [(&self.req[..], TransactionKind::Request), (&self.sess, TransactionKind::Session)] {
            for (share, set) in sets.iter().enumerate() {
                show(set, threads.iter().skip(share).step_by(sets.len()), what);
            }
        }
        show(&self.busyobj, threads.iter(), TransactionKind::Fetch);
        let locks = &backend::LOCKS;
        for (counter, count) in [
            (&self.conn_pool.creat, &locks.made),
            (&self.conn_pool.destroy, &locks.gone),
            (&self.conn_pool.locks, &locks.taken),
        ] {
            counter.set(count.load(Relaxed));
        }
    }
}

fn show<'a>(set: &Mempool, threads: impl Iterator<Item = &'a ThreadHandle>, what: TransactionKind) {
    let (live, begun) = threads.fold((0, 0), |(live, begun), thread| {
        let (more, ever) = thread.work.tally(what);
        (live + more, begun + ever)
    });
    set.live.set(live);
    set.allocs.set(begun);
    set.frees.set(begun - live.min(begun));
}

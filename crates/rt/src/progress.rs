// SPDX-License-Identifier: BSD-2-Clause
//! Whether a runtime makes progress: it is asleep for lack of work, or it answers a ping. Nothing runs on an idle one.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub struct RuntimeProgress {
    is_asleep: AtomicBool,
    turns: AtomicU64,
    ping: Notify,
    /// The file in which the kernel says how long its thread waited for a CPU.
    schedstat: OnceLock<PathBuf>,
}

impl RuntimeProgress {
    pub(crate) fn asleep(&self) {
        self.is_asleep.store(true, Relaxed);
    }

    pub(crate) fn awake(&self) {
        self.is_asleep.store(false, Relaxed);
        self.turn();
    }

    fn turn(&self) {
        // Only its own thread writes it: that needs no locked instruction.
        self.turns.store(self.turns.load(Relaxed) + 1, Relaxed);
    }

    pub(crate) fn on_this_thread(&self) {
        if let Ok(thread) = fs::read_link("/proc/thread-self") {
            self.schedstat.get_or_init(|| PathBuf::from("/proc").join(thread).join("schedstat"));
        }
    }

    /// Answers pings, as one task among the others.
    pub(crate) async fn answer(self: Arc<Self>, settle: fn()) {
        loop {
            self.ping.notified().await;
            settle();
            self.turn();
        }
    }

    /// Time that its thread has waited for a CPU in all; zero when the kernel doesn't say.
    fn waited(&self) -> Duration {
        let text = self.schedstat.get().and_then(|path| fs::read_to_string(path).ok());
        let nanos = text.as_deref().and_then(|text| text.split_ascii_whitespace().nth(1)?.parse().ok());
        Duration::from_nanos(nanos.unwrap_or(0))
    }
}

#[derive(Debug)]
pub struct RuntimeWatch {
    progress: Arc<RuntimeProgress>,
    turns: u64,
    since: Instant,
    waited: Duration,
}

impl RuntimeWatch {
    pub fn new(progress: Arc<RuntimeProgress>, now: Instant) -> Self {
        RuntimeWatch { turns: 0, since: now, waited: progress.waited(), progress }
    }

    /// Time for which the runtime has had work and made no turn. Time in which its thread waited for a CPU doesn't
    /// count.
    pub fn look(&mut self, now: Instant) -> Duration {
        let turns = self.progress.turns.load(Relaxed);
        let is_asleep = self.progress.is_asleep.load(Relaxed);
        if turns != self.turns || is_asleep {
            (self.turns, self.since, self.waited) = (turns, now, self.progress.waited());
        }
        // One that sleeps is left alone: an idle worker shall not wake for its watcher.
        if !is_asleep {
            self.progress.ping.notify_one();
        }
        let stalled = now.saturating_duration_since(self.since);
        if stalled.is_zero() { stalled } else { stalled.saturating_sub(self.progress.waited() - self.waited) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_task_that_blocks_its_thread_is_noticed_and_an_idle_runtime_isnt() {
        let progress = Arc::new(RuntimeProgress::default());
        let (blocked, is_blocked) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let watched = progress.clone();
        let thread = std::thread::spawn(move || {
            crate::run_watched(watched, || {}, async move {
                crate::yield_now().await;
                blocked.send(()).unwrap();
                may_go.recv().unwrap();
                ended.await.unwrap();
            })
        });
        is_blocked.recv().unwrap();
        let start = base::clock::now();
        let mut watch = RuntimeWatch::new(progress.clone(), start);
        watch.look(start);
        let later = start + Duration::from_secs(2);
        assert!(watch.look(later) > Duration::from_secs(1), "blocked");
        go.send(()).unwrap();
        while !progress.is_asleep.load(Relaxed) {
            std::thread::yield_now();
        }
        let turns = progress.turns.load(Relaxed);
        assert_eq!(watch.look(later + Duration::from_secs(2)), Duration::ZERO, "idle");
        assert_eq!(watch.look(later + Duration::from_secs(4)), Duration::ZERO, "idle");
        assert_eq!((progress.turns.load(Relaxed), progress.is_asleep.load(Relaxed)), (turns, true), "isn't woken");
        end.send(()).unwrap();
        thread.join().unwrap().unwrap();
    }
}

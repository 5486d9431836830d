// SPDX-License-Identifier: BSD-2-Clause
//! Helpers that tests and benchmarks of every layer share. This crate depends on none of ours, so that a dev-dependency on
//! it rebuilds nothing. Doubles of our own types are in `testkit-storage`, `testkit-tls`, `testkit-net`, `testkit-vcl` and
//! `testkit-engine`, each just above the crate whose type it stands for.

pub mod recorded;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

pub fn unpark_me() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}

/// Polls a future on this thread, which parks in between, until it is ready.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = unpark_me();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// An empty directory below the system's temporary one, which goes with this value, also when a test fails.
#[derive(Debug)]
pub struct ScratchDir(PathBuf);

impl ScratchDir {
    /// A new directory; its name begins with `lacquer-` and `purpose`.
    ///
    /// # Panics
    /// The directory can't be made.
    pub fn new(purpose: &str) -> ScratchDir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("lacquer-{purpose}-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        ScratchDir(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[test]
    fn a_scratch_directory_goes_with_all_that_is_in_it() {
        let dir = ScratchDir::new("scratch");
        std::fs::write(dir.path().join("file"), "text").expect("room");
        let path = dir.path().to_owned();
        drop(dir);
        assert!(!path.exists());
    }

    #[test]
    fn a_future_that_another_thread_wakes_comes_to_its_end() {
        let mut polls = 0;
        let output = block_on(poll_fn(|cx| {
            polls += 1;
            let waker = cx.waker().clone();
            if polls == 3 {
                return Poll::Ready(polls);
            }
            thread::spawn(move || waker.wake());
            Poll::Pending
        }));
        assert!(output == 3);
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! A file that is read when the VCL is loaded, and looked at again, off the threads that serve, when a request uses it and its interval has passed.
//! The value made of it before serves meanwhile. A file that is malformed or can't be read leaves that value, and the log says why.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Mono, Vxid};
use parking_lot::{Mutex, RwLock};
use shm::vsl::{LogRing, Marker};
use tables::Tag;
use vrt::vmod::VmodCall;

/// Reads a file and makes a value of it; blocks.
pub(crate) type ReadValue<T> = dyn Fn(&Path) -> Result<Arc<T>, String> + Send + Sync;

pub(crate) struct ReloadedFile<T> {
    /// The module, for the log.
    who: &'static str,
    path: PathBuf,
    /// Seconds; 0: the file is read again only when VCL says so.
    interval: f64,
    read: Box<ReadValue<T>>,
    value: RwLock<Arc<T>>,
    due: Mutex<Mono>,
}

impl<T: Send + Sync + 'static> ReloadedFile<T> {
    /// With the value that was made of the file at `now`.
    pub(crate) fn new(
        who: &'static str,
        path: PathBuf,
        interval: f64,
        now: Mono,
        value: Arc<T>,
        read: Box<ReadValue<T>>,
    ) -> Arc<Self> {
        let due = Mutex::new(now.plus(interval));
        Arc::new(ReloadedFile { who, path, interval, read, value: RwLock::new(value), due })
    }

    /// The value, and has the file looked at if it is time. A trial changes nothing.
    pub(crate) fn current(self: &Arc<Self>, call: &mut VmodCall<'_>) -> Arc<T> {
        let now = call.ctx.clock().mono();
        if self.interval > 0.0 && call.ctx.trial().is_none() && self.becomes_due(now) {
            let (file, log) = (self.clone(), call.ctx.log().ring().clone());
            let refused = rt::hand_off({
                let (file, log) = (file.clone(), log.clone());
                move || {
                    file.reload(&log);
                }
            });
            if let Err(refused) = refused {
                file.note(&log, refused.text());
            }
        }
        self.value.read().clone()
    }

    fn becomes_due(&self, now: Mono) -> bool {
        let mut due = self.due.lock();
        let is_due = now.since(*due) >= 0.0;
        if is_due {
            *due = now.plus(self.interval);
        }
        is_due
    }

    /// Reads the file now, and returns whether there is a new value; blocks.
    pub(crate) fn reload(&self, log: &LogRing) -> bool {
        match (self.read)(&self.path) {
            Ok(value) => {
                let old = std::mem::replace(&mut *self.value.write(), value);
                // Freed after the unlock.
                drop(old);
                true
            }
            Err(reason) => {
                self.note(log, &reason);
                false
            }
        }
    }

    fn note(&self, log: &LogRing, reason: &str) {
        let text = format_args!("{}: {}: {reason}", self.who, self.path.display());
        log.write_onef(Tag::Error, Vxid::NONE, Marker::None, text);
    }
}

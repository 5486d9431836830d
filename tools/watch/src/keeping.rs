// SPDX-License-Identifier: BSD-2-Clause
//! History and events that outlive this process, in a memory file that the server hands to each process of `--watch`. The server keeps the
//! file over an upgrade, so the page's charts continue.
//!
//! The file has two halves, which are written alternately. If this process is killed while it writes one, the other one is intact.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use serde_json::{Value, json};

use crate::events::Before;
use crate::state::WatchState;

/// Size of a half in bytes. History takes at most 300 KB, events about 20 KB.
const HALF: u64 = 1 << 20;
/// Number of digits of the length before the text.
const DIGITS: usize = 8;

/// The file in which history and events outlive this process.
#[derive(Debug)]
pub struct Keeping {
    file: File,
    turn: u64,
}

impl Keeping {
    /// Takes over a file that the server has handed to this process.
    ///
    /// # Errors
    /// No descriptor of that number is open.
    pub fn inherit(number: i32) -> Result<Keeping, String> {
        let file = sys::fd::inherit(number).map_err(|e| format!("the file of the history: {e}"))?;
        Ok(Keeping { file: file.into(), turn: 0 })
    }

    pub fn write(&mut self, state: &WatchState, now: u64) -> io::Result<()> {
        let text = json!({
            "at": now, "history": state.history.json(), "events": state.events_json(), "before": state.before.json(),
        })
        .to_string();
        if text.len() as u64 > HALF - DIGITS as u64 {
            return Err(io::Error::other("the history is too long"));
        }
        self.turn += 1;
        let at = self.turn % 2 * HALF;
        self.file.write_all_at(format!("{:0DIGITS$}{text}", text.len()).as_bytes(), at)
    }

    /// Reads the newer intact half into `state`. Parts that can't be read are left out.
    pub fn read(&mut self, state: &mut WatchState, now: u64) {
        let halves = [0, 1].map(|half| (half, self.half(half * HALF).unwrap_or_default()));
        let at = |saved: &Value| saved["at"].as_u64();
        let Some((half, saved)) =
            halves.into_iter().filter(|(_, saved)| at(saved).is_some()).max_by_key(|(_, s)| at(s))
        else {
            return;
        };
        self.turn = half;
        state.history.restore(&saved["history"], now);
        state.restore_events(&saved["events"]);
        state.before = Before::from_json(&saved["before"]);
    }

    fn half(&self, at: u64) -> Option<Value> {
        let mut digits = [0; DIGITS];
        self.file.read_exact_at(&mut digits, at).ok()?;
        let length: u64 = std::str::from_utf8(&digits).ok()?.parse().ok()?;
        let mut text = vec![0; usize::try_from(length.min(HALF)).ok()?];
        self.file.read_exact_at(&mut text, at + DIGITS as u64).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::HistoryPoint;

    fn keeping() -> Keeping {
        Keeping { file: sys::fd::memfd("watch").unwrap(), turn: 0 }
    }

    #[test]
    fn the_next_process_goes_on_where_this_one_ended() {
        let mut keeping = keeping();
        let mut state = WatchState::default();
        state.history.add(HistoryPoint { at: 1000, requests: 7.0, ..HistoryPoint::default() });
        state.tell(1000, "worker", "worker 3 panicked");
        state.before = Before::from_json(&json!({ "worker": 3, "ends": [1, 0, 0, 0, 0], "vcl": "boot" }));
        keeping.write(&state, 1000).unwrap();
        state.history.add(HistoryPoint { at: 1001, requests: 8.0, ..HistoryPoint::default() });
        state.tell(1001, "start", "worker 4 began");
        keeping.write(&state, 1001).unwrap();
        let mut next = WatchState::default();
        keeping.read(&mut next, 1002);
        assert_eq!(next.history.last().map(|p| p.requests), Some(8.0));
        assert_eq!((&next.events, &next.before), (&state.events, &state.before));
        assert_eq!((next.before.worker, next.before.ends), (Some(3), Some([1, 0, 0, 0, 0])));
        // If the process is killed during the next write, the other half is the newest intact one.
        keeping.write(&state, 1003).unwrap();
        keeping.file.write_all_at(b"99", keeping.turn % 2 * HALF + 20).unwrap();
        let mut after = WatchState::default();
        keeping.read(&mut after, 1004);
        assert_eq!(after.events, state.events);
    }

    #[test]
    fn an_empty_or_broken_file_is_no_history() {
        let mut keeping = keeping();
        let mut state = WatchState::default();
        keeping.read(&mut state, 1000);
        keeping.file.write_all_at(b"00000002[]", 0).unwrap();
        keeping.file.write_all_at(b"00000017{\"at\": 7, \"ends\":", HALF).unwrap();
        keeping.read(&mut state, 1000);
        assert_eq!((state.history.last(), state.before.clone()), (None, Before::default()));
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! A process of this program beside the worker: the one of `--watch`, the agent of roll-outs. What it says becomes the manager's own lines. When
//! it dies the next one begins, each time later, and nothing else ends by that. Who it is and what it gets is said by its own module.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use base::clock::Mono;
use sys::process::{Child, Exit};
use sys::signal::SIGKILL;

use crate::fatal::errno_text;
use crate::jail::Jail;
use crate::report::{ReportSeverity, print};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LINE: usize = 2000;
const LINES: usize = 20;

#[derive(Debug)]
pub(crate) struct CompanionProcess {
    child: Child,
    /// Descriptor whose closing ends the process, if it is started so.
    _life: Option<OwnedFd>,
    said: OwnedFd,
    line: Vec<u8>,
    begun: Mono,
}

impl CompanionProcess {
    /// `said` is the other end of its output.
    pub fn new(child: Child, said: OwnedFd, life: Option<OwnedFd>, begun: Mono) -> Self {
        CompanionProcess { child, _life: life, said, line: Vec::new(), begun }
    }
}

/// A process beside the manager, which is started again when it ends.
#[derive(Debug)]
pub(crate) struct Companion {
    name: &'static str,
    /// Limit of the pause. A process that has lived that long is followed as if it were the first that died.
    longest_pause: Duration,
    pause: Duration,
    process: Option<CompanionProcess>,
    restart: Option<Mono>,
    said: Vec<String>,
    /// The lines of the process before, if that failed: they aren't printed again. An address that is taken stays so for long.
    said_before: Vec<String>,
}

impl Companion {
    pub fn new(name: &'static str, longest_pause: Duration) -> Self {
        Companion {
            name,
            longest_pause,
            pause: FIRST_PAUSE,
            process: None,
            restart: None,
            said: Vec::new(),
            said_before: Vec::new(),
        }
    }

    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref().map(|process| process.said.as_fd())
    }

    pub fn due(&self) -> Option<Mono> {
        self.restart
    }

    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// True if a process may begin now. It isn't due any more then.
    pub fn takes_turn(&mut self) -> bool {
        self.restart = None;
        self.process.is_none()
    }

    pub fn begin_with(&mut self, process: io::Result<CompanionProcess>, now: Mono) {
        match process {
            Ok(process) => self.process = Some(process),
            Err(error) => {
                print(ReportSeverity::Error, &format!("{}: not started: {}", self.name, errno_text(&error)));
                self.begin_later(now);
            }
        }
    }

    /// Makes the next process due; returns the pause.
    fn begin_later(&mut self, now: Mono) -> Duration {
        let pause = self.pause;
        self.restart = Some(now + pause);
        self.pause = (pause * 2).min(self.longest_pause);
        pause
    }

    pub fn end(&mut self, jail: &Jail) {
        self.restart = None;
        self.kill(jail);
    }

    fn kill(&mut self, jail: &Jail) -> Option<Exit> {
        let process = self.process.take()?;
        let _ = jail.privileged(|| process.child.kill(SIGKILL));
        process.child.wait().ok()
    }

    /// Handles the process's output and its end. One that ends with the status `hopeless` isn't followed by another.
    pub fn tend(&mut self, jail: &Jail, now: Mono, hopeless: Option<i32>) {
        let Some(process) = &mut self.process else { return };
        let mut buf = [0; 4096];
        match sys::fd::read(&process.said, &mut buf) {
            Ok(n @ 1..) => {
                for byte in &buf[..n] {
                    match byte {
                        b'\n' => {
                            let line = base::text::printable(&String::from_utf8_lossy(&process.line));
                            process.line.clear();
                            if !self.said_before.contains(&line) {
                                print(ReportSeverity::Info, &line);
                            }
                            if self.said.len() < LINES {
                                self.said.push(line);
                            }
                        }
                        _ if process.line.len() < LINE => process.line.push(*byte),
                        _ => {}
                    }
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Ok(0) | Err(_) => self.bury(jail, now, hopeless),
        }
    }

    /// True if the process that has ended failed as the one before did. Remembers its lines.
    fn is_known(&mut self, has_failed: bool) -> bool {
        let said = std::mem::take(&mut self.said);
        let is_known = has_failed && said == self.said_before;
        self.said_before = if has_failed { said } else { Vec::new() };
        is_known
    }

    fn bury(&mut self, jail: &Jail, now: Mono, hopeless: Option<i32>) {
        let Some(begun) = self.process.as_ref().map(|process| process.begun) else { return };
        let exit = self.kill(jail);
        let name = self.name;
        if let (Some(Exit::Status(status)), Some(hopeless)) = (exit, hopeless)
            && status == hopeless
        {
            print(ReportSeverity::Error, &format!("{name}: can't be started with these options; giving up"));
            return;
        }
        let is_late = now.since(begun) >= self.longest_pause.as_secs_f64();
        if is_late {
            self.pause = FIRST_PAUSE;
        }
        let pause = self.begin_later(now).as_secs();
        let has_failed = matches!(exit, Some(Exit::Status(1..))) && !is_late && !self.said.is_empty();
        if self.is_known(has_failed) {
            return;
        }
        let often = match has_failed {
            true => format!(
                ", and so on, at most {} s apart; the same error isn't printed again",
                self.longest_pause.as_secs()
            ),
            false => String::new(),
        };
        print(ReportSeverity::Error, &format!("{name}: has ended; restarting in {pause} s{often}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pause_is_longer_up_to_a_bound() {
        let mut companion = Companion::new("it", Duration::from_secs(5));
        let now = Mono(7.0);
        let pauses: Vec<_> = (0..5).map(|_| companion.begin_later(now).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 5, 5]);
        assert_eq!(companion.due(), Some(now + Duration::from_secs(5)));
        assert!(companion.takes_turn() && companion.due().is_none());
    }

    #[test]
    fn the_same_failure_is_known_the_second_time() {
        let mut companion = Companion::new("it", Duration::from_secs(5));
        let mut ends = |text: &str, has_failed| {
            companion.said = vec![text.to_owned()];
            companion.is_known(has_failed)
        };
        assert_eq!([ends("taken", true), ends("taken", true), ends("taken", true)], [false, true, true]);
        assert_eq!([ends("other", true), ends("taken", true)], [false, false]);
        assert_eq!([ends("taken", false), ends("taken", true)], [false, false]);
    }
}

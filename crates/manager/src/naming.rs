// SPDX-License-Identifier: BSD-2-Clause
//! Names for the addresses in a dead worker's report. To read the program's debug information takes 150 ms and 60 MB, so
//! neither the worker that dies does it, while nobody serves, nor the manager: a short-lived process of this program does,
//! once the next worker has started. Then the report is printed. Without names it is printed as it is.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::fmt::Write as _;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use base::clock::Mono;
use sys::fault::{PROGRAM_OFFSET, program_bytes};
use sys::fd::Interest;
use sys::process::{Child, Spawn};

use crate::jail::JailRole;
use crate::life::print_panic;
use crate::manager::Manager;

/// The program name under which this executable names addresses.
pub const PROGRAM: &str = "lacquer-names";

/// CPU time for one report.
const CPU_SECONDS: u64 = 10;
/// Bytes of address space.
const MEMORY_BYTES: u64 = 4 << 30;
/// Time on the clock.
const LIMIT: Duration = Duration::from_secs(30);
/// Longest wait of a request for a report that has no names yet.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Most reports that wait; further ones are printed without names.
const MOST: usize = 8;
const LONGEST: u64 = 4 << 20;

#[derive(Debug)]
struct Unnamed {
    pid: i32,
    text: String,
}

#[derive(Debug)]
struct Running {
    of: Unnamed,
    child: Child,
    output: OwnedFd,
    gathered: Vec<u8>,
    until: Mono,
}

#[derive(Debug, Default)]
pub struct BacktraceNaming {
    waiting: VecDeque<Unnamed>,
    running: Option<Running>,
}

impl BacktraceNaming {
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.running.as_ref().map(|running| running.output.as_fd())
    }

    /// Time at which a process that takes too long is killed.
    pub fn due(&self) -> Option<Mono> {
        self.running.as_ref().map(|running| running.until)
    }

    fn is_idle(&self) -> bool {
        self.running.is_none() && self.waiting.is_empty()
    }
}

impl Manager {
    /// Prints a report of a worker of this program, with names once they are known.
    pub(crate) fn tell_panic(&mut self, pid: i32, text: String) {
        if self.ended.naming.waiting.len() < MOST && text.contains(PROGRAM_OFFSET) {
            self.ended.naming.waiting.push_back(Unnamed { pid, text });
        } else {
            print_panic(pid, &text);
        }
    }

    pub(crate) fn begin_naming(&mut self) {
        if self.ended.naming.running.is_none() && !self.is_restart_due() {
            self.name_next();
        }
    }

    fn is_restart_due(&self) -> bool {
        let now = self.now();
        self.ended.restart.is_some_and(|due| due <= now)
    }

    fn name_next(&mut self) {
        let Some(of) = self.ended.naming.waiting.pop_front() else { return };
        match self.spawn_naming(&of.text) {
            Ok((child, output)) => {
                let until = self.now() + LIMIT;
                self.ended.naming.running = Some(Running { of, child, output, gathered: Vec::new(), until });
            }
            Err(_) => print_panic(of.pid, &of.text),
        }
    }

    fn spawn_naming(&self, text: &str) -> io::Result<(Child, OwnedFd)> {
        let mut input = sys::fd::memfd("lacquer report")?;
        input.write_all(text.as_bytes())?;
        input.rewind()?;
        let (output, written) = sys::fd::pipe()?;
        sys::fd::set_nonblocking(&output, true)?;
        let null = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
        let spawn = Spawn::new(&self.server.exe, PROGRAM)?
            .standard(0, input.as_fd())
            .standard(1, written.as_fd())
            .standard(2, null.as_fd())
            .credentials(self.jail.credentials(JailRole::Checker))
            .cpu_seconds(CPU_SECONDS)
            .memory_bytes(MEMORY_BYTES)
            .no_core()
            .oom_score(1000);
        Ok((self.jail.privileged(|| spawn.start())?, output))
    }

    /// Takes what the process has written; at its end the report is printed.
    pub(crate) fn tend_naming(&mut self) {
        let now = self.now();
        let Some(running) = &mut self.ended.naming.running else { return };
        let goes_on = loop {
            let mut buf = [0; 8192];
            match sys::fd::read(&running.output, &mut buf) {
                Ok(0) => break false,
                Ok(n) => running.gathered.extend_from_slice(&buf[..n]),
                Err(error) => break error.kind() == io::ErrorKind::WouldBlock,
            }
        };
        let is_too_much = running.until <= now || running.gathered.len() as u64 > LONGEST;
        if (!goes_on || is_too_much)
            && let Some(running) = self.ended.naming.running.take()
        {
            self.end_naming(running);
        }
    }

    fn end_naming(&mut self, running: Running) {
        let Running { of, child, gathered, .. } = running;
        let _ = self.jail.privileged(|| child.kill(sys::signal::SIGKILL));
        let _ = child.wait();
        let named = String::from_utf8(gathered).ok().filter(|text| text.ends_with(END));
        let Some(named) = named.and_then(|text| text.strip_suffix(END).map(str::to_owned)) else {
            return print_panic(of.pid, &of.text);
        };
        print_panic(of.pid, &named);
        if self.ended.panic.as_ref() == Some(&of.text) {
            self.ended.panic = Some(named);
        }
    }

    /// Somebody asks for a report. A worker that is to start comes first.
    pub(crate) fn await_naming(&mut self) {
        if !self.is_restart_due() {
            self.finish_naming(PATIENCE);
        }
    }

    /// Waits until all reports have their names, or for this long; then the rest is printed without.
    pub(crate) fn finish_naming(&mut self, limit: Duration) {
        let until = Instant::now() + limit;
        while !self.ended.naming.is_idle() {
            let Some(output) = self.ended.naming.descriptor() else {
                self.name_next();
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            let is_ready = sys::fd::wait(output, Interest::Read, Some(left)).unwrap_or(false);
            if is_ready {
                self.tend_naming();
            } else if let Some(running) = self.ended.naming.running.take() {
                self.end_naming(running);
            }
        }
    }
}

/// Marks the end of a complete report.
const END: &str = "\n\0";

/// Reads a report on stdin and writes it with names: the process; the value is the exit status.
pub fn run_child() -> i32 {
    let mut bytes = Vec::new();
    if io::stdin().take(LONGEST).read_to_end(&mut bytes).is_err() {
        return 1;
    }
    let text = named(&String::from_utf8_lossy(&bytes), |offset, out| {
        let address = sys::fault::load_address().wrapping_add(offset);
        let mut is_known = false;
        backtrace::resolve(address as *mut c_void, |symbol| {
            let Some(name) = symbol.name() else { return };
            // Behind the first one: of whom that is a part, as it was inlined.
            let indent = if is_known { "      " } else { "" };
            is_known = true;
            let place = symbol.filename().zip(symbol.lineno()).map(|(file, line)| (file.display().to_string(), line));
            // Writing to a String can't fail.
            let _ = writeln!(out, "{indent}{name:#}");
            if let Some((file, line)) = place {
                let column = symbol.colno().map(|column| format!(":{column}")).unwrap_or_default();
                let _ = writeln!(out, "             at {file}:{line}{column}");
            }
        });
        is_known
    });
    match sys::fd::write_all(sys::fd::standard(1), (text + END).as_bytes()) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

/// The text with names for addresses; `resolve` adds what is called at an offset into the program, and says whether it knows it.
fn named(text: &str, mut resolve: impl FnMut(usize, &mut String) -> bool) -> String {
    let mut out = String::with_capacity(4 * text.len());
    let mut number = 0;
    for line in text.lines() {
        let mut names = String::new();
        let is_known = offset_in(line).is_some_and(|offset| resolve(offset, &mut names));
        if !is_known {
            names = format!("{}\n", line.trim_start());
        }
        if line.starts_with("  0x") {
            let _ = write!(out, "{number:>4}: {names}");
            number += 1;
        } else {
            let _ = writeln!(out, "{line}");
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// The offset in a line such as `  0x55d5 (lacquer+0x1c0)`.
fn offset_in(line: &str) -> Option<usize> {
    let (address, offset) = line.split_once(PROGRAM_OFFSET)?;
    let is_address = address.strip_prefix("  0x").is_some_and(|digits| digits.bytes().all(|c| c.is_ascii_hexdigit()));
    let offset = usize::from_str_radix(offset.strip_suffix(')')?, 16).ok()?;
    (is_address && offset < program_bytes()).then_some(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_within_the_program_get_names() {
        let report = "Panic: a (lacquer+0x10)\nBacktrace:\n  0x1010 (lacquer+0x10)\n  0x7fff\n  (3 lines left out)\n  0x1020 (lacquer+0x20)\n";
        let text = named(report, |offset, out| {
            *out = format!("f{offset}\n             at x.rs:1:2\n");
            offset == 16
        });
        let wanted = "Panic: a (lacquer+0x10)\nBacktrace:\n   0: f16\n             at x.rs:1:2\n   1: 0x7fff\n  (3 lines left out)\n   2: 0x1020 (lacquer+0x20)";
        assert_eq!(text, wanted);
    }

    #[test]
    fn what_is_no_offset_into_the_program_has_no_name() {
        assert_eq!(offset_in("  0x1 (lacquer+0x1f)"), Some(31));
        for line in [
            "  0x1 (lacquer+0xffffffffffffff)",
            "  0x1 (lacquer+0x)",
            "  x (lacquer+0x1)",
            "  0x1 (lacquer+0x1",
            "",
            "  0x12",
        ] {
            assert_eq!(offset_in(line), None, "{line}");
        }
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! The manager's side of a check: it starts the process, sends the request, reads the output and interprets the exit status.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use sys::fd::Interest;
use sys::process::{Executable, Exit, Spawn};

use super::PROGRAM;
use super::wire::{CheckRequest, Good};
use crate::jail::{Jail, JailRole};

const CPU_SECONDS: u64 = 30;
const MEMORY_BYTES: u64 = 4 << 30;
/// Time limit for one check, including name lookups.
const PATIENCE: Duration = Duration::from_secs(60);
const MAX_OUTPUT: usize = 256 << 20;

#[derive(Debug, Clone, Copy)]
pub struct Checker<'a> {
    pub exe: &'a Executable,
    /// The checker runs as the worker's user, as this jail has it.
    pub jail: &'a Jail,
}

#[derive(Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// The VCL is valid: the output, or the listing that was requested, and warnings.
    Good(Good, String),
    /// The VCL is invalid, or the checker failed: the error text.
    Bad(String),
}

impl Checker<'_> {
    pub fn check(&self, request: &CheckRequest) -> CheckOutcome {
        match self.run(PROGRAM, &request.encode()) {
            Err(e) => CheckOutcome::Bad(format!("Running VCC-compiler failed: {e}\nVCL compilation failed")),
            Ok((Exit::Status(0), out, said)) => good(&out, &said),
            Ok((exit, _, said)) => CheckOutcome::Bad(bad(exit, &said)),
        }
    }

    /// Runs `exe` as `program` with the checker's limits and `request` on stdin. Returns its exit status, stdout and stderr.
    pub(crate) fn run(&self, program: &str, request: &[u8]) -> io::Result<(Exit, Vec<u8>, Vec<u8>)> {
        let (stdin, feed) = sys::fd::pipe()?;
        let (out, stdout) = sys::fd::pipe()?;
        let (err, stderr) = sys::fd::pipe()?;
        let spawn = Spawn::new(self.exe, program)?
            .standard(0, stdin.as_fd())
            .standard(1, stdout.as_fd())
            .standard(2, stderr.as_fd())
            .credentials(self.jail.credentials(JailRole::Checker))
            .cpu_seconds(CPU_SECONDS)
            .memory_bytes(MEMORY_BYTES)
            .oom_score(1000);
        let child = self.jail.privileged(|| spawn.start())?;
        drop((stdin, stdout, stderr));
        let talk = converse(feed, request, [out, err]);
        if talk.is_err() {
            self.jail.privileged(|| child.kill(sys::signal::SIGKILL))?;
        }
        let exit = child.wait()?;
        let [out, said] = talk?;
        Ok((exit, out, said))
    }
}

fn converse(feed: OwnedFd, mut request: &[u8], from: [OwnedFd; 2]) -> io::Result<[Vec<u8>; 2]> {
    let deadline = Instant::now() + PATIENCE;
    let mut feed = Some(feed);
    let mut streams = from.map(Some);
    let mut gathered = [Vec::new(), Vec::new()];
    sys::fd::set_nonblocking(feed.as_ref().expect("just put there"), true)?;
    while streams.iter().any(Option::is_some) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::other(format!("no end after {} seconds", PATIENCE.as_secs())));
        }
        if let Some(to) = &feed {
            match sys::fd::write(to, request) {
                Ok(n) => request = &request[n..],
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                // The process ended without reading everything. Its exit status shows the reason.
                Err(_) => request = &[],
            }
            if request.is_empty() {
                feed = None;
            }
        }
        let mut wants: Vec<_> = streams.iter().flatten().map(|fd| (fd.as_fd(), Interest::Read)).collect();
        wants.extend(feed.iter().map(|fd| (fd.as_fd(), Interest::Write)));
        sys::fd::wait_any(&wants, Some(left))?;
        for (stream, bytes) in streams.iter_mut().zip(&mut gathered) {
            let Some(fd) = stream else { continue };
            if sys::fd::wait(&*fd, Interest::Read, Some(Duration::ZERO))? && !read_some(fd, bytes)? {
                *stream = None;
            }
        }
    }
    Ok(gathered)
}

/// Returns false at the end of the stream.
fn read_some(fd: &OwnedFd, into: &mut Vec<u8>) -> io::Result<bool> {
    let mut buf = [0; 65536];
    let n = sys::fd::read(fd, &mut buf)?;
    into.extend_from_slice(&buf[..n]);
    if into.len() > MAX_OUTPUT {
        return Err(io::Error::other("too much output"));
    }
    Ok(n > 0)
}

fn good(out: &[u8], said: &[u8]) -> CheckOutcome {
    let warnings = match said.is_empty() {
        true => String::new(),
        false => with_heading(&String::from_utf8_lossy(said)),
    };
    match Good::decode(out) {
        Some(good) => CheckOutcome::Good(good, warnings),
        None => CheckOutcome::Bad("Running VCC-compiler failed: garbled output\nVCL compilation failed".into()),
    }
}

const HEADING: &str = "Message from VCC-compiler:\n";
/// Heading of errors that varnishd finds only when it loads the compiled VCL.
const RUNNING_DLOPEN: &str = "Running dlopen failed";

fn with_heading(said: &str) -> String {
    if said.starts_with("Message from ") { said.to_string() } else { format!("{HEADING}{said}") }
}

fn bad(exit: Exit, said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let mut text = String::new();
    if !said.is_empty() {
        text = with_heading(&said);
        if !text.ends_with('\n') && !text.ends_with("failed") {
            text.push('\n');
        }
    }
    if !text.contains("Running VCC-compiler failed") && !text.contains(RUNNING_DLOPEN) {
        text.push_str(&match exit {
            Exit::Status(status) => format!("Running VCC-compiler failed, exited with {status}\n"),
            Exit::Signal(signal, _) if signal == sys::signal::SIGXCPU || signal == sys::signal::SIGKILL => {
                format!("Running VCC-compiler failed, signal {signal}: more than {CPU_SECONDS} seconds of CPU or out of memory\n")
            }
            Exit::Signal(signal, _) => format!("Running VCC-compiler failed, signal {signal}\n"),
        });
    }
    if !text.ends_with("VCL compilation failed") {
        text.push_str("VCL compilation failed");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_vcl_reads_as_varnishd_says_it() {
        assert_eq!(
            bad(Exit::Status(2), b"Expected ...\n"),
            "Message from VCC-compiler:\nExpected ...\nRunning VCC-compiler failed, exited with 2\nVCL compilation failed"
        );
        let old =
            "Message from dlopen:\nCompiled VCL version (4.0) not supported.\nRunning dlopen failed, exited with 1\n";
        assert_eq!(bad(Exit::Status(2), old.as_bytes()), format!("{old}VCL compilation failed"));
        assert!(bad(Exit::Signal(11, false), b"").starts_with("Running VCC-compiler failed, signal 11\n"));
    }
}

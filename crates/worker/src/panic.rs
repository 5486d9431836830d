// SPDX-License-Identifier: BSD-2-Clause
//! What a panic or a fatal signal does. A panic in a transaction's own code is caught by the engine and costs that transaction;
//! while shared state was being changed, or where nobody catches it, it ends the worker, with the report left in the manager's
//! Panic segment. So does every signal that a process dies of.

use std::backtrace::Backtrace;
use std::fmt::{self, Write};
use std::sync::{OnceLock, Weak};

use cli::handoff::WorkerStart;
use shm::vsm::SharedSegment;
use sys::fault::{SignalFault, ThreadName};

use crate::vcls::WorkerVcls;

/// Return addresses that a dying worker's report has of its stack's beginning, and of its end.
const RETURN_ADDRESSES: usize = 64;
const BACKTRACE_LINES: usize = 80;

static SEGMENT: OnceLock<Option<SharedSegment>> = OnceLock::new();
/// Fixed part of a report: identity, version, arguments.
static IDENTITY: OnceLock<String> = OnceLock::new();
static VCLS: OnceLock<Weak<WorkerVcls>> = OnceLock::new();

pub fn install(start: &WorkerStart) {
    let open = |number| SharedSegment::from_fd(sys::fd::inherit(number).ok()?).ok();
    SEGMENT.get_or_init(|| start.manager.panic_fd.and_then(open));
    IDENTITY.get_or_init(|| {
        let arguments: Vec<String> = std::env::args().collect();
        format!(
            "identity = {}, workdir = {}\nversion = {}\nargv = {}",
            start.identity,
            start.workdir.display(),
            env!("CARGO_PKG_VERSION"),
            arguments.join(" ")
        )
    });
    std::panic::set_hook(Box::new(|info| {
        let what = info.to_string();
        // One that nobody contains would disappear with its task: connections would no longer be accepted, objects no
        // longer expire.
        if base::critical::is_critical() || !base::critical::is_contained() {
            end_with(&what);
        }
        let report = report(&what, &backtrace());
        report_line!("{}", report.lines().next().unwrap_or("panic"));
        report_line!("{report}");
    }));
    if let Err(error) = sys::fault::watch(on_fault) {
        report_line!("no reports of faults: {error}");
    }
}

pub fn know_vcls(vcls: &std::sync::Arc<WorkerVcls>) {
    VCLS.get_or_init(|| std::sync::Arc::downgrade(vcls));
}

/// Ends the worker as a panic of its own would.
pub fn on_request(what: &str) -> ! {
    end_with(what)
}

/// Names take longer than everything else together, and nobody serves meanwhile: the manager finds them, when the next worker
/// serves.
fn end_with(what: &str) -> ! {
    let mut addresses = String::new();
    // Writing to a String can't fail.
    let _ = write_addresses(&mut addresses);
    let report = report(what, &addresses);
    report_line!("{}", report.lines().next().unwrap_or("panic"));
    die(&report)
}

const HELP: &str = "help = lacquer man lacquer-panic";

fn report(what: &str, backtrace: &str) -> String {
    let mut text = String::new();
    // Writing to a String can't fail.
    let _ = describe(&mut text, format_args!("{}", what.replace('\n', ": ")));
    text.push_str(backtrace);
    text
}

/// With names, the middle of a long one left out: where a recursion began is at its end. The names are in the program's file;
/// where this user can't reach that, the addresses tell more than `<unknown>`.
fn backtrace() -> String {
    if std::env::current_exe().and_then(std::fs::File::open).is_err() {
        let mut text = String::new();
        let _ = write_addresses(&mut text);
        return text;
    }
    let text = Backtrace::force_capture().to_string();
    let lines: Vec<&str> = text.lines().collect();
    let left_out = lines.len().saturating_sub(2 * BACKTRACE_LINES);
    if left_out == 0 {
        return format!("Backtrace:\n{text}\n");
    }
    let (first, rest) = lines.split_at(BACKTRACE_LINES);
    format!("Backtrace:\n{}\n  ({left_out} lines left out)\n{}\n", first.join("\n"), rest[left_out..].join("\n"))
}

/// Everything but the backtrace. It neither allocates nor waits, and what is surest to be had comes first.
fn describe(out: &mut dyn Write, what: fmt::Arguments<'_>) -> fmt::Result {
    write!(out, "Panic: {what}\nthread = {}\n", ThreadName::own())?;
    engine::current::write(out)?;
    out.write_str("vcl = {\n")?;
    if let Some(vcls) = VCLS.get().and_then(Weak::upgrade) {
        vcls.write_files(out)?;
    }
    writeln!(out, "}}\n{}\n{HELP}", IDENTITY.get().map_or("", String::as_str))
}

/// In a signal handler: it needs neither memory nor locks, until the report is written.
fn on_fault(fault: &SignalFault) {
    let Some(Some(segment)) = SEGMENT.get() else { return };
    let mut out = segment.writer();
    let _ = describe(&mut out, format_args!("{fault}"));
    let _ = write_addresses(&mut out);
    // This takes a lock, and may fault again or wait for ever: what is written stays.
    shm::vsl::flush_gathered();
}

fn write_addresses(out: &mut dyn Write) -> fmt::Result {
    let (mut first, mut last) = ([0; RETURN_ADDRESSES], [0; RETURN_ADDRESSES]);
    let found = sys::fault::return_addresses(&mut first, &mut last);
    out.write_str("Backtrace:\n")?;
    first[..found.first].iter().try_for_each(|address| write_address(out, *address))?;
    if found.left_out > 0 {
        writeln!(out, "  ({} lines left out)", found.left_out)?;
    }
    last[..found.last].iter().try_for_each(|address| write_address(out, *address))
}

/// Writes an address, with the offset if it lies in the program. The address in a library says nothing outside of this
/// process.
fn write_address(out: &mut dyn Write, address: usize) -> fmt::Result {
    let offset = address.wrapping_sub(sys::fault::load_address());
    if offset < sys::fault::program_bytes() {
        writeln!(out, "  {address:#x}{}{offset:x})", sys::fault::PROGRAM_OFFSET)
    } else {
        writeln!(out, "  {address:#x}")
    }
}

/// Leaves the report and ends the process. What this thread has logged is written, as far as it can be.
pub fn die(report: &str) -> ! {
    shm::vsl::flush_gathered();
    if let Some(Some(segment)) = SEGMENT.get() {
        segment.write_text(report.as_bytes());
    }
    sys::fault::abort_reported()
}

// SPDX-License-Identifier: BSD-2-Clause
//! What a panic does. In a transaction's own code it is caught by the engine and costs that transaction; while shared
//! state was being changed, or where nobody catches it, it ends the worker, with the report left in the manager's Panic segment.

use std::backtrace::Backtrace;
use std::sync::{OnceLock, Weak};

use cli::handoff::WorkerStart;
use shm::vsm::Shared;

use crate::vcls::Vcls;

static SEGMENT: OnceLock<Option<Shared>> = OnceLock::new();
static IDENTITY: OnceLock<String> = OnceLock::new();
static VCLS: OnceLock<Weak<Vcls>> = OnceLock::new();

/// Installs the hook.
pub fn install(panic_fd: Option<i32>, start: &WorkerStart) {
    let open = |number| Shared::from_fd(sys::fd::inherit(number).ok()?).ok();
    SEGMENT.get_or_init(|| panic_fd.and_then(open));
    IDENTITY.get_or_init(|| format!("identity = {}, workdir = {}", start.identity, start.workdir.display()));
    std::panic::set_hook(Box::new(|info| {
        let report = report(&info.to_string());
        eprintln!("{}", report.lines().next().unwrap_or("panic"));
        // One that nobody contains would disappear with its task: connections would no longer be accepted, objects no
        // longer expire.
        if base::critical::is_critical() || !base::critical::is_contained() {
            die(&report);
        }
        eprintln!("{report}");
    }));
}

/// Has reports name the VCLs and their files.
pub fn know_vcls(vcls: &std::sync::Arc<Vcls>) {
    VCLS.get_or_init(|| std::sync::Arc::downgrade(vcls));
}

/// Ends the worker as a panic of its own would.
pub fn on_request(what: &str) -> ! {
    die(&report(what))
}

fn report(what: &str) -> String {
    let current = engine::current::get();
    let client = engine::current::client().map_or_else(|| "-".to_owned(), |client| client.log_text());
    let vcls = VCLS.get().and_then(Weak::upgrade).map_or_else(String::new, |vcls| vcls.files());
    let arguments: Vec<String> = std::env::args().collect();
    let thread = std::thread::current();
    format!(
        "Panic: {}\nthread = {}\ntransaction = {}, step = {}, client = {client}\nvcl = {{\n{vcls}}}\n{}\nversion = {}\n\
         argv = {}\nBacktrace:\n{}\n",
        what.replace('\n', ": "),
        thread.name().unwrap_or("?"),
        current.vxid,
        if current.step.is_empty() { "-" } else { &current.step },
        IDENTITY.get().map_or("", String::as_str),
        env!("CARGO_PKG_VERSION"),
        arguments.join(" "),
        Backtrace::force_capture(),
    )
}

/// Leaves the report and ends the process. What this thread has logged is written, as far as it can be.
pub fn die(report: &str) -> ! {
    shm::vsl::flush_gathered();
    if let Some(Some(segment)) = SEGMENT.get() {
        segment.write_text(report.as_bytes());
    }
    std::process::abort()
}

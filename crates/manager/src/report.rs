// SPDX-License-Identifier: BSD-2-Clause
//! The manager's log lines: to syslog always (but not in vtc_mode), to stderr in the foreground.

use std::sync::atomic::{AtomicBool, Ordering};

use sys::syslog;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportSeverity {
    Error,
    Info,
    Debug,
    Security,
    /// CLI traffic; syslog only, when `syslog_cli_traffic` is on.
    Cli,
}

static TO_STDERR: AtomicBool = AtomicBool::new(false);
static TO_SYSLOG: AtomicBool = AtomicBool::new(true);

pub fn configure(to_stderr: bool, to_syslog: bool) {
    TO_STDERR.store(to_stderr, Ordering::Relaxed);
    TO_SYSLOG.store(to_syslog, Ordering::Relaxed);
}

/// Switches syslog (vtc_mode turns it off).
pub fn set_syslog(on: bool) {
    TO_SYSLOG.store(on, Ordering::Relaxed);
}

pub fn print(loud: ReportSeverity, text: &str) {
    let (word, level) = match loud {
        ReportSeverity::Error => ("Error:", syslog::SyslogLevel::Err),
        ReportSeverity::Info => ("Info:", syslog::SyslogLevel::Info),
        ReportSeverity::Debug => ("Debug:", syslog::SyslogLevel::Debug),
        ReportSeverity::Security => ("Security:", syslog::SyslogLevel::Warning),
        ReportSeverity::Cli => ("Cli:", syslog::SyslogLevel::Info),
    };
    if TO_STDERR.load(Ordering::Relaxed) && loud != ReportSeverity::Cli {
        stderr(&format!("{word} {text}"));
    }
    if TO_SYSLOG.load(Ordering::Relaxed) {
        syslog::log(level, text);
    }
}

/// A line on stderr; a stderr that is gone is no reason to stop.
pub fn stderr(text: &str) {
    let _ = sys::fd::write_all(sys::fd::standard(2), format!("{text}\n").as_bytes());
}

pub fn stdout(text: &str) {
    let _ = sys::fd::write_all(sys::fd::standard(1), text.as_bytes());
}

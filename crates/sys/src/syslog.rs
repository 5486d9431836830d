// SPDX-License-Identifier: BSD-2-Clause
//! The system log, through libc's `syslog`.

use std::ffi::CString;
use std::sync::OnceLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyslogLevel {
    Err,
    Warning,
    Info,
    Debug,
}

static IDENT: OnceLock<CString> = OnceLock::new();

/// Names the program in the log (facility LOCAL0, with pid). The first call counts.
pub fn open(ident: &str) {
    let name = IDENT.get_or_init(|| CString::new(ident.replace('\0', "")).unwrap_or_default());
    // SAFETY: openlog keeps the pointer; the string is in a static that is set once and never freed.
    unsafe { libc::openlog(name.as_ptr(), libc::LOG_PID, libc::LOG_LOCAL0) }
}

/// Writes one line. NULs are dropped.
pub fn log(level: SyslogLevel, text: &str) {
    let level = match level {
        SyslogLevel::Err => libc::LOG_ERR,
        SyslogLevel::Warning => libc::LOG_WARNING,
        SyslogLevel::Info => libc::LOG_INFO,
        SyslogLevel::Debug => libc::LOG_DEBUG,
    };
    let text = CString::new(text.replace('\0', "")).unwrap_or_default();
    // SAFETY: a fixed format with one string argument, which is NUL-terminated and lives through the call.
    unsafe { libc::syslog(level, c"%s".as_ptr(), text.as_ptr()) }
}

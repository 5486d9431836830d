// SPDX-License-Identifier: BSD-2-Clause
//! Messages, on stdout in the form of node's `util.log` (`21 Nov 08:19:23 - DEBUG: text`) or to syslog.

use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::config::{LogConfig, StatsdDialect};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatsdLevel {
    Error,
    Warning,
    Info,
    Debug,
}

impl StatsdLevel {
    /// Syslog's names in both originals' spellings.
    pub fn parse(text: &str) -> Option<StatsdLevel> {
        let text = text.to_ascii_uppercase();
        Some(match text.strip_prefix("LOG_").unwrap_or(&text) {
            "EMERG" | "ALERT" | "CRIT" | "FATAL" | "ERR" | "ERROR" => StatsdLevel::Error,
            "WARN" | "WARNING" => StatsdLevel::Warning,
            "NOTICE" | "NOTE" | "INFO" => StatsdLevel::Info,
            "DEBUG" | "TRACE" => StatsdLevel::Debug,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            StatsdLevel::Error => "ERROR",
            StatsdLevel::Warning => "WARNING",
            StatsdLevel::Info => "INFO",
            StatsdLevel::Debug => "DEBUG",
        }
    }

    fn syslog(self) -> sys::syslog::SyslogLevel {
        match self {
            StatsdLevel::Error => sys::syslog::SyslogLevel::Err,
            StatsdLevel::Warning => sys::syslog::SyslogLevel::Warning,
            StatsdLevel::Info => sys::syslog::SyslogLevel::Info,
            StatsdLevel::Debug => sys::syslog::SyslogLevel::Debug,
        }
    }
}

/// Destination of messages. Losing one is no error.
#[derive(Debug)]
pub struct Logger {
    syslog: bool,
    /// Less grave ones are left out. Node shows all on stdout, the Perl port doesn't.
    least: StatsdLevel,
}

impl Logger {
    pub fn new(config: &LogConfig, dialect: StatsdDialect) -> Logger {
        if config.syslog {
            sys::syslog::open(&config.application);
        }
        let all = dialect == StatsdDialect::Node && !config.syslog;
        Logger { syslog: config.syslog, least: if all { StatsdLevel::Debug } else { config.level } }
    }

    pub fn log(&self, level: StatsdLevel, text: &str) {
        if level > self.least {
            return;
        }
        if self.syslog {
            sys::syslog::log(level.syslog(), text);
        } else {
            plain(&format!("{}: {text}", level.name()));
        }
    }
}

/// A line on stdout without a level: what scripts wait for (`server is up`).
pub fn plain(text: &str) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let _ = writeln!(std::io::stdout().lock(), "{} - {text}", crate::date::short(now));
}

// SPDX-License-Identifier: BSD-2-Clause
//! Messages, on stdout in the form of node's `util.log` (`21 Nov 08:19:23 - DEBUG: text`) or to syslog.

use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::config::{Dialect, Log};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Error,
    Warning,
    Info,
    Debug,
}

impl Level {
    /// Syslog's names in both originals' spellings.
    pub fn parse(text: &str) -> Option<Level> {
        let text = text.to_ascii_uppercase();
        Some(match text.strip_prefix("LOG_").unwrap_or(&text) {
            "EMERG" | "ALERT" | "CRIT" | "FATAL" | "ERR" | "ERROR" => Level::Error,
            "WARN" | "WARNING" => Level::Warning,
            "NOTICE" | "NOTE" | "INFO" => Level::Info,
            "DEBUG" | "TRACE" => Level::Debug,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Level::Error => "ERROR",
            Level::Warning => "WARNING",
            Level::Info => "INFO",
            Level::Debug => "DEBUG",
        }
    }

    fn syslog(self) -> sys::syslog::Level {
        match self {
            Level::Error => sys::syslog::Level::Err,
            Level::Warning => sys::syslog::Level::Warning,
            Level::Info => sys::syslog::Level::Info,
            Level::Debug => sys::syslog::Level::Debug,
        }
    }
}

/// Destination of messages. Losing one is no error.
#[derive(Debug)]
pub struct Logger {
    syslog: bool,
    /// Less grave ones are left out. Node shows all on stdout, the Perl port doesn't.
    least: Level,
}

impl Logger {
    pub fn new(config: &Log, dialect: Dialect) -> Logger {
        if config.syslog {
            sys::syslog::open(&config.application);
        }
        let all = dialect == Dialect::Node && !config.syslog;
        Logger { syslog: config.syslog, least: if all { Level::Debug } else { config.level } }
    }

    pub fn log(&self, level: Level, text: &str) {
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

// SPDX-License-Identifier: BSD-2-Clause
//! What the kernel tells of a process: its arguments, its open descriptors, when it began.

use std::fs;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Descriptors {
    pub open: u64,
    /// The soft limit; `None`: there is none.
    pub limit: Option<u64>,
}

pub(super) fn arguments(pid: u64) -> Option<Vec<String>> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<_> = bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let (_, words) = words.split_last()?;
    (!words.is_empty()).then(|| words.to_vec())
}

/// `None`: it isn't ours to look at.
pub(super) fn descriptors(pid: u64) -> Option<Descriptors> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64;
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    Some(Descriptors { open, limit: limit(&limits) })
}

fn limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=+.,:/@%[]".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen() {
        let pid = u64::from(std::process::id());
        let own: Vec<_> = std::env::args().collect();
        assert_eq!(arguments(pid), Some(own));
        let seen = descriptors(pid).expect("our own");
        assert!(seen.open >= 3 && seen.limit.is_none_or(|limit| limit >= seen.open), "{seen:?}");
        assert_eq!((arguments(u64::MAX), descriptors(u64::MAX)), (None, None));
    }

    #[test]
    fn limits_and_words() {
        assert_eq!(limit("Max open files            1024                 4096                 files\n"), Some(1024));
        assert_eq!(limit("Max open files            unlimited            unlimited            files\n"), None);
        assert_eq!(quoted("-smalloc,1G"), "-smalloc,1G");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}

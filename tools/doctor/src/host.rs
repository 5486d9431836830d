// SPDX-License-Identifier: BSD-2-Clause
//! A machine by its files: /proc, /sys and /etc below a root, read and never written. Another root shows another machine.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The longest file that is read: a table of a million connections.
const MOST_BYTES: u64 = 256 << 20;
/// Entries of a directory that are looked at.
const MOST_ENTRIES: usize = 100_000;
/// Control groups one above the other that are looked at.
const MOST_GROUPS: usize = 100;

/// The machine to be looked at, with its files below `root`.
#[derive(Debug)]
pub struct Host {
    root: PathBuf,
    pub pid: Option<u64>,
    /// Files with counters, as they were at the first look. Empty: there is one look only.
    before: RefCell<HashMap<String, String>>,
    span: HostSpan,
    has_told_span: Cell<bool>,
    /// Bytes that may still be written on the file system of a path.
    pub room: fn(&Path) -> std::io::Result<u64>,
}

/// The time that counters of the machine are of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostSpan {
    Boot,
    Watched,
    /// A moment of watching, because most counts were older than the server.
    Moment,
}

impl Host {
    pub fn new(root: &Path, pid: Option<u64>) -> Host {
        Host {
            root: root.to_owned(),
            pid,
            before: RefCell::default(),
            span: HostSpan::Boot,
            has_told_span: Cell::new(false),
            // Copied files say nothing of the disk that they were on.
            room: if root == Path::new("/") {
                sys::disk::room_bytes
            } else {
                |_| Err(std::io::ErrorKind::Unsupported.into())
            },
        }
    }

    /// Keeps these files as they are now, so that their counters count from here on.
    pub fn begin(&mut self, span: HostSpan, paths: impl IntoIterator<Item = String>) {
        self.span = span;
        let read = paths.into_iter().filter_map(|path| Some((path.clone(), self.text(&path)?)));
        let read: HashMap<_, _> = read.collect();
        self.before.replace(read);
    }

    pub fn span(&self) -> HostSpan {
        self.span
    }

    /// True if a rule has found something in the machine's counters, so that the report should name their time.
    pub fn has_told_span(&self) -> bool {
        self.has_told_span.get()
    }

    /// Bytes that may still be written on the file system of a path; an error says why that isn't known.
    pub fn room(&self, path: &Path) -> Result<u64, String> {
        let place = self.place(&path.to_string_lossy());
        (self.room)(&place).map_err(|error| format!("{}: {}", place.display(), logq::source::strerror(&error)))
    }

    fn place(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A file's text; None: it isn't there, or isn't for us to read.
    pub fn text(&self, path: &str) -> Option<String> {
        self.bytes(path, MOST_BYTES).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    pub fn bytes(&self, path: &str, most: u64) -> Option<Vec<u8>> {
        let path = self.place(path);
        // A pipe that stands there would be waited for.
        if !fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        fs::File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Like [`Host::text`], with the reason of a failure.
    pub fn needs(&self, path: &str) -> Result<String, String> {
        self.text(path).ok_or_else(|| format!("/{path} can't be read"))
    }

    pub fn number(&self, path: &str) -> Result<u64, String> {
        let text = self.needs(path)?;
        let word = text.split_ascii_whitespace().next().unwrap_or_default();
        // A negative one is "none" or "as many as you like": of no interest here.
        word.parse().map_err(|_| format!("/{path} is no number"))
    }

    pub fn sysctl(&self, name: &str) -> Result<u64, String> {
        self.number(&sysctl_path(name))
    }

    pub fn sysctls(&self, name: &str) -> Result<Vec<u64>, String> {
        let text = self.needs(&sysctl_path(name))?;
        Ok(text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect())
    }

    /// Names in a directory, in order; empty when there is none.
    pub fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.place(path)) else { return Vec::new() };
        let names = entries.take(MOST_ENTRIES).flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    pub fn has(&self, path: &str) -> bool {
        self.place(path).exists()
    }

    /// Number of a directory's entries; `None` if it can't be read.
    pub fn entries(&self, path: &str) -> Option<u64> {
        Some(fs::read_dir(self.place(path)).ok()?.count() as u64)
    }

    pub fn of_process(&self, name: &str) -> Result<String, String> {
        let pid = self.pid.ok_or("no running server is known")?;
        Ok(format!("proc/{pid}/{name}"))
    }

    /// A file of /proc/net as the process that serves sees it: it may live in a network of its own.
    pub fn net(&self, name: &str) -> String {
        let own = self.pid.map(|pid| format!("proc/{pid}/net/{name}")).filter(|path| self.has(path));
        own.unwrap_or_else(|| format!("proc/net/{name}"))
    }

    /// The result of `count` for a file, less its result at the first look.
    pub fn grown(&self, path: &str, count: impl Fn(&str) -> Option<u64>) -> Result<u64, String> {
        let now = count(&self.needs(path)?).ok_or_else(|| format!("/{path} doesn't say"))?;
        let before = self.before.borrow().get(path).and_then(|text| count(text)).unwrap_or(0);
        // A counter that restarted meanwhile counts from 0.
        Ok(if now >= before { now - before } else { now })
    }

    /// Time since the machine started, in seconds.
    pub fn uptime(&self) -> Result<f64, String> {
        let text = self.needs("proc/uptime")?;
        text.split_ascii_whitespace().next().and_then(|w| w.parse().ok()).ok_or_else(|| "/proc/uptime is odd".into())
    }

    /// `since the machine began, 12 d 3 h ago`, or `while it was watched`.
    pub fn since(&self) -> String {
        self.has_told_span.set(true);
        match (self.span, self.uptime()) {
            (HostSpan::Watched, _) => "while it was watched".to_owned(),
            (HostSpan::Moment, _) => "within a second; the machine counts since before the server began".to_owned(),
            (HostSpan::Boot, Ok(uptime)) => format!("since the machine began, {} ago", crate::rule::time(uptime)),
            (HostSpan::Boot, Err(_)) => "since the machine began".to_owned(),
        }
    }

    /// A file of the process's control group, or of the nearest one above that has it: under version 2 of control groups, or 1.
    pub fn cgroup(&self, controller: &str, v2: &str, v1: &str) -> Result<(String, String), String> {
        self.cgroups(controller, v2, v1).map(|mut groups| groups.swap_remove(0))
    }

    /// Like [`Host::cgroup`] for all groups that the process is in, the nearest first; a limit of each of them counts.
    /// At least one.
    pub fn cgroups(&self, controller: &str, v2: &str, v1: &str) -> Result<Vec<(String, String)>, String> {
        let groups = self.needs(&self.of_process("cgroup")?)?;
        let mut places = Vec::new();
        for line in groups.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
            if controllers.is_empty() {
                places.extend([("sys/fs/cgroup".to_owned(), path, v2), ("sys/fs/cgroup/unified".to_owned(), path, v2)]);
            } else if controllers.split(',').any(|c| c == controller) {
                places.push((format!("sys/fs/cgroup/{controller}"), path, v1));
            }
        }
        let mut found = places.into_iter().map(|(mount, path, file)| self.upwards(&mount, path, file));
        found.find(|groups| !groups.is_empty()).ok_or_else(|| format!("no control group says {v2}"))
    }

    fn upwards(&self, mount: &str, path: &str, file: &str) -> Vec<(String, String)> {
        let (mut path, mut found) = (path.trim_matches('/'), Vec::new());
        loop {
            let dir = if path.is_empty() { mount.to_owned() } else { format!("{mount}/{path}") };
            // `max` is no limit.
            if let Some(text) = self.text(&format!("{dir}/{file}")).filter(|text| text.trim() != "max") {
                found.push((dir, text));
            }
            if path.is_empty() || found.len() >= MOST_GROUPS {
                return found;
            }
            path = path.rsplit_once('/').map_or("", |(above, _)| above);
        }
    }

    /// Bytes of memory that each of the process's control groups may use, where that is limited.
    pub fn memory_limits(&self) -> Vec<(String, u64)> {
        let groups = self.cgroups("memory", "memory.max", "memory.limit_in_bytes").unwrap_or_default();
        let limits = groups.into_iter().filter_map(|(dir, text)| Some((dir, text.trim().parse().ok()?)));
        // Version 1 has a limit that no machine reaches for none.
        limits.filter(|(_, limit)| *limit < 1 << 60).collect()
    }

    /// Bytes of memory that the process may use: the tightest limit of its control groups; None: there is no limit.
    pub fn memory_limit(&self) -> Option<(String, u64)> {
        self.memory_limits().into_iter().min_by_key(|(_, limit)| *limit)
    }
}

/// Path of a kernel setting, relative to the root directory.
pub fn sysctl_path(name: &str) -> String {
    format!("proc/sys/{}", name.replace('.', "/"))
}

/// A value of a table whose groups have two lines each, names and values (/proc/net/snmp, /proc/net/netstat).
pub fn paired(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        if names.split(':').next() != Some(group) {
            continue;
        }
        let at = names.split_ascii_whitespace().position(|word| word == name)?;
        return values.split_ascii_whitespace().nth(at)?.parse().ok();
    }
    None
}

/// A value of a table of lines `name value`, or `name: value kB`.
pub fn named(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_ascii_whitespace);
    lines.find_map(|mut words| {
        let first = words.next()?;
        (first.trim_end_matches(':') == name).then(|| words.next()?.parse().ok()).flatten()
    })
}

/// `some avg60=1.23` of a file of /proc/pressure.
pub fn pressure(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix("avg60=")?.parse().ok())
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// The device number as `major:minor`.
    pub device: String,
    pub point: String,
    pub options: String,
    pub kind: String,
}

pub fn mount_of(mountinfo: &str, path: &Path) -> Option<Mount> {
    let mounts = mountinfo.lines().filter_map(mount).filter(|mount| path.starts_with(&mount.point));
    // Of two at one place the later hides the earlier; max_by_key gives the last of equals.
    mounts.max_by_key(|mount| mount.point.len())
}

fn mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let words: Vec<&str> = left.split_ascii_whitespace().collect();
    let kind = right.split_ascii_whitespace().next()?.to_owned();
    let point = words.get(4)?.replace("\\040", " ");
    Some(Mount { device: (*words.get(2)?).to_owned(), point, options: (*words.get(5)?).to_owned(), kind })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tables_of_the_kernel_are_read() {
        let text = "TcpExt: A B\nTcpExt: 1 2\nIpExt: B\nIpExt: 3\n";
        assert_eq!((paired(text, "TcpExt", "B"), paired(text, "IpExt", "B")), (Some(2), Some(3)));
        assert_eq!((paired(text, "TcpExt", "C"), paired("TcpExt: A\n", "TcpExt", "A")), (None, None));
        assert_eq!((named("a 1\nVmSwap:\t  12 kB\n", "VmSwap"), named("ab 1\n", "a")), (Some(12), None));
        assert_eq!(pressure("some avg10=0.00 avg60=12.50 avg300=1 total=9\nfull avg10=0\n"), Some(12.5));
    }

    #[test]
    fn the_mount_nearest_to_a_path() {
        let text = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
            30 27 0:27 / /var/lib rw,noatime shared:1 - tmpfs tmpfs rw\n31 27 0:28 / /var/lib rw - xfs x rw\nodd\n";
        let kind = |path: &str| mount_of(text, Path::new(path)).map(|m| (m.kind, m.device));
        assert_eq!(kind("/var/lib/varnish"), Some(("xfs".into(), "0:28".into())));
        assert_eq!(kind("/var/library"), Some(("ext4".into(), "254:0".into())));
        assert_eq!(mount_of("", Path::new("/")), None);
    }

    proptest! {
        #[test]
        fn no_text_can_hurt(text in "[ -~\n\t]{0,200}") {
            let _ = (paired(&text, "TcpExt", "A"), named(&text, "A"), pressure(&text), mount_of(&text, Path::new("/a")));
        }
    }
}

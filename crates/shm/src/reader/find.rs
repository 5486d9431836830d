// SPDX-License-Identifier: BSD-2-Clause
//! Finding the running server: in the workdir that was named or the usual one, otherwise by the processes of this machine.
//!
//! There is no registry of servers that could be stale or forged. A process whose command line is varnishd's names its workdir there,
//! or stands in it; the pid file in that workdir has the same pid, or the process is none of ours to list. Command lines can be read by
//! everybody, except where /proc is mounted with `hidepid`: then the directories below [`STATE_DIR`] are all that is looked at.

use std::fmt;
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sys::{pidfile, user};

use super::{CounterReader, STATE_DIR, default_name, segments};
use crate::vsm::SetOwner;

const PID_FILE: &str = "_.pid";
/// Bytes of a file of /proc that are read.
const PROC_BYTES: u64 = 64 << 10;
/// Seconds in which a process may still be on its way to become a server: varnishd may compile its VCL, ours reads a journal.
const YOUNG: f64 = 60.0;
/// The kernel's unit of times in /proc: so many a second, on all that Linux runs on today.
const TICKS: f64 = 100.0;
const LISTED: usize = 20;

/// A manager that runs on this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunningServer {
    /// The pid in our namespace.
    pub pid: u32,
    /// The real user that it runs as.
    pub uid: u32,
    /// The workdir, as the container sees it for a server that runs in one.
    pub workdir: PathBuf,
    /// True if it runs in a container, where its workdir and its pid are others than here.
    pub is_contained: bool,
}

/// A server that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundServer {
    /// Workdir of the server.
    pub workdir: PathBuf,
    /// A line for the user, if the server isn't where it was looked for first.
    pub remark: Option<String>,
}

/// Reasons why no server was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unfound {
    /// Nobody runs in this workdir.
    NotRunning {
        /// The workdir that was looked at.
        workdir: PathBuf,
        /// True if a process that will use it is there already.
        is_starting: bool,
        /// The servers that do run.
        others: Vec<RunningServer>,
    },
    /// None was named, the usual one doesn't run, and there are several.
    Several(Vec<RunningServer>),
    /// The operating system lets this user not read it: what is said of that.
    Denied(String),
}

impl fmt::Display for Unfound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfound::NotRunning { workdir, others, .. } => {
                write!(f, "Could not get hold of varnishd, is it running? No server in {}", workdir.display())?;
                if workdir.is_file() {
                    write!(f, ", which is no directory")?;
                }
                match others.len() {
                    0 if is_proc_hidden() => {
                        write!(f, ". Other users' processes are hidden here: name its directory by -n")
                    }
                    0 => Ok(()),
                    _ => write!(f, ". Running here:{}", Listed(others)),
                }
            }
            Unfound::Several(servers) => {
                write!(f, "Several servers run here, name one by -n:{}", Listed(servers))
            }
            Unfound::Denied(text) => f.write_str(text),
        }
    }
}

/// A line for each server: what to type, and who it is.
struct Listed<'a>(&'a [RunningServer]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for server in self.0.iter().take(LISTED) {
            let name = Name(&server.workdir);
            let (pid, user) = (server.pid, user_name(server.uid));
            if server.is_contained {
                write!(f, "\n  in a container: nsenter -t {pid} -a TOOL -n {name}  (pid {pid})")?;
            } else {
                write!(f, "\n  -n {name}  (pid {pid}, user {user})")?;
            }
        }
        match self.0.len().saturating_sub(LISTED) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

/// A workdir as `-n` takes it on a shell's line. Other users choose these names.
struct Name<'a>(&'a Path);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_instance = self.0.parent() == Some(Path::new(STATE_DIR));
        let name = if is_instance { self.0.file_name().map(Path::new).unwrap_or(self.0) } else { self.0 };
        let text = name.to_string_lossy();
        let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@,=".contains(c);
        if text.chars().all(is_plain) { f.write_str(&text) } else { write!(f, "{text:?}") }
    }
}

fn user_name(uid: u32) -> String {
    user::user_by_id(uid).map_or_else(|| uid.to_string(), |account| account.name)
}

/// Looks once for the server of this name (`-n`). Without a name and without `VARNISH_DEFAULT_N`, a server that runs elsewhere is taken
/// if it is the only one on this machine and belongs to root, to the user `varnish` or to the caller: nobody else's is given to tools that
/// send it a secret.
///
/// # Errors
/// There is none, there are several, or it may not be read.
pub fn find(name: Option<&str>) -> Result<FoundServer, Unfound> {
    let workdir = CounterReader::workdir_of(name);
    if is_running(&workdir)? {
        return Ok(FoundServer { workdir, remark: None });
    }
    let (all, is_starting) = look_around(&workdir);
    let is_named = name.is_some_and(|name| !name.is_empty()) || default_name().is_some();
    // Tools here can't read those of containers.
    let (near, contained): (Vec<_>, Vec<_>) = all.into_iter().partition(|server| !server.is_contained);
    let others = if near.is_empty() { contained } else { near };
    match &others[..] {
        [one] if !is_named && !is_starting && is_trusted(one) => {
            is_running(&one.workdir)?;
            let remark = format!("using the only running server: -n {}", Name(&one.workdir));
            Ok(FoundServer { workdir: one.workdir.clone(), remark: Some(remark) })
        }
        [one, _, ..] if !is_named && !is_starting && !one.is_contained => Err(Unfound::Several(others)),
        _ => Err(Unfound::NotRunning { workdir, is_starting, others }),
    }
}

/// True if a manager runs in `workdir`. An index alone may be a dead one's.
fn is_running(workdir: &Path) -> Result<bool, Unfound> {
    let dir = workdir.join(SetOwner::Manager.dir_name());
    match segments(&dir) {
        Ok(None) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return if is_left_behind(workdir) { Ok(false) } else { Err(Unfound::Denied(denied(workdir, &dir))) };
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(false),
        // What isn't an index is reported by whoever reads it.
        Ok(Some(_)) | Err(_) => {}
    }
    Ok(!is_left_behind(workdir))
}

/// True if the pid file shows that the manager is dead. Its process may be in another container than ours; the lock
/// tells.
fn is_left_behind(workdir: &Path) -> bool {
    let path = workdir.join(PID_FILE);
    let Ok(pid) = pidfile::read(&path) else { return false };
    let is_visibly_alive = Process::read(pid).is_some_and(|process| process.is_server());
    !is_visibly_alive && pidfile::is_locked(&path).is_ok_and(|is_locked| !is_locked)
}

/// The servers that run, and whether a process is there that will use `workdir`.
fn look_around(workdir: &Path) -> (Vec<RunningServer>, bool) {
    let mut servers = Vec::new();
    let mut is_starting = false;
    let processes: Vec<Process> = entries(Path::new("/proc"))
        .filter_map(|entry| Process::read(entry.file_name()?.to_str()?.parse().ok()?))
        .filter(Process::is_server)
        .collect();
    for process in &processes {
        // A worker has its manager's command line.
        if processes.iter().any(|other| other.pid == process.parent && other.words == process.words) {
            continue;
        }
        match process.serves() {
            Some(server) => servers.push(server),
            None => is_starting |= process.workdir() == workdir && process.is_young(),
        }
    }
    if is_proc_hidden() {
        for dir in entries(Path::new(STATE_DIR)) {
            let Ok(pid) = pidfile::read(&dir.join(PID_FILE)) else { continue };
            let is_known = servers.iter().any(|server| server.workdir == dir);
            if let Some(metadata) = fs::symlink_metadata(&dir).ok().filter(|_| !is_known && !is_left_behind(&dir)) {
                servers.push(RunningServer { pid, uid: metadata.uid(), workdir: dir, is_contained: false });
            }
        }
    }
    servers.sort_by(|a, b| a.workdir.cmp(&b.workdir));
    (servers, is_starting)
}

fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(dir).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}

fn is_proc_hidden() -> bool {
    fs::read("/proc/1/cmdline").is_err()
}

/// True if a tool may take it without a name given. Its directory is a real one that only its owner and group change.
fn is_trusted(server: &RunningServer) -> bool {
    let [varnish, vinyl] = user::MANAGERS.map(|name| user::user(name).map(|account| account.uid));
    let owners = [Some(0), Some(user::effective()), varnish, vinyl];
    let is_owned = |metadata: Metadata| {
        metadata.is_dir() && owners.contains(&Some(metadata.uid())) && metadata.mode() & 0o002 == 0
    };
    let metadata = fs::symlink_metadata(&server.workdir);
    // Where even that is refused, reading is refused too, and that is what is reported.
    !server.is_contained && owners.contains(&Some(server.uid)) && metadata.map_or(true, is_owned)
}

/// A process, as everybody sees it.
struct Process {
    pid: u32,
    parent: u32,
    uid: u32,
    /// Pid in each namespace, ours first.
    pids: Vec<u32>,
    words: Vec<String>,
}

impl Process {
    fn read(pid: u32) -> Option<Process> {
        let dir = Path::new("/proc").join(pid.to_string());
        let mut command = Vec::new();
        fs::File::open(dir.join("cmdline")).ok()?.take(PROC_BYTES).read_to_end(&mut command).ok()?;
        let words = command.split(|b| *b == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let status = fs::read_to_string(dir.join("status")).ok()?;
        let numbers = |name: &str| -> Vec<u32> {
            let values = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            values.split_ascii_whitespace().filter_map(|value| value.parse().ok()).collect()
        };
        let parent = numbers("PPid:").first().copied()?;
        let uid = numbers("Uid:").first().copied()?;
        Some(Process { pid, parent, uid, pids: numbers("NSpid:"), words })
    }

    /// True if its command line is that of a server: `varnishd`, of whatever make, or `lacquer serve`.
    fn is_server(&self) -> bool {
        let program = self.words.first().and_then(|word| Path::new(word).file_name()?.to_str()).unwrap_or_default();
        match program {
            "lacquer" => self.words.get(1).is_some_and(|word| word == "serve"),
            program => program == "varnishd" || program == "vinyld",
        }
    }

    fn workdir(&self) -> PathBuf {
        match name_of(self.words.get(1..).unwrap_or_default()) {
            Some(name) => Path::new(STATE_DIR).join(name),
            None => Path::new(STATE_DIR).join("varnishd"),
        }
    }

    fn is_young(&self) -> bool {
        let start = |text: &str| text.rsplit(')').next()?.split_ascii_whitespace().nth(19)?.parse::<f64>().ok();
        let began = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok().and_then(|text| start(&text));
        let uptime = fs::read_to_string("/proc/uptime").ok();
        let now = uptime.and_then(|text| text.split_ascii_whitespace().next()?.parse::<f64>().ok());
        began.zip(now).is_some_and(|(began, now)| now - began / TICKS < YOUNG)
    }

    /// True if it has pids of its own, or files of its own as far as this user may see that.
    fn is_contained(&self) -> bool {
        let files = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt"));
        let theirs = files(&self.pid.to_string()).ok();
        self.pids.len() > 1 || theirs.is_some_and(|theirs| files("self").is_ok_and(|ours| ours != theirs))
    }

    fn serves(&self) -> Option<RunningServer> {
        let server = |workdir, is_contained| RunningServer { pid: self.pid, uid: self.uid, workdir, is_contained };
        let named = self.workdir();
        let is_here = |workdir: &PathBuf| pidfile::read(&workdir.join(PID_FILE)).is_ok_and(|pid| pid == self.pid);
        if is_here(&named) {
            return Some(server(named, false));
        }
        if self.is_contained() {
            return Some(server(named, true));
        }
        if is_closed(&named) {
            return Some(server(named, false));
        }
        // Where the name came by another way than the command line; only its user and root may see that.
        let stands = fs::read_link(format!("/proc/{}/cwd", self.pid)).ok()?;
        is_here(&stands).then(|| server(stands, false))
    }
}

fn is_closed(dir: &Path) -> bool {
    fs::symlink_metadata(dir.join(PID_FILE)).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// The value of `-n` among varnishd's words.
fn name_of(words: &[String]) -> Option<&str> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        // Letters without a value may stand before it.
        let Some(letters) = word.strip_prefix('-').map(|rest| rest.trim_start_matches(['F', 'd', 'C'])) else {
            continue;
        };
        match letters.strip_prefix('n') {
            Some("") => return words.next().map(String::as_str),
            Some(name) => return Some(name),
            None => {}
        }
    }
    None
}

/// The message about a workdir that this user may not read: who that is, which group may, and what to type.
fn denied(workdir: &Path, dir: &Path) -> String {
    format!("{}: Permission denied: {}", workdir.display(), who_may_read("this server", dir))
}

/// The text after "Permission denied: ": the user, the group that may read `path`, and the remedy. `what` names the path in the sentence.
pub fn who_may_read(what: &str, path: &Path) -> String {
    let me = user_name(user::effective());
    let head = format!("you ({me}) may not read {what}");
    let group_may = |metadata: &Metadata| {
        let needed = if metadata.is_dir() { 0o050 } else { 0o040 };
        metadata.gid() != 0 && metadata.mode() & needed == needed
    };
    let group = fs::symlink_metadata(path).ok().filter(group_may);
    let group = group.and_then(|metadata| Some((metadata.gid(), user::group_name(metadata.gid())?)));
    match group {
        Some((gid, group)) => {
            let is_member = user::user(&me).is_some_and(|account| user::groups_of(&account).contains(&gid));
            if is_member {
                format!(
                    "{head} yet: you are in the group {group} since after you logged in. Log in again, or type: newgrp {group}"
                )
            } else {
                format!("{head}, the group {group} may. Type: sudo usermod -aG {group} {me}  and log in again")
            }
        }
        None => {
            let closed = path.ancestors().find(|path| fs::symlink_metadata(path).is_ok()).unwrap_or(path);
            let owner = fs::symlink_metadata(closed).map_or_else(|_| "root".to_owned(), |m| user_name(m.uid()));
            let closed = if closed == path { "it".to_owned() } else { closed.display().to_string() };
            format!("{head}: {closed} belongs to {owner}. Type sudo before the command")
        }
    }
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: BSD-2-Clause
//! Starting, watching and ending child processes: the own executable is opened once and started again from that
//! descriptor, so that replacing the file on disk can't mix two versions.

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

/// Threads that work beside the one that forks.
static OTHERS: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());

/// Does work in a thread of its own; what comes of it is received. The next [`Spawn::start`] waits for its end, so the work has to be bounded,
/// and must not start a process itself.
///
/// # Errors
/// There is no thread for it.
pub fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<Receiver<T>> {
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name("beside".to_owned());
    // Whoever has lost interest doesn't hear of it.
    let thread = thread.spawn(move || _ = sender.send(work()))?;
    let mut others = OTHERS.lock().unwrap_or_else(PoisonError::into_inner);
    others.retain(|other| !other.is_finished());
    others.push(thread);
    Ok(receiver)
}

fn join_others() {
    let others = std::mem::take(&mut *OTHERS.lock().unwrap_or_else(PoisonError::into_inner));
    // One that panicked has ended, too.
    others.into_iter().for_each(|other| _ = other.join());
}

#[derive(Debug)]
pub struct Executable(OwnedFd);

const FOR_EVERYBODY: u32 = 0o001;

impl Executable {
    /// Opens the executable that this process runs. One that its owner alone may execute is copied to memory: a child with
    /// another user could not start it.
    pub fn open_self() -> io::Result<Executable> {
        Executable::open(Path::new("/proc/self/exe"))
    }

    /// Opens another one, likewise.
    pub fn open(path: &Path) -> io::Result<Executable> {
        let mut file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::from_raw_os_error(libc::EACCES));
        }
        if file.metadata()?.permissions().mode() & FOR_EVERYBODY != 0 {
            return Ok(Executable(file.into()));
        }
        let mut copy = File::from(memfd_create(c"lacquer", MFdFlags::MFD_CLOEXEC)?);
        io::copy(&mut file, &mut copy)?;
        // A file that is open for writing can't be executed.
        let read_only = File::open(format!("/proc/self/fd/{}", copy.as_raw_fd()))?;
        Ok(Executable(read_only.into()))
    }

    /// Runs it in the place of this program: the same process, with the descriptors that are inheritable. `env` adds to the
    /// environment. Comes back only when that fails.
    pub fn replace_this_program(&self, argv: &[OsString], env: &[(&str, &str)]) -> io::Error {
        let exec = || {
            let argv: Vec<CString> = argv.iter().map(|arg| c_string(arg)).collect::<io::Result<_>>()?;
            let is_given = |name: &OsString| env.iter().any(|(given, _)| *given == name.as_os_str());
            let kept = std::env::vars_os().filter(|(name, _)| !is_given(name));
            let kept = kept.map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()));
            let given = env.iter().map(|(name, value)| CString::new(format!("{name}={value}")));
            let env: Vec<CString> = kept.chain(given).collect::<Result<_, _>>()?;
            Err::<(), _>(
                nix::unistd::fexecve(&self.0, &argv, &env).map_or_else(io::Error::from, |never| match never {}),
            )
        };
        exec().expect_err("exec comes back with an error only")
    }
}

impl AsFd for Executable {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Executable {
    /// One that was opened before this program ran.
    fn from(file: OwnedFd) -> Executable {
        Executable(file)
    }
}

/// Takes a variable out of the environment, so that no child has it.
///
/// Call it while the process has one thread.
pub fn take_env(name: &str) -> Option<OsString> {
    let value = std::env::var_os(name)?;
    // SAFETY: one thread only (contract), so nobody reads the environment meanwhile.
    unsafe { std::env::remove_var(name) };
    Some(value)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    pub uid: u32,
    /// Group, the same as `uid`.
    pub gid: u32,
    pub groups: Vec<u32>,
}

#[derive(Debug)]
pub struct Spawn<'a> {
    exe: &'a Executable,
    argv: Vec<CString>,
    env: Vec<CString>,
    standard: [Option<BorrowedFd<'a>>; 3],
    keep: Vec<BorrowedFd<'a>>,
    cwd: Option<CString>,
    credentials: Option<Credentials>,
    umask: Option<u32>,
    cpu_seconds: Option<u64>,
    memory_bytes: Option<u64>,
    oom_score: Option<i32>,
    new_group: bool,
    no_core: bool,
    still_blocked: &'a [i32],
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}

impl<'a> Spawn<'a> {
    /// A child that runs `exe` under the name `argv0`. Standard descriptors are inherited unless set.
    pub fn new(exe: &'a Executable, argv0: impl AsRef<OsStr>) -> io::Result<Spawn<'a>> {
        Ok(Spawn {
            exe,
            argv: vec![c_string(argv0.as_ref())?],
            env: Vec::new(),
            standard: [None; 3],
            keep: Vec::new(),
            cwd: None,
            credentials: None,
            umask: None,
            cpu_seconds: None,
            memory_bytes: None,
            oom_score: None,
            new_group: false,
            no_core: false,
            still_blocked: &[],
        })
    }

    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> io::Result<Self> {
        self.argv.push(c_string(arg.as_ref())?);
        Ok(self)
    }

    pub fn env(mut self, name: &str, value: &str) -> io::Result<Self> {
        self.env.push(CString::new(format!("{name}={value}"))?);
        Ok(self)
    }

    pub fn standard(mut self, number: usize, fd: BorrowedFd<'a>) -> Self {
        self.standard[number] = Some(fd);
        self
    }

    /// Lets the child inherit this descriptor under its own number (which must be 3 or more).
    pub fn keep(mut self, fd: BorrowedFd<'a>) -> Self {
        assert!(fd.as_raw_fd() >= 3, "standard descriptors are set with `standard`");
        self.keep.push(fd);
        self
    }

    pub fn cwd(mut self, dir: PathBuf) -> io::Result<Self> {
        self.cwd = Some(c_string(dir.as_os_str())?);
        Ok(self)
    }

    /// Changes user and groups before exec; needs real user id 0.
    pub fn credentials(mut self, credentials: Option<Credentials>) -> Self {
        self.credentials = credentials;
        self
    }

    pub fn umask(mut self, mask: u32) -> Self {
        self.umask = Some(mask);
        self
    }

    /// Limits CPU time, unless less is allowed already; the child gets SIGXCPU, a second later SIGKILL.
    pub fn cpu_seconds(mut self, seconds: u64) -> Self {
        self.cpu_seconds = Some(seconds);
        self
    }

    /// Limits the address space, unless less is allowed already.
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = Some(bytes);
        self
    }

    /// Sets the out-of-memory score (errors ignored: it needs permission to go down).
    pub fn oom_score(mut self, score: i32) -> Self {
        self.oom_score = Some(score);
        self
    }

    /// Puts the child into a process group of its own, away from the terminal's Ctrl-C.
    pub fn new_group(mut self) -> Self {
        self.new_group = true;
        self
    }

    pub fn no_core(mut self) -> Self {
        self.no_core = true;
        self
    }

    /// Leaves signals blocked that this process has blocked. One that comes before the child handles it then waits,
    /// instead of killing it; no thread of the child can get it.
    pub fn still_blocked(mut self, signals: &'a [i32]) -> Self {
        self.still_blocked = signals;
        self
    }

    /// Forks and execs. What fails after the fork makes the child exit with status 127 and a line on its stderr.
    ///
    /// Call it while the process has one thread, but for those of [`beside`], for which it waits.
    pub fn start(self) -> io::Result<Child> {
        join_others();
        // SAFETY: one thread only (contract): no lock can be held by a thread that doesn't exist in the child.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => Child::watch(child),
            ForkResult::Child => {
                let error = self.become_child();
                let text = format!("exec failed: {error}\n");
                let _ = crate::fd::write_all(crate::fd::standard(2), text.as_bytes());
                // SAFETY: ends the child without running the parent's exit handlers.
                unsafe { libc::_exit(127) }
            }
        }
    }

    fn become_child(&self) -> io::Error {
        match self.prepare() {
            Ok(()) => {}
            Err(e) => return e,
        }
        let mut argv: Vec<*const libc::c_char> = self.argv.iter().map(|a| a.as_ptr()).collect();
        argv.push(std::ptr::null());
        let inherited: Vec<CString> = std::env::vars_os()
            .filter_map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok())
            .collect();
        let mut env: Vec<*const libc::c_char> = inherited.iter().chain(&self.env).map(|v| v.as_ptr()).collect();
        env.push(std::ptr::null());
        // SAFETY: both are NULL-terminated arrays of NUL-terminated strings that live in `self` or here.
        unsafe { libc::fexecve(self.exe.0.as_raw_fd(), argv.as_ptr(), env.as_ptr()) };
        io::Error::last_os_error()
    }

    fn prepare(&self) -> io::Result<()> {
        crate::signal::default(libc::SIGPIPE)?;
        crate::signal::default(libc::SIGHUP)?;
        crate::signal::unblock_all_but(self.still_blocked)?;
        if self.new_group {
            nix::unistd::setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
        }
        for fd in &self.keep {
            crate::fd::set_inheritable(fd, true)?;
        }
        for (number, fd) in self.standard.iter().enumerate() {
            if let Some(fd) = fd {
                crate::fd::replace_standard(number as RawFd, fd)?;
            }
        }
        if let Some(score) = self.oom_score {
            let _ = crate::limits::set_oom_score(score);
        }
        if let Some(dir) = &self.cwd {
            nix::unistd::chdir(dir.as_c_str())?;
        }
        self.apply_credentials()?;
        if let Some(mask) = self.umask {
            nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(mask));
        }
        use nix::sys::resource::Resource;
        if let Some(seconds) = self.cpu_seconds {
            crate::limits::lower(Resource::RLIMIT_CPU, seconds, seconds + 1)?;
        }
        if let Some(bytes) = self.memory_bytes {
            crate::limits::lower(Resource::RLIMIT_AS, bytes, bytes)?;
        }
        if self.no_core {
            crate::limits::lower(Resource::RLIMIT_CORE, 0, 0)?;
        }
        Ok(())
    }

    fn apply_credentials(&self) -> io::Result<()> {
        use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
        let Some(to) = &self.credentials else { return Ok(()) };
        if !nix::unistd::geteuid().is_root() {
            nix::unistd::seteuid(Uid::from_raw(0))?;
        }
        let groups: Vec<Gid> = to.groups.iter().copied().map(Gid::from_raw).collect();
        setgroups(&groups)?;
        let (uid, gid) = (Uid::from_raw(to.uid), Gid::from_raw(to.gid));
        setresgid(gid, gid, gid)?;
        Ok(setresuid(uid, uid, uid)?)
    }
}

/// A started child. It isn't ended when dropped. Its descriptor polls readable when it has ended.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    pidfd: OwnedFd,
}

impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Status(i32),
    Signal(i32, bool),
}

impl Child {
    /// A child that this process started before it ran this program.
    pub fn adopt(pid: i32) -> io::Result<Child> {
        Child::watch(Pid::from_raw(pid))
    }

    fn watch(pid: Pid) -> io::Result<Child> {
        // SAFETY: pidfd_open takes a pid and flags and touches no memory of ours; the pid is a child not yet waited for.
        let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0u32) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        OWN.lock().unwrap_or_else(PoisonError::into_inner).insert(pid.as_raw());
        // SAFETY: the call has just made this descriptor (close-on-exec by definition); nobody else owns it.
        Ok(Child { pid, pidfd: unsafe { OwnedFd::from_raw_fd(raw as RawFd) } })
    }

    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Sends a signal. A child that has gone already is no error.
    pub fn kill(&self, signal: i32) -> io::Result<()> {
        let signal = nix::sys::signal::Signal::try_from(signal)?;
        match nix::sys::signal::kill(self.pid, signal) {
            Err(nix::Error::ESRCH) => Ok(()),
            done => Ok(done?),
        }
    }

    /// True while one of its threads may still run. False once all of them are on their way out, though the system may
    /// be busy with the memory for a good while until the child counts as ended.
    ///
    /// # Errors
    /// /proc doesn't tell.
    pub fn has_running_threads(&self) -> io::Result<bool> {
        // A thread may have made another one since the list was read; one that is on its way out makes none.
        Ok(self.lists_running_thread()? || self.lists_running_thread()?)
    }

    fn lists_running_thread(&self) -> io::Result<bool> {
        let mut is_listed = false;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.pid))? {
            match std::fs::read(task?.path().join("stat")) {
                Ok(stat) if is_exiting(&stat) => is_listed = true,
                Ok(_) => return Ok(true),
                // It has gone meanwhile.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => {}
                Err(error) => return Err(error),
            }
        }
        // The first thread stays listed until the parent has waited for the process.
        if is_listed { Ok(false) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// The exit, without waiting: `None` while it lives.
    pub fn try_wait(&self) -> io::Result<Option<Exit>> {
        self.wait_with(Some(WaitPidFlag::WNOHANG))
    }

    pub fn wait(&self) -> io::Result<Exit> {
        loop {
            if let Some(exit) = self.wait_with(None)? {
                return Ok(exit);
            }
        }
    }

    fn wait_with(&self, flags: Option<WaitPidFlag>) -> io::Result<Option<Exit>> {
        let exit = loop {
            break match waitpid(self.pid, flags) {
                Err(nix::Error::EINTR) => continue,
                Ok(WaitStatus::Exited(_, status)) => Exit::Status(status),
                Ok(WaitStatus::Signaled(_, signal, core)) => Exit::Signal(signal as i32, core),
                Ok(_) => return Ok(None),
                Err(e) => return Err(e.into()),
            };
        };
        // Its number may be another process's from now on.
        OWN.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.pid.as_raw());
        Ok(Some(exit))
    }
}

/// Children of this process that a `Child` stands for and that haven't been waited for.
static OWN: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// True if this is process 1, the parent of orphans: in a container those of programs that were run in it beside us.
pub fn is_first() -> bool {
    std::process::id() == 1
}

/// Waits for those children that have ended and are none of ours: they came here when their parents ended. Gives how many there were.
/// Call it in the thread that starts processes.
///
/// # Errors
/// /proc doesn't tell which children there are.
pub fn reap_adopted() -> io::Result<usize> {
    let mut reaped = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        // A thread may have ended meanwhile; its children are another one's then.
        let children = std::fs::read_to_string(task?.path().join("children")).unwrap_or_default();
        for pid in children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()) {
            let is_own = OWN.lock().unwrap_or_else(PoisonError::into_inner).contains(&pid);
            let ended = |status| matches!(status, WaitStatus::Exited(..) | WaitStatus::Signaled(..));
            reaped += usize::from(!is_own && waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG)).is_ok_and(ended));
        }
    }
    Ok(reaped)
}

/// The kernel's PF_EXITING: a thread that has it never gets back to its program.
const EXITING: u64 = 4;

/// True if a thread's line in /proc says that it is on its way out. The name in it may hold anything.
fn is_exiting(stat: &[u8]) -> bool {
    let behind_name = stat.iter().rposition(|&byte| byte == b')').map_or(&[][..], |at| &stat[at + 1..]);
    let flags = behind_name.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).nth(6);
    let flags = flags.and_then(|word| std::str::from_utf8(word).ok()?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & EXITING != 0)
}

pub fn host_name() -> String {
    nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_else(|_| "localhost".into())
}

/// A number for this start of the machine, which no other start has; `None` when the kernel doesn't say.
pub fn boot_number() -> Option<u64> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).ok().filter(|&number| number != 0)
}

/// System, release and machine, as uname(1) says them.
pub fn platform() -> (String, String, String) {
    let word = |text: &OsStr| text.to_string_lossy().into_owned();
    match nix::sys::utsname::uname() {
        Ok(u) => (word(u.sysname()), word(u.release()), word(u.machine())),
        Err(_) => ("Linux".into(), "?".into(), "?".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_on_its_way_out_is_told_by_its_flags() {
        assert!(!is_exiting(b"7 (a) R) S 1 7 7 0 -1 4194304 100 0"));
        assert!(is_exiting(b"7 (a) R) Z 1 7 7 0 -1 4194316 100 0"));
        assert!(!is_exiting(b"7 (a) S 1 7 7 0 -1"));
        assert!(!is_exiting(b""));
    }

    #[test]
    fn a_killed_child_runs_no_thread_though_nobody_has_waited_for_it() {
        let exe = Executable::open(Path::new("/bin/sleep")).unwrap();
        let child = Spawn::new(&exe, "sleep").unwrap().arg("1000").unwrap().start().unwrap();
        assert!(child.has_running_threads().unwrap());
        child.kill(libc::SIGKILL).unwrap();
        crate::fd::wait(&child, crate::fd::Interest::Read, None).unwrap();
        assert!(!child.has_running_threads().unwrap());
        assert_eq!(child.wait().unwrap(), Exit::Signal(libc::SIGKILL, false));
        assert!(child.has_running_threads().is_err());
    }

    #[test]
    fn a_child_that_cannot_exec_says_127() {
        // /dev/null stands for an executable that can't be run.
        let exe = Executable(File::open("/dev/null").unwrap().into());
        let null = File::create("/dev/null").unwrap();
        let child = Spawn::new(&exe, "x").unwrap().standard(2, null.as_fd()).start().unwrap();
        assert_eq!(child.wait().unwrap(), Exit::Status(127));
    }

    #[test]
    fn a_child_is_forked_when_no_work_is_done_beside() {
        let (go, waits) = channel();
        let (done, is_done) = channel();
        let work = beside(move || {
            let told = waits.recv();
            done.send(()).map(|()| told)
        });
        let exe = Executable::open(Path::new("/bin/true")).unwrap();
        go.send(7).unwrap();
        let child = Spawn::new(&exe, "true").unwrap().start().unwrap();
        is_done.try_recv().expect("the work had ended before the child began");
        assert_eq!(work.unwrap().recv(), Ok(Ok(Ok(7))));
        assert_eq!(child.wait().unwrap(), Exit::Status(0));
    }
}

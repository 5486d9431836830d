// SPDX-License-Identifier: BSD-2-Clause
//! Resource limits, the out-of-memory score, process attributes.

use std::ffi::CString;
use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the number of open files to the hard limit, or beyond it when root may; returns the limit now in force.
pub fn raise_open_files(wanted: u64) -> io::Result<u64> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if hard < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, wanted).is_ok() {
        return Ok(wanted);
    }
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok(hard)
}

/// Lets this process and those that it starts lock so much memory, or as much as the hard limit says where only root may
/// raise that.
pub fn raise_locked_memory(wanted: u64) -> io::Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_MEMLOCK)?;
    if soft >= wanted || hard < wanted && setrlimit(Resource::RLIMIT_MEMLOCK, wanted, wanted).is_ok() {
        return Ok(());
    }
    Ok(setrlimit(Resource::RLIMIT_MEMLOCK, wanted.min(hard), hard)?)
}

pub fn open_files_limit() -> io::Result<u64> {
    Ok(getrlimit(Resource::RLIMIT_NOFILE)?.0)
}

/// Number of files that this process has open. Since Linux 6.2 that is one system call; before it the directory is
/// read.
pub fn open_files() -> io::Result<u64> {
    const DIRECTORY: &str = "/proc/self/fd";
    match std::fs::metadata(DIRECTORY)?.len() {
        // The directory itself is open while it is read.
        0 => Ok((std::fs::read_dir(DIRECTORY)?.count() as u64).saturating_sub(1)),
        open => Ok(open),
    }
}

pub fn machine_memory() -> Option<u64> {
    use nix::unistd::{SysconfVar, sysconf};
    let number = |name| sysconf(name).ok().flatten().and_then(|number| u64::try_from(number).ok());
    number(SysconfVar::_PHYS_PAGES)?.checked_mul(number(SysconfVar::PAGE_SIZE)?)
}

/// Sets both limits, or what is in force when that is less: only root may go beyond a hard limit.
pub(crate) fn lower(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let (_, most) = getrlimit(resource)?;
    Ok(setrlimit(resource, soft.min(most), hard.min(most))?)
}

/// Sets the kernel's readiness to pick this process when memory runs out: -1000 (never) to 1000. Without permission: an
/// error, which callers may ignore.
pub fn set_oom_score(score: i32) -> io::Result<()> {
    std::fs::write("/proc/self/oom_score_adj", score.to_string())
}

/// Gives the calling thread the least share of the processors from now on.
pub fn take_least_share() {
    // SAFETY: numbers go in, and a number comes out: 0 is the calling thread on Linux. It may always be asked for less.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
}

/// Lets a process that changed its user dump core.
pub fn set_dumpable(on: bool) -> io::Result<()> {
    Ok(nix::sys::prctl::set_dumpable(on)?)
}

/// The name that `ps -o comm` and `top` show for the calling thread; at most 15 bytes count.
pub fn set_thread_name(name: &str) -> io::Result<()> {
    Ok(nix::sys::prctl::set_name(&CString::new(name)?)?)
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_opened_file_counts() {
        let before = super::open_files().unwrap();
        let files: Vec<_> = (0..50).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let open = super::open_files().unwrap();
        // Tests beside this one open and close some.
        assert!(open > before + 25 && open < before + 75, "{before} {open}");
        assert!(files.len() as u64 <= open && open <= super::open_files_limit().unwrap());
    }
}

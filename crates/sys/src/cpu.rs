// SPDX-License-Identifier: BSD-2-Clause
//! How much of the machine this process may use: CPU affinity, cgroup quota.

use std::fs;
use std::time::Duration;

/// CPUs that affinity and the cgroup's quota leave us, rounded up, at least 1.
pub fn usable() -> usize {
    let by_affinity = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0))
        .map(|set| (0..nix::sched::CpuSet::count()).filter(|&i| set.is_set(i).unwrap_or(false)).count())
        .unwrap_or(1);
    let by_quota = quota().map_or(usize::MAX, |cpus| (cpus.ceil() as usize).max(1));
    by_affinity.min(by_quota).max(1)
}

/// CPU time that this thread has used. It stands while the thread waits, be it for a CPU. Zero when the kernel doesn't say.
pub fn thread_time() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// CPU time that all threads of this process have used. Zero when the kernel doesn't say.
pub fn process_time() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

fn quota() -> Option<f64> {
    let text = fs::read_to_string("/sys/fs/cgroup/cpu.max").ok()?;
    parse_cpu_max(&text)
}

/// `cpu.max` holds "quota period" in microseconds, or "max period".
fn parse_cpu_max(text: &str) -> Option<f64> {
    let mut words = text.split_ascii_whitespace();
    let quota: f64 = words.next()?.parse().ok()?;
    let period: f64 = words.next()?.parse().ok()?;
    (period > 0.0).then_some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_max_is_quota_over_period() {
        assert_eq!(parse_cpu_max("150000 100000\n"), Some(1.5));
        assert_eq!(parse_cpu_max("max 100000\n"), None);
        assert!(usable() >= 1);
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! What the server's processes and ours cost: CPU time of processes and their children (/proc), or of a cgroup.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::stats::MAX_SECONDS;

const MAX_PROCESSES: usize = 10_000;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WatchedServer {
    Pids(Vec<u32>),
    Cgroup(PathBuf),
}

/// CPU seconds at the start and the last time they could be read.
#[derive(Debug)]
pub struct CpuMeter {
    watched: WatchedServer,
    first: f64,
    last: f64,
    /// CPU seconds of each second, in step with the series of the answers.
    seconds: Vec<f64>,
    /// CPU seconds at the end of the last of them.
    last_second: f64,
    is_gone: bool,
}

impl CpuMeter {
    pub fn new(watched: WatchedServer) -> Result<CpuMeter, String> {
        let first = cpu_seconds(&watched).ok_or_else(|| match &watched {
            WatchedServer::Pids(pids) => format!("--pid: no process {}", list(pids)),
            WatchedServer::Cgroup(path) => format!("--cgroup: {}/cpu.stat can't be read", path.display()),
        })?;
        Ok(CpuMeter { watched, first, last: first, seconds: Vec::new(), last_second: first, is_gone: false })
    }

    pub fn look(&mut self) {
        match cpu_seconds(&self.watched) {
            // A child that ended takes its time with it, unless its parent has waited for it.
            Some(now) if now >= self.last => self.last = now,
            Some(_) => {}
            None => self.is_gone = true,
        }
    }

    pub fn restart(&mut self) {
        self.look();
        (self.first, self.last_second) = (self.last, self.last);
        self.seconds.clear();
    }

    pub fn end_second(&mut self) {
        self.look();
        if self.seconds.len() >= MAX_SECONDS {
            self.seconds.remove(0);
        }
        self.seconds.push(self.last - self.last_second);
        self.last_second = self.last;
    }

    pub fn series(&self) -> Value {
        self.seconds.iter().map(|cpu| json!(round(cpu * 1e3, 3))).collect()
    }

    pub fn used(&self) -> f64 {
        self.last - self.first
    }

    pub fn json(&self, seconds: f64, answers: u64) -> Value {
        json!({
            "cpu_seconds": round(self.used(), 3),
            "cpu_percent": round(100.0 * self.used() / seconds, 1),
            "us_per_answer": if answers == 0 { Value::Null } else { json!(round(self.used() * 1e6 / answers as f64, 2)) },
            "gone": self.is_gone,
        })
    }
}

pub fn round(n: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (n * scale).round() / scale
}

fn list(pids: &[u32]) -> String {
    pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

pub fn own_cpu_seconds() -> f64 {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike;
    getrusage(UsageWho::RUSAGE_SELF)
        .map_or(0.0, |usage| (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6)
}

fn cpu_seconds(watched: &WatchedServer) -> Option<f64> {
    match watched {
        WatchedServer::Cgroup(path) => {
            let text = fs::read_to_string(path.join("cpu.stat")).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
            Some(line.trim().parse::<f64>().ok()? / 1e6)
        }
        WatchedServer::Pids(pids) => {
            let mut tree: Vec<u32> = pids.clone();
            let mut at = 0;
            while at < tree.len() && tree.len() < MAX_PROCESSES {
                let more = children(tree[at]);
                more.into_iter().for_each(|pid| {
                    if !tree.contains(&pid) {
                        tree.push(pid)
                    }
                });
                at += 1;
            }
            let known: Vec<f64> = tree.iter().filter_map(|pid| of_process(*pid)).collect();
            if known.is_empty() { None } else { Some(known.iter().sum()) }
        }
    }
}

fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let text = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    tasks.flatten().flat_map(|task| text(task).split_whitespace().flat_map(str::parse).collect::<Vec<u32>>()).collect()
}

/// User and system time of a process and of the children it has waited for.
fn of_process(pid: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: f64 = fields.get(11..15)?.iter().map(|f| f.parse::<f64>().unwrap_or(0.0)).sum();
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
    Some(ticks / per_second as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_time_is_seen() {
        let pid = std::process::id();
        let mut meter = CpuMeter::new(WatchedServer::Pids(vec![pid])).unwrap();
        let begun = own_cpu_seconds();
        while own_cpu_seconds() - begun < 0.1 {
            std::hint::black_box((0..1000).sum::<u64>());
        }
        meter.end_second();
        meter.end_second();
        let series: Vec<f64> = serde_json::from_value(meter.series()).unwrap();
        assert!(series.len() == 2 && series[0] >= 80.0 && series[1] < series[0], "{series:?}");
        assert!(meter.used() >= 0.08 && !meter.is_gone, "{}", meter.used());
        assert!(CpuMeter::new(WatchedServer::Pids(vec![u32::MAX])).is_err());
        assert!(CpuMeter::new(WatchedServer::Cgroup("/nowhere".into())).is_err());
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Rules about the host's memory, processors and what a control group leaves of them.

use base::text::binary_bytes;

use crate::host::{Host, HostSpan, named, pressure};
use crate::rule::{Area, Rule, SOUND, Severity, count, percent, when};

pub const RULES: &[Rule] = &[
    Rule {
        id: "memory-oversold",
        area: Area::Host,
        severity: Severity::Fault,
        what: "The stores may take more memory than there is",
        why: "A store's size counts bodies and heads alone; connections, workspaces and the index come on top. When the memory is used up the \
              server swaps or is killed, and what it has cached is lost.",
        remedy: &[
            "-s malloc,SIZE with at most three quarters of the memory",
            "(ours: -p memory_limit=auto keeps the whole server within its control group)",
        ],
        evidence: "arguments -s malloc of the manager: 80 % of MemTotal or of the control group's limit or more, or no size at all",
        look: |facts| {
            let stores: Vec<_> = facts.stores()?.into_iter().filter(|store| store.is_memory()).collect();
            if stores.is_empty() {
                return SOUND;
            }
            let total = named(&facts.host.needs("proc/meminfo")?, "MemTotal").ok_or("/proc/meminfo doesn't say")? << 10;
            let (limit, whose) = match facts.host.memory_limit() {
                Some((dir, limit)) if limit < total => (limit, format!("the control group /{dir} allows")),
                _ => (total, "the machine has".to_owned()),
            };
            if let Some(store) = stores.iter().find(|store| store.memory().is_none()) {
                return when(true, || format!("-s {} has no size; {whose} {}", store.spec, binary_bytes(limit)));
            }
            let sold: u64 = stores.iter().filter_map(|store| store.memory()).fold(0, u64::saturating_add);
            when(sold >= limit / 5 * 4, || {
                format!("the stores may take {}; {whose} {}", binary_bytes(sold), binary_bytes(limit))
            })
        },
    },
    Rule {
        id: "swapped",
        area: Area::Host,
        severity: Severity::Fault,
        what: "A part of the server is in swap",
        why: "A hit may have to wait for a disk, and all other requests of that thread with it.",
        remedy: &[
            "swapoff -a    # when there is memory enough for what is in swap: free -m",
            "sysctl -w vm.swappiness=1",
            "(or smaller stores: -s malloc,SIZE)",
        ],
        evidence: "/proc/PID/status of the server's worker: VmSwap, 16 MB or more",
        look: |facts| {
            let text = facts.host.needs(&facts.host.of_process("status")?)?;
            let swapped = named(&text, "VmSwap").unwrap_or(0) << 10;
            when(swapped >= 16 << 20, || {
                format!("{} of process {} are in swap", binary_bytes(swapped), facts.host.pid.unwrap_or(0))
            })
        },
    },
    Rule {
        id: "memory-pressure",
        area: Area::Host,
        severity: Severity::Warning,
        what: "Programs wait for memory",
        why: "The kernel has to free memory before it can give any: swapping, or reading program files again and again.",
        remedy: &[
            "free -m",
            "ps -eo rss,args --sort -rss | head",
            "(smaller stores, or fewer programs on this machine)",
        ],
        evidence: "/proc/pressure/memory: some avg60, 5 % or more",
        look: |facts| {
            let share = pressure(&facts.host.needs("proc/pressure/memory")?).ok_or("/proc/pressure/memory is odd")?;
            when(share >= 5.0, || format!("{share:.0} % of the last minute some program waited for memory"))
        },
    },
    Rule {
        id: "cpu-pressure",
        area: Area::Host,
        severity: Severity::Warning,
        what: "Programs wait for a CPU most of the time",
        why: "Requests wait for their turn before the server can look at them.",
        remedy: &["top    # who else works on this machine?", "lacquer vcl profile    # which lines of VCL cost most"],
        evidence: "/proc/pressure/cpu: some avg60, 60 % or more",
        look: |facts| {
            let share = pressure(&facts.host.needs("proc/pressure/cpu")?).ok_or("/proc/pressure/cpu is odd")?;
            when(share >= 60.0, || format!("{share:.0} % of the last minute some program waited for a CPU"))
        },
    },
    Rule {
        id: "oom-kills",
        area: Area::Host,
        severity: Severity::Warning,
        what: "The kernel has killed programs because memory was used up",
        why: "The server is often the greatest program on its machine, and so the one that is killed.",
        remedy: &["dmesg -T | grep -i 'killed process'", "(smaller stores, or a memory_limit)"],
        evidence: "/proc/vmstat: oom_kill, 1 or more",
        look: |facts| {
            let host = &facts.host;
            let kills = host.grown("proc/vmstat", |text| named(text, "oom_kill"))?;
            when(kills > 0, || format!("{} programs killed {}", count(kills), host.since()))
        },
    },
    Rule {
        id: "cgroup-oom",
        area: Area::Host,
        severity: Severity::Fault,
        what: "Processes of the server's control group were killed because its memory was used up",
        why: "The limit of the control group (systemd's MemoryMax, a container's --memory) counts everything: stores, connections, the log's \
              memory and cached files. A worker that is killed costs all requests in flight.",
        remedy: &["systemctl show -p MemoryMax varnish", "(a higher limit, or smaller stores)"],
        evidence: "memory.events of the control group: oom_kill, 1 or more (memory.oom_control under version 1)",
        look: |facts| {
            let host = &facts.host;
            let (dir, _) = host.cgroup("memory", "memory.events", "memory.oom_control")?;
            let file = ["memory.events", "memory.oom_control"].map(|file| format!("{dir}/{file}"));
            let path = file.into_iter().find(|path| host.has(path)).ok_or("the control group doesn't say")?;
            let kills = host.grown(&path, |text| named(text, "oom_kill"))?;
            when(kills > 0, || format!("/{path}: {} killed", count(kills)))
        },
    },
    Rule {
        id: "cgroup-memory",
        area: Area::Host,
        severity: Severity::Warning,
        what: "The memory of the server's control group is nearly used up",
        why: "At the limit the kernel kills a process of the group. Cached files that can be given back aren't counted here.",
        remedy: &["systemctl set-property varnish MemoryMax=SIZE", "(or smaller stores)"],
        evidence: "memory.current less inactive_file of memory.stat, 90 % of memory.max or more, of the group or one above it (and the same under version 1)",
        look: |facts| {
            let host = &facts.host;
            let limits = host.memory_limits();
            let used = limits.into_iter().map(|(dir, limit)| Ok((used(host, &dir)?, limit, dir)));
            let used = used.collect::<Result<Vec<_>, String>>()?;
            let fullest =
                used.into_iter().max_by(|(a, of_a, _), (b, of_b, _)| share(*a, *of_a).total_cmp(&share(*b, *of_b)));
            let Some((used, limit, dir)) = fullest else { return SOUND };
            when(share(used, limit) >= 0.9, || {
                format!("/{dir}: {} of {} ({})", binary_bytes(used), binary_bytes(limit), percent(used, limit))
            })
        },
    },
    Rule {
        id: "cgroup-cpu",
        area: Area::Host,
        severity: Severity::Warning,
        what: "The server's control group is stopped because it has used up its share of CPU time",
        why: "With a quota (CPUQuota, --cpus) all threads stand still until the next period begins: up to 0.1 seconds for each request.",
        remedy: &["systemctl set-property varnish CPUQuota=", "(or as many CPUs as the server has threads)"],
        evidence: "cpu.stat of the control group or one above it: nr_throttled, 5 % of nr_periods or more, of at least 100 (10 while watched)",
        look: |facts| {
            let host = &facts.host;
            let groups = host.cgroups("cpu", "cpu.stat", "cpu.stat")?;
            let grown =
                |dir: &str, name| host.grown(&format!("{dir}/cpu.stat"), |text| Some(named(text, name).unwrap_or(0)));
            // Each group counts what its own quota did alone.
            let counted =
                groups.iter().map(|(dir, _)| Ok((grown(dir, "nr_throttled")?, grown(dir, "nr_periods")?, dir)));
            let counted = counted.collect::<Result<Vec<_>, String>>()?;
            let enough = if host.span() == HostSpan::Watched { 10 } else { 100 };
            let counted = counted.into_iter().filter(|(_, periods, _)| *periods >= enough);
            let worst = counted.max_by(|(a, of_a, _), (b, of_b, _)| share(*a, *of_a).total_cmp(&share(*b, *of_b)));
            let Some((throttled, periods, dir)) = worst else { return SOUND };
            when(throttled * 20 >= periods, || {
                format!(
                    "/{dir}: stopped in {} of {} periods ({})",
                    count(throttled),
                    count(periods),
                    percent(throttled, periods)
                )
            })
        },
    },
    Rule {
        id: "cgroup-pids",
        area: Area::Host,
        severity: Severity::Warning,
        what: "The server's control group may hardly make a further thread or process",
        why: "A worker that can't make a thread refuses requests; a manager that can't make a process can't start a worker.",
        remedy: &["systemctl set-property varnish TasksMax=infinity"],
        evidence: "pids.current of the control group or one above it, 80 % of pids.max or more",
        look: |facts| {
            let host = &facts.host;
            let groups = host.cgroups("pids", "pids.max", "pids.max").unwrap_or_default();
            let limits = groups.into_iter().filter_map(|(dir, most)| Some((dir, most.trim().parse::<u64>().ok()?)));
            let numbers = limits.map(|(dir, most)| Ok((host.number(&format!("{dir}/pids.current"))?, most, dir)));
            let numbers = numbers.collect::<Result<Vec<_>, String>>()?;
            let fullest =
                numbers.into_iter().max_by(|(a, of_a, _), (b, of_b, _)| share(*a, *of_a).total_cmp(&share(*b, *of_b)));
            let Some((now, most, dir)) = fullest else { return SOUND };
            when(share(now, most) >= 0.8, || format!("/{dir}: {} of {}", count(now), count(most)))
        },
    },
    Rule {
        id: "thp",
        area: Area::Host,
        severity: Severity::Notice,
        what: "Transparent huge pages are used always",
        why: "Small pieces of memory take 2 MB each, so that a server with many objects needs far more memory than its stores say; and \
              requests wait while the kernel puts pages together.",
        remedy: &["echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"],
        evidence: "/sys/kernel/mm/transparent_hugepage/enabled, [always]",
        look: |facts| {
            let text = facts.host.needs("sys/kernel/mm/transparent_hugepage/enabled")?;
            when(text.contains("[always]"), || format!("it says: {}", text.trim()))
        },
    },
    Rule {
        id: "overcommit",
        area: Area::Host,
        severity: Severity::Notice,
        what: "The kernel gives no more memory than it has (vm.overcommit_memory)",
        why: "Address space counts as memory then: a worker that wants a large store, or a manager that starts a second worker beside the first, \
              may be refused although memory is free.",
        remedy: &["sysctl -w vm.overcommit_memory=0"],
        evidence: "vm.overcommit_memory, 2",
        look: |facts| when(facts.host.sysctl("vm.overcommit_memory")? == 2, || "vm.overcommit_memory is 2".into()),
    },
];

fn share(part: u64, of: u64) -> f64 {
    part as f64 / of.max(1) as f64
}

/// Bytes of memory that a control group uses, without cached files that can be given back.
fn used(host: &Host, dir: &str) -> Result<u64, String> {
    let used = host
        .number(&format!("{dir}/memory.current"))
        .or_else(|_| host.number(&format!("{dir}/memory.usage_in_bytes")))?;
    let stat = host.text(&format!("{dir}/memory.stat")).unwrap_or_default();
    let files = named(&stat, "total_inactive_file").or_else(|| named(&stat, "inactive_file")).unwrap_or(0);
    Ok(used.saturating_sub(files))
}

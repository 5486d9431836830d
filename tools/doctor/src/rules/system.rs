// SPDX-License-Identifier: BSD-2-Clause
//! Rules about the host's files, processes, clock and names.

use std::path::Path;

use base::text::binary_bytes;

use crate::facts::DoctorFacts;
use crate::host::{Host, Mount, mount_of};
use crate::rule::{Area, Finding, Rule, SOUND, Severity, count, found_at, percent, when};

/// Bytes that a working directory needs: a worker's counters, and a VCL with its sources.
const LEAST_ROOM: u64 = 16 << 20;

pub const RULES: &[Rule] = &[
    Rule {
        id: "log-on-disk",
        area: Area::Host,
        severity: Severity::Warning,
        what: "The log in shared memory is on a disk",
        why: "The kernel writes the pages that change back to the disk: 80 MB again and again, which a busy disk makes every request wait for.",
        remedy: &[
            "systemctl enable --now var-lib-varnish-varnishd.mount    # our package has it",
            "echo 'tmpfs /var/lib/varnish tmpfs nodev,nosuid,size=150M 0 0' >> /etc/fstab && mount /var/lib/varnish",
            "(then start the server again)",
        ],
        evidence: "/proc/PID/mountinfo: what the working directory is on, neither tmpfs nor ramfs",
        look: |facts| {
            let workdir = facts.server()?.workdir.as_deref().ok_or("the server's directory isn't known")?;
            let mount = mount(&facts.host, workdir)?;
            when(!["tmpfs", "ramfs"].contains(&mount.kind.as_str()), || {
                format!("{} is on {} ({})", workdir.display(), mount.point, mount.kind)
            })
        },
    },
    Rule {
        id: "disk-full",
        area: Area::Host,
        severity: Severity::Fault,
        what: "The file system of the working directory is full",
        why: "No VCL can be loaded and no worker can begin: a reload fails, and a worker that ends stays away. The server's log, its counters and \
              the journal of bans are there.",
        remedy: &["df -h {}", "du -xah {} | sort -h | tail    # the largest files", "(then: varnishadm start)"],
        evidence: "statvfs of the working directory: less than 16 MB to write",
        look: |facts| {
            let workdir = facts.server()?.workdir.as_deref().ok_or("the server's directory isn't known")?;
            let room = facts.host.room(workdir)?;
            let finding = || {
                found_at(
                    workdir.display().to_string(),
                    format!("{} are left in {}", binary_bytes(room), workdir.display()),
                )
            };
            Ok(if room < LEAST_ROOM { vec![finding()] } else { Vec::new() })
        },
    },
    Rule {
        id: "store-atime",
        area: Area::Host,
        severity: Severity::Notice,
        what: "The file system of the store {} writes down when files are read",
        why: "A store is written all the time, so that even with relatime each read after a write has the file's inode written anew.",
        remedy: &["mount -o remount,noatime MOUNTPOINT    # and noatime in /etc/fstab"],
        evidence: "arguments -s of the manager, /proc/PID/mountinfo: no noatime",
        look: |facts| {
            of_stores(facts, |_, path, mount| {
                let is_quiet = mount.options.split(',').any(|option| option == "noatime");
                (!is_quiet).then(|| found_at(path, format!("{} ({}) has {}", mount.point, mount.kind, mount.options)))
            })
        },
    },
    Rule {
        id: "store-rotational",
        area: Area::Host,
        severity: Severity::Notice,
        what: "The store {} is on a disk that turns",
        why: "Objects lie anywhere, and each read moves the heads: a hundred hits a second. A disk without moving parts has a hundred times that.",
        remedy: &["(move the store to an SSD; or a larger front in memory: front=SIZE)"],
        evidence: "arguments -s of the manager; /sys/dev/block/MAJOR:MINOR/queue/rotational, 1",
        look: |facts| {
            of_stores(facts, |host, path, mount| {
                let dir = format!("sys/dev/block/{}", mount.device);
                // A partition has its disk above it.
                let turns =
                    ["queue/rotational", "../queue/rotational"].map(|file| host.number(&format!("{dir}/{file}")));
                turns
                    .into_iter()
                    .flatten()
                    .next()
                    .filter(|n| *n == 1)
                    .map(|_| found_at(path, format!("/{dir} is rotational")))
            })
        },
    },
    Rule {
        id: "descriptors-used",
        area: Area::Host,
        severity: Severity::Fault,
        what: "The server has hardly a file descriptor left",
        why: "Each connection takes one. Without a free one no client is accepted and no backend is asked.",
        remedy: &[
            "ls /proc/PID/fd | wc -l",
            "systemctl edit varnish    # [Service] LimitNOFILE=1048576",
            "varnishadm param.set timeout_idle 5",
        ],
        evidence: "/proc/PID/fd and limits of the worker: 80 % or more",
        look: |facts| {
            let host = &facts.host;
            let limit = limit(host, "Max open files")?;
            let open = host.entries(&host.of_process("fd")?).ok_or("/proc/PID/fd can't be read")?;
            let Some(limit) = limit else { return SOUND };
            when(open * 5 >= limit * 4, || {
                format!("{} of {} are open ({})", count(open), count(limit), percent(open, limit))
            })
        },
    },
    Rule {
        id: "descriptor-limit",
        area: Area::Host,
        severity: Severity::Warning,
        what: "The server may open few files: so many connections it can have at most",
        why: "Two descriptors for each request that is fetched, one for each idle client; and each store, log and program of its own.",
        remedy: &[
            "systemctl edit varnish    # [Service] LimitNOFILE=131072",
            "(or ulimit -n 131072 before it is started)",
        ],
        evidence: "/proc/PID/limits of the worker: Max open files, less than 16,384",
        look: |facts| {
            let limit = limit(&facts.host, "Max open files")?;
            when(limit.is_some_and(|limit| limit < 16_384), || {
                format!("Max open files is {}", count(limit.unwrap_or(0)))
            })
        },
    },
    Rule {
        id: "file-table",
        area: Area::Host,
        severity: Severity::Fault,
        what: "The machine has hardly a file descriptor left",
        why: "All programs share the kernel's table. When it is full no connection can be accepted.",
        remedy: &["sysctl -w fs.file-max=4000000"],
        evidence: "/proc/sys/fs/file-nr: the first number, 80 % of the third or more",
        look: |facts| {
            let numbers = facts.host.sysctls("fs.file-nr")?;
            let [open, _, most] = numbers[..] else { return Err("/proc/sys/fs/file-nr is odd".into()) };
            when(open / 4 >= most / 5, || format!("{} of {}", count(open), count(most)))
        },
    },
    Rule {
        id: "threads-allowed",
        area: Area::Host,
        severity: Severity::Warning,
        what: "The kernel allows fewer threads than the server may want",
        why: "When thread_pools x thread_pool_max threads are wanted and can't be made, requests are dropped.",
        remedy: &[
            "systemctl edit varnish    # [Service] LimitNPROC=infinity, TasksMax=infinity",
            "sysctl -w kernel.threads-max=200000",
            "sysctl -w kernel.pid_max=200000",
        ],
        evidence: "/proc/PID/limits: Max processes; kernel.threads-max, kernel.pid_max; parameters thread_pools x thread_pool_max (a genuine varnishd's)",
        look: |facts| {
            let server = facts.server()?;
            if server.is_ours() {
                return SOUND;
            }
            let wanted = (server.number("thread_pools")? * server.number("thread_pool_max")?) as u64;
            let host = &facts.host;
            let limits = [
                ("Max processes", limit(host, "Max processes").ok().flatten()),
                ("kernel.threads-max", host.sysctl("kernel.threads-max").ok()),
                ("kernel.pid_max", host.sysctl("kernel.pid_max").ok()),
            ];
            let least = limits.iter().filter_map(|(name, limit)| Some((limit.as_ref()?, name))).min();
            let Some((least, name)) = least else { return Err("no limit of threads can be read".into()) };
            when(*least < wanted, || format!("{name} is {}, the server may want {}", count(*least), count(wanted)))
        },
    },
    Rule {
        id: "user-threads",
        area: Area::Host,
        severity: Severity::Warning,
        what: "The server's user may hardly have a further thread",
        why: "Lookups of names and reads of files have a small pool of threads, and a new worker needs some eight and one for each CPU. Without \
              them lookups wait for each other, and a worker that ended can't be replaced.",
        remedy: &[
            "systemctl edit varnish    # [Service] LimitNPROC=infinity",
            "ps -L -u vcache | wc -l    # what else runs as this user",
        ],
        evidence: "/proc/*/status: Threads of all processes of the worker's user, 80 % or more of Max processes in /proc/PID/limits; root has no limit",
        look: |facts| {
            let host = &facts.host;
            let user = user_and_threads(&host.needs(&host.of_process("status")?)?).map(|(user, _)| user);
            let Some(most) = limit(host, "Max processes")? else { return SOUND };
            let Some(user) = user.filter(|user| *user != 0) else { return SOUND };
            let processes =
                host.names("proc").into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
            let of_all = processes.filter_map(|pid| user_and_threads(&host.text(&format!("proc/{pid}/status"))?));
            let now = of_all.filter(|(owner, _)| *owner == user).map(|(_, threads)| threads).sum::<u64>();
            when(now * 5 >= most * 4, || format!("user {user} has {} threads of {}", count(now), count(most)))
        },
    },
    Rule {
        id: "32-bit",
        area: Area::Host,
        severity: Severity::Warning,
        what: "The server is a program of 32 bits",
        why: "It has an address space of 3 GB at most for stores, connections and threads together.",
        remedy: &["(install the package for a 64-bit system)"],
        evidence: "/proc/PID/exe of the worker: the class in its ELF header",
        look: |facts| {
            let head = facts.host.bytes(&facts.host.of_process("exe")?, 5).ok_or("/proc/PID/exe can't be read")?;
            when(head == b"\x7fELF\x01", || "its ELF class is 32".into())
        },
    },
    Rule {
        id: "uptime-208",
        area: Area::Host,
        severity: Severity::Fault,
        what: "This kernel fails after 208 days",
        why: "The clock of the scheduler of Linux 2.6.28 to 3.1 overflows after 208.5 days without a boot: the machine stands still or restarts.",
        remedy: &["(boot it at a time of your own choice, soon; install a later kernel)"],
        evidence: "/proc/version: 2.6.28 to 3.1; /proc/uptime, 180 days or more",
        look: |facts| {
            let text = facts.host.needs("proc/version")?;
            let version = kernel(&text).ok_or("/proc/version is odd")?;
            let days = facts.host.uptime()? / 86_400.0;
            let is_old = ([2, 6, 28]..[3, 2, 0]).contains(&version);
            when(is_old && days >= 180.0, || {
                format!("Linux {}.{}.{}, up {days:.0} days", version[0], version[1], version[2])
            })
        },
    },
    Rule {
        id: "clocksource",
        area: Area::Host,
        severity: Severity::Warning,
        what: "Reading the time is slow on this machine",
        why: "A server reads the clock several times for each request. This source of time is a device, which takes microseconds and a system \
              call instead of nanoseconds.",
        remedy: &[
            "cat /sys/devices/system/clocksource/clocksource0/available_clocksource",
            "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
            "dmesg | grep -i tsc    # why the kernel doesn't trust it",
        ],
        evidence: "/sys/devices/system/clocksource/clocksource0/current_clocksource: hpet, acpi_pm, pit, jiffies, xen",
        look: |facts| {
            let source = facts.host.needs("sys/devices/system/clocksource/clocksource0/current_clocksource")?;
            let source = source.trim();
            when(["hpet", "acpi_pm", "pit", "jiffies", "xen", "refined-jiffies"].contains(&source), || {
                format!("it is {source}")
            })
        },
    },
    Rule {
        id: "clock-alone",
        area: Area::Host,
        severity: Severity::Warning,
        what: "Nothing keeps this machine's clock right",
        why: "Dates of answers, their ages and what has expired are reckoned with the clock. One that is some minutes off makes objects of \
              origins too old or too fresh.",
        remedy: &["apt-get install chrony    # or: systemctl enable --now systemd-timesyncd", "timedatectl"],
        evidence: "/proc/*/comm: no chronyd, ntpd, systemd-timesyncd, ptp4l, phc2sys or openntpd; not looked at in a container",
        look: |facts| {
            let host = &facts.host;
            host.needs("proc/1/comm")?;
            if is_container(host) {
                return Err("this is a container, whose clock is its host's".into());
            }
            let is_process = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
            let mut processes = host.names("proc").into_iter().filter(is_process);
            let keeps =
                |pid: String| host.text(&format!("proc/{pid}/comm")).is_some_and(|name| KEEPERS.contains(&name.trim()));
            when(!processes.any(keeps), || "no program that does runs".into())
        },
    },
    Rule {
        id: "governor",
        area: Area::Host,
        severity: Severity::Notice,
        what: "The CPUs are kept at their lowest speed",
        why: "With the governor powersave of this driver a CPU never goes faster, however much there is to do.",
        remedy: &["echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"],
        evidence: "/sys/devices/system/cpu/cpu0/cpufreq: scaling_governor powersave, scaling_driver other than intel_pstate, amd-pstate-epp",
        look: |facts| {
            let dir = "sys/devices/system/cpu/cpu0/cpufreq";
            // A virtual machine has none.
            let Some(governor) = facts.host.text(&format!("{dir}/scaling_governor")) else { return SOUND };
            let driver = facts.host.text(&format!("{dir}/scaling_driver")).unwrap_or_default();
            // Those choose a speed by themselves under that name.
            let is_clever = ["intel_pstate", "amd-pstate-epp"].contains(&driver.trim());
            when(governor.trim() == "powersave" && !is_clever, || format!("powersave of {}", driver.trim()))
        },
    },
    Rule {
        id: "dns-none",
        area: Area::Host,
        severity: Severity::Notice,
        what: "No server to ask for names is named: the one on this machine is asked",
        why: "Without a nameserver in /etc/resolv.conf the resolver asks port 53 of 127.0.0.1. Where nothing answers there, backends with a host \
              name can't be found: a VCL with one doesn't load, or keeps the addresses that it had.",
        remedy: &[
            "getent hosts BACKEND    # is it found?",
            "echo 'nameserver 192.0.2.53' >> /etc/resolv.conf    # where it isn't",
        ],
        evidence: "/etc/resolv.conf: no nameserver",
        look: |facts| when(nameservers(&facts.host)?.is_empty(), || "/etc/resolv.conf names none".into()),
    },
    Rule {
        id: "dns-one",
        area: Area::Host,
        severity: Severity::Notice,
        what: "There is one server to ask for names, and nobody else when it is down",
        why: "Each look-up then waits 5 seconds and more, and a VCL with host names can't be loaded.",
        remedy: &["(a second nameserver in /etc/resolv.conf, or a resolver on this host: systemd-resolved, unbound)"],
        evidence: "/etc/resolv.conf: one nameserver, not on loopback",
        look: |facts| {
            let servers = nameservers(&facts.host)?;
            let is_local = |server: &String| server.starts_with("127.") || server == "::1";
            when(servers.len() == 1 && !servers.iter().any(is_local), || format!("it is {}", servers[0]))
        },
    },
    Rule {
        id: "dns-ndots",
        area: Area::Host,
        severity: Severity::Notice,
        what: "Each name is looked up several times under other names first",
        why: "A name with fewer dots than ndots is first tried with each domain of `search` behind it: a backend's name costs that many look-ups \
              more, and waits as often when the server is slow.",
        remedy: &["options ndots:1    # in /etc/resolv.conf", "(or names of backends with a dot at their end)"],
        evidence: "/etc/resolv.conf: options ndots of 3 or more, with a search list",
        look: |facts| {
            let text = facts.host.needs("etc/resolv.conf")?;
            let ndots = text.split_ascii_whitespace().find_map(|word| word.strip_prefix("ndots:")?.parse::<u32>().ok());
            let search = text
                .lines()
                .find(|line| line.starts_with("search "))
                .map(|line| line.split_ascii_whitespace().count() - 1);
            when(ndots.is_some_and(|n| n >= 3) && search.is_some_and(|n| n > 0), || {
                format!("ndots is {}, {} domains are tried", ndots.unwrap_or(0), search.unwrap_or(0))
            })
        },
    },
    Rule {
        id: "sysctl-unknown",
        area: Area::Host,
        severity: Severity::Warning,
        what: "The kernel has no setting {}",
        why: "The line in sysctl's files does nothing: its name is wrong, so that the setting is what it always was.",
        remedy: &["sysctl -a | grep NAME    # as the kernel calls it", "sysctl --system"],
        evidence: "/etc/sysctl.conf, /etc/sysctl.d/*.conf: names that aren't below /proc/sys (but those of interfaces and of modules that may be loaded later)",
        look: |facts| {
            let host = &facts.host;
            let mut files = vec!["etc/sysctl.conf".to_owned()];
            files.extend(
                host.names("etc/sysctl.d")
                    .into_iter()
                    .filter(|name| name.ends_with(".conf"))
                    .map(|name| format!("etc/sysctl.d/{name}")),
            );
            if !host.has("proc/sys") {
                return Err("/proc/sys can't be read".into());
            }
            let texts = files.iter().filter_map(|file| Some((file, host.text(file)?)));
            let mut findings: Vec<Finding> =
                texts.flat_map(|(file, text)| unknown_settings(host, file, &text)).collect();
            // A file may be there under two names.
            findings.sort_by(|a, b| a.subject.cmp(&b.subject));
            findings.dedup_by(|a, b| a.subject == b.subject);
            Ok(findings)
        },
    },
];

/// Programs that keep a clock right.
const KEEPERS: [&str; 7] = ["chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys", "openntpd", "ntpd-rs"];
/// Settings that are compared with one that doesn't exist.
const MOST_SETTINGS: usize = 20_000;

fn mount(host: &Host, path: &Path) -> Result<Mount, String> {
    // The server may see other mounts than we do.
    let of_server = host.of_process("mountinfo").ok().and_then(|path| host.text(&path));
    let text = of_server.map_or_else(|| host.needs("proc/self/mountinfo"), Ok)?;
    mount_of(&text, path).ok_or_else(|| "/proc/self/mountinfo is odd".into())
}

/// Findings of `look` for each store that is in a file.
fn of_stores(facts: &DoctorFacts, look: impl Fn(&Host, &str, &Mount) -> Option<Finding>) -> crate::rule::RuleResult {
    let mut findings = Vec::new();
    for store in facts.stores()? {
        let Some(path) = store.path() else { continue };
        findings.extend(look(&facts.host, path, &mount(&facts.host, Path::new(path))?));
    }
    Ok(findings)
}

/// The soft limit of a line of /proc/PID/limits; None: there is none.
fn limit(host: &Host, name: &str) -> Result<Option<u64>, String> {
    let text = host.needs(&host.of_process("limits")?)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).ok_or_else(|| format!("no limit {name}"))?;
    Ok(line.split_ascii_whitespace().next().and_then(|word| word.parse().ok()))
}

fn user_and_threads(status: &str) -> Option<(u64, u64)> {
    let number =
        |name| status.lines().find_map(|line| line.strip_prefix(name)?.split_ascii_whitespace().next()?.parse().ok());
    Some((number("Uid:")?, number("Threads:")?))
}

pub(super) fn is_container(host: &Host) -> bool {
    let first = host.text("proc/1/comm");
    first.is_some_and(|name| !["systemd", "init", "runit", "openrc-init", "s6-svscan"].contains(&name.trim()))
}

fn nameservers(host: &Host) -> Result<Vec<String>, String> {
    let text = host.needs("etc/resolv.conf")?;
    let servers = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    Ok(servers.map(|server| server.trim().to_owned()).filter(|server| !server.is_empty()).collect())
}

/// `Linux version 2.6.32-5-amd64 (...)`
fn kernel(text: &str) -> Option<[u32; 3]> {
    let version = text.strip_prefix("Linux version ")?;
    let end = version.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(version.len());
    let mut numbers = version[..end].split('.').map(|part| part.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or(0)])
}

fn unknown_settings(host: &Host, file: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';', '-'])) {
        let Some((name, _)) = line.split_once('=') else { continue };
        // A name may be written with slashes; then dots belong to it.
        let name = if name.contains('/') {
            name.trim().replace('.', "\u{1}").replace('/', ".")
        } else {
            name.trim().to_owned()
        };
        let path = format!("proc/sys/{}", name.replace('.', "/").replace('\u{1}', "."));
        let comes_and_goes =
            [".conf.", ".neigh.", "netfilter", "net.bridge", "*"].iter().any(|part| name.contains(part));
        // A container doesn't see all settings of a directory.
        let is_hidden = is_container(host) && path.rsplit_once('/').is_some_and(|(dir, _)| host.has(dir));
        if comes_and_goes || is_hidden || host.has(&path) {
            continue;
        }
        let finding = found_at(name.replace('\u{1}', "."), format!("/{file}: {line}"));
        findings.push(match nearest(host, &name) {
            Some(near) => finding.and(format!("is {near} meant?")),
            None => finding,
        });
    }
    findings
}

/// The setting with the most similar name, preferably among those with the same ending.
fn nearest(host: &Host, name: &str) -> Option<String> {
    let mut settings = Vec::new();
    let mut dirs = vec![String::new()];
    while let Some(dir) = dirs.pop().filter(|_| settings.len() < MOST_SETTINGS) {
        for entry in host.names(&format!("proc/sys/{}", dir.replace('.', "/"))) {
            let full = if dir.is_empty() { entry } else { format!("{dir}.{entry}") };
            if host.entries(&format!("proc/sys/{}", full.replace('.', "/"))).is_some() {
                dirs.push(full)
            } else {
                settings.push(full)
            }
        }
    }
    let last = name.rsplit('.').next().unwrap_or(name);
    let alike = settings.iter().find(|setting| setting.rsplit('.').next() == Some(last)).cloned();
    alike.or_else(|| base::spelling::nearest(name, settings.iter().map(String::as_str)).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_kernels() {
        assert_eq!(kernel("Linux version 2.6.32-5-amd64 (x)"), Some([2, 6, 32]));
        assert_eq!(kernel("Linux version 6.18.44-fc-v595 (x)"), Some([6, 18, 44]));
        assert_eq!((kernel("Linux version 3.2"), kernel("Darwin")), (Some([3, 2, 0]), None));
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Rules about the host's network.

use std::collections::HashMap;

use base::text::binary_bytes;

use crate::host::{Host, HostSpan, paired};
use crate::rule::{Area, Finding, Rule, SOUND, Severity, count, found_at, percent, when};

pub const RULES: &[Rule] = &[
    Rule {
        id: "listen-overflow",
        area: Area::Host,
        severity: Severity::Fault,
        what: "Connections are thrown away because nobody has accepted them in time",
        why: "A client whose connection doesn't fit into the listen queue hears nothing and tries again after 1, 3 and 7 seconds. \
              The queue is as long as the smaller of listen_depth and net.core.somaxconn.",
        remedy: &[
            "sysctl -w net.core.somaxconn=4096",
            "varnishadm param.set listen_depth 4096",
            "(the new length counts from the next start of the server)",
        ],
        evidence: "/proc/net/netstat: ListenOverflows, ListenDrops; 10 or more, 1 while watched",
        look: |facts| {
            let host = &facts.host;
            let drops = |name| host.grown(&host.net("netstat"), |text| paired(text, "TcpExt", name));
            let overflows = drops("ListenOverflows")?;
            let all = drops("ListenDrops")?.max(overflows);
            when(all >= few(host, 10), || {
                format!(
                    "{} connections dropped, {} of them by full queues, {}",
                    count(all),
                    count(overflows),
                    host.since()
                )
            })
        },
    },
    Rule {
        id: "somaxconn",
        area: Area::Host,
        severity: Severity::Warning,
        what: "The kernel makes the server's listen queue shorter than the server asks for",
        why: "listen_depth above net.core.somaxconn has no effect. A burst of new connections overflows the shorter queue.",
        remedy: &["sysctl -w net.core.somaxconn=4096", "(the new length counts from the next start of the server)"],
        evidence: "net.core.somaxconn, less than the parameter listen_depth (1024 where that isn't known)",
        look: |facts| {
            let asked = facts.server().and_then(|server| server.number("listen_depth")).map_or(1024, |n| n as u64);
            let most = facts.host.sysctl("net.core.somaxconn")?;
            when(most < asked, || format!("net.core.somaxconn is {}, listen_depth {}", count(most), count(asked)))
        },
    },
    Rule {
        id: "syn-queue",
        area: Area::Host,
        severity: Severity::Warning,
        what: "More clients begin a connection than the kernel can remember",
        why: "The queue of half-open connections was full: either net.ipv4.tcp_max_syn_backlog is too small for this load, or somebody \
              sends SYNs without end. With SYN cookies connections are made all the same, with smaller windows.",
        remedy: &[
            "sysctl -w net.ipv4.tcp_max_syn_backlog=8192",
            "sysctl -w net.ipv4.tcp_syncookies=1",
            "ss -tan state syn-recv | head",
        ],
        evidence: "/proc/net/netstat: TCPReqQFullDrop, 1 or more; TCPReqQFullDoCookies, 1,000 or more, 1 while watched",
        look: |facts| {
            let host = &facts.host;
            let full = |name| host.grown(&host.net("netstat"), |text| paired(text, "TcpExt", name));
            let (drops, cookies) = (full("TCPReqQFullDrop")?, full("TCPReqQFullDoCookies")?);
            when(drops > 0 || cookies >= few(host, 1000), || {
                format!("{} dropped, {} answered with a cookie, {}", count(drops), count(cookies), host.since())
            })
        },
    },
    Rule {
        id: "syncookies-off",
        area: Area::Host,
        severity: Severity::Notice,
        what: "SYN cookies are off",
        why: "Whoever sends SYNs with forged addresses keeps all others from connecting.",
        remedy: &["sysctl -w net.ipv4.tcp_syncookies=1"],
        evidence: "net.ipv4.tcp_syncookies, 0",
        look: |facts| {
            when(facts.host.sysctl("net.ipv4.tcp_syncookies")? == 0, || "net.ipv4.tcp_syncookies is 0".into())
        },
    },
    Rule {
        id: "abort-on-overflow",
        area: Area::Host,
        severity: Severity::Warning,
        what: "Clients are sent away when the listen queue is full for a moment",
        why: "With net.ipv4.tcp_abort_on_overflow a full queue resets connections instead of letting the client try again.",
        remedy: &["sysctl -w net.ipv4.tcp_abort_on_overflow=0"],
        evidence: "net.ipv4.tcp_abort_on_overflow, not 0",
        look: |facts| {
            when(facts.host.sysctl("net.ipv4.tcp_abort_on_overflow")? != 0, || {
                "net.ipv4.tcp_abort_on_overflow is on".into()
            })
        },
    },
    Rule {
        id: "conntrack-on",
        area: Area::Host,
        severity: Severity::Warning,
        what: "The kernel keeps track of every connection (conntrack)",
        why: "It costs CPU for each packet and memory for each connection, long after it has ended, and when its table is full, packets are \
              dropped. A cache has no need of it. A reboot, or listing rules of NAT, may have loaded it again unnoticed.",
        remedy: &[
            "nft add table inet untracked",
            "nft 'add chain inet untracked in { type filter hook prerouting priority raw; }'",
            "nft add rule inet untracked in tcp dport { 80, 443 } notrack",
            "nft 'add chain inet untracked out { type filter hook output priority raw; }'",
            "nft add rule inet untracked out tcp sport { 80, 443 } notrack",
            "(or, where no rule needs it: rmmod nf_conntrack, and keep it from being loaded)",
        ],
        evidence: "net.netfilter.nf_conntrack_count (net.ipv4.netfilter.ip_conntrack_count of old kernels), 1 or more: 0 where it is loaded and no rule uses it",
        look: |facts| {
            let Some((tracked, most)) = conntrack(&facts.host) else { return SOUND };
            when(tracked > 0, || {
                format!("{} connections are tracked, the table has room for {}", count(tracked), count(most))
            })
        },
    },
    Rule {
        id: "conntrack-full",
        area: Area::Host,
        severity: Severity::Fault,
        what: "The table of tracked connections is full, or nearly so: packets are dropped",
        why: "A full table drops the first packet of each new connection: clients wait seconds, or give up. It looks like a fault of the \
              server or of the network.",
        remedy: &["sysctl -w net.netfilter.nf_conntrack_max=1048576", "lacquer doctor --explain conntrack-on"],
        evidence: "nf_conntrack_count, 80 % of nf_conntrack_max or more; /proc/net/stat/nf_conntrack: drop, early_drop, 1 or more",
        look: |facts| {
            let host = &facts.host;
            let Some((tracked, most)) = conntrack(host) else { return SOUND };
            let drops = host.grown(&host.net("stat/nf_conntrack"), conntrack_drops).unwrap_or(0);
            when(drops > 0 || tracked * 5 >= most * 4, || {
                format!(
                    "{} of {} ({}); {} packets dropped {}",
                    count(tracked),
                    count(most),
                    percent(tracked, most),
                    count(drops),
                    host.since()
                )
            })
        },
    },
    Rule {
        id: "time-wait",
        area: Area::Host,
        severity: Severity::Warning,
        what: "There are more connections in TIME_WAIT than the kernel may keep",
        why: "What is too many is forgotten at once: a late packet of an old connection may then reach a new one. The setting is called \
              net.ipv4.tcp_max_tw_buckets (not net.sys.ipv4...).",
        remedy: &["sysctl -w net.ipv4.tcp_max_tw_buckets=1048576"],
        evidence: "/proc/net/sockstat: tw, 80 % of net.ipv4.tcp_max_tw_buckets or more; /proc/net/netstat: TCPTimeWaitOverflow, 1 or more",
        look: |facts| {
            let host = &facts.host;
            let waiting = time_wait(&host.needs(&host.net("sockstat"))?).ok_or("/proc/net/sockstat doesn't say")?;
            let most = host.sysctl("net.ipv4.tcp_max_tw_buckets")?;
            let over =
                host.grown(&host.net("netstat"), |text| paired(text, "TcpExt", "TCPTimeWaitOverflow")).unwrap_or(0);
            when(over > 0 || waiting * 5 >= most * 4, || {
                format!("{} of {} now; {} were too many {}", count(waiting), count(most), count(over), host.since())
            })
        },
    },
    Rule {
        id: "tw-reuse",
        area: Area::Host,
        severity: Severity::Warning,
        what: "Connections in TIME_WAIT are used again (net.ipv4.tcp_tw_reuse)",
        why: "Ports are reused while packets of their old connection may still come, which breaks connections through NAT and to \
              hosts whose clocks of TCP time stamps jump. It helps only who runs out of ports towards backends: keep connections alive instead.",
        remedy: &[
            "sysctl -w net.ipv4.tcp_tw_reuse=0",
            "(2, the kernel's default, is for loopback alone and does no harm)",
        ],
        evidence: "net.ipv4.tcp_tw_reuse, 1",
        look: |facts| when(facts.host.sysctl("net.ipv4.tcp_tw_reuse")? == 1, || "net.ipv4.tcp_tw_reuse is 1".into()),
    },
    Rule {
        id: "tw-recycle",
        area: Area::Host,
        severity: Severity::Fault,
        what: "Connections in TIME_WAIT are recycled (net.ipv4.tcp_tw_recycle)",
        why: "Of all clients behind one NAT only those with the latest time stamps can connect; the others hear nothing. Linux 4.12 has \
              removed it for that.",
        remedy: &["sysctl -w net.ipv4.tcp_tw_recycle=0"],
        evidence: "net.ipv4.tcp_tw_recycle, not 0",
        look: |facts| {
            // Kernels of today don't have it.
            when(facts.host.sysctl("net.ipv4.tcp_tw_recycle").is_ok_and(|on| on != 0), || {
                "net.ipv4.tcp_tw_recycle is on".into()
            })
        },
    },
    Rule {
        id: "local-ports",
        area: Area::Host,
        severity: Severity::Fault,
        what: "Hardly a port is left for further connections to {}",
        why: "A connection to a backend needs a port of this host, which stays taken for a minute after it was closed. Without a free one \
              fetches fail at once.",
        remedy: &[
            "sysctl -w net.ipv4.ip_local_port_range='1024 65000'",
            "(and see that connections to the backend are kept: no `Connection: close` from it, backend_idle_timeout above 0)",
        ],
        evidence: "/proc/net/tcp, tcp6: connections to one address and port, 80 % of net.ipv4.ip_local_port_range or more",
        look: |facts| {
            let range = facts.host.sysctls("net.ipv4.ip_local_port_range")?;
            let [first, last] = range[..] else { return Err("net.ipv4.ip_local_port_range is odd".into()) };
            let ports = (last + 1).saturating_sub(first);
            let remotes = remotes(&facts.host, (first, last))?;
            let full = remotes.into_iter().filter(|(_, n)| *n * 5 >= ports * 4);
            Ok(full.map(|(to, n)| found_at(to, format!("{} of {} ports are taken", count(n), count(ports)))).collect())
        },
    },
    Rule {
        id: "udp-drops",
        area: Area::Host,
        severity: Severity::Warning,
        what: "UDP packets are lost because nobody has read them in time",
        why: "A metrics server (statsd) or a resolver on this host doesn't get all that it is sent: its receive buffer was full. A program may \
              ask for no more than net.core.rmem_max.",
        remedy: &[
            "sysctl -w net.core.rmem_max=8388608",
            "(and start that program again)",
            "ss -uam    # who: the d of skmem",
        ],
        evidence: "/proc/net/snmp: Udp RcvbufErrors, 100 or more, 1 while watched; net.core.rmem_max",
        look: |facts| {
            let host = &facts.host;
            let lost = host.grown(&host.net("snmp"), |text| paired(text, "Udp", "RcvbufErrors"))?;
            let most = host.sysctl("net.core.rmem_max").map_or_else(|_| "unknown".into(), binary_bytes);
            when(lost >= few(host, 100), || {
                format!("{} packets lost {}; net.core.rmem_max is {most}", count(lost), host.since())
            })
        },
    },
    Rule {
        id: "quic-buffer",
        area: Area::Host,
        severity: Severity::Warning,
        what: "The kernel gives sockets for HTTP/3 less room than the server asks for",
        why: "Packets that come while a thread is busy wait in the receive buffer of its socket. Those that find no room are lost, and their clients \
              become slow. A server that isn't started by root is given no more than net.core.rmem_max.",
        remedy: &["sysctl -w net.core.rmem_max=4194304", "(and start the server again: sockets are made at its start)"],
        evidence: "MAIN.h3_udp_buffer below twice 4 MB, as the kernel counts; MAIN.h3_udp_drops; net.core.rmem_max",
        look: |facts| {
            // Varnish has no such sockets.
            let Ok(room) = facts.server().and_then(|server| server.counter("MAIN.h3_udp_buffer")) else { return SOUND };
            let lost = facts.server()?.counter("MAIN.h3_udp_drops")?;
            let most = facts.host.sysctl("net.core.rmem_max").map_or_else(|_| "unknown".into(), binary_bytes);
            when(room > 0 && room < 2 * sys::udp::QUIC_BUFFER as u64, || {
                format!(
                    "a socket has {}, {} packets were lost; net.core.rmem_max is {most}",
                    binary_bytes(room),
                    count(lost)
                )
            })
        },
    },
    Rule {
        id: "socket-buffers",
        area: Area::Host,
        severity: Severity::Notice,
        what: "Buffers of connections are small: distant clients get large answers slowly",
        why: "A connection carries at most one buffer for each round trip: with 256 KB and 200 ms that is 1.3 MB a second, whatever the line.",
        remedy: &[
            "sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456'",
            "sysctl -w net.ipv4.tcp_wmem='4096 16384 4194304'",
        ],
        evidence: "net.ipv4.tcp_wmem, tcp_rmem: the greatest below 1 MB",
        look: |facts| {
            let most = |name| Ok::<u64, String>(facts.host.sysctls(name)?.get(2).copied().unwrap_or(u64::MAX));
            let (read, write) = (most("net.ipv4.tcp_rmem")?, most("net.ipv4.tcp_wmem")?);
            when(read.min(write) < 1 << 20, || {
                format!("tcp_rmem ends at {}, tcp_wmem at {}", binary_bytes(read), binary_bytes(write))
            })
        },
    },
    Rule {
        id: "retransmits",
        area: Area::Host,
        severity: Severity::Warning,
        what: "Many packets have to be sent again",
        why: "Packets are lost between this host and others. Answers wait for a timer, 0.2 seconds at least, which looks like a slow server.",
        remedy: &[
            "lacquer probe HOST    # from outside: where they are lost",
            "ip -s link    # errors of the interfaces",
        ],
        evidence: "/proc/net/snmp: Tcp RetransSegs, 3 % of OutSegs or more, of at least 100,000 segments (1,000 while watched)",
        look: |facts| {
            let host = &facts.host;
            let segments = |name| host.grown(&host.net("snmp"), |text| paired(text, "Tcp", name));
            let (sent, again) = (segments("OutSegs")?, segments("RetransSegs")?);
            let enough = if host.span() == HostSpan::Boot { 100_000 } else { 1000 };
            when(sent >= enough && again * 100 >= sent * 3, || {
                format!("{} of {} segments ({}) {}", count(again), count(sent), percent(again, sent), host.since())
            })
        },
    },
    Rule {
        id: "nic-errors",
        area: Area::Host,
        severity: Severity::Warning,
        what: "The network interface {} has errors",
        why: "Packets that arrive damaged, or for which the interface has no room, are lost. To clients that looks like a fault of the server: \
              random waits of some seconds.",
        remedy: &[
            "ethtool -S {} | grep -iE 'err|drop|miss|fifo|crc'",
            "ethtool -g {}    # and -G {} rx N: a longer ring, when fifo or missed grow",
            "(crc and frame errors: the cable, the port of the switch, duplex)",
        ],
        evidence: "/proc/net/dev, but lo: errs, fifo, frame, carrier, 10 in a million packets or more, 10 at least; drop, 1 in a thousand or more, 1,000 at least",
        look: |facts| {
            let host = &facts.host;
            Ok(interfaces(host)?.into_iter().filter_map(|interface| interface.finding(host)).collect())
        },
    },
    Rule {
        id: "nic-bnx2",
        area: Area::Host,
        severity: Severity::Warning,
        what: "The interface {} has the driver bnx2 with MSI on",
        why: "Under ten thousand connections and more some of these interfaces report errors and drop packets at random when they interrupt by \
              MSI.",
        remedy: &[
            "echo 'options bnx2 disable_msi=1' > /etc/modprobe.d/bnx2.conf",
            "rmmod bnx2 && modprobe bnx2    # from the console: the network is gone for a moment",
        ],
        evidence: "/sys/class/net/*/device/uevent: DRIVER=bnx2; /sys/module/bnx2/parameters/disable_msi, not 1",
        look: |facts| {
            let host = &facts.host;
            let is_off = host.number("sys/module/bnx2/parameters/disable_msi").is_ok_and(|value| value == 1);
            let names = host.names("sys/class/net").into_iter();
            let affected = names.filter(|name| !is_off && driver(host, name).as_deref() == Some("bnx2"));
            Ok(affected.map(|name| found_at(name, "its driver is bnx2, disable_msi isn't 1")).collect())
        },
    },
    Rule {
        id: "softnet-drops",
        area: Area::Host,
        severity: Severity::Warning,
        what: "A CPU can't take packets from the network as fast as they come",
        why: "They are dropped before TCP sees them. One CPU may have all the work of an interface.",
        remedy: &[
            "sysctl -w net.core.netdev_max_backlog=10000",
            "grep . /proc/interrupts | grep -i eth    # does one CPU have them all? irqbalance, or RPS:",
            "echo ffff > /sys/class/net/INTERFACE/queues/rx-0/rps_cpus",
        ],
        evidence: "/proc/net/softnet_stat: the second column, 100 or more, 1 while watched",
        look: |facts| {
            let host = &facts.host;
            let drops =
                host.grown(&host.net("softnet_stat"), |text| Some(softnet(text).map(|(_, drops)| drops).sum()))?;
            when(drops >= few(host, 100), || format!("{} packets dropped {}", count(drops), host.since()))
        },
    },
    Rule {
        id: "softnet-one-cpu",
        area: Area::Host,
        severity: Severity::Notice,
        what: "One CPU takes nearly all packets from the network",
        why: "When that CPU is full, the others wait for packets while it drops them.",
        remedy: &["apt-get install irqbalance", "echo ffff > /sys/class/net/INTERFACE/queues/rx-0/rps_cpus"],
        evidence: "/proc/net/softnet_stat: one of four CPUs or more has 90 % of at least a million packets",
        look: |facts| {
            let host = &facts.host;
            let path = host.net("softnet_stat");
            let cpus = softnet(&host.needs(&path)?).count();
            let of_cpu = |cpu| host.grown(&path, |text| softnet(text).nth(cpu).map(|(packets, _)| packets));
            let packets = (0..cpus).map(of_cpu).collect::<Result<Vec<u64>, String>>()?;
            let (sum, most) = (packets.iter().sum::<u64>(), packets.iter().copied().max().unwrap_or(0));
            when(packets.len() >= 4 && sum >= 1_000_000 && most * 10 >= sum * 9, || {
                let (share, since) = (percent(most, sum), host.since());
                format!("{share} of {} packets came to one of {} CPUs {since}", count(sum), packets.len())
            })
        },
    },
];

/// Threshold of a finding: `of_all_time` since the machine's start, or 1 while it is watched.
fn few(host: &Host, of_all_time: u64) -> u64 {
    if host.span() == HostSpan::Boot { of_all_time } else { 1 }
}

/// Number of tracked connections and its limit.
fn conntrack(host: &Host) -> Option<(u64, u64)> {
    let both = |dir: &str, name: &str| {
        Some((host.sysctl(&format!("{dir}.{name}_count")).ok()?, host.sysctl(&format!("{dir}.{name}_max")).ok()?))
    };
    both("net.netfilter", "nf_conntrack").or_else(|| both("net.ipv4.netfilter", "ip_conntrack"))
}

/// `drop` and `early_drop` of all CPUs.
fn conntrack_drops(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next()?.split_ascii_whitespace().collect();
    let wanted: Vec<usize> = (0..names.len()).filter(|at| ["drop", "early_drop"].contains(&names[*at])).collect();
    let of_line = |line: &str| -> u64 {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        wanted.iter().filter_map(|at| u64::from_str_radix(words.get(*at)?, 16).ok()).sum()
    };
    Some(lines.map(of_line).sum())
}

/// `TCP: inuse 1 orphan 0 tw 36 ...`
fn time_wait(sockstat: &str) -> Option<u64> {
    let line = sockstat.lines().find_map(|line| line.strip_prefix("TCP:"))?;
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    words.chunks(2).find(|pair| pair[0] == "tw")?.get(1)?.parse().ok()
}

/// Packets and drops of each CPU.
fn softnet(text: &str) -> impl Iterator<Item = (u64, u64)> {
    text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace().map(|word| u64::from_str_radix(word, 16).ok());
        Some((words.next()??, words.next()??))
    })
}

pub(super) fn driver(host: &Host, interface: &str) -> Option<String> {
    let text = host.text(&format!("sys/class/net/{interface}/device/uevent"))?;
    text.lines().find_map(|line| line.strip_prefix("DRIVER=")).map(str::to_owned)
}

struct Interface {
    name: String,
    packets: u64,
    errors: u64,
    drops: u64,
}

/// Columns of receive and transmit counters in /proc/net/dev.
const PACKETS: [usize; 2] = [1, 9];
const ERRORS: [usize; 2] = [2, 10];
/// Kinds of errors that some drivers don't add to those.
const FAULTS: [usize; 4] = [4, 5, 12, 14];
const DROPS: [usize; 2] = [3, 11];

fn interfaces(host: &Host) -> Result<Vec<Interface>, String> {
    let path = host.net("dev");
    let text = host.needs(&path)?;
    let names = text.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim().to_owned());
    let sum = |name: &str, columns: &[usize]| {
        host.grown(&path, |text| {
            let row = text.lines().filter_map(|line| line.split_once(':')).find(|(n, _)| n.trim() == name)?.1;
            let words: Vec<&str> = row.split_ascii_whitespace().collect();
            columns.iter().map(|at| words.get(*at)?.parse::<u64>().ok()).sum()
        })
    };
    let one = |name: String| {
        let (packets, drops) = (sum(&name, &PACKETS).ok()?, sum(&name, &DROPS).ok()?);
        let errors = sum(&name, &ERRORS).ok()?.max(sum(&name, &FAULTS).ok()?);
        Some(Interface { name, packets, errors, drops })
    };
    Ok(names.filter(|name| name != "lo").filter_map(one).collect())
}

impl Interface {
    fn finding(&self, host: &Host) -> Option<Finding> {
        let are_errors = self.errors >= few(host, 10) && self.errors * 100_000 >= self.packets;
        let are_drops = self.drops >= few(host, 1000) && self.drops * 1000 >= self.packets;
        if !are_errors && !are_drops {
            return None;
        }
        let of = count(self.packets);
        let text =
            format!("{} errors, {} drops, of {of} packets {}", count(self.errors), count(self.drops), host.since());
        let by = driver(host, &self.name).map(|driver| format!("its driver is {driver}"));
        let finding = found_at(self.name.clone(), text);
        Some(match by {
            Some(by) => finding.and(by),
            None => finding,
        })
    }
}

/// Connections from ports of the range, by where they go.
fn remotes(host: &Host, (first, last): (u64, u64)) -> Result<HashMap<String, u64>, String> {
    let mut all = HashMap::new();
    let text = host.needs(&host.net("tcp"))?;
    let more = host.text(&host.net("tcp6")).unwrap_or_default();
    for line in text.lines().chain(more.lines()) {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (Some(local), Some(remote)) = (words.next(), words.next()) else { continue };
        let port = |address: &str| u64::from_str_radix(address.rsplit_once(':')?.1, 16).ok();
        // What listens goes nowhere.
        if port(local).is_some_and(|port| (first..=last).contains(&port)) && port(remote).is_some_and(|port| port > 0) {
            *all.entry(remote).or_insert(0) += 1;
        }
    }
    Ok(all.into_iter().map(|(remote, n)| (address(remote), n)).collect())
}

/// `0100007F:1F90` is 127.0.0.1:8080: words in this machine's order. Of IPv6 the hexadecimal stays.
fn address(text: &str) -> String {
    let parts = text.split_once(':').and_then(|(ip, port)| {
        Some((u32::from_str_radix(ip, 16).ok().filter(|_| ip.len() == 8)?, u16::from_str_radix(port, 16).ok()?))
    });
    parts.map_or_else(|| text.to_owned(), |(ip, port)| format!("{}:{port}", std::net::Ipv4Addr::from(ip.to_ne_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_ways_of_writing() {
        assert_eq!(address("0100007F:1F90"), "127.0.0.1:8080");
        assert_eq!(conntrack_drops("entries drop early_drop\n00a 00b 001\n00a 001 000\n"), Some(13));
        assert_eq!(time_wait("sockets: used 15\nTCP: inuse 1 orphan 0 tw 36 alloc 1\n"), Some(36));
        assert_eq!(softnet("0a 02 x\nzz\n").collect::<Vec<_>>(), [(10, 2)]);
        assert_eq!((time_wait("TCP: tw"), conntrack_drops("")), (None, None));
    }
}

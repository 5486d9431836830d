// SPDX-License-Identifier: BSD-2-Clause
//! Each rule finds its planted fault, and no other rule does; on a faultless host and server all are silent.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use logq::group::{Grouper, TxnFilter};
use logq::{Grouping, Query};
use tables::Tag;
use testkit::recorded::TestRecord;

use fleet::FleetLogKind;
use fleet::survey::ServerFact;

use super::all;
use crate::facts::DoctorFacts;
use crate::fleet::LogServerFacts;
use crate::host::{Host, HostSpan};
use crate::rule::Finding;
use crate::server::{CliFacts, DoctorServer, ListedBackend};
use crate::traffic::{self, LogTraffic, Url};

const MANAGER: u64 = 99;
const WORKER: u64 = 100;

const FILES: &[(&str, &str)] = &[
    ("proc/uptime", "1000000.00 1.00\n"),
    ("proc/version", "Linux version 6.1.0-18-amd64 (x)\n"),
    ("proc/meminfo", "MemTotal:       16000000 kB\n"),
    ("proc/vmstat", "pgfault 1\noom_kill 0\n"),
    ("proc/1/comm", "systemd\n"),
    ("proc/7/comm", "chronyd\n"),
    ("proc/99/cmdline", "varnishd\0-a\0:80\0-s\0malloc,4G\0"),
    ("proc/100/status", "Name:\tcache-main\nUid:\t104\t104\t104\t104\nVmSwap:\t     0 kB\nThreads:\t9\n"),
    ("proc/100/exe", "\x7fELF\x02"),
    ("proc/100/cgroup", "0::/system.slice/varnish.service\n"),
    (
        "proc/100/limits",
        "Limit  Soft Limit  Hard Limit  Units\nMax processes  120000  120000  processes\nMax open files  131072  131072  files\n",
    ),
    ("proc/100/fd/0", ""),
    (
        "proc/100/mountinfo",
        "20 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n21 20 0:20 / /var/lib/varnish rw - tmpfs tmpfs rw\n22 20 8:17 / /data rw,noatime - xfs /dev/sdb1 rw\n",
    ),
    ("proc/pressure/cpu", "some avg10=1.00 avg60=2.00 avg300=1.00 total=1\n"),
    ("proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"),
    (
        "proc/net/netstat",
        "TcpExt: ListenOverflows ListenDrops TCPReqQFullDrop TCPReqQFullDoCookies TCPTimeWaitOverflow\nTcpExt: 0 0 0 0 0\n",
    ),
    ("proc/net/snmp", "Tcp: OutSegs RetransSegs\nTcp: 1000000 100\nUdp: InDatagrams RcvbufErrors\nUdp: 1000 0\n"),
    ("proc/net/sockstat", "sockets: used 15\nTCP: inuse 1 orphan 0 tw 36 alloc 1 mem 0\n"),
    ("proc/net/softnet_stat", "00100000 00000000 0\n00100000 00000000 0\n00100000 00000000 0\n00100000 00000000 0\n"),
    (
        "proc/net/dev",
        "Inter-|   Receive\n face |bytes\n    lo: 9 9000000 0 90000 0 0 0 0 9 9 0 0 0 0 0 0\n  eth0: 9 9000000 0 2 0 0 0 0 9 9000000 0 0 0 0 0 0\n",
    ),
    (
        "proc/net/tcp",
        "  sl  local_address rem_address   st\n   0: 0100007F:9C40 0200000A:1F90 01\n   1: 00000000:0050 00000000:0000 0A\n",
    ),
    ("proc/net/stat/nf_conntrack", "entries drop early_drop\n00000000 00000000 00000000\n"),
    ("proc/sys/net/netfilter/nf_conntrack_count", "0\n"),
    ("proc/sys/net/netfilter/nf_conntrack_max", "262144\n"),
    ("proc/sys/net/core/somaxconn", "4096\n"),
    ("proc/sys/net/core/rmem_max", "4194304\n"),
    ("proc/sys/net/ipv4/tcp_syncookies", "1\n"),
    ("proc/sys/net/ipv4/tcp_abort_on_overflow", "0\n"),
    ("proc/sys/net/ipv4/tcp_max_tw_buckets", "65536\n"),
    ("proc/sys/net/ipv4/tcp_tw_reuse", "2\n"),
    ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
    ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
    ("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n"),
    ("proc/sys/vm/overcommit_memory", "0\n"),
    ("proc/sys/fs/file-nr", "2000\t0\t1000000\n"),
    ("proc/sys/kernel/threads-max", "120000\n"),
    ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
    ("proc/modules", "nf_tables 1 0 - Live 0x0\nvirtio_net 1 0 - Live 0x0\n"),
    ("boot/vmlinuz-6.1.0-18-amd64", ""),
    ("boot/vmlinuz-6.1.0-17-amd64", ""),
    ("boot/vmlinuz-6.1.0-21-cloud-amd64", ""),
    ("sys/module/virtio_net/srcversion", "AAA\n"),
    ("lib/modules/6.1.0-18-amd64/modules.dep", "kernel/net.ko:\nkernel/drivers/net/virtio-net.ko: kernel/net.ko\n"),
    ("lib/modules/6.1.0-18-amd64/kernel/drivers/net/virtio-net.ko", "x\0license=GPL\0srcversion=AAA\0depends=\0"),
    // A file hides those of its name in later directories.
    ("etc/sysctl.d/50-a.conf", "net.ipv4.tcp_max_tw_buckets = 1\n"),
    ("usr/lib/sysctl.d/50-a.conf", "net.core.somaxconn = 9\n"),
    (
        "usr/lib/sysctl.d/60-b.conf",
        "-net/ipv4/tcp_max_tw_buckets=65536\nnet.ipv4.tcp_rmem = 4096 131072\t6291456\nnet.ipv4.conf.*.forwarding = 7\n",
    ),
    ("sys/module/bonding/version", "built in"),
    ("etc/modules-load.d/a.conf", "# these\nvirtio-net\nbonding\n"),
    ("etc/modprobe.d/a.conf", "blacklist floppy\ninstall nf_conntrack /bin/false\noptions virtio-net napi_tx=1\n"),
    ("sys/module/virtio_net/parameters/napi_tx", "Y\n"),
    ("proc/sys/kernel/pid_max", "4194304\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate\n"),
    ("sys/class/net/eth0/device/uevent", "DRIVER=virtio_net\n"),
    ("sys/fs/cgroup/system.slice/varnish.service/memory.max", "max\n"),
    ("sys/fs/cgroup/system.slice/varnish.service/memory.events", "low 0\noom_kill 0\n"),
    ("sys/fs/cgroup/system.slice/varnish.service/cpu.stat", "nr_periods 0\nnr_throttled 0\n"),
    ("sys/fs/cgroup/system.slice/varnish.service/pids.max", "1000\n"),
    ("sys/fs/cgroup/system.slice/varnish.service/pids.current", "100\n"),
    ("sys/dev/block/8:17/queue/rotational", "0\n"),
    ("etc/resolv.conf", "search example.org\nnameserver 192.0.2.1\nnameserver 192.0.2.2\n"),
    ("etc/sysctl.conf", "# none\nnet.core.somaxconn = 4096\n-net.ipv4.gone = 1\nnet/core/rmem_max=4194304\n"),
];

const COUNTERS: &[(&str, u64)] = &[
    ("MGT.uptime", 90_000),
    ("MGT.child_died", 0),
    ("MGT.child_panic", 0),
    ("MGT.child_dump", 0),
    ("MGT.certs_loaded", 2),
    ("MGT.certs_expired", 0),
    ("MGT.certs_ending", 0),
    ("MGT.certs_next_end", 5_000_000),
    ("MGT.certs_refused", 0),
    ("MGT.acme_failed", 0),
    ("MAIN.uptime", 90_000),
    ("MAIN.client_req", 100_000),
    ("MAIN.cache_hit", 90_000),
    ("MAIN.cache_miss", 9000),
    ("MAIN.n_lru_nuked", 10),
    ("MAIN.n_lru_limited", 0),
    ("MAIN.threads", 200),
    ("MAIN.threads_failed", 0),
    ("MAIN.threads_limited", 0),
    ("MAIN.sess_queued", 9),
    ("MAIN.thread_queue_len", 0),
    ("MAIN.sess_dropped", 0),
    ("MAIN.req_dropped", 0),
    ("MAIN.sess_fail_emfile", 0),
    ("MAIN.sess_fail_enomem", 0),
    ("MAIN.sess_fail_ebadf", 0),
    ("MAIN.sess_fail_other", 0),
    ("MAIN.ws_client_overflow", 0),
    ("MAIN.ws_backend_overflow", 0),
    ("MAIN.ws_session_overflow", 0),
    ("MAIN.ws_thread_overflow", 0),
    ("MAIN.h3_udp_buffer", 8 << 20),
    ("MAIN.h3_udp_drops", 0),
    ("MAIN.losthdr", 0),
    ("MAIN.fetch_failed", 1),
    ("MAIN.s_fetch", 10_000),
    ("MAIN.busy_sleep", 50),
    ("MAIN.busy_killed", 0),
    ("MAIN.s_pipe", 2),
    ("MAIN.bans", 10),
    ("MAIN.bans_completed", 5),
    ("MAIN.bans_req", 1),
    ("MAIN.n_vcl", 3),
    ("MAIN.esi_errors", 0),
    ("SMA.s0.g_bytes", 1 << 30),
    ("SMA.s0.g_space", 3 << 30),
    ("SMA.Transient.g_bytes", 1 << 20),
    ("SMA.Transient.g_space", 0),
    ("VBE.boot.a.fail", 2),
    ("VBE.boot.a.req", 10_000),
    ("VBE.boot.a.busy", 0),
    ("VBE.boot.a.fail_econnrefused", 2),
];

const PARAMS: &[(&str, &str)] = &[
    ("listen_depth", "1024"),
    ("thread_pools", "2"),
    ("thread_pool_max", "5000"),
    ("lru_interval", "2.000"),
    ("timeout_idle", "5.000"),
];

/// A machine in a directory, with a server.
struct Bed {
    dir: PathBuf,
    facts: DoctorFacts,
}

impl Bed {
    fn sound() -> Bed {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let dir =
            std::env::temp_dir().join(format!("lacquer-doctor.{}.{}", std::process::id(), NEXT.fetch_add(1, Relaxed)));
        let told = CliFacts {
            params: PARAMS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            backends: vec![ListedBackend {
                name: "boot.a".into(),
                admin: "probe".into(),
                probe: "8 of 8, healthy".into(),
                ..ListedBackend::default()
            }],
            ..CliFacts::default()
        };
        let counters: BTreeMap<_, _> = COUNTERS.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let server = DoctorServer {
            workdir: Some("/var/lib/varnish/varnishd".into()),
            manager: Some(MANAGER),
            worker: Some(WORKER),
            counters,
            before: None,
            span: "while it was watched",
            told: Ok(told),
        };
        let mut facts = DoctorFacts {
            host: Host::new(&dir, Some(WORKER)),
            server: Ok(server),
            traffic: Ok(traffic()),
            fleet: Ok(None),
        };
        facts.host.room = |_| Ok(1 << 30);
        let bed = Bed { dir, facts };
        FILES.iter().for_each(|(path, text)| bed.write(path, text));
        bed
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.dir.join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    fn edit(&self, path: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.dir.join(path)).expect("a file of the sound host");
        assert!(text.contains(from), "{path} has no {from:?}");
        self.write(path, &text.replace(from, to));
    }

    fn server(&mut self) -> &mut DoctorServer {
        self.facts.server.as_mut().expect("there is one")
    }

    fn told(&mut self) -> &mut CliFacts {
        self.server().told.as_mut().expect("it was asked")
    }

    fn traffic(&mut self) -> &mut LogTraffic {
        self.facts.traffic.as_mut().expect("there is a log")
    }

    fn count(&mut self, name: &str, value: u64) {
        assert!(self.server().counters.insert(name.to_owned(), value).is_some(), "{name} isn't counted");
    }

    fn param(&mut self, name: &str, value: &str) {
        assert!(self.told().params.insert(name.to_owned(), value.to_owned()).is_some(), "{name} is no parameter");
    }

    fn url(&mut self, name: &str) -> &mut Url {
        self.traffic().urls.entry(name.to_owned()).or_default()
    }

    fn findings(&self) -> Vec<(&'static str, Vec<Finding>)> {
        let looked = all().map(|rule| (rule.id, (rule.look)(&self.facts)));
        looked
            .map(|(id, found)| (id, found.unwrap_or_else(|why| panic!("{id} couldn't look: {why}"))))
            .filter(|(_, f)| !f.is_empty())
            .collect()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Requests of a hundred seconds on which all is well.
fn traffic() -> LogTraffic {
    let mut traffic =
        LogTraffic { requests: 1000, fetches: 100, errors: 1, window: Some((1000.0, 1100.0)), ..LogTraffic::default() };
    let page = Url { requests: 1000, fetches: 100, fetch_seconds: 5.0, backend: "boot.a".into(), ..Url::default() };
    traffic.urls.insert("example.org/".into(), page);
    let backend = traffic.backends.entry("boot.a".into()).or_default();
    (0..100).for_each(|_| backend.first_byte.add(0.05));
    (backend.dated, backend.seconds) = (100, 5.0);
    traffic
}

/// The server of a fleet's log with these facts, without faults but for `wrong`.
fn log_server(kind: FleetLogKind, wrong: &[(&str, &str)]) -> LogServerFacts {
    let facts: &[(&str, &str)] = match kind {
        FleetLogKind::Redis => &[
            ("appendonly", "yes"),
            ("appendfsync", "always"),
            ("maxmemory", "0"),
            ("maxmemory-policy", "noeviction"),
            ("min-replicas-to-write", "0"),
            ("redis_version", "7.0.15"),
            ("connected_slaves", "1"),
        ],
        FleetLogKind::Nats => &[
            ("version", "2.10.23"),
            ("replicas", "3"),
            ("storage", "file"),
            ("discard", "old"),
            ("max_age", "0"),
            ("sync_interval", "always"),
        ],
    };
    let value = |name: &str| wrong.iter().find(|(named, _)| *named == name).map(|(_, value)| *value);
    let fact =
        |(name, sound): &(&'static str, &str)| ServerFact { name, value: Ok(value(name).unwrap_or(sound).to_owned()) };
    assert!(wrong.iter().all(|(named, _)| facts.iter().any(|(name, _)| name == named)), "{wrong:?}");
    LogServerFacts { kind, address: "log:1".to_owned(), replicas: 1, facts: facts.iter().map(fact).collect() }
}

fn redis(bed: &mut Bed, wrong: &[(&str, &str)]) {
    bed.facts.fleet = Ok(Some(log_server(FleetLogKind::Redis, wrong)));
}

fn nats(bed: &mut Bed, wrong: &[(&str, &str)]) {
    bed.facts.fleet = Ok(Some(log_server(FleetLogKind::Nats, wrong)));
}

type Plant = fn(&mut Bed);

const PLANTS: &[(&str, Plant)] = &[
    ("listen-overflow", |b| b.edit("proc/net/netstat", "TcpExt: 0 0", "TcpExt: 40 45")),
    ("somaxconn", |b| b.write("proc/sys/net/core/somaxconn", "128\n")),
    ("syn-queue", |b| b.edit("proc/net/netstat", "0 0 0 0 0", "0 0 1 0 0")),
    ("syncookies-off", |b| b.write("proc/sys/net/ipv4/tcp_syncookies", "0\n")),
    ("abort-on-overflow", |b| b.write("proc/sys/net/ipv4/tcp_abort_on_overflow", "1\n")),
    ("conntrack-on", |b| b.write("proc/sys/net/netfilter/nf_conntrack_count", "5\n")),
    ("conntrack-full", |b| {
        b.edit("proc/net/stat/nf_conntrack", "00000000 00000000 00000000", "00000000 0000000a 00000000")
    }),
    ("time-wait", |b| b.edit("proc/net/sockstat", "tw 36", "tw 60000")),
    ("tw-reuse", |b| b.write("proc/sys/net/ipv4/tcp_tw_reuse", "1\n")),
    ("tw-recycle", |b| b.write("proc/sys/net/ipv4/tcp_tw_recycle", "1\n")),
    ("local-ports", |b| {
        b.write("proc/sys/net/ipv4/ip_local_port_range", "40000 40009\n");
        let lines: String = (0..9).map(|n| format!("   {n}: 0100007F:{:04X} 0200000A:1F90 06\n", 40_000 + n)).collect();
        b.write("proc/net/tcp", &format!("  sl  local_address rem_address   st\n{lines}"));
    }),
    ("udp-drops", |b| b.edit("proc/net/snmp", "1000 0", "1000 200")),
    ("quic-buffer", |b| b.count("MAIN.h3_udp_buffer", 425_984)),
    ("socket-buffers", |b| b.edit("proc/sys/net/ipv4/tcp_wmem", "4194304", "131072")),
    ("retransmits", |b| b.edit("proc/net/snmp", "1000000 100", "1000000 50000")),
    ("nic-errors", |b| b.edit("proc/net/dev", "eth0: 9 9000000 0", "eth0: 9 9000000 4000")),
    ("nic-bnx2", |b| b.write("sys/class/net/eth1/device/uevent", "DRIVER=bnx2\n")),
    ("softnet-drops", |b| {
        b.edit("proc/net/softnet_stat", "00100000 00000000 0\n00100000", "00100000 00000100 0\n00100000")
    }),
    ("softnet-one-cpu", |b| {
        b.write("proc/net/softnet_stat", "10000000 0 0\n00000010 0 0\n00000010 0 0\n00000010 0 0\n")
    }),
    ("memory-oversold", |b| b.edit("proc/99/cmdline", "4G", "14G")),
    ("swapped", |b| b.edit("proc/100/status", "     0 kB", "50000 kB")),
    ("memory-pressure", |b| b.edit("proc/pressure/memory", "avg60=0.00", "avg60=12.00")),
    ("cpu-pressure", |b| b.edit("proc/pressure/cpu", "avg60=2.00", "avg60=80.00")),
    ("oom-kills", |b| b.edit("proc/vmstat", "oom_kill 0", "oom_kill 2")),
    ("cgroup-oom", |b| b.edit("sys/fs/cgroup/system.slice/varnish.service/memory.events", "oom_kill 0", "oom_kill 1")),
    ("cgroup-memory", |b| {
        b.write("sys/fs/cgroup/system.slice/memory.max", "10000000000\n");
        b.write("sys/fs/cgroup/system.slice/memory.current", "9800000000\n");
        b.write("sys/fs/cgroup/system.slice/memory.stat", "anon 1\ninactive_file 100000000\n");
    }),
    ("cgroup-cpu", |b| {
        b.write("sys/fs/cgroup/system.slice/varnish.service/cpu.stat", "nr_periods 1000\nnr_throttled 100\n")
    }),
    ("cgroup-pids", |b| b.write("sys/fs/cgroup/system.slice/varnish.service/pids.current", "900\n")),
    ("thp", |b| b.write("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n")),
    ("overcommit", |b| b.write("proc/sys/vm/overcommit_memory", "2\n")),
    ("log-on-disk", |b| b.edit("proc/100/mountinfo", "tmpfs tmpfs", "ext4 /dev/sda2")),
    ("disk-full", |b| b.facts.host.room = |_| Ok(1 << 20)),
    ("store-atime", |b| {
        b.edit("proc/99/cmdline", "malloc,4G", "file,/data/store,10G");
        b.edit("proc/100/mountinfo", "rw,noatime", "rw,relatime");
    }),
    ("store-rotational", |b| {
        b.edit("proc/99/cmdline", "malloc,4G", "file,/data/store,10G");
        b.write("sys/dev/block/8:17/queue/rotational", "1\n");
    }),
    ("descriptors-used", |b| {
        b.edit("proc/100/limits", "131072  131072", "20  20");
        (1..18).for_each(|n| b.write(&format!("proc/100/fd/{n}"), ""));
    }),
    ("descriptor-limit", |b| b.edit("proc/100/limits", "131072  131072", "1024  4096")),
    ("file-table", |b| b.write("proc/sys/fs/file-nr", "900000\t0\t1000000\n")),
    ("threads-allowed", |b| b.edit("proc/100/limits", "120000  120000", "4096  4096")),
    ("user-threads", |b| {
        b.edit("proc/100/status", "Threads:\t9", "Threads:\t99000");
        b.write("proc/7/status", "Uid:\t104\t104\nThreads:\t3000\n");
    }),
    ("32-bit", |b| b.write("proc/100/exe", "\x7fELF\x01")),
    ("uptime-208", |b| {
        b.write("proc/version", "Linux version 2.6.32-5-amd64 (x)\n");
        b.write("proc/uptime", "17000000.00 1.00\n");
    }),
    ("clocksource", |b| b.write("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n")),
    ("clock-alone", |b| b.write("proc/7/comm", "bash\n")),
    ("governor", |b| b.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "acpi-cpufreq\n")),
    ("dns-none", |b| b.write("etc/resolv.conf", "search example.org\n")),
    ("dns-one", |b| b.write("etc/resolv.conf", "nameserver 192.0.2.1\n")),
    ("dns-ndots", |b| b.edit("etc/resolv.conf", "search", "options ndots:5 timeout:1\nsearch")),
    ("sysctl-unknown", |b| b.write("etc/sysctl.d/local.conf", "net.sys.ipv4.tcp_max_tw_buckets = 1000000\n")),
    ("kernel-not-running", |b| b.write("boot/vmlinuz-6.1.0-21-amd64", "")),
    ("driver-not-running", |b| {
        b.edit("lib/modules/6.1.0-18-amd64/kernel/drivers/net/virtio-net.ko", "srcversion=AAA", "srcversion=BBB")
    }),
    ("sysctl-not-kept", |b| b.write("etc/sysctl.d/99-local.conf", "net.core.somaxconn = 8192\n")),
    ("module-not-kept", |b| b.write("usr/lib/modules-load.d/b.conf", "ip_vs\n")),
    ("worker-stopped", |b| b.server().worker = None),
    ("worker-died", |b| b.count("MGT.child_died", 3)),
    ("nuked", |b| b.count("MAIN.n_lru_nuked", 5000)),
    ("store-stuck", |b| b.count("MAIN.n_lru_limited", 1)),
    ("transient", |b| b.count("SMA.Transient.g_bytes", 2 << 30)),
    ("threads-failed", |b| b.count("MAIN.threads_failed", 1)),
    ("threads-limited", |b| b.count("MAIN.threads_limited", 7)),
    ("requests-dropped", |b| b.count("MAIN.sess_dropped", 7)),
    ("many-threads", |b| b.count("MAIN.threads", 6000)),
    ("accept-failed", |b| b.count("MAIN.sess_fail_emfile", 7)),
    ("workspace", |b| b.count("MAIN.ws_client_overflow", 1)),
    ("headers-lost", |b| b.count("MAIN.losthdr", 1)),
    ("backend-sick", |b| b.told().backends[0].is_sick = true),
    ("backend-failing", |b| b.count("VBE.boot.a.fail", 500)),
    ("backend-busy", |b| b.count("VBE.boot.a.busy", 1)),
    ("fetch-failed", |b| b.count("MAIN.fetch_failed", 500)),
    ("hit-rate", |b| b.count("MAIN.cache_hit", 3000)),
    ("waiting", |b| b.count("MAIN.busy_sleep", 20_000)),
    ("pipes", |b| b.count("MAIN.s_pipe", 5000)),
    ("ban-list", |b| b.count("MAIN.bans", 2000)),
    ("ban-request", |b| {
        b.count("MAIN.bans_req", 25);
        b.told().bans.push("req.url ~ ^/news".into());
    }),
    ("old-vcls", |b| b.count("MAIN.n_vcl", 25)),
    ("esi-errors", |b| b.count("MAIN.esi_errors", 1)),
    ("journal-failed", |b| {
        b.server().counters.extend([("MAIN.txn_busy".to_owned(), 1), ("MAIN.journal_fail".to_owned(), 1)]);
    }),
    ("param-lru-interval", |b| b.param("lru_interval", "3600.000")),
    ("param-timeout-idle", |b| b.param("timeout_idle", "3600.000")),
    ("param-threads", |b| b.param("thread_pool_max", "8000")),
    ("certificate-expired", |b| b.count("MGT.certs_expired", 1)),
    ("certificate-ending", |b| b.count("MGT.certs_ending", 2)),
    ("certificate-refused", |b| b.count("MGT.certs_refused", 1)),
    ("acme-failed", |b| b.count("MGT.acme_failed", 3)),
    ("fleet-redis-unsaved", |b| redis(b, &[("appendonly", "no"), ("appendfsync", "everysec")])),
    ("fleet-redis-fsync", |b| redis(b, &[("appendfsync", "everysec")])),
    ("fleet-redis-eviction", |b| redis(b, &[("maxmemory-policy", "allkeys-lru")])),
    ("fleet-redis-replicas", |b| redis(b, &[("connected_slaves", "0")])),
    ("fleet-nats-version", |b| nats(b, &[("version", "2.10.22-rc.1")])),
    ("fleet-nats-sync", |b| nats(b, &[("sync_interval", "120000000000")])),
    ("fleet-nats-replicas", |b| nats(b, &[("replicas", "1")])),
    ("fleet-nats-storage", |b| nats(b, &[("storage", "memory")])),
    ("fleet-nats-limits", |b| nats(b, &[("max_age", "3600000000000")])),
    ("passes", |b| {
        b.traffic().passes.insert(traffic::COOKIE, (400, "example.org/".into()));
    }),
    ("cookie-static", |b| b.url("example.org/a.png").cookie_passes = 9),
    ("tracking-cookies", |b| b.traffic().harmless = (90, "_ga _gid".into())),
    ("set-cookie-static", |b| b.url("example.org/a.css").set_cookie = 9),
    ("static-forbidden", |b| b.url("example.org/a.js").forbidden = 9),
    ("short-ttl", |b| {
        let url = b.url("example.org/");
        (url.short, url.shortest) = (50, Some(2.0));
    }),
    ("vary-many", |b| {
        let url = b.url("example.org/");
        url.vary = "User-Agent".into();
        url.variants.extend(0..30);
    }),
    ("tracking-parameters", |b| b.traffic().tracked = (30, "/?utm_source=x".into())),
    ("slow-backend", |b| {
        let backend = b.traffic().backends.get_mut("boot.a").expect("the sound one");
        (0..100).for_each(|_| backend.first_byte.add(3.0));
    }),
    ("held-requests", |b| b.url("example.org/report").fetch_seconds = 2000.0),
    ("waiting-url", |b| {
        let url = b.url("example.org/");
        (url.waits, url.wait_seconds) = (10, 20.0);
    }),
    ("errors", |b| {
        b.traffic().errors = 100;
        b.traffic().vcl_errors = (90, "Workspace overflow".to_owned());
        b.url("example.org/").errors = 100;
    }),
    ("backend-clock", |b| {
        let backend = b.traffic().backends.get_mut("boot.a").expect("the sound one");
        (backend.skewed, backend.skew) = (90, -3600.0);
    }),
];

#[test]
fn on_a_sound_host_all_are_silent() {
    assert_eq!(Bed::sound().findings(), []);
}

#[test]
fn each_finds_its_planted_fault_and_no_other_does() {
    for (id, plant) in PLANTS {
        let mut bed = Bed::sound();
        plant(&mut bed);
        let findings = bed.findings();
        let ids: Vec<&str> = findings.iter().map(|(id, _)| *id).collect();
        // A limit that is nearly reached with a few files is low, too.
        let want: &[&str] = if *id == "descriptors-used" { &[id, "descriptor-limit"] } else { &[id] };
        assert_eq!(ids, want);
        assert!(findings[0].1.iter().all(|finding| !finding.evidence.is_empty()), "{id} says what it has seen");
    }
}

#[test]
fn the_first_failure_counts_where_nothing_succeeded() {
    let found = |failed, fetches, failed_connections, requests| {
        let mut bed = Bed::sound();
        for (name, value) in [
            ("MAIN.fetch_failed", failed),
            ("MAIN.s_fetch", fetches),
            ("VBE.boot.a.fail", failed_connections),
            ("VBE.boot.a.fail_econnrefused", failed_connections),
            ("VBE.boot.a.req", requests),
        ] {
            bed.count(name, value);
        }
        let texts = bed.findings().into_iter().filter(|(id, _)| ["backend-failing", "fetch-failed"].contains(id));
        texts.flat_map(|(_, findings)| findings[0].evidence.clone()).collect::<Vec<_>>().join("; ")
    };
    let all = found(1, 1, 1, 0);
    assert!(all.matches("1 failed of 1").count() == 2 && all.contains("econnrefused 1"), "{all}");
    assert_eq!(found(1, 2, 1, 1), "");
    assert_eq!(found(0, 0, 0, 0), "");
    assert!(found(20, 400, 0, 9).starts_with("20 failed of 400"));
}

#[test]
fn a_failing_backend_is_tried_from_here() {
    let mut bed = Bed::sound();
    for (name, value) in [("MAIN.fetch_failed", 1), ("MAIN.s_fetch", 1), ("VBE.boot.a.fail", 1), ("VBE.boot.a.req", 0)]
    {
        bed.count(name, value);
    }
    let told = bed.facts.server.as_mut().unwrap().told.as_mut().unwrap();
    told.backends[0].failure = Some("connection refused".to_owned());
    told.backends[0].reached = Some("192.0.2.1:80: nothing within 1 s".to_owned());
    let all: Vec<_> = bed.findings().into_iter().flat_map(|(_, found)| found[0].evidence.clone()).collect();
    assert!(all[0].ends_with("; a connection from here to 192.0.2.1:80: nothing within 1 s"), "{all:?}");
    assert!(all[1].ends_with("; backend boot.a: connection refused"), "{all:?}");
}

#[test]
fn a_sick_backend_has_its_verdict_and_the_cause() {
    let seen = |admin: &str, failure: Option<&str>| {
        let mut bed = Bed::sound();
        let backend = &mut bed.told().backends[0];
        (backend.is_sick, backend.admin, backend.probe) = (true, admin.to_owned(), "0 of 8, sick".to_owned());
        backend.failure = failure.map(str::to_owned);
        let rule = all().find(|rule| rule.id == "backend-sick").expect("a rule");
        (rule.look)(&bed.facts).expect("it can look").remove(0).evidence
    };
    assert_eq!(seen("probe", None), ["admin probe, probe 0 of 8, sick"]);
    assert_eq!(seen("probe", Some("connection refused")), ["admin probe, probe 0 of 8, sick; connection refused"]);
    assert_eq!(seen("", Some("2 of the last 8 probes succeeded")), ["2 of the last 8 probes succeeded"]);
}

#[test]
fn no_remedy_asks_for_what_is_there_already() {
    for (id, plant) in PLANTS {
        let mut bed = Bed::sound();
        plant(&mut bed);
        let rule = all().find(|rule| rule.id == *id).expect("a rule");
        let findings = (rule.look)(&bed.facts).expect("it can look");
        let remedy = rule.remedy_for(&findings[0], &bed.facts);
        assert!(!remedy.is_empty(), "{id} says what to type");
        for setting in remedy.iter().filter_map(|line| line.strip_prefix("sysctl -w ")) {
            let (name, value) = setting.split_once('=').expect("a value");
            let now = bed.facts.host.sysctl(name).ok();
            assert!(now.is_none() || now != value.parse().ok(), "{id}: {setting} holds already");
        }
    }
}

#[test]
fn queries_of_remedies_find_what_servers_write() {
    let read = |records: &[TestRecord]| {
        let wanted =
            TxnFilter { backend: true, client: true, esi: true, limit: 1000, timeout: Duration::from_secs(120) };
        let mut grouper = Grouper::new(Grouping::Vxid, wanted);
        let log = testkit::recorded::log(records, |name| Tag::from_name(name).expect("a tag").number());
        logq::records(&log).for_each(|rec| grouper.feed(rec.bytes, Instant::now()));
        grouper
    };
    let lines = all().flat_map(|rule| rule.remedy).filter_map(|line| line.split_once(" -q "));
    let queries: Vec<&str> = lines
        .map(|(_, rest)| rest.strip_prefix('\'').map_or_else(|| rest.split(' ').next(), |text| text.split('\'').next()))
        .map(|query| query.expect("a query"))
        // None of the requests that were recorded has such a fault.
        .filter(|query| !["LostHeader", "ESI_xmlerror"].contains(query))
        .collect();
    assert!(queries.len() > 10, "{queries:?}");
    for records in [testkit::recorded::lacquer(), testkit::recorded::varnish()] {
        for text in &queries {
            let query = Query::new(text, false).expect("a query");
            let (mut grouper, mut found) = (read(&records), 0);
            while grouper.take(|group| found += u32::from(query.matches(group))).is_some() {}
            assert!(found > 0, "{text}");
        }
    }
}

#[test]
fn a_limit_that_is_reached_is_doubled() {
    let remedy = |plant: Plant| {
        let mut bed = Bed::sound();
        plant(&mut bed);
        let rule = all().find(|rule| rule.id == "listen-overflow").expect("a rule");
        rule.remedy_for(&(rule.look)(&bed.facts).expect("it can look")[0], &bed.facts)
    };
    let plant = PLANTS.iter().find(|(id, _)| *id == "listen-overflow").expect("a plant").1;
    assert_eq!(remedy(plant)[0], "sysctl -w net.core.somaxconn=8192");
}

#[test]
fn each_has_a_fault_that_is_planted_and_a_name_of_its_own() {
    let planted: Vec<&str> = PLANTS.iter().map(|(id, _)| *id).collect();
    let declared: Vec<&str> = all().map(|rule| rule.id).collect();
    assert_eq!(planted, declared);
    let mut names = declared.clone();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), declared.len());
}

fn said(id: &str, plant: Plant) -> String {
    let mut bed = Bed::sound();
    plant(&mut bed);
    let rule = all().find(|rule| rule.id == id).expect("a rule");
    let findings = (rule.look)(&bed.facts).expect("it can look");
    findings.iter().map(|f| format!("{} [{}]", f.subject, f.evidence.join("; "))).collect::<Vec<_>>().join(" | ")
}

#[test]
fn what_was_seen_is_told() {
    let key = said("sysctl-unknown", |b| b.write("etc/sysctl.conf", "net.sys.ipv4.tcp_max_tw_buckets=1\n"));
    assert!(key.contains("is net.ipv4.tcp_max_tw_buckets meant?"), "{key}");
    let contained = said("sysctl-unknown", |b| {
        b.write("proc/1/comm", "entrypoint\n");
        b.write(
            "etc/sysctl.conf",
            "net.core.hidden=1\nnet.sys.ipv4.tcp_max_tw_buckets=1\nnet.sys.ipv4.tcp_max_tw_buckets=2\n",
        );
    });
    assert!(!contained.contains("hidden") && contained.matches("meant?").count() == 1, "{contained}");
    let ports = said("local-ports", |b| b.write("proc/sys/net/ipv4/ip_local_port_range", "40000 40000\n"));
    assert!(ports.contains("10.0.0.2:8080") || ports.contains("2.0.0.10:8080"), "{ports}");
    let nic = said("nic-errors", |b| b.edit("proc/net/dev", "eth0: 9 9000000 0 2", "eth0: 9 9000000 0 90000"));
    assert!(nic.starts_with("eth0 [") && nic.contains("90,000 drops") && nic.contains("driver is virtio_net"), "{nic}");
    let sold = said("memory-oversold", |b| b.edit("proc/99/cmdline", "malloc,4G", "malloc"));
    assert!(sold.contains("-s malloc has no size"), "{sold}");
    let limit =
        said("memory-oversold", |b| b.write("sys/fs/cgroup/system.slice/varnish.service/memory.max", "4000000000\n"));
    assert!(limit.contains("the control group"), "{limit}");
    let ban = said("ban-request", |b| {
        b.count("MAIN.bans_req", 25);
        b.told().bans.push("req.url ~ ^/news".into());
    });
    assert!(ban.contains("req.url ~ ^/news"), "{ban}");
    let old = said("conntrack-on", |b| {
        fs::remove_dir_all(b.dir.join("proc/sys/net/netfilter")).expect("it is there");
        b.write("proc/sys/net/ipv4/netfilter/ip_conntrack_count", "70\n");
        b.write("proc/sys/net/ipv4/netfilter/ip_conntrack_max", "65536\n");
    });
    assert!(old.contains("70 connections"), "{old}");
}

#[test]
fn what_cant_be_looked_at_is_no_finding() {
    let mut bed = Bed::sound();
    fs::remove_dir_all(&bed.dir).expect("it is there");
    fs::create_dir(&bed.dir).expect("an empty root");
    bed.facts.server = Err("none".into());
    bed.facts.traffic = Err("none".into());
    for rule in all() {
        assert_ne!((rule.look)(&bed.facts).map(|found| found.len()), Ok(1), "{}", rule.id);
    }
}

#[test]
fn control_groups_of_version_1_count_too() {
    let said = said("cgroup-memory", |b| {
        b.write("proc/100/cgroup", "4:memory:/a/b\n1:cpu,cpuacct:/a\n0::/\n");
        b.write("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "1000000000\n");
        b.write("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "990000000\n");
        b.write("sys/fs/cgroup/memory/a/b/memory.stat", "total_inactive_file 1000\n");
    });
    assert!(said.contains("/sys/fs/cgroup/memory/a/b"), "{said}");
}

#[test]
fn a_control_group_above_may_be_the_tightest() {
    const OWN: &str = "sys/fs/cgroup/system.slice/varnish.service";
    const ABOVE: &str = "sys/fs/cgroup/system.slice";
    let sold = said("memory-oversold", |b| {
        b.write(&format!("{OWN}/memory.max"), "10000000000\n");
        b.write(&format!("{ABOVE}/memory.max"), "2000000000\n");
    });
    assert!(sold.contains("/system.slice allows 1.9 GiB"), "{sold}");
    let own_is_tighter = said("memory-oversold", |b| {
        b.write(&format!("{OWN}/memory.max"), "2000000000\n");
        b.write(&format!("{ABOVE}/memory.max"), "10000000000\n");
    });
    assert!(own_is_tighter.contains("varnish.service allows 1.9 GiB"), "{own_is_tighter}");
    let full = said("cgroup-memory", |b| {
        for (dir, most, now) in [(OWN, "10000000000", "1900000000"), (ABOVE, "20000000000", "19900000000")] {
            b.write(&format!("{dir}/memory.max"), most);
            b.write(&format!("{dir}/memory.current"), now);
        }
    });
    assert!(full.starts_with(" [/sys/fs/cgroup/system.slice: "), "{full}");
    let stopped = said("cgroup-cpu", |b| {
        b.write(&format!("{ABOVE}/cpu.stat"), "usage_usec 1\nnr_periods 1000\nnr_throttled 400\n");
    });
    assert!(stopped.contains("/sys/fs/cgroup/system.slice: stopped in 400 of 1,000"), "{stopped}");
    let many = said("cgroup-pids", |b| {
        b.write(&format!("{ABOVE}/pids.max"), "120");
        b.write(&format!("{ABOVE}/pids.current"), "110");
    });
    assert!(many.contains("/sys/fs/cgroup/system.slice: 110 of 120"), "{many}");
    let mut bed = Bed::sound();
    bed.write(&format!("{ABOVE}/cpu.stat"), "nr_periods 1000\nnr_throttled 400\n");
    bed.facts.host.begin(HostSpan::Watched, super::watched(&bed.facts.host));
    assert_eq!(bed.findings(), [], "before it was watched");
}

#[test]
fn no_nameserver_is_the_one_of_this_machine() {
    let rule = all().find(|rule| rule.id == "dns-none").expect("a rule");
    assert_eq!(rule.severity, crate::rule::Severity::Notice);
    assert!(rule.why.contains("127.0.0.1"));
}

/// Subjects and evidence that a rule about the next boot found.
fn seen(id: &str, bed: &Bed) -> Vec<(String, String)> {
    let found = bed.findings().into_iter().find(|(rule, _)| *rule == id).map(|(_, found)| found).unwrap_or_default();
    found.into_iter().map(|finding| (finding.subject, finding.evidence.concat())).collect()
}

#[test]
fn the_last_file_has_the_last_word_about_a_setting() {
    let bed = Bed::sound();
    let now = |value: &str, said: &str| {
        vec![("net.ipv4.tcp_max_tw_buckets".to_owned(), format!("it is {value} now, /{said}"))]
    };
    // Set by hand: the file still says otherwise.
    bed.write("proc/sys/net/ipv4/tcp_max_tw_buckets", "131072\n");
    assert_eq!(seen("sysctl-not-kept", &bed), now("131072", "usr/lib/sysctl.d/60-b.conf says 65536"));
    bed.write("run/sysctl.d/99-z.conf", "net.ipv4.tcp_max_tw_buckets=131072\n");
    assert_eq!(seen("sysctl-not-kept", &bed), []);
    // An empty file of the same name takes it back.
    bed.write("etc/sysctl.d/99-z.conf", "");
    assert_eq!(seen("sysctl-not-kept", &bed), now("131072", "usr/lib/sysctl.d/60-b.conf says 65536"));
    // systemd doesn't read this one; others do, and last.
    bed.write("etc/sysctl.conf", "net.ipv4.tcp_max_tw_buckets = 131072\n");
    assert_eq!(seen("sysctl-not-kept", &bed).len(), 1);
    bed.write("proc/1/comm", "init\n");
    assert_eq!(seen("sysctl-not-kept", &bed), []);
}

#[test]
fn modules_that_the_next_boot_changes_are_named() {
    let bed = Bed::sound();
    let names = || seen("module-not-kept", &bed).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    bed.write("proc/modules", "nf_conntrack 1 0 - Live 0x0\nvirtio_net 1 0 - Live 0x0\n");
    assert_eq!(names(), ["nf_conntrack"], "kept out, and loaded");
    bed.write("proc/modules", "virtio_net 1 0 - Live 0x0\n");
    bed.write("sys/module/virtio_net/parameters/napi_tx", "N\n");
    assert_eq!(names(), ["virtio_net"], "an option that isn't live");
    bed.write("proc/modules", "");
    assert_eq!(names(), Vec::<String>::new(), "it is built in");
    bed.write("etc/modules", "tcp_bbr\n");
    assert_eq!(
        seen("module-not-kept", &bed),
        [("tcp_bbr".to_owned(), "/etc/modules has it loaded, and it isn't".to_owned())]
    );
}

#[test]
fn the_server_of_a_fleets_log() {
    let mut bed = Bed::sound();
    for sound in [
        log_server(FleetLogKind::Redis, &[]),
        log_server(FleetLogKind::Redis, &[("maxmemory-policy", "volatile-lru"), ("connected_slaves", "2")]),
        LogServerFacts { replicas: 0, ..log_server(FleetLogKind::Redis, &[("connected_slaves", "0")]) },
        LogServerFacts { replicas: 0, ..log_server(FleetLogKind::Redis, &[("min-replicas-to-write", "1")]) },
        log_server(FleetLogKind::Nats, &[("version", "2.12.1")]),
        log_server(FleetLogKind::Nats, &[("version", "3.0.0")]),
    ] {
        bed.facts.fleet = Ok(Some(sound));
        assert_eq!(bed.findings(), []);
    }
    bed.facts.fleet = Ok(Some(LogServerFacts { replicas: 0, ..log_server(FleetLogKind::Redis, &[]) }));
    assert_eq!(bed.findings()[0].1[0].evidence, ["log:1: 1 connected, replicas=0"]);
    let mut forbidden = log_server(FleetLogKind::Redis, &[]);
    forbidden.facts[1].value = Err("CONFIG GET appendfsync: NOPERM".to_owned());
    bed.facts.fleet = Ok(Some(forbidden));
    let looked: Vec<_> =
        super::fleet().filter_map(|rule| (rule.look)(&bed.facts).err().map(|why| (rule.id, why))).collect();
    assert_eq!(looked, [("fleet-redis-fsync", "Redis log:1: CONFIG GET appendfsync: NOPERM".to_owned())]);
}

#[test]
fn a_container_says_nothing_of_the_next_boot() {
    let bed = Bed::sound();
    bed.write("proc/1/comm", "varnishd\n");
    for id in ["kernel-not-running", "sysctl-not-kept", "module-not-kept"] {
        let rule = all().find(|rule| rule.id == id).expect("a rule");
        assert!((rule.look)(&bed.facts).is_err_and(|why| why.contains("container")), "{id}");
    }
}

#[test]
fn what_the_machine_counted_before_the_server_began_is_no_finding() {
    let mut bed = Bed::sound();
    assert!(bed.facts.is_server_younger());
    assert!(bed.findings().is_empty() && !bed.facts.host.has_told_span());
    for (path, from, to) in [
        ("proc/net/netstat", "TcpExt: 0 0", "TcpExt: 40 45"),
        ("proc/net/snmp", "1000 0", "1000 200"),
        ("proc/net/dev", "eth0: 9 9000000 0", "eth0: 9 9000000 4000"),
        ("proc/net/softnet_stat", "00100000 00000000 0\n00100000", "10000000 00000100 0\n00000010"),
        ("proc/vmstat", "oom_kill 0", "oom_kill 2"),
        ("sys/fs/cgroup/system.slice/varnish.service/memory.events", "oom_kill 0", "oom_kill 1"),
    ] {
        bed.edit(path, from, to);
    }
    assert!(bed.findings().len() >= 6 && bed.facts.host.has_told_span());
    let paths = super::of_machine(&bed.facts.host);
    bed.facts.host.begin(HostSpan::Moment, paths);
    let ids = |bed: &Bed| bed.findings().into_iter().map(|(id, _)| id).collect::<Vec<_>>();
    // The control group is the server's own.
    assert_eq!(ids(&bed), ["cgroup-oom"]);
    bed.edit("proc/net/netstat", "TcpExt: 40 45", "TcpExt: 41 46");
    assert_eq!(ids(&bed), ["listen-overflow", "cgroup-oom"]);
    let evidence = bed.findings()[0].1[0].evidence.concat();
    assert!(evidence.ends_with("within a second; the machine counts since before the server began"), "{evidence}");
    bed.count("MGT.uptime", 999_950);
    assert!(!bed.facts.is_server_younger());
}

#[test]
fn what_is_watched_counts_from_the_first_look_on() {
    let mut bed = Bed::sound();
    bed.edit("proc/net/netstat", "TcpExt: 0 0", "TcpExt: 40 45");
    bed.facts.host.begin(HostSpan::Watched, super::watched(&bed.facts.host));
    assert_eq!(bed.findings(), []);
    bed.edit("proc/net/netstat", "TcpExt: 40 45", "TcpExt: 41 46");
    let findings = bed.findings();
    assert!(
        findings.len() == 1 && findings[0].1[0].evidence[0].starts_with("1 connections dropped, 1 of"),
        "{findings:?}"
    );
    let server = bed.server();
    server.counters.insert("MAIN.sess_dropped".into(), 7);
    server.before = Some(server.counters.clone());
    assert_eq!(bed.findings().len(), 1);
}

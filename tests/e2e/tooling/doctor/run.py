#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`lacquer doctor`: planted faults of machines (files below a root of their own) and of running servers, ours and a genuine varnishd,
are found and named; on sound ones it is silent; what can't be looked at is said; nothing is changed. Each rule has its own planted
fault in `cargo test -p lacquer-doctor`; here are those that operators wrote about, and the program as a whole.
"""
import hashlib
import json
import os
import pathlib
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd, die_with_parent, workdir
from bed.http import get
from bed.origin import Origin, head
from bed.report import Report, options, until

LIMIT = 120
GENUINE = "/usr/sbin/varnishd"
SELF = 4711  # the process that serves, in planted roots

NETSTAT = "TcpExt: ListenOverflows ListenDrops TCPReqQFullDrop TCPReqQFullDoCookies TCPTimeWaitOverflow\nTcpExt: {} 0 0 0 0\n"
DEV = "Inter-|   Receive\n face |bytes\n  eth0: 9 9000000 {errors} {drops} 0 0 0 0 9 9000000 0 0 0 0 0 0\n"
SOUND = {
    "proc/uptime": "1000000.00 1.00\n",
    "proc/version": "Linux version 6.1.0-18-amd64 (x)\n",
    "proc/vmstat": "oom_kill 0\n",
    "proc/1/comm": "systemd\n",
    "proc/7/comm": "chronyd\n",
    f"proc/{SELF}/status": "VmSwap:\t     0 kB\n",
    f"proc/{SELF}/exe": "\x7fELF\x02",
    f"proc/{SELF}/cgroup": "0::/\n",
    f"proc/{SELF}/limits": "Max processes  120000  120000  processes\nMax open files  131072  131072  files\n",
    f"proc/{SELF}/fd/0": "",
    "proc/pressure/cpu": "some avg10=1.00 avg60=2.00 avg300=1.00 total=1\n",
    "proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n",
    "proc/net/netstat": NETSTAT.format(0),
    "proc/net/snmp": "Tcp: OutSegs RetransSegs\nTcp: 1000000 100\nUdp: InDatagrams RcvbufErrors\nUdp: 1000 0\n",
    "proc/net/sockstat": "TCP: inuse 1 orphan 0 tw 36 alloc 1 mem 0\n",
    "proc/net/softnet_stat": "00100000 00000000 0\n00100000 00000000 0\n",
    "proc/net/dev": DEV.format(errors=0, drops=0),
    "proc/net/tcp": "  sl  local_address rem_address   st\n   0: 0100007F:9C40 0200000A:1F90 01\n",
    "proc/sys/net/netfilter/nf_conntrack_count": "0\n",
    "proc/sys/net/netfilter/nf_conntrack_max": "262144\n",
    "proc/sys/net/core/somaxconn": "4096\n",
    "proc/sys/net/core/rmem_max": "212992\n",
    "proc/sys/net/ipv4/tcp_syncookies": "1\n",
    "proc/sys/net/ipv4/tcp_abort_on_overflow": "0\n",
    "proc/sys/net/ipv4/tcp_max_tw_buckets": "65536\n",
    "proc/sys/net/ipv4/tcp_tw_reuse": "2\n",
    "proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
    "proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
    "proc/sys/net/ipv4/tcp_wmem": "4096\t16384\t4194304\n",
    "proc/sys/vm/overcommit_memory": "0\n",
    "proc/sys/fs/file-nr": "2000\t0\t1000000\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "etc/resolv.conf": "nameserver 192.0.2.1\nnameserver 192.0.2.2\n",
}
SYSCTL = "proc/sys/net/ipv4/"
# What operators wrote about: the row, what is planted, which rule says so, and a word that it says.
ROWS = [
    ("G20", {"sys/class/net/eth0/device/uevent": "DRIVER=bnx2\n"}, "nic-bnx2", "disable_msi=1"),
    ("G21", {"proc/sys/net/netfilter/nf_conntrack_count": "31000\n"}, "conntrack-on", "31,000"),
    ("G21", {SYSCTL + "tcp_tw_reuse": "1\n"}, "tw-reuse", "tcp_tw_reuse=0"),
    ("G21", {"proc/net/sockstat": "TCP: inuse 1 orphan 0 tw 65000 alloc 1\n"}, "time-wait", "net.ipv4.tcp_max_tw_buckets"),
    ("G21", {"proc/sys/net/core/somaxconn": "128\n"}, "somaxconn", "128"),
    ("G21", {"proc/net/snmp": "Tcp: OutSegs RetransSegs\nTcp: 1 0\nUdp: InDatagrams RcvbufErrors\nUdp: 1000 500\n"}, "udp-drops", "rmem_max is 208.0 KiB"),
    ("G21", {"sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n"}, "thp", "madvise"),
    ("G21", {f"proc/{SELF}/limits": "Max processes  9  9  processes\nMax open files  1024  1024  files\n"}, "descriptor-limit", "1,024"),
    ("G21", {f"proc/{SELF}/exe": "\x7fELF\x01"}, "32-bit", "32"),
    ("G22", {"proc/version": "Linux version 2.6.32-5-amd64 (x)\n", "proc/uptime": "17900000.00 1.00\n"}, "uptime-208", "207 days"),
    ("O7", {"etc/sysctl.conf": "net.sys.ipv4.tcp_max_tw_buckets = 1000000\n"}, "sysctl-unknown", "is net.ipv4.tcp_max_tw_buckets meant?"),
    ("O8", {"proc/net/dev": DEV.format(errors=5000, drops=20)}, "nic-errors", "5,000 errors"),
    ("O8", {"proc/net/dev": DEV.format(errors=0, drops=50000)}, "nic-errors", "50,000 drops"),
    ("O8", {"proc/net/softnet_stat": "00100000 00000300 0\n00100000 00000000 0\n"}, "softnet-drops", "768 packets"),
    ("O8", {"proc/sys/net/netfilter/nf_conntrack_count": "262144\n"}, "conntrack-full", "262,144 of 262,144"),
    ("issue", {"proc/net/netstat": NETSTAT.format(400)}, "listen-overflow", "400 of them by full queues"),
    ("issue", {f"proc/{SELF}/status": "VmSwap:\t 900000 kB\n"}, "swapped", "878.9 MiB"),
    ("issue", {f"proc/{SELF}/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.events": "oom_kill 3\n"}, "cgroup-oom", "3 killed"),
    ("S1", {"proc/sys/kernel/osrelease": "6.1.0-18-amd64\n", "boot/vmlinuz-6.1.0-21-amd64": ""}, "kernel-not-running", "6.1.0-21-amd64 is installed"),
    ("S1", {"proc/sys/kernel/osrelease": "6.1.0-18-amd64\n", "sys/class/net/eth0/device/uevent": "DRIVER=tg3\n", "sys/module/tg3/srcversion": "AAA\n",
            "lib/modules/6.1.0-18-amd64/modules.dep": "kernel/tg3.ko:\n", "lib/modules/6.1.0-18-amd64/kernel/tg3.ko": "x\0srcversion=BBB\0"},
     "driver-not-running", "AAA runs"),
    ("S1", {"etc/sysctl.d/9.conf": "net.core.somaxconn = 128\n"}, "sysctl-not-kept", "it is 4096 now"),
    ("S1", {"proc/modules": "", "etc/modules-load.d/c.conf": "nf_conntrack\n"}, "module-not-kept", "has it loaded, and it isn't"),
    ("issue", {"proc/7/comm": "cron\n"}, "clock-alone", "no program"),
    ("issue", {"etc/resolv.conf": "search x.org\n"}, "dns-none", "names none"),
]


class Machine:
    """A root with files of a machine."""

    def __init__(self, files=()):
        self.dir = workdir()
        self.write({**SOUND, **dict(files)})

    def write(self, files):
        for name, text in files.items():
            path = self.dir / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode("latin-1"))

    def digest(self):
        sums = hashlib.sha256()
        for path in sorted(self.dir.rglob("*")):
            sums.update(str(path).encode() + str(path.stat().st_mtime_ns).encode())
        return sums.hexdigest()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir, ignore_errors=True)


class Tool:
    def __init__(self, program):
        self.program = program

    def argv(self, *args):
        return [self.program, "doctor", *map(str, args)]

    def run(self, *args, stdin=None):
        p = subprocess.run(self.argv(*args), input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        return p.returncode, p.stdout.decode(), p.stderr.decode()

    def json(self, *args):
        status, out, err = self.run("--format", "json", *args)
        try:
            return status, json.loads(out)
        except ValueError:
            raise AssertionError(f"{args}: status {status}, no JSON: {out[:200]!r} {err[:500]!r}")


def ids(r):
    return [f["id"] for f in r["findings"]]


def finding(r, name):
    return next((f for f in r["findings"] if f["id"] == name), {})


def machines(report, tool):
    with Machine() as m:
        before = m.digest()
        status, r = tool.json("--root", m.dir, "--pid", SELF)
        report.check((status, ids(r)) == (0, []), f"a sound machine: {status} {ids(r)}")
        report.check(len(r["sound"]) > 30 and not r["remarks"], f"all rules looked: {r['sound']} {r['not_looked_at']}")
        report.check(m.digest() == before, "nothing was changed")
        progress(report, tool, m)
    for row, planted, name, word in ROWS:
        with Machine(planted) as m:
            status, r = tool.json("--root", m.dir, "--pid", SELF)
            # The least limit of descriptors, and a full table, are two faults each.
            report.check(name in ids(r) and len(ids(r)) <= 2, f"{row} {name}: {ids(r)}")
            f = finding(r, name)
            text = " ".join([f.get("what", ""), *f.get("evidence", []), *f.get("type", [])])
            report.check(word in text and f.get("why"), f"{row} {name} says {word}: {f}")
            report.check(status == (1 if f.get("severity") != "notice" else 0), f"{row} {name}: status {status}")
    with Machine({"proc/net/netstat": NETSTAT.format(400), "proc/sys/net/core/somaxconn": "128\n"}) as m:
        status, out, err = tool.run("--root", m.dir, "--pid", SELF)
        wide = [line for line in out.splitlines() if len(line) > 80 and not line.startswith("  Type:")]
        report.check(not wide and not err, f"it fits a terminal: {wide} {err}")
        at = [out.find(word) for word in ("FAULT    Connections are thrown away", "Seen:", "Why:", "Type:  sysctl -w net.core.somaxconn", "WARNING")]
        report.check(status == 1 and -1 not in at and at == sorted(at), f"what, seen, why, what to type; faults first: {out}")
        status, r = tool.json("--root", m.dir, "--pid", SELF, "--only", "listen-overflow,thp")
        report.check(ids(r) == ["listen-overflow"] and r["sound"] == ["thp"], f"--only: {r}")
        status, r = tool.json("--root", m.dir, "--pid", SELF, "--skip", "listen-overflow")
        report.check(ids(r) == ["somaxconn"], f"--skip: {ids(r)}")


def stores(report, tool, program):
    """O16, and what else the arguments of a running server tell."""
    with Varnishd(program, backend=("127.0.0.1", 1), storage="malloc,100m") as v, Machine() as m:
        mounts = "20 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n21 20 8:17 / /data rw,{} - xfs /dev/sdb1 rw\n"

        def plant(storage, options, turns, memory="16000000"):
            m.write({f"proc/{v.proc.pid}/cmdline": f"varnishd\0-s\0{storage}\0", f"proc/{v.worker()}/mountinfo": mounts.format(options),
                     "sys/dev/block/8:17/queue/rotational": turns, "proc/meminfo": f"MemTotal: {memory} kB\n"})
            return tool.json("--root", m.dir, "-n", v.n, "--only", "store-atime,store-rotational,memory-oversold,log-on-disk")[1]
        r = plant("file,/data/x,1G", "relatime", "0\n")
        report.check(sorted(ids(r)) == ["log-on-disk", "store-atime"], f"O16 noatime: {r}")
        report.check("relatime" in str(finding(r, "store-atime")["evidence"]), f"O16 noatime: {r}")
        r = plant("s=file,/data/x,1G", "noatime", "1\n")
        report.check(sorted(ids(r)) == ["log-on-disk", "store-rotational"], f"O16 a disk that turns: {r}")
        r = plant("malloc,30G", "noatime", "0\n")
        report.check(sorted(ids(r)) == ["log-on-disk", "memory-oversold"], f"more memory than there is: {r}")
        m.write({f"proc/{v.worker()}/mountinfo": f"20 1 0:9 / {v.n} rw - tmpfs tmpfs rw\n" + mounts.format("noatime")})
        r = tool.json("--root", m.dir, "-n", v.n, "--only", "log-on-disk")[1]
        report.check((ids(r), r["sound"]) == ([], ["log-on-disk"]), f"C15 a log on tmpfs: {r}")


class Site:
    """An origin whose answers are what their path says."""

    def __init__(self):
        self.origin = Origin(self.serve)
        self.address = self.origin.address

    def serve(self, s):
        buf = b""
        while got := head(s, buf):
            _, path, _, buf = got
            extra, body, status = "Cache-Control: max-age=1000\r\n", b"x" * 100, "200 OK"
            if path.startswith("/slow"):
                time.sleep(1.2)
            if path.startswith("/short"):
                extra = "Cache-Control: max-age=1\r\n"
            if path.startswith("/vary"):
                extra += "Vary: User-Agent\r\n"
            if path.startswith("/clock"):
                extra += "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            if path.startswith("/cookie"):
                extra += "Set-Cookie: session=1\r\n"
            if path.startswith("/private"):
                extra = "Cache-Control: private\r\n"
            if path.startswith("/large"):
                body = b"x" * 100_000
            if path.startswith("/error"):
                status = "503 No"
            s.sendall(f"HTTP/1.1 {status}\r\n{extra}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.origin.close()


VCL = """vcl 4.1;
backend default { .host = "127.0.0.1"; .port = "%d"; }
backend late { .host = "127.0.0.1"; .port = "%d"; }
backend early { .host = "127.0.0.1"; .port = "%d"; }
backend gone { .host = "127.0.0.1"; .port = "1"; .probe = { .interval = 1s; .timeout = 0.5s; .initial = 0; } }
sub vcl_recv {
    if (req.url ~ "^/slow") { set req.backend_hint = late; }
    if (req.url ~ "^/clock") { set req.backend_hint = early; }
    if (req.url ~ "^/gone") { set req.backend_hint = gone; }
}
sub vcl_backend_response { if (bereq.url ~ "^/short") { set beresp.grace = 0s; } }
"""


def ask(report, address, paths, fields=lambda n: (), hands=8):
    """All of them, several at a time; each must be answered whole."""
    left, lock, bad = list(enumerate(paths)), threading.Lock(), []

    def work():
        while True:
            with lock:
                if not left:
                    return
                n, path = left.pop()
            r = get(address, path, fields(n), timeout=30)
            if r.end != "complete":
                bad.append((path, str(r)))
    threads = [threading.Thread(target=work) for _ in range(hands)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    report.check(not bad, f"all were answered: {bad[:3]}")


def servers(report, tool, program):
    """A server with many faults, by its counters, its CLI and its log; and one without."""
    name = "ours" if program != GENUINE else "varnishd"
    with Site() as site:
        port = site.address[1]
        with Varnishd(program, vcl=VCL % ((port,) * 3), storage="malloc,100m") as v:
            ask(report, v.address, ["/page", "/other.png"] * 40)
            wanted = lambda: tool.json("-n", v.n, "-S", v.dir / "secret", "--only", "server,log", "--skip", "backend-sick,backend-failing")
            until(60, lambda: "Log: 80 requests" in str(wanted()[1]["about"]))
            status, r = wanted()
            report.check((status, ids(r), r["remarks"]) == (0, [], []), f"{name}: a sound server: {r['findings']} {r['remarks']}")
            report.check(any("80 requests, 2 fetches" in line for line in r["about"]), f"{name}: its log: {r['about']}")
            blind = [b for b in r["not_looked_at"]]
            report.check(not blind or all("CLI" in b["why"] for b in blind), f"{name}: what can't be looked at: {blind}")
    with Site() as site:
        port = site.address[1]
        with Varnishd(program, ["-p", "lru_interval=3600", "-p", "nuke_limit=1000", "-p", "ban_lurker_sleep=0", "-T", "127.0.0.1:0"], vcl=VCL % ((port,) * 3), storage="malloc,3m") as v:
            ask(report, v.address, ["/passed/%d" % (n % 5) for n in range(60)], lambda n: [("Cookie", f"a={n}")])
            ask(report, v.address, ["/a.png"] * 9, lambda n: [("Cookie", "a=b")])
            ask(report, v.address, ["/passed/counted"] * 9, lambda n: [("Cookie", "_ga=GA1.2.3; _gid=4")])
            ask(report, v.address, ["/cookie/%d.css" % n for n in range(5)] + ["/private/%d.js" % n for n in range(5)])
            ask(report, v.address, ["/vary"] * 30, lambda n: [("User-Agent", f"browser {n}")])
            ask(report, v.address, ["/page?utm_source=%d" % n for n in range(20)])
            ask(report, v.address, ["/slow/report?%d" % n for n in range(24)] + ["/clock/%d" % n for n in range(6)])
            ask(report, v.address, ["/error/%d" % n for n in range(9)])
            for _ in range(8):
                # Each a fetch of its own, since what lives for a second is then stale.
                ask(report, v.address, ["/short/%d" % n for n in range(5)])
                v.cli.ask("ban req.url ~ ^/short")
            # One after the other: of several at a time one may find that all room is being used, and is cut, as is with a small
            # nuke_limit one whose room many small objects have.
            ask(report, v.address, ["/large/%d" % n for n in range(80)], hands=1)
            for n in range(30):
                v.cli.ask(f"ban req.url ~ ^/news/{n}")
            text = 'vcl 4.1; backend b { .host = \\"127.0.0.1\\"; .port = \\"1\\"; }'
            for n in range(11):
                v.cli.ask(f'vcl.inline v{n} "{text}"')
            before = v.cli.ask("param.show")
            want = ["nuked", "backend-sick", "ban-request", "old-vcls", "param-lru-interval", "passes", "cookie-static", "tracking-cookies", "set-cookie-static",
                    "static-forbidden", "short-ttl", "vary-many", "tracking-parameters", "slow-backend", "errors", "backend-clock"]
            look = lambda: tool.json("-n", v.n, "--only", "server,log")
            until(60, lambda: set(want) <= set(ids(look()[1])))
            status, r = look()
            for one in want:
                report.check(one in ids(r), f"{name}: {one}: {ids(r)} {r['not_looked_at']} {r['about']}")
            report.check(status == 1 and not r["not_looked_at"], f"{name}: status {status}, all looked at: {r['not_looked_at']}")
            said = lambda one: " ".join([finding(r, one).get("subject", ""), *finding(r, one).get("evidence", [])])
            # O15: which origin, and which of its URLs, hold the requests.
            report.check("late" in said("slow-backend") and re.search(r"bed\.test/slow/report, 24 fetches of (1\.[2-9]|[2-9]|\d\d)", said("slow-backend")), f"{name}: O15: {said('slow-backend')}")
            report.check("30 variants of bed.test/vary by User-Agent" in said("vary-many"), f"{name}: E13: {said('vary-many')}")
            report.check("have a Cookie" in said("passes") and "/passed/" in said("passes"), f"{name}: passes by reason: {said('passes')}")
            report.check("bed.test/a.png" in said("cookie-static") and "bed.test/cookie/0.css" in said("set-cookie-static"), f"{name}: which: {said('cookie-static')} {said('set-cookie-static')}")
            report.check("_ga _gid" in said("tracking-cookies") and "cookie_drop '_ga* " in finding(r, "tracking-cookies")["type"][0], f"{name}: {finding(r, 'tracking-cookies')}")
            report.check("query_drop 'utm_* " in finding(r, "tracking-parameters")["type"][0], f"{name}: {finding(r, 'tracking-parameters')}")
            report.check("gone" in said("backend-sick") and "sick" in said("backend-sick"), f"{name}: which: {said('backend-sick')}")
            report.check("req.url ~ ^/news/" in said("ban-request"), f"{name}: a ban as an example: {said('ban-request')}")
            report.check("early" in said("backend-clock") and "behind ours" in said("backend-clock"), f"{name}: {said('backend-clock')}")
            report.check("3600" in said("param-lru-interval"), f"{name}: C7: {said('param-lru-interval')}")
            # The tools read their options, then say their version.
            looks = {line for one in r["findings"] for line in one["type"] if line.startswith("varnish") and not line.startswith("varnishadm")}
            for line in looks:
                words = shlex.split(line.partition(" | ")[0], comments=True)
                end = subprocess.run([pathlib.Path(tool.program).with_name(words[0]), *words[1:], "-V"], capture_output=True, timeout=LIMIT)
                report.check(end.returncode == 0, f"{name}: {line}: {end.stderr}")
            report.check(len(looks) > 3, f"{name}: what is to be typed: {looks}")
            report.check(v.cli.ask("param.show") == before, f"{name}: nothing was changed")
            saved(report, tool, v, name)
            watched(report, tool, v, name)
            died(report, tool, v, name)


def saved(report, tool, v, name):
    """The same by files that Varnish's own tools have written."""
    run = lambda *argv: subprocess.run([*map(str, argv)], capture_output=True, timeout=LIMIT).stdout
    files = {"counters": run("/usr/bin/varnishstat", "-j", "-n", v.n), "log": run("/usr/bin/varnishlog", "-d", "-g", "raw", "-w", "-", "-n", v.n),
             "params": v.cli.ask("param.show -j").encode()}
    for file, octets in files.items():
        (v.dir / file).write_bytes(octets)
    args = ["--root", v.dir, "--counters", v.dir / "counters", "--params", v.dir / "params", "-r", v.dir / "log", "--only", "server,log"]
    status, r = tool.json(*args)
    report.check({"nuked", "ban-request", "param-lru-interval", "slow-backend", "vary-many"} <= set(ids(r)), f"{name}: from files: {ids(r)} {r['remarks']}")
    pipes(report, tool, v, name, files["log"], next(line for line in r["about"] if line.startswith("Log: ")))
    (v.dir / "log").write_bytes(files["log"][:len(files["log"]) // 2 + 3])
    status, r = tool.json(*args)
    report.check(any("was cut" in remark for remark in r["remarks"]), f"{name}: a cut log is told: {r['remarks']}")


class Watcher:
    """A doctor with a terminal for its progress: the first line of it says that the first look is over."""

    def __init__(self, tool, *args, stdin=subprocess.DEVNULL, shows=b" s left"):
        self.terminal, theirs = pty.openpty()
        self.proc = subprocess.Popen(tool.argv(*args), stdin=stdin, stdout=subprocess.PIPE, stderr=theirs, preexec_fn=die_with_parent)
        os.close(theirs)
        self.shown = b""
        while shows not in self.shown and self.more():
            pass

    def more(self):
        if not select.select([self.terminal], [], [], LIMIT)[0]:
            return False
        try:
            octets = os.read(self.terminal, 65536)
        except OSError:  # the end of a terminal
            octets = b""
        self.shown += octets
        return bool(octets)

    def end(self):
        """Its status and what it printed."""
        out = self.proc.communicate(timeout=LIMIT)[0]
        while self.more():
            pass
        os.close(self.terminal)
        return self.proc.returncode, out.decode()


def watched(report, tool, v, name):
    """What has happened before isn't told; what happens is; Ctrl-C ends it with what there is."""
    w = Watcher(tool, "-n", v.n, "--watch", "1m", "--format", "json", "--only", "server,log")
    ask(report, v.address, ["/cookie/x%d.css" % n for n in range(40)])
    # A transaction is in the log some moments after its client has its answer; the line says how many were read.
    while b"\r\x1b[K40 requests" not in w.shown and w.more():
        pass
    w.proc.send_signal(signal.SIGINT)
    status, out = w.end()
    r = json.loads(out)
    report.check("set-cookie-static" in ids(r) and not {"slow-backend", "nuked", "vary-many"} & set(ids(r)), f"{name}: watched: {ids(r)} {r['about']}")
    report.check(status == 1 and any("ended early" in remark for remark in r["remarks"]), f"{name}: Ctrl-C: {status} {r['remarks']}")


def progress(report, tool, machine):
    """On a terminal a line says how far it is, and goes at the end; in a pipe there is none."""
    w = Watcher(tool, "--root", machine.dir, "--pid", SELF, "--watch", "1500ms")
    status, out = w.end()
    report.check(status == 0 and b" s left" in w.shown and w.shown.endswith(b"\r\x1b[K") and " left" not in out, f"progress: {w.shown}")
    status, out, err = tool.run("--root", machine.dir, "--pid", SELF, "--watch", "1ms")
    report.check(status == 0 and not err, f"no progress in a pipe: {err}")


def outlived(report, tool, v, name):
    """A worker that dies while it is watched: the next one's log is followed."""
    w = Watcher(tool, "-n", v.n, "--watch", "5m", "--format", "json", "--only", "server,log")
    read = lambda: [int(n) for n in re.findall(rb"\r\x1b\[K(\d+) requests", w.shown)][-1]
    before, pid, end = read(), v.worker(), time.monotonic() + 60
    os.kill(pid, signal.SIGKILL)
    until(60, lambda: v.worker() not in (None, pid) and "running" in v.cli.ask("status"))
    # Those that come before the log is found again aren't seen.
    while read() < before + 20 and time.monotonic() < end:
        ask(report, v.address, ["/cookie/y%d.css" % n for n in range(10)])
        w.more()
    report.check(read() >= before + 20, f"{name}: the next worker's log is read: {w.shown[-200:]}")
    w.proc.send_signal(signal.SIGINT)
    status, out = w.end()
    r = json.loads(out)
    report.check(status == 1 and "set-cookie-static" in ids(r), f"{name}: the next worker is watched: {status} {ids(r)} {r['about']}")
    report.check(any("the log was" in remark for remark in r["remarks"]), f"{name}: the first one's end is told: {r['remarks']}")


def pipes(report, tool, v, name, log, about):
    """A pipe that has nothing more, or never had anything, ends with Ctrl-C; what came counts."""
    for sent in (log, b"VSL\0", b""):
        w = Watcher(tool, "--root", v.dir, "-r", "-", "--format", "json", stdin=subprocess.PIPE, shows=b" MB read")
        w.proc.stdin.write(sent)
        w.proc.stdin.flush()
        want = b"\r\x1b[K%d requests" % (int(re.search(r"Log: ([\d,]+) requests", about)[1].replace(",", "")) if sent == log else 0)
        end = time.monotonic() + 60
        while want not in w.shown and time.monotonic() < end and w.more():
            pass
        w.proc.send_signal(signal.SIGINT)
        # Before the pipe's other end is closed.
        w.proc.wait(LIMIT)
        status, out = w.end()
        r = json.loads(out or "{}")
        report.check("ended early" in str(r.get("remarks")), f"{name}: Ctrl-C at a pipe of {len(sent)} bytes: {status} {r.get('remarks')} {w.shown[-99:]}")
        report.check(sent != log or about in str(r.get("about")), f"{name}: what was read of the pipe: {r.get('about')}")


def died(report, tool, v, name):
    """E4: a worker that was started again; and a server that is gone while it is watched."""
    os.kill(v.worker(), signal.SIGKILL)
    look = lambda: tool.json("-n", v.n, "--only", "worker-died")[1]
    until(60, lambda: ids(look()) == ["worker-died"])
    r = look()
    report.check("once under this manager" in str(finding(r, "worker-died").get("evidence")), f"{name}: E4: {r}")
    until(60, lambda: "running" in v.cli.ask("status"))
    outlived(report, tool, v, name)
    v.cli.ask("stop")
    until(60, lambda: ids(tool.json("-n", v.n, "--only", "worker-stopped")[1]) == ["worker-stopped"])
    status, r = tool.json("-n", v.n, "--only", "worker-stopped")
    report.check((status, ids(r)) == (1, ["worker-stopped"]), f"{name}: nobody is served: {r}")
    v.cli.ask("start")
    until(60, lambda: "running" in v.cli.ask("status"))
    w = Watcher(tool, "-n", v.n, "--watch", "1m", "--format", "json")
    v.proc.terminate()
    v.proc.wait(20)
    w.proc.send_signal(signal.SIGINT)
    status, out = w.end()
    r = json.loads(out)
    report.check(status == 2 and any("went away" in remark for remark in r["remarks"]), f"{name}: a server that goes: {status} {r['remarks']}")
    report.check(len(r["sound"]) > 5, f"{name}: the machine was looked at all the same: {r['sound']}")


def strangers(report, tool, program):
    """Who may not look at the server, or at its process, is told so."""
    with Varnishd(program, backend=("127.0.0.1", 1)) as v:
        def run(group):
            return subprocess.run(["setpriv", "--reuid", "65534", "--regid", str(group), "--clear-groups", *tool.argv("-n", v.n, "--format", "json")],
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        p = run(65534)
        if p.returncode in (126, 127):
            report.note("another user can't run the program here: not tried")
            return
        report.check(p.returncode == 2 and b"ermission" in p.stderr and not p.stdout, f"another user: {p.returncode} {p.stderr}")
        # Of the group that may read the counters and the log, as varnishlog's users are.
        p = run((v.n / "_.vsm_mgt").stat().st_gid)
        blind = {b["id"]: b["why"] for b in json.loads(p.stdout)["not_looked_at"]}
        report.check("/fd can't be read" in blind.get("descriptors-used", ""), f"another user's process: {blind}")
        report.check(all(blind.values()) and "nuked" not in blind, f"each says why: {blind}")


def nonsense(report, tool):
    """Files that are none, and words that are wrong."""
    with Machine() as m:
        for path in sorted(m.dir.rglob("*")):
            if path.is_file():
                path.write_bytes(os.urandom(200) + b"\0\n" + b"9" * 500 + b"\n" + b"x" * 1_000_000)
        status, r = tool.json("--root", m.dir, "--pid", SELF)
        report.check(status in (0, 1, 2) and len(ids(r)) + len(r["sound"]) + len(r["not_looked_at"]) > 30, f"random files: {status}")
        for path in sorted(m.dir.rglob("*")):
            if path.is_file():
                path.unlink()
                os.mkfifo(path)
        status, r = tool.json("--root", m.dir, "--pid", SELF)
        report.check(r["not_looked_at"] and not ids(r), f"pipes that nobody writes: {status} {ids(r)}")
    d = workdir()
    (d / "text").write_text("no log\n")
    (d / "stat").write_text('{"counters": {"MAIN.uptime": {"value": "x"}}}')
    (d / "vsl").write_bytes(b"VSL\0" + os.urandom(100_000))
    status, r = tool.json("--root", d, "-r", d / "vsl")
    report.check(status in (0, 2), f"a log of nonsense: {status} {r['findings']}")
    for args, want in ((["-n", d], "is it running?"), (["-r", d / "text"], "Not a VSL file"), (["-r", d / "nosuch"], "nosuch"),
                       (["--counters", d / "text"], "no output of varnishstat -j"), (["--counters", d / "stat"], "no counters"),
                       (["--root", d / "nosuch"], "no such directory"), (["--only", "nosuch"], "no such rule"), (["--explain", "nuke"], "is nuked meant?"),
                       (["--watch", "never"], "--watch never"), (["host"], "host")):
        status, out, err = tool.run(*args)
        report.check(status == 2 and want in err and not out, f"{args}: {status} {err}")
    shutil.rmtree(d)


def texts(report, tool):
    rules = json.loads(tool.run("--list", "--format", "json")[1])
    report.check(len(rules) > 70 and all(r[key] for r in rules for key in ("id", "area", "severity", "what", "why", "evidence", "type")), "each rule says all")
    status, out, _ = tool.run("--list")
    report.check(status == 0 and all(f"  {r['id']} " in out for r in rules), f"--list: {out[:300]}")
    report.check(all(len(line) <= 80 for line in out.splitlines()), f"--list fits a terminal: {[l for l in out.splitlines() if len(l) > 80]}")
    status, out, _ = tool.run("--explain", "conntrack-full")
    report.check(status == 0 and all(word in out for word in ("Looks:", "Why:", "Type:", "nf_conntrack_max")), f"--explain: {out}")


def main():
    o = options(__doc__)
    report = Report("doctor")
    tool = Tool(str(pathlib.Path(o.varnishd).parent / "lacquer"))
    texts(report, tool)
    machines(report, tool)
    nonsense(report, tool)
    stores(report, tool, o.varnishd)
    strangers(report, tool, o.varnishd)
    for program in (o.varnishd, GENUINE):
        servers(report, tool, program)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

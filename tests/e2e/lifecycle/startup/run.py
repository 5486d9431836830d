#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The command lines that people start varnishd with, and what wrong ones answer.

Lines are taken as they are; only ports, paths and the working directory are put aside where a test has to (so that nothing on the
machine is touched and two runs can't meet).
"""
import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import cli_of, die_with_parent, free_port, tree, workdir
from bed.http import Client, get
from bed.origin import Origin, simple
from bed.report import Report, options, until
from places import all_places
from releases import all_releases

LIMIT = 60
GENUINE = "--genuine" in sys.argv
USERS = {u.pw_name for u in pwd.getpwall()}

# name: (the line; {f} VCL file, {d} a directory of the test's own; what must be so once it runs)
# Checks: ("param", name, text in param.show), ("storage", text in storage.list), ("listen", names of the listeners)
LINES = {
    # docs/internals/operators.md, B: lines that operators published.
    "tutorial": ("-f {f} -a :0 -P {d}/varnish.pid -s malloc,256m", [("storage", "malloc"), ("listen", ["a0"])]),
    "glued storage": ("-f {f} -a :0 -T localhost:0 -P {d}/varnish.pid -smalloc,30G -p thread_pools=8 -p thread_pool_min=100 "
                      "-p thread_pool_max=5000 -p thread_pool_add_delay=2",
                      [("storage", "malloc"), ("param", "thread_pools", "8"), ("param", "thread_pool_max", "5000")]),
    "glued file storage": ("-f {f} -a :0 -P {d}/varnish.pid -sfile,{d}/storage.bin,64m", [("storage", "file")]),
    "classic hash": ("-f {f} -a :0 -P {d}/varnish.pid -h classic,500009 -s malloc,1G -p cli_timeout=25 -p lru_interval=20 "
                     "-p listen_depth=4096", [("param", "cli_timeout", "25.000"), ("param", "listen_depth", "4096")]),
    "one address": ("-a 127.0.0.1:0 -f {f} -P {d}/varnish.pid -h critbit -s malloc,32m", [("listen", ["a0"])]),
    # Debian's systemd unit.
    "systemd unit": ("-j unix,user=vcache -F -a :0 -T localhost:0 -f {f} -S {d}/secret -s malloc,256m", [("storage", "malloc")]),
    # The packagers' unit.
    "packagers": ("-a :0 -a localhost:0,PROXY -p feature=+http2 -f {f} -s malloc,256m",
                  [("listen", ["a0", "a1"]), ("param", "feature", "+http2")]),
    # The official image.
    "official image": ("-F -f {f} -a http=:0,HTTP -a proxy=:0,PROXY -p feature=+http2 -s malloc,100M",
                       [("listen", ["http", "proxy"]), ("param", "feature", "+http2")]),
    # The options that the lines above leave out.
    "socket file": ("-f {f} -a {d}/in.sock,mode=666 -a 127.0.0.1:0 -P {d}/varnish.pid -t 77 -l 4m -p default_grace=33",
                    [("listen", ["a0", "a1"]), ("param", "default_ttl", "77.000"), ("param", "default_grace", "33.000")]),
    "parameters glued": ("-f{f} -a127.0.0.1:0 -P{d}/varnish.pid -pdefault_keep=44 -smalloc,10m -t0",
                         [("param", "default_keep", "44.000"), ("param", "default_ttl", "0.000")]),
    "commands at start": ("-f {f} -a 127.0.0.1:0 -I {d}/init.cli -P {d}/varnish.pid",
                          [("param", "default_ttl", "77.000"), ("cli", "vcl.list", 200, "second")]),
    "protected parameters": ("-f {f} -a 127.0.0.1:0 -r default_ttl,cli_timeout -P {d}/varnish.pid",
                             [("cli", "param.set default_ttl 5", 107, "is protected"), ("cli", "param.set default_grace 5", 200, "")]),
    "waiter": ("-f {f} -a 127.0.0.1:0 -W epoll -P {d}/varnish.pid", [("cli", "status", 200, "running")]),
    "identity": ("-f {d}/identity.vcl -a 127.0.0.1:0 -i north-7 -P {d}/varnish.pid", [("field", "X-Identity", "north-7")]),
    "nothing to load": ("-F -f '' -a 127.0.0.1:0", [("cli", "status", 200, "stopped"), ("cli", "vcl.list", 200, "")]),
    "no jail": ("-j none -f {f} -a 127.0.0.1:0 -P {d}/varnish.pid", [("cli", "status", 200, "running")]),
    "two stores": ("-f {f} -a 127.0.0.1:0 -P {d}/varnish.pid -s one=malloc,10m -s two=default,20m -s Transient=malloc,5m",
                   [("storage", "storage.one"), ("storage", "storage.two"), ("storage", "storage.Transient")]),
}
# Lines that name what 7.1.1 no longer knows and that must start all the same: (line, checks).
OLD_LINES = {
    **{f"workspace of {size}": (f"-f {{f}} -a :0 -P {{d}}/varnish.pid -s malloc,64m -p sess_workspace={size}",
                                [("param", "workspace_client", "")]) for size in ("16384", "32k", "128k", "256k", "5M")},
    "parameters of old releases": ("-f {f} -a :0 -P {d}/varnish.pid -s malloc,64m -p session_linger=120 -p sess_timeout=4 "
                                   "-p obj_workspace=8192 -p rush_exponent=5 -p shm_reclen=300 -p thread_pool_add_delay=2",
                                   [("param", "timeout_linger", "0.120"), ("param", "timeout_idle", "4.000")]),
    "where 2.0.4 listened": ("-f {f} -p listen_address=127.0.0.1:0 -P {d}/varnish.pid -s malloc,64m -p client_http11=on -p user=nobody",
                             [("listen", ["a0"])]),
    "the RPM of 3.0": ("-f {f} -a :0 -P {d}/varnish.pid -t 120 -w 50,1000,120 -u vcache -g varnish -S {d}/secret -s malloc,64m",
                       [("param", "default_ttl", "120.000"), ("param", "thread_pool_min", "50"), ("param", "thread_pool_timeout", "120.000")]),
    "the RPM of 2.1": ("-f {f} -a :0 -P {d}/varnish.pid -t 120 -w 1,1000,120 -u vcache -g varnish -s file,{d}/storage.bin,1%",
                       [("param", "thread_pool_min", "5"), ("param", "thread_pool_max", "1000")]),
    "old workspace name": ("-f {f} -a :0 -P {d}/varnish.pid -h classic,500009 -p sess_workspace=262144 -s malloc,64m", []),
}

# arguments -> (exit status, what stdout or stderr must hold); {busy} is a port that is taken
WRONG = [
    ("-V", 0, "Copyright (c) 2006"),
    ("-V -F", 2, "Too many arguments for -V"),
    ("-Z", 2, "Usage: varnishd [options]"),
    ("-F -b 127.0.0.1:1 -f {f}", 2, "Error: Only one of -b or -f can be specified"),
    ("-d -F -f {f}", 2, "Error: Only one of -d or -F can be specified"),
    ("-C", 2, "Error: -C needs either -b <backend> or -f <vcl_file>"),
    ("-C -d -b none", 2, "Error: -d makes no sense with -C"),
    ("-C -F -b none", 2, "Error: -F makes no sense with -C"),
    ("-C -b none", 0, ""),
    ("-C -b http://127.0.0.1:1", 0, '.host = "127.0.0.1:1";'),
    ("-C -b https://127.0.0.1", 0, ".ssl_verify_host = 1;"),
    ("-F -b https://example.com/app", 2, "a backend has no path"),
    ("-C -f {bad}", 2, "Symbol not found: 'foo'"),
    ("-F", 2, "Error: Neither -b nor -f given. (use -f '' to override)"),
    ("-F extra -f {f}", 2, "Error: Too many arguments (extra...)"),
    ("-F -f {f} -a 127.0.0.1:{busy}", 2, "Error: Could not get socket 127.0.0.1:{busy}: Address already in use"),
    ("-f {f} -a 127.0.0.1:{busy}", 255, "Error: Could not get socket 127.0.0.1:{busy}: Address already in use"),
    ("-F -f {d}/none.vcl -a 127.0.0.1:0", 2, "Error: Cannot read -f file '{d}/none.vcl' (No such file or directory)"),
    ("-f {d}/none.vcl -a 127.0.0.1:0", 255, "Error: Cannot read -f file '{d}/none.vcl' (No such file or directory)"),
    ("-F -f {bad} -a 127.0.0.1:0", 2, "Symbol not found: 'foo'"),
    ("-f {bad} -a 127.0.0.1:0", 255, "Symbol not found: 'foo'"),
    ("-F -f {f} -a 127.0.0.1:0 -s malloc,xyz", 2, 'Error: (-smalloc) size "xyz": Invalid number'),
    ("-F -f {f} -a 127.0.0.1:0 -s nosuch", 2, 'Error: Unknown storage method "nosuch"'),
    ("-f {f} -a 127.0.0.1:0 -s nosuch", 255, 'Error: Unknown storage method "nosuch"'),
    ("-C -f {f} -s umem,1m", 2, "Error: storage method \"umem\" is Solaris' own: use malloc"),
    ("-C -f {f} -s deprecated_persistent,/no/such/file,1g", 2, "Error: -sdeprecated_persistent isn't built into Lacquer: use persistent"),
    ("-C -f {f} -s file,/no/such/dir/file,1m,4k,often", 2, 'Error: (-s file) invalid advice: "often"'),
    ("-C -f {f} -s file,/no/such/dir/file,1m", 2, 'Error: (-sfile) "/no/such/dir/file" does not exist and could not be created'),
    ("-F -f {f} -a 127.0.0.1:{busy}", 2, "by {me}"),
    ("-F -f {f} -a 127.0.0.1:0 -T 127.0.0.1:{busy}", 2, "It is taken by {me}"),
    ("-F -f {f} -a 127.0.0.1:99999", 2, "there is no port 99999: the highest is 65535"),
    ("-F -b 127.0.0.1:65536 -a 127.0.0.1:0", 2, "there is no port 65536: the highest is 65535"),
    ("-F -f {f} -T 127.0.0.1:99999", 2, "there is no port 99999: the highest is 65535"),
    ("-F -f {f} -a 127.0.0.1:nosuch", 2, 'there is no port "nosuch"'),
    ("-F -f {f} --wtach 127.0.0.1:0", 2, "Error: There is no option --wtach: is --watch meant?"),
    ("-F -f {f} --pers=a", 2, "Error: There is no option --pers: is --peers meant?"),
    ("-F -f {f} --frobnicate", 2, "Error: There is no option --frobnicate\n"),
    ("-F -f {f} --watch", 2, "Error: --watch needs a value"),
    ("-F -f {f} --help", 2, "Error: --help must be the only argument"),
    ("-F -f {f} -a 127.0.0.1:0 -p defualt_ttl=1", 2, 'Unknown parameter "defualt_ttl".\nIs default_ttl meant?'),
    ("-F -f {f} -a 127.0.0.1:0 -p nosuch=1", 2, 'Unknown parameter "nosuch".'),
    ("-F -f {f} -a 127.0.0.1:0 -p default_ttl=abc", 2, "Invalid number (abc)"),
    ("-F -f {f} -a 127.0.0.1:0 -p foo", 2, "-p lacks '='"),
    ("-F -f {f} -a 127.0.0.1:0 -S {d}/nosecret", 2, "Error: Cannot open -S file"),
    ("-F -f {f} -a 127.0.0.1:0 -h nosuch", 2, 'Error: Unknown hash method "nosuch"'),
    ("-F -f {f} -a 127.0.0.1:0 -j nosuch", 2, 'Error: Unknown jail method "nosuch"'),
    ("-F -f {f} -a 127.0.0.1:0 -l 1", 2, "Must be at least 1M"),
    ("-F -f {f} -a relative.sock", 2, "Error: Got no socket(s) for relative.sock"),
    ("-F -f {f} -a 127.0.0.1:0,mode=666", 2, "Error: Invalid sub-arg mode=666 for IP addresses in -a"),
    ("-F -f {f} -a 127.0.0.1:0,NOPROTO", 2, "Error: Unknown protocol 'NOPROTO'"),
    ("-F -f {f} -a 127.0.0.1:0 -T 127.0.0.1:{busy}", 2, "Error: -T 127.0.0.1:{busy} could not be listened on: Address already in use. It is taken by "),
    ("-F -f {f} -a 127.0.0.1:0 -t abc", 2, "Invalid number (abc)"),
    ("-F -f {f} -a 127.0.0.1:0 -P /no/such/dir/pid", 2, "Error: Could not open pid-file (/no/such/dir/pid)"),
    ("-F -f {f} -a 127.0.0.1:0 -r nosuch", 2, "Unknown parameter"),
    ("-x nosuch", 2, "Error: Invalid -x argument"),
    ("-x parameter", 0, "default_ttl"),
]


# Only where root reads VCL as another user.
JAILED = [("-F -f {d}/own.vcl -a 127.0.0.1:0", 2, "It is read as the user varnish, who may not read it"),
          ("-F -f {d}/closed/ok.vcl -a 127.0.0.1:0", 2, "It is read as the user varnish, who may not enter {d}/closed")]


class Bed:
    """A directory with VCL files and a secret, an origin, a port that is taken."""

    def __init__(self, program):
        self.program, self.dir = program, workdir()
        self.origin = Origin(simple(lambda *_: ("Cache-Control: max-age=60\r\n", b"hello")))
        host, port = self.origin.address
        vcl = f'vcl 4.1;\nbackend default {{ .host = "{host}"; .port = "{port}"; }}\n'
        (self.dir / "ok.vcl").write_text(vcl)
        (self.dir / "bad.vcl").write_text(vcl + "sub vcl_recv { set foo = 1; }\n")
        (self.dir / "secret").write_text("a secret\n")
        (self.dir / "init.cli").write_text(f"param.set default_ttl 77\nvcl.load second {self.dir}/ok.vcl\n")
        (self.dir / "identity.vcl").write_text(vcl + "sub vcl_deliver { set resp.http.X-Identity = server.identity; }\n")
        (self.dir / "closed").mkdir(0o700)
        for name in ("own.vcl", "closed/ok.vcl"):
            (self.dir / name).write_text(vcl)
            (self.dir / name).chmod(0o600)
        self.busy = socket.create_server(("127.0.0.1", 0))
        self.names = dict(f=self.dir / "ok.vcl", bad=self.dir / "bad.vcl", d=self.dir, busy=self.busy.getsockname()[1],
                          me=f"{pathlib.Path('/proc/self/comm').read_text().strip()} (process {os.getpid()})")

    def argv(self, line, n):
        own = [] if line.split()[0] in ("-V", "-x") else ["-n", str(n)]
        return [self.program, *own, *(w.format(**self.names).replace("''", "") for w in line.split())]

    @contextlib.contextmanager
    def line(self):
        """The names of a line that runs beside others: a directory, an abstract socket, a loopback address and ports of its own."""
        directory = pathlib.Path(tempfile.mkdtemp(prefix="line.", dir=self.dir))
        directory.chmod(0o755)
        first, pid = free_port(), os.getpid()
        try:
            yield dict(f=self.names["f"], d=directory, secret=self.dir / "secret", name=f"lacquer-{pid}-{directory.name}",
                       own=f"127.{64 + (pid >> 16)}.{pid >> 8 & 255}.{pid & 255}", ports=f"{first}-{first + 2}")
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def close(self):
        self.origin.close()
        self.busy.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    try:  # a zombie that nobody but PID 1 can reap counts as gone
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def listeners(cli):
    return [line.split() for line in cli.ask("debug.listen_address").splitlines()]


def serves(address, proxy):
    """Whether a request gets its answer, with a PROXY line before it on a PROXY listener."""
    if not proxy:
        return get(address, "/x", timeout=LIMIT).whole()
    with Client(address, LIMIT) as c:
        c.send(b"PROXY TCP4 192.0.2.7 192.0.2.8 1111 80\r\n")
        return c.request("/x").whole()


def inspect(report, name, cli, checks, line):
    for kind, *what in checks:
        if kind == "param":
            shown = cli.ask(f"param.show {what[0]}")
            report.check(what[1] in shown, f"{name}: {what[0]} is not {what[1]}: {shown}")
        elif kind == "storage":
            shown = cli.ask("storage.list")
            report.check(what[0] in shown, f"{name}: no {what[0]} in {shown}")
        elif kind == "cli":
            status, body = cli.ask_raw(what[0])
            report.check(status == what[1] and what[2] in body.decode(), f"{name}: {what[0]} answers {status} {body[:200]}")
        elif kind == "field":
            host, port = next(a[1:] for a in listeners(cli))
            shown = get((host, int(port)), "/x", timeout=LIMIT).get(what[0])
            report.check(shown == what[1], f"{name}: {what[0]} is {shown}")
        else:
            shown = list(dict.fromkeys(a[0] for a in listeners(cli)))
            report.check(shown == what[0], f"{name}: listeners {shown}, expected {what[0]}")
    if "''" in line:
        return  # no worker: nobody listens
    proxies = {n for n, w in zip(dict.fromkeys(a[0] for a in listeners(cli)), [w for w in line.split() if ":0" in w or ".sock" in w
               and w.startswith("{d}")]) if ",PROXY" in w}
    for n, host, port in listeners(cli):
        if port.isdigit() and int(port) and ":" not in host:
            address = ("127.0.0.1" if host == "0.0.0.0" else host, int(port))
            report.check(serves(address, n in proxies), f"{name}: no answer on {n} {address}")


def started(report, bed, name, line, checks):
    """Starts one line, looks at what runs, and ends it with SIGTERM."""
    n = bed.dir / ("n_" + name.replace(" ", "_"))
    foreground = "-F" in line.split()
    proc = subprocess.Popen(bed.argv(line, n), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            preexec_fn=die_with_parent if foreground else None, cwd=bed.dir)
    pid, cli = proc.pid, None
    try:
        if not foreground:
            try:
                out, _ = proc.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                proc.kill()
                return report.check(False, f"{name}: daemon mode did not return")
            if not report.check(proc.returncode == 0, f"{name}: exit status {proc.returncode}: {out.decode()[-400:]}"):
                return
        cli = until(LIMIT, lambda: cli_of(n) or (foreground and proc.poll() is not None and "ended"))
        if cli == "ended" or not cli:
            out = proc.stdout.read().decode()[-400:] if cli == "ended" else ""
            return report.check(False, f"{name}: no CLI; exit status {proc.poll()}: {out}")
        wanted = "stopped" if "''" in line else "running"
        report.check(until(LIMIT, lambda: wanted in cli.ask("status")), f"{name}: {cli.ask('status')}")
        pid = int(cli.ask("pid").split()[1])
        inspect(report, name, cli, checks, line)
        pid_file = bed.dir / "varnish.pid"
        if "-P" in line:
            report.check(pid_file.read_text().strip() == str(pid), f"{name}: pid file {pid_file.read_text()!r}, manager {pid}")
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        report.check(str(n).encode() in words, f"{name}: the process list does not show the arguments: {words}")
        below = tree(pid)
        os.kill(pid, signal.SIGTERM)
        if foreground:
            try:
                report.check(proc.wait(LIMIT) == 0, f"{name}: exit status {proc.returncode} after SIGTERM")
            except subprocess.TimeoutExpired:
                report.check(False, f"{name}: SIGTERM did not end it")
        report.check(until(LIMIT, lambda: all(gone(p) for p in below)), f"{name}: processes left after SIGTERM")
        if "-P" in line and not GENUINE:  # Varnish's own leaves it in a directory that its jail may not write
            report.check(until(60, lambda: not pid_file.exists()), f"{name}: the pid file is still there")
    finally:
        if cli and cli != "ended":
            cli.close()
        for p in [pid] if pid and not gone(pid) else []:
            if foreground or p != proc.pid:
                os.kill(p, signal.SIGKILL)
        if proc.poll() is None:
            proc.kill()
            proc.wait()


def wrong(report, bed, line, status, text):
    n = bed.dir / "n_wrong"
    try:
        p = subprocess.run(bed.argv(line, n), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT,
                           preexec_fn=die_with_parent, cwd=bed.dir)
    except subprocess.TimeoutExpired:
        return report.check(False, f"`{line}` did not end")
    text = text.format(**bed.names)
    report.check(p.returncode == status and text in p.stdout + p.stderr,
                 f"`{line}`: status {p.returncode} instead of {status}, or no `{text}` in {(p.stdout + p.stderr)[:300]!r}")


def second_instance(report, bed):
    """The same working directory twice: the second says who is there, and the first stays."""
    n = bed.dir / "n_twice"
    first = subprocess.run(bed.argv("-f {f} -a 127.0.0.1:0", n), stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
    cli = cli_of(n)
    if not report.check(first.returncode == 0 and cli, f"twice: the first did not start: {first.stderr[-300:]}"):
        return
    pid = int(cli.ask("pid").split()[1])
    try:
        second = subprocess.run(bed.argv("-F -f {f} -a 127.0.0.1:0", n), stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        said = second.stderr.decode()
        report.check(second.returncode == 2 and f"varnishd is already running (pid={pid})" in said.lower(),
                     f"twice: status {second.returncode}, {said[:300]}")
        report.check("running" in cli.ask("status"), "twice: the first is gone")
    finally:
        cli.close()
        os.kill(pid, signal.SIGTERM)
        report.check(until(LIMIT, lambda: gone(pid)), "twice: SIGTERM did not end it")


def one_address(report, bed):
    """-a with an address binds that one alone: its port stays free for others on other addresses."""
    n = bed.dir / "n_one"
    with socket.create_server(("127.0.0.2", 0)) as other:
        port = other.getsockname()[1]
        started = subprocess.run(bed.argv(f"-f {{f}} -a 127.0.0.3:{port}", n), stdin=subprocess.DEVNULL, capture_output=True,
                                 timeout=LIMIT)
        cli = cli_of(n)
        if not report.check(started.returncode == 0 and cli, f"one address: did not start: {started.stderr[-300:]}"):
            return
        pid = int(cli.ask("pid").split()[1])
        try:
            report.check(until(LIMIT, lambda: "running" in cli.ask("status")), "one address: doesn't run")
            report.check(get(("127.0.0.3", port), "/x", timeout=LIMIT).whole(), "one address: no answer on it")
            try:
                socket.create_connection(("127.0.0.1", port), 2).close()
                report.check(False, "one address: another one answers")
            except ConnectionRefusedError:
                report.check(True, "one address: another one is left alone")
        finally:
            cli.close()
            os.kill(pid, signal.SIGTERM)
            report.check(until(LIMIT, lambda: gone(pid)), "one address: SIGTERM did not end it")


def main():
    o = options(__doc__, only=dict(help="only lines whose name holds this"), genuine=dict(
        action="store_true", help="the program is Varnish's own: leave out what only Lacquer starts"))
    report, bed = Report("startup"), Bed(o.varnishd)
    try:
        for name, (line, checks) in {**LINES, **({} if o.genuine else OLD_LINES)}.items():
            if o.only and o.only not in name:
                continue
            if "-j unix" in line and (os.geteuid() != 0 or "vcache" not in USERS):
                report.note(f"{name}: left out, needs root and the user vcache")
                continue
            started(report, bed, name, line, checks)
        if not o.only:
            second_instance(report, bed)
            one_address(report, bed)
            if not o.genuine:
                all_places(report, o.varnishd)
                all_releases(report, bed)
            is_jailed = os.geteuid() == 0 and any(account.pw_name == "varnish" for account in pwd.getpwall())
            for line, status, text in WRONG + (JAILED if is_jailed else []):
                wrong(report, bed, line, status, text)
    finally:
        bed.close()
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

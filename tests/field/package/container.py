# SPDX-License-Identifier: BSD-2-Clause
"""The small image as an engine would run it: its root read-only, as process 1 of its own, a user without rights, no capability, and only
/var/lib/varnish, in memory, to write to. And the other image's entry point."""
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import threading

import release
from bed.daemon import die_with_parent, executable, free_port, is_no_worker, tree, workdir
from bed.http import Client, get
from bed.origin import Origin, simple
from bed.report import until

LIMIT = 30
USER = 1000
A_WORKER_WAS_KILLED = 0x40  # in varnishd's exit status; the test has done it
GRACE = 20  # seconds that requests in progress have


def run(report, packaging, lacquer):
    """The image is laid out from a checkout that nobody but its owner reads: the modes in the image don't depend on it."""
    entry_point(report, packaging)
    if not shutil.which("bwrap") or os.geteuid() != 0:
        report.note("needs root and bwrap (bubblewrap): the image isn't run")
        return
    d = workdir()
    try:
        root = d / "root"
        checkout = d / "checkout"
        checkout.mkdir()
        release.copied(checkout, umask=0o077)
        built = subprocess.run([checkout / "packaging/container/root", lacquer, root], capture_output=True, text=True, timeout=LIMIT)
        if report.check(built.returncode == 0, f"the image's root is laid out: {built.stderr}"):
            size = int(built.stdout)
            report.note(f"the image has {size / 1e6:.1f} MB, {(root / 'usr/bin/lacquer').stat().st_size / 1e6:.1f} of them the program")
            closed = [str(path) for path in root.rglob("*") if not path.is_symlink() and not path.stat().st_mode & 0o4]
            report.check(not closed, f"the image's user can't read {closed}")
            at_work(report, packaging, root)
    finally:
        shutil.rmtree(d, ignore_errors=True)


def entry_point(report, packaging):
    """Its command lines: those of Varnish's image."""
    d = workdir()
    executable(d / "varnishd", '#!/bin/sh\necho "$@"\n')

    def start(*args, **env):
        p = subprocess.run([str(packaging / "container/entrypoint"), *args], capture_output=True, text=True,
                           env={"PATH": f"{d}:/usr/bin:/bin", **env})
        return p.stdout.strip()
    usual = "-F -f /etc/varnish/default.vcl -a http=:80,HTTP -a proxy=:8443,PROXY -p feature=+http2 -s malloc,100M"
    report.check(start() == usual, f"entrypoint: {start()}")
    report.check(start("-p", "default_ttl=9") == usual + " -p default_ttl=9", "entrypoint with options")
    changed = start(VARNISH_SIZE="2G", VARNISH_HTTP_PORT="8080", VARNISH_PROXY_PORT="9", VARNISH_VCL_FILE="/x.vcl")
    report.check(changed == "-F -f /x.vcl -a http=:8080,HTTP -a proxy=:9,PROXY -p feature=+http2 -s malloc,2G", f"entrypoint: {changed}")
    report.check(start("echo", "a b") == "a b", "entrypoint with a command")
    shutil.rmtree(d)


def command_of(packaging):
    """What the image starts: ENTRYPOINT of its recipe."""
    text = (packaging / "container/Containerfile.small").read_text()
    return [word.strip(' "') for word in re.search(r"^ENTRYPOINT \[(.*)\]$", text, re.M)[1].split(",")]


def state(pid):
    """What /proc says of a process, by name; nothing of one that is gone."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def is_first(pid):
    """Whether it is process 1 of a name space of its own."""
    numbers = state(pid).get("NSpid", "").split()
    return len(numbers) > 1 and numbers[-1] == "1"


class Container:
    """The image, run without an engine. `pid` is its process 1 as it is seen from here."""

    def __init__(self, packaging, root, backend):
        (root / "etc/varnish/default.vcl").write_text('vcl 4.1;\nbackend default { .host = "127.0.0.1"; .port = "%d"; }\n' % backend)
        self.address = ("127.0.0.1", free_port())
        options = f"-a 127.0.0.1:{self.address[1]} -s malloc,50m -p shutdown_grace={GRACE} -p memory_limit=auto"
        self.proc = subprocess.Popen(
            ["bwrap", "--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/var/lib/varnish", "--unshare-user", "--uid", str(USER),
             "--gid", str(USER), "--unshare-pid", "--as-pid-1", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL", "--clearenv",
             "--die-with-parent", "--", *command_of(packaging), *shlex.split(options)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=die_with_parent)
        self.said = b""
        threading.Thread(target=self._read, daemon=True).start()
        self.is_up = until(LIMIT, lambda: self.proc.poll() is not None or get(self.address, "/up").whole()) and self.proc.poll() is None
        self.pid = next((pid for pid in tree(self.proc.pid) if is_first(pid)), None) if self.is_up else None

    def _read(self):
        for line in self.proc.stdout:
            self.said += line

    def inside(self, *argv):
        """A command in it, as `podman exec` runs one."""
        p = subprocess.run(["nsenter", "-t", str(self.pid), "-U", "-m", "-p", "-u", "-i", "--preserve-credentials", *argv], capture_output=True, text=True,
                           timeout=LIMIT, stdin=subprocess.DEVNULL)
        return p.returncode, p.stdout + p.stderr

    def worker(self):
        return next(pid for pid in reversed(tree(self.pid)) if not is_no_worker(pid))

    def close(self):
        for pid in reversed(tree(self.proc.pid)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.proc.wait()


def at_work(report, packaging, root):
    asked, release = threading.Event(), threading.Event()

    def answer(_method, path, _fields):
        if path == "/slow":
            asked.set()
            release.wait(LIMIT)
        return "Cache-Control: max-age=60\r\n", b"body of " + path.encode()
    with Origin(simple(answer)) as origin:
        c = Container(packaging, root, origin.address[1])
        try:
            if report.check(c.is_up and c.pid, f"the image serves: {c.said.decode(errors='replace')[-2000:]}"):
                bounds(report, c)
                serves(report, c)
                survives(report, c)
                ends(report, c, asked, release)
        finally:
            release.set()
            c.close()


def bounds(report, c):
    """That it was given as little as it says."""
    own = state(c.pid)
    worker = state(c.worker())
    for who, has in (("manager", own), ("worker", worker)):
        report.check(int(has["CapEff"], 16) == int(has["CapBnd"], 16) == 0 and has["NoNewPrivs"] == "1", f"image: the {who} has no right: {has}")
    mounts = {w[4]: w[5] for w in (line.split() for line in pathlib.Path(f"/proc/{c.pid}/mountinfo").read_text().splitlines())}
    report.check(mounts["/"].startswith("ro"), f"image: its root is read-only: {mounts}")
    report.check(own["NSpid"].split()[-1] == "1" and "varnishd" in pathlib.Path(f"/proc/{c.pid}/cmdline").read_text(),
                 f"image: the manager is process 1: {own['NSpid']}")
    uids = pathlib.Path(f"/proc/{c.pid}/uid_map").read_text().split()
    report.check(uids[0] == str(USER), f"image: its user is {USER}: {uids}")
    inside = pathlib.Path("/proc", str(c.pid), "root")
    work = inside / "var/lib/varnish"
    report.check(any(work.rglob("_.vsm*")), f"image: the log lies in memory: {list(work.rglob('*'))[:5]}")


def serves(report, c):
    first, second = get(c.address, "/a"), get(c.address, "/a")
    report.check(first.whole() and second.body == b"body of /a" and len(second.get("X-Varnish").split()) == 2, f"image: a hit: {second.fields}")
    for argv in (["/usr/bin/varnishstat", "-1", "-f", "MAIN.cache_hit"], ["/usr/bin/varnishlog", "-d", "-g", "raw", "-i", "ReqURL"], ["/usr/bin/lacquer", "status"],
                 ["/usr/bin/varnishadm", "vcl.list"]):
        status, out = c.inside(*argv)
        report.check(status == 0 and out, f"image: {argv[0]} inside of it: {status} {out[-500:]}")


def survives(report, c):
    """A worker that dies is followed by another, and process 1 leaves no zombie, of others neither."""
    worker = c.worker()
    os.kill(worker, signal.SIGKILL)
    report.check(until(LIMIT, lambda: get(c.address, "/a").whole() and not pathlib.Path(f"/proc/{worker}").exists()), "image: another worker serves")

    # Run in it from outside, as an engine's exec does: what it leaves behind becomes process 1's.
    subprocess.run(["nsenter", "-t", str(c.pid), "-p", "sh", "-c", "(sleep 0.1 &)"], check=True, timeout=LIMIT)
    report.check(until(LIMIT, lambda: not any(state(pid).get("Name") == "sleep" for pid in tree(c.pid)), 0.1), "image: process 1 waits for what others left behind")

    def zombies():
        return [pid for pid in tree(c.pid) if state(pid).get("State", "").startswith("Z")]
    report.check(until(LIMIT, lambda: not zombies(), 0.1), f"image: its children are waited for: {zombies()}")


def ends(report, c, asked, release):
    """TERM lets a request end that is in progress, and ends all."""
    got = []
    with Client(c.address, timeout=LIMIT) as client:
        asks = threading.Thread(target=lambda: got.append(client.request("/slow")))
        asks.start()
        report.check(asked.wait(LIMIT), "image: a slow request has reached the origin")
        pids = tree(c.pid)
        os.kill(c.pid, signal.SIGTERM)
        report.check(until(LIMIT, lambda: refuses(c.address)), "image: it takes no more connections after TERM")
        release.set()
        asks.join(LIMIT)
    report.check(got and got[0].whole(), f"image: a request in progress ends well: {got and got[0]}")
    try:
        status = c.proc.wait(GRACE)
    except subprocess.TimeoutExpired:
        status = None
    report.check(status == A_WORKER_WAS_KILLED, f"image: TERM ends it in order: {status} {c.said.decode(errors='replace')[-800:]}")
    report.check(until(LIMIT, lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids)), "image: nothing of it is left")


def refuses(address):
    try:
        socket.create_connection(address, LIMIT).close()
        return False
    except ConnectionRefusedError:
        return True

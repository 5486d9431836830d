# SPDX-License-Identifier: BSD-2-Clause
"""The servers that are measured, the generator and the origin beside them."""
import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
BIN = HERE.parent / "target/bench"
IDLE = 8000
START_LIMIT = 60  # seconds; varnishd compiles VCL with a C compiler
GROUP = pathlib.Path("/sys/fs/cgroup/cpu/lacquer-bench")
os.environ["PATH"] += ":/usr/sbin:/sbin"


def build():
    for source in HERE.glob("c/*.c"):
        compile_c(source, BIN / source.stem, "-lm")
    weigh()


def build_tls():
    """The generator and the origin with TLS in them; needs libssl's headers."""
    for name in ("lg", "origin"):
        compile_c(HERE / f"c/{name}.c", BIN / f"{name}-tls", "-DTLS", "-lm", "-lssl", "-lcrypto")


def compile_c(source, program, *flags):
    newest = max(file.stat().st_mtime for file in (source, *HERE.glob("c/*.h")))
    if not program.exists() or program.stat().st_mtime < newest:
        BIN.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-O2", "-w", "-o", program, source, *flags], check=True)


def weigh():
    """A group of processes before which other work on the machine is pushed aside, where that is allowed."""
    with contextlib.suppress(OSError):
        GROUP.mkdir(exist_ok=True)
        (GROUP / "cpu.shares").write_text("262144")


def spawn(core, argv, **options):
    """A process pinned to a core, in the weighted group; it ends with us."""
    def child():
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
        os.sched_setaffinity(0, {core})
        with contextlib.suppress(OSError):
            (GROUP / "tasks").write_text(str(os.getpid()))
    return subprocess.Popen([str(a) for a in argv], preexec_fn=child, start_new_session=True, **options)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def descendants(pid):
    kids, out, todo = {}, [], [pid]
    for d in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            stat = pathlib.Path(f"/proc/{d}/stat").read_text()
            kids.setdefault(int(stat[stat.rindex(")") + 2:].split()[1]), []).append(int(d))
    while todo:
        p = todo.pop()
        out.append(p)
        todo += kids.get(p, [])
    return out


class Server:
    """One of them: a process and what it started."""
    ends_with = signal.SIGTERM
    generator = "lg"

    def __init__(self, origin_port, ours, **options):
        """options: the text of a VCL, the size of the store, further arguments; only Varnish and ours have them."""
        self.vcl, self.store, self.more = (options.get(k, d) for k, d in (("vcl", None), ("store", "2g"), ("more", ())))
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix=f"lacquer-bench-{self.name}.", dir="/dev/shm"))
        os.chmod(self.dir, 0o755)  # the jail's user reads the VCL there, and other servers' workers enter
        self.port, self.origin, self.ours = free_port(), origin_port, ours
        self.start()

    def start(self):
        with open(self.dir / "out", "wb") as out:
            self.process = spawn(0, self.argv(), stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        end = time.time() + START_LIMIT
        while True:
            try:
                c = self.connection()
                c.request("GET", "/c/100/0")
                if c.getresponse().status == 200:
                    break
            except (OSError, http.client.HTTPException):
                pass
            if time.time() > end or self.process.poll() is not None:
                raise SystemExit(f"{self.name} does not start:\n" + (self.dir / "out").read_text(errors="replace")[-2000:])
            time.sleep(0.02)

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)

    def pids(self):
        return descendants(self.process.pid)

    def ran_ns(self):
        """What all its threads ran so far."""
        ran = 0
        for pid in self.pids():
            with contextlib.suppress(OSError):
                for thread in os.listdir(f"/proc/{pid}/task"):
                    with contextlib.suppress(OSError):
                        ran += int(pathlib.Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0])
        return ran

    def pss(self):
        total = 0
        for pid in self.pids():
            with contextlib.suppress(OSError):
                rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
                total += int(re.search(r"^Pss:\s+(\d+)", rollup, re.M).group(1)) * 1024
        return total

    def records(self):
        """MAIN.shm_records, where there is a log."""
        return None

    def stop(self):
        pids = self.pids()
        self.process.send_signal(self.ends_with)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


class Null(Server):
    name, body = "null", 1024

    def argv(self):
        return [BIN / "null", self.port, self.body]


class Varnish(Server):
    name = "varnish"

    def argv(self):
        policy = ["-b", f"127.0.0.1:{self.origin}"]
        if self.vcl:
            (self.dir / "site.vcl").write_text(self.vcl)
            policy = ["-f", self.dir / "site.vcl"]
        return [self.program(), "-F", "-a", f"127.0.0.1:{self.port}", *policy, "-s", f"malloc,{self.store}", "-n", self.dir / "n",
                "-p", "timeout_idle=300", *self.more]

    def program(self):
        return "varnishd"

    def counter(self, name):
        stat = ["varnishstat", "-n", str(self.dir / "n"), "-1", "-f", f"MAIN.{name}"]
        return int(subprocess.run(stat, capture_output=True, text=True, check=True).stdout.split()[1])

    def records(self):
        return self.counter("shm_records")

    def admin(self, *words):
        subprocess.run(["varnishadm", "-n", str(self.dir / "n"), *words], check=True, stdout=subprocess.DEVNULL)

    @contextlib.contextmanager
    def pinged(self):
        """A list of how long the CLI took, ten times a second."""
        times, ended = [], threading.Event()

        def ping():
            while not ended.wait(0.1):
                begin = time.monotonic()
                done = subprocess.run(["varnishadm", "-n", str(self.dir / "n"), "-t", "30", "ping"], capture_output=True)
                times.append(time.monotonic() - begin if done.returncode == 0 else float("inf"))
        thread = threading.Thread(target=ping)
        thread.start()
        try:
            yield times
        finally:
            ended.set()
            thread.join()


class Ours(Varnish):
    name = "ours"

    def program(self):
        return self.ours


class Nginx(Server):
    name, ends_with = "nginx", signal.SIGTERM

    def argv(self):
        d = self.dir
        (d / "nginx.conf").write_text(f"""daemon off; worker_processes 1; user root; pid {d}/pid; error_log {d}/err crit;
events {{ worker_connections 9900; }}
http {{ access_log off; sendfile on; tcp_nodelay on; keepalive_timeout 300s; keepalive_requests 100000000; types {{ }}
 default_type text/html; client_body_temp_path {d}/b; proxy_temp_path {d}/p; fastcgi_temp_path {d}/fa;
 uwsgi_temp_path {d}/u; scgi_temp_path {d}/s; open_file_cache max=400000 inactive=600s; open_file_cache_valid 600s;
 proxy_cache_path {d}/c levels=1:2 keys_zone=z:256m max_size=2048m inactive=1d use_temp_path=off;
 upstream o {{ server 127.0.0.1:{self.origin}; keepalive 64; keepalive_requests 100000000; }}
 server {{ listen 127.0.0.1:{self.port} backlog=4096; server_name _; location / {{ proxy_pass http://o; proxy_http_version 1.1;
  proxy_set_header Connection ""; proxy_set_header Host $host; proxy_cache z; proxy_cache_key $host$uri$is_args$args;
  proxy_cache_valid 200 1d; }} }} }}""")
        return ["nginx", "-c", d / "nginx.conf", "-e", d / "e"]


class Haproxy(Server):
    name = "haproxy"

    def argv(self):
        (self.dir / "h.cfg").write_text(f"""global
 nbthread 1
 maxconn 9900
defaults
 mode http
 timeout client 300s
 timeout http-keep-alive 300s
 timeout server 30s
 timeout connect 5s
 option http-keep-alive
 http-reuse always
cache c
 total-max-size 256
 max-object-size 1100000
 max-age 86400
 process-vary on
frontend f
 bind 127.0.0.1:{self.port} backlog 4096
 default_backend b
backend b
 http-request cache-use c
 http-response cache-store c
 server o 127.0.0.1:{self.origin}
""")
        return ["haproxy", "-W", "-f", self.dir / "h.cfg"]


SERVERS = {c.name: c for c in (Null, Varnish, Nginx, Haproxy, Ours)}


def another(name, program):
    """A further build of ours under a name of its own, to be compared with."""
    SERVERS[name] = type(name, (Ours,), {"name": name, "program": lambda _: program})
    return name


NEEDS = {"varnish": "varnishd", "nginx": "nginx", "haproxy": "haproxy"}


class Bed:
    """The origin and the servers, started; the generator on demand."""
    asking = []  # options that each load has

    def __init__(self, names, ours):
        build()
        self.origin_port, self.ours = free_port(), ours
        self.origin = spawn(1, [BIN / "origin", self.origin_port])
        self.servers = []
        try:
            for name in names:
                if name in NEEDS and not shutil.which(NEEDS[name]):
                    print(f"bench: {name} left out: no {NEEDS[name]} here", file=sys.stderr)
                    continue
                self.servers.append(self.another(name))
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for server in self.servers:
            server.stop()
        self.origin.terminate()
        self.origin.wait()

    def another(self, name, **options):
        """A server more, which whoever asked for it stops."""
        return SERVERS[name](self.origin_port, self.ours, **options)

    def head_bytes(self, server):
        """Bytes of the head that a cache stores for an object: what it answers with, less what it adds per answer."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.origin_port}/c/100/p1", timeout=5) as answer:
            kept = [(k, v) for k, v in answer.headers.items() if k.lower() != "connection"]
        return len("HTTP/1.1 200 OK\r\n\r\n") + sum(len(f"{k}: {v}\r\n") for k, v in kept)

    def asked(self):
        """How many requests the origin has had."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.origin_port}/stats", timeout=5) as answer:
            return int(answer.read())

    def null_body(self, body):
        """Starts the null server again when the case's body is another."""
        for i, server in enumerate(self.servers):
            if server.name == "null" and body and server.body != body:
                server.stop()
                Null.body = body
                self.servers[i] = self.another("null")

    def load(self, server, path, options):
        argv = [BIN / server.generator, "-p", server.port, "-u", path, *self.asking, *options]
        p = spawn(1, argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, err = p.communicate(timeout=75)
        except subprocess.TimeoutExpired:
            p.kill()
            raise SystemExit(f"bench: the generator hangs on {server.name} {path}")
        if not out:
            raise SystemExit(f"bench: {server.name} {path}: {err}")
        return json.loads(out)

    @contextlib.contextmanager
    def hold(self, server, path, count):
        """So many connections that had one answer and stay idle."""
        argv = [BIN / server.generator, "-p", server.port, "-u", path, *self.asking, "-I", "-c", count]
        p = spawn(1, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = p.stdout.readline().split()
        if line[:2] != ["READY", str(count)]:
            print(f"bench: {server.name}: {' '.join(line)} of {count} connections", file=sys.stderr)
        try:
            yield
        finally:
            p.stdin.close()
            p.wait()

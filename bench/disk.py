#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Hits from a disk beside the peers: nginx (as it comes, and with threads that read) and Apache Traffic Server, each with a
cache on the same disk, filled with the same objects.

Each round asks for objects that nobody holds in memory: each once a round, in random order, after the page cache was told to
let go of the caches' files; our memory front and their memory are too small to matter (ATS has none). `kb_read` says what
came from the disk for each answer, `misses` what the origin was asked for. CPU and latency are two loads: one asks again as
soon as it is answered, the other keeps a pace that all can keep, and counts from when each request was due.

usage: bench/disk.py [--dir DIRECTORY] [--rounds N] [--cases A,B] [--servers a,b] [--ours PROGRAM] [--out FILE]
The directory is on the disk that is measured (/var/tmp); four copies of the largest case, 6 GB, have to fit. It fails when
ours takes more CPU or has a higher p99 than the best of the peers, or a hit from the memory front takes more than malloc's.
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

from run import HERE, commit, table
from servers import Bed, Nginx, Ours, Server, spawn

MOST_FRONT = 1.05  # a hit from the front to one of malloc's
RESTART_LIMIT = 60  # seconds


class OnDisk:
    """A server whose cache is in a directory of its own on the disk that is measured."""
    root, bytes = None, 0

    def __init__(self, origin_port, ours, **options):
        self.disk = pathlib.Path(tempfile.mkdtemp(prefix=f"{self.name}.", dir=OnDisk.root))
        os.chmod(self.disk, 0o755)
        super().__init__(origin_port, ours, **options)

    def forget(self):
        """The page cache lets go of the files; what isn't written yet is written first."""
        os.sync()
        for directory, _, names in os.walk(self.disk):
            for name in names:
                with contextlib.suppress(OSError):
                    fd = os.open(os.path.join(directory, name), os.O_RDONLY)
                    try:
                        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                    finally:
                        os.close(fd)

    def bytes_read(self):
        """What all its processes have read from disks so far."""
        total = 0
        for pid in self.pids():
            with contextlib.suppress(OSError):
                for line in pathlib.Path(f"/proc/{pid}/io").read_text().splitlines():
                    total += int(line.split()[1]) if line.startswith("read_bytes") else 0
        return total

    def again(self):
        """Stops it, keeping what is on the disk, and starts it: when that was."""
        self.process.send_signal(self.ends_with)
        self.process.wait(30)
        self.forget()
        begin = time.monotonic()
        with open(self.dir / "out", "ab") as out:
            self.process = spawn(0, self.argv(), stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        return begin

    def stop(self):
        super().stop()
        shutil.rmtree(self.disk, ignore_errors=True)


class DiskNginx(OnDisk, Nginx):
    name, how = "nginx", "sendfile on;"

    def argv(self):
        argv = super().argv()
        conf = self.dir / "nginx.conf"
        text = conf.read_text().replace(f"proxy_cache_path {self.dir}/c", f"proxy_cache_path {self.disk}/c")
        text = text.replace("max_size=2048m", f"max_size={self.bytes >> 20}m").replace("sendfile on;", self.how)
        # Who has many files on a disk holds few of them open.
        conf.write_text(text.replace("open_file_cache max=400000 inactive=600s; open_file_cache_valid 600s;", ""))
        return argv


class ThreadedNginx(DiskNginx):
    name, how = "nginx+threads", "sendfile on; aio threads;"


class TrafficServer(OnDisk, Server):
    name = "trafficserver"

    def argv(self):
        d = self.dir
        for name in ("run", "log", "var", "data"):
            (d / name).mkdir(exist_ok=True)
        shutil.copytree("/etc/trafficserver", d / "etc", dirs_exist_ok=True)
        (d / "runroot.yaml").write_text("".join(f"{key}: {value}\n" for key, value in {
            "prefix": d, "exec_prefix": "/usr", "bindir": "/usr/bin", "sbindir": "/usr/sbin", "sysconfdir": d / "etc", "datadir": d / "data",
            "includedir": "/usr/include", "libdir": "/usr/lib/trafficserver", "libexecdir": "/usr/lib/trafficserver/modules",
            "localstatedir": d / "var", "runtimedir": d / "run", "logdir": d / "log", "cachedir": self.disk}.items()))
        (d / "etc/records.config").write_text("".join(f"CONFIG proxy.config.{name} {kind} {value}\n" for name, kind, value in (
            ("exec_thread.autoconfig", "INT", 0), ("exec_thread.limit", "INT", 1), ("accept_threads", "INT", 0), ("task_threads", "INT", 1),
            ("http.server_ports", "STRING", f"{self.port}:ip-in=127.0.0.1"), ("cache.ram_cache.size", "INT", 0),
            ("cache.min_average_object_size", "INT", 4000), ("http.cache.required_headers", "INT", 0), ("log.logging_enabled", "INT", 0),
            ("http.keep_alive_no_activity_timeout_in", "INT", 300), ("http.insert_response_via_str", "INT", 0),
            ("http.insert_request_via_str", "INT", 0), ("diags.debug.enabled", "INT", 0), ("admin.user_id", "STRING", "nobody"))))
        (d / "etc/remap.config").write_text(f"map / http://127.0.0.1:{self.origin}/\n")
        (d / "etc/storage.config").write_text(f"{self.disk} {self.bytes}\n")
        for directory in (d, self.disk):
            subprocess.run(["chown", "-R", "nobody", directory], check=True)
        return ["traffic_server", f"--run-root={d}/runroot.yaml"]


class DiskOurs(OnDisk, Ours):
    name = "ours"

    def argv(self):
        argv = [str(word) for word in super().argv()]
        argv[argv.index("-s") + 1] = f"file,{self.disk}/store,{self.bytes},front=16m,keep"
        return argv


class FrontOurs(DiskOurs):
    """All that is asked for is in the memory front."""
    name = "ours+front"

    def argv(self):
        return [word.replace("front=16m", "front=1g") for word in super().argv()]


NEEDS = {"nginx": "nginx", "nginx+threads": "nginx", "trafficserver": "traffic_server"}
ALL = {own.name: own for own in (DiskNginx, ThreadedNginx, TrafficServer, DiskOurs)}


class Hits:
    """Hits from the disk. objects of `size` bytes are stored; each load asks for some of them once."""
    key, columns = "cpu_us", ("p50_us", "p99_us", "kb_read", "misses")

    def __init__(self, name, size, objects, asked, connections, rate, fill_rate):
        self.name, self.size, self.objects, self.asked = name, size, objects, asked
        self.connections, self.rate, self.fill_rate = connections, rate, fill_rate
        self.dice, self.lost = random.Random(size), {}

    def fill(self, bed, server):
        options = ["-N", str(self.objects), "-n", str(self.objects), "-c", "16", "-r", str(self.fill_rate)]
        # A second time for what the first found no room for.
        for _ in range(2):
            bed.load(server, f"/c/{self.size}/", options)
            time.sleep(2)

    def some(self, bed, server):
        """A file of paths to ask for."""
        path = server.dir / "paths"
        path.write_text("".join(f"/c/{self.size}/{n}\n" for n in self.dice.sample(range(self.objects), self.asked)))
        return path

    def load(self, bed, server, options):
        """One load of cold objects: its figures."""
        paths = self.some(bed, server)
        server.forget()
        read, asked, ran = server.bytes_read(), bed.asked(), server.ran_ns()
        got = bed.load(server, "/", ["-f", str(paths), "-n", str(self.asked), "-c", str(self.connections), *options])
        done = max(1, got["ok"])
        got["cpu_us"] = (server.ran_ns() - ran) / done / 1e3
        got["kb_read"] = (server.bytes_read() - read) / done / 1e3
        got["misses"] = bed.asked() - asked
        return got

    def measure(self, bed, server):
        closed = self.load(bed, server, [])
        paced = self.load(bed, server, ["-r", str(self.rate)])
        figures = {key: closed[key] for key in ("cpu_us", "kb_read")}
        figures |= {key: paced[key] for key in ("p50_us", "p99_us")}
        return figures | {key: closed[key] + paced[key] for key in ("misses", "errors", "non200")}

    def remarks(self, median):
        ours, peers = median.get("ours"), [figures for name, figures in median.items() if not name.startswith("ours")]
        wrong = []
        for key in ("cpu_us", "p99_us") if ours and peers else ():
            best = min(figures[key] for figures in peers)
            if ours[key] > best:
                wrong.append(f"{key} is {ours[key]:.1f}, the best of the peers has {best:.1f}")
        wrong += [f"{name} went to the origin {own['misses']:.0f} times of {2 * self.asked}" for name, own in median.items()
                  if own["misses"] > self.asked / 50]
        wrong += [f"{name} read {own['kb_read']:.1f} KB for {self.size} bytes: memory answered" for name, own in median.items()
                  if own["kb_read"] * 1e3 < 0.9 * self.size]
        load = f"{self.connections} connections, for the percentiles {self.rate} requests a second"
        return [f"{self.objects} objects of {self.size} bytes; {load}"], wrong


class Restart:
    """A start with a full cache: how long until something is served from it."""
    name, key, columns = "restart", "first_hit_ms", ()

    def __init__(self, hits):
        self.hits = hits

    def measure(self, bed, server):
        begin = server.again()
        dice = random.Random(begin)
        while time.monotonic() - begin < RESTART_LIMIT:
            asked = bed.asked()
            path = f"/c/{self.hits.size}/{dice.randrange(self.hits.objects)}"
            with contextlib.suppress(OSError, http.client.HTTPException):
                client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=1)
                client.request("GET", path, headers={"Host": "www.example.com"})
                answer = client.getresponse()
                if answer.status == 200 and answer.read() and bed.asked() == asked:
                    return {"first_hit_ms": (time.monotonic() - begin) * 1e3}
            time.sleep(0.005)
        return {"first_hit_ms": float("inf")}

    def remarks(self, median):
        late = [name for name, own in median.items() if name == "ours" and own["first_hit_ms"] > 1000]
        return [], [f"{name} takes more than a second" for name in late]


class Front:
    """The same object again and again: from the memory front, and from malloc."""
    name, key, columns = "front", "cpu_us", ("rps",)

    def measure(self, bed, server):
        bed.load(server, "/c/1024/1", ["-d", "0.3"])
        ran = server.ran_ns()
        got = bed.load(server, "/c/1024/1", ["-d", "2"])
        return {"cpu_us": (server.ran_ns() - ran) / got["ok"] / 1e3, "rps": got["rps"], "errors": got["errors"], "non200": got["non200"]}

    def remarks(self, median):
        ratio = median["ours+front"]["cpu_us"] / median["ours"]["cpu_us"]
        return [f"front to malloc: {ratio:.3f}"], [f"front to malloc is {ratio:.3f}"] if ratio > MOST_FRONT else []


CASES = {case.name: case for case in (
    Hits("4k", 4096, 60_000, 15_000, 64, 3000, 5000),
    Hits("1m", 1 << 20, 1_200, 600, 32, 150, 150),
)}


def rounds_of(case, bed, running, rounds):
    """server: its figures of each round; the order rotates."""
    by = {server.name: [] for server in running}
    for n in range(rounds):
        turn = n % len(running)
        for server in running[turn:] + running[:turn]:
            by[server.name].append(case.measure(bed, server))
    return by


@contextlib.contextmanager
def started(bed, kinds):
    """One of each, as long as the block lasts."""
    with contextlib.ExitStack() as stack:
        running = []
        for kind in kinds:
            running.append(kind(bed.origin_port, bed.ours))
            stack.callback(running[-1].stop)
        yield running


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--dir", default="/var/tmp")
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--cases", default="4k,1m,front")
    a.add_argument("--servers", default=",".join(ALL))
    a.add_argument("--ours", default=str(HERE.parent / "dist/bin/varnishd"))
    a.add_argument("--out")
    o = a.parse_args()
    names = [name for name in o.servers.split(",") if shutil.which(NEEDS.get(name, "true"))]
    results, wrong = {}, []
    OnDisk.root = pathlib.Path(tempfile.mkdtemp(prefix="lacquer-bench-disk.", dir=o.dir))
    os.chmod(OnDisk.root, 0o755)

    def show(case, by):
        results[case.name] = by
        text, complaints = table(case, by)
        print(text, flush=True)
        wrong.extend(complaints)
    try:
        with Bed([], o.ours) as bed:
            for hits in (CASES[name] for name in o.cases.split(",") if name in CASES):
                OnDisk.bytes = 2 * hits.size * hits.objects + (256 << 20) >> 20 << 20
                with started(bed, [ALL[name] for name in names]) as running:
                    for server in running:
                        hits.fill(bed, server)
                    show(hits, rounds_of(hits, bed, running, o.rounds))
                    restart = Restart(hits)
                    restart.name = f"restart-{hits.name}"
                    show(restart, rounds_of(restart, bed, running, min(o.rounds, 3)))
            if "front" in o.cases.split(","):
                OnDisk.bytes = 1 << 30
                with started(bed, [Ours, FrontOurs]) as running:
                    show(Front(), rounds_of(Front(), bed, running, o.rounds))
    finally:
        shutil.rmtree(OnDisk.root, ignore_errors=True)
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    saved = {"when": when, "commit": commit(), "load": os.getloadavg()[0], "rounds": o.rounds, "results": results}
    if o.out:
        pathlib.Path(o.out).write_text(json.dumps(saved, indent=1) + "\n")
    print("\n" + "\n".join(f"disk: {text}" for text in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

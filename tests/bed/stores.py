# SPDX-License-Identifier: BSD-2-Clause
"""A server whose store is on a disk, which is ended and started again; an origin that knows what each answer must be; every way to invalidate."""
import contextlib
import functools
import pathlib
import random
import shutil
import subprocess
import threading

from .daemon import Varnishd, workdir
from .http import Client
from .origin import Origin, simple
from .report import until

LIMIT = 60  # seconds; it only ends what hangs
VCL = """vcl 4.1; import std; backend b { .host = "%s"; .port = "%d"; }
sub vcl_recv { if (req.method == "PURGE") { return (purge); } if (req.url ~ "^/pass") { return (pass); } }
sub vcl_backend_response { set beresp.http.x-url = bereq.url; set beresp.ttl = 1h; }
sub vcl_deliver { set resp.http.x-hits = obj.hits; }"""
# Each kind of invalidation. The tag of /17 is k7, that of /a/17 is ka7.
INVALIDATING_VCL = """vcl 4.1; import purge; import xkey; backend b { .host = "%s"; .port = "%d"; }
sub vcl_recv {
    set req.http.host = "site";
    if (req.method == "PURGE") { return (purge); }
    if (req.method == "BAN") { ban("obj.http.x-url == " + req.url); return (synth(200)); }
    if (req.method == "KEY") { set req.http.n = xkey.purge(req.http.x-key); return (synth(200)); }
    if (req.method == "SOFTKEY") { set req.http.n = xkey.softpurge(req.http.x-key); return (synth(200)); }
}
sub vcl_hit { if (req.http.x-soft) { purge.soft(0s, 0s, 0s); return (synth(200)); } }
sub vcl_miss { if (req.http.x-soft) { purge.soft(0s, 0s, 0s); return (synth(200)); } }
sub vcl_backend_response {
    set beresp.ttl = 1h; set beresp.grace = 0s; set beresp.http.x-url = bereq.url;
    set beresp.http.xkey = regsub(bereq.url, "^/(([a-z]+)/)?.*(.)$", "k\\2\\3");
}"""


@functools.lru_cache(1000)
def body_of(path):
    """What the origin answers: length and bytes follow from the path. Most are short, some are long."""
    draw = random.Random(path)
    length = draw.choice((0, 300, 1000, 3000, 20_000)) + draw.randrange(500)
    if path.startswith("/long"):
        length = 300_000 + draw.randrange(500_000)
    return draw.randbytes(length)


class Pages:
    """An origin that counts. The answer for a path changes with its version."""

    def __init__(self):
        self.asked, self.lock, self.versions = 0, threading.Lock(), {}

    def answer(self, _method, path, _fields):
        with self.lock:
            self.asked += 1
            version = self.versions.get(path, 0)
        return f"X-Path: {path}\r\nX-Version: {version}\r\n", body_of(f"{path} {version}" if version else path)


class Bed:
    """An origin, a directory for stores, and a server that may be started and ended again and again."""
    vcl, storage, args = VCL, "file,@,256m,keep", ()

    def __init__(self, program):
        self.program, self.pages = program, Pages()
        self.dir = workdir()
        self.origin = Origin(simple(self.pages.answer))
        self.v = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.origin.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    @property
    def file(self):
        return self.dir / "store"

    def start(self, storage=None, args=()):
        """Starts the server and waits for its disk; @ stands for the store's file."""
        self.start_unready(storage, args)
        self.ready()

    def start_unready(self, storage=None, args=()):
        """Starts the server, whether its disk can be used or not."""
        self.v = Varnishd(self.program, ["-p", "feature=+no_coredump", *self.args, *args], vcl=self.vcl % self.origin.address[:2],
                          storage=(storage or self.storage).replace("@", str(self.file)))

    def ready(self):
        """Waits until all objects of the disk can be found and new ones be written."""
        if not until(LIMIT, lambda: self.counter("DISK.s0.ready") == 1, step=0.05):
            raise SystemExit(f"the disk isn't ready: {self.v.log()}")

    def stop(self):
        """Ends the server in good order; gives its output."""
        if self.v:
            v, self.v = self.v, None
            v.close()
            return "".join(v.output)
        return ""

    def kill(self):
        """Kills all processes of the server at once; gives its output."""
        v, self.v = self.v, None
        v.kill()
        return "".join(v.output)

    def die(self):
        """Kills the worker and waits for the next one. Before that until nothing is being delivered: an answer can be here before the worker has
        noted that it is over, and an object over which two workers died is dropped."""
        until(LIMIT, lambda: self.counter("MAIN.txn_busy") == 0)
        self.v.worker_dies(LIMIT)
        self.ready()

    @contextlib.contextmanager
    def saved(self, *files):
        """Copies these files of a server that was stopped; gives a function that puts the copies back in place."""
        copies = self.dir / "saved"
        copies.mkdir()
        copy = lambda source, to: subprocess.run(["cp", "-p", "--sparse=always", str(source), str(to)], check=True)
        for file in files:
            copy(file, copies / file.name)
        def put_back():
            for file in files:
                copy(copies / file.name, file)
        yield put_back
        shutil.rmtree(copies)

    def counter(self, name):
        return self.counters().get(name, 0)

    def counters(self):
        out = subprocess.run([pathlib.Path(self.program).with_name("varnishstat"), "-n", str(self.v.n), "-1"], capture_output=True, text=True, timeout=LIMIT).stdout
        return {w[0]: int(w[1]) for w in (line.split() for line in out.splitlines()) if len(w) > 1}

    def stored(self, count):
        """Waits until so many objects can be found on the disk: they have been written then. Gives how many there are."""
        until(LIMIT, lambda: self.counter("DISK.s0.objects") >= count, step=0.1)
        return self.counter("DISK.s0.objects")

    def walk(self, paths):
        """Asks for each path; gives those whose answer was wrong, and how many were fetched."""
        wrong, before, client = [], self.pages.asked, None
        for path in paths:
            client = client or Client(self.v.address, timeout=LIMIT, keep=True)
            r = client.request(path)
            if r.whole() and r.body == self.body_of(path):
                continue
            wrong.append((path, str(r)))
            client.close()
            client = None
        if client:
            client.close()
        return wrong, self.pages.asked - before

    def body_of(self, path):
        """What the origin answers now."""
        version = self.pages.versions.get(path, 0)
        return body_of(f"{path} {version}" if version else path)

    def change(self, paths):
        """The origin has other bodies for these paths from now on: the old ones are wrong."""
        for path in paths:
            self.pages.versions[path] = self.pages.versions.get(path, 0) + 1

    def ask(self, path, method="GET", **fields):
        with Client(self.v.address, timeout=LIMIT) as c:
            return c.request(path, [(name.replace("_", "-"), value) for name, value in fields.items()], method=method)

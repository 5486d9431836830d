#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Memory under churn: many times the store's size is pushed through it while slow readers hold on to what they read.

The Pss of all processes must stay below the store's size x 1.15 + 64 MB and must fall after a ban of everything. Bodies are
log-uniform from 0.2 to 256 KB. Reduced: a store of 64 MB, 6 times its size, 50 slow readers and a small log; --full: 512 MB, 20 times,
200 slow readers and varnishd's own defaults.

What is with the kernel but not yet with its reader stays as it was while the store is filled anew.
"""
import json
import multiprocessing
import pathlib
import random
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd, die_with_parent, pss
from bed.http import Client, get
from bed.logs import has_all, read_log
from bed.origin import Origin, simple
from bed.report import Report, options, until

CLIENTS = 8
LIMIT = 60  # seconds; it only ends what hangs
SMALL, BIG = 200, 256 << 10
PATTERN = bytes(range(256)) * (BIG // 256 + 1)


def size_of(path):
    """The body's length is a function of the path: the same URL has always the same body."""
    return int(SMALL * (BIG / SMALL) ** random.Random(path).random())


def answer(_method, path, _fields):
    if path.startswith("/slow"):
        return "Cache-Control: max-age=3600\r\n", PATTERN[:BIG]
    return "Cache-Control: max-age=3600\r\n", PATTERN[:size_of(path)]


def origin_process(pipe):
    die_with_parent()
    with Origin(simple(answer)) as origin:
        pipe.send(origin.address)
        pipe.recv()


def push(address, goal, client, out):
    """One client process: asks for fresh URLs, and now and then for a recent one, until `goal` octets came; reports what came."""
    die_with_parent()
    rng, got, wrong, asked = random.Random(client), 0, 0, 0
    c = Client(address, 60, keep=False)
    while got < goal:
        n = asked if rng.random() < 0.9 else max(0, asked - rng.randrange(1, 200))
        path = f"/o/{client}/{n}"
        r = c.request(path)
        asked += 1
        got += r.length
        if not r.whole() or r.length != size_of(path):
            wrong += 1
            print(f"     memory: {path} of {size_of(path)} octets: {r} {r.reason} {r.get('X-Varnish')}", flush=True)
            c.close()
            c = Client(address, 60, keep=False)
        if asked % 100 == 0:
            out.send((False, got, wrong, asked))
    out.send((True, got, wrong, asked))


class Witness:
    """Keeps the log of fetches that fail, so that a cut answer can be explained."""

    def __init__(self, v):
        self.file = tempfile.TemporaryFile("w+", errors="replace")
        program = shutil.which("varnishlog")
        self.proc = program and subprocess.Popen([program, "-n", str(v.n), "-g", "vxid", "-q", "FetchError or ExpKill ~ '^LRU(_Fail| reached)'"],
                                                 stdin=subprocess.DEVNULL, stdout=self.file, preexec_fn=die_with_parent)

    def tell(self):
        if self.proc:
            self.proc.terminate()
            self.proc.wait()
        self.file.seek(0)
        return self.file.read(20000) or "no fetch failed\n"


class SlowReaders:
    """Connections that ask for big objects, each its own, and read a few octets at a time; a finished or cut one starts anew."""

    def __init__(self, address, count):
        self.address, self.n, self.stop = address, 0, threading.Event()
        self.socks = [self._start() for _ in range(count)]
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _start(self):
        self.n += 1
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(LIMIT)
        s.connect(self.address)
        s.sendall(f"GET /slow/{self.n} HTTP/1.1\r\nHost: bed.test\r\nConnection: close\r\n\r\n".encode())
        s.setblocking(False)
        return s

    def _run(self):
        while not self.stop.wait(0.2):
            for i, s in enumerate(self.socks):
                try:
                    if s.recv(2048):
                        continue
                except BlockingIOError:
                    continue
                except OSError:
                    pass
                s.close()
                try:
                    self.socks[i] = self._start()
                except OSError:
                    pass

    def end(self):
        self.stop.set()
        self.thread.join(20)
        for s in self.socks:
            s.close()


def churn(report, v, size, limit, full):
    """Pushes and watches; gives the peak."""
    times, slow = (20, 200) if full else (6, 50)
    goal = times * size // CLIENTS
    workers, state, witness = [], {}, Witness(v)
    for client in range(CLIENTS):
        ours, theirs = multiprocessing.Pipe(False)
        p = multiprocessing.Process(target=push, args=(v.address, goal, client, theirs), daemon=True)
        p.start()
        theirs.close()
        workers.append((ours, p))
    readers, peak, begin = SlowReaders(v.address, slow), 0, time.monotonic()
    open_pipes = [w[0] for w in workers]
    while open_pipes:
        for pipe in select.select(open_pipes, [], [], 0.25)[0]:
            try:
                done, *state[pipe] = pipe.recv()
            except EOFError:
                done = True
            if done:
                open_pipes.remove(pipe)
        peak = max(peak, pss(v.pids()))
    for _, p in workers:
        p.join(10)
    got, wrong, asked = (sum(s[i] for s in state.values()) for i in range(3))
    report.note(f"{asked} requests, {got / 1e6:.0f} MB through a store of {size / 1e6:.0f} MB in {time.monotonic() - begin:.0f} s, "
                f"{slow} slow readers; peak Pss {peak / 1e6:.1f} MB, limit {limit / 1e6:.1f} MB")
    failures = witness.tell()
    report.check(wrong == 0, f"{wrong} of {asked} answers were wrong or cut\n{failures}")
    report.check(got >= goal * CLIENTS, f"only {got} octets came through")
    report.check(peak < limit, f"peak Pss {peak / 1e6:.1f} MB, limit {limit / 1e6:.1f} MB")
    readers.end()
    return peak


def told(report, v, lacquer, size):
    """What `lacquer memory` says: the holders' sum is the whole, the whole is what the processes have, the store has its row."""
    # What threads still have to tell of the counters they tell when they have nothing else to do.
    until(LIMIT, lambda: gauge(v, "SMA.s0.g_bytes") + gauge(v, "SMA.s0.g_space") == size)
    said = subprocess.run([lacquer, "memory", "-n", str(v.n), "--format", "json"], capture_output=True, text=True)
    there = pss(v.pids())
    if not report.check(said.returncode == 0, f"lacquer memory: {said.stderr}"):
        return
    memory = json.loads(said.stdout)
    rows = {row["name"]: row["bytes"] for row in memory["holders"]}
    report.note("held: " + ", ".join(f"{name} {n / 1e6:.1f}" for name, n in rows.items()) + f" MB; Pss {there / 1e6:.1f} MB")
    report.check(abs(sum(rows.values()) - memory["used"]) < memory["used"] / 50, f"the holders' sum isn't the whole: {memory}")
    # Pss is taken without the program's pages.
    report.check(there * 0.98 < memory["used"] < there * 1.1 + rows["program"] + (8 << 20), f"{memory['used']} used, and Pss is {there}")
    stored = gauge(v, "SMA.s0.g_bytes")
    report.check(0 <= rows["storage.s0"] - stored < (4 << 20) + stored // 20, f"the store's row is {rows['storage.s0']}, its account {stored}")
    text = subprocess.run([lacquer, "memory", "-n", str(v.n)], capture_output=True, text=True).stdout
    report.check(all(name in text for name in rows), f"the text names all holders: {text}")


def holders(v, lacquer):
    """Bytes by the name of what holds them."""
    said = subprocess.run([lacquer, "memory", "-n", str(v.n), "--format", "json"], capture_output=True, text=True, check=True).stdout
    return {row["name"]: row["bytes"] for row in json.loads(said)["holders"]}


def gauge(v, name):
    shown = subprocess.run(["varnishstat", "-n", str(v.n), "-1", "-f", name], capture_output=True, text=True).stdout
    return int(shown.split()[1])


def on_its_way(report, program):
    """Answers wait in the sockets' buffers while their object is banned and its place is filled: they come as they were."""
    old, new, readers = PATTERN[:BIG], bytes(255 - b for b in PATTERN[:BIG]), 6
    fresh = "Cache-Control: max-age=3600\r\n"
    with Origin(simple(lambda _, path, __: (fresh, old if path == "/old" else new))) as origin:
        with Varnishd(program, ["-p", "ban_lurker_age=0.1"], backend=origin.address, storage="malloc,4m") as v:
            report.check(all(get(v.address, "/old").body == old for _ in range(6)), "an object is asked for often")
            clients = [Client(v.address, LIMIT, rcvbuf=4096) for _ in range(readers)]
            for client in clients:
                client.send(b"GET /old HTTP/1.1\r\nHost: bed.test\r\n\r\n")
                client.sock.recv(1, socket.MSG_PEEK)
            report.check(until(LIMIT, lambda: gauge(v, "MAIN.txn_busy") == 0), "all answers are with the kernel")
            v.cli.ask("ban req.url == /old")
            filled = [get(v.address, "/old").body == old, *(get(v.address, f"/new/{n}").body == new for n in range(40))]
            report.check(all(filled), "the store is filled anew")
            answers = [client.response() for client in clients]
            report.check(all(r.whole() and r.body == old for r in answers), f"{[str(r) for r in answers]}")


def limited(report, program, origin, full):
    """The same churn under memory_limit, with a store that alone nearly fills it: the Pss of all processes is never above."""
    mb, room = (512, 560) if full else (64, 70)
    lacquer = pathlib.Path(program).parent / "lacquer"
    with Varnishd(program, [] if full else ["-l", "4m"], backend=origin, storage=f"malloc,{mb}m") as v:
        pid = v.worker()
        # A program that wasn't optimised has more pages, which count as well.
        limit = (room << 20) + holders(v, lacquer)["program"]
        v.cli.ask(f"param.set memory_limit {limit}b")
        churn(report, v, mb << 20, limit, full)
        steps = {name: gauge(v, f"MAIN.mem_{name}") for name in ("trim", "evict", "bgfetch", "shed")}
        held, fetched = gauge(v, "SMA.s0.g_bytes"), gauge(v, "MAIN.cache_miss")
        report.note(f"memory_limit={limit >> 20}m: steps {steps}, {held / 1e6:.1f} MB in the store at the end, {fetched} misses")
        report.check(steps["trim"] > 0, "the limit was near")
        report.check(steps["shed"] == 0, "what can be evicted is, before a request is refused")
        # What is in the store is still a cache: it holds most of what the limit leaves for it.
        report.check(held > (mb << 20) // 4, f"{held} octets are stored")
        v.cli.ask("param.set memory_limit 0")
        report.check(until(LIMIT, lambda: gauge(v, "MAIN.mem_limit") == 0 and "no memory_limit" in v.cli.ask("memory.list")), "the limit is off")
        report.check(v.worker() == pid, "the worker is another one than at the start")


def reserve_of(limit):
    return min(max(limit // 16, 4 << 20), 512 << 20)


def limit_for(used, left):
    """The limit with which `used` leaves this part of the reserve free."""
    limit = used
    for _ in range(20):
        limit = used + int(reserve_of(limit) * left)
    return limit


def refusals(report, program, lacquer):
    """With bodies that can't be evicted, as they are being sent, each step is reached and refuses what it says, nothing else."""
    asked = []

    def answered(_method, path, _fields):
        asked.append(path)
        return "Cache-Control: max-age=3600\r\n", PATTERN[:BIG] * 160 if path.startswith("/held") else b"small"

    vcl = """vcl 4.1; backend b { .host = "%s"; .port = "%d"; }
        sub vcl_backend_response { set beresp.grace = 1h; if (bereq.url == "/held/stale") { set beresp.ttl = 0.3s; } }"""
    with Origin(simple(answered)) as origin, Varnishd(program, ["-l", "4m"], vcl=vcl % origin.address, storage="malloc,400m") as v:
        holders = [Client(v.address, 60, rcvbuf=4096) for _ in range(2)]
        for client, path in zip(holders, ("/held/fresh", "/held/stale")):
            client.send(f"GET {path} HTTP/1.1\r\nHost: bed.test\r\n\r\n".encode())
            client.sock.recv(1, socket.MSG_PEEK)
        report.check(until(LIMIT, lambda: gauge(v, "MAIN.n_object") == 2 and gauge(v, "SMA.s0.g_bytes") > 80 << 20), "two bodies are held")

        def ask(path, method="HEAD"):
            return Client(v.address, LIMIT).request(path, method=method)

        def refused():
            return ask("/held/stale").status == 200 and gauge(v, "MAIN.mem_bgfetch") > 0

        def told():
            return json.loads(subprocess.run([lacquer, "memory", "-n", str(v.n), "--format", "json"], capture_output=True, text=True).stdout)

        def reach(step, left):
            """Sets the limit so that this part of its reserve is free, again while threads still give up what they keep."""
            def there():
                v.cli.ask(f"param.set memory_limit {limit_for(told()['used'], left)}b")
                return until(1, lambda: told()["step"] == step)
            report.check(until(LIMIT, there), f"step {step}: {told()['step']}")

        # The log gets its last megabytes after the first connections.
        log = lambda: next(row["bytes"] for row in told()["holders"] if row["name"] == "log")
        report.check(until(LIMIT, lambda: log() >= 4 << 20), f"the log is there: {log()} bytes")
        reach("refuse background fetches", 0.375)
        before = len(asked)
        report.check(until(LIMIT, refused) and len(asked) == before, f"once its ttl is over it is delivered stale, not refreshed: {asked[before:]}")
        report.check(ask("/new", "GET").whole(), "a client's own fetch is made")
        reach("shed", 0.125)
        r, before, shed = ask("/other", "GET"), len(asked), gauge(v, "MAIN.mem_shed")
        report.check(r.whole(503) and r.get("Retry-After") == "5" and shed > 0, f"a miss is refused: {r} {r.fields}")
        report.check(ask("/held/fresh").status == 200 and ask("/held/fresh").status == 200, "a hit is a hit")
        report.check(gauge(v, "MAIN.mem_shed") == shed and len(asked) == before, "and nothing else was refused or fetched")
        v.cli.ask("param.set memory_limit 0")
        report.check(until(LIMIT, lambda: ask("/other", "GET").whole()), "without a limit all are served")
        before = asked.count("/held/stale")
        report.check(ask("/held/stale").status == 200 and until(LIMIT, lambda: asked.count("/held/stale") > before), "and what is stale is refreshed")
        steps = has_all("memory_limit: step shed", "memory_limit: step none")
        report.check(steps(log := read_log(v, steps, "-g", "raw", "-i", "Notice")), f"the steps are in the log: {log}")
        for client in holders:
            client.close()


def churned(report, program, origin, full, mb):
    """Pss stays below its bound under churn, and falls after a ban of everything."""
    size = mb << 20
    args = ["-p", "ban_lurker_age=0.1", "-p", "ban_lurker_sleep=0.01"] + ([] if full else ["-l", "4m"])
    with Varnishd(program, args, backend=origin, storage=f"malloc,{mb}m") as v:
        pid = v.worker()
        churn(report, v, size, size * 1.15 + (64 << 20), full)
        told(report, v, pathlib.Path(program).parent / "lacquer", size)
        before = pss(v.pids())
        v.cli.ask("ban obj.status != 0")
        want = before - size // 2

        def fallen():
            get(v.address, "/o/after", keep=False)  # an allocator may wait for a little traffic before it gives back
            return (p := pss(v.pids())) < want and p
        low = until(LIMIT, fallen, 0.25)
        now = low or pss(v.pids())
        report.note(f"after a ban of everything: {before / 1e6:.1f} -> {now / 1e6:.1f} MB")
        report.check(low, f"Pss did not fall by half the store after the ban: {before / 1e6:.1f} -> {now / 1e6:.1f} MB")
        report.check(v.worker() == pid, "the worker is another one than at the start")


def main():
    o = options(__doc__, megabytes=dict(type=int), words=dict(default="", help="cases to run, by a part of their names"))
    report = Report("memory")
    ours, theirs = multiprocessing.Pipe()
    origin = multiprocessing.Process(target=origin_process, args=(theirs,), daemon=True)
    origin.start()
    address = ours.recv()
    cases = {
        "churned": lambda: churned(report, o.varnishd, address, o.full, o.megabytes or (512 if o.full else 64)),
        "limited": lambda: limited(report, o.varnishd, address, o.full),
        "on_its_way": lambda: on_its_way(report, o.varnishd),
        "refusals": lambda: refusals(report, o.varnishd, pathlib.Path(o.varnishd).parent / "lacquer"),
    }
    try:
        for name, case in cases.items():
            if o.words in name:
                case()
    finally:
        ours.send(None)
        origin.join(5)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

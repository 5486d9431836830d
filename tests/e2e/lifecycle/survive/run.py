#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What outlives a worker: all objects but those being fetched, byte for byte; what was invalidated doesn't come back.

With --full a million objects and 64 clients; otherwise some hundreds. --words says which cases to run."""
import functools
import os
import pathlib
import random
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed import clocks
from bed.daemon import Varnishd, tree
from bed.http import Client, Garbled
from bed.origin import Origin, simple
from bed.report import Report, options, until

LIMIT = 60  # seconds; it only ends what hangs


@functools.lru_cache(2000)
def body_of(path):
    """What the origin answers: length and bytes follow from the path. /big is 4 MB, others 1 KB or so."""
    draw = random.Random(path)
    length = 4 << 20 if path.startswith("/big") else 700 + draw.randrange(600)
    return draw.randbytes(length)


class Pages:
    """An origin that counts."""

    def __init__(self):
        self.asked, self.lock = {}, threading.Lock()

    def answer(self, _method, path, _fields):
        with self.lock:
            self.asked[path] = self.asked.get(path, 0) + 1
        return f"Cache-Control: max-age=3600\r\nX-Path: {path}\r\n", body_of(path)

    def count(self):
        with self.lock:
            return sum(self.asked.values())


def is_exiting(pid):
    """Whether a process runs no more, or is gone."""
    PF_EXITING = 4
    try:
        with open(f"/proc/{pid}/stat") as f:
            return bool(int(f.read().rsplit(")", 1)[1].split()[6]) & PF_EXITING)
    except OSError:
        return True


class Bed:
    """An origin, a server with a store in memory, and what is in it."""

    def __init__(self, program, args=(), storage="malloc,256m"):
        self.pages = Pages()
        self.origin = Origin(simple(self.pages.answer))
        self.v = Varnishd(program, ["-p", "feature=+no_coredump", *args], backend=self.origin.address, storage=storage)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.v.close()
        self.origin.close()

    def walk(self, paths):
        """Asks for each path, 4 clients at a time; gives those whose answer was wrong, and how many were fetched."""
        paths, wrong, before = list(paths), [], self.pages.count()
        def some(part):
            with Client(self.v.address, timeout=LIMIT, keep=True) as c:
                for path in part:
                    r = c.request(path)
                    if not r.whole() or r.body != body_of(path) or r.get("X-Path") != path:
                        wrong.append((path, str(r)))
        threads = [threading.Thread(target=some, args=(paths[n::4],)) for n in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return wrong, self.pages.count() - before

    def quiet(self):
        """Waits until nothing is being delivered: an answer can be here before the worker has noted that it is over, and an object over which
        two workers died is dropped."""
        until(LIMIT, lambda: self.v.counter("MAIN.txn_busy") == 0)

    def die(self, how="kill -9"):
        """Ends the worker and waits for the next one's first answer: after how many milliseconds it came."""
        old = self.v.worker()
        begin = time.monotonic()
        if how == "panic":
            threading.Thread(target=lambda: self.v.cli.ask_raw("debug.panic.worker"), daemon=True).start()
            # From then on nobody but the next worker answers: this one's memory is still being given back.
            until(LIMIT, lambda: is_exiting(old), step=0)
        else:
            os.kill(old, signal.SIGKILL)
        answered = until(LIMIT, lambda: self.answers(), step=0)
        took = (time.monotonic() - begin) * 1e3
        until(LIMIT, lambda: "running" in self.v.cli.ask("status"))
        return took if answered else None

    def answers(self):
        try:
            with Client(self.v.address, timeout=LIMIT) as c:
                return c.request("/0").whole()
        except (OSError, EOFError):
            return False


class Load:
    """Clients that ask for drawn pages without end and look at every byte."""

    def __init__(self, bed, count, clients, seed):
        self.bed, self.count, self.over = bed, count, threading.Event()
        self.refused, self.wrong, self.cut, self.good = 0, [], [], 0
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.ask, args=(random.Random(f"{seed} {n}"),), daemon=True) for n in range(clients)]
        for t in self.threads:
            t.start()

    def ask(self, draw):
        client = None
        while not self.over.is_set():
            path = f"/{draw.randrange(self.count)}"
            try:
                client = client or Client(self.bed.v.address, timeout=LIMIT, keep=True)
                r = client.request(path)
                with self.lock:
                    if r.whole() and r.body == body_of(path):
                        self.good += 1
                        continue
                    (self.cut if r.end in ("none", "truncated") else self.wrong).append((path, str(r)))
            except ConnectionRefusedError:
                with self.lock:
                    self.refused += 1
            except (OSError, EOFError, Garbled, ValueError) as error:
                with self.lock:
                    self.cut.append((path, repr(error)))
            if client:
                client.close()
            client = None

    def stop(self):
        self.over.set()
        for t in self.threads:
            t.join(LIMIT)


def nothing_lost(report, o, how):
    """A worker dies under load: no connection is refused, no byte is wrong, and all that was whole is a hit."""
    count, clients, rounds = (1_000_000, 64, 3) if o.full else (600, 8, 2)
    storage = "malloc,4g" if o.full else "malloc,256m"
    with Bed(o.varnishd, storage=storage) as bed:
        paths = [f"/{n}" for n in range(count)]
        wrong, fetched = bed.walk(paths)
        report.check(not wrong and fetched == count, f"{how}: filled with {fetched} of {count}; wrong: {wrong[:3]}")
        times = []
        for n in range(rounds):
            load = Load(bed, count, clients, f"{o.seed} {n}")
            until(LIMIT, lambda: load.good > 50)
            times.append(bed.die(how))
            load.stop()
            report.check(times[-1] is not None, f"{how}: nobody answers after it")
            report.check(load.refused == 0, f"{how}: {load.refused} connections refused")
            report.check(not load.wrong, f"{how}: wrong answers: {load.wrong[:3]}")
            report.check(len(load.cut) <= 2 * clients, f"{how}: {len(load.cut)} answers cut: {load.cut[:3]}")
        wrong, fetched = bed.walk(paths)
        report.check(not wrong, f"{how}: wrong afterwards: {wrong[:3]}")
        # Each death may be the second one of an object that a thread was delivering.
        report.check(fetched <= 2 * (os.cpu_count() or 1), f"{how}: {fetched} of {count} had to be fetched again")
        shown = ", ".join(f"{t:.0f}" for t in times if t is not None)
        report.note(f"{how}: {count} objects, {clients} clients, {rounds} deaths: first answer after {shown} ms, {fetched} fetched again")


def starts(report, o):
    """After a death a stop and a start keep; of a healthy worker they empty."""
    paths = [f"/{n}" for n in range(50)]
    with Bed(o.varnishd) as bed:
        def refetched(what, wanted):
            wrong, fetched = bed.walk(paths)
            report.check(not wrong and fetched == wanted, f"{what}: {fetched} fetched, not {wanted}; wrong: {wrong[:3]}")
        def restart():
            bed.v.cli.ask("stop")
            bed.v.cli.ask("start")
        refetched("at first", 50)
        restart()
        refetched("stop and start", 50)
        bed.quiet()
        bed.die()
        refetched("a death", 0)
        restart()
        refetched("stop and start after a death", 0)
        restart()
        refetched("stop and start again", 50)
        bed.v.cli.ask("param.set auto_restart off")
        bed.quiet()
        os.kill(bed.v.worker(), signal.SIGKILL)
        report.check(until(LIMIT, lambda: "stopped" in bed.v.cli.ask("status")), "auto_restart off: no other worker comes")
        bed.v.cli.ask("start")
        refetched("a start long after a death", 0)


def row_of_deaths(report, o):
    """The fifth death in a minute empties the stores."""
    paths = [f"/{n}" for n in range(50)]
    with Bed(o.varnishd) as bed:
        bed.walk(paths)
        for n in range(1, 6):
            bed.quiet()
            bed.die()
            wrong, fetched = bed.walk(paths)
            # The first answer of a worker is waited for by a request for one of them.
            wanted = (49, 50) if n == 5 else (0,)
            report.check(not wrong and fetched in wanted, f"death {n}: {fetched} fetched, not {wanted}; wrong {wrong[:3]}")


def deadly_object(report, o):
    """An object that is being delivered at two deaths is dropped; its neighbours stay."""
    paths = [f"/{n}" for n in range(50)] + ["/big"]
    with Bed(o.varnishd) as bed:
        bed.walk(paths)
        for n in (1, 2):
            bed.quiet()
            with Client(bed.v.address, timeout=LIMIT, rcvbuf=4096) as slow:
                slow.send(b"GET /big HTTP/1.1\r\nHost: bed.test\r\n\r\n")
                report.check(slow.sock.recv(1000).startswith(b"HTTP/1.1 200"), f"death {n}: the delivery began")
                old = bed.v.worker()
                os.kill(old, signal.SIGKILL)
                until(LIMIT, lambda: old not in tree(bed.v.proc.pid) and "running" in bed.v.cli.ask("status"))
            wrong, fetched = bed.walk(paths)
            wanted = 1 if n == 2 else 0
            report.check(not wrong and fetched == wanted, f"death {n}: {fetched} fetched, not {wanted}; wrong {wrong[:3]}")
        told = "".join(bed.v.output)
        report.check("two workers died while they delivered it" in told, f"no line of the object: {bed.v.log()[-800:]}")


def long_end(report, o):
    """The system takes a while to take back the memory of a worker that died: the next one doesn't wait for that. How the
    first one ended is told all the same."""
    paths = [f"/big{n}" for n in range(100)]
    for how, signal_number in (("kill -9", 9), ("panic", 6)):
        with Bed(o.varnishd, storage="malloc,600m") as bed:
            bed.walk(paths)
            old = bed.v.worker()
            bed.die(how)
            died = f"Child ({old}) died signal={signal_number}"
            report.check(until(LIMIT, lambda: died in "".join(bed.v.output)), f"{how}: no line of its end: {bed.v.log()[-800:]}")
            told = "".join(bed.v.output)
            report.check(not o.clocks or f"Child ({bed.v.worker()}) Started" in told.split(died)[0], f"{how}: the next one began after the end: {told[-3000:]}")
            ends = bed.v.cli.ask("restarts")
            report.check("died once" in ends and f"pid {old}  died signal={signal_number}" in ends, f"{how}: restarts: {ends}")
            if how == "panic":
                report.check("You asked for it" in bed.v.cli.ask("panic.show"), "panic.show shows it")
                report.check(until(LIMIT, lambda: f"Child ({old}) Panic at: " in "".join(bed.v.output)), f"no line of the panic: {told[-800:]}")
            wrong, fetched = bed.walk(paths)
            report.check(not wrong and fetched == 0, f"{how}: {fetched} fetched; wrong: {wrong[:3]}")


def bans_survive(report, o):
    """What was banned or purged before a death doesn't come back after it."""
    vcl = """vcl 4.1; backend b { .host = "%s"; .port = "%d"; }
        sub vcl_recv { if (req.method == "PURGE") { return (purge); } }
        sub vcl_backend_response { set beresp.http.x-url = bereq.url; }"""
    pages = Pages()
    with Origin(simple(pages.answer)) as origin, Varnishd(o.varnishd, vcl=vcl % origin.address[:2], storage="malloc,64m") as v:
        bed = Bed.__new__(Bed)
        bed.pages, bed.origin, bed.v = pages, origin, v
        bed.walk(f"/{n}" for n in range(40))
        v.cli.ask("ban obj.http.x-url ~ ^/1")
        with Client(v.address, timeout=LIMIT) as c:
            c.request("/2", method="PURGE")
        listed = len(v.cli.ask("ban.list").splitlines())
        bed.die()
        after = len(v.cli.ask("ban.list").splitlines())
        report.check(after >= min(listed, 2), f"ban.list had {listed} lines, has {after}")
        wrong, fetched = bed.walk(f"/{n}" for n in range(40))
        # /1, /10 to /19, and /2.
        report.check(not wrong and fetched == 12, f"after ban, purge and death: {fetched} fetched, not 12; wrong {wrong[:3]}")


def main():
    o = options(__doc__, words=dict(default="", help="cases to run, by a part of their names"), **clocks.OPTION)
    report = Report("survive")
    cases = {"kill -9": lambda: nothing_lost(report, o, "kill -9"), "panic": lambda: nothing_lost(report, o, "panic")}
    for case in (starts, row_of_deaths, deadly_object, long_end, bans_survive):
        cases[case.__name__] = lambda case=case: case(report, o)
    for name, case in cases.items():
        if o.words in name:
            case()
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

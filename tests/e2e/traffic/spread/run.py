#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Bans that spread: an origin counts how soon readers' requests have it fetch what a ban has made stale. With --full it also shows the herd
of a ban that doesn't spread."""
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd, acting
from bed.http import Client
from bed.origin import Origin, simple
from bed.pace import most_in_a_second, too_early
from bed.report import Report, options, until

LIMIT = 120  # seconds; it only ends what hangs
OBJECTS = 2000
READERS = 8
RATE = 200
VCL = """vcl 4.1;
backend default { .host = "%s"; .port = "%d"; }
sub vcl_backend_response { set beresp.ttl = 1d; set beresp.grace = 1h; }
sub vcl_deliver { set resp.http.hits = obj.hits; }
"""


class Pages:
    """An origin that notes when it was asked."""

    def __init__(self):
        self.times, self.lock = [], threading.Lock()

    def answer(self, _method, path, _fields):
        with self.lock:
            self.times.append(time.monotonic())
        return f"xkey: all t{int(path[1:]) % 10}\r\n", path.encode()

    def asked(self):
        with self.lock:
            return len(self.times)

    def since(self, begin):
        """The seconds after `begin` at which it was asked."""
        with self.lock:
            return sorted(at - begin for at in self.times if at >= begin)


class Readers:
    """Clients that ask for one object after the other, all of them again and again."""

    def __init__(self, address):
        self.address, self.is_over, self.waited, self.wrong, self.took = address, False, [], [], []
        self.threads = [threading.Thread(target=self._read, args=(n,), daemon=True) for n in range(READERS)]
        for t in self.threads:
            t.start()

    def _read(self, n):
        client = None
        while not self.is_over:
            for at in range(n, OBJECTS, READERS):
                try:
                    client = client or Client(self.address, timeout=LIMIT)
                    begin = time.monotonic()
                    got = client.request(f"/{at}")
                except (OSError, EOFError):
                    got = None
                if got is None or not got.status:
                    client = None  # the worker has died
                    continue
                self.took.append(time.monotonic() - begin)
                if not got.whole() or got.body != b"/%d" % at:
                    self.wrong.append(str(got))
                if got.get("hits") == "0":
                    self.waited.append(at)
                if self.is_over:
                    break

    def end(self):
        self.is_over = True
        for t in self.threads:
            t.join()

    def p99(self):
        """In milliseconds, of what was read since it was asked last."""
        took, self.took = sorted(self.took), []
        return took[len(took) * 99 // 100] * 1e3 if took else 0


class Bed:
    """A server that has all objects, an origin, and readers."""

    def __init__(self, o):
        self.pages = Pages()
        self.origin = Origin(simple(self.pages.answer))
        ours = ["-p", "tag_fields=xkey"] if acting(o.varnishd) else []
        self.v = Varnishd(o.varnishd, ["-p", "feature=+no_coredump", *ours], vcl=VCL % self.origin.address[:2], storage="malloc,100m")
        with Client(self.v.address, timeout=LIMIT) as c:
            for n in range(OBJECTS):
                c.request(f"/{n}")
        self.readers = Readers(self.v.address)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.readers.end()
        self.v.close()
        self.origin.close()

    def row(self):
        """The matched and the turned objects of the only ban that is being spread."""
        rows = self.v.cli.ask("ban.spreads").splitlines()[1:]
        return tuple(map(int, rows[0].split()[2:4])) if rows else None


def rate(report, o):
    """The origin gets no more than the rate, and nobody waits for it."""
    with Bed(o) as bed:
        bed.readers.p99()
        until(LIMIT, lambda: len(bed.readers.took) > 2 * OBJECTS)
        before = bed.readers.p99()
        begin = time.monotonic()
        bed.v.cli.ask(f"ban over=1s rate={RATE}/s obj.tag == all")
        report.comes(lambda: bed.v.counter("MAIN.bans_spread_objects"), OBJECTS, "all objects match", LIMIT)
        report.check(until(LIMIT, lambda: bed.pages.asked() >= 2 * OBJECTS), f"all are fetched again: {bed.pages.asked()}")
        during = bed.readers.p99()
        report.check(until(LIMIT, lambda: not bed.row()), f"it ends: {bed.v.cli.ask('ban.spreads')}")
        bed.readers.end()
        times = bed.pages.since(begin)
        report.check(len(times) == OBJECTS, f"each is fetched once: {len(times)}")
        report.check(not too_early(times, RATE), f"before its time: {too_early(times, RATE)}")
        report.check(not bed.readers.waited and not bed.readers.wrong, f"{len(bed.readers.waited)} waited, wrong: {bed.readers.wrong[:3]}")
        report.note(f"{most_in_a_second(times)} fetches in the second with the most, {len(times)} in {times[-1]:.1f} s; p99 {before:.1f} ms before, {during:.1f} ms meanwhile")


def crash(report, o):
    """The worker dies in the middle: what hasn't become stale yet does so at its time."""
    with Bed(o) as bed:
        begin = time.monotonic()
        bed.v.cli.ask(f"ban over=1s rate={RATE}/s obj.tag == all")
        report.comes(lambda: bed.v.counter("MAIN.bans_spread_objects"), OBJECTS, "all objects match", LIMIT)
        report.check(bed.v.worker_dies(), "the next worker comes")
        report.check(until(LIMIT, lambda: bed.pages.asked() >= 2 * OBJECTS), f"all are fetched again: {bed.pages.asked()}")
        bed.readers.end()
        times = bed.pages.since(begin)
        report.check(not too_early(times, RATE), f"before its time: {too_early(times, RATE)}")
        # The fetches that ran when the worker died are repeated.
        report.check(len(times) <= OBJECTS + READERS + 20, f"fetched again: {len(times)}")
        report.check(not bed.readers.wrong, f"wrong: {bed.readers.wrong[:3]}")


def cancelled(report, o):
    """A cancelled ban leaves the list; the reply counts the objects that have a moment."""
    with Bed(o) as bed:
        bed.v.cli.ask("ban over=12h obj.tag == t1,t2")
        report.comes(bed.row, lambda row: row is not None and row[0] == OBJECTS // 5, "the ban's objects match", LIMIT)
        ident = bed.v.cli.ask("ban.spreads").splitlines()[1].split()[0]
        told = bed.v.cli.ask(f"ban.cancel {ident}")
        report.check(told == f"Cancelled; {OBJECTS // 5} objects that had a moment still become stale\n", told)
        report.check(bed.v.cli.ask_raw(f"ban.cancel {ident}")[0] == 106 and not bed.row(), "it is gone")
        status, text = bed.v.cli.ask_raw("ban over=7d obj.host == bed.test")
        report.check(status == 300 and b"tag_urls" in text, f"without tags of URLs: {status} {text}")


def herd(report, o):
    """A ban that doesn't spread, for comparison."""
    if not o.full:
        return
    with Bed(o) as bed:
        begin = time.monotonic()
        bed.v.cli.ask("ban obj.http.xkey ~ all")
        report.check(until(LIMIT, lambda: bed.pages.asked() >= 2 * OBJECTS), f"all are fetched again: {bed.pages.asked()}")
        bed.readers.end()
        times = bed.pages.since(begin)
        report.note(f"{most_in_a_second(times)} fetches in the second with the most, {len(times)} in {times[-1]:.1f} s; {len(bed.readers.waited)} waited")


def main():
    o = options(__doc__, (rate, crash, cancelled, herd))
    report = Report("spread")
    report.run(o.cases, report, o)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

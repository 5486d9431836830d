#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What was banned or purged, and acknowledged, isn't served again, whatever dies: by each kind of invalidation, of objects in
memory and of objects that are on the disk alone. A journal that can't be used costs the objects; one that can't be written, or
stands still, is told of, and holds up nobody else. Faults of a file system need root and loop devices."""
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

TESTS = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TESTS), str(TESTS / "e2e/lifecycle")]
from bed.daemon import Varnishd, workdir
from bed.http import Client
from bed.loop import Loop, has_loops
from bed.report import Report, options, until
from disk.run import LIMIT, Bed

VCL = """vcl 4.1; import purge; import xkey; backend b { .host = "%s"; .port = "%d"; }
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
    set beresp.http.xkey = regsub(bereq.url, "^/.*(.)$", "k\\1");
}"""
COUNT = 60
PATHS = [f"/{n}" for n in range(COUNT)]


class Journaled(Bed):
    """A store that is kept, and all ways to invalidate."""

    def start(self, storage="file,@,64m,keep", args=()):
        self.v = Varnishd(self.program, ["-p", "feature=+no_coredump", "-p", "tag_urls=on", *args], vcl=VCL % self.origin.address[:2],
                          storage=storage.replace("@", str(self.file)))
        self.born = time.monotonic()
        return self.v

    @property
    def journal(self):
        return self.file.with_name("store.journal")

    def asked_for(self, path, method="GET", **fields):
        with Client(self.v.address, timeout=LIMIT) as c:
            return c.request(path, [(name.replace("_", "-"), value) for name, value in fields.items()], method=method)

    def change(self, paths):
        """The origin has other bodies for them: who serves the old ones is wrong."""
        for path in paths:
            self.pages.versions[path] = self.pages.versions.get(path, 0) + 1


# By each kind: how it is done, and which paths it hits.
KINDS = {
    "a ban by the CLI": (lambda bed: bed.v.cli.ask_raw("ban obj.http.x-url ~ ^/1")[0] == 200, [p for p in PATHS if p.startswith("/1")]),
    "a ban by VCL": (lambda bed: bed.asked_for("/20", "BAN").status == 200, ["/20"]),
    "a purge": (lambda bed: bed.asked_for("/21", "PURGE").status == 200, ["/21"]),
    "a soft purge": (lambda bed: bed.asked_for("/22", "GET", X_Soft="1").status == 200, ["/22"]),
    "a purge by key": (lambda bed: bed.asked_for("/", "KEY", X_Key="k5").status == 200, [p for p in PATHS if p.endswith("5")]),
    "a soft purge by key": (lambda bed: bed.asked_for("/", "SOFTKEY", X_Key="k6").status == 200, [p for p in PATHS if p.endswith("6")]),
    "a purge by tag": (lambda bed: bed.v.cli.ask_raw("purge.tag k7")[0] == 200, [p for p in PATHS if p.endswith("7")]),
    "a purge by URL": (lambda bed: bed.v.cli.ask_raw("purge.url site/38")[0] == 200, ["/38"]),
    "a purge by prefix": (lambda bed: bed.v.cli.ask_raw("purge.prefix site/4")[0] == 200, [p for p in PATHS if p.startswith("/4")]),
}


def checked(report, bed, what, wanted):
    """Walks and compares how many were fetched; every body is looked at."""
    wrong, fetched = bed.walk(PATHS)
    report.check(not wrong, f"{what}: wrong: {wrong[:3]}")
    report.check(fetched == wanted, f"{what}: {fetched} fetched, not {wanted}")


def filled(report, bed, what):
    """Fetches all, and waits until the disk has them. What comes while a store is being opened isn't stored."""
    bed.ready()
    checked(report, bed, f"{what}: at first", COUNT)
    stored(report, bed, what)


def stored(report, bed, what):
    objects = lambda: bed.counter("DISK.s0.objects")
    report.check(until(LIMIT, lambda: objects() >= COUNT), f"{what}: the disk has {objects()} of {COUNT}")


def restart(bed, end):
    getattr(bed, end)()
    if end != "die":
        bed.start()


def never_again(report, o):
    """Each kind of invalidation holds after a worker's death, a restart and a kill of everything; what it doesn't hit is there."""
    for end in ("die", "stop", "kill"):
        for kind, (invalidate, hit) in KINDS.items():
            with Journaled(o.varnishd) as bed:
                what = f"{kind}, {end}"
                bed.start()
                filled(report, bed, what)
                report.check(invalidate(bed), f"{what}: it is acknowledged")
                bed.change(hit)
                restart(bed, end)
                bed.ready()
                checked(report, bed, what, len(hit))


def on_the_disk_alone(report, o):
    """The same of objects that nobody has asked for since the start, and with two ends in a row."""
    for kind, (invalidate, hit) in KINDS.items():
        with Journaled(o.varnishd) as bed:
            bed.start()
            filled(report, bed, kind)
            restart(bed, "stop")
            report.check(invalidate(bed), f"{kind}: it is acknowledged")
            bed.change(hit)
            restart(bed, "kill")
            restart(bed, "kill")
            bed.ready()
            checked(report, bed, f"{kind}, of what is on the disk alone", len(hit))
            stored(report, bed, kind)
            restart(bed, "stop")
            bed.ready()
            checked(report, bed, f"{kind}: what came afterwards stays", 0)


def unusable(report, o):
    """A journal that is missing, older than its store, damaged, cut off or another version's: the store begins empty."""
    def older(bed):
        shutil.copy(bed.older, bed.journal)
    def changed(at, bytes_):
        def change(bed):
            with open(bed.journal, "r+b") as f:
                for base in (0, 4096):
                    f.seek(base + at)
                    f.write(bytes_)
        return change
    cases = {
        "missing": (lambda bed: bed.journal.unlink(), ""),
        "older than the store": (older, ""),
        "damaged": (changed(20, b"\xa5\x5a"), "the journal is damaged"),
        "of another version": (changed(8, b"\x63"), "a journal of version 99"),
        "cut off": (lambda bed: os.truncate(bed.journal, 5000), ""),
        "empty": (lambda bed: os.truncate(bed.journal, 0), ""),
    }
    for case, (change, text) in cases.items():
        with Journaled(o.varnishd) as bed:
            bed.start()
            filled(report, bed, case)
            bed.stop()
            bed.older = bed.dir / "older"
            shutil.copy(bed.journal, bed.older)
            bed.start()
            bed.ready()
            report.check(bed.asked_for("/7", "PURGE").status == 200, f"{case}: a purge")
            bed.change(["/7"])
            bed.stop()
            change(bed)
            bed.start()
            bed.ready()
            checked(report, bed, f"a journal that is {case}", COUNT)
            told = until(5, lambda: "begins empty" in "".join(bed.v.output) and text in "".join(bed.v.output))
            report.check(told, f"{case}: nothing says so: {bed.v.log()[-1500:]}")


def refused(report, o):
    """What is no journal, and one that another server uses, is refused with the reason and isn't touched."""
    def check(what, storage, text):
        d = workdir()
        try:
            p = subprocess.run([o.varnishd, "-F", "-n", str(d / "n"), "-b", "127.0.0.1:9", "-a", "127.0.0.1:0", "-s", storage],
                               capture_output=True, text=True, timeout=LIMIT)
            report.check(p.returncode == 2 and text in p.stderr + p.stdout, f"{what}: {p.returncode} {(p.stdout + p.stderr)[-500:]!r}")
        finally:
            shutil.rmtree(d, ignore_errors=True)
    with Journaled(o.varnishd) as bed:
        bed.start()
        check("a journal in use", f"file,{bed.dir}/other,16m,keep,journal={bed.journal}", "is in use by another process")
        bed.stop()
        bed.journal.write_text("a letter")
        check("a letter", f"file,{bed.file},64m,keep", "holds something that isn't a journal")
        report.check(bed.journal.read_text() == "a letter", "a letter isn't overwritten")
        check("a directory", f"file,{bed.file},64m,keep,journal={bed.dir}", "can't be opened: Is a directory")


def full(report, o):
    """No room for the journal: invalidations hold and are acknowledged, as nothing will outlive the server; that is told."""
    if not has_loops():
        report.note("no root or no loop devices: nothing was full")
        return
    with Journaled(o.varnishd) as bed:
        small = bed.dir / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(small)], check=True)
        try:
            storage = f"file,@,64m,keep,journal={small}/journal"
            bed.start(storage)
            filled(report, bed, "at first")
            with open(small / "filler", "wb", buffering=0) as f:
                try:
                    while f.write(b"x" * 4096) == 4096:
                        pass
                except OSError:
                    pass
            for n in range(300):
                bed.v.cli.ask(f"ban obj.http.x-url == /{n}{'x' * 200}")
            report.check(bed.asked_for("/7", "PURGE").status == 200, "a purge is acknowledged")
            bed.change(["/7"])
            checked(report, bed, "a full journal", 1)
            told = until(5, lambda: "is incomplete" in "".join(bed.v.output))
            report.check(told and bed.counter("MAIN.journal_fail") == 1, f"it is told and counted: {bed.v.log()[-600:]}")
            bed.kill()
            (small / "filler").unlink()
            bed.start(storage)
            bed.ready()
            checked(report, bed, "after a full journal", COUNT)
            report.check("the journal is incomplete" in "".join(bed.v.output), f"the next start says so: {bed.v.log()[-800:]}")
        finally:
            bed.stop()
            subprocess.run(["umount", str(small)], check=False)


def stands_still(report, o):
    """The journal's file system stands still: who purges waits, the CLI answers a ban with a warning, nobody else notices."""
    if not has_loops():
        report.note("no root or no loop devices: nothing stood still")
        return
    with Journaled(o.varnishd) as bed:
        loop = Loop(bed.dir / "image", 16 << 20)
        try:
            loop.mount(bed.dir / "m")
            bed.start(f"file,@,64m,keep,journal={bed.dir}/m/journal")
            filled(report, bed, "at first")
            answers = []
            with loop.frozen():
                waiting = threading.Thread(target=lambda: answers.append(bed.asked_for("/7", "PURGE").status))
                waiting.start()
                report.check(until(LIMIT, lambda: bed.counter("MAIN.n_purges") == 1), "the purge has begun")
                bed.change(["/7"])
                checked(report, bed, "standing still", 1)
                begin = time.monotonic()
                status, text = bed.v.cli.ask_raw("ban obj.http.x-url == /8")
                took = time.monotonic() - begin
                report.check(status == 300 and b"may not outlive a restart" in text and took < 8, f"a ban: {status} {text} after {took:.1f} s")
                bed.change(["/8"])
                begin = time.monotonic()
                bed.v.cli.ask("ping")
                report.check(time.monotonic() - begin < 1, "the CLI is alive")
                checked(report, bed, "the ban holds", 1)
                report.check(not answers, f"the purge waits: {answers}")
            waiting.join(LIMIT)
            report.check(answers == [200], f"it goes on: {answers}")
            status, text = bed.v.cli.ask_raw("ban obj.http.x-url == /9")
            report.check(status == 200, f"a ban afterwards: {status} {text}")
            bed.change(["/9"])
            checked(report, bed, "once it goes on", 1)
        finally:
            bed.stop()
            loop.close()


def many_at_once(report, o):
    """Those who purge at once share what it costs to bring it to the disk."""
    clients, each = 16, 100
    with Journaled(o.varnishd) as bed:
        bed.start()
        def purge(number):
            with Client(bed.v.address, timeout=LIMIT, keep=True) as c:
                for n in range(each):
                    r = c.request(f"/{number}/{n}", method="PURGE")
                    if r.status != 200:
                        wrong.append(str(r))
        for count in (1, clients):
            wrong, begin = [], time.monotonic()
            threads = [threading.Thread(target=purge, args=(number,)) for number in range(count)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            took = time.monotonic() - begin
            report.check(not wrong, f"{count} purge at once: {wrong[:3]}")
            report.note(f"{count} clients: {count * each / took:.0f} purges a second")


def main():
    o = options(__doc__, words=dict(default="", help="cases to run, by a part of their names"))
    report = Report("journal")
    for case in (never_again, on_the_disk_alone, unusable, refused, full, stands_still, many_at_once):
        if o.words in case.__name__:
            case(report, o)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

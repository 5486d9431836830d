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
sys.path.insert(0, str(TESTS))
from bed.daemon import workdir
from bed.http import Client
from bed.loop import Loop, has_loops
from bed.report import Report, options, until
from bed.stores import INVALIDATING_VCL, LIMIT, Bed

COUNT = 30
PATHS = [f"/{n}" for n in range(COUNT)]


class Journaled(Bed):
    """A store that is kept, and all ways to invalidate."""
    # On a busy machine a disk may be slow: what it has isn't to be fetched again for that.
    vcl, storage, args = INVALIDATING_VCL, "file,@,64m,keep", ("-p", "tag_urls=on", "-p", "disk_timeout=10")

    @property
    def journal(self):
        return self.file.with_name("store.journal")


class Kind:
    """A way to invalidate. Its objects are /NAME/0 to /NAME/29; `hit` are those of its tag, or of the expression, that are invalidated."""

    def __init__(self, name, says, invalidate, hit):
        self.name, self.says, self.invalidate = name, says, invalidate
        self.paths = [f"/{name}/{n}" for n in range(COUNT)]
        self.hit = [f"/{name}/{n}" for n in range(COUNT) if hit(str(n))]

    def checked(self, report, bed, what, wanted=None):
        """Asks for all of its objects: every body is right, and those alone that were invalidated are fetched again."""
        low, high = (len(self.hit),) * 2 if wanted is None else wanted
        wrong, fetched = bed.walk(self.paths)
        report.check(not wrong, f"{self.says}, {what}: wrong: {wrong[:3]}")
        report.check(low <= fetched <= high, f"{self.says}, {what}: {fetched} fetched, not {low} to {high}")

    def done(self, report, bed, what):
        """Invalidates, after which the origin has other bodies."""
        report.check(self.invalidate(bed), f"{self.says}, {what}: it is acknowledged")
        bed.change(self.hit)


KINDS = [
    Kind("a", "a ban by the CLI", lambda bed: bed.v.cli.ask_raw("ban obj.http.x-url ~ ^/a/1")[0] == 200, lambda n: n.startswith("1")),
    Kind("b", "a ban by VCL", lambda bed: bed.ask("/b/20", "BAN").status == 200, lambda n: n == "20"),
    Kind("c", "a purge", lambda bed: bed.ask("/c/21", "PURGE").status == 200, lambda n: n == "21"),
    Kind("d", "a soft purge", lambda bed: bed.ask("/d/22", X_Soft="1").status == 200, lambda n: n == "22"),
    Kind("e", "a purge by key", lambda bed: bed.ask("/", "KEY", X_Key="ke5").status == 200, lambda n: n.endswith("5")),
    Kind("f", "a soft purge by key", lambda bed: bed.ask("/", "SOFTKEY", X_Key="kf6").status == 200, lambda n: n.endswith("6")),
    Kind("g", "a purge by tag", lambda bed: bed.v.cli.ask_raw("purge.tag kg7")[0] == 200, lambda n: n.endswith("7")),
    Kind("h", "a purge by URL", lambda bed: bed.v.cli.ask_raw("purge.url site/h/28")[0] == 200, lambda n: n == "28"),
    Kind("i", "a purge by prefix", lambda bed: bed.v.cli.ask_raw("purge.prefix site/i/2")[0] == 200, lambda n: n.startswith("2")),
]


def checked(report, bed, what, wanted):
    """Walks and compares how many were fetched; every body is looked at."""
    wrong, fetched = bed.walk(PATHS)
    report.check(not wrong, f"{what}: wrong: {wrong[:3]}")
    report.check(fetched == wanted, f"{what}: {fetched} fetched, not {wanted}")


def filled(report, bed, what, paths=PATHS, before=0):
    """Fetches all and waits until they are on the disk, a few at a time: what a slow disk can't take at once isn't stored.
    `before`: the number of objects that it has already."""
    for n in range(0, len(paths), 10):
        some = paths[n:n + 10]
        wrong, fetched = bed.walk(some)
        report.check(not wrong and fetched == len(some), f"{what}: at first: {fetched} of {len(some)} fetched; wrong: {wrong[:3]}")
        stored(report, bed, what, before + n + len(some))


def filled_by_kind(report, bed, what):
    """The same with the objects of each kind."""
    for at, kind in enumerate(KINDS):
        filled(report, bed, f"{kind.says}, {what}", kind.paths, COUNT * at)


def stored(report, bed, what, count):
    report.check((there := bed.stored(count)) >= count, f"{what}: the disk has {there} of {count}")


def restart(bed, end):
    getattr(bed, end)()
    if end != "die":
        bed.start()


def never_again(report, o, end):
    """Each kind of invalidation holds after this end; what it doesn't hit is there. A kill of everything and a worker's death come right after
    each acknowledgement, so that nothing that follows brings it to the disk."""
    with Journaled(o.varnishd) as bed:
        bed.start()
        filled_by_kind(report, bed, end)
        for at, kind in enumerate(KINDS):
            if end == "die" and at in (4, 8):
                # The fifth death within a minute would empty the stores.
                restart(bed, "stop")
            kind.done(report, bed, end)
            if end != "stop":
                restart(bed, end)
                kind.checked(report, bed, f"right after {end}")
        if end == "stop":
            restart(bed, end)
            for kind in KINDS:
                kind.checked(report, bed, end)
        # What was fetched again may not have been on the disk yet at the next end.
        for kind in KINDS:
            kind.checked(report, bed, f"{end}, at last", (0, len(kind.hit)))


def never_again_after_a_death(report, o):
    never_again(report, o, "die")


def never_again_after_a_stop(report, o):
    never_again(report, o, "stop")


def never_again_after_a_kill(report, o):
    never_again(report, o, "kill")


def on_the_disk_alone(report, o):
    """The same of objects that nobody has asked for since the start, and with two ends in a row."""
    with Journaled(o.varnishd) as bed:
        bed.start()
        filled_by_kind(report, bed, "on the disk alone")
        restart(bed, "stop")
        for kind in KINDS:
            kind.done(report, bed, "on the disk alone")
        restart(bed, "kill")
        restart(bed, "kill")
        for kind in KINDS:
            kind.checked(report, bed, "of what is on the disk alone")
        stored(report, bed, "on the disk alone", COUNT * len(KINDS))
        restart(bed, "stop")
        for kind in KINDS:
            kind.checked(report, bed, "what came afterwards stays", (0, 0))


def unusable(report, o):
    """A journal that is missing, older than its store, damaged, cut off or another version's: the store begins empty."""
    def older(bed):
        shutil.copyfile(bed.dir / "older", bed.journal)
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
    with Journaled(o.varnishd) as bed:
        bed.start()
        filled(report, bed, "before")
        bed.stop()
        shutil.copyfile(bed.journal, bed.dir / "older")
        bed.start()
        report.check(bed.ask("/7", "PURGE").status == 200, "a purge")
        bed.change(["/7"])
        bed.stop()
        with bed.saved(bed.file, bed.journal) as put_back:
            bed.start()
            checked(report, bed, "as they are", 1)
            bed.stop()
            for case, (change, text) in cases.items():
                put_back()
                change(bed)
                bed.start()
                checked(report, bed, f"a journal that is {case}", COUNT)
                told = until(LIMIT, lambda: "begins empty" in "".join(bed.v.output) and text in "".join(bed.v.output))
                report.check(told, f"{case}: nothing says so: {bed.v.log()[-1500:]}")
                bed.stop()


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
            report.check(bed.ask("/7", "PURGE").status == 200, "a purge is acknowledged")
            bed.change(["/7"])
            checked(report, bed, "a full journal", 1)
            told = until(LIMIT, lambda: "is incomplete" in "".join(bed.v.output))
            report.check(told, f"it is told: {bed.v.log()[-600:]}")
            report.comes(lambda: bed.counter("MAIN.journal_fail"), 1, "MAIN.journal_fail")
            bed.kill()
            (small / "filler").unlink()
            bed.start(storage)
            checked(report, bed, "after a full journal", COUNT)
            report.check(until(LIMIT, lambda: "the journal is incomplete" in "".join(bed.v.output)), f"the next start says so: {bed.v.log()[-800:]}")
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
                waiting = threading.Thread(target=lambda: answers.append(bed.ask("/7", "PURGE").status))
                waiting.start()
                report.check(until(LIMIT, lambda: bed.counter("MAIN.n_purges") == 1), "the purge has begun")
                bed.change(["/7"])
                checked(report, bed, "standing still", 1)
                status, text = bed.v.cli.ask_raw("ban obj.http.x-url == /8")
                report.check(status == 300 and b"may not survive a restart" in text, f"a ban: {status} {text}")
                bed.change(["/8"])
                report.check("PONG" in bed.v.cli.ask("ping"), "the CLI is alive")
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
    for case in (never_again_after_a_death, never_again_after_a_stop, never_again_after_a_kill, on_the_disk_alone, unusable, refused, full, stands_still,
                 many_at_once):
        if o.words in case.__name__:
            report.run([case], report, o)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

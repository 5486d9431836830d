#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Stores on a disk: what is in one is there after a restart, byte for byte, whatever died; what was invalidated isn't; and a disk
that is full, damaged, cut off, slow or another's costs hits and is told of, never more.

With --full everything is killed 200 times, otherwise some times. --words says which cases to run. Faults of a file system need
root and loop devices; without them those cases are left out, and said to be."""
import os
import pathlib
import random
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[2]), str(HERE)]
from bed.http import Client, Garbled
from bed.loop import Loop, has_loops
from bed.report import Report, options, until
from bed.stores import LIMIT, Bed, body_of
import faulty

PATHS = [f"/{n}" for n in range(60)] + [f"/long{n}" for n in range(4)]


def checked(report, bed, what, wanted, paths=PATHS):
    """Walks and compares how many were fetched."""
    wrong, fetched = bed.walk(paths)
    low, high = wanted if isinstance(wanted, tuple) else (wanted, wanted)
    report.check(not wrong and low <= fetched <= high, f"{what}: {fetched} fetched, not {wanted}; wrong: {wrong[:3]}")


def filled(report, bed, what, paths=PATHS):
    """Fetches all and waits until they are on the disk, a few at a time: what a slow disk can't take at once isn't stored."""
    for n in range(0, len(paths), 16):
        some = paths[n:n + 16]
        checked(report, bed, what, len(some), some)
        report.check((there := bed.stored(n + len(some))) >= n + len(some), f"{what}: the disk has {there} of {n + len(some)}")


def kept_over_restarts(report, o):
    """With keep, and as persistent, everything is there after a restart and after a kill of everything; without, nothing."""
    for kind in ("file,@,256m,keep,front=4m", "persistent,@,256m,front=4m", "file,@,256m,front=4m"):
        wanted = 0 if "keep" in kind or "persistent" in kind else len(PATHS)
        with Bed(o.varnishd) as bed:
            bed.start(kind)
            filled(report, bed, f"{kind}: at first")
            checked(report, bed, f"{kind}: then", 0)
            bed.stop()
            bed.start(kind)
            if wanted:
                filled(report, bed, f"{kind}: after a restart")
            else:
                checked(report, bed, f"{kind}: after a restart", 0)
            bed.kill()
            bed.start(kind)
            checked(report, bed, f"{kind}: after a kill of everything", wanted)


def worker_dies(report, o):
    """A worker's death costs nothing, with keep or without; a stop and start of a healthy worker empties what isn't kept."""
    for kind in ("file,@,256m,keep,front=4m", "file,@,256m,front=4m"):
        with Bed(o.varnishd) as bed:
            bed.start(kind)
            filled(report, bed, f"{kind}: at first")
            bed.die()
            checked(report, bed, f"{kind}: after a death", 0)
            for turn, wanted in (("after a death and a stop", 0), ("after another stop", 0 if "keep" in kind else len(PATHS))):
                bed.v.cli.ask("stop")
                bed.v.cli.ask("start")
                bed.ready()
                checked(report, bed, f"{kind}: {turn}", wanted)


def invalidated(report, o):
    """What was banned or purged isn't there after a restart, nor after a kill of everything."""
    for end in ("stop", "kill"):
        with Bed(o.varnishd) as bed:
            bed.start()
            filled(report, bed, f"{end}: at first")
            bed.v.cli.ask("ban obj.http.x-url ~ ^/1")
            report.check(bed.ask("/2", "PURGE").status == 200, f"{end}: a purge")
            for path in PATHS:
                if path.startswith("/1") or path == "/2":
                    bed.pages.versions[path] = 1
            getattr(bed, end)()
            bed.start()
            # /1, /10 to /19, and /2
            checked(report, bed, f"{end}: after a ban and a purge", 12)


def killed_again_and_again(report, o):
    """Everything is killed at a random moment, under load: never a wrong byte, never an object that was purged, and most stay."""
    rounds = 200 if o.full else 6
    draw = random.Random(o.seed)
    names = [f"/{n}" for n in range(200)] + [f"/long{n}" for n in range(10)]
    # What a client may see of a path at least: the version of the last purge that was answered.
    kept, least = 0, {}
    with Bed(o.varnishd) as bed:
        for n in range(rounds):
            bed.start("file,@,128m,keep,front=2m")
            stale, over = [], threading.Event()
            def clients(seed):
                mine = random.Random(seed)
                try:
                    with Client(bed.v.address, timeout=LIMIT, keep=True) as c:
                        while not over.is_set():
                            path = mine.choice(names)
                            (purge if mine.random() < 0.03 else look)(c, path)
                except (OSError, EOFError, Garbled, ValueError, AttributeError):
                    return  # everything was killed
            def purge(c, path):
                with bed.pages.lock:
                    version = bed.pages.versions[path] = bed.pages.versions.get(path, 0) + 1
                if c.request(path, method="PURGE").status == 200:
                    with bed.pages.lock:
                        least[path] = max(version, least.get(path, 0))
            def look(c, path):
                with bed.pages.lock:
                    version = least.get(path, 0)
                r = c.request(path)
                if not r.whole():
                    raise EOFError
                seen = int(r.get("X-Version"))
                if seen < version or r.body != body_of(f"{path} {seen}" if seen else path):
                    stale.append((path, version, seen, str(r)[:200]))
            threads = [threading.Thread(target=clients, args=(f"{o.seed} {n} {t}",), daemon=True) for t in range(4)]
            for t in threads:
                t.start()
            # The moment is what is drawn: nothing is waited for.
            time.sleep(draw.uniform(0.3, 1.5))
            hits = bed.counter("MAIN.cache_hit")
            bed.kill()
            over.set()
            for t in threads:
                t.join(LIMIT)
            report.check(not stale, f"round {n}: {stale[:3]}")
            if n:
                kept += hits
        report.note(f"{rounds} kills; {kept} hits in rounds after the first, {bed.pages.asked} fetches")


def refusals(report, o):
    """What is refused at the start, with which words, and what isn't touched."""
    def says(bed, storage, text, what):
        out = subprocess.run([o.varnishd, "-F", "-n", str(bed.dir / "n"), "-a", "127.0.0.1:0", "-b", "none", "-s", storage.replace("@", str(bed.file))],
                             capture_output=True, text=True, timeout=LIMIT)
        report.check(out.returncode == 2 and text in out.stderr, f"{what}: {out.returncode} {out.stderr[-300:]!r} without {text!r}")
    with Bed(o.varnishd) as bed:
        bed.file.write_bytes(b"precious" * 1000)
        says(bed, "file,@,256m", "holds something that isn't a store; nothing was changed", "a file of another program")
        report.check(bed.file.read_bytes() == b"precious" * 1000, "a file of another program isn't touched")
        bed.file.unlink()
        says(bed, "file,@,100000g", "bytes more, and its file system has", "more than there is")
        report.check(not bed.file.exists(), "what was made for nothing is gone again")
        bed.start()
        says(bed, "file,@,256m", f"is used by another process ({bed.v.proc.pid})", "a second server")
        out = subprocess.run([o.varnishd, "-C", "-b", "none", "-s", f"file,{bed.file},256m"], capture_output=True, text=True, timeout=LIMIT)
        report.check(out.returncode == 0, f"-C beside a server: {out.stderr[-300:]!r}")
        report.check("file" in bed.v.cli.ask("storage.list") and "index=" in bed.v.cli.ask("storage.list"), "storage.list says the index's bound")
        checked(report, bed, "beside it", len(PATHS))


def begins_empty(report, o):
    """A store that is kept and can't be used begins empty, with the reason; the server serves."""
    def flip(at):
        def change(file):
            with open(file, "r+b") as f:
                for base in (0, 4096):
                    f.seek(base + at)
                    f.write(b"\xa5\x5a")
        return change
    def remove_journal(file):
        for own in file.parent.glob("store.journal*"):
            own.unlink()
    cases = [
        ("another version", flip(8), "file,@,256m,keep", "it is a store of format"),
        ("a damaged superblock", flip(20), "file,@,256m,keep", "superblock is damaged"),
        ("a truncated file", lambda file: os.truncate(file, 16 << 20), "file,@,256m,keep", "it was truncated"),
        ("another size", lambda file: None, "file,@,200m,keep", "it was cut for"),
        ("no journal", remove_journal, "file,@,256m,keep", "begins empty"),
        ("what varnishd left", lambda file: file.write_bytes(b"\x17" * (256 << 20)), "file,@,256m,keep", "something that isn't a store"),
    ]
    with Bed(o.varnishd) as bed:
        bed.start()
        filled(report, bed, "at first")
        bed.stop()
        with bed.saved(bed.file, *bed.dir.glob("store.journal*")) as put_back:
            for what, change, storage, text in cases:
                put_back()
                change(bed.file)
                bed.start(storage)
                checked(report, bed, what, len(PATHS))
                report.check(until(LIMIT, lambda: text in "".join(bed.v.output)), f"{what}: nothing says {text!r}: {bed.v.log()[-1500:]}")
                bed.stop()
            put_back()
            bed.start()
            checked(report, bed, "as it was", 0)


def alive(report, bed, what):
    report.check("PONG" in bed.v.cli.ask("ping"), f"{what}: the CLI answers")


def damaged(report, o):
    """Flipped bits and a file that is cut off under the server are misses: no wrong byte, no crash, counted and told."""
    def flips(file):
        draw = random.Random(o.seed)
        with open(file, "r+b") as f:
            for at in range(8192, 24 << 20, 16384):
                f.seek(at + draw.randrange(16384))
                f.write(draw.randbytes(1))
            os.fsync(f.fileno())
    def cut(file):
        os.truncate(file, 1 << 20)
    for what, change, counted in (("flipped bits", flips, "checksum_errors"), ("cut off", cut, "read_errors")):
        with Bed(o.varnishd) as bed:
            bed.start("file,@,256m,keep,front=1m")
            paths = [f"/long{n}" for n in range(30)] + [f"/{n}" for n in range(100)]
            filled(report, bed, f"{what}: at first", paths)
            change(bed.file)
            worker = bed.v.worker()
            wrong, fetched = bed.walk(paths)
            # Each chunk has a wrong bit: that is seen before the response begins.
            report.check(not wrong or change is cut and all("truncated" in text for _, text in wrong), f"{what}: wrong: {wrong[:3]}")
            alive(report, bed, what)
            errors = until(LIMIT, lambda: bed.counter(f"DISK.s0.{counted}"))
            report.check(errors > 0, f"{what}: {errors} {counted}")
            # What was in memory at first may be found damaged later; what was found is fetched anew.
            again, walks = 0, 0
            while walks < 5:
                lost, fetched_again = bed.walk(paths)
                again, walks = again + fetched_again, walks + 1
                report.check(all("truncated" in text for _, text in lost), f"{what}: wrong when asked again: {lost[:3]}")
                if not lost:
                    break
            report.check(not lost, f"{what}: still wrong after {walks} walks: {lost[:3]}")
            report.check(bed.v.worker() == worker, f"{what}: the worker is the same")
            report.check(until(LIMIT, lambda: "its disk fails" in "".join(bed.v.output)), f"{what}: told: {bed.v.log()[-800:]}")
            report.note(f"{what}: of {len(paths)} objects {fetched + again} were fetched again, {len(wrong)} deliveries cut; {errors} {counted}")


def slow_or_full(report, o):
    """A file system that stands still, and a device that takes no more writes: answered from memory or the
    origin, the CLI alive; a block device is a store like a file."""
    if not has_loops():
        report.note("no root or no loop devices: nothing stood still, nothing was full")
        return
    with Bed(o.varnishd) as bed:
        loop = Loop(bed.dir / "image", 400 << 20)
        try:
            loop.mount(bed.dir / "m")
            bed.start(f"file,{bed.dir}/m/store,256m,keep,front=1m")
            filled(report, bed, "before it stands still")
            with loop.frozen():
                n, wrong, stalls = 0, [], lambda: bed.counter("DISK.s0.stalls")
                while n < 20 or (not stalls() and n < 1000):
                    wrong += bed.walk([f"/new{n}", f"/{n % 60}", f"/pass{n}", f"/longnew{n}"])[0]
                    n += 1
                report.check(not wrong, f"standing still: wrong: {wrong[:3]}")
                alive(report, bed, "standing still")
                report.check(stalls(), f"standing still: after {4 * n} requests nothing has stalled")
            checked(report, bed, "once it goes on", (0, len(PATHS)))
            report.note(f"standing still: {4 * n} requests")
            bed.stop()
        finally:
            bed.stop()
            loop.close()
    with Bed(o.varnishd) as bed:
        small = bed.dir / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "none", str(small)], check=True)
        loop = None
        try:
            loop = Loop(small / "image", 256 << 20)
            journal = bed.dir / "journal"
            storage = f"file,{loop.device},,keep,front=8m,journal={journal}"
            bed.start(f"file,{loop.device},keep,front=8m,journal={journal}")
            filled(report, bed, "a block device")
            bed.stop()
            bed.start(storage)
            checked(report, bed, "a block device after a restart", 0)
            for turn in range(3):
                wrong, _ = bed.walk([f"/long{turn} {n}".replace(" ", "-") for n in range(40)])
                report.check(not wrong, f"a full device: wrong: {wrong[:3]}")
            report.check(until(LIMIT, lambda: bed.counter("DISK.s0.write_errors") > 0), f"a full device: writes fail: {bed.v.log()[-500:]}")
            alive(report, bed, "a full device")
            wrong, fetched = bed.walk(PATHS)
            report.check(not wrong, f"a full device: wrong: {wrong[:3]}")
            report.note(f"a full device: {bed.counter('DISK.s0.write_errors')} writes failed, {fetched} of {len(PATHS)} objects from before were fetched again")
        finally:
            bed.stop()
            if loop:
                loop.close()
            # The device lets go of its file a moment later.
            until(60, lambda: subprocess.run(["umount", str(small)], stderr=subprocess.DEVNULL).returncode == 0)


def faults(report, o):
    """Each fault of a disk, with each operation: never a wrong byte, never the process; the table in README.md."""
    faulty.table(report, o, Bed, alive)


def main():
    o = options(__doc__, words=dict(default="", help="cases to run, by a part of their names"))
    report = Report("disk")
    for case in (kept_over_restarts, worker_dies, invalidated, killed_again_and_again, refusals, begins_empty, damaged, slow_or_full, faults):
        if o.words in case.__name__:
            report.run([case], report, o)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: BSD-2-Clause
"""Disks that fail, under the running server: each fault with reads, writes and syncs, while it serves and while a worker starts.
What clients may see and what may be lost is in `LINES`; README.md has the table of a run.

`faults.c` stands between server and disk. It needs a C compiler; without one the cases are left out, and said to be."""
import concurrent.futures
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import threading
import time

from bed.daemon import workdir
from bed.http import Client
from bed.preload import library
from bed.report import until
from bed.stores import LIMIT

OPERATIONS = {"read": 1, "write": 2, "sync": 4}
FAULTS = {"EIO": 1, "ENOSPC": 2, "stall": 3, "torn": 4, "flipped bit": 5}
SOURCE = pathlib.Path(__file__).resolve().with_name("faults.c")
STORAGE = "file,@,64m,keep,front=1m"
# What is there before: short objects, which are read at once, and long ones, whose bodies are read as they are sent.
KNOWN = [f"/{n}" for n in range(6)] + [f"/long{n}" for n in range(4)]
# What comes while the fault lasts.
NEW = [f"/new{n}" for n in range(6)] + [f"/longnew{n}" for n in range(4)]
PREPARED = threading.Lock()


class Shim:
    """The disk's faults, as the server's processes see them from their start on."""

    def __init__(self, lib):
        # Where the worker's user may come, too.
        self.dir = workdir()
        shutil.copy(lib, self.dir / "faults.so")
        self.control = self.dir / "control"
        self.control.write_bytes(bytes(32))
        os.chmod(self.control, 0o666)

    def set(self, file, operation=None, fault=None):
        """From now on that operation goes wrong, or none."""
        st = os.stat(file)
        with open(self.control, "r+b") as f:
            f.write(struct.pack("<IIQQQ", 0, 0, 0, st.st_ino, st.st_dev))
            f.seek(0)
            f.write(struct.pack("<II", OPERATIONS.get(operation, 0), FAULTS.get(fault, 0)))

    def met(self):
        return struct.unpack_from("<Q", self.control.read_bytes(), 8)[0]

    def start(self, bed):
        # The environment is the process's, whoever starts another one.
        with PREPARED:
            os.environ.update(LD_PRELOAD=str(self.dir / "faults.so"), FAULTS=str(self.control))
            try:
                # A busy machine may take its time: what is late would be fetched.
                bed.start_unready(STORAGE, ["-p", "disk_timeout=5"])
            finally:
                del os.environ["LD_PRELOAD"], os.environ["FAULTS"]

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)


class Walk:
    """Asks for each path once: what came of it."""

    def __init__(self, bed, paths, limit=LIMIT):
        self.wrong, self.cut, self.errors, self.slowest = [], 0, 0, 0.0
        before = bed.pages.asked
        for path in paths:
            begin = time.monotonic()
            with Client(bed.v.address, timeout=limit) as c:
                r = c.request(path)
            self.slowest = max(self.slowest, time.monotonic() - begin)
            if r.whole() and r.body == bed.body_of(path):
                continue
            if r.end == "timeout":
                self.wrong.append((path, f"no end of it within {limit} s"))
            elif r.status == 503:
                self.errors += 1
            elif bed.body_of(path).startswith(r.body or b""):
                self.cut += 1
            else:
                self.wrong.append((path, str(r)[:200]))
        self.fetched, self.asked = bed.pages.asked - before, len(paths)

    def text(self):
        """For clients: what they saw."""
        parts = [f"{self.cut} cut"] * bool(self.cut) + [f"{self.errors} errors"] * bool(self.errors) + [f"{len(self.wrong)} WRONG"] * bool(self.wrong)
        return ", ".join(parts) or "all whole"


def prepare(bed, report):
    """A store with the ten objects, whose files each row gets a copy of."""
    bed.start(STORAGE)
    # A few at a time: what a slow disk can't take at once isn't stored.
    for n in range(0, len(KNOWN), 2):
        walk = Walk(bed, KNOWN[n:n + 2])
        report.check(walk.fetched == 2 and walk.text() == "all whole", f"at first: {walk.text()}")
        report.check((there := bed.stored(n + 2)) == n + 2, f"at first: {there} of {n + 2} are on the disk")
    bed.stop()


def put(prepared, bed, shim):
    """The server has the ten objects on its disk and none in its memory."""
    for file in prepared.dir.glob("store*"):
        subprocess.run(["cp", "-p", "--sparse=always", str(file), str(bed.dir)], check=True)
    shim.set(bed.file)


def running(report, bed, shim, alive, operation, fault):
    """The fault comes while the server serves, and goes again."""
    what = f"{fault} on {operation}"
    shim.start(bed)
    bed.ready()
    worker = bed.v.worker()
    shim.set(bed.file, operation, fault)
    known, new = Walk(bed, KNOWN), Walk(bed, NEW)
    alive(report, bed, what)
    # A batch is written at the second tick after it; a segment is begun, with a sync, after the one before it.
    met = until(LIMIT, shim.met)
    shim.set(bed.file)
    after = Walk(bed, KNOWN), Walk(bed, NEW)
    report.check(bed.v.worker() == worker, f"{what}: the worker is the same")
    bed.stop()
    shim.start(bed)
    bed.ready()
    return met, known, new, *after, Walk(bed, KNOWN), Walk(bed, NEW)


def starting(report, bed, shim, alive, operation, fault):
    """The fault is there when a worker starts, and goes before the next one does."""
    what = f"{fault} on {operation} at the start"
    shim.start(bed)
    bed.ready()
    shim.set(bed.file, operation, fault)
    report.check(bed.v.worker_dies(LIMIT), f"{what}: the next worker runs")
    known, new = Walk(bed, KNOWN), Walk(bed, NEW)
    alive(report, bed, what)
    met = until(LIMIT, shim.met)
    shim.set(bed.file)
    bed.stop()
    shim.start(bed)
    bed.ready()
    return met, known, new, None, None, Walk(bed, KNOWN), Walk(bed, NEW)


def starting_all(report, bed, shim, alive, operation, fault):
    """The fault is there when the server starts."""
    what = f"{fault} on {operation} at the server's start"
    shim.set(bed.file, operation, fault)
    shim.start(bed)
    known, new = Walk(bed, KNOWN), Walk(bed, NEW)
    alive(report, bed, what)
    met = until(LIMIT, shim.met)
    shim.set(bed.file)
    bed.stop()
    shim.start(bed)
    bed.ready()
    return met, known, new, None, None, Walk(bed, KNOWN), Walk(bed, NEW)


PHASES = {"running": running, "worker starts": starting, "server starts": starting_all}
NONE, ANY, ALL, SOME = (0, 0), (0, 10), (10, 10), (1, 10)
# A store that couldn't be opened is given up once the journal's keeper has looked (each second or so): it begins empty, and says so.
EMPTY_OR_NONE = "empty or none"


class Line:
    """What may come of a fault: deliveries that are cut at most; objects from before that are fetched while it lasts, once it is
    over, and after a restart."""

    def __init__(self, operations, faults, phases, cut, during, after, restarted):
        self.operations, self.faults, self.phases = operations.split(), faults.split(","), phases.split(",")
        self.cut, self.during, self.after, self.restarted = cut, during, after, restarted

    def rows(self):
        return [(operation, fault, phase, self) for phase in self.phases for operation in self.operations for fault in self.faults]


LINES = [
    # A body that is longer than its share of the memory is read back while it comes: where that fails it is cut.
    Line("read", "EIO,ENOSPC,torn", "running", 8, ALL, ANY, ANY),
    Line("read", "stall", "running", 8, ALL, ANY, ANY),
    Line("read", "flipped bit", "running", 8, SOME, ANY, ANY),
    # A disk that says what isn't so may lose a footer with removals: then nobody knows what of the older segments still counts.
    Line("write", "torn,flipped bit", "running", 4, NONE, NONE, ANY),
    Line("write sync", "EIO,ENOSPC,stall", "running", 0, NONE, NONE, NONE),
    Line("read", "EIO,ENOSPC,torn,stall", "worker starts", 0, ALL, NONE, EMPTY_OR_NONE),
    Line("read", "flipped bit", "worker starts", 8, ANY, NONE, ANY),
    Line("write", "torn,flipped bit", "worker starts", 4, ANY, NONE, ANY),
    Line("write sync", "EIO,ENOSPC,stall", "worker starts", 0, ANY, NONE, EMPTY_OR_NONE),
    Line("read", "EIO,torn", "server starts", 0, ALL, NONE, EMPTY_OR_NONE),
    Line("write", "EIO,ENOSPC", "server starts", 0, ANY, NONE, EMPTY_OR_NONE),
]


def one(report, o, bed_of, alive, prepared, lib, operation, fault, phase, line):
    """A row: what was seen, compared with what may be."""
    what, shim = f"{fault} on {operation}, {phase}", Shim(lib)
    try:
        with bed_of(o.varnishd) as bed:
            put(prepared, bed, shim)
            met, *walks = PHASES[phase](report, bed, shim, alive, operation, fault)
            told = bed.v.log()
    finally:
        shim.close()
    known, new, after, new_after, restarted, new_restarted = walks
    report.check(met, f"{what}: nothing met the fault")
    within = lambda walk, bounds: walk is None or bounds[0] <= walk.fetched <= bounds[1]
    for walk in filter(None, walks):
        report.check(not walk.wrong and not walk.errors, f"{what}: {walk.text()}: {walk.wrong[:2]}")
    report.check(known.cut + new.cut <= line.cut, f"{what}: {known.text()}; {new.text()}")
    report.check(within(known, line.during), f"{what}: while it lasts {known.fetched} are fetched again")
    report.check(within(after, line.after), f"{what}: once it is over {after and after.fetched} are fetched again")
    empty = line.restarted is EMPTY_OR_NONE and "it begins empty: its journal knows nothing of what was there" in told
    as_wanted = within(restarted, ALL) if empty else within(restarted, NONE if line.restarted is EMPTY_OR_NONE else line.restarted)
    report.check(as_wanted, f"{what}: after a restart {restarted.fetched} are fetched again: {told}")
    slowest = max(known.slowest, new.slowest)
    lost = lambda walk: "-" if walk is None else walk.fetched
    seen = known.text() if known.text() == new.text() else f"{known.text()}; new ones {new.text()}"
    cells = (operation, fault, phase, seen, f"{slowest:.1f} s", lost(known), lost(after), lost(restarted), lost(new_after), lost(new_restarted))
    return "| " + " | ".join(map(str, cells)) + " |"


def table(report, o, bed_of, alive):
    """All rows; shown with --full."""
    with tempfile.TemporaryDirectory(prefix="lacquer-faults.") as directory:
        lib = library(SOURCE, pathlib.Path(directory) / "faults.so")
        if lib is None:
            return report.note("no C compiler: no disk failed")
        rows = [row for line in LINES for row in line.rows()]
        # They mostly wait.
        with bed_of(o.varnishd) as prepared, concurrent.futures.ThreadPoolExecutor(4) as pool:
            prepare(prepared, report)
            done = list(pool.map(lambda row: one(report, o, bed_of, alive, prepared, lib, *row), rows))
        for text in done if o.full else ():
            print(text, flush=True)
        report.note(f"{len(rows)} faults of a disk")

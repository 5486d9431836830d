# SPDX-License-Identifier: BSD-2-Clause
"""Files and workdirs that nobody should have written: no tool crashes, hangs or eats the memory over them.

The real ones come from a server with all kinds of traffic; each round changes them somewhere and asks every tool.
"""
import concurrent.futures
import pathlib
import random
import resource
import shutil
import signal
import struct
import subprocess

from bed.daemon import cpu
from bed.report import until

LIMIT = 120  # seconds; only ends a hang
MEMORY = 600 << 20

FILES = [("varnishlog", ["-g", "session"]), ("varnishlog", ["-g", "request", "-q", "RespStatus >= 0 or ReqURL ~ a"]), ("varnishlog", ["-g", "raw", "-v"]),
         ("varnishlog", ["--json"]), ("varnishlog", ["--legacy"]), ("varnishlog", ["-w", "-", "-g", "vxid"]),
         ("varnishncsa", []), ("varnishncsa", ["-b", "-c", "-E", "-j", "-F", "%{VSL:Timestamp[3]}x %{X}i %{X}o %{Varnish:hitmiss}x %T %D %I %t"]),
         ("varnishlog-json", ["-b", "-c", "-E"]), ("varnishlog-json", ["-g", "request", "-p"]), ("varnishlog-json", ["-g", "probe"]),
         ("varnishtop", ["-1"]), ("varnishtop", ["-1", "--by", "url"]), ("varnishtop", ["-1", "--by", "client"])]
WORKDIRS = [("varnishstat", ["-1"]), ("varnishstat", ["-j"]), ("varnishstat", ["-x"]), ("varnishstat", ["--xml3"]), ("varnishlog", ["-d", "-g", "session"]),
            ("varnishncsa", ["-d"]), ("varnishtop", ["-1"]), ("varnishadm", ["-t", "0.2", "ping"])]


# Tools that SIGTERM ends as it ends any program.
BY_SIGNAL = ("varnishstat", "varnishadm")


def catches(pid, number):
    """Whether a process has a handler for a signal, or holds it back to read it; False for one that is gone."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    masks = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigCgt:", "SigBlk:"))]
    return any(mask >> (number - 1) & 1 for mask in masks)


def change(r, octets):
    octets = bytearray(octets)
    for _ in range(r.choice([1, 1, 2, 5, 40])):
        at = r.randrange(max(1, len(octets)))
        what = r.randrange(8)
        if what == 0:
            octets[at:at + 1] = bytes([r.randrange(256)])
        elif what == 1:
            at &= ~3
            octets[at:at + 4] = struct.pack("=I", r.choice([0, 1, 0xffffffff, 0xfffffffe, 0x7fffffff, r.getrandbits(32), 0x0400ffff]))
        elif what == 2:
            del octets[at:at + r.choice([1, 4, 8, 100, 5000])]
        elif what == 3:
            octets[at:at] = octets[max(0, at - r.choice([8, 64, 3000])):at]
        elif what == 4:
            octets[at:at] = r.randbytes(r.choice([1, 4, 64]))
        elif what == 5:
            octets[at:at + 8] = struct.pack("=Q", r.choice([0, 1 << 63, (1 << 64) - 1, 1 << 40, r.getrandbits(64)]))
        elif what == 6 and r.random() < 0.2:
            del octets[at:]
        else:
            octets[at:at + 3] = r.choice([b"\n+ ", b"-1 ", b"../", b"9" * 25, b'":{', b"\\u0", b"\xff\xfe"])
    return bytes(octets)


def record(tag, vxid, text):
    data = text + b"\0"
    return struct.pack("=II", tag << 24 | len(data), vxid | 1 << 30) + data + bytes(-len(data) % 4)


def deep(depth, begin, link, end):
    """Transactions each within the one before, `depth` levels; and a wheel of ones that contain each other."""
    out = [b"VSL\0", record(begin, 2, b"sess 0 HTTP/1")]
    for n in range(2, depth):
        out += [record(link, n, b"req %d rxreq" % (n + 1)), record(begin, n + 1, b"req %d rxreq" % n)]
    out += [record(end, n, b"") for n in range(depth, 1, -1)]
    wheel = [b"VSL\0"] + [record(t, n, b"req %d esi" % (n % 50 + 2)) for n in range(2, 52) for t in (begin, link, link, end)]
    return b"".join(out), b"".join(wheel)


def run(report, ours, vsl, workdir, tags, rounds=40, depth=8_000, seed=1):
    report.note(f"hostile files of seed {seed}")
    r = random.Random(seed)
    whole = pathlib.Path(vsl).read_bytes()
    folder = pathlib.Path(vsl).parent / "hostile"
    folder.mkdir(exist_ok=True)
    jobs = []

    def ask(tool, args, what):
        """Files are read to their end. In a workdir a tool may wait for a log that makes sense: then it waits, and ends when told."""
        argv = [str(ours / tool), *args]
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as p:
            told = False
            try:
                err = p.communicate(timeout=LIMIT if args[0] == "-r" else 1)[1]
            except subprocess.TimeoutExpired:
                if args[0] == "-r":
                    p.kill()
                    return (False, f"{what}: {tool} {args}: no end")
                told, spent = True, cpu([p.pid])
                # A machine that is busy may not have let it begin: what ends by itself when told has to be ready to be told.
                until(LIMIT, lambda: tool in BY_SIGNAL or catches(p.pid, signal.SIGTERM) or p.poll() is not None)
                p.terminate()
                try:
                    err = p.communicate(timeout=LIMIT)[1]
                except subprocess.TimeoutExpired:
                    p.kill()
                    return (False, f"{what}: {tool} {args}: doesn't end when it is told to")
                if spent > 0.7:
                    return (False, f"{what}: {tool} {args}: spins for {spent} s")
            # It may have ended by itself just before it was told to.
            fine = 0 <= p.returncode <= 2 or told and tool in BY_SIGNAL and p.returncode == -signal.SIGTERM
            return (fine, f"{what}: {tool} {args}: status {p.returncode} {err[-300:]}")
    for n in range(rounds):
        path = folder / f"{n}.vsl"
        path.write_bytes(change(r, whole[:200_000]))
        jobs += [(tool, ["-r", str(path), *args], f"seed {seed} file {n}") for tool, args in r.sample(FILES, 4)]
    for n, octets in enumerate(deep(depth, *tags)):
        path = folder / f"deep{n}.vsl"
        path.write_bytes(octets)
        jobs += [("varnishlog", ["-r", str(path), "-g", g, "-L", str(limit)], f"deep {n}") for g in ("session", "request", "vxid") for limit in (1000, 200_000)]
    for n in range(rounds // 2):
        home = folder / f"n{n}"
        for name in ("_.vsm_mgt", "_.vsm_child"):
            # What of the log is zeros stays a hole.
            (home / name).mkdir(parents=True)
            for path in (workdir / name).iterdir():
                octets = path.read_bytes()
                used = octets.rstrip(b"\0")
                with open(home / name / path.name, "wb") as f:
                    f.write(change(r, used) if r.random() < 0.4 else used)
                    f.truncate(max(len(octets), f.tell()))
        jobs += [(tool, ["-n", str(home), *args], f"seed {seed} workdir {n}") for tool, args in r.sample(WORKDIRS, 4)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for ok, text in pool.map(lambda job: ask(*job), jobs):
            report.check(ok, text)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    report.check(most < MEMORY, f"no tool takes more than {MEMORY >> 20} MB: {most >> 20}")
    shutil.rmtree(folder)

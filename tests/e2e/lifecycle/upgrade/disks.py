# SPDX-License-Identifier: BSD-2-Clause
"""Upgrades of a server whose store is in a file: the two workers have one disk, of which one writes at a time. Nothing stored is
lost, nothing that was purged is served again, whoever dies meanwhile, and no byte is wrong."""
import itertools
import os
import random
import subprocess
import threading
import time

from bed.daemon import Varnishd, directory, tree
from bed.http import Client, get
from bed.loop import Loop, has_loops
from bed.origin import Origin
from bed.report import until
from world import FETCHED, LARGE, LIMIT, VERSIONS, body_of, cli_pids, ready, serve, vcl_for


def start(program, origin, storage, args=()):
    # On a busy machine a disk may be slow: what it has isn't to be fetched again for that.
    return Varnishd(program, ["-p", "feature=+no_coredump", "-p", "disk_timeout=10", *args], vcl=vcl_for(origin), storage=storage)


def counters(v, program):
    stat = os.path.join(os.path.dirname(program), "varnishstat")
    out = subprocess.run([stat, "-1", "-n", str(v.n)], capture_output=True, text=True, timeout=LIMIT).stdout
    return {w[0]: int(w[1]) for w in (line.split() for line in out.splitlines()) if len(w) > 1}


def readable(v, program):
    """All that is on the disk can be found, and the disk may be written."""
    return until(LIMIT, lambda: counters(v, program).get("DISK.s0.ready") == 1)


def wrong(v, paths):
    """Those of the paths whose answer isn't as the origin would give it."""
    return [(p, str(r), r.body[:10]) for p, r in ((p, get(v.address, p, timeout=LIMIT)) for p in paths) if not r.whole() or r.body != body_of(p)]


def on_disk(v, program, count):
    """Whether the disk comes to have so many objects."""
    return until(LIMIT, lambda: counters(v, program).get("DISK.s0.objects", 0) >= count)


def stored(report, v, program, what, paths, before=0):
    """Fetches the paths, a few at a time: what a slow disk can't take at once isn't stored. `before`: objects that it has already."""
    for at in range(0, len(paths), 10):
        some = paths[at:at + 10]
        report.check(not (bad := wrong(v, some)), f"{what}: wrong: {bad[:3]}")
        count = before + at + len(some)
        report.check(on_disk(v, program, count), f"{what}: the disk has {counters(v, program).get('DISK.s0.objects')} of {count}")


def kept_in_a_file(report, program):
    with directory() as place:
        kept(report, program, f"file,{place}/store,96m,keep,front=16m")


def kept(report, program, storage):
    """What was stored before, between and after upgrades is there after each of them, after the worker's death and after a start."""
    paths = [f"/kept{n}" for n in range(100)] + ["/large-a", "/large-b"]
    with Origin(serve) as origin:
        with start(program, origin, storage) as v:
            report.check(readable(v, program), "the disk is ready")
            ready(report, v)
            stored(report, v, program, "stored before", paths)
            FETCHED.clear()
            for n in range(3):
                client = Client(v.address, LIMIT)
                report.check(client.request(paths[0]).whole(), "a connection to the old worker")
                status, text = v.cli.ask_raw("upgrade")
                report.check(status == 200, f"round {n}: {status} {text}\n{v.log()}")
                report.check(not wrong(v, paths), f"round {n}: right")
                report.check(readable(v, program), f"round {n}: the new worker may write")
                # Each is told something by which the other one's copies end, and those on the disk.
                for path, told in ((f"/change-old{n}", client), (f"/change-new{n}", None)):
                    report.check(get(v.address, path).whole(), "cached")
                    VERSIONS[path] += 1
                    done = told.request(path, method="PURGE") if told else get(v.address, path, method="PURGE")
                    report.check(done.whole() and not wrong(v, [path]), f"round {n}: {path} is purged: {done}")
                    paths.append(path)
                client.close()
                more = [f"/more{n}-{i}" for i in range(20)]
                stored(report, v, program, f"round {n}: stored afterwards", more, len(paths))
                paths += more
            again = {p: c for p, c in FETCHED.items() if p in paths and c > (not p.startswith(("/kept", "/large"))) + p.startswith("/change")}
            report.check(not again, f"nothing is fetched again: {again}\n{v.log()}")
            FETCHED.clear()
            os.kill(cli_pids(v.cli)[1], 9)
            report.check(until(LIMIT, lambda: get(v.address, "/pass").whole()) and readable(v, program), "a worker after the worker's death")
            report.check(not wrong(v, paths), "all are right then")
            lost = [p for p in paths if FETCHED[p]]
            report.check(not lost, f"and there: {lost}\n{v.log()}")
        FETCHED.clear()
        with start(program, origin, storage) as v:
            report.check(readable(v, program), "the disk is ready after a start")
            ready(report, v)
            report.check(not wrong(v, paths), "all are right after a start")
            lost = [p for p in paths if FETCHED[p]]
            report.check(not lost, f"and there: {lost}\n{v.log()}")


def kept_on_a_device(report, program):
    """The same on a block device."""
    if not has_loops():
        return report.note("no root or no loop devices: nothing is tried on one")
    with directory() as place:
        loop = Loop(place / "image", 128 << 20)
        try:
            kept(report, program, f"file,{loop.device},keep,front=16m,journal={place}/journal")
        finally:
            loop.close()
    return None


def small(report, program):
    """A disk that is full: deliveries of the old worker go on from it to their end, and then the new one makes room."""
    with directory() as place, Origin(serve) as origin, start(program, origin, f"file,{place}/store,64m,front=8m,checks=heads") as v:
        report.check(readable(v, program), "the disk is ready")
        ready(report, v)
        names = [f"/large{i}" for i in range(4)]
        report.check(not wrong(v, names + [f"/large-before{i}" for i in range(14)] + names), "more is stored than there is room for")
        slow = [Client(v.address, LIMIT, rcvbuf=8192) for _ in names]
        for path, client in zip(names, slow):
            client.send(b"GET %s HTTP/1.1\r\nHost: bed.test\r\n\r\n" % path.encode())
            client._more()
        report.check(v.cli.ask_raw("upgrade")[0] == 200, "upgraded")
        report.check(not wrong(v, [f"/large-after{i}" for i in range(6)]), "the new one serves")
        for client in slow:
            r = client.response()
            report.check(r.whole() and r.body == LARGE, f"a delivery of before goes on to its end: {r} {len(r.body)}")
            client.close()
        before = counters(v, program)["DISK.s0.segments_reclaimed"]

        more = (f"/large-later{n}" for n in itertools.count())
        made = until(LIMIT, lambda: not wrong(v, [next(more)]) and counters(v, program)["DISK.s0.segments_reclaimed"] > before + 8, 0.3)
        report.check(made, "it makes room when the old one reads no more")


def chaos(report, program, rounds):
    """The new worker is killed at any moment of an upgrade: it succeeds, or the old one goes on, or both are gone and a third begins."""
    draw, seen = random.Random(5), {}
    with directory() as place, Origin(serve) as origin, start(program, origin, f"file,{place}/store,96m,keep,front=16m") as v:
        report.check(readable(v, program), "the disk is ready")
        ready(report, v)
        paths = [f"/kept{n}" for n in range(60)] + ["/large-a"]
        stored(report, v, program, "stored", paths)
        FETCHED.clear()
        for n in range(rounds):
            before, over = set(tree(v.proc.pid)), threading.Event()

            def kill(delay):
                newest = lambda: [p for p in tree(v.proc.pid) if p not in before and b"LACQUER_WORKER" in environ(p)]
                # One that is refused at once starts none.
                if until(LIMIT, lambda: newest() or over.is_set(), 0.002):
                    # The moment is what is drawn.
                    time.sleep(delay)
                    for p in newest():
                        os.kill(p, 9)
            killer = threading.Thread(target=kill, args=(draw.random() * 0.25,), daemon=True)
            killer.start()
            status, text = v.cli.ask_raw("upgrade")
            over.set()
            killer.join(LIMIT)
            how = "upgraded" if status == 200 else text.decode().split(": ", 1)[-1].split(":")[0].strip()
            seen[how] = seen.get(how, 0) + 1
            report.check(until(LIMIT, lambda: "running" in v.cli.ask("status") and get(v.address, "/pass").whole()), f"{how}: it serves\n{v.log()}")
            path = f"/change-{n}"
            report.check(get(v.address, path).whole(), "cached")
            VERSIONS[path] += 1
            done = get(v.address, path, method="PURGE")
            report.check(done.whole() and not wrong(v, [path]), f"{how}: purged: {done}\n{v.log()}")
            paths.append(path)
            report.check(readable(v, program) and not wrong(v, paths), f"{how}: all are right")
            if b"handed its stores over before" in text:
                os.kill(cli_pids(v.cli)[1], 9)
                until(LIMIT, lambda: get(v.address, "/pass").whole())
        again = {p: c for p, c in FETCHED.items() if c and p.startswith(("/kept", "/large"))}
        report.check(not again, f"nothing stored is lost: {again}\n{v.log()}")
        report.note(f"a new worker killed at any moment: {seen}")


def environ(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as f:
            return f.read()
    except OSError:
        return b""


def no_jail(report, program):
    """Without a jail nobody changes users: all is as with one."""
    with directory() as place, Origin(serve) as origin, start(program, origin, f"file,{place}/store,64m", ["-j", "none"]) as v:
        report.check(readable(v, program), "the disk is ready")
        ready(report, v)
        paths = [f"/kept{n}" for n in range(20)]
        stored(report, v, program, "stored", paths)
        FETCHED.clear()
        for _ in range(2):
            status, text = v.cli.ask_raw("upgrade")
            report.check(status == 200, f"-j none: {status} {text}")
            report.check(readable(v, program) and not wrong(v, paths) and not any(FETCHED[p] for p in paths), f"what was stored is there: {FETCHED}")

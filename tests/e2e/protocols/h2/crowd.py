# SPDX-License-Identifier: BSD-2-Clause
"""Many connections that do nothing, or next to nothing: what each takes of memory, how long it may stay, and how honest clients fare meanwhile."""
import contextlib
import time

from bed import h2, hpack
from bed.daemon import pss
from bed.h2 import DATA, HEADERS, PREFACE, frame, headers, settings
from honest import Honest

COUNT, COUNT_FULL = 100, 400
IDLE = 2                             # seconds that a connection may say nothing, and a window be shut
OPTIONS = {"args": ["-p", f"timeout_idle={IDLE}", "-p", f"idle_send_timeout={IDLE}"]}
AFTERWARDS = 60                      # seconds more until it must be closed
DRIPPING = 1.0                       # seconds that one that isn't closed is watched for longer than it may say nothing
MOST_BYTES, MOST_P99_MS = 1 << 16, 250.0
OPENED = PREFACE + settings()
SHUT = PREFACE + settings({h2.INITIAL_WINDOW_SIZE: 0})


def request(path, method="GET", ends=True):
    return headers(1, hpack.block(h2.request(path, method)), ends)


# What each sends; then what it sends again and again, every 0.2 s; and whether it has to be closed.
CROWDS = {
    "half a preface": (PREFACE[:10], b"", True),
    "nothing behind the preface": (OPENED, b"", True),
    "half a frame": (OPENED + request("/hit/1000")[:-5], b"", True),
    "half a head": (OPENED + frame(HEADERS, 0, 1, hpack.block(h2.request("/hit/1000"))), b"", True),
    "an answered request": (OPENED + request("/hit/1000"), b"", True),
    "a head that drips": (OPENED + frame(HEADERS, 0, 1, hpack.block(h2.request("/hit/1000"))), frame(h2.CONTINUATION, 0, 1, b"\x20"), False),
    "an upload that drips": (OPENED + request("/count", "POST", False), frame(DATA, 0, 1, b"x"), False),
    "a window that is shut": (SHUT + request("/hit/1000000"), b"", True),
    "a window that is shut, and a ping": (SHUT + request("/hit/1000000"), frame(h2.PING, payload=bytes(8)), True),
}


def play(bed, name, count):
    first, again, closes = CROWDS[name]
    honest = Honest(bed.server.address)
    try:
        with h2.Connection(bed.connect()) as c:
            c.get("/hit/1000000")
        before, peak = pss(bed.server.pids()), 0
        with contextlib.ExitStack() as stack:
            crowd = []
            for _ in range(count):
                c = stack.enter_context(h2.Connection(bed.connect(), acks=False, credits=False, keep=False, opens=False))
                c.expect(1)
                c.send(first)
                crowd.append(c)
            begin = time.monotonic()
            while time.monotonic() < begin + IDLE + (AFTERWARDS if closes else DRIPPING) and any(not c.closed for c in crowd):
                for c in crowd:
                    c.wait(lambda: True, 0)
                    if again and not c.closed:
                        c.send(again, 0.1)
                peak = max(peak, pss(bed.server.pids()))
                crowd[0].wait(lambda: False, 0.2)
                if crowd[0].closed:
                    crowd[-1].wait(lambda: False, 0.2)
            took, stays = time.monotonic() - begin, sum(not c.closed for c in crowd)
    finally:
        asked, failed, p99 = honest.end()
    each = (peak - before) / count
    bed.report.note(f"| {count} of: {name} | {stays} stay after {took:.1f} s | {each / 1024:.1f} KB each | {asked} - {len(failed)}, {p99:.1f} ms |")
    bed.report.check(not closes or not stays, f"{name}: {stays} of {count} stay for {took:.1f} s")
    bed.report.check(each < MOST_BYTES, f"{name}: {each / 1024:.1f} KB each")
    bed.report.check(not failed and (p99 < MOST_P99_MS or not bed.o.clocks), f"{name}: honest requests: {asked} asked, {failed[:3]}, p99 {p99:.0f} ms")


def run(bed, words, verbose):
    for name in CROWDS:
        if words and not any(word in name for word in words):
            continue
        with bed.again(**OPTIONS) as own:
            play(own, name, COUNT_FULL if own.is_full else COUNT)
            own.report.check(own.serves() and own.is_same(), f"{name}: nothing is served afterwards, or by another process")

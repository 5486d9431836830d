# SPDX-License-Identifier: BSD-2-Clause
"""One stream that stands still among a hundred: the others' times don't change. And what a hundred that stand still take of memory."""
import contextlib
import statistics
import time

from bed import h2, hpack
from bed.daemon import pss
from bed.report import until
from sources import octets

OTHERS, ROUNDS, SIZE = 99, 8, 4000
BIG = 4 << 20
MOST_FACTOR, MOST_MORE_MS = 1.5, 10.0  # of the p99 without it: a machine with other work to do differs from itself by as much
STREAMS, CONNECTIONS = 100, 10
LEAST_BYTES, MOST_BYTES = 300 << 10, 1000 << 10  # of such a connection: some 640 KB


def at_once(c):
    """The 99 others ask at once; the p99 of their times, in ms, infinite if one has no end."""
    asked = [c.ask(h2.request(f"/hit/{SIZE}")) for _ in range(OTHERS)]
    if not c.wait(lambda: all(c.streams[at].end for at in asked)):
        return float("inf")
    times = sorted((c.streams[at].ended - c.streams[at].begun) * 1000 for at in asked)
    if any(c.streams[at].length != SIZE for at in asked):
        return float("inf")
    return times[OTHERS * 99 // 100]


def uploading(c):
    """Uploads of 10,000 octets, one after the other: the mean of their times, in ms."""
    begin, body = time.monotonic(), octets(10_000)
    for _ in range(OTHERS // 3):
        at = c.stream()
        c.send(h2.headers(at, hpack.block(h2.request("/count", "POST")), False))
        if c.upload(at, body) < len(body) or not c.wait(lambda: c.streams[at].end):
            return float("inf")
    return (time.monotonic() - begin) * 1000 / (OTHERS // 3)


def a_reader_that_stops(bed, c):
    at = c.ask(h2.request(f"/hit/{BIG}"))
    c.wait(lambda: c.streams[at].granted == 0)
    return at


def an_upload_that_nobody_takes(bed, c, limit=1.0):
    at = c.stream()
    c.send(h2.headers(at, hpack.block(h2.request("/slow/1000", "POST")), False))
    c.upload(at, bytes(BIG), True, limit)
    return at


def uploads_that_nobody_takes(bed, c):
    """So many that they have much of what the connection may hold unread."""
    for _ in range(3):
        an_upload_that_nobody_takes(bed, c, 0.1)
    return an_upload_that_nobody_takes(bed, c, 0.1)


def an_answer_that_never_comes(bed, c):
    at = c.ask(h2.request("/hang"))
    until(h2.LIMIT, bed.source.pending)
    return at


def beside(bed, stands, others):
    """The medians of the p99 without and with a stream that stands still; rounds alternate on two connections."""
    with h2.Connection(bed.connect(), keep=False) as alone, h2.Connection(bed.connect(), credits="connection", keep=False) as c:
        times = {False: [], True: []}
        for one in (alone, c):
            others(one)
        slow = stands(bed, c)
        for _ in range(ROUNDS):
            times[False].append(others(alone))
            times[True].append(others(c))
        stood = not c.streams[slow].end
        faults = c.faults
        c.send(h2.reset(slow))
    bed.source.go_on.set()
    bed.source.go_on.clear()
    return statistics.median(times[False]), statistics.median(times[True]), stood, faults


def held_up(bed, name, stands, others):
    before, p99, stood, faults = beside(bed, stands, others)
    bed.report.note(f"{name}: the others' p99 {before:.1f} -> {p99:.1f} ms")
    bed.report.check(stood and not faults, f"{name}: it doesn't stand still, {faults[:3]}")
    bed.report.check(p99 < float("inf"), f"{name}: the others are held up until the end")
    return not bed.o.clocks or bed.report.check(p99 <= before * MOST_FACTOR + MOST_MORE_MS, f"{name}: the others' p99 goes from {before:.1f} to {p99:.1f} ms")


def waiting(bed):
    """A connection with a hundred streams that wait for a window, each with a megabyte to come from the cache; how many answers have begun."""
    c = h2.Connection(bed.connect(), {h2.INITIAL_WINDOW_SIZE: 100}, credits=False, keep=False)
    asked = [c.ask(h2.request(f"/hit/{1 << 20}")) for _ in range(STREAMS)]
    c.wait(lambda: all(c.streams[at].granted == 0 for at in asked))
    return c, sum(c.streams[at].status == 200 and c.streams[at].granted == 0 for at in asked)


def memory(bed):
    """What each of many such connections takes of a fresh server, which has had one of them before: what a server takes once isn't theirs."""
    with bed.again(**OURS) as own, contextlib.ExitStack() as stack:
        with h2.Connection(own.connect(), keep=False) as c:
            c.get(f"/hit/{1 << 20}")

        def begin():
            c, begun = waiting(own)
            stack.enter_context(c)
            return begun
        begun, before = begin(), pss(own.server.pids())
        begun += sum(begin() for _ in range(CONNECTIONS))
        each = (pss(own.server.pids()) - before) / CONNECTIONS
    bed.report.note(f"memory of a connection with {STREAMS} streams that wait, of {CONNECTIONS}: {each / 1024:.0f} KB")
    bed.report.check(begun == STREAMS * (CONNECTIONS + 1), f"{begun} streams of {CONNECTIONS + 1} connections wait")
    bed.report.check(LEAST_BYTES <= each <= MOST_BYTES, f"a connection with {STREAMS} streams that wait takes {each / 1024:.0f} KB")


# What stands still is to stand still all the time.
OURS = {"args": ["-p", "h2_window_timeout=0"]}
CASES = {"a reader that stops": (a_reader_that_stops, at_once), "an upload that nobody takes": (an_upload_that_nobody_takes, uploading),
         "four uploads that nobody takes": (uploads_that_nobody_takes, uploading),
         "an answer that never comes": (an_answer_that_never_comes, at_once)}


def run(bed, words, verbose):
    for name, (stands, others) in CASES.items():
        if not words or any(word in name for word in words):
            held_up(bed, name, stands, others)
    if not words or any(word in "memory" for word in words):
        memory(bed)

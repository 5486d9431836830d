#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Readers beside crawlers: an origin that makes 50 responses a second, 10 % of the requests from readers, 90 % from crawlers that rotate through 100,000
addresses. How long readers wait, how many of their requests are hits, who gets the origin's time; and the same of the same readers without crawlers, before
a second server at the same time, so that a busy machine slows down both.

The crawlers begin when the readers have been there for a while. Their first seconds, in which verdicts form, are judged apart from the rest, by wider bounds.

--full: for a minute instead of 20 s, and the same before Debian's varnishd, nginx and haproxy with their usual limits. --server NAME: only this one.
--crowd: other crawlers than the plain ones.
"""
import asyncio
import collections
import dataclasses
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import peers
from bed import crowds
from bed.crowds import Crowd
from bed.report import Report, options
from bed.visitors import Met, Origin, Visitors

HISTORY = 20.0  # times as fast as they came, the readers of earlier minutes are sent first, without a queue before the origin: a site knows its popular pages
EARLIER = 400  # seconds of such readers
WARM_UP = 30  # seconds of readers alone, in which the cache fills
LEARNING = int(EARLIER / HISTORY + WARM_UP / 2)  # bots_learning, scaled like the history

# The goals: readers' p99 as a multiple of that without crawlers, their hit rate beside that without crawlers, their share of the origin's time, and those of
# their requests that are refused or fail. A goal that is missed is told; the bounds behind it have to hold: of the time that is judged, and of the onset.
GOALS = {"p99": (1.2, 2, 3), "hits": (-0.01, -0.02, -0.02), "share": (0.95, 0.9, 0.85), "failed": (0.0, 0.01, 0.01)}


def history(seed):
    asks = Crowd(seed, EARLIER).readers().sorted()
    return [dataclasses.replace(ask, at=ask.at / HISTORY) for ask in asks]


class Windows:
    """What visitors met, by kind of visitor, in the onset and in the time that is judged."""

    def __init__(self, origin, judged_from):
        self.origin, self.judged_from, self.spent = origin, judged_from, {}
        self.met = {name: collections.defaultdict(Met) for name in ("onset", "judged")}

    def of(self, at):
        return self.met["onset" if at < self.judged_from else "judged"] if at >= WARM_UP else None

    def begin(self, name):
        self.spent[name] = dict(self.origin.spent)

    def figures(self, name, end=None):
        met, end, start = self.met[name], end or self.origin.spent, self.spent[name]
        readers, others = met["reader"], [found for who, found in met.items() if who != "reader"]
        spent = {who: seconds - start.get(who, 0) for who, seconds in end.items()}
        return {
            "readers": len(readers.times), "p50": readers.quantile(0.5), "p99": readers.quantile(0.99), "hit_rate": readers.hit_rate,
            "failed": readers.refused, "statuses": dict(readers.statuses),
            "origin_share": spent.get("reader", 0) / max(1e-9, sum(spent.values())), "origin_seconds": sum(spent.values()),
            "others": sum(len(found.times) for found in others), "others_statuses": dict(sum((found.statuses for found in others), collections.Counter())),
        }


BOT_COUNTERS = ("bot_crawl", "bot_crawl_stale", "bot_crawl_waited", "bot_crawl_refused", "bot_crawl_time", "bot_reader_time")


def bot_counters(server):
    """What Lacquer itself has counted, if it is Lacquer with --bots."""
    return {name: server.counter(f"MAIN.{name}") for name in BOT_COUNTERS} if "--bots=on" in server.proc.args else {}


async def measured(start, seed, onset, seconds, crowd):
    """Figures of a fresh server by window, and how late the bed was."""
    loop = asyncio.get_running_loop()
    origin = Origin()
    address = await origin.start()
    server = await loop.run_in_executor(None, start, address)
    try:
        visitors, windows, origin.has_queue = Visitors(server.address), Windows(origin, WARM_UP + onset), False
        await visitors.send(history(seed + 1000), lambda _at: None)
        origin.has_queue, whole = True, onset + seconds
        asks = Crowd(seed, WARM_UP + whole).readers().asks
        if crowd:
            asks = asks + crowds.CRAWLERS[crowd](Crowd(seed, whole, WARM_UP)).asks
        loop.call_later(WARM_UP, windows.begin, "onset")
        loop.call_later(WARM_UP + onset, windows.begin, "judged")
        lag = await visitors.send(sorted(asks, key=lambda ask: ask.at), windows.of)
        counted = await loop.run_in_executor(None, bot_counters, server)
        return {"onset": windows.figures("onset", windows.spent["judged"]), "judged": windows.figures("judged"), "lag": lag, "counters": counted}
    finally:
        await loop.run_in_executor(None, server.close)
        await origin.close()


async def both(start, seed, onset, seconds, crowd):
    return await asyncio.gather(measured(start, seed, onset, seconds, None), measured(start, seed, onset, seconds, crowd))


def milliseconds(seconds):
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def tell(report, name, when, window, f, lag):
    report.note(f"{name:<16} {when:<10} {window:<7} {f['readers']} of readers: p50 {milliseconds(f['p50'])}, p99 {milliseconds(f['p99'])}, hits {f['hit_rate']:.3f}, "
                f"not served {f['failed']} {f['statuses']}; origin {f['origin_seconds']:.1f} s, readers' share {f['origin_share']:.3f}; "
                f"{f['others']} of crawlers {f['others_statuses']}; bed late by {milliseconds(lag)} at most")


def row(name, quiet, crowded):
    """A row of the table in docs/bots.md."""
    return (f"| {name} | {milliseconds(quiet['p50'])}, {milliseconds(quiet['p99'])} | {milliseconds(crowded['p50'])}, {milliseconds(crowded['p99'])} "
            f"| {quiet['hit_rate']:.1%}, {crowded['hit_rate']:.1%} | {crowded['failed'] / max(1, crowded['readers']):.1%} | {crowded['origin_share']:.1%} |")


def judge(report, name, quiet, crowded, is_onset):
    found = {
        "p99": (crowded["p99"] / quiet["p99"], f"readers' p99 is {milliseconds(crowded['p99'])} beside {milliseconds(quiet['p99'])} without crawlers"),
        "hits": (crowded["hit_rate"] - quiet["hit_rate"], f"readers' hits are {crowded['hit_rate']:.3f} beside {quiet['hit_rate']:.3f}"),
        "share": (crowded["origin_share"], f"readers have {crowded['origin_share']:.3f} of the origin's time"),
        "failed": (crowded["failed"] / crowded["readers"], f"readers' statuses are {crowded['statuses']}"),
    }
    for what, (value, text) in found.items():
        goal, *bounds = GOALS[what]
        holds = (lambda limit: value <= limit) if what in ("p99", "failed") else (lambda limit: value >= limit)
        report.check(holds(bounds[is_onset]), f"{name}: {text}")
        report.note(f"{name}: {text}" + ("" if holds(goal) else f": the goal of {goal} is missed"))


def main():
    o = options(__doc__, server={"help": "only this server"}, crowd={"choices": list(crowds.CRAWLERS), "default": "crawlers"},
                onset={"type": int, "default": 30, "help": "seconds of crawlers that are judged apart: verdicts form, and the origin's queue empties"})
    report = Report("crawlers")
    seconds = int(os.environ.get("SECONDS_OF_LOAD") or (60 if o.full else 20))
    rows = []
    for name, start in peers.servers(o.varnishd, o.full or o.server, LEARNING).items():
        if o.server in (None, name):
            quiet, crowded = asyncio.run(both(start, o.seed, o.onset, seconds, o.crowd))
            for when, figures in (("alone", quiet), (o.crowd, crowded)):
                for window in ("onset", "judged"):
                    tell(report, name, when, window, figures[window], figures["lag"])
            report.note(f"{name}: {crowded['counters']}")
            rows += [row(name, quiet["judged"], crowded["judged"]), row(f"{name}, the first {o.onset} s", quiet["onset"], crowded["onset"])]
            report.check(quiet["judged"]["failed"] == 0, f"{name} serves readers that are alone: {quiet['judged']['statuses']}")
            report.check(crowded["judged"]["others"] > 0, f"{name} has had crawlers")
            if name == peers.JUDGED and o.crowd == "crawlers":
                judge(report, name, quiet["judged"], crowded["judged"], False)
                judge(report, f"{name}, the first {o.onset} s", quiet["onset"], crowded["onset"], True)
    for line in ("server | p50, p99 of readers alone | p50, p99 beside crawlers | hits alone, beside | not served | origin's time for readers |", *rows):
        report.note(line)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

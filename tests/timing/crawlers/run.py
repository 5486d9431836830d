#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Readers beside crawlers: an origin that makes 50 responses a second, 10 % of the requests from readers, 90 % from crawlers that rotate through 100,000
addresses. How long readers wait, how many of their requests are hits, who gets the origin's time, and the same without crawlers.

--full: for a minute instead of 15 s, and the same before Debian's varnishd, nginx and haproxy with their usual limits. --server NAME: only this one.
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
from bed.visitors import COST, Met, Origin, Visitors

HISTORY = 20.0  # times as fast as they came, the readers of earlier minutes are sent first, without cost for the origin: a site knows its popular pages
WARM_UP = 30  # seconds of readers alone, in which the cache fills
SETTLE = 10  # seconds of crawlers that aren't counted, in which verdicts form


def history(seed, seconds):
    asks = Crowd(seed, seconds).readers().sorted()
    return [dataclasses.replace(ask, at=ask.at / HISTORY) for ask in asks]


async def measured(start, seed, seconds, crowd):
    """Figures of a fresh server. The same readers come with and without a crowd of crawlers beside them."""
    loop = asyncio.get_running_loop()
    origin, begin = Origin(), WARM_UP + SETTLE
    address = await origin.start()
    server = await loop.run_in_executor(None, start, address)
    try:
        visitors, origin.cost = Visitors(server.address), 0.0
        await visitors.send(history(seed + 1000, HISTORY * seconds), collections.defaultdict(Met))
        origin.cost = COST
        asks = Crowd(seed, begin + seconds).readers().asks
        if crowd:
            asks = asks + crowds.CRAWLERS[crowd](Crowd(seed, SETTLE + seconds, WARM_UP)).asks
        met, before = collections.defaultdict(Met), {}
        loop.call_later(begin, lambda: before.update(origin.spent))
        lag = await visitors.send(sorted(asks, key=lambda ask: ask.at), met, begin)
        return figures(met, {who: spent - before.get(who, 0) for who, spent in origin.spent.items()}, lag)
    finally:
        await loop.run_in_executor(None, server.close)
        await origin.close()


def figures(met, spent, lag):
    readers, others = met["reader"], [found for who, found in met.items() if who != "reader"]
    return {
        "readers": len(readers.times), "p50": readers.quantile(0.5), "p99": readers.quantile(0.99), "hit_rate": readers.hit_rate,
        "refused": readers.refused, "statuses": dict(readers.statuses), "origin_share": spent["reader"] / sum(spent.values()),
        "origin_seconds": sum(spent.values()), "others": sum(len(found.times) for found in others),
        "others_statuses": dict(sum((found.statuses for found in others), collections.Counter())), "lag": lag,
    }


def tell(report, name, when, f):
    report.note(f"{name:<16} {when:<10} {f['readers']} of readers: p50 {f['p50'] * 1e3:.0f} ms, p99 {f['p99'] * 1e3:.0f} ms, hits {f['hit_rate']:.3f}, "
                f"not served {f['refused']} {f['statuses']}; origin {f['origin_seconds']:.1f} s, readers' share {f['origin_share']:.3f}; "
                f"{f['others']} of crawlers {f['others_statuses']}; loop late by {f['lag'] * 1e3:.0f} ms at most")


def main():
    o = options(__doc__, server={"help": "only this server"}, crowd={"choices": list(crowds.CRAWLERS), "default": "crawlers"})
    report = Report("crawlers")
    seconds = int(os.environ.get("SECONDS_OF_LOAD") or (60 if o.full else 15))
    servers = peers.servers(o.varnishd, o.full or o.server)
    for name, start in servers.items():
        if o.server in (None, name):
            quiet = asyncio.run(measured(start, o.seed, seconds, None))
            tell(report, name, "alone", quiet)
            report.check(quiet["refused"] == 0, f"{name} serves readers that are alone: {quiet['statuses']}")
            crowded = asyncio.run(measured(start, o.seed, seconds, o.crowd))
            tell(report, name, o.crowd, crowded)
            report.check(crowded["others"] > 0, f"{name} has had crawlers")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

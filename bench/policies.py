#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Hit ratios of eviction policies, simulated: bytes limited, half of the trace to warm up, what a store adds per object counted.
A hit ratio is given by requests, by bytes, and by the seconds that the origin takes.

usage: bench/policies.py [--requests N] [--capacity MEGABYTES]
"""
import argparse
import collections
import functools
import heapq

import traces

HEAD, PAGE = 320, 4096  # stored head; larger objects take whole pages


def stored(n):
    size = traces.size_of(n) + HEAD
    return size if size < 2 * PAGE else -(-size // PAGE) * PAGE


def lru(cap, cost):
    kept, used = collections.OrderedDict(), 0

    def ask(k):
        nonlocal used
        if k in kept:
            kept.move_to_end(k)
            return True
        kept[k] = cost(k)
        used += kept[k]
        while used > cap:
            used -= kept.popitem(False)[1]
        return False
    return ask


def s3fifo(cap, cost, small=0.1, most=3):
    """New ones wait in a small queue for a second request; the main queue gives rounds for uses."""
    queues = [collections.OrderedDict(), collections.OrderedDict()]
    ghosts, uses, used = collections.OrderedDict(), {}, [0, 0]

    def put(k, size, queue):
        queues[queue][k] = size
        used[queue] += size

    def evict():
        queue = 0 if queues[0] and (used[0] >= small * sum(used) or not queues[1]) else 1
        k, size = queues[queue].popitem(False)
        used[queue] -= size
        if uses[k]:
            uses[k] = 0 if queue == 0 else uses[k] - 1
            put(k, size, 1)
            return
        del uses[k]
        if queue == 0:
            ghosts[k] = True
            if len(ghosts) > len(queues[0]) + len(queues[1]):
                ghosts.popitem(False)

    def ask(k):
        if k in uses:
            uses[k] = min(most, uses[k] + 1)
            return True
        put(k, cost(k), 1 if ghosts.pop(k, False) else 0)
        uses[k] = 0
        while sum(used) > cap:
            evict()
        return False
    return ask


def sieve(cap, cost):
    """A hand goes from the oldest to the newest one, and takes the first that wasn't used since it came by."""
    kept, used, order, hand = {}, 0, [], 0

    def ask(k):
        nonlocal used, order, hand
        if k in kept:
            kept[k][1] = True
            return True
        kept[k] = [cost(k), False]
        used += kept[k][0]
        order.append(k)
        while used > cap:
            if hand >= len(order):
                order, hand = [old for old in order if old is not None], 0
            old, hand = order[hand], hand + 1
            if old is None or old == k:
                continue
            if kept[old][1]:
                kept[old][1] = False
                continue
            used -= kept.pop(old)[0]
            order[hand - 1] = None
        return False
    return ask


def gdsf(cap, cost, memory=0, power=1.0, lazy=True, value=lambda k: 1e4, newcomer=1):
    """The one with the least clock + uses x value / size goes, and the clock goes on to that. lazy: uses count only when its
    turn would have come. memory: so many times the objects kept are remembered, with their uses, when they go; -1: all.
    newcomer: what the first use counts as, until there is another."""
    rank, uses, sizes, heap, ghosts = {}, {}, {}, [], collections.OrderedDict()
    clock = used = 0

    def push(k):
        rank[k] = clock + (newcomer if uses[k] == 1 else uses[k]) * value(k) / sizes[k] ** power
        heapq.heappush(heap, (rank[k], k))
        seen[k] = uses[k]
    seen = {}

    def ask(k):
        nonlocal clock, used
        if k in sizes:
            uses[k] += 1
            if not lazy:
                push(k)
            return True
        sizes[k] = cost(k)
        used += sizes[k]
        uses[k] = ghosts.pop(k, 0) + 1
        push(k)
        while used > cap:
            at, old = heapq.heappop(heap)
            if rank.get(old) != at:
                continue
            if uses[old] > seen[old]:
                clock = max(clock, at)
                push(old)
                continue
            clock = at
            if memory:
                ghosts[old] = uses[old]
                if 0 < memory * len(sizes) < len(ghosts):
                    ghosts.popitem(False)
            used -= sizes.pop(old)
            del rank[old], uses[old], seen[old]
        return False
    return ask


POLICIES = {
    "lru": lru,
    "s3-fifo": s3fifo,
    "s3-fifo, small 5 %": functools.partial(s3fifo, small=0.05),
    "sieve": sieve,
    "gdsf, uses forgotten": functools.partial(gdsf, lazy=False),
    "gdsf lazy": gdsf,
    "gdsf lazy, memory 1": functools.partial(gdsf, memory=1),
    "the same, evict_by=bytes": functools.partial(gdsf, memory=1, power=0.5, newcomer=0.25),
    "the same, evict_by=cost": functools.partial(gdsf, memory=1, value=lambda k: 1e5 * traces.seconds_of(k)),
    "gdsf lazy, memory 2": functools.partial(gdsf, memory=2),
    "gdsf lazy, memory 1, power 0.75": functools.partial(gdsf, memory=1, power=0.75),
    "gdsf lazy, memory 1, power 0.5": functools.partial(gdsf, memory=1, power=0.5),
    "gdsf, all remembered": functools.partial(gdsf, memory=-1, lazy=False),
}


def ratios(policy, ids, cap):
    """Shares of the requests, bytes and origin seconds of the second half that hits save."""
    ask, half = policy(cap, stored), len(ids) // 2
    saved, asked = [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
    for n, k in enumerate(ids):
        hit = ask(k)
        if n >= half:
            for of, much in enumerate((1, traces.size_of(k), traces.seconds_of(k))):
                saved[of] += hit * much
                asked[of] += much
    return [mine / all_of_it for mine, all_of_it in zip(saved, asked)]


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--requests", type=int, default=240_000)
    a.add_argument("--capacity", type=int, default=155)
    o = a.parse_args()
    kinds = {"zipf": traces.zipf(400_000)[:o.requests], "with scans": list(traces.scanned(o.requests)),
             "drifting": list(traces.drifting(o.requests))}
    print("| policy | " + " | ".join(f"{kind}: requests, bytes, seconds" for kind in kinds) + " |\n|" + " --- |" * (len(kinds) + 1))
    for name, policy in POLICIES.items():
        cells = [", ".join(f"{share:.3f}" for share in ratios(policy, ids, o.capacity << 20)) for ids in kinds.values()]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()

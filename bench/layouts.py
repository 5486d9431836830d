#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""How a store's bytes are laid out, simulated: hit ratio, bytes moved and dead space of size classes and of a log of segments.

All evict by least use for their bytes (policies.py, "gdsf lazy, memory 1") where single objects can go. Objects below two pages
lie in slots of a size class, cut from slabs; larger ones have whole pages. A log is written front to back in segments; to free
one, live objects that were used since they were written are carried over (S3-FIFO by segment), or as many of the best as
a limit allows.

usage: bench/layouts.py [--requests N] [--capacity MEGABYTES]
"""
import argparse
import collections
import heapq

import traces

PAGE, PAGED = 4096, 2 * 4096
RECORD = 112  # what a record's header takes
HEAD = 320  # a stored head


class Ranks:
    """Which object has the least use for its bytes."""

    def __init__(self):
        self.rank, self.uses, self.seen, self.sizes, self.heap = {}, {}, {}, {}, []
        self.ghosts, self.clock = collections.OrderedDict(), 0

    def push(self, k):
        self.rank[k] = self.clock + self.uses[k] * 1e4 / self.sizes[k]
        heapq.heappush(self.heap, (self.rank[k], k))
        self.seen[k] = self.uses[k]

    def add(self, k, size):
        self.sizes[k] = size
        self.uses[k] = self.ghosts.pop(k, 0) + 1
        self.push(k)

    def victim(self):
        while True:
            at, k = heapq.heappop(self.heap)
            if self.rank.get(k) != at:
                continue
            self.clock = max(self.clock, at)
            if self.uses[k] > self.seen[k]:
                self.push(k)
                continue
            return k

    def victims(self, most):
        """The least ones, least first; all stay in."""
        out = []
        while self.rank and len(out) < min(most, len(self.rank)):
            k = self.victim()
            out.append(k)
        for k in out:
            heapq.heappush(self.heap, (self.rank[k], k))
        return out

    def drop(self, k):
        self.ghosts[k] = self.uses[k]
        if len(self.ghosts) > len(self.sizes):
            self.ghosts.popitem(False)
        del self.rank[k], self.uses[k], self.seen[k], self.sizes[k]


class Exact:
    """No layout at all: each object takes its bytes. The bound."""

    def __init__(self, cap):
        self.cap, self.used, self.held, self.ranks, self.moved = cap, 0, {}, Ranks(), 0

    def ask(self, k, size):
        if k in self.held:
            self.ranks.uses[k] += 1
            return True
        self.held[k] = size
        self.used += size
        self.ranks.add(k, size)
        while self.used > self.cap:
            old = self.ranks.victim()
            self.used -= self.held.pop(old)
            self.ranks.drop(old)
        return False

    def dead(self):
        return 1 - sum(self.held.values()) / self.cap


def classes(step):
    sizes, size = [], 64
    while size < PAGED:
        sizes.append(size)
        size = max(size + 64, int(size * step) // 64 * 64)
    return sizes + [PAGED]


class Slabs:
    """Slots of size classes in slabs. `moves`: the emptiest slab is emptied into others of its class when pages run out.
    `choice`: of so many least objects the first goes whose room fits."""

    def __init__(self, cap, step=1.12, slab=16, moves=False, choice=1):
        self.pages, self.free, self.slab, self.moves, self.choice = cap // PAGE, cap // PAGE, slab, moves, choice
        self.classes, self.ranks, self.moved = classes(step), Ranks(), 0
        self.where, self.slabs, self.partial, self.next = {}, {}, collections.defaultdict(set), 0

    def room(self, c):
        return self.slab * PAGE // self.classes[c]

    def place(self, k, size):
        if size >= PAGED:
            need = -(-size // PAGE)
            if self.free < need:
                return False
            self.free -= need
            self.where[k] = (None, need, size)
            return True
        c = next(i for i, s in enumerate(self.classes) if s >= size)
        if self.partial[c]:
            n = next(iter(self.partial[c]))
        elif self.free >= self.slab:
            self.free -= self.slab
            n, self.next = self.next, self.next + 1
            self.slabs[n] = (c, set())
            self.partial[c].add(n)
        else:
            return False
        held = self.slabs[n][1]
        held.add(k)
        if len(held) == self.room(c):
            self.partial[c].discard(n)
        self.where[k] = (n, 0, size)
        return True

    def lift(self, k):
        n, pages, size = self.where.pop(k)
        if n is None:
            self.free += pages
            return size
        c, held = self.slabs[n]
        held.discard(k)
        self.partial[c].add(n)
        if not held:
            del self.slabs[n]
            self.partial[c].discard(n)
            self.free += self.slab
        return size

    def tidy(self):
        """Empties one slab into its class's others, where those have as many free slots; whether it could."""
        best = None
        for c, ns in self.partial.items():
            if len(ns) > 1:
                n = min(ns, key=lambda n: len(self.slabs[n][1]))
                spare = sum(self.room(c) - len(self.slabs[m][1]) for m in ns if m != n)
                share = len(self.slabs[n][1]) / self.room(c)
                if spare >= len(self.slabs[n][1]) and (best is None or share < best[0]):
                    best = (share, n, c)
        if best is None:
            return False
        _, n, c = best
        self.partial[c].discard(n)
        for k in list(self.slabs[n][1]):
            size = self.lift(k)
            self.partial[c].discard(n)
            self.place(k, size)
            self.moved += size
        return True

    def ask(self, k, size):
        if k in self.where:
            self.ranks.uses[k] += 1
            return True
        tries = 0
        while not self.place(k, size):
            tries += 1
            if self.moves and tries % 8 == 0 and self.tidy():
                continue
            least = self.ranks.victims(self.choice)
            old = next((o for o in least if self.fits(o, size)), least[0])
            self.lift(old)
            self.ranks.drop(old)
        self.ranks.add(k, size)
        return False

    def fits(self, old, size):
        """Whether the room of this one is what an object of that size needs."""
        n, pages, _ = self.where[old]
        if size >= PAGED:
            return n is None and pages + self.free >= -(-size // PAGE)
        if n is None:
            return pages + self.free >= self.slab
        c = self.slabs[n][0]
        return self.classes[c] >= size and (c == 0 or self.classes[c - 1] < size)

    def dead(self):
        return 1 - sum(size for _, _, size in self.where.values()) / (self.pages * PAGE)


class Log:
    """Segments written front to back. The oldest is freed; of its live objects those used since are carried over, the most
    used for their bytes first, `carry` of a segment at most."""

    def __init__(self, cap, carry=0.5):
        self.size = min(max(cap // 256, 64 << 10), 16 << 20)
        self.count, self.carry = cap // self.size, carry
        self.segments, self.where, self.uses, self.moved = collections.deque(), {}, {}, 0
        self.ghosts = collections.OrderedDict()
        self.open()

    def open(self):
        self.segments.append([0, []])

    def append(self, k, size):
        if self.segments[-1][0] + size > self.size:
            self.open()
        at = self.segments[-1]
        at[0] += size
        at[1].append(k)
        self.where[k] = (at, size)

    def reclaim(self):
        old = self.segments.popleft()
        live = [k for k in old[1] if self.where.get(k, (None,))[0] is old]
        live.sort(key=lambda k: -self.uses[k] / self.where[k][1])
        carried = 0
        for k in live:
            size = self.where.pop(k)[1]
            if self.uses[k] and carried + size <= self.carry * self.size:
                carried += size
                self.moved += size
                self.uses[k] = self.uses[k] // 2
                self.append(k, size)
            else:
                self.ghosts[k] = self.uses.pop(k)
                if len(self.ghosts) > len(self.where):
                    self.ghosts.popitem(False)

    def ask(self, k, size):
        if k in self.where:
            self.uses[k] = min(63, self.uses[k] + 1)
            return True
        self.uses[k] = self.ghosts.pop(k, -1) + 1
        self.append(k, size)
        while len(self.segments) > self.count:
            self.reclaim()
        return False

    def dead(self):
        return 1 - sum(size for _, size in self.where.values()) / (self.count * self.size)


LAYOUTS = {
    "exact bytes": Exact,
    "size classes, steps of 25 %": lambda cap: Slabs(cap, 1.25, moves=False),
    "size classes, steps of 12 %": Slabs,
    "size classes, slabs emptied": lambda cap: Slabs(cap, moves=True),
    "size classes, slabs of 4 pages": lambda cap: Slabs(cap, slab=4),
    "size classes, 4 pages, slabs emptied": lambda cap: Slabs(cap, slab=4, moves=True),
    "size classes, 4 pages, choice of 32": lambda cap: Slabs(cap, slab=4, choice=32),
    "log, 25 % carried at most": lambda cap: Log(cap, 0.25),
    "log, 50 % carried at most": Log,
    "log, 75 % carried at most": lambda cap: Log(cap, 0.75),
    }


def run(make, requests, cap):
    layout, hits, hit_bytes, all_bytes, stored = make(cap), 0, 0, 0, 0
    for n, (k, body) in enumerate(requests):
        size = body + HEAD + RECORD
        hit = layout.ask(k, size)
        stored += 0 if hit else size
        if n >= len(requests) // 2:
            hits += hit
            hit_bytes += hit * body
            all_bytes += body
    return hits / (len(requests) - len(requests) // 2), hit_bytes / all_bytes, layout.moved / stored, layout.dead()


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--requests", type=int, default=240_000)
    a.add_argument("--capacity", type=int, default=155)
    o = a.parse_args()
    sized = lambda ids: [(k, traces.size_of(k)) for k in ids]
    zipf = traces.zipf(o.requests)
    half = len(zipf) // 2
    kinds = {"zipf": sized(zipf), "with scans": sized(traces.scanned(o.requests)), "drifting": sized(traces.drifting(o.requests)),
             # From small objects to others five times as large.
             "growing": [(k, traces.size_of(k) // 4 + 200) for k in zipf[:half]] +
                        [(k + traces.OBJECTS, traces.size_of(k) * 5 // 4) for k in zipf[half:]]}
    print("| layout | " + " | ".join(f"{kind}: requests, bytes, moved, dead" for kind in kinds) + " |\n|" + " --- |" * (len(kinds) + 1))
    for name, make in LAYOUTS.items():
        cells = [run(make, requests, o.capacity << 20) for requests in kinds.values()]
        print(f"| {name} | " + " | ".join("%.3f, %.3f, %.2f, %.2f" % cell for cell in cells) + " |", flush=True)


if __name__ == "__main__":
    main()

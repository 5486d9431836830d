# SPDX-License-Identifier: BSD-2-Clause
"""Sequences of object numbers as clients ask for them."""
import bisect
import itertools
import random

OBJECTS = 200_000
SKEW = 0.9


def part_of(n):
    """A number from 0 to 1, the same for the same n."""
    x = n * 0x9E3779B97F4A7C15 & (1 << 64) - 1
    x ^= x >> 29
    x = x * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
    x ^= x >> 32
    return (x & 0xFFFFFF) / 0x1000000


def size_of(n):
    """The size that the origin gives object n of /z/: log-uniform between 512 bytes and 32 KB."""
    return int(512 * 2 ** (part_of(n) * 6))


def seconds_of(n):
    """The time that an origin takes for object n, whatever its size and popularity: log-uniform between 2 ms and 2 s."""
    return 0.002 * 1000 ** part_of(n ^ 1 << 40)


def zipf(count, objects=OBJECTS, skew=SKEW, seed=42):
    """The n-th most popular object is asked for n ** -skew as often as the first; rank and number have nothing in common."""
    r = random.Random(seed)
    sums = list(itertools.accumulate(k ** -skew for k in range(1, objects + 1)))
    order = list(range(objects))
    r.shuffle(order)
    return [order[bisect.bisect_left(sums, r.random() * sums[-1])] for _ in range(count)]


def scanned(count, share=0.2, seed=43, objects=OBJECTS):
    """Zipf, and now and then somebody walks through objects that nobody asks for again."""
    r, fresh, out = random.Random(seed), itertools.count(OBJECTS), iter(zipf(count, objects))
    while count > 0:
        run = min(count, r.randrange(200, 2000))
        for _ in range(run):
            yield next(fresh) if r.random() < share * 2 and run % 2 else next(out)
        count -= run


def drifting(count, seed=44):
    """Zipf, and every 20,000 requests a tenth of the objects changes its popularity."""
    r = random.Random(seed)
    sums = list(itertools.accumulate(k ** -SKEW for k in range(1, OBJECTS + 1)))
    order = list(range(OBJECTS))
    r.shuffle(order)
    for n in range(count):
        if n % 20_000 == 19_999:
            for _ in range(OBJECTS // 20):
                a, b = bisect.bisect_left(sums, r.random() * sums[-1]), r.randrange(OBJECTS)
                order[a], order[b] = order[b], order[a]
        yield order[bisect.bisect_left(sums, r.random() * sums[-1])]

# SPDX-License-Identifier: BSD-2-Clause
"""Judges when an origin was asked, against the rate of a ban that spreads."""
import bisect


def most_in_a_second(times):
    return max((bisect.bisect_left(times, at + 1) - n for n, at in enumerate(times)), default=0)


def too_early(times, rate):
    """The first fetch that came before as many could have become stale. Readers may be late; objects may not be early, whatever a busy machine does."""
    return next(((n, at) for n, at in enumerate(times, 1) if n > rate * (at + 1) + 1), None)

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What share of requests goes to the origin when N nodes cache for themselves, and when what one misses is asked of the node that owns it, by
calculation: zipf-distributed objects of one size, least recently used goes first (Che's approximation: an object is there if it was asked for within
the time in which so many others are asked for as fit in).

usage: tiers.py [--objects N] [--zipf A] [--room SHARE...] [--nodes N...]     SHARE: of all objects, what one node has room for

One line for each: hit in the node itself, hit in the owner, at the origin; at the origin without owners; requests between nodes for each one of a client.
"""
import argparse
from math import exp


def popularity(objects, zipf):
    weights = [(n + 1) ** -zipf for n in range(objects)]
    total = sum(weights)
    return [w / total for w in weights]


def horizon(shares, room, stored):
    """The time for which `stored(time)` objects are as many as there is room for, in requests of one node."""
    least, most = 0.0, 1.0
    while stored(most) < room and most < 1e12:
        most *= 2
    for _ in range(40):
        middle = (least + most) / 2
        least, most = (middle, most) if stored(middle) < room else (least, middle)
    return most


def alone(shares, room):
    """The share that goes to the origin if each node caches for itself."""
    time = horizon(shares, room, lambda t: sum(1 - exp(-p * t) for p in shares))
    return sum(p * exp(-p * time) for p in shares)


def owned(shares, room, nodes):
    """(hit in the node, hit in the owner, at the origin, asked of an owner). The owner of an object is asked by all who miss it."""
    def rates(p, time):
        missed = exp(-p * time)
        return missed, exp(-p * (1 + (nodes - 1) * missed) * time)

    def stored(time):
        total = 0.0
        for p in shares:
            missed, missed_by_owner = rates(p, time)
            total += (1 - missed_by_owner) / nodes + (1 - missed) * (1 - 1 / nodes)
        return total

    time, own, peer, origin, between = horizon(shares, room, stored), 0.0, 0.0, 0.0, 0.0
    for p in shares:
        missed, missed_by_owner = rates(p, time)
        is_owner = 1 / nodes
        own += p * (is_owner * (1 - missed_by_owner) + (1 - is_owner) * (1 - missed))
        peer += p * (1 - is_owner) * missed * (1 - missed_by_owner)
        origin += p * missed_by_owner * (is_owner + (1 - is_owner) * missed)
        between += p * (1 - is_owner) * missed
    return own, peer, origin, between


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--objects", type=int, default=20_000)
    p.add_argument("--zipf", type=float, default=0.9)
    p.add_argument("--room", type=float, nargs="+", default=[0.01, 0.1])
    p.add_argument("--nodes", type=int, nargs="+", default=[10, 100, 1000])
    o = p.parse_args()
    shares = popularity(o.objects, o.zipf)
    print("  room  nodes  node %  owner %  origin %  without owners %  between nodes")
    for room in o.room:
        without = alone(shares, room * o.objects)
        for nodes in o.nodes:
            own, peer, origin, between = owned(shares, room * o.objects, nodes)
            print(f"{room:>6} {nodes:>6} {own * 100:>7.1f} {peer * 100:>8.1f} {origin * 100:>9.2f} {without * 100:>17.1f} {between:>14.2f}")


if __name__ == "__main__":
    main()

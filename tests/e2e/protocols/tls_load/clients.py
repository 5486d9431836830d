#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Honest clients in a process of their own: usage: clients.py HOST PORT CLIENTS RATE; ends when its input does, and prints JSON.

Each asks on the connection that it keeps, on a new one, and on a new one with the session it had before, in turn. At a RATE (of all
together; 0: as fast as they can) latency counts from when a request was due.
"""
import collections
import json
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.sealed import SealedClient, client_context

KINDS = ("kept", "full", "resumed")
LIMIT = 60  # seconds; it only ends what hangs
STEP = 50   # requests after which a line says so


class Clients:
    def __init__(self, address, count, rate):
        self.address, self.count, self.rate = address, count, rate
        self.lock, self.ended = threading.Lock(), threading.Event()
        self.took, self.failed, self.resumed, self.told_to_end = {kind: [] for kind in KINDS}, [], 0, 0
        self.shown, self.ended_requests = collections.Counter(), 0

    def run(self):
        threads = [threading.Thread(target=self._one, args=(n,), daemon=True) for n in range(self.count)]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        self.ended.set()
        for thread in threads:
            thread.join(LIMIT * 2)

    def _one(self, n):
        contexts = [client_context(versions=(version, version)) for version in ("1.2", "1.3")]
        context = contexts[n % 2]
        kept, session, turn = None, None, n
        begin, every = time.monotonic() + n / max(self.rate, 1), self.count / self.rate if self.rate else 0
        while not self.ended.is_set():
            due = time.monotonic()
            if every:
                begin += every
                if self.ended.wait(max(0, begin - due)):
                    break
                due = begin
            kind, turn = KINDS[turn % 3], turn + 1
            try:
                if kind == "kept":
                    kept = kept or SealedClient(self.address, context, "bed.test", LIMIT)
                    r = kept.request("/page")
                else:
                    with SealedClient(self.address, context, "bed.test", LIMIT, session if kind == "resumed" else None) as c:
                        r = c.request("/page")
                        with self.lock:
                            self.resumed += bool(c.sock.session_reused)
                            self.shown[c.sock.getpeercert(True)[-16:].hex()] += 1
                        session = c.sock.session
                ended = "" if r.whole() else f"{kind}: {r} {r.reason}"
                if kind == "kept" and r.get("Connection") == "close":
                    with self.lock:
                        self.told_to_end += 1
                    kept = kept.close()
            except OSError as e:
                ended = f"{kind}: {e}"
            if ended and kind == "kept":
                kept = None
            with self.lock:
                if ended:
                    self.failed.append(ended)
                else:
                    self.took[kind].append(time.monotonic() - due)
                self.ended_requests += 1
                if self.ended_requests % STEP == 1:
                    print("step", flush=True)

    def told(self):
        return {"asked": sum(map(len, self.took.values())) + len(self.failed), "failed": len(self.failed), "why": self.failed[:3],
                "resumed": self.resumed, "told_to_end": self.told_to_end, "shown": self.shown, "p50_ms": {k: quantile(t, 0.5) for k, t in self.took.items()},
                "p99_ms": {k: quantile(t, 0.99) for k, t in self.took.items()}, "all_p99_ms": quantile(sum(self.took.values(), []), 0.99)}


def quantile(times, q):
    return round(sorted(times)[min(len(times) - 1, int(q * len(times)))] * 1e3, 2) if times else None


if __name__ == "__main__":
    clients = Clients((sys.argv[1], int(sys.argv[2])), int(sys.argv[3]), float(sys.argv[4]))
    clients.run()
    print(json.dumps(clients.told()))

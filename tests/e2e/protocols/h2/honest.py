# SPDX-License-Identifier: BSD-2-Clause
"""An honest client in a process of its own, so that the attacker's work isn't in its times: requests on one connection after another, 15 on each.

usage: honest.py HOST PORT PATH h2|h3. It runs until its input ends, and has asked 30 times; then it writes a line of JSON: how many it asked, which
failed, the times in ms.
"""
import json
import pathlib
import select
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed import h2

A_CONNECTION, LEAST = 15, 30  # requests
LIMIT, PAUSE = 60, 0.005      # seconds: it only ends what hangs; between requests


class Honest:
    """That process, and what it says in the end."""

    def __init__(self, address, path="/hit/1000", proto="h2"):
        self.process = subprocess.Popen([sys.executable, __file__, address[0], str(address[1]), path, proto], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()  # its first request is answered

    def end(self):
        """(asked, failed, p99 in ms)"""
        try:
            said = json.loads(self.process.communicate("", timeout=LIMIT * 4)[0])
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return 0, ["it has no end"], float("inf")
        times = sorted(said["times"])
        return said["asked"], said["failed"], times[min(len(times) - 1, len(times) * 99 // 100)] if times else float("inf")


def connect(address, proto):
    if proto == "h2":
        return h2.Connection(h2.plain(address, LIMIT))
    from bed import h3  # which needs aioquic
    return h3.Connection(address, limit=LIMIT)


def one(address, path, proto, failed, times):
    """A connection of so many requests; gives how many it asked."""
    asked = 0
    try:
        with connect(address, proto) as c:
            while asked < A_CONNECTION and not has_ended(times):
                asked += 1
                begin = time.monotonic()
                own = c.get(path, LIMIT)
                times.append((time.monotonic() - begin) * 1000)
                if not own.whole():
                    failed.append(f"{own}, {c.how()}")
                    return asked
                if len(times) == 1:
                    print("begun", flush=True)
    except OSError as e:
        failed.append(repr(e))
        return max(1, asked)
    return asked


def has_ended(times):
    return bool(select.select([sys.stdin], [], [], PAUSE)[0]) and len(times) >= LEAST


def main():
    address, path, proto = (sys.argv[1], int(sys.argv[2])), *sys.argv[3:]
    asked, failed, times = 0, [], []
    while not has_ended(times) and len(failed) < LEAST:
        asked += one(address, path, proto, failed, times)
    print(json.dumps({"asked": asked, "failed": failed, "times": times}), flush=True)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-2-Clause
"""An open loop written anew, as simply as can be: requests are due at even times, so many connections take them in turn, each
latency counts from when it was due. It shares nothing with the program under test, so that their percentiles can be compared."""
import http.client
import math
import queue
import threading
import time


def percentile(latencies, percent):
    ordered = sorted(latencies)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def run(address, paths, rate, count, connections):
    """Latencies in seconds."""
    host, port = address.split(":")
    due, latencies = queue.SimpleQueue(), []
    begun = time.monotonic() + 0.2
    for i in range(count):
        due.put((begun + i / rate, paths[i % len(paths)]))
    for _ in range(connections):
        due.put(None)

    def serve():
        c = http.client.HTTPConnection(host, int(port), timeout=60)
        c.connect()
        while job := due.get():
            at, path = job
            while (left := at - time.monotonic()) > 0:
                threading.Event().wait(left)
            c.request("GET", path)
            c.getresponse().read()
            latencies.append(time.monotonic() - at)
    threads = [threading.Thread(target=serve, daemon=True) for _ in range(connections)]
    [t.start() for t in threads]
    [t.join(120) for t in threads]
    return latencies

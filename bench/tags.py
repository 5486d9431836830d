#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tags: memory of a reference, time until a purge of many objects holds, and what other hits feel of it meanwhile.

usage: bench/tags.py [--varnishd PATH] [--objects N] [--purged N] [--soft]
"""
import argparse
import pathlib
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
from bed.daemon import Varnishd  # noqa: E402
from bed.http import Client  # noqa: E402

VCL = """vcl 4.1; backend none none;
sub vcl_recv { return (hash); }
sub vcl_backend_fetch { return (error(200)); }
sub vcl_backend_error {
    set beresp.ttl = 1h; set beresp.grace = 1h; set beresp.http.tags = bereq.http.tags; set beresp.tags = bereq.http.tags;
    unset beresp.http.tags; set beresp.body = "x"; return (deliver);
}
sub vcl_deliver { set resp.http.fresh = obj.ttl > 0s; set resp.http.hits = obj.hits; }"""
TOGETHER = 100  # requests in one write


def fill(address, first, last, tags_of):
    """Asks for objects in pipelined batches: the fetches need no origin."""
    with socket.create_connection(address) as s:
        f = s.makefile("rb")
        for begin in range(first, last, TOGETHER):
            batch = range(begin, min(begin + TOGETHER, last))
            s.sendall(b"".join(b"GET /%d HTTP/1.1\r\nHost: h\r\ntags: %s\r\n\r\n" % (n, tags_of(n)) for n in batch))
            for _ in batch:
                while f.readline() != b"\r\n":
                    pass
                f.read(1)


def rss(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) * 1024


class Hits(threading.Thread):
    """One client that asks for a hot object all the time, and notes when each answer came and how long it took."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.ends, self.took = address, False, []

    def run(self):
        with Client(self.address) as c:
            while not self.ends:
                begin = time.monotonic()
                c.request("/hot")
                self.took.append((begin, time.monotonic() - begin))

    def p99(self, begin, end):
        took = sorted(t for at, t in self.took if at + t >= begin and at <= end)
        return took[int(len(took) * 0.99)] * 1e3 if took else 0.0


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--varnishd", default="dist/bin/varnishd")
    a.add_argument("--objects", type=int, default=1_000_000)
    a.add_argument("--purged", type=int, default=100_000)
    a.add_argument("--soft", action="store_true")
    o = a.parse_args()
    tag = lambda n, i: b"tag-%d" % ((n * 7919 + i * 104_729) % 1_000_000)
    tags_of = lambda n: (b"big " if n < o.purged else b"rest ") + b" ".join(tag(n, i) for i in range(9))
    with Varnishd(o.varnishd, ["-p", "ban_lurker_sleep=0"], vcl=VCL, storage="malloc,4g") as v:
        before = rss(v.worker())
        fill(v.address, 0, o.objects, tags_of)
        bytes_, references = v.counter("XKEY.g_bytes"), v.counter("XKEY.g_references")
        print(f"{o.objects} objects, {references} references of {v.counter('XKEY.g_keys')} tags: {bytes_ / references:.1f} bytes a reference, "
              f"{(rss(v.worker()) - before) / o.objects:.0f} bytes of memory an object in all")
        hits = Hits(v.address)
        hits.start()
        time.sleep(3)
        began = time.monotonic()
        alone = hits.p99(began - 2, began)
        held = []

        def watch():
            with Client(v.address) as c:
                while not held:
                    r = c.request("/7", host="h")
                    if r.get("hits") == "0" or r.get("fresh") == "false":
                        held.append(time.monotonic())

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        began = time.monotonic()
        told = v.cli.ask(f"purge.tag {'-s ' if o.soft else ''}big").strip()
        ended = time.monotonic()
        watcher.join(10)
        print(f"{told}: one of them was gone after {(held[0] - began) * 1e3:.1f} ms, the answer came after {(ended - began) * 1e3:.1f} ms; "
              f"p99 of a hit {alone:.2f} ms before and {hits.p99(began, ended):.2f} ms meanwhile")
        hits.ends = True
        hits.join()


if __name__ == "__main__":
    main()

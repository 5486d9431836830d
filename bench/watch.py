#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What `lacquer watch` costs beside a server at a steady rate: CPU with nobody, one and twenty who look, and with the list of requests followed;
its memory; how much of the log it reads.

usage: watch.py [--varnishd PROGRAM] [--watch PROGRAM...] [--rate N] [--seconds N]

Requests are due at even times (bench/c/lg.c, open loop). Two cores or more: the server and the generator take what they need, and what is
measured is the CPU that watch used.
--watch is `lacquer watch` by default; `cargo build --profile soak -p lacquer-watch --example watch` builds it alone, optimised.
"""
import argparse
import json
import pathlib
import re
import socket
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import servers
from bed.daemon import Varnishd, cpu, die_with_parent, pss
from bed.http import Client
from bed.origin import Origin, simple

VCL = 'vcl 4.1;\nbackend default { .host = "%s"; .port = "%d"; }\nsub vcl_recv { if (req.url ~ "^/account") { return (pass); } }\n'


def viewer(address, path):
    """Reads a stream until it is closed."""
    s = socket.create_connection(address)
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())

    def read():
        try:
            while s.recv(1 << 20):
                pass
        except OSError:
            pass
    threading.Thread(target=read, daemon=True).start()
    return s


def state(address):
    with Client(address) as c:
        return json.loads(c.request("/api/state", host="127.0.0.1").body)["second"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--varnishd", default=str(ROOT / "dist/bin/varnishd"))
    p.add_argument("--watch", nargs="+", default=[str(ROOT / "dist/bin/lacquer"), "watch"])
    p.add_argument("--rate", type=int, default=20000)
    p.add_argument("--seconds", type=float, default=6)
    o = p.parse_args()
    servers.build()
    with Origin(simple(lambda *_: ("Cache-Control: max-age=600\r\n", b"x" * 1000))) as origin, Varnishd(o.varnishd, vcl=VCL % origin.address) as v:
        watch = subprocess.Popen([*o.watch, "-n", str(v.n), "-a", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        found = re.search(r"http://([\d.]+):(\d+)/", watch.stdout.readline())
        address = (found[1], int(found[2]))
        load = subprocess.Popen([servers.BIN / "lg", "-p", str(v.address[1]), "-c", "20", "-r", str(o.rate), "-u", "/news/", "-N", "100",
                                 "-d", str(int(4 * o.seconds + 30))],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)
        try:
            time.sleep(5)
            for name, paths in (("nobody looks", []), ("1 viewer", ["/api/seconds"]), ("20 viewers", ["/api/seconds"] * 20),
                                ("1 viewer, requests followed", ["/api/seconds", "/api/live?q="])):
                sockets = [viewer(address, path) for path in paths]
                time.sleep(2)
                before, asked, begun = cpu([watch.pid]), state(address)["totals"]["client_req"], time.monotonic()
                time.sleep(o.seconds)
                now, used, elapsed = state(address), cpu([watch.pid]) - before, time.monotonic() - begun
                print(f"{name}: {100 * used / elapsed:.1f} % of a core at {(now['totals']['client_req'] - asked) / elapsed:,.0f} requests/s, "
                      f"{pss([watch.pid]) >> 20} MB, {100 * now['log']['share']:.1f} % of the log read, {now['log']['overruns']} overruns", flush=True)
                for s in sockets:
                    s.close()
        finally:
            load.terminate()
            watch.terminate()
            load.wait()
            watch.wait()


if __name__ == "__main__":
    main()

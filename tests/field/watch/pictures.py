#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes the pictures of the page in docs/pictures: a sound server, and faults of every kind, each light, dark and on a phone.

usage: pictures.py [--to DIR] [STATE...]

Needs chromium, root (a small file system that is filled up) and pngquant. Starts the program of `make quick`.
"""
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from bed.browser import Browser
from bed.built import program
from bed.certificates import Authority
from bed.daemon import Varnishd, directory
from bed.http import Client
from bed.origin import Origin, simple
from bed.report import until

DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs/pictures"
LIMIT = 60  # seconds; ends a wait for what never comes
MOST = 150 << 10  # bytes of a picture
PACE = 120  # requests a second
SETTLED = 75  # seconds of traffic before a picture
VCL = """vcl 4.1;
backend default { .host = "%s"; .port = "%d"; .probe = { .url = "/health"; .interval = 1s; .initial = 2; .window = 4; .threshold = 2; } }
backend api { .host = "%s"; .port = "%d"; }
sub vcl_recv {
    if (req.url ~ "^/account|^/cart") { return (pass); }
    if (req.url ~ "^/api/") { set req.backend_hint = api; }
    if (req.url ~ "^/old/") { return (synth(301)); }
}
sub vcl_backend_response { set beresp.ttl = 20s; set beresp.grace = 0s; }
"""


def answer(_method, path, _fields):
    if path.startswith(("/search", "/api")):
        time.sleep(0.012 + random.random() * 0.02)
    return "Cache-Control: max-age=60\r\n", b"x" * (900 + len(path) * 997 % 30000)


def serve(s):
    """The origin; a probe's connection ends with its response."""
    if s.recv(11, 2 | 256).startswith(b"GET /health"):  # MSG_PEEK, MSG_WAITALL
        s.recv(65536)
        return s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    return simple(answer)(s)


def path_of(n):
    """The paths of a shop: a few that everybody reads, many that a few do, some for one visitor."""
    page = int(random.paretovariate(0.7)) % 400
    return random.choice(["/", "/", f"/products/{page}", f"/products/{page}", f"/images/{page}.webp", f"/images/{page}.webp", "/style.css",
                          f"/search?q={n % 90}", f"/api/stock/{page % 40}", "/cart" if n % 3 else "/account", "/old/news"])


class Visitors:
    def __init__(self, address):
        self.address, self.is_over = address, False
        self.threads = [threading.Thread(target=self._run, args=(k,), daemon=True) for k in range(3)]
        [t.start() for t in self.threads]

    def _run(self, k):
        n, begun, c = k, time.monotonic(), None
        while not self.is_over:
            n += 3
            try:
                c = c or Client(self.address, keep=False)
                if c.request(path_of(n), host="shop.example").end != "complete":
                    c = None
            except OSError:
                c = None
            time.sleep(max(0, begun + n / PACE - time.monotonic()))

    def stop(self):
        self.is_over = True
        [t.join() for t in self.threads]


def worker_of(v):
    return next(pid for pid in v.pids() if pathlib.Path(f"/proc/{pid}/comm").read_text() == "cache-main\n")


def shoot(to, name, address):
    with Browser(1280, 800) as browser:
        browser.call("Emulation.setScrollbarsHidden", hidden=True)
        for kind, theme, size in (("light", "light", (1280, 800)), ("dark", "dark", (1280, 800)), ("phone", "light", (390, 780))):
            browser.size(*size)
            browser.theme(theme)
            browser.open(f"http://{address[0]}:{address[1]}/")
            until(LIMIT, lambda: browser.js("Number(document.getElementById('state').dataset.seconds || 0)") >= 2)
            file = to / f"watch-{name}-{kind}.png"
            browser.picture(file)
            subprocess.run(["pngquant", "--force", "--ext", ".png", "--speed", "1", "96", str(file)], check=True)
            if browser.errors:
                sys.exit(f"the page's script failed: {browser.errors[0]}")
            print(f"{file.name}: {file.stat().st_size >> 10} KB; {browser.js('document.title')}; {browser.js('document.getElementById(`problems`).innerText')!r}")
            if file.stat().st_size > MOST:
                sys.exit(f"{file} is larger than {MOST >> 10} KB")


def take(to, state):
    """One state of the server, after some traffic."""
    with directory() as place, Origin(serve) as origin, Origin(serve) as api:
        args = ["--watch", "127.0.0.1:0", "-i", "shop-1", "-p", "log_no_hit=on", "-p", "vsl_space=8m"]
        if state == "certificate":
            leaf = Authority(place / "ca").leaf("shop.example", starts=-89, ends=1)
            args += ["-a", "127.0.0.1:0", "-a", "127.0.0.1:0,https", "-A", str(place / "tls.conf")]
            (place / "tls.conf").write_text(f'pem-file = "{leaf.pem}"\n')
        is_small = state == "disk-full"
        if is_small:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m,mode=755", "tmpfs", str(place)], check=True)
            tempfile.tempdir = str(place)
        try:
            with Varnishd(program("varnishd"), args, vcl=VCL % (*origin.address, *api.address)) as v:
                tempfile.tempdir = None
                address = until(LIMIT, lambda: re.search(r"watch: http://([\d.]+):(\d+)/", "".join(v.output)))
                address = (address[1], int(address[2]))
                visitors = Visitors(v.address)
                time.sleep(SETTLED)
                if state == "backend-dead":
                    origin.close()
                    time.sleep(40)
                elif state == "worker-killed":
                    os.kill(worker_of(v), signal.SIGKILL)
                    time.sleep(25)
                elif is_small:
                    with open(place / "forgotten.dump", "wb", buffering=0) as f:
                        try:
                            while True:
                                f.write(b"\1" * 4096)
                        except OSError:
                            pass
                    time.sleep(15)
                shoot(to, state, address)
                visitors.stop()
        finally:
            if is_small:
                tempfile.tempdir = None
                subprocess.run(["umount", "-l", str(place)], check=True)


STATES = ["healthy", "backend-dead", "worker-killed", "disk-full", "certificate"]


def main():
    args = sys.argv[1:]
    to = DOCS
    if args[:1] == ["--to"]:
        to, args = pathlib.Path(args[1]), args[2:]
    if unknown := [state for state in args if state not in STATES]:
        sys.exit(f"no state {unknown[0]} (there are {', '.join(STATES)})")
    to.mkdir(parents=True, exist_ok=True)
    for state in args or STATES:
        take(to, state)


if __name__ == "__main__":
    main()

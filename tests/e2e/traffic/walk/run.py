#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A site is walked twice, in order: the second time all are hits, whatever the store. And a server that passes all in front of
another one asks it once for each request, over connections that stay. By counts of the origin and of the counters.
"""
import json
import os
import pathlib
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd, directory
from bed.http import Client
from bed.origin import Origin, simple
from bed.report import Report, options, until

LIMIT = 60  # seconds; ends a wait for what never comes
VCL = """vcl 4.1;
backend default { .host = "%s"; .port = "%d"; }
sub vcl_recv { %s }
"""


class Site:
    """An origin of so many bytes a page, which counts."""

    def __init__(self, octets):
        self.octets, self.asked, self.lock = octets, {}, threading.Lock()

    def answer(self, _method, path, _fields):
        with self.lock:
            self.asked[path] = self.asked.get(path, 0) + 1
        return "Cache-Control: max-age=600\r\n", (path.encode() * (self.octets // len(path) + 1))[:self.octets]

    def body(self, path):
        return (path.encode() * (self.octets // len(path) + 1))[:self.octets]


def walk(v, site, paths):
    """All pages in order over one connection; those that came otherwise than they are."""
    with Client(v.address, timeout=LIMIT) as client:
        answers = ((path, client.request(path)) for path in paths)
        return [path for path, r in answers if not r.whole() or r.body != site.body(path)]


def counters(v, *names):
    shown = subprocess.run(["/usr/bin/varnishstat", "-n", str(v.n), "-j"], capture_output=True, text=True, check=True).stdout
    all_counters = json.loads(shown)["counters"]
    return tuple(all_counters[f"MAIN.{name}"]["value"] for name in names)


def twice(report, o, storage):
    pages = 2000 if o.full else 100
    site = Site(100_000)
    paths = [f"/page/{n}" for n in range(pages)]
    with Origin(simple(site.answer)) as origin, Varnishd(o.varnishd, vcl=VCL % (*origin.address, ""), storage=storage) as v:
        kind = storage.split(",")[0]
        report.check(not walk(v, site, paths), f"{kind}: the first walk")
        report.check(site.asked == dict.fromkeys(paths, 1), f"{kind}: each page is fetched once")
        report.check(not walk(v, site, paths), f"{kind}: the second walk")
        report.check(site.asked == dict.fromkeys(paths, 1), f"{kind}: nothing is fetched again: {sum(site.asked.values())}")
        names = ("cache_hit", "cache_miss", "n_lru_nuked", "n_object")
        want = (pages, pages, 0, pages)
        report.check(until(LIMIT, lambda: counters(v, *names) == want), f"{kind}: {names} are {counters(v, *names)}")


def malloc(report, o):
    """In memory."""
    twice(report, o, "malloc,1g")


def file(report, o):
    """In a file."""
    with directory() as d:
        d.chmod(0o1777)  # the jail's user makes the file
        twice(report, o, f"file,{d}/store,1g")


def chain(report, o):
    """Two in a row, the front one passes everything."""
    site, requests = Site(2000), 100
    with Origin(simple(site.answer)) as origin, Varnishd(o.varnishd, vcl=VCL % (*origin.address, "")) as behind, \
            Varnishd(o.varnishd, vcl=VCL % (*behind.address, "return (pass);")) as front:
        report.check(not walk(front, site, ["/page"] * requests), "all come through both")
        report.check(site.asked == {"/page": 1}, f"the origin is asked once: {site.asked}")
        names = ("client_req", "s_pass", "s_fetch", "backend_req", "backend_conn", "cache_hit")
        want = (requests, requests, requests, requests, 1, 0)
        report.check(until(LIMIT, lambda: counters(front, *names) == want), f"in front {names} are {counters(front, *names)}")
        names = ("client_req", "cache_hit", "cache_miss", "sess_conn")
        want = (requests, requests - 1, 1, 1)
        report.check(until(LIMIT, lambda: counters(behind, *names) == want), f"behind {names} are {counters(behind, *names)}")


def main():
    o = options(__doc__, (malloc, file, chain))
    if not os.access("/usr/bin/varnishstat", os.X_OK):
        sys.exit("Debian's varnishstat is needed (package varnish)")
    report = Report("walk")
    report.run(o.cases, report, o)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

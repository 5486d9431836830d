#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What Debian's tools and the Prometheus exporter read from our shared memory: values equal to what the test sent, and every
metric that dashboards know; the dashboards and the Munin plugin that are shipped (views.py). Needs the Debian packages varnish and prometheus-varnish-exporter.
"""
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import urllib.request
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from bed.daemon import Varnishd, die_with_parent, free_port
from bed.http import Client, get
from bed.origin import Origin, simple
from bed.report import Report, options, until
import views

HERE = pathlib.Path(__file__).resolve().parent
PATHS = "/usr/bin:/usr/sbin"
VARNISHSTAT, EXPORTER = (shutil.which(name, path=PATHS) for name in ("varnishstat", "prometheus-varnish-exporter"))
GENUINE = shutil.which("varnishd", path=PATHS)
LIMIT = 60  # seconds; ends a wait for what never comes
BODY = b"x" * 1000
# Metrics without anything behind them here: debug builds of varnishd count these.
ABSENT = set()

VCL = """vcl 4.1;
backend default { .host = "%s"; .port = "%d"; }
sub vcl_recv {
    if (req.url ~ "^/pass") { return (pass); }
    if (req.url ~ "^/synth") { return (synth(404)); }
    if (req.url ~ "^/purge") { return (purge); }
}
"""


def traffic(v):
    """A known load; answers what counters must say of it."""
    with Client(v.address) as c:
        for n in range(7):
            c.request(f"/miss/{n}")
        for _ in range(13):
            c.request("/miss/0")
        for _ in range(5):
            c.request("/pass")
        for _ in range(3):
            c.request("/synth")
        c.request("/purge")
        for _ in range(2):
            c.request("/x", method="POST", body=b"y" * 100)
        c.request("/miss/1", fields=[("Cookie", "a=b")])
    for _ in range(4):
        get(v.address, "/miss/0")
    with socket.create_connection(v.address) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        s.recv(1000)
    v.cli.ask("ban req.url == /nothing")
    hits, misses, passes, synths = 13 + 4, 7, 5 + 2 + 1, 3 + 1
    return {
        "MAIN.sess_conn": 6, "MAIN.s_sess": 6, "MAIN.client_req": hits + misses + passes + synths, "MAIN.client_req_400": 1,
        "MAIN.cache_hit": hits, "MAIN.cache_miss": misses, "MAIN.s_pass": passes, "MAIN.s_synth": synths,
        "MAIN.s_fetch": misses + passes, "MAIN.backend_req": misses + passes, "MAIN.n_purges": 1, "MAIN.n_object": 7,
        "MAIN.bans_added": 2, "MAIN.n_backend": 1, "MAIN.n_vcl": 1, "MAIN.sess_closed": 6, "MAIN.sess_closed_err": 1,
        "MAIN.s_req_bodybytes": 200, "MAIN.fetch_length": misses + passes,
        "VBE.boot.default.req": misses + passes, "VBE.boot.default.bereq_bodybytes": 200,
        "VBE.boot.default.beresp_bodybytes": (misses + passes) * len(BODY), "VBE.boot.default.conn": 0,
        "MGT.child_start": 1, "MGT.child_died": 0, "SMA.Transient.g_bytes": 0,
        "MEMPOOL.req0.live": 0, "MEMPOOL.sess0.live": 0, "MEMPOOL.busyobj.live": 0,
        "MEMPOOL.busyobj.allocs": misses + passes, "MEMPOOL.busyobj.frees": misses + passes,
        "NOHIT.first_fetch": misses, "NOHIT.pass": 5, "NOHIT.pass_method": 2, "NOHIT.pass_cookie": 1, "NOHIT.synth": 3,
        "NOHIT.purge": 1,
    }


def stat(v, *args):
    return subprocess.run([VARNISHSTAT, "-n", str(v.n), *args], capture_output=True, text=True, check=True).stdout


def by_varnishstat(report, v, want):
    """The three forms of varnishstat: each has every value."""
    def plain():
        rows = (line.split() for line in stat(v, "-1").splitlines())
        return {row[0]: int(row[1]) for row in rows}

    settled = until(LIMIT, lambda: all(plain().get(k) == n for k, n in want.items()))
    as_json = {name: c["value"] for name, c in json.loads(stat(v, "-j"))["counters"].items()}
    root = xml.etree.ElementTree.fromstring(stat(v, "-x"))
    as_xml = {s.find("name").text: int(s.find("value").text) for s in root.findall("stat")}
    for name, n in want.items():
        got = [form.get(name) for form in (plain(), as_json, as_xml)]
        report.check(got == [n] * 3, f"{name}: varnishstat -1, -j, -x say {got} instead of {n}")
    report.check(settled, "the counters settle")
    allocs = lambda kind: sum(n for name, n in plain().items() if name.startswith(f"MEMPOOL.{kind}") and name.endswith(".allocs"))
    report.comes(lambda: [allocs("sess"), allocs("req")], [6, want["MAIN.client_req"] + 1], "MEMPOOL.sess*.allocs, MEMPOOL.req*.allocs")
    known = plain()
    report.check(known["LCK.conn_pool.creat"] >= 1 and known["LCK.conn_pool.locks"] >= want["MAIN.backend_req"], "LCK.conn_pool")


def scrape(v):
    """The exporter's page; its own port may be taken by somebody else in between, then another one is tried."""
    for _ in range(5):
        port = free_port()
        proc = subprocess.Popen([EXPORTER, "-n", str(v.n), "-varnishstat-path", VARNISHSTAT, "-web.listen-address", f"127.0.0.1:{port}"],
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                preexec_fn=die_with_parent)

        def page():
            try:
                return urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=LIMIT).read().decode()
            except OSError:
                return proc.poll() is not None and "ended"

        try:
            got = until(LIMIT, page, step=0.1)
        finally:
            proc.terminate()
            proc.wait(LIMIT)
        if got and got != "ended":
            return got
    return ""


def by_exporter(report, v, want):
    """Gives the exporter's page."""
    text = scrape(v)
    rows = re.findall(r"^(varnish_\w+)(?:\{(.*)\})? (\S+)$", text, re.M)
    values = {}
    for name, labels, value in rows:
        values[name, labels] = float(value)
    named = {name for name, _, _ in rows}
    report.check(values.get(("varnish_up", "")) == 1, f"varnish_up: {text[:300]}")
    for name in (HERE / "names.txt").read_text().splitlines():
        if name and not name.startswith("#"):
            report.check(name in named or name in ABSENT, f"no metric {name}")
    backend = 'backend="default",server="unknown"'
    pairs = {
        ("varnish_main_sessions", 'type="conn"'): "MAIN.sess_conn", ("varnish_main_client_req", ""): "MAIN.client_req",
        ("varnish_main_cache_hit", ""): "MAIN.cache_hit", ("varnish_main_cache_miss", ""): "MAIN.cache_miss",
        ("varnish_main_s_pass", ""): "MAIN.s_pass", ("varnish_main_s_synth", ""): "MAIN.s_synth",
        ("varnish_main_backend_req", ""): "MAIN.backend_req", ("varnish_main_n_object", ""): "MAIN.n_object",
        ("varnish_main_n_purges", ""): "MAIN.n_purges", ("varnish_main_nohit_first_fetch", ""): "NOHIT.first_fetch",
        ("varnish_backend_req", backend): "VBE.boot.default.req",
        ("varnish_backend_beresp_bodybytes", backend): "VBE.boot.default.beresp_bodybytes",
        ("varnish_mgt_child_start", ""): "MGT.child_start", ("varnish_mempool_allocs", 'id="busyobj"'): "MEMPOOL.busyobj.allocs",
    }
    for key, name in pairs.items():
        alike = {k: n for k, n in values.items() if k[0] == key[0]}
        report.check(values.get(key) == want[name], f"{key}: {values.get(key)} instead of {want[name]} ({name}); there are {alike}")
    return text


def main():
    o = options(__doc__)
    if not VARNISHSTAT or not EXPORTER:
        sys.exit("Debian's varnishstat and prometheus-varnish-exporter are needed")
    report = Report("metrics")
    answer = simple(lambda *_: ("Cache-Control: max-age=60\r\n", BODY))
    with Origin(answer) as origin, Varnishd(o.varnishd, vcl=VCL % origin.address) as v:
        want = traffic(v)
        by_varnishstat(report, v, want)
        page = by_exporter(report, v, want)
        lacquer = pathlib.Path(o.varnishd).parent / "lacquer"
        views.layout(report)
        views.check(report, "ours", o.varnishd, lacquer, VARNISHSTAT, v, page)
    if GENUINE:
        with Origin(answer) as origin, Varnishd(GENUINE, vcl=VCL % origin.address) as v:
            traffic(v)
            views.check(report, "varnishd", GENUINE, lacquer, VARNISHSTAT, v, scrape(v))
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

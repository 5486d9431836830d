#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Why a request was no hit: each way past the cache gives its one reason, in the log, the counters and Cache-Status; a hit
gives none; and `lacquer explain` says the same beforehand, without leaving a trace.

Needs Debian's varnishlog and varnishstat: they must show it.
"""
import concurrent.futures
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd, free_port
from bed.http import Client
from bed.origin import Origin, simple
from bed.report import Report, options, until

LIMIT = 30  # seconds; ends a wait for what never comes
VARNISHLOG = shutil.which("varnishlog", path="/usr/bin:/usr/sbin")
VARNISHSTAT = shutil.which("varnishstat", path="/usr/bin:/usr/sbin")

VCL = """vcl 4.1;
backend origin { .host = "%s"; .port = "%d"; }
backend dead { .host = "127.0.0.1"; .port = "%d"; }
sub vcl_recv {
    if (req.url ~ "^/pass") { return (pass); }
    if (req.url ~ "^/pipe") { return (pipe); }
    if (req.url ~ "^/synth") { return (synth(418)); }
    if (req.url ~ "^/fail") { return (fail("so it is")); }
    if (req.method == "PURGE") { return (purge); }
    if (req.method == "BAN") { ban("obj.http.X-Tag == here"); return (synth(200)); }
    if (req.url ~ "^/restart" && req.restarts == 0) { return (restart); }
    if (req.http.Always) { set req.hash_always_miss = true; }
    if (req.http.Young) { set req.ttl = 0.001s; }
    if (req.url ~ "^/rewritten") { set req.url = "/plain"; }
}
sub vcl_hit {
    if (req.url ~ "^/hitpass") { return (pass); }
}
sub vcl_backend_fetch {
    if (bereq.url ~ "^/dead") { set bereq.backend = dead; }
}
sub vcl_backend_response {
    if (bereq.url ~ "^/marked") { set beresp.uncacheable = true; return (deliver); }
    if (bereq.url ~ "^/hfp") { return (pass(60s)); }
    if (bereq.url ~ "^/short") { set beresp.ttl = 0.05s; set beresp.grace = 0s; set beresp.keep = 60s; }
    if (bereq.url ~ "^/fleeting") { set beresp.ttl = 0.05s; set beresp.grace = 0s; set beresp.keep = 0s; }
    if (bereq.url ~ "^/grace") { set beresp.ttl = 0.05s; set beresp.grace = 60s; }
}
sub vcl_deliver {
    if (req.url ~ "^/late") { return (synth(200)); }
    if (req.url ~ "^/again" && req.restarts == 0) { return (restart); }
}
"""
HEADERS = {
    "/cookie": "Set-Cookie: a=b\r\n", "/private": "Cache-Control: private\r\n", "/star": "Vary: *\r\n",
    "/old": "Cache-Control: max-age=0\r\n", "/vary": "Vary: Accept-Language\r\n", "/tagged": "X-Tag: here\r\n",
    "/badvary": "Vary: a b\r\n", "/full": "Vary: Accept-Language\r\n",
}


def answer(_method, path, _fields):
    return next((text for begin, text in HEADERS.items() if path.startswith(begin)), ""), b"hello"


def ask(*paths, then=None, **more):
    """Requests one after the other on one connection; `then(server)` comes between them. A path may be (path, more)."""
    def play(v):
        with Client(v.address, LIMIT) as client:
            for n, path in enumerate(paths):
                if n and then:
                    then(v)
                path, own = path if isinstance(path, tuple) else (path, {})
                client.request(path, **{**more, **own})
            return port_of(client.sock)
    return play


def raw(octets):
    """Sends that on a connection of its own."""
    def play(v):
        with socket.create_connection(v.address, LIMIT) as s:
            s.sendall(octets)
            s.recv(65536)
            return port_of(s)
    return play


def port_of(sock):
    return str(sock.getsockname()[1])


def after_ttl(_v):
    """Waits for the end of the TTL of 0.05 s that VCL gives some objects."""
    time.sleep(0.1)


def gone(path):
    """Waits until there is no object for that path any more."""
    def wait(v):
        until(LIMIT, lambda: "There is no object" in explain(v, f"http://bed.test{path}")[1], step=0.1)
    return wait


def explain(v, *words):
    """Exit status and output of `lacquer explain`."""
    p = subprocess.run([pathlib.Path(v.proc.args[0]).with_name("lacquer"), "explain", "-n", str(v.n), *words], capture_output=True, text=True)
    return p.returncode, p.stdout + p.stderr


COOKIE, LANGUAGE = [("Cookie", "a=b")], lambda text: dict(fields=[("Accept-Language", text)])
# name: (what is asked, for each transaction its reason (a pattern; None: a hit))
CASES = {
    "first, then a hit": (ask("/plain", "/plain"), ["first-fetch", None]),
    "pass": (ask("/pass"), [r"pass: vcl_recv \S*test.vcl:5"]),
    "Cookie": (ask("/x", fields=COOKIE), [r"pass-cookie: vcl_req_cookie <builtin>:\d+"]),
    "Authorization": (ask("/x", fields=[("Authorization", "x")]), ["pass-authorization: .*"]),
    "POST": (ask("/x", method="POST", body=b"x"), ["pass-method: .*"]),
    "QUERY without Content-Type": (ask("/x", method="QUERY", body=b"x"), ["pass-body: no Content-Type"]),
    "synth": (ask("/synth"), [r"synth: 418, vcl_recv \S+:7"]),
    "fail": (ask("/fail"), [r"vcl-failed: vcl_recv \S+:8"]),
    "restart in vcl_recv": (ask("/restart"), [r"restart: vcl_recv \S+:\d+", "first-fetch"]),
    "restart in vcl_deliver": (ask("/again"), ["first-fetch", None]),
    "synth in vcl_deliver": (ask("/late"), [r"synth: 200, vcl_deliver .*"]),
    "expired, kept": (ask("/short", "/short", then=after_ttl), ["first-fetch", r"expired: [\d.]+ s ago, ttl 0, grace 0"]),
    "expired, gone": (ask("/fleeting", "/fleeting", then=gone("/fleeting")), ["first-fetch", r"expired: \d+ s ago"]),
    "grace is a hit": (ask("/grace", "/grace", then=after_ttl), ["first-fetch", None]),
    "hash_always_miss": (ask("/am", ("/am", dict(fields=[("Always", "1")]))), ["first-fetch", "hash-always-miss"]),
    "req.ttl": (ask("/ttl", ("/ttl", dict(fields=[("Young", "1")])), then=after_ttl), ["first-fetch", "req-ttl: 0.001"]),
    "vary": (ask(("/vary", LANGUAGE("de")), ("/vary", LANGUAGE("en")), ("/vary", LANGUAGE("de"))),
             ["first-fetch", 'vary: Accept-Language: "en" here, "de" there', None]),
    "Set-Cookie": (ask("/cookie", "/cookie"), ["first-fetch", r"hit-for-miss: set-cookie; for \d+ s more; by \d+"]),
    "private": (ask("/private", "/private"), ["first-fetch", r"hit-for-miss: cache-control private; .*"]),
    "Vary: *": (ask("/star", "/star"), ["first-fetch", "hit-for-miss: vary-star; .*"]),
    "max-age=0": (ask("/old", "/old"), ["first-fetch", "hit-for-miss: no-ttl; .*"]),
    "a Vary that can't be read": (ask("/badvary", "/badvary"), ["first-fetch", "hit-for-miss: bad-vary; .*"]),
    "VCL's uncacheable": (ask("/marked", "/marked"),
                          ["first-fetch", r"hit-for-miss: vcl vcl_backend_response \S+:\d+; .*"]),
    "hit-for-pass": (ask("/hfp", "/hfp"), ["first-fetch", r"hit-for-pass: vcl-pass vcl_backend_response \S+; for \d+ s .*"]),
    "pass in vcl_hit": (ask("/hitpass", "/hitpass"), ["first-fetch", r"pass: vcl_hit \S+:\d+"]),
    "purged": (ask("/p", ("/p", dict(method="PURGE")), "/p"), ["first-fetch", "purge: .*", r"purged: \d+ s ago"]),
    "banned": (ask("/tagged", ("/any", dict(method="BAN")), "/tagged"),
               ["first-fetch", "synth: 200.*", "banned: obj.http.X-Tag == here"]),
    "fetch failed": (ask("/dead", "/dead", then=gone("/dead")), ["first-fetch", r"fetch-failed: \d+ s ago"]),
    "pipe": (raw(b"GET /pipe HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"), [r"pipe: vcl_recv \S+:6"]),
    "unknown method": (ask("/x", method="WHAT"), [r"synth: 501, vcl_req_method <builtin>:\d+"]),
    "unknown expectation": (raw(b"GET / HTTP/1.1\r\nHost: h\r\nExpect: x\r\nConnection: close\r\n\r\n"), ["refused"]),
}

LINE = re.compile(r"^ *(\d+) (\S+) +([bc-]) ?(.*)$")


def reasons_logged(v, ports):
    """For each client's port the reasons of its transactions, in their order. None until all transactions are over."""
    text = subprocess.run([VARNISHLOG, "-n", str(v.n), "-d", "-g", "raw"], capture_output=True, text=True, errors="replace").stdout
    records, root, order, port = {}, {}, [], {}
    for m in filter(None, map(LINE.match, text.splitlines())):
        vxid, tag, _, data = m.groups()
        if vxid == "0":
            continue
        if tag == "Begin":
            kind, parent, *_ = data.split()
            root[vxid] = vxid if kind == "sess" else root.get(parent)
            order += [vxid] if kind == "req" else []
        if tag == "SessOpen":
            port[vxid] = data.split()[1]
        records.setdefault(vxid, []).append((tag, data))
    links = {data.split()[1] for some in records.values() for tag, data in some if tag == "Link"}
    if set(ports) - set(port.values()) or not links <= set(records) or any(some[-1][0] != "End" for some in records.values()):
        return None
    prefix = "lacquer: no hit: "
    found = {p: [] for p in port.values()}
    for vxid in order:
        found[port[root[vxid]]].append([data[len(prefix):] for tag, data in records[vxid] if tag == "Notice" and data.startswith(prefix)])
    return found


def log(report, v):
    """Each case's transactions have exactly the reasons expected, and the counters each of them once. The cases run at once."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        ports = dict(zip(CASES, pool.map(lambda case: case[0](v), CASES.values())))
    logged = until(LIMIT, lambda: reasons_logged(v, ports.values()), step=0.1)
    if not report.check(logged, "the log never settles"):
        return
    for name, (_, want) in CASES.items():
        got = logged[ports[name]]
        ok = len(got) == len(want) and all(
            (not t if w is None else len(t) == 1 and re.fullmatch(w, t[0])) for t, w in zip(got, want))
        report.check(ok, f"{name}: {got} instead of {want}")
    total = sum(len(t) for some in logged.values() for t in some)
    counted = until(LIMIT, lambda: sum(n for k, n in counters(v).items() if k.startswith("NOHIT.")) == total)
    report.check(counted, f"the counters have each reason once: {total} logged")


def counters(v):
    text = subprocess.run([VARNISHSTAT, "-n", str(v.n), "-j"], capture_output=True, text=True, check=True).stdout
    return {name: c["value"] for name, c in json.loads(text)["counters"].items()}


def silence(report, v):
    """Without the parameter nothing is logged, and the counters go on."""
    v.cli.ask("param.set log_no_hit off")
    before = until(LIMIT, lambda: counters(v))["NOHIT.pass"]
    with Client(v.address) as client:
        client.request("/pass/quiet")
    report.check(until(LIMIT, lambda: counters(v)["NOHIT.pass"] == before + 1), "NOHIT.pass counts without the log")

    def tail():
        text = subprocess.run([VARNISHLOG, "-n", str(v.n), "-d", "-g", "request", "-q", 'ReqURL eq "/pass/quiet"'], capture_output=True, text=True).stdout
        return text if "End" in text else None
    logged = until(LIMIT, tail)
    report.check(logged and "Notice" not in logged, f"no record unless asked for: {logged}")
    v.cli.ask("param.set log_no_hit on")


def cache_status(report, v):
    with Client(v.address) as client:
        report.check(client.request("/cs").get("Cache-Status") is None, "no Cache-Status unless asked for")
        v.cli.ask("param.set cache_status on")
        for path, fields, want in [
            ("/cs", [], r"Lacquer; hit; ttl=\d+"), ("/cs/new", [], r"Lacquer; fwd=uri-miss; stored; ttl=\d+; detail=first-fetch"),
            ("/cs", COOKIE, "Lacquer; fwd=request; detail=pass-cookie"),
            ("/pass", [], "Lacquer; fwd=bypass; detail=pass"),
            ("/cookie/cs", [], "Lacquer; fwd=uri-miss; detail=first-fetch"),
            ("/cookie/cs", [], "Lacquer; fwd=miss; detail=hit-for-miss"),
        ]:
            got = client.request(path, fields=fields).get("Cache-Status")
            report.check(re.fullmatch(want, got or ""), f"Cache-Status of {path}: {got} instead of {want}")
        v.cli.ask("param.set cache_status off")


def explained(report, v):
    def check(words, *wanted, status=0):
        got, text = explain(v, *words)
        for want in wanted:
            report.check(got == status and re.search(want, text), f"explain {' '.join(words)}: no {want!r} in {got}: {text}")

    url = "http://bed.test"
    names = ("MAIN.client_req", "MAIN.s_fetch", "MAIN.backend_req")
    asked = [counters(v)[name] for name in names]
    with Client(v.address) as client:
        for path in ("/e/hit", "/cookie/e", "/tagged/e", "/hfp/e", "/grace/e", "/purged/e"):
            client.request(path)
        client.request("/vary/e", fields=[("Accept-Language", "de")])
        client.request("/purged/e", method="PURGE")
    settled = lambda c: [c[name] for name in names] == [asked[0] + 8, asked[1] + 7, asked[2] + 7]
    report.check(until(LIMIT, lambda: settled(counters(v))), f"eight requests, seven fetches: {counters(v)}")
    report.check(until(LIMIT, lambda: "stale for" in explain(v, url + "/grace/e")[1]), "the TTL of /grace/e ends")
    before = counters(v)
    records = lambda: subprocess.run([VARNISHLOG, "-n", str(v.n), "-d", "-g", "raw", "-i", "Begin,VCL_call,Hit"],
                                 capture_output=True, text=True).stdout
    logged = records()
    check([url + "/e/hit"], r"would be a hit: fresh for \d+\.\d s more", 'looked up under "/e/hit" \\+ "bed.test"',
          "one object", "0 hits; 5 bytes")
    check([url + "/e/none"], "would be a miss", "Reason: first-fetch", "no object")
    check(["-H", "Cookie: a=b", url + "/e/hit"], "would be passed", r"pass-cookie: vcl_req_cookie <builtin>:\d+")
    check(["-m", "POST", url + "/e/hit"], "Reason: pass-method")
    check([url + "/pass/e"], r"Reason: pass: vcl_recv \S+:5", "Nothing is looked up")
    for words in (["/pass/e"], ["/pipe/e"], ["/synth"]):
        _, text = explain(v, url + words[0])
        report.check("looked up under" not in text, f"explain tells a hash that isn't looked up: {text}")
    check(["bed.test/e/hit"], "would be a hit", 'looked up under "/e/hit" \\+ "bed.test"')
    check(["bed.test:80/e/hit#x"], "would be a hit")
    check(["-H", "Host: bed.test", "127.0.0.1:6081/e/hit"], "would be a hit")
    check(["-XPOST", url + "/e/hit"], "Reason: pass-method")
    check(["-b", "a=b", url + "/e/hit"], "pass-cookie")
    check(["/e/hit"], "has no Host", "synth: 400")
    check(["--resolve", "a:80:b", url + "/e/hit"], "no option --resolve", status=2)
    check(["ftp://bed.test/"], "ftp:// is not asked for here", status=1)
    check([url + "/pipe/e"], "would be piped")
    check([url + "/synth"], "answered by vcl_synth", "synth: 418")
    check([url + "/fail"], "fail in VCL")
    check([url + "/restart/e"], "restarts it", "would be a miss")
    check([url + "/cookie/e"], "would be a hit-for-miss", "set-cookie: it sets a cookie")
    check([url + "/hfp/e"], "would be a hit-for-pass", "vcl-pass vcl_backend_response")
    check([url + "/grace/e"], "hit in grace", r"stale for \d")
    check([url + "/purged/e"], "Reason: purged", r"removed \d+ s ago: purged")
    check(["-H", "Accept-Language: en", url + "/vary/e"], r'Reason: vary: Accept-Language: "en" here, "de" there',
          "not for this request")
    check(["-H", "Accept-Language: de", url + "/vary/e"], "would be a hit: ")
    check(["-m", "PURGE", url + "/e/hit"], "would purge")
    check(["-m", "BAN", url + "/any"], "VCL would ban obj.http.X-Tag == here")
    check(["-H", "Host: bed.test", "/rewritten"], "VCL made the URL /plain")
    check(["-H", "no field", "/x"], "is not a header", status=1)
    check([], "which URL", status=2)
    check(["--reasons"], "first-fetch +Nothing is known about this object", "set-cookie")
    after = counters(v)
    moved = [n for n in after if n.startswith(("NOHIT.", "MAIN.client_req", "MAIN.cache_", "MAIN.bans", "MAIN.s_",
                                               "MAIN.vcl_fail", "MAIN.backend_")) and after[n] != before.get(n)]
    report.check(not moved, f"explaining counts nothing: {moved}")
    report.check(records() == logged, "explaining logs nothing")
    check([url + "/tagged/e"], "would be a hit")
    v.cli.ask("ban obj.http.X-Tag == here")
    check([url + "/tagged/e"], "Reason: banned: obj.http.X-Tag == here", "banned by obj.http.X-Tag == here")
    v.cli.ask("stop")
    check([url + "/e/hit"], "", status=1)


def evicted(report, v):
    """In another server. A store too small: what made room is known."""
    big = lambda *_: ("Cache-Control: max-age=60\r\n", b"x" * 100_000)
    with Origin(simple(big)) as origin, \
            Varnishd(v.proc.args[0], ["-p", "log_no_hit=on"], backend=origin.address, storage="malloc,1m") as small, \
            Client(small.address) as client:
        for n in range(30):
            client.request(f"/{n}")
        for n in range(30):
            client.request(f"/{n}")
        got = until(LIMIT, lambda: counters(small)["NOHIT.evicted"])
        report.check(got > 0, f"evicted objects are known as such: {got}")


def main():
    o = options(__doc__, (log, silence, cache_status, explained, evicted))
    if not VARNISHLOG or not VARNISHSTAT:
        sys.exit("Debian's varnishlog and varnishstat are needed (package varnish)")
    report = Report("why")
    with Origin(simple(answer)) as origin, Varnishd(o.varnishd, ["-p", "log_no_hit=on"], vcl=VCL % (*origin.address, free_port())) as v:
        report.run(o.cases, report, v)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

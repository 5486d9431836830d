#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`lacquer status`: what it tells of a running server, ours and the genuine varnishd (as far as that is here)."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed import built
from bed.daemon import Varnishd
from bed.http import get
from bed.origin import Origin, simple
from bed.report import Report, options, settled

LIMIT = 30
GENUINE = "/usr/sbin/varnishd"
ARGS = ["-a", "web=127.0.0.1:0", "-a", "side=127.0.0.1:0", "-p", "default_ttl=99", "-p", "timeout_idle=7"]


def status(lacquer, *words):
    p = subprocess.run([str(lacquer), "status", *words], capture_output=True, text=True, timeout=LIMIT)
    return p.returncode, p.stdout, p.stderr


def facts(lacquer, v):
    code, out, err = status(lacquer, "-n", str(v.n), "--format", "json")
    return code, json.loads(out) if out else {}, err


def of(report, lacquer, program):
    """One server: all that was asked for at its start is told, and what became of it since."""
    name = "varnishd" if program == GENUINE else "ours"
    with Origin(simple(lambda *_: ("Cache-Control: max-age=60\r\n", b"hello"))) as origin, \
            Varnishd(program, ARGS, backend=origin.address, storage="one=malloc,100m") as v:
        for _ in range(4):
            report.check(get(v.address, "/page").whole(), f"{name}: served")
        v.cli.ask("vcl.label mark boot")
        requests = lambda told: [told.get("requests", {}).get(word) for word in ("hits", "misses", "hit_rate")]
        counted, (code, got, err) = settled(LIMIT, lambda: facts(lacquer, v), lambda told: requests(told[1]) == [3, 1, 0.75])
        report.check((code, err, got["state"]) == (0, "", "running"), f"{name}: it runs: {code} {err}")
        report.check("varnish-7.1.1" in got["version"], f"{name}: {got['version']}")
        pids = v.pids()
        report.check(got["manager"]["pid"] == pids[0] and got["worker"]["pid"] in pids[1:], f"{name}: {got['manager']} {pids}")
        report.check(all(word in got["arguments"] for word in ARGS), f"{name}: {got['arguments']}")
        want = [{"name": n, "address": f"{host}:{port}"} for n, (host, port) in v.addresses.items()]
        report.check(got["listen"] == want, f"{name}: {got['listen']} instead of {want}")
        vcls = {vcl["name"]: (vcl["status"], vcl["state"]) for vcl in got["vcl"]}
        report.check(vcls["boot"][0] == "active" and vcls["mark"][1] == "label -> boot", f"{name}: {vcls}")
        stores = {store["name"]: store for store in got["stores"]}
        one = stores["one"]
        report.check(one["kind"] == "malloc" and one["used_bytes"] > 0 and one["used_bytes"] + one["free_bytes"] == 100 << 20,
                     f"{name}: {one}")
        report.check(stores["Transient"]["free_bytes"] is None, f"{name}: Transient has no bound")
        report.check(counted, f"{name}: {got['requests']}")
        # A connection may just be closing.
        descriptors = lambda: (facts(lacquer, v)[1]["descriptors"], len(os.listdir(f"/proc/{got['worker']['pid']}/fd")))
        report.comes(descriptors, lambda both: both[0]["open"] == both[1] < both[0]["limit"], f"{name}: open descriptors, told and counted")
        values = {p["name"]: (float(p["value"]), float(p["default"])) for p in got["parameters"] if p["units"] == "seconds"}
        report.check(values == {"default_ttl": (99, 120), "timeout_idle": (7, 5)}, f"{name}: {values}")
        code, text, _ = status(lacquer, "-n", str(v.n))
        for wanted in ("running", "hit rate 75.0 %", "default_ttl = 99", "label -> boot", "(web)", "one (malloc)", "-p timeout_idle=7"):
            report.check(wanted in text, f"{name}: no {wanted!r} on the screen:\n{text}")
        told = got["wrong"]
        report.check(isinstance(told, list) and re.search(r"^doctor +\S", text, re.M), f"{name}: what the doctor says: {told}")
        # The screen is of a later look: what the machine drops or waits for may have changed since.
        gravest = re.search(r"^doctor +(nothing is wrong|[a-z]+: .+ \([a-z-]+\))$", text, re.M)
        report.check(gravest and (gravest[1] == "nothing is wrong" or "what to type: lacquer doctor" in text), f"{name}: the gravest is on the screen:\n{text}")
        report.check(all(len(line) < 400 for line in text.splitlines()) and len(text.splitlines()) < 25, f"{name}: a screen")
        died(report, lacquer, v, name)


def died(report, lacquer, v, name):
    """A worker that was killed is counted, with the cause; then one that is stopped."""
    os.kill(facts(lacquer, v)[1]["worker"]["pid"], signal.SIGKILL)
    workers = lambda told: [told[1].get("workers", {}).get(word) for word in ("started", "died")]
    back, (_, got, _) = settled(LIMIT, lambda: facts(lacquer, v), lambda told: workers(told) == [2, 1] and get(v.address, "/").status == 200)
    report.check(back, f"{name}: {got.get('workers')}")
    report.check(any("worker-died" in line for line in got["wrong"]), f"{name}: the doctor complains of it: {got['wrong']}")
    if name == "ours":
        report.check("signal=9" in (got["workers"]["last_cause"] or ""), f"{name}: {got['workers']}")
    v.cli.ask("stop")
    code, text, _ = status(lacquer, "-n", str(v.n))
    report.check(code == 1 and "stopped" in text, f"{name}: {code}\n{text}")


def none(report, lacquer):
    code, out, err = status(lacquer, "-n", "/nonexistent", "-t", "1")
    report.check(code == 2 and not out and "is it running" in err, f"no server: {code} {out} {err}")
    for words in (["--format", "xml"], ["surplus"], ["-T", "localhost:1", "-n", "x"], ["-q"]):
        code, out, err = status(lacquer, *words)
        report.check(code == 2 and not out and "Usage" in err, f"{words}: {code} {err[:80]}")
    code, out, _ = status(lacquer, "--help")
    report.check(code == 0 and "Usage: lacquer status" in out, "help")


def main():
    o = options(__doc__)
    lacquer = built.program("lacquer")
    report = Report("status")
    none(report, lacquer)
    for program in dict.fromkeys([o.varnishd, GENUINE]):
        if os.access(program, os.X_OK):
            of(report, lacquer, program)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

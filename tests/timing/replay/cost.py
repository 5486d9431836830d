# SPDX-License-Identifier: BSD-2-Clause
"""What a request costs the client: CPU time of this tool beside that of others, on hits of a few bytes. For --full only: it needs
an optimised build, and figures of a busy machine say little. Tools that aren't there are left out, and told."""
import os
import re
import shutil
import subprocess
import time

from bed.daemon import Varnishd
from bed.origin import Origin, simple
from kit import GENUINE, log_of

CONNECTIONS = 20
SECONDS = 5
ROUNDS = 3


def group(report, tool, d):
    with Origin(simple(lambda *_: ("Cache-Control: max-age=10000\r\n", b"body"))) as origin, Varnishd(GENUINE, backend=origin.address) as v:
        table = measured(report, tool, d, "%s:%d" % v.address)
    report.note("| tool | requests/s | requests per CPU second | beside siege |")
    report.note("| --- | --- | --- | --- |")
    siege = table.get("siege -b", (0, 0))[1]
    for name, (rate, cost) in table.items():
        report.note(f"| {name} | {rate:.0f} | {cost:.0f} | {cost / siege:.1f} |" if siege else f"| {name} | {rate:.0f} | {cost:.0f} | - |")
    ours = table["replay, one URL"][1]
    for name, least in [("siege -b", 5), ("wrk", 0.6)]:
        if name in table:
            report.check(ours >= least * table[name][1], f"{ours:.0f} requests per CPU second; {name} {table[name][1]:.0f}, of which {least} times are due")


def measured(report, tool, d, address):
    """tool: its best round, as requests a second and requests per CPU second"""
    host, port = address.split(":")
    url = f"http://{address}/p/1"
    (d / "one").write_text("/p/1\n")
    (d / "urls").write_text(url + "\n")
    with open(d / "log", "w") as f:
        f.writelines(line + "\n" for line in log_of(300_000, 30, 500, 5))
    replay = [tool.program, "replay", "--to", address, "-c", str(CONNECTIONS), "--quiet"]
    subprocess.run([*replay, "--requests", "20000", d / "log"], capture_output=True, timeout=100)
    commands = {
        "replay, one URL": ([*replay, "--loop", "-d", str(SECONDS), d / "one"], r"(\d+) answered"),
        "replay, a log of 30 hosts": ([*replay, d / "log"], r"(\d+) answered"),
        "wrk": (["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", url], r"(\d+) requests in"),
        "h2load --h1": (["h2load", "--h1", "-t1", f"-c{CONNECTIONS}", "-D", str(SECONDS), url], r"(\d+) succeeded"),
        "httperf --hog": (["httperf", "--hog", "--server", host, "--port", port, "--uri", "/p/1", f"--num-conns={CONNECTIONS}", "--rate=1000",
                           "--num-calls=10000"], r"replies (\d+)"),
        "ab -k": (["ab", "-q", "-k", f"-c{CONNECTIONS}", f"-t{SECONDS}", "-n1000000", url], r"Complete requests:\s+(\d+)"),
        "siege -b": (["siege", "-b", "-q", f"-c{CONNECTIONS}", f"-t{SECONDS}S", "-f", str(d / "urls")], r'transactions"?:\s+(\d+)'),
    }
    table = {}
    for _ in range(ROUNDS):
        for name, (argv, pattern) in commands.items():
            if not shutil.which(argv[0]):
                continue
            requests, seconds, cpu = run(argv, pattern)
            if requests and (name not in table or requests / cpu > table[name][1]):
                table[name] = (requests / seconds, requests / cpu)
    missing = [name for name in commands if name not in table]
    if missing:
        report.note(f"not measured (not installed, or no figure): {', '.join(missing)}")
    return table


def run(argv, pattern):
    """Requests, seconds, CPU seconds."""
    begun = time.monotonic()
    p = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    out = p.stdout.read()
    _, _, usage = os.wait4(p.pid, 0)
    p.returncode = 0
    found = re.search(pattern, out)
    return int(found[1]) if found else 0, time.monotonic() - begun, usage.ru_utime + usage.ru_stime

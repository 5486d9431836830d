#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`lacquer plan`: what the model says is what a simulation of the same queue, event by event, gives; times measured from a log, from a
running server's log and from its counters (ours and Varnish's) are those that were made; memory follows from what simulate says.
"""
import collections
import heapq
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd, die_with_parent, workdir
from bed.http import Client
from bed.origin import Origin, simple
from bed.report import Report, options

LIMIT = 120
GENUINE = "/usr/sbin/varnishd"


class Bed:
    def __init__(self, program, seed, is_full):
        self.program, self.dir, self.rng, self.is_full = program, workdir(), random.Random(seed), is_full

    def run(self, *args):
        p = subprocess.run([self.program, "plan", *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        return p.returncode, p.stdout.decode(), p.stderr.decode()

    def json(self, *args):
        status, out, err = self.run("--format", "json", *args)
        try:
            return json.loads(out)
        except ValueError:
            raise AssertionError(f"status {status}, no JSON: {out[:200]!r} {err[:500]!r}")


def play(rng, classes, workers, slots, n):
    """A queue, first come first served: the share of the refused, all waits of each class. `classes`: rate, mean time."""
    total = sum(rate for rate, _ in classes)
    free, waiting, waits, refused, now = [0.0] * workers, collections.deque(), [[] for _ in classes], 0, 0.0
    for _ in range(n):
        now += rng.expovariate(total)
        kind = rng.choices(range(len(classes)), [rate for rate, _ in classes])[0]
        while waiting and waiting[0] <= now:
            waiting.popleft()
        if slots is not None and len(waiting) >= slots and free[0] > now:
            refused += 1
            continue
        begin = max(now, free[0])
        heapq.heapreplace(free, begin + rng.expovariate(1 / classes[kind][1]))
        if begin > now:
            waiting.append(begin)
        waits[kind].append(begin - now)
    return refused / n, waits


def near(got, want, within, floor=0.0):
    return abs(got - want) <= max(within * want, floor)


def queues(report, bed):
    """One class: what is refused, what is waited on average and by 95 of 100."""
    n = 1_000_000 if bed.is_full else 200_000
    for workers, slots, rate, service in ((1, 4, 1.0, 0.8), (3, 2, 20.0, 0.12), (8, 0, 10.0, 0.7), (8, 40, 90.0, 0.1), (4, None, 32.0, 0.1)):
        refused, (waits,) = play(bed.rng, [(rate, service)], workers, slots, n)
        waits.sort()
        args = ["--workers", workers, "--rate", rate, "--service", f"{service}s", *(["--queue", slots] if slots is not None else [])]
        now = bed.json(*args)["now"]
        mean, late = sum(waits) / len(waits), waits[len(waits) * 95 // 100]
        what = f"{workers} workers, {slots} slots, {rate} of {service} s"
        report.check(near(now["refused_percent"] / 100, refused, 0.08, 0.004), f"{what}: refused {now['refused_percent']} % for {refused}")
        report.check(near(now["wait_seconds"], mean, 0.08, 0.02 * service), f"{what}: mean wait {now['wait_seconds']} for {mean}")
        report.check(near(now["wait_95_seconds"], late, 0.08, 0.02 * service), f"{what}: 95 of 100 wait {now['wait_95_seconds']} for {late}")


def coffee(report, bed):
    """The shop of the field report: one worker, then three with two slots; bread that takes as long as four cups and clogs it."""
    status, out, _ = bed.run("--workers", 1, "--rate", "12/h", "--service", "5m")
    report.check(status == 1 and "12.0 an hour at most by work alone" in out and "for ever" in out, f"12 an hour at 5 minutes: {out}")
    r = bed.json("--workers", 3, "--queue", 2, "--rate", "20/h", "--service", "7m")
    report.check(near(r["ceiling_rate"] * 3600, 3 * 60 / 7, 0.001), f"three at 7 minutes: {r['ceiling_rate'] * 3600} an hour")
    refused, _ = play(bed.rng, [(20 / 3600, 420)], 3, 2, 80_000)
    report.check(near(r["now"]["refused_percent"] / 100, refused, 0.05), f"who walks away: {r['now']} for {refused}")
    report.check(r["loads"][3]["refused_percent"] > r["now"]["refused_percent"], "more walk away at twice the load")
    # Customers of bread are few, and all wait for them.
    classes = ["--class", "coffee:36/h:3m", "--class", "bread:3/h:20m"]
    r = bed.json("--workers", 4, *classes)
    _, (cups, loaves) = play(bed.rng, [(36 / 3600, 180), (3 / 3600, 1200)], 4, None, 120_000)
    mean = (sum(cups) + sum(loaves)) / (len(cups) + len(loaves))
    # Allen and Cunneen's is an approximation.
    report.check(near(r["now"]["wait_seconds"], mean, 0.25), f"one queue: {r['now']['wait_seconds']} for {mean}")
    own = {queue["name"]: queue for queue in r["queues_of_their_own"]}
    report.check(sum(queue["workers"] for queue in own.values()) == 4 and len(own) == 2, f"the workers are shared out: {own}")
    for name, rate, service in (("coffee", 36 / 3600, 180), ("bread", 3 / 3600, 1200)):
        _, (waits,) = play(bed.rng, [(rate, service)], own[name]["workers"], None, 80_000)
        report.check(near(own[name]["wait_seconds"], sum(waits) / len(waits), 0.2), f"{name} by itself: {own[name]} for {sum(waits) / len(waits)}")
    # What it takes for four times the load does, and one worker less doesn't.
    need = r["needs"][2]["workers"]
    at = lambda workers: bed.run("--workers", workers, "--wait", f"{r['limits']['wait_95_seconds']}s", "--class", "coffee:144/h:3m", "--class", "bread:12/h:20m")[0]
    report.check((at(need), at(need - 1)) == (0, 1), f"{need} workers for four times the load")
    most = r["most_rate"] / r["rate"]
    scaled = lambda f: bed.run("--workers", 4, "--wait", f"{r['limits']['wait_95_seconds']}s", "--class", f"coffee:{36 * f}/h:3m", "--class", f"bread:{3 * f}/h:20m")[0]
    report.check((scaled(most * 0.99), scaled(most * 1.01)) == (0, 1), f"{most} times the load is the limit")


def users(report, bed):
    """Users from think time."""
    r = bed.json("--workers", 64, "--rate", 3000, "--service", "10ms", "--think", "10s")
    report.check(near(r["users_now"], 3000 * 10.01, 1e-6), f"users are rate times think time: {r['users_now']}")
    r = bed.json("--workers", 64, "--rate", 3000, "--service", "10ms", "--think", "10s", "--per-page", 100)
    report.check(near(r["users_now"], 30 * 10.01, 1e-6), f"with 100 requests a page: {r['users_now']}")
    status, out, _ = bed.run("--workers", 64, "--rate", 3000, "--service", "10ms", "--think", "10s")
    report.check(status == 0 and "Users at the same time: 30030 now, 60" in out and re.search(r"times what comes, \d+ users\n", out), f"told: {out}")
    # With one worker who is busy for four fifths of the time one waits for four times the service.
    r = bed.json("--workers", 1, "--rate", 0.8, "--service", "1s", "--think", "10s")
    report.check(near(r["users_now"], 0.8 * (10 + 4 + 1), 1e-6) and r["users_twice"] is None, f"users wait, too: {r['users_now']} {r['users_twice']}")
    r = bed.json("--workers", 3, "--queue", 20, "--rate", 2, "--service", "1s", "--think", "10s")
    report.check(near(r["users_twice"], 4 * (11 + r["loads"][3]["wait_seconds"]), 1e-6), f"at twice the load: {r['users_twice']} {r['loads'][3]}")


def memory(report, bed):
    """How much memory for which hit rate, by what simulate said; 30G of 32G."""
    points = [(1 << 30, 60.0, 0.3), (2 << 30, 99.0, 25.1), (8 << 30, 90.0, 0.3), (16 << 30, 95.0, 0.3), (32 << 30, 99.0, 0.3), (64 << 30, 100.0, 0.3)]
    file = bed.dir / "sizes.json"
    file.write_text(json.dumps({"cases": [{"case": "as it is", "curves": [
        {"policy": "lru", "points": [{"memory_bytes": 1 << 30, "hit_percent": 1.0}]},
        {"policy": "lacquer", "points": [{"memory_bytes": m, "hit_percent": h, "hit_error": e} for m, h, e in points]}]}]}))
    args = ["--workers", 10, "--rate", 100, "--service", "100ms", "--requests", 1000, "--simulated", file, "--ram", "32G"]
    r = bed.json(*args)
    got = [(size["memory_bytes"], size["hit_percent"], round(size["rate"], 6), size["holds"]) for size in r["memory"]]
    report.check(got == [(1 << 30, 60.0, 400, False), (8 << 30, 90.0, 100, False), (16 << 30, 95.0, 50, True), (32 << 30, 99.0, 10, True), (64 << 30, 100.0, 0, True)], f"what is left: {got}")
    report.check(near(r["memory"][2]["times_the_load"], r["most_rate"] / 50, 1e-6), f"how often: {r['memory'][2]}")
    report.check(r["memory"][-1]["times_the_load"] is None, f"where all hits, no load is too much: {r['memory'][-1]}")
    report.check(any("1 sizes left out" in remark for remark in r["remarks"]), f"what simulate doesn't know is told: {r['remarks']}")
    store = r["store"]
    report.check(store["memory_bytes"] == 30 << 30 and 98.0 < store["hit_percent"] < 99.0, f"the store of 32G: {store}")
    status, out, _ = bed.run(*args)
    report.check(re.search(r"64G +100.00 .* -\n", out) and "-s malloc,30G" in out and "For 1 times the load: 16G, 95.00 % hits" in out, f"told: {out}")


def log(report, bed):
    """A log whose times are known: the busiest minute is planned for."""
    lines, total, n = [], 0.0, 0
    for minute, count in ((0, 600), (1, 1200), (2, 300)):
        for at in range(count):
            stamp = f"06/Sep/2012:12:{minute:02}:{at * 60 // count:02} +0000"
            micro = round(bed.rng.expovariate(1 / 50_000))
            total, n = total + micro, n + 1
            lines.append(f'192.0.2.1 {stamp} "GET /{at} HTTP/1.1" 200 5 {micro} miss\n')
            lines += [f'192.0.2.1 {stamp} "GET /{at} HTTP/1.1" 200 5 90 hit\n'] * 3
    path = bed.dir / "own.log"
    path.write_text("".join(line.replace(" 06/", " [06/").replace("+0000 ", "+0000] ") for line in lines))
    form = ["--log-format", '%h %t "%r" %>s %b %D %{Varnish:handling}x']
    r = bed.json("--workers", 4, *form, path)
    report.check(near(r["rate"], 20, 1e-6) and near(r["requests_rate"], 80, 1e-6), f"the busiest minute: {r['rate']} of {r['requests_rate']}")
    report.check(near(r["service_seconds"], total / n / 1e6, 1e-3) and near(r["cv"], 1, 0.1), f"a fetch: {r['service_seconds']} {r['cv']}")
    split = bed.json("--workers", 4, "--split", "100ms", *form, path)["classes"]
    report.check([c["name"] for c in split] == ["short", "long"] and split[0]["service_seconds"] < 0.1 < split[1]["service_seconds"], f"two classes: {split}")
    every = bed.json("--workers", 4, "--of", "requests", *form, path)
    report.check(near(every["rate"], 80, 1e-6), f"all requests: {every['rate']}")
    plain = bed.dir / "plain.log"
    plain.write_text('192.0.2.1 - - [06/Sep/2012:12:00:00 +0000] "GET / HTTP/1.1" 200 5\n' * 9)
    status, out, err = bed.run("--workers", 4, plain)
    report.check(status == 2 and "no fetches with their times" in err and not out, f"a log without times: {err}")
    damaged = bed.dir / "damaged.log"
    wrong = b'192.0.2.1 [01/Jan/1970:00:00:01 +0000] "GET /wrong HTTP/1.1" 200 5 50000 miss\n'
    damaged.write_bytes(path.read_bytes() + wrong + b"x" * 1_000_000 + b"\n\x00\xff\n")
    r = bed.json("--workers", 4, *form, damaged)
    report.check(near(r["rate"], 20, 1e-6) and all(any(w in remark for remark in r["remarks"]) for w in ("too long", "1 requests of quite another time")), f"damage is told: {r['remarks']}")


VCL = """vcl 4.1;
backend default {{ .host = "127.0.0.1"; .port = "{port}"; }}
sub vcl_recv {{ return (pass); }}
"""
SLOW = 0.3  # seconds: most of what a client waits for, on a busy machine, too


def running(report, bed):
    """A server whose backend takes a known time, four requests at once: by its log, and by its counters alone."""
    def answer(method, path, fields):
        time.sleep(SLOW)
        return "", b"x"

    over = threading.Event()

    def ask(address):
        c = Client(address)
        while not over.is_set() and c.request("/").whole():
            pass

    with Origin(simple(answer)) as origin:
        for program in (str(pathlib.Path(bed.program).parent / "varnishd"), GENUINE):
            who = "varnishd" if program == GENUINE else "lacquer"
            with Varnishd(program, vcl=VCL.format(port=origin.address[1])) as v:
                over.clear()
                threads = [threading.Thread(target=ask, args=(v.address,)) for _ in range(4)]
                [t.start() for t in threads]
                r = {"by counters": bed.json("--workers", 8, "-n", v.n, "--counters", "-d", "3s"), "by log": bed.json("--workers", 8, "-n", v.n, "-d", "3s")}
                over.set()
                [t.join() for t in threads]
            for how, r in r.items():
                # A loaded machine makes it slower, never faster.
                report.check(SLOW * 0.9 <= r["service_seconds"] <= SLOW * 4, f"{who}, {how}: a fetch takes {r['service_seconds']}")
                report.check(near(r["rate"] * r["service_seconds"], 4, 0.4), f"{who}, {how}: four at once: {r['rate']} of {r['service_seconds']}")
                report.check(near(r["now"]["busy_percent"], 50, 0.4), f"{who}, {how}: half of eight workers are busy: {r['now']}")
    status, out, err = bed.run("--workers", 8, "-n", bed.dir / "none", "--counters")
    report.check(status == 2 and not out and err, f"no server: {status} {err}")


def words(report, bed):
    bad = bed.dir / "bad.json"
    bad.write_text("{}")
    for args, want in (([], "--workers is missing"), (["--workers", 1], "which log"), (["--workers", 1, "--rate", 0, "--service", "1s"], "nothing comes"),
                       (["--workers", 1, "--rate", 1, "--service", "1s", "--simulated", bad], "isn't what lacquer simulate"),
                       (["--workers", 1, "--of", "requests", "--simulated", bad, bad], "not with --of requests"),
                       (["--workers", 1, "--rate", 1, "--service", "1s", "--simulated", "/nonexistent"], "/nonexistent")):
        status, out, err = bed.run(*args)
        report.check(status == 2 and want in err and not out, f"{args}: {status} {err}")


def main():
    o = options(__doc__)
    report = Report("plan")
    bed = Bed(str(pathlib.Path(o.varnishd).parent / "lacquer"), o.seed, o.full)
    for case in (queues, coffee, users, memory, log, running, words):
        report.run([case], report, bed)
    shutil.rmtree(bed.dir)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

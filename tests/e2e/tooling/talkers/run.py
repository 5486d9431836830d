#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`lacquer talkers`: who has most is found among any number in a megabyte, and counts are those of the log; of running servers, ours and
Varnish's, hits, misses and the time of backends are those that were made; the ACL is one; the screen shows it.
"""
import collections
import gzip
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from bed.daemon import Varnishd, die_with_parent, peak, workdir
from bed.http import Client
from bed.logs import Saved, is_followed
from bed.origin import Origin, simple
from bed.report import Report, options, until
from screens import Terminals

LIMIT = 120
GENUINE = "/usr/sbin/varnishd"
AGENTS = {"Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0": "Firefox", "curl/7.88.1": "curl",
          "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)": "Googlebot"}


def line(client="192.0.2.1", url="/", size=1, referer="-", agent="curl/7.88.1", second=0, host="www.example.com"):
    stamp = f"06/Sep/2012:12:{second // 60 % 60:02}:{second % 60:02} +0000"
    return f'{host} {client} - - [{stamp}] "GET {url} HTTP/1.1" 200 {size} "{referer}" "{agent}"\n'


class Bed:
    def __init__(self, program, seed, is_full):
        self.program, self.dir, self.rng, self.is_full = program, workdir(), random.Random(seed), is_full

    def write(self, name, lines):
        path = self.dir / name
        path.write_text("".join(lines))
        return path

    def run(self, *args, stdin=None):
        p = subprocess.run([self.program, "talkers", *map(str, args)], input=stdin, capture_output=True, timeout=LIMIT)
        return p.returncode, p.stdout.decode(), p.stderr.decode()

    def json(self, *args):
        status, out, err = self.run("--format", "json", *args)
        try:
            return json.loads(out)
        except ValueError:
            raise AssertionError(f"status {status}, no JSON: {out[:200]!r} {err[:500]!r}")

    def peak(self, *args):
        """The most memory of a run, in bytes."""
        return peak([self.program, "talkers", *args])[2]


# How lines with a name and an address in front are read: it fits, but nothing proves it.
HOST_FIRST = "the first word is taken as the host"


def rows(result, by):
    return next(table["rows"] for table in result["tables"] if table["by"] == by)


def zipf(report, bed):
    """A trace of the usual shape: the first twenty by each thing and measure, with a megabyte for all of it."""
    keys, n = (100_000, 1_000_000) if bed.is_full else (20_000, 40_000)
    weights = [1 / rank for rank in range(1, keys + 1)]
    clients = bed.rng.choices(range(keys), weights, k=n)
    urls = bed.rng.choices(range(keys), weights, k=n)
    exact = {what: collections.Counter() for what in ("client", "url", "agent", "bytes of url")}
    lines = []
    for at, (c, u) in enumerate(zip(clients, urls)):
        client, url, agent = f"10.{c >> 16}.{c >> 8 & 255}.{c & 255}", f"/a/longer/path/to/page-{u}.html", bed.rng.choice(list(AGENTS))
        size = bed.rng.randrange(1, 5000)
        lines.append(line(client, f"{url}?x={at}", size, agent=agent, second=at // 100))
        exact["client"][client] += 1
        exact["url"][f"www.example.com{url}"] += 1
        exact["agent"][AGENTS[agent]] += 1
        exact["bytes of url"][f"www.example.com{url}"] += size
    log = bed.write("zipf.log", lines)
    first = lambda what, most=20: sorted(exact[what].items(), key=lambda pair: (-pair[1], pair[0]))[:most]
    for args, what, by, field in ((["--by", "client,network,url,agent,page"], "client", "client", "requests"),
                                  (["--by", "client,network,url,agent,page"], "url", "url", "requests"),
                                  (["--by", "agent"], "agent", "agent", "requests"),
                                  (["--by", "client,url", "--sort", "bytes"], "bytes of url", "url", "bytes")):
        r = bed.json("--memory", "1m", "--top", 20, *args, log)
        got, want = rows(r, by), first(what)
        # Those with as many may stand in any order, and which of them is last is nobody's right.
        fits = all(row[field] == count and exact[what][row["key"]] == count for row, (_, count) in zip(got, want))
        report.check(len(got) == len(want) and fits, f"the first by {what}: {[(g['key'], g[field]) for g in got]} of {want}")
        report.check(all(row[field] <= exact[what][row["key"]] <= row[field] + row["error"] for row in got), f"{what}: counts and their errors")
        report.check(r["total"]["requests"] == n and all(HOST_FIRST in remark for remark in r["remarks"]), f"{what}: all were counted: {r['total']} {r['remarks']}")
    small = bed.peak("--memory", "1m", bed.write("one.log", lines[:1]))
    # Tables of all these would take 80 MB. The program's own pages are counted, too, and differ by 2 MB on a busy machine.
    large = bed.peak("--memory", "1m", bed.write("wide.log", (line(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}", f"/page-{n}.html", n) for n in range(160_000))))
    report.check(large - small < 8 << 20, f"memory is bounded: {small} for a line, {large} for 160,000")
    different = next(t for t in bed.json("--memory", "1m", log)["tables"] if t["by"] == "client")
    really = len(exact["client"])
    report.check(not different["is_distinct_exact"] and abs(different["distinct"] / really - 1) < 0.1, f"about how many: {different['distinct']} of {really}")
    packed = bed.dir / "zipf.log.gz"
    packed.write_bytes(gzip.compress(log.read_bytes(), 1))
    status, out, err = bed.run("--by", "url", "--top", 3, packed)
    report.check(status == 0 and re.search(r"URLs by requests \((about )?\d+\)", out) and len(out.splitlines()) == 7 and HOST_FIRST in err and err.count("\n") == 1, f"the table: {out} {err}")


def flood(report, bed):
    """18,000 addresses of an attack beside the usual readers: counted one by one, and as an ACL."""
    attack = [f"10.{n // 256 % 8}.{n % 256}.{n // 2048 + 1}" for n in range(18_000)]
    lines = [line(client, "/login", second=at // 100) for at, client in enumerate(attack * 2)]
    lines += [line(f"198.51.100.{n % 50 + 1}", f"/page-{n % 7}") for n in range(1000)]
    lines += [line("2001:db8::7", "/")] * 900
    bed.rng.shuffle(lines)
    log = bed.write("flood.log", lines)
    r = bed.json("--by", "client,network", "--prefix", 16, "--top", 9, log)
    clients, networks = r["tables"]
    report.check(clients["is_distinct_exact"] and clients["distinct"] == 18_051, f"so many addresses: {clients['distinct']}")
    report.check(clients["rows"][0]["key"] == "2001:db8::7" and clients["rows"][0]["requests"] == 900, f"the first: {clients['rows'][0]}")
    want = {f"10.{n}.0.0/16" for n in range(8)} | {"198.51.0.0/16"}
    report.check({row["key"] for row in networks["rows"]} == want, f"networks: {networks['rows']}")
    status, acl, err = bed.run("--acl", "flood", "--by", "network", "--prefix", 16, "--least", 5, log)
    report.check(status == 0 and acl.startswith("acl flood {\n") and acl.count('"10.') == 8 and "198.51" not in acl, f"the ACL: {acl} {err}")
    status, six, err = bed.run("--acl", "both", "--top", 1, log)
    report.check('"2001:db8::7";' in six, f"an ACL of clients: {six}")
    vcl = bed.write("acl.vcl", ["vcl 4.1;\nbackend default none;\n", acl, six,
                                "sub vcl_recv { if (client.ip ~ flood || client.ip ~ both) { return (synth(403)); } }\n"])
    for program in (str(pathlib.Path(bed.program).parent / "varnishd"), GENUINE):
        p = subprocess.run([program, "-C", "-f", str(vcl), "-n", str(bed.dir / "n")], capture_output=True, text=True, timeout=LIMIT)
        report.check(p.returncode == 0, f"{program} takes it: {p.stderr[-500:]}")


def pages(report, bed):
    """A page of 91 elements and one of 104; which those are."""
    lines = []
    for page, n in (("https://www.example.com/", 104), ("http://WWW.example.com/small?x=1#top", 91)):
        for view in range(5):
            lines += [line(url=f"/static/{n}-{element}.png?v={view}", referer=page, size=100) for element in range(n)]
    lines += [line(url="/", referer="-")] * 40
    bed.rng.shuffle(lines)
    log = bed.write("pages.log", lines)
    found = {row["key"]: row for row in rows(bed.json("--by", "page", log), "page")}
    report.check(set(found) == {"www.example.com/", "www.example.com/small"}, f"the pages: {list(found)}")
    for key, n in (("www.example.com/", 104), ("www.example.com/small", 91)):
        row = found.get(key, {"requests": 0, "elements": 0})
        report.check(row["requests"] == 5 * n and row["bytes"] == 500 * n, f"requests of {key}: {row}")
        report.check(abs(row["elements"] / n - 1) < 0.1, f"elements of {key}: {row['elements']} of {n}")
    elements = bed.json("--by", "url", "--top", 0, "--only", "page=www.example.com/", log)
    report.check({row["key"] for row in rows(elements, "url")} == {f"www.example.com/static/104-{n}.png" for n in range(104)}, "the elements of one")
    report.check(any("other requests left out" in remark for remark in elements["remarks"]), f"the others are told: {elements['remarks']}")


VCL = """vcl 4.1;
backend default {{ .host = "127.0.0.1"; .port = "{port}"; }}
sub vcl_recv {{
    if (req.url ~ "^/pass") {{ return (pass); }}
    if (req.url ~ "^/again" && req.restarts == 0) {{ return (restart); }}
    if (req.url ~ "^/made") {{ return (synth(403)); }}
}}
"""
SLOW = 1.0  # seconds: longer than any other fetch takes, on a busy machine, too


def running(report, bed):
    """A server's own log: ours and Varnish's."""
    def answer(method, path, fields):
        if path.startswith("/slow"):
            time.sleep(SLOW)
        return "Cache-Control: max-age=60\r\n", b"x" * 100

    with Origin(simple(answer)) as origin:
        for program in (str(pathlib.Path(bed.program).parent / "varnishd"), GENUINE):
            with Varnishd(program, vcl=VCL.format(port=origin.address[1])) as v:
                who = "varnishd" if program == GENUINE else "lacquer"
                p = subprocess.Popen([bed.program, "talkers", "-n", str(v.n), "--by", "url,client,agent", "--sort", "backend", "--format", "json"],
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=die_with_parent)
                with Saved(v, bed.dir / f"{who}.vsl") as saved:
                    report.check(is_followed(v, p.pid, saved.proc.pid), f"{who}: it follows the log")
                    c = Client(v.address)
                    for path, n in (("/hit", 10), ("/slow-1", 2), ("/pass", 4), ("/again", 3), ("/made", 2)):
                        for _ in range(n):
                            c.request(path, [("User-Agent", "curl/7.88.1")])
                    c.request("/slow-2", [("User-Agent", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)")])
                    until(60, lambda: c.request("/last", [("User-Agent", "end")]).status and saved.has(b"/last"))
                    p.send_signal(signal.SIGINT)
                    out, err = p.communicate(timeout=LIMIT)
            live = json.loads(out)
            report.check(p.returncode == 0 and any("ended early" in remark for remark in live["remarks"]), f"{who}: ended by a signal: {live['remarks']} {err}")
            later = bed.json("--by", "url,client,agent", "--sort", "backend", saved.path)
            for how, r in (("live", live), ("saved", later)):
                urls = {row["key"].removeprefix("bed.test"): row for row in rows(r, "url")}
                for path, want in (("/slow-1", (2, 200, 1, 1)), ("/pass", (4, 400, 0, 4)), ("/again", (3, 300, 2, 1)), ("/hit", (10, 1000, 9, 1))):
                    row = urls.get(path, collections.defaultdict(int))
                    got = tuple(row[field] for field in ("requests", "bytes", "hits", "misses"))
                    report.check(got == want, f"{who}, {how}: {path}: {got} for {want}")
                order = [row["key"].removeprefix("bed.test") for row in rows(r, "url")][:2]
                report.check(set(order) == {"/slow-1", "/slow-2"}, f"{who}, {how}: what holds the backend is first: {order}")
                report.check(all(SLOW <= urls[path]["backend_seconds"] < SLOW + 30 for path in order), f"{who}, {how}: its time: {urls}")
                agents = {row["key"]: row["requests"] for row in rows(r, "agent")}
                report.check(agents.get("Googlebot") == 1 and agents.get("curl") == 21, f"{who}, {how}: programs that waited for a backend: {agents}")
                made = rows(bed.json("--by", "url", "--only", "status=403", saved.path), "url")
                report.check([(row["key"], row["requests"], row["misses"]) for row in made] == [("bed.test/made", 2, 0)], f"{who}: made here: {made}")


def again_and_again(report, bed):
    """A report each time, of what came in it."""
    log = bed.dir / "pipe"
    os.mkfifo(log)
    p = subprocess.Popen([bed.program, "talkers", "--every", "200ms", "--format", "json", "--by", "client", str(log)], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=die_with_parent)
    reports = []
    with open(log, "w") as to:
        for part in range(3):
            to.write(line(f"192.0.2.{part}") * 10)
            to.flush()
            while not reports or sum(r["total"]["requests"] for r in reports) < 10 * (part + 1):
                reports.append(json.loads(p.stdout.readline()))
        # Nothing came since the last one.
        idle = until(60, lambda: not (reports.append(json.loads(p.stdout.readline())) or reports[-1]["total"]["requests"]))
    rest, err = p.communicate(timeout=LIMIT)
    reports += [json.loads(text) for text in rest.splitlines()]
    busy = [r for r in reports if r["total"]["requests"]]
    report.check(sum(r["total"]["requests"] for r in reports) == 30 and not err, f"each once: {reports} {err}")
    report.check([rows(r, "client")[0]["key"] for r in busy] == [f"192.0.2.{n}" for n in range(3)], f"each in its time: {busy}")
    report.check(idle and p.returncode == 0, f"something was told, though not at the end: {p.returncode}")
    one = bed.write("one.log", [line()])
    for args, want in (([], 1), (["--only", "client=none"], 0)):
        status, out, err = bed.run("--every", "1h", "--format", "json", "--by", "client", *args, one)
        told = [json.loads(text) for text in out.splitlines()]
        report.check(status == int(not want) and len(told) == 1 and told[0]["total"]["requests"] == want, f"a log that is short, {args}: {status} {out}")


def screen(report, bed):
    """At 80 columns and 24 lines; what has faded there was counted all the same."""
    with Origin(simple(lambda m, path, f: ("Cache-Control: max-age=60\r\n", b"x" * 1000))) as origin, Terminals() as terminals:
        for fade in (["--fade", "0"], []):
            with Varnishd(str(pathlib.Path(bed.program).parent / "varnishd"), vcl=VCL.format(port=origin.address[1])) as v:
                t = terminals.open("faded" if not fade else "whole", bed.program, "talkers", "-n", str(v.n), *fade)
                t.size(80, 24)
                report.check(t.shows(lambda page: page[0].startswith("Clients by requests") and len(page) == 24 and "5 page" in page[23]), f"it begins: {t.page()}")
                c = Client(v.address)
                for n in range(30):
                    c.request(f"/element-{n % 3}", [("Referer", "http://bed.test/p")])
                report.check(t.shows(lambda page: re.match(r"100.0% .* 9[01] % .* 127.0.0.1$", page[3])), f"the client: {t.page()}")
                t.key("3")
                report.check(t.shows(lambda page: page[0].startswith("URLs") and "bed.test/element-0" in "".join(page[3:6])), f"URLs: {t.page()}")
                t.key("m")
                report.check(t.shows(lambda page: page[0].startswith("URLs by misses") and all(re.match(r" 3\d\.\d%", line) for line in page[3:6])), f"misses: {t.page()}")
                t.key("5")
                report.check(t.shows(lambda page: re.search(r" 3  bed.test/p$", page[3])), f"pages and their elements: {t.page()}")
                report.check(all(len(line) <= 80 for line in t.page()), "it fits")
                t.key("q")
                report.check(t.shows(lambda page: any("ended with 0" in line for line in page) and any("Pages by requests" in line for line in page)),
                             f"{fade}: at its end it tells all: {t.page()}")
                report.check(any(re.search(r"^ *100.00 +30 +30000 +90.0 .* 3  bed.test/p$", line) for line in t.page()), f"{fade}: all that was counted: {t.page()}")


def damage(report, bed):
    good = line("10.0.200.1")
    log = bed.dir / "damaged.log"
    log.write_bytes(good.encode() * 3 + b"\x00\xff\n" + b'10.0.200.1 - - [06/Sep/2012:12:00:00 +1200] "GET /\n' + b"x" * 1_000_000 + b"\n"
                    + b'10.0.200.1 - - [06/Sep/2012:12:00:00 +1200] "GET /a\\"b\\x00\\xff HTTP/1.1" 200 5 "\\x00" "\\"\n' + good.encode())
    r = bed.json(log)
    told = " ".join(r["remarks"])
    report.check(rows(r, "client")[0]["requests"] == 4 and all(w in told for w in ("1 lines too long", "lines cut off")), f"good lines count: {r}")
    cut = bed.dir / "cut.gz"
    cut.write_bytes(gzip.compress(good.encode() * 5000)[:-20])
    report.check(any("cut off" in remark for remark in bed.json(cut)["remarks"]), "a cut file is told")
    status, out, err = bed.run("--sort", "misses", log)
    report.check(status == 0 and "4 requests that don't say whether they were hits" in err, f"what a log doesn't say is told: {err}")
    fields = '%h "%r" %>s %b %D %{Varnish:handling}x'
    r = bed.json("--by", "url", "--sort", "backend", "--log-format", fields, bed.write("own.log", ['192.0.2.1 "GET /a HTTP/1.1" 200 5 250000 miss\n',
                 '192.0.2.1 "GET /b HTTP/1.1" 200 5 900000 hit\n']))
    first = rows(r, "url")[0]
    report.check((first["key"], first["backend_seconds"], first["misses"]) == ("/a", 0.25, 1), f"a format that says it: {r}")
    for args, want in ((["--by", "asn", log], "--db"), (["--acl", "1", log], "--acl 1"), ([], "which log"), (["--db", log, "--by", "asn", log], "line 1")):
        status, out, err = bed.run(*args)
        report.check(status == 2 and want in err and not out, f"{args}: {status} {err}")
    status, out, err = bed.run("/nonexistent.log")
    report.check(status == 1 and "/nonexistent.log" in err, f"a log that isn't there: {status} {err}")
    local = bed.write("networks", ["10.0.0.0/8\t64500\n"])
    names = bed.write("names", ["AS64500 Local, Ltd\n"])
    r = bed.json("--by", "asn", "--db", local, "--names", names, log)
    report.check([row["key"] for row in rows(r, "asn")] == ["AS64500 Local, Ltd"], f"by system: {r}")


def main():
    o = options(__doc__)
    report = Report("talkers")
    bed = Bed(str(pathlib.Path(o.varnishd).parent / "lacquer"), o.seed, o.full)
    for case in (zipf, flood, pages, running, again_and_again, screen, damage):
        report.run([case], report, bed)
    shutil.rmtree(bed.dir)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

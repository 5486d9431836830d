#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`lacquer simulate`: what it says of a log is what running servers do with the log's requests: Lacquer, and the system's varnishd for LRU; what
other keys and lives would change is what is known of a log made for it; samples say how wrong they are; what is damaged is told.

run.py [--varnishd PROGRAM] [--full]      the long form replays traces of 120,000 requests
"""
import contextlib
import gzip
import itertools
import json
import os
import pathlib
import pty
import random
import shutil
import signal
import subprocess
import sys
import threading
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "bench"))
import traces
from bed import crowds
from bed.daemon import Varnishd, die_with_parent, peak, workdir
from bed.http import get
from bed.logs import is_followed
from bed.origin import Origin, simple
from bed.report import Report, options, until

GENUINE = shutil.which("varnishd", path="/usr/sbin:/usr/bin")
LIMIT = 300
# Live and simulated hit rates are no further apart, in percent of the requests.
NEAR = 1.5


class Tool:
    """The program under test."""

    def __init__(self, program):
        self.program, self.dir = program, workdir()

    def run(self, *args, stdin=None):
        """(status, output, errors)"""
        p = subprocess.run([self.program, "simulate", *map(str, args)], input=stdin, capture_output=True, timeout=LIMIT)
        return p.returncode, p.stdout.decode(), p.stderr.decode()

    def json(self, *args, stdin=None):
        status, out, err = self.run("--format", "json", *args, stdin=stdin)
        try:
            return json.loads(out)
        except ValueError:
            raise AssertionError(f"status {status}, no JSON: {out[:200]!r} {err[:500]!r}")

    def write(self, name, lines):
        path = self.dir / name
        path.write_text("".join(line + "\n" for line in lines))
        return path


def line(url, size=1000, second=0, method="GET", status=200, agent="-"):
    stamp = f"10/Oct/2026:{12 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02} +0000"
    return f'10.0.0.1 - - [{stamp}] "{method} {url} HTTP/1.1" {status} {size} "-" "{agent}"'


def curve(result, policy, case=0):
    curves = {c["policy"]: c["points"] for c in result["cases"][case]["curves"]}
    return {p["memory_bytes"]: p for p in curves[policy]}


def live(report, tool, full):
    """Two traces, one with scans, before running servers of four sizes."""
    count, objects = (120_000, 20_000) if full else (4000, 2000)
    sizes = [8 << 20, 24 << 20, 64 << 20, 128 << 20] if full else [2 << 20, 4 << 20, 7 << 20, 14 << 20]
    servers = [("lacquer", str(pathlib.Path(tool.program).parent / "varnishd"), [])]
    if GENUINE:
        # Its list moves what was used at most every two seconds, else: hours of a log are seconds here.
        servers.append(("lru", GENUINE, ["-p", "lru_interval=0"]))
    else:
        report.note("no varnishd of the system: LRU isn't compared")
    for name, trace in (("zipf", traces.zipf(count, objects)), ("scans", list(traces.scanned(count, objects=objects)))):
        log = tool.write(f"{name}.log", (line(f"http://a.test/z/{n}", traces.size_of(n)) for n in trace))
        said = tool.json("--size", ",".join(map(str, sizes)), log)
        for (policy, program, args), size in itertools.product(servers, sizes):
            answers, fetches, fetched = replayed(tool, program, args, size, log)
            point, sent = curve(said, policy)[size], sum(traces.size_of(n) for n in trace)
            real, guess = 100 - 100 * fetches / len(trace), point["hit_percent"]
            real_bytes, guess_bytes = 100 - 100 * fetched / sent, point["byte_hit_percent"]
            text = f"{name}, {policy}, {size >> 20} MB: {real:.2f} % of the requests hit, {guess:.2f} % were to; of the bytes {real_bytes:.2f}, {guess_bytes:.2f}"
            report.check(answers == len(trace) and abs(real - guess) <= NEAR and abs(real_bytes - guess_bytes) <= NEAR, text)
            if full:
                report.note(text)


def replayed(tool, program, args, size, log):
    """How many requests a server answered, for how many it asked its origin, and for how many bytes."""
    fetches, lock, body = [0, 0], threading.Lock(), bytes(1 << 16)

    def answer(method, path, fields):
        size = traces.size_of(int(path.rsplit("/", 1)[1]))
        with lock:
            fetches[0], fetches[1] = fetches[0] + 1, fetches[1] + size
        return "Cache-Control: max-age=86400\r\n", body[:size]

    with Origin(simple(answer)) as origin, Varnishd(program, args, backend=origin.address, storage=f"malloc,{size}b") as v:
        p = subprocess.run([tool.program, "replay", "--to", "%s:%d" % v.address, "-c", "1", "--format", "json", str(log)],
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        return json.loads(p.stdout)["answers"], *fetches


def keys(report, tool, full):
    """What other keys change: 4 browsers, 18 languages and 2 views are 144 variants; a URL cleaned up; hosts with and without www."""
    languages = "ar bg cs da de en es fi fr hu it ja nl pl pt ru sv".split()
    agents = ["Opera Mini/4.2", "Opera/9.5 (Opera Mobi/49)", "Mozilla/4.0 (compatible; MSIE 7.0)", "Firefox/3.5", "Chrome/4", "Safari/5"]
    draw = random.Random(7)
    lines = []
    for agent, language, view in itertools.product(agents, [*languages, "zh", "ko"], ("mobile=1; id=%d", "id=%d")):
        for _ in range(5):
            lines.append(f'[10/Oct/2026:12:00:00 +0000] "GET http://a.test/ HTTP/1.1" 200 1000 "{agent}" '
                         f'"{language}-{draw.choice("xyz")}x,nn;q=0.{draw.randrange(10)}" "{view % draw.randrange(100)}"')
    draw.shuffle(lines)
    vary = ["--vary", "User-Agent:opera mini|opera mobi|msie", "--vary", "Accept-Language:" + "|".join(languages), "--vary", "Cookie:mobile=1"]
    fields = ["--log-format", '%t "%r" %s %b "%{User-Agent}i" "%{Accept-Language}i" "%{Cookie}i"']
    log = tool.write("variants.log", lines)
    r = tool.json(*fields, log, "--or", *vary, "--or", "--vary", "Accept-Language", "--vary", "Cookie")
    plain, classes, raw = r["cases"]
    report.check(plain["keys"] == 1 and plain["variants"] == {"most": 1, "possible": 1}, f"without variants: {plain}")
    report.check(classes["keys"] == 144 and classes["variants"] == {"most": 144, "possible": 144}, f"144 variants: {classes['variants']}")
    report.check(raw["variants"]["most"] > 500 and raw["variants"]["possible"] is None, f"values as they come: {raw['variants']}")
    status, out, _ = tool.run(*fields, *vary, log)
    report.check(status == 0 and "144 of 144 possible variants of one URL" in out, f"told in words: {out[:300]}")

    # Of 5000 requests 86 % ask for what was asked for before; without what marks readers and campaigns 98 %.
    urls = [f"http://a.test/p{n}?id={n}" for n in range(100)]
    first = urls + [u + mark % n for n, (u, mark) in enumerate(zip(urls * 6, itertools.cycle(("&_=%d", "&utm_source=x%d", "&ref=%d"))))]
    log = tool.write("queries.log", map(line, first + [draw.choice(first) for _ in range(4300)]))
    r = tool.json("--size", "64m", log, "--or", "--drop-query", "_,utm_*,ref", "--or", "--drop-query", "all")
    got = [curve(r, "lacquer", n)[64 << 20]["hit_percent"] for n in range(3)]
    report.check(got == [86.0, 98.0, 98.0], f"a URL cleaned up: {got}")
    log = tool.write("hosts.log", (line(f"http://{host}a.test/{n % 50}") for n in range(1000) for host in ("", "www.")))
    r = tool.json(log, "--or", "--merge-www")
    report.check([c["keys"] for c in r["cases"]] == [100, 50], f"www. dropped: {[c['keys'] for c in r['cases']]}")
    told = [remark for remark in tool.json(log, "--or", "--vary", "Cookie:a|b", "--or", "--pass-cookies", "--merge-www")["remarks"] if "says nothing" in remark]
    want = ["no request of this log tells Cookie: --pass-cookies says nothing", "no request of this log tells Cookie: --vary Cookie says nothing"]
    report.check(told == want, f"fields that the log doesn't have: {told}")


def lives(report, tool, full):
    """Lives of objects, what is passed, a cold beginning that doesn't count."""
    log = tool.write("lives.log", [line("http://a.test/", second=n * 30) for n in range(101)])
    got = {}
    cases = {"60s": "--ttl 60s --grace 0", "20s": "--ttl 20s --grace 0", "grace": "--ttl 20s --grace 30s", "never": "--pass /"}
    r = tool.json("--size", "1m", "--warm-up", 0, log, *(w for c in cases.values() for w in ["--or", *c.split()]))
    for n, name in enumerate(("ever", *cases)):
        got[name] = round(curve(r, "lru", n)[1 << 20]["hit_percent"] * 101 / 100)
    report.check(got == {"ever": 100, "60s": 50, "20s": 0, "grace": 100, "never": 0}, f"hits by the lives of an object: {got}")
    r = tool.json("--size", "1m", "--warm-up", "50", log)
    report.check(curve(r, "lacquer")[1 << 20]["hit_percent"] == 100, f"after warming up: {r['cases']}")
    mixed = [line("http://a.test/"), line("http://a.test/"), line("http://a.test/", method="POST"), line("http://a.test/", status=503)]
    r = tool.json("--size", "1m", tool.write("mixed.log", mixed))
    report.check(r["requests"] == 4 and r["cacheable"] == 2 and r["passed"]["method"] == 1 and r["passed"]["status"] == 1
                 and curve(r, "lru")[1 << 20]["hit_percent"] == 25, f"what can't be kept is no hit: {r}")


def samples(report, tool, full):
    """A sample in little memory says what the whole log says, within its error."""
    count = 1_000_000 if full else 60_000
    log = tool.write("long.log", (line(f"http://a.test/z/{n}", traces.size_of(n)) for n in traces.zipf(count, 20_000)))
    sizes = ["--size", "16m,32m,64m"]
    whole, part = (tool.json("--sample", n, *sizes, log) for n in (count, count // 5))
    report.check(whole["sampled"]["rate"] == 1 and part["sampled"]["rate"] < 0.3 and part["sampled"]["requests"] <= count // 5,
                 f"a sample: {part['sampled']}")
    for policy in ("lacquer", "lru"):
        for size, exact in curve(whole, policy).items():
            guess = curve(part, policy)[size]
            for what in ("hit", "byte_hit"):
                far, error = abs(exact[f"{what}_percent"] - guess[f"{what}_percent"]), guess[f"{what}_error"]
                # One of twenty may be outside; none is far outside.
                report.check(exact[f"{what}_error"] == 0 and 0 < error < 10 and far < 2 * error, f"{policy}, {size >> 20} MB, {what}: off by {far:.2f}, told {error:.2f}")
    near = part["cases"][0]["keys"] / whole["cases"][0]["keys"]
    report.check(0.85 < near < 1.15, f"objects, guessed: {near:.2f} of them")
    # A million objects, and no more memory than is told.
    pages = tool.dir / "pages.log"
    with pages.open("w") as f:
        for n in range(1_000_000 if full else 150_000):
            f.write(line(f"http://a.test/{n}/{n * 7919 % 1000003}") + "\n")
    status, out, used = peak([tool.program, "simulate", "--sample", "20000", "--format", "json", pages])
    report.check(status == 0 and json.loads(out)["requests"] >= 150_000, "many objects")
    report.check(used < 60 << 20, f"memory for a sample of 20,000: {used >> 10} KB")


def duplicates(report, tool, full):
    """The same body under several keys is found by name and length, and by asking."""
    urls = [(f"http://{host}/{path}/logo.png", 50_000) for host in ("a.test", "www.a.test") for path in ("x", "y")]
    urls += [(f"http://a.test/other/{n}.png", 50_000 + n) for n in range(20)] + [("http://a.test/v1/style.css", 9000), ("http://a.test/v2/style.css", 9000)]
    log = tool.write("doubles.log", (line(u, size) for u, size in urls * 2))
    r = tool.json(log)["duplicates"]
    report.check([(g["objects"], g["saved_bytes"], g["requests"]) for g in r["groups"]] == [(4, 150_000, 8), (2, 9000, 4)]
                 and r["saved_bytes"] == 159_000, f"suspects: {r}")

    def answer(method, path, fields):
        name = path.rsplit("/", 1)[1]
        return "", b"l" * 50_000 if name == "logo.png" else path.encode().ljust(9000, b".")

    with Origin(simple(answer)) as origin:
        r = tool.json("--bodies", "%s:%d" % origin.address, log)["duplicates"]["compared"]
        same = [(s["saved_bytes"], sorted(s["urls"])) for s in r["same"]]
        want = [(150_000, sorted(u.removeprefix("http://") for u, _ in urls[:4]))]
        report.check(r["asked"] == 6 and r["failed"] == 0 and same == want, f"asked for: {r}")
        status, out, _ = tool.run("--bodies", "%s:%d" % origin.address, log)
        report.check(status == 0 and "146k saved: a.test/x/logo.png" in out, f"in words: {out[-400:]}")
    r = tool.json("--bodies", "%s:%d" % origin.address, log)["duplicates"]["compared"]
    report.check(r["failed"] == r["asked"] == 6 and not r["same"], f"a server that isn't there: {r}")


def shown(report, tool, full):
    """Tables and charts fit a terminal, pictures are well-formed."""
    log = tool.write("shown.log", (line(f"http://a.test/z/{n}", traces.size_of(n), agent="x") for n in traces.zipf(4000, 2000)))
    status, out, err = tool.run("--sample", 2000, log, "--or", "--ttl", "60s", "--or", "--vary", "User-Agent", "--merge-www")
    wide = [text for text in out.splitlines() if len(text) > 80]
    report.check(status == 0 and not wide and "±" in out and "is enough" in out and "* lacquer   o lru" in out, f"80 columns: {wide} {out[:400]}")
    report.check(not err, f"nothing else is told in a pipe: {err}")
    status, out, _ = tool.run("--format", "svg", log, "--or", "--ttl", "60s")
    lines = [e for e in xml.etree.ElementTree.fromstring(out).iter() if e.tag.endswith("polyline")]
    report.check(status == 0 and len(lines) == 3, f"a picture with {len(lines)} curves")
    status, out, _ = tool.run("--format", "svg", "--size", "64m", log)
    picture = xml.etree.ElementTree.fromstring(out)
    dots = [float(e.get("cx")) for e in picture.iter() if e.tag.endswith("circle")]
    report.check(status == 0 and len(dots) == 2 and all(0 < x < float(picture.get("width")) for x in dots), f"a picture of one size: {dots}")


def read_all(fd, into):
    """What comes from a terminal, until its other end is closed."""
    with contextlib.suppress(OSError):
        while some := os.read(fd, 4096):
            into += some


VCL = """vcl 4.1;
backend default {{ .host = "127.0.0.1"; .port = "{port}"; }}
sub vcl_recv {{ if (req.url ~ "^/[12]$" && req.restarts == 0) {{ return (restart); }} }}
"""


def running(report, tool, full):
    """What a running server is asked, by its log, until Ctrl-C; requests that VCL restarts are answered as in the end."""
    for name, program in (("ours", str(pathlib.Path(tool.program).parent / "varnishd")), ("varnishd", GENUINE)):
        if not program:
            continue
        terminal, end = pty.openpty()
        err = bytearray()
        with Origin(simple(lambda m, path, f: ("", b"x" * 2000))) as origin, Varnishd(program, vcl=VCL.format(port=origin.address[1])) as v:
            p = subprocess.Popen([tool.program, "simulate", "-n", str(v.n), "--size", "1m", "--format", "json"], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=end, preexec_fn=die_with_parent)
            os.close(end)
            reader = threading.Thread(target=read_all, args=(terminal, err), daemon=True)
            reader.start()
            report.check(is_followed(v, p.pid), f"{name}: it follows the log")
            for n in range(20):
                report.check(get(v.address, f"/{n % 5}").whole(), f"{name}: an answer")
            report.check(until(60, lambda: b"\x1b[K20 requests" in err), f"{name}: it tells that it has them all: {bytes(err[-200:])}")
            p.send_signal(signal.SIGINT)
            out, _ = p.communicate(timeout=LIMIT)
            reader.join(LIMIT)
            os.close(terminal)
        r = json.loads(out)
        report.check(p.returncode == 0 and r["requests"] == 20 and curve(r, "lacquer")[1 << 20]["hit_percent"] == 75, f"{name}: what it was asked: {r} {bytes(err)}")
        report.check(r["measured"] == {"requests": 20, "hit_percent": 75.0}, f"{name}: what it did itself, after restarts: {r['measured']}")
        report.check(r["bytes"] == 40_000 and r["passed"]["log"] == 0, f"{name}: restarted requests have their bytes: {r['bytes']} {r['passed']}")
        report.check(any("ended early" in remark for remark in r["remarks"]), f"{name}: ended by a signal: {r['remarks']}")


def damage(report, tool, full):
    """Logs of all sorts that are none: what is good counts, the rest is told."""
    good = line("http://a.test/")
    bad = b"\x00\xff\n" + b'10.0.0.1 - - [10/Oct/2026:12:00:00 +0000] "GET /\n' + b"x" * 1_000_000 + b"\n"
    path = tool.dir / "damaged.log"
    path.write_bytes(bad + good.encode() + b"\n" + bad + good.encode())
    r = tool.json("--size", "1m", path)
    told = " ".join(r["remarks"])
    report.check(r["requests"] == 2 and curve(r, "lru")[1 << 20]["hit_percent"] == 50, f"good lines count: {r}")
    report.check("2 lines too long" in told and "2 lines cut off" in told, f"bad ones are told: {told}")
    cut = tool.dir / "cut.gz"
    cut.write_bytes(gzip.compress("".join(line(f"http://a.test/{os.urandom(8).hex()}") + "\n" for _ in range(4000)).encode())[:-5000])
    r = tool.json(cut, "/nonexistent.log")
    told = " ".join(r["remarks"])
    report.check(r["requests"] > 1000 and "cut off" in told and "/nonexistent.log" in told, f"files cut or missing are told: {told}")
    times = [good.replace("2026:12", year) for year in ("2026:12", "2026:12", "2099:12", "2026:12", "1970:00")]
    r = tool.json("--size", "1m", "--ttl", "1h", tool.write("times.log", times))
    report.check(curve(r, "lru")[1 << 20]["hit_percent"] == 80 and any("2 requests are of quite another time" in t for t in r["remarks"]),
                 f"wrong clocks: {r}")
    urls = tool.write("urls", ["http://a.test/1", "http://a.test/1", "http://a.test/2"])
    r = tool.json("--object-size", "5k", "--size", "1m", urls)
    report.check(round(curve(r, "lru")[1 << 20]["hit_percent"], 2) == 33.33, f"a list of URLs: {r}")
    for args, status, want in (([urls], 2, "--object-size"), (["--object-size", "5k", "--ttl", "1h", urls], 2, "no times"),
                               (["/nonexistent.log"], 1, "no request was read"), ([], 2, "which log"), (["--frob", urls], 2, "--frob"),
                               (["--bodies", "nowhere", path], 2, "--bodies nowhere")):
        got, out, err = tool.run(*args)
        report.check(got == status and want in err and not out, f"{args}: {got} {err}")
    # One that never ends.
    p = subprocess.Popen([tool.program, "simulate", "-d", "1s", "--format", "json", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=die_with_parent)
    with contextlib.suppress(BrokenPipeError):
        while p.poll() is None:
            p.stdin.write((good + "\n").encode() * 100)
    with contextlib.suppress(BrokenPipeError):
        p.stdin.close()
    r = json.loads(p.stdout.read())
    report.check(p.wait() == 0 and r["requests"] > 100 and curve(r, "lru"), f"a log without an end: {r['requests']}")


def bots(report, tool, full):
    """Drawn crowds as a log: crawlers are held, and what isn't known of them is told. Others aren't taken for crawlers."""
    quiet, seconds, seed = (300, 60, report.seed) if full else (120, 20, report.seed)
    readers = crowds.Crowd(seed, quiet + seconds).readers().asks
    words = ["--bots", "--ttl", "60", "--fetch-time", "20ms", "--log-format", '%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" "%{Cookie}i"']

    def judged(name, asks):
        path = tool.write("crowd.log", crowds.log_lines(sorted(asks, key=lambda ask: ask.at)))
        r = tool.json(*words, path)
        report.check(r["requests"] == len(asks), f"{name}: all requests are read: {r['requests']} of {len(asks)}")
        steps = sum(step["requests"] for step in r["steps"].values())
        report.check(steps == r["fetches"] and r["spared_seconds"] <= r["origin_seconds"], f"{name}: each fetch met one step: {r}")
        return r, r["steps"]["waited"]["requests"] + r["steps"]["refused"]["requests"] + r["steps"]["stale"]["requests"]

    _, before = judged("readers", readers)
    for name, draw in crowds.READERS.items():
        more = draw(crowds.Crowd(seed + 1, seconds, quiet)).asks
        r, held = judged(name, readers + more)
        report.check(held - before <= len(more) / 200, f"{name}: {held - before} of {len(more)} requests more are held: {r['crawl'][:2]}")
    more = crowds.Crowd(seed + 1, seconds, quiet).crawlers().asks
    r, held = judged("crawlers", readers + more)
    report.check(held - before > len(more) / 4, f"crawlers: {held - before} of {len(more)} are held")
    told = " ".join(r["remarks"])
    report.check("which requests were hits" in told and "no backend times" in told and "TLS fingerprints" in told, f"what the log lacks is told: {told}")
    report.check(all(row["reason"] and row["requests"] >= row["held"] for row in r["crawl"]) and r["crawl"], f"each group has a reason: {r['crawl']}")
    status, out, _ = tool.run(*words, tool.dir / "crowd.log")
    report.check(status == 0 and f"{r['requests']} requests of {r['clients']} clients" in out and "declared bot" not in out, f"the same as text: {out}")
    none = tool.write("urls", ["http://a.test/1"])
    for args, status, want in ((["--bots", none], 2, "no times"), (["--bots", "--size", "1m", none], 2, "exclude each other"), (["--bots", "/nonexistent.log"], 1, "no request was read")):
        got, out, err = tool.run(*args)
        report.check(got == status and want in err and not out, f"{args}: {got} {err}")


def main():
    o = options(__doc__)
    report = Report("simulate")
    report.seed = o.seed
    tool = Tool(str(pathlib.Path(o.varnishd).parent / "lacquer"))
    for case in (keys, lives, samples, duplicates, shown, running, damage, bots, live):
        report.run([case], report, tool, o.full)
    shutil.rmtree(tool.dir)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

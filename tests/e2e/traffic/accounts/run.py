#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`--bots` (docs/bots.md): crawlers that change their address with each request use up a share of the origin's time, are refused then, and get expired
objects; readers, verified bots and requests that VCL exempts aren't refused. What the log, the counters and VCL say."""
import concurrent.futures
import itertools
import json
import pathlib
import select
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import CliError, Varnishd
from bed.http import Client
from bed.logs import Saved
from bed.origin import Origin, simple
from bed.report import Report, options, until

LIMIT = 30  # seconds; ends a wait for what never comes
WORK = 0.02  # seconds of the origin's work for each response
# The bucket holds 1 s of the origin's time, and nearly nothing comes in.
SETTINGS = ["-p", "bots_least=0.001", "-p", "bots_share=0", "-p", "bots_patience=0", "-p", "bots_learning=0"]
CRAWLERS = 200

VCL = """vcl 4.1;
import purge;
import std;
backend default { .host = "%s"; .port = "%d"; }
sub vcl_recv {
    if (req.http.Set) { set req.bot.class = req.http.Set; }
    if (req.http.Verified) { set req.bot.verified = req.http.Verified; }
    if (req.http.Network) { set req.bot.network = std.integer(req.http.Network, 0); }
    if (req.method == "EXPIRE") { set req.method = "GET"; return (hash); }
}
sub vcl_hit { if (req.http.Fresh) { return (miss); } if (req.http.Expire) { purge.soft(0s, 0s, 60s); return (synth(200)); } }
sub vcl_miss {
    if (req.http.Expire) { return (synth(404)); }
    if (req.http.Refuse && req.bot.class == "crawl") { return (synth(429)); }
}
sub answer { set resp.http.Class = req.bot.class; set resp.http.Cost = req.bot.cost; set resp.http.Budget = req.bot.budget; set resp.http.Net = req.bot.network; }
sub vcl_deliver { call answer; }
sub vcl_synth { call answer; }
"""


class Works:
    """An origin that works for a while on each response."""

    def __init__(self):
        self.asked = []

    def answer(self, _method, path, _fields):
        self.asked.append(path)
        time.sleep(WORK)
        return "Cache-Control: max-age=600\r\n", b"page"


def ask(v, address, path, fields=(), agent="Mozilla/5.0 (X11; Linux x86_64) Firefox/144.0"):
    with Client(v.address, timeout=LIMIT) as client:
        client.send(f"PROXY TCP4 {address} 192.0.2.1 4000 80\r\n".encode())
        return client.request(path, [("User-Agent", agent), *fields])


def address(n):
    return f"10.{n % 250}.{n // 250 % 250}.7"


def crawl(v, first):
    return [ask(v, address(n), f"/crawled/{n}").status for n in range(first, first + CRAWLERS)]


def counter(v, name):
    return v.counter(f"MAIN.{name}")


def enforced(report, program):
    work = Works()
    with Origin(simple(work.answer)) as origin, Varnishd(
            program, ["--bots=on", *SETTINGS, "-a", "127.0.0.1:0,PROXY"], vcl=VCL % origin.address) as v, Saved(v, v.dir / "log") as log:
        ask(v, "192.0.2.9", "/known"), ask(v, "198.51.100.9", "/known")
        report.check(ask(v, "192.0.2.9", "/known").get("Class") == "reader", "a client that reads is a reader")
        statuses = crawl(v, 0)
        report.check(set(statuses) == {200, 429} and statuses[0] == 200 and statuses[-1] == 429, f"crawlers use up their share: {statuses}")
        report.check(len(work.asked) < CRAWLERS - 50, f"the origin is spared: {len(work.asked)} requests")
        refused = statuses.count(429) + 1
        r = ask(v, address(900), "/crawled/900")
        report.check(r.status == 429 and int(r.get("Retry-After")) >= 1 and r.get("Class") == "crawl", f"a refused request: {r} {r.fields}")
        report.check(float(r.get("Budget")) < 0.2, f"req.bot.budget: {r.get('Budget')}")
        statuses = [ask(v, address(910 + n % 2), "/crawled/901").status for n in range(12)]
        report.check(set(statuses) == {429}, f"two clients that repeat a refused request in turn are no crowd: {statuses}")
        refused += statuses.count(429)
        statuses = list(itertools.takewhile(lambda status: status == 429, (ask(v, address(n), "/crawled/900").status for n in range(920, 990))))
        report.check(2 <= len(statuses) < 70, f"a refused request shares nothing until a crowd asks: {statuses}")
        refused += len(statuses)
        report.check(ask(v, address(1000), "/crawled/902", [("Refuse", "1")]).status == 429, "VCL refuses a crawler what isn't in the cache")
        refused += 1
        report.check(ask(v, address(901), "/known").status == 200, "a hit is never refused")
        report.check(ask(v, address(902), "/exempt", [("Set", "reader")]).status == 200, "VCL exempts a request")
        report.check(ask(v, address(903), "/verified", [("Verified", "good.example")]).status == 200, "a verified bot has a budget of its own")
        r = ask(v, address(907), "/network", [("Set", "reader"), ("Network", "64500")])
        report.check(r.get("Net") == "64500", f"req.bot.network: {r.fields}")
        report.check(ask(v, address(907), "/network", [("Network", "-1")]).status == 503, "a network without a number fails VCL")
        report.check(ask(v, address(904), "/wrong", [("Set", "nonsense")]).status == 503, "a class that doesn't exist fails VCL")
        report.check(float(ask(v, "192.0.2.9", "/known").get("Cost")) >= WORK / 2, "req.bot.cost is what a client was charged with")
        ask(v, "192.0.2.9", "/known", [("Expire", "1")])
        before = len(work.asked)
        r = ask(v, address(905), "/known", [("Set", "crawl")])
        report.check(r.status == 200 and len(work.asked) == before, f"a crawler gets an expired object: {r}")
        r = ask(v, address(908), "/known")
        report.check(r.status == 200 and r.get("Class") == "reader" and len(work.asked) == before, f"so does a client that looks like crawlers: {r}")
        r = ask(v, "192.0.2.9", "/known", [("Referer", "https://news.example/")])
        report.check(r.status == 200 and len(work.asked) == before + 1, f"a reader gets a fresh one: {r}")
        report.check(counter(v, "bot_crawl_stale") == 2 and counter(v, "bot_crawl_refused") == refused,
                     f"counters: {counter(v, 'bot_crawl_stale')} stale, {counter(v, 'bot_crawl_refused')} refused")
        report.check(until(LIMIT, lambda: log.has(b"lacquer: bots: verified 1.00: good.example")), "a verified bot is logged")
        report.check(log.has(b"lacquer: bots: crawl 1.00: new client; new clients made "), "a verdict is logged with its reason")
        report.check(log.has(b"bots: the crawlers' share of the backends' time is used up"), "a refusal is logged")
        v.cli.ask("param.set bots observe")
        refused = counter(v, "bot_crawl_refused")
        statuses = crawl(v, 2000)
        report.check(set(statuses) == {200} and counter(v, "bot_crawl_refused") == refused, "observe refuses nobody")
        v.cli.ask("param.set bots off")
        r = ask(v, address(906), "/off")
        report.check((r.get("Class"), r.get("Cost")) == ("reader", "0.000"), f"off: {r.fields}")


def observed(report, program):
    """`observe` changes nothing: the class `crawl` holds up nobody."""
    both = threading.Barrier(2, timeout=LIMIT)

    def answer(_method, path, _fields):
        if path.startswith("/together"):
            both.wait()
        return "", b"page"

    args = ["--bots=observe", "-p", "classes=crawl:workers=1,queue=0", "-a", "127.0.0.1:0,PROXY"]
    with Origin(simple(answer)) as origin, Varnishd(program, args, vcl=VCL % origin.address) as v, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(ask, v, address(n), f"/together/{n}", [("Set", "crawl")]) for n in range(2)]
        statuses = [one.result().status for one in asked]
        report.check(statuses == [200, 200], f"two of the class crawl are fetched at once: {statuses}")
        report.check(counter(v, "bot_crawl") == 2, f"both are counted: {counter(v, 'bot_crawl')}")


def slow_client(report, program):
    """The time in which a client sends its body or takes the response isn't the origin's."""
    held = 3  # seconds
    body = b"a" * (16 << 20)

    def answer(method, path, _fields):
        time.sleep(WORK)
        return "Cache-Control: no-store\r\n", body if (method, path) == ("GET", "/slow") else b"small"

    with Origin(simple(answer)) as origin, Varnishd(program, ["--bots=observe", "-a", "127.0.0.1:0,PROXY"], vcl=VCL % origin.address) as v:
        for n, request in enumerate((b"GET /slow HTTP/1.1\r\nHost: bed.test\r\nUser-Agent: a\r\n\r\n",
                                     b"POST /slow HTTP/1.1\r\nHost: bed.test\r\nUser-Agent: a\r\nContent-Length: 2\r\n\r\na")):
            begun = time.monotonic()
            with Client(v.address, timeout=LIMIT, keep=False, rcvbuf=65536) as client:
                client.send(f"PROXY TCP4 {address(n)} 192.0.2.1 4000 80\r\n".encode() + request)
                time.sleep(held)
                client.send(b"a" if request.startswith(b"POST") else b"")
                r = client.response()
            took = time.monotonic() - begun
            report.check(r.whole(), f"a slow client is served: {r}")
            cost = lambda: float(ask(v, address(n), "/", [("User-Agent", "a"), ("Set", "reader")]).get("Cost"))
            report.comes(lambda: WORK / 2 <= cost() <= took - held / 2, True, f"request {n} of {took:.1f} s costs the origin's time alone")


def parts(report, program):
    """Fragments of a crawler's page are charged to crawlers, and so are no income for them."""
    def answer(_method, path, _fields):
        time.sleep(WORK)
        if path.startswith("/page"):
            return "Cache-Control: max-age=600\r\n", b"".join(b'<esi:include src="/part%s/%d"/>' % (path.encode(), n) for n in range(3))
        return "Cache-Control: max-age=600\r\n", b"part"

    esi = """
sub vcl_backend_response { if (bereq.url ~ "^/page") { set beresp.do_esi = true; } }
# A fragment has no signature.
sub vcl_recv { if (req.esi_level > 0) { set req.bot.verified = ""; } }
"""
    with Origin(simple(answer)) as origin, Varnishd(program, ["--bots=on", "-a", "127.0.0.1:0,PROXY"], vcl=VCL % origin.address + esi) as v:
        r = ask(v, address(1), "/page/1", agent="Examplebot/1.0")
        report.check(r.status == 200 and r.body == b"part" * 3, f"a page with three fragments: {r} {r.body}")
        spent = lambda: (counter(v, "bot_crawl_time") >= 4 * WORK * 1e6, counter(v, "bot_reader_time"))
        report.comes(spent, (True, 0), "all four fetches are the crawler's")
        ask(v, address(2), "/page/2", [("Set", "reader")])
        report.comes(lambda: counter(v, "bot_reader_time") >= 4 * WORK * 1e6, True, "a reader's are readers'")
        ask(v, address(3), "/page/3", [("Verified", "good.example")])
        seconds = lambda: next((row["origin_seconds"] for row in json.loads(v.cli.ask("bots.list -j"))[-1]["accounts"] if row["name"] == "good.example"), 0)
        report.comes(lambda: seconds() >= 4 * WORK, True, "a verified bot's are its own")


def held(report, program):
    """A reader doesn't wait behind a crawler that waits for its share of the origin's time."""
    work = Works()
    patient = ["-p", "bots_least=0.001", "-p", "bots_share=0", "-p", "bots_patience=60"]
    with Origin(simple(work.answer)) as origin, Varnishd(
            program, ["--bots=on", *patient, "-a", "127.0.0.1:0,PROXY"], vcl=VCL % origin.address) as v:
        waiting = []
        for n in range(CRAWLERS):
            crawler = Client(v.address, timeout=LIMIT)
            crawler.send(f"PROXY TCP4 {address(n)} 192.0.2.1 4000 80\r\nGET /held/{n} HTTP/1.1\r\nHost: bed.test\r\nSet: crawl\r\n\r\n".encode())
            until(LIMIT, lambda: select.select([crawler.sock], [], [], 0)[0] or counter(v, "bot_crawl_waited") > len(waiting))
            if counter(v, "bot_crawl_waited") > len(waiting):
                waiting.append((crawler, f"/held/{n}"))
                continue
            crawler.sock.close()
            if counter(v, "bot_crawl_refused"):
                break
        # The one after it would have waited for more than 60 s.
        crawler, page = waiting[-1]
        report.check(page not in work.asked, f"a crawler waits: {page}")
        r = ask(v, "192.0.2.9", page)
        report.check(r.whole(), f"a reader of the same page is served: {r}")
        report.check(crawler.response().whole(), "and so is the crawler")
        report.check(work.asked.count(page) == 1, f"by one fetch: {work.asked[-2:]}")
        for crawler, _ in waiting:
            crawler.sock.close()


def stale(report, program):
    """`vcl_hit` may fetch what a crawler would get expired, and a refusal says why."""
    work = Works()
    args = ["--bots=on", *SETTINGS, "-a", "127.0.0.1:0,PROXY"]
    with Origin(simple(work.answer)) as origin, Varnishd(program, args, vcl=VCL % origin.address) as v:
        ask(v, "192.0.2.9", "/known"), ask(v, "192.0.2.9", "/known", [("Expire", "1")])
        r = ask(v, address(1), "/known", [("Set", "crawl"), ("Fresh", "1")])
        report.check(r.status == 200 and len(work.asked) == 2, f"a fresh object: {r}, {work.asked}")
        r = ask(v, "192.0.2.9", "/known")
        report.check(r.status == 200 and len(work.asked) == 2, f"it is in the cache: {work.asked}")
        refused = next((r for n in range(CRAWLERS) if (r := ask(v, address(n), f"/crawled/{n}", [("Set", "crawl")])).status == 429), None)
        status = refused and refused.get("Proxy-Status")
        report.check("share of the backends' time" in (status or ""), f"Proxy-Status of a refusal: {status}")


def lacquer(v, *words):
    """Exit status, output and errors of a command of `lacquer`, asked about this server."""
    program = pathlib.Path(v.proc.args[0]).with_name("lacquer")
    p = subprocess.run([program, words[0], "-n", str(v.n), *words[1:]], capture_output=True, text=True, timeout=LIMIT)
    return p.returncode, p.stdout, p.stderr


def costs(report, program):
    """Who costs what: `bots.list`, `lacquer talkers --accounts`, and the verdict in `lacquer explain`."""
    work, robot = Works(), "Examplebot/1.0 (+https://bot.example/)"
    with Origin(simple(work.answer)) as origin, Varnishd(
            program, ["--bots=observe", *SETTINGS, "-a", "127.0.0.1:0,PROXY"], vcl=VCL % origin.address) as v:
        for n in range(20):
            ask(v, "192.0.2.7", f"/crawled/{n}", agent=robot)
        for n in range(5):
            ask(v, "198.51.100.9", f"/verified/{n}", [("Verified", "good.example")])
        for address in ("203.0.113.8", "203.0.113.9"):
            ask(v, address, "/read")
        # A thread's hits reach the accounts within a second.
        report.check(until(LIMIT, lambda: json.loads(v.cli.ask("bots.list -j"))[-1]["requests"] == 27), "all requests are in the accounts")
        said = json.loads(v.cli.ask("bots.list -j"))[-1]
        rows = {(row["kind"], row["name"]): row for row in said["accounts"]}
        crawler, bots = rows.get(("client", "192.0.2.7"), {}), {name: row["verdict"] for (kind, name), row in rows.items() if kind == "bot"}
        report.check(crawler.get("verdict") == "crawl" and (crawler["requests"], crawler["misses"], crawler["solo_percent"]) == (20, 20, 100), f"a crawler's account: {crawler}")
        report.check(crawler["origin_seconds"] >= 20 * WORK and 50 < crawler["origin_percent"] < 100, f"what it costs: {crawler}")
        report.check(bots == {"Examplebot": "declared", "good.example": "verified"}, f"bots: {bots}")
        report.check(rows[("client", "203.0.113.9")]["verdict"] == "reader" and rows[("prefix", "203.0.113.0/24")]["verdict"] is None, f"readers: {rows}")
        report.check((said["mode"], said["requests"]) == ("observe", 27), f"all of them: {said['mode']}, {said['requests']} requests")
        clients = [row["origin_seconds"] for row in said["accounts"] if row["kind"] == "client"]
        report.check(clients == sorted(clients, reverse=True), f"the most expensive first: {clients}")
        report.check(len(json.loads(v.cli.ask("bots.list -j 1"))[-1]["accounts"]) == len({kind for kind, _ in rows}), "one of each kind")
        status, out, err = lacquer(v, "talkers", "--accounts", "--format", "json", "--top", "1")
        report.check(status == 0 and json.loads(out)["accounts"][0]["name"] == "192.0.2.7", f"lacquer talkers as JSON: {status} {out} {err}")
        status, out, err = lacquer(v, "talkers", "--accounts")
        report.check(status == 0 and all(word in out for word in ("crawl     192.0.2.7", "verified  good.example", "declared  Examplebot")), f"as text: {status} {out} {err}")
        for words, wanted in ((["-c", "192.0.2.7", "-H", f"User-Agent: {robot}"], "--bots=observe: crawl 1.00: "),
                              (["-c", "203.0.113.8"], "--bots=observe: reader 0.00: new client")):
            status, out, err = lacquer(v, "explain", *words, "http://bed.test/new")
            report.check(status == 0 and wanted in out, f"explain {words}: {status} {out} {err}")
        lacquer(v, "explain", "-c", "203.0.113.8", "-H", f"User-Agent: {robot}", "http://bed.test/new")
        verdicts = {row["name"]: row["verdict"] for row in json.loads(v.cli.ask("bots.list -j"))[-1]["accounts"]}
        report.check(verdicts["203.0.113.8"] == "reader", f"a question about a client makes it no crawler: {verdicts}")
        _, out, _ = lacquer(v, "explain", "-c", "192.0.2.8", "http://bed.test/read")
        report.check("It would be a hit" in out, f"explain of a hit: {out}")
        for words in ("0", "101", "x"):
            report.check(refusal(v, f"bots.list {words}") == 106, f"bots.list {words} is refused")
        v.cli.ask("param.set bots off")
        report.check(refusal(v, "bots.list") == 300, "there are no accounts without --bots")
        status, out, err = lacquer(v, "talkers", "--accounts")
        report.check(status == 2 and "set the parameter bots" in err, f"and talkers says so: {status} {out} {err}")


def refusal(v, command):
    try:
        v.cli.ask(command)
    except CliError as error:
        return int(str(error).removeprefix(f"{command}: ")[:3])
    return 200


def values(report, program):
    with Varnishd(program, backend=("127.0.0.1", 1)) as v:
        for setting, words in (("bots maybe", "Must be off, observe or on"), ("bots_status 200", "400"), ("bots_share 100", "99")):
            try:
                v.cli.ask(f"param.set {setting}")
                report.check(False, f"{setting} is refused")
            except CliError as error:
                report.check(words in str(error), f"{setting}: {error}")
    run = subprocess.run([program, "--bots=sometimes", "-b", "none", "-F"], capture_output=True, text=True, timeout=LIMIT)
    report.check(run.returncode != 0 and "Must be off, observe or on" in run.stdout + run.stderr, f"--bots=sometimes: {run.stdout}{run.stderr}")


def main():
    o = options(__doc__, [enforced, observed, slow_client, held, parts, stale, costs, values])
    report = Report("accounts")
    for case in o.cases:
        case(report, o.varnishd)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

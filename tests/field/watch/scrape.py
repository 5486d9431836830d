# SPDX-License-Identifier: BSD-2-Clause
"""Metrics: judged by promtool, compared with the exporter's, scraped by Prometheus, whose percentiles lie between what each request takes at
least and what its client saw."""
import collections
import json
import pathlib
import random
import re
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request

from bed.daemon import Varnishd, die_with_parent, directory, free_port
from bed.http import Client, get
from bed.origin import Origin, simple
from bed.report import ROOT, until

LIMIT = 60  # seconds; ends a wait for what never comes
PATHS = "/usr/bin:/usr/sbin"
PROMETHEUS, PROMTOOL, EXPORTER, VARNISHSTAT, GENUINE = (
    shutil.which(name, path=PATHS) for name in ("prometheus", "promtool", "prometheus-varnish-exporter", "varnishstat", "varnishd"))
RULES = ROOT / "packaging/files/usr/share/lacquer/prometheus/alerts.yml"
RULE_TESTS = pathlib.Path(__file__).resolve().parent / "alerts.test.yml"
VCL = """vcl 4.1;
backend default { .host = "%s"; .port = "%d"; }
backend other { .host = "127.0.0.1"; .port = "1"; .probe = { .interval = 1s; } }
sub vcl_recv { if (req.url ~ "^/other") { set req.backend_hint = other; } if (req.url ~ "^/pass") { return (pass); } }
"""
# The upper ends of the histograms' buckets, as latency.rs has them.
BOUNDS = [0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1]


def samples(text):
    """Metrics of the text format: name with labels in order, and value."""
    out = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            bare, _, labels = name.partition("{")
            out[bare + "{" + ",".join(sorted(re.findall(r'\w+="(?:[^"\\]|\\.)*"', labels))) + "}"] = float(value)
    return out


def answer(_method, path, _fields):
    if path.startswith("/pass"):
        time.sleep(0.004)
    return "Cache-Control: max-age=600\r\n", b"y" * 3000


def formats(report, o, Watch, ask):
    known = {}
    for name, program in (("ours", o.varnishd), ("varnishd", GENUINE)):
        if not program:
            report.note("no Debian varnishd here")
            continue
        with Origin(simple(answer)) as origin, Varnishd(program, vcl=VCL % origin.address) as v, Watch(o.lacquer, v.n) as w:
            reads_log(report, name, w, ask)
            with Client(v.address) as c:
                for n in range(30):
                    c.request(["/a", "/b", "/pass", "/other/x", "/c?\"\\"][n % 5])
            page = lambda query="", accept="*/*": ask(w.address, f"/metrics{query}", fields=[("Accept", accept)])
            report.comes(lambda: samples(page().body.decode()).get("lacquer_requests_total{}"), 30, f"{name}: lacquer_requests_total")
            # Each path was asked six times; what one backend doesn't answer isn't a hit. The histograms follow the log, which is read later than counters.
            report.comes(lambda: handled(page().body.decode()), {"hit": 15, "miss": 9, "pass": 6}, f"{name}: lacquer_request_duration_seconds_count")
            own = page().body.decode()
            judged(report, f"{name}, own names", own)
            known = samples(own) if name == "ours" else known
            modern = page(accept="application/openmetrics-text;version=1.0.0").body.decode()
            report.check(modern.endswith("# EOF\n") and "# TYPE lacquer_requests counter\n# " not in modern.split("# EOF")[0][-30:] and
                         "# UNIT lacquer_request_duration_seconds seconds" in modern, f"{name}: OpenMetrics: {modern[-200:]}")
            report.check(len({line.split()[2] for line in modern.splitlines() if line.startswith("# TYPE")}) ==
                         sum(line.startswith("# TYPE") for line in modern.splitlines()), f"{name}: families are told once")
            exporter(report, name, v, page)
    p = subprocess.run([PROMTOOL, "check", "rules", RULES], capture_output=True, text=True)
    report.check(p.returncode == 0, f"promtool check rules: {p.stdout}{p.stderr}")
    p = subprocess.run([PROMTOOL, "test", "rules", RULE_TESTS], capture_output=True, text=True, cwd=ROOT)
    report.check(p.returncode == 0, f"promtool test rules: {p.stdout}{p.stderr}")
    dashboard(report, known)


def reads_log(report, name, w, ask):
    """Waits until it reads the log: the histograms have what comes from then on."""
    report.comes(lambda: json.loads(ask(w.address, "/api/state").body)["second"]["log"], lambda log: log["open"], f"{name}: the log is read")


def handled(text):
    """Requests in the histograms of a page, by handling."""
    counts = collections.Counter()
    for key, n in samples(text).items():
        if key.startswith("lacquer_request_duration_seconds_count"):
            counts[re.search('handling="(.*?)"', key)[1]] += n
    return dict(counts)


def judged(report, name, text):
    p = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True)
    report.check(p.returncode == 0, f"{name}: promtool check metrics: {p.stdout[:1500]}{p.stderr[:1500]}")


def exporter(report, name, v, page):
    """The names of the exporter, and its values, but for what moves by being looked at."""
    port = free_port()
    p = subprocess.Popen([EXPORTER, "-n", str(v.n), "-varnishstat-path", VARNISHSTAT, "-web.listen-address", f"127.0.0.1:{port}"],
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)

    def theirs():
        try:
            return samples(urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=LIMIT).read().decode())
        except OSError:
            return None

    is_of_server = lambda key: key.startswith("varnish_") and not key.startswith(("varnish_version", "varnish_exporter"))
    moves = re.compile(r"uptime|lock_|lck_|mempool|happy|backend_up|_shm_|_summs|mem_used|open_files|unhealthy|heartbeat|hcb|_busy_|certs_next|costs_")
    want, got, wrong = {}, {}, []

    def is_equal():
        """Probes count, too: two looks between which there was none are needed."""
        nonlocal want, got, wrong
        want = {key: value for key, value in (theirs() or {}).items() if is_of_server(key)}
        got = samples(page("?names=exporter").body.decode())
        wrong = [(key, value, got[key]) for key, value in want.items() if key in got and got[key] != value and not moves.search(key)]
        return want and not wrong

    try:
        until(LIMIT, is_equal, 0.1)
    finally:
        p.terminate()
        p.wait()
    missing = [key for key in want if key not in got]
    report.check(len(want) > 200 and missing == [], f"{name}: names that the exporter has and we don't ({len(want)}): {missing[:10]}")
    report.check(wrong == [], f"{name}: other values than the exporter's: {wrong[:10]}")
    report.check([key for key in got if key not in want and not key.startswith("varnish_up")] == [],
                 f"{name}: names that the exporter hasn't: {[key for key in got if key not in want][:10]}")


def dashboard(report, known):
    """Each query of the dashboard that is shipped names metrics that there are."""
    file = ROOT / "packaging/files/usr/share/lacquer/grafana/watch.json"
    names = {key.partition("{")[0] for key in known}
    queries = [t["expr"] for panel in json.loads(file.read_text())["panels"] for t in panel.get("targets", [])]
    report.check(len(queries) > 10, f"{file.name}: {len(queries)} queries")
    for query in queries:
        unknown = [n for n in re.findall(r"lacquer_\w+", query) if n not in names]
        report.check(unknown == [], f"{file.name}: {query}: there is no {unknown}")


SPREAD = """
import std;
import vtc;
sub vcl_deliver { if (req.http.Wait) { vtc.sleep(std.duration(req.http.Wait, 1s)); } }
"""
CLIENTS = 4


class Timed:
    """Clients that ask for hits, misses and passes, each of which takes a time that they draw, from 2 to 300 ms; `waits` are these times
    and `times` what the clients saw."""

    def __init__(self, address, seconds):
        self.times, self.waits = ({"hit": [], "miss": [], "pass": []} for _ in range(2))
        self.lock, self.end = threading.Lock(), time.monotonic() + seconds
        self.threads = [threading.Thread(target=self._run, args=(address, n)) for n in range(CLIENTS)]
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join()

    def _run(self, address, number):
        draw, n = random.Random(number), 0
        with Client(address) as c:
            while time.monotonic() < self.end:
                n += 1
                kind, path = (("hit", "/a"), ("miss", f"/new/{number}/{n}"), ("pass", "/pass"))[n % 3]
                wait = 0.002 * 150 ** draw.random()
                sent = time.monotonic()
                c.request(path, fields=[("Wait", f"{1000 * wait:.3f}ms")])
                with self.lock:
                    self.times[kind].append(time.monotonic() - sent)
                    self.waits[kind].append(wait)


def prometheus(report, o, Watch, ask):
    seconds = 60 if o.full else 6
    with directory() as place:
        _prometheus(report, o, Watch, ask, place, seconds)


def _prometheus(report, o, Watch, ask, place, seconds):
    with Origin(simple(answer)) as origin, Varnishd(o.varnishd, vcl=VCL % origin.address + SPREAD) as v, Watch(o.lacquer, v.n) as w:
        config = place / "prometheus.yml"
        config.write_text(f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{RULES}']\nscrape_configs:\n- job_name: lacquer\n"
                          f"  static_configs: [{{targets: ['{w.address[0]}:{w.address[1]}']}}]\n")
        p = subprocess.Popen([PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={place}/data", "--web.listen-address=127.0.0.1:0"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(place / "log", "w"), preexec_fn=die_with_parent)
        try:
            where = until(LIMIT, lambda: re.search(r'"Listening on" address=127.0.0.1:(\d+)', (place / "log").read_text()))

            def query(what):
                address = f"http://127.0.0.1:{where[1]}/api/v1/query?" + urllib.parse.urlencode({"query": what})
                try:
                    return json.loads(urllib.request.urlopen(address, timeout=LIMIT).read())["data"]["result"]
                except OSError:
                    return []  # it isn't ready yet

            report.check(until(LIMIT, lambda: [r["value"][1] for r in query("up")] == ["1"]), f"Prometheus scrapes: {query('up')}")
            value = lambda what: float(query(what)[0]["value"][1]) if query(what) else None
            until(LIMIT, lambda: value("lacquer_up") == 1)
            reads_log(report, "Prometheus", w, ask)
            get(v.address, "/a")
            timed = Timed(v.address, seconds)
            for some in (timed.times, timed.waits):
                some["miss"].append(0)  # the first one, which made the hits
            for kind, all_of in timed.times.items():
                counted = until(LIMIT, lambda: value(f'sum(lacquer_request_duration_seconds_count{{handling="{kind}"}})') == len(all_of))
                report.check(counted, f"{kind}: {len(all_of)} were sent, Prometheus has {query('lacquer_request_duration_seconds_count')}")
                for share in (0.5, 0.9, 0.99):
                    theirs = value(f'histogram_quantile({share}, sum by (le) (lacquer_request_duration_seconds_bucket{{handling="{kind}"}}))')
                    least, most = (sorted(some[kind])[int(len(all_of) * share)] for some in (timed.waits, timed.times))
                    within = theirs is not None and bucket(least) - 1 <= bucket(theirs) <= bucket(most) + 1
                    report.check(within, f"{kind}, {share}: Prometheus {theirs}, which isn't between {least} and {most}")
                    report.note(f"{kind}, {100 * share:.0f} %: Prometheus {1000 * (theirs or 0):.1f} ms, between {1000 * least:.1f} and {1000 * most:.1f} ms, "
                                f"of {len(all_of)}")
            # One that takes longer than a second has failed: on a busy machine that may be.
            report.comes(lambda: value("count(up == 1)"), 1, "up")
            report.check(not o.full or value("min_over_time(up[1m])") == 1, "no scrape failed")
            report.check(not o.full or value("count_over_time(up[1m])") >= 55, f"a minute of scrapes: {value('count_over_time(up[1m])')}")
            rules = json.loads(urllib.request.urlopen(f"http://127.0.0.1:{where[1]}/api/v1/rules", timeout=LIMIT).read())
            health = {r["name"]: r["health"] for g in rules["data"]["groups"] for r in g["rules"]}
            report.check(health and set(health.values()) == {"ok"}, f"rules: {health}")
        finally:
            p.terminate()
            p.wait(30)


def bucket(seconds):
    return sum(bound < seconds for bound in BOUNDS)

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`lacquer watch`: a headless Chromium walks the page before a live load, ours and Debian's varnishd; promtool and Prometheus read its
metrics; health, tokens, a thousand viewers, slow ones, workers and workdirs that go.
"""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from bed.browser import CHROMIUM, Browser
from bed.daemon import Varnishd, die_with_parent, directory, free_port, pss
from bed.http import Client, get
from bed.origin import Origin, simple
from bed.process import Process
from bed.report import Report, options, until
import scrape
import sealed

LIMIT = 60  # seconds; ends a wait for what never comes
PATHS = "/usr/bin:/usr/sbin"
GENUINE = shutil.which("varnishd", path=PATHS)
VCL = """vcl 4.1;
backend default { .host = "%s"; .port = "%d"; .probe = { .url = "/probe"; .interval = 1s; .initial = 8; } }
sub vcl_recv {
    if (req.url ~ "^/account") { return (pass); }
    if (req.url ~ "^/gone") { return (synth(410)); }
}
sub vcl_backend_response {
    if (bereq.url ~ "^/private") { set beresp.uncacheable = true; }
    set beresp.ttl = 1h;
}
"""
SECRET = "sEcReT-0123456789"
RTL = "\u202etxt"


def serve(s):
    """The origin: as bed.origin's, but that a probe's connection ends with its answer, as the probe waits for."""
    if s.recv(10, socket.MSG_PEEK | socket.MSG_WAITALL).startswith(b"GET /probe"):
        s.recv(65536)
        return s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    return simple(answer)(s)


def answer(_method, path, _fields):
    if path.startswith("/slow"):
        time.sleep(0.03)
    return "Cache-Control: max-age=600\r\n", b"x" * (200 + len(path) * 37 % 9000)


class Watch(Process):
    """A `lacquer watch` of its own, beside a server."""

    def __init__(self, program, n, *args):
        self.proc = subprocess.Popen([program, "watch", "-n", str(n), "-a", "127.0.0.1:0", *args], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=die_with_parent, text=True)
        self.said = []
        for line in self.proc.stdout:
            self.said.append(line)
            if found := address_in(line):
                self.address = found
                threading.Thread(target=lambda: [self.said.append(line) for line in self.proc.stdout], daemon=True).start()
                return
        raise SystemExit(f"lacquer watch did not start: {''.join(self.said)}")


def address_in(text):
    found = re.search(r"watch: https?://([\d.]+):(\d+)/", text)
    return (found[1], int(found[2])) if found else None


def of_server(v):
    """Where the page of a server is that was started with --watch."""
    got = until(LIMIT, lambda: address_in("".join(v.output)))
    if not got:
        raise SystemExit(f"no page: {v.log()}")
    return got


def ask(address, path, fields=(), method="GET", body=None, host=None):
    with Client(address, timeout=LIMIT) as c:
        return c.request(path, fields=fields, method=method, body=body, host=host or f"{address[0]}:{address[1]}")


def as_json(address, path, **more):
    return json.loads(ask(address, path, **more).body)


class Load:
    """Asks at a steady pace on one connection until it is stopped; counts what it asked."""

    def __init__(self, address, pace=150):
        self.address, self.pace, self.count, self.bad, self.is_over = address, pace, 0, 0, False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        n, begun = 0, time.monotonic()
        with Client(self.address, keep=False) as c:
            while not self.is_over:
                n += 1
                path = ["/", "/style.css", f"/news/{n % 40}", "/account", f"/slow/{n}", "/private", "/gone", "/logo.png"][n % 8]
                fields = [("Cookie", f"sid={SECRET}")] if n % 50 == 0 else []
                self.bad += not c.request(path, fields=fields).status
                self.count += 1
                time.sleep(max(0, begun + n / self.pace - time.monotonic()))

    def stop(self):
        self.is_over = True
        self.thread.join()
        return self.count


def counters(v, *names):
    out = subprocess.run([shutil.which("varnishstat", path=PATHS), "-1", "-n", str(v.n)], capture_output=True, text=True, check=True).stdout
    all_of = {line.split()[0]: int(line.split()[1]) for line in out.splitlines() if line.strip()}
    return [all_of.get(f"MAIN.{name}", 0) for name in names]


TOTALS = ("client_req", "cache_hit", "cache_miss", "s_pass", "s_synth", "s_fetch", "n_object")


def totals(browser):
    got = browser.js("JSON.stringify(Object.fromEntries([...document.querySelectorAll('[data-counter]')].map(e => [e.dataset.counter, e.textContent])))")
    return [int(json.loads(got).get(name, "-1").replace(",", "")) for name in TOTALS]


def text(browser, selector):
    return browser.js(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")


def walk(report, name, v, address, load, browser, ours):
    """The page in a browser, before a load."""
    url = f"http://{address[0]}:{address[1]}/"
    browser.open(url)
    # On a machine without free memory there is a problem, too.
    seen = until(LIMIT, lambda: re.fullmatch(r"running|\d+ problems?", browser.js("document.getElementById('state').textContent"))
                 and browser.js("Number(document.getElementById('state').dataset.seconds || 0)") >= 4)
    report.check(seen, f"{name}: seconds come: {text(browser, 'header')}")
    has_areas = lambda: until(LIMIT, lambda: browser.js("document.querySelectorAll('#c-req path.area').length") >= 2)
    # A genuine one adds up what a busy connection has done when that pauses.
    report.check(not ours or has_areas(), f"{name}: the chart has areas")
    report.check(until(LIMIT, lambda: browser.js("document.querySelectorAll('#c-ttfb path.line').length") >= 3), f"{name}: times have lines")
    report.check(until(LIMIT, lambda: "healthy" in text(browser, "#backtab tbody") and "default" in text(browser, "#backtab tbody")),
                 f"{name}: the backend is healthy: {text(browser, '#backtab tbody')!r}")
    report.check(until(LIMIT, lambda: "/account" in text(browser, "#hot tbody")), f"{name}: hot URLs: {text(browser, '#hot tbody')[:200]!r}")
    report.check(until(LIMIT, lambda: "/slow/#" in text(browser, "#whyurl tbody")), f"{name}: patterns: {text(browser, '#whyurl tbody')[:300]!r}")
    report.comes(lambda: text(browser, "#storetab tbody"), lambda said: "s0" in said, f"{name}: stores")
    if ours:
        report.check(until(LIMIT, lambda: re.search(r"pass: vcl_recv .*test\.vcl:4\s", text(browser, "#whyurl tbody"))),
                     f"{name}: a pass has its line of VCL: {text(browser, '#whyurl tbody')[:400]!r}")
        report.comes(lambda: text(browser, "#nohit tbody")[:200], lambda said: "first fetch" in said, f"{name}: reasons")
    extra = keyboard(report, name, v, browser)
    asked = load.stop()
    report.comes(lambda: (totals(browser), counters(v, *TOTALS)), lambda both: both[0] == both[1] and both[0][0] == asked + extra,
                 f"{name}: of {asked + extra} requests the page and varnishstat say")
    report.check(has_areas(), f"{name}: the chart has areas after the load")
    report.check(load.bad == 0, f"{name}: {load.bad} answers were none")
    narrow(report, name, browser)
    named(report, name, browser)
    report.check(browser.errors == [], f"{name}: the console has errors: {browser.errors[:3]}")
    foreign = [u for u in browser.asked if not u.startswith(url) and not u.startswith(("about:", "data:"))]
    report.check(foreign == [], f"{name}: loaded from elsewhere: {foreign[:3]}")


def tab_to(browser, is_there, most=250):
    return any((browser.key("Tab"), browser.js(is_there))[1] for _ in range(most))


def keyboard(report, name, v, browser):
    """A request is found by a filter and opened, by keys alone; what is hostile in it is text. Returns how often it was sent."""
    browser.js("document.body.focus(), window.alert = () => { window.harmed = true }, 1")
    if not report.check(tab_to(browser, "document.activeElement.id === 'q'"), f"{name}: the filter is reached by Tab"):
        return 0
    browser.type('ReqURL ~ "^/hostile"')
    browser.key("Enter")
    report.check(until(LIMIT, lambda: "Waiting" in text(browser, "#r-live")), f"{name}: followed: {text(browser, '#r-live')}")
    agent = f"<script>alert(1)</script><img src=x onerror=alert(1)> {RTL} " + "A" * 65536
    is_listed, sent = False, 0
    # The page says that it waits before the log is read: a request in between isn't seen, so it is sent again.
    while not is_listed and sent < 6:
        sent += 1
        with Client(v.address) as c:
            got = c.request("/hostile?<b>", fields=[("User-Agent", agent.encode().decode("latin-1")), ("Cookie", f"sid={SECRET}"), ("X-Copy", SECRET)])
        report.check(got.status == 200, f"{name}: the hostile request: {got}")
        is_listed = until(LIMIT / 6, lambda: "/hostile" in text(browser, "#requests tbody"))
    report.check(is_listed, f"{name}: it is in the list: {text(browser, '#r-live')}")
    report.check(tab_to(browser, "document.activeElement.closest('#requests') != null && document.activeElement.tagName === 'BUTTON'", 30),
                 f"{name}: its row is reached by Tab")
    browser.key("Enter")
    report.check(until(LIMIT, lambda: browser.js("document.getElementById('detail').open")), f"{name}: it opens")
    shown = text(browser, "#detail-body")
    for part in ("<script>alert(1)</script>", "\\u{202e}txt", "ReqURL", "Cookie: (hidden)", "RespStatus", "Fetch"):
        report.check(part in shown, f"{name}: all records: no {part!r} in {shown[:600]!r}")
    report.check(SECRET not in browser.js("document.documentElement.outerHTML"), f"{name}: what is secret is nowhere")
    report.check(browser.js("document.querySelectorAll('#detail-body script, #detail-body img, main img').length") == 0, f"{name}: text is no markup")
    report.check(not browser.js("window.harmed === true"), f"{name}: nothing of it ran")
    browser.key("Escape")
    report.check(until(LIMIT, lambda: not browser.js("document.getElementById('detail').open")), f"{name}: Escape closes it")
    browser.js("document.getElementById('c-req').focus(), 1")
    browser.key("ArrowLeft", times=3)
    report.check(until(LIMIT, lambda: "requests/s" in text(browser, "#r-req")), f"{name}: the chart is read by keys: {text(browser, '#r-req')!r}")
    return sent


def narrow(report, name, browser):
    browser.size(360, 780)
    wide = until(LIMIT, lambda: browser.js("document.documentElement.scrollWidth <= 360"))
    report.check(wide, f"{name}: 360 px are {browser.js('document.documentElement.scrollWidth')} wide: " + str(browser.js(
        "JSON.stringify([...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > 361 && !e.closest('.scroll')).slice(0, 5).map(e => e.tagName + '#' + e.id + '.' + e.className))")))
    browser.size(1280, 900)


def named(report, name, browser):
    """What a screen reader needs: everything that can be used or is a picture has a name, tables have heads."""
    nameless = browser.js("""JSON.stringify([
        ...[...document.querySelectorAll('button, a')].filter(e => !e.textContent.trim()),
        ...[...document.querySelectorAll('input, textarea')].filter(e => !e.labels.length),
        ...[...document.querySelectorAll('[role=img], [role=region]')].filter(e => !e.getAttribute('aria-label')),
        ...[...document.querySelectorAll('section')].filter(e => !document.getElementById(e.getAttribute('aria-labelledby'))),
        ...[...document.querySelectorAll('table')].filter(e => !e.tHead || [...e.tHead.rows[0].cells].some(c => c.scope !== 'col')),
        ...[...document.querySelectorAll('svg:not([role=img])')].filter(e => e.getAttribute('aria-hidden') !== 'true'),
    ].map(e => e.outerHTML.slice(0, 120)))""")
    report.check(nameless == "[]", f"{name}: without a name: {nameless}")
    report.check(browser.js("document.documentElement.lang") == "en" and browser.js("document.querySelectorAll('h2').length") >= 8, f"{name}: language, headings")


def case_page(report, o):
    with Origin(serve) as origin, Browser() as browser:
        args = ["--watch", "127.0.0.1:0,show-vcl", "-p", "log_no_hit=on", "-p", "http_req_hdr_len=80k", "-p", "http_req_size=128k",
                "-p", "vsl_reclen=4084"]
        with Varnishd(o.varnishd, args, vcl=VCL % origin.address) as v:
            address = of_server(v)
            walk(report, "ours", v, address, Load(v.address), browser, True)
            explained(report, browser, v)


def explained(report, browser, v):
    browser.js("document.querySelector('#f-explain [name=url]').value = 'http://bed.test/account', document.querySelector('#f-explain button').click(), 1")
    said = until(LIMIT, lambda: (t := text(browser, "#r-explain")) and t)
    report.check("pass" in (said or "") and "4" in (said or ""), f"explain: {said!r}")
    v.cli.ask("vcl.profile on")
    # Which runs are looked at is drawn by lot.
    with Client(v.address) as c:
        for _ in range(1500):
            c.request("/gone")
    browser.js("document.getElementById('b-profile').click(), 1")
    report.check(until(LIMIT, lambda: "return (pass)" in text(browser, "#source") and re.search(r"\d ns", text(browser, "#source"))),
                 f"the profile over its source: {text(browser, '#r-profile')!r} {text(browser, '#source')[:300]!r}")
    report.check(until(LIMIT, lambda: "boot" in text(browser, "#vcllist")), f"VCLs: {text(browser, '#vcllist')!r}")
    report.check(browser.js("document.getElementById('control').hidden"), "nothing to change the server with, without --control")


def case_costs(report, o):
    """Who costs the origin what, on the page and in the metrics, as long as the server has accounts."""
    with Origin(serve) as origin, Browser() as browser:
        with Varnishd(o.varnishd, ["--watch", "127.0.0.1:0", "--bots=observe"], vcl=VCL % origin.address) as v:
            address = of_server(v)
            with Client(v.address) as c:
                for n in range(20):
                    c.request(f"/crawled/{n}", [("User-Agent", "Examplebot/1.0")])
            browser.open(f"http://127.0.0.1:{address[1]}/")
            rows = lambda: text(browser, "#costtab")
            report.check(until(LIMIT, lambda: "Examplebot" in rows()), f"the table: {rows()!r}")
            report.check("declared" in rows() and "127.0.0.1" in rows() and not browser.js("document.getElementById('costs').hidden"), f"its rows: {rows()!r}")
            report.check("only logged" in text(browser, "#cost-note"), f"the mode: {text(browser, '#cost-note')!r}")
            metrics = lambda: ask(address, "/metrics").body.decode()
            line = r'lacquer_account_requests\{kind="declared",name="all"\} (19|20)(\.|\n)'
            report.check(until(LIMIT, lambda: re.search(line, metrics())), f"metrics: {[m for m in metrics().splitlines() if 'lacquer_account' in m]}")
            report.check('name="127.0.0.1' not in metrics(), "no address becomes a time series")
        with Varnishd(o.varnishd, ["--watch", "127.0.0.1:0"], vcl=VCL % origin.address) as v:
            address = of_server(v)
            report.check("lacquer_account" not in ask(address, "/metrics").body.decode(), "nothing without accounts")


def bad(browser):
    """The red lines of the strip."""
    return browser.js("[...document.querySelectorAll('#problem-list li.bad > a')].map(a => a.textContent).join('; ')")


def case_problems(report, o):
    """The strip at the top, the pill, the title and the icon, when the backend goes and a worker is killed; what happened is in the event log."""
    # Both go and come again: nobody else may take their ports meanwhile.
    origin, port = Origin(serve, at=("127.0.0.1", free_port())), free_port()
    args = ["--watch", f"127.0.0.1:{port}", "-p", "log_no_hit=on", "-p", "default_grace=0"]
    vcl = VCL.replace(".interval = 1s", ".interval = 0.3s") + "sub vcl_backend_response { set beresp.ttl = 3s; }\n"
    vcl = vcl.replace("    set beresp.ttl = 1h;\n", "")
    with Varnishd(o.varnishd, args, vcl=vcl % origin.address) as v, Browser() as browser:
        address = ("127.0.0.1", port)
        load = Load(v.address)
        of_server(v)
        browser.open(f"http://127.0.0.1:{port}/")
        events = lambda: text(browser, "#events")
        look = lambda: (browser.js("document.getElementById('state').className"), browser.js("document.title")[0], browser.js("document.getElementById('icon').getAttribute('href')"))
        report.check(until(LIMIT, lambda: re.search(r"\d ms|µs", text(browser, "#t-pass"))) and not bad(browser), f"at first nothing is red: {bad(browser)}")
        report.check(text(browser, "#program").startswith("Lacquer ") and text(browser, "#uptime").startswith("up "), f"version and uptime: {text(browser, '.brand')}")
        origin.close()
        report.check(until(LIMIT, lambda: re.match(r"The backend default is sick since \d\d:\d\d:\d\d: 503 for [\d.]+ % of requests", bad(browser))),
                     f"a dead backend is told: {bad(browser)!r}")
        report.comes(look, ("pill bad", "✖", "icon-bad.svg"), "in red")
        # The text that is read aloud has no number that changes each second.
        spoken = text(browser, "#spoken")
        report.check(spoken.startswith("The backend default is sick") and not re.search(r"\d", spoken), f"read aloud: {spoken!r}")
        live = "[...document.querySelectorAll('[aria-live], [role=alert], [role=status]')]"
        read = lambda: browser.js(f"JSON.stringify({live}.map(e => e.textContent))")
        clock = lambda: browser.js("document.getElementById('clock').textContent")

        def is_silent():
            """Whether nothing new is read aloud while a second goes by. Another problem may come up, but none that changes each second."""
            begun, t0 = read(), clock()
            return until(LIMIT, lambda: clock() not in (t0, "")) and read() == begun
        report.check(until(LIMIT, is_silent), f"what is read aloud changes each second: {read()}")
        report.check(until(LIMIT, lambda: browser.js("document.getElementById('tile-err').classList.contains('bad')")), f"errors: {text(browser, '#tile-err')}")
        report.comes(events, lambda said: "backend default went sick" in said, "an event")
        report.check(until(LIMIT, lambda: text(browser, "#t-pass") == "–"), f"refused connections are no fast passes: {text(browser, '#t-pass')}")
        report.check(float(text(browser, "#t-bytes").split()[0].replace("–", "0")) < 60, f"nor hits: {text(browser, '#t-bytes')}")
        browser.js("document.getElementById('tile-err').click(), 1")
        report.check(browser.js("location.hash") == "#errors" and re.search(r"503\s+bed.test/account", text(browser, "#errtab tbody")), f"by status and URL: {text(browser, '#errtab tbody')[:200]!r}")
        browser.js("[...document.querySelectorAll('#errtab a')].find(a => a.textContent.endsWith('/account')).click(), 1")
        report.check(until(LIMIT, lambda: "pass" in text(browser, "#r-explain")), f"a URL leads to its explanation: {text(browser, '#r-explain')!r}")
        told = ask(address, "/book").body.decode()
        leads = json.loads(browser.js("JSON.stringify([...document.querySelectorAll('#nohit a, #whyurl th a')].map(a => a.getAttribute('href')))"))
        report.check(leads and all(f'id="{where.split("#")[1]}"' in told for where in leads), f"reasons lead into the book: {leads}")
        with Origin(serve, at=origin.address):
            report.check(until(LIMIT, lambda: "backend default is healthy again" in events()), f"it is back: {events()}")
            report.check(until(LIMIT, lambda: not bad(browser)), f"which is no problem: {bad(browser)}")
            load.stop()
            changes(report, o, v, browser, address, events)
        phone(report, browser)
        # The page's own server starts again in an upgrade.
        errors = [error for error in browser.errors if not re.search("ERR_CONNECTION_REFUSED .*/api/state", error)]
        report.check(errors == [], f"the console has errors: {errors[:3]}")


def case_reload(report, o):
    """A VCL with a wrong address is replaced by the right one: the old one stays warm and probed for a while, and is no problem."""
    dead = ("127.0.0.1", free_port())
    vcl = VCL.replace(".interval = 1s", ".interval = 0.2s").replace(".initial = 8", ".initial = 0")
    with Origin(serve) as origin, Varnishd(o.varnishd, ["--watch", "127.0.0.1:0"], vcl=vcl % dead) as v:
        # One asks the server's CLI, the other knows only the log and the counters.
        pages = {"--watch": of_server(v), "lacquer watch": Watch(o.lacquer, v.n).address}
        told = lambda at: as_json(at, "/api/state")["second"]
        sick = lambda at: [p["what"] for p in told(at)["problems"] or [] if "sick" in p["what"]]
        for name, at in pages.items():
            report.check(until(LIMIT, lambda: sick(at) == ["The backend default is sick"]), f"{name}: it is sick at first: {sick(at)}")
        (v.dir / "right.vcl").write_text(vcl % origin.address)
        v.cli.ask(f"vcl.load right {v.dir / 'right.vcl'}")
        v.cli.ask("vcl.use right")
        for name, at in pages.items():
            report.check(until(LIMIT, lambda: sick(at) == []), f"{name}: the VCL in use has a healthy one: {sick(at)}")
            rows = lambda: {row["vcl"]: row["probed"] and row["well"] for row in told(at)["backends"]["rows"]}
            report.check(until(LIMIT, lambda: rows() == {"right": True, "boot": False}), f"{name}: both are listed: {rows()}")
            # Ten probes later nothing has alternated.
            after = told(at)["t"] + 3
            report.check(until(LIMIT, lambda: told(at)["t"] >= after), f"{name}: time goes by")
            said = [event[2] for event in told(at)["events"] if event[1] == "backend"]
            report.check(sick(at) == [] and len(said) <= 2, f"{name}: events of probes: {said}")


def changes(report, o, v, browser, address, events):
    """A worker that is killed, VCLs, a ban of everything, an upgrade, over which the history stays."""
    comm = lambda pid: pathlib.Path(f"/proc/{pid}/comm").read_text()
    worker = next(pid for pid in v.pids() if comm(pid) == "cache-main\n")
    os.kill(worker, signal.SIGKILL)
    report.check(until(LIMIT, lambda: re.search(rf"worker {worker} was killed by a signal", events()) and "began" in events()), f"a death: {events()}")
    warned = lambda: text(browser, "#problem-list li.warn")
    report.check(until(LIMIT, lambda: "A worker died at" in warned()), f"which stays in sight: {warned()!r}")
    v.cli.ask(f"vcl.load two {v.dir / 'test.vcl'}")
    v.cli.ask("vcl.use two")
    v.cli.ask("ban req.url ~ .")
    for wanted in ("VCL two was loaded", "VCL two is in use", "everything was banned: req.url ~ ."):
        report.check(until(LIMIT, lambda: wanted in events()), f"{wanted}: {events()}")
    seconds = lambda: [point[0] for point in as_json(address, "/api/state")["history"]["seconds"]]
    begun, told = seconds()[0], events()
    # The history is written every five seconds.
    after = seconds()[-1] + 6
    report.check(until(LIMIT, lambda: seconds()[-1] >= after), "time goes by")
    done = subprocess.run([o.lacquer, "upgrade", "-n", str(v.n)], capture_output=True, text=True, timeout=LIMIT)
    report.check(done.returncode == 0, f"upgraded: {done.stdout}{done.stderr}")
    report.check(until(LIMIT, lambda: "upgraded: Lacquer" in events()), f"an upgrade: {events()}")
    report.check(seconds()[0] <= max(begun, seconds()[-1] - 300) and told.splitlines()[0] in events(), f"with the history of before: {seconds()[0]}, {begun}")


def phone(report, browser):
    browser.size(390, 780)
    height = lambda: browser.js("document.querySelector('.bar').getBoundingClientRect().height")
    report.check(until(LIMIT, lambda: height() < 50), f"on a phone the header has one row: {height()} px")
    tops = json.loads(browser.js("JSON.stringify([...document.querySelectorAll('.tile')].map(t => [t.id, t.getBoundingClientRect().top]))"))
    report.check(tops[1][0] == "tile-err" and tops[1][1] == tops[0][1], f"errors are in the first row: {tops[:3]}")
    report.check(browser.js("document.documentElement.scrollWidth") <= 390, "nothing is wider")


def case_beside(report, o):
    if not GENUINE:
        report.note("no Debian varnishd here")
        return
    with Origin(serve) as origin, Browser() as browser:
        args = ["-p", "http_req_hdr_len=80k", "-p", "http_req_size=128k", "-p", "vsl_reclen=4084"]
        with Varnishd(GENUINE, args, vcl=VCL % origin.address) as v, Watch(o.lacquer, v.n) as w:
            walk(report, "varnishd", v, w.address, Load(v.address), browser, False)
            report.check(browser.js("!document.getElementById('nohit-none').hidden"), "varnishd: it has no reasons, which is said")


def case_metrics(report, o):
    scrape.formats(report, o, Watch, ask)


def case_prometheus(report, o):
    scrape.prometheus(report, o, Watch, ask)


def case_health(report, o):
    with Origin(serve) as origin:
        vcl = VCL % origin.address + 'backend dead { .host = "127.0.0.1"; .port = "1"; .probe = { .interval = 0.2s; .timeout = 0.2s; } }\n' \
            'sub vcl_init { } sub vcl_hit { set req.backend_hint = dead; }\n'
        with Varnishd(o.varnishd, vcl=vcl) as v, Watch(o.lacquer, v.n, "--ready", "backend=dead") as w, Watch(o.lacquer, v.n) as plain:
            status = lambda a, path: ask(a, path).status
            report.check(until(LIMIT, lambda: status(plain.address, "/readyz") == 200), f"ready: {ask(plain.address, '/readyz').body}")
            report.check(status(plain.address, "/healthz") == 200, "healthy")
            report.check(until(LIMIT, lambda: b"dead is sick" in ask(w.address, "/readyz").body), f"not ready: {ask(w.address, '/readyz').body}")
            shown = lambda: {b["name"]: b for b in as_json(plain.address, "/api/state")["second"]["backends"]["rows"]}
            report.check(until(LIMIT, lambda: not shown()["dead"]["well"]), f"a backend whose probe never succeeded: {shown()}")
            report.check(shown()["default"]["well"], f"and one whose probe did: {shown()}")
            report.check(status(w.address, "/readyz") == 503 and status(w.address, "/healthz") == 200, "but healthy")
            v.cli.ask("backend.set_health dead healthy")
            report.check(until(LIMIT, lambda: status(w.address, "/readyz") == 200), "ready where backend.set_health says healthy, whatever the probe says")
            v.cli.ask("backend.set_health dead sick")
            report.check(until(LIMIT, lambda: status(w.address, "/readyz") == 503), "not ready where backend.set_health says sick")
            report.check(status(plain.address, "/readyz") == 200, "but where no backend is named")
            for path in ("/healthz", "/readyz"):
                with socket.create_connection(plain.address, timeout=LIMIT) as s:
                    s.sendall(f"OPTIONS {path} HTTP/1.0\r\n\r\n".encode())
                    said = s.makefile("rb").read()
                report.check(said.startswith(b"HTTP/1.1 200") and said.endswith(b'{"status":"ok"}'), f"{path} as haproxy asks, without a Host: {said}")
                elsewhere = ask(plain.address, path, host="evil.test")
                report.check(elsewhere.status == 200 and elsewhere.body == b'{"status":"ok"}', f"{path} under another name has no reasons: {elsewhere.body}")
            report.check(ask(plain.address, "/api/state", host="evil.test").status == 421, "nothing else answers under another name")
            v.cli.ask("drain on")
            report.check(until(LIMIT, lambda: status(plain.address, "/readyz") == 503), "a server that drains isn't ready")
            report.check(status(plain.address, "/healthz") == 200, "but healthy")
            v.cli.ask("drain off")
            report.check(until(LIMIT, lambda: status(plain.address, "/readyz") == 200), "ready again")
            v.cli.ask("stop")
            report.check(until(LIMIT, lambda: status(plain.address, "/healthz") == 503), "a stopped worker isn't healthy")
            said = as_json(plain.address, "/healthz")
            report.check(any(c["check"] == "worker" and not c["ok"] and "no worker runs" in c["reason"] for c in said["checks"]), f"why: {said}")
            v.cli.ask("start")
            report.check(until(LIMIT, lambda: status(plain.address, "/readyz") == 200), "ready again once it is started")


def refused(program, *args):
    p = subprocess.run([program, "watch", *args], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
    return p.returncode, p.stderr


def case_safety(report, o):
    with directory() as place:
        safety(report, o, place)


def safety(report, o, place):
    status, said = refused(o.lacquer, "-a", "0.0.0.0:0")
    report.check(status == 1 and "--token-file" in said, f"others than this machine need a token: {status} {said!r}")
    status, said = refused(o.lacquer, "--control")
    report.check(status == 2 and "--control needs --token-file" in said, f"control needs a token: {status} {said!r}")
    p = subprocess.run([o.varnishd, "-F", "-b", "none", "-a", "127.0.0.1:0", "--watch", "0.0.0.0:0", "-n", str(place / "n")], capture_output=True, text=True, timeout=LIMIT)
    report.check(p.returncode == 2 and "token-file" in p.stderr, f"so does the server's: {p.returncode} {p.stderr!r}")
    token = place / "token"
    token.write_text("0123456789abcdef0123\n")
    bearer = [("Authorization", "Bearer 0123456789abcdef0123")]
    with Origin(serve) as origin, Varnishd(o.varnishd, vcl=VCL % origin.address) as v:
        with Watch(o.lacquer, v.n) as w:
            told = ask(w.address, "/", host="evil.test")
            report.check(told.status == 421 and b"Host is evil.test" in told.body and b"--token-file" in told.body, f"by another name it doesn't answer: {told.body}")
            report.check(ask(w.address, "/api/state", host=f"evil.test:{w.address[1]}").status == 421, "nor tells anything")
            page = ask(w.address, "/")
            policy = page.get("Content-Security-Policy") or ""
            report.check(page.status == 200 and "default-src 'none'" in policy and "unsafe" not in policy, f"policy: {policy}")
            key = as_json(w.address, "/api/state")["about"]["key"]
            own = [("Origin", f"http://{w.address[0]}:{w.address[1]}"), ("X-Watch-Key", key)]
            post = lambda what, body, fields: ask(w.address, f"/api/ask/{what}", method="POST", body=json.dumps(body).encode(), fields=fields)
            report.check(post("ban", {"expression": "req.url ~ ."}, own).status == 403, "no control without --control")
            report.check(post("explain", {"url": "/"}, own[1:]).status == 403 and post("explain", {"url": "/"}, own[:1]).status == 403,
                         "questions come from the page alone")
            # A proxy that sends a name of its own.
            through = [("Origin", "https://watch.example"), ("X-Watch-Key", key)]
            refused_by = json.loads(post("explain", {"url": "/"}, through).body)["text"]
            report.check("Origin is https://watch.example" in refused_by and "X-Forwarded-Host" in refused_by, f"what a proxy has to send: {refused_by}")
            for more in (("Sec-Fetch-Site", "same-origin"), ("X-Forwarded-Host", "watch.example")):
                report.check(post("explain", {"url": "http://a/"}, [*through, more]).status == 200, f"through a proxy with {more[0]}")
            report.check(post("profile", {}, own).status == 403, "no source of VCL without a token or --show-vcl")
            told = json.loads(post("explain", {"url": "http://a/account"}, own).body)
            report.check(told["ok"] and "pass" in told["text"], f"explain: {told}")
            hidden(report, v, w)
            for bad in (b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 100 + b"\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n", b"A" * 100_000):
                with socket.create_connection(w.address, LIMIT) as s:
                    try:
                        s.sendall(bad)
                        s.shutdown(socket.SHUT_WR)
                        got = s.recv(100)
                    except OSError:
                        got = b""  # it has closed
                report.check(got == b"" or got[9:10] == b"4", f"{bad[:20]}: {got[:40]}")
        with Watch(o.lacquer, v.n, "--token-file", str(token), "--control") as w:
            report.check(ask(w.address, "/metrics").status == 401 and ask(w.address, "/api/state").status == 401, "a token is needed")
            report.check(ask(w.address, "/metrics", fields=[("Authorization", "Bearer 0123456789abcdef0124")]).status == 401, "that one")
            report.check(ask(w.address, "/metrics", fields=bearer).status == 200, "with it, metrics")
            report.check(until(LIMIT, lambda: ask(w.address, "/healthz").body == b'{"status":"ok"}'), "health without it, but no reasons")
            report.check(ask(w.address, "/login", method="POST", body=b"token=wrong").status == 401, "a wrong token isn't let in")
            login = ask(w.address, "/login", method="POST", body=b"token=0123456789abcdef0123")
            cookie = (login.get("Set-Cookie") or "").split(";")
            report.check(login.status == 303 and " HttpOnly" in cookie and " SameSite=Strict" in cookie, f"logging in: {login} {cookie}")
            as_user = [("Cookie", cookie[0])]
            report.check(ask(w.address, "/api/state", fields=as_user).status == 200, "the cookie of those who did")
            key = as_json(w.address, "/api/state", fields=as_user)["about"]["key"]
            own = [*as_user, ("Origin", f"http://{w.address[0]}:{w.address[1]}"), ("X-Watch-Key", key)]
            get(v.address, "/news/1")
            report.check(get(v.address, "/news/1").whole() and until(LIMIT, lambda: counters(v, "cache_hit") == [1]), f"a hit: {counters(v, 'cache_hit')}")
            post = lambda what, body, fields: ask(w.address, f"/api/ask/{what}", method="POST", body=json.dumps(body).encode(), fields=fields)
            foreign = [*as_user, ("Origin", "http://evil.test"), ("X-Watch-Key", key)]
            report.check(post("purge", {"host": "bed.test", "url": "/news/1"}, foreign).status == 403, "not from another page")
            told = json.loads(post("purge", {"host": "bed.test", "url": "/news/1"}, own).body)
            report.check(told["ok"], f"purge: {told}")
            get(v.address, "/news/1")
            report.check(until(LIMIT, lambda: counters(v, "cache_hit", "cache_miss") == [1, 2]), f"it was purged: {counters(v, 'cache_hit', 'cache_miss')}")
            told = json.loads(post("use-vcl", {"name": "nope"}, own).body)
            report.check(not told["ok"] and "nope" in told["text"], f"what the CLI says: {told}")


def hidden(report, v, w):
    """No cookie and no credentials in anything that is served."""
    with socket.create_connection(w.address, LIMIT) as s:
        s.sendall(b"GET /api/live?q= HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        file = s.makefile("rb")
        while file.readline() not in (b"{}\n", b""):
            pass
        with Client(v.address) as c:
            c.request("/account", fields=[("Authorization", f"Bearer {SECRET}"), ("Cookie", f"a={SECRET}"), ("X-Other", f"of {SECRET}")])
        line = json.loads(file.readline())
    opened = ask(w.address, f"/api/request?id={line['id']}").body.decode()
    report.check(opened.count("(hidden)") >= 4 and SECRET not in opened, f"records: {opened[:300]}")
    for path in ("/api/state", "/metrics", "/metrics?names=exporter"):
        report.check(SECRET.encode() not in ask(w.address, path).body, f"{path} has no secret")


def case_sealed(report, o):
    with Origin(serve) as origin:
        with Varnishd(o.varnishd, vcl=VCL % origin.address) as v:
            sealed.certificates(report, Watch, o.lacquer, v)
        sealed.started_by_server(report, Varnishd, of_server, is_watch, o.varnishd, VCL % origin.address)


def case_watchers(report, o):
    """A thousand viewers, some of whom don't read."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    slow_ones, all_of = 50, 1000
    with Origin(serve) as origin, Varnishd(o.varnishd, vcl=VCL % origin.address) as v, Watch(o.lacquer, v.n) as w:
        viewers = []
        for n in range(all_of):
            s = socket.socket()
            if n < slow_ones:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            s.settimeout(LIMIT)
            s.connect(w.address)
            s.sendall(b"GET /api/seconds HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            viewers.append(s)
        load = Load(v.address, 50)
        state = lambda: as_json(w.address, "/api/state")["second"]
        report.check(until(LIMIT, lambda: state()["viewers"] == all_of), f"{state()['viewers']} of {all_of} viewers")
        told = 0
        for s in viewers[slow_ones:]:
            got = b""
            while b"event: second" not in got and (d := s.recv(65536)):
                got += d
            told += b"event: second" in got
        report.check(told == all_of - slow_ones, f"{told} of {all_of - slow_ones} were told")
        behind, honest, got = viewers[:slow_ones], viewers[-1], b""
        while got.count(b"event: second") < 14 and (d := honest.recv(65536)):
            got += d
        told = 0
        for s in behind:
            got, s_end = b"", time.monotonic() + LIMIT
            while b"event: lost" not in got and time.monotonic() < s_end and (d := s.recv(65536)):
                got += d
            told += b"event: lost" in got
        report.check(told == slow_ones and state()["lost"] > 0, f"who didn't read for a while is told what was lost: {told} of {slow_ones}, {state()['lost']}")
        report.check(w.proc.poll() is None and pss([w.proc.pid]) < 120 << 20, f"it lives on {pss([w.proc.pid]) >> 20} MB")
        for s in viewers:
            s.close()
        report.check(until(LIMIT, lambda: state()["viewers"] == 0), f"all are gone: {state()['viewers']}")
        load.stop()
        followers = []
        for _ in range(33):
            s = socket.create_connection(w.address, LIMIT)
            s.sendall(b"GET /api/live?q= HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            followers.append((s, s.recv(15)))
        report.check([b"200" in got for _, got in followers] == [True] * 32 + [False] and b"503" in followers[-1][1], "lists of requests are bounded")
        for s, _ in followers:
            s.close()
        report.check(b"400" in ask_raw(w.address, "/api/live?q=Nope+~"), "a wrong filter is told")


def ask_raw(address, path):
    with socket.create_connection(address, LIMIT) as s:
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        return s.recv(100)


def case_vanish(report, o):
    """Workers that die, logs that run away, a workdir that goes and comes again."""
    with Origin(serve) as origin:
        with Varnishd(o.varnishd, ["-p", "vsl_space=1m"], vcl=VCL % origin.address) as v, Watch(o.lacquer, v.n) as w:
            state = lambda: as_json(w.address, "/api/state")["second"]
            read = lambda: sum(state()["vcls"]["used"].values())
            until(LIMIT, lambda: state()["log"]["open"])
            get(v.address, "/news/1")
            report.check(until(LIMIT, lambda: read() >= 1), "a request is read")
            before = read()
            os.kill(v.worker(), signal.SIGKILL)
            report.check(until(LIMIT, lambda: state()["server"]["died"] == 1), f"the death is known: {state()['server']}")
            report.check(until(LIMIT, lambda: any("killed by a signal" in text for _, _, text in state()["events"])), f"and told: {state()['events']}")
            report.check(until(LIMIT, lambda: get(v.address, "/news/1").status == 200 and read() > before), "the next worker's requests are read")
            # The reader stands still while the ring is written round.
            os.kill(w.proc.pid, signal.SIGSTOP)
            with Client(v.address, keep=False) as c:
                for n in range(1500):
                    c.request(f"/news/{n % 10}?{'x' * 800}")
            os.kill(w.proc.pid, signal.SIGCONT)
            told = until(LIMIT, lambda: (s := state()["log"])["overruns"] + s["skips"] > 0 and s)
            report.check(told, f"that it has lost records is told: {state()['log']}")
            before = read()
            report.check(until(LIMIT, lambda: get(v.address, "/news/2").status == 200 and read() > before), "and it reads on")
    with directory() as place:
        comes_later(report, o, place)


def comes_later(report, o, directory):
    """A page before there is a server, and after its workdir is gone."""
    with Watch(o.lacquer, directory / "n") as w:
        report.check(ask(w.address, "/healthz").status == 503 and ask(w.address, "/").status == 200, "before there is a server the page says so")
        with Origin(serve) as origin:
            vcl = directory / "a.vcl"
            vcl.write_text(VCL % origin.address)
            for turn in ("first", "second"):
                p = subprocess.Popen([o.varnishd, "-F", "-n", str(directory / "n"), "-a", "127.0.0.1:0", "-f", str(vcl)], preexec_fn=die_with_parent,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                report.check(until(LIMIT, lambda: ask(w.address, "/healthz").status == 200), f"the {turn} server is found: {ask(w.address, '/healthz').body}")
                p.terminate()
                p.wait(30)
                shutil.rmtree(directory / "n", ignore_errors=True)
                report.check(until(LIMIT, lambda: ask(w.address, "/healthz").status == 503), f"the {turn} server's workdir is gone, which is told")
        report.check(w.proc.poll() is None, "it lives")


def case_option(report, o):
    """--watch of the server: started, started again, ended."""
    with Origin(serve) as origin:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with Varnishd(o.varnishd, ["--watch", f"127.0.0.1:{port},any-port"], vcl=VCL % origin.address) as v:
                address = of_server(v)
                report.check(address[1] != port and "is taken" in v.log(), f"a taken port is told: {v.log()[-300:]}")
                report.check(until(LIMIT, lambda: ask(address, "/healthz").status == 200), "it is healthy")
                told = ask(address, "/api/state")
                report.check(str(v.n) in told.body.decode(), "it names the server's directory")
                child = lambda: [p for p in v.pids() if is_watch(p)]
                first = child()
                os.kill(first[0], signal.SIGKILL)
                others = until(LIMIT, lambda: [p for p in child() if p not in first])
                report.check(others, f"another one begins: {v.log()[-300:]}")
                pid = others[0]
                report.check(until(LIMIT, lambda: "".join(v.output).count("watch: http://") == 2), "and says where")
        report.check(until(LIMIT, lambda: not pathlib.Path(f"/proc/{pid}").exists()), "it ends with the server")


def is_watch(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"lacquer-watch\0")
    except OSError:
        return False


CASES = [case_page, case_costs, case_problems, case_reload, case_beside, case_metrics, case_prometheus, case_health, case_safety, case_sealed, case_watchers, case_vanish, case_option]


def main():
    o = options(__doc__, CASES)
    o.lacquer = str(pathlib.Path(o.varnishd).with_name("lacquer"))
    if not CHROMIUM:
        sys.exit("chromium is needed (package chromium)")
    report = Report("watch")
    report.run(o.cases, report, o, at_once=2)
    sys.exit(report.close())


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-2-Clause
"""The tools that draw screens, driven in tmux: ours beside Varnish's own on the same server, by eye of a program."""
import os
import re
import signal
import subprocess
import uuid

import traffic
from bed.daemon import Varnishd
from bed.report import settled, until

LIMIT = 60  # seconds; only ends a hang
LAST_COUNTERS = 10  # that are compared at the end of a page
WIDTH, HEIGHT = 140, 30


class Terminals:
    """A tmux of our own; each tool in a session."""

    def __init__(self):
        self.name = f"lacquer-{uuid.uuid4().hex[:12]}"

    def tmux(self, *args):
        env = {k: v for k, v in os.environ.items() if k != "TMUX"}
        return subprocess.run(["tmux", "-L", self.name, "-f", "/dev/null", *args], capture_output=True, text=True, env={**env, "LC_ALL": "C.UTF-8"}).stdout

    def open(self, session, *argv):
        # What it says at its end and its status stay to be seen.
        command = " ".join(f"'{a}'" for a in argv)
        self.tmux("new-session", "-d", "-s", session, "-x", str(WIDTH), "-y", str(HEIGHT), f"{command}; echo ended with $?; read x")
        return Terminal(self, session)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tmux("kill-server")


class Terminal:
    def __init__(self, terminals, session):
        self.tmux, self.session = terminals.tmux, session

    def page(self):
        return [line.rstrip() for line in self.tmux("capture-pane", "-p", "-t", self.session).splitlines()]

    def key(self, *names):
        self.tmux("send-keys", "-t", self.session, *names)

    def size(self, width, height):
        self.tmux("resize-window", "-t", self.session, "-x", str(width), "-y", str(height))

    def pid(self):
        """The tool's process."""
        shell = self.tmux("list-panes", "-t", self.session, "-F", "#{pane_pid}").strip()
        kids = subprocess.run(["ps", "-o", "pid=", "--ppid", shell], capture_output=True, text=True).stdout.split()
        return int(kids[0])

    def shows(self, what):
        """The page, once `what` is true of it; else None."""
        def look():
            page = self.page()
            return page if what(page) else None
        return until(LIMIT, look, 0.05)


def forms(lines):
    """What stands where, figures aside."""
    return [re.sub(r"\d", "0", line) for line in lines]


def rows(page):
    """Counters and their current values on a page of varnishstat."""
    found = (re.match(r"((?:MAIN|MGT|SMA|VBE|LCK|MEMPOOL|SMF)\.\S+) +(\S+)", line) for line in page)
    return {m[1]: m[2] for m in found if m}


def stat(report, terminals, tools, v):
    for who, folder in tools.items():
        t = terminals.open(f"stat-{who}", str(folder / "varnishstat"), "-n", str(v.n))
        page = t.shows(lambda page: any("MAIN.client_req " in line for line in page) and re.search(r"Hitrate n: +[2-9]", page[0]))
        if not report.check(page, f"varnishstat of {who} shows counters: {t.page()}"):
            return
        # End: the last counters; d: those that were never seen; v: the levels; h: help; G6's screen again.
        for key, what in (("End", lambda p: "^^^ NAME" in p[3]), ("Home", lambda p: "    NAME" in p[3]), ("d", lambda p: "UNSEEN" in p[-4]),
                          ("d", lambda p: "UNSEEN" not in p[-4]), ("v", lambda p: "DIAG" in p[-4]), ("v", lambda p: "DEBUG" in p[-4]),
                          ("V", lambda p: "DIAG" in p[-4]), ("V", lambda p: "INFO" in p[-4]), ("e", lambda p: re.search(r"MGT.uptime +\d+$", p[4])),
                          ("e", lambda p: "+" in p[4]), ("h", lambda p: any("Navigate" in line for line in p)), ("h", lambda p: "NAME" in p[3])):
            t.key(key)
            report.check(t.shows(what), f"varnishstat of {who}, key {key}: {t.page()}")
        t.size(78, 20)
        report.check(t.shows(lambda p: len(p) == 20 and "NAME" in p[3]), f"varnishstat of {who} at another size: {t.page()}")
        t.key("q")
        report.check(t.shows(lambda p: any("ended with 0" in line for line in p)), f"varnishstat of {who} ends at q: {t.page()}")
    alike(report, terminals, tools, v)
    g6(report, terminals, tools, v)


def alike(report, terminals, tools, v):
    """Both at the same time: the same head, counters and values, as soon as both have looked since something changed."""
    both = [terminals.open(f"both-{who}", str(tools[who] / "varnishstat"), "-n", str(v.n)) for who in ("varnish", "us")]
    seen = {}

    def same(part):
        seen[part.__name__] = theirs, ours = [part(t.page()) for t in both]
        return theirs == ours and len(theirs) > 3

    def head(page):
        return forms(page[:4])

    def names(page):
        return list(rows(page))

    def values(page):
        moving = ("uptime", "MAIN.shm", "MAIN.threads", "MAIN.n_", "SMA")
        return {n: x for n, x in rows(page).items() if not any(m in n for m in moving)}

    def last(page):
        # A gauge of a store may be above 0 for a moment that only one of them sees: it moves the others up.
        names = [line.split()[0] for line in forms(page)[4:-4] if line]
        return [name for name in names if not name.startswith("SMA.")][-LAST_COUNTERS:]
    for part in (head, names, values):
        report.check(until(LIMIT, lambda: same(part), 0.2), f"the same {part.__name__}: {seen[part.__name__]}")
    for t in both:
        t.key("End")
        report.check(t.shows(lambda p: "^^^ NAME" in p[3]), f"varnishstat at its end: {t.page()}")
    # A counter that comes later stays below the end of the one that had not seen it.
    report.check(until(LIMIT, lambda: [t.key("End") for t in both] and same(last), 0.2), f"the same last counters: {seen['last']}")
    for t in both:
        t.key("q")


def g6(report, terminals, tools, v):
    """The figures that the field looks at: three hit rates, requests, hits, misses, the backend's connections."""
    t = terminals.open("stat-rate", str(tools["us"] / "varnishstat"), "-n", str(v.n))
    page = t.shows(lambda page: re.search(r"Hitrate n: +1 +1 +1$", page[0]))
    report.check(page and re.match(r"Uptime child: +\d+\+\d\d:\d\d:\d\d ", page[1]), f"uptimes and rates: {t.page()[:3]}")
    before = counters(v)
    for _ in range(10):
        traffic.one(v.address, traffic.get(*[b"/rate"] * 10, auth=b""))
    # The first of all counted as nothing: after that what was asked for was a hit, but for the first.
    page = t.shows(lambda page: float(page[1].split()[-1]) > 0)
    rates = [float(x) for x in page[1].split()[-3:]] if page else []
    report.check(rates and max(rates) <= 0.995 and min(rates) > 0, f"rates of {rates} after 99 hits and a miss")
    t.key("+")
    report.check(t.shows(lambda page: "Refresh interval set to 1.1 seconds." in page[2]), f"the interval is told: {t.page()[:3]}")
    is_counted = lambda now: [now[name] - before[name] for name in ("cache_hit", "cache_miss")] == [99, 1]
    counted, now = settled(LIMIT, lambda: counters(v), is_counted)
    report.check(counted, f"hits and misses: {before} {now}")
    shown = t.shows(lambda page: rows(page).get("MAIN.client_req") == str(now["client_req"]))
    figures = rows(shown or [])
    for name in ("sess_conn", "client_req", "cache_hit", "cache_miss", "backend_conn", "backend_reuse", "backend_recycle"):
        report.check(figures.get(f"MAIN.{name}") == str(now[name]), f"{name} on the screen: {figures.get(f'MAIN.{name}')}, not {now[name]}")
    report.check(now["fetch_chunked"] == 0 and "MAIN.fetch_chunked" not in figures, "a counter that is zero is not shown")
    t.key("q")


def counters(v):
    out = subprocess.run(["/usr/bin/varnishstat", "-n", str(v.n), "-1", "-f", "MAIN.*"], capture_output=True, text=True).stdout
    return {line.split()[0].removeprefix("MAIN."): int(line.split()[1]) for line in out.splitlines()}


def top(report, terminals, tools, v):
    pages = {}
    for who, folder in tools.items():
        t = terminals.open(f"top-{who}", str(folder / "varnishtop"), "-n", str(v.n), "-d", "-i", "ReqURL")
        pages[who] = report.check(t.shows(lambda page: "(EOF)" in page[0]), f"varnishtop of {who} shows all: {t.page()}") and t.page()
        t.key("q")
        report.check(t.shows(lambda p: any("ended with 0" in line for line in p)), f"varnishtop of {who} ends at q: {t.page()}")
    if all(pages.values()):
        report.check(pages["varnish"] == pages["us"], f"the same entries:\n{pages['varnish']}\n{pages['us']}")
    t = terminals.open("top-by", str(tools["us"] / "varnishtop"), "-n", str(v.n), "-d", "--by", "client")
    report.check(t.shows(lambda page: any(re.match(r" +\d+ +\d+ +[\d.]+% 127.0.0.1$", line) for line in page)), f"--by client: {t.page()}")
    t.key("q")


PROFILES = ["size", "Besize", "responsetime", "Beresptime", "reqbodytime", "Bereqtime", "BerespBodytime", "ReqAcct::4:1:5"]


def hist(report, terminals, tools, v):
    """The pictures, axes and heads of all profiles."""
    open_ones = {(who, p): terminals.open(f"hist-{who}-{i}", str(folder / "varnishhist"), "-n", str(v.n), "-d", "-P", p)
                 for who, folder in tools.items() for i, p in enumerate(PROFILES)}
    for p in PROFILES:
        both = [open_ones[who, p] for who in tools]
        pages = lambda: [t.page() for t in both]
        # A page may be seen while it is drawn.
        same = until(LIMIT, lambda: (seen := pages())[0] == seen[1] and seen[0][0].endswith("EOF"))
        report.check(same, f"varnishhist -P {p}:\n" + "\n".join("\n".join(page) for page in pages()))
        for who, t in zip(tools, both):
            t.key("q")
            report.check(t.shows(lambda page: any("ended with 0" in line for line in page)), f"varnishhist of {who} ends at q: {t.page()}")


def adm(report, terminals, tools, v):
    """Varnishadm at a terminal: its prompt, completion, history, a text that goes on, the end."""
    t = terminals.open("adm", str(tools["us"] / "varnishadm"), "-n", str(v.n))
    report.check(t.shows(lambda p: any(line.startswith("varnish>") for line in p)), f"varnishadm prompts: {t.page()}")
    t.key("vcl.li", "Tab")
    report.check(t.shows(lambda p: any(line.startswith("varnish> vcl.list") for line in p)), f"Tab completes: {t.page()}")
    t.key("Enter")
    report.check(t.shows(lambda p: any(re.match(r"active .* boot$", line) for line in p)), f"the reply: {t.page()}")
    t.key("pin", "Tab", "Enter")
    report.check(t.shows(lambda p: any(line.startswith("PONG ") for line in p)), f"ping: {t.page()}")
    t.key("Up")
    report.check(t.shows(lambda p: p and [line for line in p if line][-1].startswith("varnish> ping")), f"Up is history: {t.page()}")
    t.key("C-u", "param.set default_ttl 33", "Enter")
    report.check(until(LIMIT, lambda: "33.000" in v.cli.ask("param.show default_ttl")), f"a parameter is set: {t.page()}")
    t.key("quit", "Enter")
    report.check(t.shows(lambda p: any("ended with 0" in line for line in p)), f"quit: {t.page()}")


def hung_up(report, terminals, tools, v):
    """A terminal that goes away ends them: no panic, no spinning."""
    for name, args in (("varnishstat", []), ("varnishtop", []), ("varnishhist", []), ("varnishlog", []), ("varnishncsa", []), ("varnishadm", [])):
        log = v.dir / f"{name}.stderr"
        session = f"hup-{name}"
        terminals.tmux("new-session", "-d", "-s", session, "-x", "100", "-y", "20",
                       f"exec sh -c \"trap '' HUP; '{tools['us'] / name}' -n '{v.n}' {' '.join(args)}; echo $? >'{log}'\"")
        t = Terminal(terminals, session)
        if not until(LIMIT, lambda: subprocess.run(["ps", "-o", "pid=", "--ppid", pane(t)], capture_output=True, text=True).stdout.split()):
            report.check(False, f"{name} starts")
            continue
        pid = t.pid()
        # It is at work when it waits for its terminal or the log, with its signals set.
        t.shows(lambda page: any(page) or name in ("varnishlog", "varnishncsa"))
        terminals.tmux("kill-session", "-t", session)
        traffic.one(v.address, traffic.get(b"/after"))
        ended = until(LIMIT, lambda: (traffic.one(v.address, traffic.get(b"/after")), log.exists() and log.read_text().strip())[1], 0.1)
        report.check(ended and int(ended) not in (101, 134), f"{name} after its terminal is gone: status {ended}")
        if not ended:
            os.kill(pid, signal.SIGKILL)


def pane(t):
    return t.tmux("list-panes", "-t", t.session, "-F", "#{pane_pid}").strip() or "0"


def run(report, varnishd, tools):
    with traffic.origin() as origin, Varnishd(varnishd, vcl=traffic.vcl(origin), storage="malloc,20m") as v, Terminals() as terminals:
        for _ in range(2):
            traffic.send(v.address)
        subprocess.run(["/usr/bin/varnishlog", "-n", str(v.n), "-d", "-g", "session", "-q", "ReqURL eq '/last'"], capture_output=True)
        for story in (stat, top, hist, adm, hung_up):
            story(report, terminals, tools, v)
